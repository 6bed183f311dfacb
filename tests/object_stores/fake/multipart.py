"""Uploads in parts of one server. Any thread."""
import hashlib
import itertools
import threading
import xml.etree.ElementTree

from .errors import S3Error
from .storage import md5_of

MIN_PART_BYTES = 5 << 20  # of all but the last


class Uploads:
    def __init__(self):
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.uploads = {}  # id: (bucket, key, headers, {part number: bytes})

    def create(self, bucket, key, headers):
        with self.lock:
            name = f"upload-{next(self.numbers)}"
            self.uploads[name] = (bucket, key, headers, {})
            return name

    def find(self, name, bucket, key):
        with self.lock:
            upload = self.uploads.get(name)
        if upload is None or upload[:2] != (bucket, key):
            raise S3Error(404, "NoSuchUpload", "The specified upload does not exist. The upload ID may be invalid, "
                          "or the upload may have been aborted or completed.", UploadId=name)
        return upload

    def put(self, name, bucket, key, number, data):
        if not number.isdecimal() or not 1 <= int(number) <= 10000:
            raise S3Error(400, "InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive")
        parts = self.find(name, bucket, key)[3]
        with self.lock:
            parts[int(number)] = data
        return md5_of(data)

    def abort(self, name, bucket, key):
        self.find(name, bucket, key)
        with self.lock:
            self.uploads.pop(name, None)

    def join(self, name, bucket, key, body, min_part=MIN_PART_BYTES):
        """(data, headers, etag) of the list in `body`; the upload goes on until end()."""
        _, _, headers, parts = self.find(name, bucket, key)
        try:
            wanted = [(int(child.find("{*}PartNumber").text), child.find("{*}ETag").text.strip().strip('"'))
                      for child in xml.etree.ElementTree.fromstring(body).findall("{*}Part")]
        except (xml.etree.ElementTree.ParseError, AttributeError, ValueError):
            wanted = []
        if not wanted:
            raise S3Error(400, "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema")
        if [number for number, _ in wanted] != sorted({number for number, _ in wanted}):
            raise S3Error(400, "InvalidPartOrder", "The list of parts was not in ascending order. Parts must be ordered by part number.")
        with self.lock:
            found = [parts.get(number) for number, _ in wanted]
        for data, (number, etag) in zip(found, wanted):
            if data is None or md5_of(data) != etag:
                raise S3Error(400, "InvalidPart", "One or more of the specified parts could not be found. The part may not have been uploaded, "
                              "or the specified entity tag may not match the part's entity tag.", PartNumber=number, ETag=etag)
        if any(len(data) < min_part for data in found[:-1]):
            raise S3Error(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size", MinSizeAllowed=min_part)
        digests = b"".join(hashlib.md5(data, usedforsecurity=False).digest() for data in found)
        return b"".join(found), headers, f"{md5_of(digests)}-{len(found)}"

    def end(self, name):
        with self.lock:
            self.uploads.pop(name, None)

    def listed(self, bucket):
        with self.lock:
            return sorted((key, name, {number: len(data) for number, data in parts.items()})
                          for name, (owner, key, _, parts) in self.uploads.items() if owner == bucket)
