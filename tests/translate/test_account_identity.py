# SPDX-License-Identifier: Apache-2.0
"""Whose account was used stays out of a fact unless it is asked for (contract, section 5)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from sediment_otel.genai import Subject
from sediment_otel.settings import Settings
from sediment_otel.telemetry import LogRecord, Resource, Span, SpanEvent
from sediment_otel.translate.call import translate_subject

ACCOUNT = {"user.email": "dev@example.org", "user.account_id": "acc-1", "user.account_uuid": "5f0c"}
MESSAGES = {
    "gen_ai.operation.name": "chat",
    "session.id": "s",
    "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"hello"}]}]',
    "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"hi"}],"finish_reason":"stop"}]',
}


def raw_of(span: Span, *records: LogRecord, whole: bool = False, **settings: Any) -> dict[str, Any]:
    found = translate_subject(Subject(span, records=records), Settings(org="acme", **settings), whole=whole)
    assert found.encoded is not None
    raw: dict[str, Any] = json.loads(found.encoded)["raw"]
    return raw


def call(**more: Any) -> Span:
    fields: dict[str, Any] = {"trace_id": "a" * 32, "span_id": "b" * 16, "start_ns": 1, "end_ns": 2}
    return Span(**{**fields, "attributes": {**MESSAGES, **ACCOUNT}, **more})


@pytest.mark.parametrize("raw", ["full", "residual"])
@pytest.mark.parametrize("whole", [False, True], ids=["short way", "general way"])
def test_the_account_is_hidden_wherever_the_trace_names_it(raw: str, whole: bool) -> None:
    span = call(resource=Resource(attributes={"user.email": "team@example.org"}))
    record = LogRecord(event_name="gen_ai.user.message", attributes=ACCOUNT, body={"content": "hello"})
    event = SpanEvent(name="note", attributes=ACCOUNT)
    for found in (
        raw_of(span, raw=raw, whole=whole),
        raw_of(msgspec.structs.replace(span, events=[event]), record, raw=raw, whole=whole),
    ):
        text = json.dumps(found)
        assert "example.org" not in text
        assert "acc-1" not in text
        assert found["span"]["attributes"]["user.account_uuid"] == "[REDACTED_IDENTITY]"


@pytest.mark.parametrize("whole", [False, True], ids=["short way", "general way"])
def test_the_account_stays_where_the_user_asks_for_it(whole: bool) -> None:
    attributes = raw_of(call(), keep_account_identity=True, whole=whole)["span"]["attributes"]
    assert {key: attributes[key] for key in ACCOUNT} == ACCOUNT
