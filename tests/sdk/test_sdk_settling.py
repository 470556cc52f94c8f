# SPDX-License-Identifier: Apache-2.0
"""Which call a log record without a span id belongs to, in process and in files alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sediment_otel.otlp import encode_json
from sediment_otel.sdk.convert import Converter
from sediment_otel.sdk.open_spans import OpenSpans
from sediment_otel.sdk.settling import Settling
from sediment_otel.settings import Settings
from sediment_otel.sources.files import expand
from sediment_otel.telemetry import LogRecord, Span
from sediment_otel.traces import Traces
from sediment_otel.translate.select import LATE_NS

START = 1_790_000_000_000_000_000
SECOND = 1_000_000_000


def call(number: int, start: int) -> Span:
    return Span(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        name="chat",
        start_ns=start,
        end_ns=start + SECOND,
        attributes={"gen_ai.operation.name": "chat", "session.id": "s"},
    )


def details(time_ns: int) -> LogRecord:
    part: dict[str, Any] = {"type": "text", "content": "Four."}
    return LogRecord(
        time_ns=time_ns,
        event_name="gen_ai.client.inference.operation.details",
        attributes={
            "session.id": "s",
            "gen_ai.output.messages": [{"role": "assistant", "parts": [part]}],
        },
    )


def in_process(spans: list[Span], record: LogRecord) -> list[int]:
    """Records of each call, then those of calls that have no span."""
    settling = Settling(Settings(), settle=60.0, tree_size=10, most_waiting=10, open_spans=OpenSpans(10, Converter()))
    settling.add_record(record, 0.0)
    for span in spans:
        settling.add_span(span, 0.0, local_parent=False)
    ready = settling.ready(1.0, final=True)
    found = [len(one.subject.records) for one in ready if not one.is_new]
    return [*found, sum(one.is_new for one in ready)]


def in_a_file(spans: list[Span], record: LogRecord, folder: Path) -> list[int]:
    path = folder / "trace.jsonl"
    lines = [json.dumps(encode_json([item])) for item in (record, *spans)]
    path.write_text("\n".join(lines), encoding="utf-8")
    walked = list(Traces(expand([str(path)]), Settings()).walk())
    found = [len(one.subject.records) for one in walked if not one.subject.log_only]
    return [*found, sum(one.subject.log_only for one in walked)]


@pytest.mark.parametrize(
    ("what", "time_ns", "expected"),
    [
        ("inside a call", START + 1, [1, 0, 0]),
        ("just behind it", START + SECOND + LATE_NS, [1, 0, 0]),
        ("too far behind it", START + SECOND + LATE_NS + 1, [0, 0, 1]),
        ("just behind one and inside another", START + SECOND + 2, [0, 1, 0]),
        ("before all", START - 1, [0, 0, 1]),
    ],
)
def test_a_record_belongs_to_the_call_of_its_session_at_its_time(
    what: str, time_ns: int, expected: list[int], tmp_path: Path
) -> None:
    second = START + SECOND + (1 if what.startswith("just behind one") else 10 * SECOND)
    spans = [call(1, START), call(2, second)]
    assert in_process(spans, details(time_ns)) == expected
    assert in_a_file(spans, details(time_ns), tmp_path) == expected
