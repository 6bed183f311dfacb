"""Writing Zarr stores in object stores: against an S3 server of our own, which counts every request and fails on demand.

What was written is compared with what zarr-python reads of the objects, which are files of a directory. CODECFS_WRITES_SERVER: the same
on versitygw, minio, moto or ceph (scripts/object-store-servers), where only tests that need our own server are skipped.
"""
import concurrent.futures
import errno
import json
import os
import time

import h5py
import numpy as np
import pytest
import zarr

from buckets import BUCKET, FakeS3, codecfs_with, environment, make_v2, make_v3
from conftest import mounted, xattr
from mounts import MountError

import servers
from other_server import OtherServer
from running import codecfs, run


@pytest.fixture(scope="module")
def other_server():
    """One that others made; None: our own is used."""
    name = os.environ.get("CODECFS_WRITES_SERVER", "fake")
    if name == "fake":
        yield None
        return
    if (reason := servers.unavailable(name)) is not None:
        pytest.skip(reason)
    try:
        servers.boto3_module()
    except servers.NotHere as error:
        pytest.skip(str(error))
    with servers.running(name) as running:
        yield running


@pytest.fixture
def server(other_server, tmp_path):
    (tmp_path / "buckets").mkdir()
    if other_server:
        with OtherServer(other_server, BUCKET, tmp_path / "buckets" / BUCKET) as running:
            yield running
        return
    with FakeS3(root=str(tmp_path / "buckets")) as running:
        running.bucket(BUCKET)
        yield running


@pytest.fixture
def objects(tmp_path):
    """The directory of the bucket."""
    return tmp_path / "buckets" / BUCKET


@pytest.fixture
def remote(server, mount):
    """A function remote(name, *options) that mounts s3://test-bucket/name."""

    def make(name, *options, **more):
        made = mount(f"s3://{BUCKET}/{name}", *options, env=environment(server, **more))
        made.server = server
        return made

    return make


def put(server, folder, name):
    server.put_tree(BUCKET, folder, name + "/")
    server.control(clear_log=True)


@pytest.fixture
def v2(server, tmp_path, objects):
    make_v2(tmp_path / "v2.zarr")
    put(server, tmp_path / "v2.zarr", "v2.zarr")
    return objects / "v2.zarr"


@pytest.fixture
def v3(server, tmp_path, objects):
    make_v3(tmp_path / "v3.zarr")
    put(server, tmp_path / "v3.zarr", "v3.zarr")
    return objects / "v3.zarr"


def unmount(mounted):
    """Waits for the daemon, so that everything is stored."""
    run("fusermount3", "-u", mounted.path)
    assert mounted.process.wait(60) == 0, mounted.log.read_text()
    if isinstance(mounted.server, OtherServer):
        mounted.server.sync()


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_at(path, offset, content):
    fd = os.open(path, os.O_WRONLY)
    try:
        assert os.pwrite(fd, content, offset) == len(content)
        os.fsync(fd)
    finally:
        os.close(fd)


def requests_of(server, *methods):
    return [(entry["method"], entry["key"], entry["status"]) for entry in server.log()
            if entry["method"] in methods and "codecfs-probe" not in entry["key"]]


# --- chunks


def test_a_whole_chunk_is_one_put(v2, server, remote):
    there = remote("v2.zarr")
    content = np.arange(1200, dtype="f8").tobytes()
    with open(there.path / "a/1.1", "wb") as file:
        file.write(content)
    sync(there.path / "a/1.1")
    assert requests_of(server, "PUT", "DELETE", "POST") == [("PUT", "v2.zarr/a/1.1", 200)]
    entry = next(entry for entry in server.log() if entry["method"] == "PUT")
    assert not entry["if_match"] and not entry["if_none_match"]
    assert (there.path / "a/1.1").read_bytes() == content
    unmount(there)
    np.testing.assert_array_equal(zarr.open(str(v2), mode="r")["a"][30:60, 40:80].ravel(), np.arange(1200))


