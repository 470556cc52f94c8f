# SPDX-License-Identifier: Apache-2.0
"""Records of SCN Chat (`network.sharedcomputer.chat.*`), in each form that leaves the application, as log records.

    batch = decode(data)          # listRecords or listRepoOps answers, the app's conversation, one record (JSON Lines)
    for data in rows(path): …     # the app's SQLite database: its table `local_record`, as such answers

Each record becomes one log record: the collection is its event name, the value its body, `createdAt` its time; the
address stands in `scn.space`, `scn.owner`, `scn.rkey` and `scn.cid`. The space is taken from where the form has it
(`space`, `space_uri`, a record's `uri`); the app's conversation does not name it. `decode` returns None for data of
another kind and never raises; `rows` raises `NoRecords`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..dialects.scn import CID, NSID, OWNER, RKEY, SPACE, VALUE_KEYS
from ..genai import NotJson, loads
from ..telemetry import Batch, LogRecord, Rejected, Span

SQLITE = b"SQLite format 3\x00"
#: Data that holds none of these is not looked into.
MARKS = (NSID.encode(), b"value_json")
_LISTS = ("records", "ops", "messages")
_SPACES = ("space", "space_uri", "spaceUri")
_CONVERSATION = f"{NSID}conversation/"
#: Rows that are handed on together.
ROWS = 512


class NoRecords(Exception):
    """An SQLite file that holds no records of SCN Chat, or cannot be read. The text says why."""


def decode(data: bytes) -> Batch | None:
    """The records in a JSON document, or None where it is none of these forms."""
    if not any(mark in data for mark in MARKS):
        return None
    try:
        document = loads(data.decode("utf-8-sig", "replace"))
    except NotJson:
        return None
    if type(document) is not dict:
        return None
    space = _space(document)
    found: list[Span | LogRecord | Rejected] = []
    entries: list[Any] = [document, document.get("info")]
    for name in _LISTS:
        items = document.get(name)
        entries += items if type(items) is list else []
    for entry in entries:
        record = _record(entry, space)
        if record is not None:
            found.append(record)
    return Batch(items=found) if found else None


def _space(holder: dict[str, Any]) -> str:
    for key in _SPACES:
        value = holder.get(key)
        if type(value) is str and value.startswith("at://"):
            return value
    named = holder.get("session_id")  # of records that were facts of another source
    if type(named) is str and named.strip():
        return named
    uri = holder.get("uri")
    if type(uri) is str and uri.startswith("at://") and _CONVERSATION in uri:
        before, _, after = uri.partition(_CONVERSATION)
        return before + _CONVERSATION + after.split("/", 1)[0]
    return ""


def _record(entry: Any, space: str) -> LogRecord | None:
    if type(entry) is not dict:
        return None
    value = next((entry[key] for key in VALUE_KEYS if entry.get(key) is not None), None)
    if type(value) is str:
        try:
            value = loads(value)
        except NotJson:
            return None
    rkey = entry.get("rkey")
    if type(value) is not dict or type(rkey) is not str:
        return None
    kind = value.get("$type", entry.get("collection"))
    if type(kind) is not str or not kind.startswith(NSID):
        return None
    space = _space(entry) or space
    attributes = {RKEY: rkey}
    if space:
        attributes[SPACE] = space
        if space.startswith("at://"):
            attributes[OWNER] = space[len("at://") :].split("/", 1)[0]
    if type(entry.get("cid")) is str:
        attributes[CID] = entry["cid"]
    return LogRecord(time_ns=_instant(value.get("createdAt")), event_name=kind, body=value, attributes=attributes)


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _instant(text: Any) -> int | None:
    """Nanoseconds since the epoch of an RFC 3339 time; None where it is none."""
    if type(text) is not str or len(text) > 64:
        return None
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
        since = (found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)) - _EPOCH
    except (ValueError, OverflowError):
        return None
    whole = (since.days * 86400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
    return whole if whole >= 0 else None


def rows(path: str) -> Iterator[bytes]:
    """The records of the app's database as JSON documents. The file is only read. Raises `NoRecords`."""
    try:
        database = sqlite3.connect(f"file:{quote(str(Path(path).absolute()))}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise NoRecords(f"an SQLite file that cannot be opened ({type(error).__name__})") from None
    try:
        found = database.execute(
            "SELECT space_uri, collection, rkey, value_json, cid FROM local_record WHERE collection LIKE ?"
            " ORDER BY space_uri, rowid",
            (f"{NSID}%",),
        )
        while batch := found.fetchmany(ROWS):
            names = ("space_uri", "collection", "rkey", "value_json", "cid")
            records = [dict(zip(names, row, strict=True)) for row in batch]
            yield json.dumps({"records": records}, default=str).encode()
    except sqlite3.Error:
        raise NoRecords("an SQLite file without records of SCN Chat (table local_record)") from None
    finally:
        database.close()


__all__ = ["MARKS", "SQLITE", "NoRecords", "decode", "rows"]
