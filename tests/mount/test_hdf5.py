"""Every generated HDF5 and netCDF-4 file: each chunk file holds the bytes that h5py reads, and zarr-python and xarray see on
the mount what h5py and xarray see in the file."""
import contextlib
import errno
import json
import os
import shutil

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr
from compare import read_variable, same_values
from conftest import DATA, mounted

# Sources whose damage is the point have tests of their own (test_errors.py).
FILES = sorted(p for p in (DATA / "hdf5").iterdir() if p.suffix in (".h5", ".nc") and not p.name.startswith("damaged"))
HIDDEN = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict",
          "_NCProperties", "_ARRAY_DIMENSIONS"}


def shown_name(path):
    return path.replace("_nc4_non_coord_", "")


def variables(file):
    """(path, dataset) of all datasets that a netCDF or HDF5 reader sees under their first path."""
    found, seen = [], set()

    def visit(group, prefix):
        for name in group:
            if group.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
                continue
            item = group[name]
            if isinstance(item, h5py.Datatype):
                continue
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                continue
            seen.add(address)
            path = prefix + name
            if isinstance(item, h5py.Group):
                visit(item, path + "/")
            elif not bytes(item.attrs.get("NAME", b"")).startswith(b"This is a netCDF dimension but not"):
                found.append((path, item))

    seen.add(h5py.h5o.get_info(file["/"].id).addr)
    visit(file["/"], "")
    return found


def is_vlen_string(dataset):
    info = h5py.check_string_dtype(dataset.dtype)
    return info is not None and info.length is None


def has_zarr_form(dataset):
    """References and ragged data keep their metadata only; members of these kinds count too."""
    def plain(dtype):
        if dtype.names:
            return all(plain(dtype[name]) for name in dtype.names)
        return dtype.base.kind != "O"
    return is_vlen_string(dataset) or plain(dataset.dtype)


def values_of(dataset, scratch):
    """What h5py reads, with two of its troubles worked around."""
    if dataset.shape is None:
        return np.empty((0,), dataset.dtype)
    try:
        return np.asarray(dataset[()])
    except OSError as error:
        if "no write intent" in str(error):  # libhdf5 writes the fill of variable-length strings while it reads
            copy = shutil.copy(dataset.file.filename, scratch / "copy.h5")
            with h5py.File(copy, "r+") as file:
                return np.asarray(file[dataset.name][()])
        # h5py asks for a conversion that libhdf5 does not have (bit fields): read them in the file's own type.
        values = np.empty(dataset.shape, dataset.dtype)
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, mtype=dataset.id.get_type())
        return values


def check_attributes(shown, attributes, where, scalars):
    for name, theirs in attributes.items():
        if name in HIDDEN or isinstance(theirs, h5py.Reference):
            continue
        if isinstance(theirs, np.ndarray) and theirs.dtype.kind == "O" and theirs.size and not isinstance(
                theirs.ravel()[0], (str, bytes)):
            continue
        assert name in shown, f"{where}: attribute {name} is not shown"
        if isinstance(theirs, np.ndarray) and theirs.dtype.names:
            continue
        if isinstance(theirs, np.void):
            continue
        if scalars and isinstance(theirs, np.ndarray) and theirs.size == 1:
            theirs = theirs.ravel()[0]
        ours = shown[name]
        if isinstance(theirs, (float, np.floating)) or isinstance(theirs, np.ndarray) and theirs.dtype.kind == "f":
            ours = np.asarray(ours, np.asarray(theirs).dtype)
        if np.iscomplexobj(theirs):
            ours = np.asarray(ours, float) @ [1, 1j]
        assert same_values(ours, theirs), f"{where}: attribute {name}: {ours!r} is not {theirs!r}"


def check_file(m, path, tmp_path):
    group = zarr.open_group(str(m.path), "r")
    # External and virtual sources are named relative to the file.
    with h5py.File(path) as file:
        netcdf = "_NCProperties" in file.attrs or any("_Netcdf4Dimid" in d.attrs for _, d in variables(file))
        check_attributes(json.loads((m.path / ".zattrs").read_text()), file.attrs, "/", netcdf)
        for name, dataset in variables(file):
            directory = m.path / shown_name(name)
            shown = json.loads((directory / ".zattrs").read_text())
            fill = json.loads((directory / ".zarray").read_text())["fill_value"]
            if "_FillValue" not in shown and fill in ("NaN", "Infinity", "-Infinity"):
                shown["_FillValue"] = float(fill)  # there is no JSON for it
            check_attributes(shown, dataset.attrs, name, netcdf)
            if not has_zarr_form(dataset) or "unknown" in name:
                continue
            with contextlib.chdir(path.parent):
                values = values_of(dataset, tmp_path)
            read_variable(directory, values)
            if is_vlen_string(dataset):
                array = np.asarray(group[shown_name(name)][...])
                assert same_values(array, values), name
            elif values.dtype.names is None:
                array = np.asarray(group[shown_name(name)][...])
                assert array.tobytes() == values.astype(array.dtype).tobytes(), name
        assert json.loads((m.path / ".zmetadata").read_text())["zarr_consolidated_format"] == 1


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
