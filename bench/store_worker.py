"""A client of bench/object-stores in a process of its own, which runs in the venv with the rivals.

Requests and answers are lines of JSON on stdin and stdout. A request names the client (`client`), what it does (`do`: read,
random, list, write, walk; or make, refer, digest, delete, put, warm, versions for the benchmark itself), and the place (`endpoint`, `bucket`,
`path`; `root`: the mount point of the clients that have one). The answer has `opened` and `seconds`, the time until the
array is open and the time that the work takes then; `cpu`, the CPU seconds of both in this process; and `digest`, of what
was read. A failure is {"error": ...}. Imports are not counted.
"""
import asyncio
import concurrent.futures
import importlib.metadata
import json
import os
import pathlib
import sys
import time

import numpy as np

import store_data
from store_data import digest_of

CONCURRENCY = 64  # requests at a time, as codecfs has them: more than the defaults of all rivals but icechunk
THREADS = 32
WRITERS = 16


def in_threads(function, items, threads=THREADS):
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def chunk_names(names):
    return sorted(name for name in names if not name.startswith(".") and name != "zarr.json")


class Client:
    """What one library does. `opened()` is what the functions get as their first argument."""

    def __init__(self, request):
        self.request = request
        self.endpoint, self.bucket, self.path = request["endpoint"], request["bucket"], request["path"]
        self.root = request.get("root")

    def finish(self, opened):
        """After a write, within its time."""


class Zarr(Client):
    """zarr-python 3 on the store of a subclass."""

    def store(self, read_only):
        raise NotImplementedError

    def opened(self):
        import zarr
        does = self.request["do"]
        if does == "walk":
            return zarr.open_group(self.store(True), mode="r", use_consolidated=False)
        is_read = does != "write"
        return zarr.open_group(self.store(is_read), mode="r" if is_read else "r+")[self.request["name"]]

    def read(self, array):
        return array[...]

    def chunk(self, array, index):
        return array[index]

    def write(self, array, data):
        array[...] = data

    def walk(self, group):
        return sorted([path, list(getattr(node, "shape", ()))] for path, node in group.members(max_depth=None))


