# SPDX-License-Identifier: Apache-2.0
"""OTLP JSON, as a parser left it, to telemetry.

`read_request(obj, items, place, strict)` appends every span and log record of an export request (or of a
`TracesData` / `LogsData` file line) to `items`, in the order of the document, and says whether the object is one.
A record that breaks the data model becomes a `Rejected` with its JSON Pointer; its siblings are read. Field
names in camelCase and snake_case; unknown fields are passed over; the older `instrumentationLibrary*` names are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sediment_otel.telemetry import LogRecord, Rejected, Resource, Scope, Span, SpanEvent, SpanLink

from .fields import (
    KIND_OF,
    SPAN_ID_BYTES,
    STATUS_OF,
    TRACE_ID_BYTES,
    Unreadable,
    read_count,
    read_enum,
    read_id,
    read_severity,
    read_text,
    read_time,
)
from .values import read_attributes, read_value

Item = Span | LogRecord | Rejected
_RecordReader = Callable[[dict[str, Any], Resource, Scope, bool], "Span | LogRecord"]

ZERO_TRACE_ID = "0" * 32
ZERO_SPAN_ID = "0" * 16
TOO_DEEP = "nested too deeply"
_NO_SCOPE = Scope()
_NO_RESOURCE = Resource()


def pick(obj: dict[str, Any], *names: str) -> Any:
    """The first of the fields that is there and not null."""
    for name in names:
        value = obj.get(name)
        if value is not None:
            return value
    return None


def read_request(obj: dict[str, Any], items: list[Item], place: str, strict: bool) -> bool:
    """Append the records of a request to `items`; False if the object is none."""
    recognised = False
    for name, groups in obj.items():
        signal = _SIGNALS.get(name)
        if signal is None or (strict and name in _LENIENT_ONLY):
            continue
        recognised = True
        if groups is None or signal == "metrics":
            continue
        here = f"{place}/{name}"
        if type(groups) is not list:
            items.append(Rejected(kind="document", place=here, reason="not a list"))
            continue
        for index, group in enumerate(groups):
            read_group(group, signal, items, f"{here}/{index}", strict)
    return recognised


def read_group(group: Any, signal: str, items: list[Item], place: str, strict: bool) -> None:
    """One ResourceSpans or ResourceLogs."""
    if type(group) is not dict:
        if group is not None:
            items.append(Rejected(kind="document", place=place, reason="not an object"))
        return
    _, inner_names, record_names, reader = _PARTS[signal]
    try:
        resource = read_resource(pick(group, "resource"), group, strict)
    except (Unreadable, RecursionError) as error:
        items.append(Rejected(kind="document", place=f"{place}/resource", reason=_reason(error)))
        return
    for inner_name in inner_names:
        scopes = group.get(inner_name)
        if scopes is None:
            continue
        here = f"{place}/{inner_name}"
        if type(scopes) is not list:
            items.append(Rejected(kind="document", place=here, reason="not a list"))
            continue
        for index, scoped in enumerate(scopes):
            if type(scoped) is not dict:
                if scoped is not None:
                    items.append(Rejected(kind="document", place=f"{here}/{index}", reason="not an object"))
                continue
            try:
                scope = read_scope(pick(scoped, *_SCOPE_NAMES), scoped, strict)
            except (Unreadable, RecursionError) as error:
                items.append(Rejected(kind="document", place=f"{here}/{index}/scope", reason=_reason(error)))
                continue
            for record_name in record_names:
                records = scoped.get(record_name)
                if records is None:
                    continue
                if type(records) is list:
                    _read_records(records, reader, resource, scope, items, f"{here}/{index}/{record_name}", strict)
                else:
                    items.append(Rejected(kind="document", place=f"{here}/{index}/{record_name}", reason="not a list"))


def _read_records(
    records: list[Any],
    reader: _RecordReader,
    resource: Resource,
    scope: Scope,
    items: list[Item],
    place: str,
    strict: bool,
) -> None:
    append = items.append
    for index, record in enumerate(records):
        try:
            append(reader(record, resource, scope, strict))
        except (Unreadable, RecursionError, AttributeError) as error:
            append(rejected(record, "span" if reader is read_span else "log", f"{place}/{index}", error))


def rejected(record: Any, kind: str, place: str, error: Exception) -> Rejected:
    """What is still known of a record that cannot be read."""
    if type(record) is not dict:
        return Rejected(kind=kind, place=place, reason="not an object")
    name = record.get("name")
    return Rejected(
        kind=kind,
        place=place,
        reason=_reason(error),
        trace_id=read_id(pick(record, "traceId", "trace_id"), TRACE_ID_BYTES, False) or None,
        span_id=read_id(pick(record, "spanId", "span_id"), SPAN_ID_BYTES, False) or None,
        name=name if type(name) is str else "",
    )


def _reason(error: Exception) -> str:
    return TOO_DEEP if isinstance(error, RecursionError) else getattr(error, "reason", "a field has the wrong type")


def read_resource(resource: Any, group: dict[str, Any], strict: bool) -> Resource:
    """The resource of a group, with the group's schema URL."""
    schema_url = pick(group, "schemaUrl", "schema_url")
    if type(resource) is not dict:
        if strict and resource is not None:
            raise Unreadable("resource is not an object")
        resource = {}
    if not resource and not schema_url:
        return _NO_RESOURCE
    attributes, lost = read_attributes(resource.get("attributes"), strict)
    dropped = read_count(pick(resource, *_DROPPED), strict)
    return Resource(
        attributes=attributes,
        schema_url=read_text(schema_url, "schemaUrl", strict) or None,
        dropped_attributes=dropped + lost,
    )


