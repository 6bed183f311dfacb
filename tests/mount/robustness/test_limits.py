"""What a source claims is checked before memory is taken for it, and what is held stays within the limits that were set."""
import errno
import json
import os
import threading

import h5py
import numpy as np
import pytest
import zarr

from conftest import xattr
from running import codecfs, run

MIB = 1 << 20
SANITIZED = bool(os.environ.get("CODECFS_SANITIZE"))
ROOM = 64 * MIB  # that the daemon needs itself, above -o cache= and -o dirty=
CACHE, DIRTY = 64 * MIB, 128 * MIB  # their defaults


def read_error(path):
    with pytest.raises(OSError) as failure:
        path.read_bytes()
    return failure.value.errno


def zarr_array(path, **changes):
    path.mkdir(parents=True)
    described = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i4", "compressor": None, "filters": None,
                 "fill_value": 0, "order": "C", **changes}
    (path / ".zarray").write_text(json.dumps(described))
    return path


def zarr_group(path):
    path.mkdir()
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    return path


def walk(root):
    """Looks at everything, whatever comes of it."""
    for folder, _, files in os.walk(root):
        for path in [folder] + [os.path.join(folder, name) for name in files]:
            try:
                for name in os.listxattr(path):
                    os.getxattr(path, name)
            except OSError:
                pass
        for name in files:
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    file.read(1 << 16)
            except OSError:
                pass


def is_within(m, *sizes):
    assert SANITIZED or m.resident_peak() <= sum(sizes) + ROOM, m.resident_peak() / MIB


# --- -o max_chunk


