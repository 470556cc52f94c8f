# SPDX-License-Identifier: Apache-2.0
"""What commands share: exit codes, settings from options and environment, words on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ..settings import Settings, SettingsError

EXIT_DONE = 0
EXIT_UNREADABLE = 1
EXIT_USAGE = 2
EXIT_NOTHING_OR_STRICT = 3
#: A fault of this program itself (EX_SOFTWARE).
EXIT_INTERNAL = 70

TRACES = "Traces"
FACTS = "Facts"


def named(value: str | None) -> str | None:
    """A name of a file, sink or address that was given as an option: blank, it is wrong usage."""
    if value is not None and not value.strip():
        raise typer.BadParameter("the name is empty (an unset variable?); give one, or leave the option out")
    return value


def once(values: list[str] | None) -> list[str] | None:
    """An output that may be named once, since only one can be written."""
    for value in values or ():
        named(value)
    if values is not None and len(values) > 1:
        raise typer.BadParameter("was given more than once; name one output, and run again for another one")
    return values


def named_path(text: str) -> Path:
    """The same for a file."""
    named(text)
    return Path(text)


Org = Annotated[str | None, typer.Option("--org", help="Organisation of the facts. Never read from a span.")]
SessionAttribute = Annotated[
    list[str] | None,
    typer.Option(
        "--session-attribute", metavar="KEY", help="Attribute that holds the session, tried first. Repeatable."
    ),
]
SessionId = Annotated[
    str | None, typer.Option("--session-id", metavar="ID", help="Session for calls whose trace names none.")
]
Gateway = Annotated[
    str | None,
    typer.Option(
        "--gateway", metavar="NAME", help="gateway_provider of every fact: litellm, portkey, helicone, unknown."
    ),
]
Raw = Annotated[
    str | None,
    typer.Option("--raw", metavar="full|residual", help="residual leaves out of raw what the fields hold already."),
]
IncludeFailed = Annotated[
    bool | None, typer.Option("--include-failed", help="Make facts of calls that ended in an error, too.")
]
MaxFactBytes = Annotated[
    int | None, typer.Option("--max-fact-bytes", metavar="N", help="A fact that exceeds this is skipped (64 MiB).")
]
KeepAccountIdentity = Annotated[
    bool | None,
    typer.Option("--keep-account-identity", help="Leave user.email, user.account_id and user.account_uuid in raw."),
]
Salvage = Annotated[
    bool | None,
    typer.Option("--salvage", help="Keep the complete leading messages of message lists that were cut short."),
]
ContentLocation = Annotated[
    list[str] | None,
    typer.Option(
        "--content-location",
        metavar="PREFIX",
        help="Directory or URL prefix from which referenced content (*_ref attributes) may be read. Repeatable.",
    ),
]
Workers = Annotated[int, typer.Option("--workers", min=1, max=64, help="Processes that read and translate.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]


def settings_from(**options: Any) -> Settings:
    """Settings from the environment, with the options that were given on top. Wrong ones end with exit 2."""
    for name in ("session_attributes", "content_locations"):
        if any(not value.strip() for value in options.get(name) or ()):
            fail(f"--{name[:-1].replace('_', '-')}: an empty value; give one, or leave the option out", EXIT_USAGE)
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items() if value}
    if options.get("max_fact_bytes") is not None:
        given["max_fact_bytes"] = options["max_fact_bytes"]
    for key in ("org", "session_id", "gateway", "raw"):
        if options.get(key) is not None:
            given[key] = options[key]
    try:
        return Settings.from_environment(os.environ, **given)
    except SettingsError as error:
        fail(f"wrong setting: {error}", EXIT_USAGE)


def same_file(one: str | os.PathLike[str] | None, other: str | os.PathLike[str], *, missing: bool = False) -> bool:
    """Whether two paths are one regular file; with `missing`, also one that is not there yet."""
    if one is None:
        return False
    try:
        return os.path.samefile(one, other) and os.path.isfile(one)
    except (OSError, ValueError):
        return missing and os.path.realpath(one) == os.path.realpath(other)


def printable(text: str) -> str:
    """The text with escapes for what a terminal would obey or cannot show."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def say(text: str = "") -> None:
    """A line for people, in which nothing is a command to their terminal."""
    text = "\n".join(map(printable, text.split("\n")))
    try:
        sys.stderr.write(f"{text}\n")
    except UnicodeEncodeError:
        sys.stderr.write(text.encode("ascii", "backslashreplace").decode() + "\n")
    except (BrokenPipeError, ValueError):
        return


def fail(text: str, code: int) -> NoReturn:
    """End with a line for people and an exit code."""
    say(f"sediment-otel: {text}")
    raise typer.Exit(code)


@contextmanager
def progress(title: str, total: int, quiet: bool) -> Iterator[Any]:
    """A progress bar on a terminal, nothing in a pipe. Yields `advance(stage, bytes)`."""
    if quiet or not sys.stderr.isatty() or not total:
        yield lambda stage, amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=total)
        yield lambda stage, amount: bars.advance(task, amount)
