"""Mounts that would hide something, or that would not be what was asked for, are refused."""
import pathlib

import h5py
import numpy as np
import pytest
import zarr

from conftest import is_mounted
from mounts import mount_points
from running import codecfs, run


@pytest.fixture
def source(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.arange(5)
    return tmp_path / "a.h5"


def refused(place, says, *words):
    count = mount_points().count(str(place))
    done = codecfs(*words, code=32)
    assert says in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert mount_points().count(str(place)) == count


def test_a_second_mount(source, place):
    place.mkdir()
    codecfs(source, place)
    for words in ([source, place], [source, f"{place}/"], ["-o", "ro", source, place], ["-o", "mkdir", source, place]):
        refused(place, f"codecfs is mounted there; unmount it first (codecfs -u {words[-1]})", *words)
    link = place.with_name("link")
    link.symlink_to(place)
    refused(place, "codecfs is mounted there", source, link)
    codecfs("-o", "nonempty,ro", source, place)
    assert mount_points().count(str(place)) == 2
    assert codecfs("-u", place, code=None).returncode == 0 and mount_points().count(str(place)) == 1
    assert codecfs("-u", place, code=None).returncode == 0 and not is_mounted(place)


def test_another_filesystem_may_be_there(source, place):
    """An empty one, as automount and bind mounts make them."""
    place.mkdir()
    if run("mount", "-t", "tmpfs", "none", place, code=None).returncode != 0:
        pytest.skip("no rights to mount a tmpfs")
    codecfs("-o", "ro", source, place)
    assert mount_points().count(str(place)) == 2
    (source.parent / "b").mkdir()
    codecfs("-u", place)
    (place / "file").touch()
    refused(place, "not empty (it has 'file')", source, place)


def test_a_directory_that_is_not_empty(source, place):
    place.mkdir()
    (place / ".hidden").write_text("x")
    refused(place, "not empty (it has '.hidden'), and a mount hides what is in it", source, place)
    refused(place, "not empty", "-o", "mkdir", source, place)
    codecfs("-o", "nonempty", source, place)
    assert not (place / ".hidden").exists() and (place / "v").exists()
    assert codecfs("-u", place, code=None).returncode == 0 and (place / ".hidden").read_text() == "x"


def make_zip(path):
    with zarr.ZipStore(str(path), mode="w") as store:
        zarr.group(store).create_dataset("v", data=np.arange(5))


def make_zarr3(path):
    path.mkdir()
    (path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')


def make_hdf5(path):
    with h5py.File(path, "w") as file:
        file["v"] = np.arange(5)


FORMATS = {"hdf5": make_hdf5, "zarr": lambda path: zarr.open_group(str(path), "w"), "zarr3": make_zarr3, "zip": make_zip,
           "folder": pathlib.Path.mkdir}


def bytes_of(path):
    return {str(file): file.read_bytes() for file in [path, *path.rglob("*")] if file.is_file()}


@pytest.mark.parametrize("made", FORMATS)
@pytest.mark.parametrize("asked", ["hdf5", "zarr", "zarr3", "zip"])
def test_create_on_what_exists(tmp_path, place, made, asked):
    FORMATS[made](tmp_path / "source")
    before = bytes_of(tmp_path / "source")
    place.mkdir()
    if made == asked:
        codecfs("-o", f"create={asked}", tmp_path / "source", place)
        codecfs("-u", place)
    else:
        refused(place, f"-o create={asked}: {tmp_path / 'source'} exists already and is another format", "-o", f"create={asked}",
                tmp_path / "source", place)
    assert bytes_of(tmp_path / "source") == before
