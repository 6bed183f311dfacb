"""The clients in the table of docs/python.md (client_table.py), each as its users type it: with its defaults, and only the path given.

table_clients.py CLASS: runs by the Python that has the client. Reads jobs as lines of JSON from standard input, does each in a process of
its own, and prints a line of JSON for each: {"values": {name: nested lists}}, {"copy": path}, or {"error": text}.
"""
import json
import os
import select
import signal
import sys
import time
import warnings

import numpy as np

SECONDS = 60  # for one job
V2, V3 = ("decoded", "encoded"), ("decoded3", "encoded3")
VIEWS = (*V2, *V3)
KINDS = ("HDF5", "Zarr v2", "Zarr v3")

# What the sources have, and what it is after `change`. Decimal fractions would depend on how a tool prints them.
T = (np.arange(240) % 97 * 0.25 + 250).astype("f4").reshape(3, 10, 8)
T_CHUNKS = (2, 4, 8)
REGION = np.s_[0, 1:3, 2:6]
CHANGED_T = T.copy()
CHANGED_T[REGION] = 99.5
DATA = {"t": T, "count": np.arange(30, dtype="i4") * 3 + 1, "x": np.arange(8) * 1.5, "y": np.arange(10) * 0.5,
        "ocean/s": np.arange(80.0).reshape(10, 8) / 4}
DIMENSIONS = {"t": ("time", "y", "x"), "count": ("n",), "x": ("x",), "y": ("y",), "ocean/s": ("y", "x")}
PORTABLE = {"mount": "portable", "say": "-o portable"}  # of `instead`
# What `create` makes.
V = np.arange(60, dtype="f4").reshape(6, 10) / 4
W = np.arange(12, dtype="i4")


class Client:
    """One row of the table. `reads`, `changes`, `creates`: the views in which this means something ("file": the last column)."""

    title = venv = program = ""
    packages = ()  # of PyPI or Debian, of which the table has the versions
    imports = ()  # modules that all jobs share
    reads = changes = creates = ()
    data = "science"  # the sources
    file = ""  # what the path of the last column is: "mount", "refs" or "hdf5" (of codecfs convert)
    names = tuple(DATA)  # what it reads
    units = False  # it changes the attribute "units" of t to "C", too
    made = {"v": V, "sub/w": W}
    # (action, view): options with which it works where its defaults do not. "below": the path has this name at its end, too; "mount":
    # options of the mount; "say": how the options are written.
    instead = {}

    def __init__(self, job=None):
        self.job = job

    @staticmethod
    def applies(action, view, kind):
        return True

    @classmethod
    def expected(cls, action, view, kind):
        """{name: array}: what it reads, or what the source holds after it has written."""
        if action == "read":
            return {name: DATA[name] for name in cls.names}
        return {**DATA, "t": CHANGED_T} if action == "change" else cls.made


# --- libraries for Zarr


class ZarrPython3(Client):
    packages = ("zarr",)
    title, venv, imports = "zarr-python 3", "zarr3", ("zarr",)
    reads = changes = creates = VIEWS
    units = True
    instead = {("create", "decoded"): {"zarr_format": 2, "compressors": None}, ("create", "encoded"): {"zarr_format": 2},
               ("create", "decoded3"): {"compressors": None}}

    def open(self, path, **more):
        import zarr
        return zarr.open_group(path, **more)

    def read(self, path):
        group = self.open(path, mode="r")
        return {name: group[name][...] for name in self.names}

    def change(self, path):
        t = self.open(path)["t"]
        t[REGION] = 99.5
        t.attrs["units"] = "C"

    def create(self, path, zarr_format=None, **more):
        group = self.open(path, **({"zarr_format": zarr_format} if zarr_format else {}))
        group.create_array("v", data=V, **more)
        group.create_group("sub").create_array("w", data=W, **more)


class ZarrConsolidated(ZarrPython3):
    title = "zarr-python 3, consolidated metadata"
    changes, instead = (), {("create", "encoded"): {"zarr_format": 2}}
    creates = ("encoded", "encoded3")

    def read(self, path):
        import zarr
        group = zarr.open_consolidated(path, mode="r")
        return {name: group[name][...] for name in self.names}

    def create(self, path, **more):
        import zarr
        super().create(path, **more)
        zarr.consolidate_metadata(path)


