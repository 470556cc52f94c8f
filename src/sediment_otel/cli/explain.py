# SPDX-License-Identifier: Apache-2.0
"""`sediment-otel explain`: why each span became what it became."""

from __future__ import annotations

import difflib
import hashlib
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from ..vocabulary import WAY_OUT, SkipReason
from .common import (
    EXIT_DONE,
    EXIT_NOTHING_OR_STRICT,
    EXIT_UNREADABLE,
    EXIT_USAGE,
    TRACES,
    ContentLocation,
    Gateway,
    IncludeFailed,
    KeepAccountIdentity,
    MaxFactBytes,
    Org,
    Quiet,
    Raw,
    Salvage,
    SessionAttribute,
    SessionId,
    printable,
    progress,
    say,
    settings_from,
)

EPILOG = """\
Examples:

  sediment-otel explain traces.jsonl

  sediment-otel explain traces.jsonl --span b7b53a02

Without --span: every span with its dialect and outcome, as a tree where parents are there. With --span: which dialect
and why, the nest, where the session was looked for, what fed each field and message, what lost to it, what was taken
out. Ids, keys, sizes and codes; never what was said.

Exit codes: 0 done; 1 an input could not be read; 2 wrong usage, or no span has that id; 3 no telemetry recognised.
"""


#: Levels of a tree that are shown by indentation; below that, the depth is a number.
DEEPEST_INDENT = 16


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(epilog=EPILOG, rich_help_panel=TRACES)
    def explain(
        inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="File, directory, glob, URL, or - .")],
        span: Annotated[
            str | None,
            typer.Option("--span", metavar="ID", help="Span id, or how it begins; TRACE:SPAN where it repeats."),
        ] = None,
        org: Org = None,
        session_attribute: SessionAttribute = None,
        session_id: SessionId = None,
        gateway: Gateway = None,
        raw: Raw = None,
        include_failed: IncludeFailed = None,
        max_fact_bytes: MaxFactBytes = None,
        keep_account_identity: KeepAccountIdentity = None,
        salvage: Salvage = None,
        content_location: ContentLocation = None,
        quiet: Quiet = False,
    ) -> None:
        """Show why each span became what it became."""
        settings = settings_from(
            org=org,
            session_attributes=session_attribute,
            session_id=session_id,
            gateway=gateway,
            raw=raw,
            include_failed=include_failed,
            max_fact_bytes=max_fact_bytes,
            keep_account_identity=keep_account_identity,
            salvage=salvage,
            content_locations=content_location,
        )
        raise typer.Exit(run(inputs, span, settings, quiet=quiet))


@dataclass(slots=True)
class Seen:
    """All spans in short, and in full those that `--span` may mean."""

    wanted: str | None
    nodes: list[Any] = field(default_factory=list)
    matches: dict[tuple[str, str], tuple[Any, Any]] = field(default_factory=dict)
    ids: dict[str, bytes] = field(default_factory=dict)

    def add(self, node: Any, walked: Any) -> None:
        """Take one span; a call seen before is a duplicate or a conflict, as in every sink."""
        found = walked.translation
        if found.encoded is not None:
            content = hashlib.blake2b(found.encoded, digest_size=16).digest()
            first = self.ids.setdefault(found.inference_call_id, content)
            if first is not content:
                reason = SkipReason.DUPLICATE if first == content else SkipReason.CONFLICT
                node.outcome, node.reason, node.note, node.losses = "skipped", reason.value, "", 0
        self.nodes.append(node)
        if self.wanted is not None and _means(self.wanted, node):
            self.matches.setdefault((node.trace_id, node.span_id or node.key or ""), (node, walked))


def _means(wanted: str, node: Any) -> bool:
    span = wanted.lower()
    if node.key is not None and not node.span_id:
        return bool(node.key.startswith(wanted))
    whole = f"{node.trace_id}:{node.span_id}" if ":" in span else node.span_id
    return bool(whole.startswith(span))


def run(inputs: list[str], span: str | None, settings: Any, *, quiet: bool) -> int:
    """Explain; the exit code."""
    from ..explanation import node_of
    from ..traces import Traces
    from .inputs import trace_inputs

    sources, missing = trace_inputs(inputs)
    if not sources:
        return EXIT_UNREADABLE
    if span is not None and not span.strip():
        say("sediment-otel: --span needs an id, or how it begins")
        return EXIT_USAGE
    traces = Traces(sources, settings)
    seen = Seen(span.strip() if span is not None else None)
    with progress("reading", 2 * sum(source.size or 0 for source in sources), quiet) as advance:
        for ordinal, walked in enumerate(traces.walk(advance)):
            seen.add(node_of(ordinal, walked, settings), walked)
    for text in traces.failed:
        say(f"sediment-otel: {text}")
    code = EXIT_UNREADABLE if missing or traces.failed else EXIT_DONE
    if not traces.recognised:
        say("sediment-otel: no telemetry recognised in the input")
        return code or EXIT_NOTHING_OR_STRICT
    if seen.wanted is None:
        _overview(seen.nodes)
        if not quiet:
            _legend(seen.nodes, traces)
    elif len(seen.matches) != 1:
        _not_one(seen)
        return EXIT_USAGE
    else:
        _one(seen, settings)
    sys.stdout.flush()
    return code


