"""The errors that POSIX wants, call by call: what pjdfstest asks of a filesystem, as far as a tree of datasets has it. What
does not apply, and why, is in docs/contributing/building-and-testing.md."""
import errno
import os
import stat
import time

import h5py
import numpy as np
import pytest
import zarr

LONG = "x" * 255
TOO_LONG = "x" * 256


@pytest.fixture(params=["hdf5", "zarr"])
def root(request, mount, tmp_path):
    """A mount of: a variable v, a group g with a variable w, an empty group e, and (HDF5) links."""
    values = np.arange(60, dtype="<i4").reshape(6, 10)
    if request.param == "hdf5":
        source = tmp_path / "a.h5"
        with h5py.File(source, "w") as file:
            file.create_dataset("v", data=values, chunks=(3, 5))
            file.create_dataset("g/w", data=values, chunks=(3, 5))
            file.create_group("e")
            file["link"] = h5py.SoftLink("/g")
            file["loop"] = h5py.SoftLink("/loop")
    else:
        source = tmp_path / "a.zarr"
        group = zarr.open_group(str(source), "w")
        group.create_dataset("v", data=values, chunks=(3, 5))
        group.create_dataset("g/w", data=values, chunks=(3, 5))
        group.create_group("e")
    return mount(source).path


def code_of(action, *arguments, **more):
    """The name of the errno, or "done"."""
    try:
        result = action(*arguments, **more)
    except OSError as error:
        return errno.errorcode[error.errno]
    if isinstance(result, int) and action in (os.open, CALLS["open"], CALLS["create"]):
        os.close(result)
    return "done"


def open_for(flags):
    return lambda path: os.open(path, flags, 0o644)


NEW = os.O_CREAT | os.O_WRONLY
# Each takes a path.
CALLS = {
    "open": open_for(os.O_RDONLY), "create": open_for(NEW), "stat": os.stat, "lstat": os.lstat, "access": lambda p: os.stat(p),
    "mkdir": os.mkdir, "rmdir": os.rmdir, "unlink": os.unlink, "truncate": lambda p: os.truncate(p, 0),
    "chmod": lambda p: os.chmod(p, 0o644), "chown": lambda p: os.chown(p, -1, -1), "utime": os.utime, "readlink": os.readlink,
    "symlink": lambda p: os.symlink("v", p), "mkfifo": os.mkfifo, "rename from": lambda p: os.rename(p, f"{p}.new"),
    "getxattr": lambda p: os.getxattr(p, "user.x"), "setxattr": lambda p: os.setxattr(p, "user.x", b"1"),
    "listdir": os.listdir, "statvfs": os.statvfs,
}


@pytest.mark.parametrize("call", CALLS)
def test_paths(root, call):
    """Of a path, whatever the call is."""
    act = CALLS[call]
    assert code_of(act, root / TOO_LONG) == "ENAMETOOLONG"
    assert code_of(act, root / TOO_LONG / "x") == "ENAMETOOLONG"
    assert code_of(act, str(root) + "/e" * 2100) == "ENAMETOOLONG"
    for file in ("v/0.0", "v/.zarray", ".zgroup", ".codecfs/log"):
        assert code_of(act, root / file / "x") == "ENOTDIR", file
    for nothing in ("nothing/x", "v/nothing/x", "e/nothing/x", ".codecfs/nothing/x"):
        assert code_of(act, root / nothing) == "ENOENT", nothing
    if (root / "link").is_symlink():
        assert code_of(act, root / "loop/x") == "ELOOP"
    assert code_of(act, b"" if call != "rename from" else os.fsencode(root) + b"/nothing") == "ENOENT"


@pytest.mark.parametrize("call", ["open", "stat", "lstat", "rmdir", "unlink", "truncate", "chmod", "utime", "readlink",
                                  "rename from", "getxattr", "listdir", "statvfs"])
def test_what_is_not_there(root, call):
    # A chunk outside of the grid, one written in another way, a group, a file in each kind of directory.
    for name in ("v/9.9", "v/00.0", "v/0", "nothing", "v/nothing", "e/nothing", LONG, f"v/{LONG}", ".codecfs/nothing"):
        assert code_of(CALLS[call], root / name) == "ENOENT", name


