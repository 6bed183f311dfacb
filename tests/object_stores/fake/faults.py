"""Rules that let requests fail. A rule says which requests (operation, method, bucket, key, path, header), which of those (nth, skip, every,
probability, times), and what happens (kind and its arguments; README.md has the list).

Before a request's operation: error, reset and close with "after": "request", replace, ignore_range, expired_token. All others, and error
with "performed", change the answer of an operation that was carried out.
"""
import base64
import dataclasses
import fnmatch
import itertools
import random
import re
import threading

from .errors import document, element, error_document
from .wire import Filler, Response

SELECT = {"operation", "method", "bucket", "key", "path", "nth", "skip", "every", "probability", "times", "kind", "name"}
ARGUMENTS = {
    "error": {"status", "code", "message", "headers", "performed", "body"}, "reset": {"after"}, "close": {"after"},
    "delay": {"seconds"}, "stall": {"seconds", "after"}, "pace": {"bandwidth"}, "short_body": {"by"}, "corrupt": {"at"},
    "header": {"headers"}, "wrong_etag": {"etag"}, "wrong_content_range": {"by", "value"}, "wrong_content_length": {"by"},
    "ignore_range": set(), "body": {"text", "base64", "status", "content_type"}, "error_in_200": {"code", "message"},
    "malformed_list": {"how"}, "endless_list": {"token"}, "giant_body": {"bytes", "chunked"}, "huge_headers": {"count", "bytes"},
    "garbage": {"text"}, "replace": {"text", "base64", "size", "seed", "delete"}, "expired_token": {"status"}}
REQUIRED = {"delay": {"seconds"}, "stall": {"seconds"}, "pace": {"bandwidth"}, "header": {"headers"}, "giant_body": {"bytes"}}
BOMB = '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in itertools.pairwise("abcdefghij")) + "]><ListBucketResult><Name>&j;</Name></ListBucketResult>"


def bytes_of(arguments):
    """The data that a control message gives: text, base64, or size (and seed) of random bytes."""
    if "base64" in arguments:
        return base64.b64decode(arguments["base64"])
    if "size" in arguments:
        return random.Random(arguments.get("seed", 1)).randbytes(arguments["size"])
    return arguments.get("text", "").encode()


@dataclasses.dataclass
class Rule:
    kind: str
    select: dict
    arguments: dict
    seen: int = 0
    fired: int = 0
    key: str = None  # the access key that expired_token refuses

    def described(self):
        return {"kind": self.kind, **self.select, **self.arguments, "seen": self.seen, "fired": self.fired}

    def matches(self, request, operation, bucket, key):
        values = {"operation": operation, "method": request.method, "bucket": bucket, "key": key, "path": request.raw_path}
        for name, value in values.items():
            wanted = self.select.get(name)
            if wanted is not None and not any(fnmatch.fnmatchcase(value, each) for each in ([wanted] if isinstance(wanted, str) else wanted)):
                return False
        return True

    def fires(self, chance):
        self.seen += 1
        select, count = self.select, self.seen - self.select.get("skip", 0)
        nth = select.get("nth")
        if count < 1 or nth is not None and count not in (nth if isinstance(nth, list) else [nth]) or count % select.get("every", 1) \
                or self.fired >= select.get("times", 1 << 62) or chance.random() >= select.get("probability", 1.0):
            return False
        self.fired += 1
        return True


class Faults:
    def __init__(self):
        self.lock, self.rules, self.chance = threading.Lock(), [], random.Random(1)

    def add(self, rule):
        kind = rule.get("kind")
        unknown = set(rule) - SELECT - ARGUMENTS.get(kind, set())
        if kind not in ARGUMENTS or unknown:
            raise ValueError(f"no such fault: {kind} {sorted(unknown)}")
        if REQUIRED.get(kind, set()) - set(rule):
            raise ValueError(f"{kind} needs {sorted(REQUIRED[kind])}")
        if rule.get("how", "cut") != "cut":
            list_body(rule["how"])
        with self.lock:
            self.rules.append(Rule(kind, {name: value for name, value in rule.items() if name in SELECT and name != "kind"},
                                   {name: value for name, value in rule.items() if name not in SELECT}))

    def clear(self, name=None):
        with self.lock:
            self.rules = [rule for rule in self.rules if name is not None and rule.select.get("name") != name]

    def seed(self, seed):
        with self.lock:
            self.chance = random.Random(seed)

    def listed(self):
        with self.lock:
            return [rule.described() for rule in self.rules]

    def fired(self, request, operation, bucket, key):
        with self.lock:
            return [rule for rule in self.rules if rule.matches(request, operation, bucket, key) and rule.fires(self.chance)]


def error_response(arguments, request_id):
    status = arguments.get("status", 503)
    code = arguments.get("code") or {500: "InternalError", 503: "SlowDown", 429: "TooManyRequests", 409: "ConditionalRequestConflict",
                                     403: "AccessDenied", 404: "NoSuchKey", 412: "PreconditionFailed"}.get(status, "Error")
    body = arguments["body"].encode() if "body" in arguments else error_document(code, arguments.get("message", "as the test wants it"), request_id)
    headers = [(name, str(value)) for name, value in arguments.get("headers", {}).items()]
    return Response(status, [("Content-Type", "application/xml"), *headers], body)


