# SPDX-License-Identifier: Apache-2.0
"""OpenLLMetry (Traceloop): numbered prompts and completions up to 0.54, the current conventions since.

Up to 0.54 messages are flattened into `gen_ai.prompt.N.*` and `gen_ai.completion.N.*` (before that
`llm.prompts` and `llm.completions`), and `llm.request.type` says what the span is; the spans of Responses name
no type at all. Content may be JSON text of a list of blocks. A thinking block, the items of Responses through
the Agents SDK, and the blocks of Bedrock's answer each stand as a completion of their own: they are one message.
`traceloop.entity.input` and `.output` hold any function's arguments and are never messages.
"""

from __future__ import annotations

import re
from typing import Any

from ..formats.messages import merge_assistant, read_message, read_parts
from ..formats.parts import BY_KEY, BY_TYPE, read_part, summary_text
from ..genai import Content, Detection, Messages, NotJson, Reading, Subject, loads
from ..telemetry import Span
from ..vocabulary import SkipReason, SpanRole
from . import gen_ai
from .base import Dialect, Signs, Source
from .indexed import Branch, branch, branches, first_keys, gap, numbered
from .reading import Unreadable

NAME = "openllmetry"

REQUEST_TYPE = "llm.request.type"
SPAN_KIND = "traceloop.span.kind"
PROMPTS = ("gen_ai.prompt", "llm.prompts")
COMPLETIONS = ("gen_ai.completion", "llm.completions")

#: `llm.request.type` → what the span is. Embeddings and reranking are no model calls.
REQUEST_TYPES: dict[str, SpanRole] = {
    "chat": SpanRole.CALL,
    "completion": SpanRole.CALL,
    "response": SpanRole.CALL,
    "realtime": SpanRole.CALL,
}
#: `traceloop.span.kind` of spans that are no calls → what they are.
SPAN_KINDS: dict[str, SpanRole] = {
    "workflow": SpanRole.AGENT,
    "agent": SpanRole.AGENT,
    "tool": SpanRole.TOOL,
    "task": SpanRole.OTHER,
}
#: Attributes that only OpenLLMetry writes beside the current conventions.
MARKS = ("gen_ai.is_streaming", "gen_ai.openai.api_base", "traceloop.workflow.name", "traceloop.entity.path")
_SPOKEN = first_keys((*PROMPTS, *COMPLETIONS), ("role", "content", "user", "finish_reason", "tool_calls.0.name"))


def detect(span: Span) -> Detection | None:
    """The request type, else the current operation with a mark of OpenLLMetry, else numbered messages."""
    attributes = span.attributes
    operation = attributes.get(gen_ai.OPERATION)
    kind = attributes.get(REQUEST_TYPE)
    if type(operation) is str and operation in gen_ai.OPERATIONS:
        if kind is not None:
            return Detection(NAME, gen_ai.OPERATIONS[operation], f"{gen_ai.OPERATION} is {operation}")
        for mark in MARKS:
            if mark in attributes:
                return Detection(NAME, gen_ai.OPERATIONS[operation], f"{gen_ai.OPERATION} is {operation}")
        return None
    if type(kind) is str and kind in REQUEST_TYPES:
        return Detection(NAME, REQUEST_TYPES[kind], f"{REQUEST_TYPE} is {kind}")
    if operation is not None:
        return None
    if type(kind) is str and kind != "unknown":
        return Detection(NAME, SpanRole.OTHER, f"{REQUEST_TYPE} is another type")
    if not _SPOKEN.isdisjoint(attributes):
        return Detection(NAME, SpanRole.CALL, "numbered prompts or completions")
    span_kind = attributes.get(SPAN_KIND)
    if type(span_kind) is str:
        role = SPAN_KINDS.get(span_kind, SpanRole.OTHER)
        return Detection(NAME, role, f"{SPAN_KIND} is {span_kind if span_kind in SPAN_KINDS else 'another kind'}")
    if "llm.usage.total_tokens" in attributes and "gen_ai.response.id" in attributes:
        return Detection(NAME, SpanRole.CALL, "a response id and usage without a request type")
    return None


# -- numbered messages -------------------------------------------------------------------------------------


