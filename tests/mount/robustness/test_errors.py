"""Damage stays where it is: one chunk fails with EIO and a reason, the others are readable, the mount lives."""
import datetime
import errno
import os

import h5py
import numpy as np
import pytest
from conftest import DATA, xattr
from running import run


DAMAGED = sorted(p for kind in ("hdf5", "zarr") for p in (DATA / kind).glob("damaged*"))


@pytest.mark.parametrize("path", DAMAGED, ids=lambda p: p.name)
def test_damage_of_every_kind_has_a_reason_and_no_other_victim(mount, path):
    m = mount(path)
    read, failed = 0, 0
    for name in run("find", ".", "-type", "f", cwd=m.path, code=None).stdout.splitlines():
        try:
            (m.path / name).read_bytes()
            read += 1
        except OSError as error:
            failed += 1
            assert error.errno in (errno.EIO, errno.EOPNOTSUPP, errno.ELOOP), f"{name}: {error}"
            assert "/v/" in name or name in ("./.zmetadata", "./.zattrs"), f"{name}: {error}"
    assert m.process.poll() is None, "the daemon died"
    assert read > 0
    # Not errors: a file that a writer left open, and a directory where a chunk might be (absent, also for zarr-python).
    if path.name.startswith(("damaged_open_for_writing", "damaged_chunk_is_a_directory")):
        assert failed == 0
    else:
        assert m.stats()["errors"] > 0 and "error" in m.messages()


def read_error(path):
    with pytest.raises(OSError) as caught:
        path.read_bytes()
    return caught.value.errno


@pytest.fixture
def deflated(tmp_path):
    path = tmp_path / "d.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=np.random.default_rng(1).integers(0, 1000, (4, 1000), "i4"), chunks=(1, 1000),
                         compression="gzip", shuffle=True, fletcher32=True)
    with h5py.File(path) as f:
        chunks = [f["v"].id.get_chunk_info(i) for i in range(4)]
        values = f["v"][:]
    return path, chunks, values


def check_others(m, values, damaged):
    for i in range(4):
        if i != damaged:
            assert (m.path / f"v/{i}.0").read_bytes() == values[i].tobytes()


def test_a_flipped_byte_under_fletcher32(mount, deflated):
    path, chunks, values = deflated
    with open(path, "r+b") as f:
        f.seek(chunks[2].byte_offset + 100)
        byte = f.read(1)[0]
        f.seek(chunks[2].byte_offset + 100)
        f.write(bytes([byte ^ 1]))
    m = mount(path)
    assert read_error(m.path / "v/2.0") == errno.EIO
    reason = xattr(m.path / "v/2.0", "_Error")
    assert "fletcher32" in reason and "2.0" in reason
    assert reason in m.messages() and m.stats()["errors"] >= 1
    check_others(m, values, 2)


def test_a_truncated_file(mount, tmp_path):
    """libhdf5 refuses the whole file; what is still there can be read all the same."""
    path = tmp_path / "t.h5"
    values = np.arange(400_000, dtype="i4").reshape(4, 100_000)
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=values, chunks=(1, 100_000))
    with h5py.File(path) as f:
        last = max((f["v"].id.get_chunk_info(i) for i in range(4)), key=lambda c: c.byte_offset)
    assert last.byte_offset + last.size > os.path.getsize(path) - 8192, "the last chunk is not at the end of the file"
    os.truncate(path, last.byte_offset + 10)
    with pytest.raises(OSError):
        h5py.File(path)
    m = mount(path)
    number = last.chunk_offset[0]
    assert read_error(m.path / f"v/{number}.0") == errno.EIO
    assert "end of the file" in xattr(m.path / f"v/{number}.0", "_Error")
    check_others(m, values, number)


