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


def test_a_mount_point_is_made_and_printed(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "data").mkdir()
    store = tmp_path / "s.zarr"
    zarr.open_group(str(store), "w").create_dataset("v", data=[1, 2])
    expected = {source: "a.mnt.zarr", store: "s.mnt.zarr", f"{store}/": "s.mnt2.zarr", tmp_path / "data": "data.mnt"}
    made = []
    try:
        for words, name in [([path], name) for path, name in expected.items()] + [(["-o", "ro", source], "a.mnt2.zarr")]:
            told = codecfs(*words)
            made.append(told.stdout.rstrip("\n"))
            assert told.stdout == f"{tmp_path}/{name}\n" and is_mounted(tmp_path / name)
        told = codecfs("-o", "ro", "a.h5").stdout
        made.append(told.rstrip("\n"))
        assert told == "a.mnt3.zarr\n"
        assert zarr.open_group(str(tmp_path / "a.mnt.zarr"), "r")["v"][...].tolist() == list(range(5))
    finally:
        for path in made:
            codecfs("unmount", path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "data", "run", "s.zarr"]


def test_where_no_mount_point_can_be_made(source, tmp_path):
    """An error of the mount leaves none; beside a source in a directory that cannot be written, $XDG_RUNTIME_DIR is used."""
    failed = codecfs(tmp_path / "nothing.nc", code=None)
    assert failed.returncode == 32 and "nothing.nc" in failed.stderr and [path.name for path in tmp_path.iterdir()] == ["a.h5"]
    long = codecfs(tmp_path / ("n" * 250 + ".nc"), code=None)
    assert long.returncode != 0 and "File name too long" in long.stderr and "exists" not in long.stderr
    refused = codecfs("https://localhost:1/a%20b/c.nc?x=y", env={"XDG_RUNTIME_DIR": None}, code=None)
    assert refused.returncode != 0 and "no mount point is given" in refused.stderr
    (tmp_path / "run").mkdir()
    with h5py.File(tmp_path / "run/b.h5", "w") as file:
        file["v"] = [1]
    place = tmp_path / "ro"
    place.mkdir()
    if run("mount", "-t", "tmpfs", "none", place, code=None).returncode != 0:
        pytest.skip("no rights to mount a tmpfs")
    try:
        (place / "b.h5").write_bytes((tmp_path / "run/b.h5").read_bytes())
        run("mount", "-o", "remount,ro", place)
        told = codecfs("-o", "ro", place / "b.h5", env={"XDG_RUNTIME_DIR": str(tmp_path / "run")}).stdout
        assert told == f"{tmp_path}/run/codecfs/b.mnt.zarr\n" and is_mounted(told.rstrip("\n"))
        codecfs("unmount", told.rstrip("\n"))
    finally:
        run("umount", place)


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