def _from_numbered(subject: Subject) -> Content | None:
    attributes = subject.span.attributes
    if REQUEST_TYPE not in attributes and _SPOKEN.isdisjoint(attributes):
        return None
    content = Content()
    dropped = subject.span.dropped_attributes
    for direction, prefixes, read in (("input", PROMPTS, _prompts), ("output", COMPLETIONS, _completions)):
        for prefix in prefixes:
            items = [(i, item) for i, item in numbered(branch(attributes, prefix)) if type(item) is Branch]
            if not items:
                continue
            if gap([index for index, _ in items], dropped) or _headless(items, dropped, direction):
                content.problem = content.problems[direction] = SkipReason.TRUNCATED
                break
            try:
                messages = read([item for _, item in items])
            except Unreadable as error:
                content.problem = content.problems[direction] = error.reason
                break
            if messages:
                setattr(content, direction, Messages(messages, f"numbered attributes {prefix}"))
                break
    if content.output is not None and content.input is None and dropped and not content.problems:
        content.problem = content.problems["input"] = SkipReason.TRUNCATED
    return content if content.input or content.output or content.problem else None


def _headless(items: list[tuple[int, Branch]], dropped: int, direction: str) -> bool:
    """Whether the first prompt lost its role to the attribute limit, and so may have lost more."""
    first = items[0][1]
    return bool(dropped) and direction == "input" and first.value("role") is None and first.value("user") is None


def _in_items(subject: Subject) -> bool:
    """Responses, whose items may stand as completions and prompts of their own."""
    kind = subject.span.attributes.get(REQUEST_TYPE)
    return kind == "response" or subject.span.name == "openai.response"


