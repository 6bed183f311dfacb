"""Threads, processes, descriptors and memory that run out: an error with a reason, never the end of the daemon or lost data.

Fail points (base/fail_points.h) step through what the daemon creates; prlimit(1) sets the limits of a real daemon.
"""
import contextlib
import errno
import os
import pathlib
import shutil
import sys
import tempfile

import h5py
import numpy as np
import pytest
import zarr

from conftest import CODECFS
from mounts import MountError, Mount, kill_workers, mounted, processes_of
from running import codecfs, run

ARRAY = np.arange(64 * 1000, dtype="<i4").reshape(64, 1000)
USER = 65534  # nobody: fusermount3 wants an entry in the table of users
with_fail_points = pytest.mark.skipif(b"CODECFS_FAIL_POINT" not in pathlib.Path(CODECFS).read_bytes(),
                                      reason="this program was built without tests, and so without fail points")
EXHAUSTED = {errno.ENOMEM, errno.EMFILE, errno.ENFILE}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=ARRAY, chunks=(4, 1000), compression="gzip")
        f.create_dataset("w", data=ARRAY[:8], chunks=(4, 1000), compression="gzip")
    return path


def put(path, number):
    """Overwrites a chunk by a program that looks at all errors."""
    file = os.open(path / f"{number}.0", os.O_WRONLY)
    try:
        os.pwrite(file, np.full((4, 1000), -number, "<i4").tobytes(), 0)
    finally:
        os.close(file)


def until_it_works(action, codes=EXHAUSTED, tries=20):
    """Errors that were seen before the action succeeded."""
    seen = []
    for _ in range(tries):
        try:
            action()
            return seen
        except OSError as error:
            assert error.errno in codes, error
            seen.append(error.errno)
    raise AssertionError(f"it never works: {seen}")


def change(m):
    seen = []
    for number in range(1, 6):
        seen += until_it_works(lambda: put(m.path / "v", number))
    seen += until_it_works(lambda: os.setxattr(m.path / "v", "user._Filter", b"2,4|1,2"))
    seen += until_it_works(lambda: os.unlink(m.path / "v/9.0"))
    seen += until_it_works(lambda: put(m.path / "v", 6))
    return seen


def check(path):
    expected = ARRAY.copy()
    for number in range(1, 7):
        expected[4 * number:4 * number + 4] = -number
    expected[36:40] = 0
    with h5py.File(path, "r") as f:
        assert np.array_equal(f["v"][:], expected)


def mount_or_reason(source, path, fail_point):
    """A mount; or what its daemon says, which ended although the mount was there for a moment."""
    log = path.with_name(path.name + ".log")
    try:
        m = Mount(source, path, "commit=1", env={"CODECFS_FAIL_POINT": fail_point})
    except MountError:
        return log.read_text()
    try:
        until_it_works(m.stats)
        return m
    except (AssertionError, OSError):
        assert m.process.wait(60) == 32
        m.end()
        return log.read_text()


@with_fail_points
@pytest.mark.parametrize("kind", ["thread", "memory"])
def test_each_creation_fails_once(source, tmp_path, kind):
    """What was acknowledged is there, and the daemon ends with 0, whichever of them fails."""
    content = source.read_bytes()
    seen, refused = [], []
    for passed in [*range(0, 24), *range(24, 120, 8)]:
        source.write_bytes(content)
        m = mount_or_reason(source, tmp_path / "mnt", f"{kind}:{passed}:1")
        if isinstance(m, str):
            assert kind == "thread" and "cannot create a thread" in m, m
            refused.append(passed)
            continue
        try:
            seen += change(m)
        finally:
            m.close()
        check(source)
    assert kind == "thread" or seen, "no request met the fail point"
    assert len(refused) < 20, refused


@with_fail_points
def test_no_thread_for_a_long_time(source, tmp_path):
    """Writers fail with the reason, and everything works when threads can be created again."""
    hits = 0
    for passed in range(6, 10):  # those that are made before the mount can be used are made
        with mounted(source, tmp_path / "mnt", env={"CODECFS_FAIL_POINT": f"thread:{passed}:9"}) as m:
            seen = until_it_works(lambda: put(m.path / "w", 1))
            if seen:
                hits += 1
                assert "cannot create a thread" in m.messages()
            shutil.rmtree(m.path / "w")
            os.setxattr(m.path / "v", "user._Filter", b"none")
        with h5py.File(source, "a") as f:
            assert "w" not in f
            f.create_dataset("w", data=ARRAY[:8], chunks=(4, 1000), compression="gzip")
    assert hits, "no write met the fail point"


