# SPDX-License-Identifier: Apache-2.0
"""Every real capture gives the facts that were written down by hand for it, and skips the rest for the reason given."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import conformance.captures_check as captures_check
from conformance import in_process

FOLDER = Path(__file__).parents[1] / "data" / "captures"
TRUTHS = sorted(FOLDER.glob("*.expected.json"))


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: getattr(captures_check.subprocess, name) for name in ("PIPE", "DEVNULL", "TimeoutExpired")}
    monkeypatch.setattr(captures_check, "subprocess", SimpleNamespace(run=in_process.run, **known))


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda path: path.name.removesuffix(".expected.json"))
def test_the_capture_gives_its_facts(truth: Path) -> None:
    passed, failed, problems, notes = captures_check.check(["sediment-otel"], truth)
    assert not problems, "\n".join(problems)
    assert failed == 0
    assert not notes, "\n".join(notes)
    assert passed > 0


def test_there_are_captures() -> None:
    assert len(TRUTHS) > 20


def test_a_difference_is_seen() -> None:
    truth: dict[str, Any] = json.loads((FOLDER / "openinference_litellm.expected.json").read_text(encoding="utf-8"))
    facts, report, error = captures_check.convert(["sediment-otel"], FOLDER, truth)
    assert error is None
    call = {**truth["calls"][0], "model": "another-model"}
    fact = next(fact for fact in facts if captures_check.span_of(fact) == call["span_id"])
    assert captures_check.compare(call, fact, report)
    assert not captures_check.compare(truth["calls"][0], fact, report)
