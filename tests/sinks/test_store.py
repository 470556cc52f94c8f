# SPDX-License-Identifier: Apache-2.0
"""The embedded store: nothing twice, one outcome per span, queries, and what cannot be opened."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sinks_kit import delivery, kept, skip

from sediment_otel.sinks import Receipt, SinkError, SinkOptions, SpanOutcome, read_facts
from sediment_otel.sinks.store import ReusedId, SessionRow, Store


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "facts.db")


def rows(path: str, query: str) -> list[tuple[Any, ...]]:
    """What somebody sees who queries the file by hand."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def test_facts_come_back_byte_for_byte_in_the_order_of_arrival(path: str) -> None:
    facts = [delivery(n, text="ä\U0001f600\\u0000") for n in (3, 1, 2)]
    with Store(path) as store:
        assert store.write(facts) == [Receipt.STORED] * 3
        assert list(store.facts()) == [fact.encoded for fact in facts]


def test_the_same_facts_again_are_duplicates_and_nothing_is_stored_twice(path: str) -> None:
    for expected in (Receipt.STORED, Receipt.DUPLICATE):
        with Store(path) as store:
            assert store.write([delivery(n) for n in range(5)]) == [expected] * 5
            assert store.counts().facts == 5


def test_other_bytes_of_the_same_id_are_a_conflict_and_the_first_stays(path: str) -> None:
    with Store(path) as store:
        assert store.write([delivery(1), delivery(1, text="x"), delivery(1)]) == [
            Receipt.STORED,
            Receipt.CONFLICT,
            Receipt.DUPLICATE,
        ]
        assert list(store.facts()) == [delivery(1).encoded]


def test_sessions_and_organisations_are_queryable(path: str) -> None:
    with Store(path) as store:
        store.write(
            [
                delivery(1, session="b", observed_at="2026-03-01T10:00:02.000000Z"),
                delivery(2, session="a", observed_at="2026-03-01T10:00:03.000000Z"),
                delivery(3, session="b", observed_at="2026-03-01T10:00:01.000000Z", org="other"),
            ]
        )
        at = "2026-03-01T10:00:0{}.000000Z".format
        assert store.sessions() == [SessionRow("b", 2, at(1), at(2)), SessionRow("a", 1, at(3), at(3))]
        assert store.sessions(org="other") == [SessionRow("b", 1, at(1), at(1))]
        assert [b'"call-3"' in fact for fact in store.facts(session_id="b")] == [True, False], "in the order of time"
        assert len(list(store.facts(org="acme"))) == 2
        assert len(list(store.facts("b", "acme"))) == 1
        assert list(store.facts("none")) == []
        assert store.counts().sessions == 2


def test_a_session_id_that_looks_like_sql_is_only_a_value(path: str) -> None:
    hostile = "' OR 1=1; DROP TABLE facts; --"
    with Store(path) as store:
        store.write([delivery(1), delivery(2, session=hostile)])
        assert list(store.facts(hostile)) == [delivery(2, session=hostile).encoded]


@pytest.mark.parametrize(
    ("written", "column"),
    [
        ("2026-03-01T10:00:00.000000Z", "2026-03-01T10:00:00.000000Z"),
        ("2026-03-01T12:00:00+02:00", "2026-03-01T10:00:00.000000Z"),
        ("2026-03-01t10:00:00.123456789z", "2026-03-01T10:00:00.123456Z"),
        ("2026-03-01T10:00:60Z", "2026-03-01T10:00:60Z"),
        ("0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00+23:59"),
    ],
)
def test_the_time_column_sorts_by_time_and_the_fact_keeps_its_spelling(path: str, written: str, column: str) -> None:
    with Store(path) as store:
        store.write([delivery(1, observed_at=written)])
        assert list(store.facts()) == [delivery(1, observed_at=written).encoded]
    assert rows(path, "SELECT observed_at FROM facts") == [(column,)]


def test_model_call_ids_that_several_facts_share_are_all_kept_and_listed(path: str) -> None:
    with Store(path) as store:
        store.write([delivery(n, model_call_id="same") for n in (1, 2)])
        store.write([delivery(3, model_call_id="same", org="other"), delivery(4), delivery(5, model_call_id=None)])
        store.write([delivery(6, model_call_id=None)])
        assert store.counts().facts == 6
        assert store.reused_model_call_ids() == [ReusedId("acme", "unknown", "same", 2)]


def test_the_columns_and_json_functions_serve_queries_by_hand(path: str) -> None:
    with Store(path) as store:
        store.write([delivery(7, text="x")])
    query = "SELECT model, input_tokens, output_tokens, json_extract(fact, '$.model_provider'), typeof(fact) FROM facts"
    assert rows(path, query) == [("gpt-x", 7, 2, "openai", "text")]


def test_skips_and_losses_of_a_rerun_stand_once(path: str) -> None:
    for _ in range(2):
        with Store(path) as store:
            store.write([delivery(2)])
            store.record_outcomes([skip(1, losses=[("missing_id", "/input_messages/0", "no id")] * 2)])
            store.record_outcomes([kept(2, [("extra_choice", "/output_messages/1", "second choice")])])
            assert store.counts().skipped == {"no_session": 1}
            assert store.counts().degraded == {"extra_choice": 1, "missing_id": 2}


