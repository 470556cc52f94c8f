# SPDX-License-Identifier: Apache-2.0
"""A first look at OTLP JSON: ids, times, status and attribute keys, with values left unread.

Skipping over a string costs far less than taking it in. `read_light` is all or nothing, as `plain.read_plain`
is: None where the document is not plain OTLP JSON of traces, and the full decoder must look at it. Both
accept the same documents.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ..telemetry import Resource, Scope
from .fields import SPAN_ID_BYTES, Unreadable, read_id, read_time
from .json_form import read_status
from .plain import PlainPair, PlainRequest, PlainSpan, are_ids, resource_of, scope_of


class LightSpan(msgspec.Struct, gc=False):
    """A span with its attribute values as the JSON of an AnyValue, unread, in the order of their keys."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    start_ns: int | None
    end_ns: int | None
    failed: bool
    has_events: bool
    keys: tuple[str, ...]
    pairs: list[PlainPair[Raw]]
    resource: Resource
    scope: Scope

    def text(self, place: int | None) -> str | None:
        """The text of the attribute at that place; None where there is none, or the value is no text."""
        if place is None:
            return None
        try:
            return _text(self.pairs[place].value).stringValue
        except msgspec.MsgspecError:
            return None

    def size(self, place: int | None) -> int:
        """How many bytes of JSON the attribute's value has; 0 where there is none."""
        return 0 if place is None else len(memoryview(self.pairs[place].value))


class _Text(msgspec.Struct, gc=False):
    stringValue: str | None = None


_text = msgspec.json.Decoder(_Text).decode
_decode = msgspec.json.Decoder(PlainRequest[Raw]).decode


def read_light(data: bytes) -> list[LightSpan] | None:
    """The spans of an OTLP JSON document at a glance, or None if the full decoder must look at it."""
    try:
        if not data.isascii():
            data.decode()
        found: list[LightSpan] = []
        for group in _decode(data).resourceSpans:
            resource = resource_of(bytes(group.resource), group.schemaUrl, False)
            for scoped in group.scopeSpans:
                scope = scope_of(bytes(scoped.scope), scoped.schemaUrl, False)
                found += [_light(span, resource, scope) for span in scoped.spans]
        return found
    except (msgspec.MsgspecError, ValueError, Unreadable, RecursionError):
        return None


def _light(span: PlainSpan[Raw], resource: Resource, scope: Scope) -> LightSpan:
    trace_id, span_id = span.traceId, span.spanId
    parent = read_id(span.parentSpanId, SPAN_ID_BYTES, True) if span.parentSpanId else ""
    if len(trace_id) != 32 or len(span_id) != 16 or parent is None or not are_ids(trace_id, span_id):
        raise Unreadable("not as OTLP/JSON writes it")
    return LightSpan(
        trace_id.lower(),
        span_id.lower(),
        parent or None,
        span.name,
        read_time(span.startTimeUnixNano, True),
        read_time(span.endTimeUnixNano, True),
        bool(span.status) and read_status(span.status, True)[0] == "error",
        bool(span.events),
        tuple([pair.key for pair in span.attributes]),
        span.attributes,
        resource,
        scope,
    )
