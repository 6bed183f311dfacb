"""The npy and raw views: each variable is one file. numpy loads, maps and writes it, and what h5py, netCDF4 and zarr-python
read of the source is the same, before and after."""
import contextlib
import errno
import json
import mmap
import os
import random
import shutil
import time
import zlib

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from compare import is_padding, same_bytes
from conftest import DATA, mounted, xattr
from hdf5_sources import FILES, has_zarr_form, is_vlen_string, shown_name, values_of, variables
from running import run
from zarr_sources import STORES, arrays

NPY, RAW = ".codecfs/view/npy", ".codecfs/view/raw"


def same_array(ours, theirs, where):
    """Equal in type and bytes; of structured types every member, at the same place, but the padding."""
    theirs = np.asarray(theirs)
    if ours.dtype.names:
        assert not any(is_padding(name) for name in ours.dtype.names), where
        assert ours.dtype.itemsize == theirs.dtype.itemsize, where
        for name in ours.dtype.names:
            assert ours.dtype.fields[name][1] == theirs.dtype.fields[name][1], f"{where}.{name}"
    same_bytes(np.asarray(ours), theirs, where)


def data_of(path):
    """What is in an npy file behind its header."""
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        file.read(int.from_bytes(file.read(2 if version == (1, 0) else 4), "little"))
        assert file.tell() % 64 == 0
        return file.read()


def error_of(action, *arguments):
    """The errno; the exception is not kept, nor the arrays that its frames hold."""
    try:
        action(*arguments)
    except OSError as error:
        return error.errno
    return 0


def random_slices(shape, rng):
    def one(length):
        a, b = sorted((rng.randrange(length + 1), rng.randrange(length + 1)))
        return slice(a, b, rng.choice([1, 1, 1, 2, 3])) if rng.random() < 0.8 else slice(None)
    return tuple(one(length) for length in shape)


# --- reading

@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_array_is_what_h5py_reads(mount, path, tmp_path):
    m = mount(path)
    shown = {str(p.relative_to(m.path / NPY)) for p in (m.path / NPY).rglob("*") if p.is_file() and not p.is_symlink()}
    expected = set()
    with h5py.File(path) as file:
        for name, dataset in variables(file):
            name = shown_name(name)
            npy = m.path / NPY / (name + ".npy")
            if not has_zarr_form(dataset) or is_vlen_string(dataset):
                for absent in (npy, m.path / RAW / name):
                    assert error_of(absent.stat) == errno.EOPNOTSUPP, name
                continue
            expected.add(os.path.relpath(os.path.realpath(npy), m.path / NPY))  # of several names one is no link
            assert npy.stat().st_blocks > 0 or npy.stat().st_size == 0
            if "unknown" in name:
                assert error_of(np.load, npy) == errno.EIO
                continue
            with contextlib.chdir(path.parent):  # external and virtual sources are named relative to the file
                values = values_of(dataset, tmp_path)
            mapped = np.load(npy, mmap_mode="r")
            same_array(mapped, values, name)
            same_array(np.load(npy), values, name)
            assert (m.path / RAW / name).read_bytes() == mapped.tobytes() == data_of(npy), name
            if not values.dtype.names and values.dtype.kind in "iufcbS":
                assert mapped.dtype == values.dtype or mapped.dtype.kind in "uV", name
    assert shown == expected


@pytest.mark.parametrize("path", STORES, ids=lambda p: p.name)
def test_every_array_is_what_zarr_reads(mount, path):
    m = mount(path)
    source = zarr.open(str(path), "r")
    if isinstance(source, zarr.Array):
        assert {p.name for p in (m.path / NPY).iterdir()} == {"array.npy"}
        assert {p.name for p in (m.path / RAW).iterdir()} == {"array"}
        assert not (m.path / NPY / ".zarray").exists() and not (m.path / NPY / "0").exists()
        same_array(np.load(m.path / NPY / "array.npy", mmap_mode="r"), source[...], path.name)
        assert (m.path / RAW / "array").read_bytes() == np.asarray(source[...]).tobytes()
        return
    for name, array in arrays(source):
        npy = m.path / NPY / (name + ".npy")
        if array.dtype.kind == "O" or array.dtype.itemsize == 0:
            assert error_of(npy.stat) == errno.EOPNOTSUPP
            continue
        ours = np.load(npy, mmap_mode="r")
        assert ours.dtype == array.dtype or array.dtype.names, name
        values = np.asarray(array[...])
        if values.dtype.names:  # to zarr-python padding is a member
            values = values[list(ours.dtype.names)]
        same_array(ours, values, name)
        assert (m.path / RAW / name).read_bytes() == np.asarray(array[...]).tobytes(), name


def test_netcdf_variables_by_name(mount):
    path = DATA / "hdf5/netcdf_groups.nc"
    m = mount(path)

    def check(group, directory):
        for name, variable in group.variables.items():
            if variable.dtype is not str:
                variable.set_auto_maskandscale(False)
                assert (np.load(directory / (name + ".npy"), mmap_mode="r") == variable[...]).all()
        for name, inner in group.groups.items():
            check(inner, directory / name)

    with netCDF4.Dataset(path) as nc:
        check(nc, m.path / NPY)


