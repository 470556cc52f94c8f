# SPDX-License-Identifier: Apache-2.0
"""`sediment-otel convert` through the real command line: outputs, exit codes, workers, order, repetition."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
CAPTURES = ROOT / "tests" / "data" / "captures"


def run(*arguments: Any, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SEDIMENT_OTEL_")}
    command = [sys.executable, "-m", "sediment_otel", "convert", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, env={**clean, **environment}, check=False)


def call(number: int, *, trace: int | None = None, parent: int | None = None, **attributes: Any) -> dict[str, Any]:
    messages = [{"role": "user", "parts": [{"type": "text", "content": f"Question {number}?"}]}]
    answer = [
        {"role": "assistant", "parts": [{"type": "text", "content": f"Answer {number}."}], "finish_reason": "stop"}
    ]
    values = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.id": f"r-{number}",
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.output.messages": json.dumps(answer),
        "session.id": f"s-{number % 3}",
        **attributes,
    }
    start = 1_790_000_000_000_000_000 + (number if trace is None else trace) * 1_000_000_000
    return {
        "traceId": f"{(trace if trace is not None else number) + 1:032x}",
        "spanId": f"{number + 1:016x}",
        **({"parentSpanId": f"{parent + 1:016x}"} if parent is not None else {}),
        "name": "chat m-1",
        "kind": 3,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 500_000_000),
        "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in values.items() if v is not None],
    }


def line(*spans: dict[str, Any]) -> bytes:
    scoped = {"scope": {"name": "demo"}, "spans": list(spans)}
    return json.dumps({"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scoped]}]}).encode() + b"\n"


def facts(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(each) for each in data.splitlines()]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Some three megabytes of lines: enough to be cut for workers, with nests and inherited sessions across them."""
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        for number in range(0, 4200, 3):
            agent = call(
                number, trace=number, **{"gen_ai.operation.name": "invoke_agent", "session.id": f"agent-{number}"}
            )
            outer = call(number + 1, trace=number, parent=number, **{"session.id": None})
            inner = call(number + 2, trace=number, parent=number + 1, **{"session.id": None})
            for span in random.Random(number).sample([agent, outer, inner], 3):
                file.write(line(span))
    return path


def test_facts_go_to_standard_output_and_words_to_standard_error() -> None:
    done = run("-", stdin=line(call(1)))
    assert done.returncode == 0
    assert [fact["session_id"] for fact in facts(done.stdout)] == ["s-1"]
    assert b"1 fact from 1 span to standard output" in done.stderr


def test_workers_change_nothing_but_the_time(large: Path, tmp_path: Path) -> None:
    for workers in (1, 2, 5):
        report = tmp_path / f"report-{workers}.json"
        done = run(large, "-o", tmp_path / f"facts-{workers}.jsonl", "--workers", workers, "--report", report)
        assert done.returncode == 0, done.stderr
    one = (tmp_path / "facts-1.jsonl").read_bytes()
    assert len(one.splitlines()) == 1400
    for workers in (2, 5):
        assert (tmp_path / f"facts-{workers}.jsonl").read_bytes() == one
        assert (tmp_path / f"report-{workers}.json").read_bytes() == (tmp_path / "report-1.json").read_bytes()


def test_the_innermost_call_inherits_the_session_of_an_agent_on_another_line(large: Path) -> None:
    done = run(large)
    found = facts(done.stdout)
    assert {fact["session_id"] for fact in found} == {f"agent-{number}" for number in range(0, 4200, 3)}
    assert {int(fact["raw"]["span"]["span_id"], 16) % 3 for fact in found} == {0}


