"""A mounted folder: datasets in it are directories, everything else is as it is; compared with h5py, zarr and xarray."""
import concurrent.futures
import errno
import json
import os
import random
import shutil
import stat
import threading
import time

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr

import compare
from conftest import DATA, Mount, mounted, unmount, xattr
from running import codecfs, run

VALUES = np.arange(600, dtype="<i4").reshape(20, 30)


def make_hdf5(path, values=VALUES):
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=values, chunks=(10, 10), compression="gzip", maxshape=(None, None))
        file.create_dataset("g/w", data=values * 2.5, chunks=(10, 10), shuffle=True)
        file.attrs["title"] = "one"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "data"
    (path / "sub/deep/deeper").mkdir(parents=True)
    (path / "empty").mkdir()
    make_hdf5(path / "a.h5")
    make_hdf5(path / "sub/b.nc", VALUES + 7)
    make_hdf5(path / "sub/deep/deeper/without_a_name", VALUES - 7)
    xarray.Dataset({"t": (("y", "x"), VALUES)}).to_netcdf(path / "netcdf.nc", engine="netcdf4")
    zarr.open_group(str(path / "store.zarr"), "w").create_dataset("z", data=VALUES, chunks=(10, 10))
    zarr.save_array(str(path / "sub/array.zarr"), VALUES)
    (path / "readme.txt").write_text("text\n")
    (path / "sub/run.sh").write_text("#!/bin/sh\necho ran\n")
    (path / "sub/run.sh").chmod(0o755)
    (path / "name of \udcff bytes %41").write_text("odd")
    (path / "v3").mkdir()
    (path / "v3/zarr.json").write_text("{}")
    (path / "to_a").symlink_to("a.h5")
    (path / "to_v").symlink_to("sub/b.nc/v")
    (path / "dangling").symlink_to("nowhere")
    (path / "outside").symlink_to("/etc/hostname")
    (path / "broken.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"nonsense" * 40)
    shutil.copy(DATA / "hdf5/attributes.h5", path / "cut.h5")
    os.truncate(path / "cut.h5", 600)
    os.mkfifo(path / "pipe")
    return path


def same_as_h5py(directory, path):
    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            assert compare.read_variable(directory / name, item[...]) > 0

    with h5py.File(path) as file:
        file.visititems(visit)
        assert set(os.listdir(directory)) == {*file, ".zgroup", ".zattrs", ".zmetadata"}


def open_files(mount, below):
    """The files below a path that the daemon holds open."""
    found = set()
    for fd in os.listdir(f"/proc/{mount.process.pid}/fd"):
        try:
            target = os.readlink(f"/proc/{mount.process.pid}/fd/{fd}")
        except FileNotFoundError:
            continue
        if target.startswith(str(below) + "/") and not os.path.isdir(target):
            found.add(os.path.relpath(target, below))
    return found


def list_long(*folders):
    """As ls -l did before coreutils 9.7, which asks for all extended attributes and so opens datasets."""
    run("find", *folders, "-maxdepth", "1", "-ls")
    for folder in folders:
        for name in os.listdir(folder):
            if not (folder / name).is_symlink():
                refused(errno.ENODATA, os.getxattr, folder / name, "system.posix_acl_access")


def refused(code, what, *arguments):
    with pytest.raises(OSError) as error:
        what(*arguments)
    assert error.value.errno == code, error.value


def test_shows_what_there_is(mount, folder):
    m = mount(folder)
    assert sorted(os.listdir(m.path)) == sorted(set(os.listdir(folder)) - {"pipe"})
    assert sorted(os.listdir(m.path / "sub")) == ["array.zarr", "b.nc", "deep", "run.sh"]
    assert os.listdir(m.path / "empty") == [] and os.listdir(m.path / "v3") == ["zarr.json"]
    for name in ("readme.txt", "sub/run.sh", "name of \udcff bytes %41"):
        there, here = os.stat(folder / name), os.stat(m.path / name)
        assert (m.path / name).read_bytes() == (folder / name).read_bytes()
        assert (here.st_size, here.st_mtime_ns, here.st_uid) == (there.st_size, there.st_mtime_ns, there.st_uid)
        assert here.st_mode == there.st_mode & ~0o222
        assert os.listxattr(m.path / name) == []
    assert run(m.path / "sub/run.sh", code=None).stdout == "ran\n"
    for name in ("to_a", "to_v", "dangling", "outside"):
        assert os.readlink(m.path / name) == os.readlink(folder / name)
    assert (m.path / "to_v/.zarray").read_bytes() == (m.path / "sub/b.nc/v/.zarray").read_bytes()
    assert not (m.path / "pipe").exists() and not (m.path / ".zmetadata").exists()
    assert ".codecfs" not in os.listdir(m.path) and "folder" in m.messages()
    entries = {e.name: e for e in os.scandir(m.path)}
    assert entries["readme.txt"].is_file(follow_symlinks=False) and entries["a.h5"].is_dir(follow_symlinks=False)
    assert entries["dangling"].is_symlink()


def test_datasets_equal_what_h5py_and_zarr_read(mount, folder):
    m = mount(folder)
    same_as_h5py(m.path / "a.h5", folder / "a.h5")
    same_as_h5py(m.path / "sub/b.nc", folder / "sub/b.nc")
    same_as_h5py(m.path / "sub/deep/deeper/without_a_name", folder / "sub/deep/deeper/without_a_name")
    assert (zarr.open_group(str(m.path / "store.zarr"), "r")["z"][:] == VALUES).all()
    assert (zarr.open_array(str(m.path / "sub/array.zarr"), "r")[:] == VALUES).all()
    with xarray.open_zarr(str(m.path / "netcdf.nc"), consolidated=True) as ours, \
            xarray.open_dataset(folder / "netcdf.nc") as theirs:
        xarray.testing.assert_identical(ours.load(), theirs.load())


def test_every_generated_file_at_once(mount):
    """The folder of all sources of the other tests: what can be read alone can be read here, and damage stays where it is."""
    m = mount(DATA, "ro")
    for path in sorted((DATA / "hdf5").glob("*")):
        here = m.path / "hdf5" / path.name
        if path.suffix not in (".h5", ".nc"):
            assert here.read_bytes() == path.read_bytes()
        elif not path.name.startswith(("damaged", "filter_unknown", "virtual", "filters_plugins")):
            with mounted(path, m.path.with_name("alone"), "ro") as alone:
                for top in (here, alone.path):
                    assert (top / ".zmetadata").read_bytes()
                assert (here / ".zmetadata").read_bytes() == (alone.path / ".zmetadata").read_bytes(), path


def test_a_dataset_is_opened_when_it_is_looked_into(mount, folder):
    m = mount(folder)
    run("ls", "-lR", m.path / "sub/deep")
    assert open_files(m, folder) == {"sub/deep/deeper/without_a_name"}
    list_long(m.path, m.path / "sub")
    (m.path / "readme.txt").read_bytes()
    assert open_files(m, folder) - {"readme.txt"} == {"sub/deep/deeper/without_a_name"}
    os.listdir(m.path / "a.h5")
    assert open_files(m, folder) - {"readme.txt"} == {"sub/deep/deeper/without_a_name", "a.h5"}
    (m.path / "sub/b.nc/.zattrs").read_bytes()
    assert "sub/b.nc" in open_files(m, folder)


def test_files_that_are_no_datasets_say_why(mount, tmp_path):
    source = tmp_path / "data"
    (source / "n5/deep").mkdir(parents=True)
    (source / "n5/attributes.json").write_text('{"n5": "2.0.0"}')
    with netCDF4.Dataset(source / "old.nc", "w", format="NETCDF3_CLASSIC") as f:
        f.title = "T"
    make_hdf5(source / "zeroed.h5")
    content = (source / "zeroed.h5").read_bytes()
    (source / "zeroed.h5").write_bytes(bytes(512) + content[512:])
    make_hdf5(source / "cut.h5")
    os.truncate(source / "cut.h5", 600)
    (source / "empty.nc").touch()
    (source / "readme.txt").write_text("CDF is a format")
    m = mount(source)
    for name, says in {"old.nc": "nccopy", "zeroed.h5": "no HDF5 signature", "empty.nc": "empty", "n5": "N5"}.items():
        assert "user._Error" in os.listxattr(m.path / name)
        assert name in xattr(m.path / name, "_Error") and says in xattr(m.path / name, "_Error")
    assert "cut.h5" in xattr(m.path / "cut.h5", "_Error"), "a dataset that cannot be opened"
    assert os.listxattr(m.path / "readme.txt") == os.listxattr(m.path / "n5/deep") == []
    assert (m.path / "old.nc").read_bytes() == (source / "old.nc").read_bytes()


def test_a_broken_file_keeps_its_directory(mount, folder):
    m = mount(folder)
    for name in ("broken.h5", "cut.h5"):
        assert stat.S_ISDIR(os.stat(m.path / name).st_mode)
        refused(errno.EIO, os.listdir, m.path / name)
        refused(errno.EIO, os.stat, m.path / name / "v")
        refused(errno.EIO, (m.path / name / ".zattrs").read_bytes)
        assert name in xattr(m.path / name, "_Error")
    same_as_h5py(m.path / "a.h5", folder / "a.h5")
    make_hdf5(folder / "good")
    os.rename(folder / "good", folder / "broken.h5")
    time.sleep(1)
    same_as_h5py(m.path / "broken.h5", folder / "broken.h5")


def test_writing_into_datasets(folder, tmp_path):
    before = {name: (folder / name).read_bytes() for name in ("netcdf.nc", "readme.txt", "broken.h5")}
    new = VALUES[:10, :10] + 1000
    with mounted(folder, tmp_path / "mnt", "commit=1") as m:
        for name in ("a.h5/v", "sub/b.nc/v", "store.zarr/z"):
            (m.path / name / "0.0").write_bytes(new.tobytes())
        os.setxattr(m.path / "a.h5/v", "user.units", b"K")
        (m.path / "sub/b.nc/.zattrs").write_text('{"title": "two"}')
        os.setxattr(m.path / "sub/b.nc/v", "user._Filter", b"2,4|1,9")
        xarray.Dataset({"n": ("x", np.arange(5.0))}).to_zarr(str(m.path / "sub/deep/deeper/without_a_name/made"),
                                                             encoding={"n": {"compressor": None}}, consolidated=False)
        run("cp", "-r", m.path / "a.h5/g", m.path / "store.zarr/copied")
        os.rename(m.path / "a.h5/g", m.path / "a.h5/renamed")
        assert (np.frombuffer((m.path / "a.h5/v/0.0").read_bytes(), "<i4").reshape(10, 10) == new).all()
        assert m.stats()["errors"] == 0
    for name, shift in (("a.h5", 0), ("sub/b.nc", 7)):
        with h5py.File(folder / name) as file:
            assert (file["v"][:10, :10] == new).all() and (file["v"][10:] == VALUES[10:] + shift).all()
    with h5py.File(folder / "a.h5") as file:
        assert file["v"].attrs["units"] == "K" and "g" not in file
        assert (file["renamed/w"][:] == VALUES * 2.5).all()
    with h5py.File(folder / "sub/b.nc") as file:
        assert file.attrs["title"] == "two" and file["v"].shuffle and file["v"].compression_opts == 9
    with h5py.File(folder / "sub/deep/deeper/without_a_name") as file:
        assert (file["made/n"][:] == np.arange(5.0)).all()
    store = zarr.open_group(str(folder / "store.zarr"), "r")
    assert (store["z"][:10, :10] == new).all() and (store["copied/w"][:] == VALUES * 2.5).all()
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_the_folder_itself_is_only_read(mount, folder):
    m = mount(folder)
    before = sorted(os.listdir(folder))
    for call in (lambda: os.mkdir(m.path / "new"),
                 lambda: (m.path / "new").write_text("x"),
                 lambda: (m.path / "readme.txt").write_text("x"),
                 lambda: os.truncate(m.path / "readme.txt", 1),
                 lambda: os.utime(m.path / "readme.txt"),
                 lambda: os.chmod(m.path / "readme.txt", 0o777),
                 lambda: os.setxattr(m.path / "sub", "user.x", b"y"),
                 lambda: os.unlink(m.path / "readme.txt"),
                 lambda: os.unlink(m.path / "dangling"),
                 lambda: os.rmdir(m.path / "empty"),
                 lambda: os.rmdir(m.path / "a.h5"),
                 lambda: os.rename(m.path / "a.h5", m.path / "c.h5"),
                 lambda: os.rename(m.path / "a.h5/v", m.path / "v"),
                 lambda: os.rename(m.path / "readme.txt", m.path / "sub/readme.txt"),
                 lambda: os.symlink("readme.txt", m.path / "sub/link")):
        refused(errno.EPERM, call)
    assert "only read" in xattr(m.path, "_Error")
    assert sorted(os.listdir(folder)) == before


def test_mv_between_datasets(folder, tmp_path):
    with mounted(folder, tmp_path / "mnt") as m:
        run("mv", m.path / "a.h5/v", m.path / "sub/b.nc/moved")
        assert not (m.path / "a.h5/v").exists()
    with h5py.File(folder / "a.h5") as source, h5py.File(folder / "sub/b.nc") as target:
        assert "v" not in source and (target["moved"][:] == VALUES).all()


def test_changes_of_the_folder_by_other_programs_are_seen(mount, folder):
    m = mount(folder)
    assert not (m.path / "sub/new.h5").exists()
    os.listdir(m.path / "sub")
    first = (m.path / "a.h5/v/0.0").read_bytes()
    make_hdf5(folder / "sub/new.h5")
    (folder / "sub/new.txt").write_text("new")
    (folder / "readme.txt").write_text("longer than it was\n")
    make_hdf5(folder / "other.h5", VALUES + 1)
    os.rename(folder / "other.h5", folder / "a.h5")
    os.unlink(folder / "sub/b.nc")
    assert "new.h5" in os.listdir(m.path / "sub")
    time.sleep(1)
    assert (m.path / "readme.txt").read_text() == "longer than it was\n"
    assert (m.path / "sub/new.txt").read_text() == "new" and not (m.path / "sub/b.nc").exists()
    same_as_h5py(m.path / "sub/new.h5", folder / "sub/new.h5")
    same_as_h5py(m.path / "a.h5", folder / "a.h5")
    assert (m.path / "a.h5/v/0.0").read_bytes() != first


def test_an_open_file_stays_what_it_was(mount, folder):
    """As in any filesystem: an open file is read as it was opened, whatever has its name now."""
    m = mount(folder)
    (folder / "sub/old").write_bytes(b"old" * 100_000)
    with open(m.path / "sub/old", "rb", buffering=0) as file:
        assert file.read(3) == b"old"
        (folder / "sub/fresh").write_bytes(b"new" * 100_000)
        os.rename(folder / "sub/fresh", folder / "sub/old")
        file.seek(150_000)
        assert file.read(3) == b"old"


def test_many_names_of_one_file_are_one_dataset(folder, tmp_path):
    os.link(folder / "a.h5", folder / "sub/again.h5")
    with mounted(folder, tmp_path / "mnt") as m:
        os.listdir(m.path)
        assert os.readlink(m.path / "sub/again.h5") == "../a.h5"
        (m.path / "sub/again.h5/v/0.0").write_bytes(bytes(400))
        assert (m.path / "a.h5/v/0.0").read_bytes() == (m.path / "to_a/v/0.0").read_bytes() == bytes(400)
    with h5py.File(folder / "a.h5") as file:
        assert not file["v"][:10, :10].any()


def test_a_mount_point_in_the_folder(folder):
    inside = folder / "sub/mnt"
    with mounted(folder, inside) as m:
        assert "mnt" not in os.listdir(m.path / "sub") and not (m.path / "sub/mnt").exists()
        same_as_h5py(m.path / "a.h5", folder / "a.h5")
        walked = {os.path.relpath(where, m.path) for where, _, _ in os.walk(m.path)}
        assert "sub/deep/deeper" in walked and not any("mnt" in where for where in walked)
    inside.rmdir()
    inside.parent.joinpath("inner").mkdir()
    for over in (folder, folder.parent):
        done = codecfs("-f", "-o", "nonempty", folder, over, seconds=20, code=None)
        assert done.returncode != 0 and "over itself" in done.stderr


def test_views(mount, folder):
    m = mount(folder)
    encoded = m.path / ".codecfs/view/encoded"
    assert (encoded / "readme.txt").read_text() == "text\n"
    assert (zarr.open_group(str(encoded / "a.h5"), "r")["v"][:] == VALUES).all()
    with h5py.File(folder / "a.h5") as file:
        assert (encoded / "a.h5/v/0.0").read_bytes() == file["v"].id.read_direct_chunk((0, 0))[1]
    arrays = m.path / ".codecfs/view/npy"
    assert sorted(os.listdir(arrays / "a.h5")) == ["g", "v.npy"] and (arrays / "readme.txt").read_text() == "text\n"
    assert (np.load(arrays / "a.h5/v.npy", mmap_mode="r") == VALUES).all()
    assert (np.load(arrays / "sub/array.zarr.npy") == VALUES).all() and "array.zarr" not in os.listdir(arrays / "sub")
    assert (np.load(arrays / "to_v.npy") == VALUES + 7).all()
    np.load(arrays / "a.h5/v.npy", mmap_mode="r+")[3, 4] = -5
    os.sync()
    assert np.frombuffer((m.path / "a.h5/v/0.0").read_bytes(), "<i4").reshape(10, 10)[3, 4] == -5
    top = mount(folder, "ro", "view=encoded")
    assert (zarr.open_array(str(top.path / "sub/b.nc/v"), "r")[:] == VALUES + 7).all()
    assert os.listdir(top.path / "v3") == ["zarr.json"]


def test_filter_rules_name_variables_by_their_path(folder, tmp_path):
    with mounted(folder, tmp_path / "mnt", rules=["/a.h5/v,307,9", "/sub/none.h5/v,1,9"]) as m:
        assert "/sub/none.h5/v" in m.messages() and "/a.h5/v:" not in m.messages()
        assert xattr(m.path / "a.h5/v", "_FilterOut") == "307,9"
        assert "user._FilterOut" not in os.listxattr(m.path / "sub/b.nc/v")


def test_chains_are_for_the_source_that_stores_them(folder, tmp_path):
    """numcodecs does not decode netCDF's order of shuffle and fletcher32 with elements of 8 bytes, so it is another one in
    Zarr."""
    zarr.open_group(str(folder / "store.zarr")).create_dataset("f8", data=VALUES * 2.5, chunks=(10, 10))
    with mounted(folder, tmp_path / "mnt") as m:
        for name in ("a.h5/g/w", "store.zarr/f8"):
            os.setxattr(m.path / name, "user._Filter", b"fletcher32|shuffle|deflate,5")
        assert xattr(m.path / "a.h5/g/w", "_Filter").startswith("3|2")
        assert xattr(m.path / "store.zarr/f8", "_Filter").startswith("2,8|3")
    with h5py.File(folder / "a.h5") as file:
        assert file["g/w"].fletcher32 and (file["g/w"][:] == VALUES * 2.5).all()


def test_a_large_folder(mount, tmp_path):
    big = tmp_path / "big"
    big.mkdir()
    make_hdf5(big / "00000.h5")
    for i in range(1, 10_000):
        if i % 2:
            os.link(big / "00000.h5", big / f"x{i}") if i < 500 else (big / f"{i:05}.txt").write_bytes(b"text" * 300)
        else:
            (big / f"{i:05}.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + i.to_bytes(4, "little") * 300)
    m = mount(big)
    start = time.monotonic()
    names = os.listdir(m.path)
    plain = time.monotonic() - start
    list_long(m.path)
    print(f"ls {plain:.2f} s, ls -l {time.monotonic() - start - plain:.2f} s")
    assert sorted(names) == sorted(os.listdir(big))
    assert open_files(m, big) == set()
    same_as_h5py(m.path / "00000.h5", big / "00000.h5")


def test_more_datasets_than_are_kept_open(folder, tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for i in range(100):
        make_hdf5(many / f"{i}.h5", VALUES + i)
    with mounted(many, tmp_path / "mnt") as m:
        for _ in range(2):
            for i in range(100):
                assert (m.path / f"{i}.h5/v/0.0").read_bytes() == (VALUES[:10, :10] + i).tobytes()
                (m.path / f"{i}.h5/v/1.1").write_bytes((VALUES[:10, :10] * i).tobytes())
        assert len(open_files(m, many)) <= 70
        assert m.stats()["errors"] == 0
    for i in range(100):
        with h5py.File(many / f"{i}.h5") as file:
            assert (file["v"][10:, 10:20] == VALUES[:10, :10] * i).all()
    assert sorted(os.listdir(many)) == sorted(f"{i}.h5" for i in range(100))


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def logs_in(path):
    return sorted(name for name in os.listdir(path) if name.endswith("-wal"))


NEW = VALUES[:10, :10] + 1000


@pytest.mark.parametrize("ending", ["replaced", "deleted"])
def test_what_is_lost_with_its_file_is_told(folder, tmp_path, ending):
    """Nothing is reported as stored when no name leads to it."""
    m = Mount(folder, tmp_path / "mnt", "commit=3600")
    try:
        (m.path / "a.h5/v/0.0").write_bytes(NEW.tobytes())
        (m.path / "sub/b.nc/v/0.0").write_bytes(NEW.tobytes())
        if ending == "replaced":
            make_hdf5(folder / "other.h5", VALUES + 1)
            os.rename(folder / "other.h5", folder / "a.h5")
        else:
            os.unlink(folder / "a.h5")
        refused(errno.ESTALE, sync, m.path)
        unmount(m.path)
        m.process.wait(30)
        assert "a.h5: " in m.log.read_text() and "deleted or replaced" in m.log.read_text()
    finally:
        m.process.kill()
        unmount(m.path)
    assert logs_in(folder) == logs_in(folder / "sub") == []
    with h5py.File(folder / "sub/b.nc") as file:
        assert (file["v"][:10, :10] == NEW).all()
    if ending == "replaced":
        with h5py.File(folder / "a.h5") as file:
            assert (file["v"][:] == VALUES + 1).all()


def test_what_is_lost_at_the_end_is_told(folder, tmp_path):
    m = Mount(folder, tmp_path / "mnt", "commit=3600")
    try:
        (m.path / "a.h5/v/0.0").write_bytes(NEW.tobytes())
        os.unlink(folder / "a.h5")
        unmount(m.path)
        assert m.process.wait(30) != 0
        assert "not all data could be stored" in m.log.read_text()
    finally:
        m.process.kill()
        unmount(m.path)
    assert logs_in(folder) == []


@pytest.mark.parametrize("ending", ["unmount", "kill"])
def test_a_dataset_that_was_written_is_replaced(folder, tmp_path, ending):
    m = Mount(folder, tmp_path / "mnt", "commit=3600")
    try:
        (m.path / "a.h5/v/0.0").write_bytes(NEW.tobytes())
        sync(m.path)
        assert logs_in(folder) == [".a.h5.codecfs-wal"]
        make_hdf5(folder / "other.h5", VALUES + 1)
        os.rename(folder / "other.h5", folder / "a.h5")
        time.sleep(1.2)
        same_as_h5py(m.path / "a.h5", folder / "a.h5")
        (m.path / "a.h5/v/0.1").write_bytes(NEW.tobytes())
        refused(errno.ESTALE, sync, m.path)  # once: the content of the old file was rescued
        sync(m.path)
        m.kill() if ending == "kill" else m.close()
    finally:
        m.process.kill()
        unmount(m.path)
    rescued = VALUES.copy()
    rescued[:10, :10] = NEW
    with h5py.File(folder / "a.h5.codecfs-rescued") as file:
        assert (file["v"][:] == rescued).all()
    codecfs("--recover", folder / "a.h5", seconds=20)
    assert logs_in(folder) == []
    expected = VALUES + 1
    expected[:10, 10:20] = NEW
    with h5py.File(folder / "a.h5") as file:
        assert (file["v"][:] == expected).all()


def test_a_log_of_a_file_that_was_replaced_after_a_kill(folder, tmp_path):
    m = Mount(folder, tmp_path / "mnt", "commit=3600")
    try:
        (m.path / "a.h5/v/0.0").write_bytes(NEW.tobytes())
        sync(m.path)
        m.kill()
    finally:
        m.process.kill()
        unmount(m.path)
    make_hdf5(folder / "other.h5", VALUES + 1)
    os.rename(folder / "other.h5", folder / "a.h5")
    for option in ("--check", "--recover"):
        done = codecfs(option, folder / "a.h5", seconds=20, code=None)
        assert done.returncode != 0 and f"rm '{folder}/.a.h5.codecfs-wal'" in done.stderr
    os.unlink(folder / ".a.h5.codecfs-wal")
    with mounted(folder, tmp_path / "mnt") as m:
        same_as_h5py(m.path / "a.h5", folder / "a.h5")


@pytest.mark.parametrize("target", ["moved.h5", "sub/moved.h5", "netcdf.nc"])
@pytest.mark.parametrize("ending", ["kill", "unmount"])
def test_a_dataset_that_was_written_is_moved(folder, tmp_path, target, ending):
    """The log moves with the file, so what was committed is found under the new name."""
    m = Mount(folder, tmp_path / "mnt", "commit=3600")
    try:
        (m.path / "netcdf.nc/t/0.0").write_bytes((m.path / "netcdf.nc/t/0.0").read_bytes())
        (m.path / "a.h5/v/0.0").write_bytes(NEW.tobytes())
        sync(m.path)
        os.rename(folder / "a.h5", folder / target)
        time.sleep(1.2)
        assert (np.frombuffer((m.path / target / "v/0.0").read_bytes(), "<i4") == NEW.ravel()).all()
        (m.path / target / "v/0.1").write_bytes(NEW.tobytes())
        if target == "netcdf.nc":  # once: the content of the file that was replaced was rescued
            refused(errno.ESTALE, sync, m.path)
            assert (folder / "netcdf.nc.codecfs-rescued").exists()
        sync(m.path)
        assert not (folder / ".a.h5.codecfs-wal").exists()
        m.kill() if ending == "kill" else m.close()
    finally:
        m.process.kill()
        unmount(m.path)
    codecfs("--recover", folder / target, seconds=20)
    with h5py.File(folder / target) as file:
        assert (file["v"][:10, :10] == NEW).all() and (file["v"][:10, 10:20] == NEW).all()
        assert (file["v"][10:] == VALUES[10:]).all()


def test_a_file_that_was_moved_is_stored_where_it_is(folder, tmp_path):
    with mounted(folder, tmp_path / "mnt", "commit=3600") as m:
        (m.path / "a.h5/v/0.0").write_bytes(NEW.tobytes())
        os.rename(folder / "a.h5", folder / "b.h5")
        make_hdf5(folder / "a.h5", VALUES + 1)
        sync(m.path)
    for name, values in (("a.h5", VALUES[:10, :10] + 1), ("b.h5", NEW)):
        with h5py.File(folder / name) as file:
            assert (file["v"][:10, :10] == values).all()
    assert logs_in(folder) == []


def test_other_programs_may_write_what_was_only_read(mount, folder):
    m = mount(folder)
    same_as_h5py(m.path / "a.h5", folder / "a.h5")
    refused(errno.EAGAIN, h5py.File, folder / "a.h5", "r+")
    deadline = time.monotonic() + 15
    while "a.h5" in open_files(m, folder) and time.monotonic() < deadline:
        time.sleep(0.2)
    with h5py.File(folder / "a.h5", "r+") as file:
        file["v"][0, 0] = 77
    time.sleep(1.2)
    assert np.frombuffer((m.path / "a.h5/v/0.0").read_bytes(), "<i4")[0] == 77


def forget_all(m, most):
    """Lets the kernel forget all names that no program uses; the number of nodes, which it waits to fall to `most`."""
    deadline = time.monotonic() + 60
    while True:
        with open("/proc/sys/vm/drop_caches", "w") as control:
            control.write("2")
        nodes = m.stats()["nodes"]
        if nodes <= most or time.monotonic() > deadline:
            return nodes
        time.sleep(0.2)


needs_forgetting = pytest.mark.skipif(not os.access("/proc/sys/vm/drop_caches", os.W_OK), reason="drops the kernel's caches")


@needs_forgetting
def test_what_the_kernel_forgets_is_given_back(mount, tmp_path):
    many = tmp_path / "many"
    for i in range(20):
        (many / f"d{i}/deep").mkdir(parents=True)
        for j in range(1000):
            (many / f"d{i}/deep/{j}").write_bytes(b"%d" % j)
    (many / "link").symlink_to("d1/deep/7")
    make_hdf5(many / "d3/deep/one.h5")
    m = mount(many)
    before = m.stats()["nodes"]
    numbers = {}
    for i in range(20):
        for j in range(1000):
            numbers[i, j] = os.stat(m.path / f"d{i}/deep/{j}").st_ino
    assert len(set(numbers.values())) == 20_000
    assert m.stats()["nodes"] - before > 10_000  # less than 20,040 where the kernel has no memory
    # What programs use stays, whatever the kernel forgets beside it.
    used = open(m.path / "d2/deep/500", "rb")
    directory = os.open(m.path / "d4/deep", os.O_RDONLY)
    with os.scandir(m.path / "d5/deep") as entries, h5py.File(many / "d3/deep/one.h5") as file:
        first = next(entries).name
        same_as_h5py(m.path / "d3/deep/one.h5", many / "d3/deep/one.h5")
        members = len(file) + 2  # the root, and g/w
        # Of d2, d4 and d5: the files and the folders above; of d3 those above the dataset, which stays.
        most = before + 3 + 2 + 2 + 2 + members + 8
        assert forget_all(m, most) <= most
        assert used.read() == b"500" and os.fstat(used.fileno()).st_ino == numbers[2, 500]
        assert sorted(os.listdir(directory), key=int) == [str(j) for j in range(1000)]
        assert {entry.name for entry in entries} | {first} == {str(j) for j in range(1000)}
        same_as_h5py(m.path / "d3/deep/one.h5", many / "d3/deep/one.h5")
    used.close()
    os.close(directory)
    # Names that are looked up again are the same files.
    for (i, j), number in numbers.items():
        if j % 50 == 0:
            assert os.stat(m.path / f"d{i}/deep/{j}").st_ino == number
            assert (m.path / f"d{i}/deep/{j}").read_bytes() == b"%d" % j
    assert os.readlink(m.path / "link") == "d1/deep/7" and (m.path / "link").read_bytes() == b"7"
    most = before + 2 + members + 8
    assert forget_all(m, most) <= most


@needs_forgetting
def test_names_come_and_go_while_the_kernel_forgets(mount, folder):
    for i in range(300):
        (folder / f"sub/{i}").write_bytes(b"%d" % i * 100)
    m = mount(folder)
    end = threading.Event()

    def read(seed):
        names = list(range(300))
        random.Random(seed).shuffle(names)
        while not end.is_set():
            for i in names:
                assert (m.path / f"sub/{i}").read_bytes() == b"%d" % i * 100
            for top in (m.path, m.path / ".codecfs/view/encoded"):
                assert sum(len(files) for _, _, files in os.walk(top / "sub")) >= 300

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read, seed) for seed in range(4)]
        try:
            for _ in range(20):
                with open("/proc/sys/vm/drop_caches", "w") as control:
                    control.write("2")
                same_as_h5py(m.path / "sub/b.nc", folder / "sub/b.nc")
        finally:
            end.set()
        for reader in readers:
            reader.result()
    assert m.stats()["errors"] == 0


@needs_forgetting
def test_chunks_take_no_nodes(mount, tmp_path):
    store = tmp_path / "store.zarr"
    store.mkdir()
    (store / ".zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": [20_000], "chunks": [1], "dtype": "<i4", "compressor": None, "filters": None,
        "fill_value": -1, "order": "C"}))
    for i in range(20_000):
        (store / str(i)).write_bytes(i.to_bytes(4, "little"))
    m = mount(store)
    before = m.stats()["nodes"]
    for i in range(20_000):
        assert os.stat(m.path / str(i)).st_size == 4
    assert m.stats()["nodes"] == before


