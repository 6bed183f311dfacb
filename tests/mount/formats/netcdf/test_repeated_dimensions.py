"""Arrays that have a dimension twice, as covariances have. netCDF and Zarr v2 take the name twice; tensorstore opens no array of Zarr
v3 that does. There it is null the second time, and an attribute has all names. tensorstore, xarray and netCDF4 are the judges."""
import json
import os
import shutil

import netCDF4
import numpy as np
import pytest
import zarr
from running import codecfs, run
from venvs import python_of


VALUES = np.arange(9, dtype="f4").reshape(3, 3)
CUBE = np.arange(18, dtype="i2").reshape(3, 2, 3)


def make_netcdf(path):
    with netCDF4.Dataset(path, "w") as f:
        f.createDimension("x", 3)
        f.createDimension("y", 2)
        group = f.createGroup("g")
        f.createVariable("cov", "f4", ("x", "x"), chunksizes=(2, 3), zlib=True, shuffle=False)[:] = VALUES
        group.createVariable("cube", "i2", ("x", "y", "x"))[:] = CUBE
        f["cov"].units = "m2"
    return path


def make_zarr(path):
    root = zarr.open_group(str(path), "w")
    for name, values, dimensions in ("cov", VALUES, ["x", "x"]), ("g/cube", CUBE, ["x", "y", "x"]):
        array = root.create_dataset(name, data=values, chunks=(2,) + values.shape[1:])
        array.attrs["_ARRAY_DIMENSIONS"] = dimensions
    root["cov"].attrs["units"] = "m2"
    return path


SOURCES = {"nc": make_netcdf, "zarr": make_zarr}


def opened_by_tensorstore(group):
    """The names and the sum of each array."""
    program = """if True:
        import json, sys, tensorstore
        told = {}
        for name in "cov", "g/cube":
            spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{sys.argv[1]}/{name}"}}
            array = tensorstore.open(spec, read=True).result()
            told[name] = [list(array.domain.labels), int(array.read().result().sum())]
        print(json.dumps(told))"""
    return json.loads(run(python_of("tensorstore"), "-c", program, group).stdout)


def opened_by_xarray(group):
    program = """if True:
        import json, sys, warnings, xarray
        warnings.simplefilter("error")
        cov = xarray.open_zarr(sys.argv[1], consolidated=False)["cov"]
        print(json.dumps([cov.dims, int(cov.sum()), cov.attrs["units"]]))"""
    return json.loads(run(python_of("mount-tests"), "-c", program, group).stdout)


def check_v3(group):
    assert opened_by_tensorstore(group) == {"cov": [["x", ""], 36], "g/cube": [["x", "y", ""], int(CUBE.sum())]}
    assert opened_by_xarray(group) == [["x", None], 36, "m2"]
    assert metadata(group / "cov")["attributes"]["_ARRAY_DIMENSIONS"] == ["x", "x"]


def check_netcdf(path):
    with netCDF4.Dataset(path) as f:
        assert (f["cov"].dimensions, f["g/cube"].dimensions) == (("x", "x"), ("x", "y", "x"))
        assert (f["cov"][:] == VALUES).all() and (f["g/cube"][:] == CUBE).all()
        assert f["cov"].ncattrs() == ["units"]


def check_zarr(path):
    root = zarr.open_group(str(path), "r")
    assert root["cov"].attrs.asdict() == {"_ARRAY_DIMENSIONS": ["x", "x"], "units": "m2"}
    assert root["g/cube"].attrs["_ARRAY_DIMENSIONS"] == ["x", "y", "x"] and (root["cov"][:] == VALUES).all()


def metadata(array):
    return json.loads((array / "zarr.json").read_text())


@pytest.mark.parametrize("kind", SOURCES)
def test_views_and_copies(mount, tmp_path, kind):
    source = SOURCES[kind](tmp_path / f"s.{kind}")
    m = mount(source)
    for view in "decoded3", "encoded3":
        check_v3(m.path / ".codecfs/view" / view)
    check_zarr(m.path / ".codecfs/view/encoded")
    m.unmount()
    codecfs("convert", "--format", "zarr3", source, tmp_path / "b.zarr")
    check_v3(tmp_path / "b.zarr")
    told = codecfs("convert", tmp_path / "b.zarr", tmp_path / "c.nc").output
    assert "names" not in told
    check_netcdf(tmp_path / "c.nc")
    codecfs("convert", "--format", "zarr", tmp_path / "b.zarr", tmp_path / "d.zarr")
    check_zarr(tmp_path / "d.zarr")
    codecfs("convert", "--format", "zarr3", tmp_path / "b.zarr", tmp_path / "e.zarr")
    check_v3(tmp_path / "e.zarr")
    for copy in "b.zarr", "c.nc", "d.zarr", "e.zarr":
        codecfs("compare", source, tmp_path / copy)
    with netCDF4.Dataset(tmp_path / "c.nc", "a") as f:
        f.renameDimension("x", "z")
    done = codecfs("compare", tmp_path / "b.zarr", tmp_path / "c.nc", code=2)
    assert '["x", "x"], ["z", "z"]' in done.stdout


