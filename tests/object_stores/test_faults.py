"""Each fault of the fake S3 server, as a client sees it."""
import contextlib
import http.client
import re
import socket
import time
import xml.etree.ElementTree

import pytest
from fake.faults import ARGUMENTS

DATA = bytes(range(256)) * 64
KINDS = set()  # that were tried


@pytest.fixture
def broken(s3):
    """A function broken(kind, path="/data/f", headers={}, **rule) -> (response, body) of one request under that fault."""
    s3.put("data", "f", DATA)
    s3.put("data", "g", b"other")

    def make(kind, path="/data/f", headers=None, method="GET", body=None, **rule):
        KINDS.add(kind)
        s3.clear_faults()
        s3.fault(kind, **rule)
        return ask(s3, path, method, headers, body)

    return make


def ask(s3, path="/data/f", method="GET", headers=None, body=None, seconds=10):
    connection = http.client.HTTPConnection("127.0.0.1", s3.server.port, timeout=seconds)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer, answer.read()


def raw(s3, path="/data/f"):
    """All that the server sends, and how it ends: "" or the error's name."""
    with socket.create_connection(("127.0.0.1", s3.server.port), timeout=10) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        parts = []
        try:
            while part := sock.recv(1 << 20):
                parts.append(part)
        except OSError as error:
            return b"".join(parts), type(error).__name__
        return b"".join(parts), ""


@pytest.mark.parametrize("status, code", [(503, "SlowDown"), (500, "InternalError"), (429, "TooManyRequests"), (409, "ConditionalRequestConflict")])
def test_errors(broken, status, code):
    answer, body = broken("error", status=status)
    assert (answer.status, xml.etree.ElementTree.fromstring(body).findtext("Code")) == (status, code)


def test_an_error_with_headers(s3):
    s3.put("data", "f", DATA)
    s3.fault("error", status=429, headers={"Retry-After": 7}, body="busy")
    answer, body = ask(s3)
    assert (answer.status, answer.headers["Retry-After"], body) == (429, "7", b"busy")


def test_an_error_after_the_write_was_carried_out(s3):
    s3.set(auth=False)
    s3.fault("error", status=500, performed=True, operation="PutObject", times=1)
    assert ask(s3, "/data/w", "PUT", body=b"new")[0].status == 500
    assert ask(s3, "/data/w")[1] == b"new"
    s3.fault("error", status=500, operation="PutObject")
    assert ask(s3, "/data/w", "PUT", body=b"newer")[0].status == 500
    assert ask(s3, "/data/w")[1] == b"new"


@pytest.mark.parametrize("kind, error", [("reset", "ConnectionResetError"), ("close", "")])
def test_connections_that_end(s3, kind, error):
    KINDS.add(kind)
    s3.put("data", "f", DATA)
    for after, size in (("request", None), ("operation", None), ("headers", 0), (100, 100)):
        s3.clear_faults()
        s3.fault(kind, after=after)
        sent, end = raw(s3)
        assert end == error
        head, _, body = sent.partition(b"\r\n\r\n")
        assert (len(body) if head else None) == size
        assert not head or b"Content-Length: 16384" in head


def test_a_write_may_be_carried_out_before_the_reset(s3):
    s3.set(auth=False)
    for after, is_there in (("request", False), ("operation", True)):
        s3.fault("reset", after=after, operation="PutObject", times=1)
        with pytest.raises(ConnectionError):
            ask(s3, f"/data/{after}", "PUT", body=b"1")
        assert (ask(s3, f"/data/{after}")[0].status == 200) == is_there


def test_a_short_body(broken, s3):
    with pytest.raises(http.client.IncompleteRead) as failed:
        broken("short_body", by=84)
    assert failed.value.partial == DATA[:-84]


def test_slow_answers(broken, s3):
    for kind, rule, seconds in (("delay", {"seconds": 0.2}, 0.2), ("stall", {"after": 100, "seconds": 0.2}, 0.2), ("stall", {"seconds": 0.2}, 0.2),
                                ("pace", {"bandwidth": len(DATA) * 5}, 0.19)):
        began = time.monotonic()
        assert broken(kind, **rule)[1] == DATA
        assert time.monotonic() - began >= seconds
    s3.clear_faults()
    s3.fault("stall", after=100, seconds=5)
    connection = http.client.HTTPConnection("127.0.0.1", s3.server.port, timeout=0.3)
    with contextlib.closing(connection), pytest.raises(TimeoutError):
        connection.request("GET", "/data/f")
        answer = connection.getresponse()
        assert answer.read(100) == DATA[:100]
        answer.read()


def test_wrong_headers(broken):
    part = {"Range": "bytes=10-19"}
    answer, body = broken("wrong_content_range", headers=part)
    assert (answer.headers["Content-Range"], body) == ("bytes 11-20/16384", DATA[10:20])
    assert broken("wrong_content_range", headers=part, value="bytes 0-1/*")[0].headers["Content-Range"] == "bytes 0-1/*"
    assert broken("wrong_etag")[0].headers["ETag"] == '"00000000000000000000000000000000"'
    assert broken("wrong_content_length", by=-84)[1] == DATA[:-84]
    with pytest.raises(http.client.IncompleteRead):
        broken("wrong_content_length", by=84)
    answer, body = broken("ignore_range", headers=part)
    assert (answer.status, body) == (200, DATA)


def test_headers_of_the_test(s3):
    KINDS.add("header")
    s3.put("data", "f", DATA)
    s3.fault("header", headers={"ETag": None, "Content-Encoding": "gzip"})
    answer, _ = ask(s3)
    assert (answer.headers["ETag"], answer.headers["Content-Encoding"]) == (None, "gzip")


