#!/usr/bin/python3
"""Differential fuzzer: random HDF5 files, Zarr stores and archives, read and written through every view of a mount.

Each source is made with h5py or zarr-python and modelled in numpy. A folder of them is mounted; what the decoded, encoded,
npy and raw views show must be the model. Then random operations change variables through the views (chunk files, parts of
them, mappings, zarr-python, numpy), resize them, re-encode them with another filter pipeline and set attributes. After the
unmount h5py or zarr-python reads the source, --compact rewrites it, and it is read again; then it is converted into a random
format, and they read the copy.

A failure prints the description of the source, what was done to it, and the command that does it again.
"""
import collections
import contextlib
import errno
import json
import mmap
import os
import random
import shutil
import sys
import time
import traceback
import warnings

import support  # adds the folder of mounts to the path
from mounts import detach_below, mounted
from support import Fault

BATCH = 25  # sources of a mount
LONGEST = 180  # seconds of a batch
KINDS = ["hdf5"] * 7 + ["zarr"] * 3 + ["zip"]
REFUSALS = {errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}
HDF5_CHAINS = ["none", "1,1", "2|1,5", "3|2|1,1", "307,1", "32015,3", "shuffle|zstd,3", "32001,0,0,0,0,5,1,1", "32004,0", "4,32,8", "32000",
               "3", "2"]
ZARR_CHAINS = ["none", "1,1", "2|1,5", "307,1", "32015,3", "32001,0,0,0,0,5,1,1", "32004,0"]


def import_libraries(codecfs):
    """h5py looks for plugins when it is imported."""
    os.environ["HDF5_PLUGIN_PATH"] = support.plugin_folder(codecfs)
    global h5py, np, zarr, random_files, compare, copies
    import h5py
    import numpy as np
    import zarr

    import compare
    import copies
    import random_files
    warnings.simplefilter("ignore", UserWarning)


# --- comparing


def bytes_of(array):
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), f"V{max(array.dtype.itemsize, 1)}")


def check(ours, variable, where, kept=None):
    """`ours` is what the model says, but for what is not defined."""
    theirs, mask = variable.array, variable.defined
    ours = as_array(ours, theirs)
    if ours.shape != theirs.shape:
        raise Fault(f"{where}: shape {ours.shape}, and not {theirs.shape}")
    if theirs.dtype.names:
        for name in theirs.dtype.names:
            if name not in (ours.dtype.names or ()):
                raise Fault(f"{where}: no member {name} in {ours.dtype}")
            a, b = ours[name], theirs[name]
            compare_values(a, b, mask, f"{where}, member {name}")
        return
    compare_values(ours, theirs, mask, where)


def as_array(value, like):
    """h5py and zarr-python return scalars for arrays without dimensions: numpy would take "ab" for a type of two letters."""
    if isinstance(value, np.ndarray) or like.dtype.kind not in "SUmM":
        return np.asarray(value)
    return np.asarray(value, like.dtype)


def compare_values(ours, theirs, mask, where):
    mask = np.broadcast_to(mask.reshape(mask.shape + (1,) * (theirs.ndim - mask.ndim)), theirs.shape)
    if theirs.dtype.names:
        for name in theirs.dtype.names:
            compare_values(ours[name], theirs[name], mask, f"{where}.{name}")
        return
    if theirs.dtype.kind == "O":
        same = np.array([compare.text_of(a) == compare.text_of(b) for a, b in zip(ours.ravel(), theirs.ravel())], bool)
    elif theirs.dtype == np.dtype("<f16"):
        ours = ours.view(theirs.dtype) if ours.dtype.kind == "V" else ours
        same = ((ours == theirs) | ((ours != ours) & (theirs != theirs))).ravel()  # its padding is no value
    elif ours.dtype.itemsize != theirs.dtype.itemsize:
        raise Fault(f"{where}: type {ours.dtype}, and not {theirs.dtype}")
    else:
        if ours.dtype.byteorder != theirs.dtype.byteorder and ours.dtype.kind in "iufc" and ours.dtype.itemsize > 1:
            ours = ours.astype(theirs.dtype)
        same = bytes_of(ours) == bytes_of(theirs)
    bad = ~same & mask.ravel()
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        place = tuple(int(i) for i in np.unravel_index(at, theirs.shape))
        raise Fault(f"{where}: {int(bad.sum())} of {theirs.size} elements differ, the first at {place}: {ours.ravel()[at]!r}, and not "
                    f"{theirs.ravel()[at]!r}")


