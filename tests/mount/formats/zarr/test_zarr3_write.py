"""Writing to stores of Zarr v3 through the mount: chunks, shards, metadata, filters. The store itself is read by
support/zarr3_stores.py, which is independent of codecfs and of zarr-python."""
import json
import os
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import zarr
from compare import same_values
from conftest import mounted
from running import run
from zarr3_cases import CASES, LITTLE, ZSTD, counting, sharding, write_all  # noqa: F401: a fixture
from test_zarr3 import mount  # noqa: F401: a fixture
from zarr3_stores import named, read_array, write_array, write_group, zip_store

def metadata(path):
    return json.loads((path / "zarr.json").read_text())


def other_values(values):
    flat = values.ravel()
    return np.concatenate([flat[1:], flat[:1]]).reshape(values.shape) if flat.size > 1 else values


@pytest.mark.parametrize("kind", ["dir", "zip"])
def test_every_type_and_codec(mount, tmp_path, kind):
    write_all(tmp_path / "s")
    source = tmp_path / "s"
    if kind == "zip":
        zip_store(tmp_path / "s", tmp_path / "s.zip")
        source = tmp_path / "s.zip"
    m = mount(source)
    shown = zarr.open(str(m.path), "r+")
    for name, (values, *_) in CASES.items():
        shown[name][...] = other_values(values)
        assert same_values(shown[name][...], other_values(values)), name
    m.unmount()
    if kind == "zip":
        with zipfile.ZipFile(source) as file:
            assert file.testzip() is None
            file.extractall(tmp_path / "out")
        source = tmp_path / "out"
    for name, (values, _, _, _, fill, _) in CASES.items():
        assert same_values(read_array(source / name, values.dtype, fill), other_values(values)), name


def test_shards_that_are_only_read_refuse_writes_at_once(mount, tmp_path):
    source = make_sharded(tmp_path / "s")
    text = metadata(source / "v")
    text["codecs"].append(named("unknown"))
    (source / "v/zarr.json").write_text(json.dumps(text))
    (source / "v/c/1/1").unlink()  # so that there is nothing that cannot be read
    m = mount(source)
    with pytest.raises(OSError) as caught:
        with open(m.path / "v/4.4", "wb") as file:
            file.write(b"x")
    assert caught.value.errno in (30, 95)
    assert "only be read" in m.messages()
    with pytest.raises(OSError):
        os.setxattr(m.path / "v", "user._Codecs", b'[{"id": "zstd", "level": 1}]')


NESTED = [sharding([8, 12], [sharding([2, 3], [LITTLE, ZSTD])])]


@pytest.mark.parametrize("shards, codecs", [((16, 24), NESTED), ((8, 12), [sharding([2, 3], [LITTLE]), ZSTD]),
                                            ((16, 24), [sharding([8, 12], [sharding([2, 3], [LITTLE]), named("crc32c")]), ZSTD])],
                         ids=["nested", "compressed", "both"])
@pytest.mark.parametrize("kind", ["dir", "zip"])
def test_nested_and_compressed_shards(mount, tmp_path, kind, shards, codecs):
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/v", counting("i4", 30, 24), shards, codecs, "int32", 0, 0)
    source = tmp_path / "s"
    if kind == "zip":
        zip_store(source, tmp_path / "s.zip")
        source = tmp_path / "s.zip"
    m = mount(source)
    wanted = counting("i4", 30, 24)
    (m.path / "v/1.1").write_bytes(np.full((2, 3), -1, "i4").tobytes())
    wanted[2:4, 3:6] = -1
    for row in range(4, 8):  # all of an inner shard
        for column in range(4):
            (m.path / f"v/{row}.{column}").unlink()
    wanted[8:16, :12] = 0
    os.setxattr(m.path / "v", "user._Codecs", b'[{"id": "gzip", "level": 2}]')
    (m.path / "v/0.7").write_bytes(np.full((2, 3), -2, "i4").tobytes())
    wanted[:2, 21:] = -2
    shape = [20, 24]
    text = json.loads((m.path / "v/.zarray").read_text())
    (m.path / "v/.zarray").write_text(json.dumps({**text, "shape": shape}))
    (m.path / "v/.zarray").write_text(json.dumps(text))
    wanted[20:] = 0
    m.unmount()
    if kind == "zip":
        shutil.unpack_archive(source, tmp_path / "out")
        source = tmp_path / "out"
    assert same_values(read_array(source / "v", "i4", 0), wanted)


