# SPDX-License-Identifier: Apache-2.0
"""`--forward URL`: the original OTLP, passed on unchanged to the next receiver (OTLP over HTTP).

Requests wait in the journal until the next receiver took them: in order, one at a time, for as long as it
takes. What it refuses for good (a 4xx other than 408 and 429) is counted and let go, as an exporter would.
The payload is the one that was received, byte for byte, without its content encoding. It is unredacted.
Headers for the next receiver come from `SEDIMENT_OTEL_SERVE_FORWARD_HEADERS` (`key=value,key=value`).
"""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit

from ..retry import Backoff
from .config import shown
from .journal import Journal
from .metrics import Metrics
from .replies import content_type

TIMEOUT = 30.0


def headers_from(text: str) -> dict[str, str]:
    """`key=value,key=value`, percent-encoded, as in OTEL_EXPORTER_OTLP_HEADERS."""
    pairs = (part.partition("=") for part in text.split(",") if part.strip())
    return {unquote(key.strip()): unquote(value.strip()) for key, _, value in pairs}


class Forwarder:
    """The thread that passes requests on."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        journal: Journal,
        metrics: Metrics,
        say: Callable[..., None],
        *,
        backoff: Backoff | None = None,
    ) -> None:
        self.name = shown(url)
        self._parts = urlsplit(url)
        self._headers = dict(headers)
        self._journal = journal
        self._metrics = metrics
        self._say = say
        self._backoff = backoff or Backoff(most=30.0)
        self._failure = ""
        self._stop = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._work, name="forward", daemon=True)

    def start(self) -> None:
        """Begin with what an earlier run left."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End; what was not passed on waits for the next run."""
        self._stop.set()
        self._thread.join(max(seconds, 0.1))

    def _work(self) -> None:
        while not self._stop.is_set():
            waiting = self._journal.next_to_forward(4) if self._journal.unforwarded else []
            if not waiting:
                self._stop.wait(0.05)
            for number, signal, form, body in waiting:
                if self._stop.is_set():
                    break
                problem = self._pass_on(signal, form, body)
                if problem is not None:
                    self._failed(problem)
                    break
                self._journal.forwarded([number])
                self._backoff.reset()
                if self._failure:
                    self._failure = ""
                    self._say("forwarding works again", to=self.name)

    def _pass_on(self, signal: str, form: str, body: bytes) -> str | None:
        """None where the request is done with, else why it must be tried again."""
        path = f"{self._parts.path.rstrip('/')}/v1/{signal}"
        try:
            connection = self._connection = self._connection or self._connect()
            connection.request("POST", path, body, {"Content-Type": content_type(form), **self._headers})
            reply = connection.getresponse()
            reply.read()
        except (OSError, http.client.HTTPException) as error:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            return type(error).__name__
        if 200 <= reply.status < 300:
            self._metrics.add("forwarded_requests_total")
            return None
        if reply.status in (408, 429) or reply.status >= 500:
            return f"status {reply.status}"
        self._metrics.add("forward_refused_total")
        self._say("the next receiver refuses a request for good", to=self.name, status=reply.status, bytes=len(body))
        return None

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT)

    def _failed(self, problem: str) -> None:
        self._metrics.add("forward_failures_total")
        delay = self._backoff.next()
        if problem != self._failure:
            self._failure = problem
            self._say(
                "forwarding fails, requests wait in the journal", to=self.name, why=problem, retry_in=round(delay, 1)
            )
        self._stop.wait(delay)
