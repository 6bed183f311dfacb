#!/usr/bin/python3
"""Records the system calls of a real daemon while its mount is written, and replays what a kill or a power cut leaves of them.

kill: the state after each call (or a random choice of them). power: what was not synced is dropped, torn at 512 bytes or
reordered too. In each state of an HDF5 file without an unfinished checkpoint h5py must open it as it is after a kill; then
--recover must bring it into order, twice, and h5py (zarr-python) must find in each chunk one of the contents that was written
to it and none that is older than the latest that an fsync has acknowledged, each variable with a filter chain, a shape and
attributes that it was given in the same sense. --recover itself, --compact and -o create= are recorded and replayed too.
"""
import collections
import copy
import ctypes
import json
import mmap
import os
import pathlib
import shutil
import sys
import time

import support  # adds the folder of mounts to the path
from mounts import Mount, MountError, detach_below, unmount
from running import run
from support import Fault

KINDS = ["hdf5", "zarr", "zip"]
FILL = -1
STATES_OF_A_RECORDING = 250
# name: (shape, chunks, how it is stored, whether chunks are there at first), for kill_test.py's sources.
VARIABLES = {
    "deflate": ((20, 48), (10, 16), {"deflate": True}, True),
    "plain": ((20, 48), (10, 24), {}, True),
    "checked": ((24, 32), (12, 16), {"deflate": True, "checked": True}, True),
    "sparse": ((60, 10), (20, 10), {"deflate": True, "unlimited": True}, False),
    "whole": ((20, 20), None, {}, True),
    "large": ((64, 128), (32, 128), {}, True),
}


def import_libraries():
    global h5py, np, zarr, kill_test, replay
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "crash"))
    import h5py
    import numpy as np
    import zarr

    import kill_test
    import replay
    kill_test.VARIABLES.clear()
    kill_test.VARIABLES.update(VARIABLES)


