"""codecfs info reads object headers and chunk indexes of HDF5 itself: the same answers as from libhdf5, for each kind of
object, compared by a program that asks both, and with h5py."""
import json
import os
import pathlib
import random
import re

import h5py
import numpy as np
import pytest
from conftest import DATA
from running import codecfs, run

COMPARE = os.environ.get("CODECFS_OVERVIEW_COMPARISON")
CORPUS = pathlib.Path(os.environ.get("CODECFS_CORPUS") or "/nonexistent")
VERSIONS = ["earliest", "latest"]


def compare(directory):
    """What is described quickly and all that is there, of all files in the directory; fails where answers differ."""
    if not COMPARE:
        pytest.skip("skipped: CODECFS_OVERVIEW_COMPARISON names no program")
    done = run(COMPARE, directory, seconds=300, env={"CODECFS_COUNT_QUICK": "1"})
    counts = re.findall(r"(\d+) of (\d+) variables", done.stdout)
    return sum(int(quick) for quick, _ in counts), sum(int(all_) for _, all_ in counts)


def info(path):
    return json.loads(codecfs("info", "--json", path).stdout)


def make(path, libver):
    """Datasets whose kinds are in their names; those below "slow" are left to libhdf5."""
    with h5py.File(path, "w", libver=libver) as f:
        i4 = np.arange(24, dtype="<i4").reshape(4, 6)
        f["contiguous"] = i4
        f["scalar"] = np.float64(3)
        f["empty"] = np.zeros((0, 3), "<f4")
        f.create_dataset("never_written", (5, 5), ">f8")
        f.create_dataset("null", data=h5py.Empty("<i2"))
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(f.id, b"compact", h5py.h5t.STD_I16LE, h5py.h5s.create_simple((7,)), compact)
        for name, options in {"plain": {}, "gzip": {"compression": "gzip"}, "shuffle": {"compression": 4, "shuffle": True},
                              "checked": {"fletcher32": True}, "lzf": {"compression": "lzf"},
                              "scaled": {"scaleoffset": 4}}.items():
            for kind, limits in {"fixed": None, "larger": (20, 30), "one_unlimited": (None, 6), "second_unlimited": (9, None),
                                 "all_unlimited": (None, None)}.items():
                f.create_dataset(f"chunks/{name}/{kind}", data=i4, chunks=(2, 2), maxshape=limits, **options)
            f.create_dataset(f"chunks/{name}/single", data=i4, chunks=(4, 6), **options)
            sparse = f.create_dataset(f"chunks/{name}/sparse", (60, 60), "<f4", chunks=(10, 10), maxshape=(None, 60), **options)
            sparse[11:33, 40:] = 1
            tree = f.create_dataset(f"chunks/{name}/tree", (80, 70), "<f4", chunks=(10, 10), maxshape=(None, None), **options)
            tree[:, 10:] = np.arange(80 * 60).reshape(80, 60)
            f.create_dataset(f"chunks/{name}/absent", (60, 60), "<f4", chunks=(10, 10), **options)
            shrunk = f.create_dataset(f"chunks/{name}/shrunk", data=i4, chunks=(2, 2), maxshape=(8, 8), **options)
            shrunk.resize((3, 3))
        early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        early.set_chunk((2, 3))
        early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        h5py.h5d.create(f.id, b"implicit", h5py.h5t.STD_I16LE, h5py.h5s.create_simple((7, 9)), early)
        values = {"i1": np.int8, "u2be": ">u2", "f2": "<f2", "bool": bool, "complex": "<c8", "fixed_text": "S7",
                  "enum": h5py.enum_dtype({"A": 1, "B": 7}, "<u2"), "array": np.dtype(("<f4", (2, 3))),
                  "struct": np.dtype([("a", "<i2"), ("b", ">f8", (2,)), ("c", [("d", "S3")])]), "opaque": np.dtype("V5"),
                  "text": h5py.string_dtype(), "list": h5py.vlen_dtype("<i4"), "reference": h5py.ref_dtype,
                  "list_in_struct": np.dtype([("a", h5py.vlen_dtype("u1"))])}
        for name, dtype in values.items():
            f.create_dataset(f"types/{name}", (3,), dtype)
            f.create_dataset(f"types/{name}_chunked", (3,), dtype, chunks=(2,))
        f.create_dataset("fill/set", (4, 4), "<i4", chunks=(2, 2), fillvalue=-7)
        f.create_dataset("fill/struct", (4,), np.dtype([("a", "<i2"), ("b", "<f8")]), fillvalue=np.array((1, 2), [("a", "<i2"), ("b", "<f8")]))
        told = f.create_dataset("fill/told", (4, 4), "<f4", chunks=(2, 2), fillvalue=9)
        told.attrs["_FillValue"] = np.float32(9)
        f.create_dataset("fill/told_array", (4,), "<f4", fillvalue=9).attrs.create("_FillValue", np.array([9], "<f4"))
        f.create_dataset("fill/other", (4, 4), "<f4", fillvalue=9).attrs["_FillValue"] = np.float32(8)
        f.create_dataset("fill/of_other_type", (4, 4), "<f4", fillvalue=9).attrs["_FillValue"] = np.float64(9)
        f.create_dataset("slow/fill_text", (4,), h5py.string_dtype(), fillvalue="x").attrs["_FillValue"] = "x"
        never = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        never.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        h5py.h5d.create(f["fill"].id, b"never", h5py.h5t.STD_I16LE, h5py.h5s.create_simple((7,)), never)
        for count in (3, 40):  # of which the latter are in a heap, in the newer format
            many = f.create_dataset(f"attributes/{count}", (3,), "<i4")
            for a in range(count):
                many.attrs[f"a{a}"] = ["text", 1.5, [1, 2, 3], np.bytes_(b"x" * a)][a % 4]
        f["attributes/named"] = i4
        f["attributes/named"].attrs["NAME"] = "This is a netCDF dimension but not a netCDF variable         3"
        f["attributes/named_otherwise"] = i4
        f["attributes/named_otherwise"].attrs["NAME"] = "x"
        f["type"] = np.dtype("<i4")
        f.create_dataset("slow/committed", (3,), f["type"])
        scale = f.create_dataset("scale", data=np.arange(6.0))
        scale.make_scale("y")
        f["contiguous"].dims[1].attach_scale(scale)
        f["again"] = f["contiguous"]  # links
        f["chunks/up"] = f["/"]
        f["group/loop"] = f.create_group("group")
        f["soft"] = h5py.SoftLink("/chunks/plain/fixed")
        f["dangling"] = h5py.SoftLink("/nothing")
        f["elsewhere"] = h5py.ExternalLink("other.h5", "/x")
        virtual = h5py.VirtualLayout((4, 6), "<i4")
        virtual[...] = h5py.VirtualSource(".", "contiguous", (4, 6))
        f.create_virtual_dataset("slow/virtual", virtual)
        f.create_dataset("slow/external", (4,), "<i4", external=[("raw.bin", 0, 16)])
        ordered = f.create_group("ordered", track_order=True)
        for name in ("z", "b", "a"):
            ordered[name] = i4
        for i in range(60):
            f[f"many/v{i:02}"] = np.full(3, i)


