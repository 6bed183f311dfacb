"""The daemon is killed while programs use the mount: they get errors and go on, the next mount at the same place finds
what was synced, and users need not unmount the dead mount."""
import contextlib
import ctypes
import errno
import mmap
import os
import pathlib
import shutil
import signal
import time

import h5py
import numpy as np
import pytest
import zarr

from conftest import CODECFS, Mount, unmount
from mounts import mount_points, signal_all
from running import codecfs, run

CELLS, LENGTH = 16, 50_000  # each chunk 200 kB
NPY = ".codecfs/view/npy/v.npy"
DEAD = (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO)


@pytest.fixture(params=["hdf5", "zarr"])
def source(request, tmp_path):
    values = np.arange(CELLS * LENGTH, dtype="<i4").reshape(CELLS, LENGTH)
    if request.param == "hdf5":
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("v", data=values, chunks=(1, LENGTH), compression="gzip", compression_opts=1)
        return tmp_path / "a.h5"
    zarr.open_group(str(tmp_path / "a.zarr"), "w").create_dataset("v", data=values, chunks=(1, LENGTH))
    return tmp_path / "a.zarr"


def stored(source):
    if source.is_dir():
        return zarr.open_group(str(source), "r")["v"][...]
    with h5py.File(source, "r") as file:
        return file["v"][...]


def mount_dead(source, place, *options):
    """A mount whose daemon has died; the kernel remembers the attributes of its root."""
    dead = Mount(source, place, *options)
    os.stat(place)
    os.listdir(place / "v")
    dead.process.kill()
    dead.process.wait(60)
    dead.ended = True
    with pytest.raises(OSError) as failure:
        os.statvfs(place)
    assert failure.value.errno in DEAD


def mounts_at(place):
    return mount_points().count(str(place))


def mount_again(source, place, *options):
    """As users do: codecfs goes to the background."""
    return codecfs(*(["-o", ",".join(options)] if options else []), source, place, code=None)


def daemons_of(source):
    """Those in the background too."""
    pids = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if os.fsencode(str(source)) in words and os.path.samefile(entry / "exe", CODECFS):
                pids.append(int(entry.name))
    return pids


def wait_for_end_of(source):
    deadline = time.monotonic() + 30
    while daemons_of(source):
        assert time.monotonic() < deadline, "the daemon, or a process of it, goes on"
        time.sleep(0.01)


def kill_daemon_of(source):
    signal_all(daemons_of(source))
    wait_for_end_of(source)


# --- programs that use the mount while its daemon dies. Each goes on until it fails, and notes outside what it has synced.

def read_chunks(root, _):
    while True:
        for i in range(CELLS):
            (root / f"v/{i}.0").read_bytes()
        drop_pages(root)


def write_and_sync(root, note):
    for turn in range(1, 10**6):
        cell = turn % 4
        fd = os.open(root / f"v/{cell}.0", os.O_RDWR)
        note(f"w {cell} {turn}")
        os.pwrite(fd, np.full(LENGTH, turn, "<i4").tobytes(), 0)
        os.fsync(fd)
        note(f"s {cell} {turn}")
        os.close(fd)


