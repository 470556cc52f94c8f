# SPDX-License-Identifier: Apache-2.0
"""The settle window, with a clock of the test's own: what is joined across requests, what comes too late, restarts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sidecar_kit import agent, call, details

from sediment_otel.otlp import decode_protobuf, encode_protobuf_logs, encode_protobuf_traces
from sediment_otel.settings import Settings
from sediment_otel.sidecar.entries import look, pack
from sediment_otel.sidecar.journal import WAITING, Journal, NewRequest
from sediment_otel.sidecar.translator import Translator
from sediment_otel.sinks.store import Store
from sediment_otel.telemetry import LogRecord, Span
from sediment_otel.translate.select import LATE_NS

WINDOW = 5.0
SETTINGS = Settings()
SECOND = 1_000_000_000
EPOCH = 1_800_000_000 * SECOND


class Bench:
    """A journal, a store and a translator whose time is `self.now`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 1000.0
        self.wall_offset = 0
        self.journal = Journal(folder / "journal.db", budget=1 << 30, min_free=0, forwarding=False, keep=60)
        self.messages: list[tuple[Any, ...]] = []
        self.store = Store(str(folder / "facts.db"))
        self.runs = 0
        self.translator = self._translator()

    def _translator(self) -> Translator:
        self.runs += 1
        return Translator(
            self.journal.path,
            self.store,
            SETTINGS,
            window=WINDOW,
            keep=60,
            send=self._hear,
            run=f"run{self.runs}",
        )

    def _hear(self, message: tuple[Any, ...]) -> None:
        self.messages.append(message)
        _, group, translated, free, _ = message
        self.journal.finish(group, translated, free)

    @property
    def wall(self) -> int:
        return EPOCH + int(self.now * SECOND) + self.wall_offset

    def arrive(self, *items: Span | LogRecord) -> int:
        """One request, on disk and seen; its id."""
        number = self.submit(*items)
        self.translator.step(self.now, self.wall)
        return number

    def submit(self, *items: Span | LogRecord) -> int:
        """One request, on disk; its id."""
        spans = [i for i in items if isinstance(i, Span)]
        records = [i for i in items if isinstance(i, LogRecord)]
        signal = "traces" if spans else "logs"
        body = encode_protobuf_traces(spans) if spans else encode_protobuf_logs(records)
        batch = decode_protobuf(body, signal=signal, strict=True)  # type: ignore[arg-type]
        entries = pack(look(batch, SETTINGS))
        return self.journal.submit(NewRequest(self.wall, signal, "protobuf", body, entries, WAITING)).result()

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 0.1, end)
            self.translator.step(self.now, self.wall)

    def restart(self) -> None:
        """As after a kill of the translator."""
        self.translator.close()
        self.translator = self._translator()
        self.translator.step(self.now, self.wall)

    def facts(self) -> list[dict[str, Any]]:
        return [json.loads(fact) for fact in self.store.facts()]

    def skips(self) -> dict[str, str]:
        return {key[-1]: reason for key, reason in self.store._query("SELECT capture_key, reason FROM skips")}

    def count(self, name: str, label: str = "") -> int:
        return sum(message[4].get((name, label), 0) for message in self.messages)

    def bodies(self) -> int:
        self.journal.set_cursor("wait", 1)  # behind everything that was submitted before
        with closing(__import__("sqlite3").connect(self.journal.path)) as database:
            return int(database.execute("SELECT count(*) FROM bodies").fetchone()[0])


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.translator.close()
    made.journal.close()
    made.store.close()


def spans_of(facts: Iterable[dict[str, Any]]) -> list[int]:
    return sorted(int(fact["raw"]["span"]["span_id"], 16) for fact in facts)


def test_a_call_leaves_when_its_window_has_passed_and_not_before(bench: Bench) -> None:
    bench.arrive(call())
    bench.run(WINDOW - 0.2)
    assert bench.facts() == []
    bench.run(0.4)
    assert spans_of(bench.facts()) == [1]
    bench.run(WINDOW * 3)
    assert bench.bodies() == 0


def test_a_wrapper_that_arrives_in_another_request_is_skipped(bench: Bench) -> None:
    bench.arrive(call(span=2, parent=1))
    bench.run(3)
    bench.arrive(call(span=1))
    bench.run(WINDOW + 0.2)
    assert spans_of(bench.facts()) == [2]
    assert bench.skips() == {"1": "wrapper"}


