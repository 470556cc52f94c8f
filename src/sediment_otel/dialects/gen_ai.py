# SPDX-License-Identifier: Apache-2.0
"""The current OpenTelemetry GenAI conventions, in every place and generation they were written.

Places, in the order in which they are tried (contract, section 3): the message attributes of 1.37 and
later; the `gen_ai.client.inference.operation.details` event, on the span or as log records; the
per-message events of 1.28 to 1.36, as log records, span events or the `events` attribute; the
`gen_ai.prompt` and `gen_ai.completion` of 1.26; content from outside the telemetry (completion hook,
referenced files).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as names

from ..formats.exchange import read_request, read_response
from ..formats.messages import merge_assistant, read_message, read_parts
from ..genai import Content, Detection, Messages, Reading, Subject, loads, plain
from ..telemetry import LogRecord, Span
from ..vocabulary import SpanRole
from .base import Dialect, LogCall, Reference, Signs, Source
from .reading import Unreadable, content_of, key_rows, messages_of, opened, system_of

NAME = "gen_ai"

OPERATION = names.GEN_AI_OPERATION_NAME
INPUT_MESSAGES = names.GEN_AI_INPUT_MESSAGES
OUTPUT_MESSAGES = names.GEN_AI_OUTPUT_MESSAGES
SYSTEM_INSTRUCTIONS = names.GEN_AI_SYSTEM_INSTRUCTIONS
#: OpenAI's API of a call; the items of a `responses` answer stand as messages of their own.
API_TYPE = "openai.api.type"
DETAILS = "gen_ai.client.inference.operation.details"
CHOICE = "gen_ai.choice"

#: `gen_ai.operation.name` → what the span is (contract, section 3). Other operations are no model calls.
OPERATIONS: dict[str, SpanRole] = {
    "chat": SpanRole.CALL,
    "generate_content": SpanRole.CALL,
    "text_completion": SpanRole.CALL,
    "invoke_agent": SpanRole.AGENT,
    "create_agent": SpanRole.AGENT,
    "invoke_workflow": SpanRole.AGENT,
    "execute_tool": SpanRole.TOOL,
}

#: The names that the conventions give to providers; some have dots of their own (`aws.bedrock`).
PROVIDERS = frozenset(provider.value for provider in names.GenAiProviderNameValues)

#: Per-message events of 1.28 to 1.36 → the role where the body names none.
MESSAGE_EVENTS: dict[str, str] = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
#: Events of 1.26 → the direction and the attribute that holds the messages.
CONTENT_EVENTS: dict[str, tuple[str, str]] = {
    "gen_ai.content.prompt": ("input", names.GEN_AI_PROMPT),
    "gen_ai.content.completion": ("output", names.GEN_AI_COMPLETION),
}
EVENTS = frozenset({DETAILS, CHOICE, *MESSAGE_EVENTS, *CONTENT_EVENTS})

MESSAGE_KEYS: dict[str, tuple[str, ...]] = {
    "system": (SYSTEM_INSTRUCTIONS,),
    "input": (INPUT_MESSAGES,),
    "output": (OUTPUT_MESSAGES,),
}
#: The attributes of 1.26, before messages had parts.
PLAIN_KEYS: dict[str, tuple[str, ...]] = {"input": (names.GEN_AI_PROMPT,), "output": (names.GEN_AI_COMPLETION,)}


_ON_SPAN = key_rows(MESSAGE_KEYS, "span attribute")
#: How the source of messages from a details event or record is called.
IN_DETAILS = "operation details"
_IN_DETAILS = key_rows(MESSAGE_KEYS, IN_DETAILS)


def detect(span: Span) -> Detection | None:
    """The operation decides; before 1.27 there was none, and a model with a system name tells a call."""
    attributes = span.attributes
    operation = attributes.get(OPERATION)
    if operation is not None:
        return by_operation(operation)
    if names.GEN_AI_REQUEST_MODEL in attributes or names.GEN_AI_RESPONSE_MODEL in attributes:
        named = names.GEN_AI_SYSTEM in attributes or names.GEN_AI_PROVIDER_NAME in attributes
        spoken = (
            INPUT_MESSAGES in attributes
            or OUTPUT_MESSAGES in attributes
            or any(event.name in EVENTS for event in span.events)
        )
        if named and spoken:
            return Detection(NAME, SpanRole.CALL, "a model, its system and messages without an operation name")
    return None


def by_operation(operation: Any) -> Detection:
    """What a span of this operation is. Operations that are no model calls are not named."""
    return _BY_OPERATION.get(operation, _OTHER_OPERATION) if type(operation) is str else _OTHER_OPERATION


_BY_OPERATION = {name: Detection(NAME, role, f"{OPERATION} is {name}") for name, role in OPERATIONS.items()}
_OTHER_OPERATION = Detection(NAME, SpanRole.OTHER, f"{OPERATION} is another operation")


def _from_attributes(subject: Subject) -> Content | None:
    return content_of(subject.span.attributes, _ON_SPAN)


#: A message of chat completions knows no order between its text and its tool calls. These instrumentations write the
#: calls first in the history and in whole answers, and the text first in streamed ones.
CALLS_FIRST = frozenset({"opentelemetry.instrumentation.genai.openai", "opentelemetry.instrumentation.openai_v2"})


def amend(subject: Subject, reading: Reading) -> None:
    """What a call answered and what the next one repeats come out equal.

    On a Responses call the items of one answer stand as messages of their own: they are one message. In a message of
    chat completions the text stands before the tool calls.
    """
    if subject.span.attributes.get(API_TYPE) == "responses":
        merge_items(reading)
    elif subject.span.scope.name in CALLS_FIRST:
        text_first(reading)


def text_first(reading: Reading) -> None:
    """Put the tool calls of an assistant message behind its other parts."""
    for messages in (reading.input, reading.output):
        if messages is None or (messages.text is not None and messages.text.count('"tool_call"') == 0):
            continue
        given = messages.open()
        ordered = [_text_first(message) for message in given]
        if any(new is not old for new, old in zip(ordered, given, strict=True)):
            messages.replace(ordered)


def _text_first(message: Any) -> Any:
    if type(message) is not dict or message.get("role") != "assistant" or type(message.get("parts")) is not list:
        return message
    parts = message["parts"]
    calls = [part for part in parts if type(part) is dict and part.get("type") == "tool_call"]
    if not calls or parts[len(parts) - len(calls) :] == calls:
        return message
    others = [part for part in parts if type(part) is not dict or part.get("type") != "tool_call"]
    return {**message, "parts": others + calls}


def merge_items(reading: Reading) -> None:
    """Merge consecutive assistant messages of a reading, in the input and in the output."""
    for messages in (reading.input, reading.output):
        if messages is not None:
            merged = merge_assistant(messages.open())
            if len(merged) != len(messages.open()):
                messages.replace(merged)


def details_attributes(subject: Subject) -> dict[str, Any]:
    """The attributes of all details events and records of a call, the span's events first."""
    found: dict[str, Any] = {}
    for event in subject.span.events:
        if event.name == DETAILS:
            for key, value in event.attributes.items():
                found.setdefault(key, value)
    for record in subject.records:
        if record.event_name == DETAILS:
            body = record.body if type(record.body) is dict else {}
            for holder in (record.attributes, body):
                for key, value in holder.items():
                    if value is not None:
                        found.setdefault(key, value)
    return found


