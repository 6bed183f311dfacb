"""Strings of fixed length that end at a NUL (H5T_STR_NULLTERM, as programs in C write them): no view shows what is behind it. The
judges are h5py and zarr-python."""
import json
import os
import zlib

import h5py
import numpy as np
import pytest
import zarr
from references import Referenced, refs
from running import codecfs

STRINGS = [b"ab\0xy", b"cdefg", b"hi\0\0\0", b"\0klmn", b"o\0\0\0p", bytes(5), b"pqrs\0", b"t\0uvw"]
DIRTY = b"".join(STRINGS)
CLEAN = b"".join(text.split(b"\0")[0].ljust(5, b"\0") for text in STRINGS)


def string_type(padding, size=5):
    made = h5py.h5t.C_S1.copy()
    made.set_size(size)
    made.set_strpad(padding)
    return made


def record_type(text):
    made = h5py.h5t.create(h5py.h5t.COMPOUND, 24)
    made.insert(b"n", 0, h5py.h5t.STD_I32LE)
    made.insert(b"s", 4, text)
    made.insert(b"l", 12, h5py.h5t.array_create(text, (2,)))
    return made


RECORDS = b"".join(np.int32(i).tobytes() + DIRTY[5 * i:5 * i + 5] + b"\1\2\3" + DIRTY[5 * i:5 * i + 10] + b"\4\5" for i in range(7))


def write(file, name, kind, content, count, chunks=None, gzip=True):
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if chunks is not None:
        properties.set_chunk((chunks,))
        if gzip:
            properties.set_deflate(4)
    data = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((count,)), properties)
    if chunks is None:
        data.write(h5py.h5s.ALL, h5py.h5s.ALL, np.frombuffer(content, f"V{kind.get_size()}"), mtype=kind)
        return
    size = kind.get_size()
    for i in range(0, count, chunks):
        stored = content[i * size:(i + chunks) * size].ljust(chunks * size, b"\0")
        data.write_direct_chunk((i,), zlib.compress(stored) if gzip else stored)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.h5"
    ended, padded = string_type(h5py.h5t.STR_NULLTERM), string_type(h5py.h5t.STR_NULLPAD)
    with h5py.File(path, "w") as file:
        for what, content in ("dirty", DIRTY), ("clean", CLEAN):
            write(file, f"{what}_gzip", ended, content, 8, 3)
            write(file, f"{what}_plain", ended, content, 8, 4, gzip=False)
            write(file, f"{what}_contiguous", ended, content, 8)
        write(file, "padded", padded, DIRTY, 8, 4)
        write(file, "padded_contiguous", padded, DIRTY, 8)
        write(file, "records", record_type(ended), RECORDS, 7, 3)
        write(file, "records_contiguous", record_type(ended), RECORDS, 7)
    return path


def read_all(path):
    with h5py.File(path) as file:
        return {name: data[()] for name, data in file.items()}


def fields(array):
    """What readers of both formats give: padding between members has names in Zarr."""
    if array.dtype.names is None:
        return array.tolist()
    return {name: array[name].tolist() for name in ("n", "s", "l")}


def test_h5py_gives_nothing_behind_the_end(source):
    found = read_all(source)
    assert found["dirty_gzip"].tobytes() == found["dirty_contiguous"].tobytes() == found["clean_plain"].tobytes() == CLEAN
    assert found["padded"].tobytes() == DIRTY
    assert found["records"]["s"][0] == b"ab" and found["records"]["l"][0].tolist() == [b"ab", b"cdefg"]


@pytest.mark.parametrize("isolate", ["on", "off"])
@pytest.mark.parametrize("view", ["encoded", "encoded3", "decoded", "decoded3"])
def test_all_views_show_the_same(mount, source, view, isolate):
    m = mount(source, "ro", f"view={view}", *(["isolate=off"] if isolate == "off" else []))
    for name, expected in read_all(source).items():
        if not view.endswith("3"):
            assert fields(zarr.open(str(m.path), mode="r")[name][()]) == fields(expected), name
        elif expected.dtype.names is None:  # zarr 3 reads these views: of text in it, the chunks are decoded here
            content = (m.path / name / "c/0").read_bytes()
            assert len(content) == (m.path / name / "c/0").stat().st_size
            codec = json.loads((m.path / name / "zarr.json").read_text())["codecs"][-1]["name"]
            if codec in ("gzip", "numcodecs.zlib"):
                content = zlib.decompress(content, 47)
            assert content.startswith(expected.tobytes()[:10]), (name, codec)


def test_arrays_as_files(mount, source):
    m = mount(source, "ro", "view=npy")
    for name in ("dirty_gzip", "dirty_plain", "dirty_contiguous"):
        found = np.load(m.path / f"{name}.npy")
        assert found.tobytes() == CLEAN, name


def test_references(source):
    found = json.loads(refs(source))["refs"]
    group = zarr.open(Referenced(refs(source)), mode="r")
    for name, expected in read_all(source).items():
        assert fields(group[name][()]) == fields(expected), name
    for name in ("clean_gzip/0", "clean_plain/0", "clean_contiguous/0", "padded/0", "padded_contiguous/0"):
        assert isinstance(found[name], list), name
    for name in ("dirty_gzip/0", "dirty_plain/0", "dirty_contiguous/0", "records/0", "records_contiguous/0"):
        assert found[name].startswith("base64:"), name


def test_commands(source, tmp_path):
    before = read_all(source)
    assert json.loads(codecfs("verify", "--json", source).stdout)["damages"] == 0
    for name in ("a.zarr", "b.h5"):
        codecfs("convert", source, tmp_path / name)
        codecfs("compare", source, tmp_path / name)
    group = zarr.open(str(tmp_path / "a.zarr"), mode="r")
    after = read_all(tmp_path / "b.h5")
    for name, expected in before.items():
        assert fields(group[name][()]) == fields(expected) == fields(after[name]), name


def test_stored_bytes_pass_where_nothing_is_behind(mount, source):
    m = mount(source, "ro", "view=encoded")
    with h5py.File(source) as file:
        assert (m.path / "clean_gzip/0").read_bytes() == file["clean_gzip"].id.read_direct_chunk((0,))[1]
    before = m.stats()["chunks_passed"]
    (m.path / "clean_gzip/1").read_bytes()
    assert m.stats()["chunks_passed"] == before + 1
    (m.path / "dirty_gzip/0").read_bytes()
    assert m.stats()["chunks_passed"] == before + 1


def test_a_write_keeps_the_rest(mount, source):
    m = mount(source)
    with open(m.path / "dirty_gzip/0", "r+b") as file:
        file.seek(5)
        file.write(b"new\0\0")
    m.close()
    expected = [b"ab", b"new", *np.frombuffer(CLEAN, "S5")[2:].tolist()]
    assert read_all(source)["dirty_gzip"].tolist() == expected
    assert os.path.exists(source)
