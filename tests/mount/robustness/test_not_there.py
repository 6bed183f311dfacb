"""What cannot be read is an error, and no client takes it for absent: Zarr readers return fill for what does not exist.

The clients of other versions are in the venvs of scripts/client-test; without them their tests are skipped.
"""
import errno
import json
import os
import shutil
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
import zarr

from buckets import BUCKET, codecfs_with, environment, remote, server  # noqa: F401 (fixtures)
from client_venvs import CLIENTS, python_of
from conftest import PROGRAMS, wait_until
from running import run

DATA = np.arange(1, 101, dtype="i4").reshape(20, 5)
SPARSE = (3, 0)  # the chunk that is not stored
FILL = -7

# What other programs than the store answer, or the store in another state.
ANSWERS = {
    "gateway, key unknown": dict(status=404, code="XAdminUserNotFound", message="No user exists with the provided access key ID."),
    "ingress without a backend": dict(status=404, body="default backend - 404"),
    "page of a proxy": dict(status=404, body="<html><head><title>404 Not Found</title></head><body>nginx</body></html>"),
    "empty": dict(status=404, body=""),
    "no bucket": dict(status=404, code="NoSuchBucket"),
    "version": dict(status=404, code="NoSuchVersion"),
    "gone": dict(status=410, body="Gone"),
    "forbidden": dict(status=403, code="AccessDenied"),
    "not there": dict(status=404, code="NoSuchKey"),
}
FAULTY = [name for name in ANSWERS if name != "not there"]


