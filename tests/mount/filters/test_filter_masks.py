"""Which filters of a chunk are skipped in HDF5 files: the same as libhdf5 skips, which is asked with the same data."""
import json
import os
import sys

import h5py
import numpy as np
import pytest

from conftest import xattr
from filter_plugins import DEBIAN, compile_plugin
from running import codecfs, run

RNG = np.random.default_rng(39)
LENGTH = 1000  # elements of a chunk

# With optional filters, as h5py, netCDF and codecfs make them.
CHAINS = {
    "deflate": [(1, (1,))],
    "deflate stored": [(1, (0,))],
    "shuffle": [(2, ())],
    "shuffle deflate": [(2, ()), (1, (9,))],
    "fletcher32": [(3, ())],
    "szip nearest neighbour": [(4, (32, 8))],
    "szip entropy coding": [(4, (4, 16))],
    "shuffle szip": [(2, ()), (4, (4, 32))],
    "bzip2 szip": [(307, (9,)), (4, (32, 32))],
    "deflate szip": [(1, (5,)), (4, (4, 8))],
    "szip deflate": [(4, (32, 16)), (1, (1,))],
    "lzf": [(32000, ())],
    "shuffle lzf fletcher32": [(2, ()), (32000, ()), (3, ())],
    "fletcher32 lzf": [(3, ()), (32000, ())],
    "lz4": [(32004, ())],
    "lz4 in small blocks": [(32004, (8,))],
    "bzip2": [(307, (9,))],
    "blosc": [(32001, (0, 0, 0, 0, 5, 1, 0))],
    "blosc without compression": [(32001, (0, 0, 0, 0, 0, 1, 1))],
    "shuffle blosc": [(2, ()), (32001, (0, 0, 0, 0, 5, 0, 1))],
    "xor": [(32900, (0x5a,))],
    "xor deflate": [(32900, (0x5a,)), (1, (5,))],
    "deflate xor": [(1, (5,)), (32900, (0x5a,))],
    "header": [(32900, (0x5a, 11))],
    "header lzf": [(32900, (0x5a, 11)), (32000, ())],
    "cannot be applied": [(32903, (0x5a,))],
    "declines": [(32900, (0x5a, 12))],
    "declines lzf": [(32900, (0x5a, 12)), (32000, ())],
}


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    compile_plugin("mask_filter.c", folder / "libmask.so")
    compile_plugin("mask_filter.c", folder / "libcannot.so", "-DCANNOT_APPLY")
    return f"{folder}:{DEBIAN}"


def contents():
    """Chunks between those that compress well and those that do not."""
    chunks = [np.zeros(LENGTH), np.arange(LENGTH), RNG.integers(0, 2**31, LENGTH)]
    for part in (0.005, 0.01, 0.02, 0.05, 0.2, 0.5):
        noise = RNG.integers(0, 2**31, LENGTH)
        noise[LENGTH - int(part * LENGTH):] = 0
        chunks.append(noise)
    chunks += [RNG.integers(0, 2**bits, LENGTH) for bits in (4, 12, 20, 26, 29, 30)]
    chunks.append(np.full(LENGTH, 0xff))
    return [chunk.astype("<i4") for chunk in chunks]


HDF5 = """
import h5py, json, numpy, sys
order = json.load(sys.stdin)
chunks = numpy.load(order["chunks"])
def make(file, name, chain):
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((chunks.shape[1],))
    for number, parameters in chain:
        properties.set_filter(number, h5py.h5z.FLAG_OPTIONAL, tuple(parameters))
    space = h5py.h5s.create_simple((chunks.size,))
    return h5py.h5d.create(file.id, name.encode(), h5py.h5t.STD_I32LE, space, properties)
if order["task"] == "make":
    with h5py.File(order["by_libhdf5"], "w") as theirs, h5py.File(order["by_codecfs"], "w") as ours:
        for name, chain in order["chains"].items():
            make(theirs, name, chain).write(h5py.h5s.ALL, h5py.h5s.ALL, chunks.ravel())
            make(ours, name, chain)
def is_right(dataset, i):
    try:
        return bool((dataset[i * chunks.shape[1]:(i + 1) * chunks.shape[1]] == chunks[i]).all())
    except OSError:
        return False
result = {}
for side in "by_libhdf5", "by_codecfs":
    with h5py.File(order[side]) as f:
        result[side] = {name: [[d.id.get_chunk_info(i).filter_mask, is_right(d, i)] for i in range(d.id.get_num_chunks())]
                        for name, d in f.items()}
print(json.dumps(result))
"""


def hdf5(plugins, **order):
    """h5py reads the plugin path once, so it runs in a process of its own."""
    done = run(sys.executable, "-c", HDF5, input=json.dumps(order), env={"HDF5_PLUGIN_PATH": plugins})
    return json.loads(done.stdout)


