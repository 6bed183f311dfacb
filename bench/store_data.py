"""The arrays of bench/object-stores, made of their descriptions in each process that needs them: {"kind", "count"}."""
import hashlib
import json

import numpy as np

LAT, LON = 721, 1440


def shape_of(description):
    """(shape, dtype, chunks)"""
    kind, count = description["kind"], description["count"]
    if kind == "era5":  # count: steps of four chunks
        return (count, LAT, LON), "<i2", (1, 361, 720)
    if kind == "rows":  # count: chunks of 64 KiB
        return (count, 1 << 16), "|u1", (1, 1 << 16)
    if kind == "line":  # count: elements, in one chunk
        return (count,), "<f4", (count,)
    return (count, description["width"]), "<f4", (1, description["width"])  # "floats"; count: chunks


def values(description):
    shape, dtype, _ = shape_of(description)
    random = np.random.default_rng(2)
    if description["kind"] == "era5":
        base = np.cumsum(random.integers(-3, 4, size=shape[1:]), axis=1)
        return np.stack([base + random.integers(-8, 9, size=shape[1:]) for _ in range(shape[0])]).astype(dtype)
    if description["kind"] == "rows":
        return random.integers(0, 16, size=shape, dtype=dtype)
    return np.round(np.cumsum(random.normal(size=shape), axis=1), 2).astype(dtype)


def digest_of(what):
    """Of the bytes of an array, or of anything that JSON has."""
    data = memoryview(np.ascontiguousarray(what)).cast("B") if isinstance(what, np.ndarray) else json.dumps(what).encode()
    return hashlib.sha256(data).hexdigest()
