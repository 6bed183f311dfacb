"""codecfs unmount: returns when everything is in the source and the daemon has ended, or tells why it cannot."""
import os
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import CODECFS, any_source, detach, is_mounted
from running import codecfs, run

DATA = np.random.default_rng(1).integers(0, 50, (64, 1 << 14), "u1")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", shape=DATA.shape, dtype="u1", chunks=(1, DATA.shape[1]), compression="gzip")
    return path


def write(place):
    for i, row in enumerate(DATA):
        (place / f"v/{i}.0").write_bytes(row.tobytes())


def test_it_waits_until_all_is_stored(tmp_path, place, source):
    for name in ("-u", "--unmount"):
        codecfs("-o", "mkdir,commit=3600", source, place)
        write(place)
        done = codecfs(name, "mnt", cwd=tmp_path, code=None)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        with h5py.File(source, "r+") as f:  # no process holds a lock on it
            assert np.array_equal(f["v"][...], DATA)
            f["v"][...] = 0
        assert sorted(os.listdir(tmp_path)) == ["a.h5"]


def test_it_waits_for_a_mount_that_is_only_read(tmp_path, place):
    for _ in range(20):
        codecfs("-o", "ro,mkdir", any_source(), place)
        codecfs("-u", place)
        assert os.listdir(tmp_path) == []


def test_a_mount_in_use_stays_however_often_it_is_asked(place, source):
    codecfs("-o", "mkdir,commit=3600", source, place)
    write(place)
    with open(place / "v/0.0", "rb"):
        for _ in range(20):  # more than may wait at the same time
            done = codecfs("-u", place, code=32)
            assert "stays mounted" in done.stderr, done.stderr
    assert is_mounted(place)
    codecfs("-u", place)
    with h5py.File(source, "r+") as f:
        assert np.array_equal(f["v"][...], DATA)


def test_what_cannot_be_stored_keeps_the_mount(tmp_path, place):
    archive = tmp_path / "a.zip"
    codecfs("-o", "mkdir,create=zip,view=decoded,commit=3600", archive, place)
    (place / ".zattrs").write_text('{"a": 1}')
    shutil.copy(archive, tmp_path / "b.zip")
    os.replace(tmp_path / "b.zip", archive)
    done = codecfs("-u", place, code=32)
    assert "not all data can be stored" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert is_mounted(place)


def test_only_what_codecfs_has_mounted(tmp_path, place):
    for directory in (tmp_path, "/", "/proc"):
        done = codecfs("-u", directory, code=32)
        assert "no codecfs mount at this path" in done.stderr, done.stderr
    codecfs("-u", tmp_path / "nowhere", code=32)
    assert os.path.ismount("/proc")
    codecfs("-u", place, "other", code=1)
    codecfs("-u", place, "-o", "ro", code=1)
    codecfs("-u", code=1)


def test_a_name_that_the_mount_table_has_in_another_way(tmp_path):
    place = tmp_path / "a b\\c"
    (tmp_path / "link").symlink_to(place)
    codecfs("-o", "ro,mkdir", any_source(), place)
    try:
        codecfs("-u", tmp_path / "link")
        assert not place.exists()
    finally:
        detach(place)


def test_a_daemon_that_died(place, source):
    place.mkdir()
    with subprocess.Popen([CODECFS, "-f", str(source), str(place)], stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 20
        while not is_mounted(place) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    done = codecfs("-u", place)
    assert not is_mounted(place), done.stderr


def test_a_copy_in_another_mount_namespace(tmp_path, source):
    """The daemon serves the copy. The command says who has it, and does not wait for ever; what was written is in the source's log."""
    place = tmp_path / "mnt"
    codecfs("-o", "mkdir,commit=3600", source, place)
    with subprocess.Popen(["unshare", "-m", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE) as copy:
        try:
            copy.stdout.readline()
            write(place)
            done = codecfs("-u", place, code=32)
            assert f"{copy.pid} (sleep)" in done.stderr.splitlines()[-1], done.stderr
            assert "still mounted in the mount namespace of" in done.stderr and "waiting for" in done.stderr, done.stderr
            assert not is_mounted(place)
        finally:
            copy.kill()
    with opened(source) as f:
        assert np.array_equal(f["v"][...], DATA)


def test_a_second_place_of_the_mount(tmp_path, place, source):
    codecfs("-o", "mkdir", source, place)
    other = tmp_path / "other"
    other.mkdir()
    run("mount", "--bind", place, other)
    try:
        done = codecfs("-u", place, code=32)
        assert f"still mounted at {other}" in done.stderr, done.stderr
    finally:
        codecfs("-u", other)


def opened(path):
    """The file, when the daemon has released it."""
    for _ in range(300):
        try:
            return h5py.File(path, "r+")
        except BlockingIOError:
            time.sleep(0.1)
    raise RuntimeError("still locked")
