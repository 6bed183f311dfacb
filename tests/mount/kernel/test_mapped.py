"""Mappings that share pages with what is written through other files: each byte is that of the writer that changed it last."""
import contextlib
import ctypes
import mmap
import os
import threading

import h5py
import numpy as np
import pytest
import zarr

SANITIZED = bool(os.environ.get("CODECFS_SANITIZE"))  # needs more memory
VIEW = ".codecfs/view"
SHAPE, CHUNKS = (40, 50), (1, 50)  # 20 chunks of 200 bytes share a page of the npy and raw views
ARRAY = np.arange(2000, dtype="<i4").reshape(SHAPE)


@pytest.fixture(params=["hdf5", "zarr", "zip"])
def m(request, mount, tmp_path):
    source = tmp_path / {"hdf5": "a.h5", "zarr": "a.zarr", "zip": "a.zip"}[request.param]
    if request.param == "hdf5":
        with h5py.File(source, "w") as file:
            file.create_dataset("v", data=ARRAY, chunks=CHUNKS, compression="gzip")
    else:
        store = zarr.ZipStore(str(source), mode="w") if request.param == "zip" else zarr.DirectoryStore(str(source))
        zarr.open_group(store, "w").create_dataset("v", data=ARRAY, chunks=CHUNKS)
        store.close()
    made = mount(source, "commit=3600")
    made.source = source
    return made


def stored(m):
    m.close()
    if m.source.suffix == ".h5":
        with h5py.File(m.source, "r") as file:
            return file["v"][...]
    return zarr.open_group(str(m.source), "r")["v"][...]


@contextlib.contextmanager
def mapped(path):
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        yield mapping


def write_synced(path, offset, data, flags=os.O_WRONLY):
    fd = os.open(path, flags)
    try:
        os.pwrite(fd, data, offset)
        os.fsync(fd)
    finally:
        os.close(fd)


def header(m, view):
    return os.stat(m.path / VIEW / "npy/v.npy").st_size - ARRAY.nbytes if view == "npy" else 0


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR])
@pytest.mark.parametrize("by", ["chunk", "other view", "encoded"])
@pytest.mark.parametrize("view", ["npy", "raw"])
def test_a_mapped_page_keeps_what_another_file_changed(m, view, by, flags):
    file = m.path / VIEW / view / ("v.npy" if view == "npy" else "v")
    first = header(m, view)
    sevens = np.full(50, 7, "<i4")
    with mapped(file) as a:
        a[first:first + 4] = b"\1\0\0\0"  # row 0
        if by == "chunk":
            write_synced(m.path / "v/1.0", 0, sevens.tobytes(), flags)
        elif by == "other view":
            other = "raw" if view == "npy" else "npy"
            write_synced(m.path / VIEW / other / ("v" if other == "raw" else "v.npy"), header(m, other) + 200, sevens.tobytes(), flags)
        else:
            (m.path / VIEW / "encoded/v/5.0").read_bytes()
            data = (m.path / VIEW / "encoded/v/5.0").read_bytes()
            write_synced(m.path / VIEW / "encoded/v/1.0", 0, data, os.O_WRONLY | os.O_TRUNC)
            sevens = ARRAY[5]
        a[first + 800:first + 804] = b"\2\0\0\0"  # row 4
        a.flush()
        assert bytes(a[first + 200:first + 400]) == sevens.tobytes()
    expected = ARRAY.copy()
    expected[0, 0], expected[1], expected[4, 0] = 1, sevens, 2
    assert (m.path / "v/1.0").read_bytes() == sevens.tobytes()
    assert np.array_equal(np.load(m.path / VIEW / "npy/v.npy"), expected)
    assert np.array_equal(stored(m), expected)


@pytest.mark.parametrize("by", ["npy", "raw", "itself"])
def test_a_mapped_chunk_keeps_what_another_file_changed(m, by):
    with mapped(m.path / "v/3.0") as a:
        a[0:4] = b"\1\0\0\0"
        if by == "itself":
            write_synced(m.path / "v/3.0", 8, b"\7\0\0\0")
        else:
            write_synced(m.path / VIEW / by / ("v.npy" if by == "npy" else "v"), header(m, by) + 600 + 8, b"\7\0\0\0")
        a[16:20] = b"\2\0\0\0"
        a.flush()
        assert bytes(a[8:12]) == b"\7\0\0\0"
    expected = ARRAY.copy()
    expected[3, 0], expected[3, 2], expected[3, 4] = 1, 7, 2
    assert np.array_equal(stored(m), expected)


