# SPDX-License-Identifier: Apache-2.0
"""`restore`: a fact becomes a span with current `gen_ai.*` attributes again (contract, section 2). Pure.

The trace behind the fact is rebuilt from `raw` and read through its dialect once more; the messages are then
written as `gen_ai.input.messages`, `gen_ai.output.messages` and `gen_ai.system_instructions`, JSON text as
instrumentations write it, beside the scalar attributes of the current conventions. What held the same messages
before (attributes and events of any dialect) is gone. Everything else on the span stays.

Reading the restored span gives the GenAI form that the original gave, value for value, for every fact made with
`raw` full or residual; redacted, withheld and replaced values aside. Where `raw` does not bear out the fact's
messages (they were changed since, or the fact was made elsewhere), the messages are the fact's own, with
`raw.unsupported_parts` put back. Ids that the fact does not have as OTLP needs them are derived from its
`inference_call_id`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from ..dialects.gen_ai import DIALECT as GEN_AI
from ..dialects.gen_ai import (
    EVENTS,
    INPUT_MESSAGES,
    MESSAGE_KEYS,
    OPERATION,
    OPERATIONS,
    OUTPUT_MESSAGES,
    SYSTEM_INSTRUCTIONS,
    details_attributes,
)
from ..dialects.registry import BY_NAME, MESSAGE_ATTRIBUTES, PRODUCT_SESSION_KEYS, SOURCES, detect, read
from ..facts import FactError, InferenceCall, InferenceMessage
from ..genai import Content, Detection, Messages, Reading, Subject, plain
from ..otlp.fields import time_of_iso
from ..telemetry import Span, SpanEvent
from ..vocabulary import SpanRole
from .credentials import MARKER, redact_text
from .finish import builtins
from .identity import SESSION_KEY, USER_KEYS, own_session, own_user, usable_id, whole_number
from .parts import Aside, fact_input, fact_output, fact_parts, finish_reasons, genai_input
from .redact import REPLACEMENT, replace_unstorable
from .residual import DIRECTIONS, comparable, rebuild, same
from .unraw import json_text, left_out, subject_of, unsupported_of

#: Scalar fields → the attribute of the current conventions that holds each.
CURRENT: dict[str, str] = {field: keys[0] for field, keys in GEN_AI.fields.items()}
DEFAULT_OPERATION = "chat"
_T = TypeVar("_T")


class RestoreError(ValueError):
    """A fact cannot be restored. `field` is where, `rule` is what it breaks. No content."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field}: {rule}")
        self.field = field
        self.rule = rule


def restore(fact: InferenceCall | Mapping[str, Any] | bytes | str) -> Span:
    """The span of a fact (typed, as a dict, or as JSON). Raises `RestoreError`, which names field and rule."""
    call = checked(fact)
    try:
        return _restore(call, subject_of(call.raw))
    except RecursionError:
        pass
    try:
        return _restore(call, None)
    except RecursionError:
        raise RestoreError("input_messages, output_messages", "are nested too deeply") from None


def checked(fact: InferenceCall | Mapping[str, Any] | bytes | str) -> InferenceCall:
    """The fact, typed and held to every rule. Raises `RestoreError`."""
    if isinstance(fact, InferenceCall):
        return fact
    try:
        return InferenceCall.from_json(fact if isinstance(fact, (bytes, str)) else msgspec.json.encode(fact))
    except FactError as error:
        raise RestoreError(error.field, error.rule) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise RestoreError("fact", f"is not JSON: {type(error).__name__}") from None


def _restore(call: InferenceCall, subject: Subject | None) -> Span:
    given = subject or Subject(Span(trace_id="", span_id=""))
    reading = _reread(call, given, subject is not None)
    span = _with_ids(call, _with_times(call, _with_name(call, given.span)))
    attributes, events = _without_messages(given, _detection(call))
    for key, value in details_attributes(given).items():
        if key.startswith("gen_ai.") and key not in MESSAGE_ATTRIBUTES:
            attributes.setdefault(key, value)
    attributes.update(_fields(call, reading, subject is not None))
    attributes = {key: value for key, value in attributes.items() if value is not None}
    attributes = _current(attributes, events, span)
    for key, messages in (
        (SYSTEM_INSTRUCTIONS, _system_value(reading)),
        (INPUT_MESSAGES, reading.input.open() if reading.input is not None else None),
        (OUTPUT_MESSAGES, reading.output.open() if reading.output is not None else None),
    ):
        if messages is not None:
            attributes[key] = json_text(messages)
    session = own_session((attributes,), (), PRODUCT_SESSION_KEYS, [])
    if session is None or _was_unusable(session[0], call.session_id):
        attributes[SESSION_KEY] = call.session_id
    user = own_user((attributes,), (), [])
    if user is not None and call.user_id is None and _was_unusable(user[0], None):
        del attributes[user[1]]
    elif call.user_id is not None and (user is None or _was_unusable(user[0], call.user_id)):
        attributes[USER_KEYS[0]] = call.user_id
    return msgspec.structs.replace(span, attributes=attributes, events=events)


