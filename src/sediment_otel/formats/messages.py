# SPDX-License-Identifier: Apache-2.0
"""Messages in any provider's shape, read into messages of the GenAI form.

A message of the GenAI form has `parts`. OpenAI, Anthropic and Bedrock messages have `content` (text or
blocks), with tool calls and reasoning beside it; Responses items are messages of their own. Tool calls that
stand beside `parts` (a gateway that mixes two formats) become parts after those the message has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .parts import read_part, summary_text
from .roles import role_name


def read_parts(value: Any) -> list[Any]:
    """Parts from text, one block, or a list of blocks."""
    if type(value) is list:
        return [part for item in value for part in read_part(item)]
    return read_part(value)


#: Keys of a message that are read into parts, and so leave the message.
_CONSUMED = frozenset(
    {"content", "tool_calls", "tool_call_id", "function_call", "reasoning_content", "thinking_blocks", "parts", "role"}
)


def read_message(message: Any) -> list[Any]:
    """The message (or messages) that a provider's object stands for. What is no object passes as it is."""
    if type(message) is not dict:
        return [message]
    item = _ITEMS.get(message.get("type")) if type(message.get("type")) is str and "parts" not in message else None
    if item is not None and ("role" not in message or message["type"] == "message"):
        return item(message)
    role = role_name(message.get("role"))
    has_parts = "parts" in message
    parts = read_parts(message["parts"] if has_parts else message.get("content"))
    if not has_parts:
        parts = _reasoning_beside(message) + parts
    parts += _calls_beside(message, parts)
    call_id = message.get("tool_call_id")
    if call_id is not None and role == "tool":
        parts = _as_result(call_id, parts, message)
    rest = {key: value for key, value in message.items() if key not in _CONSUMED}
    if not has_parts:
        rest.pop("type", None)
    return [{"role": role, "parts": parts, **rest}]


def _reasoning_beside(message: dict[str, Any]) -> list[Any]:
    blocks = message.get("thinking_blocks")
    if type(blocks) is list and blocks:
        return [part for block in blocks for part in read_part(block)]
    text = message.get("reasoning_content")
    return [{"type": "reasoning", "content": text}] if type(text) is str and text.strip() else []


def _calls_beside(message: dict[str, Any], parts: list[Any]) -> list[Any]:
    """Tool calls beside the content; one whose id is among the parts already is not repeated."""
    calls = message.get("tool_calls")
    found: list[Any] = []
    if type(calls) is list:
        for call in calls:
            if type(call) is dict:
                found.extend(read_part({**call, "type": "function"}))
            elif call is not None:
                found.append({"type": "tool_calls", "content": call})
    function = message.get("function_call")
    if type(function) is dict and not found:
        found.extend(read_part({**function, "type": "function"}))
    if not found:
        return found
    calls = [part for part in parts if type(part) is dict and part.get("type") == "tool_call"]
    ids = [call.get("id") for call in calls if call.get("id")]
    return [call for call in found if not (type(call) is dict and call.get("id") in ids)]


def _as_result(call_id: Any, parts: list[Any], message: dict[str, Any]) -> list[Any]:
    """A tool message's text is the result of the call that it names; parts that are results already stay."""
    if any(type(part) is dict and part.get("type") == "tool_call_response" for part in parts):
        return parts
    texts = [part["content"] for part in parts if type(part) is dict and set(part) == {"type", "content"}]
    content = message.get("content")
    if type(content) is str or (len(parts) == len(texts) == 1 and type(texts[0]) is str):
        return [{"type": "tool_call_response", "id": call_id, "response": texts[0] if texts else content}]
    response = content if content is not None else message.get("parts")
    return [{"type": "tool_call_response", "id": call_id, "response": response if response != [] else None}]


def _item(role: str) -> Any:
    """A Responses item that is one part of a message."""

    def read(item: dict[str, Any]) -> list[Any]:
        return [{"role": role, "parts": read_part(item)}]

    return read


def _reasoning_item(item: dict[str, Any]) -> list[Any]:
    text = summary_text(item.get("summary")) or summary_text(item.get("content"))
    rest = {key: value for key, value in item.items() if key not in ("type", "summary", "content")}
    part = {"type": "reasoning", "content": text, **rest} if text else dict(item)
    return [{"role": "assistant", "parts": [part]}]


def _message_item(item: dict[str, Any]) -> list[Any]:
    rest = {key: value for key, value in item.items() if key not in ("type", "id", "status")}
    return read_message(rest)


_ITEMS: dict[Any, Callable[[dict[str, Any]], list[Any]]] = {
    "message": _message_item,
    "reasoning": _reasoning_item,
    "function_call": _item("assistant"),
    "custom_tool_call": _item("assistant"),
    "function_call_output": _item("tool"),
    "custom_tool_call_output": _item("tool"),
}


def merge_assistant(messages: list[Any]) -> list[Any]:
    """Consecutive assistant messages as one, in order: the items of one answer (contract, section 4)."""
    merged: list[Any] = []
    for message in messages:
        last = merged[-1] if merged else None
        if (
            type(message) is dict
            and type(last) is dict
            and message.get("role") == last.get("role") == "assistant"
            and type(message.get("parts")) is list
            and type(last.get("parts")) is list
        ):
            reason = message.get("finish_reason") or last.get("finish_reason")
            merged[-1] = {**last, **message, "parts": last["parts"] + message["parts"]}
            if reason is not None:
                merged[-1]["finish_reason"] = reason
        else:
            merged.append(message)
    return merged
