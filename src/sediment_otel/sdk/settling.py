# SPDX-License-Identifier: Apache-2.0
"""Deciding calls while a trace is still being written: what waits, for what, and how long. Pure.

Spans come in the order in which they ended, log records and completions before the span they belong to
(or, through an exporter, somewhat later). A call is decided

- when it has output and names its session: its descendants ended before it, nothing else can matter;
- when it lacks a session: once its ancestors up to the first that names one have ended;
- when it lacks output: once its ancestors up to the first tool or agent span have ended (one of them may be the
  call that it belongs to);
- in every case when `settle` seconds have passed, when memory runs short, or when the pipeline closes. Ancestors
  that are still open are then read as they are, and the decision is marked `incomplete`.

The decision itself is `translate.select.decide`, as everywhere. Nothing is kept for ever: ended spans are
remembered up to `tree_size`, calls, records and completions wait up to `most_waiting` of each; what is
forgotten is decided first. Times are seconds of any rising clock; the caller brings them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple, Protocol

import msgspec

from ..dialects import gen_ai
from ..dialects.registry import join_id, lends_ids, log_calls, record_dialect
from ..genai import Detection, Subject
from ..pipeline import log_subject
from ..settings import Settings
from ..telemetry import LogRecord, Span
from ..translate.call import Context
from ..translate.glimpse import glimpse_span, record_bits, record_session, session_of
from ..translate.identity import usable_id
from ..translate.select import LATE_NS, STANDS_ALONE, Decision, Glimpse, decide
from ..vocabulary import SpanRole
from .trees import Call, Tree, Trees, below

#: Traces in which nothing happened for so many settle times are forgotten.
IDLE_SETTLES = 4
#: Seconds between two looks at every waiting call.
LOOK_SECONDS = 0.25
#: Records that a producer emits when the call is over: with one of them here, the others are here too.
LAST_RECORDS = frozenset({gen_ai.DETAILS, gen_ai.CHOICE})
BAGGAGE = "baggage session.id"

Key = tuple[str, str]


class Ready(NamedTuple):
    """A subject that can be translated now. `is_new`: its span was never given, log records or the hook told it."""

    subject: Subject
    context: Context
    is_new: bool = False


class Live(NamedTuple):
    """An ancestor that has not ended, as it is now."""

    span: Span
    local_parent: bool


class Open(Protocol):
    """The spans that were started and have not ended, as far as the caller follows them."""

    def is_open(self, span_id: str) -> bool:
        """Whether the span is one of them."""

    def live(self, span_id: str) -> Live | None:
        """The span as it is now, where it is one of them."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What a completion hook was given: content, the session of the baggage, and what is known of its span.

    `role` is None where the span itself can tell what it is. Otherwise the span is not recorded: `span` has its
    ids and the time of the completion, `record` is the log record that goes with it, and no more will come.
    """

    span: Span
    content: dict[str, Any]
    session: str | None = None
    record: LogRecord | None = None
    role: SpanRole | None = None


class Settling:
    """The undecided part of the traces of one process.

    With `follows_open` the caller knows all open spans (a processor); without (an exporter) a local parent that was
    not seen may still come.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        settle: float,
        tree_size: int,
        most_waiting: int,
        open_spans: Open,
        follows_open: bool = False,
    ) -> None:
        self._settings = settings
        self._settle = settle
        self._most_waiting = most_waiting
        self._open = open_spans
        self.follows_open = follows_open
        self.trees = Trees(tree_size, self._decide_all)
        self._calls: OrderedDict[Key, Call] = OrderedDict()
        self._again: list[Call] = []
        self._changed: set[str] = set()
        self._next_look = 0.0
        self._round = 0
        self._records: OrderedDict[Key, tuple[float, list[LogRecord]]] = OrderedDict()
        self._record_count = 0
        self._loose: list[tuple[float, LogRecord]] = []
        self._completions: OrderedDict[Key, tuple[float, Completion]] = OrderedDict()
        self._ready: list[Ready] = []
        self._ordinal = 0

    @property
    def waiting(self) -> int:
        """How many calls are not decided."""
        return len(self._calls) + len(self._again) + len(self._ready)

    # -- what comes in

    def add_span(
        self, span: Span, now: float, *, local_parent: bool, session: str | None = None, log_wait: float = 0.0
    ) -> None:
        """An ended span. `session` is that of the baggage it was started under; `log_wait` how long its log
        records may follow it."""
        self._ordinal += 1
        glimpse = glimpse_span(self._ordinal, span, self._settings)
        key = (span.trace_id, span.span_id)
        tree = self._touch(span.trace_id, now)
        if glimpse.role is not SpanRole.CALL:
            self.trees.remember(tree, glimpse, local_parent)
            if span.parent_span_id is not None and lends_ids(span):
                tree.lenders.setdefault(span.parent_span_id, []).append(span)
            self._completions.pop(key, None)
            self._ready.append(Ready(Subject(span), Context()))
            return
        call = Call(span, glimpse, local_parent, now + self._settle, now + log_wait, session)
        completion = self._completions.pop(key, None)
        if completion is not None:
            self._complete(call, completion[1])
        for record in self._take_records(key):
            self._add_to(call, record)
        self.trees.remember(tree, call.glimpse, local_parent)
        if key in self._calls:  # the same span once more: both are decided, the sink tells them apart
            self._again.append(call)
        else:
            self._calls[key] = call
        tree.calls.append(call)
        if len(self._calls) > self._most_waiting:
            self._decide(next(iter(self._calls.values())), forced=True)

    def add_record(self, record: LogRecord, now: float) -> None:
        """A log record that some dialect wants."""
        if record.trace_id is None or record.span_id is None:
            self._loose.append((now, record))
            if len(self._loose) > self._most_waiting:
                self._judge_orphans([self._loose.pop(0)[1]])
            return
        key = (record.trace_id, record.span_id)
        call = self._calls.get(key)
        if call is not None:
            self._add_to(call, record)
            self._refresh(call)
            return
        if key[1] in self.trees.get(key[0]).spans:
            return  # too late: its span is decided
        self._records.setdefault(key, (now, []))[1].append(record)
        self._records[key] = (now, self._records[key][1])
        self._records.move_to_end(key)
        self._record_count += 1
        while self._record_count > self._most_waiting:
            self._judge_orphans(self._take_records(next(iter(self._records))))

    def add_completion(self, completion: Completion, now: float) -> None:
        """What a completion hook was given. Of a span that is not recorded no more will come."""
        span = completion.span
        key = (span.trace_id, span.span_id)
        if completion.role is not None:
            # Known from now on: its log records have come with it.
            self.trees.remember(self._touch(span.trace_id, now), Glimpse(0, span.span_id, None, completion.role), False)
            self._ready.append(self._from_completion(completion, is_new=False))
            return
        call = self._calls.get(key)
        if call is not None:
            self._complete(call, completion)
            self._refresh(call)
            return
        self._completions[key] = (now, completion)
        if len(self._completions) > self._most_waiting:
            _, (_, oldest) = self._completions.popitem(last=False)
            self._ready.append(self._from_completion(oldest))

    # -- what comes out

    def ready(self, now: float, *, flush: bool = False, final: bool = False) -> list[Ready]:
        """Everything that can be decided at `now`.

        `flush`: also calls that are complete but for what open ancestors may still say. `final`: everything.
        """
        for call in self._to_look_at(now, flush or final):
            forced = final or now >= call.deadline
            if forced or not self._waits(call, now) or (flush and self._would_be_fact(call)):
                self._decide(call, forced or flush)
        self._expire(now, final)
        out, self._ready = self._ready, []
        return out

    def next_round(self) -> None:
        """To be called before the queue is emptied: everything that ended before has come when the next one begins."""
        self._round += 1

    def _to_look_at(self, now: float, everything: bool) -> list[Call]:
        """All waiting calls, now and then; in between those of the traces in which something happened."""
        if everything or now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._changed.clear()
            return [*self._calls.values(), *self._again]
        changed, self._changed = self._changed, set()
        return [call for trace_id in changed for call in self.trees.get(trace_id).calls]

    def _refresh(self, call: Call) -> None:
        """The tree takes over what was learnt of a call after its span was seen."""
        known = self.trees.get(call.span.trace_id).spans.get(call.span.span_id)
        if known is not None:
            known.glimpse = call.glimpse
        self._changed.add(call.span.trace_id)

    def _expire(self, now: float, final: bool) -> None:
        while self._completions:
            key, (arrived, completion) = next(iter(self._completions.items()))
            if not final and arrived + self._settle > now:
                break
            del self._completions[key]
            self._ready.append(self._from_completion(completion))
        while self._records:
            key, (arrived, _) = next(iter(self._records.items()))
            if not final and arrived + self._settle > now:
                break
            if not final and self._open.is_open(key[1]):  # a long call
                self._records[key] = (now, self._records[key][1])
                self._records.move_to_end(key)
                continue
            self._judge_orphans(self._take_records(key))
        late = [record for arrived, record in self._loose if final or arrived + self._settle <= now]
        if late:
            self._loose = [] if final else [pair for pair in self._loose if pair[0] + self._settle > now]
            self._judge_orphans(late)
        self.trees.forget_idle(now - max(60.0, IDLE_SETTLES * self._settle))

    # -- waiting and deciding

    def _waits(self, call: Call, now: float) -> bool:
        glimpse = call.glimpse
        if now < call.records_until and not any(record.event_name in LAST_RECORDS for record in call.records):
            return True
        failed = glimpse.failed and not glimpse.has_output and not self._settings.include_failed
        needs_session = glimpse.session is None and call.session is None and not failed
        # A failed attempt with nothing inside it is that, whatever stands around it.
        alone = glimpse.failed and glimpse.span_id not in self.trees.get(call.span.trace_id).children
        needs_nest = not glimpse.has_output and not alone
        if not needs_session and not needs_nest:
            return False
        chain, open_end = self._chain(call)
        for ancestor in chain:
            needs_session = needs_session and ancestor.session is None
            boundary = ancestor.role in (SpanRole.AGENT, SpanRole.TOOL) and glimpse.response_id is None
            needs_nest = needs_nest and not boundary
            if not needs_session and not needs_nest:
                return False
        return open_end

    def _chain(self, call: Call) -> tuple[list[Glimpse], bool]:
        """The ended ancestors, the nearest first, and whether the last one's parent may still end."""
        tree = self.trees.get(call.span.trace_id)
        chain: list[Glimpse] = []
        seen = {call.span.span_id}
        parent, local = call.span.parent_span_id, call.local_parent
        while parent is not None and parent not in seen:
            known = tree.spans.get(parent)
            if known is None:
                return chain, local and self._may_still_end(call, parent)
            seen.add(parent)
            chain.append(known.glimpse)
            parent, local = known.glimpse.parent_span_id, known.local_parent
        return chain, False

    def _may_still_end(self, call: Call, span_id: str) -> bool:
        if not self.follows_open or self._open.is_open(span_id):
            return True
        if call.missed is None:
            call.missed = self._round
        return self._round < call.missed + 2  # it may have ended a moment ago, and wait in the queue

    def _would_be_fact(self, call: Call) -> bool:
        if not call.glimpse.has_output:
            return False
        if call.glimpse.session is not None or call.session is not None:
            return True
        ancestors, _ = self._all_ancestors(call)
        return any(ancestor.session is not None for ancestor in ancestors)

    def _all_ancestors(self, call: Call) -> tuple[list[Glimpse], bool]:
        """Ended and open ancestors, and whether some were open or could not be found."""
        tree = self.trees.get(call.span.trace_id)
        found: list[Glimpse] = []
        seen = {call.span.span_id}
        incomplete = False
        parent, local = call.span.parent_span_id, call.local_parent
        while parent is not None and parent not in seen:
            seen.add(parent)
            known = tree.spans.get(parent)
            if known is not None:
                found.append(known.glimpse)
                parent, local = known.glimpse.parent_span_id, known.local_parent
                continue
            incomplete = incomplete or local
            live = self._open.live(parent)
            if live is None:
                break
            found.append(glimpse_span(0, live.span, self._settings))
            parent, local = live.span.parent_span_id, live.local_parent
        return found, incomplete

    def _touch(self, trace_id: str, now: float) -> Tree:
        self._changed.add(trace_id)
        return self.trees.touch(trace_id, now)

    def _decide_all(self, tree: Tree) -> None:
        """Before a trace is forgotten."""
        for call in list(tree.calls):
            self._decide(call, forced=True)

    def _decide(self, call: Call, forced: bool) -> None:
        span = call.span
        key = (span.trace_id, span.span_id)
        if self._calls.get(key) is call:
            del self._calls[key]
        else:
            self._again.remove(call)
        tree = self.trees.get(span.trace_id)
        if call in tree.calls:
            tree.calls.remove(call)
        for record in self._loose_records_of(call):
            self._add_to(call, record)
            self._refresh(call)
        ancestors, open_above = self._all_ancestors(call)
        decision = STANDS_ALONE
        if ancestors or span.span_id in tree.children:
            calls = [n for n, ancestor in enumerate(ancestors, 1) if ancestor.role is SpanRole.CALL]
            inside = [span.span_id, *(ancestor.span_id for ancestor in ancestors[: calls[-1] if calls else 0])]
            nest = {glimpse.span_id: glimpse for glimpse in below(tree, inside)}
            nest.update({ancestor.span_id: ancestor for ancestor in ancestors})
            nest[span.span_id] = call.glimpse
            # One ordinal each: that of an open ancestor is not known yet.
            numbered = [msgspec.structs.replace(g, ordinal=n) for n, g in enumerate(nest.values())]
            mine = next(n for n, g in enumerate(numbered) if g.span_id == span.span_id)
            decision = decide(numbered).get(mine, STANDS_ALONE)
        if call.session is not None:
            decision = Decision(decision.wrapper, call.session, BAGGAGE)
        records = tuple(sorted(call.records, key=lambda record: record.time_ns or record.observed_ns or 0))
        subject = Subject(span, records, tuple(tree.lenders.pop(span.span_id, ())), content=call.content)
        incomplete = forced and open_above and (call.glimpse.session is None or not call.glimpse.has_output)
        self._ready.append(Ready(subject, Context.of(decision, incomplete)))

    # -- records and completions

    def _add_to(self, call: Call, record: LogRecord) -> None:
        call.records.append(record)
        has_output, has_message = record_bits(record)
        own = session_of(record.attributes, self._settings, record_dialect(record))
        named = call.glimpse.session or (own[0] if own is not None else None)
        call.glimpse = msgspec.structs.replace(
            call.glimpse,
            has_output=call.glimpse.has_output or has_output,
            has_message=call.glimpse.has_message or has_message,
            session=named,
        )

    def _complete(self, call: Call, completion: Completion) -> None:
        call.content = completion.content
        call.session = call.session or completion.session
        has_output, has_input = (bool(completion.content.get(key)) for key in ("output", "input"))
        call.glimpse = msgspec.structs.replace(
            call.glimpse,
            has_output=call.glimpse.has_output or has_output,
            has_message=call.glimpse.has_message or has_output or has_input,
        )

    def _from_completion(self, completion: Completion, *, is_new: bool = True) -> Ready:
        """A call whose span does not come: what the hook was given is all there is."""
        detection = None
        if completion.role is not None:
            detection = Detection(gen_ai.NAME, completion.role, "told by the completion hook, the span is not recorded")
        records = (completion.record,) if completion.record is not None else ()
        subject = Subject(
            completion.span,
            records,
            log_only=completion.role is not None,
            content=completion.content,
            detection=detection,
        )
        source = BAGGAGE if completion.session is not None else ""
        return Ready(subject, Context(completion.session, source, incomplete=completion.role is None), is_new=is_new)

    def _take_records(self, key: Key) -> list[LogRecord]:
        found = self._records.pop(key, (0.0, []))[1]
        self._record_count -= len(found)
        return found

    def _loose_records_of(self, call: Call) -> list[LogRecord]:
        """Records without a span id: those of the same response, or of the session while the call ran."""
        if not self._loose:
            return []
        mine = [pair for pair in self._loose if self._belongs(pair[1], call)]
        if mine:
            self._loose = [pair for pair in self._loose if pair not in mine]
        return [record for _, record in mine]

    def _belongs(self, record: LogRecord, call: Call) -> bool:
        response = usable_id(join_id(record))
        if response is not None:
            return response == call.glimpse.response_id
        named = record_session(record, self._settings)
        time = record.time_ns or record.observed_ns
        if named is None or time is None:
            return False
        if _encloses(call, named[0], time):
            return True
        # The others that could enclose it have not been decided, as this one has not.
        others = self._calls.values()
        return _encloses(call, named[0], time, LATE_NS) and not any(_encloses(one, named[0], time) for one in others)

    def _judge_orphans(self, records: list[LogRecord]) -> None:
        """Records whose span never came: some of them describe a whole call by themselves."""
        for dialect, call in log_calls(records):
            self._ready.append(Ready(log_subject(dialect, call), Context(), is_new=True))


def _encloses(call: Call, session: str, time: int, late: int = 0) -> bool:
    """Whether the call is of the session, and ran at that time or ended at most `late` nanoseconds before."""
    start, end = call.span.start_ns, call.span.end_ns
    if start is None or end is None or session != (call.glimpse.session or call.session):
        return False
    return start <= time <= end + late
