# SPDX-License-Identifier: Apache-2.0
"""Facts for the tests of places."""

from __future__ import annotations

from typing import Any

from sediment_otel.facts import (
    InferenceCall,
    InferenceMessage,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
)
from sediment_otel.sinks.base import Delivery
from sediment_otel.translate.identity import capture_id, inference_call_id


def fact(number: int, *, org: str = "acme", day: int = 1, **more: Any) -> InferenceCall:
    trace, span = f"{1:032x}", f"{number + 1:016x}"
    given: dict[str, Any] = {
        "inference_call_id": inference_call_id(org, capture_id(f"{trace}:{span}")),
        "org_id": org,
        "session_id": f"session-{number % 3}",
        "user_id": None,
        "gateway_provider": "unknown",
        "model_provider": "openai",
        "model": "gpt-x",
        "input_messages": [
            InferenceMessage("user", [TextPart("weather? 天气")], None),
            InferenceMessage("assistant", [ToolCallPart("t1", "weather", {"city": "Paris", "n": 2**80})], None),
            InferenceMessage("tool", [ToolCallResponsePart("t1", {"temp_c": 18.0, "sky": None})], None),
            InferenceMessage("tool", [ToolCallResponsePart("t2", None), ToolCallResponsePart("t3", "text")], None),
            InferenceMessage("user", [], None),
        ],
        "output_messages": [InferenceMessage("assistant", [ReasoningPart("hm"), TextPart("18 °C")], "stop")],
        "input_tokens": number,
        "output_tokens": None,
        "duration_ms": 2**63 - 1,
        "model_call_id": f"call-{number}",
        "observed_at": f"2026-01-{day:02d}T12:00:00.{number:06d}Z",
        "raw": {"source": "otel", "contract": 1, "span": {"trace_id": trace, "span_id": span}, "big": 2**70, "x": None},
    }
    return InferenceCall(**{**given, **more})


def deliveries(*facts: InferenceCall) -> list[Delivery]:
    return [Delivery.of(one) for one in facts]
