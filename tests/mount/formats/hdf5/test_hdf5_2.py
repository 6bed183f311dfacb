"""A codecfs with HDF5 2.x (the portable program) reads and writes what Debian 12's libhdf5 cannot read: see test_newer_hdf5. h5py of
PyPI, with an HDF5 2.x of its own, made the files and is the judge; Debian's h5py reads the new files."""
import json
import re
import shutil

import h5py
import numpy as np
import pytest
import zarr

from running import codecfs, run
from test_newer_hdf5 import HDF5, MAKE, READ
from venvs import python_of

pytestmark = pytest.mark.skipif(int(HDF5[1]) < 2, reason=f"codecfs with {HDF5[0]}")

TELL = """
import h5py, json, sys
told = {}
def tell(name, item):
    if isinstance(item, h5py.Dataset) and item.dtype.kind != "O":
        told[name] = str(item[...].tolist())
with h5py.File(sys.argv[1]) as f:
    f.visititems(tell)
print(json.dumps(told))
"""
FILES = ["types.h5", "attributes.h5", "removed.h5", "dense.h5", "committed.h5", "virtual.h5", "layout.h5", "complex.h5"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    run(python_of("hdf5plugin"), "-c", MAKE, folder)
    return folder


def told_by_h5py(path):
    return json.loads(run(python_of("hdf5plugin"), "-c", TELL, path).stdout)


@pytest.mark.parametrize("name", FILES)
def test_values_are_those_of_h5py(made, mount, name):
    want = told_by_h5py(made / name)
    assert "good" in want
    root = zarr.open_group(str(mount(made / name, "ro").path), mode="r")
    for path, values in want.items():
        shown = root[path][...]
        if shown.dtype.kind == "V":
            assert str([tuple(row) for row in shown.tolist()]) == values, path
        else:
            assert str(shown.tolist()) == values, path
    codecfs("verify", made / name)


@pytest.mark.parametrize("name", FILES)
def test_copies_are_read_by_hdf5_1_10(made, tmp_path, name):
    """What is made anew has no newer form than it needs."""
    if name != "virtual.h5":
        codecfs("convert", "--skip-unsupported", made / name, tmp_path / "a.zarr")
        codecfs("convert", tmp_path / "a.zarr", tmp_path / "b.h5")
        want = told_by_h5py(made / name)
        with h5py.File(tmp_path / "b.h5") as file:  # Debian's
            file.visititems(lambda path, item: item[...] if isinstance(item, h5py.Dataset) else dict(item.attrs))
            assert file["good"][:].tolist() == list(range(12))
            for path in set(want) & {"z", "truth", "colour"}:
                assert str(file[path][...].tolist()) == want[path]


@pytest.mark.parametrize("name", ["types.h5", "layout.h5", "complex.h5", "dense.h5"])
def test_they_are_written_and_compacted(made, mount, tmp_path, name):
    path = tmp_path / name
    shutil.copy(made / name, path)
    before = told_by_h5py(path)
    there = mount(path)
    (there.path / "good/1").write_bytes(np.array([7, 8, 9, 10], "<i4").tobytes())
    run("setfattr", "-n", "user.unit", "-v", "m", there.path / "good")
    if name == "layout.h5":
        (there.path / "packed/3").write_bytes(np.arange(10, dtype="<i8").tobytes())
    there.close()
    codecfs("compact", path)
    after = told_by_h5py(path)
    run(python_of("hdf5plugin"), "-c", READ, path)
    assert after.pop("good") == str([0, 1, 2, 3, 7, 8, 9, 10, 8, 9, 10, 11]) and before.pop("good")
    if name == "layout.h5":
        assert after.pop("packed") != before.pop("packed")
    assert after == before
    assert re.search("unit", run(python_of("hdf5plugin"), "-c", "import h5py, sys; print(dict(h5py.File(sys.argv[1])['good'].attrs))", path).stdout)


KINDS = """
import h5py, json, sys
with h5py.File(sys.argv[1]) as f:
    print(json.dumps([f["z"].id.get_type().get_class() == h5py.h5t.COMPLEX, str(f["z"][...].tolist()),
                      h5py.h5a.open(f["good"].id, b"za").get_type().get_class() == h5py.h5t.COMPLEX, str(f["good"].attrs["za"].tolist())]))
"""


@pytest.mark.parametrize("version, is_native", [("v110", False), ("latest", True)])
def test_native_complex_numbers_come_back(made, tmp_path, version, is_native):
    """As h5py's compound in a file that HDF5 1.10 reads; a compound stays one with --libver latest."""
    codecfs("convert", made / "complex.h5", tmp_path / "a.zarr")
    codecfs("convert", "--libver", version, tmp_path / "a.zarr", tmp_path / "b.h5")
    codecfs("verify", tmp_path / "b.h5")
    codecfs("compare", made / "complex.h5", tmp_path / "b.h5")

    def kinds(path):
        return json.loads(run(python_of("hdf5plugin"), "-c", KINDS, path).stdout)

    assert kinds(made / "complex.h5")[::2] == [True, True]
    assert kinds(tmp_path / "b.h5")[::2] == [is_native, is_native]
    assert kinds(tmp_path / "b.h5")[1::2] == kinds(made / "complex.h5")[1::2]
    if not is_native:
        with h5py.File(tmp_path / "b.h5") as file:  # Debian's
            assert file["z"].dtype == "c16" and file["good"].attrs["za"].dtype == "c16"
    else:
        codecfs("convert", "--libver", version, tmp_path / "a.zarr", tmp_path / "again.h5")
        codecfs("convert", made / "types.h5", tmp_path / "t.zarr", "--skip-unsupported")
        codecfs("convert", "--libver", version, tmp_path / "t.zarr", tmp_path / "t.h5")
        want = told_by_h5py(made / "types.h5")
        got = told_by_h5py(tmp_path / "t.h5")
        assert {path: got[path] for path in set(got) & set(want)} == {path: want[path] for path in set(got) & set(want)} and "z" in got
