"""codecfs.open(): a source as an object that cells of a notebook share. It needs no `with`."""
from __future__ import annotations

import contextlib
import math
import os
import weakref
from typing import TYPE_CHECKING, Any, Iterator, Mapping, cast

from . import _html
from ._arrays import ArrayFacts, attributes_of, dtype_of, read, tree_of, view
from ._mount import FuseError, mount
from ._needs import need
from ._program import CodecfsError, Options, PathLike, info, option_words
from ._shared import SharedMount

if TYPE_CHECKING:
    import numpy
    import xarray
    import zarr


def open(source: PathLike, *, options: Options = ()) -> Dataset:
    """Opens a source for reading: a file, a directory, or a URL (s3://, gs://, az://, https://).

    At once it reads what `codecfs info` prints. It mounts when values, attributes or dimensions are read. The mount ends with close(),
    with the end of the object and of all that was made of it, or with Python; the source is closed a few seconds after each use,
    so that other programs can write it.

    options: mount options, as for mount().
    """
    return Dataset(SharedMount(source, tuple(option_words(options))), info(source, options=_for_info(options)))


# Options that commands without a mount take, too.
SOURCE_OPTIONS = {"plugin_path", "plugins", "builtin", "max_chunk", "follow", "isolate", "endpoint", "account", "credential_process", "region",
                  "profile", "credential_url", "token_file", "header_file", "ca_file", "anon", "addressing", "path_style", "requester_pays",
                  "absent", "connections", "cache_dir", "cache_size", "retry"}


def _for_info(options: Options) -> list[str]:
    return [word for word in option_words(options) if word.partition("=")[0] in SOURCE_OPTIONS]


