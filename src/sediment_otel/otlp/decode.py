# SPDX-License-Identifier: Apache-2.0
"""One document to one `Batch`, whatever form of telemetry it holds.

Strict (receivers): an OTLP export request and nothing else. Lenient (files): also one ResourceSpans or
ResourceLogs by itself, a bare span, an array of any of these, the Python SDK's console dumps and the
JavaScript SDK's objects. Never raises because of the content.
"""

from __future__ import annotations

from typing import Any

from sediment_otel.telemetry import Batch, Rejected, Resource, Scope

from .dumps import read_dump
from .fields import Unreadable
from .json_form import SCOPED_FIELDS, TOO_DEEP, Item, read_group, read_log, read_request, read_span, rejected
from .parse import ParseError, parse_json, parse_several
from .plain import read_plain


def decode_json(data: bytes | str, *, strict: bool = False) -> Batch:
    """Telemetry of one JSON text; text that is not JSON gives one `Rejected` of kind "document"."""
    spans = read_plain(data, strict)
    if spans is not None:
        return Batch(items=spans)  # type: ignore[arg-type]  # a list of spans that nobody else has
    try:
        obj = parse_json(data)
    except ParseError as error:
        return _decode_several(data, error) if not strict else _unreadable(error)
    return decode_object(obj, strict=strict)


def _unreadable(error: ParseError) -> Batch:
    return Batch(items=[Rejected(kind="document", place="", reason=error.reason)], recognised=False)


def _decode_several(data: bytes | str, error: ParseError) -> Batch:
    """A text that is no JSON as a whole: objects one after another, as far as they go."""
    items: list[Item] = []
    recognised = False
    try:
        for number, obj in enumerate(parse_several(data)):
            batch = decode_object(obj)
            items.extend(batch.items)
            recognised = recognised or batch.recognised
            if not number and not batch.recognised:
                return _unreadable(error)
    except ParseError as later:
        items.append(Rejected(kind="document", place="", reason=later.reason))
    return Batch(items=items, recognised=recognised) if items or recognised else _unreadable(error)


def decode_object(obj: Any, *, strict: bool = False) -> Batch:
    """The same for a text that is parsed already."""
    items: list[Item] = []
    try:
        recognised = _read(obj, items, "", strict)
    except RecursionError:
        items.append(Rejected(kind="document", place="", reason=TOO_DEEP))
        recognised = True
    return Batch(items=items, recognised=recognised)


def _read(obj: Any, items: list[Item], place: str, strict: bool) -> bool:
    if type(obj) is dict:
        if read_request(obj, items, place, strict):
            return True
        if strict:
            if obj:
                items.append(Rejected(kind="document", place=place, reason="not an OTLP export request"))
            return not obj
        return _read_single(obj, items, place)
    if strict:
        items.append(Rejected(kind="document", place=place, reason="not an OTLP export request"))
        return False
    if type(obj) is list:
        found = [_read(each, items, f"{place}/{index}", strict) for index, each in enumerate(obj)]
        return any(found)
    return False


def _read_single(obj: dict[str, Any], items: list[Item], place: str) -> bool:
    """An object that is one record, or one group of them."""
    for name, signal in SCOPED_FIELDS.items():
        if name in obj:
            read_group(obj, signal, items, place, False)
            return True
    for kind, marks in (("span", _SPAN_MARKS), ("log", _LOG_MARKS)):
        if not marks.isdisjoint(obj):
            try:
                reader = read_span if kind == "span" else read_log
                items.append(reader(obj, Resource(), Scope(), False))
            except (Unreadable, RecursionError) as error:
                items.append(rejected(obj, kind, place, error))
            return True
    return read_dump(obj, items, place)


_SPAN_MARKS = frozenset({"startTimeUnixNano", "start_time_unix_nano", "endTimeUnixNano", "end_time_unix_nano"})
_LOG_MARKS = frozenset({"timeUnixNano", "observedTimeUnixNano", "time_unix_nano", "observed_time_unix_nano"})
