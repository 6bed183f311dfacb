"""HDF5 files without names of dimensions: views and copies have generated names, as xarray needs some, and a mark, by which they
do not become dimensions of another file. h5py, netCDF4 and xarray say what is in the copies."""
import json
import shutil
import sys

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr

from running import codecfs, run
from venvs import python_of

MARK = "_codecfs_phony_dimensions"


def make_source(path):
    """As Keras, cooler and PyTables write files: no dimension scales, and attributes that netCDF has no form for."""
    with h5py.File(path, "w") as file:
        file.attrs.update({"CLASS": "GROUP", "NAME": "root", "flag": True, "one": [5], "single": 5, "matrix": np.arange(6).reshape(2, 3)})
        file["layers/dense/vars/0"] = np.arange(12.0).reshape(4, 3)
        file["layers/dense/vars/1"] = np.ones(3, "f4")
        file["chroms/length"] = np.arange(2)
        file["chroms/length"].attrs.update({"CLASS": "ARRAY", "NAME": "n", "flags": [True, False]})
        file["scalar"] = 2.5
    return path


def content(path):
    """What h5py finds: {name: (value, attributes)}."""
    found = {}
    with h5py.File(path) as file:
        def visit(name, item):
            attributes = {key: (str(np.asarray(value).dtype), np.shape(value), np.asarray(value).tolist()) for key, value in item.attrs.items()}
            found[name] = item[...].tolist() if isinstance(item, h5py.Dataset) else None, attributes
        visit("", file)
        file.visititems(visit)
    return found


@pytest.mark.parametrize("steps", [["zarr"], ["zarr3"], ["zip"], ["zarr", "zarr3"], ["zarr3", "zarr"]], ids="-".join)
def test_a_copy_of_a_copy_is_the_same_file(tmp_path, steps):
    at = source = make_source(tmp_path / "a.h5")
    for step in steps:
        copy = tmp_path / f"{step}.{'zip' if step == 'zip' else 'zarr'}"
        codecfs("convert", "--format", step, at, copy)
        codecfs("compare", source, copy)
        at = copy
    codecfs("convert", at, tmp_path / "b.h5")
    assert content(tmp_path / "b.h5") == content(source)
    codecfs("compare", source, tmp_path / "b.h5")


def test_a_copy_of_the_copy_for_netcdf(tmp_path):
    """It has the dimensions, as netCDF needs them; the file that is made of it does not."""
    source = make_source(tmp_path / "a.h5")
    codecfs("convert", "--format", "nczarr", source, tmp_path / "a.zarr")
    program = "import netCDF4, sys; print(netCDF4.Dataset(f'file://{sys.argv[1]}#mode=nczarr,file')['layers/dense/vars/0'].dimensions)"
    for python in sys.executable, python_of("netcdf"):
        read = run(python, "-c", program, tmp_path / "a.zarr").stdout
        assert read.count("phony_dim_") == 2, read
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5")
    there = content(tmp_path / "b.h5")
    assert there.keys() == content(source).keys()
    assert all(there[name][0] == value for name, (value, _) in content(source).items())
    assert MARK not in str(there)


