"""What today's zarr-python and xarray write with nothing but the path of a mount with -o create=, judged by h5py, h5dump and zarr-python
of Debian, which read the source after the unmount."""
import json
import os
import subprocess

import h5py
import numpy as np
import pytest
import zarr

from conftest import CODECFS, is_mounted, xattr
from running import codecfs, run
from venvs import python_of

NAMES = {"hdf5": "new.h5", "zarr": "new.zarr", "zarr3": "new3.zarr", "zip": "new.zip", "nczarr": "new.nczarr"}
IMPORTS = "import sys, warnings\nimport numpy as np\nimport xarray as xr\nimport zarr\nwarnings.simplefilter('ignore')\npath = sys.argv[1]\n"
DATASET = """
data = xr.Dataset({"t": (("time", "y"), np.arange(40, dtype="f4").reshape(10, 4), {"units": "K"}), "scalar": ((), 3.5)},
                  {"time": np.arange(10), "y": np.arange(4)}, {"title": "T"})
"""


def client(script, path, code=0):
    return run(python_of("mount-tests"), "-B", "-c", IMPORTS + script, path, seconds=300, code=code)


@pytest.fixture(params=NAMES)
def new(request, mount, tmp_path):
    m = mount(tmp_path / NAMES[request.param], f"create={request.param}")
    m.kind, m.source = request.param, tmp_path / NAMES[request.param]
    return m


def values(m, *names):
    """As others read them of the source."""
    m.close()
    if m.kind == "hdf5":
        with h5py.File(m.source) as file:
            filters = {number for name in names if file[name].chunks for number in
                       (file[name].id.get_create_plist().get_filter(i)[0] for i in range(file[name].id.get_create_plist().get_nfilters()))}
        plain = m.source if not filters - {1, 2, 3} else m.source.with_name(f"plain-{m.source.name}")
        if plain != m.source:
            codecfs("convert", "--stock-filters", m.source, plain)
        with h5py.File(plain) as file:
            return {name: file[name][()].tolist() for name in names}
    if m.kind == "zarr3":
        script = "import json\ngroup = zarr.open_group(path, mode='r')\nprint(json.dumps({name: group[name][...].tolist() for name in %r}))" % (names,)
        return json.loads(client(script, m.source).stdout)
    group = zarr.open_group(str(m.source), "r")
    return {name: group[name][...].tolist() for name in names}


def test_to_zarr(new):
    client(DATASET + "data.to_zarr(path)\nxr.testing.assert_identical(xr.open_zarr(path).load(), data)", new.path)
    scalar = [3.5] if new.kind == "nczarr" else 3.5  # netCDF-C has scalars so
    assert values(new, "t", "scalar", "y") == {"t": np.arange(40).reshape(10, 4).tolist(), "scalar": scalar, "y": [0, 1, 2, 3]}


def test_to_zarr_again(new):
    """More variables, more steps, and a region."""
    client(DATASET + """
data.to_zarr(path)
xr.Dataset({"u": (("time", "y"), np.full((10, 4), 7))}).to_zarr(path, mode="a")
data[["t"]].assign_coords(time=np.arange(10, 20)).to_zarr(path, append_dim="time")
xr.Dataset({"t": (("time", "y"), np.full((2, 4), 9, "f4"))}).to_zarr(path, region={"time": slice(0, 2)})
""", new.path)
    found = values(new, "t", "u")
    expected = np.concatenate([np.arange(40).reshape(10, 4)] * 2)
    expected[:2] = 9
    # At the unmount, netCDF's unlimited dimension makes all its variables as long.
    u = np.concatenate([np.full((10, 4), 7), np.zeros((10, 4), int)]) if new.kind == "nczarr" else np.full((10, 4), 7)
    assert found["t"] == expected.tolist() and found["u"] == u.tolist()


def test_groups_and_arrays(new):
    client("""
group = zarr.open_group(path, mode="w-", attributes={"title": "T"})
group.create_group("g").create_array("x", data=np.arange(10))
assert zarr.open_group(path, mode="r").attrs["title"] == "T"
zarr.create_array(path + "/y", shape=(6, 6), chunks=(2, 3), dtype="f4")[:] = 1.5
xr.DataTree.from_dict({"/h": xr.Dataset({"b": ("n", np.arange(4.0))})}).to_zarr(path, mode="a")
again = zarr.open_group(path, mode="r")
assert (again["g/x"][:] == np.arange(10)).all()
""", new.path)
    assert values(new, "g/x", "y", "h/b") == {"g/x": list(range(10)), "y": np.full((6, 6), 1.5).tolist(), "h/b": [0, 1, 2, 3]}


