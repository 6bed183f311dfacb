"""Our server as Azure Blob Storage: requests by hand, and Microsoft's own client, which is skipped where there is none."""
import contextlib
import http.client

import pytest
from fake import azure

import servers


def ask(s3, path, method="GET", headers=None, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", s3.server.port, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, azure.PREFIX + path, body, headers or {})
        answer = connection.getresponse()
        return answer, answer.read()


@pytest.fixture
def box(s3):
    s3.bucket("box")
    s3.put("box", "a b/é", b"0123456789")
    s3.put("data", "f", b"public")
    return s3


def with_sas(path, permissions="rlwd", seconds=60, container="box"):
    return path + ("&" if "?" in path else "?") + azure.make_sas(container, seconds, permissions)


def test_requests_without_credentials(box):
    answer, body = ask(box, "/data/f")
    assert (answer.status, body) == (200, b"public")
    answer, body = ask(box, "/data/none")
    assert answer.status == 404 and answer.getheader("x-ms-error-code") == "BlobNotFound" and b"<Code>BlobNotFound</Code>" in body
    assert ask(box, "/box/none")[0].getheader("x-ms-error-code") == "ResourceNotFound"
    assert ask(box, "/data/f", "PUT", body=b"x")[0].getheader("x-ms-error-code") == "ResourceNotFound"


@pytest.mark.parametrize("change,code", [
    (lambda path: path, None), (lambda path: path.replace("sig=", "sig=A"), "AuthenticationFailed"), (lambda path: path.replace("sp=rlwd", "sp=r"), "AuthenticationFailed"),
    (lambda _: with_sas("/box/a%20b/%C3%A9", "w"), "AuthorizationPermissionMismatch"), (lambda _: with_sas("/box/a%20b/%C3%A9", seconds=-5), "AuthenticationFailed"),
    (lambda _: with_sas("/box/a%20b/%C3%A9", container="data"), "AuthenticationFailed")])
def test_shared_access_signatures(change, code, box):
    answer, body = ask(box, change(with_sas("/box/a%20b/%C3%A9")))
    assert answer.getheader("x-ms-error-code") == code and (body == b"0123456789") == (code is None)


def test_ranges_and_conditions(box):
    path = with_sas("/box/a%20b/%C3%A9")
    answer, body = ask(box, path, headers={"Range": "bytes=2-4"})
    assert answer.status == 206 and body == b"234" and answer.getheader("Content-Range") == "bytes 2-4/10"
    etag = answer.getheader("ETag")
    assert ask(box, path, headers={"Range": "bytes=-4"})[0].status == 400
    assert ask(box, path, headers={"Range": "bytes=10-"})[0].status == 416
    assert ask(box, path, headers={"If-None-Match": etag})[0].status == 304
    assert ask(box, path, headers={"If-Match": '"0x8D1"'})[0].status == 412
    kind = {"x-ms-blob-type": "BlockBlob"}
    assert ask(box, path, "PUT", {}, b"x")[0].status == 400
    assert ask(box, path, "PUT", {**kind, "If-None-Match": "*"}, b"x")[0].getheader("x-ms-error-code") == "BlobAlreadyExists"
    assert ask(box, path, "PUT", {**kind, "If-Match": '"0x8D1"'}, b"x")[0].getheader("x-ms-error-code") == "ConditionNotMet"
    written, _ = ask(box, path, "PUT", {**kind, "If-Match": etag}, b"0123456789")
    assert written.status == 201 and written.getheader("ETag") != etag, "it changes with each write"
    assert ask(box, path, "DELETE")[0].status == 202
    assert ask(box, path, "DELETE")[0].getheader("x-ms-error-code") == "BlobNotFound"


@pytest.fixture
def client(box):
    try:
        module = servers.azure_blob_module()
    except servers.NotHere as reason:
        pytest.skip(str(reason))
    text = f"AccountName={azure.ACCOUNT};AccountKey={azure.KEY};BlobEndpoint={box.endpoint}{azure.PREFIX};"
    return module.BlobServiceClient.from_connection_string(text, retry_total=0).get_container_client("box")


def test_microsofts_client_signs_as_this_server_expects(box, client):
    client.upload_blob("new/x y+%é", b"content")
    assert client.download_blob("new/x y+%é").readall() == b"content"
    box.set(page_size=1)
    assert [blob.name for blob in client.list_blobs()] == ["a b/é", "new/x y+%é"]
    assert [blob.name for blob in client.walk_blobs(delimiter="/")] == ["a b/", "new/"]
    properties = client.get_blob_client("new/x y+%é").get_blob_properties()
    assert properties.size == 7
    client.delete_blob("new/x y+%é", if_match=properties.etag)
    assert [blob.name for blob in client.list_blobs()] == ["a b/é"]
    assert {entry["status"] for entry in box.log()} <= {200, 201, 202, 206}


def test_a_wrong_key_is_refused(box, client):
    module = servers.azure_blob_module()
    text = f"AccountName={azure.ACCOUNT};AccountKey=d3Jvbmc=;BlobEndpoint={box.endpoint}{azure.PREFIX};"
    wrong = module.BlobServiceClient.from_connection_string(text, retry_total=0).get_container_client("box")
    with pytest.raises(Exception, match="AuthenticationFailed"):
        wrong.download_blob("a b/é")
