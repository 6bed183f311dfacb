"""Makes small random HDF5 files, Zarr v2 stores and archives, and a numpy model of each variable in them.

All choices come from the random.Random that is given, so a seed makes the same file again. What is made is read back with
h5py or zarr-python: that is the model.
"""
import ctypes
import itertools
import zlib

import h5py
import numcodecs
import numpy as np
import zarr

LIBVERS = [("earliest", "latest"), ("earliest", "v108"), ("v108", "v110"), ("latest", "latest")]
ALLOCATIONS = {"default": h5py.h5d.ALLOC_TIME_DEFAULT, "early": h5py.h5d.ALLOC_TIME_EARLY, "late": h5py.h5d.ALLOC_TIME_LATE,
               "incr": h5py.h5d.ALLOC_TIME_INCR}
FILL_TIMES = {"ifset": h5py.h5d.FILL_TIME_IFSET, "alloc": h5py.h5d.FILL_TIME_ALLOC, "never": h5py.h5d.FILL_TIME_NEVER}
PLUGINS = {307: (1, 9), 32001: None, 32004: (0, 4096), 32015: (1, 6)}


def libhdf5():
    """The library that h5py has loaded: it does not offer an undefined fill value itself."""
    path = next(line.split()[-1] for line in open("/proc/self/maps") if "/libhdf5_" in line and "_hl" not in line)
    library = ctypes.CDLL(path)
    library.H5Pset_fill_value.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    return library


# --- types and values


