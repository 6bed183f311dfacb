"""The encoded view: chunks as they are stored, both ways. zarr-python, xarray and h5py say whether it is right, and
byte for byte comparison whether anything was decoded on the way."""
import errno
import json
import multiprocessing
import os
import re
import shutil
import sys
import threading
import time
import zlib

import h5py
import numcodecs
import numpy as np
import pytest
import xarray
import zarr

from conftest import DATA, xattr
from running import run
from venvs import python_of

OURS = os.environ["CODECFS_PLUGINS"]
VIEW = ".codecfs/view/encoded"
ARRAY = np.random.default_rng(3).integers(0, 500, (43, 100)).astype("<i4")
DOUBLES = np.random.default_rng(4).normal(size=(43, 100))
CHUNKS = (10, 50)
COUNT = 10

# Chains of HDF5 whose chunks are those of a Zarr codec: what h5py is asked for, and what .zarray tells.
SAME_BYTES = {
    "none": ({}, []),
    "deflate": ({"compression": "gzip", "compression_opts": 6}, [{"id": "zlib", "level": 6}]),
    "shuffle": ({"shuffle": True}, [{"id": "shuffle", "elementsize": 4}]),
    "shuffle_deflate": ({"shuffle": True, "compression": "gzip", "compression_opts": 1},
                        [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}]),
    "checked": ({"shuffle": True, "compression": "gzip", "fletcher32": True},
                [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 4}, {"id": "fletcher32"}]),
    "bzip2": ({"compression": 307, "compression_opts": (5,)}, [{"id": "bz2", "level": 5}]),
    "zstd": ({"shuffle": True, "compression": 32015, "compression_opts": (3,)},
             [{"id": "shuffle", "elementsize": 4}, {"id": "zstd", "level": 3}]),
    "blosc": ({"compression": 32001, "compression_opts": (0, 0, 0, 0, 5, 1, 1)},
              [{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}]),
}
# Those that Zarr has in another form, or not at all.
OTHER_BYTES = {
    "lz4": ({"compression": 32004, "compression_opts": (0,)}, [{"id": "lz4", "acceleration": 1}]),
    "shuffle_lz4": ({"shuffle": True, "compression": 32004, "compression_opts": (0,)},
                    [{"id": "shuffle", "elementsize": 4}, {"id": "lz4", "acceleration": 1}]),
    "lzf": ({"compression": "lzf"}, []),
    "szip": ({"compression": "szip"}, []),
    "scaleoffset": ({"scaleoffset": 0}, []),
}


def run_h5py(script, *arguments):
    """h5py with our plugins, in a process of its own, as libhdf5 reads HDF5_PLUGIN_PATH once."""
    return run(sys.executable, "-c", "import sys, h5py, numpy as np\n" + script, *arguments, env={"HDF5_PLUGIN_PATH": OURS}).stdout


def make(path, arguments, array=ARRAY, **more):
    np.save(path.with_suffix(".npy"), array)
    run_h5py("a = np.load(sys.argv[2])\nf = h5py.File(sys.argv[1], 'a')\n"
             f"f.create_dataset('v', data=a, chunks={CHUNKS}, **{arguments!r}, **{more!r})", path, path.with_suffix(".npy"))
    return path


