# SPDX-License-Identifier: Apache-2.0
"""Reading trace files span by span, with all that belongs to each: the edge around the pipeline for readers.

`read_traces` is the public way; `Traces` also says what else was seen. Both read every input twice: first lightly,
for what spans need to know of each other (wrappers, inherited sessions, log records, lent ids), then in full. What
`convert` does with workers and a sink, this does in one process and hands on. Memory stays flat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from os import PathLike, fspath
from pathlib import Path

from .conversion import Silent, hear
from .genai import Subject
from .index import IndexReader, Resolved, TraceIndex
from .passes import NAMED_UNREAD, Stretch, Unread, batches_of, first_look, stretches
from .pipeline import Entries, log_subject, resolved_subject, unreadable
from .scratch import scratch
from .settings import Settings
from .sources.files import Input, SourceError, expand
from .sources.references import completer
from .telemetry import Rejected, Span
from .translate.call import Context, Translation, translate_subject
from .translate.select import Decision


@dataclass(frozen=True, slots=True)
class Walked:
    """One span (or call among log records) of the input: its subject, what the tree decided, what it became."""

    subject: Subject
    decision: Decision
    translation: Translation


@dataclass(slots=True)
class Traces:
    """Inputs to walk through. The counts are complete once `walk` is through.

    `failed` are inputs that could not be read, `unread` the first records that could not; they cost only themselves.
    """

    inputs: Sequence[Input]
    settings: Settings
    recognised: bool = False
    silent: Silent = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)
    unread_count: int = 0
    failed: list[str] = field(default_factory=list)

    def walk(self, progress: Callable[[str, int], None] | None = None) -> Iterator[Walked]:
        """Every span in the order of the input, then every call that log records alone describe."""
        with scratch() as folder:
            yield from self._walk(folder, progress)

    def _walk(self, folder: Path, progress: Callable[[str, int], None] | None) -> Iterator[Walked]:
        index = TraceIndex(folder / "index.db")
        complete = completer(self.settings)
        try:
            parts = self._look(index, progress)
            index.resolve()
            for part, first in parts:
                try:
                    yield from self._translations(part, index.path, first)
                except SourceError as error:
                    self.failed.append(str(error))
                if progress is not None:
                    progress("second", part.size)
            for dialect, call in index.log_calls():
                subject = log_subject(dialect, call, complete)
                yield self._walked(subject, Decision())
        finally:
            index.close()

    def _walked(self, subject: Subject, decision: Decision) -> Walked:
        context = Context.of(decision)
        return Walked(subject, decision, translate_subject(subject, self.settings, context, whole=True))

    def _look(self, index: TraceIndex, progress: Callable[[str, int], None] | None) -> list[tuple[Stretch, int]]:
        parts: list[tuple[Stretch, int]] = []
        spans = records = 0

        def take(entries: Entries) -> None:
            index.add(entries.spans, entries.records, entries.lenders, before=(spans, records))

        for part in stretches(self.inputs, 1):
            try:
                seen = first_look(part, self.settings, take)
            except SourceError as error:
                self.failed.append(str(error))
                continue
            parts.append((part, spans))
            spans += seen.spans
            records += seen.records
            self.recognised = self.recognised or seen.recognised
            hear(self.silent, part.source.name, seen.recognised)
            self.unread_count += seen.unread_count
            self.unread += seen.unread[: NAMED_UNREAD - len(self.unread)]
            if progress is not None:
                progress("first", part.size)
        return parts

    def _translations(self, part: Stretch, index: Path, first: int) -> Iterator[Walked]:
        reader = IndexReader(index, first)
        complete = completer(self.settings)
        ordinal = first
        try:
            for batch in chain.from_iterable(batches_of(part)):
                for item in batch.items:
                    if type(item) is Span:
                        found: Resolved = reader.resolved(ordinal, item)
                        yield self._walked(resolved_subject(item, found, complete), found.decision)
                        ordinal += 1
                    elif type(item) is Rejected and item.kind == "span":
                        translation = unreadable(item)
                        yield Walked(Subject(translation.span), Decision(), translation)
                        ordinal += 1
        finally:
            reader.close()


def read_traces(path: str | PathLike[str], settings: Settings | None = None) -> Iterator[Translation]:
    """What became of each span of a file, directory, glob or URL (or `-`), in the order of the input.

    A `Translation` is a fact or a skip. Calls known from log records alone come last. The same call twice is
    yielded twice: telling duplicates is what sinks do. Raises `SourceError` where an input cannot be read; a record
    that cannot be read costs only itself.
    """
    traces = Traces(expand([fspath(path)]), settings or Settings())
    for walked in traces.walk():
        yield walked.translation
    if traces.failed:
        raise SourceError("; ".join(traces.failed))
