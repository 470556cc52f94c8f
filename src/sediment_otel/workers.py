# SPDX-License-Identifier: Apache-2.0
"""Both passes in processes of their own. The parent keeps the index, the order and the sink.

Entries and rows come back packed. Facts do not come back where the sink has a file to share: each worker writes
its own at the place that follows those of the stretches before.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import active_children, get_all_start_methods, get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from .index import LenderEntry, RecordEntry, SpanEntry
from .passes import BLOCK_BYTES, Group, Seen, Stretch, first_look, grouped, rows_of
from .pipeline import Entries
from .report import Row
from .settings import Settings
from .sources.files import SourceError

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[list[Row], list[int]]).decode


Bundle: TypeAlias = tuple[list[SpanEntry], list[RecordEntry], list[LenderEntry]]
_unpack_entries = msgspec.msgpack.Decoder(Bundle).decode


def _first_pass(stretch: Stretch, settings: Settings) -> tuple[Seen, list[bytes]] | str:
    """What was counted, and the entries in bundles. Packed they are read by the parent in a fraction of the time."""
    bundles: list[bytes] = []

    def take(entries: Entries) -> None:
        bundles.append(_pack((entries.spans, entries.records, entries.lenders)))

    try:
        return first_look(stretch, settings, take), bundles
    except SourceError as error:
        return str(error)


def _second_pass(
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
            for group in grouped(rows_of(stretch, settings, index, first), BLOCK_BYTES):
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


class Pool:
    """Work in processes with results in order, never more than a few ahead (so that files do not pile up)."""

    def __init__(self, workers: int) -> None:
        self.ahead = workers + 2
        context = get_context(_start_method())
        self.turns = _Turns(context)
        self._pool = ProcessPoolExecutor(workers, context, _become_worker, (self.turns,))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if kind is not None:
            for child in active_children():
                child.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def first_pass(self, parts: Iterable[Stretch], settings: Settings) -> Iterator[tuple[Seen, list[Bundle]] | str]:
        """For each stretch, in order, what was counted and its entries; the error of one that cannot be read."""
        for found in self._ordered(_first_pass, ((part, settings) for part in parts)):
            yield found if type(found) is str else (found[0], [_unpack_entries(bundle) for bundle in found[1]])

    def second_pass(
        self, parts: Sequence[tuple[Stretch, int]], settings: Settings, index: Path, folder: Path, shared: str | None
    ) -> Iterator[tuple[str | None, Iterator[Group]]]:
        """For each stretch (with its first ordinal), in order, its error and its rows. With a `shared` file the facts
        are in it already."""
        files = [folder / f"rows-{number}" for number in range(len(parts))]
        calls = (
            (part, settings, index, first, files[number], shared, number) for number, (part, first) in enumerate(parts)
        )
        for file, error in zip(files, self._ordered(_second_pass, calls), strict=True):
            yield error, _read_groups(file, shared is not None)

    def _ordered(self, work: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
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
