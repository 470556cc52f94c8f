# SPDX-License-Identifier: Apache-2.0
"""OpenInference (Arize): `openinference.span.kind`, messages flattened into `llm.*_messages.N.message.*`.

Places, in the order in which they are tried: the numbered messages, the numbered prompts and choices of
completions, the request and response that `input.value` and `output.value` keep whole. The id of the response,
its model, and what it continues stand only inside `output.value` (and the request), so they are read there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..formats.canonical import SENTINELS
from ..formats.exchange import (
    is_responses_request,
    is_responses_response,
    read_request,
    read_response,
    response_facts,
)
from ..formats.media import from_url
from ..formats.messages import read_message, read_parts
from ..formats.parts import read_part
from ..genai import Content, Detection, Messages, NotJson, Part, Reading, Subject, loads, plain
from ..telemetry import Span
from ..vocabulary import SkipReason, SpanRole
from . import gen_ai
from .base import Dialect, Signs, Source
from .indexed import Branch, branch, branches, first_keys, gap, numbered

NAME = "openinference"

KIND = "openinference.span.kind"
INPUT_MESSAGES = "llm.input_messages"
OUTPUT_MESSAGES = "llm.output_messages"
PROMPTS = "llm.prompts"
CHOICES = "llm.choices"
INPUT_VALUE = "input.value"
OUTPUT_VALUE = "output.value"
MIME_TYPE = {INPUT_VALUE: "input.mime_type", OUTPUT_VALUE: "output.mime_type"}
PARAMETERS = "llm.invocation_parameters"

#: `openinference.span.kind` → what the span is. CHAIN, EMBEDDING, RETRIEVER and all others are no model calls.
KINDS: dict[str, SpanRole] = {"LLM": SpanRole.CALL, "AGENT": SpanRole.AGENT, "TOOL": SpanRole.TOOL}
_MESSAGE_FIELDS = ("message.role", "message.content")
_ANSWERED = first_keys((OUTPUT_MESSAGES,), _MESSAGE_FIELDS)
_SPOKEN = first_keys((INPUT_MESSAGES, OUTPUT_MESSAGES), _MESSAGE_FIELDS)


def detect(span: Span) -> Detection | None:
    """The span kind decides; where the current conventions name the operation as well, their word counts."""
    attributes = span.attributes
    kind = attributes.get(KIND)
    if kind is None:
        if gen_ai.OPERATION not in attributes and not _ANSWERED.isdisjoint(attributes):
            return Detection(NAME, SpanRole.CALL, f"{OUTPUT_MESSAGES} without {KIND}")
        return None
    operation = attributes.get(gen_ai.OPERATION)
    if type(operation) is str and operation in gen_ai.OPERATIONS:
        return Detection(NAME, gen_ai.OPERATIONS[operation], f"{gen_ai.OPERATION} is {operation}")
    role = KINDS.get(kind.strip().upper(), SpanRole.OTHER) if type(kind) is str else SpanRole.OTHER
    if role is SpanRole.CALL and operation == "embeddings":
        role = SpanRole.OTHER
    return Detection(NAME, role, f"{KIND} is {kind}" if role is not SpanRole.OTHER else f"{KIND} is another kind")


# -- numbered messages -------------------------------------------------------------------------------------


def _from_messages(subject: Subject) -> Content | None:
    attributes = subject.span.attributes
    if KIND not in attributes and _SPOKEN.isdisjoint(attributes):
        return None
    content = Content()
    dropped = subject.span.dropped_attributes
    for direction, prefix in (("input", INPUT_MESSAGES), ("output", OUTPUT_MESSAGES)):
        items = numbered(branch(attributes, prefix))
        first = _first_index(attributes) if direction == "input" else 0
        if gap([index for index, _ in items], dropped, first) or _headless(items, dropped):
            content.problem = content.problems[direction] = SkipReason.TRUNCATED
            continue
        messages = [
            message
            for _, item in items
            if type(item) is Branch
            for message in _message(item.below("message"), answer=direction == "output")
        ]
        if not items:
            messages = _marshalled(attributes.get(prefix), answer=direction == "output")
        if messages:
            setattr(content, direction, Messages(messages, f"numbered attributes {prefix}"))
    if content.output is not None and content.input is None and dropped and not content.problems:
        content.problem = content.problems["input"] = SkipReason.TRUNCATED
    return content if content.input or content.output or content.problem else None


def _first_index(attributes: Mapping[str, Any]) -> int:
    """The input of Responses without instructions is counted from 1: nothing is missing before it."""
    if f"{INPUT_MESSAGES}.0.message.role" in attributes or not is_responses(attributes):
        return 0
    request = _opened(attributes, INPUT_VALUE)
    return 0 if type(request) is dict and request.get("instructions") else 1


def _headless(items: list[tuple[int, Any]], dropped: int) -> bool:
    """Whether the first message lost its role to the attribute limit, and so may have lost more."""
    if not dropped or not items or type(items[0][1]) is not Branch:
        return False
    return items[0][1].below("message").value("role") is None


def _message(item: Branch, *, answer: bool) -> list[Any]:
    """One flattened message in the GenAI form."""
    contents = [part for entry in branches(item.below("contents")) for part in _content_part(entry)]
    text = item.value("content")
    call_id = item.value("tool_call_id")
    said = text is None or _said(text, contents)
    if call_id is not None:
        result = _result(contents) if text is None else text
        parts = [{"type": "tool_call_response", "id": call_id, "response": result}, *([] if said else contents)]
    else:
        parts = contents if said else [*_content(text), *contents]
    calls = [_call(entry) for entry in branches(item.below("tool_calls"))]
    name, arguments = item.value("function_call_name"), item.value("function_call_arguments_json")
    if name is not None or arguments is not None:
        calls.append(_named_call(None, name, arguments))
    parts = parts + _new_calls(calls, parts)
    role = item.value("role")
    if role is None and answer:
        role = "assistant"
    if role is None and call_id is not None:
        role = "tool"
    message = read_message({"role": role, "parts": parts})[0]
    for field in ("name", "finish_reason"):
        value = item.value(field)
        if type(value) is str and value and not (field == "name" and call_id is not None):
            message[field] = value
    return [message]


def _content(value: Any) -> list[Any]:
    """The content of a message: text as it stands, or structure where the tracer kept it as such."""
    return [{"type": "text", "content": value}] if type(value) is str else read_parts(value)


def _said(text: Any, parts: list[Any]) -> bool:
    """Whether the content parts say the text of `message.content` already."""
    texts = [part.get("content") for part in parts if type(part) is dict and part.get("type") == "text"]
    told = [item for item in texts if type(item) is str]
    return text in told or (bool(told) and any(text == joint.join(told) for joint in ("", "\n", "\n\n", " ")))


def _result(contents: list[Any]) -> Any:
    """A tool's result that stands in contents alone: its only text, or all of them."""
    if len(contents) == 1 and contents[0].get("type") == "text" and set(contents[0]) <= {"type", "content"}:
        return contents[0]["content"]
    return contents or None


