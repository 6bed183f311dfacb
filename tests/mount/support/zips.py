"""Zarr stores in zip archives, as different programs make them."""
import io
import os
import pathlib
import zipfile

import zarr
from running import run


class _Pipe(io.RawIOBase):
    """A stream that cannot seek: zipfile puts sizes behind the data then (data descriptors)."""

    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


def files_of(directory):
    for folder, folders, names in os.walk(directory):
        folders.sort()
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            if path.is_file():
                yield path, str(path.relative_to(directory))


def _zip64(directory, path):
    """Every local header with ZIP64 sizes, though none needs them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, name in files_of(directory):
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as entry:
                entry.write(file.read_bytes())


def _streamed(directory, path):
    with open(path, "wb") as file, zipfile.ZipFile(_Pipe(file), "w", zipfile.ZIP_DEFLATED) as archive:
        for source, name in files_of(directory):
            archive.writestr(name, source.read_bytes())


def _zarr_python(directory, path):
    store = zarr.ZipStore(str(path), mode="w")
    for file, name in files_of(directory):
        store[name] = file.read_bytes()
    store.close()


def _netcdf_c(directory, path):
    """One directory that has an entry of its own, before all others; nothing compressed."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("top/", b"")
        seen = {"top"}
        for file, name in files_of(directory):
            for above in reversed(pathlib.PurePath("top", name).parents):
                if str(above) not in {".", *seen}:
                    seen.add(str(above))
                    archive.writestr(f"{above}/", b"")
            archive.writestr(f"top/{name}", file.read_bytes())


def _zip_r(directory, path):
    run("zip", "-q", "-r", path, directory.name, cwd=directory.parent, env={"LC_ALL": "C.UTF-8"})


def _with_junk(directory, path):
    _zarr_python(directory, path)
    path.write_bytes(b"#!/bin/sh\nexit\n" * 1000 + path.read_bytes())


WAYS = {"zarr_python": _zarr_python, "netcdf_c": _netcdf_c, "zip_r": _zip_r, "zip64": _zip64, "streamed": _streamed, "junk": _with_junk}


def pack(directory, path, way="zarr_python"):
    WAYS[way](pathlib.Path(directory), pathlib.Path(path))
    return path


def root_in(path):
    """The directory of the store in an archive, "" for a flat one."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return "" if {".zgroup", ".zarray"} & set(names) else names[0].split("/")[0]


def open_zip(path):
    """The store in an archive as zarr-python reads it."""
    return zarr.open(zarr.ZipStore(str(path), mode="r"), "r", path=root_in(path))


def check(path):
    """Checks the archive strictly: every CRC, no name twice."""
    for command in (["unzip", "-tqq", path], ["/usr/bin/python3", "-m", "zipfile", "-t", path]):
        run(*command)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert len(names) == len(set(names))
