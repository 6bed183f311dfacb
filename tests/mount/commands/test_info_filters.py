"""codecfs info says what the parameters of filters mean: what those that made the files were told, in all forms of its output."""
import json
import os
import re

import h5py
import numpy as np
import pytest

from conftest import DATA
from filter_plugins import DEBIAN
from overview_pages import facts_of, page_of, variables_of
from running import codecfs, run
from venvs import python_of

# name -> how hdf5plugin makes it, and what is said of it.
MADE = {
    "blosc": ("Blosc('zstd', 7, Blosc.BITSHUFFLE)", {"compressor": "zstd", "level": 7, "shuffle": "bits", "element_bytes": 4, "chunk_bytes": 2000}),
    "blosc_plain": ("Blosc('lz4hc', 3, Blosc.NOSHUFFLE)", {"compressor": "lz4hc", "level": 3, "shuffle": "none"}),
    "blosc2": ("Blosc2('lz4', 4, Blosc2.SHUFFLE)", {"compressor": "lz4", "level": 4, "shuffle": "bytes", "chunk_shape": "20 × 25"}),
    "blosc2_delta": ("Blosc2('zlib', 2, Blosc2.DELTA)", {"compressor": "zlib", "level": 2, "shuffle": "delta"}),
    "bitshuffle": ("Bitshuffle(nelems=64, cname='zstd', clevel=4)", {"compressor": "zstd", "level": 4, "block_elements": 64, "element_bytes": 4}),
    "bitshuffle_lz4": ("Bitshuffle(cname='lz4')", {"compressor": "lz4", "block_elements": "automatic"}),
    "bitshuffle_none": ("Bitshuffle(cname='none')", {"compressor": "none"}),
    "zstd": ("Zstd(17)", {"level": 17}),
    "lz4": ("LZ4(4096)", {"block_bytes": 4096}),
    "bzip2": ("BZip2(7)", {"level": 7}),
    "zfp_rate": ("Zfp(rate=10.5)", {"mode": "fixed rate", "element_bits": 10.5}),
    "zfp_precision": ("Zfp(precision=12)", {"mode": "fixed precision", "bit_planes": 12}),
    "zfp_accuracy": ("Zfp(accuracy=0.25)", {"mode": "fixed accuracy", "tolerance": 0.25}),
    "zfp_reversible": ("Zfp(reversible=True)", {"mode": "reversible"}),
    "zfp_expert": ("Zfp(minbits=1, maxbits=1000, maxprec=20, minexp=-10)", {"mode": "expert", "minbits": 1, "maxbits": 1000, "maxprec": 20, "minexp": -10}),
    "sz3": ("SZ3(absolute=0.001)", {"error_bound": "absolute", "absolute": 0.001, "type": "float32", "dimensions": 2}),
    "sz3_relative": ("SZ3(relative=0.01)", {"error_bound": "relative", "relative": 0.01}),
}
MAKE = """
import sys, h5py, numpy
from hdf5plugin import *
x = numpy.linspace(0, 1, 2000, dtype="f4").reshape(40, 50)
with h5py.File(sys.argv[1], "w") as file:
    for name, filter in zip(sys.argv[2::2], sys.argv[3::2]):
        file.create_dataset(name, data=x, chunks=(20, 25), **eval(filter))
"""


def meanings(path):
    """Of the single filter of each variable."""
    found = {}
    for variable in json.loads(codecfs("info", "--json", path).stdout)["variables"]:
        [one] = variable["filters"]
        found[variable["path"].removeprefix("/")] = one.get("meaning")
        assert variable["filter"] == ",".join(map(str, [one["id"], *one["parameters"]])) or one["id"] == 4, variable
    return found


def test_what_hdf5plugin_was_told(tmp_path):
    path = tmp_path / "a.h5"
    run(python_of("hdf5plugin"), "-c", MAKE, path, *(word for name, (how, _) in MADE.items() for word in (name, how)))
    found = meanings(path)
    for name, (how, expected) in MADE.items():
        assert {key: found[name][key] for key in expected} == expected, (how, found[name])
    # The same where the filters are not installed.
    assert meanings(path) == {v["path"][1:]: v["filters"][0]["meaning"] for v in json.loads(
        codecfs("info", "--json", "-O", "plugins=off,builtin=off", path).stdout)["variables"]}


