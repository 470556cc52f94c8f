# SPDX-License-Identifier: Apache-2.0
"""Identity and scalars of a fact (contract, section 5): ids, session, user, numbers, times.

Everything here judges values that a trace carries; nothing is invented, and what cannot be used is said.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from ..facts import MAX_INTEGER
from ..formats.python_repr import literal
from ..genai import NotJson, loads

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NO_ID = frozenset({"None", "null"})

#: The namespace of capture ids, and the one in which Sediment computes the id of a captured call.
CAPTURE_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:sediment-otel:capture:v1")
SEDIMENT_NAMESPACE = uuid.UUID("f8bfd6e0-f182-4bcd-a1f8-85a987a8c6e2")

_CAPTURE = hashlib.sha1(CAPTURE_NAMESPACE.bytes, usedforsecurity=False)
_SEDIMENT = hashlib.sha1(SEDIMENT_NAMESPACE.bytes, usedforsecurity=False)
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def _uuid5(begun: Any, name: str) -> str:
    """`uuid.uuid5` of a namespace whose hash is begun already, as text."""
    digest = begun.copy()
    digest.update(name.encode("utf-8", "surrogatepass"))
    text = digest.hexdigest()
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:32]}"


def capture_id(capture_key: str) -> str:
    """The capture id of a source record; the key of a span is `<trace id>:<span id>`."""
    return _uuid5(_CAPTURE, capture_key)


def inference_call_id(org_id: str, capture: str) -> str:
    """The id that Sediment itself gives a call captured under `capture` in the organisation."""
    return _uuid5(_SEDIMENT, f'["{org_id}","{capture}"]')


def usable_id(value: Any) -> str | None:
    """The id, trimmed; None where the value is no id (no text, blank, `None` or `null`, NUL, lone surrogate)."""
    if type(value) is not str:
        return None
    trimmed = value.strip()
    if not trimmed or trimmed in _NO_ID:
        return None
    if (not trimmed.isascii() or "\x00" in trimmed) and _UNSTORABLE.search(trimmed):
        return None
    return trimmed


def whole_number(value: Any) -> int | None:
    """An integer from 0 to 2^63-1, also as an integral float or as digits in text; anything else is None."""
    if type(value) is int:
        return value if 0 <= value <= MAX_INTEGER else None
    if type(value) is float:
        return int(value) if value.is_integer() and 0 <= value < 2.0**63 else None
    if type(value) is str and len(value) <= 64:
        text = value.strip()
        if _DIGITS.fullmatch(text):
            return whole_number(int(text.split(".", 1)[0]))
    return None


_DIGITS = re.compile(r"\+?[0-9]{1,19}(?:\.0+)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_NS = 253402300799999999999


def instant(ns: int) -> str:
    """Nanoseconds since the epoch as RFC 3339 with microseconds and `Z`. Cut, not rounded."""
    seconds, rest = divmod(min(ns, _LAST_NS), 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1000:06d}Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")


#: Names of frameworks and agents that are no model service (contract, section 5).
NO_PROVIDER = frozenset({"strands-agents", "gcp.vertex.agent", "github", "microsoft.agent_framework", "langchain"})

#: Where a session stands on a span or its log record, in order (contract, section 5). Products' own keys
#: come between the first and the second of these.
SESSION_KEY = "session.id"
SESSION_KEYS_BEHIND = (
    "gen_ai.conversation.id",
    "gcp.vertex.agent.session_id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "ai.telemetry.metadata.sessionId",
    "ai.settings.context.sessionId",
)
#: Metadata that the user gave, as one text: JSON, or Python's repr from LiteLLM.
METADATA_KEYS = ("metadata", "metadata.requester_metadata")
USER_KEYS = ("user.id", "enduser.id", "enduser.pseudo.id")


def session_from_metadata(value: Any) -> Any:
    """The `session_id` inside a `metadata` attribute (JSON text or object), or None."""
    if type(value) is str:
        if "session_id" not in value:
            return None
        try:
            value = loads(value)
        except NotJson:
            value = literal(value)
    if not isinstance(value, Mapping):
        return None
    found = value.get("session_id")
    nested = value.get("requester_metadata")
    if found is None and isinstance(nested, Mapping):
        found = nested.get("session_id")
    return found


def own_session(
    holders: Sequence[Mapping[str, Any]], configured: Iterable[str], product: Iterable[str], invalid: list[str]
) -> tuple[str, str] | None:
    """The session that attributes name, with the key it stood under. Unusable values' keys go to `invalid`."""
    return session_under((*configured, SESSION_KEY, *product, *SESSION_KEYS_BEHIND), holders, invalid)


def session_under(
    keys: Iterable[str], holders: Sequence[Mapping[str, Any]], invalid: list[str]
) -> tuple[str, str] | None:
    """The session under the first of the keys that names one, else the one in the user's metadata."""
    for key in keys:
        for attributes in holders:
            value = attributes.get(key)
            if value is None:
                continue
            found = usable_id(value)
            if found is not None:
                return found, key
            invalid.append(key)
    for key in METADATA_KEYS:
        for attributes in holders:
            value = attributes.get(key)
            inner = session_from_metadata(value) if value is not None else None
            if inner is not None:
                found = usable_id(inner)
                if found is not None:
                    return found, f"{key} session_id"
                invalid.append(key)
    return None


def own_user(
    holders: Sequence[Mapping[str, Any]], dialect_keys: Iterable[str], invalid: list[str]
) -> tuple[str, str] | None:
    """The user that attributes name, with its key. Never an account's e-mail address.

    Under a dialect's own key an empty text is how its producer writes that there is none.
    """
    for key in (*USER_KEYS, *dialect_keys):
        for attributes in holders:
            value = attributes.get(key)
            if value is None or (value == "" and key not in USER_KEYS):
                continue
            found = usable_id(value)
            if found is not None:
                return found, key
            invalid.append(key)
    return None


def gateway_of(scope: str, keys: Iterable[str], resource: Mapping[str, Any]) -> str:
    """The gateway that the call shows it went through: litellm, portkey, helicone, else unknown.

    Its scope says so, its service or, last, the keys of its attributes.
    """
    return gateway_around(scope, resource.get("service.name")) or gateway_of_keys(keys) or "unknown"


def gateway_around(scope: str, service: Any) -> str | None:
    """The gateway that the instrumentation scope or the service names."""
    if type(service) is not str:
        service = ""
    if len(scope) + len(service) > _LONG_NAMES:
        return _gateway_around.__wrapped__(scope, service)
    return _gateway_around(scope, service)


#: Names longer than this are not remembered.
_LONG_NAMES = 512


@lru_cache(maxsize=256)
def _gateway_around(scope: str, service: str) -> str | None:
    scope = scope.lower()
    for name in _GATEWAYS:
        if name in scope:
            return name
    return _GATEWAY_SERVICES.get(service.lower())


def gateway_of_keys(keys: Iterable[str]) -> str | None:
    """The gateway whose own attributes are among the keys."""
    for name in _GATEWAYS:
        if any(key.startswith(f"{name}.") for key in keys):
            return name
    return None


_GATEWAYS = ("litellm", "portkey", "helicone")
_GATEWAY_SERVICES = {
    f"{name}{ending}": name for name in _GATEWAYS for ending in ("", "-proxy", "_proxy", "-gateway", "_gateway")
}