class Obstore(Zarr):
    def s3(self):
        from obstore.store import S3Store
        return S3Store(self.bucket, prefix=self.path, endpoint=self.endpoint, virtual_hosted_style_request=False,
                       client_options={"allow_http": True}, access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
                       secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"], region=os.environ["AWS_REGION"])

    def store(self, read_only):
        from zarr.storage import ObjectStore
        return ObjectStore(self.s3(), read_only=read_only)

    def opened(self):
        return self.s3() if self.request["do"] == "list" else super().opened()

    def list(self, store):
        name = self.request["name"]
        return [each["path"].rsplit("/", 1)[1] for batch in store.list(f"{name}/", chunk_size=10_000) for each in batch]


class S3fs(Zarr):
    def filesystem(self, asynchronous=True):
        import s3fs
        return s3fs.S3FileSystem(endpoint_url=self.endpoint, asynchronous=asynchronous, skip_instance_cache=True, use_listings_cache=False,
                                 config_kwargs={"max_pool_connections": CONCURRENCY, "s3": {"addressing_style": "path"}})

    def store(self, read_only):
        from zarr.storage import FsspecStore
        return FsspecStore(self.filesystem(), path=f"{self.bucket}/{self.path}", read_only=read_only)

    def opened(self):
        return self.filesystem(False) if self.request["do"] == "list" else super().opened()

    def list(self, filesystem):
        place = f"{self.bucket}/{self.path}/{self.request['name']}"
        return [path.rsplit("/", 1)[1] for path in filesystem.ls(place, detail=False)]


class Kerchunk(Zarr):
    """References of kerchunk, made beforehand."""

    def store(self, read_only):
        import fsspec.implementations.reference
        from zarr.storage import FsspecStore
        filesystem = fsspec.implementations.reference.ReferenceFileSystem(
            fo=json.loads(pathlib.Path(self.request["references"]).read_text()), remote_protocol="s3", asynchronous=True, skip_instance_cache=True,
            remote_options={"endpoint_url": self.endpoint, "asynchronous": True, "skip_instance_cache": True,
                            "config_kwargs": {"max_pool_connections": CONCURRENCY, "s3": {"addressing_style": "path"}}})
        return FsspecStore(filesystem, read_only=read_only)


class Icechunk(Zarr):
    """A repository of its own with the same arrays."""

    def repository(self, make=False):
        import icechunk
        storage = icechunk.s3_storage(bucket=self.bucket, prefix=f"icechunk/{self.path}", endpoint_url=self.endpoint, allow_http=True,
                                      force_path_style=True, access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
                                      secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"], region=os.environ["AWS_REGION"])
        return (icechunk.Repository.create if make else icechunk.Repository.open)(storage)

    def store(self, read_only):
        if read_only:
            return self.repository().readonly_session("main").store
        self.session = self.repository().writable_session("main")
        return self.session.store

    def finish(self, opened):
        self.session.commit("written")


class Mounted(Zarr):
    """zarr-python 3 on a mount of the bucket."""

    def store(self, read_only):
        from zarr.storage import LocalStore
        return LocalStore(f"{self.root}/{self.path}", read_only=read_only)

    def opened(self):
        return f"{self.root}/{self.path}/{self.request['name']}" if self.request["do"] == "list" else super().opened()

    def list(self, path):
        return os.listdir(path)


class Root(Mounted):
    """zarr-python 3 on a mount of the store."""

    def store(self, read_only):
        from zarr.storage import LocalStore
        return LocalStore(self.root, read_only=read_only)


class H5py(Client):
    """h5py on a file of a mount, or of s3fs."""

    def opened(self):
        import h5py
        if self.root:
            return h5py.File(f"{self.root}/{self.path}")[self.request["name"]]
        filesystem = S3fs(self.request).filesystem(False)
        file = filesystem.open(f"{self.bucket}/{self.path}", "rb", block_size=8 << 20, cache_type="blockcache")
        return h5py.File(file)[self.request["name"]]

    def read(self, variable):
        return variable[...]


class Tensorstore(Client):
    def kvstore(self):
        return {"driver": "s3", "bucket": self.bucket, "path": f"{self.path}/{self.request['name']}/", "endpoint": self.endpoint,
                "aws_region": os.environ["AWS_REGION"], "aws_credentials": {"type": "environment"}}

    def opened(self):
        import tensorstore
        context = tensorstore.Context({"s3_request_concurrency": {"limit": CONCURRENCY},
                                       "data_copy_concurrency": {"limit": len(os.sched_getaffinity(0))}})
        if self.request["do"] == "list":
            return tensorstore.KvStore.open(self.kvstore(), context=context).result()
        return tensorstore.open({"driver": "zarr3" if self.request["format"] == 3 else "zarr", "kvstore": self.kvstore()}, open=True,
                                context=context, read=True, write=self.request["do"] == "write").result()

    def read(self, array):
        return array.read().result()

    def chunk(self, array, index):
        return array[index].read().result()

    def write(self, array, data):
        array.write(data).result()

    def list(self, store):
        return [key.decode() for key in store.list().result()]


class Codecfs(Client):
    """Programs on a mount of codecfs: numpy, and one file for each chunk."""

    def opened(self):
        name, does = self.request["name"], self.request["do"]
        path = pathlib.Path(self.root, f"{name}.npy" if does == "read" else name)
        if does != "list":
            path.stat()
        return path

    def read(self, path):
        return np.load(path)

    def chunk(self, path, index):
        return np.fromfile(path / f"c/{index}/0", self.request["dtype"])

    def list(self, path):
        return os.listdir(path)

    def write(self, path, data):
        with open(path, "r+b", buffering=0) as file:
            view = memoryview(data).cast("B")
            while view:
                view = view[file.write(view):]


class ChunkFiles(Codecfs):
    """codecfs, written as one file for each chunk by several threads."""

    def opened(self):
        path = pathlib.Path(self.root, self.request["name"])
        path.stat()
        return path

    def write(self, path, data):
        name = "c/{}/0" if self.request["format"] == 3 else "{}.0"

        def write_chunk(index):
            with open(path / name.format(index), "wb", buffering=0) as file:
                file.write(data[index])

        in_threads(write_chunk, range(len(data)), WRITERS)


CLIENTS = {"obstore": Obstore, "s3fs": S3fs, "kerchunk": Kerchunk, "icechunk": Icechunk, "tensorstore": Tensorstore, "mounted": Mounted,
           "root": Root, "h5py": H5py, "codecfs": Codecfs, "chunk-files": ChunkFiles}


# --- what is measured


def measure(request):
    client, does = CLIENTS[request["client"]](request), request["do"]
    data = store_data.values(request["values"]) if does == "write" else None
    used, start = time.process_time(), time.perf_counter()
    opened = client.opened()
    middle = time.perf_counter()
    result = None
    if does == "read":
        result = client.read(opened)
    elif does == "random":
        result = in_threads(lambda index: client.chunk(opened, index), request["chunks"])
    elif does == "list":
        result = client.list(opened)
    elif does == "walk":
        result = client.walk(opened)
    else:
        client.write(opened, data)
        client.finish(opened)
    end = time.perf_counter()
    reply = {"opened": middle - start, "seconds": end - middle, "cpu": time.process_time() - used}
    if does == "list":
        result = chunk_names(result)
    if does == "random":
        result = np.concatenate([np.ravel(each) for each in result])
    return reply | ({} if result is None else {"digest": digest_of(result)})


# --- what the benchmark itself needs, straight from the server


def codecs_of(layout):
    import numcodecs
    import zarr.codecs
    if layout["format"] == 2:
        return {"compressors": numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE), "filters": None}
    return {"compressors": zarr.codecs.ZstdCodec(level=1)}


def make(request):
    """A store with arrays; `layout`: name, values or shape, dtype, chunks, shards, format. With `values`, it is filled."""
    import zarr
    client = CLIENTS[request["client"]](request)
    if request["client"] == "icechunk":
        client.repository(make=True)
    store = client.store(False)
    for layout in request["layouts"]:
        *groups, name = layout["name"].split("/")
        group = zarr.open_group(store, mode="a", zarr_format=layout["format"])
        for each in groups:
            group = group.require_group(each)
        shape, dtype, chunks = store_data.shape_of(layout["values"])
        array = group.create_array(name, shape=shape, dtype=dtype, chunks=chunks, shards=layout.get("shards"), fill_value=0,
                                   **codecs_of(layout))
        if not layout.get("is_empty"):
            array[...] = store_data.values(layout["values"])
    if request["client"] == "icechunk":
        client.session.commit("made")
    elif request.get("consolidated", True):
        zarr.consolidate_metadata(store)
    return {}


def put(request):
    """Objects below a path, with content of one byte: chunks of an array of bytes without a codec."""
    store = Obstore(request).s3()

    async def all_of_them():
        limit = asyncio.Semaphore(CONCURRENCY)

        async def one(index):
            async with limit:
                await store.put_async(f"{request['name']}/{index}", b"x")

        await asyncio.gather(*(one(index) for index in range(request["count"])))

    store.put(".zgroup", b'{"zarr_format": 2}')
    array = {"zarr_format": 2, "shape": [request["count"]], "chunks": [1], "dtype": "|u1", "compressor": None, "filters": None,
             "fill_value": 0, "order": "C"}
    store.put(f"{request['name']}/.zarray", json.dumps(array).encode())
    store.put(".zmetadata", json.dumps({"zarr_consolidated_format": 1, "metadata": {
        ".zgroup": {"zarr_format": 2}, f"{request['name']}/.zarray": array}}).encode())
    asyncio.run(all_of_them())
    return {"digest": digest_of(sorted(str(index) for index in range(request["count"])))}


def put_file(request):
    client = Obstore(request | {"path": ""})
    client.s3().put(request["path"], pathlib.Path(request["file"]).read_bytes())
    return {}


def delete(request):
    store = Obstore(request | {"path": ""}).s3()
    for batch in store.list(f"{request['path']}/"):
        store.delete([each["path"] for each in batch])
    return {}


def make_bucket(request):
    import s3fs
    s3fs.S3FileSystem(endpoint_url=request["endpoint"], skip_instance_cache=True,
                      config_kwargs={"s3": {"addressing_style": "path"}}).mkdir(request["bucket"])
    return {}


def refer(request):
    import kerchunk.hdf
    with open(request["file"], "rb") as file:
        made = kerchunk.hdf.SingleHdf5ToZarr(file, f"s3://{request['bucket']}/{request['path']}", inline_threshold=300).translate()
    pathlib.Path(request["references"]).write_text(json.dumps(made, default=lambda value: value.decode()))
    return {}


def versions(request):
    return {"versions": {name: importlib.metadata.version(name) for name in request["names"]}}


def warm(request):
    for name in request["modules"]:
        __import__(name)
    if "zarr" in request["modules"]:
        import zarr
        zarr.config.set({"async.concurrency": CONCURRENCY})
    return {}


OTHERS = {"make": make, "put": put, "put_file": put_file, "delete": delete, "bucket": make_bucket, "refer": refer, "versions": versions,
          "warm": warm}


def main():
    # What a library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            request = json.loads(line)
            reply = OTHERS.get(request["do"], measure)(request)
        except Exception as error:  # sent to the process that asked
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main()
