"""Our server as Google Cloud Storage, by its XML API: requests by hand."""
import contextlib
import http.client
import json
import xml.etree.ElementTree

import pytest
from fake import gcs


def ask(s3, path, method="GET", headers=None, body=None, prefix=gcs.PREFIX):
    connection = http.client.HTTPConnection("127.0.0.1", s3.server.port, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, prefix + path, body, headers or {})
        answer = connection.getresponse()
        return answer, answer.read()


@pytest.fixture
def box(s3):
    s3.bucket("box")
    s3.put("box", "a b/é", b"0123456789")
    s3.put("data", "f", b"public")
    return s3


@pytest.fixture
def token(box):
    answer, body = ask(box, gcs.MACHINE, headers={"Metadata-Flavor": "Google"}, prefix="")
    assert answer.status == 200 and answer.getheader("Metadata-Flavor") == "Google"
    return {"Authorization": "Bearer " + json.loads(body)["access_token"]}


def code_of(body):
    return xml.etree.ElementTree.fromstring(body).findtext("Code")


def test_what_may_be_read(box, token):
    assert ask(box, "/data/f")[1] == b"public"
    answer, body = ask(box, "/data/none")
    assert answer.status == 404 and code_of(body) == "NoSuchKey"
    assert ask(box, "/box/a%20b/%C3%A9")[0].status == 403
    assert ask(box, "/box/a%20b/%C3%A9", headers=token)[1] == b"0123456789"
    answer, body = ask(box, "/none/f", headers=token)
    assert answer.status == 404 and code_of(body) == "NoSuchBucket"
    assert ask(box, "/box/a%20b/%C3%A9", headers={"Authorization": "Bearer other"})[0].status == 401
    box.expire_credentials()
    assert ask(box, "/box/a%20b/%C3%A9", headers=token)[0].status == 401
    assert ask(box, gcs.MACHINE, prefix="")[0].status == 403, "without its header"


def test_generations(box, token):
    path = "/box/a%20b/%C3%A9"
    first, _ = ask(box, path, headers=token)
    generation, condition = first.getheader("x-goog-generation"), "x-goog-if-generation-match"
    assert ask(box, path, "PUT", {**token, condition: "0"}, b"x")[0].status == 412
    assert ask(box, path, "PUT", {**token, condition: "1"}, b"x")[0].status == 412
    second, _ = ask(box, path, "PUT", {**token, condition: generation}, b"0123456789")
    assert second.status == 200 and second.getheader("x-goog-generation") != generation, "also of the same content"
    assert ask(box, path, headers={**token, condition: generation})[0].status == 412
    assert ask(box, path, headers={**token, "If-None-Match": second.getheader("ETag")})[0].status == 304
    answer, body = ask(box, path, headers={**token, "Range": "bytes=-3"})
    assert answer.status == 206 and body == b"789"
    assert ask(box, path, "DELETE", token)[0].status == 204
    assert code_of(ask(box, path, "DELETE", token)[1]) == "NoSuchKey"
    assert ask(box, path, "PUT", {**token, condition: "0"}, b"x")[0].status == 200


def test_lists(box, token):
    box.set(page_size=1)
    box.put("box", "c", b"1")
    answer, body = ask(box, "/box?list-type=2&delimiter=%2F", headers=token)
    root = xml.etree.ElementTree.fromstring(body)
    space = {"s3": root.tag.partition("}")[0].removeprefix("{")}
    assert answer.status == 200 and [each.text for each in root.iterfind("s3:CommonPrefixes/s3:Prefix", space)] == ["a b/"]
    following = root.findtext("s3:NextContinuationToken", namespaces=space)
    root = xml.etree.ElementTree.fromstring(ask(box, f"/box?list-type=2&delimiter=%2F&continuation-token={following}", headers=token)[1])
    assert [each.text for each in root.iterfind("s3:Contents/s3:Key", space)] == ["c"] and root.findtext("s3:IsTruncated", namespaces=space) == "false"
    assert root.find("s3:Contents/s3:Generation", space) is not None


@pytest.mark.parametrize("form,error", [("grant_type=refresh_token&client_id=x", "invalid_grant"), ("grant_type=other", "unsupported_grant_type")])
def test_forms_that_are_refused(form, error, box):
    answer, body = ask(box, gcs.TOKENS, "POST", {"Content-Type": "application/x-www-form-urlencoded"}, form, prefix="")
    assert answer.status == 400 and json.loads(body)["error"] == error
