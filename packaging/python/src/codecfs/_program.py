"""The program in this package: where it is, and running it."""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import re
import selectors
import signal
import struct
import subprocess
import sys
import termios
import tty
from typing import Any, Callable, Iterable, Mapping, NoReturn, Sequence, Union

from ._progress import Progress, ProgressOption, shown

PathLike = Union[str, "os.PathLike[str]"]
Options = Union[Iterable[str], Mapping[str, Union[str, int, bool]]]


class CodecfsError(RuntimeError):
    """codecfs failed. The text is its message, exit_code what it exited with, or 1 where a mount that goes on has refused something."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class CodecfsWarning(UserWarning):
    """codecfs succeeded, and has warned of something."""


def program() -> pathlib.Path:
    """The path of the codecfs program: $CODECFS if that is set, else the one of this package."""
    chosen = os.environ.get("CODECFS")
    return pathlib.Path(chosen) if chosen else pathlib.Path(__file__).parent / "bin" / "codecfs"


class _Terminal:
    """A terminal as the program's stderr: on a terminal it reports its progress several times a second, else every 10 seconds.

    It redraws one line there: "\\r\\x1b[K" clears it, and "verifying: 37 % [#######.............], ..." follows without a line feed.
    """

    CLEAR = b"\r\x1b[K"
    LINE = re.compile(r"(?P<what>.*): (?P<percent>\d+) % \[[#.]*\](, )?(?P<amounts>.*)", re.DOTALL)

    def __init__(self, report: Callable[[Progress], None]) -> None:
        self.ours, self.theirs = os.openpty()
        tty.setraw(self.theirs)
        # Wide enough that the program shortens nothing.
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 1, 8192, 0, 0))
        self._report = report
        self._text = b""
        self._said: list[bytes] = []

    def take(self, text: bytes) -> None:
        self._text += text
        *complete, self._text = self._text.split(self.CLEAR)
        for part in complete:
            self._take_part(part)

    def _take_part(self, part: bytes) -> None:
        if part.endswith(b"\n"):
            # A message may follow a line of progress that was not cleared.
            progress = re.match(rb"[^\n]*: \d+ % \[[#.]*\][^\n]*?(?=codecfs: )", part)
            self._said.append(part[progress.end() if progress else 0:])
            return
        match = self.LINE.fullmatch(os.fsdecode(part))
        if match:
            self._report(Progress(match["what"], int(match["percent"]) / 100, match["amounts"]))

    def said(self) -> str:
        """All but the progress."""
        self._take_part(self._text if self._text.endswith(b"\n") else b"\n")
        self._text = b""
        return os.fsdecode(b"".join(self._said)).strip()

    def close_theirs(self) -> None:
        """Once the program has it: the end of the program is the end of the file then."""
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    def close(self) -> None:
        self.close_theirs()
        os.close(self.ours)


class Finished:
    """What the program has printed, and its exit code, one of those that were expected."""

    def __init__(self, code: int, output: str, messages: str) -> None:
        self.code = code
        self.output = output
        self.messages = messages


def _stop(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C in a shell: the program removes what is half done, or keeps what it can resume."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def execute(words: Sequence[PathLike], expected: Iterable[int] = (0,), progress: ProgressOption = False) -> Finished:
    """Runs codecfs. Raises CodecfsError with what it says on stderr, unless it ends with an expected code."""
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(shown(progress))
        terminal = None
        if report is not None:
            with contextlib.suppress(OSError):  # there is no terminal to be had: no progress
                terminal = _Terminal(report)
                stack.callback(terminal.close)
        command = [os.fspath(program()), *(os.fspath(word) for word in words)]
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=terminal.theirs if terminal else subprocess.PIPE)
        except OSError as error:
            hint = "set the environment variable CODECFS to the path of the program" if isinstance(error, FileNotFoundError) else (
                "the wheel of this package is for another platform, or CODECFS names something else")
            raise CodecfsError(f"cannot run {command[0]}: {error.strerror}; {hint}") from None
        try:
            output, messages = _read(process, terminal)
        except BaseException:
            _stop(process)
            raise
        finally:
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
    if process.returncode not in expected:
        message = messages or output.strip() or "codecfs ended without a message"
        raise CodecfsError(re.sub("^codecfs: ", "", message, flags=re.MULTILINE), process.returncode)
    return Finished(process.returncode, output, messages)


def _read(process: subprocess.Popen[bytes], terminal: _Terminal | None) -> tuple[str, str]:
    if terminal is None:
        output, messages = process.communicate()
        return os.fsdecode(output), os.fsdecode(messages).strip()
    assert process.stdout is not None
    terminal.close_theirs()
    parts: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout.fileno(), selectors.EVENT_READ)
        selector.register(terminal.ours, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                try:
                    text = os.read(key.fd, 1 << 16)
                except OSError:  # EIO: no process has the terminal any more
                    text = b""
                if not text:
                    selector.unregister(key.fd)
                elif key.fd == terminal.ours:
                    terminal.take(text)
                else:
                    parts.append(text)
    process.wait()
    return os.fsdecode(b"".join(parts)), terminal.said()


def run(*words: PathLike) -> str:
    """Runs codecfs and returns what it prints. Raises CodecfsError with what it says on stderr."""
    return execute(words).output


def is_url(source: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", source) is not None


def as_source(source: PathLike) -> str:
    """A source as an argument that is taken neither for an option nor for a command's name."""
    text = os.fspath(source)
    return text if "/" in text and not text.startswith("-") else "./" + text


def option_words(options: Options) -> list[str]:
    """Options as codecfs takes them: "cache=1G"."""
    if isinstance(options, str):
        raise TypeError('options must be a list or a dict, for instance ["cache=1G"]: not a string')
    if not isinstance(options, Mapping):
        return list(options)
    return [name if value is True else f"{name}={value}" for name, value in options.items() if value is not False]


def dataset_options(options: Options, filters: Iterable[str] = ()) -> list[str]:
    """The arguments -O and -F of commands that need no mount."""
    if isinstance(filters, str):
        raise TypeError('filters must be a list of rules, for instance ["*,shuffle|zstd,3"]: not a string')
    return [word for option in option_words(options) for word in ("-O", option)] + [
        word for rule in filters for word in ("-F", rule)]


def info(source: PathLike, variable: str | None = None, *, options: Options = ()) -> dict[str, Any]:
    """What `codecfs info --json` prints: format, variables, types, shapes, chunks, filters and sizes. No chunk is read.

    source: a file, a directory, or a URL (s3://, gs://, az://, https://). variable: only this one. options: as for mount(), those
    that concern sources and filters.
    """
    words = ["info", "--json", *dataset_options(options), as_source(source)]
    document: dict[str, Any] = json.loads(run(*words, *([variable] if variable is not None else [])))
    return document


def version() -> str:
    """The version of the program: "0.1.0"."""
    return run("--version").split()[1]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Becomes the program, with the arguments of this process."""
    path = os.fspath(program())
    try:
        os.execv(path, ["codecfs", *(sys.argv[1:] if arguments is None else arguments)])
    except OSError as error:
        sys.exit(f"codecfs: cannot run {path}: {error.strerror}")