def converted(values, dtype):
    """The values in the type that a view shows: the same members, perhaps with padding beside them."""
    if dtype.names:
        made = np.zeros(values.shape, dtype)
        for name in values.dtype.names:
            made[name] = converted(values[name], dtype[name].base)
        return made
    if dtype.kind == "O" or values.dtype == dtype:
        return values
    if dtype.kind == "V" or values.dtype.kind == "V":
        return np.ascontiguousarray(values).view(dtype)
    return values.astype(dtype)


# --- one source on the mount


class Trial:
    def __init__(self, number, rng, path, text, variables, told, counts):
        self.number, self.rng, self.path, self.text, self.variables = number, rng, path, text, variables
        self.kind = text.split()[0]
        self.told, self.counts = told, counts
        self.trace = []
        self.fault = None
        self.chains = {}
        self.is_changed = False

    def guarded(self, action, *arguments):
        if self.fault:
            return
        try:
            action(*arguments)
        except Exception as error:  # noqa: B902: all that is wrong is a fault of this source
            self.fault = str(error) if isinstance(error, Fault) else "".join(traceback.format_exception(error)[-8:])

    def describe(self):
        return "\n".join([f"{self.path.name}: {self.text}", *("  " + v.text for v in self.variables), *("  > " + t for t in self.trace)])

    def view(self, name):
        return self.mountpoint / ".codecfs/view" / name / self.root.relative_to(self.mountpoint)

    def array_path(self, variable, view="npy"):
        return self.view(view) / (variable.name + (".npy" if view == "npy" else ""))

    def facts(self, variable):
        return json.loads((self.root / variable.name / ".zarray").read_text())

    def cell_names(self, variable):
        return {".".join(map(str, cell)) or "0": cell for cell in variable.cells()}

    # --- reading

    def read_all(self, mountpoint, of="at first"):
        self.mountpoint = mountpoint
        self.root = mountpoint if self.kind == "zip" else mountpoint / self.path.name
        decoded = zarr.open_group(str(self.root), "r")
        encoded = zarr.open_group(str(self.view("encoded")), "r")
        for variable in self.variables:
            where = f"{variable.name} {of}"
            check(decoded[variable.name][...], variable, f"{where}, decoded view")
            if self.can_read_encoded(variable):
                check(encoded[variable.name][...], variable, f"{where}, encoded view")
            self.read_files(variable, where)
            if not variable.type.is_text_object:
                array = np.load(self.array_path(variable), mmap_mode="r" if variable.array.size else None)
                check(array, variable, f"{where}, npy view")
                raw = self.array_path(variable, "raw").read_bytes()
                check(np.frombuffer(raw, array.dtype).reshape(array.shape) if raw else array, variable, f"{where}, raw view")
            self.counts["variables read"] += 1

    def can_read_encoded(self, variable):
        text = (self.view("encoded") / variable.name / ".zarray").read_text()
        if "fletcher32" in text or "szip" in text:
            return False  # numcodecs of Debian 12 does not have them
        return not (variable.type.is_text_object and "shuffle" in text and "11" in self.told.left_out)

    def read_files(self, variable, where):
        """The chunk files, and that those that are listed are those that are there."""
        directory = self.root / variable.name
        facts = self.facts(variable)
        names = self.cell_names(variable)
        listed = set(os.listdir(directory)) - {".zarray", ".zattrs", "_Filter", "_Codecs"}
        there = {name for name in names if (directory / name).exists()}
        if listed != there:
            raise Fault(f"{where}: listed and not there {sorted(listed - there)[:5]}, there and not listed {sorted(there - listed)[:5]}")
        if facts["fill_value"] is None and len(there) != len(names) and variable.array.size:
            raise Fault(f"{where}: fill_value is null, and chunks are absent")
        if variable.type.is_text_object or facts["fill_value"] is None and 0 in variable.full_shape:
            return
        dtype = compare.numpy_dtype(facts["dtype"])
        for name in self.rng.sample(sorted(there), min(4, len(there))):
            data = (directory / name).read_bytes()
            if len(data) != int(np.prod(facts["chunks"])) * dtype.itemsize:
                raise Fault(f"{where}, {name}: {len(data)} bytes")
            whole = np.frombuffer(data, dtype).reshape(facts["chunks"])
            part = variable.inside(names[name])
            view = Part(variable, part)
            check(whole[(*(slice(s.stop - s.start) for s in part), ...)], view, f"{where}, chunk file {name}")

    # --- changing

    def change(self):
        for _ in range(self.rng.choice([1, 2, 4, 6, 8])):
            variable = self.rng.choice(self.variables)
            actions = [self.set_attribute]
            if variable.can_recode:
                actions += [self.recode] * 2
            if variable.can_write and variable.array.size and not (variable.late_plugin and not variable.is_stored and "7" in self.told.left_out):
                actions += [self.write_zarr, self.write_encoded]
                if not variable.type.is_text_object:
                    actions += [self.write_chunk, self.write_part, self.map_chunk, self.write_array, self.map_array, self.unlink] * 2
                    actions += [self.replace_by_less]
            if variable.layout == "chunked" and variable.chunks and variable.can_write and self.kind != "zip":
                actions += [self.resize]
            action = self.rng.choice(actions)
            self.counts[action.__name__] += 1
            self.trace.append(f"{action.__name__} {variable.name}")
            self.is_changed = True
            if action not in (self.recode, self.set_attribute, self.resize):
                variable.has_known_padding = False
            action(variable)
            if self.rng.random() < 0.5:
                decoded = zarr.open_group(str(self.root), "r")
                check(decoded[variable.name][...], variable, f"{variable.name} after {self.trace[-1]}, decoded view")

    def region(self, variable):
        return random_files.random_slices(self.rng, variable.shape)

    def assign(self, variable, place, values):
        array, defined = variable.array.copy(), variable.defined.copy()
        if array.ndim:
            array[place], defined[place] = values, True
        else:
            array, defined = np.asarray(values).reshape(()).copy(), np.array(True)
        if array.dtype != variable.array.dtype:
            array = array.astype(variable.array.dtype)
        variable.array, variable.defined, variable.is_stored = array, defined, True

    def new_values(self, variable, place):
        return variable.type.values([s.stop - s.start for s in place])

    def by_zarr(self, variable, root):
        place = self.region(variable)
        values = self.new_values(variable, place)
        array = zarr.open_group(str(root), "r+")[variable.name]
        self.trace[-1] += f" {place}"
        if variable.full_shape:
            array[place] = converted(values, array.dtype)
        else:
            array[()] = converted(values, array.dtype)[()]
        self.assign(variable, place, values)

    def write_zarr(self, variable):
        self.by_zarr(variable, self.root)

    def write_encoded(self, variable):
        if not self.can_read_encoded(variable):
            return
        self.by_zarr(variable, self.view("encoded"))

    def pick_chunk(self, variable):
        name, cell = self.rng.choice(list(self.cell_names(variable).items()))
        facts = self.facts(variable)
        dtype, chunks = compare.numpy_dtype(facts["dtype"]), tuple(facts["chunks"])
        place = variable.inside(cell)
        inner = len(variable.type.inner)
        outer = place[:len(place) - inner] if inner else place
        whole_cell = chunks[:len(chunks) - inner] if inner else chunks
        values = variable.type.values(whole_cell)
        self.trace[-1] += f" {name}"
        return self.root / variable.name / name, dtype, chunks, place, outer, values

    def write_chunk(self, variable):
        path, dtype, chunks, place, _, values = self.pick_chunk(variable)
        data = converted(values, dtype).tobytes()
        way = self.rng.choice(["truncate", "in place", "rename", "sync"])
        self.trace[-1] += f" {way}"
        if way == "rename":
            beside = path.with_name(".new.tmp")
            beside.write_bytes(data)
            os.replace(beside, path)
        else:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if way == "truncate" else 0), 0o644)
            try:
                if os.write(fd, data) != len(data):
                    raise Fault(f"{path.name}: a short write")
                if way == "sync":
                    os.fsync(fd)
            finally:
                os.close(fd)
        self.assign(variable, place, values.reshape(chunks)[tuple(slice(s.stop - s.start) for s in place)])

    def replace_by_less(self, variable):
        """Less than a chunk, as a client stores it that compresses, must not become one."""
        path, dtype, chunks, *_ = self.pick_chunk(variable)
        size = int(np.prod(chunks)) * dtype.itemsize
        if size < 2:
            return
        data = os.urandom(self.rng.randrange(1, size))
        beside = path.with_name(".new.tmp")
        beside.write_bytes(data)
        try:
            os.replace(beside, path)
        except OSError as error:
            beside.unlink()
            if error.errno != errno.EINVAL:
                raise
            return
        raise Fault(f"{path.name}: {len(data)} bytes replaced a chunk of {size}")

    def changed_part(self, variable, path, dtype, chunks, place, values):
        """Some elements of a chunk: (first, bytes), and puts them into the model."""
        count = int(np.prod(chunks))
        first = self.rng.randrange(count)
        length = self.rng.randrange(first, count) + 1 - first
        self.trace[-1] += f" elements {first}:{first + length}"
        inside = tuple(slice(s.stop - s.start) for s in place)
        model = np.zeros(chunks, variable.array.dtype)
        known = np.zeros(chunks, bool)
        if variable.fill is not None:
            model[...] = variable.fill
        model[inside], known[inside] = variable.array[place], variable.defined[place]
        values = values.reshape(-1)
        model.reshape(-1)[first:first + length] = values[first:first + length]
        known.reshape(-1)[first:first + length] = True
        self.assign(variable, place, model[inside])
        defined = variable.defined.copy()
        if defined.ndim:
            defined[place] = known[inside]
        variable.defined = defined
        return first * dtype.itemsize, converted(values[first:first + length], dtype).tobytes()

    def write_part(self, variable):
        path, dtype, chunks, place, _, values = self.pick_chunk(variable)
        offset, data = self.changed_part(variable, path, dtype, chunks, place, values)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if os.pwrite(fd, data, offset) != len(data):
                raise Fault(f"{path.name}: a short write")
        finally:
            os.close(fd)

    def map_chunk(self, variable):
        path, dtype, chunks, place, _, values = self.pick_chunk(variable)
        if not path.exists():
            self.trace[-1] += " absent"
            return
        offset, data = self.changed_part(variable, path, dtype, chunks, place, values)
        with open(path, "r+b") as file:
            with mmap.mmap(file.fileno(), 0) as map_:
                map_[offset:offset + len(data)] = data
                if self.rng.random() < 0.7:
                    map_.flush()

    def write_array(self, variable):
        """A run of elements of the raw or npy view."""
        array = np.load(self.array_path(variable))
        view = self.rng.choice(["npy", "raw"])
        path = self.array_path(variable, view)
        start = path.stat().st_size - array.nbytes
        first = self.rng.randrange(array.size)
        length = self.rng.randrange(first, array.size) + 1 - first
        values = variable.type.values(variable.shape).reshape(-1)[first:first + length]
        self.trace[-1] += f" {view} elements {first}:{first + length}"
        with open(path, "r+b", buffering=0) as file:
            data = converted(values, array.dtype).tobytes()
            if os.pwrite(file.fileno(), data, start + first * array.itemsize) != len(data):
                raise Fault(f"{path.name}: a short write")
            if self.rng.random() < 0.3:
                os.fsync(file.fileno())
        model, defined = variable.array.copy(), variable.defined.copy()
        model.reshape(-1)[first:first + length] = values
        defined.reshape(-1)[first:first + length] = True
        variable.array, variable.defined, variable.is_stored = model, defined, True

    def map_array(self, variable):
        if not variable.shape:
            return
        array = np.load(self.array_path(variable), mmap_mode="r+")
        place = self.region(variable)
        values = self.new_values(variable, place)
        self.trace[-1] += f" {place}"
        array[place] = converted(values, array.dtype)
        array.flush()
        array._mmap.close()
        self.assign(variable, place, values)

    def unlink(self, variable):
        facts = self.facts(variable)
        if not variable.can_unlink or facts["fill_value"] is None:
            self.trace[-1] += " not possible"
            return
        name, cell = self.rng.choice(list(self.cell_names(variable).items()))
        self.trace[-1] += f" {name}"
        try:
            os.unlink(self.root / variable.name / name)
        except FileNotFoundError:
            return
        self.assign(variable, variable.inside(cell), variable.fill)

    def resize(self, variable):
        shape = []
        for n, most in zip(variable.shape, variable.maxshape):
            size = n + self.rng.randrange(-min(n, 4), 5) if self.rng.random() < 0.6 else n
            shape.append(max(size if most is None else min(size, most), 0))
        path = self.root / variable.name / ".zarray"
        told = json.loads(path.read_text())
        told["shape"] = shape + list(variable.type.inner)
        self.trace[-1] += f" to {shape}"
        if shape == list(variable.shape):
            return
        path.write_text(json.dumps(told))
        variable.is_grown |= variable.allocation in ("early", "late", "default") and any(a > b for a, b in zip(shape, variable.shape))
        variable.resize(shape)
        if self.kind != "hdf5":
            variable.has_known_padding = False  # what was cut off comes back
        if variable.type.is_text_object and variable.fill is None:
            variable.defined[...] = False

    def recode(self, variable):
        chains = ZARR_CHAINS
        if self.kind == "hdf5":  # what h5py can read here
            missing = {str(number) for number in random_files.PLUGINS if not h5py.h5z.filter_avail(number)}
            chains = [chain for chain in HDF5_CHAINS if not missing & {step.split(",")[0] for step in chain.replace("zstd", "32015").split("|")}]
        spec = self.rng.choice(chains)
        if variable.type.is_text_object and "11" in self.told.left_out:
            spec = self.rng.choice([chain for chain in ("none", "1,1", "32015,3") if chain in chains])
        self.trace[-1] += f" {spec}"
        try:
            os.setxattr(self.root / variable.name, "user._Filter", spec.encode())
        except OSError as error:
            if error.errno not in REFUSALS:
                raise
            self.trace[-1] += f" refused: {errno.errorcode[error.errno]}"
            self.counts[f"recode refused: {errno.errorcode[error.errno]}"] += 1
            return
        variable.is_filtered = variable.is_recoded = self.kind == "hdf5"
        variable.can_write = variable.can_write or not variable.lossy
        self.counts["recode done"] += 1

    def set_attribute(self, variable):
        name, value = self.rng.choice([("title", "new"), ("level", 3), ("ratio", 0.25)])
        self.trace[-1] += f" {name}"
        try:
            os.setxattr(self.root / variable.name, f"user.{name}", str(value).encode())
        except OSError as error:
            if error.errno not in REFUSALS:
                raise
            self.trace[-1] += f" refused: {error}"
            return
        variable.attributes[name] = value

    # --- what is left

    def judge(self, when):
        if self.kind == "hdf5":
            with h5py.File(self.path, "r") as file:
                for variable in self.variables:
                    dataset = file[variable.name]
                    array = as_array(random_files.read_hdf5_variable(file, variable), variable.array).reshape(variable.full_shape)
                    self.compare_source(array, variable, dataset.attrs, dataset.shape, dataset.maxshape, when)
                    if variable.is_recoded:
                        self.check_masks(dataset, f"{variable.name} in the source {when}")
            return
        store = zarr.ZipStore(str(self.path), mode="r") if self.kind == "zip" else zarr.DirectoryStore(str(self.path))
        group = zarr.open_group(store, "r")
        for variable in self.variables:
            array = group[variable.name]
            self.compare_source(array[...], variable, dict(array.attrs), array.shape, None, when)
        store.close()

    def check_masks(self, dataset, where):
        """libhdf5 leaves a filter out of a chunk only where it is optional and fails: of these, szip, lzf and blosc may."""
        filters = dataset.id.get_create_plist()
        may_fail = sum(1 << i for i in range(filters.get_nfilters()) if filters.get_filter(i)[0] in (4, 32000, 32001))
        for i in range(dataset.id.get_num_chunks() if dataset.chunks else 0):
            chunk = dataset.id.get_chunk_info(i)
            if chunk.filter_mask & ~may_fail:
                raise Fault(f"{where}: the chunk at {chunk.chunk_offset} has the filter mask {chunk.filter_mask:#x}")

    def compare_source(self, array, variable, attributes, shape, maxshape, when):
        where = f"{variable.name} in the source {when}"
        check(array, variable, where)
        if set(attributes) != set(variable.attributes):
            raise Fault(f"{where}: attributes {sorted(attributes)}, and not {sorted(variable.attributes)}")
        for name, value in variable.attributes.items():
            if not compare.same_values(attributes[name], value) and attributes[name] != value:
                raise Fault(f"{where}: attribute {name} is {attributes[name]!r}, and not {value!r}")
        if maxshape is not None and variable.layout == "chunked" and variable.is_stored and tuple(maxshape) != variable.maxshape:
            raise Fault(f"{where}: maximal shape {maxshape}, and not {variable.maxshape}")
        self.counts["variables judged"] += 1

    def compact(self):
        if self.kind == "zarr" or ("1" in self.told.left_out and not all(v.can_compact for v in self.variables)):
            return
        if "grown" in self.told.left_out and any(v.is_grown for v in self.variables):
            return
        code, text = support.run(self.told.codecfs, "--compact", self.path)
        if code != 0:
            raise Fault(f"--compact ended with {code}: {text}")
        self.trace.append("compact")
        self.counts["compacted"] += 1
        self.judge("after --compact")


