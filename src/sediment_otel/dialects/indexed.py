# SPDX-License-Identifier: Apache-2.0
"""Messages flattened into numbered attributes (`llm.input_messages.0.message.role`), put together again.

`branch` builds a tree of the attributes below one prefix; `numbered` gives its numbered children in numeric
order. Names that are no numbers, numbers of any size, gaps, and a key that is both a value and the start of
other keys are all taken as they come. `gap` says what a span lost (contract, section 7: holes between
indices, or leading indices missing while the span says that attributes were dropped). Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..genai import plain

#: Deeper keys than this keep the rest of their name in one piece.
MAX_DEPTH = 16
#: An index of more digits is a name: no producer counts that far.
MAX_INDEX_DIGITS = 12

_VALUE = ""


class Branch(dict[str, Any]):
    """The attributes below one name: children by the next piece of their name, its own value under ""."""

    __slots__ = ()

    def value(self, name: str) -> Any:
        """The value that stands exactly under `name`; None if there is none."""
        found = self.get(name)
        return found.get(_VALUE) if type(found) is Branch else found

    def below(self, name: str) -> Branch:
        """The branch under `name`, empty if there is none."""
        found = self.get(name)
        return found if type(found) is Branch else _NOTHING


_NOTHING = Branch()


def branch(attributes: Mapping[str, Any], prefix: str) -> Branch:
    """The tree of all attributes whose key starts with `prefix` and a dot. Empty strings are values."""
    root = Branch()
    start = prefix + "."
    skip = len(start)
    for key in attributes:
        if not key.startswith(start):
            continue
        value = plain(attributes[key])
        if value is None:
            continue
        *way, last = key[skip:].split(".", MAX_DEPTH)
        node = root
        for piece in way:
            below = node.get(piece)
            if type(below) is not Branch:
                below, old = Branch(), below
                if old is not None:
                    below[_VALUE] = old
                node[piece] = below
            node = below
        there = node.get(last)
        if type(there) is Branch:
            there[_VALUE] = value
        else:
            node[last] = value
    return root


def index_of(name: str) -> int | None:
    """The number that a piece of a key is; None where it is another name."""
    if name.isascii() and name.isdigit() and len(name) <= MAX_INDEX_DIGITS:
        return int(name)
    return None


def numbered(node: Mapping[str, Any]) -> list[tuple[int, Any]]:
    """The numbered children of a branch by number; of two spellings of one number (`1`, `01`) the shorter one."""
    found: dict[int, tuple[str, Any]] = {}
    for name, child in node.items():
        index = index_of(name)
        if index is not None and (index not in found or len(name) < len(found[index][0])):
            found[index] = (name, child)
    return [(index, found[index][1]) for index in sorted(found)]


def branches(node: Mapping[str, Any]) -> list[Branch]:
    """The numbered children that are branches, in order."""
    return [child for _, child in numbered(node) if type(child) is Branch]


def gap(indices: list[int], dropped: int, first: int = 0) -> bool:
    """Whether messages are missing among the sorted `indices` of a list that starts at `first`.

    A hole between two indices always means so; a missing beginning only where attributes were dropped.
    """
    if not indices:
        return False
    if indices[-1] - indices[0] + 1 != len(indices):
        return True
    return dropped > 0 and indices[0] > first


def first_keys(prefixes: tuple[str, ...], fields: tuple[str, ...]) -> frozenset[str]:
    """Keys by which the first or the second item of a list shows; `isdisjoint` tells a span without any at once."""
    return frozenset(f"{prefix}.{index}.{field}" for prefix in prefixes for index in "01" for field in fields)


class MessageKeys:
    """Keys whose JSON text is stored parsed: `exact` ones, and the tool arguments of flattened messages."""

    __slots__ = ("_exact", "_starts")

    def __init__(self, exact: frozenset[str], prefixes: tuple[str, ...]) -> None:
        self._exact = exact
        self._starts = tuple(f"{prefix}." for prefix in prefixes)

    def __contains__(self, key: object) -> bool:
        if key in self._exact:
            return True
        return type(key) is str and key.endswith(_ARGUMENTS) and key.startswith(self._starts)


_ARGUMENTS = (".arguments", ".function_call_arguments_json")


def before(attributes: Mapping[str, Any], prefix: str, end: int) -> dict[str, Any]:
    """The attributes without those of `prefix` whose index is `end` or more."""
    return {
        key: value for key, value in attributes.items() if (index := index_under(key, prefix)) is None or index < end
    }


def leading(attributes: Mapping[str, Any], prefix: str) -> tuple[int, bool]:
    """How many items of a list are there from 0 on without a gap, and whether any stands behind a gap."""
    indices = {index for key in attributes if (index := index_under(key, prefix)) is not None}
    end = 0
    while end in indices:
        end += 1
    return end, len(indices) > end


def index_under(key: str, prefix: str) -> int | None:
    """The index of the item of `prefix` that a key belongs to; None where it belongs to none."""
    if not key.startswith(prefix + "."):
        return None
    return index_of(key[len(prefix) + 1 :].split(".", 1)[0])


__all__ = [
    "Branch",
    "MessageKeys",
    "before",
    "branch",
    "branches",
    "first_keys",
    "gap",
    "index_of",
    "index_under",
    "leading",
    "numbered",
]
