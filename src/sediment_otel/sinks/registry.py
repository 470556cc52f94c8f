# SPDX-License-Identifier: Apache-2.0
"""Which sink a URL or a file name means. One more sink is one more row of `SINKS`."""

from __future__ import annotations

import importlib
import os
import re
import stat
from collections.abc import Callable
from typing import Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from .base import Sink, SinkError, SinkOptions, UnknownSink


class SinkRow(NamedTuple):
    """How a sink is known and where it lives.

    `names` are whole names, `suffixes` ends of file names, `schemes` of URLs. `factory` is
    `module:callable`, imported when the sink is first used; it takes the location (unless the sink is
    known by name alone) and a `SinkOptions`. `remote` sinks are also known by the suffix of any URL, whose
    scheme is fsspec's affair. To names with an ending of `whole`, and to any URL if `whole_remote`, nothing can be
    added: they appear whole or not at all. `instead` says where one can add.
    """

    factory: str
    accepted: str
    names: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    remote: bool = False
    whole: tuple[str, ...] = ()
    whole_remote: bool = False
    instead: str = ""


_HERE = "sediment_otel.sinks"
JSON_LINES_SUFFIXES = tuple(f".{kind}{packed}" for kind in ("jsonl", "ndjson") for packed in ("", ".gz", ".zst"))
SINKS: tuple[SinkRow, ...] = (
    SinkRow(f"{_HERE}.jsonl:standard_output", "- (JSON Lines on standard output)", names=("-",)),
    SinkRow(
        f"{_HERE}.jsonl:json_lines",
        "FILE.jsonl (also .ndjson, with .gz or .zst)",
        suffixes=JSON_LINES_SUFFIXES,
        remote=True,
        whole=(".gz", ".zst"),
        whole_remote=True,
        instead="write to a plain local FILE.jsonl, to a store (FILE.db) or to a directory of Parquet files"
        " (facts.parquet/, also as a URL)",
    ),
    SinkRow(
        f"{_HERE}.parquet:parquet",
        "FILE.parquet (or DIRECTORY.parquet/, by day and organisation)",
        suffixes=(".parquet", ".parquet/"),
        remote=True,
        whole=(".parquet",),
        instead="write to a directory: the name with a slash at its end",
    ),
    SinkRow(f"{_HERE}.store:Store", "FILE.db (also .sqlite, .sqlite3)", suffixes=(".db", ".sqlite", ".sqlite3")),
    SinkRow(f"{_HERE}.kafka:KafkaSink", "kafka://BROKERS/TOPIC", schemes=("kafka",)),
    SinkRow(
        f"{_HERE}.sediment.gateway:SedimentSink",
        "sediment+https://HOST (a running Sediment)",
        schemes=("sediment+https", "sediment+http"),
    ),
    SinkRow(
        f"{_HERE}.sediment.database:DatabaseSink",
        "sediment+postgresql://… (its database)",
        schemes=("sediment+postgresql", "sediment+postgres"),
    ),
    SinkRow(
        f"{_HERE}.otlp:OtlpSink",
        "otlp+http://HOST:PORT (also otlp+https; spans in the current conventions)",
        schemes=("otlp+http", "otlp+https"),
    ),
)
#: Existing devices and pipes, whatever their name (/dev/null, /dev/stdout), take JSON Lines.
_FOR_DEVICES = f"{_HERE}.jsonl:json_lines"
# Two letters at least: `c:\facts.db` is a path.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def open_sink(url: str, **options: Any) -> Sink:
    """The sink that `url` names, opened. `options` are those of `SinkOptions`. Raises `SinkError`."""
    chosen = SinkOptions(**options)
    factory, *named = _find(url, chosen.append)
    return cast(Sink, _load(factory)(*named, chosen))


def check_sink(url: str) -> None:
    """Raises `UnknownSink` where `url` names no sink that facts can be added to; nothing is loaded or opened."""
    _find(url, append=True)


def _find(url: str, append: bool) -> tuple[str, ...]:
    """What makes the sink, and what it is to be told besides its options."""
    for row in SINKS:
        if url in row.names:
            return (row.factory,)
    scheme = _SCHEME.match(url)
    if scheme and scheme[1].lower() != "file":
        for row in SINKS:
            if scheme[1].lower() in row.schemes:
                return row.factory, url
        name = url.split("?", 1)[0].lower()
        for row in SINKS:
            if row.remote and name.endswith(row.suffixes):
                if append and (row.whole_remote or name.endswith(row.whole)):
                    raise _written_whole(url, row)
                return row.factory, url
        raise _unknown(f"{scheme[1]}://…")
    path = unquote(urlsplit(url).path) if scheme else url
    if "\0" in path:
        raise _unknown("a name with a NUL in it")
    for row in SINKS:
        if path.lower().endswith(row.suffixes):
            if append and path.lower().endswith(row.whole):
                raise _written_whole(path, row)
            return row.factory, path
    if is_device(path):
        return _FOR_DEVICES, path
    if os.path.isdir(path):
        raise UnknownSink("is a directory", path, "name a file in it, as in facts.jsonl, or DIRECTORY.parquet/")
    raise _unknown(path)


def _written_whole(location: str, row: SinkRow) -> SinkError:
    from .remote import is_remote, shown

    return UnknownSink("cannot be added to", shown(location) if is_remote(location) else location, row.instead)


def is_device(path: str) -> bool:
    """Whether the path is an existing device or pipe."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _unknown(where: str) -> SinkError:
    return UnknownSink(
        "is no sink that is known here", where, "accepted are " + ", ".join(row.accepted for row in SINKS)
    )


def _load(dotted: str) -> Callable[..., Any]:
    module, _, name = dotted.partition(":")
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return loaded
