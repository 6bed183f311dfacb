"""Another shape of an HDF5 dataset whose edge chunks libhdf5 encodes anew, and chunks that it allocates and never writes.

libhdf5 leaves the former filter mask in its index where the encoded size stays the same. The judge is numpy's own arithmetic, by
h5py in the file that the unmount leaves.
"""
import ctypes
import json

import h5py
import numpy as np
import pytest

# Maximum shapes, by the index that libhdf5 takes for them.
INDEXES = {
    "btree": ("earliest", (None, 9)), "single": ("latest", (12, 9)), "fixed": ("latest", (12, 9)),
    "extensible": ("latest", (None, 9)), "btree2": ("latest", (None, None)),
}
VALUES = np.arange(12 * 9, dtype="<i4").reshape(12, 9) * 1_000_003


def chunks_of(kind):
    return (12, 9) if kind == "single" else (5, 4)


def make(path, kind, how):
    """`how`: which filters there are, and which of them the chunks are stored without."""
    version, maximum = INDEXES[kind]
    chunks = chunks_of(kind)
    filters = {"deflate": {"compression": "gzip"}, "shuffle": {"shuffle": True}, "lzf": {"compression": "lzf", "shuffle": True}}[how]
    with h5py.File(path, "w", libver=version) as file:
        data = file.create_dataset("v", (12, 9), "<i4", chunks=chunks, maxshape=maximum, fillvalue=-7, **filters)
        for at in np.ndindex(*(-(-n // c) for n, c in zip(data.shape, chunks))):
            box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunks))
            whole = np.full(chunks, 99, "<i4")  # beyond the edge anything
            part = VALUES[box]
            whole[:part.shape[0], :part.shape[1]] = part
            data.id.write_direct_chunk(tuple(b.start for b in box), whole.tobytes(), (1 << data.id.get_create_plist().get_nfilters()) - 1)
    return chunks


def set_shape(mount, shape, variable="v"):
    path = mount.path / variable / ".zarray"
    told = json.loads(path.read_text())
    told["shape"] = list(shape)
    path.write_text(json.dumps(told))


def shown(mount, shape, chunks):
    """The array of the chunk files."""
    array = np.full(shape, -7, "<i4")
    for at in np.ndindex(*(-(-n // c) for n, c in zip(shape, chunks))):
        path = mount.path / "v" / ".".join(map(str, at))
        if path.exists():
            box = tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(at, chunks, shape))
            chunk = np.frombuffer(path.read_bytes(), "<i4").reshape(chunks)
            array[box] = chunk[:box[0].stop - box[0].start, :box[1].stop - box[1].start]
    return array


@pytest.mark.parametrize("how", ["shuffle", "deflate", "lzf"])
@pytest.mark.parametrize("kind", INDEXES)
def test_a_cut_through_chunks_without_filters(mount, tmp_path, kind, how):
    path = tmp_path / "a.h5"
    chunks = make(path, kind, how)
    m = mount(path)
    expected = VALUES
    for shape in ((11, 9), (9, 7), (12, 9), (7, 3), (7, 8)):
        set_shape(m, shape)
        now = np.full(shape, -7, "<i4")
        kept = tuple(slice(0, min(a, b)) for a, b in zip(shape, expected.shape))
        now[kept] = expected[kept]
        expected = now
        assert np.array_equal(shown(m, shape, chunks), expected), shape
    m.close()
    with h5py.File(path, "r") as file:
        assert file["v"].shape == (7, 8) and np.array_equal(file["v"][()], expected)


def test_a_cut_through_one_chunk(mount, tmp_path):
    """After it no other chunk is looked up: what libhdf5 remembers of the last one is not what is in its index."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("v", (4,), "<i4", chunks=(4,), maxshape=(None,), shuffle=True)
        data.id.write_direct_chunk((0,), np.array([1, 2, 3, 4], "<i4").tobytes(), 1)
    m = mount(path)
    set_shape(m, (3,))
    m.close()
    with h5py.File(path, "r") as file:
        assert file["v"][()].tolist() == [1, 2, 3]


@pytest.mark.parametrize("codec", ["lzf", "gzip"])
def test_a_cut_through_chunks_that_do_not_compress(mount, tmp_path, codec):
    """As written through the mount: an optional filter is left out where it makes a chunk larger."""
    path = tmp_path / "a.h5"
    values = np.random.default_rng(3).integers(0, 256, (24, 5), "u1")
    with h5py.File(path, "w") as file:
        file.create_dataset("v", (24, 5), "u1", chunks=(3, 2), maxshape=(None, None), compression=codec, shuffle=True)
    m = mount(path)
    for i in range(8):
        for j in range(3):
            whole = np.zeros((3, 2), "u1")
            part = values[3 * i:3 * i + 3, 2 * j:2 * j + 2]
            whole[:, :part.shape[1]] = part
            (m.path / "v" / f"{i}.{j}").write_bytes(whole.tobytes())
    for shape in ((23, 5), (22, 3), (20, 1)):
        set_shape(m, shape)
    m.close()
    with h5py.File(path, "r") as file:
        assert np.array_equal(file["v"][()], values[:20, :1])


def test_partial_chunks_without_filters_that_become_whole(mount, tmp_path):
    """libhdf5 (H5Pset_chunk_opts) filters them when the shape grows; where that makes them no smaller, it forgets to say so."""
    path = tmp_path / "a.h5"
    values = np.random.default_rng(4).integers(0, 256, 10, "u1")
    with h5py.File(path, "w", libver="latest") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((8,))
        properties.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL, (4, 261, 8))
        library = next(line.split()[-1] for line in open("/proc/self/maps") if "libhdf5_serial.so" in line)
        assert ctypes.CDLL(library).H5Pset_chunk_opts(ctypes.c_int64(properties.id), 2) >= 0  # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS
        space = h5py.h5s.create_simple((10,), (h5py.h5s.UNLIMITED,))
        h5py.h5d.create(file.id, b"v", h5py.h5t.STD_U8LE, space, properties)
        file["v"][...] = values
    m = mount(path)
    set_shape(m, (17,))
    m.close()
    with h5py.File(path, "r") as file:
        assert np.array_equal(file["v"][:10], values)


@pytest.mark.parametrize("shape", [(16, 1), (16, 40)])
def test_chunks_that_are_allocated_and_never_written(mount, tmp_path, shape):
    """Allocation EARLY, fill time NEVER: they lie beyond the end of the file until it is closed, and are zeros, as in libhdf5."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((4, 4))
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        space = h5py.h5s.create_simple((16, 0), (h5py.h5s.UNLIMITED,) * 2)
        narrow = h5py.h5t.STD_I32LE.copy()
        narrow.set_precision(20)  # libhdf5 reads the chunks of that one
        for name, kind in ((b"v", h5py.h5t.STD_I32LE), (b"narrow", narrow)):
            h5py.h5d.create(file.id, name, kind, space, properties)
    m = mount(path)
    for variable in ("v", "narrow"):
        set_shape(m, shape, variable)
        names = [p for p in (m.path / variable).iterdir() if p.name[0].isdigit()]
        assert len(names) == 4 * -(-shape[1] // 4)
        for name in names:
            assert name.read_bytes() == bytes(64)
        set_shape(m, (15, shape[1]), variable)  # libhdf5 reads those at the edge
    (m.path / "v/0.0").write_bytes(np.full(16, 5, "<i4").tobytes())
    m.close()
    with h5py.File(path, "r") as file:
        assert (file["v"][:4, :4] == 5).all() and not file["v"][4:].any() and not file["narrow"][()].any()


def test_the_first_chunk_where_all_are_allocated_with_it(mount, tmp_path):
    """libhdf5 first stores a chunk of fill there. Here that has the same size, and another filter was left out."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((28,))
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
        properties.set_deflate(6)
        properties.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL, (4, 261, 28))
        h5py.h5d.create(file.id, b"v", h5py.h5t.STD_U8LE, h5py.h5s.create_simple((56,)), properties)
    values = np.array([0, 1, 7] + [0] * 25, "u1")
    m = mount(path)
    (m.path / "v/0").write_bytes(values.tobytes())
    m.close()
    with h5py.File(path, "r") as file:
        assert np.array_equal(file["v"][:28], values) and not file["v"][28:].any()


def test_another_filter_left_out_and_the_same_size(mount, tmp_path):
    """Of chunks that libhdf5 encodes, as their type has bits that are not used."""
    path = tmp_path / "a.h5"
    chunks, size = 200, 40_000
    with h5py.File(path, "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((size,))
        properties.set_deflate(6)
        properties.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL, (4, 261, size))
        narrow = h5py.h5t.STD_U8LE.copy()
        narrow.set_precision(7)
        h5py.h5d.create(file.id, b"v", narrow, h5py.h5s.create_simple((chunks * size,)), properties)
    random = np.random.default_rng(1)
    values = np.zeros((chunks, size), "u1")
    for i, chunk in enumerate(values):
        if i % 2 == 0:  # lzf makes what deflate makes of many zeros smaller
            chunk[:i] = random.integers(0, 127, i)
        else:
            chunk[random.integers(0, size, i // 2)] = random.integers(0, 127, i // 2)
    m = mount(path)
    for i in range(chunks):
        (m.path / "v" / str(i)).write_bytes(values[i].tobytes())
    m.close()
    with h5py.File(path, "r") as file:
        stored = [file["v"].id.get_chunk_info_by_coord((i * size,)) for i in range(chunks)]
        assert np.array_equal(file["v"][...], values.ravel())
    pairs = [(i, j) for i in range(chunks) for j in range(chunks)
             if stored[i].size == stored[j].size and stored[i].filter_mask != stored[j].filter_mask]
    assert pairs
    m = mount(path)
    expected = values.copy()
    for i, j in dict(pairs).items():
        (m.path / "v" / str(i)).write_bytes(values[j].tobytes())
        expected[i] = values[j]
    m.close()
    with h5py.File(path, "r") as file:
        assert np.array_equal(file["v"][...], expected.ravel())
