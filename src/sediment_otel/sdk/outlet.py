# SPDX-License-Identifier: Apache-2.0
"""The sink as the worker sees it: opened when it can be, tried again when it fails, opened anew after a fork.

A sink that fails is tried again for `retry` seconds; after that each batch has one try until one succeeds. The sink
works behind the gate at which a fork waits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ..sinks import Delivery, Receipt, Sink, SinkError, SpanOutcome, open_sink
from ..sinks.base import UnknownSink
from .gate import ForkGate
from .quiet import describe, quietly_log

#: Waits between two tries of a failing sink, in seconds; the last one repeats.
BACKOFF = (0.05, 0.2, 0.5, 1.0)
#: Sinks of a parent process: their connections must not be touched in the child, not even by being collected.
_INHERITED: list[Any] = []


def kind_of(sink: str | Sink) -> str:
    """The kind of a sink for metrics: never its address."""
    if not isinstance(sink, str):
        return type(sink).__name__.lower()
    scheme, _, rest = sink.partition("://")
    if rest and scheme.lower() != "file":
        return scheme.lower()
    suffixes = [part for part in os.path.basename(sink).lower().split(".")[1:] if part not in ("gz", "zst")]
    return {"db": "store", "sqlite": "store", "sqlite3": "store"}.get(suffixes[-1], "jsonl") if suffixes else "jsonl"


class Outlet:
    """One sink, given as a location or as an object. `counted` is told of each try: "" or the error's type.

    Raises `UnknownSink` when it is made for a location that names no sink; nothing later on.
    """

    def __init__(
        self,
        sink: str | Sink,
        retry: float,
        clock: Callable[[], float],
        counted: Callable[[str], None],
        gate: ForkGate,
    ) -> None:
        self._location = sink if isinstance(sink, str) else None
        self._sink: Sink | None = None if isinstance(sink, str) else sink
        self._retry = retry
        self._clock = clock
        self._counted = counted
        self._gate = gate
        self._reset()
        if self._location is not None:
            self._try_to_open(self._location)

    def _try_to_open(self, location: str) -> None:
        """Wrong usage is said at once; what time may mend (a full disk, say) is tried again by the worker."""
        try:
            self._sink = open_sink(location, append=True)
        except UnknownSink:
            raise
        except SinkError as error:
            quietly_log("sink", "facts cannot be written yet, trying again: %s", error)

    def _reset(self) -> None:
        self._given_up = threading.Event()
        self._failing = False
        self._until = float("inf")

    def write(self, batch: list[Delivery]) -> list[Receipt] | None:
        """Receipts, or None where the sink did not take the batch within the time it has."""
        until = min(self._clock() + (0.0 if self._failing else self._retry), self._until)
        tries = 0
        while not self._given_up.is_set():
            try:
                with self._gate:
                    if self._sink is None:
                        self._sink = open_sink(str(self._location), append=True)
                    receipts = self._sink.write(batch)
            except Exception as error:
                self._counted(type(error).__name__)
                quietly_log("sink", "facts could not be written: %s", describe(error))
                if isinstance(error, SinkError) and error.what == "is closed" and self._location is not None:
                    self._sink = None
                wait = BACKOFF[min(tries, len(BACKOFF) - 1)]
                tries += 1
                if self._clock() + wait > until or self._given_up.wait(wait):
                    self._failing = True
                    return None
                continue
            self._failing = False
            self._counted("")
            return receipts
        return None

    def record_outcomes(self, outcomes: Sequence[SpanOutcome]) -> None:
        """Skips and losses of calls, where the sink keeps them; a failure costs only them."""
        if not outcomes or self._sink is None or self._given_up.is_set():
            return
        try:
            with self._gate:
                self._sink.record_outcomes(outcomes)
        except Exception as error:
            quietly_log("outcomes", "the sink does not take outcomes: %s", describe(error))

    def hurry(self, until: float) -> None:
        """Try nothing again after `until`: the pipeline closes."""
        self._until = until

    def give_up(self) -> None:
        """Write nothing any more; a wait between two tries ends."""
        self._given_up.set()

    def close(self) -> None:
        """Close the sink."""
        sink, self._sink = self._sink, None
        if sink is not None:
            try:
                with self._gate:
                    sink.close()
            except Exception as error:
                quietly_log("close", "the sink did not close: %s", describe(error))

    def after_fork(self) -> None:
        """In the child: the parent's sink is left alone, and opened anew where only its location was given."""
        if self._location is not None and self._sink is not None:
            _INHERITED.append(self._sink)
            self._sink = None
        self._reset()
