"""Arrays of Zarr v3 of each type and codec, which support/zarr3_stores.py of tests writes."""
import numpy as np
from zarr3_stores import named, write_array, write_group

LITTLE = named("bytes", endian="little")
ZSTD = named("zstd", level=3, checksum=False)


def counting(dtype, *shape):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def sharding(chunk_shape, codecs, **more):
    return named("sharding_indexed", chunk_shape=chunk_shape, codecs=codecs, **more)


def structured():
    return np.array([(i, i / 2) for i in range(10)], [("a", "<i2"), ("b", "<f8")])


# name: (values, shape of the chunk grid, codecs, data_type, fill value as element, fill_value)
CASES = {
    "plain": (counting("i4", 10, 7), (4, 3), [LITTLE], "int32", 5, 5),
    "scalar": (np.array(3.5), (), [LITTLE], "float64", 0, 0.0),
    "empty": (np.zeros((0, 4), "u1"), (2, 2), [named("bytes")], "uint8", 0, 0),
    "bool": (counting("i4", 9) % 3 == 0, (4,), [named("bytes")], "bool", False, False),
    "big": (counting(">f4", 6, 6), (4, 4), [named("bytes", endian="big"), ZSTD], "float32", np.nan, "NaN"),
    "float16": (counting("f2", 30), (7,), [LITTLE], "float16", -np.inf, "-Infinity"),
    "complex": (counting("c16", 5) * 1j, (2,), [LITTLE], "complex128", 1 - 2j, [1.0, -2.0]),
    "uint64": (counting("u8", 5) + 2**63, (2,), [LITTLE], "uint64", 2**64 - 1, 2**64 - 1),
    "datetime": (counting("M8[25s]", 9), (4,), [LITTLE],
                 named("numpy.datetime64", unit="s", scale_factor=25), np.datetime64("NaT"), "NaT"),
    "timedelta": (counting("m8[ns]", 9), (4,), [LITTLE], named("numpy.timedelta64", unit="ns", scale_factor=1), 7, 7),
    "unicode": (np.array(["", "ä", "xyz"], "<U3"), (2,), [LITTLE], named("fixed_length_utf32", length_bytes=12), "äb", "äb"),
    "bytes": (np.array([b"", b"a", b"xyz"], "S3"), (2,), [named("bytes")],
              named("null_terminated_bytes", length_bytes=3), b"ab", "YWI="),
    "raw": (np.array([b"\1\2\3", b"\4\5\6"], "V3"), (2,), [named("bytes")], "r24", np.void(b"\0\1\2"), [0, 1, 2]),
    "struct": (structured(), (4,), [LITTLE], named("struct", fields=[{"name": "a", "data_type": "int16"},
                                                                     {"name": "b", "data_type": "float64"}]),
               np.array((1, 2.5), structured().dtype), {"a": 1, "b": 2.5}),
    "structured": (structured(), (4,), [LITTLE], named("structured", fields=[["a", "int16"], ["b", "float64"]]),
                   np.array((1, 0), structured().dtype), "AQAAAAAAAAAAAA=="),
    "text": (np.array(["a", "", "häß", "zz"], object), (3,), [named("vlen-utf8"), ZSTD], "string", "", ""),
    "short_forms": (counting("u1", 7), (3,), ["bytes"], "uint8", 1, 1),
    "gzip": (counting("i8", 50), (20,), [LITTLE, named("gzip", level=5)], "int64", 0, 0),
    "blosc": (counting("i8", 50), (20,), [LITTLE, named("blosc", typesize=8, cname="lz4", clevel=5, shuffle="shuffle",
                                                        blocksize=0)], "int64", 0, 0),
    "bitshuffle": (counting("u1", 500), (200,), [named("bytes"), named("blosc", typesize=1, cname="zstd", clevel=1,
                                                                       shuffle="bitshuffle", blocksize=0)], "uint8", 0, 0),
    "crc32c": (counting("i2", 50), (20,), [LITTLE, ZSTD, named("crc32c")], "int16", 0, 0),
    "numcodecs": (counting("i4", 50), (20,), [named("numcodecs.delta", dtype="<i4"), LITTLE,
                                              named("numcodecs.shuffle", elementsize=4), named("numcodecs.zlib", level=4)],
                  "int32", 0, 0),
    "transpose": (counting("u2", 9, 5, 4), (3, 5, 2), [named("transpose", order=[2, 0, 1]), LITTLE], "uint16", 0, 0),
    "transpose_twice": (counting("u2", 9, 5, 4), (3, 5, 2), [named("transpose", order=[2, 0, 1]),
                                                             named("transpose", order=[1, 0, 2]), LITTLE, ZSTD],
                        "uint16", 0, 0),
    "transposed_text": (np.array([["a", "bb", ""], ["d", "", "ffff"]], object), (2, 3),
                        [named("transpose", order=[1, 0]), named("vlen-utf8")], "string", "", ""),
    "shard": (counting("i4", 21, 17), (8, 6), [sharding([2, 3], [LITTLE, ZSTD])], "int32", 0, 0),
    "shard_at_start": (counting("i4", 21, 17), (8, 6), [sharding([2, 3], [LITTLE], index_location="start")], "int32", 9, 9),
    "shard_without_crc": (counting("i4", 21, 17), (8, 6),
                          [sharding([2, 3], [LITTLE], index_codecs=[named("bytes", endian="big")])], "int32", 9, 9),
    "shard_index_transposed": (counting("i4", 21, 17), (8, 6),
                               [sharding([2, 3], [LITTLE], index_codecs=[named("transpose", order=[2, 1, 0]), LITTLE,
                                                                         named("crc32c")])], "int32", 9, 9),
    "shard_transposed": (counting("i4", 21, 17, 3), (8, 6, 3),
                         [named("transpose", order=[1, 2, 0]),
                          sharding([3, 3, 2], [named("transpose", order=[2, 0, 1]), LITTLE])], "int32", 9, 9),
    "shard_nested": (counting("i4", 21, 17), (16, 12), [sharding([8, 6], [sharding([2, 3], [LITTLE, ZSTD])])], "int32", 0, 0),
    "shard_nested_starts": (counting("i4", 21, 17), (16, 12),
                            [sharding([8, 6], [sharding([2, 3], [LITTLE], index_location="start"), named("crc32c")],
                                      index_location="start")], "int32", 0, 0),
    "shard_compressed": (counting("i4", 21, 17), (8, 6), [sharding([2, 3], [LITTLE]), named("gzip", level=1)], "int32", 0, 0),
    "shard_text": (np.array([f"s{i}" for i in range(11)], object), (6,), [sharding([2], [named("vlen-utf8")])],
                   "string", "", ""),
    "scale_offset": (counting("f4", 50) / 4, (20,), [named("scale_offset", offset=5, scale=0.5), LITTLE], "float32", 0, 0.0),
    "scale_only": (counting(">i2", 50), (20,), [named("scale_offset", scale=-3), named("bytes", endian="big")], "int16", 0, 0),
    "cast": (counting("u2", 20, 11) + np.uint16(1000), (8, 5),
             [named("scale_offset", offset=1000), named("cast_value", data_type="uint8"), named("bytes"), ZSTD], "uint16", 1000, 1000),
    "cast_map": (np.where(counting("f8", 90) % 7 == 3, np.nan, counting("f8", 90) * 2), (20,),
                 [named("scale_offset", offset=-10, scale=0.5),
                  named("cast_value", data_type="uint8", rounding="towards-zero", out_of_range="clamp",
                        scalar_map={"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}), named("bytes")], "float64", np.nan, "NaN"),
    "cast_big": ((counting("i4", 30) - 15).astype(">i4"), (8,), [named("cast_value", data_type="int16"), named("bytes", endian="big")],
                 "int32", -1, -1),
    "cast_byte_big": (counting("u1", 30), (8,), [named("cast_value", data_type="int16"), named("bytes", endian="big")],
                      "uint8", 0, 0),
    "reshape": (counting("u2", 9, 5, 4), (3, 5, 2), [named("transpose", order=[1, 0, 2]), named("reshape", shape=[[0, 1], -1]),
                                                     LITTLE, ZSTD], "uint16", 0, 0),
    "packbits": (counting("i4", 7, 9) % 3 == 0, (3, 5), [named("packbits", padding_encoding="first_byte"), ZSTD],
                 "bool", False, False),
    "packbits_low": (counting("u2", 30) * 15, (7,), [named("packbits", last_bit=8)], "uint16", 0, 0),
    "packbits_signed": (counting("i4", 30) - 15, (7,), [named("cast_value", data_type="int8"),
                                                        named("packbits", last_bit=4, padding_encoding="last_byte")], "int32", -1, -1),
    "shard_cast": (counting("i4", 21, 17) % 200, (8, 6), [sharding([2, 3], [named("cast_value", data_type="uint8"), named("bytes")])],
                   "int32", 0, 0),
    "shard_after_cast": (counting("i4", 21, 17) % 100 + 3, (8, 6),
                         [named("scale_offset", offset=3), named("cast_value", data_type="uint8"),
                          sharding([2, 3], [named("bytes"), ZSTD], _fill=0)], "int32", 3, 3),
    "shard_after_casts": ((counting("f8", 21, 17) % 11 / 2).astype(">f8"), (16, 12),
                          [named("scale_offset", scale=2), named("transpose", order=[1, 0]),
                           named("cast_value", data_type="int16"),
                           sharding([6, 8], [sharding([3, 2], [named("bytes", endian="big")], _fill=0), named("crc32c")])],
                          "float64", 0, 0.0),
    "cast_bfloat16": (counting("f4", 30) / 4, (8,), [named("cast_value", data_type="bfloat16"), LITTLE, ZSTD], "float32", 0.5, 0.5),
    "shard_after_bfloat16": (counting("f4", 30) / 4, (8,),
                             [named("cast_value", data_type="bfloat16"), sharding([2], [LITTLE])], "float32", 0.5, 0.5),
    "cast_int4": (counting("i4", 30) % 16 - 8, (8,), [named("cast_value", data_type="int4"), named("bytes")], "int32", 0, 0),
}
ENCODINGS = {"plain": named("v2", separator="."), "shard": named("v2", separator="/"), "gzip": named("default", separator="."),
             "scalar": named("v2", separator="."), "empty": "v2", "transpose": {"name": "default"}}


def write_all(path):
    write_group(path, {"title": "all"})
    for name, (values, chunks, codecs, data_type, fill, fill_json) in CASES.items():
        encoding = ENCODINGS.get(name)
        if isinstance(encoding, str):
            encoding = {"name": encoding}
        write_array(path / name, values, chunks, codecs, data_type, fill, fill_json, encoding=encoding,
                    attributes={"units": name}, names=[f"d{i}" for i in range(values.ndim)] if name == "plain" else None)
