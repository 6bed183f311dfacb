"""Codecs of stores of Zarr v3: what _Codecs shows in each view, what may be written there in either form, and codecs of arrays
that are set through the mount."""
import errno
import json
import os

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from compare import same_values
from conftest import xattr
from client_venvs import VENVS
from running import run
from zarr3_cases import LITTLE, ZSTD, counting, sharding
from zarr3_stores import named, read_array, write_array, write_group

VIEWS = ["decoded", "encoded", "decoded3", "encoded3"]
V3 = [view for view in VIEWS if view.endswith("3")]
TRANSPOSE = named("transpose", order=[1, 0])


def metadata(path):
    return json.loads((path / "zarr.json").read_text())


def codecs_of(path):
    shown = json.loads(xattr(path, "_Codecs"))
    assert json.loads((path / "_Codecs").read_text()) == shown
    return shown


def set_codecs(path, codecs):
    os.setxattr(path, "user._Codecs", json.dumps(codecs).encode())


@pytest.fixture
def store(tmp_path):
    source = tmp_path / "s"
    write_group(source)
    write_array(source / "v", counting("i4", 16, 24), (8, 12), [LITTLE, ZSTD], "int32", 0, 0)
    write_array(source / "w", counting(">i4", 16, 24), (8, 12), [TRANSPOSE, named("bytes", endian="big"), ZSTD], "int32", 0, 0)
    write_array(source / "sharded", counting("i4", 16, 24), (8, 12), [sharding([2, 3], [TRANSPOSE, LITTLE, ZSTD])], "int32", 0, 0)
    write_array(source / "text", np.array(["a", "bb", ""], object), (2,), [named("vlen-utf8"), ZSTD], "string", "", "")
    return source


def view(m, name):
    return m.path / ".codecfs/view" / name


def test_each_view_shows_the_form_of_its_version(mount, store):
    m = mount(store)
    for name in V3:
        assert codecs_of(view(m, name) / "v") == [LITTLE, ZSTD]
        assert codecs_of(view(m, name) / "w") == [TRANSPOSE, named("bytes", endian="big"), ZSTD]
        assert codecs_of(view(m, name) / "sharded") == [TRANSPOSE, LITTLE, ZSTD]
        assert codecs_of(view(m, name) / "text") == [named("vlen-utf8"), ZSTD]
    for name in ["decoded", "encoded"]:
        assert codecs_of(view(m, name) / "v") == [{"id": "zstd", "level": 3, "checksum": False}]


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("codecs", [
    [{"id": "zstd", "level": 9}],
    [LITTLE, named("zstd", level=9, checksum=False)],
    [named("zstd", level=9, checksum=False)],
    ["bytes", named("zstd", level=9)],
])
def test_either_form_is_taken_in_every_view(mount, store, name, codecs):
    m = mount(store)
    set_codecs(view(m, name) / "v", codecs)
    is_whole = codecs[0] in (LITTLE, "bytes")
    (view(m, name) / "sharded/_Codecs").write_text(json.dumps([TRANSPOSE, *codecs] if is_whole else codecs))
    assert codecs_of(m.path / "v") == [LITTLE, named("zstd", level=9, checksum=False)]
    m.unmount()
    stored = named("zstd", level=9, checksum=False)
    assert metadata(store / "v")["codecs"] == [LITTLE, stored]
    assert metadata(store / "sharded")["codecs"][0]["configuration"]["codecs"] == [TRANSPOSE, LITTLE, stored]
    for name in ["v", "sharded"]:
        assert same_values(read_array(store / name, "i4", 0), counting("i4", 16, 24))


def test_what_is_shown_changes_nothing(mount, store):
    m = mount(store)
    before = {name: os.stat(store / name).st_ino for name in ["v", "w", "sharded", "text"]}
    for name in before:
        for where in VIEWS:
            os.setxattr(view(m, where) / name, "user._Codecs", os.getxattr(view(m, where) / name, "user._Codecs"))
        set_codecs(m.path / name, [{"id": "zstd", "level": 3}])
    m.unmount()
    assert {name: os.stat(store / name).st_ino for name in before} == before, "an array was re-encoded"


