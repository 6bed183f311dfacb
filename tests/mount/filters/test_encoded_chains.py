"""Every chain that an HDF5 file can have, in the encoded view: numcodecs decodes what .zarray tells to what the decoded
view holds."""
import itertools
import json
import os
import pickle
import sys

import numcodecs
import numpy as np
import pytest
import zarr
from running import run

VIEW = ".codecfs/view/encoded"

# ids and parameters as h5py is to write them
FILTERS = {
    "shuffle": (2, ()), "deflate": (1, (3,)), "fletcher32": (3, ()), "lzf": (32000, ()), "bzip2": (307, (2,)),
    "blosc": (32001, (0, 0, 0, 0, 5, 1, 1)), "lz4": (32004, (0,)), "zstd": (32015, (3,)),
}
ARRAYS = {
    "i1": np.arange(30, dtype="i1"),
    "i2": np.arange(30, dtype=">i2"),
    "f4": np.linspace(0, 1, 30, dtype="f4"),
    "f8": np.linspace(0, 1, 30, dtype="f8"),
    "text3": np.array([b"abc", b"de", b""] * 10, dtype="S3"),
    "compound": np.array([(i, i / 3, i % 5) for i in range(30)], dtype=[("a", "<i4"), ("b", "<f8"), ("c", "u1")]),
    "opaque5": np.array([bytes([i] * 5) for i in range(30)], dtype="V5"),
    "strings": np.array([f"text {i}" * (i % 3) for i in range(30)], dtype=object),
}

MAKE = """
import pickle, sys, h5py
path, filters, arrays, jobs = pickle.load(sys.stdin.buffer)
with h5py.File(path, "w", libver="latest") as file:
    for name, (array, chain) in jobs.items():
        array = arrays[array]
        kind = h5py.string_dtype() if array.dtype == object else array.dtype
        print(name, file=sys.stderr)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((7,))
        for word in chain:
            # lzf has no form for what it cannot compress; libhdf5 takes no mandatory filter for variable lengths.
            flag = h5py.h5z.FLAG_OPTIONAL if word == "lzf" or array.dtype == object else h5py.h5z.FLAG_MANDATORY
            number, parameters = filters[word]
            if word == "shuffle" and array.dtype == object:
                parameters = (16,)  # what H5Pset_shuffle comes to for them: the size of a reference
            properties.set_filter(number, flag, parameters)
        try:
            dataset = h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(kind, logical=True), h5py.h5s.create_simple((30,)), properties)
        except ValueError as error:  # what a filter does not take
            print(name, error, file=sys.stderr)
            continue
        h5py.Dataset(dataset)[...] = array
        print(name)
"""


class Fletcher32(numcodecs.abc.Codec):
    """Newer than Debian's numcodecs: the checksum is behind the data."""
    codec_id = "fletcher32"

    def encode(self, buf):
        raise NotImplementedError

    def decode(self, buf, out=None):
        return bytes(buf)[:-4]


@pytest.fixture(autouse=True)
def fletcher32():
    there = "fletcher32" in numcodecs.registry.codec_registry
    if not there:
        numcodecs.register_codec(Fletcher32)
    yield
    if not there:
        del numcodecs.registry.codec_registry["fletcher32"]


def make(path, jobs):
    """The names of those that libhdf5 has made."""
    done = run(sys.executable, "-c", MAKE, input=pickle.dumps((str(path), FILTERS, ARRAYS, jobs)),
               env={"HDF5_PLUGIN_PATH": os.environ["CODECFS_PLUGINS"]}, text=False)
    return done.stdout.decode().split()


def check(mount, name):
    """The names of the codecs that are told."""
    zarray = json.loads((mount.path / VIEW / name / ".zarray").read_text())
    told = (zarray["filters"] or []) + ([zarray["compressor"]] if zarray["compressor"] else [])
    codecs = [numcodecs.get_codec(dict(codec)) for codec in told if codec["id"] != "vlen-utf8"]
    for key in ("0", "4"):  # whole, and over the edge
        chunk = (mount.path / VIEW / name / key).read_bytes()
        for codec in reversed(codecs):
            chunk = np.asarray(memoryview(codec.decode(chunk))).tobytes()
        assert chunk == (mount.path / name / key).read_bytes(), (name, key, told)
    return [codec["id"] for codec in told]