def make_sharded(path, **more):
    write_group(path)
    write_array(path / "v", counting("i4", 16, 24), (8, 12), [sharding([2, 3], [LITTLE, ZSTD], **more)], "int32", 0, 0,
                names=["y", "x"])
    return path


def test_other_chunks_of_a_shard_stay(mount, tmp_path):
    source = make_sharded(tmp_path / "s")
    m = mount(source)
    (m.path / "v/1.1").write_bytes(np.full((2, 3), -1, "i4").tobytes())
    os.sync()
    with open(m.path / "v/1.1", "rb") as file:
        os.fsync(file.fileno())
    wanted = counting("i4", 16, 24)
    wanted[2:4, 3:6] = -1
    assert same_values(read_array(source / "v", "i4", 0), wanted), "after fsync"
    m.unmount()
    assert same_values(read_array(source / "v", "i4", 0), wanted)


def test_one_rewrite_of_a_shard_stores_all_of_its_chunks(mount, tmp_path):
    source = make_sharded(tmp_path / "s")
    before = os.stat(source / "v/c/0/0").st_ino
    m = mount(source)
    seen = {before}
    for row in range(4):
        for column in range(4):
            (m.path / f"v/{row}.{column}").write_bytes(np.full((2, 3), row, "i4").tobytes())
            seen.add(os.stat(source / "v/c/0/0").st_ino)
    with open(m.path / "v/0.0", "rb") as file:
        os.fsync(file.fileno())
    seen.add(os.stat(source / "v/c/0/0").st_ino)
    assert len(seen) <= 3, "the shard was written again for each chunk"


def test_a_shard_goes_with_its_last_chunk(mount, tmp_path):
    source = make_sharded(tmp_path / "s")
    m = mount(source)
    for row in range(4):
        for column in range(4):
            (m.path / f"v/{row}.{column}").unlink()
    (m.path / "v/4.0").unlink()
    m.unmount()
    assert not (source / "v/c/0/0").exists() and (source / "v/c/1/0").exists()
    wanted = counting("i4", 16, 24)
    wanted[:8, :12] = 0
    wanted[8:10, :3] = 0
    assert same_values(read_array(source / "v", "i4", 0), wanted)


WRITER = """
import numpy as np, os, sys
path, part = sys.argv[1], int(sys.argv[2])
for repeat in range(10):
    for i in range(part, 64, 16):
        name = f"{path}/{i // 8}.{i % 8}"
        with open(name, "r+b") as file:
            values = np.frombuffer(file.read(), "i4") + 1
            file.seek(0)
            file.write(values.tobytes())
            file.flush()
            if repeat % 4 == part % 4:
                os.fsync(file.fileno())
"""


def test_processes_that_add_into_chunks_of_one_shard_lose_nothing(mount, tmp_path):
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/v", counting("i4", 16, 24), (16, 24), [sharding([2, 3], [LITTLE, ZSTD])], "int32", 0, 0)
    m = mount(tmp_path / "s")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, m.path / "v", str(part)]) for part in range(16)]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * 16
    m.unmount()
    assert same_values(read_array(tmp_path / "s/v", "i4", 0), counting("i4", 16, 24) + 10)


def resized(values, shape):
    new = np.zeros(shape, values.dtype)
    common = tuple(slice(0, min(a, b)) for a, b in zip(values.shape, shape))
    new[common] = values[common]
    return new


@pytest.mark.parametrize("chunks, codecs", [((8, 12), [sharding([2, 3], [LITTLE, ZSTD])]), ((2, 3), [LITTLE, ZSTD])],
                         ids=["shards", "chunks"])
