#!/usr/bin/python3
"""Makes the Zarr v2 stores that the tests mount: with zarr-python, with netCDF-C's NCZarr, and by hand.

Usage: make_zarr.py DIRECTORY

Every function in CASES makes one store, named for what it holds. zarr-python reads all of them but those that
are called nczarr_* (netCDF-C's dialect; expected() tells what is in them) and damaged_* (which damage, the name says).
All are small, and hold the same values at every run.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import numcodecs
import numpy as np
import zarr

CASES = {}


def case(function):
    """Registers a function that makes the store of its name; it gets the path."""
    CASES[function.__name__] = function
    return function


def numbers(shape, dtype="<i4", seed=1):
    """Data that compresses: a slow wave with a little noise."""
    count = int(np.prod(shape))
    wave = 100 * np.sin(np.arange(count) / 50) + np.random.default_rng(seed).integers(0, 4, count)
    if np.dtype(dtype).kind == "u":
        wave = abs(wave)
    return wave.astype(dtype).reshape(shape)


def add(group, name, data, chunks=None, **options):
    """An array of this data, uncompressed unless told."""
    options.setdefault("compressor", None)
    return group.create_dataset(name, data=data, chunks=chunks or tuple(max(1, n // 2 + 1) for n in data.shape), **options)


# ---- codecs

@case
def compressors(path):
    g = zarr.open_group(path, "w")
    data = numbers((50, 40), "<f8")
    for name, codec in [
            ("zlib", numcodecs.Zlib(6)), ("zlib_stored", numcodecs.Zlib(0)), ("gzip", numcodecs.GZip(5)), ("bz2", numcodecs.BZ2(9)),
            ("zstd", numcodecs.Zstd(3)), ("zstd_fast", numcodecs.Zstd(-5)), ("lz4", numcodecs.LZ4(1)),
            ("crc32", numcodecs.CRC32()), ("adler32", numcodecs.Adler32()), ("default", "default")]:
        add(g, name, data, (20, 30), compressor=codec)


@case
def blosc(path):
    g = zarr.open_group(path, "w")
    for cname in numcodecs.blosc.list_compressors():
        for name, shuffle in [("none", 0), ("byte", 1), ("bit", 2), ("auto", -1)]:
            codec = numcodecs.Blosc(cname, 5, shuffle)
            add(g, f"{cname}_{name}", numbers((50, 40), "<f4"), (20, 30), compressor=codec)
    add(g, "one_byte", numbers((1000,), "|u1"), (300,), compressor=numcodecs.Blosc("lz4", 9, 2))
    add(g, "blocks", numbers((20000,), "<i8"), (20000,), compressor=numcodecs.Blosc("zstd", 1, 1, blocksize=4096))
    noise = np.random.default_rng(2).integers(0, 256, 5000, "u1")
    add(g, "incompressible", noise, (2000,), compressor=numcodecs.Blosc("lz4", 5, 0))
    add(g, "level_0", numbers((1000,)), (300,), compressor=numcodecs.Blosc("zlib", 0, 1))


@case
def lzma(path):
    from lzma import (CHECK_CRC32, CHECK_NONE, CHECK_SHA256, FILTER_DELTA, FILTER_LZMA1, FILTER_LZMA2, FORMAT_ALONE,
                      FORMAT_RAW, FORMAT_XZ)
    g = zarr.open_group(path, "w")
    for name, codec in [
            ("xz", numcodecs.LZMA(FORMAT_XZ, preset=1)), ("xz_crc32", numcodecs.LZMA(FORMAT_XZ, CHECK_CRC32)),
            ("xz_sha256", numcodecs.LZMA(FORMAT_XZ, CHECK_SHA256)), ("xz_unchecked", numcodecs.LZMA(FORMAT_XZ, CHECK_NONE)),
            ("alone", numcodecs.LZMA(FORMAT_ALONE, preset=1)),
            ("raw", numcodecs.LZMA(FORMAT_RAW, filters=[{"id": FILTER_LZMA2, "preset": 1}])),
            ("raw_delta", numcodecs.LZMA(FORMAT_RAW, filters=[{"id": FILTER_DELTA, "dist": 4}, {"id": FILTER_LZMA2, "preset": 1}])),
            ("raw_lzma1", numcodecs.LZMA(FORMAT_RAW, filters=[{"id": FILTER_LZMA1, "preset": 1}]))]:
        add(g, name, numbers((50, 40)), (20, 30), compressor=codec)


@case
def filters(path):
    g = zarr.open_group(path, "w")
    wave = numbers((50, 40), "<f8") / 8
    for name, data, chain in [
            ("shuffle", wave, [numcodecs.Shuffle(8)]), ("shuffle_4_of_8", wave, [numcodecs.Shuffle(4)]),
            ("delta", numbers((1000,), "<i4"), [numcodecs.Delta("<i4")]),
            ("delta_big", numbers((1000,), ">i2"), [numcodecs.Delta(">i2")]),
            ("delta_narrow", numbers((1000,), "<i8"), [numcodecs.Delta("<i8", astype="<i2")]),
            ("delta_float", wave.astype("<f4"), [numcodecs.Delta("<f4")]),
            ("scaled", wave, [numcodecs.FixedScaleOffset(offset=-200, scale=8, dtype="<f8", astype="<u2")]),
            ("scaled_float", wave.astype("<f4"), [numcodecs.FixedScaleOffset(offset=1, scale=10, dtype="<f4", astype="<i4")]),
            ("packed_bits", numbers((1001,), "<i4") % 2 == 0, [numcodecs.PackBits()]),
            ("quantized", wave, [numcodecs.Quantize(digits=1, dtype="<f8")]),
            ("quantized_narrow", wave, [numcodecs.Quantize(digits=1, dtype="<f8", astype="<f4")]),
            ("rounded", wave.astype("<f4"), [numcodecs.BitRound(7)]),
            ("checksums", wave, [numcodecs.CRC32(), numcodecs.Adler32()])]:
        chunks = tuple(n // 2 + 1 for n in data.shape)
        add(g, name, data, chunks, filters=chain)
        add(g, name + "_zlib", data, chunks, filters=chain, compressor=numcodecs.Zlib(1))


@case
def long_chains(path):
    g = zarr.open_group(path, "w")
    add(g, "four", numbers((1000,), "<i4"), (400,), compressor=numcodecs.Zstd(1),
        filters=[numcodecs.Delta("<i4"), numcodecs.Shuffle(4), numcodecs.CRC32()])
    add(g, "compressors_as_filters", numbers((1000,), "<i4"), (400,), compressor=numcodecs.BZ2(1),
        filters=[numcodecs.Shuffle(4), numcodecs.LZ4(), numcodecs.Adler32()])


# ---- data types

@case
def numeric_types(path):
    g = zarr.open_group(path, "w")
    for order in "<>":
        for kind in "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split():
            dtype = np.dtype(order + kind)
            name = ("big_" if order == ">" else "little_") + kind
            if name not in ("big_i1", "big_u1"):
                add(g, name, numbers((7, 9), dtype), (4, 5), compressor=numcodecs.Zlib(1))
    add(g, "bool", numbers((7, 9)) > 0, (4, 5))
    add(g, "long_double", numbers((7, 9), "<f16"), (4, 5))


@case
def strings(path):
    g = zarr.open_group(path, "w")
    words = ["", "a", "naïve", "温度", "😀 smile", "zwölf Boxkämpfer"]
    add(g, "bytes", np.array([b"", b"a", b"abc", b"\0x", b"\xff\xfe"], "S5"), (2,), fill_value=b"ab")
    add(g, "bytes_1", np.array(list("hello"), "S1"), (2,), fill_value=b"x")
    add(g, "unicode", np.array(words, "<U16"), (4,), fill_value="é")
    add(g, "unicode_big", np.array(words, ">U16"), (4,), compressor=numcodecs.Zlib(1))
    add(g, "unicode_1", np.array(list("héllo"), "<U1"), (2,))


@case
def times(path):
    g = zarr.open_group(path, "w")
    days = np.array(["2001-01-01", "NaT", "1969-12-31", "2262-04-11"], "<M8[D]")
    for unit in "Y M D h s ms us ns".split():
        add(g, "date_" + unit, days.astype(f"<M8[{unit}]"), (3,), fill_value=np.datetime64("NaT"))
    add(g, "date_big", days.astype(">M8[ns]"), (3,))
    add(g, "steps", numbers((10,), "<i8").astype("<m8[25s]"), (4,), fill_value=np.timedelta64(5, "s"))


@case
def structured(path):
    g = zarr.open_group(path, "w")
    simple = np.zeros(20, [("a", "<i2"), ("b", ">f4"), ("c", "S3"), ("d", "?")])
    simple["a"], simple["b"], simple["c"] = numbers(20, "i2"), numbers(20, "f4"), b"xyz"
    add(g, "simple", simple, (8,), compressor=numcodecs.Blosc("lz4", 5, 1))
    nested = np.zeros((5, 4), [("p", [("x", "<f8"), ("y", "<f8")]), ("m", "<i4", (2, 3)), ("t", "<M8[s]")])
    nested["p"]["y"], nested["m"] = numbers((5, 4), "f8"), numbers((5, 4, 2, 3))
    add(g, "nested", nested, (3, 3))
    padded = np.zeros(6, [("a", "u1"), ("f1", "V7"), ("b", "<f8")])
    padded["b"] = numbers(6)
    add(g, "padded", padded, (4,))
    edit_zarray(pathlib.Path(path) / "padded", dtype=[["a", "|u1"], ["", "|V7"], ["b", "<f8"]])  # as of an aligned numpy type
    add(g, "opaque", np.array([b"\1\2\3", b"\0\0\4"], "V3"), (2,))


@case
def objects(path):
    g = zarr.open_group(path, "w")
    words = np.array([["", "a", "naïve"], ["温度", "😀", "x" * 300]], object)
    for name, codec in [("utf8", numcodecs.VLenUTF8()), ("json", numcodecs.JSON()), ("pickle", numcodecs.Pickle())]:
        add(g, name, words, (2, 2), dtype=object, object_codec=codec, compressor=numcodecs.Zlib(1))
    add(g, "utf8_raw", words.ravel(), (4,), dtype=object, object_codec=numcodecs.VLenUTF8())
    add(g, "utf8_checked", words.ravel(), (4,), dtype=object, object_codec=numcodecs.VLenUTF8(), filters=[numcodecs.CRC32()])
    add(g, "bytes", np.array([b"", b"a\0b", b"\xff" * 40], object), (2,), dtype=object, object_codec=numcodecs.VLenBytes())
    ragged = np.empty(3, object)
    ragged[:] = [np.arange(3), np.arange(0), np.arange(5)]
    add(g, "ragged", ragged, (2,), dtype=object, object_codec=numcodecs.VLenArray("<i4"), compressor=numcodecs.Zstd(1))
    colours = np.array(["red", "green", "red", "blue"], object)
    add(g, "categories", colours, (3,), dtype=object, object_codec=numcodecs.Categorize(["red", "green", "blue"], dtype=object))
    missing = g.create_dataset("utf8_missing", shape=(10,), chunks=(3,), dtype=str, compressor=None, fill_value="none")
    missing[4:7] = np.array(["a", "b", "c"], object)


# ---- grids and layouts

@case
def shapes(path):
    g = zarr.open_group(path, "w")
    add(g, "scalar", np.array(42.5), ())
    add(g, "scalar_compressed", np.array(7), (), compressor=numcodecs.Zlib(1))
    add(g, "one", np.array([3]), (1,))
    add(g, "edges", numbers((10, 11, 7)), (4, 3, 7), fill_value=-9)
    add(g, "larger_chunk", numbers((3, 3)), (10, 10), fill_value=-9)
    add(g, "long", numbers((5000,), "|u1"), (7,))
    add(g, "many_dimensions", numbers((2, 1, 3, 1, 2, 2, 1, 2), "<i2"), (1, 1, 2, 1, 2, 1, 1, 2))
    for name, shape in [("empty", (0,)), ("empty_2", (5, 0)), ("empty_3", (0, 4, 0))]:
        g.create_dataset(name, shape=shape, chunks=tuple(max(n, 1) for n in shape), dtype="<f4", compressor=None)


@case
def slash_separator(path):
    g = zarr.open_group(zarr.NestedDirectoryStore(path), "w")
    add(g, "one", numbers((10,)), (3,))
    add(g, "three", numbers((10, 7, 5)), (3, 3, 3), compressor=numcodecs.Zlib(1), dimension_separator="/")
    add(g, "scalar", np.array(5), (), dimension_separator="/")
    sparse = g.create_dataset("sparse", shape=(100, 100), chunks=(10, 10), dtype="<i2", compressor=None, fill_value=3,
                              dimension_separator="/")
    sparse[15, 25] = 1
    sparse[99, 0] = 2


@case
def fortran_order(path):
    g = zarr.open_group(path, "w")
    for name, data, chunks in [
            ("one", numbers((20,)), (6,)), ("two", numbers((50, 70), "<f8"), (40, 35)), ("bytes", numbers((50, 70), "|u1"), (33, 34)),
            ("three", numbers((6, 7, 8), "<i2"), (4, 3, 8)), ("thin", numbers((6, 1, 8)), (4, 1, 3)),
            ("five", numbers((3, 4, 5, 2, 3), ">f4"), (2, 3, 5, 1, 3)), ("complex", numbers((9, 8), "<c16"), (4, 4)),
            ("odd_size", numbers((9, 8), "<i4").astype("S5"), (4, 5))]:
        add(g, name, data, chunks, order="F")
        add(g, name + "_zlib", data, chunks, order="F", compressor=numcodecs.Zlib(1))
    add(g, "shuffled", numbers((20, 30), "<i4"), (7, 11), order="F", filters=[numcodecs.Delta("<i4"), numcodecs.Shuffle(4)])
    words = np.array([[f"{i},{j}" * (i + 1) for j in range(5)] for i in range(4)], object)
    add(g, "words", words, (3, 3), dtype=object, object_codec=numcodecs.VLenUTF8(), order="F")


@case
def missing_chunks(path):
    g = zarr.open_group(path, "w")
    for name, dtype, fill in [
            ("zero", "<i4", 0), ("number", "<i4", -7), ("big_endian", ">i4", 1000), ("nan", "<f4", np.nan), ("infinity", "<f8", np.inf),
            ("minus_infinity", "<f2", -np.inf), ("minus_zero", "<f4", -0.0), ("float32", "<f4", 0.1), ("true", "|b1", True),
            ("most", "<u8", 2**64 - 1), ("least", "<i8", -2**63), ("complex", "<c8", complex(np.nan, 2)), ("bytes", "S4", b"ab"),
            ("unicode", "<U3", "é"), ("date", "<M8[ns]", np.datetime64("NaT"))]:
        fill = np.array(fill, dtype)[()]
        a = g.create_dataset(name, shape=(10, 10), chunks=(3, 4), dtype=dtype, compressor=numcodecs.Zlib(1), fill_value=fill)
        a[4:5, 5:6] = np.zeros((1, 1), dtype)
    a = g.create_dataset("record", shape=(10,), chunks=(3,), dtype=[("a", "<i2"), ("b", "<f4")], compressor=None)
    a[4:5] = np.zeros(1, a.dtype)
    edit_zarray(pathlib.Path(path) / "record", fill_value="AQAAACBA")  # (1, 2.5); numpy no longer lets zarr-python set it
    never = g.create_dataset("never_written", shape=(10, 10), chunks=(3, 4), dtype="<f4", fill_value=5)
    never.attrs["note"] = "there is no chunk"
    # null: readers are promised nothing, so all chunks are there.
    g.create_dataset("null", data=numbers((10, 10)), chunks=(3, 4), compressor=None, fill_value=None)


@case
def sparse(path):
    g = zarr.open_group(path, "w")
    a = g.create_dataset("v", shape=(3000, 1000), chunks=(10, 10), dtype="<i2", compressor=numcodecs.Zlib(1), fill_value=-1)
    for i, j in [(0, 0), (1234, 567), (2999, 999)]:
        a[i, j] = i


# ---- groups, names, attributes

@case
def groups(path):
    g = zarr.open_group(path, "w")
    g.attrs.update({"title": "nested groups", "level": 0})
    for name in ["a", "a/b", "a/b/c", "empty", "z"]:
        g.create_group(name).attrs["name"] = name
    for name in ["v", "a/v", "a/b/c/v"]:
        add(g, name, numbers((4, 5)), (2, 5)).attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    (pathlib.Path(path) / "no_group").mkdir()
    (pathlib.Path(path) / "no_group/README").write_text("a directory without metadata is not part of the store\n")


@case
def consolidated(path):
    groups(path)
    zarr.consolidate_metadata(path)


@case
def unicode_names(path):
    g = zarr.open_group(path, "w")
    for name in ["温度", "naïve", "with space", "100%", "a+b=c", "😀", "Ümläut/größe"]:
        add(g, name, numbers((5,)), (3,)).attrs["größe"] = "groß 😀"


@case
def attributes(path):
    g = zarr.open_group(path, "w")
    g.attrs.update({"text": "line\nbreak \"quoted\" \\ \t", "empty": "", "unicode": "温度", "list": [1, 2.5, "x", None, [True]]})
    a = add(g, "v", numbers((4, 5)), (2, 5))
    a.attrs.update({"nan": float("nan"), "range": [float("-inf"), float("inf")], "int": 2**53 + 1, "long": 2**64 - 1,
                    "negative": -2**63, "float": 0.1, "small": 5e-324, "large": 1.7976931348623157e308, "whole": 3.0,
                    "bool": True, "null": None, "object": {"b": 1, "a": {"c": []}}, "looks_like": "NaN", "": "no name"})
    add(g, "wrong_dimensions", numbers((4, 5)), (2, 5)).attrs["_ARRAY_DIMENSIONS"] = ["only_one"]


@case
def many_attributes(path):
    g = zarr.open_group(path, "w")
    a = add(g, "v", numbers((4,)), (2,))
    a.attrs.put({f"attribute_{i:04}": i for i in range(2000)})
    add(g, "w", numbers((4,)), (2,)).attrs["text"] = "long " * 30000


@case
def xarray_dataset(path):
    import xarray
    data = xarray.Dataset(
        {"t": (("time", "y", "x"), numbers((5, 4, 6), "f4"), {"units": "K", "_FillValue": np.float32(-999)}),
         "flag": (("y", "x"), numbers((4, 6), "i2"), {"flag_values": [1, 2]}), "total": ((), 12.5)},
        {"time": ("time", np.arange("2001-01-01", "2001-01-06", dtype="M8[D]").astype("M8[ns]")), "y": ("y", np.arange(4.0)),
         "x": ("x", np.arange(6.0)), "station": ("x", np.array(["a", "bb", "ccc", "d", "e", "f"], object))},
        {"title": "written by xarray"})
    data["t"].encoding["_FillValue"] = data["t"].attrs.pop("_FillValue")
    data.to_zarr(path, mode="w", consolidated=True)


def root_array(path, data, chunks, **options):
    a = zarr.open_array(path, "w", shape=data.shape, chunks=chunks, dtype=data.dtype, compressor=None, **options)
    a[...] = data
    a.attrs["units"] = "K"


@case
def array_as_root(path):
    root_array(path, numbers((10, 7)), (4, 4))


@case
def scalar_as_root(path):
    root_array(path, np.array(3.5), ())


@case
def links(path):
    groups(path)
    os.symlink("a", path + "/link_to_group")
    os.symlink("../v", path + "/a/link_to_array")
    os.symlink("0.0", path + "/v/9.9")  # no chunk of the grid


@case
def junk_files(path):
    g = zarr.open_group(path, "w")
    add(g, "v", numbers((10, 10)), (5, 5))
    for name in ["0.0.tmp", "00.1", "0", "0.0.0", "7.7", "README.md", ".DS_Store", "0.1~"]:
        (pathlib.Path(path) / "v" / name).write_bytes(b"junk")
    (pathlib.Path(path) / "notes.txt").write_text("not part of the store\n")


# ---- NCZarr

CDL = """netcdf all {
dimensions: y = 4 ; x = 6 ;
variables:
  byte b(x) ; ubyte ub(x) ; short s(y, x) ; int i(y, x) ; uint ui(x) ; int64 l(x) ; uint64 ul(x) ;
  float f(y, x) ; double d(x) ; char c(x) ;
  int big(x) ; big:_Endianness = "big" ;
  int one ;
  i:units = "m" ; i:valid_range = 0, 100 ; f:scale = 0.5f ; :title = "NCZarr" ;
data:
  b = -1, 0, 1, 2, 3, 4 ; ub = 0, 1, 2, 253, 254, 255 ;
  s = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23 ;
  i = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23 ;
  ui = 0, 1, 2, 3, 4, 4294967295 ; l = -5, 1, 2, 3, 4, 5 ; ul = 0, 1, 2, 3, 4, 5 ;
  f = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23 ;
  d = 0.5, 1.5, 2.5, 3.5, 4.5, 5.5 ; c = "hello!" ;
  big = 1, 2, 3, 4, 5, 6 ;
  one = 42 ;
group: g {
  dimensions: z = 3 ;
  variables: float v(z, x) ; v:units = "K" ;
  data: v = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 ;
}
}
"""


NETCDF_FILL = 9.9692099683868690e+36  # of doubles; NCZarr prints six digits of it


def expected(store):
    """What a nczarr_* store holds: {variable: (array, names of its dimensions or None)}."""
    x = np.arange(6)
    yx = np.arange(24).reshape(4, 6)
    values = {"b": ((x - 1).astype("i1"), ["x"]), "ub": (np.array([0, 1, 2, 253, 254, 255], "u1"), ["x"]),
              "s": (yx.astype("<i2"), ["y", "x"]), "i": (yx.astype("<i4"), ["y", "x"]),
              "ui": (np.array([0, 1, 2, 3, 4, 2**32 - 1], "<u4"), ["x"]), "l": (np.array([-5, 1, 2, 3, 4, 5], "<i8"), ["x"]),
              "ul": (x.astype("<u8"), ["x"]), "f": (yx.astype("<f4"), ["y", "x"]), "d": (x + 0.5, ["x"]),
              "c": (np.array(list("hello!"), "S1"), ["x"]), "big": ((x + 1).astype("<i4"), ["x"]), "one": (np.array(42, "<i4"), []),
              "g/v": (np.arange(18, dtype="<f4").reshape(3, 6), ["z", "x"])}
    if store == "nczarr_nccopy_as_zarr":
        del values["big"]
        values["one"] = (np.array([42], "<i4"), None)  # stored as [1], and nothing says for sure that it is a scalar
        values["g/v"] = (values["g/v"][0], None)  # dimension names only for variables of the root
    elif store != "nczarr_ncgen":
        values = {name: values[name] for name in ["i", "c", "one", "g/v", "big"]}
        values["filled"] = (np.array([0.5, NETCDF_FILL, 2.5, NETCDF_FILL]), ["y"])  # its second chunk is not stored
        values["t"] = (np.array([1, 2, 3], "<i2"), ["t"])
        if store not in ("nczarr_480", "nczarr_481"):
            values["words"] = (np.array([b"", b"a", b"naive", b"four"], "S5"), ["y"])
        if store.startswith("nczarr_493"):
            values["big"] = (values["big"][0].astype(">i4"), ["x"])
    return values


def run_netcdf(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{program} {' '.join(arguments)}: {done.stderr or done.returncode}")


@case
def nczarr_ncgen(path):
    """What the installed netCDF-C writes: 4.9.0 on Debian 12, with upper-case keys."""
    with tempfile.NamedTemporaryFile("w", suffix=".cdl") as cdl:
        cdl.write(CDL)
        cdl.flush()
        run_netcdf("ncgen", "-4", "-lb", "-o", f"file://{path}#mode=nczarr,file", cdl.name)


@case
def nczarr_nccopy_as_zarr(path):
    """Without NCZarr's keys. What it mislabels there (big-endian) cannot be told, so that is left out."""
    with tempfile.TemporaryDirectory() as folder:
        cdl = CDL.replace('  int big(x) ; big:_Endianness = "big" ;\n', "").replace("  big = 1, 2, 3, 4, 5, 6 ;\n", "")
        (pathlib.Path(folder) / "all.cdl").write_text(cdl)
        run_netcdf("ncgen", "-4", "-o", f"{folder}/all.nc", f"{folder}/all.cdl")
        run_netcdf("nccopy", f"{folder}/all.nc", f"file://{path}#mode=zarr,file")


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def generation(path, superblock, group, array, types, in_attributes, character, separator="."):
    """A store as one generation of NCZarr writes it. The arguments name where the four kinds of metadata go: a key, or an
    object where the name starts with a dot."""
    top = pathlib.Path(path)

    def place(folder, main, attributes, name, value):
        if name.startswith("."):
            write_json(folder / name, value)
        else:
            (attributes if in_attributes else main)[name] = value

    def put_group(folder, dimensions, arrays, groups, attributes):
        main = {"zarr_format": 2}
        noted = {k: character for k in attributes}
        if folder == top:
            place(folder, main, attributes, superblock, {"version": "2.0.0"})
        dims, variables = ("dimensions", "arrays") if in_attributes else ("dims", "vars")
        place(folder, main, attributes, group, {dims: dimensions, variables: arrays, "groups": groups})
        place(folder, attributes, attributes, types, {"types": noted})
        write_json(folder / ".zgroup", main)
        write_json(folder / ".zattrs", attributes)

    def put_array(name, references, dtype, fill, attributes, noted={}, chunks=None, stored=None):
        data, _ = values[name]
        folder = top / name
        folder.mkdir(parents=True)
        shape = list(data.shape) or [1]
        chunks = chunks or shape
        main = {"zarr_format": 2, "shape": shape, "dtype": dtype, "chunks": chunks, "fill_value": fill, "order": "C",
                "compressor": None, "filters": None}
        if separator != ".":
            main["dimension_separator"] = separator
        info = {"dimension_references" if in_attributes else "dimrefs": references, "storage": "chunked" if data.shape else "scalar"}
        if in_attributes and not data.shape:
            info.update({"scalar": 1, "storage": "chunked"})
        place(folder, main, attributes, array, info)
        place(folder, attributes, attributes, types, {"types": {**noted, "_FillValue": dtype}})
        write_json(folder / ".zarray", main)
        write_json(folder / ".zattrs", attributes)
        chunk = folder / separator.join("0" for _ in shape)
        chunk.parent.mkdir(exist_ok=True)
        chunk.write_bytes(data.tobytes() if stored is None else stored.tobytes())

    values = expected(top.name)
    arrays = [name for name in values if "/" not in name]
    unlimited = {"size": 3, "unlimited": 1} if in_attributes else 3
    put_group(top, {"y": 4, "x": 6, "t": unlimited}, arrays, ["g"], {"title": "NCZarr", "_NCProperties": "version=2,nczarr=2.0.0"})
    put_group(top / "g", {"z": 3}, ["v"], [], {})
    put_array("i", ["/y", "/x"], "<i4", None,
              {"_ARRAY_DIMENSIONS": ["y", "x"], "units": "m", "scale": 1, "bounds": [0, 1.5],
               "nothing": "NaN" if in_attributes else float("nan"), "version": 5 if in_attributes else "5"},
              {"units": character, "scale": "<f4", "bounds": "<f8", "nothing": "<f4", "version": character})
    put_array("c", ["/x"], character, "x", {})
    put_array("one", [], "<i4", -1, {"_ARRAY_DIMENSIONS": ["_scalar_"]} if in_attributes else {})
    put_array("g/v", ["/g/z", "/x"], "<f4", "NaN", {"units": "K"})
    # Before 4.9.3 netCDF-C labels these as they should be, and stores them as the machine has them.
    put_array("big", ["/x"], ">i4", -2147483647, {"_ARRAY_DIMENSIONS": ["x"]})
    put_array("filled", ["/y"], "<f8", 9.96921e+36, {"_ARRAY_DIMENSIONS": ["y"]}, chunks=[3], stored=values["filled"][0][:3])
    put_array("t", ["/t"], "<i2", -32767, {"_ARRAY_DIMENSIONS": ["t"]})
    if "words" in values:
        put_array("words", ["/y"], "|S5", "", {"_ARRAY_DIMENSIONS": ["y"], "_nczarr_maxstrlen": 5})