@pytest.mark.parametrize("array, codecs, says", [
    ("v", [sharding([2, 3], [LITTLE])], "sharding_indexed"),
    ("sharded", [sharding([2, 3], [TRANSPOSE, LITTLE, ZSTD])], "sharding_indexed"),
    ("v", [TRANSPOSE, LITTLE], "order of axes"),
    ("w", ["bytes"], "order of axes"),
    ("v", [named("bytes", endian="big")], "byte order"),
    ("w", [TRANSPOSE, LITTLE], "byte order"),
    ("v", [named("vlen-utf8")], "vlen-utf8"),
    ("text", [named("bytes")], "vlen-utf8"),
    ("v", [ZSTD, LITTLE], "bytes"),
    ("v", [LITTLE, {"name": "zstd", "level": 3}], "is not a codec"),
    ("v", [named("cast_value", data_type="int9"), LITTLE], "int9"),
    ("v", [named("scale_offset", scale=0), LITTLE], "scale"),
    ("v", [named("reshape", shape=[7]), LITTLE], "shape"),
    ("w", [TRANSPOSE, named("packbits")], "little-endian"),
])
def test_what_is_no_change_of_filters_is_refused(mount, store, array, codecs, says):
    m = mount(store)
    before = metadata(store / array)
    for name in VIEWS:
        with pytest.raises(OSError) as caught:
            set_codecs(view(m, name) / array, codecs)
        assert caught.value.errno == errno.EINVAL
        assert says in xattr(view(m, name) / array, "_Error")
    m.unmount()
    assert metadata(store / array) == before


def test_an_unknown_codec_is_not_there(mount, store):
    m = mount(store)
    with pytest.raises(OSError) as caught:
        set_codecs(m.path / "v", [LITTLE, named("nobody_knows")])
    assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize("codecs", [
    [named("scale_offset", offset=-1), named("cast_value", data_type="uint16"), LITTLE, ZSTD],
    [named("cast_value", data_type="float64"), LITTLE, named("gzip", level=1)],
    [named("reshape", shape=[[0, 1]]), LITTLE],
    [named("packbits", last_bit=9, padding_encoding="first_byte"), ZSTD],
])
def test_codecs_of_arrays_are_set(mount, store, codecs):
    m = mount(store)
    set_codecs(m.path / "v", codecs)
    assert codecs_of(m.path / "v") == codecs
    changed = np.arange(96, dtype="i4").reshape(8, 12)[::-1]
    (m.path / "v/c/0/0").write_bytes(changed.tobytes())
    encoded = metadata(view(m, "encoded3") / "v")
    assert encoded["codecs"] == codecs
    assert json.loads((view(m, "encoded") / "v/.zarray").read_text())["compressor"] is None, "no reader of v2 has them"
    wanted = counting("i4", 16, 24)
    wanted[:8, :12] = changed
    for name in ["decoded", "encoded"]:
        assert same_values(zarr.open(str(view(m, name) / "v"), "r")[...], wanted)
    m.unmount()
    assert metadata(store / "v")["codecs"] == codecs
    assert same_values(read_array(store / "v", "i4", 0), wanted)


def test_a_chunk_that_its_codecs_cannot_hold_is_refused(mount, store):
    m = mount(store)
    with pytest.raises(OSError) as caught:  # what is stored already
        set_codecs(m.path / "v", [named("cast_value", data_type="uint8"), "bytes"])
    assert caught.value.errno == errno.EINVAL
    set_codecs(m.path / "v", [named("cast_value", data_type="uint16"), LITTLE])
    with pytest.raises(OSError) as caught:
        with open(m.path / "v/c/0/0", "r+b") as file:
            file.write(np.full((8, 12), -1, "i4").tobytes())
            file.flush()
            os.fsync(file.fileno())
    assert caught.value.errno == errno.EINVAL
    assert "out of range" in m.messages()
    (m.path / "v/c/0/0").write_bytes(np.full((8, 12), 7, "i4").tobytes())
    m.unmount()
    assert read_array(store / "v", "i4", 0)[0, 0] == 7


