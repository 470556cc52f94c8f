# SPDX-License-Identifier: Apache-2.0
"""The fast way from OTLP JSON of traces to spans: parsed straight into types, for input that fits them.

`read_typed(data, strict)` returns the spans of a document, or None if anything in it is not exactly as the current
OTLP/JSON writes it (another spelling, another signal, an invalid id, an unknown field): then the general reader has
the word, which gives the same spans for every document that this one accepts. All or nothing; never raises.

Resources and scopes repeat on every line of a file, so they are remembered by their text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from sediment_otel.telemetry import Resource, Scope, Span

from .fields import KINDS, SPAN_ID_BYTES, STATUS_OF, Unreadable, read_count, read_id, read_time
from .json_form import read_events, read_links, read_resource, read_scope
from .parse import ParseError, parse_json
from .values import read_value

_Number = str | int | None


class _Any(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    stringValue: str | None = None
    intValue: str | int | None = None
    boolValue: bool | None = None
    doubleValue: Any = None
    arrayValue: Any = None
    kvlistValue: Any = None
    bytesValue: Any = None


class _Pair(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    key: str
    value: _Any


class _Status(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    code: int | str | None = None
    message: str | None = None


class _Span(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    traceId: str
    spanId: str
    name: str = ""
    parentSpanId: str | None = None
    traceState: str | None = None
    kind: int = 0
    flags: Any = None
    startTimeUnixNano: _Number = None
    endTimeUnixNano: _Number = None
    attributes: list[_Pair] = []
    events: Any = None
    links: Any = None
    status: _Status | None = None
    droppedAttributesCount: _Number = None
    droppedEventsCount: _Number = None
    droppedLinksCount: _Number = None


class _ScopeSpans(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    scope: msgspec.Raw = msgspec.Raw()
    spans: list[_Span] = []
    schemaUrl: str | None = None


class _ResourceSpans(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    resource: msgspec.Raw = msgspec.Raw()
    scopeSpans: list[_ScopeSpans] = []
    schemaUrl: str | None = None


class _Request(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    resourceSpans: list[_ResourceSpans]


_decode = msgspec.json.Decoder(_Request).decode


def read_typed(data: bytes | str, strict: bool = False) -> list[Span] | None:
    """The spans of an OTLP JSON document, or None if the general reader must look at it."""
    try:
        request = _decode(data)
        spans: list[Span] = []
        for group in request.resourceSpans:
            resource = resource_of(bytes(group.resource), group.schemaUrl, strict)
            for scoped in group.scopeSpans:
                scope = scope_of(bytes(scoped.scope), scoped.schemaUrl, strict)
                spans.extend([_span(span, resource, scope, strict) for span in scoped.spans])
        return spans
    except (msgspec.MsgspecError, ValueError, Unreadable, RecursionError):
        return None


@lru_cache(maxsize=64)
def resource_of(text: bytes, schema_url: str | None, strict: bool) -> Resource:
    """The resource that the JSON text of one is. Equal texts give one object. Raises `Unreadable`."""
    return read_resource(_object(text), {"schemaUrl": schema_url}, strict)


@lru_cache(maxsize=256)
def scope_of(text: bytes, schema_url: str | None, strict: bool) -> Scope:
    """The scope that the JSON text of one is. Equal texts give one object. Raises `Unreadable`."""
    return read_scope(_object(text), {"schemaUrl": schema_url}, strict)


def _object(text: bytes) -> Any:
    if not text:
        return None
    if len(text) > _LARGEST_SHARED:
        raise Unreadable("too large to be remembered")
    try:
        return parse_json(text)
    except ParseError as error:
        raise Unreadable(error.reason) from None


_LARGEST_SHARED = 64 * 1024


def _span(span: _Span, resource: Resource, scope: Scope, strict: bool) -> Span:
    trace_id, span_id = span.traceId, span.spanId
    if len(trace_id) != 32 or len(span_id) != 16 or not is_hex(trace_id) or not is_hex(span_id):
        raise Unreadable("not as OTLP/JSON writes it")
    parent = read_id(span.parentSpanId, SPAN_ID_BYTES, True) if span.parentSpanId is not None else ""
    kind = span.kind
    if parent is None or not 0 <= kind <= 5:
        raise Unreadable("not as OTLP/JSON writes it")
    attributes: dict[str, Any] = {}
    for pair in span.attributes:
        value = pair.value
        if (text := value.stringValue) is not None:
            attributes[pair.key] = text
        elif type(number := value.intValue) is str and len(number) < 20 and number.isdecimal() and number.isascii():
            attributes[pair.key] = int(number)
        else:
            attributes[pair.key] = _value(value, strict)
    status = span.status
    events, lost_events = read_events(span.events, strict) if span.events is not None else ([], 0)
    links, lost_links = read_links(span.links, strict) if span.links is not None else ([], 0)
    dropped = span.droppedAttributesCount, span.droppedEventsCount, span.droppedLinksCount
    lost = (0, 0, 0) if dropped == _NONE else tuple(read_count(count, True) for count in dropped)
    return Span(
        trace_id=trace_id.lower(),
        span_id=span_id.lower(),
        parent_span_id=parent or None,
        name=span.name,
        kind=KINDS[kind],
        start_ns=read_time(span.startTimeUnixNano, True),
        end_ns=read_time(span.endTimeUnixNano, True),
        attributes=attributes,
        events=events,
        links=links,
        status_code=_code(status.code) if status else "unset",
        status_message=(status.message or "") if status else "",
        trace_state=span.traceState or "",
        dropped_attributes=lost[0],
        dropped_events=lost[1] + lost_events,
        dropped_links=lost[2] + lost_links,
        resource=resource,
        scope=scope,
    )


_NONE = (None, None, None)


def is_hex(text: str) -> bool:
    """Hex digits that are not all zero (an id of zeros is no id)."""
    try:
        return any(bytes.fromhex(text)) and text.isalnum()
    except ValueError:
        return False


def _code(code: int | str | None) -> str:
    found = STATUS_OF.get(code or 0)
    if found is None:
        raise Unreadable("an unknown status code")
    return found


_OTHER_KINDS = ("intValue", "boolValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue")


def _value(value: _Any, strict: bool) -> Any:
    if type(value.doubleValue) is float or type(value.boolValue) is bool:
        return value.doubleValue if value.boolValue is None else value.boolValue
    for name in _OTHER_KINDS:
        inner = getattr(value, name)
        if inner is not None:
            return read_value({name: inner}, strict)
    return None
