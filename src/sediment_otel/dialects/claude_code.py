# SPDX-License-Identifier: Apache-2.0
"""Claude Code: log events with what the API was sent and answered, and the spans of its traces beta.

An `api_request` event says that a call ended, with its counts; `api_request_body` and `api_response_body` hold the
Messages API's JSON, in the record (cut at 60 KB, which the record says) or in a file that `body_ref` names. A call's
records have `request_id` in common, except the request's body, which shares `request_body_id` with the response's
body in newer versions, and is else the last one before it from the same place in the program. One request body is
written for each attempt. Spans carry no messages; a span's `gen_ai.response.id` is the HTTP request's id, so that
the id inside the response's body is the better one. Counts outside the body leave cached input out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..formats.exchange import read_request, read_response, response_facts
from ..formats.usage import read_usage
from ..genai import Content, Detection, Messages, Subject
from ..telemetry import LogRecord, Span
from ..vocabulary import SkipReason, SpanRole
from .base import Dialect, LogCall, Reference, Signs, Source
from .operations import by_operation, milliseconds, whole
from .reading import Unreadable, opened

NAME = "claude_code"

SERVICES = ("claude-code",)
SCOPES = "com.anthropic.claude_code"
PREFIX = "claude_code."
REQUEST, REQUEST_BODY, RESPONSE_BODY, ERROR = "api_request", "api_request_body", "api_response_body", "api_error"
EVENTS = frozenset({REQUEST, REQUEST_BODY, RESPONSE_BODY, ERROR})
BODY, BODY_REF = "body", "body_ref"
REQUEST_ID, BODY_ID = "request_id", "request_body_id"

#: A span's name without `claude_code.`, or its `span.type` → what it is. Others are no model calls.
SPANS: dict[str, SpanRole] = {
    "llm_request": SpanRole.CALL,
    "interaction": SpanRole.AGENT,
    "tool": SpanRole.TOOL,
    "tool.execution": SpanRole.TOOL,
}


def detect(span: Span) -> Detection | None:
    """The name, or `span.type` where the name says nothing; with the scope alone, the operation."""
    kind: Any = span.name[len(PREFIX) :] if span.name.startswith(PREFIX) else None
    if kind is None and span.scope.name.startswith(SCOPES):
        kind = span.attributes.get("span.type")
        if kind is None:
            return by_operation(NAME, span)
    if type(kind) is not str:
        return None
    return Detection(NAME, SPANS.get(kind, SpanRole.OTHER), "the span's name or span.type says what it is")


def event_of(record: LogRecord) -> str:
    """Which of its API events a record is, or nothing. Event names are common words: the product must show."""
    name = record.event_name
    if name.startswith(PREFIX):
        name = name[len(PREFIX) :]
    elif name in EVENTS and not (
        record.scope.name.startswith(SCOPES)
        or record.resource.attributes.get("service.name") in SERVICES
        or (type(record.body) is str and record.body.startswith(PREFIX))
    ):
        return ""
    return name if name in EVENTS else ""


def wants_record(record: LogRecord) -> bool:
    """What the program says of a call of the API, and the bodies."""
    return event_of(record) != ""


# -- messages ----------------------------------------------------------------------------------------------


def _bodies(subject: Subject, event: str) -> Iterator[LogRecord]:
    """The bodies of one kind, the last attempt's first."""
    return (record for record in reversed(subject.records) if event_of(record) == event)


def _is_true(value: Any) -> bool:
    return value is True or (type(value) is str and value.lower() == "true")


def _body(record: LogRecord) -> Any:
    """The parsed body of a record, None where it stands elsewhere. Raises `Unreadable`."""
    value = record.attributes.get(BODY)
    if value is None:
        return None
    if _is_true(record.attributes.get("body_truncated")):
        raise Unreadable(SkipReason.TRUNCATED)
    return opened(value)[0]


