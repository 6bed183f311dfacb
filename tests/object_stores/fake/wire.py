"""HTTP/1.1 of one connection: reads requests, sends answers, also broken and slow ones.

A Response says how its sending goes wrong: the sender here knows nothing of rules or of S3.
"""
import dataclasses
import socket
import struct
import time
import urllib.parse

MAX_HEADER_BYTES = 256 << 10
MAX_BODY_BYTES = 1 << 30
BLOCK_BYTES = 128 << 10
REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 301: "Moved Permanently", 302: "Found", 304: "Not Modified",
           307: "Temporary Redirect", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
           405: "Method Not Allowed", 409: "Conflict", 411: "Length Required", 412: "Precondition Failed",
           416: "Requested Range Not Satisfiable", 429: "Too Many Requests", 500: "Internal Server Error",
           501: "Not Implemented", 503: "Slow Down"}


class BadRequest(Exception):
    """What was sent is not HTTP; the connection ends."""


class Abort(Exception):
    """The connection ends here, as a fault wants it or because the client left."""


@dataclasses.dataclass
class Request:
    method: str
    target: str  # as sent
    headers: list  # pairs (name as sent, value)
    body: bytes
    connection: int  # number, from 1
    ignores_range: bool = False

    def __post_init__(self):
        path, _, query = self.target.partition("?")
        self.raw_path = path
        self.path = urllib.parse.unquote_plus(path, errors="surrogateescape")  # S3 reads + as a space in paths too: keys with + need %2B
        self.query = [(urllib.parse.unquote_plus(name, errors="surrogateescape"), urllib.parse.unquote_plus(value, errors="surrogateescape"))
                      for name, _, value in (pair.partition("=") for pair in query.split("&") if pair)]

    def header(self, name, default=None):
        values = [value for key, value in self.headers if key.lower() == name]
        return ",".join(values) if values else default

    def argument(self, name, default=None):
        return next((value for key, value in self.query if key == name), default)


@dataclasses.dataclass
class Response:
    status: int
    headers: list = dataclasses.field(default_factory=list)  # pairs
    body: object = b""  # bytes, or an object with size and read(offset, count)
    is_chunked: bool = False
    # Faults. Counts are of bytes of the body.
    raw: bytes = None  # sent instead of all, then the connection ends
    delay: float = 0.0  # seconds before the first byte
    end_after: int = None  # the connection ends after so many bytes; -1: before the headers
    is_reset: bool = False  # ... with RST instead of FIN
    stall: tuple = None  # (after so many bytes, for so many seconds)
    pace: float = 0.0  # bytes per second; 0: no limit

    @property
    def size(self):
        return len(self.body) if isinstance(self.body, (bytes, bytearray, memoryview)) else self.body.size

    def read(self, offset, count):
        return self.body[offset:offset + count] if isinstance(self.body, (bytes, bytearray, memoryview)) else self.body.read(offset, count)

    def header(self, name):
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def set_header(self, name, value):
        """None removes it."""
        self.headers = [(key, old) for key, old in self.headers if key.lower() != name.lower()]
        if value is not None:
            self.headers.append((name, str(value)))


class Part:
    """Bytes first to first + size - 1 of an object with read(offset, count)."""

    def __init__(self, source, first, size):
        self.source, self.first, self.size = source, first, size

    def read(self, offset, count):
        return self.source.read(self.first + offset, min(count, self.size - offset))


