# SPDX-License-Identifier: Apache-2.0
"""What the in-process parts cost the application, and their worker.

    .venv/bin/python benchmarks/bench_sdk.py

`on_end` is measured as CPU time of the calling thread, beside `BatchSpanProcessor.on_end` on the same spans in turn;
the figure is the median of the differences. The worker's CPU per span is a ratio to `(a)` of `bench.py`: the same
calls from OTLP JSON to fact bytes. `run()` gives the rows.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Sequence
from typing import Any

import samples
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from sediment_otel.genai import Subject
from sediment_otel.otlp import decode_json
from sediment_otel.sdk import SedimentSpanProcessor
from sediment_otel.settings import ProcessSettings, Settings
from sediment_otel.sinks import Delivery, Receipt, SinkBase
from sediment_otel.translate.call import TOGETHER, translate_subjects
from sediment_otel.translate.result import NOTHING

ROUNDS = 11
SPANS = 5_000
#: Microseconds that `on_end` may take more than that of the SDK's own batch processor.
CALL_BUDGET, OTHER_BUDGET = 2.0, 0.5
WORKER_BUDGET = 1.3
OTHER: dict[str, Any] = {
    "http.request.method": "GET",
    "url.full": "http://shop.example/items/7",
    "http.response.status_code": 200,
    "server.address": "shop.example",
    "server.port": 443,
    "network.protocol.version": "1.1",
    "user_agent.original": "curl/8",
    "http.route": "/items/{id}",
}
#: So long that no worker wakes up during a round.
QUIET = ProcessSettings(schedule_delay=3600.0, queue_size=10**6, batch_size=10**6, open_spans=10**6)


class Nothing(SpanExporter):
    """Takes everything."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing to do."""


class Taker(SinkBase):
    """Takes everything."""

    def __init__(self) -> None:
        self.taken = 0

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        self.taken += len(batch)
        return [Receipt.STORED] * len(batch)

    def close(self) -> None:
        """Nothing to do."""


class Collector(SpanProcessor):
    """Keeps what ended, with the span that was started."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.started.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


def spans_with(attributes: Sequence[dict[str, Any]]) -> Collector:
    """Ended spans of the SDK."""
    collector = Collector()
    provider = TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
    provider.add_span_processor(collector)
    tracer = provider.get_tracer("bench")
    for one in attributes:
        tracer.start_span("chat gpt", attributes=one).end()
    return collector


def _ours() -> SedimentSpanProcessor:
    return SedimentSpanProcessor(Taker(), Settings(), QUIET, meter_provider=NoOpMeterProvider())


def _on_end(processor: SpanProcessor, spans: list[ReadableSpan]) -> float:
    """Microseconds of this thread's CPU for one `on_end`."""
    gc.disable()
    on_end = processor.on_end
    began = time.thread_time()
    for span in spans:
        on_end(span)
    spent = time.thread_time() - began
    gc.enable()
    return 1e6 * spent / len(spans)


def on_end_cost(collector: Collector) -> tuple[float, float, float]:
    """Medians in microseconds: our `on_end`, that of the batch processor, the difference round by round."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        batch = BatchSpanProcessor(
            Nothing(), max_queue_size=10**6, max_export_batch_size=10**6, schedule_delay_millis=3.6e6
        )
        theirs.append(_on_end(batch, collector.ended))
        batch.shutdown()
        mine = _ours()
        for span in collector.started:
            mine.on_start(span, None)
        ours.append(_on_end(mine, collector.ended))
        mine._pipeline.calls.clear()
        mine._pipeline.others.clear()
        mine.shutdown()
    difference = statistics.median(a - b for a, b in zip(ours, theirs, strict=True))
    return statistics.median(ours), statistics.median(theirs), difference


def on_start_cost(collector: Collector) -> float:
    """Microseconds for one `on_start`; the batch processor has none."""
    found = []
    for _ in range(ROUNDS):
        mine = _ours()
        began = time.thread_time()
        for span in collector.started:
            mine.on_start(span, None)
        found.append(1e6 * (time.thread_time() - began) / len(collector.started))
        mine.shutdown()
    return statistics.median(found)


def worker_cost(count: int = 1_000) -> tuple[float, float, float]:
    """CPU microseconds for one span in the worker and from OTLP JSON, and the median of the ratios."""
    attributes = [samples.span_attributes(12_000, 20, number) for number in range(count)]
    lines = [samples.line(12_000, 20, number) for number in range(count)]
    spans = spans_with(attributes).ended
    settings = Settings()
    ours, theirs = [], []
    for _ in range(5):
        processor = _ours()
        for span in spans:
            processor.on_end(span)
        gc.collect()
        began = time.process_time()
        processor.force_flush(60_000)
        ours.append(time.process_time() - began)
        assert processor.snapshot().facts == count, processor.snapshot()
        processor.shutdown()
        gc.collect()
        began = time.process_time()
        for start in range(0, count, TOGETHER):
            batches = [decode_json(line) for line in lines[start : start + TOGETHER]]
            given = [(Subject(span), NOTHING) for batch in batches for span in batch.items]  # type: ignore[arg-type]
            assert all(found.encoded for found in translate_subjects(given, settings))
        theirs.append(time.process_time() - began)
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return 1e6 * statistics.median(ours) / count, 1e6 * statistics.median(theirs) / count, ratio


def run() -> list[str]:
    """The rows, each with its budget."""
    call = spans_with([samples.span_attributes(12_000, 20, 0)] * SPANS)
    other = spans_with([OTHER] * SPANS)
    rows = []
    for title, collector, budget in (
        ("on_end of a model call", call, CALL_BUDGET),
        ("on_end of another span", other, OTHER_BUDGET),
    ):
        ours, theirs, more = on_end_cost(collector)
        rows.append(
            f"(e) {title:<32} {more:+5.2f} us to BatchSpanProcessor, budget {budget} us "
            f"({ours:.2f} us against {theirs:.2f} us)"
        )
    rows.append(f"(e) {'on_start of any span':<32} {on_start_cost(other):5.2f} us")
    ours, theirs, ratio = worker_cost()
    rows.append(
        f"(e) {'worker, 12 KB, 20 messages':<32} {ratio:5.2f} x (a), budget {WORKER_BUDGET} x "
        f"({ours:.1f} us against {theirs:.1f} us)"
    )
    return rows


if __name__ == "__main__":
    for row in run():
        print(row, flush=True)
