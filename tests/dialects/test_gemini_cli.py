# SPDX-License-Identifier: Apache-2.0
"""Gemini CLI and Qwen Code: roles, chunks of streams, two events of one call, cut texts, calls without spans."""

from __future__ import annotations

from typing import Any

import pytest
from agent_records import calls, facts, record, translations

from sediment_otel.dialects.gemini_cli import merged_chunks
from sediment_otel.telemetry import LogRecord
from sediment_otel.vocabulary import SkipReason, SpanRole

DETAILS = "gen_ai.client.inference.operation.details"
SPAN = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
ASKED = [
    {"role": "user", "parts": [{"type": "text", "content": "What is in a.txt?"}]},
    {"role": "system", "parts": [{"type": "tool_call", "id": "fc-1", "name": "read", "arguments": '{"p": "a.txt"}'}]},
    {"role": "user", "parts": [{"type": "tool_call_response", "id": "fc-1", "response": '{"output": "abc"}'}]},
]
CHUNKS = [
    {"role": "system", "parts": [{"type": "reasoning", "content": "Hm."}], "finish_reason": "stop"},
    {"role": "system", "parts": [{"type": "text", "content": "It says "}], "finish_reason": "stop"},
    {"role": "system", "parts": [{"type": "text", "content": "abc."}], "finish_reason": "stop"},
    {"parts": [], "finish_reason": "length"},
]


def started(at: float = 0.0, asked: Any = ASKED, **more: Any) -> LogRecord:
    attributes = {
        "session.id": "s-gem",
        "event.timestamp": f"t{at}",
        "gen_ai.operation.name": "generate_content",
        "gen_ai.request.model": "gemini-x",
        "gen_ai.input.messages": asked,
    }
    return record(DETAILS, attributes, at=at, service="gemini-cli", scope="gemini-cli", **more)


def ended(at: float = 1.0, asked: Any = ASKED, *, rid: str = "resp-1", **extra: Any) -> LogRecord:
    attributes = {
        "session.id": "s-gem",
        "event.timestamp": f"t{at}",
        "gen_ai.operation.name": "generate_content",
        "gen_ai.provider.name": "gcp.gen_ai",
        "gen_ai.response.model": "gemini-x-001",
        "gen_ai.response.id": rid,
        "gen_ai.input.messages": asked,
        "gen_ai.output.messages": CHUNKS,
        "gen_ai.response.finish_reasons": ("stop", "stop", "stop", "length"),
        "gen_ai.usage.input_tokens": 77,
        "gen_ai.usage.output_tokens": 20,
        **extra,
    }
    return record(DETAILS, attributes, at=at, service="gemini-cli", scope="gemini-cli")


def beside(kind: str, at: float, **attributes: Any) -> LogRecord:
    common = {"session.id": "s-gem", "event.timestamp": f"t{at}", "model": "gemini-x-001", "prompt_id": "p1"}
    return record(f"gemini_cli.{kind}", {**common, **attributes}, at=at, service="gemini-cli")


@pytest.mark.parametrize(
    ("operation", "role"),
    [
        ("llm_call", SpanRole.CALL),
        ("generate_content", SpanRole.CALL),
        ("tool_call", SpanRole.TOOL),
        ("schedule_tool_calls", SpanRole.TOOL),
        ("agent_call", SpanRole.AGENT),
        ("user_prompt", SpanRole.AGENT),
        ("something", SpanRole.OTHER),
    ],
)
def test_the_operation_says_what_a_span_is(given: Any, operation: str, role: SpanRole) -> None:
    found = given({"gen_ai.operation.name": operation}, scope="gemini-cli").detection
    assert (found.dialect, found.role) == ("gemini_cli", role)


def test_a_scope_or_service_of_another_product_is_not_its_own(given: Any) -> None:
    found = given({"gen_ai.operation.name": "llm_call"}, scope="other", resource={"service.name": ["gemini-cli"]})
    assert found.detection.role is SpanRole.OTHER


def test_the_raw_request_and_the_chunks_on_a_span_are_read(given: Any) -> None:
    fact = given(
        {
            "gen_ai.operation.name": "llm_call",
            "gen_ai.system_instructions": '"Be brief."',
            "gen_ai.input.messages": [
                {"role": "user", "parts": [{"text": "Hello"}]},
                {"role": "model", "parts": [{"functionCall": {"id": "fc-1", "name": "ls", "args": {"d": 1}}}]},
                {"role": "user", "parts": [{"functionResponse": {"id": "fc-1", "name": "ls", "response": {"o": 2}}}]},
            ],
            "gen_ai.output.messages": [
                {"role": "model", "parts": [{"text": "Hm.", "thought": True}]},
                {"role": "model", "parts": [{"functionCall": {"id": "ls__fc-2", "name": "ls", "args": {}}}]},
            ],
        },
        scope="gemini-cli",
    ).fact
    assert [message["role"] for message in fact["input_messages"]] == ["system", "user", "assistant", "user"]
    assert fact["input_messages"][0]["parts"] == [{"type": "text", "content": "Be brief."}]
    assert fact["output_messages"] == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "Hm."},
                {"type": "tool_call", "id": "ls__fc-2", "name": "ls", "arguments": {}},
            ],
            "finish_reason": None,
        }
    ]