def before(rule, request, server, bucket, key, request_id):
    """An answer instead of that of the operation, or None."""
    arguments = rule.arguments
    if rule.kind == "error" and not arguments.get("performed"):
        return error_response(arguments, request_id)
    if rule.kind in ("reset", "close") and arguments.get("after", "request") == "request":
        return Response(500, end_after=-1, is_reset=rule.kind == "reset")
    if rule.kind == "ignore_range":
        request.ignores_range = True  # the header stays: it may be signed
    if rule.kind == "replace" and bucket in server.s3.buckets:
        storage = server.s3.buckets[bucket].storage
        if arguments.get("delete"):
            storage.delete(key)
        else:
            storage.put(key, bytes_of(arguments))
    if rule.kind == "expired_token":
        used = (request.header("authorization") or "").partition("Credential=")[2].partition("/")[0]
        rule.key = rule.key or used
        if used == rule.key:
            return error_response({"status": arguments.get("status", 400), "code": "ExpiredToken", "message": "The provided token has expired."},
                                  request_id)
        rule.fired -= 1
    return None


def list_body(how):
    if how == "bomb":
        return BOMB.encode()
    if how == "deep":
        return b"<ListBucketResult>" + b"<Contents>" * 200000
    if how == "html":
        return b"<html><body>Please log in to the network</body></html>"
    if how == "empty":
        return b""
    if how == "no_token":
        return document("ListBucketResult", element("IsTruncated", "true"), element("KeyCount", 0))
    if how == "bad_size":
        return document("ListBucketResult", element("IsTruncated", "false"), "<Contents><Key>k</Key><Size>-12x</Size></Contents>")
    if how == "outside":  # keys that were not asked for
        return document("ListBucketResult", element("IsTruncated", "false"), *(
            f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in ("../../etc/passwd", "/", "a//b", "other/key", "")))
    raise ValueError(f"no such malformed list: {how}")


def shifted(content_range, by):
    return re.sub(r"(\d+)-(\d+)", lambda found: f"{int(found[1]) + by}-{int(found[2]) + by}", content_range)


def change(rule, response, request_id):
    """The answer that is sent instead of `response`."""
    arguments, kind = rule.arguments, rule.kind
    if kind == "error" and arguments.get("performed"):
        return error_response(arguments, request_id)
    if kind in ("reset", "close"):
        after = arguments.get("after", "request")
        response.end_after = {"request": -1, "operation": -1, "headers": 0}.get(after, after)
        response.is_reset = kind == "reset"
    elif kind == "short_body":
        response.end_after = max(0, response.size - arguments.get("by", 1))
    elif kind == "delay":
        response.delay += arguments["seconds"]
    elif kind == "stall":
        response.stall = (min(arguments.get("after", 0), max(0, response.size - 1)), arguments["seconds"])
    elif kind == "pace":
        response.pace = arguments["bandwidth"]
    elif kind == "corrupt" and response.size:
        data, at = bytearray(read_all(response)), arguments.get("at", 0)
        data[at % len(data)] ^= 1
        response.body = bytes(data)
    elif kind == "header":
        for name, value in arguments["headers"].items():
            response.set_header(name, value)
    elif kind == "wrong_etag":
        response.set_header("ETag", arguments.get("etag", '"00000000000000000000000000000000"'))
    elif kind == "wrong_content_range":
        right = response.header("Content-Range") or "bytes 0-0/1"
        response.set_header("Content-Range", arguments.get("value") or shifted(right, arguments.get("by", 1)))
    elif kind == "wrong_content_length":
        response.set_header("Content-Length", max(0, response.size + arguments.get("by", 1)))
        response.end_after = response.size
    elif kind == "body":
        response.body, response.status = bytes_of(arguments), arguments.get("status", response.status)
        response.set_header("Content-Type", arguments.get("content_type", "application/xml"))
    elif kind == "error_in_200":
        message = arguments.get("message", "We encountered an internal error.")
        response.status, response.body = 200, error_document(arguments.get("code", "InternalError"), message, request_id)
        response.set_header("ETag", None)
    elif kind == "malformed_list":
        how = arguments.get("how", "cut")
        response.body = read_all(response)[:-40] if how == "cut" else list_body(how)
    elif kind == "endless_list":
        token = f"endless-{rule.fired}" if arguments.get("token", "new") == "new" else "endless"
        parts = [element("IsTruncated", "true"), element("NextContinuationToken", token)]
        parts += [f"<Contents><Key>endless/{rule.fired}-{i}</Key><Size>1</Size><ETag>\"0\"</ETag></Contents>" for i in range(10)]
        response.status, response.body = 200, document("ListBucketResult", *parts)
    elif kind == "giant_body":
        text = b"<Contents><Key>k</Key></Contents>" if response.header("Content-Type") == "application/xml" else b"\0"
        response.body, response.is_chunked = Filler(arguments["bytes"], text), arguments.get("chunked", False)
    elif kind == "huge_headers":
        size = arguments.get("bytes", 1 << 20) // arguments.get("count", 1)
        response.headers += [(f"x-filler-{i}", "x" * size) for i in range(arguments.get("count", 1))]
    elif kind == "garbage":
        response.raw = arguments.get("text", "SSH-2.0-OpenSSH_9.2\r\n").encode()
    return response


def read_all(response):
    parts, position = [], 0
    while position < response.size:
        parts.append(response.read(position, response.size - position))
        position += len(parts[-1])
    return b"".join(parts)
