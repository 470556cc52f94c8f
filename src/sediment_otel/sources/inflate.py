# SPDX-License-Identifier: Apache-2.0
"""Plain bytes of a stream that may be gzip or zstd, told by its first bytes and not by its name.

`inflated(stream)` gives a readable of the content; several members or frames in a row are one content. It never
holds more than a small window: what a bomb inflates to is bounded by whoever reads. Bad or cut compressed data
raises `InflateError` from `readinto`, after everything that could be inflated was read.
"""

from __future__ import annotations

import gzip
import io
import zlib
from typing import BinaryIO

import zstandard

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
CHUNK = 1 << 20
_ZSTD_INPUT = 256  # this much zstd is at most 64 blocks of 128 KiB: a bomb comes 8 MiB at a time


class InflateError(ValueError):
    """The compressed data is damaged or cut off. `reason` says which, without content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def is_compressed(head: bytes) -> bool:
    """Whether content that starts like this is gzip or zstd (a skippable zstd frame included)."""
    return head.startswith((GZIP_MAGIC, ZSTD_MAGIC)) or _is_skippable(head)


def _is_skippable(head: bytes) -> bool:
    return len(head) >= 4 and head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50


def inflated(stream: BinaryIO, head: bytes) -> io.BufferedReader:
    """A buffered reader of the content of a stream at its start, of which `head` are the first bytes."""
    raw: io.RawIOBase
    if head.startswith(GZIP_MAGIC):
        raw = _Gzip(stream)
    else:
        raw = _Zstd(stream)
    return io.BufferedReader(raw, CHUNK)


class _Gzip(io.RawIOBase):
    def __init__(self, stream: BinaryIO) -> None:
        self._file = gzip.GzipFile(fileobj=stream, mode="rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._file.read1(min(len(buffer), CHUNK))
        except EOFError:
            raise InflateError("the gzip data is cut off") from None
        except (OSError, zlib.error) as error:
            if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
                raise
            raise InflateError("the gzip data is damaged, or other data follows it") from None
        buffer[: len(data)] = data
        return len(data)


class _Zstd(io.RawIOBase):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._input = b""
        self._output = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._output and not self._ended:
            self._step()
        size = min(len(buffer), len(self._output))
        buffer[:size] = self._output[:size]
        self._output = self._output[size:]
        return size

    def _step(self) -> None:
        if not self._input:
            self._input = self._stream.read(_ZSTD_INPUT)
            if not self._input:
                self._ended = True
                if self._frame is not None:
                    raise InflateError("the zstd data is cut off")
                return
        if self._frame is None:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        data, self._input = self._input, b""
        try:
            self._output = memoryview(self._frame.decompress(data))
        except zstandard.ZstdError:
            self._ended = True
            raise InflateError("the zstd data is damaged, or other data follows it") from None
        if self._frame.eof:
            self._input = self._frame.unused_data
            self._frame = None


def inflate_bytes(data: bytes, limit: int) -> bytes:
    """The content of compressed bytes; raises `InflateError` if it is damaged or larger than `limit` bytes."""
    content = inflated(io.BytesIO(data), data[:4]).read(limit + 1)
    if len(content) > limit:
        raise InflateError(f"the message inflates to more than {limit} bytes")
    return content
