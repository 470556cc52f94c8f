# SPDX-License-Identifier: Apache-2.0
"""The pipeline of one process: a queue, one worker thread, a sink, an account.

The application's threads only append references (`offer`, `note`); everything else happens on the worker, which
runs with instrumentation suppressed so that no request of ours is traced. Nothing raises into the application.

- *Queues.* Spans that look like model calls, and spans that do not, queue apart, so that a flood of the others
  cannot push a call out. Log records and completions have a queue of their own, which is emptied before the spans
  that were queued at that moment: they came before the end of their span.
- *Overload.* With a full queue a span is dropped and counted, or goes through the spool. A span that does not look
  like a call is counted as skipped without a look.
- *A failing sink* is tried again for a while (`outlet`), then its facts are counted as dropped. The queue takes in
  what it can meanwhile.
- *Fork.* It waits for the worker to stand between two steps (`gate`). The child starts with an empty queue, a new
  worker and a newly opened sink; what was queued is the parent's.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opentelemetry.context import (
    _SUPPRESS_HTTP_INSTRUMENTATION_KEY,
    _SUPPRESS_INSTRUMENTATION_KEY,
    attach,
    set_value,
)
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan

from ..dialects.registry import wanted
from ..genai import Detection, Subject
from ..report import Row, row_of, settle, span_outcome
from ..settings import ProcessSettings, Settings
from ..sinks import Receipt, Sink
from ..sources.references import completer
from ..translate.call import TOGETHER, Translation, translate_subject, translate_subjects
from ..translate.identity import usable_id
from ..vocabulary import DropReason, Outcome, SkipReason, SpanRole
from .account import Account, Snapshot, publish
from .completion import PendingCompletion, without_repeated_content
from .convert import Converter, waits_for_parent
from .gate import ForkGate
from .open_spans import OpenSpans
from .outlet import Outlet, kind_of
from .quiet import LOGGER, quietly_log
from .settling import Ready, Settling
from .spool import Spool

#: Queue for spans that do not look like model calls: so many times the other one.
OTHERS_FACTOR = 8
#: Facts go to the sink at the latest when they have so many bytes together.
BATCH_BYTES = 1024 * 1024
#: Calls that are translated side by side have at most about so much text together.
TOGETHER_BYTES = 512 * 1024


class Pipeline:
    """Spans, log records and completions of one process on their way to one sink."""

    def __init__(
        self,
        sink: str | Sink,
        settings: Settings,
        process: ProcessSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self.settings = settings
        self.process = process
        self._clock = clock
        self.account = Account(kind_of(sink))
        self.gate = ForkGate()
        self.outlet = Outlet(sink, process.retry, clock, self._count_delivery, self.gate)
        self._duration = publish(self.account, meter_provider)
        self.calls: deque[Any] = deque()
        self.others: deque[Any] = deque()
        self.notes: deque[Any] = deque()
        self.account.queued = lambda: len(self.calls) + len(self.others) + len(self._spool)
        self.room = process.queue_size
        self.others_room = process.queue_size * OTHERS_FACTOR
        self._spool = Spool(process.spool_directory, process.spool_bytes)
        self.converter = Converter()
        self.open = OpenSpans(process.open_spans, self.converter)
        self._complete = completer(settings)
        #: "processor" or "exporter", where spans come at all.
        self.span_path: str | None = None
        #: Log records come through a log exporter, some time after their span.
        self.logs_follow = False
        self.closed = False
        self._reset()
        self._start()

    def _reset(self) -> None:
        self.wake = threading.Event()
        self._flushed = threading.Condition()
        self._asked = self._answered = 0
        self._final = False
        self._stop = False
        self._abandoned = False
        self._unsampled: set[int] = set()
        self._settling = Settling(
            self.settings,
            settle=self.process.settle,
            tree_size=self.process.tree_size,
            most_waiting=self.process.waiting_size,
            open_spans=self.open,
        )
        self._worker: threading.Thread | None = None

    def set_span_path(self, path: str | None) -> None:
        """Where spans come from: "processor" (their starts are seen, too), "exporter", or nowhere."""
        self.span_path = path
        self._settling.follows_open = path == "processor"

    def _start(self) -> None:
        self._worker = threading.Thread(target=self._run, name="sediment-otel", daemon=True)
        try:
            self._worker.start()
        except RuntimeError:  # the interpreter is ending: whoever closes does the work
            self._worker = None

    # -- in the application's threads

    def offer(self, span: ReadableSpan, session: str | None, is_call: bool, *, patience: float = 0.0) -> None:
        """Take an ended span. `patience`: seconds to wait for room (an exporter may; a processor never does)."""
        queue = self.calls if is_call else self.others
        if len(queue) < (self.room if is_call else self.others_room):
            queue.append(span if session is None else (span, session))
            return
        self.wake.set()
        if patience > 0 and not self.closed:
            until = time.monotonic() + patience
            while time.monotonic() < until and not self.closed and self._worker is not None:
                if len(queue) < (self.room if is_call else self.others_room):
                    queue.append(span if session is None else (span, session))
                    return
                time.sleep(0.005)
        self.overflow(span, session, is_call)

    def overflow(self, span: ReadableSpan, session: str | None, is_call: bool) -> None:
        """A span for which the queue has no room."""
        if self.closed:
            return
        self.wake.set()
        if self.process.overflow == "spool":
            try:
                packed = (self.converter.span(span), waits_for_parent(span), session)
                if self._spool.put(packed):
                    self.room = self.others_room = 0  # what comes later must not overtake it
                    return
                quietly_log("spool", "the spool is full (%d bytes): spans are dropped", self.process.spool_bytes)
            except Exception as error:
                quietly_log("spool", "the spool cannot be written (%s): spans are dropped", type(error).__name__)
        if is_call:
            self.account.drop(DropReason.QUEUE_FULL)
            quietly_log("queue", "the queue is full (%d spans): spans are dropped and counted", self.process.queue_size)
        else:
            self.account.skip(SkipReason.NOT_A_MODEL_CALL)

    def note(self, what: Any) -> None:
        """Take a log record (as the SDK has it) or a `PendingCompletion`."""
        if self.closed:
            return
        if len(self.notes) >= self.process.queue_size:
            self.wake.set()
            quietly_log("notes", "too many log records or completions at once: some are not joined to their spans")
            return
        self.notes.append(what)

    def expect_unsampled(self, span_id: int) -> None:
        """The hook was called for a span that is recorded but not sampled: its end counts all the same."""
        if len(self._unsampled) >= self.process.queue_size:
            self._unsampled.clear()
        self._unsampled.add(span_id)

    def was_completed(self, span_id: int) -> bool:
        """Whether an unsampled span is expected. Asked once for each."""
        if span_id not in self._unsampled:
            return False
        self._unsampled.discard(span_id)
        return True

    def snapshot(self) -> Snapshot:
        """The account now."""
        return self.account.snapshot()

    def force_flush(self, timeout: float, *, final: bool = False) -> bool:
        """Translate and write what was given so far, within `timeout` seconds; False where that was too short.

        Calls that still lack a session, or their output, go on waiting; with `final` they are decided.
        """
        if self.closed:
            return True
        worker = self._worker
        if worker is None or not worker.is_alive():
            self._cycle(flush=True, final=final)
            return True
        with self._flushed:
            self._asked += 1
            mine = self._asked
            self._final = self._final or final
            self.wake.set()
            return self._flushed.wait_for(lambda: self._answered >= mine, timeout)

    def close(self, timeout: float) -> bool:
        """Decide and write everything within `timeout` seconds, count the rest as dropped, say it in one line."""
        if self.closed:
            return True
        until = time.monotonic() + timeout
        self.outlet.hurry(self._clock() + timeout / 2)
        done = self.force_flush(max(0.0, timeout), final=True)
        self.closed = True
        self.room = self.others_room = 0
        self._stop = True
        self.wake.set()
        if self._worker is not None and done:
            self._worker.join(max(0.0, until - time.monotonic()))
        self.outlet.give_up()
        with self.account.lock:
            self._abandoned = True
            lost = len(self.calls) + len(self._spool) + self.account.held
            self.account.skip(SkipReason.NOT_A_MODEL_CALL, len(self.others))
            self.account.drop(DropReason.SHUTDOWN_TIMEOUT, lost)
            self.account.held = 0
            self.calls.clear()
            self.others.clear()
            self._spool.close()
        if done:
            self.outlet.close()
        found = self.account.snapshot()
        say = LOGGER.warning if found.dropped else LOGGER.info
        say("sediment-otel: %s", found)
        return done

    def after_fork(self) -> None:
        """Start anew: the parent's queue, threads and file handles are the parent's."""
        if self.closed:
            return
        for queue in (self.calls, self.others, self.notes):
            queue.clear()
        self._spool.reset()
        self.account.after_fork()
        self.gate.renew()
        self.outlet.after_fork()
        self.room = self.process.queue_size
        self.others_room = self.room * OTHERS_FACTOR
        self.converter = self.open.converter = Converter()
        self._reset()
        self._settling.follows_open = self.span_path == "processor"
        self._start()

    # -- on the worker

    def _run(self) -> None:
        attach(set_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY, True, set_value(_SUPPRESS_INSTRUMENTATION_KEY, True)))
        while not self._stop:
            self.wake.wait(self.process.schedule_delay)
            self.wake.clear()
            with self._flushed:
                asked, final = self._asked, self._final
                self._final = False
            try:
                self._cycle(flush=asked > self._answered, final=final)
            except Exception as error:  # nothing that a trace holds may end the worker
                quietly_log("worker", "the worker failed on a batch (%s); it goes on", type(error).__name__)
            with self._flushed:
                self._answered = asked
                self._flushed.notify_all()

    def _cycle(self, *, flush: bool, final: bool) -> None:
        """Empty the queues as they are now, and decide what can be decided."""
        self._settling.next_round()
        left = len(self.calls)
        while not self._abandoned:
            self._take_notes(final)
            self._take_spans(self.others, len(self.others))
            taken = self._take_spans(self.calls, min(left, self.process.batch_size))
            left -= taken
            if not left and self._take_spooled():
                self._settle(flush=False, final=False)
                continue
            if not left:
                break
            self._settle(flush=False, final=False)
        self._settle(flush=flush, final=final)

    def _take_notes(self, final: bool) -> None:
        now = self._clock()
        for _ in range(len(self.notes)):
            what = self.notes.popleft()
            try:
                if isinstance(what, PendingCompletion):
                    self._take_completion(what, now, final)
                else:
                    record = self.converter.record(what)
                    if wanted(record):
                        self._settling.add_record(record, now)
            except Exception as error:
                quietly_log("note", "a log record or completion cannot be read (%s)", type(error).__name__)

    def _take_completion(self, pending: PendingCompletion, now: float, final: bool) -> None:
        spans_come = pending.recorded and (
            self.span_path == "processor" or (self.span_path == "exporter" and pending.sampled)
        )
        if not spans_come and pending.may_still_end(now, self.process.settle) and not final:
            self.notes.append(pending)  # its span is all that comes of it: look again
            return
        found = pending.completion(self.converter)
        if not spans_come:
            with self.account.lock:
                self.account.held += 1
        if found.role is SpanRole.CALL and not found.content.get("output") and not self.settings.include_failed:
            # The hook does not say that a call failed, and the span that would is not recorded: there is no answer.
            with self.account.lock:
                self.account.held -= 1
                self.account.skip(SkipReason.FAILED_CALL)
            return
        self._settling.add_completion(found, now)
        if not spans_come and found.role is None:
            self._settling.add_span(found.span, now, local_parent=False, session=found.session)

    def _take_spans(self, queue: deque[Any], most: int) -> int:
        now = self._clock()
        log_wait = self.process.log_wait if self.logs_follow else 0.0
        taken = 0
        for _ in range(most):
            with self.account.lock:
                if not queue:
                    break
                item = queue.popleft()
                self.account.held += 1
            taken += 1
            span, session = item if type(item) is tuple else (item, None)
            try:
                self._settling.add_span(
                    self.converter.span(span),
                    now,
                    local_parent=waits_for_parent(span),
                    session=usable_id(session),
                    log_wait=log_wait,
                )
            except Exception as error:
                quietly_log("span", "a span cannot be read (%s)", type(error).__name__)
                with self.account.lock:
                    if not self._abandoned:
                        self.account.held -= 1
                        self.account.skipped[SkipReason.MALFORMED.value, "none"] += 1
        return taken

    def _take_spooled(self) -> bool:
        with self.account.lock:
            found = self._spool.get(self.process.batch_size)
            self.account.held += len(found)
        now = self._clock()
        log_wait = self.process.log_wait if self.logs_follow else 0.0
        for span, local_parent, session in found:
            self._settling.add_span(span, now, local_parent=local_parent, session=usable_id(session), log_wait=log_wait)
        if not len(self._spool) and not self.closed:
            self.room = self.process.queue_size
            self.others_room = self.room * OTHERS_FACTOR
            if len(self._spool):  # another thread was quicker
                self.room = self.others_room = 0
        return bool(found)

    def _settle(self, *, flush: bool, final: bool) -> None:
        rows: list[Row] = []
        size = 0
        for some in _together(self._settling.ready(self._clock(), flush=flush, final=final)):
            for row in self._translate(some):
                rows.append(row)
                if row.delivery is not None:
                    size += len(row.delivery.encoded)
                if len(rows) >= self.process.batch_size or size >= BATCH_BYTES:
                    self._deliver(rows)
                    rows, size = [], 0
        if rows:
            self._deliver(rows)

    def _translate(self, some: list[Ready]) -> list[Row]:
        """Some calls side by side; each is told an even share of the time."""
        started = time.perf_counter()
        new = sum(ready.is_new for ready in some)
        if new:
            with self.account.lock:
                self.account.held += new
        try:
            with self.gate:  # what translation imports or fetches at its first call takes locks
                found = translate_subjects([(self._whole(ready), ready.context) for ready in some], self.settings)
        except Exception:  # translation never raises; if it does, the span that it fails on is found and is the cost
            found = [self._translate_alone(ready) for ready in some]
        share = (time.perf_counter() - started) / len(some)
        with self.gate:
            for each in found:
                if each.detection.role is SpanRole.CALL:
                    self._duration.record(share, {"sediment.dialect": each.detection.dialect})
        return [row_of(each, ready.subject.capture_key) for each, ready in zip(found, some, strict=True)]

    def _translate_alone(self, ready: Ready) -> Translation:
        try:
            with self.gate:
                return translate_subject(self._whole(ready), self.settings, ready.context)
        except Exception as error:
            quietly_log("translate", "a span cannot be translated (%s)", type(error).__name__)
            span, detection = ready.subject.span, ready.subject.detection or Detection("none", SpanRole.OTHER, "")
            return Translation(Outcome.SKIPPED, span, detection, SkipReason.MALFORMED, type(error).__name__)

    def _whole(self, ready: Ready) -> Subject:
        subject = without_repeated_content(ready.subject)
        return subject if self._complete is None else self._complete(subject)

    def _deliver(self, rows: list[Row]) -> None:
        facts = [row for row in rows if row.delivery is not None]
        receipts = self.outlet.write([row.delivery for row in facts if row.delivery is not None]) if facts else []
        lost = 0
        if receipts is None:
            lost = len(facts)
            rows = [row for row in rows if row.delivery is None]
        else:
            for row, receipt in zip(facts, receipts, strict=True):
                if receipt is not Receipt.STORED:
                    settle(row, receipt)
        self.outlet.record_outcomes([span_outcome(row) for row in rows if row.is_call])
        with self.account.lock:
            if self._abandoned:
                return
            for row in rows:
                self.account.take(row)
            self.account.drop(DropReason.SINK_FAILED, lost)
            self.account.held -= len(rows) + lost

    def _count_delivery(self, error: str) -> None:
        with self.account.lock:
            self.account.deliveries[error] += 1


def _together(given: Iterable[Ready]) -> Iterator[list[Ready]]:
    """As many calls as are translated side by side; a fork waits for them, so large ones go by themselves."""
    some: list[Ready] = []
    size = 0
    for ready in given:
        some.append(ready)
        size += sum(len(value) for value in ready.subject.span.attributes.values() if type(value) is str)
        if len(some) >= TOGETHER or size >= TOGETHER_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
