"""Every test here sees our plugins and no others: HDF5 reads the path once, so it is set before h5py is imported."""
import glob
import os
import sys

PLUGINS = os.environ["CODECFS_PLUGINS"]
os.environ["HDF5_PLUGIN_PATH"] = PLUGINS
sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(os.path.dirname(__file__)), "support")]

import pytest


@pytest.fixture
def debian_plugins():
    """The directory of the plugins that Debian packages (hdf5-filter-plugin and its -blosc-serial)."""
    found = glob.glob("/usr/lib/*/hdf5/serial/plugins/libh5bz2.so")
    assert found, "package hdf5-filter-plugin is not installed"
    return os.path.dirname(found[0])
