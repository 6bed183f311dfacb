"""Stores of Zarr v3, written by support/zarr3_stores.py: types, codecs, names of chunks and shards, as the view of v2 shows them to
zarr-python 2; and what is damaged or not supported."""
import json
import os
import struct

import numpy as np
import pytest
import zarr
from compare import same_values
from conftest import xattr
from zarr3_cases import CASES, LITTLE, ZSTD, counting, sharding, write_all
from zarr3_stores import ABSENT, named, write_array, write_group, zip_store



@pytest.fixture
def mount(mount):
    """Mounts with the view of v2, which zarr-python 2 reads."""
    return lambda source, *options, **more: mount(source, "view=decoded", *options, **more)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    top = tmp_path_factory.mktemp("v3")
    write_all(top / "dir")
    zip_store(top / "dir", top / "stored.zip")
    zip_store(top / "dir", top / "deflated.zip", 8)
    return top


@pytest.mark.parametrize("kind", ["dir", "stored.zip", "deflated.zip"])
def test_values(mount, stores, kind):
    m = mount(stores / kind)
    shown = zarr.open(str(m.path), "r")
    assert sorted(shown) == sorted(CASES) and shown.attrs["title"] == "all"
    for name, (values, _, _, _, _, _) in CASES.items():
        array = shown[name]
        assert array.dtype == values.dtype and array.shape == values.shape, name
        assert same_values(array[...], values), name
        assert array.attrs["units"] == name
    assert shown["plain"].attrs["_ARRAY_DIMENSIONS"] == ["d0", "d1"]


def test_an_array_is_a_source_too(mount, stores):
    m = mount(stores / "dir/shard")
    assert same_values(zarr.open(str(m.path), "r")[...], CASES["shard"][0])


def test_absent_chunks_read_as_fill(mount, tmp_path):
    values = np.full((20, 20), 7, "i4")
    values[4:6, 6:9] = 1
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/a", values, (8, 8), [LITTLE], "int32", 7, 7, skip_fill=True)
    write_array(tmp_path / "s/b", values, (8, 8), [sharding([2, 2], [LITTLE], _fill=7)], "int32", 7, 7, skip_fill=True)
    assert sum(len(files) for _, _, files in os.walk(tmp_path / "s/b/c")) == 2
    m = mount(tmp_path / "s")
    shown = zarr.open(str(m.path), "r")
    for name in "ab":
        assert same_values(shown[name][...], values), name


def test_missing_values_are_masked_as_xarray_means_them(mount, tmp_path):
    import xarray
    write_group(tmp_path / "s")
    values = np.array([1.0, -9.0, 3.0])
    write_array(tmp_path / "s/marked", values, (2,), [LITTLE], "float64", -9.0, -9.0, names=["x"],
                attributes={"_FillValue": "AAAAAAAAIsA="})
    write_array(tmp_path / "s/plain", values, (2,), [LITTLE], "float64", -9.0, -9.0, names=["x"])
    m = mount(tmp_path / "s")
    with xarray.open_zarr(str(m.path), consolidated=False) as shown:
        assert same_values(shown.marked.values, np.array([1.0, np.nan, 3.0]))
        assert same_values(shown.plain.values, values)


