# SPDX-License-Identifier: Apache-2.0
"""Synthetic telemetry of coding agents, from files to facts and back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from sediment_otel.settings import Settings
from sediment_otel.sources.files import expand
from sediment_otel.traces import Traces
from sediment_otel.translate.verify import verify_call
from sediment_otel.vocabulary import SkipReason

FOLDER = Path(__file__).parents[1] / "data" / "synthetic"


@pytest.mark.parametrize(
    ("files", "outcomes", "sessions"),
    [
        (["claude_code.logs.json"], {"fact": 2, "failed_call": 1}, {"s-claude"}),
        (["claude_code.json", "claude_code.logs.json"], {"fact": 2, "failed_call": 1}, {"s-claude"}),
        (["claude_code.logs.json", "claude_code.json"], {"fact": 2, "failed_call": 1}, {"s-claude"}),
        (["codex.logs.json"], {"fact": 2}, {"c-1"}),
        (["qwen_code.logs.json"], {"fact": 1}, {"q-1"}),
    ],
)
@pytest.mark.parametrize("raw", ["full", "residual"])
def test_agents_give_facts_that_come_back(files: list[str], outcomes: object, sessions: object, raw: str) -> None:
    settings = Settings(raw=raw)
    walked = list(Traces(expand([str(FOLDER / name) for name in files]), settings).walk())
    found = [item.translation for item in walked]
    assert Counter(item.reason.value if item.reason else "fact" for item in found) == outcomes
    assert {item.session_id for item in found if item.encoded} == sessions
    assert [verify_call(item.subject, settings, item.decision) for item in walked] == [[]] * len(walked)


def test_a_span_and_its_records_are_one_call_under_the_spans_id() -> None:
    names = ["claude_code.json", "claude_code.logs.json"]
    walked = list(Traces(expand([str(FOLDER / name) for name in names]), Settings()).walk())
    assert [(len(item.subject.records), item.subject.log_only) for item in walked] == [(4, False), (3, True), (2, True)]


CAPTURED = FOLDER.parent / "agents"


@pytest.mark.parametrize("names", [["traces.jsonl", "logs.jsonl"], ["logs.jsonl", "traces.jsonl"], ["logs.jsonl"]])
def test_claude_code_as_it_writes_is_one_fact_with_the_bodies_from_its_files(names: list[str]) -> None:
    """Its records name the span around the call; the request's body has no request id."""
    folder = CAPTURED / "earlier" / "claude_code_2.1.197"
    settings = Settings(content_locations=(str(folder / "bodies"),))
    walked = list(Traces(expand([str(folder / name) for name in names]), settings).walk())
    (call,) = [item for item in walked if item.translation.encoded]
    fact = json.loads(call.translation.encoded or b"")
    assert [len(message["parts"]) for message in fact["input_messages"]] == [3, 4]
    assert fact["input_messages"][1]["parts"][-1]["content"] == "hello there"
    assert fact["output_messages"] == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "You said: hello there"}],
            "finish_reason": "end_turn",
        }
    ]
    assert (fact["model_call_id"], fact["model"]) == ("msg-1", "claude-sonnet-4-5-2026")
    assert (fact["input_tokens"], fact["output_tokens"]) == (11, 7)
    assert len(fact["raw"]["log_records"]) == 3
    assert verify_call(call.subject, settings, call.decision) == []
    assert [item.translation.reason for item in walked if item is not call] == [SkipReason.NOT_A_MODEL_CALL] * (
        len(walked) - 1
    )


def test_codex_as_it_writes_is_three_partial_facts() -> None:
    walked = list(Traces(expand([str(CAPTURED / "earlier" / "codex_loop" / "logs.jsonl")]), Settings()).walk())
    found = [json.loads(item.translation.encoded or b"") for item in walked]
    assert [[message["role"] for message in fact["input_messages"]] for fact in found] == [["user"], ["tool"], ["tool"]]
    calls = [part for fact in found for message in fact["output_messages"] for part in message["parts"]]
    assert [part["id"] for part in calls] == ["call-4-0", "call-7-0"]
    results = [fact["input_messages"][0]["parts"][0] for fact in found[1:]]
    assert [part["id"] for part in results] == ["call-4-0", "call-7-0"]
    assert {fact["session_id"] for fact in found} == {"01a22e10-f562-7402-ae27-4e6d1ac71b9c"}
    assert [(fact["input_tokens"], fact["output_tokens"]) for fact in found] == [(11, 7)] * 3
    assert [verify_call(item.subject, Settings(), item.decision) for item in walked] == [[], [], []]
