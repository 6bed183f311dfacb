"""The signature check: examples of the AWS documentation with their published signatures, and each way to be wrong."""
import dataclasses

import pytest
from fake import signature
from fake.credentials import Credential
from fake.errors import S3Error
from fake.wire import Request

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
NOW = 1369353600  # 24 May 2013
HOST = ("Host", "examplebucket.s3.amazonaws.com")
DATE = ("x-amz-date", "20130524T000000Z")
# "Authenticating Requests: Using the Authorization Header", examples
EXAMPLES = {
    "GET object": ("GET", "/test.txt", [HOST, ("Range", "bytes=0-9"), ("x-amz-content-sha256", EMPTY), DATE], b"",
                   "host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
    "PUT object": ("PUT", "/test%24file.text", [
        HOST, ("Date", "Fri, 24 May 2013 00:00:00 GMT"), DATE, ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ("x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072")], b"Welcome to Amazon S3.",
        "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
    "GET lifecycle": ("GET", "/?lifecycle", [HOST, DATE, ("x-amz-content-sha256", EMPTY)], b"", "host;x-amz-content-sha256;x-amz-date",
                      "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    "GET list": ("GET", "/?max-keys=2&prefix=J", [HOST, DATE, ("x-amz-content-sha256", EMPTY)], b"", "host;x-amz-content-sha256;x-amz-date",
                 "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
}


class Known:
    def __init__(self, *credentials):
        self.credentials = {each.access_key: each for each in credentials}

    def find(self, access_key):
        return self.credentials.get(access_key)


def example(name="GET object", **changed):
    method, target, headers, body, signed, signed_as = EXAMPLES[name]
    text = f"AWS4-HMAC-SHA256 Credential={KEY}/20130524/us-east-1/s3/aws4_request,SignedHeaders={signed},Signature={signed_as}"
    return dataclasses.replace(Request(method, target, [*headers, ("Authorization", text)], body, 1), **changed)


def check(request, known=None, now=NOW, service="s3"):
    signature.check(request, signature.Claim(request.header("authorization")), known or Known(Credential(KEY, SECRET)), now, service)


def code_of(*arguments, **options):
    with pytest.raises(S3Error) as failed:
        check(*arguments, **options)
    return failed.value.status, failed.value.code


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_documentation_is_right(name):
    check(example(name))


@pytest.mark.parametrize("changed", [{"method": "HEAD"}, {"target": "/test.txt?x"}, {"target": "/test.tx"}], ids=str)
def test_another_request_has_another_signature(changed):
    assert code_of(example(**changed)) == (403, "SignatureDoesNotMatch")


def test_the_order_of_a_query_and_its_encoding_as_sent_do_not_matter():
    check(example("GET list", target="/?prefix=%4A&max-keys=2"))


def with_header(name, value):
    request = example()
    request.headers = [pair for pair in request.headers if pair[0].lower() != name.lower()] + ([(name, value)] if value is not None else [])
    return request


@pytest.mark.parametrize("name, value, wanted", [
    ("x-amz-date", None, (403, "AccessDenied")), ("x-amz-date", "yesterday", (403, "AccessDenied")),
    ("x-amz-date", "20130525T000000Z", (400, "AuthorizationHeaderMalformed")), ("x-amz-date", "20130524T001501Z", (403, "RequestTimeTooSkewed")),
    ("x-amz-date", "20130524T000001Z", (403, "SignatureDoesNotMatch")), ("Range", "bytes=0-8", (403, "SignatureDoesNotMatch")),
    ("x-amz-content-sha256", None, (400, "InvalidRequest")), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD", (403, "SignatureDoesNotMatch")),
    ("x-amz-content-sha256", "0" * 64, (400, "XAmzContentSHA256Mismatch")),
    ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", (501, "NotImplemented")),
    ("x-amz-meta-more", "1", (403, "AccessDenied")), ("x-amz-security-token", "t", (400, "InvalidToken"))])
def test_a_changed_header(name, value, wanted):
    assert code_of(with_header(name, value)) == wanted


def test_spaces_in_headers_are_folded():
    check(with_header("Range", "  bytes=0-9 "))


@pytest.mark.parametrize("now, is_right", [(NOW - 900, True), (NOW + 900, True), (NOW - 901, False), (NOW + 901, False)])
def test_the_clock_may_be_15_minutes_off(now, is_right):
    if is_right:
        check(example(), now=now)
    else:
        assert code_of(example(), now=now) == (403, "RequestTimeTooSkewed")


@pytest.mark.parametrize("text", ["", "Basic YTpi", "AWS4-HMAC-SHA256 Credential=k/20130524/s3/aws4_request,SignedHeaders=host,Signature=00",
                                  "AWS4-HMAC-SHA256 Credential=k/20130524/us-east-1/s3/aws4_request,Signature=00"])
def test_what_is_no_authorization(text):
    with pytest.raises(S3Error) as failed:
        signature.Claim(text)
    assert (failed.value.status, failed.value.code) == (400, "AuthorizationHeaderMalformed")


def test_keys_and_services():
    assert code_of(example(), Known()) == (403, "InvalidAccessKeyId")
    assert code_of(example(), Known(Credential(KEY, "other"))) == (403, "SignatureDoesNotMatch")
    assert code_of(example(), service="sts") == (400, "AuthorizationHeaderMalformed")


def test_tokens():
    assert code_of(example(), Known(Credential(KEY, SECRET, "token"))) == (403, "InvalidAccessKeyId")
    request = with_header("x-amz-security-token", "token")
    assert code_of(request, Known(Credential(KEY, SECRET, "other"))) == (400, "InvalidToken")
    assert code_of(request, Known(Credential(KEY, SECRET, "token", NOW))) == (400, "ExpiredToken")
    assert code_of(request, Known(Credential(KEY, SECRET, "token", NOW + 1))) == (403, "AccessDenied")  # it is not signed
