"""The objects of all buckets once more, as Google Cloud Storage has them in its XML API: /_gcs/BUCKET/KEY, with OAuth tokens; and the
services that hand these out: /_gcs_token for service accounts and users, and the metadata server of a machine.

Source: Cloud Storage, "XML API reference"; "Using OAuth 2.0 for Server to Server Applications". No code of codecfs. Signatures of service
accounts are checked by openssl.
"""
import base64
import email.utils
import json
import pathlib
import subprocess
import tempfile
import time
import urllib.parse

from . import conditions
from .credentials import as_json
from .errors import S3Error, document, element, error_document
from .storage import page_of
from .wire import Part, Response

PREFIX = "/_gcs"
TOKENS = "/_gcs_token"
MACHINE = "/computeMetadata/v1/instance/service-accounts/default/token"
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
EMAIL, KEY_ID = "test@project.iam.gserviceaccount.com", "key-1"
USER = {"client_id": "client", "client_secret": "client/secret+1", "refresh_token": "refresh/token+1"}
OPERATIONS = {"GcsGet", "GcsHead", "GcsPut", "GcsDelete", "GcsList", "GcsUnknown", "GoogleToken", "MachineToken"}
XML = [("Content-Type", "application/xml; charset=UTF-8")]


def make_private_key(folder):
    """(private key in PEM, path of its public key)."""
    private, public = pathlib.Path(folder, "google-private.pem"), pathlib.Path(folder, "google-public.pem")
    subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", private], check=True, capture_output=True, timeout=60)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True, capture_output=True, timeout=60)
    return private.read_text(), public


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def generation_of(found):
    """It changes with each write, also of the same content."""
    return str(int(found.modified * 1e6))


