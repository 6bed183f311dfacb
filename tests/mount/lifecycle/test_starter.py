"""A mount in the background: the process that starts it waits for the daemon, and ends with it as long as there is no mount."""
import os
import signal
import socket
import subprocess
import sys

import pytest
from conftest import CODECFS, any_source, is_mounted
from mounts import children_of_process, is_gone, processes_of, wait_until
from running import codecfs, run


@pytest.fixture
def hanging():
    """The URL of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/a.h5"


def start(*words, **more):
    return subprocess.Popen([CODECFS, *map(str, words)], start_new_session=True, stderr=subprocess.PIPE, text=True, **more)


def daemon_of(starter):
    """When it waits for the server."""
    def is_waiting():
        children = children_of_process(starter.pid)
        return children and any(os.readlink(f"/proc/{children[0]}/fd/{fd}").startswith("socket:")
                                for fd in os.listdir(f"/proc/{children[0]}/fd") if os.path.lexists(f"/proc/{children[0]}/fd/{fd}"))
    wait_until(is_waiting, 30)
    return children_of_process(starter.pid)[0]


@pytest.mark.parametrize("number, whole_group", [(signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGKILL, False)])
def test_a_mount_that_hangs_ends_with_its_starter(place, hanging, number, whole_group):
    place.mkdir()
    with start("-o", "ro", hanging, place) as starter:
        daemon_of(starter)
        (os.killpg if whole_group else os.kill)(starter.pid, number)
        assert starter.wait(30) == -number
        wait_until(lambda: not any(not is_gone(pid) for pid in processes_of(starter.pid)), 30)
    assert not is_mounted(place)


def test_a_daemon_that_was_killed_is_told(place, hanging):
    place.mkdir()
    with start("-o", "ro", hanging, place) as starter:
        os.kill(daemon_of(starter), signal.SIGKILL)
        assert starter.wait(30) == 32
        assert "ended before the mount was ready (Killed)" in starter.stderr.read()


def test_a_failure_is_told_once(tmp_path, place):
    place.mkdir()
    (tmp_path / "a.h5").write_bytes(b"no HDF5")
    for words, code in ((["a.h5", "mnt"], 32), (["-F", "*,nosuch", any_source(), "mnt"], 1), (["b.h5", "mnt"], 32)):
        done = codecfs(*words, cwd=tmp_path, code=code)
        assert done.stderr.count("\n") == 1 and not done.stdout, done.stderr


def test_relative_names(tmp_path, place):
    """The daemon leaves the working directory; what it needs later has been resolved before. So has its watchdog's log."""
    place.mkdir()
    (tmp_path / "plugins").mkdir()
    source = tmp_path / "a.h5"
    source.write_bytes(any_source().read_bytes())
    name = f"relative-{os.getpid()}.log"
    codecfs("-o", f"log={name},plugin_path=plugins", "a.h5", "mnt", cwd=tmp_path)
    assert is_mounted(place)
    [daemon] = daemons(tmp_path / name)
    assert os.readlink(f"/proc/{daemon}/cwd") == "/"
    assert f"{tmp_path}/plugins" in (place / ".codecfs/filters").read_text() or not os.listdir(tmp_path / "plugins")
    watchdogs = children_of_process(daemon)
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: all(map(is_gone, watchdogs)), 30)
    assert not os.path.lexists(f"/{name}")
    codecfs("unmount", place)


def daemons(log):
    """A process that a daemon has forked has its name and its log, too, until it calls exec."""
    those = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and has_log(pid, log)]
    forked = [child for pid in those for child in children_of_process(pid)]
    return [pid for pid in those if pid not in forked]


def has_log(pid, log):
    try:
        with open(f"/proc/{pid}/comm") as name:
            return name.read() == "codecfs\n" and any(os.readlink(f"/proc/{pid}/fd/{fd}") == str(log)
                                                      for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def test_the_terminal_of_a_program_for_credentials(tmp_path, place):
    """It can ask its user."""
    place.mkdir()
    ask = tmp_path / "ask"
    ask.write_text("#!/bin/sh\necho the code: > /dev/tty || exit 1\n"
                   'echo \'{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b"}\'\n')
    ask.chmod(0o755)
    (tmp_path / "config").write_text(f"[default]\nregion = us-east-1\ncredential_process = {ask}\n")
    words = [CODECFS, "-o", "ro,endpoint=http://127.0.0.1:1", "s3://bucket/key", str(place)]
    program = f"import pty, sys; sys.exit(pty.spawn({words!r}) != 0)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = run(sys.executable, "-c", program, stdin=subprocess.DEVNULL,
               environment={**environment, "AWS_CONFIG_FILE": str(tmp_path / "config"), "HOME": str(tmp_path)}, code=None)
    assert "the code:" in done.stdout, done.stdout + done.stderr
