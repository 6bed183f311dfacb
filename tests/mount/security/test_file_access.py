"""What replaces or copies a file has the owner, mode, access control list and attributes of that file. getfacl, getfattr
and stat are the judges."""
import os
import shutil

import h5py
import numpy as np
import pytest
import zarr

from conftest import mounted
from mounts import MountError
from running import codecfs, run

USER = "65534"
GROUP = 65533
DATA = np.arange(4000, dtype="<i4")
NEW = np.full(1000, 7, "<i4")


def lists_of(path):
    """Owner, mode and lists."""
    return run("getfacl", "-pn", "--omit-header", path).stdout, run("stat", "-c", "%u %g %a", path).stdout


def attributes_of(path):
    return run("getfattr", "-d", "--absolute-names", path).stdout.split("\n")[1:]


def dress(path):
    """Gives a file or directory what must survive."""
    if os.geteuid() == 0:
        os.chown(path, -1, GROUP)
    run("setfacl", "-m", f"u:{USER}:r--,g:{GROUP}:---,g::r--,o::---,m::rw-", path)
    if os.path.isdir(path):
        run("setfacl", "-d", "-m", f"u:{USER}:r-x,g::r-x,o::---", path)
        run("setfacl", "-m", "u::rwx,g::r-x", path)
    run("setfattr", "-n", "user.note", "-v", "precious", path)


def make_hdf5(path):
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=DATA, chunks=(1000,), compression="gzip")
        f.create_dataset("gone", data=np.random.default_rng(1).integers(0, 99, 100000))
    with h5py.File(path, "r+") as f:
        del f["gone"]
        f["small"] = 1


def make_zarr(path):
    group = zarr.open_group(str(path), "w")
    group.create_dataset("v", data=DATA, chunks=(1000,))


def make_zip(path):
    make_zarr(path.parent / "store")
    run("sh", "-c", f"cd '{path.parent}/store' && zip -q -0 -r '{path}' .")
    shutil.rmtree(path.parent / "store")


def test_an_archive_after_a_commit_and_a_compaction(tmp_path):
    archive = tmp_path / "a.zip"
    make_zip(archive)
    dress(archive)
    before = lists_of(archive), attributes_of(archive)
    for i in range(2):
        with mounted(archive, tmp_path / "mnt") as m:
            (m.path / f"v/{i}").write_bytes(NEW.tobytes())
        assert (lists_of(archive), attributes_of(archive)) == before
        assert sorted(os.listdir(tmp_path)) == ["a.zip", "mnt", "mnt.log"]
    run("zip", "-q", "-0", archive, "/etc/hostname")  # which makes a new file
    dress(archive)
    codecfs("compact", archive)
    assert (lists_of(archive), attributes_of(archive)) == before


def test_a_compacted_file(tmp_path):
    path = tmp_path / "a.h5"
    make_hdf5(path)
    dress(path)
    before = lists_of(path), attributes_of(path), path.stat().st_size
    codecfs("compact", path)
    assert path.stat().st_size < before[2]
    assert (lists_of(path), attributes_of(path)) == before[:2]


def log_of(path):
    return path.parent / f".{path.name}.codecfs-wal"


def test_the_log_has_the_readers_of_its_file(tmp_path):
    path = tmp_path / "a.h5"
    make_hdf5(path)
    dress(path)
    with mounted(path, tmp_path / "mnt", "commit=3600") as m:
        (m.path / "v/0").write_bytes(NEW.tobytes())
        assert lists_of(log_of(path)) == lists_of(path)
        assert attributes_of(log_of(path)) == [""] or "precious" not in "".join(attributes_of(log_of(path)))


def test_the_log_inherits_no_readers_from_its_directory(tmp_path):
    path = tmp_path / "d" / "a.h5"
    path.parent.mkdir()
    make_hdf5(path)
    path.chmod(0o640)
    run("setfacl", "-d", "-m", f"u:{USER}:rwx", path.parent)
    with mounted(path, tmp_path / "mnt", "commit=3600") as m:
        (m.path / "v/0").write_bytes(NEW.tobytes())
        assert lists_of(log_of(path)) == lists_of(path)
        assert USER not in lists_of(log_of(path))[0]


def test_the_rescued_content_of_a_deleted_file(tmp_path):
    path = tmp_path / "a.h5"
    make_hdf5(path)
    dress(path)
    before = lists_of(path), attributes_of(path)
    with pytest.raises(MountError), mounted(path, tmp_path / "mnt", "commit=3600") as m:
        (m.path / "v/0").write_bytes(NEW.tobytes())
        path.unlink()
    rescued = tmp_path / "a.h5.codecfs-rescued"
    assert (lists_of(rescued), attributes_of(rescued)) == before


