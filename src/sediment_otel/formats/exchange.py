# SPDX-License-Identifier: Apache-2.0
"""Whole requests and responses of model services, as tracers keep them in one attribute.

`read_request` and `read_response` turn the parsed JSON of OpenAI chat and Responses, Anthropic, Gemini, Bedrock
and LangChain into messages of the GenAI form; `response_facts` finds the response's id, model and what it
continues. An object that is none of these yields nothing: any function's arguments may stand in such an
attribute. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .messages import merge_assistant, read_message, read_parts

Message = dict[str, Any]


# -- requests ----------------------------------------------------------------------------------------------


def read_request(value: Any) -> tuple[list[Any], list[Any]]:
    """Messages and system parts of a provider's request (or of a bare list of messages); both may be empty."""
    if type(value) is list and value and all(map(_is_message, value)):
        return _messages(value), []
    if type(value) is not dict:
        return [], []
    for key, read in _REQUESTS.items():
        if value.get(key) is not None:
            messages = read(value[key])
            if messages:
                return messages, _system_parts(value)
    return [], []


def _is_message(item: Any) -> bool:
    return type(item) is dict and (type(item.get("role")) is str or _is_item(item) or "lc" in item)


def _is_item(item: dict[str, Any]) -> bool:
    kind = item.get("type")
    return type(kind) is str and kind in _ITEM_TYPES


_ITEM_TYPES = frozenset({"message", "function_call", "function_call_output", "reasoning"})


def _messages(value: Any) -> list[Any]:
    items = value if type(value) is list else []
    if len(items) == 1 and type(items[0]) is list:  # LangChain: one list of messages per prompt
        items = items[0]
    found: list[Any] = []
    for item in items:
        if type(item) is dict:  # some tracers write the text of a Python object here, which is no message
            found.extend(read_message(_langchain(item)))
    return found


_LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "chat": "user"}


def _langchain(item: Any) -> Any:
    """A message of LangChain (serialised as a constructor, or as type and data) in the OpenAI shape."""
    if type(item) is not dict or "role" in item:
        return item
    fields = item.get("kwargs") if "lc" in item else item.get("data")
    if type(fields) is not dict:
        return item
    kind = fields.get("type", item.get("type"))
    message: Message = {"role": _LANGCHAIN_ROLES.get(kind, kind) if type(kind) is str else kind}
    message["content"] = fields.get("content")
    calls = fields.get("tool_calls")
    if type(calls) is list and calls:
        message["tool_calls"] = calls
    if fields.get("tool_call_id") is not None:
        message["tool_call_id"] = fields["tool_call_id"]
    return message


def _text_or_items(value: Any) -> list[Any]:
    """The `input` of Responses: text, or items of which those of one answer are one message."""
    if type(value) is str:
        return [{"role": "user", "parts": read_parts(value)}] if value else []
    if type(value) is list and value and all(map(_is_message, value)):
        return merge_assistant(_messages(value))
    return []


def _contents(value: Any) -> list[Any]:
    """Gemini's `contents`: text, one content, or a list of either."""
    items = value if type(value) is list else [value]
    found: list[Any] = []
    for item in items:
        if type(item) is str:
            found.append({"role": "user", "parts": read_parts(item)})
        elif type(item) is dict and ("parts" in item or "role" in item):
            found.extend(read_message({"role": "user", **item}))
        elif type(item) is dict:
            found.append({"role": "user", "parts": read_parts(item)})
    return found


def _prompt(value: Any) -> list[Any]:
    texts = value if type(value) is list else [value]
    return [{"role": "user", "parts": read_parts(text)} for text in texts if type(text) is str and text]


#: A request's key that holds messages → how they are read, in the order in which the keys are tried.
_REQUESTS: dict[str, Callable[[Any], list[Any]]] = {
    "messages": _messages,
    "input": _text_or_items,
    "contents": _contents,
    "prompt": _prompt,
}
_SYSTEM_KEYS = ("system", "instructions", "system_instruction", "systemInstruction")


def _system_parts(value: dict[str, Any]) -> list[Any]:
    holders = [value, *(inner for key in ("config", "body") if type(inner := value.get(key)) is dict)]
    for holder in holders:
        for key in _SYSTEM_KEYS:
            found = holder.get(key)
            if found is not None and found != "" and found != []:
                if type(found) is dict and "parts" in found:
                    found = found["parts"]
                return read_parts(found)
    return []


# -- responses ---------------------------------------------------------------------------------------------


def read_response(value: Any) -> list[Any]:
    """The answer in a provider's response, one message per choice; empty where it is no such response."""
    if type(value) is not dict:
        return []
    for key, read in _RESPONSES.items():
        if value.get(key) is not None:
            found = read(value)
            if found:
                return found
    return []


