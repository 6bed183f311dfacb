"""Encoded chunks that pass from one format into the other must be what the usual readers there decode: h5py with Debian's
plugins, numcodecs, zarr-python. Codecs here take more forms than these; what only they take is encoded anew."""
import bz2
import ctypes
import ctypes.util
import gzip
import json
import os
import shutil
import sys
import zlib

import h5py
import numcodecs
import numpy as np
import pytest
import zarr

from filter_plugins import DEBIAN
from running import codecfs, run

VIEW = ".codecfs/view/encoded"
DATA = (np.arange(3000) // 7).astype("<i4")
RAW = [DATA[:1000].tobytes(), DATA[1000:2000].tobytes(), DATA[2000:].tobytes()]

ZSTD = ctypes.CDLL(ctypes.util.find_library("zstd"))
ZSTD.ZSTD_createCCtx.restype = ctypes.c_void_p
for name in ("ZSTD_compress2", "ZSTD_compressBound", "ZSTD_CCtx_setParameter"):
    getattr(ZSTD, name).restype = ctypes.c_size_t


def zstd_without_size(raw):
    context = ctypes.c_void_p(ZSTD.ZSTD_createCCtx())
    ZSTD.ZSTD_CCtx_setParameter(context, 200, 0)  # ZSTD_c_contentSizeFlag
    out = ctypes.create_string_buffer(ZSTD.ZSTD_compressBound(ctypes.c_size_t(len(raw))))
    size = ZSTD.ZSTD_compress2(context, out, ctypes.c_size_t(len(out)), raw, ctypes.c_size_t(len(raw)))
    return out.raw[:size]


def zstd(raw):
    return bytes(numcodecs.Zstd(3).encode(raw))


def blosc(raw):
    return bytes(numcodecs.Blosc("lz4", 5, 1).encode(np.frombuffer(raw, "<i4")))


def halves(encode):
    return lambda raw: encode(raw[:1200]) + encode(raw[1200:])


ZSTD_CODEC, BLOSC_CODEC = numcodecs.Zstd(3).get_config(), numcodecs.Blosc("lz4", 5, 1).get_config()
# codec, how a chunk is encoded, and whether it is stored as it is
FORMS = {
    "zstd": (ZSTD_CODEC, zstd, True),
    "zstd_without_size": (ZSTD_CODEC, zstd_without_size, False),
    "zstd_frames": (ZSTD_CODEC, halves(zstd), False),
    "zstd_skippable": (ZSTD_CODEC, lambda raw: b"\x50\x2a\x4d\x18\x02\0\0\0hi" + zstd(raw), False),
    "bz2": ({"id": "bz2", "level": 5}, bz2.compress, True),
    "bz2_streams": ({"id": "bz2", "level": 5}, halves(bz2.compress), False),
    "blosc": (BLOSC_CODEC, blosc, True),
    "blosc_longer": (BLOSC_CODEC, lambda raw: blosc(raw) + b"more", False),
    "zlib": ({"id": "zlib", "level": 5}, zlib.compress, True),
    "zlib_longer": ({"id": "zlib", "level": 5}, lambda raw: zlib.compress(raw) + b"more", True),
}


def store(path, forms=FORMS):
    path.mkdir()
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    for name, (codec, encode, _) in forms.items():
        (path / name).mkdir()
        (path / name / ".zarray").write_text(json.dumps(
            {"zarr_format": 2, "shape": [3000], "chunks": [1000], "dtype": "<i4", "compressor": codec, "fill_value": 0,
             "order": "C", "filters": None}))
        for i, raw in enumerate(RAW):
            (path / name / str(i)).write_bytes(encode(raw))
    return path


def check_hdf5(path, forms=FORMS):
    """h5py reads all but zstd, for which Debian has no plugin; numcodecs is as strict as the one that others use."""
    program = f"""
import h5py, numpy as np
data = (np.arange(3000) // 7).astype("<i4")
with h5py.File({str(path)!r}) as f:
    for name, d in f.items():
        if not name.startswith("zstd"):
            assert (d[()] == data).all(), name
"""
    run(sys.executable, "-c", program, env={"HDF5_PLUGIN_PATH": DEBIAN})
    with h5py.File(path) as f:
        for name, (_, encode, passes) in forms.items():
            for i, raw in enumerate(RAW):
                mask, stored = f[name].id.read_direct_chunk((1000 * i,))
                assert mask == 0
                assert (stored == encode(raw)) == passes, name
                if name.startswith("zstd"):
                    assert bytes(numcodecs.Zstd().decode(stored)) == raw, name


def test_converted_to_hdf5(tmp_path):
    codecfs("convert", store(tmp_path / "a.zarr"), tmp_path / "a.h5")
    check_hdf5(tmp_path / "a.h5")


def test_written_to_the_encoded_view(mount, tmp_path):
    store(tmp_path / "a.zarr")
    with h5py.File(tmp_path / "a.h5", "w"):
        pass
    mounted = mount(tmp_path / "a.h5")
    for name in FORMS:
        shutil.copytree(tmp_path / "a.zarr" / name, mounted.path / VIEW / name, copy_function=shutil.copyfile)
        assert b"".join((mounted.path / name / str(i)).read_bytes() for i in range(3)) == DATA.tobytes()
    mounted.close()
    check_hdf5(tmp_path / "a.h5")


def test_written_to_the_view_of_v3(mount, tmp_path):
    """A gzip member becomes a zlib stream; several members, and Zstandard without its size, do not stay."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("gzip", shape=3000, dtype="<i4", chunks=(1000,), compression="gzip")
    mounted = mount(tmp_path / "a.h5")
    chunks = mounted.path / ".codecfs/view/encoded3/gzip/c"
    for i, encode in enumerate((gzip.compress, halves(gzip.compress), lambda raw: gzip.compress(raw) + bytes(8))):
        (chunks / str(i)).write_bytes(encode(RAW[i]))
    mounted.close()
    with h5py.File(tmp_path / "a.h5") as f:
        assert (f["gzip"][()] == DATA).all()
        for i, raw in enumerate(RAW):
            assert zlib.decompress(f["gzip"].id.read_direct_chunk((1000 * i,))[1]) == raw


HDF5_IDS = {"zstd": (32015, (3,)), "blosc": (32001, (2, 2, 4, 4000, 5, 1, 1)), "bz2": (307, (5,)), "zlib": (1, (5,))}


def hdf5_file(path, forms):
    with h5py.File(path, "w") as f:
        for name in forms:
            number, parameters = HDF5_IDS[name.split("_")[0]]
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk((1000,))
            properties.set_filter(number, h5py.h5z.FLAG_OPTIONAL, parameters)
            d = h5py.h5d.create(f.id, name.encode(), h5py.h5t.STD_I32LE, h5py.h5s.create_simple((3000,)), properties)
            for i, raw in enumerate(RAW):
                # One in the middle that is common: forms are told apart by chunk.
                d.write_direct_chunk((1000 * i,), forms[name][1](raw) if i != 1 else FORMS[name.split("_")[0]][1](raw))
    return path


@pytest.mark.parametrize("options", [(), ("isolate=off",)])
def test_shown_to_readers_of_zarr(mount, tmp_path, options):
    """numcodecs decodes each chunk of the encoded view, and a copy of it; its size is that of what is read."""
    forms = {name: form for name, form in FORMS.items()}
    mounted = mount(hdf5_file(tmp_path / "a.h5", forms), "ro", *options)
    view = mounted.path / VIEW
    for name, (_, encode, passes) in forms.items():
        for i, raw in enumerate(RAW):
            shown = (view / name / str(i)).read_bytes()
            assert os.stat(view / name / str(i)).st_size == len(shown)
            if i == 1:
                assert shown == FORMS[name.split("_")[0]][1](raw), "a common chunk passes"
            elif name != "bz2_streams":  # numcodecs takes them
                assert (shown == encode(raw)) == passes, name
    shutil.copytree(view, tmp_path / "copy.zarr", copy_function=shutil.copyfile)
    mounted.close()
    for where in (tmp_path / "copy.zarr",):
        group = zarr.open_group(str(where), "r")
        for name in forms:
            assert (group[name][:] == DATA).all(), name


def test_converted_to_zarr(tmp_path):
    path = hdf5_file(tmp_path / "a.h5", FORMS)
    codecfs("convert", path, tmp_path / "a.zarr")
    group = zarr.open_group(str(tmp_path / "a.zarr"), "r")
    for name in FORMS:
        assert (group[name][:] == DATA).all(), name
