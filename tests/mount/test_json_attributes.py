"""Objects, and lists that HDF5 has no type for, as attributes of HDF5 files: JSON text that h5py reads, and the same objects again in every view."""

import json
import subprocess

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from conftest import CODECFS
from mounts import mounted

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


def codecfs(*words):
    return subprocess.run([CODECFS, *map(str, words)], capture_output=True, text=True, timeout=120)


def texts_of(holder):
    return {name: json.loads(holder.attrs[name]) for name in OBJECTS}


def attributes(path):
    shown = json.loads(path.read_text())
    shown.pop("_ARRAY_DIMENSIONS", None)
    return shown


def test_objects_survive_the_way_to_hdf5_and_back(tmp_path, store):
    assert codecfs("convert", store, tmp_path / "a.h5").returncode == 0
    with h5py.File(tmp_path / "a.h5") as file:
        for holder in (file, file["v"]):
            assert texts_of(holder) == OBJECTS
            assert holder.attrs["text"] in (PLAIN["text"], PLAIN["text"].encode())
    compared = codecfs("compare", store, tmp_path / "a.h5")
    assert compared.returncode == 0, compared.stdout + compared.stderr
    assert codecfs("recode", "-F", "*,zlib,5", tmp_path / "a.h5").returncode == 0
    assert codecfs("compact", tmp_path / "a.h5").returncode == 0
    assert codecfs("convert", tmp_path / "a.h5", tmp_path / "again.h5").returncode == 0
    for format in ("zarr", "zarr3"):
        assert codecfs("convert", "--format", format, tmp_path / "again.h5", tmp_path / format).returncode == 0
    group = zarr.open_group(str(tmp_path / "zarr"), mode="r")
    for holder in (group, group["v"]):
        assert {name: holder.attrs[name] for name in {**OBJECTS, **PLAIN}} == {**OBJECTS, **PLAIN}
    three = json.loads((tmp_path / "zarr3/v/zarr.json").read_text())["attributes"]
    assert {name: three[name] for name in {**OBJECTS, **PLAIN}} == {**OBJECTS, **PLAIN}


@pytest.mark.parametrize("is_netcdf", [False, True])
def test_objects_set_in_a_mount(tmp_path, is_netcdf):
    path = tmp_path / ("a.nc" if is_netcdf else "a.h5")
    if is_netcdf:
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("x", 4)
            file.createVariable("v", "i4", ("x",))[:] = np.arange(4)
    else:
        with h5py.File(path, "w") as file:
            file["v"] = np.arange(4, dtype="i4")
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
            at.write_text(json.dumps(whole))  # no change
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
            with pytest.raises(PermissionError):
                at.write_text(json.dumps({**whole, "_codecfs_json_attributes": ["text"]}))
        with h5py.File(path) as file:
            holder = file if name == ".zattrs" else file["v"]
            assert "one" not in holder.attrs and "_codecfs_json_attributes" not in holder.attrs
        with mounted(path, tmp_path / "point") as there:
            assert attributes(there.path / name) == {"two": "plain", "text": "{}"}


def test_a_list_that_names_what_is_no_json(tmp_path, mount):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["text"] = "no JSON {"
        file.attrs["number"] = "3"
        file.attrs["deep"] = "[" * 100000
        file.attrs["three"] = 3
        file.attrs["_codecfs_json_attributes"] = ["text", "number", "deep", "three", "absent"]
    there = mount(tmp_path / "a.h5")
    assert attributes(there.path / ".zattrs") == {"text": "no JSON {", "number": "3", "deep": "[" * 100000, "three": 3}
