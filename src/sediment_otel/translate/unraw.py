# SPDX-License-Identifier: Apache-2.0
"""The inverse of `raw`: the span, log records and content that a fact was made of, as telemetry again. Pure.

Marks (`$bytes`, `$float`, `$literal`) become values, and what `encoding` names becomes JSON text of so many
layers. The text is written compactly: its values are those of the original text, its spelling need not be.
A `raw` that is not of this project, or not of its shape, gives None; a field of the wrong kind in it is left
out. Nothing is raised but `RecursionError`, for nesting deeper than Python can follow.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ..dialects.registry import DIALECTS
from ..genai import Subject
from ..otlp.fields import KINDS, MAX_TIME, STATUSES
from ..telemetry import LogRecord, Resource, Scope, Span, SpanEvent, SpanLink
from .raw import restored

CONTRACT = 1
#: What `raw.source` can be: telemetry, or what a dialect calls a source that is none.
SOURCES = tuple({dialect.raw_source: None for dialect in DIALECTS})
_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN_ID = re.compile(r"(?!0{16})[0-9a-f]{16}")
_DIGITS = re.compile(r"[0-9]{1,20}", re.ASCII)
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)

#: Pointers of `encoding` as a tree: token → subtree; the layers of a place stand under the key None.
_Tree = dict[Any, Any]


def subject_of(raw: Mapping[str, Any]) -> Subject | None:
    """The subject that `raw` was built from; None where it is not from here or holds no span."""
    if raw.get("source") not in SOURCES or raw.get("contract") != CONTRACT or type(raw.get("span")) is not dict:
        return None
    tree = _encoding_tree(raw.get("encoding"))
    resource = _resource(raw.get("resource"), tree.get("resource", {}))
    scope = _scope(raw.get("scope"), tree.get("scope", {}), _text(raw.get("schema_url")) or None)
    span = _span(raw["span"], tree.get("span", {}), resource, scope)
    records = [
        _record(record, tree.get("log_records", {}).get(str(index), {}), span)
        for index, record in enumerate(_list(raw.get("log_records")))
        if type(record) is dict
    ]
    content = raw.get("content")
    outside = None
    if type(content) is dict:
        places = tree.get("content", {})
        outside = {key: _retext(restored(value), places.get(key, {})) for key, value in content.items()}
    return Subject(span, tuple(records), content=outside)


def unsupported_of(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of `raw.unsupported_parts`, their parts and messages as they were read."""
    tree = _encoding_tree(raw.get("encoding")).get("unsupported_parts", {})
    found = []
    for index, entry in enumerate(_list(raw.get("unsupported_parts"))):
        if type(entry) is dict and type(entry.get("at")) is str:
            places = tree.get(str(index), {})
            found.append(
                {
                    key: _retext(restored(value), places.get(key, {})) if key in ("part", "message") else value
                    for key, value in entry.items()
                }
            )
    return found


def left_out(raw: Mapping[str, Any]) -> frozenset[str]:
    """Message attributes of the span that a residual `raw` leaves to the fact: named in `encoding`, not there."""
    span = raw.get("span")
    attributes = span.get("attributes") if type(span) is dict else None
    there = attributes if type(attributes) is dict else {}
    encoding = raw.get("encoding")
    return frozenset(
        key for key in (encoding if type(encoding) is dict else {}) if not key.startswith("/") and key not in there
    )


def json_text(value: Any) -> str:
    """Compact JSON text. The infinities are written as numbers that are too large, which every reader takes for
    them; NaN has no such spelling and stands as Python and JavaScript's dumps write it. Bytes are base64 text.
    """
    spelt = _spelt(value)
    try:
        return msgspec.json.encode(spelt).decode()
    except UnicodeEncodeError:  # a lone surrogate, which no fact holds that was decoded
        return json.dumps(value, separators=(",", ":"), default=str)


def _spelt(value: Any) -> Any:
    if type(value) is float and not math.isfinite(value):
        return _SPELT[str(value)]
    if type(value) is list:
        return [_spelt(item) for item in value]
    if type(value) is dict:
        return {key: _spelt(item) for key, item in value.items()}
    return value


_SPELT = {"nan": msgspec.Raw(b"NaN"), "inf": msgspec.Raw(b"1e999"), "-inf": msgspec.Raw(b"-1e999")}


# -- encoding: which places were text --------------------------------------------------------------------------


def _encoding_tree(encoding: Any) -> _Tree:
    tree: _Tree = {}
    for place, layers in (encoding if type(encoding) is dict else {}).items():
        if type(layers) is not int or not 0 < layers <= 64:
            continue
        node = tree
        for token in _tokens(place):
            node = node.setdefault(token, {})
        node[None] = layers
    return tree


def _tokens(place: str) -> list[str]:
    if not place.startswith("/"):
        return ["span", "attributes", place]
    return [token.replace("~1", "/").replace("~0", "~") for token in place[1:].split("/")]


