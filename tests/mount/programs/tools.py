"""What programs of PyPI write at their defaults, and how each compares two of its own files: run by test_tools.py in the
venv of the tool.

    tools.py NAME write PATH            prints the versions of its packages
    tools.py NAME same PATH OTHER...    prints for each other file how it differs from the first, null for not at all
    tools.py NAME zarr PATH STORE...    the same by zarr-python, of stores that show the variables of an HDF5 file

A specimen has write(path), and read(path), whose result is compared member by member, types included; where the tool can
compare two of its objects, same(one, other) does that instead and returns nothing or raises. This file needs numpy alone.
"""
import importlib.metadata
import json
import pathlib
import sys
import warnings

import numpy as np

SPECIMENS = {}
RNG = np.random.default_rng(42)


def specimen(venv, ending, *packages, zarr=0):
    """A class decorator. `zarr`: the version of Zarr that it writes, 0 for HDF5."""
    def add(kind):
        kind.name, kind.venv, kind.ending, kind.packages, kind.zarr = kind.__name__, venv, ending, packages, zarr
        SPECIMENS[kind.name] = kind
        return kind
    return add


class Specimen:
    reads_hdf5, reads_zarr = True, False

    def read(self, path):
        raise NotImplementedError

    def same(self, one, other):
        found = difference(one, other)
        if found:
            raise AssertionError(found)


def difference(one, other, path=""):
    """The first difference of what read() returns, in words; none where both are the same."""
    where = path or "/"
    if type(one) is not type(other):
        return f"{where}: {type(one).__name__} {str(one)[:60]}, {type(other).__name__} {str(other)[:60]}"
    if isinstance(one, dict):
        if list(map(str, one)) != list(map(str, other)) and set(one) != set(other):
            return f"{where}: without {sorted(map(str, set(one) - set(other)))}, more {sorted(map(str, set(other) - set(one)))}"
        return next((found for name in one if (found := difference(one[name], other[name], f"{path}/{name}"))), None)
    if isinstance(one, (list, tuple)):
        if len(one) != len(other):
            return f"{where}: {len(one)} items, {len(other)}"
        return next((found for i in range(len(one)) if (found := difference(one[i], other[i], f"{path}[{i}]"))), None)
    if isinstance(one, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"{where}: {one.dtype} {one.shape}, {other.dtype} {other.shape}"
        if one.dtype.kind == "O":
            return difference(one.tolist(), other.tolist(), path)
        return None if one.tobytes() == other.tobytes() else f"{where}: {one.ravel()[:4]}, {other.ravel()[:4]}"
    if isinstance(one, np.generic):
        return difference(np.asarray(one), np.asarray(other), path)
    equal = one == other or (one != one and other != other)
    return None if equal else f"{where}: {str(one)[:60]!r}, {str(other)[:60]!r}"


# --- h5py itself


def read_hdf5(path, attributes_too=True):
    """All that h5py shows of a file: members, types, attributes, soft and external links, and which are one object."""
    import h5py
    seen = {}

    def attributes(item):
        return {name: value(item.attrs[name], item.attrs.get_id(name).dtype) for name in sorted(item.attrs)} if attributes_too else {}

    def value(read, dtype):
        if isinstance(read, h5py.Empty):
            return ("empty", str(read.dtype))
        if isinstance(read, h5py.Reference):
            return "a reference"
        special = {"enum": h5py.check_enum_dtype(dtype), "text": str(h5py.check_string_dtype(dtype)), "ref": h5py.check_ref_dtype(dtype),
                   "vlen": str(h5py.check_vlen_dtype(dtype))}
        if special["ref"] is not None:
            return (special, np.shape(read))
        return (special, str(read.dtype) if isinstance(read, (np.ndarray, np.generic)) else type(read).__name__,
                read.tolist() if isinstance(read, np.ndarray) and read.dtype.kind in "OSV" else read)

    def visit(group):
        found = {}
        for name in sorted(group):
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                found[name] = (type(link).__name__, link.path, getattr(link, "filename", ""))
                continue
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            first = seen.setdefault(address, f"{group.name}/{name}")
            if first != f"{group.name}/{name}":
                found[name] = ("the object", first)
            elif isinstance(item, h5py.Group):
                found[name] = (attributes(item), visit(item))
            elif isinstance(item, h5py.Datatype):
                found[name] = (attributes(item), str(item.dtype))
            else:
                found[name] = (attributes(item), value(item[()], item.dtype), item.fillvalue,
                               tuple(most if length else None for length, most in zip(item.shape or (), item.maxshape or ())))
        return found

    with h5py.File(path, "r") as f:
        return {"attributes": attributes(f), "members": visit(f)}


class OfH5py(Specimen):
    def read(self, path):
        return read_hdf5(path)


@specimen("h5py", ".h5", "h5py")
class h5py_defaults(OfH5py):
    """What its quick start does."""
    tool = "h5py"

    def write(self, path):
        import h5py
        with h5py.File(path, "w") as f:
            fill_h5py(f)


def fill_h5py(f):
    import h5py
    f.attrs["title"], f.attrs["number"], f.attrs["flag"], f.attrs["list"] = "a tïtle", 5, True, [1, 2, 3]
    f.attrs["one"], f.attrs["bytes"], f.attrs["words"], f.attrs["table"] = [5], np.bytes_(b"abc"), ["a", "bc"], np.eye(2)
    f.attrs["nothing"], f.attrs["float32"], f.attrs["nan"] = h5py.Empty("f4"), np.float32(0.1), np.nan
    f["numbers"] = np.arange(100, dtype="i8")
    f["scalar"], f["flag"], f["text"], f["none"] = 2.5, True, "tëxt", h5py.Empty("f8")
    f["flags"] = np.arange(7) % 2 == 0
    f["words"], f["bytes"] = ["a", "bé", ""], np.array([b"ab", b"c"])
    f["complex"] = np.array([1 + 2j, 3 - 4j])
    f["half"] = np.arange(4, dtype="f2")
    f["records"] = np.array([(1, 2.5, b"x", True), (2, 3.5, b"yz", False)], [("i", "i4"), ("f", "f8"), ("s", "S3"), ("b", "?")])
    f["empty"] = np.zeros((0, 3), "i2")
    f.create_dataset("colours", data=[0, 2], dtype=h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 2}, basetype="u1"))
    f.create_dataset("grow", data=np.arange(30.).reshape(5, 6), maxshape=(None, 6), chunks=(2, 6), compression="gzip", fillvalue=-1)
    f.create_dataset("never written", (10, 10), dtype="f4", fillvalue=np.nan)
    group = f.create_group("group/below", track_order=True)
    group["deep"] = np.arange(3)
    group["deep"].attrs["units"] = "m"
    f["soft"] = h5py.SoftLink("/group/below/deep")