SHAPES = [
    ((), None), ((1,), (1,)), ((1000,), (64,)), ((1000,), (7,)), ((50, 40), (50, 40)), ((50, 40), (7, 40)), ((50, 40), (50, 3)),
    ((50, 40), (13, 11)), ((50, 40), (64, 64)), ((20, 30, 10), (3, 4, 5)), ((20, 30, 10), (1, 30, 10)), ((20, 30, 10), (20, 1, 10)),
    ((20, 30, 10), (20, 30, 1)), ((8, 9, 10, 11), (3, 2, 4, 5)), ((8, 9, 10, 11), (8, 2, 10, 5)), ((0, 5), (2, 3)),
]
COMPOUND = np.dtype([("a", "<i2"), ("b", ">f8", (2,)), ("c", [("x", "u1"), ("y", "S3")])])
PADDED = np.dtype({"names": ["a", "b"], "formats": ["i1", "<f8"], "offsets": [3, 8], "itemsize": 24})
TYPES = ["<f4", ">f8", "<i8", ">u2", "i1", "?", "<c16", "S5", "V7", COMPOUND, PADDED]


def noise(shape, dtype, seed):
    """Values of any type; NaN would not be equal to itself, and strings end with their NULs."""
    dtype = np.dtype(dtype)
    bits = np.random.default_rng(seed).integers(1, 100, (*shape, max(dtype.itemsize, 1)), np.uint8)
    if dtype.kind == "b":
        return (bits[..., 0] % 2).astype(bool)
    if dtype.names:
        array = np.zeros(shape, dtype)
        for i, name in enumerate(dtype.names):
            inner = dtype[name]
            array[name] = noise((*shape, *inner.shape), inner.base, seed + i + 1)
        return array
    return np.ascontiguousarray(bits).view(dtype).reshape(shape)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """An HDF5 file and a Zarr store of all shapes and types, some with holes; and the arrays."""
    directory = tmp_path_factory.mktemp("npy")
    arrays = {}
    with h5py.File(directory / "cases.h5", "w") as file:
        group = zarr.open_group(str(directory / "cases.zarr"), "w")
        for i, (shape, chunks) in enumerate(SHAPES):
            for j, dtype in enumerate(TYPES):
                if j % 3 and i % len(TYPES) != j:
                    continue
                name, dtype = f"v{i}_{j}", np.dtype(dtype)
                values = noise(shape, dtype, i)
                options = {"compression": "gzip", "shuffle": True} if chunks and shape[0] else {}
                if chunks and any(c > n for c, n in zip(chunks, shape)):
                    options["maxshape"] = (None,) * len(shape)
                file.create_dataset(name, shape, dtype, chunks=chunks if shape else None, **options)[...] = values
                arrays[name] = values
                if dtype != PADDED:
                    group.create_dataset(name, shape=shape, chunks=chunks or True, dtype=dtype, fill_value=0 if dtype.kind in "ifuc" else None)[...] = values
        for j, fill in enumerate([0, -7]):
            name = f"holes{j}"
            values = np.full((40, 50), fill, "<i4")
            values[10:20, 20:30] = 5
            for maker in (file, group):
                options = {"fillvalue": fill} if maker is file else {"fill_value": fill}
                maker.create_dataset(name, shape=(40, 50), dtype="<i4", chunks=(10, 10), **options)[10:20, 20:30] = 5
            arrays[name] = values
        for name, track in (("contiguous", None), ("compact", h5py.h5d.COMPACT)):
            values = arrays[name] = noise((70, 9), ">i4", 5)
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            if track is not None:
                plist.set_layout(track)
            space = h5py.h5s.create_simple(values.shape)
            h5py.h5d.create(file.id, name.encode(), h5py.h5t.STD_I32BE, space, plist)
            file[name][...] = values
    return directory, arrays


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_shapes_types_and_holes(mount, cases, kind):
    directory, arrays = cases
    m = mount(directory / f"cases.{kind}", "ro")
    rng = random.Random(1)
    checked = 0
    for name, values in arrays.items():
        npy = m.path / NPY / (name + ".npy")
        if kind == "zarr" and not npy.exists():
            assert name in ("contiguous", "compact") or values.dtype == PADDED
            continue
        checked += 1
        mapped = np.load(npy, mmap_mode="r")
        assert mapped.flags.c_contiguous and not mapped.flags.writeable
        same_array(mapped, values, name)
        for _ in range(20):
            index = tuple(rng.randrange(n) for n in values.shape) if values.size else ()
            same_bytes(np.asarray(mapped[index]), np.asarray(values[index]), f"{name}{index}")
        raw = m.path / RAW / name
        assert raw.stat().st_size == values.nbytes
        assert raw.read_bytes() == mapped.tobytes()
        with open(raw, "rb") as file:
            for _ in range(10):
                at, size = rng.randrange(values.nbytes + 1), rng.randrange(200)
                file.seek(at)
                assert file.read(size) == mapped.tobytes()[at:at + size]
    assert checked > 60


def test_headers_are_those_of_numpy(mount, cases, tmp_path):
    directory, arrays = cases
    m = mount(directory / "cases.h5")
    for name, values in arrays.items():
        np.save(tmp_path / "numpys.npy", values)
        ours = (m.path / NPY / (name + ".npy")).read_bytes()
        numpys = (tmp_path / "numpys.npy").read_bytes()
        assert ours[:len(ours) - values.nbytes] == numpys[:len(numpys) - values.nbytes], name


def test_a_chunk_is_decoded_once_also_where_it_cuts_rows(mount, tmp_path):
    values = np.random.default_rng(3).random((2000, 1000))
    with h5py.File(tmp_path / "cut.h5", "w") as file:
        file.create_dataset("v", data=values, chunks=(2000, 10), compression="gzip", compression_opts=1)
    m = mount(tmp_path / "cut.h5", "cache=128M")
    assert (m.path / RAW / "v").read_bytes() == values.tobytes()
    assert m.stats()["chunks_decoded"] == 100
    assert (np.load(m.path / NPY / "v.npy", mmap_mode="r") == values).all()


