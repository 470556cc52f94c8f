# SPDX-License-Identifier: Apache-2.0
"""The account of a run: spans = facts + skipped, losses by code, and what a person wants to know of it.

Holds codes, pointers, sizes and ids, never content. Memory does not grow with the number of spans: items go
to the writer as they come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .translate.call import Translation
from .vocabulary import HARMLESS_SKIPS, LossCode, Outcome, SkipReason, SpanRole


@dataclass(slots=True)
class Account:
    """Counts of one run. `add` takes each span's outcome once; `merge` takes another stretch's account."""

    spans: int = 0
    facts: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    degraded: Counter[str] = field(default_factory=Counter)
    dialects: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    sessions: set[bytes] = field(default_factory=set)
    parts_aside: Counter[str] = field(default_factory=Counter)
    call_ids: set[bytes] = field(default_factory=set)
    call_ids_reused: int = 0
    incomplete: int = 0
    #: Message-like attributes on spans that no dialect reads: (scope, key) → spans.
    unread: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, found: Translation, reason: SkipReason | None = None) -> None:
        """Count one span. `reason` overrides a fact's outcome where a sink had it already."""
        self.spans += 1
        reason = reason or found.reason
        if found.detection.role is SpanRole.CALL:
            self.dialects[found.detection.dialect] += 1
        self.incomplete += found.incomplete
        if reason is not None:
            self.skipped[reason.value] += 1
            return
        self.facts += 1
        self.models[found.model or "(no model named)"] += 1
        self.sessions.add(short(found.session_id or ""))
        for loss in found.losses:
            self.degraded[loss.code.value] += 1
            if loss.code in _TAKEN_OUT:
                self.parts_aside[loss.note or loss.code.value] += 1
        if found.model_call_id is not None:
            key = short(f"{found.gateway_provider}\x00{found.model_call_id}")
            if key in self.call_ids:
                self.call_ids_reused += 1
            self.call_ids.add(key)

    def merge(self, other: Account) -> None:
        """Take over another stretch's counts."""
        self.spans += other.spans
        self.facts += other.facts
        for mine, theirs in (
            (self.skipped, other.skipped),
            (self.degraded, other.degraded),
            (self.dialects, other.dialects),
            (self.models, other.models),
            (self.parts_aside, other.parts_aside),
        ):
            mine.update(theirs)
        self.unread.update(other.unread)
        self.call_ids_reused += other.call_ids_reused + len(self.call_ids & other.call_ids)
        self.call_ids |= other.call_ids
        self.sessions |= other.sessions
        self.incomplete += other.incomplete

    @property
    def blemished(self) -> bool:
        """What `--strict` fails on: a call that was skipped (other than harmlessly) or degraded."""
        harmless = {reason.value for reason in HARMLESS_SKIPS}
        return bool(self.degraded) or any(count and reason not in harmless for reason, count in self.skipped.items())


_TAKEN_OUT = frozenset(
    {
        LossCode.UNSUPPORTED_CONTENT,
        LossCode.OPAQUE_REASONING,
        LossCode.MISSING_ID,
        LossCode.EXTRA_CHOICE,
        LossCode.WITHHELD_CONTENT,
    }
)


def short(text: str) -> bytes:
    """Eight bytes that stand for a text where only equality matters."""
    import hashlib

    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def item(found: Translation, reason: SkipReason | None = None) -> dict[str, Any]:
    """One span's entry in the report."""
    reason = reason or found.reason
    entry: dict[str, Any] = {
        "trace_id": found.span.trace_id,
        "span_id": found.span.span_id,
        "name": found.span.name,
        "dialect": found.detection.dialect,
        "outcome": (Outcome.SKIPPED if reason is not None else Outcome.FACT).value,
    }
    if reason is not None:
        entry["reason"] = reason.value
        if found.note:
            entry["note"] = found.note
    if found.incomplete:
        entry["incomplete_context"] = True
    entry["losses"] = [
        {"code": loss.code.value, "at": loss.at, "note": loss.note} for loss in (found.losses if reason is None else ())
    ]
    return entry


def totals(account: Account) -> dict[str, Any]:
    """The head of the report: everything but the items."""
    found: dict[str, Any] = {
        "spans": account.spans,
        "facts": account.facts,
        "skipped": _ordered(account.skipped, [reason.value for reason in SkipReason]),
        "degraded": _ordered(account.degraded, [code.value for code in LossCode]),
        "dialects": dict(sorted(account.dialects.items())),
    }
    if account.call_ids_reused:
        found["model_call_id_reused"] = account.call_ids_reused
    if account.incomplete:
        found["incomplete_context"] = account.incomplete
    return found


def _ordered(counts: Mapping[str, int], order: list[str]) -> dict[str, int]:
    return {name: counts[name] for name in order if counts.get(name)}


Write = Callable[[bytes], Any]
