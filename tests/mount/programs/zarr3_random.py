"""Random arrays of Zarr v3, run by the Python of a venv with zarr-python 3, tensorstore and zarrs:

    zarr3_random.py write STORE VALUES COUNT SEED    writes COUNT arrays into a store, each by one of them, and what they hold
                                                     into VALUES, as NumPy files
    zarr3_random.py check STORE VALUES               reads all arrays of a store with each of them, prints the differences
"""
import json
import pathlib
import sys

import numpy as np
import tensorstore
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

DTYPES = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "M8[ns]", "m8[s]", "U3", "S5", "str"]
PORTABLE = set("bool i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split())  # that all of them can write


def values_of(rng, dtype, shape, fill):
    if dtype == "str":
        flat = [rng.choice(["", "a", "häß", "x" * int(rng.integers(50))]) for _ in range(int(np.prod(shape)))]
        return np.array(flat, dtype=object).reshape(shape)
    if dtype[0] in "US":
        return np.array([str(i) for i in rng.integers(0, 999, int(np.prod(shape)))]).astype(dtype).reshape(shape)
    raw = rng.integers(-100, 100, shape)
    if dtype in ("bool",) or dtype[0] == "u":
        raw = abs(raw)
    if rng.random() < 0.3 and len(shape):
        raw[: shape[0] // 2] = 0
    return raw.astype("i8").astype(dtype) if dtype[0] in "mM" else raw.astype(dtype)


def compressor(rng):
    kind = rng.integers(6)
    if kind == 0:
        return []
    if kind == 1:
        return [GzipCodec(level=int(rng.integers(0, 9)))]
    if kind == 2:
        return [BloscCodec(cname=str(rng.choice(["lz4", "zstd", "zlib", "blosclz"])), clevel=int(rng.integers(1, 9)),
                           shuffle=str(rng.choice(["noshuffle", "shuffle", "bitshuffle"])), typesize=int(rng.choice([1, 2, 4, 8])))]
    if kind == 3:
        return [ZstdCodec(level=int(rng.integers(-3, 10)), checksum=bool(rng.integers(2))), Crc32cCodec()]
    if kind == 4:
        return [Crc32cCodec()]
    return [ZstdCodec()]


def make(rng, group, name):
    dtype = str(rng.choice(DTYPES))
    rank = int(rng.integers(0, 5))
    chunks = tuple(int(n) for n in rng.integers(1, 6, rank))
    ratio = tuple(int(n) for n in rng.integers(1, 4, rank))
    is_sharded = rank > 0 and rng.random() < 0.5
    shards = tuple(c * r for c, r in zip(chunks, ratio))
    shape = tuple(int(n) for n in rng.integers(1, 14, rank))
    # zarr-python 3.1 cannot read transposed strings that it has written.
    is_transposed = rank > 1 and dtype != "str" and rng.random() < 0.3
    filters = [TransposeCodec(order=tuple(int(a) for a in rng.permutation(rank)))] if is_transposed else []
    more = {}
    if dtype not in ("str",) and dtype[0] not in "US" and rng.random() < 0.6:
        more["fill_value"] = np.array(0 if dtype == "bool" else 3).astype("i8").astype(dtype)[()]
    if dtype != "str" and not is_sharded and dtype[-1] not in "1l" and rng.random() < 0.3:
        more["serializer"] = BytesCodec(endian="big")
    if is_sharded and rng.random() < 0.3 and dtype != "str":
        inner = [*filters, BytesCodec(), *compressor(rng)]
        codec = ShardingCodec(chunk_shape=chunks, codecs=inner, index_location=str(rng.choice(["start", "end"])))
        return group.create_array(name, shape=shape, chunks=shards, dtype=dtype, serializer=codec, compressors=None, filters=None,
                                  **{k: v for k, v in more.items() if k != "serializer"}), dtype, shape
    encoding = {"name": str(rng.choice(["default", "v2"])), "separator": str(rng.choice(["/", "."]))}
    return group.create_array(name, shape=shape, chunks=chunks, shards=shards if is_sharded else None, dtype=dtype,
                              filters=filters or None, compressors=compressor(rng) or None, chunk_key_encoding=encoding,
                              **more), dtype, shape


def open_tensorstore(path):
    return tensorstore.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}).result()


def write_all(store, values, count, seed):
    rng = np.random.default_rng(seed)
    group = zarr.create_group(store)
    pathlib.Path(values).mkdir()
    for i in range(count):
        array, dtype, shape = make(rng, group, f"a{i}")
        content = values_of(rng, dtype, shape, array.fill_value)
        writer = rng.integers(3) if dtype in PORTABLE else 0
        try:
            if writer == 1:
                open_tensorstore(f"{store}/a{i}").write(content).result()
            elif writer == 2:
                with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
                    zarr.open_array(f"{store}/a{i}", mode="r+")[...] = content
            else:
                array[...] = content
        except Exception as error:  # a writer need not know all codecs
            print(f"a{i}: written by zarr-python instead: {str(error)[:100]}", file=sys.stderr)
            array[...] = content
        np.save(f"{values}/a{i}.npy", content.astype("U") if dtype == "str" else content)


def same(one, other):
    one, other = np.asarray(one), np.asarray(other)
    if "O" in one.dtype.kind + other.dtype.kind or "T" in one.dtype.kind + other.dtype.kind:
        return one.shape == other.shape and [str(x) for x in one.ravel()] == [str(x) for x in other.ravel()]
    return one.shape == other.shape and bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))


def check(store, values):
    import zarrs  # noqa: F401
    bad, read = [], {"zarr-python": 0, "zarrs": 0, "tensorstore": 0}
    for file in sorted(pathlib.Path(values).glob("*.npy")):
        expected = np.load(file)
        path = f"{store}/{file.stem}"

        def by_zarrs():
            with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
                return zarr.open_array(path, mode="r", zarr_format=3)[...]
        readers = {"zarr-python": lambda: zarr.open_array(path, mode="r", zarr_format=3)[...]}
        if expected.dtype.str[1:] in PORTABLE or expected.dtype == bool:
            readers["tensorstore"] = lambda: open_tensorstore(path).read().result()
            readers["zarrs"] = by_zarrs
        for name, reader in readers.items():
            try:
                got = reader()
            except Exception as error:
                if name == "zarr-python" or "nsupported" not in str(error):
                    bad.append(f"{file.stem} by {name}: {str(error)[:300]}")
                continue
            read[name] += 1
            if not same(got, expected):
                bad.append(f"{file.stem} by {name}: other values")
    print("RESULT " + json.dumps({"bad": bad, "read": read}))


def dump(top, values):
    """All arrays below a directory: {path: the file with its values, or the error}."""
    found = {}
    for file in sorted(pathlib.Path(top).rglob("zarr.json")):
        if json.loads(file.read_text()).get("node_type") != "array":
            continue
        try:
            content = np.asarray(zarr.open_array(str(file.parent), mode="r", zarr_format=3)[...])
            if content.dtype.kind in "OT":
                content = np.array([str(item) for item in content.ravel()], "U").reshape(content.shape)
            name = f"{len(found)}.npy"
            np.save(f"{values}/{name}", content)
        except Exception as error:
            name = f"error: {error}"
        found[str(file.parent.relative_to(top))] = name
    print("RESULT " + json.dumps(found))


if __name__ == "__main__":
    import warnings
    warnings.simplefilter("ignore")
    if sys.argv[1] == "write":
        write_all(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    elif sys.argv[1] == "dump":
        dump(sys.argv[2], sys.argv[3])
    else:
        check(sys.argv[2], sys.argv[3])
