"""netCDF's own tools read the mount as a Zarr store: Debian's ncdump, which cannot read compressed Zarr by itself, prints
the numbers that it prints for the file."""
import os
import re

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from running import run


def data_of(text):
    """{variable: numbers as printed} of ncdump's data section."""
    section = text[text.index("data:"):]
    return {name: re.sub(r"\s+", "", numbers) for name, numbers in re.findall(r"^\s*(\w+) =(.*?);", section, re.M | re.S)}


def ncdump(what, *options):
    return run("ncdump", *options, what).stdout


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
    run("nccopy", "-k", "nc4", f"file://{m.path}#mode=zarr,file", tmp_path / "out.nc")
    with netCDF4.Dataset(tmp_path / "out.nc") as nc:
        assert (nc["v"][:] == np.arange(100)).all()


EXAMPLE = """netcdf bzip2szip {
dimensions:
  dim0 = 4 ; dim1 = 4 ; dim2 = 4 ; dim3 = 4 ;
variables:
  float var(dim0, dim1, dim2, dim3) ;
    %s
    var:_Storage = "chunked" ;
    var:_ChunkSizes = 4, 4, 4, 4 ;
data:
  var = %s ;
}
"""


def stored(path):
    """The filters in the file with their parameters, and which of them its chunk was stored without."""
    with h5py.File(path) as file:
        properties = file["var"].id.get_create_plist()
        return [properties.get_filter(i)[0:3:2] for i in range(properties.get_nfilters())], file["var"].id.get_chunk_info(0).filter_mask


def test_the_example_of_the_filter_document(mount, tmp_path, monkeypatch):
    """bzip2, then szip, which is optional and cannot encode what bzip2 makes of so small a chunk: ncgen takes it."""
    monkeypatch.setenv("HDF5_PLUGIN_PATH", os.environ["CODECFS_PLUGINS"])
    numbers = ", ".join(map(str, range(256)))
    for name, line in (("theirs", 'var:_Filter = "307,9|4,32,32" ;'), ("ours", "")):
        (tmp_path / f"{name}.cdl").write_text(EXAMPLE % (line, numbers))
        run("ncgen", "-4", "-o", tmp_path / f"{name}.nc", tmp_path / f"{name}.cdl")
    m = mount(tmp_path / "ours.nc")
    os.setxattr(m.path / "var", "user._Filter", b"307,9|4,32,32")
    m.close()
    assert stored(tmp_path / "ours.nc") == stored(tmp_path / "theirs.nc")
    shown = [re.search('var:_Filter = "(.*)"', ncdump(tmp_path / f"{name}.nc", "-hs"))[1] for name in ("ours", "theirs")]
    assert shown == ["307,9|4,32,32"] * 2
    assert data_of(ncdump(tmp_path / "ours.nc")) == data_of(ncdump(tmp_path / "theirs.nc")) != {}
