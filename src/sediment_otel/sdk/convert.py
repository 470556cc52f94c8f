# SPDX-License-Identifier: Apache-2.0
"""Objects of the OpenTelemetry SDK as telemetry: exactly what decoding their OTLP export gives.

In process, attributes come back frozen (tuples, mapping proxies) and enumerations may stand where text is
meant; here they become the plain values of `telemetry`. What an OTLP encoder refuses (integers past 64 bits,
lone surrogates) is kept. What it leaves out (trace flags, the trace state of links) is left out here too.

Nothing raises on what a span holds; a value that is no telemetry value becomes its text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

from ..otlp.fields import KINDS, STATUSES
from ..otlp.json_form import ZERO_SPAN_ID, event_name
from ..telemetry import LogRecord, Resource, Scope, Span, SpanEvent, SpanLink

_SCALARS = frozenset({str, bool, int, float, bytes, type(None)})
_KIND_OF = {name.upper(): name for name in KINDS}
#: Resources and scopes are few and shared by all spans: each is converted once.
_REMEMBERED = 64


def value_of(value: Any) -> Any:
    """An attribute value or body as a plain value."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is tuple or kind is list:
        return [value_of(item) for item in value]
    if kind is dict:
        return {str(key): value_of(item) for key, item in value.items()}
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, Sequence):
        return [value_of(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): value_of(item) for key, item in value.items()}
    return _text_of(value)


def _text_of(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # an object whose own `__str__` fails
        return f"<{type(value).__name__}>"


def attributes_of(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Attributes as a plain dict, in their order."""
    if not attributes:
        return {}
    # The SDK's mapping walks through Python code for each item; its copy is a plain dict.
    copy = getattr(attributes, "copy", None)
    found: dict[str, Any] = copy() if copy is not None else dict(attributes)
    for key, item in found.items():
        if type(item) not in _SCALARS:
            found[key] = value_of(item)
    return found


class Converter:
    """Converts spans and log records; remembers the resources and scopes that it has seen."""

    def __init__(self) -> None:
        self._resources: dict[int, tuple[Any, Resource]] = {}
        self._scopes: dict[int, tuple[Any, Scope]] = {}

    def span(self, span: ReadableSpan) -> Span:
        """One span. Raises `ValueError` where it has no context: such a span cannot be named."""
        context = span.get_span_context()
        if context is None:
            raise ValueError("the span has no context")
        status = span.status
        state = context.trace_state
        parent = span.parent
        parent_id = format(parent.span_id, "016x") if parent is not None else None
        return Span(
            trace_id=format(context.trace_id, "032x"),
            span_id=format(context.span_id, "016x"),
            parent_span_id=parent_id if parent_id != ZERO_SPAN_ID else None,
            name=span.name if type(span.name) is str else _text_of(span.name),
            kind=_KIND_OF.get(span.kind.name, KINDS[0]),
            start_ns=span.start_time or None,
            end_ns=span.end_time or None,
            attributes=attributes_of(span.attributes),
            events=[
                SpanEvent(
                    name=event.name,
                    time_ns=event.timestamp or None,
                    attributes=attributes_of(event.attributes),
                    dropped_attributes=event.dropped_attributes,
                )
                for event in span.events
            ],
            links=[
                SpanLink(
                    trace_id=format(link.context.trace_id, "032x"),
                    span_id=format(link.context.span_id, "016x"),
                    attributes=attributes_of(link.attributes),
                    dropped_attributes=link.dropped_attributes,
                )
                for link in span.links
            ],
            status_code=STATUSES[status.status_code.value] if status is not None else STATUSES[0],
            status_message=(status.description or "") if status is not None else "",
            trace_state=",".join(f"{key}={item}" for key, item in state.items()) if state else "",
            dropped_attributes=span.dropped_attributes,
            dropped_events=span.dropped_events,
            dropped_links=span.dropped_links,
            resource=self._resource(span.resource),
            scope=self._scope(span.instrumentation_scope),
        )

    def record(self, readable: Any) -> LogRecord:
        """One log record: what a log processor or a log exporter is given."""
        record = readable.log_record
        attributes = attributes_of(record.attributes)
        severity = getattr(record.severity_number, "value", 0) or 0
        return LogRecord(
            trace_id=format(record.trace_id, "032x") if record.trace_id else None,
            span_id=format(record.span_id, "016x") if record.span_id else None,
            time_ns=record.timestamp or None,
            observed_ns=record.observed_timestamp or None,
            event_name=event_name(record.event_name or "", attributes),
            severity_number=severity if 0 <= severity <= 24 else 0,
            severity_text=record.severity_text or "",
            body=value_of(record.body),
            attributes=attributes,
            dropped_attributes=getattr(readable, "dropped_attributes", 0),
            resource=self._resource(getattr(readable, "resource", None)),
            scope=self._scope(getattr(readable, "instrumentation_scope", None)),
        )

    def _resource(self, resource: Any) -> Resource:
        if resource is None:
            return Resource()
        known = self._resources.get(id(resource))
        if known is None:
            converted = Resource(attributes=attributes_of(resource.attributes), schema_url=resource.schema_url or None)
            known = _remember(self._resources, resource, converted)
        return known[1]

    def _scope(self, scope: Any) -> Scope:
        if scope is None:
            return Scope()
        known = self._scopes.get(id(scope))
        if known is None:
            converted = Scope(
                name=scope.name or "",
                version=scope.version or "",
                attributes=attributes_of(scope.attributes),
                schema_url=scope.schema_url or None,
            )
            known = _remember(self._scopes, scope, converted)
        return known[1]


def _remember(table: dict[int, tuple[Any, Any]], source: Any, converted: Any) -> tuple[Any, Any]:
    """Keep the conversion together with its source, so that the source's identity stays its own."""
    if len(table) >= _REMEMBERED:
        table.clear()
    table[id(source)] = source, converted
    return table[id(source)]


def waits_for_parent(span: ReadableSpan) -> bool:
    """Whether the parent of the span lives in this process, so that it may still be seen ending."""
    parent: SpanContext | None = span.parent
    return parent is not None and not parent.is_remote