def test_copies_into_mounts(mount, tmp_path):
    """cp -r of a copy in Zarr v3 into a new HDF5 file, and of a store of Zarr v2 into a new one of v3."""
    codecfs("convert", "--format", "zarr3", make_netcdf(tmp_path / "a.nc"), tmp_path / "b.zarr")
    m = mount(tmp_path / "c.nc", "create=hdf5,view=encoded3")
    shutil.copytree(tmp_path / "b.zarr", m.path, dirs_exist_ok=True)
    m.unmount()
    check_netcdf(tmp_path / "c.nc")
    m = mount(tmp_path / "d.zarr", "create=zarr3,view=decoded3")
    shutil.copytree(make_zarr(tmp_path / "e.zarr"), m.path / ".codecfs/view/encoded", dirs_exist_ok=True)
    m.unmount()
    check_v3(tmp_path / "d.zarr")


def test_changes_in_views_of_v3(mount, tmp_path):
    source = make_netcdf(tmp_path / "a.nc")
    m = mount(source, "view=decoded3")
    text = metadata(m.path / "cov")
    for attributes in ({**text["attributes"], "more": 1}, {"units": "m2", "more": 2}):
        (m.path / "cov/zarr.json").write_text(json.dumps({**text, "attributes": attributes}))
        assert metadata(m.path / "cov")["attributes"] == {**attributes, "_ARRAY_DIMENSIONS": ["x", "x"]}
    with pytest.raises(OSError):  # of one dimension only
        (m.path / "cov/zarr.json").write_text(json.dumps({**text, "dimension_names": [None, "y"]}))
    m.unmount()
    with netCDF4.Dataset(source) as f:
        assert f["cov"].dimensions == ("x", "x") and f["cov"].more == 2
    source = make_zarr(tmp_path / "b.zarr")
    m = mount(source, "view=decoded3")
    text = metadata(m.path / "cov")
    (m.path / "cov/zarr.json").write_text(json.dumps({**text, "dimension_names": ["z", "x"]}))
    assert metadata(m.path / "cov")["dimension_names"] == ["z", "x"]
    assert metadata(m.path / "cov")["attributes"] == {"units": "m2"}
    text["attributes"]["_ARRAY_DIMENSIONS"] = ["x", "y"]
    (m.path / "cov/zarr.json").write_text(json.dumps(text))
    m.unmount()
    assert zarr.open_group(str(source), "r")["cov"].attrs.asdict() == {"units": "m2", "_ARRAY_DIMENSIONS": ["x", "y"]}


@pytest.mark.parametrize("names, listed", [(["x", "x"], None), (["x", "x"], ["x", "x"]), (["x", None], ["x", "x"]), (["x", None], ["a", "b"]),
                                           (None, ["a", "b"])])
def test_stores_of_v3_keep_what_they_have(mount, tmp_path, names, listed):
    store = tmp_path / "s"
    codecfs("convert", "--format", "zarr3", make_zarr(tmp_path / "a.zarr"), store)
    text = metadata(store / "cov")
    del text["dimension_names"], text["attributes"]["_ARRAY_DIMENSIONS"]
    text["attributes"] |= {"_ARRAY_DIMENSIONS": listed} if listed else {}
    text |= {"dimension_names": names} if names else {}
    (store / "cov/zarr.json").write_text(json.dumps(text))
    codecfs("convert", "--format", "zarr3", store, tmp_path / "b.zarr")
    m = mount(store)
    os.setxattr(m.path / "cov", "user.more", b"1")
    zattrs = m.path / ".codecfs/view/decoded/cov/.zattrs"
    zattrs.write_text(json.dumps({**json.loads(zattrs.read_text()), "units": "m3"}))
    shown = [metadata(m.path / ".codecfs/view" / view / "cov") for view in ("decoded3", "encoded3")]
    m.unmount()
    for one in (*shown, metadata(store / "cov")):
        assert one["attributes"]["units"] == "m3" and one["attributes"]["more"] == 1
    for one in (*shown, metadata(store / "cov"), metadata(tmp_path / "b.zarr/cov")):
        assert one.get("dimension_names") == names and one["attributes"].get("_ARRAY_DIMENSIONS") == listed


def test_names_in_a_view_of_v2_of_a_store_of_v3(mount, tmp_path):
    """They are an attribute only where zarr.json cannot have them, or has this attribute already."""
    codecfs("convert", "--format", "zarr3", make_zarr(tmp_path / "a.zarr"), tmp_path / "s")
    m = mount(tmp_path / "s")
    attributes = zarr.open_group(str(m.path / ".codecfs/view/decoded"), "r+")["cov"].attrs
    for names, stored, listed in ((["y", "y"], ["y", None], ["y", "y"]), (["y", "x"], ["y", "x"], ["y", "x"]), (["y", "y"], ["y", None], ["y", "y"])):
        attributes["_ARRAY_DIMENSIONS"] = names
        assert attributes.asdict() == {"units": "m2", "_ARRAY_DIMENSIONS": names}
        for place in m.path, tmp_path / "s":
            os.sync()
            assert metadata(place / "cov")["dimension_names"] == stored
            assert metadata(place / "cov")["attributes"]["_ARRAY_DIMENSIONS"] == listed
