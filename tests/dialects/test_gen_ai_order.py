# SPDX-License-Identifier: Apache-2.0
"""What a call of chat completions answered and what the next one repeats come out equal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sediment_otel.settings import Settings
from sediment_otel.telemetry import Scope, Span
from sediment_otel.translate.call import translate

TEXT = {"type": "text", "content": "Step 1."}
CALLS = [{"type": "tool_call", "id": f"c{n}", "name": "step", "arguments": {"n": n}} for n in (1, 2)]


def parts_of(direction: str, parts: list[dict[str, Any]], scope: str) -> list[str]:
    """Of a span that the short way takes, but for the order of the parts."""
    keys = {"input": "gen_ai.input.messages", "output": "gen_ai.output.messages"}
    plain = json.dumps([{"role": "assistant", "parts": [TEXT]}])
    attributes = {
        **dict.fromkeys(keys.values(), plain),
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "session.id": "s",
        keys[direction]: json.dumps([{"role": "assistant", "parts": parts}]),
    }
    span = Span(
        trace_id="1" * 32, span_id="2" * 16, start_ns=1, end_ns=2, attributes=attributes, scope=Scope(name=scope)
    )
    fact = translate(span, Settings()).fact
    assert fact is not None
    messages = fact.input_messages if direction == "input" else fact.output_messages
    return [getattr(part, "id", None) or "text" for part in messages[0].parts]


@pytest.mark.parametrize("direction", ["input", "output"])
@pytest.mark.parametrize("parts", [[TEXT, *CALLS], [*CALLS, TEXT], [CALLS[0], TEXT, CALLS[1]]])
def test_the_text_stands_before_the_tool_calls(direction: str, parts: list[dict[str, Any]]) -> None:
    assert parts_of(direction, parts, "opentelemetry.instrumentation.genai.openai") == ["text", "c1", "c2"]


def test_the_order_of_other_producers_is_theirs() -> None:
    scope = "opentelemetry.instrumentation.genai.anthropic"
    assert parts_of("output", [CALLS[0], TEXT, CALLS[1]], scope) == ["c1", "text", "c2"]
