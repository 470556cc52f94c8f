# SPDX-License-Identifier: Apache-2.0
"""JSON Lines: one fact a line, to a file (plain, gzip, zstd) or to a stream such as standard output.

A file appears whole or not at all (`atomic`). Within one run the first fact of an id is written, later
ones are told apart as duplicate or conflict: a plain file compares with the line it has written, byte for
byte; what cannot be read back compares a keyed 64-bit hash. How much memory that takes is said in
`seen`; a caller that knows which ids can repeat passes them as `may_repeat` and pays only for those.
"""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from .atomic import AtomicFile, sink_error
from .base import DEFAULT_OPTIONS, Delivery, Receipt, SinkBase, SinkError, SinkOptions
from .seen import SeenIds


def _gzip(file: BinaryIO) -> Any:
    # No name and no time of writing: the same facts give the same bytes.
    return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)


def _zstd(file: BinaryIO) -> Any:
    import zstandard

    return zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False)


#: Suffix of the file's name -> what stands between the lines and the file.
COMPRESSIONS: dict[str, Callable[[BinaryIO], Any]] = {".gz": _gzip, ".zst": _zstd}


class _Lines(SinkBase):
    """Repeats within a run, and lines out of facts. The place to write to is the subclass's affair."""

    def __init__(self, where: str, options: SinkOptions) -> None:
        self._where = where
        self._may_repeat = options.may_repeat
        self._seen = SeenIds()
        self._written = 0
        self._done = False

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        """Write the facts that are new. Raises `SinkError`; after that the sink takes nothing more."""
        if self._done:
            raise SinkError("is closed", self._where, "open the sink again")
        if any(b"\n" in delivery.encoded for delivery in batch):
            raise ValueError("the JSON of a fact must stand on one line")
        receipts: list[Receipt] = []
        try:
            for delivery in batch:
                receipts.append(self._take(delivery))
            self._written_batch()
        except OSError as error:
            self.abort()
            raise sink_error(error, self._where) from None
        return receipts

    def _take(self, delivery: Delivery) -> Receipt:
        encoded = delivery.encoded
        key = delivery.inference_call_id
        if self._may_repeat is None or key in self._may_repeat:
            mark = self._mark(encoded)
            earlier = self._seen.first(key, mark)
            if earlier is not None:
                return Receipt.DUPLICATE if self._equals(earlier, mark, encoded) else Receipt.CONFLICT
        self._out().write(encoded + b"\n")
        self._written += len(encoded) + 1
        return Receipt.STORED

    def _mark(self, encoded: bytes) -> int:
        return hash(encoded)

    def _equals(self, earlier: int, mark: int, encoded: bytes) -> bool:
        return earlier == mark

    def _out(self) -> Any:
        raise NotImplementedError

    def _written_batch(self) -> None:
        """Called after each batch."""


class JsonLinesFile(_Lines):
    """Facts into a file, which takes its target's place on `close`. `.gz` and `.zst` compress."""

    def __init__(self, path: str, options: SinkOptions = DEFAULT_OPTIONS) -> None:
        super().__init__(path, options)
        compress = COMPRESSIONS.get(os.path.splitext(path)[1].lower())
        self._file = AtomicFile(path)
        self._compressor = compress(self._file.file) if compress else None
        self._reads_back = compress is None and self._file.replaces and hasattr(os, "pread")

    def _out(self) -> Any:
        return self._compressor or self._file.file

    def _mark(self, encoded: bytes) -> int:
        return self._written if self._reads_back else hash(encoded)

    def _equals(self, earlier: int, mark: int, encoded: bytes) -> bool:
        if not self._reads_back:
            return earlier == mark
        self._file.file.flush()
        return _read_at(self._file.file.fileno(), len(encoded) + 1, earlier) == encoded + b"\n"

    def flush(self) -> None:
        """Out of the process's memory; the target changes only on `close`."""
        if self._done:
            return
        try:
            if self._compressor is not None:
                self._compressor.flush()
            self._file.file.flush()
        except OSError as error:
            self.abort()
            raise sink_error(error, self._where) from None

    def close(self) -> None:
        """Publish the file."""
        if self._done:
            return
        try:
            if self._compressor is not None:
                self._compressor.close()
        except OSError as error:
            self.abort()
            raise sink_error(error, self._where) from None
        self._done = True
        self._seen.close()
        self._file.publish()

    def abort(self) -> None:
        """Leave the target as it was."""
        if self._done:
            return
        self._done = True
        self._seen.close()
        if self._compressor is not None:
            with suppress(OSError):  # its last bytes are to be dropped anyway
                self._compressor.close()
        self._file.discard()


class JsonLinesStream(_Lines):
    """Facts into an open binary stream, flushed after each batch so that a pipe sees them at once."""

    def __init__(self, stream: BinaryIO, name: str = "standard output", options: SinkOptions = DEFAULT_OPTIONS) -> None:
        super().__init__(name, options)
        self._stream = stream

    def _out(self) -> Any:
        return self._stream

    def _written_batch(self) -> None:
        self._stream.flush()

    def flush(self) -> None:
        """Hand on what is buffered."""
        if self._done:
            return
        try:
            self._stream.flush()
        except OSError as error:
            self.abort()
            raise sink_error(error, self._where) from None

    def close(self) -> None:
        """Flush. The stream is its owner's to close."""
        self.flush()
        self._done = True
        self._seen.close()

    def abort(self) -> None:
        """Take nothing more; what the stream still buffers must not fail a second time at exit."""
        if self._done:
            return
        self._done = True
        self._seen.close()
        _silence(self._stream)


def standard_output(options: SinkOptions = DEFAULT_OPTIONS) -> JsonLinesStream:
    """The sink `-`."""
    return JsonLinesStream(sys.stdout.buffer, options=options)


def _read_at(descriptor: int, size: int, offset: int) -> bytes:
    """`size` bytes from `offset`, fewer at the end of the file."""
    chunks = []
    while size > 0:
        chunk = os.pread(descriptor, size, offset)
        if not chunk:
            break
        chunks.append(chunk)
        size -= len(chunk)
        offset += len(chunk)
    return b"".join(chunks)


def _silence(stream: BinaryIO) -> None:
    """Point a failed stream at the null device: the interpreter flushes it once more when it ends."""
    try:
        stream.flush()
    except OSError:
        try:
            descriptor = stream.fileno()
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, descriptor)
            os.close(null)
        except OSError:
            pass  # no descriptor behind it: nothing will be flushed
