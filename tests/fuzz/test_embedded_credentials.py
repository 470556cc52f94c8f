# SPDX-License-Identifier: Apache-2.0
"""A credential in JSON text that a fact keeps as text is redacted like one that stands in the open."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sediment_otel import Settings, Span, translate
from sediment_otel.translate.credential_filter import may_hold_credential
from sediment_otel.translate.embedded import redact_embedded
from sediment_otel.translate.redact import MARKER, redact_fact

KEY = "sk-0123456789abcdefgh"
SAID: dict[str, Any] = {
    "provider key behind a line feed": {"text": f"first\n{KEY}\nlast"},
    "provider key behind a tab": {"text": f"first\t{KEY}"},
    "bearer behind a line feed": {"text": "first\nBearer 0123456789abcdefgh"},
    "pair in text": {"text": json.dumps({"api_key": "0123456789abcdefgh"})},
    "assignment": {"text": "a\nOPENAI_API_KEY=0123456789abcdefgh"},
    "under a key, two layers down": {"text": json.dumps({"inner": json.dumps({"x-api-key": "0123456789abcdefgh"})})},
    "header in a list": ["a\nAuthorization: Bearer 0123456789abcdefgh"],
}
TAIL = "0123456789abcdefgh"


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("name", SAID)
def test_it_is_found_however_deep_the_escapes(name: str, layers: int) -> None:
    text = json.dumps(SAID[name])
    for _ in range(layers - 1):
        text = json.dumps([text])
    fact = {"raw": {"x": text}, "input_messages": [{"parts": [{"type": "text", "content": text}]}]}
    assert may_hold_credential(json.dumps(fact).encode())
    redacted = redact_fact(redact_embedded(fact))
    assert TAIL not in json.dumps(redacted)
    assert MARKER in json.dumps(redacted)
    assert redact_fact(redact_embedded(redacted)) == redacted
    json.loads(redacted["raw"]["x"])


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "b\\n"}',
        '{ "spaced" :  "out\\t" ,"n": 1.0}',
        "{not json \\n",
        '["\\u00e9"]',
        "[]",
        f"plain {KEY[:8]}",
        '{"key": "\\"quoted\\""}',
    ],
)
def test_json_text_without_a_credential_keeps_its_spelling(text: str) -> None:
    fact = {"raw": {"x": text}, "output_messages": [{"parts": [{"type": "text", "content": text}]}]}
    assert redact_embedded(fact) is fact


def test_what_stands_in_the_open_is_left_to_redaction_and_keeps_its_spelling() -> None:
    text = '{ "api_key" : "0123456789abcdefgh" ,  "b": "\\n" }'
    assert redact_fact(redact_embedded({"raw": {"x": text}})) == {
        "raw": {"x": f'{{ "api_key" : "{MARKER}" ,  "b": "\\n" }}'}
    }


@pytest.mark.parametrize("raw", ["full", "residual"])
@pytest.mark.parametrize("name", SAID)
def test_no_fact_holds_it(name: str, raw: str) -> None:
    text = json.dumps(SAID[name])
    message = [{"role": "assistant", "parts": [{"type": "text", "content": text}]}]
    attributes = {
        "gen_ai.operation.name": "chat",
        "session.id": "s",
        "gen_ai.output.messages": json.dumps(message),
        "parameters": text,
    }
    span = Span(trace_id="ab" * 16, span_id="cd" * 8, start_ns=1, end_ns=2, attributes=attributes)
    encoded = translate(span, Settings(raw=raw)).encoded
    assert encoded is not None
    assert TAIL.encode() not in encoded