class Part:
    """The part of a variable that a chunk covers."""

    def __init__(self, variable, place):
        self.array, self.defined = variable.array[(*place, ...)], variable.defined[(*place, ...)]


# --- batches


def make_trials(told, folder, numbers, counts):
    library = random_files.libhdf5()
    for number in numbers:
        rng = random.Random(f"{told.seed}/{number}")
        path, text, variables = random_files.make(rng, folder, number, library, KINDS)
        counts[text.split()[0] + " sources"] += 1
        yield Trial(number, rng, path, text, variables, told, counts)


def run_batch(told, directory, numbers, counts):
    """The trials that failed."""
    sources, originals = directory / "sources", directory / "originals"
    sources.mkdir()
    trials = list(make_trials(told, sources, numbers, counts))
    if told.keep:
        shutil.copytree(sources, originals)
    options = ["commit=3600"] if random.Random(f"{told.seed}/{numbers[0]}/options").random() < 0.5 else []
    with mounted(sources, directory / "mnt", *options) as mount:
        for trial in trials:
            with mounted(trial.path, directory / "zip") if trial.kind == "zip" else contextlib.nullcontext(mount) as place:
                trial.guarded(trial.read_all, place.path)
                trial.guarded(trial.change)
                trial.guarded(trial.read_all, place.path, "after the changes")
            if trial.fault:
                lines = [line for line in mount.log.read_text().splitlines() if trial.path.name in line or "error" in line]
                trial.fault += "\n  log of the daemon: " + "\n    ".join(lines[-4:])
            if mount.process.poll() is not None:
                trial.fault = f"the daemon ended with {mount.process.poll()}; {trial.fault}"
                break
    for trial in trials:
        trial.guarded(trial.judge, "after the unmount")
        trial.guarded(trial.compact)
        trial.guarded(copies.copy_and_judge, trial, directory)
    return [trial for trial in trials if trial.fault]


