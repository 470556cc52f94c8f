# SPDX-License-Identifier: Apache-2.0
"""Generated telemetry: GenAI messages of every kind, in every place a call may carry them.

What a strategy gives is what a decoder could give (`telemetry`), hostile values included. Lone surrogates, which only
a process can hold, come from `texts(surrogates=True)`.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from sediment_otel.genai import Subject
from sediment_otel.telemetry import LogRecord, Resource, Scope, Span, SpanEvent

DETAILS = "gen_ai.client.inference.operation.details"
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
START = 1_700_000_000_000_000_000


def texts(*, surrogates: bool = False) -> st.SearchStrategy[str]:
    """Text with characters that break naive code: quotes, escapes, separators, astral planes, NUL."""
    exclude = () if surrogates else ("Cs",)
    plain = st.text(st.characters(exclude_categories=exclude), max_size=20)
    return st.one_of(plain, st.sampled_from(TRICKY))


TRICKY = (
    "",
    " ",
    "null",
    "None",
    "{}",
    "[]",
    '"',
    '"quoted"',
    "42",
    "1e400",
    "NaN",
    "{not json",
    '[{"role": "user"}]',
    '{"role": "user", "content": "inside"}',
    "<REDACTED>",
    "FILTERED",
    "a\x00b",
    "line\u2028separator",
    "\U0001f9ea é ß",
    "/input_messages/0~1",
)

numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0, 1, -0.0, 1.0, 5e-324, 2**63, float("nan"), float("inf")]),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts())
MARK_KEYS = ("$bytes", "$float", "$literal")
keys = st.one_of(
    texts(), st.sampled_from(("type", "role", "parts", "content", "name", "arguments", "api_note", *MARK_KEYS))
)


def values(leaves: st.SearchStrategy[Any] = scalars) -> st.SearchStrategy[Any]:
    """Nested values as JSON has them."""
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
        max_leaves=6,
    )


objects = st.dictionaries(keys, values(), max_size=3)


def json_text(value: Any) -> str:
    """JSON as Python's producers write it: spaces, ASCII escapes, NaN."""
    return json.dumps(value)


@st.composite
def encoded(draw: st.DrawFn, inner: st.SearchStrategy[Any], layers: int = 2) -> Any:
    """A value, or up to so many layers of JSON text around it."""
    value = draw(inner)
    for _ in range(draw(st.integers(0, layers))):
        value = json.dumps(value, ensure_ascii=draw(st.booleans()))
    return value


ids = st.one_of(st.sampled_from(("call_1", "call_2", " padded ", "", "None")), st.none(), numbers, texts())
usual_ids = st.sampled_from(("call_1", "call_2", "toolu_3"))
arguments = st.one_of(encoded(objects), encoded(values()))
results = encoded(values())