def test_a_fill_value_that_codecs_cannot_hold_is_refused(mount, tmp_path):
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/v", counting("f8", 8), (4,), [LITTLE], "float64", np.nan, "NaN")
    m = mount(tmp_path / "s")
    cast = {"data_type": "uint8"}
    for scalars in [{}, {"scalar_map": {"encode": [["NaN", 255]]}}]:
        with pytest.raises(OSError) as caught:
            set_codecs(m.path / "v", [named("cast_value", **cast, **scalars), "bytes"])
        assert caught.value.errno == errno.EINVAL and "fill value" in xattr(m.path / "v", "_Error")
    set_codecs(m.path / "v", [named("cast_value", **cast, scalar_map={"encode": [["NaN", 255]], "decode": [[255, "NaN"]]}), "bytes"])


DAMAGED = {
    "packbits": ([named("packbits", padding_encoding="first_byte")], "bool", b"\x07\x01"),
    "packbits_size": ([named("packbits")], "bool", b"\x01\x02"),
    "scale_offset": ([named("scale_offset", scale=3), named("bytes")], "uint8", b"\x01" * 8),
    "cast_value": ([named("cast_value", data_type="int16"), LITTLE], "uint8", b"\xff\xff" * 8),
    "cast_size": ([named("cast_value", data_type="int16"), LITTLE], "uint8", b"\x00" * 8),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_chunks(mount, tmp_path, name):
    codecs, data_type, stored = DAMAGED[name]
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/v", np.zeros(16, "?" if data_type == "bool" else "u1"), (8,), codecs, data_type, 0,
                False if data_type == "bool" else 0)
    (tmp_path / "s/v/c/1").write_bytes(stored)
    m = mount(tmp_path / "s")
    assert (m.path / "v/c/0").read_bytes() == bytes(8)
    with pytest.raises(OSError) as caught:
        (m.path / "v/c/1").read_bytes()
    assert caught.value.errno == errno.EIO


@pytest.mark.parametrize("codecs, says", [
    ([named("cast_value", data_type="uint8", rounding="up"), "bytes"], "rounding"),
    ([named("cast_value", data_type="bfloat16"), named("bytes", endian="big")], "bfloat16"),
    ([named("cast_value", data_type="complex64"), LITTLE], "complex64"),
    ([named("numcodecs.delta", dtype="<i4"), sharding([4], [LITTLE])], "sharding_indexed"),
    ([named("cast_value"), LITTLE], "data_type"),
    ([named("scale_offset", scale=0), LITTLE], "scale"),
    ([named("scale_offset", surprise=1), LITTLE], "surprise"),
    ([named("reshape", shape=[5]), LITTLE], "[5]"),
    ([named("reshape", shape=[4, 2]), TRANSPOSE, LITTLE], "cannot be undone"),
    ([named("reshape", shape=[4, 2]), sharding([2, 2], [LITTLE])], "sharding_indexed"),
    ([named("packbits", first_bit=40)], "first_bit"),
    ([named("numcodecs.delta", dtype="<i4"), named("bytes", endian="big")], "byte order"),
])
def test_arrays_with_invalid_codecs_are_listed(mount, store, codecs, says):
    write_array(store / "bad", counting("i4", 16), (8,), [LITTLE], "int32", 0, 0)
    meta = metadata(store / "bad")
    (store / "bad/zarr.json").write_text(json.dumps({**meta, "codecs": codecs}))
    m = mount(store)
    assert "bad" in os.listdir(m.path)
    with pytest.raises(OSError):
        (m.path / "bad/c/0").read_bytes()
    assert says in xattr(m.path / "bad/c/0", "_Error")


