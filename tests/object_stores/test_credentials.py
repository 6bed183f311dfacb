"""Signatures, tokens and the services that hand out keys, judged by boto3, which knows nothing of our code; and by hand where boto3 is
not installed (scripts/object-store-servers python)."""
import http.client
import json
import os
import socket
import types

import pytest
import servers

ROLE = "arn:aws:iam::123456789012:role/r"


def error_of(call, **arguments):
    import botocore
    with pytest.raises(botocore.exceptions.ClientError) as failed:
        call(**arguments)
    return failed.value.response["ResponseMetadata"]["HTTPStatusCode"], failed.value.response["Error"]["Code"]


@pytest.fixture
def client(s3, boto):
    """A function of options of boto3_client."""
    s3.put("data", "a/b", b"hello")
    return lambda **options: boto(s3, **options)


@pytest.fixture
def chain(s3, client, monkeypatch, tmp_path):
    """A function of variables: a client of S3 with the keys that boto3's chain finds."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3.endpoint)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_STS_REGIONAL_ENDPOINTS", "regional")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")

    def make(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        boto3 = servers.boto3_module()
        import botocore
        config = botocore.config.Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1, "mode": "standard"})
        return boto3.Session().client("s3", endpoint_url=s3.endpoint, config=config)

    return make


def read(client):
    return client.get_object(Bucket="data", Key="a/b")["Body"].read()


def operations(s3):
    return [entry["operation"] for entry in s3.log()]


@pytest.mark.parametrize("key", ["a b", "a+b", "(x)=&?#%41~'!*,:;@$", "ünï/cødé", "//double", "dots/../..", "\x7f"])
def test_keys_are_signed_as_boto3_signs_them(client, s3, key):
    made = client()
    made.put_object(Bucket="data", Key=key, Body=b"x", Metadata={"m": "two  spaces"})
    assert made.get_object(Bucket="data", Key=key, Range="bytes=0-0")["Metadata"] == {"m": "two  spaces"}
    assert [each["Key"] for each in made.list_objects_v2(Bucket="data", Prefix=key, Delimiter="|", StartAfter=" ")["Contents"]] == [key]


def test_a_range_that_is_ignored_is_signed_all_the_same(client, s3):
    s3.fault("ignore_range")
    answer = client().get_object(Bucket="data", Key="a/b", Range="bytes=1-2")
    assert (answer["ResponseMetadata"]["HTTPStatusCode"], answer["Body"].read()) == (200, b"hello")


def test_wrong_keys(client):
    assert error_of(client(secret_key="no").get_object, Bucket="data", Key="a/b") == (403, "SignatureDoesNotMatch")
    assert error_of(client(access_key="no").get_object, Bucket="data", Key="a/b") == (403, "InvalidAccessKeyId")
    assert error_of(client(token="no").get_object, Bucket="data", Key="a/b") == (400, "InvalidToken")
    assert read(client(access_key=None, secret_key=None)) == b"hello"


def test_the_clock(client, s3):
    s3.set(clock_offset=901.0)
    assert error_of(client().get_object, Bucket="data", Key="a/b") == (403, "RequestTimeTooSkewed")
    s3.set(clock_offset=-890.0)
    assert read(client()) == b"hello"


def test_regions(client, s3):
    """boto3 reads the right region out of each answer, and asks again."""
    s3.bucket("data", region="eu-west-1")
    for region, statuses in (("ap-south-1", [400, 200]), ("us-east-1", [301, 200]), ("eu-west-1", [200])):
        s3.log(reset=True)
        assert read(client(region=region)) == b"hello"
        assert [entry["status"] for entry in s3.log()] == statuses
    s3.bucket("data", region=None)
    s3.set(region="eu-west-1")
    assert read(client(region="eu-west-1")) == b"hello"


def test_buckets_as_host_names(client, s3, monkeypatch):
    found = socket.getaddrinfo  # not every resolver knows names below localhost
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *more, **options: found(
        "127.0.0.1" if host.endswith(".localhost") else host, *more, **options))
    there = types.SimpleNamespace(endpoint=f"http://localhost:{s3.server.port}")
    s3.log(reset=True)
    assert read(servers.boto3_client(there, style="virtual")) == b"hello"
    assert s3.log()[0]["path"] == "/a/b"


def test_a_fault_that_expires_a_token(client, s3):
    s3.fault("expired_token", operation="GetObject")
    assert error_of(client().get_object, Bucket="data", Key="a/b") == (400, "ExpiredToken")
    assert error_of(client().get_object, Bucket="data", Key="a/b") == (400, "ExpiredToken")
    s3.control(credentials={"access_key": "other", "secret": "key"})
    assert read(client(access_key="other", secret_key="key")) == b"hello"


def test_ec2(chain, s3):
    made = chain(AWS_EC2_METADATA_DISABLED="false", AWS_EC2_METADATA_SERVICE_ENDPOINT=s3.endpoint)
    assert read(made) == b"hello"
    assert operations(s3) == ["ImdsToken", "ImdsRole", "ImdsCredentials", "GetObject"]


def test_containers(chain, s3, tmp_path):
    s3.set(container_token="container-secret")
    (tmp_path / "token").write_text("container-secret")
    made = chain(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{s3.endpoint}/_container/credentials",
                 AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(tmp_path / "token"))
    assert read(made) == b"hello"
    assert operations(s3) == ["ContainerCredentials", "GetObject"]


def test_keys_expire_and_are_fetched_again(chain, s3):
    import botocore
    s3.set(lifetime=2)  # boto3 refreshes 10 minutes before the end, so at each request
    made = chain(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{s3.endpoint}/_container/credentials")
    assert [read(made), read(made)] == [b"hello"] * 2
    assert operations(s3).count("ContainerCredentials") >= 2
    s3.set(lifetime=3600)
    assert read(made) == b"hello"
    s3.log(reset=True)
    assert read(made) == b"hello"
    s3.expire_credentials()
    with pytest.raises(botocore.exceptions.ClientError, match="ExpiredToken"):
        read(made)
    assert operations(s3) == ["GetObject"] * 2


def test_web_identity(chain, s3, tmp_path):
    (tmp_path / "token").write_text("web-identity-token")
    made = chain(AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "token"), AWS_ROLE_ARN=ROLE)
    assert read(made) == b"hello"
    assert operations(s3) == ["AssumeRoleWithWebIdentity", "GetObject"]
    (tmp_path / "token").write_text("wrong")
    assert error_of(chain().get_object, Bucket="data", Key="a/b") == (400, "InvalidIdentityToken")


def test_a_role_of_a_profile(chain, s3, tmp_path):
    s3.set(external_id="ours")
    (tmp_path / "credentials").write_text("[base]\naws_access_key_id = testkey\naws_secret_access_key = testsecret\n")
    config = f"[profile p]\nrole_arn = {ROLE}\nsource_profile = base\nregion = us-east-1\n"
    (tmp_path / "config").write_text(config + "external_id = ours\n")
    assert read(chain(AWS_PROFILE="p")) == b"hello"
    assert operations(s3) == ["AssumeRole", "GetObject"]
    (tmp_path / "config").write_text(config)
    assert error_of(chain(AWS_PROFILE="p").get_object, Bucket="data", Key="a/b") == (403, "AccessDenied")


def ask(s3, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", s3.server.port, timeout=10)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_the_services_without_a_client(s3):
    roles = "/latest/meta-data/iam/security-credentials/"
    assert ask(s3, "GET", roles)[0] == 401
    assert ask(s3, "PUT", "/latest/api/token")[0] == 400
    status, token = ask(s3, "PUT", "/latest/api/token", X_aws_ec2_metadata_token_ttl_seconds="60")
    assert status == 200
    assert ask(s3, "GET", roles, X_aws_ec2_metadata_token=token) == (200, "test-role")
    keys = json.loads(ask(s3, "GET", roles + "test-role", X_aws_ec2_metadata_token=token)[1])
    assert {"AccessKeyId", "SecretAccessKey", "Token", "Expiration", "Code"} <= set(keys)
    assert ask(s3, "GET", "/latest/meta-data/placement/region", X_aws_ec2_metadata_token=token) == (200, "us-east-1")
    s3.set(clock_offset=61.0)
    assert ask(s3, "GET", roles, X_aws_ec2_metadata_token=token)[0] == 401
    s3.set(container_token="t")
    assert ask(s3, "GET", "/_container/credentials")[0] == 401
    assert ask(s3, "GET", "/_container/credentials", Authorization="t")[0] == 200
    form = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=s&WebIdentityToken=web-identity-token&RoleArn="
    assert ask(s3, "POST", "/", form + ROLE)[0] == 200
    assert ask(s3, "GET", "/?" + form + ROLE)[0] == 200
    assert ask(s3, "POST", "/", form)[0] == 400
    assert "AuthorizationHeaderMalformed" in ask(s3, "POST", "/", "Action=AssumeRole&Version=2011-06-15")[1]
    s3.fault("error", operation="ContainerCredentials", status=500, times=1)
    assert [ask(s3, "GET", "/_container/credentials", Authorization="t")[0] for _ in range(2)] == [500, 200]
