"""What the tests of object stores share: our own S3 server, which counts requests and fails on demand, mounts of what is in it, and the
datasets that are put there."""
import concurrent.futures
import errno
import json
import os
import pathlib
import time

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from fake_s3 import FakeS3
from running import codecfs, run

BUCKET = "test-bucket"
KEYS = {"AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret", "AWS_REGION": "us-east-1"}


def environment(server, **more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return clean | {"AWS_ENDPOINT_URL": server.endpoint, "AWS_EC2_METADATA_DISABLED": "true"} | KEYS | more


@pytest.fixture
def server():
    with FakeS3() as running:
        running.bucket(BUCKET)
        yield running


@pytest.fixture
def remote(server, mount):
    """A function remote(name, *options) that mounts s3://test-bucket/name."""

    def make(name, *options, **more):
        return mount(f"s3://{BUCKET}/{name}", *options, env=environment(server, **more))

    return make


def settled(server, there, seconds=20):
    """The counters of a mount and of its server once no request is under way: what is read ahead is requested without a reader that
    waits for it."""
    deadline, before = time.monotonic() + seconds, None
    while True:
        stats, seen = there.stats(), server.summary()
        now = {name: value for name, value in stats.items() if name.startswith("object_")}, seen
        if now == before and stats["object_requests_now"] == seen["in_flight"] == 0:
            return stats, seen
        assert time.monotonic() < deadline, f"requests are still under way: {stats}, {seen}"
        before = now
        time.sleep(0.05)


def codecfs_with(server, *words, env=None):
    return codecfs(*words, environment=environment(server), env=env, code=None)


def make_v2(path, separator=".", consolidated=False):
    group = zarr.open_group(str(path), mode="w")
    a = group.create_dataset("a", shape=(100, 90), chunks=(30, 40), dtype="f8", fill_value=-1, dimension_separator=separator)
    a[:] = np.arange(9000).reshape(100, 90)
    a.attrs["units"] = "K"
    inner = group.create_group("inner")
    inner.attrs["title"] = "é"
    b = inner.create_dataset("b c+d", shape=(40,), chunks=(5,), dtype="i4", fill_value=9, dimension_separator=separator)
    b[10:20] = np.arange(10)
    if consolidated:
        zarr.consolidate_metadata(str(path))


def make_v3(path, consolidated=False):
    """Written by hand, as Debian's zarr-python has no Zarr v3: raw and sharded arrays."""
    def node(kind, **more):
        return {"zarr_format": 3, "node_type": kind, "attributes": {}} | more

    def array(shape, chunks, codecs):
        return node("array", shape=shape, data_type="int32", fill_value=-7, codecs=codecs,
                    chunk_grid={"name": "regular", "configuration": {"chunk_shape": chunks}},
                    chunk_key_encoding={"name": "default", "configuration": {"separator": "/"}})

    little = {"name": "bytes", "configuration": {"endian": "little"}}
    sharding = {"name": "sharding_indexed", "configuration": {
        "chunk_shape": [4, 4], "codecs": [little], "index_codecs": [little], "index_location": "end"}}
    nodes = {"": node("group"), "plain": array([20, 10], [5, 5], [little]), "deep": node("group"),
             "deep/sharded": array([16, 16], [8, 8], [sharding])}
    if consolidated:
        inline = {name: value for name, value in nodes.items() if name}
        nodes[""]["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": inline}
    for name, value in nodes.items():
        (path / name).mkdir(parents=True, exist_ok=True)
        (path / name / "zarr.json").write_text(json.dumps(value))
    for i in range(4):
        for j in range(2):
            if (i, j) != (3, 1):
                write(path / f"plain/c/{i}/{j}", np.full((5, 5), 10 * i + j, "<i4").tobytes())
    for i in range(2):
        for j in range(2):
            chunks = [np.arange(16, dtype="<i4").tobytes() + b"" for _ in range(4)]
            index = np.array([[64 * k, 64] for k in range(4)], "<u8")
            index[3] = 2**64 - 1 if (i, j) == (1, 1) else index[3]
            write(path / f"deep/sharded/c/{i}/{j}", b"".join(chunks) + index.tobytes())


STORES = {
    "v2": make_v2,
    "v2-slash": lambda path: make_v2(path, separator="/"),
    "v2-consolidated": lambda path: make_v2(path, consolidated=True),
    "v3": make_v3,
    "v3-consolidated": lambda path: make_v3(path, consolidated=True),
}
# A chunk that several mounts write: of one array, and a shard. The size of an element, in bytes.
WRITTEN_AT_ONCE = {"v2": (make_v2, "a/0.0", 8), "shards of v3": (make_v3, "deep/sharded/c/0/0", 4)}


def make_small_folder(root):
    """An HDF5 file, a store and other files."""
    (root / "era5").mkdir(parents=True)
    with h5py.File(root / "era5/t2m.nc", "w") as f:
        f["v"] = np.arange(10)
    make_v2(root / "stores/a.zarr")
    (root / "notes.txt").write_text("notes\n")
    (root / "é ü+&.md").write_text("# text")


def write_from_four_mounts(mount_one, name, size):
    """Each of four mounts of one store, which mount_one(*options) makes, writes every fourth element of `size` bytes at the beginning of
    a chunk, and an attribute: nothing of it may be lost."""
    mounts = [mount_one() for _ in range(4)]

    def write_parts(which):
        for step in range(4):
            fd = os.open(mounts[which].path / name, os.O_WRONLY)
            os.pwrite(fd, bytes([16 * which + step + 1]) * size, size * (4 * step + which))
            os.fsync(fd)
            os.close(fd)
        os.setxattr(mounts[which].path, f"user.m{which}", b"%d" % which)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(write_parts, range(4)))
    for each in mounts:
        run("fusermount3", "-u", each.path)
        assert each.process.wait(60) == 0, each.log.read_text()
    seen = mount_one("ro")
    content = (seen.path / name).read_bytes()
    assert content[:16 * size] == b"".join(bytes([16 * which + step + 1]) * size for step in range(4) for which in range(4))
    assert {f"user.m{which}" for which in range(4)} <= set(os.listxattr(seen.path))


