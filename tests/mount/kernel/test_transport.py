"""How chunks reach their readers: every way of reading, in all orders, under each transport, against the expected bytes.
docs/transport.md has the rules that passthrough keeps."""
import bz2
import contextlib
import json
import mmap
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib

import h5py
import numpy as np
import pytest

from conftest import Mount, detach, is_mounted, wait_until, xattr
from mounts import MountError
from running import run

SIDE = 256
BYTES = SIDE * SIDE * 4 * 2  # of a chunk: 512 KiB
COUNT = 40
TRANSPORTS = ["auto", "passthrough", "push", "read"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A file, and the bytes of its chunks."""
    path = tmp_path_factory.mktemp("source") / "s.h5"
    values = np.random.default_rng(3).integers(0, 50, (COUNT, 2, SIDE, SIDE), "i4")
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=values, chunks=(1, 2, SIDE, SIDE), compression="gzip", compression_opts=1, shuffle=True)
        f.create_dataset("small", data=values[:, 0, :64, :64], chunks=(1, 64, 64), compression="gzip", compression_opts=1)
    return path, [values[i].tobytes() for i in range(COUNT)]


@pytest.fixture
def try_mount(mount):
    """As the fixture `mount`, read-only, with a transport. Skips the test where passthrough is not possible."""

    def make(path, transport, *options, **more):
        try:
            return mount(path, "ro", f"transport={transport}", *options, **more)
        except MountError as error:
            if transport != "passthrough":
                raise
            assert "-o transport=passthrough: " in str(error)
            pytest.skip(str(error))

    return make


def name_of(i, view=""):
    return f".codecfs/view/decoded3/v/c/{i}/0/0/0" if view == "decoded3" else f"v/{i}.0.0.0"


# --- ways of reading. Each returns all bytes of an open file.


def by_read(file):
    os.lseek(file, 0, os.SEEK_SET)
    return b"".join(iter(lambda: os.read(file, 100_000), b""))


def by_pread(file):
    size = os.fstat(file).st_size
    return b"".join(os.pread(file, 65536, at) for at in range(0, size, 65536))


def by_backwards(file):
    size = os.fstat(file).st_size
    return b"".join(reversed([os.pread(file, 8192, at) for at in reversed(range(0, size, 8192))]))


def by_readv(file):
    parts = [bytearray(n) for n in (1, 4095, 100_000, BYTES)]
    count = os.preadv(file, parts, 0)
    return b"".join(parts)[:count]


def by_mmap(file):
    with mmap.mmap(file, 0, mmap.MAP_SHARED, mmap.PROT_READ) as pages:
        return pages[:]


def by_private_mmap(file):
    with mmap.mmap(file, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as pages:
        content = pages[:]
        pages[:4096] = b"x" * 4096  # nobody else sees it
        return content


def by_sendfile(file):
    size = os.fstat(file).st_size
    one, other = socket.socketpair()
    with one, other:
        received = []
        reader = threading.Thread(target=lambda: received.extend(iter(lambda: other.recv(1 << 16), b"")))
        reader.start()
        at = 0
        while at < size:
            at += os.sendfile(one.fileno(), file, at, size - at)
        one.shutdown(socket.SHUT_WR)
        reader.join()
    return b"".join(received)


def by_splice(file):
    size = os.fstat(file).st_size
    out, pipe = os.pipe()
    content = b""
    try:
        while len(content) < size:
            moved = os.splice(file, pipe, 65536, offset_src=len(content))
            assert moved > 0
            content += os.read(out, moved)
    finally:
        os.close(out)
        os.close(pipe)
    return content


def by_path(file):
    with open(f"/proc/self/fd/{file}", "rb") as again:
        return again.read()


WAYS = [by_read, by_pread, by_backwards, by_readv, by_mmap, by_private_mmap, by_sendfile, by_path]
if hasattr(os, "splice"):
    WAYS.append(by_splice)


@contextlib.contextmanager
def opened(path, flags=0):
    file = os.open(path, os.O_RDONLY | flags)
    try:
        yield file
    finally:
        os.close(file)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_way_of_reading_in_order(try_mount, source, transport):
    path, chunks = source
    m = try_mount(path, transport)
    for way in WAYS:
        for view in ("", "decoded3"):
            for i, content in enumerate(chunks):
                with opened(m.path / name_of(i, view)) as file:
                    assert os.fstat(file).st_size == BYTES == os.lseek(file, 0, os.SEEK_END)
                    assert way(file) == content, (way, i)
    for i, content in enumerate(chunks):
        assert run("cat", m.path / name_of(i), text=False).stdout == content
    stats = m.stats()
    assert stats["errors"] == 0
    if transport == "passthrough":
        assert stats["passthrough"] == 1 and stats["stores"] == 0, stats
        # Two opens find that the reader is sequential.
        assert stats["passthrough_opens"] > 2 * (COUNT - 4) * len(WAYS), stats
        assert COUNT - 4 <= stats["passthrough_chunks"] <= COUNT, stats
        assert stats["chunks_decoded"] <= COUNT + 4, stats
        assert stats["passthrough_bytes"] == stats["passthrough_chunks"] * BYTES
        assert stats["passthrough_fallbacks"] == 0
    elif transport != "auto":
        assert stats["passthrough"] == stats["passthrough_opens"] == stats["passthrough_chunks"] == 0, stats
        assert transport == "push" or stats["stores"] == 0, stats


@pytest.mark.parametrize("transport", ["auto", "push", "read"])
def test_a_second_reader_has_nothing_decoded(try_mount, tmp_path, transport):
    """More chunks than any cache of the daemon remembers; the kernel's page cache has them, until it reclaims them."""
    count = 200
    values = np.random.default_rng(5).integers(0, 50, (count, 64, 64), "i4")
    with h5py.File(tmp_path / "many.h5", "w") as f:
        f.create_dataset("v", data=values, chunks=(1, 64, 64), compression="gzip", compression_opts=1)
    m = try_mount(tmp_path / "many.h5", transport)
    paths = [m.path / f"v/{i}.0.0" for i in range(count)]

    def read_all():
        for path, content in zip(paths, values):
            assert path.read_bytes() == content.tobytes()
        return m.stats()

    read_all()
    first = read_all()  # requests of the first turn may have been on their way when their chunks were pushed
    second = read_all()
    assert second["chunks_decoded"] <= first["chunks_decoded"] + 3, (first, second)
    for path in paths:
        with opened(path) as file:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    again = read_all()
    assert again["chunks_decoded"] >= second["chunks_decoded"] + count - 3
    assert again["decodes_ahead"] >= second["decodes_ahead"] + count // 20, "read-ahead goes on"
    last = read_all()
    assert last["chunks_decoded"] <= again["chunks_decoded"] + 3


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_direct_reads(try_mount, source, transport):
    """O_DIRECT needs no alignment on a mount."""
    path, chunks = source
    m = try_mount(path, transport)
    for turn in range(2):
        for i, content in enumerate(chunks):
            with opened(m.path / name_of(i), os.O_DIRECT) as file:
                pages = mmap.mmap(-1, BYTES)
                assert os.preadv(file, [pages], 0) == BYTES and pages[:] == content, (turn, i)
                assert os.pread(file, 1000, 77) == content[77:1077]
    del pages


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_small_chunks_and_metadata(try_mount, source, transport):
    path, _ = source
    m = try_mount(path, transport)
    with h5py.File(path) as f:
        small = f["small"][:]
    for i in range(COUNT):
        assert (m.path / f"small/{i}.0.0").read_bytes() == small[i].tobytes()
    assert (m.path / "v/.zarray").read_bytes().startswith(b"{")
    assert m.stats()["passthrough_opens"] == 0


class Client:
    """One program that opens, reads, maps and closes chunks at random; everything that it sees is checked."""

    def __init__(self, m, chunks, seed):
        self.m, self.chunks, self.random = m, chunks, random.Random(seed)
        self.files, self.maps, self.pipes = [], [], []  # each with the number of a chunk

    def step(self):
        do = self.random.choice([self.open, self.open, self.read, self.read, self.way, self.close, self.map, self.look, self.unmap,
                                 self.keep_in_pipe, self.drain, self.advise, self.inspect])
        do()

    def open(self):
        if len(self.files) < 12:
            i = self.random.randrange(8)
            flags = os.O_DIRECT if self.random.random() < 0.1 else 0
            view = self.random.choice(["", "", "decoded3"])
            self.files.append((os.open(self.m.path / name_of(i, view), os.O_RDONLY | flags), i, flags))

    def any_file(self):
        return self.random.choice(self.files) if self.files else None

    def read(self):
        if chosen := self.any_file():
            file, i, _ = chosen
            at, size = self.random.randrange(BYTES + 5000), self.random.choice([1, 4096, 70_000, BYTES])
            assert os.pread(file, size, at) == self.chunks[i][at:at + size]

    def way(self):
        if chosen := self.any_file():
            file, i, flags = chosen
            if not flags:
                assert self.random.choice(WAYS)(file) == self.chunks[i]

    def close(self):
        if self.files:
            os.close(self.files.pop(self.random.randrange(len(self.files)))[0])

    def map(self):
        if (chosen := self.any_file()) and len(self.maps) < 6:
            file, i, _ = chosen
            kind = self.random.choice([mmap.MAP_SHARED, mmap.MAP_PRIVATE])
            self.maps.append((mmap.mmap(file, BYTES, kind, mmap.PROT_READ), i))

    def look(self):
        if self.maps:
            pages, i = self.random.choice(self.maps)
            at = self.random.randrange(BYTES - 5000)
            assert pages[at:at + 5000] == self.chunks[i][at:at + 5000]

    def unmap(self):
        if self.maps:
            pages, i = self.maps.pop(self.random.randrange(len(self.maps)))
            assert pages[:] == self.chunks[i]
            pages.close()

    def keep_in_pipe(self):
        """A pipe refers to pages of the file, also when it is closed."""
        if (chosen := self.any_file()) and len(self.pipes) < 4 and hasattr(os, "splice"):
            file, i, flags = chosen
            if flags:
                return
            out, pipe = os.pipe()
            at = self.random.randrange(BYTES - 70_000)
            moved = os.splice(file, pipe, 65536, offset_src=at)
            os.close(pipe)
            self.pipes.append((out, i, at, moved))

    def drain(self):
        if self.pipes:
            out, i, at, moved = self.pipes.pop(0)
            with open(out, "rb") as pipe:
                assert pipe.read() == self.chunks[i][at:at + moved]

    def advise(self):
        if chosen := self.any_file():
            advice = self.random.choice([os.POSIX_FADV_DONTNEED, os.POSIX_FADV_WILLNEED, os.POSIX_FADV_RANDOM])
            os.posix_fadvise(chosen[0], 0, 0, advice)

    def inspect(self):
        i = self.random.randrange(8)
        assert os.stat(self.m.path / name_of(i)).st_size == BYTES
        if chosen := self.any_file():
            assert os.fstat(chosen[0]).st_size == BYTES

    def end(self):
        while self.files:
            self.close()
        while self.maps:
            self.unmap()
        while self.pipes:
            self.drain()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_random_orders(try_mount, source, transport, seed):
    """Programs of all kinds at once, while sequential readers make chunks come and go: there is room for four."""
    path, chunks = source
    m = try_mount(path, transport, "passthrough_size=2M", "cache=2M")
    end = threading.Event()
    failures = []

    def read_in_order():
        while not end.is_set():
            for i, content in enumerate(chunks):
                if (m.path / name_of(i)).read_bytes() != content:
                    failures.append(i)

    readers = [threading.Thread(target=read_in_order) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        clients = [Client(m, chunks, 10 * seed + i) for i in range(3)]
        for _ in range(700):
            for client in clients:
                client.step()
        for client in clients:
            client.end()
    finally:
        end.set()
        for reader in readers:
            reader.join()
    assert not failures
    stats = m.stats()
    assert stats["errors"] == 0
    if transport == "passthrough":
        assert stats["passthrough_opens"] > 0 and stats["passthrough_bytes"] <= 2 << 20, stats
    m.close()


def sweep(m, chunks, turns=1):
    """Reads all chunks in order."""
    for _ in range(turns):
        for i, content in enumerate(chunks):
            assert (m.path / name_of(i)).read_bytes() == content


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_a_reader_has_got_stays(try_mount, source, transport):
    """Pipes, sockets and mappings refer to pages of chunks that are closed and evicted."""
    path, chunks = source
    m = try_mount(path, transport, "passthrough_size=2M", "cache=2M")
    sweep(m, chunks)
    one, other = socket.socketpair()
    pipes, maps, sent = [], [], b""
    for i in range(4, 12):
        with opened(m.path / name_of(i)) as file:
            maps.append(mmap.mmap(file, 0, mmap.MAP_SHARED, mmap.PROT_READ))
            if i < 8 and hasattr(os, "splice"):
                out, pipe = os.pipe()
                os.splice(file, pipe, 65536, offset_src=8192)
                os.close(pipe)
                pipes.append((out, chunks[i][8192:8192 + 65536]))
            if i < 6:
                os.sendfile(one.fileno(), file, 4096, 32768)
                sent += chunks[i][4096:4096 + 32768]
    sweep(m, chunks, 3)
    for out, content in pipes:
        with open(out, "rb") as pipe:
            got = pipe.read()
            assert got and got == content[:len(got)]
    one.close()
    with other:
        assert b"".join(iter(lambda: other.recv(1 << 20), b"")) == sent
    for i, pages in enumerate(maps, 4):
        assert pages[:] == chunks[i]
    # A mapping keeps the mount busy.
    assert run("umount", m.path, code=None).returncode != 0
    for pages in maps:
        pages.close()
    m.unmount()


def test_a_killed_daemon_leaves_what_is_open(try_mount, source):
    path, chunks = source
    m = try_mount(path, "passthrough")
    sweep(m, chunks)
    files = [os.open(m.path / name_of(i), os.O_RDONLY) for i in range(10, 20)]
    pages = [mmap.mmap(file, 0, mmap.MAP_SHARED, mmap.PROT_READ) for file in files]
    m.kill_daemon()
    for i, (file, mapped) in enumerate(zip(files, pages), 10):
        assert os.pread(file, BYTES, 0) == chunks[i] == mapped[:]
        os.close(file)
        mapped.close()
    assert not is_mounted(m.path)


def test_two_mounts_of_one_source(try_mount, source):
    path, chunks = source
    mounts = [try_mount(path, "passthrough"), try_mount(path, "passthrough"), try_mount(path, "push")]
    for i, content in enumerate(chunks):
        for m in mounts:
            assert (m.path / name_of(i)).read_bytes() == content
    mounts[0].close()
    sweep(mounts[1], chunks)
    assert mounts[1].stats()["passthrough_opens"] > COUNT


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_opening_reads_nothing(try_mount, source, transport):
    """find -exec, file managers: an open without a read costs no decode, unless a sequential reader seems to come."""
    path, _ = source
    m = try_mount(path, transport)
    order = list(range(COUNT))
    random.Random(1).shuffle(order)
    for i in order[:12]:
        os.stat(m.path / name_of(i))
        os.close(os.open(m.path / name_of(i), os.O_RDONLY))
    assert m.stats()["chunks_decoded"] == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_damaged_chunks_open_and_fail_when_they_are_read(try_mount, source, transport, tmp_path):
    path, chunks = source
    damaged = tmp_path / "damaged.h5"
    damaged.write_bytes(path.read_bytes())
    with h5py.File(path) as f:
        where = [f["v"].id.get_chunk_info_by_coord((i, 0, 0, 0)) for i in (6, 20)]
    with open(damaged, "r+b") as file:
        for info in where:
            file.seek(info.byte_offset + info.size // 2)
            file.write(b"\xff" * 1000)
    m = try_mount(damaged, transport)
    for _ in range(2):
        for i, content in enumerate(chunks):
            with opened(m.path / name_of(i)) as file:
                if i not in (6, 20):
                    assert os.pread(file, BYTES, 0) == content
                    continue
                with pytest.raises(OSError, match="Input/output error"):
                    os.pread(file, BYTES, 0)
            assert "v" in xattr(m.path / name_of(i), "_Error")
    if transport == "passthrough":
        assert m.stats()["passthrough_fallbacks"] > 0


@pytest.fixture(scope="module")
def slow_source(tmp_path_factory):
    """A Zarr store whose fourth chunk takes a second or two to decode, and the others less."""
    size = 20 << 20
    store = tmp_path_factory.mktemp("slow") / "s.zarr"
    (store / "v").mkdir(parents=True)
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    (store / "v/.zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": [6 * size], "chunks": [size], "dtype": "|u1", "compressor": {"id": "bz2", "level": 1},
        "fill_value": None, "order": "C", "filters": None}))
    chunks = [bytes([65 + i]) * size for i in range(6)]
    chunks[3] = np.random.default_rng(2).integers(0, 64, size, "u1").tobytes()
    for i, content in enumerate(chunks):
        (store / f"v/{i}").write_bytes(bz2.compress(content, 1))
    return store, chunks


@pytest.mark.parametrize("transport, how", [("passthrough", "alarm"), ("passthrough", "kill"), ("passthrough", "none"),
                                            ("push", "alarm")])
def test_signals_end_an_open(try_mount, slow_source, transport, how):
    store, chunks = slow_source
    m = try_mount(store, transport, "cache=1G")
    program = ("import os, signal, sys\n"
               "signal.signal(signal.SIGALRM, lambda *_: None)\n"
               "for i in range(3): open(f'v/{i}', 'rb').read()\n"
               f"if {how == 'alarm'}: signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)\n"
               "print('opens', flush=True)\n"
               "file = os.open('v/3', os.O_RDONLY)\n"
               "signal.setitimer(signal.ITIMER_REAL, 0)\n"
               "if os.pread(file, 1 << 30, 0) != open(sys.argv[1], 'rb').read(): sys.exit(1)\n")
    expected = store / "expected"
    expected.write_bytes(chunks[3])
    with subprocess.Popen([sys.executable, "-c", program, expected], cwd=m.path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "opens\n"
        if how == "kill":
            time.sleep(0.1)
            process.kill()
            process.wait(10)
        else:
            assert process.wait(30) == 0, "opened as cached, it is read as usual"
    # Opens wait until the kernel can answer the reads, but for the first one, and for the one that the signal ends.
    expected_opens = 3 - (how != "none")
    assert m.stats()["passthrough_opens"] == (expected_opens if transport == "passthrough" else 0)
    for i, content in enumerate(chunks):
        assert (m.path / f"v/{i}").read_bytes() == content
    assert m.stats()["errors"] == 0


@pytest.fixture
def raw_source(tmp_path):
    """A Zarr store with an uncompressed array and a compressed one, and the bytes of the chunks of both."""
    chunks = [np.random.default_rng(i).integers(0, 256, BYTES, "u1").tobytes() for i in range(12)]
    store = tmp_path / "raw.zarr"
    for name, compressor in (("plain", None), ("packed", {"id": "zlib", "level": 1})):
        (store / name).mkdir(parents=True)
        (store / name / ".zarray").write_text(json.dumps({
            "zarr_format": 2, "shape": [len(chunks) * BYTES], "chunks": [BYTES], "dtype": "|u1", "compressor": compressor,
            "fill_value": 0, "order": "C", "filters": None}))
        for i, content in enumerate(chunks):
            (store / name / str(i)).write_bytes(zlib.compress(content, 1) if compressor else content)
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    return store, chunks


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_files_of_the_source_are_their_own_backing(try_mount, raw_source, transport):
    store, chunks = raw_source
    m = try_mount(store, transport)
    views = {"plain/{}": None, ".codecfs/view/decoded3/plain/c/{}": None, ".codecfs/view/encoded/plain/{}": None,
             ".codecfs/view/encoded3/plain/c/{}": None, ".codecfs/view/encoded/packed/{}": "packed"}
    for view, stored in views.items():
        for i, content in enumerate(chunks):
            expected = (store / stored / str(i)).read_bytes() if stored else content
            for way in WAYS:
                with opened(m.path / view.format(i)) as file:
                    assert os.fstat(file).st_size == len(expected)
                    assert way(file) == expected, (view, i, way)
            for _ in range(2):
                with opened(m.path / view.format(i), os.O_DIRECT) as file:
                    assert os.pread(file, 1000, 77) == expected[77:1077]
                    with opened(m.path / view.format(i)) as other, opened(m.path / view.format(i), os.O_DIRECT) as third:
                        assert by_read(other) == expected
                        assert os.pread(third, 1001, 5) == expected[5:1006]
    stats = m.stats()
    assert stats["errors"] == 0
    if transport == "passthrough":
        assert stats["passthrough_opens"] > len(views) * len(chunks) * len(WAYS) and stats["passthrough_fallbacks"] == 0, stats
        assert stats["passthrough_bytes"] < 12 * BYTES, stats


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_files_of_the_source_that_change(try_mount, raw_source, transport):
    """Files that have another size than their chunk are damaged; a file that is removed or replaced stays open."""
    store, chunks = raw_source
    (store / "plain/2").write_bytes(chunks[2][:-1])
    (store / "plain/3").write_bytes(chunks[3] + b"more")
    m = try_mount(store, transport)
    for i in (2, 3):
        with opened(m.path / f"plain/{i}") as file:
            with pytest.raises(OSError, match="Input/output error"):
                os.pread(file, BYTES, 0)
    assert xattr(m.path / "plain/2", "_Error")
    if transport == "passthrough":
        with opened(m.path / "plain/5") as removed, opened(m.path / "plain/6") as replaced:
            pages = mmap.mmap(removed, 0, mmap.MAP_SHARED, mmap.PROT_READ)
            os.unlink(store / "plain/5")
            (store / "new").write_bytes(chunks[7])
            os.rename(store / "new", store / "plain/6")
            assert by_read(removed) == chunks[5] == pages[:]
            assert by_read(replaced) == chunks[6]
        # As long as the old file is open, which it is until the daemon has heard of the close, it is what an open gets.
        wait_until(lambda: (m.path / "plain/6").read_bytes() == chunks[7], 20)
        pages.close()
        touch = subprocess.Popen([sys.executable, "-c", "import mmap, sys\n"
                                  "file = open(sys.argv[1], 'rb')\n"
                                  "pages = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)\n"
                                  "print(pages[9000], flush=True)\ninput()\npages[9000]", m.path / "plain/8"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert int(touch.stdout.readline()) == chunks[8][9000]
        with opened(m.path / "plain/8") as file:
            os.truncate(store / "plain/8", 5000)
            touch.communicate(b"\n", 30)
            assert touch.returncode == -signal.SIGBUS
            assert os.pread(file, BYTES, 0) == chunks[8][:5000]
        with opened(m.path / "plain/8") as file:
            with pytest.raises(OSError, match="Input/output error"):
                os.pread(file, BYTES, 0)


def refusal(*arguments, **more):
    with pytest.raises(MountError) as error:
        Mount(*arguments, **more)
    return str(error.value)


def test_passthrough_that_is_not_possible_is_refused(source, tmp_path, place):
    path, _ = source
    copy = tmp_path / "copy.h5"
    copy.write_bytes(path.read_bytes())
    assert "only read-only mounts (-o ro)" in refusal(copy, place, "transport=passthrough")
    assert not is_mounted(place)
    assert "with -o coherent" in refusal(path, place, "ro,coherent,transport=passthrough")
    assert "auto, passthrough, push or read" in refusal(path, place, "transport=carrier-pigeon")
    assert "at least 1M" in refusal(path, place, "passthrough_size=5K")
    assert not is_mounted(place)


@pytest.mark.skipif("CODECFS_TEST_TRANSPORT" in os.environ, reason="the default is replaced")
def test_the_default_is_passthrough_where_it_is_possible(mount, try_mount, source):
    path, chunks = source
    assert try_mount(path, "passthrough").stats()["passthrough"] == 1
    m = mount(path, "ro")
    sweep(m, chunks)
    stats = m.stats()
    assert stats["passthrough"] == 1 and stats["passthrough_chunks"] > 0 and stats["errors"] == 0, stats
    assert "passed through" not in m.messages()


def test_writable_mounts_push(mount, source, tmp_path):
    path, chunks = source
    copy = tmp_path / "copy.h5"
    copy.write_bytes(path.read_bytes())
    m = mount(copy)
    sweep(m, chunks)
    (m.path / name_of(3)).write_bytes(chunks[4])
    assert (m.path / name_of(3)).read_bytes() == chunks[4]
    assert m.stats()["passthrough"] == 0


def test_ending_the_mount_while_chunks_come(source, try_mount, tmp_path):
    """SIGTERM with files that are open and opens that wait, and codecfs -u."""
    path, chunks = source
    for i in range(4):
        m = try_mount(path, "passthrough", "passthrough_size=4M")
        readers = [subprocess.Popen(["sh", "-c", "cat v/*.0 v/*.0"], cwd=m.path, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL) for _ in range(2)]
        with opened(m.path / name_of(0)):
            time.sleep(0.05 * i)
            m.process.send_signal(signal.SIGTERM)
            assert m.process.wait(20) == 0
        for reader in readers:
            reader.kill()
            reader.wait(60)
        detach(m.path)
        m.ended = True


def test_idle_mounts_do_not_pass_chunks_through(mount, source):
    """The kernel reads backing files without requests, so nothing could tell a reader that the source was changed."""
    path, chunks = source
    with pytest.raises(MountError, match="with -o idle="):
        mount(path, "ro", "transport=passthrough", "idle=60")
    m = mount(path, "ro", "transport=auto", "idle=60")
    sweep(m, chunks)
    assert m.stats()["passthrough"] == 0


def test_many_open_files_use_no_more_memory_than_allowed(try_mount, source):
    path, chunks = source
    m = try_mount(path, "passthrough", "passthrough_size=4M")
    sweep(m, chunks)
    files = []
    for turn in range(3):
        for i in range(COUNT):
            files.append((os.open(m.path / name_of(i), os.O_RDONLY), i))
    for file, i in files:
        assert os.pread(file, BYTES, 0) == chunks[i]
    stats = m.stats()
    assert 0 < stats["passthrough_bytes"] <= 4 << 20 and stats["passthrough_fallbacks"] > 0, stats
    for file, _ in files:
        os.close(file)
    sweep(m, chunks)
