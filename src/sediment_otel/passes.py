# SPDX-License-Identifier: Apache-2.0
"""The two passes over one stretch of the input. The first pass looks at every record, the second gives rows.

A stretch is a part of one input that is read by itself: a file, or a range of a large JSON Lines file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from .index import IndexReader
from .otlp.light import LightSpan, read_light
from .pipeline import Entries, glance, glance_light, second_pass
from .report import Row, row_of
from .settings import Settings
from .sinks.base import Delivery
from .sources.documents import Document
from .sources.files import Input, SourceError, decode_document
from .sources.references import completer
from .telemetry import Batch, Rejected
from .translate.call import TOGETHER

#: Rows that go to the sink together, and at most so many bytes of facts: a sink that works for each batch (commits,
#: say) gets large ones, a file small ones that are still in the processor's cache when they are written.
BATCH_ROWS = 512
BATCH_BYTES = 8 * 1024 * 1024
BLOCK_BYTES = 128 * 1024
#: Bytes of documents that are decoded together at most; a larger document is decoded by itself.
GROUP_BYTES = 512 * 1024
#: Entries of the first pass that are held before they go to the index.
ENTRY_ROWS = 4096
#: A worker's stretch: small enough that the last ones even out, large enough that starting one costs nothing.
STRETCH_BYTES = 8 * 1024 * 1024


#: How many unreadable records are named one by one; the rest is counted.
NAMED_UNREAD = 20


class Stretch(NamedTuple):
    """A part of one input: everything that starts from `start` (included) to `end` (excluded)."""

    source: Input
    start: int
    end: int | None
    size: int


@dataclass(slots=True)
class Unread:
    """A record that could not be read: where it is, and why. No content."""

    source: str
    place: str
    reason: str


@dataclass(slots=True)
class Seen:
    """What the first pass over a stretch counted."""

    spans: int = 0
    records: int = 0
    recognised: bool = False
    documents: int = 0
    unread: list[Unread] = field(default_factory=list)
    unread_count: int = 0


def stretches(inputs: Iterable[Input], workers: int) -> list[Stretch]:
    """The inputs in stretches, in order; large JSON Lines files in several where there are workers."""
    found = []
    for source in inputs:
        size = source.size or 0
        ranges = source.split(max(workers, size // STRETCH_BYTES)) if workers > 1 else [(0, None)]
        for start, end in ranges:
            found.append(Stretch(source, start, end, (size if end is None else end) - start))
    return found


def batches_of(stretch: Stretch) -> Iterator[list[Batch]]:
    """The telemetry of a stretch, some documents at a time."""
    for documents in _documents(stretch):
        yield list(map(decode_document, documents))


def _documents(stretch: Stretch) -> Iterator[list[Document]]:
    """The documents of a stretch: as many small ones as go through each step together."""
    documents: list[Document] = []
    size = 0
    try:
        for document in stretch.source.documents(stretch.start, stretch.end):
            documents.append(document)
            size += len(document.data)
            if len(documents) >= TOGETHER or size >= GROUP_BYTES:
                yield documents
                documents, size = [], 0
    except SourceError:  # what stood before it counts
        yield documents
        raise
    yield documents


def first_look(stretch: Stretch, settings: Settings, take: Callable[[Entries], None]) -> Seen:
    """The first pass over one stretch; `take` gets the entries now and then."""
    entries, seen = Entries(), Seen()
    for document, light in chain.from_iterable(map(_read_light, _documents(stretch))):
        seen.documents += 1
        if light is not None and glance_light(light, settings, entries):
            seen.recognised = True
            if len(entries.spans) >= ENTRY_ROWS:
                take(entries)
                entries.clear()
            continue
        batch = decode_document(document)
        seen.recognised = seen.recognised or batch.recognised
        glance(batch, settings, entries)
        for rejected in batch.items:
            if type(rejected) is Rejected:
                seen.unread_count += 1
                if len(seen.unread) < NAMED_UNREAD:
                    seen.unread.append(Unread(stretch.source.name, rejected.place, rejected.reason))
        if len(entries.spans) + len(entries.records) >= ENTRY_ROWS:
            take(entries)
            entries.clear()
    take(entries)
    seen.spans, seen.records = entries.span_count, entries.record_count
    return seen


def _read_light(documents: list[Document]) -> list[tuple[Document, list[LightSpan] | None]]:
    """Documents with what a light look finds in them; None where they have to be decoded in full."""
    return [
        (document, read_light(document.data) if document.form == "json" and not document.problem else None)
        for document in documents
    ]


def rows_of(stretch: Stretch, settings: Settings, index: Path, first: int) -> Iterator[Row]:
    """The second pass over one stretch."""
    reader = IndexReader(index, first)
    try:
        for found in second_pass(batches_of(stretch), settings, reader, first, completer(settings)):
            yield row_of(found)
    finally:
        reader.close()


def grouped(rows: Iterable[Row], most_bytes: int = BATCH_BYTES) -> Iterator[list[Row]]:
    group: list[Row] = []
    size = 0
    for row in rows:
        group.append(row)
        if row.delivery is not None:
            size += len(row.delivery.encoded)
        if len(group) >= BATCH_ROWS or size >= most_bytes:
            yield group
            group, size = [], 0
    if group:
        yield group


class Group(NamedTuple):
    """Rows that go to the sink together. From a worker the facts are apart: lines in `block`, with their sizes."""

    rows: list[Row]
    block: bytes | None = None
    sizes: Sequence[int] = ()

    def deliveries(self) -> list[Delivery]:
        """The facts of the rows, each with its JSON."""
        found = [row.delivery for row in self.rows if row.delivery is not None]
        if self.block is not None:
            start = 0
            for fact, size in zip(found, self.sizes, strict=True):
                msgspec.structs.force_setattr(fact, "encoded", self.block[start : start + size - 1])
                start += size
        return found