@pytest.mark.parametrize("separator", [".", "/"])
def test_chunks_that_were_absent(separator, server, remote, tmp_path, objects):
    make_v2(tmp_path / "s.zarr", separator=separator)
    put(server, tmp_path / "s.zarr", "s.zarr")
    there = remote("s.zarr")
    for number in [0, 5]:
        assert not (there.path / f"inner/b c+d/{number}").exists()
        (there.path / f"inner/b c+d/{number}").write_bytes(np.full(5, number, "i4").tobytes())
        assert (there.path / f"inner/b c+d/{number}").read_bytes() == np.full(5, number, "i4").tobytes()
    assert {"0", "2", "3", "5"} <= set(os.listdir(there.path / "inner/b c+d"))
    os.unlink(there.path / "inner/b c+d/2")
    assert not (there.path / "inner/b c+d/2").exists() and "2" not in os.listdir(there.path / "inner/b c+d")
    unmount(there)
    expected = [0] * 5 + [9] * 10 + list(range(5, 10)) + [9] * 5 + [5] * 5 + [9] * 10
    assert zarr.open(str(objects / "s.zarr"), mode="r")["inner/b c+d"][:].tolist() == expected


def make_new(server, remote, count):
    """A mount of a new store, with an array `t` of chunks of 10 numbers that has none yet."""
    there = remote("new.zarr", "create=zarr,view=decoded")
    os.mkdir(there.path / "t")
    array = {"zarr_format": 2, "shape": [10 * count], "chunks": [10], "dtype": "<i4", "compressor": None, "filters": None, "fill_value": 0,
             "order": "C"}
    (there.path / "t/.zarray").write_text(json.dumps(array))
    sync(there.path / "t/.zarray")
    server.control(clear_log=True)
    return there


def write_as_clients_do(there, number):
    """By a temporary file, as zarr-python and obstore."""
    aside = there.path / f"t/{number}.{number:032x}.partial"
    aside.write_bytes(np.full(10, number + 1, "i4").tobytes())
    os.replace(aside, there.path / f"t/{number}")


def reads_of(server):
    """The keys of GETs of chunks, and how many lists were requested."""
    log = server.log()
    gets = [entry["key"] for entry in log if entry["operation"] == "GetObject" and entry["key"].rpartition("/")[2].isdecimal()]
    return gets, sum(entry["operation"].startswith("ListObjects") for entry in log)


def test_the_names_of_new_chunks_are_looked_up_by_a_list(server, remote, objects):
    there = make_new(server, remote, 60)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda number: write_as_clients_do(there, number), range(60)))
    gets, lists = reads_of(server)
    assert len(gets) <= 1 and 1 <= lists <= 3
    assert {name for name in os.listdir(there.path / "t") if name[0] != "."} == set(map(str, range(60)))
    unmount(there)
    assert sorted(key for _, key, _ in requests_of(server, "PUT") if key.startswith("new.zarr/t/") and not key.endswith(".zarray")) == sorted(
        f"new.zarr/t/{number}" for number in range(60))
    assert zarr.open(str(objects / "new.zarr"), mode="r")["t"][:].tolist() == np.repeat(np.arange(1, 61), 10).tolist()


def test_the_names_of_new_chunks_in_directories_are_looked_up_by_a_list(server, remote, objects):
    """Of v3, each chunk has a directory of its own."""
    there = remote("new.zarr", "create=zarr3", "view=encoded3", "commit=3600")
    os.mkdir(there.path / "t")
    (there.path / "t/zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": [60, 10], "data_type": "int32", "fill_value": 0, "codecs": [{"name": "bytes"}],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 10]}}, "chunk_key_encoding": {"name": "default"}}))
    sync(there.path / "t/zarr.json")
    server.control(clear_log=True)
    for number in range(60):
        os.makedirs(there.path / f"t/c/{number}", exist_ok=True)
        aside = there.path / f"t/c/{number}/0.{number:032x}.partial"
        aside.write_bytes(np.full(10, number + 1, "<i4").tobytes())
        os.replace(aside, there.path / f"t/c/{number}/0")
    gets, lists = reads_of(server)
    assert len(gets) <= 2 and 1 <= lists <= 8, "a list lasts for 5 s"
    unmount(there)
    assert sum(key.startswith("new.zarr/t/c/") for _, key, _ in requests_of(server, "PUT")) == 60
    stored = {int(path.parent.name): np.frombuffer(path.read_bytes(), "<i4").tolist() for path in (objects / "new.zarr/t/c").glob("*/0")}
    assert stored == {number: [number + 1] * 10 for number in range(60)}


