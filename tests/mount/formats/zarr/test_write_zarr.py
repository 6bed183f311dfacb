"""Chunks written into mounted Zarr directories and archives, as zarr-python reads them afterwards."""
import errno
import json
import os
import shutil
import zipfile

import numcodecs
import numpy as np
import pytest
import zarr

import zips
from conftest import mounted, xattr

ARRAY = np.arange(4000, dtype="<i4").reshape(40, 100)
CHUNKS = (10, 50)

CODECS = {
    "none": (None, None),
    "zlib": (numcodecs.Zlib(3), None),
    "gzip": (numcodecs.GZip(5), None),
    "bz2": (numcodecs.BZ2(3), None),
    "lzma": (numcodecs.LZMA(preset=1), None),
    "zstd": (numcodecs.Zstd(5), None),
    "lz4": (numcodecs.LZ4(), None),
    "blosc": (numcodecs.Blosc("zstd", 5, numcodecs.Blosc.BITSHUFFLE), None),
    "shuffle_zlib": (numcodecs.Zlib(1), [numcodecs.Shuffle(4)]),
    "delta_zstd": (numcodecs.Zstd(1), [numcodecs.Delta("<i4")]),
    "crc32": (numcodecs.CRC32(), None),
}


def part(array, i, j):
    return array[10 * i:10 * i + 10, 50 * j:50 * j + 50]


@pytest.fixture(params=["directory", "zip"])
def store(request, tmp_path, directory):
    return directory if request.param == "directory" else zips.pack(directory, tmp_path / "store.zip")


def files_of(store, array):
    if store.is_dir():
        return sorted(os.listdir(store / array))
    with zipfile.ZipFile(store) as archive:
        return sorted(name.removeprefix(array + "/") for name in archive.namelist() if name.startswith(array + "/"))


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "store"
    group = zarr.open_group(str(path), "w")
    for name, (compressor, filters) in CODECS.items():
        group.create_dataset(name, data=ARRAY, chunks=CHUNKS, compressor=compressor, filters=filters)
    group.create_dataset("fortran", data=ARRAY, chunks=CHUNKS, order="F", compressor=numcodecs.Zlib(1))
    group.create_dataset("big", data=ARRAY.astype(">f8"), chunks=CHUNKS, compressor=numcodecs.Zlib(1))
    group.create_dataset("slash", data=ARRAY, chunks=CHUNKS, dimension_separator="/", compressor=numcodecs.Zlib(1))
    group.create_dataset("sparse", shape=(40, 100), dtype="<i4", chunks=CHUNKS, fill_value=7, compressor=numcodecs.Zstd(1))
    group.create_dataset("edge", data=ARRAY[:35, :90], chunks=CHUNKS)
    group.create_dataset("text", data=np.array(["one", "two", ""], dtype=object), dtype=object, object_codec=numcodecs.VLenUTF8())
    return path


def test_every_codec(mount, store):
    m = mount(store)
    new = ARRAY[::-1] * 5
    rng = np.random.default_rng(2)
    for name in [*CODECS, "fortran", "big", "slash"]:
        content = new.astype(">f8") if name == "big" else new.copy()
        content[0:10, 0:50] = rng.integers(-2**30, 2**30, (10, 50))
        for i in range(4):
            for j in range(2):
                chunk = m.path / name / f"{i}.{j}"
                chunk.write_bytes(part(content, i, j).tobytes())
                assert chunk.read_bytes() == part(content, i, j).tobytes(), name
    m.close()
    rng = np.random.default_rng(2)
    for name in [*CODECS, "fortran", "big", "slash"]:
        content = new.astype(">f8") if name == "big" else new.copy()
        content[0:10, 0:50] = rng.integers(-2**30, 2**30, (10, 50))
        assert np.array_equal(zarr.open(str(store), "r")[name][...], content), name
    assert not [name for _, _, names in os.walk(store.parent) for name in names if ".codecfs-" in name]


def test_partial_new_and_removed_chunks(mount, store):
    m = mount(store)
    fd = os.open(m.path / "zstd/1.1", os.O_RDWR)
    os.pwrite(fd, b"abcd", 100)
    os.fsync(fd)
    os.close(fd)
    (m.path / "sparse/2.1").write_bytes(part(ARRAY, 2, 1).tobytes())
    os.truncate(m.path / "sparse/2.1", 6)
    os.unlink(m.path / "bz2/0.0")
    assert not (m.path / "bz2/0.0").exists() and (store.is_file() or not (store / "bz2/0.0").exists())
    (m.path / "edge/3.1").write_bytes(np.full(CHUNKS, 3, "<i4").tobytes())
    (m.path / "text/0").write_bytes(numcodecs.VLenUTF8().encode(np.array(["ä", "b" * 999, "c"], dtype=object)))
    memory = np.memmap(m.path / "blosc/3.0", "<i4", "r+", shape=CHUNKS)
    memory[9, 49] = -7
    memory.flush()
    del memory
    shutil.move(m.path / "none/0.1", m.path / "none/0.0")
    m.close()
    group = zarr.open(str(store), "r")
    expected = bytearray(part(ARRAY, 1, 1).tobytes())
    expected[100:104] = b"abcd"
    assert part(group["zstd"][...], 1, 1).tobytes() == expected
    fill = np.full(500, 7, "<i4").tobytes()
    assert part(group["sparse"][...], 2, 1).tobytes() == part(ARRAY, 2, 1).tobytes()[:6] + fill[6:]
    assert [n for n in files_of(store, "sparse") if n[0].isdigit()] == ["2.1"] and "0.0" not in files_of(store, "bz2")
    assert (part(group["bz2"][...], 0, 0) == 0).all()
    assert (group["edge"][30:, 50:] == 3).all()
    assert list(group["text"][...]) == ["ä", "b" * 999, "c"]
    assert group["blosc"][39, 49] == -7
    assert np.array_equal(part(group["none"][...], 0, 0), part(ARRAY, 0, 1)) and "0.1" not in files_of(store, "none")


