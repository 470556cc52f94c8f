# SPDX-License-Identifier: Apache-2.0
"""In process, the sink `otlp+http://`: model calls go on as spans of the current conventions."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from sdk_kit import provider_with

from sediment_otel.otlp import decode_protobuf
from sediment_otel.sdk import ProcessSettings, SedimentSpanProcessor
from sediment_otel.sinks.base import UnknownSink

QUICK = ProcessSettings(settle=0.2, schedule_delay=0.02, retry=5.0)
CALL = {
    "openinference.span.kind": "LLM",
    "session.id": "s",
    "llm.model_name": "gpt-x",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "hi",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "hello",
}


class _Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        server.requests.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(server.answers.pop(0) if server.answers else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    server: Any = HTTPServer(("127.0.0.1", 0), _Collector)
    server.requests, server.answers = [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def _trace(sink: str) -> SedimentSpanProcessor:
    processor = SedimentSpanProcessor(sink, process=QUICK)
    tracer = provider_with(processor).get_tracer("scope")
    tracer.start_span("ChatCompletion", attributes=CALL).end()
    tracer.start_span("SELECT", attributes={"db.system": "sqlite"}).end()
    processor.shutdown()
    return processor


@pytest.mark.parametrize("answers", [[], [503]], ids=["taken", "busy once"])
def test_a_call_goes_on_as_a_span_of_the_current_conventions(collector: Any, answers: list[int]) -> None:
    collector.answers = list(answers)
    processor = _trace(f"otlp+http://127.0.0.1:{collector.server_port}")
    assert [path for path, _ in collector.requests] == ["/v1/traces"] * (len(answers) + 1)
    (span,) = decode_protobuf(gzip.decompress(collector.requests[-1][1])).items
    attributes: Any = span.attributes  # type: ignore[union-attr]
    assert json.loads(attributes["gen_ai.input.messages"])[0]["parts"] == [{"type": "text", "content": "hi"}]
    assert json.loads(attributes["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "hello"}]
    assert (attributes["session.id"], attributes["gen_ai.request.model"]) == ("s", "gpt-x")
    found = processor.snapshot()
    assert (found.ended, found.facts, found.skipped, found.dropped) == (2, 1, {"not_a_model_call": 1}, {})


def test_a_server_that_is_wrong_costs_spans_and_nothing_else(collector: Any) -> None:
    collector.answers = [404] * 50
    found = _trace(f"otlp+http://127.0.0.1:{collector.server_port}/wrong").snapshot()
    assert found.ended == 2
    assert (found.facts, sum(found.dropped.values()), found.waiting) == (0, 1, 0)


def test_a_wrong_address_is_said_at_once() -> None:
    with pytest.raises(UnknownSink):
        SedimentSpanProcessor("otlp+http://", process=QUICK)
