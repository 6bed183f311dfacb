"""Exercises the files of a writable mount at random, as fsx does with ordinary files, against a model in memory.

    exerciser.py CODECFS hdf5|zarr|zip [OPERATIONS [SEED]]

Opens, reads, writes, cuts, maps, syncs, lists, removes and replaces chunk files, encoded chunks, and the files of the npy
and raw views, all of the same few variables, and compares each byte and length with the model. Now and then everything is
closed and the dataset is unmounted, or synced and its daemon killed; then it is mounted again at the same place, and goes
on. After an unmount h5py (zarr-python) reads the source. The seed is printed, and gives the same operations again; after
a failure so are the last operations.
"""
import collections
import errno
import itertools
import json
import mmap
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback

import h5py
import numcodecs
import numpy as np
import zarr

sys.path.append(str(pathlib.Path(__file__).parents[2] / "support"))
from mounts import Mount, detach, is_mounted, kill_with_survivors  # noqa: E402

FILL = -7
# name: (shape, chunks, how it is stored). The chunks of "short" are no pages, those of "pages" are; "sparse" has none at first.
VARIABLES = {
    "short": ((23, 90), (10, 50), {"compressed": True}),
    "pages": ((64, 256), (16, 128), {}),
    "sparse": ((40, 60, 6), (7, 16, 6), {"compressed": True, "empty": True}),
    "large": ((300, 1000), (128, 1000), {"compressed": True}),
    "whole": ((60, 50), None, {}),
}
VIEW = ".codecfs/view"
# Before it, what is written past the page cache is seen by others a moment later, or when the file is closed.
SEES_DIRECT_WRITES = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 6)
TRACE = 80  # operations that are shown after a failure


class Fault(Exception):
    pass


def expect(code, action, *arguments):
    """The action fails with this errno."""
    try:
        action(*arguments)
    except OSError as error:
        if error.errno != code:
            raise Fault(f"{errno.errorcode[code]} was expected, and not {error}") from error
        return
    raise Fault(f"{errno.errorcode[code]} was expected, and it succeeded")


