# SPDX-License-Identifier: Apache-2.0
"""Google's Agent Development Kit: `call_llm` spans with the whole request and response, and what follows them.

Until version 1 a call is a span `call_llm` without an operation. Later versions put a span `generate_content`
inside it, in the conventions' per-message events or, opted in, in their newest form; both describe one call.
Content whose capture was off is `{}` or `<elided>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..formats.exchange import read_request, read_response
from ..formats.usage import read_usage
from ..genai import Content, Detection, Messages, Reading, Subject
from ..telemetry import Span
from ..vocabulary import SpanRole
from .base import Dialect, Signs, Source
from .operations import by_operation
from .reading import Unreadable, opened

NAME = "google_adk"

SCOPE = "gcp.vertex.agent"
REQUEST = "gcp.vertex.agent.llm_request"
RESPONSE = "gcp.vertex.agent.llm_response"
MARKS = (REQUEST, "gcp.vertex.agent.event_id", "gcp.vertex.agent.invocation_id")

#: How the names of spans begin → what they are, where no operation says it. Others are no model calls.
NAMES: dict[str, SpanRole] = {
    "call_llm": SpanRole.CALL,
    "agent_run": SpanRole.AGENT,
    "invoke_agent": SpanRole.AGENT,
    "invocation": SpanRole.AGENT,
    "execute_tool": SpanRole.TOOL,
}


def detect(span: Span) -> Detection | None:
    """Its scope or its own attributes; the operation decides, the span's name where there is none."""
    attributes = span.attributes
    if span.scope.name != SCOPE and not any(mark in attributes for mark in MARKS):
        return None
    found = by_operation(NAME, span)
    if found is not None:
        return found
    role = next((known for start, known in NAMES.items() if span.name.startswith(start)), SpanRole.OTHER)
    return Detection(NAME, role, "the span's name says what it is")


def _read(subject: Subject) -> Content | None:
    attributes = subject.span.attributes
    if REQUEST not in attributes and RESPONSE not in attributes:
        return None
    content = Content()
    try:
        messages, system = read_request(opened(attributes.get(REQUEST))[0])
        if messages:
            content.input = Messages(messages, f"span attribute {REQUEST}")
        if system:
            content.system = Messages([{"role": "system", "parts": system}], f"span attribute {REQUEST}")
    except Unreadable as error:
        content.problem = content.problems["input"] = error.reason
    try:
        response = opened(attributes.get(RESPONSE))[0]
        if type(response) is dict and attributes.get("gen_ai.response.finish_reasons"):
            response = {key: value for key, value in response.items() if key != "finish_reason"}
        answer = read_response(response)
        if answer:
            content.output = Messages(answer, f"span attribute {RESPONSE}")
    except Unreadable as error:
        content.problem = content.problems["output"] = error.reason
    return content if content.input or content.output or content.problem else None


def _amend(subject: Subject, reading: Reading) -> None:
    """A role that ADK did not know is blank: the model's in an answer or over tool calls, else the user's."""
    for messages, answer in ((reading.input, False), (reading.output, True)):
        if messages is None or (messages.items is None and '"role":""' not in (messages.text or "").replace(" ", "")):
            continue
        items = messages.open()
        fixed = [_with_role(message, answer) for message in items]
        if any(new is not old for new, old in zip(fixed, items, strict=True)):
            messages.replace(fixed)


def _with_role(message: Any, answer: bool) -> Any:
    if type(message) is not dict:
        return message
    role = message.get("role")
    if role is not None and (type(role) is not str or role.strip()):
        return message
    parts = message.get("parts")
    calls = any(type(p) is dict and p.get("type") == "tool_call" for p in parts) if type(parts) is list else False
    return {**message, "role": "assistant" if answer or calls else "user"}


def _extra(subject: Subject) -> Mapping[str, Any]:
    """What stands only inside the response: the model that answered, the counts."""
    attributes = subject.span.attributes
    if RESPONSE not in attributes:
        return {}
    try:
        response = opened(attributes[RESPONSE])[0]
    except Unreadable:
        return {}
    if type(response) is not dict:
        return {}
    given, answered = read_usage(response.get("usage_metadata"))
    model = response.get("model_version")
    return {
        "response_model": model if type(model) is str and model else None,
        "input_tokens": given,
        "output_tokens": answered,
    }


DIALECT = Dialect(
    name=NAME,
    title="Google Agent Development Kit",
    detect=detect,
    signs=Signs(keys=MARKS, scopes=(SCOPE,)),
    sources=(Source("llm_request and llm_response", _read),),
    message_attributes=frozenset({REQUEST, RESPONSE}),
    amend=_amend,
    span_extra=_extra,
    seen=("google-adk 2.13.0, in both of its schemas", "google-adk 1.10.0 (source)"),
    not_recoverable=(
        "inline media of `call_llm` spans, which are left out, and on spans of the newest conventions",
        "which texts were thoughts",
        "the response id",
    ),
)
