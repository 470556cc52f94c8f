# SPDX-License-Identifier: Apache-2.0
"""Real captures, damaged, through the whole converter: the account adds up, facts are valid, twice is the same."""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fuzz_kit import PLANTED, SECRETS, ListSink, assert_fact, capture_texts, damaged, examples, otlp
from sediment_otel.conversion import Conversion, convert
from sediment_otel.settings import Settings
from sediment_otel.sources.files import expand

NAMES = sorted(capture_texts())
CHOICES = (
    Settings(),
    Settings(session_id="given"),
    Settings(session_id="given", raw="residual"),
    Settings(session_id="given", include_failed=True, salvage=True),
    Settings(session_id="given", max_fact_bytes=3_000),
)


def run(data: bytes, settings: Settings) -> tuple[Conversion, list[bytes], list[dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.jsonl"
        path.write_bytes(data)
        sink, items = ListSink(), list[dict[str, Any]]()
        result = convert(expand([str(path)]), lambda ids: sink, settings, report=items.append)
    return result, list(sink.facts.values()), items


def check(data: bytes, settings: Settings) -> list[bytes]:
    result, facts, items = run(data, settings)
    account = result.account
    assert account.spans == account.facts + sum(account.skipped.values()) == len(items)
    assert account.facts == len(facts) == sum(item["outcome"] == "fact" for item in items)
    assert account.skipped == Counter(item["reason"] for item in items if item["outcome"] == "skipped")
    assert account.degraded == Counter(
        loss["code"] for item in items if item["outcome"] == "fact" for loss in item["losses"]
    )
    for fact in facts:
        assert len(fact) <= settings.max_fact_bytes
        assert_fact(fact)
    again, same_facts, same_items = run(data, settings)
    assert (same_facts, same_items) == (facts, items)
    assert again.account.spans == account.spans
    return facts


def document(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


@examples(375)
@given(
    name=st.sampled_from(NAMES),
    seed=st.integers(0, 2**32),
    times=st.integers(1, 12),
    settings=st.sampled_from(CHOICES),
)
def test_a_damaged_capture_is_converted(name: str, seed: int, times: int, settings: Settings) -> None:
    check(document(damaged(json.loads(otlp(name)), random.Random(seed), times)), settings)


@examples(100)
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 2**32), settings=st.sampled_from(CHOICES))
def test_a_damaged_capture_costs_no_whole_one_beside_it(name: str, seed: int, settings: Settings) -> None:
    whole = document(json.loads(otlp(NAMES[seed % len(NAMES)])))
    alone = set(check(whole, settings))
    rng = random.Random(seed)
    broken = damaged(elsewhere(otlp(name)), rng, 6)
    together = check(whole + document(broken), settings)
    assert alone <= set(together)


def elsewhere(text: str) -> Any:
    """The same telemetry under trace ids and response ids that nothing else has."""
    for response_id in set(RESPONSE_ID.findall(text)):
        text = text.replace(response_id, f"{response_id}-elsewhere")
    return json.loads(TRACE_ID.sub(lambda found: f"{found[1]}e1e1e1e1e1e1e1e1", text))


RESPONSE_ID = re.compile(r"(?:chatcmpl|resp|msg|gen|cmpl|aitxt)[-_][A-Za-z0-9-]{3,}")
TRACE_ID = re.compile(r'("traceId": "[0-9a-f]{16})[0-9a-f]{16}')


# -- credentials --------------------------------------------------------------------------------------------------

#: Keys under which a message holds what was said, and not an id, a name or a role.
CONTENT_KEYS = frozenset(
    {"content", "text", "response", "result", "output", "arguments", "input", "body", "thinking", "message"}
)


def planted(value: Any, secret: str, rng: random.Random, inside: bool = False) -> Any:
    """The value with the secret in texts that are content, also in JSON text, and in strings of tool arguments.

    A blank is in front of it, not a line end: JSON text that stays text holds that as `\\n`, whose letter hides a key
    from Sediment's rules, and so from ours.
    """
    if isinstance(value, list):
        return [planted(item, secret, rng, inside) for item in value]
    if isinstance(value, dict):
        return {
            key: planted(item, secret, rng, key in CONTENT_KEYS or (inside and not isinstance(item, str)))
            for key, item in value.items()
        }
    if not isinstance(value, str) or not value:
        return value
    if value[:1] in ("[", "{"):
        try:
            return json.dumps(planted(json.loads(value), secret, rng, inside))
        except ValueError:
            return value
    return f"{value} {secret} behind it" if inside and rng.random() < 0.6 else value


def with_secrets(name: str, secret: str, rng: random.Random) -> Any:
    found = json.loads(otlp(name))
    pair = {"key": "note", "value": {"stringValue": f"before {secret} behind"}}
    held = {
        "key": "held",
        "value": {"kvlistValue": {"values": [{"key": "list", "value": {"arrayValue": {"values": [pair["value"]]}}}]}},
    }
    for group in (*found.get("resourceSpans", ()), *found.get("resourceLogs", ())):
        group.setdefault("resource", {}).setdefault("attributes", []).append(pair)
        for scoped in (*group.get("scopeSpans", ()), *group.get("scopeLogs", ())):
            scoped.setdefault("scope", {}).setdefault("attributes", []).append(pair)
            for record in (*scoped.get("spans", ()), *scoped.get("logRecords", ())):
                record["attributes"] = [*_planted_pairs(record.get("attributes", ()), secret, rng), pair, held]
                if "body" in record:
                    record["body"] = planted(record["body"], secret, rng)
                if "spanId" in record and "name" in record:
                    record["name"] = f"call {secret}"
                    record.setdefault("status", {})["message"] = secret
                    record.setdefault("events", []).append({"name": secret, "timeUnixNano": "1", "attributes": [pair]})
                    record.setdefault("links", []).append(
                        {"traceId": "ab" * 16, "spanId": "cd" * 8, "traceState": f"k={secret}", "attributes": [pair]}
                    )
    return found


def _planted_pairs(pairs: Any, secret: str, rng: random.Random) -> list[Any]:
    """Only in attributes that are JSON text or a numbered content: others may be ids and names."""
    found = []
    for pair in pairs:
        text = pair.get("value", {}).get("stringValue")
        content = pair["key"].rpartition(".")[2] in ("content", "text")
        found.append({**pair, "value": {"stringValue": planted(text, secret, rng, content)}} if text else pair)
    return found


@pytest.mark.parametrize("secret", sorted(SECRETS.keys() - {"pair"}))  # a pair inside JSON text has escaped quotes
@examples(75)
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 2**32), settings=st.sampled_from(CHOICES[1:4]))
@example(name=NAMES[0], seed=0, settings=CHOICES[1])
def test_no_planted_credential_is_in_a_fact(secret: str, name: str, seed: int, settings: Settings) -> None:
    rng = random.Random(seed)
    for fact in check(document(with_secrets(name, SECRETS[secret], rng)), settings):
        assert PLANTED.encode() not in fact


def test_credentials_are_planted_where_they_would_be_facts() -> None:
    """The test above would find them: without redaction they are there."""
    texts = [json.dumps(with_secrets(name, SECRETS["provider key"], random.Random(1))) for name in NAMES]
    assert sum(text.count(PLANTED) for text in texts) > 1_000
    assert sum(bool(check(document(json.loads(text)), CHOICES[1])) for text in texts) > 15
