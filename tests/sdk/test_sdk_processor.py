# SPDX-License-Identifier: Apache-2.0
"""The processor, the exporter and the log parts: what becomes of spans, and that the account adds up."""

from __future__ import annotations

import gc
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags
from sdk_kit import MemorySink, call_attributes, facts_of, provider_with, text_message

from sediment_otel.sdk import (
    ProcessSettings,
    SecondSpanPath,
    SedimentCompletionHook,
    SedimentLogExporter,
    SedimentLogRecordProcessor,
    SedimentSpanExporter,
    SedimentSpanProcessor,
    Settings,
    SettingsError,
    Snapshot,
)
from sediment_otel.sdk.account import METRICS, TRANSLATE_DURATION
from sediment_otel.sinks.base import UnknownSink

DETAILS = "gen_ai.client.inference.operation.details"
SUPPRESSING = (context._SUPPRESS_INSTRUMENTATION_KEY, context._SUPPRESS_HTTP_INSTRUMENTATION_KEY)
QUICK = ProcessSettings(settle=0.2, schedule_delay=0.02, log_wait=0.3)
SLOW = ProcessSettings(settle=60, schedule_delay=0.02, log_wait=60)


def adds_up(found: Snapshot) -> bool:
    return found.ended == found.facts + sum(found.skipped.values()) + sum(found.dropped.values()) + found.waiting


def traced(sink: Any, **options: Any) -> tuple[trace.Tracer, SedimentSpanProcessor, Any]:
    processor = SedimentSpanProcessor(sink, process=options.pop("process", SLOW), **options)
    provider = provider_with(processor)
    return provider.get_tracer("scope"), processor, provider


def test_a_call_becomes_a_fact_as_soon_as_it_ends_though_its_parent_is_open() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    with tracer.start_as_current_span("agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
        tracer.start_span("chat", attributes=call_attributes(**{"session.id": "s"})).end()
        assert processor.force_flush()
        assert [fact["session_id"] for fact in sink.facts] == ["s"]
        assert processor.snapshot().facts == 1


def test_a_span_that_is_no_model_call_is_counted_and_nothing_else() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    for name in ("GET /", "invoke_agent", "execute_tool"):
        tracer.start_span(name, attributes={"gen_ai.operation.name": name, "gen_ai.request.model": "m"}).end()
    tracer.start_span("SELECT", attributes={"db.system": "sqlite"}).end()
    processor.shutdown()
    assert processor.snapshot() == Snapshot(ended=4, facts=0, waiting=0, skipped={"not_a_model_call": 4})
    assert sink.outcomes == []


def test_a_session_is_taken_from_the_ancestor_that_ends_later() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    with tracer.start_as_current_span("root") as root:
        with tracer.start_as_current_span("agent"):
            tracer.start_span("chat", attributes=call_attributes()).end()
        processor.force_flush()
        assert sink.facts == []
        assert processor.snapshot().waiting == 1
        root.set_attribute("session.id", "late")
    processor.force_flush()
    assert [fact["session_id"] for fact in sink.facts] == ["late"]
    assert processor.snapshot().incomplete == 0


def test_a_call_under_a_long_lived_root_takes_its_session_when_the_settle_time_is_over() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink, process=QUICK)
    with tracer.start_as_current_span("root", attributes={"session.id": "s"}):
        tracer.start_span("chat", attributes=call_attributes()).end()
        wait_until(lambda: bool(sink.facts))
        assert processor.snapshot().incomplete == 1
    assert sink.facts[0]["session_id"] == "s"


def test_a_flush_takes_the_session_of_an_open_root() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    with tracer.start_as_current_span("root", attributes={"session.id": "s"}):
        tracer.start_span("chat", attributes=call_attributes()).end()
        processor.force_flush()
        assert [fact["session_id"] for fact in sink.facts] == ["s"]


def test_a_call_whose_root_ended_without_a_session_is_skipped_without_waiting() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    with tracer.start_as_current_span("root"):
        tracer.start_span("chat", attributes=call_attributes()).end()
    processor.force_flush()
    assert processor.snapshot().skipped == {"no_session": 1, "not_a_model_call": 1}


