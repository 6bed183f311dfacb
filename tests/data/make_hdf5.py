#!/usr/bin/python3
"""Makes the HDF5 and netCDF-4 files that the tests mount, with h5py and netCDF4-python.

Usage: make_hdf5.py DIRECTORY

Every function in CASES makes one file, named for what it holds. Files whose damage is their point
are called damaged_*. All are small, and the same at every run. What h5py cannot make is made by make_hdf5.c.
"""
import os
import pathlib
import sys
import zlib

import h5py
import netCDF4
import numpy as np

CASES = {}


def case(suffix):
    """Registers a function that fills the file of this name; it gets the path."""
    def register(function):
        CASES[function.__name__ + suffix] = function
        return function
    return register


def numbers(shape, dtype="i4", seed=1):
    """Data that compresses: a slow wave with a little noise."""
    count = int(np.prod(shape))
    wave = 1000 * np.sin(np.arange(count) / 50) + np.random.default_rng(seed).integers(0, 4, count)
    return wave.astype(dtype).reshape(shape)


# ---- layouts and chunk indexes

def all_indexes(path, libver):
    with h5py.File(path, "w", libver=libver) as f:
        data = numbers((25, 33))
        for name, most, options in [
                ("fixed", None, {}), ("one_unlimited", (None, 33), {}), ("two_unlimited", (None, None), {}),
                ("fixed_gzip", None, {"compression": "gzip"}), ("one_unlimited_gzip", (None, 33), {"compression": "gzip"}),
                ("two_unlimited_gzip", (None, None), {"compression": "gzip"})]:
            f.create_dataset(name, data=data, chunks=(10, 10), maxshape=most, **options)
        f.create_dataset("single", data=data, chunks=(25, 33))
        f.create_dataset("single_gzip", data=data, chunks=(25, 33), compression="gzip", shuffle=True)
        f.create_dataset("one_dimension", data=data.ravel(), chunks=(100,), maxshape=(None,))


@case(".h5")
def chunk_indexes_earliest(path):
    all_indexes(path, "earliest")


@case(".h5")
def chunk_indexes_v108(path):
    all_indexes(path, ("v108", "v108"))


@case(".h5")
def chunk_indexes_latest(path):
    all_indexes(path, "latest")


@case(".h5")
def layouts(path):
    with h5py.File(path, "w") as f:
        data = numbers((6, 7), "f4")
        f["contiguous"] = data
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple(data.shape)
        compact = h5py.h5d.create(f.id, b"compact", h5py.h5t.IEEE_F32LE, space, dcpl)
        compact.write(h5py.h5s.ALL, h5py.h5s.ALL, data)
        f.create_dataset("chunked", data=data, chunks=(4, 4))
        f.create_dataset("never_written", (6, 7), "f8")


@case(".h5")
def external_files(path):
    raw = numbers((4, 6), "<i4")
    folder = pathlib.Path(path).parent
    # Two segments, the second from within its file; the files are named relative to the source.
    (folder / "external_files.raw1").write_bytes(raw.tobytes()[:40])
    (folder / "external_files.raw2").write_bytes(b"header--" + raw.tobytes()[40:])
    # libhdf5 writes through the names that it is given, so it must stand in the folder.
    here = os.getcwd()
    os.chdir(folder)
    try:
        with h5py.File(path, "w") as f:
            f.create_dataset("v", (4, 6), "<i4", external=[("external_files.raw1", 0, 40), ("external_files.raw2", 8, 56)])
    finally:
        os.chdir(here)


@case(".h5")
def virtual_dataset(path):
    folder = pathlib.Path(path).parent
    for i in range(3):
        with h5py.File(folder / f"virtual_source_{i}.h5", "w") as f:
            f.create_dataset("part", data=numbers((10,), "i4", seed=i), chunks=(4,), compression="gzip")
    with h5py.File(path, "w", libver="latest") as f:
        layout = h5py.VirtualLayout((4, 10), "i4")
        for i in range(3):
            layout[i] = h5py.VirtualSource(f"virtual_source_{i}.h5", "part", (10,))
        f.create_virtual_dataset("v", layout, fillvalue=-1)  # the last row has no source
        f["plain"] = numbers((3,))


