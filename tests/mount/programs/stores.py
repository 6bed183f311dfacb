"""Tries Zarr stores of other implementations; scripts/store-test runs it with the Python of a venv that has zarr-python 3, tensorstore
and h5py.

    stores.py CODECFS FOLDER... [-v]

Each store below the folders (a directory, or a zip archive) is mounted, and each array that zarr-python (or tensorstore, where
zarr-python cannot) reads in the original must be the same in every view: values, type, shape, attributes, names of dimensions, and the
fill value. Then the store is converted to Zarr v2 and v3, to an archive and to HDF5, and back from HDF5; these copies are read by the
same judges, the HDF5 file by h5py. What codecfs refuses must have a reason, and be in the list EXPECTED. An original that no judge
reads is left out."""

import base64
import collections
import json
import math
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
import zipfile

import h5py
import hdf5plugin  # noqa: F401
import numpy as np
import zarr

LARGEST = 64 << 20  # bytes of an array
MOST = 200  # arrays of a store that are compared
SECONDS = 120  # for a command
STORE_SECONDS = 900
VIEWS = {"decoded": 2, "encoded": 2, "decoded3": 3, "encoded3": 3}
MARKERS = (".zarray", ".zgroup", "zarr.json")

# Refusals that are right: where (regular expressions of a view or copy, and of the reason), and what it means.
EXPECTED = [
    ("", 'codec \'pcodec\' is neither built in|provides {"id": "pcodec"', "pcodec, which is only passed on in the encoded views"),
    ("to hdf5|hdf5 to", "the data type [a-z0-9_]+ can only be stored in a Zarr v3 store", "types that numpy lacks, into HDF5"),
    ("to hdf5", "HDF5 has one length for each dimension of a group", "dimensions of one name and several lengths, into HDF5"),
    ("3", "Zarr v3 has no codec for members of different byte orders", "compound types with members of different byte orders, in Zarr v3"),
    ("to hdf5|hdf5 to", 'HDF5 has no type for dtype "[|]O"', "bytes of variable length, into HDF5"),
    ("", "is not a numpy type of Zarr v2", "types of its own that tensorstore writes into Zarr v2 (bfloat16, int4, float8_*)"),
    ("", "holds several Zarr stores", "an archive of several stores"),
    ("to zarr3|3", "Zarr v3 has no data type for elements of the codec", "object codecs (JSON, MsgPack, pickle, categorize), in Zarr v3"),
]


def text_of(element):
    if isinstance(element, bytes):
        return element.decode(errors="surrogateescape")
    return "" if element is None or element is np.ma.masked else str(element)


def json_of(path):
    return json.loads(path.read_bytes().decode("utf-8-sig"))


class Array:
    """What a judge reads of an array. Names of dimensions are apart from the attributes, and None where there are none."""

    def __init__(self, values, attributes, fill, names, judge):
        self.fills_with_0 = False  # of text: zarr-python 2 wrote 0 for no text, and zarr-python 3 takes it for "0"
        self.values, self.attributes, self.fill, self.names, self.judge = values, attributes, fill, names, judge


def apart(attributes, names):
    """The attributes without those of netCDF-C and those that hold names of dimensions in Zarr v2; and these names."""
    attributes = {name: value for name, value in attributes.items() if not re.match("_nczarr|_NCZARR|_NCProperties", name)}
    if "_ARRAY_DIMENSIONS" in attributes:
        listed = attributes.pop("_ARRAY_DIMENSIONS")
        # A name that is there twice is null the second time in Zarr v3.
        is_whole = names is None or len(names) == len(listed) and all(name in (None, other) for name, other in zip(names, listed))
        names = listed if is_whole else names
    return attributes, tuple(names) if isinstance(names, (list, tuple)) else None


def by_tensorstore(path, version, metadata):
    import tensorstore

    spec = {"driver": {2: "zarr", 3: "zarr3"}[version], "kvstore": {"driver": "file", "path": f"{path}/"}}
    if version == 2 and metadata.get("dimension_separator"):
        spec["metadata"] = {"dimension_separator": metadata["dimension_separator"]}
    store = tensorstore.open(spec, read=True, open=True).result()
    values = store.read().result()
    return np.asarray(values), store.fill_value


