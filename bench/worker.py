"""A reader in a process of its own, for libraries that bench/run's Python does not have or that must not share it.

Requests and answers are lines of JSON on stdin and stdout: {"library": NAME, "path": PATH} opens what is there, reads
all of its variable `v`, and answers {"seconds": ...}; with "digest": true also {"digest": sha256 of its bytes};
{"version": NAME} answers {"version": ...}; a failure is {"error": ...}. Imports are not counted, nor are page faults
where the library lets that be: it reads into memory of the call before, or malloc (see rivals.py) hands it out again.
"""
import hashlib
import importlib.metadata
import json
import os
import sys
import time

import numpy as np

kept = {}  # path: memory that was read into before


def memory_for(path, shape, dtype):
    if path not in kept:
        kept.clear()
        kept[path] = np.zeros(shape, dtype)
        kept[path].fill(1)  # now its pages are there
    return kept[path]


def read_zarr(path):
    import zarr
    array = zarr.open_group(path, mode="r")["v"]
    out = memory_for(path, array.shape, array.dtype)
    if int(zarr.__version__.split(".")[0]) < 3:
        array.get_basic_selection(Ellipsis, out=out)
    else:
        from zarr.core.buffer import default_buffer_prototype
        array.get_basic_selection(Ellipsis, out=default_buffer_prototype().nd_buffer.from_numpy_array(out))
    return out


def read_zarrs(path):
    import zarr
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True}):
        return read_zarr(path)


def read_tensorstore(path):
    import tensorstore
    driver = "zarr3" if os.path.exists(f"{path}/v/zarr.json") else "zarr"
    store = tensorstore.open({"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/v/"}}, open=True,
                             read=True).result()
    return store.read().result()


def read_hidefix(path):
    import hidefix
    return hidefix.Index(path).dataset("v")[:, :, :]


READERS = {"zarr": read_zarr, "zarrs": read_zarrs, "tensorstore": read_tensorstore, "hidefix": read_hidefix}


def warm_up(library):
    __import__(library)
    if library == "zarrs":
        __import__("zarr")


def answer(request):
    if "version" in request:
        warm_up(request["version"])
        return {"version": importlib.metadata.version(request["version"])}
    read = READERS[request["library"]]
    if request.get("digest"):
        return {"digest": hashlib.sha256(memoryview(np.ascontiguousarray(read(request["path"]))).cast("B")).hexdigest()}
    start = time.perf_counter()
    read(request["path"])
    return {"seconds": time.perf_counter() - start}


def main():
    # What a library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:  # sent to the process that asked
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)


main()
