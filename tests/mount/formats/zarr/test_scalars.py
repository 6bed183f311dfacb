"""Scalars in Zarr: with a compressor, as zarr-python 3, xarray and AnnData write them, and their dimensions, of which there are none.
zarr-python, numcodecs, xarray and h5py judge."""
import json

import h5py
import numcodecs
import numpy as np
import pytest
import xarray
import zarr
from running import codecfs
from zarr3_stores import named, write_array, write_group

LITTLE = named("bytes", endian="little")
COMPRESSORS = {"blosc": numcodecs.Blosc("zstd", 3, 2), "zlib": numcodecs.Zlib(4), "gzip": numcodecs.GZip(2), "lzma": numcodecs.LZMA(),
               "zstd": numcodecs.Zstd(2), "bz2": numcodecs.BZ2(3), "lz4": numcodecs.LZ4()}


def write_scalar(path, value, codec, filters=(), attributes=None, **more):
    """As zarr-python 3 does; zarr-python 2 compresses none."""
    path.mkdir(parents=True, exist_ok=True)
    value = np.asarray(value)
    metadata = {"zarr_format": 2, "shape": [], "chunks": [], "dtype": value.dtype.str, "fill_value": None, "order": "C",
                "compressor": codec.get_config(), "filters": [one.get_config() for one in filters] or None, **more}
    (path / ".zarray").write_text(json.dumps(metadata))
    (path / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": [], **(attributes or {})}))
    chunk = value.reshape(1)
    for one in [*filters, codec]:
        chunk = one.encode(chunk)
    (path / "0").write_bytes(bytes(chunk))


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_compressed_scalars_become_hdf5(mount, tmp_path, compressor):
    codec = COMPRESSORS[compressor]
    source = tmp_path / "a.zarr"
    zarr.open_group(str(source), "w").create_dataset("x", data=np.arange(3), compressor=None)
    for name, value in {"number": np.float64(2.5), "count": np.int16(-7), "big": np.array(6, ">u4"), "flag": np.bool_(True)}.items():
        write_scalar(source / name, value, codec, attributes={"units": "m"})
    text = np.empty(1, object)
    text[0] = "a t\u00ebxt"
    write_scalar(source / "name", np.int8(0), codec)
    metadata = json.loads((source / "name/.zarray").read_text())
    (source / "name/.zarray").write_text(json.dumps({**metadata, "dtype": "|O", "filters": [{"id": "vlen-utf8"}], "fill_value": ""}))
    (source / "name/0").write_bytes(bytes(codec.encode(numcodecs.VLenUTF8().encode(text))))
    write_scalar(source / "filtered", np.int32(9), codec, filters=[numcodecs.Delta("<i4"), numcodecs.Shuffle(4)])
    write_scalar(source / "unset", np.float32(1), codec, fill_value=3.0)
    (source / "unset/0").unlink()
    wanted = {"number": 2.5, "count": -7, "big": 6, "flag": True, "name": "a t\u00ebxt", "filtered": 9, "unset": 3, "x": None}
    group = zarr.open_group(str(source), "r")
    assert all(group[name][()] == value for name, value in wanted.items() if value is not None)
    codecfs("convert", source, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as f:
        assert set(f) == set(wanted)
        for name, value in wanted.items():
            if value is not None:
                assert f[name].shape == () and (f[name].asstr()[()] if name == "name" else f[name][()]) == value, name
        assert list(f["number"].attrs) == ["units"]
    codecfs("compare", source, tmp_path / "b.h5")
    codecfs("convert", tmp_path / "b.h5", tmp_path / "c.zarr")
    for store in tmp_path / "c.zarr", mount(source, "ro").path / ".codecfs/view/encoded":
        back = zarr.open_group(str(store), "r")
        assert all(back[name][()] == value for name, value in wanted.items() if value is not None)


@pytest.mark.parametrize("existing", [False, True])
def test_clients_write_compressed_scalars_into_hdf5(mount, tmp_path, existing):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.arange(3)
        if existing:
            f["s"] = 1.5
    m = mount(tmp_path / "a.h5", "view=encoded")
    write_scalar(m.path / "s", 2.5, numcodecs.Zlib(4), attributes={"units": "m"})
    assert json.loads((m.path / "s/.zarray").read_text())["compressor"] == {"id": "zlib", "level": 4}
    for view in "encoded", "decoded":
        assert zarr.open_group(str(m.path / ".codecfs/view" / view), "r")["s"][()] == 2.5
    m.unmount()
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["s"][()] == 2.5 and f["s"].attrs["units"] == "m" and f["s"].shape == () and f["s"].chunks is None
    m = mount(tmp_path / "a.h5", "view=encoded")
    assert zarr.open_group(str(m.path), "r")["s"][()] == 2.5


def test_a_scalar_in_hdf5_gets_another_compressor(mount, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["s"] = 1.5
    m = mount(tmp_path / "a.h5", "view=encoded")
    for value, codec in enumerate([numcodecs.Zlib(1), numcodecs.Blosc("lz4"), None]):
        metadata = json.loads((m.path / "s/.zarray").read_text())
        (m.path / "s/.zarray").write_text(json.dumps({**metadata, "compressor": codec.get_config() if codec else None}))
        array = zarr.open_group(str(m.path), "r+")["s"]
        assert array.compressor == codec and array[()] == (value or 1.5)
        array[...] = value + 1
        assert array[()] == value + 1
    m.unmount()
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["s"][()] == 3


def test_a_codec_that_nobody_has_is_refused(mount, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.arange(3)
    m = mount(tmp_path / "a.h5", "view=encoded")
    with pytest.raises(OSError):
        write_scalar(m.path / "s", 2.5, numcodecs.Zlib(4), compressor={"id": "no-such-codec"})


def test_xarray_reads_what_comes_back(tmp_path):
    source = tmp_path / "a.zarr"
    dataset = xarray.Dataset({"v": ("x", np.arange(4.0)), "crs": ((), np.int32(5))}, {"height": 2.5})
    dataset.to_zarr(str(source))
    (source / ".zmetadata").unlink()
    for name in "crs", "height":
        write_scalar(source / name, dataset[name].values, numcodecs.Blosc(), attributes=json.loads((source / name / ".zattrs").read_text()))
    xarray.testing.assert_identical(xarray.open_zarr(str(source), consolidated=False).load(), dataset)
    codecfs("convert", source, tmp_path / "b.nc")
    xarray.testing.assert_identical(xarray.open_dataset(tmp_path / "b.nc", engine="netcdf4").load(), dataset)
    codecfs("convert", tmp_path / "b.nc", tmp_path / "c.zarr")
    xarray.testing.assert_identical(xarray.open_zarr(str(tmp_path / "c.zarr")).load(), dataset)


@pytest.mark.parametrize("named_dimensions", [False, True])
def test_scalars_of_v3_in_v2(mount, tmp_path, named_dimensions):
    """zarr-python 3 gives a scalar no dimension_names; xarray opens a v2 store only if each array has _ARRAY_DIMENSIONS."""
    source = tmp_path / "a.zarr"
    write_group(source)
    write_array(source / "x", np.arange(3, dtype="<i4"), (3,), [LITTLE], "int32", 0, 0, names=["x"])
    write_array(source / "crs", np.array(5, "<i4"), (), [LITTLE, named("gzip", level=1)], "int32", 0, 0,
                **({"dimension_names": []} if named_dimensions else {}))
    codecfs("convert", "--format", "zarr", source, tmp_path / "b.zarr")
    m = mount(source)
    for store in tmp_path / "b.zarr", m.path / ".codecfs/view/decoded", m.path / ".codecfs/view/encoded":
        assert json.loads((store / "crs/.zattrs").read_text())["_ARRAY_DIMENSIONS"] == []
        found = xarray.open_zarr(str(store), decode_cf=False).load()
        assert found["crs"].dims == () and found["crs"] == 5 and (found["x"] == np.arange(3)).all()
    before = (source / "crs/zarr.json").read_text()
    attributes = m.path / ".codecfs/view/decoded/crs/.zattrs"
    attributes.write_text(attributes.read_text())
    assert (source / "crs/zarr.json").read_text() == before
    codecfs("compare", source, tmp_path / "b.zarr")
    codecfs("convert", source, tmp_path / "c.h5")
    with h5py.File(tmp_path / "c.h5") as f:
        assert f["crs"][()] == 5 and not f["crs"].attrs


def test_typesize_of_blosc_is_not_shown_in_v2(mount, tmp_path):
    """numcodecs 0.16 writes it; older ones and tensorstore refuse it. The same .zarray again changes nothing."""
    with h5py.File(tmp_path / "a.h5", "w"):
        pass
    m = mount(tmp_path / "a.h5", "view=encoded")
    codec = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0, "typesize": 8}
    text = json.dumps({"zarr_format": 2, "shape": [], "chunks": [], "dtype": "<f8", "order": "C", "fill_value": 0, "filters": None,
                       "compressor": codec})
    (m.path / "v").mkdir()
    for _ in range(2):
        (m.path / "v/.zarray").write_text(text)
        told = json.loads((m.path / "v/.zarray").read_text())["compressor"]
        assert told == {key: value for key, value in codec.items() if key != "typesize"}
        zarr.open(str(m.path / "v"), mode="r+")[...] = 2.5
    m.unmount()
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["v"][()] == 2.5


@pytest.mark.parametrize("value", [-1, 1e20, "text"])
def test_a_fill_attribute_that_does_not_fit_makes_no_array_fail(mount, tmp_path, value):
    """Of uint8, in a .zattrs that comes before .zarray."""
    with h5py.File(tmp_path / "a.h5", "w"):
        pass
    m = mount(tmp_path / "a.h5", "view=encoded")
    (m.path / "v").mkdir()
    (m.path / "v/.zattrs").write_text(json.dumps({"_FillValue": value, "units": "m"}))
    (m.path / "v/.zarray").write_text(json.dumps(
        {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "|u1", "order": "C", "fill_value": 0, "filters": None, "compressor": None}))
    (m.path / "v/0").write_bytes(b"\1\2")
    m.unmount()
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["v"][...].tolist() == [1, 2, 0, 0] and f["v"].attrs["units"] in ("m", b"m")