def test_shuffled_spans_give_the_same_facts(tmp_path: Path) -> None:
    spans = [call(n, trace=n // 4, parent=n - 1 if n % 4 else None) for n in range(40)]
    whole = run("-", stdin=line(*spans))
    shuffled = random.Random(7).sample(spans, len(spans))
    pieces = run("-", stdin=b"".join(line(span) for span in shuffled))
    assert sorted(whole.stdout.splitlines()) == sorted(pieces.stdout.splitlines())
    assert len(whole.stdout.splitlines()) == 10


def test_converting_the_same_traces_twice_stores_nothing_twice(tmp_path: Path) -> None:
    source = tmp_path / "traces.jsonl.gz"
    source.write_bytes(gzip.compress(b"".join(line(call(n)) for n in range(5))))
    store = tmp_path / "facts.db"
    first = run(source, "-o", store)
    second = run(source, "-o", store)
    assert b"5 facts from 5 spans" in first.stderr
    assert b"0 facts from 5 spans" in second.stderr
    assert b"skipped 5 duplicate" in second.stderr


def test_the_same_span_with_other_content_is_a_conflict_and_the_first_stays() -> None:
    other = call(1)
    other["attributes"][4]["value"]["stringValue"] = (
        '[{"role":"assistant","parts":[{"type":"text","content":"Other."}]}]'
    )
    done = run("-", stdin=line(call(1)) + line(other) + line(call(1)))
    assert len(facts(done.stdout)) == 1
    assert b"Answer 1." in done.stdout
    assert b"skipped 1 duplicate" in done.stderr
    assert b"skipped 1 conflict" in done.stderr


def test_model_call_ids_that_repeat_are_kept_and_told() -> None:
    done = run("-", stdin=line(call(1), call(2, **{"gen_ai.response.id": "r-1"})))
    assert len(facts(done.stdout)) == 2
    assert b"model_call_id_reused" in done.stderr


EXIT_CODES: dict[str, tuple[list[str], bytes, int, bytes]] = {
    "no such file": (["no-such-file.jsonl"], b"", 1, b"no such file"),
    "a padded organisation": (["-", "--org", " acme"], line(call(1)), 2, b"org"),
    "an unknown gateway": (["-", "--gateway", "nginx"], line(call(1)), 2, b"litellm, portkey, helicone, unknown"),
    "an unknown raw mode": (["-", "--raw", "half"], line(call(1)), 2, b"full, residual"),
    "an unknown sink": (["-", "-o", "facts.xlsx"], line(call(1)), 2, b"facts.xlsx"),
    "no option value": (["-", "--org"], b"", 2, b"--org"),
    "not telemetry": (["-"], b'{"hello": 1}\n', 3, b"No telemetry recognised"),
    "nothing at all": (["-"], b"", 3, b"No telemetry recognised"),
    "noise": (["-"], bytes(range(256)) * 8, 3, b"No telemetry recognised"),
    "no model call": (
        ["-"],
        line(call(1, **{"gen_ai.operation.name": "rerank"})),
        0,
        b"None of the spans is a model call",
    ),
    "a broken line beside good ones": (
        ["-"],
        line(call(1)) + b'{"resourceSpans": [\n' + line(call(2)),
        0,
        b"unreadable",
    ),
    "strict and degraded": (
        ["-", "--strict"],
        line(call(1, **{"gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"uri","uri":"x"}]}]'})),
        3,
        b"kept in raw only: 1 uri",
    ),
    "strict and skipped": (["-", "--strict"], line(call(1, **{"session.id": None})), 3, b"--session-id"),
    "strict and fine": (["-", "--strict"], line(call(1)), 0, b"1 fact"),
}


@pytest.mark.parametrize("name", EXIT_CODES)
def test_exit_codes_and_their_words(name: str, tmp_path: Path) -> None:
    arguments, stdin, code, words = EXIT_CODES[name]
    done = run(*arguments, stdin=stdin)
    assert done.returncode == code, done.stderr
    assert words in b" ".join(done.stderr.split())
    assert b"Traceback" not in done.stderr


def test_an_unreadable_input_costs_only_itself(tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    good.write_bytes(line(call(1)))
    done = run(tmp_path / "missing.jsonl", good)
    assert done.returncode == 1
    assert len(facts(done.stdout)) == 1


def test_settings_come_from_the_environment_and_options_win() -> None:
    done = run("-", stdin=line(call(1)), SEDIMENT_OTEL_ORG_ID="Globex", SEDIMENT_OTEL_GATEWAY="portkey")
    (fact,) = facts(done.stdout)
    assert (fact["org_id"], fact["gateway_provider"]) == ("globex", "portkey")
    done = run("-", "--org", "acme", stdin=line(call(1)), SEDIMENT_OTEL_ORG_ID="Globex")
    assert facts(done.stdout)[0]["org_id"] == "acme"


def test_quiet_says_nothing_when_all_is_well() -> None:
    done = run("-", "--quiet", stdin=line(call(1)))
    assert done.stderr == b""


def test_the_report_adds_up(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    spans = [call(1), call(1), call(2, **{"session.id": None}), call(3, **{"gen_ai.operation.name": "embeddings"})]
    run("-", "--report", report, stdin=line(*spans) + b"{broken\n")
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found["spans"] == 4 == found["facts"] + sum(found["skipped"].values())
    assert found["skipped"] == {"not_a_model_call": 1, "no_session": 1, "duplicate": 1}
    assert [item["outcome"] for item in found["items"]] == ["fact", "skipped", "skipped", "skipped"]
    assert "Question" not in report.read_text(encoding="utf-8")


def test_a_fact_over_the_limit_is_oversized() -> None:
    done = run("-", "--max-fact-bytes", "500", stdin=line(call(1)))
    assert done.stdout == b""
    assert b"skipped 1 oversized" in done.stderr
    assert b"--max-fact-bytes" in done.stderr


def test_a_reader_that_leaves_ends_the_run_quietly(large: Path) -> None:
    command = f"{sys.executable} -m sediment_otel convert {large} --quiet | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert len(facts(done.stdout)) == 1
    assert b"Traceback" not in done.stderr


def test_a_capture_gives_the_same_bytes_today_and_tomorrow() -> None:
    source = CAPTURES / "otel_genai_openai.json"
    logs = CAPTURES / "otel_genai_openai.logs.json"
    first = run(source, logs, "--session-id", "s-1")
    second = run(logs, source, "--session-id", "s-1")
    assert first.stdout == second.stdout
    assert len(facts(first.stdout)) == 10