@pytest.mark.parametrize("kind", ["hdf5", "zarr", "zarr3"])
def test_zarr_2(mount, tmp_path, kind):
    """The same into the view `encoded`, by Debian's zarr-python 2 and by today's with zarr_format=2."""
    for number, (python, more) in enumerate({"/usr/bin/python3": "", python_of("mount-tests"): ", zarr_format=2"}.items()):
        m = mount(tmp_path / f"{number}-{NAMES[kind]}", f"create={kind}")
        m.kind, m.source = kind, tmp_path / f"{number}-{NAMES[kind]}"
        run(python, "-B", "-c", IMPORTS + DATASET + f"data.to_zarr(path{more})", m.path / ".codecfs/view/encoded")
        assert values(m, "t") == {"t": np.arange(40).reshape(10, 4).tolist()}


def test_metadata_of_v2_is_written_again(mount, tmp_path):
    """Clients write .zarray with each change of attributes; Zarr v3 does not show its fill value there."""
    m = mount(tmp_path / "a.zarr", "create=zarr3")
    array = {"zarr_format": 2, "shape": [10], "chunks": [5], "dtype": "<f8", "compressor": None, "filters": None, "fill_value": "NaN", "order": "C"}
    path = m.path / ".codecfs/view/encoded/v/.zarray"
    path.parent.mkdir()
    for _ in range(2):
        path.write_text(json.dumps(array))
    shown = json.loads(path.read_text())
    assert shown["fill_value"] is None
    path.write_text(json.dumps(shown))
    with pytest.raises(OSError, match="Invalid argument"):
        path.write_text(json.dumps({**array, "fill_value": 7.0}))
    m.close()
    assert json.loads((tmp_path / "a.zarr/v/zarr.json").read_text())["fill_value"] == "NaN"


