# SPDX-License-Identifier: Apache-2.0
"""The report of a run as one JSON file, written as the run goes and published whole at its end."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec

from .report import Account, totals
from .sinks.atomic import AtomicFile, sink_error


class ReportFile:
    """`{"spans": …, …, "items": […]}`. Items wait in a temporary file without a name, so memory stays flat.

    With a path of None it does nothing. Raises `SinkError`, at the start or later, where the file cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._items: IO[bytes] | None = None
        self._count = 0
        if path is not None:
            self._where = str(path)
            self._file = AtomicFile(self._where)
            try:
                self._items = _unnamed(path.parent)
            except OSError as error:
                self._file.discard()
                raise sink_error(error, self._where) from None

    def __enter__(self) -> ReportFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._items is not None:
            self._items.close()
            self._file.discard()

    def add(self, item: dict[str, Any]) -> None:
        """One span's item."""
        if self._items is not None:
            try:
                self._items.write(b",\n" if self._count else b"")
                self._items.write(msgspec.json.encode(item))
            except OSError as error:
                raise sink_error(error, self._where) from None
            self._count += 1

    def finish(self, account: Account) -> None:
        """Put head and items together and publish the file."""
        if self._items is None:
            return
        try:
            self._items.seek(0)
            file = self._file.file
            file.write(msgspec.json.format(msgspec.json.encode(totals(account)), indent=1).removesuffix(b"\n}"))
            file.write(b',\n "items": [\n')
            shutil.copyfileobj(self._items, file, 1 << 20)
            file.write(b"\n]}\n")
        except OSError as error:
            raise sink_error(error, self._where) from None
        self._file.publish()


def _unnamed(beside: Path) -> IO[bytes]:
    """A temporary file where the report will be, or, beside a device, where temporary files are."""
    try:
        return tempfile.TemporaryFile(dir=beside)
    except OSError:
        return tempfile.TemporaryFile()
