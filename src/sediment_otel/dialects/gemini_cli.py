# SPDX-License-Identifier: Apache-2.0
"""Gemini CLI, and Qwen Code, which grew out of it: spans, details events, and request and response events.

A call may show three times: as a span `llm_call` (the request and the stream's chunks as the API has them, each
attribute cut at 10 000 characters), as a details event when it starts, and as one when it ends, which has no span id.
In the events the model's role is called `system`; the system prompt stands apart. Every chunk of a stream is an output
message: together they are one answer. Qwen Code, and Gemini CLI before it had details events, write
`<product>.api_request` and `<product>.api_response`. Qwen Code's spans hold messages only with
`includeSensitiveSpanAttributes`; its response event holds the answer's text alone, and the answer's tool calls are
known by their own event `tool_call`, which names the response that asked for it. Where it tells what was asked, a
thought stands as a text with a mark at its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..formats.exchange import read_request, read_response
from ..genai import Content, Detection, Messages, Reading, Subject, plain
from ..telemetry import LogRecord, Span
from ..vocabulary import SkipReason, SpanRole
from . import gen_ai
from .base import Dialect, LogCall, Signs, Source
from .operations import by_operation, milliseconds
from .reading import Unreadable, opened

NAME = "gemini_cli"

#: Service and scope names of the products.
PRODUCTS = frozenset({"gemini-cli", "qwen-code"})
#: How their own events' names begin.
PREFIXES = ("gemini_cli.", "qwen-code.")
REQUEST, RESPONSE, ERROR, TOOL = "api_request", "api_response", "api_error", "tool_call"
RESPONSE_ID = "response_id"
REQUEST_TEXT, RESPONSE_TEXT = "request_text", "response_text"

OPERATIONS: dict[str, SpanRole] = {
    **gen_ai.OPERATIONS,
    "llm_call": SpanRole.CALL,
    "tool_call": SpanRole.TOOL,
    "schedule_tool_calls": SpanRole.TOOL,
    "agent_call": SpanRole.AGENT,
    "user_prompt": SpanRole.AGENT,
}
#: What the products put at the end of a text that they cut; the JSON around it is whole.
CUT = re.compile(r"\.\.\.\[TRUNCATED(?:: original length \d+)?\]\Z")


def _is_product(resource: Mapping[str, Any], scope: str) -> bool:
    service = resource.get("service.name")
    return scope in PRODUCTS or (type(service) is str and service in PRODUCTS)


def detect(span: Span) -> Detection | None:
    """The service or the scope; the operation says what the span is."""
    return by_operation(NAME, span, OPERATIONS) if _is_product(span.resource.attributes, span.scope.name) else None


def _event(record: LogRecord) -> str:
    """Which of the products' own events a record is (`api_request` …), or nothing."""
    name = record.event_name
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return ""


def wants_record(record: LogRecord) -> bool:
    """The products' details events, and what they say of a request and of its end."""
    if record.event_name == gen_ai.DETAILS:
        return _is_product(record.resource.attributes, record.scope.name)
    event = _event(record)
    return event in (REQUEST, RESPONSE, ERROR) or (event == TOOL and record.attributes.get(RESPONSE_ID) is not None)


# -- the products' own events ------------------------------------------------------------------------------


def _read(subject: Subject) -> Content | None:
    if not subject.records:
        return None
    content = Content()
    rows: tuple[tuple[str, str, str, Callable[[Any], list[Any]]], ...] = (
        ("input", REQUEST, REQUEST_TEXT, _request),
        ("output", RESPONSE, RESPONSE_TEXT, _response),
    )
    for direction, event, key, read in rows:
        value = next((r.attributes[key] for r in subject.records if _event(r) == event and r.attributes.get(key)), None)
        if value is None:
            continue
        try:
            messages = read(opened(value)[0])
        except Unreadable as error:
            content.problem = content.problem or error.reason
            content.problems[direction] = error.reason
            continue
        if messages:
            setattr(content, direction, Messages(messages, f"record {event} {key}"))
    asked_for = [_tool_call(record.attributes) for record in subject.records if _event(record) == TOOL]
    if asked_for and "output" not in content.problems:
        _add_calls(content, asked_for)
    return content if content.input or content.output or content.problem else None


def _tool_call(attributes: Mapping[str, Any]) -> dict[str, Any]:
    found = {"type": "tool_call", "id": attributes.get("call_id"), "name": attributes.get("function_name")}
    return {**found, "arguments": attributes.get("function_args")}


def _add_calls(content: Content, calls: list[dict[str, Any]]) -> None:
    """Tool calls that have an event each, behind the text of the answer that asked for them."""
    messages = content.output.open() if content.output is not None else []
    parts = [part for message in messages for part in message["parts"]]
    if any(type(part) is dict and part.get("type") == "tool_call" for part in parts):
        return
    where = content.output.source if content.output is not None else f"record {TOOL}"
    content.output = Messages([{"role": "assistant", "parts": parts + calls}], where)