def test_rows_that_are_cut_by_more_than_the_cache_holds(tmp_path):
    """All chunks have a part in each row. A sequential reader has them decoded once for each quarter of the cache."""
    values = np.random.default_rng(3).integers(0, 50, (8000, 1000))
    with h5py.File(tmp_path / "cut.h5", "w") as file:
        file.create_dataset("v", data=values, chunks=(8000, 10), compression="gzip", compression_opts=1)
    with mounted(tmp_path / "cut.h5", tmp_path / "mnt", "cache=32M") as m:
        with open(m.path / RAW / "v", "rb", buffering=0) as file:
            data = file.read(4 << 20)
            assert data == values.tobytes()[:len(data)]
            chunk = m.path / "v/0.3"
            chunk.write_bytes(np.full((8000, 10), 77).tobytes())  # what was assembled is that no more
            values[:, 30:40] = 77
            assert m.stats()["chunks_decoded"] <= 2 * 100
            data = b"".join(iter(lambda: file.read(1 << 20), b""))
            assert data == values.tobytes()[4 << 20:]
        assert m.stats()["chunks_decoded"] < 12 * 100
        assert (m.path / RAW / "v").read_bytes() == values.tobytes()
        assert m.resident_peak() < 32 + 64 << 20


def test_a_page_fault_decodes_one_chunk(mount, tmp_path):
    with h5py.File(tmp_path / "large.h5", "w") as file:
        v = file.create_dataset("v", (16, 8 << 20), "<u1", chunks=(1, 8 << 20), compression="gzip", compression_opts=1)
        for i in range(16):
            v[i] = i
    m = mount(tmp_path / "large.h5")
    mapped = np.load(m.path / NPY / "v.npy", mmap_mode="r")
    assert m.stats()["chunks_decoded"] <= 1  # the kernel reads on behind the header
    assert mapped[10, 4 << 20] == 10
    assert m.stats()["chunks_decoded"] == 2
    del mapped