def test_what_is_written_is_sent_while_more_is_written(server, remote, objects):
    """No commit comes in an hour: of few chunks, which may be written again, nothing is sent; of many, all but the last are."""
    array = {"zarr_format": 2, "shape": [24 << 20], "chunks": [1 << 20], "dtype": "|u1", "compressor": None, "filters": None, "fill_value": 0,
             "order": "C"}
    there = remote("new.zarr", "create=zarr,view=decoded", "commit=3600")
    os.mkdir(there.path / "t")
    (there.path / "t/.zarray").write_text(json.dumps(array))
    sync(there.path / "t/.zarray")
    server.control(clear_log=True)

    def sent():
        return [key for _, key, _ in requests_of(server, "PUT") if key.startswith("new.zarr/t/")]

    for number in range(3):
        (there.path / f"t/{number}").write_bytes(bytes([number]) * (1 << 20))
    time.sleep(0.5)
    assert not sent()
    for number in range(3, 24):
        (there.path / f"t/{number}").write_bytes(bytes([number]) * (1 << 20))
    deadline = time.monotonic() + 60
    while len(sent()) < 16:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    unmount(there)
    assert sorted(sent()) == sorted(f"new.zarr/t/{number}" for number in range(24)), "each once"
    assert [(objects / f"new.zarr/t/{number}").read_bytes()[-1] for number in range(24)] == list(range(24))


def test_long_lists_are_not_made_for_few_names(server, remote, objects):
    """Each page has ten names, and the array 200: the first lists are given up, and one costs as many absent names as it has pages."""
    there = make_new(server, remote, 400)
    for number in range(200):
        server.put(BUCKET, f"new.zarr/t/{number}", np.full(10, number + 1, "i4").tobytes())
    server.set(page_size=10)
    for number in range(200, 400):
        write_as_clients_do(there, number)
        gets, lists = reads_of(server)
        assert lists <= number - 199 + 2
    assert len(gets) + lists <= 150
    unmount(there)
    assert zarr.open(str(objects / "new.zarr"), mode="r")["t"][:].tolist() == np.repeat(np.arange(1, 401), 10).tolist()


def test_chunks_of_others_are_seen_although_a_list_did_not_have_them(server, remote):
    there = make_new(server, remote, 20)
    for number in range(10):
        write_as_clients_do(there, number)
    assert reads_of(server)[1] > 0, "a list has been made"
    assert not (there.path / "t/15").exists()
    content = np.full(10, 77, "i4").tobytes()
    server.put(BUCKET, "new.zarr/t/15", content)
    deadline = time.monotonic() + 30  # 5 s on an idle machine
    while not (there.path / "t/15").exists():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (there.path / "t/15").read_bytes() == content


def test_without_the_right_to_list_names_are_looked_up_one_by_one(server, remote, objects):
    there = make_new(server, remote, 30)
    server.fault("error", status=403, code="AccessDenied", operation="ListObjectsV2")
    for number in range(30):
        write_as_clients_do(there, number)
    gets, lists = reads_of(server)
    assert len(gets) == 30 and lists == 1
    unmount(there)
    assert zarr.open(str(objects / "new.zarr"), mode="r")["t"][:].tolist() == np.repeat(np.arange(1, 31), 10).tolist()


def test_a_part_of_a_chunk_is_one_get_and_one_conditional_put(v2, server, remote):
    there = remote("v2.zarr")
    write_at(there.path / "a/0.0", 80, np.full(2, -5.0).tobytes())  # with the trial of the server
    server.control(clear_log=True)
    write_at(there.path / "a/0.1", 80, np.full(2, -5.0).tobytes())
    write_at(there.path / "a/0.1", 160, np.full(2, -6.0).tobytes())
    log = [entry for entry in server.log() if entry["method"] == "PUT"]
    assert [entry["key"] for entry in log] == ["v2.zarr/a/0.1"] * 2 and all(entry["if_match"] for entry in log)
    assert len(requests_of(server, "GET")) <= 3, "the look-up, and the state that is changed, twice"
    unmount(there)
    expected = np.arange(9000.0).reshape(100, 90)
    expected[0, 10:12] = expected[0, 50:52] = -5
    expected[0, 60:62] = -6
    np.testing.assert_array_equal(zarr.open(str(v2), mode="r")["a"][:], expected)


