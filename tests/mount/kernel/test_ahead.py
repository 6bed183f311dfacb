"""What readers get before they ask: sequential readers find chunks in the page cache, random readers of an array find
what they were near to; and what is written meanwhile, here or there, is what every reader sees."""
import concurrent.futures
import mmap
import os
import random
import subprocess
import threading
import time

import h5py
import numpy as np
import pytest

from conftest import detach
from running import run

CHUNK = 1 << 16  # elements of 4 bytes
COUNT = 48
PAUSE = 0.04 if os.environ.get("CODECFS_SANITIZE") else 0.005  # seconds; longer than a chunk takes

needs_pushes = pytest.mark.skipif(os.environ.get("CODECFS_TEST_TRANSPORT") == "read", reason="nothing is pushed")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "s.h5"
    values = np.random.default_rng(5).integers(0, 200, (COUNT, CHUNK), "i4")
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=values, chunks=(1, CHUNK), compression="gzip", compression_opts=1, shuffle=True)
    return path, values


def forget_pages(path):
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@needs_pushes
@pytest.mark.parametrize("view", ["", ".codecfs/view/encoded"])
def test_a_sequential_reader_finds_chunks_in_the_page_cache(mount, source, view):
    path, values = source
    m = mount(path)
    stored = {}
    with h5py.File(path) as f:
        for i in range(COUNT):
            stored[i] = f["v"].id.read_direct_chunk((i, 0))[1] if view else values[i].tobytes()
    os.listdir(m.path / view / "v")
    for i in range(COUNT):
        assert (m.path / view / f"v/{i}.0").read_bytes() == stored[i]
        time.sleep(PAUSE)
    stats = m.stats()
    assert stats["stores"] > COUNT // 2, stats
    assert stats["reads"] < COUNT // 2, stats  # for the rest the kernel did not ask
    assert stats["bytes_pushed"] <= sum(map(len, stored.values())), stats
    assert stats["chunks_decoded"] == (0 if view else COUNT), stats


@needs_pushes
def test_strided_reads_are_read_ahead(mount, source):
    path, values = source
    m = mount(path)
    os.listdir(m.path / "v")
    for i in range(0, COUNT, 2):
        assert (m.path / f"v/{i}.0").read_bytes() == values[i].tobytes()
        time.sleep(PAUSE)
    stats = m.stats()
    assert stats["stores"] > COUNT // 4, stats
    assert stats["chunks_decoded"] <= COUNT // 2 + 2, stats  # two, before it is known that there are steps


