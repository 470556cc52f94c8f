# SPDX-License-Identifier: Apache-2.0
"""The way of a span: decode, select, read its dialect, translate, redact, and out. Two passes over batches.

`first_pass` takes the light entries that `index.TraceIndex` decides from; `second_pass` translates each span
with what was found for it. Both work on any stretch of the input, so that workers can share it. Neither
reads files, clocks or the environment.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from .dialects.base import LogCall
from .dialects.registry import join_id, lends_ids, names_its_span, wanted
from .genai import Detection, Subject
from .index import IndexReader, LenderEntry, RecordEntry, Resolved, SpanEntry, storable_time
from .otlp.light import LightSpan
from .settings import Settings
from .telemetry import Batch, LogRecord, Rejected, Span
from .translate.call import TOGETHER, Context, Translation, translate_subject, translate_subjects
from .translate.glimpse import glimpse_light, glimpse_span, record_bits, record_session
from .translate.identity import usable_id
from .translate.result import NOTHING
from .translate.select import STANDS_ALONE, Glimpse
from .vocabulary import Outcome, SkipReason, SpanRole


@dataclass(slots=True)
class Entries:
    """What the first pass found in one stretch. Ordinals and positions count from 0 within it."""

    spans: list[SpanEntry] = field(default_factory=list)
    records: list[RecordEntry] = field(default_factory=list)
    lenders: list[LenderEntry] = field(default_factory=list)
    span_count: int = 0
    record_count: int = 0

    def clear(self) -> None:
        """Forget the entries, keep the counts."""
        self.spans.clear()
        self.records.clear()
        self.lenders.clear()


def glance(batch: Batch, settings: Settings, into: Entries) -> None:
    """The first pass over one batch. A span that cannot be read takes its ordinal all the same."""
    for item in batch.items:
        if type(item) is Span:
            into.spans.append(_span_entry(into.span_count, item, settings))
            into.span_count += 1
            if item.parent_span_id is not None and lends_ids(item):
                into.lenders.append(LenderEntry(item.trace_id, item.parent_span_id, pickle.dumps(item)))
        elif type(item) is LogRecord:
            if wanted(item):
                into.records.append(_record_entry(into.record_count, item, settings))
            into.record_count += 1
        elif type(item) is Rejected and item.kind == "span":
            into.span_count += 1


def glance_light(spans: Sequence[LightSpan], settings: Settings, into: Entries) -> bool:
    """The first pass over a document at a light look; False where it has to be decoded in full."""
    entries: list[SpanEntry] = []
    for span in spans:
        seen = glimpse_light(into.span_count + len(entries), span, settings)
        if seen is None:
            return False
        entries.append(_entry(seen, span.trace_id, span.start_ns, span.end_ns))
    into.spans += entries
    into.span_count += len(entries)
    return True


def _span_entry(ordinal: int, span: Span, settings: Settings) -> SpanEntry:
    return _entry(glimpse_span(ordinal, span, settings), span.trace_id, span.start_ns, span.end_ns)


def _entry(seen: Glimpse, trace_id: str, start_ns: int | None, end_ns: int | None) -> SpanEntry:
    return SpanEntry(
        seen.ordinal,
        trace_id,
        seen.span_id,
        seen.parent_span_id,
        seen.role.value,
        int(seen.has_output),
        int(seen.has_message),
        int(seen.failed),
        seen.session,
        seen.session_source,
        seen.response_id,
        storable_time(start_ns),
        storable_time(end_ns),
        seen.user,
        seen.user_source,
    )


def _record_entry(position: int, record: LogRecord, settings: Settings) -> RecordEntry:
    has_output, has_message = record_bits(record)
    session = record_session(record, settings)
    return RecordEntry(
        position,
        record.trace_id,
        record.span_id if names_its_span(record) else None,
        int(has_output),
        int(has_message),
        session[0] if session else None,
        usable_id(join_id(record)),
        storable_time(record.time_ns if record.time_ns is not None else record.observed_ns),
        pickle.dumps(record),
    )


#: Reads what a subject only points to; the edge has it where the user allows that, the core has none.
Complete: TypeAlias = "Callable[[Subject], Subject] | None"


def second_pass(
    groups: Iterable[Sequence[Batch]], settings: Settings, found: IndexReader, first: int, complete: Complete = None
) -> Iterator[Translation]:
    """Translations of the spans of a stretch, in the order of the input; `first` is its first ordinal.

    The batches of a group, and up to `TOGETHER` spans, go through each step together.
    """
    ordinal = first
    for group in groups:
        items = [item for batch in group for item in batch.items if _has_ordinal(item)]
        for start in range(0, len(items), TOGETHER):
            some = items[start : start + TOGETHER]
            given: list[tuple[Subject, Context]] = []
            for item in some:
                if type(item) is Span:
                    resolved = found.resolved(ordinal, item)
                    given.append((resolved_subject(item, resolved, complete), context_of(resolved)))
                ordinal += 1
            translated = iter(translate_subjects(given, settings))
            for item in some:
                yield next(translated) if type(item) is Span else unreadable(item)  # type: ignore[arg-type]


def _has_ordinal(item: Span | LogRecord | Rejected) -> bool:
    return type(item) is Span or (type(item) is Rejected and item.kind == "span")


def context_of(resolved: Resolved) -> Context:
    """What the tree decided of a span, as the translation takes it."""
    return NOTHING if resolved.decision is STANDS_ALONE else Context.of(resolved.decision)


def resolved_subject(span: Span, resolved: Resolved, complete: Complete = None) -> Subject:
    """The span with the records and siblings that the first pass found for it."""
    subject = Subject(span, resolved.records, resolved.siblings)
    return subject if complete is None else complete(subject)


_UNREADABLE = Detection("none", SpanRole.OTHER, "the span cannot be read")


def unreadable(rejected: Rejected) -> Translation:
    """A span that could not be decoded: malformed, with what was readable of its ids."""
    span = Span(trace_id=rejected.trace_id or "", span_id=rejected.span_id or "", name=rejected.name)
    return Translation(Outcome.SKIPPED, span, _UNREADABLE, SkipReason.MALFORMED, f"{rejected.place}: {rejected.reason}")


def translate_log_call(dialect: str, call: LogCall, settings: Settings, complete: Complete = None) -> Translation:
    """A call that log records alone describe."""
    return translate_subject(log_subject(dialect, call, complete), settings, Context())


def log_subject(dialect: str, call: LogCall, complete: Complete = None) -> Subject:
    """The subject of such a call: a span that has nothing but times, and the records."""
    first = call.records[0]
    times = [time for record in call.records if (time := record.time_ns or record.observed_ns) is not None]
    own = call.capture_key is None  # else the records were written in some other span, or in none
    span = Span(
        trace_id=first.trace_id or "" if own else "",
        span_id=first.span_id or "" if own else "",
        start_ns=call.start_ns,
        end_ns=call.end_ns if call.end_ns is not None else max(times, default=None),
        status_code="error" if call.failed else "unset",
        resource=first.resource,
        scope=first.scope,
    )
    detection = Detection(dialect, SpanRole.CALL, "log records of a call whose span is not there")
    subject = Subject(
        span,
        call.records,
        log_only=True,
        capture_key=call.capture_key,
        content=call.content,
        detection=detection,
    )
    return subject if complete is None else complete(subject)


__all__ = [
    "Entries",
    "context_of",
    "glance",
    "log_subject",
    "resolved_subject",
    "second_pass",
    "translate_log_call",
    "unreadable",
]
