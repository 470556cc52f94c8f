# SPDX-License-Identifier: Apache-2.0
"""The short way from a span to a fact, for spans of the current conventions that leave nothing to decide.

Most spans of current instrumentations carry their messages as JSON text in the span's attributes, already in
the shape of a fact (`formats.canonical` checks that while it decodes), and scalars as the conventions type
them. Whatever is out of the ordinary makes `read_short` return None, and the general way (`call`) goes on from
the start. Both give the same bytes; a test holds them together.

The short way has three steps: read, build, finish. Several calls together go through each of them side by side
(`call.translate_subjects`), which is sooner done than one call after the other: the code and the tables of one
step stay in the processor's caches.

In `raw`, message text that is exactly as long as this project would write it stands as it is; other text is
parsed first. Every string of the messages is then in `raw` as well, so that looking for credentials there is
looking for them everywhere.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from ..dialects import gen_ai
from ..dialects.registry import MESSAGE_ATTRIBUTES
from ..facts import MAX_INTEGER
from ..formats.canonical import (
    CheckedMessage,
    Decoded,
    Text,
    ToolCall,
    decode_messages,
    decode_system,
    holds_mark,
)
from ..genai import Detection, Subject
from ..settings import Settings
from ..vocabulary import Outcome
from . import identity
from .finish import Envelope, encode, finish
from .layout import Layout, layout_of
from .parts import finish_reasons
from .raw import build_raw
from .result import Context, Translation, bounded

_FULL = "full"
_FINISH_REASONS = gen_ai.DIALECT.fields["finish_reasons"]


class _Unusual(Exception):
    """A value that the general way must judge."""


class Draft(msgspec.Struct, gc=False):
    """A call on the short way, read and judged."""

    subject: Subject
    context: Context
    detection: Detection
    layout: Layout
    session_id: str
    user_id: str | None
    inputs: bytes
    outputs: bytes
    #: Message attributes as `raw` stores them.
    ready: dict[str, Any]
    model: str | None
    provider: str | None
    response_id: str | None
    input_tokens: int | None
    output_tokens: int | None
    duration_ms: int
    observed_at: str


class Built(msgspec.Struct, gc=False):
    """The fact that was built from a draft, not yet redacted and encoded."""

    draft: Draft
    envelope: Envelope


def read_short(subject: Subject, settings: Settings, context: Context, detection: Detection) -> Draft | None:
    """The first step. None where the general way must judge. The span is a call, not failed, no wrapper."""
    span = subject.span
    attributes = span.attributes
    start, end = span.start_ns, span.end_ns
    if (
        detection.dialect != gen_ai.NAME
        or span.events
        or span.dropped_attributes
        or subject.records
        or subject.siblings
        or subject.content
        or subject.log_only
        or settings.raw != _FULL
        or start is None
        or end is None
        or end < start
    ):
        return None
    layout = layout_of(attributes)
    if layout.unusual:
        return None
    ready: dict[str, Any] = {}
    invalid: list[str] = []
    holders = (attributes,)
    session_id, user_id = context.session_id, context.user_id
    try:
        if layout.sessions or layout.has_metadata or settings.session_attributes:
            keys = (*settings.session_attributes, *layout.sessions)
            session = identity.session_under(keys, holders, invalid)
            if session is not None:
                session_id, user_id = session[0], None
        if layout.names_user:
            user = identity.own_user(holders, (), invalid)
            user_id = user[0] if user is not None else user_id
        if session_id is None or invalid:
            return None
        inputs, outputs = _messages(attributes, ready, calls_last=span.scope.name in gen_ai.CALLS_FIRST)
        return Draft(
            subject,
            context,
            detection,
            layout,
            session_id,
            user_id,
            inputs,
            outputs,
            ready,
            _text(attributes, layout.model),
            _text(attributes, layout.provider),
            _text(attributes, layout.response_id),
            _number(attributes, layout.input_tokens),
            _number(attributes, layout.output_tokens),
            (end - start) // 1_000_000,
            identity.instant(end),
        )
    except _Unusual:
        return None


def build_short(draft: Draft, settings: Settings) -> Built:
    """The second step: the fact's fields and `raw`."""
    subject, layout, provider = draft.subject, draft.layout, draft.provider
    span = subject.span
    envelope = Envelope(
        schema_version=1,
        inference_call_id=identity.inference_call_id(
            settings.org, identity.capture_id(f"{span.trace_id}:{span.span_id}")
        ),
        org_id=settings.org,
        session_id=draft.session_id,
        user_id=draft.user_id,
        gateway_provider=settings.gateway
        or identity.gateway_around(span.scope.name, span.resource.attributes.get("service.name"))
        or layout.gateway
        or "unknown",
        model_provider=None if provider in identity.NO_PROVIDER else provider,
        model=draft.model,
        input_messages=msgspec.Raw(draft.inputs),
        output_messages=msgspec.Raw(draft.outputs),
        input_tokens=draft.input_tokens,
        output_tokens=draft.output_tokens,
        duration_ms=draft.duration_ms,
        model_call_id=draft.response_id,
        observed_at=draft.observed_at,
        raw=build_raw(
            subject,
            dialect=gen_ai.NAME,
            messages=MESSAGE_ATTRIBUTES,
            hide_identity=not settings.keep_account_identity,
            ready=draft.ready,
            unsupported=[],
            losses=(),
            layout=layout,
        ),
    )
    return Built(draft, envelope)