@specimen("h5py", ".h5", "h5py")
class h5py_latest(OfH5py):
    tool = "h5py, `libver=\"latest\"`"

    def write(self, path):
        import h5py
        with h5py.File(path, "w", libver="latest") as f:
            fill_h5py(f)


@specimen("h5py", ".h5", "h5py")
class h5py_references(OfH5py):
    tool = "h5py, references and sequences"

    def write(self, path):
        import h5py
        with h5py.File(path, "w") as f:
            f["data"] = np.arange(10)
            f["reference"] = f["data"].ref
            f["sequences"] = np.empty(0)
            del f["sequences"]
            f.create_dataset("sequences", (2,), dtype=h5py.vlen_dtype("i4"))
            f["sequences"][0] = [1, 2]
            f.attrs["main"] = f["data"].ref


@specimen("hdf5plugin", ".h5", "hdf5plugin", "h5py")
class hdf5plugin_filters(OfH5py):
    tool = "hdf5plugin"

    def read(self, path):
        import hdf5plugin  # noqa: F401: its filters
        return read_hdf5(path)

    def write(self, path):
        import h5py
        import hdf5plugin
        data = np.arange(2000, dtype="i4").reshape(40, 50)
        with h5py.File(path, "w") as f:
            for name in "Bitshuffle", "Blosc", "BZip2", "LZ4", "Zstd":
                f.create_dataset(name, data=data, chunks=(10, 50), **getattr(hdf5plugin, name)())


@specimen("silx", ".h5", "silx", "h5py")
class silx_dictionary(Specimen):
    tool = "silx"

    def write(self, path):
        from silx.io.dictdump import dicttonx
        dicttonx({"@default": "entry", "entry": {"@NX_class": "NXentry", "title": "a scan", "data": {
            "@NX_class": "NXdata", "@signal": "counts", "@axes": ["y", "x"], "counts": np.arange(12).reshape(3, 4), "x": np.arange(4.),
            "y": np.arange(3.), "counts@long_name": "Counts", ">same": "/entry/data/counts"}}}, str(path))

    def read(self, path):
        from silx.io.dictdump import nxtodict
        return nxtodict(str(path))


