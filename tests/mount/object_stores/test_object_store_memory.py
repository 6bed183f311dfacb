"""The memory of a mount does not grow with what is read of an object store, nor with the speed of the server.

CODECFS_STREAMED_GIB: how much is read of each source, 1 GiB by default. The server sends the same bytes again and again.
"""
import http.server
import json
import os
import re
import threading
import urllib.parse

import h5py
import numpy as np
import pytest

from buckets import BUCKET, environment
from mounts import memory_of, workers_of

MIB = 1 << 20
GIB = int(os.environ.get("CODECFS_STREAMED_GIB", "1"))
CHUNK = 8 * MIB
CHUNKS = GIB * 1024 * MIB // CHUNK
# 128 MiB that are expected to be read, 64 MiB of chunks, those that 32 threads decode, the program itself
BOUND = 384 * MIB
CONTENT = np.random.default_rng(1).bytes(CHUNK)


class Handler(http.server.BaseHTTPRequestHandler):
    """Sends objects of the server's dictionary: bytes, or a number of bytes that are CONTENT again and again."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        found = self.server.find(urllib.parse.unquote(url.path).removeprefix(f"/{BUCKET}/")) if not url.query else None
        if found is None:
            body = b"<Error><Code>NoSuchKey</Code></Error>"
            self.send_response(404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        begin, content, size = found
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = (int(wanted[1]), min(int(wanted[2]), size - 1)) if wanted else (0, size - 1)
        self.send_response(206 if wanted else 200)
        self.send_header("ETag", '"always"')
        self.send_header("Content-Length", str(last + 1 - first))
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        # What precedes `begin` is in `content`, and all else is made up.
        at = first
        while at <= last:
            if at < begin:
                part = memoryview(content)[at:min(begin, last + 1)]
            else:
                offset = (at - begin) % CHUNK
                part = memoryview(CONTENT)[offset:offset + last + 1 - at]
            self.wfile.write(part)
            at += len(part)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.endpoint = "http://127.0.0.1:%d" % self.server_address[1]
        self.objects = {}

    def find(self, key):
        """(where what is made up begins, what precedes it, the size); None: there is no such object."""
        if key in self.objects:
            return self.objects[key]
        return (0, b"", CHUNK) if re.fullmatch(r"s\.zarr/v/\d+", key) else None

    def add(self, key, content, made_up=0):
        self.objects[key] = (len(content), content, len(content) + made_up)


@pytest.fixture
def server():
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True).start()
        yield running
        running.shutdown()


def stream(path, size):
    """Reads it in order, and compares all of it."""
    buffer = bytearray(CHUNK)
    with open(path, "rb", buffering=0) as file:
        for at in range(0, size, CHUNK):
            got = 0
            while got < CHUNK and (count := file.readinto(memoryview(buffer)[got:])):
                got += count
            assert got == CHUNK and buffer == CONTENT, f"at {at}"


def check_memory(there):
    processes = [there.process.pid, *workers_of(there.path)]
    peaks = [memory_of(process) for process in processes]
    print(f"{GIB} GiB: {[peak // MIB for peak in peaks]} MiB")
    assert peaks[0] < BOUND and all(peak < 256 * MIB for peak in peaks[1:])
    stats = there.stats()
    assert stats["object_gets"] < 1.1 * CHUNKS + 10 and stats["object_failures"] == 0


@pytest.mark.parametrize("view", ["raw", "decoded"])
def test_a_zarr_store(view, server, mount):
    array = {"zarr_format": 2, "shape": [CHUNKS * CHUNK], "chunks": [CHUNK], "dtype": "|u1", "compressor": None, "filters": None,
             "fill_value": 0, "order": "C"}
    server.add("s.zarr/.zmetadata", json.dumps({"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}, "v/.zarray": array}}).encode())
    there = mount(f"s3://{BUCKET}/s.zarr", "ro", f"view={view}", env=environment(server))
    if view == "raw":
        [path] = [path for path in there.path.iterdir() if path.name.startswith("v")]
        stream(path, CHUNKS * CHUNK)
    else:
        for number in range(CHUNKS):
            stream(there.path / f"v/{number}", CHUNK)
    check_memory(there)


def test_an_hdf5_file(server, mount, tmp_path):
    """Chunks without filters, in their order behind the metadata."""
    path = tmp_path / "file.h5"
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_chunk((CHUNK,))
    create.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    create.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    with h5py.File(path, "w", libver="latest") as f:
        h5py.h5d.create(f.id, b"v", h5py.h5t.STD_U8LE, h5py.h5s.create_simple((CHUNKS * CHUNK,)), create)
        f["v"][:1] = np.frombuffer(CONTENT[:1], "u1")
        f.flush()
        offsets = [f["v"].id.get_chunk_info(i).byte_offset for i in range(CHUNKS)]
    assert all(offset == offsets[0] + i * CHUNK for i, offset in enumerate(offsets)), "else the server makes up other bytes"
    with open(path, "rb") as file:
        head = file.read(offsets[0])
    assert path.stat().st_size == offsets[0] + CHUNKS * CHUNK
    server.add("file.h5", head, CHUNKS * CHUNK)
    there = mount(f"s3://{BUCKET}/file.h5", "view=raw", env=environment(server))
    [path] = [path for path in there.path.iterdir() if path.name.startswith("v")]
    stream(path, CHUNKS * CHUNK)
    check_memory(there)
