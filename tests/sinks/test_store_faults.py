# SPDX-License-Identifier: Apache-2.0
"""The store under fire: killed at any moment, written by several processes, forked, out of space."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from sinks_kit import child, delivery

from sediment_otel.sinks import Receipt, SinkError, read_facts
from sediment_otel.sinks.database import _into_wal
from sediment_otel.sinks.store import Store

BATCH = 7

_WRITE_FOR_EVER = """
    import sys
    from sediment_otel.sinks.store import Store
    from sinks_kit import delivery
    store = Store(sys.argv[1])
    print("open", flush=True)
    for start in range(0, 10**9, 7):
        store.write([delivery(n, text="x" * 9000) for n in range(start, start + 7)])
        print(start + 7, flush=True)
"""


@pytest.mark.parametrize("seed", range(6))
def test_a_kill_at_any_moment_leaves_a_readable_store_and_a_rerun_completes_it(tmp_path: Path, seed: int) -> None:
    path = str(tmp_path / "facts.db")
    lines = random.Random(seed).randrange(1, 80)
    process = child(_WRITE_FOR_EVER, path)
    assert process.stdout is not None
    for _ in range(lines):
        line = process.stdout.readline()
    process.kill()  # the child runs on between its line and this: the moment is anywhere in a later batch
    rest, errors = process.communicate(timeout=60)
    assert errors == b""
    promised = int(([line, *rest.splitlines()])[-1].replace(b"open", b"0") or 0)

    found = [record.data for record in read_facts(path)]
    assert len(found) >= promised, "what was acknowledged is there"
    assert len(found) % BATCH == 0, "a batch is there whole or not at all"
    assert found == [delivery(n, text="x" * 9000).encoded for n in range(len(found))]

    total = len(found) + 2 * BATCH
    with Store(path) as store:
        receipts = store.write([delivery(n, text="x" * 9000) for n in range(total)])
        assert receipts == [Receipt.DUPLICATE] * len(found) + [Receipt.STORED] * (2 * BATCH)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("SELECT count(*) FROM facts").fetchone() == (total,)


@pytest.mark.parametrize("statements", [0, 3, 6, 8])
def test_a_kill_while_the_store_is_made_leaves_nothing_that_stands_in_the_way(tmp_path: Path, statements: int) -> None:
    path = str(tmp_path / "facts.db")
    process = child(
        """
        import sys
        from sediment_otel.sinks import database
        stop = int(sys.argv[2])
        def statements():
            for number, statement in enumerate(schema):
                if number == stop:
                    print("here", flush=True)
                    sys.stdin.read()
                yield statement
        schema = database.SCHEMA
        database.SCHEMA = statements()
        database.connect(sys.argv[1], busy_timeout=5, durable=False)
        """,
        path,
        statements,
        stdin=-1,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    process.kill()
    process.communicate(timeout=60)
    with Store(path) as store:
        assert store.write([delivery(1)]) == [Receipt.STORED]


def test_processes_that_open_and_write_at_once_store_every_fact_once(tmp_path: Path) -> None:
    path = str(tmp_path / "facts.db")
    code = """
        import sys
        from sediment_otel.sinks.store import Store
        from sinks_kit import delivery, skip
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(30):
            Store(f"{sys.argv[1]}.{number}.db").close()
        stored = 0
        with Store(sys.argv[1]) as store:
            for start in range(0, 300, 10):
                receipts = store.write([delivery(n, text="x" * 2000) for n in range(start, start + 10)])
                store.record_outcomes([skip(n) for n in range(start + 1000, start + 1010)])
                stored += sum(receipt.value == "stored" for receipt in receipts)
                assert not any(receipt.value == "conflict" for receipt in receipts)
        print(stored)
    """
    writers = [child(code, path, stdin=-1) for _ in range(3)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    answers = [writer.communicate(timeout=120) for writer in writers]
    assert [errors for _, errors in answers] == [b"", b"", b""]
    assert sum(int(out) for out, _ in answers) == 300
    with Store(path) as store:
        assert store.counts().facts == 300
        assert store.counts().skipped == {"no_session": 300}


def test_a_file_size_limit_is_an_error_and_what_was_committed_stays(tmp_path: Path) -> None:
    path = str(tmp_path / "facts.db")
    process = child(
        """
        import resource, sys
        from sediment_otel.sinks import SinkError
        from sediment_otel.sinks.store import Store
        from sinks_kit import delivery
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
        written = 0
        with Store(sys.argv[1]) as store:
            try:
                for number in range(1000):
                    store.write([delivery(number, text="x" * 20_000)])
                    written += 1
            except SinkError as error:
                print(error)
        print(written)
        """,
        path,
    )
    out, errors = process.communicate(timeout=60)
    assert errors == b""
    message, written = out.splitlines()
    assert b"refused to read or write; check space, quota, ulimit" in message
    with Store(path) as store:
        assert 0 < store.counts().facts == int(written)
        assert store.write([delivery(n, text="x" * 20_000) for n in range(40)]).count(Receipt.DUPLICATE) == int(written)


def test_a_forked_child_writes_beside_its_parent(tmp_path: Path) -> None:
    path = str(tmp_path / "facts.db")
    with Store(path) as store:
        store.write([delivery(1)])
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                store.write([delivery(n) for n in range(2, 50)])
                store.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        store.write([delivery(50)])
        assert store.counts().facts == 50
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_child_that_is_forked_while_a_thread_writes_does_not_wait_for_ever(tmp_path: Path) -> None:
    with Store(str(tmp_path / "facts.db")) as store:
        held, enough = threading.Event(), threading.Event()

        def write_slowly() -> None:
            with store._lock:
                held.set()
                enough.wait(60)

        writer = threading.Thread(target=write_slowly)
        writer.start()
        assert held.wait(60)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                signal.alarm(20)  # a child that waits for the lock is killed
                parents = store._connection
                store.write([delivery(1)])
                code = 0 if store._connection is not parents else 2
            finally:
                os._exit(code)
        status = os.waitpid(pid, 0)[1]
        enough.set()
        writer.join()
        assert os.waitstatus_to_exitcode(status) == 0
        assert store.counts().facts == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="drops root's rights to see permissions")
def test_a_store_in_a_directory_without_write_permission_is_readable_and_refuses_writing() -> None:
    with tempfile.TemporaryDirectory() as name:  # what pytest gives is closed to other users
        directory = Path(name)
        path = directory / "facts.db"
        with Store(str(path)) as store:
            store.write([delivery(1)])
        path.chmod(0o444)
        directory.chmod(0o555)
        out, errors = as_nobody(path)
        assert os.listdir(directory) == ["facts.db"]
    assert errors == b""
    assert out.splitlines() == [b"[True]", b"the store is read-only", b"cannot be written (Permission denied)"]


def as_nobody(path: Path) -> tuple[bytes, bytes]:
    process = child(
        """
        import os, sys
        from sediment_otel.sinks import SinkError, jsonl, open_sink, read_facts, store
        from sinks_kit import delivery
        os.setgid(65534)
        os.setuid(65534)
        print([record.data == delivery(1).encoded for record in read_facts(sys.argv[1])])
        for name in (sys.argv[1], sys.argv[1] + ".jsonl"):
            try:
                open_sink(name).write([delivery(2)])
            except SinkError as error:
                print(error.what)
        """,
        path,
    )
    return process.communicate(timeout=60)


def test_a_store_that_was_removed_is_an_error_for_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    with Store(str(path)) as store:
        path.unlink()
        with pytest.raises(SinkError, match=r"no file.*convert"):
            list(store.facts())


class BusyConnection:
    """Answers as SQLite does where two processes switch one file to WAL at once: at once, without waiting."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals

    def execute(self, statement: str) -> BusyConnection:
        assert statement == "PRAGMA journal_mode = WAL"
        if self.refusals:
            self.refusals -= 1
            raise sqlite3.OperationalError("database is locked")
        return self

    def fetchone(self) -> tuple[str]:
        return ("wal",)


def test_the_switch_to_wal_is_tried_again_while_another_process_makes_it() -> None:
    connection: Any = BusyConnection(3)
    _into_wal(connection, patience=60)
    assert connection.refusals == 0
    with pytest.raises(sqlite3.OperationalError):
        _into_wal(cast(Any, BusyConnection(10**9)), patience=0)