def test_resize_and_append(mount, tmp_path, chunks, codecs):
    write_group(tmp_path / "s")
    values = counting("i4", 16, 24)
    write_array(tmp_path / "s/v", values, chunks, codecs, "int32", 0, 0)
    m = mount(tmp_path / "s")
    array = zarr.open(str(m.path / "v"), "r+")
    for shape in [(12, 18), (30, 18), (6, 42), (16, 24)]:
        array.resize(*shape)
        values = resized(values, shape)
        assert same_values(array[...], values), shape
    array.append(np.full((5, 24), 7, "i4"))
    values = np.concatenate([values, np.full((5, 24), 7, "i4")])
    assert same_values(array[...], values)
    m.unmount()
    assert metadata(tmp_path / "s/v")["shape"] == [21, 24]
    assert same_values(read_array(tmp_path / "s/v", "i4", 0), values)


def test_whole_chunks_outside_of_a_smaller_shape_do_not_come_back(mount, tmp_path):
    source = make_sharded(tmp_path / "s")
    m = mount(source)
    array = zarr.open(str(m.path / "v"), "r+")
    array.resize(4, 6)
    array.resize(16, 24)
    wanted = np.zeros((16, 24), "i4")
    wanted[:4, :6] = counting("i4", 16, 24)[:4, :6]
    assert same_values(array[...], wanted)
    m.unmount()
    assert same_values(read_array(source / "v", "i4", 0), wanted)


@pytest.mark.parametrize("filters, stored", [
    ('[{"id": "zstd", "level": 9}]', [named("zstd", level=9, checksum=False)]),
    ('[{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 3}]',
     [named("numcodecs.shuffle", elementsize=4), named("numcodecs.zlib", level=3)]),
    ("[]", []),
])
def test_filters_of_shards_and_chunks(mount, tmp_path, filters, stored):
    source = make_sharded(tmp_path / "s")
    write_array(source / "w", counting("i4", 16, 24), (8, 12), [named("transpose", order=[1, 0]), LITTLE, ZSTD], "int32", 0, 0)
    m = mount(source)
    (m.path / "v/0.0").write_bytes(np.full((2, 3), 5, "i4").tobytes())
    for name in "vw":
        os.setxattr(m.path / name, "user._Codecs", filters.encode())
    wanted = counting("i4", 16, 24)
    wanted[:2, :3] = 5
    assert same_values(zarr.open(str(m.path / "v"), "r")[...], wanted)
    m.unmount()
    assert metadata(source / "v")["codecs"][0]["configuration"]["codecs"] == [LITTLE, *stored]
    assert metadata(source / "w")["codecs"] == [named("transpose", order=[1, 0]), LITTLE, *stored]
    assert same_values(read_array(source / "v", "i4", 0), wanted)
    assert same_values(read_array(source / "w", "i4", 0), counting("i4", 16, 24))


def test_filters_that_v3_cannot_express_are_refused(mount, tmp_path):
    source = make_sharded(tmp_path / "s")
    before = metadata(source / "v")
    m = mount(source)
    with pytest.raises(OSError) as caught:
        os.setxattr(m.path / "v", "user._Codecs", b'[{"id": "zlib", "level": 1}, {"id": "delta", "dtype": "<i4"}]')
    assert caught.value.errno == 22
    m.unmount()
    assert metadata(source / "v") == before


def test_attributes_and_new_members(mount, tmp_path):
    source = make_sharded(tmp_path / "s")
    m = mount(source)
    shown = zarr.open(str(m.path), "r+")
    shown.attrs["title"] = "changed"
    shown["v"].attrs["units"] = [1, 2.5, None]
    group = shown.create_group("g")
    group.attrs["deep"] = {"a": 1}
    made = group.create_dataset("new", shape=(5, 4), chunks=(2, 3), dtype=">f4", fill_value=np.nan, compressor=None)
    made[...] = counting("f4", 5, 4)
    os.rename(m.path / "v", m.path / "g/moved")
    os.setxattr(m.path / "g/moved", "user.more", b"text")
    m.unmount()
    assert metadata(source)["attributes"] == {"title": "changed"}
    assert metadata(source / "g")["node_type"] == "group" and metadata(source / "g")["attributes"] == {"deep": {"a": 1}}
    moved = metadata(source / "g/moved")
    assert moved["attributes"] == {"units": [1, 2.5, None], "more": "text"} and moved["dimension_names"] == ["y", "x"]
    new = metadata(source / "g/new")
    assert new["data_type"] == "float32" and new["fill_value"] == "NaN" and new["codecs"] == [named("bytes", endian="big")]
    assert same_values(read_array(source / "g/new", ">f4", np.nan), counting(">f4", 5, 4))
    assert same_values(read_array(source / "g/moved", "i4", 0), counting("i4", 16, 24))
    assert not list(source.rglob(".z*"))


