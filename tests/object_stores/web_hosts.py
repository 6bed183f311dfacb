"""Hosts of the internet for tests: a proxy on 127.0.0.1 that answers in their place, so that clients use their names and https.

    with WebHosts(folder, {"https://data.example.org": answer, "http://other.example.org:8080": FakeS3()}) as hosts:
        run(..., env=hosts.environment())

Values are functions from a wire.Request to a wire.Response, or FakeS3. `hosts.seen` has all requests, also those for hosts that there are
not, which get no answer. The certificates are of an authority of their own, in `hosts.certificate`.
"""
import dataclasses
import pathlib
import re
import socket
import ssl
import subprocess
import threading

from fake.wire import Abort, BadRequest, Connection

PROXY_VARIABLES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")


@dataclasses.dataclass(frozen=True)
class Seen:
    origin: str  # "https://HOST[:PORT]"
    method: str
    target: str  # the path with the query
    headers: dict  # names in lower case

    @property
    def path(self):
        return self.target.partition("?")[0]

    def header(self, name):
        return self.headers.get(name)


class WebHosts:
    def __init__(self, folder, services):
        self.services, self.seen, self.connections = dict(services), [], 0
        self.tunnels = []  # the headers of requests to the proxy itself
        self.certificate, key = pathlib.Path(folder, "hosts.pem"), pathlib.Path(folder, "hosts-key.pem")
        names = sorted({re.match(r"https?://(\[[^]]*\]|[^:/]+)", origin)[1] for origin in services})
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=hosts", "-addext", "subjectAltName=" + ",".join(f"DNS:{name}" for name in names),
                        "-keyout", key, "-out", self.certificate], check=True, capture_output=True)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(self.certificate, key)
        self.stopping, self.lock, self.open = threading.Event(), threading.Lock(), set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)

    def environment(self):
        return {**dict.fromkeys(PROXY_VARIABLES, ""), "http_proxy": self.url, "https_proxy": self.url,
                "AWS_CA_BUNDLE": str(self.certificate), "CURL_CA_BUNDLE": str(self.certificate)}

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            sockets = list(self.open)
        for sock in sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.thread.join()

    def accept(self):
        while not self.stopping.is_set():
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        try:
            with self.lock:
                self.open.add(sock)
                self.connections += 1
            connection = Connection(sock, 0, self.stopping.wait)
            while not self.stopping.is_set() and (request := connection.read_request()) is not None:
                if request.method == "CONNECT":
                    self.tunnels.append({name.lower(): value for name, value in request.headers})
                    self.serve_https(sock, request.target)
                    break
                origin, target = re.match(r"(http://[^/?]+)(.*)", request.target).groups()
                self.handle(connection, origin.removesuffix(":80"), dataclasses.replace(request, target=target or "/"))
        except (Abort, BadRequest, OSError):
            pass
        finally:
            with self.lock:
                self.open.discard(sock)
            sock.close()

    def serve_https(self, sock, place):
        origin = "https://" + place.removesuffix(":443")
        service = self.services.get(origin)
        if service is None:
            self.note(origin, "CONNECT", "", [])
            sock.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        sock.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        secured = self.tls.wrap_socket(sock, server_side=True)
        with self.lock:
            self.open.add(secured)
        try:
            if hasattr(service, "server"):
                service.server.serve(secured, 0)
                return
            connection = Connection(secured, 0, self.stopping.wait)
            while (request := connection.read_request()) is not None:
                self.handle(connection, origin, request)
        finally:
            with self.lock:
                self.open.discard(secured)
            secured.close()

    def note(self, origin, method, target, headers):
        with self.lock:
            self.seen.append(Seen(origin, method, target, {name.lower(): value for name, value in headers}))

    def handle(self, connection, origin, request):
        self.note(origin, request.method, request.target, request.headers)
        service = self.services.get(origin)
        if service is None:
            raise Abort
        connection.send(service(request), request.method == "HEAD", lambda: None, lambda count: None)
