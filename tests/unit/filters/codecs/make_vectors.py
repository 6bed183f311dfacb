#!/usr/bin/env python3
"""Writes vectors.inc: chunks as other implementations encode them, for codecs_test.cc.

    pip install numpy numcodecs crc32c h5py hdf5plugin zarr cast-value-rs
    python3 make_vectors.py > vectors.inc

HDF5 chunks are written by libhdf5 and its filter plugins and read raw (read_direct_chunk); Zarr chunks are what
numcodecs' encode() gives. `decoded` is what the same library decodes them to.
"""
import bz2
import gzip
import io
import json
import lzma
import struct
import sys
import warnings
import zlib

warnings.simplefilter("ignore")
import cast_value_rs
import h5py
import hdf5plugin  # noqa: F401  (registers the plugins)
import numcodecs
import numpy as np
from zarr.codecs import scale_offset


def emit(name, dtype, decoded, stored, *, codec=None, id=0, parameters=()):
    codec = json.dumps(codec) if codec else ""
    params = ", ".join(f"{p}u" for p in parameters)
    print(f'{{"{name}", "{np.dtype(dtype).str}", R"({codec})", {id}, {{{params}}},\n "{bytes(decoded).hex()}",\n "{bytes(stored).hex()}"}},')


def smooth(n, dtype):
    """Compressible, with all bytes of an element in use."""
    i = np.arange(n, dtype="f8")
    if np.dtype(dtype).kind == "f":
        return (np.sin(i / 7) * 100).astype(dtype)
    return (i * i * 3 + 1000 * np.sin(i / 9)).astype("i8").astype(dtype)


def gentle(n, dtype):
    """Steps: szip gains even on few samples."""
    return (np.arange(n) // 16 * 3).astype(dtype)


def noise(n):
    return np.random.default_rng(1).integers(0, 256, n, dtype="u1")


def hdf5(name, data, id, options=(), shuffle=False, fletcher32=False):
    file = h5py.File(io.BytesIO(), "w")
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk(data.shape)
    if id == 1:
        plist.set_deflate(*options)
    elif id == 2:
        plist.set_shuffle()
    elif id == 3:
        plist.set_fletcher32()
    elif id == 4:
        plist.set_szip(*options)
    else:
        plist.set_filter(id, h5py.h5z.FLAG_MANDATORY, tuple(options))
    space = h5py.h5s.create_simple(data.shape)
    dataset = h5py.h5d.create(file.id, b"d", h5py.h5t.py_create(data.dtype), space, plist)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(data))
    file.flush()
    mask, stored = dataset.read_direct_chunk((0,) * data.ndim)
    assert mask == 0, f"{name}: stored without the filter"
    _, _, parameters, _ = dataset.get_create_plist().get_filter(0)
    emit("hdf5 " + name, data.dtype, data.tobytes(), stored, id=id, parameters=parameters)


def zarr(name, data, config):
    codec = numcodecs.get_codec(dict(config))
    stored = bytes(np.asarray(codec.encode(data)).tobytes() if not isinstance(codec.encode(data), bytes) else codec.encode(data))
    decoded = np.asarray(memoryview(codec.decode(stored))).tobytes()
    emit("zarr " + name, data.dtype, decoded, stored, codec=config)


# HDF5
hdf5("deflate", smooth(100, "<i4"), 1, [5])
hdf5("deflate stored", noise(100), 1, [0])
for size, dtype in ((1, "|u1"), (2, "<i2"), (4, "<i4"), (8, "<f8"), (16, "<c16")):
    hdf5(f"shuffle {size}", smooth(75, dtype), 2)
hdf5("shuffle 3", noise(40 * 3).view("V3"), 2)
hdf5("shuffle 12", noise(40 * 12).view("V12"), 2)
hdf5("fletcher32", smooth(100, "<i4"), 3)
hdf5("fletcher32 odd", noise(701), 3)
for ec in (h5py.h5z.SZIP_EC_OPTION_MASK, h5py.h5z.SZIP_NN_OPTION_MASK):
    for dtype in ("|u1", ">i2", "<i4", "<f8"):
        for shape, ppb in (((4, 64), 16), ((3, 50), 8), ((2, 37), 32)):
            hdf5(f"szip {'nn' if ec == 32 else 'ec'} {dtype} {shape} {ppb}", gentle(shape[0] * shape[1], dtype).reshape(shape), 4, [ec, ppb])
