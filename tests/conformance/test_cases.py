# SPDX-License-Identifier: Apache-2.0
"""Every conformance case holds: one small input each, through the command line, against what must come of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import conformance.cases_run as cases_run
from conformance import in_process

CASES = sorted((Path(__file__).parents[1] / "data" / "cases").glob("*.json"))


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: getattr(cases_run.subprocess, name) for name in ("DEVNULL", "TimeoutExpired")}
    monkeypatch.setattr(cases_run, "subprocess", SimpleNamespace(run=in_process.run, **known))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_case_holds(path: Path) -> None:
    name, difference = cases_run.run_case(path, ["sediment-otel"])
    assert difference is None, f"{name}: {difference}"


def test_there_are_cases() -> None:
    assert len(CASES) > 100


def test_a_difference_is_seen() -> None:
    case = cases_run.load_case(next(path for path in CASES if path.stem == "message-openinference-indexed"))
    case["expect"]["facts"][0]["model"] = "another-model"
    done = in_process.run(["sediment-otel", "convert", "no-such-file.json"])
    assert done.returncode == 1
    assert cases_run.check(case, 0, b"", b"", None) is not None
