# SPDX-License-Identifier: Apache-2.0
"""`sediment-otel explain`: why each span became what it became."""

from __future__ import annotations

import sys
from contextlib import closing
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


def run(inputs: list[str], span: str | None, settings: Any, *, quiet: bool) -> int:
    """Explain; the exit code."""
    from ..explanation import node_of
    from ..overview import Overview
    from ..traces import Traces
    from .inputs import trace_inputs

    sources, missing = trace_inputs(inputs)
    if not sources:
        return EXIT_UNREADABLE
    if span is not None and not span.strip():
        say("sediment-otel: --span needs an id, or how it begins")
        return EXIT_USAGE
    traces = Traces(sources, settings)
    with (
        closing(Overview(span.strip() if span is not None else None)) as seen,
        progress("reading", 2 * sum(source.size or 0 for source in sources), quiet) as advance,
    ):
        for ordinal, walked in enumerate(traces.walk(advance)):
            seen.add(node_of(ordinal, walked, settings), walked)
        seen.finish()
        return _tell(seen, traces, settings, missing=missing, quiet=quiet)


def _tell(seen: Any, traces: Any, settings: Any, *, missing: bool, quiet: bool) -> int:
    from .summary import no_telemetry

    for text in traces.failed:
        say(f"sediment-otel: {text}")
    code = EXIT_UNREADABLE if missing or traces.failed else EXIT_DONE
    if not traces.recognised:
        say(f"sediment-otel: no telemetry recognised {no_telemetry(traces.silent)}")
        _unread(traces)
        return code or EXIT_NOTHING_OR_STRICT
    if seen.wanted is None:
        for trace_id, nodes in seen.traces():
            _trace(trace_id, nodes)
        if not quiet:
            _legend(seen, traces)
    elif seen.match is None or seen.ambiguous:
        _not_one(seen)
        return EXIT_USAGE
    else:
        _one(seen, settings)
    sys.stdout.flush()
    return code


#: Spans that are named where `--span` means none or several.
NAMED = 10


def _not_one(seen: Any) -> None:
    if seen.match is not None:
        number, names = seen.meant(NAMED)
        say(f"sediment-otel: --span {seen.wanted} names {number} spans; give more of one of these:")
    else:
        known, names = seen.nearest(seen.wanted, 5)
        number = len(names)
        say(f"sediment-otel: no span has the id {seen.wanted}; the nearest of {known}:")
    for name in names:
        say(f"  {_clean(name)}")
    if number > len(names):
        say(f"  and {number - len(names)} more")


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


def _trace(trace_id: str, nodes: list[Any]) -> None:
    from ..explanation import tree

    rows: list[tuple[str, ...]] = [(_indented(depth, node), *_cells(node)) for depth, node in tree(nodes)]
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


def _legend(seen: Any, traces: Any) -> None:
    from .summary import say_silent

    facts = seen.outcomes["fact"]
    say(f"{seen.spans} span{'s' * (seen.spans != 1)}, {facts} fact{'s' * (facts != 1)}")
    for reason in SkipReason:
        if seen.outcomes[reason.value]:
            say(f"  {seen.outcomes[reason.value]} {reason.value}: {WAY_OUT[reason]}")
    say_silent(traces.silent)
    _unread(traces)


def _unread(traces: Any) -> None:
    for unread in traces.unread:
        say(f"  unreadable: {unread.source}: {unread.place}: {unread.reason}")


def _one(seen: Any, settings: Any) -> None:
    from ..explanation import explain

    node, walked = seen.match
    trace = seen.trace(node.trace_id)
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