def _retext(value: Any, node: _Tree) -> Any:
    """The value with the places of the tree turned into text again, the innermost first. Changes it in place."""
    for token, below in node.items():
        if token is None:
            continue
        if type(value) is dict and token in value:
            value[token] = _retext(value[token], below)
        elif type(value) is list and _INDEX.fullmatch(token) and int(token) < len(value):
            value[int(token)] = _retext(value[int(token)], below)
    for _ in range(node.get(None, 0)):
        value = json_text(value)
    return value


# -- telemetry ---------------------------------------------------------------------------------------------------


def _span(raw: dict[str, Any], tree: _Tree, resource: Resource, scope: Scope) -> Span:
    status = _dict(raw.get("status"))
    dropped = _dict(raw.get("dropped"))
    kind, code = raw.get("kind"), status.get("code")
    return Span(
        trace_id=_id(raw.get("trace_id"), _TRACE_ID) or "",
        span_id=_id(raw.get("span_id"), _SPAN_ID) or "",
        parent_span_id=_id(raw.get("parent_span_id"), _SPAN_ID),
        name=_text(raw.get("name")),
        kind=kind if type(kind) is str and kind in KINDS else "unspecified",
        start_ns=_time(raw.get("start_time_unix_nano")),
        end_ns=_time(raw.get("end_time_unix_nano")),
        attributes=_attributes(raw.get("attributes"), tree.get("attributes", {})),
        events=[
            SpanEvent(
                name=_text(event.get("name")),
                time_ns=_time(event.get("time_unix_nano")),
                attributes=_attributes(event.get("attributes"), below.get("attributes", {})),
                dropped_attributes=_count(_dict(event.get("dropped")).get("attributes")),
            )
            for event, below in _items(raw.get("events"), tree.get("events", {}))
        ],
        links=[
            SpanLink(
                trace_id=link["trace_id"],
                span_id=link["span_id"],
                trace_state=_text(link.get("trace_state")),
                attributes=_attributes(link.get("attributes"), below.get("attributes", {})),
                dropped_attributes=_count(_dict(link.get("dropped")).get("attributes")),
            )
            for link, below in _items(raw.get("links"), tree.get("links", {}))
            if _id(link.get("trace_id"), _TRACE_ID) and _id(link.get("span_id"), _SPAN_ID)
        ],
        status_code=code if type(code) is str and code in STATUSES else "unset",
        status_message=_text(status.get("message")),
        trace_state=_text(raw.get("trace_state")),
        dropped_attributes=_count(dropped.get("attributes")),
        dropped_events=_count(dropped.get("events")),
        dropped_links=_count(dropped.get("links")),
        resource=resource,
        scope=scope,
    )


def _record(raw: dict[str, Any], tree: _Tree, span: Span) -> LogRecord:
    severity = raw.get("severity_number")
    return LogRecord(
        trace_id=_id(raw.get("trace_id"), _TRACE_ID),
        span_id=_id(raw.get("span_id"), _SPAN_ID),
        time_ns=_time(raw.get("time_unix_nano")),
        observed_ns=_time(raw.get("observed_time_unix_nano")),
        event_name=_text(raw.get("event_name")),
        severity_number=severity if type(severity) is int else 0,
        severity_text=_text(raw.get("severity_text")),
        body=_retext(restored(raw.get("body")), tree.get("body", {})),
        attributes=_attributes(raw.get("attributes"), tree.get("attributes", {})),
        dropped_attributes=_count(_dict(raw.get("dropped")).get("attributes")),
        resource=_resource(raw["resource"], tree.get("resource", {})) if "resource" in raw else span.resource,
        scope=_scope(raw["scope"], tree.get("scope", {}), None) if "scope" in raw else span.scope,
    )


def _resource(raw: Any, tree: _Tree) -> Resource:
    raw = _dict(raw)
    return Resource(
        attributes=_attributes(raw.get("attributes"), tree.get("attributes", {})),
        dropped_attributes=_count(_dict(raw.get("dropped")).get("attributes")),
    )


def _scope(raw: Any, tree: _Tree, schema_url: str | None) -> Scope:
    raw = _dict(raw)
    return Scope(
        name=_text(raw.get("name")),
        version=_text(raw.get("version")),
        attributes=_attributes(raw.get("attributes"), tree.get("attributes", {})),
        schema_url=schema_url,
        dropped_attributes=_count(_dict(raw.get("dropped")).get("attributes")),
    )


def _attributes(raw: Any, tree: _Tree) -> dict[str, Any]:
    """Attributes are restored one by one: a span whose only attribute is named like a mark is none."""
    return {key: _retext(restored(value), tree.get(key, {})) for key, value in _dict(raw).items()}


def _items(raw: Any, tree: _Tree) -> list[tuple[dict[str, Any], _Tree]]:
    return [(item, tree.get(str(index), {})) for index, item in enumerate(_list(raw)) if type(item) is dict]


def _dict(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []


def _text(value: Any) -> str:
    return value if type(value) is str else ""


def _id(value: Any, shape: re.Pattern[str]) -> str | None:
    return value if type(value) is str and shape.fullmatch(value) else None


def _time(value: Any) -> int | None:
    if type(value) is not str or not _DIGITS.fullmatch(value):
        return None
    return int(value) if 0 < int(value) <= MAX_TIME else None


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
