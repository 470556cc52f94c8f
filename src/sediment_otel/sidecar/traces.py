# SPDX-License-Identifier: Apache-2.0
"""The traces as far as they arrived: which spans and log records belong together. Pure: no clock, no file.

The file converter sees all of its input before it decides; here spans come one by one, each request is decided
when its settle window has passed, and what was decided stays. With everything there in time the decisions are those
of the converter (`index.TraceIndex`): the same owners of log records, the same leaf rule.

For what comes too late the rules are:

- a span never changes a fact that left. A late span of the same nest is a `wrapper` then, so that one call
  gives one fact, unless it has output and the fact that left has none;
- the same span, sent again, is a `duplicate`, whatever log records were joined the first time;
- the same log record in another request was sent again (its reply was lost, say) and counts once;
- a log record of a call that left as a fact is dropped; one whose call gave no fact for want of content is
  treated as a record without a span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..translate.select import LATE_NS, Decision, Glimpse, decide, enclosing_call
from ..vocabulary import Outcome, SkipReason, SpanRole
from .entries import Entries, RecordSeen, SpanSeen

FACT = Outcome.FACT.value
_INDEX_BITS = 24
#: Where an item stands: request and index.
Place = tuple[int, int]


@dataclass(slots=True, eq=False)
class Node:
    """One span that arrived. `outcome` is `fact` or a skip reason once it is settled; None settled: unknown."""

    request: int
    seen: SpanSeen
    settled: bool = False
    outcome: str | None = None
    inherited: str | None = None

    @property
    def ordinal(self) -> int:
        """The place in the order of arrival."""
        return self.request << _INDEX_BITS | self.seen.index

    @property
    def key(self) -> tuple[str, str]:
        """What the span is known by."""
        return self.seen.trace_id, self.seen.span_id

    @property
    def is_call(self) -> bool:
        """Whether it may become a fact."""
        return self.seen.role == SpanRole.CALL.value


@dataclass(slots=True, eq=False)
class Pending:
    """One log record that has no outcome's company yet."""

    request: int
    seen: RecordSeen

    @property
    def order(self) -> tuple[int, int, int, int]:
        """In time; those without a time first; those of one time as they arrived."""
        time = self.seen.time_ns
        return (time is not None, time or 0, self.request, self.seen.index)

    @property
    def place(self) -> Place:
        """Where the record itself is."""
        return self.request, self.seen.index


@dataclass(slots=True)
class Found:
    """What is known of one call at its deadline."""

    decision: Decision
    incomplete: bool = False
    records: list[Pending] = field(default_factory=list)
    siblings: list[Place] = field(default_factory=list)
    duplicate: bool = False


@dataclass(slots=True)
class _Request:
    nodes: list[Node]
    records: set[Pending]
    settled: bool = False
    digests: list[bytes] = field(default_factory=list)


