# SPDX-License-Identifier: Apache-2.0
"""One delivery run: records that were read, to a carrier, with an account and a report. Checks facts before they go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from ...facts import FactError, InferenceCall
from ..atomic import AtomicFile, sink_error
from ..base import Delivery
from ..reading import FactRecord
from .answers import THERE, Fate
from .carriers import Carrier
from .courier import Result
from .gateway import stuck_error
from .tally import Tally

#: Facts that are named one by one where they are not in the server; the rest is counted.
NAMED = 20
_STUCK = (Fate.BLOCKED, Fate.UNDELIVERED)
_encode = msgspec.json.Encoder().encode


class DeliveryRun:
    """`take` batches of records until it says that no more gets through; then read the account."""

    def __init__(self, carrier: Carrier, report: Path | None) -> None:
        self._carrier = carrier
        self._report = AtomicFile(str(report)) if report is not None else None
        self.tally = Tally()
        self.facts = 0
        self.missing = 0
        self.named: list[tuple[str, str]] = []
        #: Why nothing gets through any more.
        self.stuck = ""

    @property
    def unnamed(self) -> int:
        """Facts that are not in the server beyond those named."""
        stuck = sum(self.tally.fates[fate] for fate in _STUCK)
        return max(self.missing - stuck - len(self.named), 0)

    def take(self, records: Sequence[FactRecord]) -> bool:
        """Deliver the facts; whether to go on."""
        checked = [_checked(record) for record in records]
        answers = iter(self._carrier.deliver([found for found in checked if isinstance(found, Delivery)]))
        results = [next(answers) if isinstance(found, Delivery) else found for found in checked]
        self.tally.add(results)
        for record, result in zip(records, results, strict=True):
            self._note(record.place, result)
        stuck = next((result for result in results if result.fate in _STUCK), None)
        if stuck is not None:
            self.stuck = str(stuck_error(stuck, self._carrier.where))
        return stuck is None

    def _note(self, place: str, result: Result) -> None:
        first = self.facts == 0
        self.facts += 1
        if result.fate not in THERE:
            self.missing += 1
            if result.fate not in _STUCK and len(self.named) < NAMED:
                self.named.append((place, f"{result.fate.value}: {result.reason}"))
        if self._report is None:
            return
        item: dict[str, Any] = {
            "inference_call_id": result.inference_call_id,
            "place": place,
            "outcome": result.fate.value,
        }
        if result.reason:
            item["reason"] = result.reason
        if result.fact_id is not None:
            item["fact_id"] = result.fact_id
        if result.unsaid:
            item["not_said"] = [code.value for code in result.unsaid]
        if result.attempts > 1:
            item["attempts"] = result.attempts
        if result.size:
            item["bytes"] = result.size
        self._put((b'{"items":[\n' if first else b",\n") + _encode(item))

    def _put(self, data: bytes) -> None:
        assert self._report is not None
        try:
            self._report.file.write(data)
        except OSError as error:
            raise sink_error(error, self._report.where) from None

    def __enter__(self) -> DeliveryRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._report is None:
            return
        if error is not None:
            self._report.discard()
            return
        head: dict[str, Any] = {"facts": self.facts, "outcomes": self.tally.counts()}
        if self.tally.unsaid:
            head["not_said"] = {code.value: number for code, number in sorted(self.tally.unsaid.items())}
        if self.stuck:
            head["stuck"] = self.stuck
        self._put((b"\n]," if self.facts else b'{"items":[],') + _encode(head)[1:] + b"\n")
        self._report.publish()


def _checked(record: FactRecord) -> Delivery | Result:
    if record.problem is not None:
        return Result("", Fate.REFUSED, "invalid_fact")
    try:
        return Delivery.of(InferenceCall.from_json(record.data), record.data)
    except FactError:
        return Result("", Fate.REFUSED, "invalid_fact")