def test_what_h5py_was_told(tmp_path):
    path = tmp_path / "a.h5"
    x = np.linspace(-50, 50, 2000, dtype="f4").reshape(40, 50)
    with h5py.File(path, "w") as file:
        def add(name, data=x, **more):
            file.create_dataset(name, data=data, chunks=(20, 25), **more)
        add("deflate", compression="gzip", compression_opts=6)
        add("lzf", compression="lzf")
        add("shuffle", shuffle=True)
        add("digits", scaleoffset=3)
        add("bits", x.astype(">i4"), scaleoffset=12, fillvalue=-7)
        add("as_needed", x.astype("u2"), scaleoffset=0)
        add("szip", compression="szip", compression_opts=("nn", 16))
        add("szip_ec", x.astype(">f8"), compression="szip", compression_opts=("ec", 8))
        add("checksum", fletcher32=True)
    found = meanings(path)
    expected = {
        "deflate": {"level": 6}, "lzf": {"chunk_bytes": 2000}, "shuffle": {"element_bytes": 4},
        "digits": {"method": "decimal digits", "digits": 3, "type": "float", "element_bytes": 4, "chunk_elements": 500, "fill_value": 0},
        "bits": {"method": "integers", "bits": 12, "signed": "yes", "byte_order": "big", "fill_value": -7},
        "as_needed": {"bits": "as many as each chunk needs", "signed": "no", "element_bytes": 2},
        "szip": {"coding": "nearest neighbour", "block_pixels": 16, "pixel_bits": 32, "scanline_pixels": 25, "byte_order": "little"},
        "szip_ec": {"coding": "entropy", "block_pixels": 8, "pixel_bits": 64, "byte_order": "big"},
    }
    for name, members in expected.items():
        assert {key: found[name][key] for key in members} == members, found[name]
    assert found["checksum"] is None


@pytest.mark.parametrize("number, given, expected", [
    (32001, (0, 0, 0, 0, 9, 2, 4), {"compressor": "zlib", "level": 9, "shuffle": "bits", "element_bytes": 4, "chunk_bytes": 2000}),
    (32013, (2, 0, 12, 0, 0, 0), {"mode": "fixed precision", "bit_planes": 12}),
])
def test_what_the_plugins_of_debian_store(tmp_path, number, given, expected):
    program = ("import h5py, numpy, sys\n"
               "with h5py.File(sys.argv[1], 'w') as file: file.create_dataset('v', data=numpy.linspace(0, 1, 2000, dtype='f4').reshape(40, 50),"
               f" chunks=(20, 25), compression={number}, compression_opts={given})")
    run("/usr/bin/python3", "-c", program, tmp_path / "a.h5", environment={**os.environ, "HDF5_PLUGIN_PATH": DEBIAN})
    found = meanings(tmp_path / "a.h5")["v"]
    assert {key: found[key] for key in expected} == expected, found


def test_in_texts_and_pages(tmp_path):
    """Each filter in a line; those without parameters, and those of which nothing is known, have only their numbers."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("several", data=np.arange(500), chunks=(100,), shuffle=True, compression="gzip", compression_opts=5, fletcher32=True)
        file.create_dataset("plain", data=np.arange(500), chunks=(100,))
    text = codecfs("info", path, "several").stdout
    assert "\n  in words     shuffle: element bytes 8\n               deflate: level 5\n  flags " in text, text
    assert text == codecfs("info", "-v", path, "several").stdout.split("  values ")[0]
    assert "in words" not in codecfs("info", path, "plain").stdout
    facts = {name: facts_of(variable) for name, variable in variables_of(page_of(path)).items()}
    assert facts["/several"]["in words"] == "shuffle: element bytes 8; deflate: level 5" and "in words" not in facts["/plain"]
    unknown = DATA / "hdf5/filter_unknown.h5"
    for variable in json.loads(codecfs("info", "--json", unknown).stdout)["variables"]:
        for one in variable["filters"]:
            assert ("meaning" in one) == (one["id"] != 32999), one
    with h5py.File(path, "r+") as file:  # the table stays as short as it was
        file.create_dataset("blosc", (500,), "i4", chunks=(100,), compression="lzf")
    assert re.search(r"blosc .* lzf,4,261,400\n", codecfs("info", path).stdout)


def test_of_zarr(tmp_path):
    """The codecs of Zarr v2 that are filters of HDF5, too."""
    found = {v["path"]: v["filters"] for v in json.loads(codecfs("info", "--json", DATA / "zarr/compressors").stdout)["variables"]}
    named = [one for filters in found.values() for one in filters if one["name"] in ("blosc", "zstd", "deflate", "bzip2")]
    assert named and all("level" in one["meaning"] for one in named), found
    assert all("id" in one or "meaning" not in one for filters in found.values() for one in filters)
