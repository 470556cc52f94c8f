# SPDX-License-Identifier: Apache-2.0
"""GitHub Copilot and OpenCode: whose session counts, reasoning apart, plain instructions, cuts. Synthetic spans."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.vocabulary import SkipReason, SpanRole

ASKED = [
    {"role": "user", "parts": [{"type": "text", "content": "Fix it."}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "call_1", "name": "read", "arguments": '{"p": 1}'}]},
    {"role": "tool", "parts": [{"type": "text", "content": "x = 1"}]},
]
ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "Done."}], "finish_reason": "stop"}]
CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "github",
    "gen_ai.request.model": "gpt-x",
    "gen_ai.conversation.id": "turn-1",
    "gen_ai.system_instructions": "You are an expert.",
    "gen_ai.input.messages": ASKED,
    "gen_ai.output.messages": ANSWER,
}
CHAT = {"service.name": "copilot-chat", "session.id": "window-1"}


@pytest.mark.parametrize(
    ("more", "session"),
    [
        ({"copilot_chat.chat_session_id": "chat-1"}, "chat-1"),
        ({"copilot_chat.session_id": "chat-2"}, "chat-2"),
        ({"copilot_chat.chat_session_id": "chat-1", "session.id": "own"}, "own"),
        ({}, "turn-1"),
    ],
)
def test_the_chats_session_outranks_the_turn_and_the_window(given: Any, more: dict[str, Any], session: str) -> None:
    assert given({**CALL, **more}, resource=CHAT).fact["session_id"] == session


def test_a_chat_call_is_read_and_copilot_is_no_model_service(given: Any) -> None:
    fact = given(CALL, resource=CHAT).fact
    assert [message["role"] for message in fact["input_messages"]] == ["system", "user", "assistant", "tool"]
    assert fact["input_messages"][0]["parts"] == [{"type": "text", "content": "You are an expert."}]
    assert fact["input_messages"][2]["parts"][0]["arguments"] == {"p": 1}
    assert fact["model_provider"] is None


def test_reasoning_beside_the_answer_stands_in_front_of_it_once(given: Any) -> None:
    reasoned = {**CALL, "copilot_chat.reasoning_content": "Hm."}
    part = {"type": "reasoning", "content": "Hm."}
    assert given(reasoned, resource=CHAT).fact["output_messages"][0]["parts"][0] == part
    held = [{"role": "assistant", "parts": [part, *ANSWER[0]["parts"]]}]
    found = given({**reasoned, "gen_ai.output.messages": held}, resource=CHAT).fact
    assert found["output_messages"][0]["parts"].count(part) == 1


@pytest.mark.parametrize("key", ["gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"])
def test_a_text_cut_at_the_end_is_truncated(given: Any, key: str) -> None:
    text = "Long" if key.startswith("gen_ai.system") else '[{"role": "user", "parts": [{"type": "text", "content": "Lo'
    call = given({**CALL, key: f"{text}...[truncated, original 70000 chars]"}, resource=CHAT)
    assert call.translation().reason is SkipReason.TRUNCATED


def test_the_command_line_is_known_by_its_service(given: Any) -> None:
    call = given({**CALL, "enduser.pseudo.id": "u-7"}, resource={"service.name": "github-copilot"})
    assert (call.detection.dialect, call.fact["session_id"], call.fact["user_id"]) == ("copilot", "turn-1", "u-7")


@pytest.mark.parametrize(
    ("scope", "service", "more", "partial"),
    [
        ("github.copilot", "renamed", {}, True),
        ("renamed", "github-copilot", {}, True),
        ("github.copilot", "github-copilot", {"copilot_chat.chat_session_id": "chat-1"}, False),
        ("copilot-chat", "copilot-chat", {}, False),
    ],
)
def test_the_command_line_tells_only_what_is_new_and_chat_tells_all(
    given: Any, scope: str, service: str, more: dict[str, Any], partial: bool
) -> None:
    call = given({**CALL, **more}, scope=scope, resource={"service.name": service})
    assert call.detection.dialect == "copilot"
    losses = [loss["code"] for loss in call.fact["raw"].get("losses", ())]
    assert ("partial_history" in losses) is partial


@pytest.mark.parametrize("value", [3, None, "", [], b"\xff", '{"a'])
def test_odd_values_cost_at_most_the_call(given: Any, value: Any) -> None:
    for key in ("copilot_chat.reasoning_content", "copilot_chat.chat_session_id", "gen_ai.system_instructions"):
        given({**CALL, key: value}, resource=CHAT, structured=True).translation()


# -- OpenCode ------------------------------------------------------------------------------------------------


def test_opencode_itself_speaks_the_ai_sdk(given: Any) -> None:
    call = given(
        {
            "ai.operationId": "ai.streamText.doStream",
            "ai.telemetry.functionId": "session.llm",
            "ai.telemetry.metadata.sessionId": "ses_1",
            "ai.telemetry.metadata.userId": "dev",
            "ai.model.provider": "anthropic.messages",
            "ai.model.id": "claude-x",
            "ai.prompt.messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
            "ai.response.text": "Hello",
        },
        scope="ai",
    )
    fact = call.fact
    assert (call.detection.dialect, fact["session_id"], fact["user_id"]) == ("ai_sdk", "ses_1", "dev")
    assert fact["model_provider"] == "anthropic"


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("gen_ai.chat", SpanRole.CALL),
        ("opencode.session", SpanRole.AGENT),
        ("opencode.tool.bash", SpanRole.TOOL),
        ("opencode.other", SpanRole.OTHER),
    ],
)
def test_the_plugins_spans_are_known_by_name(given: Any, name: str, role: SpanRole) -> None:
    assert given({"gen_ai.system": "anthropic"}, name=name).detection.role is role


def test_a_plugins_call_has_no_content(given: Any) -> None:
    call = given({"gen_ai.system": "anthropic", "session.id": "ses_1"}, name="gen_ai.chat")
    assert call.translation().reason is SkipReason.NO_CONTENT
