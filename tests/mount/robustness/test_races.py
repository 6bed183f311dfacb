"""Races that concurrency-test found, each by itself: what one process does while another changes the same thing."""
import contextlib
import json
import os
import threading

import h5py
import numpy as np
import pytest
import zarr
from conftest import mounted

VALUES = np.arange(64 * 8, dtype="<i4").reshape(64, 8)
NPY = ".codecfs/view/npy"


@pytest.fixture(params=["hdf5", "zarr"])
def source(request, tmp_path):
    """A variable `v` of 16 chunks, `sparse` without any, and a group `g`."""
    path = tmp_path / f"s.{request.param}"
    if request.param == "hdf5":
        with h5py.File(path, "w") as file:
            file.create_dataset("v", data=VALUES, chunks=(4, 8), compression="gzip")
            sparse = file.create_dataset("sparse", (64, 8), "<i4", chunks=(4, 8), fillvalue=-1)
            sparse.attrs.create("_FillValue", -1, dtype="<i4")
            file["v"].attrs.create("_FillValue", 0, dtype="<i4")
            file.create_group("g")
    else:
        root = zarr.open_group(str(path), "w")
        root.create_dataset("v", data=VALUES, chunks=(4, 8), fill_value=0)
        root.create_dataset("sparse", shape=(64, 8), dtype="<i4", chunks=(4, 8), fill_value=-1)
        root.create_group("g")
    return path


@contextlib.contextmanager
def meanwhile(work):
    """Runs work(round) again and again in a thread of its own; its error is the test's."""
    ended, errors = threading.Event(), []

    def run():
        number = 0
        try:
            while not ended.is_set():
                work(number)
                number += 1
        except Exception as error:  # noqa: B902: raised below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if errors:
        raise errors[0]


def test_metadata_that_changes_is_read_whole(mount, source):
    """The kernel cut the new text to the length of the old one."""
    m = mount(source)

    def change(number):
        os.setxattr(m.path / "v", "user.title", b"a" * (1 + number * 37 % 500))

    with meanwhile(change):
        for _ in range(300):
            assert "v/.zarray" in json.loads((m.path / ".zmetadata").read_text())["metadata"]
            assert set(json.loads((m.path / "v/.zattrs").read_text())["title"] if "title" in
                       os.listxattr(m.path / "v") else "a") == {"a"}


def test_consolidated_metadata_while_members_come_and_go(mount, source):
    m = mount(source)

    def change(number):
        os.mkdir(m.path / "g/new")
        os.rename(m.path / "g/new", m.path / "g/other")
        os.rmdir(m.path / "g/other")

    with meanwhile(change):
        for _ in range(200):
            assert "v/.zarray" in json.loads((m.path / ".zmetadata").read_text())["metadata"]


def test_a_listing_from_before_does_not_bring_back_what_is_removed(mount, source):
    m = mount(source)
    for number in range(10):
        os.mkdir(m.path / "g/gone")
        with os.scandir(m.path / "g") as entries:
            os.rmdir(m.path / "g/gone")
            list(entries)
        assert not os.path.lexists(m.path / "g/gone") and "gone" not in os.listdir(m.path / "g")


def test_a_group_that_becomes_a_variable_while_it_is_listed(mount, source):
    """The listing took it for another object than the one that was there, which was ESTALE for its maker."""
    m = mount(source)
    zarray = json.dumps({"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i4", "compressor": None, "filters": None,
                         "fill_value": 0, "order": "C"})

    def look(number):
        for entry in os.scandir(m.path / "g"):
            with contextlib.suppress(FileNotFoundError):
                entry.stat()

    with meanwhile(look):
        for number in range(40):
            made = m.path / f"g/made{number % 3}"
            made.mkdir()
            (made / ".zarray").write_text(zarray)
            (made / "0").write_bytes(b"12345678")
            assert (made / "0").read_bytes() == b"12345678"
            for name in os.listdir(made):
                os.unlink(made / name)
            made.rmdir()


def test_writing_a_metadata_file_that_was_just_renamed(mount, source):
    """By the number of the file that it had been, which was taken for a chunk (EISDIR)."""
    m = mount(source)
    for number in range(30):
        temporary = m.path / "v/new.tmp"
        temporary.write_text(json.dumps({"n": number}))
        os.rename(temporary, m.path / "v/.zattrs")
        (m.path / "v/.zattrs").write_text(json.dumps({"n": number, "second": True}))
        assert json.loads(os.getxattr(m.path / "v", "user.second")) is True


def test_a_chunk_that_came_through_another_view_is_not_emptied(mount, source):
    """open(O_CREAT) of what the kernel took for absent cut it to nothing."""
    m = mount(source)
    mine = np.full((4, 8), 7, "<i4")
    for number in range(16):
        chunk = m.path / f"sparse/{number}.0"
        assert not chunk.exists()
        with open(m.path / NPY / "sparse.npy", "r+b") as file:
            file.seek(-VALUES.nbytes + number * mine.nbytes, os.SEEK_END)
            file.write(mine.tobytes())
        fd = os.open(chunk, os.O_RDWR | os.O_CREAT, 0o644)
        os.pwrite(fd, b"\x09\0\0\0", 4)
        os.close(fd)
        expected = mine.copy()
        expected[0, 1] = 9
        assert chunk.read_bytes() == expected.tobytes(), number


