# SPDX-License-Identifier: Apache-2.0
"""The GenAI form: what every dialect yields and what the translation reads.

Messages are plain objects in the shape of the newest OpenTelemetry GenAI message schemas::

    {"role": "user", "parts": [{"type": "text", "content": "…"}], "finish_reason": "stop"?, "name": …?}

System instructions are a list of parts. Parts of any type pass through as they are. Text that holds JSON
(tool arguments, tool results) stays text here; the translation peels it.

This module also has the one way in which JSON text is opened: `loads` (lenient, for what producers wrote)
and `peel` (strict JSON, layer by layer).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from .telemetry import LogRecord, Span
from .vocabulary import LossCode, SkipReason, SpanRole

Message: TypeAlias = "dict[str, Any]"
Part: TypeAlias = "dict[str, Any]"

#: Objects with only one of these keys are marks of `raw`: bytes, a non-finite number, an escaped object, bytes that
#: stand in a file of their own.
MARKS = frozenset({"$bytes", "$float", "$literal", "$blob"})
#: How many layers of JSON text are opened at most; a text that nests deeper stays text from there on.
MAX_LAYERS = 16
#: How deep objects and lists may stand in each other, in JSON text and in attributes. A fixed number, so that what is
#: too deep does not hang on how much stack is left; what stays below it passes the readers of JSON that stop at 128.
MAX_DEPTH = 100
#: Integers of more digits than Python converts by default are refused: their conversion is quadratic.
MAX_INTEGER_DIGITS = 4300

_decode = msgspec.json.decode


class NotJson(ValueError):
    """The text is not JSON. `cut` is True where it looks cut short rather than wrong."""

    def __init__(self, cut: bool) -> None:
        super().__init__("cut short" if cut else "not JSON")
        self.cut = cut


def is_too_deep(value: Any, limit: int = MAX_DEPTH) -> bool:
    """Whether more than `limit` objects and lists stand in each other."""
    if type(value) not in _CONTAINERS:
        return False
    level = [value]
    for _ in range(limit):
        below = [
            child
            for item in level
            for child in (item.values() if type(item) is dict else item)
            if type(child) in _CONTAINERS
        ]
        if not below:
            return False
        level = below
    return True


_CONTAINERS = frozenset({dict, list})


def _shallow(value: Any) -> Any:
    if is_too_deep(value):
        raise NotJson(cut=False)
    return value


def loads(text: str) -> Any:
    """The value of JSON text as producers write it: NaN, the infinities and lone surrogates are taken.

    Raises `NotJson`, also for what is nested deeper than `MAX_DEPTH`. Nothing else, whatever the text holds.
    """
    try:
        return _shallow(_decode(text))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        pass
    try:
        return _shallow(json.loads(text))
    except NotJson:
        raise
    except RecursionError:
        raise NotJson(cut=False) from None
    except json.JSONDecodeError as error:
        raise NotJson(cut=_looks_cut(text, error)) from None
    except ValueError:  # an integer of too many digits
        raise NotJson(cut=False) from None


#: What products put where they cut (reference: the notes on limits of each producer).
_CUT_MARKS = ("...[", "…", "...(", "[truncated", "<truncated", "[TRUNCATED", "...")
_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")


def _looks_cut(text: str, error: json.JSONDecodeError) -> bool:
    """A reader that ran out of text, or met a truncation marker, saw a cut; anything else is no JSON."""
    if error.msg.startswith("Unterminated string"):
        return True
    rest = text[error.pos :].strip()
    if not rest or rest.startswith(_CUT_MARKS) or any(word.startswith(rest) for word in _WORDS):
        return True
    if not error.msg.startswith("Invalid \\"):
        return False
    # Cut in an escape: nothing follows but a few of its digits, or a marker does.
    rest = rest.lstrip("\\u0123456789abcdefABCDEF")
    return len(text) - error.pos <= _LONGEST_ESCAPE or rest.startswith(_CUT_MARKS)


_LONGEST_ESCAPE = 6


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def strict_loads(text: str) -> Any:
    """The value of strict JSON text (no NaN, no Infinity). Raises `NotJson`, also for what is nested too deeply."""
    try:
        return _shallow(_decode(text))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        pass
    try:
        return _shallow(json.loads(text, parse_constant=_no_constant))
    except (ValueError, RecursionError):
        raise NotJson(cut=False) from None


_JSON_STARTS = frozenset('{["-0123456789tfn')


def peel(value: Any) -> tuple[Any, int]:
    """Open JSON text to its last layer: `(value, layers)`; a text that is not JSON is itself, 0 layers."""
    layers = 0
    while type(value) is str and layers < MAX_LAYERS:
        start = value[:1]
        if start not in _JSON_STARTS and not start.isspace():
            break
        try:
            value = strict_loads(value)
        except NotJson:
            break
        layers += 1
    return value, layers


def finite(value: Any) -> tuple[Any, int]:
    """`value` with each non-finite number replaced by null, and how many there were (identity if none)."""
    if type(value) is float:
        return (value, 0) if math.isfinite(value) else (None, 1)
    if type(value) is list:
        pairs = [finite(item) for item in value]
        count = sum(n for _, n in pairs)
        return ([item for item, _ in pairs], count) if count else (value, 0)
    if type(value) is dict:
        named = {key: finite(item) for key, item in value.items()}
        count = sum(n for _, n in named.values())
        return ({key: item for key, (item, _) in named.items()}, count) if count else (value, 0)
    return value, 0


def plain(value: Any) -> Any:
    """A value as JSON can hold it: sequences become lists, mappings dicts, bytes base64 text.

    In process, attributes come back frozen (tuples, mapping proxies); on the wire bytes are their own kind.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list or (isinstance(value, Sequence) and not isinstance(value, (str, bytes))):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (bytes, bytearray)):
        return base64_text(bytes(value))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return str(value)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def base64_text(data: bytes) -> str:
    """Bytes as standard base64 with padding."""
    import base64

    return base64.b64encode(data).decode("ascii")


