# SPDX-License-Identifier: Apache-2.0
"""JSON text to Python values, for text that nobody vouches for.

`parse_json(data)` takes bytes or text and returns what it says; it raises `ParseError` (with a reason that
holds no content) and nothing else. The fast parser comes first; what it refuses and Python accepts is read
by the standard library: lone surrogates (kept in the string), `NaN` and `Infinity` as bare words, numbers past the
range of a double, control characters inside strings. A leading byte order mark is passed over.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

_BOM = b"\xef\xbb\xbf"
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
        raise ParseError("nested too deeply") from None
    except (msgspec.MsgspecError, ValueError):
        return _parse_slowly(data)


def _parse_slowly(data: bytes | str) -> Any:
    if isinstance(data, str):
        text = data.removeprefix("\ufeff")
    else:
        data = bytes(data).removeprefix(_BOM)
        try:
            text = data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise ParseError(f"not UTF-8 at byte {error.start}") from None
    try:
        return _PYTHON.decode(text)
    except json.JSONDecodeError as error:
        raise ParseError(f"not JSON at character {error.pos}: {error.msg}") from None
    except RecursionError:
        raise ParseError("nested too deeply") from None


def _int(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:  # more digits than the interpreter converts: the digits stay as text
        return text


_PYTHON = json.JSONDecoder(parse_int=_int, strict=False)
