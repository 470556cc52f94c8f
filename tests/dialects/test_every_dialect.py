# SPDX-License-Identifier: Apache-2.0
"""What holds for every dialect: hostile values cost only themselves, and the order of attributes says nothing."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sediment_otel.dialects.registry import DIALECTS, detect, lends_ids, read
from sediment_otel.genai import Subject
from sediment_otel.settings import Settings
from sediment_otel.telemetry import LogRecord, Resource, Scope, Span, SpanEvent
from sediment_otel.translate.call import translate_subject

MESSAGE = {"role": "assistant", "content": "x", "parts": [{"type": "text", "content": "x"}]}
HOSTILE: list[Any] = [
    None,
    "",
    " ",
    "x",
    "[",
    "{",
    "[]",
    "{}",
    "null",
    "[null]",
    "7",
    '"x"',
    "NaN",
    "\x00",
    "\ud800",
    "[" * 3000,
    '{"a":' * 3000,
    '[{"role": "user", "parts": [{"type": "text", "content": "AAA',
    0,
    -1,
    2**80,
    1.5,
    float("nan"),
    float("inf"),
    True,
    b"\xff\x00",
    [],
    {},
    [None, 1, "x", [], {}],
    {"": None, "type": 1, "role": [], "parts": {}, "content": {}},
    json.dumps([MESSAGE, {"role": 7, "content": [{"type": {}}]}, {"parts": "x"}, 5, None]),
    json.dumps({"messages": {"a": 1}, "contents": 5, "content": [], "output": "x", "choices": [None, {"message": 3}]}),
    [MESSAGE, {"type": "function_call"}, {"type": "tool-call", "args": float("nan")}],
]

#: Spans of each dialect, with every attribute that it reads.
SPANS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ai_sdk": (
        "ai",
        "ai.generateText.doGenerate",
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.prompt.messages": [MESSAGE],
            "ai.response.text": "x",
            "ai.response.reasoning": "x",
            "ai.response.object": "x",
            "ai.response.toolCalls": [{"toolCallId": "c", "toolName": "t", "input": "{}"}],
            "ai.response.files": [{"data": "x"}],
            "ai.model.provider": "fake.chat",
        },
    ),
    "ai_sdk 7": (
        "ai",
        "chat m",
        {"gen_ai.operation.name": "chat", "gen_ai.input.messages": [MESSAGE], "gen_ai.output.messages": [MESSAGE]},
    ),
    "litellm": (
        "litellm",
        "litellm_request",
        {
            "gen_ai.operation.name": "chat",
            "llm.request.type": "completion",
            "litellm.call_id": "a",
            "gen_ai.response.id": "a",
            "gen_ai.output.messages": [{"role": "assistant", "parts": []}],
            "gen_ai.completion.0.function_call.name": "t",
            "gen_ai.completion.0.function_call.arguments": "{}",
            "llm.user": "u",
            "metadata.requester_metadata": "{'session_id': 's'}",
        },
    ),
    "langfuse": (
        "langfuse-sdk",
        "generation",
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.input": [MESSAGE],
            "langfuse.observation.output": MESSAGE,
            "langfuse.observation.usage_details": {"input": 1},
            "langfuse.observation.metadata.id": '"r"',
            "langfuse.observation.metadata.finish_reason": '"stop"',
        },
    ),
    "logfire": (
        "logfire.openai",
        "Chat Completion with x",
        {
            "request_data": {"model": "m", "messages": [MESSAGE]},
            "response_data": {"message": MESSAGE, "usage": {"prompt_tokens": 1}},
            "response": {"id": "r", "object": "response"},
        },
    ),
    "logfire events": (
        "logfire.openai",
        "Responses API with x",
        {
            "gen_ai.response.model": "m",
            "events": [{"event.name": "gen_ai.user.message", "role": "user", "content": "x"}],
        },
    ),
    "google_adk": (
        "gcp.vertex.agent",
        "call_llm",
        {
            "gcp.vertex.agent.llm_request": {"contents": [{"role": "user", "parts": [{"text": "x"}]}]},
            "gcp.vertex.agent.llm_response": {"content": {"role": "model", "parts": [{"text": "x"}]}},
            "gen_ai.response.finish_reasons": ["stop"],
        },
    ),
    "pydantic_ai": (
        "pydantic-ai",
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text"}]}],
            "events": [{"event.name": "gen_ai.choice", "message": MESSAGE}],
        },
    ),
    "strands": (
        "strands.telemetry.tracer",
        "chat",
        {"gen_ai.operation.name": "chat", "gen_ai.system": "strands-agents"},
    ),
    "semantic_kernel": ("semantic_kernel", "x", {"gen_ai.operation.name": "text_completions"}),
    "copilot": ("copilot-chat", "chat", {"gen_ai.operation.name": "chat", "copilot_chat.session_id": "s"}),
}


def _span(scope: str, name: str, attributes: dict[str, Any]) -> Span:
    return Span(
        trace_id="0af7651916cd43dd8448eb211c80319c",
        span_id="b7ad6b7169203331",
        name=name,
        start_ns=1_790_000_000_000_000_000,
        end_ns=1_790_000_001_000_000_000,
        scope=Scope(name=scope),
        resource=Resource(attributes={"service.name": "x"}),
        attributes={k: json.dumps(v) if type(v) in (list, dict) else v for k, v in attributes.items()},
    )


def _translated(span: Span, **more: Any) -> Any:
    assert lends_ids(span) in (True, False)
    return translate_subject(Subject(span, **more), Settings(session_id="s-1"))


@pytest.mark.parametrize("case", SPANS)
def test_a_hostile_value_in_any_attribute_never_raises(case: str) -> None:
    scope, name, attributes = SPANS[case]
    for key in attributes:
        for value in HOSTILE:
            span = _span(scope, name, attributes)
            span.attributes[key] = value
            _translated(span)


@pytest.mark.parametrize("case", SPANS)
def test_hostile_events_records_and_siblings_never_raise(case: str) -> None:
    scope, name, attributes = SPANS[case]
    for value in HOSTILE:
        for event in (
            "gen_ai.choice",
            "gen_ai.user.message",
            "gen_ai.prompt",
            "gen_ai.client.inference.operation.details",
        ):
            found = {
                "content": value,
                "message": value,
                "tool_calls": value,
                "id": value,
                "gen_ai.input.messages": value,
            }
            span = _span(scope, name, attributes)
            span.events.append(SpanEvent(name=event, attributes=found))
            records = (
                LogRecord(event_name=event, body=value),
                LogRecord(event_name=event, body=found, attributes=found),
            )
            raw = _span("litellm", "raw_gen_ai_request", {})
            raw.attributes["llm.openai.choices"] = value
            _translated(span, records=records, siblings=(raw,))


@pytest.mark.parametrize("case", SPANS)
def test_the_same_span_with_attributes_in_any_order_gives_the_same_bytes(case: str) -> None:
    scope, name, attributes = SPANS[case]
    span = _span(scope, name, attributes)
    expected = _translated(span)
    shuffle = random.Random(7).shuffle
    for _ in range(5):
        keys = list(span.attributes)
        shuffle(keys)
        other = _span(scope, name, {})
        other.attributes.update({key: span.attributes[key] for key in keys})
        found = _translated(other)
        assert (found.encoded, found.reason) == (expected.encoded, expected.reason)


@pytest.mark.parametrize("case", SPANS)
def test_two_dialects_on_one_span_give_the_same_bytes_whichever_came_first(case: str) -> None:
    scope, name, attributes = SPANS[case]
    for _, _, others in SPANS.values():
        first, second = _span(scope, name, {**attributes, **others}), _span(scope, name, {**others, **attributes})
        second.attributes.update({key: first.attributes[key] for key in second.attributes})
        one, other = _translated(first), _translated(second)
        assert (one.encoded, one.reason) == (other.encoded, other.reason)


def test_a_dialect_speaks_only_where_it_is_asked() -> None:
    """Readers of other dialects pass over a span of the conventions, and none of them claims it."""
    span = _span("another", "chat", {"gen_ai.operation.name": "chat"})
    assert detect(span).dialect == "gen_ai"
    assert read(Subject(span), detect(span)).input is None
    for dialect in DIALECTS[:-1]:
        assert dialect.detect(span) is None
        assert all(source.read(Subject(span)) is None for source in dialect.sources)


def test_names_are_unique_and_the_conventions_come_last() -> None:
    names = [dialect.name for dialect in DIALECTS]
    assert len(set(names)) == len(names)
    assert names[-1] == "gen_ai"
