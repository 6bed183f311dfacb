"""zarr-python 3 and xarray, which write Zarr v3 by default, on the v3 views of every kind of source. They are in the venv
"zarr3" of scripts/client-test; without it these tests say that they were skipped. Libraries of Debian judge."""
import json

import netCDF4
import numpy as np
import pytest
import zarr

from client_venvs import python_of
from running import run
from test_encoded import run_h5py
from test_view3_write import source  # noqa: F401: a fixture

DECODED = ".codecfs/view/decoded3"
ENCODED = ".codecfs/view/encoded3"


def client(script, *arguments):
    """Runs a script with numpy, zarr-python 3 and xarray; returns the JSON that it prints last."""
    prelude = "import json, sys, warnings\nimport numpy as np\nimport xarray as xr\nimport zarr\nwarnings.simplefilter('ignore')\n"
    done = run(python_of("zarr 3"), "-B", "-c", prelude + script, *arguments, seconds=300)
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else None


DATASET = """
ds = xr.Dataset({"t": (("time", "y", "x"), np.arange(60, dtype="f4").reshape(3, 4, 5), {"units": "K", "range": [1, 2]}),
                 "n": (("x",), np.arange(5)), "f": (("x",), np.array([0, 1.5, np.nan, 3, 4])),
                 "s": (("x",), np.array(list("abcde"), object)), "flag": (("y",), np.array([True, False, True, True])),
                 "scalar": ((), 3.5), "m": (("x",), np.array([1, 2, -99, 4, 5], "i2"), {"_FillValue": np.int16(-99)})},
                {"x": np.arange(5) * 10, "time": np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "M8[ns]")}, {"title": "T"})
ds.t.encoding["chunks"] = (1, 4, 5)
"""


def test_to_zarr_with_nothing_but_the_path(mount, source):
    m = mount(source)
    client(DATASET + """
ds.to_zarr(sys.argv[1])
back = xr.open_zarr(sys.argv[1]).load()
xr.testing.assert_equal(ds.drop_vars("m"), back.drop_vars("m"))
assert back.m.values.tolist()[:2] == [1, 2] and np.isnan(back.m.values[2])
assert back.attrs == ds.attrs and back.t.attrs == ds.t.attrs
""", m.path / ENCODED / "ds")
    m.close()
    if source.suffix == ".h5":
        run_h5py("f = h5py.File(sys.argv[1])['ds']\nassert f['t'][()].tolist() == np.arange(60).reshape(3, 4, 5).tolist()\n"
                 "assert f['n'][()].tolist() == [0, 1, 2, 3, 4] and f['t'].attrs['units'] == 'K' and f['scalar'][()] == 3.5\n"
                 "assert [s.decode() for s in f['s'][()]] == list('abcde') and f['t'].chunks == (1, 4, 5)\n"
                 "assert f['m'].attrs['_FillValue'] == -99 and f['m'].fillvalue == 0 and f['f'][()].tolist()[:2] == [0, 1.5]", source)
        with netCDF4.Dataset(source) as f:
            assert f["ds/t"].dimensions == ("time", "y", "x") and f["ds/x"].dimensions == ("x",)
            assert f["ds"].title == "T" and len(f["ds"].dimensions["time"]) == 3
    m = mount(source, "ro")
    for view in (DECODED, ENCODED):
        client(DATASET + "back = xr.open_zarr(sys.argv[1]).load()\nxr.testing.assert_equal(ds.drop_vars('m'), back.drop_vars('m'))",
               m.path / view / "ds")


def test_xarray_appends_and_writes_regions(mount, source):
    m = mount(source)
    client(DATASET + """
path = sys.argv[1]
ds = ds[["t", "time"]]
ds.to_zarr(path)
ds.assign_coords(time=ds.time + np.timedelta64(3, "D")).to_zarr(path, append_dim="time")
xr.Dataset({"t": (("time", "y", "x"), np.full((1, 4, 5), 7, "f4"))}).to_zarr(path, region={"time": slice(4, 5)})
back = xr.open_zarr(path).load()
assert back.sizes["time"] == 6 and (back.t.values[4] == 7).all() and (back.t.values[3] == ds.t.values[0]).all()
ds.to_zarr(path, mode="w")
assert xr.open_zarr(path).sizes["time"] == 3
""", m.path / ENCODED / "ds")
    m.close()


@pytest.mark.parametrize("view", [DECODED, ENCODED])
def test_zarr_python_names_some_dimensions(mount, tmp_path, view):
    script = """
for name, names in {"v": ["x", None, "y"], "w": ["", None, ""], "n": [None, None, None]}.items():
    array = zarr.create_array(f"{sys.argv[1]}/{name}", shape=(2, 3, 4), chunks=(1, 3, 2), dtype="i2", compressors=None,
                              dimension_names=names, zarr_format=3)
    array.attrs["units"] = "m"
    array.resize((4, 3, 4))
print(json.dumps({name: zarr.open_array(f"{sys.argv[1]}/{name}", mode="r").metadata.dimension_names for name in "vwn"}))
"""
    on_disk = client(script, tmp_path / "disk.zarr")
    m = mount(tmp_path / "made.zarr", "create=zarr3,view=decoded3")
    assert client(script, m.path / view) == on_disk == {"v": ["x", None, "y"], "w": ["", None, ""], "n": [None, None, None]}
    m.close()
    for name, names in on_disk.items():
        assert json.loads((tmp_path / "made.zarr" / name / "zarr.json").read_text())["dimension_names"] == names


@pytest.mark.parametrize("view, compressors", [(DECODED, "None"), (ENCODED, "'auto'"), (ENCODED, "zarr.codecs.GzipCodec(level=3)"),
                                               (ENCODED, "zarr.codecs.BloscCodec(cname='lz4')")])