def test_a_wrapper_is_known_even_after_its_inner_call_left(bench: Bench) -> None:
    bench.arrive(call(span=2, parent=1))
    bench.run(WINDOW + 1)
    assert spans_of(bench.facts()) == [2]
    bench.arrive(call(span=1))
    bench.run(WINDOW + 1)
    assert spans_of(bench.facts()) == [2]
    assert bench.skips() == {"1": "wrapper"}


def test_an_inner_call_that_comes_after_its_wrapper_left_changes_nothing(bench: Bench) -> None:
    bench.arrive(call(span=1))
    bench.run(WINDOW + 1)
    before = bench.facts()
    bench.arrive(call(span=2, parent=1))
    bench.run(WINDOW + 1)
    assert bench.facts() == before
    assert bench.skips() == {"2": "wrapper"}


def test_an_inner_call_that_alone_has_the_answer_is_kept_although_it_is_late(bench: Bench) -> None:
    bench.arrive(call(span=1, answer=None))
    bench.run(WINDOW + 1)
    bench.arrive(call(span=2, parent=1))
    bench.run(WINDOW + 1)
    assert spans_of(bench.facts()) == [1, 2]


def test_a_session_is_inherited_from_an_ancestor_in_a_later_request(bench: Bench) -> None:
    bench.arrive(call(span=2, parent=1, session=None))
    bench.run(WINDOW - 1)
    bench.arrive(agent(span=1, session="from-above"))
    bench.run(2)
    assert [fact["session_id"] for fact in bench.facts()] == ["from-above"]
    assert bench.count("incomplete_context_total") == 0


def test_what_is_decided_without_its_ancestor_is_marked(bench: Bench) -> None:
    bench.arrive(call(span=2, parent=1, session=None))
    bench.run(WINDOW + 0.5)
    assert bench.skips() == {"2": "no_session"}
    assert bench.count("incomplete_context_total") == 1
    bench.arrive(agent(span=1, session="too-late"))
    bench.run(WINDOW * 3)
    assert bench.facts() == []


def test_a_root_call_is_never_marked(bench: Bench) -> None:
    bench.arrive(call())
    bench.run(WINDOW + 0.5)
    assert bench.count("incomplete_context_total") == 0


@pytest.mark.parametrize("records_first", [True, False])
def test_log_records_are_joined_whichever_comes_first(bench: Bench, records_first: bool) -> None:
    bare = call(given=None, answer=None)
    order: list[Span | LogRecord] = [details(1, 1), bare] if records_first else [bare, details(1, 1)]
    bench.arrive(order[0])
    bench.run(WINDOW - 1)
    bench.arrive(order[1])
    bench.run(WINDOW * 4)
    (fact,) = bench.facts()
    assert fact["input_messages"][0]["parts"][0]["content"] == "question"
    assert bench.skips() == {}
    assert bench.bodies() == 0


def test_log_records_wait_two_windows_for_their_span(bench: Bench) -> None:
    bench.arrive(details(1, 1, **{"session.id": "s-1"}))
    bench.run(WINDOW * 1.6)
    bench.arrive(call(given=None, answer=None))
    bench.run(WINDOW * 4)
    (fact,) = bench.facts()
    assert fact["raw"]["span"]["name"] == "chat m"


def test_log_records_stand_in_time_order_whatever_their_arrival(bench: Bench) -> None:
    bench.arrive(details(1, 1, time_ns=300, mark=3))
    bench.arrive(details(1, 1, time_ns=100, mark=1), details(1, 1, time_ns=200, mark=2))
    bench.arrive(call(given=None, answer=None))
    bench.run(WINDOW + 1)
    (fact,) = bench.facts()
    assert [record["attributes"]["mark"] for record in fact["raw"]["log_records"]] == [1, 2, 3]


def test_a_log_record_that_is_sent_again_counts_once(bench: Bench) -> None:
    bench.arrive(details(1, 1), details(1, 1, mark=2))
    bench.restart()
    bench.arrive(details(1, 1), details(1, 1, mark=2))
    bench.arrive(call(given=None, answer=None))
    bench.run(WINDOW * 4)
    (fact,) = bench.facts()
    assert len(fact["raw"]["log_records"]) == 2
    assert bench.bodies() == 0


@pytest.mark.parametrize("first", [WINDOW, WINDOW * 4])
def test_a_log_record_that_is_sent_again_waits_anew_for_its_span(bench: Bench, first: float) -> None:
    bench.arrive(details(1, 1))
    bench.run(first)
    bench.arrive(details(1, 1))
    bench.run(WINDOW * 1.7)
    bench.arrive(call(given=None, answer=None))
    bench.run(WINDOW * 4)
    (fact,) = bench.facts()
    assert len(fact["raw"]["log_records"]) == 1
    assert bench.skips() == {}
    assert bench.bodies() == 0


