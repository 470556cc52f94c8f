# SPDX-License-Identifier: Apache-2.0
"""The account of a delivery: fates, reasons, what was left unsaid; in numbers, and in lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from .answers import WAYS_OUT, Fate
from .courier import Result
from .envelope import UNSAID_MEANS, Unsaid

_ORDER = (
    Fate.STORED,
    Fate.DUPLICATE,
    Fate.COLLAPSED,
    Fate.SKIPPED,
    Fate.CONFLICT,
    Fate.REFUSED,
    Fate.BLOCKED,
    Fate.UNDELIVERED,
)
_SAYS: dict[str, str] = {
    "model_call_id_reused": "the server holds another fact of the same model call, and keeps that one",
    "stored_under_another_id": "the server computed another id: it serves another organisation than the facts name",
}


@dataclass(slots=True)
class Tally:
    """Counts of one run; `add` takes each result once."""

    fates: Counter[Fate] = field(default_factory=Counter)
    reasons: Counter[tuple[Fate, str]] = field(default_factory=Counter)
    unsaid: Counter[Unsaid] = field(default_factory=Counter)
    attempts: int = 0

    def add(self, results: Iterable[Result]) -> None:
        """Count results."""
        for result in results:
            self.fates[result.fate] += 1
            reason = result.reason
            if result.fate is Fate.STORED and result.fact_id is not None:
                reason = "stored_under_another_id"
            if reason:
                self.reasons[result.fate, reason] += 1
            self.unsaid.update(result.unsaid)
            self.attempts += result.attempts

    def counts(self) -> dict[str, int]:
        """Facts by fate, in a fixed order; only what occurred."""
        return {fate.value: self.fates[fate] for fate in _ORDER if self.fates[fate]}

    def lines(self) -> list[str]:
        """Why facts are not there, and what the stored ones do not say."""
        found = []
        for (fate, reason), number in sorted(self.reasons.items(), key=lambda item: _ORDER.index(item[0][0])):
            told = _SAYS.get(reason) or WAYS_OUT.get(reason, "")
            found.append(f"{number} {fate.value}: {reason}" + (f" ({told})" if told else ""))
        for code in Unsaid:
            if self.unsaid[code]:
                found.append(f"{self.unsaid[code]} stored, not said: {code.value} ({UNSAID_MEANS[code]})")
        return found