def zarr_differences(path, store):
    """What zarr-python reads in another way than h5py reads the HDF5 file that the store shows, with the variables that it
    lacks: a dictionary by path. References, sequences and datasets without elements and shape have no form in Zarr."""
    import h5py
    import zarr
    try:
        group, found = zarr.open_group(str(store), mode="r"), {}
    except Exception as error:
        return {"": f"{type(error).__name__}: {error}"}

    def has_no_form(dtype):
        if dtype.names:
            return any(has_no_form(dtype[name]) for name in dtype.names)
        return h5py.check_ref_dtype(dtype) is not None or (dtype.kind == "O" and h5py.check_string_dtype(dtype) is None)

    def plain(values, text=False):
        values = np.asarray(values)
        if values.dtype.names:
            return {name: plain(values[name]) for name in values.dtype.names if not name.startswith("__pad")}
        if values.dtype.kind == "f":
            return np.where(np.isnan(values), np.nan, values).tolist() if values.dtype != "f2" else values.astype("f4").tolist()
        return [v.decode() if isinstance(v, bytes) and text else v for v in np.ravel(values).tolist()]

    def compare(name, item):
        if not isinstance(item, h5py.Dataset) or item.shape is None or has_no_form(item.dtype):
            return
        if item.attrs.get("NAME", b"")[:22] == b"This is a netCDF dimen":  # but not a netCDF variable
            return
        try:
            text = h5py.check_vlen_dtype(item.dtype) is not None or h5py.check_string_dtype(item.dtype) is not None
            ours, theirs = plain(group[name][...], text), plain(item[()], text)
            differs = difference(json.loads(json.dumps(theirs, default=str)), json.loads(json.dumps(ours, default=str)))
        except Exception as error:
            differs = f"{type(error).__name__}: {error}"
        if differs:
            found[name] = differs

    with h5py.File(path) as f:
        names = []
        f.visit(names.append)  # not to read in it: it holds h5py's lock, for which zarr-python's threads may wait
        for name in names:
            compare(name, f[name])
    return found


# --- netCDF4 and xarray


@specimen("xarray", ".nc", "netCDF4")
class netcdf4(Specimen):
    tool = "netCDF4"

    def write(self, path):
        import netCDF4
        with netCDF4.Dataset(path, "w") as f:
            f.title, f.count, f.range = "títle", np.int32(3), np.array([1.5, 2.5])
            f.setncattr_string("names", ["a", "b"])
            for name, size in ("time", None), ("x", 5), ("bare", 3):
                f.createDimension(name, size)
            for name, kind, dimensions in [("time", "f8", ("time",)), ("x", "i2", ("x",)), ("t", "f4", ("time", "x"))]:
                f.createVariable(name, kind, dimensions)
            f["time"][:], f["x"][:], f["t"][:] = np.arange(4), np.arange(5), np.arange(20.).reshape(4, 5)
            f["time"].units = "days since 2000-01-01"
            f.createVariable("packed", "i2", ("time", "x"), zlib=True, fill_value=-9)[:4] = 1
            f.createVariable("words", str, ("x",))[:] = np.array(["a", "bé", "", "d", "e"], object)
            f.createVariable("letters", "S1", ("x",))[:] = np.array(list("hello"), "S1")
            f.createVariable("scalar", "i4")[:] = 5
            colour = f.createEnumType("u1", "colour_t", {"red": 0, "blue": 1})
            f.createVariable("colour", colour, ("x",))[:] = [0, 1, 0, 1, 1]
            pair = f.createCompoundType(np.dtype([("a", "i4"), ("b", "f8")]), "pair_t")
            f.createVariable("pair", pair, ("bare",))[:] = np.array([(1, 2), (3, 4), (5, 6)], pair.dtype)
            group = f.createGroup("group")
            group.createDimension("x", 2)
            group.createVariable("inner", "u8", ("time", "x"))[:] = np.arange(8).reshape(4, 2)

    def read(self, path):
        import netCDF4

        def attributes(item):
            return {name: (np.asarray(item.getncattr(name)).dtype.str, item.getncattr(name)) for name in item.ncattrs()}

        def group(g):
            g.set_auto_maskandscale(False)
            return {"attributes": attributes(g), "dimensions": {n: (len(d), d.isunlimited()) for n, d in g.dimensions.items()},
                    "variables": {n: (attributes(v), v.dimensions, str(v.dtype), v[...]) for n, v in sorted(g.variables.items())},
                    "types": sorted([*g.enumtypes, *g.cmptypes]), "groups": {n: group(h) for n, h in g.groups.items()}}

        with netCDF4.Dataset(path) as f:
            return group(f)