def _not_one(seen: Seen) -> None:
    if seen.matches:
        names = [f"{trace}:{span}" if trace else span for trace, span in seen.matches]
        say(f"sediment-otel: --span {seen.wanted} names {len(names)} spans; give more of one of these:")
    else:
        known = list(dict.fromkeys(node.label for node in seen.nodes))
        near = difflib.get_close_matches(seen.wanted or "", known, n=5, cutoff=0.3) or known[:5]
        names = [node for node in near if node]
        say(f"sediment-otel: no span has the id {seen.wanted}; the nearest of {len(known)}:")
    for name in names[:10]:
        say(f"  {_clean(name)}")
    if len(names) > 10:
        say(f"  and {len(names) - 10} more")


# -- showing -----------------------------------------------------------------------------------------------------


def _clean(text: str) -> str:
    """Text of a trace as one line that no terminal obeys."""
    from ..translate.credentials import redact_text

    return printable(redact_text(text))


def _outcome(node: Any) -> str:
    if node.outcome == "fact":
        return "fact"
    return f"skipped: {node.reason}"


def _indented(depth: int, node: Any) -> str:
    deep = f"({depth}) " if depth > DEEPEST_INDENT else ""
    return f"{'  ' * min(depth, DEEPEST_INDENT)}{deep}{_clean(node.name) or '(no name)'}"


def _cells(node: Any) -> tuple[str, ...]:
    """Id, dialect, outcome, and why."""
    why = str(node.note)
    if node.outcome == "fact":
        why = f"{node.losses} loss{'es' * (node.losses != 1)}" if node.losses else ""
    return _clean(node.label), node.dialect, _outcome(node), _clean(why)


def _overview(nodes: list[Any]) -> None:
    from ..explanation import tree

    traces: dict[str, list[Any]] = {}
    for node in nodes:
        traces.setdefault(node.trace_id, []).append(node)
    for trace_id, group in traces.items():
        rows: list[tuple[str, ...]] = [(_indented(depth, node), *_cells(node)) for depth, node in tree(group)]
        _table(f"trace {trace_id}" if trace_id else "calls known from log records alone", rows)


def _table(title: str, rows: list[tuple[str, ...]]) -> None:
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(title), title_justify="left", box=None, padding=(0, 2, 0, 0))
        for name in ("span", "id", "dialect", "outcome", "why"):
            table.add_column(name, overflow="fold")
        for row in rows:
            style = "bold" if row[3] == "fact" else "dim" if row[3].endswith("not_a_model_call") else ""
            table.add_row(*(Text(cell, style=style) for cell in row))
        Console().print(table)
        return
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [title]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  " + "  ".join([*cells, row[4]]).rstrip())
    _write("\n".join(lines) + "\n\n")


def _write(text: str) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _legend(nodes: list[Any], traces: Any) -> None:
    counts = Counter(node.reason or "fact" for node in nodes)
    say(f"{len(nodes)} span{'s' * (len(nodes) != 1)}, {counts['fact']} fact{'s' * (counts['fact'] != 1)}")
    for reason in SkipReason:
        if counts[reason.value]:
            say(f"  {counts[reason.value]} {reason.value}: {WAY_OUT[reason]}")
    for unread in traces.unread:
        say(f"  unreadable: {unread.source}: {unread.place}: {unread.reason}")


def _one(seen: Seen, settings: Any) -> None:
    from ..explanation import explain

    ((node, walked),) = seen.matches.values()
    trace = [other for other in seen.nodes if other.trace_id == node.trace_id]
    sections = explain(walked, node, trace, settings)
    again = sum(other.span_id == node.span_id for other in trace) - 1 if node.span_id else 0
    if again:
        say(f"The span stands {again + 1} times in the input; this is the first.")
    for section in sections:
        if sys.stdout.isatty():
            _section(section)
        else:
            width = max(len(row.label) for row in section.rows)
            lines = [f"  {_clean(row.label).ljust(width)}  {_clean(row.text)}".rstrip() for row in section.rows]
            _write("\n".join([section.title, *lines]) + "\n\n")


def _section(section: Any) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(section.title, style="bold"), title_justify="left", box=None, show_header=False)
    table.add_column(style="cyan", overflow="fold")
    table.add_column(overflow="fold")
    for row in section.rows:
        table.add_row(Text(_clean(row.label)), Text(_clean(row.text)))
    console = Console()
    console.print(table)
    console.print()