@pytest.mark.parametrize("form", ["zarr", "zarr3"])
def test_real_dimensions_of_such_names_stay(tmp_path, form):
    """nccopy makes them."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["layers/dense/vars/0"] = np.arange(12.0).reshape(4, 3)
    run("nccopy", tmp_path / "a.h5", tmp_path / "a.nc")
    codecfs("convert", "--format", form, tmp_path / "a.nc", tmp_path / "a.zarr")
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.nc")
    name = "layers/dense/vars/0"
    with netCDF4.Dataset(tmp_path / "a.nc") as file, netCDF4.Dataset(tmp_path / "b.nc") as copy:
        assert copy[name].dimensions == file[name].dimensions and file[name].dimensions[0].startswith("phony_dim_")
        assert list(copy["layers/dense/vars"].dimensions) == list(file["layers/dense/vars"].dimensions) != []


@pytest.mark.parametrize("form", ["zarr", "zarr3"])
@pytest.mark.parametrize("named", [0, 1])
def test_names_of_some_dimensions(tmp_path, form, named):
    """Some have a scale in the file; "w" has none, but the dimensions of "v" by their lengths."""
    shape = 4, 3
    with h5py.File(tmp_path / "a.h5", "w", track_order=True) as file:
        file["x"] = np.arange(shape[named])
        file["x"].make_scale("x")
        for name in "v", "w":
            file[name] = np.arange(12).reshape(shape)
        file["v"].dims[named].attach_scale(file["x"])
    codecfs("convert", "--format", form, tmp_path / "a.h5", tmp_path / "a.zarr")
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert sorted(file) == ["v", "w", "x"] and len(file["v"].dims[1 - named]) == 0 and file["v"].dims[named][0] == file["x"]
        assert [len(dimension) for dimension in file["w"].dims] == [0, 0]
    codecfs("compare", tmp_path / "a.h5", tmp_path / "b.h5")
    if named == 0:
        return  # netCDF-C 4.9 opens neither the source nor the copy
    with netCDF4.Dataset(tmp_path / "a.h5") as file, netCDF4.Dataset(tmp_path / "b.h5") as copy:
        for name in "v", "w":
            assert copy[name].dimensions == file[name].dimensions


@pytest.mark.parametrize("form", ["zarr", "zarr3", "nczarr"])
def test_a_dataset_without_names_in_a_netcdf_file(tmp_path, form):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 5)
        file.createVariable("x", "f8", ("x",))[:] = np.arange(5)
    with h5py.File(tmp_path / "a.nc", "a") as file:
        file["v"] = np.arange(15).reshape(5, 3)
    codecfs("convert", "--format", form, tmp_path / "a.nc", tmp_path / "a.zarr")
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.nc")
    codecfs("compare", tmp_path / "a.nc", tmp_path / "b.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as file, netCDF4.Dataset(tmp_path / "b.nc") as copy:
        assert copy["v"].dimensions == file["v"].dimensions and copy["v"].shape == (5, 3)
    with h5py.File(tmp_path / "b.nc") as file:
        assert sorted(file) == ["v", "x"]


@pytest.mark.parametrize("view, kept", [(view, {MARK: '["phony_dim_0", "phony_dim_1"]', "units": "K"}) for view in ("", "decoded3")])
def test_a_view_has_the_mark(tmp_path, mount, view, kept):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.arange(12).reshape(4, 3)
        file["v"].attrs["units"] = "K"
    there = mount(tmp_path / "a.h5", *(["view=" + view] if view else []))
    name = there.path / "v" / ("zarr.json" if view else ".zattrs")
    text = json.loads(name.read_text())
    attributes = text["attributes"] if view else {key: value for key, value in text.items() if key != "_ARRAY_DIMENSIONS"}
    assert attributes == kept
    # With a change beside it; it follows from the names, so it is not stored, and what it says otherwise does not count.
    for mark in kept[MARK], "other", None:
        attributes.update({"units": "m", MARK: mark})
        if mark is None:
            del attributes[MARK]
        name.write_text(json.dumps({**text, "attributes": attributes} if view else {**attributes, "_ARRAY_DIMENSIONS": text["_ARRAY_DIMENSIONS"]}))
        again = json.loads(name.read_text())
        assert (again["attributes"] if view else again)[MARK] == kept[MARK]
    there.close()
    with h5py.File(tmp_path / "a.h5") as file:
        assert dict(file["v"].attrs) == {"units": "m"} and list(file) == ["v"]


@pytest.mark.parametrize("order", [[".zattrs", ".zarray"], [".zarray", ".zattrs"]], ids="-".join)
def test_files_that_are_copied_one_by_one(tmp_path, mount, order):
    codecfs("convert", make_source(tmp_path / "a.h5"), tmp_path / "a.zarr")
    there = mount(tmp_path / "b.h5", "create=hdf5,view=encoded")
    shutil.copy(tmp_path / "a.zarr/.zgroup", there.path)
    for name in "layers/dense/vars/0", "chroms/length", "layers/dense/vars/1":
        (there.path / name).mkdir(parents=True)
        for file in [*order, "0.0" if name.endswith("0") else "0"]:
            shutil.copyfile(tmp_path / "a.zarr" / name / file, there.path / name / file)
    there.close()
    want, found = content(tmp_path / "a.h5"), content(tmp_path / "b.h5")
    assert {name for name in found if found[name][0] is not None} == {"layers/dense/vars/0", "chroms/length", "layers/dense/vars/1"}
    assert all(value is None or value == want[name][0] for name, (value, _) in found.items())
    assert found["chroms/length"][1].keys() == {"CLASS", "NAME", "flags"}


def test_attributes_of_scales_are_not_replaced(tmp_path, mount):
    """HDF5 needs CLASS and NAME in a dimension scale: a variable that has its own does not become one."""
    there = mount(tmp_path / "a.h5", "create=hdf5,view=decoded")
    (there.path / "x").mkdir()
    (there.path / "x/.zarray").write_text(json.dumps({"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "<i4", "compressor": None,
                                                      "filters": None, "fill_value": None, "order": "C"}))
    (there.path / "x/.zattrs").write_text(json.dumps({"NAME": "mine"}))
    for names, code in ({"NAME": "mine", "_ARRAY_DIMENSIONS": ["x"]}, 22), ({"CLASS": "DIMENSION_SCALE"}, 1), ({"_ARRAY_DIMENSIONS": ["x"]}, 22):
        with pytest.raises(OSError) as caught:
            (there.path / "x/.zattrs").write_text(json.dumps(names))
        assert caught.value.errno == code, names
    assert "NAME" in there.messages()
    (there.path / "x/.zattrs").write_text("{}")
    (there.path / "x/.zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": ["x"]}))
    with pytest.raises(OSError):
        (there.path / "x/.zattrs").write_text(json.dumps({"NAME": "mine", "_ARRAY_DIMENSIONS": ["x"]}))
    there.close()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"].attrs["CLASS"] == b"DIMENSION_SCALE" and file["x"].attrs["NAME"] == b"x"


@pytest.mark.parametrize("view", ["", "decoded3"])
def test_a_name_that_is_given_becomes_a_dimension(tmp_path, mount, view):
    """And the others of the variable, as netCDF-C needs a scale for each dimension or for none."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.arange(12).reshape(4, 3)
    there = mount(tmp_path / "a.h5", *(["view=" + view] if view else []))
    name, key = there.path / "v" / ("zarr.json" if view else ".zattrs"), "dimension_names" if view else "_ARRAY_DIMENSIONS"
    text = json.loads(name.read_text())
    text[key][1] = "x"
    name.write_text(json.dumps(text))
    assert json.loads(name.read_text())[key] == ["phony_dim_0", "x"] and MARK not in name.read_text()
    there.close()
    with netCDF4.Dataset(tmp_path / "a.h5") as file:
        assert file["v"].dimensions == ("phony_dim_0", "x")


