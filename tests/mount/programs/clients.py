"""What one client of Zarr does with a mount; run by the Python of its venv: clients.py ACTION PATH [ARGUMENTS].

read: prints JSON of all that it finds: {name: nested lists}. write and write_v3: make a group "made" with one variable.
Nothing here but the client itself is needed.
"""
import json
import sys

import numpy as np

NAMES = ["t", "count"]


def listed(array):
    return np.asarray(array).tolist()


def zarr_read(path):
    import zarr
    group = zarr.open_group(path, mode="r")
    return {name: listed(group[name][...]) for name in NAMES}


def zarr_write(path):
    import zarr
    three = int(zarr.__version__.split(".")[0]) >= 3
    options = {"zarr_format": 2} if three else {}
    group = zarr.open_group(path, mode="a", **options).create_group("made")
    data = np.arange(24, dtype="f8").reshape(4, 6)
    if three:
        array = group.create_array("z", shape=(4, 6), chunks=(2, 6), dtype="f8", compressors=None, fill_value=-1)
    else:
        array = group.create_dataset("z", shape=(4, 6), chunks=(2, 6), dtype="f8", compressor=None, fill_value=-1)
    array[...] = data
    array.attrs["units"] = "m"
    array[1:3, 2:4] = 77
    data[1:3, 2:4] = 77
    return {"z": listed(data)}


def zarr_write_encoded(path):
    """With the client's own compressor."""
    import zarr
    three = int(zarr.__version__.split(".")[0]) >= 3
    group = zarr.open_group(path, mode="a", **({"zarr_format": 2} if three else {})).create_group("made")
    data = np.arange(24, dtype="i4").reshape(4, 6)
    make = group.create_array if three else group.create_dataset
    array = make("z", shape=(4, 6), chunks=(2, 6), dtype="i4", fill_value=-1)
    array[...] = data
    return {"z": listed(data)}


def zarr_write_v3(path):
    import zarr
    group = zarr.open_group(path, mode="a", zarr_format=3)
    array = group.create_array("three", shape=(4,), chunks=(2,), dtype="i4")
    array[...] = [1, 2, 3, 4]


def xarray_read(path):
    import xarray
    with xarray.open_zarr(path, mask_and_scale=False) as data:
        return {name: listed(data[name].values) for name in NAMES}


def xarray_write(path):
    import xarray
    import zarr
    data = xarray.Dataset({"z": (("y", "x"), np.arange(24.0).reshape(4, 6), {"units": "m"})}, {"x": np.arange(6)})
    is_new = not zarr.__version__.startswith("2.")
    encoding = {"compressors" if is_new else "compressor": None}
    data.to_zarr(path, group="made", mode="a", encoding={"z": encoding, "x": encoding}, consolidated=False,
                 **({"zarr_format": 2} if is_new else {}))
    return {"z": listed(data["z"].values), "x": listed(data["x"].values)}


def xarray_write_v3(path):
    import xarray
    xarray.Dataset({"three": ("x", np.arange(4))}).to_zarr(path, mode="a")


def tensorstore_read(path):
    import tensorstore
    return {name: listed(tensorstore.open({"driver": "zarr", "kvstore": {"driver": "file", "path": f"{path}/{name}"}}).result()
                         .read().result()) for name in NAMES}


def tensorstore_write(path):
    import os

    import tensorstore
    os.mkdir(f"{path}/made")
    data = np.arange(24, dtype="f8").reshape(4, 6)
    array = tensorstore.open({
        "driver": "zarr", "kvstore": {"driver": "file", "path": f"{path}/made/z"},
        "metadata": {"shape": [4, 6], "chunks": [2, 6], "dtype": "<f8", "compressor": None, "fill_value": -1.0, "order": "C"}},
        create=True).result()
    array[...].write(data).result()
    array[1:3, 2:4].write(np.full((2, 2), 77.0)).result()
    data[1:3, 2:4] = 77
    return {"z": listed(data)}


# The values of the array "a", as they are stored.


def zarr_values(path):
    import zarr
    return listed(zarr.open_group(path, mode="r")["a"][...])


def tensorstore_values(path):
    import tensorstore
    return listed(tensorstore.open({"driver": "zarr", "kvstore": {"driver": "file", "path": f"{path}/a"}}).result().read().result())


def netcdf4_values(path):
    import netCDF4
    with netCDF4.Dataset(f"file://{path}#mode=zarr,file") as data:
        data.set_auto_maskandscale(False)
        return listed(data["a"][...])


def dask_read(path):
    """All chunks at once in several threads."""
    import xarray
    with xarray.open_zarr(path, chunks={}, mask_and_scale=False) as data:
        return {name: listed(data[name].data.compute(scheduler="threads", num_workers=4)) for name in NAMES}


def dask_write(path):
    import dask.array
    import xarray
    values = np.arange(24.0).reshape(4, 6)
    data = xarray.Dataset({"z": (("y", "x"), dask.array.from_array(values, chunks=(2, 3)))})
    data.to_zarr(path, group="made", mode="a", encoding={"z": {"compressors": None}}, consolidated=False, zarr_format=2)
    return {"z": listed(values)}


def obstore_group(path, zarr_format, read_only):
    import zarr
    from obstore.store import LocalStore
    from zarr.storage import ObjectStore
    return zarr.open_group(ObjectStore(LocalStore(path), read_only=read_only), mode="r" if read_only else "a",
                           zarr_format=zarr_format)


def obstore_read(path):
    group = obstore_group(path, 2, True)
    return {name: listed(group[name][...]) for name in NAMES}


def obstore_write(path):
    group = obstore_group(path, 2, False).create_group("made")
    data = np.arange(24, dtype="f8").reshape(4, 6)
    array = group.create_array("z", shape=(4, 6), chunks=(2, 6), dtype="f8", compressors=None, fill_value=-1)
    array[...] = data
    array[1:3, 2:4] = 77
    data[1:3, 2:4] = 77
    return {"z": listed(data)}


def obstore_write_encoded3(path):
    """With zarr-python's own compressor."""
    group = obstore_group(path, 3, False).create_group("made")
    data = np.arange(24, dtype="i4").reshape(4, 6)
    group.create_array("z", shape=(4, 6), chunks=(2, 6), dtype="i4", fill_value=-1)[...] = data
    return {"z": listed(data)}


def rasterio_read(path):
    """GDAL's Zarr driver: two-dimensional bands, the others stacked."""
    import warnings

    import rasterio
    warnings.simplefilter("ignore")
    found = {}
    for name, shape in (("t", (3, 10, 8)), ("count", (30,))):
        with rasterio.open(f'ZARR:"{path}":/{name}') as data:
            found[name] = listed(data.read().reshape(shape))
    return found


def netcdf4_read(path):
    import netCDF4
    with netCDF4.Dataset(f"file://{path}#mode=zarr,file") as data:
        data.set_auto_mask(False)
        data.set_auto_scale(False)
        return {name: listed(data[name][...]) for name in NAMES}


def virtualizarr_read(path):
    """References to the chunk files, read back through them."""
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import ZarrParser
    store = ZarrParser()(url=f"file://{path}", registry=ObjectStoreRegistry({"file://": LocalStore()}))
    import zarr
    group = zarr.open_group(store, mode="r", zarr_format=3)
    return {name: listed(group[name][...]) for name in NAMES}


if __name__ == "__main__":
    print("RESULT " + json.dumps(globals()[sys.argv[1]](sys.argv[2])))