@with_fail_points
def test_commands_work_in_one_thread(source, tmp_path):
    zarr_copy = tmp_path / "a.zarr"
    zarr.save_group(str(zarr_copy), v=ARRAY, w=ARRAY[:8])
    for command in (["info", source], ["verify", source], ["verify", zarr_copy], ["compare", source, zarr_copy],
                    ["recode", "-F", "*,1,1", "--dry-run", source]):
        usual = codecfs(*command, code=None)
        alone = codecfs(*command, env={"CODECFS_FAIL_POINT": "thread:0"}, code=None)
        assert (alone.returncode, alone.stdout) == (usual.returncode, usual.stdout), (command, alone.stderr)
    for target in ("copy.zarr", "copy.h5"):
        codecfs("convert", source, tmp_path / target, env={"CODECFS_FAIL_POINT": "thread:0"})
    assert np.array_equal(zarr.open(str(tmp_path / "copy.zarr"), "r")["v"][:], ARRAY)
    with h5py.File(tmp_path / "copy.h5", "r") as f:
        assert np.array_equal(f["v"][:], ARRAY)


@with_fail_points
@pytest.mark.parametrize("kind, reason", [("process", "cannot start a process"), ("descriptor", "Too many open files")])
def test_a_command_tells_what_ran_out(source, kind, reason):
    done = codecfs("verify", source, env={"CODECFS_FAIL_POINT": f"{kind}:0"}, code=None)
    assert done.returncode > 0 and reason in done.stderr and "killed" not in done.stderr and "damaged" not in done.stderr, done.stderr


@with_fail_points
def test_a_worker_that_cannot_be_replaced(source, tmp_path):
    """Its process was killed, and there can be no other for some time: an error, not damage, and then it works."""
    with mounted(source, tmp_path / "mnt", env={"CODECFS_FAIL_POINT": "process:1:3"}) as m:
        kill_workers(m.path)
        seen = until_it_works(lambda: (m.path / "w/1.0").read_bytes())
        assert seen and set(seen) == {errno.ENOMEM}
        assert "limit of processes" in m.messages() and "damaged" not in m.messages()
        assert (m.path / "w/1.0").read_bytes() == ARRAY[4:8].tobytes()


def limit(pids, name, soft=""):
    """The soft limit; by default the hard one. By the user, as root needs a capability for others' processes."""
    for pid in pids:
        row = {"nproc": "Max processes", "nofile": "Max open files"}[name]
        line = next(line for line in pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines() if line.startswith(row))
        run(*AS_USER, "prlimit", f"--pid={pid}", f"--{name}={soft or line[len(row):].split()[1]}:")


@pytest.fixture
def own(source):
    """A source of an ordinary user, who is subject to limits of processes, and a place for its mount."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-exhaustion-", dir="/tmp"))
    made.chmod(0o755)
    path = made / "a.h5"
    shutil.copyfile(source, path)
    os.mkdir(made / "mnt")
    for name in (made, path, made / "mnt"):
        os.chown(name, USER, USER)
    yield path
    shutil.rmtree(made, ignore_errors=True)


def threads_of(pids):
    return sum(len(list(pathlib.Path(f"/proc/{pid}/task").iterdir())) for pid in pids)


PROGRAM = """import os, sys
try:
    if len(sys.argv) == 2:
        sys.stdout.buffer.write(open(sys.argv[1], "rb").read())
    else:
        file = os.open(sys.argv[1], os.O_WRONLY)
        os.write(file, int(sys.argv[2]).to_bytes(4, "little", signed=True) * 4000)
        os.close(file)
except OSError as error:
    sys.exit(error.errno)
"""
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]


def by_user(*arguments):
    """The errno of a program of the user, the only one who can reach the mount; and what it read."""
    done = run(*AS_USER, sys.executable, "-c", PROGRAM, *arguments, code=None, text=False)
    return done.returncode, done.stdout


def test_limits_of_an_ordinary_user(own):
    """Of processes and threads, then of descriptors, set when the mount is there."""
    try:
        m = Mount(own, own.parent / "mnt", "threads=2", program=[*AS_USER, CODECFS])
    except MountError as error:
        pytest.skip(f"an ordinary user cannot mount here: {error}")
    v = m.path / "v"
    with contextlib.closing(m):
        assert by_user(v / "1.0") == (0, ARRAY[4:8].tobytes())
        pids = list(processes_of(m.process.pid))
        limit(pids, "nproc", threads_of(pids))
        assert by_user(v / "1.0", -1)[0] == errno.ENOMEM
        assert "cannot create a thread" in m.log.read_text()
        kill_workers(m.path)
        limit(processes_of(m.process.pid), "nproc", 1)
        assert by_user(v / "9.0")[0] == errno.ENOMEM
        limit(processes_of(m.process.pid), "nproc")
        assert by_user(v / "9.0") == (0, ARRAY[36:40].tobytes())
        assert by_user(v / "1.0", -1)[0] == 0
        descriptors = len(os.listdir(f"/proc/{m.process.pid}/fd"))
        limit([m.process.pid], "nofile", descriptors)
        kill_workers(m.path)
        assert by_user(v / "10.0")[0] in {0, *EXHAUSTED}  # 0: where the chunk is may be known
        limit([m.process.pid], "nofile")
        for number in (2, 3):
            assert by_user(v / f"{number}.0", -number)[0] == 0
        text = m.log.read_text()
        assert "killed 1" not in text and "damaged" not in text
    expected = ARRAY.copy()
    for number in (1, 2, 3):
        expected[4 * number:4 * number + 4] = -number
    with h5py.File(own, "r") as f:
        assert np.array_equal(f["v"][:], expected)