@pytest.mark.parametrize("libver", VERSIONS)
def test_libhdf5_has_the_same_answers(tmp_path, libver):
    (tmp_path / "files").mkdir()
    path = tmp_path / "files/all.h5"
    make(path, libver)
    quick, all_ = compare(tmp_path / "files")
    names = []
    with h5py.File(path) as f:
        f.visititems(lambda name, o: names.append(name) if isinstance(o, h5py.Dataset) else None)
    assert all_ >= len(names) - 2, (all_, len(names))
    assert quick >= 0.9 * all_, (quick, all_)


@pytest.mark.parametrize("libver", VERSIONS)
def test_h5py_has_the_same_numbers(tmp_path, libver):
    path = tmp_path / "all.h5"
    make(path, libver)
    found = {variable["path"]: variable for variable in info(path)["variables"]}
    seen = 0
    with h5py.File(path) as f:
        for name, variable in found.items():
            dataset = f[name]
            if dataset.is_virtual or dataset.external or dataset.shape is None or dataset.dtype.kind == "O":
                continue
            of_array = () if dataset.dtype.subdtype is None else dataset.dtype.subdtype[1]
            assert tuple(variable["shape"]) == dataset.shape + of_array, name
            assert variable["decoded_bytes"] == dataset.size * dataset.dtype.itemsize, name
            if dataset.chunks:
                assert tuple(variable["chunks"]) == dataset.chunks + of_array, name
                assert variable["stored_chunks"] == dataset.id.get_num_chunks(), name
            assert variable["stored_bytes"] == dataset.id.get_storage_size() or not dataset.chunks, name
            if not dataset.chunks and dataset.id.get_offset() is not None:
                assert variable["stored_bytes"] == dataset.nbytes * (dataset.id.get_storage_size() > 0), name
            codecs = variable["codecs"]
            assert len(codecs) == dataset.id.get_create_plist().get_nfilters(), name
            seen += 1
    assert seen > 150


