"""A user who can write the directory of a source swaps names while root makes, compacts or mounts it there: root writes
nothing elsewhere. The deterministic tests swap inside the daemon, right behind the call that makes a temporary file."""
import os
import threading

import h5py
import numpy as np
import pytest

from running import codecfs, run

# After each exclusive creation of a temporary name: that name becomes a link to $VICTIM.
SWAPPER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static int swapped(int directory, const char *name, int flags, int mode) {
  int fd = syscall(SYS_openat, directory, name, flags, mode);
  if (fd >= 0 && (flags & O_EXCL) && strstr(name, "codecfs-")) {
    char aside[4096];
    snprintf(aside, sizeof aside, "%s.aside", name);
    renameat(directory, name, directory, aside);
    symlinkat(getenv("VICTIM"), directory, name);
  }
  return fd;
}
#define OPENAT(function) \
  int function(int directory, const char *name, int flags, ...) { \
    va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
    return swapped(directory, name, flags, flags & O_CREAT ? mode : 0); }
#define OPEN(function) \
  int function(const char *name, int flags, ...) { \
    va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
    return swapped(AT_FDCWD, name, flags, flags & O_CREAT ? mode : 0); }
OPENAT(openat) OPENAT(openat64) OPEN(open) OPEN(open64)
"""


@pytest.fixture(scope="module")
def swapper(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swapper")
    (folder / "swapper.c").write_text(SWAPPER)
    run("gcc", "-shared", "-fPIC", "-o", folder / "swapper.so", folder / "swapper.c")
    return folder / "swapper.so"


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_bytes(b"not to be touched")
    yield path
    assert path.read_bytes() == b"not to be touched"
    assert path.stat().st_mode & 0o7777 == 0o644


def make_source(path):
    with h5py.File(path, "w") as file:
        file["v"] = np.arange(1000)
    os.truncate(path, path.stat().st_size + (1 << 20))




def test_compact_does_not_follow_its_temporary_name(tmp_path, swapper, victim):
    source = tmp_path / "source.h5"
    make_source(source)
    before = source.read_bytes()
    done = codecfs("--compact", source, env={"LD_PRELOAD": str(swapper), "VICTIM": str(victim)}, code=None)
    assert done.returncode != 0 and "try again" in done.stderr
    assert source.read_bytes() == before


@pytest.mark.parametrize("kind", ["hdf5", "zip"])
def test_create_does_not_follow_its_temporary_name(tmp_path, swapper, victim, kind):
    place = tmp_path / "mnt"
    place.mkdir()
    done = codecfs("-f", "-o", f"create={kind}", tmp_path / "made", place, env={"LD_PRELOAD": str(swapper), "VICTIM": str(victim)},
                  code=None)
    assert done.returncode != 0 and "try again" in done.stderr
    assert not os.path.lexists(tmp_path / "made")


def swap_until(stopped, folder, victim):
    """Puts a link in the place of every temporary name, as fast as one can."""
    while not stopped.is_set():
        for name in os.listdir(folder):
            if "codecfs-" in name and not name.startswith("link"):
                try:
                    os.symlink(victim, folder / "link")
                    os.replace(folder / "link", folder / name)
                except OSError:
                    pass


def test_a_race_for_the_temporary_name_is_never_won(tmp_path, victim):
    folder = tmp_path / "folder"
    folder.mkdir()
    source = folder / "source.h5"
    stopped = threading.Event()
    thread = threading.Thread(target=swap_until, args=(stopped, folder, victim))
    thread.start()
    try:
        for _ in range(25):
            make_source(source)
            codecfs("--compact", source, code=None)
            assert not source.is_symlink()
            with h5py.File(source) as file:
                assert (file["v"][...] == np.arange(1000)).all()
            for name in os.listdir(folder):
                if name != "source.h5":
                    (folder / name).unlink(missing_ok=True)
    finally:
        stopped.set()
        thread.join()
