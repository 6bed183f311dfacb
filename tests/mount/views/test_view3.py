"""The views of Zarr v3 of every source. The judges are h5py, netCDF4 and zarr-python 2 on the source itself, a reader of v3
in tests/support, and numcodecs; zarr-python 3 and xarray are in test_view3_clients."""
import base64
import errno
import json
import os
import struct

import h5py
import netCDF4
import numcodecs
import numpy as np
import pytest
import zarr

import zarr3_stores
from compare import same_values
from conftest import xattr
from running import run
from test_encoded import make, raw_chunks
from zarr3_cases import CASES, ENCODINGS, write_all
from zarr3 import metadata_of, read_array, read_tree
from zarr3_stores import named, write_group, zip_store
from zarr3_stores import write_array as write_array3

DECODED = ".codecfs/view/decoded3"
ENCODED = ".codecfs/view/encoded3"
RNG = np.random.default_rng(20)

TYPES = {
    "i1": RNG.integers(-100, 100, (7, 9)).astype("i1"), "u8": RNG.integers(0, 1 << 60, (7, 9)).astype("u8"),
    "be_i2": RNG.integers(-100, 100, (7, 9)).astype(">i2"), "f2": RNG.normal(size=(7, 9)).astype("f2"),
    "f4": RNG.normal(size=(7, 9)).astype("f4"), "be_f8": RNG.normal(size=(7, 9)).astype(">f8"),
    "c8": (RNG.normal(size=(7, 9)) + 1j).astype("c8"), "bool": RNG.integers(0, 2, (7, 9)).astype(bool),
    "text": np.array([[b"ab", b"cde"]] * 4, "S4"), "opaque": np.array([[b"ab", b"cde"]] * 4, "V3"),
    "pair": np.array([(1, 2.5, b"x"), (3, -1, b"yz")], [("a", "<i4"), ("b", "<f8"), ("c", "S2")]),
    "be_pair": np.array([(1, 2.5), (3, -1)], [("a", ">i4"), ("b", ">f8")]),
    "scalar": np.array(3.5), "one": np.arange(10, dtype="i4"), "empty": np.zeros((0, 4), "i4"),
}