def _was_unusable(value: str, kept: str | None) -> bool:
    """Whether an id is usable only since a character in it was replaced: the fact does not have it."""
    return REPLACEMENT in value and value != kept


# -- messages ------------------------------------------------------------------------------------------------


def _reread(call: InferenceCall, subject: Subject, from_raw: bool) -> Reading:
    """What the original span reads as; each direction that does not give the fact's messages is the fact's own."""
    unsupported = unsupported_of(call.raw) if from_raw else []
    rebuilt_input = rebuild(builtins(call.input_messages), unsupported, "/input_messages")
    rebuilt_output = rebuild(builtins(call.output_messages), unsupported, "/output_messages")
    reading = Reading(_detection(call))
    if from_raw:
        subject = _put_back(subject, left_out(call.raw), rebuilt_input, rebuilt_output)
        reading = read(subject, _detection(call))
    if not _bears_out(fact_input(genai_input(reading), Aside()), call.input_messages):
        _take_input(reading, rebuilt_input)
    reasons = finish_reasons(reading.fields.get("finish_reasons"))
    outputs = reading.output.open() if reading.output is not None else []
    if not _bears_out(fact_output(outputs, reasons, Aside()), call.output_messages):
        reading.output = _messages(_merged(outputs, rebuilt_output))
    return reading


def _take_input(reading: Reading, rebuilt: list[Any]) -> None:
    """The fact's own input. Instructions that stood in front of the input are set apart from it again."""
    whole = genai_input(reading)
    in_front = reading.system is not None and len(whole) > (len(reading.input.open()) if reading.input else 0)
    messages = _merged(whole, rebuilt)
    first = messages[0] if messages and type(messages[0]) is dict else {}
    if in_front and first.get("role") == "system" and set(first) == {"role", "parts"} and first["parts"]:
        reading.system, reading.input = Messages([first], "fact"), _messages(messages[1:])
        return
    reading.input = _messages(messages)
    if len(genai_input(reading)) != len(messages):
        reading.system = None


def _merged(read_again: list[Any], rebuilt: list[Any]) -> list[Any]:
    """The fact's messages, with what `raw` still knows of those parts that it bears out."""
    if len(read_again) != len(rebuilt):
        return rebuilt
    return [_merged_message(left, right) for left, right in zip(read_again, rebuilt, strict=True)]


def _merged_message(left: Any, right: Any) -> Any:
    if type(left) is not dict or type(right) is not dict:
        return right
    lefts, rights = left.get("parts"), right.get("parts")
    if type(lefts) is not list or type(rights) is not list or len(lefts) != len(rights):
        return right
    pairs = zip(lefts, rights, strict=True)
    return {**left, "parts": [one if _same_part(one, other) else other for one, other in pairs]}


def _same_part(one: Any, other: Any) -> bool:
    found, wanted = (fact_parts([part], "", Aside()) for part in (one, other))
    return same(replace_unstorable(builtins(found))[0], builtins(wanted))


def _bears_out(read_again: list[InferenceMessage], messages: list[InferenceMessage]) -> bool:
    """Whether what `raw` reads as gives the fact's messages. Text in it may hold escapes of replaced characters."""
    return same(replace_unstorable(builtins(read_again))[0], builtins(messages))


def _detection(call: InferenceCall) -> Detection:
    dialect = call.raw.get("dialect")
    known = dialect if type(dialect) is str and dialect in BY_NAME else GEN_AI.name
    return Detection(known, SpanRole.CALL, "a fact")


def _messages(items: list[Any]) -> Messages | None:
    return Messages(items, "fact") if items else None


