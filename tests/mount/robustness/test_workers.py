"""libhdf5 runs in a worker process: any process but the daemon may be killed at any moment, and clients notice nothing."""
import mmap
import os
import random
import threading
import time

import h5py
import numpy as np
import pytest

from conftest import wait_until
from mounts import WORKERS, signal_all, workers_of

KILLS = int(os.environ.get("CODECFS_TEST_KILLS", "60"))
CELLS, LENGTH = 32, 20_000


def names_in(directory):
    return sorted(name for name in os.listdir(directory) if not name.startswith("."))


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.h5"
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        for name in ("read", "written", "mapped", "recoded"):
            data = rng.integers(0, 1000, (CELLS, LENGTH), dtype="<i4")
            file.create_dataset(name, data=data, chunks=(1, LENGTH), compression="gzip", compression_opts=1)
        file.create_group("tree")
        file["read"].attrs["units"] = "K"
    return path


def test_one_worker_and_nothing_left(mount, source):
    m = mount(source)
    assert sorted(workers_of(m.path).values()) == ["codecfs-hdf5", "codecfs-super", "codecfs-super"]
    point = m.path
    m.unmount()
    wait_until(lambda: not workers_of(point))


def test_killed_while_idle(mount, source):
    """Reads, metadata and writes go on after each process was killed."""
    m = mount(source)
    with h5py.File(source) as file:
        values = file["read"][...]
    for name in WORKERS[:2]:
        for pid in workers_of(m.path, [name]):
            signal_all([pid])
            wait_until(lambda: pid not in workers_of(m.path))
            assert names_in(m.path) == ["mapped", "read", "recoded", "tree", "written"]
            assert (np.fromfile(m.path / "read/3.0", "<i4") == values[3]).all()
            (m.path / f"tree/after_{pid}").mkdir()
            (m.path / "written/5.0").write_bytes(np.full(LENGTH, pid, "<i4").tobytes())
    m.unmount()
    with h5py.File(source) as file:
        assert (file["written"][5] == pid).all()
        assert len(file["tree"]) == 3


def test_killed_after_each_kind_of_change(mount, source):
    """What was acknowledged is there after the worker was killed, without an fsync."""
    m = mount(source, "commit=3600")

    def kill():
        signal_all(workers_of(m.path, ["codecfs-hdf5"]))

    tree = m.path / "tree"
    for i in range(5):
        (tree / f"g{i}").mkdir()
        kill()
        (tree / f"g{i}").rename(tree / f"h{i}")
        kill()
        os.setxattr(m.path / "written", "user.note", f"n{i}".encode())
        kill()
        assert os.getxattr(m.path / "written", "user.note") == f"n{i}".encode()
        if i % 2:
            (tree / f"h{i}").rmdir()
            kill()
        with open(m.path / f"written/{i}.0", "r+b") as file:
            file.write(np.full(LENGTH, -i, "<i4").tobytes())
            kill()
            os.fsync(file.fileno())
            kill()
        assert (np.fromfile(m.path / f"written/{i}.0", "<i4") == -i).all()
    assert names_in(tree) == ["h0", "h2", "h4"]
    m.unmount()
    with h5py.File(source) as file:
        assert sorted(file["tree"]) == ["h0", "h2", "h4"]
        assert file["written"].attrs["note"] in ("n4", b"n4")
        for i in range(5):
            assert (file["written"][i] == -i).all()


