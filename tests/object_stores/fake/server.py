"""The server: a thread for each connection, and the way of a request through log, faults, S3, files, credentials and shaping."""
import itertools
import pathlib
import socket
import ssl
import threading
import time

from . import azure, faults, files, gcs
from .control import Control
from .credentials import Credential, Credentials, Endpoints
from .errors import S3Error, error_document
from .faults import Faults
from .log import Log
from .operations import S3
from .wire import Abort, BadRequest, Connection, Response

DEFAULTS = {
    "region": "us-east-1", "name": "localhost",  # the host names of buckets are BUCKET.name
    "auth": True,  # false: signatures are not looked at, and every bucket is public
    "conditions": "aws", "page_size": 1000, "min_part": 5 << 20,
    "latency": 0.0, "bandwidth": 0.0,  # seconds before the first byte, bytes per second of each request; 0: no limit
    "clock_offset": 0.0,  # seconds that the server's clock is ahead
    "lifetime": 3600, "role": "test-role", "container_token": "", "web_identity_token": "web-identity-token", "external_id": "",
    "public_access": True,  # of the account of Azure: containers may be public
    "google_key": "", "metadata_flavor": "Google",  # the public key of a service account; what the metadata server says that it is
}


class FakeServer:
    """Serves from start() to stop(). root: a folder with a folder for each bucket, else all is in memory. Any thread."""

    def __init__(self, root=None, access_key="testkey", secret_key="testsecret", port=0, certificate=None, key=None, **settings):
        unknown = set(settings) - set(DEFAULTS)
        if unknown:
            raise ValueError(f"no such settings: {sorted(unknown)}")
        self.root = pathlib.Path(root) if root else None
        self.defaults = {**DEFAULTS, **settings}
        self.settings = dict(self.defaults)
        self.credentials, self.log, self.faults = Credentials(), Log(), Faults()
        self.credentials.add(Credential(access_key, secret_key))
        self.s3, self.azure, self.gcs = S3(self), azure.Azure(self), gcs.Gcs(self)
        self.endpoints, self.control = Endpoints(self), Control(self)
        for folder in sorted(self.root.iterdir()) if self.root else ():
            if folder.is_dir():
                self.s3.make_bucket(folder.name)
        self.stopping = threading.Event()
        self.numbers, self.request_numbers = itertools.count(1), itertools.count(1)
        self.lock, self.open = threading.Lock(), set()
        self.tls = None
        if certificate:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(certificate, key)
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.port = self.listener.getsockname()[1]
        self.endpoint = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.accept, daemon=True)

    def start(self):
        self.thread.start()
        return self

    def stop(self):
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

    def now(self):
        return time.time() + self.settings["clock_offset"]

    def accept(self):
        while not self.stopping.is_set():
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock, next(self.numbers)), daemon=True).start()

    def serve(self, sock, number):
        try:
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
            with self.lock:
                self.open.add(sock)
            connection = Connection(sock, number, self.stopping.wait)
            while not self.stopping.is_set() and (request := connection.read_request()) is not None:
                self.handle(connection, request)
                if (request.header("connection") or "").lower() == "close":
                    break
        except BadRequest as error:
            try:
                sock.sendall(f"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n{error}\n".encode("utf-8", "replace"))
            except OSError:
                pass
        except (Abort, OSError):
            pass
        finally:
            with self.lock:
                self.open.discard(sock)
            try:
                connection.close()
            except (OSError, UnboundLocalError):
                sock.close()

    def handle(self, connection, request):
        if request.raw_path.startswith("/_control"):
            connection.send(self.control.answer(request), request.method == "HEAD", lambda: None, lambda count: None)
            return
        request_id = f"{next(self.request_numbers):016X}"
        operation, bucket, key, answer = self.route(request, request_id)
        entry = self.log.begin(request, operation, bucket, key)

        def sent(count):
            entry["bytes"] += count

        try:
            fired = self.faults.fired(request, operation, bucket, key)
            entry["faults"] = [rule.kind for rule in fired]
            response = next(filter(None, (faults.before(rule, request, self, bucket, key, request_id) for rule in fired)), None)
            if response is None:
                response = self.performed(answer, request, request_id)
                for rule in fired:
                    response = faults.change(rule, response, request_id)
            ids = [("x-ms-request-id", request_id)] if operation in azure.OPERATIONS else \
                [("x-guploader-uploadid", request_id)] if operation in gcs.OPERATIONS else \
                [("x-amz-request-id", request_id), ("x-amz-id-2", f"host-{request_id}")]
            response.headers += [*ids, ("Server", "fake-s3"), ("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(self.now())))]
            response.delay += self.settings["latency"]
            response.pace = min(filter(None, (response.pace, self.settings["bandwidth"])), default=0.0)
            entry["status"] = response.status if response.end_after != -1 and response.raw is None else None
            connection.send(response, request.method == "HEAD", lambda: self.log.end(entry), sent)
        finally:
            self.log.end(entry)

    def route(self, request, request_id):
        """(operation, bucket, key, a function that gives the answer)."""
        name = self.endpoints.operation(request)
        if name:
            return name, "", "", lambda: self.endpoints.answer(request, name)
        if found := self.azure.operation(request):
            return *found, lambda: self.azure.answer(request, *found, request_id)
        if found := self.gcs.operation(request):
            return *found, lambda: self.gcs.answer(request, *found)
        place = files.split(request)
        if place:
            return "File", place[1], place[2], lambda: files.answer(request, self.s3)
        name, bucket, key = self.s3.operation(request)
        return name, bucket, key, lambda: self.s3.answer(request, name, bucket, key)

    def performed(self, answer, request, request_id):
        try:
            return answer()
        except S3Error as error:
            body = error_document(error.code, error.message, request_id, **error.elements)
            return Response(error.status, [("Content-Type", "application/xml"), *error.headers], body)
