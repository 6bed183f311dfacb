"""-o idle=: a mount that is not used gives its source up, stays mounted, and never shows a mix of two states of the source."""
import errno
import fcntl
import os
import shutil
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import CODECFS, is_mounted
from mounts import wait_until, workers_of
from running import codecfs

ROWS = np.arange(4000, dtype="u1").reshape(4, 1000)


@pytest.fixture
def hdf5(tmp_path):
    path = tmp_path / "a.h5"
    make_hdf5(path, ROWS)
    return path


def make_hdf5(path, rows, units="K"):
    with h5py.File(path, "w") as f:
        v = f.create_dataset("g/v", data=rows, chunks=(1, rows.shape[1]), compression="gzip")
        v.attrs["units"] = units


def rests(m):
    """Whether the source is closed now."""
    lines = [line for line in m.messages().splitlines() if "the source was" in line]
    return bool(lines) and "was closed" in lines[-1] and not m.process.poll()


def wait_for_rest(m, times=1):
    wait_until(lambda: m.messages().count("the source was closed") >= times, 30)


def lock(path):
    """An exclusive lock, which the mount must not hold meanwhile."""
    file = open(path, "r+b")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def replace(path, make):
    """By another file, as editors and rsync do it."""
    new = path.with_name("new" + path.suffix)
    make(new)
    os.replace(new, path)


def test_it_gives_everything_up_and_reads_on(mount, hdf5):
    m = mount(hdf5, "ro,idle=1")
    assert (m.path / "g/v/2.0").read_bytes() == ROWS[2].tobytes()
    with open(m.path / "g/v/1.0", "rb") as file:
        wait_for_rest(m)
        assert "codecfs-hdf5" not in workers_of(m.path).values()
        assert not any("a.h5" in os.readlink(f"/proc/{m.process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{m.process.pid}/fd")
                       if os.path.lexists(f"/proc/{m.process.pid}/fd/{fd}"))
        lock(hdf5).close()
        assert is_mounted(m.path)
        assert file.read() == ROWS[1].tobytes()
    assert (m.path / "g/v/2.0").read_bytes() == ROWS[2].tobytes()
    with pytest.raises(BlockingIOError):
        lock(hdf5)
    wait_for_rest(m, 2)
    assert np.array_equal(np.frombuffer((m.path / "g/v/3.0").read_bytes(), "u1"), ROWS[3])


def test_what_was_written_is_stored_before(mount, hdf5):
    m = mount(hdf5, "idle=1,commit=3600")
    (m.path / "g/v/2.0").write_bytes(b"\7" * 1000)
    os.utime(m.path / "g/v/3.0", (5, 1234567))
    (m.path / "g/v/notes.txt~").write_text("nowhere else")
    wait_for_rest(m)
    lock(hdf5).close()
    assert not list(hdf5.parent.glob(".a.h5*"))
    with h5py.File(hdf5) as f:
        assert (f["g/v"][2] == 7).all()
    assert (m.path / "g/v/notes.txt~").read_text() == "nowhere else"
    assert (m.path / "g/v/3.0").stat().st_mtime == 1234567
    (m.path / "g/v/notes.txt~").unlink()
    (m.path / "g/v/0.0").write_bytes(b"\1" * 1000)
    m.close()
    with h5py.File(hdf5) as f:
        assert (f["g/v"][0] == 1).all() and (f["g/v"][2] == 7).all()


@pytest.mark.parametrize("shape", [(4, 1000), (2, 500)])
def test_a_source_that_was_replaced(mount, hdf5, shape):
    """What was open is ESTALE, never ENOENT; what is opened anew is the new file."""
    new = np.full(shape, 9, "u1")
    m = mount(hdf5, "ro,idle=1")
    chunk = os.open(m.path / "g/v/1.0", os.O_RDONLY)
    text = os.open(m.path / "g/v/.zattrs", os.O_RDONLY)
    directory = os.open(m.path / "g/v", os.O_RDONLY)
    assert os.pread(chunk, 10, 0) == ROWS[1, :10].tobytes() and b'"K"' in os.pread(text, 100, 0)
    wait_for_rest(m)
    replace(hdf5, lambda path: make_hdf5(path, new, "m"))
    for _ in range(2):
        for file in (chunk, text):
            with pytest.raises(OSError) as error:
                os.pread(file, 10, 0)
            assert error.value.errno == errno.ESTALE
        with pytest.raises(OSError) as error:
            os.open("1.0", os.O_RDONLY, dir_fd=directory)
        assert error.value.errno == errno.ESTALE
    for file in (chunk, text, directory):
        os.close(file)
    assert (m.path / "g/v/1.0").read_bytes() == new[1].tobytes()
    assert '"m"' in (m.path / "g/v/.zattrs").read_text()
    assert sorted(os.listdir(m.path / "g/v"))[:3] == [".zarray", ".zattrs", "0.0"]
    wait_for_rest(m, 2)
    assert (m.path / "g/v/0.0").read_bytes() == new[0].tobytes()


