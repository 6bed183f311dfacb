"""Zarr stores in object stores: against an S3 server of our own, which counts every request and fails on demand.

What is read is compared with a mount of the same store in a directory, and with what zarr-python reads there.
"""
import concurrent.futures
import errno
import json
import os
import pathlib
import re
import signal
import subprocess

import numpy as np
import pytest
import zarr

from buckets import BUCKET, STORES, FakeS3, codecfs_with, environment, files_of, make_v2, remote, server, settled  # noqa: F401 (fixtures)
from conftest import is_mounted
from fake_s3 import make_certificate
from running import codecfs, run


@pytest.fixture
def store(request, server, tmp_path):
    """The directory of one of STORES, which is also in the bucket."""
    path = tmp_path / f"{request.param}.zarr"
    STORES[request.param](path)
    server.put_tree(BUCKET, path, path.name + "/")
    server.control(clear_log=True)
    return path


@pytest.mark.parametrize("store", STORES, indirect=True)
@pytest.mark.parametrize("view", ["decoded", "encoded", "npy", "decoded3"])
def test_shows_what_a_mount_of_the_directory_shows(store, view, mount, remote):
    expected = files_of(mount(store, "ro", f"view={view}").path)
    assert len(expected) > 3
    assert files_of(remote(store.name, f"view={view}").path) == expected


@pytest.mark.parametrize("store", ["v2", "v2-slash", "v2-consolidated"], indirect=True)
def test_zarr_python_reads_the_same(store, remote):
    there = remote(store.name)
    for name in ["a", "inner/b c+d"]:
        expected = zarr.open_array(str(store), path=name, mode="r")
        seen = zarr.open_array(str(there.path), path=name, mode="r")
        np.testing.assert_array_equal(seen[:], expected[:])
        assert dict(seen.attrs) == dict(expected.attrs)


# --- requests


@pytest.mark.parametrize("store,gets", [("v2-consolidated", 2), ("v3-consolidated", 1)], indirect=["store"])
def test_the_tree_is_one_request(store, gets, server, remote):
    """Of Zarr v2, the first tells that it is not v3."""
    there = remote(store.name)
    run("ls", "-l", there.path, *(path for path in there.path.iterdir() if path.is_dir() and path.name in ("inner", "deep")),
        stdout=subprocess.DEVNULL)
    summary = server.summary()
    assert summary["operations"] == {"GetObject": gets}


@pytest.mark.parametrize("store", ["v2-consolidated"], indirect=True)
def test_a_chunk_is_one_request(store, server, remote):
    there = remote(store.name)
    server.control(clear_log=True)
    assert len((there.path / "a/1.1").read_bytes()) == 30 * 40 * 8
    assert server.summary()["operations"] == {"GetObject": 1}
    assert not (there.path / "a/7.7").exists()


@pytest.mark.parametrize("store", ["v2-consolidated", "v3-consolidated"], indirect=True)
def test_a_cache_on_disk(store, server, remote, mount, tmp_path):
    """The second mount has as many requests, but the server sends no chunk again."""
    expected = files_of(mount(store, "ro").path)
    cache = tmp_path / "cache"

    def read():
        server.control(clear_log=True)
        there = remote(store.name, f"cache_dir={cache}")
        assert files_of(there.path) == expected
        stats, seen = settled(server, there)
        there.unmount()
        return stats, seen

    chunks = [file.stat().st_size for file in store.rglob("*") if file.is_file() and not file.name.startswith((".z", "zarr.json"))]
    _, first = read()
    stats, second = read()
    assert second["bytes"] <= first["bytes"] - sum(chunks) and second["requests"] <= first["requests"]
    assert second["statuses"]["304"] >= len(chunks) and stats["object_disk_hits"] >= second["statuses"]["304"]

    for file in cache.rglob("*"):  # every file is damaged
        if file.is_file():
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
    _, third = read()
    assert "304" not in third["statuses"]