@pytest.fixture
def every_type(tmp_path):
    path = tmp_path / "types.h5"
    with h5py.File(path, "w") as f:
        group = f.create_group("g")
        group.attrs["title"] = "every type"
        for name, data in TYPES.items():
            chunked = {"chunks": tuple(max(1, n // 2) for n in data.shape), "maxshape": (None,) * data.ndim} if data.ndim else {}
            group.create_dataset(name, data=data, **chunked)
        strings = group.create_dataset("strings", (5,), h5py.string_dtype(), chunks=(2,))
        strings[:] = ["a", "ü" * 100, "", "d", "e"]
        strings.attrs["units"] = "none"
        f["mixed"] = np.array([(1, 2.5)], [("a", ">i4"), ("b", "<f8")])
        f.create_dataset("sparse", (100, 100, 100), "i2", chunks=(10, 10, 10))[55, 5, 95] = 3
    return path


@pytest.mark.parametrize("view", [DECODED, ENCODED])
def test_values_of_every_type(mount, every_type, view):
    m = mount(every_type, "ro")
    found = read_tree(m.path / view / "g")
    assert set(found) == set(TYPES) | {"strings"}
    for name, data in TYPES.items():
        assert found[name].dtype.kind == data.dtype.kind and found[name].shape == data.shape, name
        assert found[name].tolist() == data.tolist(), name
    assert found["strings"].tolist() == ["a", "ü" * 100, "", "d", "e"]
    attributes = metadata_of(m.path / view / "g/strings")["attributes"]
    assert json.loads(attributes.pop("_codecfs_phony_dimensions"))[0].startswith("phony_dim_") and attributes == {"units": "none"}


def test_what_v3_cannot_say(mount, every_type):
    m = mount(every_type, "ro", "view=decoded3")
    mixed = m.path / "mixed"
    assert set(os.listdir(mixed)) >= {"zarr.json", "c"}
    with pytest.raises(OSError) as failure:
        (mixed / "zarr.json").read_text()
    assert failure.value.errno == errno.EOPNOTSUPP and "byte orders" in xattr(mixed / "zarr.json", "_Error")
    assert (mixed / "c/0").read_bytes() == np.array([(1, 2.5)], [("a", ">i4"), ("b", "<f8")]).tobytes()
    assert "mixed" not in metadata_of(m.path)["consolidated_metadata"]["metadata"]


def test_directories_of_chunks(mount, every_type):
    m = mount(every_type, "view=decoded3")
    sparse = m.path / "sparse"
    assert sorted(os.listdir(sparse)) == ["c", "zarr.json"]
    assert [os.listdir(sparse / path) for path in ("c", "c/5", "c/5/0", "c/4")] == [["5"], ["0"], ["9"], []]
    assert (sparse / "c/5/0/9").stat().st_size == 2000
    for path in ("c", "c/0", "c/9/9"):
        (sparse / path).mkdir(parents=True, exist_ok=True)
        with pytest.raises(FileExistsError):
            os.mkdir(sparse / path)
    for path, code in [("c/10", errno.EINVAL), ("c/0/10", errno.EINVAL), ("d", errno.EPERM), ("c/x", errno.EPERM), ("0.0", errno.EINVAL)]:
        assert not (sparse / path).exists()
        with pytest.raises(OSError) as failure:
            os.mkdir(sparse / path)
        assert failure.value.errno == code, path
    with pytest.raises(OSError) as failure:
        os.rmdir(sparse / "c/5")
    assert failure.value.errno == errno.ENOTEMPTY
    os.rmdir(sparse / "c/4")
    assert (sparse / "c/4").is_dir()
    listed = run("find", sparse, "-type", "f").stdout.split()
    assert sorted(os.path.relpath(path, sparse) for path in listed) == ["c/5/0/9", "zarr.json"]


@pytest.mark.parametrize("view, files", [("decoded", {".zgroup", ".zattrs", ".zmetadata"}), ("decoded3", {"zarr.json"})])
def test_each_view_has_the_files_of_its_format(mount, every_type, view, files):
    m = mount(every_type, "ro", f"view={view}")
    hidden = {".zarray", ".zgroup", ".zattrs", ".zmetadata", "zarr.json"} - files
    assert {name for name in os.listdir(m.path / "g") if "z" in name} == files
    assert not any((m.path / "g" / name).exists() for name in hidden)
    assert (m.path / "g/one/zarr.json").exists() == (view == "decoded3") != (m.path / "g/one/.zarray").exists()
    assert (m.path / "g/one/c").exists() == (view == "decoded3") != (m.path / "g/one/0").exists()


def test_consolidated_metadata_is_all_metadata_and_fresh(mount, every_type):
    m = mount(every_type)
    top = m.path / DECODED

    def check(group):
        text = (top / group / "zarr.json").read_bytes()
        assert os.stat(top / group / "zarr.json").st_size == len(text)
        consolidated = json.loads(text)["consolidated_metadata"]
        assert consolidated["kind"] == "inline" and consolidated["must_understand"] is False
        for path, metadata in consolidated["metadata"].items():
            own = metadata_of(top / group / path)
            own.pop("consolidated_metadata", None)
            assert own == metadata, path
        return consolidated["metadata"]

    assert set(check("")) == {"sparse", "g"} | {f"g/{name}" for name in [*TYPES, "strings"]}
    assert set(check("g")) == {*TYPES, "strings"}
    os.setxattr(m.path / "g/one", "user.units", b"m")
    attributes = check("")["g/one"]["attributes"]
    assert json.loads(attributes.pop("_codecfs_phony_dimensions"))[0].startswith("phony_dim_") and attributes == {"units": "m"}
    os.mkdir(m.path / "g/new")
    assert "g/new" in check("")
    os.rename(m.path / "g/new", m.path / "new")
    assert "g/new" not in check("") and "new" in check("")


def test_netcdf_names_and_fill_values(mount, tmp_path):
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as f:
        f.createDimension("y", 3)
        f.createDimension("x", 4)
        data = np.arange(12, dtype="f4").reshape(3, 4)
        f.createVariable("t", "f4", ("y", "x"), fill_value=-9.5)[:] = data
        f.createVariable("n", "i2", ("x",), fill_value=-9)[:] = range(4)
        f.createVariable("plain", "f8", ("y",))[:] = range(3)
        f.createVariable("s", str, ("x",))[:] = np.array(list("abcd"), object)
        f.createVariable("x", "f8", ("x",))[:] = range(4)
    m = mount(path, "ro", "view=decoded3")
    t, n, plain = (metadata_of(m.path / name) for name in ("t", "n", "plain"))
    assert t["dimension_names"] == ["y", "x"] and metadata_of(m.path / "x")["dimension_names"] == ["x"]
    assert t["fill_value"] == -9.5
    assert t["attributes"]["_FillValue"] == base64.b64encode(struct.pack("<d", -9.5)).decode()
    assert n["attributes"]["_FillValue"] == n["fill_value"] == -9
    assert "_FillValue" not in plain["attributes"]
    assert np.array_equal(read_array(m.path / "t"), data)
    assert read_array(m.path / "s").tolist() == list("abcd")


@pytest.mark.parametrize("kind", ["directory", "zip"])
def test_a_v2_store(mount, tmp_path, kind):
    path = tmp_path / ("s.zarr" if kind == "directory" else "s.zip")
    store = zarr.DirectoryStore(str(path)) if kind == "directory" else zarr.ZipStore(str(path))
    root = zarr.group(store)
    data = RNG.normal(size=(10, 20)).astype(">f4")
    root.create_dataset("a/b", data=data, chunks=(4, 6), fill_value=-5)
    root.create_dataset("zero", data=data, chunks=(4, 6), fill_value=0)
    root["a"].attrs["title"] = "t"
    if kind == "zip":
        store.close()
    m = mount(path, "ro")
    for view in (DECODED, ENCODED):
        found = read_tree(m.path / view)
        assert set(found) == {"a/b", "zero"} and all(np.array_equal(array, data) for array in found.values())
    assert metadata_of(m.path / DECODED / "a")["attributes"] == {"title": "t"}
    assert metadata_of(m.path / DECODED / "a/b")["attributes"] == {"_FillValue": base64.b64encode(struct.pack("<d", -5)).decode()}
    assert metadata_of(m.path / DECODED / "zero")["attributes"] == {}, "zero is Zarr's default and marks nothing"


def test_cp_makes_a_store(mount, every_type, tmp_path):
    m = mount(every_type, "ro")
    run("cp", "-r", m.path / DECODED / "g", tmp_path / "out.zarr")
    found = read_tree(tmp_path / "out.zarr")
    for name, data in TYPES.items():
        assert found[name].tolist() == data.tolist(), name


# Filters of HDF5 -> the codecs of zarr.json after `bytes`, and how stored bytes become those of a chunk file.
def same(data):
    return data


def as_gzip(data):
    """A zlib stream as the gzip member that test_view3 compares with: its blocks are the same."""
    return data[2:-4]


CHAINS = {
    "none": ({}, [], same),
    "deflate": ({"compression": "gzip", "compression_opts": 6}, [{"name": "gzip", "configuration": {"level": 6}}], as_gzip),
    "shuffle_deflate": ({"shuffle": True, "compression": "gzip", "compression_opts": 1},
                        [{"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}},
                         {"name": "gzip", "configuration": {"level": 1}}], as_gzip),
    "checked": ({"shuffle": True, "compression": "gzip", "fletcher32": True},
                [{"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}},
                 {"name": "numcodecs.zlib", "configuration": {"level": 4}}, {"name": "numcodecs.fletcher32", "configuration": {}}],
                same),
    "bzip2": ({"compression": 307, "compression_opts": (5,)}, [{"name": "numcodecs.bz2", "configuration": {"level": 5}}], same),
    "zstd": ({"compression": 32015, "compression_opts": (3,)},
             [{"name": "zstd", "configuration": {"level": 3, "checksum": False}}], same),
    "blosc": ({"compression": 32001, "compression_opts": (0, 0, 0, 0, 5, 1, 1)},
              [{"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0, "typesize": 4}}],
              same),
    "lz4": ({"compression": 32004, "compression_opts": (0,)},
            [{"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}], None),
    "lzf": ({"compression": "lzf"}, [], None),
    "szip": ({"compression": "szip"}, [], None),
}
ARRAY = np.random.default_rng(3).integers(0, 500, (43, 100)).astype("<i4")


@pytest.mark.parametrize("name", CHAINS)
def test_stored_chunks_with_the_codecs_of_v3(mount, tmp_path, name):
    arguments, codecs, blocks = CHAINS[name]
    source = make(tmp_path / "s.h5", arguments, ARRAY)
    m = mount(source, "ro")
    run("cp", "-r", m.path / ENCODED, tmp_path / "out.zarr")
    stats = m.stats()
    m.close()
    out = tmp_path / "out.zarr/v"
    assert metadata_of(out)["codecs"][1:] == codecs
    stored = raw_chunks(source)
    assert len(stored) == 10
    if blocks is None:
        assert stats["chunks_passed"] == 0
    else:
        assert stats["chunks_decoded"] == stats["chunks_converted"] == 0 and stats["chunks_passed"] == 10
        for key, (data, _) in stored.items():
            chunk = (out / "c" / key.replace(".", "/")).read_bytes()
            assert blocks(data) in chunk and len(chunk) - len(data) == (12 if blocks is as_gzip else 0)
    assert np.array_equal(read_array(out), ARRAY)


def test_numcodecs_of_a_v2_store(mount, tmp_path):
    store = zarr.group(zarr.DirectoryStore(str(tmp_path / "s.zarr")))
    compressors = {"zstd": numcodecs.Zstd(3), "blosc": numcodecs.Blosc(), "gzip": numcodecs.GZip(3), "zlib": numcodecs.Zlib(3),
                   "bz2": numcodecs.BZ2(3), "lzma": numcodecs.LZMA(), "lz4": numcodecs.LZ4()}
    for name, compressor in compressors.items():
        store.create_dataset(name, data=ARRAY, chunks=(10, 50), compressor=compressor, filters=[numcodecs.Shuffle(4)])
    m = mount(tmp_path / "s.zarr", "ro")
    for name in compressors:
        array = m.path / ENCODED / name
        last = metadata_of(array)["codecs"][-1]["name"]
        assert last == {"zlib": "gzip"}.get(name, name if name in ("zstd", "blosc", "gzip") else f"numcodecs.{name}")
        assert np.array_equal(read_array(array), ARRAY), name
        if name != "zlib":
            assert (array / "c/1/1").read_bytes() == (tmp_path / "s.zarr" / name / "1.1").read_bytes()


def test_a_chunk_that_skipped_a_filter(mount, tmp_path):
    with h5py.File(tmp_path / "s.h5", "w") as f:
        d = f.create_dataset("v", (4, 100), "<i4", chunks=(1, 100), compression="gzip", shuffle=True)
        d[:] = ARRAY[:4]
        d.id.write_direct_chunk((2, 0), ARRAY[5:6].tobytes(), filter_mask=3)
    m = mount(tmp_path / "s.h5", "ro")
    expected = ARRAY[:4].copy()
    expected[2] = ARRAY[5]
    assert np.array_equal(read_array(m.path / ENCODED / "v"), expected)
    for chunk in (m.path / ENCODED / "v/c").glob("*/0"):
        assert len(chunk.read_bytes()) == chunk.stat().st_size


def test_sizes_are_told_before_reading(mount, tmp_path):
    m = mount(make(tmp_path / "s.h5", CHAINS["shuffle_deflate"][0], ARRAY), "ro")
    top = m.path / ENCODED
    sizes = {entry.name: entry.stat().st_size for entry in os.scandir(top / "v/c/1")}
    assert m.stats()["chunks_passed"] == 0
    assert sizes == {name: len((top / "v/c/1" / name).read_bytes()) for name in sizes}


# --- sources of v3


@pytest.fixture(scope="module")
def stores3(tmp_path_factory):
    top = tmp_path_factory.mktemp("v3")
    write_all(top / "dir")
    zip_store(top / "dir", top / "stored.zip")
    return top


@pytest.mark.parametrize("kind", ["dir", "stored.zip"])
@pytest.mark.parametrize("view", ["decoded3", "encoded3"])
def test_a_v3_store(mount, stores3, kind, view):
    m = mount(stores3 / kind, "ro", f"view={view}")
    assert {name for name in os.listdir(m.path) if name != "zarr.json"} == set(CASES)
    for name, (values, _, _, data_type, fill, _) in CASES.items():
        shown = metadata_of(m.path / name)
        assert same_values(zarr3_stores.read_array(m.path / name, values.dtype, fill), values), name
        assert shown["attributes"] == {"units": name}
        if name.startswith("shard") and view == "encoded3":
            assert shown["codecs"] == metadata_of(stores3 / "dir" / name)["codecs"], "shards as they are stored"
        else:
            assert not any(codec["name"] in ("sharding_indexed", "transpose") for codec in shown["codecs"]), "chunks in C order"
        files = {str(path.relative_to(m.path / name)) for path in (m.path / name).rglob("*") if path.is_file()}
        if ENCODINGS.get(name, {}) == {"name": "v2", "configuration": {"separator": "."}}:
            assert not any(path.startswith("c") for path in files)
        elif ENCODINGS.get(name) == {"name": "default", "configuration": {"separator": "."}}:
            assert any(path.startswith("c.") for path in files), files
        elif values.size:
            assert any(path.startswith("c") for path in files)


def test_types_that_numpy_lacks_keep_their_names(mount, tmp_path):
    write_group(tmp_path / "s")
    values = np.arange(6, dtype="<u2") + 0x3F80
    write_array3(tmp_path / "s/bf", values, (4,), [named("bytes", endian="little")], "bfloat16", 0, "0x0000",
                 attributes={"_FillValue": 1.5})
    write_array3(tmp_path / "s/i4", np.array([1, 7, 250], "u1"), (2,), [named("bytes")], "int4", 0, -1)
    m = mount(tmp_path / "s", "view=encoded3")
    assert [metadata_of(m.path / name)[key] for name in ("bf", "i4") for key in ("data_type", "fill_value")][::2] == ["bfloat16", "int4"]
    assert metadata_of(m.path / "i4")["fill_value"] == -1
    assert (m.path / "bf/c/0").read_bytes() == values[:4].tobytes()
    text = (m.path / "bf/zarr.json").read_text()
    (m.path / "bf/zarr.json").write_text(text)  # nothing changes
    assert (m.path / "bf/zarr.json").read_text() == text and metadata_of(m.path / "bf")["attributes"] == {"_FillValue": 1.5}


def test_chunks_without_directories_are_written(mount, tmp_path):
    write_group(tmp_path / "s")
    values = np.arange(24, dtype="<i4").reshape(4, 6)
    for name, encoding in {"dots": named("default", separator="."), "v2": named("v2", separator=".")}.items():
        write_array3(tmp_path / "s" / name, values, (2, 3), [named("bytes", endian="little")], "int32", 0, 0, encoding=encoding)
    m = mount(tmp_path / "s")
    for name, key in {"dots": "c.1.1", "v2": "1.1"}.items():
        chunk = m.path / name / key
        assert sorted(path.name for path in (m.path / name).iterdir() if "." in path.name and path.name != "zarr.json")[-1] == key
        chunk.unlink()
        assert not chunk.exists() and not (m.path / ".codecfs/view/decoded" / name / "1.1").exists()
        (m.path / ".codecfs/view/decoded" / name / "1.1").write_bytes(bytes(24))
        assert chunk.read_bytes() == bytes(24)
        (m.path / name / f"{key}.partial").write_bytes(values[2:, 3:].tobytes())
        os.rename(m.path / name / f"{key}.partial", chunk)
        metadata = metadata_of(m.path / name)
        os.mkdir(m.path / f"{name}_new")
        (m.path / f"{name}_new/zarr.json").write_text(json.dumps(metadata))
        for chunk in (m.path / name).glob("*[0-9].[0-9]"):
            (m.path / f"{name}_new" / chunk.name).write_bytes(chunk.read_bytes())
    os.mkdir(m.path / "slashes")
    with pytest.raises(OSError) as failure:
        (m.path / "slashes/zarr.json").write_text(json.dumps({**metadata, "chunk_key_encoding": named("v2", separator="/")}))
    assert failure.value.errno == errno.EINVAL
    m.close()
    for name in ("dots", "v2", "dots_new", "v2_new"):
        assert same_values(zarr3_stores.read_array(tmp_path / "s" / name, "<i4", 0), values)
