# SPDX-License-Identifier: Apache-2.0
"""The light look at a span or log record that the leaf rule and the joins need. Pure.

Far cheaper than reading: for the current conventions it looks whether a message attribute is there and not
empty; only spans of other dialects, and spans with events, are read in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dialects import gen_ai
from ..dialects.registry import (
    detect,
    read,
    record_dialect,
    session_keys,
    shows_no_sign,
    span_join_id,
    user_keys,
)
from ..genai import Detection, Subject
from ..otlp.light import LightSpan
from ..settings import Settings
from ..telemetry import LogRecord, Span
from ..vocabulary import SpanRole
from . import identity
from .call import is_failed
from .layout import layout_of_keys
from .select import Glimpse

_EMPTY_TEXTS = frozenset({"", "[]", "null", "{}", '""'})


def carries(value: Any) -> bool:
    """Whether a message attribute holds anything at all (cut text counts: it was a message)."""
    if value is None:
        return False
    if type(value) is str:
        return value not in _EMPTY_TEXTS and value.strip() not in _EMPTY_TEXTS if len(value) < 16 else True
    try:
        return len(value) > 0
    except TypeError:
        return True


def glimpse_span(ordinal: int, span: Span, settings: Settings) -> Glimpse:
    """A span as the leaf rule sees it, without its log records."""
    detection = detect(span)
    session = session_of(span.attributes, settings, detection.dialect)
    value, source = session if session is not None else (None, "")
    user, user_source = user_of(span.attributes, detection.dialect) or (None, "")
    if detection.role is not SpanRole.CALL:
        return Glimpse(
            ordinal,
            span.span_id,
            span.parent_span_id,
            detection.role,
            session=value,
            session_source=source,
            user=user,
            user_source=user_source,
        )
    has_output, has_message = bits(Subject(span), detection)
    return Glimpse(
        ordinal,
        span.span_id,
        span.parent_span_id,
        SpanRole.CALL,
        has_output,
        has_message,
        is_failed(span),
        value,
        source,
        identity.usable_id(span_join_id(span, detection.dialect)),
        span.start_ns,
        span.end_ns,
        user,
        user_source,
    )


#: The JSON of an AnyValue of this size holds more than an empty list of messages.
_MORE_THAN_EMPTY = 48


def glimpse_light(ordinal: int, span: LightSpan, settings: Settings) -> Glimpse | None:
    """What `glimpse_span` says, from values that were not read; None where they have to be."""
    layout = layout_of_keys(span.keys)
    place = layout.place.get
    operation = span.text(place(gen_ai.OPERATION))
    if operation is None or layout.has_metadata:
        return None
    providers = (span.text(place("gen_ai.provider.name")), span.text(place("gen_ai.system")))
    service = span.resource.attributes.get("service.name")
    if not shows_no_sign(layout.has_sign, operation, providers, span.name, span.scope.name, service):
        return None
    role = gen_ai.by_operation(operation).role
    keys = layout.sessions
    if settings.session_attributes:
        keys = (*settings.session_attributes, *keys)
    session = identity.session_under(keys, ({key: span.text(place(key)) for key in keys},), []) if keys else None
    value, source = session if session is not None else (None, "")
    user, user_source = None, ""
    if layout.names_user:
        names = {key: span.text(place(key)) for key in identity.USER_KEYS}
        user, user_source = identity.own_user((names,), (), []) or (None, "")
    if role is not SpanRole.CALL:
        return Glimpse(
            ordinal,
            span.span_id,
            span.parent_span_id,
            role,
            session=value,
            session_source=source,
            user=user,
            user_source=user_source,
        )
    if span.size(place(gen_ai.OUTPUT_MESSAGES)) < _MORE_THAN_EMPTY:
        return None
    return Glimpse(
        ordinal,
        span.span_id,
        span.parent_span_id,
        SpanRole.CALL,
        True,
        True,
        span.failed or ("error.type" in layout.place and span.text(place("error.type")) != ""),
        value,
        source,
        identity.usable_id(span.text(place("gen_ai.response.id"))),
        span.start_ns,
        span.end_ns,
        user,
        user_source,
    )


def bits(subject: Subject, detection: Detection) -> tuple[bool, bool]:
    """Whether the subject carries output, and whether it carries any message."""
    attributes = subject.span.attributes
    has_output = carries(attributes.get(gen_ai.OUTPUT_MESSAGES))
    has_input = carries(attributes.get(gen_ai.INPUT_MESSAGES))
    if has_output:
        return True, True
    reading = read(subject, detection)
    has_output = reading.output is not None
    return has_output, has_input or has_output or reading.input is not None or reading.problem is not None


def record_bits(record: LogRecord) -> tuple[bool, bool]:
    """The same for one log record by itself."""
    blank = Span(trace_id="", span_id="")
    return bits(Subject(blank, records=(record,)), Detection(gen_ai.NAME, SpanRole.CALL, ""))


def session_of(attributes: Mapping[str, Any], settings: Settings, dialect: str = "") -> tuple[str, str] | None:
    """The session that attributes name themselves, with its key."""
    return identity.own_session((attributes,), settings.session_attributes, session_keys(dialect), [])


def user_of(attributes: Mapping[str, Any], dialect: str) -> tuple[str, str] | None:
    """The user that a span's attributes name themselves, with the key."""
    return identity.own_user((attributes,), user_keys(dialect), [])


def record_session(record: LogRecord, settings: Settings) -> tuple[str, str] | None:
    """The session that a log record names itself, or its resource."""
    dialect = record_dialect(record)
    return session_of(record.attributes, settings, dialect) or session_of(record.resource.attributes, settings, dialect)
