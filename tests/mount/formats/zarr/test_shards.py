"""Shards as files: the view encoded3 of a sharded array has them byte for byte, and takes new ones. The stores are written and read
by support/zarr3_stores.py, which is independent of codecfs and of zarr-python."""
import errno
import json
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
import zarr

from compare import same_values
from conftest import mounted
from running import run
from zarr3_cases import CASES, ENCODINGS, LITTLE, ZSTD, counting, sharding, write_all
from zarr3_stores import decode, encode, named, read_array, write_array, write_group, zip_store

DECODED = ".codecfs/view/decoded3"
ENCODED = ".codecfs/view/encoded3"
SHARDED = sorted(name for name in CASES if name.startswith("shard"))
CODECS = [sharding([2, 3], [LITTLE, ZSTD])]
VALUES = counting("i4", 21, 17)


def files_below(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def chunk_files(path):
    return {name: data for name, data in files_below(path).items() if not name.endswith("zarr.json")}


def metadata(path):
    return json.loads((path / "zarr.json").read_text())


def refused(code, action):
    with pytest.raises(OSError) as failure:
        action()
    assert failure.value.errno == code, failure.value


def make_sharded(path, values=VALUES, codecs=CODECS, shards=(8, 6), **more):
    write_group(path)
    write_array(path / "v", values, shards, codecs, "int32", 0, 0, **more)
    return path


@pytest.fixture(params=["dir", "zip"])
def store(request, tmp_path):
    """Makes a store with the array v, and gives a function that reads it when it is no longer mounted."""
    make_sharded(tmp_path / "s")
    if request.param == "dir":
        return tmp_path / "s", lambda: tmp_path / "s"
    zip_store(tmp_path / "s", tmp_path / "s.zip")

    def unpacked():
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        shutil.unpack_archive(tmp_path / "s.zip", tmp_path / "out")
        return tmp_path / "out"
    return tmp_path / "s.zip", unpacked


@pytest.mark.parametrize("kind", ["dir", "zip"])
def test_a_copy_has_the_same_shards(mount, tmp_path, kind):
    write_all(tmp_path / "s")
    source = tmp_path / "s"
    if kind == "zip":
        zip_store(source, tmp_path / "s.zip")
        source = tmp_path / "s.zip"
    m = mount(source, "ro")
    run("cp", "-r", m.path / ENCODED, tmp_path / "copy")
    root = metadata(m.path / ENCODED)["consolidated_metadata"]["metadata"]
    m.close()
    for name in SHARDED:
        stored, copied = metadata(tmp_path / "s" / name), metadata(tmp_path / "copy" / name)
        for key in ("chunk_grid", "codecs", "data_type", "shape", "fill_value", "attributes"):
            assert copied[key] == stored[key], (name, key)
        assert root[name] == copied
        if "/" not in str(ENCODINGS.get(name)):  # such names are c/0/0 in views of v3
            assert copied["chunk_key_encoding"] == stored["chunk_key_encoding"]
            assert chunk_files(tmp_path / "copy" / name) == chunk_files(tmp_path / "s" / name), name
        values, fill = CASES[name][0], CASES[name][4]
        assert same_values(read_array(tmp_path / "copy" / name, values.dtype, fill), values), name
    # What is copied is a source like the first.
    m = mount(tmp_path / "copy", "ro")
    for name in SHARDED:
        values, fill = CASES[name][0], CASES[name][4]
        assert same_values(read_array(m.path / DECODED / name, values.dtype, fill), values), name


def test_sizes_listings_and_attributes_of_shards(mount, store):
    source, stored = store
    m = mount(source, "ro")
    files = chunk_files(stored() / "v")
    shown = m.path / ENCODED / "v"
    assert sorted(os.listdir(shown)) == ["c", "zarr.json"]
    assert sorted(os.listdir(shown / "c")) == ["0", "1", "2"] and sorted(os.listdir(shown / "c/2")) == ["0", "1", "2"]
    assert {name: (shown / name).stat().st_size for name in files} == {name: len(data) for name, data in files.items()}
    assert os.getxattr(shown / "c/1/1", "user._StoredSize") == str(len(files["c/1/1"])).encode()
    with open(shown / "c/1/1", "rb") as file:
        file.seek(7)
        assert file.read(11) == files["c/1/1"][7:18]
        file.seek(len(files["c/1/1"]) - 3)
        assert file.read(11) == files["c/1/1"][-3:]
    for absent in ("c/3/0", "c/0/3", "c/0/00"):
        refused(errno.ENOENT, lambda name=absent: os.stat(shown / name))
    assert sorted(os.listdir(m.path / DECODED / "v/c")) == sorted(map(str, range(11))), "inner chunks elsewhere"


@pytest.mark.parametrize("codecs", [CODECS, [sharding([4, 6], [LITTLE], index_location="start")],
                                    [sharding([2, 3], [LITTLE], index_codecs=[named("bytes", endian="big")])],
                                    [named("transpose", order=[1, 0]),
                                     sharding([3, 2], [named("transpose", order=[1, 0]), LITTLE, ZSTD])],
                                    [sharding([4, 6], CODECS)], [sharding([2, 3], [LITTLE]), ZSTD, named("crc32c")]],
                         ids=["zstd", "at_start", "big", "transposed", "nested", "compressed"])
@pytest.mark.parametrize("kind", ["dir", "zip", "created"])
def test_new_arrays_have_shards(mount, tmp_path, kind, codecs):
    source = tmp_path / "s"
    options = ["mkdir", "create=zarr3,view=decoded3"] if kind == "created" else []
    if kind != "created":
        write_group(source)
    if kind == "zip":
        zip_store(source, tmp_path / "s.zip")
        source = tmp_path / "s.zip"
    m = mount(source, "commit=1", *options)
    (m.path / ENCODED / "g").mkdir()
    (m.path / ENCODED / "g/zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}))
    for path in (m.path / ENCODED / "g/v", tmp_path / "wanted"):
        write_array(path, VALUES, (8, 6), codecs, "int32", 0, 0, attributes={"units": "m"}, names=["y", "x"])
    assert metadata(m.path / ENCODED / "g/v")["codecs"] == codecs
    assert metadata(m.path / DECODED / "g/v")["chunk_grid"]["configuration"]["chunk_shape"] == \
        ([4, 6] if "start" in str(codecs) else [2, 3])
    for view in (DECODED, ENCODED):
        assert same_values(read_array(m.path / view / "g/v", "i4", 0), VALUES)
    assert same_values(zarr.open(str(m.path / ".codecfs/view/decoded"), "r")["g/v"][...], VALUES)
    m.close()
    if kind == "zip":
        shutil.unpack_archive(source, tmp_path / "out")
        source = tmp_path / "out"
    assert chunk_files(source / "g/v") == chunk_files(tmp_path / "wanted")
    for key in ("codecs", "chunk_grid", "shape", "attributes", "dimension_names", "fill_value", "data_type"):
        assert metadata(source / "g/v")[key] == metadata(tmp_path / "wanted")[key], key


def test_cp_of_a_sharded_store(mount, tmp_path):
    """cp and rsync make directories and files in their own order; tar writes the metadata last."""
    make_sharded(tmp_path / "from")
    write_group(tmp_path / "s")
    m = mount(tmp_path / "s")
    run("cp", "-r", tmp_path / "from/v", m.path / ENCODED / "copied")
    late = m.path / ENCODED / "late"
    late.mkdir()
    for name, data in chunk_files(tmp_path / "from/v").items():
        (late / name).parent.mkdir(parents=True, exist_ok=True)
        (late / name).write_bytes(data)
    (late / "zarr.json").write_bytes((tmp_path / "from/v/zarr.json").read_bytes())
    assert same_values(read_array(late, "i4", 0), VALUES)
    if shutil.which("rsync"):
        run("rsync", "-r", f"{tmp_path}/from/", m.path / ENCODED / "synced/")
    m.close()
    for name in ("copied", "late", *(["synced/v"] if shutil.which("rsync") else [])):
        assert chunk_files(tmp_path / "s" / name) == chunk_files(tmp_path / "from/v"), name


def test_a_written_shard_replaces_its_chunks_in_all_views(mount, store):
    source, stored = store
    m = mount(source)
    inner, shards = m.path / DECODED / "v", m.path / ENCODED / "v"
    v2 = m.path / ".codecfs/view/decoded/v"
    array = m.path / ".codecfs/view/raw/v"
    wanted = VALUES.copy()
    assert same_values(read_array(inner, "i4", 0), wanted) and (v2 / "0.0").read_bytes() == wanted[:2, :3].tobytes()
    (inner / "c/1/1").write_bytes(np.full((2, 3), 77, "i4").tobytes())  # is replaced before it is stored
    (inner / "c/5/3").write_bytes(np.full((2, 3), 78, "i4").tobytes())  # in another shard
    wanted[10:12, 9:12] = 78
    wanted[:8, :6] = -wanted[:8, :6]
    with open(shards / "c/0/0", "rb", 0) as before, open(inner / "c/0/0", "rb", 0) as chunk:
        old = before.read(40)
        chunk.read(4)
        (shards / "c/0/0").write_bytes(encode(wanted[:8, :6], CODECS))
        before.seek(0)
        assert before.read(40) == old, "it shows what it showed when it was opened"
        chunk.seek(0)
        assert chunk.read() == wanted[:2, :3].tobytes()
    assert (shards / "c/0/0").read_bytes() == encode(wanted[:8, :6], CODECS)
    for view in (inner, shards):
        assert same_values(read_array(view, "i4", 0), wanted)
    assert (v2 / "1.1").read_bytes() == wanted[2:4, 3:6].tobytes()
    assert same_values(np.fromfile(array, "i4").reshape(VALUES.shape), wanted)
    m.close()
    assert same_values(read_array(stored() / "v", "i4", 0), wanted)
    assert (stored() / "v/c/0/0").read_bytes() == encode(wanted[:8, :6], CODECS), "as it came"


def test_a_part_of_a_shard_is_written(mount, store):
    """As h5py's or tar's update: the file is opened without being truncated."""
    source, stored = store
    m = mount(source)
    wanted = VALUES.copy()
    with open(m.path / ENCODED / "v/c/1/0", "r+b") as file:
        data = bytearray(file.read())
        wanted[8:16, :6] += 1
        new = encode(wanted[8:16, :6], CODECS)
        file.seek(0)
        file.write(new)
        file.truncate(len(new))
    m.close()
    assert len(data) and same_values(read_array(stored() / "v", "i4", 0), wanted)


def test_chunks_appear_and_go_with_their_shard(mount, store):
    source, stored = store
    m = mount(source)
    inner, shards = m.path / DECODED / "v", m.path / ENCODED / "v"
    v2 = m.path / ".codecfs/view/decoded/v"
    assert (inner / "c/0/0").exists() and (v2 / "0.0").exists()
    (shards / "c/0/0").unlink()
    assert not (inner / "c/0/0").exists() and not (shards / "c/0/0").exists()
    assert sorted(os.listdir(shards / "c/0")) == ["1", "2"] and (v2 / "3.1").read_bytes() == bytes(24)
    wanted = VALUES.copy()
    wanted[:8, :6] = 0
    assert same_values(read_array(inner, "i4", 0), wanted)
    refused(errno.ENOENT, lambda: (shards / "c/0/0").unlink())
    part = np.zeros((8, 6), "i4")
    part[2:4, 3:] = 5
    skipping = [sharding([2, 3], [LITTLE, ZSTD], _fill=0)]
    (shards / "c/0/0").write_bytes(encode(part, skipping))  # with one chunk
    assert (inner / "c/1/1").exists() and not (inner / "c/0/0").exists()
    assert (v2 / "1.1").read_bytes() == part[2:4, 3:].tobytes()
    # The last chunk takes the shard with it, as the first one brings it.
    (inner / "c/1/1").unlink()
    assert not (shards / "c/0/0").exists()
    (inner / "c/0/1").write_bytes(np.full((2, 3), 9, "i4").tobytes())
    part = np.zeros((8, 6), "i4")
    part[:2, 3:] = 9
    assert same_values(decode((shards / "c/0/0").read_bytes(), CODECS, (8, 6), np.dtype("i4"), 0), part)
    wanted[:8, :6] = part
    m.close()
    assert same_values(read_array(stored() / "v", "i4", 0), wanted)


def damaged(kind):
    data = bytearray(encode(-VALUES[:8, :6], CODECS))
    if kind == "short":
        return bytes(data[-20:])
    if kind == "empty":
        return b""
    if kind == "index":
        data[-7] ^= 1
        return bytes(data)
    if kind == "range":
        plain = [sharding([2, 3], [LITTLE, ZSTD], index_codecs=[LITTLE])]
        data = bytearray(encode(-VALUES[:8, :6], plain))
        data[-8:] = (10**6).to_bytes(8, "little")
        return bytes(data) + b"\0" * 4
    if kind == "chunk":
        data[3] ^= 255
        return bytes(data)
    return encode(VALUES[:4, :6], CODECS)  # of another shape


@pytest.mark.parametrize("kind", ["short", "index", "range", "chunk", "shape"])
def test_what_is_no_shard_is_refused(mount, store, kind):
    source, stored = store
    before = files_below(stored())
    m = mount(source)
    file = m.path / ENCODED / "v/c/0/0"

    def overwrite():
        with open(file, "wb") as f:
            f.write(damaged(kind))
    refused(errno.EINVAL, overwrite)
    assert "no shard of this array" in m.messages()
    (m.path / ENCODED / "v/c/0/temporary").write_bytes(damaged(kind))
    refused(errno.EINVAL, lambda: os.rename(m.path / ENCODED / "v/c/0/temporary", file))
    os.unlink(m.path / ENCODED / "v/c/0/temporary")
    assert file.read_bytes() == chunk_files(stored() / "v")["c/0/0"]
    assert same_values(read_array(m.path / DECODED / "v", "i4", 0), VALUES)
    m.close()
    assert files_below(stored()) == before


def array_json(codecs, **more):
    return json.dumps({"zarr_format": 3, "node_type": "array", "shape": [16, 24], "data_type": "int32", "fill_value": 0,
                       "chunk_grid": named("regular", chunk_shape=[8, 12]),
                       "chunk_key_encoding": named("default", separator="/"), "codecs": codecs, "attributes": {}, **more})


@pytest.mark.parametrize("codecs, reason", [
    ([sharding([3, 3], [LITTLE])], "does not divide"), ([sharding([2], [LITTLE])], "one length per dimension"),
    ([sharding([2, 3], [named("unknown")])], "unknown"), ([sharding([2, 3], [LITTLE], index_location="middle")], "middle"),
    ([sharding([2, 3], [LITTLE], index_codecs=[LITTLE, ZSTD])], "index")])
def test_shards_that_cannot_be_made(mount, tmp_path, codecs, reason):
    write_group(tmp_path / "s")
    m = mount(tmp_path / "s")
    (m.path / ENCODED / "v").mkdir()
    refused(errno.EINVAL, lambda: (m.path / ENCODED / "v/zarr.json").write_text(array_json(codecs)))
    assert reason in m.messages()
    m.close()
    assert not (tmp_path / "s/v").exists() or metadata(tmp_path / "s/v")["node_type"] == "group"


@pytest.mark.parametrize("kind, view, reason", [("v3", DECODED, "view/encoded3"), ("v2", ENCODED, "only a source of Zarr v3"),
                                                ("h5", ENCODED, "only a source of Zarr v3")])
def test_shards_where_they_cannot_be(mount, tmp_path, kind, view, reason):
    source = tmp_path / ("s.h5" if kind == "h5" else "s")
    if kind == "h5":
        h5py.File(source, "w").close()
    elif kind == "v2":
        zarr.open_group(str(source), "w")
    else:
        write_group(source)
    m = mount(source)
    (m.path / view / "v").mkdir()
    refused(errno.EINVAL, lambda: (m.path / view / "v/zarr.json").write_text(array_json(CODECS)))
    assert reason in m.messages()


def test_attributes_shape_and_names_change_with_the_shards(mount, store):
    source, stored = store
    m = mount(source)
    shards = m.path / ENCODED / "v"
    written = metadata(shards)
    written["attributes"] = {"units": "K"}
    written["shape"] = [30, 17]
    written["dimension_names"] = ["y", "x"]
    (shards / "zarr.json").write_text(json.dumps(written))
    (shards / "c/3/2").write_bytes(encode(np.full((8, 6), 4, "i4"), CODECS))
    wanted = np.zeros((30, 17), "i4")
    wanted[:21] = VALUES
    wanted[24:, 12:] = 4
    for view in (DECODED, ENCODED):
        assert same_values(read_array(m.path / view / "v", "i4", 0), wanted)
    written["shape"] = [9, 11]
    (shards / "zarr.json").write_text(json.dumps(written))
    assert sorted(files_below(shards / "c")) == ["0/0", "0/1", "1/0", "1/1"]
    assert same_values(read_array(shards, "i4", 0), VALUES[:9, :11])
    m.close()
    assert same_values(read_array(stored() / "v", "i4", 0), VALUES[:9, :11])
    assert metadata(stored() / "v")["codecs"] == CODECS and metadata(stored() / "v")["attributes"] == {"units": "K"}


def test_rm_and_mv(mount, store):
    source, stored = store
    m = mount(source)
    os.rename(m.path / ENCODED / "v", m.path / ENCODED / "w")
    assert same_values(read_array(m.path / ENCODED / "w", "i4", 0), VALUES)
    run("cp", "-r", m.path / ENCODED / "w", m.path / ENCODED / "u")
    run("rm", "-r", m.path / ENCODED / "w")
    assert sorted(os.listdir(m.path / ENCODED)) == ["u", "zarr.json"]
    m.close()
    assert sorted(name for name in os.listdir(stored()) if name != "zarr.json") == ["u"]
    assert same_values(read_array(stored() / "u", "i4", 0), VALUES)


def test_filters_show_in_the_shards(mount, store):
    source, stored = store
    m = mount(source)
    shards = m.path / ENCODED / "v"
    before = (shards / "c/0/0").read_bytes()
    os.setxattr(shards, "user._Codecs", b'[{"id": "gzip", "level": 2}]')
    codecs = [sharding([2, 3], [LITTLE, named("gzip", level=2)])]
    assert metadata(shards)["codecs"] == codecs and (shards / "c/0/0").read_bytes() != before
    assert same_values(read_array(shards, "i4", 0), VALUES)
    refused(errno.EINVAL, lambda: (shards / "c/0/0").write_bytes(before))
    (shards / "c/0/0").write_bytes(encode(VALUES[:8, :6], codecs))
    m.close()
    assert same_values(read_array(stored() / "v", "i4", 0), VALUES)


def test_a_rule_of_the_mount_waits_for_the_first_chunk(mount, store):
    source, stored = store
    m = mount(source, rules=["v,deflate,1"])
    shards = m.path / ENCODED / "v"
    assert metadata(shards)["codecs"] == CODECS
    (shards / "c/0/0").write_bytes(encode(-VALUES[:8, :6], CODECS))
    (m.path / DECODED / "v/c/0/0").write_bytes(VALUES[:2, :3].tobytes())
    wanted = VALUES.copy()
    wanted[:8, :6] = -wanted[:8, :6]
    wanted[:2, :3] = VALUES[:2, :3]
    assert "zlib" in str(metadata(shards)["codecs"])
    assert same_values(read_array(shards, "i4", 0), wanted)
    m.close()
    assert same_values(read_array(stored() / "v", "i4", 0), wanted)


@pytest.mark.parametrize("name", ["shard_nested", "shard_nested_starts", "shard_compressed"])
def test_shards_of_other_forms(mount, tmp_path, name):
    write_all(tmp_path / "s")
    values, chunks, codecs = CASES[name][:3]
    m = mount(tmp_path / "s")
    file = m.path / ENCODED / name / "c/0/0"
    data = file.read_bytes()
    assert data == (tmp_path / "s" / name / "c/0/0").read_bytes()
    refused(errno.EINVAL, lambda: file.write_bytes(data[:-9]))
    assert file.read_bytes() == data
    wanted = values.copy()
    wanted[:chunks[0], :chunks[1]] *= -1
    file.write_bytes(encode(wanted[:chunks[0], :chunks[1]], codecs))
    (m.path / DECODED / name / "c/1/1").write_bytes(np.full((2, 3), 3, "i4").tobytes())
    wanted[2:4, 3:6] = 3
    for view in (DECODED, ENCODED):
        assert same_values(read_array(m.path / view / name, "i4", 0), wanted)
    m.close()
    assert same_values(read_array(tmp_path / "s" / name, "i4", 0), wanted)


GZIP = named("gzip", level=1)


def change_json(path, chunk_shape, codecs):
    text = metadata(path)
    text["chunk_grid"]["configuration"]["chunk_shape"] = chunk_shape
    text["codecs"] = codecs
    (path / "zarr.json").write_text(json.dumps(text))


@pytest.mark.parametrize("steps", [
    [([16, 12], CODECS)], [([4, 6], CODECS), ([24, 18], CODECS)], [([8, 6], [sharding([2, 3], [LITTLE, ZSTD], index_location="start")])],
    [([2, 3], [LITTLE, ZSTD]), ([8, 6], CODECS)], [([2, 3], [LITTLE, GZIP])], [([16, 12], [sharding([2, 3], [LITTLE, GZIP])])],
    [([16, 12], [sharding([8, 6], CODECS)]), ([8, 6], [*CODECS, named("crc32c")])], [([16, 6], [named("transpose", order=[1, 0]), sharding([3, 2], [LITTLE])])]],
    ids=["larger", "twice", "at_start", "none_and_back", "none", "other_codec", "nested", "transposed"])
def test_a_written_zarr_json_changes_the_shards(mount, store, steps):
    source, stored = store
    m = mount(source)
    shards, inner = m.path / ENCODED / "v", m.path / DECODED / "v"
    wanted = VALUES.copy()
    (inner / "c/3/3").write_bytes(np.full((2, 3), 6, "i4").tobytes())  # before it is stored
    wanted[6:8, 9:12] = 6
    assert same_values(read_array(shards, "i4", 0), wanted)
    for i, (chunk_shape, codecs) in enumerate(steps):
        change_json(shards, chunk_shape, codecs)
        assert metadata(shards)["codecs"] == codecs and metadata(shards)["chunk_grid"]["configuration"]["chunk_shape"] == chunk_shape
        cells = [-(-n // c) for n, c in zip(VALUES.shape, chunk_shape)]
        assert sorted(files_below(shards / "c")) == sorted(f"{y}/{x}" for y in range(cells[0]) for x in range(cells[1]))
        part = np.full((2, 3), 50 + i, "i4")
        (inner / "c/0/1").write_bytes(part.tobytes())
        wanted[:2, 3:6] = part
        for view in (shards, inner):
            assert same_values(read_array(view, "i4", 0), wanted)
    m.close()
    assert metadata(stored() / "v")["codecs"] == steps[-1][1]
    assert same_values(read_array(stored() / "v", "i4", 0), wanted)


def test_shards_are_made_of_an_array_without_them(mount, tmp_path):
    source = make_sharded(tmp_path / "s", codecs=[LITTLE, ZSTD], shards=(2, 3))
    chunk = (source / "v/c/1/1").read_bytes()
    m = mount(source)
    change_json(m.path / ENCODED / "v", [8, 6], CODECS)
    assert sorted(os.listdir(m.path / ENCODED / "v/c")) == ["0", "1", "2"]
    m.close()
    assert chunk in (source / "v/c/0/0").read_bytes(), "not encoded again"
    assert same_values(read_array(source / "v", "i4", 0), VALUES)


@pytest.mark.parametrize("chunk_shape, codecs", [([8, 6], [sharding([4, 3], [LITTLE])]), ([7, 6], CODECS), ([8, 6], [LITTLE, ZSTD]),
                                                 ([16, 12], [sharding([8, 5], CODECS)])])
def test_shards_that_cannot_be_changed(mount, store, chunk_shape, codecs):
    source, stored = store
    before = files_below(stored())
    m = mount(source)
    text = metadata(m.path / ENCODED / "v")
    refused(errno.EINVAL, lambda: change_json(m.path / ENCODED / "v", chunk_shape, codecs))
    assert metadata(m.path / ENCODED / "v") == text
    assert same_values(read_array(m.path / ENCODED / "v", "i4", 0), VALUES)
    m.close()
    assert files_below(stored()) == before


def test_a_damaged_shard_keeps_the_shards(mount, tmp_path):
    source = make_sharded(tmp_path / "s")
    file = source / "v/c/1/1"
    data = bytearray(file.read_bytes())
    data[-6] ^= 1
    file.write_bytes(data)
    before = files_below(source)
    m = mount(source)
    refused(errno.EIO, lambda: change_json(m.path / ENCODED / "v", [16, 12], CODECS))
    m.close()
    assert files_below(source) == before


WRITER = """
import os, sys
import numpy as np
sys.path[:0] = sys.argv[4:]
from zarr3_stores import encode
from test_shards import CODECS
inner, shards, part = sys.argv[1], sys.argv[2], int(sys.argv[3])
for repeat in range(8):
    if part < 8:  # chunks of the first shard
        for i in range(part, 8, 8):
            name = f"{inner}/c/{i // 2}/{i % 2}"
            with open(name, "r+b") as file:
                values = np.frombuffer(file.read(), "i4") + 1
                file.seek(0)
                file.write(values.tobytes())
    else:  # the other shards as a whole
        at = part - 7
        name = f"{shards}/c/{at // 3}/{at % 3}"
        temporary = f"{shards}/c/{at // 3}/.part{part}"
        with open(temporary, "wb") as file:
            file.write(encode(np.full((8, 6), part * 100 + repeat, "i4"), CODECS))
        os.replace(temporary, name)
"""


def test_processes_that_write_chunks_and_shards_lose_nothing(mount, tmp_path):
    source = make_sharded(tmp_path / "s", np.zeros((24, 18), "i4"))
    write_array(tmp_path / "s/w", np.zeros((24, 18), "i4"), (8, 6), CODECS, "int32", 0, 0)
    m = mount(source, "commit=1")
    arguments = [m.path / DECODED / "v", m.path / ENCODED / "v"]
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, *arguments, str(part), *sys.path]) for part in range(16)]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * 16
    m.close()
    wanted = np.zeros((24, 18), "i4")
    wanted[:8, :6] = 8
    for part in range(8, 16):
        row, column = divmod(part - 7, 3)
        wanted[row * 8:row * 8 + 8, column * 6:column * 6 + 6] = part * 100 + 7
    assert same_values(read_array(tmp_path / "s/v", "i4", 0), wanted)


def test_a_folder_of_stores(mount, tmp_path):
    (tmp_path / "top").mkdir()
    make_sharded(tmp_path / "top/s.zarr")
    m = mount(tmp_path / "top")
    shards = m.path / ENCODED / "s.zarr/v"
    assert chunk_files(shards) == chunk_files(tmp_path / "top/s.zarr/v")
    (shards / "c/0/0").write_bytes(encode(-VALUES[:8, :6], CODECS))
    (shards / "c/0/1").unlink()
    m.close()
    wanted = VALUES.copy()
    wanted[:8, :6] *= -1
    wanted[:8, 6:12] = 0
    assert same_values(read_array(tmp_path / "top/s.zarr/v", "i4", 0), wanted)


def test_coherent(mount, tmp_path):
    source = make_sharded(tmp_path / "s")
    with mounted(source, tmp_path / "m", "coherent", "ro") as m:
        shards = m.path / ENCODED / "v"
        assert chunk_files(shards) == chunk_files(source / "v")
        (source / "v/c/0/new").write_bytes(encode(-VALUES[:8, :6], CODECS))
        os.rename(source / "v/c/0/new", source / "v/c/0/0")
        assert (shards / "c/0/0").read_bytes() == (source / "v/c/0/0").read_bytes()
