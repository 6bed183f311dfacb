"""A current netCDF-C, as the judge of NCZarr: Debian's is too old for what it writes today."""

import pytest

from running import run
from venvs import python_of


@pytest.fixture(scope="module")
def current():
    """A function that runs a program with the netCDF4 of PyPI."""
    python = python_of("netcdf")

    return lambda program, *arguments: run(python, "-W", "ignore", "-c", program, *arguments).stdout


# Makes a netCDF-4 file, PATH SEED: all types that NCZarr has, in groups that see dimensions of their parents or hide them.
MAKE_RANDOM = r"""
import sys, netCDF4, numpy as np
path, seed = sys.argv[1], int(sys.argv[2])
random = np.random.default_rng(seed)
KINDS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
CODECS = [{}, {"zlib": True, "complevel": 4, "shuffle": False}, {"zlib": True, "shuffle": True}, {"fletcher32": True},
          {"compression": "zstd", "complevel": 3, "shuffle": False}, {"compression": "bzip2", "shuffle": True},
          {"compression": "blosc_lz4", "blosc_shuffle": 1, "shuffle": False}]

def extremes(kind, count):
    kind = np.dtype(kind)
    if kind.kind == "f":
        return random.normal(size=count).astype(kind)
    limits = np.iinfo(kind)
    return random.integers(limits.min, limits.max, size=count, dtype=kind, endpoint=True)

def add_attributes(holder):
    for kind in KINDS:
        holder.setncattr("one_" + kind, extremes(kind, 1)[0])
        holder.setncattr("some_" + kind, extremes(kind, 3))
    holder.setncattr("nan", np.float32("nan"))
    holder.setncattr("limits", np.array([np.inf, -np.inf, 1.0]))
    for name, text in [("text", "plain"), ("number", "5"), ("list", "[1, 2]"), ("other", "\u00e4\u20ac")]:
        holder.setncattr(name, text)
    holder.setncattr_string("string", "word")
    holder.setncattr_string("string5", "5")
    holder.setncattr("strings", ["a", "bcd", "5"])

with netCDF4.Dataset(path, "w") as file:
    for name, length in [("t", None), ("y", 24), ("x", 40), ("unused", 3), ("empty", None)]:
        file.createDimension(name, length)
    add_attributes(file)
    groups = [file, file.createGroup("g"), file.createGroup("g/deep"), file.createGroup("nothing")]
    groups[1].createDimension("x", 32)
    groups[1].createDimension("own", None)
    groups[2].createDimension("y", 24)
    number = 0
    for group in groups[:3]:
        def length_of(name):
            at = group
            while name not in at.dimensions:
                at = at.parent
            return 3 if name == "t" else len(at.dimensions[name])
        for _ in range(6):
            kind = KINDS[random.integers(len(KINDS))]
            names = [("t", "y"), ("y", "x"), ("x",), ("t",), ("t", "y", "x")][random.integers(5)]
            lengths = [length_of(name) for name in names]
            chunks = [int(random.integers(max(1, n // 2), n + 1)) for n in lengths]
            codec = dict(CODECS[random.integers(len(CODECS))])
            if "compression" in codec and np.prod(chunks) < 64:
                codec = {}
            if random.integers(3) == 0:
                codec["fill_value"] = extremes(kind, 1)[0]
            variable = group.createVariable(f"v{number}", kind, names, endian=["native", "big", "little"][random.integers(3)],
                                            chunksizes=chunks, **codec)
            variable.set_auto_maskandscale(False)
            if random.integers(4):
                variable[:] = (np.arange(np.prod(lengths)) // 16 % 5).reshape(lengths).astype(kind)
            if random.integers(2):
                add_attributes(variable)
            number += 1
        group.createVariable("one", "f4", ())[...] = 2.5
        group.createVariable("letter", "S1", ())[...] = "q"
        group.createVariable("letters", "S1", ("y", "x"))[:] = random.choice(list("abc"), size=(24, length_of("x"))).astype("S1")
        group.createVariable("words", str, ("y",))[:] = np.array(["a", "", "\u00e4\u20ac", "5", "x" * 200, "z"] * 4, object)
        group["words"].units = "none"
        group.createVariable("word", str, ())[...] = "single"
    file.createVariable("y", "f4", ("y",))[:] = np.arange(24)
    file.createVariable("t", "f8", ("t",), fill_value=-1.0)[:] = [0, 1, 2]
"""

# Prints all that netCDF-C tells of a dataset, PATH_OR_URL, as JSON, but for chunks and filters.
SHOW_ALL = r"""
import sys, json, ctypes, netCDF4, numpy as np
library = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "libnetcdf" in line))
TYPES = {1: "byte", 2: "char", 3: "short", 4: "int", 5: "float", 6: "double", 7: "ubyte", 8: "ushort", 9: "uint", 10: "int64",
         11: "uint64", 12: "string"}

def attributes(group, holder, number):
    found = {}
    for name in holder.ncattrs():
        kind, count = ctypes.c_int(), ctypes.c_size_t()
        assert library.nc_inq_att(group._grpid, number, name.encode(), ctypes.byref(kind), ctypes.byref(count)) == 0
        value = holder.getncattr(name)
        text = value if isinstance(value, (str, list)) else np.asarray(value).astype(str).tolist()
        found[name] = [TYPES[kind.value], count.value, text]
    return found

def values_of(variable):
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(False)
    values = np.asarray(variable[...])
    if variable.dtype is str:
        return ["string", list(values.shape), values.tolist()]
    return [np.dtype(variable.dtype).newbyteorder("=").str, list(values.shape), values.astype(values.dtype.newbyteorder("<")).tobytes().hex()]

def show(group):
    return {"dimensions": {name: [len(d), d.isunlimited()] for name, d in group.dimensions.items()},
            "variables": {name: {"dimensions": v.dimensions, "values": values_of(v),
                                 "endian": v.endian() if v.dtype is not str and np.dtype(v.dtype).itemsize > 1 else None,
                                 "attributes": attributes(group, v, v._varid)} for name, v in group.variables.items()},
            "attributes": attributes(group, group, -1),
            "groups": {name: show(g) for name, g in group.groups.items()}}

with netCDF4.Dataset(sys.argv[1]) as file:
    print(json.dumps(show(file)))
"""
