# SPDX-License-Identifier: Apache-2.0
"""The registry of dialects: which are known, which one speaks on a span, and reading through all of them.

Two orders come from one table. Detection asks the most specific dialect first, the current conventions
last. Content is taken from the current conventions first (contract, section 3), then from the others in
the order of the table.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

from ..genai import Detection, Reading, Subject
from ..telemetry import LogRecord, Span
from ..vocabulary import SpanRole
from . import (
    agent_framework,
    ai_sdk,
    anthropic_sdk,
    claude_code,
    codex,
    copilot,
    gemini_cli,
    gen_ai,
    google_adk,
    google_genai,
    langfuse,
    litellm,
    logfire,
    opencode,
    openinference,
    openlit,
    openllmetry,
    pydantic_ai,
    scn,
    semantic_kernel,
    strands,
)
from .base import Dialect, LogCall, Reference, Source
from .indexed import MessageKeys
from .salvage import salvaged

#: One row per dialect, the most specific first. The current conventions come last.
DIALECTS: tuple[Dialect, ...] = (
    ai_sdk.DIALECT,
    logfire.DIALECT,
    litellm.DIALECT,
    langfuse.DIALECT,
    openinference.DIALECT,
    openlit.DIALECT,
    openllmetry.DIALECT,
    google_adk.DIALECT,
    google_genai.DIALECT,
    strands.DIALECT,
    pydantic_ai.DIALECT,
    semantic_kernel.DIALECT,
    agent_framework.DIALECT,
    copilot.DIALECT,
    claude_code.DIALECT,
    codex.DIALECT,
    opencode.DIALECT,
    scn.DIALECT,
    gemini_cli.DIALECT,
    anthropic_sdk.DIALECT,
    gen_ai.DIALECT,
)

BY_NAME: dict[str, Dialect] = {dialect.name: dialect for dialect in DIALECTS}
_SPECIFIC = tuple(dialect.detect for dialect in DIALECTS if dialect is not gen_ai.DIALECT)
_OTHER_SOURCES: tuple[Source, ...] = tuple(
    source for dialect in DIALECTS if dialect is not gen_ai.DIALECT for source in dialect.sources
)
SOURCES: tuple[Source, ...] = gen_ai.DIALECT.sources + _OTHER_SOURCES
_RECORD_TESTS = tuple(dialect.wants_record for dialect in DIALECTS if dialect.wants_record is not None)
_LENDING = tuple(dialect.lends_ids for dialect in DIALECTS if dialect.lends_ids is not None)

#: Keys, anywhere in the telemetry, whose JSON text holds messages and is stored parsed in `raw`.
MESSAGE_ATTRIBUTES: frozenset[str] = frozenset().union(*(dialect.message_attributes for dialect in DIALECTS))
#: Prefixes under which some dialect flattens messages into numbered attributes.
INDEXED: tuple[str, ...] = tuple(dict.fromkeys(prefix for dialect in DIALECTS for prefix in dialect.indexed))
#: Per dialect: the keys whose JSON text is stored parsed in `raw`, where it has more than the common ones.
MESSAGE_KEYS: dict[str, Container[str]] = {
    dialect.name: MessageKeys(MESSAGE_ATTRIBUTES, dialect.indexed) for dialect in DIALECTS if dialect.indexed
}
#: Session and user keys of the products, for spans whose own dialect does not name one.
PRODUCT_SESSION_KEYS: tuple[str, ...] = tuple(
    dict.fromkeys(k for d in DIALECTS if not d.private_session_keys for k in d.session_keys)
)

_NO_DIALECT = Detection("none", SpanRole.OTHER, "no dialect knows this span")


def detect(span: Span) -> Detection:
    """Which dialect speaks on the span and what the span is; `none` and OTHER where no dialect knows it."""
    attributes = span.attributes
    operation = attributes.get(gen_ai.OPERATION)
    if type(operation) is str and shows_no_sign(
        not SIGN_KEYS.isdisjoint(attributes),
        operation,
        (attributes.get("gen_ai.provider.name"), attributes.get("gen_ai.system")),
        span.name,
        span.scope.name,
        span.resource.attributes.get("service.name"),
    ):
        return gen_ai.by_operation(operation)
    for test in _SPECIFIC:
        found = test(span)
        if found is not None:
            return found
    return gen_ai.detect(span) or _NO_DIALECT


def _signs(kind: str) -> frozenset[str]:
    return frozenset(sign for dialect in DIALECTS for sign in getattr(dialect.signs, kind))


#: Attribute keys that no span of the current conventions alone has.
SIGN_KEYS = _signs("keys")
_SIGN_NAMES = _signs("names")
_SIGN_OPERATIONS = _signs("operations")
_SIGN_PROVIDERS = tuple(_signs("providers"))
_SIGN_SCOPES = tuple(_signs("scopes"))
_SIGN_SERVICES = _signs("services")


def shows_no_sign(
    has_sign_key: bool, operation: str, providers: tuple[Any, Any], name: str, scope: str, service: Any
) -> bool:
    """Whether a span that names an operation shows no sign of any dialect but the current conventions.

    `has_sign_key`: whether any of its keys is one of `SIGN_KEYS`. `providers` are the values of
    `gen_ai.provider.name` and `gen_ai.system`.
    """
    return (
        not has_sign_key
        and name not in _SIGN_NAMES
        and operation not in _SIGN_OPERATIONS
        and not scope.startswith(_SIGN_SCOPES)
        and not (type(service) is str and service in _SIGN_SERVICES)
        and providers[0] not in _SIGN_PROVIDERS
        and providers[1] not in _SIGN_PROVIDERS
    )


def wanted(record: LogRecord) -> bool:
    """Whether any dialect takes content or scalars from such a log record."""
    return any(test(record) for test in _RECORD_TESTS)


def record_dialect(record: LogRecord) -> str:
    """The most specific dialect that takes something from such a log record; blank where there is none."""
    return next((d.name for d in DIALECTS if d.wants_record is not None and d.wants_record(record)), "")


def log_calls(records: Iterable[LogRecord]) -> Iterator[tuple[str, LogCall]]:
    """The calls that records without a span describe, each record asked of the most specific dialect that wants it."""
    rest = list(records)
    for dialect in DIALECTS:
        if dialect.log_calls is not None and dialect.wants_record is not None and rest:
            mine = [record for record in rest if dialect.wants_record(record)]
            if mine:
                rest = [record for record in rest if not dialect.wants_record(record)]
                for call in dialect.log_calls(mine):
                    yield dialect.name, call


def references(subject: Subject) -> list[Reference]:
    """The content of a call that stands outside the telemetry, as its dialect and the current conventions name it."""
    dialect = BY_NAME.get((subject.detection or detect(subject.span)).dialect)
    found = list(gen_ai.references(subject))
    if dialect is not None and dialect.references is not None:
        found += dialect.references(subject)
    return found


def names_its_span(record: LogRecord) -> bool:
    """Whether the span that a log record names, if any, can be the call that it belongs to."""
    known = BY_NAME.get(record_dialect(record))
    return known is None or not known.records_beside


def join_id(record: LogRecord) -> Any:
    """What says which call a log record belongs to: the response id, or its dialect's own id of the call."""
    value = record.attributes.get("gen_ai.response.id")
    if value is None:
        known = BY_NAME.get(record_dialect(record))
        keys = known.join_keys if known is not None else ()
        value = next((record.attributes[key] for key in keys if record.attributes.get(key) is not None), None)
    return value