class Zarrs(ZarrPython3):
    packages = ("zarrs", "zarr")
    title, imports = "zarrs, as the codec pipeline of zarr-python 3", ("zarr", "zarrs")

    def open(self, path, **more):
        import zarr
        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
        return zarr.open_group(path, **more)


class Obstore(ZarrPython3):
    packages = ("obstore", "zarr")
    title, venv = "obstore, as the store of zarr-python 3", "virtualizarr"

    def open(self, path, **more):
        import zarr
        from obstore.store import LocalStore
        from zarr.storage import ObjectStore
        return zarr.open_group(ObjectStore(LocalStore(path)), **more)


class ZarrPython2(ZarrPython3):
    packages = ("zarr",)
    title, venv = "zarr-python 2", "zarr2"
    reads = changes = creates = V2
    instead = {("create", "decoded"): {"compressor": None}}

    def create(self, path, **more):
        group = self.open(path)
        group.create_dataset("v", data=V, **more)
        group.create_group("sub").create_dataset("w", data=W, **more)


class ZarrPython213(ZarrPython2):
    title, venv = "zarr-python 2 of Debian 12", ""


class Fsspec(ZarrPython2):
    packages = ("fsspec", "zarr")
    title, imports = "fsspec, as the store of zarr-python 2", ("zarr", "fsspec")

    def open(self, path, **more):
        return super().open(f"file://{path}", **more)


class Tensorstore(Client):
    packages = ("tensorstore",)
    title, venv, imports = "tensorstore", "zarr3", ("tensorstore",)
    reads = changes = creates = VIEWS
    made = {"v": V}
    instead = {("create", "decoded"): {"metadata": {"compressor": None}}, ("read", "encoded3"): PORTABLE, ("change", "encoded3"): PORTABLE}

    def open(self, path, name, **more):
        import tensorstore
        driver = "zarr3" if self.job["view"] in V3 else "zarr"
        metadata = more.pop("metadata", None)
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/{name}"}, **({"metadata": metadata} if metadata else {})}
        return tensorstore.open(spec, **more).result()

    def read(self, path):
        return {name: self.open(path, name).read().result() for name in self.names}

    def change(self, path):
        self.open(path, "t")[REGION].write(np.float32(99.5)).result()

    def create(self, path, **more):
        self.open(path, "v", create=True, dtype=V.dtype, shape=V.shape, **more).write(V).result()


class Zarrista(Client):
    packages = ("zarrista",)
    title, venv, imports = "zarrista", "table-bio", ("zarrista",)
    reads = VIEWS

    def read(self, path):
        from zarrista import Array
        from zarrista.store import FilesystemStore
        store = FilesystemStore(path)
        return {name: Array.open(store, path=f"/{name}")[...].to_numpy() for name in self.names}


class Z5py(Client):
    packages = ("z5py",)
    title, venv, imports = "z5py", "table-geo", ("z5py",)
    reads = changes = creates = VIEWS
    units = True
    instead = {**{("create", view): {"below": "new.zarr", **({"compression": "raw"} if "decoded" in view else {})} for view in VIEWS},
               ("read", "encoded3"): PORTABLE, ("change", "encoded3"): PORTABLE}

    def open(self, path, mode):
        import z5py
        return z5py.ZarrFile(path, mode=mode, **({"zarr_format": 3} if self.job["view"] in V3 else {}))

    def read(self, path):
        group = self.open(path, "r")
        return {name: group[name][...] for name in self.names}

    def change(self, path):
        t = self.open(path, "r+")["t"]
        t[REGION] = 99.5
        t.attrs["units"] = "C"

    def create(self, path, **more):
        group = self.open(path, "a")
        group.create_dataset("v", data=V, chunks=(3, 5), **more)
        group.create_group("sub").create_dataset("w", data=W, chunks=(6,), **more)


