"""The program recode (our filters on a chunk), from the environment that CTest sets: CODECFS_RECODE.

HDF5 looks for plugins where HDF5_PLUGIN_PATH says, and reads that once, so it is set before h5py is imported: Debian's
plugins first, then ours (CODECFS_PLUGINS) for what Debian has not.
"""
import glob
import json
import os
import subprocess

RECODE = os.environ["CODECFS_RECODE"]
DEBIAN = [os.path.dirname(path) for path in glob.glob("/usr/lib/*/hdf5/serial/plugins/libh5bz2.so")]
os.environ["HDF5_PLUGIN_PATH"] = ":".join([*DEBIAN, os.environ["CODECFS_PLUGINS"]])

import pytest


class RecodeError(Exception):
    pass


def dtype_text(dtype):
    return dtype.str if dtype.names is None else json.dumps(dtype.descr)


class Recode:
    """One process of recode.cc, which serves all requests of a test module."""

    Error = RecodeError

    def __init__(self):
        self.process = None

    def start(self):
        self.process = subprocess.Popen([RECODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, direction, data, *, dtype, shape, chunks=None, spec=None, codecs=None, mask=0, optional=False):
        """(bytes, filter mask)"""
        if self.process is None:
            self.start()
        chunks = shape if chunks is None else chunks
        data = bytes(data)
        words = [str(len(data)), direction, "--dtype", dtype_text(dtype), "--shape", ",".join(map(str, shape)),
                 "--chunks", ",".join(map(str, chunks)), "--mask", str(mask)]
        words += ["--spec", spec] if codecs is None else ["--zarray", json.dumps({"filters": codecs})]
        words += ["--optional"] * optional
        try:
            self.process.stdin.write("\t".join(words).encode() + b"\n" + data)
            self.process.stdin.flush()
            status, _, rest = self.process.stdout.readline().decode().rstrip("\n").partition(" ")
            if status == "error":
                raise RecodeError(rest)
            size, filter_mask = map(int, rest.split())
            return self.process.stdout.read(size), filter_mask
        except (BrokenPipeError, ValueError):
            code, self.process = self.process.wait(10), None
            pytest.fail(f"recode ended with {code}")

    def encode(self, array, shape=None, **options):
        """The encoded bytes of a chunk, and its filter mask."""
        return self.run("encode", array.tobytes(), dtype=array.dtype, shape=shape or array.shape, chunks=array.shape, **options)

    def decode(self, stored, like, shape=None, **options):
        """An array as `like`, from encoded bytes."""
        import numpy
        data, _ = self.run("decode", stored, dtype=like.dtype, shape=shape or like.shape, chunks=like.shape, **options)
        return numpy.frombuffer(data, dtype=like.dtype).reshape(like.shape)

    def end(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait(60)


@pytest.fixture(scope="module")
def recode():
    made = Recode()
    yield made
    made.end()
