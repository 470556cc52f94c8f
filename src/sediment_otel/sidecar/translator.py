# SPDX-License-Identifier: Apache-2.0
"""From the journal to the store: waits for each request's settle window, decides, translates, commits.

Knows neither sockets nor processes: `step(now, wall)` does what is due and says when to come back. Everything is
in the journal or the store, so it may stop between any two instructions and be started again: what was
committed is known from a note in the same transaction as the outcomes, and nothing is decided twice.

Times: `now` is monotonic seconds, `wall` wall-clock nanoseconds. The wall clock only says how much of its
window a request of an earlier run has behind it; a clock that was set back makes it wait a window at most.
"""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..dialects.registry import detect, log_calls
from ..genai import Detection, Subject
from ..otlp import decode_json, decode_protobuf
from ..pipeline import translate_log_call, unreadable
from ..report import Row, row_of, settle, span_outcome
from ..settings import Settings
from ..sinks.base import Receipt, SinkError
from ..sinks.store import Store
from ..sources.references import completer
from ..telemetry import Batch, LogRecord, Rejected, Span
from ..translate.call import Context, Translation, translate_subject
from ..vocabulary import Outcome, SkipReason, SpanRole
from .attempts import Attempts
from .entries import Entries, look, unpack
from .journal import DONE, FREE, WAITING, connect, unpacked
from .traces import FACT, Found, Pending, Place, Traces

#: What goes into one transaction of the store, at most (a single request may be larger).
GROUP_BYTES = 8 * 1024 * 1024
GROUP_REQUESTS = 64
#: Decoded requests that are kept because log records or lenders in them may be asked for again.
CACHE_BYTES = 16 * 1024 * 1024
#: Spans that are remembered at most; requests past that wait in the journal.
MOST_SPANS = 120_000
#: Requests that are read from the journal at one time.
PORTION = 256
#: Log records wait this many windows for their span: SDKs send records every second, spans every five.
RECORD_WINDOWS = 2.0
#: A stream of records without spans is cut after so many windows, however young its last one is.
STREAM_WINDOWS = 4.0

_FAILED = Detection("none", SpanRole.OTHER, "the translation failed")

Send = Callable[[tuple[Any, ...]], None]
Translate = Callable[[Subject, Settings, Context], Translation]
_GIVEN_UP = "translating its request ended the translator several times: please report it"


@dataclass(slots=True)
class Done:
    """What one commit did: for the journal and for the counters."""

    translated: list[int] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(slots=True)
class _Begun:
    """A transaction of the store that is on its way: `wait` ends with it."""

    rows: list[tuple[int, int, Row]]
    finished: list[int]
    used: list[Pending]
    done: Done
    wait: Callable[[], object]


@dataclass(slots=True)
class _Waiting:
    number: int
    due: float


