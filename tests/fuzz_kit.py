# SPDX-License-Identifier: Apache-2.0
"""What the fuzz tests share: real captures to damage, ways to damage them, and what must hold of whatever comes out."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from hypothesis import settings

from sediment_otel.facts import InferenceCall
from sediment_otel.otlp.decode import decode_json
from sediment_otel.otlp.encode import encode_json
from sediment_otel.sinks.base import Delivery, Receipt, SinkBase
from sediment_otel.telemetry import LogRecord, Rejected, Span
from sediment_otel.translate.redact import redact_fact

ROOT = Path(__file__).parent.parent
CAPTURES = ROOT / "tests" / "data" / "captures"
_SCHEMA = json.loads((ROOT / "semconv" / "inference-call-v1.json").read_text(encoding="utf-8"))
SCHEMA = jsonschema.Draft202012Validator(_SCHEMA)

#: Credentials that are planted; none of them may be in a fact.
SECRETS = {
    "provider key": "sk-proj0123456789abcdefPLANTED",
    "bearer": "Bearer abcdef0123456789.PLANTED",
    "header": "Authorization: Bearer abcdef0123456789+PLANTED",
    "assignment": "OPENAI_API_KEY=abcdef0123456789PLANTED",
    "pair": '{"api_key": "abcdef0123456789PLANTED"}',
}
PLANTED = "PLANTED"


def examples(number: int) -> settings:
    """So many examples, or as many as the profile `long` asks for."""
    asked = settings.default.max_examples if settings.default is not None else 0
    return settings(max_examples=asked if asked > 1_000 else number)


@cache
def capture_texts() -> dict[str, str]:
    """Captures by name: OTLP JSON, console dumps, ReadableSpan dumps, traces and logs; the smaller ones."""
    found = {}
    for path in sorted(CAPTURES.iterdir()):
        if ".expected." not in path.name and path.stat().st_size < 200_000:
            found[path.name] = path.read_text(encoding="utf-8")
    assert len(found) > 20
    return found


@cache
def capture_items(name: str) -> tuple[Span | LogRecord, ...]:
    """What a capture holds."""
    items = []
    for document in _documents(capture_texts()[name]):
        items += [item for item in decode_json(json.dumps(document)).items if not isinstance(item, Rejected)]
    return tuple(items)


@cache
def otlp(name: str, most: int = 8) -> str:
    """A capture as one OTLP JSON document of at most so many spans and records."""
    return json.dumps(encode_json(_some(capture_items(name), most)))


def _some(items: Sequence[Any], most: int) -> list[Any]:
    calls = [item for item in items if isinstance(item, LogRecord) or len(item.attributes) > 5]
    return calls[:most] or list(items[:most])


def _documents(text: str) -> Iterator[Any]:
    decoder, position = json.JSONDecoder(), 0
    while (text := text[position:].lstrip()) != "":
        value, position = decoder.raw_decode(text)
        yield value


# -- damage ------------------------------------------------------------------------------------------------------


def _nested(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = [value] if levels % 2 else {"type": value}
    return value


_HOSTILE = (
    *(None, True, 0, -1, 2**63, 2**64, -(2**70), 1.5, 1e308),
    *("", " ", "\x00", "\ud800", "null", "NaN", "[]", "{}", '"', "9" * 400),
    *([], {}, [None], [[]], {"": ""}, [1, "a", None], {"type": "text"}, {"type": ["text"]}),
    {"role": "user", "parts": {}},
    [{"role": "user", "parts": [{"type": "text", "content": "x"}]}],
    '[{"role":"user","parts":[{"type":"text"',
    *({"$bytes": "AA=="}, {"stringValue": 5}, {"intValue": "x"}, {"arrayValue": {"values": 3}}),
    {"kvlistValue": {"values": [{"key": 1}]}},
    json.dumps(json.dumps({"a": 1})),
    *(_nested(levels) for levels in (60, 101, 140)),
)


def hostile(rng: random.Random) -> Any:
    """A value that does not belong where it will stand."""
    return copy.deepcopy(rng.choice(_HOSTILE))


def damaged(value: Any, rng: random.Random, times: int) -> Any:
    """A JSON value with nodes replaced, removed, doubled, renamed, also inside JSON text."""
    value = copy.deepcopy(value)
    for _ in range(times):
        places = list(_places(value))
        if not places:
            return value
        holder, key = rng.choice(places)
        _damage(holder, key, rng)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    stack = [value]
    while stack:
        node = stack.pop()
        for key, item in list(node.items() if isinstance(node, dict) else enumerate(node)):
            yield node, key
            if isinstance(item, (dict, list)):
                stack.append(item)


def _damage(holder: Any, key: Any, rng: random.Random) -> None:
    item = holder[key]
    kind = rng.randrange(6)
    if isinstance(item, str) and item[:1] in ("[", "{") and rng.random() < 0.7:
        try:
            inner = json.loads(item)
        except ValueError:
            inner = None
        if isinstance(inner, (dict, list)) and kind < 4:
            holder[key] = json.dumps(damaged(inner, rng, 1))
            return
        if kind == 4:
            holder[key] = item[: rng.randrange(len(item))]
            return
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(item))
    elif kind == 1:
        holder[rng.choice(("type", "role", "parts", "content", "id", "name", "key", "value", "arguments"))] = item
    elif kind == 2:
        holder[key] = json.dumps(item, default=str)
    elif kind == 3:
        holder[key] = [item]
    else:
        holder[key] = hostile(rng)


def damaged_bytes(data: bytes, rng: random.Random, times: int) -> bytes:
    """Bytes with some of them changed, cut out, repeated or put in."""
    for _ in range(times):
        position = rng.randrange(len(data) + 1)
        behind = min(len(data), position + rng.choice((1, 1, 4, 64, 1000)))
        kind = rng.randrange(5)
        if kind == 0:
            data = data[:position] + rng.randbytes(behind - position) + data[behind:]
        elif kind == 1:
            data = data[:position] + data[behind:]
        elif kind == 2:
            data = data[:behind] + data[position:]
        elif kind == 3:
            data = data[:position]
        else:
            token = rng.choice(
                (b"\x00", b'"', b"{", b"]", b"\xff", b"\xed\xa0\x80", b"1e999", b"\n", b"\x1f\x8b", b"null")
            )
            data = data[:position] + token + data[position:]
    return data


# -- what must hold -----------------------------------------------------------------------------------------------


def assert_fact(encoded: bytes) -> None:
    """The fact passes the schema and the rules of a running Sediment, and redacting it again changes nothing."""
    fact = json.loads(encoded)
    error = next(iter(SCHEMA.iter_errors(fact)), None)
    assert error is None, error.message
    InferenceCall.from_json(encoded)
    assert redact_fact(fact) == fact


class ListSink(SinkBase):
    """Keeps facts in memory and gives the receipts of a sink."""

    def __init__(self) -> None:
        self.facts: dict[str, bytes] = {}

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        receipts = []
        for delivery in batch:
            first = self.facts.setdefault(delivery.inference_call_id, delivery.encoded)
            receipts.append(
                Receipt.STORED
                if first is delivery.encoded
                else Receipt.DUPLICATE
                if first == delivery.encoded
                else Receipt.CONFLICT
            )
        return receipts

    def close(self) -> None:
        """Nothing to finish."""