class Variable:
    """What a variable should hold: an array of whole chunks, which chunks exist, and how long open ones are."""

    def __init__(self, name):
        self.name = name
        self.shape, chunks, self.options = VARIABLES[name]
        self.chunks = chunks or self.shape
        self.cells = list(itertools.product(*(range(-(-n // c)) for n, c in zip(self.shape, self.chunks))))
        self.capacity = 4 * int(np.prod(self.chunks))
        self.grid = np.full([-(-n // c) * c for n, c in zip(self.shape, self.chunks)], FILL, "<i4")
        self.stored = set()
        self.length = {}  # of chunks that are shorter than a chunk
        self.removed = set()
        if not self.options.get("empty"):
            self.inside[...] = np.random.default_rng(5).integers(0, 3000, self.shape)
            self.stored.update(self.cells)
        self.prefix = b""  # the header of the npy file

    @property
    def inside(self):
        return self.grid[tuple(slice(n) for n in self.shape)]

    def part(self, cell):
        return self.grid[tuple(slice(i * c, (i + 1) * c) for i, c in zip(cell, self.chunks))]

    def chunk(self, cell):
        return self.part(cell).tobytes()

    def put_chunk(self, cell, content):
        self.part(cell)[...] = np.frombuffer(content, "<i4").reshape(self.chunks)
        self.stored.add(cell)
        self.removed.discard(cell)

    def fill(self, start):
        """The bytes of a chunk of fill from a byte on."""
        return np.full(self.capacity // 4, FILL, "<i4").tobytes()[start:]


class ChunkFile:
    can_be_short = True

    def __init__(self, variable, cell):
        self.variable, self.cell = variable, cell
        self.name = f"{variable.name}/{'.'.join(map(str, cell))}"
        self.capacity = variable.capacity

    def exists(self):
        return self.cell in self.variable.stored

    def size(self):
        return self.variable.length.get(self.cell, self.capacity)

    def content(self):
        return self.variable.chunk(self.cell)[:self.size()]

    def put(self, offset, data):
        whole = bytearray(self.variable.chunk(self.cell))
        gap = max(offset - self.size(), 0)
        whole[offset - gap:offset + len(data)] = bytes(gap) + data
        self.variable.put_chunk(self.cell, whole)
        self.set_size(max(self.size(), offset + len(data)))

    def cut(self, size):
        """What is behind the length is fill; what a file grows by is zeros."""
        keep = min(size, self.size())
        self.variable.put_chunk(self.cell, self.variable.chunk(self.cell)[:keep] + bytes(size - keep) + self.variable.fill(size))
        self.set_size(size)

    def set_size(self, size):
        if size == self.capacity:
            self.variable.length.pop(self.cell, None)
        else:
            self.variable.length[self.cell] = size


class ArrayFile:
    can_be_short = False
    cell = None

    def __init__(self, variable, view):
        self.variable = variable
        self.name = f"{VIEW}/{view}/{variable.name}" + (".npy" if view == "npy" else "")
        self.prefix = variable.prefix if view == "npy" else b""
        self.capacity = len(self.prefix) + variable.inside.nbytes

    def exists(self):
        return True

    def size(self):
        return self.capacity

    def content(self):
        return self.prefix + self.variable.inside.tobytes()

    def put(self, offset, data):
        whole = bytearray(self.content())
        whole[offset:offset + len(data)] = data
        self.variable.inside[...] = np.frombuffer(whole, "<i4", offset=len(self.prefix)).reshape(self.variable.shape)
        first, last = max(offset - len(self.prefix), 0) // 4, (offset + len(data) - len(self.prefix) - 1) // 4
        if last < 0:
            return
        touched = np.zeros(self.variable.shape, bool)
        touched.reshape(-1)[first:last + 1] = True
        self.touch(touched)

    def put_mapped(self, offset, data):
        """Of the pages of a mapping only what changed is stored."""
        before = self.variable.inside.copy()
        whole = bytearray(self.content())
        whole[offset:offset + len(data)] = data
        self.variable.inside[...] = np.frombuffer(whole, "<i4", offset=len(self.prefix)).reshape(self.variable.shape)
        self.touch(before != self.variable.inside)

    def touch(self, touched):
        """The chunks of these elements are whole now, and exist."""
        for cell in self.variable.cells:
            if touched[tuple(slice(i * c, (i + 1) * c) for i, c in zip(cell, self.variable.chunks))].any():
                self.variable.stored.add(cell)
                self.variable.removed.discard(cell)
                self.variable.length.pop(cell, None)


class Handle:
    def __init__(self, file, fd, access, truncated):
        self.file, self.fd, self.access = file, fd, access
        self.end = 0 if truncated else None  # of an array file that was opened with O_TRUNC: what is written so far


class Mapping:
    def __init__(self, file, map_, writable, writer):
        self.file, self.map, self.writable, self.writer = file, map_, writable, writer
        self.dirty = False


class Exerciser:
    def __init__(self, codecfs, kind, directory, seed):
        self.codecfs, self.kind, self.directory = codecfs, kind, pathlib.Path(directory).resolve()
        self.rng = random.Random(f"{kind} {seed}")
        self.source = self.directory / {"hdf5": "data.h5", "zarr": "data.zarr", "zip": "data.zip"}[kind]
        self.root = self.directory / "mnt"
        self.root.mkdir()
        self.log = self.directory / "daemon.log"
        self.counts = collections.Counter()
        self.trace = open(self.directory / "operations", "w", buffering=1)  # is there after a SIGBUS too
        self.number = 0
        self.variables = {name: Variable(name) for name in VARIABLES}
        self.handles, self.maps, self.process = [], [], None
        self.make_source()

    # --- the source and the mount

    def make_source(self):
        if self.kind == "hdf5":
            with h5py.File(self.source, "w") as file:
                for name, variable in self.variables.items():
                    chunked = VARIABLES[name][1] is not None
                    filters = {"compression": "gzip", "shuffle": True} if variable.options.get("compressed") else {}
                    v = file.create_dataset(name, variable.shape, "<i4", chunks=variable.chunks if chunked else None, fillvalue=FILL, **filters)
                    v.attrs["_FillValue"] = np.int32(FILL)
                    if variable.stored:
                        v[...] = variable.inside
            return
        store = zarr.ZipStore(str(self.source), mode="w") if self.kind == "zip" else zarr.DirectoryStore(str(self.source))
        group = zarr.open_group(store, "w")
        for name, variable in self.variables.items():
            compressed = variable.options.get("compressed")
            v = group.create_dataset(name, shape=variable.shape, chunks=variable.chunks, dtype="<i4", fill_value=FILL,
                                     compressor=numcodecs.Zlib(1) if compressed else None)
            if variable.stored:
                v[...] = variable.inside
        store.close()

    def compare_source(self):
        if self.kind == "hdf5":
            with h5py.File(self.source, "r") as file:
                found = {name: file[name][()] for name in self.variables}
        else:
            group = zarr.open_group(str(self.source), "r")
            found = {name: group[name][...] for name in self.variables}
        for name, variable in self.variables.items():
            if not np.array_equal(found[name], variable.inside):
                raise Fault(f"{name} in the source: {differences(found[name].tobytes(), variable.inside.tobytes())}")
        self.counts["sources compared"] += 1

    def mount(self):
        options = [f"commit={self.rng.choice([1, 3600])}", f"dirty={self.rng.choice(['1M', '128M'])}",
                   f"cache={self.rng.choice(['1M', '64M'])}", f"threads={self.rng.choice([1, 2, 8])}"]
        self.note(f"mount -o {','.join(options)}")
        self.mounted = Mount(self.source, self.root, *options, program=self.codecfs, log=self.log)
        self.process = self.mounted.process
        (self.directory / "pid").write_text(str(self.process.pid))
        for variable in self.variables.values():
            self.adopt(variable)

    def adopt(self, variable):
        """Reads what the model cannot know: what is stored of edges outside of the array, and whether a removed
        chunk is there as one of fill."""
        listed = self.listed(variable)
        for cell in sorted(variable.removed & listed):
            variable.stored.add(cell)
        variable.removed.clear()
        if not variable.prefix:
            npy = self.root / VIEW / "npy" / f"{variable.name}.npy"
            variable.prefix = npy.read_bytes()[:npy.stat().st_size - variable.inside.nbytes]
            for cell in sorted(variable.stored):
                before = variable.inside.copy()
                variable.put_chunk(cell, (self.root / ChunkFile(variable, cell).name).read_bytes())
                if not np.array_equal(before, variable.inside):
                    raise Fault(f"{variable.name} {cell} of a fresh source is not what was stored")

    def end(self):
        """Cleans up in the parent process, whatever has happened."""
        if (self.directory / "pid").exists() and is_mounted(self.root):
            try:
                os.kill(int((self.directory / "pid").read_text()), signal.SIGKILL)
            except ProcessLookupError:
                pass
        detach(self.root)

    def close_all(self):
        while self.maps:
            self.maps.pop().map.close()
        while self.handles:
            try:
                os.close(self.handles.pop().fd)
            except OSError:
                pass  # of a dead mount

    def unmount(self):
        for variable in self.variables.values():
            self.settle(variable)
        while self.maps:
            self.unmap(self.maps[-1])
        while self.handles:
            self.close(self.handles[-1])
        for variable in self.variables.values():
            self.compare_listing(variable)
        if self.rng.random() < 0.3:
            self.note("SIGTERM")
            self.process.send_signal(signal.SIGTERM)
            self.mounted.wait(60)
        else:
            self.note("fusermount3 -u")
            self.mounted.unmount(60)
        self.compare_source()
        self.counts["unmounts"] += 1

    def sync_and_kill(self):
        """What is durable by then is all that the model holds; files that are open meanwhile are gone with it."""
        for variable in self.variables.values():
            self.settle(variable)
        fd = os.open(self.root, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        alone = self.rng.random() < 0.5
        self.note(f"fsync of all, SIGKILL to {'the daemon' if alone else 'everything'}")
        if alone:
            self.process.kill()
        else:
            kill_with_survivors(self.process.pid)
        self.process.wait()
        if self.handles:
            try:
                os.fsync(self.handles[0].fd)
                raise Fault("fsync succeeded after the death of the daemon")
            except OSError as error:
                if error.errno not in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO):
                    raise
        self.close_all()
        for variable in self.variables.values():
            variable.length.clear()
        self.counts["kills"] += 1

    def remount(self):
        if self.rng.random() < 0.4:
            self.sync_and_kill()
        else:
            self.unmount()
        self.mount()

    # --- comparing

    def listed(self, variable):
        names = [name for name in os.listdir(self.root / variable.name) if name[0].isdigit()]
        return {tuple(int(i) for i in name.split(".")) for name in names}

    def compare_listing(self, variable):
        found = self.listed(variable)
        if found != variable.stored:
            raise Fault(f"{variable.name} lists {sorted(found)}, and not {sorted(variable.stored)}")

    def compare(self, found, wanted, what):
        if found != wanted:
            raise Fault(f"{what}: {differences(found, wanted)}")
        self.counts["bytes compared"] += len(wanted)

    # --- mapped pages and other views

    def settle(self, variable, but=None):
        """What is written through a mapping is seen in other views when it is synced."""
        for mapping in self.maps:
            if mapping.dirty and mapping.file.variable is variable and mapping.file.name != but:
                mapping.map.flush()
                mapping.dirty = False

    def writers(self, file):
        return [handle for handle in self.handles if handle.file.name == file.name and handle.access != os.O_RDONLY] + \
            [mapping for mapping in self.maps if mapping.file.name == file.name and mapping.writer]

    def users(self, file):
        return [use for use in self.handles + self.maps if use.file.name == file.name]

    def closed(self, file):
        """A short chunk is whole again a moment after its last writer has closed it."""
        if not file.can_be_short or file.size() == file.capacity or self.writers(file):
            return
        file.set_size(file.capacity)
        deadline = time.monotonic() + 10
        while os.stat(self.root / file.name).st_size != file.capacity:
            if time.monotonic() > deadline:
                raise Fault(f"{file.name} is still short 10 s after it was closed")
            time.sleep(0.001)

    # --- operations: each is drawn from OPERATIONS

    def any_file(self, must_exist=True):
        variable = self.variables[self.rng.choice(list(self.variables))]
        if self.rng.random() < 0.35:
            return ArrayFile(variable, self.rng.choice(["npy", "raw"]))
        cells = sorted(variable.stored) if must_exist else variable.cells
        return ChunkFile(variable, self.rng.choice(cells)) if cells else ArrayFile(variable, "npy")

    def any_chunk(self, must_exist=True):
        while True:
            file = self.any_file(must_exist)
            if file.can_be_short:
                return file

    def place(self, size):
        """A stretch within a file, of all sizes; now and then at pages, or at the end."""
        offset = self.rng.randrange(max(size, 1))
        if self.rng.random() < 0.3:
            offset -= offset % 4096
        length = self.rng.choice([1, 3, 100, 4096, 5000, 70_000, 1 << 20])
        length = size - offset if self.rng.random() < 0.1 else self.rng.randrange(length + 1)
        return offset, length

    def data(self, length):
        if self.rng.random() < 0.4:
            return bytes([self.rng.randrange(256)]) * length
        return self.rng.randbytes(length)

    def note(self, what):
        self.trace.write(f"{self.number}: {what}\n")
        self.counts[what.split(" ", 1)[0]] += 1

    def open(self, file=None):
        if len(self.handles) >= 8:
            return self.close(self.rng.choice(self.handles))
        file = file or self.any_file()
        access = self.rng.choice([os.O_RDONLY, os.O_RDWR, os.O_RDWR, os.O_WRONLY])
        truncate = access != os.O_RDONLY and self.rng.random() < 0.15
        self.note(f"open {file.name} {['O_RDONLY', 'O_WRONLY', 'O_RDWR'][access]}{' O_TRUNC' * truncate}")
        self.settle(file.variable, None if not truncate else file.name)
        if truncate:
            self.settle(file.variable)
        fd = os.open(self.root / file.name, access | (os.O_TRUNC if truncate else 0))
        handle = Handle(file, fd, access, truncate and not file.can_be_short)
        self.handles.append(handle)
        if truncate and file.can_be_short:
            self.write_anew(handle)

    def write_anew(self, handle):
        """A chunk that was opened with O_TRUNC: all of it, or a part, which is refused."""
        file = handle.file
        is_part = not any(other.file is file for other in self.handles if other is not handle) and not self.maps and self.rng.random() < 0.3
        data = self.data(self.rng.randrange(1, file.capacity) if is_part else file.capacity)
        if os.pwrite(handle.fd, data, 0) != len(data):
            raise Fault(f"{file.name}: not all was written")
        if is_part:
            self.note(f"refused {file.name} {len(data)}")
            self.handles.remove(handle)
            expect(errno.EINVAL, os.close, handle.fd)
            self.closed(file)
            return
        file.cut(0)
        file.put(0, data)
        if handle.access == os.O_WRONLY and not SEES_DIRECT_WRITES:
            self.close(handle)

    def handle(self, *accesses):
        fitting = [handle for handle in self.handles if handle.access in accesses]
        return self.rng.choice(fitting) if fitting else None

    def close(self, handle=None):
        handle = handle or (self.rng.choice(self.handles) if self.handles else None)
        if handle is None:
            return
        self.note(f"close {handle.file.name}")
        self.handles.remove(handle)
        os.close(handle.fd)
        self.closed(handle.file)

    def read(self):
        handle = self.handle(os.O_RDONLY, os.O_RDWR)
        if handle is None:
            return self.open()
        file = handle.file
        self.settle(file.variable, file.name)
        offset, length = self.place(file.capacity)
        self.note(f"read {file.name} {offset} +{length} of {file.size()}")
        self.compare(os.pread(handle.fd, length, offset), file.content()[offset:offset + length], f"read of {file.name} at {offset}")

    def write(self):
        handle = self.handle(os.O_WRONLY, os.O_RDWR)
        if handle is None:
            return self.open()
        file = handle.file
        self.settle(file.variable, file.name if handle.access == os.O_RDWR and handle.end is None else None)
        offset, length = self.place(file.capacity)
        if self.rng.random() < 0.02:
            offset = file.capacity
        data = self.data(length)
        skipped = len(file.prefix) - offset if not file.can_be_short else 0
        if skipped > 0:  # the header may be written as it is
            data = file.content()[offset:offset + min(skipped, length)] + data[min(skipped, length):]
        self.note(f"write {file.name} {offset} +{length} of {file.size()}{' O_WRONLY' * (handle.access == os.O_WRONLY)}")
        if offset >= file.capacity and length > 0:
            expect(errno.EFBIG, os.pwrite, handle.fd, data, offset)
            return self.await_notices(file)
        # As write(2) may: only what there is room for, or a part of that.
        written = os.pwrite(handle.fd, data, offset)
        if written != min(length, file.capacity - offset):
            raise Fault(f"{written} bytes were written to {file.name}, and not {min(length, file.capacity - offset)}")
        is_later = handle.access == os.O_WRONLY and not SEES_DIRECT_WRITES
        if handle.end is not None and length > 0:
            is_later |= self.leave_zeros(handle, offset)
            handle.end = max(handle.end, offset + written)
        if written > 0:
            file.put(offset, data[:written])
        if is_later:
            self.close(handle)
        elif written < length:
            self.await_notices(file)

    def await_notices(self, file):
        """The kernel hears which pages it must not keep when the call that was refused is over; a close waits for that."""
        os.close(os.open(self.root / file.name, os.O_WRONLY))

    @staticmethod
    def leave_zeros(handle, offset):
        """After O_TRUNC of an array's file, what is left out is zeros; seen by all when it is closed. Whether there is any."""
        start = max(handle.end, len(handle.file.prefix))
        if offset > start:
            handle.file.put(start, bytes(offset - start))
        return offset > start

    def truncate(self):
        handle = self.handle(os.O_WRONLY, os.O_RDWR)
        file = handle.file if handle and self.rng.random() < 0.7 else self.any_file()
        by_name = handle is None or file is not handle.file
        target = self.root / file.name if by_name else handle.fd
        self.settle(file.variable)
        size = self.rng.choice([0, 1, 4096, file.size(), file.capacity, file.capacity + 1, self.rng.randrange(file.capacity + 1)])
        self.note(f"truncate {file.name} {file.size()} -> {size}{' by name' * by_name}")
        if size > file.capacity and file.can_be_short:
            return expect(errno.EFBIG, os.truncate, target, size)
        if not file.can_be_short:
            if size != file.capacity:
                return expect(errno.EINVAL, os.truncate, target, size)
            os.truncate(target, size)
            if not by_name and handle.end is not None:
                is_later = self.leave_zeros(handle, size)
                handle.end = max(handle.end, size)
                if is_later:
                    self.close(handle)
            return None
        os.truncate(target, size)
        file.cut(size)
        return self.closed(file)

    def sync(self):
        handle = self.handle(os.O_RDONLY, os.O_WRONLY, os.O_RDWR)
        if handle is None:
            return self.open()
        self.note(f"fsync {handle.file.name}")
        os.fsync(handle.fd)
        for mapping in self.maps:
            if mapping.file.name == handle.file.name:
                mapping.dirty = False

    def map(self):
        if len(self.maps) >= 5:
            return self.unmap(self.rng.choice(self.maps))
        handle = self.handle(os.O_RDONLY, os.O_RDWR)
        if handle is None or handle.file.size() == 0:
            return self.open()
        writable = handle.access == os.O_RDWR and self.rng.random() < 0.8
        file = handle.file
        self.note(f"mmap {file.name}{' writable' * writable} {file.size()}")
        map_ = mmap.mmap(handle.fd, file.size(), mmap.MAP_SHARED, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))
        self.maps.append(Mapping(file, map_, writable, handle.access != os.O_RDONLY))

    def unmap(self, mapping=None):
        mapping = mapping or (self.rng.choice(self.maps) if self.maps else None)
        if mapping is None:
            return
        self.note(f"munmap {mapping.file.name}")
        # Its pages stay dirty after it: an open of the file sees them, another view does not.
        self.settle(mapping.file.variable)
        self.maps.remove(mapping)
        mapping.map.close()
        self.closed(mapping.file)

    def mapped(self):
        """Reads or writes through a mapping; beyond the file's end that would be SIGBUS."""
        if not self.maps:
            return self.map()
        mapping = self.rng.choice(self.maps)
        file = mapping.file
        size = min(file.size(), len(mapping.map))
        if size == 0:
            return None
        self.settle(file.variable, file.name)
        os.stat(self.root / file.name)  # a page fault does not ask how long a file is that was short
        offset, length = self.place(size)
        length = min(length, size - offset)
        if not mapping.writable or self.rng.random() < 0.5:
            self.note(f"mread {file.name} {offset} +{length}")
            return self.compare(mapping.map[offset:offset + length], file.content()[offset:offset + length],
                                f"mapped read of {file.name} at {offset}")
        start = max(offset, len(file.prefix) if not file.can_be_short else 0)
        length = offset + length - start
        if length <= 0:
            return None
        data = self.data(length)
        self.note(f"mwrite {file.name} {start} +{length} of {size}")
        mapping.map[start:start + length] = data
        (file.put if file.can_be_short else file.put_mapped)(start, data)
        mapping.dirty = True
        has_gaps = file.variable.length or len(file.variable.stored) < len(file.variable.cells)
        if self.rng.random() < 0.3 or (has_gaps and not file.can_be_short):
            self.note(f"msync {file.name}")
            mapping.map.flush()
            mapping.dirty = False

    def look(self):
        variable = self.variables[self.rng.choice(list(self.variables))]
        self.note(f"list {variable.name}")
        self.settle(variable)
        self.compare_listing(variable)
        file = self.any_file(must_exist=False)
        self.settle(file.variable, file.name)
        self.note(f"stat {file.name}")
        if not file.exists():
            return expect(errno.ENOENT, os.stat, self.root / file.name)
        if os.stat(self.root / file.name).st_size != file.size():
            raise Fault(f"{file.name} has {os.stat(self.root / file.name).st_size} bytes, and not {file.size()}")

    def create(self):
        """A chunk that may not exist, as cp makes it."""
        file = self.any_chunk(must_exist=False)
        if self.writers(file):
            return
        self.settle(file.variable)
        data = self.data(self.rng.choice([0, self.rng.randrange(file.capacity), file.capacity]))
        self.note(f"create {file.name} {len(data)}")
        fd = os.open(self.root / file.name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        if os.write(fd, data) != len(data):
            raise Fault(f"{file.name}: not all was written")
        if file.exists() and 0 < len(data) < file.capacity:
            expect(errno.EINVAL, os.close, fd)
            return
        os.close(fd)
        file.cut(0)
        if data:
            file.put(0, data)
        self.closed(file)

    def remove(self):
        file = self.any_chunk()
        if self.users(file) or self.rng.random() < 0.5:
            return
        self.settle(file.variable)
        self.note(f"unlink {file.name}")
        os.unlink(self.root / file.name)
        file.variable.put_chunk(file.cell, file.variable.fill(0))
        file.variable.stored.discard(file.cell)
        file.variable.removed.add(file.cell)
        file.set_size(file.capacity)

    def replace(self):
        """Written beside it and renamed, as zarr-python and editors do."""
        file = self.any_chunk(must_exist=False)
        if self.writers(file):
            return
        self.settle(file.variable)
        data = self.data(self.rng.choice([self.rng.randrange(file.capacity), file.capacity, file.capacity]))
        self.note(f"rename {file.name} {len(data)}")
        beside = self.root / file.variable.name / f".beside.{self.number}"
        beside.write_bytes(data)
        if len(data) < file.capacity:
            expect(errno.EINVAL, os.replace, beside, self.root / file.name)
            beside.unlink()
            return
        os.replace(beside, self.root / file.name)
        file.cut(0)
        file.put(0, data)

    def codecs(self, variable):
        told = json.loads((self.root / VIEW / "encoded" / variable.name / ".zarray").read_text())
        chain = (told["filters"] or []) + ([told["compressor"]] if told["compressor"] else [])
        return [numcodecs.get_codec(codec) for codec in chain]

    def read_encoded(self):
        file = self.any_chunk()
        self.settle(file.variable)
        self.note(f"encoded read {file.name}")
        data = (self.root / VIEW / "encoded" / file.name).read_bytes()
        for codec in reversed(self.codecs(file.variable)):
            data = codec.decode(data)
        self.compare(bytes(data), file.variable.chunk(file.cell), f"encoded {file.name}")

    def write_encoded(self):
        file = self.any_chunk(must_exist=False)
        if self.writers(file):
            return
        self.settle(file.variable)
        wanted = self.data(file.capacity)
        data = np.frombuffer(wanted, "<i4")
        for codec in self.codecs(file.variable):
            data = codec.encode(data)
        data = bytes(data)
        bad = self.rng.random() < 0.2
        self.note(f"encoded write {file.name} {len(data)}{' bad' * bad}")
        fd = os.open(self.root / VIEW / "encoded" / file.name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(fd, data[:len(data) // 2])
        if bad:
            return expect(errno.EINVAL, os.close, fd)
        os.write(fd, data[len(data) // 2:])
        os.close(fd)
        file.cut(0)
        file.put(0, wanted)

    OPERATIONS = {open: 8, close: 5, read: 20, write: 20, truncate: 4, sync: 1, map: 5, unmap: 2, mapped: 25, look: 3, create: 2,
                  remove: 2, replace: 2, read_encoded: 2, write_encoded: 2, remount: 0.15}

    def run(self, operations):
        self.mount()
        actions = self.rng.choices(list(self.OPERATIONS), list(self.OPERATIONS.values()), k=operations)
        for self.number, action in enumerate(actions):
            action(self)
        self.unmount()


def differences(found, wanted):
    if len(found) != len(wanted):
        return f"{len(found)} bytes, and not {len(wanted)}"
    places = np.flatnonzero(np.frombuffer(found, "u1") != np.frombuffer(wanted, "u1"))
    first = int(places[0])
    return (f"{len(places)} bytes of {len(wanted)} differ, from {first} to {int(places[-1])}: {found[first:first + 12].hex()} "
            f"and not {wanted[first:first + 12].hex()}")


def run_in_child(test, operations):
    """A fault of ours may be a SIGBUS, and a mount must go away whatever happens. Whether all went well."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            test.run(operations)
            print(", ".join(f"{count} {what}" for what, count in sorted(test.counts.items())), flush=True)
            code = 0
        except BaseException as error:  # nothing may return into the parent's code
            print(f"FAILED at operation {test.number}: {type(error).__name__}: {error}", flush=True)
            if not isinstance(error, (Fault, OSError)):
                traceback.print_exc(file=sys.stdout)
        finally:
            sys.stdout.flush()
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        print(f"FAILED: {signal.Signals(os.WTERMSIG(status)).name}", flush=True)
    return status == 0


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in ("hdf5", "zarr", "zip"):
        sys.exit(__doc__)
    codecfs, kind = sys.argv[1:3]
    operations = int(sys.argv[3]) if len(sys.argv) > 3 else 20_000
    seed = sys.argv[4] if len(sys.argv) > 4 else str(random.randrange(10**6))
    directory = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-exerciser-")).resolve()
    print(f"{kind}, {operations} operations, seed {seed}", flush=True)
    test = Exerciser(codecfs, kind, directory, seed)
    try:
        is_well = run_in_child(test, operations)
    finally:
        test.end()
    if is_well:
        shutil.rmtree(directory)
        return 0
    print("".join((directory / "operations").read_text().splitlines(keepends=True)[-TRACE:]))
    print(f"Again with: exerciser.py {codecfs} {kind} {operations} {seed}\nSource, daemon.log and operations are left in {directory}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
