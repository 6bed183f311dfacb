"""The generated HDF5 and netCDF-4 files that are sound, what h5py reads of them, and the comparison of a mount with that."""
import contextlib
import json
import shutil

import h5py
import numpy as np
import zarr
from compare import read_variable, same_values
from conftest import DATA

# Sources whose damage is the point have tests of their own (test_errors.py).
FILES = sorted(p for p in (DATA / "hdf5").iterdir() if p.suffix in (".h5", ".nc") and not p.name.startswith("damaged"))
HIDDEN = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict",
          "_NCProperties", "_ARRAY_DIMENSIONS"}


def shown_name(path):
    return path.replace("_nc4_non_coord_", "")


def variables(file):
    """(path, dataset) of all datasets that a netCDF or HDF5 reader sees under their first path."""
    found, seen = [], set()

    def visit(group, prefix):
        for name in group:
            if group.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
                continue
            item = group[name]
            if isinstance(item, h5py.Datatype):
                continue
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                continue
            seen.add(address)
            path = prefix + name
            if isinstance(item, h5py.Group):
                visit(item, path + "/")
            elif not bytes(item.attrs.get("NAME", b"")).startswith(b"This is a netCDF dimension but not"):
                found.append((path, item))

    seen.add(h5py.h5o.get_info(file["/"].id).addr)
    visit(file["/"], "")
    return found


def is_vlen_string(dataset):
    info = h5py.check_string_dtype(dataset.dtype)
    return info is not None and info.length is None


def has_zarr_form(dataset):
    """References and ragged data keep their metadata only; members of these kinds count too."""
    def plain(dtype):
        if dtype.names:
            return all(plain(dtype[name]) for name in dtype.names)
        return dtype.base.kind != "O"
    return is_vlen_string(dataset) or plain(dataset.dtype)


def values_of(dataset, scratch):
    """What h5py reads, with two of its troubles worked around."""
    if dataset.shape is None:
        return np.empty((0,), dataset.dtype)
    try:
        return np.asarray(dataset[()])
    except OSError as error:
        if "no write intent" in str(error):  # libhdf5 writes the fill of variable-length strings while it reads
            copy = shutil.copy(dataset.file.filename, scratch / "copy.h5")
            with h5py.File(copy, "r+") as file:
                return np.asarray(file[dataset.name][()])
        # h5py asks for a conversion that libhdf5 does not have (bit fields): read them in the file's own type.
        values = np.empty(dataset.shape, dataset.dtype)
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, mtype=dataset.id.get_type())
        return values


def check_attributes(shown, attributes, where, scalars):
    for name, theirs in attributes.items():
        if name in HIDDEN or isinstance(theirs, h5py.Reference):
            continue
        if isinstance(theirs, np.ndarray) and theirs.dtype.kind == "O" and theirs.size and not isinstance(
                theirs.ravel()[0], (str, bytes)):
            continue
        assert name in shown, f"{where}: attribute {name} is not shown"
        if isinstance(theirs, np.ndarray) and theirs.dtype.names:
            continue
        if isinstance(theirs, np.void):
            continue
        if scalars and isinstance(theirs, np.ndarray) and theirs.size == 1:
            theirs = theirs.ravel()[0]
        ours = shown[name]
        if isinstance(theirs, (float, np.floating)) or isinstance(theirs, np.ndarray) and theirs.dtype.kind == "f":
            ours = np.asarray(ours, np.asarray(theirs).dtype)
        if np.iscomplexobj(theirs):
            ours = np.asarray(ours, float) @ [1, 1j]
        assert same_values(ours, theirs), f"{where}: attribute {name}: {ours!r} is not {theirs!r}"


def check_file(m, path, tmp_path):
    group = zarr.open_group(str(m.path), "r")
    # External and virtual sources are named relative to the file.
    with h5py.File(path) as file:
        netcdf = "_NCProperties" in file.attrs or any("_Netcdf4Dimid" in d.attrs for _, d in variables(file))
        check_attributes(json.loads((m.path / ".zattrs").read_text()), file.attrs, "/", netcdf)
        for name, dataset in variables(file):
            directory = m.path / shown_name(name)
            shown = json.loads((directory / ".zattrs").read_text())
            fill = json.loads((directory / ".zarray").read_text())["fill_value"]
            if "_FillValue" not in shown and fill in ("NaN", "Infinity", "-Infinity"):
                shown["_FillValue"] = float(fill)  # there is no JSON for it
            check_attributes(shown, dataset.attrs, name, netcdf)
            if not has_zarr_form(dataset) or "unknown" in name:
                continue
            with contextlib.chdir(path.parent):
                values = values_of(dataset, tmp_path)
            read_variable(directory, values)
            if is_vlen_string(dataset):
                array = np.asarray(group[shown_name(name)][...])
                assert same_values(array, values), name
            elif values.dtype.names is None:
                array = np.asarray(group[shown_name(name)][...])
                assert array.tobytes() == values.astype(array.dtype).tobytes(), name
        assert json.loads((m.path / ".zmetadata").read_text())["zarr_consolidated_format"] == 1
