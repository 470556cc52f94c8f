# SPDX-License-Identifier: Apache-2.0
"""What the sidecar's tests share: a running sidecar, spans to send it, and what it made of them."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from sediment_otel.otlp import encode_protobuf_logs, encode_protobuf_traces
from sediment_otel.telemetry import LogRecord, Resource, Scope, Span

PATIENCE = 60.0
_LISTENING = re.compile(r'listening protocol="(\w+)" address="([^"]+)"')


def wait_for(holds: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """The first true value of `holds`; fails the test where none comes in time."""
    deadline = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come true within {seconds} seconds")
        time.sleep(0.02)


class Sidecar:
    """A sidecar process on ephemeral loopback ports. `stop` is orderly, `kill` is SIGKILL."""

    def __init__(self, data: Path, *options: str, settle: float = 0.3, env: dict[str, str] | None = None) -> None:
        self.data = data
        self.options = options
        self.settle = settle
        self._env = {**os.environ, **(env or {})}
        self._env.pop("SEDIMENT_OTEL_SERVE_TOKEN", None) if env is None else None
        self.addresses: dict[str, str] = {}
        self.log_path = data.with_name(f"{data.name}.log")
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Sidecar:
        return self.start()

    def __exit__(self, *error: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()

    @property
    def command(self) -> list[str]:
        ports = [] if "--http" in self.options else ["--http", "127.0.0.1:0"]
        ports += [] if "--grpc" in self.options else ["--grpc", "127.0.0.1:0"]
        code = "from sediment_otel.cli import main; main()"
        given = ["--data", str(self.data), "--settle", str(self.settle), *ports, *self.options]
        return [sys.executable, "-c", code, "serve", *given]

    def start(self, *, ready: bool = True) -> Sidecar:
        """Start and wait until it listens (and says that it is ready)."""
        offset = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self._env)

        def listening() -> bool:
            assert self.process is not None
            text = self.log_path.read_bytes()[offset:].decode()
            assert self.process.poll() is None, text
            self.addresses = dict(_LISTENING.findall(text))
            wanted = {n for n in ("http", "grpc") if "off" not in self._option(n)}
            return wanted <= set(self.addresses)

        wait_for(listening)
        if ready and "http" in self.addresses and "--tls-cert" not in self.options:
            wait_for(lambda: self.get("/readyz")[0] == 200)
        return self

    def _option(self, name: str) -> str:
        given = list(self.options)
        return given[given.index(f"--{name}") + 1] if f"--{name}" in given else ""

    def kill(self) -> None:
        """SIGKILL, as the system would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM and the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    @property
    def log(self) -> str:
        """Everything that it said."""
        return self.log_path.read_text()

    # -- talking to it

    def connect(self) -> http.client.HTTPConnection:
        host, _, port = self.addresses["http"].rpartition(":")
        return http.client.HTTPConnection(host, int(port), timeout=PATIENCE)

    def get(self, path: str) -> tuple[int, str]:
        with closing(self.connect()) as connection:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()

    def post(
        self, body: bytes, *, signal: str = "traces", form: str = "application/x-protobuf", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers (lower-case names) and body of the reply."""
        with closing(self.connect()) as connection:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("POST", f"/v1/{signal}", body, {"Content-Type": form, **given})
            reply = connection.getresponse()
            return reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read()

    def send(self, spans: Iterable[Span]) -> None:
        """Spans that must be accepted."""
        status, _, body = self.post(encode_protobuf_traces(spans))
        assert status == 200, body

    def send_logs(self, records: Iterable[LogRecord]) -> None:
        """Log records that must be accepted."""
        status, _, body = self.post(encode_protobuf_logs(records), signal="logs")
        assert status == 200, body

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            found = re.fullmatch(r"sediment_otel_(\w+?)(?:\{(.*)\})? (\S+)", line)
            if found and found[1] == name and all(f'{k}="{v}"' in (found[2] or "") for k, v in labels.items()):
                total += float(found[3])
        return total

    def settled(self) -> None:
        """Wait until everything that was received has its outcome, and nothing is held any longer."""
        wait_for(lambda: self.metric("queue_requests") == 0 and self.metric("queue_bytes") == 0)

    # -- what it made

    def facts(self) -> list[bytes]:
        """The facts of the store, in the order of arrival."""
        return [bytes(row[0]) for row in self.rows("SELECT CAST(fact AS BLOB) FROM facts ORDER BY seq")]

    def skips(self) -> dict[str, str]:
        """Capture key -> reason."""
        return dict(self.rows("SELECT capture_key, reason FROM skips"))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.data / 'facts.db'}?mode=ro", uri=True, timeout=30)) as database:
            return database.execute(query).fetchall()


RESOURCE = Resource(attributes={"service.name": "app"})
SCOPE = Scope(name="app")


def messages(text: str, role: str = "user") -> str:
    """A message list as current instrumentations write it."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def call(
    trace: int = 1,
    span: int = 1,
    *,
    parent: int | None = None,
    session: str | None = "s-1",
    given: str | None = "question",
    answer: str | None = "answer",
    start: int = 1_700_000_000_000_000_000,
    **more: Any,
) -> Span:
    """A model-call span."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai"}
    if session is not None:
        attributes["session.id"] = session
    if given is not None:
        attributes["gen_ai.input.messages"] = messages(given)
    if answer is not None:
        attributes["gen_ai.output.messages"] = messages(answer, "assistant")
    attributes.update(more)
    return Span(
        trace_id=f"{trace:032x}",
        span_id=f"{span:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        name="chat m",
        kind="client",
        start_ns=start,
        end_ns=start + 1_000_000_000,
        attributes=attributes,
        resource=RESOURCE,
        scope=SCOPE,
    )


def agent(trace: int = 1, span: int = 1, *, parent: int | None = None, session: str | None = None) -> Span:
    """An agent's span around calls."""
    attributes = {"gen_ai.operation.name": "invoke_agent"}
    if session is not None:
        attributes["session.id"] = session
    made = call(trace, span, parent=parent, session=None, given=None, answer=None)
    return Span(
        trace_id=made.trace_id,
        span_id=made.span_id,
        parent_span_id=made.parent_span_id,
        name="agent",
        start_ns=made.start_ns,
        end_ns=made.end_ns,
        attributes=attributes,
        resource=RESOURCE,
        scope=SCOPE,
    )


def details(trace: int | None, span: int | None, *, time_ns: int = 1_700_000_000_500_000_000, **more: Any) -> LogRecord:
    """The operation.details record of a call."""
    return LogRecord(
        trace_id=None if trace is None else f"{trace:032x}",
        span_id=None if span is None else f"{span:016x}",
        time_ns=time_ns,
        event_name="gen_ai.client.inference.operation.details",
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "question"}]}],
            "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "answer"}]}],
            **more,
        },
        resource=RESOURCE,
        scope=SCOPE,
    )
