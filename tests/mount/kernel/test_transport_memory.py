"""A mount and its reader in a memory cgroup of 256 MiB: each transport streams what is much larger, and nothing is killed.

CODECFS_STREAMED_GIB: how much is read with each transport, 1 GiB by default.
"""
import contextlib
import json
import os
import pathlib
import sys
import time
import zlib

import h5py
import numpy as np
import pytest

from mounts import Mount, MountError, mount_points
from running import run

MIB = 1 << 20
LIMIT = 256 * MIB
CHUNKS = int(os.environ.get("CODECFS_STREAMED_GIB", "1")) * 1024
CONTENTS = [np.random.default_rng(i).integers(0, 4, MIB // 4, "<i4").tobytes() for i in range(7)]  # chunk n has the n % 7th

READER = """
import sys
from test_transport_memory import CHUNKS, CONTENTS
for i in range(CHUNKS):
    with open(f"{sys.argv[1]}/v/{i}.0", "rb", buffering=0) as file:
        assert file.read() == CONTENTS[i % len(CONTENTS)], i
"""


@pytest.fixture
def cgroup():
    """The directory of a new memory cgroup with this limit."""
    if os.environ.get("CODECFS_SANITIZE"):
        pytest.skip("a daemon with a sanitizer needs more memory")
    words = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
    mounts = mount_points()
    with contextlib.ExitStack() as stack:
        for _, controllers, own in words:
            place, limit = ("/sys/fs/cgroup", "memory.max") if not controllers else ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            if place not in mounts or controllers not in ("", "memory"):
                continue
            made = pathlib.Path(f"{place}{own}/codecfs-test-{os.getpid()}")
            with contextlib.suppress(OSError):
                made.mkdir()
                stack.callback(remove, made)
                (made / limit).write_text(str(LIMIT))
                yield made
                return
        pytest.skip("no memory cgroup can be made here")


def remove(cgroup):
    """When its processes are gone, which takes a moment."""
    for _ in range(200):
        with contextlib.suppress(OSError):
            return cgroup.rmdir()
        time.sleep(0.05)


def kills_in(cgroup):
    for name in ("memory.events", "memory.oom_control"):
        with contextlib.suppress(OSError):
            lines = (cgroup / name).read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    raise FileNotFoundError(cgroup)


def within(cgroup, *command):
    return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', str(cgroup), *command]


def hdf5(path):
    packed = [zlib.compress(content, 1) for content in CONTENTS]
    with h5py.File(path, "w") as f:
        v = f.create_dataset("v", (CHUNKS, MIB // 4), "<i4", chunks=(1, MIB // 4), compression="gzip")
        for i in range(CHUNKS):
            v.id.write_direct_chunk((i, 0), packed[i % len(CONTENTS)])


def uncompressed_zarr(path):
    array = {"zarr_format": 2, "shape": [CHUNKS, MIB // 4], "chunks": [1, MIB // 4], "dtype": "<i4", "compressor": None, "filters": None,
             "fill_value": 0, "order": "C"}
    (path / "v").mkdir(parents=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    (path / "v/.zarray").write_text(json.dumps(array))
    for i in range(CHUNKS):
        if i < len(CONTENTS):
            (path / f"v/{i}.0").write_bytes(CONTENTS[i])
        else:
            os.link(path / f"v/{i % len(CONTENTS)}.0", path / f"v/{i}.0")


@pytest.mark.parametrize("make", [hdf5, uncompressed_zarr])
@pytest.mark.parametrize("transport", ["auto", "passthrough", "push", "read"])
def test_streaming_in_a_small_cgroup(make, transport, cgroup, tmp_path):
    source = tmp_path / "source"
    make(source)
    program = within(cgroup, os.environ["CODECFS"])
    try:
        mount = Mount(source, tmp_path / "mnt", "ro", f"transport={transport}", program=program)
    except MountError as error:
        if "-o transport=passthrough: " not in str(error):
            raise
        pytest.skip(str(error))
    try:
        run(*within(cgroup, sys.executable, "-c", READER, mount.path), seconds=3600, env={"PYTHONPATH": os.pathsep.join(sys.path)})
        assert kills_in(cgroup) == 0
        mount.close()
    finally:
        mount.end()