def build_recorder(folder):
    """The library is one file: made where it is needed."""
    told = os.environ.get("CODECFS_RECORDER")
    if told:
        return told
    made = folder / "recorder.so"
    here = pathlib.Path(__file__).resolve().parent
    code, text = support.run(os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", made, here / "recorder.c", "-ldl")
    if code != 0:
        raise Fault(f"recorder.c does not build: {text}")
    return str(made)


# --- what may be found


class History:
    """Versions of one thing: each may be there from the position of the trace where it was begun, and all before it are
    gone from the position where it was acknowledged as durable."""

    def __init__(self, first):
        self.versions = [[first, 0, 0]]

    @property
    def last(self):
        return self.versions[-1][0]

    def begin(self, value, position):
        self.versions.append([value, position, None])

    def acknowledge(self, position):
        if self.versions[-1][2] is None:
            self.versions[-1][2] = position

    def allowed(self, position):
        oldest = max(i for i, (_, _, durable) in enumerate(self.versions) if durable is not None and durable <= position)
        return [value for value, begun, _ in self.versions[oldest:] if begun <= position]


class Book:
    """All that a recording knows of its source."""

    def __init__(self, chains):
        self.chunks = {}
        for name in VARIABLES:
            for cell in kill_test.cells(name):
                number = kill_test.START if VARIABLES[name][3] else FILL
                self.chunks[name, cell] = History(kill_test.content(name, cell, number).tobytes())
        self.chains = {name: History(chain) for name, chain in chains.items()}
        self.heights = {"sparse": History(VARIABLES["sparse"][0][0])}
        self.notes = {name: History(None) for name in VARIABLES}  # an attribute
        self.groups = {}

    def all(self):
        for histories in (self.chunks, self.chains, self.heights, self.notes, self.groups):
            yield from histories.values()

    def acknowledge_all(self, position):
        for history in self.all():
            history.acknowledge(position)


# --- the workload


class Recording:
    def __init__(self, told, folder, kind, number):
        self.told, self.folder, self.kind = told, folder, kind
        self.rng = replay.random_of(told.seed, kind, number)
        self.number, self.name = number, f"recording {number}"
        self.place = folder / "source"
        self.place.mkdir()
        self.source = self.place / {"hdf5": "data.h5", "zarr": "data.zarr", "zip": "data.zip"}[kind]
        self.trace, self.lock, self.log = folder / "trace", folder / "lock", folder / "daemon.log"
        self.trace.touch()
        self.lock.write_bytes(bytes(4096))
        self.mountpoint = folder / "mnt"
        self.mountpoint.mkdir()
        self.write_number = 0
        self.begins_clean = True  # outside of a checkpoint
        self.done = []
        self.book = None

    def environment(self):
        return {**os.environ, "LD_PRELOAD": self.told.recorder, "RECORDER_ROOT": str(self.place), "RECORDER_TRACE": str(self.trace),
                "RECORDER_LOCK": str(self.lock)}

    def position(self):
        return self.trace.stat().st_size

    def mount(self, *options):
        return Mount(self.source, self.mountpoint, *options, program=self.told.codecfs, log=self.log, env=self.environment())

    @staticmethod
    def unmount(mount):
        mount.close(60)
        mount.wait_for_helpers()

    def run(self):
        """Some mounts, one after the other, some of which are killed."""
        kill_test.make_source(self.source, self.kind, self.number)
        self.first = replay.World.load(self.place)
        self.book = Book(kill_test.chains_of(self.source, self.kind))
        for session in range(3):
            mount = self.mount("commit=" + self.rng.choice(["1", "3600"]), *self.rng.choice([[], ["dirty=1M"], ["threads=2"]]))
            try:
                for _ in range(self.rng.choice([10, 25, 40])):
                    self.operation()
                if self.rng.random() < 0.3 and session < 2:
                    self.done.append("kill")
                    self.kill(mount)
                    self.forget()
                else:
                    self.done.append("unmount")
                    self.unmount(mount)
                    self.book.acknowledge_all(self.position())
            finally:
                mount.end()
        self.check_complete()

    def kill(self, mount):
        library = ctypes.CDLL(self.told.recorder)
        with open(self.lock, "r+b") as file, mmap.mmap(file.fileno(), 4096) as page:
            word = ctypes.c_int.from_buffer(page)
            library.recorder_take(ctypes.byref(word))
            mount.process.kill()
            mount.process.wait()
            library.recorder_give(ctypes.byref(word))
            del word
        mount.wait_for_helpers()

    def forget(self):
        """After a kill any of the possible versions may be the present one: they are looked up."""
        unmount(self.mountpoint)
        if self.kind == "hdf5":
            code, text = self.run_tool("--recover")
            if code != 0:
                raise Fault(f"--recover after a kill ended with {code}: {text}")
        position = self.position()
        found = read_source(self.source, self.kind)
        check_source(found, self.book, position, "after a kill of the daemon")
        for history, value in matching(found, self.book):
            history.begin(value, position)
            if self.kind == "hdf5":  # --recover has synced it
                history.acknowledge(position)

    def run_tool(self, *arguments):
        done = run(self.told.codecfs, *arguments, self.source, environment=self.environment(), code=None)
        return done.returncode, done.output

    def check_complete(self):
        """The replay of the whole trace is what lies there: nothing went past the recorder."""
        self.records = replay.read_trace(self.trace)
        world = copy.deepcopy(self.first)
        for record in self.records:
            apply(world, record)
        self.last = world.tree_now()
        ours, theirs = replay.without_times(self.last), replay.read_tree(self.place)
        if ours != theirs:
            raise Fault(f"the recorder missed something: {sorted(differences(ours, theirs))[:8]}")

    def position_of(self, record):
        return record.end

    def check(self, path, position, where, compare):
        found = read_source(path, self.kind)
        if compare:
            check_source(found, self.book, position, where)

    # What is done on the mount.

    def operation(self):
        actions = [self.write_chunk] * 10 + [self.write_part] * 5 + [self.recode] * 3 + [self.attribute] * 3 + [self.group] * 2 + \
            [self.remove_chunk, self.resize, self.sync_all]
        action = self.rng.choice(actions)
        self.done.append(action.__name__)
        action()

    def pick(self):
        name = self.rng.choice(list(VARIABLES))
        cells = kill_test.cells(name)
        if name == "sparse":
            height = self.book.heights[name].last
            cells = [cell for cell in cells if cell[0] * 20 < height]
        cell = self.rng.choice(cells)
        return name, cell, kill_test.chunk_file(self.mountpoint, name, cell)

    def new_content(self, name, cell):
        self.write_number += 1
        return kill_test.content(name, cell, self.write_number).tobytes()

    def store(self, path, data, offset, history, whole):
        history.begin(whole, self.position())
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            if os.pwrite(fd, data, offset) != len(data):
                raise Fault(f"{path}: a short write")
            if self.rng.random() < 0.4:
                self.done[-1] += " fsync"
                os.fsync(fd)
                history.acknowledge(self.position())
        finally:
            os.close(fd)

    def write_chunk(self):
        name, cell, path = self.pick()
        data = self.new_content(name, cell)
        self.store(path, data, 0, self.book.chunks[name, cell], data)

    def write_part(self):
        name, cell, path = self.pick()
        history = self.book.chunks[name, cell]
        new, old = self.new_content(name, cell), history.last
        begin = self.rng.randrange(0, len(new), 4)
        end = self.rng.randrange(begin, len(new), 4) + 4
        self.store(path, new[begin:end], begin, history, old[:begin] + new[begin:end] + old[end:])

    def remove_chunk(self):
        name, cell, path = self.pick()
        if VARIABLES[name][1] is None:
            return
        self.book.chunks[name, cell].begin(kill_test.content(name, cell, FILL).tobytes(), self.position())
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def recode(self):
        name = self.rng.choice(list(VARIABLES))
        if name == "whole" and self.kind == "hdf5":
            return
        spec = self.rng.choice(list(kill_test.CHAINS[self.kind]))
        chain = kill_test.CHAINS[self.kind][spec]
        is_same = chain == self.book.chains[name].last  # which changes nothing, and stores nothing
        self.book.chains[name].begin(chain, self.position())
        os.setxattr(self.mountpoint / name, "user._Filter", spec.encode())
        position = self.position()
        self.book.chains[name].acknowledge(position)
        for (other, _), history in self.book.chunks.items():  # what was written before it is stored first
            if other == name and not is_same:
                history.acknowledge(position)

    def attribute(self):
        name = self.rng.choice(list(VARIABLES))
        self.write_number += 1
        self.book.notes[name].begin(self.write_number, self.position())
        os.setxattr(self.mountpoint / name, "user.note", str(self.write_number).encode())

    def group(self):
        name = f"g{self.rng.randrange(3)}"
        history = self.book.groups.setdefault(name, History(False))
        path = self.mountpoint / name
        if history.last:
            history.begin(False, self.position())
            os.rmdir(path)
        else:
            history.begin(True, self.position())
            os.mkdir(path)

    def resize(self):
        """Of whole chunks, so that the chunks that go and come are known."""
        if self.kind == "zip":
            return
        height = self.rng.choice([20, 40, 60])
        path = self.mountpoint / "sparse/.zarray"
        text = json.loads(path.read_text())
        history = self.book.heights["sparse"]
        if height == history.last:
            return
        text["shape"][0] = height
        position = self.position()
        history.begin(height, position)
        for (name, cell), chunk in self.book.chunks.items():
            if name == "sparse" and cell[0] * 20 >= height:
                chunk.begin(kill_test.content(name, cell, FILL).tobytes(), position)
        path.write_text(json.dumps(text))

    def sync_all(self):
        fd = os.open(self.mountpoint, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        self.book.acknowledge_all(self.position())


# --- what is found


def read_source(path, kind):
    """{variable: (array, chain, note)}, and the names of the groups."""
    found, groups = {}, set()
    if kind == "hdf5":
        with h5py.File(path, "r") as file:
            for name in VARIABLES:
                dataset = file[name]
                plist = dataset.id.get_create_plist()
                chain = tuple(plist.get_filter(i)[0] for i in range(plist.get_nfilters()))
                found[name] = (dataset[()], chain, dataset.attrs.get("note"))
            groups = {name for name in file if name not in VARIABLES}
        return found, groups
    store = zarr.ZipStore(str(path), mode="r") if kind == "zip" else zarr.DirectoryStore(str(path))
    try:
        if kind == "zip" and (bad := store.zf.testzip()) is not None:
            raise Fault(f"{bad} is damaged in the archive")
        root = zarr.open_group(store, "r")
        for name in VARIABLES:
            array = root[name]
            chain = tuple(codec.codec_id for codec in [*(array.filters or []), array.compressor] if codec)
            found[name] = (array[...], chain, array.attrs.get("note"))
        # What a kill leaves of a group that is being made goes with the next mount.
        groups = {name for name in root.group_keys() if not (name.startswith(".") and ".codecfs-" in name)}
    finally:
        store.close()
    return found, groups


def number_of(note):
    return None if note is None else int(note)


def check_source(found, book, position, where):
    variables, groups = found
    for name, (array, chain, note) in variables.items():
        if chain not in (allowed := book.chains[name].allowed(position)):
            raise Fault(f"{where}: {name} has the chain {chain}, and none of {allowed}")
        if number_of(note) not in (allowed := book.notes[name].allowed(position)):
            raise Fault(f"{where}: attribute of {name} is {note}, and none of {allowed}")
        if name in book.heights and array.shape[0] not in (allowed := book.heights[name].allowed(position)):
            raise Fault(f"{where}: {name} has {array.shape[0]} rows, and none of {allowed}")
    for (name, cell), history in book.chunks.items():
        array = variables[name][0]
        place = kill_test.inside(name, cell)
        if place[0].start >= array.shape[0]:
            continue
        part = np.ascontiguousarray(array[place]).tobytes()
        allowed = history.allowed(position)
        if part not in allowed:
            raise Fault(f"{where}: {name} {cell} holds {what_it_is(part, history)}, and not one of the {len(allowed)} contents that it may hold")
    for name in groups - set(book.groups):
        raise Fault(f"{where}: there is an object {name} that was never made")
    for name, history in book.groups.items():
        if (name in groups) not in history.allowed(position):
            raise Fault(f"{where}: group {name} is {'there' if name in groups else 'not there'}")


def what_it_is(part, history):
    for i, (value, begun, durable) in enumerate(history.versions):
        if value == part:
            return f"version {i} of {len(history.versions)} (begun at {begun}, durable at {durable})"
    return "what was never written"


def matching(found, book):
    """(history, the version that was found) of everything."""
    variables, groups = found
    for name, (array, chain, note) in variables.items():
        yield book.chains[name], chain
        yield book.notes[name], number_of(note)
        if name in book.heights:
            yield book.heights[name], array.shape[0]
    for (name, cell), history in book.chunks.items():
        array = variables[name][0]
        place = kill_test.inside(name, cell)
        is_outside = place[0].start >= array.shape[0]
        yield history, kill_test.content(name, cell, FILL).tobytes() if is_outside else np.ascontiguousarray(array[place]).tobytes()
    for name, history in book.groups.items():
        yield history, name in groups


def differences(ours, theirs, path=""):
    for name in ours.keys() | theirs.keys():
        a, b = ours.get(name), theirs.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            yield from differences(a, b, f"{path}{name}/")
        elif a != b:
            yield f"{path}{name}"


# --- states


class Judge:
    """Writes a state to the disk, recovers it and looks at it."""

    def __init__(self, told, recording, scratch, counts):
        self.told, self.recording, self.scratch, self.counts = told, recording, scratch, counts
        self.place = scratch / "state"
        self.source = self.place / recording.source.name
        self.kind = recording.kind

    def tool(self, *arguments):
        done = run(self.told.codecfs, *arguments, self.source, code=None)
        return done.returncode, done.output

    def look(self, tree, position, must_open, where):
        shutil.rmtree(self.place, ignore_errors=True)
        replay.write_tree(tree, self.place)
        self.counts["states"] += 1
        if not self.source.exists():
            return self.recording.check(self.source, position, where, True)
        if must_open:
            self.read(position, f"{where}, before the recovery", compare=False)
            self.counts["opened before the recovery"] += 1
        if self.kind == "hdf5" or self.recording.rng.random() < 0.05:
            self.recover(where)
        self.read(position, where)
        if self.kind == "hdf5" and self.recording.rng.random() < 0.15:
            before = self.source.read_bytes()
            self.recover(f"{where}, again")
            if self.source.read_bytes() != before:
                raise Fault(f"{where}: a second --recover changes the file")
            self.counts["recovered twice"] += 1

    def recover(self, where):
        code, text = self.tool("--recover")
        if code != 0:
            raise Fault(f"{where}: --recover ended with {code}: {text.strip()}")
        if self.kind == "hdf5" and (self.place / f".{self.source.name}.codecfs-wal").exists():
            raise Fault(f"{where}: the log is still there after --recover")

    def read(self, position, where, compare=True):
        try:
            self.recording.check(self.source, position, where, compare)
        except Fault:
            raise
        except Exception as error:  # noqa: B902: whatever a reader says of a damaged file
            raise Fault(f"{where}: cannot be read: {type(error).__name__}: {error}") from error


def apply(world, record):
    try:
        world.apply(record)
    except (KeyError, AttributeError) as error:
        raise Fault(f"cannot replay {record}: {error!r}") from error


def chosen_steps(recording, mode, count):
    """Indices of records after which the world is looked at, and how often."""
    steps = range(len(recording.records))
    if mode == "kill" and len(steps) <= count:
        return {i: 1 for i in steps}
    return collections.Counter(recording.rng.choices(steps, k=count))


def replay_recording(told, recording, mode, count, scratch, counts, failures, found_states=None):
    world = copy.deepcopy(recording.first)
    judge = Judge(told, recording, scratch, counts)
    steps = chosen_steps(recording, mode, count)
    source = recording.source.name
    log = f".{source}.codecfs-wal"
    in_checkpoint = False
    for i, record in enumerate(recording.records):
        apply(world, record)
        node = world.root.names.get(source)
        if isinstance(node, replay.File):
            if any(change[0] in (replay.WRITE, replay.TRUNCATE) for change in node.pending):
                in_checkpoint = True
            elif record.path == log and record.operation in (replay.WRITE, replay.TRUNCATE, replay.UNLINK):
                in_checkpoint = False  # the log says that it is over
        for variant in range(steps.get(i, 0)):
            is_clean = isinstance(node, replay.File) and not in_checkpoint
            rng = replay.random_of(told.seed, recording.kind, recording.name, mode, i, variant)
            tree = world.tree_now() if mode == "kill" else world.tree_after_power_cut(rng)
            if found_states is not None and log in tree and source in tree:
                found_states.append((recording.position_of(record), tree, is_clean))
            where = f"{recording.name}, {mode} after call {i} ({record})"
            try:
                judge.look(tree, recording.position_of(record), mode == "kill" and is_clean and recording.begins_clean and recording.kind == "hdf5",
                           where)
            except Fault as fault:
                failures.append(f"{fault}")
                before = "; ".join(map(str, recording.records[max(0, i - 3):i]))
                print(f"--- FAILED: {fault}\n  again with: scripts/record-test {mode} {told.count} {told.seed} {recording.kind} "
                      f"--only {recording.number}\n  before it: {before}", flush=True)
                if told.keep:
                    told.keep.mkdir(parents=True, exist_ok=True)
                    folder = told.keep / f"{recording.kind}-{recording.number}-{mode}-{i}-{variant}"
                    shutil.rmtree(folder, ignore_errors=True)
                    replay.write_tree(tree, folder)
                if len(failures) >= told.most:
                    return


# --- the command without a mount, and new sources


class ToolRecording(Recording):
    """Of one run of the command on a state of another recording."""

    def __init__(self, folder, of, tree, position, argument, begins_clean=True):
        super().__init__(of.told, folder, of.kind, of.number)
        self.name = f"{of.name}, {argument}"
        self.place.rmdir()
        replay.write_tree(tree, self.place)
        self.first = replay.World.load(self.place)
        self.book, self.at, self.argument = of.book, position, argument
        self.begins_clean = begins_clean

    def position_of(self, _):
        return self.at

    def run(self):
        code, text = self.run_tool(self.argument)
        if code != 0:
            raise Fault(f"{self.name} ended with {code}: {text.strip()}")
        self.check_complete()


class NewRecording(Recording):
    """A source that -o create= makes, with one variable and one chunk that is synced."""

    def __init__(self, told, folder, kind, number):
        super().__init__(told, folder, kind, number)
        self.name += ", create"

    def run(self):
        self.first = replay.World.load(self.place)
        mount = self.mount(f"create={self.kind},view=decoded", "commit=3600")
        try:
            variable = self.mountpoint / "v"
            variable.mkdir()
            (variable / ".zarray").write_text(json.dumps({
                "zarr_format": 2, "shape": [4, 6], "chunks": [2, 6], "dtype": "<i4", "fill_value": -1, "order": "C", "compressor": None,
                "filters": None}))
            self.content = np.arange(12, dtype="<i4").reshape(2, 6)
            fd = os.open(variable / "1.0", os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.write(fd, self.content.tobytes())
                os.fsync(fd)
            finally:
                os.close(fd)
            self.synced = self.position()
            self.unmount(mount)
        finally:
            mount.end()
        self.check_complete()

    def check(self, path, position, where, compare):
        if not os.path.lexists(path) and position < self.synced:
            return
        if self.kind == "hdf5":
            with h5py.File(path, "r") as file:
                array = file["v"][()] if isinstance(file.get("v"), h5py.Dataset) else None  # a group becomes one
        else:
            store = zarr.ZipStore(str(path), mode="r") if self.kind == "zip" else zarr.DirectoryStore(str(path))
            root = zarr.open_group(store, "r")
            array = root["v"][...] if "v" in root and isinstance(root["v"], zarr.Array) else None
            store.close()
        if not compare:
            return
        if array is None or (array[2:] == -1).all():
            if position >= self.synced:
                raise Fault(f"{where}: what was synced is not there")
        elif not np.array_equal(array[2:], self.content) or (array[:2] != -1).any():
            raise Fault(f"{where}: wrong content")


def run_kind(told, directory, kind, mode, counts, failures):
    """Recordings until there are enough states."""
    number = told.only or 0
    done = 0
    while done < told.count and len(failures) < told.most:
        share = min(STATES_OF_A_RECORDING, told.count - done)
        folder = directory / f"{kind}-{mode}-{number}"

        def work(number=number, folder=folder, share=share):
            return run_recordings(told, folder, kind, mode, number, share)

        folder.mkdir()
        ended = support.in_child(work, 600)
        try:
            some, more = json.loads((folder / "report").read_text())
            counts.update(some)
            failures.extend(more)
        except FileNotFoundError:
            ended = ended or "no report"
        if ended:
            failures.append(f"recording {number}: {ended}")
            print(f"--- FAILED: {kind}, recording {number}: {ended}; again with: scripts/record-test {mode} {told.count} {told.seed} {kind} "
                  f"--only {number}", flush=True)
        detach_below(folder)
        shutil.rmtree(folder, ignore_errors=True)
        done += share
        number += 1
        if told.only is not None:
            break


def run_recordings(told, folder, kind, mode, number, share):
    """One recording of a mount, and some of the command; in a process of its own. Writes the report."""
    counts, failures = collections.Counter(), []

    def replayed(made, part, found_states=None):
        made.run()
        counts["recordings"] += 1
        counts["recorded calls"] += len(made.records)
        replay_recording(told, made, mode, max(1, part), made.folder, counts, failures, found_states)

    def place(name):
        made = folder / name
        made.mkdir()
        return made

    try:
        found_states = []
        recording = Recording(told, place("mount"), kind, number)
        replayed(recording, share * 7 // 10, found_states)
        position = recording.records[-1].end
        others = [lambda: NewRecording(told, place("create"), kind, number)]
        if kind != "zarr":
            others.append(lambda: ToolRecording(place("compact"), recording, recording.last, position, "--compact"))
        if kind == "hdf5" and found_states:
            at, tree, is_clean = recording.rng.choice(found_states)
            others.append(lambda: ToolRecording(place("recover"), recording, tree, at, "--recover", is_clean and mode == "kill"))
        for other in others:
            if not failures:
                replayed(other(), share * 3 // 10 // len(others))
    except (Fault, MountError) as fault:
        failures.append(str(fault))
        print(f"--- FAILED: {kind}, recording {number}: {fault}\n  again with: scripts/record-test {mode} {told.count} {told.seed} {kind} "
              f"--only {number}", flush=True)
    (folder / "report").write_text(json.dumps([counts, failures]))
    return True


def main():
    made = support.parser("record-test", __doc__, 1000, "states of each kind of source")
    made.usage = "record-test [-h] [OPTIONS] [kill|power] [COUNT] [SEED] [hdf5|zarr|zip]"
    made.add_argument("kind", nargs="?", choices=KINDS, help="only this kind of source")
    made.add_argument("--only", type=int, metavar="NUMBER", help="only the recording of this number")
    made.add_argument("--most", type=int, default=10, metavar="N", help="end after so many failures (default 10)")
    arguments = sys.argv[1:]
    modes = ["kill", "power"]
    if arguments and arguments[0] in modes:
        modes = [arguments.pop(0)]
    told = support.parse(made, arguments)
    import_libraries()
    directory = support.scratch("codecfs-record-")
    begun, counts, failures = time.monotonic(), collections.Counter(), []
    try:
        told.recorder = build_recorder(directory)
        for kind in [told.kind] if told.kind else KINDS:
            for mode in modes:
                print(f"record-test: {mode}, {kind}, {told.count} states, seed {told.seed}; left out: {sorted(told.left_out)}", flush=True)
                run_kind(told, directory, kind, mode, counts, failures)
    finally:
        detach_below(directory)
        shutil.rmtree(directory, ignore_errors=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    print(f"record-test: {len(failures)} failures in {time.monotonic() - begun:.0f} s; seed {told.seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