@pytest.mark.parametrize("store", ["v2", "v3"], indirect=True)
def test_a_cache_on_disk_of_what_is_written(store, server, remote, tmp_path):
    """By this mount, which has the former state in its cache, and by another program."""
    cache = tmp_path / "cache"
    chunk = "plain/c/1/1" if store.name.startswith("v3") else "a/1.1"

    def read():
        there = remote(store.name, f"cache_dir={cache}")
        content = there.path.joinpath(chunk).read_bytes()
        there.unmount()
        return content

    first = read()
    changed = bytes(reversed(first))
    assert changed != first
    writer = remote(store.name, f"cache_dir={cache}")
    assert writer.path.joinpath(chunk).read_bytes() == first
    writer.path.joinpath(chunk).write_bytes(changed)
    writer.unmount()
    assert read() == changed
    server.put(BUCKET, f"{store.name}/{chunk}", store.joinpath(chunk).read_bytes())
    assert read() == first


@pytest.mark.parametrize("store", ["v3-consolidated"], indirect=True)
def test_a_shard_is_read_in_parts(store, server, remote):
    there = remote(store.name)
    server.control(clear_log=True)
    for i in range(2):
        for j in range(2):
            assert len((there.path / f"deep/sharded/c/{i}/{j}").read_bytes()) == 64
    assert all(entry["operation"] == "GetObject" and entry["range"] for entry in server.log())
    assert len(server.log()) <= 4, "one for the end of the shard"


def test_a_large_chunk_comes_in_parts_of_one_state(server, remote, tmp_path):
    array = zarr.open_array(str(tmp_path / "big.zarr"), mode="w", shape=(3_000_000,), chunks=(3_000_000,), dtype="i8", compressor=None)
    array[:] = np.arange(3_000_000)
    server.put_tree(BUCKET, tmp_path / "big.zarr", "big.zarr/")
    there = remote("big.zarr")
    assert (there.path / "0").read_bytes() == (tmp_path / "big.zarr/0").read_bytes()
    parts = [entry for entry in server.log() if entry["key"].endswith("/0") and entry["status"] == 206]
    assert len(parts) == 3 and all(entry["if_match"] for entry in parts[1:])


def test_names_that_must_be_encoded(server, remote, tmp_path):
    names = ["a b", "a+b", "a%41", "é", "a~(b)'!*", "a&b=c"]
    group = zarr.open_group(str(tmp_path / "names.zarr"), mode="w")
    for i, name in enumerate(names):
        group.create_dataset(name, shape=(1,), chunks=(1,), dtype="i4")[:] = i
    server.put_tree(BUCKET, tmp_path / "names.zarr", "pre fix+/names.zarr/")
    there = remote("pre fix+/names.zarr/")
    listed = zarr.open_group(str(tmp_path / "names.zarr"), mode="r")
    assert len([path for path in there.path.iterdir() if path.is_dir() and path.name != ".codecfs"]) == len(list(listed.arrays()))
    for i, name in enumerate(names):
        assert np.frombuffer((there.path / name / "0").read_bytes(), "i4") == [i]


# --- faults


@pytest.mark.parametrize("store", ["v2"], indirect=True)
def test_faults_end_right(store, server, remote, mount):
    expected = files_of(mount(store, "ro").path)
    server.control(seed=7)
    for kind, more in [("error", {"status": 503}), ("reset", {}), ("short_body", {}), ("error", {"status": 500})]:
        server.fault(kind, probability=0.05, **more)
    assert files_of(remote(store.name).path) == expected
    assert sum(fault["fired"] for fault in server.control()["faults"]) > 0, "nothing was tried"


@pytest.mark.parametrize("store", ["v2-consolidated"], indirect=True)
def test_a_failing_server_is_an_error_with_its_reason(store, server, remote):
    there = remote(store.name, "retry=1")
    server.fault("error", status=503)
    with pytest.raises(OSError) as caught:
        (there.path / "a/0.0").read_bytes()
    assert caught.value.errno == errno.EIO
    server.clear_faults()
    assert len((there.path / "a/0.0").read_bytes()) == 9600, "failures are not kept"
    assert "503" in there.log.read_text()


