# SPDX-License-Identifier: Apache-2.0
"""Our redaction and Sediment's give the same fact.

There is one difference on purpose. For some inputs a second pass of Sediment changes what its first one left; ours is
stable. So the two are compared where Sediment's is stable, which is nearly everywhere.
"""

from __future__ import annotations

import json
import random
from typing import Any, Protocol

import pytest

from sediment_otel.translate.redact import MARKER, redact_fact

TOKEN = "0123456789abcdef"
PIECES = (
    *"\"'\"'\\ \t\n\r:=:=-_./+~[],{}x1é\u00a0\u2028\x1c\x85\u212a\u017f\u0130\u0131\U0001f600",
    *('\\"', "\\'", "\\\\", "api_key", "api-key", "api key", "apikey", "API_KEY", "ap\u0131_\u212aey", "x_api_key"),
    *("authorization", "Authorization", "proxy-authorization", "AUTHOR\u0130ZATION", "Bearer", "bearer ", "Bearer "),
    *("sk-", "sk-", "SK-", "s\u212a-", "sk-proj-", TOKEN, TOKEN[:15], TOKEN[:8], TOKEN[:7], f"{TOKEN}==", "v", "abc d"),
    *('"api_key":"', "'api_key': '", "api_key=", "OPENAI_API_KEY=", "Authorization: Bearer ", '"a":"', '": "', MARKER),
    *("[REDACTED_", "CREDENTIAL]", f"Bearer {MARKER}"),
)
LINES = (
    *(
        "s1",
        "s1\ns2",
        f"Bearer {TOKEN}",
        TOKEN,
        "",
        " s1 ",
        "ab\n",
        "\nab",
        "ab",
        MARKER,
        f"Bearer {MARKER}",
        "Bearer x",
    ),
    *("s1\r", f"sk-{TOKEN}", f"api_key={TOKEN}", '"api_key": "x"', "\n", "\n\n", "s2\n"),
)
KEYS = (
    "a",
    "k",
    "api_key",
    "X-API-KEY",
    "authorization",
    "my_api_key",
    "api_\u212aey",
    "proxy-authorization",
    "my_apikey",
)


class Judge(Protocol):
    def validate(self, facts: list[bytes]) -> list[str | None]: ...

    def redact(self, facts: list[bytes]) -> list[dict[str, Any]]: ...


class Facts:
    """Facts full of near misses, from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self, most: int = 15) -> str:
        return "".join(self._random.choices(PIECES, k=self._random.randint(1, most)))

    def lines(self) -> str:
        pick = self._random
        return "\n".join(pick.choice([*LINES, self.text(2)]) for _ in range(pick.randint(1, 5)))

    def value(self, depth: int = 0) -> Any:
        pick = self._random
        kind = pick.random()
        if depth < 3 and kind < 0.3:
            return self.object(depth + 1)
        if depth < 3 and kind < 0.45:
            return [self.value(depth + 1) for _ in range(pick.randint(0, 3))]
        return pick.choice([self.text(3), self.lines(), pick.choice(LINES), 1, None, True, 2.5])

    def object(self, depth: int = 0) -> dict[str, Any]:
        return {self._random.choice(KEYS): self.value(depth + 1) for _ in range(self._random.randint(0, 4))}

    def part(self) -> dict[str, Any]:
        return self._random.choice(
            [
                {"type": "text", "content": self.lines()},
                {"type": "text", "content": self.text()},
                {"type": "reasoning", "content": self.lines()},
                {"type": "tool_call", "id": f"sk-{TOKEN}", "name": f"sk-{TOKEN}", "arguments": self.object()},
                {"type": "tool_call_response", "id": "call_1", "result": self.value()},
            ]
        )

    def message(self) -> dict[str, Any]:
        return {
            "role": "user",
            "parts": [self.part() for _ in range(self._random.randint(0, 4))],
            "finish_reason": None,
        }

    def fact(self) -> dict[str, Any]:
        pick = self._random
        return fact(
            input_messages=[self.message() for _ in range(pick.randint(0, 3))],
            output_messages=[self.message() for _ in range(pick.randint(0, 2))],
            raw={**self.object(), "texts": [self.text() for _ in range(10)]},
        )


def fact(**fields: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "inference_call_id": "call",
        "org_id": "acme",
        "session_id": "session",
        "user_id": None,
        "gateway_provider": "unknown",
        "model_provider": None,
        "model": f"sk-{TOKEN}",
        "input_messages": [],
        "output_messages": [],
        "input_tokens": None,
        "output_tokens": 0,
        "duration_ms": None,
        "model_call_id": None,
        "observed_at": "2026-01-02T03:04:05Z",
        "raw": {},
    } | fields


def encoded(facts: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(fact).encode() for fact in facts]


@pytest.mark.parametrize("seed", range(4))
def test_our_redaction_is_sediments(oracle: Judge, seed: int) -> None:
    source = Facts(seed)
    facts = [source.fact() for _ in range(500)]
    theirs = oracle.redact(encoded(facts))
    again = oracle.redact(encoded(theirs))
    ours = [redact_fact(fact) for fact in facts]
    compared = changed = 0
    for given, once, twice, mine in zip(facts, theirs, again, ours, strict=True):
        if once == twice:
            compared += 1
            changed += once != given
            assert mine == once, json.dumps(given)
    assert compared > 400
    assert changed > 200


def test_what_we_redacted_sediment_leaves_alone(oracle: Judge) -> None:
    texts = [
        f"api_key={TOKEN}'api_key'={TOKEN}",
        f'"k":"v" Bearer\t{TOKEN}\'api_key\'="abcdefgh"',
        f"sk-{TOKEN}'my_api_key': 'abcdefgh",
    ]
    ours = [redact_fact(fact(raw={"text": text})) for text in texts]
    assert oracle.redact(encoded(ours)) == ours


def test_the_judge_tells_a_valid_fact_from_a_broken_one(oracle: Judge) -> None:
    valid, refused, broken = oracle.validate([*encoded([fact(), fact(session_id=" ")]), b"{"])
    assert valid is None
    assert refused is not None
    assert "session_id" in refused
    assert broken is not None