def test_a_deflate_stream_cut_short(mount, tmp_path):
    path = tmp_path / "cut.h5"
    values = np.random.default_rng(2).integers(0, 50, (2, 5000), "i4")
    with h5py.File(path, "w") as f:
        d = f.create_dataset("v", data=values, chunks=(1, 5000), compression="gzip")
        _, stored = d.id.read_direct_chunk((0, 0))
        d.id.write_direct_chunk((0, 0), stored[:len(stored) // 2])
    m = mount(path)
    assert read_error(m.path / "v/0.0") == errno.EIO
    assert "deflate" in xattr(m.path / "v/0.0", "_Error")
    assert (m.path / "v/1.0").read_bytes() == values[1].tobytes()


def test_a_stream_that_grows_past_the_chunk_is_no_allocation(mount, tmp_path):
    import zlib
    path = tmp_path / "bomb.h5"
    with h5py.File(path, "w") as f:
        d = f.create_dataset("v", shape=(2, 1000), dtype="u1", chunks=(1, 1000), compression="gzip")
        d.id.write_direct_chunk((0, 0), zlib.compress(bytes(300 << 20), 9))
        d[1] = 7
    m = mount(path)
    assert read_error(m.path / "v/0.0") == errno.EIO
    assert (m.path / "v/1.0").read_bytes() == b"\7" * 1000
    if not os.environ.get("CODECFS_SANITIZE"):
        assert m.resident_peak() < 100 << 20


def test_an_unknown_filter(mount, tmp_path):
    path = tmp_path / "unknown.h5"
    with h5py.File(path, "w") as f:
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_chunk((10,))
        dcpl.set_filter(32999, h5py.h5z.FLAG_OPTIONAL, (1, 2, 3))
        space = h5py.h5s.create_simple((20,))
        d = h5py.h5d.create(f.id, b"v", h5py.h5t.STD_I32LE, space, dcpl)
        d.write_direct_chunk((0,), b"whatever")
        f["ok"] = np.arange(3)
    m = mount(path)
    assert sorted(os.listdir(m.path / "v")) == [".zarray", ".zattrs", "0", "1"]
    assert (m.path / "v/_Filter").read_text() == "32999,1,2,3\n"
    assert '"hdf5:32999"' in (m.path / "v/_Codecs").read_text()
    assert os.stat(m.path / "v/0").st_size == 40
    assert read_error(m.path / "v/0") == errno.EIO
    assert "32999" in xattr(m.path / "v/0", "_Error")
    assert (m.path / "ok/0").read_bytes() == np.arange(3).tobytes()


def test_what_has_no_zarr_form(mount, tmp_path):
    path = tmp_path / "refs.h5"
    with h5py.File(path, "w") as f:
        f["target"] = np.arange(3)
        f.create_dataset("refs", data=np.array([f["target"].ref], dtype=h5py.ref_dtype))
        d = f.create_dataset("ragged", (2,), dtype=h5py.vlen_dtype("i4"))
        d[0] = [1, 2]
    m = mount(path)
    for name in ("refs", "ragged"):
        assert (m.path / name / ".zarray").exists() and (m.path / name / ".zattrs").exists()
        assert read_error(m.path / name / "0") == errno.EOPNOTSUPP
        assert xattr(m.path / name / "0", "_Error")
    assert (m.path / "target/0").read_bytes() == np.arange(3).tobytes()


def test_zarr_chunks_of_the_wrong_size(mount, tmp_path):
    import zarr
    group = zarr.open_group(str(tmp_path / "z"), "w")
    group.create_dataset("raw", data=np.arange(20, dtype="i4"), chunks=10, compressor=None)
    group.create_dataset("zipped", data=np.arange(20, dtype="i4"), chunks=10)
    (tmp_path / "z/raw/0").write_bytes(b"short")
    (tmp_path / "z/zipped/0").write_bytes(b"")
    m = mount(tmp_path / "z")
    assert read_error(m.path / "raw/0") == errno.EIO and read_error(m.path / "zipped/0") == errno.EIO
    assert (m.path / "raw/1").read_bytes() == (m.path / "zipped/1").read_bytes() == np.arange(10, 20, dtype="i4").tobytes()


def test_zarr_with_an_unknown_codec(mount, tmp_path):
    import json

    import zarr
    group = zarr.open_group(str(tmp_path / "z"), "w")
    group.create_dataset("v", data=np.arange(20), chunks=10)
    facts = json.loads((tmp_path / "z/v/.zarray").read_text())
    facts["compressor"] = {"id": "notacodec", "level": 3}
    (tmp_path / "z/v/.zarray").write_text(json.dumps(facts))
    m = mount(tmp_path / "z")
    assert json.loads((m.path / "v/_Codecs").read_text()) == [{"id": "notacodec", "level": 3}]
    assert not (m.path / "v/_Filter").exists()
    assert read_error(m.path / "v/0") == errno.EIO and "notacodec" in xattr(m.path / "v/0", "_Error")


def test_damaged_metadata_still_tells_its_reason(mount, tmp_path):
    """user._Error can be read exactly where nothing else can."""
    import zarr
    group = zarr.open_group(str(tmp_path / "z"), "w")
    group.create_dataset("v", data=np.arange(20), chunks=10)
    (tmp_path / "z/v/.zattrs").write_text("{broken")
    m = mount(tmp_path / "z")
    with pytest.raises(OSError) as caught:
        os.listdir(m.path / "v")
    assert caught.value.errno == errno.EIO
    assert os.listxattr(m.path / "v") == ["user._Error", "user._ErrorTime"]
    assert "JSON" in xattr(m.path / "v", "_Error") and ".zattrs" in xattr(m.path / "v", "_Error")


def test_a_failure_has_a_time_and_ends_with_a_success_of_its_kind(mount, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=np.arange(8, dtype="i4"), chunks=(4,))
    m = mount(tmp_path / "a.h5")
    before = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    with pytest.raises(OSError):
        os.setxattr(m.path / "v", "user._Filter", b"zstd,99")
    assert "zstd" in xattr(m.path / "v", "_Error")
    failed = datetime.datetime.strptime(xattr(m.path / "v", "_ErrorTime"), "%Y-%m-%dT%H:%M:%S%z")
    assert before <= failed <= datetime.datetime.now(datetime.timezone.utc)
    (m.path / "v/0").read_bytes()  # another kind of request, and another file
    os.listdir(m.path / "v")
    assert "zstd" in xattr(m.path / "v", "_Error")
    os.setxattr(m.path / "v", "user._Filter", b"zstd,9")
    assert not [name for name in os.listxattr(m.path / "v") if name.startswith("user._Error")]

    with pytest.raises(OSError):
        (m.path / "v/zarr.json").write_text("{}")
    (m.path / "v/0").write_bytes(bytes(16))
    assert "zarr.json" in xattr(m.path / "v", "_Error"), "a success under another name is no reason to forget this"
    os.removexattr(m.path / "v", "user._Error")
    assert "user._Error" not in os.listxattr(m.path / "v")


def test_a_superblock_that_claims_a_huge_file(mount, tmp_path):
    """libhdf5 then asks for gigabytes of metadata that are not there."""
    path = tmp_path / "huge.h5"
    with h5py.File(path, "w") as f:
        for i in range(20):
            f.create_dataset(f"v{i}", data=np.arange(3))
    data = bytearray(path.read_bytes())
    data[40:48] = (1 << 37).to_bytes(8, "little")  # end of file address of superblock 0
    heap = data.index(b"HEAP")
    data[heap + 8:heap + 16] = (1 << 33).to_bytes(8, "little")  # size of the root's name heap
    path.write_bytes(data)
    m = mount(path)
    try:
        os.listdir(m.path)
    except OSError as error:
        assert error.errno == errno.EIO and xattr(m.path, "_Error")
    if not os.environ.get("CODECFS_SANITIZE"):
        assert m.resident_peak() < 256 << 20


def test_an_external_file_that_is_missing_is_an_error(mount, tmp_path):
    with h5py.File(tmp_path / "s.h5", "w") as f:
        f.create_dataset("v", (100,), "i4", external=[("gone.raw", 0, 400)])
        f["w"] = [1, 2, 3]
    m = mount(tmp_path / "s.h5")
    with pytest.raises(OSError) as error:
        (m.path / "v/0").read_bytes()
    assert error.value.errno == errno.EIO and "gone.raw" in m.messages()
    assert (m.path / "w/0").read_bytes()