class Load:
    """Clients that check what they see, until they are stopped."""

    def __init__(self, path, values):
        self.path, self.values = path, values
        self.stopped = threading.Event()
        self.failures = []
        self.written = {}
        self.done = {}
        self.threads = [threading.Thread(target=self.run, args=[work, seed]) for seed, work in enumerate(
            [self.read, self.read, self.write, self.change_tree, self.set_attributes, self.write_mapped, self.recode])]
        for thread in self.threads:
            thread.start()

    def run(self, work, seed):
        rng = random.Random(seed)
        while not self.stopped.is_set():
            try:
                work(rng)
                self.done[work.__name__] = self.done.get(work.__name__, 0) + 1
            except Exception as error:  # noqa: BLE001: every failure counts
                reason = ""
                try:
                    reason = os.getxattr(self.path / "written/0.0", "user._Error").decode()
                except OSError:
                    pass
                self.failures.append(f"{work.__name__}: {error!r} {reason}")
                if len(self.failures) > 20:
                    return

    def read(self, rng):
        i = rng.randrange(CELLS)
        with open(self.path / f"read/{i}.0", "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            data = np.frombuffer(file.read(), "<i4")
        assert (data == self.values["read"][i]).all()
        assert os.getxattr(self.path / "read", "user.units") == b"K"

    def write(self, rng):
        i, value = rng.randrange(CELLS), rng.randrange(1 << 30)
        with open(self.path / f"written/{i}.0", "r+b") as file:
            file.write(np.full(LENGTH, value, "<i4").tobytes())
            self.written[i] = value
            if rng.random() < 0.3:
                os.fsync(file.fileno())
        assert (np.fromfile(self.path / f"written/{i}.0", "<i4") == value).all()

    def change_tree(self, rng):
        name = f"g{rng.randrange(8)}"
        path, other = self.path / "tree" / name, self.path / "tree" / (name + "x")
        path.mkdir()
        path.rename(other)
        assert other.is_dir() and not path.exists()
        other.rmdir()
        assert not other.exists()

    def set_attributes(self, rng):
        value = str(rng.random()).encode()
        os.setxattr(self.path / "tree", "user.note", value)
        assert os.getxattr(self.path / "tree", "user.note") == value

    def write_mapped(self, rng):
        i, value = rng.randrange(CELLS), rng.randrange(256)
        with open(self.path / f"mapped/{i}.0", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            memory[0:4] = bytes([value] * 4)
            memory.flush()
        assert (self.path / f"mapped/{i}.0").read_bytes()[:4] == bytes([value] * 4)

    def recode(self, rng):
        spec = rng.choice(["1,1", "2|1,1", "1,9|3"])
        os.setxattr(self.path / "recoded", "user._Filter", spec.encode())
        i = rng.randrange(CELLS)
        assert (np.fromfile(self.path / f"recoded/{i}.0", "<i4") == self.values["recoded"][i]).all()

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


def test_killed_under_load(mount, source):
    with h5py.File(source) as file:
        values = {name: file[name][...] for name in ("read", "written", "mapped", "recoded")}
    m = mount(source, "commit=1", "builtin=off:bzip2", env={"HDF5_PLUGIN_PATH": os.environ["CODECFS_PLUGINS"]})
    os.setxattr(m.path / "read", "user._Filter", b"307,1")  # by a plugin
    rng = random.Random(7)
    load = Load(m.path, values)
    kills, killed = 0, set()
    while kills < KILLS and not load.failures:
        time.sleep(rng.random() * 0.1)
        found = workers_of(m.path)
        if not found:
            continue
        # Workers more often than the supervisors; never both supervisors within an instant.
        workers = [pid for pid, name in found.items() if name != "codecfs-super"]
        supervisors = [pid for pid, name in found.items() if name == "codecfs-super"]
        if rng.random() < 0.2 and len(supervisors) == 2:
            pid = rng.choice(supervisors)
        elif workers:
            pid = rng.choice(workers)
        else:
            continue
        signal_all([pid])
        killed.add(found[pid])
        kills += 1
    load.stop()
    assert killed == set(WORKERS)
    os.setxattr(m.path / "read", "user._Filter", b"1,1")  # which h5py has
    assert not load.failures, load.failures[:5]
    assert m.process.poll() is None
    assert min(load.done.values()) > 0, load.done
    point = m.path
    m.unmount()
    wait_until(lambda: not workers_of(point))
    with h5py.File(source) as file:
        assert (file["read"][...] == values["read"]).all()
        assert (file["recoded"][...] == values["recoded"]).all()
        for i, value in load.written.items():
            assert (file["written"][i] == value).all(), i
        assert not list(file["tree"])