def map_and_read(root, _):
    with open(root / NPY, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as map_:
        while True:
            for at in range(0, len(map_), 4096):
                map_[at]
            drop_pages(root)
            map_.madvise(mmap.MADV_DONTNEED)


def map_and_write(root, note):
    with open(root / "v/5.0", "r+b") as file, mmap.mmap(file.fileno(), 0) as map_:
        for turn in range(1, 10**6):
            note(f"w 5 {turn}")
            map_[:] = np.full(LENGTH, turn, "<i4").tobytes()
            map_.flush()
            note(f"s 5 {turn}")


def list_and_stat(root, _):
    while True:
        for path, _, files in os.walk(root, onerror=fail):
            for name in files:
                os.stat(os.path.join(path, name))
        os.getxattr(root / "v", "user._Filter")
        os.statvfs(root)


def write_array(root, _):
    turn = 0
    while True:
        turn += 1
        with open(root / NPY, "r+b", buffering=0) as file:
            file.seek(-4 * LENGTH * 8, os.SEEK_END)  # the second half
            file.write(np.full(LENGTH * 8, turn, "<i4").tobytes())


def fail(error):
    raise error


def drop_pages(root):
    for name in [f"v/{i}.0" for i in range(CELLS)] + [NPY]:
        fd = os.open(root / name, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


PROGRAMS = [read_chunks, write_and_sync, map_and_read, map_and_write, list_and_stat, write_array]


def start(program, root, notes):
    """In a process of its own, which ends with the errno that stopped it."""
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            program(root, lambda line: os.write(fd, f"{line}\n".encode()))
        except OSError as error:
            code = error.errno
        finally:
            os._exit(code)
    return pid


def wait_for(pid, seconds):
    deadline = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        if time.monotonic() > deadline:
            signal_all([pid])
            return None
        time.sleep(0.01)


def test_programs_get_errors_and_what_was_synced_is_there(source, place, tmp_path):
    values = stored(source)
    mount = Mount(source, place, "commit=3600")
    pids = {}
    try:
        for program in PROGRAMS:
            pids[program] = start(program, place, tmp_path / "notes")
        deadline = time.monotonic() + 60
        while (tmp_path / "notes").read_text().count("s ") < 40 if (tmp_path / "notes").exists() else True:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        mount.process.kill()
        mount.process.wait(60)
        mount.ended = True
        ends = {program.__name__: wait_for(pid, 60) for program, pid in pids.items()}
        pids.clear()
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert None not in ends.values(), f"hangs after the death of the daemon: {ends}"
    for name, status in ends.items():
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGBUS and name.startswith("map"), (name, status)
        else:
            assert os.WEXITSTATUS(status) in DEAD, (name, os.WEXITSTATUS(status))

    may_be = {}  # cell -> what it may hold: the last that was synced, and what came after it
    for line in (tmp_path / "notes").read_text().splitlines():
        what, cell, turn = line.split()
        may_be[int(cell)] = ([] if what == "s" else may_be.get(int(cell), [])) + [int(turn)]
    done = mount_again(source, place)  # over the dead mount
    assert done.returncode == 0, done.stderr
    assert mounts_at(place) == 1
    shown = np.load(place / NPY)
    run(*(["umount", place] if os.geteuid() == 0 else ["fusermount3", "-u", place]))
    wait_for_end_of(source)
    for cell in (*range(4), 5):
        assert set(np.unique(shown[cell])) <= set(may_be[cell]), (cell, np.unique(shown[cell]), may_be[cell])
        assert len(np.unique(shown[cell])) == 1
    for cell in (4, 6, 7):
        assert (shown[cell] == values[cell]).all()
    for cell in range(8, CELLS):  # written without fsync: old or new, each chunk as a whole
        assert (shown[cell] == values[cell]).all() or len(np.unique(shown[cell])) == 1
    codecfs("--recover", source)
    assert (stored(source) == shown).all()


def test_a_dead_mount_is_taken_away(source, place, tmp_path):
    mount_dead(source, place)
    held = os.open(place, os.O_PATH)  # the dead mount is in use
    done = mount_again(source, place)
    os.close(held)
    assert done.returncode == 0 and f"{place}: the daemon of a mount there died" in done.stderr
    assert mounts_at(place) == 1 and "died; it was unmounted" in (place / ".codecfs/log").read_text()
    assert (np.load(place / NPY) == stored(source)).all()
    unmount(place)
    assert mounts_at(place) == 0 and os.listdir(place) == []


def test_a_living_mount_is_not(source, place):
    first = Mount(source, place, "ro")
    done = mount_again(source, place, "ro")
    assert done.returncode == 32 and "codecfs is mounted there" in done.stderr and mounts_at(place) == 1
    done = mount_again(source, place, "ro,nonempty")
    assert done.returncode == 0 and "died" not in done.stderr
    assert mounts_at(place) == 2
    unmount(place)
    assert first.process.poll() is None and (place / NPY).exists()
    first.close()


@pytest.mark.parametrize("name", ["with space", "tab\tand\\backslash", "ümlaut"])
def test_names_of_dead_mounts(source, tmp_path, name):
    place = tmp_path / name
    try:
        place.mkdir()
        for _ in range(2):
            done = mount_again(source, place)
            assert done.returncode == 0, done.stderr
            (place / "v/0.0").read_bytes()
            kill_daemon_of(source)
        assert mounts_at(place) == 1
    finally:
        run("umount", "-l", place, code=None)


@pytest.mark.parametrize("written", ["mnt/", "mnt/.", "link", "../{}/mnt"])
def test_ways_to_name_a_dead_mount(source, place, tmp_path, written):
    (tmp_path / "link").symlink_to("mnt")
    mount_dead(source, place)
    done = codecfs(source, written.format(tmp_path.name), cwd=tmp_path)
    assert mounts_at(place) == 1, done.stderr
    assert (place / NPY).exists()


def test_dead_mounts_over_each_other_and_mkdir(source, place):
    place.mkdir()
    for _ in range(2):
        assert mount_again(source, place, "ro", "nonempty").returncode == 0
    assert mounts_at(place) == 2
    kill_daemon_of(source)
    done = mount_again(source, place, "mkdir", "ro")
    assert done.returncode == 0, done.stderr
    assert mounts_at(place) == 1 and (place / NPY).exists()


def test_what_lies_in_a_dead_mount_is_no_mount_point(source, place):
    mount_dead(source, place)
    done = mount_again(source, place / "v")
    assert done.returncode == 32 and "Transport endpoint is not connected" in done.stderr and done.stderr.count("\n") == 1
    assert mounts_at(place) == 1


def test_other_programs_dead_mounts_stay(source, place):
    if os.geteuid() != 0:
        pytest.skip("mounting by hand needs root")
    place.mkdir()
    fd = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
    assert libc.mount(b"other", os.fsencode(place), b"fuse.other", 0, options) == 0, os.strerror(ctypes.get_errno())
    os.close(fd)
    done = mount_again(source, place)
    assert done.returncode == 32 and "fuse.other" in done.stderr and done.stderr.count("\n") == 1
    assert mounts_at(place) == 1


def test_an_ordinary_user(source, place, tmp_path):
    """His own dead mount, he may take away; that of another, not."""
    if os.geteuid() != 0 or not os.stat(shutil.which("fusermount3")).st_mode & 0o4000 or os.stat("/dev/fuse").st_mode & 6 != 6:
        pytest.skip("needs root, and FUSE that users may use")
    place.mkdir()
    for path in [tmp_path, *tmp_path.parents][:-2]:
        path.chmod(path.stat().st_mode | 0o755)
    for path in [source, *source.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o444)
    os.chown(place, 65534, 65534)
    command = [CODECFS, "-o", "ro", source, place]
    for _ in range(2):
        run(*command, user=65534, group=65534, extra_groups=[])
        kill_daemon_of(source)
    assert mounts_at(place) == 1
    run(*command, user=2, group=2, extra_groups=[], code=32)
    assert mounts_at(place) == 1