@pytest.mark.parametrize("kind", ["contiguous", "chunks", "zarr"])
def test_random_elements_of_large_chunks_take_no_whole_chunks(mount, tmp_path, kind):
    """Where nothing has to be decoded."""
    in_chunk, count = 1 << 20, 1 << 28  # elements: chunks of 4 MiB, an array of 1 GiB
    random_numbers = np.random.default_rng(7)
    stored = sorted(random_numbers.choice(count // in_chunk, 12, replace=False).tolist())
    values = {n: random_numbers.integers(-1 << 30, 1 << 30, in_chunk, "i4") for n in stored}
    if kind == "zarr":
        path = tmp_path / "large.zarr"
        (path / "v").mkdir(parents=True)
        (path / ".zgroup").write_text('{"zarr_format": 2}')
        (path / "v/.zarray").write_text(json.dumps(
            {"zarr_format": 2, "shape": [count], "chunks": [in_chunk], "dtype": "<i4", "compressor": None, "filters": None,
             "order": "C", "fill_value": -5}))
        for n in stored:
            (path / f"v/{n}").write_bytes(values[n].tobytes())
    else:
        path = tmp_path / "large.h5"
        with h5py.File(path, "w") as f:
            layout = {} if kind == "contiguous" else {"chunks": (in_chunk,)}
            d = f.create_dataset("v", (count,), "i4", fillvalue=0 if kind == "contiguous" else -5, **layout)
            for n in stored:
                d[n * in_chunk:(n + 1) * in_chunk] = values[n]
    m = mount(path, "ro")
    before = m.stats()["bytes_stored"]
    reads = 0
    with open(m.path / ".codecfs/view/raw/v", "rb") as file:
        for _ in range(3):
            for n in random_numbers.permutation(stored).tolist():
                at = int(random_numbers.integers(in_chunk - 8))
                got = os.pread(file.fileno(), 32, (n * in_chunk + at) * 4)
                assert got == values[n][at:at + 8].tobytes(), (n, at)
                reads += 1
    each = (m.stats()["bytes_stored"] - before) / reads
    assert each < 256 << 10, each
    # Sequential readers get the same, and so does one that maps the file.
    n = stored[5]
    with open(m.path / ".codecfs/view/raw/v", "rb") as file:
        file.seek(n * in_chunk * 4)
        assert file.read(in_chunk * 4) == values[n].tobytes()
    mapped = np.memmap(m.path / ".codecfs/view/raw/v", "i4", "r")
    for n in stored:
        at = int(random_numbers.integers(in_chunk))
        assert mapped[n * in_chunk + at] == values[n][at]


def test_a_sparse_array_of_any_size(mount, tmp_path):
    with h5py.File(tmp_path / "sparse.h5", "w") as file:
        v = file.create_dataset("v", (1 << 20, 1 << 20), "<f8", chunks=(256, 256), compression="gzip", fillvalue=2.5)
        v[777777, 555555] = 1
    m = mount(tmp_path / "sparse.h5")
    npy = m.path / NPY / "v.npy"
    assert npy.stat().st_size == 128 + (8 << 40)
    mapped = np.load(npy, mmap_mode="r")
    assert mapped[777777, 555555] == 1 and mapped[777777, 555556] == 2.5 and mapped[-1, -1] == 2.5
    assert (mapped[12345, :5000] == 2.5).all()
    assert m.stats()["chunks_decoded"] <= 2
    del mapped


# --- names

def test_groups_and_links(mount, tmp_path):
    with h5py.File(tmp_path / "links.h5", "w") as file:
        file["g/h/v"] = np.arange(6)
        file["top"] = np.arange(3)
        file["g/to_variable"] = h5py.SoftLink("/g/h/v")
        file["to_group"] = h5py.SoftLink("/g/h")
        file["to_link"] = h5py.SoftLink("/g/to_variable")
        file["dangling"] = h5py.SoftLink("/nowhere")
        file["circle"] = h5py.SoftLink("/circle")
        file["second_name"] = file["top"]
        file["text"] = "of any length"
        file["to_text"] = h5py.SoftLink("/text")
        file.create_group("both.npy")
        file["both"] = np.arange(4)
    m = mount(tmp_path / "links.h5")
    npy, raw = m.path / NPY, m.path / RAW
    assert {p.name for p in npy.iterdir()} == {"g", "top.npy", "to_group", "to_link.npy", "dangling", "circle", "second_name.npy", "both.npy"}
    assert {p.name for p in raw.iterdir()} == {"g", "top", "to_group", "to_link", "dangling", "circle", "second_name", "both.npy", "both"}
    assert {p.name for p in (npy / "g").iterdir()} == {"h", "to_variable.npy"}
    for path in ("g/h/v", "g/to_variable", "to_link", "to_group/v"):
        assert np.load(npy / (path + ".npy")).tolist() == list(range(6)), path
        assert (raw / path).read_bytes() == np.arange(6).tobytes()
    assert os.readlink(npy / "g/to_variable.npy") == "h/v.npy" and os.readlink(raw / "g/to_variable") == "h/v"
    assert (npy / "g/to_variable.npy").lstat().st_size == len("h/v.npy")
    for name in ("second_name", "top"):
        assert np.load(npy / (name + ".npy")).tolist() == [0, 1, 2]
    assert np.load(npy / "both.npy").tolist() == [0, 1, 2, 3]
    assert os.readlink(npy / "dangling") == "nowhere"
    for name in ("top", "top.npy.npy", ".zgroup", ".zattrs", ".zmetadata", "top.npy/.zarray", "g/h/v.npy/0", "to_group.npy", "g/to_variable"):
        assert not os.path.lexists(npy / name), name


def test_the_view_as_the_root(mount, copy):
    source = copy("hdf5/netcdf_groups.nc")
    for view in ("npy", "raw"):
        m = mount(source, f"view={view}")
        other = m.path / ".codecfs/view" / ("raw" if view == "npy" else "npy")
        files = [p for p in m.path.rglob("*") if p.is_file() and not p.is_symlink()]
        assert files and all((p.suffix == ".npy") == (view == "npy") for p in files)
        for p in files:
            data = data_of(p) if view == "npy" else p.read_bytes()
            q = other / p.relative_to(m.path)
            assert data == (q.with_suffix("").read_bytes() if view == "npy" else data_of(f"{q}.npy"))
        assert os.readlink(m.path / ".codecfs/view" / view) == "../.."
        assert (m.path / ".codecfs/view/decoded/.zgroup").exists()
        m.close()


def test_extended_attributes_are_the_variables(mount, copy):
    m = mount(copy("hdf5/filters_builtin.h5"))
    directory = next(p for p in m.path.iterdir() if (p / "_Filter").exists() and (p / "_Filter").read_text().strip() != "none")
    npy = m.path / NPY / (directory.name + ".npy")
    assert xattr(npy, "_Filter") == xattr(directory, "_Filter")
    assert sorted(os.listxattr(npy)) == sorted(os.listxattr(directory))
    before = np.load(npy)
    os.setxattr(npy, "user._Filter", b"none")
    assert xattr(directory, "_Filter") == "none" and (directory / "_Filter").read_text() == "none\n"
    os.setxattr(npy, "user.units", b"K")
    assert xattr(directory, "units") == "K"
    os.removexattr(npy, "user.units")
    assert "user.units" not in os.listxattr(directory)
    assert (np.load(npy) == before).all()


# --- writing

@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_random_slices_are_assigned(cases, tmp_path, kind):
    directory, arrays = cases
    source = tmp_path / f"cases.{kind}"
    shutil.copytree(directory / source.name, source) if kind == "zarr" else shutil.copy(directory / source.name, source)
    rng = random.Random(7)
    expected = {}
    with mounted(source, tmp_path / "mnt") as m:
        for name, values in arrays.items():
            npy = m.path / NPY / (name + ".npy")
            if not npy.exists() or not values.size:
                continue
            expected[name] = values = values.copy()
            mapped = np.load(npy, mmap_mode="r+")
            for i in range(6):
                index = random_slices(values.shape, rng)
                new = noise(values[index].shape, values.dtype, rng.randrange(10000))
                mapped[index] = new
                values[index] = new
            mapped.flush()
            same_bytes(np.asarray(np.load(npy)), values, name)
            del mapped
        assert len(expected) > 60
    file = h5py.File(source) if kind == "h5" else zarr.open_group(str(source), "r")
    for name, values in expected.items():
        same_bytes(np.asarray(file[name][()] if kind == "h5" else file[name][...], values.dtype), values, name)


def test_numpy_saves_over_it(cases, tmp_path):
    directory, arrays = cases
    source = shutil.copy(directory / "cases.h5", tmp_path)
    expected = {}
    with mounted(source, tmp_path / "mnt") as m:
        for i, (name, values) in enumerate(arrays.items()):
            npy = m.path / NPY / (name + ".npy")
            expected[name] = noise(values.shape, values.dtype, 1000 + i)
            np.save(npy, expected[name])
            same_array(np.load(npy), expected[name], name)
    with h5py.File(source) as file:
        for name, values in expected.items():
            same_bytes(np.asarray(file[name][()], values.dtype), values, name)


def test_other_ways_to_write_it(copy, tmp_path):
    values = np.arange(6000, dtype="<i4").reshape(60, 100)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("cp", "dd", "memmap", "pieces", "raw"):
            file.create_dataset(name, data=values, chunks=(7, 9), compression="gzip")
    new = values[::-1] * 3
    np.save(tmp_path / "new.npy", new)
    with mounted(tmp_path / "a.h5", tmp_path / "mnt") as m:
        npy, raw = m.path / NPY, m.path / RAW
        run("cp", tmp_path / "new.npy", npy / "cp.npy", seconds=30)
        run("dd", f"if={tmp_path}/new.npy", f"of={npy}/dd.npy", "conv=notrunc,fsync", "bs=777", seconds=30, text=False)
        mapped = np.lib.format.open_memmap(npy / "memmap.npy", "w+", new.dtype, new.shape)
        mapped[...] = new
        mapped.flush()
        del mapped
        with open(npy / "pieces.npy", "r+b", buffering=0) as file:  # in the middle of elements, from behind
            data = (tmp_path / "new.npy").read_bytes()
            for at in reversed(range(0, len(data), 1021)):
                file.seek(at)
                assert file.write(data[at:at + 1021]) == len(data[at:at + 1021])
            os.fsync(file.fileno())
        (raw / "raw").write_bytes(new.tobytes())
        for name in ("cp", "dd", "memmap", "pieces", "raw"):
            assert (np.load(npy / (name + ".npy")) == new).all(), name
    with h5py.File(tmp_path / "a.h5") as file:
        for name in file:
            assert (file[name][...] == new).all(), name


def test_what_a_truncating_writer_leaves_out(tmp_path):
    """Zeros before what it has written, as in any file (cp makes holes); behind that it is as it was."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("kept", "gap", "end", "nothing"):
            file.create_dataset(name, data=np.full((1000, 700), 7, "<i4"), chunks=(64, 64), compression="gzip")
        file.create_dataset("sparse", (1 << 22, 64), "<i4", chunks=(256, 64))
    data = np.zeros((1000, 700), "<i4")
    data[:3], data[600:610], data[-1] = 1, 2, 3
    np.save(tmp_path / "full.npy", data)
    run("cp", "--sparse=always", tmp_path / "full.npy", tmp_path / "holes.npy")
    data[-1] = 0
    np.save(tmp_path / "zero_end.npy", data)
    run("cp", "--sparse=always", tmp_path / "zero_end.npy", tmp_path / "hole_at_end.npy")
    with mounted(tmp_path / "a.h5", tmp_path / "mnt") as m:
        npy = m.path / NPY
        run("cp", "--sparse=always", tmp_path / "hole_at_end.npy", npy / "end.npy")
        assert (np.load(npy / "end.npy") == data).all()
        run("cp", "--sparse=always", tmp_path / "holes.npy", npy / "gap.npy")
        data[-1] = 3
        assert (np.load(npy / "gap.npy") == data).all()
        with open(npy / "kept.npy", "wb") as file:
            file.write((tmp_path / "full.npy").read_bytes()[:128 + 2800 * 4])
        kept = np.full((1000, 700), 7)
        kept[:4] = data[:4]
        assert (np.load(npy / "kept.npy") == kept).all()
        open(npy / "nothing.npy", "wb").close()
        assert (np.load(npy / "nothing.npy") == 7).all()
        with open(npy / "sparse.npy", "wb") as file:  # what is zero already takes no chunk
            file.seek(128 + (1 << 22) * 256 - 4)
            file.write(b"\1\0\0\0")
        assert m.stats()["chunks_encoded"] + m.stats()["dirty_bytes"] // (256 * 64 * 4) < 2000
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["gap"][...] == data).all() and (file["kept"][...] == kept).all()
        assert file["sparse"].id.get_num_chunks() == 1 and file["sparse"][-1, -1] == 1


def test_zeros_that_a_truncating_writer_leaves_out_are_stored_where_absent_chunks_have_no_fill(tmp_path):
    """A Zarr reader takes uninitialised memory for an absent chunk whose fill_value is null."""
    zarr.open_group(str(tmp_path / "s.zarr"), "w").create_dataset("v", shape=(8,), chunks=(2,), dtype="i4", fill_value=None)
    with mounted(tmp_path / "s.zarr", tmp_path / "mnt") as m:
        with open(m.path / RAW / "v", "wb") as file:
            file.seek(28)
            file.write(b"\1\0\0\0")
    assert {p.name for p in (tmp_path / "s.zarr/v").iterdir() if p.name.isdigit()} == {"0", "1", "2", "3"}
    assert zarr.open(str(tmp_path / "s.zarr"), "r")["v"][...].tolist() == [0] * 7 + [1]


@pytest.mark.parametrize("filters", [{}, {"compression": "gzip", "shuffle": True}])
def test_small_chunks_of_hdf5_are_stored_many_at_a_time(tmp_path, filters):
    count = 3000
    values = np.arange(count * 1024, dtype="<i4").reshape(count, 1024)
    np.save(tmp_path / "values.npy", values)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", shape=values.shape, dtype="<i4", chunks=(1, 1024), **filters)
    with mounted(tmp_path / "a.h5", tmp_path / "mnt") as m:
        run("dd", f"if={tmp_path}/values.npy", f"of={m.path / NPY / 'v.npy'}", "bs=1M", "conv=notrunc,fsync", seconds=100)
        stats = m.stats()
        assert stats["chunks_encoded"] == count and stats["dirty_bytes"] == 0
        assert stats["store_calls"] < count // 8, stats["store_calls"]
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["v"][...] == values).all()


def test_after_truncation(tmp_path):
    """What is left out is zeros, which earlier readers see too; a mapping leaves out nothing; and behind the end
    nothing is written, so nothing is left out."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.ones((4, 4096), "<i4"), chunks=(1, 4096))
    with mounted(tmp_path / "a.h5", tmp_path / "mnt") as m:
        raw = m.path / RAW / "v"
        with open(raw, "rb", buffering=0) as reader:
            assert reader.read() == np.ones(4 * 4096, "<i4").tobytes()
            with open(raw, "w+b", buffering=0) as file:
                with mmap.mmap(file.fileno(), 65536) as mapped:
                    mapped[60_000:60_004] = b"\2\0\0\0"
                    mapped.flush()
                assert error_of(os.pwrite, file.fileno(), b"x", 65536) == errno.EFBIG
                assert np.frombuffer(raw.read_bytes(), "<i4").sum() == 4 * 4096 + 1
                os.pwrite(file.fileno(), b"\3\0\0\0", 32768)
            reader.seek(0)
            found = np.frombuffer(reader.read(), "<i4")
            assert (found[:8192] == 0).all() and found[8192] == 3 and found[15_000] == 2 and (found[8193:15_000] == 1).all()
        with open(raw, "w+b", buffering=0) as file:
            assert np.load(m.path / NPY / "v.npy").sum() == found.sum()
            file.truncate(65536)
        assert raw.read_bytes() == bytes(65536)


def test_what_is_refused(tmp_path):
    values = np.arange(200.0).reshape(10, 20)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=values, chunks=(4, 5), compression="gzip")
        file.create_group("g")
    with mounted(tmp_path / "a.h5", tmp_path / "mnt") as m:
        npy = m.path / NPY / "v.npy"
        for wrong in (values.T.copy(), values.astype(">f8"), values.astype("<f4"), np.asfortranarray(values), values[:9], values[None]):
            assert error_of(np.save, npy, wrong) == errno.EINVAL
            assert "'shape': (10, 20)" in xattr(npy, "_Error")
            assert (np.load(npy) == values).all()
        for action, code in [
            (lambda: os.truncate(npy, 100), errno.EINVAL), (lambda: os.truncate(npy, 5000), errno.EINVAL),
            (lambda: open(npy, "ab", buffering=0).write(b"x"), errno.EFBIG), (lambda: npy.unlink(), errno.EPERM),
            (lambda: npy.rename(npy.with_name("w.npy")), errno.EPERM), (lambda: (npy.parent / "new.npy").touch(), errno.EPERM),
            (lambda: (npy.parent / "d").mkdir(), errno.EPERM), (lambda: (npy.parent / "g").rmdir(), errno.EPERM),
            (lambda: os.symlink("v.npy", npy.parent / "l"), errno.EPERM), (lambda: os.chmod(npy, 0o600), errno.EPERM),
            (lambda: (m.path / RAW / ".zattrs").write_text("{}"), errno.EPERM),
        ]:
            assert error_of(action) == code, code
        os.truncate(npy, npy.stat().st_size)
        assert (np.load(npy) == values).all()
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["v"][...] == values).all()