class Type:
    """How a variable's elements are stored, and as what numpy holds them. `inner` are the dimensions of an array type."""

    def __init__(self, rng, is_zarr=False):
        self.rng, self.inner, self.tid = rng, (), None
        self.bits = None  # of integers that do not use all bits
        choices = ["int"] * 5 + ["float"] * 4 + ["bool", "complex", "compound", "compound", "text", "opaque"]
        choices += ["unicode", "time", "vlen"] if is_zarr else ["enum", "enum", "array", "precision", "vlen", "long double"]
        self.kind = rng.choice(choices)
        order = rng.choice("<<<>")
        if self.kind in ("int", "array"):
            self.dtype = np.dtype(order + rng.choice("iu") + rng.choice("1248"))
            if self.kind == "array":
                self.inner = rng.choice([(2,), (3, 2), (1,)])
                self.tid = h5py.h5t.array_create(h5py.h5t.py_create(self.dtype), self.inner)
        elif self.kind == "float":
            self.dtype = np.dtype(order + "f" + rng.choice("248"))
        elif self.kind == "long double":
            self.dtype = np.dtype("<f16")
        elif self.kind == "bool":
            self.dtype = np.dtype("?")
        elif self.kind == "enum":
            base = rng.choice(["<i1", ">u2", "<i4"])
            self.dtype = h5py.enum_dtype({"ZERO": 0, "ONE": 1, "SEVEN": 7}, base)
        elif self.kind == "complex":
            self.dtype = np.dtype(order + "c" + rng.choice(["8", "16"]))
        elif self.kind == "compound":
            self.dtype = self.compound(rng, 0 if is_zarr else 1, is_zarr)
        elif self.kind == "text":
            self.dtype = np.dtype(f"S{rng.choice([1, 3, 8, 17])}")
        elif self.kind == "unicode":
            self.dtype = np.dtype(f"{order}U{rng.choice([1, 5])}")
        elif self.kind == "time":
            self.dtype = np.dtype(f"{order}{rng.choice('mM')}8[{rng.choice(['s', 'ns', 'D'])}]")
        elif self.kind == "opaque":
            self.dtype = np.dtype(f"V{rng.choice([1, 5, 12])}")
        elif self.kind == "precision":
            self.dtype = np.dtype("<" + rng.choice("iu") + rng.choice("248"))
            self.tid = h5py.h5t.py_create(self.dtype).copy()
            size = 8 * self.dtype.itemsize
            self.bits = rng.randrange(3, size)
            self.tid.set_precision(self.bits)
            self.tid.set_offset(rng.randrange(0, size - self.bits + 1))
        else:
            self.dtype = np.dtype(object) if is_zarr else h5py.string_dtype(rng.choice(["utf-8", "ascii"]))
        if self.tid is None and not is_zarr:
            self.tid = h5py.h5t.py_create(self.dtype, logical=True)

    @classmethod
    def compound(cls, rng, depth, is_zarr):
        members = []
        for i in range(rng.randrange(1, 4)):
            kind = rng.choice(["<i4", "<f8", ">i2", "<u1", "S3", ">f4"] + ["nested", "array", "<c8"] * (not is_zarr))
            if kind == "nested":
                kind = cls.compound(rng, depth - 1, is_zarr) if depth else "<i8"
            members.append((f"m{i}", "<i2", (2, 2)) if kind == "array" else (f"m{i}", kind))
        return np.dtype(members, align=rng.random() < 0.3 and not is_zarr)

    @property
    def is_number(self):
        return self.kind in ("int", "float", "precision", "array")

    @property
    def is_text_object(self):
        return self.kind == "vlen"

    def values(self, shape):
        """Random values, some that compress well and some that do not."""
        shape = tuple(shape) + self.inner
        if self.kind == "vlen":
            count = int(np.prod(shape))
            texts = np.empty(count, object)
            texts[:] = [self.rng.choice(["", "a", "öß", "some longer text", "x" * 40, str(self.rng.random())]) if
                        self.dtype.metadata is None or h5py.check_string_dtype(self.dtype).encoding == "utf-8" else
                        self.rng.choice(["", "a", "ascii text"]) for _ in range(count)]
            return texts.reshape(shape)
        return self.fixed(np.random.default_rng(self.rng.randrange(1 << 30)), self.dtype, shape)

    def fixed(self, random_, dtype, shape):
        if dtype.names:
            made = np.zeros(shape, dtype)
            for name in dtype.names:
                made[name] = self.fixed(random_, dtype[name].base, tuple(shape) + dtype[name].shape)
            return made
        count = int(np.prod(shape))
        if h5py.check_enum_dtype(dtype):
            return random_.choice(np.array([0, 1, 7], dtype.base), count).reshape(shape).astype(dtype)
        if dtype.kind == "S":
            letters = random_.integers(97, 100, (count, dtype.itemsize), "u1")
            return letters.view(dtype).reshape(shape) if count else np.zeros(shape, dtype)
        if dtype.kind == "U":
            return np.array(random_.choice(["", "a", "öß", "\U0001f600b"], count), dtype).reshape(shape)
        if dtype.kind == "b":
            return random_.integers(0, 2, count).astype("?").reshape(shape)
        style = self.rng.randrange(4)
        if dtype.kind == "V":
            return np.frombuffer(random_.bytes(count * dtype.itemsize), dtype, count).reshape(shape)
        if dtype.kind in "iu" and self.bits:
            low = -(1 << (self.bits - 1)) if dtype.kind == "i" else 0
            high = (1 << (self.bits - (dtype.kind == "i"))) - 1
            return random_.integers(low, high, count, dtype.newbyteorder("="), endpoint=True).astype(dtype).reshape(shape)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            low, high = (info.min, info.max) if style == 0 else (0, 5)
            if style == 1:
                return (np.arange(count) // 3 % 100).astype(dtype).reshape(shape)
            return random_.integers(low, high, count, dtype.newbyteorder("="), endpoint=True).astype(dtype).reshape(shape)
        if dtype.kind in "mM":
            return random_.integers(0, 10**6, count).astype(dtype.str.replace(">", "<")).astype(dtype).reshape(shape)
        if dtype.kind == "c":
            return (random_.normal(size=count) + 1j * (np.arange(count) // 4)).astype(dtype).reshape(shape)
        made = random_.normal(size=count) if style else np.arange(count) // 5
        made = made.astype(dtype)
        if style == 3 and count:
            made[random_.integers(0, count, max(1, count // 6))] = random_.choice([np.nan, np.inf, -np.inf, -0.0])
        return made.reshape(shape)

    def fill(self):
        """One value, as a fill value."""
        if self.kind in ("int", "array") and self.rng.random() < 0.5:
            return np.array(self.rng.choice([1, 7, 99]), self.dtype)
        if self.kind == "float" and self.rng.random() < 0.6:
            return np.array(self.rng.choice([np.nan, -999.0, 9.96921e36 if self.dtype.itemsize > 2 else 1.5]), "f8").astype("f4" if self.dtype.itemsize > 2 else "f2").astype(self.dtype)
        return self.values((1,)).reshape(-1)[0:1].reshape(())


class Variable:
    """What a variable should hold. `defined`: where not, nothing says what a reader sees."""

    def __init__(self, name, type_, shape, chunks, text):
        self.name, self.type, self.chunks, self.text = name, type_, chunks, text
        self.shape = tuple(shape)
        self.array, self.defined = None, None
        self.fill = None  # what is not stored reads as this; None: undefined
        self.maxshape = self.shape
        self.can_write = self.can_unlink = self.can_recode = True
        self.lossy = False
        self.has_known_padding = True
        self.is_grown = self.is_filtered = self.is_recoded = False
        self.can_compact = True
        self.attributes = {}

    @property
    def full_chunks(self):
        return tuple(self.chunks or self.shape) + self.type.inner

    @property
    def full_shape(self):
        return self.shape + self.type.inner

    def cells(self):
        shape, chunks = self.full_shape, self.full_chunks
        return itertools.product(*(range(-(-n // max(c, 1))) for n, c in zip(shape, chunks)))

    def inside(self, cell):
        return tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(cell, self.full_chunks, self.full_shape))

    def resize(self, shape):
        array = np.zeros(tuple(shape) + self.type.inner, self.array.dtype)
        defined = np.zeros(array.shape, bool)
        if self.fill is not None:
            array[...] = self.fill
            defined[...] = True
        kept = tuple(slice(min(a, b)) for a, b in zip(array.shape, self.array.shape))
        if not self.has_known_padding:  # the elements of edge chunks that were outside of the shape have any value
            defined[tuple(slice(-(-n // c) * c) for n, c in zip(self.array.shape, self.full_chunks))] = False
        array[kept], defined[kept] = self.array[kept], self.defined[kept]
        self.shape, self.array, self.defined = tuple(shape), array, defined


# --- HDF5


def pick_shape(rng, is_zarr=False):
    rank = rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
    most = {0: 1, 1: 300, 2: 24, 3: 9, 4: 5}[rank]
    shape = [rng.randrange(1, most + 1) for _ in range(rank)]
    if rank and rng.random() < 0.04:
        shape[rng.randrange(rank)] = 0
    chunks = [max(1, rng.choice([n, n // 2, n // 3 + 1, 1 + rng.randrange(max(n, 1)), n - 1])) for n in shape]
    while np.prod([-(-n // c) for n, c in zip(shape, chunks)]) > 60:
        at = rng.randrange(rank)
        chunks[at] = min(max(shape[at], 1), chunks[at] * 2 + 1)
    return shape, chunks


def add_filters(rng, dcpl, type_, chunks, variable):
    """A random chain; returns its description."""
    told = []
    size = type_.dtype.itemsize if type_.kind != "vlen" else 16
    count = int(np.prod(chunks)) * int(np.prod(type_.inner or (1,)))
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3])):
        which = rng.choice(["deflate", "deflate", "shuffle", "shuffle", "fletcher32", "szip", "nbit", "scaleoffset", "lzf", "plugin"])
        if any(which in done for done in told) or (type_.kind == "vlen" and which not in ("deflate", "fletcher32")):
            continue
        last = told[-1] if told else ""
        if last == "lzf":
            break  # libhdf5 mixes up which chunks it was left out for, where another filter follows
        if any(w in t for t in told for w in ("szip", "nbit", "scaleoffset", "lzf", "plugin", "deflate")) and which in ("szip", "nbit", "scaleoffset", "shuffle"):
            continue  # they want elements
        if which == "deflate":
            level = rng.randrange(0, 10)
            dcpl.set_deflate(level)
            which += str(level)
        elif which == "shuffle":
            dcpl.set_shuffle()
        elif which == "fletcher32":
            dcpl.set_fletcher32()
        elif which == "szip":
            if size not in (1, 2, 4, 8) or not type_.is_number or type_.kind == "precision" or last or count < 32:
                continue
            dcpl.set_szip(rng.choice([4, 32]), rng.choice([8, 16, 32]))
        elif which == "nbit":
            if type_.kind not in ("int", "precision", "float", "compound") or last or size == 16:
                continue
            dcpl.set_filter(5, h5py.h5z.FLAG_OPTIONAL, ())
            variable.can_write = False  # it is only read
        elif which == "scaleoffset":
            if type_.kind not in ("int", "float") or last or size not in (1, 2, 4, 8) or type_.dtype.str[1:] == "f2":
                continue
            if type_.kind == "float":
                dcpl.set_scaleoffset(h5py.h5z.SO_FLOAT_DSCALE, rng.randrange(0, 4))
                variable.lossy = True
            else:
                dcpl.set_scaleoffset(h5py.h5z.SO_INT, 0)
            variable.can_write = False
        elif which == "lzf":
            if type_.kind == "vlen":
                continue
            dcpl.set_filter(32000, h5py.h5z.FLAG_OPTIONAL, ())
        else:
            number = rng.choice(list(PLUGINS))
            if not h5py.h5z.filter_avail(number):
                continue
            if number == 32001:
                values = (2, 2, size, int(min(count * size, 1 << 30)), rng.randrange(1, 9), rng.randrange(0, 2), rng.randrange(0, 6))
            else:
                values = (rng.choice(PLUGINS[number]),)
            dcpl.set_filter(number, rng.choice([h5py.h5z.FLAG_OPTIONAL, h5py.h5z.FLAG_MANDATORY]), values)
            which = f"plugin{number}{values}"
        told.append(which)
    return told


def fletcher32(data):
    """HDF5's checksum: of 16-bit words, the high byte first."""
    words = np.frombuffer(data + bytes(len(data) % 2), ">u2").astype(np.uint64)
    if len(data) % 2:
        words[-1] = data[-1] << 8
    one = two = 0
    for start in range(0, len(words), 360):
        for word in words[start:start + 360].tolist():
            one += word
            two += one
        one = (one & 0xFFFF) + (one >> 16)
        two = (two & 0xFFFF) + (two >> 16)
    one = (one & 0xFFFF) + (one >> 16)
    two = (two & 0xFFFF) + (two >> 16)
    return ((two << 16) | one).to_bytes(4, "little")


def encode(data, size, chain, mask):
    """One chunk, without the filters whose bit is set."""
    for bit, name in enumerate(chain):
        if mask >> bit & 1:
            continue
        if name == "shuffle":
            whole = len(data) // size * size
            data = np.frombuffer(data[:whole], "u1").reshape(-1, size).T.tobytes() + data[whole:]
        elif name == "fletcher32":
            data += fletcher32(data)
        else:
            data = zlib.compress(data, int(name[-1]))
    return data


def random_slices(rng, shape):
    made = []
    for n in shape:
        begin = rng.randrange(n)
        made.append(slice(begin, rng.randrange(begin, n) + 1))
    return tuple(made)


def add_attributes(rng, target, variable, set_one):
    for name, value in [("units", "m s-1"), ("long_name", "größe"), ("valid_range", np.array([0, 5], "<i2")), ("scale", 0.5),
                        ("count", np.int64(7)), ("flags", np.array([1.5, np.nan], ">f4"))]:
        if rng.random() < 0.25:
            set_one(name, value)
            variable.attributes[name] = value


def add_hdf5_variable(rng, file, name, library, libver):
    type_ = Type(rng)
    shape, chunks = pick_shape(rng)
    rank = len(shape)
    layout = rng.choice(["chunked"] * 8 + ["contiguous", "compact"]) if rank else rng.choice(["contiguous", "compact"])
    if layout != "chunked" and 0 in shape:
        shape = [max(n, 1) for n in shape]
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    maxshape = list(shape)
    variable = Variable(name, type_, shape, tuple(chunks) if layout == "chunked" else None, "")
    filters = []
    if layout == "chunked":
        unlimited = rng.choice(["none", "none", "one", "one", "some", "all", "bounded"])
        for i in range(rank):
            if unlimited == "all" or (unlimited == "some" and rng.random() < 0.5):
                maxshape[i] = None
            elif unlimited == "bounded":
                maxshape[i] = shape[i] + rng.randrange(0, 5)
        if unlimited == "one":
            maxshape[rng.randrange(rank)] = None
        for i in range(rank):
            if shape[i] == 0 and maxshape[i] == 0:
                maxshape[i] = None
            if maxshape[i] is not None:
                chunks[i] = min(chunks[i], max(maxshape[i], 1))
        variable.chunks = tuple(chunks)
        dcpl.set_chunk(tuple(chunks))
        filters = add_filters(rng, dcpl, type_, chunks, variable)
    elif layout == "compact":
        dcpl.set_layout(h5py.h5d.COMPACT)
    allocation = rng.choice(list(ALLOCATIONS)) if layout == "chunked" else "default"
    if layout == "contiguous":
        allocation = rng.choice(["default", "early", "late"])
    dcpl.set_alloc_time(ALLOCATIONS[allocation])
    fill_time = rng.choice(["ifset", "ifset", "ifset", "alloc", "never"]) if type_.kind != "vlen" else "ifset"
    dcpl.set_fill_time(FILL_TIMES[fill_time])
    fill_kind = rng.choice(["default", "default", "set", "set", "undefined", "netcdf"])
    fill = None
    if 0 in shape and fill_kind == "undefined":
        fill_kind = "default"
    if type_.kind in ("vlen", "array", "long double", "precision") or fill_kind == "undefined" and fill_time == "alloc":
        fill_kind = "default"
    if fill_kind in ("set", "netcdf"):
        fill = type_.fill()
        library.H5Pset_fill_value(dcpl.id, type_.tid.id, fill.tobytes())  # h5py's own stores the address of text
    elif fill_kind == "undefined":
        library.H5Pset_fill_value(dcpl.id, type_.tid.id, None)
    space = h5py.h5s.create_simple(tuple(shape), tuple(h5py.h5s.UNLIMITED if n is None else n for n in maxshape)) if rank else \
        h5py.h5s.create(h5py.h5s.SCALAR)
    try:
        dataset = h5py.Dataset(h5py.h5d.create(file.id, name.encode(), type_.tid, space, dcpl))
    except ValueError:  # libhdf5 does not take these filters for this type: another one
        return add_hdf5_variable(rng, file, name, library, libver)
    if fill_kind == "netcdf":
        dataset.attrs.create("_FillValue", fill, dtype=type_.dtype)
    variable.maxshape = tuple(maxshape)
    variable.is_filtered = bool(filters)
    one_late = [i for i, n in enumerate(maxshape) if n is None]
    if libver[0] == "latest" and len(one_late) == 1 and one_late[0] != 0 and layout == "chunked":
        variable.can_compact = False  # item 1
    variable.late_plugin = any("plugin" in f for f in filters)
    is_unsure = fill_kind == "undefined" or fill_time == "never"
    variable.defined = np.zeros(variable.full_shape, bool) if is_unsure else np.ones(variable.full_shape, bool)

    # Content.
    ways = ["whole"] * 4 + ["partial", "partial", "empty"]
    can_be_direct = layout == "chunked" and 0 not in shape and type_.kind not in ("vlen", "precision", "array", "enum", "bool") and \
        all(f[:7] in ("shuffle", "deflate", "fletche") for f in filters) and not (type_.kind == "compound")
    if can_be_direct:
        ways += ["direct"] * 3
    way = rng.choice(ways)
    if is_unsure and filters:
        way = "whole"  # libhdf5 leaves garbage in chunks that it allocates, which no filter decodes
    elif is_unsure and (way == "empty" or not rank):
        way = "whole"  # libhdf5 refuses to read what has neither data nor a fill value
    elif not rank and way == "partial":
        way = "whole"  # a single value has no part, and space that was allocated and never written holds any bytes
    if 0 in shape:
        way = "empty"
    if way == "whole":
        if rank:
            dataset[...] = type_.values(shape)
        else:
            dataset[()] = type_.values(()).reshape(())[()] if not type_.inner else type_.values(())
        variable.defined[...] = True
    elif way == "partial" and rank:
        for _ in range(rng.randrange(1, 4)):
            place = random_slices(rng, shape)
            dataset[place] = type_.values([s.stop - s.start for s in place])
            variable.defined[place] = True
    elif way == "direct":
        variable.has_known_padding = False
        for cell in variable.cells():
            if rng.random() < 0.7:
                mask = rng.randrange(1 << len(filters))
                part = type_.values(chunks)
                dataset.id.write_direct_chunk(tuple(i * c for i, c in zip(cell, chunks)),
                                              encode(part.tobytes(), type_.dtype.itemsize, filters, mask), mask)
                variable.defined[variable.inside(cell)] = True
    # libhdf5 itself leaves zeros there and shows them after a growth, whatever the fill value.
    if way == "whole" and allocation == "late" and not filters:
        variable.has_known_padding = False
    variable.is_stored = way != "empty"
    add_attributes(rng, dataset, variable, dataset.attrs.__setitem__)
    if rng.random() < 0.2:  # two names that a reader that takes Latin-1 for UTF-8 may mix up
        for attribute in ("d\xe9bit".encode("latin-1"), "d\xe9bit".encode()):
            space_of_one = h5py.h5s.create(h5py.h5s.SCALAR)
            h5py.h5a.create(dataset.id, attribute, h5py.h5t.STD_I32LE, space_of_one).write(np.array(len(attribute), "<i4"))
    if fill_kind == "undefined" or fill_time == "never":
        variable.fill = None
    else:
        variable.fill = fill if fill is not None else ("" if type_.kind == "vlen" else np.zeros((), type_.dtype))
    variable.can_unlink = fill_kind == "netcdf" and variable.fill is not None
    variable.has_known_padding &= variable.fill is not None
    variable.allocation, variable.layout = allocation, layout
    variable.text = (f"{name}: {type_.kind} {type_.dtype if not type_.dtype.names else type_.dtype.descr} {type_.inner or ''} "
                     f"{f'bits {type_.bits}' if type_.bits else ''} shape {shape} max {maxshape} {layout} "
                     f"{chunks if layout == 'chunked' else ''} filters {filters} alloc {allocation} fill time {fill_time} "
                     f"fill {fill_kind} {fill if fill is not None else ''} content {way}")
    return variable


def read_hdf5_variable(file, variable):
    return file[variable.name][()] if not variable.type.is_text_object else np.asarray(file[variable.name].asstr()[()], object)


def make_hdf5(rng, path, library):
    libver = rng.choice(LIBVERS)
    variables = []
    with h5py.File(path, "w", libver=libver, track_order=rng.random() < 0.3, userblock_size=rng.choice([0, 0, 0, 512])) as file:
        for number in range(rng.choice([1, 2, 2, 3])):
            name = rng.choice(["v", "g/v", "größe", "a b"]) + str(number)
            if "/" in name:
                file.require_group("g")
            variables.append(add_hdf5_variable(rng, file, name, library, libver))
    with h5py.File(path, "r") as file:
        for variable in variables:
            array = read_hdf5_variable(file, variable)
            if variable.type.dtype.kind == "S":
                array = np.asarray(array, variable.type.dtype)
            variable.array = np.asarray(array).reshape(variable.full_shape)
            variable.attributes = attributes_of(file[variable.name])
    return f"hdf5 {libver[0]}", variables


def attributes_of(dataset):
    return {name: value for name, value in dataset.attrs.items()}


# --- Zarr


def zarr_codecs(rng, type_, variable):
    size = type_.dtype.itemsize
    compressor = rng.choice([
        None, numcodecs.Zlib(rng.randrange(0, 10)), numcodecs.GZip(5), numcodecs.BZ2(1), numcodecs.Zstd(3), numcodecs.LZ4(1),
        numcodecs.LZMA(preset=1), numcodecs.Blosc("lz4", 5, 1), numcodecs.Blosc("zstd", 3, 2), numcodecs.Blosc("blosclz", 9, 0),
        numcodecs.Blosc("zlib", 1, -1)])
    filters = []
    if type_.kind != "vlen":
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            which = rng.choice(["shuffle", "delta", "crc32", "adler32", "fixed", "packbits", "quantize"])
            if filters and which not in ("crc32", "adler32"):
                continue
            if which == "shuffle":
                filters.append(numcodecs.Shuffle(size))
            elif which == "delta" and type_.kind == "int":
                filters.append(numcodecs.Delta(type_.dtype.str))
            elif which == "crc32":
                filters.append(numcodecs.CRC32())
            elif which == "adler32":
                filters.append(numcodecs.Adler32())
            elif which == "fixed" and type_.kind == "int" and type_.dtype.kind == "i" and size == 4:
                filters.append(numcodecs.FixedScaleOffset(offset=0, scale=1, dtype=type_.dtype.str, astype="<f8"))
            elif which == "packbits" and type_.kind == "bool":
                filters.append(numcodecs.PackBits())
            elif which == "quantize" and type_.kind == "float" and size > 2:
                filters.append(numcodecs.Quantize(rng.randrange(1, 5), type_.dtype.str))
                variable.lossy = True
                variable.can_write = False
    return compressor, filters


def make_zarr(rng, path, is_archive=False):
    store = zarr.ZipStore(str(path), mode="w", compression=rng.choice([0, 8])) if is_archive else zarr.DirectoryStore(str(path))
    group = zarr.group(store, overwrite=not is_archive)
    variables = []
    for number in range(rng.choice([1, 2, 2, 3])):
        name = rng.choice(["v", "g/v", "größe", "a b"]) + str(number)
        type_ = Type(rng, True)
        shape, chunks = pick_shape(rng, True)
        variable = Variable(name, type_, shape, tuple(chunks), "")
        compressor, filters = zarr_codecs(rng, type_, variable)
        order = rng.choice("CCF")
        fill = rng.choice([None, 0, "set"])
        if fill == "set":
            fill = type_.fill()[()] if type_.kind not in ("compound", "opaque", "vlen", "time", "text") else 0
        if type_.kind in ("vlen", "compound", "opaque", "text", "unicode", "time", "complex") and fill is not None:
            fill = {"vlen": "", "text": b"", "unicode": "", "complex": 0}.get(type_.kind)
        if type_.kind == "float" and fill == 0:
            fill = 0.0  # zarr-python does not store -0.0
        options = {"object_codec": numcodecs.VLenUTF8()} if type_.kind == "vlen" else {}
        separator = rng.choice("../")
        array = group.create_dataset(name, shape=tuple(shape), chunks=tuple(chunks) or True, dtype=type_.dtype, compressor=compressor,
                                     filters=filters or None, order=order, fill_value=fill, dimension_separator=separator,
                                     write_empty_chunks=rng.random() < 0.7 or is_archive, **options)
        variable.chunks = tuple(array.chunks)
        way = rng.choice(["whole", "whole", "whole", "partial", "empty"])
        if 0 in shape:
            way = "empty"
        is_unsure = fill is None
        variable.defined = np.zeros(variable.full_shape, bool) if is_unsure else np.ones(variable.full_shape, bool)
        if way == "whole":
            array[...] = type_.values(shape)
            variable.defined[...] = True
        elif way == "partial" and shape and not is_archive:  # an archive cannot replace a member
            for _ in range(rng.randrange(1, 3)):
                place = random_slices(rng, shape)
                array[place] = type_.values([s.stop - s.start for s in place])
                variable.defined[place] = True
        variable.array = np.asarray(array[...], array.dtype).reshape(variable.full_shape)
        variable.fill = None if fill is None else np.asarray(fill, type_.dtype)
        if type_.kind == "vlen" and fill is not None:
            variable.fill = fill
        variable.can_unlink = fill is not None
        variable.has_known_padding = False
        told = [("units", "m"), ("n", 3), ("list", [1, 2.5]), ("nested", {"a": [None, True]})]
        if told := {key: value for key, value in told if rng.random() < 0.25}:
            array.attrs.put(told)
        variable.attributes = dict(array.attrs)
        variable.allocation, variable.layout, variable.is_stored = "", "chunked", way != "empty"
        variable.late_plugin = False
        variable.maxshape = tuple(None for _ in shape)
        variable.text = (f"{name}: {type_.kind} {type_.dtype} shape {shape} chunks {variable.chunks} compressor {compressor} filters "
                         f"{filters} order {order} fill {fill!r} separator {separator} content {way}")
        variables.append(variable)
    if rng.random() < 0.3 and not is_archive:
        zarr.consolidate_metadata(store)
    if is_archive:
        store.close()
    return "zip" if is_archive else "zarr", variables


def make(rng, folder, number, library, kinds):
    """(path, description, variables) of a new random source."""
    kind = rng.choice(kinds)
    path = folder / f"{number}.{kind}"
    if kind == "hdf5":
        while True:
            try:
                text, variables = make_hdf5(rng, path, library)
                break
            except OSError:
                path.unlink()  # libhdf5 cannot read what it made, for instance garbage in chunks that it did not fill: another one
    else:
        text, variables = make_zarr(rng, path, kind == "zip")
    return path, text, variables
