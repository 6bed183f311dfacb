"""Kills the daemon of a writable mount again and again, and looks at what is left.

    kill_test.py CODECFS [NUMBER_OF_KILLS [hdf5|zarr|zip [SEED]]]

A round: mount; two processes write chunk files, sync some of them, and note what they did outside of the mount; a third
gives variables other filter chains at the same time (setfattr -n user._Filter), which is durable when it returns; the
daemon gets SIGKILL after 0 to 300 ms, in some rounds in the middle of an unmount instead. Then the changes are
recovered (this is killed too, now and then), and every chunk is compared: it holds exactly one of the contents that
were ever written to it, and none that is older than the one of its last fsync that returned; and every variable has one of
the chains that it was given since the last that was acknowledged. h5py (zarr-python) reads the whole source. The next round goes on with the same source; after some rounds it is a new one, of another HDF5 format.

Content: element 0 of a chunk is the number of the write, and all other elements follow from it and from the chunk's place, so a
torn or misplaced chunk is recognised. Some compress well and some do not: chunks grow, shrink and move.
"""
import collections
import contextlib
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

import h5py
import numpy as np
import zarr
from numcodecs import Zlib

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
from mounts import Mount, descendants_of_process, detach, is_gone, kill_with_survivors, signal_all, wait_until  # noqa: E402
from running import run

ROUNDS_OF_A_SOURCE = 20
FORMATS = [("earliest", "latest"), ("v108", "v108"), ("v110", "latest")]  # superblocks 0, 2, 3
FILL = -1  # instead of a write's number: the chunk was removed, or never written
START = 0
WRITES_OF_A_WRITER = 20_000  # at most, in a round

# name: (shape, chunks, how it is stored, whether chunks are there in the beginning)
VARIABLES = {
    "deflate": ((40, 100), (10, 50), {"deflate": True}, True),
    "plain": ((40, 100), (10, 50), {}, True),
    "checked": ((60, 64), (16, 32), {"deflate": True, "checked": True}, True),
    "sparse": ((4000, 10), (20, 10), {"deflate": True, "unlimited": True}, False),
    "large": ((256, 1024), (128, 512), {}, True),
    "whole": ((50, 50), None, {}, True),
}


# What h5py and zarr-python read without plugins: spec, and the ids that are stored.
CHAINS = {"hdf5": {"none": (), "1,1": (1,), "2|1,3": (2, 1), "3|2|1,2": (3, 2, 1)},
          "zarr": {"none": (), "1,1": ("zlib",), "2|1,3": ("shuffle", "zlib"), "307,1": ("bz2",)}}
CHAINS["zip"] = CHAINS["zarr"]


def chains_of(path, kind):
    """Of each variable: the ids that are stored."""
    if kind == "hdf5":
        with h5py.File(path, "r") as f:
            plists = {name: f[name].id.get_create_plist() for name in VARIABLES}
            return {name: tuple(plist.get_filter(i)[0] for i in range(plist.get_nfilters())) for name, plist in plists.items()}
    if kind == "zip":
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:
                raise Fault(f"{archive.testzip()} is damaged in the archive")
            told = {name: json.loads(archive.read(f"{name}/.zarray")) for name in VARIABLES}
    else:
        told = {name: json.loads((path / name / ".zarray").read_text()) for name in VARIABLES}
    return {name: tuple(codec["id"] for codec in [*(z["filters"] or []), z["compressor"]] if codec) for name, z in told.items()}


