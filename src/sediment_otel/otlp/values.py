# SPDX-License-Identifier: Apache-2.0
"""AnyValue and KeyValue lists, in JSON, as plain Python values.

In: what a JSON parser made of an AnyValue (`{"stringValue": "x"}`) or of a list of pairs. Out: `str`, `bool`,
`int` of any size, `float`, `bytes`, `None`, `list`, `dict`. An empty wrapper, an absent value and a null are
`None`. `strict` raises `Unreadable` on a value of the wrong type; without it the value stays as it was
written (a number that is none stays text, so that nothing is lost), values without a wrapper are taken as
they are, attributes may be one plain object, and a pair that cannot be used is counted as dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .fields import Unreadable, from_base64


def read_attributes(pairs: Any, strict: bool) -> tuple[dict[str, Any], int]:
    """The attributes as a dict (the last of equal keys wins), and how many pairs could not be used."""
    out: dict[str, Any] = {}
    if type(pairs) is not list:
        return _read_odd_attributes(pairs, strict)
    dropped = 0
    for pair in pairs:
        try:
            key = pair["key"]
            value = pair["value"]
            text = value.get("stringValue")
        except (KeyError, TypeError, AttributeError):
            key, value, text = _take_apart(pair, strict)
        if type(key) is not str:
            dropped += 1
        elif type(text) is str:
            out[key] = text
        else:
            out[key] = read_value(value, strict)
    return out, dropped


def _take_apart(pair: Any, strict: bool) -> tuple[Any, Any, Any]:
    """Key, value and text of a pair that is not the usual one; a key of None means that it cannot be used."""
    if type(pair) is dict:
        key = pair.get("key", "")
        if type(key) is str:
            return key, pair.get("value"), None
    if strict:
        raise Unreadable("an attribute is not a pair of key and value")
    if type(pair) is list and len(pair) == 2 and type(pair[0]) is str:
        return pair[0], pair[1], None
    return None, None, None


def _read_odd_attributes(pairs: Any, strict: bool) -> tuple[dict[str, Any], int]:
    if pairs is None:
        return {}, 0
    if strict:
        raise Unreadable("attributes are not a list")
    if type(pairs) is dict:
        return {key: _unwrap(value) for key, value in pairs.items()}, 0
    return {}, 1


def _unwrap(value: Any) -> Any:
    """A value of a plain object: an AnyValue wrapper, or the value itself."""
    if type(value) is dict and len(value) == 1 and next(iter(value)) in _READERS:
        return read_value(value, False)
    return value


def read_value(value: Any, strict: bool) -> Any:
    """One AnyValue as a plain value."""
    if type(value) is not dict:
        if strict and value is not None:
            raise Unreadable("a value is not an object")
        return value
    known = False
    for name, inner in value.items():
        reader = _READERS.get(name)
        if reader is not None:
            if inner is not None:
                return reader(inner, strict)
            known = True
    return None if known or strict or not value else value


def _wrong(inner: Any, strict: bool, kind: str) -> Any:
    if strict:
        raise Unreadable(f"a {kind} has the wrong type")
    return inner


def _string(inner: Any, strict: bool) -> Any:
    return inner if type(inner) is str else _wrong(inner, strict, "stringValue")


def _bool(inner: Any, strict: bool) -> Any:
    return inner if type(inner) is bool else _wrong(inner, strict, "boolValue")


def _int(inner: Any, strict: bool) -> Any:
    if type(inner) is int:
        return inner
    if type(inner) is str and inner.isascii() and inner.strip().removeprefix("-").isdigit():
        try:
            return int(inner)
        except ValueError:  # more digits than the interpreter converts
            return _wrong(inner, strict, "intValue")
    if type(inner) is float and inner.is_integer():
        return int(inner)
    return _wrong(inner, strict, "intValue")


_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _double(inner: Any, strict: bool) -> Any:
    if type(inner) is float:
        return inner
    try:
        if type(inner) is int:
            return float(inner)
        if type(inner) is str:
            named = _NON_FINITE.get(inner)
            if named is not None:
                return named
            if inner[-1:].isdigit() and inner.isascii() and "_" not in inner:
                return float(inner)
    except (ValueError, OverflowError):
        pass
    return _wrong(inner, strict, "doubleValue")


def _bytes(inner: Any, strict: bool) -> Any:
    decoded = from_base64(inner) if type(inner) is str else None
    return _wrong(inner, strict, "bytesValue") if decoded is None else decoded


def _array(inner: Any, strict: bool) -> Any:
    items = inner.get("values") if type(inner) is dict else inner
    if items is None:
        return []
    if type(items) is not list:
        return _wrong(inner, strict, "arrayValue")
    return [read_value(item, strict) for item in items]


def _kvlist(inner: Any, strict: bool) -> Any:
    pairs = inner.get("values") if type(inner) is dict else inner
    if type(pairs) is not list and type(pairs) is not dict and pairs is not None:
        return _wrong(inner, strict, "kvlistValue")
    return read_attributes(pairs, strict)[0]


_READERS: dict[str, Callable[[Any, bool], Any]] = {
    "stringValue": _string,
    "intValue": _int,
    "boolValue": _bool,
    "doubleValue": _double,
    "arrayValue": _array,
    "kvlistValue": _kvlist,
    "bytesValue": _bytes,
    "string_value": _string,
    "int_value": _int,
    "bool_value": _bool,
    "double_value": _double,
    "array_value": _array,
    "kvlist_value": _kvlist,
    "bytes_value": _bytes,
}
