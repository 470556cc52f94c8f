# SPDX-License-Identifier: Apache-2.0
"""Lines of a stream that nobody vouches for: each held once, and none that is larger than it may be."""

from __future__ import annotations

import io
from typing import BinaryIO

from .inflate import CHUNK


def next_line(stream: BinaryIO, limit: int) -> tuple[bytes | None, int]:
    """The next line with its end, and how many bytes it took; empty at the end of the stream.

    None stands for a line of more than `limit` bytes, which is passed over. A long one is gathered in a buffer that
    hands itself over: no moment holds it twice.
    """
    data = stream.readline(CHUNK)
    size = len(data)
    if size < CHUNK or data.endswith(b"\n"):
        return (data if size - data.endswith(b"\n") <= limit else None), size
    gathered = io.BytesIO()
    gathered.write(data)
    while not data.endswith(b"\n") and (data := stream.readline(CHUNK)):
        size += len(data)
        if size <= limit + 1:
            gathered.write(data)
        elif gathered.tell():
            gathered = io.BytesIO()
    if size - data.endswith(b"\n") > limit:
        return None, size
    return gathered.getvalue(), size


__all__ = ["next_line"]
