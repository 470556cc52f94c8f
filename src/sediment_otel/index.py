# SPDX-License-Identifier: Apache-2.0
"""The first pass over files: what a call needs to know of other records, kept on disk.

A span's outcome can depend on its ancestors and its nest (the leaf rule, inherited sessions), on log records
that stand anywhere in the input, and on a sibling span that lends an id. The first pass looks at every record
once, lightly, and leaves entries here; `resolve` decides trace by trace; the second pass asks by ordinal.

Everything lies in one temporary SQLite file: memory stays flat for any size of input, entries from several
workers go into one place, and the second pass of each worker reads its own stretch of ordinals in order.
The file is private (0600 in a 0700 directory) because log records wait in it unredacted, and it goes
with the run.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from .dialects.base import LogCall
from .dialects.registry import log_calls
from .telemetry import LogRecord, Span
from .translate.select import LATE_NS, STANDS_ALONE, Decision, Glimpse, decide
from .vocabulary import SpanRole


class SpanEntry(NamedTuple):
    """One span of the input, as the first pass saw it. Ordinals count spans from 0 in the order of the input.

    Times are `storable_time`s, bits are 0 or 1: SQLite takes whole numbers in far less time than booleans.
    """

    ordinal: int
    trace_id: str
    span_id: str
    parent_span_id: str | None
    role: str
    has_output: int
    has_message: int
    failed: int
    session: str | None
    session_source: str
    response_id: str | None
    start_ns: int | None
    end_ns: int | None
    user: str | None
    user_source: str


class RecordEntry(NamedTuple):
    """One log record that a dialect wants. `position` orders records as they stand in the input."""

    position: int
    trace_id: str | None
    span_id: str | None
    has_output: int
    has_message: int
    session: str | None
    response_id: str | None
    time_ns: int | None
    payload: bytes


class LenderEntry(NamedTuple):
    """A span that is no call but may lend an id to its parent call."""

    trace_id: str
    parent_span_id: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the first pass found for one call."""

    decision: Decision
    records: tuple[LogRecord, ...] = ()
    siblings: tuple[Span, ...] = ()


_SCHEMA = """
CREATE TABLE spans (ordinal INTEGER PRIMARY KEY, trace_id TEXT, span_id TEXT, parent_span_id TEXT, role TEXT,
    has_output INT, has_message INT, failed INT, session TEXT, session_source TEXT, response_id TEXT,
    start_ns INT, end_ns INT, user TEXT, user_source TEXT);
CREATE TABLE records (position INTEGER PRIMARY KEY, trace_id TEXT, span_id TEXT, has_output INT, has_message INT,
    session TEXT, response_id TEXT, time_ns INT, payload BLOB, owner INT);
CREATE TABLE lenders (trace_id TEXT, parent_span_id TEXT, payload BLOB);
CREATE TABLE decisions (ordinal INTEGER PRIMARY KEY, wrapper INT, session TEXT, session_source TEXT,
    user TEXT, user_source TEXT, repeated INT);
"""

_MAX = 2**63 - 1


def storable_time(value: int | None) -> int | None:
    """A time as an entry holds it: what 63 bits cannot hold is as good as none for joining."""
    return value if value is None or value <= _MAX else None


