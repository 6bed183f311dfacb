"""What a mount holds, and reading arrays of it with numpy alone: its chunks are uncompressed Zarr v2.

Nothing is invented: a chunk that is not there is fill values only as long as its variable is there, and everything that fails is an
error. Other readers of Zarr take some errors for absent chunks.
"""
from __future__ import annotations

import base64
import concurrent.futures
import itertools
import json
import math
import os
import pathlib
import re
import struct
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Iterator, Sequence, Union

from ._needs import need
from ._program import CodecfsError
from ._shared import SharedMount

if TYPE_CHECKING:
    import numpy

THREADS = 8  # that read chunks of one array at a time, which codecfs decodes on all cores

Step = Union[int, slice, Any]  # of an axis: a number, a slice, or a one-dimensional array of numbers


@dataclass(frozen=True)
class ArrayFacts:
    """An array, as the metadata in the mount describes it."""

    path: str  # "ocean/salinity"; "" for an array that is the whole source
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: Any = field(hash=False)  # as in .zarray
    fill_value: Any = field(hash=False)  # as in .zarray
    separator: str
    codecs: tuple[str, ...]
    attributes: dict[str, Any] = field(compare=False)

    @property
    def dimensions(self) -> tuple[str, ...] | None:
        names = self.attributes.get("_ARRAY_DIMENSIONS")
        return tuple(names) if isinstance(names, list) and len(names) == len(self.shape) else None


class Tree:
    """All groups and arrays of a source by their paths: "" is the root, "ocean/salinity" a member of "ocean"."""

    def __init__(self, is_hdf5: bool) -> None:
        self.is_hdf5 = is_hdf5
        self.groups: dict[str, dict[str, Any]] = {}  # with their attributes
        self.arrays: dict[str, ArrayFacts] = {}
        self._members: dict[str, dict[str, ArrayFacts]] = {}

    def add(self, facts: ArrayFacts) -> None:
        self.arrays[facts.path] = facts
        group, _, name = facts.path.rpartition("/")
        if name:
            self._members.setdefault(group, {})[name] = facts

    def arrays_in(self, group: str) -> dict[str, ArrayFacts]:
        """Those directly in a group, by their names."""
        return self._members.get(group, {})


_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def attributes_of(found: dict[str, Any]) -> dict[str, Any]:
    """Without those that codecfs and netCDF add, and with the numbers that JSON does not have, which are texts in the mount."""
    try:
        floats = set(json.loads(found.get("_codecfs_float_attributes", "[]")))
    except (TypeError, ValueError):
        floats = set()

    def number(value: Any) -> Any:
        if isinstance(value, list):
            return [number(one) for one in value]
        return _FLOATS.get(value, value) if isinstance(value, str) else value

    return {name: number(value) if name in floats else value for name, value in found.items()
            if name != "_ARRAY_DIMENSIONS" and not name.startswith(("_codecfs_", "_nc"))}


def _array(path: str, document: dict[str, Any], attributes: dict[str, Any]) -> ArrayFacts:
    codecs = [*(document.get("filters") or []), *([document["compressor"]] if document.get("compressor") else [])]
    return ArrayFacts(path, tuple(document["shape"]), tuple(document["chunks"]), document["dtype"], document["fill_value"],
                      document.get("dimension_separator", "."), tuple(codec["id"] for codec in codecs), attributes)


def _join(first: str, second: str) -> str:
    return f"{first}/{second}" if first and second else first or second