def test_what_a_killed_trial_of_the_server_left_is_removed(v2, server, remote):
    if isinstance(server, OtherServer):
        pytest.skip("the server sets the times")
    old, young = v2 / ".codecfs-probe-0123456789abcdef", v2 / ".codecfs-probe-fedcba9876543210"
    for left in (old, young):
        left.write_bytes(b"x")
    os.utime(old, (1e9, 1e9))
    there = remote("v2.zarr")
    write_at(there.path / "a/0.0", 80, np.full(2, -5.0).tobytes())
    assert [path.name for path in v2.glob(".codecfs-probe-*")] == [young.name]  # which may be in use
    unmount(there)


def test_pieces_with_gaps_are_kept_as_zeros(v2, server, remote):
    """As in any file, also where the fill value is not 0."""
    there = remote("v2.zarr")
    with open(there.path / "inner/b c+d/0", "wb") as file:
        file.seek(8)
        file.write(np.array([7, 7], "i4").tobytes())
    unmount(there)
    assert zarr.open(str(v2), mode="r")["inner/b c+d"][:5].tolist() == [0, 0, 7, 7, 9]


@pytest.mark.parametrize("conditions", ["aws", "unquoted"])
def test_mounts_that_write_parts_of_the_same_chunks_lose_nothing(conditions, v2, server, remote):
    server.set(conditions=conditions)
    mounts = [remote("v2.zarr", "commit=1") for _ in range(4)]

    def write(which):
        for step in range(10):
            for chunk in ["0.0", "1.1"]:
                place = (step * 4 + which) * 8
                write_at(mounts[which].path / "a" / chunk, place, np.float64(1000 * which + step).tobytes())

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    for each in mounts:
        unmount(each)
    seen = zarr.open(str(v2), mode="r")["a"][:]
    for chunk in [seen[:30, :40], seen[30:60, 40:80]]:
        assert chunk.ravel()[:40].tolist() == [1000.0 * which + step for step in range(10) for which in range(4)]
    assert any(entry["status"] == 412 for entry in server.log()), "they were in each other's way"
    np.testing.assert_array_equal(seen[60:], np.arange(9000.0).reshape(100, 90)[60:])


def test_a_mount_sees_what_others_have_written_where_it_writes(v2, remote):
    one, other = remote("v2.zarr"), remote("v2.zarr")
    before = np.frombuffer((one.path / "a/0.0").read_bytes(), "f8")
    write_at(other.path / "a/0.0", 0, np.float64(-7).tobytes())
    write_at(one.path / "a/0.0", 8, np.float64(-8).tobytes())
    seen = np.frombuffer((one.path / "a/0.0").read_bytes(), "f8")
    assert seen[:2].tolist() == [-7, -8]
    np.testing.assert_array_equal(seen[2:], before[2:])


def test_shards_are_rewritten_once_a_commit(v3, server, remote):
    there = remote("v3.zarr")
    server.control(clear_log=True)
    for name in ["0/0", "0/1", "1/0"]:
        (there.path / "deep/sharded/c" / name).write_bytes(np.full(16, 5, "<i4").tobytes())
    sync(there.path / "deep/sharded/c/0/0")
    puts = requests_of(server, "PUT")
    assert puts == [("PUT", "v3.zarr/deep/sharded/c/0/0", 200)]
    unmount(there)
    assert codecfs_with(server, "verify", f"s3://{BUCKET}/v3.zarr").returncode == 0
    index = np.frombuffer((v3 / "deep/sharded/c/0/0").read_bytes()[-64:], "<u8").reshape(4, 2)
    content = (v3 / "deep/sharded/c/0/0").read_bytes()
    chunks = [np.frombuffer(content[o:o + n], "<i4") for o, n in index.tolist()]
    assert all((chunk == 5).all() for chunk in chunks[:3]) and (chunks[3] == np.arange(16)).all()


