# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per command. Facts go to standard output, words for people to standard error."""

from __future__ import annotations

import sys

import typer

from . import convert, deliver, explain, restore, serve, validate, verify
from .common import EXIT_USAGE

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


for command in (convert, explain, verify, validate, restore, deliver, serve):
    command.register(app)


def main() -> None:
    """The entry point of `sediment-otel`."""
    try:
        app()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


__all__ = ["EXIT_USAGE", "app", "main"]