def _from_details(subject: Subject) -> Content | None:
    if not subject.records and not subject.span.events:
        return None
    found = details_attributes(subject)
    return content_of(found, _IN_DETAILS) if found else None


Event = tuple[str, "dict[str, Any]"]


def _record_events(records: Iterable[LogRecord]) -> Iterator[Event]:
    for record in records:
        if record.event_name in EVENTS:
            yield record.event_name, _body(record.body)


def _body(value: Any) -> dict[str, Any]:
    body = plain(value)
    if type(body) is str:
        try:
            body = opened(body)[0]
        except Unreadable:
            return {"content": value}
    return body if type(body) is dict else {"content": body} if body is not None else {}


def _span_events(span: Span) -> Iterator[Event]:
    for event in span.events:
        if event.name in EVENTS:
            yield event.name, {key: _opened_field(key, value) for key, value in event.attributes.items()}


def _opened_field(key: str, value: Any) -> Any:
    """On a span event, structure can only be JSON text: blocks of content, a message, tool calls."""
    value = plain(value)
    if type(value) is str and key in ("content", "message", "tool_calls", "tool.result") and value[:1] in ("[", "{"):
        try:
            found = loads(value)
        except ValueError:
            return value
        if type(found) is list and all(type(item) is dict for item in found):
            return found
        if key in ("message", "tool_calls") or (type(found) is dict and key == "content" and "role" in found):
            return found
    return value


