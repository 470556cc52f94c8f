# SPDX-License-Identifier: Apache-2.0
"""The embedded store: facts, skips and losses in one SQLite file that people can query.

- One `write` is one transaction: its receipts are given when it is committed. A process that dies at any
  moment leaves the batches that were committed, and a rerun adds the rest; what is there already is a
  `duplicate` (equal bytes) or a `conflict` (the first stays).
- A span has at most one row in `skips`, and its losses stand once, however often it is converted. A call
  that becomes a fact drops the skip of an earlier run; a skip never stands beside a fact of the same
  call, except a `conflict`, which says that another version of it was refused.
- Several processes may write at once; threads may share one store. A forked child opens the file anew.

Everything that fails raises `SinkError`; the transaction is undone and the store stays usable.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple

from sediment_otel.vocabulary import Outcome, SkipReason

from .base import DEFAULT_OPTIONS, Delivery, Receipt, SinkBase, SinkError, SinkOptions, SpanOutcome
from .database import connect, connect_to_read, explained

_INSERT = (
    "INSERT OR IGNORE INTO facts (inference_call_id, org_id, session_id, gateway_provider, model_call_id, model,"
    " observed_at, input_tokens, output_tokens, capture_key, fact) VALUES (?,?,?,?,?,?,?,?,?,?,CAST(? AS TEXT))"
)
_EQUAL = "SELECT CAST(fact AS BLOB) = ? FROM facts WHERE inference_call_id = ?"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_OURS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
#: Connections of a parent process: using or closing them here would harm its locks.
_INHERITED: list[sqlite3.Connection] = []


class SessionRow(NamedTuple):
    """One session: how many facts, and the times (UTC) of the first and the last."""

    session_id: str
    facts: int
    first: str
    last: str


class ReusedId(NamedTuple):
    """A model call id that several facts share; Sediment takes them for one call."""

    org_id: str
    gateway_provider: str
    model_call_id: str
    facts: int


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """What a store holds: facts, sessions, skips by reason, losses by code."""

    facts: int
    sessions: int
    skipped: dict[str, int]
    degraded: dict[str, int]


class Store(SinkBase):
    """A store, open for writing and for queries."""

    keeps_outcomes = True

    def __init__(self, path: str, options: SinkOptions = DEFAULT_OPTIONS) -> None:
        self.path = path
        self._options = options
        self._lock = threading.RLock()
        #: The end of a transaction that another thread brings about, and that thread.
        self._ending: Future[None] | None = None
        self._ender: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = self._connect()
        self._process = os.getpid()

    # -- writing

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        """Commit the facts; one receipt each."""
        if not batch:
            return []
        with self._transaction() as database:
            return [_take(database, delivery) for delivery in batch]

    def record_outcomes(self, outcomes: Sequence[SpanOutcome]) -> None:
        """Commit skips and losses. Order does not matter, nor whether the facts were written before."""
        if not outcomes:
            return
        with self._transaction() as database:
            for outcome in outcomes:
                _record(database, outcome)

    def commit(
        self,
        batch: Sequence[Delivery],
        outcomes: Callable[[list[Receipt]], Sequence[SpanOutcome]],
        notes: Mapping[str, str],
    ) -> list[Receipt]:
        """`write`, `record_outcomes` (of what `outcomes` makes of the receipts) and notes, in one transaction."""
        with self._transaction() as database:
            return _fill(database, batch, outcomes, notes)

    def commit_later(
        self,
        batch: Sequence[Delivery],
        outcomes: Callable[[list[Receipt]], Sequence[SpanOutcome]],
        notes: Mapping[str, str],
    ) -> Callable[[], list[Receipt]]:
        """`commit`, while the caller goes on: what is returned waits for the end and gives the receipts.

        Only the last step, which waits for the device, is another thread's. It raises `SinkError` where that failed,
        and then nothing was written. Any other use of the store waits for the end, too.
        """
        with self._guarded() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                receipts = _fill(database, batch, outcomes, notes)
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise
            if self._ender is None:
                self._ender = ThreadPoolExecutor(1, "sediment-otel-store")
            ending = self._ending = self._ender.submit(self._end, database)

        def wait() -> list[Receipt]:
            ending.result()
            return receipts

        return wait

    def _end(self, database: sqlite3.Connection) -> None:
        with explained(self.path):
            try:
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def note(self, key: str) -> str | None:
        """What was noted under the key with the last commit that had it."""
        rows = self._query("SELECT value FROM meta WHERE key = ?", (f"note:{key}",))
        return str(rows[0][0]) if rows else None

    def has_call(self, capture_key: str) -> bool:
        """Whether there is a fact of this call."""
        return bool(self._query("SELECT 1 FROM facts WHERE capture_key = ? LIMIT 1", (capture_key,)))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._guarded() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Everything is committed already; the file is left without a log beside it."""
        if self._process != os.getpid():
            self._leave_to_parent()
        with self._lock, explained(self.path):
            self._wait_for_end()
            if self._ender is not None:
                self._ender.shutdown()
                self._ender = None
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    # -- queries

    def facts(self, session_id: str | None = None, org: str | None = None) -> Iterator[bytes]:
        """The JSON of the facts as they were when this began: in the order of arrival, within a session in the
        order of time."""
        return read_facts(self.path, session_id, org)

    def sessions(self, org: str | None = None) -> list[SessionRow]:
        """All sessions, by the time of their first fact."""
        where, values = _where(None, org)
        query = (
            f"SELECT session_id, count(*), min(observed_at), max(observed_at) FROM facts{where}"
            " GROUP BY session_id ORDER BY 3, 1"
        )
        return [SessionRow(*row) for row in self._query(query, values)]

    def counts(self) -> StoreCounts:
        """How much there is."""
        ((facts, sessions),) = self._query("SELECT count(*), count(DISTINCT session_id) FROM facts")
        return StoreCounts(
            facts=facts,
            sessions=sessions,
            skipped=dict(self._query("SELECT reason, count(*) FROM skips GROUP BY reason ORDER BY reason")),
            degraded=dict(self._query("SELECT code, count(*) FROM losses GROUP BY code ORDER BY code")),
        )

    def reused_model_call_ids(self) -> list[ReusedId]:
        """Model call ids that more than one fact carries (`model_call_id_reused`)."""
        query = (
            "SELECT org_id, gateway_provider, model_call_id, count(*) FROM facts WHERE model_call_id IS NOT NULL"
            " GROUP BY 1, 2, 3 HAVING count(*) > 1"
        )
        return [ReusedId(*row) for row in self._query(query)]

    def _query(self, query: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        with self._guarded() as database:
            return database.execute(query, values).fetchall()

    # -- the connection

    def _connect(self) -> sqlite3.Connection:
        return connect(self.path, busy_timeout=self._options.busy_timeout, durable=self._options.durable)

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        """The connection of this process, for one thread at a time."""
        if self._process != os.getpid():
            self._leave_to_parent()
        with self._lock, explained(self.path):
            if self._connection is None:
                raise SinkError("is closed", self.path, "open the store again")
            self._wait_for_end()
            yield self._connection

    def _wait_for_end(self) -> None:
        """Until no other thread ends a transaction; whether that went well is told to who began it."""
        ending, self._ending = self._ending, None
        if ending is not None:
            ending.exception()

    def _leave_to_parent(self) -> None:
        """In a forked child: a lock that another thread of the parent held is never given back here."""
        self._lock = threading.RLock()
        self._ending = self._ender = None
        self._process = os.getpid()
        if self._connection is not None:
            _INHERITED.append(self._connection)
            self._connection = self._connect()


def _fill(
    database: sqlite3.Connection,
    batch: Sequence[Delivery],
    outcomes: Callable[[list[Receipt]], Sequence[SpanOutcome]],
    notes: Mapping[str, str],
) -> list[Receipt]:
    """Facts, outcomes and notes into an open transaction."""
    receipts = [_take(database, delivery) for delivery in batch]
    for outcome in outcomes(receipts):
        _record(database, outcome)
    for key, value in notes.items():
        database.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"note:{key}", value))
    return receipts


