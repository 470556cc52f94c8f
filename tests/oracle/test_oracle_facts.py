# SPDX-License-Identifier: Apache-2.0
"""A real Sediment takes every fact, changes nothing in it, and would have redacted it as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings

from sediment_otel import read_traces
from sediment_otel.genai import Subject
from sediment_otel.settings import Settings
from sediment_otel.telemetry import Span
from sediment_otel.translate import call, finish, short
from strategies import subjects

DATA = Path(__file__).parent.parent / "data"
SETTINGS = Settings(org="acme", session_id="s-1")
SECRETS = [
    "api_key = 'labeled-api-key-1234567890'",
    "Authorization: Bearer authorization-value-1234567890",
    "sk-proj-abcdefghijklmnopqrstuvwxyz",
    '{"api_key":"short"}',
    "plain words",
]


class Oracle(Protocol):
    def validate(self, facts: list[bytes]) -> list[str | None]: ...

    def redact(self, facts: list[bytes]) -> list[dict[str, Any]]: ...


def captured() -> Iterator[list[str]]:
    for path in sorted((DATA / "captures").iterdir()):
        if ".logs." not in path.name and "expected" not in path.name and ".json" in path.name:
            yield [str(path)]


def facts_of_captures() -> list[bytes]:
    found = [found.encoded for paths in captured() for found in read_traces(paths[0], SETTINGS)]
    return [encoded for encoded in found if encoded is not None]


def facts_of_cases(tmp_path: Path) -> list[bytes]:
    found = []
    for path in sorted((DATA / "cases").glob("*.json")):
        case = json.loads(path.read_bytes())
        for number, document in enumerate([case["input"]] if "input" in case else case.get("input_lines", [])):
            source = tmp_path / f"{path.stem}-{number}.json"
            source.write_text(json.dumps(document), encoding="ascii")
            found += [each.encoded for each in read_traces(source, SETTINGS)]
    return [encoded for encoded in found if encoded is not None]


def test_sediment_takes_every_fact_of_the_captures_as_it_is(oracle: Oracle) -> None:
    facts = facts_of_captures()
    assert len(facts) > 80
    assert oracle.validate(facts) == [None] * len(facts)
    assert oracle.redact(facts) == [json.loads(fact) for fact in facts]


def test_sediment_takes_every_fact_of_the_cases_as_it_is(oracle: Oracle, tmp_path: Path) -> None:
    facts = facts_of_cases(tmp_path)
    assert len(facts) > 80
    assert oracle.validate(facts) == [None] * len(facts)
    assert oracle.redact(facts) == [json.loads(fact) for fact in facts]


def span(number: int, text: str, secret: str) -> Span:
    """A call with a secret in its text, its tool arguments, its tool result and an attribute of its own."""
    arguments = {"note": [secret], "headers": {"authorization": f"Digest {number}"}, "command": text}
    history = [
        {"role": "user", "parts": [{"type": "text", "content": f"{text}\n{secret}"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "call_1", "name": "run", "arguments": arguments}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": secret}]},
        {"role": "user", "parts": [{"type": "text", "content": f"Digest {number}"}, {"type": "blob", "data": secret}]},
    ]
    answer = [{"role": "assistant", "parts": [{"type": "reasoning", "content": secret}], "finish_reason": "stop"}]
    return Span(
        trace_id="a" * 32,
        span_id=f"{number + 1:016x}",
        name=secret,
        start_ns=1,
        end_ns=2_000_000,
        attributes={
            "gen_ai.operation.name": "chat",
            "session.id": "s-1",
            "gen_ai.input.messages": json.dumps(history),
            "gen_ai.output.messages": json.dumps(answer),
            "app.note": secret,
            "app.api_key": secret,
        },
    )


def test_sediment_redacts_the_unredacted_fact_to_ours(oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [span(number, f"step {number}", secret) for number, secret in enumerate(SECRETS)]
    ours = [call.translate_subject(Subject(each), SETTINGS).encoded or b"" for each in spans]
    monkeypatch.setattr(finish, "redact_fact", lambda fact: fact)
    unredacted = [call.translate_subject(Subject(each), SETTINGS).encoded or b"" for each in spans]
    assert all(plain != fact for plain, fact in zip(unredacted[:4], ours[:4], strict=True))
    assert oracle.redact(unredacted) == [json.loads(fact) for fact in ours]


def test_the_short_way_is_no_way_around_redaction(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    original = short.finish
    monkeypatch.setattr(short, "finish", lambda *given, **more: taken.append(1) or original(*given, **more))
    plain = span(1, "step", "words")
    history = [{"role": "user", "parts": [{"type": "text", "content": SECRETS[2]}]}]
    plain.attributes["gen_ai.input.messages"] = json.dumps(history, separators=(",", ":"))
    encoded = call.translate_subject(Subject(plain), SETTINGS).encoded or b""
    assert taken
    assert b"sk-proj-" not in encoded


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=subjects())
def test_sediment_takes_facts_of_generated_calls(oracle: Oracle, made: Subject) -> None:
    encoded = call.translate_subject(made, SETTINGS).encoded
    if encoded is not None:
        assert oracle.validate([encoded]) == [None]