#: How Qwen Code marks a thought in what it says of a request.
THOUGHT = "\n[Thought: true]"


def _request(value: Any) -> list[Any]:
    messages = read_request(value if type(value) is dict else {"contents": value})[0]
    for message in messages:
        if message.get("role") == "assistant" and type(message.get("parts")) is list:
            message["parts"] = [_unmarked(part) for part in message["parts"]]
    return messages


def _unmarked(part: Any) -> Any:
    if _is_plain(part) and part["type"] == "text" and part["content"].endswith(THOUGHT):
        return {"type": "reasoning", "content": part["content"][: -len(THOUGHT)]}
    return part


def _response(value: Any) -> list[Any]:
    """The answer: one response, a stream's responses, or plain text."""
    if type(value) is str:
        return [{"role": "assistant", "parts": [{"type": "text", "content": value}]}]
    return [message for item in (value if type(value) is list else [value]) for message in read_response(item)]


#: A field → its attribute on the response event.
_RESPONSE_FIELDS = {
    "response_model": "model",
    "input_tokens": "input_token_count",
    "output_tokens": "output_token_count",
    "response_id": "response_id",
    "finish_reasons": "finish_reasons",
}


def _extra(subject: Subject) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for record in subject.records:
        event = _event(record)
        if event == RESPONSE:
            found.update({field: record.attributes.get(key) for field, key in _RESPONSE_FIELDS.items()})
        elif event in (REQUEST, ERROR) and record.attributes.get("model"):
            found.setdefault("request_model", record.attributes["model"])
    return found


# -- roles, chunks, cuts -----------------------------------------------------------------------------------


def _amend(subject: Subject, reading: Reading) -> None:
    for direction in ("input", "output"):
        messages = getattr(reading, direction)
        if messages is None:
            continue
        items = messages.open()
        from_event = messages.source.startswith(gen_ai.IN_DETAILS)
        fixed = merged_chunks([_with_role(item, from_event, direction == "output") for item in items])
        if len(fixed) != len(items) or any(new is not old for new, old in zip(fixed, items, strict=True)):
            messages.replace(fixed)
        if any(_is_cut(message) for message in fixed):
            reading.problem, reading.problem_at = SkipReason.TRUNCATED, f"/{direction}"
    reasons = plain(reading.fields.get("finish_reasons"))
    if type(reasons) is list and len(reasons) > 1:
        reading.fields["finish_reasons"] = reasons[-1:]  # one for each chunk; the last one ended the answer


def _with_role(message: Any, from_event: bool, answer: bool) -> Any:
    """The model's role, which the events call `system`; a chunk without content has none at all."""
    if type(message) is not dict:
        return message
    role = message.get("role")
    if (from_event and role == "system") or (answer and role is None):
        return {**message, "role": "assistant"}
    return message


def merged_chunks(messages: list[Any]) -> list[Any]:
    """Consecutive assistant messages as one; a text or thought that goes on in the next one is one again."""
    merged: list[Any] = []
    for message in messages:
        last: Any = merged[-1] if merged else None
        if not (_is_answer(last) and _is_answer(message)):
            merged.append(message)
            continue
        parts, more = list(last["parts"]), list(message["parts"])
        if parts and more and _is_plain(parts[-1]) and _is_plain(more[0]) and parts[-1]["type"] == more[0]["type"]:
            parts[-1] = {**parts[-1], "content": parts[-1]["content"] + more.pop(0)["content"]}
        reason = message.get("finish_reason") or last.get("finish_reason")
        merged[-1] = {**last, **message, "parts": parts + more}
        if reason is not None:
            merged[-1]["finish_reason"] = reason
    return merged


def _is_answer(message: Any) -> bool:
    return type(message) is dict and message.get("role") == "assistant" and type(message.get("parts")) is list


def _is_plain(part: Any) -> bool:
    """Whether a part is a text or a thought, and nothing more."""
    if type(part) is not dict or part.keys() - {"thought"} != {"type", "content"}:
        return False
    return part["type"] in ("text", "reasoning") and type(part["content"]) is str


def _is_cut(message: Any) -> bool:
    parts = message.get("parts") if type(message) is dict else None
    for part in parts if type(parts) is list else ():
        for value in part.values() if type(part) is dict else ():
            if type(value) is str and CUT.search(value[-60:]):
                return True
    return False


# -- calls among records -----------------------------------------------------------------------------------


