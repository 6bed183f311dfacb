"""What POSIX tools see: listing, sizes, modes, links, attributes, and that nothing can be written."""
import errno
import json
import os

import h5py
import netCDF4
import numpy as np
import pytest
from conftest import xattr
from running import run


@pytest.fixture
def sample(tmp_path):
    """A netCDF-4 file with two groups, filters, and one chunk that was never written."""
    path = tmp_path / "sample.nc"
    with netCDF4.Dataset(path, "w") as nc:
        nc.title = "sample"
        nc.createDimension("t", None)
        nc.createDimension("x", 40)
        v = nc.createVariable("v", "f4", ("t", "x"), zlib=True, complevel=5, shuffle=True, fletcher32=True,
                              chunksizes=(2, 20), fill_value=-9.0)
        v.units = "K"
        v.valid_range = np.array([0, 100], "f4")
        v.count = np.int32(7)
        v[0:4] = np.arange(160).reshape(4, 40)
        nc.createVariable("raw", "i2", ("x",))[:] = np.arange(40)
        nc.createGroup("ocean").createVariable("s", ">i4", ("x",), chunksizes=(40,), endian="big")[:] = 5
    return path


def test_listing(mount, sample):
    m = mount(sample)
    assert sorted(os.listdir(m.path)) == [".zattrs", ".zgroup", ".zmetadata", "ocean", "raw", "v"]
    assert sorted(os.listdir(m.path / "v")) == [".zarray", ".zattrs", "0.0", "0.1", "1.0", "1.1"]
    assert ".codecfs" not in os.listdir(m.path) and os.listdir(m.path / ".codecfs") == [
        "filters", "log", "stats", "references.json", "view"]
    assert not (m.path / "ocean/.codecfs").exists()
    assert not (m.path / "v/2.0").exists() and not (m.path / "v/00.0").exists() and not (m.path / "v/0").exists()
    entries = {e.name: e for e in os.scandir(m.path)}
    assert entries["v"].is_dir() and entries[".zgroup"].is_file()


def test_find_and_tar_see_every_file(mount, sample, tmp_path):
    m = mount(sample)
    names = run("find", ".", "-type", "f", cwd=m.path).stdout
    assert len(names.splitlines()) == 3 + 2 + (2 + 4) + (2 + 1) + (2 + 1) + 1
    run("tar", "-C", m.path, "-cSf", tmp_path / "all.tar", ".")
    run("tar", "-C", m.path, "-df", tmp_path / "all.tar")


def test_sizes_modes_and_times(mount, sample):
    os.chmod(sample, 0o640)
    os.utime(sample, (1_500_000_000, 1_500_000_000))
    writable = mount(sample)
    assert os.stat(writable.path / "v/0.0").st_mode & 0o7777 == 0o640
    assert os.stat(writable.path / "v").st_mode & 0o7777 == 0o750
    writable.close()
    m = mount(sample, "ro")
    chunk = os.stat(m.path / "v/0.0")
    stored = int(xattr(m.path / "v/0.0", "_StoredSize"))
    assert chunk.st_size == 2 * 20 * 4 and 0 < stored != chunk.st_size
    assert chunk.st_blocks == -(-stored // 512)
    assert chunk.st_mode == 0o100440 and os.stat(m.path / "v").st_mode == 0o40550
    assert chunk.st_mtime == 1_500_000_000 and chunk.st_uid == os.stat(sample).st_uid
    with h5py.File(sample) as f:
        info = f["v"].id.get_chunk_info(0)
    assert int(xattr(m.path / "v/0.0", "_Offset")) == info.byte_offset and stored == info.size
    assert xattr(m.path / "v/0.0", "_FilterMask") == "0"


def test_du_shows_stored_and_apparent_size(mount, tmp_path):
    path = tmp_path / "zeros.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("z", data=np.zeros((64, 1 << 16), "u1"), chunks=(1, 1 << 16), compression="gzip",
                         fillvalue=1)
    m = mount(path)

    def du(*options):
        return int(run("du", "-s", "-B1", *options, m.path / "z").stdout.split()[0])

    assert du("--apparent-size") >= 64 << 16
    assert du() < 64 << 10


