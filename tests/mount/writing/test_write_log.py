"""The write-ahead log of an HDF5 source that is copied, moved, renamed or mounted from another device after a real kill,
and on disks without room. What was synced is judged by h5py."""
import contextlib
import errno
import itertools
import os
import pathlib
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

from conftest import CODECFS, detach, mounted, wait_until
from running import codecfs, run

MARK = "user.codecfs.log"
ARRAY = np.arange(4000, dtype="<i4").reshape(40, 100)


def refused(*command):
    """The message, of one line, with which codecfs refuses this."""
    done = codecfs(*command, code=32)
    assert done.stderr.count("\n") == 1, done
    return done.stderr


def log_of(source):
    return source.parent / f".{source.name}.codecfs-wal"


def values(path, name="v"):
    with h5py.File(path, "r") as f:
        return f[name][()]


def write_synced(path, data):
    fd = os.open(path, os.O_WRONLY)
    try:
        assert os.write(fd, data) == len(data)
        os.fsync(fd)
    finally:
        os.close(fd)


def has_mark(path):
    return MARK in os.listxattr(path)


def make(path):
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=ARRAY, chunks=(10, 50), compression="gzip", shuffle=True)
    return path


def kill_after_writing(source, point, start=1000):
    """Mounts, syncs four chunks, kills the daemon; gives what the dataset must hold."""
    expected = values(source)
    with mounted(source, point, "commit=3600") as m:
        for i in range(4):
            part = (ARRAY + start)[10 * i:10 * i + 10, 50:]
            write_synced(m.path / f"v/{i}.1", part.tobytes())
            expected[10 * i:10 * i + 10, 50:] = part
        m.kill()
    assert log_of(source).exists()
    return expected


def check_whole(source, expected, point):
    """A mount that only reads, one that writes, and h5py afterwards see what was synced; nothing is left behind."""
    assert "pending" in codecfs("--check", source).stdout
    with mounted(source, point, "ro") as m:
        assert np.array_equal(np.frombuffer((m.path / "v/2.1").read_bytes(), "<i4"), expected[20:30, 50:].ravel())
    with mounted(source, point) as m:
        assert np.array_equal(np.frombuffer((m.path / "v/2.1").read_bytes(), "<i4"), expected[20:30, 50:].ravel())
        write_synced(m.path / "v/0.0", bytes(2000))
    expected[:10, :50] = 0
    assert np.array_equal(values(source), expected)
    assert not has_mark(source)
    assert not [name for name in os.listdir(source.parent) if name.endswith(".codecfs-wal")]


def recover_whole(source, expected):
    codecfs("--recover", source)
    assert np.array_equal(values(source), expected)
    assert not has_mark(source)
    assert not [name for name in os.listdir(source.parent) if name.endswith(".codecfs-wal")]


@pytest.fixture
def source(tmp_path):
    return make(tmp_path / "source" / "a.h5")


# --- another device, another inode


def has_users(directory):
    """Whether a process has a file below it open, or is in it."""
    for link in itertools.chain(pathlib.Path("/proc").glob("[0-9]*/fd/*"), pathlib.Path("/proc").glob("[0-9]*/cwd")):
        with contextlib.suppress(OSError):
            if os.readlink(link).startswith(f"{directory}/"):
                return True
    return False


def test_another_device_number(image, tmp_path):
    """As after a reboot that finds the disks in another order."""
    disk = image.make("32m").mount()
    expected = kill_after_writing(make(disk / "a.h5"), tmp_path / "mnt")
    before = os.stat(disk / "a.h5").st_dev
    wait_until(lambda: not has_users(disk))  # the processes of a killed daemon end a moment after it
    image.unmount(keep_device=True)  # so that the next one is another
    image.mount()
    assert os.stat(disk / "a.h5").st_dev != before
    check_whole(disk / "a.h5", expected, tmp_path / "mnt")


