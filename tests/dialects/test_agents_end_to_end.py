# SPDX-License-Identifier: Apache-2.0
"""Synthetic telemetry of coding agents, from files to facts and back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sediment_otel.settings import Settings
from sediment_otel.sources.files import expand
from sediment_otel.traces import Traces
from sediment_otel.translate.verify import verify_call

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
