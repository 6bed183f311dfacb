"""Sources that are deleted or replaced while they are mounted: mv to another filesystem copies a file and deletes it.
What was written is then in the log alone. h5py judges what is left."""
import os
import pathlib
import shutil
import signal

import h5py
import numpy as np
import pytest

from conftest import detach, is_mounted, wait_until
from mounts import signal_all
from running import codecfs, run

OLD = np.arange(4000, dtype="<i4")
NEW = np.full(1000, 7, "<i4")
EXPECTED = np.concatenate([OLD[:2000], NEW, OLD[3000:]])


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "here" / "a.h5"
    path.parent.mkdir()
    with h5py.File(path, "w", userblock_size=512) as f:
        f.create_dataset("t", data=OLD, chunks=(1000,), compression="gzip", shuffle=True)
        f.create_dataset("large", shape=(40 << 20,), dtype="u1", chunks=(1 << 20,))
    path.chmod(0o640)
    return path


@pytest.fixture
def changed(source, place):
    """A mount of the source with a change that fsync has acknowledged."""
    codecfs("-o", "mkdir,commit=3600", source, place)
    write_synced(place / "t/2", NEW.tobytes())
    yield place
    detach(place)


def write_synced(path, data):
    with open(path, "r+b") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())


def move_away(source):
    """As mv does to another filesystem: a copy with times and attributes, then the removal."""
    there = source.parent.parent / "there.h5"
    run("cp", "-a", source, there)
    source.unlink()
    return there


def files_in(source):
    return sorted(os.listdir(source.parent))


def values(path):
    with h5py.File(path, "r") as f:
        return f["t"][()]


def end(place, how):
    """Ends the mount although not all is stored, and waits until the daemon has ended."""
    daemon = daemon_of(place)
    if how == "lazy":
        detach(place)
    else:
        signal_all(daemon, signal.SIGTERM)
    wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in daemon))


def daemon_of(place):
    return [int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and runs(p, str(place))]


def kill(place):
    signal_all(daemon_of(place))
    detach(place)


def runs(process, word):
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        return os.fsencode(word) in words and b"codecfs" in words[0]
    except OSError:
        return False


@pytest.mark.parametrize("how", ["lazy", "signal"])
def test_a_moved_file_keeps_the_mount_and_its_content_is_rescued(changed, source, how):
    move_away(source)
    for _ in range(2):
        done = codecfs("unmount", changed, code=32)
        assert is_mounted(changed), done
        assert "was deleted" in done.stderr and "a.h5.codecfs-rescued" in done.stderr, done.stderr
        assert f"rm '{source.parent}/.a.h5.codecfs-wal'" in done.stderr
    (changed / "t/0").write_bytes(NEW.tobytes())  # closed, but not synced
    end(changed, how)
    assert files_in(source) == ["a.h5.codecfs-rescued"]
    rescued = source.parent / "a.h5.codecfs-rescued"
    assert (values(rescued) == np.concatenate([NEW, EXPECTED[1000:]])).all()
    assert rescued.stat().st_mode & 0o777 == 0o640


def test_no_file_is_overwritten(changed, source):
    for name in ("a.h5.codecfs-rescued", "a.h5.codecfs-rescued-1"):
        (source.parent / name).write_text(name)
    move_away(source)
    end(changed, "lazy")
    for name in ("a.h5.codecfs-rescued", "a.h5.codecfs-rescued-1"):
        assert (source.parent / name).read_text() == name
    assert (values(source.parent / "a.h5.codecfs-rescued-2") == EXPECTED).all()
    assert not (source.parent / ".a.h5.codecfs-wal").exists()


def test_the_log_stays_if_the_content_cannot_be_written(changed, source):
    there = move_away(source)
    for number in range(100):
        (source.parent / f"a.h5.codecfs-rescued{'-' + str(number) if number else ''}").mkdir()
    end(changed, "signal")
    assert (source.parent / ".a.h5.codecfs-wal").exists()
    codecfs("recover", there)
    assert (values(there) == EXPECTED).all()


