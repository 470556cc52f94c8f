# SPDX-License-Identifier: Apache-2.0
"""`sediment-otel deliver`: facts into a running Sediment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from .common import (
    EXIT_DONE,
    EXIT_NOTHING_OR_STRICT,
    EXIT_UNREADABLE,
    EXIT_USAGE,
    FACTS,
    Quiet,
    fail,
    named,
    named_path,
    progress,
    say,
)

EPILOG = """\
Examples:

  sediment-otel deliver facts.jsonl --to sediment+https://sediment.example.com

  sediment-otel deliver facts.db --to sediment+http://127.0.0.1:8000 --report delivery.json

  sediment-otel deliver facts.db --to sediment+postgresql://sediment_runtime@db/sediment

The token for HTTP is read from --token-file, or from SEDIMENT_OTEL_TOKEN. Delivering twice stores nothing twice. What
the server could not be told is reported, for each fact in --report.

Exit codes: 0 every fact is in the server; 1 an input could not be read, or facts are not in the server; 2 wrong usage;
3 no fact in the input.
"""

BATCH_FACTS, BATCH_BYTES = 64, 32 * 1024 * 1024


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(epilog=EPILOG, rich_help_panel=FACTS)
    def deliver(
        facts: Annotated[list[str], typer.Argument(metavar="FACTS...", help="JSON Lines, a store, or - .")],
        to: Annotated[
            str,
            typer.Option(
                "--to", callback=named, metavar="URL", help="sediment+https://HOST, or sediment+postgresql://…"
            ),
        ],
        token_file: Annotated[
            Path | None, typer.Option("--token-file", metavar="FILE", help="File that holds the token.")
        ] = None,
        in_flight: Annotated[
            int | None, typer.Option("--in-flight", min=1, max=64, help="Posts at the same time (8).")
        ] = None,
        patience: Annotated[
            float | None,
            typer.Option("--patience", min=0, metavar="S", help="Give up after so many seconds without success (120)."),
        ] = None,
        report: Annotated[
            Path | None,
            typer.Option("--report", parser=named_path, metavar="FILE", help="What became of each fact, as JSON."),
        ] = None,
        quiet: Quiet = False,
    ) -> None:
        """Deliver facts into a running Sediment."""
        given = {"token_file": token_file, "in_flight": in_flight, "patience": patience}
        raise typer.Exit(run(facts, to, {k: v for k, v in given.items() if v is not None}, report, quiet=quiet))


def run(paths: list[str], to: str, asked: dict[str, Any], report: Path | None, *, quiet: bool) -> int:
    """Deliver every fact, tell what became of them; the exit code."""
    from ..sinks.base import StorageError, UnknownSink
    from ..sinks.sediment.carriers import open_carrier
    from ..sinks.sediment.run import DeliveryRun
    from .inputs import FactFiles, count

    files = FactFiles(paths)
    try:
        carrier = open_carrier(to, asked)
    except UnknownSink as error:
        fail(f"--to {error}", EXIT_USAGE)
    except StorageError as error:
        fail(str(error), EXIT_UNREADABLE)
    try:
        with progress("delivering", files.size, quiet) as advance, DeliveryRun(carrier, report) as delivery:
            for batch in _batches(files.records(advance)):
                if not delivery.take(batch):
                    break
    except StorageError as error:
        fail(str(error), EXIT_UNREADABLE)
    finally:
        carrier.close()
    for place, reason in delivery.named:
        say(f"sediment-otel: {place}: {reason}")
    if delivery.unnamed:
        say(f"sediment-otel: and {delivery.unnamed} more facts that are not in the server")
    if delivery.stuck:
        say(f"sediment-otel: {delivery.stuck}")
    if not quiet:
        fates = ", ".join(f"{number} {fate}" for fate, number in delivery.tally.counts().items())
        say(f"{count(delivery.facts, 'fact')} to {carrier.where}: {fates or 'nothing done'}")
        for line in delivery.tally.lines():
            say(f"  {line}")
    files.tell_empty(quiet=quiet)
    if files.failed or delivery.missing:
        return EXIT_UNREADABLE
    return EXIT_DONE if delivery.facts else EXIT_NOTHING_OR_STRICT


def _batches(records: Iterator[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.data)
        if len(batch) >= BATCH_FACTS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