def test_a_later_reason_replaces_the_earlier_one(path: str) -> None:
    with Store(path) as store:
        store.record_outcomes([skip(1, "no_session")])
        store.record_outcomes([skip(1, "oversized")])
        assert store.counts().skipped == {"oversized": 1}


@pytest.mark.parametrize("how", ["fact written", "outcome recorded", "duplicate recorded"])
def test_a_call_that_becomes_a_fact_drops_its_skip(path: str, how: str) -> None:
    with Store(path) as store:
        store.record_outcomes([skip(1, losses=[("missing_id", "/input_messages/0", "")]), skip(2)])
        if how == "fact written":
            store.write([delivery(1)])
        else:
            store.record_outcomes([kept(1) if how == "outcome recorded" else skip(1, "duplicate")])
        assert store.counts().skipped == {"no_session": 1}
        assert store.counts().degraded == {}


def test_a_fact_does_not_turn_into_a_skip_when_a_later_run_has_other_settings(path: str) -> None:
    with Store(path) as store:
        store.write([delivery(1)])
        store.record_outcomes([kept(1, [("extra_choice", "/output_messages/1", "")])])
        store.record_outcomes([skip(1, "failed_call")])
        assert store.counts().skipped == {}
        assert store.counts().degraded == {"extra_choice": 1}


def test_a_conflict_is_remembered_beside_the_fact(path: str) -> None:
    for _ in range(2):
        with Store(path) as store:
            store.write([delivery(1), delivery(1, text="x")])
            store.record_outcomes([kept(1), skip(1, "conflict")])
            assert store.counts().skipped == {"conflict": 1}
    with Store(path) as store:
        store.record_outcomes([skip(1, "duplicate"), kept(1)])
        assert store.counts().skipped == {"conflict": 1}, "a run without the other version does not undo it"


def test_losses_that_a_killed_run_did_not_record_come_with_the_rerun(path: str) -> None:
    loss = [("missing_id", "/input_messages/0", "")]
    with Store(path) as store:
        store.write([delivery(1)])
        store.record_outcomes([skip(1, "duplicate", losses=loss)])
        assert store.counts().degraded == {"missing_id": 1}
        store.record_outcomes([skip(1, "duplicate")])
        assert store.counts().degraded == {"missing_id": 1}, "a duplicate takes nothing away"


def test_calls_without_a_span_are_told_apart_by_their_own_key(path: str) -> None:
    def without_span(key: str) -> SpanOutcome:
        return SpanOutcome(
            trace_id="", span_id="", name="", dialect=None, outcome="skipped", reason="malformed", key=key
        )

    with Store(path) as store:
        store.record_outcomes([without_span("a:1"), without_span("a:2"), without_span("a:1")])
        assert store.counts().skipped == {"malformed": 2}


def test_an_outcome_is_a_fact_or_has_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"):
        skip(1, reason=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["\x00", "\ud800", "'; DROP TABLE skips", "x" * 100_000])
def test_a_hostile_span_name_costs_nothing(path: str, name: str) -> None:
    outcome = SpanOutcome(
        trace_id="t",
        span_id="s",
        name=name,
        dialect=None,
        outcome="skipped",
        reason="no_content",
        losses=[("a", name, name)],
    )
    with Store(path) as store:
        store.record_outcomes([outcome])
        assert store.counts().skipped == {"no_content": 1}


def test_a_batch_that_fails_in_the_middle_leaves_nothing_and_the_store_goes_on(path: str) -> None:
    with Store(path) as store:
        with pytest.raises(SinkError):
            store.write([delivery(1), delivery(2, encoded="\ud800")])
        assert store.counts().facts == 0
        assert store.write([delivery(1)]) == [Receipt.STORED]


def test_an_exception_around_the_store_keeps_what_was_committed(path: str) -> None:
    with pytest.raises(KeyboardInterrupt), Store(path) as store:  # noqa: PT012 - the block is what fails
        store.write([delivery(1)])
        raise KeyboardInterrupt
    with Store(path) as store:
        assert store.counts().facts == 1


def test_closing_leaves_one_file_and_reading_leaves_no_other(tmp_path: Path, path: str) -> None:
    with Store(path) as store:
        store.write([delivery(1)])
        list(store.facts())
    store.close()
    assert os.listdir(tmp_path) == ["facts.db"]
    assert len(list(read_facts(path))) == 1
    assert os.listdir(tmp_path) == ["facts.db"]
    with pytest.raises(SinkError, match="closed"):
        store.write([delivery(2)])


