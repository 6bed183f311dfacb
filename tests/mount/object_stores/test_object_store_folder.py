"""A folder of a bucket: its datasets are directories, other objects are files."""
import errno
import json
import os
import subprocess
import time

import h5py
import numpy as np
import pytest

from buckets import BUCKET, codecfs_with, files_of, make_v2, make_v3, remote, server, settled  # noqa: F401 (fixtures)
from running import run


def make_folder(root):
    (root / "era5/2020").mkdir(parents=True)
    for number, name in enumerate(["era5/t2m.nc", "era5/2020/a.h5", "era5/2020/b.hdf5"]):
        with h5py.File(root / name, "w") as f:
            f["v"] = np.arange(10) + number
            f.create_group("g").create_dataset("w", data=np.arange(1000.0), chunks=(100,), compression="gzip")
    make_v2(root / "stores/a.zarr")
    make_v2(root / "stores/deep/c", consolidated=True)
    (root / "stores/b").mkdir()
    make_v3(root / "stores/b")
    (root / "notes.txt").write_text("notes\n")
    (root / "docs").mkdir()
    (root / "docs/empty").write_bytes(b"")
    (root / "docs/é ü+&.md").write_text("# text")


@pytest.fixture
def folder(server, tmp_path):
    root = tmp_path / "data"
    make_folder(root)
    server.put_tree(BUCKET, root, "some/data/")
    server.control(clear_log=True)
    return root


def test_shows_what_a_mount_of_the_folder_shows(folder, mount, remote):
    expected = files_of(mount(folder, "ro").path)
    assert len(expected) > 40
    there = remote("some/data/")
    assert files_of(there.path) == expected
    there.unmount()
    assert files_of(remote("some/data").path) == expected, "also without a slash at the end"
    assert files_of(remote("some/data/", "view=npy").path) == files_of(mount(folder, "ro", "view=npy").path)


def test_an_empty_object_is_the_mark_of_a_directory(folder, mount, server, remote):
    server.put(BUCKET, "some/data", b"")
    server.put(BUCKET, "some/nothing", b"")
    assert files_of(remote("some/data").path) == files_of(mount(folder, "ro").path)
    assert "is empty" in codecfs_with(server, "info", f"s3://{BUCKET}/some/nothing").stderr


def test_the_whole_bucket(folder, mount, remote):
    there = remote("")
    assert os.listdir(there.path) == ["some"]
    assert files_of(there.path / "some/data") == files_of(mount(folder, "ro").path)


def test_attributes_of_files(folder, remote):
    there = remote("some/data/")
    status = (there.path / "notes.txt").stat()
    assert status.st_size == 6 and abs(status.st_mtime - time.time()) < 3600 and status.st_mode & 0o777 == 0o444
    assert (there.path / "era5").is_dir() and (there.path / "era5/t2m.nc").is_dir()


def test_listing_opens_nothing(server, remote, tmp_path):
    for number in range(60):
        server.put(BUCKET, f"many/{number}.nc", b"\x89HDF\r\n\x1a\n" + bytes(100))
        server.put(BUCKET, f"many/d{number}/x", b"x")
    there = remote("many/")
    server.control(clear_log=True)
    run("ls", "-lR", "--", there.path / "d1", there.path / "d2", stdout=subprocess.DEVNULL)
    assert server.summary()["requests"] < 12, "of a directory: is it there, is it a store, and a list"
    server.control(clear_log=True)
    assert len(os.listdir(there.path)) == 120
    seen = server.summary()["operations"]
    assert seen.get("ListObjectsV2", 0) <= 1, "none if the names before were asked for by one"
    assert seen["GetObject"] <= 3 * 60, "whether the directories are stores"
    assert not any(entry["key"].endswith(".nc") for entry in server.log() if entry["key"])


