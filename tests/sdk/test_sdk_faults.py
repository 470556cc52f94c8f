# SPDX-License-Identifier: Apache-2.0
"""Faults: nothing reaches the application, the account adds up, memory stays bounded."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from sdk_kit import MemorySink, broken, call_attributes, facts_of, provider_with

from sediment_otel.sdk import ProcessSettings, SedimentSpanExporter, SedimentSpanProcessor, Snapshot
from sediment_otel.sinks import SinkError
from sediment_otel.sinks.store import Store, read_facts

APPS = Path(__file__).parent / "apps"
ROOT = Path(__file__).resolve().parents[2]
PATIENT = ProcessSettings(schedule_delay=0.02, retry=30.0, settle=60.0)
HASTY = ProcessSettings(schedule_delay=0.02, retry=0.0, settle=60.0)


def call(tracer: Any, answer: str = "hello", session: str | None = "s") -> None:
    more = {"session.id": session} if session is not None else {}
    tracer.start_span("chat", attributes=call_attributes(answer=answer, **more)).end()


def assert_adds_up(found: Snapshot, ended: int) -> None:
    assert found.ended == ended
    assert found.waiting == 0
    assert ended == found.facts + sum(found.skipped.values()) + sum(found.dropped.values())


# -- the sink ------------------------------------------------------------------------------------------------------


def other(error: Exception) -> Callable[[int], None]:
    def before(write: int) -> None:
        if write == 1:
            raise error

    return before


@pytest.mark.parametrize("before", [broken(1), broken(3), other(RuntimeError("no SinkError")), other(MemoryError())])
def test_a_sink_that_fails_for_a_moment_loses_nothing(before: Callable[[int], None]) -> None:
    sink = MemorySink(before)
    processor = SedimentSpanProcessor(sink, process=PATIENT)
    tracer = provider_with(processor).get_tracer("t")
    for n in range(5):
        call(tracer, str(n))
    processor.shutdown(30_000)
    assert sink.texts() == list("01234")
    assert_adds_up(processor.snapshot(), 5)


@pytest.mark.parametrize("process", [HASTY, ProcessSettings(schedule_delay=0.02, retry=0.3)], ids=["at once", "later"])
def test_a_sink_that_fails_for_ever_costs_its_facts_and_they_are_counted(
    process: ProcessSettings, caplog: pytest.LogCaptureFixture
) -> None:
    from sediment_otel.sdk import quiet

    quiet._LAST.clear()
    processor = SedimentSpanProcessor(MemorySink(broken()), process=process)
    tracer = provider_with(processor).get_tracer("t")
    with caplog.at_level(logging.WARNING, "sediment_otel"):
        for n in range(50):
            call(tracer, str(n))
            tracer.start_span("GET").end()
        processor.shutdown()
    assert processor.snapshot().dropped == {"sink_failed": 50}
    assert_adds_up(processor.snapshot(), 100)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "facts could not be written: there: is broken; mend it",
        "sediment-otel: 100 spans ended: 0 facts, 50 skipped (not_a_model_call 50), 50 dropped (sink_failed 50)",
    ]


def test_a_sink_that_mends_gets_what_comes_afterwards() -> None:
    state = {"broken": True}

    def before(write: int) -> None:
        if state["broken"]:
            raise SinkError("is broken", "there", "mend it")

    sink = MemorySink(before)
    processor = SedimentSpanProcessor(sink, process=HASTY)
    tracer = provider_with(processor).get_tracer("t")
    call(tracer, "lost")
    processor.force_flush()
    state["broken"] = False
    call(tracer, "kept")
    processor.shutdown()
    assert sink.texts() == ["kept"]
    assert_adds_up(processor.snapshot(), 2)


@pytest.mark.parametrize("name", ["facts.jsonl", "facts.db"])
def test_a_full_disk_costs_facts_that_are_counted_and_leaves_whole_ones(name: str, tmp_path: Path) -> None:
    """A limit on the size of files stands in for the full disk; in a process of its own, which it would harm."""
    script = f"""