def _attribute_events(span: Span) -> Iterator[Event]:
    value = span.attributes.get("events")
    if value is None:
        return
    try:
        items = opened(value)[0]
    except Unreadable:
        return
    for item in items if type(items) is list else ():
        if type(item) is dict and type(item.get("event.name")) is str:
            yield item["event.name"], {k: v for k, v in item.items() if not k.startswith(("event.", "gen_ai."))}


def _from_message_events(subject: Subject) -> Content | None:
    for where, events in (
        ("message event records", list(_record_events(subject.records))),
        ("span events", list(_span_events(subject.span))),
        ("span attribute events", list(_attribute_events(subject.span))),
    ):
        content = _read_events(events, where)
        if content is not None:
            return content
    return None


def _read_events(events: list[Event], where: str) -> Content | None:
    bodies = [body for name, body in events if name in MESSAGE_EVENTS or name == CHOICE]
    if not any(_has_content(body) for body in bodies):
        return None
    inputs = [_input_message(MESSAGE_EVENTS[name], body) for name, body in events if name in MESSAGE_EVENTS]
    choices = [body for name, body in events if name == CHOICE]
    choices.sort(key=lambda body: body["index"] if type(body.get("index")) is int else 0)
    outputs = [_output_message(body) for body in choices]
    content = Content()
    if inputs:
        content.input = Messages([m for group in inputs for m in group], where)
    if outputs:
        content.output = Messages([m for group in outputs for m in group], where)
    return content


#: What Google ADK writes in place of content while its capture is off.
ELIDED = "<elided>"


def _has_content(body: dict[str, Any]) -> bool:
    """With content capture off, bodies lack content, and tool calls lack arguments."""
    inner = body.get("message")
    if type(inner) in (str, list) and inner and inner != ELIDED:
        return True
    holders = [body, inner] if type(inner) is dict else [body]
    for holder in holders:
        content = holder.get("content")
        if (content is not None and content != ELIDED) or holder.get("parts") or holder.get("text"):
            return True
        calls = holder.get("tool_calls")
        for call in calls if type(calls) is list else ():
            function = call.get("function") if type(call) is dict else None
            if type(function) is dict and function.get("arguments") is not None:
                return True
    return False


def _input_message(role: str, body: dict[str, Any]) -> list[Any]:
    body = _unwrapped(body)
    message = {"role": role, **{k: v for k, v in body.items() if k not in ("index", "finish_reason")}}
    if type(message["role"]) is not str or not message["role"].strip():
        message["role"] = role
    call_id = message.pop("id", None)
    if role == "tool" and call_id is not None:
        blocks = message.get("content")
        found = [block for block in blocks if type(block) is dict] if type(blocks) is list else []
        if any("toolResult" in block or block.get("type") == "tool_result" for block in found):
            return read_message(message)
        return read_message({**message, "role": "tool", "tool_call_id": call_id})
    return read_message(message)


