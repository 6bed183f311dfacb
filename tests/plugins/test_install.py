"""PLUGIN_INSTALL_DIR means what netCDF's build option of that name means."""
import os

import pytest
from running import run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.parametrize("option, path, expected", [
    (None, None, "/usr/local/hdf5/lib/plugin"),
    ("YES", None, "/usr/local/hdf5/lib/plugin"),
    ("yes", "", "/usr/local/hdf5/lib/plugin"),
    ("YES", "/first:/the/last", "/the/last"),
    ("YES", "/only:", "/only"),
    ("NO", "/first:/the/last", None),
    ("no", None, None),
    ("/a/path", "/first:/the/last", "/a/path")])
def test_where_plugins_go(tmp_path, option, path, expected):
    environment = {key: value for key, value in os.environ.items() if key != "HDF5_PLUGIN_PATH"}
    if path is not None:
        environment["HDF5_PLUGIN_PATH"] = path
    # The plugins' part of the build by itself, with what it takes from the root.
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(plugins_only C CXX)\nset(CMAKE_CXX_STANDARD 23)\n"
        f"include({ROOT}/cmake/dependencies.cmake)\nadd_subdirectory({ROOT}/plugins plugins)\n")
    options = [] if option is None else [f"-DPLUGIN_INSTALL_DIR={option}"]
    run(os.environ.get("CMAKE_COMMAND", "cmake"), "-S", tmp_path, "-B", tmp_path / "build", *options, environment=environment)
    with open(tmp_path / "build/plugins/cmake_install.cmake") as file:
        script = file.read()
    if expected is None:
        assert "libcodecfs_" not in script
    else:
        for name in ("bzip2", "zstd", "blosc", "lz4", "deflate", "shuffle", "fletcher32", "szip", "defaults"):
            assert f"{expected}/libcodecfs_{name}.so" in script