def test_mounts_that_write_the_same_shard_lose_nothing(v3, server, remote):
    mounts = [remote("v3.zarr", "commit=1") for _ in range(4)]

    def write(which):
        for step in range(6):
            # one of the chunks as a whole, and a part of one that all write
            (mounts[which].path / f"deep/sharded/c/{which // 2 + 2}/{which % 2}").write_bytes(np.full(16, 100 * which + step, "<i4").tobytes())
            write_at(mounts[which].path / "deep/sharded/c/0/3", 4 * (4 * which + step % 4), np.int32(1000 * which + step).tobytes())

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    for each in mounts:
        unmount(each)
    reader = remote("v3.zarr", "ro")
    for which in range(4):
        seen = np.frombuffer((reader.path / f"deep/sharded/c/{which // 2 + 2}/{which % 2}").read_bytes(), "<i4")
        assert (seen == 100 * which + 5).all()
    shared = np.frombuffer((reader.path / "deep/sharded/c/0/3").read_bytes(), "<i4").reshape(4, 4)
    assert shared.tolist() == [[1000 * which + step for step in (4, 5, 2, 3)] for which in range(4)]


def test_the_last_chunk_of_a_shard_can_be_removed(v3, server, remote):
    there = remote("v3.zarr")
    for name in ["0/0", "0/1", "1/0", "1/1"]:
        os.unlink(there.path / "deep/sharded/c" / name)
    unmount(there)
    reader = remote("v3.zarr", "ro")
    assert not (reader.path / "deep/sharded/c/0/0").exists() and (reader.path / "deep/sharded/c/0/2").exists()


# --- a server that ignores conditions


@pytest.mark.parametrize("conditions", ["ignored", "create_only"])
def test_a_server_that_ignores_conditions_gets_only_whole_chunks(conditions, v2, server, remote):
    server.set(conditions=conditions)
    there = remote("v2.zarr")
    (there.path / "a/0.0").write_bytes(np.full(1200, 3.0).tobytes())
    with pytest.raises(OSError) as caught:
        write_at(there.path / "a/0.1", 8, b"x" * 8)
    assert caught.value.errno == errno.EOPNOTSUPP
    assert "ignores the conditions" in xattr(there.path / "a/0.1", "_Error")
    with pytest.raises(OSError) as caught:
        os.setxattr(there.path / "a", "user.new", b"1")
    assert caught.value.errno == errno.EOPNOTSUPP
    # A new chunk in pieces becomes a whole one.
    with open(there.path / "inner/b c+d/0", "wb") as file:
        for i in range(5):
            os.write(file.fileno(), np.int32(i).tobytes())
    unmount(there)
    group = zarr.open(str(v2), mode="r")
    assert (group["a"][:30, :40] == 3).all() and (group["a"][0, 40:50] == np.arange(40, 50)).all()
    assert group["inner/b c+d"][:5].tolist() == [0, 1, 2, 3, 4]


def test_shards_need_conditions(v3, server, remote):
    server.set(conditions="ignored")
    there = remote("v3.zarr")
    (there.path / "plain/c/0/0").write_bytes(np.full(25, 3, "<i4").tobytes())
    with pytest.raises(OSError) as caught:
        (there.path / "deep/sharded/c/0/0").write_bytes(np.full(16, 5, "<i4").tobytes())
    assert caught.value.errno == errno.EOPNOTSUPP
    unmount(there)


# --- metadata


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("make,name", [(make_v2, "a"), (make_v3, "plain")], ids=["v2", "v3"])
def test_attributes_of_several_mounts(make, name, consolidated, server, remote, tmp_path, objects):
    make(tmp_path / "m.zarr", consolidated=consolidated)
    put(server, tmp_path / "m.zarr", "m.zarr")
    mounts = [remote("m.zarr") for _ in range(3)]

    def change(which):
        for step in range(4):
            os.setxattr(mounts[which].path / name, f"user.m{which}_{step}", b"%d" % (10 * which + step))
        os.setxattr(mounts[which].path, f"user.top{which}", b"%d" % which)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(change, range(3)))
    for each in mounts:
        unmount(each)
    expected = {f"m{which}_{step}" for which in range(3) for step in range(4)}
    store = objects / "m.zarr"
    if make is make_v2:
        attributes = [json.loads((store / name / ".zattrs").read_text()), json.loads((store / ".zattrs").read_text())]
        copies = json.loads((store / ".zmetadata").read_text())["metadata"] if consolidated else None
        if consolidated:
            assert [copies[f"{name}/.zattrs"], copies[".zattrs"]] == attributes
    else:
        root = json.loads((store / "zarr.json").read_text())
        attributes = [json.loads((store / name / "zarr.json").read_text())["attributes"], root["attributes"]]
        if consolidated:
            assert root["consolidated_metadata"]["metadata"][name]["attributes"] == attributes[0]
    assert expected <= set(attributes[0])
    assert {f"top{which}" for which in range(3)} <= set(attributes[1])


