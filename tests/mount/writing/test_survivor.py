"""The daemon alone is killed: the process that survives it completes what was committed, so that h5py opens the file, which
holds all that was synced, and no log is left."""
import os
import signal
import subprocess

import h5py
import numpy as np
import pytest

from conftest import CODECFS, Mount, is_gone, wait_until
from running import codecfs, run

CHUNKS, LENGTH = 24, 1 << 18  # each chunk 2 MiB


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "data" / "a.h5"
    path.parent.mkdir()
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("v", (CHUNKS, LENGTH), "i8", chunks=(1, LENGTH))  # grows with each chunk
        file.create_dataset("w", data=np.arange(1000), chunks=(100,), compression="gzip")
    return path


def write(root, value):
    """Returns when all is durable, in the log."""
    for i in range(CHUNKS):
        (root / f"v/{i}.0").write_bytes(np.full(LENGTH, value + i, "i8").tobytes())
    (root / "w/3").write_bytes(np.full(100, value).tobytes())
    fd = os.open(root, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def check(source, value):
    assert not list(source.parent.glob(".*codecfs*"))
    with h5py.File(source, "r") as file:
        assert np.array_equal(file["v"][:, 0], value + np.arange(CHUNKS)) and (file["v"][:, -1] == file["v"][:, 0]).all()
        assert (file["w"][300:400] == value).all() and file["w"][299] == 299


def opens(source):
    try:
        with h5py.File(source, "r") as file:
            return file["v"].id.get_num_chunks() == CHUNKS
    except OSError:
        return False


def in_a_checkpoint(mount, source):
    """Ends the mount, and stops its daemon as soon as it writes into the source; True where it has not finished then."""
    before = source.stat().st_mtime_ns
    run("fusermount3", "-u", mount.path)
    wait_until(lambda: source.stat().st_mtime_ns != before)
    mount.process.send_signal(signal.SIGSTOP)
    return bool(list(source.parent.glob(".*codecfs-wal"))) and not opens(source)


@pytest.mark.parametrize("kind", ["file", "folder", "moved"])
def test_a_kill_inside_a_checkpoint(place, source, kind):
    for attempt in range(8):
        mount = Mount(source.parent if kind == "folder" else source, place)
        write(mount.path / "a.h5" if kind == "folder" else mount.path, 100 * attempt)
        if kind == "moved":
            source = source.rename(source.with_name(f"moved{attempt}.h5"))
        survivors = mount.survivors()
        assert len(survivors) == 1
        inside = in_a_checkpoint(mount, source)
        mount.process.kill()
        mount.process.wait(60)
        mount.ended = True
        wait_until(lambda: all(map(is_gone, survivors)))
        check(source, 100 * attempt)
        if inside:
            return
    raise AssertionError("no kill came inside a checkpoint")


@pytest.mark.parametrize("kind", ["commits", "mapped"])
def test_a_kill_between_commits(place, source, kind):
    mount = Mount(source, place)
    write(mount.path, 5)
    if kind == "mapped":
        npy = np.load(mount.path / ".codecfs/view/npy/v.npy", mmap_mode="r+")
        npy[3] = 1  # not synced
    mount.kill_daemon()
    check(source, 5)


def test_the_survivor_may_be_killed_alone(place, source):
    mount = Mount(source, place)
    write(mount.path, 1)
    first, = mount.survivors()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        os.kill(first, number)
    assert mount.survivors() == [first]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: mount.survivors() not in ([], [first]))
    assert "another is started" in mount.messages()
    write(mount.path, 2)
    mount.kill_daemon()
    check(source, 2)


def test_it_ends_with_the_mount(mount, source):
    m = mount(source)
    write(m.path, 1)
    survivors = m.survivors()
    assert len(survivors) == 1
    held = {os.readlink(f"/proc/{survivors[0]}/{link}") for link in ("cwd", "root")}
    assert held == {"/"}
    m.close()
    assert all(map(is_gone, survivors))
    check(source, 1)


def test_a_mount_waits_for_it(place, source, tmp_path):
    for command in ([CODECFS, "--recover", source], [CODECFS, "--check", source], [CODECFS, source, place]):
        dead = Mount(source, place)
        write(dead.path, 7)
        survivor, = dead.survivors()
        os.kill(survivor, signal.SIGSTOP)
        dead.kill_daemon(stopped=[survivor])
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.3)
        assert list(source.parent.glob(".*codecfs-wal"))
        os.kill(survivor, signal.SIGCONT)
        assert waiting.wait(60) == 0, waiting.stdout.read()
        check(source, 7)
        if command[1] == source:
            assert np.frombuffer((place / "v/3.0").read_bytes(), "i8")[0] == 10
            codecfs("-u", place)


def test_everything_at_once_leaves_the_log(place, source):
    """A power cut does the same: the next mount, or --recover, brings it in."""
    mount = Mount(source, place)
    write(mount.path, 3)
    mount.kill()
    assert list(source.parent.glob(".*codecfs-wal"))
    codecfs("--recover", source)
    check(source, 3)
