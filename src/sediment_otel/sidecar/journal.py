# SPDX-License-Identifier: Apache-2.0
"""The journal: every request is here, on disk, before it is answered, until its outcome is committed.

One SQLite file (WAL, `synchronous=FULL`, `secure_delete`) in a private directory. One thread of one process
writes it and commits what waits together as one group: a group costs one flush to the device, however many
requests are in it. The translator reads it over connections of its own and tells the writer what may go.

A body is kept compressed (zstd), as it was after inflating; it is erased when every item in it has its outcome
(and, with forwarding, when it was passed on). The light entries of a request stay `keep` seconds longer.

`submit` raises `Full` where the budget is used up; its future raises `JournalError` where nothing was written.
"""

from __future__ import annotations

import os
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from ..sinks.base import StorageError

SCHEMA_VERSION = "1"
#: Bytes of bodies in one commit, and how many operations at most.
GROUP_BYTES = 16 * 1024 * 1024
GROUP_OPERATIONS = 512
#: A log that was not used for so long is emptied, so that no erased body lives on in it.
IDLE_SECONDS = 0.5
#: An empty journal larger than this is made small again.
SHRINK_BYTES = 256 * 1024 * 1024

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE requests (id INTEGER PRIMARY KEY AUTOINCREMENT, arrived INTEGER NOT NULL, signal TEXT NOT NULL,
    form TEXT NOT NULL, size INTEGER NOT NULL, stored INTEGER NOT NULL, entries BLOB,
    translated INTEGER NOT NULL, forwarded INTEGER NOT NULL, released INTEGER NOT NULL);
CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE cursors (sink TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX to_translate ON requests (id) WHERE translated = 0;
CREATE INDEX released ON requests (arrived) WHERE released = 1;
CREATE INDEX to_forward ON requests (id) WHERE forwarded = 0;
"""


#: `translated`: nothing decided yet; outcomes committed, the body still lent to other requests; not needed here.
WAITING, DONE, FREE = 0, 1, 2


class JournalError(StorageError):
    """The journal cannot be opened or written."""


class Full(Exception):
    """A budget is used up: nothing new is taken until something has left. `what` names the budget."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class NewRequest(NamedTuple):
    """What a receiver hands in. `body` is inflated; `form` is "json" or "protobuf"; `arrived` wall-clock ns."""

    arrived: int
    signal: str
    form: str
    body: bytes
    entries: bytes
    state: int


class _Operation(NamedTuple):
    run: Callable[[sqlite3.Connection], Any]
    size: int
    done: Future[Any] | None


def private_directory(path: Path) -> None:
    """Make the directory, readable for its owner alone (0700). Raises `JournalError`."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        raise JournalError(f"cannot be made private ({error.strerror})", str(path), "name another --data") from None


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection to an existing or new journal file (0600)."""
    if not read_only:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
    database = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
    if read_only:
        database.execute("PRAGMA query_only = ON")
    return database


class Journal:
    """The one writer. Thread-safe; `close` waits for what was submitted."""

    def __init__(self, path: Path, *, budget: int, min_free: int, forwarding: bool, keep: float) -> None:
        self.path = path
        self.budget = budget
        self.min_free = min_free
        self.forwarding = forwarding
        self._keep = keep
        self._database = self._open()
        self.identity = self._meta("identity") or ""
        self.pending_bytes = self._one("SELECT coalesce(sum(stored), 0) FROM requests WHERE released = 0")
        self.pending_requests = self._one("SELECT count(*) FROM requests WHERE translated = 0")
        self.unforwarded = self._one("SELECT count(*) FROM requests WHERE forwarded = 0")
        self._packer = threading.local()
        self._queue: queue.SimpleQueue[_Operation | None] = queue.SimpleQueue()
        self._free = 0
        self._free_at = 0.0
        self.failure: str | None = None
        self.commits = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
        self._thread.start()

    # -- for receivers

    def check_room(self, size: int) -> None:
        """Raises `Full` where a request of `size` bytes must not be taken."""
        if self.pending_bytes + size > self.budget:
            raise Full("journal budget")
        now = time.monotonic()
        if now - self._free_at > 0.5:
            self._free_at = now
            with suppress(OSError, AttributeError):
                found = os.statvfs(self.path.parent)
                self._free = found.f_bavail * found.f_frsize
        if self._free and self._free < self.min_free + size:
            raise Full("free disk space")

    def submit(self, request: NewRequest) -> Future[int]:
        """Write the request; the future gives its id once it is on disk."""
        packer = getattr(self._packer, "value", None)
        if packer is None:
            packer = self._packer.value = zstandard.ZstdCompressor(level=1)
        packed = packer.compress(request.body)
        self.check_room(len(packed))
        forwarded, size = not self.forwarding, len(request.body)
        request = request._replace(body=b"")  # not held any longer than it takes to pack it

        def insert(database: sqlite3.Connection) -> int:
            released = request.state == FREE and forwarded
            cursor = database.execute(
                "INSERT INTO requests (arrived, signal, form, size, stored, entries, translated, forwarded, released)"
                " VALUES (?,?,?,?,?,?,?,?,?)",
                (
                    request.arrived,
                    request.signal,
                    request.form,
                    size,
                    len(packed),
                    request.entries,
                    request.state,
                    forwarded,
                    released,
                ),
            )
            number = cursor.lastrowid or 0
            if not released:
                database.execute("INSERT INTO bodies VALUES (?, ?)", (number, packed))
            return number

        with self._lock:
            self.pending_bytes += len(packed)
            self.pending_requests += request.state == WAITING
            self.unforwarded += not forwarded
        done: Future[int] = Future()
        done.add_done_callback(lambda f: self._give_back(f, len(packed), request.state == WAITING, not forwarded))
        self._queue.put(_Operation(insert, len(packed), done))
        return done

    def _give_back(self, done: Future[int], size: int, untranslated: bool, unforwarded: bool) -> None:
        if done.exception() is not None:
            with self._lock:
                self.pending_bytes -= size
                self.pending_requests -= untranslated
                self.unforwarded -= unforwarded

    # -- for the translator, the forwarder and the sinks

    def finish(self, group: str, translated: Iterable[int], released: Iterable[int]) -> None:
        """The outcomes of these requests are committed; the bodies of `released` are needed no more."""
        done, gone = list(translated), list(released)

        def run(database: sqlite3.Connection) -> tuple[int, int]:
            count = 0
            for state, numbers in ((DONE, done), (FREE, gone)):
                for number in numbers:
                    before = database.execute("SELECT translated FROM requests WHERE id = ?", (number,)).fetchone()
                    if before is not None and before[0] < state:
                        count += before[0] == WAITING
                        database.execute("UPDATE requests SET translated = ? WHERE id = ?", (state, number))
            size = _release(database, gone)
            database.execute("INSERT OR REPLACE INTO meta VALUES ('group', ?)", (group,))
            database.execute(
                "DELETE FROM requests WHERE released = 1 AND arrived < ?",
                (time.time_ns() - int(self._keep * 1e9),),
            )
            return size, count

        def take_off(done: Future[tuple[int, int]]) -> None:
            if done.exception() is None:
                size, count = done.result()
                with self._lock:
                    self.pending_bytes -= size
                    self.pending_requests -= count

        self._insist(run).add_done_callback(take_off)

    def forwarded(self, numbers: Iterable[int]) -> None:
        """These requests were passed on."""
        passed = list(numbers)

        def run(database: sqlite3.Connection) -> tuple[int, int]:
            count = 0
            for number in passed:
                count += database.execute(
                    "UPDATE requests SET forwarded = 1 WHERE id = ? AND forwarded = 0", (number,)
                ).rowcount
            return _release(database, passed), count

        size, count = self._insist(run).result()
        with self._lock:
            self.pending_bytes -= size
            self.unforwarded -= count

    def set_cursor(self, sink: str, seq: int) -> None:
        """The sink has everything of the store up to `seq`. Returns when that is on disk."""
        self._insist(
            lambda database: database.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (sink, seq))
        ).result()

    def cursor(self, sink: str) -> int:
        """Up to where the sink was delivered to; 0 for a new one."""
        with connect_for_reading(self.path) as database:
            row = database.execute("SELECT seq FROM cursors WHERE sink = ?", (sink,)).fetchone()
        return int(row[0]) if row else 0

    def next_to_forward(self, limit: int) -> list[tuple[int, str, str, bytes]]:
        """Requests that were not passed on yet, in order: id, signal, form and body."""
        with connect_for_reading(self.path) as database:
            rows = database.execute(
                "SELECT r.id, signal, form, body FROM requests r JOIN bodies b ON b.id = r.id WHERE forwarded = 0"
                " ORDER BY r.id LIMIT ?",
                (limit,),
            ).fetchall()
        return [(number, signal, form, unpacked(body)) for number, signal, form, body in rows]

    def oldest_waiting(self) -> int | None:
        """When the oldest request without an outcome arrived (wall-clock ns)."""
        with connect_for_reading(self.path) as database:
            row = database.execute("SELECT arrived FROM requests WHERE translated = 0 ORDER BY id LIMIT 1").fetchone()
        return int(row[0]) if row else None

    def _insist(self, run: Callable[[sqlite3.Connection], Any]) -> Future[Any]:
        done: Future[Any] = Future()
        self._queue.put(_Operation(run, -1, done))
        return done

    def close(self) -> None:
        """Write what waits and let go of the file."""
        self._queue.put(None)
        self._thread.join()

    # -- the writer

    def _work(self) -> None:
        insisted: list[_Operation] = []  # what must be written sooner or later, whatever the disk says
        dirty = True
        while True:
            try:
                first = self._queue.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                if insisted:
                    insisted = self._commit(insisted)
                elif dirty:
                    dirty = not self._tidy()
                continue
            group, ending = self._gather(first)
            dirty = True
            insisted = self._commit(insisted + group)
            if ending:
                for operation in insisted:
                    _settle(operation, error=JournalError("was closed", str(self.path), "run again"))
                self._tidy()
                self._database.close()
                return

    def _gather(self, first: _Operation | None) -> tuple[list[_Operation], bool]:
        group: list[_Operation] = []
        size = 0
        operation = first
        while True:
            if operation is None:
                return group, True
            group.append(operation)
            size += max(operation.size, 0)
            if size >= GROUP_BYTES or len(group) >= GROUP_OPERATIONS:
                return group, False
            try:
                operation = self._queue.get_nowait()
            except queue.Empty:
                return group, False

    def _commit(self, group: list[_Operation]) -> list[_Operation]:
        """Run a group as one transaction; what is to be tried again where that failed."""
        if not group:
            return []
        results: list[Any] = []
        try:
            self._database.execute("BEGIN IMMEDIATE")
            results = [operation.run(self._database) for operation in group]
            self._database.execute("COMMIT")
        except (sqlite3.Error, OverflowError, MemoryError) as error:
            with suppress(sqlite3.Error):
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
            self.failure = f"{type(error).__name__}: {error}"
            failure = JournalError("cannot be written", str(self.path), "make room on its disk: nothing was lost")
            again = [operation for operation in group if operation.size < 0]
            for operation in group:
                if operation.size >= 0:
                    _settle(operation, error=failure)
            return again
        self.failure = None
        self.commits += 1
        for operation, result in zip(group, results, strict=True):
            _settle(operation, result)
        return []

    def _tidy(self) -> bool:
        """Nothing to write: empty the log, give an empty file's room back. True where nothing is left to do."""
        try:
            (pages,) = self._database.execute("PRAGMA page_count").fetchone()
            (size,) = self._database.execute("PRAGMA page_size").fetchone()
            if pages * size > SHRINK_BYTES and self._one("SELECT count(*) FROM bodies") == 0:
                self._database.execute("VACUUM")
            (busy, _, _) = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
        except sqlite3.Error:
            return False

    # -- the file

    def _open(self) -> sqlite3.Connection:
        try:
            database = connect(self.path)
            database.execute("PRAGMA page_size = 8192")
            database.execute("PRAGMA secure_delete = ON")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("PRAGMA wal_autocheckpoint = 1024")
            database.execute("PRAGMA journal_size_limit = 33554432")
            if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                database.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA.strip().split(";\n"):
                    database.execute(statement)
                database.execute(
                    "INSERT INTO meta VALUES ('schema_version', ?), ('identity', ?)",
                    (SCHEMA_VERSION, secrets.token_hex(8)),
                )
                database.execute("COMMIT")
            row = database.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
        except (sqlite3.Error, OSError) as error:
            raise JournalError(
                f"cannot be opened ({error})", str(self.path), "check the directory, or name another --data"
            ) from None
        if row is None or row[0] != SCHEMA_VERSION:
            raise JournalError("was written by another release", str(self.path), "drain it with that release first")
        if self.forwarding is False:
            database.execute("UPDATE requests SET forwarded = 1 WHERE forwarded = 0")
            database.execute("UPDATE requests SET released = 1 WHERE released = 0 AND translated = ?", (FREE,))
        database.execute("DELETE FROM bodies WHERE id IN (SELECT id FROM requests WHERE released = 1)")
        return database

    def _meta(self, key: str) -> str | None:
        row = self._database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def _one(self, query: str) -> int:
        return int(self._database.execute(query).fetchone()[0])


def _release(database: sqlite3.Connection, numbers: Iterable[int]) -> int:
    """Erase the bodies that nobody needs any more; their size. What waits for the forwarder stays."""
    size = 0
    for number in numbers:
        row = database.execute(
            "SELECT stored FROM requests WHERE id = ? AND released = 0 AND translated = 2 AND forwarded = 1", (number,)
        ).fetchone()
        if row is not None:
            size += row[0]
            database.execute("UPDATE requests SET released = 1 WHERE id = ?", (number,))
            database.execute("DELETE FROM bodies WHERE id = ?", (number,))
    return size


def _settle(operation: _Operation, result: Any = None, error: Exception | None = None) -> None:
    if operation.done is None:
        return
    if error is not None:
        operation.done.set_exception(error)
    else:
        operation.done.set_result(result)


class connect_for_reading:
    """A short-lived reading connection."""

    def __init__(self, path: Path) -> None:
        self._database = connect(path, read_only=True)

    def __enter__(self) -> sqlite3.Connection:
        return self._database

    def __exit__(self, *error: object) -> None:
        self._database.close()


def unpacked(body: bytes) -> bytes:
    """A stored body as it was received, inflated."""
    return zstandard.ZstdDecompressor().decompress(body)
