"""The plugin directories that users have: of Debian's packages, of the wheel hdf5plugin and of the wheel netCDF4, which are linked to a
libhdf5 of their own or to none. The tool of each directory makes a file with each of its filters and is the judge of what codecfs stores.
With the portable program (CODECFS), libhdf5 is another one than any of these."""
import glob
import json
import os
import sys

import numpy as np
import pytest
from running import codecfs, run
from venvs import python_of

DEBIAN = os.path.dirname(next(iter(glob.glob("/usr/lib/*/hdf5/serial/plugins/libh5bz2.so")), ""))
NOISE = np.random.default_rng(5).integers(0, 64, 4000)
VALUES = {"int": NOISE.astype("<i4").reshape(40, 100), "float": np.cumsum(NOISE).astype("<f4").reshape(40, 100)}

# argv: FILE, JSON of {name: [type, filter, parameters]}. HDF5_PLUGIN_PATH names the directory, or hdf5plugin is imported.
MAKE = """
import sys, json, numpy as np
if %r: import hdf5plugin
import h5py
noise = np.random.default_rng(5).integers(0, 64, 4000)
values = {"int": noise.astype("<i4").reshape(40, 100), "float": np.cumsum(noise).astype("<f4").reshape(40, 100)}
made, missing = [], {}
with h5py.File(sys.argv[1], "w") as file:
    for name, (kind, number, parameters) in json.loads(sys.argv[2]).items():
        if not h5py.h5z.filter_avail(number):
            missing[name] = "no filter"
            continue
        file.create_dataset(name, data=values[kind], chunks=(10, 50), compression=number, compression_opts=tuple(parameters))
        made.append(name)
print(json.dumps([made, missing]))
"""
READ = """
import sys, json, numpy as np
if %r: import hdf5plugin
import h5py
with h5py.File(sys.argv[1]) as file:
    np.savez(sys.argv[2], **{name: file[name][...] for name in file})
"""
# name: [type, filter, parameters, whether the same numbers come back]
DEBIANS = {"bzip2": ["int", 307, [9], True], "lz4": ["int", 32004, [], True], "blosc": ["int", 32001, [0, 0, 0, 0, 5, 1, 1], True],
           "lzf": ["int", 32000, [], True], "zfp": ["float", 32013, [5], True]}
WHEELS = {"blosc": ["int", 32001, [0, 0, 0, 0, 5, 1, 1], True], "blosc2": ["int", 32026, [0, 0, 0, 0, 5, 1, 1], True],
          "bitshuffle": ["int", 32008, [0, 2], True], "bzip2": ["int", 307, [9], True], "lz4": ["int", 32004, [], True],
          "zstd": ["int", 32015, [3], True], "zfp": ["float", 32013, [5], True], "zfp_lossy": ["float", 32013, [1, 0, 0, 1076101120], False]}


def environment(**variables):
    return {**{name: value for name, value in os.environ.items() if not name.startswith("HDF5_PLUGIN")}, **variables}


def python_and_folder(name):
    """The program that makes and reads files of these filters, the directory, and its environment."""
    if name == "debian":
        if not DEBIAN:
            pytest.skip("no plugins of Debian (hdf5-filter-plugin)")
        return sys.executable, DEBIAN, environment(HDF5_PLUGIN_PATH=DEBIAN), False
    python = python_of("hdf5plugin")
    return python, told(python, "import hdf5plugin; print(hdf5plugin.PLUGIN_PATH)", env=environment()).strip(), environment(), True


def told(python, program, *words, env):
    return run(python, "-c", program, *words, environment=env).stdout


def without_plugins(*words):
    return codecfs(*words, environment=environment(HDF5_PLUGIN_PATH="")).output


def read_all(python, path, tmp_path, env, is_wheel):
    told(python, READ % is_wheel, path, tmp_path / "read.npz", env=env)
    with np.load(tmp_path / "read.npz") as found:
        return {name: found[name] for name in found.files}


def chunk_of(values, row, column):
    return values[10 * row:10 * row + 10, 50 * column:50 * column + 50]


