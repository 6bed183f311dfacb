"""-o strings= and -o chunks=: forms for programs that cannot read all of Zarr, as netCDF-C. What ncdump prints of the mount is
what it prints of the file; zarr-python, h5py and a reader of our own tell whether every view has the same values."""
import errno
import json
import os

import h5py
import netCDF4
import numcodecs
import numpy as np
import pytest
import zarr
from conftest import DATA
from client_venvs import python_of
from running import codecfs, run
from test_netcdf_tools import data_of, ncdump, plain_home  # noqa: F401: a fixture

import zarr3_stores
from zarr3 import metadata_of, read_array
from zarr3_stores import write_array, write_group

WORDS = ["a", "bü", "", "日本語", "xyz"]
FILLED = np.array([["p", "zz"], ["zz", "q"]], object)


def zarray(directory):
    return json.loads((directory / ".zarray").read_text())


def url(path):
    return f"file://{path}#mode=zarr,file"


@pytest.fixture
def netcdf(tmp_path):
    """Strings and characters of netCDF-4, and chunks that are longer than their dimensions."""
    path = tmp_path / "n.nc"
    with netCDF4.Dataset(path, "w") as nc:
        for name, size in (("time", None), ("n", 5), ("k", 3)):
            nc.createDimension(name, size)
        nc.createVariable("time", "f8", ("time",))[:] = [1.5, 2.5]  # in chunks of 512
        nc.createVariable("t", "i4", ("time", "n"), zlib=True, shuffle=True, chunksizes=(7, 3))[:] = np.arange(10).reshape(2, 5)
        nc.createVariable("names", str, ("n",))[:] = np.array(WORDS, object)
        nc.createVariable("tags", str, ("time", "k"), chunksizes=(4, 2))[:] = np.array([["u", "vv", "w"], ["", "xxx", "y"]], object)
        nc.createVariable("codes", "S1", ("n", "k"), zlib=True)[:] = np.array([list("abc"), list("de\0"), *[list("f\0\0")] * 3], "S1")
    return path


def joined(values):
    """The strings in arrays of bytes."""
    packed = np.ascontiguousarray(values).view(f"S{values.shape[-1]}")[..., 0]
    return np.char.decode(packed, "utf-8").tolist()


def test_ncdump_of_what_is_longer_than_the_array(mount, netcdf, tmp_path, plain_home):
    path = tmp_path / "numbers.nc"
    run("nccopy", "-V", "time,t", netcdf, path)
    refused = run("ncdump", url(mount(path, "ro").path), code=None)
    if refused.returncode == 0:
        pytest.skip("this ncdump needs no chunks=clamped")  # that of netCDF 4.10
    shown = data_of(ncdump(url(mount(path, "chunks=clamped").path)))
    assert shown == data_of(ncdump(path)) and set(shown) == {"time", "t"}


def test_ncdump_of_strings(mount, netcdf, plain_home):
    """netCDF-C 4.9.0 crashes at strings and characters: it prints their bytes."""
    text = ncdump(url(mount(netcdf, "chunks=clamped,strings=bytes").path))
    shown, file = data_of(text), data_of(ncdump(netcdf))
    assert {name: shown[name] for name in ("time", "t")} == {name: file[name] for name in ("time", "t")}
    assert "ubyte names(n, string9)" in text and "ubyte codes(n, k)" in text
    numbers = np.array(shown["names"].split(","), "u1").reshape(5, 9)
    assert joined(numbers) == WORDS
    assert shown["codes"].startswith("97,98,99,100,101,0,102,0,0,")


def test_a_newer_netcdf_reads_fixed_strings(mount, netcdf):
    script = ("import json, sys, netCDF4; data = netCDF4.Dataset(sys.argv[1]);"
              "print(json.dumps({name: data[name][:].tolist() for name in sys.argv[2:]}))")
    m = mount(netcdf, "strings=fixed")
    read = run(python_of("netCDF4 wheel"), "-c", script, url(m.path), "names", "tags", "t", env={"PYTHONPATH": None})
    assert json.loads(read.stdout) == {"names": WORDS, "tags": [["u", "vv", "w"], ["", "xxx", "y"]], "t": np.arange(10).reshape(2, 5).tolist()}


