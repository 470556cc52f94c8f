# SPDX-License-Identifier: Apache-2.0
"""Spans for the benchmarks: coding-agent calls of a wanted size, made without a clock or a random number."""

from __future__ import annotations

import hashlib
import json
from typing import Any

_CODE = '''def resolve(path: str, *, root: Path = ROOT) -> Path:
    """Find `path` below the root, and say where it was looked for."""
    candidate = (root / path).resolve()
    if root not in candidate.parents:
        raise ValueError(f"{path!r} leads out of {root}")
    return candidate


class Cache(Generic[Key, Item]):
    def __init__(self, limit: int = 128) -> None:
        self._items: "OrderedDict[Key, Item]" = OrderedDict()
        self._limit = limit

    def get(self, key: Key) -> Item | None:
        item = self._items.pop(key, None)
        if item is not None:
            self._items[key] = item
        return item
'''
_PROSE = (
    "The test fails because the loader keeps the first value that it sees, and the task manager asks for the last. "
    'I change the disk layout so that a risk of stale reads goes away; see "docs/layout.md" and the notes there.\n'
)


def _text(size: int, turn: int) -> str:
    source = f"# step {turn}\n{_CODE}{_PROSE}" if turn % 2 else f"Step {turn}. {_PROSE}{_CODE}"
    return (source * (size // len(source) + 1))[:size]


def span_attributes(size: int, messages: int, number: int) -> dict[str, Any]:
    """Attributes of one call whose OTLP JSON line has about `size` bytes."""
    spare = max(size - 900 - 170 * messages, 20 * messages)
    each = spare // (messages + 1)
    history: list[dict[str, Any]] = []
    for turn in range(messages):
        kind = turn % 4
        if kind == 0:
            history.append({"role": "user", "parts": [{"type": "text", "content": _text(each, turn)}]})
        elif kind == 1:
            call = {
                "type": "tool_call",
                "id": f"call_{number}_{turn}",
                "name": "read_file",
                "arguments": {"path": f"src/module_{turn}.py", "offset": turn, "limit": 200},
            }
            history.append({"role": "assistant", "parts": [{"type": "text", "content": _text(each, turn)}, call]})
        elif kind == 2:
            answer = {"type": "tool_call_response", "id": f"call_{number}_{turn - 1}", "response": _text(each, turn)}
            history.append({"role": "tool", "parts": [answer]})
        else:
            history.append({"role": "assistant", "parts": [{"type": "text", "content": _text(each, turn)}]})
    output = [{"role": "assistant", "parts": [{"type": "text", "content": _text(each, 1)}], "finish_reason": "stop"}]
    system = [{"type": "text", "content": "You are a coding agent. Answer with what the files say."}]
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.response.model": "gpt-x-2026-01-01",
        "gen_ai.response.id": f"chatcmpl-{number:08d}",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.request.temperature": 0.2,
        "gen_ai.request.max_tokens": 4096,
        "gen_ai.usage.input_tokens": 3100 + number % 100,
        "gen_ai.usage.output_tokens": 120,
        "gen_ai.usage.cache_read.input_tokens": 2048,
        "gen_ai.conversation.id": f"conv-{number // 50}",
        "server.address": "models.example",
        "server.port": 443,
        "gen_ai.system_instructions": json.dumps(system, separators=(",", ":")),
        "gen_ai.input.messages": json.dumps(history, separators=(",", ":")),
        "gen_ai.output.messages": json.dumps(output, separators=(",", ":")),
    }


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"arrayValue": {"values": [_value(item) for item in value]}}


def line(size: int, messages: int, number: int) -> bytes:
    """One OTLP JSON line with one call."""
    start = 1_790_000_000_000_000_000 + number * 1_000_000
    span = {
        "traceId": hashlib.md5(b"t%d" % number).hexdigest(),
        "spanId": hashlib.md5(b"s%d" % number).hexdigest()[:16],
        "name": "chat gpt-x",
        "kind": 3,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 1_500_000_000),
        "attributes": [
            {"key": key, "value": _value(value)} for key, value in span_attributes(size, messages, number).items()
        ],
        "status": {},
        "flags": 256,
    }
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "agent"}}]}
    scope = {"name": "opentelemetry.instrumentation.openai", "version": "1.3b0"}
    request = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": [span]}]}]}
    return json.dumps(request, separators=(",", ":")).encode()
