#!/usr/bin/python3
"""Many processes at work on one mount, against a model of what they may see; then the mount is taken away.

    concurrency.py CODECFS [SECONDS [SEED [hdf5|zarr]]]      see scripts/concurrency-test

A round mounts a new source with options of its own. Workers read, write, map, remove, list, move, resize and re-encode
all at once (concurrency_work.py), and check each answer (concurrency_model.py). No operation may take longer than LONGEST
seconds. The round ends in one of the ways of ENDINGS, mostly in the middle of the work; then the daemon must end within
LONGEST seconds with all its helpers, and h5py or zarr-python must find in the source what the model says: all that was
closed. The same seed makes the same choices; what the scheduler does of it is another time another.
"""
import contextlib
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

from concurrency_model import FORKS, MOST_PATIENCE, Fault, Model, check_source, make_source, shared
from concurrency_work import Worker

sys.path.append(str(pathlib.Path(__file__).parents[2] / "support"))
from mounts import Mount, is_mounted, processes_of  # noqa: E402
from running import run  # noqa: E402

LONGEST = 30.0  # seconds that an operation may take on a machine of its own; up to MOST_PATIENCE times on a busy one
KINDS = ["hdf5", "zarr"]
FORMATS = [("earliest", "latest"), ("v108", "v108"), ("v110", "latest")]  # superblocks 0, 2, 3
ENDINGS = ["orderly", "busy", "detach", "detach, SIGTERM", "SIGTERM", "SIGINT", "SIGHUP"]
THREADS = ["threads=1", "threads=64", "threads=2", None]  # 8, or as many as cores
OTHERS = [None, "commit=1", "commit=3600", "cache=1M", "dirty=1M"]


def scheduled(pid):
    """Seconds that the threads of a process have run, and that they have waited for a processor."""
    ran = waited = 0
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            words = path.read_text().split()
            ran, waited = ran + int(words[0]), waited + int(words[1])
    return ran / 1e9, waited / 1e9


class Board:
    """What the workers are doing, in shared memory."""

    def __init__(self, workers, faults):
        self.flags = shared(2)
        self.serial, self.done, self.skipped = shared(workers), shared(workers), shared(workers)
        self.names = [FORKS.Array("c", 32, lock=False) for _ in range(workers)]
        self.faults = faults

    @property
    def stop(self):
        return bool(self.flags[0])

    @property
    def ending(self):
        return bool(self.flags[1])

    def begin(self, number, name):
        self.names[number].value = name.encode()
        self.serial[number] += 1

    def end(self, number, done):
        (self.done if done else self.skipped)[number] += 1

    def tell(self, text):
        with open(self.faults, "a") as file:
            file.write(text + "\n")


def work(model, board, number, mountpoint, seed):
    """In a process of its own."""
    root = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # By this it goes on where the mount point leads elsewhere.
        Worker(model, board, number, f"/proc/self/fd/{root}", seed).run()
    except Fault as fault:
        board.tell(str(fault))
        os._exit(1)
    os._exit(0)


class Clock:
    """Seconds that this process was running: one that is stopped for a while with all others has missed nothing."""

    def __init__(self):
        self.now, self.last = 0.0, time.monotonic()

    def tick(self, seconds=0.05):
        time.sleep(seconds)
        now = time.monotonic()
        self.now += min(now - self.last, 10 * seconds)
        self.last = now


