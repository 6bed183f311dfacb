"""Fixtures of the mount tests: real mounts, which are taken away after every test, small disks, and the generated sources.

CTest sets the environment: CODECFS (the codecfs binary), CODECFS_TEST_DATA (a folder with hdf5/ and zarr/, made by
tests/data/*). A failing test prints the daemon's log.
"""
import atexit
import contextlib
import os
import pathlib
import re
import shutil
import sys
import tempfile

import pytest

TESTS = pathlib.Path(__file__).parents[1]
PROGRAMS = TESTS / "mount/programs"
for folder in (TESTS / "mount/support", PROGRAMS, TESTS / "support", TESTS / "object_stores"):
    sys.path.append(str(folder))
# What these modules assert is shown as in a test.
pytest.register_assert_rewrite(*(path.stem for path in (TESTS / "mount/support").glob("*.py")))
from disks import image, small_disk  # noqa: E402, F401: fixtures
from mounts import Mount, detach, is_gone, is_mounted, mounted, unmount, wait_until  # noqa: E402, F401: for tests too
from running import codecfs

os.umask(0o022)  # codecfs does not load plugins that a group could write to

CODECFS = os.environ["CODECFS"]
DATA = pathlib.Path(os.environ["CODECFS_TEST_DATA"])


def own_copy(directory):
    """A copy of the plugins that codecfs loads even if other users can write to the build's directory."""
    made = tempfile.mkdtemp(prefix="codecfs-plugins-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    os.chmod(made, 0o755)
    for library in pathlib.Path(directory).glob("lib*.so*"):
        shutil.copyfile(library, pathlib.Path(made, library.name))
    return made


if "CODECFS_PLUGINS" in os.environ:
    os.environ["CODECFS_PLUGINS"] = own_copy(os.environ["CODECFS_PLUGINS"])


@pytest.fixture
def mount(tmp_path):
    """A function mount(source, *options, rules=[...]) that mounts until the test is over."""
    with contextlib.ExitStack() as stack:
        count = 0

        def make(source, *options, rules=(), env=None):
            nonlocal count
            count += 1
            return stack.enter_context(mounted(source, tmp_path / f"mnt{count}", *options, rules=rules, env=env))

        yield make


@pytest.fixture
def place(tmp_path):
    """A path for a test that mounts by itself."""
    path = tmp_path / "mnt"
    yield path
    while is_mounted(path):
        unmount(path)


@pytest.fixture
def copy(tmp_path):
    """A function copy(name) that copies one of the generated sources, so that the test may change it."""

    def make(name):
        source, target = DATA / name, tmp_path / pathlib.Path(name).name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
        return target

    return make


def libhdf5_version():
    """Of codecfs: its text, with the numbers as groups 1 and 2."""
    return re.search(r"libhdf5 (\d+)\.(\d+)", codecfs("--version").stdout)


def any_source():
    return sorted((DATA / "hdf5").glob("*.nc"))[0]


def without_pointers(dumped):
    """h5dump prints addresses for references ("DATASET 4096 /a"), but that of HDF5 2 those of its memory."""
    return re.sub(r'\b(DATASET|GROUP) \d{13,} "', r'\1 "', dumped)


def xattr(path, name):
    return os.getxattr(path, "user." + name).decode()
