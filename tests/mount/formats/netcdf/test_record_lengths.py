"""netCDF-4 files whose record variables hold different numbers of records: every view shows the length of the dimension,
with fill beyond what is stored, as netCDF does. netCDF4-python reads the file itself to judge."""
import json
import os

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr
from running import run

FILL = -9.0


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "records.nc"
    with netCDF4.Dataset(path, "w") as root:
        root.createDimension("time", None)
        root.createDimension("member", None)  # no variable, and not the first dimension of those that have it
        root.createDimension("x", 3)
        root.createVariable("time", "f8", ("time",), chunksizes=(4,))[:3] = [10, 20, 30]
        root.createVariable("a", "i4", ("time", "x"), zlib=True, chunksizes=(1, 3))[:9] = np.arange(27).reshape(9, 3)
        root.createVariable("b", "f4", ("time", "x"), zlib=True, shuffle=True, chunksizes=(4, 2), fill_value=FILL)[:2] = np.ones((2, 3))
        root.createVariable("never", "i2", ("time",), chunksizes=(2,))
        root.createVariable("s", str, ("time",), chunksizes=(4,))[:2] = np.array(["one", "two"], dtype=object)
        root.createVariable("c", "i2", ("x", "member"), zlib=True, chunksizes=(2, 4))[:, :5] = np.arange(15).reshape(3, 5)
        root.createVariable("d", "i2", ("x", "member"), zlib=True, shuffle=True, chunksizes=(2, 4))[:, :2] = np.arange(6).reshape(3, 2)
        root.createGroup("g").createVariable("e", "u1", ("time",), fill_value=7, chunksizes=(4,))[:1] = [1]
    return path


NAMES = ["time", "a", "b", "never", "s", "c", "d", "g/e"]
SHAPES = {"time": (9,), "a": (9, 3), "b": (9, 3), "never": (9,), "s": (9,), "c": (3, 5), "d": (3, 5), "g/e": (9,)}


def netcdf_values(path):
    with netCDF4.Dataset(path) as root:
        root.set_auto_mask(False)
        root["g"].set_auto_mask(False)
        # Column by column: netCDF-C (4.9.0) misplaces the fill of a request that reaches over the end of what is stored
        # in a dimension that is not the first.
        columns = {name: np.stack([root[name][:, i] for i in range(root[name].shape[1])], 1) for name in ("c", "d")}
        return {name: columns[name] if name in columns else root[name][...] for name in NAMES}


def stored_shapes(path):
    with h5py.File(path, "r") as file:
        return {name: file[name].shape for name in NAMES}