def metadata_of(path, version):
    return json_of(path / {2: ".zarray", 3: "zarr.json"}[version])


def read_by_zarr(path, version):
    metadata = metadata_of(path, version)
    if any(codec.get("id") == "shuffle" and codec.get("elementsize") == 0 for codec in metadata.get("filters") or []):
        raise ValueError("netCDF-C shuffles by the size of an element here, and numcodecs reads zeros")
    array = zarr.open_array(store=str(path), mode="r", zarr_format=version)
    if array.nbytes > LARGEST:
        raise OverflowError(f"{array.nbytes} bytes")
    values = np.asarray(array[...])
    if metadata.get("data_type", metadata.get("dtype")) in ("string", "|O"):
        values = values.astype(object)
    attributes, fill = array.attrs.asdict(), array.fill_value
    ours = attributes.get("_nczarr_array", attributes.get("_NCZARR_ARRAY", {}))
    if ours.get("storage") == "scalar" or ours.get("scalar"):
        values = values.reshape(())
    attributes, names = apart(attributes, getattr(array.metadata, "dimension_names", None))
    made = Array(values, attributes, fill, names, "zarr-python")
    made.fills_with_0 = version == 2 and metadata["dtype"] == "|O" and metadata["fill_value"] == 0
    return made


def read_by_tensorstore(path, version):
    metadata = metadata_of(path, version)
    if math.prod(metadata["shape"]) > LARGEST:
        raise OverflowError(f"{math.prod(metadata['shape'])} elements")
    values, fill = by_tensorstore(path, version, metadata)
    if version == 3:
        attributes, names = metadata.get("attributes", {}), metadata.get("dimension_names")
    else:
        attributes, names = json_of(path / ".zattrs") if (path / ".zattrs").exists() else {}, None
    attributes, names = apart(attributes, names)
    return Array(values, attributes, fill, names, "tensorstore")


def read_array(path, version):
    """As zarr-python, else tensorstore, reads the array in a directory."""
    try:
        return read_by_zarr(path, version)
    except OverflowError:
        raise
    except Exception as first:
        try:
            return read_by_tensorstore(path, version)
        except OverflowError:
            raise
        except Exception as second:
            raise Unreadable(f"zarr-python: {brief(first)}; tensorstore: {brief(second)}") from first


class Unreadable(Exception):
    pass


