# SPDX-License-Identifier: Apache-2.0
"""What an answer of Sediment's means for a fact, and for the rest. Pure.

An answer ends a fact's way (`stored`, `duplicate`, `collapsed`, `skipped`, `conflict`, `refused`), or asks for another
attempt (`AGAIN`), or says that no fact will get through here (`blocked`: credentials, redirects, no such door).
The server's words are never repeated: only its status and its closed codes.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import msgspec


class Fate(str, Enum):
    """What became of one fact."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    COLLAPSED = "collapsed"
    SKIPPED = "skipped"
    CONFLICT = "conflict"
    REFUSED = "refused"
    BLOCKED = "blocked"
    UNDELIVERED = "undelivered"
    AGAIN = "again"


#: Fates of facts that are in the server, or that it holds in another fact.
THERE = frozenset({Fate.STORED, Fate.DUPLICATE, Fate.COLLAPSED})


class Answer(NamedTuple):
    """`reason` is a code: empty where the fate says all. `fact_id` is the id that the server names, if another."""

    fate: Fate
    reason: str = ""
    fact_id: str | None = None


#: Statuses that mean every fact, not this one: reason.
_FOR_ALL: dict[int, str] = {
    401: "authentication_rejected",
    403: "authentication_rejected",
    404: "no_such_door",
    405: "no_such_door",
    407: "authentication_rejected",
}
#: Statuses that mean this fact alone: fate and reason.
_FOR_ONE: dict[int, tuple[Fate, str]] = {
    409: (Fate.CONFLICT, "identity_conflict"),
    413: (Fate.REFUSED, "too_large_for_target"),
}
#: Statuses that say "later": the server is not at fault with this very fact.
_LATER = frozenset({408, 425, 429, 502, 503, 504})

WAYS_OUT: dict[str, str] = {
    "authentication_rejected": "give a token that may ingest (SEDIMENT_OTEL_TOKEN, or --token-file FILE)",
    "no_such_door": "the address is not that of a Sediment server: give sediment+https://HOST without further path",
    "redirect_rejected": "give the address that the server redirects to; a token is never sent on",
    "client_rejected": "run `sediment-otel validate` on the facts, and see the log of the server",
    "too_large_for_target": "the server takes 25 MiB: write the fact with sediment+postgresql://, or to a file",
    "identity_conflict": "the server has another call under this id, or under this model call id: the first stays",
    "unknown_capture": "the fact was not made from a trace here: write it with sediment+postgresql://",
    "other_org": "convert again with --org of the server, or give another server",
    "invalid_fact": "run `sediment-otel validate` on the file",
    "server_error": "see the log of the server",
    "invalid_acknowledgment": "what answers is no Sediment server of a known release: check the address",
    "no_session": "the server found no session in the fact",
}


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    fact_id: str
    stored: bool


class _Skipped(msgspec.Struct, forbid_unknown_fields=True):
    skipped: bool
    reason: str


_stored = msgspec.json.Decoder(_Stored).decode
_skipped = msgspec.json.Decoder(_Skipped).decode


def classify(status: int, body: bytes, fact_id: str) -> Answer:
    """The meaning of an answer to the fact `fact_id`."""
    if status == 200:
        return _acknowledged(body, fact_id)
    if status in _FOR_ALL:
        return Answer(Fate.BLOCKED, _FOR_ALL[status])
    if status in _FOR_ONE:
        return Answer(*_FOR_ONE[status])
    if status in _LATER:
        return Answer(Fate.AGAIN, f"http_{status}")
    if 300 <= status < 400:
        return Answer(Fate.BLOCKED, "redirect_rejected")
    if 400 <= status < 500:
        return Answer(Fate.REFUSED, "client_rejected")
    if status >= 500:
        return Answer(Fate.AGAIN, "server_error")
    return Answer(Fate.AGAIN, "invalid_acknowledgment")


def _acknowledged(body: bytes, fact_id: str) -> Answer:
    try:
        found = _stored(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            skip = _skipped(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Answer(Fate.AGAIN, "invalid_acknowledgment")
        if skip.skipped and skip.reason == "no_session":
            return Answer(Fate.SKIPPED, "no_session")
        return Answer(Fate.AGAIN, "invalid_acknowledgment")
    if found.stored:
        return Answer(Fate.STORED, "", None if found.fact_id == fact_id else found.fact_id)
    if found.fact_id == fact_id:
        return Answer(Fate.DUPLICATE)
    return Answer(Fate.COLLAPSED, "model_call_id_reused", found.fact_id)


def retry_after(value: str | None) -> float | None:
    """Seconds that a `Retry-After` header names; None for a date or nonsense."""
    if value is None or not value.strip().isascii() or not value.strip().isdigit():
        return None
    return float(value.strip()[:9])
