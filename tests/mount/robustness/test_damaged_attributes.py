"""Attributes that libhdf5 cannot read hide nothing but themselves: data, .zarray and .zmetadata are there."""
import errno
import json
import os
import pathlib
import re
import sys

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr
from conftest import xattr
from damaged_attributes import DATA, damaged_message
from running import codecfs, run
from venvs import python_of

OLD_DAMAGES = ["version", "size", "type", "second"]
DENSE_DAMAGES = ["BTHD", "BTLF", "FRHP", "FHDB"]


def damaged_index(path, damage):
    """The B-tree or heap of many attributes: its header, or the records, in the newest format."""
    with h5py.File(path, "w", libver="latest") as f:
        v = f.create_dataset("v", data=DATA, chunks=(4,), fillvalue=-1)
        f["w"] = DATA
        g = f.create_group("g")
        for i in range(20):
            v.attrs[f"a{i}"] = g.attrs[f"a{i}"] = i
    content = bytearray(path.read_bytes())
    mark = damage.encode()
    at = content.find(mark)
    while at >= 0:
        content[at + 4] = 99  # the version
        at = content.find(mark, at + 1)
    path.write_bytes(content)


def reads_attributes(path):
    """Whether h5py does, in a process that may crash."""
    program = "import h5py, sys; dict(h5py.File(sys.argv[1])['v'].attrs)"
    return run(sys.executable, "-c", program, path, code=None).returncode == 0


@pytest.fixture(params=OLD_DAMAGES + DENSE_DAMAGES)
def damaged(request, tmp_path):
    path = tmp_path / "attributes.h5"
    (damaged_message if request.param in OLD_DAMAGES else damaged_index)(path, request.param)
    if request.param != "second" and h5py.version.hdf5_version_tuple < (2, 0, 0):  # later ones print nothing of such a file
        dumped = run("h5dump", "-d", "/v", path, code=None).stdout
        assert "0, 1, 2, 3" in dumped
    with h5py.File(path) as f:
        assert np.array_equal(f["v"][:], DATA)
    assert not reads_attributes(path)
    return path


def fails(call):
    with pytest.raises(OSError) as error:
        call()
    assert error.value.errno == errno.EIO, error.value
    return True


def test_the_data_is_there(mount, damaged):
    m = mount(damaged)
    assert sorted(os.listdir(m.path)) == [".zattrs", ".zgroup", ".zmetadata", "g", "v", "w"]
    for number in range(3):
        assert (m.path / f"v/{number}").read_bytes() == DATA[4 * number:4 * number + 4].tobytes()
    assert json.loads((m.path / "v/.zarray").read_bytes())["dtype"] == "<i4"
    assert (m.path / "g/.zgroup").read_bytes() and sorted(os.listdir(m.path / "g"))
    assert (m.path / "w/0").read_bytes() == DATA.tobytes() and (m.path / "w/.zattrs").read_bytes()


def test_the_attributes_fail_with_the_reason(mount, damaged):
    m = mount(damaged)
    for name in ("v", "g"):
        for view in ("", ".codecfs/view/encoded"):
            assert fails((m.path / view / name / ".zattrs").read_bytes)
        assert fails(lambda: os.getxattr(m.path / name, "user.an_attribute"))
        assert "attributes" in xattr(m.path / name, "_Error")
    assert {"user._Filter", "user._Storage", "user._Error"} <= set(os.listxattr(m.path / "v"))
    assert xattr(m.path / "v", "_Filter") == "none"
    assert re.search("attributes cannot be listed|reads the attributes of", m.messages())
    with pytest.raises(OSError) as error:
        os.getxattr(m.path / "w", "user.an_attribute")
    assert error.value.errno == errno.ENODATA


@pytest.mark.parametrize("view", ["", ".codecfs/view/encoded"])
def test_clients_with_consolidated_metadata_read_the_data(mount, damaged, view):
    top = str(mount(damaged).path / view)
    metadata = json.loads((pathlib.Path(top) / ".zmetadata").read_bytes())["metadata"]
    assert "attributes" in metadata["v/.zattrs"]["_Error"]
    assert "attributes" in metadata["g/.zattrs"]["_Error"]
    assert "_Error" not in metadata["w/.zattrs"]
    group = zarr.open_consolidated(top, mode="r")
    assert np.array_equal(group["v"][:], DATA) and np.array_equal(group["w"][:], DATA)
    with xarray.open_zarr(top, consolidated=True) as shown:
        assert np.array_equal(shown["v"].values, DATA) and np.array_equal(shown["w"].values, DATA)
    assert np.array_equal(zarr.open_group(top, mode="r")["v"][:], DATA)


def test_attributes_are_not_changed_but_data_is(mount, damaged):
    m = mount(damaged)
    for name in ("v", "g"):
        assert fails(lambda: os.setxattr(m.path / name, "user.new", b"1"))
        assert fails(lambda: os.removexattr(m.path / name, "user.an_attribute"))
        assert fails(lambda: (m.path / name / ".zattrs").write_text("{}"))
        (m.path / name / ".new").write_text('{"new": 1}')
        assert fails(lambda: os.rename(m.path / name / ".new", m.path / name / ".zattrs"))
        (m.path / name / ".new").unlink()
    changed = DATA + 100
    (m.path / "v/1").write_bytes(changed[4:8].tobytes())
    os.setxattr(m.path / "w", "user.new", b"1")
    before = damaged.read_bytes()
    m.unmount()
    assert damaged.read_bytes() != before
    with h5py.File(damaged) as f:
        assert f["v"][:].tolist() == [0, 1, 2, 3, 104, 105, 106, 107, 8, 9, 10, 11]
        assert dict(f["w"].attrs) == {"new": 1}
    assert not reads_attributes(damaged)


