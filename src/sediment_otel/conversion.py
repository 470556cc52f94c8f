# SPDX-License-Identifier: Apache-2.0
"""Converting files: the edge around the pipeline. Ranges of inputs, worker processes, sink, report.

Every input is cut into stretches (one per file, several for a large JSON Lines file). The first pass looks at
each stretch and fills the index; the second translates each stretch and hands rows to the sink in the
order of the input. With workers, both passes run in processes of their own; the main process only keeps
the index, the order and the sink.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import active_children, get_all_start_methods, get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from .index import IndexReader, LenderEntry, RecordEntry, SpanEntry, TraceIndex
from .pipeline import Entries, glance, glance_light, second_pass, translate_log_call
from .report import Account, Row, item, row_of, settle, span_outcome, totals
from .scratch import scratch
from .settings import Settings
from .sinks.base import Delivery, Receipt, Sink
from .sources.files import Input, SourceError, decode_document
from .sources.references import completer
from .telemetry import Batch, Rejected
from .translate.identity import capture_id, inference_call_id

#: Rows that go to the sink together, and at most so many bytes of facts: a sink that works for each batch (commits,
#: say) gets large ones, a file small ones that are still in the processor's cache when they are written.
BATCH_ROWS = 512
BATCH_BYTES = 8 * 1024 * 1024
BLOCK_BYTES = 128 * 1024
#: Entries of the first pass that are held before they go to the index.
ENTRY_ROWS = 4096
#: A worker's stretch: small enough that the last ones even out, large enough that starting one costs nothing.
STRETCH_BYTES = 8 * 1024 * 1024


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


#: Inputs by name, true for those in which nothing was telemetry.
Silent = dict[str, bool]


def hear(inputs: Silent, name: str, recognised: bool) -> None:
    """Take in what one stretch of an input held."""
    inputs[name] = inputs.get(name, True) and not recognised


@dataclass(slots=True)
class Conversion:
    """The result of `convert`: the account, what could not be read, and whether (and where) nothing was telemetry."""

    account: Account
    unread: list[Unread]
    unread_count: int
    recognised: bool
    failed_inputs: list[str]
    silent: Silent = field(default_factory=dict)


#: How many calls that occur more than once are told to the sink by id.
MOST_REPEATED = 50_000
#: How many unreadable records are named one by one; the rest is counted.
NAMED_UNREAD = 20

Progress = Callable[[str, int], None]


def _no_progress(stage: str, amount: int) -> None:
    """Nobody watches."""


def stretches(inputs: Iterable[Input], workers: int) -> list[Stretch]:
    """The inputs in stretches, in order; large JSON Lines files in several where there are workers."""
    found = []
    for source in inputs:
        size = source.size or 0
        ranges = source.split(max(workers, size // STRETCH_BYTES)) if workers > 1 else [(0, None)]
        for start, end in ranges:
            found.append(Stretch(source, start, end, (size if end is None else end) - start))
    return found


def batches_of(stretch: Stretch) -> Iterator[Batch]:
    """The telemetry of a stretch, document by document."""
    for document in stretch.source.documents(stretch.start, stretch.end):
        yield decode_document(document)


def first_look(stretch: Stretch, settings: Settings, take: Callable[[Entries], None]) -> Seen:
    """The first pass over one stretch; `take` gets the entries now and then."""
    entries, seen = Entries(), Seen()
    for document in stretch.source.documents(stretch.start, stretch.end):
        seen.documents += 1
        if document.form == "json" and not document.problem and glance_light(document.data, settings, entries):
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


def _rows(stretch: Stretch, settings: Settings, index: Path, first: int) -> Iterator[Row]:
    """The second pass over one stretch."""
    reader = IndexReader(index, first)
    try:
        for found in second_pass(batches_of(stretch), settings, reader, first, completer(settings)):
            yield row_of(found)
    finally:
        reader.close()


def _grouped(rows: Iterable[Row], most_bytes: int = BATCH_BYTES) -> Iterator[list[Row]]:
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


# -- in worker processes ---------------------------------------------------------------------------------------

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[list[Row], list[int]]).decode


_unpack_entries = msgspec.msgpack.Decoder(tuple[list[SpanEntry], list[RecordEntry], list[LenderEntry]]).decode


def _worker_first(stretch: Stretch, settings: Settings) -> tuple[Seen, list[bytes]] | str:
    """What was counted, and the entries in bundles. Packed they are read by the parent in a fraction of the time."""
    bundles: list[bytes] = []

    def take(entries: Entries) -> None:
        bundles.append(_pack((entries.spans, entries.records, entries.lenders)))

    try:
        return first_look(stretch, settings, take), bundles
    except SourceError as error:
        return str(error)


def _worker_second(
    stretch: Stretch, settings: Settings, index: Path, first: int, out: Path, shared: str | None, number: int
) -> str | None:
    """Rows of the stretch into a private file: groups of a length, the rows without their facts, and the facts.

    Where the sink has a file to share, the facts go straight into it instead, at the place that follows those of the
    stretches before.
    """
    error = None
    lines = _lines
    lines.clear()
    try:
        with out.open("wb") as file:
            for group in _grouped(_rows(stretch, settings, index, first), BLOCK_BYTES):
                facts = [row.delivery for row in group if row.delivery is not None]
                sizes = [lines.add(fact.encoded) for fact in facts]
                for fact in facts:
                    msgspec.structs.force_setattr(fact, "encoded", b"")
                packed = _pack((group, sizes))
                file.write(len(packed).to_bytes(8, "big"))
                file.write(packed)
                if shared is None:
                    lines.write_to(file)
                    lines.clear()
    except SourceError as broken:
        error = str(broken)
    finally:
        place = _turns.take(number, lines.size) if shared is not None else 0
    if shared is not None:
        with open(shared, "r+b", buffering=0) as target:
            target.seek(place)
            lines.write_to(target)
    return error


class _Lines:
    """Lines one behind the other, in memory that is kept from stretch to stretch: fresh memory costs more than they."""

    def __init__(self) -> None:
        self._memory = bytearray()
        self.size = 0

    def clear(self) -> None:
        """Forget the lines, keep the memory."""
        self.size = 0

    def add(self, line: bytes) -> int:
        """Take a line and end it; its size with the end."""
        end = self.size + len(line)
        if end >= len(self._memory):
            self._memory.extend(bytes(max(end + 1 - len(self._memory), BLOCK_BYTES)))
        self._memory[self.size : end] = line
        self._memory[end] = _LINE_END
        self.size = end + 1
        return len(line) + 1

    def write_to(self, target: Any) -> None:
        """All lines into an open file."""
        with memoryview(self._memory)[: self.size] as rest:
            done = 0
            while done < self.size:
                done += target.write(rest[done:])


_LINE_END = ord("\n")
#: A worker works on one stretch at a time.
_lines = _Lines()


class _Turns:
    """Whose turn it is to take a place in the shared file: stretches take theirs in order, and write at once."""

    def __init__(self, context: Any) -> None:
        self._changed = context.Condition()
        self._turn = context.Value("q", 0, lock=False)
        self._end = context.Value("q", 0, lock=False)

    def take(self, number: int, size: int) -> int:
        """The place of so many bytes; waits until all stretches before have theirs."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn.value == number)
            place = int(self._end.value)
            self._end.value += size
            self._turn.value += 1
            self._changed.notify_all()
            return place

    @property
    def size(self) -> int:
        """How many bytes have their place."""
        return int(self._end.value)


