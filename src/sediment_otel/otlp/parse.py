# SPDX-License-Identifier: Apache-2.0
"""JSON text to Python values, for text that nobody vouches for.

`parse_json(data)` takes bytes or text and returns what it says; it raises `ParseError` (with a reason that
holds no content) and nothing else. The fast parser comes first; what it refuses and Python accepts is read
by the standard library: lone surrogates (kept in the string), `NaN` and `Infinity` as bare words, numbers past the
range of a double, control characters inside strings. What stands deeper than `DEEPEST` is read as null, so that it
costs only the record it is in (no record may be that deep: `genai.MAX_DEPTH`). A leading byte order mark
is passed over. `parse_several` reads values that stand one after another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

_BOM = b"\xef\xbb\xbf"
#: Levels of objects and lists that are read. An AnyValue takes up to four for each of its own.
DEEPEST = 600
_decode = msgspec.json.Decoder().decode


class ParseError(ValueError):
    """The text is not JSON."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse_json(data: bytes | str) -> Any:
    try:
        return _decode(data)
    except RecursionError:
        return _parse_slowly(_without_depths(_text(data)))
    except (msgspec.MsgspecError, ValueError):
        return _parse_slowly(data)


_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|([\[{])|[\]}]', re.DOTALL)


def _without_depths(text: str) -> str:
    """The text with null for each object and list that stands deeper than `DEEPEST`."""
    kept: list[str] = []
    depth = start = 0
    for found in _BRACKET.finditer(text):
        if found.group(1):
            depth += 1
            if depth == DEEPEST + 1:
                kept += (text[start : found.start()], "null")
        elif text[found.start()] != '"':
            if depth == DEEPEST + 1:
                start = found.end()
            depth -= 1
    if depth > DEEPEST:  # cut off inside
        return "".join(kept)
    kept.append(text[start:])
    return "".join(kept)


def parse_several(data: bytes | str) -> Iterator[Any]:
    """The values of a text that has several, one after another; raises `ParseError` where it is none any more."""
    text = _text(data).strip()
    position = 0
    while position < len(text):
        try:
            value, position = _PYTHON.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise ParseError(f"not JSON at character {error.pos}: {error.msg}") from None
        except RecursionError:
            raise ParseError("nested too deeply") from None
        yield value
        while text[position : position + 1].isspace():
            position += 1


def _parse_slowly(data: bytes | str) -> Any:
    text = _text(data)
    try:
        return _PYTHON.decode(text)
    except json.JSONDecodeError as error:
        raise ParseError(f"not JSON at character {error.pos}: {error.msg}") from None
    except RecursionError:
        raise ParseError("nested too deeply") from None


def _text(data: bytes | str) -> str:
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    data = bytes(data).removeprefix(_BOM)
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ParseError(f"not UTF-8 at byte {error.start}") from None


def _int(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:  # more digits than the interpreter converts: the digits stay as text
        return text


_PYTHON = json.JSONDecoder(parse_int=_int, strict=False)