def test_larger_chunks_are_refused_with_the_option(mount, tmp_path):
    """In both formats, where they are read and where they would be made; all else is there."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("large", data=np.ones(1 << 19, "<i4"), chunks=(1 << 19,), compression="gzip")
        f.create_dataset("small", data=np.ones(1 << 19, "<i4"), chunks=(1 << 18,))
        f.create_dataset("whole", data=np.arange(1 << 20, dtype="<i4"))  # is cut to fit
        f.create_dataset("text", data=["x" * 300_000] * 5, dtype=h5py.string_dtype(), chunks=(5,))
    store = zarr_group(tmp_path / "s")
    zarr_array(store / "large", shape=[1 << 20], chunks=[1 << 19])
    (store / "large/0").write_bytes(bytes(2 * MIB))
    zarr_array(store / "small", shape=[1 << 20], chunks=[1 << 18])
    (store / "small/0").write_bytes(bytes(1 * MIB))
    for source, code in ((tmp_path / "a.h5", errno.EFBIG), (store, errno.EOPNOTSUPP)):
        m = mount(source, "max_chunk=1M")
        assert read_error(m.path / "large/0") == code
        assert "the limit of 1M (-o max_chunk=)" in xattr(m.path / "large/0", "_Error")
        assert json.loads((m.path / "large/.zarray").read_text())["chunks"] == [1 << 19]
        assert len((m.path / "small/0").read_bytes()) == MIB
        described = json.loads((m.path / "small/.zarray").read_text())
        (m.path / "new").mkdir()
        with pytest.raises(OSError) as failure:
            (m.path / "new/.zarray").write_text(json.dumps({**described, "chunks": [1 << 19]}))
        assert failure.value.errno in (errno.EFBIG, errno.EINVAL, code)
        assert "-o max_chunk=" in m.messages()
        (m.path / "new/.zarray").write_text(json.dumps(described))
        (m.path / "new/0").write_bytes(bytes(MIB))
        for name in (".codecfs/view/npy/large.npy", ".codecfs/view/raw/large"):
            assert read_error(m.path / name) == code
        if source.suffix == ".h5":
            assert read_error(m.path / "text/0") == errno.EFBIG
            assert "-o max_chunk=" in xattr(m.path / "text/0", "_Error")
            assert json.loads((m.path / "whole/.zarray").read_text())["chunks"] == [1 << 18]
            assert b"".join((m.path / f"whole/{i}").read_bytes() for i in range(4)) == np.arange(1 << 20, dtype="<i4").tobytes()
        m.close()
        larger = mount(source, "max_chunk=2M")
        assert len((larger.path / "large/0").read_bytes()) == 2 * MIB


def test_the_limit_can_be_raised(mount, tmp_path):
    """Over the default of 1 GiB: a sparse chunk of 1.5 GiB is read where it is allowed, and only there."""
    elements = 3 << 27
    array = zarr_array(tmp_path / "v", shape=[elements], chunks=[elements])
    with open(array / "0", "wb") as f:
        f.truncate(4 * elements)
    m = mount(array)
    assert read_error(m.path / "0") == errno.EOPNOTSUPP
    assert "the limit of 1G (-o max_chunk=)" in xattr(m.path / "0", "_Error")
    m = mount(array, "max_chunk=1536M")
    with open(m.path / "0", "rb") as f:
        f.seek(4 * elements - 4)
        assert f.read() == bytes(4)


@pytest.mark.parametrize("value", ["0", "2G", "1K", "many", ""])
def test_values_that_are_refused(tmp_path, value):
    result = codecfs("-o", f"max_chunk={value}", "/nowhere", tmp_path, code=1)
    assert "max_chunk" in result.stderr


# --- what a Zarr store claims


CLAIMS = {
    "elements": {"dtype": "|S1073741824"},
    "many_bytes": {"dtype": "|V8388608", "shape": [1 << 40], "chunks": [1 << 36]},
    "chunk": {"shape": [1 << 62], "chunks": [1 << 58]},
    "overflow": {"shape": [1 << 63, 1 << 63], "chunks": [1 << 32, 1 << 32]},
    "chunks": {"shape": [(1 << 64) - 1], "chunks": [1]},
    "rank": {"shape": [1] * 5000, "chunks": [1] * 5000},
    "zeros": {"shape": [0, 1 << 62], "chunks": [1, 1 << 62]},
    "filters": {"filters": [{"id": "shuffle", "elementsize": 4}] * 5000},
    "shuffled": {"filters": [{"id": "shuffle", "elementsize": (1 << 63) - 1}]},
    "cast": {"filters": [{"id": "astype", "encode_dtype": "|S2147483647", "decode_dtype": "<i4"}]},
    "lzma": {"compressor": {"id": "lzma", "filters": [{"id": 33, "dict_size": 4294967295}]}},
    "members": {"dtype": [[f"m{i}", "<i4", [1 << 20] * 8] for i in range(20)]},
    "nested": {"dtype": "X" * 100_000},
    "fill": {"dtype": "|S8", "fill_value": "QUFB" * 1_000_000},
    "text": {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "fill_value": "x" * 10_000_000},
    "deep": {"attributes": None},
    "separator": {"dimension_separator": "/" * 100_000},
}


def test_claims_of_zarr_metadata_take_no_memory(mount, tmp_path):
    store = zarr_group(tmp_path / "s")
    for name, changes in CLAIMS.items():
        array = zarr_array(store / name, **changes)
        for chunk in ("0", "0.0"):
            (array / chunk).write_bytes(b"\xff" * 4096)
    (store / "deep/.zarray").write_text("[" * 1_000_000)
    zarr_array(store / "good")
    (store / "good/0").write_bytes(bytes(16))
    m = mount(store, "ro")
    walk(m.path)
    assert (m.path / "good/0").read_bytes() == bytes(16)
    is_within(m, CACHE, DIRTY)


def test_metadata_that_grows_in_memory_is_refused(mount, tmp_path):
    """16 bytes of memory and more for one of the text."""
    store = zarr_group(tmp_path / "s")
    for name, text in (("lists", '{"a": [%s]}' % ",".join(["[]"] * 3_000_000)),
                       ("keys", "{%s}" % ",".join(f'"{i}":0' for i in range(1_000_000))), ("long", '{"a": "%s"}' % ("x" * 20_000_000))):
        zarr_array(store / name)
        (store / name / "0").write_bytes(bytes(16))
        (store / name / ".zattrs").write_text(text)
    zarr_array(store / "good")
    (store / "good/.zattrs").write_text(json.dumps({"list": list(range(200_000))}))  # that many are no lie
    m = mount(store, "ro")
    walk(m.path)
    for name in ("lists", "keys", "long"):
        with pytest.raises(OSError) as failure:
            (m.path / name / ".zattrs").read_bytes()
        assert failure.value.errno == errno.EIO
    assert "JSON: needs more than the limit of 16 MiB of memory" in m.messages()
    assert json.loads((m.path / "good/.zattrs").read_text())["list"] == list(range(200_000))
    is_within(m, CACHE, DIRTY)


def test_large_elements_of_many_arrays_are_not_all_held(mount, tmp_path):
    """Of each one element is held, as the fill: 100 bytes of text claim 8 MiB."""
    store = zarr_group(tmp_path / "s")
    for i in range(40):
        zarr_array(store / f"v{i}", dtype="|S8388608", chunks=[1], shape=[1])
    m = mount(store, "ro")
    walk(m.path)
    assert json.loads((m.path / "v7/.zarray").read_text())["dtype"] == "|S8388608"
    is_within(m, CACHE, DIRTY)


def test_consolidated_metadata_of_many_is_renewed(mount, tmp_path):
    """What is made of a .zmetadata is larger than any one file may become, and yet it follows a change."""
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    for name in "abcd":
        root.create_group(name).attrs["list"] = list(range(300_000))
    zarr.consolidate_metadata(str(tmp_path / "a.zarr"))
    m = mount(tmp_path / "a.zarr")
    run("setfattr", "-n", "user.units", "-v", "K", m.path / "a")
    m.close()
    entries = json.loads((tmp_path / "a.zarr/.zmetadata").read_text())["metadata"]
    assert entries["a/.zattrs"] == {"list": list(range(300_000)), "units": "K"}
    assert entries["b/.zattrs"] == {"list": list(range(300_000))}


# --- what an HDF5 file claims


def test_claims_of_hdf5_files_take_no_memory(mount, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as f:
        for size in (16, 17, 1000, 4095):
            kind = h5py.h5t.create(h5py.h5t.OPAQUE, size * MIB)
            kind.set_tag(b"x")
            h5py.h5d.create(f.id, b"large%d" % size, kind, h5py.h5s.create_simple((1,)))
        texts = f.create_dataset("texts", shape=(1 << 16,), chunks=(1 << 16,), dtype=h5py.string_dtype())
        texts[0] = "x" * MIB
        f.flush()
        one = texts.id.read_direct_chunk((0,))[1][:16]
        texts.id.write_direct_chunk((0,), one * (1 << 16))  # 64 GiB, all of them in one place
        f.create_dataset("huge", shape=(1 << 40,), chunks=((1 << 32) - 1,), dtype="u1")
        f.create_dataset("sparse", shape=(1 << 30, 1 << 30), chunks=(1, 1), dtype="u1")
        f.create_dataset("flat", shape=(1 << 50,), dtype="f8")
        f.create_dataset("rank", shape=(1,) * 32, chunks=(1,) * 32, maxshape=(None,) * 32)
        filters = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        filters.set_chunk((10,))
        for i in range(32):
            filters.set_filter(32990 + i, h5py.h5z.FLAG_OPTIONAL, tuple(range(200)))
        h5py.h5d.create(f.id, b"filters", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((20,)), filters)
        layout = h5py.VirtualLayout(shape=(1 << 20, 1 << 20), dtype="f8")
        for i in range(1000):
            layout[i] = h5py.VirtualSource(f"none{i}.h5", "x" * 200, shape=(1 << 20,))
        f.create_virtual_dataset("virtual", layout)
        f.create_dataset("external", shape=(1 << 40,), dtype="u1", external=[(f"none{i}", i, 1 << 30) for i in range(1024)])
        f.create_group("g/" + "/".join("d" for _ in range(600)))
        f["x" * 60_000] = h5py.SoftLink("y" * 60_000)
        for i in range(3000):
            f["rank"].attrs[f"a{i}"] = i
        f["rank"].attrs.create("long", np.zeros(4_000_000))
        f.create_dataset("good", data=np.arange(4))
    m = mount(path, "ro")
    for name in ("large16", "large17", "texts", "huge", "flat", "virtual", "external", "filters", "rank", "sparse"):
        for file in (".zarray", ".zattrs", "_Filter", "0", "0.0", ".".join("0" * 32)):
            try:
                with open(m.path / name / file, "rb") as f:
                    f.read(1 << 16)
            except OSError:
                pass
    names = os.listdir(m.path)
    for name in names:
        try:
            os.lstat(m.path / name)
            os.listxattr(m.path / name, follow_symlinks=False)
        except OSError:
            pass
    assert (m.path / "good/0").read_bytes() == np.arange(4).tobytes()
    assert read_error(m.path / "texts/0") in (errno.EFBIG, errno.EIO, errno.ENOMEM)
    assert read_error(m.path / "huge/0") == errno.ENOENT  # of 4 GiB, and not stored
    is_within(m, CACHE, DIRTY)


def test_many_large_attributes(mount, tmp_path):
    """The processor time that a call may take grows with the bytes of the attributes that it has read."""
    path = tmp_path / "a.h5"
    values = np.arange(60_000).astype("u1")
    with h5py.File(path, "w", libver="latest") as file:
        v = file.create_dataset("v", (1,), "u1")
        for i in range(300):
            v.attrs[f"a{i:03}"] = values
    m = mount(path)
    found = json.loads((m.path / "v/.zattrs").read_text())
    assert [name for name in found if name[0] == "a"] == [f"a{i:03}" for i in range(300)]
    assert found["a000"] == found["a299"] == values.tolist()


def test_elements_of_any_size(mount, tmp_path):
    """Their fill takes no memory: each of the 40 datasets has an element of 200 MiB."""
    path = tmp_path / "a.h5"
    size = 20_000_000
    opaque = h5py.h5t.create(h5py.h5t.OPAQUE, size)
    opaque.set_tag(b"x")
    numbers = h5py.h5t.array_create(h5py.h5t.STD_I32LE, (size // 4,))
    compound = h5py.h5t.create(h5py.h5t.COMPOUND, size + 8)
    compound.insert(b"a", 0, h5py.h5t.STD_I32LE)
    compound.insert(b"b", 8, numbers)
    text = h5py.h5t.C_S1.copy()
    text.set_size(size)
    value = np.random.default_rng(3).integers(0, 4, size + 8, "u1")
    kinds = {"opaque": opaque, "numbers": numbers, "compound": compound, "text": text}
    with h5py.File(path, "w") as f:
        for name, kind in kinds.items():
            for chunked in (True, False):
                properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                if chunked:
                    properties.set_chunk((1,))
                    properties.set_deflate(1)
                full = f"{name}{chunked}".encode()
                dataset = h5py.h5d.create(f.id, full, kind, h5py.h5s.create_simple((3,)), properties)
                space = dataset.get_space()
                space.select_hyperslab((1,), (1,))
                dataset.write(h5py.h5s.create_simple((1,)), space, value, mtype=kind)
        large = h5py.h5t.create(h5py.h5t.OPAQUE, 200 * MIB)
        large.set_tag(b"x")
        for i in range(40):
            h5py.h5d.create(f.id, b"large%d" % i, large, h5py.h5s.create_simple((1,)))
    m = mount(path, "cache=16M")
    assert len(json.loads((m.path / ".zmetadata").read_bytes())["metadata"]) == 2 + 2 * (8 + 40)
    for i in range(40):
        assert len((m.path / f"large{i}/.zarray").read_bytes()) < 400 and len(os.listxattr(m.path / f"large{i}")) > 2
    is_within(m)
    for name, kind in kinds.items():
        end = ".0" if name == "numbers" else ""
        wanted = bytearray(value[:kind.get_size()].tobytes())
        for chunked in (True, False):
            folder = m.path / f"{name}{chunked}"
            got = bytearray((folder / f"1{end}").read_bytes())
            if name == "compound":
                got[4:8] = wanted[4:8]  # padding
            if name == "text":  # it ends at its first zero
                wanted = wanted.split(b"\0")[0].ljust(size, b"\0")
            assert got == wanted, folder
            absent = (folder / f"0{end}").read_bytes()
            assert absent == bytes(kind.get_size()), folder
    (m.path / "opaqueTrue/2").write_bytes(value[:size].tobytes()[::-1])
    with open(m.path / "opaqueTrue/1", "r+b") as file:
        file.seek(size - 3)
        file.write(b"end")
    os.truncate(m.path / "opaqueTrue/0", 0)
    with open(m.path / "opaqueTrue/0", "r+b") as file:
        file.write(b"begin")
    raw = (m.path / ".codecfs/view/raw/opaqueTrue").read_bytes()
    assert len(raw) == 3 * size and raw[:5] == b"begin" and not any(raw[5:100]) and raw[2 * size - 3:2 * size] == b"end"
    m.unmount()
    with h5py.File(path) as f:
        dataset = f["opaqueTrue"].id
        stored = np.empty((3, size), "u1")
        dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, stored, mtype=dataset.get_type())
        assert stored[0].tobytes() == b"begin" + bytes(size - 5)
        assert stored[1].tobytes() == value[:size - 3].tobytes() + b"end"
        assert stored[2].tobytes() == value[:size].tobytes()[::-1]


# --- what readers ask for at the same time


@pytest.mark.parametrize("view", ["v", ".codecfs/view/encoded/v"])
def test_many_readers_of_large_chunks(mount, tmp_path, view):
    """A chunk of any size is decoded, but not many at a time."""
    chunk = 24 * MIB
    with h5py.File(tmp_path / "a.h5", "w") as f:
        d = f.create_dataset("v", shape=(12, chunk), chunks=(1, chunk), dtype="u1", compression="gzip", compression_opts=1)
        for i in range(12):
            d[i] = i
    m = mount(tmp_path / "a.h5", "ro", "cache=32M", "threads=16")

    def read_one(i):
        with open(m.path / view / f"{i}.0", "rb", buffering=0) as f:
            while f.read(MIB):
                pass

    readers = [threading.Thread(target=read_one, args=(i % 12,)) for i in range(24)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    is_within(m, 32 * MIB, chunk, chunk)  # kept, on its way, and at a reader that is being served


def test_more_chunks_than_anybody_lists(mount, tmp_path):
    """Where absent chunks are shown, a few bytes claim any number of names (found in HDF5's own tlayouto.h5)."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("contiguous", (1 << 33, (1 << 28) + 1), "<i4")
        file.create_dataset("chunked", (1 << 40,), "<i4", chunks=(1,))
        filled = file.create_dataset("filled", (1 << 40,), "<i4", chunks=(1,), fillvalue=7)
        filled.attrs["_FillValue"] = np.int32(7)
        filled[1 << 39] = 8
    zarr_array(zarr_group(tmp_path / "z") / "v", shape=[1 << 40], chunks=[1], fill_value=None)
    m, z = mount(tmp_path / "a.h5"), mount(tmp_path / "z")
    for path, chunk in ((m.path / "contiguous", "5.3"), (m.path / "chunked", str(1 << 39)), (z.path / "v", "77")):
        with os.scandir(path) as entries, pytest.raises(OSError) as failure:
            seen = [next(entries).name for _ in range(3)]
            assert ".zarray" in seen
            list(entries)
        assert failure.value.errno == errno.EFBIG
        assert "too many to be listed" in xattr(path, "_Error")
        assert not any((path / chunk).read_bytes())
    assert str(1 << 39) in os.listdir(m.path / "filled")