@case(".h5")
def scalars_null_and_empty(path):
    with h5py.File(path, "w") as f:
        f["scalar"] = np.float32(1.5)
        f["scalar_text"] = "grüße"
        f["scalar_bytes"] = np.bytes_(b"abc")
        f["null"] = h5py.Empty("f4")
        f["no_rows"] = np.empty((0, 3), "i2")
        f.create_dataset("no_rows_chunked", (0, 3), "i2", maxshape=(None, 3), chunks=(2, 3))
        f["scalar"].attrs["null"] = h5py.Empty("f4")
        f.create_group("empty_group")


@case(".h5")
def sparse_chunks(path):
    with h5py.File(path, "w") as f:
        d = f.create_dataset("v", (100, 100), "i4", chunks=(10, 10), fillvalue=-5, compression="gzip")
        d[25:27, 31:33] = 1
        d[99, 99] = 2
        # 72,900 cells, 3 chunks: a grid of more than 65,536 cells is listed another way. Its elements are few, as h5dump is slow.
        far = f.create_dataset("far", (540, 540), "u1", chunks=(2, 2), maxshape=(None, None))
        far.attrs["_FillValue"] = np.uint8(0)
        far[0, 0], far[271, 7], far[539, 539] = 1, 2, 3
        shrunk = f.create_dataset("shrunk", data=numbers((25, 25)), chunks=(10, 10), maxshape=(None, None))
        shrunk.resize((12, 17))


# ---- filters

@case(".h5")
def filters_builtin(path):
    with h5py.File(path, "w") as f:
        data = numbers((30, 40), "i4")
        f.create_dataset("gzip", data=data, chunks=(8, 16), compression="gzip", compression_opts=9)
        f.create_dataset("shuffle_gzip", data=data, chunks=(8, 16), compression="gzip", shuffle=True)
        f.create_dataset("shuffle_gzip_fletcher32", data=data, chunks=(8, 16), compression="gzip", shuffle=True,
                         fletcher32=True)
        f.create_dataset("fletcher32", data=data, chunks=(8, 16), fletcher32=True)
        f.create_dataset("fletcher32_odd", data=numbers((31,), "i1"), chunks=(7,), fletcher32=True)
        f.create_dataset("lzf", data=data, chunks=(8, 16), compression="lzf")
        f.create_dataset("lzf_shuffle", data=data, chunks=(8, 16), compression="lzf", shuffle=True)
        f.create_dataset("doubles", data=numbers((30, 40), ">f8"), chunks=(8, 16), compression="gzip", shuffle=True)


@case(".h5")
def filters_szip(path):
    with h5py.File(path, "w") as f:
        for dtype in ("i1", "<i2", ">i4", "<f4", ">f8"):
            for method in ("nn", "ec"):
                f.create_dataset(f"{np.dtype(dtype).name}_{method}", data=numbers((30, 40), dtype), chunks=(8, 40),
                                 compression="szip", compression_opts=(method, 16))


@case(".h5")
def filters_scaleoffset_nbit(path):
    with h5py.File(path, "w") as f:
        f.create_dataset("integers", data=numbers((30, 40), "i4"), chunks=(8, 16), scaleoffset=0)
        f.create_dataset("floats", data=numbers((30, 40), "f4"), chunks=(8, 16), scaleoffset=2, compression="gzip")
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_chunk((8, 16))
        dcpl.set_filter(h5py.h5z.FILTER_NBIT)
        d = h5py.h5d.create(f.id, b"nbit", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((30, 40)), dcpl)
        d.write(h5py.h5s.ALL, h5py.h5s.ALL, numbers((30, 40), "<i4"))


