"""Strings of variable length in HDF5 that are not UTF-8: h5py writes what it is given, readers of Zarr refuse the whole chunk."""
import shutil

import h5py
import numpy as np
import pytest
import zarr
from running import codecfs

STORED = [b"M\xfcller", b"abc", b"caf\xe9", b"", "Zürich".encode(), b"\xff"]
TEXTS = ["Müller", "abc", "café", "", "Zürich", "ÿ"]


@pytest.fixture
def source(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("names", (6,), dtype=h5py.string_dtype("ascii"), chunks=(4,), compression="gzip")[:] = np.array(STORED, object)
        file.create_dataset("fill", (6,), dtype=h5py.string_dtype("ascii"), chunks=(4,), fillvalue=b"\xe9")
    return tmp_path / "a.h5"


def stored(path):
    with h5py.File(path) as file:
        return file["names"][:].tolist()


def test_are_shown_as_latin_1(mount, source):
    group = zarr.open_group(str(mount(source, "ro").path), mode="r")
    assert group["names"][:].tolist() == TEXTS
    assert group["fill"][:].tolist() == ["é"] * 6


def test_copies_are_read_by_others_and_compare_as_equal(source, tmp_path):
    codecfs("convert", source, tmp_path / "a.zarr")
    assert zarr.open_group(str(tmp_path / "a.zarr"), mode="r")["names"][:].tolist() == TEXTS
    codecfs("compare", source, tmp_path / "a.zarr")
    codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5")
    assert stored(tmp_path / "b.h5") == [text.encode() for text in TEXTS]


def test_what_is_not_changed_keeps_its_bytes(mount, source, tmp_path):
    shutil.copy(source, tmp_path / "same.h5")
    there = mount(tmp_path / "same.h5")
    chunk = (there.path / "names/0").read_bytes()
    (there.path / "names/0").write_bytes(chunk)
    names = zarr.open_group(str(there.path), mode="r+")["names"]
    names[1] = "new"
    names[5] = "ü"
    there.close()
    assert stored(tmp_path / "same.h5") == [STORED[0], b"new", *STORED[2:5], "ü".encode()]


@pytest.mark.parametrize("form", ["zarr", "zarr3", "zip"])
def test_names_are_escaped_in_zarr(tmp_path, form):
    """Keys of Zarr are UTF-8."""
    source, copy = tmp_path / "a.h5", tmp_path / ("b.zip" if form == "zip" else "b.zarr")
    with h5py.File(source, "w") as file:
        file[b"m\xfcller"] = np.arange(3)
        file[b"g\xe9o/caf\xe9"] = np.arange(4)
        file["plain%E9"] = np.arange(2)

    def complete(*words):
        assert "left out" not in codecfs(*words).stderr

    complete("convert", "--format", form, source, copy)
    group = zarr.open_group(zarr.ZipStore(str(copy), mode="r"), mode="r") if form == "zip" else None
    if form == "zarr":
        group = zarr.open_group(str(copy), mode="r")
    if group is not None:
        assert group["m%FCller"][:].tolist() == [0, 1, 2] and group["g%E9o/caf%E9"][:].tolist() == [0, 1, 2, 3]
    complete("compare", source, copy)
    complete("convert", copy, tmp_path / "c.h5")
    complete("compare", copy, tmp_path / "c.h5")
    again = tmp_path / ("d.zip" if form == "zip" else "d.zarr")
    complete("convert", copy, again)
    complete("compare", source, again)
    if form == "zarr":
        assert sorted(zarr.open_group(str(again), mode="r")) == sorted(group)
