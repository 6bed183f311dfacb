"""What every mount test needs: a real mount that always goes away again, and the generated sources.

The programs come from the environment, which CTest sets: CODECFS (the codecfs binary), CODECFS_TEST_DATA (a folder with
hdf5/ and zarr/, made by tests/data/*). A failing test shows the daemon's log.
"""
import atexit
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from survivors import is_gone, kill_with_survivors, survivors_of_process, wait_until  # noqa: E402, F401: for tests too

os.umask(0o022)  # plugins that tests make are not loaded where a group could write to them

CODECFS = os.environ["CODECFS"]
DATA = pathlib.Path(os.environ["CODECFS_TEST_DATA"])


def own_copy(directory):
    """A copy that is loaded whoever else can write to the build's directory."""
    made = tempfile.mkdtemp(prefix="codecfs-plugins-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    os.chmod(made, 0o755)
    for library in pathlib.Path(directory).glob("lib*.so*"):
        shutil.copyfile(library, pathlib.Path(made, library.name))
    return made


if "CODECFS_PLUGINS" in os.environ:
    os.environ["CODECFS_PLUGINS"] = own_copy(os.environ["CODECFS_PLUGINS"])


def is_mounted(path):
    """Whether something is mounted on path; asks the kernel's table, as a stat would hang on a dead daemon."""
    text = str(path).replace(" ", "\\040")
    return any(line.split()[4] == text for line in open("/proc/self/mountinfo"))


def unmount(path):
    for command in (["fusermount3", "-u", path], ["umount", path], ["umount", "-l", path]):
        if not is_mounted(path):
            return
        for _ in range(20):
            if subprocess.run(command, capture_output=True).returncode == 0:
                return
            time.sleep(0.1)


def survivors_of(mount):
    return survivors_of_process(mount.process.pid)


class Mount:
    """A mount of `source`; the daemon runs in the foreground as a child, its log is in `log`."""

    def __init__(self, source, directory, *options, rules=(), env=None):
        self.path = pathlib.Path(directory)
        self.path.mkdir(exist_ok=True)
        self.ended = False
        self.log = self.path.with_name(self.path.name + ".log")
        command = [CODECFS, "-f"] + [word for rule in rules for word in ("-F", rule)]
        if options:
            command += ["-o", ",".join(options)]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command + [str(source), str(self.path)], stdout=log, stderr=log,
                                            env={**os.environ, **(env or {})})
        deadline = time.monotonic() + 60
        while not is_mounted(self.path):
            if self.process.poll() is not None:
                raise RuntimeError(f"codecfs ended with {self.process.returncode}: {self.log.read_text()}")
            if time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError("not mounted after 60 s")
            time.sleep(0.005)

    def stats(self):
        lines = (self.path / ".codecfs/stats").read_text().splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines)}

    def messages(self):
        return (self.path / ".codecfs/log").read_text()

    def resident_peak(self):
        """Bytes of memory that the daemon held at most."""
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmHWM")

    def kill(self):
        """SIGKILL to everything at once, so that the log stays; the dead mount is taken away."""
        kill_with_survivors(self.process.pid)
        self.process.wait()
        subprocess.run(["fusermount3", "-uz", self.path], check=True)
        self.ended = True

    def kill_daemon(self):
        """SIGKILL to the daemon alone. Returns when its survivor has done its work."""
        survivors = survivors_of(self)
        self.process.kill()
        self.process.wait()
        subprocess.run(["fusermount3", "-uz", self.path], check=True)
        self.ended = True
        wait_until(lambda: all(map(is_gone, survivors)))

    def close(self):
        """Unmounts; the daemon must end by itself and well."""
        if self.ended:
            return
        self.ended = True
        unmount(self.path)
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()
            raise RuntimeError("the daemon did not end after the unmount")
        if code != 0:
            raise RuntimeError(f"the daemon ended with {code}: {self.log.read_text()[-4000:]}")


@contextlib.contextmanager
def mounted(source, directory, *options, rules=(), env=None):
    mount = Mount(source, directory, *options, rules=rules, env=env)
    try:
        yield mount
    except BaseException:
        print(f"--- log of the daemon ({source}) ---\n{mount.log.read_text()[-4000:]}")
        raise
    finally:
        mount.close()


@pytest.fixture
def mount(tmp_path):
    """A function mount(source, *options, rules=[...]) that mounts until the test is over."""
    with contextlib.ExitStack() as stack:
        count = 0

        def make(source, *options, rules=(), env=None):
            nonlocal count
            count += 1
            return stack.enter_context(mounted(source, tmp_path / f"mnt{count}", *options, rules=rules, env=env))

        yield make


@pytest.fixture
def place(tmp_path):
    """Where a test mounts by itself."""
    path = tmp_path / "mnt"
    yield path
    while is_mounted(path):
        unmount(path)


@pytest.fixture
def copy(tmp_path):
    """A function copy(name) that copies one of the generated sources, so that the test may damage it."""

    def make(name):
        source, target = DATA / name, tmp_path / pathlib.Path(name).name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
        return target

    return make


def xattr(path, name):
    return os.getxattr(path, "user." + name).decode()