_turns: _Turns


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


def _read_groups(path: Path, shared: bool) -> Iterator[Group]:
    with path.open("rb") as file:
        while head := file.read(8):
            rows, sizes = _unpack(file.read(int.from_bytes(head, "big")))
            yield Group(rows, b"" if shared else file.read(sum(sizes)), sizes)
    path.unlink()


def _start_method() -> str:
    """Forked workers start at once; where other threads run (a progress bar), forking is not safe."""
    safe = threading.active_count() == 1 and "fork" in get_all_start_methods() and sys.platform != "darwin"
    return "fork" if safe else "spawn"


def _become_worker(turns: _Turns) -> None:
    """A worker ends when its parent says so or is gone; the keys of the terminal are the parent's."""
    global _turns
    _turns = turns
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


class _Pool:
    """Work in processes with results in order, never more than a few ahead (so that files do not pile up)."""

    def __init__(self, workers: int) -> None:
        self.ahead = workers + 2
        context = get_context(_start_method())
        self.turns = _Turns(context)
        self._pool = ProcessPoolExecutor(workers, context, _become_worker, (self.turns,))

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if kind is not None:
            for child in active_children():
                child.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def ordered(self, work: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Results of `work(*call)` for each call, in order."""
        waiting: list[Future[Any]] = []
        source = iter(calls)
        for call in islice(source, self.ahead):
            waiting.append(self._pool.submit(work, *call))
        while waiting:
            try:
                done = waiting.pop(0).result()
            except BrokenProcessPool:
                raise SourceError(
                    "a worker process was killed, perhaps for want of memory; use fewer workers"
                ) from None
            for call in islice(source, 1):
                waiting.append(self._pool.submit(work, *call))
            yield done


# -- the whole run -----------------------------------------------------------------------------------------------


def convert(
    inputs: Sequence[Input],
    sink: Callable[[frozenset[str] | None], Sink],
    settings: Settings,
    *,
    workers: int = 1,
    report: Callable[[dict[str, Any]], None] | None = None,
    progress: Progress = _no_progress,
) -> Conversion:
    """Convert inputs into a sink. `sink` is opened after the first pass, with the ids that can come
    twice (None: too many to name).

    `report` takes each span's item as it is settled. An input that cannot be read is named in the result and
    costs only itself. Raises `SinkError` where facts cannot be written.
    """
    with scratch() as folder, ExitStack() as stack:
        pool = stack.enter_context(_Pool(workers)) if workers > 1 else None
        return _run(inputs, sink, settings, pool, folder, workers, report, progress)


def _run(
    inputs: Sequence[Input],
    sink: Callable[[frozenset[str] | None], Sink],
    settings: Settings,
    pool: _Pool | None,
    folder: Path,
    workers: int,
    report: Callable[[dict[str, Any]], None] | None,
    progress: Progress,
) -> Conversion:
    result = Conversion(Account(), [], 0, False, [])
    index = TraceIndex(folder / "index.db")
    try:
        parts: list[tuple[Stretch, int]] = []
        spans = records = 0
        for stretch, seen in _first_pass(stretches(inputs, workers), settings, pool, index, result):
            parts.append((stretch, spans))
            spans += seen.spans
            records += seen.records
            result.recognised = result.recognised or seen.recognised
            hear(result.silent, stretch.source.name, seen.recognised)
            result.unread_count += seen.unread_count
            result.unread += seen.unread[: NAMED_UNREAD - len(result.unread)]
            progress("first", stretch.size)
        index.resolve()
        with sink(_repeated_ids(index, settings)) as out:
            for group in _second_pass(parts, settings, pool, index.path, folder, result, progress, out):
                _deliver(group, out, result.account, report)
            calls = index.log_calls()
            complete = completer(settings)
            rows = (
                row_of(translate_log_call(dialect, call, settings, complete), call.capture_key)
                for dialect, call in calls
            )
            for some in _grouped(rows):
                _deliver(Group(some), out, result.account, report)
    finally:
        index.close()
    return result


def _repeated_ids(index: TraceIndex, settings: Settings) -> frozenset[str] | None:
    if index.has_orphans():  # calls among records have ids that only they know
        return None
    calls = index.repeated_calls(MOST_REPEATED)
    if calls is None:
        return None
    return frozenset(inference_call_id(settings.org, capture_id(f"{trace}:{span}")) for trace, span in calls)


def _first_pass(
    parts: list[Stretch], settings: Settings, pool: _Pool | None, index: TraceIndex, result: Conversion
) -> Iterator[tuple[Stretch, Seen]]:
    spans = records = 0

    def take(entries: Entries) -> None:
        index.add(entries.spans, entries.records, entries.lenders, before=(spans, records))

    def work() -> Iterator[Any]:
        if pool is not None:
            yield from pool.ordered(_worker_first, ((part, settings) for part in parts))
            return
        for part in parts:
            try:
                yield first_look(part, settings, take), ()
            except SourceError as error:
                yield str(error)

    for part, found in zip(parts, work(), strict=True):
        if type(found) is str:
            result.failed_inputs.append(found)
            continue
        seen, bundles = found
        for bundle in bundles:
            index.add(*_unpack_entries(bundle), before=(spans, records))
        spans += seen.spans
        records += seen.records
        yield part, seen


def _second_pass(
    parts: list[tuple[Stretch, int]],
    settings: Settings,
    pool: _Pool | None,
    index: Path,
    folder: Path,
    result: Conversion,
    progress: Progress,
    out: Sink,
) -> Iterator[Group]:
    if pool is None:
        most_bytes = BLOCK_BYTES if out.takes_blocks else BATCH_BYTES
        for part, first in parts:
            yield from map(Group, _grouped(_rows(part, settings, index, first), most_bytes))
            progress("second", part.size)
        return
    files = [folder / f"rows-{number}" for number in range(len(parts))]
    shared = out.shared_file()
    calls = (
        (part, settings, index, first, files[number], shared, number) for number, (part, first) in enumerate(parts)
    )
    for (part, _), file, error in zip(parts, files, pool.ordered(_worker_second, calls), strict=True):
        if error is not None:
            result.failed_inputs.append(error)
        yield from _read_groups(file, shared is not None)
        progress("second", part.size)
    if shared is not None:
        out.grow(pool.turns.size)


def _deliver(group: Group, out: Sink, account: Account, report: Callable[[dict[str, Any]], None] | None) -> None:
    """Facts to the sink, its receipts into the rows, the rows into the account and the report."""
    if not _written_as_block(group, out):
        facts = [row for row in group.rows if row.delivery is not None]
        receipts = out.write(group.deliveries())
        for row, receipt in zip(facts, receipts, strict=True):
            if receipt is not Receipt.STORED:
                settle(row, receipt)
    if out.keeps_outcomes:
        out.record_outcomes([span_outcome(row) for row in group.rows])
    for row in group.rows:
        account.add(row)
        if report is not None:
            report(item(row))


def _written_as_block(group: Group, out: Sink) -> bool:
    """Whether the sink has the facts already, or takes them as lines, all at once."""
    if group.block is None:
        lines = [row.delivery.encoded for row in group.rows if row.delivery is not None]
        if lines:
            lines.append(b"")  # the last line ends, too
        return out.takes_blocks and (not lines or out.write_block(b"\n".join(lines)))
    return not group.block or out.write_block(group.block)


__all__ = ["Conversion", "Unread", "convert", "totals"]
