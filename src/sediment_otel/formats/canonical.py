# SPDX-License-Identifier: Apache-2.0
"""The short way: message JSON that already has the shape of a fact is decoded straight into fact parts.

Most spans of current instrumentations hold nothing but text, readable reasoning, tool calls with an
object of arguments and tool results, under the usual roles. For these the typed decoder checks every
shape while it parses, and nothing is left for the translation to decide. Whatever does not fit (an
unknown key or part type, arguments as text, a result that is JSON text, a sentinel, a blank reasoning,
another role) makes `decode` return None, and the general way takes over. Both ways give the same fact.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..facts import FactError, ReasoningPart, TextPart, ToolCallPart, ToolCallResponsePart
from ..genai import peel

#: Texts that capture tools write in place of content that was withheld (contract, section 4).
SENTINELS = frozenset({"<REDACTED>", "[REDACTED]", "__REDACTED__", "<elided>", "FILTERED"})
LONGEST_SENTINEL = max(map(len, SENTINELS))

PLAIN_ROLES = frozenset({"system", "user", "assistant", "tool", "developer"})


class _Response(msgspec.Struct, tag="tool_call_response", tag_field="type", forbid_unknown_fields=True):
    id: str
    response: Any


class _Incoming(msgspec.Struct, forbid_unknown_fields=True):
    role: str
    parts: list[TextPart | ReasoningPart | ToolCallPart | _Response]
    finish_reason: str | None = None
    name: str | None = None


class CheckedMessage(msgspec.Struct):
    """A message that encodes exactly as `facts.InferenceMessage` does; its parts were checked by decoding."""

    role: str
    parts: list[Any]
    finish_reason: str | None


_messages = msgspec.json.Decoder(list[_Incoming])
_system = msgspec.json.Decoder(list[TextPart])
_JSON_TEXT = frozenset('{["-0123456789tfn \t\r\n')
_REFUSED = (msgspec.MsgspecError, FactError, UnicodeEncodeError, RecursionError)


def decode_messages(text: str, *, answer: bool) -> list[CheckedMessage] | None:
    """Fact messages of JSON text in the GenAI form, or None where the general way must read it.

    With `answer`, messages keep their finish reason (trimmed, blank as None); else it is None.
    """
    try:
        incoming = _messages.decode(text)
    except _REFUSED:
        return None
    messages = []
    for message in incoming:
        role = message.role
        parts: list[Any] = message.parts
        if role not in PLAIN_ROLES:
            return None
        for index, part in enumerate(parts):
            kind = type(part)
            if kind is TextPart:
                content = part.content
                if len(content) <= LONGEST_SENTINEL and content in SENTINELS:
                    return None
            elif kind is _Response:
                result = part.response
                if type(result) is str:
                    if result[:1] in _JSON_TEXT and peel(result)[1]:
                        return None
                    if len(result) <= LONGEST_SENTINEL and result in SENTINELS:
                        return None
                elif result is None:
                    return None
                parts[index] = ToolCallResponsePart(part.id, result)
            elif kind is ReasoningPart:
                content = part.content
                if not content or content.isspace() or (len(content) <= LONGEST_SENTINEL and content in SENTINELS):
                    return None
        reason = message.finish_reason
        messages.append(CheckedMessage(role, parts, (reason.strip() or None) if answer and reason else None))
    return messages


def decode_system(text: str) -> list[TextPart] | None:
    """The text parts of system instructions in the GenAI form, or None where the general way must read them."""
    try:
        parts = _system.decode(text)
    except _REFUSED:
        return None
    for part in parts:
        if len(part.content) <= LONGEST_SENTINEL and part.content in SENTINELS:
            return None
    return parts
