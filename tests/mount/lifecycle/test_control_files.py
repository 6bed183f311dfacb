"""Files of .codecfs as ordinary tools read them: by their size, again and again, and following them."""
import os
import shutil
import stat
import subprocess
import time

import h5py
import numpy as np
import pytest

from conftest import wait_until
from running import run


@pytest.fixture
def m(mount, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.arange(100), chunks=(10,))
    return mount(tmp_path / "a.h5")


def log_a_line(m, text):
    try:
        (m.path / text).write_text("x")
    except OSError:
        pass


@pytest.mark.parametrize("name", ["stats", "log", "filters"])
def test_sizes_and_modes(m, tmp_path, name):
    path = m.path / ".codecfs" / name
    status = os.stat(path)
    assert stat.S_IMODE(status.st_mode) == 0o444
    assert abs(status.st_size - len(path.read_bytes())) < 20 and status.st_size > 100
    for tool in (["cp", "-p"], ["rsync", "-a"]):
        target = tmp_path / f"copy-{tool[0]}"
        run(*tool, path, target)
        copied = target.read_text().split("\n")
        assert len(copied) == len(path.read_text().split("\n")) and copied[0].split()[0] == path.read_text().split()[0]
    with pytest.raises(OSError):
        path.write_text("x")


def test_the_size_follows(m):
    path = m.path / ".codecfs/log"
    before = os.stat(path).st_size
    log_a_line(m, "nothing.like.a.chunk")
    assert os.stat(path).st_size > before
    with open(path, "rb") as file:
        held = file.read()
        assert len(held) == os.fstat(file.fileno()).st_size


def test_an_open_file_is_from_one_moment(m):
    with open(m.path / ".codecfs/stats", "rb", buffering=0) as file:
        begin = os.pread(file.fileno(), 100, 0)
        size = os.fstat(file.fileno()).st_size
        for i in range(10):
            (m.path / f"v/{i}").read_bytes()
        text = os.pread(file.fileno(), size + 1000, 0)
        assert text.startswith(begin)
        assert b"chunks_decoded 0\n" in text
    assert "chunks_decoded 0\n" not in (m.path / ".codecfs/stats").read_text()


def test_tail_follows_the_log(m, tmp_path):
    with open(tmp_path / "tail", "w") as out:
        tail = subprocess.Popen(["tail", "-n", "1", "-s", "0.1", "-f", m.path / ".codecfs/log"], stdout=out, stderr=out)
    try:
        shown = (tmp_path / "tail").read_text
        wait_until(lambda: shown() != "")
        for i in range(3):
            log_a_line(m, f"not.a.chunk.{i}")
            wait_until(lambda: f"/not.a.chunk.{i}: " in shown(), 20)  # noqa: B023
        time.sleep(0.3)
        assert shown().count("not.a.chunk.1:") == 1 and "truncated" not in shown()
    finally:
        tail.kill()
        tail.wait(60)


def test_a_reader_of_a_log_that_drops_messages(m):
    path = m.path / ".codecfs/log"
    with open(path, "rb", buffering=0) as file:
        first = os.pread(file.fileno(), 1 << 20, 0)
        for i in range(1200):
            log_a_line(m, f"no.chunk.{i}")
        rest = b""
        while part := os.pread(file.fileno(), 1 << 20, len(first) + len(rest)):
            rest += part
        assert os.pread(file.fileno(), 1 << 20, 0).count(b"\n") <= 1000
    text = path.read_bytes()
    assert text.endswith(rest[-1000:]) and b"no.chunk.1199:" in text and b"no.chunk.0:" not in text
    assert 500 <= text.count(b"\n") <= 1000


def test_copying_the_directory(m, tmp_path):
    shutil.copytree(m.path / ".codecfs", tmp_path / "copied", ignore=shutil.ignore_patterns("view"))
    assert all(file.stat().st_size > 0 for file in (tmp_path / "copied").iterdir())