class AcquireZarr(Client):
    packages = ("acquire-zarr",)
    title, venv, imports = "acquire-zarr", "table-geo", ("acquire_zarr",)
    creates = V3
    made = {"v": V[np.newaxis]}

    def create(self, path):
        import acquire_zarr as az
        dimensions = [az.Dimension(name=name, kind=kind, array_size_px=size, chunk_size_px=chunk, shard_size_chunks=1)
                      for name, kind, size, chunk in [("t", az.DimensionType.TIME, 0, 1), ("y", az.DimensionType.SPACE, 6, 3),
                                                      ("x", az.DimensionType.SPACE, 10, 5)]]
        array = az.ArraySettings(output_key="v", dimensions=dimensions, data_type=np.float32)
        stream = az.ZarrStream(az.StreamSettings(store_path=path, arrays=[array]))
        stream.append(V[np.newaxis])
        stream.close()


class Cubed(Client):
    packages = ("cubed", "zarr")
    title, venv, imports = "cubed", "table-geo", ("cubed", "zarr")
    reads = creates = VIEWS
    names, made = ("t", "count", "ocean/s"), {"v": V}

    def read(self, path):
        import cubed
        return {name: cubed.from_zarr(f"{path}/{name}").compute() for name in self.names}

    def create(self, path):
        import cubed
        cubed.to_zarr(cubed.from_array(V, chunks=(3, 5)), f"{path}/v")


class DaskArray(Client):
    packages = ("dask", "zarr")
    title, venv, imports = "dask.array", "zarr3", ("dask.array", "zarr")
    reads = changes = creates = VIEWS
    made = {"v": V}
    instead = ZarrPython3.instead

    def read(self, path):
        import dask.array
        return {name: dask.array.from_zarr(f"{path}/{name}").compute() for name in self.names}

    def change(self, path):
        import dask.array
        import zarr
        dask.array.from_array(CHANGED_T, chunks=T_CHUNKS).to_zarr(zarr.open_array(f"{path}/t", mode="r+"))

    def create(self, path, **more):
        import dask.array
        dask.array.from_array(V, chunks=(3, 5)).to_zarr(f"{path}/v", **more)


class Xarray(Client):
    packages = ("xarray", "zarr")
    title, venv, imports = "xarray (`open_zarr`, `to_zarr`)", "zarr3", ("xarray", "zarr", "dask.array")
    reads = changes = creates = VIEWS
    made = {"v": V, "sub/w": W, "a": np.arange(10.0)}
    PLAIN = {"encoding": {"v": {"compressors": None}, "a": {"compressors": None}}}
    instead = {("create", "decoded"): {"zarr_format": 2, **PLAIN, "say": "zarr_format=2, encoding={VARIABLE: {'compressors': None}}"},
               ("create", "encoded"): {"zarr_format": 2},
               ("create", "decoded3"): {**PLAIN, "say": "encoding={VARIABLE: {'compressors': None}}"}}

    def read(self, path):
        import xarray
        with xarray.open_zarr(path) as top, xarray.open_zarr(path, group="ocean") as ocean:
            assert top["t"].dims == ("time", "y", "x") and top["t"].attrs["units"] == "K", top["t"]
            return {**{name: top[name].values for name in self.names if "/" not in name}, "ocean/s": ocean["s"].values}

    def change(self, path):
        import xarray
        with xarray.open_zarr(path) as data:
            t = data["t"].load()
        t[REGION] = 99.5
        t.drop_vars(("x", "y")).to_dataset().to_zarr(path, mode="r+")

    def create(self, path, **more):
        import xarray
        data = xarray.Dataset({"v": (("b", "a"), V)}, {"a": self.made["a"]}, {"title": "new"})
        data.to_zarr(path, **more)
        more["encoding"] = {"w": next(iter(more["encoding"].values()))} if "encoding" in more else None
        xarray.Dataset({"w": ("n", W)}).to_zarr(path, group="sub", mode="a", **more)


class Xarray2(Xarray):
    packages = ("xarray", "zarr")
    title, venv, imports = "xarray with zarr-python 2", "zarr2", ("xarray", "zarr")
    reads = changes = creates = V2
    instead = {("create", "decoded"): {"encoding": {"v": {"compressor": None}, "a": {"compressor": None}},
                                       "say": "encoding={VARIABLE: {'compressor': None}}"}}


