"""An independent writer and reader of Zarr v3 directories, for tests: from the specification, with json, numpy and numcodecs.
Small and slow; it shares no code with what it tests."""
import base64
import itertools
import json
import math
import os
import struct
import zipfile
from pathlib import Path

import numcodecs
import numpy as np

ABSENT = 2**64 - 1


def crc32c(data):
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ 0x82F63B78 if i & 1 else i >> 1
        table.append(i)
    value = 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 255] ^ value >> 8
    return value ^ 0xFFFFFFFF


def named(name, **configuration):
    return {"name": name, "configuration": configuration} if configuration else {"name": name}


def codec_of(codec, itemsize):
    """The codec of numcodecs for one of bytes."""
    name, c = codec["name"], codec.get("configuration", {})
    if name == "gzip":
        return numcodecs.GZip(c["level"])
    if name == "zstd":
        return numcodecs.Zstd(c["level"])
    if name == "blosc":
        shuffle = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}[c["shuffle"]]
        return numcodecs.Blosc(c["cname"], c["clevel"], shuffle, c["blocksize"])
    if name.startswith("numcodecs."):
        return numcodecs.get_codec({"id": name[len("numcodecs."):], **c})
    raise ValueError(name)


def vlen(items):
    items = [i.encode() if isinstance(i, str) else bytes(i) for i in items]
    return struct.pack("<I", len(items)) + b"".join(struct.pack("<I", len(i)) + i for i in items)


NUMBERS = {f"{kind}{bits}": np.dtype(f"{kind[0]}{bits // 8}")
           for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64) if (kind, bits) != ("float", 8)}
NUMBERS["int4"] = np.dtype("i1")
ROUNDING = {"nearest-even": np.rint, "towards-zero": np.trunc, "towards-positive": np.ceil, "towards-negative": np.floor,
            "nearest-away": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)}


def cast(data, c, target, direction):
    """cast_value, to integers or from integers to floats that hold them."""
    pairs = [[float(x.replace("Inf", "inf")) if isinstance(x, str) else x for x in pair]
             for pair in c.get("scalar_map", {}).get(direction, [])]
    result = []
    for value in data.ravel().tolist():
        mapped = [new for old, new in pairs if old == value or (old != old and value != value)]
        if not mapped and target.kind in "iu":
            whole, info = int(ROUNDING[c.get("rounding", "nearest-even")](np.float64(value))), np.iinfo(target)
            if c.get("out_of_range") == "clamp":
                whole = min(max(whole, info.min), info.max)
            if c.get("out_of_range") == "wrap":
                whole = (whole - info.min) % (info.max - info.min + 1) + info.min
            value = whole
        result.append(mapped[0] if mapped else value)
    return np.array(result, target).reshape(data.shape)


