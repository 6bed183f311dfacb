"""Zarr stores that other programs write, and that differ from what zarr-python 2 makes: filters of the other byte order,
types named as numpy takes them, versions as text, groups without metadata, odd values of _ARRAY_DIMENSIONS, odd fill values, damaged
.zmetadata, several stores in an archive, names that begin with "./".
zarr-python, numcodecs, h5py and numpy judge."""
import base64
import json
import os
import shutil
import zipfile

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from running import codecfs
from zarr3_stores import named, write_array, write_group

FOUR = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i4", "fill_value": 0, "order": "C", "compressor": None, "filters": None}


def make_store(path, arrays, attributes=None):
    """`arrays`: (metadata, attributes, chunk) by name; directories between get no metadata."""
    path.mkdir()
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    if attributes is not None:
        (path / ".zattrs").write_text(json.dumps(attributes))
    for name, (metadata, attrs, chunk) in arrays.items():
        (path / name).mkdir(parents=True)
        (path / name / ".zarray").write_text(json.dumps({**FOUR, **metadata}))
        if attrs is not None:
            (path / name / ".zattrs").write_text(json.dumps(attrs))
        if chunk is not None:
            (path / name / ".".join("0" * len({**FOUR, **metadata}["shape"]))).write_bytes(chunk)
    return path


FILTERS = [
    ("<f4", [{"id": "astype", "decode_dtype": "<f4", "encode_dtype": ">i2"}]),
    (">f4", [{"id": "astype", "decode_dtype": ">f4", "encode_dtype": "<i4"}]),
    (">f8", [{"id": "astype", "decode_dtype": ">f8", "encode_dtype": "|u1"}]),
    ("<f8", [{"id": "fixedscaleoffset", "offset": 1, "scale": 4, "dtype": "<f8", "astype": ">i4"}]),
    (">f4", [{"id": "fixedscaleoffset", "offset": 0, "scale": 2, "dtype": ">f4", "astype": "<u2"}]),
    ("<i8", [{"id": "delta", "dtype": "<i8", "astype": ">i2"}]),
    (">i4", [{"id": "delta", "dtype": ">i4", "astype": ">i4"}]),
    ("<f8", [{"id": "quantize", "digits": 2, "dtype": "<f8", "astype": ">f4"}]),
    ("<f8", [{"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": "<f8", "astype": ">i4"},
             {"id": "delta", "dtype": ">i4", "astype": "<i2"}, {"id": "shuffle", "elementsize": 2}]),
    # Its elements decode to the other byte order than that of the array, so that no list of v3 says the same.
    (">i4", [{"id": "delta", "dtype": "<i4", "astype": "<i4"}]),
]


@pytest.mark.parametrize("dtype, filters", FILTERS)
def test_filters_of_another_byte_order_in_v3(mount, tmp_path, dtype, filters):
    values = np.arange(1, 5).astype(dtype)
    chunk = values
    for codec in filters:
        chunk = numcodecs.get_codec(codec).encode(chunk)
    chunk = np.asarray(chunk).tobytes() if not isinstance(chunk, bytes) else chunk
    source = make_store(tmp_path / "a.zarr", {"v": ({"dtype": dtype, "filters": filters}, None, chunk)})
    wanted = zarr.open(str(source), "r")["v"][...]
    codecfs("convert", "--format", "zarr3", source, tmp_path / "b.zarr")
    codecfs("compare", source, tmp_path / "b.zarr")
    m = mount(tmp_path / "b.zarr", "ro")
    shown = np.load(m.path / ".codecfs/view/npy/v.npy")
    assert (shown == wanted).all(), (shown, wanted)
    m.unmount()
    # As zarr-python 3 reads it: `bytes` makes elements of its byte order, from which numcodecs' codecs work back.
    described = json.loads((tmp_path / "b.zarr/v/zarr.json").read_text())
    codecs = described["codecs"]
    serializer = next(i for i, codec in enumerate(codecs) if codec["name"] == "bytes")
    content = (tmp_path / "b.zarr/v/c/0").read_bytes()
    for codec in reversed(codecs[serializer + 1:]):
        content = numcodecs.get_codec({"id": codec["name"].removeprefix("numcodecs."), **codec["configuration"]}).decode(content)
    order = {"big": ">", "little": "<"}[codecs[serializer].get("configuration", {}).get("endian", "little")]
    before = [{"id": codec["name"].removeprefix("numcodecs."), **codec["configuration"]} for codec in codecs[:serializer]]
    stored = dtype[1:]
    for codec in before:
        stored = np.dtype(codec.get("encode_dtype", codec.get("astype", codec.get("dtype")))).str[1:]
    elements = np.frombuffer(content, order + stored)
    for codec in reversed(before):
        elements = numcodecs.get_codec(codec).decode(elements)
    assert (np.asarray(elements) == wanted).all(), (codecs, elements, wanted)
    codecfs("convert", "--format", "zarr", tmp_path / "b.zarr", tmp_path / "c.zarr")
    assert (zarr.open(str(tmp_path / "c.zarr"), "r")["v"][...] == wanted).all()


