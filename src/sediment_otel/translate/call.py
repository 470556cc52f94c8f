# SPDX-License-Identifier: Apache-2.0
"""`translate`: one span (with what belongs to it) becomes a fact or a skip, and says why.

The one function behind the processor, the exporter, the sidecar and the converter. It reads the subject
through the dialects, translates messages and parts, resolves identity, builds `raw`, redacts, and encodes.
No clock, no random number, no order of arrival: the same subject gives the same bytes. It never raises on
what a trace holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dialects.registry import (
    BY_NAME,
    MESSAGE_ATTRIBUTES,
    MESSAGE_KEYS,
    detect,
    read,
    references,
    salvage,
    session_keys,
)
from ..genai import Detection, Loss, Reading, Subject
from ..settings import Settings
from ..telemetry import LogRecord, Span
from ..vocabulary import LossCode, Outcome, RawMode, SkipReason, SpanRole
from . import identity
from .finish import Envelope, finish
from .parts import Aside, fact_input, fact_output, finish_reasons, genai_input
from .raw import build_raw
from .residual import droppable
from .result import NOTHING, Context, Translation, bounded, skipped
from .short import Built, Draft, build_short, finish_short, read_short

_RESIDUAL = RawMode.RESIDUAL.value


def translate(
    span: Span,
    settings: Settings | None = None,
    *,
    records: Sequence[LogRecord] = (),
    context: Context = NOTHING,
) -> Translation:
    """Translate one span with the log records that belong to it, the whole way. See `translate_subject`."""
    return translate_subject(Subject(span, records=records), settings or Settings(), context, whole=True)


def translate_subject(
    subject: Subject, settings: Settings, context: Context = NOTHING, *, whole: bool = False
) -> Translation:
    """Translate a subject. Skip reasons are tried in the order of the contract, section 7.

    With `whole` the general way is taken even where the short one is open: the translation then has its
    reading and the provenance of each field. The fact is the same.
    """
    return _finished(_built(_read(subject, settings, context, whole), settings), settings)


#: How many calls go through the steps together: more do not fit the processor's caches.
TOGETHER = 16


def translate_subjects(given: Sequence[tuple[Subject, Context]], settings: Settings) -> list[Translation]:
    """Translate subjects, each with its context, side by side: what `translate_subject` says of each, in order."""
    drafts = [_read(subject, settings, context) for subject, context in given]
    built = [_built(each, settings) for each in drafts]
    return [_finished(each, settings) for each in built]


# -- the steps; what the short way does not take is translated in the first one


def _read(subject: Subject, settings: Settings, context: Context, whole: bool = False) -> Translation | Draft:
    detection = subject.detection or detect(subject.span)
    try:
        found = _skipped_at_once(subject, settings, context, detection)
        draft = read_short(subject, settings, context, detection) if found is None and not whole else None
        return found or draft or _general(subject, settings, context, detection)
    except RecursionError:
        return _too_deep(subject, detection)


def _built(given: Translation | Draft, settings: Settings) -> Translation | Built:
    if isinstance(given, Translation):
        return given
    try:
        return build_short(given, settings)
    except RecursionError:
        return _too_deep(given.subject, given.detection)


def _finished(given: Translation | Built, settings: Settings) -> Translation:
    return given if isinstance(given, Translation) else finish_short(given, settings)


def _too_deep(subject: Subject, detection: Detection) -> Translation:
    return skipped(subject.span, detection, SkipReason.MALFORMED, "a value is nested too deeply")


def _skipped_at_once(
    subject: Subject, settings: Settings, context: Context, detection: Detection
) -> Translation | None:
    """What the span, its place in the tree and its outcome decide, before any message is read."""
    span = subject.span
    if detection.role is not SpanRole.CALL:
        return skipped(span, detection, SkipReason.NOT_A_MODEL_CALL, detection.reason)
    if context.wrapper:
        return skipped(span, detection, SkipReason.WRAPPER, "a nested span of the same call carries it")
    if not settings.include_failed and is_failed(span):
        return skipped(span, detection, SkipReason.FAILED_CALL, "status error or error.type")
    if span.end_ns is None and span.start_ns is None:
        return skipped(span, detection, SkipReason.MALFORMED, "neither start nor end time")
    return None


def _general(subject: Subject, settings: Settings, context: Context, detection: Detection) -> Translation:
    span = subject.span
    reading = read(subject, detection)
    if reading.problem is SkipReason.TRUNCATED and settings.salvage:
        reading = salvage(subject, detection) or reading
    if reading.problem is not None:
        return skipped(span, detection, reading.problem, f"messages at {reading.problem_at}", reading)
    if reading.input is None and reading.output is None:
        return skipped(span, detection, SkipReason.NO_CONTENT, _why_empty(subject), reading)
    return _make(subject, settings, context, reading)


def _why_empty(subject: Subject) -> str:
    if subject.unread:
        return f"content stands elsewhere and was not read: {'; '.join(subject.unread)}"
    elsewhere = [reference.attribute for reference in references(subject)]
    if elsewhere:
        return f"content stands elsewhere ({', '.join(elsewhere)}): --content-location allows reading it"
    return "neither input nor output carries a message"


def is_failed(span: Span) -> bool:
    """Whether the call ended in an error: status ERROR, or `error.type`."""
    return span.status_code == "error" or span.attributes.get("error.type") not in (None, "")


def _make(subject: Subject, settings: Settings, context: Context, reading: Reading) -> Translation:
    span, detection = subject.span, reading.detection
    dialect = BY_NAME.get(detection.dialect)
    losses: list[Loss] = list(reading.losses)
    holders: list[Mapping[str, Any]] = [span.attributes, *(record.attributes for record in subject.records)]
    invalid: list[str] = []

    session = identity.own_session(
        holders,
        settings.session_attributes,
        session_keys(detection.dialect),
        invalid,
    )
    inherited_user: tuple[str, str] | None = None
    if session is None and context.session_id is not None:
        session = (context.session_id, context.session_source or "ancestor span")
        if context.user_id is not None:
            inherited_user = (context.user_id, context.user_source)
    if session is None:
        session = _resource_session(span, subject.records, invalid)
    if session is None and settings.session_id is not None:
        session = (settings.session_id, "--session-id")
    user = identity.own_user(holders, dialect.user_keys if dialect else (), invalid) or inherited_user
    losses += [Loss(LossCode.INVALID_ID, f"/{key}") for key in invalid]
    if session is None:
        note = "no attribute, ancestor or resource names a session"
        missing = skipped(span, detection, SkipReason.NO_SESSION, note, reading)
        missing.incomplete = context.incomplete
        return missing

    fields, provenance = reading.fields, reading.field_sources
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
    for messages in (reading.system, reading.input, reading.output):
        if messages is not None:
            losses += messages.losses
    reasons = finish_reasons(fields.get("finish_reasons"))
    inputs = fact_input(genai_input(reading, aside), aside)
    outputs = fact_output(reading.output.open(), reasons, aside) if reading.output is not None else []
    losses += aside.losses
    omit: Mapping[str, int] = {}
    if settings.raw == _RESIDUAL:
        omit = droppable(subject, reading, inputs, outputs, aside)
    gateway = settings.gateway or identity.gateway_of(span.scope.name, span.attributes, span.resource.attributes)
    capture = identity.capture_id(subject.capture_key or f"{span.trace_id}:{span.span_id}")
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
        raw=build_raw(
            subject,
            dialect=detection.dialect,
            messages=MESSAGE_KEYS.get(detection.dialect, MESSAGE_ATTRIBUTES),
            hide_identity=not settings.keep_account_identity,
            ready={},
            unsupported=aside.unsupported,
            losses=losses,
            omit=omit,
        ),
    )
    encoded = finish(envelope, losses, raw_holds_all=False)
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
    return bounded(found, settings.max_fact_bytes)


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


__all__ = ["TOGETHER", "Context", "Translation", "translate", "translate_subject", "translate_subjects"]
