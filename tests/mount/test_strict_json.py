"""Float variables whose _FillValue is NaN, as xarray writes them to netCDF by default: what codecfs shows and writes is JSON, which
has no NaN, and xarray and netCDF find the same fill value in it."""
import json
import math
import subprocess
import sys

import h5py
import netCDF4
import numpy as np
import pytest
import xarray

from conftest import CODECFS
from venvs import python_of

NUMBERS = {"nan": math.nan, "inf": math.inf, "less": -math.inf, "plain": -999.0}


def codecfs(*words):
    done = subprocess.run([CODECFS, *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


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
        for name, text in json.loads(codecfs("refs", source))["refs"].items():
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
    found = json.loads(subprocess.run([sys.executable if python == "debian" else python_of(python), "-c", program, copy], check=True, capture_output=True).stdout)
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
    subprocess.run(["setfattr", "-n", "user.long_name", "-v", "n", there.path / "nan"], check=True)
    there.close()
    with h5py.File(source) as file:
        attributes = file["nan"].attrs
        assert math.isnan(attributes["_FillValue"][0]) and attributes["units"] in ("K", b"K") and "long_name" in attributes