def test_sources_of_v2_and_hdf5_show_the_form_of_v3_too(mount, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=counting("i4", 20), chunks=(10,), shuffle=True, compression="gzip", compression_opts=3)
        file.create_dataset("lzf", data=counting("i4", 20), chunks=(10,), compression="lzf")
    m = mount(tmp_path / "a.h5", "view=decoded3")
    assert codecs_of(m.path / "v") == [LITTLE, named("numcodecs.shuffle", elementsize=4), named("numcodecs.zlib", level=3)]
    assert codecs_of(m.path / "lzf")[0]["id"] == "hdf5:32000", "v3 has no codec for it"
    set_codecs(m.path / "v", [LITTLE, named("gzip", level=5)])
    assert xattr(m.path / "v", "_Filter") == "1,5"
    assert metadata(view(m, "encoded3") / "v")["codecs"] == [LITTLE, named("gzip", level=5)]
    for refused in ([LITTLE, named("crc32c")], [named("cast_value", data_type="int64"), LITTLE]):
        with pytest.raises(OSError) as caught:
            set_codecs(m.path / "v", refused)
        assert caught.value.errno == errno.EINVAL
    m.unmount()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["v"].compression_opts == 5 and file["v"][...].tolist() == list(range(20))

    zarr.save_array(str(tmp_path / "v2"), counting("f8", 20), chunks=(10,), compressor=zarr.Blosc("lz4", 5, 1), order="F")
    m = mount(tmp_path / "v2", "view=decoded3")
    shown = codecs_of(m.path)
    assert [codec["name"] for codec in shown] == ["bytes", "blosc"]
    set_codecs(m.path, shown)
    set_codecs(m.path, [LITTLE, named("zstd", level=2, checksum=False)])
    with pytest.raises(OSError) as caught:
        set_codecs(m.path, [named("scale_offset"), LITTLE])
    assert caught.value.errno == errno.EINVAL and "only for Zarr v3" in xattr(m.path, "_Error")
    m.unmount()
    assert json.loads((tmp_path / "v2/.zarray").read_text())["compressor"] == {"id": "zstd", "level": 2}


def test_a_group_gives_new_variables_codecs_of_either_form(mount, store):
    m = mount(store)
    set_codecs(m.path, ["bytes", named("blosc", cname="lz4", clevel=1, shuffle="shuffle", blocksize=0)])
    assert json.loads(xattr(m.path, "_Codecs")) == [named("blosc", cname="lz4", clevel=1, shuffle="shuffle", blocksize=0)]
    assert json.loads(xattr(view(m, "decoded"), "_Codecs")) == [{"id": "blosc", "cname": "lz4", "clevel": 1, "shuffle": 1, "blocksize": 0}]
    shown = zarr.open(str(view(m, "decoded")), "r+")
    shown.create_dataset("new", data=counting("f8", 20), chunks=10, compressor=None)
    for codecs in ([TRANSPOSE, "bytes"], ["vlen-utf8"], [sharding([1], ["bytes"])]):
        with pytest.raises(OSError) as caught:
            set_codecs(m.path, codecs)
        assert caught.value.errno == errno.EINVAL
    m.unmount()
    assert metadata(store / "new")["codecs"][1]["configuration"]["typesize"] == 8


def test_a_copy_keeps_the_codecs(mount, store, tmp_path):
    set_from = mount(store, "view=decoded3")
    for create in ["zarr3", "zarr", "hdf5"]:
        made = tmp_path / f"copy.{create}"
        m = mount(made, f"create={create}", "view=decoded3")
        run("cp", "-r", "--preserve=xattr", set_from.path / "v", m.path / "v")
        assert codecs_of(m.path / "v")[1]["name"] == "zstd"
        assert same_values(zarr.open(str(view(m, "decoded") / "v"), "r")[...], counting("i4", 16, 24))
        m.unmount()


def run_zarr_python(script, *arguments):
    """With a release of zarr-python that has these codecs (3.2 and later)."""
    python = VENVS / "zarr3/bin/python3"
    known = python.exists() and run(python, "-c", "import zarr.codecs.scale_offset, cast_value_rs", code=None, text=False)
    if not known or known.returncode != 0:
        pytest.skip(f"no zarr-python 3.2 with cast-value-rs in {VENVS}: scripts/client-test installs what Python has")
    return run(python, "-B", "-c", script, *arguments, env={"PYTHONPATH": None}).stdout