@pytest.mark.parametrize("program", ["cp", "tar", "tar --xattrs", "tar --format=ustar"])
def test_copied_with_its_log(source, tmp_path, program):
    """The copy has other inodes, of some programs no extended attributes, and of the oldest whole seconds as times."""
    expected = kill_after_writing(source, tmp_path / "mnt")
    copy = tmp_path / "copy"
    if program == "cp":
        run("cp", "-a", source.parent, copy)
    else:
        copy.mkdir()
        tar = program.split()
        run(*tar, "-cf", tmp_path / "a.tar", "-C", source.parent, ".")
        run(*tar, "-xf", tmp_path / "a.tar", "-C", copy)
    shutil.rmtree(source.parent)
    check_whole(copy / "a.h5", expected, tmp_path / "mnt")


def test_copy_without_times_is_refused_with_advice(source, tmp_path):
    """The bytes fit but the time does not: the message tells how to bring the log in all the same."""
    expected = kill_after_writing(source, tmp_path / "mnt")
    copy = tmp_path / "copy" / "a.h5"
    copy.parent.mkdir()
    shutil.copyfile(source, copy)
    shutil.copyfile(log_of(source), log_of(copy))
    message = refused("--recover", copy)
    advice = message[message.index("touch -d"):].split(";")[0].split(",")[0]
    assert "touch -d @" in advice
    run("sh", "-c", advice)
    recover_whole(copy, expected)
    recover_whole(source, expected)  # which the copy did not concern


