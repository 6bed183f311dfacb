"""What the attack tools share: the program to test, mounts, scratch folders, and how they end."""
import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / name) for name in ("mount/programs", "mount/support", "support")]
os.umask(0o022)  # codecfs does not load plugins that a group could write to

import known  # noqa: E402
import running  # noqa: E402


class Fault(Exception):
    """The filesystem did something wrong."""


def parser(name, text, count, unit="files"):
    made = argparse.ArgumentParser(prog=name, description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("count", nargs="?", type=int, default=count, metavar="COUNT", help=f"{unit} (default {count})")
    made.add_argument("seed", nargs="?", default=None, metavar="SEED", help="the same seed makes the same choices; random by default")
    made.add_argument("--codecfs", default=os.environ.get("CODECFS", "build/release/src/codecfs"),
                      help="the program to test (default: $CODECFS, or build/release/src/codecfs)")
    made.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="where to leave what a failure is about")
    made.add_argument("--known-failures", nargs="?", const="all", default=None, metavar="ITEMS",
                      help="include what is known to fail (see tests/attack/known.py): all, or numbers with commas")
    return made


def parse(made, arguments=None):
    told = made.parse_args(arguments)
    told.codecfs = str(pathlib.Path(told.codecfs).resolve())
    if not os.access(told.codecfs, os.X_OK):
        made.error(f"no program {told.codecfs}: build it with: cmake --preset release && cmake --build --preset release")
    told.seed = told.seed or str(random.randrange(10**6))
    told.left_out = known.parse(told.known_failures)
    os.environ["CODECFS"] = told.codecfs
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return told


def plugin_folder(codecfs):
    """A copy of the project's HDF5 plugins that is loaded whatever the mode of the build's directory; "" without a build."""
    built = pathlib.Path(codecfs).parent.parent / "plugins" / "lib"
    libraries = sorted(built.glob("lib*.so*")) if built.is_dir() else []
    if not libraries:
        return ""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-plugins-"))
    folder.chmod(0o755)
    for library in libraries:
        shutil.copyfile(library, folder / library.name)
    return str(folder)


def scratch(prefix):
    """A new folder, in memory where there is enough of it."""
    memory = "/dev/shm"
    try:
        free = os.statvfs(memory)
        if free.f_bavail * free.f_frsize < 1 << 30 or not os.access(memory, os.W_OK):
            memory = None
    except OSError:
        memory = None
    return pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=memory)).resolve()


def in_child(work, seconds):
    """Runs work() in a forked process and returns how it ended: "" for well. The child has printed what is wrong; a SIGBUS
    of a mapping, or a filesystem that hangs, ends the child alone."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.alarm(seconds)
            code = 0 if work() else 1
        except BaseException:  # nothing may return into the parent's code
            import traceback
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    try:
        status = os.waitpid(child, 0)[1]
    except BaseException:  # this process is told to end: the caller takes mounts and files away
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    if os.WIFSIGNALED(status):
        number = signal.Signals(os.WTERMSIG(status))
        return f"no end after {seconds} s" if number == signal.SIGALRM else number.name
    return "" if status == 0 else "failed"


def run(*command, seconds=120):
    """(exit code, what it printed) of a program."""
    try:
        done = running.run(*command, seconds=seconds, code=None)
    except subprocess.TimeoutExpired:
        raise Fault(f"{' '.join(map(str, command))}: no end after {seconds} s") from None
    return done.returncode, done.output
