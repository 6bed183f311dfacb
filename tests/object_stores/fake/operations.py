"""The operations of S3 on buckets: what each request means, whether it may, and its answer."""
import base64
import dataclasses
import email.utils
import hashlib
import time
import zlib

from . import conditions, signature
from .errors import S3Error, document, element
from .multipart import Uploads
from .storage import DirectoryBucket, MemoryBucket, page_of
from .wire import Part, Response

KEPT_HEADERS = ("content-type", "content-encoding", "cache-control", "content-disposition", "content-language")
XML = [("Content-Type", "application/xml")]
READS = ("GetObject", "HeadObject", "ListObjectsV2", "HeadBucket", "GetBucketLocation")


@dataclasses.dataclass
class Bucket:
    storage: object
    public: bool = False  # anonymous requests may read and list
    listable: bool = True  # without it, lists are 403, and so is a key that is not there
    requester_pays: bool = False
    region: str = None  # None: the server's


def iso(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))


def encoded(text):
    return signature.encode(text, "/")


class S3:
    def __init__(self, server):
        self.server, self.uploads, self.buckets = server, Uploads(), {}

    def make_bucket(self, name, **options):
        bucket = self.buckets.get(name)
        if bucket is None:
            root = self.server.root
            bucket = self.buckets[name] = Bucket(DirectoryBucket(root / name) if root else MemoryBucket())
        for option, value in options.items():
            if option not in ("public", "listable", "requester_pays", "region"):
                raise ValueError(f"a bucket has no option {option}")
            setattr(bucket, option, value)
        return bucket

    # what a request means

    def place(self, request):
        """(bucket, key), from the path or from a host BUCKET.NAME."""
        host = (request.header("host") or "").rpartition(":")[0] or request.header("host") or ""
        suffix = f".{self.server.settings['name']}"
        if host.endswith(suffix) and len(host) > len(suffix):
            return host[:-len(suffix)], request.path[1:]
        bucket, _, key = request.path[1:].partition("/")
        return bucket, key

    def operation(self, request):
        bucket, key = self.place(request)
        arguments = {name for name, _ in request.query}
        if not bucket:
            name = {"GET": "ListBuckets"}.get(request.method)
        elif not key:
            name = {"HEAD": "HeadBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket"}.get(request.method)
            if request.method == "GET":
                name = "GetBucketLocation" if "location" in arguments else "ListMultipartUploads" if "uploads" in arguments else \
                    "ListObjectsV2" if request.argument("list-type") == "2" else "ListObjects"
        elif "uploadId" in arguments:
            name = {"PUT": "UploadPart", "POST": "CompleteMultipartUpload", "DELETE": "AbortMultipartUpload"}.get(request.method)
        elif "uploads" in arguments:
            name = {"POST": "CreateMultipartUpload"}.get(request.method)
        else:
            name = {"GET": "GetObject", "HEAD": "HeadObject", "PUT": "PutObject", "DELETE": "DeleteObject"}.get(request.method)
        return name or "Unknown", bucket, key

    # whether it may

    def authorize(self, request, operation, bucket):
        """Raises where it may not. The region is compared before the signature, as AWS does."""
        settings = self.server.settings
        header = request.header("authorization")
        expected = bucket.region if bucket and bucket.region else settings["region"]
        region_header = [("x-amz-bucket-region", expected)] if bucket else []
        if header is None:
            if request.argument("X-Amz-Signature") is not None:
                raise S3Error(501, "NotImplemented", "Presigned requests are not supported by this server")
            if settings["auth"] and not (bucket and bucket.public and operation in READS):
                raise S3Error(403, "AccessDenied", "Access Denied")
        elif settings["auth"]:
            claim = signature.Claim(header)
            if claim.region != expected and claim.region != settings["region"]:
                raise signature.malformed(f"the region '{claim.region}' is wrong; expecting '{expected}'", Region=expected) from None
            signature.check(request, claim, self.server.credentials, self.server.now())
            if claim.region != expected:
                self.moved(request, expected, region_header)
        if header is None and expected != settings["region"]:
            self.moved(request, expected, region_header)
        if bucket and bucket.requester_pays and request.header("x-amz-request-payer") != "requester":
            raise S3Error(403, "AccessDenied", "Access Denied")
        if operation == "ListObjectsV2" and bucket and not bucket.listable:
            raise S3Error(403, "AccessDenied", "Access Denied")

    def moved(self, request, region, headers):
        raise S3Error(301, "PermanentRedirect", "The bucket you are attempting to access must be addressed using the specified endpoint. "
                      "Please send all future requests to this endpoint.", headers, Endpoint=request.header("host", ""),
                      Bucket=self.place(request)[0])

    def answer(self, request, operation, name, key):
        bucket = self.buckets.get(name)
        self.authorize(request, operation, bucket)
        if operation == "Unknown":
            raise S3Error(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
        if operation in ("ListBuckets", "CreateBucket"):
            return self.list_buckets() if operation == "ListBuckets" else self.create_bucket(name)
        if bucket is None:
            raise S3Error(404, "NoSuchBucket", "The specified bucket does not exist", BucketName=name)
        act = {"HeadBucket": self.head_bucket, "GetBucketLocation": self.location, "DeleteBucket": self.delete_bucket,
               "ListObjectsV2": self.list_objects, "ListMultipartUploads": self.list_uploads, "GetObject": self.get, "HeadObject": self.get,
               "PutObject": self.put, "DeleteObject": self.delete, "CreateMultipartUpload": self.create_upload, "UploadPart": self.upload_part,
               "CompleteMultipartUpload": self.complete, "AbortMultipartUpload": self.abort}.get(operation)
        if act is None or request.header("x-amz-copy-source") is not None:
            raise S3Error(501, "NotImplemented", f"{operation} is not supported by this server")
        answer = act(request, bucket, name, key)
        if bucket.requester_pays:
            answer.headers.append(("x-amz-request-charged", "requester"))
        return answer

    # buckets

    def list_buckets(self):
        parts = ["<Bucket>" + element("Name", name) + element("CreationDate", iso(0)) + "</Bucket>" for name in sorted(self.buckets)]
        return Response(200, XML[:], document("ListAllMyBucketsResult", "<Buckets>", *parts, "</Buckets>"))

    def create_bucket(self, name):
        if name in self.buckets:
            raise S3Error(409, "BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded and you already own it.")
        self.make_bucket(name)
        return Response(200, [("Location", f"/{name}")])

    def head_bucket(self, request, bucket, name, key):
        return Response(200, [("x-amz-bucket-region", bucket.region or self.server.settings["region"])])

    def delete_bucket(self, request, bucket, name, key):
        if bucket.storage.sorted_keys():
            raise S3Error(409, "BucketNotEmpty", "The bucket you tried to delete is not empty")
        self.buckets.pop(name, None)
        return Response(204)

    def location(self, request, bucket, name, key):
        region = bucket.region or self.server.settings["region"]
        return Response(200, XML[:], document("LocationConstraint", "" if region == "us-east-1" else region))

    def list_uploads(self, request, bucket, name, key):
        parts = ["<Upload>" + element("Key", key) + element("UploadId", upload) + "</Upload>" for key, upload, _ in self.uploads.listed(name)]
        return Response(200, XML[:], document("ListMultipartUploadsResult", element("Bucket", name), *parts))

    def list_objects(self, request, bucket, name, key):
        prefix, delimiter = request.argument("prefix", ""), request.argument("delimiter", "")
        token, start, limit = (request.argument(argument) for argument in ("continuation-token", "start-after", "max-keys"))
        encoding = request.argument("encoding-type")
        if encoding not in (None, "url"):
            raise S3Error(400, "InvalidArgument", "Invalid Encoding Method specified in Request")
        if limit is not None and not limit.isdecimal():
            raise S3Error(400, "InvalidArgument", "Provided max-keys not an integer or within integer range")
        after = start
        if token is not None:
            try:
                after = base64.b64decode(token, validate=True).decode("utf-8", "surrogateescape")
            except ValueError:
                raise S3Error(400, "InvalidArgument", "The continuation token provided is incorrect") from None
        limit = min(int(limit or "1000") if limit != "0" else 0, self.server.settings["page_size"])
        page = page_of(bucket.storage.sorted_keys(prefix), prefix, delimiter, after, limit)
        show = encoded if encoding else str
        parts = [element("Name", name), element("Prefix", show(prefix)), element("KeyCount", len(page.keys) + len(page.prefixes)),
                 element("MaxKeys", limit), element("IsTruncated", "true" if page.is_truncated else "false")]
        parts += [element("Delimiter", show(delimiter))] if delimiter else []
        parts += [element("EncodingType", encoding)] if encoding else []
        parts += [element("StartAfter", show(start))] if start else []
        parts += [element("ContinuationToken", token)] if token else []
        if page.is_truncated:
            parts.append(element("NextContinuationToken", base64.b64encode(page.last.encode("utf-8", "surrogateescape")).decode()))
        for key in page.keys:
            found = bucket.storage.find(key)
            if found is not None:
                parts.append("<Contents>" + element("Key", show(key)) + element("LastModified", iso(found.modified))
                             + element("ETag", f'"{found.etag}"') + element("Size", found.size) + element("StorageClass", "STANDARD") + "</Contents>")
        parts += ["<CommonPrefixes>" + element("Prefix", show(group)) + "</CommonPrefixes>" for group in page.prefixes]
        return Response(200, XML[:], document("ListBucketResult", *parts))

    # objects

    def get(self, request, bucket, name, key):
        found = bucket.storage.find(key)
        if found is None:
            if not bucket.listable:
                raise S3Error(403, "AccessDenied", "Access Denied")
            raise S3Error(404, "NoSuchKey", "The specified key does not exist.", Key=key)
        headers = [("ETag", f'"{found.etag}"'), ("Last-Modified", email.utils.formatdate(found.modified, usegmt=True)),
                   ("Accept-Ranges", "bytes")]
        if conditions.check_read(request, found, self.server.settings["conditions"]):
            return Response(304, headers)
        headers += found.headers
        if not any(name.lower() == "content-type" for name, _ in found.headers):
            headers.append(("Content-Type", "binary/octet-stream"))
        part = conditions.range_of(None if request.ignores_range else request.header("range"), found.size)
        if part is None:
            return Response(200, headers, Part(found, 0, found.size))
        headers.append(("Content-Range", f"bytes {part[0]}-{part[0] + part[1] - 1}/{found.size}"))
        return Response(206, headers, Part(found, *part))

    def check_body(self, request):
        if request.header("content-length") is None and request.header("transfer-encoding") is not None:
            raise S3Error(411, "MissingContentLength", "You must provide the Content-Length HTTP header.")
        body = request.body
        digests = {"content-md5": lambda: hashlib.md5(body, usedforsecurity=False).digest(),
                   "x-amz-checksum-crc32": lambda: zlib.crc32(body).to_bytes(4, "big"),
                   "x-amz-checksum-sha1": lambda: hashlib.sha1(body, usedforsecurity=False).digest(),
                   "x-amz-checksum-sha256": lambda: hashlib.sha256(body).digest()}
        for header, digest in digests.items():
            said = request.header(header)
            if said is not None and said != base64.b64encode(digest()).decode():
                raise S3Error(400, "BadDigest", f"The {header} you specified did not match what we received.")

    def kept_headers(self, request):
        return [(name, value) for name, value in request.headers if name.lower() in KEPT_HEADERS or name.lower().startswith("x-amz-meta-")]

    def put(self, request, bucket, name, key):
        self.check_body(request)
        check = conditions.write_check(request, self.server.settings["conditions"])
        made = bucket.storage.put(key, request.body, self.kept_headers(request), check=check)
        return Response(200, [("ETag", f'"{made.etag}"')])

    def delete(self, request, bucket, name, key):
        bucket.storage.delete(key, conditions.write_check(request, self.server.settings["conditions"]))
        return Response(204)

    # uploads in parts

    def create_upload(self, request, bucket, name, key):
        upload = self.uploads.create(name, key, self.kept_headers(request))
        return Response(200, XML[:], document("InitiateMultipartUploadResult", element("Bucket", name), element("Key", key),
                                              element("UploadId", upload)))

    def upload_part(self, request, bucket, name, key):
        self.check_body(request)
        etag = self.uploads.put(request.argument("uploadId"), name, key, request.argument("partNumber", ""), request.body)
        return Response(200, [("ETag", f'"{etag}"')])

    def complete(self, request, bucket, name, key):
        upload = request.argument("uploadId")
        data, headers, etag = self.uploads.join(upload, name, key, request.body, self.server.settings["min_part"])
        bucket.storage.put(key, data, headers, etag, conditions.write_check(request, self.server.settings["conditions"]))
        self.uploads.end(upload)
        return Response(200, XML[:], document("CompleteMultipartUploadResult", element("Location", f"/{name}/{key}"), element("Bucket", name),
                                              element("Key", key), element("ETag", f'"{etag}"')))

    def abort(self, request, bucket, name, key):
        self.uploads.abort(request.argument("uploadId"), name, key)
        return Response(204)
