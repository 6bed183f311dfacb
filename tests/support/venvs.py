"""Python environments with packages of PyPI, for judges that Debian does not have, or only in old versions. They are kept in
~/.cache/codecfs-clients and shared by all tests; remove a folder there to get newer versions."""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from running import run

PLACE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"), "codecfs-clients")
# name -> its packages, and a program that works where they are there.
VENVS = {
    "mount-tests": (["zarr>=3,<4", "xarray", "h5py", "dask"], "import dask, h5py, xarray, zarr; assert zarr.__version__.startswith('3.')"),
    "netcdf": (["netCDF4", "zarr<3", "numcodecs<0.16", "numpy<2"],
               "import netCDF4, zarr; assert tuple(map(int, netCDF4.__netcdf4libversion__.split('.')[:2])) >= (4, 9)"),
    "netcdf4": (["netCDF4"], "import netCDF4; assert tuple(map(int, netCDF4.__netcdf4libversion__.split('.')[:2])) >= (4, 10)"),
    "tensorstore": (["tensorstore"], "import tensorstore"),
    "hdf5plugin": (["hdf5plugin", "h5py"], "import hdf5plugin, h5py"),
}


def python_of(name):
    """The Python of an environment, which is made where it is missing; skips the test where PyPI cannot be reached."""
    packages, check = VENVS[name]
    python = PLACE / name / "bin/python"

    def works():
        return python.exists() and run(python, "-c", check, code=None).returncode == 0

    PLACE.mkdir(parents=True, exist_ok=True)
    with open(PLACE / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if works():
            return python
        shutil.rmtree(PLACE / name, ignore_errors=True)
        for command in ([sys.executable, "-m", "venv", PLACE / name], [python, "-m", "pip", "install", "-q", *packages]):
            try:
                done = run(*command, seconds=300, code=None)
            except (OSError, subprocess.TimeoutExpired) as error:
                pytest.skip(f"no {packages[0]} of PyPI: {error}")
            if done.returncode != 0:
                pytest.skip(f"no {packages[0]} of PyPI: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
        if not works():
            pytest.skip(f"no {packages[0]} of PyPI: what pip installed cannot be imported")
    return python