@pytest.fixture(params=["hdf5", "zarr", "zarr3"])
def source(request, tmp_path):
    """{name: values} and a source of them, with chunks longer than the arrays, edge chunks, strings, fills and absent chunks."""
    numbers = np.arange(35, dtype="i4").reshape(5, 7)
    values = {"words": np.array(WORDS, object), "numbers": numbers, "filled": FILLED, "same": np.arange(6, dtype="f8"),
              "scalar": np.array("one", object), "wide": np.array([["ab", "ü"]], object)}
    chunks = {"words": (2,), "numbers": (8, 4), "filled": (1, 4), "same": (3,), "scalar": (), "wide": (3, 3)}
    path = tmp_path / f"source.{request.param}"
    if request.param == "hdf5":
        with h5py.File(path, "w") as f:
            for name, data in values.items():
                more = {} if data.ndim == 0 else {"chunks": chunks[name], "maxshape": (None,) * data.ndim}
                if name in ("numbers", "words"):
                    more.update(compression="gzip", shuffle=name == "numbers")
                kind = h5py.string_dtype() if data.dtype == object else data.dtype
                made = f.create_dataset(name, shape=data.shape, dtype=kind, fillvalue="zz" if name == "filled" else None, **more)
                made[...] = data
        return path, values
    if request.param == "zarr":
        group = zarr.open_group(str(path), "w")
        values["utf32"] = np.array(WORDS, "<U4")
        values["big"] = np.array([WORDS], ">U3")
        for name, data in values.items():
            codec = {"object_codec": numcodecs.VLenUTF8()} if data.dtype == object else {}
            fill = "zz" if name == "filled" else "" if data.dtype.kind in "OU" else 7
            group.create_dataset(name, data=data, chunks=chunks.get(name, True) or None, fill_value=fill, **codec)
        values["filled"] = np.vstack([FILLED, [["zz", "zz"]]])
        group["filled"].resize(3, 2)
        return path, values
    write_group(path)
    sharding = {"name": "sharding_indexed", "configuration": {
        "chunk_shape": [8, 4], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 1}}]}}
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    write_array(path / "numbers", numbers, (8, 8), [sharding], "int32", 0, 0)
    write_array(path / "same", values["same"], (3,), [little], "float64", 0, 0.0)
    for name in ("words", "filled", "wide"):
        fill = "zz" if name == "filled" else ""
        write_array(path / name, values[name], chunks[name], [{"name": "vlen-utf8"}], "string", fill, fill)
    del values["scalar"]
    return path, values


def read_v3(root):
    for name in os.listdir(root):
        if (root / name / "zarr.json").exists():
            is_sharded = metadata_of(root / name)["codecs"][0]["name"] == "sharding_indexed"
            yield name, zarr3_stores.read_array(root / name, "<i4", 0) if is_sharded else read_array(root / name)


@pytest.mark.parametrize("options", ["chunks=clamped", "strings=fixed", "strings=bytes", "chunks=clamped,strings=fixed",
                                     "chunks=clamped,strings=bytes"])
def test_every_view_has_the_values(mount, source, options):
    path, values = source
    m = mount(path, options)
    clamps, bytes_alone, fixed = ("clamped" in options), ("bytes" in options), ("fixed" in options)

    def texts(found):
        if bytes_alone:
            return joined(found)
        return np.char.decode(found, "utf-8").tolist() if fixed else found.tolist()

    for view in ("decoded", "encoded", "decoded3", "encoded3"):
        root = m.path / ".codecfs/view" / view
        found = dict(read_v3(root)) if view.endswith("3") else {name: array[...] for name, array in zarr.open_group(str(root), "r").arrays()}
        assert set(found) == set(values)
        for name, wanted in values.items():
            if wanted.dtype.kind in "OU" and options != "chunks=clamped":
                longest = max(len(word.encode()) for word in wanted.ravel())
                assert found[name].dtype == ("u1" if bytes_alone else f"S{longest}"), (view, name)
                assert texts(found[name]) == wanted.tolist(), (view, name)
            else:
                assert found[name].tolist() == wanted.tolist(), (view, name)
            about = metadata_of(root / name) if view.endswith("3") else zarray(root / name)
            chunks = about["chunk_grid"]["configuration"]["chunk_shape"] if view.endswith("3") else about["chunks"]
            if clamps:
                assert all(chunk <= length for chunk, length in zip(chunks, about["shape"])), (view, name)
            if clamps and name == "numbers":
                assert chunks == [5, 4]
    for file in (m.path / ".codecfs/view/npy").iterdir():
        data, wanted = np.load(file), values[file.stem]
        assert (texts(data) if wanted.dtype.kind in "OU" and options != "chunks=clamped" else data.tolist()) == wanted.tolist(), file
    assert ("words.npy" in os.listdir(m.path / ".codecfs/view/npy")) == (options != "chunks=clamped")