def test_a_remote_parent_is_not_waited_for() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    remote = trace.set_span_in_context(NonRecordingSpan(SpanContext(1, 2, True, TraceFlags(1))))
    tracer.start_span("chat", context=remote, attributes=call_attributes()).end()
    processor.force_flush()
    assert processor.snapshot().skipped == {"no_session": 1}


def test_a_parent_that_this_process_never_saw_is_not_waited_for_long() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    stranger = trace.set_span_in_context(NonRecordingSpan(SpanContext(1, 2, False, TraceFlags(1))))
    tracer.start_span("chat", context=stranger, attributes=call_attributes()).end()
    wait_until(lambda: processor.snapshot().skipped == {"no_session": 1})


@pytest.mark.parametrize("value", ["b", " padded ", 7])
def test_the_session_of_the_baggage_comes_before_that_of_an_ancestor(value: Any) -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    token = context.attach(baggage.set_baggage("session.id", value))
    try:
        with tracer.start_as_current_span("root", attributes={"session.id": "ancestor"}):
            tracer.start_span("chat", attributes=call_attributes()).end()
            tracer.start_span("chat", attributes=call_attributes(**{"session.id": "own"})).end()
    finally:
        context.detach(token)
    processor.force_flush()
    assert sorted(fact["session_id"] for fact in sink.facts) == sorted([str(value).strip(), "own"])


def test_the_inner_of_two_nested_calls_is_the_fact_and_the_outer_a_wrapper() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    with tracer.start_as_current_span("outer", attributes=call_attributes(answer="out", **{"session.id": "s"})):
        tracer.start_span("inner", attributes=call_attributes(answer="in", **{"session.id": "s"})).end()
    processor.force_flush()
    assert sink.texts() == ["in"]
    assert processor.snapshot().skipped == {"wrapper": 1}


def test_an_inner_span_without_output_waits_and_is_the_wrapper_of_the_outer_one() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    with tracer.start_as_current_span("outer", attributes=call_attributes(answer="out", **{"session.id": "s"})):
        tracer.start_span("inner", attributes=call_attributes(None, None, **{"session.id": "s"})).end()
        processor.force_flush()
        assert processor.snapshot().waiting == 1
    processor.force_flush()
    assert sink.texts() == ["out"]
    assert processor.snapshot().skipped == {"wrapper": 1}


def test_a_wrapper_is_known_though_two_calls_around_it_are_still_open() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    named = {"session.id": "s"}
    with (
        tracer.start_as_current_span("a", attributes=call_attributes(answer=None, **named)),
        tracer.start_as_current_span("b", attributes=call_attributes(answer=None, **named)),
    ):
        with tracer.start_as_current_span("c", attributes=call_attributes(answer="out", **named)):
            tracer.start_span("d", attributes=call_attributes(answer="in", **named)).end()
            processor.force_flush()
        processor.force_flush()
        assert sink.texts() == ["in"]
    processor.force_flush()
    assert processor.snapshot().skipped == {"wrapper": 3}


def test_a_failed_attempt_is_no_wrapper_and_does_not_wait() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    with tracer.start_as_current_span("root"):
        span = tracer.start_span("chat", attributes=call_attributes(answer=None))
        span.set_status(Status(StatusCode.ERROR))
        span.end()
        processor.force_flush()
        assert processor.snapshot().skipped == {"failed_call": 1}


class RecordOnly(Sampler):
    """Records without sampling."""

    def should_sample(self, *args: Any, **kwargs: Any) -> SamplingResult:
        return SamplingResult(Decision.RECORD_ONLY)

    def get_description(self) -> str:
        return "RecordOnly"


@pytest.mark.parametrize("sampler", [ALWAYS_OFF, RecordOnly()], ids=["off", "record only"])
def test_unsampled_spans_are_left_alone(sampler: Sampler) -> None:
    sink = MemorySink()
    processor = SedimentSpanProcessor(sink, process=QUICK)
    provider = provider_with(processor, sampler=sampler)
    provider.get_tracer("t").start_span("chat", attributes=call_attributes(**{"session.id": "s"})).end()
    processor.shutdown()
    assert processor.snapshot() == Snapshot(ended=0, facts=0, waiting=0)


