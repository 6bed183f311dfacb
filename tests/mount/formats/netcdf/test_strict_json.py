"""Float variables whose _FillValue is NaN, as xarray writes them to netCDF by default: what codecfs shows and writes is JSON, which
has no NaN, and xarray and netCDF find the same fill value in it."""
import json
import math
import sys

import h5py
import netCDF4
import numpy as np
import pytest
import xarray

from running import codecfs, run
from venvs import python_of

NUMBERS = {"nan": math.nan, "inf": math.inf, "less": -math.inf, "plain": -999.0}


def strict(text):
    def refuse(name):
        raise ValueError(f"the literal {name}")
    return json.loads(text, parse_constant=refuse)


def make_source(path):
    data = xarray.Dataset({name: ("x", np.array([1.5, fill, 3], kind)) for kind in ("f4", "f8") for name, fill in NUMBERS.items() if kind == "f4" or name == "nan"})
    data["double"] = ("x", np.array([1.5, np.nan, 3]))
    data.to_netcdf(path, engine="netcdf4", encoding={name: {"_FillValue": fill} for name, fill in NUMBERS.items()})
    return path


@pytest.mark.parametrize("suffix", [".nc", ".zarr", ".v3.zarr"])
def test_all_metadata_is_json(tmp_path, mount, suffix):
    source = make_source(tmp_path / "a.nc")
    if suffix != ".nc":
        codecfs("convert", "--format", "zarr3" if "v3" in suffix else "zarr", source, tmp_path / f"a{suffix}")
        source = tmp_path / f"a{suffix}"
        for file in [*source.rglob(".z*"), *source.rglob("zarr.json")]:
            strict(file.read_text())
    there = mount(source, "ro")
    for view in there.path, *(there.path / ".codecfs/view" / name for name in ("encoded", "decoded3", "encoded3")):
        files = [file for file in [*view.glob(".z*"), *view.glob("*/.z*"), *view.glob("zarr.json"), *view.glob("*/zarr.json")] if file.is_file()]
        assert len(files) > 5, view
        for file in files:
            strict(file.read_text())
    if suffix == ".nc":
        for name, text in json.loads(codecfs("refs", source).stdout)["refs"].items():
            if name.rpartition("/")[2].startswith(".z"):
                shown = strict(text) if isinstance(text, str) else text
                assert "_FillValue" not in shown, "VirtualiZarr takes it for a text of Zarr v3"


@pytest.mark.parametrize("python, place", [("debian", "mount"), ("debian", "zarr"), ("mount-tests", "mount"), ("mount-tests", "zarr"),
                                           ("mount-tests", "zarr3")])
def test_xarray_finds_the_fill_value(tmp_path, mount, python, place):
    source = make_source(tmp_path / "a.nc")
    copy = tmp_path / "a.zarr"
    if place == "mount":
        copy = mount(source, "ro").path
    else:
        codecfs("convert", "--format", place, source, copy)
    program = """
import sys, xarray, json
with xarray.open_zarr(sys.argv[1]) as data:
    print(json.dumps({name: [str(float(data[name].encoding["_FillValue"])), [str(value) for value in data[name].values.tolist()]] for name in data}))
"""
    found = json.loads(run(sys.executable if python == "debian" else python_of(python), "-c", program, copy).stdout)
    with xarray.open_dataset(source, engine="netcdf4") as data:
        want = {name: [str(float(data[name].encoding["_FillValue"])), [str(value) for value in data[name].values.tolist()]] for name in data}
    assert found == want and found["nan"] == ["nan", ["1.5", "nan", "3.0"]]


@pytest.mark.parametrize("form", ["zarr", "zarr3", "nczarr", "zip"])
def test_the_fill_value_comes_back(tmp_path, form):
    source = make_source(tmp_path / "a.nc")
    copy = tmp_path / ("a.zip" if form == "zip" else "a.zarr")
    codecfs("convert", "--format", form, source, copy)
    codecfs("compare", source, copy)
    codecfs("convert", copy, tmp_path / "b.nc")
    with netCDF4.Dataset(source) as one, netCDF4.Dataset(tmp_path / "b.nc") as other:
        for name in one.variables:
            ours, theirs = other[name]._FillValue, one[name]._FillValue
            assert ours.tobytes() == theirs.tobytes() and ours.dtype == theirs.dtype, name


def test_a_change_beside_it_keeps_it(tmp_path, mount):
    source = make_source(tmp_path / "a.nc")
    there = mount(source)
    text = json.loads((there.path / "nan/.zattrs").read_text())
    assert "_FillValue" not in text
    (there.path / "nan/.zattrs").write_text(json.dumps({**text, "units": "K"}))
    run("setfattr", "-n", "user.long_name", "-v", "n", there.path / "nan")
    there.close()
    with h5py.File(source) as file:
        attributes = file["nan"].attrs
        assert math.isnan(attributes["_FillValue"][0]) and attributes["units"] in ("K", b"K") and "long_name" in attributes


MARK = "_codecfs_float_attributes"


def same_number(one, other):
    return np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True) if np.asarray(one).dtype.kind == "f" else one == other


