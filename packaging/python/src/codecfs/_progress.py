"""How far a command is: in a notebook, on a terminal, or for a function of the caller."""
from __future__ import annotations

import contextlib
import html
import shutil
import sys
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Union

from ._needs import need


@dataclass(frozen=True)
class Progress:
    """How far a command is."""

    what: str  # "verifying", "converting era5.nc"
    done: float  # 0 to 1
    amounts: str  # "137 MiB of 202 MiB, 113 MiB/s, 1 s left"; may be empty

    def __str__(self) -> str:
        return f"{self.what}: {round(100 * self.done)} %" + (f", {self.amounts}" if self.amounts else "")


# None: in notebooks and on terminals. True: always, on stderr where there is neither. A function is called several times a second.
ProgressOption = Union[None, bool, Callable[[Progress], None]]


def _notebook() -> bool:
    """Whether a frontend of Jupyter shows what this process displays."""
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_shell is not None and getattr(get_shell(), "kernel", None) is not None


class _InNotebook:
    """One line below the cell that is redrawn. It is shown with the first report, so short work shows nothing."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, progress: Progress) -> None:
        ipython = need("IPython.display", "progress in a notebook")
        page = ipython.HTML(f'<progress value="{progress.done:.2f}" max="1" style="vertical-align: middle"></progress> '
                            f'<span style="font-variant-numeric: tabular-nums">{html.escape(str(progress))}</span>')
        if self._handle is None:
            self._handle = ipython.display(page, display_id=True)
        else:
            self._handle.update(page)

    def end(self) -> None:
        if self._handle is not None:
            self._handle.update(need("IPython.display", "progress in a notebook").HTML(""))


class _OnStderr:
    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown = ""

    def show(self, progress: Progress) -> None:
        line = str(progress)
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns
            sys.stderr.write("\r\x1b[K" + "".join(c if c.isprintable() else "?" for c in line)[:columns - 1])
        elif line != self._shown:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
        self._shown = line

    def end(self) -> None:
        if self._shown and self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextlib.contextmanager
def shown(progress: ProgressOption) -> Iterator[Callable[[Progress], None] | None]:
    """What to call with each report, or None if nothing would show it."""
    if callable(progress):
        yield progress
        return
    display: _InNotebook | _OnStderr
    if progress is not False and _notebook():
        display = _InNotebook()
    elif progress or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
        display = _OnStderr()
    else:
        yield None
        return
    try:
        yield display.show
    finally:
        display.end()
