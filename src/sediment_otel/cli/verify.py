# SPDX-License-Identifier: Apache-2.0
"""`sediment-otel verify`: translate, restore, read again, compare."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated, Any

import typer

from .common import (
    EXIT_DONE,
    EXIT_NOTHING_OR_STRICT,
    EXIT_UNREADABLE,
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
    progress,
    say,
    settings_from,
)

EPILOG = """\
Examples:

  sediment-otel verify traces.jsonl

  sediment-otel verify run/ --raw residual --session-id sess-1

Every model call becomes a fact, the fact a span again, and both spans are read: their messages and scalar fields must
be the same, value for value; what redaction hides is set aside. Both kinds of raw are tried unless --raw names one.
What differs is one line each on standard output: TRACE:SPAN, the kind of raw, a JSON Pointer, and what happened there.

Exit codes: 0 nothing differs (also with no model call among the spans, which is said); 1 an input could not be read;
2 wrong usage; 3 a call differs, or no telemetry was recognised.
"""

#: Differences that are named for one call; the rest is counted.
NAMED = 20


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(epilog=EPILOG, rich_help_panel=TRACES)
    def verify(
        inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="File, directory, glob, URL, or - .")],
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
        """Translate, restore, compare; print what differs."""
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
        raise typer.Exit(run(inputs, settings, both=raw is None, quiet=quiet))


def run(inputs: list[str], settings: Any, *, both: bool, quiet: bool) -> int:
    """Verify every call and tell what differs; the exit code."""
    from dataclasses import replace

    from ..traces import Traces
    from ..vocabulary import RawMode
    from .inputs import trace_inputs
    from .summary import no_telemetry, say_silent

    sources, missing = trace_inputs(inputs)
    if not sources:
        return EXIT_UNREADABLE
    modes = [mode.value for mode in RawMode] if both else [settings.raw]
    kinds = [replace(settings, raw=mode) for mode in modes]
    traces = Traces(sources, kinds[0])
    verified = differing = 0
    skipped: Counter[str] = Counter()
    with progress("verifying", 2 * sum(source.size or 0 for source in sources), quiet) as advance:
        for walked in traces.walk(advance):
            found = walked.translation
            if found.encoded is None:
                skipped[found.reason.value if found.reason is not None else "malformed"] += 1
                continue
            verified += 1
            differing += sum(_tell(walked, kind) for kind in kinds) > 0
    sys.stdout.flush()
    for text in traces.failed:
        say(f"sediment-otel: {text}")
    if not quiet:
        _summarise(verified, differing, skipped, modes)
        for unread in traces.unread:
            say(f"  unreadable: {unread.source}: {unread.place}: {unread.reason}")
        if traces.unread_count > len(traces.unread):
            say(f"  and {traces.unread_count - len(traces.unread)} more records that could not be read")
        if traces.recognised:
            say_silent(traces.silent)
    if missing or traces.failed:
        return EXIT_UNREADABLE
    if not traces.recognised:
        say(f"sediment-otel: no telemetry recognised {no_telemetry(traces.silent)}")
    return EXIT_NOTHING_OR_STRICT if differing or not traces.recognised else EXIT_DONE


def _tell(walked: Any, settings: Any) -> bool:
    """Print what differs for one call with one kind of raw; whether anything does."""
    from ..translate.verify import verify_call

    found = verify_call(walked.subject, settings, walked.decision)
    name = f"{walked.subject.span.trace_id}:{walked.subject.span.span_id}"
    if walked.subject.capture_key is not None:
        name = walked.subject.capture_key
    for difference in found[:NAMED]:
        line = f"{name} raw={settings.raw} {difference.at or '/'} {difference.kind}\n"
        sys.stdout.write(line.encode("utf-8", "backslashreplace").decode())
    if len(found) > NAMED:
        sys.stdout.write(f"{name} raw={settings.raw} and {len(found) - NAMED} more\n")
    return bool(found)


def _summarise(verified: int, differing: int, skipped: Counter[str], modes: list[str]) -> None:
    from ..vocabulary import SkipReason
    from .inputs import count

    if not verified:
        say("No call to verify: none of the spans became a fact.")
    else:
        told = f"{differing} differing" if differing else "all come back as they were"
        say(f"{count(verified, 'call')} verified with raw {' and '.join(modes)}: {told}")
    for reason in SkipReason:
        if skipped[reason.value]:
            say(f"  skipped {skipped[reason.value]} {reason.value}")
