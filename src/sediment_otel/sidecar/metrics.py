# SPDX-License-Identifier: Apache-2.0
"""Counters and gauges of the running sidecar, as Prometheus text (format 0.0.4). Thread-safe.

Labels come from closed vocabularies and from sinks' own names; no content, no ids.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: name -> (type, help); the prefix `sediment_otel_` is added.
FAMILIES: dict[str, tuple[str, str]] = {
    "received_requests_total": ("counter", "Export requests accepted, by protocol and signal."),
    "received_bytes_total": ("counter", "Bytes of accepted requests, inflated."),
    "received_spans_total": ("counter", "Spans in accepted requests, those that cannot be read included."),
    "received_log_records_total": ("counter", "Log records in accepted requests."),
    "refused_items_total": ("counter", "Spans and log records refused in a partial success."),
    "refused_requests_total": ("counter", "Requests refused whole, by HTTP status."),
    "facts_total": ("counter", "Facts committed to the store."),
    "skipped_total": ("counter", "Spans that gave no fact, by reason."),
    "degraded_total": ("counter", "Losses in facts, by code."),
    "incomplete_context_total": ("counter", "Outcomes decided at the deadline without all ancestors."),
    "late_log_records_total": ("counter", "Log records that came after the outcome of their call."),
    "unused_log_records_total": ("counter", "Log records of model calls that no call took."),
    "translator_restarts_total": ("counter", "How often the translator process had to be started anew."),
    "forwarded_requests_total": ("counter", "Requests passed on unchanged."),
    "forward_failures_total": ("counter", "Attempts to pass a request on that failed."),
    "forward_refused_total": ("counter", "Requests that the next receiver refused for good."),
    "delivered_facts_total": ("counter", "Facts delivered, by sink and receipt."),
    "delivery_failures_total": ("counter", "Failed deliveries, by sink."),
    "queue_requests": ("gauge", "Requests whose outcomes are not committed yet."),
    "queue_bytes": ("gauge", "Bytes that wait in the journal, as stored."),
    "queue_oldest_seconds": ("gauge", "Age of the oldest request without an outcome."),
    "undelivered_facts": ("gauge", "Facts in the store that the sink does not have yet."),
    "oldest_undelivered_seconds": ("gauge", "How long the oldest of these has been waiting."),
    "unforwarded_requests": ("gauge", "Requests that were not passed on yet."),
    "memory_in_flight_bytes": ("gauge", "Bytes of requests being received."),
    "resident_memory_bytes": ("gauge", "Resident memory, by process."),
}

Sample = tuple[str, Mapping[str, str], float]


class Metrics:
    """The registry. Gauges are asked for when somebody reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self._gauges: list[Callable[[], Iterable[Sample]]] = []

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Raise a counter."""
        if name not in FAMILIES:
            raise KeyError(name)
        key = (name, tuple(sorted(labels.items())))
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount

    def value(self, name: str, **labels: str) -> float:
        """A counter's value; without labels the sum over all."""
        with self._lock:
            wanted = set(labels.items())
            return sum(v for (n, found), v in self._values.items() if n == name and wanted <= set(found))

    def gauges(self, ask: Callable[[], Iterable[Sample]]) -> None:
        """Register a source of gauges: name, labels, value."""
        self._gauges.append(ask)

    def text(self) -> str:
        """Everything, as Prometheus reads it."""
        with self._lock:
            samples = [(name, labels, value) for (name, labels), value in self._values.items()]
        for ask in self._gauges:
            samples += [(name, tuple(sorted(labels.items())), value) for name, labels, value in ask()]
        lines: list[str] = []
        for name, (kind, about) in FAMILIES.items():
            found = sorted((labels, value) for n, labels, value in samples if n == name)
            if not found and kind == "counter" and name in _WITHOUT_LABELS:
                found = [((), 0.0)]
            if not found:
                continue
            lines += [f"# HELP sediment_otel_{name} {about}", f"# TYPE sediment_otel_{name} {kind}"]
            for labels, value in found:
                inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
                lines.append(f"sediment_otel_{name}{'{' + inner + '}' if inner else ''} {_number(value)}")
        return "\n".join(lines) + "\n"


_WITHOUT_LABELS = frozenset(
    {"received_spans_total", "received_log_records_total", "facts_total", "incomplete_context_total"}
)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
