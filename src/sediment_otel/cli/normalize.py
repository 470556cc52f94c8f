# SPDX-License-Identifier: Apache-2.0
"""`sediment-otel normalize`: model calls of any dialect as spans of the current conventions.

It is `convert` with spans in place of facts: the same walk, the same settings, the same redaction; each fact is
restored to a span as it is made. A call needs no session here: one that has none goes out without.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .common import (
    TRACES,
    ContentLocation,
    IncludeFailed,
    KeepAccountIdentity,
    MaxFactBytes,
    Quiet,
    Salvage,
    SessionAttribute,
    SessionId,
    Workers,
    named_path,
    once,
    settings_from,
)

if TYPE_CHECKING:
    from ..sinks.spans import SpanSink
    from ..telemetry import Span

EPILOG = """\
Examples:

  sediment-otel normalize traces.jsonl > spans.jsonl

  sediment-otel normalize run/ -o spans.pb

  sediment-otel normalize traces.json -o http://localhost:4318

Each model call becomes one span with current gen_ai.* attributes, redacted: OTLP JSON, one request per line, or
protobuf where FILE ends in .pb; packed where .gz or .zst stands behind that. An address gets OTLP/HTTP (protobuf,
gzip) with the headers of OTEL_EXPORTER_OTLP_HEADERS; /v1/traces is put behind one without a path. All other spans,
and calls without content, are left out and counted. The report is that of convert, with its closed set of outcomes:
what it calls a fact is a call that went out as a span.

Exit codes: 0 done; 1 an input could not be read, or the output not written or not sent; 2 wrong usage; 3 no telemetry
recognised, or, with --strict, a call that was left out or degraded (the spans are written all the same).
"""

#: The session of calls that have none, while they are facts; no span goes out with it.
NO_SESSION = "urn:sediment-otel:normalize:no-session"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(epilog=EPILOG, rich_help_panel=TRACES)
    def normalize(
        inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="File, directory, glob, URL, or - .")],
        out: Annotated[
            list[str] | None,
            typer.Option(
                "-o",
                "--out",
                callback=once,
                metavar="FILE|URL",
                help="spans.jsonl, spans.pb (.gz, .zst), http://…, or - for stdout.",
            ),
        ] = None,
        report: Annotated[
            Path | None,
            typer.Option("--report", parser=named_path, metavar="FILE", help="What became of each span, as JSON."),
        ] = None,
        session_attribute: SessionAttribute = None,
        session_id: SessionId = None,
        include_failed: IncludeFailed = None,
        max_fact_bytes: MaxFactBytes = None,
        keep_account_identity: KeepAccountIdentity = None,
        salvage: Salvage = None,
        content_location: ContentLocation = None,
        workers: Workers = 1,
        strict: Annotated[bool, typer.Option("--strict", help="Exit 3 if a call was left out or degraded.")] = False,
        quiet: Quiet = False,
    ) -> None:
        """Turn model calls of any dialect into spans of the current conventions."""
        from .convert import Place, run

        settings = settings_from(
            session_attributes=session_attribute,
            session_id=session_id,
            raw="full",
            include_failed=include_failed,
            max_fact_bytes=max_fact_bytes,
            keep_account_identity=keep_account_identity,
            salvage=salvage,
            content_locations=content_location,
        )
        if settings.session_id is None:
            settings = replace(settings, session_id=NO_SESSION)
        place = Place(_opened, "span")
        raise typer.Exit(
            run(
                inputs,
                out[0] if out else "-",
                report,
                settings,
                workers=workers,
                strict=strict,
                quiet=quiet,
                place=place,
            )
        )


def _opened(out: str, ids: frozenset[str] | None) -> SpanSink:
    from ..sinks.base import SinkOptions
    from ..sinks.spans import open_spans

    return open_spans(out, SinkOptions(may_repeat=ids), _without_made_up_session)


def _without_made_up_session(span: Span) -> Span:
    import msgspec

    kept = {key: value for key, value in span.attributes.items() if value != NO_SESSION}
    return span if len(kept) == len(span.attributes) else msgspec.structs.replace(span, attributes=kept)