SOME_NAMES = [["x", None, "y"], [None, None, None], ["", None, "x"], ["", "", ""], ["x", "x", "x"]]


@pytest.mark.parametrize("names", SOME_NAMES)
def test_names_of_some_dimensions_are_kept(mount, tmp_path, names):
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/v", counting("i4", 4, 5, 6), (2, 5, 3), [LITTLE], "int32", 0, 0, dimension_names=names)
    m = mount(tmp_path / "s", "view=decoded3")
    views = m.path / ".codecfs/view"

    def check():
        for view in (m.path, views / "encoded3"):
            assert metadata(view / "v")["dimension_names"] == names
            assert metadata(view)["consolidated_metadata"]["metadata"]["v"]["dimension_names"] == names
        attributes = json.loads((views / "decoded/v/.zattrs").read_text())
        assert attributes.get("_ARRAY_DIMENSIONS") == (None if None in names else names), "all names or none"
        assert metadata(tmp_path / "s/v")["dimension_names"] == names

    check()
    os.setxattr(m.path / "v", "user.units", b"m")
    zarr.open(str(views / "decoded"), "r+")["v"].attrs["more"] = [1, 2]
    (m.path / "v/zarr.json").write_text(json.dumps({**metadata(m.path / "v"), "shape": [6, 5, 6]}))
    os.setxattr(m.path / "v", "user._Filter", b"shuffle|zstd,3")
    os.sync()
    check()
    assert metadata(m.path / "v")["attributes"] == {"units": "m", "more": [1, 2]}
    assert same_values(zarr.open(str(views / "decoded"), "r")["v"][:4], counting("i4", 4, 5, 6))


def test_names_of_some_dimensions_are_written(mount, tmp_path):
    m = mount(tmp_path / "s", "create=zarr3")
    for view in ("decoded3", "encoded3"):
        array = m.path / ".codecfs/view" / view / view
        write_array(array, counting("i4", 4, 5, 6), (2, 5, 3), [LITTLE], "int32", 0, 0, dimension_names=["t", None, None])
        text = metadata(array)
        assert text["dimension_names"] == ["t", None, None]
        for names in [*SOME_NAMES, None, ["z", "y", "x"], [None, "y", None], None]:
            written = {key: value for key, value in text.items() if key != "dimension_names"}
            (array / "zarr.json").write_text(json.dumps({**written, **({"dimension_names": names} if names else {})}))
            os.sync()
            for place in (array, tmp_path / "s" / view):
                assert metadata(place).get("dimension_names") == names
        for names in (["x"], [1, "y", "x"], "xyz"):
            with pytest.raises(OSError):
                (array / "zarr.json").write_text(json.dumps({**text, "dimension_names": names}))
        zarr.open(str(m.path / ".codecfs/view/decoded"), "r+")[view].attrs["_ARRAY_DIMENSIONS"] = ["c", "b", "a"]
        assert metadata(array)["dimension_names"] == ["c", "b", "a"]


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_names_of_some_dimensions_need_a_store_of_v3(mount, tmp_path, kind):
    m = mount(tmp_path / f"s.{kind}", "create=" + {"h5": "hdf5"}.get(kind, kind), "view=decoded3")
    values = counting("i4", 4, 6)
    write_array(m.path / "v", values, (2, 3), [LITTLE], "int32", 0, 0, dimension_names=["y", "x"])
    os.mkdir(m.path / "w")
    for array in ("v", "w"):
        with pytest.raises(OSError) as caught:
            (m.path / array / "zarr.json").write_text(json.dumps({**metadata(m.path / "v"), "dimension_names": ["y", None]}))
        assert caught.value.errno == 22
        assert "name all dimensions or none" in m.messages()
    assert metadata(m.path / "v")["dimension_names"] == ["y", "x"]
    (m.path / "w/zarr.json").write_text(json.dumps({**metadata(m.path / "v"), "dimension_names": [None, None]}))
    assert metadata(m.path / "w").get("dimension_names") in (None, ["phony_dim_2", "phony_dim_3"])


