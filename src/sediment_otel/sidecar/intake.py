# SPDX-License-Identifier: Apache-2.0
"""What both receivers do with a request: admit, check, decode, journal. Knows neither HTTP nor gRPC.

`take` returns a `Taken` whose future is done when the request is on disk. It raises `Refusal`: with 400 for what
can never succeed, 413 for what is too large, 429 and 503 (with a delay) for what may be sent again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

from ..otlp import decode_json, decode_protobuf
from ..otlp.weigh import weigh_json, weigh_protobuf
from ..settings import Settings
from ..telemetry import Batch, LogRecord, Rejected, Span
from .bodies import BodyError, inflate
from .entries import look, pack
from .journal import FREE, WAITING, Full, Journal, JournalError, NewRequest
from .metrics import Metrics

#: What a sender is told to wait before it tries again, in seconds.
BUSY_RETRY, FULL_RETRY = 1.0, 10.0
#: Requests up to this size are decoded as they come: whatever is in them, they take little.
UNWEIGHED_BYTES = 128 * 1024
_KINDS = {"traces": (Span, "span"), "logs": (LogRecord, "log")}


class Refusal(Exception):
    """A request that is not taken. `status` is the HTTP status."""

    def __init__(self, status: int, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Taken:
    """A request on its way to disk; None where nothing of it needed to be kept."""

    written: Future[int] | None
    rejected: int
    reason: str
    counted: dict[str, float]


class Memory:
    """The bytes of requests that are being received or decoded, never more than the budget."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._lock = threading.Lock()
        self.used = 0

    def reserve(self, size: int) -> None:
        """Raises `Refusal` where there is no room."""
        with self._lock:
            if self.used + size > self.budget:
                raise Refusal(503, "the receiver holds as much as it may (memory_budget); send again", BUSY_RETRY)
            self.used += size

    def give_back(self, size: int) -> None:
        """The bytes are gone."""
        with self._lock:
            self.used -= size

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Reserve for a while."""
        self.reserve(size)
        try:
            yield
        finally:
            self.give_back(size)


class Intake:
    """The way of a request from its bytes to the journal. Thread-safe."""

    def __init__(self, journal: Journal, settings: Settings, metrics: Metrics, *, limit: int, memory: Memory) -> None:
        self._journal = journal
        self._settings = settings
        self._metrics = metrics
        self.limit = limit
        #: From this size on requests are read and decoded one at a time, so that they do not starve each other.
        self.large = limit // 16
        self._one_large = threading.Lock()
        #: How many of them wait to be decoded or are: gRPC gathers no message then. For the event loop alone.
        self.large_now = 0
        #: How many messages gRPC gathers at this moment.
        self.gathering = 0
        self.memory = memory
        self.draining = False
        self.disk_full = False

    def admit(self) -> None:
        """Before a byte of a body is read: raises `Refusal` where nothing new is taken."""
        if self.draining:
            raise Refusal(503, "the receiver is shutting down; send again", BUSY_RETRY)
        if self.disk_full:
            raise Refusal(503, "the disk budget is used up (disk_budget); send again later", FULL_RETRY)
        try:
            self._journal.check_room(0)
        except Full as full:
            raise _full(full) from None

    async def alone(self) -> None:
        """For a large request, before it is decoded: until the messages that gRPC gathers are here or given up."""
        for _ in range(400):
            if not self.gathering:
                return
            await asyncio.sleep(0.01)
        raise Refusal(503, "other large requests are being read; send again", BUSY_RETRY)

    def take(self, signal: str, form: str, data: bytes, encoding: str = "") -> Taken:
        """Inflate, decode, look and submit. Takes as long as that takes: call it from a thread."""
        try:
            body = inflate(data, encoding, self.limit)
        except BodyError as error:
            raise Refusal(error.status, error.reason) from None
        extra = max(len(body) - len(data), 0)
        with self.memory.holding(extra):
            if signal == "metrics":
                return self._metrics_request(form, body)
            if self._light(signal, form, body):
                return self._decoded(signal, form, body)
            with self._one_large:
                return self._decoded(signal, form, body)

    def _light(self, signal: str, form: str, body: bytes) -> bool:
        """Whether a request may be decoded beside others. Raises `Refusal` where it takes too much even alone."""
        if len(body) <= UNWEIGHED_BYTES:
            return True
        most = self.memory.budget
        quick = most // 2
        if form == "json":
            weight = weigh_json(body, quick=quick)
        else:
            weight = weigh_protobuf(body, most, signal=signal, quick=quick)
        if weight > most:
            raise Refusal(
                413,
                f"the request has so many parts that decoding it takes more than {most} bytes of memory;"
                " send smaller batches, or raise memory_budget",
            )
        return weight <= quick and len(body) < self.large

    def _decoded(self, signal: str, form: str, body: bytes) -> Taken:
        batch = (
            decode_json(body, strict=True)
            if form == "json"
            else decode_protobuf(body, signal="logs" if signal == "logs" else "traces", strict=True)
        )
        rejected, reason = _refused(batch, signal, form)
        kept = [item for item in batch.items if type(item) is _KINDS[signal][0]]
        entries = look(batch, self._settings)
        counted = {
            f"received_{'spans' if signal == 'traces' else 'log_records'}_total": float(len(kept) + entries.unread),
            "refused_items_total": float(rejected),
        }
        used = bool(entries.spans or entries.records or entries.unread)
        if not used and not (kept and self._journal.forwarding):
            return Taken(None, rejected, reason, counted)
        state = WAITING if used else FREE
        return Taken(self._submit(signal, form, body, pack(entries), state), rejected, reason, counted)

    def _metrics_request(self, form: str, body: bytes) -> Taken:
        if self._journal.forwarding:
            return Taken(self._submit("metrics", form, body, b"", FREE), 0, "", {})
        return Taken(None, 0, "metrics are not used here: nothing was kept, send them to another backend", {})

    def _submit(self, signal: str, form: str, body: bytes, entries: bytes, state: int) -> Future[int]:
        try:
            return self._journal.submit(NewRequest(time.time_ns(), signal, form, body, entries, state))
        except Full as full:
            raise _full(full) from None

    def count(self, taken: Taken, protocol: str, signal: str, size: int) -> None:
        """An accepted request, once it is on disk."""
        self._metrics.add("received_requests_total", protocol=protocol, signal=signal)
        self._metrics.add("received_bytes_total", size)
        for name, amount in taken.counted.items():
            if amount:
                self._metrics.add(name, amount)

    def count_refusal(self, protocol: str, status: int) -> None:
        """A request that was refused whole."""
        self._metrics.add("refused_requests_total", protocol=protocol, status=str(status))


def failed(error: Exception) -> Refusal:
    """What is said where this program is at fault. Not to be sent again: the same would happen."""
    return Refusal(500, f"internal error ({type(error).__name__}): please report it")


def not_written(error: Exception) -> Refusal:
    """What is said where the journal failed: nothing was kept, the same request may come again."""
    what = error.what if isinstance(error, JournalError) else "failed"
    return Refusal(503, f"the journal {what}; send again later", FULL_RETRY)


def _full(full: Full) -> Refusal:
    return Refusal(503, f"no room for new data ({full.what}): what is here is kept, send again later", FULL_RETRY)


def _refused(batch: Batch, signal: str, form: str) -> tuple[int, str]:
    """How many items are refused, and a reason to show; raises `Refusal` where the whole request is no good."""
    wanted, kind = _KINDS[signal]
    good = sum(type(item) is wanted for item in batch.items)
    bad = [item for item in batch.items if type(item) is Rejected]
    documents = [item for item in bad if item.kind == "document"]
    if documents and (form == "protobuf" or not good):
        first = documents[0]
        raise Refusal(400, f"{first.place}: {first.reason}" if first.place else first.reason)
    strays = len(batch.items) - good - len(bad)
    if strays and not good:
        other = "logs" if signal == "traces" else "traces"
        raise Refusal(400, f"these are {other}: send them to /v1/{other}")
    if not bad and not strays:
        return 0, ""
    reasons = Counter(item.reason for item in bad)
    texts = [f"{count} x {reason}" for reason, count in reasons.most_common(3)]
    if bad:
        texts.append(f"first at {bad[0].place or '/'}")
    if strays:
        texts.append(f"{strays} items of another signal")
    rejected = sum(item.kind in (kind, "document") for item in bad) + strays
    return rejected, "; ".join(texts)
