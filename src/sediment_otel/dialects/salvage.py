# SPDX-License-Identifier: Apache-2.0
"""`--salvage`: the complete leading messages of message lists that were cut short.

`salvaged` gives a subject in which every cut list ends with its last complete message, and says for each
place how many were kept. The subject itself is not changed, so `raw` still holds the text as it was. What is
kept is only what is whole: no string is closed, no message is completed. Nothing here raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..genai import MAX_LAYERS, Loss, NotJson, Subject, loads, plain
from ..vocabulary import LossCode
from .indexed import before, index_under, leading

_decode = json.JSONDecoder().raw_decode


def leading_items(text: str) -> list[Any] | None:
    """The complete leading items of JSON text of a list that is cut short, in up to `MAX_LAYERS` layers of text.

    None where the text is whole, or is no list at all.
    """
    for _ in range(MAX_LAYERS):
        stripped = text.lstrip()
        if stripped[:1] == "[":
            return _items(stripped)
        if stripped[:1] != '"':
            return None
        try:
            value = loads(stripped)
        except NotJson:
            value = _unquoted(stripped)
        if type(value) is not str:
            return value if type(value) is list else None
        text = value
    return None


def _items(text: str) -> list[Any] | None:
    """Items from the front, up to the first that is not whole; None if the list ends as it should."""
    found: list[Any] = []
    place = 1
    while True:
        place = _skip(text, place, " \t\r\n")
        if text[place : place + 1] == "]":
            return None
        if found:
            if text[place : place + 1] != ",":
                return found
            place = _skip(text, place + 1, " \t\r\n")
        try:
            item, place = _decode(text, place)
        except (ValueError, RecursionError):
            return found
        found.append(item)


def _skip(text: str, place: int, characters: str) -> int:
    while place < len(text) and text[place] in characters:
        place += 1
    return place


def _unquoted(text: str) -> str | None:
    """The text inside a JSON string whose end was cut off: up to the last whole character of it."""
    for end in range(len(text), max(len(text) - 12, 0), -1):
        try:
            value = json.loads(f'{text[:end]}"', strict=False)
        except ValueError:
            continue
        return value if type(value) is str else None
    return None


def salvaged(subject: Subject, keys: Iterable[str], prefixes: Iterable[str]) -> tuple[Subject, list[Loss]]:
    """The subject with its cut message lists ended early, and a loss for each place where that was done."""
    names, numbered = frozenset(keys), tuple(prefixes)
    losses: list[Loss] = []
    span = subject.span
    attributes = _salvaged(span.attributes, names, "/span/attributes", losses)
    for prefix in numbered:
        attributes = _before_loss(attributes, prefix, losses)
    events = [
        msgspec.structs.replace(
            event, attributes=_salvaged(event.attributes, names, f"/span/events/{index}/attributes", losses)
        )
        for index, event in enumerate(span.events)
    ]
    records = tuple(
        msgspec.structs.replace(
            record, attributes=_salvaged(record.attributes, names, f"/log_records/{index}/attributes", losses)
        )
        for index, record in enumerate(subject.records)
    )
    if not losses:
        return subject, losses
    new = msgspec.structs.replace(span, attributes=attributes, events=events)
    return msgspec.structs.replace(subject, span=new, records=records), losses


def _salvaged(attributes: Mapping[str, Any], names: frozenset[str], at: str, losses: list[Loss]) -> dict[str, Any]:
    found = dict(attributes)
    for key in names & attributes.keys():
        value = plain(attributes[key])
        if type(value) is not str:
            continue
        items = leading_items(value)
        if items is not None:
            found[key] = items
            losses.append(_loss(f"{at}/{key}", len(items)))
    losses.sort(key=lambda loss: loss.at)
    return found


def _before_loss(attributes: dict[str, Any], prefix: str, losses: list[Loss]) -> dict[str, Any]:
    """Without the messages from the first on that is missing, or whose content is a list cut short."""
    end, torn = leading(attributes, prefix)
    for key, value in attributes.items():
        if key.endswith(".content") and type(value) is str and value.lstrip()[:2] == "[{":
            index = index_under(key, prefix)
            if index is not None and index < end and _is_cut(value):
                end, torn = index, True
    if not torn:
        return attributes
    losses.append(_loss(f"/span/attributes/{prefix}", end))
    return before(attributes, prefix, end)


def _is_cut(text: str) -> bool:
    try:
        loads(text)
    except NotJson as error:
        return error.cut
    return False


def _loss(at: str, kept: int) -> Loss:
    return Loss(LossCode.ATTRIBUTES_DROPPED, at, f"cut short, the {kept} complete leading messages are kept")


__all__ = ["leading_items", "salvaged"]
