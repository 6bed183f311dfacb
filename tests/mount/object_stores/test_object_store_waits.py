"""Waits for an object store that does not answer: clients can be interrupted, and unmounting does not wait."""
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from buckets import BUCKET, FAR_DATA, environment, make_far, make_v2, remote, server  # noqa: F401 (fixtures)
from conftest import CODECFS, is_mounted
from running import run

SECONDS = 6  # that an interrupted call may take on a busy machine, far less than the 45 s of retries
HANG = {"seconds": 60}

# Opens a file until SIGUSR1 interrupts: prints the error.
CLIENT = """
import ctypes, errno, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGUSR1, lambda *_: None)
print("ready", flush=True)
done = libc.open(sys.argv[1].encode(), os.O_RDONLY)
print(errno.errorcode[ctypes.get_errno()] if done < 0 else "done", flush=True)
"""


def interrupt(path, after=1.0):
    """What an interrupted open of a file returns, and how long after the signal."""
    client = subprocess.Popen([sys.executable, "-c", CLIENT, path], stdout=subprocess.PIPE, text=True)
    assert client.stdout.readline() == "ready\n"
    time.sleep(after)
    assert client.poll() is None, "it waits"
    began = time.monotonic()
    client.send_signal(signal.SIGUSR1)
    try:
        answer = client.communicate(timeout=40)[0].strip()
    except subprocess.TimeoutExpired:
        client.kill()
        raise
    return answer, time.monotonic() - began


@pytest.fixture
def store(server, tmp_path):
    make_v2(tmp_path / "s.zarr", consolidated=True)
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    return tmp_path / "s.zarr"


@pytest.fixture
def far(server, tmp_path):
    path = tmp_path / "far.h5"
    make_far(path)
    server.put(BUCKET, path.name, path.read_bytes())
    return path


def waiting(server):
    """Until a request hangs."""
    deadline = time.monotonic() + 30
    while not any(fault["fired"] for fault in server.control()["faults"]):
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- interrupts


def test_the_lookup_of_a_chunk(server, store, remote):
    there = remote(store.name)
    (there.path / "a").stat()
    server.fault("delay", key="*a/1.1", **HANG)
    answer, seconds = interrupt(there.path / "a/1.1")
    assert answer == "EINTR" and seconds < SECONDS
    assert not [line for line in there.log.read_text().splitlines() if "error" in line], "it is no error of the store"
    server.clear_faults()
    assert len((there.path / "a/1.1").read_bytes()) == 30 * 40 * 8
    assert there.stats()["object_interrupted"] >= 1


def test_a_pause_before_a_repetition(server, store, remote):
    there = remote(store.name)
    server.fault("error", key="*a/1.1", status=503, headers={"Retry-After": 20})
    answer, seconds = interrupt(there.path / "a/1.1")
    assert answer == "EINTR" and seconds < SECONDS


