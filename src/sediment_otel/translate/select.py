# SPDX-License-Identifier: Apache-2.0
"""The leaf rule: which spans of one trace are calls, and what each inherits (contract, section 3). Pure.

A nest is a tree of model-call spans, each nested in the next without a tool or agent span between them (or
with the same response id). With output anywhere in the nest, a span with output is a wrapper if a descendant
in the nest has output; a span without output is one if an ancestor in the nest is the call, or if a descendant
has output. Where no span of the nest has output the same holds with "any message", then with "innermost".
A failed attempt that is not above a call stays a failed call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..vocabulary import SpanRole

#: A log record that only session and time tie to a call may stand so many nanoseconds behind the call's end, where
#: no call encloses it. JavaScript's spans start at a whole millisecond and last by another clock, its records stand
#: at a whole one again: what is told at the end seems to come up to a millisecond later. The rest is for slow machines.
LATE_NS = 5_000_000


class Glimpse(msgspec.Struct, frozen=True):
    """What a decision about one span needs to know of it. `ordinal` is its place in the input."""

    ordinal: int
    span_id: str
    parent_span_id: str | None
    role: SpanRole
    has_output: bool = False
    has_message: bool = False
    failed: bool = False
    session: str | None = None
    session_source: str = ""
    response_id: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    user: str | None = None
    user_source: str = ""


class Decision(msgspec.Struct, frozen=True):
    """What the tree says about a call: whether it is a wrapper, and the session that it inherits, with the user.

    A user is inherited with a session alone, from the ancestor that has it or one in between: a call that names its
    session is decided without waiting for its ancestors.
    """

    wrapper: bool = False
    session: str | None = None
    session_source: str = ""
    user: str | None = None
    user_source: str = ""


STANDS_ALONE = Decision()


def decide(spans: Sequence[Glimpse]) -> dict[int, Decision]:
    """Decisions for the calls of one trace by ordinal. A call that needs none is left out.

    A span id that occurs twice is one span of the tree: the first stands for it, all get its decision. Cycles
    and missing parents are taken as they come.
    """
    by_id: dict[str, Glimpse] = {}
    for span in spans:
        by_id.setdefault(span.span_id, span)
    calls = [span for span in by_id.values() if span.role is SpanRole.CALL]
    if not calls:
        return {}
    outer = {span.span_id: _enclosing(span, by_id) for span in calls}
    wrappers = _wrappers(calls, outer)
    found: dict[int, Decision] = {}
    for span in spans:
        if span.role is not SpanRole.CALL:
            continue
        wrapper = span.span_id in wrappers
        decision = Decision(wrapper) if span.session or wrapper else _inherited(span, by_id)
        if wrapper or decision.session is not None:
            found[span.ordinal] = decision
    return found


def _ancestors(span: Glimpse, by_id: dict[str, Glimpse]) -> Iterable[Glimpse]:
    seen = {span.span_id}
    parent = by_id.get(span.parent_span_id) if span.parent_span_id else None
    while parent is not None and parent.span_id not in seen:
        yield parent
        seen.add(parent.span_id)
        parent = by_id.get(parent.parent_span_id) if parent.parent_span_id else None


def _enclosing(span: Glimpse, by_id: dict[str, Glimpse]) -> Glimpse | None:
    """The nearest call around a call in the same nest.

    Beyond a tool or agent, or where the outer one was over before the inner one began, only with the same response
    id: an instrumentation that never leaves its context makes each call the parent of the next.
    """
    beyond = False
    for ancestor in _ancestors(span, by_id):
        if ancestor.role is SpanRole.CALL:
            same = span.response_id is not None and ancestor.response_id == span.response_id
            if same or not (beyond or _over(ancestor, span)):
                return ancestor
        elif ancestor.role in (SpanRole.AGENT, SpanRole.TOOL):
            beyond = True
            if span.response_id is None:
                return None
    return None


def _over(outer: Glimpse, inner: Glimpse) -> bool:
    return outer.end_ns is not None and inner.start_ns is not None and outer.end_ns < inner.start_ns


def _wrappers(calls: list[Glimpse], outer: dict[str, Glimpse | None]) -> set[str]:
    if not any(outer.values()):
        return set()
    inner: dict[str, list[Glimpse]] = {}
    roots: list[Glimpse] = []
    for span in calls:
        around = outer[span.span_id]
        if around is None:
            roots.append(span)
        else:
            inner.setdefault(around.span_id, []).append(span)
    found: set[str] = set()
    for root in roots:
        nest = _tree(root, inner)
        if len(nest) > 1:
            found |= _judge(nest, inner, outer)
    # Calls that are each other's ancestors (a cycle of parents) have no outermost one: each stands alone.
    return found


def _tree(root: Glimpse, inner: dict[str, list[Glimpse]]) -> list[Glimpse]:
    """The nest below `root`, every span before those inside it."""
    nest, stack = [], [root]
    while stack:
        span = stack.pop()
        nest.append(span)
        stack.extend(inner.get(span.span_id, ()))
    return nest


def _judge(nest: list[Glimpse], inner: dict[str, list[Glimpse]], outer: dict[str, Glimpse | None]) -> set[str]:
    if any(span.has_output for span in nest):
        bears = {span.span_id: span.has_output for span in nest}
    elif any(span.has_message for span in nest):
        bears = {span.span_id: span.has_message for span in nest}
    else:
        bears = {span.span_id: span.span_id not in inner for span in nest}
    below: dict[str, bool] = {}
    for span in reversed(nest):
        below[span.span_id] = any(bears[child.span_id] or below[child.span_id] for child in inner.get(span.span_id, ()))
    found: set[str] = set()
    is_call: dict[str, bool] = {}
    under_call: dict[str, bool] = {}
    for span in nest:
        around = outer[span.span_id]
        under = around is not None and (is_call[around.span_id] or under_call[around.span_id])
        under_call[span.span_id] = under
        wrapper = below[span.span_id] or (not bears[span.span_id] and under)
        is_call[span.span_id] = not wrapper and bears[span.span_id]
        if not wrapper:
            continue
        if not (span.failed and not span.has_output and not below[span.span_id]):
            found.add(span.span_id)
    return found


def _inherited(span: Glimpse, by_id: dict[str, Glimpse]) -> Decision:
    user: str | None = None
    user_source = ""
    for ancestor in _ancestors(span, by_id):
        if user is None and ancestor.user is not None:
            user, user_source = ancestor.user, f"ancestor span {ancestor.user_source}"
        if ancestor.session is not None:
            return Decision(False, ancestor.session, f"ancestor span {ancestor.session_source}", user, user_source)
    return STANDS_ALONE


#: The nearest call around a call in the same nest, for those who judge spans that arrive one by one.
enclosing_call = _enclosing


def enclosing_calls(spans: Iterable[Glimpse]) -> dict[str, str | None]:
    """For each call of one trace, by span id: the call around it in the same nest, or None for the outermost."""
    by_id: dict[str, Glimpse] = {}
    for span in spans:
        by_id.setdefault(span.span_id, span)
    found: dict[str, str | None] = {}
    for span in by_id.values():
        if span.role is SpanRole.CALL:
            around = _enclosing(span, by_id)
            found[span.span_id] = None if around is None else around.span_id
    return found


def ancestors(span: Glimpse, spans: Iterable[Glimpse]) -> list[Glimpse]:
    """The spans above a span that are there, the nearest first."""
    by_id: dict[str, Glimpse] = {}
    for other in spans:
        by_id.setdefault(other.span_id, other)
    return list(_ancestors(span, by_id))