def _choices(value: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    choices = value["choices"]
    for choice in choices if type(choices) is list else ():
        if type(choice) is not dict:
            continue
        message = choice.get("message")
        if type(message) is not dict:
            text = choice.get("text")
            message = {"content": text} if type(text) is str else None
        if message is not None:
            found.extend(_answer({"role": "assistant", **message}, choice.get("finish_reason")))
    return found


def _answer(message: Message, reason: Any) -> list[Any]:
    if message.get("role") is None:
        message["role"] = "assistant"
    messages = merge_assistant(read_message({key: item for key, item in message.items() if item is not None}))
    if type(reason) is str and messages and type(messages[0]) is dict:
        messages[0].setdefault("finish_reason", reason)
    return messages


def _output(value: dict[str, Any]) -> list[Any]:
    """The output items of Responses (one answer), or Bedrock's `output.message`."""
    output = value["output"]
    if type(output) is dict and type(output.get("message")) is dict:
        return _answer({"role": "assistant", **output["message"]}, value.get("stopReason"))
    if type(output) is list and output and all(type(item) is dict for item in output):
        messages: list[Any] = []
        for item in output:
            if _is_item(item):
                messages.extend(read_message(item))
            else:
                messages.append({"role": "assistant", "parts": read_parts(item)})
        return merge_assistant(messages)
    return []


def _content(value: dict[str, Any]) -> list[Any]:
    """Anthropic's response, which is the message itself; or the one content of a Gemini answer (Google ADK)."""
    if type(value["content"]) is dict:
        return _answer({"role": "model", **value["content"]}, value.get("finish_reason"))
    if value.get("role") != "assistant" and value.get("type") != "message":
        return []
    message = {"role": value.get("role") or "assistant", "content": value["content"]}
    return _answer(message, value.get("stop_reason"))


def _candidates(value: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    candidates = value["candidates"]
    for candidate in candidates if type(candidates) is list else ():
        content = candidate.get("content") if type(candidate) is dict else None
        if type(content) is dict:
            reason = candidate.get("finish_reason", candidate.get("finishReason"))
            found.extend(_answer({"role": "model", **content}, reason))
    return found


def _generations(value: dict[str, Any]) -> list[Any]:
    """LangChain's result: one list of choices per prompt."""
    found: list[Any] = []
    for choice in _langchain_choices(value):
        message = _langchain(choice.get("message"))
        if type(message) is not dict:
            message = {"role": "assistant", "content": choice.get("text")}
        info = choice.get("generation_info")
        reason = info.get("finish_reason") if type(info) is dict else None
        found.extend(_answer(message, reason))
    return found


def _langchain_choices(value: dict[str, Any]) -> list[dict[str, Any]]:
    lists = value.get("generations")
    first = lists[0] if type(lists) is list and lists else None
    return [choice for choice in first if type(choice) is dict] if type(first) is list else []


def _message(value: dict[str, Any]) -> list[Any]:
    """One message in place of a response (Logfire)."""
    message = value["message"]
    return _answer(dict(message), value.get("finish_reason")) if type(message) is dict else []


def _joined(key: str) -> Callable[[dict[str, Any]], list[Any]]:
    """The text of a completion, or of a stream's chunks, in place of a response (Logfire)."""

    def read(value: dict[str, Any]) -> list[Any]:
        text = value[key]
        return _answer({"content": text}, value.get("finish_reason")) if type(text) is str and text else []

    return read


#: A response's key that marks its shape → how the answer is read.
_RESPONSES: dict[str, Callable[[dict[str, Any]], list[Any]]] = {
    "choices": _choices,
    "output": _output,
    "candidates": _candidates,
    "generations": _generations,
    "content": _content,
    "message": _message,
    "text": _joined("text"),
    "combined_chunk_content": _joined("combined_chunk_content"),
}


# -- what a response says of itself ------------------------------------------------------------------------

#: Keys that an object with a response's id also has; an object with an `id` alone may be the answer itself.
_RESPONSE_MARKS = frozenset({"choices", "output", "candidates", "usage", "usage_metadata", "usageMetadata", "object"})
_ID_KEYS = ("id", "response_id", "responseId")
_MODEL_KEYS = ("model", "model_version", "modelVersion", "model_name")


def response_facts(value: Any) -> dict[str, Any]:
    """`response_id`, `response_model` and `previous_response_id` of a parsed response, as far as it has them."""
    found: dict[str, Any] = {}
    for holder in _describing(value):
        for field, keys in (
            ("response_id", _ID_KEYS),
            ("response_model", _MODEL_KEYS),
            ("previous_response_id", ("previous_response_id",)),
        ):
            text = next((holder[key] for key in keys if type(holder.get(key)) is str and holder[key]), None)
            if text is not None:
                found.setdefault(field, text)
    return found


def _describing(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a response that describe it."""
    if type(value) is not dict:
        return []
    if _RESPONSE_MARKS & value.keys() or value.get("type") == "message":
        return [value]
    holders: list[Mapping[str, Any]] = []
    choices = _langchain_choices(value)
    for choice in choices[:1]:
        message = choice.get("message")
        fields = message.get("kwargs", message.get("data")) if type(message) is dict else None
        described = fields.get("response_metadata") if type(fields) is dict else None
        holders += [item for item in (described, choice.get("generation_info")) if type(item) is dict]
    if choices and type(value.get("llm_output")) is dict:
        holders.append(value["llm_output"])
    raw = value.get("raw")
    if not holders and type(raw) is dict:  # LlamaIndex keeps the provider's response beside its own message
        return _describing(raw)
    return holders


def is_responses_request(value: Any) -> bool:
    """Whether a request is one of the Responses API."""
    return type(value) is dict and "input" in value and "messages" not in value and "embedding" not in value


def is_responses_response(value: Any) -> bool:
    """Whether a response is one of the Responses API."""
    return type(value) is dict and (value.get("object") == "response" or type(value.get("output")) is list)


__all__ = ["is_responses_request", "is_responses_response", "read_request", "read_response", "response_facts"]
