# SPDX-License-Identifier: Apache-2.0
"""JSON Lines that are added to: for a process that lives long, beside others that write the same file.

Each `write` opens the file, locks it, adds its lines in one piece and lets go, so that threads, forked
children, other processes and log rotation all fit in. A line that a killed process left half written is
taken away by the next writer; a batch that does not fit on the disk leaves nothing behind. Repeats are
recognised among the facts of this process alone: what stood in the file before is not read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from .atomic import sink_error
from .base import DEFAULT_OPTIONS, Delivery, Receipt, SinkBase, SinkError, SinkOptions
from .seen import Repeats

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: one writer at a time is the user's affair there
    fcntl = None  # type: ignore[assignment]

_BLOCK = 1 << 16


class JsonLinesAppend(SinkBase):
    """Facts added to the end of a plain file. With `durable` each batch is flushed to the device."""

    def __init__(self, path: str, options: SinkOptions = DEFAULT_OPTIONS) -> None:
        self._path = path
        self._durable = options.durable
        self._repeats = Repeats(options.may_repeat)
        self._closed = False
        self._append(b"")

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        """Add the facts that are new to this process. Raises `SinkError`, and then none of them was added."""
        if self._closed:
            raise SinkError("is closed", self._path, "open the sink again")
        receipts, lines = self._repeats.sort_out(batch)
        try:
            self._append(b"".join(lines))
        except SinkError:
            self._repeats.forget(batch, receipts)
            raise
        return receipts

    def close(self) -> None:
        """Nothing is pending."""
        self._closed = True
        self._repeats.close()

    def _append(self, data: bytes) -> None:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
            descriptor = os.open(self._path, flags, 0o666)
        except OSError as error:
            raise sink_error(error, self._path) from None
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            end = _whole_lines(descriptor)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
                if self._durable and data:
                    os.fsync(descriptor)
            except BaseException:
                with suppress(OSError):  # a pipe or a device cannot be cut
                    os.ftruncate(descriptor, end)
                raise
        except OSError as error:
            raise sink_error(error, self._path) from None
        finally:
            if fcntl is not None:
                # Closing is not enough: a child forked meanwhile has this descriptor, too, and would keep the lock.
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _whole_lines(descriptor: int) -> int:
    """The size of the file, after a half line at its end was taken away. The caller holds the lock."""
    try:
        size = end = os.lseek(descriptor, 0, os.SEEK_END)
    except OSError:
        return 0  # a pipe has no end to look at
    while end > 0:
        start = max(0, end - _BLOCK)
        os.lseek(descriptor, start, os.SEEK_SET)
        block = os.read(descriptor, end - start)
        found = block.rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end != size:
        os.ftruncate(descriptor, end)
    return end
