# SPDX-License-Identifier: Apache-2.0
"""LiteLLM's own OpenTelemetry callback: legacy spans, semantic-convention mode, and its second version.

Messages have `parts`, with the fields of the OpenAI API beside them. Tool calls of an answer stand apart, as
`gen_ai.completion.N.function_call` (N counts the calls of the answer, not its choices), and without id: the
child span `raw_gen_ai_request`, which keeps the provider's response as Python text, may supply it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..formats.messages import read_message, read_parts
from ..formats.python_repr import literal
from ..genai import Detection, Messages, Part, Reading, Subject, loads, peel
from ..telemetry import Span
from ..vocabulary import SpanRole
from . import gen_ai
from .base import Dialect, Signs

NAME = "litellm"

SCOPE = "litellm"
CALL_ID = "litellm.call_id"
REQUEST_TYPE = "llm.request.type"
RAW_REQUEST = "raw_gen_ai_request"

#: LiteLLM's call types → whether they are calls of a model. The asynchronous ones have an "a" in front.
CALL_TYPES = frozenset(
    {
        "completion",
        "text_completion",
        "responses",
        "anthropic_messages",
        "generate_content",
        "generate_content_stream",
        "chat",
    }
)
_RESPONSES = ("responses", "aresponses")
_FUNCTION = re.compile(r"gen_ai\.completion\.(\d{1,6})\.function_call\.(name|arguments)")
#: What the raw child calls the provider's answer → how its tool calls are found.
_RAW_ANSWER = re.compile(r"llm\.[^.]+\.(choices|content|output|candidates)")


def detect(span: Span) -> Detection | None:
    """The scope, or a `litellm.*` attribute; the call type says what the span is."""
    attributes = span.attributes
    if span.scope.name != SCOPE and CALL_ID not in attributes and span.name != RAW_REQUEST:
        return None
    operation = attributes.get(gen_ai.OPERATION)
    role = gen_ai.OPERATIONS.get(operation) if type(operation) is str else None
    if role is not None:
        return Detection(NAME, role, f"{gen_ai.OPERATION} is {operation}")
    for key in (gen_ai.OPERATION, REQUEST_TYPE, "litellm.call_type"):
        kind = attributes.get(key)
        if type(kind) is str and (kind in CALL_TYPES or (kind[:1] == "a" and kind[1:] in CALL_TYPES)):
            return Detection(NAME, SpanRole.CALL, f"{key} is {kind}")
    return Detection(NAME, SpanRole.OTHER, "a span of LiteLLM that names no call of a model")


def lends_ids(span: Span) -> bool:
    """The raw copy of a request, under whatever name the user gave it."""
    if span.name != RAW_REQUEST and (span.scope.name != SCOPE or gen_ai.OPERATION in span.attributes):
        return False
    return any(_RAW_ANSWER.fullmatch(key) for key in span.attributes)


def _amend(subject: Subject, reading: Reading) -> None:
    attributes = subject.span.attributes
    fields = reading.fields
    if fields.get("response_id") is not None and fields["response_id"] == attributes.get(CALL_ID):
        del fields["response_id"]  # LiteLLM's own id of the call, which stands in where no response came
    if attributes.get(REQUEST_TYPE) in _RESPONSES or attributes.get(gen_ai.OPERATION) in _RESPONSES:
        gen_ai.merge_items(reading)
    functions = _functions(attributes)
    if functions:
        _append(reading, functions)
    if reading.output is not None and subject.siblings:
        _lend(reading.output, subject.siblings)


def _functions(attributes: Mapping[str, Any]) -> list[Part]:
    """The tool calls that stand apart, in their order."""
    found: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith("gen_ai.completion."):
            match = _FUNCTION.fullmatch(key)
            if match is not None:
                found.setdefault(int(match[1]), {})[match[2]] = value
    calls = []
    for index in sorted(found):
        call: Part = {"type": "tool_call", "id": None}
        call.update({key: found[index][key] for key in ("name", "arguments") if key in found[index]})
        calls.append(call)
    return calls


def _append(reading: Reading, functions: list[Part]) -> None:
    """Calls that the output does not hold already become parts of its message, after those it has."""
    messages = list(reading.output.open()) if reading.output is not None else []
    held = [part for message in messages for part in _calls_of(message)]
    missing = [call for call in functions if not _taken(call, held)]
    if not missing:
        return
    place = _place(messages)
    if place is None:
        messages.append({"role": "assistant", "parts": missing})
    else:
        message = messages[place]
        messages[place] = {**message, "parts": [*message["parts"], *missing]}
    if reading.output is None:
        reading.output = Messages(messages, "span attributes gen_ai.completion.N.function_call")
    else:
        reading.output.replace(messages)


def _place(messages: list[Any]) -> int | None:
    """The message that the calls belong to: the one that ended for tool calls, else the first."""
    fit = [i for i, m in enumerate(messages) if type(m) is dict and type(m.get("parts")) is list]
    ended = [i for i in fit if messages[i].get("finish_reason") in ("tool_calls", "tool_call", "function_call")]
    return ended[0] if ended else fit[0] if fit else None


def _calls_of(message: Any) -> Iterator[Part]:
    parts = message.get("parts") if type(message) is dict else None
    for part in parts if type(parts) is list else ():
        if type(part) is dict and part.get("type") == "tool_call":
            yield part


def _taken(call: Part, held: list[Part]) -> bool:
    """Whether an equal call is among those held; it is used up by that."""
    for index, other in enumerate(held):
        if _equal(call, other):
            del held[index]
            return True
    return False


def _equal(call: Part, other: Part) -> bool:
    if call.get("name") != other.get("name"):
        return False
    return bool(peel(call.get("arguments"))[0] == peel(other.get("arguments"))[0])


def _lend(output: Messages, siblings: Any) -> None:
    """Fill in the ids that calls lack, from equal calls of the raw response, each used once."""
    messages = output.open()
    if all(call.get("id") for message in messages for call in _calls_of(message)):
        return
    raw = [call for span in siblings for call in _raw_calls(span) if call.get("id")]
    known = {call["id"] for message in messages for call in _calls_of(message) if type(call.get("id")) is str}
    raw = [call for call in raw if call["id"] not in known]
    changed = False
    replaced = []
    for message in messages:
        if type(message) is dict and type(message.get("parts")) is list:
            parts = []
            for part in message["parts"]:
                if type(part) is dict and part.get("type") == "tool_call" and not part.get("id"):
                    lender = next((call for call in raw if _equal(part, call)), None)
                    if lender is not None:
                        raw.remove(lender)
                        part, changed = {**part, "id": lender["id"]}, True
                parts.append(part)
            message = {**message, "parts": parts}
        replaced.append(message)
    if changed:
        output.replace(replaced)


def _raw_calls(span: Span) -> list[Part]:
    """The tool calls of a provider's response, as the raw copy keeps it."""
    found: list[Part] = []
    for key in sorted(span.attributes):
        match = _RAW_ANSWER.fullmatch(key)
        if match is None:
            continue
        value = _value(span.attributes[key])
        for message in _raw_messages(match[1], value):
            found.extend(_calls_of(message))
    return found