def test_zarr_python_through_the_mount(mount, store):
    m = mount(store)
    array = zarr.open(str(m.path), "r+")["shuffle_zlib"]
    expected = ARRAY.copy()
    expected[3:33, 20:80] *= -1
    array[3:33, 20:80] = expected[3:33, 20:80]
    assert np.array_equal(array[...], expected)
    m.close()
    assert np.array_equal(zarr.open(str(store), "r")["shuffle_zlib"][...], expected)


def test_untouched_where_nothing_is_written(mount, store):
    def state():
        return sorted((str(p), os.stat(p).st_mtime_ns, os.stat(p).st_size) for p in [store, *store.rglob("*")])

    before = state()
    for options in ([], ["ro"]):
        m = mount(store, *options)
        for path in m.path.rglob("*"):
            if path.is_file():
                path.read_bytes()
        if options:
            with pytest.raises(OSError) as failure:
                (m.path / "zlib/0.0").write_bytes(bytes(2000))
            assert failure.value.errno == errno.EROFS
        m.close()
    assert state() == before


def test_one_writer(mount, store):
    first = mount(store)
    other = mount(store, "ro")
    fd = os.open(first.path / "zlib/0.0", os.O_WRONLY)
    with pytest.raises(OSError) as failure:
        os.write(fd, bytes(2000))
    assert failure.value.errno == errno.EBUSY
    other.close()
    assert os.write(fd, bytes(2000)) == 2000
    os.fsync(fd)
    os.close(fd)
    first.close()
    assert (part(zarr.open(str(store), "r")["zlib"][...], 0, 0) == 0).all()


def test_synced_chunks_survive_a_kill(mount, store, tmp_path):
    m = mount(store, "commit=3600")
    fd = os.open(m.path / "zstd/2.0", os.O_WRONLY)
    os.write(fd, b"\x07" * 2000)
    os.fsync(fd)
    os.close(fd)
    (m.path / "zstd/0.0").write_bytes(bytes(2000))
    m.kill()
    result = zarr.open(str(store), "r")["zstd"][...]
    assert part(result, 2, 0).tobytes() == b"\x07" * 2000
    assert part(result, 0, 0).tobytes() in (bytes(2000), part(ARRAY, 0, 0).tobytes())
    with mounted(store, tmp_path / "again") as again:
        (again.path / "zstd/0.0").write_bytes(b"\x09" * 2000)
    assert part(zarr.open(str(store), "r")["zstd"][...], 0, 0).tobytes() == b"\x09" * 2000


def test_what_cannot_be_encoded(mount, tmp_path):
    """A codec that no library provides: writing says why, and the store stays as it is."""
    store = tmp_path / "s"
    store.mkdir()
    (store / ".zarray").write_text(json.dumps({"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i4", "order": "C", "fill_value": 0,
                                               "compressor": {"id": "jpeg2k"}, "filters": None}))
    (store / "0").write_bytes(b"something")
    m = mount(store, env={"HDF5_PLUGIN_PATH": ""})
    with pytest.raises(OSError) as failure:
        (m.path / "0").write_bytes(bytes(16))
    assert failure.value.errno == errno.EIO and "jpeg2k" in xattr(m.path / "0", "_Error")
    m.close()
    assert (store / "0").read_bytes() == b"something"


def test_arrays_behind_links_are_only_read(mount, directory):
    """The same chunks under two names: they are written under their own."""
    os.symlink("zlib", directory / "alias")
    m = mount(directory)
    assert (m.path / "alias/0.0").read_bytes() == part(ARRAY, 0, 0).tobytes()
    with pytest.raises(OSError) as failure:
        (m.path / "alias/0.0").write_bytes(bytes(2000))
    assert failure.value.errno == errno.EOPNOTSUPP
    (m.path / "zlib/0.0").write_bytes(bytes(2000))
    m.close()
    assert (part(zarr.open(str(directory), "r")["zlib"][...], 0, 0) == 0).all()