def test_external_links_lead_to_files_of_the_folder(mount, tmp_path):
    """As in NeXus and Eiger: a master file, and files with the data beside it. h5py follows the same links."""
    folder = tmp_path / "run"
    (folder / "parts").mkdir(parents=True)
    for number in range(2):
        with h5py.File(folder / "parts" / f"data_{number}.h5", "w") as file:
            file["entry/data/x:y"] = np.arange(4) + number
            file[b"caf\xe9"] = [number]
    with h5py.File(folder / "master.h5", "w") as file:
        group = file.create_group("entry/data")
        for number in range(2):
            group[f"data_{number}"] = h5py.ExternalLink(f"parts/data_{number}.h5", "/entry/data/x:y")
        file["whole"] = h5py.ExternalLink(str(folder / "parts/data_1.h5"), "/")
        file["latin"] = h5py.ExternalLink("parts/data_1.h5", b"/caf\xe9")
        file["outside"] = h5py.ExternalLink("../other.h5", "/x")
        file["missing"] = h5py.ExternalLink("parts/data_9.h5", "/x")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = [1]
    with h5py.File(folder / "master.h5") as file:
        want = [file[f"entry/data/data_{number}"][:].tolist() for number in range(2)]
        assert file["outside"][:].tolist() == [1]
    root = mount(folder, "ro").path
    master = root / "master.h5"
    for number in range(2):
        assert os.readlink(master / f"entry/data/data_{number}") == f"../../../parts/data_{number}.h5/entry/data/x:y"
        assert zarr.open_array(str(master / f"entry/data/data_{number}"), mode="r")[:].tolist() == want[number]
    assert zarr.open_group(str(master / "whole"), mode="r")["entry/data/x:y"][:].tolist() == want[1]
    assert zarr.open_array(str(master / "latin"), mode="r")[:].tolist() == [1]
    assert sorted(zarr.open_group(str(master / "entry/data"), mode="r")) == ["data_0", "data_1"]
    for name in "outside", "missing":
        assert os.readlink(master / name).startswith("external-link:") and not (master / name).exists()
    # Alone, the file has nothing to lead to.
    alone = mount(folder / "master.h5", "ro").path
    assert os.readlink(alone / "whole").startswith("external-link:")