def test_read_only(mount, cases):
    m = mount(cases[0] / "cases.h5", "ro")
    npy = m.path / NPY / "v8_0.npy"
    for action in (lambda: np.load(npy, mmap_mode="r+"), lambda: np.save(npy, np.load(npy)), lambda: open(npy, "r+b")):
        assert error_of(action) == errno.EROFS
    assert oct(npy.stat().st_mode & 0o777) == oct(0o444 & (cases[0] / "cases.h5").stat().st_mode)


def test_a_variable_that_cannot_be_written(mount):
    m = mount(DATA / "hdf5/virtual_dataset.h5", )
    names = [p for p in (m.path / NPY).iterdir() if (m.path / p.stem / "_Filter").exists() and xattr(m.path / p.stem, "_Storage") == "virtual"]
    assert names
    for npy in names:
        assert error_of(np.load, npy, "r+") in (errno.EROFS, errno.EOPNOTSUPP)


def test_rules_apply_to_what_is_written_here(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.arange(100), chunks=(10,))
    with mounted(tmp_path / "a.h5", tmp_path / "mnt", rules=["*,shuffle|1,4"]) as m:
        mapped = np.load(m.path / NPY / "v.npy", mmap_mode="r+")
        mapped[5:15] = 0
        mapped.flush()
        del mapped
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["v"].compression == "gzip" and file["v"].shuffle
        assert file["v"][4:16].tolist() == [4] + [0] * 10 + [15]