class TraceIndex:
    """Entries of the first pass, and what follows from them. One writer; readers open the file themselves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=OFF")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute("PRAGMA cache_size=-16384")
        self._db.executescript(_SCHEMA)
        path.chmod(0o600)
        self._db.execute("BEGIN")
        self.spans = 0
        self.records = 0
        self.lenders = 0

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def add(
        self,
        spans: Iterable[SpanEntry],
        records: Iterable[RecordEntry],
        lenders: Iterable[LenderEntry],
        before: tuple[int, int] = (0, 0),
    ) -> None:
        """Take entries. Ordinals and positions count on from `before`, and must be unique over the whole input."""
        self._db.executemany(f"INSERT INTO spans VALUES ({before[0]}+?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", spans)
        self._db.executemany(f"INSERT INTO records VALUES ({before[1]}+?,?,?,?,?,?,?,?,?,NULL)", records)
        self._db.executemany("INSERT INTO lenders VALUES (?,?,?)", lenders)

    def resolve(self) -> None:
        """Decide everything that spans more than one record. Call once, after the last `add`."""
        db = self._db
        self.records = db.execute("SELECT count(*) FROM records").fetchone()[0]
        self.lenders = db.execute("SELECT count(*) FROM lenders").fetchone()[0]
        db.execute("CREATE INDEX by_trace ON spans (trace_id, ordinal)")
        if self.records:
            self._own_records()
        for trace_id, rows in groupby(db.execute(_TRACES), key=lambda row: row[0]):
            self._resolve_trace(trace_id, list(rows))
        if self.records:
            self._own_by_session()
            db.execute("CREATE INDEX records_by_owner ON records (owner, time_ns, position)")
        if self.lenders:
            db.execute("CREATE INDEX lenders_by_parent ON lenders (trace_id, parent_span_id)")
        db.execute("COMMIT")

    def _own_records(self) -> None:
        """Records with a span id belong to that span; others to the call with the same response id."""
        db = self._db
        db.execute("CREATE INDEX by_span ON spans (span_id, trace_id)")
        db.execute("CREATE INDEX by_response ON spans (response_id) WHERE response_id IS NOT NULL")
        db.execute(
            "UPDATE records SET owner = (SELECT min(ordinal) FROM spans s WHERE s.span_id = records.span_id AND"
            " s.trace_id = records.trace_id AND s.role = 'call') WHERE span_id IS NOT NULL"
        )
        db.execute(
            "UPDATE records SET owner = (SELECT min(ordinal) FROM spans s WHERE s.response_id = records.response_id"
            " AND s.role = 'call') WHERE owner IS NULL AND response_id IS NOT NULL"
        )
        db.execute(
            "UPDATE spans SET has_output = 1, has_message = 1 WHERE ordinal IN"
            " (SELECT owner FROM records WHERE owner IS NOT NULL AND has_output)"
        )
        db.execute(
            "UPDATE spans SET has_message = 1 WHERE ordinal IN"
            " (SELECT owner FROM records WHERE owner IS NOT NULL AND has_message)"
        )

    def _own_by_session(self) -> None:
        """What still has no owner and no span id belongs to the call of its session whose time encloses it.

        Where there is none, to one that ended just before it (`LATE_NS`).
        """
        db = self._db
        db.execute(
            "UPDATE spans SET session = (SELECT d.session FROM decisions d WHERE d.ordinal = spans.ordinal)"
            " WHERE role = 'call' AND session IS NULL"
        )
        db.execute("CREATE INDEX by_session ON spans (session, start_ns) WHERE role = 'call'")
        for late in (0, LATE_NS):
            db.execute(
                "UPDATE records SET owner = (SELECT ordinal FROM spans s WHERE s.session = records.session AND"
                " s.role = 'call' AND s.start_ns <= records.time_ns AND s.end_ns >= records.time_ns - ?"
                " ORDER BY s.start_ns DESC, s.ordinal LIMIT 1)"
                " WHERE owner IS NULL AND span_id IS NULL AND session IS NOT NULL AND time_ns IS NOT NULL",
                (late,),
            )

    def _resolve_trace(self, trace_id: str, rows: list[tuple[Any, ...]]) -> None:
        glimpses = [
            Glimpse(ordinal, span_id, parent, SpanRole(role), bool(out), bool(msg), bool(failed), *rest)
            for _, ordinal, span_id, parent, role, out, msg, failed, *rest in rows
        ]
        decisions = decide(glimpses)
        seen: set[str] = set()
        found: list[tuple[Any, ...]] = []
        for glimpse in glimpses:
            again = glimpse.span_id in seen
            seen.add(glimpse.span_id)
            decision = decisions.get(glimpse.ordinal)
            if decision is None and not again:
                continue
            decision = decision or Decision()
            found.append((glimpse.ordinal, *msgspec.structs.astuple(decision), again))
        if found:
            self._db.executemany("INSERT INTO decisions VALUES (?,?,?,?,?,?,?)", found)

    def has_orphans(self) -> bool:
        """Whether there are log records that belong to no span."""
        return bool(self.records and self._db.execute("SELECT 1 FROM records WHERE owner IS NULL LIMIT 1").fetchone())

    def log_calls(self) -> Iterator[tuple[str, LogCall]]:
        """Calls that log records alone describe, by dialect, in the order of their first record."""
        if not self.records:
            return
        rows = self._db.execute("SELECT payload FROM records WHERE owner IS NULL ORDER BY position")
        orphans = [pickle.loads(payload) for (payload,) in rows]
        yield from log_calls(orphans)

    def repeated_calls(self, most: int) -> list[tuple[str, str]] | None:
        """Trace and span ids of the calls that occur more than once; None where there are more than `most`."""
        rows = self._db.execute(
            "SELECT DISTINCT s.trace_id, s.span_id FROM decisions d JOIN spans s ON s.ordinal = d.ordinal"
            " WHERE d.repeated AND s.role = 'call' LIMIT ?",
            (most + 1,),
        ).fetchall()
        return rows if len(rows) <= most else None


#: A span that is alone in its trace has nothing to decide.
_TRACES = (
    "SELECT trace_id, ordinal, span_id, parent_span_id, role, has_output, has_message, failed, session,"
    " session_source, response_id, start_ns, end_ns, user, user_source FROM spans WHERE trace_id IN"
    " (SELECT trace_id FROM spans GROUP BY trace_id HAVING count(*) > 1) ORDER BY trace_id, ordinal"
)
_ALONE = Resolved(STANDS_ALONE)


class IndexReader:
    """What the second pass asks, for one rising stretch of ordinals."""

    def __init__(self, path: Path, first: int, last: int | None = None) -> None:
        self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self._has_records = self._db.execute("SELECT 1 FROM records WHERE owner IS NOT NULL LIMIT 1").fetchone()
        self._has_lenders = self._db.execute("SELECT 1 FROM lenders LIMIT 1").fetchone()
        self._rows = iter(
            self._db.execute(
                "SELECT ordinal, wrapper, session, session_source, user, user_source FROM decisions"
                " WHERE ordinal >= ? AND ordinal <= ?"
                " ORDER BY ordinal",
                (first, _MAX if last is None else last),
            )
        )
        self._next = next(self._rows, None)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def resolved(self, ordinal: int, span: Span) -> Resolved:
        """What was found for the span at `ordinal`; ordinals must not fall from call to call."""
        row = self._next
        while row is not None and row[0] < ordinal:
            row = self._next = next(self._rows, None)
        if row is not None and row[0] == ordinal:
            decision = Decision(bool(row[1]), *row[2:])
        elif not self._has_records and not self._has_lenders:
            return _ALONE
        else:
            decision = _ALONE.decision
        records: tuple[LogRecord, ...] = ()
        if self._has_records:
            found = self._db.execute(
                "SELECT payload FROM records WHERE owner = ? ORDER BY time_ns, position", (ordinal,)
            ).fetchall()
            records = tuple(pickle.loads(payload) for (payload,) in found)
        siblings: tuple[Span, ...] = ()
        if self._has_lenders:
            found = self._db.execute(
                "SELECT payload FROM lenders WHERE trace_id = ? AND parent_span_id = ?", (span.trace_id, span.span_id)
            ).fetchall()
            siblings = tuple(pickle.loads(payload) for (payload,) in found)
        return Resolved(decision, records, siblings)
