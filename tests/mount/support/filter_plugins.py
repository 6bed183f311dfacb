"""Filter plugins: those of the build and of Debian, and others that tests compile from plugin_sources."""
import glob
import os
import pathlib

import pytest
from running import run

SOURCES = pathlib.Path(__file__).parent / "plugin_sources"
INCLUDE = pathlib.Path(__file__).parents[3] / "include"
OURS = os.environ["CODECFS_PLUGINS"]
DEBIAN = os.path.dirname(glob.glob("/usr/lib/*/hdf5/serial/plugins/libh5bz2.so")[0])
HDF5 = run("pkg-config", "--cflags", "--libs", "hdf5-serial").stdout.split()


def compile_plugin(source, library, *options):
    """The recipe of netCDF's filter document: gcc -g -O0 -shared -o libNAME.so SOURCES -L... -lhdf5 (and -fPIC, which
    today's machines want)."""
    command = ["gcc", "-g", "-O0", "-shared", "-fPIC", "-o", str(library), str(SOURCES / source), *HDF5,
               "-I", str(INCLUDE), *options]
    run(*command)


HOSTILE = 32903


@pytest.fixture
def hostile(tmp_path):
    """A folder with the plugin."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    compile_plugin("hostile_filter.c", folder / "libhostile.so", "-w")
    return folder
