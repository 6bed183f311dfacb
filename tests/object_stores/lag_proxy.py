"""A proxy before a server that others made: it counts requests, and delays or refuses them.

    with LagProxy(server.endpoint, latency=0.03, bandwidth=80e6) as proxy:
        ... AWS_ENDPOINT_URL=proxy.endpoint ...
        proxy.requests()

It hands on the Host that the client signed. Times are those of Python: for counts, not for races with other programs.
"""
import contextlib
import dataclasses
import http.client
import http.server
import random
import socketserver
import threading
import time
import urllib.parse

BLOCK = 64 << 10
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}
SLOW_DOWN = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>'


@dataclasses.dataclass
class Seen:
    method: str
    path: str
    range: str  # empty: none
    begin: float
    end: float = 0.0
    status: int = 0
    bytes: int = 0  # of the answer's body
    if_match: str = ""
    if_none_match: str = ""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.upstream = http.client.HTTPConnection(self.server.proxy.host, timeout=300)

    def finish(self):
        self.upstream.close()
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self):
        with contextlib.suppress(OSError):
            super().handle()

    def forward(self):
        proxy = self.server.proxy
        seen = Seen(self.command, self.path, self.headers.get("Range", ""), time.monotonic(), if_match=self.headers.get("If-Match", ""),
                    if_none_match=self.headers.get("If-None-Match", ""))
        with proxy.lock:
            proxy.seen.append(seen)
            proxy.in_flight += 1
            is_refused = proxy.chance.random() < proxy.refused
        try:
            self.answer(seen, is_refused)
        finally:
            with proxy.lock:
                proxy.in_flight -= 1

    def answer(self, seen, is_refused):
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(proxy.latency)
        if is_refused:
            seen.status, seen.end = 503, time.monotonic()
            self.send_response_only(503)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(SLOW_DOWN)))
            self.end_headers()
            self.wfile.write(SLOW_DOWN if self.command != "HEAD" else b"")
            return
        self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP and name.lower() != "expect":
                self.upstream.putheader(name, value)
        self.upstream.endheaders(body or None)
        answer = self.upstream.getresponse()
        seen.status = answer.status
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        is_chunked = answer.getheader("Content-Length") is None and answer.status not in (204, 304) and self.command != "HEAD"
        if is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        begin = time.monotonic()
        while block := answer.read(BLOCK):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block) if is_chunked else block)
            seen.bytes += len(block)
            if proxy.bandwidth:
                time.sleep(max(0.0, begin + seen.bytes / proxy.bandwidth - time.monotonic()))
        if is_chunked:
            self.wfile.write(b"0\r\n\r\n")
        seen.end = time.monotonic()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward


class Listener(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024


class LagProxy:
    """latency: seconds before each request is handed on. bandwidth: bytes per second of each answer; 0: no limit. refused: the share of
    requests that get 503. address: of this machine, with the port; 0: a free one. Any thread."""

    def __init__(self, endpoint, latency=0.0, bandwidth=0.0, refused=0.0, address=("127.0.0.1", 0)):
        self.host = urllib.parse.urlsplit(endpoint).netloc
        self.latency, self.bandwidth, self.refused = latency, bandwidth, refused
        self.lock, self.seen, self.in_flight, self.chance = threading.Lock(), [], 0, random.Random(1)
        self.listener = Listener(address, Handler)
        self.listener.proxy = self
        self.endpoint = "http://%s:%d" % self.listener.server_address

    def __enter__(self):
        threading.Thread(target=self.listener.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown()
        self.listener.server_close()

    def requests(self, reset=False):
        """A list of Seen, in the order of arrival."""
        with self.lock:
            seen = list(self.seen)
            if reset:
                self.seen.clear()
        return seen

    def summary(self):
        """Numbers, of which `in_flight` are requests whose answers are not complete yet."""
        with self.lock:
            return {"requests": len(self.seen), "bytes": sum(each.bytes for each in self.seen), "in_flight": self.in_flight}