def implicit_store(path, form):
    """g and g/h have no metadata."""
    if form == "zarr3":
        write_group(path)
        for name in "g/h/v", "g/w":
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            write_array(path / name, np.arange(4, dtype="<i4"), (4,), [named("bytes", endian="little")], "int32", 0, 0)
    else:
        chunk = np.arange(4, dtype="<i4").tobytes()
        make_store(path, {"g/h/v": ({}, {"units": "m"}, chunk), "g/w": ({}, None, chunk)})
    (path / "stray/deep").mkdir(parents=True)
    (path / "stray/deep/file").write_text("not Zarr's")
    if form == "zip":
        with zipfile.ZipFile(path.with_suffix(".zip"), "w") as archive:
            for file in sorted(path.rglob("*")):
                archive.write(file, file.relative_to(path))
        shutil.rmtree(path)
        return path.with_suffix(".zip")
    return path


@pytest.mark.parametrize("form", ["zarr", "zarr3", "zip"])
def test_groups_without_metadata_are_shown(mount, tmp_path, form):
    source = implicit_store(tmp_path / "a.zarr", form)
    assert "2 groups, 2 variables" in codecfs("info", source).output
    assert "2 chunks of 2 variables" in codecfs("verify", source).output
    codecfs("convert", source, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert (f["g/h/v"][...] == np.arange(4)).all() and (f["g/w"][...] == np.arange(4)).all() and "stray" not in f
    m = mount(source, "ro", "view=decoded")
    assert "stray" not in os.listdir(m.path) and sorted(os.listdir(m.path / "g"))[-2:] == ["h", "w"]
    group = zarr.open_group(str(m.path), "r")
    assert (group["g/h/v"][...] == np.arange(4)).all() and sorted(group["g"]) == ["h", "w"]
    assert (zarr.open_consolidated(str(m.path))["g/h/v"][...] == np.arange(4)).all()


@pytest.mark.parametrize("form", ["zarr", "zarr3", "zip"])
def test_groups_without_metadata_are_written(mount, tmp_path, form):
    """They get metadata, as they would end with their last member otherwise."""
    source = implicit_store(tmp_path / "a.zarr", form)
    m = mount(source, "view=decoded")
    with open(m.path / "g/h/.zattrs", "w") as file:
        file.write('{"note": "written"}')
    group = zarr.open_group(str(m.path), "r+")
    group["g/h"].create_dataset("made", data=np.arange(6), compressor=None)
    shutil.rmtree(m.path / "g/h/v")
    m.unmount()
    codecfs("verify", source)
    if form == "zarr3":
        for name in "g", "g/h":
            assert json.loads((source / name / "zarr.json").read_text())["node_type"] == "group"
        assert json.loads((source / "g/h/zarr.json").read_text())["attributes"] == {"note": "written"}
        return
    stored = zarr.open_group(str(source) if form == "zarr" else zarr.ZipStore(str(source), mode="r"), "r")
    assert stored["g/h"].attrs["note"] == "written" and (stored["g/h/made"][...] == np.arange(6)).all()
    assert "v" not in stored["g/h"]


def test_an_emptied_group_stays(mount, tmp_path):
    source = implicit_store(tmp_path / "a.zarr", "zarr")
    m = mount(source)
    shutil.rmtree(m.path / "g/h")
    shutil.rmtree(m.path / "g/w")
    assert os.path.isdir(m.path / "g")
    os.rmdir(m.path / "g")
    m.unmount()
    assert sorted(os.listdir(source)) == [".zgroup", "stray"]


def test_many_files_without_metadata_are_not_searched(mount, tmp_path):
    """What is left of an array without its .zarray costs a bounded search, and a message."""
    source = make_store(tmp_path / "a.zarr", {"v": ({}, None, bytes(16))})
    (source / "lost").mkdir()
    for i in range(12_000):
        (source / f"lost/{i}.0").touch()
    m = mount(source, "ro")
    assert os.listdir(m.path) and not os.path.exists(m.path / "lost")
    assert "lost: has no metadata" in (m.path / ".codecfs/log").read_text()


ODD = [None, ["x"], ["x", "y", "z"], {"a": 5}, "x", [1, 2], []]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_odd_names_of_dimensions_are_kept(mount, tmp_path, odd):
    metadata = {"shape": [2, 3], "chunks": [2, 3], "fill_value": 7}
    attributes = {"_ARRAY_DIMENSIONS": odd, "units": "m", **({} if odd is None else {"_FillValue": 7})}
    source = make_store(tmp_path / "a.zarr", {"v": (metadata, attributes, bytes(24)), "g/w": ({}, None, None)},
                        {"_ARRAY_DIMENSIONS": odd, "title": "t"})
    (source / "g/.zgroup").write_text('{"zarr_format": 2}')
    (source / "g/.zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": odd}))
    for form in "zarr", "zip":
        codecfs("convert", "--format", form, source, tmp_path / form)
        copy = zarr.open_group(str(tmp_path / form) if form == "zarr" else zarr.ZipStore(str(tmp_path / form), mode="r"), "r")
        assert dict(copy["v"].attrs) == attributes and dict(copy["g"].attrs) == {"_ARRAY_DIMENSIONS": odd}
        assert dict(copy.attrs) == {"_ARRAY_DIMENSIONS": odd, "title": "t"}
    m = mount(source)
    for name in "v", "", "g":
        file = m.path / name / ".zattrs"
        now = json.loads(file.read_text())
        assert now["_ARRAY_DIMENSIONS"] == odd
        file.write_text(json.dumps({**now, "new": 1}))
    m.unmount()
    for name in "v", "", "g":
        stored = json.loads((source / name / ".zattrs").read_text())
        assert stored["_ARRAY_DIMENSIONS"] == odd and stored["new"] == 1


