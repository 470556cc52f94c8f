# SPDX-License-Identifier: Apache-2.0
"""What `validate` says of facts that Sediment's trainers would refuse: a line each on standard output, then a count."""

from __future__ import annotations

import sys
from collections import Counter

from ..facts import InferenceCall
from ..translate.trainer import refusals

#: Warnings of one code that are shown one by one; the rest is counted.
NAMED = 20


class TrainerWarnings:
    """`add` each valid fact; `lines` sums up."""

    def __init__(self) -> None:
        self.codes: Counter[str] = Counter()
        self.calls = 0
        self.refused = 0

    def add(self, place: str, call: InferenceCall) -> None:
        """Say what trainers would refuse in the fact. A warning is no fault: the fact is valid."""
        self.calls += 1
        found = refusals(call)
        self.refused += any(not refusal.dpo_only for refusal in found)
        for refusal in found:
            self.codes[refusal.code] += 1
            if self.codes[refusal.code] <= NAMED:
                who = "DPO" if refusal.dpo_only else "trainers"
                text = (
                    f"{place}: warning: {refusal.at}: {refusal.code} ({who} refuse it): {refusal.cause}; {refusal.cure}"
                )
                sys.stdout.write((text + "\n").encode("utf-8", "backslashreplace").decode())

    def lines(self) -> list[str]:
        """The sum for people; nothing where there is nothing to warn of."""
        if not self.codes:
            return []
        told = ", ".join(f"{number} {code}" for code, number in sorted(self.codes.items()))
        hidden = sum(max(number - NAMED, 0) for number in self.codes.values())
        more = f"; {hidden} warnings not shown" if hidden else ""
        return [f"  trainers would take {self.calls - self.refused} of {self.calls} facts: {told}{more}"]
