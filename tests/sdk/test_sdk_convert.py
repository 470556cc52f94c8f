# SPDX-License-Identifier: Apache-2.0
"""SDK objects become exactly the telemetry that decoding their OTLP export gives."""

from __future__ import annotations

import enum
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry._logs import LogRecord as ApiLogRecord
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)

from sediment_otel.otlp.protobuf import decode_protobuf
from sediment_otel.sdk.convert import Converter, value_of


def exported(build: Any, limits: SpanLimits | None = None) -> list[ReadableSpan]:
    """The spans that `build(tracer)` made, as an exporter gets them."""
    memory = InMemorySpanExporter()
    resource = Resource({"service.name": "shop", "pool": [1, 2]}, "https://example.com/resource")
    provider = TracerProvider(resource=resource, span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    build(provider.get_tracer("scope", "1.0", "https://example.com/scope", {"a": (True, False)}))
    return list(memory.get_finished_spans())


def assert_same(spans: list[ReadableSpan]) -> None:
    converter = Converter()
    for span in spans:
        (decoded,) = decode_protobuf(encode_spans([span]).SerializeToString(), signal="traces").items
        assert converter.span(span) == decoded


class Colour(str, enum.Enum):
    RED = "red"


VALUES: dict[str, Any] = {
    "text": "grüße",
    "blank": "",
    "true": True,
    "int": -(2**63),
    "float": 1.0,
    "infinity": math.inf,
    "bytes": b"\x00\xff",
    "texts": ["a", "b"],
    "nothing": None,
    "empty": [],
    "map": {"role": "user", "parts": [{"type": "text", "content": "x", "n": 1, "none": None}]},
    "deep": {"a": {"b": {"c": [[1], [2.5, "x"]]}}},
    "enumeration": Colour.RED,
    "mixed": ["a", 1, {"b": b"c"}],
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_what_the_decoder_makes_of_its_export(name: str) -> None:
    assert_same(exported(lambda tracer: tracer.start_span("s", attributes={"v": VALUES[name], "w": 1}).end()))


def test_everything_a_span_can_hold_is_what_the_decoder_makes_of_it() -> None:
    def build(tracer: trace.Tracer) -> None:
        linked = SpanContext(5, 6, True, TraceFlags(1), TraceState([("k", "v")]))
        remote = SpanContext(7, 8, True, TraceFlags(1), TraceState([("a", "1"), ("b", "2")]))
        parent = trace.set_span_in_context(NonRecordingSpan(remote))
        links = [Link(linked, {"x": {"y": (1, 2)}})]
        with tracer.start_as_current_span("outer", context=parent, kind=SpanKind.SERVER, links=links):
            inner = tracer.start_span("inner", kind=SpanKind.CLIENT, attributes=VALUES)
            inner.add_event("said", {"m": {"k": ["v"]}}, timestamp=12345)
            inner.set_status(Status(StatusCode.ERROR, "it broke"))
            inner.end()

    spans = exported(build)
    assert [span.name for span in spans] == ["inner", "outer"]
    assert_same(spans)


@pytest.mark.parametrize("kind", list(SpanKind))
def test_every_kind_is_what_the_decoder_makes_of_it(kind: SpanKind) -> None:
    assert_same(exported(lambda tracer: tracer.start_span("s", kind=kind).end()))


def test_dropped_attributes_events_and_links_are_counted_as_in_the_export() -> None:
    limits = SpanLimits(max_attributes=2, max_events=1, max_links=1, max_event_attributes=1, max_link_attributes=1)

    def build(tracer: trace.Tracer) -> None:
        links = [Link(SpanContext(1, n, True), {"a": 1, "b": 2}) for n in (1, 2, 3)]
        span = tracer.start_span("s", attributes={"a": 1, "b": 2, "c": 3}, links=links)
        span.add_event("one", {"a": 1, "b": 2})
        span.add_event("two", {"a": 1, "b": 2})
        span.end()

    spans = exported(build, limits)
    converted = Converter().span(spans[0])
    assert (converted.dropped_attributes, converted.dropped_events, converted.dropped_links) == (1, 1, 2)
    assert_same(spans)


def test_a_span_without_scope_resource_or_times_is_what_the_decoder_makes_of_it() -> None:
    assert_same([ReadableSpan("bare", SpanContext(1, 2, False), SpanContext(1, 0, False), resource=Resource({}))])


def test_values_that_an_encoder_refuses_are_kept() -> None:
    (span,) = exported(lambda tracer: tracer.start_span("s", attributes={"big": 2**70, "cut": "a\ud83d"}).end())
    assert Converter().span(span).attributes == {"big": 2**70, "cut": "a\ud83d"}


def test_a_value_of_no_known_type_becomes_its_text() -> None:
    class Silent:
        def __str__(self) -> str:
            raise RuntimeError

    assert value_of({1: Silent()}) == {"1": "<Silent>"}
    assert value_of(range(2)) == [0, 1]


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(ANY)
def test_any_value_is_what_the_decoder_makes_of_its_export(value: Any) -> None:
    assert_same(exported(lambda tracer: tracer.start_span("s", attributes={"v": value}).end()))


RECORDS: dict[str, dict[str, Any]] = {
    "details": {
        "event_name": "gen_ai.client.inference.operation.details",
        "observed_timestamp": 5,
        "attributes": {"gen_ai.input.messages": [{"role": "user", "parts": [], "name": None}]},
    },
    "body": {
        "timestamp": 7,
        "body": {"content": "x", "n": [1, {"a": None}]},
        "attributes": {"event.name": "gen_ai.choice"},
    },
    "text": {"body": "hello", "severity_number": SeverityNumber.WARN, "severity_text": "WARN"},
}


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("name", RECORDS)
def test_a_log_record_is_what_the_decoder_makes_of_its_export(name: str, inside: bool) -> None:
    memory = InMemoryLogRecordExporter()
    provider = LoggerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(memory))
    span = NonRecordingSpan(SpanContext(9, 10, False, TraceFlags(1)))
    context = trace.set_span_in_context(span) if inside else None
    provider.get_logger("scope", "2").emit(ApiLogRecord(context=context, **RECORDS[name]))
    (readable,) = memory.get_finished_logs()
    (decoded,) = decode_protobuf(encode_logs([readable]).SerializeToString(), signal="logs").items
    assert Converter().record(readable) == decoded