def raw_chunks(path, name="v"):
    """name of a chunk -> (its bytes as stored, mask), by libhdf5."""
    with h5py.File(path) as f:
        chunks = {}
        for i in range(f[name].id.get_num_chunks()):
            info = f[name].id.get_chunk_info(i)
            key = ".".join(str(o // c) for o, c in zip(info.chunk_offset, f[name].chunks))
            mask, data = f[name].id.read_direct_chunk(info.chunk_offset)
            chunks[key] = (bytes(data), mask)
        return chunks


def codecs_of(zarray):
    metadata = json.loads(zarray.read_text())
    return (metadata["filters"] or []) + ([metadata["compressor"]] if metadata["compressor"] else [])


def copy_tree(source, target):
    run("cp", "-r", source, target)


def readable(codecs):
    return all(codec["id"] in numcodecs.registry.codec_registry for codec in codecs)


@pytest.mark.parametrize("name", SAME_BYTES)
def test_chunks_pass_untouched(mount, tmp_path, name):
    arguments, codecs = SAME_BYTES[name]
    source = make(tmp_path / "s.h5", arguments)
    m = mount(source, "ro")
    copy_tree(m.path / VIEW, tmp_path / "out.zarr")
    stats = m.stats()
    assert stats["chunks_decoded"] == 0 and stats["chunks_converted"] == 0 and stats["chunks_passed"] == COUNT
    m.close()
    stored = raw_chunks(source)
    assert len(stored) == COUNT
    for key, (data, mask) in stored.items():
        assert mask == 0 and (tmp_path / "out.zarr/v" / key).read_bytes() == data
    assert codecs_of(tmp_path / "out.zarr/v/.zarray") == codecs
    if readable(codecs):
        assert np.array_equal(zarr.open(tmp_path / "out.zarr", "r")["v"][...], ARRAY)
        with xarray.open_zarr(tmp_path / "out.zarr") as dataset:
            assert np.array_equal(dataset["v"].values, ARRAY)


@pytest.mark.parametrize("name", OTHER_BYTES)
def test_chunks_are_converted(mount, tmp_path, name):
    arguments, codecs = OTHER_BYTES[name]
    m = mount(make(tmp_path / "s.h5", arguments), "ro")
    copy_tree(m.path / VIEW, tmp_path / "out.zarr")
    assert m.stats()["chunks_converted"] == COUNT and m.stats()["chunks_passed"] == 0
    assert codecs_of(tmp_path / "out.zarr/v/.zarray") == codecs
    assert np.array_equal(zarr.open(tmp_path / "out.zarr", "r")["v"][...], ARRAY)


def test_netcdf_order_that_numcodecs_cannot_read(mount, tmp_path):
    # netCDF puts fletcher32 first; shuffling 8-byte elements and 4 bytes more is nothing that numcodecs can undo.
    source = tmp_path / "s.nc"
    import netCDF4
    with netCDF4.Dataset(source, "w") as nc:
        nc.createDimension("y", 43)
        nc.createDimension("x", 100)
        nc.createVariable("v", "f8", ("y", "x"), zlib=True, shuffle=True, fletcher32=True, chunksizes=CHUNKS)[:] = DOUBLES
    m = mount(source, "ro")
    assert [c["id"] for c in codecs_of(m.path / VIEW / "v/.zarray")] == ["shuffle", "fletcher32", "zlib"]
    copy_tree(m.path / VIEW, tmp_path / "out.zarr")
    # zarr-python of Debian has no fletcher32: take the checksum off by hand.
    for key in ("0.0", "4.1"):
        plain = zlib.decompress((tmp_path / "out.zarr/v" / key).read_bytes())[:-4]
        y, x = map(int, key.split("."))
        chunk = numcodecs.Shuffle(8).decode(plain)
        part = DOUBLES[y * 10:y * 10 + 10, x * 50:x * 50 + 50]
        assert np.array_equal(np.frombuffer(chunk, "f8").reshape(CHUNKS)[:part.shape[0]], part)


def test_masked_chunks_are_encoded(mount, tmp_path):
    source = tmp_path / "s.h5"
    with h5py.File(source, "w") as f:
        d = f.create_dataset("v", data=ARRAY, chunks=CHUNKS, compression="gzip")
        d.id.write_direct_chunk((10, 50), ARRAY[10:20, 50:].tobytes(), filter_mask=1)
    m = mount(source, "ro")
    copy_tree(m.path / VIEW, tmp_path / "out.zarr")
    assert m.stats()["chunks_converted"] == 1 and m.stats()["chunks_passed"] == COUNT - 1
    assert np.array_equal(zarr.open(tmp_path / "out.zarr", "r")["v"][...], ARRAY)


def test_all_sorts_of_variables(mount, tmp_path):
    source = tmp_path / "s.h5"
    with h5py.File(source, "w") as f:
        f["contiguous"] = ARRAY
        f["scalar"] = 2.5
        f.create_dataset("compact", data=np.arange(5, dtype="i2"))
        f.create_dataset("text", data=["a", "bcd", ""] * 9, chunks=(4,), compression="gzip", dtype=h5py.string_dtype())
        f.create_dataset("g/holes", (40, 100), "f4", chunks=CHUNKS, fillvalue=7, compression="gzip")[:10, :50] = 3
        f.create_dataset("g/pair", data=np.array([(1, 2.5)] * 9, [("a", "<i2"), ("b", ">f8")]), chunks=(4,),
                         compression="gzip", shuffle=True)
        f["link"] = h5py.SoftLink("/contiguous")
        expected = {name: f[name][...] for name in ("contiguous", "scalar", "compact", "g/holes", "g/pair")}
    m = mount(source, "ro")
    copy_tree(m.path / VIEW, tmp_path / "out.zarr")
    out = zarr.open(tmp_path / "out.zarr", "r")
    consolidated = zarr.open_consolidated(zarr.DirectoryStore(tmp_path / "out.zarr"))
    for name, array in expected.items():
        assert np.array_equal(out[name][...], array), name
        assert consolidated[name].compressor == out[name].compressor
    assert list(out["text"][...]) == ["a", "bcd", ""] * 9 and out["text"].compressor.codec_id == "zlib"
    assert os.readlink(tmp_path / "out.zarr/link") == "contiguous"
    assert not (tmp_path / "out.zarr/g/pair/_Filter").exists() and (m.path / VIEW / "g/pair/_Filter").exists()
    # Holes: in a variable without fill value in .zarray all chunks are there, all of one making.
    assert (tmp_path / "out.zarr/g/holes/3.1").read_bytes() == (tmp_path / "out.zarr/g/holes/2.0").read_bytes()


def all_sources():
    return sorted(str(p.relative_to(DATA)) for kind in ("hdf5", "zarr") for p in (DATA / kind).iterdir()
                  if not p.name.startswith("damaged"))


@pytest.mark.parametrize("name", all_sources())
def test_both_views_tell_the_same(mount, name):
    """Every array of every source, read by zarr-python in both views."""
    try:
        m = mount(DATA / name, "ro")
    except RuntimeError:
        pytest.skip("a source that is refused")
    plain, encoded = zarr.DirectoryStore(m.path), zarr.DirectoryStore(m.path / VIEW)
    compared = 0
    for file in sorted(m.path.rglob(".zarray")):
        path = str(file.parent.relative_to(m.path)).removeprefix(".")
        try:
            if any(parent.is_symlink() for parent in file.parents) or not readable(
                    codecs_of(m.path / VIEW / path / ".zarray")):
                continue
            expected = zarr.open_array(plain, "r", path=path)
            expected_values = expected[...]
        except Exception:  # test_hdf5.py and test_zarr.py look into these
            continue
        values = zarr.open_array(encoded, "r", path=path)[...]
        assert values.dtype == expected_values.dtype and values.shape == expected_values.shape
        if values.dtype == object:
            assert all(np.array_equal(a, b) for a, b in zip(values.flat, expected_values.flat)), path
        else:
            assert values.tobytes() == expected_values.tobytes(), path
        compared += 1
    if compared == 0:
        pytest.skip("nothing in it that zarr-python reads")


# --- mount rules: the view as nccopy


def test_rule_decides_what_comes_out(mount, tmp_path):
    source = tmp_path / "s.h5"
    with h5py.File(source, "w") as f:
        f.create_dataset("v", data=ARRAY, chunks=CHUNKS, compression="gzip")
        f.create_dataset("same", data=ARRAY, chunks=CHUNKS, compression="gzip", compression_opts=3)
        f.create_dataset("g/kept", data=ARRAY, chunks=CHUNKS, compression="gzip")
        f["scalar"] = 1.5
    before = source.read_bytes()
    m = mount(source, "view=encoded", rules=["v,shuffle|zstd,3", "same,1,3"])
    copy_tree(m.path, tmp_path / "out.zarr")
    assert m.stats()["chunks_converted"] == COUNT + 1  # of v, and the scalar, which is no chunk in HDF5
    assert os.readlink(m.path / ".codecfs/view/encoded") == "../.."
    assert codecs_of(m.path / ".codecfs/view/decoded/v/.zarray") == []
    m.close()
    assert source.read_bytes() == before
    out = zarr.open(tmp_path / "out.zarr", "r")
    assert codecs_of(tmp_path / "out.zarr/v/.zarray") == [{"id": "shuffle", "elementsize": 4}, {"id": "zstd", "level": 3}]
    assert codecs_of(tmp_path / "out.zarr/same/.zarray") == [{"id": "zlib", "level": 3}]
    assert json.loads((tmp_path / "out.zarr/.zmetadata").read_text())["metadata"]["v/.zarray"]["compressor"]["id"] == "zstd"
    for name in ("v", "same", "g/kept"):
        assert np.array_equal(out[name][...], ARRAY)
    assert out["scalar"][()] == 1.5


@pytest.mark.parametrize("rules, codecs", [
    (["*,none"], []),
    (["*,307,5"], ["bz2"]),
    (["none"], []),
    (["none", "v,307,5"], ["bz2"]),
    (["*,32004,0"], ["lz4"]),
    (["*,3|2|1,4"], ["fletcher32", "shuffle", "zlib"]),
    (["*,lzf"], []),
    (["other,307,5"], ["zlib"]),
])
def test_truth_table(mount, tmp_path, rules, codecs):
    source = make(tmp_path / "s.h5", {"compression": "gzip"})
    m = mount(source, "ro", "view=encoded", rules=rules)
    assert [codec["id"] for codec in codecs_of(m.path / "v/.zarray")] == codecs
    if readable(codecs_of(m.path / "v/.zarray")):
        assert np.array_equal(zarr.open(m.path, "r")["v"][...], ARRAY)


# --- writing


def test_zarr_into_empty_hdf5(mount, tmp_path):
    store = tmp_path / "in.zarr"
    root = zarr.open(store, "w")
    chains = {"none": (None, None), "zlib": (numcodecs.Zlib(5), None), "zstd": (numcodecs.Zstd(3), [numcodecs.Shuffle(4)]),
              "blosc": (numcodecs.Blosc("lz4", 5, 1), None), "bz2": (numcodecs.BZ2(5), None), "lz4": (numcodecs.LZ4(), None)}
    for name, (compressor, filters) in chains.items():
        a = root.create_dataset(f"g/{name}", shape=ARRAY.shape, dtype="<i4", chunks=CHUNKS, compressor=compressor,
                                filters=filters, fill_value=-1)
        a[:20] = ARRAY[:20]
        a.attrs["units"] = name
    root.create_dataset("words", data=np.array(["x", "yz"] * 5, object), object_codec=numcodecs.VLenUTF8(), chunks=(3,))
    target = tmp_path / "new.h5"
    m = mount(target, "create=hdf5,view=decoded")
    run("cp", "-r", f"{store}/.", m.path / VIEW)
    for name in chains:  # another view of the same
        assert np.array_equal(zarr.open(m.path, "r")[f"g/{name}"][...][:20], ARRAY[:20])
    # All but lz4's, which HDF5 frames in another way, and the strings, which it keeps in heaps.
    run("sync", "-f", m.path)
    m.close()
    expected = ARRAY.copy()
    expected[20:] = -1
    np.save(tmp_path / "expected.npy", expected)
    run_h5py("f = h5py.File(sys.argv[1]); e = np.load(sys.argv[2])\n"
             "for n in f['g']: assert np.array_equal(f['g'][n][...], e), n\n"
             "assert [w.decode() for w in f['words'][...]] == ['x', 'yz'] * 5\n"
             "assert f['g/blosc'].attrs['units'] == b'blosc'", target, tmp_path / "expected.npy")
    for name in chains:
        stored = raw_chunks(target, f"g/{name}")
        for key in ("0.0", "0.1", "1.0", "1.1"):
            if name != "lz4":
                assert stored[key] == ((store / "g" / name / key).read_bytes(), 0), (name, key)


def test_chunks_are_stored_as_given(mount, tmp_path):
    source = make(tmp_path / "s.h5", {"compression": "gzip", "compression_opts": 9})
    m = mount(source)
    new = ARRAY[:10, :50] + 1
    # A stream that no encoder of ours makes.
    compressor = zlib.compressobj(1, zlib.DEFLATED, 9)
    given = compressor.compress(new.tobytes()) + compressor.flush()
    (m.path / VIEW / "v/0.0").write_bytes(given)
    assert (m.path / VIEW / "v/0.0").read_bytes() == given
    assert (m.path / "v/0.0").read_bytes() == new.tobytes()
    os.rename(write(m.path / VIEW / "v/temporary", given), m.path / VIEW / "v/1.0")
    fd = os.open(m.path / VIEW / "v/1.0", os.O_RDWR)
    os.fsync(fd)
    os.close(fd)
    run("sync", "-f", m.path)
    m.close()
    stored = raw_chunks(source)
    assert stored["0.0"] == (given, 0) and stored["1.0"] == (given, 0)


def write(path, data):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("data, why", [(b"no stream", "damaged"), (zlib.compress(b"short"), "bytes"), (b"", ""),
                                       (zlib.compress(bytes(1 << 22)), "")])
def test_what_does_not_decode_is_refused(mount, tmp_path, data, why):
    source = make(tmp_path / "s.h5", {"compression": "gzip"})
    m = mount(source)
    for target in ("v/0.0", "v/4.1"):
        before = (m.path / VIEW / target).read_bytes()
        if data:
            with pytest.raises(OSError) as refused:
                (m.path / VIEW / target).write_bytes(data)
            assert refused.value.errno in (errno.EINVAL, errno.EFBIG)
            assert why in xattr(m.path / VIEW / target, "_Error")
        with pytest.raises(OSError) as refused:
            os.rename(write(m.path / VIEW / "v/temporary", data), m.path / VIEW / target)
        assert refused.value.errno == errno.EINVAL
        os.unlink(m.path / VIEW / "v/temporary")
        assert (m.path / VIEW / target).read_bytes() == before
    m.close()
    with h5py.File(source) as f:
        assert np.array_equal(f["v"][...], ARRAY)


@pytest.mark.parametrize("create", ["hdf5", "zarr"])
def test_zarr_python_and_xarray_write_compressed(mount, tmp_path, create):
    target = tmp_path / f"new.{create}"
    m = mount(target, f"create={create}")
    root = zarr.open_group(zarr.DirectoryStore(m.path / VIEW), "a")
    a = root.create_dataset("z/v", shape=(43, 100), chunks=CHUNKS, dtype="<i4", compressor=numcodecs.Blosc("zstd", 5, 1))
    a[...] = ARRAY
    a[3:5, 7] = 1
    a.attrs["units"] = "m"
    data = xarray.Dataset({"t": (("y", "x"), DOUBLES)}, {"x": np.arange(100.0), "y": np.arange(43)})
    data.to_zarr(zarr.DirectoryStore(m.path / VIEW), group="x", mode="a", consolidated=False,
                 encoding={"t": {"chunks": CHUNKS, "compressor": numcodecs.Zlib(4), "filters": [numcodecs.Shuffle(8)]},
                           "x": {"compressor": None}, "y": {"compressor": numcodecs.Zstd(3)}})
    assert m.stats()["chunks_encoded"] == 0
    m.close()
    expected = ARRAY.copy()
    expected[3:5, 7] = 1
    if create == "zarr":
        out = zarr.open(target, "r")
        assert np.array_equal(out["z/v"][...], expected) and out["z/v"].compressor == numcodecs.Blosc("zstd", 5, 1)
        with xarray.open_zarr(target, group="x", consolidated=False) as again:
            assert again.equals(data)
        return
    np.save(tmp_path / "expected.npy", expected)
    print(run_h5py("f = h5py.File(sys.argv[1]); v = f['z/v']\n"
                   "assert np.array_equal(v[...], np.load(sys.argv[2]))\n"
                   "assert list(v._filters) == ['32001'] and v.attrs['units'] == b'm'\n"
                   "assert f['x/t'].compression == 'gzip' and f['x/t'].shuffle", target, tmp_path / "expected.npy"))
    run(sys.executable, "-c",
        "import sys, xarray, numpy as np\n"
        "d = xarray.open_dataset(sys.argv[1], group='x', engine='netcdf4')\n"
        "np.save(sys.argv[2], d['t'].values); assert d['t'].dims == ('y', 'x')\n"
        "assert list(d['x'].values) == list(range(100))",
        target, tmp_path / "t.npy", env={"HDF5_PLUGIN_PATH": OURS})
    assert np.array_equal(np.load(tmp_path / "t.npy"), DOUBLES)


@pytest.mark.parametrize("codecs, reason", [
    ({"compressor": {"id": "lzma"}}, "no filter for the codec"),
    ({"compressor": {"id": "nobody"}}, "no filter or plugin provides"),
    ({"compressor": {"id": "zlib", "level": 1}, "filters": [{"id": "shuffle", "elementsize": 2}]},
     "by the size of an element"),
    ({"compressor": {"id": "zlib", "level": 1}, "filters": [{"id": "delta", "dtype": "<i4"}]}, "no filter for the codec"),
])
def test_codecs_that_hdf5_does_not_have(mount, tmp_path, codecs, reason):
    m = mount(tmp_path / "new.h5", "create=hdf5,view=decoded")
    os.mkdir(m.path / VIEW / "v")
    zarray = {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i4", "fill_value": 0, "order": "C",
              "compressor": None, "filters": None, **codecs}
    with pytest.raises(OSError) as refused:
        (m.path / VIEW / "v/.zarray").write_text(json.dumps(zarray))
    assert refused.value.errno in (errno.EINVAL, errno.ENOENT)
    assert reason in xattr(m.path / VIEW / "v", "_Error")


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_compressor_in_zarray_is_changed(mount, tmp_path, kind):
    if kind == "hdf5":
        source = make(tmp_path / "s.h5", {"compression": "gzip"})
    else:
        source = tmp_path / "s.zarr"
        zarr.open(source, "w").create_dataset("v", data=ARRAY, chunks=CHUNKS, compressor=numcodecs.Zlib(4))
    m = mount(source)
    run("sed", "-i", 's/"id": "zlib"/"id": "bz2"/', m.path / VIEW / "v/.zarray")
    assert xattr(m.path / "v", "_Filter") == "307,4"
    assert (m.path / VIEW / "v/0.0").read_bytes()[:2] == b"BZ"
    assert np.array_equal(zarr.open(m.path / VIEW, "r")["v"][...], ARRAY)
    m.close()
    if kind == "zarr":
        assert zarr.open(source, "r")["v"].compressor == numcodecs.BZ2(4)


# --- one state, two views


@pytest.mark.parametrize("by", ["rename", "write", "npy"])
def test_a_chunk_that_another_view_made_is_found_at_once(mount, tmp_path, by):
    """The kernel remembers for a second that it was absent."""
    zarr.open(str(tmp_path / "s.zarr"), "w").create_dataset("v", shape=(1000,), chunks=(1,), dtype="i4", compressor=None, fill_value=7)
    m = mount(tmp_path / "s.zarr")
    encoded = m.path / VIEW / "v"
    with open(m.path / ".codecfs/view/raw/v", "r+b", buffering=0) as array:
        for i in range(1000):
            chunk = m.path / "v" / str(i)
            assert not chunk.exists()
            if by == "npy":
                assert os.pwrite(array.fileno(), b"\1\2\3\4", 4 * i) == 4
            elif by == "write":
                (encoded / str(i)).write_bytes(b"\1\2\3\4")
            else:
                (encoded / ".new.tmp").write_bytes(b"\1\2\3\4")
                os.replace(encoded / ".new.tmp", encoded / str(i))
            assert chunk.read_bytes() == b"\1\2\3\4", i


@pytest.mark.parametrize("root", ["decoded", "encoded"])
@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_views_follow_each_other(mount, tmp_path, kind, root):
    if kind == "hdf5":
        source = make(tmp_path / "s.h5", {"compression": "gzip"})
    else:
        source = tmp_path / "s.zarr"
        zarr.open(source, "w").create_dataset("v", data=ARRAY, chunks=CHUNKS, compressor=numcodecs.Zlib(4), fill_value=3)
    m = mount(source, f"view={root}")
    plain = m.path / (".codecfs/view/decoded" if root == "encoded" else "")
    encoded = m.path / (VIEW if root == "decoded" else "")
    assert zlib.decompress((encoded / "v/0.0").read_bytes()) == (plain / "v/0.0").read_bytes() == chunk(ARRAY, 0, 0)
    for step in range(5):
        new = ARRAY[:10, :50] * (step + 2)
        (plain / "v/0.0").write_bytes(new.tobytes())
        packed = (encoded / "v/0.0").read_bytes()
        assert zlib.decompress(packed) == new.tobytes() and os.stat(encoded / "v/0.0").st_size == len(packed)
        newer = new + 1
        (encoded / "v/0.0").write_bytes(zlib.compress(newer.tobytes(), step))
        assert (plain / "v/0.0").read_bytes() == newer.tobytes()
        with open(plain / "v/0.0", "r+b") as file:  # a part of it
            file.seek(4)
            file.write(b"\0\0\0\7")
        assert zlib.decompress((encoded / "v/0.0").read_bytes())[:8] == newer.tobytes()[:4] + b"\0\0\0\7"
    # Names come and go.
    os.unlink(plain / "v/1.1")
    if kind == "zarr":
        assert not (encoded / "v/1.1").exists() and "1.1" not in os.listdir(encoded / "v")
    (encoded / "v/1.1").write_bytes(zlib.compress(chunk(ARRAY, 1, 1)))
    assert (plain / "v/1.1").read_bytes() == chunk(ARRAY, 1, 1)
    assert not (plain / "g").exists() and not (encoded / "g").exists()
    os.mkdir(plain / "g")
    assert (encoded / "g/.zgroup").exists()
    with pytest.raises(OSError) as refused:
        os.rename(encoded / "g", plain / "h")
    assert refused.value.errno == errno.EXDEV
    os.rename(encoded / "g", encoded / "h")
    assert (plain / "h").is_dir() and not (plain / "g").exists()
    os.rmdir(plain / "h")
    assert not (encoded / "h").exists()
    (plain / "v/.zattrs").write_text('{"units": "K"}')
    assert json.loads((encoded / "v/.zattrs").read_text())["units"] == "K"
    os.setxattr(encoded / "v", "user._Filter", b"none")
    assert codecs_of(encoded / "v/.zarray") == []
    assert (encoded / "v/1.0").read_bytes() == (plain / "v/1.0").read_bytes()
    shutil.rmtree(encoded / "v")
    assert not (plain / "v").exists()


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_no_reader_sees_old_sizes(mount, tmp_path, kind):
    """The kernel keeps the size of each encoded chunk: a program that has given the variable another chain must not read the new bytes
    up to the old size, however many they are."""
    numbers = np.arange(4000 * 500, dtype="<i4").reshape(40_000, 50)
    if kind == "hdf5":
        source = make(tmp_path / "s.h5", {"compression": "gzip"}, numbers)
    else:
        source = tmp_path / "s.zarr"
        zarr.open(source, "w").create_dataset("v", data=numbers, chunks=CHUNKS, compressor=numcodecs.Zlib(4))
    m = mount(source)
    encoded = m.path / VIEW / "v"
    assert all(os.stat(encoded / f"{i}.0").st_size < 2000 for i in range(4000))
    os.setxattr(m.path / "v", "user._Filter", b"none")
    for i in reversed(range(4000)):
        assert (encoded / f"{i}.0").read_bytes() == numbers[10 * i:10 * i + 10].tobytes(), i


@pytest.mark.parametrize("how", ["looked up", "listed"])
def test_sizes_that_change_while_they_are_asked_for(mount, tmp_path, how):
    """A chunk is written while the kernel asks for its encoded file for the first time: the answer may be the old size or the new
    one, but afterwards it is the new one."""
    count, size = 600, 2000
    source = make(tmp_path / "s.h5", {"compression": "gzip"}, np.zeros((count * 10, 50), "<i4"))
    m = mount(source)
    noise = np.random.default_rng(1).bytes(size)
    encoded = m.path / VIEW / "v"
    context = multiprocessing.get_context("fork")
    started = context.Barrier(2, timeout=60)

    def write():
        for i in range(count):
            fd = os.open(m.path / f"v/{i}.0", os.O_WRONLY)
            if how == "looked up" or i == 0:
                started.wait()
            os.pwrite(fd, noise, 0)
            os.close(fd)

    writer = context.Process(target=write)
    writer.start()
    if how == "listed":
        started.wait()
        for _ in os.scandir(encoded):
            pass
    else:
        for i in range(count):
            started.wait()
            os.stat(encoded / f"{i}.0")
    writer.join()
    sizes = [os.stat(encoded / f"{i}.0").st_size for i in range(count)]
    assert sizes == [len((encoded / f"{i}.0").read_bytes()) for i in range(count)]
    assert min(sizes) > size / 2, sum(length < size / 2 for length in sizes)


def chunk(array, y, x):
    padded = np.zeros(CHUNKS, array.dtype)
    part = array[y * 10:y * 10 + 10, x * 50:x * 50 + 50]
    padded[:part.shape[0]] = part
    return padded.tobytes()


def test_bad_element_size_is_shown_right(mount, tmp_path):
    store = tmp_path / "s.zarr"
    root = zarr.open(store, "w")
    root.create_dataset("v", data=ARRAY, chunks=CHUNKS, filters=[numcodecs.Shuffle(4)], compressor=numcodecs.Zlib(1))
    text = (store / "v/.zarray").read_text()
    (store / "v/.zarray").write_text(re.sub(r'"elementsize": 4', '"elementsize": 0', text))
    m = mount(store, "ro")
    assert codecs_of(m.path / VIEW / "v/.zarray")[0] == {"elementsize": 4, "id": "shuffle"}
    copy_tree(m.path / VIEW, tmp_path / "out.zarr")
    assert m.stats()["chunks_decoded"] == 0
    assert np.array_equal(zarr.open(tmp_path / "out.zarr", "r")["v"][...], ARRAY)


def test_unknown_codec_passes(mount, tmp_path):
    store = tmp_path / "s.zarr"
    zarr.open(store, "w").create_dataset("v", data=ARRAY, chunks=CHUNKS, compressor=numcodecs.Zlib(1))
    text = (store / "v/.zarray").read_text()
    (store / "v/.zarray").write_text(text.replace('"zlib"', '"pcodec"'))
    m = mount(store, "ro")
    assert (m.path / VIEW / "v/0.0").read_bytes() == (store / "v/0.0").read_bytes()
    with pytest.raises(OSError):
        (m.path / "v/0.0").read_bytes()


def test_whole_file_converts_to_what_a_netcdf_with_filters_reads(mount, tmp_path):
    python = python_of("netcdf")
    source = tmp_path / "s.h5"
    for name in ("deflate", "shuffle_deflate", "zstd", "bzip2", "checked"):
        make(tmp_path / "one.h5", SAME_BYTES[name][0])
        run("h5copy", "-i", tmp_path / "one.h5", "-o", source, "-s", "v", "-d", name, env={"HDF5_PLUGIN_PATH": OURS})
        (tmp_path / "one.h5").unlink()
    m = mount(source, "ro")
    copy_tree(m.path / VIEW, tmp_path / "out.zarr")
    assert m.stats()["chunks_decoded"] == 0
    np.save(tmp_path / "expected.npy", ARRAY)
    done = run(python, "-c", "import sys, netCDF4, numpy as np\n"
               "d = netCDF4.Dataset(f'file://{sys.argv[1]}#mode=zarr,file'); e = np.load(sys.argv[2])\n"
               "for n in d.variables: assert np.array_equal(d[n][:], e), n\nprint(len(d.variables))",
               tmp_path / "out.zarr", tmp_path / "expected.npy",
               env={"HDF5_PLUGIN_PATH": OURS})
    assert done.stdout.strip() == "5", done.stderr


@pytest.mark.parametrize("kind", ["encoded", "zattrs", "text"])
def test_an_open_file_does_not_bring_back_old_content(mount, tmp_path, kind):
    """A reader from before a change reads on; afterwards every reader gets the new state (the kernel keeps pages of
    what anybody reads)."""
    source = tmp_path / "s.h5"
    with h5py.File(source, "w") as f:
        f.create_dataset("v", data=np.arange(64, dtype="<i4"), chunks=(16,))  # without filters: no length changes
        f.create_dataset("t", data=["abc"] * 4, dtype=h5py.string_dtype(), chunks=(2,))
        f["v"].attrs["units"] = "AAAA"
    m = mount(source)
    new = np.full(16, 1111, "<i4").tobytes()
    words = (m.path / "t/0").read_bytes().replace(b"abc", b"xyz")
    file, change, expected = {
        "encoded": (m.path / VIEW / "v/3", lambda: (m.path / "v/3").write_bytes(new), new),
        "zattrs": (m.path / "v/.zattrs", lambda: os.setxattr(m.path / "v", "user.units", b"BBBB"), b"BBBB"),
        "text": (m.path / "t/0", lambda: (m.path / "t/0").write_bytes(words), words),
    }[kind]
    with open(file, "rb", buffering=0) as held:
        os.pread(held.fileno(), 1 << 20, 0)
        change()
        assert expected in os.pread(held.fileno(), 1 << 20, 0)
        assert expected in file.read_bytes()
    assert expected in file.read_bytes()


@pytest.mark.parametrize("chain", [{"compression": 32004, "compression_opts": (0,)}, {"compression": "gzip"}, {}], ids=str)
def test_readers_of_encoded_chunks_while_they_are_written(mount, tmp_path, chain):
    source = make(tmp_path / "s.h5", {**chain, "fillvalue": 0})
    m = mount(source, "commit=1")
    codecs = codecs_of(m.path / VIEW / "v/.zarray")
    decode = numcodecs.get_codec(codecs[0]).decode if codecs else bytes
    stop = threading.Event()

    def look():
        while not stop.is_set():
            for key in ("0.0", "1.1", "4.0"):
                decode((m.path / VIEW / "v" / key).read_bytes())

    failures = []

    def keep_looking():
        try:
            look()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    readers = [threading.Thread(target=keep_looking) for _ in range(3)]
    for reader in readers:
        reader.start()
    deadline = time.monotonic() + 4
    value = 0
    while time.monotonic() < deadline:
        value += 1
        for key in ("0.0", "1.1", "4.0"):
            (m.path / "v" / key).write_bytes(np.full(CHUNKS, value, "<i4").tobytes())
            if value % 7 == 0:
                run("sync", m.path / "v" / key)
    stop.set()
    for reader in readers:
        reader.join()
    for key in ("0.0", "1.1", "4.0"):
        assert bytes(decode((m.path / VIEW / "v" / key).read_bytes())) == np.full(CHUNKS, value, "<i4").tobytes()
    # Between the two a reader may see the length of one state and the bytes of another; nothing else may go wrong.
    assert len(failures) <= 3


def test_refused_chunk_under_a_rule_changes_nothing(mount, tmp_path):
    source = make(tmp_path / "s.h5", {"compression": "gzip"})
    m = mount(source, rules=["*,shuffle|zstd,3"])
    with pytest.raises(OSError) as refused:
        (m.path / VIEW / "v/0.0").write_bytes(b"garbage")
    assert refused.value.errno == errno.EINVAL
    assert xattr(m.path / "v", "_Filter") == "1,4"
    given = numcodecs.Zstd(1).encode(numcodecs.Shuffle(4).encode(chunk(ARRAY, 0, 1)))
    (m.path / VIEW / "v/0.1").write_bytes(given)
    assert xattr(m.path / "v", "_Filter") == "2,4|32015,3"
    assert (m.path / VIEW / "v/0.1").read_bytes() == bytes(given)
    m.close()
    assert raw_chunks_with_plugins(source)["0.1"] == bytes(given)


@pytest.mark.parametrize("how", ["_Filter", "_Codecs"])
def test_an_explicit_chain_overrides_the_rule(mount, tmp_path, how):
    m = mount(make(tmp_path / "s.h5", {"compression": "gzip"}), rules=["*,32015,3"])
    ruled = (m.path / VIEW / "v/0.0").read_bytes()
    assert numcodecs.Zstd().decode(ruled) == chunk(ARRAY, 0, 0)
    os.setxattr(m.path / "v", "user." + how, os.getxattr(m.path / "v", "user." + how))
    assert [codec["id"] for codec in codecs_of(m.path / VIEW / "v/.zarray")] == ["zlib"]
    for _ in range(100):  # a moment later: no call waits until all chunks are invalidated
        if (m.path / VIEW / "v/0.0").read_bytes() != ruled:
            break
        time.sleep(0.05)
    assert np.array_equal(zarr.open(m.path / VIEW, "r")["v"][...], ARRAY)


def raw_chunks_with_plugins(path):
    script = ("f = h5py.File(sys.argv[1]); d = f['v']\n"
              "for i in range(d.id.get_num_chunks()):\n"
              "    o = d.id.get_chunk_info(i).chunk_offset\n"
              "    print('.'.join(str(a // b) for a, b in zip(o, d.chunks)), d.id.read_direct_chunk(o)[1].hex())")
    return {key: bytes.fromhex(data) for key, data in (line.split() for line in run_h5py(script, path).splitlines())}


def test_cut_chunks_have_other_masks(mount, tmp_path):
    """HDF5 stores what does not become smaller without the filter; cutting the array makes libhdf5 store it anew."""
    source = tmp_path / "s.h5"
    noise = np.random.default_rng(1).integers(0, 1 << 31, (32, 32)).astype("<i4")
    with h5py.File(source, "w") as f:
        f.create_dataset("v", data=noise, chunks=(8, 8), maxshape=(None, None), compression="gzip", fillvalue=0)
    m = mount(source)
    for y in range(4):
        for x in range(4):
            (m.path / f"v/{y}.{x}").write_bytes(noise[8 * y:8 * y + 8, 8 * x:8 * x + 8].tobytes())
    run("sync", "-f", m.path)
    zarray = json.loads((m.path / "v/.zarray").read_text())
    (m.path / "v/.zarray").write_text(json.dumps({**zarray, "shape": [25, 27]}))
    for view in ("", VIEW):
        assert np.array_equal(zarr.open(m.path / view, "r")["v"][...], noise[:25, :27])
    m.close()
    with h5py.File(source) as f:
        assert np.array_equal(f["v"][...], noise[:25, :27])


def test_the_size_is_that_of_the_content_after_a_change_of_shape(mount, tmp_path):
    """Of chunks that are encoded anew, as the form of what is inside of another stream cannot be seen."""
    data = np.arange(40000, dtype="i4").reshape(100, 400) // 7
    with h5py.File(tmp_path / "a.h5", "w") as f:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((10, 400))
        properties.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, (2, 2, 4, 16000, 9, 1, 1))
        properties.set_deflate(9)
        space = h5py.h5s.create_simple((100, 400), (h5py.h5s.UNLIMITED, 400))
        dataset = h5py.h5d.create(f.id, b"v", h5py.h5t.STD_I32LE, space, properties)
        blosc = numcodecs.Blosc("blosclz", clevel=1, shuffle=0)  # not what the parameters of the filter give
        for i in range(10):
            dataset.write_direct_chunk((10 * i, 0), zlib.compress(blosc.encode(data[10 * i:10 * i + 10].copy()), 1))
    at = mount(tmp_path / "a.h5").path
    encoded = at / ".codecfs/view/encoded/v"
    for rows in (100, 73, 76):
        array = json.loads((at / "v/.zarray").read_text())
        array["shape"] = [rows, 400]
        (at / "v/.zarray").write_text(json.dumps(array))
        for i in range(8):
            size = (encoded / f"{i}.0").stat().st_size
            content = (encoded / f"{i}.0").read_bytes()
            assert len(content) == size
            whole = np.frombuffer(numcodecs.Blosc().decode(zlib.decompress(content)), "<i4").reshape(10, 400)
            inside = min(10, rows - 10 * i) if i < 7 else 3
            assert (whole[:inside] == data[10 * i:10 * i + inside]).all()