def test_what_fits_passes_as_it_is_stored(mount, source):
    path, _ = source
    m, plain = mount(path, "chunks=clamped,strings=bytes", "view=encoded"), mount(path, "ro", "view=encoded")
    for file in (".zarray", ".zattrs", "0", "1"):
        assert (m.path / "same" / file).read_bytes() == (plain.path / "same" / file).read_bytes()


def test_a_rule_compresses_the_encoded_view(mount, netcdf, tmp_path):
    m = mount(netcdf, "strings=fixed", "view=encoded", rules=["*,zstd,3"])
    run("cp", "-r", m.path, tmp_path / "copy")
    copied = zarr.open_group(str(tmp_path / "copy"), "r")
    assert copied["names"].compressor == numcodecs.Zstd(3) and copied["names"].dtype == "S9"
    assert [word.decode() for word in copied["names"][...]] == WORDS


@pytest.mark.parametrize("option", ["strings=fixed", "strings=bytes", "chunks=clamped"])
def test_nothing_can_be_written(mount, netcdf, option):
    m = mount(netcdf, option)
    for change in (lambda: (m.path / "t/0.0").write_bytes(b"x"), lambda: os.mkdir(m.path / "new"), lambda: os.unlink(m.path / "names/0"),
                   lambda: os.setxattr(m.path / "t", "user._Filter", b"none")):
        with pytest.raises(OSError) as caught:
            change()
        assert caught.value.errno == errno.EROFS
    before = netcdf.read_bytes()
    m.close()
    assert netcdf.read_bytes() == before


def test_a_string_that_became_longer_is_an_error(mount, tmp_path):
    group = zarr.open_group(str(tmp_path / "z"), "w")
    array = group.create_dataset("s", data=np.array(["a", "b", "c"], object), chunks=(2,), object_codec=numcodecs.VLenUTF8(), compressor=None)
    m = mount(tmp_path / "z", "strings=fixed", "cache=1M")
    assert zarray(m.path / "s")["dtype"] == "|S1"
    array[2] = "longer"
    with pytest.raises(OSError) as caught:
        (m.path / "s/1").read_bytes()
    assert caught.value.errno == errno.EIO and "6 bytes" in m.messages()
    assert (m.path / "s/0").read_bytes() == b"ab"


