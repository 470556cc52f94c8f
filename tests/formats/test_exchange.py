# SPDX-License-Identifier: Apache-2.0
"""Whole requests and responses of model services become messages; anything else becomes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.formats.exchange import (
    is_responses_request,
    is_responses_response,
    read_request,
    read_response,
    response_facts,
)


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


USER = {"role": "user", "parts": [text("hello")]}


@pytest.mark.parametrize(
    ("request_", "messages", "system"),
    [
        ({"messages": [{"role": "user", "content": "hello"}]}, [USER], []),
        ([{"role": "user", "content": "hello"}], [USER], []),
        ({"messages": [{"role": "user", "content": "hello"}], "system": "brief"}, [USER], [text("brief")]),
        ({"messages": [{"role": "user", "content": "hello"}], "system": [{"text": "brief"}]}, [USER], [text("brief")]),
        ({"input": "hello", "instructions": "brief"}, [USER], [text("brief")]),
        (
            {
                "input": [
                    {"role": "user", "content": [{"type": "input_text", "text": "hello"}]},
                    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c1", "output": "r"},
                ]
            },
            [
                USER,
                {
                    "role": "assistant",
                    "parts": [
                        {"type": "reasoning", "content": "hm"},
                        {"type": "tool_call", "id": "c1", "name": "f", "arguments": "{}"},
                    ],
                },
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "r"}]},
            ],
            [],
        ),
        ({"contents": "hello"}, [USER], []),
        (
            {
                "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
                "config": {"system_instruction": {"parts": [{"text": "brief"}]}},
            },
            [USER],
            [text("brief")],
        ),
        ({"contents": [{"text": "hello"}]}, [USER], []),
        ({"prompt": "hello"}, [USER], []),
        ({"prompt": ["hello", 5]}, [USER], []),
        (
            {"messages": [[{"lc": 1, "type": "constructor", "kwargs": {"type": "human", "content": "hello"}}]]},
            [USER],
            [],
        ),
        ({"messages": [{"type": "human", "data": {"content": "hello"}}]}, [USER], []),
    ],
)
def test_a_request_gives_its_messages(request_: Any, messages: list[Any], system: list[Any]) -> None:
    assert read_request(request_) == (messages, system)


ASSISTANT = {"role": "assistant", "parts": [text("hi")]}


@pytest.mark.parametrize(
    ("response", "messages"),
    [
        (
            {"choices": [{"finish_reason": "stop", "message": {"content": "hi"}}]},
            [{**ASSISTANT, "finish_reason": "stop"}],
        ),
        ({"choices": [{"text": "hi"}, {"text": "hi"}]}, [ASSISTANT, ASSISTANT]),
        (
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": "hi"}],
                "stop_reason": "end_turn",
            },
            [{**ASSISTANT, "finish_reason": "end_turn"}],
        ),
        (
            {
                "output": [
                    {"type": "reasoning", "summary": [{"text": "hm"}]},
                    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
                    {"type": "web_search_call", "id": "ws_1"},
                ]
            },
            [
                {
                    "role": "assistant",
                    "parts": [
                        {"type": "reasoning", "content": "hm"},
                        text("hi"),
                        {"type": "web_search_call", "id": "ws_1"},
                    ],
                }
            ],
        ),
        (
            {"candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP"}]},
            [{**ASSISTANT, "finish_reason": "STOP"}],
        ),
        (
            {"output": {"message": {"role": "assistant", "content": [{"text": "hi"}]}}, "stopReason": "end_turn"},
            [{**ASSISTANT, "finish_reason": "end_turn"}],
        ),
        (
            {"generations": [[{"text": "hi", "generation_info": {"finish_reason": "stop"}}]]},
            [{**ASSISTANT, "finish_reason": "stop"}],
        ),
    ],
)
def test_a_response_gives_its_answer(response: Any, messages: list[Any]) -> None:
    assert read_response(response) == messages


NO_EXCHANGE: list[Any] = [
    None, 5, "text", [], {}, [1], [[]], {"args": ["x"]}, {"messages": 5}, {"messages": [5, None, []]},
    {"input": {"a": 1}}, {"input": [1]}, {"input": [{"type": []}]}, {"contents": 5}, {"prompt": {"a": 1}},
    {"choices": 5}, {"choices": [5, {"message": 5}]}, {"output": [{"type": []}]}, {"output": "text"},
    {"output": {"message": 5}}, {"content": "x"}, {"candidates": [5, {"content": 5}]}, {"generations": 5},
    {"generations": [[{"message": 5}]]}, {"generations": [[{"message": {"kwargs": 5}}]]}, {"raw": {"raw": {}}},
    {"system": {"parts": 5}, "messages": [{"role": "user", "content": {"a": [1]}}]},
    {"messages": [{"role": [], "tool_calls": [5, {"function": 5, "id": []}, {"id": []}]}]},
]  # fmt: skip


@pytest.mark.parametrize("value", NO_EXCHANGE, ids=repr)
def test_whatever_else_stands_there_never_raises(value: Any) -> None:
    read_request(value)
    read_response(value)
    response_facts(value)
    is_responses_request(value)
    is_responses_response(value)


@pytest.mark.parametrize(
    "value", [{"args": ["x"], "kwargs": {}}, {"question": "x"}, {"output": "text"}, {"content": "x"}]
)
def test_a_functions_arguments_and_result_are_no_exchange(value: Any) -> None:
    assert read_request(value) == ([], [])
    assert read_response(value) == []
