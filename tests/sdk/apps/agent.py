# SPDX-License-Identifier: Apache-2.0
"""An application that calls a model: no word of sediment-otel in it.

    python agent.py URL KIND PROMPT[,PROMPT...] [stream] [baggage]

Each prompt is one conversation under a root span that names its session (or in baggage that does); tools are
answered until the model is done.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from opentelemetry import baggage, context, trace

SYSTEM = "You are terse."
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
NAMES = {"get_weather": "city", "step": "number"}


def answer_tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What our tools say."""
    return {"tool": name, "got": arguments[NAMES[name]]}


def schema(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {NAMES[name]: {}}}


def openai_chat(url: str, prompt: str, stream: bool) -> None:
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0)
    content: Any = prompt
    if prompt == "image":
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
        content = [{"type": "text", "text": prompt}, image]
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]
    tools = [{"type": "function", "function": {"name": name, "parameters": schema(name)}} for name in NAMES]
    while True:
        more: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        got = client.chat.completions.create(model="gpt", messages=messages, tools=tools, **more)
        message = gathered(got) if stream else got.choices[0].message.model_dump(exclude_none=True)
        calls = message.get("tool_calls")
        messages.append({key: message[key] for key in ("role", "content", "tool_calls") if message.get(key)})
        if not calls:
            return
        for call in calls:
            result = answer_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})


def gathered(chunks: Any) -> dict[str, Any]:
    """The message that a stream of chunks makes."""
    message: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": []}
    for chunk in chunks:
        if not chunk.choices:
            continue
        delta = chunk.choices[0].delta
        message["content"] += delta.content or ""
        for call in delta.tool_calls or ():
            if call.id:
                message["tool_calls"].append(
                    {"id": call.id, "type": "function", "function": {"name": "", "arguments": ""}}
                )
            function = message["tool_calls"][call.index]["function"]
            function["name"] += call.function.name or ""
            function["arguments"] += call.function.arguments or ""
    return message


def openai_responses(url: str, prompt: str, stream: bool) -> None:
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0)
    content: list[Any] = [{"type": "input_text", "text": prompt}]
    if prompt == "image":
        content.append({"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"})
    items: list[Any] = [{"role": "user", "content": content}]
    tools: list[Any] = [{"type": "function", "name": name, "parameters": schema(name)} for name in NAMES]
    while True:
        if stream:
            events = client.responses.create(model="gpt", instructions=SYSTEM, input=items, tools=tools, stream=True)
            got = next(event for event in events if event.type == "response.completed").response
            events.close()
        else:
            got = client.responses.create(model="gpt", instructions=SYSTEM, input=items, tools=tools)
        calls = [item for item in got.output if item.type == "function_call"]
        items += [item.model_dump(exclude_none=True) for item in got.output]
        if not calls:
            return
        for call in calls:
            result = answer_tool(call.name, json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": json.dumps(result)})


def anthropic(url: str, prompt: str, stream: bool) -> None:
    from anthropic import Anthropic

    client = Anthropic(base_url=url, api_key="key", max_retries=0)
    content: list[Any] = [{"type": "text", "text": prompt}]
    if prompt == "image":
        content.append({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}})
    messages: list[Any] = [{"role": "user", "content": content}]
    tools: list[Any] = [{"name": name, "input_schema": schema(name)} for name in NAMES]
    while True:
        asked: dict[str, Any] = {"model": "claude", "max_tokens": 99, "messages": messages, "tools": tools}
        if stream:
            with client.messages.stream(system=SYSTEM, **asked) as events:
                got = events.get_final_message()
        else:
            got = client.messages.create(system=SYSTEM, **asked)
        blocks = [block.model_dump(exclude_none=True) for block in got.content]
        messages.append({"role": "assistant", "content": blocks})
        calls = [block for block in blocks if block["type"] == "tool_use"]
        if not calls:
            return
        results = [
            {"type": "tool_result", "tool_use_id": c["id"], "content": json.dumps(answer_tool(c["name"], c["input"]))}
            for c in calls
        ]
        messages.append({"role": "user", "content": results})


def pydantic_ai(url: str, prompt: str, stream: bool) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("gpt", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="key"))
    agent: Any = Agent(model, instructions=SYSTEM)

    @agent.tool_plain
    def get_weather(city: str) -> dict[str, Any]:
        return answer_tool("get_weather", {"city": city})

    @agent.tool_plain
    def step(number: int) -> dict[str, Any]:
        return answer_tool("step", {"number": number})

    agent.run_sync(prompt)


KINDS = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "pydantic-ai": pydantic_ai,
}


def main(url: str, kind: str, prompts: str, *flags: str) -> None:
    tracer = trace.get_tracer("agent")
    for prompt in prompts.split(","):
        session = f"session-{prompt}"
        named: dict[str, str] = {} if "baggage" in flags else {"session.id": session}
        token = context.attach(
            baggage.set_baggage("session.id", session) if "baggage" in flags else context.get_current()
        )
        with tracer.start_as_current_span("conversation", attributes=named):
            try:
                KINDS[kind](url, prompt, "stream" in flags)
            except Exception as error:
                if prompt != "fail":
                    raise
                print(type(error).__name__, file=sys.stderr)
        context.detach(token)


if __name__ == "__main__":
    main(*sys.argv[1:])
