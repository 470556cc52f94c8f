# SPDX-License-Identifier: Apache-2.0
"""The fast way through OTLP JSON of traces, as every current exporter writes it.

`read_plain(data, strict)` returns the spans of a document, or None if anything in it is not exactly as the current
OTLP/JSON mapping writes it (camel case, hex ids, lists of pairs, known fields). It is all or nothing: None costs one
look, and the general reader (`json_form`) then reads the whole document. Both give the same spans; a test holds them
together. The parser checks names and types while it reads; the one thing that it does not keep is an integer of more
than 64 bits in a value of any type, which comes out as a float, and then the general reader is asked.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec
import orjson
from msgspec import UNSET, Raw, UnsetType

from ..telemetry import Resource, Scope, Span, SpanEvent, SpanLink
from .fields import KINDS, SPAN_ID_BYTES, STATUS_OF, Unreadable, read_count, read_id, read_time
from .json_form import read_events, read_links, read_resource, read_scope
from .parse import ParseError, parse_json
from .values import read_value

V = TypeVar("V")


class PlainPair(msgspec.Struct, Generic[V], forbid_unknown_fields=True, gc=False):
    """An attribute; `V` is what its value is read as."""

    key: str
    value: V


class PlainSpan(msgspec.Struct, Generic[V], forbid_unknown_fields=True, gc=False):
    """A span as OTLP/JSON writes it."""

    traceId: str
    spanId: str
    name: str = ""
    parentSpanId: str | None = None
    kind: int = 0
    startTimeUnixNano: str | int | None = None
    endTimeUnixNano: str | int | None = None
    attributes: list[PlainPair[V]] = []
    events: Any = None
    status: Any = None
    droppedAttributesCount: Any = None
    droppedEventsCount: Any = None
    droppedLinksCount: Any = None
    traceState: str | None = None
    flags: Any = None
    links: Any = None


class _ScopeSpans(msgspec.Struct, Generic[V], forbid_unknown_fields=True, gc=False):
    scope: Raw = Raw()
    spans: list[PlainSpan[V]] = []
    schemaUrl: str | None = None


class _ResourceSpans(msgspec.Struct, Generic[V], forbid_unknown_fields=True, gc=False):
    resource: Raw = Raw()
    scopeSpans: list[_ScopeSpans[V]] = []
    schemaUrl: str | None = None


class PlainRequest(msgspec.Struct, Generic[V], forbid_unknown_fields=True, gc=False):
    """An export request of traces."""

    resourceSpans: list[_ResourceSpans[V]]


class _Value(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An AnyValue; one of these is set."""

    stringValue: str | UnsetType = UNSET
    intValue: Any = UNSET
    doubleValue: Any = UNSET
    arrayValue: Any = UNSET
    boolValue: Any = UNSET
    kvlistValue: Any = UNSET
    bytesValue: Any = UNSET


_decode = msgspec.json.Decoder(PlainRequest[_Value]).decode
_STATUS = frozenset({"code", "message"})
_REFUSED = (ValueError, KeyError, TypeError, AttributeError, Unreadable, RecursionError)


def read_plain(data: bytes | str, strict: bool = False) -> list[Span] | None:
    """The spans of an OTLP JSON document, or None if the general reader must look at it."""
    try:
        spans: list[Span] = []
        for group in _decode(data).resourceSpans:
            resource = resource_of(bytes(group.resource), group.schemaUrl, strict)
            for scoped in group.scopeSpans:
                scope = scope_of(bytes(scoped.scope), scoped.schemaUrl, strict)
                for span in scoped.spans:
                    spans.append(_span(span, resource, scope, strict))
        return spans
    except _REFUSED:  # what the parser refuses is a ValueError
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
    _exact(orjson.loads(text))
    try:
        return parse_json(text)
    except ParseError as error:
        raise Unreadable(error.reason) from None


_LARGEST_SHARED = 64 * 1024