@case(".h5")
def filters_plugins(path):
    """bzip2, lz4 and blosc by Debian's plugins; those that are not installed are left out."""
    with h5py.File(path, "w") as f:
        data = numbers((30, 40), "i4")
        f["plain"] = data
        for name, number, options in [("bzip2", 307, (9,)), ("lz4", 32004, (0,)), ("lz4_blocks", 32004, (256,)),
                                      ("blosc_lz4", 32001, (0, 0, 0, 0, 5, 1, 1)), ("blosc_zstd", 32001, (0, 0, 0, 0, 3, 2, 5)),
                                      ("blosc_blosclz", 32001, (0, 0, 0, 0, 9, 0, 0))]:
            if h5py.h5z.filter_avail(number):
                f.create_dataset(name, data=data, chunks=(8, 16), compression=number, compression_opts=options)


@case(".h5")
def filter_masks(path):
    """Chunks stored with some of their filters left out, as encoders do with what does not compress."""
    with h5py.File(path, "w") as f:
        data = np.arange(40, dtype="<i4")
        d = f.create_dataset("v", (40,), "<i4", chunks=(10,), shuffle=True, compression="gzip")
        d[:10] = data[:10]
        shuffled = data[20:30].view("u1").reshape(10, 4).T.tobytes()
        d.id.write_direct_chunk((10,), data[10:20].tobytes(), 3)  # neither
        d.id.write_direct_chunk((20,), shuffled, 2)               # without gzip
        d.id.write_direct_chunk((30,), zlib.compress(data[30:].tobytes()), 1)  # without shuffle


@case(".h5")
def filter_order(path):
    """fletcher32 first, as netCDF writes, and last, as h5py does; gzip twice."""
    with h5py.File(path, "w") as f:
        for name, chain in [("netcdf", [3, 2, 1]), ("h5py", [2, 1, 3]), ("gzip_twice", [1, 1])]:
            dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            dcpl.set_chunk((7, 9))
            for number in chain:
                dcpl.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (6,) if number == 1 else ())
            d = h5py.h5d.create(f.id, name.encode(), h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((20, 20)), dcpl)
            d.write(h5py.h5s.ALL, h5py.h5s.ALL, numbers((20, 20), "<f8"))


@case(".h5")
def filter_unknown(path):
    with h5py.File(path, "w") as f:
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_chunk((10,))
        dcpl.set_filter(32999, h5py.h5z.FLAG_OPTIONAL, tuple(range(40)))
        d = h5py.h5d.create(f.id, b"unknown", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((20,)), dcpl)
        d.write_direct_chunk((0,), b"nobody can read this")
        d.write_direct_chunk((10,), np.arange(10, dtype="<i4").tobytes(), 1)  # this one was stored without the filter
        f["ok"] = np.arange(3)


# ---- types

@case(".h5")
def types_numbers(path):
    with h5py.File(path, "w") as f:
        for order in "<>":
            for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"):
                name = ("le_" if order == "<" else "be_") + code
                f.create_dataset(name, data=numbers((3, 5), np.int8).astype(order + code))
            f["le_c8" if order == "<" else "be_c8"] = (numbers((4,), "f4") + 2j).astype(order + "c8")
            f["le_c16" if order == "<" else "be_c16"] = (numbers((4,), "f8") - 1j).astype(order + "c16")
        f["special"] = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324])
        f["bool"] = np.array([[True, False, True]])


@case(".h5")
def types_text(path):
    with h5py.File(path, "w") as f:
        f["fixed"] = np.array([b"one", b"two", b"three"])
        f["variable"] = np.array(["eins", "", "größer", "日本"], dtype=h5py.string_dtype())
        f.create_dataset("variable_chunked", data=np.array([f"text {i}" * (i % 3) for i in range(25)], dtype=object),
                         dtype=h5py.string_dtype(), chunks=(10,), compression="gzip")
        f.create_dataset("variable_2d", data=np.array([[str(i * j) for i in range(5)] for j in range(7)], dtype=object),
                         dtype=h5py.string_dtype("ascii"), chunks=(3, 2))
        f.create_dataset("never_written", (5,), h5py.string_dtype(), chunks=(2,))
        f.create_dataset("partly_written", (6,), h5py.string_dtype(), chunks=(2,))[3] = "here"


