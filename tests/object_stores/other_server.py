"""A server that others made (servers.py), used as our own one in tests that only store objects, and count and compare requests.

What only our own server can do (faults, settings, buckets for all) skips the test.
"""
import pathlib
import shutil
import urllib.parse

import pytest

from lag_proxy import LagProxy
from servers import boto3_client


class OtherServer(LagProxy):
    """`bucket_name`: the only bucket, which is emptied. `folder`: where sync() puts its objects."""

    def __init__(self, server, bucket_name, folder):
        super().__init__(server.endpoint)
        self.client, self.bucket_name, self.folder = boto3_client(server), bucket_name, pathlib.Path(folder)
        if bucket_name not in [bucket["Name"] for bucket in self.client.list_buckets()["Buckets"]]:
            self.client.create_bucket(Bucket=bucket_name)
        for key in self.keys():
            self.client.delete_object(Bucket=bucket_name, Key=key)
        self.sync()

    def keys(self):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket_name)
        return [each["Key"] for page in pages for each in page.get("Contents", [])]

    def sync(self):
        """Makes the files of the folder those of the bucket."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for key in self.keys():
            (self.folder / key).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / key).write_bytes(self.client.get_object(Bucket=self.bucket_name, Key=key)["Body"].read())

    # --- as Client of fake_s3.py

    def put(self, bucket, key, data):
        self.client.put_object(Bucket=bucket, Key=key, Body=data)

    def put_tree(self, bucket, folder, prefix=""):
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file():
                self.put(bucket, prefix + str(path.relative_to(folder)), path.read_bytes())
        self.sync()

    def control(self, clear_log=False, **others):
        if others:
            pytest.skip("only our own server can do that")
        if clear_log:
            self.requests(reset=True)

    def log(self):
        return [{"method": seen.method, "status": seen.status, "if_match": seen.if_match, "if_none_match": seen.if_none_match,
                 "key": urllib.parse.unquote(seen.path.partition("?")[0]).removeprefix(f"/{self.bucket_name}/")} for seen in self.requests()]

    def set(self, **_):
        self.control(set=True)

    def fault(self, *_, **__):
        self.control(fault=True)

    def bucket(self, *_, **__):
        self.control(bucket=True)
