# SPDX-License-Identifier: Apache-2.0
"""The spans that were started in this process and have not ended."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from .convert import Converter, waits_for_parent
from .settling import Live


class OpenSpans:
    """Spans that were started and have not ended, for sessions that only an open ancestor names. Bounded.

    Holds spans weakly: one that the application forgot is forgotten here.
    """

    def __init__(self, most: int, converter: Converter) -> None:
        self.most = most
        self.spans: dict[int, weakref.ref[Any]] = {}
        self.sessions: dict[int, str] = {}
        self.converter = converter

    def evict(self) -> None:
        """Forget the oldest."""
        for table in (self.spans, self.sessions):
            with contextlib.suppress(StopIteration, RuntimeError):  # another thread changed it: it evicts, too
                while len(table) >= self.most:
                    table.pop(next(iter(table)), None)

    def is_open(self, span_id: str) -> bool:
        """Whether the span was started here and has not ended."""
        reference = self.spans.get(int(span_id, 16))
        return reference is not None and reference() is not None

    def live(self, span_id: str) -> Live | None:
        """The open span as it is now, and whether its parent is local; None where it is not open here."""
        reference = self.spans.get(int(span_id, 16))
        span = reference() if reference is not None else None
        return None if span is None else Live(self.converter.span(span), waits_for_parent(span))