def brief(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def is_text(values):
    return values.dtype.kind in "OT"


def comparable(values):
    """Bytes that are the same where the elements are."""
    if values.dtype.byteorder == ">" or (values.dtype.byteorder == "=" and sys.byteorder == "big"):
        values = values.astype(values.dtype.newbyteorder("<"))
    return np.ascontiguousarray(values).tobytes()


def difference(theirs, ours):
    """In which way `ours` is another array than `theirs`; None where it is the same."""
    if theirs.shape != ours.shape:
        return f"shape {ours.shape}, not {theirs.shape}"
    if is_text(theirs) or is_text(ours):
        if not (is_text(theirs) and is_text(ours)):
            return f"type {ours.dtype}, not {theirs.dtype}"
        left, right = ([text_of(e) for e in a.ravel().tolist()] for a in (theirs, ours))
        for i, (a, b) in enumerate(zip(left, right)):
            if a != b:
                return f"element {i} is {b[:50]!r}, not {a[:50]!r}"
        return None
    if theirs.dtype.names:
        names = theirs.dtype.names
        if ours.dtype.names is None or set(ours.dtype.names) != set(names):
            return f"type {ours.dtype}, not {theirs.dtype}"
        for name in names:
            found = difference(theirs[name], ours[name])
            if found:
                return f"member {name}: {found}"
        return None
    odd = not theirs.dtype.isbuiltin and theirs.dtype.kind not in "SUVmM" and theirs.dtype.isnative
    if odd or theirs.dtype.kind == "V" or ours.dtype.kind == "V":  # bfloat16 and such have no type in v2 and HDF5
        if ours.dtype.itemsize != theirs.dtype.itemsize:
            return f"type {ours.dtype}, not {theirs.dtype}"
    elif theirs.dtype.newbyteorder("<") != ours.dtype.newbyteorder("<"):
        return f"type {ours.dtype}, not {theirs.dtype}"
    if comparable(theirs) == comparable(ours):
        return None
    if theirs.size:
        a, b = (np.frombuffer(comparable(v), f"V{v.dtype.itemsize}") for v in (theirs, ours))
        places = [i for i in range(len(a)) if a[i].tobytes() != b[i].tobytes()]
        i = places[0]
        return f"{len(places)} of {len(a)} elements, such as {i}: {ours.ravel()[i]!r}, not {theirs.ravel()[i]!r}"
    return None


def same_json(a, b):
    """As Python's JSON reads them; 1 and 1.0 are different, NaN is itself."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same_json(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same_json, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b) or a != a and b != b
    return type(a) is type(b) and a == b


def netcdf_form(value):
    if isinstance(value, list) and value and not any(isinstance(e, (list, dict)) for e in value) and len({type(e) for e in value}) == 1:
        return netcdf_form(value[0]) if len(value) == 1 else [netcdf_form(e) for e in value]
    return int(value) if isinstance(value, bool) else value


def attribute_differences(theirs, ours, by_netcdf=False):
    if by_netcdf:
        theirs, ours = ({name: netcdf_form(value) for name, value in attributes.items()} for attributes in (theirs, ours))
    for name in {**theirs, **ours}:
        if name not in ours:
            yield f"attribute {name} is missing"
        elif name not in theirs:
            yield f"attribute {name} is new: {str(ours[name])[:80]}"
        elif not same_json(theirs[name], ours[name]):
            yield f"attribute {name} is {str(ours[name])[:80]!r}, not {str(theirs[name])[:80]!r}"


def number_of(value, dtype):
    """Of a `_FillValue`: xarray writes floats into Zarr v3 as base64 of a float64; Zarr has base64 for strings and raw bytes."""
    if isinstance(value, list) and len(value) == 2 and dtype.kind == "c":
        return complex(*(number_of(part, np.dtype("f8")) for part in value))
    if isinstance(value, str) and dtype.kind not in "OT":
        try:
            data = base64.standard_b64decode(value)
        except ValueError:
            return value
        if dtype.kind in "fiub" and len(data) == 8:
            return np.frombuffer(data, "<f8")[0]
        if dtype.kind in "SUVmM" and len(data) == dtype.itemsize:
            return np.frombuffer(data, dtype)[0]
    if isinstance(value, dict) and dtype.names:
        return tuple(number_of(value[name], dtype[name]) for name in dtype.names)
    return value


def fill_bytes(fill, dtype):
    """None where there is none."""
    if fill is None:
        return None
    if dtype.kind in "OT":
        return text_of(fill) if fill != 0 and fill != "0" else ""  # which zarr-python 2 wrote for no text
    if isinstance(fill, str) and dtype.kind == "V":
        return base64.standard_b64decode(fill)
    value = np.asarray(fill, dtype) if dtype.names else np.asarray(fill)
    if value.dtype != dtype:
        value = value.astype(dtype)
    return comparable(value)


def arrays_and_groups(root):
    """(path, version, is an array) of what is below a directory, by its files alone."""
    found = []
    for here, directories, files in os.walk(root):
        directories.sort()
        path = pathlib.Path(here)
        name = str(path.relative_to(root))
        # What has the metadata of both versions is of v2.
        version = 3 if "zarr.json" in files and not {".zarray", ".zgroup"} & set(files) else 2
        if version == 3:
            try:
                is_array = json_of(path / "zarr.json").get("node_type") == "array"
            except ValueError:
                is_array = True
            found.append(("" if name == "." else name, 3, is_array))
        elif {".zarray", ".zgroup"} & set(files):
            found.append(("" if name == "." else name, 2, ".zarray" in files))
        if found and found[-1][0] == ("" if name == "." else name) and found[-1][2]:
            directories.clear()
    return found


class Trial:
    """One store, in a process of its own."""

    def __init__(self, codecfs, source, directory, report):
        self.codecfs, self.source, self.directory, self.report = codecfs, source, directory, report
        self.root = directory / "mnt"
        self.root.mkdir()
        self.originals = {}  # by path
        self.groups = {}
        self.unreadable = []
        self.is_nczarr = False
        self.version = 2

    def fault(self, where, text):
        self.report("fault", f"{where}: {text}")

    def refused(self, where, reason):
        reason = " ".join(reason.split())
        for place, pattern, _ in EXPECTED:
            if re.search(place, where) and re.search(pattern, reason):
                self.report(f"refused:{pattern}", f"{where}: {reason}")
                return
        self.fault(where, f"is refused: {reason}" if reason else "is refused without a reason")

    def run(self, *words):
        return subprocess.run([self.codecfs, *map(str, words)], capture_output=True, text=True, timeout=SECONDS)

    def look(self):
        original = self.source
        if self.source.is_file():
            original = self.directory / "original"
            with zipfile.ZipFile(self.source) as archive:
                archive.extractall(original)
            while not any((original / m).exists() for m in MARKERS):
                inner = [p for p in original.iterdir() if p.is_dir() and not p.name.startswith("__MACOSX")]
                if len(inner) != 1:
                    break
                original = inner[0]
        self.is_nczarr = any(
            re.search("_nczarr|_NCZARR", (file.read_text(errors="replace"))) for file in original.rglob(".z*") if file.is_file()
        )
        for name, version, is_array in arrays_and_groups(original):
            self.version = version
            try:
                if is_array:
                    if len(self.originals) >= MOST:
                        self.report("not looked at", name)
                        continue
                    self.originals[name] = read_array(original / name, version)
                else:
                    group = zarr.open_group(str(original / name), mode="r", zarr_format=version, use_consolidated=False)
                    self.groups[name] = apart(group.attrs.asdict(), None)[0]
            except OverflowError as error:
                self.report("too large", f"{name or '/'}: {error}")
                self.unreadable.append(f"/{name}")
            except Exception as error:
                self.report("no judge reads", f"{name or '/'}: {brief(error)}")
                if is_array:
                    self.unreadable.append(f"/{name}")
        for name, array in self.originals.items():
            self.report("array", f"{name or '/'}: {array.judge}")

    def why(self, path, error=""):
        """The reason that codecfs has for an error, of the metadata or of the chunk that a judge names."""
        chunk = re.search(r"error: '([^']+)'", str(error))
        for place in (path / ".zarray", path / "zarr.json", path, *([chunk[1]] if chunk else [])):
            try:
                return os.getxattr(place, "user._Error").decode()
            except OSError:
                continue
        return ""

    def compare(self, where, name, array, ours):
        text = difference(self.with_text(array, ours.values, self.by_netcdf(where)), ours.values)
        if text:
            self.fault(where, text)
            return
        found = self.in_other_form(array, self.without_types(where, ours.attributes))
        for text in attribute_differences(array.attributes, found, self.by_netcdf(where)):
            self.fault(where, text)
        # Zarr v2 has no names where some dimensions have none, and HDF5 invents some.
        named = array.names is not None and len(array.names) == array.values.ndim and None not in array.names
        if named and ours.names != array.names:
            self.fault(where, f"names of dimensions are {ours.names}, not {array.names}")
        self.report("the same", where)

    def by_netcdf(self, where):
        """A HDF5 file with dimensions is netCDF's, which has no booleans and no lists of one value as attributes."""
        return where.startswith("hdf5") and any(array.names for array in self.originals.values())

    @staticmethod
    def without_types(where, attributes):
        """Without the notes that conversions from HDF5 make: of its types, and of numbers that JSON does not have, which are texts."""
        if not where.startswith("hdf5"):
            return attributes
        attributes = {name: value for name, value in attributes.items() if name != "_nc_hdf5_types"}
        for name in json.loads(attributes.pop("_codecfs_float_attributes", "[]")):
            is_list = isinstance(attributes[name], list)
            numbers = [float(one) for one in (attributes[name] if is_list else [attributes[name]])]
            attributes[name] = numbers if is_list else numbers[0]
        return attributes

    def in_other_form(self, array, attributes):
        """The attributes without what other formats need: marks, and what `fill_value` of Zarr v2 means to xarray."""
        attributes = {name: value for name, value in attributes.items() if name != "_codecfs_phony_dimensions"}
        theirs, ours = array.attributes.get("_FillValue"), attributes.get("_FillValue")
        # One that `fill_value` has is left out of JSON, where it would be NaN.
        number = number_of(theirs, array.values.dtype)
        if ours is None and isinstance(number, float) and not math.isfinite(number):
            attributes["_FillValue"] = theirs
        elif ours is not None:
            wanted = array.fill if theirs is None and self.version == 2 else number_of(theirs, array.values.dtype)
            try:
                same = wanted is not None and fill_bytes(wanted, array.values.dtype) == fill_bytes(
                    number_of(ours, array.values.dtype), array.values.dtype
                )
            except (KeyError, TypeError, ValueError):
                same = False
            if same or (self.is_nczarr and theirs is None):
                attributes.pop("_FillValue")
                if theirs is not None:
                    attributes["_FillValue"] = theirs
        return attributes

    @staticmethod
    def with_text(array, ours, in_netcdf=False):
        # A new netCDF file has texts of any length in place of numpy's in UTF-32.
        if in_netcdf and array.values.dtype.kind == "U" and is_text(ours):
            return array.values.astype(object)
        if not array.fills_with_0 or ours.shape != array.values.shape:
            return array.values
        return (
            np.where((array.values == "0") & (np.vectorize(text_of, otypes=[object])(ours) == ""), "", array.values) if ours.size else ours
        )

    def compare_fill(self, where, array, ours, version):
        theirs = fill_bytes(array.fill, array.values.dtype)
        # netCDF-C writes six digits of a fill value, and knows which are only its defaults.
        if theirs is None or self.is_nczarr:
            return
        # Readers of v2 mask what equals the fill value, those of v3 do not: v2 shows it only where it is masked.
        if ours.fill is None and version == 2 and self.version == 3:
            return
        try:
            mine = fill_bytes(ours.fill, ours.values.dtype)
        except (TypeError, ValueError):
            mine = None
        if theirs != mine:
            self.fault(where, f"fill value {ours.fill!r}, not {array.fill!r}")

    def view(self):
        done = self.run("-o", "ro", self.source, self.root)
        if done.returncode:
            self.refused("mount", done.stderr)
            return
        try:
            default = 3 if (self.root / "zarr.json").exists() else 2
            self.look_at_tree("default view", self.root, default)
            for view, version in VIEWS.items():
                self.look_at_tree(view, self.root / ".codecfs/view" / view, version)
            self.look_at_npy()
        finally:
            done = self.run("unmount", self.root)
            if done.returncode:
                self.fault("unmount", done.stderr)

    def look_at_tree(self, where, root, version):
        readable = set()
        for name, attributes in self.groups.items():
            try:
                group = zarr.open_group(str(root / name), mode="r", zarr_format=version, use_consolidated=False)
            except Exception as error:
                self.fault(f"{where} {name or '/'}", brief(error))
                continue
            for text in attribute_differences(attributes, apart(group.attrs.asdict(), None)[0]):
                self.fault(f"{where} {name or '/'}", text)
        for name, array in self.originals.items():
            place = f"{where} {name or '/'}"
            try:
                ours = read_array(root / name, version)
            except Exception as error:
                reason = self.why(root / name, error)
                if reason:
                    self.refused(place, reason)
                else:
                    self.fault(place, f"a judge cannot read it: {error}")
                continue
            readable.add(name)
            self.compare(place, name, array, ours)
            self.compare_fill(place, array, ours, version)
        if "" not in self.originals and "/" not in self.unreadable:
            self.look_at_listing(where, root, version, readable)

    def look_at_listing(self, where, root, version, readable):
        """Consolidated metadata has what is there."""
        try:
            if version == 3:
                listed = json_of(root / "zarr.json")["consolidated_metadata"]["metadata"]
            else:
                listed = {name.removesuffix("/.zarray") for name in json_of(root / ".zmetadata")["metadata"]}
        except Exception as error:
            self.fault(f"{where} /", f"no consolidated metadata: {brief(error)}")
            return
        for name in readable - set(listed):
            self.fault(f"{where} {name}", "is not listed")

    def look_at_npy(self):
        for name, array in self.originals.items():
            place = f"npy {name or '/'}"
            root = self.root / ".codecfs/view/npy"
            file = root / f"{name}.npy" if name else root / "array.npy"
            if is_text(array.values):
                continue
            try:
                ours = np.load(file)
            except Exception as error:
                try:
                    reason = os.getxattr(file, "user._Error").decode()
                except OSError:
                    reason = self.why(self.root / name)
                self.refused(place, reason) if reason else self.fault(place, brief(error))
                continue
            text = difference(array.values, ours)
            self.fault(place, text) if text else self.report("the same", place)

    def convert(self, form, source, target):
        """Leaves out what cannot be read or has no form, each of which must be an expected refusal; the options that this took."""
        options = [word for name in self.unreadable for word in ("--skip", name)] if form == "hdf5" or source == self.source else []
        for _ in range(3):
            done = self.run("convert", "--format", form, *options, source, target)
            if done.returncode == 0:
                return target
            shutil.rmtree(target, ignore_errors=True)
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            named = [m for m in (re.match(r"codecfs: (/.+?): (.*)", line) for line in lines) if m and m[1].lstrip("/") in self.originals]
            if named and named[0][1] != "/":
                for m in named:
                    options += ["--skip", m[1]]
            else:
                self.refused(f"to {form}", done.stderr)
                return None
            for m in named:
                self.refused(f"to {form} {m[1]}", m[2])
                self.left_out.add(m[1].lstrip("/"))
        self.fault(f"to {form}", f"cannot be converted even with {options}: {done.stderr}")
        return None

    def copies(self):
        for form in ("zarr", "zarr3", "zip"):
            self.left_out = set()
            target = self.convert(form, self.source, self.directory / f"copy.{form}")
            if target is None:
                continue
            self.compare_command(form, target)
            if form == "zip":
                with zipfile.ZipFile(target) as archive:
                    archive.extractall(self.directory / "unzipped")
                target = self.directory / "unzipped"
            self.look_at_copy(f"to {form}", target, 3 if form == "zarr3" else 2)
        self.left_out = set()
        target = self.convert("hdf5", self.source, self.directory / "copy.h5")
        if target is None:
            return
        self.compare_command("hdf5", target)
        self.look_at_hdf5(target)
        left_out = self.left_out
        for form, version in (("zarr", 2), ("zarr3", 3)):
            self.left_out = set(left_out)
            back = self.convert(form, target, self.directory / f"back.{form}")
            if back is not None:
                self.look_at_copy(f"hdf5 to {form}", back, version)

    def compare_command(self, form, target):
        if self.left_out or self.unreadable or "" in self.originals:
            return
        done = self.run("compare", self.source, target)
        if done.returncode:
            self.fault(f"compare with {form}", f"{done.stdout} {done.stderr}")

    def look_at_copy(self, where, root, version):
        in_hdf5 = where.startswith("hdf5")
        for name, attributes in self.groups.items():
            if name in self.left_out:
                continue
            try:
                group = zarr.open_group(str(root / name), mode="r", zarr_format=version, use_consolidated=False)
            except Exception as error:
                self.fault(f"{where} {name or '/'}", brief(error))
                continue
            found = self.without_types(where, apart(group.attrs.asdict(), None)[0])
            for text in attribute_differences(attributes, found, self.by_netcdf(where)):
                self.fault(f"{where} {name or '/'}", text)
        for name, array in self.originals.items():
            if name in self.left_out:
                continue
            place = f"{where} {name or '/'}"
            path = root / (self.root_name() if in_hdf5 and not name else name)
            try:
                ours = read_array(path, version)
            except Exception as error:
                self.fault(place, f"a judge cannot read it: {error}")
                continue
            self.compare(place, name, array, ours)
            if not in_hdf5:
                self.compare_fill(place, array, ours, version)

    def root_name(self):
        return re.sub(r"\.(zarr|zip|n5|zr|zr3)$", "", self.source.name) or self.source.name

    def look_at_hdf5(self, target):
        with h5py.File(target) as file:
            for name, array in self.originals.items():
                if name in self.left_out:
                    continue
                place = f"h5py {name or '/'}"
                try:
                    dataset = file[name] if name else next(d for d in file.values() if isinstance(d, h5py.Dataset))
                    if is_text(array.values):
                        values = np.asarray(dataset[()], object)
                    else:
                        values = np.asarray(dataset[()])
                except Exception as error:
                    self.fault(place, brief(error))
                    continue
                text = difference(self.with_text(array, values, self.by_netcdf("hdf5")), values)
                if text:
                    self.fault(place, text)
                else:
                    self.report("the same", place)
                for key, value in array.attributes.items():
                    value = number_of(value, array.values.dtype) if key == "_FillValue" else value
                    text = self.hdf5_attribute(dataset, key, value)
                    if text:
                        self.fault(place, f"attribute {key}: {text}")

    @staticmethod
    def hdf5_attribute(dataset, key, value):
        """Numbers and text are themselves; other JSON is looked at where it comes back."""
        if not isinstance(value, (str, int, float)) or isinstance(value, bool) or not key:
            return None
        if key not in dataset.attrs:
            return "is missing"
        try:
            ours = dataset.attrs[key]
        except (OSError, TypeError, ValueError) as error:
            return brief(error)
        if isinstance(ours, h5py.Empty):
            return None if value == "" else "is empty"
        if isinstance(value, str):
            return None if text_of(ours) == value else f"{text_of(ours)[:50]!r}, not {value[:50]!r}"
        ours = np.asarray(ours)
        if ours.size != 1:
            return f"{ours!r}, not {value!r}"
        if ours.dtype.kind in "SUO":
            return None if text_of(ours.ravel()[0]) == str(value) else f"{ours!r}, not {value!r}"
        ours = ours.ravel()[0].item()
        return None if ours == value or ours != ours and value != value else f"{ours!r}, not {value!r}"


def try_one(codecfs, source):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-stores-"))
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        def report(kind, text):
            os.write(writing, f"{kind}\t{' '.join(str(text).split())[:600]}\n".encode(errors="replace"))

        try:
            sys.setrecursionlimit(10_000)  # of attributes that are deeply nested
            warnings.simplefilter("ignore")
            signal.alarm(STORE_SECONDS)
            trial = Trial(codecfs, source, directory, report)
            trial.look()
            if trial.originals or trial.groups:
                trial.view()
                trial.copies()
        except BaseException:
            report("fault", f"{traceback.format_exc()[-500:]}")
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        lines = file.read().decode(errors="replace").splitlines()
    _, status = os.waitpid(pid, 0)
    found = [tuple(line.split("\t", 1)) for line in lines if "\t" in line]
    if os.WIFSIGNALED(status):
        found.append(("fault", f"ends by {signal.Signals(os.WTERMSIG(status)).name}"))
    if os.path.ismount(directory / "mnt"):
        subprocess.run(["fusermount3", "-uz", directory / "mnt"], capture_output=True, timeout=SECONDS)
    shutil.rmtree(directory, ignore_errors=True)
    return found


def is_archive(path):
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.replace("\\", "/").rsplit("/", 1)[-1] in MARKERS for name in archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False


def stores(folder):
    """The outermost directories that are groups or arrays, and archives with some."""
    if any((folder / marker).exists() for marker in MARKERS):
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            yield from stores(path)
        elif path.suffix in (".zip", ".ozx") and is_archive(path):
            yield path


def main():
    verbose = "-v" in sys.argv[2:]
    codecfs = os.path.realpath(sys.argv[1])
    folders = [pathlib.Path(word).resolve() for word in sys.argv[2:] if word != "-v"]
    totals, refusals, faults, count = collections.Counter(), collections.Counter(), 0, 0
    for folder in folders:
        before = folder.parent
        for source in stores(folder) if folder.is_dir() else [folder]:
            count += 1
            for kind, text in try_one(codecfs, source):
                if kind.startswith("refused:"):
                    refusals[kind.removeprefix("refused:")] += 1
                    kind = "refused"
                totals[kind] += 1
                if kind == "fault":
                    faults += 1
                    print(f"{source.relative_to(before)}: {text}", flush=True)
                elif verbose and kind not in ("the same", "array"):
                    print(f"  {source.relative_to(before)}: {kind}: {text}", flush=True)
    for place, pattern, meaning in EXPECTED:
        if refusals[pattern]:
            print(f"  refused {refusals[pattern]} times: {meaning}")
    print(
        f"store-test: {count} stores, {faults} faults; "
        + ", ".join(f"{number} {kind}" for kind, number in sorted(totals.items()) if kind != "fault")
    )
    return 1 if faults or not count else 0


if __name__ == "__main__":
    sys.exit(main())
