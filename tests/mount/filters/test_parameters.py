"""Parameters that a filter does not have: refused at once, wherever a chain is set, with the valid range in the reason."""
import errno
import json
import os

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from conftest import is_mounted
from running import codecfs

ARRAY = np.arange(2000, dtype="<i4").reshape(40, 50)

# A spec that is wrong, and what the reason says.
SPECS = {
    "1": "needs one parameter, the level from 0 to 9", "1,10": "from 0 to 9, not 10", "deflate,-1": "from 0 to 9, not -1", "1,5,5": "at most 1 parameter",
    "2,4,4": "at most 1 parameter", "3,1": "takes no parameters",
    "4,32": "pixels per block, not 1 parameters", "4": "pixels per block", "4,32,7": "must be even", "4,32,34": "at most 32",
    "4,36,8": "4 (entropy coding) or 32", "4,0,8": "4 (entropy coding) or 32", "4,1000,8": "up to 255", "4,32,8,32,256,1": "at most 4",
    "5,7": "takes no parameters", "6": "two parameters", "6,1,2": "0 (floats) or 2 (integers)", "6,2,33": "from 0 to 32, not 33",
    "bzip2,77": "from 1 to 9, not 77", "307,0": "from 1 to 9, not 0", "307,9,1": "at most 1 parameter",
    "32000,1": "takes no parameters", "32000,4,261,200,1": "takes no parameters",
    "32001,0,0,0,0,10": "level must be from 0 to 9", "32001,0,0,0,0,5,3": "shuffle must be from 0 to 2",
    "32001,0,0,0,0,5,1,9": "compressor must be from 0 to 5", "32001,0,0,0,0,5,1,0,0": "at most 7",
    "32004,-1": "a block must be from 0", "32004,0,1": "at most 1 parameter",
    "32008,7": "multiple of 8, not 7", "32008,0,1": "0 (none), 2 (LZ4) or 3 (Zstandard), not 1", "32008,0,3,99": "to 22, not 99",
    "32008,0,3,4,0,2,0,0": "at most 6", "32015,99": "to 22, not 99", "zstd,3,1": "at most 1 parameter",
}
# JSON of codecs: the ones with an HDF5 filter, and those without.
CODECS = {
    '[{"id": "zlib", "level": 10}]': "level", '[{"id": "zstd", "level": 99}]': "to 22, not 99", '[{"id": "bz2", "level": 10}]': "level",
    '[{"id": "zstd", "level": 3, "checksum": 7}]': "checksum", '[{"id": "blosc", "clevel": 11}]': "clevel",
    '[{"id": "blosc", "cname": "nothing"}]': "nothing", '[{"id": "blosc", "shuffle": 3}]': "shuffle",
}
OWN_CODECS = {
    '[{"id": "gzip", "level": 12}]': "level", '[{"id": "lzma", "preset": 77}]': "preset", '[{"id": "lzma", "format": 9}]': "format",
    '[{"id": "lzma", "check": 3}]': "check", '[{"id": "lz4", "acceleration": 99999999999}]': "acceleration",
    '[{"id": "quantize", "digits": 1000, "dtype": "<f4"}]': "digits", '[{"id": "bitround", "keepbits": 99}]': "keepbits",
    '[{"id": "delta", "dtype": "nothing"}]': "dtype", '[{"id": "fixedscaleoffset", "offset": 0, "scale": 0, "dtype": "<i4"}]': "scale",
    '[{"id": "packbits"}, {"id": "astype", "encode_dtype": "x", "decode_dtype": "<i4"}]': "dtype",
}


@pytest.fixture(params=["hdf5", "zarr"])
def m(request, mount, tmp_path):
    if request.param == "hdf5":
        source = tmp_path / "a.h5"
        with h5py.File(source, "w") as file:
            file.create_dataset("v", data=ARRAY, chunks=(10, 50), compression="gzip")
            file.create_group("g")
    else:
        source = tmp_path / "a.zarr"
        group = zarr.open_group(str(source), "w")
        group.create_dataset("v", data=ARRAY, chunks=(10, 50), compressor=numcodecs.Zlib(4))
        group.create_group("g")
    made = mount(source)
    made.kind = request.param
    return made


