# SPDX-License-Identifier: Apache-2.0
"""What `explain` keeps of all spans, in flat memory: their nodes wait in a database without a name until asked for.

`add` takes the spans in the order of the input. A call seen before becomes a duplicate or a conflict, as in every
sink. In full stays only the first span that `wanted` may mean; one trace at a time is in memory when it is shown.
"""

from __future__ import annotations

import difflib
import sqlite3
from collections import Counter
from collections.abc import Iterator

import msgspec

from .explanation import Node
from .sinks.seen import SeenIds
from .traces import Walked
from .vocabulary import Outcome, SkipReason

_BATCH = 2_000
#: Ids that are compared with one that nobody has.
_NEAR = 5_000
_SCHEMA = "CREATE TABLE nodes (ordinal INTEGER PRIMARY KEY, trace_id TEXT, label TEXT, hit INT, node BLOB)"
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Node).decode


class Overview:
    """All spans in short, and in full the one that `wanted` means."""

    def __init__(self, wanted: str | None = None) -> None:
        self.wanted = wanted if wanted is None else _storable(wanted)
        self.spans = 0
        self.outcomes: Counter[str] = Counter()
        self.match: tuple[Node, Walked] | None = None
        self.ambiguous = False
        self._seen = SeenIds()
        self._waiting: list[tuple[int, str, str, bool, bytes]] = []
        self._db = sqlite3.connect("", isolation_level=None)
        for statement in ("PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "PRAGMA cache_size=-8192", _SCHEMA):
            self._db.execute(statement)
        self._db.execute("BEGIN")

    def close(self) -> None:
        """Forget everything."""
        self._seen.close()
        self._db.close()

    def add(self, node: Node, walked: Walked) -> None:
        """Take one span."""
        found = walked.translation
        if found.encoded is not None and found.inference_call_id is not None:
            mark = hash(found.encoded)
            first = self._seen.first(found.inference_call_id, mark)
            if first is not None:
                reason = SkipReason.DUPLICATE if first == mark else SkipReason.CONFLICT
                node.outcome, node.reason, node.note, node.losses = Outcome.SKIPPED.value, reason.value, "", 0
        self.spans += 1
        self.outcomes[node.reason or node.outcome] += 1
        label = _storable(node.label)
        hit = self.wanted is not None and _means(self.wanted, node)
        if hit and self.match is None:
            self.match = (node, walked)
        elif hit and self.match is not None:
            known = self.match[0]
            self.ambiguous = self.ambiguous or (known.trace_id, _storable(known.label)) != (node.trace_id, label)
        self._waiting.append((node.glimpse.ordinal, node.trace_id, label, hit, _packed(node)))
        if len(self._waiting) >= _BATCH:
            self._store()

    def _store(self) -> None:
        self._db.executemany("INSERT INTO nodes VALUES (?,?,?,?,?)", self._waiting)
        self._waiting.clear()

    def finish(self) -> None:
        """All spans are there."""
        self._store()
        self._db.execute("CREATE INDEX by_trace ON nodes (trace_id, ordinal)")

    def trace(self, trace_id: str) -> list[Node]:
        """The nodes of one trace in the order of the input."""
        rows = self._db.execute("SELECT node FROM nodes WHERE trace_id = ? ORDER BY ordinal", (trace_id,))
        return [_unpack(data) for (data,) in rows]

    def traces(self) -> Iterator[tuple[str, list[Node]]]:
        """Every trace with its nodes, in the order in which they begin."""
        for (trace_id,) in self._db.execute("SELECT trace_id FROM nodes GROUP BY trace_id ORDER BY min(ordinal)"):
            yield trace_id, self.trace(trace_id)

    def meant(self, most: int) -> tuple[int, list[str]]:
        """How many spans `wanted` may mean, and the first of them."""
        (number,) = self._db.execute(
            "SELECT count(*) FROM (SELECT DISTINCT trace_id, label FROM nodes WHERE hit)"
        ).fetchone()
        rows = self._db.execute(
            "SELECT trace_id, label FROM nodes WHERE hit GROUP BY trace_id, label ORDER BY min(ordinal) LIMIT ?",
            (most,),
        )
        return number, [f"{trace}:{label}" if trace else label for trace, label in rows]

    def nearest(self, wanted: str, most: int) -> tuple[int, list[str]]:
        """How many ids there are, and those that look like `wanted`, else the first ones."""
        self._db.execute("CREATE INDEX by_label ON nodes (label)")
        (number,) = self._db.execute("SELECT count(DISTINCT label) FROM nodes").fetchone()
        queries = (
            ("SELECT label FROM nodes ORDER BY ordinal LIMIT ?", (_NEAR,)),
            ("SELECT DISTINCT label FROM nodes WHERE label >= ? ORDER BY label LIMIT ?", (wanted.lower(), most)),
            ("SELECT DISTINCT label FROM nodes WHERE label < ? ORDER BY label DESC LIMIT ?", (wanted.lower(), most)),
        )
        known = dict.fromkeys(label for query, values in queries for (label,) in self._db.execute(query, values))
        labels = [label for label in known if label]
        return number, difflib.get_close_matches(wanted, labels, n=most, cutoff=0.3) or labels[:most]


def _packed(node: Node) -> bytes:
    """The node as bytes. Lone surrogates of a hostile trace are escaped."""
    try:
        return _pack(node)
    except UnicodeEncodeError:
        node.name, node.note = _storable(node.name), _storable(node.note)
        node.key = node.key if node.key is None else _storable(node.key)
        return _pack(node)


def _storable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _means(wanted: str, node: Node) -> bool:
    span = wanted.lower()
    if node.key is not None and not node.span_id:
        return node.key.startswith(wanted)
    whole = f"{node.trace_id}:{node.span_id}" if ":" in span else node.span_id
    return whole.startswith(span)


__all__ = ["Overview"]