def test_open(root):
    for directory in ("", "g", "v", ".codecfs", ".codecfs/view/npy"):
        assert code_of(os.open, root / directory, os.O_WRONLY) == "EISDIR"
        assert code_of(os.open, root / directory, os.O_RDWR) == "EISDIR"
        assert code_of(os.open, root / directory, os.O_RDONLY | os.O_CREAT) == "EISDIR"
        assert code_of(os.open, root / directory, os.O_RDONLY | os.O_DIRECTORY) == "done"
    for name in ("v/0.0", "v/.zarray", "g"):
        assert code_of(os.open, root / name, NEW | os.O_EXCL) == "EEXIST"
    assert code_of(os.open, root / "v/0.0", os.O_RDONLY | os.O_DIRECTORY) == "ENOTDIR"
    assert code_of(os.open, root / "v/9.9", NEW) == "EINVAL"  # would be lost at the unmount
    assert code_of(os.open, root / ".codecfs/new", NEW) == "EPERM"
    if (root / "link").is_symlink():
        assert code_of(os.open, root / "link", os.O_RDONLY | os.O_NOFOLLOW) == "ELOOP"
        assert code_of(os.open, root / "loop", os.O_RDONLY) == "ELOOP"
        assert code_of(os.open, root / "link", NEW | os.O_EXCL) == "EEXIST"
    fd = os.open(root / "v/0.0", os.O_RDONLY)
    assert code_of(os.write, fd, b"x") == "EBADF" and code_of(os.ftruncate, fd, 0) == "EINVAL"
    os.close(fd)
    fd = os.open(root / "v/0.0", os.O_WRONLY)
    assert code_of(os.read, fd, 1) == "EBADF"
    os.close(fd)


def test_directories(root):
    for there in ("g", "v", "v/0.0", ".zgroup", ".codecfs"):
        assert code_of(os.mkdir, root / there) == "EEXIST", there
    assert code_of(os.rmdir, root / "g") == "ENOTEMPTY" and code_of(os.rmdir, root / "v") == "ENOTEMPTY"
    assert code_of(os.rmdir, root / "v/0.0") == "ENOTDIR" and code_of(os.rmdir, root / ".zgroup") == "ENOTDIR"
    assert code_of(os.rmdir, f"{root}/e/.") == "EINVAL" and code_of(os.rmdir, f"{root}/e/..") == "ENOTEMPTY"
    assert code_of(os.rmdir, root) == "EBUSY"
    for directory in ("g", "v", "e", ".codecfs"):
        assert code_of(os.unlink, root / directory) in ("EISDIR", "EPERM"), directory  # POSIX has EPERM, Linux EISDIR
    assert code_of(os.rmdir, root / "e") == "done" and code_of(os.rmdir, root / "e") == "ENOENT"
    assert code_of(os.mkdir, root / "e") == "done" and stat.S_ISDIR((root / "e").stat().st_mode)
    assert code_of(os.mkdir, root / ("y" * 255)) == "done" and "y" * 255 in os.listdir(root)
    assert code_of(os.rmdir, root / ("y" * 255)) == "done"


def test_a_directory_that_is_removed_while_it_is_open(root):
    fd = os.open(root / "e", os.O_RDONLY)
    os.rmdir(root / "e")
    assert code_of(os.open, "new", NEW, 0o644, dir_fd=fd) in ("ENOENT", "ESTALE")
    assert code_of(os.mkdir, "new", dir_fd=fd) in ("ENOENT", "ESTALE")
    os.close(fd)


def test_rename(root):
    (root / "e/note~").write_text("x")
    for old, new, code in [
        ("e", "e/inside", "EINVAL"), ("g", "g/w/inside", "EINVAL"), ("e/note~", "g", ("EISDIR", "EEXIST")),
        ("e", "v/0.0", ("ENOTDIR", "EPERM", "EEXIST")), ("nothing", "other", "ENOENT"), ("e/note~", TOO_LONG, "ENAMETOOLONG"),
        ("e/note~", "v/0.0/x", "ENOTDIR"), ("e/note~", "nothing/x", "ENOENT"), ("v/0.0", "v/0.1", "EXDEV"),
        (".zgroup", "e/.zgroup", "EXDEV"), ("e", "g", ("ENOTEMPTY", "EEXIST")), ("e/note~", ".codecfs/x", "EPERM"),
        (".codecfs/log", "e/log", "EPERM"),
    ]:
        assert code_of(os.rename, root / old, root / new) in ([code] if isinstance(code, str) else code), (old, new)
    # Nothing of that had an effect.
    assert (root / "e/note~").read_text() == "x" and (root / "g/w/0.0").stat().st_size == 60
    before = (root / "v/0.0").read_bytes()
    os.rename(root / "e/note~", root / "e/other~")
    assert os.listdir(root / "e").count("other~") == 1 and not (root / "e/note~").exists()
    os.rename(root / "e/other~", root / "e/other~")  # onto itself
    assert (root / "e/other~").read_text() == "x" and (root / "v/0.0").read_bytes() == before
    os.unlink(root / "e/other~")
    os.rename(root / "e", root / "f")
    assert (root / "f/.zgroup").exists() and not (root / "e").exists()