def check_views(mount, expected):
    """All views against the same values."""
    told = json.loads((mount.path / ".zmetadata").read_text())["metadata"]
    for root in (mount.path, mount.path / ".codecfs/view/encoded"):
        group = zarr.open_group(str(root), "r")
        for name, values in expected.items():
            where = f"{root}/{name}"
            zarray = json.loads((root / name / ".zarray").read_text())
            assert tuple(zarray["shape"]) == values.shape == tuple(told[f"{name}/.zarray"]["shape"]), where
            assert np.array_equal(group[name][...], values), where
            cells = [-(-length // chunk) for length, chunk in zip(values.shape, zarray["chunks"])]
            names = {".".join(map(str, at)) for at in np.ndindex(*cells)}
            listed = {entry for entry in os.listdir(root / name) if entry[0] not in "._"}
            assert listed == names if zarray["fill_value"] is None else listed <= names, where
    for name, values in expected.items():
        if values.dtype == object:
            continue
        npy = np.load(mount.path / f".codecfs/view/npy/{name}.npy", mmap_mode="r")
        assert np.array_equal(npy, values), name
        raw = np.fromfile(mount.path / f".codecfs/view/raw/{name}", values.dtype)
        assert np.array_equal(raw.reshape(values.shape), values), name


def test_every_view_has_the_length_of_the_dimension(mount, source):
    expected = netcdf_values(source)
    assert {name: values.shape for name, values in expected.items()} == SHAPES
    before = source.read_bytes()
    m = mount(source)
    check_views(m, expected)
    # The readers that refuse arrays of different lengths.
    with xarray.open_dataset(source, mask_and_scale=False) as theirs:
        ours = xarray.open_zarr(m.path, mask_and_scale=False).load()
        xarray.testing.assert_equal(ours.drop_vars("d"), theirs.load().drop_vars("d"))  # for d see netcdf_values()
        assert np.array_equal(ours["d"], expected["d"])
    m.close()
    assert source.read_bytes() == before


def test_netcdf_c_reads_the_mount(mount, source):
    with h5py.File(source, "r+") as file:
        del file["s"]  # it has no strings in Zarr
    m = mount(source)
    dump = run("ncdump", f"file://{m.path}#mode=zarr,file").stdout
    for text in ("\ttime = 9 ;", "\tmember = 5 ;", " d =\n  0, 1, _, _, _,\n  2, 3, _, _, _,", " time = 10, 20, 30, _, _, _, _, _, _ ;"):
        assert text in dump, (text, dump)


def test_writing_beyond_what_is_stored(mount, source):
    expected = netcdf_values(source)
    m = mount(source)
    decoded = zarr.open_group(str(m.path), "r+")
    encoded = zarr.open_group(str(m.path / ".codecfs/view/encoded"), "r+")
    # All strings that are missing: libhdf5 1.10 cannot read across absent chunks of strings that have a fill value.
    decoded["s"][2:9] = expected["s"][2:9] = np.array(["three", "", "", "", "", "", "nine"], dtype=object)
    for name, at, value, group in (("b", (8, 1), 5.0, decoded), ("never", 3, 77, decoded),
                                   ("d", (2, 4), 55, encoded), ("time", 8, 90.0, encoded)):
        group[name][at] = value
        expected[name][at] = value
    npy = np.load(m.path / ".codecfs/view/npy/g/e.npy", mmap_mode="r+")
    npy[6] = expected["g/e"][6] = 66
    npy.flush()
    del npy
    check_views(m, expected)
    with open(m.path / "b/2.0", "rb") as chunk:
        os.fsync(chunk.fileno())
    m.close()
    assert stored_shapes(source) == SHAPES  # each in the file as well
    after = netcdf_values(source)
    for name, values in expected.items():
        assert np.array_equal(after[name], values), name
    check_views(mount(source), expected)


def test_a_chunk_within_what_is_stored_changes_no_length(mount, source):
    m = mount(source)
    before = stored_shapes(source)
    zarr.open_group(str(m.path), "r+")["a"][2] = 0
    m.close()
    assert stored_shapes(source) == before


def test_what_a_chunk_holds_beyond_its_records_is_not_shown(mount, source):
    """Other programs leave anything there (H5Dwrite_chunk, H5D_FILL_TIME_NEVER)."""
    with h5py.File(source, "r+") as file:
        file["d"].id.write_direct_chunk((0, 0), b"\x11" * 16, 3)
        assert file["d"][0, 1] == 0x1111
    expected = netcdf_values(source)
    assert expected["d"][0, 3] != 0x1111
    m = mount(source)
    check_views(m, expected)
    zarr.open_group(str(m.path), "r+")["d"][2, 4] = expected["d"][2, 4] = 3
    check_views(m, expected)
    m.close()
    assert np.array_equal(netcdf_values(source)["d"], expected["d"])


def test_another_chain(mount, source):
    expected = netcdf_values(source)
    m = mount(source)
    for name in ("b", "never", "d", "g/e"):
        os.setxattr(m.path / name, "user._Filter", b"1,3")
    check_views(m, expected)
    m.close()
    after = netcdf_values(source)
    assert all(np.array_equal(after[name], values) for name, values in expected.items())


def test_a_variable_that_grows_or_shrinks(mount, source):
    """A writer of Zarr resizes array by array, each from the shape that it finds: the others stay until the next mount."""
    m = mount(source)
    more = xarray.Dataset({"c": (("x", "member"), np.full((3, 2), 6, "i2")), "d": (("x", "member"), np.full((3, 2), 8, "i2"))})
    more.to_zarr(m.path, append_dim="member", consolidated=False)
    group = zarr.open_group(str(m.path), "r+")
    group["b"].resize(12, 3)
    group["b"][11] = 4
    group["never"].resize(5)
    assert group["a"].shape == (9, 3) and group["time"].shape == (9,)
    m.close()
    expected = netcdf_values(source)
    assert expected["b"].shape == (12, 3) and (expected["b"][2:11] == FILL).all() and (expected["b"][11] == 4).all()
    assert expected["never"].shape == (12,)
    assert expected["c"].shape == (3, 7) and expected["d"].shape == (3, 7)
    assert (expected["c"][:, 5:] == 6).all() and (expected["d"][:, 5:] == 8).all() and expected["c"][2, 4] == 14
    check_views(mount(source), expected)


def test_other_dimensions_change_no_shape(mount, source):
    m = mount(source)
    attributes = json.loads((m.path / "d/.zattrs").read_text())
    attributes["_ARRAY_DIMENSIONS"] = ["x", "draw"]
    (m.path / "d/.zattrs").write_text(json.dumps(attributes))
    assert json.loads((m.path / "d/.zarray").read_text())["shape"] == [3, 5]
    m.close()
    with netCDF4.Dataset(source) as root:
        assert root["d"].dimensions == ("x", "draw") and root["d"].shape == (3, 5)


def test_a_new_variable_has_the_dimension_of_its_length(mount, source):
    """Also where that is of a group above, and stored shorter (time) or nowhere (member)."""
    m = mount(source)
    group = zarr.open_group(str(m.path), "r+")["g"]
    new = group.create_dataset("new", data=np.arange(45).reshape(9, 5), compressor=None, chunks=(3, 5))
    new.attrs["_ARRAY_DIMENSIONS"] = ["time", "member"]
    m.close()
    with netCDF4.Dataset(source) as root:
        assert root["g/new"].dimensions == ("time", "member") and not root["g"].dimensions
        assert np.array_equal(root["g/new"][...], np.arange(45).reshape(9, 5))


def test_files_that_are_not_netcdf(mount, tmp_path):
    """HDF5 has no such rule."""
    path = tmp_path / "plain.h5"
    with h5py.File(path, "w") as file:
        file["t"] = np.arange(4)
        for name, length in (("a", 4), ("b", 2)):
            file.create_dataset(name, data=np.arange(length), maxshape=(None,), chunks=(2,))
            file[name].dims[0].attach_scale(file["t"]) if name == "a" else None
        file.create_dataset("u", (4,), maxshape=(None,), chunks=(2,)).make_scale("u")
        file["b"].dims[0].attach_scale(file["u"])
    m = mount(path)
    assert zarr.open_group(str(m.path), "r")["b"].shape == (2,)
