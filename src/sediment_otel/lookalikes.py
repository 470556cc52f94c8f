# SPDX-License-Identifier: Apache-2.0
"""Spans that no dialect reads although what they carry looks like messages: told, never passed over in silence.

`told(span)` gives the scope and the keys, no content. A value looks like messages where it is JSON text (or a list or
object) with a role, content or parts in its first characters; keys alone are not enough, many spans have a `message`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .telemetry import Span
from .translate.credentials import redact_text

MARKS = ('"role"', '"content"', '"parts"', "'role'", "'content'")
#: So much of a value is looked at.
LOOKED_AT = 4096
#: So many keys of a span are named, and so much of a name.
NAMED, LONGEST = 4, 100


def holds_messages(value: Any) -> bool:
    """Whether a value looks like messages, by what is in it."""
    if type(value) is str:
        text = value[:LOOKED_AT].lstrip()
        return text[:1] in ("[", "{") and any(mark in text for mark in MARKS)
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
        if type(value) is str:
            return holds_messages(value)
    return isinstance(value, Mapping) and ("role" in value or "parts" in value)


def _keys(span: Span) -> Iterator[str]:
    for attributes in (span.attributes, *(event.attributes for event in span.events)):
        yield from (key for key, value in attributes.items() if holds_messages(value))


def told(span: Span) -> tuple[str, tuple[str, ...]] | None:
    """The scope and the keys (the first of them, in their order) of what looks like messages; None without any."""
    keys = dict.fromkeys(_shown(key) for key in _keys(span))
    return (_shown(span.scope.name) or "none named", tuple(keys)[:NAMED]) if keys else None


def note(scope: str, keys: tuple[str, ...]) -> str:
    """The same in words."""
    return f"{', '.join(keys)} of scope {scope} look{'s' * (len(keys) == 1)} like messages"


def _shown(name: str) -> str:
    return redact_text(name[:LONGEST].encode("utf-8", "replace").decode())
