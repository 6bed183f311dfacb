"""codecfs info -v, --json and --plot: attributes, dimensions, first values and drawings, against the libraries."""
import json
import re

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from conftest import DATA
from running import codecfs
from terminals import on_terminal, without_colours


def info(*words):
    return json.loads(codecfs("info", "--json", *words).stdout)


def by_path(items):
    return {item["path"]: item for item in items}


NETCDF = sorted(path.name for path in (DATA / "hdf5").glob("netcdf_*.nc") if "user_types" not in path.name)


def groups_of(dataset, path="/"):
    yield path, dataset
    for name, group in dataset.groups.items():
        yield from groups_of(group, f"{path.rstrip('/')}/{name}")


@pytest.mark.parametrize("name", NETCDF)
def test_json_has_what_netcdf_has(name):
    """Attributes with their types and values, names of dimensions, and dimensions of groups."""
    found = info(DATA / "hdf5" / name)
    groups, variables = by_path(found["groups"]), by_path(found["variables"])
    checked = 0
    with netCDF4.Dataset(DATA / "hdf5" / name) as d:
        for path, group in groups_of(d):
            shown = groups[path]
            assert [(item["name"], item["length"], item["is_unlimited"]) for item in shown["dimensions"]] == \
                [(dimension.name, len(dimension), dimension.isunlimited()) for dimension in group.dimensions.values()]
            checked += compare(shown, group) + len(group.dimensions)
            for key, variable in group.variables.items():
                own = variables[f"{path.rstrip('/')}/{key}"]
                assert own["dimensions"] == list(variable.dimensions)
                checked += compare(own, variable)
    assert checked


def compare(shown, holder):
    names = [name for name in holder.ncattrs() if not name.startswith("_NC")]
    assert set(shown["attributes"]) == set(names)
    for name in names:
        value, attribute = holder.getncattr(name), shown["attributes"][name]
        if isinstance(value, str) or (isinstance(value, list) and value and isinstance(value[0], str)):
            assert attribute["type"] in ("char", "string") and attribute["value"] == value, name
            continue
        value = np.asarray(value)
        assert attribute["type"] == value.dtype.name, name
        numbers = np.asarray(attribute["value"], value.dtype)
        np.testing.assert_array_equal(numbers, value)
    return len(names)