def test_huge_headers(broken, s3):
    with pytest.raises(http.client.LineTooLong):
        broken("huge_headers")
    s3.clear_faults()
    s3.fault("huge_headers", count=1000, bytes=100000)
    sent, _ = raw(s3)
    assert sent.count(b"\r\nx-filler-") == 1000


def test_other_bodies(broken, s3):
    answer, body = broken("body", text="hello", status=203)
    assert (answer.status, body) == (203, b"hello")
    answer, body = broken("error_in_200", code="SlowDown")
    assert (answer.status, answer.headers["ETag"], xml.etree.ElementTree.fromstring(body).findtext("Code")) == (200, None, "SlowDown")
    _, body = broken("corrupt", at=3)
    assert [i for i in range(len(DATA)) if body[i] != DATA[i]] == [3]
    s3.clear_faults()
    KINDS.add("garbage")
    s3.fault("garbage")
    assert raw(s3) == (b"SSH-2.0-OpenSSH_9.2\r\n", "")


@pytest.mark.parametrize("chunked", [False, True])
def test_giant_bodies_take_no_memory(s3, chunked):
    KINDS.add("giant_body")
    s3.put("data", "f", DATA)
    s3.fault("giant_body", bytes=1 << 40, chunked=chunked)
    with socket.create_connection(("127.0.0.1", s3.server.port), timeout=10) as sock:
        sock.sendall(b"GET /data?list-type=2 HTTP/1.1\r\nHost: x\r\n\r\n")
        total = b""
        while len(total) < 1 << 20:
            total += sock.recv(1 << 16)
    assert (b"Content-Length: 1099511627776" in total) == (not chunked)
    assert total.count(b"<Contents><Key>k</Key></Contents>") > 30000


def test_lists_that_are_wrong(broken, s3):
    for how in ("cut", "html", "empty", "deep"):
        _, body = broken("malformed_list", "/data?list-type=2", how=how)
        if how != "html":
            with pytest.raises(xml.etree.ElementTree.ParseError):
                xml.etree.ElementTree.fromstring(body)
    assert b"<!ENTITY" in broken("malformed_list", "/data?list-type=2", how="bomb")[1]
    for how, text in (("no_token", b"<IsTruncated>true"), ("bad_size", b"-12x"), ("outside", b"../../etc/passwd")):
        xml.etree.ElementTree.fromstring(body := broken("malformed_list", "/data?list-type=2", how=how)[1])
        assert text in body
    for token, count in (("new", 3), ("same", 1)):
        KINDS.add("endless_list")
        s3.clear_faults()
        s3.fault("endless_list", token=token)
        found = {re.search(rb"<NextContinuationToken>(.*?)<", ask(s3, "/data?list-type=2")[1])[1] for _ in range(3)}
        assert len(found) == count


def test_an_object_that_is_replaced_between_requests(s3):
    KINDS.add("replace")
    s3.put("data", "f", DATA)
    s3.fault("replace", key="f", nth=2, size=100, seed=3)
    etag = ask(s3)[0].headers["ETag"]
    assert ask(s3, headers={"If-Match": etag})[0].status == 412
    answer, body = ask(s3)
    assert (answer.status, len(body)) == (200, 100)
    s3.fault("replace", delete=True)
    assert ask(s3)[0].status == 404


def test_a_reader_keeps_the_object_that_it_began(s3):
    s3.put("data", "f", DATA)
    s3.fault("stall", after=100, seconds=0.3, times=1)
    connection = http.client.HTTPConnection("127.0.0.1", s3.server.port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/data/f")
        answer = connection.getresponse()
        s3.put("data", "f", b"other" * 9999)
        assert answer.read() == DATA


def statuses(s3, count, path="/data/f"):
    return [ask(s3, path)[0].status for _ in range(count)]


def test_which_requests_fail(s3):
    s3.put("data", "f", DATA)
    s3.put("data", "sub/g", DATA)
    for rule, wanted in (({"nth": 2}, [200, 503, 200, 200]), ({"nth": [1, 3]}, [503, 200, 503, 200]), ({"every": 2}, [200, 503, 200, 503]),
                         ({"skip": 1, "times": 2}, [200, 503, 503, 200]), ({"probability": 0.0}, [200] * 4), ({"probability": 1.0}, [503] * 4),
                         ({"key": "sub/*"}, [200] * 4), ({"key": ["x", "f"]}, [503] * 4), ({"operation": "PutObject"}, [200] * 4),
                         ({"method": "HEAD"}, [200] * 4), ({"bucket": "data", "path": "/data/?"}, [503] * 4)):
        s3.clear_faults()
        s3.fault("error", **rule)
        assert statuses(s3, 4) == wanted, rule
    s3.clear_faults()
    s3.fault("error", probability=0.3)
    s3.control(seed=5)
    first = statuses(s3, 40)
    s3.control(seed=5)
    assert statuses(s3, 40) == first
    assert 3 <= first.count(503) <= 25


def test_the_log_names_faults_and_they_are_removed_by_name(s3):
    s3.put("data", "f", DATA)
    s3.log(reset=True)
    s3.fault("delay", seconds=0.0, name="a")
    s3.fault("error", name="b")
    statuses(s3, 1)
    s3.clear_faults("b")
    statuses(s3, 1)
    assert [(each["status"], each["faults"]) for each in s3.log()] == [(503, ["delay", "error"]), (200, ["delay"])]
    assert [rule["fired"] for rule in s3.ask("GET", "/_control")["faults"]] == [2]
    s3.reset()
    assert (statuses(s3, 1), s3.log()[0]["faults"]) == ([200], [])


def test_every_kind_was_tried(request):
    if len(request.session.items) > 20:  # not where some tests were chosen
        assert set(ARGUMENTS) - KINDS == {"expired_token"}  # test_credentials.py
