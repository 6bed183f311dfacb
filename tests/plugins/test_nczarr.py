"""A netCDF library with NCZarr filters writes and reads stores through our plugins; zarr-python reads what it wrote.

Debian's libnetcdf was built without NCZarr filters, so this one comes from PyPI, in a virtual environment."""
import json

import pytest

from running import run
from venvs import python_of

PROGRAM = '''
import json, os, sys
import netCDF4, numpy, zarr
folder = sys.argv[1]
generator = numpy.random.default_rng(2)
CASES = {
    "zlib": dict(zlib=True, shuffle=False, complevel=6),
    "shuffle": dict(zlib=True, shuffle=True),
    "fletcher32": dict(fletcher32=True),
    "all": dict(zlib=True, shuffle=True, fletcher32=True),
    "zstd": dict(compression="zstd", complevel=7),
    "bzip2": dict(compression="bzip2", complevel=9),
    **{f"blosc_{name}": dict(compression=f"blosc_{name}", blosc_shuffle=shuffle)
       for name, shuffle in [("lz", 1), ("lz4", 2), ("lz4hc", 0), ("zlib", 1), ("zstd", 1)]},
    "szip": dict(compression="szip"),
}
result = {"netcdf": netCDF4.__netcdf4libversion__}
for name, filters in CASES.items():
    store = os.path.join(folder, name + ".zarr")
    url = "file://" + store + "#mode=nczarr,file"
    # Random bytes do not get smaller: Zarr has no unfiltered chunks, so the filters have to store them anyway.
    arrays = {dtype: (numpy.arange(600).reshape(20, 30) * 3 % 100).astype(dtype) for dtype in ("i1", "i2", "i4", "i8", "f4", "f8")}
    arrays["u1"] = generator.integers(0, 256, (20, 30), dtype="u1")
    with netCDF4.Dataset(url, "w") as file:
        file.createDimension("y", 20)
        file.createDimension("x", 30)
        for dtype, data in arrays.items():
            file.createVariable("v" + dtype, dtype, ("y", "x"), chunksizes=(10, 15), fill_value=False, **filters)[:] = data
    with netCDF4.Dataset(url) as file:
        for dtype, data in arrays.items():
            read = numpy.asarray(file["v" + dtype][:])
            assert read.dtype == data.dtype and (read == data).all(), (name, dtype, "netCDF")
    if name != "szip":
        for dtype, data in arrays.items():
            read = zarr.open_array(os.path.join(store, "v" + dtype), mode="r")[:]
            assert read.dtype == data.dtype and (read == data).all(), (name, dtype, "zarr-python")
    with open(os.path.join(store, "vf8", ".zarray")) as file:
        array = json.load(file)
    result[name] = (array["filters"] or []) + [array["compressor"]]

# The other way: stores of zarr-python, some of them without keys.
import numcodecs
for name, compressor, filters in [
        ("zlib", numcodecs.Zlib(4), None), ("bz2", numcodecs.BZ2(3), None), ("zstd", numcodecs.Zstd(1), None),
        ("blosc", numcodecs.Blosc("zstd", 5, -1), None), ("shuffle", numcodecs.Zlib(4), [numcodecs.Shuffle(8)]),
        ("other size", numcodecs.Zlib(4), [numcodecs.Shuffle(4)]), ("no shuffle", numcodecs.Zlib(4), [numcodecs.Shuffle(1)])]:
    store = os.path.join(folder, "zarr_" + name.replace(" ", "_"))
    group = zarr.open_group(store, mode="w")
    data = numpy.arange(600.0).reshape(20, 30)
    array = group.create_dataset("v", data=data, chunks=(10, 15), compressor=compressor, filters=filters)
    array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    if name in ("zlib", "bz2", "zstd", "blosc"):
        path = os.path.join(store, "v", ".zarray")
        with open(path) as file:
            metadata = json.load(file)
        metadata["compressor"] = {"id": name}
        with open(path, "w") as file:
            json.dump(metadata, file)
    with netCDF4.Dataset("file://" + store + "#mode=zarr,file") as file:
        assert (numpy.asarray(file["v"][:]) == data).all(), name
    result["read " + name] = True
print(json.dumps(result))
'''


@pytest.fixture(scope="module")
def python():
    return python_of("netcdf")


def test_netcdf_with_our_plugins(python, tmp_path):
    result = json.loads(run(python, "-c", PROGRAM, tmp_path).stdout.splitlines()[-1])
    print(result)
    assert result["zlib"] == [{"id": "zlib", "level": 6}]
    # With netCDF's own plugin the element size would be 0, and zarr-python would return shuffled bytes.
    assert result["shuffle"][0] == {"id": "shuffle", "elementsize": 8}
    assert result["fletcher32"] == [{"id": "fletcher32"}]
    assert [codec["id"] for codec in result["all"]] == ["shuffle", "zlib", "fletcher32"]
    assert result["zstd"] == [{"id": "zstd", "level": 7}]
    assert result["bzip2"] == [{"id": "bz2", "level": 9}]
    assert result["blosc_lz4"][0]["shuffle"] == 2 and result["blosc_lz4"][0]["cname"] == "lz4"
    assert result["blosc_lz"][0]["cname"] == "blosclz"
    assert result["szip"][0]["id"] == "szip"
