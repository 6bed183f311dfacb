"""codecfs convert to netCDF's form of Zarr and back, and new stores of it (-o create=nczarr): netCDF-C finds in them what is in
the source."""
import errno
import json
import os
import shutil
import zipfile

import h5py
import numpy as np
import pytest
import zarr

from conftest import xattr
from netcdf_wheel import MAKE_RANDOM, SHOW_ALL, current  # noqa: F401
from running import codecfs, run


@pytest.fixture(autouse=True)
def plain_home(monkeypatch, tmp_path_factory):
    """A .ncrc of the user would change how netCDF reads Zarr."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


def url_of(path):
    return f"file://{path}#mode=nczarr,{'zip' if path.suffix == '.zip' else 'file'}"


def shown(current, name):  # noqa: F811
    return json.loads(current(SHOW_ALL, name))


def differences(one, other, at=""):
    """The paths at which two nested dictionaries differ."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return [] if one == other else [(at, str(one)[:80], str(other)[:80])]
    found = [(f"{at}/{key}", key in one, key in other) for key in set(one) ^ set(other)]
    for key in set(one) & set(other):
        found += differences(one[key], other[key], f"{at}/{key}")
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_and_the_copy_of_the_copy(current, tmp_path, seed):  # noqa: F811
    source = tmp_path / "source.nc"
    current(MAKE_RANDOM, source, seed)
    wanted = shown(current, source)
    copy = tmp_path / "copy"
    codecfs("convert", "--format", "nczarr", source, copy)
    assert differences(wanted, shown(current, url_of(copy))) == []
    codecfs("convert", "--format", "nczarr", source, tmp_path / "copy.zip")  # the wheel reads no archives
    with zipfile.ZipFile(tmp_path / "copy.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    assert run("diff", "-r", copy, tmp_path / "unpacked/copy", code=None).stdout == ""
    for number, store in enumerate([copy, tmp_path / "copy.zip"]):
        back = tmp_path / f"back{number}.nc"
        codecfs("convert", store, back)
        assert differences(wanted, shown(current, back)) == []


def make_nczarr(store):
    """What netCDF-C 4.9.3 writes, as far as it matters here."""
    own = {"_nczarr_superblock": "|J0", "_nczarr_group": "|J0", "_nczarr_attr": "|J0"}
    (store / "v").mkdir(parents=True)
    (store / "s").mkdir()
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    (store / ".zattrs").write_text(json.dumps({
        "numbers": [1, 2], "title": "a title", "_nczarr_superblock": {"version": "2.0.0"},
        "_nczarr_group": {"dimensions": {"x": 6, "t": {"size": 4, "unlimited": 1}, "alone": 9}, "arrays": ["v", "s"], "groups": []},
        "_nczarr_attr": {"types": {"numbers": "<u2", "title": ">S1", **own}}}))
    zarray = {"zarr_format": 2, "order": "C", "filters": None, "compressor": None}
    (store / "v/.zarray").write_text(json.dumps({**zarray, "shape": [4, 6], "chunks": [2, 6], "dtype": "<i4", "fill_value": -2147483647}))
    (store / "v/.zattrs").write_text(json.dumps({
        "flag": 1, "scale": 1, "name": "word", "_nczarr_array": {"dimension_references": ["/t", "/x"], "storage": "chunked"},
        "_nczarr_attr": {"types": {"flag": "|i1", "scale": "<f4", "name": "|S9", "_nczarr_array": "|J0", "_nczarr_attr": "|J0"}}}))
    (store / "s/.zarray").write_text(json.dumps({**zarray, "shape": [6], "chunks": [6], "dtype": "<f4", "fill_value": -1.5}))
    (store / "s/.zattrs").write_text(json.dumps({
        "_FillValue": -1.5, "_nczarr_array": {"dimension_references": ["/x"], "storage": "chunked"},
        "_nczarr_attr": {"types": {"_FillValue": "<f4"}}}))
    for row in range(2):
        np.arange(12, dtype="<i4").tofile(store / f"v/{row}.0")
    return store


def test_hdf5_gets_what_the_metadata_says(tmp_path):
    codecfs("convert", make_nczarr(tmp_path / "store"), tmp_path / "copy.nc")
    with h5py.File(tmp_path / "copy.nc") as file:
        assert file.attrs["numbers"].dtype == "u2" and file.attrs["numbers"].tolist() == [1, 2]
        v = file["v"]
        assert v.maxshape == (None, 6) and file["s"].maxshape == (6,)
        assert v.attrs["flag"].dtype == "i1" and v.attrs["scale"].dtype == "f4"
        for name, is_fixed in [("name", False), ("title", True)]:
            holder = v if name == "name" else file
            kind = h5py.h5a.open(holder.id, name.encode()).get_type()
            assert (not kind.is_variable_str()) == is_fixed, name  # netCDF's strings and characters
        assert "_FillValue" not in v.attrs and v.fillvalue == -2147483647
        assert file["s"].attrs["_FillValue"] == np.float32(-1.5) and file["s"].fillvalue == np.float32(-1.5)
        assert file["alone"].shape == (9,) and file["t"].maxshape == (None,) and file["x"].maxshape == (6,)
        assert [scale.name for scale in (v.dims[0][0], v.dims[1][0])] == ["/t", "/x"]


def test_what_netcdf_cannot_have_is_named(tmp_path):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        for name, kind in [("flags", "?"), ("half", "f2"), ("complex", "c8"), ("pair", [("a", "i4"), ("b", "f8")])]:
            file.create_dataset(name, data=np.zeros(4, kind))
        file["good"] = np.arange(4)
        file.create_dataset("zero", data=np.array(["a\0b"], "S3"))
    told = codecfs("convert", "--format", "nczarr", source, tmp_path / "a.zarr", code=32).output
    for name in ["half", "complex", "pair"]:
        assert f"/{name}: netCDF has no elements of dtype" in told, told
    assert "/good" not in told and "/flags" not in told and not (tmp_path / "a.zarr").exists()
    codecfs("convert", "--format", "nczarr", "--skip-unsupported", source, tmp_path / "a.zarr")
    lists = json.loads((tmp_path / "a.zarr/.zattrs").read_text())["_nczarr_group"]
    assert set(lists["arrays"]) == {"flags", "good", "zero"} and not (tmp_path / "a.zarr/half").exists()
    assert json.loads((tmp_path / "a.zarr/flags/.zattrs").read_text())["dtype"] == "bool"  # as xarray has it


def test_text_is_as_long_as_the_longest(tmp_path):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        words = ["short", "", "ä" * 300, "end"]
        file.create_dataset("words", data=words, dtype=h5py.string_dtype(), chunks=(3,), compression="gzip")
        file.create_dataset("cut", data=["a"], dtype=h5py.string_dtype())
    codecfs("convert", "--format", "nczarr", source, tmp_path / "a.zarr")
    zarray = json.loads((tmp_path / "a.zarr/words/.zarray").read_text())
    assert zarray["dtype"] == "|S600" and zarray["filters"] is None and zarray["compressor"] is None
    found = zarr.open_group(str(tmp_path / "a.zarr"), "r")["words"][...]
    assert [text.decode() for text in found] == words


def test_an_archive_has_one_folder(mount, tmp_path):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("g/v", data=np.arange(64, dtype="i4"), chunks=(32,))
    archive = tmp_path / "some.name.zip"
    codecfs("convert", "--format", "nczarr", source, archive)
    with zipfile.ZipFile(archive) as read:
        names = read.namelist()
        assert read.testzip() is None and all(item.compress_type == zipfile.ZIP_STORED for item in read.infolist())
    assert names[0] == "some.name/" and all(name.startswith("some.name/") for name in names)
    assert names.index("some.name/g/") < names.index("some.name/g/v/") < names.index("some.name/g/v/0")
    m = mount(archive)
    assert zarr.open_group(str(m.path), "r")["g/v"][...].tolist() == list(range(64))
    codecfs("convert", source, tmp_path / "plain.zip")  # as zarr-python wants it
    assert ".zgroup" in zipfile.ZipFile(tmp_path / "plain.zip").namelist()


def test_a_store_made_through_a_mount(mount, current, tmp_path):  # noqa: F811
    m = mount(tmp_path / "made", "create=nczarr,view=decoded")
    group = zarr.open_group(str(m.path), "a")
    t = group.create_dataset("t", shape=(4, 6), chunks=(2, 6), dtype="i2", compressor=None, fill_value=-9)
    t[...] = np.arange(24).reshape(4, 6)
    t.attrs.update({"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K", "version": "5", "scale": 1.0})
    group.create_dataset("g/letters", data=np.array(list("abc"), "S1"), compressor=None)
    group.attrs["title"] = "made"
    for kind in ["?", "f2", "c8", "U3", "M8[s]"]:
        with pytest.raises(OSError) as refused:
            os.mkdir(m.path / "bad")
            (m.path / "bad/.zarray").write_text(json.dumps({
                "zarr_format": 2, "shape": [2], "chunks": [2], "dtype": np.dtype(kind).str, "fill_value": None, "order": "C",
                "filters": None, "compressor": None}))
        assert refused.value.errno == errno.EINVAL and "netCDF has no elements" in xattr(m.path / "bad", "_Error")
        os.rmdir(m.path / "bad")
    m.close()
    found = shown(current, url_of(tmp_path / "made"))
    assert found["attributes"]["title"] == ["char", 4, "made"] and set(found["variables"]) == {"t"}
    assert found["variables"]["t"]["dimensions"] == ["y", "x"]
    assert bytes.fromhex(found["variables"]["t"]["values"][2]) == np.arange(24, dtype="<i2").tobytes()
    told = found["variables"]["t"]["attributes"]
    assert told["version"] == ["char", 1, "5"] and told["scale"] == ["double", 1, "1.0"] and told["units"] == ["char", 1, "K"]
    assert bytes.fromhex(found["groups"]["g"]["variables"]["letters"]["values"][2]) == b"abc"


@pytest.mark.parametrize("seed", [7])
def test_copies_of_views_are_read_by_netcdf(mount, current, tmp_path, seed):  # noqa: F811
    current(MAKE_RANDOM, tmp_path / "source.nc", seed)
    codecfs("convert", "--format", "nczarr", tmp_path / "source.nc", tmp_path / "store")
    wanted = shown(current, url_of(tmp_path / "store"))
    for group in [wanted, wanted["groups"]["g"], wanted["groups"]["g"]["groups"]["deep"]]:
        for scalar in ["one", "letter", "word"]:  # netCDF-C passes over arrays without dimensions
            del group["variables"][scalar]
    m = mount(tmp_path / "store", "ro")
    for number, view in enumerate([m.path, m.path / ".codecfs/view/encoded"]):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(view, copy)
        found = differences(wanted, shown(current, url_of(copy)))
        # A view has text beyond ASCII as zarr-python 2 wants it, which netCDF-C does not understand.
        assert [one for one in found if not one[0].endswith("/attributes/other")] == []


WRITE_ONE = r"""
import sys, netCDF4, numpy as np
with netCDF4.Dataset(f"file://{sys.argv[1]}#mode=nczarr,file", "a") as file:
    file.createDimension("t", None)
    file.createDimension("x", 3)
    file.setncattr("number", np.int16(5))
    v = file.createVariable("v", "i2", ("t", "x"))
    v[:] = np.arange(6).reshape(2, 3)
    v.setncattr("scale", np.float32(1))
    group = file.createGroup("g")
    group.createVariable("letters", "S1", ("x",))[:] = np.array(list("abc"), "S1")
    group.createVariable("words", str, ("x",))[:] = np.array(["a", "bb", ""], object)
    group.createVariable("one", "f8", ())[...] = 4.5
    file.createVariable("crs", "i4", ()).grid_mapping_name = "latitude_longitude"
"""


def test_netcdf_writes_through_a_mount(mount, current, tmp_path):  # noqa: F811
    m = mount(tmp_path / "made", "create=nczarr,view=decoded")
    current(WRITE_ONE, m.path)
    m.close()
    found = shown(current, url_of(tmp_path / "made"))
    assert found["dimensions"] == {"t": [2, True], "x": [3, False]} and found["attributes"] == {"number": ["short", 1, "5"]}
    v = found["variables"]["v"]
    assert v["values"] == ["<i2", [2, 3], np.arange(6, dtype="<i2").tobytes().hex()] and v["attributes"] == {"scale": ["float", 1, "1.0"]}
    inner = found["groups"]["g"]["variables"]
    assert inner["one"]["dimensions"] == [] and inner["one"]["values"] == ["<f8", [], np.array(4.5).tobytes().hex()]
    assert found["variables"]["crs"]["dimensions"] == [] and "grid_mapping_name" in found["variables"]["crs"]["attributes"]
    assert found["groups"]["g"]["dimensions"] == {}
    assert inner["letters"]["values"][2] == b"abc".hex() and inner["words"]["values"] == ["string", [3], ["a", "bb", ""]]


def test_cp_between_mounts_keeps_types_and_dimensions(mount, current, tmp_path):  # noqa: F811
    current(MAKE_RANDOM, tmp_path / "source.nc", 5)
    wanted = shown(current, tmp_path / "source.nc")
    codecfs("convert", "--format", "nczarr", tmp_path / "source.nc", tmp_path / "store")
    m = mount(tmp_path / "store", "ro")
    for form, made in [("nczarr", tmp_path / "copy"), ("hdf5", tmp_path / "copy.nc")]:
        to = mount(made, f"create={form},view=encoded")
        run("cp", "-r", f"{m.path}/.codecfs/view/encoded/.", to.path)
        to.close()
        found = differences(wanted, shown(current, made if form == "hdf5" else url_of(made)))
        # A variable that is made through a mount of HDF5 without limits has none, and it is its own dimension.
        assert [one for one in found if form == "nczarr" or one[0] != "/dimensions/y"] == []


def test_a_fill_value_of_zarr_is_an_attribute_in_netcdf(tmp_path):
    group = zarr.open_group(str(tmp_path / "source"), "w")
    group.create_dataset("v", data=np.arange(4, dtype=">i2"), fill_value=-9)
    group.create_dataset("w", data=np.arange(4.0), fill_value=np.nan)
    group.create_dataset("x", data=np.arange(4.0), fill_value=None)
    codecfs("convert", "--format", "nczarr", tmp_path / "source", tmp_path / "copy")
    for name, value, kind in [("v", -9, ">i2"), ("w", "NaN", "<f8"), ("x", None, None)]:
        told = json.loads((tmp_path / "copy" / name / ".zattrs").read_text())
        assert told.get("_FillValue") == value and told["_nczarr_attr"]["types"].get("_FillValue") == kind
        assert told["_nczarr_array"]["dimension_references"] == ["/_Anonymous_Dim_4"]


@pytest.mark.parametrize("judge", ["netcdf", "numcodecs"])
def test_plugins_of_netcdf_serve_zarr(mount, current, tmp_path, judge):  # noqa: F811
    """Of the wheel, instead of what is built in. netCDF's own codec of shuffle leaves the size of an element 0, which
    numcodecs takes as it is."""
    plugins = current("import netCDF4, os; print(os.path.join(os.path.dirname(netCDF4.__file__), 'plugins'))").strip()
    group = zarr.open_group(str(tmp_path / "s.zarr"), mode="w")
    data = np.arange(600).reshape(20, 30)
    specs = {"shuffled": "shuffle|deflate,4", "checked": "fletcher32", "zstd": "zstd,3", "bzip2": "shuffle|bzip2,9"}
    for name in specs:
        for kind in "i2", "f8":
            group.create_dataset(name + kind, data=data.astype(kind), chunks=(10, 15), compressor=None)
            group[name + kind].attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    mounted = mount(tmp_path / "s.zarr", "builtin=off", env={"HDF5_PLUGIN_PATH": plugins})
    used = (mounted.path / ".codecfs/filters").read_text()
    for name, spec in specs.items():
        for kind in "i2", "f8":
            os.setxattr(mounted.path / (name + kind), "user._Filter", spec.encode())
    mounted.close()
    for id in 1, 2, 3, 307, 32015:
        line = next(line for line in used.splitlines() if line.startswith(f"{id} "))
        assert plugins in line, line
    codecs = json.loads((tmp_path / "s.zarr/shuffledi2/.zarray").read_text())
    assert codecs["filters"] == [{"id": "shuffle", "elementsize": 2}] and codecs["compressor"]["id"] == "zlib"
    for name in specs:
        for kind in "i2", "f8":
            if judge == "numcodecs" and name != "checked":  # which Debian's lacks
                assert np.array_equal(zarr.open(str(tmp_path / "s.zarr"), mode="r")[name + kind][...], data), name
            elif judge == "netcdf":
                assert current("import netCDF4, numpy, sys\nwith netCDF4.Dataset(sys.argv[1]) as f:\n"
                               "    print(numpy.array_equal(f[sys.argv[2]][...], numpy.arange(600).reshape(20, 30)))",
                               f"file://{tmp_path}/s.zarr#mode=zarr,file", name + kind).strip() == "True", name