def test_files_of_a_zarr_store(tmp_path):
    store = tmp_path / "a.zarr"
    make_zarr(store)
    replaced = [store / "v/0", store / "v/.zattrs", store / "v/.zarray"]
    with mounted(store, tmp_path / "mnt") as m:
        (m.path / "v/.zattrs").write_text('{"a": 1}')
    for path in replaced:
        dress(path)
    before = [(lists_of(path), attributes_of(path)) for path in replaced]
    with mounted(store, tmp_path / "mnt") as m:
        (m.path / "v/0").write_bytes(NEW.tobytes())
        (m.path / "v/.zattrs").write_text('{"a": 2}')
        text = (m.path / "v/.zarray").read_text()
        (m.path / "v/.zarray").write_text(text.replace("4000", "5000"))
    assert [(lists_of(path), attributes_of(path)) for path in replaced] == before
    assert zarr.open(str(store))["v"].shape == (5000,)


def test_an_array_that_is_stored_anew(tmp_path):
    store = tmp_path / "a.zarr"
    make_zarr(store)
    dress(store / "v")
    kept = [store / "v", store / "v/2"]
    dress(kept[1])
    before = [(lists_of(path), attributes_of(path)) for path in kept]
    codecfs("recode", "-F", "v,deflate,5", store)
    assert zarr.open(str(store))["v"].compressor.codec_id in ("zlib", "gzip")
    assert [(lists_of(path), attributes_of(path)) for path in kept] == before
    assert (zarr.open(str(store))["v"][:] == DATA).all()


def mode_of(path):
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("target", ["b.h5", "b.zarr", "b.zip"])
@pytest.mark.parametrize("kind", ["hdf5", "zarr", "zip"])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_copy_is_not_more_open_than_its_source(tmp_path, target, kind, mode):
    source = tmp_path / f"a.{kind}"
    {"hdf5": make_hdf5, "zarr": make_zarr, "zip": make_zip}[kind](source)
    source.chmod(mode | (mode & 0o444) >> 2 if kind == "zarr" else mode)
    if os.geteuid() == 0:
        os.chown(source, -1, GROUP)
    codecfs("convert", source, tmp_path / target, umask=0o022)
    made = tmp_path / target
    expected = mode & 0o644
    if kind == "zarr":
        for path in source.rglob("*"):  # of another group, which may be anybody's
            expected &= 0o604 | (mode_of(path) & 0o04) << 3
    assert mode_of(made) & 0o666 == expected & mode_of(made) and mode_of(made) & 0o066 & ~expected == 0
    assert mode_of(made) & 0o600 == 0o600
    if made.is_dir():  # nobody may search it who may not list it
        assert mode_of(made) & 0o011 == (mode_of(made) & 0o044) >> 2
        if source.stat().st_gid == os.getegid() or mode & 0o070 == 0:
            assert not any(mode_of(path) & 0o066 & ~mode_of(made) for path in made.rglob("*"))
    if os.geteuid() == 0:
        assert made.stat().st_gid == GROUP or mode_of(made) & 0o060 == 0
    else:
        assert mode_of(made) & 0o066 == expected & 0o066


def test_a_copy_of_a_store_with_a_private_array(tmp_path):
    store = tmp_path / "a.zarr"
    make_zarr(store)
    (store / "v").chmod(0o700)
    for target in ("b.h5", "b.zarr"):
        codecfs("convert", store, tmp_path / target, umask=0o022)
        assert not any(mode_of(made) & 0o077 for made in [tmp_path / target, *(tmp_path / target).rglob("*")])


def test_a_copy_of_a_file_with_a_list_is_private(tmp_path):
    path = tmp_path / "a.h5"
    make_hdf5(path)
    run("setfacl", "-m", f"u:{USER}:---", path)
    codecfs("convert", path, tmp_path / "b.h5", umask=0o022)
    assert mode_of(tmp_path / "b.h5") == 0o600


def test_references_to_a_private_file(tmp_path):
    path = tmp_path / "a.h5"
    make_hdf5(path)
    path.chmod(0o600)
    codecfs("refs", path, "-o", tmp_path / "a.json", umask=0o022)
    codecfs("refs", path, "--parquet", "-o", tmp_path / "a.parq", umask=0o022)
    assert mode_of(tmp_path / "a.json") == 0o600 and mode_of(tmp_path / "a.parq") == 0o700
    path.chmod(0o644)
    codecfs("refs", path, "-o", tmp_path / "b.json", umask=0o022)
    assert mode_of(tmp_path / "b.json") == 0o644


def test_the_umask_still_counts(tmp_path):
    path = tmp_path / "a.h5"
    make_hdf5(path)
    path.chmod(0o666)
    codecfs("convert", path, tmp_path / "b.h5", umask=0o077)
    assert mode_of(tmp_path / "b.h5") == 0o600
    codecfs("convert", path, tmp_path / "c.zarr", umask=0o022)
    assert mode_of(tmp_path / "c.zarr") == 0o755
