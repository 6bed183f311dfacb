"""If-Match, If-None-Match, the dates, and Range (RFC 9110, as far as S3 has them), with the deviations of other servers.

Modes of conditions: "aws"; "unquoted": an If-Match with quotes fails always (Ceph 16); "create_only": If-Match is ignored in writes;
"ignored": every condition of a write is ignored.
"""
import email.utils
import re

from .errors import S3Error

MODES = ("aws", "unquoted", "create_only", "ignored")


def failed(name):
    return S3Error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold", Condition=name)


def names(header, etag, mode="aws"):
    """Is the object's ETag in the list of the header?"""
    tags = [tag.strip() for tag in header.split(",")]
    if "*" in tags or etag in tags:
        return True
    return mode != "unquoted" and f'"{etag}"' in [tag.removeprefix("W/") for tag in tags]


def seconds_of(text):
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None


def check_read(request, found, mode="aws"):
    """Raises 412 where the object may not be read; true where the answer is 304."""
    match, none_match = request.header("if-match"), request.header("if-none-match")
    since, unchanged = request.header("if-modified-since"), request.header("if-unmodified-since")
    if match is not None:
        if not names(match, found.etag, mode):
            raise failed("If-Match")
    elif unchanged is not None and (seconds_of(unchanged) or 0) < int(found.modified):
        raise failed("If-Unmodified-Since")
    if none_match is not None:
        return names(none_match, found.etag)
    return since is not None and (seconds_of(since) or 0) >= int(found.modified)


def write_check(request, mode="aws"):
    """A function of the object that is there (or None), which raises where the write must not happen; None without a condition."""
    match, none_match = request.header("if-match"), request.header("if-none-match")
    if none_match not in (None, "*"):
        raise S3Error(501, "NotImplemented", "A header you provided implies functionality that is not implemented", Header="If-None-Match")
    if mode in ("ignored", "create_only"):
        match = None
    if mode == "ignored":
        none_match = None
    if match is None and none_match is None:
        return None

    def check(found):
        if none_match and found is not None:
            raise failed("If-None-Match")
        if match and found is None:
            raise S3Error(404, "NoSuchKey", "The specified key does not exist.")
        if match and not names(match, found.etag, mode):
            raise failed("If-Match")

    return check


def range_of(header, size):
    """(first, count), or None where the whole object is the answer: also to several ranges, as S3 does. Raises 416."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", header.strip()) if header else None
    if not found or found[1] == found[2] == "" or found[1] and found[2] and int(found[2]) < int(found[1]):
        return None
    if found[1] == "":
        first, count = max(0, size - int(found[2])), min(size, int(found[2]))
    else:
        first = int(found[1])
        count = min(size, int(found[2]) + 1 if found[2] else size) - first
    if count <= 0:
        raise S3Error(416, "InvalidRange", "The requested range is not satisfiable", [("Content-Range", f"bytes */{size}")],
                      RangeRequested=header, ActualObjectSize=size)
    return first, count
