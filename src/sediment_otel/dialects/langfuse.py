# SPDX-License-Identifier: Apache-2.0
"""Langfuse's SDKs: spans with `langfuse.observation.*`, in versions 3 and later (on OpenTelemetry).

What was sent and answered stands in `langfuse.observation.input` and `.output`: JSON text, unless it was text
already. The input is a list of messages, a request that holds one beside its tools, a request of the Responses
API, or plain text; the output a message, a list of choices, an item of the Responses API or a list of them, or
plain text. Inline media are replaced by a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..formats.exchange import read_request, read_response
from ..formats.messages import merge_assistant, read_message
from ..formats.usage import read_additive
from ..genai import Content, Detection, Messages, Subject
from ..telemetry import Span
from ..vocabulary import SkipReason, SpanRole
from .base import Dialect, Signs, Source
from .reading import Unreadable, opened

NAME = "langfuse"

TYPE = "langfuse.observation.type"
INPUT = "langfuse.observation.input"
OUTPUT = "langfuse.observation.output"
USAGE = "langfuse.observation.usage_details"
METADATA = "langfuse.observation.metadata"

#: `langfuse.observation.type` → what the span is. All others (span, chain, embedding, …) are no model calls.
TYPES: dict[str, SpanRole] = {"generation": SpanRole.CALL, "agent": SpanRole.AGENT, "tool": SpanRole.TOOL}


def detect(span: Span) -> Detection | None:
    """The type of the observation decides."""
    kind = span.attributes.get(TYPE)
    if kind is None:
        return None
    role = TYPES.get(kind, SpanRole.OTHER) if type(kind) is str else SpanRole.OTHER
    return Detection(NAME, role, f"{TYPE} is {kind if role is not SpanRole.OTHER else 'another type'}")


def _read(subject: Subject) -> Content | None:
    attributes = subject.span.attributes
    if TYPE not in attributes:
        return None
    content = Content()
    for direction, key in (("input", INPUT), ("output", OUTPUT)):
        try:
            value = _value(attributes.get(key))
        except Unreadable as error:
            content.problem = content.problem or error.reason
            content.problems[direction] = error.reason
            continue
        if direction == "output":
            messages = _answer(value, attributes.get(key))
        else:
            messages, system = _prompt(value)
            if system:
                content.system = Messages([{"role": "system", "parts": system}], f"span attribute {key}")
        if messages:
            setattr(content, direction, Messages(messages, f"span attribute {key}"))
    return content if content.input or content.output or content.problem else None


def _value(value: Any) -> Any:
    """The value without its layer of JSON text; text that is no JSON, even if it begins like it, is itself."""
    try:
        return opened(value)[0]
    except Unreadable as error:
        if error.reason is SkipReason.TRUNCATED:
            raise
        return value


def _prompt(value: Any) -> tuple[list[Any], list[Any]]:
    if type(value) is str:
        return ([{"role": "user", "parts": [{"type": "text", "content": value}]}] if value else []), []
    if type(value) is list and value and all(type(item) is str for item in value):
        return [message for item in value for message in _prompt(item)[0]], []
    if type(value) is dict and "kwargs" in value and "args" in value:  # the arguments of a function that was observed
        value = value["kwargs"]
    messages, system = read_request(value)
    if _has_items(value):
        messages = merge_assistant(messages)
    return messages, system


def _answer(value: Any, given: Any) -> list[Any]:
    """Choices; several messages are several choices, several items of the Responses API are one."""
    if value is None or value == "":
        return []
    items = value if type(value) is list else [value]
    if items and all(type(item) is dict for item in items):
        if _has_items(items):
            return merge_assistant([message for item in items for message in _choice(item)])
        if all(item.keys() & _MESSAGE_KEYS for item in items):
            found = [message for item in items for message in _choice(item)]
            if found:
                return found
        if type(value) is dict:
            found = read_response(value)
            if found:
                return found
    text = value if type(value) is str else given if type(given) is str else None
    return [{"role": "assistant", "parts": [{"type": "text", "content": text}]}] if text else []


_MESSAGE_KEYS = frozenset({"role", "tool_calls", "function_call"})
_ITEM_TYPES = frozenset({"message", "reasoning", "function_call", "function_call_output", "custom_tool_call"})


def _has_items(value: Any) -> bool:
    items = value if type(value) is list else ()
    return any(type(i) is dict and type(i.get("type")) is str and i["type"] in _ITEM_TYPES for i in items)


def _choice(item: dict[str, Any]) -> list[Any]:
    given = item if item.get("role") is not None or _has_items([item]) else {**item, "role": "assistant"}
    return read_message(given)


def _extra(subject: Subject) -> Mapping[str, Any]:
    """What is JSON text: the finish reason and id among the metadata, and the counts."""
    attributes = subject.span.attributes
    found: dict[str, Any] = {
        "finish_reasons": _metadata(attributes, "finish_reason"),
        "response_id": _metadata(attributes, "id"),
        "previous_response_id": _metadata(attributes, "previous_response_id"),
    }
    try:
        usage = opened(attributes.get(USAGE))[0]
    except Unreadable:
        usage = None
    found["input_tokens"], found["output_tokens"] = read_additive(usage)
    return found


def _metadata(attributes: Mapping[str, Any], key: str) -> str | None:
    value = attributes.get(f"{METADATA}.{key}")
    if type(value) is str and value[:1] == '"':
        try:
            value = opened(f"[{value}]")[0][0]
        except (Unreadable, LookupError, TypeError):
            return None
    return value if type(value) is str and value not in ("", "null") else None


DIALECT = Dialect(
    name=NAME,
    title="Langfuse",
    detect=detect,
    signs=Signs(keys=(TYPE,)),
    sources=(Source("langfuse.observation input and output", _read),),
    fields={"response_model": ("langfuse.observation.model.name",)},
    user_keys=("langfuse.user.id",),
    message_attributes=frozenset({INPUT, OUTPUT}),
    span_extra=_extra,
    seen=("langfuse 5.0.4 over openai 3.57.0, langfuse 3.2.0 (source)",),
    not_recoverable=(
        "the model service and, but for streams of the Responses API, the response id",
        "finish reasons, but for streams",
        "inline media, which a token replaces",
        "that a call continued an earlier response",
    ),
)