def test_strings_that_would_make_too_large_chunks(mount, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        data = np.full(200000, "x", object)
        data[7] = "y" * 200
        f.create_dataset("s", data=data, dtype=h5py.string_dtype(), chunks=(100000,))
        f["few"] = np.array(["a", "bc"], object)
    m = mount(tmp_path / "a.h5", "strings=fixed", "max_chunk=4M")
    assert zarray(m.path / "s")["dtype"] == "|S200"
    with pytest.raises(OSError) as caught:
        (m.path / "s/0").read_bytes()
    assert caught.value.errno == errno.EFBIG and "max_chunk" in m.messages()
    assert (m.path / "few/0").read_bytes() == b"a\0bc"


@pytest.mark.parametrize("options", ["coherent,strings=fixed", "coherent,view=netcdf"])
def test_options_that_contradict_each_other(tmp_path, options):
    done = codecfs("-o", options, DATA / "zarr/groups", tmp_path, code=1)
    assert "coherent" in done.stderr


@pytest.fixture
def odd(tmp_path):
    """What netCDF-C crashes at, or refuses a whole store for, beside what it reads."""
    path = tmp_path / "odd.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(6, dtype="i2").reshape(2, 3)
        file["scalar"], file["text"] = np.float32(2.5), "word"
        file["words"] = np.array(WORDS, object)
        file["half"], file["flags"], file["complex"] = np.zeros(2, "f2"), np.array([True]), np.ones(2, "c8")
        file["record"] = np.zeros(2, [("a", "i4"), ("b", "f8")])
        file.create_dataset("none", shape=(0, 3), maxshape=(None, 3), dtype="i4", chunks=(2, 3))
        file["group/inner"] = np.arange(3.0)
        file["soft"], file["dangling"], file["group/up"] = h5py.SoftLink("/good"), h5py.SoftLink("/nothing"), h5py.SoftLink("/")
        attributes = {"text": "t", "numbers": [1.5, 2.5], "first_is_small": [1, 300, 3000000000], "large": np.array([1 << 63, 1], "u8"),
                      "words": np.array(["a", "b"], object), "nothing": h5py.Empty("f4"), "flags": [True, False], "long": 1 << 40}
        for name, value in attributes.items():
            file["good"].attrs[name] = value
        file.attrs["words"] = np.array(["c", "d"], object)
    return path


def test_view_for_netcdf(mount, odd, plain_home):
    m = mount(odd, "view=netcdf")
    text = ncdump(url(m.path))
    shown, file = data_of(text), {}
    with h5py.File(odd) as source:
        for name in ("good", "group/inner"):
            file[name.split("/")[-1]] = ",".join(f"{number:g}" for number in source[name][()].ravel())
    assert {name: shown[name] for name in file} == file
    assert shown["scalar"] == "2.5" and set(shown) == {*file, "scalar", "text", "words"}
    assert joined(np.array(shown["words"].split(","), "u1").reshape(5, 9)) == WORDS
    for line in ("good:first_is_small = 1., 300., 3000000000. ;", "good:numbers = 1.5, 2.5 ;", 'good:text = "t" ;', "good:long = 1099511627776LL ;",
                 'good:words = "[\\"a\\", \\"b\\"]" ;', 'good:large = "[9223372036854775808, 1]" ;'):
        assert line in text, (line, text)
    messages = m.messages()
    for name in ("half", "flags", "complex", "record", "none"):
        assert f"{name}: is left out of the view for netCDF-C" in messages
    assert not {"soft", "dangling", "half", "none"} & set(os.listdir(m.path))
    for change in (lambda: (m.path / "good/.zattrs").write_text("{}"), lambda: (m.path / "new").mkdir()):
        with pytest.raises(OSError) as caught:
            change()
        assert caught.value.errno == errno.EROFS


def test_dimensions_of_one_name_in_the_view_for_netcdf(mount, tmp_path, plain_home):
    """netCDF-C 4.9 has one length for a name in a whole store, and cuts or pads what has another."""
    group = zarr.open_group(str(tmp_path / "z"), "w")
    arrays = {"scalar": ((5,), ["scalar"]), "one": ((), []), "a": ((2,), ["x"]), "b": ((3,), ["x"]), "g/c": ((4,), ["x"]),
              "g/d": ((2, 3), ["x", "x"]), "odd": ((2,), ["a/b"]), "text": ((6,), ["string3"])}
    for name, (shape, dims) in arrays.items():
        data = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype("i4") + 7
        group.create_dataset(name, data=data, chunks=shape or None).attrs["_ARRAY_DIMENSIONS"] = dims
    group.create_dataset("words", data=np.array(["abc", "de"]), dtype="S3").attrs["_ARRAY_DIMENSIONS"] = ["x"]
    m = mount(tmp_path / "z", "view=netcdf")
    shown = data_of(ncdump(url(m.path)))
    assert {name: shown[name.split("/")[-1]] for name in arrays} == {
        name: ",".join(str(number + 7) for number in range(np.prod(shape, dtype=int))) for name, (shape, _) in arrays.items()}
    assert joined(np.array(shown["words"].split(","), "u1").reshape(2, 3)) == ["abc", "de"]


def test_attributes_in_the_view_for_netcdf(mount, tmp_path, plain_home):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.arange(2, dtype="f4")
        for name, value in {"units": "\u00b0C", "words": np.array(["\u00e9", "b"], object), "control": "a\x01\tb", "_FillValue": np.array([np.nan], "f4"),
                            "missing_value": np.nan, "limits": [1.0, np.inf], "a/b": 1}.items():
            file["v"].attrs[name] = value
    m = mount(tmp_path / "a.h5", "view=netcdf")
    text = ncdump(url(m.path))
    for line in ('v:units = "\u00b0C" ;', 'v:words = "[\\"\u00e9\\", \\"b\\"]" ;', 'v:control = "a\\tb" ;', "v:missing_value = NaN ;",
                 "v:limits = 1., Infinity ;"):
        assert line in text, (line, text)
    assert "a/b" not in text and "_codecfs" not in text and "v:_FillValue" not in text
    assert json.loads((m.path / "v/.zattrs").read_text())["units"] == "\u00b0C"


def test_byte_orders_in_the_view_for_netcdf(mount, tmp_path, plain_home):
    """netCDF-C 4.9 takes all numbers of Zarr for little-endian, whatever their dtype says."""
    group = zarr.open_group(str(tmp_path / "z"), "w")
    for kind in ("i2", "u4", "i8", "f4", "f8"):
        array = group.create_dataset(kind, shape=(5,), chunks=(2,), dtype=">" + kind, fill_value=258, compressor=numcodecs.Zlib())
        array[:3] = [1, 2, 259]  # the last chunk is absent
    group.create_dataset("one", data=np.array(258, ">i4"), chunks=None)
    shown = data_of(ncdump(url(mount(tmp_path / "z", "view=netcdf").path)))
    assert {name: numbers.replace("_", "258") for name, numbers in shown.items()} == {
        **dict.fromkeys(("i2", "u4", "i8", "f4", "f8"), "1,2,259,258,258"), "one": "258"}


def test_groups_that_netcdf_cannot_name(mount, tmp_path, plain_home):
    group = zarr.open_group(str(tmp_path / "z"), "w")
    group.create_group("@g").zeros("v", shape=2)
    group["w"] = np.arange(3)
    m = mount(tmp_path / "z", "view=netcdf")
    assert data_of(ncdump(url(m.path))) == {"w": "0,1,2"}
    assert "@g: is left out of the view for netCDF-C" in m.messages()


def test_an_nczarr_store_in_the_view_for_netcdf(mount, netcdf, tmp_path, plain_home):
    """It is plain Zarr there: what netCDF-C notes of variables is not right for them in another form."""
    codecfs("convert", "--format", "nczarr", netcdf, tmp_path / "n.nczarr")
    m = mount(tmp_path / "n.nczarr", "view=netcdf")
    text = ncdump(url(m.path))
    shown, file = data_of(text), data_of(ncdump(netcdf))
    assert {name: shown[name] for name in ("time", "t")} == {name: file[name] for name in ("time", "t")}
    assert "_nczarr" not in text and "_NCProperties" not in text


def test_a_newer_netcdf_reads_the_view_for_netcdf(mount, odd, netcdf):
    script = ("import json, sys, netCDF4; data = netCDF4.Dataset(sys.argv[1]);"
              "print(json.dumps({name: data[name][:].tolist() for name in sys.argv[2:]}))")
    for options, path, wanted in (("view=netcdf", odd, {"good": [[0, 1, 2], [3, 4, 5]], "scalar": [2.5], "group/inner": [0, 1, 2]}),
                                  ("view=netcdf,strings=fixed", netcdf, {"names": WORDS, "t": np.arange(10).reshape(2, 5).tolist()})):
        read = run(python_of("netCDF4 wheel"), "-c", script, url(mount(path, options).path), *wanted, env={"PYTHONPATH": None})
        assert json.loads(read.stdout) == wanted


@pytest.mark.parametrize("tool", ["ncks", "cdo"])
def test_nco_and_cdo_read_the_view_for_netcdf(mount, netcdf, tmp_path, plain_home, tool):
    m = mount(netcdf, "view=netcdf")
    if tool == "ncks":
        text = run("ncks", "--cdl", "-v", "t", url(m.path)).stdout
        assert data_of(text.split("data:")[0] + "data:" + text.split("data:")[1])["t"] == ",".join(map(str, range(10)))
    else:
        run("cdo", "-s", "-f", "nc4", "selname,t", url(m.path), tmp_path / "out.nc")
        with netCDF4.Dataset(tmp_path / "out.nc") as out:
            assert out["t"][:].tolist() == np.arange(10).reshape(2, 5).tolist()
