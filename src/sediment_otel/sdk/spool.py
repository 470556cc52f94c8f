# SPDX-License-Identifier: Apache-2.0
"""The spool: what the queue cannot hold, on disk, first in, first out.

The file holds unredacted input. It has no name (it is removed as soon as it is open), only this process can read
it, and it goes with the process whatever ends it; when it is empty its bytes are given back.
"""

from __future__ import annotations

import pickle
import tempfile
import threading
from typing import Any, BinaryIO

_HEAD = 8


class Spool:
    """A bounded queue of picklable values on disk. Safe to use from several threads. Raises `OSError`."""

    def __init__(self, directory: str, most_bytes: int) -> None:
        self._directory = directory or None
        self._most = most_bytes
        self.reset()

    def reset(self) -> None:
        """Forget everything; in a forked child the file is the parent's."""
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._read = self._written = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, value: Any) -> bool:
        """Take a value; False where there is no room for it."""
        packed = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        with self._lock:
            if self._written + _HEAD + len(packed) > self._most:
                return False
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="sediment-otel-", dir=self._directory)  # noqa: SIM115
            self._file.seek(self._written)
            self._file.write(len(packed).to_bytes(_HEAD, "big"))
            self._file.write(packed)
            self._file.flush()
            self._written += _HEAD + len(packed)
            self._count += 1
            return True

    def get(self, most: int) -> list[Any]:
        """The oldest values, at most `most` of them."""
        out: list[Any] = []
        with self._lock:
            while self._file is not None and self._count and len(out) < most:
                self._file.seek(self._read)
                size = int.from_bytes(self._file.read(_HEAD), "big")
                # Written by this process into a file that nobody else can open.
                out.append(pickle.loads(self._file.read(size)))
                self._read += _HEAD + size
                self._count -= 1
            if self._file is not None and not self._count:
                self._file.truncate(0)
                self._read = self._written = 0
        return out

    def close(self) -> None:
        """Give the file back; what is still in it is lost."""
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = None
            self._count = self._read = self._written = 0
