# SPDX-License-Identifier: Apache-2.0
"""Spans that no dialect reads but that look like messages are told: by convert, its report, and explain."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sediment_otel.lookalikes import told
from sediment_otel.telemetry import Scope, Span, SpanEvent

TEXT = '[{"role": "user", "content": "a secret thing"}]'


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sediment_otel", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def written(folder: Path, attributes: dict[str, str], scope: str = "acme.llm", spans: int = 1) -> str:
    made = [
        {
            "traceId": "0af7651916cd43dd8448eb211c80319c",
            "spanId": f"{number:016x}",
            "name": "ask",
            "startTimeUnixNano": "1790000000000000000",
            "endTimeUnixNano": "1790000001000000000",
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }
        for number in range(1, spans + 1)
    ]
    request = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": made}]}]}
    (folder / "traces.json").write_text(json.dumps(request), encoding="utf-8")
    return str(folder / "traces.json")


def test_convert_tells_scope_and_keys_in_its_summary_and_its_report(tmp_path: Path) -> None:
    source, report = written(tmp_path, {"acme.messages": TEXT, "http.route": "/ask"}, spans=3), tmp_path / "r.json"
    done = run("convert", source, "-o", str(tmp_path / "facts.jsonl"), "--report", str(report))
    assert "not read by any dialect: 3 spans: acme.messages of scope acme.llm looks like messages" in done.stderr
    assert '"look_like_messages":[{"scope":"acme.llm","keys":["acme.messages"],"spans":3}]' in report.read_text(
        encoding="utf-8"
    ).replace(" ", "").replace("\n", "")
    assert "a secret thing" not in done.stdout + done.stderr + report.read_text(encoding="utf-8")


def test_explain_tells_them_in_its_overview(tmp_path: Path) -> None:
    done = run("explain", written(tmp_path, {"acme.messages": TEXT}))
    assert "no dialect knows this span; acme.messages of scope acme.llm looks like messages" in done.stdout


def test_nothing_is_told_of_other_spans(tmp_path: Path) -> None:
    source = written(tmp_path, {"rpc.message.type": "SENT", "db.query.text": "SELECT message FROM prompts"})
    done = run("convert", source, "-o", str(tmp_path / "facts.jsonl"))
    assert "messages" not in done.stderr


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (TEXT, True),
        ("  {'role': 'user'}", True),
        ([{"role": "user"}], True),
        (['{"role": "user"}'], True),
        ({"parts": []}, True),
        ("role", False),
        ("[1, 2]", False),
        ([], False),
        ([[]], False),
        (None, False),
        (3, False),
        (b'[{"role": 1}]', False),
    ],
)
def test_a_value_looks_like_messages_by_what_is_in_it(value: Any, found: bool) -> None:
    assert (told(held(attributes={"any.key": value})) == ("s", ("any.key",))) is found
    in_event = held(events=[SpanEvent(name="e", attributes={"in.event": value})])
    assert (told(in_event) == ("s", ("in.event",))) is found


def held(scope: str = "s", **more: Any) -> Span:
    return Span(trace_id="0" * 31 + "1", span_id="0" * 15 + "1", name="x", scope=Scope(name=scope), **more)


def test_hostile_names_are_cut_and_without_credentials() -> None:
    key = "sk-ant-api03-" + "a" * 95 + "AA"
    scope, keys = told(held(key, attributes={key: TEXT, "\ud800": TEXT, "k" * 9999: TEXT})) or ("", ())
    assert len(keys) == 3
    assert "a" * 20 not in scope + "".join(keys)
    assert max(map(len, keys)) <= 200