class XarrayDataTree(Client):
    packages = ("xarray", "zarr")
    title, venv, imports = "xarray.DataTree", "zarr3", ("xarray", "zarr")
    reads = creates = VIEWS
    made = {"v": V, "sub/w": W}
    PLAIN = {"encoding": {"/": {"v": {"compressors": None}}, "/sub": {"w": {"compressors": None}}}}
    instead = {("create", "decoded"): {"zarr_format": 2, **PLAIN, "say": "zarr_format=2, encoding={GROUP: {VARIABLE: {'compressors': None}}}"},
               ("create", "encoded"): {"zarr_format": 2},
               ("create", "decoded3"): {**PLAIN, "say": "encoding={GROUP: {VARIABLE: {'compressors': None}}}"}}

    def read(self, path):
        import xarray
        tree = xarray.open_datatree(path, engine="zarr")
        return {name: tree[name].values for name in self.names}

    def create(self, path, **more):
        import xarray
        tree = {"/": xarray.Dataset({"v": (("b", "a"), V)}), "/sub": xarray.Dataset({"w": ("n", W)})}
        xarray.DataTree.from_dict(tree).to_zarr(path, **more)


class XarrayDataset(Client):
    packages = ("xarray", "zarr")
    title, venv, imports = "xarray.open_dataset(PATH.zarr)", "zarr3", ("xarray", "zarr")
    reads = VIEWS
    names = ("t", "count", "x", "y")

    def read(self, path):
        import xarray
        link = f"{self.job['work']}/link.zarr"  # views have no such ending
        os.symlink(path, link)
        with xarray.open_dataset(link) as data:
            return {name: data[name].values for name in self.names}


class XarrayManyFiles(Client):
    packages = ("xarray", "zarr")
    title, venv, imports = "xarray.open_mfdataset", "zarr3", ("xarray", "zarr", "dask.array")
    reads = VIEWS

    def read(self, path):
        import xarray
        with xarray.open_mfdataset([path, self.job["other"]], engine="zarr", combine="nested", concat_dim="run") as data:
            return {"t": data["t"].values}

    @classmethod
    def expected(cls, action, view, kind):
        return {"t": np.stack([T, CHANGED_T])}


class VirtualiZarr(Client):
    packages = ("virtualizarr", "zarr")
    title, venv, imports = "VirtualiZarr", "virtualizarr", ("virtualizarr", "zarr", "obstore")
    reads, file = (*VIEWS, "file"), "refs"
    names = ("t", "count", "x", "y")

    @staticmethod
    def applies(action, view, kind):
        return view != "file" or kind == "HDF5"

    def read(self, path):
        import zarr
        from obspec_utils.registry import ObjectStoreRegistry
        from obstore.store import LocalStore
        from virtualizarr.parsers import KerchunkJSONParser, ZarrParser
        parser = KerchunkJSONParser() if self.job["view"] == "file" else ZarrParser()
        store = parser(url=f"file://{path}", registry=ObjectStoreRegistry({"file://": LocalStore()}))
        group = zarr.open_group(store, mode="r", zarr_format=3)
        return {name: group[name][...] for name in self.names}


class Kerchunk(Client):
    packages = ("kerchunk", "xarray")
    title, venv, imports = "kerchunk", "zarr3", ("kerchunk", "kerchunk.zarr", "xarray", "fsspec")
    reads, file = (*V2, "file"), "refs"
    names = ("t", "count", "x", "y")
    applies = VirtualiZarr.applies

    def read(self, path):
        import kerchunk.zarr
        import xarray
        references = path if self.job["view"] == "file" else kerchunk.zarr.single_zarr(path)
        with xarray.open_dataset(references, engine="kerchunk") as data:
            return {name: data[name].values for name in self.names}


