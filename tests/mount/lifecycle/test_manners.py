"""What users of FUSE filesystems expect: logs, mount points that come and go, sd_notify, progress."""
import errno
import fcntl
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import h5py
import numpy as np
import pytest
from conftest import CODECFS, any_source, is_mounted, unmount, wait_until, xattr
from running import codecfs, run
from test_progress import on_a_terminal


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", shape=(4, 1000), dtype="u1", chunks=(1, 1000), compression="gzip")
    return path


# --- log

def test_the_log_goes_to_a_file(tmp_path, place):
    place.mkdir()
    result = codecfs("-o", "ro,log=here.log", any_source(), "mnt", cwd=tmp_path)
    assert result.stderr == ""
    unmount(place)
    lines = (tmp_path / "here.log").read_text().splitlines()
    assert any(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d info: .* mounted on .*/mnt", line) for line in lines)
    # The next mount appends; what it says is in .codecfs/log too.
    codecfs("-o", f"ro,log={tmp_path}/here.log", any_source(), place)
    assert (place / ".codecfs/log").read_text().splitlines()[-1] == (tmp_path / "here.log").read_text().splitlines()[-1]
    assert (tmp_path / "here.log").read_text().count("mounted on") == 2


def test_a_log_that_cannot_be_written_is_told(tmp_path, place):
    place.mkdir()
    result = codecfs("-o", "log=/nonexistent/x.log", any_source(), place, code=32)
    assert "log file /nonexistent/x.log" in result.stderr and result.stderr.count("\n") == 1
    assert not is_mounted(place)


@pytest.mark.parametrize("level, info, debug", [("error", False, False), ("info", True, False), ("debug", True, True)])
def test_the_level_of_the_log(tmp_path, place, level, info, debug):
    place.mkdir()
    log = tmp_path / "log"
    options = f"ro,log={log},loglevel={level}" + (",debug" if debug else "")
    with subprocess.Popen([CODECFS, "-f", "-o", options, str(any_source()), str(place)]) as process:
        wait_until(lambda: is_mounted(place))
        (place / ".zattrs").read_text()
        unmount(place)
        assert process.wait(20) == 0
    text = log.read_text()
    assert ("mounted on" in text) == info
    assert ("LOOKUP" in text) == debug, text[-500:]


# --- mkdir

def test_a_mount_point_comes_and_goes(tmp_path):
    mountpoint = tmp_path / "new/deeper/mnt"
    codecfs("-o", "ro,mkdir", any_source(), "new/deeper/mnt", cwd=tmp_path)
    assert is_mounted(mountpoint) and (mountpoint / ".zgroup").exists()
    run("fusermount3", "-u", mountpoint)
    wait_until(lambda: not (tmp_path / "new").exists())


def test_what_was_there_stays(tmp_path):
    (tmp_path / "old").mkdir()
    codecfs("-o", "ro,mkdir", any_source(), tmp_path / "old/a/mnt")
    (tmp_path / "old/a/other").touch()
    unmount(tmp_path / "old/a/mnt")
    wait_until(lambda: not (tmp_path / "old/a/mnt").exists())
    assert (tmp_path / "old/a/other").exists()
    (tmp_path / "old/b").mkdir()
    with subprocess.Popen([CODECFS, "-f", "-o", "ro,mkdir", str(any_source()), str(tmp_path / "old/b")],
                          stderr=subprocess.PIPE) as process:
        wait_until(lambda: is_mounted(tmp_path / "old/b"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert (tmp_path / "old/b").is_dir()


def test_a_signal_unmounts_as_soon_as_there_is_a_mount(place):
    place.mkdir()
    for i in range(10):
        with subprocess.Popen([CODECFS, "-f", "-o", "ro", str(any_source()), str(place)],
                              stderr=subprocess.DEVNULL) as process:
            while not is_mounted(place):
                assert process.poll() is None
            process.send_signal([signal.SIGTERM, signal.SIGINT, signal.SIGHUP][i % 3])
            assert process.wait(20) == 0
        assert not is_mounted(place)


@pytest.mark.parametrize("source, mountpoint, says", [
    ("/nonexistent.nc", "{}/x/y", "/nonexistent.nc"), ("{source}", "{}/file/y", "not a directory"),
    ("{source}", "/proc/nothing", "-o mkdir: /proc/nothing")])
def test_a_failure_leaves_no_directory(tmp_path, source, mountpoint, says):
    (tmp_path / "file").touch()
    result = codecfs("-o", "mkdir", source.format(source=any_source()), mountpoint.format(tmp_path), code=32)
    assert says in result.stderr.lower() and result.stderr.count("\n") == 1, result.stderr
    assert os.listdir(tmp_path) == ["file"]


# --- sd_notify

@pytest.mark.parametrize("abstract", [False, True])
@pytest.mark.parametrize("foreground", [False, True])
def test_the_service_manager_is_told(tmp_path, place, abstract, foreground):
    place.mkdir()
    name = f"\0codecfs-test-{os.getpid()}-{foreground}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.settimeout(20)
        environment = {**os.environ, "NOTIFY_SOCKET": name.replace("\0", "@")}
        words = [CODECFS, *(["-f"] if foreground else []), "-o", "ro", str(any_source()), str(place)]
        process = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
        ready = dict(line.split("=", 1) for line in manager.recv(4096).decode().split("\n"))
        assert ready["READY"] == "1" and str(place) in ready["STATUS"]
        assert is_mounted(place)
        assert pathlib.Path(f"/proc/{ready['MAINPID']}/cmdline").read_bytes().split(b"\0")[-2] == str(place).encode()
        assert not foreground or int(ready["MAINPID"]) == process.pid
        unmount(place)
        assert "STOPPING=1" in manager.recv(4096).decode().split("\n")
        assert process.wait(20) == 0


def test_a_service_manager_that_is_gone_does_not_matter(tmp_path, place):
    place.mkdir()
    for name in ("relative", "/nonexistent/socket", "@" + "x" * 200):
        environment = {**os.environ, "NOTIFY_SOCKET": name}
        codecfs("-o", "ro", any_source(), place, env=environment)
        assert "warning" in (place / ".codecfs/log").read_text()
        unmount(place)


# --- progress, exit codes, missing filters

def test_compacting_tells_how_far_it_is_on_a_terminal(tmp_path):
    path = tmp_path / "big.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("gone", data=np.zeros(1 << 16))
        f.create_dataset("v", data=np.full((200_000, 16), 7, "u1"), chunks=(1, 16))
        del f["gone"]
    shutil.copy(path, tmp_path / "quiet.h5")
    text, code = on_a_terminal(CODECFS, "--compact", str(path))
    assert code == 0
    shown = re.findall(r"\r\x1b\[Kcompacting \S+big\.h5: (\d+) %", text)
    assert shown and [int(x) for x in shown] == sorted(int(x) for x in shown) and int(shown[-1]) <= 100, text
    assert text.endswith("\r\x1b[K")
    result = codecfs("--compact", tmp_path / "quiet.h5")
    # No terminal, no progress bar; after 10 s a slow machine logs a line.
    assert "\r" not in result.stderr, result.stderr


def test_what_could_not_be_stored_is_in_the_exit_code(place, written):
    place.mkdir()
    with subprocess.Popen([CODECFS, "-f", str(written), str(place)], stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: is_mounted(place))
        (place / "v/notes.txt~").write_text("nowhere else")
        unmount(place)
        assert process.wait(20) == 32
        assert "notes.txt~" in process.stderr.read()


def test_a_missing_filter_says_what_to_install(tmp_path, mount):
    path = tmp_path / "sz3.h5"
    with h5py.File(path, "w") as f:
        for number in (32024, 307, 40000):
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk((4,))
            properties.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (1,))
            dataset = h5py.h5d.create(f.id, f"v{number}".encode(), h5py.h5t.STD_I32LE,
                                      h5py.h5s.create_simple((4,)), properties)
            dataset.write_direct_chunk((0,), b"1234567890", 0)
    m = mount(path, "builtin=off", env={"HDF5_PLUGIN_PATH": ""})
    for number, advice in ((32024, "it is SZ3: `pip install hdf5plugin`"),
                           (307, "it is bzip2: Debian package codecfs-plugins or hdf5-filter-plugin"),
                           (40000, "ask the author of the file")):
        with pytest.raises(OSError):
            (m.path / f"v{number}/0").read_bytes()
        reason = xattr(m.path / f"v{number}/0", "_Error")
        assert advice in reason and str(number) in reason and "\n" not in reason, reason
        assert advice in m.messages()


# --- what is left to the kernel

def test_locks_holes_and_ranges(mount, written):
    m = mount(written)
    path = m.path / "v/1.0"
    path.write_bytes(b"\5" * 1000)
    with open(path, "r+b") as one, open(path, "r+b") as two:
        fcntl.flock(one, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(OSError) as error:
            os.posix_fallocate(one.fileno(), 0, 2000)
        assert error.value.errno in (errno.EOPNOTSUPP, errno.EFBIG)
        assert os.fstat(one.fileno()).st_size == 1000
        assert os.lseek(one.fileno(), 0, os.SEEK_HOLE) == 1000 and os.lseek(one.fileno(), 0, os.SEEK_DATA) == 0
        fcntl.lockf(one, fcntl.LOCK_EX)
    with open(path, "rb") as source, open(m.path / "v/2.0", "wb") as target:
        assert os.copy_file_range(source.fileno(), target.fileno(), 1000) == 1000
    assert (m.path / "v/2.0").read_bytes() == b"\5" * 1000
    assert os.statvfs(m.path).f_flag & os.ST_NOSUID and os.statvfs(m.path).f_flag & os.ST_NODEV