def test_a_cut_span_attribute_gives_way_to_the_event(given: Any) -> None:
    call = given(
        {
            "gen_ai.operation.name": "llm_call",
            "gen_ai.input.messages": '[{"role":"user","parts":[{"text":"What is...[TRUNCATED: original length 20000]',
        },
        scope="gemini-cli",
        records=(ended(),),
    )
    assert [message["role"] for message in call.fact["input_messages"]] == ["user", "assistant", "user"]


def test_a_cut_span_attribute_alone_is_truncated(given: Any) -> None:
    call = given(
        {
            "gen_ai.operation.name": "llm_call",
            "gen_ai.input.messages": '[{"role":"user","parts":[{"text":"What is...[TRUNCATED: original length 20000]',
        },
        scope="gemini-cli",
    )
    assert call.translation().reason is SkipReason.TRUNCATED


@pytest.mark.parametrize("mark", ["...[TRUNCATED]", "...[TRUNCATED: original length 12345]"])
def test_a_text_cut_inside_whole_json_is_truncated(mark: str) -> None:
    asked = [{"role": "user", "parts": [{"type": "text", "content": f"Once upon{mark}"}]}]
    (found,) = translations([ended(asked=asked)])
    assert found.reason is SkipReason.TRUNCATED


def test_a_text_that_speaks_of_the_mark_is_whole() -> None:
    asked = [{"role": "user", "parts": [{"type": "text", "content": "What does ...[TRUNCATED] mean?"}]}]
    (fact,) = facts([ended(asked=asked)])
    assert fact["input_messages"][0]["parts"][0]["content"] == "What does ...[TRUNCATED] mean?"


def test_in_the_events_the_system_is_the_model_and_chunks_are_one_answer() -> None:
    (fact,) = facts([ended()])
    assert [message["role"] for message in fact["input_messages"]] == ["user", "assistant", "user"]
    assert fact["output_messages"] == [
        {
            "role": "assistant",
            "parts": [{"type": "reasoning", "content": "Hm."}, {"type": "text", "content": "It says abc."}],
            "finish_reason": "length",
        }
    ]
    assert (fact["model"], fact["model_provider"], fact["model_call_id"]) == ("gemini-x-001", "gcp.gen_ai", "resp-1")
    assert (fact["input_tokens"], fact["output_tokens"], fact["session_id"]) == (77, 20, "s-gem")


def test_start_and_end_are_one_call_under_the_span_that_the_start_names() -> None:
    (call,) = calls([started(span=SPAN), ended()])
    (fact,) = facts([started(span=SPAN), ended()])
    assert (call[0], call[1].capture_key) == ("gemini_cli", None)
    assert (fact["raw"]["span"]["trace_id"], fact["raw"]["span"]["span_id"]) == SPAN
    assert len(fact["raw"]["log_records"]) == 2


def test_without_any_span_id_the_response_names_the_call() -> None:
    (call,) = calls([started(), ended()])
    assert call[1].capture_key == "gemini_cli:s-gem:resp-1"


def test_calls_at_the_same_time_keep_their_own_starts() -> None:
    other = [{"role": "user", "parts": [{"type": "text", "content": "Another"}]}]
    second = (SPAN[0], "b7ad6b7169203332")
    found = calls(
        [started(0.0, span=SPAN), started(0.1, other, span=second), ended(1.0, other, rid="b"), ended(2.0, rid="a")]
    )
    assert [call.records[0].span_id for _, call in found] == [second[1], SPAN[1]]


def test_a_request_without_an_end_is_no_call_yet() -> None:
    assert calls([started(), beside("api_request", 0.0, request_text="[]")]) == []


def test_what_stands_beside_an_end_is_no_call_of_its_own_and_tells_the_duration() -> None:
    found = [started(), ended(1.0), beside("api_response", 1.0, duration_ms=250, response_text="[]")]
    (fact,) = facts(found)
    assert (fact["duration_ms"], len(fact["raw"]["log_records"])) == (250, 3)


def test_an_error_is_a_failed_call() -> None:
    (found,) = translations([started(), ended(**{"error.type": "429"})])
    assert found.reason is SkipReason.FAILED_CALL
    assert [item.reason for item in translations([beside("api_error", 1.0)])] == [SkipReason.FAILED_CALL]


def qwen(kind: str, at: float, **attributes: Any) -> LogRecord:
    common = {"sessionId": "q-1", "event.timestamp": f"t{at}", "model": "qwen-x", "prompt_id": "p1"}
    return record(f"qwen-code.{kind}", {**common, **attributes}, at=at, service="qwen-code")