@case(".h5")
def types_enum_opaque(path):
    with h5py.File(path, "w") as f:
        f.create_dataset("enum", data=np.array([0, 1, 42], "<i2"),
                         dtype=h5py.enum_dtype({"A": 0, "B": 1, "MANY": 42}, basetype="<i2"))
        f.create_dataset("enum_be", data=np.array([7, 8], ">u4"), dtype=h5py.enum_dtype({"X": 7, "Y": 8}, basetype=">u4"))
        f["opaque"] = np.array([b"abc", b"def"], "V3")
        times = np.arange(5).astype("M8[s]")
        f.create_dataset("numpy_times", data=times.astype(h5py.opaque_dtype(times.dtype)))


@case(".h5")
def types_compound(path):
    inner = np.dtype([("x", "<f4"), ("y", ">i2", (2, 3))])
    outer = np.dtype([("id", "<i4"), ("inner", inner, (2,)), ("name", "S5"), ("flag", "?"), ("z", "<c16")])
    data = np.zeros((6,), outer)
    data["id"] = np.arange(6)
    data["inner"]["x"] = np.arange(12).reshape(6, 2) / 2
    data["inner"]["y"] = np.arange(72).reshape(6, 2, 2, 3)
    data["name"] = b"abc"
    data["flag"] = [True, False] * 3
    data["z"] = 1 + 2j
    with h5py.File(path, "w") as f:
        f["contiguous"] = data
        f.create_dataset("chunked", data=data, chunks=(4,), compression="gzip", shuffle=True)
        aligned = np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2")], align=True)
        f["aligned"] = np.array([(1, 2.5, 3), (4, 5.5, 6)], aligned)
        f.create_dataset("filled", (5,), np.dtype([("a", "<i4"), ("b", "<f8")]), chunks=(2,),
                         fillvalue=np.array((7, 0.5), np.dtype([("a", "<i4"), ("b", "<f8")])))[0] = (1, 2.0)


@case(".h5")
def types_array_elements(path):
    with h5py.File(path, "w") as f:
        for name, options in (("contiguous", {}), ("chunked", {"chunks": (3,), "compression": "gzip"})):
            d = f.create_dataset(name, (5,), np.dtype("(2,3)<i4"), **options)
            d[...] = numbers((5, 2, 3))
        f.create_dataset("scalar", data=numbers((4,)), dtype="<i4")
        array = h5py.h5t.array_create(h5py.h5t.IEEE_F32BE, (4,))
        d = h5py.h5d.create(f.id, b"scalar_array", array, h5py.h5s.create(h5py.h5s.SCALAR))
        d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(4, dtype=">f4"), mtype=array)


@case(".h5")
def types_without_zarr_form(path):
    with h5py.File(path, "w") as f:
        f["target"] = np.arange(3)
        f.create_dataset("references", data=np.array([f["target"].ref], dtype=h5py.ref_dtype))
        ragged = f.create_dataset("ragged", (2,), dtype=h5py.vlen_dtype("i4"))
        ragged[0] = [1, 2]
        mixed = np.dtype([("a", "i4"), ("text", h5py.string_dtype())])
        f.create_dataset("compound_with_text", data=np.array([(1, "x")], mixed))
        f.attrs.create("reference", f["target"].ref, dtype=h5py.ref_dtype)


# ---- metadata