def test_a_value_that_was_there_before_is_stored_too(m):
    """What a mapping changes back is a change against what was stored meanwhile."""
    file = m.path / VIEW / "raw/v"
    with mapped(file) as a:
        for value in (9, 0, 9, 0, 5):
            a[0:4] = value.to_bytes(4, "little")
            a.flush()
            assert (m.path / "v/0.0").read_bytes()[:4] == value.to_bytes(4, "little")
        with open(file, "r+b", buffering=0) as other:  # into the same pages
            other.write(b"\3")
            a[0:1] = b"\5"
            a.flush()
            assert (m.path / "v/0.0").read_bytes()[:1] == b"\5"
            os.pwrite(other.fileno(), b"\6" * 8192, 0)
            a[0:1] = b"\6"
            a[1:2] = b"\0"
            a.flush()
        assert (m.path / "v/0.0").read_bytes()[:4] == b"\6\0\6\6"
        write_synced(m.path / "v/0.0", 0, b"\4\4")
        assert a[0:4] == b"\4\4\6\6"
        a[0:2] = b"\6\0"
        a.flush()
        assert (m.path / "v/0.0").read_bytes()[:4] == b"\6\0\6\6"


@pytest.mark.parametrize("by", ["chunk", "npy"])
def test_zeros_mapped_over_an_absent_chunk_without_fill_value_are_stored(mount, tmp_path, by):
    """A Zarr reader takes uninitialised memory for an absent chunk whose fill_value is null."""
    group = zarr.open_group(str(tmp_path / "s.zarr"), "w")
    group.create_dataset("v", shape=(4, 8), chunks=(2, 8), dtype="i2", fill_value=None)
    mounted = mount(tmp_path / "s.zarr")
    with mapped(mounted.path / ("v/1.0" if by == "chunk" else f"{VIEW}/npy/v.npy")) as a:
        a[-4:] = bytes(4)
        a.flush()
    mounted.close()
    assert (tmp_path / "s.zarr/v/1.0").exists()
    assert np.array_equal(zarr.open(str(tmp_path / "s.zarr"))["v"][2:], np.zeros((2, 8), "i2"))


@pytest.mark.parametrize("fill", ["never", "undefined"])
@pytest.mark.parametrize("by", ["chunk", "npy"])
def test_the_fill_mapped_over_an_absent_chunk_that_libhdf5_does_not_fill_is_stored(mount, tmp_path, by, fill):
    """libhdf5 leaves the memory of a reader as it is for absent chunks."""
    value = 7 if fill == "never" else 0
    with h5py.File(tmp_path / "a.h5", "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((2, 8))
        if fill == "never":
            properties.set_fill_value(np.array(value, "i1"))
            properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        else:
            library = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "libhdf5_serial.so" in line))
            assert library.H5Pset_fill_value(ctypes.c_int64(properties.id), ctypes.c_int64(h5py.h5t.STD_I8LE.id), None) >= 0
        h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I8LE, h5py.h5s.create_simple((4, 8)), properties)
    mounted = mount(tmp_path / "a.h5")
    with mapped(mounted.path / ("v/1.0" if by == "chunk" else f"{VIEW}/npy/v.npy")) as a:
        assert a[-4:] == bytes([value] * 4)
        a[-4:] = bytes([value] * 4)
        a.flush()
    mounted.close()
    with h5py.File(tmp_path / "a.h5", "r") as file:
        assert (2, 0) in [file["v"].id.get_chunk_info(i).chunk_offset for i in range(file["v"].id.get_num_chunks())]
        assert (file["v"][2:] == value).all()


def test_a_chunk_that_is_cut_while_it_is_mapped(m):
    path = m.path / "v/2.0"
    with mapped(path) as a:
        a[0:4] = b"\1\1\1\1"
        os.truncate(path, 100)
        os.truncate(path, 200)
        a[120:124] = ARRAY[2].tobytes()[120:124]  # what it had before
        a.flush()
    chunk = path.read_bytes()
    assert chunk[:4] == b"\1\1\1\1" and chunk[4:100] == ARRAY[2].tobytes()[4:100] and chunk[120:124] == ARRAY[2].tobytes()[120:124]