def test_temporary_files_survive_a_source_that_was_replaced(mount, hdf5):
    m = mount(hdf5, "idle=1")
    (m.path / "g/v/notes.txt~").write_text("nowhere else")
    wait_for_rest(m)
    replace(hdf5, lambda path: make_hdf5(path, ROWS))
    assert (m.path / "g/v/1.0").read_bytes() == ROWS[1].tobytes()
    assert (m.path / "notes.txt~").read_text() == "nowhere else" and "is /notes.txt~ now" in m.messages()
    (m.path / "notes.txt~").unlink()


def test_a_source_that_is_gone(mount, hdf5):
    m = mount(hdf5, "ro,idle=1")
    assert (m.path / "g/v/1.0").read_bytes() == ROWS[1].tobytes()
    wait_for_rest(m)
    hdf5.rename(hdf5.with_name("b.h5"))
    for path in ("g/v/1.0", "g/v/0.0", "g/v/.zarray", "g", "nothing"):
        with pytest.raises(OSError) as error:
            os.stat(m.path / path)
        assert error.value.errno == errno.ESTALE, path
    # The commands do not need it.
    codecfs("status", m.path)
    hdf5.with_name("b.h5").rename(hdf5)
    assert (m.path / "g/v/0.0").read_bytes() == ROWS[0].tobytes()
    wait_for_rest(m, 2)
    hdf5.unlink()
    codecfs("unmount", m.path)
    m.ended = True
    assert m.process.wait(30) == 0


def zarr_array(path, rows, chunks=None):
    path.mkdir(parents=True)
    (path.parent / ".zgroup").write_text('{"zarr_format": 2}')
    chunks = chunks or (1, rows.shape[1])
    (path / ".zarray").write_text('{"zarr_format": 2, "shape": [%d, %d], "chunks": [%d, %d], "dtype": "|u1", "fill_value": 0,'
                                  ' "order": "C", "compressor": null, "filters": null}' % (*rows.shape, *chunks))
    for i in range(0, rows.shape[0], chunks[0]):
        (path / f"{i // chunks[0]}.0").write_bytes(rows[i:i + chunks[0]].tobytes())


def test_a_changed_zarr_directory(tmp_path, mount):
    """Below a group, whose own directory does not change: another shape, in which a chunk number means another chunk."""
    array = tmp_path / "a.zarr/v"
    zarr_array(array, ROWS)
    m = mount(tmp_path / "a.zarr", "ro,idle=1")
    file = os.open(m.path / "v/1.0", os.O_RDONLY)
    assert os.pread(file, 1000, 0) == ROWS[1].tobytes()
    wait_for_rest(m)
    shutil.rmtree(array)
    zarr_array(array, ROWS * 3, (2, 1000))
    with pytest.raises(OSError) as error:
        os.pread(file, 1000, 0)
    assert error.value.errno == errno.ESTALE
    os.close(file)
    assert (m.path / "v/1.0").read_bytes() == (ROWS * 3)[2:4].tobytes()
    # A chunk that another program writes is read, whatever was known of it.
    wait_for_rest(m, 2)
    (array / "0.0").write_bytes(b"\5" * 2000)
    assert (m.path / "v/0.0").read_bytes() == b"\5" * 2000


def test_a_root_that_is_an_array(tmp_path, mount):
    array = tmp_path / "v.zarr"
    zarr_array(array, ROWS)
    (tmp_path / ".zgroup").unlink()
    m = mount(array, "ro,idle=1")
    file = os.open(m.path / "1.0", os.O_RDONLY)
    wait_for_rest(m)
    (array / "new").write_bytes(b"")  # changes the directory
    with pytest.raises(OSError) as error:
        os.pread(file, 1000, 0)
    assert error.value.errno == errno.ESTALE
    os.close(file)
    assert (m.path / "1.0").read_bytes() == ROWS[1].tobytes()


