"""Sources that are mounted when they are read: what xarray's lazy arrays and codecfs.open() have.

A SharedMount can be pickled, and is mounted again by the process that reads it. While a thread reads, the mount stays; else it may
be unmounted at any time, because another source needs its place or the caller closes it, and the next read mounts it again. So no
reader ever sees the empty directory of a mount that has ended, where missing files would be taken for chunks of fill values.
"""
from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import threading
import time
import uuid
import weakref
from typing import Any, Iterator

from ._mount import Mount, is_alive, mount
from ._program import CodecfsError, PathLike, is_url

# Each mount has processes: more sources than these are unmounted when they were not used for longest.
MOST_MOUNTS = 32

_lock = threading.Lock()
_by_token: weakref.WeakValueDictionary[str, SharedMount] = weakref.WeakValueDictionary()
# Workers of Dask unpickle an array for each task: the latest sources stay mounted between these.
_unpickled: collections.deque[SharedMount] = collections.deque(maxlen=8)


class SharedMount:
    """A read-only source: mounted by the first use(), unmounted by close(), with the end of this object, or of Python."""

    def __init__(self, source: PathLike, options: tuple[str, ...] = (), token: str | None = None) -> None:
        text = os.fspath(source)
        self.source = text if is_url(text) else os.path.abspath(os.path.expanduser(text))
        self.options = options
        self._token = token or uuid.uuid4().hex
        self.cache: dict[Any, Any] = {}  # what was read of this mount; emptied with its end
        self._changed = threading.Condition()
        self._mount: Mount | None = None
        self._users = 0
        self._openers = 0
        self._used = 0.0
        with _lock:
            _by_token[self._token] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.source, self.options, self._token)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        state: Any = None
        with contextlib.suppress(OSError):
            found = os.stat(self.source)
            state = (found.st_ino, found.st_size, found.st_mtime_ns)
        return "codecfs", self.source, self.options, state

    def __repr__(self) -> str:
        return f"<codecfs.SharedMount of {self.source!r}>"

    @contextlib.contextmanager
    def use(self) -> Iterator[pathlib.Path]:
        """The path of the mount, which stays until the end of the block. Raises CodecfsError if it cannot be mounted, or if the mount
        has died meanwhile."""
        path = self._begin()
        try:
            yield path
            if not is_alive(path):
                raise CodecfsError(f"the mount of {self.source} has ended while it was read")
        finally:
            with self._changed:
                self._users = max(0, self._users - 1)  # 0 already in a process that was forked in this block
                self._used = time.monotonic()
                self._changed.notify_all()

    def _begin(self) -> pathlib.Path:
        with self._changed:
            if self._mount is not None and not is_alive(self._mount.path) and self._users == 0:
                with contextlib.suppress(CodecfsError, OSError):
                    self._end()
            if self._mount is None:
                _make_place(self)
                self._mount = mount(self.source, options=self.options)
            self._users += 1
            return self._mount.path

    def _end(self) -> None:
        """With self._changed, and without users."""
        ended, self._mount = self._mount, None
        self.cache.clear()
        if ended is not None:
            try:
                ended.close()
            except BaseException:
                self._mount = ended
                raise

    def open(self) -> None:
        """Announces a close()."""
        with self._changed:
            self._openers += 1

    def close(self) -> None:
        """Calls end() with the last of the calls that open() has announced."""
        with self._changed:
            self._openers = max(0, self._openers - 1)
            if self._openers > 0:
                return
        self.end()

    def end(self) -> None:
        """Unmounts when all threads have ended reading. A later use() mounts again."""
        with self._changed:
            self._changed.wait_for(lambda: self._users == 0)
            self._end()

    def end_if_unused(self) -> bool:
        if not self._changed.acquire(blocking=False):
            return False
        try:
            if self._mount is None or self._users > 0:
                return False
            with contextlib.suppress(CodecfsError, OSError):
                self._end()
            return self._mount is None
        finally:
            self._changed.release()

    @property
    def is_mounted(self) -> bool:
        return self._mount is not None

    @property
    def last_use(self) -> float:
        return self._used

    def forget(self) -> None:
        """In a process that was forked: the mount is that of the parent, and ends when it likes."""
        self._changed = threading.Condition()
        self._mount = None
        self._users = 0
        self.cache = {}


def _make_place(coming: SharedMount) -> None:
    with _lock:
        mounted = [shared for shared in _by_token.values() if shared is not coming and shared.is_mounted]
    excess = len(mounted) + 1 - MOST_MOUNTS
    for shared in sorted(mounted, key=lambda shared: shared.last_use):
        if excess <= 0:
            break
        excess -= shared.end_if_unused()


def _unpickle(source: str, options: tuple[str, ...], token: str) -> SharedMount:
    with _lock:
        found = _by_token.get(token)
    if found is None:
        found = SharedMount(source, options, token)
    if found not in _unpickled:
        _unpickled.append(found)
    return found


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    for shared in list(_by_token.values()):
        shared.forget()


os.register_at_fork(after_in_child=_after_fork)
