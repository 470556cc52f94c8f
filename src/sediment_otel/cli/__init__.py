# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per command. Facts go to standard output, words for people to standard error."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from types import FrameType
from typing import NoReturn

import typer

from . import convert, deliver, explain, normalize, restore, serve, validate, verify
from .common import EXIT_DONE, EXIT_INTERNAL, EXIT_UNREADABLE, EXIT_USAGE, say

app = typer.Typer(
    name="sediment-otel",
    help="OpenTelemetry GenAI traces to Sediment InferenceCall facts, and back.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root() -> None:
    """OpenTelemetry GenAI traces to Sediment InferenceCall facts, and back."""


for command in (convert, normalize, explain, verify, validate, restore, deliver, serve):
    command.register(app)


def main() -> None:
    """The entry point of `sediment-otel`. Signals end a run like errors: what was begun is cleared away."""
    _stand_in_for_closed_streams()
    gc.freeze()  # what was imported stays
    gc.set_threshold(50_000, 20, 100)  # a span is many small objects and no cycles: a look at every 700 is waste
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup stays nohup
            signal.signal(number, _end)
    try:
        _run()
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
    except BrokenPipeError:  # the reader has seen enough
        _forget_standard_output()
        sys.exit(EXIT_DONE)
    except OSError as error:
        say(f"sediment-otel: {error.filename or 'standard output'}: {error.strerror}")
        _forget_standard_output()
        sys.exit(EXIT_UNREADABLE)
    except MemoryError:
        say("sediment-otel: out of memory; give it smaller inputs, fewer --workers, or more memory")
        sys.exit(EXIT_UNREADABLE)
    except Exception as error:  # a fault of our own: its message may quote content, its place does not
        places = [f"{os.path.basename(f.filename)}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-3:]]
        say(f"sediment-otel: internal error ({type(error).__name__} at {' > '.join(places)}); please report it")
        sys.exit(EXIT_INTERNAL)


def _run() -> None:
    try:
        app()
    except SystemExit as end:
        try:
            sys.stdout.flush()  # here, where a failure can still be told
        except OSError:
            if end.code != EXIT_UNREADABLE:
                raise
            _forget_standard_output()  # it was told already
        raise


def _forget_standard_output() -> None:
    """What is still buffered for it must not fail once more at the interpreter's end."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # whoever is impatient says it twice
    raise SystemExit(128 + number)


def _stand_in_for_closed_streams() -> None:
    """Standard streams that are closed are opened on nothing, so that no other file gets their number.

    Standard output is opened for reading: writing facts to it fails and is said.
    """
    for number, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free is this one
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


__all__ = ["EXIT_USAGE", "app", "main"]
