# SPDX-License-Identifier: Apache-2.0
"""The fast way through OTLP JSON of traces, as every current exporter writes it.

`read_plain(data, strict)` returns the spans of a document, or None if anything in it is not exactly as the current
OTLP/JSON mapping writes it (camel case, hex ids, lists of pairs, known fields). It is all or nothing: None costs one
look, and the general reader (`json_form`) then reads the whole document. Both give the same spans; a test holds them
together. The parser is orjson, the fastest there is; the one thing it does not keep is an integer of more than 64 bits,
which comes out as a float where a whole number belongs, and then the general reader is asked.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson

from ..telemetry import Resource, Scope, Span, SpanEvent, SpanLink
from .fields import KINDS, SPAN_ID_BYTES, STATUS_OF, Unreadable, read_count, read_id, read_time
from .json_form import read_events, read_links, read_resource, read_scope
from .parse import ParseError, parse_json
from .values import read_value

_GROUP = frozenset({"resource", "scopeSpans", "schemaUrl"})
_SCOPED = frozenset({"scope", "spans", "schemaUrl"})
_SPAN = frozenset(
    {
        "traceId", "spanId", "parentSpanId", "traceState", "flags", "name", "kind", "startTimeUnixNano",
        "endTimeUnixNano", "attributes", "events", "links", "status", "droppedAttributesCount", "droppedEventsCount",
        "droppedLinksCount",
    }
)  # fmt: skip
_VALUE = frozenset({"stringValue", "intValue", "boolValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue"})
_STATUS = frozenset({"code", "message"})
_REFUSED = (ValueError, KeyError, TypeError, AttributeError, Unreadable, RecursionError)


def read_plain(data: bytes | str, strict: bool = False) -> list[Span] | None:
    """The spans of an OTLP JSON document, or None if the general reader must look at it."""
    try:
        request = orjson.loads(data)
        if len(request) != 1:
            return None
        spans: list[Span] = []
        for group in _list(request["resourceSpans"]):
            if not _GROUP.issuperset(group):
                return None
            resource = resource_of(_text_of(group.get("resource")), _url(group), strict)
            for scoped in _list(group.get("scopeSpans", _NONE)):
                if not _SCOPED.issuperset(scoped):
                    return None
                scope = scope_of(_text_of(scoped.get("scope")), _url(scoped), strict)
                for span in _list(scoped.get("spans", _NONE)):
                    spans.append(_span(span, resource, scope, strict))
        return spans
    except _REFUSED:
        return None


def _list(value: Any) -> list[Any]:
    """The value, where it is a list: other empty things could be walked through as well."""
    if type(value) is not list:
        raise Unreadable("no list where one belongs")
    return value


_NONE: list[Any] = []


def _url(holder: dict[str, Any]) -> str | None:
    url = holder.get("schemaUrl")
    if url is not None and type(url) is not str:
        raise Unreadable("the schema URL is no text")
    return url


def _text_of(shared: Any) -> bytes:
    """The JSON of a resource or scope, by which equal ones are known again."""
    return b"" if shared is None else orjson.dumps(shared)


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


def _span(span: dict[str, Any], resource: Resource, scope: Scope, strict: bool) -> Span:
    if not _SPAN.issuperset(span):
        raise Unreadable("an unknown field")
    get = span.get
    trace_id, span_id = span["traceId"], span["spanId"]
    if len(trace_id) != 32 or len(span_id) != 16 or not are_ids(trace_id, span_id):
        raise Unreadable("not as OTLP/JSON writes it")
    parent = get("parentSpanId")
    parent = read_id(parent, SPAN_ID_BYTES, True) if parent is not None else ""
    kind, name, trace_state = get("kind", 0), get("name", ""), get("traceState")
    if parent is None or type(kind) is not int or not 0 <= kind <= 5 or type(name) is not str:
        raise Unreadable("not as OTLP/JSON writes it")
    attributes: dict[str, Any] = {}
    for pair in _list(get("attributes", _NONE)):
        value = pair["value"]
        text = value.get("stringValue")
        if type(text) is str:
            attributes[pair["key"]] = text
        elif type(number := value.get("intValue")) is str and number.isdecimal() and len(number) < 20:
            attributes[pair["key"]] = int(number)
        elif type(number := value.get("doubleValue")) is float:
            attributes[pair["key"]] = number
        elif "arrayValue" in value:
            attributes[pair["key"]] = _array(value, strict)
        else:
            attributes[pair["key"]] = _value(value, strict)
    "".join(attributes)  # refuses a key that is no text
    events: list[SpanEvent] = []
    links: list[SpanLink] = []
    lost_events = lost_links = 0
    if "events" in span and span["events"] is not None:
        events, lost_events = read_events(_exact(span["events"]), strict)
    if "links" in span and span["links"] is not None:
        links, lost_links = read_links(_exact(span["links"]), strict)
    lost = _NOTHING_LOST
    if not _COUNTS.isdisjoint(span):
        attributes_lost, events_lost, links_lost = (read_count(get(name), True) for name in _LOST)
        lost = attributes_lost, events_lost, links_lost
    code, message = _status(get("status"))
    if trace_state is not None and type(trace_state) is not str:
        raise Unreadable("the trace state is no text")
    return Span(
        trace_id=trace_id.lower(),
        span_id=span_id.lower(),
        parent_span_id=parent or None,
        name=name,
        kind=KINDS[kind],
        start_ns=read_time(get("startTimeUnixNano"), True),
        end_ns=read_time(get("endTimeUnixNano"), True),
        attributes=attributes,
        events=events,
        links=links,
        status_code=code,
        status_message=message,
        trace_state=trace_state or "",
        dropped_attributes=lost[0],
        dropped_events=lost[1] + lost_events,
        dropped_links=lost[2] + lost_links,
        resource=resource,
        scope=scope,
    )


_LOST = ("droppedAttributesCount", "droppedEventsCount", "droppedLinksCount")
_COUNTS = frozenset(_LOST)
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
    if not status and (status is None or type(status) is dict):
        return "unset", ""
    code, message = status.get("code"), status.get("message")
    found = STATUS_OF.get(code or 0) if type(code) in (int, str, type(None)) else None
    if found is None or not _STATUS.issuperset(status) or not (message is None or type(message) is str):
        raise Unreadable("an unknown status")
    return found, message or ""


def _value(value: dict[str, Any], strict: bool) -> Any:
    """A value that is no text: the general reader's, where nothing in it may have lost a digit."""
    if len(value) > 1 or not _VALUE.issuperset(value):
        raise Unreadable("not as OTLP/JSON writes it")
    return read_value(_exact(value), strict)


def _array(value: dict[str, Any], strict: bool) -> Any:
    """A list; most are of texts."""
    try:
        found = [item["stringValue"] for item in value["arrayValue"]["values"]]
    except (KeyError, TypeError):
        return _value(value, strict)
    return found if all(type(item) is str for item in found) else _value(value, strict)


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
