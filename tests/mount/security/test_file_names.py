"""Names that codecfs gives to files of its own: long ones, those that a kill leaves, and those that others have taken."""
import os
import shutil

import h5py
import numpy as np
import pytest
import zarr

from conftest import detach, is_mounted, mounted, wait_until
from mounts import signal_all
from running import codecfs, run

DATA = np.arange(100000, dtype="<i4")
NEW = np.full(1000, 7, "<i4")


def make_hdf5(path):
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=DATA, chunks=(1000,), compression="gzip")
        f.create_dataset("gone", data=DATA)
    with h5py.File(path, "r+") as f:
        del f["gone"]
        f["small"] = 1


LONG = ["x" * 237 + ".h5", "x" * 252 + ".h5", "\u00e9" * 125 + ".h5"]


@pytest.mark.parametrize("name", LONG)
def test_long_names(tmp_path, name):
    path = tmp_path / "d" / name
    path.parent.mkdir()
    make_hdf5(path)
    before = path.stat().st_size
    done = codecfs("compact", path)
    assert path.stat().st_size < before, done.stderr
    with mounted(path, tmp_path / "mnt") as m:
        (m.path / "v/0").write_bytes(NEW.tobytes())
    with h5py.File(path) as f:
        assert (f["v"][:1000] == 7).all()
    other = tmp_path / "e" / name
    other.parent.mkdir()
    done = codecfs("convert", "-F", "v,deflate,1", path, other)  # a copy that is changed and compacted
    with h5py.File(other) as f:
        assert (f["v"][:1000] == 7).all() and (f["v"][1000:] == DATA[1000:]).all()
    done = codecfs("convert", path, other.with_suffix(".zr"))
    assert sorted(os.listdir(other.parent)) == sorted([name, other.with_suffix(".zr").name])
    assert os.listdir(path.parent) == [name]


def test_a_long_name_of_an_archive(tmp_path):
    archive = tmp_path / "d" / ("x" * 251 + ".zip")
    archive.parent.mkdir()
    codecfs("-o", "mkdir,create=zip,view=decoded", archive, tmp_path / "mnt")
    try:
        (tmp_path / "mnt/.zattrs").write_text('{"a": 1}')
        codecfs("unmount", tmp_path / "mnt")
    finally:
        detach(tmp_path / "mnt")
    assert os.listdir(archive.parent) == [archive.name]
    shutil.copy(archive, tmp_path / "short.zip")
    assert dict(zarr.open(zarr.ZipStore(str(tmp_path / "short.zip"), mode="r"), "r").attrs) == {"a": 1}


def test_a_name_that_is_too_long_is_refused_at_once(tmp_path):
    make_hdf5(tmp_path / "a.h5")
    done = codecfs("convert", tmp_path / "a.h5", tmp_path / ("x" * 256), code=32)
    assert "too long" in done.stderr
    assert os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.parametrize("names", [[], ["partial.codecfs-wal"]])
def test_the_advice_after_a_killed_conversion_is_complete(tmp_path, names):
    """Following it must be enough to begin anew."""
    make_hdf5(tmp_path / "a.h5")
    target = tmp_path / "b.h5"
    for name in ("b.h5.codecfs-partial", "b.h5.codecfs-partial.json", ".b.h5.codecfs-partial.codecfs-wal"):
        (tmp_path / name).write_text("left")
    done = codecfs("convert", tmp_path / "a.h5", target, code=32)
    for name in names:
        assert f".b.h5.codecfs-{name}" in done.stderr
    advice = done.stderr[done.stderr.index("or remove: ") + len("or remove: "):].strip()
    run("sh", "-c", f"rm {advice}")
    done = codecfs("convert", tmp_path / "a.h5", target)
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "b.h5"]


def test_a_relative_name_of_the_log(tmp_path, place):
    make_hdf5(tmp_path / "a.h5")
    name = f"codecfs-log-{os.getpid()}"
    codecfs("-o", f"mkdir,log={name}", tmp_path / "a.h5", place, cwd=tmp_path)
    try:
        (place / "v/0").write_bytes(NEW.tobytes())
        daemons = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_daemon_of(pid, str(place))]
        signal_all(daemons)
        wait_until(lambda: not (tmp_path / ".a.h5.codecfs-wal").exists())
    finally:
        detach(place)
    assert not os.path.exists(f"/{name}")


def is_daemon_of(pid, place):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read().split(b"\0")
        return place.encode() in words and words[0].endswith(b"codecfs")
    except OSError:
        return False


@pytest.fixture
def overlay(tmp_path):
    """A mounted overlay and its lower layer."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if run("mount", "-t", "tmpfs", "none", disk, code=None).returncode != 0:
        pytest.skip("needs the right to mount")
    for name in ("lower", "upper", "work", "merged"):
        (disk / name).mkdir()
    options = f"lowerdir={disk}/lower,upperdir={disk}/upper,workdir={disk}/work"
    try:
        yield lambda: run("mount", "-t", "overlay", "none", "-o", options, disk / "merged", code=None).returncode == 0, disk
    finally:
        run("umount", disk / "merged", code=None)
        run("umount", "-l", disk)


@pytest.mark.parametrize("has_attribute", [False, True])
def test_a_file_of_a_lower_layer_is_compacted(overlay, has_attribute):
    mount_it, disk = overlay
    make_hdf5(disk / "lower/a.h5")
    if not mount_it():
        pytest.skip("no overlayfs")
    path = disk / "merged/a.h5"
    before = path.stat().st_size
    if has_attribute:
        try:
            os.setxattr(path, "user.note", b"precious")
        except OSError:
            pytest.skip("no attributes in tmpfs")
    done = codecfs("compact", path)
    assert path.stat().st_size < before, done
    with h5py.File(path) as f:
        assert (f["v"][:] == DATA).all()
    assert not has_attribute or os.getxattr(path, "user.note") == b"precious"


@pytest.mark.parametrize("ending", ["replaced", "deleted"])
def test_an_archive_that_is_replaced_or_deleted(tmp_path, place, ending):
    archive = tmp_path / "d" / "a.zip"
    archive.parent.mkdir()
    codecfs("-o", "mkdir,create=zip,view=decoded,commit=3600", archive, place)
    try:
        (place / ".zattrs").write_text('{"a": 1}')
        fd = os.open(place, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        (tmp_path / "empty.zip").write_bytes(archive.read_bytes()[:0])
        if ending == "replaced":
            os.rename(tmp_path / "empty.zip", archive)
        else:
            archive.unlink()
        for text in (None, '{"a": 2}'):  # what was synced, and more
            if text:
                (place / ".zattrs").write_text(text)
            done = codecfs("unmount", place, code=32)
            assert is_mounted(place), done
            assert "a.zip.codecfs-rescued" in done.stderr
        run("fusermount3", "-u", place)
        wait_until(lambda: (archive.parent / "a.zip.codecfs-rescued").exists())
    finally:
        detach(place)
    rescued = zarr.ZipStore(str(archive.parent / "a.zip.codecfs-rescued"), mode="r")
    assert dict(zarr.open(rescued, "r").attrs) == {"a": 2}
    assert (ending == "replaced") == archive.exists()
    assert not archive.exists() or archive.stat().st_size == 0