@case
def nczarr_480(path):
    generation(path, ".nczarr", ".nczgroup", ".nczvar", ".nczattr", False, "<U1")


@case
def nczarr_481(path):
    generation(path, "_NCZARR_SUPERBLOCK", "_NCZARR_GROUP", "_NCZARR_ARRAY", "_NCZARR_ATTR", False, "<U1")


@case
def nczarr_491(path):
    generation(path, "_nczarr_superblock", "_nczarr_group", "_nczarr_array", "_nczarr_attr", False, ">S1")


@case
def nczarr_493(path):
    generation(path, "_nczarr_superblock", "_nczarr_group", "_nczarr_array", "_nczarr_attr", True, ">S1")


@case
def nczarr_493_slash(path):
    generation(path, "_nczarr_superblock", "_nczarr_group", "_nczarr_array", "_nczarr_attr", True, ">S1", "/")


@case
def nczarr_493_wrong_lists(path):
    """Arrays and groups that are gone, and some that were never listed: what is there is shown."""
    nczarr_493(path)
    for folder, arrays, groups in [("", ["i", "gone", "c"], ["lost"]), ("g", [], [])]:
        zattrs = pathlib.Path(path) / folder / ".zattrs"
        attributes = json.loads(zattrs.read_text())
        attributes["_nczarr_group"].update({"arrays": arrays, "groups": groups, "dimensions": {"y": 17}})
        write_json(zattrs, attributes)


