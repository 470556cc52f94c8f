# SPDX-License-Identifier: Apache-2.0
"""Langfuse observations: types, the shapes of input and output, metadata and counts that are JSON text."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.vocabulary import SpanRole

GENERATION = {"langfuse.observation.type": "generation", "langfuse.observation.output": "Four."}
HELLO = [{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]
MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("generation", SpanRole.CALL),
        ("agent", SpanRole.AGENT),
        ("tool", SpanRole.TOOL),
        ("span", SpanRole.OTHER),
        ("chain", SpanRole.OTHER),
        ("embedding", SpanRole.OTHER),
        (3, SpanRole.OTHER),
    ],
)
def test_the_type_of_the_observation_says_what_it_is(given: Any, kind: Any, role: SpanRole) -> None:
    found = given({"langfuse.observation.type": kind}).detection
    assert (found.dialect, found.role) == ("langfuse", role)


INPUTS: dict[str, tuple[Any, Any]] = {
    "a list of messages": (MESSAGES, HELLO),
    "messages beside tools": ({"tools": [{"type": "function"}], "messages": MESSAGES}, HELLO),
    "a request of the Responses API": ({"input": MESSAGES, "tools": []}, HELLO),
    "its input as text": ({"input": "hello", "tools": []}, HELLO),
    "plain text": ("hello", HELLO),
    "a list of prompts": (["hello"], HELLO),
    "text that begins like JSON": (
        "[INST] hello",
        [{"role": "user", "parts": [{"type": "text", "content": "[INST] hello"}]}],
    ),
    "the arguments of an observed function": ({"args": [], "kwargs": {"messages": MESSAGES}}, HELLO),
    "other arguments": ({"args": ["q"], "kwargs": {}}, None),
    "an object": ({"question": "hello"}, None),
    "nothing": ("", None),
    "items of one answer": (
        {
            "input": [
                *MESSAGES,
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
                {"type": "function_call", "call_id": "c1", "name": "t", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "18"},
            ]
        },
        [
            *HELLO,
            {
                "role": "assistant",
                "parts": [
                    {"type": "reasoning", "content": "Hm.", "id": "rs_1"},
                    {"type": "tool_call", "id": "c1", "name": "t", "arguments": "{}"},
                ],
            },
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "18"}]},
        ],
    ),
}


@pytest.mark.parametrize("shape", INPUTS)
def test_the_input_reads_in_every_shape(given: Any, shape: str) -> None:
    value, expected = INPUTS[shape]
    assert given({**GENERATION, "langfuse.observation.input": value}).input == expected


def test_instructions_of_a_request_are_its_system(given: Any) -> None:
    found = given({**GENERATION, "langfuse.observation.input": {"instructions": "Be brief.", "input": "hello"}})
    assert found.reading.system.open()[0]["parts"] == [{"type": "text", "content": "Be brief."}]


CALL = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
CALL_PART = {"type": "tool_call", "id": "c1", "name": "t", "arguments": "{}"}
FOUR = {"type": "text", "content": "Four."}
OUTPUTS: dict[str, tuple[Any, Any]] = {
    "a message": ({"role": "assistant", "tool_calls": [CALL], "content": None}, [[CALL_PART]]),
    "two choices": ([{"role": "assistant", "content": "Four."}] * 2, [[FOUR], [FOUR]]),
    "text": ("Four.", [[FOUR]]),
    "JSON that the model wrote": ('{"n": 4}', [[{"type": "text", "content": '{"n": 4}'}]]),
    "an item alone": (
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Four."}]},
        [[FOUR]],
    ),
    "items of one answer": (
        [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Four."}]},
            {"type": "function_call", "call_id": "c1", "name": "t", "arguments": "{}"},
        ],
        [[FOUR, CALL_PART]],
    ),
    "a tool call of LangChain": (
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"name": "t", "args": {}, "id": "c1", "type": "tool_call"}],
        },
        [[{"type": "text", "content": ""}, {"type": "tool_call", "id": "c1", "name": "t", "arguments": {}}]],
    ),
    "nothing": ("", None),
}


@pytest.mark.parametrize("shape", OUTPUTS)
def test_the_output_reads_in_every_shape(given: Any, shape: str) -> None:
    value, expected = OUTPUTS[shape]
    found = given({"langfuse.observation.type": "generation", "langfuse.observation.output": value}).output
    got = None if found is None else [(m["role"], [_bare(p) for p in m["parts"]]) for m in found]
    assert got == (None if expected is None else [("assistant", parts) for parts in expected])


def _bare(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key in ("type", "content", "id", "name", "arguments")}


def test_a_media_token_is_a_uri_of_its_media_type(given: Any) -> None:
    token = "@@@langfuseMedia:type=image/png|id=a3-k|source=base64_data_uri@@@"
    content = [
        {"type": "image_url", "image_url": {"url": token}},
        {"type": "input_audio", "input_audio": {"data": token.replace("image/png", "audio/wav"), "format": "wav"}},
    ]
    found = given({**GENERATION, "langfuse.observation.input": [{"role": "user", "content": content}]}).input
    assert [(part["type"], part["mime_type"]) for part in found[0]["parts"]] == [
        ("uri", "image/png"),
        ("uri", "audio/wav"),
    ]


def test_metadata_that_is_json_text_gives_finish_reason_and_id(given: Any) -> None:
    metadata = {
        "langfuse.observation.metadata.finish_reason": '"tool_calls"',
        "langfuse.observation.metadata.id": '"resp_1"',
        "langfuse.observation.metadata.previous_response_id": '"resp_0"',
    }
    found = given({**GENERATION, **metadata})
    assert found.fact["model_call_id"] == "resp_1"
    assert found.fact["output_messages"][0]["finish_reason"] == "tool_calls"
    assert [loss.code for loss in found.translation().losses] == ["partial_history"]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 120, "completion_tokens": 34, "prompt_tokens_details": {"cached_tokens": 64}}, (120, 34)),
        ({"input_tokens": 200, "output_tokens": 50, "input_tokens_details": {"cached_tokens": 128}}, (200, 50)),
        ({"input": 56, "input_cache_read": 64, "output": 22, "output_reasoning": 12, "total": 154}, (120, 34)),
        ({"input": 90, "output": 40, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 10}, (150, 40)),
        ({"input_tokens": 90, "output_tokens": 40, "cache_read_input_tokens": 60}, (150, 40)),
        ({"input": 7}, (7, None)),
        ([1], (None, None)),
    ],
)
def test_counts_are_whole_whatever_they_are_called(given: Any, usage: Any, expected: Any) -> None:
    fact = given({**GENERATION, "langfuse.observation.usage_details": usage}).fact
    assert (fact["input_tokens"], fact["output_tokens"]) == expected