def test_consolidated_metadata_is_kept_fresh(mount, tmp_path):
    source = make_sharded(tmp_path / "s")
    root = metadata(source)
    root["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": {"v": metadata(source / "v")}}
    (source / "zarr.json").write_text(json.dumps(root))
    m = mount(source)
    shown = zarr.open(str(m.path), "r+")
    shown["v"].attrs["units"] = "K"
    shown.create_group("g").create_dataset("new", shape=3, dtype="i2", compressor=None)
    m.unmount()
    told = metadata(source)["consolidated_metadata"]
    assert told["kind"] == "inline" and told["must_understand"] is False
    assert sorted(told["metadata"]) == ["g", "g/new", "v"]
    for name, copy in told["metadata"].items():
        copy.pop("consolidated_metadata", None)
        assert copy == metadata(source / name)


def test_removed_arrays_do_not_come_back(mount, tmp_path):
    source = make_sharded(tmp_path / "s")
    m = mount(source)
    (m.path / "v/0.0").write_bytes(np.full((2, 3), 5, "i4").tobytes())
    run("rm", "-r", m.path / "v")
    m.unmount()
    assert [p.name for p in source.iterdir()] == ["zarr.json"]


def test_an_array_that_another_program_replaced_stays_readable(mount, tmp_path):
    source = make_sharded(tmp_path / "s")
    m = mount(source)
    before = (m.path / "v/0.0").read_bytes()
    with open(m.path / "v/0.1", "r+b", buffering=0) as file:
        file.write(before)
    shutil.move(source / "v", tmp_path / "old")
    write_array(source / "v", counting("i4", 16, 24) + 1000, (8, 12), [sharding([2, 3], [LITTLE])], "int32", 0, 0)
    wanted = counting("i4", 16, 24) + 1000
    with open(m.path / "v/0.0", "r+b", buffering=0) as file:
        try:
            file.write(before[::-1])
            os.fsync(file.fileno())
            wanted[:2, :3] = np.frombuffer(before[::-1], "i4").reshape(2, 3)
        except OSError:
            pass
    got = read_array(source / "v", "i4", 0)
    got[:2, 3:6] = wanted[:2, 3:6]  # written before: it may be in either
    assert same_values(got, wanted)


def test_create(mount, tmp_path):
    m = mount(tmp_path / "new.zarr", "create=zarr3")
    zarr.open_group(str(m.path), "a").create_dataset("a/b", data=counting("u1", 9), chunks=4, compressor=None)
    m.unmount()
    assert metadata(tmp_path / "new.zarr")["node_type"] == "group"
    assert metadata(tmp_path / "new.zarr/a")["node_type"] == "group"
    assert same_values(read_array(tmp_path / "new.zarr/a/b", "u1", 0), counting("u1", 9))


def test_no_space_for_a_shard(small_disk, tmp_path):
    disk = small_disk("3m")  # holds the shard once
    write_group(disk / "s")
    values = np.random.default_rng(1).integers(0, 1 << 30, (512, 1024)).astype("i4")
    write_array(disk / "s/v", values, (512, 1024), [sharding([64, 64], [LITTLE])], "int32", 0, 0)
    with mounted(disk / "s", tmp_path / "m", "view=decoded") as m:
        with pytest.raises(OSError) as caught:
            with open(m.path / "v/0.0", "r+b", buffering=0) as file:
                file.write(b"\1" * 64)
                os.fsync(file.fileno())
        assert caught.value.errno == 28
        assert same_values(read_array(disk / "s/v", "i4", 0), values), "the old shard is complete"
        small_disk("8m")
        with open(m.path / "v/0.0", "r+b") as file:
            os.fsync(file.fileno())
        assert read_array(disk / "s/v", "i4", 0)[0, 0] == 0x01010101