def test_a_record_without_a_span_id_finds_its_call_by_the_response_id(bench: Bench) -> None:
    bench.arrive(details(None, None, **{"gen_ai.response.id": "r-1"}))
    bench.arrive(call(given=None, answer=None, **{"gen_ai.response.id": "r-1"}))
    bench.run(WINDOW * 4)
    assert spans_of(bench.facts()) == [1]
    assert bench.bodies() == 0


def test_a_record_without_a_span_id_finds_the_call_of_its_session_that_encloses_it(bench: Bench) -> None:
    bench.arrive(details(None, None, **{"session.id": "s-1"}))
    bench.arrive(call(given=None, answer=None))
    bench.run(WINDOW * 4)
    assert spans_of(bench.facts()) == [1]
    assert len(bench.facts()) == 1


@pytest.mark.parametrize(("late", "facts"), [(LATE_NS, 1), (LATE_NS + 1, 2)])
def test_a_record_without_a_span_id_may_stand_just_behind_its_call(late: int, facts: int, bench: Bench) -> None:
    first = call()
    assert first.end_ns is not None
    bench.arrive(details(None, None, time_ns=first.end_ns + late, **{"session.id": "s-1"}))
    bench.arrive(first)
    bench.run(WINDOW * 4)
    assert len(bench.facts()) == facts


def test_a_record_behind_one_call_and_inside_another_is_the_others(bench: Bench) -> None:
    first = call(given=None, answer=None)
    assert first.end_ns is not None
    second = call(2, 2, given=None, answer=None, start=first.end_ns + 1)
    bench.arrive(details(None, None, time_ns=first.end_ns + 2, **{"session.id": "s-1"}))
    bench.arrive(first, second)
    bench.run(WINDOW * 4)
    assert spans_of(bench.facts()) == [2]


def test_records_whose_span_never_comes_are_a_call_of_their_own(bench: Bench) -> None:
    bench.arrive(details(1, 1, **{"session.id": "s-1"}))
    bench.run(WINDOW * 1.9)
    assert bench.facts() == []
    bench.run(WINDOW)
    (fact,) = bench.facts()
    assert fact["session_id"] == "s-1"
    assert bench.bodies() == 0


def test_a_record_of_a_call_that_left_is_dropped(bench: Bench) -> None:
    bench.arrive(call())
    bench.run(WINDOW + 1)
    before = bench.facts()
    bench.arrive(details(1, 1, **{"session.id": "s-1"}))
    bench.run(WINDOW * 4)
    assert bench.facts() == before
    assert bench.skips() == {}
    assert bench.count("late_log_records_total") == 1
    assert bench.bodies() == 0


def test_a_record_that_comes_after_its_call_was_skipped_for_want_of_content_still_gives_a_fact(bench: Bench) -> None:
    bench.arrive(call(given=None, answer=None))
    bench.run(WINDOW + 1)
    assert bench.skips() == {"1": "no_content"}
    bench.arrive(details(1, 1, **{"session.id": "s-1"}))
    bench.run(WINDOW * 4)
    assert len(bench.facts()) == 1
    assert bench.skips() == {}


@pytest.mark.parametrize("apart", [0.0, WINDOW + 1])
def test_a_span_that_is_sent_again_is_a_duplicate_even_where_records_were_joined(bench: Bench, apart: float) -> None:
    bench.arrive(details(1, 1))
    bench.arrive(call(given=None, answer=None))
    bench.run(apart)
    bench.arrive(call(given=None, answer=None))
    bench.run(WINDOW * 4)
    assert len(bench.facts()) == 1
    assert bench.skips() == {}
    assert bench.count("skipped_total", "duplicate") == 1


def test_the_same_id_with_another_content_is_a_conflict_and_the_first_stays(bench: Bench) -> None:
    bench.arrive(call(answer="first"))
    bench.run(WINDOW + 1)
    bench.arrive(call(answer="second"))
    bench.run(WINDOW + 1)
    (fact,) = bench.facts()
    assert fact["output_messages"][0]["parts"][0]["content"] == "first"
    assert bench.skips() == {"1": "conflict"}


def test_after_a_restart_the_rest_of_the_window_is_waited_for(bench: Bench) -> None:
    bench.arrive(call())
    bench.run(4)
    bench.restart()
    bench.run(0.8)
    assert bench.facts() == []
    bench.run(0.4)
    assert len(bench.facts()) == 1


