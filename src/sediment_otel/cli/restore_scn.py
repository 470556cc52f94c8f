# SPDX-License-Identifier: Apache-2.0
"""`sediment-otel restore --to scn`: facts to records of SCN Chat, one per line."""

from __future__ import annotations

import sys

import msgspec

from .common import EXIT_DONE, EXIT_NOTHING_OR_STRICT, EXIT_UNREADABLE, fail, progress, say


def run(paths: list[str], out: str, *, quiet: bool) -> int:
    """Restore every fact; the exit code. Records are written at the end, when all that belongs together is known."""
    from ..sinks.atomic import AtomicFile
    from ..sinks.base import StorageError
    from ..sinks.jsonl import compression
    from ..translate.restore import RestoreError
    from ..translate.scn_records import ScnRecords
    from .inputs import FactFiles, count
    from .restore import NAMED

    files, records = FactFiles(paths), ScnRecords()
    done = wrong = written = 0
    with progress("restoring", files.size, quiet) as advance:
        for record in files.records(advance):
            try:
                if record.problem is not None:
                    raise RestoreError("fact", record.problem)
                records.add(record.data)
                done += 1
            except RestoreError as error:
                wrong += 1
                if wrong <= NAMED:
                    say(f"sediment-otel: {record.place}: {error}")
    lines = (msgspec.json.encode(entry) + b"\n" for entry in records.entries())
    if out == "-":
        try:
            for line in lines:
                sys.stdout.buffer.write(line)
                written += 1
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            return EXIT_DONE
    else:
        try:
            file = AtomicFile(out)
            compress = compression(out)
            packed = compress(file.file) if compress else None
            try:
                for line in lines:
                    (packed or file.file).write(line)
                    written += 1
                if packed is not None:
                    packed.close()
                file.publish()
            finally:
                file.discard()
        except (StorageError, OSError) as error:
            fail(str(error), EXIT_UNREADABLE)
    if wrong > NAMED:
        say(f"sediment-otel: and {wrong - NAMED} more facts that cannot be restored")
    if not quiet:
        where = "standard output" if out == "-" else out
        say(
            f"{count(written, 'record')} to {where}"
            + (f", {count(wrong, 'fact')} could not be restored" if wrong else "")
        )
    files.tell_empty(quiet=quiet)
    if files.failed:
        return EXIT_UNREADABLE
    return EXIT_DONE if done else EXIT_NOTHING_OR_STRICT