@pytest.mark.parametrize("directory, filters", [("debian", DEBIANS), ("hdf5plugin", WHEELS)])
def test_files_of_each_filter(mount, tmp_path, directory, filters):
    """Read as the tool reads them; what is written to a chunk, and a variable that gets the filter here, are read by the tool."""
    python, folder, env, is_wheel = python_and_folder(directory)
    path = tmp_path / "a.h5"
    wanted = {name: [kind, number, parameters] for name, (kind, number, parameters, _) in filters.items()}
    made, missing = json.loads(told(python, MAKE % is_wheel, path, json.dumps(wanted), env=env))
    assert len(made) > 3, missing
    if missing:
        print("not there:", missing)
    before = read_all(python, path, tmp_path, env, is_wheel)
    mounted = mount(path, f"builtin=off,plugin_path={folder}", env={"HDF5_PLUGIN_PATH": ""})
    for name in made:
        for row in range(4):
            for column in range(2):
                found = (mounted.path / name / f"{row}.{column}").read_bytes()
                assert found == chunk_of(before[name], row, column).tobytes(), (name, row, column)
    new = {kind: (values[::-1, ::-1] * 2).astype(values.dtype) for kind, values in VALUES.items()}
    for name in made:
        (mounted.path / name / "1.1").write_bytes(chunk_of(new[filters[name][0]], 1, 1).tobytes())
    mounted.close()
    # A plugin completes the parameters that a new pipeline is given (set_local).
    for name in made:
        for spec in "none", ",".join(map(str, filters[name][1:2] + filters[name][2])):
            without_plugins("recode", "-O", f"builtin=off,plugin_path={folder}", "-F", f"{name},{spec}", path)
    after = read_all(python, path, tmp_path, env, is_wheel)
    for name in made:
        kind, _, _, is_exact = filters[name]
        want = before[name].copy()
        want[10:20, 50:100] = chunk_of(new[kind], 1, 1)
        if is_exact:
            assert (after[name] == want).all(), name
        else:
            assert np.allclose(after[name], want, atol=100), name


@pytest.mark.parametrize("directory", ["debian", "hdf5plugin", "netcdf4"])
def test_every_library_is_taken(mount, tmp_path, directory):
    """None of them lacks a function, crashes when it is loaded, or is set aside."""
    if directory == "netcdf4":
        python = python_of("netcdf4")
        folder = run(python, "-c", "import netCDF4, os; print(os.path.join(netCDF4.__path__[0], 'plugins'))").stdout.strip()
        if not glob.glob(f"{folder}/*.so"):
            pytest.skip("this netCDF4 has no plugins")
    else:
        _, folder, _, _ = python_and_folder(directory)
    told_here = without_plugins("filters", "-O", f"builtin=off,plugin_path={folder}")
    assert "undefined symbol" not in told_here and "not used" not in told_here
    assert told_here.count(f"{folder}/") >= 5


def test_files_of_netcdf4s_plugins(mount, tmp_path):
    """What netCDF-C compresses with its own plugins, in a wheel with a libhdf5 of its own."""
    python = python_of("netcdf4")
    made = told(python, """
import sys, json, os, numpy as np, netCDF4
values = np.random.default_rng(5).integers(0, 64, 4000).astype("<i4").reshape(40, 100)
with netCDF4.Dataset(sys.argv[1], "w") as file:
    file.createDimension("y", 40), file.createDimension("x", 100)
    made = []
    for name, options in {"zstd": {}, "bzip2": {}, "blosc_lz4": {"blosc_shuffle": 1}, "zlib": {}, "szip": {}}.items():
        try:
            v = file.createVariable(name, "<i4", ("y", "x"), chunksizes=(10, 50), compression=name, **options)
            v[:] = values
            made.append(name)
        except Exception as error:
            print(name, error, file=sys.stderr)
print(json.dumps([made, os.path.join(netCDF4.__path__[0], "plugins")]))
""", tmp_path / "a.nc", env=environment())
    names, folder = json.loads(made.splitlines()[-1])
    assert {"zstd", "bzip2"} <= set(names)
    mounted = mount(tmp_path / "a.nc", f"builtin=off,plugin_path={folder}", env={"HDF5_PLUGIN_PATH": ""})
    values = VALUES["int"]
    for name in names:
        for row in range(4):
            assert (mounted.path / name / f"{row}.1").read_bytes() == chunk_of(values, row, 1).tobytes(), name
        (mounted.path / name / "0.0").write_bytes(np.full((10, 50), 9, "<i4").tobytes())
    mounted.close()
    after = told(python, """
import sys, json, netCDF4
with netCDF4.Dataset(sys.argv[1]) as file:
    print(json.dumps({name: file[name][:].tolist() for name in file.variables}))
""", tmp_path / "a.nc", env=environment())
    want = values.copy()
    want[:10, :50] = 9
    for name, found in json.loads(after).items():
        assert (np.array(found) == want).all(), name
