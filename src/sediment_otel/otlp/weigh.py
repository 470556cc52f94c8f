# SPDX-License-Identifier: Apache-2.0
"""How much memory a request takes once it is decoded, told from its bytes before anything is decoded. Pure.

`weigh_protobuf(data, most)` and `weigh_json(data)` return bytes that come on top of the text itself: objects for
messages, values and strings, and characters that take more than one byte. The walk over protobuf stops once `most` is
passed. Estimates from above, measured with messages made of nothing but one kind of part; never raise because of the
content.
A protobuf message of empty parts takes up to 160 times its size, text takes next to nothing.
"""

from __future__ import annotations

import re
from typing import Any

#: Kind of message -> the kinds of the messages in its fields; `record` is `span` or `log`.
_KINDS: dict[str, dict[int, str]] = {
    "request": {1: "group"},
    "group": {1: "resource", 2: "scoped"},
    "resource": {1: "pair", 3: "entity"},
    "entity": {},
    "scoped": {1: "scope", 2: "record"},
    "scope": {3: "pair"},
    "span": {9: "pair", 11: "event", 13: "link", 15: "status"},
    "log": {5: "value", 6: "pair"},
    "event": {3: "pair"},
    "link": {4: "pair"},
    "status": {},
    "pair": {2: "value"},
    "value": {5: "list", 6: "map"},
    "list": {1: "value"},
    "map": {1: "pair"},
}
#: What one of each takes, in bytes: in the parser and as an object.
_COSTS = {
    "group": 64,
    "resource": 64,
    "entity": 100,
    "scoped": 64,
    "scope": 64,
    "span": 720,
    "log": 720,
    "event": 200,
    "link": 240,
    "status": 32,
    "pair": 140,
    "value": 50,
    "list": 60,
    "map": 90,
}
_STRING = 60
_Shape = dict[int, Any]  # field number -> cost and shape of the message in it


def _shapes(signal: str) -> _Shape:
    made: dict[str, _Shape] = {name: {} for name in _KINDS}
    for name, inner in _KINDS.items():
        for number, kind in inner.items():
            real = ("log" if signal == "logs" else "span") if kind == "record" else kind
            made[name][number] = (_COSTS[real], made[real])
    return made["request"]


_SHAPES = {signal: _shapes(signal) for signal in ("traces", "logs")}

#: Strings from this size on are looked at for characters that make all of the string wider.
_LONG = 256
_BELOW_WIDEST, _BELOW_WIDE = bytes(range(0xF0)), bytes(range(0xC4))
_INSIDE = bytes(range(0x80, 0xC0))  # bytes of a character after its first
#: First bytes of length-delimited fields 1 to 15, also where the number is spelt in two bytes.
_TAGS = bytes(number << 3 | 2 | high for number in range(1, 16) for high in (0, 0x80))
_DEAREST = 320


def weigh_protobuf(data: bytes, most: int, *, signal: str = "traces", quick: int = 0) -> int:
    """The weight of an export request. Up to `quick` a count of the bytes that can begin a part is enough."""
    bound = (len(data) - len(data.translate(None, _TAGS))) * _DEAREST + 3 * len(data)
    return bound if bound <= quick else _walk(data, most, _SHAPES[signal])


def _walk(data: bytes, most: int, shape: _Shape) -> int:
    """What does not parse costs its own message, as in the decoder: the walk goes on behind it."""
    weight, position, end = 0, 0, len(data)
    outer: list[tuple[int, _Shape]] = []
    while weight <= most:
        if position >= end:
            if not outer:
                break
            position = end
            end, shape = outer.pop()
            continue
        tag = data[position]
        position += 1
        if tag > 0x7F:
            tag, position = _varint(data, position - 1, end)
        kind = tag & 7
        if kind == 2:
            size = data[position] if position < end else -1
            position += 1
            if size > 0x7F:
                size, position = _varint(data, position - 1, end)
            if tag < 0 or size < 0 or size > end - position:
                position = end
                continue
            inner = shape.get(tag >> 3)
            if inner is None:
                weight += _STRING
                if size >= _LONG:
                    weight += _widened(data, position, position + size)
                position += size
                continue
            weight += inner[0]
            if size:
                outer.append((end, shape))
                end, shape = position + size, inner[1]
        elif kind == 0:
            position = _varint(data, position, end)[1]
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        elif kind in (6, 7):
            position = end
        if position > end or tag < 0:
            position = end
    return weight


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A number (-1: none) and the position behind it."""
    result = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
    return -1, end


def _widened(data: bytes, start: int, end: int) -> int:
    """Bytes by which the text there is larger as a string than in UTF-8: one wide character widens all of it."""
    text = data[start:end]
    if text.isascii():
        return 0
    width = 4 if text.translate(None, _BELOW_WIDEST) else 2 if text.translate(None, _BELOW_WIDE) else 1
    return max(len(text.translate(None, _INSIDE)) * width - len(text), 0)


_JSON_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_JSON_COSTS = ((b"{", 200), (b"[", 90), (b",", 32), (b'"', _STRING))


def weigh_json(data: bytes, *, quick: int = 0) -> int:
    """The weight of a JSON text. Where the marks alone are past `quick` those inside strings are left out."""
    wide = _widened(data, 0, len(data))
    weight = sum(data.count(mark) * cost for mark, cost in _JSON_COSTS) + wide
    if weight <= quick:
        return weight
    bare = _JSON_STRING.sub(b'"', data)
    return sum(bare.count(mark) * cost for mark, cost in _JSON_COSTS) + wide
