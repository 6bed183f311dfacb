"""Objects, and lists that HDF5 has no type for, as attributes of HDF5 files: JSON text that h5py reads, and the same objects again in every view."""

import errno
import json
import os
import sys

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr
from mounts import mounted
from running import codecfs, run
from venvs import python_of

OBJECTS = {
    "multiscales": [{"version": "0.4", "axes": [{"name": "x", "type": "space", "unit": None}], "datasets": [{"path": "0"}]}],
    "omero": {"channels": [{"window": {"min": 0, "max": 1.5}, "active": True}], "name": "Zürich \u0000 \""},
    "mixed": [1, "a", None, [2.5]],
    "matrix": [[1, 2], [3, 4]],  # netCDF has no such attributes
    "ragged": [[1, 2], [3]],
    "empty": {},
}
PLAIN = {"text": '{"this": "is text"}', "number": 3, "names": ["a", "b"]}


@pytest.fixture
def store(tmp_path):
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    array = group.create_dataset("v", shape=(4,), chunks=(2,), dtype="i4", fill_value=0)
    array[:] = np.arange(4)
    for holder in (group, array):
        holder.attrs.update({**OBJECTS, **PLAIN})
    return tmp_path / "a.zarr"


def texts_of(holder, is_netcdf):
    """The objects whose texts h5py finds; lists of lists are no texts where netCDF's rules do not hold."""
    return {name: json.loads(holder.attrs[name]) if is_netcdf or name != "matrix" else holder.attrs[name].tolist() for name in OBJECTS}


def attributes(path):
    shown = json.loads(path.read_text())
    for name in "_ARRAY_DIMENSIONS", "_codecfs_phony_dimensions":
        shown.pop(name, None)
    return shown