class Numcodecs(Client):
    """Chunks through the codecs that .zarray names."""
    packages = ("numcodecs",)
    title, venv, imports = "numcodecs", "zarr3", ("numcodecs",)
    reads = changes = ("encoded",)
    names = ("t",)

    def facts(self, path):
        import numcodecs
        with open(f"{path}/t/.zarray") as file:
            facts = json.load(file)
        return [numcodecs.get_codec(codec) for codec in [*(facts["filters"] or []), facts["compressor"]] if codec]

    def read(self, path):
        codecs, found = self.facts(path), np.zeros(T.shape, T.dtype)
        for index in np.ndindex(2, 3, 1):
            with open(f"{path}/t/" + ".".join(map(str, index)), "rb") as file:
                chunk = file.read()
            for codec in reversed(codecs):
                chunk = codec.decode(chunk)
            place = tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, T_CHUNKS))
            part = found[place]
            part[...] = np.frombuffer(chunk, T.dtype).reshape(T_CHUNKS)[tuple(slice(0, n) for n in part.shape)]
        return {"t": found}

    def change(self, path):
        chunk = np.ascontiguousarray(CHANGED_T[:2, :4, :8])
        for codec in self.facts(path):
            chunk = codec.encode(chunk)
        with open(f"{path}/t/0.0.0", "wb") as file:
            file.write(chunk)


class Numpy(Client):
    packages = ("numpy",)
    title = "numpy (`memmap`, `load`, `fromfile`)"
    reads = changes = ("decoded", "decoded3", "file")
    file = "mount"
    names = ("t",)

    def chunk(self, path, mode):
        name = "0.0.0" if self.job["view"] == "decoded" else "c/0/0/0"
        return np.memmap(f"{path}/t/{name}", "<f4", mode, shape=T_CHUNKS)

    def read(self, path):
        if self.job["view"] != "file":
            found = T.copy()
            found[:2, :4, :8] = self.chunk(path, "r")
            return {"t": found}
        view = f"{path}/.codecfs/view"
        found = np.load(f"{view}/npy/t.npy", mmap_mode="r")
        assert np.array_equal(np.fromfile(f"{view}/raw/t", "<f4").reshape(T.shape), found)
        return {"t": found}

    def change(self, path):
        if self.job["view"] == "file":
            t = np.load(f"{path}/.codecfs/view/npy/t.npy", mmap_mode="r+")
            t[REGION] = 99.5
        else:
            t = self.chunk(path, "r+")
            t[REGION] = 99.5
        t.flush()


# --- HDF5 and netCDF, of what codecfs convert makes


class H5py(Client):
    packages = ("h5py",)
    title, venv, imports = "h5py", "zarr3", ("h5py",)
    reads, file = ("file",), "hdf5"

    def read(self, path):
        import h5py
        with h5py.File(path) as file:
            return {name: file[name][()] for name in self.names}


class H5netcdf(H5py):
    packages = ("h5netcdf",)
    title, venv, imports = "h5netcdf", "table-geo", ("h5netcdf", "h5netcdf.legacyapi", "pyfive")

    def read(self, path):
        import h5netcdf
        with h5netcdf.File(path, "r") as file:
            assert file["t"].dimensions == ("time", "y", "x")
            return {name: file[name][()] for name in self.names}


class Pyfive(H5py):
    packages = ("pyfive",)
    title, venv, imports = "pyfive", "table-geo", ("pyfive",)

    def read(self, path):
        import pyfive
        with pyfive.File(path) as file:
            return {name: file[name][()] for name in self.names}


class NetCDF4(Client):
    packages = ("netCDF4",)
    title, venv, imports = "netCDF4 of PyPI (`file://PATH#mode=zarr,file`)", "netcdf4", ("netCDF4",)
    reads, changes, creates = (*VIEWS, "file"), VIEWS, VIEWS
    file, units = "hdf5", True

    def open(self, path, mode):
        import netCDF4
        return netCDF4.Dataset(path if self.job["view"] == "file" else f"file://{path}#mode=zarr,file", mode)

    def read(self, path):
        with self.open(path, "r") as data:
            return {name: data[name][...] for name in self.names}

    def change(self, path):
        with self.open(path, "r+") as data:
            data["t"][REGION] = 99.5
            data["t"].units = "C"

    def create(self, path):
        with self.open(path, "w") as data:
            data.createDimension("b", 6)
            data.createDimension("a", 10)
            data.createDimension("n", 12)
            data.createVariable("v", "f4", ("b", "a"))[...] = V
            data.createGroup("sub").createVariable("w", "i4", ("n",))[...] = W


