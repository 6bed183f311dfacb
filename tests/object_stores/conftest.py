"""Fixtures of the tests of the servers themselves."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
import servers  # noqa: E402
from fake_s3 import FakeS3  # noqa: E402


@pytest.fixture
def s3():
    with FakeS3() as server:
        server.bucket("data", public=True)
        yield server


@pytest.fixture
def boto():
    """A function boto(server, **options) that makes a boto3 client of S3. Skips where there is no boto3."""
    try:
        servers.boto3_module()
    except servers.NotHere as reason:
        pytest.skip(str(reason))
    return servers.boto3_client
