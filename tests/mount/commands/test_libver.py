"""convert --libver: which versions of HDF5 read a new file. Debian's h5py is the judge."""
import os
import re

import h5py
import numpy as np
import pytest
import zarr
from conftest import mounted
from running import codecfs

VALUES = np.arange(600, dtype="<i4").reshape(20, 30)
VERSIONS = {"": 2, "v110": 2, "latest": 3}


@pytest.fixture
def store(tmp_path):
    root = zarr.open_group(str(tmp_path / "a.zarr"), mode="w")
    root.create_dataset("v", data=VALUES, chunks=(10, 10), compressor=zarr.Zlib(1))
    root.create_dataset("plain", data=VALUES, chunks=(7, 30), compressor=None)
    root.create_dataset("z", data=np.array([1 + 2j, 3]), chunks=(2,), compressor=None)
    root.create_dataset("flags", data=np.array([True, False]), chunks=(2,), compressor=None)
    root.create_group("g").attrs["numbers"] = list(range(100))
    for i in range(40):
        root["g"].attrs[f"n{i}"] = i
    return tmp_path / "a.zarr"


def superblock(path):
    content = path.read_bytes()
    assert content.startswith(b"\x89HDF\r\n\x1a\n")
    return content[8]  # Debian's libhdf5 does not open what 2.x makes


def check(path):
    with h5py.File(path) as file:
        assert (file["v"][...] == VALUES).all() and (file["plain"][...] == VALUES).all()
        assert file["z"][...].tolist() == [1 + 2j, 3] and file["z"].dtype == "c16"
        assert file["flags"][...].tolist() == [True, False] and file["flags"].dtype == "?"
        assert file["g"].attrs["numbers"].tolist() == list(range(100)) and file["g"].attrs["n7"] == 7
        assert file.id.get_create_plist().get_version()[0] == superblock(path)


@pytest.mark.parametrize("version", VERSIONS)
def test_versions_of_new_files(store, tmp_path, version):
    made = tmp_path / "b.h5"
    codecfs("convert", *(["--libver", version] if version else []), store, made)
    assert superblock(made) == VERSIONS[version]
    if version != "latest":
        check(made)  # with "latest", libhdf5 2.x makes what Debian's does not read: test_hdf5_2
    elif re.search(r"libhdf5 1\.10", codecfs("--version").output):
        check(made)
    codecfs("compare", store, made)
    codecfs("verify", made)
    codecfs("convert", made, tmp_path / "c.zarr")
    codecfs("compare", store, tmp_path / "c.zarr")


def test_a_new_file_of_latest_is_written(store, tmp_path):
    """It keeps its version in mounts, recode and compact, and its state if a mount is killed."""
    made = tmp_path / "b.h5"
    codecfs("convert", "--libver", "latest", store, made)
    with mounted(made, tmp_path / "mnt", "commit=3600") as m:
        with open(m.path / "v/0.0", "r+b") as chunk:
            chunk.write(np.full((10, 10), 7, "<i4").tobytes())
            chunk.flush()
            os.fsync(chunk.fileno())
        (m.path / "new").mkdir()
        m.kill()
    codecfs("recover", made)
    codecfs("verify", made)
    assert superblock(made) == 3
    codecfs("recode", "-F", "*,shuffle|deflate,9", made)
    codecfs("compact", made)
    assert superblock(made) == 3
    codecfs("verify", made)
    codecfs("convert", made, tmp_path / "c.zarr")
    root = zarr.open_group(str(tmp_path / "c.zarr"), mode="r")
    want = VALUES.copy()
    want[:10, :10] = 7
    assert root["v"][...].tolist() == want.tolist() and (root["plain"][...] == VALUES).all() and "new" in root


@pytest.mark.parametrize("words, told", [
    (["--libver", "v18", "a.zarr", "b.h5"], "--libver v18: v110 or latest"),
    (["--libver", "latest", "a.zarr", "b.zarr"], "--libver: only for a new HDF5 file"),
])
def test_mistakes(store, tmp_path, words, told):
    words = [str(tmp_path / word) if word.startswith(("a.", "b.")) else word for word in words]
    assert told in codecfs("convert", *words, code=32 if "zarr" in words[-1] else 1).output
    assert not (tmp_path / "b.h5").exists() and not (tmp_path / "b.zarr").exists()


def test_an_hdf5_file_is_copied_with_its_versions(store, tmp_path):
    codecfs("convert", store, tmp_path / "b.h5")
    assert "is copied with the versions that it has" in codecfs("convert", "--libver", "latest", tmp_path / "b.h5", tmp_path / "c.h5").output
    assert superblock(tmp_path / "c.h5") == 2
    check(tmp_path / "c.h5")