class OfXarray(Specimen):
    reads_zarr = True
    engine = None

    def make(self):
        import pandas
        import xarray
        return xarray.Dataset(
            {"t": (("time", "y", "x"), RNG.normal(size=(4, 5, 6)).astype("f4"), {
                "units": "K", "valid_range": [200., 300.], "long_name": "tëmp"}),
             "count": (("y", "x"), np.arange(30).reshape(5, 6)), "flag": ("x", np.arange(6) % 2 == 0), "scalar": ((), 2.5),
             "name": ("y", np.array(["a", "bé", "", "d", "eee"], object)), "delay": ("y", np.arange(5).astype("m8[s]").astype("m8[ns]"))},
            {"time": pandas.date_range("2026-01-01", periods=4), "x": np.arange(6.), "label": ("x", np.array(list("abcdef"))), "run": 7},
            {"title": "defaults", "numbers": [1, 2, 3], "one": 5, "version": 1.5})

    def write(self, path):
        self.make().to_netcdf(path, engine=self.engine)

    def read(self, path):
        import xarray
        if pathlib.Path(path).is_dir():
            return xarray.open_zarr(path).load()
        return xarray.load_dataset(path, engine=self.engine)

    def same(self, one, other):
        import xarray
        xarray.testing.assert_identical(one, other)
        # Its backends give text different types.
        types = [{n: "text" if v.dtype.kind in "OUT" else str(v.dtype) for n, v in dataset.variables.items()} for dataset in (one, other)]
        found = difference(*types)
        assert found is None, found


@specimen("xarray", ".nc", "xarray", "netCDF4")
class xarray_netcdf4(OfXarray):
    tool = "xarray, `to_netcdf` by netCDF4"
    engine = "netcdf4"


@specimen("xarray", ".nc", "xarray", "h5netcdf")
class xarray_h5netcdf(OfXarray):
    tool = "xarray, `to_netcdf` by h5netcdf"
    engine = "h5netcdf"


@specimen("xarray", ".zarr", "xarray", "zarr", zarr=2)
class xarray_zarr2(OfXarray):
    tool = "xarray, `to_zarr(zarr_format=2)`"
    engine = "netcdf4"

    def write(self, path):
        self.make().to_zarr(path, zarr_format=self.zarr)


@specimen("xarray", ".zarr", "xarray", "zarr", zarr=3)
class xarray_zarr3(xarray_zarr2):
    tool = "xarray, `to_zarr`"


# --- tables


@specimen("pandas", ".h5", "tables")
class pytables(Specimen):
    tool = "PyTables"

    def write(self, path):
        import tables
        with tables.open_file(path, "w", title="a file") as f:
            group = f.create_group("/", "group", "a group")
            f.create_array(group, "numbers", np.arange(12.).reshape(3, 4), "numbers")
            f.create_array(group, "list", [1, 2, 3])
            f.create_array(group, "text", b"some bytes")
            f.create_array(group, "flags", np.array([True, False]))
            f.create_carray(group, "chunked", obj=np.arange(1000).reshape(10, 100))
            growing = f.create_earray(group, "growing", tables.Float32Atom(), (0, 3))
            growing.append(np.ones((4, 3), "f4"))
            f.create_earray(group, "empty", tables.Int32Atom(), (0,))

            class Row(tables.IsDescription):
                name = tables.StringCol(8)
                value = tables.Float64Col(dflt=-1)
                ok = tables.BoolCol()
                point = tables.Int16Col(shape=(2,))
                kind = tables.EnumCol(["a", "b"], "a", "uint8")

                class inner(tables.IsDescription):
                    x = tables.Int32Col()
            table = f.create_table(group, "table", Row, "rows")
            for i in range(20):
                row = table.row
                row["name"], row["value"], row["ok"], row["point"], row["inner/x"] = f"row{i}", i / 3, i % 2 == 0, (i, -i), i
                row.append()
            table.flush()
            table.attrs.note, table.attrs.mapping, table.attrs.array = "a nöte", {"pickled": (1, 2)}, np.arange(3)
            f.create_soft_link("/", "soft", "/group/numbers")

    def read(self, path):
        import tables
        found = {}
        with tables.open_file(path) as f:
            for node in f.walk_nodes("/"):
                a = node._v_attrs if hasattr(node, "_v_attrs") and not isinstance(node, tables.link.Link) else None
                item = {name: getattr(a, name) for name in a._v_attrnames if name != "rows"} if a is not None else {"target": node.target}
                if isinstance(node, tables.Leaf):
                    value = node.read()
                    if isinstance(node, tables.Table):
                        item = (item, "Table", value, str(node.description))
                    else:
                        item = (item, type(node).__name__, value, node.shape, node.maindim, str(node.atom))
                found[node._v_pathname] = item
        return found