class Filler:
    """size bytes that take no memory: text again and again."""

    def __init__(self, size, text=b"\0"):
        self.size, self.block, self.length = size, text * (2 * BLOCK_BYTES // len(text) + 2), len(text)

    def read(self, offset, count):
        start = offset % self.length
        return self.block[start:start + min(count, self.size - offset, BLOCK_BYTES)]


class Connection:
    def __init__(self, sock, number, wait):
        """wait(seconds) sleeps, and returns true when the server stops."""
        self.socket, self.number, self.wait = sock, number, wait
        self.file = sock.makefile("rb", 1 << 16)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def sleep(self, seconds):
        if seconds > 0 and self.wait(seconds):
            raise Abort

    def line(self):
        line = self.file.readline(MAX_HEADER_BYTES + 1)
        if len(line) > MAX_HEADER_BYTES or line and not line.endswith(b"\n"):
            raise BadRequest("a line is too long or incomplete")
        return line.rstrip(b"\r\n").decode("utf-8", "surrogateescape") if line else None

    def read_request(self):
        """The next request, or None at the end of the connection."""
        first = self.line()
        if first is None:
            return None
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise BadRequest(f"not a request line: {first[:100]!r}")
        headers, total = [], 0
        while line := self.line():
            name, colon, value = line.partition(":")
            total += len(line)
            if not colon or name != name.strip() or total > MAX_HEADER_BYTES:
                raise BadRequest(f"not a header: {line[:100]!r}")
            headers.append((name, value.strip()))
        if line is None:
            raise BadRequest("the headers end early")
        request = Request(words[0], words[1], headers, b"", self.number)
        if (request.header("expect") or "").lower() == "100-continue":
            self.socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.body = self.read_body(request)
        return request

    def read_body(self, request):
        if (request.header("transfer-encoding") or "").lower() == "chunked":
            parts, total = [], 0
            while size := self.chunk_size():
                total += size
                if total > MAX_BODY_BYTES:
                    raise BadRequest("the body is too long")
                parts.append(self.exactly(size))
                self.line()
            while self.line():
                pass
            return b"".join(parts)
        length = request.header("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            raise BadRequest("bad Content-Length")
        return self.exactly(int(length))

    def chunk_size(self):
        try:
            return int((self.line() or "0").partition(";")[0], 16)
        except ValueError:
            raise BadRequest("not a chunk's size") from None

    def exactly(self, count):
        data = self.file.read(count)
        if len(data) != count:
            raise Abort
        return data

    def send(self, response, is_head, on_last, on_bytes):
        """on_last() is called before the last bytes, on_bytes(count) before each block of the body. Raises Abort where it ends."""
        self.sleep(response.delay)
        if response.raw is not None:
            on_last()
            self.socket.sendall(response.raw)
            raise Abort
        if response.end_after == -1:
            on_last()
            self.end(response.is_reset)
        has_body = not is_head and response.status not in (204, 304)
        end = response.size if has_body else 0
        cut = end if response.end_after is None or not has_body else min(end, response.end_after)
        lines = [f"HTTP/1.1 {response.status} {REASONS.get(response.status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in response.headers]
        if response.is_chunked:
            lines.append("Transfer-Encoding: chunked")
        elif response.header("content-length") is None and response.status not in (204, 304):
            lines.append(f"Content-Length: {response.size}")
        pending = ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")
        position, began = 0, time.monotonic()
        while position < cut:
            block = min(BLOCK_BYTES, cut - position)
            if response.stall and position <= response.stall[0] < position + block:
                if position == response.stall[0]:
                    self.socket.sendall(pending)
                    pending = b""
                    self.sleep(response.stall[1])
                    response.stall = None
                else:
                    block = response.stall[0] - position
            if response.pace:
                block = max(1, min(block, int(response.pace / 20)))
                self.sleep(began + (position + block) / response.pace - time.monotonic())
            data = response.read(position, block)
            if not data:
                raise Abort  # the source is shorter than it was
            position += len(data)
            if response.is_chunked:
                data = b"%x\r\n%b\r\n" % (len(data), data)
                if position == end:
                    data += b"0\r\n\r\n"
            on_bytes(min(block, len(data)))
            if position >= cut:
                on_last()
            self.socket.sendall(pending + data if len(data) < BLOCK_BYTES else pending)
            if len(data) >= BLOCK_BYTES:
                self.socket.sendall(data)
            pending = b""
        if pending:
            on_last()
            if response.is_chunked and has_body and end == 0:
                pending += b"0\r\n\r\n"
            self.socket.sendall(pending)
        if response.end_after is not None:
            self.end(response.is_reset)

    def end(self, is_reset):
        if is_reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Abort

    def close(self):
        self.file.close()
        self.socket.close()