def reshaped(shape, c):
    """The dimensions that the codec reshape gives a chunk."""
    new = [math.prod(shape[i] for i in item) if isinstance(item, list) else item for item in c["shape"]]
    return [math.prod(shape) // -math.prod(new) if n == -1 else n for n in new]


def bits_of(dtype, c):
    width = 1 if dtype.kind == "b" else dtype.itemsize * 8
    return width, c.get("first_bit", 0), c.get("last_bit", width - 1) + 1


def packed(data, c):
    """packbits, of bools and integers."""
    width, first, end = bits_of(data.dtype, c)
    bits = np.unpackbits(np.ascontiguousarray(data).astype(data.dtype.newbyteorder("<")).view("u1"), bitorder="little")
    bits = bits.reshape(data.size, -1)[:, first:end].ravel()
    padding = bytes([-bits.size % 8])
    body = np.packbits(bits, bitorder="little").tobytes()
    return {"none": body, "first_byte": padding + body, "last_byte": body + padding}[c.get("padding_encoding", "none")]


def unpacked(data, c, shape, dtype):
    width, first, end = bits_of(dtype, c)
    body = {"none": data, "first_byte": data[1:], "last_byte": data[:-1]}[c.get("padding_encoding", "none")]
    count = math.prod(shape)
    bits = np.unpackbits(np.frombuffer(body, "u1"), bitorder="little")[:count * (end - first)].reshape(count, -1)
    whole = np.zeros((count, dtype.itemsize * 8), "u1")
    whole[:, first:end] = bits
    if dtype.kind == "i":
        whole[:, end:] = bits[:, -1:]
    return np.packbits(whole, axis=1, bitorder="little").view(dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def encode(chunk, codecs):
    """The bytes of a chunk, an array."""
    codecs = list(codecs)
    data = chunk
    while codecs:
        codec = codecs.pop(0)
        codec = {"name": codec} if isinstance(codec, str) else codec
        name, c = codec["name"], codec.get("configuration", {})
        if name == "transpose":
            data = data.transpose(c["order"])
        elif name == "bytes":
            order = {"little": "<", "big": ">", None: "="}[c.get("endian")]
            data = np.ascontiguousarray(data).astype(data.dtype.newbyteorder(order)).tobytes()
        elif name in ("vlen-utf8", "vlen-bytes"):
            data = vlen(data.ravel())
        elif name == "scale_offset":
            number = data.dtype.type
            data = ((data - number(c.get("offset", 0))) * number(c.get("scale", 1))).astype(data.dtype)
        elif name == "cast_value" and c["data_type"] == "bfloat16":  # of numbers that it can hold
            data = (data.astype("f4").view("u4") >> 16).astype("u2")
        elif name == "cast_value":
            data = cast(data, c, NUMBERS[c["data_type"]], "encode")
            if c["data_type"] == "int4":
                data ^= np.int8(0x50)  # the upper bits are arbitrary
        elif name == "reshape":
            data = np.ascontiguousarray(data).reshape(reshaped(data.shape, c))
        elif name == "packbits":
            data = packed(data, c)
        elif name == "sharding_indexed":
            data = shard(data, c)
        elif name == "crc32c":
            data += struct.pack("<I", crc32c(data))
        elif name == "numcodecs.delta":
            data = np.frombuffer(numcodecs.get_codec({"id": "delta", **c}).encode(np.ascontiguousarray(data).ravel()),
                                 data.dtype).reshape(data.shape)
        else:
            data = bytes(codec_of(codec, getattr(data, "itemsize", 1)).encode(data))
    return data


def shard(data, c):
    inner, fill = c["chunk_shape"], c.get("_fill")
    cells = [n // i for n, i in zip(data.shape, inner)]
    codecs = c.get("index_codecs", [named("bytes", endian="little"), named("crc32c")])
    count = math.prod(cells)
    size = count * 16 + (4 if any(x["name"] == "crc32c" for x in codecs) else 0)
    at_start = c.get("index_location", "end") == "start"
    body, index, at = [], np.full((*cells, 2), ABSENT, "u8"), size if at_start else 0
    for place in reversed(list(itertools.product(*map(range, cells)))):  # any order is legal
        part = data[tuple(slice(p * i, (p + 1) * i) for p, i in zip(place, inner))]
        if fill is not None and (part == fill).all():
            continue
        encoded = encode(part, c["codecs"]) + b"gap"
        body.append(encoded)
        index[place] = at, len(encoded) - 3
        at += len(encoded)
    stored = encode(index, codecs)
    assert len(stored) == size
    return (stored + b"".join(body)) if at_start else b"".join(body) + stored


def key_of(encoding, place):
    separator = encoding.get("configuration", {}).get("separator", "/" if encoding["name"] == "default" else ".")
    if encoding["name"] == "default":
        return separator.join(["c", *map(str, place)])
    return separator.join(map(str, place)) or "0"


def write_group(path, attributes=None):
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    (path / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes or {}}))


def stored_form(codecs):
    """The list without what only this writer reads."""
    if isinstance(codecs, list):
        return [stored_form(codec) for codec in codecs]
    if isinstance(codecs, dict):
        return {key: stored_form(value) for key, value in codecs.items() if key != "_fill"}
    return codecs


def write_array(path, values, chunks, codecs, data_type, fill, fill_json, encoding=None, attributes=None, names=None,
                skip_fill=False, **more):
    """`values`: the array, `chunks`: of the chunk grid (the shards)."""
    path = Path(path)
    path.mkdir(parents=True)
    encoding = encoding or named("default", separator="/")
    meta = {"zarr_format": 3, "node_type": "array", "shape": list(values.shape), "data_type": data_type,
            "chunk_grid": named("regular", chunk_shape=list(chunks)) if chunks else
            {"name": "regular", "configuration": {"chunk_shape": []}},
            "chunk_key_encoding": encoding, "fill_value": fill_json, "codecs": stored_form(codecs), "attributes": attributes or {}, **more}
    if names:
        meta["dimension_names"] = names
    (path / "zarr.json").write_text(json.dumps(meta))
    cells = [-(-n // c) for n, c in zip(values.shape, chunks)]
    for place in itertools.product(*map(range, cells)):
        part = values[tuple(slice(p * c, (p + 1) * c) for p, c in zip(place, chunks))]
        whole = np.full(tuple(chunks), fill, values.dtype)
        whole[tuple(slice(0, n) for n in part.shape)] = part
        if skip_fill and (whole == np.full(1, fill, values.dtype)).all():
            continue
        file = path / key_of(encoding, place)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode(whole, codecs))


def write_rectilinear(path, values, edges, chunk_shapes, codecs, data_type, fill, absent=()):
    """`edges`: the lengths of the chunks along each axis, `chunk_shapes`: the same as the metadata says it; `absent`: coordinates
    of chunks that are not stored, whose values become the fill value. Returns the values that a reader finds."""
    path = Path(path)
    path.mkdir(parents=True)
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": chunk_shapes}}
    (path / "zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": list(values.shape), "data_type": data_type, "chunk_grid": grid,
        "chunk_key_encoding": named("default", separator="/"), "fill_value": fill, "codecs": codecs, "attributes": {}}))
    found = values.copy()
    begins = [np.concatenate([[0], np.cumsum(lengths)]) for lengths in edges]
    for place in itertools.product(*(range(len(lengths)) for lengths in edges)):
        where = tuple(slice(int(b[p]), int(b[p + 1])) for b, p in zip(begins, place))
        part = values[where]
        if place in absent:
            found[where] = fill
        if place in absent or part.size == 0:
            continue
        whole = np.full([lengths[p] for lengths, p in zip(edges, place)], fill, values.dtype)
        whole[tuple(slice(0, n) for n in part.shape)] = part
        file = path / key_of(named("default", separator="/"), place)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode(whole, codecs))
    return found


