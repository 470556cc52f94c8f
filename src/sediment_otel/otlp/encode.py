# SPDX-License-Identifier: Apache-2.0
"""Telemetry to OTLP: the inverse of decoding.

`encode_json(items)` gives one object with `resourceSpans` and `resourceLogs` (each only if it has records),
`encode_protobuf_traces(spans)` and `encode_protobuf_logs(records)` the request bytes. Records that follow each other
with an equal resource and scope share a group; their order stays. In JSON 64-bit integers and times are
strings, ids lower-case hex, bytes base64. Protobuf holds integers of 64 bits and no lone surrogates: a larger
integer becomes its decimal text there, a surrogate U+FFFD; everything else comes back equal.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sediment_otel.telemetry import LogRecord, Resource, Scope, Span, SpanEvent, SpanLink

from .fields import KINDS, STATUSES


def encode_json(items: Iterable[Span | LogRecord]) -> dict[str, Any]:
    """One OTLP JSON object that holds all of them."""
    records = list(items)
    out: dict[str, Any] = {}
    spans = [item for item in records if isinstance(item, Span)]
    logs = [item for item in records if isinstance(item, LogRecord)]
    if spans:
        out["resourceSpans"] = _groups(spans, "scopeSpans", "spans", _span)
    if logs:
        out["resourceLogs"] = _groups(logs, "scopeLogs", "logRecords", _log)
    return out


def _groups(
    records: Iterable[Any], middle: str, last: str, encode: Callable[[Any], dict[str, Any]]
) -> list[dict[str, Any]]:
    groups = []
    for resource, of_resource in groupby(records, key=lambda record: record.resource):
        scopes = []
        for scope, of_scope in groupby(of_resource, key=lambda record: record.scope):
            scoped = {"scope": _scope(scope), last: [encode(record) for record in of_scope]}
            scopes.append(_with(scoped, schemaUrl=scope.schema_url))
        groups.append(_with({"resource": _resource(resource), middle: scopes}, schemaUrl=resource.schema_url))
    return groups


def _with(obj: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """The object and those of the optional fields that have a value."""
    obj.update({name: value for name, value in optional.items() if value})
    return obj


def _resource(resource: Resource) -> dict[str, Any]:
    return _with(
        {"attributes": encode_attributes(resource.attributes)}, droppedAttributesCount=resource.dropped_attributes
    )


def _scope(scope: Scope) -> dict[str, Any]:
    return _with(
        {},
        name=scope.name,
        version=scope.version,
        attributes=encode_attributes(scope.attributes),
        droppedAttributesCount=scope.dropped_attributes,
    )


def _time(time: int | None) -> str | None:
    return None if time is None else str(time)


def _span(span: Span) -> dict[str, Any]:
    status = _with({}, code=STATUSES.index(span.status_code), message=span.status_message)
    return _with(
        {"traceId": span.trace_id, "spanId": span.span_id},
        traceState=span.trace_state,
        parentSpanId=span.parent_span_id,
        name=span.name,
        kind=KINDS.index(span.kind),
        startTimeUnixNano=_time(span.start_ns),
        endTimeUnixNano=_time(span.end_ns),
        attributes=encode_attributes(span.attributes),
        droppedAttributesCount=span.dropped_attributes,
        events=[_event(event) for event in span.events],
        droppedEventsCount=span.dropped_events,
        links=[_link(link) for link in span.links],
        droppedLinksCount=span.dropped_links,
        status=status,
    )


def _event(event: SpanEvent) -> dict[str, Any]:
    return _with(
        {},
        timeUnixNano=_time(event.time_ns),
        name=event.name,
        attributes=encode_attributes(event.attributes),
        droppedAttributesCount=event.dropped_attributes,
    )


def _link(link: SpanLink) -> dict[str, Any]:
    return _with(
        {"traceId": link.trace_id, "spanId": link.span_id},
        traceState=link.trace_state,
        attributes=encode_attributes(link.attributes),
        droppedAttributesCount=link.dropped_attributes,
    )


def _log(record: LogRecord) -> dict[str, Any]:
    return _with(
        {},
        timeUnixNano=_time(record.time_ns),
        observedTimeUnixNano=_time(record.observed_ns),
        severityNumber=record.severity_number,
        severityText=record.severity_text,
        body=None if record.body is None else encode_value(record.body),
        attributes=encode_attributes(record.attributes),
        droppedAttributesCount=record.dropped_attributes,
        traceId=record.trace_id,
        spanId=record.span_id,
        eventName=record.event_name,
    )


def encode_attributes(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    """The KeyValue list of a dict."""
    return [{"key": key, "value": encode_value(value)} for key, value in attributes.items()]


def encode_value(value: Any) -> dict[str, Any]:
    """The AnyValue of a plain value; `{}` for None. A value of another type raises `TypeError`."""
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else _non_finite(value)}
    if value is None:
        return {}
    if isinstance(value, bytes):
        return {"bytesValue": base64.b64encode(value).decode("ascii")}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [encode_value(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": encode_attributes(value)}}
    raise TypeError(f"a value of type {type(value).__name__} has no place in OTLP")


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


# Protobuf ---------------------------------------------------------------------------------------------


def encode_protobuf_traces(spans: Iterable[Span]) -> bytes:
    """The bytes of an ExportTraceServiceRequest (and of a TracesData)."""
    request = ExportTraceServiceRequest()
    for resource, of_resource in groupby(spans, key=lambda span: span.resource):
        group = request.resource_spans.add(schema_url=_text(resource.schema_url))
        _put_resource(group.resource, resource)
        for scope, of_scope in groupby(of_resource, key=lambda span: span.scope):
            scoped = group.scope_spans.add(schema_url=_text(scope.schema_url))
            _put_scope(scoped.scope, scope)
            for span in of_scope:
                _put_span(scoped.spans.add(), span)
    return bytes(request.SerializeToString())


def encode_protobuf_logs(records: Iterable[LogRecord]) -> bytes:
    """The bytes of an ExportLogsServiceRequest (and of a LogsData)."""
    request = ExportLogsServiceRequest()
    for resource, of_resource in groupby(records, key=lambda record: record.resource):
        group = request.resource_logs.add(schema_url=_text(resource.schema_url))
        _put_resource(group.resource, resource)
        for scope, of_scope in groupby(of_resource, key=lambda record: record.scope):
            scoped = group.scope_logs.add(schema_url=_text(scope.schema_url))
            _put_scope(scoped.scope, scope)
            for record in of_scope:
                _put_log(scoped.log_records.add(), record)
    return bytes(request.SerializeToString())


def _text(text: str | None) -> str:
    """A string that UTF-8 can hold."""
    if not text or text.isascii():
        return text or ""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _put_resource(out: Any, resource: Resource) -> None:
    out.SetInParent()
    _put_attributes(out.attributes, resource.attributes)
    out.dropped_attributes_count = _count(resource.dropped_attributes)


def _put_scope(out: Any, scope: Scope) -> None:
    out.SetInParent()
    out.name, out.version = _text(scope.name), _text(scope.version)
    _put_attributes(out.attributes, scope.attributes)
    out.dropped_attributes_count = _count(scope.dropped_attributes)


def _count(count: int) -> int:
    return min(count, 2**32 - 1)


def _put_span(out: Any, span: Span) -> None:
    out.trace_id, out.span_id = bytes.fromhex(span.trace_id), bytes.fromhex(span.span_id)
    if span.parent_span_id:
        out.parent_span_id = bytes.fromhex(span.parent_span_id)
    out.trace_state, out.name = _text(span.trace_state), _text(span.name)
    out.kind = KINDS.index(span.kind)
    out.start_time_unix_nano, out.end_time_unix_nano = span.start_ns or 0, span.end_ns or 0
    _put_attributes(out.attributes, span.attributes)
    out.dropped_attributes_count = _count(span.dropped_attributes)
    for event in span.events:
        put = out.events.add(name=_text(event.name), time_unix_nano=event.time_ns or 0)
        _put_attributes(put.attributes, event.attributes)
        put.dropped_attributes_count = _count(event.dropped_attributes)
    out.dropped_events_count = _count(span.dropped_events)
    for link in span.links:
        put = out.links.add(trace_id=bytes.fromhex(link.trace_id), span_id=bytes.fromhex(link.span_id))
        put.trace_state = _text(link.trace_state)
        _put_attributes(put.attributes, link.attributes)
        put.dropped_attributes_count = _count(link.dropped_attributes)
    out.dropped_links_count = _count(span.dropped_links)
    out.status.code, out.status.message = STATUSES.index(span.status_code), _text(span.status_message)


def _put_log(out: Any, record: LogRecord) -> None:
    out.trace_id, out.span_id = bytes.fromhex(record.trace_id or ""), bytes.fromhex(record.span_id or "")
    out.time_unix_nano, out.observed_time_unix_nano = record.time_ns or 0, record.observed_ns or 0
    out.severity_number, out.severity_text = record.severity_number, _text(record.severity_text)
    out.event_name = _text(record.event_name)
    if record.body is not None:
        _put_value(out.body, record.body)
    _put_attributes(out.attributes, record.attributes)
    out.dropped_attributes_count = _count(record.dropped_attributes)


def _put_attributes(out: Any, attributes: dict[str, Any]) -> None:
    for key, value in attributes.items():
        _put_value(out.add(key=_text(key)).value, value)


def _put_value(out: Any, value: Any) -> None:
    if isinstance(value, str):
        out.string_value = _text(value)
    elif isinstance(value, bool):
        out.bool_value = value
    elif isinstance(value, int):
        if -(2**63) <= value < 2**63:
            out.int_value = value
        else:
            out.string_value = str(value)
    elif isinstance(value, float):
        out.double_value = value
    elif value is None:
        out.SetInParent()
    elif isinstance(value, bytes):
        out.bytes_value = value
    elif isinstance(value, (list, tuple)):
        out.array_value.SetInParent()
        for item in value:
            _put_value(out.array_value.values.add(), item)
    elif isinstance(value, dict):
        out.kvlist_value.SetInParent()
        _put_attributes(out.kvlist_value.values, value)
    else:
        raise TypeError(f"a value of type {type(value).__name__} has no place in OTLP")
