# SPDX-License-Identifier: Apache-2.0
"""Facts to records of SCN Chat: `restore --to scn`. Pure.

    records = ScnRecords()
    for fact in facts: records.add(fact)        # raises RestoreError for a fact that no record can hold
    for entry in records.entries(): …           # {"collection", "rkey", "value", "space" or "session_id"}

A fact made from records gives these records back. Of any other fact, each message of the user becomes a record, and
what the model and its tools said until the next one a reply. Facts of one session repeat their history: what was there
before is the same record, a longer reply takes the place of its beginning (its counts are added up), and a different
one is a regeneration. Messages of the user never carry `generation`, so that no server that watches starts one.
What a record has no place for (ids, times, finish reasons, `raw`) is left out, and what exceeds the lexicon's or the
application's limits is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import msgspec

from ..dialects.scn import DEFS, INFO, MESSAGE, NAME, RKEY, SPACE
from ..facts import InferenceCall, InferenceMessage, Part, ReasoningPart, TextPart, ToolCallPart, ToolCallResponsePart
from .restore import RestoreError, checked
from .unraw import subject_of

#: Limits of the lexicon, in bytes of UTF-8 and in parts, and of a whole record in the application.
TEXT_BYTES, INPUT_BYTES, PARTS, RECORD_BYTES = 500_000, 200_000, 1000, 900_000
_TID_DIGITS = "234567abcdefghijklmnopqrstuvwxyz"
_SYSTEM_ROLES = frozenset({"system", "developer"})

Value = dict[str, Any]


def tid(micros: int) -> str:
    """The record key of a time in microseconds: sortable, 13 characters."""
    number = (micros & (2**53 - 1)) << 10
    return "".join(_TID_DIGITS[(number >> shift) & 31] for shift in range(60, -1, -5))


@dataclass(slots=True)
class _Reply:
    rkey: str
    value: Value


@dataclass(slots=True)
class _Session:
    """The records of one session, and what finds them again: a user's message by its parent and its parts."""

    name: str
    records: dict[tuple[str, str], Value] = field(default_factory=dict)
    users: dict[tuple[str, str], str] = field(default_factory=dict)
    replies: dict[str, list[_Reply]] = field(default_factory=dict)
    last: int = 0

    def key(self, micros: int) -> str:
        """A key that comes after all before it."""
        self.last = max(micros, self.last + 1)
        return tid(self.last)


class ScnRecords:
    """Records collected from facts, in the order in which they first came."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._taken: set[str] = set()

    def add(self, fact: bytes | InferenceCall) -> None:
        """Take one fact. Raises `RestoreError`; the records are then as they were."""
        call = checked(fact)
        if call.inference_call_id in self._taken:
            return
        if call.raw.get("source") == NAME and self._take_back(call):
            self._taken.add(call.inference_call_id)
            return
        turns, system = _turns(call)
        session = self._sessions.setdefault(call.session_id, _Session(call.session_id))
        micros, created = _created(call.observed_at)
        for role, parts in turns:
            _fits(_value(role, None, parts, created))
        self._taken.add(call.inference_call_id)
        if system and (INFO, "self") not in session.records:
            value = {"$type": INFO, "systemPrompt": "\n\n".join(system), "createdAt": created}
            session.records[INFO, "self"] = _fits(value)
        parent: str | None = None
        for number, (role, parts) in enumerate(turns):
            if role == "user":
                parent = _user(session, parent, parts, micros, created)
            else:
                own = call if number == len(turns) - 1 else None
                parent = _reply(session, parent, parts, own, micros, created)

    def entries(self) -> Iterator[dict[str, Any]]:
        """The records, as `listRecords` gives them, with the space or, where there is none, the session."""
        for session in self._sessions.values():
            place = "space" if session.name.startswith("at://") else "session_id"
            for (collection, rkey), value in session.records.items():
                yield {place: session.name, "collection": collection, "rkey": rkey, "value": value}

    def _take_back(self, call: InferenceCall) -> bool:
        subject = subject_of(call.raw)
        if subject is None or not subject.records:
            return False
        session = self._sessions.setdefault(call.session_id, _Session(call.session_id))
        for record in subject.records:
            rkey = record.attributes.get(RKEY)
            if type(rkey) is not str or type(record.body) is not dict:
                continue
            if record.attributes.get(SPACE) in (None, call.session_id):
                value = {key: item for key, item in record.body.items() if key != "generation"}
                session.records.setdefault((record.event_name, rkey), value)
        return True


def _created(observed: str) -> tuple[int, str]:
    found = datetime.fromisoformat(observed.replace("Z", "+00:00")).astimezone(timezone.utc)
    since = found - datetime(1970, 1, 1, tzinfo=timezone.utc)
    micros = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    return max(micros, 0), found.strftime("%Y-%m-%dT%H:%M:%S.") + f"{found.microsecond // 1000:03d}Z"


def _turns(call: InferenceCall) -> tuple[list[tuple[str, list[Value]]], list[str]]:
    """The user's messages and the replies between them, and the instructions."""
    turns: list[tuple[str, list[Value]]] = []
    system: list[str] = []
    for message in [*call.input_messages, *call.output_messages]:
        if message.role in _SYSTEM_ROLES:
            system += [part.content for part in message.parts if isinstance(part, TextPart)]
            continue
        role = "assistant" if _is_reply(message) else "user"
        parts = [_part(part) for part in message.parts]
        if role == "assistant" and turns and turns[-1][0] == role:
            turns[-1][1].extend(parts)
        else:
            turns.append((role, parts))
    return turns, system