def _unwrapped(body: dict[str, Any]) -> dict[str, Any]:
    """Some write the provider's message object as the content of the event."""
    content = body.get("content")
    if type(content) is dict and ("parts" in content or "content" in content):
        return {**{k: v for k, v in body.items() if k != "content"}, **content}
    return body


def _output_message(body: dict[str, Any]) -> list[Any]:
    inner = body.get("message")
    if type(inner) is dict and "text" in inner and not inner.keys() & _CHOICE_KEYS:
        message = {"role": "assistant", "content": [inner]}
    elif type(inner) is dict:
        message = {"role": "assistant", **inner}
    elif inner is not None:
        message = {"role": "assistant", "content": inner}
    else:
        message = {"role": "assistant", **{k: v for k, v in _unwrapped(body).items() if k in _CHOICE_KEYS}}
    if body.get("tool_calls") is not None and "tool_calls" not in message:
        message["tool_calls"] = body["tool_calls"]
    if type(message["role"]) is not str or not message["role"].strip():
        message["role"] = "assistant"
    found = read_message(message)
    reason = body.get("finish_reason")
    if reason is not None and found and type(found[0]) is dict:
        found[0].setdefault("finish_reason", reason)
    return found


_CHOICE_KEYS = frozenset({"role", "content", "parts", "tool_calls", "function_call"})


def _from_content_events(subject: Subject) -> Content | None:
    content = Content()
    holders: list[tuple[str, dict[str, Any]]] = [(e.name, e.attributes) for e in subject.span.events]
    holders += [(r.event_name, r.attributes) for r in subject.records]
    for name, attributes in holders:
        row = CONTENT_EVENTS.get(name)
        if row is None or getattr(content, row[0]) is not None:
            continue
        _take(content, row[0], attributes.get(row[1]), f"event {name}")
    for direction, (key,) in PLAIN_KEYS.items():
        if getattr(content, direction) is None:
            _take(content, direction, subject.span.attributes.get(key), f"span attribute {key}")
    return content if content.input or content.output or content.problem else None


def _take(content: Content, direction: str, value: Any, where: str) -> None:
    if value is None:
        return
    answer = direction == "output"
    try:
        found = opened(value)[0]
        if type(found) is str:
            text = found
            messages = None
            if text.strip():
                role = "assistant" if answer else "user"
                messages = Messages([{"role": role, "parts": read_parts(text)}], where)
        else:
            messages = messages_of(value, where, answer=answer)
    except Unreadable as error:
        content.problem = content.problem or error.reason
        content.problems[direction] = error.reason
        return
    setattr(content, direction, messages)


#: How an attribute is called that names where messages stand, in code and in documentation.
REFERENCE_ENDS = ("_ref", ".ref")


def references(subject: Subject) -> Iterator[Reference]:
    """Where the messages stand that the completion hook put elsewhere; not for a direction that is here as well."""
    holders = [subject.span.attributes, *(event.attributes for event in subject.span.events if event.name == DETAILS)]
    holders += [record.attributes for record in subject.records]
    for direction, keys in MESSAGE_KEYS.items():
        names_of = [key + end for key in keys for end in REFERENCE_ENDS]
        if any(holder.get(key) is not None for holder in holders for key in keys):
            continue
        for holder in holders:
            found = next(((key, holder[key]) for key in names_of if type(holder.get(key)) is str), None)
            if found is not None:
                yield Reference(direction, *found)
                break


def _from_outside(subject: Subject) -> Content | None:
    outside = subject.content
    if not outside:
        return None
    where = str(outside.get("source", "content"))
    content = Content()
    try:
        if outside.get("system") is not None:
            content.system = system_of(outside["system"], where)
        _whole_exchange(outside, where, content)
        if outside.get("input") is not None and content.input is None:
            content.input = messages_of(outside["input"], where, answer=False)
        if outside.get("output") is not None and content.output is None:
            content.output = messages_of(outside["output"], where, answer=True)
    except Unreadable as error:
        content.problem = error.reason
    return content


