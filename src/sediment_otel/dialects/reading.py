# SPDX-License-Identifier: Apache-2.0
"""What every dialect needs to turn attribute values into messages of the GenAI form.

A value is JSON text (one or more layers), a list of JSON texts, or structured. These functions open it,
correct role names, and say what stood in the way; they judge nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..formats.canonical import decode_messages, decode_system
from ..formats.messages import read_message
from ..formats.parts import read_part
from ..genai import MAX_LAYERS, Content, Loss, Message, Messages, NotJson, loads, plain
from ..vocabulary import LossCode, SkipReason

MessageReader = Callable[[Any], "list[Message]"]


class Unreadable(Exception):
    """A message attribute is there and cannot be read. `reason` is the skip reason it may end in."""

    def __init__(self, reason: SkipReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


def opened(value: Any) -> tuple[Any, int]:
    """A message attribute's value without its layers of JSON text: `(value, layers)`. Raises `Unreadable`.

    A text that is no JSON at all is returned as it is, with 0 layers.
    """
    value = plain(value)
    layers = 0
    while type(value) is str and layers < MAX_LAYERS:
        stripped = value.strip()
        if not stripped or stripped[0] not in '[{"n':
            break
        try:
            value = loads(value)
        except NotJson as error:
            if stripped[0] in "[{" or (error.cut and stripped[:2] in ('"[', '"{')):
                raise Unreadable(SkipReason.TRUNCATED if error.cut else SkipReason.MALFORMED) from None
            break
        layers += 1
    return value, layers


def opened_list(value: Any) -> tuple[list[Any], int]:
    """Like `opened`, for a list whose items may be JSON text each. A single object is a list of one."""
    value, layers = opened(value)
    if type(value) is dict:
        return [value], layers
    if type(value) is not list:
        return [], layers
    items = []
    for item in value:
        if type(item) is str:
            inner, more = opened(item)
            layers = max(layers, more)
            items.append(inner)
        else:
            items.append(item)
    return items, layers


def is_message_text(text: str) -> bool:
    """Whether an item of a list is the JSON text of a message or part, rather than a text that says something."""
    if text.lstrip()[:1] != "{":
        return False
    try:
        value = loads(text)
    except NotJson:
        return False
    return type(value) is dict and ("role" in value or "type" in value or "parts" in value)


def messages_of(value: Any, source: str, *, answer: bool) -> Messages | None:
    """The messages in an attribute's value, or None if there is none. Raises `Unreadable`."""
    if type(value) is str:
        decoded = decode_messages(value, answer=answer)
        if decoded is not None:
            return Messages(None, source, value, decoded[0]) if decoded[0] else None
    items, layers = opened_list(value)
    messages = [message for item in items for message in read_message(item)]
    if not messages:
        return None
    return Messages(messages, source, losses=_layers_loss(layers, "/output_messages" if answer else "/input_messages"))


def system_of(value: Any, source: str) -> Messages | None:
    """System instructions as one message's parts: a list of parts, plain text, or a list of messages."""
    if type(value) is str:
        typed = decode_system(value)
        if typed is not None:
            return Messages(None, source, value, typed) if typed else None
    opened_value, layers = opened(value)
    if type(opened_value) is str:
        parts: list[Any] = [{"type": "text", "content": opened_value}] if opened_value.strip() else []
    else:
        items = opened_value if type(opened_value) is list else [opened_value]
        parts = []
        for item in items:
            if type(item) is str and is_message_text(item):
                item = loads(item)
            if type(item) is dict and "role" in item:
                for message in read_message(item):
                    parts.extend(message["parts"])
            elif item is not None:
                parts.extend(read_part(item))
    if not parts:
        return None
    return Messages([{"role": "system", "parts": parts}], source, losses=_layers_loss(layers, "/system_instructions"))


def _layers_loss(layers: int, at: str) -> list[Loss]:
    return [Loss(LossCode.DOUBLE_ENCODED, at, f"{layers} layers")] if layers > 1 else []


#: Per direction: the attributes that may hold it, each with its words for people.
KeyRows = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def key_rows(keys: dict[str, tuple[str, ...]], where: str) -> KeyRows:
    """The table that `content_of` walks: attributes by direction, and where people find them."""
    return tuple((direction, tuple((key, f"{where} {key}") for key in names)) for direction, names in keys.items())


def content_of(attributes: Any, rows: KeyRows) -> Content | None:
    """Content from message attributes: `rows` names, per direction, the attributes that may hold it."""
    content: Content | None = None
    for direction, keys in rows:
        for key, source in keys:
            value = attributes.get(key)
            if value is None:
                continue
            try:
                if direction == "system":
                    messages = system_of(value, source)
                else:
                    messages = messages_of(value, source, answer=direction == "output")
            except Unreadable as error:
                content = content or Content()
                content.problem = content.problem or error.reason
                content.problems[direction] = error.reason
                continue
            if messages is not None:
                content = content or Content()
                setattr(content, direction, messages)
                break
    return content
