# SPDX-License-Identifier: Apache-2.0
"""What leaves: `InferenceCall` v1 facts, frozen and valid by construction.

The shape is the published schema (`semconv/inference-call-v1.json`); on top of it every rule of
section 1 of the contract is checked where a value is made, and a violation raises `FactError` with the
field and the rule. Ids are trimmed on the way in, as a running Sediment trims them; everything else is
taken or refused, never repaired.

Encoding is byte-stable: the same fact gives the same bytes, and `InferenceCall.from_json(b).to_json()`
gives `b` back for bytes this module made.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import msgspec

MAX_INTEGER = 2**63 - 1
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ORG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_INSTANT = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)"
    r"(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
)
_GATEWAYS = frozenset({"litellm", "portkey", "helicone", "unknown"})


class FactError(ValueError):
    """A fact was about to be built wrong. `field` is where, `rule` is what it breaks."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field}: {rule}")
        self.field = field
        self.rule = rule


def check_id(field: str, value: Any) -> str:
    """The id without surrounding white space; raises `FactError` where it cannot be one."""
    if type(value) is not str:
        raise FactError(field, "must be a string")
    trimmed = value.strip()
    if not trimmed:
        raise FactError(field, "must not be blank")
    if not (trimmed.isascii() and "\0" not in trimmed) and _UNSTORABLE.search(trimmed):
        raise FactError(field, "must hold no NUL and no lone surrogate")
    return trimmed


def check_org(value: Any) -> str:
    """The organisation in lower case. It is not trimmed: a padded one is an error."""
    if type(value) is not str or not value.isascii():
        raise FactError("org_id", "must be ASCII text")
    lowered = value.lower()
    if not _ORG.fullmatch(lowered):
        raise FactError("org_id", "must match [a-z0-9][a-z0-9._-]{0,63}, without white space around it")
    return lowered


def check_number(field: str, value: Any) -> None:
    """Null or an integer from 0 to 2^63-1; a bool is not an integer."""
    if value is not None and (type(value) is not int or not 0 <= value <= MAX_INTEGER):
        raise FactError(field, "must be null or an integer from 0 to 2^63-1")


class TextPart(msgspec.Struct, frozen=True, tag="text", tag_field="type", forbid_unknown_fields=True):
    """Plain text. The empty string is kept."""

    content: str

    def __post_init__(self) -> None:
        if type(self.content) is not str:
            raise FactError("content", "must be a string")


class ReasoningPart(msgspec.Struct, frozen=True, tag="reasoning", tag_field="type", forbid_unknown_fields=True):
    """Readable reasoning of the model."""

    content: str

    def __post_init__(self) -> None:
        if type(self.content) is not str:
            raise FactError("content", "must be a string")


class ToolCallPart(msgspec.Struct, frozen=True, tag="tool_call", tag_field="type", forbid_unknown_fields=True):
    """A tool the model wants run. `arguments` is an object; a missing name is the empty string."""

    id: str
    name: str
    arguments: dict[str, Any]

    def __post_init__(self) -> None:
        trimmed = check_id("id", self.id)
        if trimmed is not self.id:
            msgspec.structs.force_setattr(self, "id", trimmed)
        if type(self.name) is not str:
            raise FactError("name", "must be a string")
        if type(self.arguments) is not dict:
            raise FactError("arguments", "must be an object")


class ToolCallResponsePart(
    msgspec.Struct, frozen=True, tag="tool_call_response", tag_field="type", forbid_unknown_fields=True
):
    """What the tool answered: any JSON value, null included."""

    id: str
    result: Any

    def __post_init__(self) -> None:
        trimmed = check_id("id", self.id)
        if trimmed is not self.id:
            msgspec.structs.force_setattr(self, "id", trimmed)


Part: TypeAlias = TextPart | ReasoningPart | ToolCallPart | ToolCallResponsePart
_PARTS = (TextPart, ReasoningPart, ToolCallPart, ToolCallResponsePart)


class InferenceMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message: who speaks, the ordered parts, and on answers why the model stopped."""

    role: str
    parts: list[Part]
    finish_reason: str | None

    def __post_init__(self) -> None:
        if type(self.role) is not str or not self.role.strip():
            raise FactError("role", "must be a string that is not blank")
        if type(self.parts) is not list:
            raise FactError("parts", "must be a list")
        for index, part in enumerate(self.parts):
            if type(part) not in _PARTS:
                raise FactError(f"parts/{index}", "must be a text, reasoning, tool_call or tool_call_response part")
        if self.finish_reason is not None and type(self.finish_reason) is not str:
            raise FactError("finish_reason", "must be a string or null")


class InferenceCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model call. See the module for how it is checked and the contract, section 5, for its identity."""

    schema_version: int = 1
    inference_call_id: str
    org_id: str
    session_id: str
    user_id: str | None
    gateway_provider: str
    model_provider: str | None
    model: str | None
    input_messages: list[InferenceMessage]
    output_messages: list[InferenceMessage]
    input_tokens: int | None
    output_tokens: int | None
    duration_ms: int | None
    model_call_id: str | None
    observed_at: str
    raw: dict[str, Any]

    def __post_init__(self) -> None:
        if type(self.schema_version) is not int or self.schema_version != 1:
            raise FactError("schema_version", "must be the integer 1")
        for field in ("inference_call_id", "session_id"):
            self._trim(field)
        for field in ("user_id", "model_provider", "model", "model_call_id"):
            if getattr(self, field) is not None:
                self._trim(field)
        org = check_org(self.org_id)
        if org != self.org_id:
            msgspec.structs.force_setattr(self, "org_id", org)
        if type(self.gateway_provider) is not str or self.gateway_provider not in _GATEWAYS:
            raise FactError("gateway_provider", "must be litellm, portkey, helicone or unknown")
        for field in ("input_messages", "output_messages"):
            messages = getattr(self, field)
            if type(messages) is not list:
                raise FactError(field, "must be a list")
            for index, message in enumerate(messages):
                if type(message) is not InferenceMessage:
                    raise FactError(f"{field}/{index}", "must be a message")
        for field in ("input_tokens", "output_tokens", "duration_ms"):
            check_number(field, getattr(self, field))
        if type(self.observed_at) is not str or not _INSTANT.fullmatch(self.observed_at):
            raise FactError("observed_at", "must be an RFC 3339 instant with an offset")
        if type(self.raw) is not dict:
            raise FactError("raw", "must be an object")

    def _trim(self, field: str) -> None:
        value = getattr(self, field)
        trimmed = check_id(field, value)
        if trimmed is not value:
            msgspec.structs.force_setattr(self, field, trimmed)

    def to_json(self) -> bytes:
        """The fact as compact JSON (UTF-8, one line, keys in the order of the schema)."""
        return _ENCODER.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> InferenceCall:
        """Decode and check; `FactError` names field and rule, or says that the JSON itself is broken."""
        try:
            _HEAD.decode(data)
            return _DECODER.decode(data)
        except msgspec.ValidationError as error:
            raise _fact_error(error) from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise FactError("fact", f"is not JSON: {type(error).__name__}") from None


def _fact_error(error: msgspec.ValidationError) -> FactError:
    """msgspec says `<rule> - at `$.path``; a rule of ours arrives as the cause."""
    text, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").lstrip(".").replace("[", "/").replace("]", "").replace(".", "/")
    cause = error.__cause__
    if isinstance(cause, FactError):
        return FactError("/".join(filter(None, (field, cause.field))), cause.rule)
    return FactError(field or "fact", text)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(InferenceCall)


class _Head(msgspec.Struct):
    """What a constructor may leave out and JSON may not."""

    schema_version: int


_HEAD = msgspec.json.Decoder(_Head)
