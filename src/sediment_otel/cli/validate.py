# SPDX-License-Identifier: Apache-2.0
"""`sediment-otel validate`: facts against the schema and the rules of a fact."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from typing import Annotated

import typer

from .common import EXIT_DONE, EXIT_NOTHING_OR_STRICT, EXIT_UNREADABLE, FACTS, Quiet, progress, say

EPILOG = """\
Examples:

  sediment-otel validate facts.jsonl

  sediment-otel validate facts.db more/*.jsonl.gz

  sediment-otel convert traces.jsonl | sediment-otel validate -

Each fault is one line on standard output: FILE:LINE (in a store: FILE:ID), the field, and the rule it breaks. The same
fact twice is named and does no harm; two facts of one inference_call_id with different content do. A warning says
what Sediment's trainers would refuse in a valid fact, why the trace made it so, and what would cure it.

Exit codes: 0 every fact is valid; 1 an input could not be read; 2 wrong usage; 3 a fact is invalid, or conflicts with
another one, or there is none (which is said; an empty file beside others is named).
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(epilog=EPILOG, rich_help_panel=FACTS)
    def validate(
        facts: Annotated[list[str], typer.Argument(metavar="FACTS...", help="JSON Lines, a store, or - .")],
        quiet: Quiet = False,
    ) -> None:
        """Check facts against the schema and the rules of a fact."""
        raise typer.Exit(run(facts, quiet=quiet))


def run(paths: list[str], *, quiet: bool) -> int:
    """Check every fact, name every fault; the exit code."""
    from ..facts import FactError, InferenceCall
    from .inputs import FactFiles, count
    from .trainer import TrainerWarnings

    files = FactFiles(paths)
    warnings = TrainerWarnings()
    total: Counter[str] = Counter()
    seen: dict[bytes, tuple[bytes, str]] = {}
    with progress("validating", files.size, quiet) as advance:
        for record in files.records(advance):
            total["facts"] += 1
            if record.problem is not None:
                total["invalid"] += 1
                _fault(record.place, "fact", record.problem)
                continue
            try:
                fact = InferenceCall.from_json(record.data)
            except FactError as error:
                total["invalid"] += 1
                _fault(record.place, error.field, error.rule)
                continue
            key, content = _short(fact.inference_call_id.encode()), _short(record.data)
            first = seen.setdefault(key, (content, record.place))
            if first[1] == record.place:
                warnings.add(record.place, fact)
                continue
            kind = "duplicate" if first[0] == content else "conflict"
            total[kind] += 1
            told = "has the fact" if kind == "duplicate" else "has another fact"
            _fault(record.place, "inference_call_id", f"{kind}: {first[1]} {told} of this id")
    sys.stdout.flush()
    if not quiet:
        faults = [f"{total['invalid']} invalid"]
        faults += [count(total[kind], kind) for kind in ("duplicate", "conflict") if total[kind]]
        say(f"{count(total['facts'], 'fact')}: {', '.join(faults)}")
        for line in warnings.lines():
            say(line)
    files.tell_empty(quiet=quiet)
    if files.failed:
        return EXIT_UNREADABLE
    if total["invalid"] or total["conflict"] or not total["facts"]:
        return EXIT_NOTHING_OR_STRICT
    return EXIT_DONE


def _fault(place: str, field: str, rule: str) -> None:
    sys.stdout.write(f"{place}: {field}: {rule}\n".encode("utf-8", "backslashreplace").decode())


def _short(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