@pytest.mark.parametrize("seed", range(3))
def test_many_writers_of_one_page(m, seed):
    """Each byte has one writer: the last that it wrote is what is there."""
    size = ARRAY.nbytes
    random = np.random.default_rng(seed)
    owner = random.integers(0, 5, size)
    model = np.frombuffer(ARRAY.tobytes(), "u1").copy()
    files = [m.path / VIEW / "npy/v.npy", m.path / VIEW / "raw/v"]
    shift = header(m, "npy")
    failures = []

    def work(number):
        try:
            mine = np.flatnonzero(owner == number)
            random = np.random.default_rng([seed, number])
            with contextlib.ExitStack() as stack:
                if number < 2:
                    mapping = stack.enter_context(mapped(files[number]))
                for step in range(60):
                    at = random.choice(mine, 20, replace=False)
                    values = random.integers(0, 256, len(at), "u1")
                    model[at] = values
                    for place, value in zip(at.tolist(), values.tolist()):
                        if number < 2:
                            mapping[place + (shift if number == 0 else 0)] = value
                        elif number == 2:
                            fd = os.open(m.path / f"v/{place // 200}.0", os.O_WRONLY)
                            os.pwrite(fd, bytes([value]), place % 200)
                            os.close(fd)
                        elif number == 3:
                            with mapped(m.path / f"v/{place // 200}.0") as chunk:
                                chunk[place % 200] = value
                        else:
                            with open(files[1], "r+b", buffering=0) as file:
                                os.pwrite(file.fileno(), bytes([value]), place)
                    if number < 2 and step % 7 == 0:
                        mapping.flush()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    got = np.frombuffer(stored(m).tobytes(), "u1")
    wrong = np.flatnonzero(got != model)
    assert len(wrong) == 0, [(i, owner[i], got[i], model[i]) for i in wrong[:20]]


def test_memory_for_mapped_pages_is_bounded(mount, tmp_path):
    """A mapping that is read through, and more than the daemon keeps copies of; what is written on all of it stays right."""
    rows, row = 320, 1 << 20
    path = tmp_path / "large.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("v", shape=(rows, row), dtype="u1", chunks=(1, row), fillvalue=3)
    m = mount(path, "commit=3600")
    array = np.load(m.path / VIEW / "npy/v.npy", mmap_mode="r+")
    array[5, 0] = 9
    assert int(array[:, ::4096].sum()) == rows * 256 * 3 + 6
    for i in (5, 100, rows - 1):
        array[i, 1] = 8
        write_synced(m.path / f"v/{i}.0", 2, b"\7")
        array[i, 3] = 6
    array.flush()
    assert SANITIZED or m.resident_peak() < 450 << 20, m.resident_peak()
    for i in (5, 100, rows - 1):
        assert (m.path / f"v/{i}.0").read_bytes()[:5] == bytes([9 if i == 5 else 3, 8, 7, 6, 3])
    del array
    m.close()
    with h5py.File(path, "r") as file:
        assert file["v"][100, :4].tolist() == [3, 8, 7, 6] and int(file["v"][5].sum()) == 3 * row + 6 + 5 + 4 + 3


def test_a_flushed_row_is_read_at_once(m):
    """Through its chunk file, by the same program, while other programs write chunks that share the page."""
    stop = threading.Event()
    failures = []

    def write_others(k):
        while not stop.is_set():
            for j in range(k, SHAPE[0], 4):
                fd = os.open(m.path / f"v/{j}.0", os.O_WRONLY)
                os.pwrite(fd, bytes(200), 0)
                os.close(fd)

    threads = [threading.Thread(target=write_others, args=(k,)) for k in (1, 2)]
    array = np.load(m.path / VIEW / "npy/v.npy", mmap_mode="r+")
    for thread in threads:
        thread.start()
    try:
        for value in range(300):
            row = value % 10 * 4
            array[row] = value
            array.flush()
            got = (m.path / f"v/{row}.0").read_bytes()
            if got != np.full(50, value, "<i4").tobytes():
                failures.append((value, got[:8]))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    del array
    assert not failures, failures
