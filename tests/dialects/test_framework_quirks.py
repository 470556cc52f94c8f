# SPDX-License-Identifier: Apache-2.0
"""Dialects that write the conventions with quirks: Strands, Semantic Kernel, Agent Framework, Copilot, Anthropic."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.telemetry import LogRecord, SpanEvent
from sediment_otel.vocabulary import SpanRole

HELLO = [{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]
FOUR = [{"role": "assistant", "parts": [{"type": "text", "content": "Four."}], "finish_reason": "stop"}]
CHAT: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.input.messages": HELLO,
    "gen_ai.output.messages": FOUR,
}


@pytest.mark.parametrize(
    ("dialect", "where", "operation", "role"),
    [
        ("strands", {"scope": "strands.telemetry.tracer"}, "chat", SpanRole.CALL),
        ("strands", {"scope": "strands.telemetry.tracer"}, "execute_event_loop_cycle", SpanRole.OTHER),
        ("strands", {"scope": "strands.telemetry.tracer"}, "invoke_agent", SpanRole.AGENT),
        ("semantic_kernel", {"scope": "semantic_kernel.utils.telemetry"}, "chat", SpanRole.CALL),
        ("semantic_kernel", {}, "text_completions", SpanRole.CALL),
        ("semantic_kernel", {}, "chat.completions", SpanRole.CALL),
        ("agent_framework", {"scope": "agent_framework"}, "chat", SpanRole.CALL),
        ("agent_framework", {"scope": "agent_framework"}, "execute_tool", SpanRole.TOOL),
        ("copilot", {"resource": {"service.name": "copilot-chat"}}, "chat", SpanRole.CALL),
        ("copilot", {"resource": {"service.name": "github-copilot"}}, "execute_hook", SpanRole.OTHER),
        ("anthropic_sdk", {"scope": "com.anthropic.sdk.python"}, "chat", SpanRole.CALL),
        ("gen_ai", {"scope": "another"}, "chat", SpanRole.CALL),
    ],
)
def test_scope_and_operation_say_what_a_span_is(
    given: Any, dialect: str, where: dict[str, Any], operation: str, role: SpanRole
) -> None:
    found = given({"gen_ai.operation.name": operation}, **where).detection
    assert (found.dialect, found.role) == (dialect, role)


@pytest.mark.parametrize("attributes", [{}, {"gen_ai.operation.name": 7}])
@pytest.mark.parametrize("scope", ["strands.telemetry.tracer", "agent_framework", "com.anthropic.sdk.python"])
def test_a_scope_alone_makes_no_call(given: Any, scope: str, attributes: dict[str, Any]) -> None:
    assert given(attributes, scope=scope).detection.role is SpanRole.OTHER


def test_the_framework_of_strands_is_no_provider(given: Any) -> None:
    fact = given({**CHAT, "gen_ai.provider.name": "strands-agents"}).fact
    assert (fact["model_provider"], fact["raw"]["dialect"]) == (None, "strands")


def test_blocks_of_bedrock_in_span_events_are_parts(given: Any) -> None:
    events = tuple(
        SpanEvent(name=name, attributes=attributes)
        for name, attributes in (
            ("gen_ai.system.message", {"content": '[{"text": "Be brief."}]'}),
            (
                "gen_ai.user.message",
                {"content": '[{"text": "Look"}, {"image": {"format": "png", "source": {"bytes": "iVBORw=="}}}]'},
            ),
            (
                "gen_ai.tool.message",
                {"content": '[{"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": "18"}]}}]'},
            ),
            (
                "gen_ai.choice",
                {
                    "finish_reason": "tool_use",
                    "message": '[{"reasoningContent": {"reasoningText": {"text": "Hm."}}},'
                    ' {"citationsContent": {"content": [{"text": "It "}, {"text": "is."}], "citations": []}},'
                    ' {"toolUse": {"toolUseId": "c2", "name": "t", "input": {"a": 1}}}]',
                },
            ),
        )
    )
    found = given({"gen_ai.operation.name": "chat", "gen_ai.system": "strands-agents"}, events=events)
    assert [part["type"] for message in found.input for part in message["parts"]] == [
        "text",
        "text",
        "blob",
        "tool_call_response",
    ]
    assert [(part["type"], part.get("content")) for part in found.output[0]["parts"]] == [
        ("reasoning", "Hm."),
        ("text", "It is."),
        ("tool_call", None),
    ]
    assert found.output[0]["finish_reason"] == "tool_use"


def test_media_of_strands_newest_form_are_blobs(given: Any) -> None:
    part = {"type": "image", "content": {"format": "png", "source": {"bytes": "<replaced>"}}}
    found = given({**CHAT, "gen_ai.input.messages": [{"role": "user", "parts": [part]}]}).input
    assert found[0]["parts"] == [
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "<replaced>"}
    ]


def test_records_of_semantic_kernel_are_json_text(given: Any) -> None:
    records = (
        LogRecord(event_name="gen_ai.user.message", body='{"role": "user", "content": "hello"}'),
        LogRecord(
            event_name="gen_ai.tool.message",
            body='{"role": "tool", "tool_call_id": "c1", "content": [{"tool_call_id": "c1", "content": "18"},'
            ' {"tool_call_id": "c2", "content": "19"}]}',
        ),
        LogRecord(
            event_name="gen_ai.choice",
            body='{"message": {"role": "assistant", "tool_calls": [{"id": "c3", "type": "function",'
            ' "function": {"name": "t", "arguments": "{}"}}]}, "finish_reason": "tool_calls", "index": 0}',
        ),
    )
    span = {"gen_ai.operation.name": "chat.completions", "gen_ai.response.finish_reason": "FinishReason.TOOL_CALLS"}
    fact = given(span, records=records).fact
    assert [part["id"] for part in fact["input_messages"][1]["parts"]] == ["c1", "c2"]
    assert fact["output_messages"][0]["finish_reason"] == "tool_calls"


def test_the_prompt_of_a_text_completion_is_a_record(given: Any) -> None:
    records = (
        LogRecord(event_name="gen_ai.prompt", body="hello"),
        LogRecord(event_name="gen_ai.choice", body='{"message": {"type": "text", "text": "Four."}}'),
    )
    found = given({"gen_ai.operation.name": "text_completions"}, records=records)
    assert (found.input, found.output[0]["parts"]) == (HELLO, FOUR[0]["parts"])


def test_finish_reasons_of_agent_framework_are_json_text(given: Any) -> None:
    span = {**CHAT, "gen_ai.output.messages": [{**FOUR[0], "finish_reason": None}]}
    fact = given({**span, "gen_ai.response.finish_reasons": '["tool_calls"]'}, scope="agent_framework").fact
    assert fact["output_messages"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(("conversation", "partial"), [("resp_1", True), ("conv-1", False), ("thread_1", False)])
def test_a_response_in_place_of_a_conversation_is_one_that_the_call_continues(
    given: Any, conversation: str, partial: bool
) -> None:
    found = given({**CHAT, "gen_ai.conversation.id": conversation}, scope="agent_framework")
    assert ("partial_history" in [loss.code for loss in found.translation().losses]) is partial
    assert found.fact["session_id"] == conversation


@pytest.mark.parametrize(
    ("attributes", "session"),
    [
        ({"copilot_chat.chat_session_id": "chat-77", "copilot_chat.session_id": "other"}, "chat-77"),
        ({"copilot_chat.session_id": "chat-78"}, "chat-78"),
        ({"copilot_chat.chat_session_id": " "}, "turn-1"),
        ({"copilot_chat.chat_session_id": "chat-77", "session.id": "own"}, "own"),
        ({}, "turn-1"),
    ],
)
def test_the_session_of_a_chat_outranks_turn_and_window(given: Any, attributes: dict[str, str], session: str) -> None:
    span = {**CHAT, "gen_ai.conversation.id": "turn-1", **attributes}
    fact = given(span, resource={"service.name": "copilot-chat", "session.id": "window"}).fact
    assert fact["session_id"] == session


def test_a_span_of_the_anthropic_sdk_alone_has_no_content(given: Any) -> None:
    span = {"gen_ai.operation.name": "chat", "gen_ai.response.id": "msg_1", "gen_ai.usage.input_tokens": 3}
    assert given(span, scope="com.anthropic.sdk.python").translation().reason == "no_content"