def test_names_after_a_list_are_listed_again(server, remote):
    """A list is used for 5 s, as the kernel uses what it knows of the names in it."""
    for number in range(2500):
        server.put(BUCKET, f"many/{number:05}.txt", b"x")
    there = remote("many/")
    names = sorted(os.listdir(there.path))
    assert len(names) == 2500
    time.sleep(6)
    server.control(clear_log=True)
    began = time.monotonic()
    for name in names[:1000]:
        assert (there.path / name).stat().st_size == 1
    lists = server.summary()["operations"]["ListObjectsV2"]
    # The first name alone, then a list of three pages, again every 5 s.
    assert lists <= 4 * (1 + (time.monotonic() - began) // 5), lists


def test_a_large_file_is_read_in_parts(server, remote):
    content = np.random.default_rng(3).bytes(30_000_000)
    server.put(BUCKET, "f/large.bin", content)
    there = remote("f/")
    server.control(clear_log=True)
    with open(there.path / "large.bin", "rb") as file:
        assert os.pread(file.fileno(), 1000, 25_000_000) == content[25_000_000:25_001_000]
    assert server.summary()["bytes"] < 10_000_000
    assert (there.path / "large.bin").read_bytes() == content
    assert all(entry["range"] for entry in server.log() if entry["operation"] == "GetObject")
    assert server.summary()["bytes"] < 2.5 * len(content)


def test_a_file_that_is_replaced_while_it_is_open(server, remote):
    server.put(BUCKET, "f/large.bin", b"a" * 30_000_000)
    there = remote("f/")
    with open(there.path / "large.bin", "rb") as file:
        assert os.pread(file.fileno(), 10, 0) == b"a" * 10
        server.put(BUCKET, "f/large.bin", b"b" * 30_000_000)
        with pytest.raises(OSError) as caught:
            os.pread(file.fileno(), 10, 28_000_000)
        assert caught.value.errno in (errno.ESTALE, errno.EIO)
    time.sleep(6)
    assert (there.path / "large.bin").read_bytes() == b"b" * 30_000_000


def test_changes_are_seen(folder, server, remote):
    there = remote("some/data/")
    assert (there.path / "era5/t2m.nc/v/0").read_bytes() == np.arange(10).tobytes()
    assert not (there.path / "era5/new.nc").exists()
    with h5py.File(folder / "era5/t2m.nc", "w") as f:
        f["v"] = np.arange(20)
    server.put_tree(BUCKET, folder, "some/data/")
    server.put(BUCKET, "some/data/era5/new.nc", (folder / "era5/2020/a.h5").read_bytes())
    server.delete(BUCKET, "some/data/notes.txt")
    time.sleep(12)
    assert (there.path / "era5/t2m.nc/v/0").read_bytes() == np.arange(20).tobytes()
    assert (there.path / "era5/new.nc/v/0").read_bytes() == (np.arange(10) + 1).tobytes()
    assert not (there.path / "notes.txt").exists()
    assert "new.nc" in os.listdir(there.path / "era5")


def test_what_has_the_name_of_a_dataset_only(server, remote):
    server.put(BUCKET, "f/old.nc", b"CDF\1" + bytes(100))
    server.put(BUCKET, "f/empty.nc", b"")
    there = remote("f/")
    assert (there.path / "empty.nc").is_file()
    with pytest.raises(OSError) as caught:
        os.listdir(there.path / "old.nc")
    assert caught.value.errno == errno.EIO
    assert "netCDF-3" in there.log.read_text()
    time.sleep(7)
    assert (there.path / "old.nc").read_bytes() == b"CDF\1" + bytes(100), "then it is a file"


def test_names(server, remote):
    for key in ["f/both", "f/both/x", "f//empty", "f/..", "f/../x", "f/ok"]:
        server.put(BUCKET, key, b"text")
    there = remote("f/")
    assert sorted(os.listdir(there.path)) == ["both", "ok"]
    assert os.listdir(there.path / "both") == ["x"]


def test_nothing_is_written(folder, server, remote):
    there = remote("some/data/")
    for change in (lambda: (there.path / "notes.txt").write_text("x"), lambda: (there.path / "made").mkdir(),
                   lambda: (there.path / "notes.txt").unlink(), lambda: (there.path / "era5/t2m.nc/v/0").write_bytes(b"x")):
        with pytest.raises(OSError) as caught:
            change()
        assert caught.value.errno in (errno.EROFS, errno.EPERM)
    assert not any(entry["method"] in ("PUT", "DELETE", "POST") for entry in server.log())


def test_a_failing_server_is_no_damage(folder, server, remote):
    there = remote("some/data/", "retry=1")
    os.listdir(there.path / "era5")
    server.fault("error", status=500)
    with pytest.raises(OSError):
        (there.path / "era5/t2m.nc/v/0").read_bytes()
    with pytest.raises(OSError):
        os.listdir(there.path / "docs")
    server.clear_faults()
    assert (there.path / "era5/t2m.nc/v/0").read_bytes() == np.arange(10).tobytes()
    assert len(os.listdir(there.path / "docs")) == 2


def test_directories_that_may_not_be_read_are_not_taken_for_folders(folder, server, remote):
    there = remote("some/data/", "retry=1")
    server.fault("error", status=403, code="AccessDenied", key="*stores/a.zarr/.zgroup")
    with pytest.raises(PermissionError):
        os.listdir(there.path / "stores")


def test_commands(folder, server, tmp_path):
    url = f"s3://{BUCKET}/some/data/"
    info = json.loads(codecfs_with(server, "info", "--json", url).stdout)
    assert "t2m" in json.dumps(info)
    verified = codecfs_with(server, "verify", url)
    assert verified.returncode == 0 and "no damage" in verified.stdout, verified.stderr
    refused = codecfs_with(server, "convert", url, tmp_path / "made.zarr")
    assert refused.returncode != 0
    nothing = codecfs_with(server, "info", f"s3://{BUCKET}/nothing/")
    assert nothing.returncode != 0 and "no Zarr store" in nothing.stderr


def test_requests_are_few(folder, server, remote):
    there = remote("some/data/")
    server.control(clear_log=True)
    (there.path / "era5/t2m.nc/v/0").read_bytes()
    stats, seen = settled(server, there)
    assert seen["requests"] <= 8
    assert stats["object_gets"] > 0
