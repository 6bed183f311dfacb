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

DATA = np.random.default_rng(1).integers(0, 50, (64, 1 << 14), "u1")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", shape=DATA.shape, dtype="u1", chunks=(1, DATA.shape[1]), compression="gzip")
    return path


def run(*words, **kwargs):
    return subprocess.run([CODECFS, *words], capture_output=True, text=True, timeout=60, **kwargs)


def write(place):
    for i, row in enumerate(DATA):
        (place / f"v/{i}.0").write_bytes(row.tobytes())


def test_it_waits_until_all_is_stored(tmp_path, place, source):
    for name in ("-u", "--unmount"):
        assert run("-o", "mkdir,commit=3600", source, place).returncode == 0
        write(place)
        done = run(name, "mnt", cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        with h5py.File(source, "r+") as f:  # no process holds a lock on it
            assert np.array_equal(f["v"][...], DATA)
            f["v"][...] = 0
        assert sorted(os.listdir(tmp_path)) == ["a.h5"]


def test_it_waits_for_a_mount_that_is_only_read(tmp_path, place):
    for _ in range(20):
        assert run("-o", "ro,mkdir", any_source(), place).returncode == 0
        assert run("-u", place).returncode == 0
        assert os.listdir(tmp_path) == []


def test_a_mount_in_use_stays_however_often_it_is_asked(place, source):
    assert run("-o", "mkdir,commit=3600", source, place).returncode == 0
    write(place)
    with open(place / "v/0.0", "rb"):
        for _ in range(20):  # more than may wait at the same time
            done = run("-u", place)
            assert done.returncode == 32 and "stays mounted" in done.stderr, done.stderr
    assert is_mounted(place)
    assert run("-u", place).returncode == 0
    with h5py.File(source, "r+") as f:
        assert np.array_equal(f["v"][...], DATA)


def test_what_cannot_be_stored_keeps_the_mount(tmp_path, place):
    archive = tmp_path / "a.zip"
    assert run("-o", "mkdir,create=zip,commit=3600", archive, place).returncode == 0
    (place / ".zattrs").write_text('{"a": 1}')
    shutil.copy(archive, tmp_path / "b.zip")
    os.replace(tmp_path / "b.zip", archive)
    done = run("-u", place)
    assert done.returncode == 32 and "not all data can be stored" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert is_mounted(place)


def test_only_what_codecfs_has_mounted(tmp_path, place):
    for directory in (tmp_path, "/", "/proc"):
        done = run("-u", directory)
        assert done.returncode == 32 and "no codecfs mount at this path" in done.stderr, done.stderr
    assert run("-u", tmp_path / "nowhere").returncode == 32
    assert os.path.ismount("/proc")
    assert run("-u", place, "other").returncode == 1
    assert run("-u", place, "-o", "ro").returncode == 1
    assert run("-u").returncode == 1


def test_a_name_that_the_mount_table_has_in_another_way(tmp_path):
    place = tmp_path / "a b\\c"
    (tmp_path / "link").symlink_to(place)
    assert run("-o", "ro,mkdir", any_source(), place).returncode == 0
    try:
        assert run("-u", tmp_path / "link").returncode == 0
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
    done = run("-u", place)
    assert done.returncode == 0 and not is_mounted(place), done.stderr


def test_a_copy_in_another_mount_namespace(tmp_path, source):
    """The daemon serves the copy. The command says who has it, and does not wait for ever; what was written is in the source's log."""
    place = tmp_path / "mnt"
    assert run("-o", "mkdir,commit=3600", source, place).returncode == 0
    with subprocess.Popen(["unshare", "-m", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE) as copy:
        try:
            copy.stdout.readline()
            write(place)
            done = run("-u", place)
            assert done.returncode == 32 and f"{copy.pid} (sleep)" in done.stderr.splitlines()[-1], done.stderr
            assert "still mounted in the mount namespace of" in done.stderr and "waiting for" in done.stderr, done.stderr
            assert not is_mounted(place)
        finally:
            copy.kill()
    with opened(source) as f:
        assert np.array_equal(f["v"][...], DATA)


def test_a_second_place_of_the_mount(tmp_path, place, source):
    assert run("-o", "mkdir", source, place).returncode == 0
    other = tmp_path / "other"
    other.mkdir()
    subprocess.run(["mount", "--bind", place, other], check=True)
    try:
        done = run("-u", place)
        assert done.returncode == 32 and f"still mounted at {other}" in done.stderr, done.stderr
    finally:
        assert run("-u", other).returncode == 0


def opened(path):
    """The file, when the daemon has released it."""
    for _ in range(300):
        try:
            return h5py.File(path, "r+")
        except BlockingIOError:
            time.sleep(0.1)
    raise RuntimeError("still locked")