def log_calls(records: Iterable[LogRecord]) -> Iterator[LogCall]:
    """Calls that ended, session by session. What was only asked is no call yet."""
    sessions: dict[Any, list[LogRecord]] = {}
    for record in records:
        sessions.setdefault(_session(record), []).append(record)
    for session, group in sessions.items():
        yield from _session_calls(session, sorted(group, key=_time))


def _session(record: LogRecord) -> str:
    for key in ("session.id", "sessionId"):
        value = record.attributes.get(key)
        if type(value) is str and value:
            return value
    return ""


def _time(record: LogRecord) -> int:
    return record.time_ns or record.observed_ns or 0


def _stamp(record: LogRecord) -> Any:
    return record.attributes.get("event.timestamp") or _time(record)


def _ends(record: LogRecord) -> bool:
    """Whether a details event is that of the end of a call."""
    attributes = record.attributes
    return gen_ai.OUTPUT_MESSAGES in attributes or any(
        attributes.get(key) is not None for key in ("gen_ai.response.id", "gen_ai.response.model", "error.type")
    )


def _session_calls(session: str, records: list[LogRecord]) -> Iterator[LogCall]:
    starts = [r for r in records if r.event_name == gen_ai.DETAILS and not _ends(r)]
    others = [r for r in records if r.event_name != gen_ai.DETAILS]
    for record in records:
        if record.event_name == gen_ai.DETAILS and _ends(record):
            start = _take(starts, lambda r, end=record: _input(r) == _input(end) and _time(r) <= _time(end))
            own = [record] if start is None else [start, record]
            stamps = {_stamp(item) for item in own}
            beside = [other for other in others if _stamp(other) in stamps]
            others = [other for other in others if other not in beside]
            yield _call(session, own + beside)
    requests: list[LogRecord] = []
    tools = [record for record in others if _event(record) == TOOL]
    for record in others:
        if _event(record) == REQUEST:
            requests.append(record)
        if _event(record) not in (RESPONSE, ERROR):
            continue
        asked = _take(requests, lambda r, end=record: _same_prompt(r, end), last=True)
        used = [tool for tool in tools if tool.attributes.get(RESPONSE_ID) == record.attributes.get(RESPONSE_ID)]
        yield _call(session, [*([] if asked is None else [asked]), record, *used])


def _take(records: list[LogRecord], test: Callable[..., bool], *, last: bool = False) -> LogRecord | None:
    places = [index for index, record in enumerate(records) if test(record)]
    return records.pop(places[-1 if last else 0]) if places else None


def _input(record: LogRecord) -> Any:
    return record.attributes.get(gen_ai.INPUT_MESSAGES)


def _same_prompt(asked: LogRecord, ended: LogRecord) -> bool:
    return asked.attributes.get("prompt_id") == ended.attributes.get("prompt_id")


def _call(session: str, records: list[LogRecord]) -> LogCall:
    records.sort(key=_time)
    told = [record for record in records if _event(record) != TOOL]  # the call had ended when its tools were used
    first, last = told[0], told[-1]
    capture = None
    if not (first.trace_id and first.span_id):
        ids = [r.attributes.get("gen_ai.response.id") or r.attributes.get("response_id") for r in records]
        name = next((value for value in ids if type(value) is str and value), None)
        capture = f"{NAME}:{session}:{name or _stamp(last)}"
    end = _time(last) or None
    spans = [milliseconds(record.attributes.get("duration_ms")) for record in told]
    lasted = next((number for number in spans if number is not None), None)
    start = end - lasted * 1_000_000 if end is not None and lasted is not None else None
    failed = any(_event(r) == ERROR or r.attributes.get("error.type") not in (None, "") for r in told)
    return LogCall(tuple(records), capture, start if start is None or start >= 0 else None, end, failed=failed)


DIALECT = Dialect(
    name=NAME,
    title="Gemini CLI and Qwen Code",
    detect=detect,
    signs=Signs(scopes=tuple(PRODUCTS), services=tuple(PRODUCTS)),
    sources=(Source("request and response events", _read),),
    session_keys=("sessionId",),
    private_session_keys=True,
    message_attributes=frozenset({REQUEST_TEXT, RESPONSE_TEXT}),
    span_extra=_extra,
    amend=_amend,
    wants_record=wants_record,
    log_calls=log_calls,
    join_keys=(RESPONSE_ID,),
    seen=(
        "Gemini CLI 0.61.0 (its outfile: spans and log events)",
        "Qwen Code 0.24.4 (spans with and without messages, log events)",
    ),
    not_recoverable=(
        "texts that Gemini CLI cuts at 160 KB for each event",
        "which of its tool calls a result in the history answers: the ids differ (`run_shell_command__fc-1`, `fc-1`)",
        "the model service, where Qwen Code writes its own events alone, and tool calls that were never run",
    ),
)
