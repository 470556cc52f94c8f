# SPDX-License-Identifier: Apache-2.0
"""The report of a run as one JSON file, written as the run goes and published whole at its end."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec

from .report import Account, totals


class ReportFile:
    """`{"spans": …, …, "items": […]}`. Items wait in a temporary file beside the target, so memory stays flat.

    With a path of None it does nothing. Raises `OSError` where the file cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._items: IO[bytes] | None = None
        self._count = 0
        self._finished = False
        if path is not None:
            self._items = tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False)  # noqa: SIM115

    def __enter__(self) -> ReportFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._items is not None:
            self._items.close()
            if not self._finished:
                Path(self._items.name).unlink(missing_ok=True)

    def add(self, item: dict[str, Any]) -> None:
        """One span's item."""
        if self._items is not None:
            self._items.write(b",\n" if self._count else b"")
            self._items.write(msgspec.json.encode(item))
            self._count += 1

    def finish(self, account: Account) -> None:
        """Put head and items together and publish the file."""
        if self._items is None or self._path is None:
            return
        self._items.flush()
        whole = tempfile.NamedTemporaryFile(dir=self._path.parent, prefix=f".{self._path.name}.", delete=False)  # noqa: SIM115
        try:
            with whole as file, open(self._items.name, "rb") as items:
                file.write(msgspec.json.format(msgspec.json.encode(totals(account)), indent=1).removesuffix(b"\n}"))
                file.write(b',\n "items": [\n')
                while piece := items.read(1 << 20):
                    file.write(piece)
                file.write(b"\n]}\n")
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(whole.name, 0o666 & ~umask)
            os.replace(whole.name, self._path)
        except BaseException:
            Path(whole.name).unlink(missing_ok=True)
            raise
        Path(self._items.name).unlink(missing_ok=True)
        self._finished = True
