"""codecfs: HDF5, netCDF-4 and Zarr, at paths and URLs.

    data = codecfs.open("era5.nc"); data                      # in a notebook: a tree of the variables
    data["temperature"][0]                                    # numpy
    data["temperature"].xarray()[0].plot()                    # xarray
    xarray.open_dataset("era5.nc", engine="codecfs")

    codecfs.info("era5.nc")                                   # variables, types, filters, sizes
    codecfs.convert("era5.nc", "era5.zarr")                   # also verify, compare, set_filter
    codecfs.plugins()                                         # HDF5 filter plugins for h5py

    with codecfs.mount("era5.nc") as path: ...                # a directory tree with decoded chunks
    with codecfs.open_zarr("era5.nc") as group: ...           # a zarr.Group

Reading arrays and mounts need Linux with /dev/fuse and fusermount3; all other functions do not. All functions may be called from any
thread.
"""
from ._commands import Comparison, Conversion, Damage, Difference, Verification, compare, convert, set_filter, verify
from ._dataset import Dataset, Group, Variable, open
from ._mount import FuseError, Mount, mount, open_zarr
from ._plugins import plugins
from ._program import CodecfsError, CodecfsWarning, info, program, version
from ._progress import Progress

__all__ = ["CodecfsError", "CodecfsWarning", "Comparison", "Conversion", "Damage", "Dataset", "Difference", "FuseError", "Group", "Mount",
           "Progress", "Variable", "Verification", "compare", "convert", "info", "mount", "open", "open_zarr", "plugins", "program",
           "set_filter", "verify", "version"]