def test_zarr_python_reads_and_writes_the_same(mount, store, tmp_path):
    """An extra: cast_value and scale_offset of zarr-python itself."""
    script = """if True:
        import sys, numpy as np, zarr
        from zarr.codecs import BytesCodec, CastValue, ScaleOffset
        array = zarr.create_array(sys.argv[1], shape=(40,), chunks=(8,), dtype="f8", fill_value=np.nan, filters=[
            ScaleOffset(offset=-10, scale=0.3), CastValue(data_type="int16", rounding="towards-negative", scalar_map={
                "encode": [("NaN", -1)], "decode": [(-1, "NaN")]})])
        values = np.arange(40) * 2.5
        values[7] = np.nan
        array[:] = values
        np.save(sys.argv[2], array[:])
        shown = zarr.open(sys.argv[3], mode="r")
        assert np.array_equal(shown["v"][...], np.arange(384).reshape(16, 24))
    """
    m = mount(store)
    set_codecs(m.path / "v", [named("scale_offset", offset=-1, scale=3), named("cast_value", data_type="float32"), LITTLE, ZSTD])
    m.unmount()
    run_zarr_python(script, tmp_path / "made", tmp_path / "read.npy", store)
    m = mount(tmp_path / "made")
    assert same_values(zarr.open(str(view(m, "decoded")), "r")[...], np.load(tmp_path / "read.npy"))


ZFP = {  # configuration, arguments of zfpy, error
    "reversible": ({"mode": "reversible"}, {}, 0),
    "accuracy": ({"mode": "fixed_accuracy", "tolerance": 0.01}, {"tolerance": 0.01}, 0.01),
    "precision": ({"mode": "fixed_precision", "precision": 24}, {"precision": 24}, 0.01),
    "rate": ({"mode": "fixed_rate", "rate": 20}, {"rate": 20}, 0.01),
}


@pytest.mark.parametrize("mode", ZFP)
@pytest.mark.parametrize("data_type, chunks", [("float32", (10,)), ("float64", (5, 6)), ("float32", (3, 4, 5)), ("float64", (2, 3, 4, 5)),
                                               ("int32", (5, 6)), ("int64", (3, 4, 5))])
def test_zfp(mount, tmp_path, mode, data_type, chunks):
    """Chunks that zfpy has encoded, without the header that only numcodecs' codec has."""
    zfpy = pytest.importorskip("zfpy")
    configuration, arguments, error = ZFP[mode]
    if mode == "accuracy" and data_type[0] == "i":
        return
    dtype = np.dtype(data_type)
    values = (np.random.default_rng(5).normal(size=chunks) * (1 if dtype.kind == "f" else 1e5)).astype(dtype)
    if dtype.kind == "i" and error:
        error = np.inf  # bit planes are counted from the highest
    source = tmp_path / "s"
    write_group(source)
    write_array(source / "v", values, chunks, [LITTLE], data_type, 0, 0)
    text = {**metadata(source / "v"), "codecs": [named("zfp", **configuration), named("zstd", level=1, checksum=False)]}
    (source / "v/zarr.json").write_text(json.dumps(text))
    stored = zfpy.compress_numpy(values, write_header=False, **arguments)
    key = "/".join("0" * len(chunks))
    (source / "v/c" / key).write_bytes(numcodecs.Zstd(1).encode(stored))
    expected = zfpy.decompress_numpy(zfpy.compress_numpy(values, write_header=True, **arguments))
    assert np.abs(expected - values).max() <= error
    m = mount(source)
    assert metadata(m.path / ".codecfs/view/encoded3/v")["codecs"] == text["codecs"]
    for name in ("decoded", "encoded"):
        assert same_values(zarr.open(str(view(m, name) / "v"), "r")[...], expected)
    changed = np.ascontiguousarray(values[::-1])
    if mode == "rate" and len(chunks) != 3:
        with pytest.raises(OSError):  # zarrs would read it in another way
            with open(m.path / "v/c" / key, "wb", buffering=0) as file:
                file.write(changed.tobytes())
                os.fsync(file.fileno())
        assert "fixed_rate" in m.messages()
        m.end()
        return
    (m.path / "v/c" / key).write_bytes(changed.tobytes())
    m.unmount()
    stored = bytes(numcodecs.Zstd().decode((source / "v/c" / key).read_bytes()))
    assert stored.rstrip(b"\0") == bytes(zfpy.compress_numpy(changed, write_header=False, **arguments)).rstrip(b"\0")


