# SPDX-License-Identifier: Apache-2.0
"""OTLP protobuf to telemetry.

`decode_protobuf(data, signal=..., strict=...)` reads an ExportTraceServiceRequest or TracesData ("traces"), an
ExportLogsServiceRequest or LogsData ("logs"); these have the same bytes per signal. Without a signal the first
record says which it is. Never raises because of the content: a message that is not protobuf gives one
`Rejected` of kind "document". Where a single record cannot be parsed (a string that is not UTF-8, say) the
message is taken apart on the wire and only that record is rejected, with its JSON Pointer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

from google.protobuf.message import DecodeError  # type: ignore[import-untyped,unused-ignore]
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as PbLog
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as PbResource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as PbSpan
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from sediment_otel.telemetry import Batch, LogRecord, Rejected, Resource, Scope, Span, SpanEvent, SpanLink

from .fields import KINDS, SPAN_ID_BYTES, STATUSES, TRACE_ID_BYTES, Unreadable, id_of_bytes
from .json_form import TOO_DEEP, ZERO_SPAN_ID, ZERO_TRACE_ID, Item, event_name

Signal = Literal["traces", "logs"]
_NAMES = {"traces": ("resourceSpans", "scopeSpans", "spans"), "logs": ("resourceLogs", "scopeLogs", "logRecords")}


def decode_protobuf(data: bytes, *, signal: Signal | None = None, strict: bool = False) -> Batch:
    """Telemetry of one protobuf message."""
    if signal is None:
        found = guess_signal(data)
        if found is None:
            return Batch(
                items=[Rejected(kind="document", place="", reason="not an OTLP protobuf message")], recognised=False
            )
        if found == "metrics":
            return Batch(items=[])
        signal = "logs" if found == "logs" else "traces"
    items: list[Item] = []
    try:
        message = (TracesData if signal == "traces" else LogsData).FromString(data)
    except DecodeError:
        return _take_apart(data, signal, strict)
    groups = message.resource_spans if signal == "traces" else message.resource_logs
    top, middle, last = _NAMES[signal]
    for group_index, group in enumerate(groups):
        resource = _shared_resource(group.resource.SerializeToString(), group.schema_url)
        for scope_index, scoped in enumerate(group.scope_spans if signal == "traces" else group.scope_logs):
            scope = _shared_scope(scoped.scope.SerializeToString(), scoped.schema_url)
            for index, record in enumerate(scoped.spans if signal == "traces" else scoped.log_records):
                try:
                    items.append(_READ[signal](record, resource, scope, strict))
                except (Unreadable, RecursionError) as error:
                    place = f"/{top}/{group_index}/{middle}/{scope_index}/{last}/{index}"
                    items.append(_rejected(record, signal, place, error))
    return Batch(items=items)


def _rejected(record: Any, signal: str, place: str, error: Exception) -> Rejected:
    return Rejected(
        kind="span" if signal == "traces" else "log",
        place=place,
        reason=error.reason if isinstance(error, Unreadable) else TOO_DEEP,
        trace_id=id_of_bytes(record.trace_id, TRACE_ID_BYTES, False) or None,
        span_id=id_of_bytes(record.span_id, SPAN_ID_BYTES, False) or None,
        name=record.name if signal == "traces" else "",
    )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return getattr(value, kind)


def _attributes(pairs: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for pair in pairs:
        value = pair.value
        # The commonest kinds; every other kind shows "" and 0 here.
        out[pair.key] = value.string_value or value.int_value or _value(value)
    return out


def _resource(resource: Any, schema_url: str) -> Resource:
    return Resource(
        attributes=_attributes(resource.attributes),
        schema_url=schema_url or None,
        dropped_attributes=resource.dropped_attributes_count,
    )


def _scope(scope: Any, schema_url: str) -> Scope:
    return Scope(
        name=scope.name,
        version=scope.version,
        attributes=_attributes(scope.attributes),
        schema_url=schema_url or None,
        dropped_attributes=scope.dropped_attributes_count,
    )


@lru_cache(maxsize=64)
def _shared_resource(data: bytes, schema_url: str) -> Resource:
    """Equal resources are one object."""
    return _resource(PbResource.FromString(data), schema_url)


@lru_cache(maxsize=256)
def _shared_scope(data: bytes, schema_url: str) -> Scope:
    """Equal scopes are one object."""
    return _scope(InstrumentationScope.FromString(data), schema_url)


def _read_span(span: Any, resource: Resource, scope: Scope, strict: bool) -> Span:
    trace_id = id_of_bytes(span.trace_id, TRACE_ID_BYTES, strict)
    span_id = id_of_bytes(span.span_id, SPAN_ID_BYTES, strict)
    if not trace_id:
        raise Unreadable("the trace id is invalid" if trace_id is None else "the trace id is missing or zero")
    if not span_id:
        raise Unreadable("the span id is invalid" if span_id is None else "the span id is missing or zero")
    parent = id_of_bytes(span.parent_span_id, SPAN_ID_BYTES, strict)
    if parent is None and strict:
        raise Unreadable("the parent span id is invalid")
    kind, status = span.kind, span.status
    code = status.code
    links = [] if not span.links else _links(span.links, strict)
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent or None,
        name=span.name,
        kind=KINDS[kind] if 0 <= kind < len(KINDS) else KINDS[0],
        start_ns=span.start_time_unix_nano or None,
        end_ns=span.end_time_unix_nano or None,
        attributes=_attributes(span.attributes),
        events=[
            SpanEvent(
                name=event.name,
                time_ns=event.time_unix_nano or None,
                attributes=_attributes(event.attributes),
                dropped_attributes=event.dropped_attributes_count,
            )
            for event in span.events
        ],
        links=links,
        status_code=STATUSES[code] if 0 <= code < len(STATUSES) else STATUSES[0],
        status_message=status.message,
        trace_state=span.trace_state,
        dropped_attributes=span.dropped_attributes_count,
        dropped_events=span.dropped_events_count,
        dropped_links=span.dropped_links_count + len(span.links) - len(links),
        resource=resource,
        scope=scope,
    )


def _links(links: Any, strict: bool) -> list[SpanLink]:
    out = []
    for link in links:
        trace_id = id_of_bytes(link.trace_id, TRACE_ID_BYTES, strict)
        span_id = id_of_bytes(link.span_id, SPAN_ID_BYTES, strict)
        if trace_id is None or span_id is None:
            if strict:
                raise Unreadable("a link has an invalid id")
            continue
        out.append(
            SpanLink(
                trace_id=trace_id or ZERO_TRACE_ID,
                span_id=span_id or ZERO_SPAN_ID,
                trace_state=link.trace_state,
                attributes=_attributes(link.attributes),
                dropped_attributes=link.dropped_attributes_count,
            )
        )
    return out


def _read_log(record: Any, resource: Resource, scope: Scope, strict: bool) -> LogRecord:
    trace_id = id_of_bytes(record.trace_id, TRACE_ID_BYTES, strict)
    span_id = id_of_bytes(record.span_id, SPAN_ID_BYTES, strict)
    if strict and (trace_id is None or span_id is None):
        raise Unreadable("an id is invalid")
    attributes = _attributes(record.attributes)
    severity = record.severity_number
    return LogRecord(
        trace_id=trace_id or None,
        span_id=span_id or None,
        time_ns=record.time_unix_nano or None,
        observed_ns=record.observed_time_unix_nano or None,
        event_name=event_name(record.event_name, attributes),
        severity_number=severity if 0 <= severity <= 24 else 0,
        severity_text=record.severity_text,
        body=_value(record.body),
        attributes=attributes,
        dropped_attributes=record.dropped_attributes_count,
        resource=resource,
        scope=scope,
    )


_READ: dict[str, Any] = {"traces": _read_span, "logs": _read_log}

# On the wire ------------------------------------------------------------------------------------------

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """The bytes are not a protobuf message."""


def wire_fields(data: bytes | memoryview) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and value of each field of a message; a `WireError` where the bytes are none."""
    position, end = 0, len(data)
    while position < end:
        tag, position = read_varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise WireError
        if wire_type == BYTES:
            size, position = read_varint(data, position)
            if size > end - position:
                raise WireError
            yield number, wire_type, data[position : position + size]
            position += size
        elif wire_type == VARINT:
            value, position = read_varint(data, position)
            yield number, wire_type, value
        elif wire_type in (FIXED64, FIXED32):
            size = 8 if wire_type == FIXED64 else 4
            if size > end - position:
                raise WireError
            yield number, wire_type, data[position : position + size]
            position += size
        else:
            raise WireError


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The varint at the position, and the position behind it."""
    result = shift = 0
    while shift < 70:
        if position >= len(data):
            raise WireError
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
    raise WireError


def guess_signal(data: bytes) -> Literal["traces", "logs", "metrics"] | None:
    """Which request the bytes are, told by the first record in them; None if they are no OTLP message."""
    seen = False
    try:
        for number, wire_type, group in wire_fields(memoryview(data)):
            if number != 1 or wire_type != BYTES:
                return None
            for inner, inner_type, scoped in wire_fields(group):
                if inner_type != BYTES or inner not in (1, 2, 3, 1000):
                    return None
                if inner != 2:
                    if inner == 1:
                        for _ in wire_fields(scoped):
                            pass
                    seen = True
                    continue
                seen = True
                for field, field_type, record in wire_fields(scoped):
                    if field == 2 and field_type == BYTES:
                        return _signal_of_record(record)
    except WireError:
        return None
    return "traces" if seen else None


_DECISIVE: dict[tuple[int, int], Signal] = {
    (1, FIXED64): "logs",
    (11, FIXED64): "logs",
    (2, VARINT): "logs",
    (8, FIXED32): "logs",
    (7, FIXED64): "traces",
    (8, FIXED64): "traces",
    (6, VARINT): "traces",
}


_ID_SIZES = ((16, 8), (24, 12), (32, 16))  # raw, hex read as base64, hex text


def _signal_of_record(record: memoryview) -> Literal["traces", "logs", "metrics"]:
    fields: dict[tuple[int, int], Any] = {}
    for number, wire_type, value in wire_fields(record):
        if decisive := _DECISIVE.get((number, wire_type)):
            return decisive
        fields[number, wire_type] = value
    if (1, BYTES) in fields:
        identified = (len(fields[1, BYTES]), len(fields.get((2, BYTES), b""))) in _ID_SIZES
        measured = any((number, BYTES) in fields for number in (5, 7, 9, 10, 11))
        return "metrics" if measured and not identified else "traces"
    return "logs" if (5, BYTES) in fields or (6, BYTES) in fields or (9, BYTES) in fields else "traces"


def _take_apart(data: bytes, signal: Signal, strict: bool) -> Batch:
    """The records of a message that as a whole does not parse."""
    items: list[Item] = []
    top, middle, last = _NAMES[signal]
    record_type: Any = PbSpan if signal == "traces" else PbLog
    place = ""
    try:
        for group_index, group in enumerate(_repeated(data, 1)):
            place = f"/{top}/{group_index}"
            resource = _resource(PbResource.FromString(_only(group, 1)), _text(group, 3))
            for scope_index, scoped in enumerate(_repeated(group, 2)):
                place = f"/{top}/{group_index}/{middle}/{scope_index}"
                scope = _scope(InstrumentationScope.FromString(_only(scoped, 1)), _text(scoped, 3))
                for index, raw in enumerate(_repeated(scoped, 2)):
                    place = f"/{top}/{group_index}/{middle}/{scope_index}/{last}/{index}"
                    try:
                        record = record_type.FromString(raw)
                    except DecodeError:
                        items.append(_rejected_bytes(raw, signal, place))
                        continue
                    try:
                        items.append(_READ[signal](record, resource, scope, strict))
                    except (Unreadable, RecursionError) as error:
                        items.append(_rejected(record, signal, place, error))
    except (WireError, DecodeError, UnicodeDecodeError):
        reason = "not a protobuf message, or cut off"
        items.append(Rejected(kind="document", place=place, reason=reason))
    records = [item for item in items if not isinstance(item, Rejected) or item.kind != "document"]
    return Batch(items=items, recognised=bool(records))


def _repeated(data: bytes, wanted: int) -> Iterator[bytes]:
    for number, wire_type, value in wire_fields(data):
        if number == wanted and wire_type == BYTES:
            yield value


def _only(data: bytes, wanted: int) -> bytes:
    return b"".join(_repeated(data, wanted))


def _text(data: bytes, wanted: int) -> str:
    return _only(data, wanted).decode("utf-8")


def _rejected_bytes(raw: bytes, signal: str, place: str) -> Rejected:
    ids: dict[int, bytes] = {}
    try:
        for number, wire_type, value in wire_fields(raw):
            if wire_type == BYTES:
                ids[number] = value
    except WireError:
        pass
    trace, span = (1, 2) if signal == "traces" else (9, 10)
    return Rejected(
        kind="span" if signal == "traces" else "log",
        place=place,
        reason="the record is not valid protobuf (a string that is not UTF-8, nesting past the limit, or cut bytes)",
        trace_id=id_of_bytes(ids.get(trace, b""), TRACE_ID_BYTES, False) or None,
        span_id=id_of_bytes(ids.get(span, b""), SPAN_ID_BYTES, False) or None,
    )
