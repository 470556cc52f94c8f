# SPDX-License-Identifier: Apache-2.0
"""Request bodies as they were meant: inflated, never past a bound. Pure.

`inflate(data, encoding, limit)` raises `BodyError` with the HTTP status that fits: 400 damaged, 413 past the limit,
415 an encoding that is not known.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import zstandard

_STEP = 1 << 20


class BodyError(Exception):
    """The body cannot be used. `status` is the HTTP status; the text holds no content."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def too_large(limit: int) -> BodyError:
    """What is said of a body past the limit."""
    return BodyError(
        413,
        f"the request is larger than {limit} bytes; send smaller batches, or raise max_request_bytes"
        " (for gRPC, the sending collector has a limit of its own: max_recv_msg_size_mib, 4 by default)",
    )


def _zlib(window: int) -> Callable[[bytes, int, str], bytes]:
    def run(data: bytes, limit: int, name: str) -> bytes:
        out: list[bytes] = []
        size = 0
        rest = data
        while rest:
            inflater = zlib.decompressobj(window)
            chunk = rest
            while True:
                try:
                    piece = inflater.decompress(chunk, _STEP)
                except zlib.error:
                    raise BodyError(400, f"the {name} data is damaged") from None
                size += len(piece)
                if size > limit:
                    raise too_large(limit)
                out.append(piece)
                chunk = inflater.unconsumed_tail
                if inflater.eof or (not chunk and len(piece) < _STEP):
                    break
            if not inflater.eof:
                raise BodyError(400, f"the {name} data is cut off")
            rest = inflater.unused_data
        return b"".join(out)

    return run


_gzip, _deflated, _raw = _zlib(31), _zlib(15), _zlib(-15)


def _deflate(data: bytes, limit: int, name: str) -> bytes:
    # The name means zlib's form; some senders leave its two bytes out.
    wrapped = len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
    return (_deflated if wrapped else _raw)(data, limit, name)


def _zstd(data: bytes, limit: int, name: str) -> bytes:
    out: list[bytes] = []
    size = 0
    # A frame may ask for a window of its own choosing: not for more than the limit allows.
    decompressor = zstandard.ZstdDecompressor(max_window_size=max(1 << 27, 1 << 10))
    rest = data
    try:
        while rest:
            frame = decompressor.decompressobj()
            for start in range(0, len(rest), 1024):
                piece = frame.decompress(rest[start : start + 1024])
                size += len(piece)
                if size > limit:
                    raise too_large(limit)
                out.append(piece)
                if frame.eof:
                    rest = frame.unused_data + rest[start + 1024 :]
                    break
            else:
                raise BodyError(400, f"the {name} data is cut off")
    except zstandard.ZstdError:
        raise BodyError(400, f"the {name} data is damaged") from None
    return b"".join(out)


def _identity(data: bytes, limit: int, name: str) -> bytes:
    if len(data) > limit:
        raise too_large(limit)
    return data


#: Content-Encoding -> how it is undone.
ENCODINGS: dict[str, Callable[[bytes, int, str], bytes]] = {
    "": _identity,
    "identity": _identity,
    "none": _identity,
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
}


def inflate(data: bytes, encoding: str, limit: int) -> bytes:
    """The body without its content encodings (the last one named was applied last)."""
    names = [name.strip().lower() for name in encoding.split(",")]
    if len(names) > 2:
        raise BodyError(400, "more than two content encodings")
    for name in reversed(names):
        undo = ENCODINGS.get(name)
        if undo is None:
            accepted = ", ".join(known for known in ENCODINGS if known)
            raise BodyError(415, f"the content encoding is not known; accepted are {accepted}")
        data = undo(data, limit, name or "plain")
    return data
