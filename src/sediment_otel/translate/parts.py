# SPDX-License-Identifier: Apache-2.0
"""Messages and parts of the GenAI form become messages and parts of a fact (contract, section 4).

What Sediment has no place for is set aside whole, with its pointer and the reason. Nothing is replaced
by placeholder text, nothing is invented. Pure, and total: whatever stands in a message, it never raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..facts import InferenceMessage, Part, ReasoningPart, TextPart, ToolCallPart, ToolCallResponsePart
from ..formats.canonical import LONGEST_SENTINEL, SENTINELS
from ..genai import Loss, Reading, finite, peel
from ..vocabulary import LossCode
from .identity import usable_id
from .redact import replace_unstorable


class Aside(msgspec.Struct):
    """What was taken out while messages were translated: entries for `raw.unsupported_parts`, and losses."""

    unsupported: list[dict[str, Any]] = []
    losses: list[Loss] = []

    def part(self, code: LossCode, at: str, part: Any, note: str = "") -> None:
        """Set one part aside."""
        self.unsupported.append({"at": at, "code": code.value, "part": part})
        self.losses.append(Loss(code, at, note))

    def message(self, code: LossCode, at: str, message: Any, note: str = "") -> None:
        """Set a whole message aside."""
        self.unsupported.append({"at": at, "code": code.value, "message": message})
        self.losses.append(Loss(code, at, note))

    def loss(self, code: LossCode, at: str, note: str = "") -> None:
        """Note a loss inside something that is kept."""
        self.losses.append(Loss(code, at, note))


def is_sentinel(value: Any) -> bool:
    """Whether a text is what a capture tool writes in place of withheld content."""
    return type(value) is str and len(value) <= LONGEST_SENTINEL + 8 and value.strip() in SENTINELS


def _text(part: dict[str, Any], at: str, aside: Aside) -> Part | None:
    content = part.get("content")
    if type(content) is not str:
        aside.part(LossCode.UNSUPPORTED_CONTENT, at, part, "text whose content is no string")
    elif is_sentinel(content):
        aside.part(LossCode.WITHHELD_CONTENT, at, part, "text")
    else:
        return TextPart(content)
    return None


def _reasoning(part: dict[str, Any], at: str, aside: Aside) -> Part | None:
    content = part.get("content")
    if type(content) is not str or not content.strip():
        aside.part(LossCode.OPAQUE_REASONING, at, part, "no readable reasoning")
    elif is_sentinel(content):
        aside.part(LossCode.WITHHELD_CONTENT, at, part, "reasoning")
    else:
        return ReasoningPart(content)
    return None


def _tool_call(part: dict[str, Any], at: str, aside: Aside) -> Part | None:
    call_id = usable_id(part.get("id"))
    if call_id is None:
        aside.part(LossCode.MISSING_ID, at, part, "tool call")
        return None
    arguments, layers = peel(part.get("arguments"))
    if layers > 1:
        aside.loss(LossCode.DOUBLE_ENCODED, at, f"arguments, {layers} layers")
    if type(arguments) is not dict:
        aside.loss(LossCode.MALFORMED_ARGUMENTS, at, "arguments are no object")
        arguments = {}
    arguments, replaced = finite(arguments)
    if replaced:
        aside.loss(LossCode.INVALID_NUMBER, at, f"{replaced} in arguments")
    return ToolCallPart(call_id, tool_name(part.get("name")), arguments)


def tool_name(name: Any) -> str:
    """The name of a tool: a missing one is the empty string, one that is no string is its JSON text."""
    if type(name) is str:
        return name
    if name is None:
        return ""
    try:
        return msgspec.json.encode(replace_unstorable(name)[0]).decode()
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError):
        return ""


#: Spellings of a tool result, the first that is not null wins.
RESPONSE_KEYS = ("response", "result", "content", "output")


def _tool_response(part: dict[str, Any], at: str, aside: Aside) -> Part | None:
    call_id = usable_id(part.get("id"))
    if call_id is None:
        aside.part(LossCode.MISSING_ID, at, part, "tool result")
        return None
    response = next((part[key] for key in RESPONSE_KEYS if part.get(key) is not None), None)
    if is_sentinel(response):
        aside.part(LossCode.WITHHELD_CONTENT, at, part, "tool result")
        return None
    result, layers = peel(response)
    if layers > 1:
        aside.loss(LossCode.DOUBLE_ENCODED, at, f"result, {layers} layers")
    result, replaced = finite(result)
    if replaced:
        aside.loss(LossCode.INVALID_NUMBER, at, f"{replaced} in result")
    return ToolCallResponsePart(call_id, result)


#: Part types that a fact can hold → how each is translated. Every other type is set aside.
TRANSLATORS: dict[str, Callable[[dict[str, Any], str, Aside], Part | None]] = {
    "text": _text,
    "reasoning": _reasoning,
    "tool_call": _tool_call,
    "tool_call_response": _tool_response,
}


def fact_parts(parts: Any, at: str, aside: Aside) -> list[Part]:
    """The parts of one message that a fact holds, in order."""
    kept: list[Part] = []
    if type(parts) is not list:
        if parts is not None:
            aside.part(LossCode.UNSUPPORTED_CONTENT, f"{at}/parts", parts, "parts are no list")
        return kept
    for index, part in enumerate(parts):
        where = f"{at}/parts/{index}"
        kind = part.get("type") if type(part) is dict else None
        translator = TRANSLATORS.get(kind) if type(kind) is str else None
        if translator is None:
            note = kind if type(kind) is str and kind in KNOWN_UNSUPPORTED else "unknown part"
            aside.part(LossCode.UNSUPPORTED_CONTENT, where, part, note)
            continue
        found = translator(part, where, aside)
        if found is not None:
            kept.append(found)
    return kept


#: Part types of the conventions for which Sediment has no part; named in notes, unlike a producer's own types.
KNOWN_UNSUPPORTED = frozenset(
    {"blob", "file", "uri", "server_tool_call", "server_tool_call_response", "compaction", "refusal"}
)


def fact_message(message: Any, at: str, aside: Aside, finish_reason: Any = None) -> InferenceMessage | None:
    """One message of a fact, or None where it was set aside whole."""
    role = message.get("role") if type(message) is dict else None
    if type(role) is not str or not role.strip():
        aside.message(LossCode.UNSUPPORTED_CONTENT, at, message, "message without a usable role")
        return None
    parts = fact_parts(message.get("parts"), at, aside)
    reason = finish_reason.strip() or None if type(finish_reason) is str else None
    return InferenceMessage(role.strip(), parts, reason)


def fact_input(messages: list[Any], aside: Aside) -> list[InferenceMessage]:
    """The input of a fact; the system message made from the instructions already stands in front."""
    found = [fact_message(message, f"/input_messages/{index}", aside) for index, message in enumerate(messages)]
    return [message for message in found if message is not None]


def fact_output(messages: list[Any], reasons: list[str | None], aside: Aside) -> list[InferenceMessage]:
    """The output of a fact: the first choice. The others are set aside whole."""
    kept: list[InferenceMessage] = []
    for index, message in enumerate(messages):
        at = f"/output_messages/{index}"
        if index:
            aside.message(LossCode.EXTRA_CHOICE, at, message)
            continue
        own = message.get("finish_reason") if type(message) is dict else None
        blank = type(own) is not str or not own.strip()
        found = fact_message(message, at, aside, (reasons[0] if reasons else None) if blank else own)
        if found is not None:
            kept.append(found)
    return kept


def finish_reasons(value: Any) -> list[str | None]:
    """The span's finish reasons by choice: a list, JSON text of a list, or one string (not split at commas)."""
    if type(value) is str:
        opened = peel(value)[0] if value.lstrip()[:1] in ("[", '"') else value
        value = opened if type(opened) is list else [opened]
    if type(value) is not list:
        return []
    return [item.strip() or None if type(item) is str else None for item in value]


def texts_of(message: Any) -> list[str] | None:
    """The texts of a message's text parts; None where it is no message with parts."""
    parts = message.get("parts") if type(message) is dict else None
    if type(parts) is not list:
        return None
    return [
        part["content"]
        for part in parts
        if type(part) is dict and part.get("type") == "text" and type(part.get("content")) is str
    ]


def genai_input(reading: Reading, aside: Aside | None = None) -> list[Any]:
    """The input in the GenAI form, with the message made from the system instructions in front, said once.

    Instructions that the input already begins with add nothing; what is no text in them goes to `aside`.
    """
    messages = reading.input.open() if reading.input is not None else []
    if reading.system is None:
        return messages
    system = reading.system.open()[0]
    first = messages[0] if messages and type(messages[0]) is dict and messages[0].get("role") == "system" else None
    if first is None or texts_of(first) != texts_of(system):
        return [system, *messages]
    for index, part in enumerate(system["parts"] if aside is not None else ()):
        if aside is not None and (type(part) is not dict or part.get("type") != "text"):
            aside.part(LossCode.UNSUPPORTED_CONTENT, f"/system_instructions/{index}", part, "in the instructions")
    return messages
