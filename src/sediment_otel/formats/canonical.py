# SPDX-License-Identifier: Apache-2.0
"""The short way: message JSON that already has the shape of a fact is decoded straight into fact parts.

Most spans of current instrumentations hold nothing but text, readable reasoning, tool calls with an
object of arguments and tool results, under the usual roles. For these the typed decoder checks every
shape while it parses, and nothing is left for the translation to decide. Whatever does not fit (an
unknown key or part type, arguments as text or of many levels, a result that is JSON text, a sentinel, a blank
reasoning, another role) makes `decode` return None, and the general way takes over. Both ways give the same fact.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from ..genai import MARKS, MAX_DEPTH, is_too_deep, peel

#: Texts that capture tools write in place of content that was withheld (contract, section 4).
SENTINELS = frozenset({"<REDACTED>", "[REDACTED]", "__REDACTED__", "<elided>", "FILTERED"})
LONGEST_SENTINEL = max(map(len, SENTINELS))
#: Texts this long or longer are no sentinel, whatever white space is around.
_SHORT = LONGEST_SENTINEL + 9


# Arguments of tools, nested as deep as tools take them: the parser sees while it reads that they are not deeper.
_Leaf = str | int | float | bool | None
_One = _Leaf | list[_Leaf] | dict[str, _Leaf]
_Two = _Leaf | list[_One] | dict[str, _One]
_Three = _Leaf | list[_Two] | dict[str, _Two]
_Four = _Leaf | list[_Three] | dict[str, _Three]
_Five = _Leaf | list[_Four] | dict[str, _Four]


class Text(msgspec.Struct, tag="text", tag_field="type", forbid_unknown_fields=True, gc=False):
    """A text part on the short way; it encodes as `facts.TextPart` does."""

    content: str


class Reasoning(msgspec.Struct, tag="reasoning", tag_field="type", forbid_unknown_fields=True, gc=False):
    """A reasoning part on the short way."""

    content: str


class ToolCall(msgspec.Struct, tag="tool_call", tag_field="type", forbid_unknown_fields=True, gc=False):
    """A tool call on the short way."""

    id: str
    name: str
    arguments: dict[str, _Five]


class ToolResponse(msgspec.Struct, tag="tool_call_response", tag_field="type", forbid_unknown_fields=True, gc=False):
    """A tool result as the GenAI form spells it."""

    id: str
    response: Any


class ToolResult(msgspec.Struct, tag="tool_call_response", tag_field="type", gc=False):
    """A tool result as a fact spells it."""

    id: str
    result: Any


Role = Literal["system", "user", "assistant", "tool", "developer"]
PartOnTheWay = Text | Reasoning | ToolCall | ToolResponse


class BareMessage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message of role and parts alone, the usual one of a history. It encodes as `facts.InferenceMessage` does."""

    role: Role
    parts: list[PartOnTheWay]
    finish_reason: None = None


