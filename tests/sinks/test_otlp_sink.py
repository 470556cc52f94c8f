# SPDX-License-Identifier: Apache-2.0
"""The sink `otlp+http://`: what arrives at a server, and what becomes of facts that it does not take."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from sediment_otel import otlp_http
from sediment_otel.facts import InferenceCall
from sediment_otel.genai import Subject
from sediment_otel.otlp import decode_protobuf
from sediment_otel.otlp_http import Client, NotSent, WrongTarget, endpoint
from sediment_otel.settings import Settings
from sediment_otel.sinks import Delivery, Receipt, SinkError, open_sink
from sediment_otel.sinks.base import SinkOptions, UnknownSink
from sediment_otel.sinks.otlp import OtlpSink
from sediment_otel.telemetry import Span
from sediment_otel.translate.call import Context, translate_subject

ASKED = [{"role": "user", "parts": [{"type": "text", "content": "what is it?"}]}]
SECRET = "sk-" + "0123456789abcdef0123"


class _Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        spans = [item for item in decode_protobuf(gzip.decompress(body)).items if isinstance(item, Span)]
        status, answer = server.answer(spans)
        server.requests.append((self.path, dict(self.headers), spans, status))
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server; `answer` says what it does with the spans of a request."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Collector)
    server.requests, server.answer = [], lambda spans: (200, b"")
    server.address = f"otlp+http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def fact(number: int, text: str = "this", **attributes: Any) -> Delivery:
    """The fact of a span in OpenInference's attributes."""
    span = Span(
        trace_id="a" * 32,
        span_id=f"{number:016x}",
        name="ChatCompletion",
        start_ns=1_700_000_000_000_000_000,
        end_ns=1_700_000_001_000_000_000,
        attributes={
            "openinference.span.kind": "LLM",
            "session.id": "s-1",
            "llm.model_name": "gpt-x",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "what is it?",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": text,
            "llm.token_count.prompt": number,
            **attributes,
        },
    )
    found = translate_subject(Subject(span), Settings(), Context())
    assert found.encoded is not None
    return Delivery.of(InferenceCall.from_json(found.encoded), found.encoded)