@case(".h5")
def fill_values(path):
    with h5py.File(path, "w") as f:
        for name, dtype, value in [("int", "<i4", -9), ("big", ">i2", 300), ("float", "<f4", 1e20), ("nan", "<f8", np.nan),
                                   ("unsigned", "u8", 2**64 - 1), ("bytes", "S4", b"none"), ("complex", "<c8", 1 - 1j)]:
            d = f.create_dataset(name, (10,), dtype, chunks=(4,), fillvalue=value)
            d[:3] = np.zeros(3, dtype)
            d = f.create_dataset(name + "_attribute", (10,), dtype, chunks=(4,), fillvalue=value)
            d.attrs.create("_FillValue", np.array(value, dtype))
            d[5] = np.zeros((), dtype)
        other = f.create_dataset("other_attribute", (10,), "i4", chunks=(4,), fillvalue=3)
        other.attrs["_FillValue"] = np.int32(4)
        other[0] = 1
        text = f.create_dataset("text", (10,), h5py.string_dtype(), chunks=(4,), fillvalue="leer")
        text[9] = "voll"
        text.attrs["_FillValue"] = "leer"


@case(".h5")
def attributes(path):
    with h5py.File(path, "w", track_order=True) as f:
        d = f.create_dataset("v", data=numbers((3,)))
        for holder in (f, d):
            a = holder.attrs
            a["text"] = "plain"
            a["unicode"] = "Ärger 日本"
            a["fixed"] = np.bytes_(b"fixed")
            a["latin1"] = np.bytes_("Grüße".encode("latin-1"))
            a["texts"] = ["a", "bb", ""]
            a["fixed_texts"] = np.array([b"a", b"bb"])
            a["int"] = np.int16(-3)
            a["uint64"] = np.uint64(2**64 - 1)
            a["float32"] = np.float32(0.1)
            a["float64"] = 0.1
            a["half"] = np.float16(0.5)
            a["big_endian"] = np.array([1, 2], ">i4")
            a["special"] = np.array([np.nan, np.inf, -np.inf])
            a["one"] = np.array([1.5])
            a["matrix"] = np.arange(6).reshape(2, 3)
            a["none"] = np.array([], "f4")
            a["null"] = h5py.Empty("i4")
            a["bool"] = True
            a["bools"] = np.array([True, False])
            a["complex"] = 1 + 2j
            a["compound"] = np.array((1, 2.5), np.dtype([("a", "i4"), ("b", "f8")]))
            a["opaque"] = np.void(b"abc")
            a.create("enum", 1, dtype=h5py.enum_dtype({"A": 0, "B": 1}))
            a["empty text"] = ""
            a["odd/näme \n"] = 1


@case(".h5")
def many_attributes(path):
    """More than fit in an object header: dense storage."""
    with h5py.File(path, "w", libver="latest") as f:
        for i in range(100):
            f.attrs[f"attribute {i}"] = i
        f.attrs["large"] = np.arange(20000)


@case(".h5")
def links(path):
    with h5py.File(path, "w") as f:
        f["a/b/data"] = numbers((3,))
        f["hard"] = f["a/b/data"]
        f["a/soft_relative"] = h5py.SoftLink("b/data")
        f["a/soft_absolute"] = h5py.SoftLink("/a/b/data")
        f["dangling"] = h5py.SoftLink("/nowhere")
        f["external"] = h5py.ExternalLink("layouts.h5", "/contiguous")
        f["external_missing"] = h5py.ExternalLink("no such file.h5", "/x")
        f["external_self"] = h5py.ExternalLink("links.h5", "/a/b")
        f["a/b/cycle"] = f["a"]
        f["root_again"] = f["/"]
        f["committed_type"] = np.dtype("f4")
        f.create_dataset("uses_committed", (3,), f["committed_type"])[...] = [1, 2, 3]


@case(".h5")
def user_block(path):
    with h5py.File(path, "w", userblock_size=1024) as f:
        f.create_dataset("chunked", data=numbers((20, 20)), chunks=(7, 7), compression="gzip")
        f["contiguous"] = numbers((20, 20))
    with open(path, "r+b") as f:
        f.write(b"a user block\n")


@case(".h5")
def superblock_0(path):
    with h5py.File(path, "w", libver="earliest") as f:
        f["v"] = numbers((4,))


