# SPDX-License-Identifier: Apache-2.0
"""The two ways in which spans come: a span processor, or an exporter behind one of the SDK's processors.

The processor is the better one: it sees spans start, so that it knows which ancestors are still open and which
session the baggage named; and it queues nothing twice. The exporter can be named by the environment alone.

On the application's threads a span costs a look at the names of its attributes and an append. The look is a
hint for the queue, no decision: the worker judges every span.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from opentelemetry import baggage
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from ..dialects.registry import DIALECTS
from ..settings import ProcessSettings, Settings
from ..sinks import Sink
from ..translate.identity import SESSION_KEY
from . import shared
from .account import Snapshot
from .options import resolve
from .quiet import quietly_log

#: Attributes by which a span is likely to be a model call: those that any dialect takes a field or messages from.
HINTS: frozenset[str] = frozenset(
    key for dialect in DIALECTS for keys in dialect.fields.values() for key in keys
).union(*(dialect.message_attributes for dialect in DIALECTS), {"gen_ai.operation.name"})
#: How long an exporter, which has a thread of its own, waits for room in the queue.
EXPORT_PATIENCE = 10.0


class SedimentSpanProcessor(SpanProcessor):
    """Makes facts of the model calls among the spans of a tracer provider.

    `sink`: facts.jsonl, facts.db, a URL, or a sink object. What is not given comes from `SEDIMENT_OTEL_*`. `options`
    are fields of `Settings` and `ProcessSettings` by name. Raises `SettingsError` or `SinkError` here, and nothing
    later on: what goes wrong then is counted (`snapshot`) and logged.
    """

    def __init__(
        self,
        sink: str | Sink | None = None,
        settings: Settings | None = None,
        process: ProcessSettings | None = None,
        *,
        meter_provider: MeterProvider | None = None,
        **options: Any,
    ) -> None:
        resolved = resolve(sink, settings, process, options)
        self._attached = shared.attach(shared.PROCESSOR, *resolved, meter_provider=meter_provider)
        pipeline = self._pipeline = self._attached.pipeline
        self._calls, self._others = pipeline.calls, pipeline.others
        self._open, self._sessions = pipeline.open.spans, pipeline.open.sessions
        self._most_open = pipeline.process.open_spans
        self._batch = pipeline.process.batch_size

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Remember that the span is open, and the session that the baggage names."""
        try:
            span_id = span.get_span_context().span_id
            if len(self._open) >= self._most_open:
                self._pipeline.open.evict()
            self._open[span_id] = weakref.ref(span)
            session = baggage.get_baggage(SESSION_KEY, parent_context)
            if session is not None:
                self._sessions[span_id] = str(session)
        except Exception as error:
            quietly_log("on_start", "a span's start was not seen (%s)", type(error).__name__)

    def on_end(self, span: ReadableSpan) -> None:
        """Hand the span to the worker. Unsampled spans are left alone, as everywhere."""
        try:
            context = span.context
            span_id = context.span_id
            if not context.trace_flags.sampled:
                self._forget_unsampled(span, span_id)
                return
            session = self._sessions.pop(span_id, None) if self._sessions else None
            pipeline = self._pipeline
            # The mapping behind `attributes`: the property puts a proxy around it, which costs more than the look.
            attributes = getattr(span, "_attributes", None)
            if HINTS.isdisjoint(span.attributes or () if attributes is None else attributes):
                if session is None and len(self._others) < pipeline.others_room:
                    self._others.append(span)
                else:
                    pipeline.offer(span, session, False)
            elif session is None and len(self._calls) < pipeline.room:
                self._calls.append(span)
                if len(self._calls) >= self._batch:
                    pipeline.wake.set()
            else:
                pipeline.offer(span, session, True)
            # Only now: a span is always open, queued or known to the worker.
            self._open.pop(span_id, None)
        except Exception as error:
            quietly_log("on_end", "a span's end was not seen (%s)", type(error).__name__)

    def _forget_unsampled(self, span: ReadableSpan, span_id: int) -> None:
        """A recorded span that was not sampled counts only if the completion hook was called for it."""
        session = self._sessions.pop(span_id, None)
        if self._pipeline.was_completed(span_id):
            self._pipeline.offer(span, session, True)
        self._open.pop(span_id, None)

    def snapshot(self) -> Snapshot:
        """The account: `ended == facts + skipped + dropped + waiting`."""
        return self._pipeline.snapshot()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Write the facts of all calls that ended and need no more; False where the time did not suffice."""
        return self._attached.flush(timeout_millis)

    def shutdown(self, timeout_millis: int | None = None) -> None:
        """Decide and write everything within the time, count the rest as dropped."""
        self._attached.detach(timeout_millis)


class SedimentSpanExporter(SpanExporter):
    """The same behind `BatchSpanProcessor`, and by `OTEL_TRACES_EXPORTER=sediment`. Arguments as there."""

    def __init__(
        self,
        sink: str | Sink | None = None,
        settings: Settings | None = None,
        process: ProcessSettings | None = None,
        *,
        meter_provider: MeterProvider | None = None,
        **options: Any,
    ) -> None:
        resolved = resolve(sink, settings, process, options)
        self._attached = shared.attach(shared.EXPORTER, *resolved, meter_provider=meter_provider)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take the spans; with a full queue it waits a while for room, as it has a thread of its own."""
        pipeline = self._attached.pipeline
        if pipeline.closed:
            return SpanExportResult.FAILURE
        for span in spans:
            is_call = not HINTS.isdisjoint(span.attributes or ())
            pipeline.offer(span, None, is_call, patience=EXPORT_PATIENCE)
        if len(pipeline.calls) >= pipeline.process.batch_size:
            pipeline.wake.set()
        return SpanExportResult.SUCCESS

    def snapshot(self) -> Snapshot:
        """The account: `ended == facts + skipped + dropped + waiting`."""
        return self._attached.pipeline.snapshot()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Write the facts of all calls that were given and need no more; False where the time did not suffice."""
        return self._attached.flush(timeout_millis)

    def shutdown(self, timeout_millis: int | None = None) -> None:
        """Decide and write everything within the time, count the rest as dropped."""
        self._attached.detach(timeout_millis)