class _Index:
    """What codecfs.info() has found, by paths."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.variables: dict[str, Mapping[str, Any]] = {entry["path"]: entry for entry in document["variables"]}
        self.groups = {entry["path"] for entry in document["groups"]}
        self.members: dict[str, list[str]] = {}  # names of groups, then of variables
        for entry in [*document["groups"], *document["variables"]]:
            parent, _, name = entry["path"].rpartition("/")
            if name:
                self.members.setdefault(parent or "/", []).append(name)


class _Node:
    def __init__(self, shared: SharedMount, index: _Index, path: str) -> None:
        self._shared = shared
        self._index = index
        self.path = path

    @property
    def source(self) -> str:
        return self._shared.source

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Group(_Node, Mapping[str, "Group | Variable"]):
    """A group: a mapping of the names of its groups and variables. `group["ocean/salinity"]` is a member of a member."""

    def _below(self, name: str) -> str:
        parts = [part for part in name.split("/") if part]
        return "/".join([self.path.rstrip("/"), *parts]) if parts else self.path

    def __getitem__(self, name: str) -> Group | Variable:
        if not isinstance(name, str):
            raise TypeError(f"the name of a variable or group is a string, not {type(name).__name__}")
        path = self._below(name)
        if path in self._index.variables:
            return Variable(self._shared, self._index, path)
        if path == self.path or path in self._index.groups:
            return Group(self._shared, self._index, path)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index.members.get(self.path, []))

    def __len__(self) -> int:
        return len(self._index.members.get(self.path, []))

    def __eq__(self, other: object) -> bool:
        return self is other  # not by the members, as other mappings

    __hash__ = object.__hash__

    @property
    def variables(self) -> list[str]:
        """The names of the variables in this group."""
        return [name for name in self if self._below(name) in self._index.variables]

    @property
    def groups(self) -> list[str]:
        """The names of the groups in this group."""
        return [name for name in self if self._below(name) in self._index.groups]

    @property
    def attrs(self) -> dict[str, Any]:
        return attributes_of(tree_of(self._shared).groups.get(self.path.strip("/"), {}))

    def xarray(self, **arguments: Any) -> xarray.Dataset:
        """This group as an xarray.Dataset, which reads values when they are needed. arguments: of xarray.open_dataset (chunks={}, ...)."""
        module = need("xarray", "xarray()")
        from ._xarray import CodecfsBackendEntrypoint

        dataset: xarray.Dataset = module.open_dataset(self._shared, engine=CodecfsBackendEntrypoint, group=self.path, **arguments)
        return dataset

    def zarr(self, **arguments: Any) -> zarr.Group:
        """This group as a zarr.Group, read-only. arguments: others of zarr.open_group.

        It has a mount of its own, which ends when neither this group nor an array of it is left. In another process it works only as
        long as that.
        """
        module = need("zarr", "zarr()")
        mounted = mount(self.source, options=self._shared.options)
        # zarr-python 2 knows only v2.
        top = view(mounted.path) if module.__version__.startswith("2.") else mounted.path
        group: zarr.Group = module.open_group(os.path.join(top, self.path.strip("/")), mode="r", **arguments)
        # All arrays and groups have the same store. The finalizer is what has the mount now.
        weakref.finalize(group.store, _release, mounted)
        return group

    def __repr__(self) -> str:
        names = [f"  {name}/" for name in self.groups]
        for name in self.variables:
            entry = self._index.variables[self._below(name)]
            names.append(f"  {name}  {entry['type']}  {_html.lengths(entry['shape'])}")
        return "\n".join([f"<codecfs.{type(self).__name__} {self.source!r}{'' if self.path == '/' else ' ' + self.path}>",
                          *map(_printable, names[:200]), *([f"  and {len(names) - 200} more"] if len(names) > 200 else [])])

    def _repr_html_(self) -> str:
        name = os.path.basename(self.source.rstrip("/")) or self.source
        return _html.tree(self._index.document, self.path, name if self.path == "/" else f"{name} {self.path}")

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _release(mounted: Any) -> None:
    with contextlib.suppress(CodecfsError, OSError):  # in use: it goes on, and `codecfs status` lists it
        mounted.close()


class Dataset(Group):
    """An open source: its root group. `with` and close() are possible, and not necessary."""

    def __init__(self, shared: SharedMount, document: Mapping[str, Any]) -> None:
        super().__init__(shared, _Index(document), "/")

    @property
    def info(self) -> Mapping[str, Any]:
        """As codecfs.info() when it was opened."""
        return self._index.document

    @property
    def format(self) -> str:
        return str(self._index.document["format"])

    def close(self) -> None:
        """Unmounts. What reads values later mounts again."""
        self._shared.end()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()


class Variable(_Node):
    """A variable. Indexing it reads values: `variable[0, :, 10:20]` is a numpy.ndarray, of values as they are stored, without scale
    factors, and with the fill value where data is missing; `variable.xarray()` applies what attributes say."""

    def __init__(self, shared: SharedMount, index: _Index, path: str) -> None:
        super().__init__(shared, index, path)
        self._entry = index.variables[path]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._entry["shape"])

    @property
    def ndim(self) -> int:
        return len(self._entry["shape"])

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def chunks(self) -> tuple[int, ...]:
        return tuple(self._entry["chunks"])

    @property
    def type(self) -> str:
        """As `codecfs info` shows it: "float32", "string"."""
        return str(self._entry["type"])

    @property
    def filter(self) -> str:
        """The stored filter pipeline as netCDF and HDF5 write it: "2,4|1,5", or "none"; empty if it has no such form."""
        return str(self._entry.get("filter", ""))

    @property
    def _facts(self) -> ArrayFacts:
        found = tree_of(self._shared).arrays.get(self.path.strip("/"))
        if found is None:
            raise CodecfsError(f"{self.path}: {self._entry.get('error') or self.source + ' was changed: open it again'}")
        return found

    @property
    def dtype(self) -> numpy.dtype[Any]:
        return dtype_of(self._facts)

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the dimensions; empty if they have none."""
        return self._facts.dimensions or ()

    @property
    def attrs(self) -> dict[str, Any]:
        return attributes_of(self._facts.attributes)

    def __getitem__(self, key: Any) -> Any:
        facts = self._facts
        return read(self._shared, facts, _axes(key, facts))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray[Any, Any]:
        if copy is False:
            raise ValueError(f"{self.path}: the values are in a file: an array of them is a copy")
        values: numpy.ndarray[Any, Any] = self[...]
        return values if dtype is None else values.astype(dtype, copy=False)

    def xarray(self, **arguments: Any) -> xarray.DataArray:
        """This variable with its coordinates as an xarray.DataArray. arguments: of xarray.open_dataset (chunks={}, ...)."""
        dataset = Group(self._shared, self._index, self.path.rpartition("/")[0] or "/").xarray(**arguments)
        return dataset[self.name]

    def zarr(self, **arguments: Any) -> zarr.Array[Any]:
        """This variable as a zarr.Array, read-only, as Group.zarr() has it."""
        group = Group(self._shared, self._index, self.path.rpartition("/")[0] or "/").zarr(**arguments)
        array: Any = group[self.name]
        return cast("zarr.Array[Any]", array)

    def __repr__(self) -> str:
        return _printable(f"<codecfs.Variable {self.path} of {self.source!r}: {self.type}, {_html.lengths(self.shape)}, "
                          f"filters {_html.filters(self._entry)}>")

    def _repr_html_(self) -> str:
        entry = self._entry
        facts = {"chunks": _html.lengths(self.chunks), "filters": _html.filters(entry), "stored": _html.size(entry["stored_bytes"]),
                 "decoded": _html.size(entry["decoded_bytes"])}
        attributes: dict[str, Any] = {}
        try:
            if self.dims:
                facts = {"dimensions": ", ".join(self.dims), **facts}
            attributes = self.attrs
        except FuseError:
            pass  # they need a mount
        except (CodecfsError, OSError) as error:
            facts["error"] = str(error)
        return _html.variable(entry, facts, attributes)


def _axes(key: Any, facts: ArrayFacts) -> tuple[Any, ...]:
    """As numpy's basic indexing, with a list of numbers, or of truth values, in place of one number."""
    np = need("numpy", "reading arrays")
    keys = list(key) if isinstance(key, tuple) else [key]
    rank = len(facts.shape)
    dots = [number for number, part in enumerate(keys) if part is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can have only one ellipsis")
    if len(keys) - len(dots) > rank:
        raise IndexError(f"/{facts.path} has {rank} dimensions, and the index {len(keys) - len(dots)}")
    missing = [slice(None)] * (rank - len(keys) + len(dots))
    place = dots[0] if dots else len(keys)
    keys[place:place + len(dots)] = missing
    found: list[Any] = []
    lists = 0
    for part, length in zip(keys, facts.shape):
        if not isinstance(part, slice):
            numbers = np.asarray(part)
            if numbers.dtype == bool and numbers.shape == (length,):
                numbers = np.nonzero(numbers)[0]
            elif numbers.size == 0:
                numbers = numbers.astype(np.intp)
            if numbers.dtype.kind not in "iu" or numbers.ndim > 1:
                raise IndexError(f"/{facts.path}: {part!r} is no number, slice, or list of numbers for an axis of length {length}")
            lists += numbers.ndim
            part = numbers
        found.append(part)
    if lists > 1:
        raise IndexError("only one axis can have a list: use xarray() for others")
    return tuple(found)
