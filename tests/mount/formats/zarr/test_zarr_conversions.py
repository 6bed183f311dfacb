"""Zarr stores with what the other format, or the other version, cannot have as it is: codecs without a filter or a name, levels, names of
chunks, integers of more than 64 bits, deep attributes. zarr-python, numcodecs and h5py judge."""
import ctypes
import ctypes.util
import json
import os
import shutil
import zipfile
import zlib

import h5py
import netCDF4
import numcodecs
import numpy as np
import pytest
import xarray
import zarr
from running import codecfs
from test_zarr_of_others import make_store
from zarr3_stores import named, write_array, write_group

SHAPE, CHUNKS = (6, 5), (4, 5)
NUMBERS = np.arange(30).reshape(SHAPE)
LITTLE = named("bytes", endian="little")


def chain_store(path, chains):
    """`chains`: (type, filters, compressor) by name. Written by zarr-python."""
    group = zarr.open_group(str(path), "w")
    for name, (dtype, filters, compressor) in chains.items():
        group.create_dataset(name, data=NUMBERS.astype(dtype), chunks=CHUNKS, filters=filters, compressor=compressor)
    return {name: group[name][...] for name in chains}


CHAINS = {
    "delta": ("i4", [numcodecs.Delta("i4")], numcodecs.Zlib(3)),
    "narrow": ("i4", [numcodecs.Delta("i4", astype="i2"), numcodecs.Shuffle(2)], numcodecs.Zlib(3)),
    "scaled": ("f8", [numcodecs.FixedScaleOffset(offset=0, scale=10, dtype="f8", astype="i2")], numcodecs.Zlib(2)),
    "bits": ("bool", [numcodecs.PackBits()], None),
    "rounded": ("f4", [numcodecs.BitRound(6)], numcodecs.Zlib(1)),
    "lzma": (">i4", None, numcodecs.LZMA()),
    "checked": ("i4", [numcodecs.CRC32()], numcodecs.Zlib(1)),
    "text": ("i4", [numcodecs.Base64()], None),
    "level": ("i4", None, numcodecs.Zlib(-1)),
}


@pytest.mark.parametrize("version", ["zarr", "zarr3"])
def test_codecs_without_a_filter_are_left_out_in_hdf5(tmp_path, version):
    wanted = chain_store(tmp_path / "first.zarr", CHAINS)
    source = tmp_path / "first.zarr"
    if version == "zarr3":
        source = tmp_path / "second.zarr"
        codecfs("convert", "--format", "zarr3", tmp_path / "first.zarr", source)
    said = codecfs("convert", source, tmp_path / "b.h5").output
    assert "HDF5 has no filter" in said and " variables are stored without codecs" in said, said
    with h5py.File(tmp_path / "b.h5") as f:
        for name, values in wanted.items():
            assert f[name].dtype == values.dtype and (f[name][...] == values).all(), name
        # What HDF5 has of a pipeline is kept.
        assert f["delta"].compression == "gzip" and f["level"].compression == "gzip" and f["level"].compression_opts == 6
    codecfs("compare", source, tmp_path / "b.h5")
    codecfs("convert", "--format", version, tmp_path / "b.h5", tmp_path / "c.zarr")
    codecfs("compare", source, tmp_path / "c.zarr")


def test_a_rule_is_no_wish(tmp_path):
    """A codec that HDF5 lacks is refused where a rule names it."""
    chain_store(tmp_path / "a.zarr", {"v": CHAINS["level"]})
    assert "no filter" in codecfs("convert", "-F", "v,shuffle|lzma", tmp_path / "a.zarr", tmp_path / "b.h5", code=1).output
    assert not (tmp_path / "b.h5").exists()


def codecs_of(path):
    return json.loads((path / "zarr.json").read_text())["codecs"]