def decode(data, codecs, shape, dtype, fill):
    """The inverse of encode(): the chunk of this shape; None if it is a shard without chunks."""
    codecs = [{"name": codec} if isinstance(codec, str) else codec for codec in codecs]
    codec, rest = codecs[0], codecs[1:]
    name, c = codec["name"], codec.get("configuration", {})
    if name == "transpose":
        order = c["order"]
        return decode(data, rest, [shape[axis] for axis in order], dtype, fill).transpose(np.argsort(order))
    if name == "scale_offset":
        number, stored = dtype.type, decode(data, rest, shape, dtype, fill)
        quotient = stored // number(c.get("scale", 1)) if dtype.kind in "iu" else stored / number(c.get("scale", 1))
        return (quotient + number(c.get("offset", 0))).astype(dtype)
    if name == "cast_value" and c["data_type"] == "bfloat16":
        bits = decode(data, rest, shape, np.dtype("u2"), np.array(fill, "f4").view("u4") >> 16)
        return (bits.astype("u4") << 16).view("f4").astype(dtype)
    if name == "cast_value":
        stored = decode(data, rest, shape, NUMBERS[c["data_type"]], 0)
        return cast(stored << 4 >> 4 if c["data_type"] == "int4" else stored, c, dtype, "decode")
    if name == "reshape":
        return decode(data, rest, reshaped(shape, c), dtype, fill).reshape(shape)
    if name == "numcodecs.delta":
        flat = decode(data, rest, shape, dtype, fill)
        return numcodecs.get_codec({"id": "delta", **c}).decode(flat.tobytes()).view(dtype).reshape(shape)
    for last in reversed(rest):
        if last["name"] == "crc32c":
            assert struct.unpack("<I", data[-4:])[0] == crc32c(data[:-4]), "checksum"
            data = data[:-4]
        else:
            data = bytes(codec_of(last, 1).decode(data))
    if name == "sharding_indexed":
        return unshard(data, c, shape, dtype, fill)
    if name in ("vlen-utf8", "vlen-bytes"):
        items, at = np.empty(math.prod(shape), object), 4
        assert struct.unpack("<I", data[:4])[0] == len(items)
        for i in range(len(items)):
            size = struct.unpack("<I", data[at:at + 4])[0]
            item = data[at + 4:at + 4 + size]
            items[i], at = (item.decode() if name == "vlen-utf8" else item), at + 4 + size
        assert at == len(data)
        return items.reshape(shape)
    if name == "packbits":
        return unpacked(data, c, shape, dtype)
    assert name == "bytes", name
    order = {"little": "<", "big": ">", None: "="}[c.get("endian")]
    values = np.frombuffer(data, dtype.newbyteorder(order))
    assert values.size == math.prod(shape)
    return values.reshape(shape)


def unshard(data, c, shape, dtype, fill):
    inner = c["chunk_shape"]
    cells = [n // i for n, i in zip(shape, inner)]
    codecs = c.get("index_codecs", [named("bytes", endian="little"), named("crc32c")])
    size = math.prod(cells) * 16 + (4 if named("crc32c") in codecs else 0)
    index = decode(data[:size] if c.get("index_location") == "start" else data[-size:], codecs, [*cells, 2], np.dtype("u8"), 0)
    whole = np.full(shape, fill, dtype)
    for place in itertools.product(*map(range, cells)):
        offset, length = (int(n) for n in index[place])
        if (offset, length) != (ABSENT, ABSENT):
            assert offset + length <= len(data)
            part = decode(data[offset:offset + length], c["codecs"], inner, dtype, fill)
            whole[tuple(slice(p * i, (p + 1) * i) for p, i in zip(place, inner))] = part
    return whole


def read_array(path, dtype, fill):
    """All values. `dtype`, `fill`: as given to write_array(): this reader does not know the names of types."""
    path = Path(path)
    meta = json.loads((path / "zarr.json").read_text())
    chunks, shape = meta["chunk_grid"]["configuration"]["chunk_shape"], meta["shape"]
    values = np.full(shape, fill, dtype)
    for place in itertools.product(*(range(-(-n // c)) for n, c in zip(shape, chunks))):
        file = path / key_of(meta["chunk_key_encoding"], place)
        if file.exists():
            where = tuple(slice(p * c, min((p + 1) * c, n)) for p, c, n in zip(place, chunks, shape))
            chunk = decode(file.read_bytes(), meta["codecs"], chunks, np.dtype(dtype), fill)
            values[where] = chunk[tuple(slice(0, w.stop - w.start) for w in where)]
    return values


def zip_store(directory, archive, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(archive, "w", method) as file:
        for folder, _, names in os.walk(directory):
            for name in names:
                full = os.path.join(folder, name)
                file.write(full, os.path.relpath(full, directory))
