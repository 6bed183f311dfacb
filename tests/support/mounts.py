"""Mounts of codecfs for all test programs and the benchmark: mounting, unmounting, killing, the daemon's processes, and cleaning up.

`Mount` and `mounted()` run the daemon in the foreground, as a child in a session of its own, so that `processes_of()` finds
its helper processes. pytest fixtures on top of them are in tests/mount/conftest.py.
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import time
from running import run

MOUNT_SECONDS = 60  # for a mount to appear
END_SECONDS = 30  # for the daemon to end after its unmount
KILL_SECONDS = 120  # for a killed daemon to be gone, which may have to wait for the disk


class MountError(RuntimeError):
    """A mount did not appear, or its daemon did not end with 0. `mount` is the Mount."""

    def __init__(self, mount, text):
        super().__init__(f"{text}: {mount.log.read_text(errors='replace')[-4000:]}")
        self.mount = mount


# --- the kernel's mount table, which answers where a stat would hang on a dead daemon


def mount_points():
    """All mount points, the latest mount last. A path appears once for each mount on it."""
    escapes = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}
    with open("/proc/self/mountinfo") as table:
        points = [line.split()[4] for line in table]
    for escape, character in escapes.items():
        points = [point.replace(escape, character) for point in points]
    return points


def is_mounted(path):
    return str(path) in mount_points()


def detach(path):
    """Takes every mount on `path` away, also while it is in use or dead."""
    for command in (["fusermount3", "-uz", path], ["umount", "-l", path]):
        while is_mounted(path):
            if run(*command, code=None).returncode != 0:
                break
    if is_mounted(path):
        raise RuntimeError(f"{path} cannot be unmounted")


def detach_below(directory):
    for point in reversed(mount_points()):
        if point.startswith(f"{directory}/"):
            detach(point)


def unmount(path):
    """Unmounts; detaches a mount that stays in use for seconds."""
    for command in (["fusermount3", "-u", path], ["umount", path]):
        for _ in range(20):
            if not is_mounted(path):
                return
            if run(*command, code=None).returncode == 0:
                return
            time.sleep(0.1)
    detach(path)


# --- processes


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition is not met after {seconds} s"
        time.sleep(0.001)


def is_gone(pid):
    """A zombie is gone too: containers may lack an init process that reaps orphans. One with other threads still has its
    files and locks, as long as one of these waits for the disk."""
    try:
        is_zombie = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return is_zombie and len(os.listdir(f"/proc/{pid}/task")) <= 1
    except (FileNotFoundError, ProcessLookupError):
        return True


def signal_all(pids, number=signal.SIGKILL):
    """One that has ended since it was listed, perhaps because another one was killed, is left out."""
    for pid in list(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def processes_of(session):
    """The processes of a session: the daemon and its helpers."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            yield int(entry)


WORKERS = ("codecfs-hdf5", "codecfs-super", "codecfs-codec")  # names of processes


def workers_of(mountpoint, names=WORKERS):
    """The processes of a mount beside the daemon that run libhdf5 and plugins, and that start these: {pid: name}."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name = (process / "comm").read_text().strip()
            state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
            if name in names and state != "Z" and os.fsencode(mountpoint) in (process / "cmdline").read_bytes():
                found[int(process.name)] = name
        except OSError:
            continue
    return found


def kill_workers(mountpoint, names=("codecfs-hdf5",)):
    """All at once, before one of them can replace another, and waits until they are gone."""
    pids = workers_of(mountpoint, names)
    signal_all(pids, signal.SIGSTOP)
    signal_all(pids)
    wait_until(lambda: all(map(is_gone, pids)))


def memory_of(pid, name="VmHWM"):
    """Bytes of memory that a process held at most (VmHWM) or holds now (VmRSS); 0 when it is gone."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) << 10
    return 0


def children_of_process(pid):
    return [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()]


def descendants_of_process(pid):
    try:
        children = children_of_process(pid)
    except (FileNotFoundError, ProcessLookupError):
        return []
    return children + [below for child in children for below in descendants_of_process(child)]


def survivors_of_process(pid):
    """The child that completes what was committed when the daemon with this process id dies."""
    return [child for child in children_of_process(pid) if not is_gone(child)
            and pathlib.Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"codecfs-watchdog\0")]