class Rasterio(Client):
    packages = ("rasterio",)
    title, venv, imports = "rasterio (`ZARR:\"PATH\":/v`)", "rasterio", ("rasterio",)
    reads = changes = VIEWS
    names = ("t", "ocean/s")

    def read(self, path):
        import rasterio
        found = {}
        for name in self.names:
            with rasterio.open(f'ZARR:"{path}":/{name}') as data:
                found[name] = np.squeeze(data.read())
        return found

    def change(self, path):
        import rasterio
        with rasterio.open(f'ZARR:"{path}":/t', "r+") as data:
            data.write(CHANGED_T)


class Rioxarray(Client):
    packages = ("rioxarray", "rasterio")
    title, venv, imports = "rioxarray", "table-geo", ("rioxarray",)
    reads = VIEWS
    names = ("t", "ocean/s")

    def read(self, path):
        import rioxarray
        return {name: np.squeeze(rioxarray.open_rasterio(f'ZARR:"{path}":/{name}').values) for name in self.names}


# --- biology: sources of their own

CELLS = np.arange(60, dtype="f4").reshape(12, 5) / 4
TYPES = ["B", "T", "NK"] * 4
IMAGE = (np.arange(64 * 96) % 251).astype("u1").reshape(64, 96)


def cells():
    import anndata
    import pandas
    import scipy.sparse
    obs = pandas.DataFrame({"type": pandas.Categorical(TYPES), "n": np.arange(12)}, index=[f"cell{i}" for i in range(12)])
    data = anndata.AnnData(CELLS, obs=obs, var=pandas.DataFrame(index=[f"gene{i}" for i in range(5)]), uns={"title": "cells"})
    data.layers["counts"] = scipy.sparse.csr_matrix(CELLS * (CELLS > 5))
    return data


class AnnData(Client):
    packages = ("anndata", "zarr")
    title, venv, imports = "AnnData", "table-bio", ("anndata", "zarr", "pandas", "scipy.sparse")
    data = "cells"
    reads = changes = creates = VIEWS
    instead = {("create", "encoded"): {"below": "new"},
               ("create", "encoded3"): {"below": "new", "zarr_write_format": 3, "say": "PATH/new, settings.zarr_write_format = 3"},
               ("change", "decoded"): {"use_consolidated": False, "compressor": None,
                                       "say": "use_consolidated=False, dataset_kwargs={'compressor': None}"},
               ("change", "encoded"): {"use_consolidated": False},
               ("change", "decoded3"): {"use_consolidated": False, "compressors": None,
                                        "say": "use_consolidated=False, dataset_kwargs={'compressors': None}"},
               ("change", "encoded3"): {"use_consolidated": False}}
    made = {"X": CELLS, "type": TYPES, "n": np.arange(12), "names": [f"cell{i}" for i in range(12)], "counts": CELLS * (CELLS > 5), "title": "cells"}

    @classmethod
    def expected(cls, action, view, kind):
        return {**cls.made, "X": cls.made["X"] + 1} if action == "change" else cls.made

    def read(self, path):
        """Of a source, too: it judges itself."""
        import anndata
        below = self.job.get("below")
        if not os.path.isfile(path):
            data = anndata.read_zarr(f"{path}/{below}" if below else path)
        elif below:
            import h5py
            with h5py.File(path) as file:
                data = anndata.io.read_elem(file[below])
        else:
            data = anndata.read_h5ad(path)
        return {"X": data.X, "type": np.array(data.obs["type"], str), "n": data.obs["n"].values, "names": np.array(data.obs_names, str),
                "counts": data.layers["counts"].toarray(), "title": np.array(data.uns["title"])}

    def change(self, path, use_consolidated=None, **more):
        import anndata
        import zarr
        group = zarr.open_group(path, mode="r+", use_consolidated=use_consolidated)
        anndata.io.write_elem(group, "X", CELLS + 1, dataset_kwargs=more)

    def create(self, path, zarr_write_format=None, **more):
        import anndata
        if zarr_write_format:
            anndata.settings.zarr_write_format = zarr_write_format
        anndata.io.write_zarr(path, cells(), **more)


