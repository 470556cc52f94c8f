# SPDX-License-Identifier: Apache-2.0
"""The file of the embedded store: its tables, how it is opened, and what its errors mean.

One SQLite file in WAL mode. It says who made it (`application_id`) and in which layout (`meta`), so that
a file of another program or of a newer release is refused with a clear text and never written to.
The layout is documented for people who query it by hand in `docs/store.md`.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .base import SinkError

#: "SDOT", in the header of the file.
APPLICATION_ID = 0x53444F54
SCHEMA_VERSION = 1
#: Facts are 2 to 30 KB: larger pages mean shorter overflow chains. A checkpoint every 128 MB of log: ids are random, so
#: every fact changes some page of their index, and one that changed often is then moved once.
PAGE_BYTES = 8192
CHECKPOINT_PAGES = 16384
#: Pages that a writer keeps in memory, in KiB: the inner pages and many of the leaves of the index of ids.
CACHE_KIB = 32 * 1024

SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE facts (
        seq INTEGER PRIMARY KEY,
        inference_call_id TEXT NOT NULL UNIQUE,
        org_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        gateway_provider TEXT NOT NULL,
        model_call_id TEXT,
        model TEXT,
        observed_at TEXT NOT NULL,
        input_tokens INTEGER,
        output_tokens INTEGER,
        capture_key TEXT,
        fact TEXT NOT NULL
    )""",
    "CREATE INDEX facts_session ON facts (session_id, observed_at)",
    "CREATE INDEX facts_model_call ON facts (org_id, gateway_provider, model_call_id)",
    "CREATE INDEX facts_capture ON facts (capture_key)",
    """CREATE TABLE skips (
        capture_key TEXT PRIMARY KEY,
        trace_id TEXT NOT NULL,
        span_id TEXT NOT NULL,
        name TEXT NOT NULL,
        dialect TEXT,
        reason TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE losses (
        capture_key TEXT NOT NULL,
        position INTEGER NOT NULL,
        code TEXT NOT NULL,
        at TEXT NOT NULL,
        note TEXT NOT NULL,
        PRIMARY KEY (capture_key, position)
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"INSERT INTO meta VALUES ('schema_version', '{SCHEMA_VERSION}'), ('written_by', 'sediment-otel')",
)

#: A piece of SQLite's message -> what it means for people, and the way out.
_MEANINGS = (
    ("is full", "the disk is full", "make room on the disk and run again: what was committed stays, the rest is added"),
    ("readonly", "the store is read-only", "change its permissions, or write to another file"),
    ("read-only", "the store is read-only", "change its permissions, or write to another file"),
    ("locked", "another process keeps the store locked", "wait until it has finished, and run again"),
    ("busy", "another process keeps the store locked", "wait until it has finished, and run again"),
    ("not a database", "is not a SQLite file", "name another file: it will be created"),
    (
        "malformed",
        "the store is damaged",
        "set it aside and convert the traces again (`sqlite3 FILE .recover` may save what is in it)",
    ),
    ("unable to open", "the store cannot be opened", "check that its directory exists and may be written to"),
    ("disk i/o error", "the device refused to read or write", "check space, quota, ulimit -f and the disk"),
)


def store_error(error: Exception, where: str) -> SinkError:
    """An error of SQLite as what, where and way out."""
    text = str(error).lower()
    for piece, what, way_out in _MEANINGS:
        if piece in text:
            return SinkError(what, where, way_out)
    return SinkError(f"the store failed ({type(error).__name__}: {error})", where, "check the file and run again")


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Turns what SQLite raises into `SinkError`."""
    try:
        yield
    except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
        raise store_error(error, where) from None


def connect(path: str, *, busy_timeout: float, durable: bool) -> sqlite3.Connection:
    """The store at `path`, created where there is none. Raises `SinkError`; a foreign file stays untouched."""
    if os.path.isdir(path):
        raise SinkError("is a directory", path, "name a file in it, as in facts.db")
    with explained(path):
        connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, check_same_thread=False)
    try:
        with explained(path):
            if _is_ours(connection, path):
                check_version(connection, path)
            else:
                _create(connection, path, busy_timeout)
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_read(path: str, *, busy_timeout: float = 30.0) -> sqlite3.Connection:
    """An existing store, for reading only; what one query reads is one state of the store."""
    if not os.path.isfile(path):
        raise SinkError("is no file", path, "name a store that `convert -o` has written")
    for mode in _reading_modes(path):
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(
                f"{Path(path).absolute().as_uri()}?{mode}", uri=True, timeout=busy_timeout, check_same_thread=False
            )
            connection.execute("PRAGMA query_only = ON")
            if not _is_ours(connection, path):
                raise SinkError("holds no facts", path, "name a store that `convert -o` has written")
            check_version(connection, path)
            return connection
        except (sqlite3.Error, SinkError) as error:
            if connection is not None:
                connection.close()
            failure = error if isinstance(error, SinkError) else store_error(error, path)
            if not isinstance(error, sqlite3.OperationalError):
                break
    raise failure from None


def _reading_modes(path: str) -> list[str]:
    """A connection that may write leaves no log files behind; where it may not, SQLite reads beside a writer;
    and a file without a log that nobody can write to is the whole store."""
    modes = ["mode=rw", "mode=ro"]
    if not os.path.exists(f"{path}-wal") and not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
        modes.append("immutable=1")
    return modes


def _is_ours(connection: sqlite3.Connection, path: str) -> bool:
    """True for a store, False for an empty file; anything else raises `SinkError`."""
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")  # one state for both questions: another process may be making the tables
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        if alone and connection.in_transaction:
            connection.execute("ROLLBACK")
    if application == APPLICATION_ID:
        return True
    if application == 0 and tables == 0:
        return False
    raise SinkError("is a SQLite file of another program", path, "name another file: it will be created")


def check_version(connection: sqlite3.Connection, path: str) -> None:
    """Raises `SinkError` where the layout is not the one that this release knows."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    version = row[0] if row else "none"
    if version != str(SCHEMA_VERSION):
        raise SinkError(
            f"has layout {version!s:.20}, this release knows {SCHEMA_VERSION}",
            path,
            "use the release that wrote it (or a newer one), or write to another file",
        )


def _create(connection: sqlite3.Connection, path: str, patience: float) -> None:
    """Make the tables, once, however many processes try."""
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    _into_wal(connection, patience)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_ours(connection, path):
            for statement in SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    check_version(connection, path)


def _into_wal(connection: sqlite3.Connection, patience: float) -> None:
    """Switch to WAL. SQLite does not wait by itself where two processes switch at once, so this does."""
    deadline = time.monotonic() + patience
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise sqlite3.OperationalError("unable to open in WAL mode on this file system")
        return