def _span(span: PlainSpan[_Value], resource: Resource, scope: Scope, strict: bool) -> Span:
    trace_id, span_id, parent = span.traceId, span.spanId, span.parentSpanId
    if len(trace_id) != 32 or len(span_id) != 16 or not are_ids(trace_id, span_id):
        raise Unreadable("not as OTLP/JSON writes it")
    if parent is not None:
        parent = read_id(parent, SPAN_ID_BYTES, True)
        if parent is None:
            raise Unreadable("not as OTLP/JSON writes it")
    kind = span.kind
    if not 0 <= kind <= 5:
        raise Unreadable("not as OTLP/JSON writes it")
    attributes: dict[str, Any] = {}
    for pair in span.attributes:
        value = pair.value
        text = value.stringValue
        if text is not UNSET:
            attributes[pair.key] = text
        elif type(number := value.intValue) is str and number.isdecimal() and len(number) < 20:
            attributes[pair.key] = int(number)
        elif type(number := value.doubleValue) is float:
            attributes[pair.key] = number
        else:
            attributes[pair.key] = _value(value, strict)
    events: list[SpanEvent] = []
    links: list[SpanLink] = []
    lost_events = lost_links = 0
    if span.events is not None:
        events, lost_events = read_events(_exact(span.events), strict)
    if span.links is not None:
        links, lost_links = read_links(_exact(span.links), strict)
    lost, code, message = _NOTHING_LOST, "unset", ""
    counts = (span.droppedAttributesCount, span.droppedEventsCount, span.droppedLinksCount)
    if counts != _UNKNOWN:
        attributes_lost, events_lost, links_lost = (read_count(count, True) for count in counts)
        lost = attributes_lost, events_lost, links_lost
    if span.status:
        code, message = _status(span.status)
    elif span.status is not None and type(span.status) is not dict:
        raise Unreadable("an unknown status")
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
        status_code=code,
        status_message=message,
        trace_state=span.traceState or "",
        dropped_attributes=lost[0],
        dropped_events=lost[1] + lost_events,
        dropped_links=lost[2] + lost_links,
        resource=resource,
        scope=scope,
    )


_UNKNOWN = (None, None, None)
_NOTHING_LOST = (0, 0, 0)


def are_ids(trace_id: str, span_id: str) -> bool:
    """Whether these, of 32 and 16 characters, are hex and not all zero (an id of zeros is no id)."""
    try:
        return len(bytes.fromhex(trace_id + span_id)) == 24 and trace_id != _NO_TRACE and span_id != _NO_SPAN
    except ValueError:
        return False


_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16


def _status(status: Any) -> tuple[str, str]:
    code, message = status.get("code"), status.get("message")
    found = STATUS_OF.get(code or 0) if type(code) in (int, str, type(None)) else None
    if found is None or not _STATUS.issuperset(status) or not (message is None or type(message) is str):
        raise Unreadable("an unknown status")
    return found, message or ""


def _value(value: _Value, strict: bool) -> Any:
    """A value that is no text; a list is mostly one of texts. Else the general reader's, where no digit was lost."""
    array = value.arrayValue
    if array is not UNSET:
        try:
            found = [item["stringValue"] for item in array["values"]]
            if _TEXTS.issuperset(map(type, found)):
                return found
        except (KeyError, TypeError):
            pass
    given = {name: inner for name in _KINDS if (inner := getattr(value, name)) is not UNSET}
    if len(given) > 1:
        raise Unreadable("not as OTLP/JSON writes it")
    return read_value(_exact(given), strict)


_KINDS = _Value.__struct_fields__
_TEXTS = frozenset({str})


def _exact(value: Any) -> Any:
    if not _is_exact(value):
        raise Unreadable("a number that is not exact")
    return value


def _is_exact(value: Any) -> bool:
    """Whether no whole number inside came out of the parser as a float."""
    if type(value) is dict:
        if type(value.get("intValue")) is float or type(value.get("int_value")) is float:
            return False
        value = value.values()
    elif type(value) is not list:
        return type(value) is not float or -_EXACT < value < _EXACT
    return all(type(item) is str or _is_exact(item) for item in value)


#: Floats from here on may stand for whole numbers of more than 64 bits.
_EXACT = 2.0**63