def test_codecs_in_the_form_of_v3(mount, tmp_path):
    chains = {name: CHAINS[name] for name in ("rounded", "text", "level")}
    chains["gzip"] = ("i4", None, numcodecs.GZip(-1))
    chains["parts"] = ("c8", [numcodecs.Delta("f4")], numcodecs.Zlib(1))  # as GDAL writes it
    chains["other"] = ("i4", [numcodecs.Delta("u4")], None)
    wanted = chain_store(tmp_path / "a.zarr", chains)
    view = mount(tmp_path / "a.zarr", "ro").path / ".codecfs/view/encoded3"
    codecfs("convert", "--format", "zarr3", tmp_path / "a.zarr", tmp_path / "b.zarr")
    codecfs("compare", tmp_path / "a.zarr", tmp_path / "b.zarr")
    for store in view, tmp_path / "b.zarr":
        # The names that zarr-python has.
        assert codecs_of(store / "rounded")[0] == named("numcodecs.bitround", keepbits=6)
        for name in ("level", "gzip"):
            assert codecs_of(store / name)[-1] == named("gzip", level=6)
        # numcodecs' base64 has no name there, and readers would convert numbers of another type than that of the array.
        for name in ("text", "parts", "other"):
            assert codecs_of(store / name) == [LITTLE], name
            assert (np.fromfile(store / name / "c/0/0", wanted[name].dtype).reshape(CHUNKS) == wanted[name][:4]).all()


def test_v3_names_of_chunks_and_dimensions_that_hdf5_lacks(tmp_path):
    write_group(tmp_path / "a.zarr")
    values = NUMBERS.astype("<i4")
    for name, keys, names in (("dots", named("default", separator="."), None), ("two", named("v2"), ["y", "x"]),
                              ("slashes", named("v2", separator="/"), None), ("half", None, ["y", None])):
        write_array(tmp_path / "a.zarr" / name, values, CHUNKS, [LITTLE, named("gzip", level=1)], "int32", 7, 7, keys, names=names)
    said = codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5").output
    assert "1 variable is stored without names of dimensions, as some have none: /half" in said, said
    with h5py.File(tmp_path / "b.h5") as f:
        for name in ("dots", "two", "slashes", "half"):
            assert (f[name][...] == values).all() and f[name].chunks == CHUNKS and f[name].compression == "gzip", name
            assert f[name].fillvalue == 7, name
        assert [d[0].name for d in f["two"].dims] == ["/y", "/x"] and not any(map(len, f["dots"].dims))


def test_a_fill_text_of_v3_marks_nothing(tmp_path):
    """Beside shards, for which conversions read the view of v2: xarray would take empty texts for missing ones."""
    write_group(tmp_path / "a.zarr")
    texts = np.array(["a", "", "b"], object)
    write_array(tmp_path / "a.zarr/text", texts, (3,), [named("vlen-utf8")], "string", "", "")
    write_array(tmp_path / "a.zarr/other", texts, (2,), [named("vlen-utf8")], "string", "x", "x", attributes={"_FillValue": "x"})
    inner = [LITTLE]
    write_array(tmp_path / "a.zarr/shards", np.arange(8, dtype="<i4"), (4,), [named(
        "sharding_indexed", chunk_shape=[2], codecs=inner, index_codecs=[LITTLE, named("crc32c")])], "int32", 0, 0)
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert "_FillValue" not in f["text"].attrs and [t.decode() for t in f["text"][...]] == list(texts)
        assert "_FillValue" in f["other"].attrs and (f["shards"][...] == np.arange(8)).all()
    codecfs("compare", tmp_path / "a.zarr", tmp_path / "b.h5")


LARGE = {"large": 2**70, "negative": -2**64, "list": [1, 2**65], "object": {"a": [2**64, {"b": -2**63 - 1}]}, "most": 2**64 - 1,
         "float": 1e20, "deep": json.loads("[" * 200 + "1" + "]" * 200)}


