# SPDX-License-Identifier: Apache-2.0
"""Pydantic Logfire: its own instrumentation of OpenAI, Anthropic and OpenAI Agents, and its pending spans.

Until version 4 a span keeps the request as `request_data` and the answer as `response_data`; calls of the
Responses API keep an `events` list, in which the answer's items follow the input's. A stream leaves two spans:
the one of the request, which ends before the answer begins, and a log "streaming response from …" with both.
The second is the call. Version 5 writes the current conventions beside or in place of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..formats.exchange import read_request, read_response, response_facts
from ..formats.messages import merge_assistant, read_message
from ..formats.parts import read_part
from ..formats.usage import read_usage
from ..genai import Content, Detection, Message, Messages, Reading, Subject, loads, plain
from ..telemetry import Span
from ..vocabulary import SpanRole
from . import gen_ai
from .base import Dialect, Signs, Source
from .reading import Unreadable, opened

NAME = "logfire"

#: The scope in which spans of OpenAI Agents keep request and answer in one list.
AGENTS = "logfire.openai_agents"
REQUEST = "request_data"
RESPONSE = "response_data"
EVENTS = "events"
TEMPLATE = "logfire.msg_template"
SPAN_TYPE = "logfire.span_type"
#: The response of the Responses API, as the instrumentation of OpenAI Agents keeps it whole.
WHOLE_RESPONSE = "response"

#: How the names of spans begin → what they are, where no operation says it. Others are no model calls.
NAMES: dict[str, SpanRole] = {
    "Chat Completion with": SpanRole.CALL,
    "Chat completion with": SpanRole.CALL,
    "Completion with": SpanRole.CALL,
    "Responses API": SpanRole.CALL,
    "Message with": SpanRole.CALL,
    "streaming response from": SpanRole.CALL,
    "Agent run": SpanRole.AGENT,
    "Function:": SpanRole.TOOL,
}
#: What a client's span has once its response came; without any of these it is the start of a stream. (Its
#: response model is no sign: Logfire fills it in from the request.)
_ANSWERED = (
    RESPONSE,
    WHOLE_RESPONSE,
    gen_ai.OUTPUT_MESSAGES,
    "gen_ai.response.id",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
)


def detect(span: Span) -> Detection | None:
    """Requests and templates tell Logfire's own spans; pending spans are copies of spans that were still open."""
    attributes = span.attributes
    if attributes.get(SPAN_TYPE) == "pending_span":
        return Detection(NAME, SpanRole.OTHER, f"{SPAN_TYPE} is pending_span")
    agents = span.scope.name == AGENTS
    name = _name(span)
    if REQUEST not in attributes and not agents and not (EVENTS in attributes and name.startswith("Responses API")):
        return None
    operation = attributes.get(gen_ai.OPERATION)
    if type(operation) is str:
        role, reason = gen_ai.OPERATIONS.get(operation, SpanRole.OTHER), f"{gen_ai.OPERATION} names the operation"
    else:
        role = next((found for start, found in NAMES.items() if name.startswith(start)), SpanRole.OTHER)
        reason = "the span's name names the operation"
    if role is SpanRole.CALL and not agents and _starts_stream(span):
        return Detection(NAME, SpanRole.OTHER, "the start of a stream, which a log of its own reports")
    return Detection(NAME, role, reason)


def _starts_stream(span: Span) -> bool:
    attributes = span.attributes
    if span.status_code == "error" or attributes.get("error.type") is not None or attributes.get(SPAN_TYPE) == "log":
        return False
    return not any(key in attributes for key in _ANSWERED)


def _read(subject: Subject) -> Content | None:
    attributes = subject.span.attributes
    if REQUEST not in attributes:
        return None
    content = Content()
    try:
        request = opened(attributes[REQUEST])[0]
        messages, system = read_request(request)
        if subject.span.scope.name == AGENTS:
            messages, answer = _split(messages)
        else:
            answer = []
        if messages:
            content.input = Messages(messages, f"span attribute {REQUEST}")
        if system:
            content.system = Messages([{"role": "system", "parts": system}], f"span attribute {REQUEST}")
    except Unreadable as error:
        answer = []
        content.problem = content.problems["input"] = error.reason
    try:
        response = opened(attributes.get(RESPONSE))[0]
        answer = read_response(response) or answer
        if _is_anthropic(subject.span):
            answer = [_repaired(message) for message in answer]
        if answer:
            content.output = Messages(answer, f"span attribute {RESPONSE}")
    except Unreadable as error:
        content.problem = content.problems["output"] = error.reason
    return content if content.input or content.output or content.problem else None


def _split(messages: list[Any]) -> tuple[list[Any], list[Any]]:
    """The input, and the answer that follows it: the model's last messages."""
    end = len(messages)
    while end and type(messages[end - 1]) is dict and messages[end - 1].get("role") == "assistant":
        end -= 1
    return messages[:end], messages[end:]


