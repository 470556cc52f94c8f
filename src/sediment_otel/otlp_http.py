# SPDX-License-Identifier: Apache-2.0
"""A client that posts spans to one OTLP/HTTP endpoint: protobuf, gzip, and again what may yet be taken.

An endpoint is an http or https address; `/v1/traces` is put behind one without a path. Headers are those of
OTEL_EXPORTER_OTLP_TRACES_HEADERS, else OTEL_EXPORTER_OTLP_HEADERS. Answers 408, 429 and 5xx, and no answer, are tried
again with growing pauses (at least what `Retry-After` names) for `patience` seconds. Redirects are not followed: they
would repeat the request without its body. Nothing that is raised holds content or the address's query.
"""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.util.re import parse_env_headers

from .otlp import encode_protobuf_traces
from .retry import Backoff
from .sinks.base import SinkError
from .telemetry import Span

TRACES_PATH = "/v1/traces"
HEADER_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
#: What goes into one request, at most (a single span may be larger).
BATCH_SPANS = 512
BATCH_BYTES = 4 * 1024 * 1024
TIMEOUT_S = 30.0
LONGEST_PAUSE_S = 30.0
#: Answers after which the same request may be taken; so may be any from 500 on.
AGAIN = frozenset({408, 425, 429})
#: Answers that are about the address or the caller, not about the spans; so is any below 400.
FOR_ALL = frozenset({401, 402, 403, 404, 405, 406, 407, 410, 411, 415, 421, 426, 431})

_FIT_FOR_A_REQUEST = re.compile(r"[\x21-\x7e]+")


class NotSent(SinkError):
    """No span gets through: the server cannot be reached, is busy for long, or takes nothing from us here."""


class Refused(NotSent):
    """The server does not take this request, now or later; others it may take."""


class WrongTarget(ValueError):
    """An address that names nothing that takes OTLP/HTTP."""


def endpoint(url: str) -> str:
    """The full address: the path of the traces signal is put behind an address that has none."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        raise WrongTarget("is no address; give one as in http://localhost:4318") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not _FIT_FOR_A_REQUEST.fullmatch(url):
        raise WrongTarget("give an http or https address, as in http://localhost:4318")
    if "@" in parts.netloc:
        raise WrongTarget(f"an address must not hold a user or a password; put them into {HEADER_VARIABLES[1]}")
    return urlunsplit(parts._replace(path=parts.path if parts.path.strip("/") else TRACES_PATH, fragment=""))


def headers_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The headers that the environment asks for."""
    text = next((found for name in HEADER_VARIABLES if (found := environment.get(name, "").strip())), "")
    return dict(parse_env_headers(text, liberal=True))


class _NoRedirect(HTTPRedirectHandler):
    """A redirect is told instead."""

    def redirect_request(self, *_: Any) -> None:
        """Never."""


class Client:
    """Posts spans to `url`, as `endpoint` gives it. `where` is the address for people: without its query."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = url
        self.where = urlunsplit(urlsplit(url)._replace(query=""))
        self._headers = {**headers, "Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        self._opener = build_opener(_NoRedirect)
        self._patience = patience
        self._clock = clock
        self._sleep = sleep

    def send(self, spans: Sequence[Span]) -> int:
        """Post them as one request; how many of them the server says it did not take. Raises `NotSent`, `Refused`."""
        body = gzip.compress(encode_protobuf_traces(spans), 6)
        end = self._clock() + self._patience
        backoff = Backoff(most=LONGEST_PAUSE_S)
        while True:
            try:
                request = Request(self._url, data=body, headers=self._headers, method="POST")
                with self._opener.open(request, timeout=min(TIMEOUT_S, max(self._patience, 1.0))) as answer:
                    return _rejected(answer.read(1 << 20))
            except HTTPError as error:
                error.close()
                if error.code not in AGAIN and error.code < 500:
                    kind = NotSent if error.code in FOR_ALL or error.code < 400 else Refused
                    raise self._answered(error.code, kind) from None
                problem = self._answered(error.code, NotSent)
                pause = max(backoff.next(), _named(error.headers.get("Retry-After")))
            except (URLError, HTTPException, OSError) as error:
                reason = getattr(error, "reason", error)
                text = getattr(reason, "strerror", None) or type(reason).__name__
                problem = NotSent(f"cannot be reached ({text})", self.where, "check address and server")
                pause = backoff.next()
            if self._clock() + pause > end:
                raise problem
            self._sleep(pause)

    def _answered(self, status: int, kind: type[NotSent]) -> NotSent:
        return kind(f"answered {status}", self.where, _WAYS_OUT.get(status, _ANY_WAY))


def _rejected(answer: bytes) -> int:
    found = ExportTraceServiceResponse()
    try:
        found.ParseFromString(answer)
    except Exception:  # whatever the server said: it took the request
        return 0
    return max(0, int(found.partial_success.rejected_spans))


def _named(seconds: str | None) -> float:
    """Seconds to wait that a server names; dates are not read."""
    return float(seconds) if seconds is not None and seconds.strip().isdecimal() else 0.0


_ANY_WAY = "check that the address takes OTLP/HTTP traces"
_WAYS_OUT = {
    401: "set OTEL_EXPORTER_OTLP_HEADERS to what the server asks for",
    403: "set OTEL_EXPORTER_OTLP_HEADERS to what the server asks for",
    404: "the path is wrong: OTLP/HTTP traces usually go to /v1/traces",
    413: "the server takes smaller requests only: raise its limit",
    429: "the server is busy: try again later",
    503: "the server is busy: try again later",
}

__all__ = ["BATCH_BYTES", "BATCH_SPANS", "Client", "NotSent", "Refused", "WrongTarget", "endpoint", "headers_of"]