@pytest.mark.parametrize("store", ["v2-consolidated"], indirect=True)
def test_what_may_not_be_read_is_not_taken_for_absent(store, server, remote):
    there = remote(store.name)
    server.fault("error", status=403, code="AccessDenied", key="*0.0")
    with pytest.raises(PermissionError):
        (there.path / "a/0.0").read_bytes()


def make_big(server, tmp_path, value):
    array = zarr.open_array(str(tmp_path / "big.zarr"), mode="w", shape=(3_000_000,), chunks=(3_000_000,), dtype="i8", compressor=None)
    array[:] = value
    server.put_tree(BUCKET, tmp_path / "big.zarr", "big.zarr/")
    return (tmp_path / "big.zarr/0").read_bytes()


@pytest.mark.parametrize("options", [[], ["ro"]], ids=["rw", "ro"])
def test_an_object_that_is_replaced_between_its_parts_is_an_error(options, server, remote, tmp_path):
    make_big(server, tmp_path, 1)
    there = remote("big.zarr", *options)
    server.fault("replace", key="big.zarr/0", nth=2, size=24_000_000)
    with pytest.raises(OSError) as caught:
        (there.path / "0").read_bytes()
    assert caught.value.errno == errno.ESTALE
    assert "the object was replaced" in there.log.read_text()


@pytest.mark.parametrize("options", [[], ["ro"]], ids=["rw", "ro"])
@pytest.mark.parametrize("view", ["decoded", "encoded", "npy"])
def test_an_object_that_is_replaced_after_it_was_read_is_an_error(options, view, server, remote, tmp_path):
    """Parts of its first state may be in the page cache."""
    old = make_big(server, tmp_path, 1)
    there = remote("big.zarr", *options, f"view={view}", "cache=1M")
    path = there.path / ("0" if view != "npy" else "data.npy")
    if not path.exists():
        path = next(there.path.glob("*.npy"))
    with open(path, "rb") as file:
        shown = file.read()
        assert shown.endswith(old)
        make_big(server, tmp_path, 2)
        os.posix_fadvise(file.fileno(), 4096 * 1000, 0, os.POSIX_FADV_DONTNEED)
        try:
            file.seek(0)
            assert file.read() == shown
        except OSError as error:
            assert error.errno in (errno.ESTALE, errno.EIO)


def test_parts_of_objects_without_an_identity_are_not_joined(server, mount, tmp_path):
    make_big(server, tmp_path, 1)
    for mode in ["-noetag-nodate", "-noetag"]:
        there = mount(f"{server.endpoint}/_files{mode}/{BUCKET}/big.zarr", env=environment(server))
        if "nodate" in mode:
            with pytest.raises(OSError) as caught:
                (there.path / "0").read_bytes()
            assert caught.value.errno == errno.EOPNOTSUPP
        else:
            assert len((there.path / "0").read_bytes()) == 24_000_000, "the date is one"


@pytest.mark.parametrize("store", ["v3-consolidated"], indirect=True)
def test_shards_without_an_identity_are_refused(store, server, mount):
    there = mount(f"{server.endpoint}/_files-noetag-nodate/{BUCKET}/{store.name}", env=environment(server))
    assert len((there.path / "plain/c/0/0").read_bytes()) == 100, "one request has all of it"
    with pytest.raises(OSError) as caught:
        (there.path / "deep/sharded/c/0/0").read_bytes()
    assert caught.value.errno == errno.EOPNOTSUPP


def test_names_below_a_url_are_encoded(server, mount, tmp_path):
    names = ["a b", "a+b", "p%41", "q#r", "s?t", "é"]
    group = zarr.open_group(str(tmp_path / "names.zarr"), mode="w")
    for i, name in enumerate([*names, "pA"]):
        group.create_dataset(name, shape=(1,), chunks=(1,), dtype="i4")[:] = i
    zarr.consolidate_metadata(str(tmp_path / "names.zarr"))
    server.put_tree(BUCKET, tmp_path / "names.zarr", "names.zarr/")
    local = files_of(mount(tmp_path / "names.zarr", "ro", "view=npy").path)
    there = mount(f"{server.endpoint}/_files/{BUCKET}/names.zarr", "view=npy", env=environment(server))
    assert files_of(there.path) == local and len(local) > len(names)