def impatient(url: str) -> OtlpSink:
    """The sink with a clock that only its pauses move."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    client = Client(endpoint(url.removeprefix("otlp+")), {}, patience=20, clock=lambda: now[0], sleep=sleep)
    return OtlpSink(url, client=client)


def scripted(*statuses: int) -> Callable[[list[Span]], tuple[int, bytes]]:
    waiting = list(statuses)
    return lambda spans: (waiting.pop(0) if waiting else 200, b"")


def test_a_fact_arrives_as_a_span_of_the_current_conventions(collector: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=abc")
    with open_sink(collector.address) as sink:
        assert sink.write([fact(1), fact(2)]) == [Receipt.STORED, Receipt.STORED]
    ((path, headers, (first, second), _),) = collector.requests
    assert path == "/v1/traces"
    assert (headers["Content-Type"], headers["Content-Encoding"]) == ("application/x-protobuf", "gzip")
    assert {name.lower(): value for name, value in headers.items()}["x-key"] == "abc"
    assert json.loads(first.attributes["gen_ai.input.messages"]) == ASKED
    (answered,) = json.loads(first.attributes["gen_ai.output.messages"])
    assert answered["parts"] == [{"type": "text", "content": "this"}]
    assert [span.attributes["gen_ai.usage.input_tokens"] for span in (first, second)] == [1, 2]
    assert (first.trace_id, first.span_id) == ("a" * 32, f"{1:016x}")
    assert not any(key.startswith("llm.") and "message" in key for key in first.attributes)


def test_what_arrives_is_redacted(collector: Any) -> None:
    with open_sink(collector.address) as sink:
        sink.write([fact(1, f"the key is {SECRET}")])
    ((_, _, (span,), _),) = collector.requests
    assert "the key is" in span.attributes["gen_ai.output.messages"]
    assert SECRET not in repr(span)


def test_a_path_that_is_given_is_kept(collector: Any) -> None:
    with open_sink(collector.address + "/tenant/traces?key=hush") as sink:
        sink.write([fact(1)])
    assert [request[0] for request in collector.requests] == ["/tenant/traces?key=hush"]


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_busy_server_is_asked_again(collector: Any, status: int) -> None:
    collector.answer = scripted(status)
    with impatient(collector.address) as sink:
        assert sink.write([fact(1)]) == [Receipt.STORED]
    assert [request[3] for request in collector.requests] == [status, 200]


def test_a_server_that_stays_busy_is_an_error_and_the_facts_may_come_again(collector: Any) -> None:
    collector.answer = lambda spans: (503, b"")
    sink = impatient(collector.address + "?key=hush")
    with pytest.raises(NotSent, match="answered 503") as caught:
        sink.write([fact(1)])
    assert "hush" not in str(caught.value)
    assert len(collector.requests) > 3
    collector.answer = lambda spans: (200, b"")
    assert sink.write([fact(1)]) == [Receipt.STORED]


def test_a_span_that_the_server_does_not_take_is_refused_alone(collector: Any) -> None:
    collector.answer = lambda spans: (400 if any(span.span_id.endswith("3") for span in spans) else 200, b"")
    with open_sink(collector.address) as sink:
        receipts = sink.write([fact(number) for number in range(1, 7)])
        assert receipts == [Receipt.REFUSED if number == 3 else Receipt.STORED for number in range(1, 7)]
        assert (sink.refused, sink.remarks()) == (1, ["1 refused: answered 400"])  # type: ignore[attr-defined]
    taken = sorted(span.span_id[-1] for _, _, spans, status in collector.requests if status == 200 for span in spans)
    assert taken == ["1", "2", "4", "5", "6"]


@pytest.mark.parametrize("status", [301, 401, 403, 404])
def test_a_server_that_takes_nothing_from_us_is_an_error_at_once(collector: Any, status: int) -> None:
    collector.answer = lambda spans: (status, b"")
    with open_sink(collector.address) as sink, pytest.raises(SinkError, match=f"answered {status}"):
        sink.write([fact(1), fact(2)])
    assert len(collector.requests) == 1


def test_spans_that_an_answer_leaves_out_are_counted(collector: Any) -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 1
    collector.answer = lambda spans: (200, answer.SerializeToString())
    with open_sink(collector.address) as sink:
        assert sink.write([fact(1), fact(2)]) == [Receipt.STORED, Receipt.STORED]
        assert sink.write([fact(3)]) == [Receipt.REFUSED]
        assert sink.remarks() == ["2 refused: rejected by the server (partial success)"]  # type: ignore[attr-defined]


def test_where_nobody_is_an_error_says_so() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Collector) as taken:
        port = taken.server_port
    sink = impatient(f"otlp+http://127.0.0.1:{port}")
    with pytest.raises(SinkError, match=rf"127\.0\.0\.1:{port}/v1/traces: cannot be reached"):
        sink.write([fact(1)])


def test_a_batch_is_cut_into_requests_and_what_was_taken_is_not_sent_again(
    collector: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sediment_otel.sinks.otlp.BATCH_SPANS", 2)
    collector.answer = scripted(200, 401)
    batch = [fact(number) for number in range(1, 6)]
    with open_sink(collector.address) as sink:
        with pytest.raises(SinkError):
            sink.write(batch)
        assert sink.write(batch) == [Receipt.DUPLICATE] * 2 + [Receipt.STORED] * 3
    assert [len(spans) for _, _, spans, _ in collector.requests] == [2, 2, 2, 1]


def test_a_fact_comes_once_and_another_of_its_id_is_a_conflict(collector: Any) -> None:
    with open_sink(collector.address) as sink:
        assert sink.write([fact(1), fact(1), fact(1, "that")]) == [Receipt.STORED, Receipt.DUPLICATE, Receipt.CONFLICT]
    assert [len(spans) for _, _, spans, _ in collector.requests] == [1]


def test_a_fact_without_its_blobs_is_refused(collector: Any) -> None:
    one = fact(1)
    broken = json.loads(one.encoded)
    broken["raw"]["image"] = {"$blob": {"sha256": "0" * 64, "size": 3, "mime_type": "image/png"}}
    with open_sink(collector.address) as sink:
        receipts = sink.write([Delivery.of(InferenceCall.from_json(json.dumps(broken)), json.dumps(broken).encode())])
        assert receipts == [Receipt.REFUSED]
    assert collector.requests == []


def test_a_closed_sink_takes_nothing(collector: Any) -> None:
    sink = OtlpSink(collector.address, SinkOptions(append=True))
    sink.close()
    with pytest.raises(SinkError, match="is closed"):
        sink.write([fact(1)])


@pytest.mark.parametrize(
    "wrong",
    [
        "otlp+http://",
        "otlp+http://h:x",
        "otlp+http://h:99999",
        "otlp+http://u:pw@h",
        "otlp+http://h/a b",
        "otlp+http://ü",
    ],
)
def test_a_wrong_address_is_wrong_usage(wrong: str) -> None:
    with pytest.raises(UnknownSink) as caught:
        open_sink(wrong)
    assert "pw" not in str(caught.value)


def test_an_address_without_a_path_gets_that_of_traces() -> None:
    assert endpoint("http://h:4318/") == "http://h:4318" + otlp_http.TRACES_PATH
    with pytest.raises(WrongTarget):
        endpoint("ftp://h")
