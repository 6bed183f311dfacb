"""Files of HDF5's family driver are read through the first of them; those of the split and multi drivers are refused."""
import errno
import json
import os
import shlex
import shutil

import h5py
import numpy as np
import pytest
from running import codecfs, run

CHUNKED = np.random.default_rng(5).integers(0, 1000, 20_000, "i4")
FLAT = np.arange(10_000, dtype="<f8")


def make(path, driver, libver, **options):
    with h5py.File(path, "w", driver=driver, libver=libver, **options) as f:
        f.create_dataset("chunked", data=CHUNKED, chunks=(1000,), compression="gzip", shuffle=True)
        f["flat"] = FLAT
        f["flat"].attrs["units"] = "m"
        f["g/text"] = ["a", "longer"]


def contents(folder):
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}


def check(m):
    assert sorted(os.listdir(m.path)) == [".zattrs", ".zgroup", ".zmetadata", "chunked", "flat", "g"]
    for number in range(20):
        assert (m.path / f"chunked/{number}").read_bytes() == CHUNKED[1000 * number:1000 * number + 1000].tobytes()
    assert (m.path / "flat/0").read_bytes() == FLAT.tobytes()
    assert json.loads((m.path / "flat/.zattrs").read_bytes())["units"] == "m"
    assert b"longer" in (m.path / "g/text/0").read_bytes()


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("name", ["f_%05d.h5", "2000_%d.h5", "f%d"])
def test_a_family_is_one_file(mount, tmp_path, name, libver):
    folder = tmp_path / "in"
    folder.mkdir()
    make(folder / name, "family", libver, memb_size=10_000)
    assert len(os.listdir(folder)) > 10
    before = contents(folder)
    m = mount(folder / (name % 0))
    check(m)
    with pytest.raises(OSError) as error:
        (m.path / "chunked/0").write_bytes(b"x")
    assert error.value.errno == errno.EROFS and "h5repack" in m.messages()
    m.unmount()
    assert contents(folder) == before


def test_a_family_of_h5repart(mount, tmp_path):
    make(tmp_path / "one.h5", None, "earliest")
    run("h5repart", "-m", "16k", tmp_path / "one.h5", tmp_path / "part%03d.h5")
    assert len(os.listdir(tmp_path)) > 5
    check(mount(tmp_path / "part000.h5"))


def test_a_truncated_file_beside_others_is_no_family(mount, tmp_path):
    make(tmp_path / "a0.h5", None, "earliest")
    content = (tmp_path / "a0.h5").read_bytes()
    half = (len(content) + 1) // 2
    (tmp_path / "a0.h5").write_bytes(content[:half])
    (tmp_path / "a1.h5").write_bytes(content[:len(content) - half])  # an HDF5 file
    assert "is truncated" in mount(tmp_path / "a0.h5").messages()
    (tmp_path / "a1.h5").write_bytes(content[half:-1])  # too short
    assert "is truncated" in mount(tmp_path / "a0.h5").messages()
    (tmp_path / "a1.h5").write_bytes(content[half:])
    check(mount(tmp_path / "a0.h5"))


def test_a_family_of_one_file(mount, tmp_path):
    make(tmp_path / "f%d.h5", "family", "latest", memb_size=1 << 30)
    assert os.listdir(tmp_path) == ["f0.h5"]
    check(mount(tmp_path / "f0.h5"))


def refused(path):
    return codecfs("-o", "mkdir", path, path.parent / "mnt", code=32).stderr


def test_a_missing_or_truncated_member(mount, tmp_path):
    make(tmp_path / "f%d.h5", "family", "earliest", memb_size=10_000)
    shutil.move(tmp_path / "f4.h5", tmp_path / "away")
    assert str(tmp_path / "f4.h5") in refused(tmp_path / "f0.h5")
    (tmp_path / "f4.h5").write_bytes((tmp_path / "away").read_bytes()[:5000])
    m = mount(tmp_path / "f0.h5")
    failed = 0
    for file in [m.path / f"chunked/{number}" for number in range(20)] + [m.path / "flat/0"]:
        try:
            file.read_bytes()
        except OSError as error:
            assert error.errno == errno.EIO
            failed += 1
    assert 0 < failed < 20 and "missing" in m.messages()


def test_a_member_outside_of_the_directory_is_not_followed(tmp_path):
    (tmp_path / "in").mkdir()
    make(tmp_path / "in/f%d.h5", "family", "earliest", memb_size=10_000)
    shutil.move(tmp_path / "in/f4.h5", tmp_path / "secret")
    os.symlink(tmp_path / "secret", tmp_path / "in/f4.h5")
    assert "f4.h5 cannot be opened" in refused(tmp_path / "in/f0.h5")


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_split_files_are_refused_with_a_command_that_works(mount, tmp_path, libver):
    make(tmp_path / "a", "split", libver)
    reason = refused(tmp_path / "a-m.h5")
    command = shlex.split(reason[reason.index("h5repack"):reason.index(" (the name")])
    assert command == ["h5repack", str(tmp_path / "a"), "ONE.h5"], reason
    run(*command, cwd=tmp_path)
    check(mount(tmp_path / "ONE.h5"))


def test_the_command_for_a_family_works_too(mount, tmp_path):
    make(tmp_path / "f%d.h5", "family", "earliest", memb_size=10_000)
    m = mount(tmp_path / "f0.h5")
    with pytest.raises(OSError):
        (m.path / "chunked/0").write_bytes(b"x")
    reason = m.messages()
    command = shlex.split(reason[reason.index("h5repack"):].splitlines()[0])
    run(*command, cwd=tmp_path)
    m.unmount()
    check(mount(tmp_path / "ONE.h5"))


@pytest.mark.parametrize("driver", ["family", "split"])
def test_compaction_is_refused(tmp_path, driver):
    first = {"family": "f%d.h5", "split": "f"}[driver]
    make(tmp_path / first, driver, "latest", **({"memb_size": 10_000} if driver == "family" else {}))
    before = contents(tmp_path)
    path = tmp_path / {"family": "f0.h5", "split": "f-m.h5"}[driver]
    done = codecfs("--compact", path, code=None)
    assert done.returncode != 0 and "h5repack" in done.stderr, done.stderr
    assert contents(tmp_path) == before
