# SPDX-License-Identifier: Apache-2.0
"""`sediment-otel restore`: facts to OTLP spans."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import DecodeError

from .common import (
    EXIT_DONE,
    EXIT_NOTHING_OR_STRICT,
    EXIT_UNREADABLE,
    EXIT_USAGE,
    FACTS,
    Quiet,
    fail,
    named,
    once,
    progress,
    same_file,
    say,
)

EPILOG = """\
Examples:

  sediment-otel restore facts.jsonl > spans.jsonl

  sediment-otel restore facts.db -o spans.pb

  sediment-otel restore facts.db --to http://localhost:4318

Each fact becomes one span with current gen_ai.* attributes: OTLP JSON, one request per line, or protobuf where FILE
ends in .pb; packed where .gz or .zst stands behind that. --to sends OTLP/HTTP (protobuf, gzip) with the headers of
OTEL_EXPORTER_OTLP_HEADERS; /v1/traces is put behind an address without a path. --to scn writes records of SCN Chat
in place of spans, one per line.

Exit codes: 0 done (facts that cannot be restored are named and cost only themselves); 1 an input could not be read, or
the output not written or not sent; 2 wrong usage; 3 no fact could be restored.
"""

#: In place of an address: records of SCN Chat.
SCN = "scn"
#: Facts that are named one by one where they cannot be restored; the rest is counted.
NAMED = 20


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(epilog=EPILOG, rich_help_panel=FACTS)
    def restore(
        facts: Annotated[list[str], typer.Argument(metavar="FACTS...", help="JSON Lines, a store, or - .")],
        out: Annotated[
            list[str] | None,
            typer.Option("-o", "--out", callback=once, metavar="FILE", help="spans.jsonl, spans.pb (.gz, .zst), or -."),
        ] = None,
        to: Annotated[
            str | None,
            typer.Option(
                "--to",
                callback=named,
                metavar="URL|scn",
                help="Send to an OTLP/HTTP endpoint; scn: records of SCN Chat.",
            ),
        ] = None,
        blobs: Annotated[
            str | None,
            typer.Option(
                "--blobs", callback=named, metavar="URL", help="Where convert --blobs put images and other bytes."
            ),
        ] = None,
        quiet: Quiet = False,
    ) -> None:
        """Turn facts into OTLP spans."""
        place = out[0] if out else "-"
        if any(same_file(name, place) for name in facts):
            fail(f"{place}: is an input, too; name another file for the output", EXIT_USAGE)
        if to == SCN:
            from .restore_scn import run as run_scn

            raise typer.Exit(run_scn(facts, place, quiet=quiet))
        if to is not None and place != "-":
            fail("give either -o or --to, not both", EXIT_USAGE)
        raise typer.Exit(run(facts, place, to, quiet=quiet, blobs=blobs))


def run(paths: list[str], out: str, to: str | None, *, quiet: bool, blobs: str | None = None) -> int:
    """Restore every fact; the exit code."""
    from ..otlp_http import WrongTarget
    from ..sinks.base import ReaderGone, StorageError
    from ..sinks.blobs import BlobStore
    from ..translate.blobs import BlobError, bring_back, refers
    from ..translate.restore import RestoreError
    from ..translate.restore import restore as restored
    from .inputs import FactFiles, count
    from .otlp_out import Server, opened

    files = FactFiles(paths)
    done = wrong = 0
    rejected = 0
    try:
        store = BlobStore(blobs) if blobs is not None else None
        with progress("restoring", files.size, quiet) as advance, opened(out, to) as spans:
            for record in files.records(advance):
                try:
                    if record.problem is not None:
                        raise RestoreError("fact", record.problem)
                    if store is None and refers(record.data):
                        raise RestoreError("raw", "refers to blobs: name their place with --blobs URL")
                    span = restored(record.data if store is None else bring_back(record.data, store.get))
                except (RestoreError, BlobError, DecodeError) as error:
                    wrong += 1
                    if wrong <= NAMED:
                        say(f"sediment-otel: {record.place}: {error}")
                    continue
                spans.write(span)
                done += 1
        if isinstance(spans, Server):
            rejected = spans.rejected
    except ReaderGone:
        return EXIT_DONE
    except WrongTarget as error:
        fail(f"--to {error}", EXIT_USAGE)
    except StorageError as error:
        fail(str(error), EXIT_UNREADABLE)
    if wrong > NAMED:
        say(f"sediment-otel: and {wrong - NAMED} more facts that cannot be restored")
    if rejected:
        say(f"sediment-otel: the server did not take {count(rejected, 'span')}")
    if not quiet:
        where = spans.where if isinstance(spans, Server) else "standard output" if out == "-" else out
        say(f"{count(done, 'span')} to {where}" + (f", {count(wrong, 'fact')} could not be restored" if wrong else ""))
    files.tell_empty(quiet=quiet)
    if files.failed or rejected:
        return EXIT_UNREADABLE
    return EXIT_DONE if done else EXIT_NOTHING_OR_STRICT
