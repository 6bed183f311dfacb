"""Groups, variables, attributes and links made, changed and removed through a mount, with the tools that people have: mkdir, rm, mv,
cp, setfattr, an editor, zarr-python, xarray, netCDF-C. Most of it on an HDF5 file, a Zarr directory and a Zarr archive alike."""
import errno
import json
import os
import shutil
import sys
import time

import h5py
import numpy as np
import pytest
import xarray
import zarr

from conftest import mounted, xattr
from running import codecfs, run
from test_recode import ARRAY, CHUNKS, hdf5_filters, hdf5_values, refused, run, set_filter, with_plugins

KINDS = ["hdf5", "zarr", "zip"]


@pytest.fixture(params=KINDS)
def fresh(request, tmp_path, mount):
    """A mount of a source that was made by the mount, and its kind and path."""
    path = tmp_path / {"hdf5": "new.h5", "zarr": "new.zarr", "zip": "new.zip"}[request.param]

    class Fresh:
        kind, source = request.param, path

        def mount(self, *options, **more):
            self.m = mount(path, f"create={request.param},view=decoded", *options, **more)
            return self.m

        def read(self, name):
            """The array as others read it, after the mount has ended."""
            self.m.close()
            if self.kind == "hdf5" and not hdf5_filters(path, name):
                with h5py.File(path, "r") as f:
                    return f[name][()]
            return hdf5_values(path, name) if self.kind == "hdf5" else zarr.open_group(str(path), "r")[name][...]

        def attributes(self, name):
            self.m.close()
            if self.kind != "hdf5":
                return dict(zarr.open_group(str(path), "r")[name or "/"].attrs)
            with h5py.File(path, "r") as f:
                return dict(f[name or "/"].attrs)

    return Fresh()


def zarray(shape, chunks, dtype="<i4", fill_value=0, **more):
    return json.dumps({"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype, "fill_value": fill_value,
                       "order": "C", "compressor": None, "filters": None, **more})


def test_create_makes_an_empty_source(fresh, tmp_path):
    m = fresh.mount()
    assert os.listdir(m.path) == [], "until something is made"
    m.close()
    if fresh.kind == "hdf5":
        with h5py.File(fresh.source, "a") as f:
            assert list(f) == []
            f["x"] = 1
        assert "netcdf" in run("ncdump", "-h", fresh.source).stdout
    else:
        store = zarr.ZipStore(str(fresh.source)) if fresh.kind == "zip" else zarr.DirectoryStore(str(fresh.source))
        assert list(zarr.open_group(store, "a")) == []
        zarr.open_group(store, "a").create_dataset("x", data=1)
        store.close()
    again = fresh.mount()  # what is there is mounted as it is
    assert (again.path / "x/.zarray").exists()


@pytest.mark.parametrize("options, source, reason", [
    ("create=netcdf", "a.h5", "hdf5, zarr, zarr3, nczarr, zip"), ("create=hdf5", "nowhere/a.h5", "nowhere"), ("create=zip", "nowhere/a.zip", "nowhere"),
    ("ro", "a.h5", "a.h5")])
def test_create_refused(tmp_path, options, source, reason):
    (tmp_path / "mnt").mkdir()
    done = codecfs("-o", options, tmp_path / source, tmp_path / "mnt", code=None)
    assert done.returncode != 0 and reason in done.stderr and len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == ["mnt"]


def test_by_hand(fresh):
    """mkdir, a text, and chunks: with nothing but a shell."""
    m = fresh.mount()
    run("mkdir", "-p", m.path / "g/h/v")
    assert os.listdir(m.path / "g/h/v") == []
    (m.path / "g/h/v/.zarray").write_text(zarray([40, 100], [10, 50], fill_value=-1))
    assert sorted(os.listdir(m.path / "g/h/v")) == [".zarray", ".zattrs"]
    told = json.loads((m.path / "g/h/v/.zarray").read_text())
    assert (told["shape"], told["chunks"], told["dtype"], told["fill_value"]) == ([40, 100], [10, 50], "<i4", -1)
    set_filter(m.path / "g/h/v", "2|1,5")
    (m.path / "g/h/v/0.0").write_bytes(ARRAY[:10, :50].tobytes())
    run("setfattr", "-n", "user.units", "-v", "K", m.path / "g/h/v")
    run("setfattr", "-n", "user.valid_range", "-v", "[0, 5]", m.path / "g/h/v")
    run("setfattr", "-n", "user.title", "-v", "a title", m.path / "g")
    assert json.loads((m.path / "g/h/v/.zattrs").read_text()) == {"units": "K", "valid_range": [0, 5]} | (
        {"_FillValue": -1, "_ARRAY_DIMENSIONS": ["phony_dim_0", "phony_dim_1"],
         "_codecfs_phony_dimensions": '["phony_dim_0", "phony_dim_1"]'} if fresh.kind == "hdf5" else {})
    consolidated = json.loads((m.path / ".zmetadata").read_text())["metadata"]
    assert consolidated["g/h/v/.zarray"] == told and consolidated["g/.zattrs"] == {"title": "a title"}
    expected = np.full((40, 100), -1, "<i4")
    expected[:10, :50] = ARRAY[:10, :50]
    assert np.array_equal(fresh.read("g/h/v"), expected)
    assert fresh.attributes("g")["title"] in ("a title", b"a title")
    with mounted(fresh.source, m.path.with_name("again"), "ro") as again:
        assert json.loads((again.path / "g/h/v/.zarray").read_text())["fill_value"] == -1
        assert xattr(again.path / "g/h/v", "_Filter") == "2,4|1,5"