#: `message_content.type` → the modality of a part that has an address under it.
_MODALITIES = {"image": "image", "audio": "audio", "video": "video", "document": "document", "file": "document"}
_REST = ("id", "signature", "encrypted_content", "data")


def _content_part(entry: Branch) -> list[Any]:
    """One item of `contents`; a tool call lies beside `message_content`, not under it."""
    content = entry.below("message_content")
    kind = content.value("type")
    if entry.below("tool_call") or kind == "tool_use":
        return [_call(entry)]
    text = content.value("text")
    for name, modality in _MODALITIES.items():
        found = _media(content.below(name), name, modality)
        if found is not None:
            return [found]
    rest = {key: value for key in _REST if (value := content.value(key)) is not None}
    if kind == "reasoning":
        return [{"type": "reasoning", **({"content": text} if text is not None else {}), **rest}]
    if kind in (None, "text"):
        return [{"type": "text", "content": text, **rest}] if text is not None else [dict(rest)] if rest else []
    block = _block(kind, text)
    if block is not None:
        return read_part(block)
    return [{"type": kind, **({"text": text} if text is not None else {}), **rest}]


def _media(branch_of: Branch, name: str, modality: str) -> Part | None:
    """`message_content.image.image.url` and its like."""
    fields = branch_of.below(name)
    url = fields.value("url")
    if url is None:
        url = branch_of.value("url")
    mime_type = fields.value("mime_type")
    if type(url) is not str or not url:
        return None
    if url in SENTINELS:
        return {"type": "text", "content": url}
    return from_url(url, modality, mime_type if type(mime_type) is str else None)


def _block(kind: Any, text: Any) -> Part | None:
    """A block that has no place of its own in OpenInference is kept as JSON text under its own type."""
    if type(text) is not str or text[:1] != "{":
        return None
    try:
        found = loads(text)
    except NotJson:
        return None
    return found if type(found) is dict and found.get("type") == kind else None


def _call(entry: Branch) -> Part:
    call = entry.below("tool_call")
    function = call.below("function")
    return _named_call(call.value("id"), function.value("name"), function.value("arguments"))