def _put_back(subject: Subject, keys: frozenset[str], inputs: list[Any], outputs: list[Any]) -> Subject:
    """The subject with the message attributes that a residual `raw` leaves out, under their current names."""
    directions = {DIRECTIONS[key] for key in keys if key in DIRECTIONS}
    if not directions:
        return subject
    found = dict(subject.span.attributes)
    if "system" in directions and inputs and type(inputs[0]) is dict:
        found[SYSTEM_INSTRUCTIONS] = json_text(_system_list(inputs[0].get("parts")))
        inputs = inputs[1:]
    for direction, messages in (("input", inputs), ("output", outputs)):
        if direction in directions:
            found[MESSAGE_KEYS[direction][0]] = json_text(messages)
    return _replaced(subject, attributes=found)


def _system_value(reading: Reading) -> list[Any] | None:
    return None if reading.system is None else _system_list(reading.system.open()[0].get("parts"))


def _system_list(parts: Any) -> list[Any]:
    """Instructions as a list of parts; as one message where a part could be taken for a message itself."""
    items = parts if type(parts) is list else []
    if any(type(part) is dict and "role" in part for part in items):
        return [{"role": "system", "parts": items}]
    return items


# -- what held the messages before -----------------------------------------------------------------------------


def _without_messages(subject: Subject, detection: Detection) -> tuple[dict[str, Any], list[SpanEvent]]:
    """Attributes and events of the span without those that messages are taken from.

    Which they are is tried: without them, a source (or the reading) yields something else. Keys that count
    (`….0.role`) are tried as one group.
    """
    span = subject.span
    base = _yields(subject, detection)
    attributes = {key: value for key, value in span.attributes.items() if key not in DIRECTIONS}

    def differs(**changes: Any) -> bool:
        return _yields(_replaced(subject, **changes), detection) != base

    def without_groups(groups: list[frozenset[str]]) -> bool:
        keys = frozenset().union(*groups)
        return differs(attributes={key: value for key, value in span.attributes.items() if key not in keys})

    def without_events(names: list[str]) -> bool:
        gone = set(names)
        return differs(events=[event for event in span.events if event.name not in gone])

    keys = frozenset().union(*_that_matter(_candidates(attributes), without_groups))
    attributes = {key: value for key, value in attributes.items() if key not in keys}
    events = [event for event in span.events if event.name not in EVENTS]
    names = frozenset(_that_matter(list(dict.fromkeys(event.name for event in events)), without_events))
    return attributes, [event for event in events if event.name not in names]


#: So many candidates are tried one by one; more of them are halved, since hardly any of them matters.
_FEW = 8


def _that_matter(candidates: list[_T], differs: Callable[[list[_T]], bool]) -> list[_T]:
    """The candidates without which something else is read. A span with a great many takes few trials, not as many."""
    if len(candidates) <= _FEW:
        return [one for one in candidates if differs([one])]
    if not differs(candidates):
        return []
    half = len(candidates) // 2
    return [*_that_matter(candidates[:half], differs), *_that_matter(candidates[half:], differs)]


def _candidates(attributes: Iterable[str]) -> list[frozenset[str]]:
    groups: dict[str, set[str]] = {}
    for key in attributes:
        steps = key.split(".")
        count = next((index for index, step in enumerate(steps) if step.isdigit()), None)
        if count:
            groups.setdefault(".".join(steps[:count]) + ".", set()).add(key)
        elif key in MESSAGE_ATTRIBUTES:
            groups.setdefault(key, set()).add(key)
    return [frozenset(group) for group in groups.values()]


def _yields(subject: Subject, detection: Detection) -> list[Any]:
    """What each source has, and what is read from all of them."""
    contents = [source.read(subject) for source in SOURCES]
    reading = read(subject, detection)
    whole = Content(reading.input, reading.output, reading.system)
    return [_directions(content) for content in (*contents, whole)]


def _directions(content: Content | None) -> Any:
    if content is None:
        return None
    parts = (content.system, content.input, content.output)
    return [None if messages is None else comparable(messages.open()) for messages in parts], content.problems


def _replaced(subject: Subject, **changes: Any) -> Subject:
    span = msgspec.structs.replace(subject.span, **changes)
    return Subject(span, subject.records, subject.siblings, content=subject.content)


# -- scalars -----------------------------------------------------------------------------------------------------


def _held_by(fields: Mapping[str, Any]) -> str:
    """The field that a fact's model was taken from."""
    return "response_model" if usable_id(fields.get("response_model")) is not None else "request_model"