def make_attributes(path):
    """NaN and infinities in other attributes than _FillValue, and texts of these names."""
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", data=np.array([1, 2], "f4"), chunks=(1,))
        x.attrs["missing_value"] = np.float32("nan")
        x.attrs["valid_range"] = np.array([-1.5, np.inf], "f4")
        x.attrs["grid"] = np.array([[1, np.nan], [-np.inf, 0]])
        x.attrs["text"] = "NaN"
        x.attrs["number"] = np.float32(0.5)
        file.attrs["limit"] = np.array([np.inf])
    return path


def check_attributes(path, like):
    """h5py finds the same values, and floats where there were floats."""
    with h5py.File(path) as one, h5py.File(like) as other:
        for place in "x", "/":
            assert set(one[place].attrs) == set(other[place].attrs)
            for name, value in other[place].attrs.items():
                assert same_number(one[place].attrs[name], value), name
                assert np.asarray(one[place].attrs[name]).dtype.kind == np.asarray(value).dtype.kind, name


@pytest.mark.parametrize("form", ["zarr", "zarr3", "zip"])
def test_other_attributes_come_back(tmp_path, form):
    source = make_attributes(tmp_path / "a.h5")
    copy = tmp_path / ("a.zip" if form == "zip" else "a.zarr")
    codecfs("convert", "--format", form, source, copy)
    if form != "zip":
        files = [*copy.rglob(".z*"), *copy.rglob("zarr.json")]
        assert len(files) >= 2
        told = [strict(file.read_text()) for file in files]
        found = [one.get("attributes", one) for one in told if "missing_value" in one.get("attributes", one)]
        assert found and found[0]["missing_value"] == "NaN" and found[0]["valid_range"] == [-1.5, "Infinity"]
        assert json.loads(found[0][MARK]) == ["grid", "missing_value", "valid_range"]
    codecfs("compare", source, copy)
    codecfs("convert", copy, tmp_path / "b.h5")
    check_attributes(tmp_path / "b.h5", source)


def test_other_attributes_in_views_and_references(tmp_path, mount):
    source = make_attributes(tmp_path / "a.h5")
    there = mount(source)
    for view in there.path, *(there.path / ".codecfs/view" / name for name in ("encoded", "decoded3", "encoded3")):
        for name in ".zattrs", ".zmetadata", "zarr.json", "x/.zattrs", "x/zarr.json":
            if (view / name).exists():
                strict((view / name).read_text())
    for text in json.loads(codecfs("refs", source).stdout)["refs"].values():
        if isinstance(text, str) and text.startswith("{"):
            strict(text)
    shown = json.loads((there.path / "x/.zattrs").read_text())
    with xarray.open_zarr(there.path, consolidated=False, mask_and_scale=False) as data:
        assert data["x"].attrs["missing_value"] == "NaN"
    # What did not change keeps its type; a text in its place, or the list of the names left out, changes nothing.
    del shown[MARK]
    (there.path / "x/.zattrs").write_text(json.dumps({**shown, "units": "K"}))
    (there.path / "x/.zattrs").write_text(json.dumps({**shown, "units": "K", "valid_range": [-1.5, "-Infinity"]}))
    (there.path / "x/.zattrs").write_text(json.dumps({**shown, "units": "K", "valid_range": [float("nan"), 2], "new": "Infinity",
                                                      MARK: '["new"]', "word": "Infinity"}))
    there.close()
    with h5py.File(source) as file:
        attributes = file["x"].attrs
        assert math.isnan(attributes["missing_value"]) and attributes["missing_value"].dtype == "f4"
        assert attributes["valid_range"].dtype == "f4" and same_number(attributes["valid_range"], np.array([np.nan, 2], "f4"))
        assert attributes["new"] == math.inf and attributes["word"] == "Infinity" and attributes["text"] == "NaN"
        assert MARK not in attributes and same_number(file.attrs["limit"], np.array([np.inf]))


def test_netcdf_finds_numbers_in_nczarr(tmp_path, mount):
    source = tmp_path / "a.nc"
    with netCDF4.Dataset(source, "w") as data:
        data.createDimension("i", 2)
        x = data.createVariable("x", "f4", ("i",))
        x[:] = [1, 2]
        x.missing_value, x.valid_range = np.float32("nan"), np.array([-1.5, np.inf], "f4")
        data.limit = np.inf
    copy = tmp_path / "a.zarr"
    codecfs("convert", "--format", "nczarr", source, copy)
    files = [*copy.rglob(".z*")]
    for file in files:
        assert MARK not in strict(file.read_text())
    there = mount(copy, "ro")
    for path in copy, there.path:
        strict((path / "x/.zattrs").read_text())
        # netCDF-C 4.10 writes such texts itself. Version 4.9.0 does not, and reads a single one as text.
        program = """
import netCDF4, sys
with netCDF4.Dataset(f"file://{sys.argv[1]}#mode=nczarr,file") as data:
    print(data["x"].missing_value, data["x"].missing_value.dtype, data["x"].valid_range.tolist(), data.limit, data.limit.dtype)
"""
        said = run(python_of("netcdf4"), "-c", program, path).stdout
        assert said == "nan float32 [-1.5, inf] inf float64\n"
    codecfs("convert", copy, tmp_path / "b.nc")
    with netCDF4.Dataset(tmp_path / "b.nc") as data:
        assert math.isnan(data["x"].missing_value) and data["x"].missing_value.dtype == "f4" and data.limit == math.inf