@pytest.mark.parametrize("consolidated", [False, True])
def test_new_variables_and_groups_of_v2(consolidated, server, remote, tmp_path, objects):
    make_v2(tmp_path / "n.zarr", consolidated=consolidated)
    put(server, tmp_path / "n.zarr", "n.zarr")
    there = remote("n.zarr")
    group = zarr.open_group(str(there.path), mode="a")
    made = group.create_dataset("new", shape=(20, 30), chunks=(10, 10), dtype="i2", compressor=None, fill_value=4)
    made[5:15, :] = np.arange(300).reshape(10, 30)
    made.attrs["units"] = "m"
    group.create_group("g").create_dataset("deep", shape=(3,), chunks=(3,), dtype="f4", compressor=None)[:] = 1.5
    assert "new" in os.listdir(there.path) and "deep" in os.listdir(there.path / "g")
    unmount(there)
    seen = zarr.open(str(objects / "n.zarr"), mode="r")
    np.testing.assert_array_equal(seen["new"][5:15], np.arange(300).reshape(10, 30))
    assert (seen["new"][:5] == 4).all() and seen["new"].attrs["units"] == "m" and (seen["g/deep"][:] == 1.5).all()
    if consolidated:
        copies = zarr.open_consolidated(str(objects / "n.zarr"))
        assert copies["g/deep"][:].tolist() == [1.5] * 3 and copies["new"].attrs["units"] == "m"


def test_new_variables_of_v3(v3, server, remote):
    there = remote("v3.zarr")
    (there.path / "g").mkdir()
    (there.path / "g/new").mkdir()
    node = json.loads((v3 / "plain/zarr.json").read_text())
    (there.path / "g/new/zarr.json").write_text(json.dumps(node))
    (there.path / "g/new/c/0").mkdir(parents=True, exist_ok=True)
    (there.path / "g/new/c/0/1").write_bytes(np.full(25, 6, "<i4").tobytes())
    unmount(there)
    assert json.loads((v3 / "g/zarr.json").read_text())["node_type"] == "group"
    assert json.loads((v3 / "g/new/zarr.json").read_text())["shape"] == [20, 10]
    assert (v3 / "g/new/c/0/1").read_bytes() == np.full(25, 6, "<i4").tobytes()
    assert codecfs_with(server, "verify", f"s3://{BUCKET}/v3.zarr").returncode == 0


def test_removing(v2, server, remote):
    there = remote("v2.zarr")
    run("rm", "-r", there.path / "a", there.path / "inner")
    assert set(os.listdir(there.path)) & {"a", "inner"} == set()
    unmount(there)
    assert sorted(path.name for path in v2.rglob("*")) == [".zgroup"]


def test_only_one_mount_makes_a_variable(v2, server, remote):
    mounts = [remote("v2.zarr") for _ in range(4)]

    def make(which):
        try:
            os.mkdir(mounts[which].path / "new")
            (mounts[which].path / "new/.zarray").write_text(json.dumps(json.loads((v2 / "a/.zarray").read_text()) | {"compressor": None}))
            return None
        except OSError as error:
            return error.errno

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(make, range(4)))
    assert any(result in (None, errno.EEXIST, errno.ESTALE) for result in results)
    for each in mounts:
        unmount(each)
    assert json.loads((v2 / "new/.zarray").read_text())["shape"] == [100, 90]


def test_what_an_interrupted_removal_left_is_not_taken_for_data(v2, server, remote):
    server.put(BUCKET, "v2.zarr/left/0.0", b"old")
    there = remote("v2.zarr")
    with pytest.raises(OSError) as caught:
        os.mkdir(there.path / "left")
        (there.path / "left/.zarray").write_text((v2 / "a/.zarray").read_text())
    assert caught.value.errno == errno.EEXIST


