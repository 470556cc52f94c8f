# SPDX-License-Identifier: Apache-2.0
"""Values that a producer wrote as Python's `repr`: dicts, lists, texts, numbers, None and the booleans.

Reading is bounded in length and depth, evaluates nothing, and never raises.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

#: Longer texts are not read: parsing Python costs many times what parsing JSON does.
MAX_TEXT = 2_000_000
#: Openings of one text; more of them are no message.
MAX_DEPTH = 64

_STARTS = frozenset("{[('\"")


def literal(text: Any) -> Any:
    """The value of a Python literal that is a container or a text; None where the text is none."""
    if type(text) is not str or len(text) > MAX_TEXT:
        return None
    stripped = text.strip()
    if not stripped or stripped[0] not in _STARTS or _too_deep(stripped):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _plain(ast.literal_eval(stripped))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _too_deep(text: str) -> bool:
    """Brackets nested too deep, or a run of signs, counted outside of quoted text as far as quotes tell."""
    depth = signs = 0
    quote = ""
    escaped = False
    for character in text:
        if quote:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in "[{(":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif character in "]})":
            depth -= 1
        if not quote and character in "+-~":
            signs += 1
            if signs > MAX_DEPTH * 64:
                return True
    return False


def _plain(value: Any) -> Any:
    """Tuples and sets as lists, keys as text: what JSON could have said."""
    if type(value) is dict:
        return {key if type(key) is str else str(key): _plain(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_plain(item) for item in value]
    if type(value) is set:
        return [_plain(item) for item in sorted(value, key=repr)]
    return value if type(value) in (str, int, float, bool, type(None)) else str(value)
