"""codecfs refs: zarr-python reads an HDF5 file through the references, and finds what h5py finds. fsspec and kerchunk's
readers are extras in the environment of clients: scripts/client-test makes it."""
import base64
import json
import os
import pathlib
import shutil
import time

import h5py
import numcodecs
import numpy as np
import pytest
import zarr

import parquet
import zips
from conftest import CODECFS, DATA, mounted
from references import Referenced, refs
from running import codecfs, run

FILES = ["filters_builtin", "layouts", "chunk_indexes_latest", "chunk_indexes_earliest", "chunk_indexes_v108", "fill_values",
         "c_user_block_and_ranks", "c_partial_chunks_unfiltered", "filter_masks", "scalars_null_and_empty",
         "types_numbers", "c_string_paddings", "groups"]


def have_fletcher32():
    import numcodecs
    return hasattr(numcodecs, "Fletcher32")


@pytest.mark.parametrize("name", [name for name in FILES if (DATA / f"hdf5/{name}.h5").exists()])
def test_zarr_reads_what_h5py_reads(name):
    path = DATA / f"hdf5/{name}.h5"
    group = zarr.open(Referenced(refs(path)), mode="r")
    compared = 0
    with h5py.File(path) as file:
        def visit(key, item):
            nonlocal compared
            if not isinstance(item, h5py.Dataset) or item.shape is None:
                return
            if not have_fletcher32() and item.fletcher32:
                return
            try:
                theirs = item[...]
            except OSError:
                return
            ours = group[key][...]
            assert ours.shape == theirs.shape, key
            if theirs.dtype.kind in "iufcbS" and ours.dtype.kind == theirs.dtype.kind:
                # Zarr pads strings of fixed length with NUL; h5py gives what is stored.
                assert ours.astype(theirs.dtype).tobytes() == theirs.tobytes(), key
                compared += 1
        file.visititems(visit)
    assert compared > 0


