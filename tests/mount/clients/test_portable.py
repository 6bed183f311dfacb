"""-o portable: the view encoded3 has only codecs that every reader of Zarr v3 has, whatever the source has."""
import errno
import json
import os
import pathlib

import h5py
import numpy as np
import pytest
from conftest import xattr

from running import run
from zarr3 import array_metadata, chunks_of, metadata_of, put, read_tree
from zarr3_stores import write_array, write_group

PORTABLE = {"bytes", "vlen-utf8", "gzip", "zstd", "blosc", "crc32c"}
VALUES = np.arange(600, dtype="i4").reshape(20, 30)
BLOSC = {"name": "blosc", "configuration": {"typesize": 4, "cname": "zstd", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
CRC = {"name": "crc32c"}
# filters: the codecs behind `bytes`, None: they are those that are stored
CASES = {"none": [], "1,4": None, "32015,3": None, "32001,2,2,4,2400,5,1,0": None, "2|1,4": [BLOSC], "2|307,9": [BLOSC],
         "307,9": [ZSTD], "32004": [ZSTD], "32000": [ZSTD], "32008,0,2": [BLOSC], "3|2|1,1": [BLOSC, CRC], "2": [], "3": [CRC]}


def name_of(filters):
    return "v_" + filters.replace(",", "_").replace("|", "-")


@pytest.fixture
def source(mount, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for filters in CASES:
            file.create_dataset(name_of(filters), data=VALUES, chunks=(10, 20))
        file["text"] = np.array(["a", "bb", "", "ü"] * 20, h5py.string_dtype())
        file.create_dataset("packed_text", data=["a", "bb"] * 20, dtype=h5py.string_dtype(), chunks=(10,), compression="gzip")
    m = mount(path)
    for filters in CASES:
        os.setxattr(m.path / name_of(filters), "user._Filter", filters.encode())
    m.unmount()
    return path


def codecs_of(directory):
    return metadata_of(directory)["codecs"]


def test_only_portable_codecs(mount, source):
    m = mount(source, "portable", "view=encoded3")
    plain = mount(source, "ro", "view=encoded3")
    for filters, wanted in CASES.items():
        shown = codecs_of(m.path / name_of(filters))
        assert {codec["name"] for codec in shown} <= PORTABLE, filters
        assert shown[1:] == (codecs_of(plain.path / name_of(filters))[1:] if wanted is None else wanted), filters
    assert codecs_of(m.path / "packed_text")[1:] == [ZSTD], "the size of text is not known, as gzip has to state it"
    found = read_tree(m.path)
    for filters in CASES:
        assert found[name_of(filters)].tolist() == VALUES.tolist(), filters
    assert found["text"].tolist() == ["a", "bb", "", "ü"] * 20 and found["packed_text"].tolist() == ["a", "bb"] * 20


def test_stored_bytes_pass_where_they_are_portable(mount, source):
    m = mount(source, "portable", "view=encoded3")
    plain = mount(source, "ro", "view=encoded3")
    for filters in ("1,4", "32015,3", "32001,2,2,4,2400,5,1,0"):
        chunk = pathlib.Path(name_of(filters), "c/0/0")
        assert (m.path / chunk).read_bytes() == (plain.path / chunk).read_bytes()


def test_other_views_stay(mount, source):
    m = mount(source, "portable", "ro")
    plain = mount(source, "ro")
    for view in ("decoded", "encoded", "decoded3"):
        name = "zarr.json" if view == "decoded3" else ".zarray"
        for filters in CASES:
            file = pathlib.Path(".codecfs/view", view, name_of(filters), name)
            assert (m.path / file).read_bytes() == (plain.path / file).read_bytes()
    assert xattr(m.path / name_of("2|307,9"), "_Filter").startswith("2,4|307,9")


def test_written_chunks_are_stored_with_the_filters_of_the_source(mount, source):
    m = mount(source, "portable", "view=encoded3")
    name = name_of("2|307,9")
    new = VALUES[::-1].copy()
    for key, data in chunks_of(new, (10, 20), [BLOSC]).items():
        put(m.path / name / key, data)
    put(m.path / name / "zarr.json", (m.path / name / "zarr.json").read_bytes())  # as it is
    assert read_tree(m.path)[name].tolist() == new.tolist()
    with pytest.raises(OSError) as caught:  # an uncompressed one
        (m.path / name / "c/0/0").write_bytes(new[:10, :20].tobytes())
    assert caught.value.errno == errno.EINVAL
    m.unmount()
    with h5py.File(source) as file:
        assert file[name][...].tolist() == new.tolist()
        created = file[name].id.get_create_plist()
        assert [created.get_filter(i)[0] for i in range(created.get_nfilters())] == [2, 307]


def test_other_codecs_are_refused(mount, source):
    m = mount(source, "portable", "view=encoded3")
    name = name_of("1,4")
    before = metadata_of(m.path / name)
    for codecs in ([{"name": "numcodecs.bz2", "configuration": {"level": 1}}], [{"name": "bitround", "configuration": {"keepbits": 3}}]):
        with pytest.raises(OSError) as caught:
            put(m.path / name / "zarr.json", json.dumps({**before, "codecs": before["codecs"][:1] + codecs}).encode())
        assert caught.value.errno == errno.EINVAL and "-o portable" in m.messages()
        new = array_metadata(VALUES, (10, 20), codecs)
        (m.path / "made").mkdir(exist_ok=True)
        with pytest.raises(OSError) as caught:
            put(m.path / "made/zarr.json", json.dumps(new).encode())
        assert caught.value.errno == errno.EINVAL
    assert metadata_of(m.path / name) == before
    put(m.path / name / "zarr.json", json.dumps({**before, "codecs": before["codecs"][:1] + [ZSTD]}).encode())
    assert codecs_of(m.path / name)[1:] == [ZSTD]


def test_a_rule_of_the_mount_is_shown_so_too(mount, source):
    m = mount(source, "portable", "view=encoded3", rules=["*,shuffle|bzip2,3"])
    assert all(codecs_of(m.path / name_of(filters))[1:] == [BLOSC] for filters in CASES)


def test_a_store_of_v3(mount, tmp_path):
    codecs = [{"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}, {"name": "numcodecs.zlib", "configuration": {"level": 3}}]
    put(tmp_path / "s/zarr.json", json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}).encode())
    put(tmp_path / "s/v/zarr.json", json.dumps(array_metadata(VALUES, (10, 20), codecs)).encode())
    for key, data in chunks_of(VALUES, (10, 20), codecs).items():
        put(tmp_path / "s/v" / key, data)
    m = mount(tmp_path / "s", "portable", "view=encoded3")
    assert codecs_of(m.path / "v")[1:] == [BLOSC]
    assert read_tree(m.path)["v"].tolist() == VALUES.tolist()
    assert json.loads(xattr(m.path / "v", "_Codecs"))[1:] == codecs, "this tells how chunks are stored"
    run("cp", "-r", m.path / "v", tmp_path / "copied")
    m.unmount()
    assert codecs_of(tmp_path / "copied")[1:] == [BLOSC] and codecs_of(tmp_path / "s/v")[1:] == codecs


def test_shards_are_shown_as_they_are(mount, tmp_path):
    bzip2 = {"name": "numcodecs.bz2", "configuration": {"level": 1}}
    inner = [{"name": "bytes", "configuration": {"endian": "little"}}, bzip2]
    sharding = {"name": "sharding_indexed", "configuration": {"chunk_shape": [5, 10], "codecs": inner}}
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/v", VALUES, (10, 20), [sharding], "int32", 0, 0)
    m = mount(tmp_path / "s", "portable", "view=encoded3")
    assert codecs_of(m.path / "v") == [sharding]
    assert (m.path / "v/c/0/1").read_bytes() == (tmp_path / "s/v/c/0/1").read_bytes()
    assert read_tree(m.path / ".codecfs/view/decoded3")["v"].tolist() == VALUES.tolist()
    # New ones have portable codecs too.
    (m.path / "new").mkdir()
    told = metadata_of(m.path / "v")
    for codecs in ([sharding], [{**sharding, "configuration": {**sharding["configuration"], "chunk_shape": [10, 10]}}]):
        with pytest.raises(OSError) as caught:
            put(m.path / "new/zarr.json", json.dumps({**told, "codecs": codecs}).encode())
        assert caught.value.errno == errno.EINVAL and "-o portable" in m.messages()
    other = {**sharding, "configuration": {"chunk_shape": [5, 10], "codecs": inner[:1] + [{"name": "numcodecs.lzma", "configuration": {}}]}}
    with pytest.raises(OSError) as caught:
        put(m.path / "v/zarr.json", json.dumps({**told, "codecs": [other]}).encode())
    assert caught.value.errno == errno.EINVAL
    other["configuration"]["codecs"][1] = ZSTD
    put(m.path / "v/zarr.json", json.dumps({**told, "codecs": [other]}).encode())
    assert read_tree(m.path / ".codecfs/view/decoded3")["v"].tolist() == VALUES.tolist()
