"""NCZarr stores of every generation: on the mount they are plain Zarr, with the values that netCDF-C was given. What is changed
through the mount netCDF-C, zarr-python and xarray read in the store itself."""
import json
import os
import re
import shutil
import sys

import netCDF4
import numcodecs
import numpy as np
import pytest
import xarray
import zarr
from compare import read_variable, same_values
from conftest import DATA, TESTS, xattr
from netcdf_wheel import current  # noqa: F401
from running import run

sys.path.insert(0, str(TESTS / "data"))
import make_zarr  # noqa: E402

STORES = sorted(p for p in (DATA / "zarr").iterdir() if p.name.startswith("nczarr"))
BY_HAND = [p.name for p in STORES if re.match(r"nczarr_4\d\d$", p.name)]


@pytest.mark.parametrize("path", STORES, ids=lambda p: p.name)
def test_values_and_dimensions(mount, path):
    m = mount(path)
    shown = zarr.open(str(m.path), "r")
    found = {}
    shown.visititems(lambda name, item: found.update({name: item}) if isinstance(item, zarr.Array) else None)
    wanted = make_zarr.expected(path.name)
    assert set(found) == set(wanted)
    for name, (values, dimensions) in wanted.items():
        if name == "big" and found[name].dtype == ">i4":  # netCDF-C before 4.10 forgets its byte order
            values = values.astype(">i4")
        read_variable(m.path / name, values)
        assert found[name].dtype == values.dtype and same_values(found[name][...], values), name
        if dimensions is not None:
            assert found[name].attrs["_ARRAY_DIMENSIONS"] == dimensions, name


@pytest.mark.parametrize("path", STORES, ids=lambda p: p.name)
def test_the_dialect_is_that_of_today(mount, path):
    """Whatever release wrote it, .zattrs tells what current releases add, and no other file does."""
    m = mount(path)
    for file in [*m.path.rglob(".zgroup"), *m.path.rglob(".zarray")]:
        assert '"_nczarr' not in file.read_text().lower(), file
    names = {p.name for p in m.path.rglob("*")}
    assert not [name for name in names if name.startswith(".ncz")]
    root, array = (json.loads((m.path / name).read_text()) for name in [".zattrs", "i/.zattrs"])
    assert array["units"] == "m" and root["title"] == "NCZarr"
    if path.name == "nczarr_nccopy_as_zarr":  # plain Zarr
        assert not [name for name in [*array, *root] if name.startswith("_nczarr_")]
        return
    assert array["_nczarr_array"]["storage"] == "chunked"
    assert array["_nczarr_array"]["dimension_references"] == ["/" + name for name in array["_ARRAY_DIMENSIONS"]]
    assert root["_nczarr_superblock"] == {"version": "2.0.0"} and "i" in root["_nczarr_group"]["arrays"]
    assert {name for name in root if not name.startswith("_nczarr_")} == {"title"}


@pytest.mark.parametrize("name", BY_HAND)
def test_types_of_attributes(mount, name):
    """netCDF-C writes 1 for 1.0, "NaN" for NaN, and 5 for the text "5"; what it means it notes elsewhere. JSON has no NaN."""
    m = mount(DATA / "zarr" / name)
    assert '"scale": 1.0' in (m.path / "i/.zattrs").read_text()
    attributes = zarr.open_group(str(m.path), "r")["i"].attrs
    assert attributes["bounds"] == [0.0, 1.5] and attributes["version"] == "5" and attributes["nothing"] == "NaN"
    assert xattr(m.path / "i", "version") == "5" and xattr(m.path / "i", "scale") == "1.0"
    m.close()
    assert dict(zarr.open_group(str(DATA / "zarr" / name), "r")["i"].attrs)["scale"] == 1


def test_unlimited_dimensions(mount):
    m = mount(DATA / "zarr/nczarr_493")
    assert json.loads(xattr(m.path / "t", "_MaxShape")) == [None]
    assert json.loads(xattr(m.path / "i", "_MaxShape")) == [4, 6]


