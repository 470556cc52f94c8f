# SPDX-License-Identifier: Apache-2.0
"""Fixtures: `sediment` (a running one, empty before each test), `captures` (the facts of all real captures)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import rig

from sediment_otel.conversion import convert
from sediment_otel.settings import Settings
from sediment_otel.sinks import open_sink
from sediment_otel.sources.files import expand

CAPTURES = Path(__file__).parents[1] / "data" / "captures"


@pytest.fixture(scope="session")
def running() -> Iterator[rig.Sediment]:
    try:
        found = rig.Sediment()
    except rig.Unavailable as error:
        pytest.skip(f"no running Sediment: {error}")
    found.start()
    yield found
    found.close()


@pytest.fixture
def sediment(running: rig.Sediment, monkeypatch: pytest.MonkeyPatch) -> rig.Sediment:
    running.core("empty")
    monkeypatch.setenv("SEDIMENT_OTEL_TOKEN", running.token)
    return running


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One JSON Lines file of the facts of every capture, each capture without a session in one of its own."""
    folder = tmp_path_factory.mktemp("facts")
    whole = folder / "facts.jsonl"
    with whole.open("wb") as out:
        for truth_file in sorted(CAPTURES.glob("*.expected.json")):
            truth = json.loads(truth_file.read_text(encoding="utf-8"))
            name = truth_file.name.removesuffix(".expected.json")
            inputs = [str(CAPTURES / truth[key]) for key in ("capture", "logs") if truth.get(key)]
            session = name if truth["session"].startswith(("none", "mixed")) else None
            path = folder / f"{name}.jsonl"
            convert(
                expand(inputs),
                lambda ids, path=path: open_sink(str(path), may_repeat=ids),  # type: ignore[misc]
                Settings(org=rig.ORG, session_id=session),
            )
            out.write(path.read_bytes())
    return whole


def facts_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]
