"""Every generated HDF5 and netCDF-4 file: each chunk file holds the bytes that h5py reads, and zarr-python and xarray see on
the mount what h5py and xarray see in the file."""
import errno
import json
import os

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
from compare import same_values
from conftest import DATA, mounted
from hdf5_sources import FILES, check_file



@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_chunk_is_what_h5py_reads(mount, path, tmp_path):
    m = mount(path)
    check_file(m, path, tmp_path)
    assert "damage" not in m.messages()


def test_links_that_libhdf5_cannot_follow(mount):
    """In a circle, or of a kind that only its program knows: no damage to it (netCDF's dimensions are looked for there)."""
    m = mount(DATA / "hdf5/c_odd_links.h5")
    assert {"circle1", "circle2", "to_user_defined", "b"} < set(os.listdir(m.path / "a"))
    assert os.readlink(m.path / "user_defined") == "user-defined-link:187"
    assert os.readlink(m.path / "a/to_user_defined") == "../user_defined"
    with pytest.raises(OSError) as failure:
        (m.path / "a/circle1/.zarray").read_text()
    assert failure.value.errno == errno.ELOOP
    assert "a/b/data/.zarray" in json.loads((m.path / ".zmetadata").read_text())["metadata"]
    assert "damage" not in m.messages()


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".nc"], ids=lambda p: p.name)
def test_xarray_sees_the_same(mount, path):
    m = mount(path)
    with netCDF4.Dataset(path) as nc:
        groups = ["/"] + [g for g in nc.groups]
        # xarray's netCDF engine reads no user-defined types but plain ones.
        odd = [v for g in [nc, *nc.groups.values()] for v in g.variables
               if isinstance(g[v].datatype, (netCDF4.CompoundType, netCDF4.VLType))]
    for group in groups:
        for decode in (False, True):
            where = m.path if group == "/" else m.path / group
            try:
                theirs = xarray.open_dataset(path, group=group, engine="netcdf4", decode_cf=decode, drop_variables=odd)
            except xarray.core.variable.MissingDimensionsError as error:
                with pytest.raises(xarray.core.variable.MissingDimensionsError, match=str(error)[:20]):
                    xarray.open_zarr(str(where), consolidated=True, decode_cf=decode, drop_variables=odd)
                continue
            ours = xarray.open_zarr(str(where), consolidated=True, decode_cf=decode, drop_variables=odd)
            assert dict(ours.sizes) == {d: n for d, n in theirs.sizes.items() if d in ours.sizes}
            assert set(ours.variables) == set(theirs.variables)
            for name in theirs.variables:
                a, b = ours[name], theirs[name]
                assert a.dims == b.dims, name
                assert same_values(a.values, b.values), f"{group} {name}"
                for key, value in b.attrs.items():
                    assert same_values(np.asarray(a.attrs[key], getattr(value, "dtype", None)), value), (name, key)
            assert {k: np.asarray(v).tolist() for k, v in ours.attrs.items()}.keys() == theirs.attrs.keys()


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".h5"], ids=lambda p: p.name)
def test_xarray_opens_any_hdf5_file(mount, path):
    """Dimensions without scales have the names that netCDF gives them, so no two sizes share a name."""
    m = mount(path)
    metadata = json.loads((m.path / ".zmetadata").read_text())["metadata"]
    for key in list(metadata):
        if not key.endswith(".zarray"):
            continue
        dimensions = metadata[key.replace(".zarray", ".zattrs")]["_ARRAY_DIMENSIONS"]
        assert len(dimensions) == len(metadata[key]["shape"]), key


def test_types_of_time(tmp_path):
    """PyTables once made them; h5py has no numpy type for them, and libhdf5 no native one."""
    numbers, path = np.arange(1000, dtype=">i4"), tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        space, kind = h5py.h5s.create_simple((1000,)), h5py.h5t.UNIX_D32BE
        data = h5py.h5d.create(file.id, b"t", kind, space)
        data.write(h5py.h5s.ALL, h5py.h5s.ALL, numbers, mtype=kind)
        h5py.h5a.create(data, b"when", kind, h5py.h5s.create(h5py.h5s.SCALAR)).write(numbers[7:8], mtype=kind)
    with mounted(path, tmp_path / "mnt") as m:
        assert np.fromfile(m.path / "t/0", ">i4").tolist() == numbers.tolist()
        os.setxattr(m.path / "t", "user._Filter", b"2|1,4")
        assert "when" in json.loads((m.path / "t/.zattrs").read_text())
        assert "damage" not in m.messages()
    with h5py.File(path) as file:
        data, kind = h5py.h5d.open(file.id, b"t"), h5py.h5t.UNIX_D32BE
        assert data.get_type().equal(kind) and data.get_create_plist().get_nfilters() == 2
        read = np.empty_like(numbers)
        data.read(h5py.h5s.ALL, h5py.h5s.ALL, read, mtype=kind)
        assert read.tolist() == numbers.tolist()