def test_json_of_hdf5_and_zarr(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.arange(3.0)
        f["x"].make_scale("x")
        f["v"] = np.ones((2, 3))
        f["v"].dims[1].attach_scale(f["x"])
        f["v"].attrs["nan"] = np.array([1.0, np.nan], "f4")
        f["v"].attrs["reference"] = f.ref
        f.attrs["note"] = "text"
        f["g/w"] = 1
    found = info(tmp_path / "a.h5")
    variables, groups = by_path(found["variables"]), by_path(found["groups"])
    assert variables["/v"]["dimensions"] == [None, "x"]
    attributes = variables["/v"]["attributes"]
    assert list(attributes) == ["nan"] and attributes["nan"]["type"] == "float32"
    assert attributes["nan"]["value"][0] == 1 and np.isnan(attributes["nan"]["value"][1])
    assert "reference" in variables["/v"]["attributes_left_out"]["reference"]
    assert groups["/"]["attributes"] == {"note": {"type": "string", "value": "text"}} and groups["/g"]["attributes"] == {}
    assert groups["/"]["dimensions"][0] == {"name": "x", "length": 3, "is_unlimited": False} and groups["/g"]["dimensions"] == []
    root = zarr.open_group(str(tmp_path / "s"), "w")
    root.attrs["list"] = [1, {"a": None}]
    root.create_dataset("v", data=np.arange(4)).attrs.update({"units": "K", "_ARRAY_DIMENSIONS": ["t"]})
    found = info(tmp_path / "s")
    assert by_path(found["groups"])["/"]["attributes"] == {"list": {"value": [1, {"a": None}]}}
    assert found["variables"][0]["attributes"] == {"units": {"value": "K"}} and found["variables"][0]["dimensions"] == ["t"]


def test_members_of_before_are_still_there():
    [variable] = [v for v in info(DATA / "hdf5/netcdf_simple.nc")["variables"] if v["path"] == "/temperature"]
    for name in ("path", "type", "dtype", "shape", "chunks", "filter", "codecs", "stored_chunks", "all_chunks", "stored_bytes",
                 "masked_chunks", "decoded_bytes"):
        assert name in variable
    assert variable["shape"] == [5, 6, 9] and "first_values" not in variable


def test_json_of_very_many_variables_has_attributes_only_if_asked(tmp_path):
    """Reading them takes longer than all the rest."""
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as f:
        space = h5py.h5s.create_simple((2,))
        for i in range(10_001):
            h5py.h5d.create(f.id, b"v%05d" % i, h5py.h5t.STD_I32LE, space)
    assert not any("attributes" in variable for variable in info(tmp_path / "a.h5")["variables"])
    found = info("-v", tmp_path / "a.h5")["variables"]
    assert len(found) == 10_001 and all(variable["attributes"] == {} and variable["first_values"] == [0, 0] for variable in found)


# ---- first values

def test_first_values_are_the_first(tmp_path):
    rng = np.random.default_rng(1)
    arrays = {"line": np.arange(50), "small_chunks": rng.normal(0, 1, (4, 7)), "big": rng.integers(0, 99, (3, 4)).astype(">i2"),
              "scalar": np.float32(2.5), "text": np.array([b"one", b"two"]), "bool": np.array([True, False]),
              "complex": np.array([1 + 2j]), "cube": np.arange(24.0).reshape(2, 3, 4)}
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name, values in arrays.items():
            f.create_dataset(name, data=values, chunks=(2, 3) if name == "small_chunks" else None)
        f.create_dataset("vlen", data=["grün", "b"])
        sparse = f.create_dataset("sparse", (30,), "i4", chunks=(3,), fillvalue=-1)
        sparse[3:5] = 7
    found = by_path(info("-v", tmp_path / "a.h5")["variables"])
    for name, values in arrays.items():
        expected = np.asarray(values).ravel()[:10]
        if expected.dtype.kind == "S":
            expected = expected.astype("U")
        elif expected.dtype.kind == "c":
            expected = np.array([[value.real, value.imag] for value in expected])
        assert found["/" + name]["first_values"] == expected.tolist(), name
    assert found["/vlen"]["first_values"] == ["grün", "b"]
    assert found["/sparse"]["first_values"] == [-1, -1, -1, 7, 7, -1, -1, -1, -1, -1]
    text = codecfs("info", "-v", tmp_path / "a.h5").stdout
    assert "  values       0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …" in text and '  values       "one", "two"\n' in text
    assert "  values       2.5\n" in text


def test_a_listing_has_everything():
    path = DATA / "hdf5/netcdf_groups.nc"
    text = codecfs("info", "-v", path).stdout
    with netCDF4.Dataset(path) as d:
        for group_path, group in groups_of(d):
            assert re.search(rf"^{re.escape(group_path)}$", text, re.M), group_path
            for dimension in group.dimensions.values():
                unlimited = " (unlimited)" if dimension.isunlimited() else ""
                assert f"    {dimension.name} = {len(dimension)}{unlimited}\n" in text
            for name in group.ncattrs():
                assert f"    {name} = " in text
            for name, variable in group.variables.items():
                part = text.split(f"\n{group_path.rstrip('/')}/{name}\n")[1].split("\n\n")[0]
                assert f"dimensions   {', '.join(variable.dimensions)}" in part
                assert "  values       " in part
                for attribute in variable.ncattrs():
                    assert f"    {attribute} = " in part
    assert codecfs("info", "-v", path, next(iter(netCDF4.Dataset(path).groups))).stdout.rstrip("\n") in text


def test_values_that_cannot_be_read_say_why():
    text = codecfs("info", "-v", DATA / "hdf5/filter_unknown.h5").stdout
    assert re.search(r"^  values       .*32999", text, re.M)
    found = [v for v in info("-v", DATA / "hdf5/filter_unknown.h5")["variables"] if "first_values_error" in v]
    assert found and all("32999" in variable["first_values_error"] for variable in found)


# ---- --plot

def test_a_plot_in_plain_characters(tmp_path):
    ramp = np.arange(1.0, 25 * 40 + 1).reshape(25, 40)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["map"] = ramp
        f["line"] = np.linspace(-1, 1, 200)
        f["text"] = ["a"]
        f["g/w"] = 1
        flags = f.create_dataset("flags", data=np.kron([[0, 1], [1, 5]], np.ones((9, 9), int)))
        flags.attrs["flag_values"], flags.attrs["flag_meanings"] = [0, 1], "sea land"
    text = codecfs("info", tmp_path / "a.h5", "map", "--plot").stdout
    lines = text.splitlines()
    assert lines[0] == "/map [0:25, 0:40]" and lines[-1] == "least 1, mean 500.5, greatest 1000, fill none"
    assert "1.5" in lines[-2] or "1 .:-=+*#%@ 1000" in lines[-2]
    shades = ".:-=+*#%@"
    heights = [shades.index(line[0]) for line in lines[1:-2]]
    assert heights == sorted(heights) and heights[0] == 0 and heights[-1] == len(shades) - 1
    lines = codecfs("info", tmp_path / "a.h5", "line", "--plot").stdout.splitlines()
    assert len(lines) == 14 and lines[1].strip().startswith("1 |") and lines[12].strip().startswith("-1 | *")
    columns = [lines[1 + row].find("*") for row in range(12)]
    assert columns == sorted(columns, reverse=True) and min(columns) >= 14
    text = codecfs("info", tmp_path / "a.h5", "flags", "--plot").stdout
    assert "a sea  b land\n" in text and "aabb" in text and "bb??" in text, text
    assert "no picture" in codecfs("info", tmp_path / "a.h5", "text", "--plot").stdout
    assert "is a group" in codecfs("info", tmp_path / "a.h5", "g", "--plot", code=32).stderr
    assert "is a group" in codecfs("info", tmp_path / "a.h5", "--plot", code=32).stderr


def test_a_plot_on_a_terminal(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["map"] = np.arange(1.0, 40 * 60 + 1).reshape(40, 60)
        f["line"] = np.sin(np.arange(500) / 40)
        f["image"] = np.tile(np.array([255, 0, 0], "u1"), (16, 16, 1))
    text = on_terminal(tmp_path / "a.h5", "map", "--plot", columns=80)
    assert "\x1b[38;5;" in text and "▀" in text
    colours = set(re.findall(r"[34]8;5;(\d+)", text))
    assert len(colours) > 8 and all(16 <= int(colour) <= 255 for colour in colours)
    assert all(len(line) <= 80 for line in without_colours(text).splitlines())
    assert re.search("█|▀|▄", on_terminal(tmp_path / "a.h5", "line", "--plot"))
    assert set(re.findall(r"[34]8;5;(\d+)", on_terminal(tmp_path / "a.h5", "image", "--plot"))) == {"196"}
    plain = on_terminal(tmp_path / "a.h5", "map", "--plot", NO_COLOR="1")
    assert "\x1b" not in plain and "▀" not in plain


@pytest.mark.parametrize("name", ["hdf5/netcdf_simple.nc", "hdf5/types_numbers.h5", "zarr/xarray_dataset", "hdf5/types_text.h5",
                                  "hdf5/filter_unknown.h5", "hdf5/sparse_chunks.h5"])
def test_every_variable_has_a_plot_or_a_reason(name):
    for variable in info(DATA / name)["variables"]:
        text = codecfs("info", DATA / name, variable["path"], "--plot").stdout
        assert text.startswith(variable["path"]) and text.count("\n") >= 2, text
