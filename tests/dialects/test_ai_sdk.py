# SPDX-License-Identifier: Apache-2.0
"""The Vercel AI SDK: which spans are calls, and how prompt and answer of each version read."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.vocabulary import SpanRole

CALL = "ai.generateText.doGenerate"


@pytest.mark.parametrize(
    ("operation", "role"),
    [
        ("ai.generateText.doGenerate", SpanRole.CALL),
        ("ai.streamText.doStream", SpanRole.CALL),
        ("ai.generateObject.doGenerate", SpanRole.CALL),
        ("ai.streamObject.doStream", SpanRole.CALL),
        ("ai.generateText", SpanRole.AGENT),
        ("ai.streamObject", SpanRole.AGENT),
        ("ai.toolCall", SpanRole.TOOL),
        ("ai.embed.doEmbed", SpanRole.OTHER),
        ("ai.embedMany", SpanRole.OTHER),
        ("ai.rerank.doRerank", SpanRole.OTHER),
        (7, SpanRole.OTHER),
    ],
)
def test_the_operation_says_what_a_span_is(given: Any, operation: Any, role: SpanRole) -> None:
    found = given({"ai.operationId": operation, "ai.model.id": "m"}, name="x").detection
    assert (found.dialect, found.role) == ("ai_sdk", role)


def test_before_there_was_an_operation_the_name_says_it(given: Any) -> None:
    assert given({"ai.model.id": "m"}, name="ai.streamText.doStream my-fn").detection.role is SpanRole.CALL


@pytest.mark.parametrize("scope", ["ai", ""])
def test_version_7_is_known_by_its_scope_or_its_marks(given: Any, scope: str) -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "fake.chat"}
    marks = {} if scope else {"gen_ai.client.operation.duration": 0.25}
    found = given({**attributes, **marks}, scope=scope)
    assert (found.detection.dialect, found.detection.role) == ("ai_sdk", SpanRole.CALL)
    assert found.reading.fields["model_provider"] == "fake"


def test_a_step_and_its_agent_are_no_calls(given: Any) -> None:
    for operation, role in (("agent_step", SpanRole.OTHER), ("invoke_agent", SpanRole.AGENT)):
        assert given({"gen_ai.operation.name": operation}, scope="ai").detection.role is role


@pytest.mark.parametrize(
    ("key", "provider", "expected"),
    [
        ("gen_ai.system", "anthropic.messages", "anthropic"),
        ("gen_ai.system", "google.vertex.chat", "google"),
        ("ai.model.provider", "openai.responses", "openai"),
        ("gen_ai.provider.name", "aws.bedrock", "aws.bedrock"),
        ("gen_ai.provider.name", "groq", "groq"),
    ],
)
def test_a_provider_is_cut_at_its_first_dot_unless_the_conventions_name_it(
    given: Any, key: str, provider: str, expected: str
) -> None:
    assert given({"ai.operationId": CALL, key: provider}).reading.fields["model_provider"] == expected


PROMPTS: dict[str, tuple[list[Any], list[Any]]] = {
    "versions 5 and 6": (
        [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look"},
                    {"type": "file", "mediaType": "image/png", "data": "iVBORw=="},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "text": "a tool"},
                    {"type": "tool-call", "toolCallId": "c1", "toolName": "ls", "input": {"at": "/"}},
                ],
            },
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "c1",
                        "toolName": "ls",
                        "output": {"type": "json", "value": {"n": 1}},
                    }
                ],
            },
        ],
        [
            {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
            {
                "role": "user",
                "parts": [
                    {"type": "text", "content": "Look"},
                    {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "iVBORw=="},
                ],
            },
            {
                "role": "assistant",
                "parts": [
                    {"type": "reasoning", "content": "a tool"},
                    {"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"at": "/"}},
                ],
            },
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"n": 1}}]},
        ],
    ),
    "versions 3 and 4": (
        [
            {
                "role": "user",
                "content": [{"type": "image", "mimeType": "image/png", "image": {"0": 137, "1": 80, "2": 78, "3": 71}}],
            },
            {
                "role": "assistant",
                "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "ls", "args": {"at": "/"}}],
            },
            {
                "role": "tool",
                "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "ls", "result": {"type": "dir"}}],
            },
        ],
        [
            {
                "role": "user",
                "parts": [{"type": "blob", "modality": "image", "mime_type": "image/png", "content": "iVBORw=="}],
            },
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"at": "/"}}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"type": "dir"}}]},
        ],
    ),
}


@pytest.mark.parametrize("version", PROMPTS)
def test_a_prompt_reads_in_every_version(given: Any, version: str) -> None:
    prompt, expected = PROMPTS[version]
    assert given({"ai.operationId": CALL, "ai.prompt.messages": prompt}).input == expected


CALLS = [{"toolCallId": "c1", "toolName": "ls", "input": '{"at": "/"}'}]
ANSWERS: dict[str, tuple[dict[str, Any], list[Any] | None]] = {
    "reasoning, text and calls, in this order": (
        {"ai.response.toolCalls": CALLS, "ai.response.text": "I look.", "ai.response.reasoning": "Hm."},
        [
            {"type": "reasoning", "content": "Hm."},
            {"type": "text", "content": "I look."},
            {"type": "tool_call", "id": "c1", "name": "ls", "arguments": '{"at": "/"}'},
        ],
    ),
    "an empty text is no part": (
        {"ai.response.toolCalls": CALLS, "ai.response.text": ""},
        [{"type": "tool_call", "id": "c1", "name": "ls", "arguments": '{"at": "/"}'}],
    ),
    "the names of early versions": (
        {"ai.result.text": "Four.", "ai.result.toolCalls": [{"toolCallId": "c", "toolName": "f", "args": {}}]},
        [{"type": "text", "content": "Four."}, {"type": "tool_call", "id": "c", "name": "f", "arguments": {}}],
    ),
    "an object is the text that the model wrote": (
        {"ai.response.object": '{"n": 4}'},
        [{"type": "text", "content": '{"n": 4}'}],
    ),
    "files are blobs": (
        {"ai.response.files": [{"type": "file", "mediaType": "image/png", "data": "iVBORw=="}]},
        [{"type": "blob", "modality": "image", "mime_type": "image/png", "content": "iVBORw=="}],
    ),
    "nothing is no answer": ({"ai.response.text": ""}, None),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_is_one_message_of_its_parts(given: Any, case: str) -> None:
    attributes, parts = ANSWERS[case]
    expected = None if parts is None else [{"role": "assistant", "parts": parts}]
    assert given({"ai.operationId": CALL, **attributes}).output == expected


def test_arguments_in_raw_are_parsed_and_say_how_often(given: Any) -> None:
    raw = given({"ai.operationId": CALL, "ai.response.toolCalls": CALLS}).fact["raw"]
    assert raw["span"]["attributes"]["ai.response.toolCalls"][0]["input"] == {"at": "/"}
    assert sorted(raw["encoding"].values()) == [1, 1]


def test_cut_tool_calls_are_truncated_not_silently_gone(given: Any) -> None:
    found = given({"ai.operationId": CALL, "ai.response.toolCalls": '[{"toolCallId": "c1", "toolNa'})
    assert found.translation().reason == "truncated"


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"ai.usage.inputTokens": 3, "ai.usage.outputTokens": 2}, (3, 2)),
        ({"ai.usage.promptTokens": 3, "ai.usage.completionTokens": 2}, (3, 2)),
        ({"gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.completion_tokens": 2}, (3, 2)),
        ({}, (None, None)),
    ],
)
def test_usage_is_read_under_the_names_of_all_versions(given: Any, usage: dict[str, int], expected: Any) -> None:
    fact = given({"ai.operationId": CALL, "ai.response.text": "x", **usage}).fact
    assert (fact["input_tokens"], fact["output_tokens"]) == expected


def test_scalars_and_identity_come_from_its_own_keys(given: Any) -> None:
    fact = given(
        {
            "ai.operationId": CALL,
            "ai.response.text": "x",
            "ai.response.id": "r-1",
            "ai.response.model": "m-1",
            "ai.model.id": "m",
            "ai.response.finishReason": "stop",
            "ai.telemetry.metadata.sessionId": "chat-1",
            "ai.telemetry.metadata.userId": "u-1",
        }
    ).fact
    keys = ("model", "model_call_id", "session_id", "user_id")
    assert [fact[key] for key in keys] == ["m-1", "r-1", "chat-1", "u-1"]
    assert fact["output_messages"][0]["finish_reason"] == "stop"


def test_the_context_of_version_7_names_session_and_user(given: Any) -> None:
    context = {"ai.settings.context.sessionId": "chat-2", "ai.settings.context.userId": "u-2"}
    fact = given({"ai.operationId": CALL, "ai.response.text": "x", **context}).fact
    assert (fact["session_id"], fact["user_id"]) == ("chat-2", "u-2")


def test_a_result_that_version_7_leaves_wrapped_gives_its_value(given: Any) -> None:
    wrapped = {"type": "content", "value": [{"type": "text", "text": "18"}]}
    message = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": wrapped}]}
    found = given({"gen_ai.operation.name": "chat", "gen_ai.input.messages": [message]}, scope="ai")
    assert found.input[0]["parts"][0]["response"] == [{"type": "text", "text": "18"}]


def test_a_result_of_the_tool_itself_that_has_type_and_value_stays(given: Any) -> None:
    own = {"type": "celsius", "value": 18}
    part = {"type": "tool-result", "toolCallId": "c1", "toolName": "t", "result": own}
    found = given({"ai.operationId": CALL, "ai.prompt.messages": [{"role": "tool", "content": [part]}]})
    assert found.input[0]["parts"][0]["response"] == own
