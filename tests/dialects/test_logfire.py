# SPDX-License-Identifier: Apache-2.0
"""Logfire: request and response as data, events of the Responses API, streams that leave two spans."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.vocabulary import SpanRole

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
REQUEST = {"request_data": {"model": "m", "messages": MESSAGES}, "gen_ai.request.model": "m"}
RESPONSE = {"response_data": {"message": {"role": "assistant", "content": "Four."}, "usage": None}}
CHAT = "Chat Completion with {request_data[model]!r}"
TEXT = [{"type": "text", "content": "Four."}]


@pytest.mark.parametrize(
    ("name", "attributes", "role"),
    [
        (CHAT, RESPONSE, SpanRole.CALL),
        ("Message with {request_data[model]!r}", RESPONSE, SpanRole.CALL),
        ("Embedding Creation with {request_data[model]!r}", RESPONSE, SpanRole.OTHER),
        ("Image Generation with {request_data[model]!r}", RESPONSE, SpanRole.OTHER),
        ("x", {"gen_ai.operation.name": "chat", **RESPONSE}, SpanRole.CALL),
        ("x", {"logfire.msg_template": CHAT, **RESPONSE}, SpanRole.CALL),
        (CHAT, {}, SpanRole.OTHER),
        (CHAT, {"error.type": "RateLimitError"}, SpanRole.CALL),
        ("streaming response from {request_data[model]!r}", {"logfire.span_type": "log"}, SpanRole.CALL),
        (CHAT, {"logfire.span_type": "pending_span", **RESPONSE}, SpanRole.OTHER),
    ],
)
def test_name_and_operation_say_what_a_span_is(given: Any, name: str, attributes: Any, role: SpanRole) -> None:
    found = given({**REQUEST, **attributes}, name=name).detection
    assert (found.dialect, found.role) == ("logfire", role)


def test_a_pending_copy_of_any_span_is_no_call(given: Any) -> None:
    found = given({"logfire.span_type": "pending_span", "gen_ai.operation.name": "chat"}, scope="pydantic-ai")
    assert found.detection.role is SpanRole.OTHER


ANSWERS: dict[str, tuple[Any, list[Any]]] = {
    "a message": ({"message": {"role": "assistant", "content": "Four."}}, TEXT),
    "the chunks of a stream": ({"combined_chunk_content": "Four.", "chunk_count": 2}, TEXT),
    "a completion": ({"finish_reason": "stop", "text": "Four."}, TEXT),
    "a tool call": (
        {"message": {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "t", "arguments": "{}"}}]}},
        [{"type": "tool_call", "id": "c1", "name": "t", "arguments": "{}"}],
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_reads_in_every_shape(given: Any, case: str) -> None:
    response, parts = ANSWERS[case]
    found = given({**REQUEST, "response_data": response}, name=CHAT)
    assert [m["role"] for m in found.input] == ["system", "user"]
    assert found.output[0]["parts"] == parts


@pytest.mark.parametrize(
    ("scope", "arguments"),
    [("logfire.anthropic", {"a": 1}), ("logfire.openai", '{"input":{"a":1}}')],
)
def test_arguments_of_anthropics_calls_are_wrapped(given: Any, scope: str, arguments: Any) -> None:
    call = {"id": "c1", "function": {"name": "t", "arguments": '{"input":{"a":1}}'}}
    response = {"message": {"role": "assistant", "tool_calls": [call]}}
    found = given({**REQUEST, "response_data": response}, scope=scope, name=CHAT)
    assert found.output[0]["parts"] == [{"type": "tool_call", "id": "c1", "name": "t", "arguments": arguments}]


@pytest.mark.parametrize(
    ("name", "request_data"),
    [
        ("Responses API with x", {"model": "m", "stream": False}),
        ("streaming response from x", {"model": "m", "stream": True}),
    ],
)
def test_items_of_one_answer_are_one_message_in_version_5(given: Any, name: str, request_data: Any) -> None:
    items = [{"role": "assistant", "parts": TEXT}, {"role": "assistant", "parts": TEXT}]
    attributes = {"gen_ai.operation.name": "chat", "request_data": request_data, "gen_ai.output.messages": items}
    assert given(attributes, name=name).output == [{"role": "assistant", "parts": TEXT + TEXT}]
    assert len(given({**attributes, "request_data": {"model": "m"}}, name=CHAT).output) == 2


def test_the_system_of_anthropic_and_its_usage_are_read(given: Any) -> None:
    request = {"model": "claude", "system": "Be brief.", "messages": [{"role": "user", "content": "hello"}]}
    usage = {"input_tokens": 90, "cache_read_input_tokens": 60, "output_tokens": 4}
    response = {"message": {"role": "assistant", "content": "Four."}, "usage": usage}
    fact = given({"request_data": request, "response_data": response}, name="Message with {request_data[model]!r}").fact
    assert fact["input_messages"][0]["role"] == "system"
    assert (fact["model"], fact["input_tokens"], fact["output_tokens"]) == ("claude", 150, 4)


EVENTS = [
    {"event.name": "gen_ai.system.message", "role": "system", "content": "Be brief."},
    {"event.name": "gen_ai.user.message", "role": "user", "content": "hello"},
    {
        "event.name": "gen_ai.assistant.message",
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
    },
    {"event.name": "gen_ai.tool.message", "role": "tool", "id": "c1", "content": "18", "name": "t"},
    {
        "event.name": "gen_ai.unknown",
        "role": "assistant",
        "content": "reasoning\n\nSee JSON for details",
        "data": {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
    },
    {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": "Four."},
]


def test_in_events_the_answer_follows_the_input(given: Any) -> None:
    found = given(
        {"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 3, "events": EVENTS}, name="Responses API with x"
    )
    assert [message["role"] for message in found.input] == ["system", "user", "assistant", "tool"]
    assert found.input[3]["parts"] == [{"type": "tool_call_response", "id": "c1", "response": "18"}]
    assert found.output == [
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "Hm.", "id": "rs_1"}, TEXT[0]]}
    ]


def test_without_a_response_events_are_all_input(given: Any) -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "error.type": "x",
        "request_data": {"model": "m"},
        "events": EVENTS[:3],
    }
    found = given(attributes, name="Responses API with x")
    assert len(found.input) == 3
    assert found.output is None


def test_spans_of_openai_agents_keep_both_in_one_list(given: Any) -> None:
    request = {"model": "m", "messages": [*MESSAGES, {"role": "assistant", "content": "Four."}]}
    found = given(
        {"request_data": request}, scope="logfire.openai_agents", name="Chat completion with {gen_ai.request.model!r}"
    )
    assert (len(found.input), found.output[0]["parts"]) == (2, TEXT)


def test_the_whole_response_gives_its_id(given: Any) -> None:
    response = {"object": "response", "id": "resp_1", "previous_response_id": "resp_0", "usage": {"input_tokens": 3}}
    attributes = {"gen_ai.operation.name": "chat", "response": response, "events": EVENTS}
    found = given(attributes, scope="logfire.openai_agents", name="Responses API with x").reading.fields
    assert (found["response_id"], found["previous_response_id"], found["input_tokens"]) == ("resp_1", "resp_0", 3)
