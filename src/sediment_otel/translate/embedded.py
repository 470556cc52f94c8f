# SPDX-License-Identifier: Apache-2.0
"""Credentials in JSON text that a fact keeps as text.

Redaction looks at strings as they stand. In JSON text the escapes hide what it looks for: `\\nsk-…` has a letter in
front of the key, `\\"api_key\\": \\"…\\"` has backslashes in front of the quotes. `redact_embedded` opens such text,
redacts what is inside by the same rules, and writes it back only where that changed something. Text that redaction finds
as it stands is left to it, so its spelling stays. Section 8 of the contract; in: a fact as builtins, out: the same.
"""

from __future__ import annotations

import json
from typing import Any

from ..genai import NotJson, strict_loads
from .redact import redact_each, redact_text, redact_value

#: A text this short, or without these, hides nothing.
_SHORTEST = 20


def redact_embedded(fact: dict[str, Any]) -> dict[str, Any]:
    """The fact with the credentials in the JSON text of its parts and its `raw` replaced; itself if there are none."""
    return redact_each(fact, _opened)


def _opened(text: str) -> str:
    if len(text) < _SHORTEST or "\\" not in text or text.lstrip()[:1] not in ("{", "["):
        return text
    plain = redact_text(text)
    try:
        value = strict_loads(plain)
    except NotJson:
        return plain
    inside = redact_value(_inside(value))
    return plain if inside == value else json.dumps(inside, ensure_ascii=False)


def _inside(value: Any) -> Any:
    """A value with the JSON text in it redacted, to the last layer."""
    if isinstance(value, str):
        return _opened(value)
    if isinstance(value, list):
        return [_inside(item) for item in value]
    if isinstance(value, dict):
        return {key: _inside(item) for key, item in value.items()}
    return value
