# SPDX-License-Identifier: Apache-2.0
"""What SDKs print of their own objects: the Python console exporters and the JavaScript SDK's objects.

`read_dump(obj, items, place)` appends the span or log record that the object is and says whether it is one.

Python writes ids with `0x`, ISO times, `SpanKind.CLIENT` and plain attributes. JavaScript writes times as
`[seconds, nanoseconds]` and numbers the span kinds differently from OTLP: 0 is internal, 2 is client. Numbers as
times are told apart by size (seconds, milliseconds, microseconds, nanoseconds).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from sediment_otel.telemetry import LogRecord, Rejected, Resource, Scope, Span, SpanEvent, SpanLink

from .fields import (
    KIND_OF,
    MAX_TIME,
    SPAN_ID_BYTES,
    TRACE_ID_BYTES,
    Unreadable,
    read_count,
    read_enum,
    read_id,
    read_severity,
    read_text,
    time_of_iso,
)
from .json_form import TOO_DEEP, ZERO_SPAN_ID, ZERO_TRACE_ID, Item, event_name, pick, read_status

JS_KIND_OF: dict[Any, str] = {
    **dict(enumerate(("internal", "server", "client", "producer", "consumer"))),
    **{name: kind for name, kind in KIND_OF.items() if type(name) is str},
}


def read_dump(obj: dict[str, Any], items: list[Item], place: str) -> bool:
    """Append the record that the object is; False if it is none that is known."""
    for is_one, kind, reader in _FORMS:
        if is_one(obj):
            if reader is not None:
                try:
                    items.append(reader(obj))
                except (Unreadable, RecursionError) as error:
                    items.append(_rejected(obj, kind, place, error))
            return True
    return False


def _rejected(obj: dict[str, Any], kind: str, place: str, error: Exception) -> Rejected:
    context = _js_context(obj) or _dict(obj.get("context"))
    trace_id = pick(context, "traceId", "trace_id") or pick(obj, "traceId", "trace_id")
    span_id = pick(context, "spanId", "span_id") or pick(obj, "spanId", "span_id", "id")
    return Rejected(
        kind=kind,
        place=place,
        reason=error.reason if isinstance(error, Unreadable) else TOO_DEEP,
        trace_id=read_id(trace_id, TRACE_ID_BYTES, False) or None,
        span_id=read_id(span_id, SPAN_ID_BYTES, False) or None,
        name=read_text(obj.get("name"), "", False),
    )


def _ids(trace: Any, span: Any) -> tuple[str, str]:
    trace_id, span_id = read_id(trace, TRACE_ID_BYTES, False), read_id(span, SPAN_ID_BYTES, False)
    if not trace_id or not span_id:
        raise Unreadable("the trace id or the span id is missing or invalid")
    return trace_id, span_id


def _dict(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if type(item) is dict] if type(value) is list else []


def _time(value: Any) -> int | None:
    """A time of a dump: an ISO text, a pair of seconds and nanoseconds, or a number in a unit told by its size."""
    if type(value) is list and len(value) == 2:
        seconds, nanos = value
        if type(seconds) is int and type(nanos) is int:
            return _within(int(seconds) * 10**9 + int(nanos))
        return None
    if type(value) is str:
        if not (value.isdigit() and value.isascii() and len(value) <= 20):
            return time_of_iso(value)
        value = int(value)
    if type(value) not in (int, float) or not 0 < value <= MAX_TIME or not math.isfinite(value):
        return None
    scale = next(scale for limit, scale in _UNITS if value < limit)
    if type(value) is float:
        whole = int(value)
        return whole * scale + round((value - whole) * scale)
    return int(value) * scale


_UNITS = ((1e11, 10**9), (1e14, 10**6), (1e17, 10**3), (math.inf, 1))

# Python -----------------------------------------------------------------------------------------------


def _is_python_span(obj: dict[str, Any]) -> bool:
    context = obj.get("context")
    return type(context) is dict and "trace_id" in context and ("start_time" in obj or "kind" in obj)


def _is_python_log(obj: dict[str, Any]) -> bool:
    return "body" in obj and "severity_number" in obj and ("timestamp" in obj or "observed_timestamp" in obj)


def _python_span(obj: dict[str, Any]) -> Span:
    context = _dict(obj.get("context"))
    trace_id, span_id = _ids(context.get("trace_id"), context.get("span_id"))
    status_code, status_message = read_status(obj.get("status"), False)
    links = _dicts(obj.get("links"))
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=read_id(obj.get("parent_id"), SPAN_ID_BYTES, False) or None,
        name=read_text(obj.get("name"), "", False),
        kind=read_enum(obj.get("kind"), KIND_OF, False),
        start_ns=_time(obj.get("start_time")),
        end_ns=_time(obj.get("end_time")),
        attributes=_dict(obj.get("attributes")),
        events=[
            SpanEvent(
                name=read_text(event.get("name"), "", False),
                time_ns=_time(event.get("timestamp")),
                attributes=_dict(event.get("attributes")),
            )
            for event in _dicts(obj.get("events"))
        ],
        links=[_link(_dict(link.get("context")), link) for link in links],
        status_code=status_code,
        status_message=status_message,
        trace_state=_trace_state(context.get("trace_state")),
        resource=_python_resource(obj.get("resource")),
        scope=_scope(pick(obj, "instrumentation_scope", "scope", "instrumentation_info")),
    )


def _python_log(obj: dict[str, Any]) -> LogRecord:
    attributes = _dict(obj.get("attributes"))
    return LogRecord(
        trace_id=read_id(obj.get("trace_id"), TRACE_ID_BYTES, False) or None,
        span_id=read_id(obj.get("span_id"), SPAN_ID_BYTES, False) or None,
        time_ns=_time(obj.get("timestamp")),
        observed_ns=_time(obj.get("observed_timestamp")),
        event_name=event_name(read_text(obj.get("event_name"), "", False), attributes),
        severity_number=read_severity(obj.get("severity_number"), False),
        severity_text=read_text(obj.get("severity_text"), "", False),
        body=obj.get("body"),
        attributes=attributes,
        dropped_attributes=read_count(obj.get("dropped_attributes"), False),
        resource=_python_resource(obj.get("resource")),
        scope=_scope(pick(obj, "instrumentation_scope", "scope")),
    )


def _python_resource(value: Any) -> Resource:
    resource = _dict(value)
    if "attributes" not in resource:
        return Resource(attributes={key: item for key, item in resource.items() if key != "schema_url"})
    return Resource(
        attributes=_dict(resource.get("attributes")),
        schema_url=read_text(resource.get("schema_url"), "", False) or None,
    )


_STATE = re.compile(r"\{key=([^,{}]*), value=([^{}]*)\}")


def _trace_state(value: Any) -> str:
    """The header's form of what Python prints of a trace state (`['{key=a, value=b}']`)."""
    if type(value) is not str:
        return ""
    if value.startswith("["):
        return ",".join(f"{key}={item}" for key, item in _STATE.findall(value))
    return value


