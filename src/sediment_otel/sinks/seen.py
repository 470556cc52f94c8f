# SPDX-License-Identifier: Apache-2.0
"""Which ids a run has seen, with a number for each, in bounded memory.

The first `IN_MEMORY` ids stand in a dictionary (some 40 MB), all later ones in a temporary SQLite
database that the operating system removes with the process; its cache is held to `CACHE_KIB`. A file of
two gigabytes with the smallest usual spans (0.8 KB, 2.5 million facts) therefore costs the memory of
200 000 ids and the cache, and about a hundred megabytes of temporary disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from .base import Delivery, Receipt

IN_MEMORY = 200_000
CACHE_KIB = 16 * 1024


class SeenIds:
    """Remembers the first number that came with an id. Numbers fit 64 signed bits."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._limit = in_memory
        self._near: dict[str, int] = {}
        self._far: sqlite3.Connection | None = None

    def first(self, key: str, number: int) -> int | None:
        """None where the id is new (and `number` is remembered), else the number of its first time."""
        earlier = self._near.get(key)
        if earlier is not None:
            return earlier
        if len(self._near) < self._limit:
            self._near[key] = number
            return None
        return self._first_on_disk(key, number)

    def _first_on_disk(self, key: str, number: int) -> int | None:
        if self._far is None:
            # An empty name is a database that exists only for this connection and spills to a nameless file.
            self._far = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._far.execute("PRAGMA journal_mode=OFF")
            self._far.execute("PRAGMA synchronous=OFF")
            self._far.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
            self._far.execute("CREATE TABLE seen (id TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID")
            self._far.execute("BEGIN")
        if self._far.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (key, number)).rowcount:
            return None
        row = self._far.execute("SELECT number FROM seen WHERE id = ?", (key,)).fetchone()
        return int(row[0])

    def forget(self, key: str) -> None:
        """As if the id had never come."""
        if self._near.pop(key, None) is None and self._far is not None:
            self._far.execute("DELETE FROM seen WHERE id = ?", (key,))

    def close(self) -> None:
        """Forget everything."""
        self._near.clear()
        if self._far is not None:
            self._far.close()
            self._far = None


class Repeats:
    """Duplicates and conflicts of one run, told apart by a keyed 64-bit hash of the fact's bytes.

    `may_repeat` holds the only ids that can come twice, where the caller knows them: no other id costs
    anything then.
    """

    def __init__(self, may_repeat: Collection[str] | None = None) -> None:
        self._may_repeat = may_repeat
        self._seen = SeenIds()

    @property
    def nothing_repeats(self) -> bool:
        """Whether the caller knows that every id comes once."""
        return self._may_repeat is not None and not self._may_repeat

    def sort_out(self, batch: Sequence[Delivery]) -> tuple[list[Receipt], list[bytes]]:
        """A receipt for each fact, and the lines (with their ends) of those that are to be stored."""
        if any(b"\n" in delivery.encoded for delivery in batch):
            raise ValueError("the JSON of a fact must stand on one line")
        receipts: list[Receipt] = []
        lines: list[bytes] = []
        for delivery in batch:
            earlier = None
            if self._may_repeat is None or delivery.inference_call_id in self._may_repeat:
                mark = hash(delivery.encoded)
                earlier = self._seen.first(delivery.inference_call_id, mark)
            if earlier is None:
                lines.append(delivery.encoded + b"\n")
                receipts.append(Receipt.STORED)
            else:
                receipts.append(Receipt.DUPLICATE if earlier == mark else Receipt.CONFLICT)
        return receipts, lines

    def forget(self, batch: Sequence[Delivery], receipts: Sequence[Receipt]) -> None:
        """Take back what `sort_out` remembered: the lines could not be written."""
        for delivery, receipt in zip(batch, receipts, strict=True):
            if receipt is Receipt.STORED:
                self._seen.forget(delivery.inference_call_id)

    def close(self) -> None:
        """Forget everything."""
        self._seen.close()