# What each cloud's tests try of a mount of their own, remote(name, *options), in the words of its server.


def check_lists_of_several_pages(server, remote, tmp_path, operation):
    make_v2(tmp_path / "v2.zarr")
    server.put_tree(BUCKET, tmp_path / "v2.zarr", "v2.zarr/")
    server.set(page_size=3)
    there = remote("v2.zarr")
    assert {path.name for path in (there.path / "a").iterdir()} >= {f"{i}.{j}" for i in range(4) for j in range(3)}
    assert server.summary()["operations"][operation] >= 4


def check_replaced_between_parts(server, remote, tmp_path):
    """Also by one of the same content, which has another ETag or generation."""
    make_far(tmp_path / "far.h5")
    server.put(BUCKET, "far.h5", (tmp_path / "far.h5").read_bytes())
    there = remote("far.h5")
    server.put(BUCKET, "far.h5", (tmp_path / "far.h5").read_bytes())
    with pytest.raises(OSError) as caught:
        (there.path / "v/39.0").read_bytes()
    assert caught.value.errno == errno.ESTALE


def check_faults_end_right(server, remote, mount, tmp_path, faults, **which):
    make_v3(tmp_path / "v3.zarr")
    server.put_tree(BUCKET, tmp_path / "v3.zarr", "v3.zarr/")
    expected = files_of(mount(tmp_path / "v3.zarr", "ro").path)
    server.control(seed=7)
    for kind, more in faults:
        server.fault(kind, probability=0.05, **which, **more)
    assert files_of(remote("v3.zarr").path) == expected
    assert sum(fault["fired"] for fault in server.control()["faults"]) > 0, "nothing was tried"


def check_a_lost_answer_counts_once(server, remote, operation):
    """Of a write, to the store of make_v2() in v2.zarr."""
    there = remote("v2.zarr")
    server.fault("reset", after="operation", operation=operation, times=3)
    fd = os.open(there.path / "a/0.0", os.O_WRONLY)
    os.pwrite(fd, b"part", 40)
    os.fsync(fd)
    os.close(fd)
    server.clear_faults()
    assert (remote("v2.zarr", "ro").path / "a/0.0").read_bytes()[40:44] == b"part"


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def files_of(root):
    """The content of each file, or the number of the error that reading it is."""
    found = {}
    for folder, folders, names in os.walk(root):
        if ".codecfs" in folders:
            folders.remove(".codecfs")
        found[str(pathlib.Path(folder).relative_to(root)) + "/"] = None
        for name in names:
            path = pathlib.Path(folder, name)
            try:
                found[str(path.relative_to(root))] = path.read_bytes()
            except OSError as error:
                found[str(path.relative_to(root))] = error.errno
    return found


def operations(server):
    return server.summary()["operations"]


def put(server, path, key=None):
    server.put(BUCKET, key or path.name, path.read_bytes())
    server.control(clear_log=True)


def make_weather(path, steps=24, variables=4):
    """Like ERA5: the chunks of all variables of a step are beside each other. About 100 KiB each."""
    random = np.random.default_rng(1)
    with netCDF4.Dataset(path, "w") as f:
        f.createDimension("time", None)
        f.createDimension("y", 300)
        f.createDimension("x", 400)
        made = [f.createVariable(f"v{k}", "i2", ("time", "y", "x"), zlib=True, complevel=1, chunksizes=(1, 150, 200)) for k in range(variables)]
        for variable in made:
            for a in range(12):
                variable.setncattr(f"attribute{a}", "text " * 8)
        for step in range(steps):
            for variable in made:
                variable[step] = random.integers(0, 20000, (300, 400))


@pytest.fixture(scope="module")
def weather(tmp_path_factory):
    path = tmp_path_factory.mktemp("weather") / "weather.nc"
    make_weather(path)
    return path


FAR_DATA = np.random.default_rng(1).random((40, 25_000))


def make_far(path):
    """An HDF5 file whose group g is far from the beginning, as are the chunks of its dataset v."""
    with h5py.File(path, "w") as f:
        f["filler"] = np.zeros(3_000_000)
        g = f.create_group("g")
        g["filler"] = np.zeros(30_000)
        f.flush()
        g.attrs["a"] = "text of variable length " * 100  # in a global heap, which no block of other metadata has
        f.flush()
        g["filler2"] = np.zeros(30_000)
        f.flush()
        f.create_dataset("v", data=FAR_DATA, chunks=(1, 25_000), compression="gzip")
        f["filler2"] = np.zeros(3_000_000)
