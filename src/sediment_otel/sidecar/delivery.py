# SPDX-License-Identifier: Apache-2.0
"""From the store to the other sinks. The store is the outbox: facts have a sequence, each sink has a cursor.

One thread per sink, so that one that fails holds up none of the others. A batch is delivered, then the cursor
is moved on disk: after a crash between the two the batch is delivered again. Sinks know facts by their id; a JSON
Lines file does so within one run only, so on start its last lines are compared with the batch that comes next.
A failing sink is opened anew after a growing delay, for as long as it takes.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from ..retry import Backoff
from ..sinks.base import Delivery, Sink, StorageError
from ..sinks.database import connect_to_read
from .config import shown
from .journal import Journal
from .metrics import Metrics, Sample

BATCH_FACTS, BATCH_BYTES = 256, 4 * 1024 * 1024
_NEXT = (
    "SELECT seq, inference_call_id, session_id, org_id, gateway_provider, model_call_id, model, observed_at,"
    " CAST(fact AS BLOB), input_tokens, output_tokens, capture_key FROM facts WHERE seq > ? ORDER BY seq LIMIT ?"
)


class Numbered(NamedTuple):
    """A fact with its place in the store."""

    seq: int
    delivery: Delivery


def read_after(store: Path, seq: int) -> list[Numbered]:
    """The next facts of the store behind `seq`, as many as one delivery takes."""
    with closing(connect_to_read(str(store))) as database:
        rows = database.execute(_NEXT, (seq, BATCH_FACTS)).fetchall()
    found: list[Numbered] = []
    size = 0
    for number, call, session, org, gateway, model_call, model, observed, fact, given, made, capture in rows:
        size += len(fact)
        if found and size > BATCH_BYTES:
            break
        found.append(
            Numbered(
                number,
                Delivery(
                    inference_call_id=call,
                    session_id=session,
                    org_id=org,
                    gateway_provider=gateway,
                    model_call_id=model_call,
                    model=model,
                    observed_at=observed,
                    encoded=fact,
                    input_tokens=given,
                    output_tokens=made,
                    capture_key=capture,
                ),
            )
        )
    return found


def without_those_at_the_end_of(path: str, facts: list[Numbered]) -> list[Numbered]:
    """The facts that are not among the last lines of a JSON Lines file: a crash came before the cursor moved."""
    if not path.endswith((".jsonl", ".ndjson")) or not os.path.isfile(path):
        return facts
    size = sum(len(fact.delivery.encoded) + 1 for fact in facts)
    with open(path, "rb") as file:
        file.seek(max(os.path.getsize(path) - 2 * size - 1, 0))
        there = set(file.read().splitlines())
    return [fact for fact in facts if fact.delivery.encoded not in there]


def last_seq(store: Path) -> int:
    """The last fact's place; 0 for an empty store."""
    with closing(connect_to_read(str(store))) as database:
        return int(database.execute("SELECT coalesce(max(seq), 0) FROM facts").fetchone()[0])


class Outbox:
    """One sink, its thread, its cursor."""

    def __init__(
        self,
        url: str,
        open_it: Callable[[str], Sink],
        store: Path,
        journal: Journal,
        metrics: Metrics,
        say: Callable[..., None],
        *,
        backoff: Backoff | None = None,
        poll: float = 0.1,
    ) -> None:
        self.name = shown(url)
        self.delivered = 0
        self.failure = ""
        self._url = url
        # The location may hold a password: the cursor is kept under a digest of it.
        self._key = hashlib.sha256(url.encode()).hexdigest()[:32]
        self._open = open_it
        self._store = store
        self._journal = journal
        self._metrics = metrics
        self._say = say
        self._backoff = backoff or Backoff()
        self._poll = poll
        self._stop = threading.Event()
        self._waiting_since: float | None = None
        self._thread = threading.Thread(target=self._work, name=f"sink {self.name}", daemon=True)

    def start(self) -> None:
        """Begin where the last run stopped."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End; what was not delivered is delivered by the next run."""
        self._stop.set()
        self._thread.join(max(seconds, 0.1))

    def behind(self) -> int:
        """How many facts the sink does not have yet."""
        try:
            return max(last_seq(self._store) - self.delivered, 0)
        except StorageError:
            return 0

    def gauges(self) -> Iterable[Sample]:
        """For the page of those who watch."""
        behind = self.behind()
        waiting = time.monotonic() - self._waiting_since if behind and self._waiting_since is not None else 0.0
        yield "undelivered_facts", {"sink": self.name}, behind
        yield "oldest_undelivered_seconds", {"sink": self.name}, waiting

    def _work(self) -> None:
        sink: Sink | None = None
        self.delivered = self._journal.cursor(self._key)
        with suppress(StorageError):
            if self.delivered > last_seq(self._store):
                self.delivered = 0  # another store than the one the cursor was kept for
        while not self._stop.is_set():
            try:
                facts = read_after(self._store, self.delivered)
                if not facts:
                    self._waiting_since = None
                    self._stop.wait(self._poll)
                    continue
                self._waiting_since = self._waiting_since or time.monotonic()
                new = facts
                if sink is None:
                    new = without_those_at_the_end_of(self._url, facts)
                    sink = self._open(self._url)
                receipts = sink.write([fact.delivery for fact in new])
                sink.flush()
            except Exception as error:
                if sink is not None:
                    with suppress(Exception):
                        sink.abort()
                    sink = None
                self._failed(error)
                continue
            self.delivered = facts[-1].seq
            self._journal.set_cursor(self._key, self.delivered)
            self._waiting_since = None
            for receipt in receipts:
                self._metrics.add("delivered_facts_total", sink=self.name, receipt=receipt.value)
            self._backoff.reset()
            if self.failure:
                self.failure = ""
                self._say("sink works again", sink=self.name)
        if sink is not None:
            with suppress(Exception):
                sink.close()

    def _failed(self, error: Exception) -> None:
        self._metrics.add("delivery_failures_total", sink=self.name)
        delay = self._backoff.next()
        what = error.what if isinstance(error, StorageError) else type(error).__name__
        if what != self.failure:
            self.failure = what
            self._say("sink fails, its facts wait in the store", sink=self.name, why=what, retry_in=round(delay, 1))
        self._stop.wait(delay)
