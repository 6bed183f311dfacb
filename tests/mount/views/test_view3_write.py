"""Writing into the views of Zarr v3, with the calls that zarr-python's LocalStore makes, into every kind of source. h5py and
zarr-python 2 read what is stored."""
import concurrent.futures
import errno
import json
import mmap
import os
import shutil
import stat
import threading

import h5py
import numpy as np
import pytest
import zarr

from conftest import wait_until, xattr
from running import run
from test_encoded import raw_chunks, run_h5py
from zarr3 import array_metadata, chunks_of, encode, metadata_of, put, put_group, read_array, write_array

DECODED = ".codecfs/view/decoded3"
ENCODED = ".codecfs/view/encoded3"
DATA = np.random.default_rng(30).integers(-500, 500, (13, 20)).astype("<i4")
CHUNKS = (4, 6)
GZIP = {"name": "gzip", "configuration": {"level": 3}}
ZSTD = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
SHUFFLE = {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}
BLOSC = {"name": "blosc", "configuration": {"typesize": 4, "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}}


@pytest.fixture(params=["h5", "zarr", "zip"])
def source(request, tmp_path):
    path = tmp_path / f"new.{request.param}"
    if request.param == "h5":
        h5py.File(path, "w").close()
    elif request.param == "zarr":
        zarr.open_group(str(path), "w")
    else:
        store = zarr.ZipStore(str(path), mode="w")
        zarr.group(store)
        store.close()
    return path


@pytest.fixture
def hdf5(tmp_path):
    path = tmp_path / "new.h5"
    h5py.File(path, "w").close()
    return path


def stored(path, name):
    """(values, attributes) by a library of the format."""
    if path.suffix == ".h5":
        run_h5py("f = h5py.File(sys.argv[1])[sys.argv[2]]\nnp.save(sys.argv[3], f[()])", path, name, path.with_suffix(".npy"))
        with h5py.File(path) as file:
            return np.load(path.with_suffix(".npy")), dict(file[name].attrs)
    store = zarr.DirectoryStore(str(path)) if path.is_dir() else zarr.ZipStore(str(path), mode="r")
    array = zarr.open_group(store, "r")[name]
    return array[...], dict(array.attrs)


def refused(code, action):
    with pytest.raises(OSError) as failure:
        action()
    assert failure.value.errno == code, failure.value


@pytest.mark.parametrize("view, codecs", [(DECODED, []), (ENCODED, []), (ENCODED, [GZIP]), (ENCODED, [ZSTD]), (ENCODED, [SHUFFLE, GZIP])])
def test_a_group_with_arrays(mount, source, view, codecs):
    m = mount(source)
    top = m.path / view
    put_group(top / "a/b", {"title": "t"}, exclusive=True)
    refused(errno.EEXIST, lambda: put_group(top / "a/b", exclusive=True))
    write_array(top / "a/b/v", DATA, CHUNKS, codecs, attributes={"units": "m", "n": [1, 2]}, dimension_names=["y", "x"])
    write_array(top / "a/b/s", np.array(3.5), (), fill_value=1.0)
    expected = metadata_of(top / "a/b/v")
    assert expected["codecs"][1:] == codecs and expected["dimension_names"] == ["y", "x"]
    for other in (DECODED, ENCODED):
        assert np.array_equal(read_array(m.path / other / "a/b/v"), DATA)
        assert read_array(m.path / other / "a/b/s") == 3.5
    m.close()
    values, attributes = stored(source, "a/b/v")
    assert np.array_equal(values, DATA) and attributes["units"] == "m" and list(attributes["n"]) == [1, 2]
    assert stored(source, "a/b/s")[0] == 3.5
    m = mount(source, "ro")
    assert metadata_of(m.path / view / "a/b")["attributes"] == {"title": "t"}
    assert metadata_of(m.path / view / "a/b/v") == expected


@pytest.mark.parametrize("codecs", [[GZIP], [SHUFFLE, GZIP], [BLOSC], [ZSTD]])
def test_encoded_chunks_are_stored_as_they_came(mount, hdf5, codecs):
    m = mount(hdf5)
    write_array(m.path / ENCODED / "v", DATA, CHUNKS, codecs)
    os.sync()
    files = chunks_of(DATA, CHUNKS, codecs)
    for key, data in files.items():
        shown = (m.path / ENCODED / "v" / key).read_bytes()
        assert shown[10:] == data[10:] if codecs[-1] is GZIP else shown == data
    m.close()
    chunks = raw_chunks(hdf5)
    for key, data in files.items():
        raw, mask = chunks[key[2:].replace("/", ".")]
        assert mask == 0 and (raw[2:-4] == data[10:-8] if codecs[-1] is GZIP else raw == data)


def test_chunks_in_any_order_of_calls(mount, source):
    """Copied by programs that take directories as they come: the chunks before their zarr.json."""
    m = mount(source)
    for view in (DECODED, ENCODED):
        array = m.path / view / ("v" + view[-8:])
        os.mkdir(array)
        for key, data in chunks_of(DATA, CHUNKS).items():
            (array / key).parent.mkdir(parents=True, exist_ok=True)
            (array / key).write_bytes(data)
        (array / "zarr.json").write_text(json.dumps(array_metadata(DATA, CHUNKS)))
        assert np.array_equal(read_array(array), DATA)
    assert sorted(os.listdir(m.path / DECODED / "vdecoded3")) == ["c", "zarr.json"]
    m.close()
    for view in ("decoded3", "encoded3"):
        assert np.array_equal(stored(source, f"v{view}")[0], DATA)


@pytest.mark.parametrize("view", [DECODED, ENCODED])
def test_cp_and_rsync_between_mounts(mount, source, tmp_path, view):
    with h5py.File(tmp_path / "from.h5", "w") as f:
        f.create_dataset("g/v", data=DATA, chunks=CHUNKS, compression="gzip", shuffle=True)
        f["g/v"].attrs["units"] = "m"
        f["g/big"] = DATA.astype(">f8")
    origin = mount(tmp_path / "from.h5")
    m = mount(source)
    run("cp", "-r", "--preserve=xattr", origin.path / view / "g", m.path / view / "g")
    if shutil.which("rsync"):
        run("rsync", "-r", f"{origin.path}/{view}/g/", m.path / view / "h/")
    m.close()
    for group in ("g", "h") if shutil.which("rsync") else ("g",):
        values, attributes = stored(source, f"{group}/v")
        assert np.array_equal(values, DATA) and attributes["units"] == "m"
        assert np.array_equal(stored(source, f"{group}/big")[0], DATA)
    if source.suffix == ".h5":
        with h5py.File(source) as f:
            assert f["g/v"].compression == "gzip" and f["g/v"].shuffle


@pytest.mark.skipif(not shutil.which("rsync"), reason="rsync is missing")
@pytest.mark.parametrize("view", [DECODED, ENCODED])
def test_rsync_into_a_directory_that_becomes_an_array(mount, tmp_path, source, view):
    """One process of rsync makes the directories of the chunks while another one renames zarr.json to its name."""
    with h5py.File(tmp_path / "from.h5", "w") as f:
        f.create_dataset("v", data=DATA, chunks=CHUNKS, compression="gzip")
    origin = mount(tmp_path / "from.h5")
    m = mount(source)
    for i in range(5):
        run("rsync", "-r", f"{origin.path}/{view}/v/", m.path / view / f"new{i}/")
    m.close()
    for i in range(5):
        assert np.array_equal(stored(source, f"new{i}")[0], DATA)


@pytest.mark.parametrize("view", [DECODED, ENCODED])
def test_directories_of_chunks_are_never_stale(mount, source, view):
    """While zarr.json turns the groups that were made for chunks into directories of an array, other threads use them."""
    m = mount(source)
    chunks = chunks_of(DATA, CHUNKS)
    for attempt in range(5):
        array = m.path / view / f"v{attempt}"
        for row in range(4):
            (array / "c" / str(row)).mkdir(parents=True)
        held = [os.open(array / "c" / str(row), os.O_RDONLY | os.O_DIRECTORY) for row in range(4)]
        begin = threading.Barrier(5)

        def fill(row, array=array, held=held, begin=begin):
            begin.wait()
            for column in range(4):
                temporary = os.open(f".{column}.partial", os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=held[row])
                os.write(temporary, chunks[f"c/{row}/{column}"])
                os.close(temporary)
                assert stat.S_ISDIR(os.stat(array / "c" / str(row)).st_mode) and os.fstat(held[row])
                os.rename(f".{column}.partial", f"{column}", src_dir_fd=held[row], dst_dir_fd=held[row])

        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            rows = [threads.submit(fill, row) for row in range(4)]
            begin.wait()
            put(array / "zarr.json", json.dumps(array_metadata(DATA, CHUNKS)).encode())
            for row in rows:
                row.result(60)
        for directory in held:
            os.close(directory)
        assert np.array_equal(read_array(array), DATA)
    m.close()
    for attempt in range(5):
        assert np.array_equal(stored(source, f"v{attempt}")[0], DATA)


def test_all_views_show_one_state(mount, source):
    m = mount(source)
    write_array(m.path / DECODED / "v", DATA, CHUNKS, [])
    decoded, decoded3 = (os.open(path, os.O_RDWR) for path in (m.path / "v/1.2", m.path / DECODED / "v/c/1/2"))
    encoded3 = m.path / ENCODED / "v/c/1/2"
    raw = os.open(m.path / ".codecfs/view/raw/v", os.O_RDWR)
    offset = (4 * 20 + 12) * 4  # of that chunk's first element in the array
    try:
        for i in range(20):
            writer, reader = (decoded, decoded3) if i % 2 else (decoded3, decoded)
            value = bytes([i] * 4)
            os.pwrite(writer, value, 0)
            assert os.pread(reader, 4, 0) == value and os.pread(raw, 4, offset) == value
            assert encoded3.read_bytes()[:4] == value
            os.pwrite(raw, b"wxyz", offset)
            assert os.pread(decoded3, 4, 0) == os.pread(decoded, 4, 0) == b"wxyz"
            encoded3.write_bytes(value + bytes(92))
            assert os.pread(decoded3, 96, 0) == os.pread(decoded, 96, 0) == value + bytes(92)
        with mmap.mmap(decoded3, 96) as mapped:
            mapped[8:12] = b"page"
            mapped.flush()
            assert os.pread(decoded, 12, 0)[8:] == b"page"
            os.pwrite(decoded, b"past", 8)
            assert mapped[8:12] == b"past"
        os.ftruncate(decoded3, 4)
        assert os.fstat(decoded).st_size == 4
    finally:
        for file in (decoded, decoded3, raw):
            os.close(file)
    wait_until(lambda: (m.path / "v/1.2").stat().st_size == (m.path / DECODED / "v/c/1/2").stat().st_size == 96, 5)


@pytest.mark.parametrize("view", ["decoded", "decoded3"])
def test_names_appear_and_go_in_all_views_at_once(mount, hdf5, view):
    m = mount(hdf5, f"view={view}")
    views = {name: m.path if name == view else m.path / ".codecfs/view" / name for name in ("decoded", "decoded3", "encoded3")}
    put_group(views["decoded3"] / "g")
    assert (views["decoded"] / "g").is_dir()
    (views["decoded3"] / "g/v").mkdir()
    assert not (views["decoded3"] / "g/v/c").exists() and not (views["decoded"] / "g/v/.zarray").exists() or view == "decoded"
    metadata = array_metadata(DATA, CHUNKS, fill_value=-9, attributes={"_FillValue": -9})
    put(views["encoded3"] / "g/v/zarr.json", json.dumps(metadata).encode())
    assert (views["decoded"] / "g/v/.zarray").exists()
    (views["decoded3"] / "g/v/c/3").mkdir(parents=True)
    one, other = views["decoded3"] / "g/v/c/3/3", views["decoded"] / "g/v/3.3"
    for i in range(5):
        writer, reader = (one, other) if i % 2 else (other, one)
        assert not reader.exists()
        writer.write_bytes(bytes(96))
        assert reader.exists() and os.listdir(views["decoded3"] / "g/v/c/3") == ["3"]
        writer.unlink()
        assert not reader.exists() and os.listdir(views["decoded3"] / "g/v/c") == []
    shutil.rmtree(views["decoded3"] / "g/v")
    assert not (views["decoded"] / "g/v").exists() and not (views["encoded3"] / "g/v").exists()


@pytest.mark.parametrize("made, removed", [("decoded3", "decoded"), ("encoded3", "encoded"), ("decoded", "decoded3")])
@pytest.mark.parametrize("fill_value", [0, -9])
def test_a_new_variable_is_removed_in_another_view(mount, hdf5, made, removed, fill_value):
    """At once: the view that it was made in shows only what was written to it."""
    m = mount(hdf5)
    place = {name: m.path if name == "decoded" else m.path / ".codecfs/view" / name for name in (made, removed)}
    if made == "decoded":
        (place[made] / "new").mkdir()
        put(place[made] / "new/.zarray", json.dumps({"zarr_format": 2, "shape": list(DATA.shape), "chunks": list(CHUNKS), "dtype": "<i4",
                                                     "compressor": None, "filters": None, "order": "C", "fill_value": fill_value}).encode())
        (place[made] / "new/0.0").write_bytes(bytes(96))
    else:
        (place[made] / "new").mkdir()
        put(place[made] / "new/zarr.json", json.dumps(array_metadata(DATA, CHUNKS, fill_value=fill_value)).encode())
        (place[made] / "new/c/0").mkdir(parents=True)
        (place[made] / "new/c/0/0").write_bytes(bytes(96))
    shutil.rmtree(place[removed] / "new")
    assert not any((folder / "new").exists() for folder in place.values())
    m.close()
    with h5py.File(hdf5, "r") as f:
        assert "new" not in f


def test_shape_attributes_and_names_change(mount, source):
    m = mount(source)
    array = m.path / DECODED / "v"
    write_array(array, DATA, CHUNKS, dimension_names=["y", "x"], attributes={"a": 1, "b": 2.5})

    def change(**changes):
        put(array / "zarr.json", json.dumps({**metadata_of(array), **changes}).encode())

    change(shape=[20, 20])
    larger = np.zeros((20, 20), "i4")
    larger[:13] = DATA
    for key, data in chunks_of(larger, CHUNKS).items():
        put(array / key, data)
    assert np.array_equal(read_array(array), larger)
    assert zarr.open_group(str(m.path), "r")["v"].shape == (20, 20)
    change(shape=[10, 7])
    assert np.array_equal(read_array(array), larger[:10, :7]) and sorted(os.listdir(array / "c/2")) == ["0", "1"]
    change(attributes={"b": 2.5, "c": "new"})
    change(dimension_names=["t", "x"])
    for changes in [{"data_type": "int8"}, {"fill_value": 3}, {"codecs": ["bytes", GZIP]}, {"shape": [3]}, {"node_type": "group"}]:
        refused(errno.EINVAL, lambda changes=changes: change(**changes))
    assert "another variable" in m.messages()
    m.close()
    values, attributes = stored(source, "v")
    assert np.array_equal(values, larger[:10, :7])
    assert attributes["b"] == 2.5 and attributes["c"] == "new" and "a" not in attributes


def test_a_fill_value_marks_nothing_unless_it_is_said_to(mount, source):
    """xarray 2024 writes 0 as fill value of floats, and NaN as _FillValue."""
    m = mount(source)
    nan = {"_FillValue": "AAAAAAAA+H8="}
    floats = np.array([0, np.nan, 2, 0], "<f4")
    for name, arguments in {"marked": {"fill_value": 0.0, "attributes": nan}, "both": {"fill_value": "NaN", "attributes": nan},
                            "plain": {"fill_value": 7.0}}.items():
        put(m.path / ENCODED / name / "zarr.json", json.dumps(array_metadata(floats, (2,), **arguments)).encode())
        put(m.path / ENCODED / name / "c/0", floats[:2].tobytes())
    m.close()
    m = mount(source, "ro")
    for name, fill in {"marked": 0, "both": np.nan, "plain": 7}.items():
        metadata = metadata_of(m.path / DECODED / name)
        if name != "plain" or source.suffix == ".h5":
            generated = {"_codecfs_phony_dimensions": '["phony_dim_0"]'} if source.suffix == ".h5" else {}
            assert metadata["attributes"] == ({} if name == "plain" else nan) | generated, name
        assert np.array_equal(read_array(m.path / DECODED / name), [0, np.nan, fill, fill], equal_nan=True)
    if source.suffix == ".h5":
        v2 = {name: json.loads((m.path / name / ".zarray").read_text())["fill_value"] for name in ("marked", "both", "plain")}
        assert v2 == {"marked": None, "both": "NaN", "plain": None}, "v2 readers would mask it"
        with h5py.File(source) as f:
            assert f["marked"].fillvalue == 0 and np.isnan(f["marked"].attrs["_FillValue"]) and f["plain"].fillvalue == 7


@pytest.mark.parametrize("view, files, instead", [
    ("decoded", ["zarr.json"], "decoded3"), ("encoded", ["zarr.json"], "encoded3"),
    ("decoded3", [".zarray", ".zgroup", ".zattrs", ".zmetadata"], "decoded"),
    ("encoded3", [".zarray", ".zgroup", ".zattrs", ".zmetadata"], "encoded")])
def test_files_of_the_other_format_are_refused(mount, hdf5, view, files, instead):
    m = mount(hdf5, f"view={view}")
    os.mkdir(m.path / "g")
    temporary = m.path / "g/x.partial"
    temporary.write_text("{}")
    for name in files:
        target = m.path / "g" / name
        for call in (lambda: target.write_text("{}"), lambda: os.rename(temporary, target), lambda: os.link(temporary, target),
                     lambda: os.mkdir(target), lambda: os.symlink("x", target)):
            refused(errno.EINVAL, call)
            assert f".codecfs/view/{instead}" in xattr(m.path / "g", "_Error")
        assert not target.exists()
    os.unlink(temporary)


def test_what_is_no_array_is_refused_at_the_call(mount, hdf5):
    m = mount(hdf5)
    (m.path / DECODED / "v").mkdir()
    good = array_metadata(DATA, CHUNKS)
    sharding = {"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3], "codecs": ["bytes"]}}
    for changes, reason in [({"codecs": [good["codecs"][0], ZSTD]}, "view/encoded3"), ({"codecs": [sharding]}, "shards"),
                            ({"chunk_key_encoding": {"name": "v2"}}, "c/0/1"), ({"data_type": "float8_e5m2fnuz"}, "float8_e5m2fnuz"),
                            ({"surprise": 1}, "surprise")]:
        text = json.dumps({**good, **changes}).encode()
        refused(errno.EINVAL, lambda text=text: put(m.path / DECODED / "v/zarr.json", text))
        assert reason in m.messages()
    refused(errno.EINVAL, lambda: (m.path / DECODED / "v/zarr.json").write_bytes(b"{"))
    assert os.listdir(m.path / DECODED / "v") == []
    write_array(m.path / DECODED / "v", DATA, CHUNKS)
    refused(errno.EINVAL, lambda: put(m.path / DECODED / "v/c/0/9", bytes(96)))
    refused(errno.EINVAL, lambda: put(m.path / ENCODED / "v/c/0/0", bytes(95)))
    assert np.array_equal(read_array(m.path / DECODED / "v"), DATA)


def test_rm_and_mv(mount, source):
    m = mount(source)
    for view in (DECODED, ENCODED):
        write_array(m.path / view / "g/v", DATA, CHUNKS)
        write_array(m.path / view / "g/w", DATA, CHUNKS)
        run("rm", "-r", m.path / view / "g/v")
        assert sorted(set(os.listdir(m.path / view / "g")) - {"zarr.json"}) == ["w"]
        run("mv", m.path / view / "g", m.path / view / "h")
        assert np.array_equal(read_array(m.path / view / "h/w"), DATA)
        run("rm", "-r", m.path / view / "h")
        assert not (m.path / "h").exists()


def test_changes_by_other_programs(mount, tmp_path):
    store = zarr.open_group(str(tmp_path / "s.zarr"), "w")
    array = store.create_dataset("v", data=DATA, chunks=CHUNKS, fill_value=0)
    m = mount(tmp_path / "s.zarr", "coherent")
    for view in (DECODED, ENCODED):
        assert np.array_equal(read_array(m.path / view / "v"), DATA)
    changed = DATA.copy()
    changed[5, 7] = array[5, 7] = 12345
    for view in (DECODED, ENCODED):
        wait_until(lambda view=view: np.array_equal(read_array(m.path / view / "v"), changed), 5)
    array.append(DATA, axis=1)
    larger = np.concatenate([changed, DATA], axis=1)
    array.attrs["units"] = "m"
    store.create_dataset("w", data=DATA, chunks=CHUNKS)
    for view in (DECODED, ENCODED):
        top = m.path / view
        wait_until(lambda top=top: metadata_of(top / "v")["shape"] == list(larger.shape), 5)
        wait_until(lambda top=top: np.array_equal(read_array(top / "v"), larger), 5)
        wait_until(lambda top=top: metadata_of(top / "v")["attributes"] == {"units": "m"}, 5)
        wait_until(lambda top=top: sorted(metadata_of(top)["consolidated_metadata"]["metadata"]) == ["v", "w"], 5)
        assert sorted(os.listdir(top / "v/c/0"), key=int) == [str(i) for i in range(7)]
    put(m.path / DECODED / "v/c/0/0", larger[8:12, :6].tobytes())
    os.sync()
    m.close()
    larger[:4, :6] = larger[8:12, :6]
    assert np.array_equal(zarr.open_group(str(tmp_path / "s.zarr"), "r")["v"][...], larger)


NAMED = {  # data_type: (bytes of two elements, fill value, bytes of an element)
    "bfloat16": (b"\x80\x3f\x00\x40", "0x0000", 2),
    "float8_e4m3": (b"\x38\x40", "0x00", 1),
    "int4": (b"\x07\xf8", -8, 1),
    "complex_float16": (b"\x00\x3c\x00\x40" * 2, ["0x0000", "0x0000"], 4),
}


@pytest.mark.parametrize("name", NAMED)
def test_types_that_numpy_lacks_are_kept_in_a_store_of_v3(mount, tmp_path, name):
    data, fill, size = NAMED[name]
    metadata = {"zarr_format": 3, "node_type": "array", "shape": [2], "data_type": name, "fill_value": fill, "attributes": {"n": 1},
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                "codecs": [{"name": "bytes", "configuration": {"endian": "little"}} if size > 1 else {"name": "bytes"}]}
    m = mount(tmp_path / "new.zarr", "create=zarr3,view=decoded3")
    for view in (DECODED, ENCODED):
        place = m.path / view / view[-8:]
        put(place / "zarr.json", json.dumps({**metadata, "codecs": metadata["codecs"] + [ZSTD] * (view == ENCODED)}).encode())
        put(place / "c/0", encode(ZSTD, data) if view == ENCODED else data)
        assert metadata_of(place)["data_type"] == name and metadata_of(place)["fill_value"] == fill
    assert (m.path / ENCODED / "decoded3/c/0").read_bytes() == data
    if size > 1:
        big = [{"name": "bytes", "configuration": {"endian": "big"}}]
        refused(errno.EINVAL, lambda: put(m.path / DECODED / "big/zarr.json", json.dumps({**metadata, "codecs": big}).encode()))
    m.unmount()
    for member in ("decoded3", "encoded3"):
        told = json.loads((tmp_path / "new.zarr" / member / "zarr.json").read_text())
        assert (told["data_type"], told["fill_value"], told["codecs"][0]) == (name, fill, metadata["codecs"][0])
    assert (tmp_path / "new.zarr/decoded3/c/0").read_bytes() == data


def test_types_that_numpy_lacks_are_refused_elsewhere(mount, source):
    m = mount(source)
    metadata = array_metadata(DATA, CHUNKS)
    metadata["data_type"] = "float8_e5m2fnuz"
    refused(errno.EINVAL, lambda: put(m.path / DECODED / "v/zarr.json", json.dumps(metadata).encode()))
    assert "Zarr v3 store" in m.messages()
