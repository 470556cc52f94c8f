# SPDX-License-Identifier: Apache-2.0
"""What Sediment's own derivation and export make of the captures: rollouts that chain, rows for every call that the
trainer rules allow; and `validate` says beforehand which calls those are."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import rig

from sediment_otel.facts import InferenceCall
from sediment_otel.translate.trainer import refusals


@pytest.fixture
def stored(sediment: rig.Sediment, captures: Path, tmp_path: Path) -> dict[str, dict[str, Any]]:
    """All facts of the captures in the store, each with a model call id of its own: the model service that the
    captures were made against answered with fixed ids, and a decision counts only where its id means one call."""
    facts = [json.loads(line) for line in captures.read_bytes().splitlines()]
    for fact in facts:
        fact["model_call_id"] = f"call-{fact['inference_call_id']}"
    path = tmp_path / "facts.jsonl"
    path.write_text("".join(json.dumps(fact) + "\n" for fact in facts), encoding="utf-8")
    done = sediment.ours("deliver", str(path), "--to", f"sediment+{sediment.database}")
    assert done.returncode == 0, done.stderr
    return {fact["inference_call_id"]: fact for fact in facts}


def test_the_trainer_refuses_exactly_what_is_foretold(
    sediment: rig.Sediment, stored: dict[str, dict[str, Any]]
) -> None:
    judged = sediment.core("map")
    assert judged.keys() == stored.keys()
    for name, fact in stored.items():
        foretold = {
            refusal.code for refusal in refusals(InferenceCall.from_json(json.dumps(fact))) if not refusal.dpo_only
        }
        assert (judged[name] in foretold) if judged[name] else not foretold, (name, judged[name], foretold)
    kept = Counter("kept" if reason is None else f"refused: {reason}" for reason in judged.values())
    sys.stderr.write(f"\ntrainer mapping of {len(judged)} calls: {dict(kept)}\n")
    assert kept["kept"] > len(judged) / 2


def test_multi_turn_captures_chain_and_every_call_that_the_rules_allow_becomes_a_row(
    sediment: rig.Sediment, stored: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    assert sediment.core("accept") == len(stored)
    bundle, out = tmp_path / "bundle", tmp_path / "sft"
    told = sediment.sediment("derive", "--out", str(bundle))
    told += sediment.sediment("export", "sft", "--out", str(out), "--from", str(bundle))
    sys.stderr.write(told)
    sys.stderr.write(f"{sorted(p.name for p in bundle.iterdir())} {sorted(p.name for p in out.iterdir())}\n")
    raise AssertionError