def _repaired(message: Any) -> Any:
    """Arguments of Anthropic's tool calls are wrapped as `{"input": …}`."""
    parts = message.get("parts") if type(message) is dict else None
    if type(parts) is not list:
        return message
    return {**message, "parts": [_unwrapped(part) for part in parts]}


def _unwrapped(part: Any) -> Any:
    if type(part) is not dict or part.get("type") != "tool_call":
        return part
    arguments = part.get("arguments")
    if type(arguments) is str and arguments.startswith('{"input":'):
        try:
            inner = loads(arguments)
        except ValueError:
            return part
        if type(inner) is dict and len(inner) == 1:
            return {**part, "arguments": inner["input"]}
    return part


def _amend(subject: Subject, reading: Reading) -> None:
    """Items of one answer are one message; in an `events` list the answer is what follows the input as the model's."""
    attributes = subject.span.attributes
    if _is_responses(subject.span):
        gen_ai.merge_items(reading)
    source = reading.input.source if reading.input is not None else ""
    if EVENTS not in attributes or source != "span attribute events" or reading.output is not None:
        return
    try:
        events = opened(attributes[EVENTS])[0]
    except Unreadable:
        return
    found = [message for event in events if type(event) is dict for message in _event(event)]
    given, answer = _split(found) if _has_answer(attributes) else (found, [])
    where = f"span attribute {EVENTS}"
    reading.input = Messages(merge_assistant(given), where) if given else None
    if answer:
        reading.output = Messages(merge_assistant(answer), where)


def _is_responses(span: Span) -> bool:
    """A call of the Responses API says so in its name; of its request, the log of a stream keeps just `stream`."""
    if _name(span).startswith("Responses API"):
        return True
    request = _object(span.attributes, REQUEST)
    return "stream" in request and not request.keys() & {"messages", "prompt", "max_tokens"}


def _is_anthropic(span: Span) -> bool:
    return span.scope.name == "logfire.anthropic" or _name(span).startswith("Message with")


def _name(span: Span) -> str:
    """The template of the span's name, which is the name where Logfire's exporter did not fill it in."""
    template = span.attributes.get(TEMPLATE)
    return template if type(template) is str else span.name


def _has_answer(attributes: Mapping[str, Any]) -> bool:
    return any(key in attributes for key in _ANSWERED)


def _event(event: dict[str, Any]) -> list[Any]:
    """An event as a message; what its writer did not know, it keeps whole as `data`."""
    event = plain(event)
    data = event.get("data")
    role = event.get("role")
    if event.get("event.name") == "gen_ai.unknown" and type(data) is dict:
        if (type(data.get("type")) is str and data["type"] in ("reasoning", "message")) or "role" in data:
            return read_message(data)
        return [{"role": role if type(role) is str and role else "unknown", "parts": read_part(data)}]
    message: Message = {key: value for key, value in event.items() if not key.startswith(("event.", "gen_ai."))}
    call_id = message.pop("id", None)
    if role == "tool" and call_id is not None:
        message["tool_call_id"] = call_id
    return read_message(message)


def _extra(subject: Subject) -> Mapping[str, Any]:
    """What only the request and the response say: the model, the counts, the id of the response."""
    attributes = subject.span.attributes
    found: dict[str, Any] = {}
    response = _object(attributes, RESPONSE)
    whole = _object(attributes, WHOLE_RESPONSE)
    for body in (whole, response):
        found["input_tokens"], found["output_tokens"] = read_usage(body.get("usage"))
        if found["input_tokens"] is not None:
            break
    if whole:
        found.update(response_facts(whole))
    if attributes.get("gen_ai.request.model") is None:
        model = _object(attributes, REQUEST).get("model")
        found["request_model"] = model if type(model) is str else None
    return found


def _object(attributes: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = attributes.get(key)
    if value is None:
        return {}
    try:
        value = opened(value)[0]
    except Unreadable:
        return {}
    return value if type(value) is dict else {}


DIALECT = Dialect(
    name=NAME,
    title="Pydantic Logfire",
    detect=detect,
    signs=Signs(keys=(SPAN_TYPE, REQUEST, EVENTS), scopes=(AGENTS,)),
    sources=(Source("request_data and response_data", _read),),
    message_attributes=frozenset({REQUEST, RESPONSE, WHOLE_RESPONSE}),
    amend=_amend,
    span_extra=_extra,
    seen=("logfire 5.4.0, in both of its versions of the conventions", "logfire 4.10 (source)"),
    not_recoverable=(
        "ids of tool calls that Anthropic made, before version 5",
        "the response id before version 5",
        "how long a stream took: its log has no length",
    ),
)