def test_metadata_files(mount, sample):
    m = mount(sample)
    zarray = json.loads((m.path / "v/.zarray").read_text())
    assert zarray["shape"] == [4, 40] and zarray["chunks"] == [2, 20] and zarray["dtype"] == "<f4"
    assert zarray["fill_value"] == -9.0 and zarray["compressor"] is None and zarray["filters"] is None
    zattrs = json.loads((m.path / "v/.zattrs").read_text())
    assert zattrs["_ARRAY_DIMENSIONS"] == ["t", "x"] and zattrs["units"] == "K" and zattrs["count"] == 7
    assert json.loads((m.path / ".zattrs").read_text()) == {"title": "sample"}
    assert (m.path / "v/_Filter").read_text() == "3|2,4|1,5\n"
    assert json.loads((m.path / "v/_Codecs").read_text()) == [
        {"id": "fletcher32"}, {"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 5}]
    assert (m.path / "raw/_Filter").read_text() == "none\n" and json.loads((m.path / "raw/_Codecs").read_text()) == []
    consolidated = json.loads((m.path / ".zmetadata").read_text())
    assert consolidated["zarr_consolidated_format"] == 1
    for name, value in consolidated["metadata"].items():
        assert json.loads((m.path / name).read_text()) == value
    assert {"v/.zarray", "raw/.zattrs", "ocean/.zgroup", "ocean/s/.zarray"} <= consolidated["metadata"].keys()


def test_getfattr_reads_like_ncdump(mount, sample):
    m = mount(sample)
    v = m.path / "v"
    expected = {"_Storage": "chunked", "_ChunkSizes": "[2, 20]", "_DeflateLevel": "5", "_Shuffle": "true",
                "_Fletcher32": "true", "_Endianness": "little", "_Filter": "3|2,4|1,5", "units": "K", "count": "7",
                "valid_range": "[0.0, 100.0]", "_FillValue": "-9.0"}
    for name, value in expected.items():
        assert xattr(v, name) == value, name
    listed = set(os.listxattr(v))
    assert {"user." + name for name in expected} <= listed and "user._Codecs" in listed
    assert xattr(m.path / "ocean/s", "_Endianness") == "big"
    assert xattr(m.path, "title") == "sample"
    text = run("getfattr", "-d", v).stdout
    assert 'user._Filter="3|2,4|1,5"' in text
    with pytest.raises(OSError) as caught:
        os.getxattr(v, "user.nothing")
    assert caught.value.errno == errno.ENODATA


def test_nothing_can_be_written(mount, sample):
    before = sample.read_bytes(), os.stat(sample).st_mtime_ns
    m = mount(sample, "ro")
    attempts = [
        lambda: open(m.path / "v/0.0", "r+b"), lambda: open(m.path / "v/new", "wb"), lambda: os.mkdir(m.path / "g"),
        lambda: os.remove(m.path / "v/0.0"), lambda: os.rename(m.path / "v", m.path / "w"),
        lambda: os.setxattr(m.path / "v", "user._Filter", b"1,9"), lambda: os.truncate(m.path / "v/0.0", 0),
        lambda: os.symlink("v", m.path / "l"), lambda: os.utime(m.path / "v"), lambda: os.chmod(m.path / "v", 0o777),
    ]
    for attempt in attempts:
        with pytest.raises(OSError) as caught:
            attempt()
        assert caught.value.errno == errno.EROFS
    m.close()
    assert (sample.read_bytes(), os.stat(sample).st_mtime_ns) == before


def test_partial_reads_and_mmap(mount, sample):
    m = mount(sample)
    whole = np.arange(160, dtype="f4").reshape(4, 40)[:2, 20:].tobytes()
    with open(m.path / "v/0.1", "rb") as f:
        assert os.pread(f.fileno(), 10, 5) == whole[5:15]
        assert os.pread(f.fileno(), 1000, len(whole) - 3) == whole[-3:]
        assert os.pread(f.fileno(), 10, len(whole)) == b""
        assert bytes(np.memmap(f, mode="r")) == whole


def test_seeking_in_a_directory(mount, tmp_path):
    path = tmp_path / "many.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=np.arange(1000), chunks=(1,), fillvalue=0)
    m = mount(path)
    names = os.listdir(m.path / "v")
    assert len(names) == len(set(names)) == 1002 and {str(i) for i in range(1000)} <= set(names)
    run("ls", "-l", m.path / "v")


def test_control_files_are_live(mount, sample):
    m = mount(sample)
    before = m.stats()
    (m.path / "v/0.0").read_bytes()
    after = m.stats()
    assert after["chunks_decoded"] == before["chunks_decoded"] + 1 and after["bytes_read"] > before["bytes_read"]
    (m.path / "v/0.0").read_bytes()
    again = m.stats()
    assert (again["chunks_decoded"], again["cache_hits"]) == (after["chunks_decoded"], after["cache_hits"]), \
        "the second read of a chunk is the page cache's"


def test_cp_r_gives_a_zarr_store(mount, sample, tmp_path):
    import zarr
    m = mount(sample)
    run("cp", "-r", m.path, tmp_path / "out.zarr")
    group = zarr.open_group(str(tmp_path / "out.zarr"), "r")
    assert (group["v"][:] == np.arange(160).reshape(4, 40)).all() and (group["ocean/s"][:] == 5).all()
    assert zarr.open_consolidated(str(tmp_path / "out.zarr"))["v"].shape == (4, 40)


def test_statfs(mount, sample):
    free = os.statvfs(sample.parent).f_bavail
    assert abs(os.statvfs(mount(sample).path).f_bavail - free) < max(free // 10, 1 << 16)
    m = mount(sample, "ro")
    numbers = os.statvfs(m.path)
    assert numbers.f_blocks * numbers.f_frsize >= os.stat(sample).st_size and numbers.f_bavail == 0
    assert numbers.f_namemax == 255


def test_names_that_files_cannot_have(mount, tmp_path):
    path = tmp_path / "names.h5"
    names = {".zgroup": "%2Ezgroup", ".codecfs": "%2Ecodecfs", "per%20cent": "per%20cent", "50%": "50%",
             "%41": "%41", "%2541": "%2541", "a%2Fb": "a%252Fb",
             "söl, a b": "söl, a b", "0.0": "0.0"}
    with h5py.File(path, "w") as f:
        for i, name in enumerate(names):
            f.create_dataset("g/" + name, data=np.full(3, i), fillvalue=-1)
        f.create_dataset("g/" + "x" * 300, data=np.arange(3))
    m = mount(path)
    listed = [n for n in os.listdir(m.path / "g") if not n.startswith(".z")]
    assert sorted(n for n in listed if "xxx" not in n) == sorted(names.values())
    for i, shown in enumerate(names.values()):
        assert (m.path / "g" / shown / "0").read_bytes() == np.full(3, i).tobytes()
    long_name = next(n for n in listed if "xxx" in n)
    assert len(long_name) <= 255 and (m.path / "g" / long_name / "0").read_bytes() == np.arange(3).tobytes()
