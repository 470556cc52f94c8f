# SPDX-License-Identifier: Apache-2.0
"""Google ADK: spans with the whole request and response, nested spans of one call, blank roles, elided content."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.telemetry import LogRecord, SpanEvent
from sediment_otel.vocabulary import SpanRole

REQUEST: dict[str, Any] = {
    "model": "gemini-x",
    "config": {"system_instruction": "Be brief.", "tools": []},
    "contents": [
        {"parts": [{"text": "Weather?"}], "role": "user"},
        {"parts": [{"function_call": {"id": "fc-1", "name": "t", "args": {"city": "Paris"}}}], "role": "model"},
        {"parts": [{"function_response": {"id": "fc-1", "name": "t", "response": {"temp_c": 18}}}], "role": "user"},
    ],
}
RESPONSE: dict[str, Any] = {
    "model_version": "gemini-x-001",
    "content": {"parts": [{"text": "Hm.", "thought": True}, {"text": "18 °C."}], "role": "model"},
    "finish_reason": "STOP",
    "usage_metadata": {"prompt_token_count": 77, "candidates_token_count": 25},
}
CALL = {
    "gen_ai.system": "gcp.vertex.agent",
    "gen_ai.request.model": "gemini-x",
    "gcp.vertex.agent.session_id": "s-9",
    "gcp.vertex.agent.llm_request": REQUEST,
    "gcp.vertex.agent.llm_response": RESPONSE,
}


@pytest.mark.parametrize(
    ("name", "attributes", "role"),
    [
        ("call_llm", CALL, SpanRole.CALL),
        ("generate_content m", {"gen_ai.operation.name": "generate_content"}, SpanRole.CALL),
        (
            "execute_tool t",
            {"gen_ai.operation.name": "execute_tool", "gcp.vertex.agent.llm_request": "{}"},
            SpanRole.TOOL,
        ),
        ("agent_run [weather]", {}, SpanRole.AGENT),
        ("invocation", {}, SpanRole.AGENT),
        ("send_data", {"gcp.vertex.agent.event_id": "e"}, SpanRole.OTHER),
    ],
)
def test_operation_or_name_say_what_a_span_is(given: Any, name: str, attributes: Any, role: SpanRole) -> None:
    found = given(attributes, scope="gcp.vertex.agent", name=name).detection
    assert (found.dialect, found.role) == ("google_adk", role)


def test_request_and_response_are_read(given: Any) -> None:
    fact = given(CALL, name="call_llm").fact
    assert [message["role"] for message in fact["input_messages"]] == ["system", "user", "assistant", "user"]
    assert fact["input_messages"][2]["parts"] == [
        {"type": "tool_call", "id": "fc-1", "name": "t", "arguments": {"city": "Paris"}}
    ]
    assert fact["input_messages"][3]["parts"] == [
        {"type": "tool_call_response", "id": "fc-1", "result": {"temp_c": 18}}
    ]
    assert fact["output_messages"] == [
        {
            "role": "assistant",
            "parts": [{"type": "reasoning", "content": "Hm."}, {"type": "text", "content": "18 °C."}],
            "finish_reason": "STOP",
        }
    ]
    assert (fact["model"], fact["model_provider"], fact["session_id"]) == ("gemini-x-001", None, "s-9")
    assert (fact["input_tokens"], fact["output_tokens"]) == (77, 25)


def test_the_finish_reason_on_the_span_counts_before_the_one_inside(given: Any) -> None:
    fact = given({**CALL, "gen_ai.response.finish_reasons": ["stop"]}, name="call_llm").fact
    assert fact["output_messages"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("off", ["{}", "<not serializable>", ""])
def test_capture_that_was_off_is_no_content(given: Any, off: str) -> None:
    span = {**CALL, "gcp.vertex.agent.llm_request": off, "gcp.vertex.agent.llm_response": off}
    assert given(span, name="call_llm").translation().reason == "no_content"


def test_elided_events_are_no_content(given: Any) -> None:
    records = tuple(
        LogRecord(event_name=name, body=body)
        for name, body in (
            ("gen_ai.system.message", {"content": "<elided>"}),
            ("gen_ai.user.message", {"content": "<elided>"}),
            ("gen_ai.choice", {"content": "<elided>", "index": 0, "finish_reason": "STOP"}),
        )
    )
    found = given({"gen_ai.operation.name": "generate_content"}, scope="gcp.vertex.agent", records=records)
    assert found.translation().reason == "no_content"


def test_events_hold_gemini_contents(given: Any) -> None:
    records = (
        LogRecord(event_name="gen_ai.user.message", body={"content": REQUEST["contents"][0]}),
        LogRecord(event_name="gen_ai.user.message", body={"content": REQUEST["contents"][1]}),
        LogRecord(
            event_name="gen_ai.choice", body={"content": RESPONSE["content"], "index": 0, "finish_reason": "STOP"}
        ),
    )
    found = given({"gen_ai.operation.name": "generate_content"}, scope="gcp.vertex.agent", records=records)
    assert [message["role"] for message in found.input] == ["user", "assistant"]
    assert [part["type"] for part in found.output[0]["parts"]] == ["reasoning", "text"]


def test_a_blank_role_is_the_models_in_an_answer_and_the_users_before_it(given: Any) -> None:
    blank = {"role": "", "parts": [{"type": "text", "content": "x"}]}
    call = {"role": "", "parts": [{"type": "tool_call", "id": "c", "name": "t", "arguments": {}}]}
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": [blank, call],
        "gen_ai.output.messages": [blank],
    }
    found = given(attributes, scope="gcp.vertex.agent")
    assert [message["role"] for message in found.input] == ["user", "assistant"]
    assert found.output[0]["role"] == "assistant"


def test_media_of_the_newest_form_are_a_blob_and_a_uri(given: Any) -> None:
    parts = [
        {"mime_type": "image/png", "data": "iVBORw==", "type": "blob"},
        {"mime_type": "application/pdf", "uri": "gs://x/y", "type": "file_data"},
    ]
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": [{"role": "user", "parts": parts}]}
    assert given(attributes, scope="gcp.vertex.agent").input[0]["parts"] == [
        {"mime_type": "image/png", "content": "iVBORw==", "type": "blob"},
        {"type": "uri", "modality": "document", "mime_type": "application/pdf", "uri": "gs://x/y"},
    ]


def test_events_on_the_span_read_like_records(given: Any) -> None:
    events = (SpanEvent(name="gen_ai.choice", attributes={"message": '[{"text": "x"}]', "finish_reason": "stop"}),)
    found = given({"gen_ai.operation.name": "chat"}, scope="gcp.vertex.agent", events=events)
    assert found.output[0]["parts"] == [{"type": "text", "content": "x"}]