class Traces:
    """Everything that arrived and is not forgotten yet. `has_left(trace, span)` asks whether a fact of an
    earlier run of the process exists."""

    def __init__(self, has_left: Callable[[str, str], bool]) -> None:
        self._has_left = has_left
        self._requests: dict[int, _Request] = {}
        self._traces: dict[str, list[Node]] = {}
        self._first: dict[tuple[str, str], Node] = {}
        self._calls_by_response: dict[str, list[Node]] = {}
        self._calls_by_session: dict[str, list[Node]] = {}
        self._lenders: dict[tuple[str, str], list[Node]] = {}
        self._by_span: dict[tuple[str | None, str], list[Pending]] = {}
        self._by_response: dict[str, list[Pending]] = {}
        self._by_session: dict[str, list[Pending]] = {}
        self._digests: dict[bytes, list[Pending]] = {}
        self.spans = 0
        self.pending = 0

    # -- arrival

    def add(self, request: int, entries: Entries, *, settled: bool = False, free: bool = False) -> None:
        """Take the entries of a request. `settled`: an earlier run decided its spans; `free`: and its records."""
        nodes = [Node(request, seen, settled) for seen in entries.spans]
        records = set() if free else self._new_records(request, entries.records)
        self._requests[request] = _Request(nodes, records, settled, [seen.digest for seen in entries.records])
        for node in nodes:
            self._add_node(node)
        for record in records:
            self._add_record(record)
        self.spans += len(nodes)

    def _new_records(self, request: int, seen: Iterable[RecordSeen]) -> set[Pending]:
        """The records that were not sent before. One that still waits gives way to its repetition, and waits anew."""
        found: set[Pending] = set()
        for entry in seen:
            record = Pending(request, entry)
            known = self._digests.get(entry.digest) if entry.digest else None
            if known is not None and known[0].request == request:
                known.append(record)
            elif known is not None and not any(self._waits(other) for other in known):
                continue  # a call has it already
            else:
                self.release(known or ())
                if entry.digest:
                    self._digests[entry.digest] = [record]
            found.add(record)
        return found

    def _waits(self, record: Pending) -> bool:
        held = self._requests.get(record.request)
        return held is not None and record in held.records

    def _add_node(self, node: Node) -> None:
        seen = node.seen
        self._traces.setdefault(seen.trace_id, []).append(node)
        self._first.setdefault(node.key, node)
        if node.is_call:
            if seen.response_id is not None:
                self._calls_by_response.setdefault(seen.response_id, []).append(node)
            if seen.session is not None:
                self._calls_by_session.setdefault(seen.session, []).append(node)
        if seen.lends and seen.parent_span_id is not None:
            self._lenders.setdefault((seen.trace_id, seen.parent_span_id), []).append(node)

    def _add_record(self, record: Pending) -> None:
        for table, key in self._tables(record):
            table.setdefault(key, []).append(record)
        self.pending += 1

    def _tables(self, record: Pending) -> Iterator[tuple[dict[object, list[Pending]], object]]:
        seen = record.seen
        if seen.span_id is not None:
            yield self._by_span, (seen.trace_id, seen.span_id)  # type: ignore[misc]
        if seen.response_id is not None:
            yield self._by_response, seen.response_id  # type: ignore[misc]
        if seen.span_id is None and seen.session is not None:
            yield self._by_session, seen.session  # type: ignore[misc]

    # -- log records

    def owner(self, record: Pending) -> Node | None:
        """The call that a log record belongs to, as far as calls arrived."""
        seen = record.seen
        if seen.span_id is not None and seen.trace_id is not None:
            node = self._first.get((seen.trace_id, seen.span_id))
            if node is not None and node.is_call:
                return node
        if seen.response_id is not None:
            calls = self._calls_by_response.get(seen.response_id)
            if calls:
                return min(calls, key=_ordinal)
        if seen.span_id is None and seen.session is not None and seen.time_ns is not None:
            for late in (0, LATE_NS):
                around = [
                    node
                    for node in self._calls_by_session.get(seen.session, ())
                    if node.seen.start_ns is not None
                    and node.seen.end_ns is not None
                    and node.seen.start_ns <= seen.time_ns <= node.seen.end_ns + late
                ]
                if around:
                    return min(around, key=lambda node: (-(node.seen.start_ns or 0), node.ordinal))
        return None

    def _records_of(self, node: Node, session: str | None) -> list[Pending]:
        if not self.pending:
            return []
        near = list(self._by_span.get(node.key, ()))
        if node.seen.response_id is not None:
            near += self._by_response.get(node.seen.response_id, ())
        if session is not None:
            near += self._by_session.get(session, ())
        mine = {record for record in near if self.owner(record) is node}
        return sorted(mine, key=lambda record: record.order)

    def _joined_bits(self, node: Node) -> tuple[bool, bool]:
        """What log records add to a call in the eyes of the leaf rule (those that time alone ties to it do not)."""
        seen = node.seen
        near = list(self._by_span.get(node.key, ()))
        if seen.response_id is not None:
            near += self._by_response.get(seen.response_id, ())
        mine = [record.seen for record in near if self.owner(record) is node]
        return any(r.has_output for r in mine), any(r.has_output or r.has_message for r in mine)

    # -- decisions

    def decide(self, requests: Iterable[int]) -> dict[Place, Found]:
        """What is known of each call in these requests, now that their windows have passed."""
        due: dict[str, list[Node]] = {}
        for number in requests:
            for node in self._requests[number].nodes:
                if node.is_call:
                    due.setdefault(node.seen.trace_id, []).append(node)
        found: dict[Place, Found] = {}
        for trace_id, calls in due.items():
            self._decide_trace(self._traces[trace_id], calls, found)
        return found

    def _decide_trace(self, nodes: list[Node], calls: list[Node], found: dict[Place, Found]) -> None:
        if self.pending:
            for node in nodes:
                if node.is_call and not node.settled:
                    output, message = self._joined_bits(node)
                    node.seen.has_output = node.seen.has_output or output
                    node.seen.has_message = node.seen.has_message or message
        glimpses = [_glimpse(node) for node in nodes]
        decisions = decide(glimpses)
        by_id: dict[str, Glimpse] = {}
        for glimpse in glimpses:
            by_id.setdefault(glimpse.span_id, glimpse)
        left = [node for node in nodes if node.settled and node.is_call and self._is_fact(node)]
        for node in calls:
            decision = decisions.get(node.ordinal) or Decision()
            if left and not decision.wrapper and self._came_too_late(node, left, by_id):
                decision = Decision(wrapper=True)
            session = node.seen.session or decision.session
            if node.seen.session is None and node.inherited is None and session is not None:
                node.inherited = session
                self._calls_by_session.setdefault(session, []).append(node)
            first = self._first[node.key]
            again = first is not node and bool(node.seen.digest) and first.seen.digest == node.seen.digest
            found[node.request, node.seen.index] = Found(
                decision,
                not decision.wrapper and _lacks_ancestor(by_id[node.seen.span_id], by_id, session),
                self._records_of(first if again else node, session),
                [(lender.request, lender.seen.index) for lender in self._lenders.get(node.key, ())],
                again and first.settled and self._is_fact(first),
            )

    def _is_fact(self, node: Node) -> bool:
        if node.outcome is None:
            node.outcome = FACT if self._has_left(*node.key) else ""
        return node.outcome == FACT

    def _came_too_late(self, node: Node, left: Sequence[Node], by_id: dict[str, Glimpse]) -> bool:
        if node.seen.failed and not node.seen.has_output:
            return False
        for fact in left:
            if fact.key == node.key or (fact.seen.failed and not fact.seen.has_output):
                continue
            if node.seen.has_output and not fact.seen.has_output:
                continue
            if _inside(fact.seen.span_id, node.seen.span_id, by_id) or _inside(
                node.seen.span_id, fact.seen.span_id, by_id
            ):
                return True
        return False

    def settle(self, request: int, outcomes: dict[int, str]) -> None:
        """The outcomes of a request's spans are committed: index -> `fact` or a skip reason."""
        held = self._requests[request]
        held.settled = True
        for node in held.nodes:
            node.settled = True
            node.outcome = outcomes.get(node.seen.index, "")

    def release(self, records: Iterable[Pending]) -> set[int]:
        """These records have found their end; the requests that have none left."""
        touched: set[int] = set()
        for record in records:
            held = self._requests.get(record.request)
            if held is None or record not in held.records:
                continue
            held.records.discard(record)
            self.pending -= 1
            for table, key in self._tables(record):
                _remove(table, key, record)
            if not held.records:
                touched.add(record.request)
        return touched

    def unused(self, records: Iterable[Pending]) -> set[int]:
        """Like `release`, for records that no call took: should they be sent again, they count."""
        gone = list(records)
        for record in gone:
            self._forget_digests(record.request, [record.seen.digest])
        return self.release(gone)

    def _forget_digests(self, request: int, digests: Iterable[bytes]) -> None:
        for digest in digests:
            known = self._digests.get(digest)
            if known is not None and known[0].request == request:
                del self._digests[digest]

    def waits_for_records(self, request: int) -> bool:
        """Whether a request still holds log records without an end."""
        held = self._requests.get(request)
        return held is not None and bool(held.records)

    def settled(self, request: int) -> bool:
        """Whether the spans of a request have their outcomes."""
        held = self._requests.get(request)
        return held is not None and held.settled

    def pending_of(self, request: int) -> Iterable[Pending]:
        """The log records of a request that have no end yet."""
        held = self._requests.get(request)
        return held.records if held is not None else ()

    def lends(self, request: int, *, may_come: bool = True) -> bool:
        """Whether a request holds spans that a call needs which is not settled yet (or, with `may_come`, may come)."""
        held = self._requests.get(request)
        if held is None:
            return False
        for node in held.nodes:
            if node.seen.lends and node.seen.parent_span_id is not None:
                parent = self._first.get((node.seen.trace_id, node.seen.parent_span_id))
                if (parent is None and may_come) or (parent is not None and parent.is_call and not parent.settled):
                    return True
        return False

    def overdue(self, requests: Iterable[int]) -> tuple[list[Pending], list[Pending]]:
        """The pending records of these requests without a call to wait for: `(orphans, late)`."""
        orphans: list[Pending] = []
        late: list[Pending] = []
        for number in requests:
            held = self._requests.get(number)
            for record in sorted(held.records, key=lambda r: r.order) if held is not None else ():
                node = self.owner(record)
                if node is None:
                    orphans.append(record)
                elif node.settled:
                    wants = node.outcome == SkipReason.NO_CONTENT.value and not self._is_fact(node)
                    (orphans if wants else late).append(record)
        return orphans, late

    def forget(self, request: int) -> None:
        """Remove a request whose time is over."""
        held = self._requests.get(request)
        if held is None:
            return
        self.release(list(held.records))
        self._forget_digests(request, held.digests)
        del self._requests[request]
        self.spans -= len(held.nodes)
        for node in held.nodes:
            _remove(self._traces, node.seen.trace_id, node)
            if self._first.get(node.key) is node:
                del self._first[node.key]
                for other in self._traces.get(node.seen.trace_id, ()):
                    if other.seen.span_id == node.seen.span_id:
                        self._first[node.key] = other
                        break
            if node.is_call:
                if node.seen.response_id is not None:
                    _remove(self._calls_by_response, node.seen.response_id, node)
                session = node.seen.session or node.inherited
                if session is not None:
                    _remove(self._calls_by_session, session, node)
            if node.seen.lends and node.seen.parent_span_id is not None:
                _remove(self._lenders, (node.seen.trace_id, node.seen.parent_span_id), node)


