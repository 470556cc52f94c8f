# SPDX-License-Identifier: Apache-2.0
"""Pydantic AI: agents and tools of early versions, blocks with a kind, choices in pieces, capture that was off."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.vocabulary import SpanRole

CHAT = {"gen_ai.operation.name": "chat", "model_request_parameters": "{}"}


@pytest.mark.parametrize(
    ("attributes", "role"),
    [
        (CHAT, SpanRole.CALL),
        ({"gen_ai.operation.name": "invoke_agent"}, SpanRole.AGENT),
        ({"agent_name": "a", "model_name": "m", "gen_ai.usage.input_tokens": 9}, SpanRole.AGENT),
        ({"gen_ai.tool.name": "t", "tool_arguments": "{}"}, SpanRole.TOOL),
        ({"tools": ["t"]}, SpanRole.OTHER),
    ],
)
def test_operation_or_attributes_say_what_a_span_is(given: Any, attributes: dict[str, Any], role: SpanRole) -> None:
    found = given(attributes, scope="pydantic-ai").detection
    assert (found.dialect, found.role) == ("pydantic_ai", role)


def test_version_1_reads_blocks_by_their_kind_and_joins_the_pieces_of_an_answer(given: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": {"a": 1}}}
    events = [
        {"event.name": "gen_ai.system.message", "role": "system", "content": "Be brief."},
        {
            "event.name": "gen_ai.user.message",
            "role": "user",
            "content": [
                "Look",
                {"kind": "image-url", "url": "https://x/y.png"},
                {"kind": "binary", "media_type": "image/png", "binary_content": "iVBORw=="},
            ],
        },
        {"event.name": "gen_ai.assistant.message", "role": "assistant", "tool_calls": [call]},
        {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": "And so."},
        {"event.name": "gen_ai.tool.message", "role": "tool", "id": "c1", "name": "t", "content": {"n": 1}},
        {
            "event.name": "gen_ai.choice",
            "index": 0,
            "message": {"role": "assistant", "content": [{"kind": "thinking", "text": "Hm."}], "tool_calls": [call]},
        },
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": "Four."}},
    ]
    found = given({**CHAT, "events": events}, scope="pydantic-ai")
    assert [message["role"] for message in found.input] == ["system", "user", "assistant", "tool"]
    assert [(part["type"], part.get("uri"), part.get("content")) for part in found.input[1]["parts"]] == [
        ("text", None, "Look"),
        ("uri", "https://x/y.png", None),
        ("blob", None, "iVBORw=="),
    ]
    assert [part["type"] for part in found.input[2]["parts"]] == ["tool_call", "text"]
    assert [part["type"] for part in found.output[0]["parts"]] == ["reasoning", "tool_call", "text"]
    assert len(found.output) == 1


def test_later_versions_read_their_own_names_of_parts(given: Any) -> None:
    parts = [
        {"type": "image-url", "url": "https://x/y.png"},
        {"type": "binary", "media_type": "audio/wav", "content": "UklGRg=="},
        {"type": "document-url", "url": "https://x/y.pdf"},
        {"type": "tool_call_response", "id": "c1", "name": "t", "result": {"n": 1}},
    ]
    answer = [
        {"type": "thinking", "content": "Hm."},
        {"type": "tool_call", "id": "c2", "name": "t", "arguments": '{"a": 1}'},
    ]
    fact = given(
        {
            **CHAT,
            "gen_ai.input.messages": [{"role": "user", "parts": parts}],
            "gen_ai.output.messages": [{"role": "assistant", "parts": answer}],
        }
    ).fact
    assert [entry["part"]["type"] for entry in fact["raw"]["unsupported_parts"]] == ["uri", "blob", "uri"]
    assert fact["input_messages"][0]["parts"] == [{"type": "tool_call_response", "id": "c1", "result": {"n": 1}}]
    assert fact["output_messages"][0]["parts"][1]["arguments"] == {"a": 1}


def test_messages_that_are_empty_of_everything_are_no_content(given: Any) -> None:
    messages = [
        {"role": "user", "parts": [{"type": "text"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "t"}]},
    ]
    answer = [{"role": "assistant", "parts": [{"type": "text"}]}]
    span = {**CHAT, "gen_ai.input.messages": messages, "gen_ai.output.messages": answer}
    assert given(span).translation().reason == "no_content"
    span["gen_ai.output.messages"] = [{"role": "assistant", "parts": [{"type": "text", "content": "Four."}]}]
    assert given(span).fact["output_messages"][0]["parts"] == [{"type": "text", "content": "Four."}]