class Round:
    def __init__(self, codecfs, directory, kind, seed, seconds, workers, options=None, ending=None):
        self.rng = random.Random(seed)
        self.codecfs, self.kind, self.seconds = codecfs, kind, seconds
        self.directory = pathlib.Path(directory)
        self.mountpoint = self.directory / "mnt"
        self.mountpoint.mkdir()
        self.source = self.directory / ("s.h5" if kind == "hdf5" else "s.zarr")
        self.log = self.directory / "daemon.log"
        threads, other = self.rng.choice(THREADS), self.rng.choice(OTHERS)
        self.options = options if options is not None else [option for option in (threads, other) if option]
        self.ending = ending or self.rng.choice(ENDINGS)
        self.format = self.rng.choice(FORMATS)
        self.model = Model(kind)
        self.board = Board(workers, self.directory / "faults")
        self.clock = Clock()
        self.slowest = (0.0, "")
        self.end_seconds = 0.0
        make_source(self.source, self.model, self.format)
        self.mounted = Mount(self.source, self.mountpoint, *self.options, program=codecfs, log=self.log, seconds=LONGEST)
        self.daemon = self.mounted.process
        self.minor = next(line.split()[2].split(":")[1] for line in open("/proc/self/mountinfo")
                          if line.split()[4] == str(self.mountpoint))
        self.workers = [FORKS.Process(target=work, args=(self.model, self.board, number, self.mountpoint,
                                                                   self.rng.random())) for number in range(workers)]

    # --- what happens

    def run(self):
        try:
            for worker in self.workers:
                worker.start()
            if self.ending == "busy":
                self.watch(self.seconds / 2)
                self.check_busy()
                self.watch(self.seconds / 2)
            else:
                self.watch(self.seconds)
            self.end()
            check_source(self.source, self.model)
        finally:
            self.clean_up()

    def check_faults(self):
        if self.board.faults.exists():
            raise Fault(self.board.faults.read_text())

    def watch(self, seconds):
        """Until the time is over; no worker may spend too long on one operation."""
        until, noted = self.clock.now + seconds, -1.0
        self.seen = [(-1, 0.0, (0.0, 0.0))] * len(self.workers)
        while self.clock.now < until:
            self.clock.tick()
            self.check_faults()
            self.check_progress()
            if self.clock.now - noted >= 1:
                noted = self.clock.now
                self.model.note_load(*scheduled(self.daemon.pid))
            if self.daemon.poll() is not None:
                raise Fault(f"the daemon died: {self.daemon.returncode}")
            for worker in self.workers:
                if worker.exitcode is not None:
                    self.check_faults()
                    raise Fault(f"a worker ended with {worker.exitcode}")

    def check_progress(self):
        for number, (serial, since, before) in enumerate(self.seen):
            if serial != self.board.serial[number]:
                self.seen[number] = (int(self.board.serial[number]), self.clock.now, scheduled(self.daemon.pid))
                continue
            self.note(self.clock.now - since, self.board.names[number].value.decode(), before)

    def note(self, seconds, what, before):
        """`before`: scheduled() at the begin of the operation."""
        self.slowest = max(self.slowest, (seconds, what))
        if self.is_too_long(seconds, before):
            raise Fault(f"{what} has taken {seconds:.0f} s\n{self.where_all_are()}")

    def is_too_long(self, seconds, before):
        if seconds <= LONGEST:
            return False
        ran, waited = (now - then for now, then in zip(scheduled(self.daemon.pid), before))
        return seconds > LONGEST * min(max(1, (ran + waited) / max(ran, 0.1)), MOST_PATIENCE)

    def check_busy(self):
        for command in (["fusermount3", "-u"], ["umount"]):
            done = run(*command, self.mountpoint, code=None)
            if done.returncode == 0 or not is_mounted(self.mountpoint) or "busy" not in done.stderr.lower():
                raise Fault(f"{command[0]} of a mount that is used: {done}")

    def end(self):
        begun = self.clock.now
        if self.ending not in ("orderly", "busy"):
            if self.ending.startswith("detach"):
                run("fusermount3", "-uz", self.mountpoint)
                self.watch(min(1.0, self.seconds / 4))
            if "SIG" in self.ending:
                self.board.flags[1] = 1
                self.daemon.send_signal(getattr(signal, self.ending.rpartition(" ")[2]))
        if "SIG" in self.ending:
            self.wait_for_daemon()
        self.board.flags[0] = 1
        self.wait_for_workers()
        if self.ending in ("orderly", "busy"):
            run("fusermount3", "-u", self.mountpoint)
        begun = begun if "SIG" in self.ending else self.clock.now
        self.wait_for_daemon()
        self.end_seconds = self.clock.now - begun
        self.check_log()
        begun = self.clock.now
        while left := list(processes_of(self.daemon.pid)):
            if self.clock.now - begun > LONGEST:
                raise Fault(f"processes {left} outlive the daemon")
            self.clock.tick()

    def wait_for_daemon(self):
        begun, before = self.clock.now, scheduled(self.daemon.pid)
        while self.daemon.poll() is None:
            self.clock.tick(0.01)
            if self.is_too_long(self.clock.now - begun, before):
                raise Fault(f"the daemon does not end\n{self.where_all_are()}")

    def wait_for_workers(self):
        begun, before = self.clock.now, scheduled(self.daemon.pid)
        while any(worker.exitcode is None for worker in self.workers):
            self.clock.tick(0.01)
            if self.is_too_long(self.clock.now - begun, before):
                raise Fault(f"a worker does not end\n{self.where_all_are()}")
        self.check_faults()
        for worker in self.workers:
            # What is mapped of a mount that is gone is SIGBUS.
            if worker.exitcode != 0 and not (self.board.ending and worker.exitcode == -signal.SIGBUS):
                raise Fault(f"a worker ended with {worker.exitcode}")

    def check_log(self):
        code, text = self.daemon.returncode, self.log.read_text()
        # A worker that was stopped before its rename, or whose directory was moved away, has left a file.
        left = [line for line in text.splitlines() if "not stored" in line and ".tmp" not in line and "own" not in line]
        if code != 0 and not (code == 32 and not left):
            raise Fault(f"the daemon ended with {code}")

    # --- afterwards

    def where_all_are(self):
        text = "".join(f"worker {n}: {self.board.names[n].value.decode()}\n" for n in range(len(self.workers)))
        in_kernel = False  # where no debugger comes
        for task in pathlib.Path(f"/proc/{self.daemon.pid}/task").glob("*"):
            try:
                waits = (task / "stat").read_text().rpartition(")")[2].split()[0]
                in_kernel |= waits == "D"
                text += f"daemon's thread {task.name}: {waits} {(task / 'wchan').read_text()}\n"
                text += (task / "stack").read_text() if waits == "D" else ""
            except OSError:
                pass
        if shutil.which("gdb") and not in_kernel:
            stacks = run("gdb", "-batch", "-p", self.daemon.pid, "-ex", "thread apply all bt 20", code=None)
            text += stacks.stdout
        return text

    def clean_up(self):
        """Whatever has happened, no mount and no process is left."""
        self.board.flags[:] = 1
        for worker in self.workers:
            if worker.pid is not None and worker.exitcode is None:
                worker.kill()
        if self.daemon.poll() is None:
            self.abort()
        self.mounted.end()
        for worker in self.workers:
            if worker.pid is not None:
                worker.join(10)

    def abort(self):
        """Every request ends, or a thread of the daemon in the kernel might wait for one for ever, whatever kills it."""
        if not hasattr(self, "minor"):
            return
        connections = pathlib.Path("/sys/fs/fuse/connections")
        own = self.directory / "fusectl"
        if not (connections / self.minor).exists():
            own.mkdir()
            run("mount", "-t", "fusectl", "none", own, code=None)
            connections = own
        try:
            (connections / self.minor / "abort").write_text("1")
        except OSError:
            pass  # not ours to do, or gone
        if is_mounted(own):
            run("umount", own)

    def summary(self):
        late = f"{self.model.late[0]} late (by {self.model.slowest_late[0]:.2f} s at most), " if self.model.late[0] else ""
        return (f"{self.kind} {self.format[0]} -o {','.join(self.options) or '-'}: {self.board.done.sum()} operations, "
                f"{self.board.skipped.sum()} left out, {late}slowest {self.slowest[0]:.1f} s {self.slowest[1]}; "
                f"{self.ending} took {self.end_seconds:.1f} s")