def _fields(call: InferenceCall, reading: Reading, from_raw: bool) -> dict[str, Any]:
    """Scalar attributes under their current names: as the span had them, the fact's where those differ."""
    fields = reading.fields
    found = {CURRENT[name]: plain(value) for name, value in fields.items() if name in CURRENT}
    reasons = fields.get("finish_reasons")
    if reasons is not None and type(plain(reasons)) is not list:
        found[CURRENT["finish_reasons"]] = [reason or "" for reason in finish_reasons(plain(reasons))]
    model = usable_id(fields.get("response_model")) or usable_id(fields.get("request_model"))
    for name, own, kept in (
        ("response_model", model, call.model),
        ("model_provider", usable_id(fields.get("model_provider")), call.model_provider),
        ("response_id", usable_id(fields.get("response_id")), call.model_call_id),
        ("input_tokens", whole_number(fields.get("input_tokens")), call.input_tokens),
        ("output_tokens", whole_number(fields.get("output_tokens")), call.output_tokens),
    ):
        if kept is not None and own != kept:
            hidden = name == "response_model" and own in (MARKER, redact_text(str(kept)))
            found[CURRENT[_held_by(fields) if hidden else name]] = kept
        elif kept is None and type(own) is str and REPLACEMENT in own:
            names = ("response_model", "request_model") if name == "response_model" else (name,)
            gone = [key for field in names if usable_id(fields.get(field)) == own for key in GEN_AI.fields[field]]
            found.update(dict.fromkeys(gone))
    if not from_raw and any(message.finish_reason for message in call.output_messages):
        found[CURRENT["finish_reasons"]] = [message.finish_reason or "" for message in call.output_messages]
    return found


def _current(attributes: dict[str, Any], events: list[SpanEvent], span: Span) -> dict[str, Any]:
    """Attributes that are read as the current conventions: what another dialect is known by goes, and no more.

    First one key, then one namespace, then all namespaces but those of the conventions. Where not even that
    helps (the scope and the current attributes are how the dialect is known), everything stays.
    """
    operation = attributes.get(OPERATION)
    if type(operation) is not str or OPERATIONS.get(operation) is not SpanRole.CALL:
        attributes = {**attributes, OPERATION: DEFAULT_OPERATION}

    def foreign(kept: dict[str, Any]) -> bool:
        return detect(msgspec.structs.replace(span, attributes=kept, events=events)).dialect != GEN_AI.name

    if not foreign(attributes):
        return attributes
    for key in attributes:
        without = {name: value for name, value in attributes.items() if name != key}
        if key != OPERATION and not foreign(without):
            return without
    spaces = list(dict.fromkeys(_space(key) for key in attributes if _space(key) not in _CONVENTIONS))
    for space in spaces:
        without = {name: value for name, value in attributes.items() if _space(name) != space}
        if not foreign(without):
            return without
    without = {name: value for name, value in attributes.items() if _space(name) not in spaces}
    return attributes if foreign(without) else without


def _space(key: str) -> str:
    return key.split(".", 1)[0]


#: First steps of the keys that every kind of span may have.
_CONVENTIONS = frozenset(
    {"gen_ai", "session", "user", "enduser", "error", "server", "client", "openai", "aws", "azure"}
)


# -- ids and times -----------------------------------------------------------------------------------------------


def _with_ids(call: InferenceCall, span: Span) -> Span:
    """Ids that OTLP can hold; what the fact does not have is derived from its own id, the same every time."""
    if span.trace_id and span.span_id:
        return span
    digest = hashlib.sha256(f"urn:sediment-otel:restore:v1:{call.inference_call_id}".encode()).hexdigest()
    return msgspec.structs.replace(
        span, trace_id=span.trace_id or digest[:32], span_id=span.span_id or digest[32:48], parent_span_id=None
    )


def _with_times(call: InferenceCall, span: Span) -> Span:
    if span.start_ns is not None or span.end_ns is not None:
        return span
    text, leap = call.observed_at, call.observed_at[17:19] == "60"
    end = time_of_iso(f"{text[:17]}59{text[19:]}" if leap else text)
    if end is None:
        raise RestoreError("observed_at", "must be a day of the calendar from 1970 to 2554, as OTLP counts them")
    end += leap * 1_000_000_000
    start = None if call.duration_ms is None else end - call.duration_ms * 1_000_000
    return msgspec.structs.replace(span, start_ns=start if start is not None and start > 0 else None, end_ns=end)


def _with_name(call: InferenceCall, span: Span) -> Span:
    """A call that no span was there for is named as the conventions name it."""
    if span.name or span.attributes or span.kind != "unspecified":
        return span
    name = DEFAULT_OPERATION if call.model is None else f"{DEFAULT_OPERATION} {call.model}"
    return msgspec.structs.replace(span, name=name, kind="client")


__all__ = ["RestoreError", "restore"]
