"""What the workers of concurrency.py know of the mounted dataset, in memory that they share.

A cell is half of a chunk (its first or last rows). One worker at a time writes a cell, so its contents are numbered:
`started` is the number of the latest write that began, `completed` that of the latest whose close() returned. Each element
tells the number of the write that it is from and its own place. A reader of a cell must find what was written since the
`completed` that it saw before, in each element: nothing older, nothing from elsewhere, nothing that was never written.

What is removed, or about to be cut by O_TRUNC, reads as fill: `removed` and `cut` are the numbers of such writes.
"""
import contextlib
import mmap
import multiprocessing
import time

import h5py
import numcodecs
import numpy as np
import zarr

FORKS = multiprocessing.get_context("fork")  # shared memory is inherited; Python 3.14 forks a server at its start otherwise
FILL = -1
PLACE_BITS = 20  # of an element in its chunk
# Seconds after which other views must show what was written, on a machine of its own; the mount gives the kernel one.
GRACE = 2.0
MOST_PATIENCE = 10  # times as long on a busy one
LOADS = 120  # seconds of which the daemon's load is known
MOST_CHUNKS = 4096

CHAINS = {"hdf5": ["none", "1,1", "2|1,3", "3|2|1,2", "2|3"], "zarr": ["none", "1,1", "2|1,3", "307,1", "2|32015,1"]}


class Fault(Exception):
    """Something that must not be."""


class Skip(Exception):
    """What was tried cannot be done, for a reason that is known."""