def _is_reply(message: InferenceMessage) -> bool:
    """The model's, its tools', or results that a user's message carries."""
    results = message.parts and all(isinstance(part, ToolCallResponsePart) for part in message.parts)
    return message.role in ("assistant", "tool") or bool(results)


def _part(part: Part) -> Value:
    if isinstance(part, TextPart):
        return {"$type": f"{DEFS}textPart", "text": _limited(part.content, TEXT_BYTES)}
    if isinstance(part, ReasoningPart):
        return {"$type": f"{DEFS}reasoningPart", "text": _limited(part.content, TEXT_BYTES)}
    if isinstance(part, ToolCallPart):
        given = _limited(_json(part.arguments), INPUT_BYTES)
        return {"$type": f"{DEFS}toolCallPart", "callId": part.id, "tool": part.name, "input": given}
    output = part.result if isinstance(part.result, str) else _json(part.result)
    return {"$type": f"{DEFS}toolResultPart", "callId": part.id, "output": _limited(output, TEXT_BYTES)}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _limited(text: str, most: int) -> str:
    if len(text.encode("utf-8", "replace")) > most:
        raise RestoreError("parts", f"a text is longer than the {most} bytes that a record holds")
    return text


def _fits(value: Value) -> Value:
    parts = value.get("content", {}).get("parts", [])
    if len(parts) > PARTS:
        raise RestoreError("parts", f"more than the {PARTS} that a record holds")
    if len(msgspec.json.encode(value)) > RECORD_BYTES:
        raise RestoreError("messages", f"a message is longer than the {RECORD_BYTES} bytes of a record")
    return value


def _value(role: str, parent: str | None, parts: list[Value], created: str) -> Value:
    value: Value = {"$type": MESSAGE, "role": role}
    if parent is not None:
        value["parent"] = parent
    value["content"] = {"$type": f"{DEFS}plainContent", "parts": parts}
    return {**value, "createdAt": created}


def _user(session: _Session, parent: str | None, parts: list[Value], micros: int, created: str) -> str:
    known = (parent or "", _json(parts))
    rkey = session.users.get(known)
    if rkey is None:
        value = _fits(_value("user", parent, parts, created))
        rkey = session.users[known] = session.key(micros)
        session.records[MESSAGE, rkey] = value
    return rkey


def _reply(
    session: _Session, parent: str | None, parts: list[Value], call: InferenceCall | None, micros: int, created: str
) -> str:
    """The reply with these parts: one that is there, one that it continues, or a new attempt."""
    attempts = session.replies.setdefault(parent or "", [])
    found = None
    for reply in attempts:
        held = reply.value["content"]["parts"]
        if held == parts or (call is None and held[: len(parts)] == parts):
            found = reply
            break
        if parts[: len(held)] == held:
            found = reply
            reply.value["content"]["parts"] = _fits(_value("assistant", parent, parts, created))["content"]["parts"]
            break
    if found is None:
        value = {**_fits(_value("assistant", parent, parts, created)), "status": "complete"}
        rkey = f"{parent}.r{len(attempts)}" if parent is not None else session.key(micros)
        found = _Reply(rkey, value)
        attempts.append(found)
        session.records[MESSAGE, rkey] = value
    if call is not None:
        _describe(found, call)
    return found.rkey


def _describe(reply: _Reply, call: InferenceCall) -> None:
    """The model, if both halves of its name are known, and the counts, summed over the steps of the reply."""
    if call.model is not None and call.model_provider is not None:
        reply.value["model"] = {"provider": call.model_provider, "id": call.model}
    counts = {"inputTokens": call.input_tokens, "outputTokens": call.output_tokens}
    usage = reply.value.get("usage", {})
    for key, count in counts.items():
        if count is not None:
            usage[key] = usage.get(key, 0) + count
    if usage:
        reply.value["usage"] = usage


__all__ = ["ScnRecords", "tid"]
