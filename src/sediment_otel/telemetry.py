# SPDX-License-Identifier: Apache-2.0
"""What comes in: spans and log records in the OTLP data model, one shape for files, wire and SDK objects.

Values of attributes and bodies are plain Python: `str`, `bool`, `int` (any size), `float` (NaN and the
infinities included), `bytes`, `None`, `list` and `dict[str, ...]`. Strings may hold NUL and lone
surrogates: the translation decides what becomes of them. Ids are lower-case hex. Times are nanoseconds
since the Unix epoch; an unset time (absent, zero or negative on the wire) is `None`.

Nothing here changes after it was decoded.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Value: TypeAlias = Any
Attributes: TypeAlias = "dict[str, Any]"


class Resource(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who emitted the telemetry. `schema_url` is the resource-level one."""

    attributes: Attributes = {}
    schema_url: str | None = None
    dropped_attributes: int = 0


class Scope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The instrumentation scope. `schema_url` is the scope-level one."""

    name: str = ""
    version: str = ""
    attributes: Attributes = {}
    schema_url: str | None = None
    dropped_attributes: int = 0


class SpanEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A timed annotation of a span."""

    name: str = ""
    time_ns: int | None = None
    attributes: Attributes = {}
    dropped_attributes: int = 0


class SpanLink(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pointer from a span to another span."""

    trace_id: str
    span_id: str
    trace_state: str = ""
    attributes: Attributes = {}
    dropped_attributes: int = 0


class Span(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One span. `kind` and `status_code` are the lower-case names of OTLP ("client", "error")."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str = ""
    kind: str = "unspecified"
    start_ns: int | None = None
    end_ns: int | None = None
    attributes: Attributes = {}
    events: list[SpanEvent] = []
    links: list[SpanLink] = []
    status_code: str = "unset"
    status_message: str = ""
    trace_state: str = ""
    dropped_attributes: int = 0
    dropped_events: int = 0
    dropped_links: int = 0
    resource: Resource = Resource()
    scope: Scope = Scope()


class LogRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One log record. `event_name` is the field, else the attribute `event.name` (as the record has it)."""

    trace_id: str | None = None
    span_id: str | None = None
    time_ns: int | None = None
    observed_ns: int | None = None
    event_name: str = ""
    severity_number: int = 0
    severity_text: str = ""
    body: Value = None
    attributes: Attributes = {}
    dropped_attributes: int = 0
    resource: Resource = Resource()
    scope: Scope = Scope()


class Rejected(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record that could not be read. It costs only itself.

    `kind` is "span", "log" or "document"; `place` says where in the document (a JSON Pointer or byte
    offset), `reason` why, without any content. Ids stand here as far as they were readable.
    """

    kind: str
    place: str
    reason: str
    trace_id: str | None = None
    span_id: str | None = None
    name: str = ""


class Batch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one document (a request, a line, a message) decodes to.

    `items` keeps the order of the document: `Span`, `LogRecord` and `Rejected`, as they stand.
    `recognised` is False if nothing in the document looked like telemetry.
    """

    items: list[Span | LogRecord | Rejected]
    recognised: bool = True