class Variable:
    def __init__(self, name, shape, chunks, movable=False, resizable=False, stored=True, whole=False):
        self.name, self.shape, self.chunks = name, shape, chunks
        self.movable, self.resizable, self.stored, self.whole = movable, resizable, stored, whole
        self.grid = tuple(-(-n // c) for n, c in zip(shape, chunks))
        self.count = self.grid[0] * self.grid[1]
        self.bytes = chunks[0] * chunks[1] * 8
        self.aligned = chunks[1] * 8 % 4096 == 0 and shape[1] * 8 % 4096 == 0
        self.index = self.first = 0  # set by the model

    def cell(self, number, half):
        return self.first + 2 * number + half

    def place(self, number):
        return divmod(number, self.grid[1])

    def file(self, number):
        return "{}.{}".format(*self.place(number))

    def rows(self, half):
        """Of a chunk."""
        middle = self.chunks[0] // 2
        return slice(0, middle) if half == 0 else slice(middle, self.chunks[0])

    def inside(self, number, shape=None):
        """The part of the array that the chunk covers, and the part of the chunk that is in the array."""
        shape = shape or self.shape
        array, chunk = [], []
        for at, size, whole in zip(self.place(number), self.chunks, shape):
            begin, end = min(at * size, whole), min((at + 1) * size, whole)
            array.append(slice(begin, end))
            chunk.append(slice(0, end - begin))
        return tuple(array), tuple(chunk)

    def is_in_array(self, number, half, shape):
        """Whether a part of this half of a chunk is in the array, so that a view of the whole array can write it."""
        return self.rows(half).start < self.inside(number, shape)[1][0].stop

    def content(self, number, versions):
        """Of a chunk: its halves are from these writes."""
        places = np.arange(self.chunks[0] * self.chunks[1], dtype="<i8").reshape(self.chunks)
        for half in (0, 1):
            places[self.rows(half)] |= (versions[half] << 32) + (self.cell(number, half) << PLACE_BITS)
        return places


def variables():
    return [Variable("small", (16, 256), (4, 128)),
            Variable("rows", (64, 1024), (8, 512)),
            Variable("large", (128, 1024), (64, 1024)),
            Variable("edge", (20, 300), (8, 128)),
            Variable("sparse", (64, 64), (8, 64), stored=False),
            Variable("flat", (64, 256), (64, 256), whole=True),
            Variable("grown", (64, 256), (8, 256), resizable=True),
            Variable("m0", (32, 128), (8, 128), movable=True),
            Variable("m1", (32, 128), (8, 128), movable=True)]


class Names:
    """Where what is moved is: numbers in shared memory. `turn` is odd while something is moved."""

    def __init__(self, shared):
        self.shared = shared  # turn; number in the name of each group; group and number in the name of each variable

    def path(self, which):
        group, number = self.shared[3 + 2 * which], self.shared[4 + 2 * which]
        return f"g{group}_{self.shared[1 + group]}/m{which}_{number}"

    def group(self, group):
        return f"g{group}_{self.shared[1 + group]}"


class Model:
    """Made before the workers are forked; all of them see it."""

    def __init__(self, kind):
        self.kind = kind
        self.variables = variables()
        self.moved = [v for v in self.variables if v.movable]
        count = 0
        for index, variable in enumerate(self.variables):
            variable.index, variable.first = index, count
            count += 2 * variable.count
        self.cells = count
        self.started, self.completed, self.removed, self.cut = (shared(count) for _ in range(4))
        self.completed_at = shared(count, "f8")
        self.locks = [FORKS.Lock() for _ in range(count)]
        n = len(self.variables)
        self.names = Names(shared(3 + 2 * len(self.moved)))
        self.names_at = shared(1, "f8")
        self.names_lock = FORKS.Lock()
        for which in range(len(self.moved)):
            self.names.shared[3 + 2 * which] = which % 2
        self.heights, self.shape_turn, self.shape_at = shared(n), shared(n), shared(n, "f8")
        self.shape_locks = [FORKS.Lock() for _ in range(n)]
        self.chain_turn, self.chain_at = shared(n), shared(n, "f8")
        self.chain_locks = [FORKS.Lock() for _ in range(n)]
        self.number_started, self.number_completed, self.number_at = shared(n), shared(n), shared(n, "f8")
        self.number_locks = [FORKS.Lock() for _ in range(n)]
        self.loads = shared(3 * LOADS, "f8").reshape(-1, 3)
        self.late = shared(1)
        self.slowest_late = shared(1, "f8")
        for variable in self.variables:
            self.heights[variable.index] = variable.shape[0] // 2 if variable.resizable else variable.shape[0]
            cells = slice(variable.first, variable.first + 2 * variable.count)
            first = 1 if variable.stored else 2
            for array in (self.started, self.completed):
                array[cells] = first
            if not variable.stored:
                self.removed[cells] = first
            if variable.resizable:
                beyond = variable.first + 2 * variable.count // 2
                self.started[beyond:cells.stop] = self.completed[beyond:cells.stop] = self.removed[beyond:cells.stop] = 2

    def path(self, variable):
        return self.names.path(self.moved.index(variable)) if variable.movable else variable.name

    def shape(self, variable):
        return (int(self.heights[variable.index]), variable.shape[1])

    # --- what was turned meanwhile

    def turns(self, variable):
        """Tells what else than chunks of a variable may be changed; to be compared by turned()."""
        return (int(self.names.shared[0]) if variable.movable else 0, int(self.shape_turn[variable.index]))

    def turned(self, variable, before):
        now = time.monotonic()
        if any(turn % 2 for turn in before) or before != self.turns(variable):
            return True
        # What other views are told of may come a moment later.
        recent = max(self.names_at[0] if variable.movable else 0, self.shape_at[variable.index])
        return recent > 0 and now - recent < GRACE * self.patience(recent)

    @contextlib.contextmanager
    def turning(self, turn, at, index):
        """Odd during the operation; it stays odd when the outcome is unknown."""
        turn[index] += 1
        try:
            yield
        except Skip:
            self.end_turn(turn, at, index)
            raise
        self.end_turn(turn, at, index)

    @staticmethod
    def end_turn(turn, at, index):
        at[index] = time.monotonic()
        turn[index] += 1

    # --- writing

    @contextlib.contextmanager
    def owning(self, cells):
        """No other worker writes these cells; Skip when one does."""
        held = []
        try:
            for cell in sorted(cells):
                if not self.locks[cell].acquire(block=False):
                    raise Skip
                held.append(cell)
            yield
        finally:
            for cell in held:
                self.locks[cell].release()

    def begin(self, cells, removes=False, cuts=False):
        """Numbers of the writes that are to come."""
        for cell in cells:
            number = int(self.started[cell]) + 1
            if removes:
                self.removed[cell] = number
            if cuts:
                self.cut[cell] = number
            self.started[cell] = number
        return [int(self.started[cell]) for cell in cells]

    def complete(self, cells):
        now = time.monotonic()
        for cell in cells:
            self.completed_at[cell] = now
            self.completed[cell] = self.started[cell]

    # --- reading

    def window(self, cells):
        return Window(self, cells)

    def note_load(self, ran, waited):
        """Seconds that the daemon's threads have run, and that they have waited for a processor; to be called each second."""
        now = time.monotonic()
        self.loads[int(now) % LOADS] = (now, ran, waited)

    def patience(self, since):
        """How many times as long as on a machine of its own the daemon takes, as of `since`."""
        known = self.loads[self.loads[:, 0] > 0]
        before = known[known[:, 0] <= since]
        if not len(before):
            return 1
        _, ran, waited = known[known[:, 0].argmax()] - before[before[:, 0].argmax()]
        return min(max(1, (ran + waited) / max(ran, 0.1)), MOST_PATIENCE)

    def is_late(self, since, begun, what):
        """A reader that began at `begun` saw something older than it should be, as of `since`."""
        if begun - since > GRACE * self.patience(since):
            raise Fault(f"{what}, {begun - since:.3f} s after it was completed")
        self.late[0] += 1
        self.slowest_late[0] = max(self.slowest_late[0], begun - since)

    def check_number(self, variable, before, since, begun, value):
        i = variable.index
        if not isinstance(value, int) or value > self.number_started[i]:
            raise Fault(f"{variable.name}: attribute {value!r}, which no worker wrote ({self.number_started[i]} is the latest)")
        if value < before:
            self.is_late(since, begun, f"{variable.name}: attribute {value}, and not {before}")


class Window:
    """What was completed before a read; made before it, and asked after it."""

    def __init__(self, model, cells):
        self.model, self.cells = model, list(cells)
        self.begun = time.monotonic()
        self.completed = {cell: int(model.completed[cell]) for cell in self.cells}
        self.since = {cell: float(model.completed_at[cell]) for cell in self.cells}

    def is_quiet(self, cell):
        """No worker has begun to write it since, or is writing it."""
        return int(self.model.started[cell]) == self.completed[cell]

    def check_absent(self, cell, where):
        self.check_fill(cell, where, "fill")

    def check_fill(self, cell, where, what):
        least = self.completed[cell]
        if self.model.removed[cell] >= least or self.model.cut[cell] > least:
            return
        self.model.is_late(self.since[cell], self.begun, f"{where}: {what} where write {least} was")

    def check_half(self, variable, number, half, values, where):
        """`values`: what is in the array of this half of a chunk, as an array of two dimensions."""
        cell = variable.cell(number, half)
        width = variable.chunks[1]
        first = variable.rows(half).start
        values = np.asarray(values)
        if values.size == 0:
            return
        is_fill = values == FILL
        # A reader gets zeros from the kernel when a file is truncated during its read.
        if self.model.cut[cell] > self.completed[cell]:
            is_fill = is_fill | (values == 0)
        if is_fill.any():
            self.check_fill(cell, where, f"{is_fill.sum()} of {values.size} elements are fill")
            if is_fill.all():
                return
        places = (np.arange(first, first + values.shape[0])[:, None] * width + np.arange(values.shape[1])
                  + (cell << PLACE_BITS))
        wrong = ~is_fill & ((values & 0xFFFFFFFF) != places)
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            raise Fault(f"{where}: {wrong.sum()} of {values.size} elements are from elsewhere or torn; at {at}: "
                        f"{values[at]:#x} instead of ...{places[at]:08x}")
        numbers = (values >> 32)[~is_fill]
        if numbers.max() > self.model.started[cell]:
            raise Fault(f"{where}: write {numbers.max()}, which no worker began ({self.model.started[cell]})")
        if numbers.min() < self.completed[cell]:
            old = (numbers < self.completed[cell]).sum()
            self.model.is_late(self.since[cell], self.begun, f"{where}: {old} of {values.size} elements are of write "
                               f"{numbers.min()} and not of {self.completed[cell]}")

    def check_chunk(self, variable, number, data, where, shape=None):
        """`data`: bytes of the chunk's file, which may be shorter while a worker writes it."""
        inside = variable.inside(number, shape)[1]
        if len(data) % 8 != 0 and len(data) != variable.bytes:
            data = data[:len(data) // 8 * 8]
        values = np.full(variable.chunks[0] * variable.chunks[1], FILL, "<i8")
        given = np.frombuffer(data, "<i8")
        if given.size > values.size:
            raise Fault(f"{where}: {len(data)} bytes instead of {variable.bytes}")
        values[:given.size] = given
        values = values.reshape(variable.chunks)
        for half in (0, 1):
            rows = variable.rows(half)
            part = values[rows.start:min(rows.stop, inside[0].stop), inside[1]]
            self.check_half(variable, number, half, part, f"{where} rows {rows.start}:{rows.stop}")

    def check_array(self, variable, numbers, array, where):
        """`array`: the whole of a variable."""
        for number in numbers:
            outer = variable.inside(number, array.shape)[0]
            part = array[outer]
            for half in (0, 1):
                self.check_half(variable, number, half, part[variable.rows(half)], f"{where}[chunk {number}/{half}]")


def shared(count, dtype="i8"):
    return np.frombuffer(mmap.mmap(-1, max(count, 1) * 8), dtype, count)


def make_source(path, model, libver):
    """A new one, by h5py or zarr-python."""
    def values(variable):
        array = np.full(variable.shape, FILL, "<i8")
        for number in range(variable.count if variable.stored else 0):
            outer, inner = variable.inside(number)
            array[outer] = variable.content(number, (1, 1))[inner]
        return array[:model.heights[variable.index]]

    if model.kind == "hdf5":
        with h5py.File(path, "w", libver=libver) as file:
            for group in range(2):
                file.create_group(model.names.group(group))
            for i, v in enumerate(model.variables):
                options = {} if v.whole else {"chunks": v.chunks}
                if v.resizable:
                    options["maxshape"] = (None, v.shape[1])
                if i % 2 == 0 and not v.whole:
                    options.update(compression="gzip", compression_opts=1, shuffle=True)
                dataset = file.create_dataset(model.path(v), model.shape(v), "<i8", fillvalue=FILL,
                                              data=values(v) if v.stored else None, **options)
                # So absent chunks are absent.
                dataset.attrs.create("_FillValue", FILL, dtype="<i8")
                dataset.attrs["n"] = 0
                dataset.attrs["units"] = "m"
        return
    root = zarr.open_group(str(path), "w")
    for group in range(2):
        root.create_group(model.names.group(group))
    for i, v in enumerate(model.variables):
        array = root.create_dataset(model.path(v), shape=model.shape(v), chunks=v.chunks, dtype="<i8", fill_value=FILL,
                                    compressor=numcodecs.Zlib(1) if i % 2 == 0 else None)
        if v.stored:
            array[...] = values(v)
        array.attrs.update(n=0, units="m")


def check_source(path, model):
    """What others read of it is what the model says."""
    def check(read, root):
        def path_of(v):
            if not v.movable or model.names.shared[0] % 2 == 0:
                return model.path(v)
            # It was being moved when the mount ended.
            start = f"m{model.moved.index(v)}_"
            paths = [f"{group}/{name}" for group in root if group.startswith("g") and group[1] in "01"
                     for name in root[group] if name.startswith(start)]
            if len(paths) != 1:
                raise Fault(f"{v.name} is in the source as {paths}, and was {model.path(v)}")
            return paths[0]

        for v in model.variables:
            array, number, shape = read(path_of(v))
            if v.resizable and model.shape_turn[v.index] % 2:
                model.heights[v.index] = shape[0]
            if shape != model.shape(v):
                raise Fault(f"{v.name}: shape {shape} instead of {model.shape(v)}")
            window = model.window(range(v.first, v.first + 2 * v.count))
            window.begun = float("inf")
            window.check_array(v, range(v.count), array, f"{v.name} in the source")
            i = v.index
            if not model.number_completed[i] <= number <= model.number_started[i]:
                raise Fault(f"{v.name} in the source: attribute {number}, and not {model.number_completed[i]}")

    if model.kind == "hdf5":
        with h5py.File(path, "r") as file:
            check(lambda name: (file[name][...], int(file[name].attrs["n"]), file[name].shape), file)
    else:
        root = zarr.open_group(str(path), "r")
        check(lambda name: (root[name][...], int(root[name].attrs["n"]), root[name].shape), root)