@case(".h5")
def superblock_2(path):
    with h5py.File(path, "w", libver=("v108", "v108")) as f:
        f["v"] = numbers((4,))


@case(".h5")
def superblock_3(path):
    with h5py.File(path, "w", libver=("v110", "v110")) as f:
        f.create_dataset("v", data=numbers((40,)), chunks=(10,), maxshape=(None,))


@case(".h5")
def paged_file_space(path):
    with h5py.File(path, "w", libver="latest", fs_strategy="page", fs_page_size=4096, fs_persist=True) as f:
        f.create_dataset("v", data=numbers((50, 50)), chunks=(10, 10), compression="gzip")


@case(".h5")
def dimension_scales(path):
    """Scales by h5py, without netCDF: some dimensions have one, some two, some none."""
    with h5py.File(path, "w") as f:
        f["x"] = np.arange(4.0)
        f["x"].make_scale("a label for x")
        f["g/y"] = np.arange(5.0)
        f["g/y"].make_scale()
        f["both"] = numbers((4, 5))
        f["both"].dims[0].attach_scale(f["x"])
        f["g/v"] = numbers((4, 5))
        f["g/v"].dims[0].attach_scale(f["x"])
        f["g/v"].dims[1].attach_scale(f["g/y"])
        f["neither"] = numbers((4, 4, 7))


@case(".h5")
def phony_dimensions(path):
    """No scales at all: equal lengths share a name within a group, but not within a variable."""
    with h5py.File(path, "w", track_order=True) as f:
        f["square"] = numbers((5, 5))
        f["z_group/inner"] = numbers((5, 6))
        f["z_group/deeper/v"] = numbers((6,))
        f["a_group/v"] = numbers((7, 5))
        f["line"] = numbers((5,))
        f.create_dataset("growing", data=numbers((5,)), maxshape=(None,), chunks=(2,))
        f["cube"] = numbers((6, 5, 6))


# ---- netCDF-4

@case(".nc")
def netcdf_simple(path):
    with netCDF4.Dataset(path, "w") as nc:
        nc.title = "A small netCDF-4 file"
        nc.createDimension("time", None)
        nc.createDimension("lat", 6)
        nc.createDimension("lon", 9)
        time = nc.createVariable("time", "f8", ("time",))
        time.units = "days since 2000-01-01"
        time[:] = np.arange(5)
        nc.createVariable("lat", "f4", ("lat",))[:] = np.linspace(-75, 75, 6)
        nc.createVariable("lon", "f4", ("lon",))[:] = np.linspace(0, 320, 9)
        t = nc.createVariable("temperature", "f4", ("time", "lat", "lon"), zlib=True, complevel=5, shuffle=True,
                              chunksizes=(2, 4, 5), fill_value=np.float32(-999))
        t.units = "K"
        t.valid_range = np.array([100, 400], "f4")
        t[:] = 280 + numbers((5, 6, 9), "f4") / 100
        t[1, 2, 3] = np.ma.masked
        p = nc.createVariable("pressure", "i2", ("time", "lat", "lon"), zlib=True, fletcher32=True, chunksizes=(1, 6, 9))
        p.scale_factor = 0.5
        p.add_offset = 1000.0
        p.set_auto_scale(False)
        p[:] = numbers((5, 6, 9), "i2")


@case(".nc")
def netcdf_groups(path):
    with netCDF4.Dataset(path, "w") as nc:
        nc.createDimension("x", 4)
        nc.createVariable("x", "i4", ("x",))[:] = np.arange(4)
        for name in ("beta", "alpha"):
            group = nc.createGroup(name)
            group.about = name
            group.createDimension("y", 3)
            group.createVariable("v", "f8", ("x", "y"))[:] = numbers((4, 3), "f8")
        inner = nc["alpha"].createGroup("inner")
        inner.createVariable("w", "i2", ("y", "x"))[:] = numbers((3, 4), "i2")