def try_batch(told, numbers):
    """In a process of its own: a mount that fails or hangs must not end the whole run. Returns (failures, counts)."""
    directory = support.scratch("codecfs-differential-")
    report = directory / "report.json"

    def work():
        counts = collections.Counter()
        failed = run_batch(told, directory, numbers, counts)
        texts = {trial.number: f"{trial.describe()}\n  FAULT: {trial.fault}" for trial in failed}
        report.write_text(json.dumps([texts, counts]))
        return True

    try:
        ended = support.in_child(work, LONGEST)
        if not ended:
            texts, counts = json.loads(report.read_text())
            for number in texts if told.keep else ():
                keep(told, directory, number)
            return {int(number): text for number, text in texts.items()}, counts
        if len(numbers) > 1:  # which one?
            failures, counts = {}, collections.Counter()
            for number in numbers:
                more, some = try_batch(told, [number])
                failures.update(more)
                counts.update(some)
            if not failures:
                failures[numbers[0]] = f"sources {numbers[0]} to {numbers[-1]} together: {ended}; each alone passes"
            return failures, counts
        if told.keep:
            keep(told, directory, numbers[0])
        return {numbers[0]: f"source {numbers[0]}: {ended}"}, {}
    finally:
        detach_below(directory)
        shutil.rmtree(directory, ignore_errors=True)


