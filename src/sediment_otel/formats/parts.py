# SPDX-License-Identifier: Apache-2.0
"""Parts in any provider's shape, read into the part types of the GenAI form.

One table from a part's `type` (or, for providers that have none, from the key that marks it) to the
function that reads it. Types of the GenAI form pass as they are; a type that no row knows passes as it
is too, and the translation keeps it in `raw`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from .media import read_media

Part: TypeAlias = "dict[str, Any]"
PartReader: TypeAlias = "Callable[[Part], Any]"


def read_part(part: Any) -> list[Any]:
    """The part, or the parts, that a provider's block stands for. Never raises; unknown shapes pass."""
    if type(part) is str:
        return [{"type": "text", "content": part}]
    if type(part) is not dict:
        return [] if part is None else [part]
    kind = part.get("type")
    if kind is None and type(part.get("kind")) is str and part["kind"] in BY_TYPE:  # Pydantic AI's first version
        kind = part["kind"]
        part = {"type": kind, **{key: value for key, value in part.items() if key not in ("type", "kind")}}
    if type(kind) is str:
        reader = BY_TYPE.get(kind)
    else:
        reader = _reader_by_key(part) if kind is None else None
    if reader is None:
        return [part]
    found = reader(part)
    if type(found) is list:
        return found
    return [part if found is None else found]


def _reader_by_key(part: Part) -> PartReader | None:
    """The reader of an untyped part; Gemini's library dumps a part with all its keys, unused ones as null."""
    return next((read for key, read in BY_KEY.items() if part.get(key) is not None), None)


def _text(part: Part) -> Any:
    if "content" in part or "text" not in part:
        return part if part.get("type") == "text" else {**part, "type": "text"}
    rest = {key: value for key, value in part.items() if key not in ("text", "type")}
    return {"type": "text", "content": part["text"], **rest}


def _bare_text(part: Part) -> Any:
    """Gemini's and Bedrock's `{"text": …}`; a Gemini thought says so beside the text."""
    rest = {key: value for key, value in part.items() if key != "text" and value is not None}
    if rest.get("thought") is True:
        return _reasoning({**rest, "type": "reasoning", "content": part["text"]})
    return {"type": "text", "content": part["text"], **rest}


_TEXT_OF_REASONING = ("content", "thinking", "text", "reasoning", "reasoning_content")


def summary_text(items: Any) -> str | None:
    """The readable text of a Responses reasoning item's summary or content list; None if it has none."""
    if type(items) is str:
        return items
    if type(items) is not list:
        return None
    texts = [item if type(item) is str else item.get("text") for item in items if type(item) in (str, dict)]
    kept = [text for text in texts if type(text) is str]
    return "\n".join(kept) if kept else None


def _reasoning(part: Part) -> Any:
    for key in _TEXT_OF_REASONING:
        value = part.get(key)
        if type(value) is str and value.strip():
            return part if key == "content" and part["type"] == "reasoning" else _as_reasoning(part, key, value)
    for key in ("summary", "content", "reasoning"):
        text = summary_text(part.get(key)) if type(part.get(key)) is list else None
        if text is not None and text.strip():
            return _as_reasoning(part, key, text)
    nested = part.get("reasoningText") or part.get("content")
    if type(nested) is dict:
        inner = nested.get("reasoningText", nested)
        if type(inner) is dict and type(inner.get("text")) is str:
            return {"type": "reasoning", "content": inner["text"], **{k: v for k, v in inner.items() if k != "text"}}
    return part if part.get("type") == "reasoning" else {**part, "type": "reasoning"}


def _as_reasoning(part: Part, key: str, text: str) -> Part:
    rest = {name: value for name, value in part.items() if name not in (key, "type", "content")}
    return {"type": "reasoning", "content": text, **rest}


def _bedrock_reasoning(part: Part) -> Any:
    inner = part.get("reasoningContent")
    return _reasoning({"type": "reasoning", **inner}) if type(inner) is dict else None


_ID_KEYS = ("id", "call_id", "tool_call_id", "toolCallId", "toolUseId", "tool_use_id", "callId")
_NAME_KEYS = ("name", "toolName", "tool_name", "tool")
_ARGUMENT_KEYS = ("arguments", "input", "args")


def _first_present(part: Part, keys: tuple[str, ...]) -> Any:
    found = next((part[key] for key in keys if part.get(key) is not None), None)
    return found if found is not None else next((part[key] for key in keys if key in part), None)


def _call(part: Part) -> Any:
    """A tool call in any provider's words. `call_id` outranks the id of the item that carries it."""
    function = part.get("function")
    if type(function) is dict:
        part = {**part, **function}
    keys = ("call_id", *_ID_KEYS) if part.get("type") == "function_call" else _ID_KEYS
    call: Part = {"type": "tool_call", "id": _first_present(part, keys)}
    name = _first_present(part, _NAME_KEYS)
    if name is not None:
        call["name"] = name
    arguments = _first_present(part, _ARGUMENT_KEYS)
    if arguments is not None:
        call["arguments"] = arguments
    return call