def test_a_shape_can_grow_and_shrink(v2, server, remote):
    there = remote("v2.zarr")

    def resize(shape):
        text = json.loads((there.path / "a/.zarray").read_text()) | {"shape": shape}
        (there.path / "a/.zarray").write_text(json.dumps(text))

    resize([160, 90])
    (there.path / "a/5.2").write_bytes(np.full(1200, 8.0).tobytes())
    resize([40, 90])
    unmount(there)
    seen = zarr.open(str(v2), mode="r")["a"]
    assert seen.shape == (40, 90)
    np.testing.assert_array_equal(seen[:], np.arange(9000.0).reshape(100, 90)[:40])
    assert sorted(path.name for path in (v2 / "a").iterdir() if path.name[0] != ".") == ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2"]


def test_filters_of_stored_chunks_cannot_be_changed(v2, server, remote):
    there = remote("v2.zarr")
    with pytest.raises(OSError) as caught:
        os.setxattr(there.path / "a", "user._Filter", b"zstd,3")
    assert caught.value.errno == errno.EOPNOTSUPP
    assert "codecfs convert" in xattr(there.path / "a", "_Error")
    assert not requests_of(server, "PUT", "DELETE")
    for path in (there.path / "a").iterdir():
        if path.name[0].isdigit():
            path.unlink()
    os.setxattr(there.path / "a", "user._Filter", b"zstd,3")
    (there.path / "a/0.0").write_bytes(np.full(1200, 8.0).tobytes())
    unmount(there)
    assert json.loads((v2 / "a/.zarray").read_text())["compressor"]["id"] == "zstd"
    assert (zarr.open(str(v2), mode="r")["a"][:30, :40] == 8).all()


def test_renaming_is_refused(v2, server, remote):
    there = remote("v2.zarr")
    with pytest.raises(OSError) as caught:
        os.rename(there.path / "a", there.path / "z")
    assert caught.value.errno == errno.EOPNOTSUPP
    assert not requests_of(server, "PUT", "DELETE")


@pytest.mark.parametrize("form,file", [("zarr", ".zgroup"), ("zarr3", "zarr.json"), ("nczarr", ".zattrs")])
def test_a_new_store(form, file, server, remote, objects, tmp_path):
    there = remote("made.zarr", f"create={form}")
    os.setxattr(there.path, "user.title", b"new")
    unmount(there)
    assert (objects / "made.zarr" / file).exists()
    again = remote("made.zarr", f"create={form}")
    assert xattr(again.path, "title") == "new"
    unmount(again)
    server.put(BUCKET, "other/x", b"1")
    (tmp_path / "empty").mkdir()
    refused = codecfs("-f", "-o", f"create={form}", f"s3://{BUCKET}/other", tmp_path / "empty", environment=environment(server), code=None)
    assert refused.returncode != 0 and "other objects" in refused.stderr


# --- convert


@pytest.mark.parametrize("form", ["zarr", "zarr3", "nczarr"])
def test_convert_into_a_bucket(form, server, objects, tmp_path):
    source = tmp_path / "source.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("g/zip", data=np.arange(600.0).reshape(30, 20), chunks=(10, 20), compression="gzip").attrs["units"] = "K"
        file.create_dataset("plain", data=np.arange(7, dtype="i2"))
    url = f"s3://{BUCKET}/some/where.zarr"
    done = codecfs_with(server, "convert", "--format", form, source, url)
    assert done.returncode == 0, done.stderr
    same = codecfs_with(server, "compare", source, url)
    assert same.returncode == 0, same.stdout + same.stderr
    assert not (objects / "some/where.zarr/.codecfs-partial.json").exists()
    if form == "nczarr":
        assert codecfs_with(server, "convert", "--format", form, source, tmp_path / "here").returncode == 0
        told = run("diff", "-r", objects / "some/where.zarr", tmp_path / "here", code=None)
        assert told.stdout + told.stderr == "" and "_nczarr_superblock" in (tmp_path / "here/.zattrs").read_text()
    again = codecfs_with(server, "convert", "--format", form, source, url)
    assert again.returncode != 0 and "exists" in again.stderr
    assert "only Zarr" in codecfs_with(server, "convert", source, f"s3://{BUCKET}/x.nc").stderr


