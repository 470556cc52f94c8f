# SPDX-License-Identifier: Apache-2.0
"""SCN Chat, which writes no telemetry: its records, each a log record here (see `sources.scn`).

One reply that is complete is one call. Its input is what SCN Chat itself sends: the chain of parents from the root
(an unknown parent, or one that was seen before, ends it), replies only if they are complete or were cancelled, with
tool calls that have a result, their results in a message of their own, reasoning only for the same provider where that
takes it back, and no sources. Siblings are other calls. A reply may be several calls of the model: its parts are one
answer, its counts are sums, and `raw.steps` says how many. What a reply was really told besides (the app's own prompt,
the definitions of tools) is in no record; the user's and the conversation's instructions are those of today.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..genai import Content, Detection, Message, Messages, Part, Subject
from ..telemetry import LogRecord, Span
from ..vocabulary import SkipReason
from .base import Dialect, LogCall, Signs, Source

NAME = "scn"

NSID = "network.sharedcomputer.chat."
MESSAGE, INFO, PREFERENCES = f"{NSID}message", f"{NSID}info", f"{NSID}preferences"
COLLECTIONS = frozenset({MESSAGE, INFO, PREFERENCES})
DEFS = f"{NSID}defs#"
SPACE, OWNER, RKEY, CID = "scn.space", "scn.owner", "scn.rkey", "scn.cid"
#: Where the forms of records keep the value.
VALUE_KEYS = ("value", "value_json")

COMPLETE, CANCELLED, ERROR = "complete", "cancelled", "error"
#: Providers that take reasoning back which they wrote themselves.
REPLAYING = frozenset({"anthropic", "openai", "google"})


def detect(span: Span) -> Detection | None:
    """No span is written by SCN Chat."""
    return None


def wants_record(record: LogRecord) -> bool:
    """Messages, and the instructions of a conversation and of the user."""
    return record.event_name in COLLECTIONS and type(record.body) is dict


def _rkey(record: LogRecord) -> str:
    value = record.attributes.get(RKEY)
    return value if type(value) is str else ""


def _get(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if type(value) is dict else None
    return value


def _parts(record: LogRecord) -> list[Any]:
    parts = _get(record.body, "content", "parts")
    return parts if type(parts) is list else []


def _is_encrypted(record: LogRecord) -> bool:
    content = _get(record.body, "content")
    return type(content) is dict and (_kind(content) == "encryptedContent" or "ciphertext" in content)


def _kind(value: Mapping[str, Any]) -> str:
    kind = value.get("$type")
    return kind[len(DEFS) :] if type(kind) is str and kind.startswith(DEFS) else str(kind or "")


# -- messages ----------------------------------------------------------------------------------------------


def _read(subject: Subject) -> Content | None:
    """The reply is the last message of the subject; what stands before it is its chain, from the root on."""
    messages = [record for record in subject.records if record.event_name == MESSAGE]
    if not messages:
        return None
    content = Content()
    *chain, reply = messages
    if _is_encrypted(reply):
        content.problems["output"] = SkipReason.ENCRYPTED
    else:
        parts = [part for item in _parts(reply) for part in read_part(item)]
        content.output = Messages([{"role": "assistant", "parts": parts}], "reply") if parts else None
    sent = [record for record in chain if _is_sent(record)]
    if any(_is_encrypted(record) for record in sent):
        content.problems["input"] = SkipReason.ENCRYPTED
    else:
        provider = _get(reply.body, "model", "provider")
        given = [message for record in sent for message in _message(record, provider)]
        content.input = Messages(given, "chain of parents") if given else None
    content.problem = next(iter(content.problems.values()), None)
    text = "\n\n".join(_instructions(subject))
    if text:
        content.system = Messages([{"role": "system", "parts": [{"type": "text", "content": text}]}], "instructions")
    return content


def _is_sent(record: LogRecord) -> bool:
    return _get(record.body, "role") != "assistant" or _get(record.body, "status") in (COMPLETE, CANCELLED)


def _instructions(subject: Subject) -> Iterator[str]:
    for collection, key in ((PREFERENCES, "customInstructions"), (INFO, "systemPrompt")):
        for record in subject.records:
            text = _get(record.body, key) if record.event_name == collection else None
            if type(text) is str and text.strip():
                yield text


def _message(record: LogRecord, provider: Any) -> Iterator[Message]:
    """A message as it is sent: an assistant's in pieces, before, of and after its tools' results."""
    role = _get(record.body, "role")
    if role != "assistant":
        yield {"role": role, "parts": [part for item in _parts(record) for part in read_part(item)]}
        return
    own = _get(record.body, "model", "provider")
    replayed = own == provider and type(own) is str and own in REPLAYING
    parts = [item for item in _parts(record) if type(item) is dict]
    answered = {
        item.get("callId") for item in parts if _kind(item) == "toolResultPart" and _is_text(item.get("callId"))
    }
    current: Message | None = None
    for item in parts:
        kind = _kind(item)
        if (
            kind == "sourcePart"
            or (kind == "reasoningPart" and not replayed)
            or (kind == "toolCallPart" and _is_text(item.get("callId")) and item["callId"] not in answered)
        ):
            continue
        piece = "tool" if kind == "toolResultPart" else "assistant"
        if current is None or current["role"] != piece:
            if current is not None:
                yield current
            current = {"role": piece, "parts": []}
        current["parts"] += read_part(item)
    if current is not None:
        yield current


def _is_text(value: Any) -> bool:
    return type(value) is str


def read_part(item: Any) -> list[Any]:
    """A part of the lexicon in the GenAI form. Parts of other kinds keep their fields under the kind's name."""
    if type(item) is not dict:
        return [] if item is None else [item]
    kind = _kind(item)
    rest = {key: value for key, value in item.items() if key != "$type"}
    for name, value in _PARTS.get(kind, ()):
        if name in rest:
            rest[value] = rest.pop(name)
    if kind in ("imagePart", "filePart"):
        return [_file(kind, rest)]
    return [{"type": _TYPES.get(kind, kind), **rest}]