def test_status_and_statfs_are_no_use(mount, hdf5):
    m = mount(hdf5, "ro,idle=2")
    (m.path / "g/v/1.0").read_bytes()
    deadline = time.monotonic() + 60
    while not rests(m):
        assert time.monotonic() < deadline
        os.statvfs(m.path)
        codecfs("status", "--json", m.path)
    for _ in range(3):
        os.statvfs(m.path)
        os.stat(m.path)
        for form in ([], ["--json"], ["--prometheus"]):
            codecfs("status", *form, m.path)
    assert rests(m)
    lock(hdf5).close()


def test_use_keeps_it_open(mount, hdf5):
    m = mount(hdf5, "idle=2")
    with open(m.path / "g/v/0.0", "r+b") as file:  # open for writing
        time.sleep(4)
        assert "was closed" not in m.messages()
        file.write(b"\1" * 1000)
    with open(m.path / "g/v/1.0", "r+b") as file:
        mapped = np.memmap(file, "u1", "r+")
    mapped[5] = 9
    time.sleep(4)
    assert "was closed" not in m.messages()
    del mapped
    wait_for_rest(m)
    with h5py.File(hdf5) as f:
        assert f["g/v"][1, 5] == 9 and (f["g/v"][0] == 1).all()


def test_a_current_directory_stays_one(mount, hdf5):
    m = mount(hdf5, "ro,idle=1")
    with subprocess.Popen(["sh", "-c", "read x; pwd -P; cat v/1.0 | wc -c"], cwd=m.path / "g", stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as shell:
        wait_for_rest(m)
        assert shell.communicate("go\n", timeout=60)[0].split() == [str(m.path / "g"), "1000"]


def test_what_cannot_be_stored_keeps_it_open(tmp_path, mount):
    """An archive that was replaced cannot take what was written (ESTALE)."""
    archive = tmp_path / "a.zip"
    m = mount(archive, "create=zip,view=decoded,idle=1,commit=3600")
    (m.path / "v").mkdir()
    (m.path / "v/.zarray").write_text('{"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|u1", "fill_value": 0,'
                                      ' "order": "C", "compressor": null, "filters": null}')
    (m.path / "v/0").write_bytes(b"1234")
    shutil.copy(archive, tmp_path / "b.zip")
    os.replace(tmp_path / "b.zip", archive)
    wait_until(lambda: "idle, but not all data could be stored" in m.messages(), 30)
    assert (m.path / "v/0").read_bytes() == b"1234"
    m.end()


def test_on_request(mount, hdf5):
    """As the Python module does it at the end of a block."""
    m = mount(hdf5, "ro,idle=3600")
    with pytest.raises(OSError) as error:
        os.getxattr(m.path / "g", "user._Rest")
    assert error.value.errno == errno.ENODATA
    (m.path / "g/v/1.0").read_bytes()
    os.getxattr(m.path, "user._Rest")
    lock(hdf5).close()
    assert (m.path / "g/v/1.0").read_bytes() == ROWS[1].tobytes()
    os.getxattr(m.path, "user._Rest")
    replace(hdf5, lambda path: make_hdf5(path, ROWS[::-1]))
    try:  # the kernel may still have the name of the former file
        assert (m.path / "g/v/1.0").read_bytes() == ROWS[2].tobytes()
    except OSError as failure:
        assert failure.errno == errno.ESTALE


def test_a_folder_and_a_mount_over_its_source_stay_usable(tmp_path, mount):
    zarr_array(tmp_path / "folder/a.zarr/v", ROWS)
    m = mount(tmp_path / "folder", "ro,idle=1")
    with subprocess.Popen([CODECFS, "-f", "-o", "ro,nonempty,idle=1", tmp_path / "folder/a.zarr", tmp_path / "folder/a.zarr"],
                          stderr=subprocess.DEVNULL) as over:
        wait_until(lambda: is_mounted(tmp_path / "folder/a.zarr"), 30)
        time.sleep(3)
        assert (tmp_path / "folder/a.zarr/v/1.0").read_bytes() == ROWS[1].tobytes()
        codecfs("unmount", tmp_path / "folder/a.zarr")
        assert over.wait(30) == 0
    assert (m.path / "a.zarr/v/1.0").read_bytes() == ROWS[1].tobytes()