hdf5("bzip2", smooth(100, "<i4"), 307, [9])
hdf5("lzf", smooth(300, "<i4") // 1000, 32000)
for code, name in enumerate(("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")):
    for shuffle in (0, 1, 2):
        if name == "snappy" and shuffle != 1:
            continue
        hdf5(f"blosc {name} {shuffle}", gentle(200, "<f4"), 32001, [0, 0, 0, 0, 5, shuffle, code])
hdf5("lz4", smooth(200, "<i4") // 100, 32004, [])
hdf5("lz4 blocks", smooth(200, "<i4") // 100, 32004, [256])
hdf5("lz4 raw", noise(300), 32004, [64])
for dtype in ("|u1", "<i2", "<i4", "<f8"):
    hdf5(f"bitshuffle none {dtype}", smooth(77, dtype), 32008, [0, 0])
    hdf5(f"bitshuffle lz4 {dtype}", smooth(77, dtype), 32008, [0, 2])
    hdf5(f"bitshuffle zstd {dtype}", smooth(77, dtype), 32008, [0, 3])
hdf5("bitshuffle lz4 blocks", smooth(77, "<i4"), 32008, [16, 2])
hdf5("bitshuffle none blocks", smooth(77, "<i4"), 32008, [16, 0])
hdf5("bitshuffle none 3", noise(45 * 3).view("V3"), 32008, [0, 0])
hdf5("zstd", smooth(100, "<i4"), 32015, [3])

# Zarr
i4 = smooth(100, "<i4")
zarr("zlib", i4, {"id": "zlib", "level": 6})
zarr("gzip", i4, {"id": "gzip", "level": 6})
two = gzip.compress(i4.tobytes()[:150]) + gzip.compress(i4.tobytes()[150:]) + b"\0" * 7
emit("zarr gzip members", "<i4", i4.tobytes(), two, codec={"id": "gzip", "level": 1})
emit("zarr zlib with a tail", "<i4", i4.tobytes(), zlib.compress(i4.tobytes()) + b"junk", codec={"id": "zlib", "level": 1})
zarr("bz2", i4, {"id": "bz2", "level": 1})
two = bz2.compress(i4.tobytes()[:150]) + bz2.compress(i4.tobytes()[150:]) + b"junk"
emit("zarr bz2 streams", "<i4", i4.tobytes(), two, codec={"id": "bz2", "level": 1})
zarr("zstd", i4, {"id": "zstd", "level": 3})
zarr("zstd checksum", i4, {"id": "zstd", "level": 3, "checksum": True})
zarr("zstd negative", i4, {"id": "zstd", "level": -5})
def frame(data):
    return bytes(numcodecs.Zstd(1).encode(data))
skippable = struct.pack("<II", 0x184D2A53, 5) + b"hello"
emit("zarr zstd frames", "<i4", i4.tobytes(), frame(i4[:40]) + skippable + frame(i4[40:]), codec={"id": "zstd", "level": 1})
# A frame without its content size: window descriptor 1 KiB, one raw block that is the last.
raw = struct.pack("<IBB", 0xFD2FB528, 0, 0) + struct.pack("<I", 400 << 3 | 1)[:3] + i4.tobytes()
assert bytes(numcodecs.Zstd().decode(raw)) == i4.tobytes()
emit("zarr zstd without a size", "<i4", i4.tobytes(), raw, codec={"id": "zstd", "level": 1})
for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
    zarr(f"blosc {cname}", i4, {"id": "blosc", "cname": cname, "clevel": 5, "shuffle": 1, "blocksize": 0})
zarr("blosc auto", i4, {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0})
zarr("blosc raw", noise(100), {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0})
zarr("blosc blocks", i4, {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 128})
zarr("lz4", i4, {"id": "lz4", "acceleration": 1})
zarr("lz4 noise", noise(100), {"id": "lz4", "acceleration": 1})
for form in (1, 2):
    zarr(f"lzma {form}", i4, {"id": "lzma", "format": form, "check": -1, "preset": None, "filters": None})
    emit(f"zarr lzma auto {form}", "<i4", i4.tobytes(), lzma.compress(i4.tobytes(), form), codec={"id": "lzma", "format": 0})
zarr("lzma preset", i4, {"id": "lzma", "format": 1, "check": 1, "preset": 9, "filters": None})
for chain in ([{"id": lzma.FILTER_LZMA2, "preset": 1}],
              [{"id": lzma.FILTER_DELTA, "dist": 4}, {"id": lzma.FILTER_LZMA2, "dict_size": 65536, "lc": 2, "lp": 1}],
              [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 6}],
              [{"id": lzma.FILTER_LZMA1, "preset": 6}]):
    zarr(f"lzma raw {len(chain)} {chain[0]['id'] & 255}", i4, {"id": "lzma", "format": 3, "check": -1, "preset": None, "filters": chain})
two = lzma.compress(i4.tobytes()[:150]) + lzma.compress(i4.tobytes()[150:])
emit("zarr lzma streams", "<i4", i4.tobytes(), two, codec={"id": "lzma", "format": 1})
for size, dtype in ((1, "|u1"), (2, "<i2"), (4, "<i4"), (8, "<f8")):
    zarr(f"shuffle {size}", smooth(75, dtype), {"id": "shuffle", "elementsize": size})
zarr("fletcher32", i4, {"id": "fletcher32"})
for checksum in ("crc32", "adler32", "crc32c"):
    zarr(checksum, i4, {"id": checksum})
    zarr(checksum + " start", i4, {"id": checksum, "location": "start"})
    zarr(checksum + " end", i4, {"id": checksum, "location": "end"})
for dtype, astype in (("<i4", None), ("|i1", "|i1"), ("<i2", "|i1"), ("|i1", "<i2"), (">i4", ">i2"), ("<u8", "<i4"), ("<u2", "|u1"),
                      ("<f4", "<f4"), ("<f8", "<f4"), ("<f4", "<f8"), ("<f2", "<f2"), ("<f2", "<f4"), ("<f4", "<f2"), (">f8", ">f8"),
                      ("<f8", "<i4"), ("<f4", "<i2"), ("<f4", "<i4"), ("<f2", "|i1"), ("<f2", "<i2")):
    config = {"id": "delta", "dtype": dtype}
    if astype:
        config["astype"] = astype
    zarr(f"delta {dtype} {astype}", smooth(60, dtype), config)
for dtype, astype, scale, offset in (("<f8", "|u1", 10, 1000), ("<f8", "<i2", 0.5, -3.25), ("<f4", "<i4", 100, 0.1), ("<f4", "<f4", 3, 0.1),
                                     ("<f8", "<f4", 7, 0.3), ("<f2", "<f2", 3, 0.1), ("<i4", "<i2", 2, 5), (">f8", ">i2", 10, 1),
                                     ("<f8", "<u8", 10, -200), ("<i2", "<f8", 3, 1), ("<f4", "|i1", 1, 0)):
    data = smooth(60, dtype) if np.dtype(dtype).kind == "i" else (smooth(60, "<f8") / 10 + offset).astype(dtype)
    zarr(f"fixedscaleoffset {dtype} {astype} {scale}", data, {"id": "fixedscaleoffset", "scale": scale, "offset": offset, "dtype": dtype, "astype": astype})
for dtype, astype in (("<f8", "<f4"), ("<f4", "<f4"), (">f8", "<f2"), ("<f8", None)):
    config = {"id": "quantize", "digits": 2, "dtype": dtype}
    if astype:
        config["astype"] = astype
    zarr(f"quantize {dtype} {astype}", smooth(50, dtype), config)
for decode, encode in (("<f8", "<f4"), ("<f4", "<f2"), ("<f2", "<f8"), ("<i2", "<f8"), ("<f8", "<i2"), ("<i8", "|i1"), ("|b1", "<i4"), ("<i4", "|b1"), (">u4", "<u2"), ("|u1", "<i4")):
    zarr(f"astype {decode} {encode}", smooth(50, "<i4").astype(decode), {"id": "astype", "encode_dtype": encode, "decode_dtype": decode})
zarr("bitround", smooth(50, "<f4"), {"id": "bitround", "keepbits": 7})
zarr("packbits 64", noise(64) > 99, {"id": "packbits"})
zarr("packbits 61", noise(61) > 99, {"id": "packbits"})
zarr("base64", noise(100), {"id": "base64"})
zarr("base64 whole", noise(99), {"id": "base64"})

# Codecs of Zarr v3 for arrays, as zarr-python and the specifications have them.
steps = (np.arange(50) - 20).astype("<f8") / 4
emit("zarr3 cast_value", "<f8", np.rint(steps) + 0.0, cast_value_rs.cast_array(
    np.rint(steps), target_dtype=np.dtype("i1"), rounding_mode="nearest-even", out_of_range_mode=None, scalar_map_entries=None).tobytes(),
    codec={"id": "zarr3:cast_value", "data_type": "int8"})
emit("zarr3 scale_offset", "<f8", steps, scale_offset._encode(steps, np.float64(5), np.float64(0.5)),
     codec={"id": "zarr3:scale_offset", "offset": 5, "scale": 0.5})
emit("zarr3 reshape", "<f8", steps, steps, codec={"id": "zarr3:reshape", "shape": [-1]})
bits = noise(61) > 99
emit("zarr3 packbits", "|b1", bits, b"\3" + np.packbits(bits, bitorder="little").tobytes(),
     codec={"id": "zarr3:packbits", "padding_encoding": "first_byte"})
print(f"// numcodecs {numcodecs.__version__}, h5py {h5py.__version__}, HDF5 {h5py.version.hdf5_version}, hdf5plugin {hdf5plugin.version}")