def test_the_same_filters_are_skipped_as_by_libhdf5(mount, tmp_path, plugins):
    chunks = contents()
    np.save(tmp_path / "chunks.npy", np.array(chunks))
    files = {side: str(tmp_path / f"{side}.h5") for side in ("by_libhdf5", "by_codecfs")}
    hdf5(plugins, task="make", chunks=str(tmp_path / "chunks.npy"), chains=CHAINS, **files)
    mounted = mount(files["by_codecfs"], env={"HDF5_PLUGIN_PATH": plugins})
    for name in CHAINS:
        for i, chunk in enumerate(chunks):
            (mounted.path / name / str(i)).write_bytes(chunk.tobytes())
    mounted.close()
    found = hdf5(plugins, task="compare", chunks=str(tmp_path / "chunks.npy"), **files)
    seen = set()
    for name in CHAINS:
        ours, theirs = found["by_codecfs"][name], found["by_libhdf5"][name]
        assert len(ours) == len(theirs) == len(chunks) and all(right for _, right in ours), f"{name}: libhdf5 does not read it back"
        for i, ((mask, _), (wanted, right)) in enumerate(zip(ours, theirs)):
            # libhdf5's szip drops bytes at its end that are no whole pixel, as a compressor may leave. What it reads again
            # then is sometimes right by chance.
            if name in ("bzip2 szip", "deflate szip") and mask == 2:
                continue
            assert right and mask == wanted, (name, i)
            seen |= {name} if wanted else set()
    assert {"lzf", "blosc", "szip entropy coding", "declines"} <= seen
    assert not seen & {"xor", "header", "deflate", "bzip2", "lz4", "cannot be applied"}


def test_a_filter_that_is_set_is_applied(mount, tmp_path, plugins):
    """Also one that does not compress, and also before a compressor."""
    data = np.arange(4 * LENGTH, dtype="<i4")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name in "abc":
            f.create_dataset(name, data=data, chunks=(LENGTH,))
    mounted = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": plugins})
    for name, spec in {"a": "32900,90", "b": "32900,90,11|deflate,1", "c": "32900,90|lzf"}.items():
        os.setxattr(mounted.path / name, "user._Filter", spec.encode())
        assert xattr(mounted.path / name / "0", "_FilterMask") == "0"
        assert (mounted.path / name / "3").read_bytes() == data[3 * LENGTH:].tobytes()
    mounted.close()
    with h5py.File(tmp_path / "a.h5") as f:
        mask, stored = f["a"].id.read_direct_chunk((0,))
        assert mask == 0 and stored == bytes(byte ^ 90 for byte in data[:LENGTH].tobytes())


@pytest.mark.parametrize("spec", ["32001,0,0,0,0,5,1,1", "szip,32,8"])
def test_a_filter_that_skips_all_chunks_can_be_set(mount, tmp_path, spec):
    """Chunks are so small that it cannot make them smaller, whatever is in them."""
    data = RNG.integers(0, 2**31, 16).astype("<i4")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=data, chunks=(8,))
    mounted = mount(tmp_path / "a.h5")
    os.setxattr(mounted.path / "v", "user._Filter", spec.encode())
    assert xattr(mounted.path / "v/1", "_FilterMask") == "1"
    mounted.close()
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["v"].id.read_direct_chunk((8,)) == (1, data[8:].tobytes())


def test_a_plugin_that_crashes_is_not_skipped(mount, tmp_path, plugins):
    """It may be what protects the data: the write fails, and nothing is stored without it."""
    data = np.arange(LENGTH, dtype="<i4")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((LENGTH,))
        properties.set_filter(32900, h5py.h5z.FLAG_OPTIONAL, (90, 13))
        d = h5py.h5d.create(f.id, b"v", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((LENGTH,)), properties)
        d.write_direct_chunk((0,), bytes(byte ^ 90 for byte in data.tobytes()))
    mounted = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": plugins})
    with pytest.raises(OSError) as failure:
        with open(mounted.path / "v/0", "r+b") as f:
            f.write(bytes(4000))
            f.flush()
            os.fsync(f.fileno())
    assert failure.value.errno == 5
    assert "crashes (Aborted)" in xattr(mounted.path / "v/0", "_Error")
    mounted.kill_daemon()
    with h5py.File(tmp_path / "a.h5") as f:
        assert f["v"].id.read_direct_chunk((0,)) == (0, bytes(byte ^ 90 for byte in data.tobytes()))


