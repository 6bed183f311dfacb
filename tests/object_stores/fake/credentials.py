"""The keys that sign requests, and the services that hand them out: EC2 (IMDSv2), ECS and EKS containers, STS.

Every answer holds a new key with a token, which this server accepts until it expires. `settings` of the server are read at each
request: lifetime (seconds), role, container_token, web_identity_token, region.
"""
import dataclasses
import itertools
import json
import threading
import time
import urllib.parse

from . import signature
from .errors import S3Error, document, element
from .wire import Response

STS_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"


@dataclasses.dataclass(frozen=True)
class Credential:
    access_key: str
    secret: str
    token: str = None
    expires: float = None  # by the server's clock


class Credentials:
    def __init__(self):
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.known = {}

    def add(self, credential):
        with self.lock:
            self.known[credential.access_key] = credential
        return credential

    def find(self, access_key):
        with self.lock:
            return self.known.get(access_key)

    def issue(self, source, expires):
        number = next(self.numbers)
        return self.add(Credential(f"ASIA{number:016}", f"secret/{number}+{source}", f"token/{number}+{source}==", expires))

    def expire(self, now, access_key=None):
        """Ends all temporary keys that are out, or one of them; those that come next are good."""
        with self.lock:
            for name, credential in self.known.items():
                if credential.token is not None and access_key in (None, name):
                    self.known[name] = dataclasses.replace(credential, expires=min(now, credential.expires or now))


def iso(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def as_json(value, status=200):
    return Response(status, [("Content-Type", "application/json")], json.dumps(value, indent=1).encode())


def text(value, status=200, headers=()):
    return Response(status, [("Content-Type", "text/plain"), *headers], value.encode())


class Endpoints:
    """What answers requests for credentials; operation() is None for all others."""

    def __init__(self, server):
        self.server, self.lock, self.imds_tokens = server, threading.Lock(), {}

    def operation(self, request):
        if request.path == "/latest/api/token":
            return "ImdsToken"
        if request.path.startswith("/latest/"):
            return "ImdsRole" if request.path.rstrip("/").endswith("/security-credentials") else \
                "ImdsCredentials" if "/security-credentials/" in request.path else "ImdsData"
        if request.path == "/_container/credentials":
            return "ContainerCredentials"
        if request.path in ("/", "/_sts", "/_sts/"):
            return {"AssumeRole": "AssumeRole", "AssumeRoleWithWebIdentity": "AssumeRoleWithWebIdentity"}.get(self.form(request).get("Action"))
        return None

    def form(self, request):
        return dict(request.query + urllib.parse.parse_qsl(request.body.decode("latin-1")))

    def answer(self, request, operation):
        return getattr(self, {"ImdsToken": "imds_token", "ContainerCredentials": "container", "AssumeRole": "assume_role",
                              "AssumeRoleWithWebIdentity": "web_identity"}.get(operation, "imds"))(request)

    def issue(self, source, lifetime=None):
        expires = int(self.server.now() + (self.server.settings["lifetime"] if lifetime is None else lifetime))
        return self.server.credentials.issue(source, expires)

    def plain(self, credential):
        return {"AccessKeyId": credential.access_key, "SecretAccessKey": credential.secret, "Token": credential.token,
                "Expiration": iso(credential.expires)}

    # EC2

    def imds_token(self, request):
        seconds = request.header("x-aws-ec2-metadata-token-ttl-seconds", "")
        if request.method != "PUT":
            return text("", 405)
        if not seconds.isdecimal() or not 1 <= int(seconds) <= 21600 or request.header("x-forwarded-for"):
            return text("", 400)
        with self.lock:
            token = f"imds-{len(self.imds_tokens) + 1}=="
            self.imds_tokens[token] = self.server.now() + int(seconds)
        return text(token, headers=[("x-aws-ec2-metadata-token-ttl-seconds", seconds)])

    def imds(self, request):
        settings = self.server.settings
        with self.lock:
            is_known = self.imds_tokens.get(request.header("x-aws-ec2-metadata-token"), 0) > self.server.now()
        if not is_known:
            return text("", 401)
        folder = "/latest/meta-data/iam/security-credentials/"
        if request.path in (folder, folder[:-1]):
            return text(settings["role"]) if settings["role"] else text("", 404)
        if settings["role"] and request.path == folder + settings["role"]:
            return as_json({"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": iso(self.server.now()), **self.plain(self.issue("imds"))})
        if request.path == "/latest/meta-data/placement/region":
            return text(settings["region"])
        if request.path == "/latest/dynamic/instance-identity/document":
            return as_json({"region": settings["region"], "accountId": "123456789012"})
        return text("", 404)

    # ECS, EKS

    def container(self, request):
        wanted = self.server.settings["container_token"]
        if wanted and request.header("authorization") != wanted:
            return as_json({"code": "AccessDenied", "message": "the Authorization token is missing or wrong"}, 401)
        return as_json({**self.plain(self.issue("container")), "RoleArn": "arn:aws:iam::123456789012:role/task"})

    # STS

    def sts_answer(self, action, credential, arn):
        parts = element("AccessKeyId", credential.access_key) + element("SecretAccessKey", credential.secret) + \
            element("SessionToken", credential.token) + element("Expiration", iso(credential.expires))
        user = "<AssumedRoleUser>" + element("AssumedRoleId", "AROA1:session") + element("Arn", arn) + "</AssumedRoleUser>"
        return Response(200, [("Content-Type", "text/xml")], document(
            f"{action}Response", f"<{action}Result><Credentials>{parts}</Credentials>{user}</{action}Result>",
            "<ResponseMetadata>" + element("RequestId", "sts-1") + "</ResponseMetadata>", namespace=STS_NAMESPACE))

    def sts_error(self, status, code, message):
        return Response(status, [("Content-Type", "text/xml")], document(
            "ErrorResponse", "<Error>", element("Type", "Sender"), element("Code", code), element("Message", message), "</Error>",
            element("RequestId", "sts-1"), namespace=STS_NAMESPACE))

    def checked(self, form, *names):
        for name in ("RoleArn", "RoleSessionName", *names):
            if not form.get(name):
                return self.sts_error(400, "ValidationError", f"{name} is missing")
        if form.get("Version") != "2011-06-15":
            return self.sts_error(400, "InvalidAction", "Could not find operation for this version")
        return None

    def lifetime(self, form):
        """The server's setting, as far as the request does not ask for less."""
        return min(self.server.settings["lifetime"], int(form.get("DurationSeconds", 1 << 40)))

    def assume_role(self, request):
        try:
            claim = signature.Claim(request.header("authorization", ""))
            signature.check(request, claim, self.server.credentials, self.server.now(), "sts")
        except S3Error as error:
            return self.sts_error(error.status, error.code, error.message)
        form = self.form(request)
        wanted = self.server.settings["external_id"]
        if wanted and form.get("ExternalId") != wanted:
            return self.sts_error(403, "AccessDenied", "not authorized to perform: sts:AssumeRole")
        return self.checked(form) or self.sts_answer("AssumeRole", self.issue("role", self.lifetime(form)), form["RoleArn"])

    def web_identity(self, request):
        form = self.form(request)
        if form.get("WebIdentityToken", "").strip() != self.server.settings["web_identity_token"]:
            return self.sts_error(400, "InvalidIdentityToken", "The web identity token that was passed is not valid")
        return self.checked(form) or self.sts_answer("AssumeRoleWithWebIdentity", self.issue("web", self.lifetime(form)), form["RoleArn"])
