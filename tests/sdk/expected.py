# SPDX-License-Identifier: Apache-2.0
"""What a fact must hold, told from what was sent to the fake model server and what it answered."""

from __future__ import annotations

import json
from typing import Any

from fakeserver.server import FORMS, USAGE_IN, USAGE_OUT, Answer, decide, read_messages

REASONS = {"tool_calls": "tool_call", "tool_use": "tool_call", "end_turn": "stop", "completed": None}


def opened(value: Any) -> Any:
    """Text that is JSON, opened."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def part_of(block: dict[str, Any]) -> dict[str, Any] | None:
    """One block of content as a part of a fact; None for what a fact does not hold."""
    kind = block["type"]
    if kind in ("text", "input_text", "output_text"):
        return {"type": "text", "content": block["text"]}
    if kind == "thinking":
        return {"type": "reasoning", "content": block["thinking"]}
    if kind == "tool_use":
        return {"type": "tool_call", "id": block["id"], "name": block["name"], "arguments": block["input"]}
    if kind == "function_call":
        arguments = json.loads(block["arguments"])
        return {"type": "tool_call", "id": block["call_id"], "name": block["name"], "arguments": arguments}
    if kind == "tool_result":
        return {"type": "tool_call_response", "id": block["tool_use_id"], "result": opened(block["content"])}
    if kind == "function_call_output":
        return {"type": "tool_call_response", "id": block["call_id"], "result": opened(block["output"])}
    return None


def message_of(message: dict[str, Any]) -> dict[str, Any]:
    """One message or item as a message of a fact."""
    kind = message.get("type", "message")
    if kind == "function_call":
        return {"role": "assistant", "parts": [part_of(message)], "finish_reason": None}
    if kind == "function_call_output":
        return {"role": "tool", "parts": [part_of(message)], "finish_reason": None}
    if message["role"] == "tool":
        result = {"type": "tool_call_response", "id": message["tool_call_id"], "result": opened(message["content"])}
        return {"role": "tool", "parts": [result], "finish_reason": None}
    content = message.get("content") or []
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    parts = [part for part in map(part_of, blocks) if part is not None]
    for call in message.get("tool_calls") or ():
        function = call["function"]
        arguments = json.loads(function["arguments"])
        parts.append({"type": "tool_call", "id": call["id"], "name": function["name"], "arguments": arguments})
    return {"role": message["role"], "parts": parts, "finish_reason": None}


def merged(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Consecutive items of one answer as one message."""
    out: list[dict[str, Any]] = []
    for message in messages:
        if out and out[-1]["role"] == message["role"] == "assistant":
            out[-1] = {**out[-1], "parts": out[-1]["parts"] + message["parts"]}
        else:
            out.append(message)
    return out


def expected(path: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """The fact of one request, as far as the request and its answer tell it; None for a call that fails."""
    read, whole, _ = next(form for end, form in FORMS.items() if path.endswith(end))
    messages = read(body)
    asked = read_messages(messages)
    answer: Answer = decide(asked.prompt, asked.results, asked.images)
    if answer.failed:
        return None
    made = whole(body, asked, answer)
    inputs = merged([message_of(message) for message in messages if message.get("type") != "reasoning"])
    system = body.get("system") or body.get("instructions")
    if system:
        inputs.insert(0, {"role": "system", "parts": [{"type": "text", "content": system}], "finish_reason": None})
    if "choices" in made:
        output = message_of(made["choices"][0]["message"])
        reason = made["choices"][0]["finish_reason"]
    elif "content" in made:
        output, reason = message_of(made), made["stop_reason"]
    else:
        (output,) = merged([message_of(item) for item in made["output"] if item["type"] != "reasoning"])
        reason = "tool_calls" if answer.calls else "stop"
    return {
        "model": made["model"],
        "model_call_id": made["id"],
        "input_tokens": USAGE_IN,
        "output_tokens": USAGE_OUT,
        "input_messages": inputs,
        "output_messages": [{**output, "finish_reason": REASONS.get(reason, reason)}],
    }