def test_a_list(server, store, remote):
    there = remote(store.name)
    (there.path / "a").stat()
    server.fault("delay", operation="ListObjectsV2", **HANG)
    listing = subprocess.Popen(["ls", there.path / "a"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    waiting(server)
    began = time.monotonic()
    listing.send_signal(signal.SIGINT)
    assert listing.wait(40) != 0
    assert time.monotonic() - began < SECONDS


def test_other_readers_of_the_same_chunk_are_not_interrupted(server, store, remote):
    there = remote(store.name)
    (there.path / "a").stat()
    server.fault("delay", key="*a/1.1", seconds=8, times=1)
    found = []
    reader = threading.Thread(target=lambda: found.append((there.path / "a/1.1").read_bytes()))
    client = subprocess.Popen(["cat", there.path / "a/1.1"], stdout=subprocess.DEVNULL)
    waiting(server)
    reader.start()
    time.sleep(0.5)
    client.send_signal(signal.SIGINT)
    client.wait(40)
    reader.join(40)
    assert len(found) == 1 and len(found[0]) == 30 * 40 * 8


def test_data_of_an_hdf5_file(server, far, remote):
    there = remote(far.name)
    chunk = there.path / "v/30.0"
    chunk.stat()  # finds its place
    server.fault("delay", **HANG)
    client = subprocess.Popen(["cat", chunk], stdout=subprocess.DEVNULL)  # the kernel waits for pages, which only a fatal signal ends
    waiting(server)
    began = time.monotonic()
    client.send_signal(signal.SIGINT)
    assert client.wait(40) == -signal.SIGINT
    assert time.monotonic() - began < SECONDS
    server.clear_faults()
    assert chunk.read_bytes() == FAR_DATA[30].tobytes()


def test_metadata_of_an_hdf5_file(server, far, remote):
    there = remote(far.name)
    server.fault("delay", **HANG)
    answer, seconds = interrupt(there.path / "g/.zattrs")
    assert answer == "EINTR" and seconds < SECONDS
    assert "object_gets" in (there.path / ".codecfs/stats").read_text(), "other requests are answered meanwhile"
    server.clear_faults()
    there.unmount()


def test_many_waiting_readers(server, store, remote):
    """More than the threads that wait for requests: interrupts are still received."""
    there = remote(store.name)
    (there.path / "a").stat()
    server.fault("delay", key="*a/*", **HANG)
    clients = [subprocess.Popen(["cat", there.path / f"a/{i % 4}.{i % 3}"], stdout=subprocess.DEVNULL) for i in range(60)]
    waiting(server)
    time.sleep(1)
    began = time.monotonic()
    for client in clients:
        client.send_signal(signal.SIGINT)
    for client in clients:
        client.wait(40)
    assert time.monotonic() - began < 2 * SECONDS
    there.unmount()


@pytest.mark.parametrize("command", ["verify", "convert"])
def test_commands(command, server, store, tmp_path):
    server.fault("delay", key="*a/1.1", **HANG)
    more = [tmp_path / "made.zarr"] if command == "convert" else []
    process = subprocess.Popen([CODECFS, command, f"s3://{BUCKET}/{store.name}", *more], env=environment(server), stderr=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, text=True)
    waiting(server)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=40)[1]
    assert time.monotonic() - began < SECONDS
    assert process.returncode != 0 and "interrupted" in errors


# --- unmounting


def end(there, how):
    """Unmounts, and returns the seconds until the daemon has ended."""
    began = time.monotonic()
    if how == "SIGTERM":
        there.process.send_signal(signal.SIGTERM)
    else:
        command = {"codecfs": [CODECFS, "unmount", there.path], "fusermount": ["fusermount3", "-u", there.path],
                   "lazy": ["fusermount3", "-uz", there.path]}[how]
        run(*command, seconds=40)
    assert there.process.wait(60) == 0, there.log.read_text()
    there.ended = True
    assert not is_mounted(there.path)
    return time.monotonic() - began


@pytest.mark.parametrize("how", ["codecfs", "fusermount", "SIGTERM", "lazy"])
def test_an_unmount_with_a_killed_reader(how, server, store, remote):
    there = remote(store.name)
    (there.path / "a").stat()
    server.fault("delay", key="*a/1.1", **HANG)
    reader = subprocess.Popen(["cat", there.path / "a/1.1"], stdout=subprocess.DEVNULL)
    waiting(server)
    reader.kill()
    reader.wait(40)
    assert end(there, how) < SECONDS


@pytest.mark.parametrize("kind", ["zarr", "data", "metadata"])
def test_a_signal_with_a_waiting_reader(kind, server, store, far, remote):
    there = remote(store.name if kind == "zarr" else far.name)
    path = there.path / {"zarr": "a/1.1", "data": "v/30.0", "metadata": "g/.zattrs"}[kind]
    path.parent.stat()
    if kind == "data":
        path.stat()
    server.fault("delay", **HANG)
    reader = subprocess.Popen(["cat", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    waiting(server)
    assert end(there, "SIGTERM") < SECONDS
    assert reader.wait(40) != 0


@pytest.mark.parametrize("how", ["codecfs", "SIGTERM"])
def test_an_unmount_while_chunks_are_read_ahead(how, server, far, store, remote):
    for name, first, second in [(store.name, "a/0.0", "a/0.1"), (far.name, "v/0.0", "v/1.0")]:
        there = remote(name)
        for chunk in (first, second):
            (there.path / chunk).stat()
        server.fault("delay", skip=3, **HANG)
        reader = subprocess.Popen(["cat", *(there.path / chunk for chunk in (first, second))], stdout=subprocess.DEVNULL)
        time.sleep(2)
        reader.kill()
        reader.wait(40)
        assert end(there, how) < SECONDS
        server.clear_faults()


def test_a_mount_ends_while_an_hdf5_file_is_prefetched(server, far, remote):
    there = remote(far.name)
    (there.path / "v/0.0").stat()
    server.fault("delay", **HANG)
    reader = subprocess.Popen(["sh", "-c", f"cat {there.path}/v/*"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    waiting(server)
    os.killpg(reader.pid, signal.SIGKILL)
    reader.wait(40)
    assert end(there, "codecfs") < SECONDS