def test_an_interrupted_convert_is_no_store_and_is_resumed(server, tmp_path, objects):
    make_v2(tmp_path / "v2.zarr")
    url = f"s3://{BUCKET}/out.zarr"
    server.fault("error", status=403, code="AccessDenied", method="PUT", key="*/2.1")
    failed = codecfs_with(server, "convert", tmp_path / "v2.zarr", url)
    assert failed.returncode != 0 and "--resume" in failed.stderr
    assert "no Zarr store" in codecfs_with(server, "info", url).stderr
    server.clear_faults()
    assert "--resume" in codecfs_with(server, "convert", tmp_path / "v2.zarr", url).stderr
    server.control(clear_log=True)
    done = codecfs_with(server, "convert", "--resume", tmp_path / "v2.zarr", url)
    assert done.returncode == 0 and "were there" in done.stdout, done.stderr + done.stdout
    assert codecfs_with(server, "compare", tmp_path / "v2.zarr", url).returncode == 0
    assert zarr.open(str(objects / "out.zarr"), mode="r")["a"][99, 89] == 8999


# --- only reading


@pytest.mark.parametrize("options", [["ro"], ["anon"]])
def test_mounts_that_only_read(options, server, mount, tmp_path):
    server.bucket("public-bucket", public=True)
    make_v2(tmp_path / "v2.zarr")
    server.put_tree("public-bucket", tmp_path / "v2.zarr", "v2.zarr/")
    there = mount("s3://public-bucket/v2.zarr", *options, env=environment(server))
    with pytest.raises(OSError) as caught:
        (there.path / "a/0.0").write_bytes(b"\0" * 9600)
    assert caught.value.errno == errno.EROFS
    assert not requests_of(server, "PUT", "DELETE")


# --- faults


FAULTS = [("error", {"status": 503}), ("error", {"status": 500, "performed": True}), ("reset", {}), ("reset", {"after": "operation"}),
          ("close", {"after": "headers"}), ("error", {"status": 409, "code": "ConditionalRequestConflict"})]


@pytest.mark.parametrize("kind,more", FAULTS, ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())))
def test_faults_of_writes_end_right(kind, more, v2, server, remote):
    server.control(seed=3)
    there = remote("v2.zarr")
    server.fault(kind, probability=0.3, method=["PUT", "DELETE"], **more)
    expected = np.arange(9000.0).reshape(100, 90)
    for i in range(4):
        (there.path / f"a/{i}.0").write_bytes(np.full(1200, float(i)).tobytes())
        expected[30 * i:30 * i + 30, :40] = i
        for j in range(3):
            write_at(there.path / f"a/{i}.1", 8 * j, np.float64(-j).tobytes())
            expected[30 * i, 40 + j] = -j
        os.setxattr(there.path / "a", f"user.at{i}", b"%d" % i)
    os.unlink(there.path / "a/0.2")
    expected[:30, 80:] = -1
    unmount(there)
    assert sum(fault["fired"] for fault in server.control()["faults"]) > 3, "nothing was tried"
    array = zarr.open(str(v2), mode="r")["a"]
    np.testing.assert_array_equal(array[:], expected)
    assert {f"at{i}" for i in range(4)} <= set(array.attrs)


def test_a_write_that_fails_is_told(v2, server, remote):
    there = remote("v2.zarr", "retry=1")
    server.fault("error", status=403, code="AccessDenied", method="PUT", key="*a/0.0")
    (there.path / "a/0.1").write_bytes(np.full(1200, 3.0).tobytes())
    fd = os.open(there.path / "a/0.0", os.O_WRONLY)
    os.write(fd, np.full(1200, 3.0).tobytes())
    with pytest.raises(OSError) as caught:
        os.fsync(fd)
    assert caught.value.errno == errno.EACCES
    assert "AccessDenied" in xattr(there.path / "a/0.0", "_Error")
    os.close(fd)
    server.clear_faults()
    unmount(there)
    array = zarr.open(str(v2), mode="r")["a"]
    assert (array[:30] [:, :80] == 3).all(), "what could not be stored is tried again"


def test_an_unmount_tells_what_could_not_be_stored(v2, server, tmp_path):
    server.fault("error", status=403, code="AccessDenied", method="PUT", key="*a/0.0")
    with pytest.raises(MountError) as caught:
        with mounted(f"s3://{BUCKET}/v2.zarr", tmp_path / "mnt", env=environment(server)) as there:
            (there.path / "a/0.0").write_bytes(np.full(1200, 3.0).tobytes())
    assert "not all data could be stored" in str(caught.value) and "AccessDenied" in str(caught.value)
