"""Changing the filter chain of a variable through a mount: by xattr, by file, by mount rule. Afterwards h5py, zarr-python,
ncdump and h5dump read the same as before, but for the filters."""
import errno
import io
import json
import mmap
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib

import h5py
import numcodecs
import numpy as np
import pytest
import zarr

import zips
from conftest import DATA, mounted, without_pointers, xattr
from running import codecfs, run

OURS = os.environ["CODECFS_PLUGINS"]
SLOW = 8 if os.environ.get("CODECFS_SANITIZE") else 1

ARRAY = np.random.default_rng(3).integers(0, 500, (40, 100)).astype("<i4")
CHUNKS = (10, 50)

# Spec as set; what h5py is to find: ids in their order.
HDF5_CHAINS = {
    "none": ("none", []),
    "shuffle_deflate": ("2|1,5", [2, 1]),
    "szip": ("4,32,8", [4]),
    "bzip2": ("307,5", [307]),
    "zstd": ("32015,3", [32015]),
    "blosc": ("32001,0,0,0,0,5,1,1", [32001]),
    "lz4": ("32004,0", [32004]),
    "checked_deflate": ("3|1,4", [3, 1]),
}
# numcodecs of Debian 12 knows neither szip nor fletcher32: these are read through a mount alone, and after the next change.
ZARR_CHAINS = {
    "none": [],
    "shuffle_deflate": [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 5}],
    "bzip2": [{"id": "bz2", "level": 5}],
    "zstd": [{"id": "zstd", "level": 3}],
    "blosc": [{"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1, "blocksize": 0}],
    "lz4": [{"id": "lz4", "acceleration": 1}],
    "checked_deflate": [{"id": "fletcher32"}, {"id": "zlib", "level": 4}],
    "szip": [{"id": "szip", "mask": 141, "pixels-per-block": 8, "bits-per-pixel": 32, "pixels-per-scanline": 50}],
}


def with_plugins(**more):
    return {**os.environ, "HDF5_PLUGIN_PATH": OURS, **more}


def hdf5_filters(path, name):
    """Ids and parameters of a dataset's chain."""
    with h5py.File(path, "r") as f:
        plist = f[name].id.get_create_plist()
        return [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]


def all_hdf5_values(path, names):
    """The arrays by their names, read by one process of h5py that has our plugins."""
    program = (f"import h5py, io, numpy, sys\nout = io.BytesIO()\nwith h5py.File({str(path)!r}, 'r') as f:\n"
               f"    for name in {list(names)!r}: numpy.save(out, f[name][()])\nsys.stdout.buffer.write(out.getvalue())")
    done = run(sys.executable, "-c", program, env=with_plugins(), text=False)
    stream = io.BytesIO(done.stdout)
    return {name: np.load(stream) for name in names}


def hdf5_values(path, name):
    return all_hdf5_values(path, [name])[name]


def h5dump(path, *options):
    return without_pointers(run("h5dump", *options, path.name, cwd=path.parent, env=with_plugins()).stdout)


def refused(code, action):
    with pytest.raises(OSError) as failure:
        action()
    assert failure.value.errno == code, failure.value


def set_filter(path, spec):
    os.setxattr(path, "user._Filter", spec.encode())


@pytest.fixture
def v(tmp_path):
    path = tmp_path / "v.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=ARRAY, chunks=CHUNKS, compression="gzip", shuffle=True)
    return path


@pytest.mark.parametrize("first", HDF5_CHAINS)
def test_matrix_hdf5(tmp_path, first):
    """From each chain to each other, in files of the oldest and the newest format, with absent chunks and uneven edges."""
    path = tmp_path / "m.h5"
    for libver in ("earliest", "latest"):
        with h5py.File(path, "w", libver=libver) as f:
            for name in HDF5_CHAINS:
                d = f.create_dataset(name, shape=(35, 90), dtype="<i4", chunks=CHUNKS, maxshape=(None, 200), fillvalue=-3)
                d[:20] = ARRAY[:20, :90]
                d.attrs["units"] = "K"
        expected = hdf5_values(path, "none")
        spec = HDF5_CHAINS[first][0]
        with mounted(path, tmp_path / "mnt1") as m:
            for name in HDF5_CHAINS:
                set_filter(m.path / name, spec)
                assert sorted(n for n in os.listdir(m.path / name) if n[0].isdigit()) == (
                    [f"{i}.{j}" for i in range(4) for j in range(2)])
        before = h5dump(path, "-H")
        for name, values in all_hdf5_values(path, HDF5_CHAINS).items():
            assert hdf5_filters(path, name) == HDF5_CHAINS[first][1], (libver, name)
            assert np.array_equal(values, expected), (libver, name)
        with mounted(path, tmp_path / "mnt2") as m:
            for name, (spec, ids) in HDF5_CHAINS.items():
                set_filter(m.path / name, spec)
                assert [int(stage.split(",")[0]) for stage in xattr(m.path / name, "_Filter").split("|") if stage != "none"] == ids
                chunk = np.frombuffer((m.path / name / "1.1").read_bytes(), "<i4").reshape(CHUNKS)
                assert np.array_equal(chunk[:, :40], expected[10:20, 50:90])
        found = all_hdf5_values(path, HDF5_CHAINS)
        for name, (spec, ids) in HDF5_CHAINS.items():
            assert hdf5_filters(path, name) == ids, (libver, name)
            assert np.array_equal(found[name], expected), (libver, name)
            with h5py.File(path, "r") as f:
                assert f[name].maxshape == (None, 200) and f[name].fillvalue == -3 and f[name].chunks == CHUNKS
                assert f[name].id.get_num_chunks() == 4 and f[name].attrs["units"] == "K"
        assert h5dump(path, "-H") == before  # -H tells no filters: nothing else may differ


@pytest.mark.parametrize("first, kind", [*((first, "zarr") for first in ZARR_CHAINS), ("none", "zip"), ("checked_deflate", "zip")])
def test_matrix_zarr(tmp_path, first, kind):
    path = tmp_path / "m.zarr"
    group = zarr.open_group(str(path), "w")
    for name in ZARR_CHAINS:
        d = group.create_dataset(name, shape=(35, 90), dtype="<i4", chunks=CHUNKS, fill_value=-3, compressor=None)
        d[:20] = ARRAY[:20, :90]
        d.attrs["units"] = "K"
    expected = group["none"][:]

    def set_codecs(directory, codecs):
        os.setxattr(directory, "user._Codecs", json.dumps(codecs).encode())

    source = zips.pack(path, tmp_path / "m.zip") if kind == "zip" else path

    def check(chains):
        if kind == "zip":
            zips.check(source)
            shutil.rmtree(path)
            shutil.unpack_archive(source, path)
        for name, chain in chains.items():
            told = json.loads((path / name / ".zarray").read_text())
            stored = [codec["id"] for codec in (told["filters"] or []) + [told["compressor"]] if codec]
            assert stored == [codec["id"] for codec in chain], name
            files = {n for n in os.listdir(path / name) if n[0].isdigit()}
            assert files == {"0.0", "0.1", "1.0", "1.1"}, name
            if not {"szip", "fletcher32"} & set(stored):
                again = zarr.open_group(str(path), "r")[name]
                assert np.array_equal(again[:], expected) and dict(again.attrs) == {"units": "K"}, name
        assert sorted(os.listdir(path)) == sorted([".zgroup", *ZARR_CHAINS])

    with mounted(source, tmp_path / "mnt1") as m:
        for name in ZARR_CHAINS:
            set_codecs(m.path / name, ZARR_CHAINS[first])
    check({name: ZARR_CHAINS[first] for name in ZARR_CHAINS})
    with mounted(source, tmp_path / "mnt2") as m:
        for name, chain in ZARR_CHAINS.items():
            set_codecs(m.path / name, chain)
            chunk = np.frombuffer((m.path / name / "1.1").read_bytes(), "<i4").reshape(CHUNKS)
            assert np.array_equal(chunk[:, :40], expected[10:20, 50:90])
    check(ZARR_CHAINS)
    with mounted(source, tmp_path / "mnt3") as m:
        for name in ("szip", "checked_deflate"):
            os.setxattr(m.path / name, "user._Codecs", b"none")
    check({**{n: c for n, c in ZARR_CHAINS.items() if n not in ("szip", "checked_deflate")}, "szip": [], "checked_deflate": []})


def test_a_root_array(mount, tmp_path):
    path = tmp_path / "one.zarr"
    zarr.save_array(str(path), ARRAY, chunks=CHUNKS, compressor=numcodecs.Zlib(1))
    m = mount(path)
    os.setxattr(m.path, "user._Filter", b"32015,5")
    assert (m.path / "0.0").read_bytes() == ARRAY[:10, :50].tobytes()
    (m.path / "0.0").write_bytes(bytes(2000))
    m.close()
    again = zarr.open_array(str(path), "r")
    assert again.compressor.codec_id == "zstd" and not again[:10, :50].any() and np.array_equal(again[10:], ARRAY[10:])


WAYS = {
    "xattr": lambda d: set_filter(d, "32015,3"),
    "xattr of names": lambda d: set_filter(d, " zstd , 3\n"),
    "codecs": lambda d: os.setxattr(d, "user._Codecs", b'[{"id": "zstd", "level": 3}]'),
    "file": lambda d: (d / "_Filter").write_text("32015,3\n"),
    "codecs file": lambda d: (d / "_Codecs").write_text('[{"id": "zstd", "level": 3}]'),
    "shell": lambda d: run("sh", "-c", "echo 32015,3 > _Filter", cwd=d),
    "in parts": lambda d: run("sh", "-c", "(printf 32015; printf ,3) > _Filter", cwd=d),
    "renamed": lambda d: run("sh", "-c", "echo 32015,3 > new && mv new _Filter", cwd=d),
    "sed": lambda d: run("sed", "-i", "s/.*/32015,3/", "_Filter", cwd=d),
    "tee": lambda d: run("tee", d / "_Filter", input="32015,3"),
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_set_the_chain(mount, v, way):
    m = mount(v)
    assert (m.path / "v/_Filter").read_text() == "2,4|1,4\n"
    before = json.loads((m.path / ".zmetadata").read_text())
    WAYS[way](m.path / "v")
    assert (m.path / "v/_Filter").read_text() == "32015,3\n" and xattr(m.path / "v", "_Filter") == "32015,3"
    assert json.loads((m.path / "v/_Codecs").read_text()) == [{"id": "zstd", "level": 3}]
    assert json.loads((m.path / ".zmetadata").read_text()) == before
    assert m.stats()["variables_recoded"] == 1
    m.close()
    assert hdf5_filters(v, "v") == [32015] and np.array_equal(hdf5_values(v, "v"), ARRAY)


def test_special_attributes_edit_the_chain(mount, v):
    m = mount(v)
    d = m.path / "v"
    os.setxattr(d, "user._DeflateLevel", b"9")
    assert xattr(d, "_Filter") == "2,4|1,9"
    os.setxattr(d, "user._Shuffle", b"false")
    assert xattr(d, "_Filter") == "1,9"
    os.setxattr(d, "user._Fletcher32", b"true")
    assert xattr(d, "_Filter") == "3|1,9"
    os.setxattr(d, "user._Shuffle", b"true")
    assert xattr(d, "_Filter") == "3|2,4|1,9"
    os.removexattr(d, "user._DeflateLevel")
    os.removexattr(d, "user._Fletcher32")
    assert xattr(d, "_Filter") == "2,4"
    for name, value in (("_DeflateLevel", "10"), ("_Shuffle", "maybe")):
        refused(errno.EINVAL, lambda: os.setxattr(d, "user." + name, value.encode()))
    for name in ("_Storage", "_ChunkSizes", "_Endianness", "_FilterOut", "_MaxShape"):
        refused(errno.EPERM, lambda: os.setxattr(d, "user." + name, b"1"))
    refused(errno.EPERM, lambda: os.removexattr(d, "user._Filter"))
    m.close()
    assert hdf5_filters(v, "v") == [2] and np.array_equal(hdf5_values(v, "v"), ARRAY)


def test_nothing_to_do(mount, v):
    """The chain that is there, written again: not a byte of the file changes."""
    content = v.read_bytes()
    m = mount(v)
    set_filter(m.path / "v", "2,4|1,4")
    (m.path / "v/_Filter").write_text((m.path / "v/_Filter").read_text())
    (m.path / "v/_Codecs").write_text((m.path / "v/_Codecs").read_text())
    with open(m.path / "v/_Filter", "w"):
        pass  # cut, and nothing written: nothing is meant
    assert (m.path / "v/_Filter").read_text() == "2,4|1,4\n"
    assert m.stats()["variables_recoded"] == 0
    m.close()
    assert v.read_bytes() == content


BAD = {
    "307,3.5": (errno.EINVAL, "character 6"),
    "": (errno.EINVAL, "none"),
    "  \n": (errno.EINVAL, "none"),
    "nonsense": (errno.EINVAL, "character"),
    "54321": (errno.ENOENT, "54321"),
    "1,77": (errno.EINVAL, "from 0 to 9"),
    "6,2,0": (errno.EOPNOTSUPP, "scale"),
}


@pytest.mark.parametrize("spec", BAD)
def test_bad_specs(mount, v, spec):
    content = v.read_bytes()
    m = mount(v)
    code, reason = BAD[spec]
    refused(code, lambda: set_filter(m.path / "v", spec))
    assert reason in xattr(m.path / "v", "_Error") and reason in m.messages()
    if spec:
        def write():
            with open(m.path / "v/_Filter", "w") as f:
                f.write(spec)
        refused(code, write)
        assert reason in xattr(m.path / "v/_Filter", "_Error")
    assert (m.path / "v/_Filter").read_text() == "2,4|1,4\n"
    assert (m.path / "v/1.1").read_bytes() == ARRAY[10:20, 50:].tobytes()
    m.close()
    assert v.read_bytes() == content


def test_impossible_chains_are_refused(mount, tmp_path):
    """Chains that the type or the source cannot have, and variables that cannot have a chain."""
    path = tmp_path / "a.h5"
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as f:
        f["x"] = np.arange(10)
    with h5py.File(path, "w") as f:
        f.create_dataset("fixed", data=np.array([b"abc", b"de"], dtype="S5"), chunks=(1,))
        f.create_dataset("scalar", data=1.5)
        layout = h5py.VirtualLayout(shape=(10,), dtype="i8")
        layout[:] = h5py.VirtualSource(str(other), "x", shape=(10,))
        f.create_virtual_dataset("virtual", layout)
        f.create_dataset("v", data=ARRAY, chunks=CHUNKS, compression="gzip")
    content = path.read_bytes()
    m = mount(path)
    refused(errno.EINVAL, lambda: set_filter(m.path / "fixed", "4,32,8"))
    refused(errno.EINVAL, lambda: set_filter(m.path / "scalar", "1,5"))
    refused(errno.EOPNOTSUPP, lambda: set_filter(m.path / "virtual", "1,5"))
    refused(errno.EINVAL, lambda: os.setxattr(m.path / "v", "user._Codecs", b'[{"id": "delta", "dtype": "<i4"}]'))
    assert "delta" in xattr(m.path / "v", "_Error")
    refused(errno.EINVAL, lambda: os.setxattr(m.path / "v", "user._Codecs", b'{"id": "zstd"}'))
    refused(errno.EINVAL, lambda: os.setxattr(m.path / "v", "user._Codecs", b'[{"id": "zstd"'))
    refused(errno.ENOENT, lambda: os.setxattr(m.path / "v", "user._Codecs", b'[{"id": "who"}]'))
    m.close()
    assert path.read_bytes() == content
    m = mount(path, "ro")
    refused(errno.EROFS, lambda: set_filter(m.path / "v", "none"))


@pytest.fixture
def rich(tmp_path):
    """A file with everything that must survive: scales, shared dimensions, links, references of every kind, many attributes."""
    path = tmp_path / "rich.h5"
    h5py.get_config().track_order = True
    try:
        with h5py.File(path, "w") as f:
            for name, length in (("time", 6), ("lat", 40), ("lon", 100)):
                f.create_dataset(name, data=np.arange(length, dtype="<f8"), chunks=(length,), maxshape=(None,))
                f[name].make_scale(name)
            g = f.create_group("g/h")
            for where, name in ((f, "a"), (g, "b"), (f, "c")):
                d = where.create_dataset(name, data=np.arange(6 * 4000, dtype="<f4").reshape(6, 40, 100), chunks=(1, 20, 50),
                                         maxshape=(None, 40, 100), compression="gzip", fillvalue=-1)
                for i, scale in enumerate(("time", "lat", "lon")):
                    d.dims[i].attach_scale(f[scale])
                for i in range(20):
                    d.attrs[f"attribute {i}"] = np.arange(i + 1)
                d.attrs["text"] = "täxt"
            f["hard"] = f["a"]
            g["hard2"] = f["a"]
            f["soft"] = h5py.SoftLink("/g/h/b")
            f.attrs["to a"] = f["a"].ref
            f["a"].attrs["to myself"] = f["a"].ref
            f.create_dataset("objects", data=np.array([f["a"].ref, f["g/h/b"].ref], dtype=h5py.ref_dtype))
            regions = f.create_dataset("regions", (2,), dtype=h5py.regionref_dtype)
            regions[0] = f["a"].regionref[0, 1:3, 5:9]
            regions[1] = f["g/h/b"].regionref[1, :, 3]
            f.create_dataset("strings", data=np.array(["eins", "", "drei"] * 10, dtype=object), dtype=h5py.string_dtype(),
                             chunks=(7,))
            f.create_dataset("lists", shape=(4,), dtype=h5py.vlen_dtype("i4"), chunks=(2,))
            f["lists"][:] = [np.arange(i + 1) for i in range(4)]
            f.create_dataset("pairs", data=np.array([(1, 2.5), (3, 4.5)], dtype=[("n", "<i2"), ("x", ">f8")]), chunks=(1,))
            f.create_dataset("flat", data=ARRAY)
            f["last"] = 1
    finally:
        h5py.get_config().track_order = False
    return path


def test_everything_else_survives(mount, rich):
    names = ["a", "g/h/b", "c", "time", "lat", "lon", "strings", "lists", "pairs", "flat", "objects", "regions"]
    before = {options: h5dump(rich, *options) for options in ((), ("-H",), ("-A",))}
    with h5py.File(rich, "r") as f:
        order = [list(f), list(f["g/h"]), list(f["a"].attrs)]
    m = mount(rich)
    for name in names:
        set_filter(m.path / name, "2|32015,3")
        assert xattr(m.path / name, "_Filter").endswith("|32015,3"), name
    for name in names:  # again: the space of the first storage is reused
        set_filter(m.path / name, "1,1")
    m.close()
    after = {options: h5dump(rich, *options) for options in before}
    assert after == before  # the addresses of references, too: objects have kept theirs
    with h5py.File(rich, "r") as f:
        assert [list(f), list(f["g/h"]), list(f["a"].attrs)] == order
        assert f[f.attrs["to a"]] == f["a"] == f["hard"] == f["g/h/hard2"] == f[f["a"].attrs["to myself"]] == f[f["objects"][0]]
        assert f[f["objects"][1]] == f["g/h/b"] == f["soft"]
        assert np.array_equal(f[f["regions"][0]][f["regions"][0]].ravel(), f["a"][0, 1:3, 5:9].ravel())
        for name in ("a", "g/h/b", "c"):
            assert [dim[0].name for dim in f[name].dims] == ["/time", "/lat", "/lon"]
        for name in names:
            assert f[name].compression == "gzip" and f[name].compression_opts == 1, name


NETCDF = sorted(p.name for p in (DATA / "hdf5").iterdir() if p.suffix == ".nc")


@pytest.mark.parametrize("name", NETCDF)
def test_netcdf_files(mount, copy, name):
    """Every variable of every netCDF file is given another chain and back none: ncdump, with data, prints the same."""
    path = copy("hdf5/" + name)
    dump = lambda *options: run("ncdump", *options, path, env=with_plugins()).stdout
    before, special = dump(), dump("-hs")
    for spec in ("2|1,7", "none"):
        m = mount(path)
        done = 0
        for folder, directories, files in os.walk(m.path):
            if ".zarray" not in files:
                continue
            try:
                set_filter(folder, spec)
                done += 1
            except OSError as error:
                assert error.errno in (errno.EINVAL, errno.EOPNOTSUPP), (folder, error)
                if json.loads((pathlib.Path(folder) / ".zarray").read_text())["shape"]:
                    assert error.errno == errno.EOPNOTSUPP, xattr(folder, "_Error")
        m.close()
        assert dump() == before
        if done and spec != "none":
            assert "_DeflateLevel = 7" in dump("-hs")
    filters = re.compile(r"\n[^\n]*:_(Filter|Codecs|DeflateLevel|Shuffle|Fletcher32|Storage|ChunkSizes|NoFill) = [^\n]*")
    assert filters.sub("", dump("-hs")) == filters.sub("", special)


def test_every_hdf5_file(mount, tmp_path):
    """Re-encodes every variable of the generated files that can be: h5dump prints the same data before and after."""
    folder = tmp_path / "hdf5"
    shutil.copytree(DATA / "hdf5", folder)
    changed = 0
    for path in sorted(folder.glob("*.h5")):
        if path.name.startswith("damaged"):
            continue
        dump = lambda: run("h5dump", path.name, cwd=folder, env=with_plugins(), code=None, text=False)
        before = dump()
        if before.returncode != 0:
            continue
        m = mount(path)
        for directory, directories, files in os.walk(m.path):
            if ".zarray" in files and not os.path.islink(directory):
                try:
                    set_filter(directory, "32015,1")
                    changed += 1
                except OSError as error:
                    assert error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.EROFS, errno.EIO), (path, directory, error)
        m.close()
        after = dump()
        assert after.returncode == 0, path
        assert without_pointers(after.stdout.decode(errors="replace")) == without_pointers(before.stdout.decode(errors="replace")), path
    assert changed > 50


def make_large(path, mib=64):
    """Chunks of 512 KiB. Few of them differ, as compressing takes long; but none is like its neighbours."""
    planes = np.random.default_rng(1).integers(0, 4000, (13, 256, 512)).astype("<i4")
    encoded = [zlib.compress(plane.tobytes(), 1) for plane in planes]
    data = np.empty((mib, 512, 512), "<i4")
    with h5py.File(path, "w") as f:
        d = f.create_dataset("v", data.shape, "<i4", chunks=(1, 256, 512), compression="gzip", compression_opts=1)
        for i in range(2 * mib):
            data[i // 2, 256 * (i % 2):256 * (i % 2 + 1)] = planes[i % 13]
            d.id.write_direct_chunk((i // 2, 256 * (i % 2), 0), encoded[i % 13])
    return data


def test_readers_progress_and_cancel(mount, tmp_path):
    """During a re-encoding readers see the variable, _Progress tells how far it is, and an interrupt leaves all as it was."""
    path = tmp_path / "large.h5"
    data = make_large(path, 32)
    m = mount(path)
    # While setfattr works on a directory, the kernel looks up no names in it that it does not know yet.
    os.stat(m.path / "v/20.1.0")
    # bzip2 is slow
    changing = subprocess.Popen(["setfattr", "-n", "user._Filter", "-v", "307,9", m.path / "v"], stderr=subprocess.PIPE)
    seen = []
    while changing.poll() is None:
        try:
            seen.append(xattr(m.path / "v", "_Progress"))
        except OSError:
            pass
        if seen and int(seen[-1].split("/")[0]) > 3:
            break
        time.sleep(0.005)
    assert seen and seen[-1].split("/")[1] == "64 chunks", seen
    assert m.stats()["recode_chunks_total"] == 64
    assert (m.path / "v/20.1.0").read_bytes() == data[20, 256:].tobytes()
    assert xattr(m.path / "v", "_Filter") == "1,1"
    changing.send_signal(signal.SIGINT)
    changing.wait(30)
    assert changing.returncode != 0
    deadline = time.monotonic() + 20
    while "_Progress" in str(os.listxattr(m.path / "v")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert xattr(m.path / "v", "_Filter") == "1,1" and "cancelled" in m.messages()
    assert m.stats()["variables_recoded"] == 0
    (m.path / "v/3.0.0").write_bytes(bytes(4 * 256 * 512))
    data[3, :256] = 0
    m.close()
    assert hdf5_filters(path, "v") == [1] and np.array_equal(hdf5_values(path, "v"), data)


def test_readers_go_on_while_filter_file_is_closed(mount, tmp_path):
    """The chain in the file _Filter: meanwhile every chunk can be read, known to the kernel or not."""
    path = tmp_path / "large.h5"
    data = make_large(path, 24)
    m = mount(path)
    changing = subprocess.Popen(["sh", "-c", "echo 307,9 > _Filter"], cwd=m.path / "v")
    read = 0
    while changing.poll() is None and read < 24:
        assert (m.path / f"v/{read}.1.0").read_bytes() == data[read, 256:].tobytes()
        read += 1
    assert read > 3
    assert changing.wait(60) == 0
    m.close()
    assert hdf5_filters(path, "v") == [307] and np.array_equal(hdf5_values(path, "v"), data)


def test_writers_wait(mount, tmp_path):
    """Chunks that are written while the variable is re-encoded are stored with the new chain, and none is lost."""
    path = tmp_path / "large.h5"
    data = make_large(path, 16)
    m = mount(path, "commit=1")
    (m.path / "v/0.0.0").write_bytes(bytes(4 * 256 * 512))  # still in memory when it begins
    data[0, :256] = 0
    changing = threading.Thread(target=set_filter, args=(m.path / "v", "32015,1"))
    changing.start()
    for i in range(1, 16):
        (m.path / f"v/{i}.1.0").write_bytes(np.full((256, 512), i, "<i4").tobytes())
        data[i, 256:] = i
    changing.join()
    m.close()
    assert hdf5_filters(path, "v") == [32015] and np.array_equal(hdf5_values(path, "v"), data)


def make_stalling(path, kind):
    """A variable whose re-encoding takes some seconds, another one, and an empty group beside each."""
    plane = np.random.default_rng(5).integers(0, 4000, (128, 512)).astype("<i4")
    data = np.stack([plane + i for i in range(512)])
    if kind == "hdf5":
        with h5py.File(path, "w") as f:
            f.create_dataset("deep/v", data=data, chunks=(1, 128, 512), compression="gzip", compression_opts=1)
            f.create_dataset("other", data=ARRAY, chunks=CHUNKS, compression="gzip")
            for name in ("empty", "deep/empty", "moved"):
                f.create_group(name)
        return path, data
    group = zarr.open_group(str(path), "w")
    group.create_dataset("deep/v", data=data, chunks=(1, 128, 512), compressor=numcodecs.Zlib(1))
    group.create_dataset("other", data=ARRAY, chunks=CHUNKS, compressor=numcodecs.Zlib(1))
    for name in ("empty", "deep/empty", "moved"):
        group.create_group(name)
    return zips.pack(path, path.with_suffix(".zip")) if kind == "zip" else path, data


@pytest.mark.parametrize("kind, way", [("hdf5", "setxattr"), ("hdf5", "file"), ("zarr", "file"), ("zip", "setxattr")])
def test_a_mount_goes_on_during_a_reencoding(mount, tmp_path, kind, way):
    """With more writers than threads. Writers of that variable wait outside of the threads, changes of its names are EBUSY,
    and all others go on. What a mapping writes stays in memory until the end."""
    source, data = make_stalling(tmp_path / ("s.h5" if kind == "hdf5" else "s.zarr"), kind)
    m = mount(source, "threads=3")
    variable = m.path / "deep/v"
    mapped_file = open(variable / "150.0.0", "r+b")
    mapped = mmap.mmap(mapped_file.fileno(), 0)
    scratch = variable / ".150.0.0.tmp"
    scratch.write_bytes(bytes(4))
    for name in ("3.0.0", "170.0.0", *(f"{100 + i}.0.0" for i in range(12))):
        os.stat(variable / name)  # during setxattr on the directory, the kernel looks up no more names in it
    other = m.path / "other"
    os.stat(other / "1.0")
    write = ("import os, sys\nf = os.open(sys.argv[1], os.O_RDWR if int(sys.argv[2]) % 2 else os.O_WRONLY)\n"
             "os.pwrite(f, bytes([int(sys.argv[2])] * 4096), 8192)\nos.close(f)")

    def started(*command):
        return subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE)

    def at_once(*command):
        run(*command)

    def progress():
        try:
            return int(xattr(variable, "_Progress").split("/")[0])
        except OSError:
            return 0

    set_it = ["setfattr", "-n", "user._Filter", "-v", "307,9", variable]
    changing = started(*set_it if way == "setxattr" else ["sh", "-c", "echo 307,9 > $0", variable / "_Filter"])
    writers = []
    try:
        while changing.poll() is None and progress() < 1:
            time.sleep(0.005)
        writers = [started(sys.executable, "-c", write, variable / f"{100 + i}.0.0", i) for i in range(12)]
        second = started("setfattr", "-n", "user._Filter", "-v", "1,2", other)  # another pipeline than it has
        mapped[:4] = b"mmap"
        at_once("ls", "-l", m.path)
        at_once("cat", other / "1.0")
        at_once("cat", variable / "170.0.0")
        at_once("rmdir", m.path / "empty")
        at_once("mkdir", m.path / "made")
        at_once("mv", m.path / "moved", m.path / "deep/moved")
        at_once("rmdir", m.path / "deep/empty")
        at_once("ls", m.path / "deep")
        refused(errno.EBUSY, lambda: os.rename(m.path / "deep", m.path / "away"))
        assert "deep/v: is being re-encoded" in xattr(m.path, "_Error")
        refused(errno.EBUSY, mapped.flush)  # it is not durable
        mapped_file.close()
        if way == "file":  # otherwise the kernel holds the directory
            refused(errno.EBUSY, lambda: os.rename(variable, m.path / "away"))
            refused(errno.EBUSY, lambda: os.unlink(variable / "3.0.0"))
            refused(errno.EBUSY, lambda: os.unlink(variable / ".zarray"))
            refused(errno.EBUSY, lambda: os.rename(scratch, variable / "3.0.0"))
            os.unlink(scratch)
        assert changing.poll() is None, "it was over too early"
        time.sleep(0.5)  # so that the writers run
        for process in (writers[0], second):
            process.send_signal(signal.SIGINT)
        assert writers[0].wait(60) != 0 and second.wait(60) != 0
        assert [writer.poll() for writer in writers[1:]] == [None] * 11
        assert changing.poll() is None, "it was over too early"
    finally:
        stderr = changing.communicate(timeout=300)[1]
        for writer in writers:
            writer.wait(300)
    assert changing.returncode == 0, stderr
    assert [writer.returncode for writer in writers[1:]] == [0] * 11
    for i in range(1, 12):
        data[100 + i].reshape(-1).view("u1")[8192:12288] = i
    data[150].reshape(-1).view("u1")[:4] = np.frombuffer(b"mmap", "u1")
    mapped.flush()
    mapped.close()
    if way == "setxattr":
        os.unlink(scratch)
    m.close()
    if kind == "hdf5":
        assert hdf5_filters(source, "deep/v") == [307] and hdf5_filters(source, "other") == [1]
        assert np.array_equal(hdf5_values(source, "deep/v"), data)
        return
    if kind == "zip":
        zips.check(source)
        shutil.rmtree(tmp_path / "s.zarr")
        shutil.unpack_archive(source, tmp_path / "s.zarr")
    group = zarr.open_group(str(tmp_path / "s.zarr"), "r")
    assert group["deep/v"].compressor == numcodecs.BZ2(9) and np.array_equal(group["deep/v"][:], data)
    assert sorted(group) == ["deep", "made", "other"] and sorted(group["deep"]) == ["moved", "v"]


def test_memory_is_bounded(mount, tmp_path):
    path = tmp_path / "large.h5"
    data = make_large(path, 192)
    m = mount(path)
    set_filter(m.path / "v", "32015,1")
    if not os.environ.get("CODECFS_SANITIZE"):
        assert m.resident_peak() < 160 << 20
    wal = tmp_path / ".large.h5.codecfs-wal"
    assert wal.stat().st_size < 300 << 20
    m.close()
    assert hdf5_filters(path, "v") == [32015] and np.array_equal(hdf5_values(path, "v"), data)


def test_one_bad_chunk(mount, tmp_path):
    """A chunk that cannot be decoded: the variable stays as it is, and the reason names the chunk."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=ARRAY, chunks=CHUNKS, compression="gzip")
        at, size = f["v"].id.get_chunk_info_by_coord((20, 50)).byte_offset, 20
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(b"\0" * size)
    content = path.read_bytes()
    m = mount(path)
    refused(errno.EIO, lambda: set_filter(m.path / "v", "32015,3"))
    assert "2.1" in xattr(m.path / "v", "_Error")
    assert (m.path / "v/2.0").read_bytes() == ARRAY[20:30, :50].tobytes()
    m.close()
    # Space for the attempt may have been used; what the file says has not changed.
    assert hdf5_filters(path, "v") == [1]
    with h5py.File(path, "r") as f:
        assert np.array_equal(f["v"][:20], ARRAY[:20])


def test_full_disk(mount, image):
    """No room for the new storage: ENOSPC, and everything is as it was."""
    disk = image.make("64m").mount()
    path = disk / "a.h5"
    data = make_large(path, 24)
    m = mount(path)
    refused(errno.ENOSPC, lambda: set_filter(m.path / "v", "none"))
    assert (m.path / "v/20.1.0").read_bytes() == data[20, 256:].tobytes()
    set_filter(m.path / "v", "1,1")
    m.close()
    assert np.array_equal(hdf5_values(path, "v"), data)


# --- mount rules


def test_rules_decide_new_variables_and_first_writes(mount, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        for name in ("v", "w", "untouched"):
            f.create_dataset(name, data=ARRAY, chunks=CHUNKS, compression="gzip")
    m = mount(path, rules=["*,shuffle|zstd,3", "w,none"])
    assert xattr(m.path / "v", "_Filter") == "1,4" and xattr(m.path / "v", "_FilterOut") == "2|32015,3"
    (m.path / "v/0.0").read_bytes()
    assert xattr(m.path / "v", "_Filter") == "1,4"  # reading changes nothing
    with open(m.path / "v/0.0", "r+b") as f:
        f.write(bytes(4))
    (m.path / "w/1.0").write_bytes(bytes(2000))
    assert xattr(m.path / "v", "_Filter") == "2,4|32015,3" and xattr(m.path / "w", "_Filter") == "none"
    set_filter(m.path / "v", "1,1")  # an explicit chain overrides the rules
    (m.path / "v/0.1").write_bytes(bytes(2000))
    assert xattr(m.path / "v", "_Filter") == "1,1"
    zarr.open_group(str(m.path), "a").create_dataset("new", data=ARRAY, chunks=CHUNKS, compressor=None)
    assert xattr(m.path / "new", "_Filter") == "2,4|32015,3"
    m.close()
    expected = ARRAY.copy()
    expected[0, 0] = 0
    expected[:10, 50:] = 0
    assert np.array_equal(hdf5_values(path, "v"), expected) and hdf5_filters(path, "v") == [1]
    expected = ARRAY.copy()
    expected[10:20, :50] = 0
    assert np.array_equal(hdf5_values(path, "w"), expected) and hdf5_filters(path, "w") == []
    # What stands, said again, is a decision too.
    with mounted(path, tmp_path / "said", rules=["*,1,1"]) as m:
        set_filter(m.path / "untouched", "1,4")
        (m.path / "untouched/0.0").write_bytes(ARRAY[:10, :50].tobytes())
        assert xattr(m.path / "untouched", "_Filter") == "1,4"
    assert hdf5_filters(path, "untouched") == [1] and hdf5_filters(path, "new") == [2, 32015]
    assert np.array_equal(hdf5_values(path, "new"), ARRAY)


def test_group_default(mount, tmp_path):
    """user._Filter of a group is for the variables that are made below it; nearer ones and rules win."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_group("g/h")
    m = mount(path, rules=["/g/ruled,none"])
    set_filter(m.path, "1,2")
    set_filter(m.path / "g", "32015,1")
    assert xattr(m.path / "g", "_Filter") == "32015,1"
    refused(errno.ENOENT, lambda: set_filter(m.path / "g", "54321"))
    root = zarr.open_group(str(m.path), "a")
    for name in ("v", "g/v", "g/h/v", "g/ruled"):
        root.create_dataset(name, data=ARRAY, chunks=CHUNKS, compressor=None)
    os.removexattr(m.path / "g", "user._Filter")
    root.create_dataset("g/later", data=ARRAY, chunks=CHUNKS, compressor=None)
    assert [xattr(m.path / name, "_Filter") for name in ("v", "g/v", "g/h/v", "g/ruled", "g/later")] == (
        ["1,2", "32015,1", "32015,1", "none", "1,2"])
    m.close()
    for name in ("v", "g/v", "g/h/v", "g/ruled", "g/later"):
        assert np.array_equal(hdf5_values(path, name), ARRAY), name


# --- space


def test_space_comes_back(mount, tmp_path):
    """Half the bytes: not a larger file; what is free is told, and --compact gives it back."""
    path = tmp_path / "a.h5"
    data = np.repeat(np.arange(512, dtype="<i4"), 512 * 16).reshape(16, 512, 512)
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=data, chunks=(1, 256, 512))
    size = path.stat().st_size
    m = mount(path)
    set_filter(m.path / "v", "32015,3")
    assert m.stats()["reclaimable_bytes"] > 0.9 * size
    m.close()
    assert path.stat().st_size <= 1.05 * size
    told = codecfs("--compact", path).stdout
    assert str(path) in told
    assert path.stat().st_size < 0.1 * size
    assert hdf5_filters(path, "v") == [32015] and np.array_equal(hdf5_values(path, "v"), data)
    before = path.read_bytes()
    codecfs("--compact", path)
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "mnt1", "mnt1.log"]


FREE = "user.codecfs.free"
CHAINS = [b"2,4|1,1", b"none", b"1,9"]


def make_turns(tmp_path, kind="earliest"):
    """A file of two variables, and what is in them."""
    path = tmp_path / "turns.h5"
    random = np.random.default_rng(3)
    contents = {name: np.cumsum(random.integers(-3, 4, (400, 500)), axis=1).astype("<i4") for name in ("a", "b")}
    options = {"userblock_size": 1024} if kind == "user block" else {"libver": kind}
    with h5py.File(path, "w", **options) as f:
        for name, data in contents.items():
            f.create_dataset(name, data=data, chunks=(50, 100))
    return path, contents


@pytest.fixture(params=["earliest", "latest", "user block"])
def turns(tmp_path, request):
    return make_turns(tmp_path, request.param)


def recode_mounted(mount, path, turn):
    """One of the two variables in a mount of its own."""
    m = mount(path)
    os.setxattr(m.path / "ab"[turn % 2], "user._Filter", CHAINS[turn // 2 % 3])
    m.close()


def superblock(path, at):
    """Without what changes with the file's size."""
    head = path.read_bytes()[at:at + 24]
    return head[:12] if head[8] in (2, 3) else head


def check_turns(path, contents):
    with h5py.File(path) as f:
        assert sorted(f) == sorted(contents)
        for name, data in contents.items():
            assert np.array_equal(f[name][...], data)
    dumped = h5dump(path, "-H")
    assert dumped.count("DATASET") == 2 and "free space" not in dumped


def test_freed_space_is_found_again(mount, tmp_path):
    """Two variables in turn, small and large: what each leaves is used by the next ones."""
    path, contents = make_turns(tmp_path)
    largest = path.stat().st_size
    m = mount(path)
    for turn in range(40):
        os.setxattr(m.path / "ab"[turn % 2], "user._Filter", CHAINS[turn // 2 % 3])
    m.close()
    # Both states of both variables at once, and what is too small to be used.
    assert path.stat().st_size <= 2.5 * largest
    check_turns(path, contents)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_small_free_blocks_are_found_again(mount, tmp_path, libver):
    """Each re-encoding frees chunks of some hundred bytes, and blocks of metadata."""
    path = tmp_path / "a.h5"
    contents = {f"v{i}": np.random.default_rng(i).integers(0, 100, (64, 1024)) for i in range(4)}
    with h5py.File(path, "w", libver=libver) as f:
        for name, data in contents.items():
            f.create_dataset(name, data=data, chunks=(8, 512), compression="gzip")
    chains = [b"1,1", b"2|1,3", b"2", b"none"]
    sizes = []
    for _ in range(3):
        m = mount(path)
        for i in range(120):
            os.setxattr(m.path / f"v{i % 4}", "user._Filter", chains[(i // 4 + i) % 4])
        m.close()
        sizes.append(path.stat().st_size)
    # How much depends on when the commits were. Each mount that finds nothing again adds several times this size.
    assert sizes[-1] <= 1.3 * sum(data.nbytes for data in contents.values()), sizes
    with h5py.File(path) as f:
        for name, data in contents.items():
            assert np.array_equal(f[name][...], data)


def test_freed_space_is_found_again_after_a_remount(mount, turns):
    path, contents = turns
    largest = path.stat().st_size
    at = path.read_bytes().index(b"\x89HDF\r\n\x1a\n")
    before = superblock(path, at)
    sizes = []
    for turn in range(40):
        recode_mounted(mount, path, turn)
        sizes.append(path.stat().st_size)
    assert sizes[-1] <= 2.5 * largest, sizes
    assert superblock(path, at) == before
    check_turns(path, contents)
    m = mount(path)
    free = m.stats()["reclaimable_bytes"]
    os.setxattr(m.path / "a", "user.x", b"1")  # the first change takes it
    assert FREE not in os.listxattr(path) and 0.9 * free <= m.stats()["reclaimable_bytes"] <= 1.1 * free
    m.close()
    assert FREE in os.listxattr(path)
    codecfs("--compact", path)
    assert FREE not in os.listxattr(path) and path.stat().st_size <= sizes[-1] - 0.9 * free
    check_turns(path, contents)


def test_another_program_changes_the_file_between_mounts(mount, turns):
    """Space that the other program allocated is never taken for free."""
    path, contents = turns
    for turn in range(12):
        recode_mounted(mount, path, turn)
        with h5py.File(path, "r+") as f:
            if turn % 3 == 2:
                del f[f"other{turn - 2}"], contents[f"other{turn - 2}"]
            contents[f"other{turn}"] = np.arange(30000, dtype="<i4") + turn
            f.create_dataset(f"other{turn}", data=contents[f"other{turn}"])
        m = mount(path)
        assert m.stats()["reclaimable_bytes"] == 0
        m.close()
        with h5py.File(path) as f:
            for name, data in contents.items():
                assert np.array_equal(f[name][...], data)
    # An attribute that is put back belongs to another state of the file.
    told = os.getxattr(path, FREE)
    recode_mounted(mount, path, 1)
    os.setxattr(path, FREE, told)
    m = mount(path)
    assert m.stats()["reclaimable_bytes"] == 0
    os.setxattr(m.path / "a", "user._Filter", b"1,5")
    m.close()
    with h5py.File(path) as f:
        for name, data in contents.items():
            assert np.array_equal(f[name][...], data)


def test_copies_of_a_file_with_free_space(mount, turns, tmp_path):
    path, contents = turns
    for turn in range(4):
        recode_mounted(mount, path, turn)
    plain, whole = tmp_path / "plain.h5", tmp_path / "whole.h5"
    run("cp", path, plain)
    run("cp", "-a", path, whole)
    assert FREE not in os.listxattr(plain) and os.getxattr(whole, FREE) == os.getxattr(path, FREE)
    for copy, known in ((plain, False), (whole, True), (path, True)):
        m = mount(copy)
        assert (m.stats()["reclaimable_bytes"] > 0) == known
        m.close()
        for turn in range(4, 8):
            recode_mounted(mount, copy, turn)
        check_turns(copy, contents)


def test_free_space_attribute_is_not_trusted(mount, tmp_path):
    """Wrong or forged attributes never cause live data to be overwritten."""
    path, contents = make_turns(tmp_path)
    for turn in range(4):
        recode_mounted(mount, path, turn)
    version, size, mtime, head, free, *datasets = os.getxattr(path, FREE).decode().split(" ")
    state = f"{size} {mtime} {head}"
    with h5py.File(path) as f:
        root, data = (f"{h5py.h5o.get_info(f[name].id).addr:x}" for name in ("/", "a"))
    for number, told in enumerate([
            "", "1", "zz", "1 2 3 4 5 6", f"1 {state} {free} ", f"1 {state} {free} {datasets[0]} zz",
            f"2 {state} {free} {datasets[0]}", f"1 {state} {'f' * 16} {datasets[0]}",
            " ".join(["1", state, free, root, data, "7", "f" * 16, *datasets, *datasets])]):
        copy = tmp_path / f"copy{number}.h5"
        run("cp", "-a", path, copy)
        os.setxattr(copy, FREE, told.encode())
        for turn in range(4, 6):
            recode_mounted(mount, copy, turn)
        check_turns(copy, contents)
