"""What a mount of an object store tells of its requests, and that it keeps its secrets."""
import json
import os
import pathlib
import re
import time
import uuid

import pytest
import zarr

from buckets import BUCKET, codecfs_with, environment, make_v2, remote, server, settled, weather  # noqa: F401 (fixtures)
from running import run


@pytest.fixture
def store(server, tmp_path):
    make_v2(tmp_path / "s.zarr")
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    server.control(clear_log=True)
    return tmp_path / "s.zarr"


def read_all(root):
    for folder, folders, names in os.walk(root):
        if ".codecfs" in folders:
            folders.remove(".codecfs")
        for name in names:
            pathlib.Path(folder, name).read_bytes()


def test_counts_are_those_of_the_server(server, store, remote):
    there = remote(store.name)
    read_all(there.path)
    stats, seen = settled(server, there)
    assert stats["object_gets"] == seen["operations"]["GetObject"]
    assert stats["object_lists"] == seen["operations"]["ListObjectsV2"] > 0
    assert stats["object_heads"] == stats["object_puts"] == stats["object_deletes"] == stats["object_others"] == 0
    assert stats["object_bytes_received"] == seen["bytes"]
    assert stats["object_bytes_sent"] == stats["object_retries"] == stats["object_failures"] == stats["object_requests_now"] == 0
    assert 1 <= stats["object_requests_parallel"] <= seen["requests"]
    assert stats["object_time_count"] == seen["requests"] >= stats["object_time_le_10000ms"] >= stats["object_time_le_5ms"]


def test_repetitions_and_failures(server, store, remote):
    there = remote(store.name, "retry=2")
    (there.path / "a").stat()
    before, _ = settled(server, there)
    server.fault("error", key="*a/0.0", status=503, times=2)
    (there.path / "a/0.0").read_bytes()
    after, _ = settled(server, there)
    assert after["object_retries"] == before["object_retries"] + 2
    assert after["object_failures"] == 0
    server.fault("error", key="*a/1.1", status=500)
    with pytest.raises(OSError):
        (there.path / "a/1.1").read_bytes()
    assert there.stats()["object_failures"] > 0


def test_times_are_counted(server, store, remote):
    there = remote(store.name)
    (there.path / "a/1.0").read_bytes()  # with the metadata
    before, _ = settled(server, there)
    server.fault("delay", key="*a/2.1", seconds=0.3)
    (there.path / "a/2.1").read_bytes()
    after, _ = settled(server, there)
    assert after["object_time_le_200ms"] == before["object_time_le_200ms"]
    assert after["object_time_count"] == before["object_time_count"] + 1
    assert after["object_time_sum_ms"] >= before["object_time_sum_ms"] + 300


def test_hits_of_the_caches(server, weather, remote, tmp_path):
    server.put(BUCKET, weather.name, weather.read_bytes())
    first = remote(weather.name, f"cache_dir={tmp_path}/cache")
    for number in range(4):
        (first.path / f"v0/{number}.0.0").read_bytes()
    stats, _ = settled(server, first)
    assert stats["object_memory_hits"] > 0 and stats["object_disk_hits"] == 0
    assert stats["object_disk_misses"] > 0
    first.unmount()
    second = remote(weather.name, f"cache_dir={tmp_path}/cache")
    for number in range(4):
        (second.path / f"v0/{number}.0.0").read_bytes()
    stats, _ = settled(server, second)
    assert stats["object_disk_hits"] > 0
    assert stats["object_bytes_received"] < weather.stat().st_size / 4


def test_status(server, store, remote):
    there = remote(store.name)
    (there.path / "a/0.0").read_bytes()
    gets = settled(server, there)[0]["object_gets"]
    text = codecfs_with(server, "status", there.path).stdout
    assert re.search(r"store +\d+ requests, .* received, 0 repeated, 0 failed", text), text
    counters = json.loads(codecfs_with(server, "status", "--json", there.path).stdout)[0]["counters"]
    assert counters["object_gets"] == gets and counters["object_time_count"] >= gets
    prometheus = codecfs_with(server, "status", "--prometheus", there.path).stdout
    assert re.search(rf'^codecfs_object_gets{{.*source="s3://{BUCKET}/{store.name}"}} {gets}$', prometheus, re.M), prometheus
    assert re.search(r'^codecfs_object_time_seconds_bucket{.*,le="0.005"} \d+$', prometheus, re.M)
    assert re.search(r'^codecfs_object_time_seconds_bucket{.*,le="\+Inf"} \d+$', prometheus, re.M)
    assert re.search(r"^codecfs_object_time_seconds_count{.*} \d+$", prometheus, re.M)