#: Kinds of the lexicon → types of the GenAI form, and the fields that have other names there.
_TYPES = {
    "textPart": "text",
    "reasoningPart": "reasoning",
    "toolCallPart": "tool_call",
    "toolResultPart": "tool_call_response",
    "sourcePart": "source",
}
_PARTS: dict[str, tuple[tuple[str, str], ...]] = {
    "textPart": (("text", "content"),),
    "reasoningPart": (("text", "content"),),
    "toolCallPart": (("callId", "id"), ("tool", "name"), ("input", "arguments")),
    "toolResultPart": (("callId", "id"), ("output", "response")),
}


def _file(kind: str, rest: dict[str, Any]) -> Part:
    """An image or file: the blob's address, which is its content's hash."""
    held = rest.pop("image" if kind == "imagePart" else "file", None)
    part: Part = {"type": "file", "modality": "image" if kind == "imagePart" else "document"}
    if _get(held, "mimeType") is not None:
        part["mime_type"] = _get(held, "mimeType")
    part["file_id"] = _get(held, "ref", "$link")
    return {**part, "blob": held, **rest}


# -- scalars -----------------------------------------------------------------------------------------------


def _reply(subject: Subject) -> LogRecord | None:
    return next((record for record in reversed(subject.records) if record.event_name == MESSAGE), None)


def _extra(subject: Subject) -> Mapping[str, Any]:
    reply = _reply(subject)
    if reply is None:
        return {}
    return {
        "request_model": _get(reply.body, "model", "id"),
        "model_provider": _get(reply.body, "model", "provider"),
        "input_tokens": _get(reply.body, "usage", "inputTokens"),
        "output_tokens": _get(reply.body, "usage", "outputTokens"),
    }