# JavaScript -------------------------------------------------------------------------------------------


def _js_context(obj: dict[str, Any]) -> dict[str, Any]:
    return _dict(pick(obj, "_spanContext", "spanContext"))


def _is_js_span(obj: dict[str, Any]) -> bool:
    named = "traceId" in obj or "traceId" in _js_context(obj)
    timed = "startTime" in obj or ("timestamp" in obj and "duration" in obj)
    return named and timed and "kind" in obj


def _is_js_log(obj: dict[str, Any]) -> bool:
    if not obj.keys().isdisjoint(("hrTime", "hrTimeObserved", "_hrTime", "_hrTimeObserved")):
        return True
    return "body" in obj and "timestamp" in obj and ("severityNumber" in obj or "instrumentationScope" in obj)


def _is_metrics(obj: dict[str, Any]) -> bool:
    return "scopeMetrics" in obj or "scope_metrics" in obj


def _js_span(obj: dict[str, Any]) -> Span:
    context = _js_context(obj) or obj
    trace_id, span_id = _ids(context.get("traceId"), pick(context, "spanId", "id"))
    parent = obj.get("parentSpanId") or _dict(obj.get("parentSpanContext")).get("spanId") or obj.get("parentId")
    status_code, status_message = read_status(obj.get("status"), False)
    start = _time(pick(obj, "startTime", "timestamp"))
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=read_id(parent, SPAN_ID_BYTES, False) or None,
        name=read_text(obj.get("name"), "", False),
        kind=read_enum(obj.get("kind"), JS_KIND_OF, False),
        start_ns=start,
        end_ns=_js_end(obj, start),
        attributes=_dict(obj.get("attributes")),
        events=[
            SpanEvent(
                name=read_text(event.get("name"), "", False),
                time_ns=_time(pick(event, "time", "timestamp")),
                attributes=_dict(event.get("attributes")),
                dropped_attributes=read_count(event.get("droppedAttributesCount"), False),
            )
            for event in _dicts(obj.get("events"))
        ],
        links=[_link(_dict(link.get("context")), link) for link in _dicts(obj.get("links"))],
        status_code=status_code,
        status_message=status_message,
        trace_state=_js_trace_state(context.get("traceState")),
        dropped_attributes=_js_count(obj, "droppedAttributesCount"),
        dropped_events=_js_count(obj, "droppedEventsCount"),
        dropped_links=_js_count(obj, "droppedLinksCount"),
        resource=_js_resource(obj.get("resource")),
        scope=_scope(pick(obj, "instrumentationScope", "instrumentationLibrary", "scope")),
    )