class Loss(msgspec.Struct, frozen=True, gc=False):
    """One thing a fact does not hold. `at` is a JSON Pointer into the GenAI form; `note` has no content."""

    code: LossCode
    at: str
    note: str = ""


class Detection(msgspec.Struct, frozen=True, gc=False):
    """Which dialect speaks on a span, what the span is, and why that was concluded."""

    dialect: str
    role: SpanRole
    reason: str


class Subject(msgspec.Struct, frozen=True, gc=False):
    """One span with what belongs to it: its log records, in time order, and sibling spans that may lend ids.

    `log_only` marks a call that is known from log records alone; `detection` then says which dialect wrote it,
    and `capture_key` names it where it has no trace and span id. `content` is what stood on no span or log record
    (completion hook, files): `{"source": …, "input": …, "output": …, "system": …}`.
    """

    span: Span
    records: Sequence[LogRecord] = ()
    siblings: Sequence[Span] = ()
    log_only: bool = False
    capture_key: str | None = None
    content: Mapping[str, Any] | None = None
    #: What the subject is, where that is known already (a call among log records).
    detection: Detection | None = None
    #: References to content that were not read, and why.
    unread: tuple[str, ...] = ()


class Messages(msgspec.Struct, gc=False):
    """The messages of one direction, as one source has them (system instructions: one system message).

    Either `items`, the messages in the GenAI form, or `typed`, where the JSON `text` they stood in already
    had the shape of a fact (see `formats.canonical`); `open` gives the GenAI form in both cases. `source`
    says where they stood, for people.
    """

    items: list[Message] | None
    source: str
    text: str | None = None
    typed: list[Any] | None = None
    losses: list[Loss] = []

    def open(self) -> list[Message]:
        """The messages in the GenAI form."""
        if self.items is None:
            value = loads(self.text or "[]")
            system = value and "role" not in value[0]
            self.items = [{"role": "system", "parts": value}] if system else value
        return self.items

    def replace(self, items: list[Message]) -> None:
        """Other messages in place of those the source has; the short way is closed for them."""
        self.items, self.typed, self.text = items, None, None


class Content(msgspec.Struct, gc=False):
    """What one content source yields. A direction that it does not carry is None.

    `problem` is why a direction that is there cannot be read (`truncated`, `malformed`); `problems` says it
    by direction.
    """

    input: Messages | None = None
    output: Messages | None = None
    system: Messages | None = None
    problem: SkipReason | None = None
    problems: dict[str, SkipReason] = {}


class Reading(msgspec.Struct, gc=False):
    """What reading a subject gave: messages by direction, scalar fields, and where each came from.

    `fields` has model, model_provider, input_tokens, output_tokens, response_id and finish_reasons as the
    trace spells them, unchecked; `field_sources` names the attribute of each.
    """

    detection: Detection
    input: Messages | None = None
    output: Messages | None = None
    system: Messages | None = None
    problem: SkipReason | None = None
    problem_at: str = ""
    fields: dict[str, Any] = {}
    field_sources: dict[str, str] = {}
    losses: list[Loss] = []
