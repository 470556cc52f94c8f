# SPDX-License-Identifier: Apache-2.0
"""Content-addressed files: `sha256/ab/cdef…` in a directory or at any URL that fsspec knows. Same content, one file.

`BlobSink` stands before another sink and takes the bytes out of `raw` (`translate.blobs`). The file of a blob is there
before the fact that refers to it is handed on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from ..translate.blobs import BlobError, take_out
from .base import Delivery, Receipt, Sink, SinkBase, SpanOutcome
from .remote import filesystem, is_remote, remote_error, shown, written

#: Digests that a run remembers to have written.
REMEMBERED = 100_000


class BlobStore:
    """Blobs by their sha256."""

    def __init__(self, location: str) -> None:
        self._remote = is_remote(location)
        self._location = location.removeprefix("file://").rstrip("/")
        self.where = shown(location) if self._remote else location
        self._system: Any = None
        self._base = self._location
        if self._remote:
            self._system, self._base = filesystem(location)
            self._base = self._base.rstrip("/")
        self._known: set[str] = set()

    def put(self, digest: str, data: bytes) -> None:
        """Keep the bytes; nothing to do where they are kept already. Raises `SinkError`."""
        if digest in self._known or self._size(digest) == len(data):
            return
        path = self._path(digest)
        if self._remote:
            try:
                self._system.makedirs(self._system._parent(path), exist_ok=True)
                with self._system.open(path, "wb") as file:
                    file.write(data)
            except Exception as error:  # a plug-in's own errors
                raise remote_error(error, self._location) from None
        else:
            file = written(path, parents=True)
            try:
                file.file.write(data)
            except OSError as error:
                file.discard()
                raise remote_error(error, self.where) from None
            file.publish()
        if len(self._known) < REMEMBERED:
            self._known.add(digest)

    def get(self, digest: str) -> bytes:
        """The bytes. Raises `BlobError`."""
        try:
            if self._remote:
                return bytes(self._system.cat_file(self._path(digest)))
            with open(self._path(digest), "rb") as file:
                return file.read()
        except Exception as error:
            raise BlobError(f"blob {digest} cannot be read from {self.where} ({type(error).__name__})") from None

    def _path(self, digest: str) -> str:
        return f"{self._base}/sha256/{digest[:2]}/{digest[2:]}"

    def _size(self, digest: str) -> int | None:
        try:
            if self._remote:
                return int(self._system.info(self._path(digest))["size"])
            return os.path.getsize(self._path(digest))
        except Exception:  # not there, or not to be asked: it is written
            return None


class BlobSink(SinkBase):
    """Facts to `sink`, their bytes to `blobs`."""

    def __init__(self, sink: Sink, blobs: BlobStore) -> None:
        self._sink = sink
        self._blobs = blobs

    @property
    def refused(self) -> int:  # type: ignore[override]
        """As the sink behind says."""
        return int(getattr(self._sink, "refused", 0))

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        """Keep the blobs, then hand the facts on."""
        return self._sink.write(
            [
                one
                if (encoded := take_out(one.encoded, self._blobs.put)) is one.encoded
                else msgspec.structs.replace(one, encoded=encoded)
                for one in batch
            ]
        )

    def record_outcomes(self, outcomes: Sequence[SpanOutcome]) -> None:
        """Hand on."""
        self._sink.record_outcomes(outcomes)

    def remarks(self) -> list[str]:
        """What the sink behind remarks."""
        remarks: list[str] = getattr(self._sink, "remarks", list)()
        return remarks

    def flush(self) -> None:
        """Hand on."""
        self._sink.flush()

    def close(self) -> None:
        """Close the sink behind."""
        self._sink.close()

    def abort(self) -> None:
        """Abort the sink behind; blobs stay."""
        self._sink.abort()
