# SPDX-License-Identifier: Apache-2.0
"""Claude Code: log events joined to calls, bodies in records and files, spans of its beta. Records are synthetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_records import calls, facts, record, translations

from sediment_otel.pipeline import log_subject
from sediment_otel.sources.references import References
from sediment_otel.telemetry import LogRecord
from sediment_otel.translate.call import translate_subject
from sediment_otel.vocabulary import SkipReason, SpanRole

ASK: dict[str, Any] = {
    "model": "claude-x",
    "max_tokens": 32000,
    "system": [{"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "Fix it."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "<REDACTED>", "signature": "abc"},
                {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a.py"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x = 1"}]},
    ],
    "tools": [],
}
ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x-20260101",
    "content": [{"type": "text", "text": "Done."}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 10,
        "cache_read_input_tokens": 200,
        "cache_creation_input_tokens": 30,
        "output_tokens": 5,
    },
}
COMMON = {"session.id": "s-claude", "user.id": "u-1", "user.email": "a@b.c", "query_source": "repl_main_thread"}
SCOPE = "com.anthropic.claude_code.events"


def event(name: str, at: float, attributes: dict[str, Any] | None = None, **more: Any) -> LogRecord:
    return record(name, {**COMMON, **(attributes or {}), **more}, at=at, scope=SCOPE, body=f"claude_code.{name}")


def asked(at: float, body: Any = ASK, **more: Any) -> LogRecord:
    return event("api_request_body", at, {"body": body, **more})


def answered(at: float, body: Any = ANSWER, rid: str = "req_1", **more: Any) -> LogRecord:
    return event("api_response_body", at, {"body": body, "request_id": rid, **more})


def told(at: float, rid: str = "req_1", **more: Any) -> LogRecord:
    counts = {"input_tokens": "10", "cache_read_tokens": "200", "cache_creation_tokens": "30", "output_tokens": "5"}
    return event("api_request", at, {"request_id": rid, "model": "claude-x", "duration_ms": "1500", **counts, **more})


def test_bodies_and_the_end_of_a_call_are_one_fact() -> None:
    (fact,) = facts([asked(0), answered(1.9), told(2)])
    assert [message["role"] for message in fact["input_messages"]] == ["system", "user", "assistant", "user"]
    assert fact["input_messages"][2]["parts"] == [
        {"type": "tool_call", "id": "toolu_1", "name": "Read", "arguments": {"path": "a.py"}}
    ]
    assert fact["output_messages"] == [
        {"role": "assistant", "parts": [{"type": "text", "content": "Done."}], "finish_reason": "end_turn"}
    ]
    assert (fact["model"], fact["model_call_id"], fact["session_id"]) == ("claude-x-20260101", "msg_1", "s-claude")
    assert (fact["input_tokens"], fact["output_tokens"], fact["duration_ms"]) == (240, 5, 1500)
    assert fact["user_id"] == "u-1"


def test_the_account_stays_hidden_and_withheld_thinking_is_set_aside() -> None:
    (fact,) = facts([asked(0), answered(1.9), told(2)])
    assert "a@b.c" not in json.dumps(fact)
    (entry,) = fact["raw"]["unsupported_parts"]
    assert (entry["at"], entry["code"]) == ("/input_messages/2/parts/0", "withheld_content")


def test_without_a_body_the_request_id_names_the_answer_and_cached_input_counts() -> None:
    (found,) = translations([told(2)])
    assert found.reason is SkipReason.NO_CONTENT
    (fact,) = facts([asked(0), told(2)])
    assert (fact["model_call_id"], fact["input_tokens"], fact["model"]) == ("req_1", 240, "claude-x")


def test_without_request_ids_what_ends_together_is_one_call() -> None:
    ends = [told(2, ""), answered(2, rid=""), asked(3), told(4, ""), answered(4, {**ANSWER, "id": "msg_2"}, "")]
    found = facts([asked(0), *ends])
    assert [(f["model_call_id"], len(f["raw"]["log_records"])) for f in found] == [("msg_1", 3), ("msg_2", 3)]


def test_what_is_only_asked_is_no_call_yet() -> None:
    assert calls([asked(0)]) == []


def test_an_earlier_attempts_body_belongs_to_no_call() -> None:
    first = asked(0, {**ASK, "messages": [{"role": "user", "content": "first attempt"}]})
    found = calls([first, asked(1), answered(1.9), told(2)])
    assert [len(call.records) for _, call in found] == [3]
    (fact,) = facts([first, asked(1), answered(1.9), told(2)])
    assert "first attempt" not in json.dumps(fact)


def test_calls_at_the_same_time_are_told_apart_by_the_bodys_id() -> None:
    one = asked(0, {**ASK, "messages": [{"role": "user", "content": "one"}]}, request_body_id="b1")
    two = asked(0.1, {**ASK, "messages": [{"role": "user", "content": "two"}]}, request_body_id="b2")
    found = facts(
        [
            one,
            two,
            answered(1, {**ANSWER, "id": "msg_2"}, "req_2", request_body_id="b2"),
            told(1.1, "req_2"),
            answered(2, ANSWER, "req_1", request_body_id="b1"),
            told(2.1, "req_1"),
        ]
    )
    said = [(f["model_call_id"], f["input_messages"][1]["parts"][0]["content"]) for f in found]
    assert sorted(said) == [("msg_1", "one"), ("msg_2", "two")]


def test_calls_from_different_places_keep_their_bodies() -> None:
    title = {"query_source": "generate_session_title"}
    small = asked(0.1, {"messages": [{"role": "user", "content": "title?"}]}, **title)
    found = facts(
        [
            asked(0),
            small,
            answered(1, {**ANSWER, "id": "msg_t"}, "req_t", **title),
            told(1, "req_t", **title),
            answered(2),
            told(2),
        ]
    )
    assert {f["model_call_id"]: f["input_messages"][-1]["parts"][0]["type"] for f in found} == {
        "msg_t": "text",
        "msg_1": "tool_call_response",
    }


def test_a_session_that_is_told_twice_keeps_one_call_apart_from_another_sessions() -> None:
    other = {"session.id": "s-other"}
    found = facts([asked(0), asked(0.5, **other), answered(1, rid="req_9", **other), answered(2)])
    assert sorted((f["session_id"], len(f["raw"]["log_records"])) for f in found) == [("s-claude", 2), ("s-other", 2)]


@pytest.mark.parametrize("mark", [True, "true", "True"])
def test_a_body_that_is_marked_as_cut_is_truncated(mark: Any) -> None:
    (found,) = translations([asked(0, body_truncated=mark), answered(1)])
    assert found.reason is SkipReason.TRUNCATED


def test_a_body_cut_without_a_mark_is_truncated() -> None:
    (found,) = translations([asked(0, json.dumps(ASK)[:100]), answered(1)])
    assert found.reason is SkipReason.TRUNCATED


def test_an_error_without_an_answer_is_a_failed_call() -> None:
    (found,) = translations([asked(0), event("api_error", 1, {"error": "overloaded", "status_code": 529})])
    assert found.reason is SkipReason.FAILED_CALL


def test_the_product_must_show_on_an_event_with_a_common_name() -> None:
    assert calls([record("api_request", {"session.id": "s", "request_id": "r"}, scope="another.plugin")]) == []
    assert len(calls([record("claude_code.api_request", {"session.id": "s", "request_id": "r"})])) == 1


# -- spans ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("claude_code.llm_request", SpanRole.CALL),
        ("claude_code.interaction", SpanRole.AGENT),
        ("claude_code.tool", SpanRole.TOOL),
        ("claude_code.tool.blocked_on_user", SpanRole.OTHER),
    ],
)
def test_the_name_says_what_a_span_is(given: Any, name: str, role: SpanRole) -> None:
    scope = "com.anthropic.claude_code.tracing"
    found = given({"span.type": "x", "gen_ai.operation.name": "chat"}, name=name, scope=scope).detection
    assert (found.dialect, found.role) == ("claude_code", role)


SPAN = {
    "span.type": "llm_request",
    "session.id": "s-claude",
    "gen_ai.conversation.id": "agent-7",
    "gen_ai.system": "anthropic",
    "gen_ai.request.model": "claude-x",
    "gen_ai.response.id": "req_1",
    "request_id": "req_1",
    "input_tokens": 10,
    "cache_read_tokens": 200,
    "cache_creation_tokens": 30,
    "output_tokens": 5,
    "stop_reason": "end_turn",
}


def test_a_span_takes_its_messages_and_the_answers_id_from_its_records(given: Any) -> None:
    fact = given(SPAN, name="claude_code.llm_request", records=(asked(0), answered(1), told(1))).fact
    assert (fact["session_id"], fact["model_call_id"], fact["model_provider"]) == ("s-claude", "msg_1", "anthropic")
    assert (fact["input_tokens"], fact["output_tokens"], fact["duration_ms"]) == (240, 5, 1000)


def test_counts_in_the_conventions_are_sums_already(given: Any) -> None:
    span = {**SPAN, "gen_ai.usage.input_tokens": 240}
    assert given(span, name="claude_code.llm_request", records=(asked(0),)).fact["input_tokens"] == 240


def test_a_span_without_messages_has_no_content(given: Any) -> None:
    assert given(SPAN, name="claude_code.llm_request").translation().reason is SkipReason.NO_CONTENT


# -- bodies in files -----------------------------------------------------------------------------------------


def completed(records: list[LogRecord], folder: Path) -> dict[str, Any]:
    from sediment_otel.settings import Settings

    ((dialect, call),) = calls(records)
    complete = References((str(folder),), 1 << 20).complete
    found = translate_subject(log_subject(dialect, call, complete), Settings())
    assert found.encoded is not None, found.note
    fact: dict[str, Any] = json.loads(found.encoded)
    return fact


def test_bodies_in_files_are_the_messages(tmp_path: Path) -> None:
    (tmp_path / "u1.request.json").write_text(json.dumps(ASK))
    (tmp_path / "req_1.response.json").write_text(json.dumps(ANSWER))
    records = [
        event("api_request_body", 0, {"body_ref": str(tmp_path / "u1.request.json")}),
        event("api_response_body", 1, {"body_ref": "/elsewhere/req_1.response.json", "request_id": "req_1"}),
        told(2),
    ]
    inline, from_files = facts([asked(0), answered(1), told(2)])[0], completed(records, tmp_path)
    for key in ("input_messages", "output_messages", "input_tokens", "output_tokens", "model", "model_call_id"):
        assert from_files[key] == inline[key], key
    assert from_files["raw"]["content"]["source"] == "body_ref, body_ref"


def test_without_an_address_the_list_of_files_is_asked(tmp_path: Path) -> None:
    (tmp_path / "u1.request.json").write_text(json.dumps(ASK))
    (tmp_path / "req_1.response.json").write_text(json.dumps(ANSWER))
    row = {"request_id": "req_1", "request_file": "u1.request.json", "response_file": "req_1.response.json"}
    (tmp_path / "index.jsonl").write_text("no json\n" + json.dumps(row) + "\n")
    assert completed([told(2)], tmp_path)["model_call_id"] == "msg_1"


def test_what_is_not_allowed_is_said(tmp_path: Path) -> None:
    records = [event("api_request_body", 0, {"body_ref": "/elsewhere/u1.request.json"}), told(2)]
    (found,) = translations(records)
    assert found.reason is SkipReason.NO_CONTENT
    assert "--content-location" in found.note


@pytest.mark.parametrize("value", [None, 3, "", "null", "[]", "{}", '{"messages": 3}', '{"content": [1]}', b"\xff", []])
@pytest.mark.parametrize("key", ["body", "body_ref", "request_id", "request_body_id", "duration_ms", "input_tokens"])
def test_odd_values_cost_at_most_the_call(key: str, value: Any) -> None:
    translations([asked(0, **{key: value}), answered(1, **{key: value}), told(2, **{key: value})])
