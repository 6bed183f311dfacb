"""A small reader of Zarr v3, independent of codecfs and of zarr-python: json, numpy and numcodecs. It knows what the v3
views write and refuses everything else."""
import base64
import gzip
import json
import math
import os
import pathlib

import numcodecs
import numpy as np

NUMBERS = {"bool": "?", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4",
           "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8", "complex64": "c8", "complex128": "c16"}
SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
ARRAY_KEYS = {"zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs",
              "attributes"}


def metadata_of(directory):
    return json.loads((pathlib.Path(directory) / "zarr.json").read_text())


def dtype_of(data_type, order):
    """`order`: "<" or ">"."""
    if isinstance(data_type, str):
        return np.dtype(object) if data_type == "string" else np.dtype(order + NUMBERS[data_type])
    name, configuration = data_type["name"], data_type["configuration"]
    length = configuration.get("length_bytes")
    if name == "struct":
        return np.dtype([(field["name"], dtype_of(field["data_type"], order)) for field in configuration["fields"]])
    if name == "structured":
        return np.dtype([(field, dtype_of(data_type, order)) for field, data_type in configuration["fields"]])
    if name in ("numpy.datetime64", "numpy.timedelta64"):
        return np.dtype(f"{order}{'M' if name[6] == 'd' else 'm'}8[{configuration['scale_factor']}{configuration['unit']}]")
    return np.dtype({"null_terminated_bytes": f"S{length}", "raw_bytes": f"V{length}",
                     "fixed_length_utf32": f"{order}U{length // 4 if name == 'fixed_length_utf32' else 0}"}[name])


def number_of(value):
    return SPECIAL.get(value, value) if isinstance(value, str) else value


def fill_of(dtype, value):
    """One element."""
    if dtype == object:
        return value
    if dtype.names and isinstance(value, str):
        return np.frombuffer(base64.b64decode(value), dtype)[0]
    if dtype.names:
        return np.array([tuple(fill_of(dtype[name], value[name]) for name in dtype.names)], dtype)[0]
    if dtype.kind in "SV":
        return np.frombuffer(base64.b64decode(value).ljust(dtype.itemsize, b"\0"), dtype)[0]
    if dtype.kind == "c":
        return np.array(complex(*map(number_of, value)), dtype)[()]
    if isinstance(value, str) and value.startswith("0x"):
        return np.frombuffer(bytes.fromhex(value[2:])[::-1], dtype.newbyteorder("<"))[0].astype(dtype)
    if dtype.kind in "Mm" and value == "NaT":
        return dtype.type("NaT")
    return np.array(number_of(value), "i8" if dtype.kind in "Mm" else dtype).astype(dtype)[()]


def undo(codec, data):
    """Decodes one codec that maps bytes to bytes."""
    name, configuration = codec["name"], dict(codec.get("configuration", {}))
    if name == "crc32c":
        from_crc = int.from_bytes(data[-4:], "little")
        assert from_crc == crc32c(data[:-4]), "crc32c"
        return data[:-4]
    if name == "gzip":
        return gzip.decompress(data)
    if name == "numcodecs.fletcher32":
        words = np.frombuffer(data[:-4] + b"\0" * (len(data) % 2), ">u2").astype(object)
        low = int(words.sum())
        high = int((words * np.arange(len(words), 0, -1)).sum())
        assert int.from_bytes(data[-4:], "little") == fold(high) << 16 | fold(low), "fletcher32"
        return data[:-4]
    assert name in ("zstd", "blosc") or name.startswith("numcodecs."), name
    if name == "blosc":
        assert set(configuration) == {"typesize", "cname", "clevel", "shuffle", "blocksize"}
        return bytes(numcodecs.Blosc().decode(data))
    if name == "zstd":
        assert set(configuration) == {"level", "checksum"}
        return bytes(numcodecs.Zstd().decode(data))
    return bytes(numcodecs.get_codec({"id": name.partition(".")[2], **configuration}).decode(data))


def fold(value):
    """Modulo 65535, but 0 only for 0, as HDF5 has it."""
    return value and (value - 1) % 65535 + 1


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def key_of(metadata, coordinates):
    assert metadata["chunk_key_encoding"] == {"name": "default", "configuration": {"separator": "/"}}
    return "/".join(["c", *map(str, coordinates)])