def refused(action, directory, says, code=errno.EINVAL):
    with pytest.raises(OSError) as failure:
        action()
    assert failure.value.errno == code, failure.value
    reason = os.getxattr(directory, "user._Error").decode()
    assert says in reason, reason


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def test_specs(m):
    chain = (m.path / "v/_Filter").read_text()
    for spec, says in SPECS.items():
        for name in ("v", "g"):
            if spec == "6,2,33" and name == "g":
                continue  # the type is not known there
            refused(lambda: os.setxattr(m.path / name, "user._Filter", spec.encode()), m.path / name, says)
        refused(lambda: write(m.path / "v/_Filter", spec), m.path / "v", says)
    for name in ("v", "g"):
        refused(lambda: os.setxattr(m.path / name, "user._Filter", b"54321"), m.path / name, "no filter or plugin", errno.ENOENT)
    assert (m.path / "v/_Filter").read_text() == chain and m.stats()["variables_recoded"] == 0
    assert np.array_equal(np.load(m.path / ".codecfs/view/npy/v.npy"), ARRAY)


def test_codec_json(m):
    codecs = {**CODECS, **OWN_CODECS} if m.kind == "zarr" else CODECS
    encoded = m.path / ".codecfs/view/encoded"
    zarray = json.loads((encoded / "v/.zarray").read_text())
    for text, says in codecs.items():
        refused(lambda: os.setxattr(m.path / "v", "user._Codecs", text.encode()), m.path / "v", says)
        refused(lambda: write(m.path / "v/_Codecs", text), m.path / "v", says)
        *filters, compressor = json.loads(text)
        told = json.dumps({**zarray, "compressor": compressor, "filters": filters or None})
        refused(lambda: write(encoded / "v/.zarray", told), encoded / "v", says)
        (encoded / "new").mkdir()
        refused(lambda: write(encoded / "new/.zarray", told), encoded / "new", says)
        os.rmdir(encoded / "new")
    assert m.stats()["variables_recoded"] == 0
    assert np.array_equal(np.load(m.path / ".codecfs/view/npy/v.npy"), ARRAY)


GOOD = ["1,0", "1,9", "2|1,5", "3", "4,4,8", "4,32,8", "307,9", "307", "32000", "32001", "32001,0,0,0,0,5,2,1", "32004", "32004,0",
        "32004,4096", "32008", "32008,0,2", "32008,64,3,5", "32015", "32015,22", "32015,-5", "none"]


def test_good_specs(m):
    for spec in GOOD:
        if m.kind == "zarr" and spec.split(",")[0] in ("4", "32000", "32004", "32008"):
            continue  # of HDF5 alone
        os.setxattr(m.path / "v", "user._Filter", spec.encode())
        # What it has become is taken too, as cp -a brings it.
        os.setxattr(m.path / "v", "user._Filter", os.getxattr(m.path / "v", "user._Filter"))
        assert (m.path / "v/1.0").read_bytes() == ARRAY[10:20].tobytes(), spec


@pytest.mark.parametrize("rule, says", [(f"*,{spec}", says) for spec, says in SPECS.items() if spec != "6,2,33"] + [
    ("v,54321", "no filter or plugin provides filter 54321"), ("*,5", "cannot be set")])
def test_rules_of_the_mount(tmp_path, place, rule, says):
    """One line, before it goes to the background; nothing is mounted."""
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("v", data=ARRAY, chunks=(10, 50))
    place.mkdir()
    for words in (["-F", rule], ["-o", "filter=" + rule.replace(",", r"\,")]):
        done = codecfs(*words, source, place, code=1)
        assert says in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert f'"{rule}"' in done.stderr, done.stderr
        assert not is_mounted(place)


def mount_fails(place, source, *words, env=None):
    done = codecfs(*words, source, place, env=env, code=None)
    assert done.returncode in (1, 32) and done.stderr.count("\n") == 1 and not is_mounted(place), done.stderr
    return done.stderr