def test_qwen_code_calls_are_read_from_request_and_response() -> None:
    asked = qwen("api_request", 0.0, request_text=[{"role": "user", "parts": [{"text": "Hi"}]}])
    answer = [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hel"}]}}]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "lo"}]}, "finishReason": "STOP"}]},
    ]
    counts = {"input_token_count": "12", "output_token_count": 3, "response_id": "r-1", "duration_ms": 40}
    (fact,) = facts([asked, qwen("api_response", 1.0, response_text=answer, **counts)])
    assert fact["session_id"] == "q-1"
    assert fact["input_messages"] == [
        {"role": "user", "parts": [{"type": "text", "content": "Hi"}], "finish_reason": None}
    ]
    assert fact["output_messages"] == [
        {"role": "assistant", "parts": [{"type": "text", "content": "Hello"}], "finish_reason": "STOP"}
    ]
    assert (fact["input_tokens"], fact["output_tokens"], fact["model_call_id"]) == (12, 3, "r-1")
    assert (fact["model"], fact["duration_ms"], fact["model_provider"]) == ("qwen-x", 40, None)


def test_a_response_in_plain_text_is_the_answer() -> None:
    (fact,) = facts([qwen("api_response", 1.0, response_text="Just text")])
    assert fact["output_messages"][0]["parts"] == [{"type": "text", "content": "Just text"}]


def test_the_session_key_of_qwen_code_means_nothing_elsewhere(given: Any) -> None:
    found = given({"gen_ai.operation.name": "chat", "sessionId": "x", "gen_ai.input.messages": ASKED})
    assert found.fact["session_id"] == "s-1"


@pytest.mark.parametrize(
    "value",
    [None, 3, "", "null", "[]", "{}", '[{"role": 3}]', '{"candidates": [{"content": []}]}', '[1, "x", null]', b"\xff"],
)
@pytest.mark.parametrize("key", ["request_text", "response_text", "duration_ms", "model", "finish_reasons"])
def test_odd_values_cost_at_most_the_call(key: str, value: Any) -> None:
    translations([qwen("api_request", 0.0, **{key: value}), qwen("api_response", 1.0, **{key: value})])


def test_what_is_no_message_is_left_alone() -> None:
    odd = [None, 3, {"role": "assistant"}, {"role": "assistant", "parts": "x"}]
    assert merged_chunks(odd) == odd


# -- Qwen Code's own events ----------------------------------------------------------------------------------


def test_a_tool_calls_event_is_part_of_the_answer_that_asked_for_it() -> None:
    (fact, later) = facts(
        [
            qwen("api_request", 0, request_text=[{"role": "user", "parts": [{"text": "Read."}]}]),
            qwen("api_response", 1, response_id="r-1", response_text="I read.", duration_ms=900),
            qwen("tool_call", 2, response_id="r-1", call_id="c-1", function_name="ls", function_args='{"d": 1}'),
            qwen("tool_call", 2.5, call_id="c-2", function_name="of no response", function_args="{}"),
            qwen("api_response", 3, response_id="r-2", response_text="Done.", duration_ms=5),
        ]
    )
    assert fact["output_messages"][0]["parts"] == [
        {"type": "text", "content": "I read."},
        {"type": "tool_call", "id": "c-1", "name": "ls", "arguments": {"d": 1}},
    ]
    assert fact["duration_ms"] == 900
    assert later["output_messages"][0]["parts"] == [{"type": "text", "content": "Done."}]


def test_a_thought_that_is_told_as_a_text_is_a_thought_where_the_model_said_it() -> None:
    marked = {"text": "Hm.\n[Thought: true]"}
    asked = [{"role": "user", "parts": [marked]}, {"role": "model", "parts": [marked, {"text": "Yes."}]}]
    (fact,) = facts(
        [
            qwen("api_request", 0, request_text=asked),
            qwen("api_response", 1, response_id="r-1", response_text="Done."),
        ]
    )
    user, model = fact["input_messages"]
    assert user["parts"] == [{"type": "text", "content": marked["text"]}]
    assert model["parts"] == [{"type": "reasoning", "content": "Hm."}, {"type": "text", "content": "Yes."}]


@pytest.mark.parametrize("value", [None, 3, "", "{", [1], {"a": 1}])
def test_odd_tool_call_events_cost_at_most_the_call(value: Any) -> None:
    translations(
        [
            qwen("api_response", 1, response_id=value, response_text="Done."),
            qwen("tool_call", 2, response_id=value, call_id=value, function_name=value, function_args=value),
        ]
    )


def test_a_thought_in_pieces_is_one_thought() -> None:
    pieces = [{"role": "assistant", "parts": [{"type": "reasoning", "content": text}]} for text in ("Two and", " two")]
    (merged,) = merged_chunks([*pieces, {"role": "assistant", "parts": [{"type": "text", "content": "4"}]}])
    assert merged["parts"] == [{"type": "reasoning", "content": "Two and two"}, {"type": "text", "content": "4"}]
