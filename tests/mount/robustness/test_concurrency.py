"""Many readers at once: one decode a chunk, different chunks in parallel, and always the right bytes. Then many workers do
everything at once, against a model: scripts/concurrency-test does more of it."""
import concurrent.futures
import os
import random
import subprocess

import h5py
import numpy as np
import pytest

import concurrency
from conftest import CODECFS


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "s.h5"
    values = np.random.default_rng(3).integers(0, 3000, (16, 1 << 20), "i4")
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=values, chunks=(1, 1 << 20), compression="gzip", compression_opts=1, shuffle=True)
    return path, values


def in_parallel(commands):
    """Starts all before it waits for any."""
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
    return [process.communicate(timeout=120)[0] for process in processes]


def test_two_readers_of_one_chunk_decode_it_once(mount, source):
    path, values = source
    m = mount(path)
    outputs = in_parallel([["cat", m.path / "v/3.0"]] * 4)
    assert all(output == values[3].tobytes() for output in outputs)
    assert m.stats()["chunks_decoded"] == 1


def test_readers_of_different_chunks_decode_in_parallel(mount, source):
    path, values = source
    m = mount(path)
    outputs = in_parallel([["cat", m.path / f"v/{i}.0"] for i in range(8)])
    assert all(output == values[i].tobytes() for i, output in enumerate(outputs))
    stats = m.stats()
    # In this order they look like one sequential reader, for which chunks are decoded ahead.
    assert 8 <= stats["chunks_decoded"] <= 8 + stats["decodes_ahead"] and stats["decodes_parallel"] >= 2, stats


@pytest.mark.parametrize("codec", [("lz4", 1, 0), ("zstd", 1, 1 << 18), ("blosclz", 1, 0), ("zlib", 2, 0), ("lz4", 2, 0)], ids=str)
def test_large_blosc_chunks_are_decoded_by_several_threads(mount, tmp_path, codec):
    """numcodecs writes them. One reader at random, then four at once: idle threads take part in decoding a chunk."""
    numcodecs = pytest.importorskip("numcodecs")
    zarr = pytest.importorskip("zarr")
    name, shuffle, block = codec
    values = np.random.default_rng(9).integers(0, 3000, (6, 2_100_003), "i4")
    values[:, ::7] = 1 << 29
    array = zarr.open(str(tmp_path / "s.zarr"), mode="w", shape=values.shape, chunks=(1, values.shape[1]), dtype="i4",
                      compressor=numcodecs.Blosc(name, 3, shuffle, block))
    array[:] = values
    m = mount(tmp_path / "s.zarr")
    for number in (4, 1, 3):
        assert (m.path / f"{number}.0").read_bytes() == values[number].tobytes()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        contents = list(pool.map(lambda number: (m.path / f"{number}.0").read_bytes(), range(6)))
    assert contents == [value.tobytes() for value in values]


@pytest.mark.parametrize("options", [(), ("cache=1M",), ("threads=1",), ("threads=64", "cache=1M")], ids=str)
def test_random_readers_get_the_right_bytes(mount, tmp_path, options):
    path = tmp_path / "s.h5"
    values = np.random.default_rng(4).integers(0, 1 << 15, (64, 64, 1000), "i2")
    with h5py.File(path, "w") as f:
        for name, filters in {"a": {"compression": "gzip", "shuffle": True, "fletcher32": True}, "b": {},
                              "c": {"compression": "lzf"}}.items():
            f.create_dataset(name, data=values, chunks=(8, 8, 500), **filters)
        f.create_dataset("d", data=values)
    m = mount(path, *options)

    def reader(seed):
        rng = random.Random(seed)
        for _ in range(60):
            name, i, j, k = rng.choice("abc"), rng.randrange(8), rng.randrange(8), rng.randrange(2)
            expected = values[8 * i:8 * i + 8, 8 * j:8 * j + 8, 500 * k:500 * k + 500].tobytes()
            at = rng.randrange(len(expected))
            with open(m.path / f"{name}/{i}.{j}.{k}", "rb") as f:
                assert os.pread(f.fileno(), 5000, at) == expected[at:at + 5000]
        return True

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(reader, range(16)))
    assert (m.path / "d/0.0.0").read_bytes() == values.tobytes()


def test_listing_and_looking_up_while_reading(mount, source):
    path, values = source
    m = mount(path, "cache=1M")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        reads = [pool.submit((m.path / f"v/{i}.0").read_bytes) for i in range(16)]
        lists = [pool.submit(os.listdir, m.path / "v") for _ in range(50)]
        xattrs = [pool.submit(os.getxattr, m.path / "v", "user._Filter") for _ in range(50)]
        assert all(future.result() == values[i].tobytes() for i, future in enumerate(reads))
        assert all(len(future.result()) == 18 for future in lists)
        assert all(future.result() == b"2,4|1,1" for future in xattrs)


def test_unmounting_in_the_middle_of_reads(mount, source):
    path, _ = source
    m = mount(path)
    readers = [subprocess.Popen(["sh", "-c", f"cat '{m.path}'/v/* >/dev/null 2>&1"]) for _ in range(4)]
    m.process.terminate()
    assert m.process.wait(30) == 0
    for reader in readers:
        reader.wait(30)


@pytest.mark.parametrize("kind, options, ending", [("hdf5", ["threads=1"], "SIGTERM"), ("zarr", ["threads=64"], "busy"),
                                                   ("hdf5", ["threads=64", "dirty=1M"], "detach, SIGTERM"),
                                                   ("zarr", ["threads=1", "commit=1"], "detach")], ids=str)
def test_all_at_once(tmp_path, kind, options, ending):
    concurrency.run_round(CODECFS, tmp_path, kind, "short", 2.5, 5, options, ending)