def _part(kind: Any, required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    fields = {"type": st.just(kind), **required}
    return st.fixed_dictionaries(fields, optional={**optional, "extra": values()})


usual_parts = st.one_of(
    st.builds(lambda text: {"type": "text", "content": text}, texts()),
    st.builds(lambda text: {"type": "reasoning", "content": text}, texts()),
    st.builds(
        lambda i, name, given: {"type": "tool_call", "id": i, "name": name, "arguments": given},
        usual_ids,
        texts(),
        objects,
    ),
    st.builds(lambda i, given: {"type": "tool_call_response", "id": i, "response": given}, usual_ids, values()),
)
odd_parts = st.one_of(
    _part("text", {}, {"content": st.one_of(texts(), values())}),
    _part("reasoning", {}, {"content": st.one_of(texts(), values()), "signature": texts()}),
    _part("tool_call", {}, {"id": ids, "name": values(), "arguments": arguments}),
    _part(
        "tool_call_response",
        {},
        {"id": ids, "response": results, "result": results, "content": results, "output": results},
    ),
    _part("blob", {"modality": st.just("image"), "content": st.just("aGk=")}, {"mime_type": texts()}),
    _part("uri", {"modality": st.just("audio"), "uri": texts()}, {}),
    _part("file", {}, {"file_id": texts(), "modality": texts()}),
    _part("server_tool_call", {}, {"id": ids, "name": texts(), "server_tool_call": objects}),
    _part("server_tool_call_response", {}, {"id": ids, "server_tool_call_response": objects}),
    _part("compaction", {}, {"content": texts()}),
    st.builds(lambda kind, rest: {**rest, "type": kind}, texts(), objects),
    st.builds(lambda kind, rest: {**rest, "type": kind}, values(), objects),
    objects,
)
#: Blocks of providers, which a reader turns into parts of the GenAI form.
foreign_parts = st.one_of(
    _part("tool_use", {"id": ids}, {"name": texts(), "input": arguments}),
    _part("tool_result", {"tool_use_id": ids}, {"content": results}),
    _part("thinking", {"thinking": texts()}, {"signature": texts()}),
    _part("redacted_thinking", {}, {"data": texts()}),
    _part(
        "image_url",
        {"image_url": st.fixed_dictionaries({"url": st.one_of(st.just("data:image/png;base64,aGk="), texts())})},
        {},
    ),
    _part("input_text", {"text": values()}, {}),
    _part("function", {"id": ids, "function": objects}, {}),
    _part("document", {"source": objects}, {"file": objects}),
    _part("reasoning", {}, {"reasoningText": objects, "summary": values(), "text": texts()}),
    st.fixed_dictionaries({"text": values()}, optional={"thought": st.booleans()}),
    st.fixed_dictionaries({"functionCall": objects}),
    st.fixed_dictionaries({"toolUse": objects}),
)
parts = st.one_of(usual_parts, usual_parts, odd_parts, foreign_parts, values())
roles = st.one_of(st.sampled_from(("user", "assistant", "tool", "system", "developer")), texts(), values())

usual_messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(("user", "assistant", "tool", "system")),
        "parts": st.lists(usual_parts, max_size=3),
    },
    optional={
        "finish_reason": st.sampled_from(("stop", "tool_call", "", " length ", None)),
        "name": st.one_of(st.none(), texts()),
    },
)
odd_messages = st.fixed_dictionaries(
    {},
    optional={
        "role": roles,
        "parts": st.one_of(st.lists(parts, max_size=3), parts),
        "content": st.one_of(texts(), st.lists(parts, max_size=2), values()),
        "tool_calls": st.one_of(st.lists(st.one_of(foreign_parts, values()), max_size=2), values()),
        "tool_call_id": ids,
        "reasoning_content": values(),
        "finish_reason": st.one_of(texts(), values()),
        "name": values(),
        "extra": values(),
        "type": st.one_of(texts(), st.sampled_from(("message", "function_call", "function_call_output", "reasoning"))),
    },
)
messages = st.one_of(usual_messages, usual_messages, odd_messages, values())
message_lists = st.one_of(st.lists(usual_messages, max_size=3), st.lists(messages, max_size=3))
system_lists = st.one_of(
    st.lists(st.builds(lambda text: {"type": "text", "content": text}, texts()), max_size=3),
    st.lists(parts, max_size=3),
    st.lists(messages, max_size=2),
    texts(),
)


@st.composite
def conversations(draw: st.DrawFn) -> dict[str, Any]:
    """Input, output and system instructions of one call, each perhaps missing; the system perhaps said twice."""
    found: dict[str, Any] = {}
    if draw(st.booleans()) or draw(st.booleans()):
        found["input"] = draw(message_lists)
    if draw(st.booleans()) or draw(st.booleans()):
        found["output"] = draw(message_lists)
    if draw(st.booleans()):
        found["system"] = draw(system_lists)
        if draw(st.booleans()) and isinstance(found.get("input"), list) and isinstance(found["system"], list):
            found["input"] = [{"role": "system", "parts": found["system"]}, *found["input"]]
    return found


ATTRIBUTES = {
    "input": "gen_ai.input.messages",
    "output": "gen_ai.output.messages",
    "system": "gen_ai.system_instructions",
}
odd_fields = st.one_of(texts(), values())
fields = st.fixed_dictionaries(
    {"gen_ai.operation.name": st.sampled_from(("chat", "generate_content", "text_completion"))},
    optional={
        "gen_ai.provider.name": st.one_of(st.just("openai"), odd_fields),
        "gen_ai.system": st.one_of(st.just("anthropic"), odd_fields),
        "gen_ai.request.model": st.one_of(st.just("gpt-x"), odd_fields),
        "gen_ai.response.model": st.one_of(st.just("gpt-x-1"), odd_fields),
        "gen_ai.response.id": st.one_of(st.just("resp_1"), odd_fields),
        "gen_ai.usage.input_tokens": st.one_of(st.integers(0, 9), odd_fields),
        "gen_ai.usage.output_tokens": st.one_of(st.integers(0, 9), odd_fields),
        "gen_ai.usage.prompt_tokens": odd_fields,
        "gen_ai.response.finish_reasons": st.one_of(st.just(["stop"]), st.just('["stop"]'), odd_fields),
        "gen_ai.request.previous_response.id": odd_fields,
        "session.id": odd_fields,
        "user.id": odd_fields,
        "custom": st.one_of(values(), st.binary(max_size=4)),
        "$bytes": odd_fields,
    },
)


