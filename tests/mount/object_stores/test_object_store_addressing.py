"""Where requests of s3:// name the bucket, and how they are signed: hosts, paths and signatures are those of botocore for the same
settings, which knows nothing of our code (scripts/object-store-servers python installs it)."""
import os
import re
import urllib.parse

import pytest

import servers
from buckets import KEYS, FakeS3, files_of, make_v2
from running import codecfs, run
from web_hosts import WebHosts

POINT = "arn:aws:s3:us-west-2:123456789012:accesspoint/my-ap"
ALIAS = "my-ap-hrzrlukc5m36ft7okagglf3gmwluquse1b-s3alias"
KEY = "some where/é+(x)/s.zarr"
# the bucket, its name in the fake, the host below which that is, the endpoint, its addressing
CASES = {
    "aws": ("data", "data", "s3.us-west-2.amazonaws.com", None, None),
    "aws-alias": (ALIAS, ALIAS, "s3.us-west-2.amazonaws.com", None, None),
    "aws-path": ("data", None, "s3.us-west-2.amazonaws.com", None, "path"),
    "aws-dots": ("my.data", None, "s3.us-west-2.amazonaws.com", None, "virtual"),
    "aws-access-point": (POINT, "my-ap-123456789012", "s3-accesspoint.us-west-2.amazonaws.com", None, None),
    "endpoint-virtual": ("data", "data", "minio.example.org", "https://minio.example.org", "virtual"),
    "endpoint-virtual-port": ("data", "data", "minio.example.org:9000", "https://minio.example.org:9000", "virtual"),
    "endpoint-virtual-http": ("my.data", "my.data", "minio.example.org:9000", "http://minio.example.org:9000", "virtual"),
    "endpoint-auto": ("data", None, "minio.example.org", "https://minio.example.org", "auto"),
    "endpoint": ("data", None, "minio.example.org", "https://minio.example.org", None),
    "endpoint-alias-virtual": (ALIAS, ALIAS, "minio.example.org", "https://minio.example.org", "virtual"),
    "endpoint-access-point": (POINT, "my-ap-123456789012", "minio.example.org", "https://minio.example.org", None),
}


@pytest.fixture
def botocore():
    try:
        servers.boto3_module()
    except servers.NotHere as reason:
        pytest.skip(str(reason))
    import botocore.auth
    import botocore.awsrequest
    import botocore.config
    import botocore.credentials
    import botocore.exceptions
    import botocore.session
    return botocore