def cells(name):
    shape, chunks = VARIABLES[name][:2]
    chunks = chunks or shape
    return [(i, j) for i in range(-(-shape[0] // chunks[0])) for j in range(-(-shape[1] // chunks[1]))]


def content(name, cell, number):
    shape, chunks = VARIABLES[name][:2]
    chunks = chunks or shape
    count = chunks[0] * chunks[1]
    if number == FILL:
        values = np.full(count, FILL, "<i4")
    else:
        place = list(VARIABLES).index(name) * 100_000 + cell[0] * 100 + cell[1]
        if number % 3 == 0:
            values = (np.arange(count) // 16 + number * 7 + place).astype("<i4")  # may wrap around
        else:
            values = np.random.default_rng((number, place)).integers(0, 2**31 - 1, count, dtype="<i4")
        values[0] = number
    return values.reshape(chunks)


def inside(name, cell):
    """The part of the array that a chunk covers."""
    shape, chunks = VARIABLES[name][:2]
    chunks = chunks or shape
    return tuple(slice(at * size, min((at + 1) * size, whole)) for at, size, whole in zip(cell, chunks, shape))


def make_source(path, kind, version):
    arrays = {}
    for name, (shape, chunks, options, is_stored) in VARIABLES.items():
        data = None
        if is_stored:
            data = np.empty(shape, "<i4")
            for cell in cells(name):
                part = data[inside(name, cell)]
                part[...] = content(name, cell, START)[:part.shape[0], :part.shape[1]]
        arrays[name] = data
    if kind == "hdf5":
        with h5py.File(path, "w", libver=FORMATS[version % len(FORMATS)]) as f:
            for name, (shape, chunks, options, _) in VARIABLES.items():
                filters = {"compression": "gzip", "shuffle": True} if options.get("deflate") else {}
                f.create_dataset(name, shape, "<i4", data=arrays[name], chunks=chunks, fillvalue=FILL,
                                 maxshape=(None, shape[1]) if options.get("unlimited") else None,
                                 fletcher32=options.get("checked", False), **filters)
    else:
        store = zarr.ZipStore(str(path), mode="w") if kind == "zip" else zarr.DirectoryStore(str(path))
        group = zarr.open_group(store, "w")
        for name, (shape, chunks, options, _) in VARIABLES.items():
            array = group.create_dataset(name, shape=shape, chunks=chunks or shape, dtype="<i4", fill_value=FILL,
                                         dimension_separator="/" if name == "sparse" else ".",
                                         compressor=Zlib(1) if options.get("deflate") else None)
            if arrays[name] is not None:
                array[...] = arrays[name]
        store.close()


def read_source(path, kind):
    """Everything, as h5py or zarr-python reads it."""
    if kind == "hdf5":
        with h5py.File(path, "r") as f:
            return {name: f[name][()] for name in VARIABLES}
    group = zarr.open_group(str(path), "r")
    return {name: group[name][...] for name in VARIABLES}


def read_mount(mountpoint):
    arrays = {}
    for name in VARIABLES:
        arrays[name] = np.full(VARIABLES[name][0], FILL, "<i4")
        for cell in cells(name):
            try:
                data = chunk_file(mountpoint, name, cell).read_bytes()
            except FileNotFoundError:
                continue
            part = arrays[name][inside(name, cell)]
            whole = np.frombuffer(data, "<i4").reshape(VARIABLES[name][1] or VARIABLES[name][0])
            part[...] = whole[:part.shape[0], :part.shape[1]]
    return arrays


def chunk_file(mountpoint, name, cell):
    return pathlib.Path(mountpoint) / name / ".".join(map(str, cell))


# --- the writers


def write_until_killed(mountpoint, names, log, rng, number):
    """In a process of its own. Notes: "w" before a write, "d" after its close, "s" after its fsync."""
    ended = False

    def end(*_):
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    places = [(name, cell) for name in names for cell in cells(name)]
    few = rng.sample(places, min(12, len(places)))  # written again and again
    for number in range(number + 1, number + WRITES_OF_A_WRITER):
        if ended:
            break
        name, cell = rng.choice(few if rng.random() < 0.6 else places)
        path = chunk_file(mountpoint, name, cell)
        is_removed = VARIABLES[name][1] is not None and rng.random() < 0.05

        def note(what, value):
            os.write(log, f"{what} {name} {cell[0]} {cell[1]} {value}\n".encode())

        try:
            if is_removed:
                note("w", FILL)
                try:
                    os.unlink(path)
                except FileNotFoundError:
                    pass
                note("d", FILL)
                continue
            note("w", number)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                data = content(name, cell, number).tobytes()
                if os.write(fd, data) != len(data):
                    raise RuntimeError("a short write")
                if rng.random() < 0.4:
                    try:
                        os.fsync(fd)
                        note("s", number)
                    except OSError as error:  # EBUSY: a re-encoding began during the write, which is stored at its end
                        if error.errno != errno.EBUSY:
                            raise
            finally:
                os.close(fd)
            note("d", number)
        except OSError as error:
            # A daemon that is gone: ENOTCONN or ECONNABORTED; what is refused for another reason is a fault.
            os.write(log, f"e {error.errno} {error}\n".encode())
            break


def recode_until_killed(mountpoint, kind, log, rng):
    """In a process of its own. Notes: "c" before a change of a chain, "C" after it."""
    ended = False

    def end(*_):
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    while not ended:
        name, spec = rng.choice(list(VARIABLES)), rng.choice(list(CHAINS[kind]))
        os.write(log, f"c {name} {spec}\n".encode())
        try:
            os.setxattr(pathlib.Path(mountpoint) / name, "user._Filter", spec.encode())
        except OSError as error:
            os.write(log, f"e {error.errno} {error}\n".encode())
            break
        os.write(log, f"C {name} {spec}\n".encode())


def start(work, *arguments):
    pid = os.fork()
    if pid == 0:
        try:
            work(*arguments)
        except BaseException as error:  # noqa: B902: nothing may return into the parent's code
            os.write(2, f"kill_test: the writer failed: {error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    return pid


LOG_HEADER = 512  # bytes


class Fault(Exception):
    pass


class Test:
    def __init__(self, codecfs, kind, directory, seed):
        self.codecfs, self.kind, self.directory = codecfs, kind, directory
        self.rng = random.Random(seed)
        self.mountpoint = directory / "mnt"
        self.mountpoint.mkdir()
        self.log = open(directory / "daemon.log", "a")
        self.counts = collections.Counter()
        self.number = START  # of the latest write
        self.source = None

    def new_source(self, round_number):
        if self.source is not None:
            shutil.rmtree(self.source.parent)
        folder = self.directory / f"source{round_number}"
        folder.mkdir()
        self.source = folder / {"hdf5": "data.h5", "zarr": "data.zarr", "zip": "data.zip"}[self.kind]
        make_source(self.source, self.kind, round_number // ROUNDS_OF_A_SOURCE)
        # What each chunk may hold now: as many numbers as there is doubt.
        self.chains = {name: [chain] for name, chain in chains_of(self.source, self.kind).items()}
        self.known = {(name, cell): [START if VARIABLES[name][3] else FILL]
                      for name in VARIABLES for cell in cells(name)}

    def mount(self, *options):
        return Mount(self.source, self.mountpoint, *options, program=self.codecfs, log=self.log.name)

    def round(self, round_number):
        if round_number % ROUNDS_OF_A_SOURCE == 0:
            self.new_source(round_number)
        in_unmount = self.rng.random() < 0.25
        log_before = self.state_of_log()
        mount = self.mount("commit=" + ("3600" if self.rng.random() < 0.5 else "1"))
        process = mount.process
        notes = self.directory / "notes"
        notes.unlink(missing_ok=True)
        fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        names = list(VARIABLES)
        # No number is used twice, so that it tells which write it was.
        writers = [start(write_until_killed, str(self.mountpoint), names[i::2], fd, random.Random(self.rng.random()),
                                self.number + i * WRITES_OF_A_WRITER) for i in range(2)]
        writers.append(start(recode_until_killed, str(self.mountpoint), self.kind, fd, random.Random(self.rng.random())))
        self.number += 2 * WRITES_OF_A_WRITER
        ended_well = False
        time.sleep(self.rng.uniform(0, 0.3))
        if in_unmount:
            signal_all(writers, signal.SIGTERM)
            self.reap(writers)
            unmounting = subprocess.Popen(["fusermount3", "-u", str(self.mountpoint)], stderr=subprocess.PIPE)
            time.sleep(self.rng.uniform(0, self.rng.choice([0.01, 0.05, 0.3])))
            survivors = self.kill(mount)
            ended_well = process.wait() == 0
            if unmounting.wait(60) != 0 and ended_well:
                raise Fault(f"the daemon ended, and fusermount3 failed: {unmounting.stderr.read()}")
            self.counts["daemon ended before the kill" if ended_well else "kills during an unmount"] += 1
        else:
            survivors = self.kill(mount)
            process.wait()
            self.reap(writers)
        self.counts["kills"] += 1
        os.close(fd)
        detach(self.mountpoint)
        self.take_notes(notes, ended_well)
        wait_until(lambda: all(map(is_gone, survivors)))
        if log_before is not None and self.state_of_log() == log_before:
            self.counts["kills before the first change of a file with a log"] += 1
        elif survivors and self.kind == "hdf5":
            # A log that was begun right before the kill holds no more than its header.
            log = self.log_of_source()
            if log.exists():
                checked = run(self.codecfs, "--check", self.source, code=None)
                if log.stat().st_size > LOG_HEADER or "no changes are pending" not in checked.stdout + checked.stderr:
                    raise Fault("the log is there after the work of the survivor")
            self.compare(read_source(self.source, self.kind), f"the source after kill {round_number} of the daemon alone")
            self.counts["work of survivors compared"] += 1
        self.look(round_number)

    def state_of_log(self):
        """None if there is none. A mount changes a log that an earlier kill has left only when it begins to write."""
        with contextlib.suppress(FileNotFoundError):
            status = self.log_of_source().stat()
            return status.st_ino, status.st_size, status.st_mtime_ns
        return None

    def log_of_source(self):
        return self.source.with_name(f".{self.source.name}.codecfs-wal")

    def kill(self, mount):
        """Kills the daemon, alone or with its survivor, unless it has just ended. Returns the survivors that are left."""
        if self.rng.random() < 0.5:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                kill_with_survivors(mount.process.pid)
            return []
        survivors = []
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            survivors = descendants_of_process(mount.process.pid)  # one that was just forked does not have its name yet
        mount.process.kill()
        return survivors

    @staticmethod
    def reap(writers):
        for pid in writers:
            if os.waitpid(pid, 0)[1] not in (0, signal.SIGTERM):  # which may come before it is waited for
                raise Fault("a writer failed")

    def take_notes(self, notes, ended_well):
        is_done = {}
        for line in notes.read_text().splitlines():
            what, *words = line.split(" ", 4)
            if what in "cC":
                chain = CHAINS[self.kind][words[1]]
                if what == "c":
                    self.chains[words[0]].append(chain)
                else:
                    self.chains[words[0]] = [chain]
                    self.counts["chains changed"] += 1
                continue
            if what == "e":
                if words[0] not in ("107", "103", "4"):  # ENOTCONN, ECONNABORTED; EINTR: a change that SIGTERM cancelled
                    raise Fault(f"a write failed: {line}")
                continue
            name, i, j, number = words[0], int(words[1]), int(words[2]), int(words[3])
            known = self.known[name, (i, j)]
            if what == "w":
                known.append(number)
                self.counts["writes"] += 1
            elif what == "s":
                assert known[-1] == number
                known[:] = [number]
                self.counts["fsyncs"] += 1
            else:
                is_done[name, (i, j)] = number
        if ended_well:
            for place, number in is_done.items():
                self.known[place] = [number]

    def look(self, round_number):
        if self.kind == "hdf5":
            log = self.log_of_source()
            self.counts["logs left by a kill"] += log.exists()
            self.move()
            log = self.source.with_name(f".{self.source.name}.codecfs-wal")
        way = self.rng.choice(["recover", "recover", "mount", "leave"])
        if way == "leave":  # the next round's mount recovers
            mount = self.mount("ro")
            arrays = read_mount(self.mountpoint)
            mount.unmount(60)
            self.compare(arrays, f"a mount (ro) after kill {round_number}")
            return
        if way == "recover":
            if self.kind == "hdf5" and self.rng.random() < 0.5:
                process = subprocess.Popen([self.codecfs, "--recover", str(self.source)],
                                           stdout=self.log, stderr=self.log)
                time.sleep(self.rng.uniform(0, 0.05))
                descendants = descendants_of_process(process.pid)
                process.kill()
                self.counts["recoveries cut short"] += process.wait() == -signal.SIGKILL
                wait_until(lambda: all(map(is_gone, descendants)))
            run(self.codecfs, "--recover", self.source, stdout=self.log, stderr=self.log)
        else:
            mount = self.mount()
            arrays = read_mount(self.mountpoint)
            # The first write brings in what was committed before the kill.
            name, cell = "plain", (0, 0)
            self.number += 1
            chunk_file(self.mountpoint, name, cell).write_bytes(content(name, cell, self.number).tobytes())
            self.compare(arrays, f"a mount after kill {round_number}")
            self.known[name, cell] = [self.number]
            mount.unmount(60)
        if self.kind == "hdf5":
            # A log that was begun right before the kill holds no more than its header. The source was moved away from it
            # before it was marked.
            logs = self.source.parent.glob(".*.codecfs-wal")
            if [log for log in logs if log == self.log_of_source() or log.stat().st_size > LOG_HEADER]:
                raise Fault("the log is still there")
        self.compare(read_source(self.source, self.kind), f"the source after kill {round_number}")
        for name, chain in chains_of(self.source, self.kind).items():
            if chain not in self.chains[name]:
                raise Fault(f"after kill {round_number}: {name} has the chain {chain}, and not one of {self.chains[name]}")
            self.counts["changes of a chain that did not come to be"] += chain != self.chains[name][-1]
            self.chains[name] = [chain]

    def move(self):
        """The file, and sometimes its log, to another name or place; or copies of both in a new folder."""
        chance = self.rng.random()
        if chance < 0.2:
            self.source = self.source.rename(self.source.with_name(f"moved{self.number}.h5"))
            self.counts["files moved away from their logs"] += 1
        elif chance < 0.4:
            copy = self.source.parent.with_name(self.source.parent.name + "copy")
            run("cp", "-a", self.source.parent, copy)
            shutil.rmtree(self.source.parent)
            copy.rename(self.source.parent)
            self.counts["files copied with their logs"] += 1

    def compare(self, arrays, where):
        for (name, cell), known in self.known.items():
            found = arrays[name][inside(name, cell)]
            number = int(found[0, 0])
            if number not in known:
                raise Fault(f"{where}: {name} {cell} holds write {number}, and not one of {known}")
            wanted = content(name, cell, number)[:found.shape[0], :found.shape[1]]
            if not np.array_equal(found, wanted):
                raise Fault(f"{where}: {name} {cell} holds write {number}, torn: "
                            f"{(found != wanted).sum()} of {found.size} elements differ")
            self.counts["chunks compared"] += 1
            self.counts["chunks with an older content than the last"] += number != known[-1]
            known[:] = [number]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    codecfs = sys.argv[1]
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    kind = sys.argv[3] if len(sys.argv) > 3 else "hdf5"
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(10**6)
    if kind not in CHAINS:
        sys.exit(__doc__)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-kill-")).resolve()
    print(f"{kind}, seed {seed}, in {directory}", flush=True)
    test = Test(codecfs, kind, directory, seed)
    try:
        for round_number in range(kills):
            test.round(round_number)
        counts = test.counts
        if kills >= 10 and min(counts["fsyncs"] / kills, counts["chains changed"] / kills,
                               counts["chunks with an older content than the last"]) < 1:
            raise Fault("too little was written, or nothing was ever lost: this proves nothing")
    except BaseException as error:
        detach(test.mountpoint)
        print(f"FAILED: {error}\nThe source, notes and daemon.log are left in {directory}", flush=True)
        if not isinstance(error, Fault):
            raise
        return 1
    finally:
        print(", ".join(f"{count} {what}" for what, count in test.counts.items()), flush=True)
    test.log.close()
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