def test_an_empty_root_shows_no_metadata_until_something_is_made(mount, tmp_path):
    m = mount(tmp_path / "a.zarr", "create=zarr3")
    views = [m.path] + [m.path / ".codecfs/view" / view for view in ("decoded", "decoded3", "encoded", "encoded3")]

    def shown():
        return [any((view / name).exists() for name in ("zarr.json", ".zgroup", ".zattrs")) for view in views]

    os.listdir(m.path)
    assert not any(shown())
    (m.path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    assert all(shown())
    m.close()
    # It is still empty, but for what was written.
    assert json.loads((tmp_path / "a.zarr/zarr.json").read_text())["node_type"] == "group"


def test_what_another_program_makes_in_an_empty_source_is_seen(mount, tmp_path):
    m = mount(tmp_path / "a.zarr", "create=zarr")
    assert not (m.path / "zarr.json").exists()
    group = zarr.open_group(str(tmp_path / "a.zarr"), "a")
    group.create_dataset("v", data=[1, 2, 3])
    assert (m.path / "v/zarr.json").exists() and (m.path / "zarr.json").exists()
    assert (m.path / ".codecfs/view/decoded/.zgroup").exists()


def test_an_empty_dataset_that_was_there_is_shown_as_it_is(mount, tmp_path):
    for _ in range(2):
        m = mount(tmp_path / "a.zarr", "create=zarr3")
        m.close()
    m = mount(tmp_path / "a.zarr", "create=zarr3")
    client("assert list(zarr.open_group(path, mode='r').members()) == []", m.path)


def test_an_existing_dataset_is_shown_as_it_is(mount, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = [1, 2, 3]
    m = mount(tmp_path / "a.h5", "create=hdf5")
    assert (m.path / "zarr.json").exists() and (m.path / ".codecfs/view/decoded/.zgroup").exists()
    refused = client(DATASET + "data.to_zarr(path)", m.path, code=None)
    assert refused.returncode != 0 and "already contains data" in refused.stderr


def test_the_mount_tells_its_view(place, tmp_path):
    place.mkdir()
    told = subprocess.run([CODECFS, "-o", "create=hdf5", tmp_path / "a.h5", place], capture_output=True, text=True, check=True)
    assert is_mounted(place)
    assert told.stderr == (f"codecfs: info: {place} shows the view encoded3, for writers of Zarr v3; those of v2 write into "
                           f"{place}/.codecfs/view/encoded\n")
    codecfs("unmount", place)
    told = subprocess.run([CODECFS, "-o", "create=hdf5,view=decoded", tmp_path / "a.h5", place], capture_output=True, text=True, check=True)
    assert told.stderr == "" and (place / ".zgroup").exists()
    codecfs("unmount", place)


def test_refusals_say_what_to_write_instead(mount, tmp_path):
    m = mount(tmp_path / "a.h5", "create=hdf5")
    client("zarr.create_array(path + '/s', shape=(8, 8), chunks=(2, 2), shards=(4, 4), dtype='f4')", m.path, code=1)
    assert "shards=None" in xattr(m.path / "s", "_Error")
    client(DATASET + "data.to_zarr(path + '/two', zarr_format=2)", m.path, code=1)
    assert ".codecfs/view/encoded" in xattr(m.path / "two", "_Error")
    told = codecfs("status", m.path).stdout
    assert "shards=None" in told and ".codecfs/view/encoded" in told


# --- filters that others lack


def dumped(path, variable):
    """What h5dump without plugins prints."""
    return run("h5dump", "-d", variable, path, env={"HDF5_PLUGIN_PATH": "/nonexistent"}, code=None)


ARRAYS = """
group = zarr.open_group(path, mode="w-")
group.create_array("big", shape=(1000,), chunks=(100,), dtype="i4")[:] = np.arange(1000)
group.create_array("bytes", shape=(1000,), chunks=(100,), dtype="u1")[:] = 7
group.create_array("blosc", shape=(1000,), chunks=(100,), dtype="f8", compressors=zarr.codecs.BloscCodec())[:] = 1.5
group.create_array("plain", shape=(1000,), chunks=(100,), dtype="i4", compressors=None)[:] = 3
"""


def test_the_log_names_filters_that_others_lack(mount, tmp_path):
    m = mount(tmp_path / "a.h5", "create=hdf5")
    client(ARRAYS, m.path)
    m.close()
    assert m.log.read_text().count("/big: is stored with zstd, for which other programs need a plugin of HDF5") == 1
    assert "/blosc: is stored" not in m.log.read_text(), "it is told once"
    assert dumped(tmp_path / "a.h5", "/big").returncode != 0, "else this test tests nothing"


def test_stock_filters(mount, tmp_path):
    m = mount(tmp_path / "a.h5", "create=hdf5,stock-filters")
    client(ARRAYS + "group = zarr.open_group(path, mode='r')\nassert (group['big'][:] == np.arange(1000)).all()\n"
           "assert 'Zstd' in str(group['big'].compressors) and 'Blosc' in str(group['blosc'].compressors)", m.path)
    m.close()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["big"][()].tolist() == list(range(1000)) and (file["blosc"][()] == 1.5).all() and (file["bytes"][()] == 7).all()
        assert [(file[name].shuffle, file[name].compression, file[name].compression_opts) for name in ("big", "bytes", "blosc", "plain")] == [
            (True, "gzip", 4), (False, "gzip", 4), (True, "gzip", 4), (False, None, None)]
    assert dumped(tmp_path / "a.h5", "/big").returncode == 0
    assert "need a plugin" not in m.log.read_text()
    m = mount(tmp_path / "a.h5", "view=encoded3", "ro")
    client("assert zarr.open_group(path, mode='r')['big'][:].tolist() == list(range(1000))", m.path)


def test_stock_filters_in_place_of_all_others(mount, tmp_path):
    """Of groups, of files beside .zarray, of requests, of copies from another mount, and of rules; but not of Zarr stores in a folder."""
    with h5py.File(tmp_path / "from.h5", "w") as file:
        file.create_dataset("v", data=np.arange(100), chunks=(10,), compression="gzip")
    codecfs("recode", "-F", "v,zstd,3", tmp_path / "from.h5")
    other = mount(tmp_path / "from.h5", "ro")
    m = mount(tmp_path / "a.h5", "create=hdf5,view=decoded,stock-filters", rules=["ruled,zstd,3"])
    array = {"zarr_format": 2, "shape": [100], "chunks": [10], "dtype": "<i8", "compressor": None, "filters": None, "fill_value": 0, "order": "C"}
    for name in ("ruled", "beside", "asked", "g/below"):
        (m.path / name).mkdir(parents=True)
        if name == "beside":
            (m.path / name / "_Filter").write_text("zstd,3\n")
        if name == "g/below":
            os.setxattr(m.path / "g", "user._Filter", b"zstd,3")
        (m.path / name / ".zarray").write_text(json.dumps(array))
    os.setxattr(m.path / "asked", "user._Filter", b"zstd,3")
    run("cp", "-r", "--preserve=xattr", other.path / "v", m.path / "copied")
    m.close()
    with h5py.File(tmp_path / "a.h5") as file:
        for name in ("ruled", "beside", "asked", "g/below", "copied"):
            assert (file[name].compression, file[name].shuffle) == ("gzip", True), name
        assert file["copied"][()].tolist() == list(range(100))


def test_stores_in_a_folder_keep_their_codecs(mount, tmp_path):
    (tmp_path / "data").mkdir()
    group = zarr.open_group(str(tmp_path / "data/s.zarr"), "w")
    group.create_dataset("v", data=np.arange(100), chunks=10)
    before = (tmp_path / "data/s.zarr/v/.zarray").read_text()
    m = mount(tmp_path / "data", "stock-filters")
    with open(m.path / "s.zarr/v/0", "r+b") as file:
        file.write(bytes(8))
    m.close()
    assert json.loads((tmp_path / "data/s.zarr/v/.zarray").read_text()) == json.loads(before)


def test_stock_filters_are_for_hdf5(place, tmp_path):
    place.mkdir()
    refused = codecfs("-o", "create=zarr3,stock-filters", tmp_path / "a.zarr", place, code=None)
    assert refused.returncode != 0 and "only for HDF5" in refused.stderr


def test_convert_and_recode_with_stock_filters(mount, tmp_path):
    m = mount(tmp_path / "a.zarr", "create=zarr3")
    client(ARRAYS, m.path)
    m.close()
    told = codecfs("convert", tmp_path / "a.zarr", tmp_path / "a.h5")
    assert "3 variables are stored with filters for which other programs need a plugin of HDF5" in told.stderr
    told = codecfs("convert", "--stock-filters", tmp_path / "a.zarr", tmp_path / "b.h5")
    assert told.stderr == "" and dumped(tmp_path / "b.h5", "/blosc").returncode == 0
    told = codecfs("convert", "--stock-filters", tmp_path / "a.h5", tmp_path / "c.h5")
    assert dumped(tmp_path / "c.h5", "/big").returncode == 0
    codecfs("recode", "--stock-filters", tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file, h5py.File(tmp_path / "b.h5") as other:
        for name in ("big", "bytes", "blosc", "plain"):
            assert file[name][()].tolist() == other[name][()].tolist()
    assert codecfs("recode", "--stock-filters", tmp_path / "a.h5").stdout.endswith("no variable needs a plugin of HDF5\n")
    told = codecfs("recode", "-F", "big,zstd,3", tmp_path / "a.h5").stdout
    assert "-> none" in codecfs("recode", "-F", "bytes,zstd,3", "-F", "bytes,none", tmp_path / "a.h5").stdout
    assert "needs a plugin of HDF5 for zstd" in told and dumped(tmp_path / "a.h5", "/big").returncode != 0
    for arguments in (["convert", "--stock-filters", tmp_path / "a.h5", tmp_path / "z.zarr"], ["recode", "--stock-filters", tmp_path / "a.zarr"]):
        refused = codecfs(*arguments, code=None)
        assert refused.returncode != 0 and "only for" in refused.stderr and "HDF5" in refused.stderr


@pytest.mark.parametrize("way", ["rsync", "rsync --inplace", "cp", "directories first"])
@pytest.mark.parametrize("zarr_format, view", [(2, "encoded"), (3, "encoded3")])
def test_copy_of_a_store(new, tmp_path, way, zarr_format, view):
    """rsync makes directories before the files of those before them: that of a dimension's variable is an empty group while others name
    the dimension, and chunk directories of Zarr v3 are groups in it."""
    store = tmp_path / "store"
    client(DATASET + f"""
for group in ("", "g/h"):
    data.to_zarr({str(store)!r}, group=group, zarr_format={zarr_format}, mode="a", consolidated=False, encoding={{"t": {{"chunks": (4, 4)}}}})
""", store)
    root = new.path / ".codecfs/view" / view
    if way == "cp":
        run("cp", "-r", f"{store}/.", root)
    elif way == "directories first":
        for directory in sorted(path for path in store.glob("**/*") if path.is_dir()):
            (root / directory.relative_to(store)).mkdir()
        for file in sorted(path for path in store.glob("**/*") if path.is_file()):
            (root / file.relative_to(store)).write_bytes(file.read_bytes())
    else:
        run("rsync", "-a", *way.split()[1:], f"{store}/", root)
    client(f"""
for group in ("", "g/h"):
    want, got = (xr.open_zarr(at, group=group, consolidated=False).load() for at in ({str(store)!r}, path))
    xr.testing.assert_identical(want, got)
""", root)
    scalar = [3.5] if new.kind == "nczarr" else 3.5
    groups = ("", "g/h/")
    names = [group + name for group in groups for name in ("t", "scalar", "time")]
    assert values(new, *names) == {group + name: value for group in groups for name, value in
                                   {"t": np.arange(40).reshape(10, 4).tolist(), "scalar": scalar, "time": list(range(10))}.items()}
    if new.kind == "hdf5":
        header = run("ncdump", "-h", new.source).stdout
        assert header.count("float t(time, y)") == 2 and "phony" not in header and "non_coord" not in header, header
        with h5py.File(new.source) as file:
            assert [dim[0].name for dim in file["g/h/t"].dims] == ["/g/h/time", "/g/h/y"]
            assert [dim[0].name for dim in file["t"].dims] == ["/time", "/y"]


def test_directories_of_dimensions_survive_a_kill(mount, tmp_path):
    """Names of dimensions are stored before the variable is there that has them."""
    m = mount(tmp_path / "new.nc", "create=hdf5,view=decoded")
    for name in ("air", "time", "lat"):
        (m.path / name).mkdir()
    (m.path / "lat/.zgroup").write_text('{"zarr_format": 2}')
    write = {".zarray": {"zarr_format": 2, "shape": [2, 3], "chunks": [2, 3], "dtype": "<i4", "compressor": None, "filters": None,
                         "fill_value": 0, "order": "C"}, ".zattrs": {"_ARRAY_DIMENSIONS": ["time", "lat"]}}
    for name, text in write.items():
        (m.path / "air" / name).write_text(json.dumps(text))
    with open(m.path / "air/.zattrs") as file:
        os.fsync(file.fileno())
    m.kill()
    codecfs("recover", tmp_path / "new.nc")
    with h5py.File(tmp_path / "new.nc") as file:
        assert [dim[0].name for dim in file["air"].dims] == ["/time", "/lat"]
    assert "int air(time, lat)" in run("ncdump", "-h", tmp_path / "new.nc").stdout
    m = mount(tmp_path / "new.nc", "view=decoded")
    assert sorted(path.name for path in m.path.iterdir() if path.is_dir() and not path.name.startswith(".")) == ["air", "lat", "time"]
    assert json.loads((m.path / "air/.zattrs").read_text())["_ARRAY_DIMENSIONS"] == ["time", "lat"]
    (m.path / "time/.zarray").write_text(json.dumps(write[".zarray"] | {"shape": [2], "chunks": [2]}))
    (m.path / "time/.zattrs").write_text('{"_ARRAY_DIMENSIONS": ["time"]}')
    m.close()
    with h5py.File(tmp_path / "new.nc") as file:
        assert [dim[0].name for dim in file["air"].dims] == ["/time", "/lat"] and file["time"].attrs["CLASS"] == b"DIMENSION_SCALE" and file["time"].dtype == "<i4"
    assert "int time(time)" in run("ncdump", "-h", tmp_path / "new.nc").stdout


@pytest.mark.parametrize("made", ["variable", "attribute", "other link"])
def test_a_group_with_content_keeps_its_name(mount, tmp_path, made):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("time").create_group("x")
        if made == "variable":
            group["y"] = [1, 2]
        elif made == "attribute":
            group.attrs["units"] = "s"
        else:
            file["other"] = group
        file["air"] = [1, 2]
    m = mount(tmp_path / "a.h5", "view=decoded")
    with pytest.raises(OSError):
        (m.path / "air/.zattrs").write_text('{"_ARRAY_DIMENSIONS": ["time"]}')
    assert 'a group "time" with members or attributes' in xattr(m.path / "air", "_Error")
    m.close()
    with h5py.File(tmp_path / "a.h5") as file:
        assert "x" in file["time"]
