# SPDX-License-Identifier: Apache-2.0
"""The last steps of a fact: unstorable characters replaced, credentials redacted, encoded. Pure.

A fact is encoded first and looked at once, as bytes: where neither a credential nor an unstorable character
can be in it, these bytes are the fact. Only otherwise it is taken apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..dialects.registry import INDEXED, MESSAGE_ATTRIBUTES
from ..genai import Loss
from ..vocabulary import LossCode
from .credential_filter import may_hold_credential
from .redact import redact_fact, replace_unstorable


class Envelope(msgspec.Struct, kw_only=True, gc=False):
    """A fact whose values were all checked on the way here; it encodes exactly as `InferenceCall` does.

    Messages may be encoded already (`msgspec.Raw`).
    """

    schema_version: int
    inference_call_id: str
    org_id: str
    session_id: str
    user_id: str | None
    gateway_provider: str
    model_provider: str | None
    model: str | None
    input_messages: Any
    output_messages: Any
    input_tokens: int | None
    output_tokens: int | None
    duration_ms: int | None
    model_call_id: str | None
    observed_at: str
    raw: Any


encode = msgspec.json.Encoder().encode


def finish(envelope: Envelope, losses: list[Loss], *, raw_holds_all: bool) -> bytes:
    """The fact's JSON. `raw_holds_all` says that every string of the messages is in `raw`, too.

    Replaced characters are added to `losses` and to the fact's own list of them.
    """
    raw = envelope.raw
    try:
        if raw_holds_all:
            looked_at = encode(raw)
            envelope.raw = msgspec.Raw(looked_at)
            encoded = encode(envelope)
        else:
            encoded = looked_at = encode(envelope)
        if not may_hold_credential(looked_at):
            return encoded
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError):
        pass
    envelope.raw = raw
    fact, replaced = replace_unstorable(builtins(envelope))
    noted = [Loss(LossCode.REPLACED_CHARACTER, at) for at in _places(replaced, fact["raw"])]
    if noted:
        losses += noted
        fact["raw"].setdefault("losses", []).extend({"code": loss.code.value, "at": loss.at} for loss in noted)
    return encode(redact_fact(fact))


def builtins(value: Any) -> Any:
    """A fact as plain dicts and lists."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, msgspec.Struct):
        fields: dict[str, Any] = {}
        tag = value.__struct_config__.tag
        if tag is not None:
            fields["type"] = tag
        for field, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            item = getattr(value, field)
            if item is not msgspec.UNSET:
                fields[name] = builtins(item)
        return fields
    if type(value) is list:
        return [builtins(item) for item in value]
    if type(value) is dict:
        return {key: builtins(item) for key, item in value.items()}
    return value


def _places(pointers: list[str], raw: Mapping[str, Any]) -> list[str]:
    """Places in the GenAI form of replaced strings. A message's string in `raw` is the same string again."""
    found = []
    for pointer in pointers:
        if pointer.startswith(("/input_messages/", "/output_messages/")):
            found.append(_place_before(pointer.split("/"), raw.get("unsupported_parts", ())))
        elif pointer.startswith("/raw/unsupported_parts/"):
            entry = raw["unsupported_parts"][int(pointer.split("/")[3])]
            found.append(entry["at"])
        elif not _in_message(pointer):
            found.append(pointer.removeprefix("/raw"))
    return found


def _in_message(pointer: str) -> bool:
    """Whether a string of `raw` stands in an attribute of messages, whole or flattened."""
    return any(f"/{key}/" in f"{pointer}/" for key in MESSAGE_ATTRIBUTES) or any(
        f"/{prefix}." in pointer for prefix in INDEXED
    )


def _place_before(steps: list[str], aside: Sequence[Mapping[str, Any]]) -> str:
    """The part or message that a place in the fact was in, before anything was taken out."""
    base = f"/{steps[1]}"
    taken = {str(entry["at"]) for entry in aside}
    message = _nth_left(base, int(steps[2]), taken)
    if len(steps) > 4 and steps[3] == "parts":
        return f"{base}/{message}/parts/{_nth_left(f'{base}/{message}/parts', int(steps[4]), taken)}"
    return f"{base}/{message}"


def _nth_left(base: str, wanted: int, taken: set[str]) -> int:
    index = -1
    for _ in range(wanted + 1):
        index += 1
        while f"{base}/{index}" in taken:
            index += 1
    return index
