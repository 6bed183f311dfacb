"""S3 servers for tests, each on free ports of 127.0.0.1 with its data in a temporary folder, and boto3 as a client of them.

`with running("versitygw") as server:` gives a Server; unavailable("minio") says why a server cannot run here, or is None.
scripts/object-store-servers installs them; what is in PATH is used too.
"""
import contextlib
import dataclasses
import glob
import http.client
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("CODECFS_OBJECT_STORES", pathlib.Path.home() / ".cache/codecfs-object-stores"))
CEPH_PROGRAMS = ("ceph-mon", "ceph-mgr", "ceph-osd", "radosgw", "radosgw-admin", "ceph-authtool", "monmaptool")
START_SECONDS = {"ceph": 300}
NAMES = ("fake", "versitygw", "minio", "moto", "ceph")  # of S3; there are also "azurite" and "fake-gcs-server"


class NotHere(RuntimeError):
    """The server is not installed."""


@dataclasses.dataclass(frozen=True)
class Server:
    name: str
    endpoint: str
    access_key: str = "testkey"
    secret_key: str = "testsecret"
    region: str = "us-east-1"
    process: subprocess.Popen = None

    def environment(self):
        """Variables that point AWS clients at this server."""
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key,
                "AWS_REGION": self.region, "AWS_DEFAULT_REGION": self.region}


def program(name):
    found = shutil.which(name, path=os.pathsep.join([str(CACHE / "bin"), str(CACHE / "venv/bin"), str(CACHE / "azurite/node_modules/.bin"), os.environ.get("PATH", ""),
                                                     str(pathlib.Path.home() / "go/bin"), "/usr/sbin", "/sbin"]))
    if found is None:
        raise NotHere(f"{name} is neither in {CACHE} nor in PATH: scripts/object-store-servers installs it")
    return found


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def command_of(name, folder, port, other_port):
    """(command, variables)."""
    data = folder / "data"
    if name == "fake":
        return [sys.executable, "-B", HERE / "fake_s3.py", "--port", port], {}
    if name == "versitygw":
        return [program("versitygw"), "--port", f"127.0.0.1:{port}", "--quiet", "posix", data], \
            {"ROOT_ACCESS_KEY": "testkey", "ROOT_SECRET_KEY": "testsecret"}
    if name == "minio":
        return [program("minio"), "server", "--quiet", "--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{other_port}", data], \
            {"MINIO_ROOT_USER": "testkey", "MINIO_ROOT_PASSWORD": "testsecret", "MINIO_UPDATE": "off", "HOME": str(folder)}
    if name == "moto":
        return [program("moto_server"), "-H", "127.0.0.1", "-p", port], {}
    if name == "azurite":
        return [program("azurite-blob"), "--blobHost", "127.0.0.1", "--blobPort", port, "--location", data, "--silent", "--disableTelemetry"], {}
    if name == "fake-gcs-server":
        return [program("fake-gcs-server"), "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-backend", "memory", "-public-host", f"127.0.0.1:{port}"], {}
    for needed in CEPH_PROGRAMS:
        if shutil.which(needed) is None:
            raise NotHere(f"there is no {needed}: scripts/object-store-servers --ceph installs Debian's packages")
    return [HERE.parents[1] / "scripts/start-ceph-rgw", folder / "ceph", port], {}


def unavailable(name):
    try:
        command_of(name, pathlib.Path("/nonexistent"), 1, 2)
    except NotHere as reason:
        return str(reason)
    return None


def answers(name, port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/_control" if name == "fake" else "/")  # which our server does not count
        return connection.getresponse().status < 500
    return False


def end(process):
    """Ends the server and what it started: it has a process group of its own."""
    for number, seconds in ((signal.SIGTERM, 60), (signal.SIGKILL, 10)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number) if number == signal.SIGKILL else process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def running(name):
    """A Server until the end of the block. Raises NotHere; RuntimeError with the server's log where it does not start."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"codecfs-{name}-"))
    process = None
    try:
        (folder / "data").mkdir()
        port, other = free_ports(2)
        command, variables = command_of(name, folder, port, other)
        with open(folder / "log", "wb") as log:
            # It must not outlive a test run that is killed.
            process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *map(str, command)], stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log, cwd=folder, env={**os.environ, **variables}, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS.get(name, 60)
        while not answers(name, port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not start: {(folder / 'log').read_text(errors='replace')[-4000:]}")
            time.sleep(0.05)
        yield Server(name, f"http://127.0.0.1:{port}", process=process)
    finally:
        if process is not None:
            end(process)
        shutil.rmtree(folder, ignore_errors=True)


def use_venv():
    """Modules of the venv of scripts/object-store-servers can be imported, after those of this Python."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for folder in glob.glob(str(CACHE / f"venv/lib/{version}/site-packages")):
        if folder not in sys.path:
            sys.path.append(folder)


def boto3_module():
    """boto3 of this Python, or of that venv."""
    use_venv()
    try:
        import boto3
    except ImportError:
        raise NotHere(f"no boto3, neither here nor in {CACHE}/venv: scripts/object-store-servers python installs it") from None
    return boto3


def azure_blob_module():
    """azure.storage.blob of this Python, or of that venv."""
    use_venv()
    try:
        import azure.storage.blob
    except ImportError:
        raise NotHere(f"no azure-storage-blob, neither here nor in {CACHE}/venv: scripts/object-store-servers python installs it") from None
    return azure.storage.blob


def google_auth_module():
    """google.auth.jwt of this Python, or of that venv."""
    use_venv()
    try:
        import google.auth.jwt
    except ImportError:
        raise NotHere(f"no google-auth, neither here nor in {CACHE}/venv: scripts/object-store-servers python installs it") from None
    return google.auth.jwt


def boto3_client(server, service="s3", access_key="testkey", secret_key="testsecret", region="us-east-1", style="path", token=None):
    """A client that tries once, and adds no checksums of its own. server: anything with an endpoint. Raises NotHere."""
    boto3 = boto3_module()
    import botocore
    options = {"s3": {"addressing_style": style}, "retries": {"total_max_attempts": 1, "mode": "standard"}}
    if access_key is None:
        options["signature_version"] = botocore.UNSIGNED
    try:
        config = botocore.config.Config(**options, request_checksum_calculation="when_required", response_checksum_validation="when_required")
    except TypeError:  # an older boto3
        config = botocore.config.Config(**options)
    return boto3.client(service, endpoint_url=server.endpoint, aws_access_key_id=access_key, aws_secret_access_key=secret_key,
                        aws_session_token=token, region_name=region, config=config)