def span_join_id(span: Span, dialect: str) -> Any:
    """The same for a span."""
    value = span.attributes.get("gen_ai.response.id")
    known = BY_NAME.get(dialect) if value is None else None
    keys = known.join_keys if known is not None else ()
    return value if not keys else next((span.attributes[k] for k in keys if span.attributes.get(k) is not None), None)


def session_keys(dialect: str) -> tuple[str, ...]:
    """The products' session keys that count on what a dialect wrote."""
    known = BY_NAME.get(dialect)
    return known.session_keys if known is not None and known.session_keys else PRODUCT_SESSION_KEYS


def user_keys(dialect: str) -> tuple[str, ...]:
    """The keys under which a dialect names the user."""
    known = BY_NAME.get(dialect)
    return known.user_keys if known is not None else ()


def lends_ids(span: Span) -> bool:
    """Whether the span is no call itself but may supply an id that its parent call lacks."""
    return any(test(span) for test in _LENDING)


def _table(dialect: Dialect) -> dict[str, tuple[str, ...]]:
    table = dict(gen_ai.DIALECT.fields)
    if dialect is not gen_ai.DIALECT:
        for field, keys in dialect.fields.items():
            table[field] = table.get(field, ()) + tuple(key for key in keys if key not in table.get(field, ()))
    return table