def _whole_exchange(outside: Any, where: str, content: Content) -> None:
    """What stands outside may be a model service's whole request and response."""
    request, response = outside.get("input"), outside.get("output")
    if type(request) is dict and "role" not in request:
        messages, system = read_request(request)
        content.input = Messages(messages, where) if messages else None
        if system and content.system is None:
            content.system = Messages([{"role": "system", "parts": system}], where)
    if type(response) is dict and "parts" not in response:
        answer = read_response(response)
        content.output = Messages(answer, where) if answer else None


def wants_record(record: LogRecord) -> bool:
    """Events that hold messages or the details of a call."""
    return record.event_name in EVENTS


def _is_call(operation: Any) -> bool:
    return type(operation) is str and OPERATIONS.get(operation) is SpanRole.CALL


def log_calls(records: Iterable[LogRecord]) -> Iterator[LogCall]:
    """A details record whose span never came still describes a whole call."""
    groups: dict[tuple[Any, ...], list[LogRecord]] = {}
    for record in records:
        operation = record.attributes.get(OPERATION)
        if record.event_name != DETAILS or (operation is not None and not _is_call(operation)):
            continue
        response = record.attributes.get(names.GEN_AI_RESPONSE_ID)
        key: tuple[Any, ...]
        if record.trace_id and record.span_id:
            key = (record.trace_id, record.span_id)
        elif type(response) is str and response:
            key = ("response", response)
        else:
            key = ("record", record.time_ns or record.observed_ns, len(groups))
        groups.setdefault(key, []).append(record)
    for key, group in groups.items():
        capture = None if group[0].span_id and group[0].trace_id else ":".join(("gen_ai.log", *map(str, key)))
        yield LogCall(tuple(group), capture)


DIALECT = Dialect(
    name=NAME,
    title="OpenTelemetry GenAI conventions",
    detect=detect,
    signs=Signs(),
    sources=(
        Source("message attributes", _from_attributes),
        Source("operation details", _from_details),
        Source("message events", _from_message_events),
        Source("prompt and completion", _from_content_events),
        Source("content outside the telemetry", _from_outside),
    ),
    fields={
        "response_model": (names.GEN_AI_RESPONSE_MODEL,),
        "request_model": (names.GEN_AI_REQUEST_MODEL,),
        "model_provider": (names.GEN_AI_PROVIDER_NAME, names.GEN_AI_SYSTEM),
        "input_tokens": (names.GEN_AI_USAGE_INPUT_TOKENS, names.GEN_AI_USAGE_PROMPT_TOKENS),
        "output_tokens": (names.GEN_AI_USAGE_OUTPUT_TOKENS, names.GEN_AI_USAGE_COMPLETION_TOKENS),
        "response_id": (names.GEN_AI_RESPONSE_ID,),
        "finish_reasons": (names.GEN_AI_RESPONSE_FINISH_REASONS, "gen_ai.response.finish_reason"),
        "previous_response_id": ("gen_ai.request.previous_response.id",),
    },
    message_attributes=frozenset(
        {INPUT_MESSAGES, OUTPUT_MESSAGES, SYSTEM_INSTRUCTIONS, names.GEN_AI_PROMPT, names.GEN_AI_COMPLETION, "events"}
    ),
    amend=amend,
    wants_record=wants_record,
    log_calls=log_calls,
    seen=(
        "semantic conventions 1.26 to 1.41.1 and the GenAI conventions after them",
        "opentelemetry-instrumentation-genai-openai and -anthropic 1.3b0",
        "opentelemetry-instrumentation-openai-v2 2.4b0, in both modes",
    ),
    not_recoverable=("list content that openai-v2 drops (`parts: []`)",),
)
