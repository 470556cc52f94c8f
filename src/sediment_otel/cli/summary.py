# SPDX-License-Identifier: Apache-2.0
"""What `convert` says when it is done: a few lines that a person wants, with the way out of each loss."""

from __future__ import annotations

from collections.abc import Mapping

from ..conversion import Conversion
from ..lookalikes import note
from ..sinks.remote import is_remote, shown
from ..translate.credentials import redact_text
from ..vocabulary import WAY_OUT, SkipReason
from .common import say


def summarise(result: Conversion, out: str, *, made: str = "fact") -> None:
    """Say what became of the input on standard error; `made` is what came out."""
    account = result.account
    if not result.recognised:
        say(f"No telemetry recognised {no_telemetry(result.silent)}: nothing there looks like {KNOWN}.")
        _unread(result)
        return
    where = "standard output" if out == "-" else shown(out) if is_remote(out) else out
    sessions = f"{_count(len(account.sessions), 'session')}, " if made == "fact" else ""
    models = ", ".join(redact_text(name) for name, _ in account.models.most_common(4))
    more = len(account.models) - 4
    say(
        f"{_count(account.facts, made)} from {_count(account.spans, 'span')} to {where}"
        + (f": {sessions}{models}" if account.facts else "")
        + (f" and {_count(more, 'more model')}" if more > 0 else "")
    )
    if not account.dialects:
        say("None of the spans is a model call.")
    for reason in SkipReason:
        count = account.skipped.get(reason.value)
        if count:
            say(f"  skipped {count} {reason.value}: {WAY_OUT[reason]}")
    if account.parts_aside and made == "fact":  # a span has them whole
        kinds = ", ".join(f"{count} {kind}" for kind, count in account.parts_aside.most_common())
        say(f"  kept in raw only: {kinds}")
    other = {code: count for code, count in account.degraded.items() if code not in _ASIDE}
    if other:
        say("  degraded: " + ", ".join(f"{count} {code}" for code, count in sorted(other.items())))
    for (scope, keys), count in account.looks.most_common(NAMED):
        say(f"  not read by any dialect: {_count(count, 'span')}: {note(scope, keys)} (explain --span ID)")
    if len(account.looks) > NAMED:
        say(f"  and {_count(len(account.looks) - NAMED, 'more kind')} of such spans, which the report names")
    if account.call_ids_reused and made == "fact":
        say(
            f"  {_count(account.call_ids_reused, 'fact')} repeat a model call id (model_call_id_reused): all are kept"
            " here, Sediment keeps the first of each"
        )
    say_silent(result.silent)
    _unread(result)


KNOWN = "OTLP, a console dump or a known log"


def no_telemetry(silent: Mapping[str, bool]) -> str:
    """The inputs in which nothing is telemetry, the first by name."""
    names = [name for name, nothing in silent.items() if nothing]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"in {', '.join(names[:NAMED])}{more}" if names else "in the input"


def say_silent(silent: Mapping[str, bool]) -> None:
    """Say which of several inputs held nothing that is telemetry."""
    number = sum(silent.values())
    if number:
        say(f"  no telemetry in {number} of {_count(len(silent), 'input')}: {no_telemetry(silent).removeprefix('in ')}")


#: Inputs without telemetry that are named; the rest is counted.
NAMED = 3
_ASIDE = frozenset({"unsupported_content", "opaque_reasoning", "missing_id", "extra_choice", "withheld_content"})


def _unread(result: Conversion) -> None:
    for unread in result.unread:
        say(f"  unreadable: {unread.source}: {unread.place}: {unread.reason}")
    rest = result.unread_count - len(result.unread)
    if rest > 0:
        say(f"  and {rest} more records that could not be read")


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
