"""Zarr stores on S3 servers that others made: versitygw, MinIO, moto, and Ceph's gateway with CODECFS_CEPH=1.

They are extras: scripts/object-store-servers installs them, and what is missing is skipped with the reason.
"""
import os

import pytest

from buckets import WRITTEN_AT_ONCE, files_of, make_v2, make_v3, write_from_four_mounts
from running import run
import servers

BUCKET = "codecfs-test"


@pytest.fixture(scope="module", params=[name for name in servers.NAMES if name != "fake"])
def server(request):
    if request.param == "ceph" and os.environ.get("CODECFS_CEPH") != "1":
        pytest.skip("takes a minute: set CODECFS_CEPH=1")
    reason = servers.unavailable(request.param)
    if reason is None:
        try:
            servers.boto3_module()
        except servers.NotHere as error:
            reason = str(error)
    if reason is not None:
        pytest.skip(reason)
    with servers.running(request.param) as running:
        servers.boto3_client(running).create_bucket(Bucket=BUCKET)
        yield running


def upload(server, folder, prefix):
    client = servers.boto3_client(server)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            client.put_object(Bucket=BUCKET, Key=prefix + str(path.relative_to(folder)), Body=path.read_bytes())


@pytest.mark.parametrize("make", [make_v2, lambda path: make_v2(path, "/", consolidated=True), make_v3,
                                  lambda path: make_v3(path, consolidated=True)], ids=["v2", "v2-consolidated", "v3", "v3-consolidated"])
def test_shows_what_a_mount_of_the_directory_shows(server, make, mount, tmp_path, request):
    make(tmp_path / "local.zarr")
    prefix = f"some where/{request.node.callspec.id}+.zarr"
    upload(server, tmp_path / "local.zarr", prefix + "/")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | server.environment()
    expected = files_of(mount(tmp_path / "local.zarr", "ro").path)
    assert files_of(mount(f"s3://{BUCKET}/{prefix}", env=environment).path) == expected


@pytest.mark.parametrize("make,name,size", WRITTEN_AT_ONCE.values(), ids=WRITTEN_AT_ONCE)
def test_four_mounts_write_parts_of_the_same_chunk(server, make, name, size, mount, tmp_path, request):
    """Through conditions of the server, as it has them."""
    make(tmp_path / "local.zarr")
    prefix = f"{request.node.callspec.id}.zarr"
    upload(server, tmp_path / "local.zarr", prefix + "/")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")} | server.environment()
    write_from_four_mounts(lambda *options: mount(f"s3://{BUCKET}/{prefix}", *options, env=environment), name, size)


def test_whole_chunks_are_read_back(server, mount, tmp_path):
    make_v2(tmp_path / "local.zarr", consolidated=True)
    upload(server, tmp_path / "local.zarr", "whole.zarr/")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")} | server.environment()
    there = mount(f"s3://{BUCKET}/whole.zarr", env=environment)
    local = mount(tmp_path / "local.zarr")
    for path in [there.path, local.path]:
        (path / "a/1.1").write_bytes(bytes(range(240)) * 40)
        os.unlink(path / "a/0.0")
        (path / "g").mkdir()
        os.setxattr(path / "g", "user.title", b"new")
    for each in [there, local]:
        run("fusermount3", "-u", each.path)
        assert each.process.wait(60) == 0, each.log.read_text()
    assert files_of(mount(f"s3://{BUCKET}/whole.zarr", "ro", env=environment).path) == files_of(mount(tmp_path / "local.zarr", "ro").path)


def test_wrong_keys_are_refused(server, tmp_path):
    if server.name == "moto":
        pytest.skip("moto does not check signatures")
    environment = os.environ | server.environment() | {"AWS_SECRET_ACCESS_KEY": "wrong"}
    refused = run(os.environ["CODECFS"], "info", f"s3://{BUCKET}/x.zarr", env=environment, code=32)
    assert "403" in refused.stderr


def test_a_missing_store_says_so(server):
    environment = os.environ | server.environment()
    missing = run(os.environ["CODECFS"], "info", f"s3://{BUCKET}/none.zarr", env=environment, code=32)
    assert "no Zarr store" in missing.stderr
