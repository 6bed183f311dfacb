"""Zarr stores on S3 servers that others made: versitygw, MinIO, moto, and Ceph's gateway with CODECFS_CEPH=1.

They are extras: scripts/object-store-servers installs them, and what is missing is skipped with the reason.
"""
import os
import pathlib
import subprocess
import sys

import pytest

from test_object_stores import files_of, make_v2, make_v3

sys.path.append(str(pathlib.Path(__file__).parents[1] / "object_stores"))
import servers  # noqa: E402

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


def test_wrong_keys_are_refused(server, tmp_path):
    if server.name == "moto":
        pytest.skip("moto does not check signatures")
    environment = os.environ | server.environment() | {"AWS_SECRET_ACCESS_KEY": "wrong"}
    refused = subprocess.run([os.environ["CODECFS"], "info", f"s3://{BUCKET}/x.zarr"], env=environment, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 32 and "403" in refused.stderr


def test_a_missing_store_says_so(server):
    environment = os.environ | server.environment()
    missing = subprocess.run([os.environ["CODECFS"], "info", f"s3://{BUCKET}/none.zarr"], env=environment, capture_output=True, text=True, timeout=60)
    assert missing.returncode == 32 and "no Zarr store" in missing.stderr
