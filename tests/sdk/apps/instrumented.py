# SPDX-License-Identifier: Apache-2.0
"""The application of `agent.py` with the one line: python instrumented.py INSTRUMENTATION SINK MODE AGENT_ARGUMENTS...

MODE says where content goes: span, event, hook, or unsampled (the hook, and no span is sampled).
"""

from __future__ import annotations

import os
import sys
from typing import Any

import agent
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from sediment_otel.sdk import SedimentCompletionHook, SedimentLogRecordProcessor, SedimentSpanProcessor

CAPTURE = {"span": "SPAN_ONLY", "event": "EVENT_ONLY", "hook": "NO_CONTENT", "unsampled": "NO_CONTENT"}


def main(instrumentation: str, sink: str, mode: str, *arguments: str) -> None:
    legacy = instrumentation == "openai-v2"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true" if legacy else CAPTURE[mode]
    if legacy and mode == "span":
        os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
        os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
    provider = TracerProvider(sampler=ALWAYS_OFF if mode == "unsampled" else ALWAYS_ON)
    provider.add_span_processor(SedimentSpanProcessor(sink, settle=5.0))
    trace.set_tracer_provider(provider)
    more: dict[str, Any] = {}
    if mode == "event":
        logs = LoggerProvider()
        logs.add_log_record_processor(SedimentLogRecordProcessor(sink, settle=5.0))
        _logs.set_logger_provider(logs)
    if mode in ("hook", "unsampled"):
        more["completion_hook"] = SedimentCompletionHook(sink, settle=5.0)
    if instrumentation.startswith("pydantic-ai"):
        from pydantic_ai import Agent
        from pydantic_ai.models.instrumented import InstrumentationSettings

        Agent.instrument_all(InstrumentationSettings())
    client = instrumentation.removeprefix("pydantic-ai").removeprefix("+")
    if client:
        instrumentor(client)().instrument(**more)
    agent.main(*arguments)


def instrumentor(name: str) -> Any:
    if name == "genai-openai":
        from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

        return OpenAIInstrumentor
    if name == "openai-v2":
        from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

        return OpenAIInstrumentor
    from opentelemetry.instrumentation.genai.anthropic import AnthropicInstrumentor

    return AnthropicInstrumentor


if __name__ == "__main__":
    main(*sys.argv[1:])