@specimen("pandas", ".h5", "tables")
class pytables_vlarray(Specimen):
    tool = "PyTables, VLArray"

    def write(self, path):
        import tables
        with tables.open_file(path, "w") as f:
            lists = f.create_vlarray("/", "lists", tables.Int32Atom())
            lists.append([1, 2, 3])
            lists.append([])
            objects = f.create_vlarray("/", "objects", tables.ObjectAtom())
            objects.append({"a": 1})
            f.create_array("/", "numbers", np.arange(5))

    def read(self, path):
        import tables
        with tables.open_file(path) as f:
            return {node._v_pathname: node.read() for node in f.walk_nodes("/", "Leaf")}


def frames():
    import pandas
    frame = pandas.DataFrame({"a": np.arange(5), "b": RNG.normal(size=5), "s": ["x", "yy", "", "ä", "z"], "ok": np.arange(5) % 2 == 0,
                              "when": pandas.date_range("2026-01-01", periods=5, tz="UTC")})
    frame.loc[2, "b"] = np.nan
    return {"frame": frame, "series": pandas.Series(np.arange(4.), index=list("abcd"), name="s"),
            "wide": pandas.DataFrame(RNG.normal(size=(3, 4)), columns=list("wxyz"))}


class OfPandas(Specimen):
    def read(self, path):
        import pandas
        with pandas.HDFStore(path, "r") as store:
            return {name: store[name] for name in store}

    def same(self, one, other):
        import pandas
        assert set(one) == set(other), (sorted(one), sorted(other))
        for name in one:
            check = pandas.testing.assert_frame_equal if isinstance(one[name], pandas.DataFrame) else pandas.testing.assert_series_equal
            check(one[name], other[name], check_exact=True)


@specimen("pandas", ".h5", "pandas", "tables")
class pandas_fixed(OfPandas):
    tool = "pandas, `HDFStore` at its defaults"

    def write(self, path):
        import pandas
        with pandas.HDFStore(path, "w") as store:
            for name, frame in frames().items():
                store[name] = frame


@specimen("pandas", ".h5", "pandas", "tables")
class pandas_fixed_numbers(OfPandas):
    tool = "pandas, `HDFStore` of numbers"

    def write(self, path):
        import pandas
        with pandas.HDFStore(path, "w") as store:
            store["wide"] = frames()["wide"]


@specimen("pandas", ".h5", "pandas", "tables")
class pandas_table(OfPandas):
    tool = "pandas, `HDFStore` with `format=\"table\"`"

    def write(self, path):
        import pandas
        with pandas.HDFStore(path, "w") as store:
            for name, frame in frames().items():
                store.put(name, frame, format="table")


# --- MATLAB


def matlab_contents():
    return {"matrix": np.arange(12.).reshape(3, 4), "single": np.float32(2.5), "text": "some text", "logical": np.array([True, False]),
            "integers": np.arange(5, dtype="i2"), "complex": np.array([1 + 2j, 3 - 1j]), "empty": np.zeros((0, 0)),
            "structure": {"a": np.arange(3.), "b": "text", "c": {"deep": np.float64(1)}}}


@specimen("mat73", ".mat", "hdf5storage")
class matlab(Specimen):
    tool = "MATLAB 7.3 by hdf5storage"

    def contents(self):
        return matlab_contents()

    def write(self, path):
        import hdf5storage
        hdf5storage.savemat(str(path), self.contents(), format="7.3", store_python_metadata=False, appendmat=False)

    def read(self, path):
        import hdf5storage
        found = hdf5storage.loadmat(str(path), appendmat=False)
        return {name: value for name, value in found.items() if not name.startswith("__")}


