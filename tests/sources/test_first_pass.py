# SPDX-License-Identifier: Apache-2.0
"""The light look of the first pass sees what the full one sees, or leaves the document to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sediment_otel.otlp import decode_json
from sediment_otel.otlp.light import read_light
from sediment_otel.pipeline import Entries, glance, glance_light
from sediment_otel.settings import Settings

DATA = Path(__file__).parent.parent / "data"
SETTINGS = Settings(org="acme", session_attributes=("app.session",))


def looked_at(data: bytes, into: Entries) -> bool:
    spans = read_light(data)
    return spans is not None and glance_light(spans, SETTINGS, into)


def span(**changes: Any) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "session.id": "s-1",
        "gen_ai.response.id": "r-1",
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "Four."}]}]),
        **changes.pop("attributes", {}),
    }
    pairs = [
        {"key": key, "value": value if isinstance(value, dict) else {"stringValue": value}}
        for key, value in attributes.items()
        if value is not None
    ]
    return {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": "B7AD6B7169203331",
        "name": "chat m",
        "kind": 3,
        "startTimeUnixNano": "1790000000000000000",
        "endTimeUnixNano": "1790000001000000000",
        "attributes": pairs,
        **changes,
    }


def request(*spans: dict[str, Any]) -> bytes:
    scoped = {"scope": {"name": "demo"}, "spans": list(spans)}
    return json.dumps({"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scoped]}]}).encode()


def looks(data: bytes) -> tuple[Entries | None, Entries]:
    light, full = Entries(), Entries()
    taken = looked_at(data, light)
    glance(decode_json(data), SETTINGS, full)
    return light if taken else None, full


PLAIN: dict[str, dict[str, Any]] = {
    "an ordinary call": {},
    "a child": {"parentSpanId": "00f067aa0ba902b7"},
    "a parent of zeros": {"parentSpanId": "0000000000000000"},
    "a failed call": {"status": {"code": 2, "message": "no"}},
    "a call with error.type": {"attributes": {"error.type": "timeout"}},
    "a blank error.type": {"attributes": {"error.type": ""}},
    "an error.type that is no text": {"attributes": {"error.type": {"intValue": "3"}}},
    "a tool": {"attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.output.messages": None}},
    "an agent": {"attributes": {"gen_ai.operation.name": "invoke_agent"}},
    "another operation": {"attributes": {"gen_ai.operation.name": "rerank"}},
    "a configured session": {"attributes": {"app.session": " mine "}},
    "a user": {"attributes": {"user.id": " u-1 "}},
    "a blank user, then another": {"attributes": {"user.id": "", "enduser.id": "u-2"}},
    "an agent with a user": {"attributes": {"gen_ai.operation.name": "invoke_agent", "enduser.pseudo.id": "u-3"}},
    "no session": {"attributes": {"session.id": None}},
    "a blank session, then a conversation": {"attributes": {"session.id": " ", "gen_ai.conversation.id": "c-1"}},
    "a session that is a number": {"attributes": {"session.id": {"intValue": "7"}}},
    "a response id that is none": {"attributes": {"gen_ai.response.id": "null"}},
    "structured output": {
        "attributes": {"gen_ai.output.messages": {"arrayValue": {"values": [{"stringValue": "x" * 60}]}}}
    },
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_span_is_seen_alike_at_a_glance(name: str) -> None:
    light, full = looks(request(span(**PLAIN[name])))
    assert light is not None
    assert light.spans == full.spans
    assert light.span_count == full.span_count == 1


LEFT_TO_THE_FULL_LOOK: dict[str, bytes] = {
    "no output": request(span(attributes={"gen_ai.output.messages": None})),
    "an empty list of messages": request(span(attributes={"gen_ai.output.messages": "[]"})),
    "metadata": request(span(attributes={"metadata": '{"session_id": "m-1"}'})),
    "another dialect": request(span(attributes={"openinference.span.kind": "LLM"})),
    "no operation": request(span(attributes={"gen_ai.operation.name": None})),
    "an unusable id": request(span(spanId="xyz")),
    "an id of zeros": request(span(spanId="0000000000000000")),
    "not UTF-8": request(span()).replace(b"chat m", b"chat \xff"),
    "cut": request(span())[:-9],
    "logs": b'{"resourceLogs":[]}',
    "a list": b"[1]",
    "not JSON": b"hello",
    "nested too deep": b'{"resourceSpans":' + b"[" * 5000 + b"]" * 5000 + b"}",
}


@pytest.mark.parametrize("name", LEFT_TO_THE_FULL_LOOK)
def test_what_is_not_plain_is_left_to_the_full_look(name: str) -> None:
    into = Entries()
    assert not looked_at(LEFT_TO_THE_FULL_LOOK[name], into)
    assert not into.spans
    assert into.span_count == 0


def test_every_line_of_the_captures_is_seen_alike() -> None:
    seen = 0
    for path in sorted((DATA / "captures").glob("*.json*")):
        for line in path.read_bytes().splitlines():
            light, full = looks(line)
            if light is not None:
                assert light.spans == full.spans
                seen += light.span_count
    assert seen >= 3


def test_every_span_of_the_cases_is_seen_alike() -> None:
    seen = 0
    for path in sorted((DATA / "cases").glob("*.json")):
        case = json.loads(path.read_bytes())
        for document in [case["input"]] if "input" in case else case.get("input_lines", []):
            light, full = looks(json.dumps(document).encode())
            if light is not None:
                assert light.spans == full.spans
                seen += light.span_count
    assert seen > 50
