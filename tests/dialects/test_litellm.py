# SPDX-License-Identifier: Apache-2.0
"""LiteLLM's own callback: call types, tool calls that stand apart, ids from the raw copy, its users."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.dialects.registry import lends_ids
from sediment_otel.telemetry import Scope, Span
from sediment_otel.vocabulary import SpanRole

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "litellm.call_id": "call-1"}
ONLY_CALLS = [{"role": "assistant", "parts": [], "finish_reason": "tool_calls"}]
CALL = {
    "gen_ai.completion.0.function_call.name": "get_weather",
    "gen_ai.completion.0.function_call.arguments": '{"city": "Paris"}',
}
CHOICES = (
    "[{'finish_reason': 'tool_calls', 'index': 0, 'message': {'content': None, 'tool_calls': [{'id': 'call_A1',"
    " 'function': {'arguments': '{\"city\":\"Paris\"}', 'name': 'get_weather'}, 'type': 'function'}]}}]"
)


def raw(**attributes: Any) -> Span:
    return Span(
        trace_id="0af7651916cd43dd8448eb211c80319c",
        span_id="00f067aa0ba902b7",
        parent_span_id="b7ad6b7169203331",
        name="raw_gen_ai_request",
        scope=Scope(name="litellm"),
        attributes={f"llm.{key.replace('__', '.')}": value for key, value in attributes.items()},
    )


@pytest.mark.parametrize(
    ("attributes", "role"),
    [
        ({"gen_ai.operation.name": "chat"}, SpanRole.CALL),
        ({"gen_ai.operation.name": "acompletion"}, SpanRole.CALL),
        ({"gen_ai.operation.name": "aresponses"}, SpanRole.CALL),
        ({"gen_ai.operation.name": "anthropic_messages"}, SpanRole.CALL),
        ({"llm.request.type": "completion"}, SpanRole.CALL),
        ({"gen_ai.operation.name": "aembedding", "llm.request.type": "aembedding"}, SpanRole.OTHER),
        ({"gen_ai.operation.name": "execute_tool"}, SpanRole.TOOL),
        ({"http.route": "/v1/chat/completions"}, SpanRole.OTHER),
        ({}, SpanRole.OTHER),
    ],
)
def test_the_call_type_says_what_a_span_is(given: Any, attributes: dict[str, Any], role: SpanRole) -> None:
    found = given(attributes, scope="litellm").detection
    assert (found.dialect, found.role) == ("litellm", role)


def test_tool_calls_that_stand_apart_are_parts_of_the_answer_in_their_numeric_order(given: Any) -> None:
    calls = {f"gen_ai.completion.{n}.function_call.name": f"t{n}" for n in (10, 2, 1)}
    message = {"role": "assistant", "parts": [{"type": "text", "content": "I look."}], "finish_reason": "tool_calls"}
    found = given({**CHAT, "gen_ai.output.messages": [message], **calls})
    assert [part.get("name") for part in found.output[0]["parts"]] == [None, "t1", "t2", "t10"]
    assert found.output[0]["finish_reason"] == "tool_calls"


def test_a_call_that_the_message_holds_already_is_not_said_twice(given: Any) -> None:
    part = {"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": '{"city":"Paris"}'}
    message = {"role": "assistant", "parts": [part]}
    assert given({**CHAT, "gen_ai.output.messages": [message], **CALL}).output == [message]


def test_calls_without_any_output_message_are_an_answer(given: Any) -> None:
    parts = given({**CHAT, **CALL}).output[0]["parts"]
    assert parts == [{"type": "tool_call", "id": None, "name": "get_weather", "arguments": '{"city": "Paris"}'}]


RAW: dict[str, tuple[dict[str, Any], str | None]] = {
    "chat completions": ({"openai__choices": CHOICES}, "call_A1"),
    "JSON instead of a repr": (
        {
            "openai__choices": '[{"message": {"tool_calls": [{"id": "call_J", "function":'
            ' {"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}}]}}]'
        },
        "call_J",
    ),
    "anthropic": (
        {
            "anthropic__content": "[{'type': 'tool_use', 'id': 'toolu_1', 'name': 'get_weather',"
            " 'input': {'city': 'Paris'}}]"
        },
        "toolu_1",
    ),
    "responses": (
        {
            "openai__output": "[{'type': 'function_call', 'id': 'fc_1', 'call_id': 'call_R', 'name': 'get_weather',"
            " 'arguments': '{\"city\": \"Paris\"}'}]"
        },
        "call_R",
    ),
    "bedrock": (
        {
            "bedrock__output": "{'message': {'role': 'assistant', 'content': [{'toolUse': {'toolUseId': 'tu_1',"
            " 'name': 'get_weather', 'input': {'city': 'Paris'}}}]}}"
        },
        "tu_1",
    ),
    "another call": ({"openai__choices": CHOICES.replace("Paris", "Rome")}, None),
    "cut": ({"openai__choices": CHOICES[:-20]}, None),
    "an expression": ({"openai__choices": "[__import__('os').getcwd()]"}, None),
    "nested too deep": ({"openai__choices": "[" * 100_000}, None),
    "signs": ({"openai__choices": "[" + "-" * 100_000 + "1]"}, None),
    "a number": ({"openai__choices": 7}, None),
}


@pytest.mark.parametrize("case", RAW)
def test_the_raw_copy_lends_the_id_of_an_equal_call(given: Any, case: str) -> None:
    attributes, expected = RAW[case]
    found = given({**CHAT, "gen_ai.output.messages": ONLY_CALLS, **CALL}, siblings=(raw(**attributes),))
    assert found.output[0]["parts"][0]["id"] == expected


def test_two_equal_calls_get_two_ids(given: Any) -> None:
    twice = {**CALL, **{key.replace(".0.", ".1."): value for key, value in CALL.items()}}
    second = "{'id': 'call_B2', 'function': {'arguments': '{\"city\": \"Paris\"}', 'name': 'get_weather'}}"
    choices = CHOICES.replace("}]}}]", f"}}, {second}]}}}}]")
    found = given({**CHAT, "gen_ai.output.messages": ONLY_CALLS, **twice}, siblings=(raw(openai__choices=choices),))
    assert [part["id"] for part in found.output[0]["parts"]] == ["call_A1", "call_B2"]


def test_only_a_raw_copy_with_an_answer_lends() -> None:
    assert lends_ids(raw(openai__choices=CHOICES))
    assert not lends_ids(raw(openai__stringified_raw_response="x"))
    assert not lends_ids(Span(trace_id="1" * 32, span_id="2" * 16, attributes={"llm.openai.choices": CHOICES}))


def test_items_of_one_responses_answer_are_one_message(given: Any) -> None:
    items = [
        {"role": "assistant", "parts": [{"type": "text", "content": "I look."}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "t", "arguments": "{}"}]},
    ]
    found = given({**CHAT, "gen_ai.operation.name": "aresponses", "gen_ai.output.messages": items})
    assert [len(message["parts"]) for message in found.output] == [2]


def test_the_own_id_of_a_failed_call_is_no_response_id(given: Any) -> None:
    span = {**CHAT, "gen_ai.response.id": "call-1", "gen_ai.input.messages": [{"role": "user", "parts": []}]}
    assert "response_id" not in given(span).reading.fields
    assert given({**span, "gen_ai.response.id": "chatcmpl-1"}).reading.fields["response_id"] == "chatcmpl-1"


@pytest.mark.parametrize(
    ("attributes", "user"),
    [
        ({"llm.user": "dev-7"}, "dev-7"),
        ({"metadata.user_api_key_end_user_id": "end-1", "metadata.user_api_key_user_id": "key-1"}, "end-1"),
        ({"llm.user": "", "metadata.user_api_key_user_id": ""}, None),
    ],
)
def test_the_user_is_its_own_and_an_empty_text_is_none(given: Any, attributes: dict[str, str], user: Any) -> None:
    found = given({**CHAT, "gen_ai.output.messages": ONLY_CALLS, **attributes}, scope="litellm")
    assert (found.fact["user_id"], found.fact["gateway_provider"]) == (user, "litellm")
    assert [loss.code for loss in found.translation().losses] == []


def test_a_session_in_the_requesters_metadata_counts(given: Any) -> None:
    key = "metadata.requester_metadata"
    found = given({**CHAT, "gen_ai.output.messages": ONLY_CALLS, key: "{'session_id': 'chat-9', 'n': None}"})
    assert found.fact["session_id"] == "chat-9"
