# SPDX-License-Identifier: Apache-2.0
"""`translate`: one span (with what belongs to it) becomes a fact or a skip, and says why.

The one function behind the processor, the exporter, the sidecar and the converter. It reads the subject
through the dialects, translates messages and parts, resolves identity, builds `raw`, redacts, and encodes.
No clock, no random number, no order of arrival: the same subject gives the same bytes. It never raises on
what a trace holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..dialects.registry import BY_NAME, MESSAGE_ATTRIBUTES, PRODUCT_SESSION_KEYS, detect, read
from ..facts import FactError, InferenceCall, InferenceMessage
from ..formats.canonical import CheckedMessage
from ..genai import Detection, Loss, Messages, Reading, Subject
from ..settings import Settings
from ..telemetry import LogRecord, Span
from ..vocabulary import LossCode, Outcome, SkipReason, SpanRole
from . import identity
from .parts import Aside, fact_input, fact_output, finish_reasons, texts_of
from .raw import build_raw
from .credential_filter import may_hold_credential
from .redact import redact_fact, replace_unstorable
from .residual import droppable


@dataclass(frozen=True, slots=True)
class Context:
    """What was found outside the span: the session (and where) of its nearest ancestor that has one.

    `wrapper` is what the leaf rule decided for a span of several in one nest. `incomplete` says that
    ancestors were still open when this was decided.
    """

    session_id: str | None = None
    session_source: str = ""
    wrapper: bool = False
    incomplete: bool = False


@dataclass(slots=True)
class Translation:
    """What became of one span. `encoded` is the fact's JSON (redacted, checked), None for a skip.

    `losses` have codes and pointers, never content. `provenance` names, per field, where its value stood.
    """

    outcome: Outcome
    span: Span
    detection: Detection
    reason: SkipReason | None = None
    note: str = ""
    losses: list[Loss] = field(default_factory=list)
    encoded: bytes | None = None
    inference_call_id: str | None = None
    session_id: str | None = None
    org_id: str = ""
    gateway_provider: str = "unknown"
    model_call_id: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    observed_at: str = ""
    incomplete: bool = False
    provenance: Mapping[str, str] = field(default_factory=dict)
    reading: Reading | None = None

    @property
    def fact(self) -> InferenceCall | None:
        """The fact as a typed value, decoded from `encoded` and checked once more; None for a skip."""
        return None if self.encoded is None else InferenceCall.from_json(self.encoded)


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """A fact whose values were all checked on the way here; it encodes exactly as `InferenceCall` does."""

    schema_version: int
    inference_call_id: str
    org_id: str
    session_id: str
    user_id: str | None
    gateway_provider: str
    model_provider: str | None
    model: str | None
    input_messages: Any
    output_messages: Any
    input_tokens: int | None
    output_tokens: int | None
    duration_ms: int | None
    model_call_id: str | None
    observed_at: str
    raw: dict[str, Any]


_encode = msgspec.json.Encoder().encode
_NOTHING = Context()


def translate(
    span: Span,
    settings: Settings | None = None,
    *,
    records: Sequence[LogRecord] = (),
    context: Context = _NOTHING,
) -> Translation:
    """Translate one span with the log records that belong to it. See `translate_subject`."""
    return translate_subject(Subject(span, records=records), settings or Settings(), context)


def translate_subject(subject: Subject, settings: Settings, context: Context = _NOTHING) -> Translation:
    """Translate a subject. Skip reasons are tried in the order of the contract, section 7."""
    span = subject.span
    detection = subject.detection or detect(span)
    if detection.role is not SpanRole.CALL:
        return _skip(span, detection, SkipReason.NOT_A_MODEL_CALL, detection.reason)
    if context.wrapper:
        return _skip(span, detection, SkipReason.WRAPPER, "a nested span of the same call carries it")
    if not settings.include_failed and is_failed(span):
        return _skip(span, detection, SkipReason.FAILED_CALL, "status error or error.type")
    if span.end_ns is None and span.start_ns is None:
        return _skip(span, detection, SkipReason.MALFORMED, "neither start nor end time")
    reading = read(subject, detection)
    if reading.problem is not None:
        return _skip(span, detection, reading.problem, f"messages at {reading.problem_at}", reading)
    if reading.input is None and reading.output is None:
        return _skip(span, detection, SkipReason.NO_CONTENT, "neither input nor output carries a message", reading)
    return _make(subject, settings, context, reading)


def is_failed(span: Span) -> bool:
    """Whether the call ended in an error: status ERROR, or `error.type`."""
    return span.status_code == "error" or span.attributes.get("error.type") not in (None, "")


def _skip(span: Span, detection: Detection, reason: SkipReason, note: str, reading: Reading | None = None) -> Translation:
    return Translation(Outcome.SKIPPED, span, detection, reason, note, reading=reading)


def _make(subject: Subject, settings: Settings, context: Context, reading: Reading) -> Translation:
    span, detection = subject.span, reading.detection
    dialect = BY_NAME.get(detection.dialect)
    losses: list[Loss] = list(reading.losses)
    holders: list[Mapping[str, Any]] = [span.attributes, *(record.attributes for record in subject.records)]
    invalid: list[str] = []

    session = identity.own_session(
        holders, settings.session_attributes, dialect.session_keys if dialect and dialect.session_keys else PRODUCT_SESSION_KEYS, invalid
    )
    if session is None and context.session_id is not None:
        session = (context.session_id, context.session_source or "ancestor span")
    if session is None:
        session = _resource_session(span, subject.records, invalid)
    if session is None and settings.session_id is not None:
        session = (settings.session_id, "--session-id")
    user = identity.own_user(holders, dialect.user_keys if dialect else (), invalid)
    losses += [Loss(LossCode.INVALID_ID, f"/{key}") for key in invalid]
    if session is None:
        skipped = _skip(span, detection, SkipReason.NO_SESSION, "no attribute, ancestor or resource names a session", reading)
        skipped.incomplete = context.incomplete
        return skipped

    fields, provenance = reading.fields, dict(reading.field_sources)
    provenance["session_id"] = session[1]
    if user is not None:
        provenance["user_id"] = user[1]
    model, provider = _names(fields, losses)
    input_tokens = _tokens(fields, "input_tokens", losses)
    output_tokens = _tokens(fields, "output_tokens", losses)
    call_id = identity.usable_id(fields.get("response_id"))
    if call_id is None and "response_id" in fields:
        losses.append(Loss(LossCode.INVALID_ID, "/model_call_id"))
    duration, observed = _times(span, subject.log_only, losses)
    if fields.get("previous_response_id") not in (None, ""):
        losses.append(Loss(LossCode.PARTIAL_HISTORY, "/input_messages", "the request continues an earlier response"))
    if span.dropped_attributes:
        losses.append(Loss(LossCode.ATTRIBUTES_DROPPED, "/span/attributes", f"{span.dropped_attributes} attributes"))

    aside = Aside()
    reasons = finish_reasons(fields.get("finish_reasons"))
    inputs, outputs = _messages(reading, reasons, aside)
    losses += aside.losses
    gateway = settings.gateway or identity.gateway_of(span.scope.name, span.attributes, span.resource.attributes)
    capture = identity.capture_id(subject.capture_key or f"{span.trace_id}:{span.span_id}")

    omit = frozenset[str]()
    if settings.raw == "residual":
        omit = droppable(subject, reading, inputs, outputs, aside)
    raw = build_raw(
        subject,
        dialect=detection.dialect,
        messages=MESSAGE_ATTRIBUTES,
        hide_identity=not settings.keep_account_identity,
        ready=_ready(reading, omit),
        unsupported=aside.unsupported,
        losses=losses,
        omit=omit,
    )
    envelope = Envelope(
        schema_version=1,
        inference_call_id=identity.inference_call_id(settings.org, capture),
        org_id=settings.org,
        session_id=session[0],
        user_id=user[0] if user else None,
        gateway_provider=gateway,
        model_provider=provider,
        model=model,
        input_messages=inputs,
        output_messages=outputs,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        duration_ms=duration,
        model_call_id=call_id,
        observed_at=observed,
        raw=raw,
    )
    encoded = _finish(envelope, losses)
    found = Translation(
        Outcome.FACT,
        span,
        detection,
        losses=losses,
        encoded=encoded,
        inference_call_id=envelope.inference_call_id,
        session_id=envelope.session_id,
        org_id=settings.org,
        gateway_provider=gateway,
        model_call_id=call_id,
        model=model,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        observed_at=observed,
        incomplete=context.incomplete,
        provenance=provenance,
        reading=reading,
    )
    if len(encoded) > settings.max_fact_bytes:
        found.outcome, found.reason, found.encoded = Outcome.SKIPPED, SkipReason.OVERSIZED, None
        found.note = f"{len(encoded)} bytes, the limit is {settings.max_fact_bytes}"
        found.losses = []
    return found


def _resource_session(span: Span, records: Sequence[LogRecord], invalid: list[str]) -> tuple[str, str] | None:
    for resource in (span.resource, *(record.resource for record in records)):
        value = resource.attributes.get(identity.SESSION_KEY)
        if value is not None:
            found = identity.usable_id(value)
            if found is not None:
                return found, "resource session.id"
            invalid.append("resource session.id")
    return None


def _names(fields: Mapping[str, Any], losses: list[Loss]) -> tuple[str | None, str | None]:
    """Model and provider: trimmed, blank is null; a framework's name is no provider."""
    found: list[str | None] = []
    for keys, at in ((("response_model", "request_model"), "/model"), (("model_provider",), "/model_provider")):
        name = None
        for key in keys:
            value = fields.get(key)
            if value is None or (type(value) is str and not value.strip()):
                continue
            name = identity.usable_id(value)
            if name is not None:
                break
            losses.append(Loss(LossCode.INVALID_ID, at))
        found.append(name)
    model, provider = found
    return model, None if provider in identity.NO_PROVIDER else provider


