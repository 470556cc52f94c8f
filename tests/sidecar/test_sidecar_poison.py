# SPDX-License-Identifier: Apache-2.0
"""A request that ends the translator's process: it is tried three times, then its spans are malformed, and all
others have their facts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from sidecar_kit import call, details, wait_for

from sediment_otel.genai import Subject
from sediment_otel.otlp import decode_protobuf, encode_protobuf_logs, encode_protobuf_traces
from sediment_otel.settings import Settings
from sediment_otel.sidecar import translator as module
from sediment_otel.sidecar.attempts import MOST_DEATHS, Attempts
from sediment_otel.sidecar.entries import look, pack
from sediment_otel.sidecar.journal import WAITING, Journal, NewRequest
from sediment_otel.sidecar.metrics import Metrics
from sediment_otel.sidecar.service import _Translator
from sediment_otel.sidecar.translator import Translator
from sediment_otel.sidecar.worker import Job, run
from sediment_otel.sinks.base import SinkError
from sediment_otel.sinks.store import Store
from sediment_otel.telemetry import LogRecord, Span
from sediment_otel.translate.call import Context, Translation, translate_subject

POISON = f"{666:016x}"


class Death(BaseException):
    """Stands for the end of the process: nothing of the translator may run after it."""


def deadly(end: Callable[[], Any]) -> Callable[[Subject, Settings, Context], Translation]:
    def translate(subject: Subject, settings: Settings, context: Context) -> Translation:
        if subject.span.span_id == POISON:
            end()
        return translate_subject(subject, settings, context)

    return translate


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def deadly_run(job: Job, parent: Connection) -> None:
    """The translator's process with a translation that kills it."""
    run(job, parent, deadly(_kill))


def _die() -> None:
    raise Death


def submit(journal: Journal, *items: Span | LogRecord) -> int:
    spans = [item for item in items if isinstance(item, Span)]
    body = encode_protobuf_traces(spans) if spans else encode_protobuf_logs(items)  # type: ignore[arg-type]
    signal_ = "traces" if spans else "logs"
    batch = decode_protobuf(body, signal=signal_, strict=True)  # type: ignore[arg-type]
    return journal.submit(NewRequest(1, signal_, "protobuf", body, pack(look(batch, Settings())), WAITING)).result()


def opened(folder: Path) -> Journal:
    return Journal(folder / "journal.db", budget=1 << 30, min_free=0, forwarding=False, keep=60)


def test_a_request_that_kills_the_process_is_given_up_after_three_deaths(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as journal, ExitStack() as stack:
        Store(str(tmp_path / "facts.db")).close()
        numbers = [submit(journal, call(n + 1, 1)) for n in range(5)]
        poison = submit(journal, call(90, 666), call(90, 667))
        numbers += [submit(journal, call(n + 1, 1)) for n in range(5, 10)]
        metrics = Metrics()
        job = Job(tmp_path / "journal.db", tmp_path / "facts.db", Settings(), 0.0, 60.0)
        translator = _Translator(job, journal, metrics, run=deadly_run)
        translator.start()
        stack.callback(translator.stop, 10.0)
        wait_for(lambda: journal.pending_requests == 0)
        assert metrics.value("translator_restarts_total") == MOST_DEATHS
        with closing(Store(str(tmp_path / "facts.db"))) as store:
            assert len(list(store.facts())) == len(numbers) == 10
            skips = dict(store._query("SELECT capture_key, reason FROM skips"))
        assert set(skips.values()) == {"malformed"}
        assert sorted(key[-3:] for key in skips) == ["29a", "29b"]
        assert metrics.value("skipped_total") == 2
        assert poison not in numbers
        submit(journal, call(50, 1))
        wait_for(lambda: journal.pending_requests == 0)
        assert metrics.value("translator_restarts_total") == MOST_DEATHS


class Run:
    """Translators in process, one after another."""

    def __init__(self, folder: Path, end: Callable[[], Any] = _die) -> None:
        self.folder, self.end = folder, end
        self.journal = opened(folder)
        self.store = Store(str(folder / "facts.db"))
        self.said: list[tuple[Any, ...]] = []

    def hear(self, message: tuple[Any, ...]) -> None:
        self.said.append(message)
        if message[0] == "done":
            self.journal.finish(*message[1:4])

    def live(self) -> bool:
        """One life of the translator; whether it died."""
        translator = Translator(
            self.journal.path,
            self.store,
            Settings(),
            window=1.0,
            keep=60,
            send=self.hear,
            run=f"run{len(self.said)}",
            translate=deadly(self.end),
        )
        with closing(translator):
            try:
                for tick in range(100):
                    translator.step(tick / 5, tick * 200_000_000 + 1)
            except Death:
                return True
        return False

    def close(self) -> None:
        self.journal.close()
        self.store.close()


def test_deaths_are_counted_across_restarts_and_no_other_request_is_blamed(tmp_path: Path) -> None:
    with closing(Run(tmp_path)) as bench:
        poison = submit(bench.journal, call(90, 666))
        for number in range(3):
            submit(bench.journal, call(number + 1, 1))
        assert [bench.live() for _ in range(MOST_DEATHS + 2)] == [True] * MOST_DEATHS + [False, False]
        assert len(list(bench.store.facts())) == 3
        assert [message for message in bench.said if message[0] == "given up"] == [("given up", poison)]
        text = (tmp_path / "translator.at").read_text()
        assert '"at": []' in text
        assert (tmp_path / "translator.at").stat().st_mode & 0o777 == 0o600


def test_log_records_that_kill_the_process_are_given_up_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = module.translate_log_call

    def fails(dialect: str, found: Any, *rest: Any) -> Translation:
        if any(record.span_id == POISON for record in found.records):
            raise Death
        return original(dialect, found, *rest)

    monkeypatch.setattr(module, "translate_log_call", fails)
    with closing(Run(tmp_path)) as bench:
        poison = submit(bench.journal, details(90, 666, **{"session.id": "a"}))
        submit(bench.journal, details(91, 1, **{"session.id": "b"}))
        assert [bench.live() for _ in range(MOST_DEATHS + 1)] == [True] * MOST_DEATHS + [False]
        assert len(list(bench.store.facts())) == 1
        assert ("given up", poison) in bench.said


def test_a_store_that_fails_is_no_fault_of_the_requests(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path / "at", "j")
    with pytest.raises(SinkError), attempts.at([1, 2]):
        raise SinkError("is full", "here", "make room")
    attempts.close()
    assert Attempts(tmp_path / "at", "j").deaths == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"journal": "j", "deaths": {"x": 1}, "at": []}'])
def test_a_file_that_says_nothing_blames_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "at").write_text(text)
    assert Attempts(tmp_path / "at", "j").deaths == {}


def test_the_ids_of_another_journal_blame_nobody(tmp_path: Path) -> None:
    with pytest.raises(Death), Attempts(tmp_path / "at", "j").at([1]):
        raise Death
    assert Attempts(tmp_path / "at", "j").deaths == {1: 1}
    with pytest.raises(Death), Attempts(tmp_path / "at", "j").at([1]):
        raise Death
    assert Attempts(tmp_path / "at", "other").deaths == {}
