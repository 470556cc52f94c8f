# SPDX-License-Identifier: Apache-2.0
"""The Vercel AI SDK: its own `ai.*` spans (versions 3 to 6, and 7 in legacy mode) and `@ai-sdk/otel` (7).

A call is the span around the provider: `ai.generateText.doGenerate`, `ai.streamText.doStream` and the same of
the object functions. The span around it is the whole loop of steps and tools, with summed tokens: an agent.
The answer stands in one attribute per kind of part. `@ai-sdk/otel` writes the current conventions; only
provider names and the wrapped results of tools are its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..formats.messages import read_message
from ..formats.parts import read_part, unwrap_output
from ..genai import Content, Detection, Message, Messages, Reading, Subject
from ..telemetry import Span
from ..vocabulary import SkipReason, SpanRole
from . import gen_ai
from .base import Dialect, Signs, Source
from .reading import Unreadable, opened, opened_list

NAME = "ai_sdk"

OPERATION = "ai.operationId"
PROMPT = "ai.prompt.messages"
#: Written by `@ai-sdk/otel` on the spans of its calls and tools, by nobody else: tells it where no scope is kept.
V7_MARKS = ("gen_ai.client.operation.duration", "gen_ai.execute_tool.duration")

#: The functions whose `.doGenerate` and `.doStream` are one call of a model.
_LOOPS = frozenset(
    {"ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject", "ai.workflowAgent.stream"}
)
_CALL_ENDS = (".doGenerate", ".doStream")

#: The parts of an answer, in order: their attributes (the newest name first) and how the value is read.
TEXTS: dict[str, tuple[str, ...]] = {
    "reasoning": ("ai.response.reasoning",),
    "text": ("ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object"),
}
TOOL_CALLS = ("ai.response.toolCalls", "ai.result.toolCalls")
FILES = ("ai.response.files",)


def detect(span: Span) -> Detection | None:
    """`ai.operationId` decides (the span's name before there was one); of version 7, the scope or its marks."""
    attributes = span.attributes
    operation = attributes.get(OPERATION)
    if operation is None:
        if gen_ai.OPERATION in attributes:
            if span.scope.name == "ai" or any(mark in attributes for mark in V7_MARKS):
                found = gen_ai.detect(span)
                if found is not None:
                    return Detection(NAME, found.role, f"{found.reason}, written by @ai-sdk/otel")
            return None
        if not ("ai.model.id" in attributes and span.name.startswith("ai.")):
            return None
        operation = span.name.split(" ", 1)[0]
    if type(operation) is not str:
        return Detection(NAME, SpanRole.OTHER, f"{OPERATION} is no text")
    role = _role(operation)
    return Detection(NAME, role, f"{OPERATION} is {operation if role is not SpanRole.OTHER else 'another operation'}")


def _role(operation: str) -> SpanRole:
    for end in _CALL_ENDS:
        if operation.endswith(end) and operation[: -len(end)] in _LOOPS:
            return SpanRole.CALL
    if operation in _LOOPS:
        return SpanRole.AGENT
    return SpanRole.TOOL if operation == "ai.toolCall" else SpanRole.OTHER


def _read(subject: Subject) -> Content | None:
    attributes = subject.span.attributes
    if OPERATION not in attributes and PROMPT not in attributes:
        return None
    content = Content()
    for direction, read in (("input", _prompt), ("output", _answer)):
        try:
            setattr(content, direction, read(attributes))
        except Unreadable as error:
            content.problem = content.problem or error.reason
            content.problems[direction] = error.reason
    return content if content.input or content.output or content.problem else None


def _prompt(attributes: Mapping[str, Any]) -> Messages | None:
    value = attributes.get(PROMPT)
    if value is None:
        return None
    items, _ = opened_list(value)
    messages = [message for item in items for message in read_message(item)]
    return Messages(messages, f"span attribute {PROMPT}") if messages else None


def _answer(attributes: Mapping[str, Any]) -> Messages | None:
    """One message of the parts that are there; an empty text is none, as the model sent no text."""
    parts: list[Any] = []
    where = ""
    for kind, keys in TEXTS.items():
        for key in keys:
            value = attributes.get(key)
            if type(value) is str and value:
                parts.append({"type": kind, "content": value})
                where = where or key
                break
    for keys, kind in ((TOOL_CALLS, "tool-call"), (FILES, "file")):
        for key in keys:
            found = _items(attributes.get(key), kind)
            if found:
                parts.extend(found)
                where = where or key
                break
    if not parts:
        return None
    message: Message = {"role": "assistant", "parts": parts}
    return Messages([message], f"span attribute {where}")


def _items(value: Any, kind: str) -> list[Any]:
    if value is None:
        return []
    items, _ = opened(value)
    if type(items) is str and items.strip():
        raise Unreadable(SkipReason.MALFORMED)
    found: list[Any] = []
    for item in items if type(items) is list else ():
        found.extend(read_part({**item, "type": kind}) if type(item) is dict else [item])
    return found


def _amend(subject: Subject, reading: Reading) -> None:
    """Version 7 leaves a result that is a list of blocks wrapped as `{type, value}`."""
    messages = reading.input
    if messages is None or (messages.items is None and '"value"' not in (messages.text or "")):
        return
    replaced = []
    changed = False
    for message in messages.open():
        parts = message.get("parts") if type(message) is dict else None
        if type(parts) is list:
            fresh = [_unwrapped(part) for part in parts]
            if any(new is not old for new, old in zip(fresh, parts, strict=True)):
                message, changed = {**message, "parts": fresh}, True
        replaced.append(message)
    if changed:
        messages.replace(replaced)


def _unwrapped(part: Any) -> Any:
    if type(part) is not dict or part.get("type") != "tool_call_response":
        return part
    value = part.get("response")
    plain = unwrap_output(value)
    return part if plain is value else {**part, "response": plain}


DIALECT = Dialect(
    name=NAME,
    title="Vercel AI SDK",
    detect=detect,
    signs=Signs(keys=(OPERATION, *V7_MARKS), scopes=("ai",)),
    sources=(Source("ai.* attributes", _read),),
    fields={
        "response_model": ("ai.response.model",),
        "request_model": ("ai.model.id",),
        "model_provider": ("ai.model.provider",),
        "input_tokens": ("ai.usage.inputTokens", "ai.usage.promptTokens"),
        "output_tokens": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
        "response_id": ("ai.response.id",),
        "finish_reasons": ("ai.response.finishReason", "ai.finishReason"),
    },
    user_keys=("ai.telemetry.metadata.userId", "ai.settings.context.userId"),
    message_attributes=frozenset({PROMPT, *TOOL_CALLS, *FILES}),
    amend=_amend,
    provider_to_first_dot=True,
    seen=(
        "ai 4.3.19 and 6.0.326; ai 3.4 and 5.0 (source)",
        "ai 7.0.173 with @ai-sdk/otel 1.0.173, and its legacy spans",
        "OpenCode 1.18.33 with `experimental.openTelemetry`",
    ),
    not_recoverable=("usage of streams that report none", "the order of text and tool calls within an answer"),
)