def _tokens(fields: Mapping[str, Any], name: str, losses: list[Loss]) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    number = identity.whole_number(value)
    if number is None:
        losses.append(Loss(LossCode.INVALID_NUMBER, f"/{name}"))
    return number


def _times(span: Span, log_only: bool, losses: list[Loss]) -> tuple[int | None, str]:
    start, end = span.start_ns, span.end_ns
    if end is None:
        losses.append(Loss(LossCode.INVALID_TIME, "/observed_at", "no end time, the start time stands in"))
        return None, identity.instant(start or 0)
    if start is None:
        if not log_only:
            losses.append(Loss(LossCode.INVALID_TIME, "/duration_ms", "no start time"))
        return None, identity.instant(end)
    if end < start:
        losses.append(Loss(LossCode.INVALID_TIME, "/duration_ms", "end before start"))
        return None, identity.instant(end)
    return (end - start) // 1_000_000, identity.instant(end)


# -- messages ----------------------------------------------------------------------------------------------


def _messages(reading: Reading, reasons: list[str | None], aside: Aside) -> tuple[list[Any], list[Any]]:
    """Input (with the system message in front) and output of the fact, each by the short way if it fits."""
    for messages in (reading.system, reading.input, reading.output):
        if messages is not None:
            aside.losses.extend(messages.losses)
    inputs = _typed_input(reading)
    if inputs is None:
        inputs = fact_input(genai_input(reading, aside), aside)
    output = reading.output
    if output is None:
        return inputs, []
    if output.typed is not None and len(output.typed) == 1:
        message = output.typed[0]
        if message.finish_reason is None and reasons and reasons[0] is not None:
            message = CheckedMessage(message.role, message.parts, reasons[0])
        return inputs, [message]
    return inputs, fact_output(output.open(), reasons, aside)