@needs_pushes
@pytest.mark.parametrize("view", ["npy/v.npy", "raw/v"])
def test_a_random_reader_decodes_a_chunk_once(mount, source, view):
    path, values = source
    m = mount(path, "cache=1M")  # four chunks
    name = m.path / ".codecfs/view" / view
    header = name.stat().st_size - values.nbytes
    flat = values.tobytes()
    rng = random.Random(1)
    with open(name, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for _ in range(2):
            chunks = list(range(COUNT))
            rng.shuffle(chunks)
            for chunk in chunks:
                at = chunk * CHUNK * 4 + rng.randrange(2, 60) * 4096  # not in the pages at the ends, which it shares
                assert os.pread(file.fileno(), 4096, header + at) == flat[at:at + 4096]
                time.sleep(PAUSE)
    stats = m.stats()
    # Some are given too late or not at all; in the cache there is room for four.
    assert stats["chunks_decoded"] < 1.5 * COUNT, stats
    assert name.read_bytes()[header:] == flat


def test_edge_chunks_and_ends_of_files(mount, tmp_path):
    values = np.random.default_rng(6).integers(0, 9, (10, 2500), "i4")  # 2500 * 4 bytes are no whole pages
    with h5py.File(tmp_path / "e.h5", "w") as f:
        f.create_dataset("v", data=values, chunks=(4, 2500), compression="gzip")
        f.create_dataset("w", data=values, chunks=(4, 1000), compression="gzip")
    m = mount(tmp_path / "e.h5")
    for _ in range(2):
        for name in "vw":
            file = m.path / f".codecfs/view/npy/{name}.npy"
            with open(file, "rb", buffering=0) as f:
                for at in (30000, 70000, 5000, 90000, 50000):
                    f.seek(at)
                    f.read(100)
            time.sleep(0.05)
            assert (np.load(file) == values).all()


@needs_pushes
@pytest.mark.parametrize("options", [(), ("threads=1",), ("cache=1M",)], ids=str)
def test_writes_during_pushes_are_what_readers_see(mount, source, options):
    """Writers of all kinds against sequential readers of all views, which are made to read everything anew all the
    time. Each chunk holds one number throughout, which only grows."""
    path, values = source
    with h5py.File(path, "r+") as f:
        f["v"][...] = 0
    m = mount(path, *options)
    npy = m.path / ".codecfs/view/npy/v.npy"
    header = npy.stat().st_size - values.nbytes
    written = [0] * COUNT  # what was written to the end
    locks = [threading.Lock() for _ in range(COUNT)]
    end = time.monotonic() + 4

    def same(data):
        array = np.frombuffer(data, "i4")
        assert (array == array[0]).all(), np.unique(array)
        return int(array[0])

    def writer(seed):
        rng = random.Random(seed)
        while time.monotonic() < end:
            i = rng.randrange(COUNT)
            with locks[i]:
                data = np.full(CHUNK, written[i] + 1, "i4").tobytes()
                how = rng.randrange(4)
                if how == 0:
                    (m.path / f"v/{i}.0").write_bytes(data)
                elif how == 1:
                    with open(m.path / f"v/{i}.0", "r+b", buffering=0) as file:
                        file.write(data)
                elif how == 2:
                    with open(m.path / f"v/{i}.0", "r+b") as file, mmap.mmap(file.fileno(), len(data)) as pages:
                        pages[:] = data
                        pages.flush()
                else:
                    with open(npy, "r+b", buffering=0) as file:
                        os.pwrite(file.fileno(), data, header + i * len(data))
                written[i] += 1
                # A single writer reads what it has written, in all views.
                assert same((m.path / f"v/{i}.0").read_bytes()) == written[i], how
                with open(npy, "rb", buffering=0) as file:
                    assert same(os.pread(file.fileno(), len(data), header + i * len(data))) == written[i], how

    def reader(_):
        while time.monotonic() < end:
            for i in range(COUNT):
                file = m.path / f"v/{i}.0"
                with locks[i]:
                    before = written[i]
                    assert same(file.read_bytes()) == before
                forget_pages(file)
                if i % 16 == 0:
                    forget_pages(npy)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(writer, i) for i in range(3)] + [pool.submit(reader, i) for i in range(3)]:
            done.result()
    stats = m.stats()
    m.close()
    assert sum(written) > COUNT and stats["stores"] > 0, (sum(written), stats)
    with h5py.File(path) as f:
        assert (f["v"][...] == np.array(written, "i4")[:, None]).all()


def test_readers_see_what_a_write_only_descriptor_writes(mount, source):
    path, values = source
    m = mount(path)
    file = m.path / "v/7.0"
    with open(file, "rb", buffering=0) as reader:
        assert os.pread(reader.fileno(), 4096, 8192) == values[7].tobytes()[8192:12288]
        for content in (b"a" * 4096, b"b" * 4096):
            descriptor = os.open(file, os.O_WRONLY)
            assert os.pwrite(descriptor, content, 8192) == 4096
            os.close(descriptor)
            assert os.pread(reader.fileno(), 4096, 8192) == content
    # sendfile(2) and a file that grows by appending go the same way.
    run("cp", m.path / "v/8.0", m.path / "v/9.0")
    assert (m.path / "v/9.0").read_bytes() == values[8].tobytes()
    with open(m.path / "v/10.0", "wb", buffering=0) as out, open(m.path / "v/11.0", "rb") as given:
        assert os.sendfile(out.fileno(), given.fileno(), 0, CHUNK * 4) > 0


def test_unmounting_while_chunks_are_given(mount, source):
    path, _ = source
    for _ in range(5):
        m = mount(path)
        reader = subprocess.Popen(["sh", "-c", "cat v/*.0"], cwd=m.path, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        time.sleep(0.02)
        m.process.terminate()
        assert m.process.wait(20) == 0
        reader.kill()
        reader.wait(60)
        detach(m.path)
        m.ended = True