def _named_call(call_id: Any, name: Any, arguments: Any) -> Part:
    call: Part = {"type": "tool_call", "id": call_id}
    if name is not None:
        call["name"] = name
    if arguments is not None:
        call["arguments"] = arguments
    return call


def _new_calls(calls: list[Part], parts: list[Any]) -> list[Part]:
    """The tool calls that `contents` does not hold already: each call there answers for one of them."""
    held = [part for part in parts if type(part) is dict and part.get("type") == "tool_call"]
    fresh = []
    for call in calls:
        same = next((part for part in held if _same_call(part, call)), None)
        if same is None:
            fresh.append(call)
        else:
            held.remove(same)
    return fresh


def _same_call(left: Part, right: Part) -> bool:
    if left.get("id") is not None or right.get("id") is not None:
        return bool(left.get("id") == right.get("id"))
    return left.get("name") == right.get("name") and left.get("arguments") == right.get("arguments")


def _marshalled(value: Any, *, answer: bool) -> list[Any]:
    """Messages that stand as one list under the bare key, by some exporters' hand."""
    if type(value) is str:
        try:
            value = loads(value)
        except NotJson:
            return []
    found: list[Any] = []
    for item in value if type(value) is list else ():
        if type(item) is not dict:
            continue
        flat = branch({f"m.{key}": inner for key, inner in item.items()}, "m").below("message")
        if flat:
            found.extend(_message(flat, answer=answer))
        else:
            inner = item.get("message", item)
            if type(inner) is dict and "role" in inner:
                found.extend(read_message(inner))
    return found


# -- prompts, choices, whole requests and responses ----------------------------------------------------------


def _from_completions(subject: Subject) -> Content | None:
    attributes = subject.span.attributes
    if KIND not in attributes:
        return None
    content = Content()
    for direction, prefix, field, role in (
        ("input", PROMPTS, "prompt", "user"),
        ("output", CHOICES, "completion", "assistant"),
    ):
        items = numbered(branch(attributes, prefix))
        if gap([index for index, _ in items], subject.span.dropped_attributes):
            content.problem = content.problems[direction] = SkipReason.TRUNCATED
            continue
        texts = [item.below(field).value("text") for _, item in items if type(item) is Branch]
        if not items and prefix in attributes:  # a list of texts under the bare key (LlamaIndex)
            bare = plain(attributes[prefix])
            texts = [text for text in bare if type(text) is str] if type(bare) is list else []
        messages = [{"role": role, "parts": read_parts(text)} for text in texts if text is not None]
        if messages:
            setattr(content, direction, Messages(messages, f"numbered attributes {prefix}"))
    return content if content.input or content.output or content.problem else None


def _from_values(subject: Subject) -> Content | None:
    """The request in `input.value` and the response in `output.value`; plain text in either is one message."""
    attributes = subject.span.attributes
    if KIND not in attributes or (INPUT_VALUE not in attributes and OUTPUT_VALUE not in attributes):
        return None
    content = Content()
    request = _opened(attributes, INPUT_VALUE)
    messages, system = read_request(request)
    if not messages:
        messages = _plain_text(request, "user")
    if messages:
        content.input = Messages(messages, f"request in {INPUT_VALUE}")
    if system:
        content.system = Messages([{"role": "system", "parts": system}], f"request in {INPUT_VALUE}")
    response = _opened(attributes, OUTPUT_VALUE)
    answer = read_response(response) or _plain_text(response, "assistant")
    if answer:
        content.output = Messages(answer, f"response in {OUTPUT_VALUE}")
    return content if content.input or content.output else None


def _opened(attributes: Mapping[str, Any], key: str) -> Any:
    """The value of `input.value` or `output.value`: parsed where it is JSON, else its text."""
    value = attributes.get(key)
    if type(value) is not str or value[:1] not in ("{", "["):
        return value
    if attributes.get(MIME_TYPE[key]) not in (None, "application/json"):
        return value
    try:
        return loads(value)
    except NotJson:
        return None if attributes.get(MIME_TYPE[key]) else value


def _plain_text(value: Any, role: str) -> list[Any]:
    if type(value) is not str or not value.strip() or value.strip() in SENTINELS:
        return []
    return [{"role": role, "parts": [{"type": "text", "content": value}]}]


# -- what no table can say -----------------------------------------------------------------------------------


