# SPDX-License-Identifier: Apache-2.0
"""Comparing readings: what `verify` and the tests mean by "the same GenAI form". Pure.

`genai_form` is a reading as one value: system instructions, input and output messages, scalar fields.
`differences` walks two of them. What redaction hid, withheld or replaced on the way is set aside, since a fact
does not hold it. A difference names a place and a kind, never content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..genai import Reading, plain
from .credentials import MARKER
from .parts import finish_reasons
from .redact import IDENTITY_MARKER, REPLACEMENT, replace_unstorable
from .residual import comparable, typed
from .restore import CURRENT


class Difference(NamedTuple):
    """`at` is a JSON Pointer into the GenAI form; `kind` is missing, added, changed, or `<type> became <type>`."""

    at: str
    kind: str


def genai_form(reading: Reading) -> dict[str, Any]:
    """The reading as plain values: `system` (parts), `input`, `output` (messages or None) and `fields`."""
    fields = {name: plain(value) for name, value in reading.fields.items() if name in CURRENT}
    if "finish_reasons" in fields:
        fields["finish_reasons"] = finish_reasons(fields["finish_reasons"])
    return {
        "system": None if reading.system is None else reading.system.open()[0]["parts"],
        "input": None if reading.input is None else reading.input.open(),
        "output": None if reading.output is None else reading.output.open(),
        "fields": fields,
    }


def differences(original: Reading, restored: Reading) -> list[Difference]:
    """Where the restored reading differs from the original one, in the order of the original."""
    return list(_differ(_comparable(original), _comparable(restored), ""))


def _comparable(reading: Reading) -> dict[str, Any]:
    """The form with JSON text opened, then with NUL and surrogates as a fact has them."""
    form = genai_form(reading)
    return {name: _storable(typed(value) if name == "fields" else comparable(value)) for name, value in form.items()}


def _storable(value: Any) -> Any:
    if type(value) is list:
        return [_storable(item) for item in value]
    if type(value) is dict:
        names = replace_unstorable(dict.fromkeys(value))[0]
        return {name: _storable(item) for name, item in zip(names, value.values(), strict=True)}
    kind, inner = value
    return (kind, replace_unstorable(inner)[0]) if kind == "str" else value


def _differ(left: Any, right: Any, at: str) -> Iterator[Difference]:
    if type(left) is type(right) is dict:
        for key, value in left.items():
            where = f"{at}/{key.replace('~', '~0').replace('/', '~1')}"
            if key in right:
                yield from _differ(value, right[key], where)
            elif not _replaced(value, where):
                yield Difference(where, "missing")
        for key in right:
            if key not in left:
                yield Difference(f"{at}/{key.replace('~', '~0').replace('/', '~1')}", "added")
    elif type(left) is type(right) is list:
        for index, value in enumerate(left):
            if index < len(right):
                yield from _differ(value, right[index], f"{at}/{index}")
            else:
                yield Difference(f"{at}/{index}", "missing")
        for index in range(len(left), len(right)):
            yield Difference(f"{at}/{index}", "added")
    elif left != right and not _hidden(right) and not _replaced(left, at):
        yield Difference(at, "changed" if _kind(left) == _kind(right) else f"{_kind(left)} became {_kind(right)}")


def _hidden(value: Any) -> bool:
    """Whether a value stands where redaction put a marker."""
    text = value[1] if type(value) is tuple else None
    return type(text) is str and (MARKER in text or text == IDENTITY_MARKER)


def _replaced(value: Any, at: str) -> bool:
    """Whether a scalar field was no usable value until a character in it was replaced: the fact holds another one."""
    text = value[1] if type(value) is tuple else None
    return at.startswith("/fields/") and type(text) is str and REPLACEMENT in text


def _kind(value: Any) -> str:
    """The JSON name of a compared value's type."""
    name = value[0] if type(value) is tuple else type(value).__name__
    return _JSON_NAMES.get(name, name)


_JSON_NAMES = {
    "NoneType": "null",
    "str": "string",
    "dict": "object",
    "list": "array",
    "int": "integer",
    "float": "number",
}