@case(".nc")
def netcdf_dimension_without_variable(path):
    with netCDF4.Dataset(path, "w") as nc:
        nc.createDimension("n", 5)
        nc.createDimension("unlimited", None)
        nc.createVariable("a", "i4", ("n",))[:] = np.arange(5)
        nc.createVariable("b", "i4", ("unlimited", "n"))[0:3] = numbers((3, 5))
        nc.createVariable("scalar", "f8", ())[...] = 3.25


@case(".nc")
def netcdf_name_of_a_dimension(path):
    """A variable with the name of a dimension that is not its coordinate: stored with a prefix."""
    with netCDF4.Dataset(path, "w") as nc:
        nc.createDimension("level", 3)
        nc.createDimension("other", 4)
        nc.createVariable("level", "f4", ("other",))[:] = np.arange(4)
        nc.createVariable("v", "f4", ("level", "other"))[:] = numbers((3, 4), "f4")


@case(".nc")
def netcdf_coordinates_of_two_dimensions(path):
    with netCDF4.Dataset(path, "w") as nc:
        nc.createDimension("time", 3)
        nc.createDimension("length", 6)
        names = nc.createVariable("time", "i4", ("time", "length"))
        names[:] = numbers((3, 6))
        nc.createVariable("v", "f4", ("time",))[:] = np.arange(3)


@case(".nc")
def netcdf_text(path):
    with netCDF4.Dataset(path, "w") as nc:
        nc.createDimension("station", 3)
        nc.createDimension("length", 8)
        chars = nc.createVariable("name", "S1", ("station", "length"))
        chars[:] = netCDF4.stringtochar(np.array(["Berlin", "Potsdam", "Ulm"], "S8"))
        strings = nc.createVariable("text", str, ("station",))
        strings[:] = np.array(["Berlin", "", "Zürich"], object)
        strings.note = "é"
        strings.setncattr_string("one_string", ["only"])
        strings.setncattr_string("two_strings", ["a", "b"])


@case(".nc")
def netcdf_user_types(path):
    with netCDF4.Dataset(path, "w") as nc:
        nc.createDimension("n", 4)
        color = nc.createEnumType(np.uint8, "color_t", {"red": 0, "green": 1, "blue": 2})
        nc.createVariable("color", color, ("n",), fill_value=0)[:] = [0, 1, 2, 1]
        point = nc.createCompoundType(np.dtype([("x", "f4"), ("y", "i2"), ("z", "f8", (2,))]), "point_t")
        data = np.zeros(4, point.dtype)
        data["x"] = np.arange(4)
        data["z"] = np.arange(8).reshape(4, 2)
        nc.createVariable("point", point, ("n",))[:] = data
        ragged = nc.createVLType(np.int32, "ragged_t")
        v = nc.createVariable("ragged", ragged, ("n",))
        for i in range(4):
            v[i] = np.arange(i, dtype="i4")


@case(".nc")
def netcdf_all_types(path):
    with netCDF4.Dataset(path, "w") as nc:
        nc.createDimension("n", 6)
        for code in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"):
            nc.createVariable(f"v_{code}", code, ("n",), fill_value=np.dtype(code).type(7))[1:4] = [1, 2, 3]
            nc.createVariable(f"nofill_{code}", code, ("n",), fill_value=False)[:] = np.arange(6)
            nc.createVariable(f"default_{code}", code, ("n",))[0:2] = [1, 2]
            nc.createVariable(f"big_{code}", ">" + code, ("n",), endian="big", zlib=True)[:] = np.arange(6)
        v = nc["v_i4"]
        v.scalar = np.int32(1)
        v.pair = np.array([1.5, 2.5], "f4")
        v.text = "some text"


@case(".nc")
def netcdf_classic_model(path):
    with netCDF4.Dataset(path, "w", format="NETCDF4_CLASSIC") as nc:
        nc.createDimension("t", None)
        nc.createVariable("t", "f8", ("t",))[:] = np.arange(3)
        nc.createVariable("v", "f4", ("t",))[:] = np.arange(3)


