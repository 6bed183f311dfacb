"""Damaged HDF5 files: the daemon lives, answers in time, and stays small. scripts/damage-test does more of it."""
import errno
import os
import random
import shutil

import h5py
import numpy as np
import pytest

import damage
from conftest import CODECFS, DATA, is_mounted, mounted, wait_until, xattr
from mounts import WORKERS, kill_workers, workers_of
from running import codecfs

SEED = "short"


@pytest.mark.parametrize("number", range(25))
def test_a_damaged_file_is_contained(number, tmp_path):
    name, trial = damage.try_one(CODECFS, DATA, tmp_path, SEED, number * 7 + 3)
    assert not trial.complaints, f"{name}: {trial.complaints}\n{trial.log.read_text()[-2000:]}"


def test_what_lies_outside_of_the_file_is_damage(tmp_path):
    """Found by damage-test: libhdf5 calls it a wrong argument, and crashed a few calls later."""
    source = DATA / "hdf5/netcdf_groups.nc"
    (tmp_path / "a.nc").write_bytes(damage.damaged(source.read_bytes(), random.Random("21/33"))[1])
    trial = damage.Trial(CODECFS, tmp_path / "a.nc", tmp_path / "mnt")
    assert not trial.complaints and not trial.refused, trial.log.read_text()[-2000:]


def test_a_version_that_no_hdf5_has_is_damage(mount, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["good"], file["new"] = np.arange(5, dtype="<f8"), np.arange(5, dtype="<i4")
    data = path.read_bytes()
    kind = b"\x10\x08\0\0\x04\0\0\0\0\0\x20\0"  # the datatype message of an integer: version 1, class 0
    assert data.count(kind) == 1
    path.write_bytes(data.replace(kind, b"\x90" + kind[1:]))
    m = mount(path)
    with pytest.raises(OSError) as failure:
        os.listdir(m.path / "new")
    assert failure.value.errno == errno.EIO
    assert "version number" in m.messages() and "the file is damaged" in m.messages() and "newer" not in m.messages()
    assert np.fromfile(m.path / "good/0").tolist() == [0, 1, 2, 3, 4]


def test_why_a_file_cannot_be_opened_is_said(tmp_path):
    h5py.File(tmp_path / "a", "w", driver="split").close()
    done = codecfs("-o", "mkdir", tmp_path / "a-m.h5", tmp_path / "mnt", code=32)
    assert "split or multi driver" in done.stderr, done.stderr


def test_the_generator_gives_the_same_files_again():
    assert damage.make(DATA, SEED, 5) == damage.make(DATA, SEED, 5)
    assert damage.make(DATA, SEED, 5)[1] != damage.make(DATA, SEED, 5 + len(damage.sources(DATA)))[1]


def test_without_any_worker_nothing_is_read(mount):
    mounted = mount(DATA / "hdf5/netcdf_groups.nc")
    kill_workers(mounted.path, WORKERS)
    with pytest.raises(OSError) as failure:
        os.listdir(mounted.path)
    assert failure.value.errno == errno.EIO and mounted.process.poll() is None
    assert "mount again" in xattr(mounted.path, "_Error")


def test_a_mount_without_a_readable_root_is_unmounted(tmp_path, place):
    """codecfs -u stores everything first, with the root as its handle."""
    shutil.copy(DATA / "hdf5/netcdf_groups.nc", tmp_path / "a.nc")
    with mounted(tmp_path / "a.nc", place):
        kill_workers(place, WORKERS)
        with pytest.raises(OSError):
            os.listdir(place)
        done = codecfs("-u", place)
        assert not is_mounted(place), done.stderr


def test_workers_end_with_the_daemon(mount):
    mounted = mount(DATA / "hdf5/netcdf_groups.nc")
    assert workers_of(mounted.path)
    mounted.kill()
    wait_until(lambda: not workers_of(mounted.path), seconds=10)


def test_an_external_file_that_is_not_there_is_an_error(mount, tmp_path):
    """Found by damage-test: ENOENT was taken for a chunk that is not stored, again and again."""
    shutil.copy(DATA / "hdf5/external_files.h5", tmp_path)
    mounted = mount(tmp_path / "external_files.h5")
    with pytest.raises(OSError) as failure:
        (mounted.path / "v/0.0").read_bytes()
    assert failure.value.errno == errno.EIO
    assert "raw1" in xattr(mounted.path / "v/0.0", "_Error")
