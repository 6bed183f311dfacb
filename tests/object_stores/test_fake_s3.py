"""The operations of the fake S3 server, without signatures: asked by Python's HTTP client and by curl."""
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree

import pytest
from fake_s3 import Client, FakeS3, make_certificate
from running import run

HERE = pathlib.Path(__file__).parent
DATA = bytes(range(256)) * 64
ETAG = f'"{hashlib.md5(DATA, usedforsecurity=False).hexdigest()}"'


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def code(self):
        return xml.etree.ElementTree.fromstring(self.body).findtext("Code")


def ask(s3, path, method="GET", body=None, connection=None, **headers):
    made = connection or http.client.HTTPConnection("127.0.0.1", s3.server.port, timeout=20)
    made.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = made.getresponse()
    result = Answer(answer.status, answer.headers, answer.read())
    if connection is None:
        made.close()
    return result


@pytest.fixture
def open_s3():
    """Nothing needs a signature."""
    with FakeS3(auth=False) as server:
        server.put("data", "f", DATA)
        yield server


@pytest.mark.parametrize("text, part", [("bytes=0-0", (0, 1)), ("bytes=5-14", (5, 15)), ("bytes=16000-", (16000, 16384)),
                                        ("bytes=-5", (16379, 16384)), ("bytes=-99999", (0, 16384)), ("bytes=16383-99999", (16383, 16384))])
def test_ranges(open_s3, text, part):
    answer = ask(open_s3, "/data/f", Range=text)
    assert (answer.status, answer.body) == (206, DATA[part[0]:part[1]])
    assert answer.headers["Content-Range"] == f"bytes {part[0]}-{part[1] - 1}/16384"
    assert answer.headers["ETag"] == ETAG


@pytest.mark.parametrize("text", ["bytes=9-5", "bytes=-", "bytes=0-9,20-29", "lines=1-2", "bytes=a-b"])
def test_a_range_that_s3_does_not_know_is_the_whole_object(open_s3, text):
    answer = ask(open_s3, "/data/f", Range=text)
    assert (answer.status, answer.body) == (200, DATA)


@pytest.mark.parametrize("text", ["bytes=16384-", "bytes=99999-100000", "bytes=-0"])
def test_a_range_behind_the_end(open_s3, text):
    answer = ask(open_s3, "/data/f", Range=text)
    assert (answer.status, answer.code, answer.headers["Content-Range"]) == (416, "InvalidRange", "bytes */16384")


def test_head_and_missing_things(open_s3):
    answer = ask(open_s3, "/data/f", "HEAD")
    assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, "16384", b"")
    assert [ask(open_s3, path).code for path in ("/data/none", "/nothing/f")] == ["NoSuchKey", "NoSuchBucket"]
    assert ask(open_s3, "/data/none", "HEAD").status == 404
    assert ask(open_s3, "/data/f", "PATCH").status == 405
    assert ask(open_s3, "/data/g", "PUT", b"", x_amz_copy_source="/data/f").status == 501


def test_conditions_of_reads(open_s3):
    date = ask(open_s3, "/data/f").headers["Last-Modified"]
    for headers, status in (({"If-Match": ETAG}, 200), ({"If-Match": ETAG.strip('"')}, 200), ({"If-Match": '"x"'}, 412), ({"If-Match": "*"}, 200),
                            ({"If-None-Match": ETAG}, 304), ({"If-None-Match": '"x"'}, 200), ({"If-Modified-Since": date}, 304),
                            ({"If-Unmodified-Since": date}, 200), ({"If-Unmodified-Since": "Mon, 01 Jan 2001 00:00:00 GMT"}, 412)):
        assert ask(open_s3, "/data/f", **headers).status == status, headers


@pytest.mark.parametrize("mode, statuses", [("aws", (412, 200, 412, 200)), ("unquoted", (412, 412, 412, 200)), ("create_only", (412, 200, 200, 200)),
                                            ("ignored", (200, 200, 200, 200))])