def test_missing_filters_name_what_to_install(tmp_path, place, mount):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=ARRAY, chunks=(10, 50))
    place.mkdir()
    (tmp_path / "none").mkdir()
    env = {"HDF5_PLUGIN_PATH": ""}  # else the default directory has what Debian's packages install
    only = f"plugin_path={tmp_path / 'none'}"
    for rule, says in {"v,32013,1": "Debian package hdf5-filter-plugin-zfp-serial", "*,32024": "pip install hdf5plugin"}.items():
        told = mount_fails(place, tmp_path / "a.h5", "-o", only, "-F", rule, env=env)
        assert says in told and f'-F "{rule}": no filter or plugin provides' in told and str(tmp_path / "none") in told, told
    m = mount(tmp_path / "a.h5", only, env=env)
    refused(lambda: os.setxattr(m.path / "v", "user._Filter", b"32013,1"), m.path / "v", "hdf5-filter-plugin-zfp-serial", errno.ENOENT)


def test_rules_are_checked_with_the_variables_that_they_name(tmp_path, place, mount):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("small", data=np.arange(2, dtype="i1"), chunks=(2,))
        file.create_dataset("text", data=np.array([b"a"] * 64), chunks=(64,))
        file.create_dataset("v", data=ARRAY, chunks=(10, 50))
    place.mkdir()
    told = mount_fails(place, tmp_path / "a.h5", "-F", "small&v,szip,4,32")
    assert '"small&v,szip,4,32": /small: ' in told and "szip" in told, told
    m = mount(tmp_path / "a.h5", rules=["*,szip,4,32"])  # for the variables that can have it
    assert os.getxattr(m.path / "v", "user._FilterOut") == b"4,4,32"


def test_rules_for_zarr_have_codecs(tmp_path, place):
    zarr.open_group(str(tmp_path / "a.zarr"), "w").create_dataset("v", data=ARRAY, chunks=(10, 50))
    place.mkdir()
    for rule in ("*,32004,0", "v,lzf"):
        assert "has no codec in Zarr" in mount_fails(place, tmp_path / "a.zarr", "-F", rule)


def test_stored_chains_are_read_whatever_they_have(mount, tmp_path):
    """A file may have been written by another version of a filter. Only what changes is judged."""
    path = tmp_path / "odd.h5"
    with h5py.File(path, "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((10, 50))
        plist.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (99, 7))
        space = h5py.h5s.create_simple(ARRAY.shape)
        dataset = h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I32LE, space, plist)
        for i in range(4):
            dataset.write_direct_chunk((10 * i, 0), bytes(numcodecs.Zstd(1).encode(ARRAY[10 * i:10 * i + 10])))
    m = mount(path)
    assert (m.path / "v/_Filter").read_text() == "32015,99,7\n"
    assert np.array_equal(np.load(m.path / ".codecfs/view/npy/v.npy"), ARRAY)
    (m.path / "v/1.0").write_bytes(ARRAY[:10].tobytes())
    os.setxattr(m.path / "v", "user._Filter", b"32015,99,7")  # what it has
    os.setxattr(m.path / "v", "user._Shuffle", b"true")
    assert os.getxattr(m.path / "v", "user._Filter") == b"2,4|32015,99,7"
    assert (m.path / "v/1.0").read_bytes() == ARRAY[:10].tobytes()
    with pytest.raises(OSError):
        os.setxattr(m.path / "v", "user._Filter", b"32015,98,7")
    store = tmp_path / "odd.zarr"
    zarr.open_group(str(store), "w").create_dataset("v", data=ARRAY, chunks=(10, 50), compressor=numcodecs.Zstd(3))
    zarray = json.loads((store / "v/.zarray").read_text())
    zarray["compressor"]["level"] = 99
    (store / "v/.zarray").write_text(json.dumps(zarray))
    m = mount(store)
    assert np.array_equal(np.load(m.path / ".codecfs/view/npy/v.npy"), ARRAY)
    os.setxattr(m.path / "v", "user._Shuffle", b"true")
    assert np.array_equal(np.load(m.path / ".codecfs/view/npy/v.npy"), ARRAY)