@pytest.mark.parametrize("wrap", [SimpleSpanProcessor, BatchSpanProcessor])
def test_the_exporter_gives_the_same_facts_as_the_processor(tmp_path: Path, wrap: Any) -> None:
    exporter = SedimentSpanExporter(str(tmp_path / "exported.jsonl"), process=SLOW)
    provider = provider_with(SedimentSpanProcessor(str(tmp_path / "processed.jsonl"), process=SLOW), wrap(exporter))
    tracer = provider.get_tracer("t")
    with tracer.start_as_current_span("root", attributes={"session.id": "s"}):
        with tracer.start_as_current_span("outer", attributes=call_attributes(answer="out")):
            tracer.start_span("inner", attributes=call_attributes(answer="in")).end()
        tracer.start_span("other", attributes=call_attributes("x", "y", **{"session.id": "t"})).end()
    provider.shutdown()
    found = facts_of(tmp_path / "exported.jsonl")
    assert [fact["session_id"] for fact in found] == ["s", "t"]
    assert found == facts_of(tmp_path / "processed.jsonl")
    assert adds_up(exporter.snapshot())
    assert exporter.snapshot().ended == 4


def test_a_second_span_path_into_one_pipeline_is_refused_by_name(tmp_path: Path) -> None:
    where = str(tmp_path / "facts.jsonl")
    first = SedimentSpanProcessor(where)
    with pytest.raises(
        SecondSpanPath, match=r"SedimentSpanExporter: a SedimentSpanProcessor .*facts.jsonl.*remove one"
    ):
        SedimentSpanExporter(where)
    SedimentSpanExporter(str(tmp_path / "other.jsonl")).shutdown()
    first.shutdown()
    SedimentSpanExporter(where).shutdown()


def test_entry_points_with_equal_settings_share_a_pipeline_and_others_share_nothing(tmp_path: Path) -> None:
    where = str(tmp_path / "facts.jsonl")
    processor = SedimentSpanProcessor(where, org="acme")
    log, hook = SedimentLogRecordProcessor(where, org="acme"), SedimentCompletionHook(where, org="acme")
    other = SedimentSpanProcessor(where, org="other")
    pipelines = {part._attached.pipeline for part in (processor, log, hook)}
    assert len(pipelines) == 1
    assert other._attached.pipeline not in pipelines


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no sink": ({}, SettingsError, "SEDIMENT_OTEL_SINK"),
    "unknown sink": ({"sink": "facts.xyz"}, UnknownSink, "accepted are"),
    "unknown option": ({"sink": "f.jsonl", "orgg": "a"}, SettingsError, "unknown option orgg: accepted are"),
    "wrong value": ({"sink": "f.jsonl", "overflow": "wait"}, SettingsError, "drop, spool"),
    "wrong number": ({"sink": "f.jsonl", "queue_size": 0}, SettingsError, "positive whole number"),
    "wrong seconds": ({"sink": "f.jsonl", "settle": -1}, SettingsError, "number of seconds"),
}


@pytest.mark.parametrize("part", [SedimentSpanProcessor, SedimentSpanExporter, SedimentLogExporter])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage_is_said_when_the_part_is_made(name: str, part: Any, tmp_path: Path) -> None:
    options, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        part(**options)


def test_a_sink_that_cannot_be_opened_yet_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    tracer, processor, _ = traced(str(folder / "facts.jsonl"))
    folder.mkdir()
    tracer.start_span("chat", attributes=call_attributes(**{"session.id": "s"})).end()
    processor.shutdown()
    assert len(facts_of(folder / "facts.jsonl")) == 1


