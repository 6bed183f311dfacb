"""Mounts, which end with the block that uses them or with the process."""
from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
import types
import weakref
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Union

from ._program import CodecfsError, PathLike, as_source, run

if TYPE_CHECKING:
    import zarr

Options = Union[Iterable[str], Mapping[str, Union[str, int, bool]]]


def _words(options: Options) -> list[str]:
    if isinstance(options, str):
        raise TypeError('options must be a list or a dict, for instance ["cache=1G"]: not a string')
    if not isinstance(options, Mapping):
        return list(options)
    return [name if value is True else f"{name}={value}" for name, value in options.items() if value is not False]


def _mounted(path: str) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # "Transport endpoint is not connected": its process died, and left the mount
    return os.path.ismount(path)


def _end(path: str, temporary: bool) -> None:
    """Unmounts, and removes the directory if it was made here. Not if the mount ended otherwise already."""
    if _mounted(path):
        run("unmount", path)
    if temporary:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(path)


def _end_at_exit(path: str, temporary: bool, owner: int) -> None:
    # Not in a process that was forked, which has a copy of the object. Nothing can be raised any more: a mount in use goes on,
    # and `codecfs status` lists it.
    if os.getpid() == owner:
        with contextlib.suppress(CodecfsError, OSError):
            _end(path, temporary)


class Mount:
    """A mounted source. As a context manager it is the path of the mount, and unmounts at the end.

    Without `with`, call close(); a mount that is left is unmounted when this object is collected or Python ends.
    """

    path: pathlib.Path
    source: str

    def __init__(self, source: PathLike, path: pathlib.Path, temporary: bool) -> None:
        self.source = os.fspath(source)
        self.path = path
        self._temporary = temporary
        self._finalizer = weakref.finalize(self, _end_at_exit, os.fspath(path), temporary, os.getpid())

    def close(self) -> None:
        """Stores everything that was written and unmounts. Does nothing the second time.

        Raises CodecfsError if something cannot be stored, or files are open there: then the mount goes on, and close() can be
        called again.
        """
        if self._finalizer.alive:
            _end(os.fspath(self.path), self._temporary)
            self._finalizer.detach()

    def __enter__(self) -> pathlib.Path:
        return self.path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        self.close()

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __repr__(self) -> str:
        return f"<codecfs.Mount of {self.source!r} on {os.fspath(self.path)!r}>"


def mount(source: PathLike, mountpoint: PathLike | None = None, *, writable: bool = False, options: Options = (),
          filters: Iterable[str] = ()) -> Mount:
    """Mounts a source and returns when it can be used.

    source: a file, a directory, or a URL (s3://, https://).
    mountpoint: an empty directory; by default a temporary one, which is removed at the end.
    writable: what is written into the tree is stored in the source, at the latest when it is unmounted.
    options: mount options, as a list (["cache=1G"]) or a dict ({"cache": "1G", "coherent": True}), in which False leaves
        an option out.
    filters: filter rules, as for `codecfs -F`: ["temperature,shuffle|zstd,3"].

    Raises CodecfsError with the reason if it cannot be mounted.
    """
    words: list[PathLike] = []
    for option in [*([] if writable else ["ro"]), *_words(options)]:
        words += ["-o", option]
    for rule in filters:
        words += ["-F", rule]
    temporary = mountpoint is None
    path = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-") if mountpoint is None else mountpoint).absolute()
    try:
        run(*words, as_source(source), path)
    except BaseException:
        if temporary:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise
    return Mount(source, path, temporary)


@contextlib.contextmanager
def open_zarr(source: PathLike, *, writable: bool = False, options: Options = (), filters: Iterable[str] = (),
              **arguments: Any) -> Iterator[zarr.Group]:
    """Mounts a source in a temporary directory and opens it with zarr-python (2 or 3): a context manager of a zarr.Group.

    The group and its arrays must not be used after the block. arguments: others of zarr.open_group.
    """
    import zarr

    with mount(source, writable=writable, options=options, filters=filters) as path:
        yield zarr.open_group(os.fspath(path), mode="r+" if writable else "r", **arguments)
