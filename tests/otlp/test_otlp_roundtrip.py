# SPDX-License-Identifier: Apache-2.0
"""Properties: what is encoded decodes to the same, both ways of reading agree, and nothing ever raises."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sediment_otel.otlp import (
    decode_json,
    decode_object,
    decode_protobuf,
    encode_json,
    encode_protobuf_logs,
    encode_protobuf_traces,
)
from sediment_otel.otlp.fields import KINDS, STATUSES
from sediment_otel.otlp.plain import read_plain
from sediment_otel.telemetry import Batch, LogRecord, Rejected, Resource, Scope, Span, SpanEvent, SpanLink

FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
ANY_TEXT = st.text(st.characters(), max_size=12)  # surrogates and NUL included
WIRE_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


def values(text: st.SearchStrategy[str], integers: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    leaves = text | integers | st.booleans() | st.none() | st.floats(allow_nan=False) | st.binary(max_size=8)
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8
    )


def hex_id(size: int) -> st.SearchStrategy[str]:
    return st.binary(min_size=size, max_size=size).filter(any).map(bytes.hex)


TIMES = st.none() | st.integers(1, 2**64 - 1)
COUNTS = st.integers(0, 2**32 - 1)


def records(text: st.SearchStrategy[str], integers: st.SearchStrategy[int]) -> tuple[Any, Any]:
    attributes = st.dictionaries(text, values(text, integers), max_size=4)
    urls = st.none() | text.filter(bool)
    resources = st.builds(Resource, attributes=attributes, schema_url=urls, dropped_attributes=COUNTS)
    scopes = st.builds(
        Scope, name=text, version=text, attributes=attributes, schema_url=urls, dropped_attributes=COUNTS
    )
    events = st.builds(SpanEvent, name=text, time_ns=TIMES, attributes=attributes, dropped_attributes=COUNTS)
    links = st.builds(
        SpanLink,
        trace_id=hex_id(16),
        span_id=hex_id(8),
        trace_state=text,
        attributes=attributes,
        dropped_attributes=COUNTS,
    )
    spans = st.builds(
        Span,
        trace_id=hex_id(16),
        span_id=hex_id(8),
        parent_span_id=st.none() | hex_id(8),
        name=text,
        kind=st.sampled_from(KINDS),
        start_ns=TIMES,
        end_ns=TIMES,
        attributes=attributes,
        events=st.lists(events, max_size=2),
        links=st.lists(links, max_size=2),
        status_code=st.sampled_from(STATUSES),
        status_message=text,
        trace_state=text,
        dropped_attributes=COUNTS,
        dropped_events=COUNTS,
        dropped_links=COUNTS,
        resource=resources,
        scope=scopes,
    )
    logs = st.builds(
        LogRecord,
        trace_id=st.none() | hex_id(16),
        span_id=st.none() | hex_id(8),
        time_ns=TIMES,
        observed_ns=TIMES,
        event_name=text,
        severity_number=st.integers(0, 24),
        severity_text=text,
        body=values(text, integers),
        attributes=attributes.map(
            lambda each: {k: v for k, v in each.items() if k not in ("event.name", "event_name")}
        ),
        dropped_attributes=COUNTS,
        resource=resources,
        scope=scopes,
    )
    return spans, logs


JSON_SPANS, JSON_LOGS = records(ANY_TEXT, st.integers())
WIRE_SPANS, WIRE_LOGS = records(WIRE_TEXT, st.integers(-(2**63), 2**63 - 1))


@FEW
@given(st.lists(JSON_SPANS, max_size=3), st.lists(JSON_LOGS, max_size=2))
def test_json_gives_back_what_was_encoded(spans: list[Span], logs: list[LogRecord]) -> None:
    obj = encode_json([*spans, *logs])
    for strict in (False, True):
        assert decode_object(obj, strict=strict).items == [*spans, *logs]
        assert decode_json(json.dumps(obj), strict=strict).items == [*spans, *logs]


@FEW
@given(st.lists(WIRE_SPANS, max_size=3))
def test_protobuf_gives_back_the_spans_that_were_encoded(spans: list[Span]) -> None:
    data = encode_protobuf_traces(spans)
    assert decode_protobuf(data, signal="traces", strict=True).items == spans
    if spans:
        assert decode_protobuf(data).items == spans


@FEW
@given(st.lists(WIRE_LOGS, max_size=3))
def test_protobuf_gives_back_the_log_records_that_were_encoded(logs: list[LogRecord]) -> None:
    assert decode_protobuf(encode_protobuf_logs(logs), signal="logs", strict=True).items == logs


def test_nan_survives_both_encodings() -> None:
    span = Span(trace_id="ab" * 16, span_id="cd" * 8, attributes={"n": math.nan})
    for batch in (decode_object(encode_json([span])), decode_protobuf(encode_protobuf_traces([span]))):
        (read,) = batch.items
        assert isinstance(read, Span)
        assert math.isnan(read.attributes["n"])


def test_protobuf_keeps_what_it_cannot_hold_as_near_as_it_can() -> None:
    span = Span(trace_id="ab" * 16, span_id="cd" * 8, attributes={"big": 2**70, "half": "a\ud83e"})
    (read,) = decode_protobuf(encode_protobuf_traces([span])).items
    assert isinstance(read, Span)
    assert read.attributes == {"big": str(2**70), "half": "a\ufffd"}


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def paths(obj: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    inner = obj.items() if isinstance(obj, dict) else enumerate(obj) if isinstance(obj, list) else ()
    for key, value in inner:
        found.extend(paths(value, (*path, key)))
    return found


def put(obj: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = obj.copy()
    copy[path[0]] = put(copy[path[0]], path[1:], value)
    return copy


def well_formed(batch: Batch) -> None:
    for item in batch.items:
        assert isinstance(item, (Span, LogRecord, Rejected))
        if isinstance(item, Span):
            assert len(bytes.fromhex(item.trace_id)) == 16
            assert len(bytes.fromhex(item.span_id)) == 8
            assert isinstance(item.attributes, dict)
            assert item.kind in KINDS


@FEW
@given(st.data(), st.lists(JSON_SPANS, min_size=1, max_size=2), st.lists(JSON_LOGS, max_size=1), JSON_LIKE)
def test_a_document_with_any_part_replaced_never_raises_and_both_ways_agree(
    data: st.DataObject, spans: list[Span], logs: list[LogRecord], junk: Any
) -> None:
    obj = encode_json([*spans, *logs])
    changed = put(obj, data.draw(st.sampled_from(paths(obj))), junk)
    text = json.dumps(changed)
    for strict in (False, True):
        well_formed(decode_object(changed, strict=strict))
        well_formed(decode_json(text, strict=strict))
    for strict in (False, True):
        fast = read_plain(text, strict)
        if fast is not None:
            slow = decode_object(json.loads(text), strict=strict).items
            assert repr(slow) == repr(fast)  # repr: NaN equals itself


@FEW
@given(st.data(), st.lists(WIRE_SPANS, min_size=1, max_size=2), st.lists(WIRE_LOGS, min_size=1, max_size=2))
def test_mutated_bytes_never_raise(data: st.DataObject, spans: list[Span], logs: list[LogRecord]) -> None:
    for original in (
        json.dumps(encode_json([*spans, *logs])).encode(),
        encode_protobuf_traces(spans),
        encode_protobuf_logs(logs),
    ):
        at = data.draw(st.integers(0, max(0, len(original) - 1)))
        cut = original[:at]
        changed = cut + data.draw(st.binary(max_size=3)) + original[at + data.draw(st.integers(0, 3)) :]
        for each in (cut, changed):
            well_formed(decode_json(each))
            for signal in (None, "traces", "logs"):
                well_formed(decode_protobuf(each, signal=signal, strict=bool(at % 2)))  # type: ignore[arg-type]


@given(st.binary(max_size=60))
def test_any_bytes_never_raise(data: bytes) -> None:
    well_formed(decode_json(data))
    well_formed(decode_json(data, strict=True))
    for signal in (None, "traces", "logs"):
        well_formed(decode_protobuf(data, signal=signal))  # type: ignore[arg-type]


@given(JSON_LIKE)
def test_any_json_never_raises(obj: Any) -> None:
    for each in (
        obj,
        [obj],
        {"resourceSpans": obj},
        {"resourceLogs": [obj]},
        {"context": {"trace_id": obj}, "kind": obj},
    ):
        well_formed(decode_object(each))
        well_formed(decode_object(each, strict=True))
