# SPDX-License-Identifier: Apache-2.0
"""What trainers refuse is named with its place, its cause as `raw` shows it, and the setting that cures it."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.facts import (
    InferenceCall,
    InferenceMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
)
from sediment_otel.translate.trainer import refusals


def message(role: str, *parts: Part) -> InferenceMessage:
    return InferenceMessage(role, list(parts), None)


USER = message("user", TextPart("q"))
ANSWER = message("assistant", TextPart("a"))
CALL = ToolCallPart("t1", "f", {})
RESULT = ToolCallResponsePart("t1", "r")


def call(inputs: list[InferenceMessage], outputs: list[InferenceMessage], **more: Any) -> InferenceCall:
    given: dict[str, Any] = {
        "inference_call_id": "i",
        "org_id": "o",
        "session_id": "s",
        "user_id": None,
        "gateway_provider": "unknown",
        "model_provider": None,
        "model": "m",
        "input_tokens": None,
        "output_tokens": None,
        "duration_ms": None,
        "model_call_id": None,
        "observed_at": "2026-01-01T00:00:00Z",
        "raw": {"dialect": "gen_ai"},
    }
    return InferenceCall(input_messages=inputs, output_messages=outputs, **{**given, **more})


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ([USER], [ANSWER]),
        ([message("system", TextPart("s")), message("developer", TextPart("d")), USER], [ANSWER]),
        ([USER], [message("assistant", ReasoningPart("r"), TextPart("a"), CALL)]),
        ([USER, message("assistant", CALL), message("tool", RESULT)], [ANSWER]),
        ([USER, message("assistant", CALL), message("user", RESULT, TextPart("and"))], [ANSWER]),
        ([USER, message("assistant", CALL), message("tool", RESULT, RESULT)], [ANSWER]),
    ],
)
def test_what_trainers_take_has_no_warning(inputs: list[InferenceMessage], outputs: list[InferenceMessage]) -> None:
    assert refusals(call(inputs, outputs)) == []


@pytest.mark.parametrize(
    ("inputs", "outputs", "code", "at"),
    [
        ([USER], [], "completionless", "/output_messages"),
        ([USER], [message("assistant")], "empty_message", "/output_messages/0"),
        ([message("user"), USER], [ANSWER], "empty_message", "/input_messages/0"),
        ([USER], [message("user", TextPart("a"))], "unsupported_completion_role", "/output_messages/0/role"),
        ([message("unknown", TextPart("x"))], [ANSWER], "unsupported_message_role", "/input_messages/0/role"),
        ([message("tool", TextPart("x"))], [ANSWER], "unsupported_message_role", "/input_messages/0/role"),
        ([message("user", CALL)], [ANSWER], "unsupported_role_part", "/input_messages/0/parts/0"),
        ([message("system", ReasoningPart("x"))], [ANSWER], "unsupported_role_part", "/input_messages/0/parts/0"),
        (
            [message("assistant", CALL), message("system", RESULT)],
            [ANSWER],
            "unsupported_role_part",
            "/input_messages/1",
        ),
        ([USER, message("tool", RESULT)], [ANSWER], "unresolved_tool_call", "/input_messages/1/parts/0"),
        (
            [message("tool", RESULT), message("assistant", CALL)],
            [ANSWER],
            "unresolved_tool_call",
            "/input_messages/0/parts/0",
        ),
        ([USER, message("assistant", CALL, CALL)], [ANSWER], "duplicate_tool_call_id", "/input_messages/1/parts/1"),
        (
            [USER, message("assistant", CALL)],
            [message("assistant", CALL)],
            "duplicate_tool_call_id",
            "/output_messages/0/parts/0",
        ),
        (
            [USER],
            [message("assistant", TextPart("a"), ReasoningPart("r"))],
            "unrepresentable_part_order",
            "/output_messages/0/parts/1",
        ),
        (
            [message("assistant", CALL), message("tool", RESULT, TextPart("x"))],
            [ANSWER],
            "unrepresentable_part_order",
            "/input_messages/1/parts/1",
        ),
    ],
)
def test_what_trainers_refuse_is_named_with_its_place(
    inputs: list[InferenceMessage], outputs: list[InferenceMessage], code: str, at: str
) -> None:
    (found,) = refusals(call(inputs, outputs))
    assert (found.code, found.at, found.dpo_only) == (code, at, False)
    assert found.cause
    assert found.cure


def test_a_model_that_is_not_named_and_a_prompt_that_is_not_there_are_warned_of() -> None:
    (absent,) = refusals(call([USER], [ANSWER], model=None))
    assert absent.code == "model_absent"
    (promptless,) = refusals(call([], [ANSWER]))
    assert promptless.code == "promptless"
    assert promptless.dpo_only


@pytest.mark.parametrize(
    ("loss", "cause", "cure"),
    [
        ("withheld_content", "withheld", "CAPTURE_MESSAGE_CONTENT"),
        ("unsupported_content", "images", "no setting of the producer"),
        ("opaque_reasoning", "reasoning", "readable reasoning"),
        ("missing_id", "without an id", "tool call ids"),
        ("extra_choice", "first choice", "n=1"),
    ],
)
def test_the_cause_of_an_empty_message_is_what_was_lost_from_it(loss: str, cause: str, cure: str) -> None:
    raw = {"dialect": "gen_ai", "losses": [{"code": loss, "at": "/output_messages/0/parts/0"}]}
    (found,) = refusals(call([USER], [message("assistant")], raw=raw))
    assert cause in found.cause
    assert cure in found.cure
    elsewhere = {"dialect": "gen_ai", "losses": [{"code": loss, "at": "/input_messages/1/parts/0"}]}
    (other,) = refusals(call([USER], [message("assistant")], raw=elsewhere))
    assert cause not in other.cause


@pytest.mark.parametrize(
    ("dialect", "setting"),
    [
        ("openllmetry", "TRACELOOP_TRACE_CONTENT"),
        ("openinference", "OPENINFERENCE_HIDE_OUTPUTS"),
        ("ai_sdk", "recordOutputs"),
        ("pydantic_ai", "include_content"),
        ("gen_ai", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        ("a dialect of tomorrow", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        (7, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
    ],
)
def test_the_cure_names_the_setting_of_the_producer(dialect: Any, setting: str) -> None:
    (found,) = refusals(call([USER], [], raw={"dialect": dialect, "losses": "not a list"}))
    assert setting in found.cure


def test_a_history_that_the_server_keeps_is_the_cause_of_an_unresolved_result() -> None:
    raw = {"losses": [{"code": "partial_history", "at": "/input_messages"}]}
    (found,) = refusals(call([message("tool", RESULT)], [ANSWER], raw=raw))
    assert "previous_response_id" in found.cure