@specimen("mat73", ".mat", "mat73", "hdf5storage")
class matlab_mat73(matlab):
    tool = "the same by mat73"

    def read(self, path):
        import mat73
        return mat73.loadmat(str(path))


@specimen("mat73", ".mat", "hdf5storage")
class matlab_cells(matlab):
    tool = "MATLAB 7.3, with a cell array"

    def contents(self):
        cell = np.empty(2, object)
        cell[:] = [np.arange(3.), "text"]
        return {**matlab_contents(), "cell": cell}


@specimen("mat73", ".h5", "hdf5storage")
class hdf5storage_python(Specimen):
    tool = "hdf5storage, Python objects"

    def write(self, path):
        import hdf5storage
        hdf5storage.write({"a": np.arange(3), "b": "text", "c": {"x": 1.5, "y": True}}, path="/data", filename=str(path))

    def read(self, path):
        import hdf5storage
        return hdf5storage.read(path="/data", filename=str(path))


# --- one field's own


@specimen("nexus", ".nxs", "nexusformat", "h5py")
class nexus(Specimen):
    tool = "NeXus by nexusformat"

    def write(self, path):
        import nexusformat.nexus as nx
        x, y = nx.NXfield(np.linspace(0, 1, 5), name="x", units="mm"), nx.NXfield(np.arange(4), name="y")
        data = nx.NXdata(nx.NXfield(RNG.integers(0, 99, (4, 5)), name="counts", units="1"), (y, x), title="a scan")
        root = nx.NXroot(nx.NXentry(data, nx.NXsample(name="iron", temperature=nx.NXfield(40., units="K")), title="An Entry",
                                    start_time="2026-01-01T00:00:00"))
        root["entry/instrument"] = nx.NXinstrument(nx.NXdetector(counts=nx.NXlink("/entry/data/counts")))
        root["entry/data/names"] = ["a", "bé"]
        root["entry/data/good"] = True
        root.save(str(path))

    def read(self, path):
        import nexusformat.nexus as nx

        def item(node):
            attributes = {name: a.nxdata for name, a in node.attrs.items()} if node.attrs else {}
            if isinstance(node, nx.NXlink):
                return (type(node).__name__, node.nxtarget)
            if isinstance(node, nx.NXfield):
                return (type(node).__name__, attributes, str(node.dtype), node.nxvalue)
            return (type(node).__name__, attributes, {name: item(member) for name, member in node.entries.items()})

        root = nx.nxload(str(path))
        found = item(root)
        found[1].pop("file_name", None)
        return found


@specimen("cooler", ".cool", "cooler", "h5py")
class cooler_file(Specimen):
    tool = "cooler"

    def write(self, path):
        import cooler
        import pandas
        bins = pandas.DataFrame({"chrom": ["chr1"] * 6 + ["chr2"] * 4, "start": [*range(0, 60, 10), *range(0, 40, 10)],
                                 "end": [*range(10, 70, 10), *range(10, 50, 10)], "weight": RNG.random(10)})
        pixels = pandas.DataFrame({"bin1_id": [0, 0, 2, 5], "bin2_id": [1, 4, 3, 9], "count": [3, 1, 7, 2]})
        cooler.create_cooler(str(path), bins, pixels, assembly="hg38", metadata={"a": [1, 2]})

    def read(self, path):
        import cooler
        c = cooler.Cooler(str(path))

        def frame(f):
            categories = {name: list(f[name].cat.categories) for name in f if str(f[name].dtype) == "category"}
            return {name: (str(f[name].dtype), f[name].tolist(), categories.get(name)) for name in f}
        return {"info": c.info, "chroms": frame(c.chroms()[:]), "bins": frame(c.bins()[:]), "pixels": frame(c.pixels()[:]),
                "joined": frame(c.pixels(join=True)[:]), "matrix": c.matrix(balance=True).fetch("chr1"), "names": c.chromnames,
                "sizes": c.chromsizes.to_dict()}


@specimen("loompy", ".loom", "loompy", "h5py")
class loom(Specimen):
    tool = "loompy"

    def write(self, path):
        import loompy
        loompy.create(str(path), {"": RNG.integers(0, 9, (20, 30)).astype("f4"), "spliced": np.ones((20, 30), "i4")},
                      {"Gene": np.array([f"gene{i}" for i in range(20)]), "Length": np.arange(20)},
                      {"Cell": np.array([f"cell{i}" for i in range(30)]), "Pos": RNG.normal(size=(30, 2))}, file_attrs={"Title": "a löom"})

    def read(self, path):
        import loompy
        with loompy.connect(str(path), "r", validate=True) as ds:
            return {"layers": {name: ds.layers[name][:, :] for name in ds.layers}, "rows": {n: ds.ra[n] for n in ds.ra},
                    "columns": {n: ds.ca[n] for n in ds.ca}, "file": {n: ds.attrs[n] for n in ds.attrs}, "shape": ds.shape}


