"""Mounts, which rest at the end of the block that uses them, and end with the process."""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import tempfile
import types
import weakref
from typing import TYPE_CHECKING, Any, Iterable, Iterator

from ._needs import need
from ._program import CodecfsError, Options, PathLike, as_source, option_words, program, run

if TYPE_CHECKING:
    import zarr


class FuseError(CodecfsError):
    """A mount is not possible here: FUSE is missing, or this user may not use it. The text says what to do."""


def _mounted(path: str) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # "Transport endpoint is not connected": its process died, and left the mount
    return os.path.ismount(path)


def is_alive(path: PathLike) -> bool:
    """Whether a mount is there, and its process answers."""
    try:
        os.statvfs(path)
    except OSError:
        return False
    return os.path.ismount(path)


def _end(path: str, temporary: bool) -> None:
    """Unmounts, and removes the directory if it was made here. Not if the mount ended otherwise already."""
    if _mounted(path):
        run("unmount", path)
    if temporary:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(path)


class _Guard:
    """A process that unmounts if this one is killed: it waits for the end of a pipe that only this process has."""

    SCRIPT = """
read -r line && exit
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  "$1" unmount "$2" || [ -e "$2/.codecfs" ] || break
  [ -e "$2/.codecfs" ] || break
  sleep 1
done
[ -z "$3" ] || rmdir "$2"
"""

    def __init__(self, path: str, temporary: bool) -> None:
        ours, self._pipe = os.pipe()
        try:
            # In a session of its own: a signal to the group of this process, as Ctrl-C, does not end it.
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", self.SCRIPT, "codecfs-guard", os.fspath(program()), path, "temporary" if temporary else ""],
                stdin=ours, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", start_new_session=True)
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(ours)
        _guards.add(self)

    def dismiss(self) -> None:
        """The mount has ended."""
        if self._pipe >= 0:
            with contextlib.suppress(OSError):
                os.write(self._pipe, b"\n")
            self.forget()
            self._process.wait()

    def forget(self) -> None:
        """Also in a process that was forked: its copy of the pipe would keep the guard waiting."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


_guards: weakref.WeakSet[_Guard] = weakref.WeakSet()


def _forget_guards() -> None:
    for guard in list(_guards):
        guard.forget()
        guard._process.returncode = 0  # it is no child of this process
    _guards.clear()


os.register_at_fork(after_in_child=_forget_guards)


def _end_at_exit(path: str, temporary: bool, owner: int, guard: _Guard | None) -> None:
    # Not in a process that was forked, which has a copy of the object. Nothing can be raised any more: a mount in use goes on,
    # its guard tries again when this process has ended, and `codecfs status` lists it.
    if os.getpid() == owner:
        with contextlib.suppress(CodecfsError, OSError):
            _end(path, temporary)
            if guard is not None:
                guard.dismiss()


def _rest(path: str) -> None:
    """Stores everything and has the source closed; what reads the mount later opens it again."""
    control = os.open(os.path.join(path, ".codecfs"), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(control)
    except OSError as error:
        reason = str(error)
        with contextlib.suppress(OSError):
            reason = os.fsdecode(os.getxattr(control, "user._Error"))
        raise CodecfsError(f"not everything can be stored: {reason}") from None
    finally:
        os.close(control)
    try:
        os.getxattr(path, "user._Rest")
    except OSError as error:
        raise CodecfsError(f"{path} is in use: close its files, or stop reading it, before the end of the block ({error})") from None


# The mounts whose block has ended. A program may still have a store or array of one: an empty directory in its place would be
# a store whose chunks are all fill value.
_resting: set[Mount] = set()


class Mount:
    """A mounted source. As a context manager it is the path of the mount.

    At the end of the block everything is stored and the source is closed, so that other programs can write it. The mount stays:
    what is read from it later opens the source again, and fails (ESTALE) for what was open if the source was changed meanwhile.
    close() unmounts; so does the end of Python, even if it is killed, and for a mount without `with` the end of this object.
    """

    path: pathlib.Path
    source: str

    def __init__(self, source: PathLike, path: pathlib.Path, temporary: bool) -> None:
        self.source = os.fspath(source)
        self.path = path
        self._temporary = temporary
        self._guard: _Guard | None = None
        with contextlib.suppress(OSError):  # no process can be started: then only the end of Python without a signal unmounts
            self._guard = _Guard(os.fspath(path), temporary)
        self._finalizer = weakref.finalize(self, _end_at_exit, os.fspath(path), temporary, os.getpid(), self._guard)

    def close(self) -> None:
        """Stores everything that was written and unmounts. Does nothing the second time.

        Raises CodecfsError if something cannot be stored, or files are open there: then the mount goes on, and close() can be
        called again.
        """
        if self._finalizer.alive:
            _end(os.fspath(self.path), self._temporary)
            self._finalizer.detach()
            if self._guard is not None:
                self._guard.dismiss()
        _resting.discard(self)

    def __enter__(self) -> pathlib.Path:
        return self.path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        if not self._finalizer.alive:
            return
        if not is_alive(os.fspath(self.path)):
            self.close()  # its process has died, or it was unmounted
            return
        _resting.add(self)
        _rest(os.fspath(self.path))

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __repr__(self) -> str:
        return f"<codecfs.Mount of {self.source!r} on {os.fspath(self.path)!r}>"


_WITHOUT_FUSE = """
What needs no mount works without FUSE: codecfs.info, convert, verify, compare and set_filter of a file, and the command codecfs. \
codecfs.convert(source, "new.zarr") makes a Zarr store that zarr and xarray read."""


def _name_for(source: PathLike) -> str:
    """The beginning of the name of a mount point, by which `mount` and `codecfs status` tell mounts apart: "codecfs-era5.nc-"."""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "_", os.path.basename(os.fspath(source).split("?")[0].rstrip("/")))[-40:]
    return f"codecfs-{name}-" if name else "codecfs-"


def mount(source: PathLike, mountpoint: PathLike | None = None, *, writable: bool = False, options: Options = (),
          filters: Iterable[str] = ()) -> Mount:
    """Mounts a source and returns when it can be used.

    source: a file, a directory, or a URL (s3://, gs://, az://, https://).
    mountpoint: an empty directory; by default a temporary one, which is removed at the end.
    writable: what is written into the tree is stored in the source, at the latest at the end of the block.
    options: mount options, as a list (["cache=1G"]) or a dict ({"cache": "1G", "coherent": True}), in which False leaves
        an option out.
    filters: filter rules, as for `codecfs -F`: ["temperature,shuffle|zstd,3"].

    Raises CodecfsError with the reason if it cannot be mounted: FuseError if nothing can be mounted here.
    """
    words: list[PathLike] = []
    # The source is closed at the end of a `with`, or when it was not used for so long.
    given = option_words(options)
    idle = [] if any(option.startswith("idle=") for option in given) else ["idle=5"]
    for option in [*([] if writable else ["ro"]), *idle, *given]:
        words += ["-o", option]
    for rule in filters:
        words += ["-F", rule]
    temporary = mountpoint is None
    path = pathlib.Path(tempfile.mkdtemp(prefix=_name_for(source)) if mountpoint is None else mountpoint).absolute()
    try:
        run(*words, as_source(source), path)
    except BaseException as error:
        if temporary:
            with contextlib.suppress(OSError):
                path.rmdir()
        if isinstance(error, CodecfsError) and re.search("^cannot mount on ", str(error), re.MULTILINE):
            raise FuseError(f"{error}{_WITHOUT_FUSE}", error.exit_code) from None
        raise
    return Mount(source, path, temporary)


@contextlib.contextmanager
def open_zarr(source: PathLike, *, writable: bool = False, options: Options = (), filters: Iterable[str] = (),
              **arguments: Any) -> Iterator[zarr.Group]:
    """Mounts a source in a temporary directory and opens it with zarr-python (2 or 3): a context manager of a zarr.Group.

    The source is closed at the end of the block; using the group later opens it again. arguments: others of zarr.open_group.
    """
    zarr = need("zarr", "codecfs.open_zarr")
    with mount(source, writable=writable, options=options, filters=filters) as path:
        yield zarr.open_group(os.fspath(path), mode="r+" if writable else "r", **arguments)
