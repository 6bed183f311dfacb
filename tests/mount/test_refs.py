"""codecfs refs: zarr-python reads an HDF5 file through the references, and finds what h5py finds. fsspec and kerchunk's
readers are extras in the environment of clients."""
import base64
import json
import os
import pathlib
import subprocess

import h5py
import numpy as np
import pytest
import zarr

from conftest import CODECFS, DATA, mounted

FILES = ["filters_builtin", "layouts", "chunk_indexes_latest", "chunk_indexes_earliest", "chunk_indexes_v108", "fill_values",
         "c_user_block_and_ranks", "c_partial_chunks_unfiltered", "filter_masks", "scalars_null_and_empty",
         "types_numbers", "c_string_paddings", "groups"]


def refs(*words, code=0):
    done = subprocess.run([CODECFS, "refs", *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (words, done.stderr)
    return done.stdout if code == 0 else done.stderr


class Referenced(dict):
    """A store of Zarr with what the references name, read by Python."""

    def __init__(self, text):
        document = json.loads(text)
        assert document["version"] == 1
        for key, value in document["refs"].items():
            if isinstance(value, list):
                url, offset, size = value
                with open(url, "rb") as file:
                    file.seek(offset)
                    self[key] = file.read(size)
                assert len(self[key]) == size, key
            elif value.startswith("base64:"):
                self[key] = base64.b64decode(value[7:])
            else:
                self[key] = value.encode()


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
    told = subprocess.run([CODECFS, "refs", DATA / "hdf5/layouts.h5", "-o", out], capture_output=True, text=True, check=True)
    assert "chunks" in told.stdout and json.loads(out.read_text())["version"] == 1
    out.unlink()
    assert "directory" in refs(DATA / "zarr/filters", "-o", out, code=32) or not out.exists()
    refs(DATA / "hdf5/types_without_zarr_form.h5", "-o", out, code=32)
    assert os.listdir(tmp_path) == []


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
    subprocess.run([CODECFS, "recover", path], check=True, capture_output=True)
    group = zarr.open(Referenced(refs(path)), mode="r")
    assert (group["contiguous"][0] == 0x07070707).all() and (group["chunked"][3] == 0x07070707).all()


CLIENTS = pathlib.Path(os.environ.get("CODECFS_CLIENTS", pathlib.Path.home() / ".cache/codecfs-clients")) / "zarr3/bin/python"


def test_fsspec_reads_it(tmp_path):
    script = """
import sys, fsspec, h5py, numpy as np, zarr
store = zarr.storage.FsspecStore.from_url("reference://", storage_options={"fo": sys.argv[2], "asynchronous": True,
                                          "remote_protocol": "file", "remote_options": {"asynchronous": True}})
group = zarr.open_group(store, mode="r", zarr_format=2)
with h5py.File(sys.argv[1]) as file:
    for name in ("gzip", "shuffle_gzip", "doubles"):
        assert (group[name][...] == file[name][...]).all(), name
print("read")
"""
    if not CLIENTS.exists() or subprocess.run([CLIENTS, "-c", "import fsspec, h5py, zarr"], capture_output=True).returncode != 0:
        pytest.skip("no fsspec: scripts/client-test makes an environment with it")
    path = DATA / "hdf5/filters_builtin.h5"
    refs(path, "-o", tmp_path / "a.json")
    done = subprocess.run([CLIENTS, "-c", script, path, tmp_path / "a.json"], capture_output=True, text=True, timeout=120)
    assert "read" in done.stdout, done.stderr