def _value(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return loads(value)
    except ValueError:
        return literal(value)


def _raw_messages(kind: str, value: Any) -> list[Any]:
    if kind == "content":
        return [{"parts": read_parts(value)}]
    if type(value) is dict:
        value = [value]
    found: list[Any] = []
    for item in value if type(value) is list else ():
        if type(item) is not dict:
            continue
        inner = item.get("message") if kind in ("choices", "output") else item.get("content")
        if kind == "candidates" and type(inner) is dict:
            found.append({"parts": read_parts(inner.get("parts"))})
        elif type(inner) is dict:
            found.extend(read_message(inner))
        elif kind == "output":
            found.extend(read_message(item))
    return found


DIALECT = Dialect(
    name=NAME,
    title="LiteLLM",
    detect=detect,
    signs=Signs(keys=(CALL_ID,), scopes=(SCOPE,), names=(RAW_REQUEST,)),
    user_keys=("llm.user", "metadata.user_api_key_end_user_id", "metadata.user_api_key_user_id"),
    amend=_amend,
    lends_ids=lends_ids,
    seen=("litellm 1.110.2, legacy and semantic-convention mode, synchronous and not",),
    not_recoverable=(
        "ids of an answer's tool calls without the raw copy (streams, semantic-convention mode)",
        "reasoning, which the raw copy alone has",
        "calls in one span of the application but the last: legacy mode, unless USE_OTEL_LITELLM_REQUEST_SPAN is true",
    ),
)