class CheckedMessage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message on the short way. Looked through, it encodes as `facts.InferenceMessage` does."""

    role: Role
    parts: list[PartOnTheWay]
    finish_reason: str | None = None
    #: Taken away while the message is looked through: an unset value is left out of the encoding.
    name: str | UnsetType | None = UNSET


#: Messages of a fact, and by how many bytes their JSON text is longer than they are, encoded. Where the text has
#: exactly that length it is written as this project writes JSON, without a key that occurs twice, and may stand in
#: `raw` as it is. None: the length says nothing.
Decoded: TypeAlias = tuple[list[Any], int | None]


_bare: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[BareMessage])
_messages: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[CheckedMessage])
_system = msgspec.json.Decoder(list[Text])
_JSON_TEXT = frozenset('{["-0123456789tfn \t\r\n')
_REFUSED = (msgspec.MsgspecError, UnicodeEncodeError, RecursionError)
_NULL_REASON = len(',"finish_reason":null')
_SURPLUS_OF_RESULT = len("response") - len("result")
_NULL_NAME = len(',"name":null')
_NO_ID = frozenset({"", "None", "null"})
_VISIBLE = re.compile("[!-~]+").fullmatch
#: Arguments and results stand in a part, in a list, in a message, in a list.
_DEPTH_LEFT = MAX_DEPTH - 4
_CONTAINERS = frozenset({dict, list})


def decode_messages(text: str, *, answer: bool) -> Decoded | None:
    """Fact messages of JSON text in the GenAI form, or None where the general way must read it.

    With `answer`, messages keep their finish reason (trimmed, blank as None); else it is None.
    """
    messages: list[Any]
    bare = not answer
    try:
        messages = (_bare if bare else _messages).decode(text)
    except _REFUSED:
        if not bare:
            return None
        bare = False
        try:
            messages = _messages.decode(text)
        except _REFUSED:
            return None
    surplus = -_NULL_REASON * len(messages)
    ids: list[str] = []
    for message in messages:
        parts: list[Any] = message.parts
        for part in parts:
            kind = type(part)
            if kind is Text:
                if len(part.content) < _SHORT and part.content.strip() in SENTINELS:
                    return None
            elif kind is ToolCall:
                ids.append(part.id)
            elif kind is ToolResponse:
                result = part.response
                if type(result) is str:
                    if (result[:1] in _JSON_TEXT and peel(result)[1]) or (
                        len(result) < _SHORT and result.strip() in SENTINELS
                    ):
                        return None
                elif result is None or is_too_deep(result, _DEPTH_LEFT):
                    return None
                ids.append(part.id)
                parts[0 if len(parts) == 1 else parts.index(part)] = ToolResult(part.id, result)
                surplus += _SURPLUS_OF_RESULT
            else:
                content = part.content
                if not content or content.isspace() or (len(content) < _SHORT and content.strip() in SENTINELS):
                    return None
    if ids and not _are_plain(ids):
        return None
    return messages, surplus if bare else _settled(messages, surplus, answer)


def _are_plain(ids: list[str]) -> bool:
    """Whether all ids can be taken as they are: one look at the usual ones, in which every character is seen."""
    return (_NO_ID.isdisjoint(ids) and _VISIBLE("".join(ids)) is not None) or all(map(_plain_id, ids))


def _settled(messages: list[CheckedMessage], surplus: int, answer: bool) -> int | None:
    """Finish reasons as the fact has them, names taken away; the surplus after that."""
    exact = True
    for message in messages:
        reason = message.finish_reason
        if reason is not None:
            kept = (reason.strip() or None) if answer else None
            if kept == reason:
                surplus += _NULL_REASON
            else:
                message.finish_reason = kept
                exact = False
        if message.name is not UNSET:
            surplus += _NULL_NAME
            exact = exact and message.name is None
            message.name = UNSET
    return surplus if exact else None


def _plain_id(value: str) -> bool:
    """Whether the id can be taken as it is."""
    return value not in _NO_ID and value.isascii() and "\0" not in value and value.strip() is value


def holds_mark(messages: list[Any]) -> bool:
    """Whether arguments or results hold an object that would have to be escaped in `raw` (contract, section 6)."""
    for message in messages:
        for part in message.parts:
            kind = type(part)
            if kind is not Text and kind is not Reasoning:
                value = part.result if kind is ToolResult else part.arguments
                if type(value) is not str and _has_mark(value):
                    return True
    return False


def _has_mark(value: Any) -> bool:
    if type(value) is dict:
        if len(value) == 1 and not MARKS.isdisjoint(value):
            return True
        value = value.values()
    elif type(value) is not list:
        return False
    return any(type(item) in _CONTAINERS and _has_mark(item) for item in value)


def decode_system(text: str) -> list[Text] | None:
    """The text parts of system instructions in the GenAI form, or None where the general way must read them."""
    try:
        parts = _system.decode(text)
    except _REFUSED:
        return None
    for part in parts:
        if len(part.content) < _SHORT and part.content.strip() in SENTINELS:
            return None
    return parts