def test_fill_of_doubles_is_masked_as_it_is_in_chunks(mount):
    """One element is stored as fill, the last is in no chunk. The store itself tells only six digits of what both are."""
    m = mount(DATA / "zarr/nczarr_493")
    with xarray.open_zarr(m.path, consolidated=False) as data:
        assert np.array_equal(data["filled"], [0.5, np.nan, 2.5, np.nan], equal_nan=True)
    raw = zarr.open_group(str(DATA / "zarr/nczarr_493"), "r")["filled"]
    assert (raw[...] == raw.fill_value).tolist() == [False, False, False, True]


# ---- changes

@pytest.fixture
def plain_home(monkeypatch, tmp_path):
    """A .ncrc of the user would change how netCDF reads Zarr."""
    monkeypatch.setenv("HOME", str(tmp_path))


def ncdump(url, *options):
    return run("ncdump", *options, url).stdout


CDL = """netcdf store {
dimensions: y = 4 ; x = 6 ;
variables:
  int i(y, x) ; i:units = "m" ; double d(x) ; float gone(y) ;
data:
  i = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23 ;
  d = 0.5, 1.5, 2.5, 3.5, 4.5, 5.5 ; gone = 1, 2, 3, 4 ;
group: g {
  dimensions: z = 3 ;
  variables: float v(z, x) ;
  data: v = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 ;
}
}
"""


@pytest.fixture
def debian_store(tmp_path, plain_home):
    """A store as the installed netCDF-C (4.9.0 on Debian 12) makes it, without what that cannot read itself (scalars)."""
    (tmp_path / "store.cdl").write_text(CDL)
    run("ncgen", "-4", "-lb", "-o", f"file://{tmp_path}/store#mode=nczarr,file", tmp_path / "store.cdl")
    return tmp_path / "store"


def change(folder):
    """Arrays and groups made, moved and removed on a mount, by tools that know nothing of netCDF."""
    group = zarr.open_group(str(folder), "a")
    new = group.create_dataset("new", data=np.arange(20, dtype="i2").reshape(4, 5), chunks=(2, 5), compressor=None, fill_value=-1)
    new.attrs.update({"_ARRAY_DIMENSIONS": ["y", "n"], "units": "s"})
    deep = group.create_group("g/deep").create_dataset("v", data=np.arange(3.0), compressor=None)
    deep.attrs["_ARRAY_DIMENSIONS"] = ["z"]
    group["g"].attrs["note"] = "from the mount"
    os.rename(folder / "d", folder / "D")
    os.rename(folder / "g", folder / "k")
    shutil.rmtree(folder / "gone")
    group["i"][0] = 7


def check_changed(root):
    """The same by netCDF: `root` is an open Dataset."""
    assert set(root.variables) == {"i", "D", "new"} and set(root.groups) == {"k"} and set(root["k"].groups) == {"deep"}
    assert root["new"].dimensions == ("y", "n") and root["new"].units == "s"
    assert np.array_equal(root["new"][:], np.arange(20).reshape(4, 5))
    assert root["i"][0].tolist() == [7] * 6 and root["i"].units == "m"
    assert root["D"][:].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert np.array_equal(root["k/v"][:], np.arange(18).reshape(3, 6)) and root["k/v"].dimensions == ("z", "x")
    assert root["k/deep/v"][:].tolist() == [0, 1, 2] and root["k/deep/v"].dimensions == ("z",)
    assert root["k"].note == "from the mount"


def check_changed_zarr(store):
    group = zarr.open_group(str(store), "r")
    assert np.array_equal(group["new"][...], np.arange(20).reshape(4, 5)) and group["new"].attrs["units"] == "s"
    assert np.array_equal(group["k/deep/v"][...], np.arange(3.0)) and sorted(group) == ["D", "i", "k", "new"]
    with xarray.open_zarr(store, consolidated=False) as data:
        assert data["new"].dims == ("y", "n") and data["i"].dims == ("y", "x") and data["i"][0].values.tolist() == [7] * 6


