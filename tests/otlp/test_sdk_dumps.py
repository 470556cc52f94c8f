# SPDX-License-Identifier: Apache-2.0
"""What the Python console exporters and the JavaScript SDK print of their objects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource as SdkResource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from sediment_otel.otlp import decode_json, decode_object
from sediment_otel.telemetry import LogRecord, Rejected, Span

TRACE, SPAN, PARENT = "ab" * 16, "cd" * 8, "ef" * 8


def only(obj: Any) -> Any:
    (item,) = decode_object(obj).items
    return item


def test_what_the_python_sdk_prints_today_is_read_back() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=SdkResource({"service.name": "demo"}, schema_url="https://example.org/r"))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("lib", "1")
    with tracer.start_as_current_span("outer", kind=SpanKind.SERVER, start_time=1790000010000000000) as outer:
        link = Link(outer.get_span_context(), {"why": "test"})
        inner = tracer.start_span("inner", kind=SpanKind.CLIENT, links=[link], start_time=1790000010000001000)
        inner.set_attribute("list", ("a", "b"))
        inner.add_event("event", {"n": 1}, timestamp=1790000010000002000)
        inner.set_status(Status(StatusCode.ERROR, "no"))
        inner.end(end_time=1790000010000003000)
    finished = {span.name: span for span in exporter.get_finished_spans()}
    for indent in (None, 4):
        batch = decode_json(finished["inner"].to_json(indent=indent))
        (read,) = batch.items
        assert isinstance(read, Span)
        assert read.trace_id == f"{outer.get_span_context().trace_id:032x}"
        assert read.parent_span_id == f"{outer.get_span_context().span_id:016x}"
        assert (read.name, read.kind, read.status_code, read.status_message) == ("inner", "client", "error", "no")
        assert (read.start_ns, read.end_ns) == (1790000010000001000, 1790000010000003000)
        assert read.attributes == {"list": ["a", "b"]}
        assert [(e.name, e.time_ns, e.attributes) for e in read.events] == [("event", 1790000010000002000, {"n": 1})]
        assert [(each.span_id, each.attributes) for each in read.links] == [(read.parent_span_id, {"why": "test"})]
        assert read.resource.attributes["service.name"] == "demo"
        assert read.resource.schema_url == "https://example.org/r"


def python_span(**fields: Any) -> dict[str, Any]:
    context = {
        "trace_id": "0x" + TRACE,
        "span_id": "0x" + SPAN,
        "trace_state": "['{key=a, value=b}', '{key=c, value=d}']",
    }
    return {"name": "chat", "context": context, "kind": "SpanKind.INTERNAL", "start_time": None, **fields}


def test_the_trace_state_of_a_python_dump_gets_its_header_form() -> None:
    assert only(python_span()).trace_state == "a=b,c=d"


def test_plain_attributes_that_look_like_wrappers_stay_as_they_are() -> None:
    assert only(python_span(attributes={"a": {"intValue": "1"}})).attributes == {"a": {"intValue": "1"}}


@pytest.mark.parametrize("status", [{"status_code": "ERROR"}, {"status_code": "StatusCode.ERROR"}, "StatusCode.ERROR"])
def test_every_spelling_of_a_python_status_is_read(status: Any) -> None:
    assert only(python_span(status=status)).status_code == "error"


def test_a_python_log_record_is_read() -> None:
    dump = {
        "body": {"content": "hi"},
        "severity_number": 9,
        "severity_text": "INFO",
        "attributes": None,
        "dropped_attributes": 2,
        "timestamp": "2026-11-30T10:12:39.799665Z",
        "observed_timestamp": "2026-11-30T10:12:39.799695Z",
        "trace_id": "0x" + TRACE,
        "span_id": "",
        "trace_flags": 3,
        "resource": {"attributes": {"service.name": "demo"}, "schema_url": ""},
        "event_name": "gen_ai.user.message",
    }
    read = only(dump)
    assert isinstance(read, LogRecord)
    assert (read.trace_id, read.span_id, read.event_name) == (TRACE, None, "gen_ai.user.message")
    assert (read.time_ns, read.observed_ns) == (1796033559799665000, 1796033559799695000)
    assert (read.body, read.severity_number, read.dropped_attributes) == ({"content": "hi"}, 9, 2)
    assert read.resource.attributes == {"service.name": "demo"}


JS_SPANS: list[dict[str, Any]] = [
    {"traceId": TRACE, "spanId": SPAN, "parentSpanId": PARENT, "resource": {"attributes": {"service.name": "demo"}}},
    {
        "_spanContext": {"traceId": TRACE, "spanId": SPAN, "traceFlags": 1},
        "parentSpanContext": {"traceId": TRACE, "spanId": PARENT},
        "resource": {"_rawAttributes": [["service.name", "demo"], ["service.name", "later"], ["async", None]]},
    },
    {
        "spanContext": {"traceId": TRACE, "spanId": SPAN},
        "parentSpanId": PARENT,
        "resource": {"_memoizedAttributes": {"service.name": "demo"}},
    },
]
TIMES: list[tuple[Any, int]] = [
    ([1796033349, 237000001], 1796033349237000001),
    (1796033349237, 1796033349237000000),
    (1796033349237000, 1796033349237000000),
    (1796033349237000001, 1796033349237000001),
    ("2026-11-30T10:09:09.237Z", 1796033349237000000),
]


@pytest.mark.parametrize("form", JS_SPANS)
@pytest.mark.parametrize(("time", "nanos"), TIMES)
def test_a_javascript_span_is_read_in_every_generation(form: dict[str, Any], time: Any, nanos: int) -> None:
    read = only(
        {
            **form,
            "name": "chat",
            "kind": 2,
            "startTime": time,
            "endTime": [1796033350, 0],
            "attributes": {"a": ["x"], "n": 1},
            "status": {"code": 2, "message": "no"},
            "events": [{"name": "e", "time": [1796033349, 5], "attributes": {"k": "v"}, "droppedAttributesCount": 1}],
            "links": [{"context": {"traceId": TRACE, "spanId": PARENT}, "attributes": {}}],
            "instrumentationScope": {"name": "ai", "version": "7"},
            "droppedAttributesCount": 3,
        }
    )
    assert isinstance(read, Span)
    assert (read.trace_id, read.span_id, read.parent_span_id) == (TRACE, SPAN, PARENT)
    assert (read.start_ns, read.end_ns) == (nanos, 1796033350000000000)
    assert (read.status_code, read.status_message) == ("error", "no")
    assert read.events[0].time_ns == 1796033349000000005
    assert read.events[0].dropped_attributes == 1
    assert read.links[0].span_id == PARENT
    assert read.resource.attributes == {"service.name": "demo"}
    assert (read.scope.name, read.scope.version, read.dropped_attributes) == ("ai", "7", 3)


@pytest.mark.parametrize(("number", "kind"), list(enumerate(["internal", "server", "client", "producer", "consumer"])))
def test_javascript_counts_span_kinds_differently_from_otlp(number: int, kind: str) -> None:
    assert only({"traceId": TRACE, "spanId": SPAN, "kind": number, "startTime": [1, 0]}).kind == kind


def test_the_javascript_console_exporters_objects_are_read() -> None:
    span = only({"traceId": TRACE, "id": SPAN, "kind": 0, "timestamp": 1796033349237000, "duration": 1500})
    assert (span.span_id, span.start_ns, span.end_ns) == (SPAN, 1796033349237000000, 1796033349238500000)
    log = only({"timestamp": 1796033349237000, "traceId": TRACE, "severityNumber": 9, "body": "x", "attributes": {}})
    assert isinstance(log, LogRecord)
    assert (log.time_ns, log.body) == (1796033349237000000, "x")


@pytest.mark.parametrize("prefix", ["", "_"])
def test_a_javascript_log_record_is_read(prefix: str) -> None:
    read = only(
        {
            f"{prefix}hrTime": [1796033349, 1],
            f"{prefix}hrTimeObserved": [1796033349, 2],
            f"{prefix}spanContext": {"traceId": TRACE, "spanId": SPAN},
            "attributes": {"event.name": "gen_ai.choice"},
            "_body": {"index": 0},
            "_severityNumber": 9,
            "instrumentationScope": {"name": "cli"},
        }
    )
    assert (read.trace_id, read.span_id, read.time_ns, read.observed_ns) == (
        TRACE,
        SPAN,
        1796033349000000001,
        1796033349000000002,
    )
    assert (read.body, read.severity_number, read.event_name, read.scope.name) == (
        {"index": 0},
        9,
        "gen_ai.choice",
        "cli",
    )


@pytest.mark.parametrize(
    "dump",
    [
        {**python_span(), "context": {"trace_id": "0x0", "span_id": "0x" + SPAN}},
        {"traceId": "zz", "spanId": SPAN, "kind": 0, "startTime": [1, 0]},
    ],
)
def test_a_dump_without_usable_ids_is_rejected(dump: dict[str, Any]) -> None:
    read = only(dump)
    assert isinstance(read, Rejected)
    assert (read.kind, read.span_id, read.trace_id) == ("span", SPAN, None)


def test_hostile_fields_of_a_dump_never_raise() -> None:
    hostile: list[Any] = [
        None,
        True,
        -1,
        1e308,
        float("nan"),
        "x",
        "\ud800",
        [],
        [[]],
        [1, "2"],
        {},
        {"a": []},
        10**400,
    ]
    for base in (python_span(), {"traceId": TRACE, "spanId": SPAN, "kind": 0, "startTime": [1, 0]}, {"hrTime": 1}):
        names = {
            *base,
            "endTime",
            "end_time",
            "status",
            "events",
            "links",
            "attributes",
            "resource",
            "duration",
            "scope",
        }
        for name in names | {"body", "_body", "severity_number", "parent_id", "parentSpanContext", "droppedLinksCount"}:
            for value in hostile:
                decode_object({**base, name: value})
                decode_object({**base, name: [value]})
                decode_object({**base, name: {"attributes": value, "context": value, "_rawAttributes": value}})


def test_dumps_are_for_files_and_not_for_receivers() -> None:
    assert not decode_json(json.dumps(python_span()), strict=True).recognised
