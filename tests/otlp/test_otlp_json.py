# SPDX-License-Identifier: Apache-2.0
"""OTLP JSON documents: spellings, isolation of what is broken, hostile text, strictness."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from sediment_otel.otlp import decode_json, decode_object
from sediment_otel.otlp.plain import read_plain
from sediment_otel.telemetry import LogRecord, Rejected, Resource, Scope, Span, SpanEvent, SpanLink

TRACE, SPAN, PARENT = "ab" * 16, "cd" * 8, "ef" * 8


def span(**fields: Any) -> dict[str, Any]:
    return {"traceId": TRACE, "spanId": SPAN, "name": "chat", **fields}


def request(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def only(obj: Any, strict: bool = False) -> Any:
    (item,) = decode_object(obj, strict=strict).items
    return item


FULL = {
    "resourceSpans": [
        {
            "resource": {
                "attributes": [{"key": "service.name", "value": {"stringValue": "demo"}}],
                "droppedAttributesCount": 1,
            },
            "schemaUrl": "https://example.org/resource",
            "scopeSpans": [
                {
                    "scope": {
                        "name": "lib",
                        "version": "2",
                        "attributes": [{"key": "a", "value": {"boolValue": True}}],
                    },
                    "schemaUrl": "https://example.org/scope",
                    "spans": [
                        span(
                            parentSpanId=PARENT.upper(),
                            traceState="k=v",
                            flags=257,
                            kind=3,
                            startTimeUnixNano="1790000010000000000",
                            endTimeUnixNano=1790000011500250000,
                            attributes=[{"key": "n", "value": {"intValue": "12"}}, {"key": "x", "value": {}}],
                            droppedAttributesCount=2,
                            events=[{"name": "e", "timeUnixNano": "1790000010000000001", "attributes": []}],
                            droppedEventsCount="3",
                            links=[{"traceId": TRACE, "spanId": PARENT, "traceState": "l=1"}],
                            droppedLinksCount=4,
                            status={"code": 2, "message": "no"},
                        )
                    ],
                }
            ],
        }
    ]
}
FULL_SPAN = Span(
    trace_id=TRACE,
    span_id=SPAN,
    parent_span_id=PARENT,
    name="chat",
    kind="client",
    start_ns=1790000010000000000,
    end_ns=1790000011500250000,
    attributes={"n": 12, "x": None},
    events=[SpanEvent(name="e", time_ns=1790000010000000001)],
    links=[SpanLink(trace_id=TRACE, span_id=PARENT, trace_state="l=1")],
    status_code="error",
    status_message="no",
    trace_state="k=v",
    dropped_attributes=2,
    dropped_events=3,
    dropped_links=4,
    resource=Resource(
        attributes={"service.name": "demo"}, schema_url="https://example.org/resource", dropped_attributes=1
    ),
    scope=Scope(name="lib", version="2", attributes={"a": True}, schema_url="https://example.org/scope"),
)


def snake(obj: Any) -> Any:
    """The same document with field names in snake_case (values and attribute keys untouched)."""
    if isinstance(obj, dict):
        return {"".join("_" + c.lower() if c.isupper() else c for c in key): snake(item) for key, item in obj.items()}
    return [snake(item) for item in obj] if isinstance(obj, list) else obj


@pytest.mark.parametrize("strict", [False, True])
def test_every_field_of_a_span_is_read(strict: bool) -> None:
    assert only(FULL, strict) == FULL_SPAN
    assert decode_json(json.dumps(FULL), strict=strict).items == [FULL_SPAN]
    assert decode_json(json.dumps(FULL, indent=1).encode(), strict=strict).items == [FULL_SPAN]


@pytest.mark.parametrize("strict", [False, True])
def test_snake_case_means_the_same(strict: bool) -> None:
    assert decode_json(json.dumps(snake(FULL)), strict=strict).items == [FULL_SPAN]


def test_a_standard_document_takes_the_fast_way() -> None:
    assert read_plain(json.dumps(FULL).encode()) == [FULL_SPAN]


def test_the_older_library_names_are_read() -> None:
    old = {
        "resourceSpans": [
            {"instrumentationLibrarySpans": [{"instrumentationLibrary": {"name": "old"}, "spans": [span()]}]}
        ],
        "resourceLogs": [
            {
                "instrumentationLibraryLogs": [
                    {"instrumentationLibrary": {"name": "old"}, "logRecords": [{"severityNumber": 9}]}
                ]
            }
        ],
    }
    read = decode_object(old).items
    assert [type(item) for item in read] == [Span, LogRecord]
    assert [item.scope.name for item in read if not isinstance(item, Rejected)] == ["old", "old"]


def test_enum_names_are_read() -> None:
    read = only(request(span(kind="SPAN_KIND_PRODUCER", status={"code": "STATUS_CODE_OK"})), True)
    assert (read.kind, read.status_code) == ("producer", "ok")


@pytest.mark.parametrize("parent", ["", "0" * 16, None])
def test_an_empty_or_zero_parent_means_a_root_span(parent: Any) -> None:
    assert only(request(span(parentSpanId=parent)), True).parent_span_id is None


def test_ids_in_base64_are_read_from_files_only() -> None:
    spelled = request({**span(), "traceId": "q6urq6urq6urq6urq6urqw==", "spanId": "zc3Nzc3Nzc0="})
    assert (only(spelled).trace_id, only(spelled).span_id) == (TRACE, SPAN)
    assert isinstance(only(spelled, True), Rejected)


def test_log_records_are_read_with_body_and_event_name() -> None:
    record = {
        "timeUnixNano": "5",
        "observedTimeUnixNano": "6",
        "severityNumber": "SEVERITY_NUMBER_INFO",
        "severityText": "INFO",
        "body": {"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": "hi"}}]}},
        "traceId": TRACE,
        "spanId": SPAN,
        "eventName": "gen_ai.user.message",
    }
    read = only({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}, True)
    assert read == LogRecord(
        trace_id=TRACE,
        span_id=SPAN,
        time_ns=5,
        observed_ns=6,
        event_name="gen_ai.user.message",
        severity_number=9,
        severity_text="INFO",
        body={"content": "hi"},
    )


def test_the_event_name_may_stand_in_an_attribute() -> None:
    record = {"attributes": [{"key": "event.name", "value": {"stringValue": "gen_ai.choice"}}]}
    assert only({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).event_name == "gen_ai.choice"


BROKEN_SPANS = [
    {},
    {**span(), "spanId": "xyz"},
    {**span(), "traceId": "0" * 32},
    {**span(), "traceId": 12},
    {**span(), "spanId": None},
    None,
    7,
    [],
    "span",
]


@pytest.mark.parametrize("broken", BROKEN_SPANS)
@pytest.mark.parametrize("strict", [False, True])
def test_a_broken_span_costs_only_itself(broken: Any, strict: bool) -> None:
    text = json.dumps(request(span(), broken, span(name="third")))
    first, middle, last = decode_json(text, strict=strict).items
    assert (first.name, last.name) == ("chat", "third")  # type: ignore[union-attr]
    assert isinstance(middle, Rejected)
    assert (middle.kind, middle.place) == ("span", "/resourceSpans/0/scopeSpans/0/spans/1")


STRICT_FAULTS: list[dict[str, Any]] = [
    {"name": 5},
    {"kind": "CLIENT"},
    {"kind": []},
    {"startTimeUnixNano": "2026-11-30T10:00:00Z"},
    {"attributes": {"a": "b"}},
    {"attributes": [7]},
    {"attributes": [{"key": "k", "value": {"intValue": "x"}}]},
    {"parentSpanId": "zz"},
    {"events": {}},
    {"events": [1]},
    {"links": [{"traceId": "x", "spanId": "y"}]},
    {"status": 2},
    {"droppedAttributesCount": "many"},
    {"traceState": {}},
]


@pytest.mark.parametrize("fault", STRICT_FAULTS)
def test_a_wrong_type_rejects_the_span_when_strict_and_is_read_around_otherwise(fault: dict[str, Any]) -> None:
    text = json.dumps(request(span(**fault)))
    (strict_item,) = decode_json(text, strict=True).items
    assert isinstance(strict_item, Rejected)
    assert (strict_item.trace_id, strict_item.span_id) == (TRACE, SPAN)
    (lenient_item,) = decode_json(text).items
    assert isinstance(lenient_item, Span)


def test_what_a_lenient_reading_cannot_use_is_counted_as_dropped() -> None:
    read = only(request(span(attributes=[7, {"key": "k", "value": {}}], events=[1], links=[{"traceId": "x"}])))
    assert (read.attributes, read.dropped_attributes, read.dropped_events, read.dropped_links) == ({"k": None}, 1, 1, 1)


@pytest.mark.parametrize(
    "broken",
    [
        {"resourceSpans": 5},
        {"resourceSpans": [5]},
        {"resourceSpans": [{"scopeSpans": "x"}]},
        {"resourceSpans": [{"scopeSpans": ["x"]}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": 3}]}]},
    ],
)
def test_a_broken_container_is_reported_and_its_siblings_are_read(broken: dict[str, Any]) -> None:
    read = decode_object({**broken, "resource_spans": request(span())["resourceSpans"]}).items
    assert [type(item) for item in read] == [Rejected, Span]
    assert read[0].kind == "document"  # type: ignore[union-attr]
    assert read[0].place.startswith("/resourceSpans")  # type: ignore[union-attr]


def test_nulls_are_absent_everywhere() -> None:
    nulls = {
        "resourceSpans": [
            None,
            {"resource": None, "scopeSpans": [None, {"scope": None, "spans": None}]},
            {"scopeSpans": None},
            {"scopeSpans": [{"spans": [span(name=None, kind=None, attributes=None, events=None, status=None)]}]},
        ],
        "resourceLogs": None,
    }
    assert only(nulls, True) == Span(trace_id=TRACE, span_id=SPAN)


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", '{"resourceSpans":[', "nul", b"\xff\xfe", b'{"a":"\xff"}', "[" * 100000, '{"a":' * 100000, "[1,]"],
)
def test_text_that_is_not_json_is_one_rejected_document(text: str | bytes) -> None:
    for strict in (False, True):
        batch = decode_json(text, strict=strict)
        assert [(item.kind, item.place) for item in batch.items] == [("document", "")]  # type: ignore[union-attr]
        assert not batch.recognised


def test_a_reason_holds_no_content() -> None:
    (item,) = decode_json('{"secret": "sk-abcdefghijklmnop" oops').items
    assert isinstance(item, Rejected)
    assert "sk-" not in item.reason
    assert "oops" not in item.reason


HOSTILE_VALUES: list[tuple[str, Any]] = [
    ('{"stringValue":"\\ud83e"}', "\ud83e"),
    ('{"stringValue":"a\\u0000b"}', "a\x00b"),
    ('{"stringValue":"raw \x01 control"}', "raw \x01 control"),
    ('{"doubleValue":Infinity}', math.inf),
    ('{"doubleValue":1e999}', math.inf),
    ('{"intValue":123456789012345678901234567890}', 123456789012345678901234567890),
    ('{"intValue":' + "7" * 5000 + "}", "7" * 5000),
]


@pytest.mark.parametrize(("wire", "value"), HOSTILE_VALUES)
def test_text_that_fast_parsers_refuse_is_read(wire: str, value: Any) -> None:
    text = json.dumps(request(span(attributes=[{"key": "k", "value": "HERE"}]))).replace('"HERE"', wire)
    for data in (text, text.encode("utf-8")):
        (item,) = decode_json(data).items
        assert isinstance(item, Span)
        assert item.attributes == {"k": value}


def test_a_bare_nan_is_not_a_number() -> None:
    text = json.dumps(request(span(attributes=[{"key": "k", "value": {"doubleValue": math.nan}}])))
    (item,) = decode_json(text).items
    assert isinstance(item, Span)
    assert math.isnan(item.attributes["k"])


def test_a_byte_order_mark_is_passed_over() -> None:
    text = "\ufeff" + json.dumps(request(span()))
    assert (
        decode_json(text).items == decode_json(text.encode()).items == [Span(trace_id=TRACE, span_id=SPAN, name="chat")]
    )


def test_nesting_near_the_limit_gives_a_value_or_a_rejected_record() -> None:
    for depth in (50, 150, 240, 300, 330, 900, 5000):
        value = '{"arrayValue":{"values":[' * depth + "{}" + "]}}" * depth
        text = json.dumps(request(span(attributes=[{"key": "k", "value": "HERE"}]), span())).replace('"HERE"', value)
        items = decode_json(text).items
        assert items, depth
        assert all(isinstance(item, (Span, Rejected)) for item in items)


@pytest.mark.parametrize(
    "other", [{}, {"event": "page_view"}, [], [1], 5, "x", None, True, {"name": "x", "kind": 1}, {"spans": [1]}]
)
def test_what_is_no_telemetry_is_not_recognised(other: Any) -> None:
    batch = decode_object(other)
    assert batch.items == []
    assert not batch.recognised


def test_metrics_and_empty_requests_are_recognised_and_hold_no_items() -> None:
    for obj in ({"resourceSpans": []}, {"resourceLogs": []}, {"resourceMetrics": [{"scopeMetrics": []}]}):
        batch = decode_object(obj)
        assert batch.items == []
        assert batch.recognised


def test_files_may_hold_arrays_groups_and_bare_records() -> None:
    group = request(span())["resourceSpans"][0]
    bare = {**span(), "startTimeUnixNano": "5"}
    log = {"timeUnixNano": "5", "body": {"stringValue": "x"}}
    read = decode_object([request(span()), group, bare, log, {"batches": [group]}]).items
    assert [type(item) for item in read] == [Span, Span, Span, LogRecord, Span]


@pytest.mark.parametrize("obj", [[request(span())], {"name": "x"}, 5, {**span(), "startTimeUnixNano": "5"}])
def test_a_receiver_takes_export_requests_only(obj: Any) -> None:
    batch = decode_object(obj, strict=True)
    assert [item.kind for item in batch.items] == ["document"]  # type: ignore[union-attr]
    assert not batch.recognised


def test_an_empty_request_is_fine_for_a_receiver() -> None:
    assert decode_object({}, strict=True).recognised


def test_objects_end_to_end_are_read_from_files_as_far_as_they_go() -> None:
    one = json.dumps(request(span()))
    assert [type(item) for item in decode_json(f" {one}{one}\n{one[:-5]}").items] == [Span, Span, Rejected]
    assert [type(item) for item in decode_json(one + one, strict=True).items] == [Rejected]