class Recorded:
    """A server, and all requests as they arrive."""

    def __init__(self, s3):
        self.s3, self.requests, handle = s3, [], s3.server.handle

        def record(connection, request):
            self.requests.append(request)
            handle(connection, request)

        s3.server.handle = record


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    """(bucket, endpoint, addressing, what the server recorded, the variables of a client)."""
    bucket, label, host, endpoint, style = CASES[request.param]
    make_v2(tmp_path / "s.zarr")
    with FakeS3(region="us-west-2", name=host.partition(":")[0]) as s3:
        name = label or bucket
        s3.put_tree(name, tmp_path / "s.zarr", KEY + "/")
        scheme = "http" if endpoint and endpoint.startswith("http:") else "https"
        with WebHosts(tmp_path, {f"{scheme}://{label + '.' if label else ''}{host}": Forwarded(s3) if scheme == "http" else s3}) as hosts:
            (tmp_path / ".aws").mkdir()
            variables = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")} | KEYS | hosts.environment()
            variables |= {"AWS_REGION": "us-west-2", "AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
            yield bucket, endpoint, style, Recorded(s3), variables


class Forwarded:
    """An S3 server behind a proxy of plain HTTP."""

    def __init__(self, s3):
        self.s3 = s3

    def __call__(self, request):
        answers = []

        class Sink:
            def send(self, response, is_head, on_last, on_bytes):
                answers.append(response)

        self.s3.server.handle(Sink(), request)
        return answers[0]


class Botocore:
    """What botocore would request with these settings. Nothing is sent."""

    def __init__(self, botocore, endpoint, style):
        self.library, self.made = botocore, []
        session = botocore.session.Session()
        session.set_credentials("testkey", "testsecret")
        config = botocore.config.Config(s3={"addressing_style": style} if style else {})
        self.client = session.create_client("s3", region_name="us-west-2", endpoint_url=endpoint, config=config)
        self.client.meta.events.register("before-send.s3", self.stop)

    def stop(self, request, **_):
        self.made.append(request)
        return self.library.awsrequest.AWSResponse(request.url, 404, {}, self)

    def stream(self):
        return iter([b""])

    def url_of(self, bucket, key):
        """Of an object, or of a list where there is no key."""
        with pytest.raises(self.library.exceptions.ClientError):
            if key:
                self.client.get_object(Bucket=bucket, Key=key)
            else:
                self.client.list_objects_v2(Bucket=bucket)
        return urllib.parse.urlsplit(self.made[-1].url)


def signature_of(botocore, request, region):
    """That botocore gives to what was sent."""
    claimed = re.search("SignedHeaders=([^,]+)", request.header("authorization"))[1].split(";")
    made = botocore.awsrequest.AWSRequest(request.method, f"https://{request.header('host')}{request.target}",
                                          headers={name: request.header(name) for name in claimed})
    made.context["timestamp"] = request.header("x-amz-date")
    signer = botocore.auth.S3SigV4Auth(botocore.credentials.Credentials("testkey", "testsecret"), "s3", region)
    return signer.signature(signer.string_to_sign(made, signer.canonical_request(made)), made)


def test_hosts_paths_and_signatures_are_those_of_botocore(case, botocore, mount, tmp_path):
    bucket, endpoint, style, recorded, variables = case
    options = [f"endpoint={endpoint}"] * bool(endpoint) + [f"addressing={style}"] * bool(style)
    expected = files_of(mount(tmp_path / "s.zarr", "ro").path)
    there = mount(f"s3://{bucket}/{KEY}", "retry=1", *options, env=variables)
    assert files_of(there.path) == expected
    (there.path / "a/0.0").write_bytes((there.path / "a/0.1").read_bytes())
    run("fusermount3", "-u", there.path)
    assert there.process.wait(60) == 0, there.log.read_text()
    assert {request.method for request in recorded.requests} == {"GET", "PUT"}
    seen, judge = set(), Botocore(botocore, endpoint, style)
    for request in recorded.requests:
        is_list = request.argument("list-type") == "2"
        path = urllib.parse.unquote(request.raw_path)
        wanted = judge.url_of(bucket, "" if is_list else path[path.index(KEY):])
        assert (request.header("host"), request.raw_path) == (wanted.netloc, wanted.path or "/")
        region, service = request.header("authorization").split("/")[2:4]
        assert (region, service) == ("us-west-2", "s3")
        assert request.header("authorization").endswith("Signature=" + signature_of(botocore, request, "us-west-2"))
        seen.add((request.method, is_list))
    assert {("GET", True), ("GET", False), ("PUT", False)} <= seen


@pytest.mark.parametrize("case", ["endpoint-virtual"], indirect=True)
@pytest.mark.parametrize("profile,given,code", [
    ("", "", 32), ("s3 =\n  addressing_style = virtual\n", "", 0), ("s3 =\n  addressing_style = virtual\n", ",addressing=path", 32),
    ("s3 =\n  addressing_style = auto\n", "", 32), ("", ",addressing=virtual", 0), ("", ",addressing=virtual,path_style", 32)])
def test_the_option_comes_before_the_profile(profile, given, code, case, tmp_path):
    bucket, endpoint, _, recorded, variables = case
    (tmp_path / ".aws/config").write_text("[default]\n" + profile)
    codecfs("info", "-O", f"retry=1,endpoint={endpoint}{given}", f"s3://{bucket}/{KEY}", environment=variables, code=code)
    assert bool(recorded.requests) == (code == 0)


@pytest.mark.parametrize("case", ["aws-access-point"], indirect=True)
def test_the_region_of_an_access_point_is_that_of_its_arn(case):
    bucket, _, _, recorded, variables = case
    variables["AWS_REGION"] = "eu-west-1"
    codecfs("info", "-O", "retry=1,region=eu-west-1", f"s3://{bucket}/{KEY}", environment=variables)
    assert {request.header("authorization").split("/")[2] for request in recorded.requests} == {"us-west-2"}


def test_arns_of_other_things_are_refused():
    said = codecfs("info", "s3://arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap/s.zarr", code=32).stderr
    assert "Multi-Region Access Points" in said
    assert "write s3://BUCKET/KEY" in codecfs("info", "s3://arn:aws:s3:::bucket/s.zarr", code=32).stderr
    said = codecfs("info", "-O", "endpoint=http://127.0.0.1:1,anon", f"s3://{POINT}/s.zarr", code=32).stderr
    assert "access point" in said and "127.0.0.1" in said


@pytest.mark.parametrize("value", ["", "hidden", "VIRTUAL"])
def test_another_addressing_is_refused(value):
    assert "addressing=" in codecfs("info", "-O", f"addressing={value}", "s3://bucket/s.zarr", code=1).stderr
