"""codecfs: HDF5, netCDF-4 and Zarr as uncompressed files.

    with codecfs.mount("era5.nc") as path: ...        # a directory tree with decoded chunks
    with codecfs.open_zarr("era5.nc") as group: ...   # a zarr.Group
    codecfs.info("era5.nc")                           # variables, types, filters, sizes
    codecfs.plugins()                                 # HDF5 filter plugins for h5py

Mounts need Linux with /dev/fuse and fusermount3. All functions may be called from any thread.
"""
from ._mount import Mount, mount, open_zarr
from ._plugins import plugins
from ._program import CodecfsError, info, program, version

__all__ = ["CodecfsError", "Mount", "info", "mount", "open_zarr", "plugins", "program", "version"]