def test_the_installed_netcdf_reads_what_was_changed(mount, debian_store):
    # Of 4.9.0; of 4.9.2; of 4.9.3.
    forms = [(".zgroup", "_NCZARR_GROUP", ".zarray"), (".zgroup", "_nczarr_group", ".zarray"), (".zattrs", "_nczarr_group", ".zattrs")]
    form = [form for form in forms if form[1] in json.loads((debian_store / form[0]).read_text())]
    m = mount(debian_store)
    change(m.path)
    m.close()
    check_changed_zarr(debian_store)
    url = f"file://{debian_store}#mode=nczarr,file"
    with netCDF4.Dataset(url) as root:
        check_changed(root)
    text = ncdump(url)
    assert "short new(y, n) ;" in text and "group: k {" in text and "group: deep {" in text and "gone" not in text
    # It is still a store of that release.
    (file, group, array_file), = form
    assert group in json.loads((debian_store / file).read_text())
    assert group.replace("group", "array").replace("GROUP", "ARRAY") in json.loads((debian_store / "new" / array_file).read_text())


@pytest.mark.parametrize("name", BY_HAND)
def test_every_generation_can_be_changed(mount, copy, name):
    store = copy(f"zarr/{name}")
    before = {p.relative_to(store): p.read_bytes() for p in store.rglob("*") if p.is_file()}
    m = mount(store)
    group = zarr.open_group(str(m.path), "a")
    group.create_dataset("new", data=np.arange(6), chunks=3, compressor=None, fill_value=-1).attrs["_ARRAY_DIMENSIONS"] = ["x"]
    os.rename(m.path / "g", m.path / "k")
    shutil.rmtree(m.path / "c")
    group["big"][0] = 100
    m.close()
    m = mount(store, "ro")
    with xarray.open_zarr(m.path, consolidated=False) as data:
        assert data["new"].dims == ("x",) and data["new"].values.tolist() == list(range(6))
        assert data["big"].values.tolist() == [100, 2, 3, 4, 5, 6]
    with xarray.open_zarr(m.path, group="k", consolidated=False) as data:
        assert data["v"].dims == ("z", "x")
    m.close()
    # big stays in the order of bytes that its netCDF-C takes it for.
    order = ">i4" if name == "nczarr_493" else "<i4"
    assert (store / "big/0").read_bytes() == np.array([100, 2, 3, 4, 5, 6], order).tobytes()
    # Only what had to change has changed.
    after = {p.relative_to(store): p.read_bytes() for p in store.rglob("*") if p.is_file()}
    changed = {str(p) for p in before if p in after and before[p] != after[p]}
    lists = {"nczarr_480": ".nczgroup", "nczarr_493": ".zattrs"}.get(name, ".zgroup")
    assert changed == {lists, "big/0"}, changed


def test_appending(mount, tmp_path):
    """xarray makes a store longer array by array; at the end all are as long as the dimension, for netCDF-C's sake."""
    store = tmp_path / "s"
    shutil.copytree(DATA / "zarr/nczarr_493", store)
    m = mount(store)
    group = zarr.open_group(str(m.path), "a")
    group.create_dataset("u", data=np.arange(12.0).reshape(3, 4), chunks=(2, 4), compressor=None,
                         fill_value=-1).attrs["_ARRAY_DIMENSIONS"] = ["t", "y"]
    group.create_dataset("late", data=np.arange(3), chunks=2, compressor=None, fill_value=-5).attrs["_ARRAY_DIMENSIONS"] = ["t"]
    more = xarray.Dataset({"u": (("t", "y"), np.full((2, 4), 50.0)), "t": ("t", np.array([4, 5], "i2"))})
    more.to_zarr(m.path, append_dim="t", consolidated=False)
    assert group["late"].shape == (3,)
    m.close()
    lists = json.loads((store / ".zattrs").read_text())["_nczarr_group"]
    assert lists["dimensions"]["t"] == {"size": 5, "unlimited": 1} and lists["arrays"][-2:] == ["u", "late"]
    group = zarr.open_group(str(store), "r")
    assert group["t"][:].tolist() == [1, 2, 3, 4, 5] and group["late"][:].tolist() == [0, 1, 2, -5, -5]
    assert np.array_equal(group["u"][...], np.vstack([np.arange(12.0).reshape(3, 4), np.full((2, 4), 50.0)]))


