# SPDX-License-Identifier: Apache-2.0
"""The page about dialects and the tables as data, written from what the code itself reads.

`page()` gives Markdown, `tables()` JSON; `python -m sediment_otel.dialects._document PAGE TABLES` writes them
(`make docs`). Tests compare the files in the repository with what the tables say, so they cannot fall behind.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..translate.identity import SESSION_KEY, SESSION_KEYS_BEHIND, USER_KEYS
from . import gen_ai
from .base import Dialect
from .registry import DIALECTS

INTRODUCTION = """\
# Dialects

Every producer has its own way of writing a model call into a trace. A dialect is one module under
`src/sediment_otel/dialects/` and one row in `registry.DIALECTS`; this page is made from those tables
(`make docs`), so do not edit it by hand.

Which dialect speaks on a span is asked from the top of the table to its bottom: the most specific first, the
current conventions last. Where content is taken from is another order, the contract's: the places of the current
conventions first, then those of the other dialects. Each direction (input, output) is taken whole from the first place
that has a message.
"""


def page() -> str:
    """The page as Markdown, ending in one line break."""
    lines = [INTRODUCTION, *_overview(), *_common()]
    for dialect in DIALECTS:
        lines += _section(dialect)
    return "\n".join(lines).rstrip() + "\n"


def tables() -> str:
    """Which attribute of which dialect feeds which field, as JSON: dialects in the order of detection."""
    found = {
        dialect.name: {
            "title": dialect.title,
            "fields": {field: list(keys) for field, keys in dialect.fields.items()},
            "session": list(dialect.session_keys),
            "user": list(dialect.user_keys),
            "messages": sorted(dialect.message_attributes),
            "numbered_messages": sorted(dialect.indexed),
            "seen": list(dialect.seen),
            "not_recoverable": list(dialect.not_recoverable),
        }
        for dialect in DIALECTS
    }
    common = {"session": [SESSION_KEY, *SESSION_KEYS_BEHIND], "user": list(USER_KEYS)}
    return json.dumps({"every_dialect": common, "dialects": found}, indent=1, ensure_ascii=False) + "\n"


def _overview() -> Iterator[str]:
    yield "| dialect | name in `raw` | seen with |"
    yield "| --- | --- | --- |"
    for dialect in DIALECTS:
        seen = "; ".join(dialect.seen) or "its documentation only"
        yield f"| [{dialect.title}](#{_anchor(dialect.title)}) | `{dialect.name}` | {_cell(seen)} |"
    yield ""


def _common() -> Iterator[str]:
    yield "## For every dialect\n"
    yield "These attributes are tried before a dialect's own, whatever wrote the span.\n"
    yield from _fields(gen_ai.DIALECT)
    yield f"Session: attributes that the user configured, {_keys((SESSION_KEY,))}, the dialect's own keys, then"
    yield f"{_keys(SESSION_KEYS_BEHIND)}, `session_id` inside `metadata`, the nearest ancestor span, the resource.\n"
    yield (
        f"User: {_keys(USER_KEYS)}, then the dialect's own keys. A call that takes its session from an ancestor span "
        "takes the user from there, too, or from a span in between.\n"
    )


def _section(dialect: Dialect) -> Iterator[str]:
    yield f"## {dialect.title}\n"
    yield f"`{dialect.name}`. {_sentence(dialect.detect.__doc__)}\n"
    if dialect.sources:
        yield "Messages are read from, in this order:\n"
        for source in dialect.sources:
            about = _sentence(source.read.__doc__)
            yield f"- {source.name}" + (f": {about}" if about else "")
        yield ""
    if dialect.indexed:
        yield f"Numbered attributes below {_keys(dialect.indexed)}.\n"
    if dialect.message_attributes:
        yield f"Attributes whose text is stored parsed in `raw`: {_keys(sorted(dialect.message_attributes))}.\n"
    if dialect is not gen_ai.DIALECT:
        yield from _fields(dialect)
    if dialect.session_keys:
        yield f"Session: {_keys(dialect.session_keys)}.\n"
    if dialect.user_keys:
        yield f"User: {_keys(dialect.user_keys)}.\n"
    yield from _list("What cannot be recovered, because the trace does not have it:", dialect.not_recoverable)


def _fields(dialect: Dialect) -> Iterator[str]:
    if dialect.fields:
        yield "| field | attributes, the first that has a value wins |"
        yield "| --- | --- |"
        for field, keys in dialect.fields.items():
            yield f"| {field} | {_keys(keys)} |"
        yield ""


def _list(title: str, items: Iterable[str]) -> Iterator[str]:
    rows = [f"- {item}" for item in items]
    if rows:
        yield f"{title}\n"
        yield from rows
        yield ""


def _keys(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _sentence(docstring: str | None) -> str:
    """The first paragraph of a docstring on one line."""
    paragraph = (docstring or "").strip().split("\n\n", 1)[0]
    return " ".join(paragraph.split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def main(arguments: list[str]) -> int:
    """Write the page and the tables to the two files named."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m sediment_otel.dialects._document PAGE TABLES\n")
        return 2
    for name, text in zip(arguments, (page(), tables()), strict=True):
        Path(name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