class OmeZarr(Client):
    packages = ("ome-zarr", "zarr")
    title, venv, imports = "ome-zarr-py", "table-bio", ("ome_zarr.io", "ome_zarr.reader", "ome_zarr.writer", "zarr", "dask.array")
    data = "image"
    reads, creates = VIEWS, ("encoded", "encoded3")
    made = {"s0": IMAGE}
    instead = {("create", "encoded"): {"fmt": "0.4", "say": "fmt=FormatV04()"}}

    @classmethod
    def expected(cls, action, view, kind):
        return {"image": IMAGE} if action == "read" else cls.made

    @staticmethod
    def applies(action, view, kind):
        """OME-Zarr 0.4 is for Zarr v2 alone, 0.5 for v3 alone."""
        return action == "create" or (view in V3) == (kind == "Zarr v3")

    def read(self, path):
        from ome_zarr.io import parse_url
        from ome_zarr.reader import Reader
        image = next(iter(Reader(parse_url(path))()))
        return {"image": image.data[0].compute()}

    def create(self, path, **more):
        import ome_zarr.format
        from ome_zarr.writer import write_image
        write_image(IMAGE, path, axes="yx", **({"fmt": ome_zarr.format.FormatV04()} if more else {}))


class NgffZarr(OmeZarr):
    packages = ("ngff-zarr",)
    title, imports = "ngff-zarr", ("ngff_zarr", "zarr", "dask.array")
    instead = {("create", "encoded"): {"below": "new", "version": "0.4"}, ("create", "encoded3"): {"below": "new"}}
    made = {"scale0/image": IMAGE}

    def read(self, path):
        import ngff_zarr
        return {"image": ngff_zarr.from_ngff_zarr(path).images[0].data.compute()}

    def create(self, path, **more):
        import ngff_zarr
        image = ngff_zarr.to_ngff_image(IMAGE, dims=["y", "x"])
        ngff_zarr.to_ngff_zarr(path, ngff_zarr.to_multiscales(image, scale_factors=[2]), **more)


class OmeZarrModels(OmeZarr):
    packages = ("ome-zarr-models", "zarr")
    title, imports = "ome-zarr-models", ("ome_zarr_models", "zarr")
    creates = ()

    def read(self, path):
        import ome_zarr_models
        import zarr
        group = zarr.open_group(path, mode="r")
        image = ome_zarr_models.open_ome_zarr(group)
        attributes = getattr(image, "ome_attributes", None) or image.attributes
        return {"image": group[attributes.multiscales[0].datasets[0].path][...]}


# --- what makes the sources, and what judges them


class Maker(Client):
    """Sources and stores that need today's zarr-python."""
    venv, imports = "zarr3", ("zarr",)

    def create(self, path):
        import zarr
        top = zarr.create_group(path, attributes={"title": "table"})
        for name, values in DATA.items():
            values = CHANGED_T if name == "t" and self.job["changed"] else values
            shards = {"shards": (10, 8), "chunks": (5, 4)} if name == "ocean/s" else {"chunks": T_CHUNKS if name == "t" else values.shape}
            top.create_array(name, data=values, dimension_names=DIMENSIONS[name], fill_value=-9, attributes={"units": "K"}, **shards)

    def stores(self, path):
        """What `create` of tools for files copies into a view."""
        import zarr
        for view in VIEWS:
            options = {"compressors": None} if "decoded" in view else {}
            group = zarr.open_group(f"{path}/{view}", mode="w", zarr_format=3 if "3" in view else 2)
            group.create_array("v", data=V, chunks=(3, 5), **options)
            group.create_group("sub").create_array("w", data=W, chunks=(6,), **options)


class BioMaker(Client):
    venv, imports = "table-bio", ("anndata", "zarr", "ome_zarr.writer", "ome_zarr.format")

    def create(self, path):
        import anndata
        import ome_zarr.format
        from ome_zarr.writer import write_image
        data = cells()
        data.write_h5ad(f"{path}/cells.nc", compression="gzip")
        for number, form in (2, ome_zarr.format.FormatV04()), (3, ome_zarr.format.FormatV05()):
            anndata.settings.zarr_write_format = number
            data.write_zarr(f"{path}/cells{number}.zarr")
            write_image(IMAGE, f"{path}/image{number}.zarr", axes="yx", fmt=form)


