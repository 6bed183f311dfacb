"""The process that completes what was committed when a daemon is killed: finding it, waiting for its end, and killing both
at once, as a power cut does."""
import os
import pathlib
import signal
import time


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.001)


def is_gone(pid):
    """A zombie is gone too: not every container has a process that reaps what is nobody's child."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def survivors_of_process(pid):
    """The child that completes what was committed when the daemon with this number dies."""
    children = [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
                for child in (task / "children").read_text().split()]
    return [child for child in children if not is_gone(child)
            and pathlib.Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"codecfs-watchdog\0")]


def kill_with_survivors(pid):
    """SIGKILL to a daemon and its survivor at once, as a power cut ends them: the log stays."""
    os.kill(pid, signal.SIGSTOP)  # or it would start another survivor
    for survivor in survivors_of_process(pid):
        os.kill(survivor, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
