"""Zarr clients of PyPI in venvs of their own, which scripts/client-test makes: the Python of each. A test of a client that is
missing is skipped."""
import os
import pathlib

import pytest

VENVS = pathlib.Path(os.environ.get("CODECFS_CLIENTS", pathlib.Path.home() / ".cache/codecfs-clients"))
CLIENTS = {"zarr 2.13": ("", "zarr"), "zarr 2.18": ("zarr2", "zarr"), "zarr 3": ("zarr3", "zarr"), "xarray 2023": ("", "xarray"),
           "xarray 2024": ("zarr2", "xarray"), "xarray": ("zarr3", "xarray"), "dask": ("zarr3", "dask"), "tensorstore": ("zarr3", "tensorstore"),
           "netCDF4 wheel": ("netcdf4", "netcdf4"), "VirtualiZarr": ("virtualizarr", "virtualizarr"),
           "obstore": ("virtualizarr", "obstore"), "rasterio": ("rasterio", "rasterio")}


def python_of(client):
    venv = CLIENTS[client][0]
    if not venv:
        return "/usr/bin/python3"
    path = VENVS / venv / "bin/python3"
    if not path.exists():
        pytest.skip(f"{client} is not in {VENVS}: scripts/client-test installs it")
    return path
