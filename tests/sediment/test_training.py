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

import conformance.captures_check as captures_check
from sediment_otel.facts import InferenceCall
from sediment_otel.translate.trainer import refusals

CAPTURES = Path(__file__).parents[1] / "data" / "captures"


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


def told_segments(stored: dict[str, dict[str, Any]]) -> dict[str, list[list[str]]]:
    """The segments of each session as the hand-written truth of the captures says: a call continues the one before
    exactly if its input begins with that one's input and answer."""
    truths = {}
    for path in CAPTURES.glob("*.expected.json"):
        for call in json.loads(path.read_text(encoding="utf-8"))["calls"]:
            truths[captures_check.fact_id(rig.ORG, call["trace_id"], call["span_id"])] = call
    found: dict[str, list[list[str]]] = {}
    previous: dict[str, str] = {}
    for name, fact in sorted(stored.items(), key=lambda item: (item[1]["observed_at"], item[0])):
        segments = found.setdefault(fact["session_id"], [])
        before = previous.get(fact["session_id"])
        previous[fact["session_id"]] = name
        history = [{k: m[k] for k in ("role", "parts")} for m in fact["input_messages"]]
        said = truths[before]["input"] + truths[before]["output"] if before and truths[before]["output"] else None
        if said is not None and captures_check.diff(said, history[: len(said)], "") is None:
            segments[-1].append(name)
        else:
            segments.append([name])
    return found


def test_multi_turn_captures_chain_and_every_call_that_the_rules_allow_becomes_a_row(
    sediment: rig.Sediment, stored: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    assert sediment.core("accept") == len(stored)
    bundle, endorsed, out = tmp_path / "bundle", tmp_path / "endorsed", tmp_path / "sft"
    sediment.sediment("derive", "--out", str(bundle))

    rollouts = [json.loads(json.loads(line)["record_json"]) for line in (bundle / "rollouts.jsonl").open()]
    chained = {
        rollout["session_id"]: [[turn["inference_call_id"] for turn in segment] for segment in rollout["segments"]]
        for rollout in rollouts
    }
    wanted = told_segments(stored)
    assert chained == wanted
    turns = Counter(len(segment) for segments in chained.values() for segment in segments)
    sys.stderr.write(f"\nsegments by number of turns: {dict(sorted(turns.items()))}\n")
    assert sum(number for length, number in turns.items() if length > 1) > 20
    whole = [session for session, segments in chained.items() if len(segments) == 1 and len(segments[0]) > 1]
    assert len(whole) >= 10, "sessions of one conversation are one segment"

    assert sediment.core("endorse", source=str(bundle), out=str(endorsed)) == len(stored)
    told = sediment.sediment("export", "sft", "--out", str(out), "--from", str(endorsed))
    rows = [json.loads(line) for path in sorted(out.glob("sft.*.jsonl")) for line in path.open()]
    allowed = {
        name
        for name, fact in stored.items()
        if not [found for found in refusals(InferenceCall.from_json(json.dumps(fact))) if not found.dpo_only]
    }
    sys.stderr.write(told)
    assert {row["metadata"]["completion_id"] for row in rows} == allowed
    assert len(rows) == len(allowed)