def _prompts(items: list[Branch]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        found.extend(_message(item, None))
    return found


def _completions(items: list[Branch]) -> list[Any]:
    """The answer's choices. What is only a piece of a choice joins the message that it belongs to."""
    found: list[Any] = []
    open_thought = False
    named = items[0].value("role") is not None
    for index, item in enumerate(items):
        messages = _message(item, "assistant")
        piece = open_thought or (index > 0 and named and item.value("role") is None)
        open_thought = item.value("role") == "thinking"
        if piece and found:
            found[-1:] = merge_assistant([found[-1], *messages])
        else:
            found.extend(messages)
    return found


def _message(item: Branch, default_role: str | None) -> list[Any]:
    role = item.value("role")
    content = item.value("content")
    if role is None and content is None and item.value("user") is not None:
        role, content = "user", item.value("user")
    calls = [_call(entry) for entry in branches(item.below("tool_calls"))]
    function = item.below("function_call")
    if function and not calls:
        calls = [{"type": "function", "name": function.value("name"), "arguments": function.value("arguments")}]
    if role == "thinking":
        role = "assistant"
        parts = [{"type": "reasoning", "content": content}]
    else:
        parts = _reasoning(item.value("reasoning")) + _parts(content, role, bool(calls))
    refusal = item.value("refusal")
    if type(refusal) is str and refusal:
        parts.append({"type": "refusal", "refusal": refusal})
    if role is None:
        role = default_role
    message: dict[str, Any] = {"role": role, "parts": parts}
    if calls:
        message["tool_calls"] = calls
    call_id = item.value("tool_call_id")
    if call_id is not None:
        result = {"type": "tool_call_response", "id": call_id, "response": content}
        message["parts"] = [result]
    reason = item.value("finish_reason")
    if type(reason) is str and reason:
        message["finish_reason"] = reason
    return read_message(message)


def _call(entry: Branch) -> dict[str, Any]:
    call: dict[str, Any] = {"type": "function", "id": entry.value("id")}
    function = entry.below("function")
    for name in ("name", "arguments"):
        value = entry.value(name)
        value = function.value(name) if value is None else value
        if value is not None:
            call[name] = value
    return call


def _parts(content: Any, role: Any, has_calls: bool) -> list[Any]:
    """Text, or the blocks that its JSON text holds. A JSON empty text or list beside tool calls says nothing."""
    if content is None:
        return []
    if type(content) is not str:
        return read_parts(content)
    if has_calls and content in ('""', "[]"):
        return []
    blocks = blocks_of(content)
    if blocks is None:
        return [{"type": "text", "content": content}]
    return [part for block in blocks for part in read_part(block)]


_BLOCKS = re.compile(r"\s*\[\s*\{\s*\"")
#: Types of blocks that have no reader of their own because they are in the GenAI form, or are kept as they are.
_OTHER_TYPES = frozenset({"tool_call", "tool_call_response", "blob", "uri", "refusal", "server_tool_use"})
_CUT_BLOCKS = re.compile(r"\s*\[\s*\{\s*\"type\"\s*:\s*\"([a-z_]+)\"")


def blocks_of(text: str) -> list[Any] | None:
    """The content blocks that a text holds as JSON; None where it is a text like any other.

    Raises `Unreadable` where such a list is cut short.
    """
    if _BLOCKS.match(text) is None:
        return None
    try:
        found = loads(text)
    except NotJson as error:
        begun = _CUT_BLOCKS.match(text) if error.cut else None
        if begun is not None and (begun[1] in BY_TYPE or begun[1] in _OTHER_TYPES):
            raise Unreadable(SkipReason.TRUNCATED) from None
        return None
    if type(found) is list and found and all(map(_is_block, found)):
        return found
    return None


def _is_block(item: Any) -> bool:
    if type(item) is not dict:
        return False
    kind = item.get("type")
    if kind is None:
        return len(item) <= 2 and any(key in item for key in BY_KEY)
    return type(kind) is str and (kind in BY_TYPE or kind in _OTHER_TYPES)


def _reasoning(value: Any) -> list[Any]:
    """Reasoning, of Responses as JSON text of its summary."""
    text = opened_summary(value)
    return [{"type": "reasoning", "content": text}] if text else []


def opened_summary(value: Any) -> Any:
    """The text of a reasoning summary that stands as JSON text of its list; any other text as it is."""
    if type(value) is str and value[:2] == "[{":
        try:
            items = loads(value)
        except NotJson:
            return value
        if type(items) is list and items and all(type(i) is dict and i.get("type") == "summary_text" for i in items):
            return summary_text(items) or value
    return value


# -- what no table can say -----------------------------------------------------------------------------------


def _amend(subject: Subject, reading: Reading) -> None:
    """Items of Responses are joined; summaries that since 0.55 stand as JSON text inside a part become text."""
    gen_ai.amend(subject, reading)
    if not _in_items(subject):
        return
    gen_ai.merge_items(reading)
    for messages in (reading.input, reading.output):
        if messages is None:
            continue
        items = messages.open()
        opened = [_with_summaries(message) for message in items]
        if any(new is not old for new, old in zip(opened, items, strict=True)):
            messages.replace(opened)


def _with_summaries(message: Any) -> Any:
    parts = message.get("parts") if type(message) is dict else None
    if type(parts) is not list:
        return message
    changed = [_with_summary(part) for part in parts]
    return {**message, "parts": changed} if any(a is not b for a, b in zip(changed, parts, strict=True)) else message


def _with_summary(part: Any) -> Any:
    if type(part) is not dict or part.get("type") != "reasoning":
        return part
    text = opened_summary(part.get("content"))
    return part if text is part.get("content") else {**part, "content": text}


DIALECT = Dialect(
    name=NAME,
    title="OpenLLMetry (Traceloop)",
    detect=detect,
    signs=Signs(keys=(REQUEST_TYPE, *MARKS)),
    sources=(Source("numbered prompts and completions", _from_numbered),),
    fields={
        "response_model": ("llm.response.model",),
        "request_model": ("llm.request.model",),
        "model_provider": ("llm.vendor",),
        "input_tokens": ("llm.usage.prompt_tokens",),
        "output_tokens": ("llm.usage.completion_tokens",),
    },
    user_keys=("traceloop.association.properties.user_id", "gen_ai.user", "llm.user"),
    amend=_amend,
    indexed=(*PROMPTS, *COMPLETIONS),
    seen=(
        "opentelemetry-instrumentation-openai 0.40.14, -openai, -anthropic and -langchain 0.47.5 (numbered attributes)",
        "opentelemetry-instrumentation-openai, -anthropic and -openai-agents 0.62.4 (current conventions)",
    ),
    not_recoverable=(
        "tool calls, tool results and reasoning in the history of Responses (0.54 and older)",
        "the call id of a Responses tool call: the item id (`fc_…`) stands in its place",
        "the input of a stream with an image (0.62), the output of chat completions through the Agents SDK",
        "tool use and usage of Anthropic streams (0.40)",
        "tool use in answers of Bedrock's Converse (0.54 and older)",
    ),
)
