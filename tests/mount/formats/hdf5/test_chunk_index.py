"""Every chunk index of HDF5, with unlimited dimensions at every place: compacted, re-encoded, copied and listed.

The judge is H5Dread (through h5py) against arrays that numpy made: a walk of an index (H5Dget_chunk_info, H5Dchunk_iter,
H5Ocopy) is never asked for coordinates, as that of libhdf5 1.10 gives wrong ones for extensible arrays.
"""
import itertools
import os

import h5py
import numpy as np
import pytest
import zarr

from running import codecfs, run

SHAPE = (5, 7, 6)
CHUNKS = (2, 3, 2)
ALLOCATION = {"early": h5py.h5d.ALLOC_TIME_EARLY, "late": h5py.h5d.ALLOC_TIME_LATE, "incr": h5py.h5d.ALLOC_TIME_INCR}


def places():
    """Maximum shapes: each subset of dimensions unlimited; and dimensions that may grow to a limit."""
    for unlimited in itertools.product((False, True), repeat=len(SHAPE)):
        name = "".join("u" if u else "f" for u in unlimited)
        yield name, tuple(None if u else n for u, n in zip(unlimited, SHAPE))
        yield name + "_limits", tuple(None if u else 3 * n for u, n in zip(unlimited, SHAPE))


def make_dataset(file, name, shape, maximum, chunks, allocation, compressed, dtype="<i4", fill=-1):
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(chunks)
    properties.set_alloc_time(ALLOCATION[allocation])
    properties.set_fill_value(np.array(fill, dtype))
    if compressed:
        properties.set_shuffle()
        properties.set_deflate(4)
    limits = tuple(h5py.h5s.UNLIMITED if n is None else n for n in maximum)
    space = h5py.h5s.create_simple(shape, limits)
    h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(np.dtype(dtype)), space, properties)
    if "limits" not in name:  # without, all chunks of the grid are listed
        file[name].attrs.create("_FillValue", fill, dtype=dtype)
    return file[name]


def fill_some(dataset, random, fill=-1):
    """Writes some of the chunks, in any order; returns what the dataset holds then."""
    expected = np.full(dataset.shape, fill, dataset.dtype)
    boxes = [tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(at, dataset.chunks, dataset.shape))
             for at in np.ndindex(*(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks)))]
    for i in random.permutation(len(boxes))[:2 * len(boxes) // 3 + 1]:
        part = random.integers(0, 1 << 30, expected[boxes[i]].shape)
        dataset[boxes[i]] = part
        expected[boxes[i]] = part
    return expected


def make_file(path, version):
    """Datasets with every index that this version of the format makes; returns their contents by name."""
    random = np.random.default_rng(17)
    contents = {}
    with h5py.File(path, "w", libver=version) as file:
        for (place, maximum), allocation, compressed in itertools.product(places(), ALLOCATION, (False, True)):
            name = f"{place}_{allocation}_{'deflate' if compressed else 'plain'}"
            contents[name] = fill_some(make_dataset(file, name, SHAPE, maximum, CHUNKS, allocation, compressed), random)
            if place in ("fff", "fuf"):
                # A single chunk; a dataset that was never written; one whose shape has changed.
                one = "single_" + name
                contents[one] = fill_some(
                    make_dataset(file, one, SHAPE, maximum, SHAPE, allocation, compressed), random)
                never = "never_" + name
                make_dataset(file, never, SHAPE, maximum, CHUNKS, allocation, compressed)
                contents[never] = np.full(SHAPE, -1, "<i4")
            if place == "fuf_limits":
                grown = "grown_" + name
                dataset = make_dataset(file, grown, SHAPE, maximum, CHUNKS, allocation, compressed)
                before = fill_some(dataset, random)
                dataset.resize((8, 12, 6))
                contents[grown] = np.full((8, 12, 6), -1, "<i4")
                contents[grown][:5, :7] = before
                dataset[7, 11, 5] = 77
                contents[grown][7, 11, 5] = 77
        # Grids of more than 65,536 chunks, of which few are stored, are listed another way.
        side = 260
        for place, maximum in {"ff": (side, side), "fu": (side, None), "uf": (None, side), "uu": (None, None)}.items():
            name = "sparse_" + place
            dataset = make_dataset(file, name, (side, side), maximum, (1, 1), "incr", False, "u1", 0)
            contents[name] = np.zeros((side, side), "u1")
            for row, column in random.integers(0, side, (100, 2)):
                dataset[row, column] = contents[name][row, column] = row % 250 + 1
    return contents


@pytest.fixture(params=["earliest", "latest"])
def indexed(request, tmp_path):
    path = tmp_path / "indexed.h5"
    return path, make_file(path, request.param)


def check(path, contents):
    with h5py.File(path) as file:
        assert set(file) == set(contents)
        wrong = [name for name, expected in contents.items() if not np.array_equal(file[name][...], expected)]
    assert wrong == []


def test_the_file_holds_what_it_is_to_hold(indexed):
    check(*indexed)


def test_compact(indexed):
    path, contents = indexed
    os.truncate(path, path.stat().st_size + (1 << 20))  # something to gain
    done = codecfs("--compact", path)
    assert "became" in done.stdout + done.stderr
    check(path, contents)




def test_list_and_copy(indexed, mount, tmp_path):
    path, contents = indexed
    mounted = mount(path)
    run("cp", "-r", mounted.path, tmp_path / "copy.zarr")
    group = zarr.open_group(str(tmp_path / "copy.zarr"), mode="r")
    wrong = [name for name, expected in contents.items()
             if not name.startswith("sparse_") and not np.array_equal(group[name][...], expected)]
    assert wrong == []
    for name, expected in contents.items():
        if not name.startswith("sparse_"):
            continue
        # Exactly the stored chunks are listed and copied: the others are fill, as zarr-python reads them.
        stored = {f"{row}.{column}": bytes([expected[row, column]]) for row, column in np.argwhere(expected)}
        for directory in (mounted.path / name, tmp_path / "copy.zarr" / name):
            listed = {n for n in os.listdir(directory) if not n.startswith(".") and n[0] != "_"}
            assert {n: (directory / n).read_bytes() for n in listed} == stored, name
        assert group[name].shape == expected.shape and group[name].chunks == (1, 1) and group[name].fill_value == 0


def test_recode(indexed, mount):
    path, contents = indexed
    mounted = mount(path)
    for name in contents:
        os.setxattr(mounted.path / name, "user._Filter", b"2,1|1,2")
    mounted.close()
    check(path, contents)
    with h5py.File(path) as file:
        assert {name for name in file if file[name].compression_opts != 2} == set()
