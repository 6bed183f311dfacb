"""HDF5 filter plugins: Zstandard (32015), Blosc (32001), LZ4 (32004), bzip2 (307)."""
from __future__ import annotations

import os
import pathlib
import sys


def plugins() -> str:
    """Lets libhdf5 find the filter plugins of this package, and returns their directory.

    For h5py and whatever else reads HDF5 in this process, and for processes that it starts: the directory becomes the first of
    HDF5_PLUGIN_PATH, and of h5py's search path if h5py is imported already. Another libhdf5 that is loaded already (netCDF4,
    PyTables) reads the variable only when it starts: call this before importing these. May be called again.
    """
    directory = os.fspath(pathlib.Path(__file__).parent / "plugins")
    path = [part for part in os.environ.get("HDF5_PLUGIN_PATH", "").split(os.pathsep) if part]
    if directory not in path:
        os.environ["HDF5_PLUGIN_PATH"] = os.pathsep.join([directory, *path])
    if "h5py" in sys.modules:
        from h5py import h5pl

        if os.fsencode(directory) not in [h5pl.get(index) for index in range(h5pl.size())]:
            h5pl.prepend(os.fsencode(directory))
    return directory