@pytest.mark.parametrize("store", ["v2"], indirect=True)
@pytest.mark.parametrize("kind", ["new", "same"])
def test_endless_lists_end(store, kind, server, remote):
    there = remote(store.name, "retry=1")
    server.fault("body", operation="ListObjectsV2", text="" if kind == "" else ENDLESS[kind], content_type="application/xml")
    with pytest.raises(OSError):
        os.listdir(there.path / "inner")
    assert server.summary()["operations"]["ListObjectsV2"] < 500


ENDLESS = {kind: f"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken></ListBucketResult>"
           for kind, token in [("new", "x"), ("same", "x")]}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("store", ["v2-consolidated"], indirect=True)
def test_signals_unmount(store, number, remote):
    """Whichever thread of the daemon gets them: those of connections must not."""
    there = remote(store.name)
    (there.path / "a/0.0").read_bytes()
    there.process.send_signal(number)
    assert there.process.wait(30) == 0
    assert not is_mounted(there.path)


HARMFUL = [("wrong_etag", {}), ("wrong_content_range", {}), ("wrong_content_length", {}), ("ignore_range", {}), ("garbage", {}),
           ("giant_body", {"bytes": 50_000_000}), ("huge_headers", {}), ("malformed_list", {"how": "html"}),
           ("malformed_list", {"how": "bomb"}), ("malformed_list", {"how": "outside"}), ("malformed_list", {"how": "no_token"}),
           ("endless_list", {"token": "same"}), ("error_in_200", {})]


@pytest.mark.parametrize("kind,more", HARMFUL, ids=lambda value: value if isinstance(value, str) else "".join(map(str, value.values())))
@pytest.mark.parametrize("store", ["v3"], indirect=True)
def test_wrong_answers_never_give_wrong_bytes(store, kind, more, server, mount, remote):
    """A server that always answers so gives an error, and one that does so sometimes the right bytes or an error."""
    expected = files_of(mount(store, "ro").path)
    there = remote(store.name, "retry=1")
    for probability in [0.2, 1]:
        server.fault(kind, probability=probability, operation=["GetObject", "ListObjectsV2"], **more)
        for name, content in list(expected.items())[:: 1 if probability < 1 else 6]:
            try:
                path = there.path / name
                if content is None:
                    os.listdir(path)
                else:
                    assert path.read_bytes() == content, name
            except OSError as error:
                assert error.errno in (errno.EIO, errno.ESTALE, errno.EOPNOTSUPP, errno.EFBIG, errno.ENOENT), (error, there.messages())
                assert error.errno != errno.ENOENT or kind == "malformed_list", error
        server.clear_faults()
    there.process.poll()
    assert there.process.returncode is None, "the daemon lives"


@pytest.mark.parametrize("store", ["v3"], indirect=True)
def test_a_server_that_ignores_ranges(store, server, remote):
    """Requests are signed with their range, and small objects are all that was asked for."""
    there = remote(store.name, "retry=1")
    os.listdir(there.path / "plain")
    server.fault("ignore_range", operation="GetObject")
    assert (there.path / "plain/c/0/0").read_bytes() == (store / "plain/c/0/0").read_bytes()
    assert (there.path / "deep/sharded/c/0/0").read_bytes() == np.arange(16, dtype="<i4").tobytes()
    assert {entry["status"] for entry in server.log() if entry["range"]} == {200}


