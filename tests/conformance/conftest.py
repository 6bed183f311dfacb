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


def run(direction, data, *, dtype, shape, chunks=None, spec=None, codecs=None, mask=0, optional=False):
    chunks = shape if chunks is None else chunks
    command = [RECODE, direction, "--dtype", dtype_text(dtype), "--shape", ",".join(map(str, shape)),
               "--chunks", ",".join(map(str, chunks)), "--mask", str(mask)]
    command += ["--spec", spec] if codecs is None else ["--zarray", json.dumps({"filters": codecs})]
    command += ["--optional"] * optional
    done = subprocess.run(command, input=bytes(data), capture_output=True, timeout=120)
    if done.returncode != 0:
        raise RecodeError(done.stderr.decode())
    return done.stdout, done.stderr.decode()


def encode(array, shape=None, **options):
    """The encoded bytes of a chunk, and its filter mask."""
    stored, mask = run("encode", array.tobytes(), dtype=array.dtype, shape=shape or array.shape,
                       chunks=array.shape, **options)
    return stored, int(mask)


def decode(stored, like, shape=None, **options):
    """An array as `like`, from encoded bytes."""
    import numpy
    data, _ = run("decode", stored, dtype=like.dtype, shape=shape or like.shape, chunks=like.shape, **options)
    return numpy.frombuffer(data, dtype=like.dtype).reshape(like.shape)


class Recode:
    Error = RecodeError
    encode = staticmethod(encode)
    decode = staticmethod(decode)


@pytest.fixture
def recode():
    return Recode