# ---- damage: "v" is the victim, its first chunk is sound where one can be, "good" is untouched

def with_victim(path, **options):
    g = zarr.open_group(path, "w")
    add(g, "good", numbers((10, 10)), (5, 5))
    options.setdefault("compressor", numcodecs.Zlib(1))
    add(g, "v", numbers((40, 10)), (10, 10), **options)
    return pathlib.Path(path) / "v"


def edit_zarray(folder, **changes):
    zarray = json.loads((folder / ".zarray").read_text())
    zarray.update(changes)
    write_json(folder / ".zarray", zarray)


@case
def damaged_chunk_cut_short(path):
    v = with_victim(path)
    os.truncate(v / "1.0", (v / "1.0").stat().st_size // 2)


@case
def damaged_chunk_empty(path):
    os.truncate(with_victim(path) / "1.0", 0)


@case
def damaged_chunk_of_wrong_size(path):
    v = with_victim(path)
    (v / "1.0").write_bytes(numcodecs.Zlib(1).encode(b"short"))
    (v / "2.0").write_bytes(numcodecs.Zlib(1).encode(bytes(1 << 22)))


@case
def damaged_raw_chunk_of_wrong_size(path):
    v = with_victim(path, compressor=None)
    os.truncate(v / "1.0", 399)
    os.truncate(v / "2.0", 401)
    os.truncate(v / "3.0", 1 << 22)


@case
def damaged_checksum(path):
    v = with_victim(path, filters=[numcodecs.CRC32()], compressor=None)
    chunk = bytearray((v / "1.0").read_bytes())
    chunk[100] ^= 1
    (v / "1.0").write_bytes(chunk)


@case
def damaged_unknown_codec(path):
    edit_zarray(with_victim(path), compressor={"id": "nobody-knows", "level": 3})


@case
def damaged_codec_without_id(path):
    edit_zarray(with_victim(path), compressor={"level": 3})


@case
def damaged_zarray_no_json(path):
    (with_victim(path) / ".zarray").write_text("{\"shape\": [")


@case
def damaged_zattrs_no_json(path):
    (with_victim(path) / ".zattrs").write_text("units = K")


@case
def damaged_zarray_deep(path):
    (with_victim(path) / ".zarray").write_text("[" * 100000)


@case
def damaged_shape_absurd(path):
    edit_zarray(with_victim(path), shape=[2**63, 2**63])


@case
def damaged_chunks_absurd(path):
    edit_zarray(with_victim(path), chunks=[2**40, 2**40])


@case
def damaged_chunks_too_large(path):
    edit_zarray(with_victim(path), chunks=[100000, 100000])


@case
def damaged_rank_mismatch(path):
    edit_zarray(with_victim(path), chunks=[10])


@case
def damaged_dtype(path):
    edit_zarray(with_victim(path), dtype="<i3")


@case
def damaged_fill_value(path):
    edit_zarray(with_victim(path), fill_value="nonsense")


@case
def damaged_object_without_codec(path):
    edit_zarray(with_victim(path), dtype="|O", filters=None)


@case
def damaged_chunk_is_a_directory(path):
    v = with_victim(path)
    (v / "1.0").unlink()
    (v / "1.0").mkdir()


@case
def damaged_links_in_circles(path):
    v = with_victim(path)
    os.symlink("..", v.parent / "good/up")
    os.symlink(".", v.parent / "self")
    os.symlink("loop", v.parent / "loop")
    (v / "1.0").unlink()
    os.symlink("1.0", v / "1.0")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # zarr-python's about pickle and object codecs
    for name, make in CASES.items():
        shutil.rmtree(folder / name, ignore_errors=True)
        try:
            make(str(folder / name))
        except Exception as error:
            raise RuntimeError(f"{name} cannot be made") from error


if __name__ == "__main__":
    main()