_RESULT_KEYS = ("response", "result", "content", "output")
_RESULT_ID_KEYS = ("tool_use_id", "tool_call_id", "toolCallId", "toolUseId", "call_id", "callId", "id")


def _result(part: Part) -> Any:
    answer: Part = {"type": "tool_call_response", "id": _first_present(part, _RESULT_ID_KEYS)}
    value = _first_present(part, ("output", "result", "content", "response"))
    answer["response"] = unwrap_output(value)
    return answer


#: The types of the AI SDK's wrapped results.
_OUTPUT_TYPES = frozenset({"text", "json", "content", "error-text", "error-json"})


def unwrap_output(value: Any) -> Any:
    """The AI SDK's `{type, value}` result gives its value; anything else is itself."""
    if type(value) is dict and "value" in value and value.keys() <= {"type", "value", "providerOptions"}:
        kind = value.get("type")
        if type(kind) is str and kind in _OUTPUT_TYPES:
            return value["value"]
    return value


def _inner(key: str, read: PartReader) -> PartReader:
    def reader(part: Part) -> Any:
        inner = part.get(key)
        return read(inner) if type(inner) is dict else None

    return reader


def _media(modality: str | None, *inner: str) -> PartReader:
    def reader(part: Part) -> Any:
        return read_media(part, modality, *inner)

    return reader


_image = _media(
    "image", "image_url", "image", "source", "inline_data", "inlineData", "file_data", "imageUrl", "content"
)
_document = _media("document", "file", "document", "source", "input_file", "content")

#: A part's `type` → how it is read. Types of the GenAI form that need no reading have no row.
BY_TYPE: dict[str, PartReader] = {
    "text": _text,
    "input_text": _text,
    "output_text": _text,
    "reasoning": _reasoning,
    "thinking": _reasoning,
    "redacted_thinking": _reasoning,
    "reasoningContent": _reasoning,
    "tool_use": _call,
    "toolUse": _inner("toolUse", _call),
    "tool-call": _call,
    "function_call": _call,
    "function": _call,
    "tool_result": _result,
    "toolResult": _inner("toolResult", _result),
    "tool-result": _result,
    "function_call_output": _result,
    "function_response": _result,
    "image": _image,
    "image_url": _image,
    "image-url": _image,
    "input_image": _image,
    "audio": _media("audio", "audio", "source", "input_audio"),
    "audio-url": _media("audio", "url"),
    "input_audio": _media("audio", "input_audio"),
    "video": _media("video", "video", "source", "content"),
    "video_url": _media("video", "video_url"),
    "video-url": _media("video", "url"),
    "document": _document,
    "document-url": _media("document", "url"),
    "input_file": _document,
    "media": _media(None, "data"),
    "file_data": _media(None, "file_data"),
    "binary": _media(None, "data"),
}


def _file(part: Part) -> Any:
    """`file` is a type of the GenAI form; other producers use the name for inline or linked files."""
    return None if "file_id" in part else read_media(part, "document", "file", "data", "source")


BY_TYPE["file"] = _file


def _blob(part: Part) -> Any:
    """`blob` is a type of the GenAI form; Google ADK calls its content `data`."""
    if "content" in part or "data" not in part:
        return None
    return {("content" if key == "data" else key): value for key, value in part.items()}


BY_TYPE["blob"] = _blob


def _cited(part: Part) -> Any:
    """Bedrock's text with citations: the pieces of text; what is cited stays with the first."""
    inner = part.get("citationsContent", part.get("content"))
    if type(inner) is not dict or type(inner.get("content")) is not list:
        return None
    texts = [p["text"] for p in inner["content"] if type(p) is dict and type(p.get("text")) is str]
    if not texts:
        return None
    return {"type": "text", "content": "".join(texts), "citations": inner.get("citations")}


BY_TYPE["citationsContent"] = _cited


def _gemini_media(key: str) -> PartReader:
    def reader(part: Part) -> Any:
        inner = part.get(key)
        return read_media(inner, None) if type(inner) is dict else None

    return reader


def _gemini_response(part: Part) -> Any:
    inner = part.get("function_response") or part.get("functionResponse")
    if type(inner) is not dict:
        return None
    return {"type": "tool_call_response", "id": inner.get("id"), "response": inner.get("response")}


def _gemini_call(part: Part) -> Any:
    inner = part.get("function_call") or part.get("functionCall")
    return _call(inner) if type(inner) is dict else None


#: For parts without a type: the key that marks a part → how it is read (Gemini, Bedrock).
BY_KEY: dict[str, PartReader] = {
    "function_call": _gemini_call,
    "functionCall": _gemini_call,
    "function_response": _gemini_response,
    "functionResponse": _gemini_response,
    "inline_data": _gemini_media("inline_data"),
    "inlineData": _gemini_media("inlineData"),
    "file_data": _gemini_media("file_data"),
    "fileData": _gemini_media("fileData"),
    "toolUse": _inner("toolUse", _call),
    "toolResult": _inner("toolResult", _result),
    "reasoningContent": _bedrock_reasoning,
    "citationsContent": _cited,
    "tool_call_id": _result,
    "image": _image,
    "document": _document,
    "text": _bare_text,
}