@pytest.mark.parametrize("fate", ["copied", "moved", "link"])
def test_killed_inside_a_checkpoint(tmp_path, fate):
    """The file is half written, and is completed wherever it and its log are then."""
    source = tmp_path / "source" / "a.h5"
    source.parent.mkdir()
    shape, chunks = (32, 1 << 18), (1, 1 << 18)
    with h5py.File(source, "w") as f:
        f.create_dataset("v", data=np.arange(1 << 23, dtype="<i4").reshape(shape), chunks=chunks)
    if fate == "link":
        os.link(source, tmp_path / "link.h5")
    with mounted(source, tmp_path / "mnt", "commit=3600") as m:
        for i in range(32):
            (m.path / f"v/{i}.0").write_bytes(np.full(1 << 18, -i, "<i4").tobytes())
        directory = os.open(m.path / "v", os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        m.kill()
    codecfs("--check", source)
    for _ in range(20):
        is_kept = tmp_path / "kept"
        run("cp", "-a", source.parent, is_kept)
        before = os.stat(source).st_mtime_ns
        process = subprocess.Popen([CODECFS, "--recover", source])
        while process.poll() is None and os.stat(source).st_mtime_ns == before:
            pass
        process.kill()
        process.wait(60)
        if log_of(source).exists() and log_of(source).read_bytes()[12] == 1:  # begun, and not finished
            break
        if fate != "link":
            shutil.rmtree(source.parent)
            is_kept.rename(source.parent)
        else:
            pytest.skip("the recovery was too quick to be killed inside of it")
    else:
        pytest.skip("the recovery was too quick to be killed inside of it")
    new = source
    if fate == "copied":
        run("cp", "-a", source.parent, tmp_path / "copy")
        shutil.rmtree(source.parent)
        new = tmp_path / "copy" / "a.h5"
    elif fate == "moved":
        new = tmp_path / "b.h5"
        source.rename(new)
    else:
        new = tmp_path / "link.h5"
    codecfs("--recover", new)
    with h5py.File(new) as f:
        assert all((f["v"][i] == -i).all() for i in range(32))
    assert not has_mark(new)


# --- another name


@pytest.mark.parametrize("log_goes", ["stays", "along", "elsewhere"])
def test_moved_after_a_kill(source, tmp_path, log_goes):
    expected = kill_after_writing(source, tmp_path / "mnt")
    other = tmp_path / "other"
    other.mkdir()
    if log_goes == "stays":  # in the same directory
        new = source.with_name("b.h5")
        source.rename(new)
    elif log_goes == "along":  # under its old name
        new = other / "b.h5"
        source.rename(new)
        log_of(source).rename(other / log_of(source).name)
    else:
        new = other / "b.h5"
        source.rename(new)
    check_whole(new, expected, tmp_path / "mnt")
    assert not log_of(source).exists()


def test_moved_before_the_daemon_dies(source, tmp_path):
    """The process that survives the daemon finds the log under the old name."""
    with mounted(source, tmp_path / "mnt", "commit=3600") as m:
        write_synced(m.path / "v/1.1", b"\x01" * 2000)
        new = source.rename(source.with_name("b.h5"))
        m.kill_daemon()
    assert values(new)[10:20, 50:].tobytes() == b"\x01" * 2000
    assert os.listdir(source.parent) == ["b.h5"] and not has_mark(new)


def test_moved_after_a_kill_and_recovered(source, tmp_path):
    expected = kill_after_writing(source, tmp_path / "mnt")
    new = source.with_name("b.h5")
    source.rename(new)
    make(source)  # another file has the name now, and the log is not its own
    assert "another file" in refused("--check", source) or "touch" in refused("--check", source)
    recover_whole(new, expected)
    assert "no changes" in codecfs("--check", source).stdout
    assert np.array_equal(values(source), ARRAY)


def test_moved_without_its_mark(source, tmp_path):
    """As by tar, or where the filesystem has no extended attributes: the directory is searched."""
    expected = kill_after_writing(source, tmp_path / "mnt")
    os.removexattr(source, MARK)
    new = source.with_name("b.h5")
    source.rename(new)
    check_whole(new, expected, tmp_path / "mnt")


def test_hard_link(source, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    os.link(source, other / "b.h5")
    expected = kill_after_writing(source, tmp_path / "mnt")
    check_whole(other / "b.h5", expected, tmp_path / "mnt")
    assert not log_of(source).exists() and not has_mark(source)
    expected = kill_after_writing(other / "b.h5", tmp_path / "mnt", 5000)
    recover_whole(source, expected)


def test_copy_of_a_mounted_file(source, tmp_path):
    """It has the mark and not the log: read with a warning, refused for writing, until the mark is removed."""
    copy = tmp_path / "copy.h5"
    with mounted(source, tmp_path / "mnt", "commit=3600") as m:
        write_synced(m.path / "v/1.1", b"\x01" * 2000)
        run("cp", "-a", source, copy)
        assert has_mark(copy)
        for command in "--check", "--recover":
            message = refused(command, copy)
            assert f"setfattr -x {MARK}" in message and str(log_of(source)) in message
        with mounted(copy, tmp_path / "mnt2") as c:
            assert (c.path / "v/1.1").read_bytes() == ARRAY[10:20, 50:].tobytes()
            assert "setfattr -x" in c.messages()
            with pytest.raises(OSError) as failure:
                write_synced(c.path / "v/1.1", bytes(2000))
            assert failure.value.errno == errno.EROFS
        run("setfattr", "-x", MARK, copy)
        with mounted(copy, tmp_path / "mnt2") as c:
            write_synced(c.path / "v/1.1", b"\x02" * 2000)
        assert values(copy)[10:20, 50:].tobytes() == b"\x02" * 2000
    assert values(source)[10:20, 50:].tobytes() == b"\x01" * 2000


def test_log_that_is_gone(source, tmp_path):
    kill_after_writing(source, tmp_path / "mnt")
    log_of(source).unlink()
    assert "setfattr -x" in refused("--check", source)
    assert "setfattr -x" in refused("--recover", source)
    assert "setfattr -x" in refused("--compact", source)
    run("setfattr", "-x", MARK, source)
    assert "no changes" in codecfs("--check", source).stdout
    assert np.array_equal(values(source), ARRAY)


def test_mark_is_not_shown(source, tmp_path):
    with mounted(source, tmp_path / "mnt", "commit=3600") as m:
        write_synced(m.path / "v/1.1", bytes(2000))
        assert has_mark(source)
        for path in m.path, m.path / "v", m.path / "v/1.1":
            assert not any("codecfs.log" in name for name in os.listxattr(path))
    assert not has_mark(source)


@pytest.mark.parametrize("name", ["n" * 252 + ".h5", "\u00e4" * 125 + ".h5", "n" * 239 + ".h5"])
def test_long_names(tmp_path, name):
    source = make(tmp_path / "source" / name)
    with mounted(source, tmp_path / "mnt", "commit=3600") as m:
        write_synced(m.path / "v/1.1", b"\x01" * 2000)
        m.kill()
    logs = [entry for entry in os.listdir(source.parent) if entry.endswith(".codecfs-wal")]
    assert len(logs) == 1
    assert "1 committed" in codecfs("--check", source).stdout
    new = source.with_name("short.h5")
    source.rename(new)
    codecfs("--recover", new)
    assert values(new)[10:20, 50:].tobytes() == b"\x01" * 2000
    assert os.listdir(source.parent) == ["short.h5"]


# --- no room


def fill(m, rows):
    """Writes noise, row by row, with an fsync each; the rows that were acknowledged and the errors."""
    done, errors = {}, []
    for i in rows:
        row = np.random.default_rng(i).integers(0, 2**31, 1 << 16, dtype="<i4")
        try:
            write_synced(m.path / f"v/{i}.0", row.tobytes())
            done[i] = row
        except OSError as error:
            errors.append(error.errno)
    return done, errors


def check_rows(path, done):
    with h5py.File(path, "r") as f:
        for i, row in done.items():
            assert np.array_equal(f["v"][i], row), i


def grown_source(path):
    with h5py.File(path, "w") as f:
        f.create_dataset("v", shape=(256, 1 << 16), dtype="<i4", chunks=(1, 1 << 16), compression="gzip", fillvalue=0)
    return path


def test_log_of_a_small_file_stays_short(tmp_path):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as f:
        f.create_dataset("v", data=np.zeros((4, 1 << 18), "i4"), chunks=(1, 1 << 18))
    most = 0
    with mounted(source, tmp_path / "mnt", "commit=3600") as m:
        for i in range(60):
            write_synced(m.path / f"v/{i % 4}.0", np.full(1 << 18, i, "i4").tobytes())
            most = max(most, log_of(source).stat().st_blocks * 512)
    assert (4 << 20) < most < (24 << 20)  # a checkpoint at 16 MiB, and the room that the log reserves
    assert values(source)[:, 7].tolist() == [56, 57, 58, 59]


@pytest.mark.parametrize("ends", ["unmounted", "killed"])
def test_small_disk(image, tmp_path, ends):
    """The writer gets ENOSPC; the file is complete, opens, and has all that was acknowledged."""
    disk = image.make("24m").mount()
    path = grown_source(disk / "a.h5")
    with mounted(path, tmp_path / "mnt", "commit=3600") as m:
        done, errors = fill(m, range(90))
        assert set(errors) == {errno.ENOSPC}
        assert sum(row.nbytes for row in done.values()) > 14 << 20, "the log took too much of the disk"
        unlocked = {**os.environ, "HDF5_USE_FILE_LOCKING": "FALSE"}
        run("h5dump", "-d", "/v", "-c", "1,1", path, env=unlocked)  # as of the last checkpoint
        if ends == "killed":
            m.kill()
        else:
            m.process.terminate()
            m.process.wait(60)
            m.ended = True
    codecfs("--recover", path)
    check_rows(path, done)
    run("h5dump", "-H", path)
    assert os.listdir(disk).count("a.h5") == 1 and not log_of(path).exists()


def test_limit_on_file_sizes(tmp_path):
    """RLIMIT_FSIZE is an error of the write, and not the end of the daemon."""
    path = grown_source(tmp_path / "a.h5")
    limit = (8 << 20) + 1234
    program = [sys.executable, "-c", f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit},) * 2);"
               "os.execv(sys.argv[1], sys.argv[1:])"]
    point, log = tmp_path / "mnt", tmp_path / "log"
    point.mkdir()
    run(*program, CODECFS, "-o", f"commit=3600,log={log}", path, point)
    try:
        class Point:
            pass
        Point.path = point
        done, errors = fill(Point, range(64))
        assert set(errors) == {errno.EFBIG} and sum(row.nbytes for row in done.values()) > 6 << 20
        check_rows_shown(point, done)
    finally:
        codecfs("-u", point, code=None)
        detach(point)
    for _ in range(600):
        if codecfs("--recover", path, code=None).returncode == 0:
            break
    codecfs("--recover", path)
    check_rows(path, done)


def check_rows_shown(point, done):
    for i, row in done.items():
        assert (point / f"v/{i}.0").read_bytes() == row.tobytes()
