"""What `codecfs convert` makes of a random source, judged by h5py and zarr-python alone.

Before that, a Zarr source is given what other programs write and zarr-python does not: chunks as Zstandard frames that do not
state the size of their content, as several frames, or as several gzip members, and groups without metadata of their own.
"""
import ctypes
import gzip
import json
import re

import h5py
import numcodecs
import numpy as np
import zarr

import compare
import support
from random_files import attributes_of, fletcher32, read_hdf5_variable
from support import Fault

FORMATS = {"hdf5": "h5", "nc": "nc", "zarr": "zarr", "zip": "zip"}
CHAINS = ["none", "1,4", "2|1,5", "32015,3", "307,1"]


# --- what zarr-python does not write


class Zstandard:
    """libzstd without the size of the content in the frame, as programs write it that compress a stream."""
    CONTENT_SIZE_FLAG = 200

    def __init__(self):
        self.library = ctypes.CDLL("libzstd.so.1")
        self.library.ZSTD_createCCtx.restype = ctypes.c_void_p
        self.library.ZSTD_CCtx_setParameter.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        self.library.ZSTD_compress2.restype = ctypes.c_size_t
        self.library.ZSTD_compress2.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
        self.library.ZSTD_compressBound.restype = ctypes.c_size_t
        self.library.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
        self.context = self.library.ZSTD_createCCtx()
        self.library.ZSTD_CCtx_setParameter(self.context, self.CONTENT_SIZE_FLAG, 0)

    def frame(self, data):
        room = ctypes.create_string_buffer(self.library.ZSTD_compressBound(len(data)))
        size = self.library.ZSTD_compress2(self.context, room, len(room), data, len(data))
        return room.raw[:size]


