"""Archives that are no sources: tar, in all forms of it, and zip archives without a store. HDF5 files and zip archives in a
tar archive may lie where codecfs looks for a signature behind a user block, or for the end of an archive."""
import os
import shutil
import tarfile
import zipfile

import h5py
import numpy as np
import pytest

from buckets import BUCKET, codecfs_with, environment, put, server  # noqa: F401 (fixtures)
from conftest import DATA
from running import codecfs, run

FORMS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
PACKED = {"gz": "gzip", "bz2": "bzip2", "xz": "xz"}
TAR = "is a tar archive; unpack it with: tar -xf FILE, and name what is in it"


@pytest.fixture
def members(tmp_path):
    """A folder with a file, a store, and an archive of that store."""
    path = tmp_path / "members"
    path.mkdir()
    shutil.copy(DATA / "hdf5/layouts.h5", path / "a.h5")
    shutil.copytree(DATA / "zarr/groups", path / "store")
    shutil.make_archive(path / "store", "zip", path / "store")
    return path


def refused(words, says):
    """By all commands, with the reason, and the source stays as it is."""
    source = words[-1]
    before = source.read_bytes()
    for command in (["info"], ["verify"], ["check"], ["recover"], ["compact"], ["recode", "-F", "*,none"], ["convert"], []):
        place = [source.with_name("new.zarr")] if command in (["convert"], []) else []
        options = ["-o", "mkdir"] if command == [] else []
        if command and command[0] in ("check", "recover", "compact") and "tar archive;" not in says:
            continue  # there is no log, and what HDF5 says
        done = codecfs(*command, *options, *words, *place, code=32)
        assert done.stderr.count("\n") == 1 and f"{source}: {says}" in done.stderr, (command, done.stderr)
        assert not source.with_name("new.zarr").exists() and source.read_bytes() == before, command


@pytest.mark.parametrize("form", [*FORMS, "v7"])
@pytest.mark.parametrize("member", ["a.h5", "store", "store.zip"])
@pytest.mark.parametrize("name", ["data.tar", "data.nc", "data.zarr", "data.zip"])
def test_tar_archives(tmp_path, members, form, member, name):
    source = tmp_path / name
    if form == "v7":  # without a magic number
        run("tar", "--format=v7", "-C", members, "-cf", source, member)
        assert b"ustar" not in source.read_bytes()[:512]
    else:
        with tarfile.open(source, "w", format=FORMS[form]) as archive:
            archive.add(members / member, member)
    if member == "a.h5" and form != "pax":  # what libhdf5 takes for a file with a user block
        with h5py.File(source) as file:
            assert len(file) > 0
    refused([source], TAR)


def test_names_beyond_ascii(tmp_path, members):
    """Some programs add the bytes of the header as signed numbers."""
    source = tmp_path / "a.tar"
    with tarfile.open(source, "w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(members / "a.h5", "données.h5")
    refused([source], TAR)
    header = bytearray(source.read_bytes())
    plain = bytes(header[:148]) + b" " * 8 + bytes(header[156:512])
    signed = sum(byte - 256 if byte > 127 else byte for byte in plain)
    assert signed != sum(plain) == int(header[148:154], 8)
    header[148:156] = b"%06o\0 " % signed
    source.write_bytes(header)
    refused([source], TAR)


@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize("name", ["a.tar.{}", "A.TAR.{}", "a.tar.{}.1", "a.t{}"])
def test_compressed_tar_archives(tmp_path, members, ending, name):
    source = tmp_path / name.format(ending)
    with tarfile.open(source, f"w:{ending}") as archive:
        archive.add(members / "a.h5", "a.h5")
    refused([source], f"is a tar archive compressed with {PACKED[ending]}; unpack it with: tar -xf FILE, and name what is in it")
    plain = source.rename(tmp_path / "a.h5")
    refused([plain], f"is a file compressed with {PACKED[ending]}; unpack it with ")


@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_archives_without_a_store(tmp_path, members, how):
    for name, content in (("files.zip", ["a.h5"]), ("both.zip", ["a.h5", "store.zip"]), ("none.zip", [])):
        with zipfile.ZipFile(tmp_path / name, "w", how) as archive:
            for member in content:
                archive.write(members / member, member)
        refused([tmp_path / name], "is a zip archive without a Zarr store in it (there is neither .zgroup nor .zarray nor zarr.json); "
                "unpack it with: unzip FILE, and name what is in it")


def test_the_advice(tmp_path, members):
    """What the message says leads to a source."""
    if not shutil.which("zip"):
        pytest.skip("no zip")
    run("tar", "-C", members, "-cf", tmp_path / "a.tar", "store", "a.h5")
    (tmp_path / "out").mkdir()
    run("tar", "-xf", tmp_path / "a.tar", cwd=tmp_path / "out")
    codecfs("info", tmp_path / "out/a.h5")
    run("zip", "-q", "-r", "-0", "NEW.zip", "store", cwd=tmp_path / "out")
    assert codecfs("info", tmp_path / "out/NEW.zip").stdout.splitlines()[2:] == codecfs("info", members / "store").stdout.splitlines()[2:]


def test_in_a_folder(tmp_path, members, mount):
    """It is shown as a file."""
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(members / "a.h5", folder)
    for name in ("a.tar", "b.nc"):
        with tarfile.open(folder / name, "w") as archive:
            archive.add(members / "a.h5", "a.h5")
    at = mount(folder).path
    assert (at / "a.h5").is_dir()
    for name in ("a.tar", "b.nc"):
        assert (at / name).read_bytes() == (folder / name).read_bytes()
        assert os.getxattr(at / name, "user._Error").decode().startswith(f"/{name}: {TAR}")


def test_at_a_url(tmp_path, members, server):  # noqa: F811
    for name in ("a.tar", "a.tar.gz"):
        with tarfile.open(tmp_path / name, "w:gz" if name.endswith("gz") else "w") as archive:
            archive.add(members / "a.h5", "a.h5")
        put(server, tmp_path / name)
    told = codecfs_with(server, "info", f"s3://{BUCKET}/a.tar").stderr
    assert f"/a.tar: {TAR}" in told, told
    told = codecfs_with(server, "info", f"s3://{BUCKET}/a.tar.gz").stderr
    assert "/a.tar.gz: is a tar archive compressed with gzip; " in told, told


def test_what_only_resembles_a_header(tmp_path):
    """User blocks of HDF5 files, which may have any content, and headers with another checksum."""
    source = tmp_path / "a.h5"
    with h5py.File(source, "w", userblock_size=512) as file:
        file["v"] = np.arange(10)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(source, "a.h5")
    header = (tmp_path / "a.tar").read_bytes()[:512]
    blocks = [bytes(512), b"MATLAB 7.3 MAT-file".ljust(512), b"7" * 512, b" " * 512, header[:257].ljust(512, b"x"),
              header[:100] + b"\1" + header[101:], header[:148] + b"        " + header[156:]]
    for block in blocks:
        with open(source, "r+b") as file:
            file.write(block)
        assert "int64" in codecfs("info", source).stdout, block
    with open(source, "r+b") as file:
        file.write(header)
    refused([source], TAR)
