# SPDX-License-Identifier: Apache-2.0
"""The account of a run: spans = facts + skipped, losses by code, and what a person wants to know of it.

Holds codes, pointers, sizes and ids, never content. A `Row` is what is left of a span once it is translated;
memory does not grow with their number beyond a few bytes for each session and model call id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from . import lookalikes
from .sinks.base import Delivery, Receipt, SpanOutcome
from .translate.call import Translation
from .translate.credentials import redact_text
from .vocabulary import HARMLESS_SKIPS, LossCode, Outcome, SkipReason, SpanRole

#: Shorter names are not searched for credentials: none of the patterns fits into them.
_SHORTEST_CREDENTIAL = 16


class Row(msgspec.Struct, array_like=True):
    """One span's outcome, and the fact on its way out where there is one."""

    trace_id: str
    span_id: str
    name: str
    dialect: str
    is_call: bool
    reason: SkipReason | None
    note: str
    losses: list[tuple[LossCode, str, str]]
    incomplete: bool
    delivery: Delivery | None
    capture_key: str | None = None
    #: Scope and keys of what looks like messages, where no dialect reads the span.
    looks: tuple[str, tuple[str, ...]] | None = None

    @property
    def outcome(self) -> Outcome:
        """Fact or skipped."""
        return Outcome.FACT if self.reason is None else Outcome.SKIPPED


#: A span id of hostile telemetry may not be storable text; ids that were decoded always are.
def row_of(found: Translation, capture_key: str | None = None) -> Row:
    """What is left of a translation."""
    span = found.span
    delivery = None
    if found.encoded is not None:
        delivery = Delivery(
            inference_call_id=found.inference_call_id or "",
            session_id=found.session_id or "",
            org_id=found.org_id,
            gateway_provider=found.gateway_provider,
            model_call_id=found.model_call_id,
            model=found.model,
            observed_at=found.observed_at,
            encoded=found.encoded,
            input_tokens=found.input_tokens,
            output_tokens=found.output_tokens,
            capture_key=capture_key or f"{span.trace_id}:{span.span_id}",
        )
    name = span.name
    if not name.isascii():
        name = name.encode("utf-8", "replace").decode()
    if len(name) >= _SHORTEST_CREDENTIAL:
        name = redact_text(name)
    looks = lookalikes.told(span) if found.detection.dialect == "none" and found.encoded is None else None
    return Row(
        span.trace_id,
        span.span_id,
        name,
        found.detection.dialect,
        found.detection.role is SpanRole.CALL,
        found.reason,
        f"{found.note}; {lookalikes.note(*looks)}" if looks is not None else found.note,
        [(loss.code, loss.at, loss.note) for loss in found.losses] if found.losses else [],
        found.incomplete,
        delivery,
        capture_key,
        looks,
    )


#: What a sink's receipt makes of a fact.
RECEIPT_REASONS: dict[Receipt, SkipReason | None] = {
    Receipt.STORED: None,
    Receipt.DUPLICATE: SkipReason.DUPLICATE,
    Receipt.CONFLICT: SkipReason.CONFLICT,
    # The fact was made; what a target does not keep, the sink reports.
    Receipt.COLLAPSED: None,
    Receipt.REFUSED: None,
}


def settle(row: Row, receipt: Receipt) -> None:
    """Take over what a sink did with the row's fact."""
    reason = RECEIPT_REASONS[receipt]
    if reason is not None:
        row.reason, row.losses, row.delivery = reason, [], None


#: Kinds of spans that look like messages and that no dialect reads, told apart up to this number.
LOOKS = 50
OTHER_LOOKS = ("others", ("other keys",))


@dataclass(slots=True)
class Account:
    """Counts of one run; `add` takes each span's settled row once.

    Sessions and model call ids are told apart by 64-bit hashes, of one process and of one run.
    """

    spans: int = 0
    facts: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    degraded: Counter[str] = field(default_factory=Counter)
    dialects: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    sessions: set[int] = field(default_factory=set)
    parts_aside: Counter[str] = field(default_factory=Counter)
    call_ids: set[int] = field(default_factory=set)
    call_ids_reused: int = 0
    incomplete: int = 0
    #: Scope and keys of spans that no dialect reads and that look like messages; `LOOKS` of them are told apart.
    looks: Counter[tuple[str, tuple[str, ...]]] = field(default_factory=Counter)

    def add(self, row: Row) -> None:
        """Count one span."""
        self.spans += 1
        if row.is_call:
            self.dialects[row.dialect] += 1
        self.incomplete += row.incomplete
        if row.looks is not None:
            scope, keys = row.looks
            known = (scope, tuple(keys))
            self.looks[known if known in self.looks or len(self.looks) < LOOKS else OTHER_LOOKS] += 1
        delivery = row.delivery
        if row.reason is not None or delivery is None:
            self.skipped[(row.reason or SkipReason.MALFORMED).value] += 1
            return
        self.facts += 1
        self.models[delivery.model or "(no model named)"] += 1
        self.sessions.add(hash(delivery.session_id))
        for code, _, note in row.losses:
            self.degraded[code.value] += 1
            if code in _TAKEN_OUT:
                self.parts_aside[note or code.value] += 1
        if delivery.model_call_id is not None:
            key = hash((delivery.gateway_provider, delivery.model_call_id))
            if key in self.call_ids:
                self.call_ids_reused += 1
            self.call_ids.add(key)

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


def item(row: Row) -> dict[str, Any]:
    """One span's entry in the report."""
    entry: dict[str, Any] = {
        "trace_id": row.trace_id,
        "span_id": row.span_id,
        "name": row.name,
        "dialect": row.dialect,
        "outcome": row.outcome.value,
    }
    if row.reason is not None:
        entry["reason"] = row.reason.value
        if row.note:
            entry["note"] = row.note
    if row.capture_key is not None:
        entry["capture_key"] = row.capture_key
    if row.incomplete:
        entry["incomplete_context"] = True
    entry["losses"] = [{"code": code.value, "at": at, "note": note} for code, at, note in row.losses]
    return entry


def span_outcome(row: Row) -> SpanOutcome:
    """One span's outcome for a sink that keeps skips and losses."""
    return SpanOutcome(
        trace_id=row.trace_id,
        span_id=row.span_id,
        name=row.name,
        dialect=row.dialect,
        outcome=row.outcome.value,
        reason=row.reason.value if row.reason is not None else None,
        losses=[(code.value, at, note) for code, at, note in row.losses],
        key=row.capture_key,
    )


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
    if account.looks:
        found["look_like_messages"] = [
            {"scope": scope, "keys": list(keys), "spans": count} for (scope, keys), count in account.looks.most_common()
        ]
    return found


def _ordered(counts: Mapping[str, int], order: list[str]) -> dict[str, int]:
    return {name: counts[name] for name in order if counts.get(name)}