def read_facts(path: str, session_id: str | None = None, org: str | None = None) -> Iterator[bytes]:
    """The JSON of the facts of the store at `path`, opened for reading only. See `Store.facts`."""
    for _, encoded in read_rows(path, session_id, org):
        yield encoded


def read_rows(path: str, session_id: str | None = None, org: str | None = None) -> Iterator[tuple[str, bytes]]:
    """Like `read_facts`, each with its `inference_call_id`."""
    where, values = _where(session_id, org)
    order = "seq" if session_id is None else "observed_at, seq"
    with closing(connect_to_read(path)) as database, explained(path):
        query = f"SELECT inference_call_id, CAST(fact AS BLOB) FROM facts{where} ORDER BY {order}"
        yield from database.execute(query, values)


def _where(session_id: str | None, org: str | None) -> tuple[str, list[str]]:
    terms = [(column, value) for column, value in (("session_id", session_id), ("org_id", org)) if value is not None]
    if not terms:
        return "", []
    return " WHERE " + " AND ".join(f"{column} = ?" for column, _ in terms), [value for _, value in terms]


def _take(database: sqlite3.Connection, delivery: Delivery) -> Receipt:
    stored = database.execute(
        _INSERT,
        (
            delivery.inference_call_id,
            delivery.org_id,
            delivery.session_id,
            delivery.gateway_provider,
            delivery.model_call_id,
            delivery.model,
            _in_utc(delivery.observed_at),
            delivery.input_tokens,
            delivery.output_tokens,
            delivery.capture_key,
            delivery.encoded,
        ),
    ).rowcount
    if stored:
        if delivery.capture_key is not None:
            _drop_skip(database, delivery.capture_key)
        return Receipt.STORED
    (equal,) = database.execute(_EQUAL, (delivery.encoded, delivery.inference_call_id)).fetchone()
    return Receipt.DUPLICATE if equal else Receipt.CONFLICT