def test_a_link_whose_target_cannot_be_looked_at_hides_no_other_member(mount, tmp_path):
    """Root may search every directory, so here the error is that of a directory with too long a name."""
    (tmp_path / "run").mkdir()
    with h5py.File(tmp_path / "run/master.h5", "w") as file:
        file["v"] = [1, 2]
        file["g/w"] = [3]
        file["long"] = file["g/long"] = h5py.ExternalLink("n" * 300 + "/data.h5", "/x")
    master = mount(tmp_path / "run", "ro").path / "master.h5"
    for folder, members in (master, {"g", "long", "v"}), (master / "g", {"long", "w"}):
        assert {name for name in os.listdir(folder) if not name.startswith(".")} == members
        with pytest.raises(OSError) as caught:
            os.stat(folder / "long")
        assert caught.value.errno == errno.ENAMETOOLONG
    assert zarr.open_array(str(master / "v"), mode="r")[:].tolist() == [1, 2]


def test_links_between_files_of_a_folder_in_all_views(mount, tmp_path):
    (tmp_path / "run/parts").mkdir(parents=True)
    with h5py.File(tmp_path / "run/parts/data.h5", "w") as file:
        file["entry/x"] = np.arange(4)
    with h5py.File(tmp_path / "run/master.h5", "w") as file:
        file["entry/data/one"] = h5py.ExternalLink("parts/data.h5", "/entry/x")
        file["entry/group"] = h5py.ExternalLink("parts/data.h5", "/entry")
        file["entry/inside"] = h5py.SoftLink("/entry/group/x")
    root = mount(tmp_path / "run", "ro").path
    for view in "encoded", "decoded3", "encoded3":
        master = root / ".codecfs/view" / view / "master.h5"
        names = {"x"} if view == "encoded" else {"x", "zarr.json"}
        assert names <= set(os.listdir(master / "entry/group")), view
        metadata = ".zarray" if view == "encoded" else "zarr.json"
        for name in "entry/data/one", "entry/group/x", "entry/inside":
            assert (master / name / metadata).exists(), (view, name)
    for view, load in ("npy", lambda path: np.load(path)), ("raw", lambda path: np.fromfile(path, "i8")):
        master = root / ".codecfs/view" / view / "master.h5"
        suffix = ".npy" if view == "npy" else ""
        for name in "entry/data/one", "entry/group/x", "entry/inside":
            assert load(master / (name + suffix)).tolist() == list(range(4)), (view, name)