def read_array(directory):
    directory = pathlib.Path(directory)
    metadata = metadata_of(directory)
    assert ARRAY_KEYS <= set(metadata) <= ARRAY_KEYS | {"dimension_names"}, set(metadata) ^ ARRAY_KEYS
    assert metadata["zarr_format"] == 3 and metadata["node_type"] == "array" and metadata["chunk_grid"]["name"] == "regular"
    shape, chunks = tuple(metadata["shape"]), tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"])
    names = [codec["name"] for codec in metadata["codecs"]]
    at = next(i for i, name in enumerate(names) if name in ("bytes", "vlen-utf8"))
    assert at == 0, "no codec of arrays is expected"
    serializer = metadata["codecs"][at]
    order = {"little": "<", "big": ">"}[serializer.get("configuration", {}).get("endian", "little")]
    dtype = dtype_of(metadata["data_type"], order)
    result = np.full(shape, fill_of(dtype, metadata["fill_value"]), dtype)
    for index in np.ndindex(*(-(-s // c) for s, c in zip(shape, chunks))):
        try:
            data = (directory / key_of(metadata, index)).read_bytes()
        except FileNotFoundError:
            continue
        for codec in reversed(metadata["codecs"][at + 1:]):
            data = undo(codec, data)
        if names[at] == "vlen-utf8":
            chunk = numcodecs.VLenUTF8().decode(data).reshape(chunks)
        else:
            assert len(data) == dtype.itemsize * math.prod(chunks), (directory, index, len(data))
            chunk = np.frombuffer(data, dtype).reshape(chunks)
        start = [i * c for i, c in zip(index, chunks)]
        stop = [min(b + c, s) for b, c, s in zip(start, chunks, shape)]
        chosen = tuple(slice(b, e) for b, e in zip(start, stop))
        result[chosen] = chunk[tuple(slice(0, e - b) for b, e in zip(start, stop))]
    return result


def read_tree(directory):
    """{path: array} of all arrays below a group, by its zarr.json and those that the directories list."""
    directory = pathlib.Path(directory)
    found = {}
    for entry in sorted(directory.iterdir()):
        if not entry.is_dir() or not (entry / "zarr.json").exists():
            continue
        if metadata_of(entry)["node_type"] == "array":
            found[entry.name] = read_array(entry)
        else:
            found.update({f"{entry.name}/{path}": array for path, array in read_tree(entry).items()})
    return found


# --- writing, with the calls of zarr-python's LocalStore


def put(path, data, exclusive=False):
    """A temporary file beside the path, which is then renamed to it, or linked if the path must not exist yet."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".0123456789abcdef0123456789abcdef.partial")
    try:
        temporary.write_bytes(data)
        if exclusive:
            os.link(temporary, path)
            os.unlink(temporary)
        else:
            temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def put_group(directory, attributes=None, exclusive=False):
    text = json.dumps({"attributes": attributes or {}, "zarr_format": 3, "node_type": "group"})
    put(pathlib.Path(directory) / "zarr.json", text.encode(), exclusive)


def array_metadata(array, chunks, codecs=(), fill_value=0, attributes=None, dimension_names=None):
    """As zarr-python 3.1 writes it. `codecs`: after `bytes`."""
    serializer = {"name": "bytes", "configuration": {"endian": "big" if array.dtype.byteorder == ">" else "little"}}
    if array.dtype.itemsize == 1:
        serializer = {"name": "bytes"}
    names = {np.dtype(code): name for name, code in NUMBERS.items()}
    metadata = {"shape": list(array.shape), "data_type": names[array.dtype.newbyteorder("=")],
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": fill_value,
                "codecs": [serializer, *codecs], "attributes": attributes or {}, "zarr_format": 3, "node_type": "array",
                "storage_transformers": []}
    if dimension_names:
        metadata["dimension_names"] = dimension_names
    return metadata


def encode(codec, data):
    name, configuration = codec["name"], dict(codec.get("configuration", {}))
    if name == "gzip":
        return gzip.compress(data, configuration["level"], mtime=0)
    if name == "zstd":
        return bytes(numcodecs.Zstd(configuration["level"]).encode(data))
    if name == "blosc":
        shuffle = ["noshuffle", "shuffle", "bitshuffle"].index(configuration["shuffle"])
        typed = np.frombuffer(data, f"V{configuration['typesize']}")
        return bytes(numcodecs.Blosc(configuration["cname"], configuration["clevel"], shuffle).encode(typed))
    return bytes(numcodecs.get_codec({"id": name.partition(".")[2], **configuration}).encode(data))


def chunks_of(array, chunks, codecs=(), fill_value=0):
    """{key: bytes of the chunk file}"""
    files = {}
    for index in np.ndindex(*(-(-s // c) for s, c in zip(array.shape, chunks))):
        chunk = np.full(chunks, fill_value, array.dtype)
        part = array[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks))]
        chunk[tuple(slice(0, n) for n in part.shape)] = part
        data = chunk.tobytes()
        for codec in codecs:
            data = encode(codec, data)
        files["/".join(["c", *map(str, index)])] = data
    return files


def write_array(directory, array, chunks, codecs=(), fill_value=0, **more):
    metadata = array_metadata(array, chunks, codecs, fill_value, **more)
    put(pathlib.Path(directory) / "zarr.json", json.dumps(metadata).encode())
    for key, data in chunks_of(array, chunks, codecs, fill_value).items():
        put(pathlib.Path(directory) / key, data)
