# SPDX-License-Identifier: Apache-2.0
"""The traces of a process as far as they are remembered: ended spans, and the calls that wait in them. Bounded.

A trace in which nothing happened for long, and beyond `most` spans the one that was touched longest ago, is
forgotten; within one single trace the spans that ended first are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..telemetry import LogRecord, Span
from ..translate.select import Glimpse


@dataclass(slots=True)
class Known:
    glimpse: Glimpse
    local_parent: bool


@dataclass(slots=True, eq=False)
class Call:
    """A call that is not decided yet."""

    span: Span
    glimpse: Glimpse
    local_parent: bool
    deadline: float
    records_until: float
    session: str | None
    content: Mapping[str, Any] | None = None
    records: list[LogRecord] = field(default_factory=list)
    #: The round in which its parent was first found neither open nor ended.
    missed: int | None = None


@dataclass(slots=True)
class Tree:
    spans: dict[str, Known] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    lenders: dict[str, list[Span]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    touched: float = 0.0


NO_TREE = Tree()


class Trees:
    """The remembered traces. `leaving` is called with a tree before it is forgotten, while calls wait in it."""

    def __init__(self, most: int, leaving: Callable[[Tree], None]) -> None:
        self._most = most
        self._leaving = leaving
        self._trees: OrderedDict[str, Tree] = OrderedDict()
        self.remembered = 0

    def get(self, trace_id: str) -> Tree:
        """The tree of a trace; an empty one that nobody may change where it is not remembered."""
        return self._trees.get(trace_id, NO_TREE)

    def touch(self, trace_id: str, now: float) -> Tree:
        """The tree of a trace in which something happens."""
        tree = self._trees.get(trace_id)
        if tree is None:
            tree = self._trees[trace_id] = Tree()
        else:
            self._trees.move_to_end(trace_id)
        tree.touched = now
        return tree

    def remember(self, tree: Tree, glimpse: Glimpse, local_parent: bool) -> None:
        """Remember an ended span of a tree that was just touched; the first of an id stands."""
        if glimpse.span_id not in tree.spans:
            self.remembered += 1
            if glimpse.parent_span_id is not None:
                tree.children.setdefault(glimpse.parent_span_id, []).append(glimpse.span_id)
            tree.spans[glimpse.span_id] = Known(glimpse, local_parent)
        while self.remembered > self._most:
            if len(self._trees) > 1:
                self._forget_oldest()
            else:
                self._forget_oldest_span(tree)

    def forget_idle(self, before: float) -> None:
        """Forget the traces in which nothing happened since then."""
        while self._trees and next(iter(self._trees.values())).touched < before:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        trace_id, tree = next(iter(self._trees.items()))
        self._leaving(tree)
        del self._trees[trace_id]
        self.remembered -= len(tree.spans)

    def _forget_oldest_span(self, tree: Tree) -> None:
        span_id = next(iter(tree.spans))
        parent = tree.spans.pop(span_id).glimpse.parent_span_id or ""
        self.remembered -= 1
        tree.children.pop(span_id, None)
        for lender in (span_id, parent):
            tree.lenders.pop(lender, None)
        siblings = tree.children.get(parent)
        if siblings is not None:
            siblings.remove(span_id)
            if not siblings:
                del tree.children[parent]


def below(tree: Tree, span_ids: Iterable[str]) -> Iterator[Glimpse]:
    """The ended descendants of spans, as far as they are remembered.

    An open span is no link between those above and those below it: all spans of a chain must be named.
    """
    stack = list(span_ids)
    seen = set(stack)
    while stack:
        for child in tree.children.get(stack.pop(), ()):
            known = tree.spans.get(child)
            if known is not None and child not in seen:
                seen.add(child)
                stack.append(child)
                yield known.glimpse