def read_scope(scope: Any, scoped: dict[str, Any], strict: bool) -> Scope:
    """The scope of a group, with the group's schema URL."""
    schema_url = pick(scoped, "schemaUrl", "schema_url")
    if type(scope) is not dict:
        if strict and scope is not None:
            raise Unreadable("scope is not an object")
        scope = {}
    if not scope and not schema_url:
        return _NO_SCOPE
    attributes, lost = read_attributes(scope.get("attributes"), strict)
    dropped = read_count(pick(scope, *_DROPPED), strict)
    return Scope(
        name=read_text(scope.get("name"), "the scope's name", strict),
        version=read_text(scope.get("version"), "the scope's version", strict),
        attributes=attributes,
        schema_url=read_text(schema_url, "schemaUrl", strict) or None,
        dropped_attributes=dropped + lost,
    )


def read_span(span: dict[str, Any], resource: Resource, scope: Scope, strict: bool) -> Span:
    """One span. Raises `Unreadable` if it has no usable ids or, with `strict`, breaks the data model."""
    get = span.get
    trace_id = read_id(get("traceId") or get("trace_id"), TRACE_ID_BYTES, strict)
    span_id = read_id(get("spanId") or get("span_id"), SPAN_ID_BYTES, strict)
    if not trace_id:
        raise Unreadable("the trace id is invalid" if trace_id is None else "the trace id is missing or zero")
    if not span_id:
        raise Unreadable("the span id is invalid" if span_id is None else "the span id is missing or zero")
    parent = read_id(get("parentSpanId") or get("parent_span_id"), SPAN_ID_BYTES, strict)
    if parent is None and strict:
        raise Unreadable("the parent span id is invalid")
    attributes, lost = read_attributes(get("attributes"), strict)
    kind = get("kind")
    status = get("status")
    status_code, status_message = read_status(status, strict) if status else ("unset", "")
    events, lost_events = read_events(get("events"), strict) if "events" in span else ([], 0)
    links, lost_links = read_links(get("links"), strict) if "links" in span else ([], 0)
    start, end = get("startTimeUnixNano"), get("endTimeUnixNano")
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent or None,
        name=read_text(get("name"), "the name", strict),
        kind=KIND_OF[kind] if type(kind) is int and 0 <= kind <= 5 else read_enum(kind, KIND_OF, strict),
        start_ns=read_time(get("start_time_unix_nano") if start is None else start, strict),
        end_ns=read_time(get("end_time_unix_nano") if end is None else end, strict),
        attributes=attributes,
        events=events,
        links=links,
        status_code=status_code,
        status_message=status_message,
        trace_state=read_text(pick(span, "traceState", "trace_state"), "traceState", strict),
        dropped_attributes=read_count(pick(span, *_DROPPED), strict) + lost,
        dropped_events=read_count(pick(span, "droppedEventsCount", "dropped_events_count"), strict) + lost_events,
        dropped_links=read_count(pick(span, "droppedLinksCount", "dropped_links_count"), strict) + lost_links,
        resource=resource,
        scope=scope,
    )


def read_status(status: Any, strict: bool) -> tuple[str, str]:
    """Code and message."""
    if type(status) is not dict:
        if strict:
            raise Unreadable("status is not an object")
        return read_enum(status, STATUS_OF, False), ""
    code = read_enum(pick(status, "code", "statusCode", "status_code"), STATUS_OF, strict)
    return code, read_text(pick(status, "message", "description"), "the status message", strict)