def test_conditions_of_writes_as_other_servers_have_them(open_s3, mode, statuses):
    open_s3.set(conditions=mode)

    def put(**headers):
        open_s3.put("data", "w", b"old")
        return ask(open_s3, "/data/w", "PUT", b"new", **headers).status

    old = hashlib.md5(b"old", usedforsecurity=False).hexdigest()
    assert (put(If_None_Match="*"), put(If_Match=f'"{old}"'), put(If_Match='"x"'), put(If_Match=old)) == statuses


def test_a_bad_digest_is_refused(open_s3):
    assert ask(open_s3, "/data/w", "PUT", b"body", Content_MD5="AAAAAAAAAAAAAAAAAAAAAA==").code == "BadDigest"
    assert ask(open_s3, "/data/w").status == 404


def listed(answer):
    page = xml.etree.ElementTree.fromstring(answer.body)
    return ([each.findtext("{*}Key") for each in page.findall("{*}Contents")],
            [each.findtext("{*}Prefix") for each in page.findall("{*}CommonPrefixes")],
            page.findtext("{*}NextContinuationToken"))


@pytest.mark.parametrize("is_directory", [False, True])
def test_lists_agree_with_a_model(tmp_path, is_directory):
    keys = [f"{a}/{b}" for a in ("a", "a-b", "a.c", "b/c") for b in ("0.0", "0.1", "x/y", "x/z/1", ".zarray")] + ["a0", "b!", "é", "top"]
    with FakeS3(root=tmp_path if is_directory else None, auth=False) as s3:
        for key in keys:
            s3.put("data", key, b"1")
        for prefix in ("", "a", "a/", "b/c/", "a/x", "none"):
            for delimiter in ("", "/", "/x"):
                wanted_keys, wanted_groups = [], []
                for key in sorted(each for each in keys if each.startswith(prefix)):
                    cut = key.find(delimiter, len(prefix)) if delimiter else -1
                    group = key[:cut + len(delimiter)] if cut >= 0 else None
                    if group is None:
                        wanted_keys.append(key)
                    elif group not in wanted_groups:
                        wanted_groups.append(group)
                for size in (1, 2, 3, 1000):
                    found_keys, found_groups, token, pages = [], [], "", 0
                    while token is not None and pages < 100:
                        more = f"&continuation-token={urllib.parse.quote(token)}" if token else ""
                        each = listed(ask(s3, f"/data?list-type=2&prefix={prefix}&delimiter={delimiter}&max-keys={size}{more}"))
                        found_keys, found_groups, token, pages = found_keys + each[0], found_groups + each[1], each[2], pages + 1
                    assert (found_keys, found_groups) == (wanted_keys, wanted_groups), (prefix, delimiter, size)
                    assert pages == max(1, -(-(len(wanted_keys) + len(wanted_groups)) // size))


def test_arguments_of_lists(open_s3):
    for key in ("a b+c", "a\x01", "ü"):
        open_s3.put("data", key, b"")
    assert listed(ask(open_s3, "/data?list-type=2&encoding-type=url"))[0] == ["a%01", "a%20b%2Bc", "f", "%C3%BC"]
    assert listed(ask(open_s3, "/data?list-type=2&start-after=a%20b%2Bc"))[0] == ["f", "ü"]
    assert b"&#x1;" in ask(open_s3, "/data?list-type=2").body  # as S3 does, which no strict parser accepts
    assert [ask(open_s3, f"/data?list-type=2&{bad}").status for bad in ("max-keys=x", "continuation-token=%21", "encoding-type=x")] == [400] * 3
    assert listed(ask(open_s3, "/data?list-type=2&max-keys=0")) == ([], [], None)


def test_anonymous_requests_need_a_public_bucket(s3):
    s3.put("data", "f", DATA)
    s3.put("closed", "f", DATA)
    assert ask(s3, "/data/f").status == 200
    assert ask(s3, "/data/f", "PUT", b"").code == "AccessDenied"
    assert ask(s3, "/closed/f").code == "AccessDenied"
    s3.bucket("data", listable=False)
    assert [ask(s3, path).code for path in ("/data?list-type=2", "/data/none")] == ["AccessDenied"] * 2
    s3.bucket("data", requester_pays=True)
    assert ask(s3, "/data/f").status == 403
    assert ask(s3, "/data/f", x_amz_request_payer="requester").headers["x-amz-request-charged"] == "requester"


def test_a_bucket_in_another_region(s3):
    s3.bucket("far", public=True, region="eu-west-1")
    answer = ask(s3, "/far/f")
    assert (answer.status, answer.code, answer.headers["x-amz-bucket-region"]) == (301, "PermanentRedirect", "eu-west-1")


def test_buckets_as_host_names(open_s3):
    assert ask(open_s3, "/f", Host=f"data.localhost:{open_s3.server.port}").body == DATA
    assert ask(open_s3, "/?list-type=2", Host="data.localhost").status == 200


def test_the_same_object_by_plain_http(s3):
    s3.put("data", "folder/a+b.nc", DATA)
    path = "/data/folder/a+b.nc"
    answer = ask(s3, f"/_files{path}", Range="bytes=5-6")
    assert (answer.status, answer.body, answer.headers["ETag"]) == (206, DATA[5:7], ETAG)
    answer = ask(s3, f"/_files-norange-noetag-nodate{path}", Range="bytes=5-6")
    assert (answer.status, answer.body) == (200, DATA)
    assert not {"ETag", "Last-Modified", "Accept-Ranges"} & set(answer.headers)
    assert ask(s3, f"/_files-weak{path}").headers["ETag"] == "W/" + ETAG
    assert ask(s3, f"/_files-nohead{path}", "HEAD").status == 405
    answer = ask(s3, f"/_files-chunked{path}")
    assert (answer.body, answer.headers["Content-Length"]) == (DATA, None)
    assert [ask(s3, f"/_files{path}", If_None_Match=ETAG).status, ask(s3, f"/_files{path}", If_Match='"x"').status,
            ask(s3, "/_files/data/none").status, ask(s3, f"/_files{path}", "PUT", b"").status] == [304, 412, 404, 405]
    assert ask(s3, f"/_files-loop{path}").headers["Location"] == f"/_files-loop{path}"


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
def test_curl(s3, tmp_path):
    s3.put("data", "f", DATA)
    done = run("curl", "-sSL", "-r", "100-199", f"{s3.endpoint}/_files-redirect/data/f", seconds=20, code=None, text=False)
    assert (done.returncode, done.stdout) == (0, DATA[100:200])
    s3.set(auth=False)
    (tmp_path / "upload").write_bytes(DATA * 200)  # beyond 1 MiB curl asks for 100 Continue
    run("curl", "-sSf", "-T", tmp_path / "upload", f"{s3.endpoint}/data/up", seconds=20)
    assert ask(s3, "/data/up").body == DATA * 200


@pytest.mark.skipif(not shutil.which("curl") or not shutil.which("openssl"), reason="no curl or openssl")
def test_https(tmp_path):
    certificate, key = make_certificate(tmp_path)
    with FakeS3(certificate=certificate, key=key) as s3:
        s3.put("data", "f", DATA)
        url = f"{s3.endpoint}/_files/data/f"
        assert run("curl", "-sS", "--cacert", certificate, url, seconds=20, code=None, text=False).stdout == DATA
        run("curl", "-sS", url, seconds=20, code=60)


def test_requests_are_counted_exactly(s3):
    s3.put("data", "f", DATA)
    s3.set(latency=0.2)
    s3.log(reset=True)
    connection = http.client.HTTPConnection("127.0.0.1", s3.server.port)
    with contextlib.closing(connection):
        for first in (0, 100):
            ask(s3, "/data/f", connection=connection, Range=f"bytes={first}-{first + 9}")
    threads = [threading.Thread(target=ask, args=(s3, "/data/f")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries, summary = s3.log(), s3.summary()
    assert [(each["range"], each["bytes"], each["status"]) for each in entries[:2]] == [("bytes=0-9", 10, 206), ("bytes=100-109", 10, 206)]
    assert entries[0]["connection"] == entries[1]["connection"]
    assert (summary["requests"], summary["bytes"], summary["connections"], summary["max_in_flight"]) == (6, 20 + 4 * len(DATA), 5, 4)
    assert (summary["operations"], summary["statuses"], summary["in_flight"]) == ({"GetObject": 6}, {"206": 2, "200": 4}, 0)
    assert s3.log(reset=True) and s3.log() == []


def test_latency_and_bandwidth(s3):
    s3.put("data", "f", DATA)
    s3.set(latency=0.1, bandwidth=len(DATA) * 5)
    began = time.monotonic()
    ask(s3, "/data/f")
    assert time.monotonic() - began >= 0.29


def test_a_directory_is_shared_with_other_programs(tmp_path):
    (tmp_path / "data/sub").mkdir(parents=True)
    (tmp_path / "data/sub/f").write_bytes(DATA)
    with FakeS3(root=tmp_path, auth=False) as s3:
        assert ask(s3, "/data/sub/f").headers["ETag"] == ETAG
        (tmp_path / "data/sub/f").write_bytes(b"other")
        assert ask(s3, "/data/sub/f", If_Match=ETAG).status == 412
        assert ask(s3, "/data/new/f", "PUT", b"made").status == 200
        assert (tmp_path / "data/new/f").read_bytes() == b"made"
        assert ask(s3, "/data/new/f", "DELETE").status == 204
        assert not (tmp_path / "data/new").exists()
        assert [ask(s3, f"/data/{bad}", "PUT", b"").status for bad in ("../../up", "sub", "sub/f/g", "a//b")] == [400] * 4


@contextlib.contextmanager
def program(*options, **more):
    process = subprocess.Popen([sys.executable, "-B", HERE / "fake_s3.py", *options], stdout=subprocess.PIPE, text=True, **more)
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_as_a_program(tmp_path):
    message = {"buckets": {"data": {"public": True}}, "put": {"bucket": "data", "key": "f", "size": 1000, "seed": 7}}
    with program("--port-file", tmp_path / "port", "--region", "eu-west-1", "--control", json.dumps(message)) as (process, endpoint):
        assert endpoint.endswith(":" + (tmp_path / "port").read_text().strip())
        client = Client(endpoint)
        assert client.ask("GET", "/_control")["settings"]["region"] == "eu-west-1"
        assert client.put("data", "g", b"x") == hashlib.md5(b"x", usedforsecurity=False).hexdigest()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM


def test_it_ends_with_the_program_that_started_it():
    read, write = os.pipe()
    with program("--until-stdin-ends", stdin=read) as (process, endpoint):
        os.close(read)
        assert Client(endpoint).summary()["requests"] == 0
        os.close(write)
        assert process.wait(10) == 0


def test_wrong_control_messages_are_refused(s3):
    for message in ({"sett": {}}, {"set": {"latancy": 1}}, {"set": {"latency": "1"}}, {"faults": [{"kind": "explode"}]},
                    {"faults": [{"kind": "error", "statsu": 1}]}, {"buckets": {"data": {"publik": True}}}, {"set": {"conditions": "x"}},
                    {"faults": {"kind": "stall"}}, {"faults": {"kind": "malformed_list", "how": "x"}}):
        with pytest.raises(ValueError, match="no such|no option|is a number|is one of|needs"):
            s3.control(**message)


@pytest.mark.parametrize("sent", [b"\0\1\2", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
                                  b"PUT /data/f HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                                  b"PUT /data/f HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc",
                                  b"PUT /data/f HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100000])
def test_what_is_not_http_ends_its_connection_only(s3, sent):
    with socket.create_connection(("127.0.0.1", s3.server.port), timeout=10) as sock, contextlib.suppress(ConnectionError):
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        sock.recv(1000)
    assert ask(s3, "/data?list-type=2").status == 200
