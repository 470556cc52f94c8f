# SPDX-License-Identifier: Apache-2.0
"""The sink `sediment+https://HOST`: facts into a running Sediment, through its door for gateways.

A receipt is given when the server has answered for the fact. Facts that the server will never take are `refused` and
said in `remarks`; where no fact gets through (no answer for `patience` seconds, wrong token) `write` raises, and what
was stored by then comes back as `duplicate` when the batch is given again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..base import DEFAULT_OPTIONS, Delivery, Receipt, SinkBase, SinkError, SinkOptions
from .answers import WAYS_OUT, Fate
from .courier import Courier, Result
from .tally import Tally
from .target import PATIENCE, PATIENCE_OF_A_CALLER_THAT_RETRIES, target_of

RECEIPTS: dict[Fate, Receipt] = {
    Fate.STORED: Receipt.STORED,
    Fate.DUPLICATE: Receipt.DUPLICATE,
    Fate.COLLAPSED: Receipt.COLLAPSED,
    Fate.CONFLICT: Receipt.CONFLICT,
    Fate.SKIPPED: Receipt.REFUSED,
    Fate.REFUSED: Receipt.REFUSED,
}
#: Facts of a batch are cut into posts of their own; so many wait for each other at most.
SLICE = 64


class SedimentSink(SinkBase):
    """Facts to one server."""

    def __init__(self, url: str, options: SinkOptions = DEFAULT_OPTIONS, *, courier: Courier | None = None) -> None:
        patience = PATIENCE_OF_A_CALLER_THAT_RETRIES if options.append else PATIENCE
        self._courier = courier or Courier(target_of(url, os.environ, patience=patience))
        self._where = self._courier.target.where
        self._tally = Tally()
        self._closed = False

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        """Deliver. Raises `SinkError` where no fact gets through."""
        if self._closed:
            raise SinkError("is closed", self._where, "open the sink again")
        receipts: list[Receipt] = []
        for start in range(0, len(batch), SLICE):
            results = self._courier.deliver(batch[start : start + SLICE])
            stuck = next((result for result in results if result.fate not in RECEIPTS), None)
            if stuck is not None:
                raise stuck_error(stuck, self._where)
            self._tally.add(results)
            self.refused += sum(RECEIPTS[result.fate] is Receipt.REFUSED for result in results)
            receipts += [RECEIPTS[result.fate] for result in results]
        return receipts

    def remarks(self) -> list[str]:
        """Why facts are not in the server, and what those there do not say."""
        return self._tally.lines()

    def close(self) -> None:
        """Nothing is pending."""
        if not self._closed:
            self._closed = True
            self._courier.close()


def stuck_error(result: Result, where: str) -> SinkError:
    """No fact gets through: why, and the way out."""
    if result.fate is Fate.BLOCKED:
        return SinkError(f"takes no fact ({result.reason})", where, WAYS_OUT.get(result.reason, "see its log"))
    return SinkError(
        f"did not answer for long ({result.reason})", where, "check address and server, and run again: nothing repeats"
    )