class Translator:
    """One journal, one store. `send` takes `("done", group, translated, free, counts)` and `("given up", number)`."""

    def __init__(
        self,
        journal: Path,
        store: Store,
        settings: Settings,
        *,
        window: float,
        keep: float,
        send: Send,
        run: str,
        translate: Translate | None = None,
    ) -> None:
        self._translate = translate
        self._database = connect(journal, read_only=True)
        self._store = store
        self._settings = settings
        self._complete = completer(settings)
        self._window = window
        self._keep = keep
        self._send = send
        self._run = run
        self._groups = 0
        self._unconfirmed: OrderedDict[int, list[int]] = OrderedDict()
        self._traces = Traces(lambda trace, span: store.has_call(f"{trace}:{span}"))
        self._last = 0
        self._waiting: deque[_Waiting] = deque()
        self._held: dict[int, float] = {}
        self._kept: deque[tuple[float, int]] = deque()
        self._arrived: dict[int, float] = {}
        self._cache: OrderedDict[int, tuple[int, Batch]] = OrderedDict()
        self._cached = 0
        (identity,) = self._database.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()
        self._attempts = Attempts(journal.with_name("translator.at"), identity)
        self._note = f"sidecar:{identity}"
        noted = json.loads(store.note(self._note) or "[]")
        self._done_before = {int(number) for number in noted}
        self._tick = 0.0
        self._now = 0.0
        #: When the last request that was read arrived.
        self._read_until = -math.inf

    def close(self) -> None:
        """Let go of the journal."""
        self._attempts.close()
        self._database.close()

    @property
    def idle(self) -> bool:
        """Whether nothing waits for its outcome, as far as the journal was read."""
        return not self._waiting and not self._held

    # -- one step

    def step(self, now: float, wall: int) -> float:
        """Do what is due; the seconds after which to come back (0: at once)."""
        self._now = now
        full = self._traces.spans >= MOST_SPANS and bool(self._waiting)
        all_read = not full and self._read(now, wall)
        # Windows are over as far as the journal was read: what lies behind in it may have arrived in time.
        over = now if all_read else self._read_until
        due = now if full and self._waiting[0].due > over else over  # nothing more can be read before something leaves
        worked = False
        if self._waiting and self._waiting[0].due <= due:
            self._translate_due(due)
            worked = True
        if now >= self._tick:
            self._tick = now + min(0.25, max(self._window / 4, 0.02))
            self._look_after_held(over)
            self._forget(now)
        if not (all_read or full) or (worked and self._waiting and self._waiting[0].due <= due):
            return 0.0
        if self._waiting:
            return max(0.0, min(0.05, self._waiting[0].due - now))
        return 0.05

    # -- reading the journal

    def _read(self, now: float, wall: int) -> bool:
        """Read on in the journal; whether that was all of it."""
        rows = self._database.execute(
            "SELECT id, arrived, entries, translated FROM requests WHERE id > ? ORDER BY id LIMIT ?",
            (self._last, PORTION),
        ).fetchall()
        for number, arrived, packed, state in rows:
            self._last = number
            entries = unpack(packed) if packed else None
            if entries is None:
                if state == FREE:
                    continue
                with self._attempts.at([number]) if not self._attempts.given_up(number) else nullcontext():
                    entries = look(self._load(number), self._settings)
            self._arrived[number] = arrival = now - max((wall - arrived) / 1e9, 0.0)
            self._read_until = max(self._read_until, arrival)
            if state == WAITING and number in self._done_before:
                state = DONE
                self._report(Done(translated=[number]))
            self._traces.add(number, entries, settled=state != WAITING, free=state == FREE)
            if state == WAITING:
                self._waiting.append(_Waiting(number, arrival + self._window))
            elif state == DONE:
                self._held[number] = arrival + self._window * RECORD_WINDOWS
            else:
                self._kept.append((arrival + self._keep, number))
        if rows:
            self._confirm()
        return len(rows) < PORTION

    def _confirm(self) -> None:
        """Forget the groups that the journal knows."""
        row = self._database.execute("SELECT value FROM meta WHERE key = 'group'").fetchone()
        run, _, group = (row[0] if row else "").partition(":")
        if run == self._run:
            for number in [n for n in self._unconfirmed if n <= int(group)]:
                del self._unconfirmed[number]
            self._done_before.clear()

    def _load(self, number: int) -> Batch:
        if self._attempts.given_up(number):
            return Batch(items=[])
        cached = self._cache.get(number)
        if cached is not None:
            self._cache.move_to_end(number)
            return cached[1]
        row = self._database.execute(
            "SELECT signal, form, body FROM requests r JOIN bodies b ON b.id = r.id WHERE r.id = ?", (number,)
        ).fetchone()
        if row is None:
            return Batch(items=[])
        signal, form, body = row
        data = unpacked(body)
        if form == "json":
            batch = decode_json(data, strict=True)
        else:
            batch = decode_protobuf(data, signal="logs" if signal == "logs" else "traces", strict=True)
        wanted = Span if signal == "traces" else LogRecord
        if any(type(item) is not wanted for item in batch.items):
            # What is not of the signal was refused; places must stay, so it is blanked and not taken out.
            blank = Rejected(kind="document", place="", reason="refused")
            batch = Batch(items=[i if type(i) is wanted or _unread(i) else blank for i in batch.items])
        if len(data) <= CACHE_BYTES:
            self._cache[number] = (len(data), batch)
            self._cached += len(data)
            while self._cached > CACHE_BYTES:
                _, (size, _) = self._cache.popitem(last=False)
                self._cached -= size
        return batch

    def _drop_cached(self, number: int) -> None:
        cached = self._cache.pop(number, None)
        if cached is not None:
            self._cached -= cached[0]

    # -- translating

    def _translate_due(self, now: float) -> None:
        group: list[int] = []
        while self._waiting and self._waiting[0].due <= now and len(group) < GROUP_REQUESTS:
            suspect = self._waiting[0].number in self._attempts.deaths
            if suspect and group:
                break
            group.append(self._waiting.popleft().number)
            if suspect:
                break
        try:
            if self._attempts.given_up(group[0]):
                self._translate_group(group, now)
                self._send(("given up", group[0]))
            else:
                with self._attempts.at(group):
                    self._translate_group(group, now)
        except SinkError:
            for number in reversed(group):
                if not self._traces.settled(number):
                    self._waiting.appendleft(_Waiting(number, now))
            raise

    def _translate_group(self, group: list[int], now: float) -> None:
        found = self._traces.decide(group)
        records_of: dict[int, list[Pending]] = {}
        for (number, _), known in found.items():
            if known.records:
                records_of.setdefault(number, []).extend(known.records)
        rows: list[tuple[int, int, Row]] = []
        size = 0
        finished: list[int] = []
        used: list[Pending] = []
        begun: _Begun | None = None
        for number in group:
            for index, row in self._rows(number, found):
                rows.append((number, index, row))
                if row.delivery is not None:
                    size += len(row.delivery.encoded)
                if size >= GROUP_BYTES:
                    # All of the group is decided: translating goes on while the device takes what came before.
                    self._end(begun, now)
                    begun = self._begin(rows, finished, used)
                    rows, finished, used, size = [], [], [], 0
            finished.append(number)
            used += records_of.get(number, ())
            if not self._traces.waits_for_records(number):
                self._drop_cached(number)
        self._end(begun, now)
        self._end(self._begin(rows, finished, used), now)

    def _rows(self, number: int, found: dict[Place, Found]) -> Iterable[tuple[int, Row]]:
        if self._attempts.given_up(number):
            yield from self._rows_given_up(number)
            return
        for index, item in enumerate(self._load(number).items):
            if type(item) is Span:
                yield index, row_of(self._translated(item, found.get((number, index))))
            elif type(item) is Rejected and item.kind == "span":
                yield index, row_of(unreadable(item))

    def _rows_given_up(self, number: int) -> Iterable[tuple[int, Row]]:
        """The body is not touched any more: what is known of its spans was written when it arrived."""
        (packed,) = self._database.execute("SELECT entries FROM requests WHERE id = ?", (number,)).fetchone()
        entries: Entries | None = unpack(packed) if packed else None
        if entries is None:
            return
        for seen in entries.spans:
            span = Span(trace_id=seen.trace_id, span_id=seen.span_id, parent_span_id=seen.parent_span_id, name="")
            yield seen.index, row_of(Translation(Outcome.SKIPPED, span, _FAILED, SkipReason.MALFORMED, _GIVEN_UP))
        for count in range(entries.unread):
            yield -1 - count, row_of(unreadable(Rejected(kind="span", place="", reason=_GIVEN_UP)))

    def _translated(self, span: Span, known: Found | None) -> Translation:
        """A span that the translation fails on must not hold up all that come after it."""
        try:
            return self._translation(span, known)
        except Exception as error:
            note = f"internal error ({type(error).__name__}): please report it"
            return Translation(Outcome.SKIPPED, span, _FAILED, SkipReason.MALFORMED, note)

    def _translation(self, span: Span, known: Found | None) -> Translation:
        if known is None:
            return (self._translate or translate_subject)(Subject(span), self._settings, Context())
        if known.duplicate:
            return Translation(Outcome.SKIPPED, span, detect(span), SkipReason.DUPLICATE, "sent again")
        decision = known.decision
        context = Context.of(decision, known.incomplete)
        records = [item for item in map(self._item, (r.place for r in known.records)) if type(item) is LogRecord]
        siblings = [item for item in map(self._item, known.siblings) if type(item) is Span]
        subject = Subject(span, tuple(records), tuple(siblings))
        whole = self._complete(subject) if self._complete else subject
        return (self._translate or translate_subject)(whole, self._settings, context)

    def _item(self, place: Place) -> Any:
        number, index = place
        items = self._load(number).items
        return items[index] if index < len(items) else None

    # -- committing

    def _begin(self, rows: list[tuple[int, int, Row]], finished: list[int], used: list[Pending]) -> _Begun | None:
        """Outcomes on their way to the store. Raises `SinkError`; nothing is lost by that."""
        if not rows and not finished:
            return None
        wait = self._store_rows([row for _, _, row in rows], finished)
        return _Begun(rows, finished, used, Done(translated=list(finished)), wait)

    def _end(self, begun: _Begun | None, now: float) -> None:
        """The outcomes are in the store: the word to the journal. Raises `SinkError`; nothing is lost by that."""
        if begun is None:
            return
        begun.wait()
        finished, used, done = begun.finished, begun.used, begun.done
        outcomes: dict[int, dict[int, str]] = {number: {} for number in finished}
        for number, index, row in begun.rows:
            _count(row, done.counts)
            outcomes.setdefault(number, {})[index] = row.reason.value if row.reason is not None else FACT
        for number in finished:
            self._traces.settle(number, outcomes[number])
        touched = self._traces.release(used) if used else set()
        for number in finished:
            self._held[number] = self._arrived.get(number, now) + self._window * RECORD_WINDOWS
        for number in {*finished, *touched}:
            self._free_if_done(number, done)
        self._report(done)

    def _store_rows(self, rows: list[Row], finished: Iterable[int]) -> Callable[[], object]:
        """The rows into the store; what is returned waits until they are in it."""
        facts = [row for row in rows if row.delivery is not None]
        deliveries = [row.delivery for row in facts if row.delivery is not None]
        noted = [number for numbers in self._unconfirmed.values() for number in numbers]
        noted += [*self._done_before, *finished]

        def outcomes(receipts: list[Receipt]) -> list[Any]:
            for row, receipt in zip(facts, receipts, strict=True):
                if receipt is not Receipt.STORED:
                    settle(row, receipt)
            return [span_outcome(row) for row in rows]

        return self._store.commit_later(deliveries, outcomes, {self._note: json.dumps(noted)})

    def _free_if_done(self, number: int, done: Done) -> None:
        if number in self._held and not self._traces.waits_for_records(number) and not self._traces.lends(number):
            self._free(number, done)

    def _free(self, number: int, done: Done) -> None:
        del self._held[number]
        self._attempts.deaths.pop(number, None)
        done.free.append(number)
        self._drop_cached(number)
        self._kept.append((self._now + self._keep, number))

    def _report(self, done: Done) -> None:
        self._groups += 1
        self._unconfirmed[self._groups] = list(done.translated)
        self._send(("done", f"{self._run}:{self._groups}", done.translated, done.free, dict(done.counts)))

    # -- what waits on

    def _look_after_held(self, now: float) -> None:
        """Requests whose log records or lending spans have waited long enough."""
        if self._unconfirmed:
            self._confirm()
        over = [number for number, until in self._held.items() if until <= now]
        if not over:
            return
        done = Done()
        orphans, late = self._traces.overdue(over)
        if late:
            done.counts["late_log_records_total", ""] += len(late)
        touched = self._traces.release(late)
        chosen = self._ripe(orphans, now)
        if chosen:
            requests = {record.request for record in chosen}
            for number in filter(self._attempts.given_up, sorted(requests)):
                self._send(("given up", number))
            with self._attempts.at(requests):
                rows, unused = self._log_calls(chosen)
            if unused:
                done.counts["unused_log_records_total", ""] += unused
            self._store_rows(rows, ())()
            for row in rows:
                _count(row, done.counts)
            touched |= self._traces.unused(chosen)
        for number in {*over, *touched}:
            if number not in self._held or self._traces.waits_for_records(number):
                continue
            if not self._traces.lends(number, may_come=False):
                self._free(number, done)
        if done.free or done.counts:
            self._report(done)

    def _ripe(self, orphans: list[Pending], now: float) -> list[Pending]:
        """Of the records without a span those whose stream has come to rest."""
        streams: dict[str, list[Pending]] = {}
        for record in orphans:
            streams.setdefault(_stream(record), []).append(record)
        if not streams:
            return []
        latest: dict[str, float] = {}
        for number in self._arrived:
            for record in self._traces.pending_of(number):
                name = _stream(record)
                if name in streams:
                    latest[name] = max(latest.get(name, 0.0), self._arrived[number])
        chosen: list[Pending] = []
        for name, records in streams.items():
            oldest = min(self._arrived.get(record.request, now) for record in records)
            if latest.get(name, now) + self._window <= now or oldest + self._window * STREAM_WINDOWS <= now:
                chosen += records
        suspect = next((record.request for record in chosen if record.request in self._attempts.deaths), None)
        if suspect is not None:
            blamed = {_stream(record) for record in chosen if record.request == suspect}
            chosen = [record for record in chosen if _stream(record) in blamed]
        return sorted(chosen, key=lambda record: (record.request, record.seen.index))

    def _log_calls(self, records: list[Pending]) -> tuple[list[Row], int]:
        found = [item for item in (self._item(record.place) for record in records) if type(item) is LogRecord]
        rows: list[Row] = []
        taken: set[int] = set()
        for dialect, call in log_calls(found):
            taken.update(id(record) for record in call.records)
            rows.append(row_of(translate_log_call(dialect, call, self._settings, self._complete), call.capture_key))
        return rows, sum(id(record) not in taken for record in found)

    def _forget(self, now: float) -> None:
        while self._kept and (self._kept[0][0] <= now or self._traces.spans > MOST_SPANS):
            _, number = self._kept.popleft()
            self._traces.forget(number)
            self._arrived.pop(number, None)


def _unread(item: Any) -> bool:
    return type(item) is Rejected and item.kind == "span"


def _stream(record: Pending) -> str:
    seen = record.seen
    return seen.session or seen.trace_id or seen.response_id or ""


def _count(row: Row, counts: Counter[tuple[str, str]]) -> None:
    if row.incomplete:
        counts["incomplete_context_total", ""] += 1
    if row.reason is not None:
        counts["skipped_total", row.reason.value] += 1
        return
    counts["facts_total", ""] += 1
    for code, _, _ in row.losses:
        counts["degraded_total", code.value] += 1