def test_a_chunk_that_is_removed_while_it_is_open_reads_as_fill(mount, source):
    m = mount(source)
    with open(m.path / "v/3.0", "rb", buffering=0) as file:
        os.unlink(m.path / "v/3.0")
        assert file.read() == bytes(4 * 8 * 4)


def test_a_chunk_that_is_opened_just_when_it_was_renamed_to(mount, source):
    """Under the number of the file that it had been, its pages stayed as they were for ever."""
    m = mount(source)
    for number in range(10):
        temporary = m.path / "v/new.tmp"
        temporary.write_bytes(bytes(128))
        os.rename(temporary, m.path / "v/3.0")
        with open(m.path / "v/3.0", "rb", buffering=0) as file:
            assert file.read() == bytes(128)
            (m.path / "v/3.0").write_bytes(b"\1" * 128)
            assert os.pread(file.fileno(), 128, 0) == b"\1" * 128, number


def test_a_file_that_is_open_while_it_is_renamed_to_a_chunk_shows_what_is_written_later(mount, source):
    """Its pages in the kernel stayed as they were: they belong to the inode number that it had before."""
    m = mount(source)
    path = m.path / "v/3.0"

    def content(number):
        return np.full((4, 8), number, "<i4").tobytes()

    fd = os.open(m.path / "v/part.tmp", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.write(fd, content(1))
        os.rename(m.path / "v/part.tmp", path)
        assert os.pread(fd, 1000, 0) == content(1)
        path.write_bytes(content(2))
        assert os.pread(fd, 1000, 0) == content(2) == path.read_bytes()
        with open(path, "r+b", buffering=0) as file:
            file.write(content(3))
        assert os.pread(fd, 1000, 0) == content(3)
        with open(m.path / ".codecfs/view/raw/v", "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), content(4), 3 * len(content(4)))
        assert os.pread(fd, 1000, 0) == content(4)
        (m.path / "v/other.tmp").write_bytes(content(5))
        os.rename(m.path / "v/other.tmp", path)
        assert os.pread(fd, 1000, 0) == content(5)
        os.pwrite(fd, content(6), 0)
        assert os.pread(fd, 1000, 0) == content(6)
        assert path.read_bytes() == content(6)
    finally:
        os.close(fd)


def test_two_concurrent_changes_of_a_chain_both_succeed(mount, source):
    """Each changes a part of the chain that it had read before the other was done."""
    m = mount(source)
    for number in range(12):
        os.setxattr(m.path / "v", "user._Filter", b"1,1")
        level = str(2 + number % 8).encode()
        threads = [threading.Thread(target=os.setxattr, args=(m.path / "v", "user._Shuffle", b"true")),
                   threading.Thread(target=os.setxattr, args=(m.path / NPY / "v.npy", "user._DeflateLevel", level))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert os.getxattr(m.path / "v", "user._Filter") == b"2,4|1," + level
    assert (zarr.open_group(str(m.path), "r")["v"][:] == VALUES).all()


def test_two_concurrent_resizes_of_a_variable(source, tmp_path):
    """Each went by the shape that it had read before the other was done: chunks of the wrong number were kept."""
    def shaped(path, rows):
        told = json.loads((path / "v/.zarray").read_text())
        told["shape"][0] = rows
        temporary = path / f"v/{threading.get_ident()}.tmp"
        temporary.write_text(json.dumps(told))
        os.rename(temporary, path / "v/.zarray")

    if source.suffix == ".hdf5":
        with h5py.File(source, "a") as file:
            del file["v"]
            file.create_dataset("v", data=VALUES, chunks=(4, 8), maxshape=(None, 8), fillvalue=0)
    with mounted(source, tmp_path / "mnt") as m:
        with meanwhile(lambda number: shaped(m.path, 8 + 4 * (number % 5))):
            for number in range(60):
                shaped(m.path, 4 + 8 * (number % 7))
                with contextlib.suppress(FileNotFoundError, OSError):
                    (m.path / "v/9.0").write_bytes(np.full((4, 8), number, "<i4").tobytes())
        for rows in (4, 64):
            shaped(m.path, rows)
        expected = np.zeros_like(VALUES)
        expected[:4] = VALUES[:4]
        assert (zarr.open_group(str(m.path), "r")["v"][:] == expected).all()
        assert (np.load(m.path / NPY / "v.npy") == expected).all()
    if source.suffix == ".hdf5":
        with h5py.File(source) as file:
            assert (file["v"][:] == expected).all()
    else:
        assert (zarr.open_group(str(source), "r")["v"][:] == expected).all()