def test_every_chain_decodes_with_numcodecs(mount, tmp_path):
    short = [chain for length in range(3) for chain in itertools.permutations(FILTERS, length)]
    kinds = itertools.cycle(ARRAYS)
    jobs = {f"{kind}-{'-'.join(chain)}": (kind, chain) for chain in short for kind in ARRAYS}
    jobs |= {f"{kind}-{'-'.join(chain)}": (kind, chain) for chain, kind in zip(itertools.permutations(FILTERS, 3), kinds)}
    made = make(tmp_path / "s.h5", jobs)
    assert len(made) == len(jobs) > 800
    m = mount(tmp_path / "s.h5", "ro")
    told = {name: check(m, name) for name in made}
    # What can be told is told.
    assert told["strings-shuffle-deflate"] == ["vlen-utf8", "zlib"] and told["f8-zstd-shuffle"] == ["zstd"]
    assert told["f8-shuffle-deflate"] == ["shuffle", "zlib"] and told["opaque5-shuffle-zstd"] == ["shuffle", "zstd"]
    assert told["f4-lzf"] == [] and told["compound-shuffle-lz4"] == ["shuffle", "lz4"]
    group = zarr.open_group(str(m.path / VIEW), "r")
    for name in ("strings-shuffle-deflate", "f8-zstd-shuffle", "text3-shuffle-deflate", "compound-shuffle-blosc"):
        assert np.array_equal(group[name][...], ARRAYS[name.split("-")[0]]), name


def test_chains_that_a_user_gives(mount, tmp_path):
    make(tmp_path / "s.h5", {kind: (kind, ()) for kind in ARRAYS})
    m = mount(tmp_path / "s.h5")
    for spec in ("shuffle|zlib,3", "zlib,3", "none"):
        for kind in ARRAYS:
            os.setxattr(m.path / kind, "user._Filter", spec.encode())
            check(m, kind)
            assert np.array_equal(zarr.open_group(str(m.path / VIEW), "r")[kind][...], ARRAYS[kind]), kind
    m.close()
    m = mount(tmp_path / "s.h5", "view=encoded", rules=["*,shuffle|zlib,3"])
    assert np.array_equal(zarr.open_group(str(m.path), "r")["strings"][...], ARRAYS["strings"])


def test_a_zarr_store_gets_no_chain_that_numcodecs_cannot_undo(mount, tmp_path):
    """There it would be the store itself that other programs cannot read."""
    group = zarr.open_group(str(tmp_path / "s.zarr"), "w")
    group.create_dataset("f8", data=ARRAYS["f8"], chunks=7, compressor=None)
    group.create_dataset("strings", data=ARRAYS["strings"], chunks=7, dtype=object, object_codec=numcodecs.VLenUTF8(), compressor=None)
    m = mount(tmp_path / "s.zarr")
    for name, codecs in (("f8", [{"id": "zstd", "level": 3}, {"id": "shuffle", "elementsize": 8}]),
                         ("strings", [{"id": "shuffle", "elementsize": 8}, {"id": "zlib", "level": 3}])):
        with pytest.raises(OSError, match="Invalid argument"):
            os.setxattr(m.path / name, "user._Codecs", json.dumps(codecs).encode())
        assert "whole elements" in os.getxattr(m.path / name, "user._Error").decode()
    os.setxattr(m.path / "f8", "user._Filter", b"shuffle|zlib,3")
    os.setxattr(m.path / "strings", "user._Filter", b"shuffle|zlib,3")
    m.close()
    group = zarr.open_group(str(tmp_path / "s.zarr"), "r")
    assert np.array_equal(group["f8"][...], ARRAYS["f8"]) and np.array_equal(group["strings"][...], ARRAYS["strings"])