def _attributes(given: dict[str, Any], write: Any) -> dict[str, Any]:
    return {ATTRIBUTES[direction]: write(value) for direction, value in given.items()}


def _list_of_texts(value: Any) -> Any:
    return [json.dumps(item) for item in value] if isinstance(value, list) else json.dumps(value)


#: How a value is written: JSON text, twice over, a list of JSON texts, or structured.
WRITERS = (json.dumps, lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
           lambda value: json.dumps(json.dumps(value)), _list_of_texts, lambda value: value)  # fmt: skip
PLACES = ("attributes", "details event", "details record", "details body", "message records", "message events", "plain")


def _record(name: str, position: int, body: Any, attributes: dict[str, Any] | None = None) -> LogRecord:
    return LogRecord(
        trace_id=TRACE,
        span_id=SPAN,
        time_ns=START + position,
        event_name=name,
        body=body,
        attributes=attributes or {},
        resource=Resource(attributes={"service.name": "app"}),
        scope=Scope(name="records"),
    )


def _events(given: dict[str, Any]) -> list[tuple[str, Any]]:
    """The per-message events of a conversation: name and body."""
    found: list[tuple[str, Any]] = []
    for message in given.get("input", ()):
        role = message.get("role") if isinstance(message, dict) else None
        kind = role if role in ("system", "user", "assistant", "tool") else "user"
        found.append((f"gen_ai.{kind}.message", message))
    for index, message in enumerate(given.get("output", ())):
        found.append(("gen_ai.choice", {"index": index, "message": message, "finish_reason": "stop"}))
    return found


@st.composite
def subjects(draw: st.DrawFn) -> Subject:
    """A model call with its messages in one of the places of the current conventions."""
    given = draw(conversations())
    attributes = dict(draw(fields))
    place = draw(st.sampled_from(PLACES))
    write = draw(st.sampled_from(WRITERS))
    events: list[SpanEvent] = []
    records: list[LogRecord] = []
    if place == "attributes":
        attributes.update(_attributes(given, write))
    elif place == "details event":
        events.append(SpanEvent(name=DETAILS, time_ns=START, attributes=_attributes(given, write)))
    elif place == "details record":
        records.append(_record(DETAILS, 0, None, _attributes(given, write)))
    elif place == "details body":
        records.append(_record(DETAILS, 0, _attributes(given, write)))
    elif place == "message records":
        records += [_record(name, position, body) for position, (name, body) in enumerate(_events(given))]
    elif place == "message events":
        events += [
            SpanEvent(name=name, time_ns=START + position, attributes=_flat(body))
            for position, (name, body) in enumerate(_events(given))
        ]
    else:
        attributes.update({key: write(given[d]) for d, key in _PLAIN.items() if d in given})
    return Subject(
        Span(
            trace_id=TRACE,
            span_id=SPAN,
            parent_span_id=draw(st.sampled_from((None, "00f067aa0ba902b7"))),
            name="chat",
            kind="client",
            start_ns=START,
            end_ns=draw(st.sampled_from((START + 1_500_000, START - 1, None))),
            attributes=attributes,
            events=events,
            dropped_attributes=draw(st.sampled_from((0, 2))),
            resource=Resource(
                attributes={"service.name": "app"}, schema_url=draw(st.sampled_from((None, "https://s")))
            ),
            scope=Scope(name="instrumentation", version="1"),
        ),
        tuple(records),
    )


_PLAIN = {"input": "gen_ai.prompt", "output": "gen_ai.completion"}


def _flat(body: Any) -> dict[str, Any]:
    """A body as attributes of a span event: structure as JSON text."""
    if not isinstance(body, dict):
        return {"content": body}
    return {str(key): json.dumps(item) if isinstance(item, (dict, list)) else item for key, item in body.items()}
