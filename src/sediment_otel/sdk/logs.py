# SPDX-License-Identifier: Apache-2.0
"""Content that instrumentations put into log events: a log processor, and a log exporter for the environment.

A record is joined to its span by the worker. Through the processor it comes before its span ends; through the
exporter it may follow, and a call then waits for it (`log_wait`). Records that no dialect can use are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk._logs import LogRecordProcessor, ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult

from ..settings import ProcessSettings, Settings
from ..sinks import Sink
from . import shared
from .account import Snapshot
from .options import resolve
from .pipeline import Pipeline
from .quiet import quietly_log

#: Attributes that name an event where the field for it is empty, as older producers write.
_NAMES = frozenset({"event.name", "event_name"})


def _note(pipeline: Pipeline, readable: Any) -> None:
    """Queue a record that may belong to a call: an event. Ordinary log lines have no name and cost this look."""
    record = readable.log_record
    attributes = record.attributes
    if record.event_name or (attributes and not _NAMES.isdisjoint(attributes)):
        pipeline.note(readable)


class SedimentLogRecordProcessor(LogRecordProcessor):
    """Joins log events that carry content to the facts of their spans. Arguments as for `SedimentSpanProcessor`."""

    def __init__(
        self,
        sink: str | Sink | None = None,
        settings: Settings | None = None,
        process: ProcessSettings | None = None,
        **options: Any,
    ) -> None:
        self._attached = shared.attach(shared.LOG_PROCESSOR, *resolve(sink, settings, process, options))

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Hand an event to the worker."""
        try:
            _note(self._attached.pipeline, log_record)
        except Exception as error:
            quietly_log("on_emit", "a log record was not seen (%s)", type(error).__name__)

    def snapshot(self) -> Snapshot:
        """The account of the pipeline."""
        return self._attached.pipeline.snapshot()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """As for the span processor."""
        return self._attached.flush(timeout_millis)

    def shutdown(self, timeout_millis: int | None = None) -> None:
        """Let go of the pipeline; the last part closes it."""
        self._attached.detach(timeout_millis)


class SedimentLogExporter(LogRecordExporter):
    """The same behind `BatchLogRecordProcessor`, and by `OTEL_LOGS_EXPORTER=sediment`."""

    def __init__(
        self,
        sink: str | Sink | None = None,
        settings: Settings | None = None,
        process: ProcessSettings | None = None,
        **options: Any,
    ) -> None:
        self._attached = shared.attach(shared.LOG_EXPORTER, *resolve(sink, settings, process, options))

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Take the records."""
        pipeline = self._attached.pipeline
        if pipeline.closed:
            return LogRecordExportResult.FAILURE
        for record in batch:
            _note(pipeline, record)
        return LogRecordExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """As for the span exporter."""
        return self._attached.flush(timeout_millis)

    def shutdown(self, timeout_millis: int | None = None) -> None:
        """Let go of the pipeline; the last part closes it."""
        self._attached.detach(timeout_millis)
