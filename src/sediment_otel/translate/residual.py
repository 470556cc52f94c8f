# SPDX-License-Identifier: Apache-2.0
"""`raw="residual"`: which span attributes the normalised fields hold without loss, and may be left out.

An attribute of messages may go if the fact's messages, with what was set aside put back in its place, are
the very messages that were read. This is tried, not argued: the way back is walked for each direction.
"""

from __future__ import annotations

from typing import Any

from ..dialects.gen_ai import MESSAGE_KEYS, PLAIN_KEYS
from ..dialects.reading import Unreadable, opened
from ..genai import Messages, Reading, Subject, peel
from .finish import builtins
from .parts import RESPONSE_KEYS, Aside, genai_input
from .raw import HELD_KEYS, TOOL_HOLDERS, tool_keys

#: Span attributes that may be left out → the direction whose messages they held.
DIRECTIONS: dict[str, str] = {
    key: direction for table in (MESSAGE_KEYS, PLAIN_KEYS) for direction, keys in table.items() for key in keys
}


def droppable(
    subject: Subject, reading: Reading, inputs: list[Any], outputs: list[Any], aside: Aside
) -> dict[str, int]:
    """Message attributes on the span that can be rebuilt from the fact and `unsupported_parts`.

    Their keys, with the layers of JSON text that each had.
    """
    found: list[Messages] = []
    given = [m for m in (reading.system, reading.input) if m is not None]
    if given and all(map(_on_span, given)):
        whole = genai_input(reading)
        said_once = reading.system is not None and reading.input is not None and len(whole) == len(reading.input.open())
        rebuilt = rebuild(builtins(inputs), aside.unsupported, "/input_messages")
        if not said_once and same(rebuilt, whole):
            found += given
    if reading.output is not None and _on_span(reading.output):
        rebuilt = rebuild(builtins(outputs), aside.unsupported, "/output_messages")
        if same(rebuilt, reading.output.open()):
            found.append(reading.output)
    return {key: _layers(messages, subject.span.attributes.get(key)) for messages in found for key in [_key(messages)]}


def _on_span(messages: Messages) -> bool:
    return messages.source.startswith("span attribute ") and _key(messages) in DIRECTIONS


def _key(messages: Messages) -> str:
    return messages.source.removeprefix("span attribute ")


def _layers(messages: Messages, value: Any) -> int:
    if messages.text is not None:
        return 1
    try:
        return opened(value)[1]
    except Unreadable:
        return 0


def rebuild(messages: list[dict[str, Any]], unsupported: list[dict[str, Any]], base: str) -> list[Any]:
    """Messages of the GenAI form from a fact's messages and what was set aside, each in its place.

    An entry whose place is none is passed over.
    """
    found: list[Any] = [genai_message(message) for message in messages]
    prefix = f"{base}/"
    entries = [
        (entry["at"][len(prefix) :].split("/"), entry) for entry in unsupported if entry["at"].startswith(prefix)
    ]
    for place, entry in entries:
        if len(place) == 1 and "message" in entry and _is_index(place[0]):
            found.insert(int(place[0]), entry["message"])
    for place, entry in entries:
        if len(place) == 3 and "part" in entry and _is_index(place[0]) and _is_index(place[2]):
            index = int(place[0])
            if index < len(found) and type(found[index]) is dict and type(found[index].get("parts")) is list:
                found[index]["parts"].insert(int(place[2]), entry["part"])
    return found


def _is_index(token: str) -> bool:
    return token.isascii() and token.isdigit() and len(token) < 10


def genai_message(message: dict[str, Any]) -> dict[str, Any]:
    """A fact's message in the GenAI form: tool results under `response`, no key without a value."""
    found: dict[str, Any] = {
        "role": message["role"],
        "parts": [
            {("response" if key == "result" else key): value for key, value in part.items()}
            if part["type"] == "tool_call_response"
            else dict(part)
            for part in message["parts"]
        ],
    }
    if message["finish_reason"] is not None:
        found["finish_reason"] = message["finish_reason"]
    return found


def same(left: Any, right: Any) -> bool:
    """Equality of GenAI forms: value for value and type for type, JSON text of tools opened, nulls as absent."""
    return bool(comparable(left) == comparable(right))


def comparable(value: Any) -> Any:
    """Messages or parts with what has two spellings brought to one: a null name or finish reason is none, the
    text of tool arguments and results is opened (wherever `raw` opens it), a result stands under `response`.
    """
    if type(value) is list:
        return [comparable(item) for item in value]
    if type(value) is not dict:
        return typed(value)
    keys = tool_keys(value)
    found = {
        key: _tool_value(key, item, keys)
        for key, item in value.items()
        if item is not None or key not in _NULL_IS_ABSENT or ("role" not in value and "type" not in value)
    }
    if value.get("type") == "tool_call_response":
        response = next((value[key] for key in RESPONSE_KEYS if value.get(key) is not None), None)
        found = {key: item for key, item in found.items() if key not in RESPONSE_KEYS}
        found["response"] = typed(peel(response)[0])
    return found


def _tool_value(key: str, item: Any, keys: tuple[str, ...]) -> Any:
    if key in keys:
        return typed(peel(item)[0])
    if key in TOOL_HOLDERS and type(item) is dict:
        return {name: _tool_value(name, inner, HELD_KEYS) for name, inner in item.items()}
    return comparable(item)


def typed(value: Any) -> Any:
    """A value in which equality keeps types apart (1 is not true, nor 1.0) and NaN equals itself."""
    if type(value) is list:
        return [typed(item) for item in value]
    if type(value) is dict:
        return {key: typed(item) for key, item in value.items()}
    return (type(value).__name__, str(value) if value != value else value)


_NULL_IS_ABSENT = frozenset({"name", "finish_reason"})
