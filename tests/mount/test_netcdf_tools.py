"""netCDF's own tools read the mount as a Zarr store: Debian's ncdump, which cannot read compressed Zarr by itself, prints
the numbers that it prints for the file."""
import re
import subprocess

import netCDF4
import numpy as np
import pytest
import zarr


def data_of(text):
    """{variable: numbers as printed} of ncdump's data section."""
    section = text[text.index("data:"):]
    return {name: re.sub(r"\s+", "", numbers) for name, numbers in re.findall(r"^\s*(\w+) =(.*?);", section, re.M | re.S)}


def ncdump(what, *options):
    result = subprocess.run(["ncdump", *options, str(what)], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def plain_home(monkeypatch, tmp_path):
    """A .ncrc of the user would change how ncdump reads Zarr."""
    monkeypatch.setenv("HOME", str(tmp_path))


def test_ncdump_of_a_netcdf4_file(mount, tmp_path, plain_home):
    path = tmp_path / "n.nc"
    with netCDF4.Dataset(path, "w") as nc:
        nc.createDimension("y", 10)
        nc.createDimension("x", 21)
        for kind, filters in {"i1": {}, "i2": {"zlib": True}, "u2": {"fletcher32": True}, "i4": {"zlib": True},
                              "u4": {}, "i8": {"zlib": True}, "f4": {"zlib": True, "shuffle": True}, "f8": {}}.items():
            v = nc.createVariable("v" + kind, kind, ("y", "x"), chunksizes=(5, 7), **filters)
            v[:] = (np.arange(210).reshape(10, 21) * 1.5).astype(kind)
            v.units = "1"
    m = mount(path)
    file, shown = data_of(ncdump(path)), data_of(ncdump(f"file://{m.path}#mode=zarr,file"))
    assert len(file) == 8 and file == shown


def test_ncdump_of_a_compressed_zarr_store(mount, tmp_path, plain_home):
    """By itself Debian's netCDF returns the compressed bytes as data, without an error."""
    group = zarr.open_group(str(tmp_path / "z"), "w")
    values = np.arange(60, dtype="i4").reshape(6, 10)
    group.create_dataset("v", data=values, chunks=(3, 5), compressor=zarr.Blosc(), fill_value=0)
    m = mount(tmp_path / "z")
    shown = data_of(ncdump(f"file://{m.path}#mode=zarr,file"))
    assert shown == {"v": ",".join(map(str, values.ravel()))}


def test_nccopy_takes_the_mount(mount, tmp_path, plain_home):
    path = tmp_path / "n.nc"
    with netCDF4.Dataset(path, "w") as nc:
        nc.createDimension("x", 100)
        nc.createVariable("v", "f4", ("x",), zlib=True, chunksizes=(50,))[:] = np.arange(100)
    m = mount(path)
    subprocess.run(["nccopy", "-k", "nc4", f"file://{m.path}#mode=zarr,file", tmp_path / "out.nc"], check=True)
    with netCDF4.Dataset(tmp_path / "out.nc") as nc:
        assert (nc["v"][:] == np.arange(100)).all()
