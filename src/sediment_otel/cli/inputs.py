# SPDX-License-Identifier: Apache-2.0
"""What commands read: traces by name, and facts from files and stores. What cannot be read is said at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from ..sinks.reading import FactRecord, FactsError, read_facts
from ..sources.files import Input, SourceError, expand
from .common import say


def trace_inputs(names: Sequence[str]) -> tuple[list[Input], bool]:
    """The inputs that the names stand for, and whether one of them is not there."""
    found: list[Input] = []
    missing = False
    for name in names:
        try:
            found += expand([name])
        except SourceError as error:
            say(f"sediment-otel: {error}")
            missing = True
    return found, missing


class FactFiles:
    """Facts of several files in their order. `failed` says whether one could not be read, or not to its end."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self.failed = False
        self.empty: list[str] = []
        self._facts = 0

    @property
    def size(self) -> int:
        """The bytes of those that are files, for a progress bar."""
        total = 0
        for path in self.paths:
            try:
                total += os.path.getsize(path)
            except (OSError, ValueError):
                continue
        return total

    def records(self, advance: Callable[[str, int], None]) -> Iterator[FactRecord]:
        """Every record; a file that cannot be read costs only itself."""
        for path in self.paths:
            before = self._facts
            try:
                for record in read_facts(path):
                    self._facts += 1
                    yield record
                    advance("facts", len(record.data) + 1)
                if self._facts == before:
                    self.empty.append("standard input" if path == "-" else path)
            except FactsError as error:
                say(f"sediment-otel: {error}")
                self.failed = True

    def tell_empty(self, *, quiet: bool) -> None:
        """Say which files hold no facts; of some among others nothing where it is to be quiet."""
        if self.empty and not (quiet and self._facts):
            more = f" and {len(self.empty) - NAMED} more" if len(self.empty) > NAMED else ""
            say(f"sediment-otel: no facts in {', '.join(self.empty[:NAMED])}{more}")


#: Files without facts that are named; the rest is counted.
NAMED = 3


def count(number: int, name: str) -> str:
    """A number with its noun."""
    return f"{number} {name}{'' if number == 1 else 's'}"