def test_compaction_refuses_with_the_reason(damaged):
    before = damaged.read_bytes()
    done = codecfs("--compact", damaged, code=None)
    assert done.returncode != 0 and "the attributes cannot be listed" in done.stderr, done.stderr
    assert damaged.read_bytes() == before


def test_attributes_that_libhdf5_reads_forever(mount, tmp_path):
    """libhdf5 1.10 never ends at free space of no size in the heap of texts: only the attributes are refused."""
    path = tmp_path / "endless.h5"
    with h5py.File(path, "w") as f:
        v = f.create_dataset("v", data=DATA, chunks=(4,))
        v.attrs["an_attribute"] = "text"
        f["w"] = DATA
    content = bytearray(path.read_bytes())
    heap = at = content.index(b"GCOL")
    end, at = heap + int.from_bytes(content[heap + 8:heap + 16], "little"), heap + 16
    while at < end:  # objects: index, references, reserved, size, data
        size = int.from_bytes(content[at + 8:at + 16], "little")
        if content[at:at + 2] == b"\0\0":
            content[at + 8:at + 16] = bytes(8)
            break
        at += 16 + (size + 7) // 8 * 8
    path.write_bytes(content)
    m = mount(path)
    assert {"v", "w"} <= set(os.listdir(m.path))
    for _ in range(2):
        assert fails((m.path / "v/.zattrs").read_bytes)
        assert np.fromfile(m.path / "v/1", "<i4").tolist() == DATA[4:8].tolist()
    assert "reads the attributes of" in xattr(m.path / "v", "_Error")
    (m.path / "v/1").write_bytes(DATA[:4].tobytes())
    assert json.loads((m.path / "w/.zattrs").read_bytes()) is not None
    m.unmount()
    with h5py.File(path) as f:
        assert f["v"][4:8].tolist() == DATA[:4].tolist()


def test_an_attribute_of_a_newer_hdf5_at_the_root_hides_nothing_else(mount, tmp_path):
    """Of h5py of PyPI, with what its documents tell writers of SWMR to set: HDF5 1.10 does not read such attributes."""
    program = """
import h5py, numpy, sys
with h5py.File(sys.argv[1], "w", libver="latest") as f:
    f.attrs["flag"] = numpy.bool_(True)
    f.attrs["number"] = 3
    f.create_dataset("v", data=numpy.arange(12, dtype="<i4"), chunks=(4,), fillvalue=-1)
    f["g/w"] = numpy.arange(3.0)
"""
    path = tmp_path / "latest.h5"
    run(python_of("hdf5plugin"), "-c", program, path)
    m = mount(path)
    assert {"g", "v", ".zgroup"} <= set(os.listdir(m.path))
    for number in range(3):
        assert (m.path / f"v/{number}").read_bytes() == DATA[4 * number:4 * number + 4].tobytes()
    assert (m.path / "g/w/0").read_bytes() == np.arange(3.0).tobytes()
    version = codecfs("--version").stdout
    if re.search(r"libhdf5 1\.(8|10)\.", version):
        with pytest.raises(OSError) as error:
            (m.path / ".zattrs").read_bytes()
        assert error.value.errno == errno.EPROTONOSUPPORT
        assert 'attribute "flag": written by a newer HDF5 (datatype version ' in xattr(m.path, "_Error")
    else:
        assert json.loads((m.path / ".zattrs").read_bytes()) == {"flag": True, "number": 3}
    told = codecfs("info", path)
    assert "2 variables" in told.stdout


def test_a_file_stays_netcdf_when_its_root_attributes_cannot_be_read(mount, tmp_path):
    """What tells that it is netCDF is among them: single values stay single values, and new ones have netCDF's form."""
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as f:
        f.createGroup("g").n = np.int32(7)
    with h5py.File(path, "r+") as f:
        f.attrs.create("slow", np.full(15 << 20, b"z", dtype="S1"))
    m = mount(path)
    assert json.loads((m.path / "g/.zattrs").read_bytes()) == {"n": 7}
    assert fails((m.path / ".zattrs").read_bytes)
    os.setxattr(m.path / "g", "user.new", b"3")
    assert json.loads((m.path / "g/.zattrs").read_bytes()) == {"n": 7, "new": 3}
    m.close()
    with h5py.File(path) as f:
        assert f["g"].attrs["new"].shape == (1,)


def test_a_root_whose_links_crash_libhdf5_is_mounted_with_the_reason(mount, tmp_path):
    path = tmp_path / "loop.h5"
    with h5py.File(path, "w") as f:
        for i in range(4):
            f[f"v{i}"] = DATA
    content = bytearray(path.read_bytes())
    at = content.index(b"TREE\0")
    content[at + 5] = 1  # its level: the first child is a node
    content[at + 32:at + 40] = at.to_bytes(8, "little")  # itself
    path.write_bytes(content)
    m = mount(path)
    assert fails(lambda: os.listdir(m.path)) and "loop.h5" in xattr(m.path, "_Error")
