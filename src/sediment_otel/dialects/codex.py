# SPDX-License-Identifier: Apache-2.0
"""Codex CLI: log events that tell of a call what is new in it, never the whole request.

A call ended where a `response.completed` event has `input_token_count` (a second such event has none). What Codex
tells of its messages stands around that event, by time, within the conversation:

    user_prompt, tool_result … | api_request, first event of the stream … response.completed … | next request

Before the request: what is new in the input. From the request to the next one: the answer, its text
(`agent_response`, where the user switched that on) and its tool calls, which their results name. A result is thus
read twice, as the call of one answer and as the result in the next input. Every such fact is partial and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..genai import Content, Detection, Loss, Message, Messages, Part, Reading, Subject
from ..telemetry import LogRecord, Span
from ..vocabulary import LossCode, SkipReason, SpanRole
from .base import Dialect, LogCall, Signs, Source
from .operations import by_operation

NAME = "codex"

SERVICES = ("codex_cli_rs", "codex_exec", "codex-app-server", "codex_vscode", "codex_mcp_server", "codex-cli")
PREFIX = "codex."
SESSION = "conversation.id"
STARTS, PROMPT, RESULT, ANSWER = "conversation_starts", "user_prompt", "tool_result", "agent_response"
REQUESTS = frozenset({"api_request", "websocket_request", "websocket_connect"})
STREAMS = frozenset({"sse_event", "websocket_event"})
COMPLETED, FAILED = "response.completed", "response.failed"
#: Events of a stream that say something here; there are many others.
KINDS = frozenset({"response.created", COMPLETED, FAILED})
EVENTS = frozenset({STARTS, PROMPT, RESULT, ANSWER}) | REQUESTS | STREAMS


def detect(span: Span) -> Detection | None:
    """Spans of Codex are turns and tasks, with counts summed over calls, unless they name an operation."""
    if span.resource.attributes.get("service.name") not in SERVICES:
        return None
    return by_operation(NAME, span) or Detection(NAME, SpanRole.AGENT, "turns and tasks: calls are in the log events")


def event_of(record: LogRecord) -> str:
    """Which of Codex's events a record is, or nothing. The field for its name may hold a place in Codex's source."""
    name: Any = record.event_name
    if not name.startswith(PREFIX):
        name = record.attributes.get("event.name")
        if type(name) is not str or not name.startswith(PREFIX):
            return ""
    name = name[len(PREFIX) :]
    return name if name in EVENTS else ""


def wants_record(record: LogRecord) -> bool:
    """What tells of a call; of a stream, where it begins and ends."""
    event = event_of(record)
    return event != "" and (event not in STREAMS or record.attributes.get("event.kind") in KINDS)


def _ended(record: LogRecord) -> bool:
    if event_of(record) not in STREAMS:
        return False
    kind = record.attributes.get("event.kind")
    return kind == FAILED or (kind == COMPLETED and record.attributes.get("input_token_count") is not None)


def _begins(record: LogRecord) -> bool:
    """Whether a record is of the request or its stream: from here on, what comes is the answer."""
    return event_of(record) in REQUESTS or event_of(record) in STREAMS


# -- messages ----------------------------------------------------------------------------------------------


def _read(subject: Subject) -> Content | None:
    begun = next((index for index, record in enumerate(subject.records) if _begins(record)), None)
    if begun is None or event_of(subject.records[begun]) == "":
        return None
    content = Content()
    given = [message for record in subject.records[:begun] for message in _given(record)]
    if given:
        content.input = Messages(given, "records user_prompt and tool_result")
    parts = [part for record in subject.records[begun:] for part in _answered(record)]
    if parts:
        content.output = Messages([{"role": "assistant", "parts": parts}], "records agent_response and tool_result")
    if any(_is_true(record.attributes.get("response_truncated")) for record in subject.records[begun:]):
        content.problem = content.problems["output"] = SkipReason.TRUNCATED
        content.output = None
    return content if content.input or content.output or content.problem else None


def _given(record: LogRecord) -> list[Message]:
    event, attributes = event_of(record), record.attributes
    if event == PROMPT and attributes.get("prompt") is not None:
        return [{"role": "user", "parts": [{"type": "text", "content": attributes["prompt"]}]}]
    if event == RESULT:
        part = {"type": "tool_call_response", "id": attributes.get("call_id"), "response": attributes.get("output")}
        return [{"role": "tool", "parts": [part]}]
    return []


def _answered(record: LogRecord) -> list[Part]:
    event, attributes = event_of(record), record.attributes
    if event == ANSWER and attributes.get("response") is not None:
        return [{"type": "text", "content": attributes["response"]}]
    if event == RESULT:
        call = {"type": "tool_call", "id": attributes.get("call_id"), "name": attributes.get("tool_name")}
        return [{**call, "arguments": attributes.get("arguments")}]
    return []


def _is_true(value: Any) -> bool:
    return value is True or (type(value) is str and value.lower() == "true")


def _extra(subject: Subject) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for record in subject.records:
        if record.attributes.get("model"):
            found["request_model"] = record.attributes["model"]
        if event_of(record) == STARTS:
            found["model_provider"] = record.attributes.get("provider_name")
        elif _ended(record):
            found["input_tokens"] = record.attributes.get("input_token_count")
            found["output_tokens"] = record.attributes.get("output_token_count")
    return found


def _amend(subject: Subject, reading: Reading) -> None:
    if subject.records:
        note = "what is new since the answer before; Codex tells no more"
        reading.losses.append(Loss(LossCode.PARTIAL_HISTORY, "/input_messages", note))


# -- calls among records -----------------------------------------------------------------------------------


def log_calls(records: Iterable[LogRecord]) -> Iterator[LogCall]:
    """One call for each end of an answer, conversation by conversation."""
    conversations: dict[str, list[LogRecord]] = {}
    for record in records:
        named = record.attributes.get(SESSION)
        conversations.setdefault(named if type(named) is str else "", []).append(record)
    for conversation, group in conversations.items():
        group.sort(key=_time)
        starts = [record for record in group if event_of(record) == STARTS][:1]
        yield from _calls(conversation, starts, [record for record in group if event_of(record) != STARTS])


def _time(record: LogRecord) -> int:
    return record.time_ns or record.observed_ns or 0


def _calls(conversation: str, starts: Sequence[LogRecord], records: Sequence[LogRecord]) -> Iterator[LogCall]:
    """Stretches from request to request; each with what came new before it."""
    stretches = [(-1, -1)]  # where the request of each call begins, and where its answer ended
    begun: int | None = None
    for index, record in enumerate(records):
        if begun is None and _begins(record):
            if event_of(record) in STREAMS and record.attributes.get("event.kind") == COMPLETED and not _ended(record):
                continue  # the second event of an answer that has ended
            begun = index
        if begun is not None and _ended(record):
            stretches.append((begun, index))
            begun = None
    since = -1
    for number, (begin, end) in enumerate(stretches[1:], 1):
        after = stretches[number + 1][0] if number + 1 < len(stretches) else len(records)
        given = [r for r in records[since + 1 : begin] if event_of(r) in (PROMPT, RESULT)]
        answer = [r for r in records[begin + 1 : after] if event_of(r) in (RESULT, ANSWER)]
        own = [records[begin]] if begin == end else [records[begin], records[end]]
        yield _call(conversation, [*starts, *given, *own, *answer], records[end])
        if records[end].attributes.get("event.kind") != FAILED:  # what a failed call was given, the next one is
            since = begin


def _call(conversation: str, records: list[LogRecord], end: LogRecord) -> LogCall:
    stamp = end.attributes.get("event.timestamp")
    key = stamp if type(stamp) is str and stamp else str(_time(end))
    failed = end.attributes.get("event.kind") == FAILED
    return LogCall(tuple(records), f"{NAME}:{conversation}:{key}", None, _time(end) or None, failed=failed)


DIALECT = Dialect(
    name=NAME,
    title="Codex CLI",
    detect=detect,
    signs=Signs(services=SERVICES),
    sources=(Source("log events", _read),),
    session_keys=(SESSION,),
    private_session_keys=True,
    span_extra=_extra,
    amend=_amend,
    wants_record=wants_record,
    log_calls=log_calls,
    seen=("Codex CLI 0.171.0 (log events, spans beside them)",),
    not_recoverable=(
        "the whole input: only prompts and tool results that are new are told, and prompts only with `log_user_prompt`",
        "the answer's text without `log_agent_responses`; with it, any text but what the model calls its final answer",
        "reasoning, and tool calls that gave no result",
        "the response id and the duration of a call",
    ),
)