def test_missing_stores_and_buckets_say_so(server):
    for name in ("nothing.zarr", "nothing.h5", "nothing"):
        said = codecfs_with(server, "info", f"s3://{BUCKET}/{name}").stderr
        assert f"s3://{BUCKET}/{name}: there is no such object, and no Zarr store" in said
    assert "no such bucket" in codecfs_with(server, "info", "s3://no-such-bucket/x.zarr").stderr
    assert "SignatureDoesNotMatch" in codecfs_with(server, "info", f"s3://{BUCKET}/x.zarr", env={"AWS_SECRET_ACCESS_KEY": "other"}).stderr
    server.put(BUCKET, "text.txt", b"no dataset")
    assert "a single object" in codecfs_with(server, "info", f"s3://{BUCKET}/text.txt").stderr
    host = server.endpoint.removeprefix("http://")
    assert "name it http://" in codecfs_with(server, "info", "-O", f"retry=1,endpoint={host}", f"s3://{BUCKET}/text.txt").stderr


@pytest.mark.parametrize("name", ["s.zarr", "file.nc"])
@pytest.mark.parametrize("scheme", ["s3", "http"])
def test_a_page_of_a_login_is_named_with_its_url(name, scheme, server):
    server.fault("body", text="<!DOCTYPE html><title>Log in</title>", status=200, content_type="text/html")
    place = {"s3": f"s3://{BUCKET}/{name}", "http": f"{server.endpoint}/{BUCKET}/{name}"}[scheme]
    said = codecfs_with(server, "info", "-O", "retry=1", place).stderr
    assert place in said and "page of HTML" in said


@pytest.mark.parametrize("store", ["v2"], indirect=True)
def test_a_bucket_in_another_region(store, server):
    server.bucket("elsewhere", region="eu-west-3")
    server.put_tree("elsewhere", store, store.name + "/")
    assert codecfs_with(server, "verify", f"s3://elsewhere/{store.name}").returncode == 0


@pytest.mark.parametrize("store", ["v2"], indirect=True)
def test_public_buckets_need_no_credentials(store, server):
    server.bucket("public-bucket", public=True)
    server.put_tree("public-bucket", store, store.name + "/")
    none = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": "/nonexistent"}
    assert codecfs_with(server, "verify", "-O", "anon", f"s3://public-bucket/{store.name}", env=none).returncode == 0
    refused = codecfs_with(server, "verify", f"s3://public-bucket/{store.name}", env=none)
    assert refused.returncode == 32 and "-o anon" in refused.stderr
    for value in "YES", "true", "1":
        words = ("verify", f"s3a://public-bucket/{store.name}")
        assert codecfs_with(server, *words, env=none | {"AWS_NO_SIGN_REQUEST": value}).returncode == 0


@pytest.mark.parametrize("store", ["v2"], indirect=True)
def test_buckets_whose_readers_pay(store, server, remote):
    server.bucket(BUCKET, requester_pays=True)
    refused = codecfs_with(server, "info", f"s3://{BUCKET}/{store.name}")
    assert refused.returncode == 32 and "403" in refused.stderr
    there = remote(store.name, "requester_pays")
    assert (there.path / "a/0.0").read_bytes() == bytes(np.arange(9000.0).reshape(100, 90)[:30, :40].tobytes())
    (there.path / "a/0.1").write_bytes(np.full(1200, 3.0).tobytes())
    run("fusermount3", "-u", there.path)
    assert there.process.wait(60) == 0
    assert codecfs_with(server, "verify", "-O", "requester_pays", f"s3://{BUCKET}/{store.name}").returncode == 0


@pytest.mark.parametrize("store", ["v2"], indirect=True)
def test_keys_of_a_program(store, server, tmp_path):
    """Before those of the environment, which are wrong here."""
    program = tmp_path / "keys"
    program.write_text(json.dumps({"Version": 1, "AccessKeyId": "testkey", "SecretAccessKey": "testsecret"}))
    words = ("verify", "-O", f"credential_process=cat '{program}'", f"s3://{BUCKET}/{store.name}")
    assert codecfs_with(server, *words, env={"AWS_SECRET_ACCESS_KEY": "wrong"}).returncode == 0
    program.write_text("no keys")
    assert "does not print a JSON object" in codecfs_with(server, *words).stderr