def test_the_log_and_the_moved_file_are_enough(changed, source):
    there = move_away(source)
    busy = codecfs("recover", there, code=32)
    assert "is being written" in busy.stderr
    kill(changed)
    wait_until(lambda: codecfs("recover", there, code=None).returncode == 0)
    assert (values(there) == EXPECTED).all()
    assert files_in(source) == []


def test_a_removed_log_discards_the_changes(changed, source):
    source.unlink()
    codecfs("unmount", changed, code=32)
    (source.parent / ".a.h5.codecfs-wal").unlink()
    codecfs("unmount", changed)
    assert files_in(source) == []


def test_a_file_that_is_renamed_over_it(changed, source):
    with h5py.File(source.parent / "new.h5", "w") as f:
        f["t"] = OLD
    os.rename(source.parent / "new.h5", source)
    codecfs("unmount", changed, code=32)
    end(changed, "lazy")
    assert (values(source) == OLD).all()
    assert (values(source.parent / "a.h5.codecfs-rescued") == EXPECTED).all()
    assert files_in(source) == ["a.h5", "a.h5.codecfs-rescued"]


def test_a_directory_that_is_moved_with_the_log(changed, source):
    there = source.parent.parent / "there"
    run("cp", "-a", source.parent, there)
    shutil.rmtree(source.parent)
    done = codecfs("unmount", changed, code=32)
    assert "with the directory" in done.stderr, done.stderr
    end(changed, "lazy")
    codecfs("recover", there / "a.h5")
    assert (values(there / "a.h5") == EXPECTED).all()


@pytest.mark.parametrize("how", ["lazy", "kill"])
def test_a_copy_that_was_made_before_a_checkpoint(changed, source, how):
    """The copy has the mark and the old bytes, and the log, which a checkpoint has emptied, has no commit for it."""
    there = source.parent.parent / "there.h5"
    run("cp", "-a", source, there)
    log = source.parent / ".a.h5.codecfs-wal"
    for i in range(32):
        (changed / f"large/{i}").write_bytes(os.urandom(1 << 20))
    before = source.stat().st_mtime_ns
    for i in range(32, 40):  # a log of more than the file makes a checkpoint
        (changed / f"large/{i}").write_bytes(os.urandom(1 << 20))
        with open(changed / f"large/{i}", "rb") as f:
            os.fsync(f.fileno())
        if source.stat().st_mtime_ns != before:
            break
    assert source.stat().st_mtime_ns != before and log.stat().st_size < 4 << 20
    expected_large = b"".join((changed / f"large/{i}").read_bytes() for i in range(40))
    source.unlink()
    codecfs("unmount", changed, code=32)  # the log is empty, but the copy lacks what it had
    if how == "kill":
        kill(changed)
        wait_until(lambda: "is being written" not in codecfs("check", there, code=None).stderr)
    else:
        end(changed, how)
        rescued = source.parent / "a.h5.codecfs-rescued"
        assert (values(rescued) == EXPECTED).all()
        with h5py.File(rescued, "r") as f:
            assert f["large"][()].tobytes() == expected_large
    for command in ("check", "recover"):
        done = codecfs(command, there, code=32)
        assert how == "kill" or str(source.parent / "a.h5.codecfs-rescued") in done.stderr
    assert (values(there) == OLD).all()  # unchanged


def test_a_dataset_of_a_folder(source, place):
    folder = source.parent
    codecfs("-o", "mkdir,commit=3600", folder, place)
    try:
        write_synced(place / "a.h5/t/2", NEW.tobytes())
        move_away(source)
        done = codecfs("unmount", place, code=32)
        assert "a.h5.codecfs-rescued" in done.stderr, done.stderr
        assert (values(folder / "a.h5.codecfs-rescued") == EXPECTED).all()
        assert files_in(source) == ["a.h5.codecfs-rescued"]
        codecfs("unmount", place)
    finally:
        detach(place)
