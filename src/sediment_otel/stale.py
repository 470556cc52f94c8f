# SPDX-License-Identifier: Apache-2.0
"""What a killed run left behind, told from what a running one still writes: by a lock that dies with its process.

`hold(descriptor)` locks a file that was just made, for as long as the descriptor that it gives (or the given one) is
open; None where that cannot be had. `clear(directory, prefix, suffix)` removes the files of that name that nobody
holds. Where files cannot be locked, nothing is held and nothing removed. Nothing here raises `OSError`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # no POSIX
    fcntl = None


def hold(descriptor: int) -> int | None:
    """A second descriptor of the open file, which is locked until both are closed."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return os.dup(descriptor)
    except OSError:
        return None


def is_gone(descriptor: int) -> bool:
    """Whether the open file was removed: someone took it for stale before it was held."""
    return os.fstat(descriptor).st_nlink == 0


def is_held(path: str) -> bool | None:
    """Whether a process holds this user's file; None where that cannot be told, or there is none."""
    with _taken(path) as taken:
        return None if taken is None else not taken


def clear(directory: str, prefix: str, suffix: str) -> None:
    """Remove the files `prefix` + twelve hexadecimal digits + `suffix` of this user that no process holds."""
    name = re.compile(re.escape(prefix) + "[0-9a-f]{12}" + re.escape(suffix))
    with suppress(OSError), os.scandir(directory or ".") as entries:
        for entry in entries:
            if name.fullmatch(entry.name):
                with _taken(entry.path) as taken, suppress(OSError):
                    if taken:
                        os.unlink(entry.path)


@contextmanager
def _taken(path: str) -> Iterator[bool | None]:
    """Whether the lock of this user's file could be had, and is had inside; None where that cannot be told."""
    if fcntl is None:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield _take(descriptor, path)
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: str) -> bool | None:
    assert fcntl is not None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return None
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True if os.path.samestat(found, os.lstat(path)) else None  # published or removed meanwhile
    except BlockingIOError:
        return False
    except OSError:
        return None
