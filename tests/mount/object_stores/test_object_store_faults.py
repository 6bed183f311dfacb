"""Thousands of requests of which 5 % fail in one of five ways: each read is right or an error with its reason, never wrong bytes, and what
fsync has stored is there.

CODECFS_FAULT_REQUESTS: how many requests at least, 1,000 by default; 10,000 take some minutes.
"""
import concurrent.futures
import errno
import os
import pathlib
import random
import zipfile

import h5py
import numpy as np
import pytest
import zarr

from buckets import BUCKET, FakeS3, environment, make_v3
from conftest import mounted
from mounts import MountError

REQUESTS = int(os.environ.get("CODECFS_FAULT_REQUESTS", "1000"))
ERRORS = {errno.EIO, errno.ESTALE}
FAULTS = {"error": {"status": 503}, "reset": {"after": "operation"}, "short_body": {"by": 7}, "wrong_etag": {}, "delay": {"seconds": 0.3}}


@pytest.fixture
def server(tmp_path):
    (tmp_path / "buckets").mkdir()
    with FakeS3(root=str(tmp_path / "buckets")) as running:
        running.bucket(BUCKET)
        running.control(seed=4)
        yield running


def begin_faults(server):
    for kind, more in FAULTS.items():
        server.fault(kind, probability=0.01, **more)


def end_faults(server):
    """Each kind has happened."""
    fired = {fault["kind"]: fault["fired"] for fault in server.control()["faults"]}
    server.clear_faults()
    assert set(fired) == set(FAULTS) and min(fired.values()) >= 1, fired
    return sum(fired.values())


def make_sources(folder):
    """Sources by name, each with the contents of its chunk files."""
    values = np.random.default_rng(1).integers(0, 1 << 30, (200, 400), "i4")
    zarr.open_group(str(folder / "v2.zarr"), mode="w").create_dataset("a", data=values, chunks=(10, 20))
    make_v3(folder / "v3.zarr")
    with h5py.File(folder / "file.h5", "w") as f:
        f.create_dataset("filler", data=np.random.default_rng(2).random(1_200_000))  # so that the file is not requested as a whole
        f.create_dataset("a", data=values, chunks=(10, 20), compression="gzip")
    with zipfile.ZipFile(folder / "store.zip", "w") as archive:
        for path in sorted((folder / "v2.zarr").rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder / "v2.zarr"))
        archive.writestr("a/filler", np.random.default_rng(3).bytes(9_000_000))
    of_array = {f"a/{i}.{j}": values[10 * i:10 * i + 10, 20 * j:20 * j + 20].tobytes() for i in range(20) for j in range(20)}
    sharded = {f"deep/sharded/c/{i}/{j}": np.arange(16, dtype="<i4").tobytes() for i in range(2) for j in range(2)}
    return {"v2.zarr": of_array, "v3.zarr": sharded, "file.h5": of_array, "store.zip": of_array}


def test_reads(server, tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    expected = make_sources(sources)
    for name in expected:
        if (sources / name).is_dir():
            server.put_tree(BUCKET, sources / name, name + "/")
        else:
            server.put(BUCKET, name, (sources / name).read_bytes())
    server.control(clear_log=True)
    begin_faults(server)
    order = random.Random(1)
    right, wrong, failed, refused = 0, [], 0, 0
    for round_number in range(1000):
        if server.summary()["requests"] >= REQUESTS:
            break
        name = list(expected)[round_number % len(expected)]
        try:
            with mounted(f"s3://{BUCKET}/{name}", tmp_path / f"mnt{round_number}", "ro", "retry=20", env=environment(server)) as there:

                def read(file):
                    try:
                        return (there.path / file).read_bytes()
                    except OSError as error:
                        assert error.errno in ERRORS, (file, error)
                        return None

                # Of some in their order, as a sequential reader does, of others not.
                files = sorted(expected[name], key=lambda file: [int(n) for n in pathlib.Path(file).name.split(".")])
                files = order.sample(files, len(files)) if round_number % 8 < 4 else files
                with concurrent.futures.ThreadPoolExecutor(4) as pool:
                    seen = dict(zip(files, pool.map(read, files)))
                if set(seen.values()) == {None} and "was replaced since it was opened" in there.messages():
                    refused += 1  # the first answer had the wrong ETag: all others are of another object
                    continue
                right += sum(content == expected[name][file] for file, content in seen.items())
                failed += sum(content is None for content in seen.values())
                wrong += [(name, file) for file, content in seen.items() if content not in (None, expected[name][file])]
                if None in seen.values():
                    assert there.messages().strip(), "the reasons are in the log"
        except MountError as error:
            assert "codecfs ended with" in str(error) and BUCKET in str(error), "a mount is refused with a reason"
            refused += 1
    print(f"{server.summary()['requests']} requests, {end_faults(server)} faults: {right} reads right, {failed} failed, {refused} mounts refused")
    assert not wrong
    assert right > 10 * failed and refused <= round_number / 4


def test_writes(server, tmp_path):
    model = np.zeros((200, 400), "i4")
    zarr.open_group(str(tmp_path / "v2.zarr"), mode="w").create_dataset("a", data=model, chunks=(10, 20))
    server.put_tree(BUCKET, tmp_path / "v2.zarr", "v2.zarr/")
    server.control(clear_log=True)
    begin_faults(server)
    order = random.Random(2)
    with mounted(f"s3://{BUCKET}/v2.zarr", tmp_path / "mnt", "commit=1", env=environment(server)) as there:
        number, failed = 0, 0
        while server.summary()["requests"] < REQUESTS:
            # One file after the other, in parts or as a whole; what fsync cannot store is tried again by the mount.
            i, j = order.randrange(20), order.randrange(20)
            chunk = model[10 * i:10 * i + 10, 20 * j:20 * j + 20]
            number += 1
            begin, end = (0, 10) if number % 3 == 0 else sorted(order.sample(range(11), 2))
            try:
                fd = os.open(there.path / f"a/{i}.{j}", os.O_WRONLY)
            except OSError as error:
                assert error.errno in ERRORS
                failed += 1
                continue
            try:
                content = np.full((end - begin, 20), number, "i4")
                try:
                    written = os.pwrite(fd, content.tobytes(), begin * 80)
                except OSError as error:
                    assert error.errno in ERRORS
                    failed += 1
                    continue
                assert written == content.nbytes
                chunk[begin:end] = content
                try:
                    os.fsync(fd)
                except OSError as error:
                    assert error.errno in ERRORS
                    failed += 1
            finally:
                os.close(fd)
            if number % 20 == 0:
                os.setxattr(there.path / "a", "user.number", b"%d" % number)
        requests = server.summary()["requests"]
        print(f"{requests} requests, {end_faults(server)} faults: {number} writes, {failed} failed at first")
    assert failed <= number / 10
    np.testing.assert_array_equal(zarr.open(str(tmp_path / "buckets" / BUCKET / "v2.zarr"), mode="r")["a"][:], model)