def _record(database: sqlite3.Connection, outcome: SpanOutcome) -> None:
    key = _clean(outcome.capture_key)
    if outcome.outcome == Outcome.FACT:
        _drop_skip(database, key)
        _replace_losses(database, key, outcome)
    elif outcome.reason == SkipReason.DUPLICATE:
        # The fact is there. Losses are missing only if a run died between the facts and their outcomes.
        _drop_skip(database, key)
        if outcome.losses:
            _replace_losses(database, key, outcome)
    elif outcome.reason == SkipReason.CONFLICT:
        _replace_skip(database, key, outcome)
    elif database.execute("SELECT 1 FROM facts WHERE capture_key = ? LIMIT 1", (key,)).fetchone() is None:
        _replace_skip(database, key, outcome)
        _replace_losses(database, key, outcome)


def _drop_skip(database: sqlite3.Connection, key: str) -> None:
    """The call is a fact now: what an earlier run said about it, losses included, no longer holds."""
    if database.execute("DELETE FROM skips WHERE capture_key = ? AND reason <> 'conflict'", (key,)).rowcount:
        database.execute("DELETE FROM losses WHERE capture_key = ?", (key,))


def _replace_skip(database: sqlite3.Connection, key: str, outcome: SpanOutcome) -> None:
    database.execute(
        "INSERT OR REPLACE INTO skips (capture_key, trace_id, span_id, name, dialect, reason) VALUES (?,?,?,?,?,?)",
        (
            key,
            _clean(outcome.trace_id),
            _clean(outcome.span_id),
            _clean(outcome.name),
            None if outcome.dialect is None else _clean(outcome.dialect),
            _clean(outcome.reason or ""),
        ),
    )


def _replace_losses(database: sqlite3.Connection, key: str, outcome: SpanOutcome) -> None:
    database.execute("DELETE FROM losses WHERE capture_key = ?", (key,))
    database.executemany(
        "INSERT INTO losses (capture_key, position, code, at, note) VALUES (?,?,?,?,?)",
        [(key, n, _clean(code), _clean(at), _clean(note)) for n, (code, at, note) in enumerate(outcome.losses)],
    )


def _clean(text: str) -> str:
    """Names come from spans and may hold what SQLite cannot."""
    return _UNSTORABLE.sub("\ufffd", text)


def _in_utc(instant: str) -> str:
    """An RFC 3339 instant in UTC with microseconds, so that the column sorts by time. Ours are that already."""
    if _OURS.fullmatch(instant):
        return instant
    text = instant.upper().replace("Z", "+00:00")
    match = re.fullmatch(r"(.{19})(?:\.(\d+))?([+-]\d\d:\d\d)", text)
    if match is None:
        return instant
    try:
        moment = datetime.fromisoformat(match[1] + "." + (match[2] or "")[:6].ljust(6, "0") + match[3])
        return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (ValueError, OverflowError):
        return instant  # a leap second, or past the calendar: kept as it was written