@pytest.mark.parametrize("python", ["debian", "mount-tests"])
def test_xarray_copies_it(tmp_path, mount, python):
    """Its copy has the mark, so that a file made of it has no dimensions either. Where it has changed a name, added a dimension or
    given one a coordinate, all are dimensions: netCDF4 finds the same as in the store."""
    there = mount(make_source(tmp_path / "a.h5"), "ro")
    program = """
import sys, xarray
data = xarray.open_zarr(sys.argv[1], group="layers/dense/vars", consolidated=False).load()
data.to_zarr(sys.argv[2] + "/all.zarr")
v = data[["0"]]
first, second = v["0"].dims
for name, changed in {"renamed0": v.rename({first: "x"}), "renamed1": v.rename({second: "x"}), "more": xarray.concat([v, v], "t"),
                      "turned": v.transpose(), "coordinate": v.assign_coords({first: [1, 2, 3, 4]}), "less": v.isel({first: 0})}.items():
    changed.to_zarr(f"{sys.argv[2]}/{name}.zarr")
"""
    python = sys.executable if python == "debian" else python_of(python)
    run(python, "-c", program, there.path, tmp_path)
    codecfs("convert", tmp_path / "all.zarr", tmp_path / "all.h5")
    with h5py.File(tmp_path / "all.h5") as file:
        assert sorted(file) == ["0", "1"] and file["0"][...].tolist() == np.arange(12.0).reshape(4, 3).tolist()
    for name in "renamed0", "renamed1", "more", "turned", "coordinate", "less":
        store = next(iter(tmp_path.glob(f"{name}.zarr/0/.zattrs")), None)
        names = json.loads(store.read_text())["_ARRAY_DIMENSIONS"] if store else json.loads((tmp_path / f"{name}.zarr/0/zarr.json").read_text())["dimension_names"]
        codecfs("convert", tmp_path / f"{name}.zarr", tmp_path / f"{name}.nc")
        with netCDF4.Dataset(tmp_path / f"{name}.nc") as file:
            assert list(file["0"].dimensions) == names, name
            assert [len(file.dimensions[one]) for one in names] == list(file["0"].shape), name