@case(".nc")
def netcdf_szip_and_quantized(path):
    with netCDF4.Dataset(path, "w") as nc:
        nc.createDimension("x", 64)
        nc.createVariable("szip", "i4", ("x",), compression="szip", chunksizes=(32,))[:] = numbers((64,))
        nc.createVariable("quantized", "f4", ("x",), zlib=True, significant_digits=3)[:] = numbers((64,), "f4") / 7


# ---- damaged

def deflated(path, rows=4):
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=np.random.default_rng(5).integers(0, 1000, (rows, 1000), "i4"), chunks=(1, 1000),
                         compression="gzip", shuffle=True, fletcher32=True)
    with h5py.File(path) as f:
        return [f["v"].id.get_chunk_info(i) for i in range(rows)]


@case(".h5")
def damaged_byte_under_fletcher32(path):
    chunk = deflated(path)[2]
    with open(path, "r+b") as f:
        f.seek(chunk.byte_offset + 100)
        byte = f.read(1)[0]
        f.seek(chunk.byte_offset + 100)
        f.write(bytes([byte ^ 0x10]))


def lookup3(data):
    """Bob Jenkins' hash, the checksum of HDF5's metadata."""
    def rot(x, k):
        return (x << k | x >> (32 - k)) & 0xffffffff
    a = b = c = (0xdeadbeef + len(data)) & 0xffffffff
    words = [int.from_bytes(data[i:i + 4], "little") for i in range(0, len(data), 4)]
    words += [0] * (-len(words) % 3)
    for i in range(0, len(words), 3):
        a, b, c = ((x + y) & 0xffffffff for x, y in zip((a, b, c), words[i:i + 3]))
        if i + 3 < len(words):
            for k in (4, 6, 8, 16, 19, 4):
                a = (a - c & 0xffffffff) ^ rot(c, k)
                a, b, c = b, (c + b) & 0xffffffff, a
        else:
            for k in (14, 11, 25, 16, 4, 14, 24):
                c = (c ^ b) - rot(b, k) & 0xffffffff
                a, b, c = b, c, a
            # after seven turns the places have moved by one
            a, b, c = c, a, b
    return c


@case(".h5")
def damaged_open_for_writing(path):
    """Marked as open, as a crashed writer leaves it: libhdf5 refuses it."""
    superblock_3(path)
    with open(path, "r+b") as f:
        block = bytearray(f.read(48))
        assert block[8] == 3 and block[44:] == lookup3(block[:44]).to_bytes(4, "little")
        block[11] |= 1
        block[44:] = lookup3(block[:44]).to_bytes(4, "little")
        f.seek(0)
        f.write(block)


@case(".h5")
def damaged_truncated_file(path):
    last = max(deflated(path), key=lambda chunk: chunk.byte_offset)
    os.truncate(path, last.byte_offset + last.size // 2)


@case(".h5")
def damaged_deflate_cut_short(path):
    with h5py.File(path, "w") as f:
        d = f.create_dataset("v", data=numbers((2, 5000)), chunks=(1, 5000), compression="gzip")
        _, stored = d.id.read_direct_chunk((1, 0))
        d.id.write_direct_chunk((1, 0), stored[:len(stored) // 2])


@case(".h5")
def damaged_chunk_of_wrong_size(path):
    with h5py.File(path, "w") as f:
        d = f.create_dataset("v", data=numbers((3, 100)), chunks=(1, 100), compression="gzip")
        d.id.write_direct_chunk((1, 0), zlib.compress(b"short"))
        d.id.write_direct_chunk((2, 0), zlib.compress(bytes(1 << 20)))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in CASES.items():
        path = folder / name
        try:
            make(str(path))
        except Exception as error:
            raise RuntimeError(f"{name} cannot be made") from error


if __name__ == "__main__":
    main()