def test_a_fixed_dimension_of_several_arrays_keeps_its_length(mount, debian_store):
    m = mount(debian_store)
    group = zarr.open_group(str(m.path), "a")
    with pytest.raises(OSError, match="Invalid argument"):
        group["i"].resize(4, 7)
    other = "d" if "_NCZARR_GROUP" in json.loads((debian_store / ".zgroup").read_text()) else "g/v"
    assert f"dimension /x has a fixed length for netCDF, and {other} has it too" in m.messages()
    shutil.rmtree(m.path / "gone")
    zarr.open_group(str(m.path), "a")["i"].resize(5, 6)  # only i has y now
    m.close()
    with netCDF4.Dataset(f"file://{debian_store}#mode=nczarr,file") as root:
        assert root.dimensions["y"].size == 5 and root["i"].shape == (5, 6)


def test_consolidated_metadata_follow_the_lists(mount, copy):
    store = copy("zarr/nczarr_493")
    zarr.consolidate_metadata(str(store))
    m = mount(store)
    os.rename(m.path / "g", m.path / "k")
    zarr.open_group(str(m.path), "a")["t"].resize(4)
    m.close()
    told = json.loads((store / ".zmetadata").read_text())["metadata"]
    assert set(told) == {str(p.relative_to(store)) for p in store.rglob(".z*")} - {".zmetadata"}
    for key, value in told.items():
        assert value == json.loads((store / key).read_text()), key
    assert told["k/v/.zattrs"]["_nczarr_array"]["dimension_references"] == ["/k/z", "/x"]
    assert told[".zattrs"]["_nczarr_group"]["dimensions"]["t"]["size"] == 4


def test_plain_zarr_stays_plain(mount, tmp_path):
    m = mount(tmp_path / "new.zarr", "create=zarr,view=decoded")
    zarr.open_group(str(m.path), "a").create_dataset("g/v", data=np.arange(4), compressor=None).attrs["_ARRAY_DIMENSIONS"] = ["x"]
    m.close()
    for file in (tmp_path / "new.zarr").rglob(".z*"):
        assert "nczarr" not in file.read_text().lower(), file


# ---- codecs that others misread

CODECS = [("zero", [{"id": "shuffle", "elementsize": 0}], {"id": "zlib", "level": 4}),
          ("text", [{"id": "shuffle", "elementsize": "0"}], {"id": "zlib", "level": "4"}),
          ("missing", [{"id": "shuffle"}], {"id": "bz2", "level": "9"})]


def misread_store(path, filters, compressor):
    """A store as netCDF-C 4.9 and 4.10 write it with shuffle: the bytes are shuffled, the metadata does not say how."""
    shutil.copytree(DATA / "zarr/nczarr_493", path)
    data = np.arange(24, dtype="<f8").reshape(4, 6)
    codec = numcodecs.get_codec({**compressor, "level": int(compressor["level"])})
    (path / "v").mkdir()
    zarray = {"zarr_format": 2, "shape": [4, 6], "dtype": "<f8", "chunks": [2, 6], "fill_value": 0, "order": "C",
              "compressor": compressor, "filters": filters}
    (path / "v/.zarray").write_text(json.dumps(zarray))
    (path / "v/.zattrs").write_text(json.dumps({"_nczarr_array": {"dimension_references": ["/y", "/x"], "storage": "chunked"}}))
    for i in range(2):
        (path / f"v/{i}.0").write_bytes(codec.encode(numcodecs.Shuffle(8).encode(np.ascontiguousarray(data[2 * i:2 * i + 2]))))
    lists = json.loads((path / ".zattrs").read_text())
    lists["_nczarr_group"]["arrays"].append("v")
    (path / ".zattrs").write_text(json.dumps(lists))
    return data