@pytest.mark.parametrize("records_first", [True, False])
@pytest.mark.parametrize("apart", [300, 700])
def test_a_backlog_is_read_to_its_end_before_a_window_is_over(bench: Bench, apart: int, records_first: bool) -> None:
    """A translator that comes back reads the journal in portions; what arrived in time counts as in time."""
    span, record = call(given=None, answer=None), details(1, 1)
    pair = [record, span] if records_first else [span, record]
    bench.submit(pair[0])
    for number in range(apart):
        bench.submit(call(number + 2, 1))
    bench.submit(pair[1])
    bench.now += WINDOW * 5
    bench.restart()
    bench.run(WINDOW * 3)
    assert bench.skips() == {}
    assert len(bench.facts()) == apart + 1
    assert bench.count("late_log_records_total") == 0
    assert bench.translator.idle


def test_a_clock_that_was_set_back_makes_it_wait_a_window_at_most(bench: Bench) -> None:
    bench.arrive(call())
    bench.wall_offset = -3600 * SECOND
    bench.restart()
    bench.run(WINDOW + 0.2)
    assert len(bench.facts()) == 1


def test_a_clock_that_jumped_ahead_only_shortens_the_window(bench: Bench) -> None:
    bench.wall_offset = 3600 * SECOND
    bench.arrive(call())
    bench.wall_offset = 0
    bench.restart()
    bench.run(WINDOW + 0.2)
    assert len(bench.facts()) == 1


def test_after_a_restart_a_late_inner_call_still_finds_the_wrapper_that_left(bench: Bench) -> None:
    bench.arrive(call(span=1))
    bench.run(WINDOW + 1)
    bench.bodies()
    bench.restart()
    bench.arrive(call(span=2, parent=1))
    bench.run(WINDOW + 1)
    assert spans_of(bench.facts()) == [1]
    assert bench.skips() == {"2": "wrapper"}


def test_outcomes_that_the_journal_never_heard_of_are_not_decided_again(bench: Bench) -> None:
    bench.arrive(call(given=None, answer=None))
    bench.arrive(details(1, 1))
    heard = bench._hear
    bench.translator._send = lambda message: None  # the process is killed between the store's commit and its word
    bench.run(WINDOW + 1)
    before = bench.facts()
    assert len(before) == 1
    bench.restart()
    bench.translator._send = heard
    # What arrives now must not find its way into a second decision.
    bench.arrive(details(1, 1, time_ns=1, more="x"))
    bench.run(WINDOW * 4)
    assert bench.facts() == before
    assert bench.skips() == {}
    assert bench.count("skipped_total", "duplicate") == 0
    assert bench.bodies() == 0


def test_a_lending_span_is_held_until_its_parent_came(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    lent: list[int] = []
    from sediment_otel.sidecar import translator as module

    original = module.translate_subject

    def spy(subject: Any, *rest: Any) -> Any:
        lent.append(len(subject.siblings))
        return original(subject, *rest)

    monkeypatch.setattr("sediment_otel.sidecar.entries.lends_ids", lambda span: span.name == "agent")
    monkeypatch.setattr(module, "translate_subject", spy)
    bench.arrive(agent(span=2, parent=1))
    bench.run(WINDOW * 1.5)
    bench.arrive(call(span=1))
    bench.run(WINDOW * 4)
    assert 1 in lent
    assert bench.bodies() == 0


def test_a_span_that_the_translation_fails_on_costs_only_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from sediment_otel.sidecar import translator as module

    original = module.translate_subject

    def fails(subject: Any, *rest: Any) -> Any:
        if subject.span.span_id.endswith("2"):
            raise ZeroDivisionError("the-content")
        return original(subject, *rest)

    monkeypatch.setattr(module, "translate_subject", fails)
    bench.arrive(call(span=1), call(span=2), call(span=3))
    bench.run(WINDOW + 1)
    assert spans_of(bench.facts()) == [1, 3]
    assert bench.skips() == {"2": "malformed"}


def test_entries_are_forgotten_in_the_end(bench: Bench) -> None:
    bench.arrive(details(1, 1), details(None, None))
    bench.arrive(call(span=1), call(span=2, parent=1), agent(span=3, parent=2))
    bench.run(200)
    traces = bench.translator._traces
    assert (traces.spans, traces.pending) == (0, 0)
    for table in (
        "_requests",
        "_traces",
        "_first",
        "_calls_by_session",
        "_calls_by_response",
        "_by_span",
        "_digests",
        "_by_session",
    ):
        assert getattr(traces, table) == {}, table
    assert bench.translator._arrived == {}
