"""Four mounts, each in a network namespace of its own as on another machine, write parts of the same chunks: no update is lost.

The short form writes to our own server; CODECFS_SHARED_UPDATES is how many updates all mounts make together, 800 by default. With it, and
on servers that others made: CODECFS_SHARED_SERVER=versitygw, minio, moto or ceph (scripts/object-store-servers).
"""
import concurrent.futures
import contextlib
import os
import random
import shutil
import urllib.request

import numpy as np
import pytest
import zarr

from buckets import BUCKET
from conftest import CODECFS, mounted
import servers
from fake_s3 import Client
from lag_proxy import LagProxy
from running import run

MOUNTS, CHUNKS = 4, 8
UPDATES = int(os.environ.get("CODECFS_SHARED_UPDATES", "800"))
SERVER = os.environ.get("CODECFS_SHARED_SERVER", "fake")


@contextlib.contextmanager
def namespace(number):
    """(its name, the address of this machine for programs in it): a pair of virtual network cards leads there."""
    name = f"codecfs{os.getpid() % 10000}-{number}"
    card = f"cfs{os.getpid() % 10000}-{number}"
    here, there = (f"10.213.{os.getpid() % 250}.{4 * number + i}" for i in (1, 2))
    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", card, "type", "veth", "peer", "name", "there", "netns", name)
        run("ip", "address", "add", f"{here}/30", "dev", card)
        run("ip", "link", "set", card, "up")
        run("ip", "-n", name, "address", "add", f"{there}/30", "dev", "there")
        run("ip", "-n", name, "link", "set", "there", "up")
        yield name, here
    finally:
        run("ip", "link", "delete", card, code=None)
        run("ip", "netns", "delete", name)


@pytest.fixture
def namespaces():
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nsenter"):
        pytest.skip("network namespaces need root, ip (iproute2) and nsenter")
    with contextlib.ExitStack() as stack:
        try:
            made = [stack.enter_context(namespace(number)) for number in range(MOUNTS)]
        except AssertionError as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield made


class Bucket:
    """Objects of a server: ours needs no boto3."""

    def __init__(self, server):
        self.server, self.boto = server, None
        if server.name == "fake":
            self.fake = Client(server.endpoint)
            self.fake.bucket(BUCKET, public=True)
        else:
            self.boto = servers.boto3_client(server)
            self.boto.create_bucket(Bucket=BUCKET)

    def put(self, key, content):
        if self.boto:
            self.boto.put_object(Bucket=BUCKET, Key=key, Body=content)
        else:
            self.fake.put(BUCKET, key, content)

    def get(self, key):
        if self.boto:
            return self.boto.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        with urllib.request.urlopen(f"{self.server.endpoint}/{BUCKET}/{key}") as answer:
            return answer.read()


@pytest.fixture
def bucket():
    if (reason := servers.unavailable(SERVER)) is not None:
        pytest.skip(reason)
    with servers.running(SERVER) as running:
        try:
            yield Bucket(running)
        except servers.NotHere as error:
            pytest.skip(str(error))


def test_no_update_is_lost(bucket, namespaces, tmp_path):
    server = bucket.server
    cells = -(-UPDATES // CHUNKS)  # of a chunk; each is written once
    store = zarr.open_group(str(tmp_path / "s.zarr"), mode="w")
    store.create_dataset("a", data=np.zeros((CHUNKS, cells), "i8"), chunks=(1, cells))
    for path in sorted((tmp_path / "s.zarr").rglob("*")):
        if path.is_file():
            bucket.put(f"s.zarr/{path.relative_to(tmp_path / 's.zarr')}", path.read_bytes())

    places = [(chunk, cell) for chunk in range(CHUNKS) for cell in range(cells)][:UPDATES]
    random.Random(3).shuffle(places)

    def write(which, path):
        mine = places[which::MOUNTS]
        for number, (chunk, cell) in enumerate(mine):
            fd = os.open(path / f"a/{chunk}.0", os.O_WRONLY)
            try:
                assert os.pwrite(fd, np.int64(1 + chunk * cells + cell).tobytes(), 8 * cell) == 8
                if number % 8 == 0:
                    os.fsync(fd)
            finally:
                os.close(fd)
        return len(mine)

    with contextlib.ExitStack() as stack:
        mounts = []
        proxies = []
        for number, (name, address) in enumerate(namespaces):
            proxies.append(stack.enter_context(LagProxy(server.endpoint, address=(address, 0))))
            environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")} | server.environment() | {
                "AWS_ENDPOINT_URL": proxies[-1].endpoint}
            mounts.append(stack.enter_context(mounted(f"s3://{BUCKET}/s.zarr", tmp_path / f"mnt{number}", "commit=1", env=environment,
                                                      program=["nsenter", f"--net=/run/netns/{name}", CODECFS])))
        with concurrent.futures.ThreadPoolExecutor(MOUNTS) as pool:
            done = list(pool.map(write, range(MOUNTS), [each.path for each in mounts]))
        assert sum(done) == UPDATES
        for each in mounts:
            run("fusermount3", "-u", each.path)
        for each in mounts:
            each.ended = True
            each.wait(120)
        conflicts = sum(seen.status == 412 for proxy in proxies for seen in proxy.requests())
        print(f"{UPDATES} updates on {server.name}, {sum(len(proxy.requests()) for proxy in proxies)} requests, {conflicts} of them refused")
        assert conflicts > 0, "they were in each other's way"

    stored = tmp_path / "stored.zarr"
    shutil.copytree(tmp_path / "s.zarr", stored)
    for chunk in range(CHUNKS):
        (stored / f"a/{chunk}.0").write_bytes(bucket.get(f"s.zarr/a/{chunk}.0"))
    seen = zarr.open(str(stored), mode="r")["a"][:]
    expected = np.arange(1, CHUNKS * cells + 1).reshape(CHUNKS, cells)
    expected.ravel()[UPDATES:] = 0
    np.testing.assert_array_equal(seen, expected)