def test_xarray_writes_netcdf_of_it(tmp_path, mount):
    there = mount(make_source(tmp_path / "a.h5"), "ro")
    with xarray.open_zarr(there.path, group="layers/dense/vars", consolidated=False) as data:
        data.load().to_netcdf(tmp_path / "x.nc", engine="netcdf4")
    text = json.loads((mount(tmp_path / "x.nc", "ro").path / "0/.zattrs").read_text())
    assert len(text["_ARRAY_DIMENSIONS"]) == 2 and MARK not in text, "they are real there"


def is_netcdf(path):
    with h5py.File(path) as file:
        return "_NCProperties" in file.attrs


def test_which_files_are_netcdf(tmp_path):
    """Those of which a variable has names, those of a store of netCDF, and those whose name says so."""
    source = make_source(tmp_path / "a.h5")
    with netCDF4.Dataset(tmp_path / "scalar.nc", "w") as file:
        file.createVariable("v", "i4", ())[...] = 1
    with netCDF4.Dataset(tmp_path / "dimensions.nc", "w") as file:
        file.createDimension("x", 3)
    for name, form, ending, expected in (("a.h5", "zarr", ".h5", False), ("a.h5", "nczarr", ".h5", True), ("scalar.nc", "nczarr", ".h5", True),
                                         ("dimensions.nc", "nczarr", ".h5", True), ("scalar.nc", "zarr", ".h5", False),
                                         ("scalar.nc", "zarr3", ".nc", True), ("scalar.nc", "zarr", ".nc4", True)):
        store, made = tmp_path / f"{name}.{form}.zarr", tmp_path / f"{name}.{form}{ending}"
        codecfs("convert", "--format", form, tmp_path / name, store)
        codecfs("convert", store, made)
        assert is_netcdf(made) == expected, made
        shutil.rmtree(store)
    assert not is_netcdf(source)


@pytest.mark.parametrize("names", [{}, {"_ARRAY_DIMENSIONS": ["x"]}])
def test_empty_lists_stay_lists(tmp_path, names):
    store = zarr.open_group(str(tmp_path / "a.zarr"), "w")
    store.attrs["e"] = []
    store.create_dataset("v", data=np.arange(3)).attrs.update({"e": [], **names})
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5")
    codecfs("compare", tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file.attrs["e"].shape == file["v"].attrs["e"].shape == (0,)
    if names:
        with netCDF4.Dataset(tmp_path / "b.h5") as file:
            assert len(file["v"].e) == 0


def test_a_class_of_scales_on_what_is_none(tmp_path):
    """It would make a scale of the copy."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.arange(3)
        file["v"].attrs["CLASS"] = np.bytes_("DIMENSION_SCALE")
        file.create_group("g").attrs["CLASS"] = np.bytes_("DIMENSION_SCALE")
        file["g/w"] = 1
    codecfs("convert", tmp_path / "a.h5", tmp_path / "a.zarr")
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert "CLASS" not in file["v"].attrs and file["g"].attrs["CLASS"] == np.bytes_("DIMENSION_SCALE")


@pytest.mark.parametrize("form", ["zarr", "zarr3"])
def test_a_file_with_names_is_netcdf(tmp_path, form):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        file.createVariable("v", "i4", ("x",))[:] = 1
        file["v"].setncattr("flag", np.int8(1))
    codecfs("convert", "--format", form, tmp_path / "a.nc", tmp_path / "a.zarr")
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.nc")
    with h5py.File(tmp_path / "b.nc") as file:
        assert "_NCProperties" in file.attrs
    dump = run("ncdump", "-h", tmp_path / "b.nc").stdout
    assert "int v(x) ;" in dump