# --- plain HTTP


@pytest.mark.parametrize("store", ["v2-consolidated", "v3-consolidated"], indirect=True)
def test_a_web_server(store, server, mount):
    expected = mount(store, "ro")
    there = mount(f"{server.endpoint}/_files/{BUCKET}/{store.name}", env=environment(server))
    for name in ["a/0.0", "a/3.2", "plain/c/0/1", "deep/sharded/c/1/0"]:
        path = expected.path / name
        if path.exists():
            assert (there.path / name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("store", ["v2-consolidated"], indirect=True)
def test_signatures_in_urls_are_secret(store, server, mount):
    secret = "X-Signature=5ec2e7"
    there = mount(f"{server.endpoint}/_files/{BUCKET}/{store.name}?{secret}", "loglevel=debug", env=environment(server))
    (there.path / "a/0.0").read_bytes()
    assert any("5ec2e7" in json.dumps(entry) for entry in server.log()), "it is sent"
    url = f"{server.endpoint}/_files/{BUCKET}/{store.name}?{secret}"
    shown = [codecfs_with(server, "info", url).stdout, codecfs_with(server, "info", "--json", url).stdout,
             codecfs_with(server, "info", "--html", "-", url).stdout,
             codecfs_with(server, "verify", url).stdout,
             there.log.read_text(), pathlib.Path("/proc/mounts").read_text(), (there.path / ".codecfs/stats").read_text(),
             run("ps", "-ewwo", "args", code=None).stdout]
    assert not any("5ec2e7" in text for text in shown)


# --- commands


@pytest.mark.parametrize("store", ["v2", "v3-consolidated"], indirect=True)
def test_commands(store, server, tmp_path):
    url = f"s3://{BUCKET}/{store.name}"
    assert "no damage" in codecfs_with(server, "verify", url).stdout
    info = json.loads(codecfs_with(server, "info", "--json", url).stdout)
    assert info["variables"] == json.loads(codecfs_with(server, "info", "--json", store).stdout)["variables"]
    same = codecfs_with(server, "compare", url, store)
    assert same.returncode == 0 and "same content" in same.stdout
    copy = tmp_path / "copy.zarr"
    assert codecfs_with(server, "convert", url, copy).returncode == 0
    assert codecfs_with(server, "compare", copy, store).returncode == 0
    refused = codecfs_with(server, "refs", url)
    assert refused.returncode == 32 and "references are of one file" in refused.stderr


@pytest.mark.parametrize("url", [f"s3://{BUCKET}/none.zarr", f"s3://{BUCKET}/a.nc", "https://localhost/a.nc?secret=x"])
@pytest.mark.parametrize("command,reason", [("check", "a URL has no log"), ("recover", "a URL has no log"), ("compact", "copy it here")])
def test_commands_for_files_refuse_urls(command, reason, url, server):
    refused = codecfs_with(server, command, url)
    assert refused.returncode == 32 and reason in refused.stderr and not refused.stdout
    assert url.partition("?")[0] in refused.stderr and "secret" not in refused.stderr
    assert server.summary()["requests"] == 0


def test_coherent_mounts_of_urls_are_refused(server, tmp_path):
    refused = codecfs_with(server, "-o", "coherent", f"s3://{BUCKET}/a.zarr", tmp_path)
    assert refused.returncode == 1 and "would be a request" in refused.stderr
    assert server.summary()["requests"] == 0


def test_a_sequential_reader_has_many_requests_at_a_time(server, remote, tmp_path):
    """Each chunk once, also where some are absent, and those of the same array that are read in no order one by one."""
    values = np.random.default_rng(1).integers(0, 1000, (200, 1000), "i4")
    array = zarr.open_group(str(tmp_path / "s.zarr"), mode="w").create_dataset("a", data=values, chunks=(1, 1000), fill_value=5)
    zarr.consolidate_metadata(str(tmp_path / "s.zarr"))
    for number in (70, 71, 130):
        (tmp_path / f"s.zarr/a/{number}.0").unlink()
        values[number] = 5
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    server.set(latency=0.03)
    server.control(clear_log=True)
    there = remote("s.zarr", "view=npy", "ro")
    np.testing.assert_array_equal(np.load(there.path / "a.npy"), values)
    seen = server.summary()
    assert array.shape == values.shape
    gets = [entry["key"] for entry in server.log() if "/a/" in entry["key"]]
    assert len(gets) == len(set(gets)) == 200 and seen["operations"].keys() == {"GetObject"}
    assert seen["max_in_flight"] > 16

    server.control(clear_log=True)
    other = remote("s.zarr", "ro")
    for number in (150, 7, 90, 33, 120):
        np.testing.assert_array_equal(np.frombuffer((other.path / f"a/{number}.0").read_bytes(), "i4"), values[number])
    assert len([entry for entry in server.log() if "/a/" in entry["key"]]) == 5


def test_files_of_chunks_are_requested_further_ahead_than_they_are_decoded(server, remote, tmp_path):
    """As cat reads them. Of 1 MiB, some 16 or 30 are decoded ahead, so half of these would be under way at most."""
    array = zarr.open_group(str(tmp_path / "s.zarr"), mode="w").create_dataset("a", shape=(80, 1 << 20), chunks=(1, 1 << 20), dtype="u1")
    array[:] = np.repeat(np.arange(1, 81, dtype="u1")[:, None], 1 << 20, axis=1)
    zarr.consolidate_metadata(str(tmp_path / "s.zarr"))
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    server.set(latency=0.05)
    server.control(clear_log=True)
    there = remote("s.zarr", "ro")
    for number in range(80):
        assert (there.path / f"a/{number}.0").read_bytes() == bytes([number + 1]) * (1 << 20)
    _, seen = settled(server, there)
    gets = [entry["key"] for entry in server.log() if "/a/" in entry["key"]]
    assert sorted(gets) == sorted(f"s.zarr/a/{number}.0" for number in range(80))
    assert seen["max_in_flight"] >= 20


@pytest.mark.parametrize("way", ["mount", "info"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_tree_is_requested_level_by_level(server, remote, tmp_path, zarr_format, way):
    """Without consolidated metadata: three lists and metadata files of each group and array, many at a time."""
    group = {"zarr_format": 3, "node_type": "group"}
    array = {"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "int32", "fill_value": 0, "codecs": [{"name": "bytes"}],
             "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}}, "chunk_key_encoding": {"name": "default"}}
    root = zarr.open_group(str(tmp_path / "s.zarr"), mode="w") if zarr_format == 2 else None
    for name in ("", *(f"g{i}" for i in range(4)), *(f"g{i}/a{j}" for i in range(4) for j in range(15))):
        is_array = name.count("/") == 1
        if root is None:
            (tmp_path / "s.zarr" / name).mkdir()
            (tmp_path / "s.zarr" / name / "zarr.json").write_text(json.dumps(array if is_array else group))
        elif is_array:
            root.zeros(name, shape=4, dtype="i4").attrs["units"] = "m"
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    server.set(latency=0.05)
    if way == "mount":
        there = remote("s.zarr", "ro")
        server.control(clear_log=True)
        names = json.loads((there.path / (".zmetadata" if root is not None else "zarr.json")).read_text())
        assert str(names).count("a14") >= 4
    else:
        server.control(clear_log=True)
        assert codecfs_with(server, "info", f"s3://{BUCKET}/s.zarr").stdout.count("int32") == 60
    seen, keys = server.summary(), [entry["key"] for entry in server.log()]
    assert seen["max_in_flight"] >= 20
    assert seen["operations"]["ListObjectsV2"] <= 6 + (60 if way == "info" else 0)
    assert not [key for key in keys if key.endswith((".nczvar", ".nczarray"))]
    described = [key for key in keys if re.search(r"/a\d+/(zarr.json|\.z\w+)$", key)]
    assert sorted(described) == sorted(set(described)) and len(described) == (60 if zarr_format == 3 else 180)


# Each comes before those that precede it here.
CERTIFICATES = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "ca_bundle of the profile", "AWS_CA_BUNDLE", "-o ca_file=")


@pytest.mark.parametrize("way", CERTIFICATES)
@pytest.mark.parametrize("scheme", ["s3", "https"])
def test_certificates_of_ones_own_authority(scheme, way, tmp_path):
    certificate, key = make_certificate(tmp_path)
    make_v2(tmp_path / "s.zarr", consolidated=True)
    (tmp_path / ".aws").mkdir()
    with FakeS3(certificate=certificate, key=key) as server:
        server.bucket("data", public=True)
        server.put_tree("data", tmp_path / "s.zarr", "s.zarr/")
        place = {"https": f"{server.endpoint}/data/s.zarr", "s3": "s3://data/s.zarr"}[scheme]
        usual = {**environment(server), "HOME": str(tmp_path), **dict.fromkeys(["SSL_CERT_FILE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"])}
        words = ["info", "-O", "retry=1", place]
        refused = codecfs(*words, env=usual, code=32)
        assert "certificate" in refused.stderr

        named = dict.fromkeys(CERTIFICATES[:CERTIFICATES.index(way)], "/nonexistent/ca.pem") | {way: str(certificate)}
        if in_profile := named.pop("ca_bundle of the profile", None):
            (tmp_path / ".aws/config").write_text(f"[default]\nca_bundle = {in_profile}\n")
        if option := named.pop("-o ca_file=", None):
            words[1:1] = ["-O", f"ca_file={option}"]
        only_for_s3 = way in ("AWS_CA_BUNDLE", "ca_bundle of the profile") and scheme == "https"
        done = codecfs(*words, env={**usual, **named}, code=32 if only_for_s3 else 0)
        assert ("certificate" in done.stderr) == only_for_s3 and ("float64" in done.stdout) == (not only_for_s3)


def test_names_in_one_directory_are_looked_up_at_the_same_time(server, remote, tmp_path):
    """Chunks in no order by 20 threads, some of which are absent."""
    values = np.arange(2000, dtype="i4").reshape(200, 10) + 1
    zarr.open_group(str(tmp_path / "s.zarr"), mode="w").create_dataset("a", data=values, chunks=(1, 10), fill_value=0)
    zarr.consolidate_metadata(str(tmp_path / "s.zarr"))
    wanted = np.random.default_rng(1).permutation(200)[:20].tolist()
    for number in wanted[:3]:
        (tmp_path / f"s.zarr/a/{number}.0").unlink()
        values[number] = 0
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    there = remote("s.zarr", "ro")
    os.stat(there.path / "a")
    server.set(latency=0.5)
    server.control(clear_log=True)

    def read(number):
        try:
            return np.frombuffer((there.path / f"a/{number}.0").read_bytes(), "i4")
        except FileNotFoundError:
            return np.zeros(10, "i4")
    with concurrent.futures.ThreadPoolExecutor(len(wanted)) as pool:
        np.testing.assert_array_equal(list(pool.map(read, wanted)), values[wanted])
    assert server.summary()["max_in_flight"] >= 10


@pytest.mark.parametrize("store", ["v2-consolidated"], indirect=True)
def test_nothing_is_written_below_a_url(store, server, mount):
    there = mount(f"{server.endpoint}/_files/{BUCKET}/{store.name}", env=environment(server))
    with pytest.raises(OSError) as caught:
        (there.path / "a/0.0").write_bytes(b"\0" * 9600)
    assert caught.value.errno == errno.EROFS
    refused = codecfs_with(server, "convert", store, f"{server.endpoint}/_files/{BUCKET}/new.zarr")
    assert refused.returncode != 0 and "web server" in refused.stderr
    assert not any(entry["method"] in ("PUT", "DELETE", "POST") for entry in server.log())
