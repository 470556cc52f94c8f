# SPDX-License-Identifier: Apache-2.0
"""Writes the spans of one instrumentation: python spans_app.py INSTRUMENTATION FILE AGENT_ARGUMENTS...

The application is `agent.py` of tests/sdk, and the same through LiteLLM; nothing of sediment-otel is in it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "sdk" / "apps"))

import agent
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor


def litellm_completion(url: str, prompt: str, stream: bool) -> None:
    import litellm

    messages: list[Any] = [{"role": "system", "content": agent.SYSTEM}, {"role": "user", "content": prompt}]
    tools = [{"type": "function", "function": {"name": n, "parameters": agent.schema(n)}} for n in agent.NAMES]
    while True:
        got = litellm.completion(
            model="openai/gpt", api_base=f"{url}/v1", api_key="key", messages=messages, tools=tools, num_retries=0
        )
        message = got.choices[0].message.model_dump(exclude_none=True)
        calls = message.get("tool_calls")
        messages.append({key: message[key] for key in ("role", "content", "tool_calls") if message.get(key)})
        if not calls:
            return
        for call in calls:
            result = agent.answer_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})


def instrument(name: str, provider: TracerProvider) -> None:
    """Switch on one instrumentation."""
    if name == "openinference-openai":
        from openinference.instrumentation.openai import OpenAIInstrumentor

        OpenAIInstrumentor().instrument(tracer_provider=provider)
    elif name == "openinference-anthropic":
        from openinference.instrumentation.anthropic import AnthropicInstrumentor

        AnthropicInstrumentor().instrument(tracer_provider=provider)
    elif name == "traceloop-openai":
        from opentelemetry.instrumentation.openai import OpenAIInstrumentor as Traceloop

        Traceloop().instrument(tracer_provider=provider)
    elif name == "traceloop-anthropic":
        from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor as TraceloopAnthropic

        TraceloopAnthropic().instrument(tracer_provider=provider)
    else:
        import litellm
        from litellm.integrations.opentelemetry import OpenTelemetry, OpenTelemetryConfig

        litellm.callbacks = [OpenTelemetry(config=OpenTelemetryConfig(exporter="console"), tracer_provider=provider)]


def main(name: str, file: str, *arguments: str) -> None:
    with Path(file).open("w", encoding="utf-8") as out:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out)))
        trace.set_tracer_provider(provider)
        agent.KINDS["litellm"] = litellm_completion
        instrument(name, provider)
        agent.main(*arguments)
        if name == "litellm":
            from litellm.litellm_core_utils.thread_pool_executor import executor

            executor.shutdown(wait=True)  # it tells of a call after the call
        provider.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