def finish_short(built: Built, settings: Settings) -> Translation:
    """The last step: redacted and encoded."""
    draft, envelope = built.draft, built.envelope
    found = Translation(
        Outcome.FACT,
        draft.subject.span,
        draft.detection,
        inference_call_id=envelope.inference_call_id,
        session_id=envelope.session_id,
        org_id=envelope.org_id,
        gateway_provider=envelope.gateway_provider,
        model_call_id=envelope.model_call_id,
        model=envelope.model,
        input_tokens=envelope.input_tokens,
        output_tokens=envelope.output_tokens,
        observed_at=envelope.observed_at,
        incomplete=draft.context.incomplete,
    )
    found.encoded = finish(envelope, found.losses, raw_holds_all=True)
    return bounded(found, settings.max_fact_bytes)


def _messages(attributes: dict[str, Any], ready: dict[str, Any], *, calls_last: bool) -> tuple[bytes, bytes]:
    """Input and output of the fact, encoded; the stored forms of the attributes go to `ready`.

    With `calls_last` messages in which a tool call precedes something else are left to the general way.
    """
    given, given_surplus = _decoded(attributes, gen_ai.INPUT_MESSAGES, answer=False)
    answers, surplus = _decoded(attributes, gen_ai.OUTPUT_MESSAGES, answer=True)
    if len(answers) != 1:
        raise _Unusual
    if calls_last and (_calls_first(given) or _calls_first(answers)):
        raise _Unusual
    inputs = _stored(attributes, gen_ai.INPUT_MESSAGES, given, given_surplus, ready)
    outputs = _stored(attributes, gen_ai.OUTPUT_MESSAGES, answers, surplus, ready)
    if answers[0].finish_reason is None:
        found = next((attributes[key] for key in _FINISH_REASONS if attributes.get(key) not in (None, "")), None)
        reasons = finish_reasons(found)
        if reasons and reasons[0] is not None:
            answers[0].finish_reason = reasons[0]
            outputs = encode(answers)
    text = attributes.get(gen_ai.SYSTEM_INSTRUCTIONS)
    if text is None:
        return inputs, outputs
    if type(text) is not str:
        raise _Unusual
    system = _system(text) if len(text) < _SHORT_TEXT else _system.__wrapped__(text)
    ready[gen_ai.SYSTEM_INSTRUCTIONS] = system.stored
    first = given[0]
    if first.role == "system" and tuple(part.content for part in first.parts if type(part) is Text) == system.texts:
        return inputs, outputs
    return system.lead + inputs[1:], outputs


class _System(NamedTuple):
    """System instructions: their texts, the beginning of an input that they lead, and their stored form."""

    texts: tuple[str, ...]
    lead: bytes
    stored: Any


#: Instructions longer than this are not remembered.
_SHORT_TEXT = 64 * 1024


@lru_cache(maxsize=64)
def _system(text: str) -> _System:
    """The calls of a session say the same instructions again and again."""
    parts = decode_system(text)
    if not parts:
        raise _Unusual
    message = encode([CheckedMessage("system", list(parts), None)])
    exact = _size(text) == len(encode(parts))
    stored = msgspec.Raw(text) if exact else msgspec.json.decode(text)
    return _System(tuple(part.content for part in parts), message[:-1] + b",", stored)


def _calls_first(messages: list[Any]) -> bool:
    return any(
        type(part) is ToolCall and type(behind) is not ToolCall
        for message in messages
        if len(message.parts) > 1
        for part, behind in pairwise(message.parts)
    )


def _decoded(attributes: dict[str, Any], key: str, *, answer: bool) -> Decoded:
    text = attributes.get(key)
    decoded = decode_messages(text, answer=answer) if type(text) is str else None
    if decoded is None or not decoded[0]:
        raise _Unusual
    return decoded


def _stored(
    attributes: dict[str, Any], key: str, messages: list[Any], surplus: int | None, ready: dict[str, Any]
) -> bytes:
    """The messages encoded. Their text may stand in `raw` where its length says that it is written like that."""
    encoded = encode(messages)
    text = attributes[key]
    exact = surplus is not None and _size(text) == len(encoded) + surplus
    # Where the text is exact, a mark stands in it as it is; else its `$` may be escaped.
    if (not exact or "$" in text) and holds_mark(messages):
        raise _Unusual
    ready[key] = msgspec.Raw(text) if exact else msgspec.json.decode(text)
    return encoded


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _text(attributes: dict[str, Any], key: str | None) -> str | None:
    if key is None:
        return None
    found = identity.usable_id(attributes[key])
    if found is None:
        raise _Unusual
    return found


def _number(attributes: dict[str, Any], key: str | None) -> int | None:
    if key is None:
        return None
    value = attributes[key]
    if type(value) is not int or not 0 <= value <= MAX_INTEGER:
        raise _Unusual
    return value
