# SPDX-License-Identifier: Apache-2.0
"""Which ids a run has seen, with a number for each, in bounded memory.

The first `IN_MEMORY` ids stand in a dictionary (some 40 MB), all later ones in a temporary SQLite
database that the operating system removes with the process; its cache is held to `CACHE_KIB`. A file of
two gigabytes with the smallest usual spans (0.8 KB, 2.5 million facts) therefore costs the memory of
200 000 ids and the cache, and about a hundred megabytes of temporary disk.
"""

from __future__ import annotations

import sqlite3

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

    def close(self) -> None:
        """Forget everything."""
        self._near.clear()
        if self._far is not None:
            self._far.close()
            self._far = None
