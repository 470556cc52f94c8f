# SPDX-License-Identifier: Apache-2.0
"""Files that real instrumentations wrote hold as many records as they show."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sediment_otel.sources.files import expand, read
from sediment_otel.telemetry import Span

CAPTURES = Path(__file__).parent.parent / "data" / "captures"

EXPECTED = {
    "agent-framework-1.23.0.default.console.jsonl": {"Span": 4},
    "agent-framework-1.23.0.default.logs.console.jsonl": {"LogRecord": 8},
    "ai-sdk-7.0.173-otel-1.0.173.js.jsonl": {"Span": 6},
    "google_adk_exp.json": {"Span": 5},
    "google_adk_exp.logs.json": {"LogRecord": 2},
    "langfuse_openai.json": {"Span": 14},
    "litellm-1.110.2.semconv.console.jsonl": {"Span": 2},
    "litellm-1.110.2.semconv.logs.console.jsonl": {"LogRecord": 2},
    "openinference-openai-0.1.66.console.jsonl": {"Span": 5},
    "openinference_litellm.json": {"Span": 4},
    "openllmetry-0.62.4.console.json": {"Span": 5},
    "otel-genai-1.3b0.EVENT_ONLY.logs.jsonl": {"LogRecord": 5},
    "otel-genai-1.3b0.EVENT_ONLY.traces.jsonl": {"Span": 5},
    "otel-genai-1.3b0.SPAN_ONLY.traces.jsonl": {"Span": 5},
    "otel-genai-1.3b0.upload-hook.json.traces.jsonl": {"Span": 5},
    "otel_genai_openai.json": {"Span": 13},
    "otel_genai_openai_agents.json": {"Span": 23},
    "otel_genai_openai_nocontent.json": {"Span": 13},
    "otel_genai_openai_nocontent.logs.json": {"LogRecord": 12},
    "otel_openai_v2_exp.json": {"Span": 7},
    "otel_openai_v2_exp.logs.json": {"LogRecord": 6},
    "otel_openai_v2_old.json": {"Span": 7},
    "otel_openai_v2_old.logs.json": {"LogRecord": 22},
    "pydantic-ai-2.68.0.v5.console.jsonl": {"Span": 4},
    "strands-1.62.0.legacy.console.jsonl": {"Span": 6},
    "strands_exp.json": {"Span": 12},
    "traceloop_openai.json": {"Span": 13},
    "traceloop_openai_agents.json": {"Span": 24},
    "traceloop_openai_old.json": {"Span": 7},
}


def test_every_capture_of_the_table_is_there() -> None:
    assert {path.name for path in CAPTURES.iterdir() if ".json" in path.name and "expected" not in path.name} >= set(
        EXPECTED
    )


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_capture_gives_every_record_that_is_in_it(name: str) -> None:
    found: Counter[str] = Counter()
    for document, batch in read(expand([str(CAPTURES / name)])):
        assert not document.problem
        assert batch.recognised
        for item in batch.items:
            found[type(item).__name__] += 1
            if isinstance(item, Span):
                assert item.start_ns is not None
                assert item.end_ns is not None
                assert item.attributes
                assert item.kind != "unspecified"
    assert dict(found) == EXPECTED[name]
