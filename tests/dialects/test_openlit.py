# SPDX-License-Identifier: Apache-2.0
"""OpenLIT: the current conventions under a mark of its own, and records that are calls only where they say so."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.dialects.gen_ai import DETAILS, log_calls
from sediment_otel.telemetry import LogRecord
from sediment_otel.vocabulary import SpanRole

MARK = {"telemetry.sdk.name": "openlit"}
SYSTEM = [{"type": "text", "content": "be brief"}]
INPUT = [{"role": "system", "parts": SYSTEM}, {"role": "user", "parts": [{"type": "text", "content": "hello"}]}]
OUTPUT = [{"role": "assistant", "parts": [{"type": "text", "content": "hi"}], "finish_reason": "stop"}]


@pytest.mark.parametrize(
    ("operation", "role"),
    [
        ("chat", SpanRole.CALL),
        ("embeddings", SpanRole.OTHER),
        ("invoke_agent", SpanRole.AGENT),
        ("vectordb", SpanRole.OTHER),
    ],
)
def test_the_operation_says_what_a_span_is(given: Any, operation: str, role: SpanRole) -> None:
    detection = given({**MARK, "gen_ai.operation.name": operation}).detection
    assert (detection.dialect, detection.role) == ("openlit", role)


def test_the_mark_alone_makes_no_call(given: Any) -> None:
    assert given(MARK).detection.role is SpanRole.OTHER


def test_the_system_prompt_is_said_once(given: Any) -> None:
    fact = given(
        {
            **MARK,
            "gen_ai.operation.name": "chat",
            "gen_ai.system_instructions": SYSTEM,
            "gen_ai.input.messages": INPUT,
            "gen_ai.output.messages": OUTPUT,
        }
    ).fact
    assert [message["role"] for message in fact["input_messages"]] == ["system", "user"]


@pytest.mark.parametrize(("value", "user"), [("dev-7", "dev-7"), ("", None)])
def test_a_request_without_a_user_names_an_empty_one(given: Any, value: str, user: str | None) -> None:
    found = given(
        {**MARK, "gen_ai.operation.name": "chat", "gen_ai.input.messages": INPUT, "gen_ai.request.user": value}
    )
    assert found.fact["user_id"] == user
    assert found.translation().losses == []


@pytest.mark.parametrize(
    ("attributes", "calls"),
    [
        ({"gen_ai.operation.name": "chat"}, 1),
        ({}, 1),
        ({"gen_ai.operation.name": "embeddings"}, 0),
        ({"gen_ai.operation.name": "invoke_agent"}, 0),
        ({"gen_ai.operation.name": ["chat"]}, 0),
    ],
)
def test_a_details_record_without_a_span_is_a_call_only_if_its_operation_is(
    attributes: dict[str, Any], calls: int
) -> None:
    record = LogRecord(event_name=DETAILS, attributes={"gen_ai.response.id": "r-1", **attributes}, time_ns=1)
    assert len(list(log_calls([record]))) == calls