def read_events(events: Any, strict: bool) -> tuple[list[SpanEvent], int]:
    """The events of a span, and how many could not be used."""
    out: list[SpanEvent] = []
    if type(events) is not list:
        if events is None:
            return out, 0
        if strict:
            raise Unreadable("events are not a list")
        return out, 1
    for event in events:
        if type(event) is not dict:
            if strict:
                raise Unreadable("an event is not an object")
            continue
        attributes, lost = read_attributes(event.get("attributes"), strict)
        dropped = read_count(pick(event, *_DROPPED), strict)
        out.append(
            SpanEvent(
                name=read_text(event.get("name"), "an event's name", strict),
                time_ns=read_time(pick(event, "timeUnixNano", "time_unix_nano"), strict),
                attributes=attributes,
                dropped_attributes=dropped + lost,
            )
        )
    return out, len(events) - len(out)


def read_links(links: Any, strict: bool) -> tuple[list[SpanLink], int]:
    """The links of a span, and how many could not be used. A link may point nowhere (zero ids)."""
    out: list[SpanLink] = []
    if type(links) is not list:
        if links is None:
            return out, 0
        if strict:
            raise Unreadable("links are not a list")
        return out, 1
    for link in links:
        if type(link) is not dict:
            if strict:
                raise Unreadable("a link is not an object")
            continue
        trace_id = read_id(pick(link, "traceId", "trace_id"), TRACE_ID_BYTES, strict)
        span_id = read_id(pick(link, "spanId", "span_id"), SPAN_ID_BYTES, strict)
        if trace_id is None or span_id is None:
            if strict:
                raise Unreadable("a link has an invalid id")
            continue
        attributes, lost = read_attributes(link.get("attributes"), strict)
        dropped = read_count(pick(link, *_DROPPED), strict)
        out.append(
            SpanLink(
                trace_id=trace_id or ZERO_TRACE_ID,
                span_id=span_id or ZERO_SPAN_ID,
                trace_state=read_text(pick(link, "traceState", "trace_state"), "traceState", strict),
                attributes=attributes,
                dropped_attributes=dropped + lost,
            )
        )
    return out, len(links) - len(out)


def read_log(record: dict[str, Any], resource: Resource, scope: Scope, strict: bool) -> LogRecord:
    """One log record. Ids are optional; an invalid one counts as absent unless `strict`."""
    get = record.get
    trace_id = read_id(get("traceId") or get("trace_id"), TRACE_ID_BYTES, strict)
    span_id = read_id(get("spanId") or get("span_id"), SPAN_ID_BYTES, strict)
    if strict and (trace_id is None or span_id is None):
        raise Unreadable("an id is invalid")
    attributes, lost = read_attributes(get("attributes"), strict)
    body = get("body")
    return LogRecord(
        trace_id=trace_id or None,
        span_id=span_id or None,
        time_ns=read_time(pick(record, "timeUnixNano", "time_unix_nano"), strict),
        observed_ns=read_time(pick(record, "observedTimeUnixNano", "observed_time_unix_nano"), strict),
        event_name=event_name(read_text(pick(record, "eventName", "event_name"), "eventName", strict), attributes),
        severity_number=read_severity(pick(record, "severityNumber", "severity_number"), strict),
        severity_text=read_text(pick(record, "severityText", "severity_text"), "severityText", strict),
        body=None if body is None else read_value(body, strict),
        attributes=attributes,
        dropped_attributes=lost + read_count(pick(record, *_DROPPED), strict),
        resource=resource,
        scope=scope,
    )


def event_name(field: str, attributes: dict[str, Any]) -> str:
    """The name of an event: its field, else the attribute that older producers wrote."""
    if field:
        return field
    for key in ("event.name", "event_name"):
        name = attributes.get(key)
        if type(name) is str and name:
            return name
    return ""


_SIGNALS = {
    "resourceSpans": "traces",
    "resource_spans": "traces",
    "resourceLogs": "logs",
    "resource_logs": "logs",
    "resourceMetrics": "metrics",
    "resource_metrics": "metrics",
    "batches": "traces",
}
_DROPPED = ("droppedAttributesCount", "dropped_attributes_count")
_SCOPE_NAMES = ("scope", "instrumentationLibrary", "instrumentation_library")
_LENIENT_ONLY = frozenset({"batches"})
_PARTS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], _RecordReader]] = {
    "traces": (
        "span",
        ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans"),
        ("spans",),
        read_span,
    ),
    "logs": (
        "log",
        ("scopeLogs", "scope_logs", "instrumentationLibraryLogs", "instrumentation_library_logs"),
        ("logRecords", "log_records", "logs"),
        read_log,
    ),
}
SCOPED_FIELDS = {name: signal for signal, (_, names, _, _) in _PARTS.items() for name in names}