def is_stopped(task):
    """`task`: the directory of a thread in /proc."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] in "TZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def kill_with_survivors(pid):
    """SIGKILL to a daemon and its survivor at once, as a power cut ends them: the log stays."""
    os.kill(pid, signal.SIGSTOP)  # a running daemon would start another survivor
    wait_until(lambda: all(map(is_stopped, pathlib.Path(f"/proc/{pid}/task").iterdir())))
    descendants = descendants_of_process(pid)
    # All children: one that was just forked does not have its name yet.
    signal_all(children_of_process(pid))
    signal_all([pid])
    # The process of libhdf5 ends by itself, and has the lock of the file until then; it may have to wait for the disk.
    wait_until(lambda: all(map(is_gone, descendants)))


# --- a mount


def wanted_transport(options):
    """The option for $CODECFS_TEST_TRANSPORT, which selects how chunks reach readers in all mounts of a run of the tests: push,
    read, or passthrough, for the mounts that can have it. Without it, they have the default."""
    transport = os.environ.get("CODECFS_TEST_TRANSPORT")
    words = ",".join(options).split(",")
    if not transport or any(word.startswith("transport=") for word in words):
        return []
    if transport == "passthrough" and ("ro" not in words or "coherent" in words):
        return []
    return [f"transport={transport}"]


class Mount:
    """A mount of `source` at `path`. `process` is the daemon, `log` the file with its messages.

    `program` is the codecfs binary (default: $CODECFS), or the words of a command that executes it. `log` is a file to append
    to; by default it is a new file beside the mount point.
    """

    def __init__(self, source, path, *options, rules=(), env=None, program=None, log=None, seconds=MOUNT_SECONDS):
        self.path = pathlib.Path(path)
        with contextlib.suppress(FileExistsError):
            self.path.mkdir()
        self.ended = False
        program = program or os.environ["CODECFS"]
        command = list(program) if isinstance(program, (list, tuple)) else [program]
        command += ["-f"] + [word for rule in rules for word in ("-F", rule)]
        options = [*options, *wanted_transport(options)]
        if options:
            command += ["-o", ",".join(options)]
        self.log = pathlib.Path(log) if log else self.path.with_name(self.path.name + ".log")
        is_stale = is_mounted(self.path)
        with open(self.log, "a" if log else "w") as file:
            self.process = subprocess.Popen([str(word) for word in (*command, source, self.path)], stdout=file, stderr=file,
                                            env={**os.environ, **(env or {})}, start_new_session=True)
        deadline = time.monotonic() + seconds
        # The daemon takes a dead mount away before it mounts. The mount table is asked last: after an answer of the
        # directory below, a mount in the table is the new one.
        while not ((not is_stale or self.answers()) and is_mounted(self.path)):
            if self.process.poll() is not None:
                raise MountError(self, f"codecfs ended with {self.process.returncode}")
            if time.monotonic() > deadline:
                self.end()
                raise MountError(self, f"not mounted after {seconds} s")
            time.sleep(0.0005)

    def answers(self):
        try:
            os.statvfs(self.path)
        except OSError:
            return False
        return True

    def stats(self):
        lines = (self.path / ".codecfs/stats").read_text().splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines)}

    def messages(self):
        return (self.path / ".codecfs/log").read_text()

    def resident_peak(self):
        """Bytes of memory that the daemon held at most."""
        peak = memory_of(self.process.pid)
        if peak == 0:
            raise MountError(self, "the daemon is gone")
        return peak

    def processor_seconds(self):
        """Of the daemon, without its workers."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def survivors(self):
        return survivors_of_process(self.process.pid)

    # The ways to end. close() and unmount() require that the daemon ends with 0.

    def close(self, seconds=END_SECONDS):
        """Unmounts, and waits until the daemon has stored everything. Does nothing when the mount has ended."""
        if self.ended:
            return
        self.ended = True
        unmount(self.path)
        self.wait(seconds)

    def unmount(self, seconds=END_SECONDS):
        """As close(), but a mount that is in use is an error."""
        run("fusermount3", "-u", self.path, seconds=600)  # dirty data is stored meanwhile
        self.ended = True
        self.wait(seconds)

    def wait(self, seconds=END_SECONDS):
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(KILL_SECONDS)
            raise MountError(self, f"the daemon did not end within {seconds} s of the unmount") from None
        if code != 0:
            raise MountError(self, f"the daemon ended with {code}")

    def kill(self):
        """SIGKILL to the daemon and its survivor at once, so that the write-ahead log stays; detaches the dead mount."""
        kill_with_survivors(self.process.pid)
        self.process.wait(KILL_SECONDS)
        self.ended = True
        detach(self.path)
        self.wait_for_helpers()  # a worker that has not noticed yet still has the lock on the source

    def kill_daemon(self, stopped=()):
        """SIGKILL to the daemon alone. Returns when its survivor has finished, and the process of libhdf5 has ended, which has
        the lock of the file until then. `stopped`: processes that are stopped, and not waited for."""
        descendants = set(descendants_of_process(self.process.pid)) - set(stopped)
        self.process.kill()
        self.process.wait(KILL_SECONDS)
        self.ended = True
        detach(self.path)
        wait_until(lambda: all(map(is_gone, descendants)))

    def wait_for_helpers(self, seconds=END_SECONDS):
        """Returns when no process of the daemon is left."""
        deadline = time.monotonic() + seconds
        while any(True for _ in processes_of(self.process.pid)):
            if time.monotonic() > deadline:
                raise MountError(self, "a helper process outlives the daemon")
            time.sleep(0.005)

    def end(self):
        """Kills the daemon and detaches the mount, whatever state they are in: for cleaning up after a failure."""
        self.ended = True
        if self.process.poll() is None:
            self.process.kill()
        detach(self.path)
        self.process.wait(KILL_SECONDS)


@contextlib.contextmanager
def mounted(source, path, *options, **more):
    """A Mount that is closed afterwards; prints the daemon's log after a failure."""
    mount = Mount(source, path, *options, **more)
    try:
        yield mount
    except BaseException:
        print(f"--- log of the daemon ({source}) ---\n{mount.log.read_text(errors='replace')[-4000:]}")
        raise
    finally:
        mount.close()