class Judge(Client):
    """All arrays of a source with their attributes, by h5py and zarr-python, which see no mount."""
    venv, imports = "zarr3", ("h5py", "zarr")
    IGNORED = {"_FillValue", "DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties",
               "_nc3_strict", "_ARRAY_DIMENSIONS", "_nczarr_attrs", "_NCZARR_ATTR", "_nczarr_array", "_NCZARR_ARRAY", "_nczarr_dimensions"}

    def read(self, path):
        import h5py
        import zarr
        arrays = {}
        if os.path.isfile(path) and h5py.is_hdf5(path):
            with h5py.File(path) as file:
                file.visititems(lambda name, item: arrays.update({name: (item[()], item.attrs)}) if isinstance(item, h5py.Dataset) else None)
                return {name: self.shown(*found) for name, found in arrays.items()
                        if not str(found[1].get("NAME", b"")).startswith("b'This is a netCDF dimension")}
        store = zarr.storage.ZipStore(path, mode="r") if os.path.isfile(path) else path
        top = zarr.open_group(store, mode="r", use_consolidated=False)
        return {name: self.shown(item[...], item.attrs) for name, item in top.members(max_depth=None) if isinstance(item, zarr.Array)}

    def shown(self, values, attributes):
        plain = {name: np.asarray(value).tolist() for name, value in attributes.items() if name not in self.IGNORED}
        plain = {name: value.decode() if isinstance(value, bytes) else value for name, value in plain.items()}
        return {"values": values, "attributes": {name: value[0] if isinstance(value, list) and len(value) == 1 else value
                                                 for name, value in plain.items()}}


# --- running the jobs


def listed(value):
    if isinstance(value, dict):
        return {name: listed(part) for name, part in value.items()}
    if isinstance(value, (str, bool, int, float, type(None))):
        return value
    value = np.ma.filled(value) if np.ma.isMaskedArray(value) else np.asarray(value)
    if value.dtype.kind in "SO":
        value = np.array([part.decode() if isinstance(part, bytes) else str(part) for part in value.ravel()]).reshape(value.shape)
    return value.astype(str).tolist() if value.dtype.kind == "V" else value.tolist()


def find(name):
    if name in globals():
        return globals()[name]
    import table_tools
    return getattr(table_tools, name)


def do(client, job, output):
    """In a process of its own."""
    warnings.simplefilter("ignore")
    try:
        found = getattr(client(job), job["action"])(job["path"], **job.get("more", {}))
        told = {"copy": found} if isinstance(found, str) else {"values": listed(found or {})}
    except BaseException as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    with os.fdopen(output, "w") as file:
        json.dump(told, file)


def await_end(child, source):
    text, deadline = b"", time.monotonic() + SECONDS
    while True:
        ready, _, _ = select.select([source], [], [], max(0, deadline - time.monotonic()))
        part = os.read(source, 1 << 20) if ready else b""
        text += part
        if not part:
            break
    if not ready:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ready:
        return {"error": f"no end within {SECONDS} s"}
    if os.WIFSIGNALED(status) and not text:
        return {"error": f"ended by {signal.Signals(os.WTERMSIG(status)).name}"}
    return json.loads(text or '{"error": "no answer"}')


def version_of(client):
    import importlib.metadata
    return " / ".join(importlib.metadata.version(package).split("+")[0] for package in client.packages)


def main():
    client = find(sys.argv[1])
    answers = os.dup(1)
    os.dup2(2, 1)  # what clients print
    try:
        for module in client.imports:
            __import__(module)
        version = client.version() if client.program else version_of(client)
    except (ImportError, OSError) as error:
        os.write(answers, (json.dumps({"missing": str(error)}) + "\n").encode())
        return
    os.write(answers, (json.dumps({"version": version}) + "\n").encode())
    for line in sys.stdin:
        source, output = os.pipe()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.close(source)
            do(client, json.loads(line), output)
            os._exit(0)
        os.close(output)
        told = await_end(child, source)
        os.close(source)
        os.write(answers, (json.dumps(told) + "\n").encode())


if __name__ == "__main__":
    main()