DTYPES = ["|b1", "|i1", "|u1", "<i2", ">i2", "<u4", ">i8", "<f2", "<f4", ">f8", "<c8", ">c16", "|S5", "|V3",
          [["a", "<i4"], ["b", "<f8"]], [["p", [["x", ">f4"], ["y", "|S3"]]], ["q", "<i2", [2, 3]]]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_types(fresh, dtype):
    from compare import numpy_dtype, same_bytes
    m = fresh.mount()
    os.mkdir(m.path / "v")
    (m.path / "v/.zarray").write_text(zarray([5], [3], dtype, fill_value=None))
    told = json.loads((m.path / "v/.zarray").read_text())
    assert told["dtype"] == dtype
    kind = numpy_dtype(dtype)
    data = np.frombuffer(np.random.default_rng(4).integers(1, 60, 6 * kind.itemsize, "u1").tobytes(), kind).copy()
    if dtype == "|b1":
        data = np.array([1, 0, 1, 1, 0, 0], "?")
    (m.path / "v/0").write_bytes(data[:3].tobytes())
    (m.path / "v/1").write_bytes(data[3:].tobytes())
    assert (m.path / "v/1").read_bytes() == data[3:].tobytes()
    same_bytes(fresh.read("v").view(kind) if dtype == "|V3" else fresh.read("v"), data[:5], "v")


def test_strings(fresh):
    m = fresh.mount()
    texts = np.array(["one", "zwei", "", "quattro"], dtype=object)
    zarr.open_group(str(m.path), "a").create_dataset("v", data=texts, chunks=3, dtype=object, compressor=None,
                                                     object_codec=__import__("numcodecs").VLenUTF8())
    assert list(zarr.open_group(str(m.path), "r")["v"][:]) == list(texts)
    m.close()
    if fresh.kind == "hdf5":
        with h5py.File(fresh.source, "r") as f:
            assert list(f["v"].asstr()[:]) == list(texts)
    else:
        assert list(fresh.read("v")) == list(texts)


@pytest.mark.parametrize("text, reason", [
    ("{", "JSON"), ("[]", "object"), (zarray([4], [2], "<q9"), "numpy type"), (zarray([4], [0]), "chunks"),
    (zarray([4, 4], [2]), "chunks"), (zarray([4], [2], compressor={"id": "zlib", "level": 1}), "_Filter"),
    (zarray([4], [2], filters=[{"id": "delta", "dtype": "<i4"}]), "_Filter"), (zarray([4, 4], [2, 2], order="F"), "order"),
    (zarray([4], [2], dimension_separator="/"), "dimension_separator"), (zarray([4], [2], fill_value="what"), "fill"),
    (zarray([4], [2], _maxshape=[2]), "_maxshape"), (zarray([4], [2], zarr_format=3), "zarr_format")])
def test_bad_zarray(fresh, text, reason):
    m = fresh.mount()
    os.mkdir(m.path / "v")
    refused(errno.EINVAL, lambda: (m.path / "v/.zarray").write_text(text))
    assert reason in m.messages().splitlines()[-1]
    assert not (m.path / "v/.zarray").exists()
    (m.path / "v/tmp").write_text(text)
    refused(errno.EINVAL, lambda: os.rename(m.path / "v/tmp", m.path / "v/.zarray"))
    os.unlink(m.path / "v/tmp")
    (m.path / "v/.zarray").write_text(zarray([4], [2]))
    assert json.loads((m.path / "v/.zarray").read_text())["shape"] == [4]
    assert list(fresh.read("v")) == [0] * 4


def test_what_hdf5_cannot_hold(mount, tmp_path):
    m = mount(tmp_path / "a.h5", "create=hdf5,view=decoded")
    for dtype in ("<f16", "<c32", [["a", "<f16"]]):
        os.mkdir(m.path / "v")
        refused(errno.EOPNOTSUPP, lambda: (m.path / "v/.zarray").write_text(zarray([4], [2], dtype, fill_value=None)))
        os.rmdir(m.path / "v")
    refused(errno.EINVAL, lambda: os.mkdir(m.path / "a%2Fb"))
    refused(errno.EINVAL, lambda: (m.path / ".zarray").write_text(zarray([4], [2])))
    refused(errno.EINVAL, lambda: (m.path / ".zattrs").write_text('{"x": "a\\u0000b"}'))
    assert '"x"' in xattr(m.path / ".zattrs", "_Error")
    assert json.loads((m.path / ".zattrs").read_text()) == {}
    m.close()
    with h5py.File(tmp_path / "a.h5", "r") as f:
        assert not list(f) and "x" not in f.attrs


@pytest.mark.parametrize("dtype", ["<U3", ">U3", "<M8[ns]", ">M8[D]", "<m8[s]", [("t", "<U2"), ("at", "<M8[s]"), ("n", "<i4")]])
def test_text_and_times_of_numpy_in_hdf5(mount, tmp_path, dtype):
    """HDF5 has no such types: they are stored in h5py's form, which returns what numpy had."""
    values = np.zeros(5, dtype)
    if values.dtype.names:
        values["t"], values["at"], values["n"] = ["a", "bü", "", "\U0001f600", "xy"], np.arange(5), np.arange(5)
    else:
        values[:] = ["a", "bü", "", "\U0001f600", "xyz"] if values.dtype.kind == "U" else np.arange(-2, 3).astype(values.dtype)
    m = mount(tmp_path / "a.h5", "create=hdf5,view=decoded")
    root = zarr.open_group(str(m.path / ".codecfs/view/encoded"), "a")
    root.create_dataset("v", data=values, chunks=(2,), compressor=zarr.Zlib(1))
    root.create_dataset("unwritten", shape=3, chunks=(2,), dtype=values.dtype, compressor=None)
    m.close()
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["v"].dtype == values.dtype and (f["v"][...] == values).all() and f["v"].compression == "gzip"
        assert (f["unwritten"][...] == np.zeros(3, dtype)).all()
    m = mount(tmp_path / "a.h5")
    for view in ("", ".codecfs/view/encoded"):
        shown = zarr.open_group(str(m.path / view), "r")["v"]
        assert shown.dtype == values.dtype and (shown[...] == values).all()
    assert (np.load(m.path / ".codecfs/view/npy/v.npy") == values).all()
    zarr.open_group(str(m.path))["v"][1:3] = values[3:5]
    m.close()
    values[1:3] = values[3:5]
    with h5py.File(tmp_path / "a.h5") as f:
        assert (f["v"][...] == values).all()


def test_opaque_types_with_other_tags(mount, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name, size, tag in (("right", 8, b"NUMPY:<U2"), ("short", 7, b"NUMPY:<U2"), ("number", 8, b"NUMPY:<f8"), ("not", 8, b"NUMPY:<"),
                                ("other", 8, b"<U2"), ("bytes", 8, b"NUMPY:|S8")):
            kind = h5py.h5t.create(h5py.h5t.OPAQUE, size)
            kind.set_tag(tag)
            h5py.h5d.create(f.id, name.encode(), kind, h5py.h5s.create_simple((2,)))
    m = mount(tmp_path / "a.h5")
    types = {name: json.loads((m.path / name / ".zarray").read_text())["dtype"] for name in os.listdir(m.path) if name[0] != "."}
    assert types == {"right": "<U2", "short": "|V7", "number": "|V8", "not": "|V8", "other": "|V8", "bytes": "|V8"}
    assert "NUMPY:<f8" in xattr(m.path / "number", "_Type")


def test_max_shape(mount, tmp_path):
    path = tmp_path / "a.h5"
    m = mount(path, "create=hdf5,view=decoded")
    for name, more in (("free", {}), ("limited", {"_maxshape": [20, None]}), ("fixed", {"_maxshape": [10, 6]})):
        os.mkdir(m.path / name)
        (m.path / name / ".zarray").write_text(zarray([10, 6], [5, 6], **more))
    assert xattr(m.path / "limited", "_MaxShape") == "[20, null]"
    (m.path / "limited/.zarray").write_text(zarray([20, 60], [5, 6]))
    refused(errno.EINVAL, lambda: (m.path / "limited/.zarray").write_text(zarray([21, 60], [5, 6])))
    assert "20" in xattr(m.path / "limited/.zarray", "_Error")
    refused(errno.EINVAL, lambda: (m.path / "fixed/.zarray").write_text(zarray([11, 6], [5, 6])))
    for changed in (zarray([10, 6, 1], [5, 6, 1]), zarray([10, 6], [5, 3]), zarray([10, 6], [5, 6], "<i2"), zarray([10, 6], [5, 6], fill_value=3)):
        refused(errno.EINVAL, lambda: (m.path / "free/.zarray").write_text(changed))
    m.close()
    with h5py.File(path, "r") as f:
        assert [f[n].maxshape for n in ("free", "limited", "fixed")] == [(None, None), (20, None), (10, 6)]
        assert f["limited"].shape == (20, 60) and f["free"].shape == (10, 6)


def test_resize(fresh):
    """Chunks keep their names, those outside go, new ones are fill; also for readers that have looked at them before."""
    m = fresh.mount()
    root = zarr.open_group(str(m.path), "a")
    v = root.create_dataset("v", data=ARRAY, chunks=CHUNKS, fill_value=-5, compressor=None)
    expected = ARRAY
    for shape in ((40, 150), (60, 150), (25, 150), (25, 70), (40, 200), (0, 200), (12, 200)):
        sum(len(p.read_bytes()) for p in (m.path / "v").iterdir())  # into every cache
        assert not (m.path / "v/9.9").exists()
        with open(m.path / "v/0.0" if (m.path / "v/0.0").exists() else "/dev/null", "rb"):
            v.resize(*shape)
            smaller = tuple(slice(0, min(a, b)) for a, b in zip(expected.shape, shape))
            resized = np.full(shape, -5, "<i4")
            resized[smaller] = expected[smaller]
            cells = (-(-shape[0] // 10), -(-shape[1] // 50))
            for name in (n for n in os.listdir(m.path / "v") if n[0].isdigit()):
                assert all(int(i) < n for i, n in zip(name.split("."), cells)), (name, shape)
            got = zarr.open_group(str(m.path), "r")["v"][...]
            if fresh.kind != "hdf5":  # beyond a former edge zarr-python's stores keep what was there
                resized[resized != got] = got[resized != got] if shape in ((40, 200), (12, 200), (60, 150)) else resized[resized != got]
            assert np.array_equal(got, resized), shape
            expected = got
    v[11, 199] = 77
    expected[11, 199] = 77
    assert np.array_equal(fresh.read("v"), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_chunk_that_comes_with_another_shape_is_found_at_once(mount, tmp_path, kind):
    """Where fill_value is null all chunks of the grid are files. The kernel remembers for a second that a name was absent."""
    source = tmp_path / f"a.{kind}"
    if kind == "hdf5":
        with h5py.File(source, "w") as file:
            file.create_dataset("v", (10,), "i4", chunks=(5,), maxshape=(None,))
    else:
        store = zarr.ZipStore(str(source), mode="w") if kind == "zip" else zarr.DirectoryStore(str(source))
        zarr.group(store).create_dataset("v", shape=(10,), chunks=(5,), dtype="i4", fill_value=None)
        store.close()
    m = mount(source)
    text = json.loads((m.path / "v/.zarray").read_text())
    for number in range(2, 5):
        assert not (m.path / "v" / str(number)).exists()
        (m.path / "v/.zarray").write_text(json.dumps(text | {"shape": [5 * number + 1]}))
        assert (m.path / "v" / str(number)).read_bytes() == bytes(20)


def test_stale_handles(mount, tmp_path):
    """A chunk file that was open when its variable got another shape, or was removed, is stale: nothing goes to a wrong place."""
    path = tmp_path / "a.h5"
    m = mount(path, "create=hdf5,view=decoded")
    v = zarr.open_group(str(m.path), "a").create_dataset("v", data=ARRAY, chunks=CHUNKS, compressor=None)
    with open(m.path / "v/1.0", "r+b", buffering=0) as f:
        v.resize(40, 200)
        refused(errno.ESTALE, lambda: f.write(b"\1" * 2000))
    with open(m.path / "v/1.0", "r+b", buffering=0) as f:
        f.write(b"\1" * 8)
        shutil.rmtree(m.path / "v")
        refused(errno.ESTALE, lambda: f.write(b"\1" * 2000))
    assert not (m.path / "v").exists()
    m.close()
    with h5py.File(path, "r") as f:
        assert list(f) == []


def test_append(fresh):
    m = fresh.mount("commit=1")
    v = zarr.open_group(str(m.path), "a").create_dataset("v", shape=(0, 8), chunks=(16, 8), dtype="<f8", compressor=None)
    data = np.random.default_rng(5).random((200, 8))
    for at in range(0, 200, 20):
        v.append(data[at:at + 20])
    assert np.array_equal(fresh.read("v"), data)


ATTRIBUTES = {"text": "a text", "umlaut": "Grüße", "int": 5, "negative": -3, "float": 2.5, "large": 2**40, "huge": 2**63 + 5, "list": [1, 2, 3],
              "floats": [0.5, 1.0, 2.25], "texts": ["a", "bc", ""], "single": [7], "nan": float("nan"), "inf": float("inf"), "flag": True,
              "empty": "", "nested": [[1, 2], [3, 4]]}


def same_json(a, b):
    """NaN is NaN."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def test_attributes(fresh):
    m = fresh.mount()
    root = zarr.open_group(str(m.path), "a")
    v = root.create_dataset("v", shape=4, chunks=4, dtype="i4", fill_value=None, compressor=None)
    wanted = ATTRIBUTES.copy()
    for holder in (root, v):
        holder.attrs.put(wanted)
        shown = json.loads((m.path / holder.path / ".zattrs").read_text())
        if fresh.kind == "hdf5":
            if holder is v:
                assert shown.pop("_ARRAY_DIMENSIONS") == json.loads(shown.pop("_codecfs_phony_dimensions")) == ["phony_dim_0"]
            assert json.loads(shown.pop("_codecfs_float_attributes")) == ["inf", "nan"]  # JSON has no such numbers
            # Of netCDF: single values, and no booleans.
            assert same_json(shown, wanted | {"single": 7, "flag": 1, "nan": "NaN", "inf": "Infinity"})
            assert list(shown) == sorted(wanted)  # as zarr-python writes them
        else:
            assert same_json(shown, ATTRIBUTES)
        holder.attrs["int"] = 6
        del holder.attrs["list"]
        holder.attrs.update({"text": "a longer text than before", "new": [1.5]})
    m.close()
    for name in ("", "v"):
        now = fresh.attributes(name)
        assert now["int"] == 6 and "list" not in now and now["negative"] == -3 and now["float"] == 2.5
        text = now["text"].decode() if isinstance(now["text"], bytes) else now["text"]
        assert text == "a longer text than before"
    if fresh.kind == "hdf5":
        header = run("ncdump", "-h", fresh.source).stdout
        assert ':text = "a longer text than before" ;' in header and 'v:umlaut = "Grüße" ;' in header and "v:large = 1099511627776LL ;" in header


def test_attributes_keep_their_types(mount, tmp_path):
    """Those that did not change, to the bit; those that did, where the new value fits."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        d = f.create_dataset("v", data=ARRAY)
        d.attrs["f4"] = np.float32(0.1)
        d.attrs["i2"] = np.array([1, 2], ">i2")
        d.attrs["fixed"] = np.bytes_("abc")
        d.attrs["changed f4"] = np.float32(0.1)
        d.attrs["changed u1"] = np.uint8(3)
        d.attrs["grown u1"] = np.uint8(3)
        d.attrs["ref"] = f["v"].ref
        d.attrs["enum"] = np.bool_(True)
    m = mount(path)
    text = json.loads((m.path / "v/.zattrs").read_text())
    text |= {"changed f4": 0.25, "changed u1": 200, "grown u1": 300, "new": "x"}
    (m.path / "v/.zattrs").write_text(json.dumps(text))
    os.setxattr(m.path / "v", "user.more", b"1.5")
    os.setxattr(m.path / "v", "user.quoted", b'"5"')
    refused(errno.EEXIST, lambda: os.setxattr(m.path / "v", "user.more", b"1", os.XATTR_CREATE))
    refused(errno.ENODATA, lambda: os.setxattr(m.path / "v", "user.none", b"1", os.XATTR_REPLACE))
    refused(errno.ENODATA, lambda: os.removexattr(m.path / "v", "user.none"))
    os.removexattr(m.path / "v", "user.new")
    m.close()
    with h5py.File(path, "r") as f:
        types = {name: f["v"].attrs.get_id(name).dtype for name in f["v"].attrs}
        a = f["v"].attrs
        assert types["f4"] == "<f4" and a["f4"] == np.float32(0.1) and types["i2"] == ">i2" and types["fixed"] == "S3"
        assert types["changed f4"] == "<f4" and a["changed f4"] == 0.25
        assert types["changed u1"] == "u1" and a["changed u1"] == 200 and types["grown u1"] == "<i8" and a["grown u1"] == 300
        assert a["more"] == 1.5 and a["quoted"] == "5" and "new" not in a and f[a["ref"]] == f["v"] and a["enum"]


def test_names_of_attributes_that_are_not_utf8(mount, tmp_path):
    """Each name is shown as another one, and a change concerns the attribute of its name alone."""
    path, copy = tmp_path / "a.h5", tmp_path / "b.zarr"
    names = [b"d\xe9bit", "d\u00e9bit".encode(), b"d%E9bit", b"100%", b"a%41"]

    def stored(file):
        with h5py.File(file) as f:
            ids = f["v"].id
            found = [h5py.h5a.open(ids, index=i).name for i in range(h5py.h5a.get_num_attrs(ids))]
            return {name: read(ids, name) for name in found if name not in (b"_ARRAY_DIMENSIONS", b"DIMENSION_LIST")}

    def read(ids, name):
        value = np.zeros((), "i4")
        h5py.h5a.open(ids, name).read(value)
        return int(value)

    with h5py.File(path, "w") as f:
        f["v"] = np.arange(3)
        for i, name in enumerate(names):
            h5py.h5a.create(f["v"].id, name, h5py.h5t.STD_I32LE, h5py.h5s.create(h5py.h5s.SCALAR)).write(np.array(i, "i4"))
    before = stored(path)
    assert before == dict(zip(names, range(5)))
    m = mount(path)
    shown = json.loads((m.path / "v/.zattrs").read_text())
    assert shown.pop("_ARRAY_DIMENSIONS") == json.loads(shown.pop("_codecfs_phony_dimensions"))
    assert shown == {"d%E9bit": 0, "d\u00e9bit": 1, "d%25E9bit": 2, "100%": 3, "a%41": 4}
    assert {name: int(xattr(m.path / "v", name)) for name in shown} == shown
    os.setxattr(m.path / "v", "user.d%E9bit", b"10")
    os.setxattr(m.path / "v", "user.d\u00e9bit", b"11")
    os.removexattr(m.path / "v", "user.d%25E9bit")
    for name, value in ((b"user.d\xe9bit", b"7"), (b"user.units", b"\xb0C")):
        with pytest.raises(OSError) as raised:
            os.setxattr(m.path / "v", name, value)
        assert raised.value.errno == errno.EINVAL
    m.close()
    del before[b"d%E9bit"]
    assert stored(path) == {**before, b"d\xe9bit": 10, "d\u00e9bit".encode(): 11}
    # Into Zarr and back.
    for source, made in ((path, copy), (copy, tmp_path / "c.h5")):
        codecfs("convert", source, made)
    assert stored(tmp_path / "c.h5").keys() == stored(path).keys()


def test_an_editor(mount, tmp_path):
    """sed -i and the like write beside and rename; vi keeps a copy of the old text for a while."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=ARRAY)
        f["v"].attrs["units"] = "K"
        f["v"].attrs["other"] = 5
    m = mount(path)
    run("sed", "-i", "s/\"K\"/\"degC\"/", m.path / "v/.zattrs")
    assert xattr(m.path / "v", "units") == "degC"
    # as vi does it: a backup, the file anew, the backup away
    run("sh", "-c", 'mv .zattrs .zattrs~ && sed s/degC/F/ .zattrs~ > .zattrs && rm .zattrs~', cwd=m.path / "v")
    assert xattr(m.path / "v", "units") == "F"
    def write():
        with open(m.path / "v/.zattrs", "w") as f:
            f.write('{"units": ')
    refused(errno.EINVAL, write)
    assert xattr(m.path / "v", "units") == "F" and json.loads((m.path / "v/.zattrs").read_text())["units"] == "F"
    m.close()
    with h5py.File(path, "r") as f:
        assert dict(f["v"].attrs) == {"units": "F", "other": 5}


@pytest.mark.parametrize("view", ["", ".codecfs/view/encoded", ".codecfs/view/decoded3"])
def test_a_sparse_variable_is_removed_as_python_does_it(mount, tmp_path, view):
    """It lists all names before, removes each, and fails at the first that is not there: also those that are only shown."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", shape=(13, 20), chunks=(4, 6), dtype="i4")[0, 0] = 1
    m = mount(tmp_path / "a.h5")
    shutil.rmtree(m.path / view / "v")
    assert not (m.path / "v").exists()
    m.close()
    with h5py.File(tmp_path / "a.h5", "r") as f:
        assert list(f) == []


def test_remove(fresh):
    m = fresh.mount()
    root = zarr.open_group(str(m.path), "a")
    for name in ("v", "w", "g/v", "g/h/v"):
        root.create_dataset(name, data=ARRAY, chunks=CHUNKS, compressor=None)
    refused(errno.ENOTEMPTY, lambda: os.rmdir(m.path / "v"))
    refused(errno.ENOTEMPTY, lambda: os.rmdir(m.path / "g"))
    refused(errno.ENOENT, lambda: os.rmdir(m.path / "nothing"))
    run("rm", "-r", m.path / "v")
    shutil.rmtree(m.path / "g")
    assert sorted(n for n in os.listdir(m.path) if n[0] != ".") == ["w"] and not (m.path / "g").exists()
    assert "g/h/v/.zarray" not in (m.path / ".zmetadata").read_text()
    # Of a variable without its .zarray nothing is lost as long as it is there.
    os.unlink(m.path / "w/.zarray")
    os.unlink(m.path / "w/0.0")
    assert not (m.path / "w/.zarray").exists() and not (m.path / "w/0.0").exists() and (m.path / "w/0.1").exists()
    root.create_dataset("g", data=ARRAY * 2, chunks=CHUNKS, compressor=None)  # the name is free again
    root.create_dataset("g", data=ARRAY * 3, chunks=(40, 100), compressor=None, overwrite=True)
    assert np.array_equal(fresh.read("g"), ARRAY * 3)
    assert np.array_equal(fresh.read("w"), ARRAY)


def test_a_name_is_used_again(fresh):
    """Removed and created again, many times, with other shapes: the kernel uses nothing that it knew of the old one."""
    m = fresh.mount()
    for i in range(1, 12):
        os.mkdir(m.path / "v")
        (m.path / "v/.zarray").write_text(zarray([i * 2], [2]))
        for j in range(i):
            (m.path / f"v/{j}").write_bytes(np.array([i, j], "<i4").tobytes())
        assert len([n for n in os.listdir(m.path / "v") if n.isdigit()]) == i
        got = zarr.open_group(str(m.path), "r")["v"][...]
        assert list(got) == [x for j in range(i) for x in (i, j)]
        if i < 11:
            shutil.rmtree(m.path / "v")
    assert list(fresh.read("v")) == list(got)


def test_move(fresh):
    m = fresh.mount()
    root = zarr.open_group(str(m.path), "a")
    root.create_dataset("g/v", data=ARRAY, chunks=CHUNKS, compressor=None)
    root.create_dataset("g/h/w", data=ARRAY * 2, chunks=CHUNKS, compressor=None)
    root.create_group("other")
    (m.path / "g/v/0.0").write_bytes(bytes(2000))  # still to be stored
    with open(m.path / "g/v/0.1", "r+b", buffering=0) as f:
        run("mv", m.path / "g/v", m.path / "v")
        run("mv", m.path / "g", m.path / "other/gg")
        f.write(bytes(2000))
        assert (m.path / "v/0.1").read_bytes() == bytes(2000)
    refused(errno.EEXIST, lambda: os.rename(m.path / "v", m.path / "other"))
    refused(errno.EINVAL, lambda: os.rename(m.path / "other", m.path / "other/gg/other"))
    refused(errno.EPERM, lambda: os.rename(m.path / "other", m.path / "v/other"))
    refused(errno.EINVAL, lambda: os.rename(m.path / "v", m.path / "other/.zarray"))
    refused(errno.EXDEV, lambda: os.rename(m.path / "v", fresh.source.parent / "out"))
    assert sorted(n for n in os.listdir(m.path) if n[0] != ".") == ["other", "v"]
    assert xattr(m.path / "other/gg/h/w", "_Storage") == "chunked"
    expected = ARRAY.copy()
    expected[:10] = 0
    assert np.array_equal(fresh.read("v"), expected)
    assert np.array_equal(fresh.read("other/gg/h/w"), ARRAY * 2)


def test_links(mount, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("g/h/v", data=ARRAY)
        f["hard"] = f["g/h/v"]
    m = mount(path)
    os.symlink("g/h/v", m.path / "down")
    os.symlink("../g/h", m.path / "g/up")
    os.symlink("nowhere", m.path / "dangling")
    assert os.readlink(m.path / "down") == "g/h/v" and (m.path / "down/0.0").exists()
    assert os.path.samefile(m.path / "g/up", m.path / "g/h") and not (m.path / "dangling").exists()
    refused(errno.EEXIST, lambda: os.symlink("x", m.path / "down"))
    refused(errno.EINVAL, lambda: os.symlink("../../outside", m.path / "g/out"))
    os.unlink(m.path / "dangling")
    os.rename(m.path / "down", m.path / "g/moved")
    # An object with two names lives on at the other one.
    shown = os.path.realpath(m.path / "hard")
    shutil.rmtree(shown)
    time.sleep(1.1)  # a symlink is remembered for a second
    other = m.path / ("g/h/v" if shown.endswith("hard") else "hard")
    assert not other.is_symlink() and (other / ".zarray").exists()
    m.close()
    with h5py.File(path, "r") as f:
        assert np.array_equal(f[str(other.relative_to(m.path))][:], ARRAY)
        assert f["g"].get("up", getlink=True).path in ("/g/h", "h") and "dangling" not in f and "down" not in f


def test_links_to_absolute_paths(mount, tmp_path):
    """Below the mount point they are what programs mean by them; else they are paths of the file."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("g/h/v", data=ARRAY)
        f["elsewhere"] = h5py.SoftLink("/g")
    m = mount(path)
    os.symlink(m.path / "g/h/v", m.path / "g/to_v")
    os.symlink(f"{m.path}/g/../g/h/", m.path / "g/h/to_itself")
    os.symlink(m.path, m.path / "g/h/to_root")
    os.symlink("/g/h", m.path / "of_the_file")
    os.symlink(f"{m.path}2/g", m.path / "g/not_here")
    assert os.path.samefile(m.path / "g/to_v", m.path / "g/h/v")
    assert os.path.samefile(m.path / "g/h/to_itself", m.path / "g/h")
    assert os.path.samefile(m.path / "g/h/to_root", m.path)
    assert os.path.samefile(m.path / "of_the_file", m.path / "g/h")
    assert not (m.path / "g/not_here").exists()
    os.symlink(m.path / "g/loop", m.path / "g/loop")
    refused(errno.ELOOP, lambda: os.stat(m.path / "g/loop/x"))
    m.close()
    with h5py.File(path, "r") as f:
        assert np.array_equal(f["g/to_v"][:], ARRAY) and f["g/h/to_root"].id == f["/"].id and f["of_the_file"].name == "/of_the_file"


def test_times_follow_the_names_in_a_directory(mount, tmp_path):
    """For make, rsync and other programs that ask a directory whether there is something new in it."""
    m = mount(tmp_path / "a.h5", "create=hdf5,view=decoded")
    (m.path / "g").mkdir()
    (m.path / "other").mkdir()

    def changes(work, *directories):
        before = [os.stat(m.path / name) for name in directories]
        time.sleep(0.02)
        work()
        for name, old in zip(directories, before):
            new = os.stat(m.path / name)
            assert new.st_mtime_ns > old.st_mtime_ns and new.st_ctime_ns > old.st_ctime_ns, name

    changes(lambda: (m.path / "g/x").mkdir(), "g")
    assert os.stat(m.path / "g/x").st_mtime_ns == pytest.approx(time.time_ns(), abs=10e9)
    changes(lambda: os.rename(m.path / "g/x", m.path / "other/x"), "g", "other")
    changes(lambda: os.rmdir(m.path / "other/x"), "other")
    changes(lambda: (m.path / "g/notes~").write_text("x"), "g")
    changes(lambda: os.rename(m.path / "g/notes~", m.path / "other/notes~"), "g", "other")
    changes(lambda: os.unlink(m.path / "other/notes~"), "other")
    changes(lambda: os.symlink("../other", m.path / "g/link"), "g")
    changes(lambda: os.unlink(m.path / "g/link"), "g")


def test_links_in_zarr(mount, tmp_path):
    m = mount(tmp_path / "a.zarr", "create=zarr,view=decoded")
    refused(errno.EPERM, lambda: os.symlink("x", m.path / "y"))


@pytest.mark.parametrize("way", ["cp --preserve=xattr -r", "cp -r", "copytree", "by name", "rsync -r"])
def test_copy_in(fresh, mount, tmp_path, way):
    """A copy of a tree of another mount, in whatever order its files come. Filter pipelines are extended attributes and
    files that are not listed: they are copied where attributes are, or by name."""
    if way.startswith("rsync") and not shutil.which("rsync"):
        pytest.skip("there is no rsync")
    source = tmp_path / "from.h5"
    program = (f"import h5py, numpy as np\nf = h5py.File({str(source)!r}, 'w')\nA = np.load({str(tmp_path / 'a.npy')!r})\n"
               "f.create_dataset('g/v', data=A, chunks=(10, 50), compression=32015, compression_opts=(3,), fillvalue=-2)\n"
               "f['g/v'].attrs['_FillValue'] = np.int32(-2)\nf['g/v'].attrs['units'] = 'K'\nf['g'].attrs['title'] = 'T'\n"
               "f.create_dataset('g/n', data=A[:7], compression='gzip')\n")
    np.save(tmp_path / "a.npy", ARRAY)
    run(sys.executable, "-c", program, env=with_plugins())
    other = mount(source)
    m = fresh.mount()
    if way.startswith("rsync"):
        run(*way.split(), "--chmod=D755,F644", f"{other.path}/g", m.path)
    elif way.startswith("cp"):
        run(*way.split(), other.path / "g", m.path)
    elif way == "copytree":
        shutil.copytree(other.path / "g", m.path / "g")
    else:  # chunks first
        os.makedirs(m.path / "g/v")
        os.makedirs(m.path / "g/n")
        for name in ("v", "n"):
            files = sorted([*os.listdir(other.path / "g" / name), "_Filter", "_Codecs"], reverse=True)
            for file in sorted(files, key=lambda n: n == ".zarray"):
                shutil.copyfile(other.path / "g" / name / file, m.path / "g" / name / file)
        shutil.copyfile(other.path / "g/.zattrs", m.path / "g/.zattrs")
    for name in ("v", "n"):
        wanted = "none" if way in ("cp -r", "rsync -r") else xattr(other.path / "g" / name, "_Filter")
        assert xattr(m.path / "g" / name, "_Filter") == wanted
        ours, theirs = (json.loads((r / "g" / name / ".zattrs").read_text()) for r in (m.path, other.path))
        if fresh.kind == "hdf5":
            for attributes in ours, theirs:  # the numbers of generated names are those of all objects of a file
                assert attributes.pop("_ARRAY_DIMENSIONS") == json.loads(attributes.pop("_codecfs_phony_dimensions"))
            assert ours == theirs
    assert np.array_equal(fresh.read("g/v"), ARRAY) and np.array_equal(fresh.read("g/n"), ARRAY[:7])
    assert fresh.attributes("g/v")["units"] in ("K", b"K") and fresh.attributes("g")["title"] in ("T", b"T")


def test_copy_under_a_rule(mount, tmp_path):
    """A rule of the mount decides for what is copied in, whatever chain comes with it."""
    source = tmp_path / "from.h5"
    with h5py.File(source, "w") as f:
        f.create_dataset("v", data=ARRAY, chunks=CHUNKS, compression="gzip")
        f.create_dataset("plain", data=ARRAY, chunks=CHUNKS)
    other = mount(source, "ro")
    m = mount(tmp_path / "to.h5", "create=hdf5,view=decoded", rules=["*,shuffle|1,2"])
    for name in ("v", "plain"):
        run("cp", "-r", "--preserve=timestamps", other.path / name, m.path)
        assert xattr(m.path / name, "_Filter") == "2,4|1,2"
    assert m.stats()["variables_recoded"] == 0
    m.close()
    for name in ("v", "plain"):
        assert hdf5_filters(tmp_path / "to.h5", name) == [2, 1] and np.array_equal(hdf5_values(tmp_path / "to.h5", name), ARRAY)


def test_copy_of_a_variable_in_a_mount(fresh):
    """Variables with and without filters, with their extended attributes."""
    m = fresh.mount()
    root = zarr.open_group(str(m.path), "a")
    for name, spec in (("plain", "none"), ("packed", "1,5")):
        root.create_dataset(name, data=ARRAY, chunks=CHUNKS, compressor=None).attrs["units"] = "K"
        set_filter(m.path / name, spec)
        run("cp", "-a", m.path / name, m.path / f"{name}2")
        assert xattr(m.path / f"{name}2", "_Filter") == spec and xattr(m.path / f"{name}2", "units") == "K"
    for name in ("plain2", "packed2"):
        assert np.array_equal(fresh.read(name), ARRAY)


def test_new_directories_show_what_was_said(fresh):
    """A directory that was just made hides what was not written, and nothing else."""
    m = fresh.mount()
    os.mkdir(m.path / "v")
    assert not (m.path / "v/.zattrs").exists()
    (m.path / "v/.zarray").write_text(zarray([4], [2]))
    os.setxattr(m.path / "v", "user.units", b"K")
    set_filter(m.path / "v", "1,5")
    assert json.loads((m.path / "v/.zattrs").read_text())["units"] == "K"
    assert (m.path / "v/_Filter").read_text() == "1,5\n"
    assert dict(zarr.open_group(str(m.path), "r")["v"].attrs)["units"] == "K"
    os.mkdir(m.path / "g")
    os.listdir(m.path / "g")
    assert not (m.path / "g/_Filter").exists() and not (m.path / "g/0").exists()
    (m.path / "g/.zarray").write_text(zarray([4], [2], "<f8"))
    os.listdir(m.path / "g")  # that of the empty group showed nothing, so it did not end this
    assert (m.path / "g/_Filter").read_text() == "none\n"
    (m.path / "g/.zarray").write_text(zarray([6], [2], "<f8"))  # the same fill value, told in another way
    assert not (m.path / "g/0").exists()
    (m.path / "g/0").write_bytes(bytes(16))
    # A chunk that is written again after its .zarray went is there, with the others.
    os.unlink(m.path / "g/.zarray")
    os.unlink(m.path / "g/0")
    (m.path / "g/0").write_bytes(np.array([1.5, 2.5]).tobytes())
    (m.path / "g/.zarray").write_text(zarray([6], [2], "<f8"))
    assert list(fresh.read("g")) == [1.5, 2.5, 0, 0, 0, 0]


def test_the_reason_of_a_refused_zarray(fresh):
    m = fresh.mount()
    os.mkdir(m.path / "v")
    refused(errno.EINVAL, lambda: (m.path / "v/.zarray").write_text(zarray([4], [0])))
    assert "chunks" in xattr(m.path / "v", "_Error")


def test_one_of_two_hard_links_goes(mount, tmp_path):
    """What was written to a dataset that has another name is there under that."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("a", data=np.zeros(8, "i4"), chunks=(4,))
        f["b"] = f["a"]
    m = mount(path, "commit=3600")
    (m.path / "a/0").write_bytes(np.full(4, 7, "<i4").tobytes())
    shutil.rmtree(m.path / "a" if not (m.path / "a").is_symlink() else m.path / "b")
    m.close()
    with h5py.File(path, "r") as f:
        assert len(f) == 1 and list(f[list(f)[0]][:]) == [7] * 4 + [0] * 4


def test_a_link_over_a_link(mount, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f["a"], f["b"] = 1, 2
    m = mount(path)
    run("ln", "-s", "a", m.path / "l")
    run("ln", "-sfn", "b", m.path / "l")
    assert os.readlink(m.path / "l") == "b"
    m.close()
    with h5py.File(path, "r") as f:
        assert f["l"][()] == 2


def test_writers_and_a_resizer(fresh):
    """Chunks are written while the grid changes under them: a write goes to the chunk that it was meant for, or is refused."""
    import threading
    m = fresh.mount("dirty=1M", "commit=1")
    v = zarr.open_group(str(m.path), "a").create_dataset("v", shape=(8, 8), chunks=(1, 1), dtype="<i8", fill_value=-1, compressor=None)
    ended = threading.Event()
    seen = []

    def write(seed):
        rng = np.random.default_rng(seed)
        while not ended.is_set():
            i, j = rng.integers(0, 8, 2)
            try:
                fd = os.open(m.path / f"v/{i}.{j}", os.O_WRONLY | os.O_CREAT)
                try:
                    os.pwrite(fd, np.int64(i * 100 + j).tobytes(), 0)
                finally:
                    os.close(fd)
            except OSError as error:
                seen.append(error.errno)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for writer in writers:
        writer.start()
    rng = np.random.default_rng(1)
    try:
        for _ in range(60):
            v.resize(8, int(rng.integers(3, 9)))
    finally:
        ended.set()
        for writer in writers:
            writer.join()
    # Outside of the grid EINVAL; where it changed meanwhile ESTALE, or ENOENT.
    assert set(seen) <= {errno.EINVAL, errno.ESTALE, errno.ENOENT}, set(seen)
    shape = v.shape
    result = fresh.read("v")
    assert result.shape == shape
    wanted = np.arange(shape[0])[:, None] * 100 + np.arange(shape[1])
    assert ((result == wanted) | (result == -1)).all(), result
    assert (result == wanted).any()


def test_readers_and_a_resizer(fresh):
    """Chunks are read in all views while the numbers of chunks change: each read has the content of its name, or fails."""
    import threading
    m = fresh.mount("dirty=1M", "commit=3600")
    v = zarr.open_group(str(m.path), "a").create_dataset("v", shape=(8, 8), chunks=(1, 1), dtype="<i8", fill_value=-1, compressor=None)
    wanted = np.arange(8)[:, None] * 100 + np.arange(8)
    v[:] = wanted
    ended = threading.Event()
    errors, wrong, right = set(), [], []

    def read(seed):
        rng = np.random.default_rng(seed)
        while not ended.is_set():
            i, j = (int(n) for n in rng.integers(0, 8, 2))
            j %= 5  # the columns that always are there
            place = (f"v/{i}.{j}", f".codecfs/view/encoded/v/{i}.{j}", f".codecfs/view/encoded3/v/c/{i}/{j}")[seed % 3]
            try:
                data = (m.path / place).read_bytes()
            except OSError as error:
                errors.add(error.errno)
                continue
            (right if data == np.int64(wanted[i, j]).tobytes() else wrong).append((place, data))

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for reader in readers:
        reader.start()
    try:
        for width in [5, 8, 6, 7] * 50:
            v.resize(8, width)
    finally:
        ended.set()
        for reader in readers:
            reader.join()
    assert not wrong, wrong[:5]
    assert right and errors <= {errno.ESTALE}, errors  # ENOENT would be fill
    result = fresh.read("v")
    assert (result[:, :5] == wanted[:, :5]).all()


def test_moved_while_it_becomes_a_variable(mount, tmp_path):
    """mkdir, .zarray and mv at once: each directory is there once."""
    import threading
    path = tmp_path / "a.h5"
    m = mount(path, "create=hdf5,view=decoded")
    text = zarray([4], [2])

    def move(i):
        try:
            os.rename(m.path / f"v{i}", m.path / f"moved{i}")
        except OSError:
            pass

    for i in range(60):
        os.mkdir(m.path / f"v{i}")
        mover = threading.Thread(target=move, args=(i,))
        mover.start()
        try:
            (m.path / f"v{i}/.zarray").write_text(text)
        except OSError as error:
            assert error.errno in (errno.ENOENT, errno.ESTALE), error
        mover.join()
    m.close()
    with h5py.File(path, "r") as f:
        assert sorted(int(name.removeprefix("v").removeprefix("moved")) for name in f) == list(range(60))


def test_leftovers_are_told(mount, tmp_path):
    """Chunks whose .zarray never comes: the unmount reports them."""
    m = mount(tmp_path / "a.h5", "create=hdf5,view=decoded")
    os.mkdir(m.path / "v")
    (m.path / "v/0.0").write_bytes(b"x" * 100)
    assert (m.path / "v/0.0").read_bytes() == b"x" * 100
    with pytest.raises(RuntimeError, match="0.0"):
        m.close()


# --- Zarr and netCDF writers


def test_zarr_python(fresh):
    """Groups, arrays, slices, resize, append, delete, as one writes them."""
    m = fresh.mount()
    root = zarr.open_group(str(m.path), "a")
    root.attrs["title"] = "all"
    g = root.create_group("a/b")
    v = g.create_dataset("v", shape=(100, 30), chunks=(7, 9), dtype="<f4", fill_value=np.nan, compressor=None)
    mirror = np.full((100, 30), np.nan, "<f4")
    rng = np.random.default_rng(6)
    for i in range(60):
        r = sorted(rng.integers(0, 101, 2)), sorted(rng.integers(0, 31, 2))
        value = rng.random((r[0][1] - r[0][0], r[1][1] - r[1][0])).astype("<f4")
        v[r[0][0]:r[0][1], r[1][0]:r[1][1]] = value
        mirror[r[0][0]:r[0][1], r[1][0]:r[1][1]] = value
    v.oindex[[3, 50], :] = 5
    mirror[[3, 50]] = 5
    assert np.array_equal(v[:], mirror, equal_nan=True)
    root["scalar"] = np.float64(2.5)
    g.create_dataset("gone", data=np.arange(5), compressor=None)
    del g["gone"]
    assert "gone" not in g and list(g) == ["v"]
    zarr.convenience.consolidate_metadata(str(m.path))
    assert np.array_equal(zarr.open_consolidated(str(m.path))["a/b/v"][:], mirror, equal_nan=True)
    set_filter(m.path / "a/b/v", "2|32015,3")
    v[0] = 1
    mirror[0] = 1
    assert np.array_equal(fresh.read("a/b/v"), mirror, equal_nan=True)
    assert fresh.read("scalar") == 2.5


def dataset():
    time = np.datetime64("2020-01-01", "ns") + np.arange(5).astype("timedelta64[D]")
    rng = np.random.default_rng(7)
    return xarray.Dataset(
        {"temperature": (("time", "lat", "lon"), rng.random((5, 4, 6)).astype("f4"), {"units": "K", "valid": [0.0, 400.0]}),
         "count": (("lat", "lon"), rng.integers(0, 99, (4, 6)).astype("i2")),
         "name": (("lat",), np.array(["a", "bb", "", "dddd"], dtype=object)),
         "total": ((), 3.5)},
        {"time": time, "lat": [1.0, 2, 3, 4], "lon": np.arange(6.0), "area": (("lat", "lon"), rng.random((4, 6)))},
        {"title": "made by xarray", "version": 3})


def raw(d):
    return {name: {"compressor": None} for name in d.variables}


def test_xarray(fresh):
    """A dataset into a source that is new, compressed, appended to, and read back by netCDF-C and xarray."""
    whole = dataset()
    m = fresh.mount(rules=["*,shuffle|1,4"])
    first = whole.isel(time=slice(0, 2))
    first.to_zarr(m.path / "g", encoding=raw(first), mode="w", consolidated=True)
    whole.isel(time=slice(2, 5)).drop_vars(["count", "name", "total", "area"]).to_zarr(m.path / "g", append_dim="time", mode="a")
    xarray.testing.assert_identical(xarray.open_zarr(m.path / "g").load(), whole)
    m.close()
    if fresh.kind != "hdf5":
        store = zarr.ZipStore(str(fresh.source), mode="r") if fresh.kind == "zip" else str(fresh.source)
        with xarray.open_zarr(store, group="g") as again:
            xarray.testing.assert_identical(again.load(), whole)
        return
    with xarray.open_dataset(fresh.source, group="g", engine="netcdf4") as again:
        xarray.testing.assert_equal(again.load(), whole)
        assert again.temperature.attrs["units"] == "K" and again.attrs["title"] == "made by xarray"
    assert hdf5_filters(fresh.source, "g/temperature") == [2, 1]
    dump = run("ncdump", fresh.source).stdout
    for line in ("time = UNLIMITED ; // (5 currently)", "lat = UNLIMITED ; // (4 currently)", "float temperature(time, lat, lon) ;",
                 'temperature:units = "K" ;', ':title = "made by xarray" ;', "double lat(lat) ;", "string name(lat) ;"):
        assert line in dump, (line, dump)
    assert "phony" not in dump


def test_xarray_data_variable_first(mount, tmp_path):
    """A dimension is there before its coordinate variable: that takes the place of the mere dimension."""
    path = tmp_path / "a.nc"
    m = mount(path, "create=hdf5,view=decoded")
    root = zarr.open_group(str(m.path), "a")
    for name, dims, data in (("t", ("y", "x"), np.arange(12.0).reshape(3, 4)), ("u", ("x",), np.arange(4)), ("x", ("x",), np.arange(4) * 10.0)):
        root.create_dataset(name, data=data, compressor=None, fill_value=None).attrs["_ARRAY_DIMENSIONS"] = list(dims)
        assert json.loads((m.path / name / ".zattrs").read_text())["_ARRAY_DIMENSIONS"] == list(dims)
    for name, dims in (("t", ["y", "x"]), ("u", ["x"]), ("x", ["x"])):
        assert json.loads((m.path / name / ".zattrs").read_text())["_ARRAY_DIMENSIONS"] == dims
    assert sorted(n for n in os.listdir(m.path) if n[0] != ".") == ["t", "u", "x"]
    m.close()
    dump = run("ncdump", path).stdout
    assert "double t(y, x) ;" in dump and "double x(x) ;" in dump and "int64 u(x) ;" in dump and " x = 0, 10, 20, 30 ;" in dump
    assert "y = UNLIMITED ; // (3 currently)" in dump and "phony" not in dump


def test_netcdf_c_writes(fresh, tmp_path):
    """nccopy of a netCDF file into a mount, as Zarr."""
    cdl = tmp_path / "in.cdl"
    cdl.write_text("""netcdf in { dimensions: x = 4 ; y = 3 ;
variables: double x(x) ; x:units = "m" ; int v(y, x) ; v:long_name = "values" ; v:n = 3 ; short s(x) ;
:title = "T" ;
data: x = 1, 2, 3, 4 ; v = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 ; s = 5, 6, 7, 8 ; }
""")
    run("ncgen", "-4", "-o", tmp_path / "in.nc", cdl)
    m = fresh.mount()
    run("timeout", "60", "nccopy", tmp_path / "in.nc", f"file://{m.path}/g#mode=zarr,file")
    assert run("ncdump", "-n", "in", f"file://{m.path}/g#mode=zarr,file").stdout.count("units") == 1
    m.close()
    assert list(fresh.read("g/v").ravel()) == list(range(1, 13)) and list(fresh.read("g/s")) == [5, 6, 7, 8]
    if fresh.kind == "hdf5":
        dump = run("ncdump", fresh.source).stdout
        assert "double x(x) ;" in dump and "int v(y, x) ;" in dump and 'v:long_name = "values" ;' in dump