def _read_json(path: pathlib.Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None


def _collect(tree: Tree, top: pathlib.Path, place: str) -> None:
    here = top / place
    consolidated = _read_json(here / ".zmetadata")
    if consolidated is not None:
        documents = consolidated["metadata"]
        for key, document in documents.items():
            name, _, kind = key.rpartition("/")
            attributes = documents.get(_join(name, ".zattrs"), {})
            if kind == ".zarray":
                tree.add(_array(_join(place, name), document, attributes))
            elif kind == ".zgroup":
                tree.groups[_join(place, name)] = attributes
        return
    document = _read_json(here / ".zarray")
    attributes = _read_json(here / ".zattrs") or {}
    if document is not None:
        tree.add(_array(place, document, attributes))
        return
    # A folder of datasets.
    tree.groups[place] = attributes
    with os.scandir(here) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."))
    for name in names:
        _collect(tree, top, _join(place, name))


def view(path: pathlib.Path) -> pathlib.Path:
    """Chunks in the form of Zarr v2, whatever the format of the source."""
    return path / ".codecfs/view/decoded"


def tree_of(shared: SharedMount) -> Tree:
    """What a source holds; read once for each mount."""
    with shared.use() as path:
        found: Tree | None = shared.cache.get("tree")
        if found is None:
            has_places = (path / ".codecfs/references.json").exists()  # HDF5, or a zip archive
            found = Tree(has_places and not shared.source.endswith(".zip"))
            _collect(found, view(path), "")
            shared.cache["tree"] = found
        return found


def unlimited_in(shared: SharedMount, tree: Tree, group: str) -> set[str]:
    """The dimensions that can grow without limit."""
    found: set[str] = set()
    with shared.use() as path:
        for facts in tree.arrays_in(group).values():
            if facts.dimensions is None:
                continue
            try:
                longest = json.loads(os.getxattr(path / facts.path, "user._MaxShape"))
            except (OSError, ValueError):
                continue
            found.update(name for name, limit in zip(facts.dimensions, longest) if limit is None)
    return found


def _numpy() -> Any:
    return need("numpy", "reading arrays")


def dtype_of(facts: ArrayFacts) -> numpy.dtype[Any]:
    return _dtype(facts.dtype)


def _dtype(described: Any) -> numpy.dtype[Any]:
    np = _numpy()
    dtype: numpy.dtype[Any]
    if isinstance(described, str):
        dtype = np.dtype(described)
        return dtype
    # The gaps between the members of a compound type of C are members in Zarr.
    names, kinds, offsets, size = [], [], [], 0
    for name, kind, *shape in described:
        member = np.dtype((_dtype(kind), tuple(shape[0]))) if shape else _dtype(kind)
        if not (isinstance(kind, str) and kind.startswith("|V") and re.fullmatch(r"(__pad\d+)?", name)):
            names.append(name)
            kinds.append(member)
            offsets.append(size)
        size += member.itemsize
    dtype = np.dtype({"names": names, "formats": kinds, "offsets": offsets, "itemsize": size})
    return dtype


def fill_of(facts: ArrayFacts) -> Any:
    """The value of absent chunks; None if it is not defined."""
    np = _numpy()
    dtype, value = dtype_of(facts), facts.fill_value
    if value is None:
        return None
    if dtype.kind in "SV":
        if value in ("", 0):
            return np.zeros((), dtype)[()]
        raw = base64.standard_b64decode(value)
        return np.array(raw, dtype)[()] if dtype.kind == "S" else np.frombuffer(raw, dtype)[0]
    if dtype.kind == "c" and isinstance(value, list):
        return dtype.type(complex(*(float(part) for part in value)))
    if dtype.kind in "mM":
        return np.array(value, dtype)[()] if isinstance(value, str) else np.array(value, "i8").view(dtype.newbyteorder("="))[()]
    if dtype.kind == "O":
        return value if isinstance(value, str) else ""  # Zarr has 0 where none was given
    return np.array(float(value) if dtype.kind == "f" else value, dtype)[()]


def _texts(data: bytes, count: int, decode: bool) -> Any:
    """numcodecs' vlen-utf8 and vlen-bytes: the number of texts, then the length and the bytes of each."""
    np = _numpy()
    values = np.empty(count, object)
    if struct.unpack_from("<I", data)[0] != count:
        raise CodecfsError("a chunk of text has another number of elements than it should have")
    position = 4
    for number in range(count):
        length = struct.unpack_from("<I", data, position)[0]
        position += 4 + length
        text = data[position - length:position]
        values[number] = text.decode() if decode else text
    return values


def _pieces(step: Any, length: int, chunk: int) -> list[tuple[int, Any, Any]]:
    """For one axis: (number of the chunk, what of it, where it goes)."""
    np = _numpy()
    if isinstance(step, range):
        found = []
        for number in range(step[0] // chunk, step[-1] // chunk + 1) if step else []:
            begin, end = number * chunk, min((number + 1) * chunk, length)
            first = max(0, -((step.start - begin) // step.step)) if begin > step.start else 0
            last = min(len(step) - 1, (end - 1 - step.start) // step.step)
            if first <= last:
                found.append((number, slice(step[first] - begin, step[last] - begin + 1, step.step), slice(first, last + 1)))
        return found
    numbers = step // chunk
    return [(int(number), step[numbers == number] - number * chunk, np.nonzero(numbers == number)[0]) for number in np.unique(numbers)]


def _span(selected: Any) -> tuple[int, int]:
    """The smallest range of numbers that has all that are selected."""
    if isinstance(selected, slice):
        return selected.start, selected.stop
    return int(selected.min()), int(selected.max()) + 1


class _Reader:
    def __init__(self, path: pathlib.Path, facts: ArrayFacts) -> None:
        self.np = _numpy()
        self.folder = view(path) / facts.path
        self.facts = facts
        self.dtype = dtype_of(facts)
        self.fill = fill_of(facts)
        self.is_text = self.dtype.hasobject
        known: list[tuple[str, ...]] = [("vlen-utf8",), ("vlen-bytes",)] if self.is_text else [()]
        if facts.codecs not in known:
            raise CodecfsError(f"/{facts.path}: objects of the codec {', '.join(facts.codecs)} cannot be read; zarr may know it")
        self.count = math.prod(facts.chunks)

    def read(self, steps: Sequence[Any], shape: tuple[int, ...]) -> Any:
        out = self.np.empty(shape, self.dtype)
        axes = [_pieces(step, length, chunk) for step, length, chunk in zip(steps, self.facts.shape, self.facts.chunks)]
        total = math.prod(len(axis) for axis in axes)
        pieces = itertools.product(*axes)
        threads = min(THREADS, total)
        if threads <= 1:
            self._read_pieces(out, pieces, None)
            return out
        lock = threading.Lock()
        with concurrent.futures.ThreadPoolExecutor(threads, "codecfs") as pool:
            for result in [pool.submit(self._read_pieces, out, pieces, lock) for _ in range(threads)]:
                result.result()
        return out

    def _read_pieces(self, out: Any, pieces: Iterator[tuple[Any, ...]], lock: threading.Lock | None) -> None:
        while True:
            if lock is None:
                piece = next(pieces, None)
            else:
                with lock:
                    piece = next(pieces, None)
            if piece is None:
                return
            where = tuple(target for _, _, target in piece)
            if any(not isinstance(target, slice) for target in where):
                where = self.np.ix_(*(self.np.arange(target.start, target.stop) if isinstance(target, slice) else target
                                      for target in where))
            self._read_chunk([number for number, _, _ in piece], [selected for _, selected, _ in piece], out, where)

    def _read_chunk(self, numbers: list[int], selected: list[Any], out: Any, where: Any) -> None:
        """Stores what is selected of a chunk in out[where]."""
        name = self.facts.separator.join(map(str, numbers)) or "0"
        try:
            chunk = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            if self.fill is None or not (self.folder / ".zarray").exists():
                raise CodecfsError(f"/{self.facts.path}, chunk {name}: it is gone, as the source was changed: open it again") from None
            out[where] = self.fill
            return
        try:
            size = os.fstat(chunk).st_size
            if self.is_text:
                self._read_texts(chunk, size, name, selected, out, where)
            elif size != self.count * self.dtype.itemsize:
                raise CodecfsError(f"/{self.facts.path}, chunk {name}: it has another size now, as the source was changed: open it again")
            else:
                self._read_elements(chunk, name, selected, out, where)
        except OSError as error:
            error.filename = self.folder / name
            raise
        finally:
            os.close(chunk)

    def _read_texts(self, chunk: int, size: int, name: str, selected: list[Any], out: Any, where: Any) -> None:
        np = self.np
        data = bytearray(size)
        self._fill(chunk, name, 0, memoryview(data))
        values = _texts(bytes(data), self.count, self.facts.codecs == ("vlen-utf8",)).reshape(self.facts.chunks)
        axes = [np.arange(*part.indices(length)) if isinstance(part, slice) else part
                for part, length in zip(selected, self.facts.chunks)]
        out[where] = values[np.ix_(*axes)] if axes else values[()]

    def _read_elements(self, chunk: int, name: str, selected: list[Any], out: Any, where: Any) -> None:
        """Reads what lies from the first to the last element that is wanted, and selects."""
        np, itemsize = self.np, self.dtype.itemsize
        strides = [math.prod(self.facts.chunks[axis + 1:]) for axis in range(len(selected))]
        spans = [_span(part) for part in selected]
        first = sum(begin * stride for (begin, _), stride in zip(spans, strides))
        last = sum((end - 1) * stride for (_, end), stride in zip(spans, strides))
        count = last - first + 1
        are_slices = all(isinstance(part, slice) for part in selected)
        target = out[where] if are_slices else None
        if isinstance(target, np.ndarray) and target.flags.c_contiguous and target.size == count:
            self._fill(chunk, name, first * itemsize, memoryview(target.reshape(-1).view(np.uint8)))
            return
        data = np.empty(count, self.dtype)
        self._fill(chunk, name, first * itemsize, memoryview(data.view(np.uint8)))
        box = np.ndarray([end - begin for begin, end in spans], self.dtype, data, 0, [stride * itemsize for stride in strides])
        if are_slices:
            out[where] = box[tuple(slice(None, None, part.step) for part in selected)]
        else:
            out[where] = box[np.ix_(*(np.arange(0, end - begin, part.step) if isinstance(part, slice) else part - begin
                                      for part, (begin, end) in zip(selected, spans)))]

    def _fill(self, chunk: int, name: str, offset: int, target: memoryview) -> None:
        while len(target) > 0:
            count = os.preadv(chunk, [target], offset)
            if count == 0:
                raise CodecfsError(f"/{self.facts.path}, chunk {name}: it ends too early, as the source was changed: open it again")
            target = target[count:]
            offset += count


def _check_same(shared: SharedMount, path: pathlib.Path, facts: ArrayFacts) -> None:
    """Once for each mount: an array may be read by another process, or after a close()."""
    if ("same", facts) in shared.cache:
        return
    document = _read_json(view(path) / facts.path / ".zarray")
    if document is None or _array(facts.path, document, {}) != facts:
        raise CodecfsError(f"/{facts.path}: {shared.source} was changed since it was opened: open it again")
    shared.cache["same", facts] = True


def read(shared: SharedMount, facts: ArrayFacts, key: tuple[Step, ...]) -> Any:
    """The elements that a key selects, as numpy.ndarray: for each axis a number, a slice, or an array of numbers, independent of each
    other (an "outer" selection)."""
    np = _numpy()
    steps: list[Any] = []
    shape: list[int] = []
    final: list[Any] = []
    for step, length in zip(key, facts.shape):
        if isinstance(step, slice):
            numbers = range(*step.indices(length))
            steps.append(numbers if numbers.step > 0 else numbers[::-1])
            final.append(slice(None) if numbers.step > 0 else slice(None, None, -1))
            shape.append(len(numbers))
            continue
        wanted = np.asarray(step, dtype=np.intp)
        if wanted.size and (wanted.min() < -length or wanted.max() >= length):
            raise IndexError(f"/{facts.path}: {step} is out of bounds for an axis with {length} elements")
        wanted = np.where(wanted < 0, wanted + length, wanted)
        steps.append(range(int(wanted), int(wanted) + 1) if wanted.ndim == 0 else wanted)
        shape.append(wanted.size)
        final.append(0 if wanted.ndim == 0 else slice(None))
    with shared.use() as path:
        try:
            _check_same(shared, path, facts)
            values = _Reader(path, facts).read(steps, tuple(shape))
        except OSError as error:
            raise _with_reason(error, facts) from None
    return values[tuple(final)] if final else values


def _with_reason(error: OSError, facts: ArrayFacts) -> OSError:
    """The mount has the reason of a failure beside the file that failed."""
    try:
        reason = os.fsdecode(os.getxattr(error.filename, "user._Error")) if error.filename else ""
    except (OSError, AttributeError):
        reason = ""
    return OSError(error.errno, reason or f"/{facts.path}: {error.strerror}")
