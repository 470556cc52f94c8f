# SPDX-License-Identifier: Apache-2.0
"""Where restored spans go: OTLP JSON Lines, an OTLP protobuf file, or a server that takes OTLP/HTTP.

A span is one request: in JSON one line; in protobuf the requests stand behind each other, which is one request with
all of their spans. To a server they go in batches, gzipped protobuf, with the headers of OTEL_EXPORTER_OTLP_HEADERS
(or the TRACES one); what a server asks to have again is sent again, after the time it names.
"""

from __future__ import annotations

import gzip
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any, BinaryIO, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.util.re import parse_env_headers

from ..otlp import encode_json, encode_protobuf_traces
from ..sinks.atomic import AtomicFile, sink_error
from ..sinks.base import StorageError
from ..telemetry import Span

TRACES_PATH = "/v1/traces"
BATCH_SPANS = 512
BATCH_BYTES = 4 * 1024 * 1024
TIMEOUT_S = 30.0
#: Answers that OTLP/HTTP says to try again after.
AGAIN = frozenset({429, 502, 503, 504})
TRIES = 5
LONGEST_WAIT_S = 30.0


class NotSent(StorageError):
    """A server did not take spans."""


class SpanOut(Protocol):
    """Takes spans one by one; `close` hands over what still waits."""

    def write(self, span: Span) -> None:
        """Take one span. Raises `StorageError` where it cannot be kept."""

    def close(self) -> None:
        """Nothing comes any more."""


class WrongTarget(ValueError):
    """`--to` names nothing that takes OTLP/HTTP."""


@contextmanager
def opened(out: str, to: str | None) -> Iterator[SpanOut]:
    """The place that `-o` or `--to` names. A file appears whole or, after an error, not at all."""
    if to is not None:
        server = Server(endpoint(to), _headers())
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
        kept: SpanOut = _Protobuf(file.file, out) if out.endswith(".pb") else _Lines(file.file, out)
        yield kept
        kept.close()
        file.publish()
    finally:
        file.discard()


class _Stream:
    def __init__(self, file: BinaryIO, where: str) -> None:
        self._file = file
        self._where = where

    def encoded(self, span: Span) -> bytes:
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


def endpoint(url: str) -> str:
    """The full address: the path of the traces signal is put behind an address that has none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WrongTarget("give an http or https address, as in http://localhost:4318")
    return urlunsplit(parts._replace(path=parts.path if parts.path.strip("/") else TRACES_PATH, fragment=""))


def _headers() -> dict[str, str]:
    names = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
    text = next((found for name in names if (found := os.environ.get(name, "").strip())), "")
    return dict(parse_env_headers(text, liberal=True))


class _NoRedirect(HTTPRedirectHandler):
    """A redirect would repeat the request without its body; it is told instead."""

    def redirect_request(self, *_: Any) -> None:
        """Never."""


class Server:
    """Batches to one OTLP/HTTP endpoint. `rejected` counts the spans that the server said it did not take."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._url = url
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
        #: Without user name, password and query.
        self.where = f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
        self._headers = {**headers, "Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        self._opener = build_opener(_NoRedirect)
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
            body = gzip.compress(encode_protobuf_traces(self._waiting), 6)
            self._waiting, self._size = [], 0
            self._send(body)

    def _send(self, body: bytes) -> None:
        for attempt in range(1, TRIES + 1):
            request = Request(self._url, data=body, headers=self._headers, method="POST")
            try:
                with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                    self._count_rejected(answer.read(1 << 20))
                    return
            except HTTPError as error:
                error.close()
                if error.code not in AGAIN or attempt == TRIES:
                    raise NotSent(f"answered {error.code}", self.where, _WAYS_OUT.get(error.code, _ANY_WAY)) from None
                pause = _wait_of(error.headers.get("Retry-After"), attempt)
            except (URLError, HTTPException, OSError) as error:
                if attempt == TRIES:
                    reason = getattr(error, "reason", error)
                    text = getattr(reason, "strerror", None) or type(reason).__name__
                    raise NotSent(f"cannot be reached ({text})", self.where, "check address and server") from None
                pause = _wait_of(None, attempt)
            time.sleep(pause)

    def _count_rejected(self, answer: bytes) -> None:
        found = ExportTraceServiceResponse()
        try:
            found.ParseFromString(answer)
        except Exception:  # whatever the server said: it took the request
            return
        self.rejected += found.partial_success.rejected_spans


def _wait_of(named: str | None, attempt: int) -> float:
    """Seconds to wait: what the server names, else half a second, doubled each time."""
    if named is not None and named.strip().isdigit():
        return min(float(named), LONGEST_WAIT_S)
    return float(min(0.5 * 2 ** (attempt - 1), LONGEST_WAIT_S))


_ANY_WAY = "check that the address takes OTLP/HTTP traces"
_WAYS_OUT = {
    401: "set OTEL_EXPORTER_OTLP_HEADERS to what the server asks for",
    403: "set OTEL_EXPORTER_OTLP_HEADERS to what the server asks for",
    404: "the path is wrong: OTLP/HTTP traces usually go to /v1/traces",
    413: "the server takes smaller requests only: raise its limit",
    429: "the server is busy: try again later",
    503: "the server is busy: try again later",
}

__all__ = ["NotSent", "Server", "SpanOut", "WrongTarget", "endpoint", "opened"]