def test_fsync_makes_it_durable(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.zeros((40, 40)), chunks=(7, 7), compression="gzip")
    m = mounted(tmp_path / "a.h5", tmp_path / "mnt", "commit=3600")
    with m as mount:
        mapped = np.load(mount.path / NPY / "v.npy", mmap_mode="r+")
        mapped[3:30, 5:9] = 1
        mapped.flush()
        mount.kill()
        del mapped
    run(os.environ["CODECFS"], "--recover", tmp_path / "a.h5", seconds=30)
    expected = np.zeros((40, 40))
    expected[3:30, 5:9] = 1
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["v"][...] == expected).all()


# --- one state, many views

def test_views_see_each_others_writes(tmp_path):
    values = np.arange(240, dtype="<i2").reshape(12, 20)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=values, chunks=(5, 8), compression="gzip")
    with mounted(tmp_path / "a.h5", tmp_path / "mnt") as m:
        npy = np.load(m.path / NPY / "v.npy", mmap_mode="r+")
        raw = np.memmap(m.path / RAW / "v", "<i2", "r+", shape=values.shape)
        chunk = np.memmap(m.path / "v/1.1", "<i2", "r+", shape=(5, 8))
        encoded = m.path / ".codecfs/view/encoded/v/1.1"

        def check():
            assert (npy == values).all() and (raw == values).all()
            assert (chunk == values[5:10, 8:16]).all()
            assert np.frombuffer(zarr.open(str(encoded.parent), "r")[5:10, 8:16].tobytes(), "<i2").tolist() == values[5:10, 8:16].ravel().tolist()
            assert (m.path / "v/0.0").read_bytes() == values[:5, :8].tobytes()

        check()
        npy[4:7, 3:12] = values[4:7, 3:12] = -1
        npy.flush()
        check()
        raw[8:, 15] = values[8:, 15] = -2
        raw.flush()
        check()
        chunk[2, 2:5] = values[7, 10:13] = -3
        chunk.flush()
        check()
        (m.path / "v/0.0").write_bytes(np.full((5, 8), -4, "<i2").tobytes())
        values[:5, :8] = -4
        check()
        # The encoded form of one chunk as another.
        (encoded.parent / "0.1").write_bytes((encoded.parent / "0.0").read_bytes())
        values[:5, 8:16] = -4
        check()
        (m.path / "v/1.0").unlink()
        values[5:10, :8] = 0
        check()
        del npy, raw, chunk
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["v"][...] == values).all()


