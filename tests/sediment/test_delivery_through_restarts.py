# SPDX-License-Identifier: Apache-2.0
"""A delivery run while the server is killed and comes back, twice: everything is stored, nothing twice.

`SEDIMENT_DELIVERY_FACTS=10000` makes it a long run (`make restarts`); unset, a short one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import rig

from sediment_otel.facts import InferenceCall, InferenceMessage, TextPart
from sediment_otel.translate.identity import capture_id, inference_call_id

FACTS = int(os.environ.get("SEDIMENT_DELIVERY_FACTS") or 600)


def fact(number: int) -> InferenceCall:
    trace, span = f"{number // 10 + 1:032x}", f"{number + 1:016x}"
    return InferenceCall(
        inference_call_id=inference_call_id(rig.ORG, capture_id(f"{trace}:{span}")),
        org_id=rig.ORG,
        session_id=f"session-{number // 10}",
        user_id=None,
        gateway_provider="unknown",
        model_provider="openai",
        model="gpt-x",
        input_messages=[InferenceMessage("user", [TextPart(f"question {number} " + "words " * 100)], None)],
        output_messages=[InferenceMessage("assistant", [TextPart(f"answer {number} " + "words " * 50)], "stop")],
        input_tokens=number,
        output_tokens=1,
        duration_ms=7,
        model_call_id=f"call-{number}",
        observed_at=f"2026-01-01T00:00:00.{number:06d}Z",
        raw={"source": "otel", "contract": 1, "dialect": "gen_ai", "span": {"trace_id": trace, "span_id": span}},
    )


@pytest.mark.timeout(max(300, FACTS // 10))
def test_facts_are_stored_once_although_the_server_is_killed_twice(sediment: rig.Sediment, tmp_path: Path) -> None:
    facts = [fact(number) for number in range(FACTS)]
    path, report = tmp_path / "facts.jsonl", tmp_path / "report.json"
    path.write_bytes(b"".join(one.to_json() + b"\n" for one in facts))
    command = [sys.executable, "-m", "sediment_otel", "deliver", str(path), "--to", sediment.sink]
    process = subprocess.Popen(
        [*command, "--report", str(report), "--patience", "120"],
        env={**os.environ, "PYTHONPATH": str(rig.ROOT / "src")},
        stderr=subprocess.PIPE,
        text=True,
    )
    killed_at = []
    for part in (0.2, 0.6):
        # Somewhere in the middle of the run, as the database says, the server dies and is started again.
        while (there := sediment.core("count")) < part * FACTS:
            assert process.poll() is None, "the run was over before the server could be killed"
        sediment.kill()
        killed_at.append(there)
        sediment.start()
    _, told = process.communicate(timeout=max(120, FACTS // 20))
    assert process.returncode == 0, told
    assert 0 < killed_at[0] < killed_at[1] < FACTS

    stored = sediment.core("read")
    assert sorted(call["inference_call_id"] for call in stored) == sorted(one.inference_call_id for one in facts)
    account = json.loads(report.read_bytes())
    assert account["facts"] == FACTS
    # What was stored when its answer was lost came back as a duplicate; nothing else happened to any fact.
    assert sum(account["outcomes"].values()) == FACTS
    assert account["outcomes"].keys() <= {"stored", "duplicate"}
    assert any(item.get("attempts", 1) > 1 for item in account["items"])
    sys.stderr.write(f"\n{FACTS} facts, killed after {killed_at}: {account['outcomes']}\n")


def test_a_server_that_is_gone_ends_the_run_and_the_next_run_completes_it(
    sediment: rig.Sediment, tmp_path: Path
) -> None:
    path = tmp_path / "facts.jsonl"
    facts = [fact(number) for number in range(80)]
    path.write_bytes(b"".join(one.to_json() + b"\n" for one in facts))
    command = [sys.executable, "-m", "sediment_otel", "deliver", str(path), "--to", sediment.sink]
    environment = {**os.environ, "PYTHONPATH": str(rig.ROOT / "src")}
    sediment.kill()
    try:
        gone = subprocess.run(
            [*command, "--patience", "1"], env=environment, capture_output=True, text=True, timeout=120
        )
    finally:
        sediment.start()
    assert gone.returncode == 1
    assert "did not answer for long" in gone.stderr
    assert "Traceback" not in gone.stderr
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert sediment.core("count") == len(facts)


def test_two_senders_at_once_store_each_fact_once(sediment: rig.Sediment, tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    facts = [fact(number) for number in range(120)]
    path.write_bytes(b"".join(one.to_json() + b"\n" for one in facts))
    outcomes: list[dict[str, int]] = []

    def send(number: int) -> None:
        report = tmp_path / f"report-{number}.json"
        command = [sys.executable, "-m", "sediment_otel", "deliver", str(path), "--to", sediment.sink]
        subprocess.run(
            [*command, "--report", str(report)],
            env={**os.environ, "PYTHONPATH": str(rig.ROOT / "src")},
            capture_output=True,
            timeout=120,
            check=True,
        )
        outcomes.append(json.loads(report.read_bytes())["outcomes"])

    senders = [threading.Thread(target=send, args=(number,)) for number in range(2)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert sum(found.get("stored", 0) for found in outcomes) == len(facts)
    assert sum(found.get("duplicate", 0) for found in outcomes) == len(facts)
    assert sediment.core("count") == len(facts)