def test_places_are_those_of_h5py():
    path = DATA / "hdf5/filters_builtin.h5"
    found = json.loads(refs(path, "--url", "s3://bucket/a \"quoted\" name.h5"))["refs"]
    with h5py.File(path) as file:
        gzip = file["gzip"].id
        for i in range(gzip.get_num_chunks()):
            info = gzip.get_chunk_info(i)
            key = "gzip/" + ".".join(str(o // c) for o, c in zip(info.chunk_offset, (8, 16)))
            assert found[key] == ['s3://bucket/a "quoted" name.h5', info.byte_offset, info.size]


def test_it_is_written_as_a_whole(tmp_path):
    out = tmp_path / "a.json"
    told = codecfs("refs", DATA / "hdf5/layouts.h5", "-o", out)
    assert "chunks" in told.stdout and json.loads(out.read_text())["version"] == 1
    text = out.read_bytes()
    assert "exists" in refs(DATA / "hdf5/layouts.h5", "-o", out, code=32) and out.read_bytes() == text
    out.unlink()
    assert "directory" in refs(DATA / "zarr/filters", "-o", out, code=32) or not out.exists()
    refs(DATA / "hdf5/types_without_zarr_form.h5", "-o", out, code=32)
    assert os.listdir(tmp_path) == []
    source = shutil.copy(DATA / "hdf5/layouts.h5", tmp_path)
    assert "exists" in refs(source, "-o", source, code=32)
    assert pathlib.Path(source).read_bytes() == (DATA / "hdf5/layouts.h5").read_bytes()


def test_changes_that_only_the_log_has_are_no_references(tmp_path):
    """They would lead to the bytes from before."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["contiguous"] = np.zeros((100, 1000), "i4")
        file.create_dataset("chunked", data=np.zeros((10, 100), "i4"), chunks=(1, 100), compression="gzip")
    with mounted(path, tmp_path / "mnt", "commit=3600") as m:
        for name in ("contiguous/0.0", "chunked/3.0"):
            fd = os.open(m.path / name, os.O_RDWR)
            os.pwrite(fd, b"\7" * os.fstat(fd).st_size, 0)
            os.fsync(fd)
            os.close(fd)
        m.kill()
    assert "codecfs recover" in refs(path, code=32)
    codecfs("recover", path)
    group = zarr.open(Referenced(refs(path)), mode="r")
    assert (group["contiguous"][0] == 0x07070707).all() and (group["chunked"][3] == 0x07070707).all()


def key_of(index, shape, chunks):
    """The name of a chunk from its number in C order."""
    cells = [-(-extent // chunk) for extent, chunk in zip(shape, chunks)]
    return ".".join(map(str, np.unravel_index(index, cells))) if cells else "0"


def in_parquet(directory):
    """The same references as JSON has, from kerchunk's directory of Parquet files."""
    consolidated = json.loads((directory / ".zmetadata").read_text())
    size = consolidated["record_size"]
    found = {}
    for key, document in consolidated["metadata"].items():
        found[key] = document
        if not key.endswith(".zarray"):
            continue
        name = key[:-len("/.zarray")]
        for file in (directory / name).glob("refs.*.parq"):
            first = int(file.name.split(".")[1]) * size
            columns = parquet.read(file)
            assert list(columns) == ["path", "offset", "size", "raw"]
            slots = int(np.prod([-(-s // c) for s, c in zip(document["shape"], document["chunks"])]))
            assert len(columns["path"]) == min(size, slots - first)
            for row, (path, offset, length, raw) in enumerate(zip(*columns.values())):
                if path is None and raw is None:
                    assert offset == length == 0
                    continue
                assert path is None or raw is None
                chunk = f"{name}/{key_of(first + row, document['shape'], document['chunks'])}"
                found[chunk] = [path, offset, length] if raw is None else raw
    return found


@pytest.mark.parametrize("name", [name for name in FILES if (DATA / f"hdf5/{name}.h5").exists()])
def test_parquet_has_what_json_has(tmp_path, name):
    path = DATA / f"hdf5/{name}.h5"
    told = refs(path, "--parquet", "-o", tmp_path / "refs")
    assert told == refs(path, "-o", tmp_path / "refs.json").replace("refs.json", "refs")
    wanted = {}
    for key, value in json.loads((tmp_path / "refs.json").read_text())["refs"].items():
        if isinstance(value, str):
            value = base64.b64decode(value[7:]) if value.startswith("base64:") else json.loads(value)
        wanted[key] = value
    assert in_parquet(tmp_path / "refs") == wanted


def test_parquet_is_made_as_a_whole(tmp_path):
    assert "-o" in refs(DATA / "hdf5/layouts.h5", "--parquet", code=1)
    (tmp_path / "there").mkdir()
    assert "exists" in refs(DATA / "hdf5/layouts.h5", "--parquet", "-o", tmp_path / "there", code=32)
    assert os.listdir(tmp_path / "there") == []
    refs(DATA / "hdf5/types_without_zarr_form.h5", "--parquet", "-o", tmp_path / "refs", code=32)
    assert os.listdir(tmp_path) == ["there"]


def test_parquet_of_a_sparse_variable_is_small(tmp_path):
    """A hundred million places for chunks, of which three are taken."""
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        v = file.create_dataset("v", (100_000_000, 1), "u1", chunks=(1, 1), maxshape=(None, None), fillvalue=7)
        for row in (5, 12_345_678, 99_999_999):
            v[row] = 1
    begin = time.monotonic()
    limited = ["prlimit", f"--as={4 << 30}", CODECFS, "refs", tmp_path / "a.h5", "--parquet", "-o", tmp_path / "refs"]
    done = run(*limited, code=None)
    assert "3 chunks" in done.stdout, done.stderr
    assert time.monotonic() - begin < 20
    assert sorted(os.listdir(tmp_path / "refs/v")) == ["refs.0.parq", "refs.123.parq", "refs.999.parq"]
    assert sum(file.stat().st_size for file in (tmp_path / "refs").rglob("*.parq")) < 10_000
    assert {key for key in in_parquet(tmp_path / "refs") if "/.z" not in key} == {".zgroup", "v/5.0", "v/12345678.0", "v/99999999.0"}


def test_a_family_of_files(tmp_path):
    """References are of its first file; what is in the others becomes part of them."""
    with h5py.File(tmp_path / "a%d.h5", "w", driver="family", memb_size=4096) as file:
        file.create_dataset("chunked", data=np.arange(1000), chunks=(100,))
        file["contiguous"] = np.arange(1000)
    group = zarr.open(Referenced(refs(tmp_path / "a0.h5")), mode="r")
    assert (group["chunked"][...] == np.arange(1000)).all() and (group["contiguous"][...] == np.arange(1000)).all()


@pytest.mark.parametrize("way", ["zarr_python", "netcdf_c", "junk", "zip64", "streamed"])
def test_chunks_of_an_archive(tmp_path, way):
    """They are referenced where they are, unless the archive compresses them."""
    is_compressed = way == "streamed"
    source = zarr.DirectoryStore(str(tmp_path / "s"))
    group = zarr.group(source)
    big = np.random.default_rng(1).integers(0, 1 << 30, (5, 1 << 20), "i4")  # more than may become part of the references
    group.create_dataset("g/big", data=big[:, :1000] if is_compressed else big, chunks=(1, 1 << 18), compressor=None)
    group.create_dataset("zlib", data=np.arange(100), chunks=(30,), compressor=numcodecs.Zlib(1), order="F")
    text = refs(zips.pack(tmp_path / "s", tmp_path / "a.zip", way))
    found = zarr.open(Referenced(text), mode="r")
    for name in ("g/big", "zlib"):
        assert (found[name][...] == group[name][...]).all()
    chunks = [value for key, value in json.loads(text)["refs"].items() if "/.z" not in key and not key.startswith(".")]
    assert len(chunks) >= 9 and all(isinstance(value, list) != is_compressed for value in chunks)


# --- in a mount


def test_a_mount_has_the_references(tmp_path, mount):
    path = shutil.copy(DATA / "hdf5/filters_builtin.h5", tmp_path / "a.h5")
    wanted = refs(path)
    m = mount(path)
    file = m.path / ".codecfs/references.json"
    assert os.stat(file).st_size == 0 and os.stat(file).st_mode & 0o777 == 0o444
    assert m.stats()["chunks_decoded"] == 0
    for tool in (["cp", "-p"], ["rsync", "-a"], ["dd", "status=none"]):
        copied = tmp_path / f"copy-{tool[0]}"
        words = [f"if={file}", f"of={copied}"] if tool[0] == "dd" else [file, copied]
        run(*tool, *words)
        assert copied.read_text() == wanted, tool
    assert file.read_text() == wanted
    assert os.stat(file).st_size == len(wanted)
    with open(file, "rb", buffering=0) as opened:
        assert os.fstat(opened.fileno()).st_size == len(wanted)
        assert os.pread(opened.fileno(), 10, 100) == wanted.encode()[100:110]


def test_rules_of_the_mount_are_not_those_of_the_file(tmp_path, mount):
    """They change the encoded view, and the references are to what is stored."""
    path = shutil.copy(DATA / "hdf5/filters_builtin.h5", tmp_path / "a.h5")
    wanted = refs(path)
    m = mount(path, "view=encoded3", rules=["*,zstd,1"])
    assert (m.path / ".codecfs/references.json").read_text() == wanted


@pytest.mark.parametrize("kind", ["hdf5", "zip"])
def test_references_wait_for_what_is_written(tmp_path, mount, kind):
    path = tmp_path / "a"
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            file.create_dataset("v", data=np.zeros((10, 100), "i4"), chunks=(1, 100))
    else:
        store = zarr.ZipStore(str(path), mode="w", compression=0)
        zarr.group(store).create_dataset("v", data=np.zeros((10, 100), "i4"), chunks=(1, 100), compressor=None)
        store.close()
    m = mount(path, "commit=3600")
    file = m.path / ".codecfs/references.json"
    assert file.read_text() == refs(path)
    fd = os.open(m.path / "v/3.0", os.O_RDWR)
    os.pwrite(fd, b"\7" * 400, 0)
    with pytest.raises(OSError, match="busy"):
        file.read_text()
    assert b"wait" in os.getxattr(file, "user._Error")
    os.fsync(fd)
    os.close(fd)
    if kind == "hdf5":  # it is in the log
        with pytest.raises(OSError, match="busy"):
            file.read_text()
        assert b"log" in os.getxattr(file, "user._Error")
    else:
        assert (zarr.open(Referenced(file.read_text()), mode="r")["v"][3] == 0x07070707).all()
    m.close()
    m = mount(path)
    file = m.path / ".codecfs/references.json"
    assert file.read_text() == refs(path)
    assert (zarr.open(Referenced(file.read_text()), mode="r")["v"][3] == 0x07070707).all()


def test_a_directory_has_no_references(mount):
    m = mount(DATA / "zarr/filters")
    assert "references.json" not in os.listdir(m.path / ".codecfs")
    assert not (m.path / ".codecfs/references.json").exists()


def test_what_cannot_be_referenced_says_why(mount):
    m = mount(DATA / "hdf5/types_without_zarr_form.h5", "ro")
    file = m.path / ".codecfs/references.json"
    with pytest.raises(OSError):
        file.read_text()
    reason = os.getxattr(file, "user._Error").decode()
    assert reason.removeprefix("/.codecfs/references.json: ") in refs(DATA / "hdf5/types_without_zarr_form.h5", code=32)


# --- readers

CLIENTS = pathlib.Path(os.environ.get("CODECFS_CLIENTS", pathlib.Path.home() / ".cache/codecfs-clients"))


def run_client(environment, modules, script, *words):
    python = CLIENTS / environment / "bin/python"
    have = python.exists() and run(python, "-c", f"import {modules}", code=None).returncode == 0
    if not have:
        pytest.skip(f"no {modules}: scripts/client-test makes an environment with it")
    done = run(python, "-W", "ignore", "-c", script, *words, seconds=300, code=None)
    assert done.stdout.endswith("read\n"), done.stderr


@pytest.fixture
def mixed(tmp_path):
    """Chunks in the file, chunks that become part of the references, and absent ones."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("gzip", data=np.arange(3000).reshape(100, 30), chunks=(10, 7), compression="gzip", shuffle=True)
        sparse = file.create_dataset("sparse", (100, 30), "f4", chunks=(10, 7), fillvalue=-1.5)
        sparse[20:30] = 3
        file.create_dataset("none", (100,), "i2", chunks=(10,), fillvalue=2)
        file["g/contiguous"] = np.linspace(0, 1, 50)
        file["scalar"] = 4.5
        file.create_dataset("text", data=["a", "bcd", "é"] * 5, dtype=h5py.string_dtype(), chunks=(4,))
        file.create_dataset("empty", (0, 4), "i4", maxshape=(None, 4), chunks=(2, 4))
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((5,)), dcpl)
        file["compact"][...] = range(5)
    return tmp_path / "a.h5"


COMPARE = """
import sys, h5py, numpy as np
def compare(group, names):
    with h5py.File(sys.argv[1]) as file:
        for name in names:
            theirs, ours = file[name][...], np.asarray(group[name][...])
            if theirs.dtype.kind == "O":
                assert [str(x) for x in ours] == [x.decode() for x in theirs], name
            else:
                assert ours.shape == theirs.shape and (ours == theirs).all(), name
NAMES = ["gzip", "sparse", "none", "g/contiguous", "scalar", "text", "empty", "compact"]
"""

ZARR3 = COMPARE + """
import fsspec, zarr
fs = fsspec.filesystem("reference", fo=sys.argv[2], remote_protocol="file", asynchronous=True,
                       remote_options={"asynchronous": True})
for consolidated in (False, True) if sys.argv[3] == "parquet" else (False,):
    compare(zarr.open_group(zarr.storage.FsspecStore(fs, path=""), mode="r", zarr_format=2, use_consolidated=consolidated), NAMES)
print("read")
"""
ZARR2 = COMPARE + """
import fsspec, zarr
mapper = fsspec.filesystem("reference", fo=sys.argv[2], remote_protocol="file").get_mapper("")
compare(zarr.open_group(mapper, mode="r"), NAMES)
if sys.argv[3] == "parquet":
    compare(zarr.open_consolidated(mapper, mode="r"), NAMES)
print("read")
"""
XARRAY = COMPARE + """
import fsspec, kerchunk, xarray
with xarray.open_dataset(sys.argv[2], engine="kerchunk", storage_options={"remote_protocol": "file"}, mask_and_scale=False) as data:
    compare(data, [name for name in NAMES if "/" not in name])
print("read")
"""
PANDAS = """
import sys, pathlib, pyarrow.parquet, fastparquet
for path in pathlib.Path(sys.argv[2]).rglob("*.parq"):
    pyarrows = pyarrow.parquet.read_table(path).to_pydict()
    theirs = fastparquet.ParquetFile(str(path)).to_pandas()
    assert theirs["offset"].dtype == theirs["size"].dtype == "int64", "else seeking fails"
    for name, values in pyarrows.items():
        assert [None if x is None or x != x else x for x in theirs[name].tolist()] == values, (path, name)
print("read")
"""


@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("reader", ["zarr3", "zarr2", "xarray"])
def test_fsspec_reads_it(tmp_path, mixed, reader, form):
    refs(mixed, *(["--parquet"] if form == "parquet" else []), "-o", tmp_path / "refs")
    modules = {"zarr3": "fsspec, h5py, zarr", "zarr2": "fsspec, h5py, zarr", "xarray": "fsspec, h5py, kerchunk, xarray"}[reader]
    script = {"zarr3": ZARR3, "zarr2": ZARR2, "xarray": XARRAY}[reader]
    run_client("zarr2" if reader == "zarr2" else "zarr3", modules + (", fastparquet" if form == "parquet" else ""), script,
               mixed, tmp_path / "refs", form)


def test_pyarrow_and_fastparquet_read_it(tmp_path, mixed):
    refs(mixed, "--parquet", "-o", tmp_path / "refs")
    run_client("zarr3", "pyarrow, fastparquet", PANDAS, mixed, tmp_path / "refs")


VIRTUALIZARR = COMPARE + """
import zarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr.parsers import KerchunkJSONParser, KerchunkParquetParser
registry = ObjectStoreRegistry({"file://": LocalStore()})
parquet = sys.argv[3] == "parquet"
store = KerchunkParquetParser()(sys.argv[2], registry=registry) if parquet else \
    KerchunkJSONParser()("file://" + sys.argv[2], registry=registry)
compare(zarr.open_group(store, mode="r", zarr_format=3), ["gzip", "plain", "contiguous"])
print("read")
"""


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_virtualizarr_reads_it(tmp_path, form):
    """It knows no groups in groups, and no chunks that are absent at the end."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("gzip", data=np.arange(3000).reshape(100, 30), chunks=(10, 7), compression="gzip", shuffle=True)
        file.create_dataset("plain", data=np.arange(30.0), chunks=(7,))
        file["contiguous"] = np.linspace(0, 1, 50)
    refs(tmp_path / "a.h5", *(["--parquet"] if form == "parquet" else []), "-o", tmp_path / "refs")
    run_client("virtualizarr", "h5py, virtualizarr" + (", fastparquet" if form == "parquet" else ""), VIRTUALIZARR,
               tmp_path / "a.h5", tmp_path / "refs", form)
