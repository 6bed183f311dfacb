"""What a worker of concurrency.py does: one operation after the other, chosen at random, each checked against the model."""
import contextlib
import errno
import json
import mmap
import os
import random
import shutil
import time
import traceback

import numcodecs
import numpy as np

from concurrency_model import CHAINS, FILL, GRACE, Fault, Skip

NPY, RAW, ENCODED = ".codecfs/view/npy", ".codecfs/view/raw", ".codecfs/view/encoded"
# When the mount is taken away while work goes on.
GONE = {errno.ENOTCONN, errno.ECONNABORTED, errno.EIO, errno.EINTR, errno.ENODEV, errno.EBADF}


def npy_header(fd):
    head = os.pread(fd, 10, 0)
    if len(head) < 10 or head[:8] != b"\x93NUMPY\x01\x00":
        raise Fault(f"no header of an npy file: {head!r}")
    return 10 + int.from_bytes(head[8:10], "little")


@contextlib.contextmanager
def opened(path, flags):
    fd = os.open(path, flags, 0o644)
    try:
        yield fd
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(fd)
        raise
    os.close(fd)  # its error counts


def write_all(fd, data, at, rng=None):
    """In one piece or some, which begin at an element and not at a page."""
    data = memoryview(data).cast("B")
    begin = 0
    while begin < len(data):
        size = len(data) - begin
        if rng is not None and rng.random() < 0.3:
            size = rng.randrange(8, size + 1, 8)
        begin += os.pwrite(fd, data[begin:begin + size], at + begin)


def write_text(path, text, how):
    if how == "rename":
        replace_file(*os.path.split(path), text.encode())
    else:
        with opened(path, os.O_WRONLY | os.O_TRUNC) as fd:
            write_all(fd, text.encode(), 0)


def replace_file(directory, name, content):
    """Also where another worker moves the directory meanwhile: no temporary file may be left, as an unmount would lose it."""
    temporary = f"{name}-{os.getpid()}.tmp"
    with opened(directory, os.O_PATH | os.O_DIRECTORY) as at:
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644, dir_fd=at)
            try:
                write_all(fd, content, 0)
            finally:
                os.close(fd)
            os.rename(temporary, name, src_dir_fd=at, dst_dir_fd=at)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=at)
            raise


def filters_of(spec):
    """Their ids, in any order: that of netCDF is made of the one that was asked for."""
    return sorted(stage.split(",")[0] for stage in spec.split("|"))


def decoder(zarray):
    """Bytes of an encoded chunk to its decoded bytes, as zarr-python does it."""
    told = [c for c in [*(zarray["filters"] or []), zarray["compressor"]] if c]
    if any(c["id"] == "fletcher32" for c in told) and "fletcher32" not in numcodecs.registry.codec_registry:
        raise Skip  # numcodecs before 0.12
    codecs = [numcodecs.get_codec(c) for c in told]

    def decode(data):
        for codec in reversed(codecs):
            data = codec.decode(data)
        return np.ascontiguousarray(data).tobytes() if isinstance(data, np.ndarray) else bytes(data)

    def encode(data):
        for codec in codecs:
            data = codec.encode(data)
        return np.ascontiguousarray(data).tobytes() if isinstance(data, np.ndarray) else bytes(data)

    return decode, encode


