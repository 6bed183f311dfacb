"""JSON has no NaN and no infinities: what is written for attributes that are such numbers must be JSON for every parser, and come back as the
number. Python's parser without its extensions, Node's, h5py, xarray and netCDF-C judge."""
import json
import os
import pathlib
import shutil
import subprocess

import h5py
import numpy as np
import pytest
import xarray
import zarr
from conftest import CODECFS
from venvs import python_of

NODE = shutil.which("node")
VIEWS = ("decoded", "encoded", "decoded3", "encoded3")
NAN, INF = float("nan"), float("inf")
ARRAY = {"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "<f4", "fill_value": 0.0, "order": "C", "compressor": None, "filters": None}
ARRAY3 = {"zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "float32", "fill_value": "NaN", "dimension_names": ["x"],
          "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
          "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
          "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}


def run(*words):
    done = subprocess.run([CODECFS, *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def refuse(name):
    raise ValueError(f"the literal {name}")


def strict(text):
    return json.loads(text, parse_constant=refuse)


def check_tree(top):
    """All metadata files of a tree are JSON. Returns how many there are."""
    files = [pathlib.Path(at, name) for at, _, names in os.walk(top) for name in names if name.startswith(".z") or name == "zarr.json"]
    for file in files:
        try:
            strict(file.read_text())
        except ValueError as error:
            raise AssertionError(f"{file}: {error}") from error
    if NODE:
        script = "for (const file of process.argv.slice(1)) JSON.parse(require('fs').readFileSync(file, 'utf8'))"
        done = subprocess.run([NODE, "-e", script, *files], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    return len(files)


@pytest.fixture
def made(tmp_path):
    """Variables whose fill value is NaN, is another one, and marks nothing."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.attrs["limit"] = INF
        f.create_group("g").attrs["range"] = np.array([-INF, 0.5, NAN], "f4")
        for name, fill, mark in [("v", np.nan, np.nan), ("w", 0, np.nan), ("x", np.nan, None), ("y", np.inf, np.inf)]:
            v = f["g"].create_dataset(name, (4,), "<f4", chunks=(2,), fillvalue=fill)
            v[:2] = [1, np.nan]
            if mark is not None:
                v.attrs["_FillValue"] = np.float32(mark)
            v.attrs["missing_value"], v.attrs["valid_range"] = np.float32(NAN), np.array([0, INF], "f4")
            v.attrs["text"], v.attrs["texts"], v.attrs["name"] = "NaN", ["Infinity", "a"], "Gr\u00f6\u00dfe"
    return tmp_path / "a.h5"


def check_numbers(attributes):
    assert np.isnan(attributes["missing_value"]) and list(np.ravel(attributes["valid_range"])) == [0, INF]
    assert attributes["text"] in ("NaN", b"NaN") and [getattr(t, "decode", lambda: t)() for t in attributes["texts"]] == ["Infinity", "a"]


def check_hdf5(path):
    """The file has the numbers of `made` as numbers."""
    with h5py.File(path) as f:
        assert f.attrs["limit"] == INF and np.array_equal(f["g"].attrs["range"], [-INF, 0.5, NAN], equal_nan=True)
        for name in "vwxy":
            check_numbers(f["g"][name].attrs)
        mark = {name: f["g"][name].attrs.get("_FillValue") for name in "vwxy"}
        assert mark["x"] is None and np.isnan(mark["v"]) and np.isnan(mark["w"]) and mark["y"] == INF, mark
        assert all(value is None or value.dtype == "f4" for value in mark.values())
        assert np.isnan(f["g/v"].fillvalue) and f["g/w"].fillvalue == 0 and f["g/y"].fillvalue == INF


def test_views_and_references_are_json(mount, made):
    m = mount(made, "ro")
    for view in VIEWS:
        assert check_tree(m.path / ".codecfs/view" / view) >= 6, view
        at = m.path / ".codecfs/view" / view / "g"
        told = strict((at / ("v/zarr.json" if view.endswith("3") else "v/.zattrs")).read_text())
        told = told.get("attributes", told)
        assert told["missing_value"] == "NaN" and told["valid_range"] == [0.0, "Infinity"] and told["text"] == "NaN"
        if view.endswith("3"):
            assert sorted(told["_FloatAttributes"]) == ["missing_value", "valid_range"] and told["_FillValue"] == "AAAAAAAA+H8="
        else:
            assert told["_nczarr_attr"] == {"types": {"missing_value": "<f4", "valid_range": "<f4"}} and "_FillValue" not in told
            assert strict((at / "w/.zattrs").read_text())["_FillValue"] == "NaN"
    assert os.getxattr(m.path / "g/w", "user._FillValue") == b"NaN" and os.getxattr(m.path / "g/v", "user.missing_value") == b"NaN"
    for key, value in strict(run("refs", made))["refs"].items():
        if key.split("/")[-1].startswith(".z"):
            strict(value)


def test_references_leave_out_a_fill_value_that_zarray_has(tmp_path):
    """As those of kerchunk do; VirtualiZarr cannot open the others."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", (4,), "<f4", chunks=(2,), fillvalue=-999)[:2] = 1
        f.create_dataset("w", (4,), "<i2", chunks=(2,), fillvalue=3)[:2] = 1
        f["v"].attrs["_FillValue"], f["w"].attrs["_FillValue"] = np.float32(-999), np.int16(5)
    refs = strict(run("refs", tmp_path / "a.h5"))["refs"]
    assert "_FillValue" not in strict(refs["v/.zattrs"]) and strict(refs["v/.zarray"])["fill_value"] == -999
    assert strict(refs["w/.zattrs"])["_FillValue"] == 5 and strict(refs["w/.zarray"])["fill_value"] == 3


@pytest.mark.parametrize("form", ["zarr", "zarr3"])
def test_numbers_come_back_from_copies(made, tmp_path, form):
    run("convert", "--format", form, made, tmp_path / "b")
    assert check_tree(tmp_path / "b") >= 6
    run("compare", made, tmp_path / "b")
    run("convert", tmp_path / "b", tmp_path / "c.h5")
    check_hdf5(tmp_path / "c.h5")
    run("convert", "--format", form, tmp_path / "c.h5", tmp_path / "d")  # as the first time
    run("compare", made, tmp_path / "d")


def test_numbers_come_back_from_a_copy_of_netcdf(made, tmp_path):
    run("convert", "--format", "nczarr", made, tmp_path / "b")
    assert check_tree(tmp_path / "b") >= 6
    for name in "vwxy":
        told = strict((tmp_path / "b/g" / name / ".zattrs").read_text())
        assert told["missing_value"] == "NaN" and told["_nczarr_attr"]["types"]["valid_range"] == "<f4"
    run("convert", tmp_path / "b", tmp_path / "c.h5")
    with h5py.File(tmp_path / "c.h5") as f:
        assert all(f["g"][name].attrs["missing_value"].dtype == "f4" for name in "vwxy") and np.isnan(f["g/w"].attrs["_FillValue"])
        check_numbers(f["g/v"].attrs)


@pytest.mark.parametrize("form", ["zarr", "nczarr", "zarr3"])
def test_numbers_in_lists_of_lists_come_back(mount, tmp_path, form):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.attrs["square"] = f.create_dataset("v", (4,), "<i4", chunks=(2,)).attrs["square"] = np.array([[NAN, 1], [2, INF]])
    run("convert", "--format", form, tmp_path / "a.h5", tmp_path / "b")
    assert check_tree(tmp_path / "b") >= 2
    m = mount(tmp_path / "b", "ro")
    for path in (m.path, m.path / "v"):
        assert os.getxattr(path, "user.square") == b"[[NaN, 1.0], [2.0, Infinity]]"


def v2_store(path):
    (path / "v").mkdir(parents=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    (path / ".zattrs").write_text('{"limit": -Infinity}')
    (path / "v/.zarray").write_text(json.dumps({**ARRAY, "fill_value": "NaN"}))
    (path / "v/.zattrs").write_text(json.dumps({"_FillValue": NAN, "m": NAN, "r": [0, INF], "t": "NaN", "n": 5, "u": "\u00e9", "_ARRAY_DIMENSIONS": ["x"]}))
    np.array([1, 2, 3], "<f4").tofile(path / "v/0")
    zarr.consolidate_metadata(str(path))
    assert "NaN" in (path / ".zmetadata").read_text()
    return path


def v3_store(path):
    (path / "v/c").mkdir(parents=True)
    attributes = {"_FillValue": "AAAAAAAA+H8=", "m": NAN, "r": [0, INF], "t": "NaN", "n": 5, "u": "\u00e9"}
    array = {**ARRAY3, "attributes": attributes}
    (path / "zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "group", "attributes": {"limit": -INF},
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": {"v": array}}}))
    (path / "v/zarr.json").write_text(json.dumps(array))
    np.array([1, 2, 3], "<f4").tofile(path / "v/c/0")
    return path


@pytest.mark.parametrize("make", [v2_store, v3_store])
def test_stores_with_literals_are_read_and_what_is_written_to_them_is_json(mount, tmp_path, make):
    store = make(tmp_path / "a")
    shutil.copytree(store, tmp_path / "before")
    m = mount(store)
    for view in VIEWS:
        assert check_tree(m.path / ".codecfs/view" / view) >= 2
    assert os.getxattr(m.path / "v", "user.m") == b"NaN" and os.getxattr(m.path, "user.limit") == b"-Infinity"
    os.setxattr(m.path / "v", "user.n", b"6")
    os.setxattr(m.path / "v", "user.p", b"[1, -Infinity]")
    os.setxattr(m.path, "user.title", b"T")
    m.close()
    assert check_tree(store) >= 2
    run("convert", store, tmp_path / "b.h5")
    run("convert", tmp_path / "before", tmp_path / "before.h5")
    for path in ("b.h5", "before.h5"):
        with h5py.File(tmp_path / path) as f:
            told = f["v"].attrs
            assert np.isnan(told["m"]) and list(told["r"]) == [0, INF] and told["t"] in ("NaN", b"NaN") and np.isnan(told["_FillValue"])
            assert f.attrs["limit"] == -INF and told["n"] == (6 if path == "b.h5" else 5)
            assert path == "before.h5" or list(told["p"]) == [1, -INF]
    if make is v2_store:
        shown = zarr.open_group(str(store), "r")["v"]  # its metadata must be ASCII
        assert shown.attrs["u"] == "\u00e9" and np.isnan(shown.fill_value)
        with xarray.open_zarr(str(store)) as data:
            assert data.v.attrs["n"] == 6 and np.isnan(data.v.encoding["_FillValue"])


def plain_store(path):
    """A store of Zarr v2 without such numbers."""
    (path / "v").mkdir(parents=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    (path / "v/.zarray").write_text(json.dumps(ARRAY))
    (path / "v/.zattrs").write_text('{"_ARRAY_DIMENSIONS": ["x"]}')
    return path


def test_a_number_that_json_has_takes_the_place_of_one_that_it_lacks(mount, tmp_path):
    store = plain_store(tmp_path / "a")
    m = mount(store)
    for value in (b"NaN", b"5", b"[1, Infinity]", b"[1, 2]"):
        os.setxattr(m.path / "v", "user.a", value)
        assert os.getxattr(m.path / "v", "user.a").replace(b"1.0", b"1") == value
    os.setxattr(m.path / "v", "user.b", b"NaN")
    os.setxattr(m.path / "v", "user.b", b'"NaN"')
    m.close()
    told = strict((store / "v/.zattrs").read_text())
    assert told["a"] == [1, 2] and told["b"] == "NaN" and told.get("_nczarr_attr", {"types": {}}) == {"types": {}}


def test_what_programs_write_as_literals_becomes_a_number(mount, made, tmp_path):
    stores = [made, v3_store(tmp_path / "s3"), plain_store(tmp_path / "s2")]
    for store, name in zip(stores, ("g/v", "v", "v")):
        m = mount(store)
        file = m.path / ".codecfs/view/decoded" / name / ".zattrs"
        file.write_text(json.dumps({**strict(file.read_text()), "new": NAN, "list": [1.5, -INF]}))
        assert strict(file.read_text())["list"] == [1.5, "-Infinity"]
        m.close()
        m = mount(store, "ro")
        assert os.getxattr(m.path / name, "user.new") == b"NaN" and os.getxattr(m.path / name, "user.list") == b"[1.5, -Infinity]"
        m.close()
    with h5py.File(made) as f:
        assert np.isnan(f["g/v"].attrs["new"]) and f["g/v"].attrs["new"].dtype == "f8" and list(f["g/v"].attrs["list"]) == [1.5, -INF]


@pytest.mark.parametrize("noted", [True, False])
def test_a_text_that_does_not_change_is_no_change(mount, made, noted):
    before = made.read_bytes()
    m = mount(made)
    for name in "vwxy":
        for file in (m.path / "g" / name / ".zattrs", m.path / ".codecfs/view/encoded3/g" / name / "zarr.json", m.path / "g/.zattrs"):
            text = file.read_text()
            if not noted:
                told = strict(text)
                for part in (told, told.get("attributes", {})):
                    part.pop("_nczarr_attr", None), part.pop("_FloatAttributes", None)
                text = json.dumps(told)
            file.write_text(text)
            os.sync()
    m.close()
    check_hdf5(made)
    with h5py.File(made) as f:
        assert all(f["g"][name].attrs[key].dtype == "f4" for name in "vwxy" for key in ("missing_value", "valid_range"))
    assert made.stat().st_size == len(before)


def test_clients_read_the_numbers(mount, made, tmp_path):
    m = mount(made, "ro")
    script = """
import json, sys, warnings, xarray, zarr
warnings.simplefilter("ignore")
for path in sys.argv[1:]:
    with xarray.open_zarr(path, group="g") as data:
        for name in "vwxy":
            assert str(data[name].values.tolist()[:2]) == "[1.0, nan]", (path, name)
        assert str(data.v.encoding.get("_FillValue")) == "nan" and "text" in data.v.attrs, data.v.encoding
"""
    paths = [m.path / ".codecfs/view" / view for view in VIEWS]
    done = subprocess.run([python_of("mount-tests"), "-c", script, *paths], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for path in paths[:2]:
        with xarray.open_zarr(str(path), group="g") as data:
            assert all(str(data[name].values.tolist()[:2]) == "[1.0, nan]" for name in "vwxy")
            assert np.isnan(data.v.encoding["_FillValue"])


def test_netcdf_reads_the_numbers(made, tmp_path):
    run("convert", "--format", "zarr", made, tmp_path / "b")
    script = """
import netCDF4, numpy as np, sys
with netCDF4.Dataset(f"file://{sys.argv[1]}#mode=zarr,file") as data:
    for name in "vwxy":
        told = data["g"][name]
        assert told.missing_value.dtype == "f4" and np.isnan(told.missing_value) and told.text == "NaN", name
        assert told.valid_range.tolist() == [0, np.inf]
    assert np.isnan(data["g/w"]._FillValue)
"""
    done = subprocess.run([python_of("netcdf"), "-c", script, tmp_path / "b"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