def test_zarr_python_does_what_it_does_on_a_disk(mount, source, tmp_path, view, compressors):
    script = f"""
top = zarr.open_group(sys.argv[1], mode="a", zarr_format=3)
group = top.create_group("a/b/c", attributes={{"title": "deep"}})
array = group.create_array("v", shape=(7, 9), chunks=(2, 4), dtype=">i2", compressors={compressors}, fill_value=-1,
                           attributes={{"units": "m"}}, dimension_names=["y", "x"])
array[1:6, 2:8] = np.arange(30).reshape(5, 6)
array.attrs["more"] = [1.5, 2.5]
array.resize((9, 9))
array[8] = 5
group.attrs.update({{"title": "changed", "n": 1}})
other = group.create_array("w", shape=(3,), chunks=(3,), dtype="f8", compressors={compressors})
other[...] = [1, np.nan, 3]
top["a"].create_array("gone", shape=(4,), chunks=(2,), dtype="i4", compressors={compressors})[...] = 1
del top["a"]["gone"]
again = zarr.open_group(sys.argv[1], mode="r", use_consolidated=False)
names = [name for name, _ in again.members(max_depth=None)]
array = again["a/b/c/v"]
print(json.dumps({{"names": sorted(names), "v": array[...].tolist(), "w": repr(again["a/b/c/w"][...].tolist()),
                   "attributes": [array.attrs.asdict(), again["a/b/c"].attrs.asdict()], "names_of": array.metadata.dimension_names,
                   "chunks": array.nchunks_initialized}}))
"""
    zarr_on_disk = client(script, tmp_path / "disk.zarr")
    m = mount(source)
    on_mount = client(script, m.path / view / "made")
    if source.suffix != ".h5":  # in a store of v2, xarray masks what equals fill_value
        zarr_on_disk["attributes"][0]["_FillValue"] = -1
    assert on_mount == zarr_on_disk
    m.close()
    m = mount(source, "ro")
    assert json.loads((m.path / DECODED / "made/a/b/c/v/zarr.json").read_text())["attributes"]["units"] == "m"
    if not (source.suffix != ".h5" and "Blosc" in compressors):  # which Debian's numcodecs may read in another release only
        assert zarr.open_group(str(m.path), "r")["made/a/b/c/v"][...].tolist() == zarr_on_disk["v"]


def test_consolidated_metadata_is_read(mount, source):
    m = mount(source)
    client(DATASET + "ds.to_zarr(sys.argv[1])", m.path / ENCODED / "g/ds")
    for path in ("", "g", "g/ds"):
        found = client("group = zarr.open_group(sys.argv[1], mode='r', use_consolidated=True)\n"
                       "print(json.dumps(sorted(name for name, _ in group.members(max_depth=None))))", m.path / DECODED / path)
        names = ["f", "flag", "m", "n", "s", "scalar", "t", "time", "x"]
        prefix = {"": ["g", "g/ds"], "g": ["ds"], "g/ds": []}[path]
        assert found == sorted(prefix + [f"{prefix[-1]}/{name}" if prefix else name for name in names])


@pytest.mark.parametrize("kind", ["dir", "created"])
def test_shards_are_written_and_read(mount, tmp_path, kind):
    """Clients write whole shards; other clients then write the chunks in them, in another view."""
    if kind == "dir":
        client("zarr.create_group(sys.argv[1])", tmp_path / "s")
        m = mount(tmp_path / "s")
    else:
        m = mount(tmp_path / "s", "mkdir", "create=zarr3,view=decoded3")
    top = m.path / ENCODED
    client("""
top = zarr.open_group(sys.argv[1], mode="a")
array = top.create_array("v", shape=(30, 40), shards=(10, 20), chunks=(5, 4), dtype="i4", fill_value=-1)
array[...] = np.arange(1200).reshape(30, 40)
array[3:17, 7:9] = 5
array.resize((35, 40))
array[30:] = 7
array.attrs["units"] = "m"
text = top.create_array("text", shape=(10,), shards=(8,), chunks=(2,), dtype=str, compressors=None)
text[...] = np.array([f"s{i}" for i in range(10)], object)
ds = xr.Dataset({"t": (("y", "x"), np.arange(48.0).reshape(6, 8))}, {"x": np.arange(8)})
ds.to_zarr(sys.argv[1] + "/ds", encoding={"t": {"shards": (4, 8), "chunks": (2, 4)}})
back = xr.open_zarr(sys.argv[1] + "/ds").load()
xr.testing.assert_equal(ds, back)
""", top)
    wanted = np.arange(1200).reshape(30, 40)
    wanted[3:17, 7:9] = 5
    wanted = np.vstack([wanted, np.full((5, 40), 7)])
    decoded = zarr.open_group(str(m.path / ".codecfs/view/decoded"), "r+")
    assert decoded["v"].chunks == (5, 4) and np.array_equal(decoded["v"][...], wanted)
    decoded["v"][4:6, 3:5] = wanted[4:6, 3:5] = 99
    check = "print(json.dumps([zarr.open_group(sys.argv[1], mode='r')['v'][...].tolist(), list(zarr.open_group(sys.argv[1], mode='r')['v'].shards)]))"
    assert client(check, top) == [wanted.tolist(), [10, 20]]
    m.close()
    assert client(check, tmp_path / "s") == [wanted.tolist(), [10, 20]]
    assert client("print(json.dumps([zarr.open_group(sys.argv[1], mode='r')['text'][...].tolist(), xr.open_zarr(sys.argv[1] + '/ds').t.values.tolist()]))",
                  tmp_path / "s") == [[f"s{i}" for i in range(10)], np.arange(48.0).reshape(6, 8).tolist()]