def _js_end(obj: dict[str, Any], start: int | None) -> int | None:
    if "endTime" in obj:
        return _time(obj["endTime"])
    duration = pick(obj, "duration", "_duration")  # the console exporter's: microseconds; else a pair
    if start is None or duration is None:
        return None
    if type(duration) in (int, float) and 0 <= duration <= 1e15:
        return _within(start + round(duration * 1000))
    if type(duration) is list and len(duration) == 2 and all(type(part) is int for part in duration):
        return _within(start + duration[0] * 10**9 + duration[1])
    return None


def _within(number: Any) -> int | None:
    found = int(number)
    return found if 0 < found <= MAX_TIME else None


def _js_log(obj: dict[str, Any]) -> LogRecord:
    context = _js_context(obj) or obj
    attributes = _dict(pick(obj, "attributes", "_attributes"))
    return LogRecord(
        trace_id=read_id(context.get("traceId"), TRACE_ID_BYTES, False) or None,
        span_id=read_id(context.get("spanId"), SPAN_ID_BYTES, False) or None,
        time_ns=_time(pick(obj, "hrTime", "_hrTime", "timestamp")),
        observed_ns=_time(pick(obj, "hrTimeObserved", "_hrTimeObserved", "observedTimestamp")),
        event_name=event_name(read_text(pick(obj, "eventName", "_eventName"), "", False), attributes),
        severity_number=read_severity(pick(obj, "severityNumber", "_severityNumber"), False),
        severity_text=read_text(pick(obj, "severityText", "_severityText"), "", False),
        body=pick(obj, "body", "_body"),
        attributes=attributes,
        dropped_attributes=_js_count(obj, "droppedAttributesCount"),
        resource=_js_resource(obj.get("resource")),
        scope=_scope(pick(obj, "instrumentationScope", "instrumentationLibrary", "scope")),
    )


def _js_count(obj: dict[str, Any], name: str) -> int:
    return read_count(pick(obj, name, "_" + name), False)


def _js_trace_state(value: Any) -> str:
    if type(value) is dict:  # an object that kept its state as text
        value = pick(value, "_rawTraceState", "rawTraceState")
    return read_text(value, "", False)


def _js_resource(value: Any) -> Resource:
    """Any generation of Resource: `attributes`, `_memoizedAttributes`, `_rawAttributes` (pairs), `_attributes`."""
    resource = _dict(value)
    attributes = pick(resource, "attributes", "_memoizedAttributes", "_attributes", "_syncAttributes")
    if type(attributes) is not dict:
        attributes = {}
        pairs = resource.get("_rawAttributes")
        for pair in pairs if type(pairs) is list else []:
            if type(pair) is list and len(pair) == 2 and type(pair[0]) is str and pair[1] is not None:
                attributes.setdefault(pair[0], pair[1])  # the first detector that knows a key wins
    schema_url = read_text(pick(resource, "schemaUrl", "_schemaUrl"), "", False)
    return Resource(attributes=attributes, schema_url=schema_url or None)


def _scope(value: Any) -> Scope:
    scope = _dict(value)
    return Scope(
        name=read_text(scope.get("name"), "", False),
        version=read_text(scope.get("version"), "", False),
        attributes=_dict(scope.get("attributes")),
        schema_url=read_text(pick(scope, "schemaUrl", "schema_url"), "", False) or None,
    )


def _link(context: dict[str, Any], link: dict[str, Any]) -> SpanLink:
    return SpanLink(
        trace_id=read_id(pick(context, "traceId", "trace_id"), TRACE_ID_BYTES, False) or ZERO_TRACE_ID,
        span_id=read_id(pick(context, "spanId", "span_id"), SPAN_ID_BYTES, False) or ZERO_SPAN_ID,
        trace_state=_trace_state(pick(context, "trace_state", "traceState")),
        attributes=_dict(link.get("attributes")),
        dropped_attributes=read_count(link.get("droppedAttributesCount"), False),
    )


_Form = tuple[Callable[[dict[str, Any]], bool], str, "Callable[[dict[str, Any]], Span | LogRecord] | None"]
_FORMS: tuple[_Form, ...] = (
    (_is_python_span, "span", _python_span),
    (_is_js_span, "span", _js_span),
    (_is_python_log, "log", _python_log),
    (_is_js_log, "log", _js_log),
    (_is_metrics, "metrics", None),
)