REFUSED = {  # name: (change of the metadata, what is said)
    "format": ({"zarr_format": 4}, '"zarr_format" is 4'),
    "key": ({"surprise": 1}, '"surprise" is not known'),
    "transformer": ({"storage_transformers": [named("manifest")]}, "storage transformer"),
    "grid": ({"chunk_grid": named("hexagonal", chunk_shape=[1, 2])}, "hexagonal"),
    "kind_of_grid": ({"chunk_grid": named("rectilinear", kind="file", chunk_shapes=[[10], [7]])}, "kind"),
    "short_grid": ({"chunk_grid": named("rectilinear", kind="inline", chunk_shapes=[[4, 5], [7]])}, "9 elements"),
    "ranks_of_grid": ({"chunk_grid": named("rectilinear", kind="inline", chunk_shapes=[[10]])}, "each dimension"),
    "zero_length": ({"chunk_grid": named("rectilinear", kind="inline", chunk_shapes=[[0, 10], [7]])}, "length"),
    "long_grid": ({"shape": [2**50, 7], "chunk_grid": named("rectilinear", kind="inline", chunk_shapes=[[[1, 2**50]], 7])},
                  "more than"),
    "no_fill": ({"fill_value": None}, "fill_value"),
    "chunk_keys": ({"chunk_key_encoding": named("other")}, "chunk_key_encoding"),
    "shape": ({"shape": [1, -2]}, '"shape"'),
    "zero_chunk": ({"chunk_grid": named("regular", chunk_shape=[0, 3])}, "chunk"),
    "order": ({"codecs": [ZSTD, LITTLE]}, None),
    "no_bytes": ({"codecs": [named("transpose", order=[1, 0])]}, "makes bytes"),
    "axes": ({"codecs": [named("transpose", order=[1, 1]), LITTLE]}, "order"),
    "shard_shape": ({"codecs": [sharding([3, 2], [LITTLE])]}, "divide"),
    "many_chunks": ({"chunk_grid": named("regular", chunk_shape=[2**40, 2**40]), "codecs": [sharding([1, 1], [LITTLE])]},
                    "more than"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_metadata(mount, tmp_path, name):
    change, says = REFUSED[name]
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/v", counting("i4", 10, 7), (4, 3), [LITTLE], "int32", 0, 0)
    meta = json.loads((tmp_path / "s/v/zarr.json").read_text())
    (tmp_path / "s/v/zarr.json").write_text(json.dumps({**meta, **change}))
    m = mount(tmp_path / "s")
    with pytest.raises(OSError):
        (m.path / "v/.zarray").read_bytes()
        (m.path / "v/0.0").read_bytes()
    if says:
        assert says in m.messages()


def test_a_key_that_need_not_be_understood(mount, tmp_path):
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/v", counting("i4", 4), (4,), [LITTLE], "int32", 0, 0,
                extra={"must_understand": False, "x": 1})
    m = mount(tmp_path / "s")
    assert same_values(zarr.open(str(m.path / "v"), "r")[...], counting("i4", 4))


@pytest.mark.parametrize("codec", [named("nobody_knows", level=1), named("numcodecs.nothing")])
def test_unknown_codecs_are_shown(mount, tmp_path, codec):
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/v", counting("i4", 8), (4,), [LITTLE], "int32", 0, 0)
    meta = json.loads((tmp_path / "s/v/zarr.json").read_text())
    (tmp_path / "s/v/zarr.json").write_text(json.dumps({**meta, "codecs": [LITTLE, codec]}))
    m = mount(tmp_path / "s")
    assert {"0", "1"} <= set(os.listdir(m.path / "v"))
    assert codec["name"].removeprefix("numcodecs.") in (m.path / "v/_Codecs").read_text()
    with pytest.raises(OSError):
        (m.path / "v/0").read_bytes()
    assert codec["name"].removeprefix("numcodecs.") in xattr(m.path / "v/0", "_Error")


def one_shard(tmp_path, **more):
    """The file of a shard of 4 x 4 chunks of 2 x 3, in row 0 and column 0 of 2 x 2 shards."""
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/v", counting("i4", 16, 24), (8, 12), [sharding([2, 3], [LITTLE], **more)], "int32", 0, 0)
    return tmp_path / "s/v/c/0/0"


def with_entry(file, number, offset, size):
    """Changes an entry of an index without a checksum at the end of a shard."""
    content = bytearray(file.read_bytes())
    struct.pack_into("<QQ", content, len(content) - 16 * 16 + number * 16, offset, size)
    file.write_bytes(content)


DAMAGE = {
    "past_the_end": lambda file: with_entry(file, 5, file.stat().st_size - 8, 24),
    "overflow": lambda file: with_entry(file, 5, 2**64 - 8, 24),
    "half_absent": lambda file: with_entry(file, 5, ABSENT, 0),
    "half_absent_size": lambda file: with_entry(file, 5, 0, ABSENT),
    "short": lambda file: file.write_bytes(file.read_bytes()[:100]),
    "empty": lambda file: file.write_bytes(b""),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_shard_fails_alone(mount, tmp_path, kind):
    DAMAGE[kind](one_shard(tmp_path, index_codecs=[LITTLE]))
    m = mount(tmp_path / "s")
    for number in ("0.0", "1.1", "3.3"):
        with pytest.raises(OSError) as caught:
            (m.path / "v" / number).read_bytes()
        assert caught.value.errno == 5
    assert "0.0" in os.listdir(m.path / "v"), "what is not listed would be taken for absent"
    for row, column in ((4, 0), (0, 4), (7, 7)):
        whole = counting("i4", 16, 24)[row * 2:row * 2 + 2, column * 3:column * 3 + 3]
        assert (m.path / "v" / f"{row}.{column}").read_bytes() == whole.tobytes()


def test_a_wrong_checksum_of_an_index(mount, tmp_path):
    file = one_shard(tmp_path)
    content = bytearray(file.read_bytes())
    content[-10] ^= 1
    file.write_bytes(content)
    m = mount(tmp_path / "s")
    with pytest.raises(OSError):
        (m.path / "v/2.2").read_bytes()
    assert "checksum" in xattr(m.path / "v/2.2", "_Error") and "checksum" in m.messages()


def test_shared_offsets_and_chunks_of_another_length(mount, tmp_path):
    file = one_shard(tmp_path, index_codecs=[LITTLE])
    content = file.read_bytes()
    entry = struct.unpack_from("<QQ", content, len(content) - 16 * 16 + 3 * 16)
    with_entry(file, 5, *entry)  # legal
    with_entry(file, 6, entry[0], entry[1] - 1)  # too short for a chunk without codecs
    m = mount(tmp_path / "s")
    assert (m.path / "v/1.1").read_bytes() == (m.path / "v/0.3").read_bytes() != b""
    with pytest.raises(OSError):
        (m.path / "v/1.2").read_bytes()


def test_a_shard_that_is_replaced_is_read_anew(mount, tmp_path):
    file = one_shard(tmp_path)
    m = mount(tmp_path / "s", "coherent")
    before = (m.path / "v/0.0").read_bytes()
    write_array(tmp_path / "other", counting("i4", 16, 24) + 1000, (8, 12), [sharding([2, 3], [LITTLE])], "int32", 0, 0)
    os.replace(tmp_path / "other/c/0/0", file)
    assert (np.frombuffer((m.path / "v/0.0").read_bytes(), "i4") == np.frombuffer(before, "i4") + 1000).all()


def test_deep_nesting_and_long_lists_are_refused(mount, tmp_path):
    write_group(tmp_path / "s")
    write_array(tmp_path / "s/v", counting("i4", 4), (4,), [LITTLE], "int32", 0, 0)
    meta = json.loads((tmp_path / "s/v/zarr.json").read_text())
    nested = [LITTLE]
    for _ in range(20):
        nested = [sharding([1], nested)]
    for codecs in (nested, [LITTLE] + [named("crc32c")] * 1000):
        (tmp_path / "s/v/zarr.json").write_text(json.dumps({**meta, "codecs": codecs}))
        m = mount(tmp_path / "s")
        with pytest.raises(OSError):
            (m.path / "v/.zarray").read_bytes()
        m.unmount()