class Worker:
    def __init__(self, model, board, number, root, seed):
        self.model, self.board, self.number, self.base = model, board, number, root
        self.rng = random.Random(seed)
        self.kept = []  # (fd, variable, chunk)
        self.private = 0
        self.operations = [(30, self.write_chunk), (16, self.write_half), (4, self.remove_chunk), (20, self.read_chunk),
                           (6, self.read_in_order), (8, self.read_array), (6, self.read_encoded), (10, self.read_kept),
                           (3, self.recode), (5, self.set_number), (8, self.get_number), (6, self.list_chunks),
                           (3, self.move), (3, self.resize), (3, self.make_and_remove), (3, self.look_around),
                           (3, self.sync)]

    # --- the loop

    def run(self):
        weights = [weight for weight, _ in self.operations]
        while not self.board.stop:
            _, operation = self.rng.choices(self.operations, weights)[0]
            self.board.begin(self.number, operation.__name__)
            try:
                operation()
                self.board.end(self.number, True)
            except Skip:
                self.board.end(self.number, False)
            except Exception as error:  # noqa: B902: all that is not expected
                if getattr(error, "errno", None) == errno.EBUSY:  # refused, as a variable is being re-encoded
                    self.board.end(self.number, False)
                    continue
                if self.board.ending and (getattr(error, "errno", None) in GONE or isinstance(error, EOFError)):
                    return
                raise Fault(f"worker {self.number}, {operation.__name__}: {error!r}\n{traceback.format_exc()}") from error
        for fd, _, _ in self.kept:
            os.close(fd)

    # --- where things are

    def some(self, accept=lambda variable: True):
        return self.rng.choice([v for v in self.model.variables if accept(v)])

    def chunk_of(self, variable):
        """Of those that are in the shape now."""
        rows = self.model.heights[variable.index]
        return self.rng.randrange(max(1, -(-int(rows) // variable.chunks[0])) * variable.grid[1])

    def path(self, variable, number=None, view=""):
        parts = [self.base, view, self.model.path(variable)]
        if number is not None:
            parts.append(variable.file(number))
        return "/".join(part for part in parts if part)

    def array_path(self, variable, view):
        return self.path(variable, view=view) + (".npy" if view == NPY else "")

    @contextlib.contextmanager
    def excusing(self, variable):
        """What moving and another shape explain is Skip."""
        model, before = self.model, self.model.turns(variable)
        try:
            yield
        except OSError as error:
            excused = {errno.ENOENT, errno.ESTALE}
            if variable.resizable:
                excused |= {errno.EINVAL, errno.EFBIG}
            if error.errno in excused and model.turned(variable, before):
                raise Skip from error
            raise

    # --- writing

    def write_chunk(self):
        """All of a chunk, in one of many ways."""
        variable = self.some()
        number = self.chunk_of(variable)
        cells = [variable.cell(number, half) for half in (0, 1)]
        ways = [self.by_truncating, self.by_truncating, self.in_place, self.by_rename, self.by_array, self.by_encoded]
        if not variable.resizable:
            ways.append(self.by_mapping)
            if variable.aligned:
                ways.append(self.by_mapped_array)
        way = self.rng.choice(ways)
        with self.excusing(variable), self.model.owning(cells):
            if self.is_outside(variable, number):
                raise Skip
            versions = self.model.begin(cells, cuts=way == self.by_truncating)
            if way(variable, number, variable.content(number, versions)):
                self.model.complete(cells)

    def is_outside(self, variable, number):
        return variable.place(number)[0] * variable.chunks[0] >= self.model.heights[variable.index]

    def by_truncating(self, variable, number, content):
        with opened(self.path(variable, number), os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            write_all(fd, content, 0, self.rng)
            self.sync_sometimes(fd)
        return True

    def in_place(self, variable, number, content):
        flags = self.rng.choice([os.O_RDWR, os.O_WRONLY])
        with opened(self.path(variable, number), flags | os.O_CREAT) as fd:
            write_all(fd, content, 0, self.rng)
            self.sync_sometimes(fd)
        return True

    def sync_sometimes(self, fd):
        if self.rng.random() < 0.1:
            os.fsync(fd)

    def by_rename(self, variable, number, content):
        temporary = self.path(variable) + f"/part-{self.number}.tmp"
        try:
            with opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
                write_all(fd, content, 0)
            os.rename(temporary, self.path(variable, number))
        except OSError:
            for _ in range(3):  # it may have moved with its directory
                with contextlib.suppress(OSError):
                    os.unlink(self.path(variable) + f"/part-{self.number}.tmp")
                    break
            raise
        return True

    def by_mapping(self, variable, number, content):
        with opened(self.path(variable, number), os.O_RDWR | os.O_CREAT) as fd:
            if os.fstat(fd).st_size != variable.bytes:
                write_all(fd, content, 0)
                return True
            with mmap.mmap(fd, variable.bytes) as mapped:
                mapped[:] = content.tobytes()
                mapped.flush()
        return True

    def each_row(self, variable, number, content, half=None):
        """(offset in the array, bytes) of the rows of a chunk, or of its half."""
        outer, inner = variable.inside(number, self.model.shape(variable))
        part = content[inner]
        rows = range(part.shape[0]) if half is None else range(part.shape[0])[variable.rows(half)]
        for row in rows:
            at = ((outer[0].start + row) * variable.shape[1] + outer[1].start) * 8
            yield at, part[row].tobytes()

    def by_array(self, variable, number, content, half=None):
        view = self.rng.choice([NPY, RAW])
        with opened(self.array_path(variable, view), self.rng.choice([os.O_RDWR, os.O_RDWR | os.O_SYNC])) as fd:
            begin = npy_header(fd) if view == NPY else 0
            for at, row in self.each_row(variable, number, content, half):
                write_all(fd, row, begin + at)
        return True

    def by_mapped_array(self, variable, number, content):
        with opened(self.array_path(variable, RAW), os.O_RDWR) as fd:
            with mmap.mmap(fd, variable.shape[0] * variable.shape[1] * 8) as mapped:
                for at, row in self.each_row(variable, number, content):
                    mapped[at:at + len(row)] = row
                mapped.flush()
        return True

    def by_encoded(self, variable, number, content):
        # With another chain than that of .zarray it is EINVAL, or even (of shuffle alone) other values; and another view
        # may show the former .zarray for a moment.
        lock = self.model.chain_locks[variable.index]
        if not lock.acquire(block=False):
            raise Skip
        try:
            if self.chain_turned(variable, int(self.model.chain_turn[variable.index])):
                raise Skip
            zarray = self.read_json(self.path(variable, view=ENCODED) + "/.zarray")
            data = decoder(zarray)[1](content.tobytes())
            with opened(self.path(variable, number, ENCODED), os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
                write_all(fd, data, 0)
        finally:
            lock.release()
        return True

    def chain_turned(self, variable, before):
        now = int(self.model.chain_turn[variable.index])
        if before % 2 or now != before:
            return True
        at = self.model.chain_at[variable.index]
        return at > 0 and time.monotonic() - at < GRACE * self.model.patience(at)

    def write_half(self):
        """Another worker may write the other half."""
        variable = self.some()
        number, half = self.chunk_of(variable), self.rng.randrange(2)
        cell = variable.cell(number, half)
        with self.excusing(variable), self.model.owning([cell]):
            if self.is_outside(variable, number):
                raise Skip
            # Through a view of the array nothing is written of a half beyond its edge: a removed chunk would stay removed.
            by_array = self.rng.random() < 0.4 and variable.is_in_array(number, half, self.model.shape(variable))
            versions = [0, 0]
            versions[half] = self.model.begin([cell])[0]
            content = variable.content(number, versions)
            if by_array:
                self.by_array(variable, number, content, half)
            else:
                part = content[variable.rows(half)]
                with opened(self.path(variable, number), self.rng.choice([os.O_RDWR, os.O_WRONLY]) | os.O_CREAT) as fd:
                    write_all(fd, np.ascontiguousarray(part), variable.rows(half).start * variable.chunks[1] * 8, self.rng)
                    self.sync_sometimes(fd)
            self.model.complete([cell])

    def remove_chunk(self):
        variable = self.some(lambda v: not v.whole)
        number = self.chunk_of(variable)
        cells = [variable.cell(number, half) for half in (0, 1)]
        with self.excusing(variable), self.model.owning(cells):
            if self.is_outside(variable, number):
                raise Skip
            before = [self.model.completed[cell] <= self.model.removed[cell] for cell in cells]
            self.model.begin(cells, removes=True)
            try:
                os.unlink(self.path(variable, number))
            except FileNotFoundError:
                if not any(before):
                    raise
            self.model.complete(cells)

    # --- reading

    def pread(self, fd, size):
        """Up to `size` bytes, in one call or some."""
        step = self.rng.choice([size, size, 4096, 5000])
        parts = []
        for at in range(0, size, step):
            end = min(at + step, size)
            while at < end:
                part = os.pread(fd, end - at, at)
                if not part:
                    return b"".join(parts)
                # Fewer than asked for, where an error comes next: that of a mount that is gone.
                parts.append(part)
                at += len(part)
        return b"".join(parts)

    def check_file(self, variable, number):
        cells = [variable.cell(number, half) for half in (0, 1)]
        window, turns = self.model.window(cells), self.model.turns(variable)
        where = f"{variable.name}/{variable.file(number)}"
        try:
            with opened(self.path(variable, number), os.O_RDONLY) as fd:
                data = self.pread(fd, variable.bytes)
                if self.rng.random() < 0.1 and len(self.kept) < 8:
                    self.kept.append((os.dup(fd), variable, number))
        except FileNotFoundError:
            if self.model.turned(variable, turns):
                raise Skip from None
            for cell in cells:
                window.check_absent(cell, where)
            return
        except OSError as error:
            if error.errno == errno.ESTALE and self.model.turned(variable, turns):
                raise Skip from error
            raise
        if variable.resizable and self.model.turned(variable, turns):
            raise Skip
        window.check_chunk(variable, number, data, where, self.model.shape(variable))

    def read_chunk(self):
        variable = self.some()
        self.check_file(variable, self.chunk_of(variable))

    def read_in_order(self):
        """Chunks are read ahead of this."""
        variable = self.some(lambda v: v.count > 3)
        count = -(-int(self.model.heights[variable.index]) // variable.chunks[0]) * variable.grid[1]
        for number in range(self.rng.randrange(2), count):
            self.check_file(variable, number)

    def read_array(self):
        variable = self.some()
        view = self.rng.choice([NPY, RAW])
        window, turns = self.model.window(range(variable.first, variable.first + 2 * variable.count)), self.model.turns(variable)
        with self.excusing(variable), opened(self.array_path(variable, view), os.O_RDONLY) as fd:
            begin = npy_header(fd) if view == NPY else 0
            size = os.fstat(fd).st_size
            if not variable.resizable and self.rng.random() < 0.3:
                with mmap.mmap(fd, size, prot=mmap.PROT_READ) as mapped:
                    data = mapped[begin:]
            else:
                data = self.pread(fd, size)[begin:]
        shape = self.model.shape(variable)
        if variable.resizable and self.model.turned(variable, turns):
            raise Skip
        if len(data) != shape[0] * shape[1] * 8:
            raise Fault(f"{variable.name} as an array: {len(data)} bytes, and not of {shape}")
        window.check_array(variable, range(variable.count), np.frombuffer(data, "<i8").reshape(shape), f"{variable.name} in {view}")

    def read_json(self, path):
        with opened(path, os.O_RDONLY) as fd:
            return json.loads(os.read(fd, 1 << 20))

    def read_encoded(self):
        variable = self.some()
        number = self.chunk_of(variable)
        cells = [variable.cell(number, half) for half in (0, 1)]
        window, turns = self.model.window(cells), self.model.turns(variable)
        chains = int(self.model.chain_turn[variable.index])
        started = [int(self.model.started[cell]) for cell in cells]
        with self.excusing(variable):
            zarray = self.read_json(self.path(variable, view=ENCODED) + "/.zarray")
            try:
                with opened(self.path(variable, number, ENCODED), os.O_RDONLY) as fd:
                    data = os.read(fd, 4 * variable.bytes)
            except FileNotFoundError:
                if self.model.turned(variable, turns):
                    raise Skip from None
                for cell in cells:
                    window.check_absent(cell, f"{variable.name} {number} encoded")
                return
        # What is being written there is no whole chunk, and with another chain it means nothing.
        if self.chain_turned(variable, chains) or started != [int(self.model.started[cell]) for cell in cells] or \
                any(not window.is_quiet(cell) for cell in cells) or self.model.turned(variable, turns):
            raise Skip
        decode = decoder(zarray)[0]
        try:
            data = decode(data)
        except Exception as error:
            raise Fault(f"{variable.name} {number}: {len(data)} encoded bytes cannot be decoded with {zarray}: {error!r}") from error
        window.check_chunk(variable, number, data, f"{variable.name} {number} encoded", self.model.shape(variable))

    def read_kept(self):
        """Through a descriptor from before."""
        if not self.kept:
            raise Skip
        at = self.rng.randrange(len(self.kept))
        fd, variable, number = self.kept[at]
        window, turns = self.model.window([variable.cell(number, half) for half in (0, 1)]), self.model.turns(variable)
        gone = False
        try:
            data = self.pread(fd, variable.bytes)
        except OSError as error:
            # After another shape it is another chunk's.
            if not variable.resizable or error.errno != errno.ESTALE:
                raise
            gone = True
        if gone or variable.resizable or self.rng.random() < 0.1:
            os.close(fd)
            del self.kept[at]
        if gone or self.is_outside(variable, number) or (variable.resizable and self.model.turned(variable, turns)):
            raise Skip
        window.check_chunk(variable, number, data, f"{variable.name}/{variable.file(number)} as it was opened",
                           self.model.shape(variable))

    # --- metadata

    def recode(self):
        variable = self.some()
        i = variable.index
        lock = self.model.chain_locks[i]
        if not lock.acquire(block=False):
            raise Skip
        try:
            with self.model.turning(self.model.chain_turn, self.model.chain_at, i), self.excusing(variable):
                spec = self.rng.choice(CHAINS[self.model.kind])
                way = self.rng.choice(["user._Filter", "user._Filter", "file", "user._Shuffle"])
                if way == "user._Shuffle":
                    os.setxattr(self.path(variable), way, self.rng.choice([b"true", b"false"]))
                elif way == "file":
                    write_text(self.path(variable) + "/_Filter", spec + "\n", self.rng.choice(["rename", "write"]))
                else:
                    os.setxattr(self.path(variable), way, spec.encode())
                if way != "user._Shuffle":
                    told = os.getxattr(self.path(variable), "user._Filter").decode()
                    if filters_of(told) != filters_of(spec):
                        raise Fault(f"{variable.name}: _Filter is {told} after it was set to {spec}")
        finally:
            lock.release()

    def set_number(self):
        """An attribute, by itself or with all others."""
        variable = self.some()
        model, i = self.model, variable.index
        if not model.number_locks[i].acquire(block=False):
            raise Skip
        try:
            model.number_started[i] += 1
            number = int(model.number_started[i])
            with self.excusing(variable):
                if self.rng.random() < 0.6:
                    os.setxattr(self.path(variable), "user.n", str(number).encode())
                else:
                    path = self.path(variable) + "/.zattrs"
                    attributes = self.read_json(path)
                    attributes["n"] = number
                    attributes.pop("_ARRAY_DIMENSIONS", None)  # made up ones change with what else there is
                    write_text(path, json.dumps(attributes), self.rng.choice(["rename", "write"]))
            model.number_at[i] = time.monotonic()
            model.number_completed[i] = number
        finally:
            model.number_locks[i].release()

    def get_number(self):
        variable = self.some()
        model, i = self.model, variable.index
        before, since, begun = int(model.number_completed[i]), float(model.number_at[i]), time.monotonic()
        turns = model.turns(variable)
        with self.excusing(variable):
            path = self.path(variable)
            way = self.rng.randrange(3)
            if way == 0:
                number = json.loads(os.getxattr(path, "user.n"))
            elif way == 1:
                view = self.rng.choice(["", ENCODED])
                attributes = self.read_json(self.path(variable, view=view) + "/.zattrs")
                if attributes.get("units") != "m":
                    raise Fault(f"{variable.name}/.zattrs: {attributes}")
                number = attributes.get("n")
            else:
                name = model.path(variable)
                told = self.read_json(self.base + "/.zmetadata")["metadata"]
                if f"{name}/.zattrs" not in told:
                    if model.turned(variable, turns):
                        raise Skip
                    raise Fault(f".zmetadata does not tell of {name}")
                number = told[f"{name}/.zattrs"].get("n")
        model.check_number(variable, before, since, begun, number)

    def list_chunks(self):
        variable = self.some(lambda v: not v.resizable)
        cells = range(variable.first, variable.first + 2 * variable.count)
        window = self.model.window(cells)
        with self.excusing(variable):
            view = self.rng.choice(["", "", ENCODED])
            if self.rng.random() < 0.5:
                names = set(os.listdir(self.path(variable, view=view)))
            else:
                with os.scandir(self.path(variable, view=view)) as entries:
                    names = set()
                    for entry in entries:
                        names.add(entry.name)
                        with contextlib.suppress(FileNotFoundError):
                            entry.stat()
        for number in range(variable.count):
            pair = [variable.cell(number, half) for half in (0, 1)]
            if not all(window.is_quiet(cell) for cell in pair):
                continue
            absent = all(self.model.removed[cell] == window.completed[cell] for cell in pair)
            present = all(self.model.removed[cell] < window.completed[cell] for cell in pair)
            if (present and variable.file(number) not in names) or (absent and variable.file(number) in names):
                self.model.is_late(max(window.since[cell] for cell in pair), window.begun,
                                   f"{variable.name}/{variable.file(number)} is {'not ' if present else ''}listed")

    def move(self):
        """A variable to another name or group, or a group."""
        model = self.model
        if not model.names_lock.acquire(block=False):
            raise Skip
        try:
            with model.turning(model.names.shared, model.names_at, 0):
                shared = model.names.shared
                if self.rng.random() < 0.3:
                    group, number = self.rng.randrange(2), self.rng.randrange(1000)
                    os.rename(f"{self.base}/{model.names.group(group)}", f"{self.base}/g{group}_{number}")
                    shared[1 + group] = number
                else:
                    which = self.rng.randrange(len(model.moved))
                    group, number = self.rng.randrange(2), self.rng.randrange(1000)
                    os.rename(f"{self.base}/{model.names.path(which)}", f"{self.base}/{model.names.group(group)}/m{which}_{number}")
                    shared[3 + 2 * which], shared[4 + 2 * which] = group, number
        finally:
            model.names_lock.release()

    def resize(self):
        """In the first dimension, from one whole chunk to all."""
        variable = self.some(lambda v: v.resizable)
        model, i = self.model, variable.index
        if not model.shape_locks[i].acquire(block=False):
            raise Skip
        try:
            now, wanted = int(model.heights[i]) // variable.chunks[0], self.rng.randint(1, variable.grid[0])
            cells = [variable.cell(number, half) for number in range(wanted * variable.grid[1], now * variable.grid[1])
                     for half in (0, 1)]
            with model.owning(cells), model.turning(model.shape_turn, model.shape_at, i):
                model.begin(cells, removes=True)
                path = self.path(variable) + "/.zarray"
                zarray = self.read_json(path)
                zarray["shape"][0] = wanted * variable.chunks[0]
                write_text(path, json.dumps(zarray), self.rng.choice(["rename", "write"]))
                model.heights[i] = wanted * variable.chunks[0]
                model.complete(cells)
        finally:
            model.shape_locks[i].release()

    def make_and_remove(self):
        """A variable that no other worker uses."""
        self.private += 1
        path = f"{self.base}/own{self.number}_{self.private % 3}"
        values = np.arange(4 * 512, dtype="<i4").reshape(4, 512) + self.private
        os.mkdir(path)
        if self.rng.random() < 0.5:
            os.setxattr(path, "user._Filter", b"2|1,2")
        zarray = {"zarr_format": 2, "shape": [4, 512], "chunks": [2, 512], "dtype": "<i4", "compressor": None,
                  "filters": None, "fill_value": FILL, "order": "C"}
        with opened(path + "/.zarray", os.O_WRONLY | os.O_CREAT) as fd:
            write_all(fd, json.dumps(zarray).encode(), 0)
        for number in range(2):
            with opened(f"{path}/{number}.0", os.O_WRONLY | os.O_CREAT) as fd:
                write_all(fd, values[2 * number:2 * number + 2].tobytes(), 0)
        with opened(f"{self.base}/{RAW}/{os.path.basename(path)}", os.O_RDONLY) as fd:
            data = self.pread(fd, values.nbytes)
        if data != values.tobytes():
            raise Fault(f"{path} is not as it was written")
        if self.rng.random() < 0.5:
            moved = path + "_moved"
            os.rename(path, moved)
            path = moved
        shutil.rmtree(path)
        if os.path.exists(path):
            raise Fault(f"{path} is there after it was removed")

    def look_around(self):
        with opened(self.base + "/.codecfs/" + self.rng.choice(["stats", "log", "filters"]), os.O_RDONLY) as fd:
            os.read(fd, 1 << 16)
        os.statvfs(self.base)
        names = os.listdir(self.base)
        for variable in self.model.variables:
            if not variable.movable and variable.name not in names:
                raise Fault(f"{variable.name} is not listed: {names}")
        variable = self.some()
        with self.excusing(variable):
            path = self.path(variable)
            for name in os.listxattr(path):
                try:
                    os.getxattr(path, name)
                except OSError as error:
                    # Gone meanwhile, as _Shuffle goes with another chain.
                    if error.errno != errno.ENODATA:
                        raise

    def sync(self):
        fd = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