def test_the_file_is_in_wal_mode_and_says_what_it_is(path: str) -> None:
    Store(path).close()
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]
    assert rows(path, "PRAGMA application_id") == [(0x53444F54,)]
    assert rows(path, "SELECT value FROM meta WHERE key = 'schema_version'") == [("1",)]
    indexes = {row[0] for row in rows(path, "SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert {"facts_session", "facts_model_call"} <= indexes


@pytest.mark.parametrize(("durable", "expected"), [(False, 1), (True, 2)])
def test_durable_means_that_every_commit_is_flushed(path: str, durable: bool, expected: int) -> None:
    with Store(path, SinkOptions(durable=durable)) as store:
        assert store._query("PRAGMA synchronous") == [(expected,)]


def test_reading_sees_one_state_while_writing_goes_on(path: str) -> None:
    with Store(path) as store:
        store.write([delivery(n) for n in range(3)])
        facts = store.facts()
        first = next(facts)
        store.write([delivery(n) for n in range(3, 6)])
        assert [first, *facts] == [delivery(n).encoded for n in range(3)]
        assert len(list(store.facts())) == 6


def test_threads_share_a_store(path: str) -> None:
    with Store(path) as store:
        receipts: list[Receipt] = []

        def work() -> None:
            for n in range(50):
                receipts.extend(store.write([delivery(n)]))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert receipts.count(Receipt.STORED) == 50
        assert receipts.count(Receipt.DUPLICATE) == 350


# -- what cannot be opened


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")
        database.commit()


def other_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA application_id = 77")
        database.commit()


def newer(path: Path) -> None:
    Store(str(path)).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE meta SET value = '2' WHERE key = 'schema_version'")
        database.commit()


def damaged(path: Path) -> None:
    with Store(str(path)) as store:
        store.write([delivery(n, text="x" * 3000) for n in range(50)])
    data = bytearray(path.read_bytes())
    data[100:8192] = b"\xff" * 8092
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (foreign, "another program.*name another file"),
        (other_program, "another program"),
        (newer, "layout 2, this release knows 1.*newer"),
        (damaged, "damaged.*recover"),
        (lambda path: path.write_text("no database at all " * 100), "not a SQLite file.*another file"),
        (lambda path: path.mkdir(), "directory"),
    ],
)
def test_a_file_that_is_no_store_of_ours_is_refused_and_stays_as_it_is(tmp_path: Path, make: Any, message: str) -> None:
    path = tmp_path / "facts.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(SinkError, match=message):
        Store(str(path))
    if before is not None:
        assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["facts.db"]


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "facts.db"
    path.touch()
    with Store(str(path)) as store:
        assert store.write([delivery(1)]) == [Receipt.STORED]


def test_a_store_that_another_process_keeps_locked_is_an_error_after_the_wait(path: str) -> None:
    with Store(path, SinkOptions(busy_timeout=0.05)) as store, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SinkError, match=r"locked.*wait"):
            store.write([delivery(1)])
        other.rollback()
        assert store.write([delivery(1)]) == [Receipt.STORED]


def test_a_full_disk_undoes_the_batch_and_the_rest_can_be_added_later(path: str) -> None:
    with Store(path) as store:
        store.write([delivery(1)])
        ((pages,),) = store._query("PRAGMA page_count")
        store._query(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(SinkError, match=r"disk is full.*make room"):
            store.write([delivery(2), delivery(3, text="x" * 1_000_000)])
        assert list(store.facts()) == [delivery(1).encoded]
        store._query("PRAGMA max_page_count = 1000000")
        assert store.write([delivery(n) for n in (1, 2)]) == [Receipt.DUPLICATE, Receipt.STORED]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["", "x"])), max_size=6), max_size=8),
    st.randoms(use_true_random=False),
)
def test_any_order_of_batches_gives_the_same_set_of_ids_and_adds_up(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int, str]]], random: Any
) -> None:
    path = str(tmp_path_factory.mktemp("any") / "facts.db")
    random.shuffle(batches)
    first: dict[int, str] = {}
    with Store(path) as store:
        for batch in batches:
            receipts = store.write([delivery(number, text=text) for number, text in batch])
            for (number, text), receipt in zip(batch, receipts, strict=True):
                expected = Receipt.DUPLICATE if first.get(number) == text else Receipt.CONFLICT
                assert receipt is (expected if number in first else Receipt.STORED)
                first.setdefault(number, text)
        assert sorted(store.facts()) == sorted(delivery(n, text=text).encoded for n, text in first.items())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(["fact", "duplicate"]), st.integers(0, 5)), max_size=12),
    st.randoms(use_true_random=False),
)
def test_facts_and_their_outcomes_arrive_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, again: list[tuple[str, int]], random: Any
) -> None:
    actions: list[tuple[str, int]] = [("write", n) for n in range(3)] + [("fact", n) for n in range(3)]
    actions += [("skip", n) for n in range(3, 6)] + [(kind, n % 3) for kind, n in again]
    random.shuffle(actions)
    loss = [("missing_id", "/input_messages/0", "")]
    with Store(str(tmp_path_factory.mktemp("any") / "facts.db")) as store:
        for kind, n in actions:
            if kind == "write":
                store.write([delivery(n)])
            else:
                store.record_outcomes(
                    [kept(n, loss) if kind == "fact" else skip(n, "duplicate" if kind == "duplicate" else "no_session")]
                )
        counts = store.counts()
    assert (counts.facts, counts.skipped, counts.degraded) == (3, {"no_session": 3}, {"missing_id": 3})
