# SPDX-License-Identifier: Apache-2.0
"""JSON Lines: one fact a line, to a file (plain, gzip, zstd) or to a stream such as standard output.

A file appears whole or not at all (`atomic`). Within one run the first fact of an id is written, later
ones are told apart as duplicate or conflict; what that takes in time and memory, and how a caller that
knows which ids can repeat spares it, is said in `seen`.
"""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

from .append import JsonLinesAppend
from .atomic import AtomicFile, sink_error
from .base import DEFAULT_OPTIONS, Delivery, Receipt, SinkBase, SinkError, SinkOptions
from .remote import is_remote, shown, written
from .seen import Repeats


def compression(name: str) -> Callable[[BinaryIO], Any] | None:
    """What packs a file of that name, where it ends so."""
    return COMPRESSIONS.get(os.path.splitext(name)[1].lower())


def _gzip(file: BinaryIO) -> Any:
    # No name and no time of writing: the same facts give the same bytes.
    return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)


def _zstd(file: BinaryIO) -> Any:
    import zstandard

    return zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False)


#: Suffix of the file's name -> what stands between the lines and the file.
COMPRESSIONS: dict[str, Callable[[BinaryIO], Any]] = {".gz": _gzip, ".zst": _zstd}


class _Lines(SinkBase):
    """Lines out of facts. Where they go is the subclass's affair; after a `SinkError` nothing more is taken."""

    def __init__(self, where: str, options: SinkOptions) -> None:
        self._where = where
        self._repeats = Repeats(options.may_repeat)
        self._done = False

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        """Write the facts that are new; one receipt each."""
        if self._done:
            raise SinkError("is closed", self._where, "open the sink again")
        receipts, lines = self._repeats.sort_out(batch)
        self._attempt(lambda: self._write_lines(lines))
        return receipts

    @property
    def takes_blocks(self) -> bool:  # type: ignore[override]
        """Where the run knows that no fact comes twice."""
        return not self._done and self._repeats.nothing_repeats

    def write_block(self, block: bytes) -> bool:
        """Take lines as they are, where the run knows that no fact comes twice."""
        if not self.takes_blocks:
            return False
        self._attempt(lambda: self._write_lines([block]))
        return True

    def flush(self) -> None:
        """Hand on what is buffered. A file takes its target's place only on `close`."""
        if not self._done:
            self._attempt(self._flush)

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError as error:
            self.abort()
            raise sink_error(error, self._where) from None

    def _finish(self) -> None:
        self._done = True
        self._repeats.close()

    def _write_lines(self, lines: list[bytes]) -> None:
        """Each kind of stream has its own."""
        raise NotImplementedError

    def _flush(self) -> None:
        """Each kind of stream has its own."""
        raise NotImplementedError


class JsonLinesFile(_Lines):
    """Facts into a file, which takes its target's place on `close`. `.gz` and `.zst` compress.

    The file may be one of an object store: any URL that fsspec knows.
    """

    def __init__(self, path: str, options: SinkOptions = DEFAULT_OPTIONS) -> None:
        super().__init__(shown(path) if is_remote(path) else path, options)
        compress = compression(path.split("?", 1)[0] if is_remote(path) else path)
        self._file = written(path)
        self._compressor = compress(self._file.file) if compress else None
        self._out: Any = self._compressor or self._file.file

    def shared_file(self) -> str | None:
        """The file, where nothing is packed and the run knows that no fact comes twice."""
        if self._done or self._compressor is not None or not self._repeats.nothing_repeats:
            return None
        self.flush()
        return self._file.temporary if isinstance(self._file, AtomicFile) else None

    def grow(self, size: int) -> None:
        """What follows stands behind the lines that others wrote."""
        self._attempt(lambda: self._file.file.seek(size, os.SEEK_CUR))

    def _write_lines(self, lines: list[bytes]) -> None:
        for line in lines:
            self._out.write(line)

    def _flush(self) -> None:
        self._out.flush()
        self._file.file.flush()

    def close(self) -> None:
        """Publish the file."""
        if self._done:
            return
        if self._compressor is not None:
            self._attempt(self._compressor.close)
        self._finish()
        self._file.publish()

    def abort(self) -> None:
        """Leave the target as it was."""
        if self._done:
            return
        self._finish()
        if self._compressor is not None:
            with suppress(OSError):  # its last bytes are to be dropped anyway
                self._compressor.close()
        self._file.discard()


class JsonLinesStream(_Lines):
    """Facts into an open binary stream, flushed after each batch so that a pipe sees them at once."""

    def __init__(self, stream: BinaryIO, name: str = "standard output", options: SinkOptions = DEFAULT_OPTIONS) -> None:
        super().__init__(name, options)
        self._stream = stream

    def _write_lines(self, lines: list[bytes]) -> None:
        for line in lines:
            self._stream.write(line)
        self._stream.flush()

    def _flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        """Flush. The stream is its owner's to close."""
        self.flush()
        if not self._done:
            self._finish()

    def abort(self) -> None:
        """Take nothing more. Whole batches were flushed, nothing is pending."""
        self._finish()


def json_lines(path: str, options: SinkOptions = DEFAULT_OPTIONS) -> SinkBase:
    """The sink for a file name or URL: replaces the file, or adds to it with the option `append`."""
    return JsonLinesAppend(path, options) if options.append else JsonLinesFile(path, options)


def standard_output(options: SinkOptions = DEFAULT_OPTIONS) -> JsonLinesStream:
    """The sink `-`."""
    return JsonLinesStream(sys.stdout.buffer, options=options)