@pytest.mark.parametrize("filters, compressor", [c[1:] for c in CODECS], ids=[c[0] for c in CODECS])
def test_codecs_are_corrected_when_the_array_is_written(mount, tmp_path, plain_home, filters, compressor):
    store = tmp_path / "s"
    data = misread_store(store, filters, compressor)
    told = (store / "v/.zarray").read_bytes()
    try:
        assert not np.array_equal(zarr.open_group(str(store), "r")["v"][...], data)
    except (TypeError, ValueError):
        pass  # as zarr-python has it where a number is a text
    m = mount(store)
    assert json.loads((m.path / "v/_Codecs").read_text()) == [
        {"id": "shuffle", "elementsize": 8}, {**compressor, "level": int(compressor["level"])}]
    assert np.array_equal(zarr.open_group(str(m.path), "r")["v"][...], data)
    assert "units" not in json.loads((m.path / "v/.zattrs").read_text())
    m.close()
    assert (store / "v/.zarray").read_bytes() == told  # reading changes nothing
    m = mount(store)
    zarr.open_group(str(m.path), "a")["v"][3, 5] = data[3, 5] = 1000
    m.close()
    assert np.array_equal(zarr.open_group(str(store), "r")["v"][...], data)
    zarray = json.loads((store / "v/.zarray").read_text())
    assert zarray["filters"] == [{"id": "shuffle", "elementsize": 8}] and isinstance(zarray["compressor"]["level"], int)


def test_the_installed_netcdf_prints_it_through_the_mount(mount, tmp_path, plain_home):
    """Debian's netCDF has no filters: of the store itself it prints compressed bytes as numbers."""
    store = tmp_path / "s"
    data = misread_store(store, *CODECS[0][1:])
    for name in ["one", "big", "c", "words", "g", "filled", "t"]:  # what it cannot read, even raw
        shutil.rmtree(store / name)
    m = mount(store)
    text = ncdump(f"file://{m.path}#mode=zarr,file", "-v", "v")
    numbers = [float(n) for n in re.search(r"v =(.*?);", text[text.index("data:"):], re.S)[1].replace("_", "0").split(",")]
    assert numbers == data.ravel().tolist()


# ---- a current netCDF-C, which is not in Debian

MAKE = """
import sys, netCDF4, numpy as np
with netCDF4.Dataset(f"file://{sys.argv[1]}#mode=nczarr,file", "w") as f:
    for name, size in [("y", 4), ("x", 6), ("t", None)]:
        f.createDimension(name, size)
    f.title = "current"
    i = f.createVariable("i", "i4", ("y", "x")); i[:] = np.arange(24).reshape(4, 6)
    i.units, i.factor, i.version = "m", np.float32(1), "5"
    f.createVariable("big", ">f8", ("x",), endian="big")[:] = np.arange(6)
    f.createVariable("c", "S1", ("x",))[:] = np.array(list("hello!"), "S1")
    f.createVariable("one", "f8", ())[...] = 4.5
    f.createVariable("s", str, ("y",))[:] = np.array(["a", "bb", "", "ccc"], object)
    f.createVariable("d", "f8", ("y",), chunksizes=(4,))[1:3] = [1, 2]
    f.createVariable("rows", "f4", ("t", "x"), zlib=True, shuffle=True, chunksizes=(2, 6))[:] = np.arange(18).reshape(3, 6)
    g = f.createGroup("g"); g.createDimension("z", 3)
    g.createVariable("v", "f4", ("z", "x"), fill_value=-1.5)[:] = np.arange(18).reshape(3, 6)
"""

SHOW = """
import sys, json, netCDF4, numpy as np
netCDF4.default_encoding = "utf-8"
def show(g):
    for v in g.variables.values():
        v.set_auto_mask(False)
    return {"dimensions": {k: [len(d), d.isunlimited()] for k, d in g.dimensions.items()},
            "variables": {k: [v.dtype if isinstance(v.dtype, str) else str(v.dtype), v.dimensions, np.asarray(v[...]).astype(str).tolist()]
                          for k, v in g.variables.items()},
            "groups": {k: show(h) for k, h in g.groups.items()}}
with netCDF4.Dataset(f"file://{sys.argv[1]}#mode=nczarr,file") as f:
    print(json.dumps(show(f)))
"""