def test_user_blocks_and_other_sizes_are_left_to_libhdf5(tmp_path):
    (tmp_path / "files").mkdir()
    with h5py.File(tmp_path / "files/block.h5", "w", userblock_size=512) as f:
        f["v"] = np.arange(5)
    creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    creation.set_sizes(4, 4)
    h5py.File(h5py.h5f.create(os.fsencode(tmp_path / "files/sizes.h5"), fcpl=creation)).create_dataset("v", data=np.arange(5))
    assert compare(tmp_path / "files") == (0, 2)


def test_files_of_other_tests(tmp_path):
    """Sources of all other tests of HDF5, but for damaged ones, with which libhdf5 may crash."""
    names = [path for path in (DATA / "hdf5").iterdir() if "damaged" not in path.name and path.is_file()]
    for path in names:
        (tmp_path / path.name).symlink_to(path)
    quick, all_ = compare(tmp_path)
    assert quick > all_ / 3, (quick, all_)


def test_corpus(tmp_path):
    files = [path for path in CORPUS.rglob("*") if path.is_file() and path.read_bytes()[:8] == b"\x89HDF\r\n\x1a\n"]
    if not files:
        pytest.skip("skipped: CODECFS_CORPUS names no folder of files to try")
    for i, path in enumerate(files):
        (tmp_path / f"{i}-{path.name}").symlink_to(path)
    quick, all_ = compare(tmp_path)
    assert all_ > 0
    print(f"{quick} of {all_} variables of {len(files)} files")


@pytest.mark.parametrize("libver", VERSIONS)
def test_damaged_files(tmp_path, libver):
    """info ends in time with an answer or an error, and mostly with an answer for each object."""
    whole = tmp_path / "whole.h5"
    make(whole, libver)
    data = whole.read_bytes()
    rng = random.Random(f"overview {libver}")
    before = {variable["path"] for variable in info(whole)["variables"]}
    path = tmp_path / "damaged.h5"
    answers = 0
    for turn in range(40):
        damaged = bytearray(data)
        if turn % 8 == 0:
            del damaged[rng.randrange(100, len(damaged)):]
        else:
            for _ in range(rng.choice((1, 4, 30))):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        done = codecfs("info", "--json", path, code=None)
        if done.returncode == 0:
            answers += len({variable["path"] for variable in json.loads(done.stdout)["variables"]} & before)
        else:
            assert done.returncode > 0 and str(path) in done.stderr, (turn, done.returncode, done.stderr)
    assert answers > 20 * len(before)