@pytest.mark.parametrize("threads", [1, 8])
def test_writes_beside_a_dirty_mapping_do_not_wait_for_each_other(tmp_path, threads):
    values = np.arange(65536, dtype="<i4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=values, chunks=(4096,), compression="gzip")
    with mounted(tmp_path / "a.h5", tmp_path / "mnt", f"threads={threads}") as m:
        mapped = np.load(m.path / NPY / "v.npy", mmap_mode="r+")
        fastest = 10
        for i in range(4):
            mapped[:] = values[:] = i  # the kernel has to write it before it can forget it
            begun = time.monotonic()
            (m.path / f"v/{i}").write_bytes(np.full(4096, 100 + i, "<i4").tobytes())
            fastest = min(fastest, time.monotonic() - begun)
            values[i * 4096:(i + 1) * 4096] = 100 + i
            if threads > 1:
                assert (mapped == values).all(), i
        assert fastest < 0.8  # each would wait a second for its notice
        mapped.flush()
        del mapped
        if threads > 1:
            assert (m.path / RAW / "v").read_bytes() == values.tobytes()
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["v"][4 * 4096:] == 3).all()
        if threads > 1:
            assert (file["v"][...] == values).all()
        else:  # the one that writes cannot wait for the mapping's pages: either order
            assert np.isin(file["v"][3 * 4096:4 * 4096], (3, 103)).all()


def test_a_mapping_shows_nothing_that_was_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.arange(4096, dtype="<i4"), chunks=(1024,))
    with mounted(tmp_path / "a.h5", tmp_path / "mnt") as m:
        npy = m.path / NPY / "v.npy"
        with open(npy, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:6] = b"BROKEN"
            mapped[200:204] = b"\1\2\3\4"
            assert error_of(mapped.flush) == errno.EINVAL
            values = np.frombuffer(mapped, "<i4", offset=128)
            deadline = time.monotonic() + 5  # the kernel is told after the refusal
            while not ((values == np.arange(4096)).all() and (np.load(npy) == np.arange(4096)).all()):
                assert time.monotonic() < deadline, (values[18:20], np.load(npy)[18:20])
                time.sleep(0.01)
            del values
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["v"][...] == np.arange(4096)).all()