class OfAnnData(Specimen):
    reads_zarr = True

    def make(self):
        import anndata
        import pandas
        import scipy.sparse
        n, m = 8, 5
        obs = pandas.DataFrame({"kind": pandas.Categorical(["a", "b", None, "a"] * 2, ["b", "a", "c"]), "rank": pandas.Categorical(
            [1, 2] * 4, ordered=True), "name": [f"näme{i}" for i in range(n)], "score": RNG.random(n), "ok": np.arange(n) % 2 == 0,
            "count": pandas.array([1, None] * 4, "Int32"), "maybe": pandas.array([True, None] * 4, "boolean")},
            [f"cell{i}" for i in range(n)])
        var = pandas.DataFrame({"length": np.arange(m)}, [f"gene{i}" for i in range(m)])
        made = anndata.AnnData(scipy.sparse.random(n, m, 0.5, "csr", "f4", 1), obs, var)
        made.layers["dense"], made.layers["csc"] = RNG.random((n, m)), scipy.sparse.random(n, m, 0.3, "csc", random_state=2)
        made.obsm["pca"], made.obsm["table"] = RNG.random((n, 3)), pandas.DataFrame({"x": np.arange(n)}, obs.index)
        made.varm["none"], made.obsp["near"] = np.zeros((m, 0)), scipy.sparse.eye(n, format="csr")
        made.uns = {"text": "tëxt", "number": 5, "float": 2.5, "flag": True, "words": np.array(["a", "bé"]),
                    "nested": {"empty": {}, "x": np.eye(2)},
                    "records": np.array([(1, 2.5), (3, 4.5)], [("i", "i4"), ("f", "f8")])}
        made.raw = made.copy()
        return made

    def read(self, path):
        import anndata
        return anndata.read_zarr(path) if pathlib.Path(path).is_dir() else anndata.read_h5ad(path)

    def same(self, one, other):
        from anndata.tests.helpers import assert_equal
        assert_equal(one, other, exact=True)


@specimen("anndata", ".h5ad", "anndata", "h5py")
class anndata_h5ad(OfAnnData):
    tool = "AnnData, `write_h5ad`"

    def write(self, path):
        self.make().write_h5ad(path)


@specimen("anndata", ".zarr", "anndata", "zarr", zarr=2)
class anndata_zarr2(OfAnnData):
    tool = "AnnData, `write_zarr` in v2"

    def write(self, path):
        import anndata
        with anndata.settings.override(zarr_write_format=self.zarr):
            self.make().write_zarr(path)


@specimen("anndata", ".zarr", "anndata", "zarr", zarr=3)
class anndata_zarr3(anndata_zarr2):
    tool = "AnnData, `write_zarr` in v3"


class OfKeras(Specimen):
    def make(self):
        import keras
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(3, 3), keras.layers.BatchNormalization(),
                                  keras.layers.Flatten(), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)])
        model.compile(keras.optimizers.Adam(), keras.losses.MeanSquaredError())
        return model


@specimen("keras", ".weights.h5", "keras", "h5py")
class keras_weights(OfKeras):
    tool = "Keras, `save_weights`"

    def write(self, path):
        self.make().save_weights(path)

    def read(self, path):
        model = self.make()
        for weight in model.weights:
            weight.assign(np.zeros(weight.shape))
        model.load_weights(path)
        return model.get_weights()


@specimen("keras", ".h5", "keras", "h5py")
class keras_model(OfKeras):
    tool = "Keras, `save` as .h5"

    def write(self, path):
        self.make().save(path)

    def read(self, path):
        import keras
        model = keras.models.load_model(path)
        return [model.get_config(), model.get_compile_config(), model.get_weights()]