def _typed_input(reading: Reading) -> list[Any] | None:
    given, system = reading.input, reading.system
    if given is not None and given.typed is None:
        return None
    if system is not None and system.typed is None:
        return None
    messages: list[Any] = [] if given is None else (given.typed or [])
    if system is None:
        return messages
    parts = system.typed or []
    if messages and messages[0].role == "system":
        first = [part.content for part in messages[0].parts if part.__class__.__name__ == "TextPart"]
        if first == [part.content for part in parts]:
            return messages
    return [CheckedMessage("system", parts, None), *messages]


def genai_input(reading: Reading, aside: Aside | None = None) -> list[Any]:
    """The input in the GenAI form, with the message made from the system instructions in front, said once."""
    messages = reading.input.open() if reading.input is not None else []
    if reading.system is None:
        return messages
    system = reading.system.open()[0]
    first = messages[0] if messages and type(messages[0]) is dict and messages[0].get("role") == "system" else None
    if first is not None and texts_of(first) == texts_of(system):
        if aside is not None:
            for index, part in enumerate(system["parts"]):
                if type(part) is not dict or part.get("type") != "text":
                    aside.part(LossCode.UNSUPPORTED_CONTENT, f"/system_instructions/{index}", part, "in instructions")
        return messages
    return [system, *messages]


def _ready(reading: Reading, omit: frozenset[str]) -> dict[str, Any]:
    """Span attributes whose JSON text may stand in `raw` as it is: strict, parsed, and written compactly."""
    ready: dict[str, Any] = {}
    for messages in (reading.system, reading.input, reading.output):
        if messages is None or messages.typed is None or messages.text is None:
            continue
        where, _, key = messages.source.partition(" attribute ")
        if where == "span" and key not in omit and messages.compact:
            ready[key] = msgspec.Raw(messages.text.encode())
    return ready


# -- the last steps: checked, redacted, encoded ---------------------------------------------------------------


def _finish(envelope: Envelope, losses: list[Loss]) -> bytes:
    try:
        encoded = _encode(envelope)
        if not may_hold_credential(encoded):
            return encoded
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError):
        pass
    fact = builtins(envelope)
    fact, replaced = replace_unstorable(fact)
    if replaced:
        noted = [Loss(LossCode.REPLACED_CHARACTER, pointer) for pointer in replaced]
        losses += noted
        fact["raw"].setdefault("losses", []).extend({"code": n.code.value, "at": n.at} for n in noted)
    return _encode(redact_fact(fact))


def builtins(value: Any) -> Any:
    """A fact as plain dicts and lists."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, msgspec.Struct):
        fields: dict[str, Any] = {}
        tag = value.__struct_config__.tag
        if tag is not None:
            fields["type"] = tag
        for name in value.__struct_fields__:
            fields[name] = builtins(getattr(value, name))
        return fields
    if type(value) is list:
        return [builtins(item) for item in value]
    if type(value) is dict:
        return {key: builtins(item) for key, item in value.items()}
    return value


__all__ = ["Context", "FactError", "InferenceMessage", "Messages", "Translation", "translate", "translate_subject"]