def raw_extra(subject: Subject) -> Mapping[str, Any]:
    """What `raw` says of the reply besides its records."""
    reply = _reply(subject)
    if reply is None:
        return {}
    found: dict[str, Any] = {key: reply.attributes.get(name) for key, name in _ADDRESS.items()}
    found["chain"] = [
        _rkey(record) for record in subject.records if record.event_name == MESSAGE and record is not reply
    ]
    count = steps(_parts(reply))
    if count > 1:
        found["steps"] = count
    notes = []
    if any(_instructions(subject)):
        notes.append("system: instructions of today, without the application's own")
    if count > 1:
        notes.append("steps: the counts are sums over all steps")
    found["notes"] = notes
    return {key: value for key, value in found.items() if value not in (None, [])}


_ADDRESS = {"space": SPACE, "rkey": RKEY, "cid": CID}


def steps(parts: list[Any]) -> int:
    """How many calls of the model a reply took, at least: one more after each run of tool results that goes on."""
    count, after_result = 1, False
    for item in parts:
        kind = _kind(item) if type(item) is dict else ""
        if kind == "toolResultPart":
            after_result = True
        elif after_result and kind != "sourcePart":
            count, after_result = count + 1, False
    return count


# -- calls -------------------------------------------------------------------------------------------------


def log_calls(records: Iterable[LogRecord]) -> Iterator[LogCall]:
    """One call for each reply that ended, in the order of the replies; a record that comes again replaces the first."""
    spaces: dict[str, dict[tuple[str, str], LogRecord]] = {}
    preferences: dict[str, LogRecord] = {}
    for record in records:
        owner, space = record.attributes.get(OWNER), record.attributes.get(SPACE)
        if record.event_name == PREFERENCES:
            preferences[owner if type(owner) is str else ""] = record
        else:
            held = spaces.setdefault(space if type(space) is str else "", {})
            held[record.event_name, _rkey(record)] = record
    for space, held in spaces.items():
        messages = {rkey: record for (collection, rkey), record in held.items() if collection == MESSAGE}
        beside = [record for (collection, _), record in held.items() if collection == INFO]
        for rkey, record in messages.items():
            if not _is_call(record):
                continue
            owner = record.attributes.get(OWNER)
            own = preferences.get(owner if type(owner) is str else "")
            before = ([own] if own is not None else []) + beside
            chain = [messages[key] for key in chain_of(messages, rkey)]
            failed = _get(record.body, "status") in (CANCELLED, ERROR)
            yield LogCall((*before, *chain), f"{NAME}:{space}:{rkey}", None, record.time_ns, failed=failed)


def _is_call(record: LogRecord) -> bool:
    """A reply that ended; an error only where something shows that the model was called."""
    if _get(record.body, "role") != "assistant":
        return False
    status = _get(record.body, "status")
    if status == ERROR:
        return bool(_parts(record) or _get(record.body, "usage"))
    return status in (COMPLETE, CANCELLED)


def chain_of(messages: Mapping[str, LogRecord], rkey: str) -> list[str]:
    """The keys from the root to a message. An unknown parent is no parent; a cycle ends where it closes."""
    chain: list[str] = []
    seen: set[str] = set()
    key: Any = rkey
    while type(key) is str and key in messages and key not in seen:
        seen.add(key)
        chain.append(key)
        key = _get(messages[key].body, "parent")
    return chain[::-1]


DIALECT = Dialect(
    name=NAME,
    title="SCN Chat",
    detect=detect,
    signs=Signs(),
    raw_source="scn",
    raw_extra=raw_extra,
    sources=(Source("records of SCN Chat", _read),),
    session_keys=(SPACE,),
    private_session_keys=True,
    user_keys=(OWNER,),
    span_extra=_extra,
    wants_record=wants_record,
    log_calls=log_calls,
    seen=("lexicons 431ea97c to aabaa684",),
    not_recoverable=(
        "the application's own prompt and the definitions of tools",
        "the response id, the finish reason, the duration, the model that answered",
        "the calls of a reply one by one",
        "content that is encrypted",
    ),
)