@pytest.mark.parametrize("is_netcdf", [False, True])
def test_objects_survive_the_way_to_hdf5_and_back(tmp_path, store, is_netcdf):
    if is_netcdf:
        zarr.open_group(str(store))["v"].attrs["_ARRAY_DIMENSIONS"] = ["x"]
    codecfs("convert", store, tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        for holder in (file, file["v"]):
            assert texts_of(holder, is_netcdf) == OBJECTS
            assert holder.attrs["text"] in (PLAIN["text"], PLAIN["text"].encode())
    codecfs("compare", store, tmp_path / "a.h5")
    codecfs("recode", "-F", "*,zlib,5", tmp_path / "a.h5")
    codecfs("compact", tmp_path / "a.h5")
    codecfs("convert", tmp_path / "a.h5", tmp_path / "again.h5")
    for format in ("zarr", "zarr3"):
        codecfs("convert", "--format", format, tmp_path / "again.h5", tmp_path / format)
    group = zarr.open_group(str(tmp_path / "zarr"), mode="r")
    for holder in (group, group["v"]):
        assert {name: holder.attrs[name] for name in {**OBJECTS, **PLAIN}} == {**OBJECTS, **PLAIN}
    three = json.loads((tmp_path / "zarr3/v/zarr.json").read_text())["attributes"]
    assert {name: three[name] for name in {**OBJECTS, **PLAIN}} == {**OBJECTS, **PLAIN}


def make_file(path, netcdf):
    if netcdf:
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("x", 4)
            file.createVariable("v", "i4", ("x",))[:] = np.arange(4)
    else:
        with h5py.File(path, "w") as file:
            file["v"] = np.arange(4, dtype="i4")


@pytest.mark.parametrize("is_netcdf", [False, True])
def test_objects_set_in_a_mount(tmp_path, is_netcdf):
    path = tmp_path / ("a.nc" if is_netcdf else "a.h5")
    make_file(path, is_netcdf)
    for name in (".zattrs", "v/.zattrs"):
        with mounted(path, tmp_path / "point") as there:
            at = there.path / name
            whole = json.loads(at.read_text()) if at.exists() else {}
            at.write_text(json.dumps({**whole, "one": {"a": 1}, "two": [{"b": None}], "text": "{}"}))
            assert attributes(at) == {"one": {"a": 1}, "two": [{"b": None}], "text": "{}"}
        with mounted(path, tmp_path / "point") as there:
            at = there.path / name
            whole = json.loads(at.read_text())
            assert attributes(at) == {"one": {"a": 1}, "two": [{"b": None}], "text": "{}"}
            at.write_text(json.dumps({**whole, "one": {"a": [1, "x"]}, "two": "plain"}))
        with h5py.File(path) as file:
            holder = file if name == ".zattrs" else file["v"]
            assert json.loads(holder.attrs["one"]) == {"a": [1, "x"]}
            assert holder.attrs["two"] in ("plain", b"plain") and holder.attrs["text"] in ("{}", b"{}")
        with netCDF4.Dataset(path) as file:
            holder = file if name == ".zattrs" else file["v"]
            assert json.loads(holder.getncattr("one")) == {"a": [1, "x"]}
        with mounted(path, tmp_path / "point") as there:
            at = there.path / name
            whole = json.loads(at.read_text())
            assert attributes(at) == {"one": {"a": [1, "x"]}, "two": "plain", "text": "{}"}
            del whole["one"]
            at.write_text(json.dumps(whole))
        with h5py.File(path) as file:
            holder = file if name == ".zattrs" else file["v"]
            assert "one" not in holder.attrs and "_codecfs_json_attributes" not in holder.attrs
        with mounted(path, tmp_path / "point") as there:
            assert attributes(there.path / name) == {"two": "plain", "text": "{}"}


def with_objects(path, attributes, netcdf=False):
    """A file whose root and variable v have these, set through a mount."""
    make_file(path, netcdf)
    with mounted(path, path.parent / "point") as there:
        for name in (".zattrs", "v/.zattrs"):
            at = there.path / name
            at.write_text(json.dumps({**(json.loads(at.read_text()) if at.exists() else {}), **attributes}))
    return path


@pytest.mark.parametrize("names", [["one"], ["one", "two"]])
def test_copies_of_others_keep_them(tmp_path, mount, names):
    """netCDF4 and xarray copy all attributes as they see them, lists of one text as one text."""
    wanted = {name: {"a": [1, {"b": None}]} for name in names}
    path = with_objects(tmp_path / "a.nc", wanted, netcdf=True)
    with netCDF4.Dataset(path) as one, netCDF4.Dataset(tmp_path / "b.nc", "w") as two:
        two.createDimension("x", 4)
        two.createVariable("v", "i4", ("x",)).setncatts(one["v"].__dict__)
        two.setncatts(one.__dict__)
    with xarray.open_dataset(path) as dataset:
        dataset.to_netcdf(tmp_path / "c.nc")
        dataset.to_zarr(tmp_path / "d.zarr")
    codecfs("convert", tmp_path / "d.zarr", tmp_path / "d.nc")
    for copy in "bcd":
        there = mount(tmp_path / f"{copy}.nc")
        for name in (".zattrs", "v/.zattrs"):
            shown = attributes(there.path / name)
            assert {name: shown[name] for name in names} == wanted and "_codecfs_json_attributes" not in shown


def test_extended_attributes(tmp_path, mount):
    wanted = {"one": {"a": 1}, "two": [{"b": None}], "text": '{"a": 1}'}
    there = mount(with_objects(tmp_path / "a.h5", wanted))
    shown = os.getxattr(there.path / "v", "user.one")
    assert json.loads(shown) == {"a": 1}
    os.setxattr(there.path / "v", "user.one", shown)
    os.setxattr(there.path / "v", "user.two", b'{"c": 1}')
    os.setxattr(there.path / "v", "user.text", b'{"a": 2}')
    assert attributes(there.path / "v/.zattrs") == {**wanted, "two": {"c": 1}, "text": '{"a": 2}'}
    other = mount(tmp_path / "b.h5", "create=hdf5,view=decoded")
    run("cp", "-a", there.path / "v", other.path / "v")
    assert attributes(other.path / "v/.zattrs") == attributes(there.path / "v/.zattrs")
    os.removexattr(there.path / "v", "user.one")
    assert set(attributes(there.path / "v/.zattrs")) == {"two", "text"}


def test_a_list_of_one_replaces_its_element(tmp_path, mount):
    """In netCDF [5] and 5 are the same, but [{...}] and {...} are not."""
    there = mount(with_objects(tmp_path / "a.nc", {"o": {"a": 1}, "n": [1, 2]}, netcdf=True))
    for value in ({"o": [{"a": 1}], "n": [[1, 2]]}, {"o": {"a": 1}, "n": [1, 2]}):
        (there.path / ".zattrs").write_text(json.dumps(value))
        assert attributes(there.path / ".zattrs") == value


def test_names_that_are_not_utf8(tmp_path, mount):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["débit"] = "[1]"
        file.attrs.create(b"d\xe9bit", 1)
    there = mount(tmp_path / "a.h5")
    (there.path / ".zattrs").write_text(json.dumps({"débit": "[1]", "d%E9bit": {"a": 1}, "new%E9": {"b": 2}}))
    there.close()
    again = mount(tmp_path / "a.h5")
    assert attributes(again.path / ".zattrs") == {"débit": "[1]", "d%E9bit": {"a": 1}, "new%E9": {"b": 2}}


def test_netcdf_reads_the_nczarr_copy(tmp_path):
    path = with_objects(tmp_path / "a.nc", {**OBJECTS, "plain": [1, 2]}, netcdf=True)
    codecfs("convert", "--format", "nczarr", path, tmp_path / "a.zarr")
    program = """
import json, netCDF4, sys
with netCDF4.Dataset(f"file://{sys.argv[1]}#mode=nczarr,file") as file:
    print(json.dumps({name: str(file["v"].getncattr(name)) for name in ("multiscales", "mixed", "ragged", "matrix")}))
    assert file["v"][:].tolist() == [0, 1, 2, 3] and file.getncattr("plain").tolist() == [1, 2]
"""
    for python in sys.executable, python_of("netcdf"):
        read = json.loads(run(python, "-c", program, tmp_path / "a.zarr").stdout)
        assert {name: json.loads(text) for name, text in read.items()} == {name: OBJECTS[name] for name in read}


def test_a_list_that_names_what_is_no_json(tmp_path, mount):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["text"] = "no JSON {"
        file.attrs["number"] = "3"
        file.attrs["deep"] = "[" * 100000
        file.attrs["three"] = 3
        file.attrs["_codecfs_json_attributes"] = '["text", "number", "deep", "three", "absent"]'
    there = mount(tmp_path / "a.h5")
    assert attributes(there.path / ".zattrs") == {"text": "no JSON {", "number": "3", "deep": "[" * 100000, "three": 3}


def test_a_list_that_cannot_be_read_is_not_replaced(tmp_path, mount):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.attrs["one"] = np.bytes_('{"a": 1}')
        file.attrs["_codecfs_json_attributes"] = '["one"]'
    whole = path.read_bytes()
    assert whole.count(b"GCOL") == 1  # the heap that has texts of variable length
    path.write_bytes(whole.replace(b"GCOL", b"gcol"))
    with h5py.File(path) as file, pytest.raises(OSError):
        file.attrs["_codecfs_json_attributes"]
    there = mount(path)
    for use in (there.path / ".zattrs").read_text, lambda: (there.path / ".zattrs").write_text('{"one": {"a": 1}, "two": {"b": 2}}'):
        with pytest.raises(OSError) as caught:
            use()
        assert caught.value.errno == errno.EIO
    there.close()
    assert path.read_bytes() == whole.replace(b"GCOL", b"gcol")
