"""The objects of all buckets once more, as an ordinary HTTP server shows files: /_files[-MODE...]/BUCKET/KEY, without signatures.

Modes, any of them together: norange, noetag, nodate, weak (a weak ETag), nohead (405), chunked (no Content-Length), redirect
(302 to the same path without this mode), loop (302 to itself).
"""
import urllib.parse

from .errors import S3Error
from .wire import Response

MODES = {"norange", "noetag", "nodate", "weak", "nohead", "chunked", "redirect", "loop"}


def split(request):
    """(modes, bucket, key), or None for other paths."""
    first, _, rest = request.raw_path[1:].partition("/")
    name, *modes = first.split("-")
    if name != "_files" or not set(modes) <= MODES:
        return None
    bucket, _, key = urllib.parse.unquote(rest).partition("/")  # + is + here
    return modes, bucket, key


def plain_error(status, text, headers=()):
    return Response(status, [("Content-Type", "text/html"), *headers], f"<html><body>{status} {text}</body></html>\n".encode())


def answer(request, s3):
    modes, bucket_name, key = split(request)
    rest = request.target[1:].partition("/")[2]
    for mode, left in (("loop", modes), ("redirect", [mode for mode in modes if mode != "redirect"])):
        if mode in modes:
            return plain_error(302, "Found", [("Location", "/" + "-".join(["_files", *left]) + "/" + rest)])
    if request.method not in ("GET", "HEAD") or request.method == "HEAD" and "nohead" in modes:
        return plain_error(405, "Method Not Allowed")
    bucket = s3.buckets.get(bucket_name)
    if bucket is None or bucket.storage.find(key) is None:
        return plain_error(404, "Not Found")
    if "norange" in modes:
        request.ignores_range = True
    try:
        response = s3.get(request, bucket, bucket_name, key)
    except S3Error as error:
        return plain_error(error.status, error.code, error.headers)
    if "norange" in modes:
        response.set_header("Accept-Ranges", None)
    if "noetag" in modes:
        response.set_header("ETag", None)
    elif "weak" in modes and response.header("ETag"):
        response.set_header("ETag", "W/" + response.header("ETag"))
    if "nodate" in modes:
        response.set_header("Last-Modified", None)
    response.is_chunked = "chunked" in modes and response.status == 200
    return response
