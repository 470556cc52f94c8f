# SPDX-License-Identifier: Apache-2.0
"""Captures sent through what others wrote: telemetry as SDK objects for the Python SDK's exporters."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from opentelemetry._logs import LogRecord as ApiLogRecord
from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource as SdkResource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.span import TraceState

from sediment_otel.sources.files import decode_document, expand
from sediment_otel.telemetry import LogRecord, Span

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
SETTINGS = ("--org", "acme", "--session-id", "s-1")


def pairs(folder: Path = CAPTURES) -> list[tuple[Path, Path | None]]:
    """Each capture with the log records of the same run."""
    files = sorted(p for p in folder.iterdir() if p.suffix in (".json", ".jsonl") and ".expected." not in p.name)
    logs = {p.name.replace(".logs.", "."): p for p in files if ".logs." in p.name}
    logs |= {p.name.replace(".logs.", ".traces."): p for p in files if ".logs." in p.name}
    return [(p, logs.get(p.name)) for p in files if ".logs." not in p.name]


def telemetry(path: Path) -> tuple[list[Span], list[LogRecord]]:
    """What a file holds."""
    items = [
        item for source in expand([str(path)]) for doc in source.documents() for item in decode_document(doc).items
    ]
    return [i for i in items if type(i) is Span], [i for i in items if type(i) is LogRecord]


def converted(*paths: Path) -> list[bytes]:
    """The facts that `convert` makes of files."""
    from sediment_otel.cli import app  # not there where only the exporters are

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "facts.jsonl"
        app(["convert", *map(str, paths), *SETTINGS, "--quiet", "-o", str(out)], standalone_mode=False)
        return out.read_bytes().splitlines()


def _resource(item: Any) -> SdkResource:
    return SdkResource(item.resource.attributes, item.resource.schema_url or "")


def _scope(item: Any) -> InstrumentationScope:
    scope = item.scope
    return InstrumentationScope(scope.name, scope.version or "", scope.schema_url or "", scope.attributes or None)


def _context(trace_id: str, span_id: str, state: str = "") -> SpanContext:
    members = TraceState.from_header([state]) if state else TraceState()
    return SpanContext(int(trace_id, 16), int(span_id, 16), False, TraceFlags(1), members)


def sdk_spans(spans: Iterable[Span]) -> list[ReadableSpan]:
    """Spans as the Python SDK hands them to its exporters."""
    return [
        ReadableSpan(
            name=span.name,
            context=_context(span.trace_id, span.span_id, span.trace_state),
            parent=_context(span.trace_id, span.parent_span_id) if span.parent_span_id else None,
            resource=_resource(span),
            attributes=span.attributes,
            events=[Event(e.name, e.attributes, e.time_ns) for e in span.events],
            links=[Link(_context(k.trace_id, k.span_id), k.attributes) for k in span.links],
            kind=SpanKind[span.kind.upper()] if span.kind != "unspecified" else SpanKind.INTERNAL,
            instrumentation_scope=_scope(span),
            status=Status(StatusCode[span.status_code.upper()], span.status_message or None),
            start_time=span.start_ns,
            end_time=span.end_ns,
        )
        for span in spans
    ]


def sdk_records(records: Iterable[LogRecord]) -> list[ReadableLogRecord]:
    """Log records as the Python SDK hands them to its exporters."""
    made = []
    for record in records:
        context = None
        if record.trace_id or record.span_id:
            context = _context(record.trace_id or "0", record.span_id or "0")
        own = ApiLogRecord(
            timestamp=record.time_ns,
            observed_timestamp=record.observed_ns,
            severity_text=record.severity_text or None,
            severity_number=SeverityNumber(record.severity_number),
            body=record.body,
            attributes=record.attributes,
            event_name=record.event_name if "event.name" not in record.attributes else None,
        )
        if context is not None:
            own.trace_id, own.span_id, own.trace_flags = context.trace_id, context.span_id, context.trace_flags
        made.append(ReadableLogRecord(own, _resource(record), _scope(record)))
    return made
