"""Buckets in memory or in a directory. An object that was looked up stays readable while another one replaces it.

All of it may be used by many threads: a bucket's lock covers a condition and the write that depends on it.
"""
import bisect
import dataclasses
import hashlib
import os
import pathlib
import tempfile
import threading
import time

from .errors import S3Error


@dataclasses.dataclass(frozen=True)
class StoredObject:
    size: int
    etag: str  # without quotes
    modified: float
    headers: tuple = ()  # pairs: Content-Type, x-amz-meta-*
    data: bytes = None
    file: object = None  # open, where there is no data

    def read(self, offset, count):
        return os.pread(self.file.fileno(), count, offset) if self.data is None else self.data[offset:offset + count]


def md5_of(data):
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


class MemoryBucket:
    def __init__(self):
        self.lock = threading.RLock()
        self.objects = {}
        self.keys = None  # sorted; None: to be sorted again

    def find(self, key):
        with self.lock:
            return self.objects.get(key)

    def put(self, key, data, headers=(), etag=None, check=None, modified=None):
        """check(the object there or None) raises S3Error where the condition of the request does not hold."""
        with self.lock:
            old = self.objects.get(key)
            if check:
                check(old)
            if old is None:
                self.keys = None
            self.objects[key] = made = StoredObject(len(data), etag or md5_of(data), modified or time.time(), tuple(headers), bytes(data))
            return made

    def delete(self, key, check=None):
        with self.lock:
            if check:
                check(self.objects.get(key))
            if self.objects.pop(key, None) is not None:
                self.keys = None

    def sorted_keys(self, prefix=""):
        """All keys at least with this prefix, in the order of their code points."""
        with self.lock:
            if self.keys is None:
                self.keys = sorted(self.objects)
            return self.keys


class DirectoryBucket:
    """A file for each key. Other programs may change the files; an ETag is the MD5 of the file, computed when it is asked for."""

    def __init__(self, root):
        self.lock = threading.RLock()
        self.root = pathlib.Path(root)
        self.root.mkdir(parents=True, exist_ok=True)
        self.known = {}  # key: ((inode, size, time), etag, headers)

    def path(self, key):
        if any(name in ("", ".", "..") for name in key.split("/")) or "\0" in key:
            raise S3Error(400, "InvalidArgument", "A bucket in a directory cannot have this key", ArgumentValue=key)
        return self.root / key

    def find(self, key):
        try:
            file = open(self.path(key), "rb")
        except (OSError, S3Error):
            return None
        status = os.fstat(file.fileno())
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        with self.lock:
            known = self.known.get(key)
            if known is None or known[0] != stamp:
                digest = hashlib.md5(usedforsecurity=False)
                while block := file.read(1 << 20):
                    digest.update(block)
                known = self.known[key] = (stamp, digest.hexdigest(), ())
        return StoredObject(status.st_size, known[1], status.st_mtime, known[2], None, file)

    def put(self, key, data, headers=(), etag=None, check=None, modified=None):
        path = self.path(key)
        with self.lock:
            if check:
                check(self.find(key))
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".put-", delete=False) as file:
                    file.write(data)
                if modified:
                    os.utime(file.name, (modified, modified))
                os.rename(file.name, path)
            except OSError as error:
                raise S3Error(400, "InvalidArgument", f"A bucket in a directory cannot have this key: {error}") from error
            status = path.stat()
            self.known[key] = ((status.st_ino, status.st_size, status.st_mtime_ns), etag or md5_of(data), tuple(headers))
            return self.find(key)

    def delete(self, key, check=None):
        path = self.path(key)
        with self.lock:
            if check:
                check(self.find(key))
            path.unlink(missing_ok=True)
            self.known.pop(key, None)
            for parent in path.parents:  # a prefix without objects is not there
                if parent == self.root or any(parent.iterdir()):
                    break
                parent.rmdir()

    def sorted_keys(self, prefix=""):
        top = self.root / prefix.rpartition("/")[0]
        return sorted(f"{folder}/{name}"[len(str(self.root)) + 1:] for folder, _, names in os.walk(top)
                      for name in names if not name.startswith(".put-"))


@dataclasses.dataclass
class Page:
    keys: list
    prefixes: list
    last: str  # key or prefix that the page ends with
    is_truncated: bool


def behind(prefix):
    """The first string after all that start with prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def page_of(keys, prefix, delimiter, after, limit):
    """At most `limit` keys and common prefixes behind `after`, a key or a common prefix that an earlier page ended with."""
    position = bisect.bisect_left(keys, prefix)
    if after is not None:
        is_group = delimiter and after.endswith(delimiter) and after.startswith(prefix) and len(after) > len(prefix)
        position = max(position, bisect.bisect_left(keys, behind(after)) if is_group else bisect.bisect_right(keys, after))
    page = Page([], [], None, False)
    while position < len(keys) and keys[position].startswith(prefix):
        if len(page.keys) + len(page.prefixes) >= limit:
            page.is_truncated = limit > 0
            break
        key = keys[position]
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            page.keys.append(key)
            page.last = key
            position += 1
        else:
            page.last = key[:cut + len(delimiter)]
            page.prefixes.append(page.last)
            position = bisect.bisect_left(keys, behind(page.last), position)
    return page
