"""The program in this package: where it is, and running it."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any, NoReturn, Sequence, Union

PathLike = Union[str, "os.PathLike[str]"]


class CodecfsError(RuntimeError):
    """codecfs failed. The text is its message, exit_code what it exited with, or 1 where a mount that goes on has refused something."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def program() -> pathlib.Path:
    """The path of the codecfs program: $CODECFS if that is set, else the one of this package."""
    chosen = os.environ.get("CODECFS")
    return pathlib.Path(chosen) if chosen else pathlib.Path(__file__).parent / "bin" / "codecfs"


def run(*words: PathLike) -> str:
    """Runs codecfs and returns what it prints. Raises CodecfsError with what it says on stderr."""
    result = subprocess.run([os.fspath(program()), *(os.fspath(word) for word in words)], stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, errors="surrogateescape")
    if result.returncode != 0:
        message = result.stderr.strip() or result.stdout.strip() or "codecfs ended without a message"
        raise CodecfsError(message[len("codecfs: "):] if message.startswith("codecfs: ") else message, result.returncode)
    return result.stdout


def as_source(source: PathLike) -> str:
    """A source as an argument that is taken neither for an option nor for a command's name."""
    text = os.fspath(source)
    return text if "/" in text and not text.startswith("-") else "./" + text


def info(source: PathLike, variable: str | None = None) -> dict[str, Any]:
    """What `codecfs info --json` prints: format, variables, types, shapes, chunks, filters and sizes. No chunk is read.

    source: a file, a directory, or a URL (s3://, gs://, az://, https://). variable: only this one.
    """
    document: dict[str, Any] = json.loads(run("info", "--json", as_source(source), *([variable] if variable is not None else [])))
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
