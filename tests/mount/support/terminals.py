"""What `codecfs info` prints on a terminal."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios


def on_terminal(*words, columns=80, **environment):
    """What arrives at a terminal of so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen([os.environ["CODECFS"], "info", *map(str, words)], stdout=slave, stderr=subprocess.PIPE,
                          env={**clean, **environment}) as process:
        os.close(slave)
        output = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            output += part
        assert process.wait(30) == 0, process.stderr.read()
    os.close(master)
    return output.decode().replace("\r\n", "\n")


def without_colours(text):
    return re.sub("\x1b\\[[0-9;]*m", "", text)
