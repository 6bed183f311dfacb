"""Prints small_cast_vectors.inc: numbers as ml_dtypes rounds them to the floats of Zarr v3 that numpy lacks.

    python3 -m venv venv && venv/bin/pip install ml_dtypes numpy && venv/bin/python3 make_small_cast_vectors.py >small_cast_vectors.inc
"""
import ml_dtypes
import numpy as np

NAMES = ["bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
         "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"]

random = np.random.default_rng(1)
for name in NAMES:
    dtype = np.dtype(getattr(ml_dtypes, name))
    count = 256 ** dtype.itemsize
    bits = np.arange(count, dtype=f"u{dtype.itemsize}")
    with np.errstate(all="ignore"):
        values = bits.view(dtype).astype("f4")
    values = np.unique(values[np.isfinite(values)])
    picked = values if len(values) < 24 else np.sort(random.choice(values, 24, replace=False))
    at = np.searchsorted(values, picked)
    next_ones = values[np.minimum(at + 1, len(values) - 1)]
    with np.errstate(all="ignore"):
        middle = ((picked.astype("f8") + next_ones) / 2).astype("f4")
        near = (picked + (next_ones - picked) * random.random(len(picked))).astype("f4")
    numbers = np.concatenate([picked, middle, near, [values[0], values[-1]]]).astype("<f4")
    numbers = numbers[np.isfinite(numbers) & (np.abs(numbers) >= np.finfo("f4").tiny)]
    converted = numbers.astype(dtype)
    print(f'    {{"{name}", "{numbers.tobytes().hex()}", "{converted.tobytes().hex()}"}},')
