# SPDX-License-Identifier: Apache-2.0
"""OpenLLMetry: which spans are calls in its generations, and how numbered prompts and completions read."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sediment_otel.dialects.openllmetry import blocks_of
from sediment_otel.dialects.reading import Unreadable
from sediment_otel.telemetry import LogRecord
from sediment_otel.vocabulary import SkipReason, SpanRole

CHAT = {"llm.request.type": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m"}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def prompt(index: int, **fields: Any) -> dict[str, Any]:
    """Attributes of one prompt; double underscores stand for dots."""
    return {f"gen_ai.prompt.{index}.{key.replace('__', '.')}": value for key, value in fields.items()}


def completion(index: int, **fields: Any) -> dict[str, Any]:
    return {f"gen_ai.completion.{index}.{key.replace('__', '.')}": value for key, value in fields.items()}


QUESTION = prompt(0, role="user", content="hello")
ANSWER = completion(0, role="assistant", content="hi", finish_reason="stop")


@pytest.mark.parametrize(
    ("attributes", "role"),
    [
        ({"llm.request.type": "chat"}, SpanRole.CALL),
        ({"llm.request.type": "completion"}, SpanRole.CALL),
        ({"llm.request.type": "response", "gen_ai.operation.name": "response"}, SpanRole.CALL),
        ({"llm.request.type": "embedding", **QUESTION}, SpanRole.OTHER),
        ({"llm.request.type": "rerank"}, SpanRole.OTHER),
        ({"llm.request.type": "unknown", **ANSWER}, SpanRole.CALL),
        (QUESTION, SpanRole.CALL),
        (prompt(1, role="user", content="x"), SpanRole.CALL),
        (completion(0, tool_calls__0__name="f"), SpanRole.CALL),
        ({"traceloop.span.kind": "workflow"}, SpanRole.AGENT),
        ({"traceloop.span.kind": "agent"}, SpanRole.AGENT),
        ({"traceloop.span.kind": "tool", "traceloop.entity.input": "{}"}, SpanRole.TOOL),
        ({"traceloop.span.kind": "task"}, SpanRole.OTHER),
        ({"gen_ai.operation.name": "chat", "gen_ai.is_streaming": False}, SpanRole.CALL),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.is_streaming": False}, None),
        ({"gen_ai.operation.name": "chat", "traceloop.span.kind": "task", "llm.request.type": "chat"}, SpanRole.CALL),
        ({"llm.usage.total_tokens": 5, "gen_ai.response.id": "resp_1"}, SpanRole.CALL),
        ({"llm.request.type": 5}, None),
        ({"gen_ai.operation.name": "chat"}, None),
    ],
)
def test_what_a_span_is(given: Any, attributes: dict[str, Any], role: SpanRole | None) -> None:
    detection = given(attributes).detection
    if role is None:
        assert detection.dialect != "openllmetry"
    else:
        assert (detection.dialect, detection.role) == ("openllmetry", role)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"role": "user", "content": "x"}, {"role": "user", "parts": [text("x")]}),
        ({"user": "x"}, {"role": "user", "parts": [text("x")]}),
        ({"role": "user"}, {"role": "user", "parts": []}),
        ({"role": "human", "content": "x"}, {"role": "user", "parts": [text("x")]}),
        (
            {
                "role": "user",
                "content": '[{"type": "text", "text": "a"}, {"type": "image_url", "image_url": "https://x/y.png"}]',
            },
            {"role": "user", "parts": [text("a"), {"type": "uri", "modality": "image", "uri": "https://x/y.png"}]},
        ),
        (  # Bedrock's blocks have no type
            {"role": "user", "content": '[{"text": "a"}]'},
            {"role": "user", "parts": [text("a")]},
        ),
        (  # Anthropic's results stand in the content of the user
            {"role": "user", "content": '[{"type": "tool_result", "tool_use_id": "c1", "content": "18"}]'},
            {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "response": "18"}]},
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": '[{"type": "text", "text": "18"}]'},
            {
                "role": "tool",
                "parts": [{"type": "tool_call_response", "id": "c1", "response": '[{"type": "text", "text": "18"}]'}],
            },
        ),
        (
            {
                "role": "assistant",
                "content": "x",
                "tool_calls__0__id": "c1",
                "tool_calls__0__name": "f",
                "tool_calls__0__arguments": "{}",
            },
            {
                "role": "assistant",
                "parts": [text("x"), {"type": "tool_call", "id": "c1", "name": "f", "arguments": "{}"}],
            },
        ),
        (
            {"role": "assistant", "tool_calls__0__id": "c1", "tool_calls__0__function__name": "f"},
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "f"}]},
        ),
        (  # LangChain says its empty content as JSON, and its calls again in the content
            {"role": "assistant", "content": '""', "tool_calls__0__id": "c1", "tool_calls__0__name": "f"},
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "f"}]},
        ),
        (
            {
                "role": "assistant",
                "content": '[{"type": "text", "text": "a"}, {"type": "tool_use", "id": "c1", "name": "f"}]',
                "tool_calls__0__id": "c1",
                "tool_calls__0__name": "f",
            },
            {
                "role": "assistant",
                "parts": [text("a"), {"type": "tool_call", "id": "c1", "name": "f"}],
            },
        ),
        (
            {"role": "assistant", "refusal": "no"},
            {"role": "assistant", "parts": [{"type": "refusal", "refusal": "no"}]},
        ),
        (
            {"role": "assistant", "content": "x", "reasoning": '[{"text": "hm", "type": "summary_text"}]'},
            {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, text("x")]},
        ),
    ],
)
def test_a_numbered_prompt_is_put_together(given: Any, fields: dict[str, Any], message: dict[str, Any]) -> None:
    assert given({**CHAT, **prompt(0, **fields), **ANSWER}).input == [message]


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        ("plain", False),
        ('[{"type": "text", "text": "a"}]', True),
        ('[{"type": "thinking", "thinking": "a"}]', True),
        ('[{"a": 1}]', False),
        ('[{"type": "order", "text": "a"}]', False),
        ('[{"type": "text", "text": "a"}, 5]', False),
        ("[]", False),
        ('["a"]', False),
        ('[{"type": 5}]', False),
        ('[{"type": "text"} and so on', False),
    ],
)
def test_a_text_is_a_list_of_blocks_only_if_all_its_items_are(content: str, blocks: bool) -> None:
    assert (blocks_of(content) is not None) is blocks


@pytest.mark.parametrize(
    "content", ['[{"type": "text", "text": "it is cut', '[{"type": "text", "text": "a"}, {"type"', '[{"type": "text"']
)
def test_a_list_of_blocks_that_is_cut_short_is_truncated(given: Any, content: str) -> None:
    with pytest.raises(Unreadable):
        blocks_of(content)
    translation = given({**CHAT, **prompt(0, role="user", content=content), **ANSWER}).translation()
    assert translation.reason is SkipReason.TRUNCATED


def test_thinking_of_its_own_number_is_part_of_the_answer(given: Any) -> None:
    found = given(
        {
            **CHAT,
            **completion(0, role="thinking", content="hm", finish_reason="tool_use"),
            **completion(1, role="assistant", content="x", tool_calls__0__id="c1", tool_calls__0__name="f"),
        }
    ).fact["output_messages"]
    assert [part["type"] for part in found[0]["parts"]] == ["reasoning", "text", "tool_call"]
    assert (len(found), found[0]["finish_reason"]) == (1, "tool_use")


def test_choices_stay_apart(given: Any) -> None:
    found = given({**CHAT, **ANSWER, **completion(1, role="assistant", content="ho")})
    assert len(found.output) == 2
    assert len(given({**CHAT, **completion(0, content="a"), **completion(1, content="b")}).output) == 2


def test_blocks_of_bedrock_without_a_role_join_the_answer(given: Any) -> None:
    found = given({**CHAT, **completion(0, role="assistant", content="a"), **completion(1, content="b")})
    assert found.output == [{"role": "assistant", "parts": [text("a"), text("b")]}]


@pytest.mark.parametrize("told_by", [{"attributes": {"llm.request.type": "response"}}, {"name": "openai.response"}])
def test_the_items_of_responses_are_one_answer(given: Any, told_by: dict[str, Any]) -> None:
    attributes = {
        **told_by.get("attributes", {}),
        **QUESTION,
        **completion(0, role="assistant", content="a"),
        **completion(1, role="assistant", tool_calls__0__id="c1", tool_calls__0__name="f"),
    }
    assert len(given(attributes, name=told_by.get("name", "x")).output) == 1


def test_the_items_of_an_earlier_answer_are_one_message_since_the_current_conventions_too(given: Any) -> None:
    calls = [{"role": "assistant", "parts": [{"type": "tool_call", "id": f"c{i}", "name": "f"}]} for i in range(2)]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.is_streaming": False,
        "gen_ai.input.messages": [{"role": "user", "parts": [text("q")]}, *calls],
    }
    assert [len(m["parts"]) for m in given(attributes, name="openai.response").input] == [1, 2]
    assert [len(m["parts"]) for m in given(attributes, name="openai.chat").input] == [1, 1, 1]


def test_a_summary_inside_a_reasoning_part_becomes_text(given: Any) -> None:
    summary = json.dumps([{"text": "hm", "type": "summary_text"}])
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.is_streaming": False,
        "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "reasoning", "content": summary}]}],
    }
    assert given(attributes, name="openai.response").output[0]["parts"] == [{"type": "reasoning", "content": "hm"}]
    assert given(attributes, name="openai.chat").output[0]["parts"] == [{"type": "reasoning", "content": summary}]


def test_names_of_the_first_versions_are_read(given: Any) -> None:
    fact = given(
        {
            "llm.request.type": "chat",
            "llm.vendor": "OpenAI",
            "llm.request.model": "m",
            "llm.response.model": "m-2",
            "llm.usage.prompt_tokens": 3,
            "llm.usage.completion_tokens": 4,
            "llm.prompts.0.role": "user",
            "llm.prompts.0.content": "hello",
            "llm.completions.0.content": "hi",
        }
    ).fact
    assert tuple(fact[key] for key in ("model_provider", "model", "input_tokens", "output_tokens")) == (
        "OpenAI",
        "m-2",
        3,
        4,
    )
    assert fact["output_messages"][0]["role"] == "assistant"


@pytest.mark.parametrize("key", ["gen_ai.user", "llm.user", "traceloop.association.properties.user_id"])
def test_the_user_stands_under_keys_of_its_own(given: Any, key: str) -> None:
    assert given({**CHAT, **QUESTION, **ANSWER, key: "dev-7"}).fact["user_id"] == "dev-7"
    assert given({**CHAT, **QUESTION, **ANSWER, key: "None"}).fact["user_id"] is None


def test_input_and_output_of_a_function_are_no_messages(given: Any) -> None:
    translation = given(
        {**CHAT, "traceloop.entity.input": '{"args": ["x"]}', "traceloop.entity.output": '"y"'}
    ).translation()
    assert translation.reason is SkipReason.NO_CONTENT


@pytest.mark.parametrize(
    ("indices", "dropped", "reason"),
    [
        ((0, 1), 0, None),
        ((0, 1), 9, None),
        ((0, 2), 0, SkipReason.TRUNCATED),
        ((2, 3), 4, SkipReason.TRUNCATED),
        ((2, 3), 0, None),
        ((), 4, SkipReason.TRUNCATED),
    ],
)
def test_messages_lost_to_an_attribute_limit_make_a_call_truncated(
    given: Any, indices: tuple[int, ...], dropped: int, reason: SkipReason | None
) -> None:
    attributes = {**CHAT, **ANSWER}
    for index in indices:
        attributes.update(prompt(index, role="user", content="q"))
    assert given(attributes, dropped_attributes=dropped).translation().reason is reason


def test_a_record_whose_body_is_an_object_belongs_to_the_call(given: Any) -> None:
    record = LogRecord(event_name="gen_ai.choice", body={"index": 0, "message": {"content": "hi"}}, time_ns=1)
    fact = given({**CHAT, **QUESTION}, records=(record,)).fact
    assert fact["output_messages"][0]["parts"] == [text("hi")]
    assert fact["raw"]["log_records"][0]["body"] == {"index": 0, "message": {"content": "hi"}}


def test_tool_definitions_are_not_read(given: Any) -> None:
    attributes = {**CHAT, **QUESTION, **ANSWER, "llm.request.functions.0.parameters": '{"type": "obj'}
    assert given(attributes).translation().reason is None


HOSTILE: list[Any] = [
    None, 5, -1, 1.5, float("nan"), True, [], ["x"], {}, {"a": []}, b"\x00\xff", "", "\ud800", "[", '{"a":',
    '[{"type":',
]  # fmt: skip
KEYS = [
    "llm.request.type",
    "traceloop.span.kind",
    "gen_ai.operation.name",
    "gen_ai.prompt.0",
    "gen_ai.prompt.x.role",
    "gen_ai.prompt.1000000000.role",
    "gen_ai.prompt.0.role",
    "gen_ai.prompt.0.content",
    "gen_ai.prompt.0.user",
    "gen_ai.prompt.0.tool_calls",
    "gen_ai.prompt.0.tool_calls.0",
    "gen_ai.prompt.0.tool_calls.0.id",
    "gen_ai.prompt.0.tool_calls.0.arguments",
    "gen_ai.prompt.0.tool_call_id",
    "gen_ai.completion.0.role",
    "gen_ai.completion.0.content",
    "gen_ai.completion.0.reasoning",
    "gen_ai.completion.0.refusal",
    "gen_ai.completion.0.finish_reason",
    "gen_ai.completion.0.function_call.arguments",
    "gen_ai.completion.role",
    "gen_ai.usage.prompt_tokens",
]


@pytest.mark.parametrize("key", KEYS)
def test_hostile_values_never_raise(given: Any, key: str) -> None:
    for value in HOSTILE:
        given({**CHAT, **QUESTION, **ANSWER, key: value}, structured=True).translation(salvage=True)
        given({key: value}, structured=True).translation(salvage=True)


def test_a_span_in_any_order_of_attributes_gives_the_same_bytes(given: Any) -> None:
    attributes = {
        **CHAT,
        **prompt(0, role="system", content="s"),
        **prompt(1, role="user", content="q"),
        **prompt(10, role="x", content="y"),
        **{f"gen_ai.prompt.{index}.role": "user" for index in range(2, 10)},
        **completion(0, role="thinking", content="hm"),
        **completion(1, role="assistant", content="x", tool_calls__0__id="c1", tool_calls__1__id="c2"),
        "session.id": "s",
    }
    whole = given(attributes).translation().encoded
    assert whole is not None
    for _ in range(10):
        pairs = list(attributes.items())
        random.shuffle(pairs)
        assert given(dict(pairs)).translation().encoded == whole