def keep(told, directory, number):
    for folder in ("originals", "sources"):
        for path in (directory / folder).glob(f"{number}.*"):
            target = told.keep / folder
            target.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if path.is_dir() else shutil.copy)(path, target / path.name)


def main():
    made = support.parser("differential-test", __doc__, 500)
    made.add_argument("--only", type=int, metavar="NUMBER", help="only the source of this number of the seed")
    made.add_argument("--most", type=int, default=10, metavar="N", help="end after so many failures (default 10)")
    told = support.parse(made)
    import_libraries(told.codecfs)
    print(f"differential-test: {told.count} sources, seed {told.seed}; left out: items {sorted(told.left_out) or 'none'}", flush=True)
    numbers = [told.only] if told.only is not None else list(range(told.count))
    begun, counts, failures = time.monotonic(), collections.Counter(), {}
    tried = 0
    for first in range(0, len(numbers), BATCH):
        batch = numbers[first:first + BATCH]
        more, some = try_batch(told, batch)
        counts.update(some)
        tried += len(batch)
        for number, text in more.items():
            print(f"--- FAILED: source {number}; again with: scripts/differential-test --only {number} 1 {told.seed}\n{text}", flush=True)
        failures.update(more)
        if len(failures) >= told.most:
            break
    plugins = os.environ["HDF5_PLUGIN_PATH"]
    if plugins:
        shutil.rmtree(plugins, ignore_errors=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    print(f"differential-test: {len(failures)} of {tried} sources failed in {time.monotonic() - begun:.0f} s; seed {told.seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