def _read(subject: Subject) -> Content | None:
    if not subject.records:
        return None
    content = Content()
    for direction, event in (("input", REQUEST_BODY), ("output", RESPONSE_BODY)):
        for record in _bodies(subject, event):
            try:
                body = _body(record)
            except Unreadable as error:
                content.problem = content.problem or error.reason
                content.problems[direction] = error.reason
                break
            if body is None:
                continue
            where = f"record {event}"
            if direction == "output":
                answer = read_response(body)
                content.output = Messages(answer, where) if answer else None
            else:
                messages, system = read_request(body)
                content.input = Messages(messages, where) if messages else None
                content.system = Messages([{"role": "system", "parts": system}], where) if system else None
            break
    return content if content.input or content.output or content.problem else None


def references(subject: Subject) -> Iterator[Reference]:
    """Bodies in files: by `body_ref`, else by the request's id in the list of files."""
    for direction, event in (("input", REQUEST_BODY), ("output", RESPONSE_BODY)):
        records = list(_bodies(subject, event))
        if any(record.attributes.get(BODY) is not None for record in records):
            continue
        address = next((ref for r in records if type(ref := r.attributes.get(BODY_REF)) is str and ref), None)
        if address is not None:
            yield Reference(direction, BODY_REF, address)
            continue
        identity = request_id(subject)
        if identity is not None:
            column = "request_file" if direction == "input" else "response_file"
            yield Reference(direction, REQUEST_ID, index=(REQUEST_ID, identity, column))


def request_id(subject: Subject) -> str | None:
    """The HTTP request's id, from the span or its records."""
    for holder in (subject.span.attributes, *(record.attributes for record in subject.records)):
        value = holder.get(REQUEST_ID)
        if type(value) is str and value:
            return value
    return None


# -- scalars -----------------------------------------------------------------------------------------------

_CACHED = ("cache_read_tokens", "cache_creation_tokens")


def _sum_of_input(holder: Mapping[str, Any]) -> Any:
    """Input with what came from the cache and went to it; as it is where it is no number."""
    given = holder.get("input_tokens")
    number = whole(given)
    if number is None:
        return given
    return number + sum(whole(holder.get(key)) or 0 for key in _CACHED)


def _extra(subject: Subject) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    response = _response(subject)
    if response is not None:
        described = response_facts(response)
        given, answered = read_usage(response.get("usage"))
        found["=response_id"] = described.get("response_id")
        found["=response_model"] = described.get("response_model")
        found["input_tokens"], found["output_tokens"] = given, answered
    holders = [record.attributes for record in subject.records if event_of(record) in (REQUEST, ERROR)]
    for holder in (subject.span.attributes, *holders):
        for field, value in (
            ("input_tokens", _sum_of_input(holder)),
            ("output_tokens", holder.get("output_tokens")),
            ("response_id", holder.get(REQUEST_ID)),
            ("request_model", holder.get("model")),
            ("finish_reasons", holder.get("stop_reason")),
        ):
            if value is not None and found.get(field) is None:
                found[field] = value
    return found


def _response(subject: Subject) -> dict[str, Any] | None:
    """The response's body, from a record or from where it stood."""
    for record in _bodies(subject, RESPONSE_BODY):
        try:
            body = _body(record)
        except Unreadable:
            return None
        if type(body) is dict:
            return body
    outside = subject.content.get("output") if subject.content else None
    if type(outside) is str:
        try:
            outside = opened(outside)[0]
        except Unreadable:
            return None
    return outside if type(outside) is dict else None


# -- calls among records -----------------------------------------------------------------------------------


def log_calls(records: Iterable[LogRecord]) -> Iterator[LogCall]:
    """Calls that ended, session by session, in the order in which they ended."""
    sessions: dict[Any, list[LogRecord]] = {}
    for record in records:
        session = record.attributes.get("session.id")
        sessions.setdefault(session if type(session) is str else "", []).append(record)
    for session, group in sessions.items():
        group.sort(key=_order)
        yield from _session_calls(session, group)


def _order(record: LogRecord) -> tuple[int, int]:
    return record.time_ns or record.observed_ns or 0, whole(record.attributes.get("event.sequence")) or 0


