"""The objects of all buckets once more, as blobs of the storage account "testaccount": /_azure/testaccount/CONTAINER/KEY, as emulators have
the account in the path. Requests are signed with a shared key or a shared access signature, or have a token of Microsoft Entra.

Source: Azure Storage REST API: "Authorize with Shared Key", "Create a service SAS", "Blob service REST API". No code of codecfs.
"""
import base64
import email.utils
import hashlib
import hmac
import re
import time
import urllib.parse

from .credentials import as_json
from .errors import document, element
from .storage import page_of
from .wire import Part, Response

ACCOUNT = "testaccount"
KEY = base64.b64encode(b"the key of the account testaccount" * 2).decode()
PREFIX = f"/_azure/{ACCOUNT}"
CLIENT, TENANT, CLIENT_SECRET = "test-client", "test-tenant", "client/secret+1"
OPERATIONS = {"GetBlob", "HeadBlob", "PutBlob", "DeleteBlob", "ListBlobs", "UnknownBlob", "EntraToken", "IdentityToken"}
SIGNED_HEADERS = ("content-encoding", "content-language", "content-length", "content-md5", "content-type", "date", "if-modified-since",
                  "if-match", "if-none-match", "if-unmodified-since", "range")


class AzureError(Exception):
    def __init__(self, status, code, message="as documented", headers=()):
        super().__init__(f"{status} {code}")
        self.status, self.code, self.message, self.headers = status, code, message, list(headers)

    def response(self, request_id):
        text = f"{self.message}\nRequestId:{request_id}\nTime:2026-01-01T00:00:00.0000000Z"
        body = b"\xef\xbb\xbf" + document("Error", element("Code", self.code), element("Message", text), namespace=None)
        return Response(self.status, [("Content-Type", "application/xml"), ("x-ms-error-code", self.code), *self.headers], body)


def signature(key, text):
    return base64.b64encode(hmac.digest(base64.b64decode(key), text.encode("utf-8", "surrogateescape"), "sha256")).decode()


def shared_key_text(request):
    """The string to sign of version 2015-02-21 and later: a length of 0 is empty."""
    values = [request.header(name, "") for name in SIGNED_HEADERS]
    values[2] = "" if values[2] == "0" else values[2]
    own = sorted((name.lower(), value.strip()) for name, value in request.headers if name.lower().startswith("x-ms-"))
    arguments = {}
    for name, value in raw_arguments(request):
        arguments.setdefault(name.lower(), []).append(value)
    resource = f"/{ACCOUNT}{request.raw_path}" + "".join(f"\n{name}:{','.join(sorted(arguments[name]))}" for name in sorted(arguments))
    return "\n".join([request.method, *values]) + "\n" + "".join(f"{name}:{value}\n" for name, value in own) + resource


def raw_arguments(request):
    """A + is a +."""
    pairs = (pair.partition("=") for pair in request.target.partition("?")[2].split("&") if pair)
    return [(urllib.parse.unquote(name, errors="surrogateescape"), urllib.parse.unquote(value, errors="surrogateescape")) for name, _, value in pairs]


def sas_text(arguments, container):
    """Of a service SAS for a container, version 2018-11-09 to 2020-10-02."""
    names = ["sp", "st", "se", None, "si", "sip", "spr", "sv", "sr", None, "rscc", "rscd", "rsce", "rscl", "rsct"]
    values = [arguments.get(name, "") if name else "" for name in names]
    values[3] = f"/blob/{ACCOUNT}/{container}"
    return "\n".join(values)


def make_sas(container, seconds, permissions="rlwd"):
    """A shared access signature for a container, as a query."""
    arguments = {"sp": permissions, "se": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds)), "sv": "2020-10-02", "sr": "c"}
    arguments["sig"] = signature(KEY, sas_text(arguments, container))
    return urllib.parse.urlencode(arguments)


def etag_of(found):
    """It changes with each write, also of the same content."""
    return '"0x8D%s"' % hashlib.md5(f"{found.etag} {found.modified!r}".encode()).hexdigest()[:12].upper()


def content_md5(found):
    return base64.b64encode(bytes.fromhex(found.etag)).decode() if re.fullmatch("[0-9a-f]{32}", found.etag) else None


