"""The proxy that counts requests hands on what it gets, and tells what it was."""
import time

import pytest
from lag_proxy import LagProxy

CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def client(s3, boto):
    with LagProxy(s3.endpoint) as proxy:
        proxy.boto = boto(proxy)
        yield proxy


def test_signed_requests_pass_and_are_counted(client, s3):
    client.boto.put_object(Bucket="data", Key="a b+c", Body=CONTENT, IfNoneMatch="*")
    answer = client.boto.get_object(Bucket="data", Key="a b+c", Range="bytes=100-299")
    assert answer["Body"].read() == CONTENT[100:300]
    assert [each["Key"] for each in client.boto.list_objects_v2(Bucket="data")["Contents"]] == ["a b+c"]
    assert client.summary()["requests"] == 3
    put, get, _ = client.requests(reset=True)
    assert (put.method, put.status, put.if_none_match) == ("PUT", 200, "*")
    assert (get.method, get.status, get.range, get.bytes) == ("GET", 206, "bytes=100-299", 200)
    assert client.requests() == [] and s3.summary()["requests"] == 3


def test_requests_are_delayed_and_refused(client, s3):
    client.boto.put_object(Bucket="data", Key="a", Body=CONTENT)
    client.latency, client.bandwidth = 0.1, 1e6
    began = time.monotonic()
    assert client.boto.get_object(Bucket="data", Key="a")["Body"].read() == CONTENT
    assert time.monotonic() - began > 0.1 + 0.19  # all but the last block of 64 KiB must have been paced when it is there
    client.refused = 1
    import botocore
    with pytest.raises(botocore.exceptions.ClientError, match="SlowDown"):
        client.boto.get_object(Bucket="data", Key="a")
    assert [each.status for each in client.requests()] == [200, 200, 503] and s3.summary()["requests"] == 2
