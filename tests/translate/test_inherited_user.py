# SPDX-License-Identifier: Apache-2.0
"""A call that takes its session from an ancestor takes the user with it; a call that names a session does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sediment_otel.otlp import encode_json
from sediment_otel.settings import Settings
from sediment_otel.sources.files import expand
from sediment_otel.telemetry import Span
from sediment_otel.traces import Traces
from sediment_otel.translate.call import Context, translate

ANSWER = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "Four."}], "finish_reason": "stop"}])
START = 1_790_000_000_000_000_000


def span(number: int, operation: str, parent: int | None, **attributes: Any) -> Span:
    found = {"gen_ai.operation.name": operation, **{key.replace("_", "."): value for key, value in attributes.items()}}
    if operation == "chat":
        found |= {"gen_ai.input.messages": "[]", "gen_ai.output.messages": ANSWER}
    return Span(
        trace_id=f"{1:032x}",
        span_id=f"{number:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        name=operation,
        start_ns=START - number,
        end_ns=START + 1_000_000 - number,
        attributes=found,
    )


def user_of_the_call(*ancestors: dict[str, Any], folder: Path, **own: Any) -> tuple[str | None, str]:
    """The user of a call below these ancestors (the nearest first) in a file, and where it was found."""
    spans = [span(1, "chat", 2, **own)]
    for number, attributes in enumerate(ancestors, 2):
        spans.append(span(number, "invoke_agent", number + 1 if number <= len(ancestors) else None, **attributes))
    path = folder / "trace.json"
    path.write_text(json.dumps(encode_json(spans)), encoding="utf-8")
    (found,) = [one.translation for one in Traces(expand([str(path)]), Settings()).walk() if one.translation.fact]
    assert found.fact is not None
    return found.fact.user_id, found.provenance.get("user_id", "")


@pytest.mark.parametrize(
    ("ancestors", "own", "expected"),
    [
        ([{"session_id": "s", "user_id": "u"}], {}, "u"),
        ([{"user_id": "near"}, {"session_id": "s", "user_id": "far"}], {}, "near"),
        ([{}, {"session_id": "s", "enduser_id": "far"}], {}, "far"),
        ([{"session_id": "s"}, {"user_id": "beyond the session"}], {}, None),
        ([{"session_id": "s", "user_id": "u"}], {"user_id": "own"}, "own"),
        ([{"session_id": "s", "user_id": "u"}], {"session_id": "own"}, None),
        ([{"session_id": "s", "user_id": " "}], {}, None),
        ([{"session_id": "s", "user_email": "a@example.com"}], {}, None),
    ],
)
def test_the_user_comes_with_the_session(
    ancestors: list[dict[str, Any]], own: dict[str, Any], expected: str | None, tmp_path: Path
) -> None:
    user, source = user_of_the_call(*ancestors, folder=tmp_path, **own)
    assert user == expected
    assert source.startswith("ancestor span ") == (expected is not None and not own)


@pytest.mark.parametrize(
    "own", [{}, {"user_id": "own"}, {"session_id": "own"}, {"session_id": "own", "user_id": "u-2"}]
)
def test_the_short_way_and_the_general_one_give_the_same_bytes(own: dict[str, Any]) -> None:
    from sediment_otel.genai import Subject
    from sediment_otel.translate.call import translate_subject

    call = span(1, "chat", 2, **own)
    call.attributes["gen_ai.input.messages"] = '[{"role":"user","parts":[{"type":"text","content":"Two and two?"}]}]'
    context = Context("s", "ancestor span session.id", user_id="u", user_source="ancestor span user.id")
    assert translate_subject(Subject(call), Settings(), context).encoded == translate(call, context=context).encoded