def is_responses(attributes: Mapping[str, Any]) -> bool:
    """Whether the call is one of the Responses API, whose items OpenInference writes as messages of their own."""
    response, request = attributes.get(OUTPUT_VALUE), attributes.get(INPUT_VALUE)
    if type(response) is str and '"response"' in response and is_responses_response(_opened(attributes, OUTPUT_VALUE)):
        return True
    marked = type(request) is str and '"input"' in request
    return marked and is_responses_request(_opened(attributes, INPUT_VALUE))


def _amend(subject: Subject, reading: Reading) -> None:
    """What `output.value` and the request say: the response's id and model, its ids of tool calls, its kind."""
    attributes = subject.span.attributes
    response = _opened(attributes, OUTPUT_VALUE)
    if type(response) is dict:
        for field, value in response_facts(response).items():
            if field not in reading.fields:
                reading.fields[field] = value
                reading.field_sources[field] = f"response in {OUTPUT_VALUE}"
        if reading.output is not None:
            _lend_ids(reading.output, response)
    if "previous_response_id" not in reading.fields:
        continued = _continued(attributes)
        if continued is not None:
            reading.fields["previous_response_id"] = continued[0]
            reading.field_sources["previous_response_id"] = continued[1]
    if _answers_in_items(subject, response):
        gen_ai.merge_items(reading)


def _answers_in_items(subject: Subject, response: Any) -> bool:
    attributes = subject.span.attributes
    if attributes.get("openai.api.type") == "responses" or is_responses_response(response):
        return True
    return is_responses(attributes) or (response is None and subject.span.name == "Response")


def _continued(attributes: Mapping[str, Any]) -> tuple[str, str] | None:
    """The earlier response that the request names, in its parameters or in the request itself."""
    for key in (PARAMETERS, INPUT_VALUE):
        text = attributes.get(key)
        if type(text) is not str or "previous_response_id" not in text:
            continue
        try:
            value = loads(text)
        except NotJson:
            continue
        found = value.get("previous_response_id") if type(value) is dict else None
        if type(found) is str and found:
            return found, key
    return None


def _lend_ids(output: Messages, response: dict[str, Any]) -> None:
    """Tool calls that were written without id take the one that the response gives the same call."""
    messages = output.open()
    lacking = [call for message in messages for call in _calls(message) if not call.get("id")]
    if not lacking:
        return
    known = [call for message in read_response(response) for call in _calls(message)]
    held = [call["id"] for message in messages for call in _calls(message) if call.get("id")]
    lenders = [call for call in known if call.get("id") not in held]
    if [call.get("name") for call in lenders] != [call.get("name") for call in lacking]:
        return
    for lender, call in zip(lenders, lacking, strict=True):
        if lender.get("id") is not None:
            call["id"] = lender["id"]


def _calls(message: Any) -> list[Part]:
    parts = message.get("parts") if type(message) is dict else None
    if type(parts) is not list:
        return []
    return [part for part in parts if type(part) is dict and part.get("type") == "tool_call"]


DIALECT = Dialect(
    name=NAME,
    title="OpenInference",
    detect=detect,
    signs=Signs(keys=(KIND,)),
    sources=(
        Source("numbered messages", _from_messages),
        Source("numbered prompts and choices", _from_completions),
        Source("request and response values", _from_values),
    ),
    fields={
        "response_model": ("llm.response.model_name",),
        "request_model": ("llm.model_name", "llm.request.model_name"),
        "model_provider": ("llm.provider", "llm.system"),
        "input_tokens": ("llm.token_count.prompt",),
        "output_tokens": ("llm.token_count.completion",),
        "finish_reasons": ("llm.finish_reason",),
    },
    message_attributes=frozenset({INPUT_MESSAGES, OUTPUT_MESSAGES, INPUT_VALUE, OUTPUT_VALUE}),
    amend=_amend,
    indexed=(INPUT_MESSAGES, OUTPUT_MESSAGES, PROMPTS, CHOICES),
    seen=(
        "openinference-instrumentation-openai 0.1.66 (chat completions and Responses)",
        "openinference-instrumentation-anthropic 3.1.0",
        "openinference-instrumentation-langchain 0.1.80",
        "openinference-instrumentation-litellm 0.1.51",
        "openinference-instrumentation-llama-index 4.6.1",
        "openinference-instrumentation-google-genai 1.4.14 (source)",
    ),
    not_recoverable=(
        "the finish reason of Responses, and of instrumentations that write none",
        "ids of tool calls that neither the flattened message nor `output.value` has (google-genai)",
        "calls of automatic function calling in google-genai: one span stands for several requests",
        "messages of the Claude Agent SDK and of Codex: they have agent spans only",
    ),
)
