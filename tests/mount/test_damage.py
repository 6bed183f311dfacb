"""Damaged HDF5 files: the daemon lives, answers in time, and stays small. scripts/damage-test does more of it."""
import errno
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

import damage
from conftest import CODECFS, DATA, is_mounted, mounted, xattr
from damage import checked_length, lookup3

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


def test_what_may_be_newer_is_not_called_damaged_only(mount, tmp_path):
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
    assert "version number" in m.messages() and "the file is damaged, or newer than libhdf5 " in m.messages()
    assert np.fromfile(m.path / "good/0").tolist() == [0, 1, 2, 3, 4]


def test_why_a_file_cannot_be_opened_is_said(tmp_path):
    h5py.File(tmp_path / "a", "w", driver="split").close()
    done = subprocess.run([CODECFS, "-o", "mkdir", tmp_path / "a-m.h5", tmp_path / "mnt"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 32 and "split or multi driver" in done.stderr, done.stderr


def test_the_generator_gives_the_same_files_again():
    assert damage.make(DATA, SEED, 5) == damage.make(DATA, SEED, 5)
    assert damage.make(DATA, SEED, 5)[1] != damage.make(DATA, SEED, 5 + len(damage.sources(DATA)))[1]


def helpers_of(mount):
    """Pids of the processes that look at files first: they are forked from the daemon and have its command line."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    own = command_line(mount.process.pid)
    return [pid for pid in pids if pid != mount.process.pid and is_codecfs(pid) and command_line(pid) == own]


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None


def is_codecfs(pid):
    try:
        return os.path.samefile(f"/proc/{pid}/exe", CODECFS)
    except OSError:
        return False


def test_a_helper_that_is_killed_is_replaced(mount):
    mounted = mount(DATA / "hdf5/netcdf_groups.nc")
    before = helpers_of(mounted)
    (scout,) = [pid for pid in before if parent_of(pid) in before]
    os.kill(scout, signal.SIGKILL)
    names = [path for path, _, _ in os.walk(mounted.path)]
    assert len(names) > 2 and mounted.process.poll() is None
    assert set(before) - set(helpers_of(mounted)) == {scout}


def test_without_helpers_nothing_new_is_looked_at(mount):
    mounted = mount(DATA / "hdf5/netcdf_groups.nc")
    for pid in helpers_of(mounted):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(OSError) as failure:
        os.listdir(mounted.path)
    assert failure.value.errno == errno.EIO and mounted.process.poll() is None
    assert "mount again" in xattr(mounted.path, "_Error")


def test_a_mount_without_a_readable_root_is_unmounted(tmp_path, place):
    """codecfs -u stores everything first, with the root as its handle."""
    shutil.copy(DATA / "hdf5/netcdf_groups.nc", tmp_path / "a.nc")
    with mounted(tmp_path / "a.nc", place) as m:
        for pid in helpers_of(m):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(OSError):
            os.listdir(place)
        done = subprocess.run([CODECFS, "-u", place], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and not is_mounted(place), done.stderr


def test_helpers_end_with_the_daemon(mount):
    mounted = mount(DATA / "hdf5/netcdf_groups.nc")
    pids = helpers_of(mounted)
    assert pids
    mounted.kill()
    deadline = time.monotonic() + 10
    while any(is_codecfs(pid) for pid in pids):
        assert time.monotonic() < deadline, "a helper outlives its daemon"
        time.sleep(0.01)


def test_an_external_file_that_is_not_there_is_an_error(mount, tmp_path):
    """Found by damage-test: ENOENT was taken for a chunk that is not stored, again and again."""
    shutil.copy(DATA / "hdf5/external_files.h5", tmp_path)
    mounted = mount(tmp_path / "external_files.h5")
    with pytest.raises(OSError) as failure:
        (mounted.path / "v/0.0").read_bytes()
    assert failure.value.errno == errno.EIO
    assert "raw1" in xattr(mounted.path / "v/0.0", "_Error")
