# SPDX-License-Identifier: Apache-2.0
"""Blocks of every provider's format become parts of the GenAI form; what no row knows passes."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.formats.parts import read_part, unwrap_output

PNG = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "iVBORw=="}
LINK = {"type": "uri", "modality": "image", "uri": "https://x/y.png"}
CALL = {"type": "tool_call", "id": "c1", "name": "t", "arguments": {"a": 1}}
RESULT = {"type": "tool_call_response", "id": "c1", "response": "18"}
HM = {"type": "reasoning", "content": "Hm."}

BLOCKS: dict[str, tuple[Any, Any]] = {
    "OpenAI text": ({"type": "text", "text": "x"}, {"type": "text", "content": "x"}),
    "OpenAI image": ({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}, PNG),
    "OpenAI link": ({"type": "image_url", "image_url": {"url": "https://x/y.png"}}, LINK),
    "OpenAI function": ({"type": "function", "id": "c1", "function": {"name": "t", "arguments": {"a": 1}}}, CALL),
    "Responses image": ({"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="}, PNG),
    "Responses call": (
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "t", "arguments": {"a": 1}},
        CALL,
    ),
    "Responses result": ({"type": "function_call_output", "call_id": "c1", "output": "18"}, RESULT),
    "Anthropic thinking": ({"type": "thinking", "thinking": "Hm."}, HM),
    "Anthropic call": ({"type": "tool_use", "id": "c1", "name": "t", "input": {"a": 1}}, CALL),
    "Anthropic result": ({"type": "tool_result", "tool_use_id": "c1", "content": "18"}, RESULT),
    "Anthropic image": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
        PNG,
    ),
    "Gemini text": ({"text": "x"}, {"type": "text", "content": "x"}),
    "Gemini text with every key": (
        {"function_call": None, "inline_data": None, "text": "x", "thought": None},
        {"type": "text", "content": "x", "thought": None},
    ),
    "Gemini thought": ({"text": "Hm.", "thought": True, "function_call": None}, HM),
    "Gemini call": ({"function_call": {"id": "c1", "name": "t", "args": {"a": 1}}}, CALL),
    "Gemini result": ({"functionResponse": {"id": "c1", "name": "t", "response": "18"}}, RESULT),
    "Gemini image": ({"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}, PNG),
    "Bedrock call": ({"toolUse": {"toolUseId": "c1", "name": "t", "input": {"a": 1}}}, CALL),
    "Bedrock result": ({"toolResult": {"toolUseId": "c1", "content": "18", "status": "success"}}, RESULT),
    "Bedrock thinking": ({"reasoningContent": {"reasoningText": {"text": "Hm."}}}, HM),
    "Bedrock image": ({"image": {"format": "png", "source": {"bytes": "iVBORw=="}}}, PNG),
    "AI SDK file": ({"type": "file", "mediaType": "image/png", "data": "iVBORw=="}, PNG),
    "AI SDK bytes": ({"type": "image", "mimeType": "image/png", "image": {"0": 137, "1": 80, "2": 78, "3": 71}}, PNG),
    "a buffer": (
        {"type": "image", "mimeType": "image/png", "image": {"type": "Buffer", "data": [137, 80, 78, 71]}},
        PNG,
    ),
    "AI SDK result": (
        {"type": "tool-result", "toolCallId": "c1", "output": {"type": "text", "value": "18"}},
        RESULT,
    ),
    "a kind": ({"kind": "thinking", "text": "Hm."}, HM),
    "a result without a type": ({"tool_call_id": "c1", "content": "18"}, RESULT),
    "Google ADK file": (
        {"type": "file_data", "mime_type": "image/png", "uri": "https://x/y.png"},
        {**LINK, "mime_type": "image/png"},
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_becomes_the_part_that_it_is(name: str) -> None:
    block, expected = BLOCKS[name]
    (part,) = read_part(block)
    assert {key: part.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    "block",
    [
        {"type": "refusal", "refusal": "No."},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "blob", "modality": "image", "content": "x"},
        {"type": "file", "file_id": "f1"},
        {"type": 7},
        {"kind": "unheard of"},
        {"type": "image", "image": {"0": 137, "1": 999}},
        {},
        7,
        [1],
    ],
)
def test_what_no_row_knows_passes_as_it_is(block: Any) -> None:
    assert read_part(block) == [block]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"type": "json", "value": {"n": 1}}, {"n": 1}),
        ({"type": "error-text", "value": "no"}, "no"),
        ({"type": "content", "value": [1], "providerOptions": {}}, [1]),
        ({"type": "celsius", "value": 18}, {"type": "celsius", "value": 18}),
        ({"type": "json", "value": 1, "unit": "m"}, {"type": "json", "value": 1, "unit": "m"}),
        ({"type": ["json"], "value": 1}, {"type": ["json"], "value": 1}),
        ("x", "x"),
    ],
)
def test_only_a_result_that_the_ai_sdk_wrapped_is_unwrapped(value: Any, expected: Any) -> None:
    assert unwrap_output(value) == expected