def test_odd_names_become_names(mount, tmp_path):
    source = make_store(tmp_path / "a.zarr", {"v": ({}, {"_ARRAY_DIMENSIONS": ["x", "y"]}, bytes(16))})
    m = mount(source)
    (m.path / "v/.zattrs").write_text('{"_ARRAY_DIMENSIONS": ["x"], "units": "m"}')
    m.unmount()
    assert json.loads((source / "v/.zattrs").read_text()) == {"_ARRAY_DIMENSIONS": ["x"], "units": "m"}


def test_names_of_dimensions_in_hdf5(mount, tmp_path):
    """Of a group they are an attribute; odd ones of a variable have no form there."""
    source = make_store(tmp_path / "a.zarr", {"v": ({}, {"_ARRAY_DIMENSIONS": ["x"]}, bytes(16))}, {"_ARRAY_DIMENSIONS": ["q", "r"]})
    codecfs("convert", source, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert list(f.attrs["_ARRAY_DIMENSIONS"]) == ["q", "r"] and f["v"].dims[0].keys() == ["x"] or "x" in f
    codecfs("convert", tmp_path / "b.h5", tmp_path / "c.zarr")
    assert json.loads((tmp_path / "c.zarr/.zattrs").read_text())["_ARRAY_DIMENSIONS"] == ["q", "r"]
    for odd in ["x", "y"], {"a": 1}:
        (source / "v/.zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": odd}))
        told = codecfs("convert", source, tmp_path / "d.h5", code=32).output
        assert "/v" in told and "_ARRAY_DIMENSIONS" in told and not (tmp_path / "d.h5").exists()