def test_stores_of_a_current_netcdf(mount, current, tmp_path, plain_home):
    store = tmp_path / "s"
    current(MAKE, store)
    m = mount(store)
    group = zarr.open_group(str(m.path), "r")
    for name, values, dimensions in [
            ("i", np.arange(24, dtype="<i4").reshape(4, 6), ["y", "x"]), ("big", np.arange(6, dtype=">f8"), ["x"]),
            ("c", np.array(list("hello!"), "S1"), ["x"]), ("one", np.array(4.5), []),
            ("s", np.array([b"a", b"bb", b"", b"ccc"], "S128"), ["y"]),
            ("d", np.array([make_zarr.NETCDF_FILL, 1, 2, make_zarr.NETCDF_FILL]), ["y"]),
            ("rows", np.arange(18, dtype="<f4").reshape(3, 6), ["t", "x"]), ("g/v", np.arange(18, dtype="<f4").reshape(3, 6), ["z", "x"])]:
        assert group[name].dtype == values.dtype and np.array_equal(group[name][...], values), name
        assert group[name].attrs["_ARRAY_DIMENSIONS"] == dimensions
    assert json.loads(xattr(m.path / "rows", "_MaxShape")) == [None, 6]
    assert xattr(m.path / "i", "factor") == "1.0" and xattr(m.path / "i", "version") == "5"
    assert {name for name in group.attrs if not name.startswith("_nczarr_")} == {"title"}


def test_a_current_netcdf_reads_what_was_changed(mount, current, tmp_path, plain_home):
    store = tmp_path / "s"
    current(MAKE, store)
    m = mount(store)
    group = zarr.open_group(str(m.path), "a")
    group["rows"][0] = 70
    for name, data in [("text", np.array([b"ab", b"cde"], "S5")), ("letters", np.array(list("abc"), "S1")),
                       ("scalar", np.array(2.5, "f4")), ("large", np.arange(4, dtype=">i8")), ("nothing", np.zeros((0, 4), "f4"))]:
        group.create_dataset("made/" + name, data=data, compressor=None, chunks=tuple(max(1, n) for n in data.shape))
    more = xarray.Dataset({"u": (("t", "n"), np.arange(10.0).reshape(5, 2))})
    more.to_zarr(m.path, mode="a", consolidated=False, encoding={"u": {"compressor": None}})
    os.rename(m.path / "g", m.path / "k")
    os.rename(m.path / "i", m.path / "k/i")
    shutil.rmtree(m.path / "d")
    m.close()
    shown = json.loads(current(SHOW, store))
    assert shown["dimensions"]["t"] == [5, True] and shown["dimensions"]["n"] == [2, True]
    assert set(shown["variables"]) == {"big", "c", "one", "s", "rows", "u"} and set(shown["groups"]) == {"made", "k"}
    rows = np.array(shown["variables"]["rows"][2], "f4")
    assert np.array_equal(rows[:3], np.vstack([np.full(6, 70), np.arange(6, 18).reshape(2, 6)])) and rows.shape == (5, 6)
    assert shown["variables"]["u"] == ["float64", ["t", "n"], np.arange(10.0).reshape(5, 2).astype(str).tolist()]
    made = shown["groups"]["made"]["variables"]
    assert set(made) == {"text", "letters", "scalar", "large", "nothing"}
    assert made["text"][2] == ["ab", "cde"] and made["letters"][2] == ["a", "b", "c"] and made["scalar"][2] == "2.5"
    assert made["large"][2] == ["0", "1", "2", "3"] and made["nothing"][2] == []
    assert set(shown["groups"]["k"]["variables"]) == {"v", "i"}
    assert zarr.open_group(str(store), "r")["rows"][0].tolist() == [70] * 6  # netCDF wrote elementsize 0