class Azure:
    def __init__(self, server):
        self.server = server

    def operation(self, request):
        """(operation, container, key), or None for requests that are not for Azure."""
        if request.raw_path == "/metadata/identity/oauth2/token":
            return "IdentityToken", "", ""
        if request.raw_path.endswith("/oauth2/v2.0/token"):
            return "EntraToken", "", ""
        if not request.raw_path.startswith(PREFIX + "/"):
            return None
        container, _, key = urllib.parse.unquote(request.raw_path[len(PREFIX) + 1:], errors="surrogateescape").partition("/")
        if key:
            name = {"GET": "GetBlob", "HEAD": "HeadBlob", "PUT": "PutBlob", "DELETE": "DeleteBlob"}.get(request.method, "UnknownBlob")
        else:
            is_list = request.argument("comp") == "list" and request.argument("restype") == "container" and request.method == "GET"
            name = "ListBlobs" if is_list else "UnknownBlob"
        return name, container, key

    def answer(self, request, operation, container, key, request_id):
        try:
            if operation == "IdentityToken":
                return self.identity_token(request)
            if operation == "EntraToken":
                return self.entra_token(request)
            bucket = self.server.s3.buckets.get(container)
            self.authorize(request, operation, bucket, container)
            if bucket is None:
                raise AzureError(404, "ContainerNotFound", "The specified container does not exist.")
            if operation == "UnknownBlob":
                raise AzureError(405, "UnsupportedHttpVerb")
            act = {"ListBlobs": self.list, "PutBlob": self.put, "DeleteBlob": self.delete}.get(operation, self.get)
            return act(request, bucket, key)
        except AzureError as error:
            return error.response(request_id)

    # --- tokens

    def issue(self):
        expires = self.server.now() + self.server.settings["lifetime"]
        return self.server.credentials.issue("azure", expires)

    def identity_token(self, request):
        if request.header("metadata") != "true" or request.argument("api-version") != "2018-02-01" \
                or request.argument("resource") != "https://storage.azure.com/":
            return as_json({"error": "invalid_request", "error_description": "Required metadata header not specified"}, 400)
        if request.argument("client_id") not in (None, CLIENT):
            return as_json({"error": "invalid_request", "error_description": "Identity not found"}, 400)
        made = self.issue()
        return as_json({"access_token": made.token, "expires_in": str(int(made.expires - self.server.now())), "token_type": "Bearer",
                        "expires_on": str(int(made.expires)), "resource": "https://storage.azure.com/"})

    def entra_token(self, request):
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        wanted = {"grant_type": "client_credentials", "client_id": CLIENT, "scope": "https://storage.azure.com/.default"}
        if "client_assertion" in form:
            wanted |= {"client_assertion": self.server.settings["web_identity_token"],
                       "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}
        else:
            wanted["client_secret"] = CLIENT_SECRET
        if request.method != "POST" or request.raw_path != f"/{TENANT}/oauth2/v2.0/token" or form != wanted:
            return as_json({"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided.\r\nTrace ID: 1"}, 401)
        made = self.issue()
        return as_json({"token_type": "Bearer", "expires_in": int(made.expires - self.server.now()), "access_token": made.token})

    # --- whether a request may

    def authorize(self, request, operation, bucket, container):
        if not self.server.settings["auth"]:
            return
        header = request.header("authorization")
        arguments = dict(raw_arguments(request))
        if header is None and "sig" not in arguments:
            if not self.server.settings["public_access"]:
                raise AzureError(409, "PublicAccessNotPermitted", "Public access is not permitted on this storage account.")
            if not (bucket and bucket.public and operation in ("GetBlob", "HeadBlob", "ListBlobs")):
                raise AzureError(404, "ResourceNotFound", "The specified resource does not exist.")
            return
        if request.header("x-ms-version", "") < "2019-12-12" and "sv" not in arguments:
            raise AzureError(400, "InvalidHeaderValue")
        if header is None:
            return self.check_sas(arguments, operation, container)
        if header.startswith("Bearer "):
            return self.check_token(header.removeprefix("Bearer "))
        date = request.header("x-ms-date") or request.header("date")
        seconds = email.utils.parsedate_to_datetime(date).timestamp() if date else 0
        if abs(seconds - self.server.now()) > 900 or header != f"SharedKey {ACCOUNT}:{signature(KEY, shared_key_text(request))}":
            raise AzureError(403, "AuthenticationFailed", "Server failed to authenticate the request. Make sure the value of Authorization header "
                             "is formed correctly including the signature.")

    def check_sas(self, arguments, operation, container):
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.server.now()))
        if arguments["sig"] != signature(KEY, sas_text(arguments, container)) or arguments.get("se", "") < end:
            raise AzureError(403, "AuthenticationFailed", "Signature not valid in the specified time frame")
        needed = {"GetBlob": "r", "HeadBlob": "r", "PutBlob": "w", "DeleteBlob": "d", "ListBlobs": "l"}.get(operation, "?")
        if needed not in arguments["sp"]:
            raise AzureError(403, "AuthorizationPermissionMismatch", "This request is not authorized to perform this operation using this permission.")

    def check_token(self, token):
        known = [each for each in list(self.server.credentials.known.values()) if each.token == token]
        if not known or known[0].expires <= self.server.now():
            raise AzureError(401, "InvalidAuthenticationInfo", "Lifetime validation failed. The token is expired.")

    # --- blobs

    def list(self, request, bucket, key):
        prefix, delimiter, marker = (request.argument(name, "") for name in ("prefix", "delimiter", "marker"))
        limit = min(int(request.argument("maxresults", "5000")), self.server.settings["page_size"])
        try:
            after = base64.b64decode(marker, validate=True).decode("utf-8", "surrogateescape") if marker else None
        except ValueError:
            raise AzureError(400, "InvalidQueryParameterValue") from None
        page = page_of(bucket.storage.sorted_keys(prefix), prefix, delimiter, after, limit)
        blobs = []
        for name in page.keys:
            found = bucket.storage.find(name)
            if found is None:
                continue
            properties = [element("Last-Modified", email.utils.formatdate(found.modified, usegmt=True)), element("Etag", etag_of(found).strip('"')),
                          element("Content-Length", found.size), element("Content-Type", "application/octet-stream"),
                          element("Content-MD5", content_md5(found) or ""), element("BlobType", "BlockBlob"), element("AccessTier", "Hot")]
            blobs.append("<Blob>" + element("Name", name) + "<Properties>" + "".join(properties) + "</Properties><OrMetadata /></Blob>")
        blobs += ["<BlobPrefix>" + element("Name", group) + "</BlobPrefix>" for group in page.prefixes]
        following = base64.b64encode(page.last.encode("utf-8", "surrogateescape")).decode() if page.is_truncated else ""
        body = document("EnumerationResults", element("Prefix", prefix), element("MaxResults", limit), "<Blobs>", *blobs, "</Blobs>",
                        element("NextMarker", following), namespace=None)
        return Response(200, [("Content-Type", "application/xml")], b"\xef\xbb\xbf" + body)

    def get(self, request, bucket, key):
        found = bucket.storage.find(key)
        if found is None:
            raise AzureError(404, "BlobNotFound", "The specified blob does not exist.")
        headers = [("ETag", etag_of(found)), ("Last-Modified", email.utils.formatdate(found.modified, usegmt=True)), ("Accept-Ranges", "bytes"),
                   ("x-ms-blob-type", "BlockBlob"), ("Content-Type", "application/octet-stream"), *found.headers]
        match, none_match = request.header("if-match"), request.header("if-none-match")
        if match not in (None, "*", etag_of(found)):
            raise AzureError(412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met.")
        if none_match in ("*", etag_of(found)):
            return Response(304, headers)
        md5, header = content_md5(found), None if request.ignores_range else request.header("x-ms-range") or request.header("range")
        if header is None:
            return Response(200, headers + ([("Content-MD5", md5)] if md5 else []), Part(found, 0, found.size))
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", header)
        if not asked:  # it has no ranges of the last bytes
            raise AzureError(400, "InvalidHeaderValue", "The value for one of the HTTP headers is not in the correct format.")
        first, last = int(asked[1]), min(int(asked[2] or found.size), found.size - 1)
        if first >= found.size:
            raise AzureError(416, "InvalidRange", "The range specified is invalid for the current size of the resource.",
                             [("Content-Range", f"bytes */{found.size}")])
        headers += [("Content-Range", f"bytes {first}-{last}/{found.size}")] + ([("x-ms-blob-content-md5", md5)] if md5 else [])
        return Response(206, headers, Part(found, first, last - first + 1))

    def write_check(self, request):
        match, none_match = request.header("if-match"), request.header("if-none-match")

        def check(found):
            if none_match == "*" and found is not None:
                raise AzureError(409, "BlobAlreadyExists", "The specified blob already exists.")
            if match is not None and (found is None or match not in ("*", etag_of(found))):
                raise AzureError(412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met.")

        return check if match is not None or none_match is not None else None

    def put(self, request, bucket, key):
        if request.header("x-ms-blob-type") != "BlockBlob":
            raise AzureError(400, "MissingRequiredHeader", "An HTTP header that's mandatory for this request is not specified.")
        made = bucket.storage.put(key, request.body, (), check=self.write_check(request))
        return Response(201, [("ETag", etag_of(made)), ("Content-MD5", content_md5(made)), ("x-ms-request-server-encrypted", "true")])

    def delete(self, request, bucket, key):
        check = self.write_check(request)

        def exists(found):
            if found is None:
                raise AzureError(404, "BlobNotFound", "The specified blob does not exist.")
            if check:
                check(found)

        bucket.storage.delete(key, exists)
        return Response(202)