def test_settings_come_from_the_environment_and_arguments_win(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEDIMENT_OTEL_SINK", str(tmp_path / "facts.jsonl"))
    monkeypatch.setenv("SEDIMENT_OTEL_ORG_ID", "acme")
    monkeypatch.setenv("SEDIMENT_OTEL_SETTLE", "2.5")
    monkeypatch.setenv("SEDIMENT_OTEL_SESSION_ATTRIBUTES", "thread, chat")
    processor = SedimentSpanProcessor(settle=3, session_attributes=["thread"])
    pipeline = processor._attached.pipeline
    assert pipeline.settings == Settings(org="acme", session_attributes=("thread",))
    assert pipeline.process == ProcessSettings(sink=str(tmp_path / "facts.jsonl"), settle=3.0)


# -- log records ---------------------------------------------------------------------------------------------------


def details(span: trace.Span, **more: Any) -> LogRecord:
    attributes = call_attributes(None, None) | {
        "gen_ai.input.messages": [text_message("user", "asked")],
        "gen_ai.output.messages": [text_message("assistant", "told", finish_reason="stop")],
    }
    return LogRecord(
        event_name=DETAILS, attributes=attributes | more, context=trace.set_span_in_context(span), observed_timestamp=5
    )


def test_content_of_a_log_event_reaches_the_fact_of_its_span() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    log = SedimentLogRecordProcessor(sink, process=SLOW)
    logs = LoggerProvider(shutdown_on_exit=False)
    logs.add_log_record_processor(log)
    with tracer.start_as_current_span("chat", attributes=call_attributes(None, None, **{"session.id": "s"})) as span:
        logs.get_logger("l").emit(details(span))
        logs.get_logger("l").emit(LogRecord(body="an ordinary line", context=context.get_current()))
    processor.force_flush()
    (fact,) = sink.facts
    assert sink.texts() == ["told"]
    assert len(fact["raw"]["log_records"]) == 1
    logs.shutdown()
    processor.shutdown()
    assert sink.closed
    assert processor.snapshot() == Snapshot(ended=1, facts=1, waiting=0)


def test_records_that_come_through_the_exporter_after_their_span_are_waited_for() -> None:
    sink = MemorySink()
    processor_logs = BatchLogRecordProcessor(SedimentLogExporter(sink, process=SLOW), schedule_delay_millis=60_000)
    logs = LoggerProvider(shutdown_on_exit=False)
    logs.add_log_record_processor(processor_logs)
    tracer, processor, _ = traced(sink)
    with tracer.start_as_current_span("chat", attributes=call_attributes(None, None, **{"session.id": "s"})) as span:
        logs.get_logger("l").emit(details(span))
    processor.force_flush()
    assert processor.snapshot().waiting == 1
    logs.force_flush()
    processor.force_flush()
    assert sink.texts() == ["told"]
    logs.shutdown()


def test_a_call_for_which_no_record_comes_is_decided_after_the_log_wait() -> None:
    sink = MemorySink()
    SedimentLogExporter(sink, process=QUICK)
    tracer, processor, _ = traced(sink, process=QUICK)
    tracer.start_span("chat", attributes=call_attributes(None, None, **{"session.id": "s"})).end()
    wait_until(lambda: processor.snapshot().skipped == {"no_content": 1})


def test_a_record_whose_span_never_ends_is_a_call_of_its_own_after_the_settle_time() -> None:
    sink = MemorySink()
    log = SedimentLogRecordProcessor(sink, process=QUICK)
    logs = LoggerProvider(shutdown_on_exit=False)
    logs.add_log_record_processor(log)
    elsewhere = NonRecordingSpan(SpanContext(1, 2, False, TraceFlags(0)))
    logs.get_logger("l").emit(details(elsewhere, **{"session.id": "s"}))
    wait_until(lambda: log.snapshot().facts == 1)
    assert log.snapshot() == Snapshot(ended=1, facts=1, waiting=0)


def test_the_span_parts_end_does_not_close_the_pipeline_of_the_log_part() -> None:
    sink = MemorySink()
    log = SedimentLogRecordProcessor(sink, process=QUICK)
    tracer, processor, _ = traced(sink, process=QUICK)
    with tracer.start_as_current_span("root"):
        tracer.start_span("chat", attributes=call_attributes(**{"session.id": "s"})).end()
    processor.shutdown()
    assert sink.texts() == ["hello"]
    assert not sink.closed
    log.shutdown()
    assert sink.closed


# -- the account ---------------------------------------------------------------------------------------------------


def test_the_account_is_said_in_one_line_at_shutdown(caplog: pytest.LogCaptureFixture) -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    tracer.start_span("chat", attributes=call_attributes(**{"session.id": "s"})).end()
    tracer.start_span("GET").end()
    with caplog.at_level(logging.INFO, "sediment_otel"):
        processor.shutdown()
        processor.shutdown()
    assert [record.getMessage() for record in caplog.records] == [
        "sediment-otel: 2 spans ended: 1 facts, 1 skipped (not_a_model_call 1), 0 dropped"
    ]


def test_the_account_is_seen_as_metrics_under_the_names_of_the_registry() -> None:
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    sink = MemorySink()
    tracer, processor, _ = traced(sink, meter_provider=meters)
    tracer.start_span("chat", attributes=call_attributes(**{"session.id": "s"})).end()
    tracer.start_span("chat", attributes=call_attributes(**{"session.id": "s"})).end()
    tracer.start_span("chat", attributes=call_attributes(None, None, **{"session.id": "s"})).end()
    processor.force_flush()
    data = reader.get_metrics_data()
    assert data is not None
    found = {
        metric.name: [
            (dict(point.attributes or {}), getattr(point, "value", None)) for point in metric.data.data_points
        ]
        for scope in data.resource_metrics[0].scope_metrics
        for metric in scope.metrics
        if metric.name.startswith("sediment.")
    }
    assert found["sediment.otel.spans.ended"] == [({}, 3)]
    assert found["sediment.otel.facts"] == [({"sediment.dialect": "gen_ai"}, 2)]
    assert found["sediment.otel.skipped"] == [({"sediment.skip.reason": "no_content", "sediment.dialect": "gen_ai"}, 1)]
    assert found["sediment.otel.queue.depth"] == [({}, 0)]
    assert [attributes for attributes, _ in found["sediment.otel.deliveries"]] == [{"sediment.sink": "memorysink"}]
    assert TRANSLATE_DURATION in found
    assert set(found) <= {*METRICS, TRANSLATE_DURATION}


def test_the_metrics_are_those_of_the_registry() -> None:
    import yaml

    from sediment_otel._resources import read_resource

    groups = {
        g["metric_name"]: g for g in yaml.safe_load(read_resource("registry.yaml"))["groups"] if g["type"] == "metric"
    }
    assert {name: (kind, unit) for name, (kind, unit, _) in METRICS.items()} == {
        name: (group["instrument"], group["unit"]) for name, group in groups.items() if name != TRANSLATE_DURATION
    }
    assert groups[TRANSLATE_DURATION]["unit"] == "s"


def test_the_same_span_twice_is_a_duplicate() -> None:
    sink = MemorySink()
    exporter = SedimentSpanExporter(sink, process=SLOW)
    ended: list[Any] = []
    provider = provider_with(SimpleSpanProcessor(exporter))
    span = provider.get_tracer("t").start_span("chat", attributes=call_attributes(**{"session.id": "s"}))
    span.end()
    ended.append(span._readable_span())  # type: ignore[attr-defined]
    exporter.export(ended)
    exporter.force_flush()
    assert exporter.snapshot() == Snapshot(ended=2, facts=1, waiting=0, skipped={"duplicate": 1})


def test_what_the_sink_does_is_not_instrumented() -> None:
    seen: list[Any] = []
    sink = MemorySink(lambda write: seen.extend(context.get_value(key) for key in SUPPRESSING))
    tracer, processor, _ = traced(sink)
    tracer.start_span("chat", attributes=call_attributes(**{"session.id": "s"})).end()
    processor.force_flush()
    assert seen == [True, True]
    assert sink.threads == {"sediment-otel"}


def test_nothing_is_kept_of_a_processor_that_was_shut_down() -> None:
    before = threading.active_count()
    for _ in range(3):
        tracer, _, provider = traced(MemorySink(), process=QUICK)
        tracer.start_span("chat", attributes=call_attributes(**{"session.id": "s"})).end()
        provider.shutdown()
    gc.collect()
    assert threading.active_count() == before


def test_spans_that_end_after_shutdown_are_left_alone() -> None:
    sink = MemorySink()
    tracer, processor, _ = traced(sink)
    processor.shutdown()
    tracer.start_span("chat", attributes=call_attributes(**{"session.id": "s"})).end()
    assert processor.force_flush()
    assert processor.snapshot().ended == 0
    assert sink.facts == []


def wait_until(happened: Any, seconds: float = 20.0) -> None:
    """Wait for something that a worker does by itself; the time is a bound, not a race."""
    done = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if happened():
            return
        done.wait(0.01)
    pytest.fail("did not happen in time")