@specimen("nwb", ".nwb", "pynwb", "h5py")
class nwb(Specimen):
    tool = "NWB by pynwb"

    def write(self, path):
        import datetime
        import pynwb
        first, second = (datetime.datetime(2026, 1, day, tzinfo=datetime.timezone.utc) for day in (1, 2))
        f = pynwb.NWBFile("a session", "id", first, file_create_date=second)
        f.add_acquisition(pynwb.TimeSeries("series", data=np.arange(20.), unit="m", rate=10.))
        f.add_unit(spike_times=[0.1, 0.2])
        f.add_unit(spike_times=[0.5])
        with pynwb.NWBHDF5IO(str(path), "w") as io:
            io.write(f)

    def read(self, path):
        import pynwb

        def container(c, seen=()):
            if id(c) in seen:
                return c.name
            found = {"type": type(c).__name__, "name": c.name}
            for name, value in c.fields.items():
                found[name] = field(value, (*seen, id(c)))
            return found

        def field(value, seen):
            if isinstance(getattr(value, "fields", None), dict):
                return container(value, seen)
            if hasattr(value, "items"):
                return {name: field(v, seen) for name, v in value.items()}
            if isinstance(value, (list, tuple)):
                return [field(v, seen) for v in value]
            return np.asarray(value[()]) if hasattr(value, "dtype") and hasattr(value, "shape") else str(value)

        with pynwb.NWBHDF5IO(str(path), "r") as io:
            return container(io.read())


# --- images


class OfOmeZarr(Specimen):
    reads_hdf5, reads_zarr = False, True
    format = None

    def write(self, path):
        import ome_zarr.format
        import ome_zarr.writer
        import zarr
        group = zarr.open_group(str(path), mode="w", zarr_format=self.zarr)
        ome_zarr.writer.write_image(RNG.integers(0, 999, (2, 3, 40, 50)).astype("u2"), group, axes="czyx",
                                    fmt=getattr(ome_zarr.format, self.format)())

    def read(self, path):
        import ome_zarr.io
        import ome_zarr.reader
        nodes = list(ome_zarr.reader.Reader(ome_zarr.io.parse_url(str(path)))())
        return [{"metadata": json.loads(json.dumps(node.metadata, default=str)), "data": [np.asarray(level) for level in node.data]}
                for node in nodes]


@specimen("ome-zarr", ".ome.zarr", "ome-zarr", "zarr", zarr=2)
class ome_zarr_04(OfOmeZarr):
    tool = "ome-zarr-py, OME-Zarr 0.4"
    format = "FormatV04"


@specimen("ome-zarr", ".ome.zarr", "ome-zarr", "zarr", zarr=3)
class ome_zarr_05(OfOmeZarr):
    tool = "ome-zarr-py, OME-Zarr 0.5"
    format = "FormatV05"


class OfNgffZarr(Specimen):
    reads_hdf5, reads_zarr = False, True
    version = None

    def write(self, path):
        import ngff_zarr
        image = ngff_zarr.to_ngff_image(RNG.integers(0, 99, (40, 50)).astype("u1"), dims=["y", "x"], scale={"y": 0.5, "x": 0.25})
        ngff_zarr.to_ngff_zarr(str(path), ngff_zarr.to_multiscales(image), version=self.version)

    def read(self, path):
        import ngff_zarr
        found = ngff_zarr.from_ngff_zarr(str(path))
        images = [(i.dims, i.scale, i.translation, i.name, np.asarray(i.data)) for i in found.images]
        return {"metadata": str(found.metadata), "images": images}


@specimen("ngff", ".ome.zarr", "ngff-zarr", zarr=2)
class ngff_zarr_04(OfNgffZarr):
    tool = "ngff-zarr, OME-Zarr 0.4"
    version = "0.4"


@specimen("ngff", ".ome.zarr", "ngff-zarr", zarr=3)
class ngff_zarr_05(OfNgffZarr):
    tool = "ngff-zarr, OME-Zarr 0.5"
    version = "0.5"


def main(name, action, path, *others):
    warnings.simplefilter("ignore")
    one = SPECIMENS[name]()
    if action == "write":
        one.write(pathlib.Path(path))
        result = {package: importlib.metadata.version(package) for package in one.packages}
    elif action == "zarr":
        result = {}
        for other in others:
            found = zarr_differences(path, other)
            result[other] = "; ".join(f"{name}: {differs}" for name, differs in found.items()) or None
    else:
        original, result = one.read(path), {}
        for other in others:
            try:
                one.same(original, one.read(other))
                result[other] = None
            except Exception as error:  # whatever keeps the tool from reading the same object
                result[other] = f"{type(error).__name__}: {error}"
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
