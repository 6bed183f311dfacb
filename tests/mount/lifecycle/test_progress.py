"""How far long work is: user._Progress of the mount's root tells it of all that goes on, umount(8)'s helper on a terminal."""
import errno
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import time
import zipfile

import h5py
import numpy as np
from conftest import CODECFS, detach, is_mounted, xattr
from running import codecfs

CHUNK = 1 << 20
NOISE = os.urandom(CHUNK)


def on_a_terminal(*words):
    """What a command writes to stderr where that is a terminal, and its exit code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    text = b""
    try:
        while part := os.read(master, 4096):
            text += part
    except OSError:  # EIO: the other end is closed
        pass
    os.close(master)
    return text.decode(), process.wait(60)


def seen_during(path, work):
    """What user._Progress of `path` is while `work` goes on in another thread."""
    failed = []

    def guarded():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    seen = []
    while thread.is_alive():
        try:
            seen.append(xattr(path, "_Progress"))
        except OSError as error:
            assert error.errno == errno.ENODATA
        time.sleep(0.001)
    thread.join()
    assert not failed, failed
    return seen


def check(seen, what):
    """`what` is told, with numbers that rise."""
    lines = [re.fullmatch(rf"{re.escape(what)}: (begun|(\d+) %)", text) for text in seen]
    assert lines and all(lines), (what, seen)
    numbers = [int(line[2] or 0) for line in lines]
    assert numbers == sorted(numbers) and numbers[-1] <= 100 and len(set(numbers)) > 1, numbers


def sync(path):
    directory = os.open(path, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def make_archive(path, count):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(".zgroup", '{"zarr_format": 2}')
        file.writestr("v/.zarray", json.dumps(dict(zarr_format=2, shape=[count * CHUNK], chunks=[CHUNK], dtype="|u1",
                                                   fill_value=0, order="C", compressor=None, filters=None)))
        for i in range(count):
            file.writestr(f"v/{i}", NOISE)
    return path


def test_a_commit_of_an_archive(mount, tmp_path):
    archive = make_archive(tmp_path / "a.zip", 100)
    m = mount(archive, "commit=3600")
    assert "user._Progress" not in os.listxattr(m.path)
    (m.path / "v/3").write_bytes(bytes(CHUNK))
    check(seen_during(m.path, lambda: sync(m.path)), f"rewriting the archive {archive}")
    assert "user._Progress" not in os.listxattr(m.path)
    with zipfile.ZipFile(archive) as file:
        assert file.read("v/3") == bytes(CHUNK) and file.read("v/4") == NOISE


def test_a_log_that_is_brought_into_its_file(mount, tmp_path):
    path, count = tmp_path / "a.h5", 60
    with h5py.File(path, "w") as file:  # larger than the log: a longer log is brought in at once
        file.create_dataset("v", data=np.zeros((count + 20, CHUNK), "u1"), chunks=(1, CHUNK))
    m = mount(path, "commit=3600")
    for i in range(count):
        (m.path / f"v/{i}.0").write_bytes(NOISE)
    sync(m.path)
    m.kill()
    m = mount(path)
    check(seen_during(m.path, lambda: os.setxattr(m.path / "v", "user.units", b"K")), f"bringing the log into {path}")
    m.close()
    with h5py.File(path) as file:
        assert file["v"].attrs["units"] == "K" and file["v"][count - 1].tobytes() == NOISE


def test_progress_of_a_reencoding(mount, tmp_path):
    m = mount(make_archive(tmp_path / "a.zip", 20))
    seen = seen_during(m.path, lambda: os.setxattr(m.path / "v", "user._Filter", b"1,6"))
    assert any(text.startswith("re-encoding /v: ") for text in seen), seen


def unmount_on_a_terminal(archive, point):
    helper = point.with_name("umount.fuse.codecfs")
    if not helper.exists():
        helper.symlink_to(CODECFS)
    codecfs("-o", "commit=3600", archive, point)
    try:
        (point / "v/3").write_bytes(bytes(CHUNK))
        text, code = on_a_terminal(helper, point)
        assert code == 0 and not is_mounted(point), text
    finally:
        detach(point)
    with zipfile.ZipFile(archive) as file:
        assert file.read("v/3") == bytes(CHUNK)
    return text


def test_unmounting_on_a_terminal(tmp_path):
    """umount.fuse.codecfs shows a line while it waits, and takes it away; a short wait (a fast disk) shows none."""
    point = tmp_path / "mnt"
    point.mkdir()
    for count in (100, 400, 1600):
        archive = make_archive(tmp_path / f"{count}.zip", count)
        if text := unmount_on_a_terminal(archive, point):
            break
        archive.unlink()
    line = rf"\r\x1b\[Krewriting the archive {re.escape(str(archive))}: (begun|\d+ %)"
    assert re.fullmatch(rf"{line}({line}|\r\x1b\[K)*\r\x1b\[K", text), text
