# SPDX-License-Identifier: Apache-2.0
"""`raw`: the trace behind a fact, from the OTLP data model (contract, section 6).

Values are stored as JSON can hold them: bytes as `{"$bytes": …}`, non-finite numbers as `{"$float": …}`,
and an object of the trace that looks like one of these marks as `{"$literal": …}`. Message attributes are
stored parsed, with the tool arguments and results inside them, and `encoding` says how many layers of text
each had. Keys without a value are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from ..dialects.reading import is_message_text
from ..dialects.registry import BY_NAME, MESSAGE_ATTRIBUTES
from ..formats.parts import BY_TYPE
from ..genai import MARKS, MAX_LAYERS, Loss, NotJson, Subject, base64_text, is_too_deep, loads, peel
from ..telemetry import LogRecord, Resource, Scope, Span, SpanEvent, SpanLink
from .identity import capture_id
from .layout import ACCOUNT_IDENTITY, Layout, layout_of

HIDDEN_IDENTITY = "[REDACTED_IDENTITY]"

_PLAIN = frozenset({str, int, bool, type(None)})


def stored(value: Any) -> Any:
    """A value as `raw` holds it. Identity for what JSON holds already."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": _FLOAT_NAMES[str(value)]}
    if kind is bytes:
        return {"$bytes": base64_text(value)}
    if kind is list:
        return [item if type(item) in _PLAIN else stored(item) for item in value]
    if kind is dict:
        plain = {key: item if type(item) in _PLAIN else stored(item) for key, item in value.items()}
        return {"$literal": plain} if len(plain) == 1 and next(iter(plain)) in MARKS else plain
    if isinstance(value, Mapping):
        return stored({str(key): item for key, item in value.items()})
    if isinstance(value, (tuple, set, frozenset)):
        return stored(list(value))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return stored(float(value))
    return str(value)


_FLOAT_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def restored(value: Any) -> Any:
    """The inverse of `stored`."""
    if type(value) is list:
        return [restored(item) for item in value]
    if type(value) is dict:
        if len(value) == 1:
            key, inner = next(iter(value.items()))
            if key == "$bytes" and type(inner) is str:
                return _bytes(inner, value)
            if key == "$float" and type(inner) is str and inner in _FLOATS:
                return _FLOATS[inner]
            if key == "$literal" and type(inner) is dict:
                return {name: restored(item) for name, item in inner.items()}
        return {key: restored(item) for key, item in value.items()}
    return value


_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _bytes(text: str, otherwise: Any) -> Any:
    import base64

    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return otherwise


# -- messages, stored parsed -------------------------------------------------------------------------------

_CALL_KEYS = ("arguments", "input", "args")
_RESULT_KEYS = ("response", "result", "content", "output")
#: A part's type → the keys whose text is tool arguments or a tool result.
_TOOL_TEXT: dict[str, tuple[str, ...]] = {
    **{kind: _CALL_KEYS for kind, read in BY_TYPE.items() if read is BY_TYPE["tool_use"]},
    **{kind: _RESULT_KEYS for kind, read in BY_TYPE.items() if read is BY_TYPE["tool_result"]},
    "tool_call": ("arguments",),
    "tool_call_response": _RESULT_KEYS,
}
#: Keys whose object holds tool arguments or results in some provider's shape.
TOOL_HOLDERS = frozenset({"function", "function_call", "functionCall", "toolUse", "toolResult"})
HELD_KEYS = (*_CALL_KEYS, *_RESULT_KEYS)