def masked_file(path):
    """As codecfs 0.x left it: the filters of two chunks of four are masked, although they can be applied."""
    data = np.arange(4 * LENGTH, dtype="<i4")
    with h5py.File(path, "w") as f:
        d = f.create_dataset("g/v", data=data, chunks=(LENGTH,), compression="gzip", shuffle=True)
        for i in (1, 3):
            d.id.write_direct_chunk((i * LENGTH,), data[i * LENGTH:(i + 1) * LENGTH].tobytes(), filter_mask=3)
        f.create_dataset("whole", data=data, chunks=(LENGTH,), compression="gzip")
        noise = np.random.default_rng(1).integers(0, 2**31, LENGTH).astype("<i4")
        f.create_dataset("noise", data=noise, chunks=(LENGTH,), compression="lzf")
        large = f.create_dataset("large", data=np.zeros(200 * 16, "u1"), chunks=(16,), compression="gzip")
        large.id.write_direct_chunk((160,), bytes(16), filter_mask=1)
    return data


def masks(path, name):
    with h5py.File(path) as f:
        d = f[name].id
        return [d.get_chunk_info(i).filter_mask for i in range(d.get_num_chunks())]


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_info_and_verify_count_masked_chunks(tmp_path, version):
    path = tmp_path / "a.h5"
    masked_file(path)
    expected = {"/whole": 0, "/noise": 1, "/large": 1, "/g/v": 2}
    if version == "latest":
        with h5py.File(path, "r+", libver="latest") as f:  # has other chunk indexes
            for name, most in {"fixed": 4 * LENGTH, "single": LENGTH, "extensible": None}.items():
                data = np.zeros(LENGTH if name == "single" else 4 * LENGTH, "<i4")
                d = f.create_dataset(name, data=data, chunks=(LENGTH,), maxshape=(most,), compression="gzip")
                d.id.write_direct_chunk((0,), bytes(4 * LENGTH), filter_mask=1)
            d = f.create_dataset("tree", data=np.zeros((20, 20), "u1"), chunks=(10, 10), maxshape=(None, None),
                                 compression="gzip")
            d.id.write_direct_chunk((10, 10), bytes(100), filter_mask=1)
        expected |= {"/fixed": 1, "/single": 1, "/extensible": 1, "/tree": 1}
    told = {v["path"]: v["masked_chunks"] for v in json.loads(codecfs("info", "--json", path).stdout)["variables"]}
    assert told == expected
    total = sum(expected.values())
    assert json.loads(codecfs("verify", "--json", path).stdout)["masked_chunks"] == total
    assert f"stored without some of their filters: {total} chunks" in codecfs("verify", path).stdout
    text = codecfs("info", path).stdout
    assert f"lzf,4,261,{4 * LENGTH} (skipped in 1 chunk)" in text
    assert text.count("(skipped in ") == sum(count > 0 for count in expected.values())


def test_recode_encodes_masked_chunks_again(tmp_path):
    path = tmp_path / "a.h5"
    data = masked_file(path)
    before = masks(path, "noise")
    assert "would encode 2 chunks again" in codecfs("recode", "--dry-run", "-F", "g/v,shuffle,4|deflate,4", path).stdout
    assert masks(path, "g/v") == [0, 3, 0, 3]
    told = codecfs("recode", "-F", "g/v,shuffle|deflate,4", "-F", "noise,lzf", "-F", "whole,deflate,4", "-F", "large,deflate,4", path).stdout
    lines = {line.split(":")[0]: line for line in told.splitlines()}
    assert "has shuffle,4|deflate,4 already, encoded 2 chunks again" in lines["/g/v"]
    assert "encoded 1 chunk again that lacked some of them, of which 1 still do" in lines["/noise"]
    assert "again" not in lines["/whole"] and "encoded 1 chunk again" in lines["/large"]
    assert masks(path, "g/v") == [0, 0, 0, 0] and masks(path, "noise") == before and not any(masks(path, "large"))
    with h5py.File(path) as f:
        assert (f["g/v"][()] == data).all() and not f["large"][()].any()


@pytest.mark.parametrize("name", ["_Filter", "_Codecs"])
@pytest.mark.parametrize("options", [(), ("isolate=off",)])
def test_setting_the_same_filters_encodes_masked_chunks_again(mount, tmp_path, name, options):
    path = tmp_path / "a.h5"
    data = masked_file(path)
    mounted = mount(path, *options)
    variable = mounted.path / "g/v"
    assert [xattr(variable / str(i), "_FilterMask") for i in range(4)] == ["0", "3", "0", "3"]
    edited = data[LENGTH:2 * LENGTH] + 1
    (variable / "1").write_bytes(edited.tobytes())
    os.setxattr(variable, "user." + name, xattr(variable, name).encode())
    assert [xattr(variable / str(i), "_FilterMask") for i in range(4)] == ["0", "0", "0", "0"]
    data[LENGTH:2 * LENGTH] = edited
    assert b"".join((variable / str(i)).read_bytes() for i in range(4)) == data.tobytes()
    mounted.close()
    assert masks(path, "g/v") == [0, 0, 0, 0]
    with h5py.File(path) as f:
        assert (f["g/v"][()] == data).all()