class Gcs:
    def __init__(self, server):
        self.server, self.assertion = server, None  # the latest that a service account has signed

    def operation(self, request):
        """(operation, bucket, key), or None for requests that are not for Google."""
        if request.raw_path == TOKENS:
            return "GoogleToken", "", ""
        if request.raw_path == MACHINE:
            return "MachineToken", "", ""
        if not request.raw_path.startswith(PREFIX + "/"):
            return None
        bucket, _, key = urllib.parse.unquote(request.raw_path[len(PREFIX) + 1:], errors="surrogateescape").partition("/")
        names = {"GET": "GcsGet", "HEAD": "GcsHead", "PUT": "GcsPut", "DELETE": "GcsDelete"} if key else {"GET": "GcsList"}
        return names.get(request.method, "GcsUnknown"), bucket, key

    def answer(self, request, operation, name, key):
        try:
            if operation == "GoogleToken":
                return self.token(request)
            if operation == "MachineToken":
                return self.machine_token(request)
            bucket = self.server.s3.buckets.get(name)
            self.authorize(request, operation, bucket)
            if bucket is None:
                raise S3Error(404, "NoSuchBucket", "The specified bucket does not exist.")
            act = {"GcsList": self.list, "GcsGet": self.get, "GcsHead": self.get, "GcsPut": self.put, "GcsDelete": self.delete}.get(operation)
            if act is None:
                raise S3Error(405, "MethodNotAllowed", "The requested method is not supported.")
            return act(request, bucket, key)
        except S3Error as error:
            return Response(error.status, XML + error.headers, error_document(error.code, error.message, "none", **error.elements))

    # --- tokens

    def issue(self):
        expires = self.server.now() + self.server.settings["lifetime"]
        made = self.server.credentials.issue("google", expires)
        return as_json({"access_token": made.token, "expires_in": int(expires - self.server.now()), "token_type": "Bearer"})

    def refused(self, error, description):
        return as_json({"error": error, "error_description": description}, 400)

    def token(self, request):
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        kind = form.pop("grant_type", "")
        if kind == "refresh_token":
            return self.issue() if form == USER else self.refused("invalid_grant", "Bad Request")
        if kind != "urn:ietf:params:oauth:grant-type:jwt-bearer":
            return self.refused("unsupported_grant_type", f"Invalid grant_type: {kind}")
        self.assertion = form["assertion"]
        header, claims, signature = self.assertion.split(".")
        said, wanted = json.loads(decoded(claims)), {"iss": EMAIL, "scope": SCOPE, "aud": self.server.endpoint + TOKENS}
        if json.loads(decoded(header)) != {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}:
            return self.refused("invalid_grant", "Invalid JWT header")
        now = self.server.now()
        if {name: said[name] for name in wanted} != wanted or not now - 300 < said["iat"] <= now + 300 or said["exp"] - said["iat"] > 3600:
            return self.refused("invalid_grant", "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.")
        with tempfile.NamedTemporaryFile() as file:
            file.write(decoded(signature))
            file.flush()
            checked = subprocess.run(["openssl", "dgst", "-sha256", "-verify", self.server.settings["google_key"], "-signature", file.name],
                                     input=f"{header}.{claims}".encode(), capture_output=True, timeout=60)
        return self.issue() if checked.returncode == 0 else self.refused("invalid_grant", "Invalid JWT Signature.")

    def machine_token(self, request):
        if request.header("metadata-flavor") != "Google" or request.header("x-forwarded-for"):
            return Response(403, [("Content-Type", "text/html")], b"Missing Metadata-Flavor:Google header.")
        made = self.issue()
        made.headers.append(("Metadata-Flavor", self.server.settings["metadata_flavor"]))
        return made

    # --- objects

    def authorize(self, request, operation, bucket):
        header = request.header("authorization")
        if not self.server.settings["auth"]:
            return
        if header is None:
            if not (bucket and bucket.public and operation in ("GcsGet", "GcsHead", "GcsList")):
                raise S3Error(403, "AccessDenied", "Access denied.", Details="Anonymous caller does not have storage.objects.get access")
        else:
            known = [each for each in list(self.server.credentials.known.values()) if each.token and header == f"Bearer {each.token}"]
            if not known or known[0].expires <= self.server.now():
                raise S3Error(401, "AuthenticationRequired", "Authentication required.")
        if bucket and bucket.requester_pays and request.header("x-goog-user-project") is None:
            raise S3Error(400, "UserProjectMissing", "Bucket is a requester pays bucket but no user project provided.")
        if operation == "GcsList" and bucket and not bucket.listable:
            raise S3Error(403, "AccessDenied", "Access denied.")

    def headers(self, found):
        headers = [("ETag", f'"{found.etag}"'), ("x-goog-generation", generation_of(found)), ("x-goog-metageneration", "1"),
                   ("x-goog-hash", "crc32c=AAAAAA==")]
        if len(found.etag) == 32:
            headers.append(("x-goog-hash", "md5=" + base64.b64encode(bytes.fromhex(found.etag)).decode()))
        return headers

    def generation_check(self, request):
        """A function of the object that is there (or None), which raises where a condition does not hold."""
        wanted = request.header("x-goog-if-generation-match")

        def check(found):
            if wanted is not None and wanted != (generation_of(found) if found else "0"):
                raise S3Error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")

        return check

    def list(self, request, bucket, key):
        prefix, delimiter, token = (request.argument(name, "") for name in ("prefix", "delimiter", "continuation-token"))
        if request.argument("list-type") != "2":
            raise S3Error(501, "NotImplemented", "this server has only lists of version 2")
        try:
            after = base64.b64decode(token, validate=True).decode("utf-8", "surrogateescape") if token else None
        except ValueError:
            raise S3Error(400, "InvalidArgument", "Invalid argument.") from None
        page = page_of(bucket.storage.sorted_keys(prefix), prefix, delimiter, after, min(1000, self.server.settings["page_size"]))
        parts = [element("Prefix", prefix), element("KeyCount", len(page.keys) + len(page.prefixes)),
                 element("IsTruncated", "true" if page.is_truncated else "false")]
        if page.is_truncated:
            parts.append(element("NextContinuationToken", base64.b64encode(page.last.encode("utf-8", "surrogateescape")).decode()))
        for name in page.keys:
            found = bucket.storage.find(name)
            if found is not None:
                parts.append("<Contents>" + element("Key", name) + element("Generation", generation_of(found)) + element("MetaGeneration", 1)
                             + element("LastModified", time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(found.modified)))
                             + element("ETag", f'"{found.etag}"') + element("Size", found.size) + "</Contents>")
        parts += ["<CommonPrefixes>" + element("Prefix", group) + "</CommonPrefixes>" for group in page.prefixes]
        return Response(200, XML[:], document("ListBucketResult", *parts, namespace="http://doc.s3.amazonaws.com/2006-03-01"))

    def get(self, request, bucket, key):
        found = bucket.storage.find(key)
        if found is None:
            if not bucket.listable:
                raise S3Error(403, "AccessDenied", "Access denied.", Details="caller does not have storage.objects.list access")
            raise S3Error(404, "NoSuchKey", "The specified key does not exist.")
        self.generation_check(request)(found)
        headers = self.headers(found) + [("Last-Modified", email.utils.formatdate(found.modified, usegmt=True))]
        if conditions.check_read(request, found):
            return Response(304, headers)
        part = conditions.range_of(None if request.ignores_range else request.header("range"), found.size)
        if part is None:
            return Response(200, headers, Part(found, 0, found.size))
        return Response(206, [*headers, ("Content-Range", f"bytes {part[0]}-{part[0] + part[1] - 1}/{found.size}")], Part(found, *part))

    def put(self, request, bucket, key):
        """If-Match and If-None-Match are for reads only."""
        made = bucket.storage.put(key, request.body, (), check=self.generation_check(request))
        return Response(200, self.headers(made))

    def delete(self, request, bucket, key):
        def check(found):
            if found is None:
                raise S3Error(404, "NoSuchKey", "The specified key does not exist.")
            self.generation_check(request)(found)

        bucket.storage.delete(key, check)
        return Response(204)
