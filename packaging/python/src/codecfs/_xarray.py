"""xarray.open_dataset("era5.nc", engine="codecfs"): the backend that the entry point in the group xarray.backends names."""
from __future__ import annotations

import asyncio
import importlib.util
import os
import warnings
from typing import TYPE_CHECKING, Any, Iterable

import numpy
import xarray
from xarray.backends import AbstractDataStore, BackendArray, BackendEntrypoint
from xarray.backends.store import StoreBackendEntrypoint
from xarray.core import indexing

from ._arrays import ArrayFacts, Tree, attributes_of, dtype_of, fill_of, read, tree_of, unlimited_in
from ._program import CodecfsWarning, Options, is_url, option_words, program
from ._shared import SharedMount

if TYPE_CHECKING:
    from xarray import Dataset


class _LazyArray(BackendArray):
    """An array that is read when its values are needed, by whatever process has it then."""

    def __init__(self, shared: SharedMount, facts: ArrayFacts) -> None:
        self.shared = shared
        self.facts = facts
        self.shape = facts.shape
        dtype = dtype_of(facts)
        # xarray's form of strings of variable length, as its other engines have it.
        kind = str if facts.codecs == ("vlen-utf8",) else bytes
        self.dtype = numpy.dtype("O", metadata={"element_type": kind}) if dtype.hasobject else dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        if isinstance(key, indexing.VectorizedIndexer):
            return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)
        return self._read(key.tuple)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, self.__getitem__, key)

    def _read(self, key: tuple[Any, ...]) -> Any:
        return read(self.shared, self.facts, key)


def _attributes(found: dict[str, Any], is_hdf5: bool) -> dict[str, Any]:
    """As xarray's engines for the format of the source have them: netcdf4 and h5netcdf, or zarr."""
    attributes = attributes_of(found)
    if not is_hdf5:
        return attributes
    for name, value in attributes.items():
        if value is None:
            attributes[name] = ""
        elif isinstance(value, list) and len(value) == 1 and not isinstance(value[0], (list, dict)):
            attributes[name] = value[0]
        elif isinstance(value, list) and value and all(type(one) in (int, float) for one in value):
            attributes[name] = numpy.asarray(value)
    return attributes


class _Store(AbstractDataStore):
    """One group of a source."""

    def __init__(self, shared: SharedMount, tree: Tree, group: str) -> None:
        self.shared = shared
        self._tree = tree
        self._group = group
        shared.open()

    def _variable(self, name: str, facts: ArrayFacts) -> xarray.Variable:
        dimensions = facts.dimensions
        if dimensions is None:
            raise ValueError("its dimensions have no names")
        attributes = _attributes(facts.attributes, self._tree.is_hdf5)
        lazy = _LazyArray(self.shared, facts)
        fill = fill_of(facts)
        given = attributes.pop("_FillValue", None)
        if fill is None and isinstance(given, (int, float)) and lazy.dtype.kind in "iuf":
            fill = lazy.dtype.type(given)  # in Zarr v3, missing data need not be what absent chunks have
        if fill is not None and not (lazy.dtype.hasobject and fill == ""):
            attributes["_FillValue"] = fill
        chunks = tuple(min(chunk, max(1, length)) for chunk, length in zip(facts.chunks, facts.shape))
        encoding = {"chunksizes": chunks, "preferred_chunks": dict(zip(dimensions, chunks)), "original_shape": facts.shape,
                    "source": self.shared.source}
        return xarray.Variable(dimensions, indexing.LazilyIndexedArray(lazy), attributes, encoding)

    def get_variables(self) -> dict[str, xarray.Variable]:
        variables = {}
        for name, facts in self._tree.arrays_in(self._group).items():
            try:
                variables[name] = self._variable(name, facts)
            except (TypeError, ValueError) as error:
                warnings.warn(f"{self.shared.source}: /{facts.path} is left out: {error}", CodecfsWarning, stacklevel=2)
        return variables

    def get_attrs(self) -> dict[str, Any]:
        return _attributes(self._tree.groups[self._group], self._tree.is_hdf5)

    def get_encoding(self) -> dict[str, Any]:
        return {"source": self.shared.source, "unlimited_dims": unlimited_in(self.shared, self._tree, self._group)}

    def get_dimensions(self) -> dict[str, int]:
        return {name: length for facts in self._tree.arrays_in(self._group).values()
                for name, length in zip(facts.dimensions or (), facts.shape)}

    def close(self) -> None:
        self.shared.close()


def _shared_of(source: Any, options: Options) -> SharedMount:
    if isinstance(source, SharedMount):
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"engine codecfs opens paths and URLs, not {type(source).__name__}")
    return SharedMount(source, tuple(option_words(options)))


def _group_name(tree: Tree, group: str | None, source: str) -> str:
    name = "/".join(part for part in (group or "").split("/") if part)
    if name not in tree.groups:
        kind = "an array: open its group" if name in tree.arrays else "not there"
        raise FileNotFoundError(f"{source}: group /{name} is {kind}")
    return name


