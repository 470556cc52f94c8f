# SPDX-License-Identifier: Apache-2.0
"""Facts back from where a sink put them: JSON Lines (plain, gzip, zstd), standard input, or a store.

What a file is, is decided by its first bytes, not by its name. Each fact comes as the bytes that were
written, with the place where it stands; nothing is parsed here. A line that is too long costs only
itself. What cannot be read at all raises `FactsError`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

from sediment_otel.sources.inflate import InflateError, inflated, is_compressed
from sediment_otel.sources.lines import next_line

from .base import StorageError
from .store import read_rows

#: Four times the largest fact that is made by default.
MAX_LINE_BYTES = 256 * 1024 * 1024
_SQLITE = b"SQLite format 3\x00"
_BOM = b"\xef\xbb\xbf"
#: How an object begins in UTF-16 and UTF-32, with and without a byte order mark.
_UTF_16 = (b"\xff\xfe{\0", b"\xfe\xff\0{", b"{\0", b"\0{", b"\xff\xfe\0\0", b"\0\0\xfe\xff")


class FactsError(StorageError):
    """A file of facts cannot be read, or not to its end."""


class FactRecord(NamedTuple):
    """One fact as it was written. `problem` says why `data` is empty, where it is."""

    data: bytes
    place: str
    problem: str | None = None


def read_facts(path: str, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[FactRecord]:
    """The facts of one file, store, or standard input (`-`), in their order. Raises `FactsError`."""
    if path == "-":
        yield from _read_stream(sys.stdin.buffer, "standard input", max_line_bytes)
        return
    if os.path.isdir(path):
        raise FactsError("is a directory", path, "name the files in it")
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:
        raise _unreadable(error, path) from None
    with closing(file):
        if not file.peek(len(_SQLITE)).startswith(_SQLITE):
            yield from _read_stream(file, path, max_line_bytes)
            return
    try:
        for inference_call_id, encoded in read_rows(path):
            yield FactRecord(encoded, f"{path}:{inference_call_id}")
    except StorageError as error:
        raise FactsError(error.what, error.where, error.way_out) from None


def _read_stream(file: Any, path: str, limit: int) -> Iterator[FactRecord]:
    try:
        head = file.peek(4)
        if head.startswith(_SQLITE[:4]):
            raise FactsError("is a SQLite file", path, "give the store by its file name, not through a pipe")
        if is_compressed(head):
            file = inflated(file, head)
            head = file.peek(4)
        if head.startswith(_UTF_16):
            raise FactsError("is UTF-16 or UTF-32 text", path, "save it as UTF-8")
        for number, line in enumerate(_lines(file, limit), 1):
            place = f"{path}:{number}"
            if line is None:
                yield FactRecord(b"", place, f"the line is longer than {limit} bytes")
                continue
            data = (line.removeprefix(_BOM) if number == 1 else line).strip()
            if data:
                yield FactRecord(data, place)
    except (OSError, InflateError) as error:
        raise _unreadable(error, path) from None


def _lines(file: Any, limit: int) -> Iterator[bytes | None]:
    """Lines with their ends; None for one that is longer than `limit`, which is passed over."""
    while True:
        line, size = next_line(file, limit)
        if not size:
            return
        yield line


def _unreadable(error: Exception, path: str) -> FactsError:
    if isinstance(error, InflateError):
        return FactsError(error.reason, path, "what stands before is read; write the file again")
    if isinstance(error, OSError) and error.errno is not None:
        return FactsError(f"cannot be read ({os.strerror(error.errno)})", path, "check its name and permissions")
    return FactsError(f"cannot be read ({type(error).__name__})", path, "check its name")