def tool_keys(value: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of a part or message under which text is tool arguments or a tool result."""
    kind = value.get("type")
    keys = _TOOL_TEXT.get(kind, ()) if type(kind) is str else ()
    if kind is None and "toolCallId" in value:  # a call in a list of nothing but calls (AI SDK)
        keys = _CALL_KEYS
    if value.get("role") == "tool" and (value.get("tool_call_id") is not None or value.get("id") is not None):
        return (*keys, "content")
    return keys


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def stored_messages(value: Any, at: str, encoding: dict[str, int], name: str | None = None) -> Any:
    """A message attribute, parsed; its layers of text go to `encoding`, under `name` or its pointer `at`."""
    layers = 0
    while type(value) is str and layers < MAX_LAYERS and value.lstrip()[:1] in ("[", "{", '"'):
        try:
            value = loads(value)
        except NotJson:
            break
        layers += 1
    if layers:
        encoding[name or at] = layers
    else:
        value = _shallow(value)
    if type(value) is list:
        return [
            stored_messages(item, f"{at}/{index}", encoding)
            if type(item) is str and is_message_text(item)
            else _stored_inside(item, f"{at}/{index}", encoding)
            for index, item in enumerate(value)
        ]
    return _stored_inside(value, at, encoding)


def _shallow(value: Any) -> Any:
    """The value itself; raises `RecursionError` if it is nested deeper than a fact may be."""
    if is_too_deep(value):
        raise RecursionError
    return value


def _stored_inside(value: Any, at: str, encoding: dict[str, int]) -> Any:
    if type(value) is list:
        return [_stored_inside(item, f"{at}/{index}", encoding) for index, item in enumerate(value)]
    if type(value) is not dict:
        return stored(value)
    keys = tool_keys(value)
    found: dict[str, Any] = {}
    for key, item in value.items():
        where = f"{at}/{_escaped(key)}"
        if key in TOOL_HOLDERS and type(item) is dict:
            found[key] = _opened_tool(item, HELD_KEYS, where, encoding)
        elif type(item) is str and key in keys:
            found[key] = _peeled(item, where, encoding)
        else:
            found[key] = _stored_inside(item, where, encoding)
    return _escaped_mark(found)


def _escaped_mark(found: dict[str, Any]) -> dict[str, Any]:
    """An object that looks like a mark, escaped."""
    return {"$literal": found} if len(found) == 1 and next(iter(found)) in MARKS else found


def _opened_tool(value: dict[str, Any], keys: tuple[str, ...], at: str, encoding: dict[str, int]) -> dict[str, Any]:
    return _escaped_mark(
        {
            key: _peeled(item, f"{at}/{_escaped(key)}", encoding)
            if type(item) is str and key in keys
            else _stored_inside(item, f"{at}/{_escaped(key)}", encoding)
            for key, item in value.items()
        }
    )


def _peeled(text: str, at: str, encoding: dict[str, int]) -> Any:
    value, layers = peel(text)
    if layers:
        encoding[at] = layers
    return stored(value)


# -- the pieces of raw -------------------------------------------------------------------------------------


class Attributes:
    """How attributes are stored: sorted, message attributes parsed, account identity hidden.

    What comes out encodes as JSON does, and is not to be looked into: a dict, or a struct made for its keys.
    """

    __slots__ = ("encoding", "hide", "messages", "ready")

    def __init__(self, messages: Container[str], hide: bool, ready: Mapping[str, Any]) -> None:
        self.messages = messages
        self.hide = hide
        self.encoding: dict[str, int] = {}
        #: Span attributes whose stored form is known already (JSON text taken over as it stands).
        self.ready = ready

    def store(self, attributes: Mapping[str, Any], at: str, *, own: bool = False, layout: Layout | None = None) -> Any:
        """What encodes as the object of the stored attributes.

        `own` marks the span's attributes: their keys stand in `encoding` by name. `layout` is theirs, if it is known.
        """
        layout = layout or layout_of(attributes)
        given = layout.values(attributes)
        values = list(given)
        for place in _odd_places(tuple(map(type, given))):
            values[place] = _stored_odd(given[place])
        messages, ready = self.messages, self.ready if own else _NOTHING
        for place, key in layout.special if messages is MESSAGE_ATTRIBUTES else enumerate(layout.ordered):
            if key in ready:
                values[place] = ready[key]
                self.encoding[key] = 1
            elif key in messages:
                where = f"{at}/{_escaped(key)}"
                values[place] = stored_messages(given[place], where, self.encoding, key if own else None)
            elif key in ACCOUNT_IDENTITY and self.hide and given[place] is not None:
                values[place] = HIDDEN_IDENTITY
        return layout.pack(*values)


@lru_cache(maxsize=1024)
def _odd_places(kinds: tuple[type, ...]) -> tuple[int, ...]:
    """Where values stand that JSON may not hold as they are. Spans of one producer have the same types."""
    return tuple(place for place, kind in enumerate(kinds) if kind not in _PLAIN)


def _stored_odd(value: Any) -> Any:
    if type(value) is list and _PLAIN.issuperset(map(type, value)):
        return value
    return stored(value) if type(value) is float else stored(_shallow(value))


_NOTHING: Mapping[str, Any] = {}


def _dropped(**counts: int) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in _EMPTY}


_EMPTY: tuple[Any, ...] = (None, "", [], {})


def raw_span(span: Span, keep: Attributes, layout: Layout | None = None) -> dict[str, Any]:
    """The span of `raw`. Kind and status are lower-case names, times decimal strings."""
    found: dict[str, Any] = {"trace_id": span.trace_id, "span_id": span.span_id}
    if span.parent_span_id:
        found["parent_span_id"] = span.parent_span_id
    if span.name:
        found["name"] = span.name
    if span.kind != "unspecified":
        found["kind"] = span.kind
    if span.start_ns is not None:
        found["start_time_unix_nano"] = str(span.start_ns)
    if span.end_ns is not None:
        found["end_time_unix_nano"] = str(span.end_ns)
    if span.status_code != "unset" or span.status_message:
        found["status"] = _present(code=span.status_code, message=span.status_message)
    if span.trace_state:
        found["trace_state"] = span.trace_state
    if span.attributes:
        found["attributes"] = keep.store(span.attributes, "/span/attributes", own=True, layout=layout)
    if span.events:
        found["events"] = [_event(event, f"/span/events/{i}", keep) for i, event in enumerate(span.events)]
    if span.links:
        found["links"] = [_link(link, f"/span/links/{i}", keep) for i, link in enumerate(span.links)]
    if span.dropped_attributes or span.dropped_events or span.dropped_links:
        found["dropped"] = _dropped(
            attributes=span.dropped_attributes, events=span.dropped_events, links=span.dropped_links
        )
    return found


def _event(event: SpanEvent, at: str, keep: Attributes) -> dict[str, Any]:
    return _present(
        name=event.name,
        time_unix_nano=None if event.time_ns is None else str(event.time_ns),
        attributes=keep.store(event.attributes, f"{at}/attributes"),
        dropped=_dropped(attributes=event.dropped_attributes),
    )


def _link(link: SpanLink, at: str, keep: Attributes) -> dict[str, Any]:
    return _present(
        trace_id=link.trace_id,
        span_id=link.span_id,
        trace_state=link.trace_state,
        attributes=keep.store(link.attributes, f"{at}/attributes"),
        dropped=_dropped(attributes=link.dropped_attributes),
    )


def _resource(resource: Resource, at: str, keep: Attributes) -> dict[str, Any]:
    return _present(
        attributes=keep.store(resource.attributes, f"{at}/attributes"),
        dropped=_dropped(attributes=resource.dropped_attributes),
    )


def _scope(scope: Scope, at: str, keep: Attributes) -> dict[str, Any]:
    return _present(
        name=scope.name,
        version=scope.version,
        attributes=keep.store(scope.attributes, f"{at}/attributes"),
        dropped=_dropped(attributes=scope.dropped_attributes),
    )


class _Shared:
    """Stored forms of resources and scopes, which one batch after the other shares, already encoded.

    Remembered by object, for as long as there are few; nothing that depends on more than the object is kept.
    """

    MOST = 256

    def __init__(self, build: Callable[[Any, str, Attributes], dict[str, Any]]) -> None:
        self._build = build
        self._known: dict[tuple[int, bool], tuple[Any, Any]] = {}

    def stored(self, shared: Any, at: str, keep: Attributes) -> Any:
        """The stored form, None where nothing is in it."""
        key = (id(shared), keep.hide)
        known = self._known.get(key)
        if known is not None and known[0] is shared:
            return known[1]
        before = len(keep.encoding)
        found: Any = self._build(shared, at, keep) or None
        if len(keep.encoding) == before:
            if found is not None:
                try:
                    found = msgspec.Raw(msgspec.json.encode(found))
                except (UnicodeEncodeError, ValueError, TypeError, RecursionError):
                    return found
            if len(self._known) >= self.MOST:
                self._known.clear()
            self._known[key] = (shared, found)
        return found


_RESOURCES = _Shared(_resource)
_SCOPES = _Shared(_scope)


def _record(record: LogRecord, span: Span, at: str, keep: Attributes) -> dict[str, Any]:
    """A log record; its resource and scope stand here only where they differ from the span's.

    An empty body is a body: it may say that a message has no text.
    """
    found = _present(
        trace_id=record.trace_id,
        span_id=record.span_id,
        time_unix_nano=None if record.time_ns is None else str(record.time_ns),
        observed_time_unix_nano=None if record.observed_ns is None else str(record.observed_ns),
        event_name=record.event_name,
        severity_number=record.severity_number or None,
        severity_text=record.severity_text,
        attributes=keep.store(record.attributes, f"{at}/attributes"),
        dropped=_dropped(attributes=record.dropped_attributes),
        resource=None if record.resource == span.resource else _resource(record.resource, f"{at}/resource", keep),
        scope=None if record.scope == span.scope else _scope(record.scope, f"{at}/scope", keep),
    )
    if record.body is not None:
        found["body"] = _stored_body(record.body, f"{at}/body", keep)
    return found


def _stored_body(body: Any, at: str, keep: Attributes) -> Any:
    """A body, parsed; where it holds message attributes (the details event), these are parsed as everywhere."""
    found = stored_messages(body, at, keep.encoding)
    if type(body) is dict:
        for key in sorted(key for key in body if key in keep.messages):
            if type(body[key]) is str:
                found[key] = stored_messages(body[key], f"{at}/{_escaped(key)}", keep.encoding)
    return found


def build_raw(
    subject: Subject,
    *,
    dialect: str,
    messages: Container[str],
    hide_identity: bool,
    ready: Mapping[str, Any],
    unsupported: list[dict[str, Any]],
    losses: Sequence[Loss],
    omit: Mapping[str, int] = _NOTHING,
    layout: Layout | None = None,
) -> dict[str, Any]:
    """`raw` of a fact. `ready` are span attributes whose stored form is known; `omit` are left out (residual).

    `omit` gives the layers of text of each; they stand in `encoding` without their attribute, so that restore
    knows what was there. `layout` is that of the span's attributes, if it is known.
    """
    span = subject.span
    keep = Attributes(messages, hide_identity, ready)
    known = BY_NAME.get(dialect)
    raw: dict[str, Any] = {"source": "otel" if known is None else known.raw_source, "contract": 1, "dialect": dialect}
    if known is not None and known.raw_extra is not None:
        raw.update(known.raw_extra(subject))
    schema_url = span.scope.schema_url or span.resource.schema_url
    if schema_url:
        raw["schema_url"] = schema_url
    if omit:
        keep.encoding.update(omit)
        kept = {key: value for key, value in span.attributes.items() if key not in omit}
        span, layout = _with_attributes(span, kept), None
    raw["span"] = raw_span(span, keep, layout)
    if subject.capture_key is not None:
        raw["capture"] = {"key": subject.capture_key, "id": capture_id(subject.capture_key)}
    resource = _RESOURCES.stored(span.resource, "/resource", keep)
    if resource is not None:
        raw["resource"] = resource
    scope = _SCOPES.stored(span.scope, "/scope", keep)
    if scope is not None:
        raw["scope"] = scope
    if subject.records:
        raw["log_records"] = [
            _record(record, subject.span, f"/log_records/{index}", keep) for index, record in enumerate(subject.records)
        ]
    if subject.content:
        raw["content"] = {
            key: stored_messages(value, f"/content/{key}", keep.encoding) if key != "source" else str(value)
            for key, value in subject.content.items()
            if value is not None
        }
    entries = unsupported and [
        {
            key: _stored_inside(_shallow(item), f"/unsupported_parts/{index}/{key}", keep.encoding)
            if key in ("part", "message")
            else item
            for key, item in entry.items()
        }
        for index, entry in enumerate(unsupported)
    ]
    if keep.encoding:
        raw["encoding"] = keep.encoding
    if entries:
        raw["unsupported_parts"] = entries
    noted: Sequence[Any] = losses and [
        {"code": loss.code.value, "at": loss.at, "note": loss.note}
        if loss.note
        else {"code": loss.code.value, "at": loss.at}
        for loss in losses
    ]
    if noted:
        raw["losses"] = noted
    return raw


def _with_attributes(span: Span, attributes: dict[str, Any]) -> Span:
    return msgspec.structs.replace(span, attributes=attributes)