def _text(record: LogRecord, key: str) -> str:
    value = record.attributes.get(key)
    return value if type(value) is str else ""


def _session_calls(session: str, records: list[LogRecord]) -> Iterator[LogCall]:
    """Ends of calls by their request's id; each takes the request body that is its own, and leaves earlier attempts."""
    asked = [record for record in records if event_of(record) == REQUEST_BODY]
    ends: dict[str, list[LogRecord]] = {}
    unnamed: dict[str, str] = {}  # where a service gives no request ids: the call that is ending, by place
    for number, record in enumerate(records):
        event, place = event_of(record), _text(record, "query_source")
        name = _text(record, REQUEST_ID)
        if event == REQUEST_BODY:
            unnamed.pop(place, None)
        elif name:
            ends.setdefault(name, []).append(record)
        else:
            name = unnamed.get(place, "")
            if not name or event in map(event_of, ends[name]):
                name = unnamed[place] = f"#{number}"
            ends.setdefault(name, []).append(record)
    for group in ends.values():
        body = _request_body(asked, group)
        if body is not None:
            asked = _without_attempts(asked, body)
        yield _call(session, group if body is None else [body, *group])


def _request_body(asked: list[LogRecord], ended: list[LogRecord]) -> LogRecord | None:
    names = {_text(record, BODY_ID) for record in ended} - {""}
    ids = {_text(record, REQUEST_ID) for record in ended} - {""}
    for record in asked:
        if _text(record, BODY_ID) in names or _text(record, REQUEST_ID) in ids:
            return record
    if names and any(_text(record, BODY_ID) for record in asked):
        return None
    last = ended[-1]
    place, end = _text(last, "query_source"), _order(last)
    before = [record for record in asked if _order(record) <= end and _text(record, "query_source") == place]
    return before[-1] if before else None


def _without_attempts(asked: list[LogRecord], body: LogRecord) -> list[LogRecord]:
    """The bodies that are left for other calls; without ids, earlier ones from the same place were attempts."""
    if _text(body, BODY_ID) or _text(body, REQUEST_ID):
        return [record for record in asked if record is not body]
    place = _text(body, "query_source")
    return [r for r in asked if _text(r, "query_source") != place or _order(r) > _order(body)]


def _call(session: str, records: list[LogRecord]) -> LogCall:
    last = records[-1]
    identity = next((text for record in records if (text := _text(record, REQUEST_ID))), "")
    if not identity:
        sequence = whole(last.attributes.get("event.sequence"))
        identity = f"{session}:{_order(last)[0] if sequence is None else sequence}"
    told = next((record for record in records if event_of(record) in (REQUEST, ERROR)), None)
    end = (_order(told) if told is not None else _order(last))[0] or None
    lasted = milliseconds(told.attributes.get("duration_ms")) if told is not None else None
    start = end - lasted * 1_000_000 if end is not None and lasted is not None else None
    kinds = {event_of(record) for record in records}
    return LogCall(
        tuple(records),
        f"{NAME}:{identity}",
        start if start is None or start >= 0 else None,
        end,
        failed=ERROR in kinds and not kinds & {REQUEST, RESPONSE_BODY},
    )


DIALECT = Dialect(
    name=NAME,
    title="Claude Code",
    detect=detect,
    signs=Signs(scopes=(SCOPES,), names=tuple(f"{PREFIX}{kind}" for kind in SPANS)),
    sources=(Source("API bodies", _read),),
    message_attributes=frozenset({BODY}),
    span_extra=_extra,
    wants_record=wants_record,
    log_calls=log_calls,
    references=references,
    join_keys=(REQUEST_ID,),
    records_beside=True,
    seen=("Claude Code 2.1.332 and 2.1.197 (log events, traces beta, bodies in files)",),
    not_recoverable=(
        "messages, where OTEL_LOG_RAW_API_BODIES is not set: set it to `file:<directory>`",
        "messages longer than 60 KB in records: the program cuts them",
        "thinking, which the program withholds",
        "the model service behind calls of which there is no span",
    ),
)
