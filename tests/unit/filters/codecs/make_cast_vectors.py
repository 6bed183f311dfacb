#!/usr/bin/env python3
"""Writes cast_vectors.inc for cast_value_test.cc: elements as cast-value-rs, the library of zarr-python, converts them.

    pip install numpy cast-value-rs
    python3 make_cast_vectors.py > cast_vectors.inc
"""
import cast_value_rs
import numpy as np

ROUNDINGS = ["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"]
FLOATS = [0.0, -0.0, 0.5, 1.5, 2.5, -2.5, -0.25, 126.7, 127.5, -128.5, 255.5, 300.5, -1.5, 65519.9, 65520, 1 + 2**-24, 3 * 2**-25,
          1e-50, -1e-50, 3.4028235677973366e38, 1e39, -1e300, 2**31, 9.3e18, 1.9e19, -2.0**63, np.inf, -np.inf, np.nan]
INTEGERS = [0, 1, -1, 127, 128, -129, 255, 256, 2049, 2051, 65519, 65520, 2**24 + 1, -(2**24) - 3, 2**31, 2**53 + 1, -(2**53) - 3,
            2**55 + 2**31, 2**55 + 2**31 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]
PAIRS = ["f8 f4", "f8 f2", "f8 i1", "f8 u1", "f8 i4", "f8 i8", "f8 u8", "f4 f2", "f4 u2", "f4 f8", "f2 i1", "f2 u8", "f2 f8", "i8 f8",
         "i8 f4", "i8 f2", "i8 u8", "i8 i2", "u8 i8", "u8 f8", "u8 f4", "u8 u1", "i4 f4", "i4 u4", "i2 i1", "u1 i1", "i1 u4"]


def values_of(dtype):
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.unique(np.array(FLOATS).astype(dtype).view(f"u{dtype.itemsize}")).view(dtype)
    info = np.iinfo(dtype)
    return np.array(sorted(v for v in INTEGERS if info.min <= v <= info.max), dtype)


def cast(value, target, rounding, out_of_range):
    try:
        return cast_value_rs.cast_array(np.array([value]), target_dtype=target, rounding_mode=rounding,
                                        out_of_range_mode=out_of_range, scalar_map_entries=None)
    except ValueError:
        return None


for pair in PAIRS:
    source, target = map(np.dtype, pair.split())
    for rounding in ROUNDINGS if {source.kind, target.kind} & {"f"} and pair not in ("f4 f8", "f2 f8") else ROUNDINGS[:1]:
        for out_of_range in ["", "clamp", *(["wrap"] if target.kind in "iu" else [])]:
            done, results, failed = [], [], []
            for value in values_of(source):
                result = cast(value, target, rounding, out_of_range or None)
                if result is None:
                    failed.append(value)
                else:
                    done.append(value)
                    results.append(result)
            text = [np.array(done, source).tobytes().hex(), np.concatenate(results).tobytes().hex(),
                    np.array(failed, source).tobytes().hex()]
            print(f'{{"{source.str}", "{target.str}", "{rounding}", "{out_of_range}",\n "{text[0]}",\n "{text[1]}",\n "{text[2]}"}},')
