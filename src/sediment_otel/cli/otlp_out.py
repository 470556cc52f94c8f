# SPDX-License-Identifier: Apache-2.0
"""Where restored spans go: OTLP JSON Lines, an OTLP protobuf file, or a server that takes OTLP/HTTP.

A span is one request: in JSON one line; in protobuf the requests stand behind each other, which is one request with
all of their spans. To a server they go in batches (`otlp_http`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol

import msgspec

from ..otlp import encode_json, encode_protobuf_traces
from ..otlp_http import BATCH_BYTES, BATCH_SPANS, Client, endpoint, headers_of
from ..sinks.atomic import AtomicFile, sink_error
from ..sinks.jsonl import compression
from ..sinks.spans import PROTOBUF_SUFFIXES
from ..telemetry import Span

#: Seconds for which a server that is busy or away is tried again.
PATIENCE = 10.0


class SpanOut(Protocol):
    """Takes spans one by one; `close` hands over what still waits."""

    def write(self, span: Span) -> None:
        """Take one span. Raises `StorageError` where it cannot be kept."""

    def close(self) -> None:
        """Nothing comes any more."""


@contextmanager
def opened(out: str, to: str | None) -> Iterator[SpanOut]:
    """The place that `-o` or `--to` names. A file appears whole or, after an error, not at all."""
    if to is not None:
        server = Server(Client(endpoint(to), headers_of(os.environ), patience=PATIENCE))
        yield server
        server.close()
        return
    if out == "-":
        lines = _Lines(sys.stdout.buffer, "standard output")
        yield lines
        lines.close()
        return
    file = AtomicFile(out)
    try:
        compress = compression(out)
        packed = compress(file.file) if compress else None
        form = _Protobuf if out.lower().endswith(PROTOBUF_SUFFIXES) else _Lines
        kept: SpanOut = form(packed or file.file, out)
        yield kept
        kept.close()
        if packed is not None:
            try:
                packed.close()
            except OSError as error:
                raise sink_error(error, out) from None
        file.publish()
    finally:
        file.discard()


class _Stream:
    def __init__(self, file: BinaryIO, where: str) -> None:
        self._file = file
        self._where = where

    def encoded(self, span: Span) -> bytes:
        """The span in the form of the stream; each form has its own."""
        raise NotImplementedError

    def write(self, span: Span) -> None:
        try:
            self._file.write(self.encoded(span))
        except OSError as error:
            raise sink_error(error, self._where) from None

    def close(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise sink_error(error, self._where) from None


class _Lines(_Stream):
    def encoded(self, span: Span) -> bytes:
        return msgspec.json.encode(encode_json([span])) + b"\n"


class _Protobuf(_Stream):
    def encoded(self, span: Span) -> bytes:
        return encode_protobuf_traces([span])


# -- over HTTP ---------------------------------------------------------------------------------------------------


class Server:
    """Batches to one OTLP/HTTP endpoint. `rejected` counts the spans that the server said it did not take."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.where = client.where
        self._waiting: list[Span] = []
        self._size = 0
        self.rejected = 0

    def write(self, span: Span) -> None:
        """Take one span; a full batch is sent."""
        self._waiting.append(span)
        self._size += sum(len(value) for value in span.attributes.values() if type(value) is str)
        if len(self._waiting) >= BATCH_SPANS or self._size >= BATCH_BYTES:
            self.close()

    def close(self) -> None:
        """Send what waits."""
        if self._waiting:
            spans, self._waiting, self._size = self._waiting, [], 0
            self.rejected += self._client.send(spans)


__all__ = ["Server", "SpanOut", "opened"]