def in_two(data, encode):
    return encode(data[:len(data) // 2]) + encode(data[len(data) // 2:])


def change_frames(rng, folder, variables):
    """Stores chunks of zstd and gzip in forms that any decoder of them takes. Returns what was done."""
    told, zstd = [], Zstandard()
    for variable in variables:
        directory = folder / variable.name
        compressor = json.loads((directory / ".zarray").read_text())["compressor"]
        if not compressor or compressor["id"] not in ("zstd", "gzip") or rng.random() < 0.3:
            continue
        codec = numcodecs.get_codec(compressor)
        way = rng.choice(["without size", "in two"]) if compressor["id"] == "zstd" else "in two"
        for path in directory.rglob("*"):
            if path.name.startswith(".") or not path.is_file():
                continue
            data = bytes(codec.decode(path.read_bytes()))
            if way == "in two":
                path.write_bytes(in_two(data, codec.encode if compressor["id"] == "zstd" else gzip.compress))
            else:
                path.write_bytes(zstd.frame(data))
        told.append(f"chunks of {variable.name} {way}")
    return told


def remove_group_metadata(rng, folder):
    path = folder / "g/.zgroup"
    if not path.exists() or (folder / ".zmetadata").exists() or rng.random() < 0.5:
        return []
    path.unlink()
    return ["g without .zgroup"]


# --- comparing


class Fletcher32(numcodecs.abc.Codec):
    """For numcodecs before 0.12, which have no codec of that name."""
    codec_id = "fletcher32"

    def encode(self, buf):
        raise NotImplementedError

    def decode(self, buf, out=None):
        data = bytes(numcodecs.compat.ensure_bytes(buf))
        if data[-4:] != fletcher32(data[:-4]):
            raise Fault("a checksum is wrong")
        return numcodecs.compat.ndarray_copy(data[:-4], out)


if "fletcher32" not in numcodecs.registry.codec_registry:
    numcodecs.register_codec(Fletcher32)


def plain(array):
    """The values of an array, where formats differ in how they are stored: text is text, times and enumerations are numbers."""
    array = np.asarray(array)
    if array.dtype.kind in "mM":
        return array.astype(array.dtype.newbyteorder("=")).view("i8")
    if array.dtype in (np.dtype("<f16"), np.dtype("V16")):  # Zarr has it as bytes, of which the last six are padding
        parts = np.ascontiguousarray(array).reshape(array.shape + (1,)).view("V1")[..., :10]
        return np.ascontiguousarray(parts).view("V10")[..., 0]
    if array.dtype.kind in "OSU":
        return np.array([compare.text_of(value) for value in array.ravel().tolist()], object).reshape(array.shape)
    return array


def check_values(ours, variable, where):
    theirs, mask = plain(variable.array), variable.defined
    ours = plain(ours)
    if ours.shape != theirs.shape:
        raise Fault(f"{where}: shape {ours.shape}, and not {theirs.shape}")
    check_members(ours, theirs, np.broadcast_to(mask.reshape(mask.shape + (1,) * (theirs.ndim - mask.ndim)), theirs.shape), where)


def check_members(ours, theirs, mask, where):
    if theirs.dtype.names:
        for name in theirs.dtype.names:
            if name not in (ours.dtype.names or ()):
                raise Fault(f"{where}: no member {name} in {ours.dtype}")
            inner = theirs[name]
            check_members(plain(ours[name]), plain(inner), np.broadcast_to(mask.reshape(mask.shape + (1,) * (inner.ndim - mask.ndim)),
                                                                           inner.shape), f"{where}.{name}")
        return
    if theirs.dtype.kind == "V":
        same = np.array([a.tobytes() == b.tobytes() for a, b in zip(ours.ravel(), theirs.ravel())], bool)
    elif theirs.dtype.kind == "O":
        same = ours.ravel() == theirs.ravel()
    else:
        if ours.dtype.newbyteorder("=") != theirs.dtype.newbyteorder("=") and {ours.dtype.kind, theirs.dtype.kind} != {"b", "i"}:
            raise Fault(f"{where}: type {ours.dtype}, and not {theirs.dtype}")
        with np.errstate(invalid="ignore"):
            same = ((ours == theirs) | ((ours != ours) & (theirs != theirs))).ravel()
    bad = ~np.asarray(same, bool) & mask.ravel()
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise Fault(f"{where}: {int(bad.sum())} of {theirs.size} elements differ, the first at "
                    f"{tuple(int(i) for i in np.unravel_index(at, theirs.shape))}: {ours.ravel()[at]!r}, and not {theirs.ravel()[at]!r}")


def check_attributes(ours, variable, where, escapes=False):
    """`escapes`: bytes of names that are not UTF-8 are percent-escaped, as JSON has no form for them."""
    for name, value in variable.attributes.items():
        if escapes and isinstance(name, bytes):
            name = "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in name)
        if name not in ours:
            raise Fault(f"{where}: no attribute {name}")
        if isinstance(value, (np.void, np.complexfloating)):
            continue  # JSON shows a compound as an object, and a complex number as a pair
        if isinstance(value, dict) and isinstance(ours[name], (str, bytes)) and json.loads(ours[name]) == value:
            continue  # HDF5 has objects as JSON text
        # netCDF writes each attribute as a vector, and shows a vector of one element as a scalar.
        shown = ours[name] if np.asarray(value).dtype.kind != "f" else np.asarray(ours[name], np.asarray(value).dtype)
        if not compare.same_values(shown, value) and not compare.same_values(shown, [value]):
            raise Fault(f"{where}: attribute {name} is {ours[name]!r}, and not {value!r}")


def judge(path, kind, variables, left_out, where):
    if kind in ("hdf5", "nc"):
        with h5py.File(path, "r") as file:
            for variable in variables:
                if variable.name in left_out:
                    if variable.name in file:
                        raise Fault(f"{where}: {variable.name} was said to be left out, and is there")
                    continue
                check_values(read_hdf5_variable(file, variable), variable, f"{variable.name} in {where}")
                check_attributes(attributes_of(file[variable.name]), variable, f"{variable.name} in {where}")
        return
    store = zarr.ZipStore(str(path), mode="r") if kind == "zip" else zarr.DirectoryStore(str(path))
    group = zarr.open_group(store, "r")
    for variable in variables:
        if variable.name in left_out:
            continue
        check_values(group[variable.name][...], variable, f"{variable.name} in {where}")
        check_attributes(dict(group[variable.name].attrs), variable, f"{variable.name} in {where}", escapes=True)
    store.close()


# --- one source


def copy_and_judge(trial, directory):
    """Into another format, with the filters that are there or others."""
    rng = trial.rng
    kind = rng.choice(list(FORMATS))
    if trial.kind == "zarr":
        trial.trace += remove_group_metadata(rng, trial.path)
        if kind in ("hdf5", "nc"):  # Debian's numcodecs could not read these chunks in a copy that has them as they are
            trial.trace += change_frames(rng, trial.path, trial.variables)
    target = directory / f"copy-{trial.number}.{FORMATS[kind]}"
    mode = 0o600 if rng.random() < 0.5 else 0o640
    for path in [trial.path, *(trial.path.rglob("*") if trial.path.is_dir() else ())]:
        path.chmod(mode | (mode >> 2 & 0o111) if path.is_dir() else mode)
    words = ["convert"]
    if rng.random() < 0.3:
        words += ["-F", f"*,{rng.choice(CHAINS)}"]
    trial.trace.append(f"{' '.join(words)} to {target.name}")
    code, text = support.run(trial.told.codecfs, *words, trial.path, target)
    left_out = set()
    if code != 0:
        if target.exists():
            raise Fault(f"convert ended with {code}, and there is a copy: {text}")
        trial.counts["copies refused"] += 1
        trial.trace.append(f"refused: {text.strip()[:200]}")
        code, text = support.run(trial.told.codecfs, *words, "--skip-unsupported", trial.path, target)
        if code != 0:
            raise Fault(f"convert --skip-unsupported ended with {code}: {text}")
        left_out = {variable.name for variable in trial.variables if re.search(rf"/{re.escape(variable.name)}\b", text)}
        if not left_out:
            raise Fault(f"convert --skip-unsupported does not say what it left out: {text}")
    for path in [target, *(target.rglob("*") if target.is_dir() else ())]:
        if path.stat().st_mode & 0o777 & ~(mode | mode >> 2):
            raise Fault(f"{path} of mode {path.stat().st_mode:o} was made from a source of mode {mode:o}")
    judge(target, kind, trial.variables, left_out, f"the copy {target.name}")
    trial.counts[f"copies to {kind} judged"] += 1
