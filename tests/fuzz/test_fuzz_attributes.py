# SPDX-License-Identifier: Apache-2.0
"""`translate` on values of every kind under every name that producers use: it never raises, and both ways agree."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fuzz_kit import assert_fact, capture_items, capture_texts, damaged, examples, hostile
from sediment_otel import Settings, Span, restore, translate
from sediment_otel.genai import Subject
from sediment_otel.telemetry import LogRecord, Resource, Scope
from sediment_otel.translate.call import translate_subject
from strategies import values

CHOICES = (Settings(session_id="s"), Settings(session_id="s", raw="residual"), Settings(session_id="s", salvage=True))


@cache
def known() -> tuple[list[str], list[Any], list[str], list[str]]:
    """Attribute names, values, scopes and event names of all captures."""
    names: dict[str, None] = {}
    held: list[Any] = []
    scopes: dict[str, None] = {}
    events: dict[str, None] = {}
    for capture in sorted(capture_texts()):
        for item in capture_items(capture):
            scopes[item.scope.name] = None
            if isinstance(item, LogRecord):
                events[item.event_name] = None
            for key, value in item.attributes.items():
                names[key] = None
                if len(str(value)) < 5_000:
                    held.append(value)
    return list(names), held, list(scopes), list(events)


def mixed(rng: random.Random, count: int) -> dict[str, Any]:
    """Attributes with names of all dialects and values of all others, damaged."""
    names, held, _, _ = known()
    found: dict[str, Any] = {}
    for _ in range(count):
        key = rng.choice(names)
        if rng.random() < 0.3:
            key = ".".join(
                rng.choice(("0", "1", "1000000000", "-1", "x", part)) if part.isdigit() else part
                for part in key.split(".")
            )
        value = rng.choice(held) if rng.random() < 0.7 else hostile(rng)
        found[key] = damaged([value], rng, 1) if rng.random() < 0.2 else value
    return found


def span_of(attributes: dict[str, Any], rng: random.Random) -> Span:
    scope = rng.choice(known()[2])
    return Span(
        trace_id="ab" * 16,
        span_id="cd" * 8,
        name="chat",
        start_ns=rng.choice((None, 0, 1, 2**63, 2**64 - 1)),
        end_ns=rng.choice((1, 2, 2**63, 2**64 - 1)),
        attributes=attributes,
        resource=Resource(attributes=mixed(rng, 1)),
        scope=Scope(name=scope),
    )


def check(span: Span, records: list[LogRecord], settings: Settings) -> None:
    found = translate(span, settings, records=records)
    assert found.encoded == translate_subject(Subject(span, records), settings).encoded
    if found.encoded is None:
        assert found.reason is not None
        return
    assert_fact(found.encoded)
    back = restore(found.encoded)
    assert (back.trace_id, back.span_id) == (span.trace_id, span.span_id)
    translate(back, settings)


@examples(1200)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 30), settings=st.sampled_from(CHOICES))
def test_any_mixture_of_known_attributes_is_translated(seed: int, count: int, settings: Settings) -> None:
    rng = random.Random(seed)
    check(span_of(mixed(rng, count), rng), [], settings)


@examples(600)
@given(seed=st.integers(0, 2**32), settings=st.sampled_from(CHOICES))
def test_a_real_span_with_foreign_values_is_translated(seed: int, settings: Settings) -> None:
    rng = random.Random(seed)
    name = rng.choice(sorted(capture_texts()))
    spans = [item for item in capture_items(name) if isinstance(item, Span)]
    if not spans:
        return
    attributes = dict(rng.choice(spans).attributes)
    for key in rng.sample(sorted(attributes), min(len(attributes), rng.randrange(1, 4))):
        attributes[key] = hostile(rng) if rng.random() < 0.5 else rng.choice(known()[1])
    attributes.update(mixed(rng, rng.randrange(3)))
    check(span_of(attributes, rng), [], settings)


@examples(600)
@given(seed=st.integers(0, 2**32), body=values(), settings=st.sampled_from(CHOICES))
def test_a_call_with_hostile_log_records_is_translated(seed: int, body: Any, settings: Settings) -> None:
    rng = random.Random(seed)
    records = [
        LogRecord(
            trace_id="ab" * 16,
            span_id="cd" * 8,
            time_ns=rng.choice((None, 1)),
            event_name=rng.choice(known()[3]),
            body=body if rng.random() < 0.5 else hostile(rng),
            attributes=mixed(rng, rng.randrange(6)),
        )
        for _ in range(rng.randrange(1, 4))
    ]
    check(span_of({"gen_ai.operation.name": "chat", **mixed(rng, 3)}, rng), records, settings)


@examples(450)
@given(
    value=values(),
    key=st.sampled_from(("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions")),
)
def test_any_value_as_messages_is_translated(value: Any, key: str) -> None:
    for written in (value, json.dumps(value), [json.dumps(value)]):
        span = span_of({"gen_ai.operation.name": "chat", "gen_ai.prompt": "x", key: written}, random.Random(0))
        check(span, [], CHOICES[0])