def _ordinal(node: Node) -> int:
    return node.ordinal


def _glimpse(node: Node) -> Glimpse:
    seen = node.seen
    return Glimpse(
        node.ordinal,
        seen.span_id,
        seen.parent_span_id,
        SpanRole(seen.role),
        seen.has_output,
        seen.has_message,
        seen.failed,
        seen.session,
        seen.session_source,
        seen.response_id,
        seen.start_ns,
        seen.end_ns,
        seen.user,
        seen.user_source,
    )


def _inside(inner: str, outer: str, by_id: dict[str, Glimpse]) -> bool:
    """Whether one call lies in the nest of another, below it."""
    span = by_id.get(inner)
    seen = set()
    while span is not None and span.span_id not in seen:
        seen.add(span.span_id)
        span = enclosing_call(span, by_id)
        if span is not None and span.span_id == outer:
            return True
    return False


def _lacks_ancestor(span: Glimpse, by_id: dict[str, Glimpse], session: str | None) -> bool:
    """Whether an ancestor is missing that could name a session, or could be part of the nest."""
    beyond = False
    seen: set[str] = set()
    at: Glimpse | None = span
    while at is not None and at.span_id not in seen:
        seen.add(at.span_id)
        if at.parent_span_id is None:
            return False
        at = by_id.get(at.parent_span_id)
        if at is None:
            return session is None or not beyond
        beyond = beyond or at.role in (SpanRole.AGENT, SpanRole.TOOL)
    return False


def _remove(table: dict, key: object, item: object) -> None:  # type: ignore[type-arg]
    items = table.get(key)
    if items is None:
        return
    if len(items) == 1 and items[0] is item:
        del table[key]
        return
    for index, other in enumerate(items):
        if other is item:
            del items[index]
            break
    if not items:
        del table[key]
