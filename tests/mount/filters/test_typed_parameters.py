"""A filter with a parameter of every type, as netCDF's test filter (32768, codec "test") is described: the plugin encodes
only if each arrives as netCDF's tests have it. ncgen and libhdf5 judge what is stored."""
import json
import os
import sys

import h5py
import numpy as np
import pytest
import zarr

from conftest import xattr
from filter_plugins import compile_plugin
from running import run

# The constants of netCDF's own test, and its words for them.
TYPED = ("32768, 1, -17b, 23ub, -25S, 27US, 77, 93U, 789f, 12345678.12345678d, -9223372036854775807L, 18446744073709551615UL")
WORDS = (1, 239, 23, 65511, 27, 77, 93, 1145389056, 3287505826, 1097305129, 1, 2147483648, 4294967295, 4294967295)
SHOWN = ",".join(map(str, (32768, *WORDS)))
ORDERS = {"little": "<", "big": ">"}


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("typed")
    compile_plugin("typed_filter.c", folder / "libtyped.so", "-Wl,--no-as-needed", "-lnetcdf")  # for h5py and ncgen
    return folder


def data(order, kind="f4"):
    return np.arange(4000).reshape(40, 100).astype(ORDERS[order] + kind)


def read_hdf5(plugin, path):
    """The parameters of v, and its values as libhdf5 reads them with the plugin."""
    program = f"""
import h5py, pickle, sys
with h5py.File({str(path)!r}) as f:
    pickle.dump((f["v"].id.get_create_plist().get_filter(0)[2], f["v"][()]), sys.stdout.buffer)
"""
    import pickle
    return pickle.loads(run(sys.executable, "-c", program, env={"HDF5_PLUGIN_PATH": str(plugin)}, text=False).stdout)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("text", [TYPED, SHOWN])
def test_hdf5(mount, tmp_path, plugin, order, text):
    values = data(order)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=values, chunks=(10, 50))
    mounted = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": str(plugin)})
    os.setxattr(mounted.path / "v", "user._Filter", text.encode())
    assert xattr(mounted.path / "v", "_Filter") == SHOWN
    mounted.close()
    parameters, read = read_hdf5(plugin, tmp_path / "a.h5")
    assert parameters == WORDS and np.array_equal(read, values)
    with h5py.File(tmp_path / "a.h5") as file:
        stored = file["v"].id.read_direct_chunk((0, 0))
        assert stored == (0, bytes(byte ^ 1 for byte in values[:10, :50].tobytes()))


def test_as_ncgen_stores_them(tmp_path, plugin, mount):
    (tmp_path / "a.cdl").write_text(f"""netcdf a {{
dimensions: x = 8 ;
variables: float v(x) ; v:_Filter = "{TYPED}" ; v:_Storage = "chunked" ; v:_ChunkSizes = 4 ;
data: v = 1, 2, 3, 4, 5, 6, 7, 8 ;
}}
""")
    run("ncgen", "-4", "-lb", "-o", tmp_path / "a.nc", tmp_path / "a.cdl", env={"HDF5_PLUGIN_PATH": str(plugin)})
    assert read_hdf5(plugin, tmp_path / "a.nc")[0] == WORDS
    mounted = mount(tmp_path / "a.nc", "ro", env={"HDF5_PLUGIN_PATH": str(plugin)})
    assert xattr(mounted.path / "v", "_Filter") == SHOWN
    assert np.frombuffer((mounted.path / "v/1").read_bytes(), "<f4").tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize("order", ORDERS)
def test_zarr(mount, tmp_path, plugin, order):
    values = data(order)
    zarr.open_group(str(tmp_path / "s"), mode="w").create_dataset("v", data=values, chunks=(10, 50), compressor=None)
    mounted = mount(tmp_path / "s", env={"HDF5_PLUGIN_PATH": str(plugin)})
    os.setxattr(mounted.path / "v", "user._Filter", TYPED.encode())
    assert xattr(mounted.path / "v", "_Filter") == SHOWN
    assert (mounted.path / "v/1.1").read_bytes() == values[10:20, 50:].tobytes()
    mounted.close()
    codec = json.loads((tmp_path / "s/v/.zarray").read_text())["compressor"]
    assert codec["id"] == "test" and list(map(int, list(codec.values())[1:])) == list(WORDS)
    assert (tmp_path / "s/v/1.1").read_bytes() == bytes(byte ^ 1 for byte in values[10:20, 50:].tobytes())


def test_a_wrong_parameter_is_not_stored(mount, tmp_path, plugin):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=data("little"), chunks=(10, 50))
    mounted = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": str(plugin)})
    with pytest.raises(OSError):
        os.setxattr(mounted.path / "v", "user._Filter", ("UD=32768,0,14," + ",".join(map(str, (*WORDS[:-1], 7)))).encode())
    assert xattr(mounted.path / "v", "_Filter") == "none"
    assert (mounted.path / "v/0.0").read_bytes() == data("little")[:10, :50].tobytes()
