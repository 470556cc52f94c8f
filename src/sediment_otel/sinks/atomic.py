# SPDX-License-Identifier: Apache-2.0
"""A file that appears whole or not at all.

`AtomicFile` writes beside its target and takes the target's place on `publish`: written out, flushed to
the device, then renamed, then the directory flushed. Until then the old file stays as it is; `discard`
leaves no trace. A symbolic link stays a link and what it points to is replaced. A new file gets the
permissions that the user's umask gives, an existing one keeps its own. Devices and pipes cannot be
replaced and must not be: they are written directly. A killed run leaves its file beside the target; the next one
to the same target removes it (`stale`).

Every failure is a `SinkError`.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from typing import BinaryIO

from ..stale import clear, hold, is_gone
from .base import ReaderGone, SinkError

_WAYS_OUT = {
    errno.ENOSPC: "make room on the disk, or write to another one, and run again",
    errno.EDQUOT: "the disk quota is used up: make room, or write to another disk, and run again",
    errno.EFBIG: "the file size limit is reached (ulimit -f): raise it, or write to a store (facts.db) in parts",
    errno.EACCES: "choose a directory that you may write to, or change its permissions",
    errno.EPERM: "choose a directory that you may write to, or change its permissions",
    errno.EROFS: "the file system is read-only: write to another one",
    errno.ENOENT: "create the directory first, or write to one that exists",
    errno.ENOTDIR: "a part of the path is a file: write into a directory",
    errno.EISDIR: "this is a directory: name a file in it, as in facts.jsonl",
    errno.ENAMETOOLONG: "use a shorter name",
}


def sink_error(error: OSError, where: str) -> SinkError:
    """The error of the system as what, where and way out."""
    if error.errno == errno.EPIPE:
        return ReaderGone("the reader has gone", where, "nothing to do if that was meant")
    what = os.strerror(error.errno) if error.errno else type(error).__name__
    way_out = _WAYS_OUT.get(error.errno or 0, "check the path and the device, and run again")
    return SinkError(f"cannot be written ({what})", where, way_out)


class AtomicFile:
    """One file being written. `file` is the buffered binary file; `publish` or `discard` ends it."""

    def __init__(self, path: str) -> None:
        self.where = path
        self._target = os.path.realpath(path)
        self._temporary: str | None = None
        self._held: int | None = None
        self._process = os.getpid()
        try:
            self.file: BinaryIO = self._open()
        except OSError as error:
            raise sink_error(error, path) from None
        self._open_now = True

    def _open(self) -> BinaryIO:
        try:
            there: os.stat_result | None = os.stat(self.where)
        except FileNotFoundError:
            there = None
        if there is not None and stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory")
        if there is not None and not stat.S_ISREG(there.st_mode):
            return open(self.where, "wb")  # as it was named: what stands behind /dev/stdout may have no path
        if there is not None and not os.access(self._target, os.W_OK):
            raise PermissionError(errno.EACCES, "is read-only")
        directory, name = os.path.split(self._target)
        prefix, suffix = f".{name[:200]}.", ".part"
        clear(directory, prefix, suffix)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        while True:
            temporary = os.path.join(directory, f"{prefix}{secrets.token_hex(6)}{suffix}")
            descriptor = os.open(temporary, flags, 0o666 if there is None else 0o600)
            self._held = hold(descriptor)
            if self._held is None or not is_gone(descriptor):
                break
            self._let_go()
            os.close(descriptor)
        self._temporary = temporary
        if there is not None:
            os.chmod(temporary, stat.S_IMODE(there.st_mode) & 0o777)
        return os.fdopen(descriptor, "wb", buffering=1 << 18)

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    @property
    def temporary(self) -> str | None:
        """Where the bytes wait until they take the target's place; None for a device."""
        return self._temporary

    def publish(self) -> None:
        """Write out and take the target's place. A second call does nothing, nor one in a forked child."""
        if not self._open_now or self._process != os.getpid():
            return
        try:
            self.file.flush()
            if self._temporary is not None:
                os.fsync(self.file.fileno())
            self.file.close()
            if self._temporary is not None:
                os.replace(self._temporary, self._target)
                self._temporary = None
                self._let_go()
                _flush_directory(os.path.dirname(self._target))
            self._open_now = False
        except OSError as error:
            self.discard()
            raise sink_error(error, self.where) from None

    def discard(self) -> None:
        """Remove what was written; the target is as it was. A second call does nothing, nor one in a forked child."""
        if not self._open_now or self._process != os.getpid():
            return
        self._open_now = False
        with suppress(OSError):  # the bytes that could not be written are to be dropped anyway
            self.file.close()
        if self._temporary is not None:
            with suppress(OSError):  # someone else removed it, or the directory is gone
                os.unlink(self._temporary)
            self._temporary = None
        self._let_go()


def _flush_directory(directory: str) -> None:
    """Make the new name outlast a power cut, where directories can be flushed."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some file systems cannot; the data itself is flushed
    finally:
        os.close(descriptor)
