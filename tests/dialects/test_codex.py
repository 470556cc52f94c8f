# SPDX-License-Identifier: Apache-2.0
"""Codex CLI: calls put together from log events, partial and marked so. All records are synthetic."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from agent_records import calls, facts, record, translations

from sediment_otel.telemetry import LogRecord
from sediment_otel.vocabulary import SkipReason, SpanRole


def event(name: str, at: float, attributes: dict[str, Any] | None = None, conversation: str = "c-1") -> LogRecord:
    common = {"conversation.id": conversation, "model": "gpt-x", "event.timestamp": f"t{at}", "user.email": "a@b.c"}
    return record(f"codex.{name}", {**common, **(attributes or {})}, at=at, service="codex_cli_rs")


def prompt(at: float, text: str = "Fix it.") -> LogRecord:
    return event("user_prompt", at, {"prompt": text, "prompt_length": "7"})


def request(at: float) -> LogRecord:
    return event("api_request", at, {"attempt": "0", "duration_ms": "100"})


def completed(at: float, given: str = "120", answered: str = "7") -> LogRecord:
    counts = {"input_token_count": given, "output_token_count": answered, "cached_token_count": "64"}
    return event("sse_event", at, {"event.kind": "response.completed", **counts})


def result(at: float, call: str = "call_1", output: str = "x = 1") -> LogRecord:
    about = {"tool_name": "shell", "call_id": call, "arguments": '{"command": ["ls"]}', "output": output}
    return event("tool_result", at, {**about, "success": "true", "duration_ms": "5"})


def answer(at: float, text: str = "Done.", **more: Any) -> LogRecord:
    return event("agent_response", at, {"response": text, **more})


TURN = [
    event("conversation_starts", 0, {"provider_name": "OpenAI"}),
    prompt(1),
    request(2),
    completed(3),
    event("sse_event", 3.1, {"event.kind": "response.completed", "ttft_ms": "12"}),
    result(4),
    request(5),
    answer(5.5),
    completed(6, "150", "9"),
]


def test_each_completed_response_with_counts_is_one_partial_call() -> None:
    first, second = facts(TURN)
    assert first["input_messages"] == [
        {"role": "user", "parts": [{"type": "text", "content": "Fix it."}], "finish_reason": None}
    ]
    assert first["output_messages"] == [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "call_1", "name": "shell", "arguments": {"command": ["ls"]}}],
            "finish_reason": None,
        }
    ]
    assert second["input_messages"] == [
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "call_1", "result": "x = 1"}],
            "finish_reason": None,
        }
    ]
    assert second["output_messages"][0]["parts"] == [{"type": "text", "content": "Done."}]
    for fact in (first, second):
        assert "partial_history" in [loss["code"] for loss in fact["raw"]["losses"]]
        assert (fact["model"], fact["model_provider"], fact["session_id"]) == ("gpt-x", "OpenAI", "c-1")
        assert (fact["model_call_id"], fact["duration_ms"], fact["user_id"]) == (None, None, None)
        assert "a@b.c" not in json.dumps(fact)
    assert [(f["input_tokens"], f["output_tokens"]) for f in (first, second)] == [(120, 7), (150, 9)]


def test_a_tool_that_is_done_before_the_answer_ends_was_called_by_that_answer() -> None:
    first, second = facts([prompt(1), request(2), result(2.5), completed(3), request(4), answer(4.5), completed(5)])
    assert first["output_messages"][0]["parts"][0]["type"] == "tool_call"
    assert [message["role"] for message in second["input_messages"]] == ["tool"]


def test_without_request_events_the_streams_begin_is_the_border() -> None:
    begun = event("websocket_event", 2, {"event.kind": "response.created"})
    (fact,) = facts([prompt(1), begun, answer(2.5), event("websocket_event", 3, dict(completed(3).attributes))])
    assert [len(fact["input_messages"]), len(fact["output_messages"])] == [1, 1]


def test_with_nothing_but_ends_results_go_to_the_answer_before_them() -> None:
    first, second = facts([prompt(1), completed(3), result(4), completed(5), answer(5.1)])
    assert first["output_messages"][0]["parts"][0]["id"] == "call_1"
    assert second["input_messages"][0]["parts"][0]["id"] == "call_1"
    assert second["output_messages"][0]["parts"] == [{"type": "text", "content": "Done."}]


def test_the_name_of_an_event_may_stand_in_its_attribute_alone() -> None:
    """As codex-cli writes it: the field holds a place in its source."""
    found = [
        msgspec.structs.replace(
            item,
            event_name="event otel/src/events.rs:1",
            attributes={**item.attributes, "event.name": item.event_name},
        )
        for item in TURN
    ]
    assert len(facts(found)) == 2


def test_conversations_are_kept_apart() -> None:
    other = [event("user_prompt", 1, {"prompt": "Other"}, "c-2"), event("sse_event", 4, dict(completed(3).attributes))]
    other[1].attributes["conversation.id"] = "c-2"
    found = facts([*TURN, *other])
    assert [fact["session_id"] for fact in found] == ["c-1", "c-1", "c-2"]
    assert found[2]["input_messages"][0]["parts"][0]["content"] == "Other"


def test_a_call_is_known_by_its_conversation_and_the_time_of_its_end() -> None:
    assert [call.capture_key for _, call in calls(TURN)] == ["codex:c-1:t3", "codex:c-1:t6"]


def test_a_withheld_prompt_is_set_aside() -> None:
    (fact,) = facts([prompt(1, "[REDACTED]"), completed(3)])
    assert fact["input_messages"] == [{"role": "user", "parts": [], "finish_reason": None}]
    assert fact["raw"]["unsupported_parts"][0]["code"] == "withheld_content"


def test_a_cut_answer_is_truncated() -> None:
    (found,) = translations([prompt(1), request(2), answer(3, response_truncated="true"), completed(4)])
    assert found.reason is SkipReason.TRUNCATED


def test_a_failed_response_is_a_failed_call_and_a_call_without_messages_has_no_content() -> None:
    found = translations([event("sse_event", 2, {"event.kind": "response.failed"}), completed(5)])
    assert [item.reason for item in found] == [SkipReason.FAILED_CALL, SkipReason.NO_CONTENT]


def test_what_a_failed_call_was_given_is_given_to_the_next_one() -> None:
    failed = event("sse_event", 3, {"event.kind": "response.failed"})
    found = translations([prompt(1), request(2), failed, request(4), completed(5)])
    assert [item.reason for item in found] == [SkipReason.FAILED_CALL, None]


def test_spans_are_no_calls_and_the_session_key_means_nothing_elsewhere(given: Any) -> None:
    turn = given({"gen_ai.usage.input_tokens": 9, "model": "gpt-x"}, resource={"service.name": "codex_cli_rs"})
    assert (turn.detection.dialect, turn.detection.role) == ("codex", SpanRole.AGENT)
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
    other = given({"gen_ai.operation.name": "chat", "conversation.id": "x", "gen_ai.input.messages": asked})
    assert other.fact["session_id"] == "s-1"


@pytest.mark.parametrize("value", [None, 3, "", "null", "[]", "{}", '{"a', b"\xff", [], True])
@pytest.mark.parametrize("key", ["prompt", "output", "arguments", "call_id", "response", "event.timestamp", "model"])
def test_odd_values_cost_at_most_the_call(key: str, value: Any) -> None:
    records = [prompt(1), request(2), result(3), answer(3.5), completed(4), request(5), completed(6)]
    for item in records:
        item.attributes[key] = value
    for found in translations(records):
        assert found.encoded is not None or found.reason is not None


@pytest.mark.parametrize("value", [None, 3, "", [], b"\xff"])
def test_an_odd_conversation_is_no_session(value: Any) -> None:
    records = [prompt(1), completed(4)]
    for item in records:
        item.attributes["conversation.id"] = value
    assert [item.reason for item in translations(records)] == [SkipReason.NO_SESSION]
