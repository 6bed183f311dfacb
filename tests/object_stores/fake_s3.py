#!/usr/bin/python3
"""An S3 server on 127.0.0.1 for tests (README.md): as a program, it prints its endpoint; as a module, `with FakeS3() as s3:`."""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import subprocess
import sys
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from fake.server import DEFAULTS, FakeServer  # noqa: E402


class Client:
    """The control interface of a server at `endpoint`, in this process or another."""

    def __init__(self, endpoint, certificate=None):
        self.endpoint, self.certificate = endpoint, certificate

    def ask(self, method, path, body=None):
        url = urllib.parse.urlsplit(self.endpoint)
        if url.scheme == "https":
            import ssl
            connection = http.client.HTTPSConnection(url.netloc, timeout=60, context=ssl.create_default_context(cafile=self.certificate))
        else:
            connection = http.client.HTTPConnection(url.netloc, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body)
            answer = connection.getresponse()
            text = answer.read()
        if answer.status != 200:
            raise ValueError(text.decode(errors="replace").strip())
        return json.loads(text)

    def control(self, **message):
        return self.ask("POST", "/_control", json.dumps(message))

    def put(self, bucket, key, data):
        """Its ETag without quotes; makes the bucket."""
        return self.ask("PUT", "/_control/object/" + urllib.parse.quote(f"{bucket}/{key}"), data)["etag"]

    def delete(self, bucket, key):
        self.ask("DELETE", "/_control/object/" + urllib.parse.quote(f"{bucket}/{key}"))

    def put_tree(self, bucket, folder, prefix=""):
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file():
                self.put(bucket, prefix + str(path.relative_to(folder)), path.read_bytes())

    def bucket(self, name, **options):
        self.control(buckets={name: options})

    def set(self, **settings):
        self.control(set=settings)

    def fault(self, kind, **rule):
        self.control(faults=[{"kind": kind, **rule}])

    def clear_faults(self, name=None):
        self.control(clear_faults=name or True)

    def expire_credentials(self):
        self.control(expire_credentials=True)

    def reset(self):
        """The settings of the start, no faults, no log; the objects and keys stay."""
        self.control(reset=True)

    def log(self, reset=False):
        """A list of requests."""
        return self.ask("GET", "/_control/log" + ("?reset" if reset else ""))["requests"]

    def summary(self, reset=False):
        return self.ask("GET", "/_control/summary" + ("?reset" if reset else ""))


class FakeS3(Client):
    """A server in this process until the end of the block. Arguments as FakeServer has them."""

    def __init__(self, certificate=None, **arguments):
        self.server = FakeServer(certificate=certificate, **arguments).start()
        super().__init__(self.server.endpoint, certificate)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop()


def make_certificate(folder):
    """(certificate, key) for 127.0.0.1 and localhost, made by openssl: the certificate is its own authority."""
    certificate, key = pathlib.Path(folder, "certificate.pem"), pathlib.Path(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:*.localhost,IP:127.0.0.1",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60)
    return certificate, key


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="a folder with a folder for each bucket; without it all is in memory")
    parser.add_argument("--port", type=int, default=0, help="by default one that is free")
    parser.add_argument("--port-file", help="a file that gets the port once the server answers")
    parser.add_argument("--access-key", default="testkey")
    parser.add_argument("--secret-key", default="testsecret")
    parser.add_argument("--certificate", help="serve https with this file and --key")
    parser.add_argument("--key")
    parser.add_argument("--control", default="{}", help="a message for /_control to begin with")
    parser.add_argument("--until-stdin-ends", action="store_true", help="end when standard input ends, as it does when the caller dies")
    for name, value in DEFAULTS.items():
        kind = (lambda text: text.lower() in ("1", "true", "yes")) if isinstance(value, bool) else type(value)
        parser.add_argument("--" + name.replace("_", "-"), type=kind, default=value, help=f"setting; {value!r} by default")
    options = vars(parser.parse_args())
    port_file, message, is_child = options.pop("port_file"), json.loads(options.pop("control")), options.pop("until_stdin_ends")
    server = FakeServer(**options)
    server.control.apply(message)
    server.start()
    if port_file:
        pathlib.Path(port_file + ".new").write_text(f"{server.port}\n")
        os.rename(port_file + ".new", port_file)
    print(server.endpoint, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        if is_child:
            sys.stdin.buffer.read()
        else:
            threading.Event().wait()
    server.stop()


if __name__ == "__main__":
    main()