import json, resource, signal, sys
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(ROOT / "src")!r}]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
from sdk_kit import call_attributes, provider_with
from sediment_otel.sdk import SedimentSpanProcessor
processor = SedimentSpanProcessor({name!r}, retry=0.0, schedule_delay=0.01, batch_size=4)
tracer = provider_with(processor).get_tracer("t")
for n in range(200):
    tracer.start_span("chat", attributes=call_attributes(answer="x" * 1000, **{{"session.id": "s"}})).end()
    processor.force_flush()
processor.shutdown()
found = processor.snapshot()
print(json.dumps([found.ended, found.facts, found.waiting, found.skipped, found.dropped]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    ended, facts, waiting, skipped, dropped = json.loads(done.stdout)
    assert (ended, waiting, skipped) == (200, 0, {})
    assert facts + dropped["sink_failed"] == 200
    assert 0 < facts < 200
    stored = facts_of(tmp_path / name) if name.endswith("jsonl") else list(read_facts(str(tmp_path / name)))
    assert len(stored) == facts


def test_a_sink_that_hangs_does_not_hold_the_application_nor_its_end() -> None:
    release = threading.Event()
    sink = MemorySink(lambda write: release.wait(60) and None)
    processor = SedimentSpanProcessor(sink, process=ProcessSettings(schedule_delay=0.01, queue_size=10))
    tracer = provider_with(processor).get_tracer("t")
    began = time.monotonic()
    for _ in range(100):
        call(tracer)
    assert time.monotonic() - began < 5
    assert processor.force_flush(50) is False
    processor.shutdown(100)
    assert time.monotonic() - began < 10
    found = processor.snapshot()
    assert set(found.dropped) <= {"queue_full", "shutdown_timeout"}
    assert found.dropped["shutdown_timeout"] > 0
    assert_adds_up(found, 100)
    release.set()
    wait_for_thread_end("sediment-otel")
    assert_adds_up(processor.snapshot(), 100)


def wait_for_thread_end(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(20)


# -- overload ------------------------------------------------------------------------------------------------------


def held_back(process: ProcessSettings) -> tuple[MemorySink, SedimentSpanProcessor, Any, threading.Event]:
    """A processor whose worker is held in its first write."""
    release, entered = threading.Event(), threading.Event()

    def before(write: int) -> None:
        if write == 1:
            entered.set()
            release.wait(60)

    sink = MemorySink(before)
    processor = SedimentSpanProcessor(sink, process=process)
    tracer = provider_with(processor).get_tracer("t")
    call(tracer, "first")
    assert entered.wait(20)
    return sink, processor, tracer, release


def test_a_full_queue_drops_and_counts() -> None:
    sink, processor, tracer, release = held_back(ProcessSettings(schedule_delay=0.01, queue_size=5))
    for n in range(20):
        call(tracer, str(n))
    release.set()
    processor.shutdown()
    assert processor.snapshot().dropped == {"queue_full": 15}
    assert sink.texts() == sorted(["first", *"01234"])
    assert_adds_up(processor.snapshot(), 21)


def test_a_flood_of_other_spans_does_not_push_a_call_out() -> None:
    sink, processor, tracer, release = held_back(ProcessSettings(schedule_delay=0.01, queue_size=5))
    for _ in range(500):
        tracer.start_span("GET").end()
    call(tracer, "last")
    release.set()
    processor.shutdown()
    assert sink.texts() == ["first", "last"]
    assert processor.snapshot() == Snapshot(ended=502, facts=2, waiting=0, skipped={"not_a_model_call": 500})


def test_with_the_spool_nothing_is_dropped_and_the_order_is_kept(tmp_path: Path) -> None:
    process = ProcessSettings(
        schedule_delay=0.01, queue_size=5, batch_size=3, overflow="spool", spool_directory=str(tmp_path)
    )
    sink, processor, tracer, release = held_back(process)
    with tracer.start_as_current_span("root", attributes={"session.id": "from the root"}):
        for n in range(50):
            call(tracer, f"{n:02}", session=None)
    assert list(tmp_path.iterdir()) == [], "the spool file has no name"
    release.set()
    processor.shutdown()
    assert sink.texts() == sorted(["first", *(f"{n:02}" for n in range(50))])
    assert {fact["session_id"] for fact in sink.facts} == {"s", "from the root"}
    assert_adds_up(processor.snapshot(), 52)
    assert processor.snapshot().dropped == {}


def test_a_full_spool_drops_and_counts(tmp_path: Path) -> None:
    process = ProcessSettings(
        schedule_delay=0.01, queue_size=5, overflow="spool", spool_directory=str(tmp_path), spool_bytes=3000
    )
    _, processor, tracer, release = held_back(process)
    for n in range(50):
        call(tracer, str(n))
    release.set()
    processor.shutdown()
    assert 30 < processor.snapshot().dropped["queue_full"] < 45
    assert_adds_up(processor.snapshot(), 51)


def test_a_spool_that_cannot_be_written_drops_and_counts(tmp_path: Path) -> None:
    process = ProcessSettings(
        schedule_delay=0.01, queue_size=5, overflow="spool", spool_directory=str(tmp_path / "missing")
    )
    _, processor, tracer, release = held_back(process)
    for n in range(20):
        call(tracer, str(n))
    release.set()
    processor.shutdown()
    assert processor.snapshot().dropped == {"queue_full": 15}
    assert_adds_up(processor.snapshot(), 21)


def test_the_exporter_waits_for_room_and_loses_nothing() -> None:
    sink = MemorySink(lambda write: time.sleep(0.002))
    exporter = SedimentSpanExporter(sink, process=ProcessSettings(schedule_delay=0.01, queue_size=8, batch_size=4))
    provider = provider_with(BatchSpanProcessor(exporter, max_queue_size=4096))
    tracer = provider.get_tracer("t")
    for n in range(500):
        call(tracer, str(n))
    provider.shutdown()
    assert len(sink.facts) == 500
    assert_adds_up(exporter.snapshot(), 500)


# -- many at once --------------------------------------------------------------------------------------------------


def test_two_hundred_threads() -> None:
    sink = MemorySink()
    processor = SedimentSpanProcessor(sink, process=ProcessSettings(schedule_delay=0.01, queue_size=100_000))
    tracer = provider_with(processor).get_tracer("t")
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for n in range(10):
                with tracer.start_as_current_span("root", attributes={"session.id": str(number)}):
                    call(tracer, f"{number}-{n}", session=None)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    processor.shutdown(60_000)
    assert errors == []
    assert len(sink.facts) == 2000
    assert all(
        fact["session_id"] == fact["output_messages"][0]["parts"][0]["content"].split("-")[0] for fact in sink.facts
    )
    assert_adds_up(processor.snapshot(), 4000)


def test_asyncio_tasks_keep_their_sessions_apart() -> None:
    sink = MemorySink()
    processor = SedimentSpanProcessor(sink, process=PATIENT)
    tracer = provider_with(processor).get_tracer("t")

    async def conversation(number: int) -> None:
        with tracer.start_as_current_span("root", attributes={"session.id": str(number)}):
            for _ in range(3):
                with tracer.start_as_current_span("chat", attributes=call_attributes(answer=str(number))):
                    await asyncio.sleep(0)
            await asyncio.gather(*(asyncio.to_thread(call, tracer, str(number), None) for _ in range(2)))

    async def everything() -> None:
        await asyncio.gather(*(conversation(n) for n in range(50)))

    asyncio.run(everything())
    processor.shutdown(60_000)
    assert len(sink.facts) == 250
    assert all(fact["session_id"] == fact["output_messages"][0]["parts"][0]["content"] for fact in sink.facts)
    assert_adds_up(processor.snapshot(), 300)


def test_a_hundred_thousand_spans_that_never_end_cost_bounded_memory() -> None:
    processor = SedimentSpanProcessor(MemorySink(), process=ProcessSettings(open_spans=1000, schedule_delay=0.01))
    tracer = provider_with(processor).get_tracer("t")
    tracer.start_span("warm up")
    tracemalloc.start()
    kept = [tracer.start_span("never ends", attributes=call_attributes()) for _ in range(2000)]
    before, _ = tracemalloc.get_traced_memory()
    kept.clear()
    for _ in range(98_000):
        tracer.start_span("never ends")
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after < before + 2_000_000
    assert len(processor._pipeline.open.spans) <= 1000
    call(tracer)
    processor.shutdown()
    assert_adds_up(processor.snapshot(), 1)


def test_calls_under_roots_that_never_end_cost_bounded_memory_and_all_are_decided() -> None:
    process = ProcessSettings(settle=3600, waiting_size=200, tree_size=500, schedule_delay=0.01)
    sink = MemorySink()
    processor = SedimentSpanProcessor(sink, process=process)
    tracer = provider_with(processor).get_tracer("t")
    roots = []
    for n in range(2000):
        root = tracer.start_span("root", attributes={"session.id": "s"})
        roots.append(root)
        tracer.start_span(
            "chat", context=trace.set_span_in_context(root), attributes=call_attributes(answer=str(n))
        ).end()
        if n % 100 == 0:
            processor.force_flush()
    assert processor._pipeline._settling.trees.remembered <= 500
    processor.shutdown(60_000)
    assert len(sink.facts) == 2000
    assert_adds_up(processor.snapshot(), 2000)


# -- the end of the process ----------------------------------------------------------------------------------------


def start(way: str, sink: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(APPS / "lifecycle.py"), way, sink],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


ENDS: dict[str, tuple[int, int]] = {
    "exit": (0, 3),
    "nobody shuts down": (0, 3),
    "exit with open spans": (0, 1),
    "exception": (1, 3),
}


@pytest.mark.parametrize("sink", ["facts.jsonl", "facts.db"])
@pytest.mark.parametrize("way", ENDS)
def test_what_ended_is_written_when_the_interpreter_exits(way: str, sink: str, tmp_path: Path) -> None:
    code, facts = ENDS[way]
    process = start(way, sink, tmp_path)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    assert "Traceback" not in said
    assert f"{facts} spans ended: {facts} facts, 0 skipped, 0 dropped" in said
    assert ("decided before their trace was complete" in said) == (way == "exit with open spans")
    stored = facts_of(tmp_path / sink) if sink.endswith("jsonl") else Store(str(tmp_path / sink)).facts()
    assert len(list(stored)) == facts


def test_a_handled_sigterm_writes_what_ended(tmp_path: Path) -> None:
    process = start("sigterm handled", "facts.jsonl", tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert len(facts_of(tmp_path / "facts.jsonl")) == 3
    assert "3 spans ended: 3 facts" in said


@pytest.mark.parametrize("sink", ["facts.jsonl", "facts.db"])
def test_an_unhandled_sigterm_leaves_whole_facts(sink: str, tmp_path: Path) -> None:
    process = start("sigterm", sink, tmp_path)
    assert process.stdout is not None
    for _ in range(3):
        assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    stored = facts_of(tmp_path / sink) if sink.endswith("jsonl") else list(Store(str(tmp_path / sink)).facts())
    assert len(stored) >= 15


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("sink", ["facts.jsonl", "facts.db"])
def test_forks_under_load_keep_the_accounts_of_parent_and_children_apart(sink: str, tmp_path: Path) -> None:
    process = start("fork under load", sink, tmp_path)
    out, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    found = json.loads(out)
    assert found["children"] == [0, 0, 0, 0], said
    assert found["facts"] <= found["ended"]
    if sink.endswith("jsonl"):
        stored = facts_of(tmp_path / sink)
    else:
        stored = [json.loads(fact) for fact in Store(str(tmp_path / sink)).facts()]
    assert len(stored) == found["facts"] + 80
    by_session = [fact["session_id"] for fact in stored]
    assert [by_session.count(f"child-{n}") for n in range(4)] == [20] * 4
