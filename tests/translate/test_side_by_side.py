# SPDX-License-Identifier: Apache-2.0
"""Calls that are translated side by side come out as they do one by one, and in their order."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sediment_otel.genai import Subject
from sediment_otel.settings import Settings
from sediment_otel.telemetry import Span
from sediment_otel.translate.call import Context, Translation, translate_subject, translate_subjects
from sediment_otel.translate.result import NOTHING
from sediment_otel.vocabulary import SkipReason
from strategies import subjects

SETTINGS = Settings(org="acme", session_id="s")


def plain(number: int, **more: Any) -> Subject:
    said = [{"role": "user", "parts": [{"type": "text", "content": f"question {number}"}]}]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": "Four."}], "finish_reason": "stop"}]
    attributes = {
        "gen_ai.operation.name": "chat",
        "session.id": f"s-{number % 3}",
        "gen_ai.input.messages": json.dumps(said, separators=(",", ":")),
        "gen_ai.output.messages": json.dumps(answer, separators=(",", ":")),
        **more,
    }
    return Subject(Span(trace_id="a" * 32, span_id=f"{number + 1:016x}", start_ns=1, end_ns=2, attributes=attributes))


def shown(found: Translation) -> tuple[Any, ...]:
    return found.outcome, found.reason, found.note, found.losses, found.encoded, found.span.span_id, found.incomplete


@given(st.lists(subjects() | st.integers(0, 9).map(plain), max_size=12), st.booleans())
def test_side_by_side_is_one_by_one(given_subjects: list[Subject], wrapped: bool) -> None:
    pairs = [
        (subject, Context(wrapper=wrapped and not place % 3, incomplete=bool(place % 2)))
        for place, subject in enumerate(given_subjects)
    ]
    together = translate_subjects(pairs, SETTINGS)
    assert [shown(found) for found in together] == [shown(translate_subject(s, SETTINGS, c)) for s, c in pairs]


def test_a_call_that_cannot_be_translated_costs_only_itself() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    odd = [
        plain(1, **{"app.deep": deep}),
        plain(3, **{"gen_ai.input.messages": "[" * 5000}),
        plain(5, **{"gen_ai.operation.name": "embeddings"}),
    ]
    pairs = [(subject, NOTHING) for subject in (plain(0), odd[0], plain(2), odd[1], plain(4), odd[2], plain(6))]
    found = translate_subjects(pairs, SETTINGS)
    assert [one.span.span_id for one in found] == [subject.span.span_id for subject, _ in pairs]
    assert [one.encoded is not None for one in found] == [True, False, True, False, True, False, True]
    assert found[1].reason is SkipReason.MALFORMED


def test_nothing_side_by_side_is_nothing() -> None:
    assert translate_subjects([], SETTINGS) == []
