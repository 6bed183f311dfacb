"""Permissions: owner and mode of the source hold on the mount and for all that it makes, and no user who can write beside
the source leads a mount of root elsewhere. Needs root, which is another user for a while."""
import contextlib
import errno
import os
import pathlib
import shutil
import stat
import tempfile

import h5py
import numpy as np
import pytest
import zarr

from conftest import mounted
from running import codecfs, run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
SOMEBODY, ANOTHER = 65534, 65533
DATA = np.arange(64, dtype="<i4")


@pytest.fixture
def place():
    """A folder that all users can reach, unlike pytest's."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-permissions-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def as_user(user, program, *arguments, groups=()):
    """What a shell program of another user prints; its exit code and stderr."""
    ids = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
    result = run("setpriv", f"--reuid={user}", f"--regid={user}", *ids, "sh", "-c", program, "sh", *arguments, code=None, text=False)
    return result


def reads(user, path, **more):
    result = as_user(user, 'cat "$1"', path, **more)
    assert result.returncode == 0 or b"Permission denied" in result.stderr, result.stderr
    return result.returncode == 0


def hdf5(path, mode, owner=0, group=None):
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=DATA, chunks=(16,), compression="gzip")
    os.chown(path, owner, owner if group is None else group)
    path.chmod(mode)
    return path


def store(path, owner=0):
    group = zarr.open_group(str(path), "w")
    for name in ("open", "closed", "hidden", "outer/inner"):
        group.create_dataset(name, data=DATA, chunks=(16,))
    give(path, owner)
    return path


def give(path, owner):
    for folder, _, files in os.walk(path):
        os.chown(folder, owner, owner)
        for name in files:
            os.chown(os.path.join(folder, name), owner, owner)


def permissions(path):
    status = os.lstat(path)
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


@pytest.mark.parametrize("options", [["allow_other"], ["allow_other", "default_permissions"]])
def test_other_users_need_the_permissions_of_the_source(place, options):
    for name, mode, others, somebody in (("a.h5", 0o600, False, True), ("b.h5", 0o644, True, True), ("c.h5", 0o440, False, True),
                                         ("d.h5", 0o204, True, False)):
        source = hdf5(place / name, mode, SOMEBODY)
        with mounted(source, place / "mnt", *options) as m:
            assert permissions(m.path / "v/0") == (SOMEBODY, SOMEBODY, mode)
            assert permissions(m.path / "v") == (SOMEBODY, SOMEBODY, mode | (mode & 0o444) >> 2)
            assert " default_permissions" in " " + " ".join(
                line.replace(",", " ") for line in open("/proc/self/mounts") if str(m.path) in line)
            for path in ("v/0", ".codecfs/view/npy/v.npy", ".codecfs/view/raw/v", ".codecfs/view/encoded/v/0", "v/.zarray"):
                assert reads(ANOTHER, m.path / path) == others, (name, path)
                assert reads(SOMEBODY, m.path / path) == somebody, (name, path)
            assert as_user(ANOTHER, 'echo x > "$1"', m.path / "v/0").returncode != 0
            assert as_user(ANOTHER, 'setfattr -n user._Filter -v none "$1"', m.path / "v").returncode != 0


def test_no_other_user_uses_a_mount_without_allow_other(place):
    with mounted(hdf5(place / "a.h5", 0o666), place / "mnt") as m:
        assert not reads(SOMEBODY, m.path / "v/0")


def test_a_store_with_mixed_modes(place):
    source = store(place / "s", SOMEBODY)
    (source / "closed").chmod(0o700)
    (source / "hidden/.zarray").chmod(0o600)
    (source / "outer").chmod(0o744)  # can be listed, but not entered
    os.chown(source / "outer/inner", ANOTHER, ANOTHER)
    os.chown(source / "outer/inner/.zarray", ANOTHER, ANOTHER)
    with mounted(source, place / "mnt", "allow_other") as m:
        for root in (m.path, m.path / ".codecfs/view/encoded"):
            assert reads(SOMEBODY, root / "open/0") and reads(ANOTHER, root / "open/0")
            assert reads(SOMEBODY, root / "closed/0") and not reads(ANOTHER, root / "closed/0")
            assert reads(SOMEBODY, root / "hidden/0") and not reads(ANOTHER, root / "hidden/0")
            assert reads(SOMEBODY, root / "outer/inner/0") and not reads(ANOTHER, root / "outer/inner/0")
        for root, file in (("npy", "{}.npy"), ("raw", "{}")):
            for name, may in (("open", True), ("closed", False), ("hidden", False)):
                assert reads(ANOTHER, m.path / ".codecfs/view" / root / file.format(name)) == may, (root, name)
        assert permissions(m.path / "closed") == (SOMEBODY, SOMEBODY, 0o700)
        assert permissions(m.path / "hidden/0") == (SOMEBODY, SOMEBODY, 0o600)
        assert permissions(m.path / "outer/inner") == (ANOTHER, ANOTHER, 0o755)
        assert permissions(m.path / "open/0") == (SOMEBODY, SOMEBODY, 0o644)


AGGREGATES = [".zmetadata", ".codecfs/view/encoded/.zmetadata", ".codecfs/view/decoded3/zarr.json", ".codecfs/view/encoded3/zarr.json"]


def test_what_tells_of_all_leaves_out_what_not_all_may_read(place):
    source = store(place / "s", SOMEBODY)
    group = zarr.open_group(str(source))
    for name in ("open", "closed", "hidden", "outer", "outer/inner"):
        group[name].attrs["word"] = f"word of {name}"
    group["closed"].attrs["units"] = "private units"
    give(source, SOMEBODY)
    (source / "closed").chmod(0o700)
    (source / "hidden/.zarray").chmod(0o600)
    (source / "outer").chmod(0o740)
    with mounted(source, place / "mnt", "allow_other") as m:
        for path in AGGREGATES:
            shown = as_user(ANOTHER, 'cat "$1"', m.path / path)
            assert shown.returncode == 0 and b"word of open" in shown.stdout, path
            for word in (b"closed", b"hidden", b"outer", b"inner", b"private units"):
                assert word not in shown.stdout, (path, word)
        # What is as readable as the file itself is in it.
        inside = as_user(SOMEBODY, 'cat "$1"', m.path / "outer/.zmetadata").stdout
        assert b"word of outer" in inside and b"word of outer/inner" in inside
        assert "leaves out \"/closed\"" in (m.path / ".codecfs/log").read_text()
        assert permissions(m.path / ".codecfs/log") == (0, 0, 0o400)
        assert not reads(ANOTHER, m.path / ".codecfs/log") and reads(ANOTHER, m.path / ".codecfs/stats")
        # Names of temporary files, which an extended attribute of the root has.
        (m.path / "closed/.tmp.private").write_bytes(b"x")
        (m.path / "open/.tmp.public").write_bytes(b"x")
        names = as_user(ANOTHER, 'getfattr --only-values -n user._NotStored "$1"', m.path).stdout
        assert b"open/.tmp.public" in names and b"private" not in names and b"1 files" in names
        for name in ("closed/.tmp.private", "open/.tmp.public"):
            (m.path / name).unlink()
    # One user alone reads this mount.
    with mounted(source, place / "mnt") as m:
        for path in AGGREGATES:
            assert all(word in (m.path / path).read_bytes() for word in (b"private units", b"word of outer/inner")), path


@contextlib.contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_what_root_makes_in_a_store_belongs_to_its_owner(place, mask):
    source = store(place / "s", SOMEBODY)
    for folder, _, files in os.walk(source):
        os.chmod(folder, 0o750)
        for name in files:
            os.chmod(os.path.join(folder, name), 0o640)
    with umask(mask), mounted(source, place / "mnt") as m:
        (m.path / "open/0").write_bytes(DATA[16:32].tobytes())
        (m.path / "g").mkdir()
        (m.path / "g/.zattrs").write_text('{"a": 1}')
        shutil.copytree(m.path / "open", m.path / "g/copy", copy_function=shutil.copyfile)
        os.setxattr(m.path / "closed", "user._Filter", b"shuffle|zstd,3")
        os.setxattr(m.path / "hidden", "user.note", b"text")
    made = 0
    for folder, folders, files in os.walk(source):
        for name in folders + files:
            path = os.path.join(folder, name)
            uid, gid, mode = permissions(path)
            assert (uid, gid) == (SOMEBODY, SOMEBODY), path
            assert mode == (0o750 if name in folders else 0o640), (path, oct(mode))
            made += 1
    assert made >= 30
    np.testing.assert_array_equal(zarr.open(str(source), "r")["g/copy"][:16], DATA[16:32])


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_the_log_and_new_archives_are_like_the_source(place, mask):
    place.chmod(0o777)
    source = hdf5(place / "a.h5", 0o640, SOMEBODY, ANOTHER)
    with umask(mask), mounted(source, place / "mnt") as m:
        with open(m.path / "v/0", "r+b") as f:
            f.write(DATA[16:32].tobytes())
            f.flush()
            os.fsync(f.fileno())
            logs = [path for path in place.iterdir() if "codecfs" in path.name]
            assert len(logs) == 1 and permissions(logs[0]) == (SOMEBODY, ANOTHER, 0o640), logs
    assert permissions(source) == (SOMEBODY, ANOTHER, 0o640)
    with umask(mask):
        codecfs("--compact", source)
    assert permissions(source) == (SOMEBODY, ANOTHER, 0o640)

    archive = place / "s.zip"
    with zarr.ZipStore(str(archive), mode="w") as made:
        zarr.group(made).create_dataset("v", data=DATA, chunks=(16,))
    os.chown(archive, SOMEBODY, ANOTHER)
    archive.chmod(0o604)
    with umask(mask), mounted(archive, place / "mnt") as m:
        (m.path / "v/0").write_bytes(DATA[16:32].tobytes())
    assert permissions(archive) == (SOMEBODY, ANOTHER, 0o604)
    with h5py.File(source) as f:
        np.testing.assert_array_equal(f["v"][:16], DATA[16:32])


def refused(source, place):
    """The reason for which a source is not mounted."""
    (place / "refused").mkdir(exist_ok=True)
    return codecfs("-f", source, place / "refused", code=32).stderr


def log_of(source):
    """A real log with a commit in it, which a killed mount has left."""
    with mounted(source, source.parent / "mnt") as m:
        (m.path / "v/1").write_bytes(DATA[:16].tobytes())
        with open(m.path / "v/1", "r+b") as f:
            os.fsync(f.fileno())
        m.kill()
    return next(path for path in source.parent.iterdir() if "codecfs" in path.name)


def test_a_log_that_is_no_file_is_refused(place):
    source = hdf5(place / "a.h5", 0o644)
    log = log_of(source)
    content = log.read_bytes()
    elsewhere = place / "elsewhere"
    elsewhere.write_bytes(content)
    for make, says in ((lambda: log.symlink_to(elsewhere), "symbolic link"), (lambda: os.mkfifo(log), "not a log of codecfs"),
                       (lambda: os.mknod(log, stat.S_IFCHR | 0o666, os.makedev(1, 3)), "not a log of codecfs"),
                       (lambda: log.mkdir(), "not a log of codecfs")):
        log.unlink(missing_ok=True)
        make()
        reason = refused(source, place)
        assert log.name in reason and says in reason, reason
        assert elsewhere.read_bytes() == content
        log.rmdir() if log.is_dir() and not log.is_symlink() else None
    log.unlink(missing_ok=True)
    log.write_bytes(content)
    with mounted(source, place / "mnt") as m:
        assert (m.path / "v/1").read_bytes() == DATA[:16].tobytes()


def test_a_log_of_another_user_is_refused(place):
    source = hdf5(place / "a.h5", 0o644, SOMEBODY)
    log = log_of(source)
    assert permissions(log) == (SOMEBODY, SOMEBODY, 0o644)
    before = source.read_bytes()
    os.chown(log, ANOTHER, ANOTHER)
    for mode in (0o755, 0o777, 0o1777):
        place.chmod(mode)
        reason = refused(source, place)
        assert f"belongs to user {ANOTHER}, and the source to user {SOMEBODY}" in reason and log.name in reason, reason
    codecfs("--recover", source, code=32)
    assert source.read_bytes() == before
    # The log of a user that may write the source as a member of its group is accepted, but not here:
    source.chmod(0o664)
    reason = refused(source, place)
    os.chown(log, ANOTHER, SOMEBODY)
    refused(source, place)  # all users can write to the directory
    place.chmod(0o775)
    for owner in (ANOTHER, 0, SOMEBODY):
        os.chown(log, owner, SOMEBODY)
        with mounted(source, place / "mnt", "ro") as m:
            assert (m.path / "v/1").read_bytes() == DATA[:16].tobytes()


def test_a_source_that_became_a_link_is_not_written(place):
    source = hdf5(place / "a.h5", 0o644)
    with mounted(source, place / "mnt") as m:
        assert (m.path / "v/0").read_bytes() == DATA[:16].tobytes()
        other = hdf5(place / "other.h5", 0o600)
        before = other.read_bytes()
        source.rename(place / "gone")
        (place / "gone").unlink()
        source.symlink_to(other)
        with pytest.raises(OSError) as failure:
            with open(m.path / "v/0", "r+b") as f:
                f.write(bytes(64))
                f.flush()
                os.fsync(f.fileno())
        assert failure.value.errno == errno.ESTALE
        assert (m.path / "v/1").read_bytes() == DATA[16:32].tobytes(), "that is what was opened"
    assert other.read_bytes() == before and not [p for p in place.iterdir() if "codecfs" in p.name]


def test_a_directory_of_a_store_that_became_a_link_is_not_written(place):
    """Its owner may put a link there at any moment; what root writes stays in the store."""
    source = store(place / "s", SOMEBODY)
    victim = store(place / "victim")
    before = {path: path.read_bytes() for path in victim.rglob("*") if path.is_file()}
    with mounted(source, place / "mnt") as m:
        for name in ("open", "outer/inner", "closed"):
            assert (m.path / name / "0").read_bytes() == DATA[:16].tobytes()
        for name in ("open", "outer"):
            (source / name).rename(source / f"{name}-old")
            (source / name).symlink_to(victim / name)
        for name in ("open", "outer/inner"):
            with pytest.raises(OSError):
                with open(m.path / name / "0", "r+b") as f:
                    f.write(bytes(64))
                    f.flush()
                    os.fsync(f.fileno())
            for change in (lambda: os.setxattr(m.path / name, "user.note", b"text"), lambda: (m.path / name / "1").unlink(),
                           lambda: os.setxattr(m.path / name, "user._Filter", b"none")):
                with pytest.raises(OSError):
                    change()
        with pytest.raises(OSError):
            (m.path / "outer/new").mkdir()
        (m.path / "closed/0").write_bytes(bytes(64))
        for name in ("open", "outer"):  # as it was, so that all can be stored
            (source / name).unlink()
            (source / f"{name}-old").rename(source / name)
    assert {path: path.read_bytes() for path in victim.rglob("*") if path.is_file()} == before
    assert (source / "closed/0").read_bytes() != b""
