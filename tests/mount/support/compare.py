"""Compares a mounted tree with what h5py, zarr-python and xarray say of the source. Nothing here knows codecfs's code."""
import itertools
import json
import math

import h5py
import numpy as np


def chunk_names(shape, chunks):
    """(name, slices of the array, slices of the chunk) for every cell of the grid."""
    cells = [range(math.ceil(n / c)) for n, c in zip(shape, chunks)]
    for index in itertools.product(*cells):
        array = tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, chunks, shape))
        chunk = tuple(slice(0, s.stop - s.start) for s in array)
        yield ".".join(map(str, index)) or "0", array, chunk


def numpy_dtype(dtype):
    """The numpy type of a .zarray's dtype, whose structured form is a list of lists."""
    if isinstance(dtype, str):
        return np.dtype(dtype)
    return np.dtype([(name, numpy_dtype(inner), *map(tuple, shape)) for name, inner, *shape in dtype])


def is_padding(name):
    return name.startswith("__pad")


def same_bytes(ours, theirs, where):
    """Equal byte for byte; of structured types every member but the padding."""
    if ours.dtype.names:
        names = [name for name in ours.dtype.names if not is_padding(name)]
        assert set(theirs.dtype.names) == set(names), where
        for name in names:
            same_bytes(ours[name], theirs[name], f"{where}.{name}")
        return
    assert ours.shape == theirs.shape, where
    theirs = np.asarray(theirs)
    if theirs.dtype.kind != "O" and ours.dtype.itemsize == theirs.dtype.itemsize:
        assert np.ascontiguousarray(ours).tobytes() == np.ascontiguousarray(theirs).tobytes(), where
    else:
        assert (ours == theirs.astype(ours.dtype)).all(), where


def vlen_strings(data):
    """The elements of a chunk in numcodecs' vlen-utf8 form."""
    count = int.from_bytes(data[:4], "little")
    at, strings = 4, []
    for _ in range(count):
        size = int.from_bytes(data[at:at + 4], "little")
        strings.append(data[at + 4:at + 4 + size].decode())
        at += 4 + size
    assert at == len(data)
    return np.array(strings, dtype=object)


def read_variable(directory, values):
    """Checks every chunk file of a variable against `values` (an array as the other library reads it). Absent chunks are
    for the comparison of whole arrays: zarr-python fills them. Returns how many chunk files there were."""
    facts = json.loads((directory / ".zarray").read_text())
    shape, chunks, dtype = tuple(facts["shape"]), tuple(facts["chunks"]), numpy_dtype(facts["dtype"])
    assert facts["compressor"] is None and facts["order"] == "C"
    assert values.shape == shape, f"{directory}: {values.shape} is not {shape}"
    seen = absent = 0
    stored = {p.name for p in directory.iterdir()} - {".zarray", ".zattrs", "_Filter", "_Codecs"}
    for name, array, chunk in chunk_names(shape, chunks):
        path = directory / name
        if name not in stored:
            absent += 1
            assert absent > 1000 or not path.exists(), f"{path}: is not listed, but there"
            assert facts["fill_value"] is not None, f"{path}: absent, and fill_value is null"
            continue
        seen += 1
        data = path.read_bytes()
        assert path.stat().st_size == len(data)
        if dtype.kind == "O":
            ours = vlen_strings(data).reshape(chunks)
            theirs = np.vectorize(text_of, otypes=[object])(values[array]) if values[array].size else values[array]
            assert (ours[chunk] == theirs).all(), path
            continue
        assert len(data) == math.prod(chunks) * dtype.itemsize, path
        same_bytes(np.frombuffer(data, dtype).reshape(chunks)[chunk], values[array], str(path))
    assert seen == len(stored), f"{directory}: lists what is no chunk: {stored}"
    return seen


def text_of(value):
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def same_values(a, b):
    """Equal, where NaN is equal to NaN, strings to bytes, and lists to arrays of one shape."""
    if isinstance(a, h5py.Empty) or isinstance(b, h5py.Empty) or a is None or b is None:
        return (a is None or isinstance(a, h5py.Empty)) and (b is None or isinstance(b, h5py.Empty))
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "OSU" or b.dtype.kind in "OSU":
        return [text_of(x) for x in a.ravel().tolist()] == [text_of(x) for x in b.ravel().tolist()]
    if a.dtype.names or b.dtype.names or a.dtype.kind in "mM":
        return a.tobytes() == b.tobytes()
    if a.dtype.kind in "fc" or b.dtype.kind in "fc":
        return bool(np.array_equal(a.astype(complex), b.astype(complex), equal_nan=True))
    return bool((a == b).all())