_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class CodecfsBackendEntrypoint(BackendEntrypoint):
    """Opens what codecfs mounts: HDF5, netCDF-4, Zarr v2 and v3, zip archives of Zarr, at a path or a URL.

    The source is mounted read-only when something of it is read, and unmounted by Dataset.close(), with the end of the last array of
    the dataset, or of Python. Datasets that are not loaded can be pickled: the process that reads them mounts the source.
    """

    description = "Open HDF5, netCDF-4 and Zarr, at paths and URLs, through a mount of codecfs"
    supports_groups = True
    open_dataset_parameters = ("filename_or_obj", "mask_and_scale", "decode_times", "concat_characters", "decode_coords",
                               "drop_variables", "use_cftime", "decode_timedelta", "group", "options")

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Only what no engine of xarray itself can open here: netCDF-4 files, if neither netCDF4 nor h5netcdf is installed."""
        if not isinstance(filename_or_obj, (str, os.PathLike)):
            return False
        path = os.fspath(filename_or_obj)
        if not isinstance(path, str) or is_url(path) or not path.endswith((".nc", ".nc4")):
            return False
        if any(importlib.util.find_spec(module) for module in ("netCDF4", "h5netcdf")) or not os.access(program(), os.X_OK):
            return False
        try:
            with open(path, "rb") as file:
                return file.read(8) == _HDF5_SIGNATURE
        except OSError:
            return False

    def open_dataset(self, filename_or_obj: Any, *, mask_and_scale: Any = True, decode_times: Any = True, concat_characters: Any = True,
                     decode_coords: Any = True, drop_variables: str | Iterable[str] | None = None, use_cftime: Any = None,
                     decode_timedelta: Any = None, group: str | None = None, options: Options = ()) -> Dataset:
        """group: "/ocean". options: mount options, as of codecfs.mount(): ["cache=1G"] or {"profile": "mine"}."""
        shared = _shared_of(filename_or_obj, options)
        tree = tree_of(shared)
        return self._open(shared, tree, _group_name(tree, group, shared.source), {
            "mask_and_scale": mask_and_scale, "decode_times": decode_times, "concat_characters": concat_characters,
            "decode_coords": decode_coords, "drop_variables": drop_variables, "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta})

    def _open(self, shared: SharedMount, tree: Tree, group: str, decoders: dict[str, Any]) -> Dataset:
        store = _Store(shared, tree, group)
        try:
            dataset: Dataset = StoreBackendEntrypoint().open_dataset(store, **decoders)
        except BaseException:
            store.close()
            raise
        return dataset

    def open_groups_as_dict(self, filename_or_obj: Any, *, mask_and_scale: Any = True, decode_times: Any = True,
                            concat_characters: Any = True, decode_coords: Any = True, drop_variables: str | Iterable[str] | None = None,
                            use_cftime: Any = None, decode_timedelta: Any = None, group: str | None = None,
                            options: Options = ()) -> dict[str, Dataset]:
        shared = _shared_of(filename_or_obj, options)
        tree = tree_of(shared)
        top = _group_name(tree, group, shared.source)
        decoders = {"mask_and_scale": mask_and_scale, "decode_times": decode_times, "concat_characters": concat_characters,
                    "decode_coords": decode_coords, "drop_variables": drop_variables, "use_cftime": use_cftime,
                    "decode_timedelta": decode_timedelta}
        found: dict[str, Dataset] = {}
        try:
            for name in sorted(tree.groups, key=lambda name: name.split("/")):
                if name == top or not top or name.startswith(top + "/"):
                    found["/" + name[len(top):].lstrip("/")] = self._open(shared, tree, name, decoders)
        except BaseException:
            for dataset in found.values():
                dataset.close()
            raise
        return found

    def open_datatree(self, filename_or_obj: Any, *, mask_and_scale: Any = True, decode_times: Any = True,
                      concat_characters: Any = True, decode_coords: Any = True, drop_variables: str | Iterable[str] | None = None,
                      use_cftime: Any = None, decode_timedelta: Any = None, group: str | None = None,
                      options: Options = ()) -> xarray.DataTree:
        if not hasattr(xarray, "DataTree"):
            raise NotImplementedError(f"open_datatree needs xarray 2024.10 or later, not {xarray.__version__}: open_groups_as_dict works")
        groups = self.open_groups_as_dict(
            filename_or_obj, mask_and_scale=mask_and_scale, decode_times=decode_times, concat_characters=concat_characters,
            decode_coords=decode_coords, drop_variables=drop_variables, use_cftime=use_cftime, decode_timedelta=decode_timedelta,
            group=group, options=options)
        try:
            found: xarray.DataTree = xarray.DataTree.from_dict(groups)
        except BaseException:  # the dimensions of a group do not agree with those above it
            for dataset in groups.values():
                dataset.close()
            raise
        for node in found.subtree:
            node.set_close(groups[node.path].close)
        return found