def test_no_call_waits_for_the_invalidation_of_millions_of_chunks(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("many", shape=(8_000_000,), chunks=(1,), dtype="<i4", compression="gzip")[5] = 3
        file.create_dataset("w", data=np.arange(64, dtype="<i4"), chunks=(16,), compression="gzip")
    with mounted(tmp_path / "a.h5", tmp_path / "mnt", "commit=1") as m:
        encoded = m.path / ".codecfs/view/encoded"
        known = [encoded / "many" / str(number) for number in (0, 5, 7_999_999)]
        before = [path.read_bytes() for path in known]
        assert zlib.decompress(before[1]) == np.int32(3).tobytes()
        assert np.load(m.path / NPY / "w.npy")[0] == 0 and zlib.decompress((encoded / "w/0").read_bytes())[:4] == bytes(4)
        (m.path / "many/_Filter").write_text("none")
        used = m.processor_seconds()
        for value in range(100, 105):
            (m.path / "w/0").write_bytes(np.full(16, value, "<i4").tobytes())
            assert np.load(m.path / NPY / "w.npy")[0] == value
            assert zlib.decompress((encoded / "w/0").read_bytes()) == np.full(16, value, "<i4").tobytes()
        assert m.processor_seconds() - used < 4, "millions of notices take more"
        # Those that the kernel knows are forgotten, and soon.
        deadline = time.monotonic() + 5
        expected = [np.int32(value).tobytes() for value in (0, 3, 0)]
        while [path.read_bytes() for path in known] != expected:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert [path.stat().st_size for path in known] == [4, 4, 4]
        assert m.resident_peak() < 200 << 20


def test_names_without_room_for_a_suffix(mount, tmp_path):
    names = ["a" * 251, "b" * 252, "b" * 251 + "c", "d" * 255, "温" * 84 + "xy", "é" * 200, "%" * 250 + "~"]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for i, name in enumerate(names):
            file.create_dataset(name, data=np.arange(i + 1), chunks=(1,))
        file["link"] = h5py.SoftLink("d" * 255)
        file["plain"] = np.arange(20)
    for view in ("decoded", "npy"):
        m = mount(tmp_path / "a.h5", f"view={view}")
        npy = m.path / ".codecfs/view/npy"
        shown = [path for path in npy.iterdir() if path.is_file() and not path.is_symlink()]
        assert all(path.name.endswith(".npy") and len(os.fsencode(path.name)) <= 255 for path in shown)
        assert sorted(len(np.load(path)) for path in shown) == [1, 2, 3, 4, 5, 6, 7, 20]
        assert (npy / ("a" * 251 + ".npy")).exists()
        assert np.load(npy / "link.npy").tolist() == [0, 1, 2, 3]
        for absent in ("b" * 233 + "%~0123456789abcdef.npy", "d" * 233 + "%~0123456789abcdef.npy", "d" * 255):
            assert error_of((npy / absent).stat) == errno.ENOENT
    shutil.copy(tmp_path / "a.h5", tmp_path / "b.h5")
    with mounted(tmp_path / "b.h5", tmp_path / "writing") as m:
        for path in (m.path / NPY).iterdir():
            if path.is_file() and len(os.fsencode(path.name)) > 200:
                mapped = np.load(path, mmap_mode="r+")
                mapped[:] = -1
                mapped.flush()
                del mapped
        long = next(path for path in (m.path / NPY).iterdir() if path.name.startswith("d"))
        os.rename(m.path / ("d" * 255), m.path / "short")
        assert error_of(long.stat) == errno.ENOENT and (np.load(m.path / NPY / "short.npy") == -1).all()
        os.rename(m.path / "short", m.path / ("d" * 255))
        assert (np.load(long) == -1).all() and not (m.path / NPY / "short.npy").exists()
    with h5py.File(tmp_path / "b.h5") as file:
        assert all((file[name][...] == -1).all() for name in names) and file["plain"][5] == 5


def test_another_shape_and_chain(tmp_path):
    values = np.arange(240, dtype="<i2").reshape(12, 20)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=values, chunks=(5, 8), maxshape=(None, None))
    with mounted(tmp_path / "a.h5", tmp_path / "mnt") as m:
        npy = m.path / NPY / "v.npy"
        assert (np.load(npy) == values).all()
        os.setxattr(m.path / "v", "user._Filter", b"shuffle|1,5")
        assert (np.load(npy) == values).all()
        zarray = m.path / "v/.zarray"
        held = open(npy, "r+b", buffering=0)
        for shape, kept in (((17, 20), values), ((6, 20), values[:6]), ((6, 25), values[:6])):
            text = zarray.read_text()
            now = np.load(npy).shape
            zarray.write_text(text.replace(f"[\n        {now[0]},\n        {now[1]}\n    ]", str(list(shape))).replace(str(list(now)), str(list(shape))))
            array = np.load(npy)
            assert array.shape == shape
            assert (array[:kept.shape[0], :kept.shape[1]] == kept[:shape[0], :shape[1]]).all()
        assert error_of(held.write, b"\x93NUMPY") == errno.ESTALE
        held.close()
        array[3] = 9
        np.save(npy, array)
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["v"][...] == array).all() and file["v"].compression == "gzip"


def test_variables_come_and_go(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["old"] = np.arange(5)
    for view in ("decoded", "npy"):
        with mounted(tmp_path / "a.h5", tmp_path / f"mnt_{view}", f"view={view}") as m:
            npy, decoded = (m.path / ".codecfs/view" / name for name in ("npy", "decoded"))
            name = f"new_{view}"
            assert not (npy / f"{name}.npy").exists() and not (npy / name).exists()
            group = zarr.open_group(str(decoded), "r+")
            group.create_dataset(name, data=np.arange(12).reshape(3, 4), chunks=(2, 2), compressor=None)
            assert np.load(npy / f"{name}.npy").tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
            assert not (npy / name).exists()
            os.rename(decoded / name, decoded / f"{name}_moved")
            assert not (npy / f"{name}.npy").exists()
            assert np.load(npy / f"{name}_moved.npy").sum() == 66
            mapped = np.load(npy / f"{name}_moved.npy", mmap_mode="r+")
            mapped[0] = 1
            mapped.flush()
            del mapped
            shutil.copytree(decoded / f"{name}_moved", decoded / f"{name}_copy")
            assert np.load(npy / f"{name}_copy.npy").sum() == 64
            shutil.rmtree(decoded / f"{name}_copy")
            assert not (npy / f"{name}_copy.npy").exists()
            assert not any(p.name == f"{name}_copy.npy" for p in npy.iterdir())


def test_a_damaged_chunk_is_an_error_and_the_rest_is_there(mount):
    path = DATA / "hdf5/damaged_byte_under_fletcher32.h5"
    m = mount(path)
    npy = next((m.path / NPY).glob("*.npy"))
    assert error_of(npy.read_bytes) == errno.EIO
    assert "_Error" in "".join(os.listxattr(npy)) and "checksum" in xattr(npy, "_Error").lower()
