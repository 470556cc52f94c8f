# SPDX-License-Identifier: Apache-2.0
"""The account of a running process: `ended = facts + skipped + dropped + waiting`, at every moment.

`waiting` is what the pipeline holds: queued, waiting for its ancestors, or on its way into the sink; it is zero
once the queue is empty. The same numbers are OpenTelemetry metrics; their names and attributes are those of
`semconv/registry.yaml`. Counts are read when the metrics are, so that counting costs the application nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider, Observation, get_meter_provider

from ..report import Row
from ..vocabulary import DropReason, SkipReason

SCOPE = "sediment_otel"
DIALECT, SKIP, DROP, LOSS, SINK = (
    "sediment.dialect",
    "sediment.skip.reason",
    "sediment.drop.reason",
    "sediment.loss.code",
    "sediment.sink",
)
ERROR = "error.type"
NO_DIALECT = "none"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The account at one moment. `ended == facts + sum(skipped) + sum(dropped) + waiting`."""

    ended: int
    facts: int
    waiting: int
    skipped: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    losses: dict[str, int] = field(default_factory=dict)
    incomplete: int = 0

    def __str__(self) -> str:
        """One line for a log: counts and reasons, no content."""
        parts = [f"{self.ended} spans ended: {self.facts} facts"]
        for name, counts in (("skipped", self.skipped), ("dropped", self.dropped)):
            reasons = ", ".join(f"{reason} {count}" for reason, count in counts.items())
            parts.append(f"{sum(counts.values())} {name}" + (f" ({reasons})" if reasons else ""))
        if self.waiting:
            parts.append(f"{self.waiting} waiting")
        if self.incomplete:
            parts.append(f"{self.incomplete} decided before their trace was complete")
        return ", ".join(parts)


class Account:
    """Counts of one pipeline. Safe to use from several threads; `lock` makes several steps one."""

    def __init__(self, sink_kind: str) -> None:
        self.lock = threading.RLock()
        self.sink_kind = sink_kind
        self.facts: Counter[str] = Counter()
        self.skipped: Counter[tuple[str, str]] = Counter()
        self.dropped: Counter[str] = Counter()
        self.losses: Counter[tuple[str, str]] = Counter()
        self.deliveries: Counter[str] = Counter()
        self.incomplete = 0
        #: Taken from the queue and not counted yet.
        self.held = 0
        #: How many spans stand in the queues; the pipeline sets it.
        self.queued: Callable[[], int] = int

    def take(self, row: Row) -> None:
        """Count one settled row."""
        if row.reason is None:
            self.facts[row.dialect] += 1
            for code, _, _ in row.losses:
                self.losses[code.value, row.dialect] += 1
        else:
            self.skipped[row.reason.value, row.dialect] += 1
        self.incomplete += row.incomplete

    def skip(self, reason: SkipReason, count: int = 1) -> None:
        """Count spans that needed no look: no dialect could know them."""
        if count:
            with self.lock:
                self.skipped[reason.value, NO_DIALECT] += count

    def drop(self, reason: DropReason, count: int = 1) -> None:
        """Count spans that were lost."""
        if count:
            with self.lock:
                self.dropped[reason.value] += count

    def snapshot(self) -> Snapshot:
        """The account now."""
        with self.lock:
            waiting = self.held + self.queued()
            skipped: Counter[str] = Counter()
            for (reason, _), count in self.skipped.items():
                skipped[reason] += count
            losses: Counter[str] = Counter()
            for (code, _), count in self.losses.items():
                losses[code] += count
            facts = sum(self.facts.values())
            return Snapshot(
                ended=facts + sum(skipped.values()) + sum(self.dropped.values()) + waiting,
                facts=facts,
                waiting=waiting,
                skipped=dict(skipped),
                dropped=dict(self.dropped),
                losses=dict(losses),
                incomplete=self.incomplete,
            )

    def after_fork(self) -> None:
        """In a forked child: what the parent counted is the parent's."""
        self.lock = threading.RLock()
        for counts in (self.facts, self.skipped, self.dropped, self.losses, self.deliveries):
            counts.clear()
        self.incomplete = self.held = 0


# -- metrics -------------------------------------------------------------------------------------------------------

Reader = Callable[[Account], Iterable[tuple[int, "dict[str, Any]"]]]


def _dialect(name: str) -> dict[str, Any]:
    return {} if name == NO_DIALECT else {DIALECT: name}


#: Metric → kind, unit, and how its observations are read from an account.
METRICS: dict[str, tuple[str, str, Reader]] = {
    "sediment.otel.spans.ended": ("counter", "{span}", lambda a: [(a.snapshot().ended, {})]),
    "sediment.otel.facts": ("counter", "{fact}", lambda a: [(n, {DIALECT: d}) for d, n in list(a.facts.items())]),
    "sediment.otel.skipped": (
        "counter",
        "{span}",
        lambda a: [(n, {SKIP: r, **_dialect(d)}) for (r, d), n in list(a.skipped.items())],
    ),
    "sediment.otel.dropped": ("counter", "{span}", lambda a: [(n, {DROP: r}) for r, n in list(a.dropped.items())]),
    "sediment.otel.losses": (
        "counter",
        "{loss}",
        lambda a: [(n, {LOSS: c, DIALECT: d}) for (c, d), n in list(a.losses.items())],
    ),
    "sediment.otel.queue.depth": ("updowncounter", "{span}", lambda a: [(a.snapshot().waiting, {})]),
    "sediment.otel.deliveries": (
        "counter",
        "{delivery}",
        lambda a: [(n, {SINK: a.sink_kind, **({ERROR: e} if e else {})}) for e, n in list(a.deliveries.items())],
    ),
}
TRANSLATE_DURATION = "sediment.otel.translate.duration"


class _Instruments:
    """The instruments of one meter provider, for all accounts that were given to it."""

    def __init__(self, meter: Meter) -> None:
        self.accounts: WeakSet[Account] = WeakSet()
        self.duration: Histogram = meter.create_histogram(
            TRANSLATE_DURATION, unit="s", description="Time from a decoded span to its outcome."
        )
        for name, (kind, unit, read) in METRICS.items():
            create = meter.create_observable_counter if kind == "counter" else meter.create_observable_up_down_counter
            create(name, callbacks=[self._callback(read)], unit=unit)

    def _callback(self, read: Reader) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            sums: Counter[tuple[tuple[str, Any], ...]] = Counter()
            for account in list(self.accounts):
                for count, attributes in read(account):
                    sums[tuple(sorted(attributes.items()))] += count
            return [Observation(count, dict(attributes)) for attributes, count in sums.items()]

        return observe


_BY_PROVIDER: WeakKeyDictionary[MeterProvider, _Instruments] = WeakKeyDictionary()
_LOCK = threading.Lock()


def publish(account: Account, provider: MeterProvider | None = None) -> Histogram:
    """Show the account among the metrics of `provider` (default: the process's); returns the duration histogram."""
    provider = provider or get_meter_provider()
    with _LOCK:
        instruments = _BY_PROVIDER.get(provider)
        if instruments is None:
            instruments = _BY_PROVIDER[provider] = _Instruments(provider.get_meter(SCOPE))
        instruments.accounts.add(account)
    return instruments.duration
