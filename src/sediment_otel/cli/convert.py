# SPDX-License-Identifier: Apache-2.0
"""`sediment-otel convert`: traces to facts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

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
    Workers,
    fail,
    named,
    named_path,
    once,
    progress,
    same_file,
    say,
    settings_from,
)

EPILOG = """\
Examples:

  sediment-otel convert traces.jsonl > facts.jsonl

  sediment-otel convert run/ --org acme -o facts.db --report report.json

  cat traces.json | sediment-otel convert - --session-id sess-1

Exit codes: 0 done; 1 an input could not be read; 2 wrong usage; 3 no telemetry recognised, or, with --strict, a call
that was skipped or degraded (the facts are written all the same).
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(epilog=EPILOG, rich_help_panel=TRACES)
    def convert(
        inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="File, directory, glob, URL, or - .")],
        out: Annotated[
            list[str] | None,
            typer.Option(
                "-o", "--out", callback=once, metavar="SINK", help="facts.jsonl, facts.db, or - for standard output."
            ),
        ] = None,
        report: Annotated[
            Path | None,
            typer.Option("--report", parser=named_path, metavar="FILE", help="What became of each span, as JSON."),
        ] = None,
        blobs: Annotated[
            str | None,
            typer.Option(
                "--blobs", callback=named, metavar="URL", help="Directory or URL for images and other bytes of raw."
            ),
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
        workers: Workers = 1,
        strict: Annotated[bool, typer.Option("--strict", help="Exit 3 if a call was skipped or degraded.")] = False,
        quiet: Quiet = False,
    ) -> None:
        """Turn traces into InferenceCall facts."""
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
        raise typer.Exit(
            run(
                inputs,
                out[0] if out else "-",
                report,
                settings,
                workers=workers,
                strict=strict,
                quiet=quiet,
                blobs=blobs,
            )
        )


class Place(NamedTuple):
    """Where a run goes that is no conversion to facts: how `out` is opened (with the ids that may come twice), and
    what comes out, for people."""

    open: Callable[[str, frozenset[str] | None], Any]
    made: str


def run(
    inputs: list[str],
    out: str,
    report: Path | None,
    settings: Any,
    *,
    workers: int,
    strict: bool,
    quiet: bool,
    blobs: str | None = None,
    place: Place | None = None,
) -> int:
    """Convert, write the report, tell the summary; the exit code. `place` stands in for the sink that `out` names."""
    from ..conversion import convert
    from ..report_file import ReportFile
    from ..sinks.base import ReaderGone, SinkError, UnknownSink
    from ..sinks.registry import open_sink
    from ..sources.files import SourceError, expand
    from .summary import no_telemetry, summarise

    sources: list[Any] = []
    missing: list[str] = []
    opened: list[Any] = []

    def sink_for(ids: frozenset[str] | None) -> Any:
        opened.append(open_sink(out, may_repeat=ids) if place is None else place.open(out, ids))
        if blobs is not None:
            from ..sinks.blobs import BlobSink, BlobStore

            opened.append(BlobSink(opened.pop(), BlobStore(blobs)))
        return opened[-1]

    for name in inputs:
        try:
            sources += expand([name])
        except SourceError as error:
            missing.append(str(error))
    for text in missing:
        say(f"sediment-otel: {text}")
    if not sources:
        return EXIT_UNREADABLE
    for target in (out, report):
        if target is not None and any(same_file(source.path, target) for source in sources):
            fail(f"{target}: is an input, too; name another file for the output", EXIT_USAGE)
    if report is not None and same_file(report, out, missing=True):
        fail(f"{report}: the output goes there already; name another file for the report", EXIT_USAGE)
    try:
        with (
            ReportFile(report) as writer,
            progress("converting", 2 * sum(source.size or 0 for source in sources), quiet) as advance,
        ):
            result = convert(
                sources,
                sink_for,
                settings,
                workers=workers,
                report=writer.add if report is not None else None,
                progress=advance,
            )
            writer.finish(result.account)
    except ReaderGone:
        return EXIT_DONE
    except UnknownSink as error:
        fail(str(error), EXIT_USAGE)
    except SinkError as error:
        fail(str(error), EXIT_UNREADABLE)
    except SourceError as error:
        fail(str(error), EXIT_UNREADABLE)
    except OSError as error:
        fail(f"{error.filename or report or out}: {error.strerror}", EXIT_UNREADABLE)
    sys.stdout.flush()
    for text in result.failed_inputs:
        say(f"sediment-otel: {text}")
    if not quiet:
        summarise(result, out, made="fact" if place is None else place.made)
        for sink in opened:
            for remark in sink.remarks():
                say(f"  {remark}")
    if missing or result.failed_inputs or any(sink.refused for sink in opened):
        return EXIT_UNREADABLE
    if not result.recognised:
        if quiet:
            say(f"sediment-otel: no telemetry recognised {no_telemetry(result.silent)}")
        return EXIT_NOTHING_OR_STRICT
    if strict and result.account.blemished:
        return EXIT_NOTHING_OR_STRICT
    return 0
