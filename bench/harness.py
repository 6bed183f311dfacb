"""What every row needs: mounts that go away again, time, pairs of measurements, and what came of them."""
import atexit
import contextlib
import mmap
import os
import pathlib
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
import mounts  # noqa: E402

MIB = 1 << 20
GIVE_UP = 60  # seconds that a mount may take to appear, and its daemon to end
LONG_ROW = 20  # seconds after which a measurement is content with FEWEST_ROUNDS
FEWEST_ROUNDS = 3


class Wrong(Exception):
    """What was read, written or made is not what it must be: the row's times mean nothing."""


def cpu_seconds():
    """CPU seconds of this process and of its descendants, such as daemons: those that live, and those that have ended."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + sum(map(cpu_seconds_of, descendants()))


def descendants():
    parents = {}
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit():
                parents[int(entry)] = int(pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def cpu_seconds_of(pid):
    """Of a process, with its own children that have ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ended = (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
        return ended + time.clock_gettime(~pid << 3 | 2)  # the clock of that process: see clock_getcpuclockid(3)
    except OSError:
        return 0


class Seconds(float):
    """The time that something took, with the CPU seconds in `cpu`."""

    cpu = None


def timed(action):
    Memory.free()
    used = cpu_seconds()
    start = time.perf_counter()
    action()
    seconds = Seconds(time.perf_counter() - start)
    seconds.cpu = cpu_seconds() - used
    return seconds


def run(*command, **options):
    """A command that must succeed; what it says goes into the exception."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode:
        raise Wrong(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def settle(*sources, memory=0):
    """Nothing that was written before waits to be stored with what is measured, the sources are in the page cache
    (again: some machines reclaim pages that are not used), and so many bytes of memory are there when the clock starts."""
    os.sync()
    for source in sources:
        read_into_page_cache(source)
    if memory:
        Memory.hold(memory)


def read_into_page_cache(source):
    files = [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]
    buffer = bytearray(8 * MIB)
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


class Memory:
    """Memory that the machine has when the clock starts. Virtual machines may give free memory back to their host within
    a tenth of a second, and having it again takes longer than to decode into it. Rivals that read into arrays of their own
    have used those before (see worker.py). So it is held here, and freed just before the clock starts."""

    held = None

    @classmethod
    def hold(cls, size):
        cls.free()
        if size:
            cls.held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            cls.held.madvise(mmap.MADV_HUGEPAGE)
            for at in range(0, size, mmap.PAGESIZE):
                cls.held[at] = 1

    @classmethod
    def free(cls):
        if cls.held:
            cls.held.close()
            cls.held = None


class Mount(mounts.Mount):
    """`with Mount(program, source) as mount`: codecfs as a child, which unmounts when this process ends."""

    live = set()

    def __init__(self, program, source, *options, rules=(), env=None):
        guard = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        start = time.perf_counter()
        try:
            super().__init__(source, tempfile.mkdtemp(prefix="codecfs-bench-"), *options, rules=rules, env=env,
                             program=[*guard, program], seconds=GIVE_UP)
        except mounts.MountError as error:
            error.mount.remove()
            raise Wrong(f"{source} with {options} did not mount: {error}") from None
        Mount.live.add(self)
        os.stat(self.path)  # answered once the source is open
        self.seconds = time.perf_counter() - start

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def memory(self, name="VmHWM"):
        """Bytes of memory that the daemon held at most (VmHWM) or holds now (VmRSS)."""
        return mounts.memory_of(self.process.pid, name)

    def close(self):
        """Unmounts; returns when everything is stored."""
        if self.ended:
            return
        try:
            super().close(GIVE_UP)
        except mounts.MountError as error:
            raise Wrong(str(error)) from None
        finally:
            Mount.live.discard(self)
            self.remove()

    def remove(self):
        self.log.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()


@atexit.register
def unmount_all():
    for mount in list(Mount.live):
        with contextlib.suppress(Wrong):
            mount.close()


def end_well_when_told_to():
    def end(number, _):
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


class Bench:
    """One run: where things are, and what was measured."""

    def __init__(self, program, before, data, rivals, quick, rounds):
        self.program = program  # codecfs
        self.before = before  # an earlier codecfs, to be measured in place of the rivals, or None
        self.data = data  # data.Data
        self.rivals = rivals  # rivals.Rivals
        self.quick = quick
        self.rounds = rounds
        self.results = []
        self.failures = []
        self.row = None
        self.on_result = lambda result: None

    def mount(self, source, *options, rules=()):
        return Mount(self.program, source, *options, rules=rules)

    def cold(self, source, read, *options, rules=()):
        """Seconds of `read(directory)` on a new mount; the source is in the page cache."""
        read_into_page_cache(source)
        with self.mount(source, *options, rules=rules) as mount:
            return timed(lambda: read(mount.path))

    def scratch(self, name):
        """A place for what a row writes, empty; all of it goes with the row."""
        path = self.data.directory / "scratch" / name
        path.parent.mkdir(exist_ok=True)
        remove(path)
        return path

    def empty_scratch(self):
        remove(self.data.directory / "scratch")

    def pairs(self, title, ours, rivals, size=None, bar=None, aim=None, best_of=None, memory=None, source=None):
        """Runs codecfs and its rivals in rounds, each round in a random order, so that no side always profits from what
        another has left in caches or clock rates; each is a function that returns seconds.

        The ratio of a round is the rival's time by ours: above 1 codecfs is faster. The rival of the ratio is the
        first, or the fastest of `best_of` in that round. `size`: decoded bytes, for GB/s. `bar`: the least that the
        median must be. `memory`: bytes that a turn takes of the machine, page cache and all (a half more than `size`).
        `source`: is in the page cache before each turn.
        """
        memory = memory or 3 * (size or 0) // 2
        if self.before:
            rivals, best_of, bar, aim = {"before": lambda: self.of_before(ours)}, None, 0.95, None
        if not rivals:
            raise Wrong(f"{title}: none of its rivals is here")
        times = {name: [] for name in ("codecfs", *rivals)}
        cpu = {name: [] for name in times}
        start = time.perf_counter()
        for done in range(self.rounds):
            if done >= FEWEST_ROUNDS and time.perf_counter() - start > LONG_ROW:
                break
            sides = [("codecfs", ours), *rivals.items()]
            random.shuffle(sides)
            for name, side in sides:
                if source:
                    read_into_page_cache(source)
                Memory.hold(memory)
                used = cpu_seconds()
                seconds = side()
                Memory.free()
                # Of what was timed, or, if that is not known, of all that it took.
                spent = getattr(seconds, "cpu", None)
                times[name].append(float(seconds))
                cpu[name].append(cpu_seconds() - used if spent is None else spent)
        self.ratio(title, times, cpu, bar=bar, aim=aim, against=list(best_of) if best_of else None, size=size)

    def ratio(self, title, times, cpu=None, *, bar=None, aim=None, against=None, size=None):
        """`times`: {name: seconds of each round}, ours under "codecfs"; `against`: the first of the others if None."""
        against = against or [next(name for name in times if name != "codecfs")]
        ratios = [min(times[name][i] for name in against) / seconds for i, seconds in enumerate(times["codecfs"])]
        self.add(title=title, kind="ratio", value=statistics.median(ratios), values=ratios, bar=bar, sense="at least",
                 aim=aim, unit="x", against=against, seconds=times, cpu_seconds=cpu, bytes=size)

    def of_before(self, ours):
        program, self.program = self.program, self.before
        try:
            return ours()
        finally:
            self.program = program

    def value(self, title, values, unit, at_most=None, aim=None):
        """A figure of its own, such as the seconds that a mount takes: the median, and the most that it may be."""
        values = list(values) if isinstance(values, (list, tuple)) else [values]
        self.add(title=title, kind="value", value=statistics.median(values), values=values, bar=at_most,
                 sense="at most", aim=aim, unit=unit)

    def growth(self, title, small, large, unit, at_most, floor):
        """How a figure grows when the work does tenfold. Differences below `floor` (in `unit`) are noise."""
        small, large = statistics.median(small), statistics.median(large)
        self.add(title=title, kind="growth", value=max(large, floor) / max(small, floor), values=[small, large],
                 bar=at_most, sense="at most", unit="x", of=unit, small=small, large=large)

    def add(self, **result):
        result["row"] = self.row
        bar = result.get("bar")
        result["holds"] = None if bar is None else (
            result["value"] >= bar if result["sense"] == "at least" else result["value"] <= bar)
        self.results.append(result)
        self.on_result(result)

    @staticmethod
    def check(good, what):
        if not good:
            raise Wrong(what)


ROWS = {}


def row(name, what):
    """Marks a function of Bench as a row of the table."""
    def add(function):
        ROWS[name] = (what, function)
        return function
    return add