def make_store(path, consolidated=True, version=2):
    """An array "a" of 5 x 1 chunks, of which one is not stored."""
    expected = DATA.copy()
    rows = slice(4 * SPARSE[0], 4 * SPARSE[0] + 4)
    expected[rows] = FILL
    if version == 2:
        group = zarr.open_group(str(path), mode="w")
        group.create_dataset("a", data=DATA, chunks=(4, 5), fill_value=FILL).attrs["scale_factor"] = 2
        (path / "a" / "3.0").unlink()
        if consolidated:
            zarr.consolidate_metadata(str(path))
        return expected
    array = {"zarr_format": 3, "node_type": "array", "attributes": {"scale_factor": 2}, "shape": [20, 5], "data_type": "int32",
             "fill_value": FILL, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
             "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 5]}},
             "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}}
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    if consolidated:
        group["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": {"a": array}}
    (path / "a/c").mkdir(parents=True)
    (path / "zarr.json").write_text(json.dumps(group))
    (path / "a/zarr.json").write_text(json.dumps(array))
    for i in range(5):
        if i != SPARSE[0]:
            (path / f"a/c/{i}").mkdir()
            (path / f"a/c/{i}/0").write_bytes(DATA[4 * i:4 * i + 4].tobytes())
    return expected


def server_has(server, key):
    """Whether an object is there, without a mount."""
    try:
        return urllib.request.urlopen(f"{server.endpoint}/_files/{BUCKET}/{key}", timeout=60).status == 200
    except urllib.error.HTTPError as error:
        assert error.code == 404
        return False


def error_of(action):
    try:
        action()
    except OSError as error:
        return error.errno
    return 0


# --- object stores


VIEWS = ["decoded", "encoded", "npy", "decoded3", "encoded3"]
COMBINATIONS = [(answer, "decoded", "rw", 2) for answer in ANSWERS] + \
    [(answer, view, "ro", version) for answer in ("ingress without a backend", "forbidden", "not there") for view in VIEWS for version in (2, 3)]


@pytest.mark.parametrize("answer,view,options,version", COMBINATIONS)
def test_only_nosuchkey_is_absent(answer, view, options, version, server, remote, tmp_path):
    make_store(tmp_path / "s.zarr", version=version)
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    there = remote("s.zarr", options, "retry=1", f"view={view}")
    server.fault("error", operation="GetObject", key="*/a/*", **ANSWERS[answer])
    name = {"npy": "a.npy", "decoded3": "a/c/1/0", "encoded3": "a/c/1/0"}.get(view, "a/1.0")
    shows_fill = version == 3 and view in ("decoded", "encoded")  # .zarray has no fill_value
    if answer == "not there":
        if shows_fill:
            assert (there.path / name).read_bytes()
        elif view == "npy":
            assert (np.load(there.path / name) == FILL).all()
        else:
            assert not (there.path / name).exists()
    else:
        assert (there.path / name).exists(), "stat is no error, which programs take for absent"
        assert os.stat(there.path / name).st_size > 0
        allowed = (errno.EACCES,) if answer in ("gateway, key unknown", "forbidden") else (errno.EIO,)
        assert error_of((there.path / name).read_bytes) in allowed
        assert "status 4" in there.messages()
    server.clear_faults()
    if answer == "not there" and view != "npy":
        time.sleep(5.2)  # as long as the kernel and codecfs keep that at most
    if not (answer == "not there" and view == "npy"):
        # It heals. A read may find a request on its way that is still refused.
        wait_until(lambda: error_of((there.path / name).read_bytes) == 0, 20)
        assert (there.path / name).read_bytes()


def test_a_listing_does_not_leave_out_what_cannot_be_read(server, remote, tmp_path):
    make_store(tmp_path / "s.zarr", consolidated=False)
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    there = remote("s.zarr", "ro", "retry=1")
    server.fault("error", operation="ListObjectsV2", status=404, code="NoSuchBucket")
    assert error_of(lambda: os.listdir(there.path)) == errno.EIO
    assert error_of((there.path / ".zmetadata").read_bytes) == errno.EIO, "nor does consolidated metadata"
    server.clear_faults()
    server.fault("error", operation="GetObject", key="*/a/.z*", status=404, body="default backend - 404")
    assert error_of(lambda: os.listdir(there.path)) == errno.EIO
    assert error_of((there.path / ".zmetadata").read_bytes) == errno.EIO
    server.clear_faults()
    assert "a" in os.listdir(there.path)
    assert json.loads((there.path / ".zmetadata").read_text())["metadata"]["a/.zattrs"]["scale_factor"] == 2


def test_attributes_that_cannot_be_read_are_not_left_out(server, remote, tmp_path):
    make_store(tmp_path / "s.zarr", consolidated=False)
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    there = remote("s.zarr", "ro", "retry=1")
    server.fault("error", operation="GetObject", key="*/.zattrs", status=404, body="default backend - 404")
    group = zarr.open_group(str(there.path), mode="r")
    with pytest.raises(OSError):
        dict(group["a"].attrs)
    server.clear_faults()
    assert dict(zarr.open_group(str(there.path), mode="r")["a"].attrs) == {"scale_factor": 2}


@pytest.mark.parametrize("answer", FAULTY)
def test_a_removal_that_did_not_take_place_is_told(answer, server, remote, tmp_path):
    make_store(tmp_path / "s.zarr")
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    there = remote("s.zarr", "retry=1")
    server.fault("error", operation="DeleteObject", **ANSWERS[answer])
    assert error_of(lambda: os.unlink(there.path / "a/1.0")) in (errno.EIO, errno.EACCES)
    assert "status 4" in there.messages()
    assert server_has(server, "s.zarr/a/1.0") and len((there.path / "a/1.0").read_bytes()) == 80, "nothing is removed"
    server.clear_faults()
    os.unlink(there.path / "a/1.0")
    there.unmount()
    assert not server_has(server, "s.zarr/a/1.0")


def test_a_write_that_an_ingress_answered_is_told(server, remote, tmp_path):
    make_store(tmp_path / "s.zarr")
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    there = remote("s.zarr", "retry=1")
    server.fault("error", operation="PutObject", status=404, body="default backend - 404")
    with open(there.path / "a/1.0", "wb", buffering=0) as file:
        file.write(b"\1" * 80)
        assert error_of(lambda: os.fsync(file.fileno())) == errno.EIO
        server.clear_faults()
        os.fsync(file.fileno())


# --- web servers


def web(server, mount, store, *options):
    return mount(f"{server.endpoint}/_files/{BUCKET}/{store}", "retry=1", *options, env=environment(server))


@pytest.mark.parametrize("version", [2, 3])
def test_a_web_server_is_believed_while_it_has_the_metadata(version, server, mount, tmp_path):
    make_store(tmp_path / "s.zarr", version=version)
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    there = web(server, mount, "s.zarr")
    present, absent = ("a/1.0", "a/3.0") if version == 2 else ("a/c/1/0", "a/c/3/0")
    root = "s.zarr/.zmetadata" if version == 2 else "s.zarr/zarr.json"
    server.control(clear_log=True)
    assert not (there.path / absent).exists()
    checks = [entry for entry in server.log() if entry["key"] == root]
    assert len(checks) == 1 and checks[0]["status"] == 304
    time.sleep(1.1)
    server.fault("error", operation="File", status=404, body="default backend - 404")
    assert (there.path / present).exists()
    assert error_of((there.path / present).read_bytes) == errno.EIO
    assert root.rpartition("/")[2] in there.messages()
    server.clear_faults()
    assert len((there.path / present).read_bytes()) == 80
    server.put(BUCKET, root, (tmp_path / root).read_bytes() + b" ")
    time.sleep(5.2)
    assert (there.path / absent).exists() and error_of((there.path / absent).read_bytes) == errno.EIO, "it is another store now"
    assert "was replaced" in there.messages()


def test_one_check_answers_for_many(server, mount, tmp_path):
    array = zarr.open_group(str(tmp_path / "s.zarr"), mode="w").create_dataset("a", shape=(300,), chunks=(1,), dtype="i4", fill_value=FILL)
    array[0] = 1
    zarr.consolidate_metadata(str(tmp_path / "s.zarr"))
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    there = web(server, mount, "s.zarr", "view=npy")
    server.control(clear_log=True)
    begin = time.monotonic()
    values = np.load(there.path / "a.npy")
    seconds = time.monotonic() - begin
    assert values[0] == 1 and (values[1:] == FILL).all()
    checks = [entry for entry in server.log() if entry["key"] == "s.zarr/.zmetadata"]
    assert 1 <= len(checks) <= 2 + seconds


def test_a_web_server_without_metadata_of_the_store(server, mount, tmp_path):
    """Before a metadata file has been found, nothing is believed: there is no mount."""
    make_store(tmp_path / "s.zarr")
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    server.fault("error", operation="File", status=404, body="default backend - 404")
    refused = codecfs_with(server, "info", f"{server.endpoint}/_files/{BUCKET}/s.zarr")
    assert refused.returncode == 32 and "no Zarr store" in refused.stderr


@pytest.mark.parametrize("kind", ["s3", "web"])
def test_forbidden_is_absent_on_request(kind, server, mount, remote, tmp_path):
    """As S3 answers without the right to list the bucket."""
    expected = make_store(tmp_path / "s.zarr")
    server.bucket(BUCKET, listable=False)
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    operation = "GetObject"
    if kind == "web":
        operation = "File"
        server.fault("error", operation="File", status=403, body="Forbidden", key=["*/zarr.json", "*/.zgroup", "*/a/3.0"], name="missing")

    def mounted(*options):
        return remote("s.zarr", "ro", "retry=1", *options) if kind == "s3" else web(server, mount, "s.zarr", *options)

    if kind == "s3":
        assert "AccessDenied" in codecfs_with(server, "info", f"s3://{BUCKET}/s.zarr").stderr, "zarr.json is asked for first"
    there = mounted("absent=403")
    np.testing.assert_array_equal(zarr.open_group(str(there.path), mode="r")["a"][:], expected)
    np.testing.assert_array_equal(np.load(there.path / ".codecfs/view/npy/a.npy"), expected)
    other = mounted("absent=403")
    server.fault("error", operation=operation, status=403, code="AccessDenied")
    with pytest.raises(OSError) as caught:
        (other.path / "a/1.0").read_bytes()
    assert caught.value.errno == errno.EACCES, "all is forbidden now"


def test_absent_has_one_value(server):
    refused = codecfs_with(server, "info", "-O", "absent=404", f"s3://{BUCKET}/s.zarr")
    assert refused.returncode == 1 and "only 403" in refused.stderr


# --- clients

READER = PROGRAMS / "clients.py"


def read_with(client, path):
    """What the client reads of the array "a", as a list, or None if it raises an error."""
    kind = CLIENTS[client][1]
    action = {"zarr": "zarr_values", "tensorstore": "tensorstore_values", "netcdf4": "netcdf4_values"}[kind]
    done = run(python_of(client), "-B", READER, action, path, env={"PYTHONPATH": None}, code=None)
    return json.loads(done.stdout.rpartition("RESULT ")[2]) if done.returncode == 0 else None


@pytest.mark.parametrize("fault", ["gateway, key unknown", "ingress without a backend", "forbidden"])
@pytest.mark.parametrize("view", ["decoded", "encoded"])
@pytest.mark.parametrize("client", ["zarr 2.13", "zarr 2.18", "zarr 3", "tensorstore", "netCDF4 wheel"])
def test_no_client_reads_fill(client, view, fault, server, remote, tmp_path):
    python_of(client)
    expected = make_store(tmp_path / "s.zarr")
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    there = remote("s.zarr", "ro", "retry=1", f"view={view}")
    server.fault("error", operation="GetObject", key="*/a/*", **ANSWERS[fault])
    assert read_with(client, there.path) is None, there.messages()
    server.clear_faults()
    assert read_with(client, there.path) == expected.tolist(), "and without the fault it reads what is there"


# --- directories


@pytest.mark.parametrize("removed", ["a/.zarray", "a", "."])
def test_a_store_that_is_removed_does_not_read_as_fill(removed, mount, tmp_path):
    make_store(tmp_path / "s.zarr", consolidated=False)
    there = mount(tmp_path / "s.zarr", "ro")
    opened = zarr.open_group(str(there.path), mode="r")["a"]
    raw = there.path / ".codecfs/view/raw/a"
    assert raw.stat().st_size == 400 and (there.path / "a/0.0").exists()
    path = tmp_path / "s.zarr" / removed
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if removed == "a/.zarray":
        (tmp_path / "s.zarr/a/1.0").unlink()
    with pytest.raises(OSError):
        opened[:]
    assert error_of(raw.read_bytes) in (errno.ESTALE, errno.EIO)


def test_a_link_to_a_file_that_is_not_there_is_an_error(mount, tmp_path):
    """As git-annex leaves them."""
    make_store(tmp_path / "s.zarr")
    (tmp_path / "s.zarr/a/1.0").unlink()
    (tmp_path / "s.zarr/a/1.0").symlink_to("../.git/annex/objects/x")
    there = mount(tmp_path / "s.zarr", "ro")
    with pytest.raises(OSError) as caught:
        zarr.open_group(str(there.path), mode="r")["a"][:]
    assert caught.value.errno == errno.EIO
    assert "1.0" in os.listdir(there.path / "a")
    assert "symbolic link" in there.messages()


def test_a_dataset_of_a_folder_that_is_removed_is_no_fill(mount, tmp_path):
    (tmp_path / "folder").mkdir()
    make_store(tmp_path / "folder/s.zarr")
    there = mount(tmp_path / "folder", "ro")
    opened = zarr.open_group(str(there.path / "s.zarr"), mode="r")["a"]
    assert opened[0, 0] == 1
    file = os.open(there.path / "s.zarr/a/2.0", os.O_RDONLY)
    shutil.rmtree(tmp_path / "folder/s.zarr")
    assert error_of(lambda: os.pread(file, 80, 0)) in (errno.ESTALE, errno.EIO)
    os.close(file)


def test_a_missing_directory_for_the_cache_is_its_own_error(server, tmp_path):
    """Not "no such object"."""
    server.put(BUCKET, "a.nc", b"\x89HDF\r\n\x1a\n" + bytes(1000))
    refused = codecfs_with(server, "info", "-O", f"cache_dir={tmp_path}/none/deep", f"s3://{BUCKET}/a.nc")
    assert refused.returncode == 32 and "cache_dir" in refused.stderr and "no Zarr store" not in refused.stderr