_TABLES: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    dialect.name: tuple(_table(dialect).items()) for dialect in DIALECTS
}
_DEFAULT_TABLE = tuple(gen_ai.DIALECT.fields.items())


def read(subject: Subject, detection: Detection) -> Reading:
    """The GenAI form of a model call: each direction whole from the first source that yields a message.

    Scalars come from the span, then from its details events and records. Never raises on what a trace holds.
    """
    reading = Reading(detection)
    problems: dict[str, Any] = {}
    source_of_input: Any = None
    system_elsewhere: Any = None
    for source in SOURCES:
        content = source.read(subject)
        if content is None:
            continue
        for direction, reason in content.problems.items():
            problems.setdefault(direction, reason)
        if content.input is not None and reading.input is None:
            reading.input = content.input
            source_of_input = source
            reading.system = content.system
        elif content.system is not None and system_elsewhere is None:
            system_elsewhere = content.system
        if content.output is not None and reading.output is None:
            reading.output = content.output
        if reading.input is not None and reading.output is not None:
            break
    if reading.system is None and (source_of_input is None or "system" not in problems):
        reading.system = system_elsewhere
    for direction, reason in problems.items():
        if getattr(reading, direction) is None:
            reading.problem, reading.problem_at = reason, f"/{direction}"
    dialect = BY_NAME.get(detection.dialect)
    _read_fields(subject, reading, dialect)
    if dialect is not None and dialect.amend is not None:
        dialect.amend(subject, reading)
    return reading


def salvage(subject: Subject, detection: Detection) -> Reading | None:
    """The reading of a truncated subject from its complete leading messages, with a loss for each place that was
    cut; None where nothing whole is left."""
    shortened, losses = salvaged(subject, MESSAGE_ATTRIBUTES, INDEXED)
    if not losses:
        return None
    reading = read(shortened, detection)
    if reading.problem is not None or (reading.input is None and reading.output is None):
        return None
    reading.losses.extend(losses)
    for messages in (reading.system, reading.input, reading.output):
        if messages is not None:  # the attribute holds more than these messages: it may not be left out of `raw`
            messages.source = f"what is whole of {messages.source}"
    return reading


def _read_fields(subject: Subject, reading: Reading, dialect: Dialect | None) -> None:
    holders = [subject.span.attributes]
    if subject.records or subject.span.events:
        details = gen_ai.details_attributes(subject)
        if details:
            holders.append(details)
    fields, sources = reading.fields, reading.field_sources
    for attributes in holders:
        for field, keys in _TABLES.get(reading.detection.dialect, _DEFAULT_TABLE):
            if field in fields:
                continue
            for key in keys:
                value = attributes.get(key)
                if value is not None and value != "":
                    fields[field] = value
                    sources[field] = key
                    break
    if dialect is None:
        return
    provider = fields.get("model_provider")
    if dialect.provider_to_first_dot and type(provider) is str and provider not in gen_ai.PROVIDERS:
        fields["model_provider"] = provider.split(".", 1)[0]
    if dialect.span_extra is not None:
        for name, value in dialect.span_extra(subject).items():
            field = name.lstrip("=")
            if value is not None and (name.startswith("=") or field not in fields):
                fields[field] = value
                sources[field] = f"{dialect.name} ({field})"