def test_dimensions_of_one_name_and_other_lengths_in_hdf5(tmp_path):
    """HDF5 has one length for each: no variable may get another shape."""
    source = make_store(tmp_path / "a.zarr", {
        "a": ({}, {"_ARRAY_DIMENSIONS": ["x"]}, bytes(16)),
        "b": ({"shape": [6], "chunks": [6]}, {"_ARRAY_DIMENSIONS": ["x"]}, bytes(24)),
        "c": ({"shape": [3, 2], "chunks": [3, 2]}, {"_ARRAY_DIMENSIONS": ["y", "y"]}, bytes(24)),
        "d": ({"shape": [3, 4], "chunks": [3, 4]}, {"_ARRAY_DIMENSIONS": ["y", "x"]}, bytes(48))})
    told = codecfs("convert", source, tmp_path / "b.h5", code=32).output
    assert "codecfs: /b: " in told and "codecfs: /c: " in told and "codecfs: /a" not in told and "codecfs: /d" not in told
    codecfs("convert", "--skip-unsupported", source, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert f["a"].shape == (4,) and f["d"].shape == (3, 4) and "b" not in f and "c" not in f
    codecfs("convert", source, tmp_path / "c.zarr")


def test_fill_values_of_bytes(tmp_path):
    """zarr-python 3 writes them in base64 in both versions."""
    text = base64.b64encode(b"ab\xff").decode()
    source = make_store(tmp_path / "a.zarr", {"v": ({"dtype": "|O", "filters": [{"id": "vlen-bytes"}], "fill_value": text}, None, None)})
    codecfs("convert", "--format", "zarr3", source, tmp_path / "b.zarr")
    assert json.loads((tmp_path / "b.zarr/v/zarr.json").read_text())["fill_value"] == text
    codecfs("compare", source, tmp_path / "b.zarr")
    codecfs("convert", "--format", "zarr", tmp_path / "b.zarr", tmp_path / "c.zarr")
    assert json.loads((tmp_path / "c.zarr/v/.zarray").read_text())["fill_value"] == text
    codecfs("compare", source, tmp_path / "c.zarr")


@pytest.mark.parametrize("text", ["", "{", "[1]", '"text"', '{"metadata": {"a', "\x00" * 40])
def test_a_damaged_zmetadata_is_made_anew(mount, tmp_path, text):
    source = make_store(tmp_path / "a.zarr", {"v": ({}, {"units": "K"}, np.arange(4, dtype="<i4").tobytes())})
    (source / ".zmetadata").write_text(text)
    m = mount(source)
    (m.path / "v/.zattrs").write_text('{"units": "m"}')
    os.mkdir(m.path / "new")
    m.unmount()
    group = zarr.open_consolidated(str(source))
    assert group["v"].attrs["units"] == "m" and (group["v"][...] == np.arange(4)).all() and "new" in group


@pytest.mark.parametrize("names", [["a.zarr", "b.zarr"], ["b", "a", "c/d"], ["x/one", "x/two"]])
def test_several_stores_in_an_archive(mount, tmp_path, names):
    """None is taken for the only one, whichever is the first."""
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        for name in names:
            archive.writestr(f"{name}/.zgroup", '{"zarr_format": 2}')
            archive.writestr(f"{name}/v/.zarray", json.dumps(FOUR))
    for command in "info", "verify":
        told = codecfs(command, tmp_path / "s.zip", code=32).output
        assert all(name in told for name in names[:2]), told
    (tmp_path / "m").mkdir()
    done = codecfs(tmp_path / "s.zip", tmp_path / "m", code=32)
    assert all(name in done.stderr for name in names[:2])


TYPE_NAMES = [
    ("|u1", [{"id": "delta", "dtype": "B"}]),
    ("<u2", [{"id": "delta", "dtype": "=u2", "astype": "h"}]),
    ("<i8", [{"id": "delta", "dtype": "int64", "astype": "short"}]),
    ("<f4", [{"id": "astype", "decode_dtype": "single", "encode_dtype": "=i2"}]),
    ("<f8", [{"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": "double", "astype": "uint16"}]),
    ("<f8", [{"id": "quantize", "digits": 2, "dtype": "f8", "astype": "f4"}, {"id": "shuffle", "elementsize": 4}]),
    ("<f8", [{"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": "float", "astype": "i4"}, {"id": "delta", "dtype": "i4"}]),
    (">i4", [{"id": "delta", "dtype": ">i"}]),
]


@pytest.mark.parametrize("dtype, filters", TYPE_NAMES)
def test_types_of_filters_are_named_as_numpy_takes_them(mount, tmp_path, dtype, filters):
    values = np.array([1, 2, 4, 9]).astype(dtype)
    chunk = values
    for codec in filters:
        chunk = numcodecs.get_codec(codec).encode(chunk)
    source = make_store(tmp_path / "a.zarr", {"v": ({"dtype": dtype, "filters": filters}, None, bytes(np.asarray(chunk).data))})
    wanted = zarr.open(str(source), "r")["v"][...]
    codecfs("verify", source)
    m = mount(source, "view=encoded")
    decoded = zarr.open(str(m.path / ".codecfs/view/decoded"), "r+")["v"]
    assert (decoded[...] == wanted).all()
    written = values[::-1].copy()
    decoded[...] = written
    m.unmount()
    assert (zarr.open(str(source), "r")["v"][...] == written).all()
    for form in "zarr3", "zarr", "hdf5":
        words = [] if form != "hdf5" else ["-F", "*,deflate,1"]
        codecfs("convert", "--format", form, *words, source, tmp_path / form)
        codecfs("compare", source, tmp_path / form)
    assert (zarr.open(str(tmp_path / "zarr"), "r")["v"][...] == written).all()
    with h5py.File(tmp_path / "hdf5") as f:
        assert (f["v"][...] == written).all()


def test_types_of_arrays_are_named_as_numpy_takes_them(mount, tmp_path):
    values = np.arange(4)
    source = make_store(tmp_path / "a.zarr", {name: ({"dtype": name}, None, values.astype(name).tobytes())
                                              for name in ("i2", "=u4", "float64", "f")})
    m = mount(source, "ro,view=decoded")
    group = zarr.open_group(str(m.path), "r")
    for name in group:
        assert group[name].dtype == np.dtype(name) and (group[name][...] == values).all()
        assert json.loads((m.path / name / ".zarray").read_text())["dtype"] == np.dtype(name).str


@pytest.mark.parametrize("version", [2, 3])
def test_versions_as_text(tmp_path, version):
    values = np.arange(4, dtype="<i4")
    if version == 2:
        source = make_store(tmp_path / "a.zarr", {"g/v": ({}, {"units": "m"}, values.tobytes())})
        (source / "g/.zgroup").write_text('{"zarr_format": 2}')
    else:
        source = write_group(tmp_path / "a.zarr") or tmp_path / "a.zarr"
        write_group(source / "g")
        write_array(source / "g/v", values, (4,), [named("bytes", endian="little")], "int32", 0, 0)
    codecfs("convert", "--format", "zarr", source, tmp_path / "before.zarr")
    for file in [path for path in source.rglob("*") if path.name in (".zgroup", ".zarray", "zarr.json")]:
        file.write_text(json.dumps({**json.loads(file.read_text()), "zarr_format": str(version)}))
    codecfs("verify", source)
    codecfs("compare", source, tmp_path / "before.zarr")
    codecfs("convert", "--format", "zarr", source, tmp_path / "b.zarr")
    assert (zarr.open(str(tmp_path / "b.zarr"), "r")["g/v"][...] == values).all()


@pytest.mark.parametrize("text", ["nan", "NAN", "+Infinity", "inf", "-inf", "-Infinity", "1e3"])
def test_fill_values_as_numpy_reads_them(mount, tmp_path, text):
    source = make_store(tmp_path / "a.zarr", {name: ({"dtype": name, "fill_value": text}, None, None) for name in ("<f8", ">f4", "<f2")})
    group = zarr.open_group(str(source), "r")
    wanted = {name: group[name][...] for name in group}
    assert all(repr(values[0]) == repr(np.dtype(name).type(text)) for name, values in wanted.items())
    m = mount(source, "ro,view=decoded")
    shown = zarr.open_group(str(m.path), "r")
    codecfs("convert", source, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        for name, values in wanted.items():
            assert np.array_equal(shown[name][...], values, equal_nan=True)
            assert np.array_equal(np.load(m.path / f".codecfs/view/npy/{name}.npy"), values, equal_nan=True)
            assert np.array_equal(f[name][...], values, equal_nan=True)


def test_an_undefined_fill_of_times_is_none(mount, tmp_path):
    """As zarr-python 3 reads null: NaT, not 1970."""
    source = make_store(tmp_path / "a.zarr", {name: ({"dtype": name, "fill_value": None, "chunks": [2]}, None, None)
                                              for name in ("<M8[ns]", "<m8[s]")})
    for name in "<M8[ns]", "<m8[s]":
        (source / name / "1").write_bytes(np.array([5, 6], "<i8").tobytes())
    m = mount(source, "ro,view=decoded")
    for name in "<M8[ns]", "<m8[s]":
        shown = np.load(m.path / f".codecfs/view/npy/{name}.npy")
        assert np.isnat(shown[:2]).all() and (shown[2:].astype("i8") == [5, 6]).all()
        assert np.isnat(np.frombuffer((m.path / name / "0").read_bytes(), name)).all()
        assert json.loads((m.path / name / ".zarray").read_text())["fill_value"] is None
        assert json.loads((m.path / f".codecfs/view/decoded3/{name}/zarr.json").read_text())["fill_value"] == "NaT"


def test_byte_order_marks(mount, tmp_path):
    source = make_store(tmp_path / "a.zarr", {"g/v": ({}, {"units": "m"}, np.arange(4, dtype="<i4").tobytes())}, {"title": "t"})
    (source / "g/.zgroup").write_text('{"zarr_format": 2}')
    for file in [path for path in source.rglob(".z*")]:
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    codecfs("verify", source)
    m = mount(source, "view=decoded")
    group = zarr.open_consolidated(str(m.path))
    assert group.attrs["title"] == "t" and group["g/v"].attrs["units"] == "m" and (group["g/v"][...] == np.arange(4)).all()
    zarr.open_group(str(m.path), "r+")["g/v"].attrs["units"] = "km"
    m.unmount()
    codecfs("verify", source)
    assert json.loads((source / "g/v/.zattrs").read_text(encoding="utf-8-sig")) == {"units": "km"}


@pytest.mark.parametrize("directories", [False, True])
def test_names_in_an_archive_begin_with_a_dot(mount, tmp_path, directories):
    """As `zip -r a.zip ./` of several programs makes them."""
    values = np.arange(4, dtype="<i4")
    store = make_store(tmp_path / "a.zarr", {"g/v": ({}, {"units": "m"}, values.tobytes())})
    (store / "g/.zgroup").write_text('{"zarr_format": 2}')
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        if directories:
            for name in "./", "./g/", "./g/v/":
                archive.writestr(name, b"")
        for file in sorted(store.rglob("*")):
            if file.is_file():
                archive.writestr(f"./{file.relative_to(store)}", file.read_bytes())
    assert all(name.startswith("./") for name in zipfile.ZipFile(tmp_path / "a.zip").namelist())
    codecfs("verify", tmp_path / "a.zip")
    m = mount(tmp_path / "a.zip", "view=decoded")
    array = zarr.open_group(str(m.path), "r+")["g/v"]
    assert array.attrs["units"] == "m" and (array[...] == values).all()
    array[...] = values[::-1]
    m.unmount()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.testzip() is None and "g/v/.zarray" in archive.namelist()
    stored = zarr.open_group(zarr.ZipStore(str(tmp_path / "a.zip"), mode="r"), "r")
    assert (stored["g/v"][...] == values[::-1]).all()


@pytest.mark.parametrize("typesize", [1, 2, 4])
def test_blosc_of_v3_in_v2(mount, tmp_path, typesize):
    """numcodecs before 0.16 does not know the member typesize, and finds it in each frame."""
    values = np.arange(12, dtype="<i2")
    blosc = named("blosc", cname="zstd", clevel=5, shuffle="shuffle", blocksize=0, typesize=typesize)
    source = tmp_path / "a.zarr"
    write_group(source)
    write_array(source / "v", values, (6,), [named("bytes", endian="little"), blosc], "int16", 0, 0)
    codecfs("convert", "--format", "zarr", source, tmp_path / "b.zarr")
    m = mount(source)
    encoded = m.path / ".codecfs/view/encoded"
    texts = [(tmp_path / "b.zarr/v/.zarray").read_text(), (encoded / "v/.zarray").read_text(),
             json.loads((encoded / ".zmetadata").read_text())["metadata"]["v/.zarray"]]
    for text in texts:
        found = json.loads(text) if isinstance(text, str) else text
        assert set(found["compressor"]) == {"id", "cname", "clevel", "shuffle", "blocksize"}
    assert (tmp_path / "b.zarr/v/1").read_bytes() == (source / "v/c/1").read_bytes()
    for store in tmp_path / "b.zarr", encoded:
        assert (zarr.open_group(str(store), "r")["v"][...] == values).all()
    # A client with a newer numcodecs writes the member: nothing is stored anew, and v2 stores do not get it.
    before = (source / "v/c/0").read_bytes()
    metadata = json.loads((encoded / "v/.zarray").read_text())
    metadata["compressor"]["typesize"] = 2
    (encoded / "v/.zarray").write_text(json.dumps(metadata))
    zarr.open_group(str(encoded), "r+")["v"][6:] = values[:6]
    m.unmount()
    assert (source / "v/c/0").read_bytes() == before
    assert json.loads((source / "v/zarr.json").read_text())["codecs"][1]["configuration"]["typesize"] == typesize
    m = mount(tmp_path / "b.zarr")
    os.setxattr(m.path / "v", "user._Codecs", json.dumps([named("bytes", endian="little"), {**blosc, "configuration": {
        **blosc["configuration"], "clevel": 7}}]).encode())
    m.unmount()
    assert "typesize" not in (tmp_path / "b.zarr/v/.zarray").read_text()
    assert (zarr.open_group(str(tmp_path / "b.zarr"), "r")["v"][...] == values).all()


def root_array(path, version):
    """As zarr.save makes it: an array without a group. Its values."""
    values = np.arange(12, dtype="<i4").reshape(3, 4)
    if version == 3:
        write_array(path, values, (2, 4), [named("bytes", endian="little")], "int32", 0, 0, attributes={"units": "m"}, names=["y", "x"])
    else:
        array = zarr.open_array(str(path), "w", shape=(3, 4), chunks=(2, 4), dtype="<i4", compressor=numcodecs.Zlib(3))
        array[...] = values
        array.attrs.update({"units": "m", "_ARRAY_DIMENSIONS": ["y", "x"]})
    return values


@pytest.mark.parametrize("version", [2, 3])
def test_an_array_at_the_root_becomes_a_zip_archive(tmp_path, version):
    values = root_array(tmp_path / "a.zarr", version)
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.zip")
    store = zarr.ZipStore(str(tmp_path / "b.zip"), mode="r")
    array = zarr.open(store, "r")
    assert isinstance(array, zarr.Array) and (array[...] == values).all() and array.attrs["units"] == "m"
    assert all(name.strip("/") and not name.startswith("/") for name in zipfile.ZipFile(tmp_path / "b.zip").namelist())
    codecfs("compare", tmp_path / "a.zarr", tmp_path / "b.zip")
    codecfs("convert", tmp_path / "b.zip", tmp_path / "c.zarr")
    assert (zarr.open(str(tmp_path / "c.zarr"), "r")[...] == values).all()


@pytest.mark.parametrize("version", [2, 3])
def test_an_array_at_the_root_gets_a_name_in_hdf5(tmp_path, version):
    values = root_array(tmp_path / "a.zarr", version)
    assert "/a" in codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5").output
    with h5py.File(tmp_path / "b.h5") as f:
        assert (f["a"][...] == values).all() and f["a"].attrs["units"] in ("m", b"m") and [d[0].name for d in f["a"].dims] == ["/y", "/x"]
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "b.h5"]


@pytest.mark.parametrize("dtype, fill, mark", [("<i4", 0, -999), (">i2", 7, -999), ("<f8", "NaN", -1e20), ("<f4", 0.0, float("nan")),
                                               ("|u1", 255, 255), ("<f4", "NaN", float("nan")), ("<i4", None, -1)])
def test_a_fill_attribute_that_is_not_the_fill_value(mount, tmp_path, dtype, fill, mark):
    """HDF5 has both: the value of absent chunks, and the attribute that marks missing data."""
    chunk = np.arange(2).astype(dtype).tobytes()
    source = make_store(tmp_path / "a.zarr", {"v": ({"dtype": dtype, "chunks": [2], "fill_value": fill}, {"_FillValue": mark, "units": "K"}, chunk)})
    codecfs("convert", source, tmp_path / "b.h5")
    wanted = np.load(mount(source, "ro").path / ".codecfs/view/npy/v.npy")
    with h5py.File(tmp_path / "b.h5") as f:
        assert np.array_equal(f["v"][...], wanted, equal_nan=True) and f["v"].attrs["units"] in ("K", b"K")
        assert np.array_equal(np.ravel(f["v"].attrs["_FillValue"]), np.ravel(mark), equal_nan=dtype[1] == "f")
        if fill is not None:
            assert np.array_equal(f["v"].fillvalue, np.dtype(dtype).type(fill), equal_nan=dtype[1] == "f")
    codecfs("compare", source, tmp_path / "b.h5")
