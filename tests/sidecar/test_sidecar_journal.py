# SPDX-License-Identifier: Apache-2.0
"""The journal by itself: budgets, what stays and what goes, groups, private files."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sediment_otel.sidecar.journal import FREE, WAITING, Full, Journal, JournalError, NewRequest, unpacked

Open = Callable[..., Journal]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Open]:
    opened: list[Journal] = []

    def make(*, budget: int = 1 << 30, min_free: int = 0, forwarding: bool = False, keep: float = 60) -> Journal:
        made = Journal(tmp_path / "journal.db", budget=budget, min_free=min_free, forwarding=forwarding, keep=keep)
        opened.append(made)
        return made

    yield make
    for one in opened:
        if one._thread.is_alive():
            one.close()


def request(body: bytes = b"body", state: int = WAITING, arrived: int = 1) -> NewRequest:
    return NewRequest(arrived, "traces", "protobuf", body, b"", state)


def rows(journal: Journal, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(journal.path)) as database:
        return database.execute(query).fetchall()


def test_what_was_acknowledged_is_there_after_a_restart(journal: Open) -> None:
    first = journal()
    number = first.submit(request(b"x" * 100)).result(10)
    first.close()
    second = journal()
    assert second.pending_requests == 1
    assert second.pending_bytes > 0
    ((found, body),) = rows(second, "SELECT id, body FROM bodies")
    assert (found, unpacked(body)) == (number, b"x" * 100)


def test_ids_are_never_used_again(journal: Open) -> None:
    made = journal(keep=0)
    first = made.submit(request()).result(10)
    made.finish("g:1", [first], [first])
    made.set_cursor("barrier", 1)
    assert rows(made, "SELECT * FROM requests") == []
    assert made.submit(request()).result(10) == first + 1


def test_a_body_goes_when_nobody_needs_it_and_its_bytes_count_no_longer(journal: Open) -> None:
    made = journal()
    numbers = [made.submit(request(bytes([n]) * 50)).result(10) for n in range(3)]
    made.finish("g:1", numbers, numbers[:2])
    made.set_cursor("barrier", 1)
    assert rows(made, "SELECT id FROM bodies") == [(numbers[2],)]
    assert made.pending_requests == 0
    assert 0 < made.pending_bytes < 60
    made.finish("g:2", [], numbers[2:])
    made.finish("g:3", numbers, numbers)  # the word may come twice
    made.set_cursor("barrier", 2)
    assert (made.pending_bytes, made.pending_requests, rows(made, "SELECT id FROM bodies")) == (0, 0, [])


def test_with_forwarding_a_body_waits_for_both(journal: Open) -> None:
    made = journal(forwarding=True)
    one, two = (made.submit(request()).result(10) for _ in range(2))
    made.finish("g:1", [one], [one])
    made.forwarded([two])
    assert rows(made, "SELECT id FROM bodies ORDER BY id") == [(one,), (two,)]
    made.forwarded([one])
    made.finish("g:2", [two], [two])
    made.set_cursor("barrier", 1)
    assert rows(made, "SELECT id FROM bodies") == []
    assert (made.pending_bytes, made.unforwarded) == (0, 0)


def test_bodies_that_waited_for_a_forwarder_go_when_there_is_none_any_more(journal: Open) -> None:
    first = journal(forwarding=True)
    number = first.submit(request(state=FREE)).result(10)
    assert first.unforwarded == 1
    first.close()
    second = journal()
    assert (second.unforwarded, second.pending_bytes) == (0, 0)
    assert rows(second, f"SELECT * FROM bodies WHERE id = {number}") == []


def test_a_budget_refuses_before_anything_is_written(journal: Open) -> None:
    made = journal(budget=30)
    made.submit(request(b"")).result(10)
    with pytest.raises(Full, match="journal budget"):
        made.submit(request(bytes(range(256))))
    assert len(rows(made, "SELECT id FROM requests")) == 1


def test_too_little_free_space_refuses(journal: Open) -> None:
    with pytest.raises(Full, match="free disk space"):
        journal(min_free=1 << 60).check_room(0)


def test_many_submissions_share_commits(journal: Open) -> None:
    made = journal()
    before = made.commits
    blocker = sqlite3.connect(made.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    futures = [made.submit(request(b"%d" % n)) for n in range(200)]
    blocker.execute("COMMIT")
    blocker.close()
    assert len({future.result(30) for future in futures}) == 200
    assert made.commits - before <= 10


def test_threads_may_submit_at_once(journal: Open) -> None:
    made = journal()
    found: list[int] = []

    def work() -> None:
        found.extend(made.submit(request()).result(30) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 401))


def test_a_cursor_is_kept(journal: Open) -> None:
    made = journal()
    assert made.cursor("sink") == 0
    made.set_cursor("sink", 7)
    made.close()
    assert journal().cursor("sink") == 7


def test_the_files_are_private(journal: Open) -> None:
    made = journal()
    made.submit(request()).result(10)
    for file in made.path.parent.glob("journal.db*"):
        assert file.stat().st_mode & 0o777 == 0o600, file


def test_a_file_of_another_release_is_refused_and_left_alone(journal: Open, tmp_path: Path) -> None:
    journal().close()
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    with pytest.raises(JournalError, match="another release"):
        journal()


def test_a_file_that_is_no_database_is_refused(journal: Open, tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"no database at all, but long enough to be looked at" * 50)
    with pytest.raises(JournalError, match="cannot be opened"):
        journal()