def test_unlink(root):
    os.unlink(root / "v/0.0")
    assert code_of(os.unlink, root / "v/0.0") == "ENOENT" and code_of(os.stat, root / "v/0.0") == "ENOENT"
    (root / "e/note~").write_text("hello")
    fd = os.open(root / "e/note~", os.O_RDWR)
    os.unlink(root / "e/note~")
    assert os.pread(fd, 10, 0) == b"hello" and os.pwrite(fd, b"J", 0) == 1 and os.pread(fd, 10, 0) == b"Jello"
    os.close(fd)
    for name in (".codecfs/log", ".codecfs/view/npy/v.npy"):
        assert code_of(os.unlink, root / name) == "EPERM", name


def test_truncate_and_offsets(root):
    chunk = root / "v/0.0"
    assert code_of(os.truncate, root / "v", 0) == "EISDIR" and code_of(os.truncate, chunk, -1) == "EINVAL"
    assert code_of(os.truncate, chunk, 61) == "EFBIG" and code_of(os.truncate, chunk, 2**62) == "EFBIG"
    fd = os.open(chunk, os.O_RDWR)
    assert code_of(os.pread, fd, 1, -1) == "EINVAL" and code_of(os.pwrite, fd, b"x", -1) == "EINVAL"
    assert code_of(os.lseek, fd, -1, os.SEEK_SET) == "EINVAL" and os.lseek(fd, 0, os.SEEK_END) == 60
    assert os.pread(fd, 100, 60) == b"" and os.pread(fd, 100, 2**40) == b"" and os.pwrite(fd, b"", 1000) == 0
    assert code_of(os.pwrite, fd, b"x", 60) == "EFBIG" and os.pwrite(fd, b"ab", 59) == 1
    assert code_of(os.posix_fallocate, fd, 0, 100) in ("EOPNOTSUPP", "EFBIG") or os.fstat(fd).st_size == 60
    os.close(fd)
    assert chunk.stat().st_size == 60


def test_links_and_special_files(root):
    assert code_of(os.link, root / "v/0.0", root / "e/x") == "EPERM"
    assert code_of(os.link, root / "nothing", root / "e/x") == "ENOENT"
    assert code_of(os.link, root / "v/0.0", root / "v/0.1") == "EEXIST"
    assert code_of(os.mkfifo, root / "e/x") == "EPERM" and code_of(os.mkfifo, root / "g") == "EEXIST"
    assert code_of(os.mknod, root / "e/x", stat.S_IFSOCK | 0o600) == "EPERM"
    assert code_of(os.readlink, root / "v/0.0") == "EINVAL" and code_of(os.readlink, root / "g") == "EINVAL"
    assert code_of(os.symlink, "v", root / "g") == "EEXIST"
    if (root / "link").is_symlink():
        assert os.readlink(root / "link") == "g" and (root / "link").lstat().st_size == 1
        assert code_of(os.symlink, "v", root / "to_v") == "done" and (root / "to_v/0.0").stat().st_size == 60
        assert code_of(os.rmdir, root / "to_v") == "ENOTDIR" and code_of(os.unlink, root / "to_v") == "done"
    else:
        assert code_of(os.symlink, "v", root / "to_v") == "EPERM"


def test_times(root):
    chunk = root / "v/0.0"
    os.utime(chunk, ns=(10**18 + 1, 10**18 + 2))
    assert (chunk.stat().st_atime_ns, chunk.stat().st_mtime_ns) == (10**18 + 1, 10**18 + 2)
    begun = time.time()
    fd = os.open(chunk, os.O_WRONLY)
    os.write(fd, b"x")
    os.close(fd)
    assert chunk.stat().st_mtime >= begun - 1
    os.utime(chunk, ns=(0, 0))
    os.truncate(chunk, 60)  # a call to truncate(2) marks it, also where the length stays
    assert chunk.stat().st_mtime >= begun - 1
    with pytest.raises(ValueError):
        os.utime(chunk, times=(1, 1), ns=(1, 1))


def test_permissions(root):
    if os.geteuid() != 0:
        pytest.skip("root owns it, so that no other user may")
    for name in ("v/0.0", "v", "g", "v/.zarray"):
        status = (root / name).stat()
        assert code_of(os.chmod, root / name, status.st_mode & 0o7777) == "done"
        assert code_of(os.chmod, root / name, 0o4777) == "EPERM" and code_of(os.chown, root / name, 1, 1) == "EPERM"
        assert code_of(os.chown, root / name, status.st_uid, -1) == "done"