def run_round(codecfs, directory, kind, seed, seconds, workers, options=None, ending=None):
    """Fault where something is wrong; what there is to look at stays in the directory."""
    trial = Round(codecfs, directory, kind, seed, seconds, workers, options, ending)
    try:
        trial.run()
    except Exception as error:
        text = trial.log.read_text()[-3000:]
        raise Fault(f"{trial.summary()}\n{error}\n--- log of the daemon\n{text}") from error
    return trial


def main():
    codecfs = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 600
    seed = sys.argv[3] if len(sys.argv) > 3 else str(random.randrange(10**6))
    kinds = [sys.argv[4]] if len(sys.argv) > 4 else KINDS
    directory = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-concurrency-")).resolve()
    print(f"concurrency-test: {seconds:.0f} s, seed {seed}, in {directory}", flush=True)
    begun, number, operations = time.monotonic(), 0, 0
    bad = 0
    while time.monotonic() - begun < seconds:
        rng = random.Random(f"{seed}/{number}")
        folder = directory / str(number)
        folder.mkdir()
        try:
            trial = run_round(codecfs, folder, kinds[number % len(kinds)], f"{seed}/{number}", rng.uniform(2, 12),
                              rng.choice([3, 6, 6, 12]))
            print(f"{number}: {trial.summary()}", flush=True)
            operations += int(trial.board.done.sum())
            shutil.rmtree(folder)
        except Exception as error:  # noqa: B902: the next round is another one
            bad += 1
            print(f"{number}: FAILED: {error}\nleft in {folder}", flush=True)
            if bad >= 5:
                break
        number += 1
    print(f"concurrency-test: {bad} of {number} rounds bad, {operations} operations; seed {seed}")
    if not bad:
        shutil.rmtree(directory)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