@pytest.mark.parametrize("configuration", [{"mode": 4, "tolerance": 0.001}, {"mode": 3, "precision": 30}, {"mode": 2, "rate": 24}])
def test_zfpy_of_numcodecs(mount, tmp_path, configuration):
    pytest.importorskip("zfpy")
    module = pytest.importorskip("numcodecs.zfpy")
    if not hasattr(module, "ZFPY") and int(np.__version__.split(".")[0]) >= 2:
        pytest.skip("this numcodecs does not take this zfpy or numpy")
    values = np.random.default_rng(6).normal(size=(7, 9))
    codec = module.ZFPY(**configuration)
    v2 = zarr.open(str(tmp_path / "v2"), "w", shape=(7, 9), chunks=(4, 5), dtype="f8", compressor=codec)
    v2[...] = values
    expected = v2[...]
    m = mount(tmp_path / "v2", "view=decoded")
    shown = zarr.open(str(m.path), "r+")
    assert same_values(shown[...], expected) and np.abs(expected - values).max() < 0.001
    assert same_values(zarr.open(str(view(m, "encoded")), "r")[...], expected)
    told = [codec for codec in metadata(view(m, "encoded3"))["codecs"] if codec["name"] != "transpose"]
    assert told[0]["name"] == "numcodecs.zfpy" and told[0]["configuration"]["mode"] == configuration["mode"]
    shown[...] = -values
    m.unmount()
    again = zarr.open(str(tmp_path / "v2"), "r")[...]
    assert np.abs(again + values).max() < 0.001

    source = tmp_path / "v3"
    write_group(source)
    write_array(source / "v", values[:4, :5], (4, 5), [LITTLE], "float64", 0, 0)
    (source / "v/zarr.json").write_text(json.dumps({**metadata(source / "v"), "codecs": [named("numcodecs.zfpy", **configuration)]}))
    part = np.ascontiguousarray(values[:4, :5])
    (source / "v/c/0/0").write_bytes(codec.encode(part))
    m = mount(source)
    assert (m.path / "v/c/0/0").read_bytes() == codec.decode(codec.encode(part)).tobytes()
    (m.path / "v/c/0/0").write_bytes((-part).tobytes())
    m.unmount()
    assert np.abs(codec.decode((source / "v/c/0/0").read_bytes()) + part).max() < 0.001


def test_zfp_is_set(mount, store):
    m = mount(store)
    codecs = [named("zfp", mode="reversible"), ZSTD]
    set_codecs(m.path / "v", codecs)
    assert codecs_of(m.path / "v") == codecs
    set_codecs(m.path / "sharded", [TRANSPOSE, *codecs])
    for name in ("v", "sharded"):
        assert same_values(zarr.open(str(view(m, "decoded") / name), "r")[...], counting("i4", 16, 24))
    for refused, says in [(named("zfp", mode="fixed_accuracy", tolerance=0.1), "floating-point"), (named("zfp", mode="best"), "best"),
                          (named("zfp", mode="reversible", rate=8), "rate")]:
        with pytest.raises(OSError) as caught:
            set_codecs(m.path / "v", [refused])
        assert caught.value.errno == errno.EINVAL and says in xattr(m.path / "v", "_Error")
    m.unmount()
    assert metadata(store / "v")["codecs"] == codecs