def test_a_mount_of_a_file_has_none(mount, store, server):
    there = mount(store, "ro")
    assert not any(name.startswith("object_") for name in there.stats())
    assert "requests," not in codecfs_with(server, "status", there.path).stdout


# --- the log


def test_requests_are_logged_with_their_ids(server, store, remote):
    there = remote(store.name, "loglevel=debug")
    os.listdir(there.path / "a")
    (there.path / "a/0.0").read_bytes()
    server.fault("error", key="*a/0.1", status=503, times=1)
    (there.path / "a/0.1").read_bytes()
    settled(server, there)
    log = there.log.read_text()
    host = re.escape(server.endpoint)
    place = f"s3://{BUCKET}/{store.name}"
    assert re.search(rf"GET {place}/a/0\.0 bytes=0-\d+ at {host}: status 206, \d+ bytes in \d+ ms, request \S+", log), log
    assert re.search(rf"GET {place}/a/0\.1 .*: status 503, \d+ bytes in \d+ ms, request \S+", log)
    assert re.search(rf"LIST {place}/a/ at {host}: status 200, \d+ bytes in \d+ ms, request \S+", log)
    ids = re.findall(r"request (\S+)$", log, re.M)
    assert len(ids) == len(set(ids)) == len(server.log())


def test_other_levels_log_no_requests(server, store, remote):
    there = remote(store.name)
    (there.path / "a/0.0").read_bytes()
    assert "GET" not in there.log.read_text()


def everything_shown(server, there):
    """What other programs and users can see of a mount, by what it is."""
    daemon = pathlib.Path(f"/proc/{there.process.pid}")
    shown = {"log": there.log.read_text(), "mounts": pathlib.Path("/proc/mounts").read_text(),
             "mountinfo": pathlib.Path("/proc/self/mountinfo").read_text(),
             "ps": run("ps", "-ewwo", "args", code=None).stdout,
             "status": codecfs_with(server, "status", "--json", there.path).stdout,
             "prometheus": codecfs_with(server, "status", "--prometheus", there.path).stdout,
             "threads": " ".join((task / "comm").read_text() for task in (daemon / "task").iterdir())}
    for name in os.listdir(there.path / ".codecfs"):
        path = there.path / ".codecfs" / name
        if path.is_file():
            try:
                shown[name] = path.read_text()
            except OSError as error:
                shown[name] = str(error)
    for folder, folders, names in os.walk(there.path):
        for path in [folder, *(os.path.join(folder, name) for name in names)]:
            for name in os.listxattr(path):
                shown[f"{path}: {name}"] = os.getxattr(path, name).decode(errors="replace")
    return shown


def test_keys_are_secret(server, store, remote):
    secret = uuid.uuid4().hex  # of this run: other processes that `ps` shows may be those of the same test
    key, password, token = f"temporary{secret}", f"password{secret}", f"session-token-{secret}"
    server.control(credentials={"access_key": key, "secret": password, "token": token, "expires": time.time() + 3000})
    there = remote(store.name, "loglevel=debug", "retry=1", AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=password, AWS_SESSION_TOKEN=token)
    os.listdir(there.path / "a")
    (there.path / "a/0.0").read_bytes()
    server.fault("error", key="*a/1.1", status=403, code="AccessDenied", message="no")
    server.fault("reset", key="*a/2.1")
    for name in ("1.1", "2.1"):
        with pytest.raises(OSError):
            (there.path / "a" / name).read_bytes()
    shown = everything_shown(server, there)
    assert len(shown) > 10 and "GET" in shown["log"]
    for name, text in shown.items():
        assert secret not in text, name
        text = text.replace("log.showSignature=", "")  # an option of git, which `ps` may show
        assert "Signature=" not in text and "Credential=" not in text, name


def test_signatures_in_urls_are_secret(server, store, mount):
    zarr.consolidate_metadata(str(store))
    server.put_tree(BUCKET, store, "s.zarr/")
    secret = uuid.uuid4().hex
    there = mount(f"{server.endpoint}/_files/{BUCKET}/{store.name}?X-Signature={secret}", "loglevel=debug", "retry=1", env=environment(server))
    read_all(there.path)
    server.fault("error", path="*0.1*", status=500)
    run("cat", there.path / "a/0.1", code=None, text=False)
    assert any(secret in json.dumps(entry) for entry in server.log()), "it is sent"
    for name, text in everything_shown(server, there).items():
        assert secret not in text, name