@pytest.mark.parametrize("form", ["group", "array", "zarr3"])
def test_integers_are_never_rounded(mount, tmp_path, form):
    source = tmp_path / "a.zarr"
    chunk = np.arange(4, dtype="<i4").tobytes()
    if form == "zarr3":
        write_group(source, attributes=LARGE)
        write_array(source / "v", np.arange(4, dtype="<i4"), (4,), [LITTLE], "int32", 0, 0, attributes=LARGE)
    else:
        make_store(source, {"v": ({}, LARGE, chunk)}, LARGE)
    where = "." if form == "group" else "v"

    def shown(root, version):
        file = root / where / (".zattrs" if version == 2 else "zarr.json")
        return json.loads(file.read_text()) if version == 2 else json.loads(file.read_text())["attributes"]

    m = mount(source)
    for view, version in (("decoded", 2), ("encoded", 2), ("decoded3", 3), ("encoded3", 3)):
        assert shown(m.path / ".codecfs/view" / view, version) == LARGE, view
    assert os.getxattr(m.path / where, "user.large") == b"1180591620717411303424"
    # A change of one attribute keeps the others.
    os.setxattr(m.path / where, "user.new", b"-36893488147419103233")
    m.unmount()
    wanted = {**LARGE, "new": -2**65 - 1}
    assert shown(source, 3 if form == "zarr3" else 2) == wanted
    codecfs("convert", source, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert f[where].attrs["large"] in ("1180591620717411303424", b"1180591620717411303424") and f[where].attrs["float"] == 1e20
        assert json.loads(f[where].attrs["object"]) == LARGE["object"]
    codecfs("compare", source, tmp_path / "b.h5")
    for version, name in ((2, "zarr"), (3, "zarr3")):
        codecfs("convert", "--format", name, tmp_path / "b.h5", tmp_path / name)
        back = shown(tmp_path / name, version)
        back.pop("_codecfs_phony_dimensions", None)
        back.pop("_ARRAY_DIMENSIONS", None)
        back.pop("_FillValue", None)
        assert "<u8" in back.pop("_nc_hdf5_types")  # what HDF5 has "most" in
        assert back == wanted, name


def test_a_large_integer_fits_a_float_of_hdf5(mount, tmp_path):
    """As JavaScript writes 1e20; a number that a float does not hold is not rounded."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["v"] = np.arange(3)
        f["v"].attrs["scale"] = 1.5
    m = mount(tmp_path / "a.h5")
    os.setxattr(m.path / "v", "user.scale", b"100000000000000000000")
    m.unmount()
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["v"].attrs["scale"] == 1e20 and f["v"].attrs["scale"].dtype == "f8"


def test_a_large_fill_value_of_a_float(mount, tmp_path):
    source = make_store(tmp_path / "a.zarr", {"v": ({"dtype": "<f8", "fill_value": 100000000000000000000}, None, None),
                                              "w": ({"dtype": "<i8", "fill_value": 2**70}, None, None)})
    m = mount(source, "ro")
    assert (np.load(m.path / ".codecfs/view/npy/v.npy") == 1e20).all()
    with pytest.raises(OSError):  # not a rounded one
        (m.path / "w/.zarray").read_text()


def test_compare_knows_the_form_of_netcdf(tmp_path):
    """netCDF has neither booleans nor lists of one value, so that a copy in that form differs in the form alone."""
    attributes = {"yes": True, "flags": [True, False], "single": [5], "nothing": "", "word": ["a"]}
    make_store(tmp_path / "a.zarr", {"v": ({}, {**attributes, "_ARRAY_DIMENSIONS": ["x"]}, b"\1\0\0\0" * 4)})
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.nc")
    codecfs("compare", tmp_path / "a.zarr", tmp_path / "b.nc")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file["v"].nothing == "" and file["v"].yes == 1
    codecfs("convert", tmp_path / "b.nc", tmp_path / "c.zarr")
    assert json.loads((tmp_path / "c.zarr/v/.zattrs").read_text())["nothing"] == ""
    for name, value in {"yes": False, "flags": [True, True], "single": [6], "nothing": "a", "word": ["b"]}.items():
        make_store(tmp_path / f"{name}.zarr", {"v": ({}, {**attributes, name: value, "_ARRAY_DIMENSIONS": ["x"]}, b"\1\0\0\0" * 4)})
        assert name in codecfs("compare", tmp_path / f"{name}.zarr", tmp_path / "b.nc", code=2).output
    # In other HDF5 files they are different.
    with h5py.File(tmp_path / "d.h5", "w") as f:
        f["v"] = np.ones(4, "i4")
        f["v"].attrs.update({"yes": 1, "flags": [True, False], "single": [5], "nothing": "", "word": ["a"]})
    assert "yes" in codecfs("compare", tmp_path / "a.zarr", tmp_path / "d.h5", code=2).output


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("form", ["nc", "nczarr"])
def test_booleans_of_netcdf(tmp_path, version, form):
    """In xarray's form, as netCDF-C skips an enumeration. Absent chunks are read by netCDF4, as xarray's readers mask none of them."""
    values = np.array([[True, False], [False, False], [True, True]])
    chunks = (1, 2)
    if version == 2:
        group = zarr.open_group(str(tmp_path / "a.zarr"), "w")
        for name, fill in {"flag": False, "set": True, "none": None}.items():
            array = group.create_dataset(name, shape=values.shape, dtype="?", chunks=chunks, fill_value=fill,
                                         compressor=numcodecs.Zlib(1) if form == "nc" else None)
            array[0], array[2] = values[0], values[2]
            array.attrs.update({"_ARRAY_DIMENSIONS": ["y", "x"], "units": "1"})
            if fill is None:
                array[1] = values[1]
    else:
        write_group(tmp_path / "a.zarr")
        for name, fill in {"flag": False, "set": True}.items():
            expected = values if not fill else np.vstack([values[:1], [[True, True]], values[2:]])
            write_array(tmp_path / "a.zarr" / name, expected, chunks, [named("bytes")], "bool", fill, fill, names=["y", "x"],
                        attributes={"units": "1"})
    names = ["flag", "set"] + ["none"] * (version == 2)
    made = tmp_path / f"b.{form}"
    codecfs("convert", *(["--format", "nczarr"] if form == "nczarr" else []), tmp_path / "a.zarr", made)
    path = f"file://{made}#mode=nczarr,file" if form == "nczarr" else made
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        for name in names:
            expected = values.copy()
            if name == "set":
                expected[1] = True
            assert file[name].dtype == "i1" and file[name].dtype.itemsize == 1 and file[name].units == "1", name
            assert (file[name][...] == expected).all() and "_FillValue" not in file[name].ncattrs(), name
    with xarray.open_dataset(made, engine="netcdf4") if form == "nc" else xarray.open_zarr(made, consolidated=False) as dataset:
        for name in names:
            assert dataset[name].dtype == bool and dataset[name].attrs["units"] == "1", name
        assert (dataset["flag"].values == values).all() and dataset["set"].values[1].all()
    codecfs("compare", tmp_path / "a.zarr", made)
    chunk = tmp_path / "a.zarr/flag" / ("2.0" if version == 2 else "c/2/0")
    chunk.write_bytes(zlib.compress(b"\1\0") if version == 2 and form == "nc" else b"\1\0")
    assert "1 element differs" in codecfs("compare", tmp_path / "a.zarr", made, code=2).output
    # In HDF5 files of other names they stay what h5py takes for booleans, and xarray is told by its attribute.
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert f["set"].dtype == bool and f["set"][1].all() and f["set"].attrs["dtype"] in ("bool", b"bool")
    codecfs("compare", tmp_path / "a.zarr", tmp_path / "b.h5")
    codecfs("convert", tmp_path / "b.h5", tmp_path / "back.zarr")
    back = zarr.open_group(str(tmp_path / "back.zarr"), "r")["set"]
    assert back.dtype == bool and "dtype" not in back.attrs and back.attrs["units"] == "1"


@pytest.mark.parametrize("form", ["zarr", "zip", "nczarr"])
def test_zstd_frames_without_their_size(tmp_path, form):
    """Streaming encoders write them. numcodecs before 0.16, which readers of v2 have, does not decode them."""
    library = ctypes.CDLL(ctypes.util.find_library("zstd"))
    library.ZSTD_getFrameContentSize.restype = ctypes.c_uint64

    def size_of(frame):
        return library.ZSTD_getFrameContentSize(frame, ctypes.c_size_t(len(frame)))

    values = np.arange(12, dtype="<i4")
    whole = numcodecs.Zstd(3).encode(values[6:].tobytes())
    unsized = bytes([0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58]) + (24 << 3 | 1).to_bytes(3, "little") + values[:6].tobytes()
    assert size_of(unsized) == 2**64 - 1 and size_of(whole) == 24
    store = tmp_path / "a.zarr"
    (store / "v/c").mkdir(parents=True)
    (store / "v/c/0").write_bytes(unsized)
    (store / "v/c/1").write_bytes(whole)
    (store / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}))
    (store / "v/zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": [12], "data_type": "int32", "fill_value": 0, "dimension_names": ["x"],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [6]}}, "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
                   {"name": "zstd", "configuration": {"level": 3, "checksum": False}}]}))
    codecfs("convert", "--format", form, store, tmp_path / "b")
    if form == "zip":
        zipfile.ZipFile(tmp_path / "b").extractall(tmp_path / "c")
        (tmp_path / "b").unlink()
        (tmp_path / "c").rename(tmp_path / "b")
    chunks = [(tmp_path / f"b/v/{number}").read_bytes() for number in range(2)]
    assert size_of(chunks[0]) == 24 and chunks[1] == whole
    assert zarr.open_array(str(tmp_path / "b/v"), mode="r")[...].tolist() == values.tolist()
    codecfs("convert", "--format", "zarr3", store, tmp_path / "d")
    assert (tmp_path / "d/v/c/0").read_bytes() == unsized


def test_fill_values_come_back_from_v2(tmp_path):
    """In v2, xarray masks the elements that equal the fill value, so that it is shown there only if it marks missing data."""
    fills = {"f": ("<f4", -1), "nan": ("<f8", np.nan), "big": (">i8", 7), "flag": ("?", True), "none": ("<u2", 0)}
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name, (dtype, fill) in fills.items():
            f.create_dataset(name, (4, 5), dtype, chunks=(2, 5), fillvalue=fill)[0] = np.zeros(5, dtype)
    for source, target, form in ("a.h5", "b", "zarr3"), ("a.h5", "c", "zarr"), ("c", "d.h5", "hdf5"), ("c", "e", "zarr3"):
        codecfs("convert", "--format", form, tmp_path / source, tmp_path / target)
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "d.h5") as d:
        for name in fills:
            assert a[name].dtype == d[name].dtype and np.array(a[name].fillvalue).tobytes() == np.array(d[name].fillvalue).tobytes()
            assert a[name][...].tobytes() == d[name][...].tobytes() == zarr.open_array(str(tmp_path / "c" / name))[...].tobytes()
            assert json.loads((tmp_path / "c" / name / ".zarray").read_text())["fill_value"] is None
            described = [json.loads((tmp_path / store / name / "zarr.json").read_text()) for store in "be"]
            assert described[0] == described[1]
    # Notes are of other programs, too: one that makes no sense changes nothing.
    for text in '{"fill": "x"}', '{"fill": {}}', "[", '{"fill": [1, 2]}':
        (tmp_path / "c/f/.zattrs").write_text(json.dumps({"_nc_hdf5_types": text, "_ARRAY_DIMENSIONS": ["y", "x"]}))
        shutil.rmtree(tmp_path / "e")
        codecfs("convert", "--format", "zarr3", tmp_path / "c", tmp_path / "e")
        described = json.loads((tmp_path / "e/f/zarr.json").read_text())
        assert described["fill_value"] == 0 and described["attributes"] == {"_nc_hdf5_types": text}


def test_a_boolean_fill_value_that_is_not_that_of_chunks(tmp_path):
    group = zarr.open_group(str(tmp_path / "a.zarr"), "w")
    group.create_dataset("b", data=np.array([True, False, True]), chunks=2, fill_value=False).attrs["_FillValue"] = 1
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert f["b"][...].tolist() == [True, False, True] and f["b"].fillvalue == 0 and f["b"].attrs["_FillValue"] == 1
