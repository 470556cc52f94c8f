# SPDX-License-Identifier: Apache-2.0
"""A fact as the body of `POST /ingest/gateway`. Pure.

Sediment has no door for finished facts; the one for gateways reads a completion as LiteLLM reports it. The body
says the fact in that shape, so that what the server makes of it is the fact again: the same id (through
`capture`), the same messages value for value, the same scalars. `raw` travels inside the payload, which the
server keeps whole as its own `raw`.

What that shape has no words for is not left silent: `Envelope.unsaid` names it, by `Unsaid`. A tool result that is
text and reads as JSON is sent as JSON text of itself, since the server decodes one layer.
"""

from __future__ import annotations

import re
import uuid
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from ...translate.identity import capture_id, inference_call_id

#: The largest body that the server takes.
MAX_BODY_BYTES = 25 * 1024 * 1024
#: The only provider that the server has a translator for; it stamps its name on what it stores.
PROVIDER = "litellm"


class Unsaid(str, Enum):
    """What the stored call does not say although the fact does."""

    GATEWAY_STAMPED = "gateway_stamped"
    RAW_RESIDUAL = "raw_residual"
    OUTPUT_FINISH_REASON = "output_finish_reason"
    INPUT_FINISH_REASON = "input_finish_reason"
    BLANK_REASONING = "blank_reasoning"
    PADDING = "padding"
    OBSERVED_AT_CUT = "observed_at_cut"


UNSAID_MEANS: dict[Unsaid, str] = {
    Unsaid.GATEWAY_STAMPED: f"the server stores gateway_provider {PROVIDER}, whatever the fact says",
    Unsaid.RAW_RESIDUAL: "the fact was too large for the server: sent without the part of raw that the messages repeat",
    Unsaid.OUTPUT_FINISH_REASON: "several output messages: their finish reasons are stored in raw only",
    Unsaid.INPUT_FINISH_REASON: "finish reasons of input messages are stored in raw only",
    Unsaid.BLANK_REASONING: "reasoning parts without text are stored in raw only",
    Unsaid.PADDING: "white space around a role or a finish reason is not stored",
    Unsaid.OBSERVED_AT_CUT: "observed_at is stored with microseconds",
}


class NoCapture(ValueError):
    """The fact does not say what it was captured from, or not what its id was computed from."""


class Envelope(NamedTuple):
    """What is posted, and what it cannot say."""

    body: bytes
    unsaid: tuple[Unsaid, ...]


class _SpanIds(msgspec.Struct):
    trace_id: str | None = None
    span_id: str | None = None


class _Capture(msgspec.Struct):
    id: str | None = None


class _RawHead(msgspec.Struct):
    span: _SpanIds | None = None
    capture: _Capture | None = None


class _Fact(msgspec.Struct):
    """A fact that was checked before; `raw` stays the bytes that it is."""

    inference_call_id: str
    org_id: str
    session_id: str
    user_id: str | None
    gateway_provider: str
    model_provider: str | None
    model: str | None
    input_messages: list[dict[str, Any]]
    output_messages: list[dict[str, Any]]
    input_tokens: int | None
    output_tokens: int | None
    duration_ms: int | None
    model_call_id: str | None
    observed_at: str
    raw: msgspec.Raw


_fact = msgspec.json.Decoder(_Fact).decode
_raw_head = msgspec.json.Decoder(_RawHead).decode
_encode = msgspec.json.Encoder().encode
#: What the text of a JSON value can begin with (the server's reader also takes NaN and Infinity).
_MAYBE_JSON = re.compile(r'[ \t\r\n]*[\[{"\-0-9tfnNI]')
_FINER_THAN_MICROSECONDS = re.compile(r"\.\d{6}0*[1-9]")


def envelope(encoded: bytes, capture_key: str | None = None, *, residual: bool = False) -> Envelope:
    """The body for a valid fact, given as JSON. `capture_key` where the caller knows it (`Delivery.capture_key`).

    Raises `NoCapture`. `residual` says that `encoded` has been cut to the residual raw.
    """
    fact = _fact(encoded)
    capture = capture_of(fact.inference_call_id, fact.org_id, fact.raw, capture_key)
    unsaid = _unsaid(fact)
    if residual:
        unsaid.add(Unsaid.RAW_RESIDUAL)
    payload = {
        "model": fact.model,
        "custom_llm_provider": fact.model_provider,
        "litellm_call_id": fact.model_call_id,
        "messages": [_message(message) for message in fact.input_messages],
        "response": _response(fact.output_messages),
        "usage": {"prompt_tokens": fact.input_tokens, "completion_tokens": fact.output_tokens},
        "response_time_ms": fact.duration_ms,
        "gateway_provider": fact.gateway_provider,
        "raw": fact.raw,
    }
    body = {
        "provider": PROVIDER,
        "session_id": fact.session_id,
        "user_id": fact.user_id,
        "payload": payload,
        "capture": {"id": capture, "observed_at": fact.observed_at},
    }
    return Envelope(_encode(body), tuple(sorted(unsaid)))


def capture_of(fact_id: str, org: str, raw: msgspec.Raw | bytes, capture_key: str | None = None) -> str:
    """The capture id from which Sediment computes exactly `fact_id`. Raises `NoCapture`."""
    candidates = [capture_id(capture_key)] if capture_key is not None else []
    try:
        head = _raw_head(raw)
    except msgspec.ValidationError:
        head = _RawHead()
    if head.capture is not None and head.capture.id is not None:
        candidates.append(head.capture.id)
    if head.span is not None and head.span.trace_id and head.span.span_id:
        candidates.append(capture_id(f"{head.span.trace_id}:{head.span.span_id}"))
    for candidate in candidates:
        try:
            capture = str(uuid.UUID(candidate))
        except ValueError:
            continue
        if inference_call_id(org, capture) == fact_id:
            return capture
    raise NoCapture("no trace and span id (or capture id) in raw gives the id of the fact")


def _message(message: dict[str, Any]) -> dict[str, Any]:
    return {"role": message["role"], "content": [_part(part) for part in message["parts"]]}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "tool_call_response":
        result = part["result"]
        if type(result) is str and _MAYBE_JSON.match(result):
            return {**part, "result": _encode(result).decode()}
    return part


def _response(outputs: list[dict[str, Any]]) -> dict[str, Any]:
    if len(outputs) > 1:
        return {"output": [{"type": "message", **_message(message)} for message in outputs]}
    return {
        "choices": [{"finish_reason": message["finish_reason"], "message": _message(message)} for message in outputs]
    }


def _unsaid(fact: _Fact) -> set[Unsaid]:
    found = set()
    if fact.gateway_provider != PROVIDER:
        found.add(Unsaid.GATEWAY_STAMPED)
    if any(message["finish_reason"] is not None for message in fact.input_messages):
        found.add(Unsaid.INPUT_FINISH_REASON)
    if len(fact.output_messages) > 1 and any(message["finish_reason"] is not None for message in fact.output_messages):
        found.add(Unsaid.OUTPUT_FINISH_REASON)
    for message in (*fact.input_messages, *fact.output_messages):
        if message["role"] != message["role"].strip():
            found.add(Unsaid.PADDING)
        if any(part["type"] == "reasoning" and not part["content"].strip() for part in message["parts"]):
            found.add(Unsaid.BLANK_REASONING)
    for message in fact.output_messages[:1]:
        reason = message["finish_reason"]
        if reason is not None and (not reason or reason != reason.strip()):
            found.add(Unsaid.PADDING)
    if _FINER_THAN_MICROSECONDS.search(fact.observed_at):
        found.add(Unsaid.OBSERVED_AT_CUT)
    return found
