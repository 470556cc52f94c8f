# SPDX-License-Identifier: Apache-2.0
"""Converting files: the edge around the pipeline. Stretches of inputs, the index, sink, report.

Every input is cut into stretches (one per file, several for a large JSON Lines file). The first pass looks at
each stretch and fills the index; the second translates each stretch and hands rows to the sink in the
order of the input (`passes`). With workers, both passes run in processes of their own (`workers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .index import TraceIndex
from .passes import (
    BATCH_BYTES,
    BLOCK_BYTES,
    NAMED_UNREAD,
    Group,
    Seen,
    Stretch,
    Unread,
    first_look,
    grouped,
    rows_of,
    stretches,
)
from .pipeline import Entries, translate_log_call
from .report import Account, item, row_of, settle, span_outcome, totals
from .scratch import scratch
from .settings import Settings
from .sinks.base import Receipt, Sink
from .sources.files import Input, SourceError
from .sources.references import completer
from .translate.identity import capture_id, inference_call_id

if TYPE_CHECKING:
    from .workers import Pool

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

Progress = Callable[[str, int], None]


def _no_progress(stage: str, amount: int) -> None:
    """Nobody watches."""


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
        pool = None
        if workers > 1:
            from .workers import Pool

            pool = stack.enter_context(Pool(workers))
        return _run(inputs, sink, settings, pool, folder, workers, report, progress)


def _run(
    inputs: Sequence[Input],
    sink: Callable[[frozenset[str] | None], Sink],
    settings: Settings,
    pool: Pool | None,
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
            for some in grouped(rows):
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
    parts: list[Stretch], settings: Settings, pool: Pool | None, index: TraceIndex, result: Conversion
) -> Iterator[tuple[Stretch, Seen]]:
    spans = records = 0

    def take(entries: Entries) -> None:
        index.add(entries.spans, entries.records, entries.lenders, before=(spans, records))

    def work() -> Iterator[Any]:
        if pool is not None:
            yield from pool.first_pass(parts, settings)
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
            take(Entries(*bundle))
        spans += seen.spans
        records += seen.records
        yield part, seen


def _second_pass(
    parts: list[tuple[Stretch, int]],
    settings: Settings,
    pool: Pool | None,
    index: Path,
    folder: Path,
    result: Conversion,
    progress: Progress,
    out: Sink,
) -> Iterator[Group]:
    if pool is None:
        most_bytes = BLOCK_BYTES if out.takes_blocks else BATCH_BYTES
        for part, first in parts:
            yield from map(Group, grouped(rows_of(part, settings, index, first), most_bytes))
            progress("second", part.size)
        return
    shared = out.shared_file()
    done = pool.second_pass(parts, settings, index, folder, shared)
    for (part, _), (error, groups) in zip(parts, done, strict=True):
        if error is not None:
            result.failed_inputs.append(error)
        yield from groups
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
