# SPDX-License-Identifier: Apache-2.0
"""What a dialect is: one producer's way of writing a model call, as data.

A dialect is one module with one `Dialect` value, and one row in `dialects.registry`. It says how its spans
are known (`detect`), where messages stand (`sources`, tried in order), and which attributes feed the
scalar fields (`fields`). It never decides what Sediment can hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..genai import Content, Detection, Reading, Subject
from ..telemetry import LogRecord, Span

#: Reads a subject's messages from one kind of place, or None where the place is not there.
SourceReader: TypeAlias = "Callable[[Subject], Content | None]"


@dataclass(frozen=True, slots=True)
class Source:
    """One kind of place in which a dialect keeps messages. `name` is shown to people."""

    name: str
    read: SourceReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """By what a dialect can be known on a span that names a GenAI operation: one of these is there.

    Attribute keys; starts of scope names; service names; values of the provider or system; operations;
    whole span names. Where none of a dialect's signs is there, it is not asked.
    """

    keys: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogCall:
    """A call that log records alone describe: the records, and the key it is captured under.

    Without `end_ns` the call ended at the time of its last record; without `start_ns` its duration is unknown.
    `content` is what the records only point to (see `Subject.content`). `failed` says that it ended in an error.
    """

    records: tuple[LogRecord, ...]
    capture_key: str | None
    start_ns: int | None = None
    end_ns: int | None = None
    content: Mapping[str, Any] | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """Content of one direction (`input`, `output`, `system`) that stands elsewhere, under `text`.

    With `index` the address is in a list of files: the row whose column `index[0]` is `index[1]` has it in `index[2]`.
    """

    direction: str
    attribute: str
    text: str = ""
    index: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One producer's way of writing. All tables map a field to attribute keys, the first usable one wins.

    `fields` may name: model, model_provider, input_tokens, output_tokens, response_id, finish_reasons.
    `message_attributes` are the keys (anywhere: span, event, log record) whose JSON text holds messages,
    so that `raw` stores them parsed. `span_extra` computes what no table can say (a value inside JSON text,
    a sum): it returns field values that count where the tables found nothing, or under a key with a leading
    "=" where they replace what the tables found.
    """

    name: str
    title: str
    detect: Callable[[Span], Detection | None]
    signs: Signs
    sources: tuple[Source, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    session_keys: tuple[str, ...] = ()
    #: The session keys are so common that they name a session in this dialect alone.
    private_session_keys: bool = False
    user_keys: tuple[str, ...] = ()
    message_attributes: frozenset[str] = frozenset()
    span_extra: Callable[[Subject], Mapping[str, Any]] | None = None
    #: Last word on a reading, for what stands apart from the messages (tool calls beside them, wrong roles).
    amend: Callable[[Subject, Reading], None] | None = None
    #: Provider names are cut at their first dot (`anthropic.messages`).
    provider_to_first_dot: bool = False
    #: Log records that this dialect's calls consist of or lend content to.
    wants_record: Callable[[LogRecord], bool] | None = None
    #: Calls among log records that belong to no span.
    log_calls: Callable[[Iterable[LogRecord]], Iterable[LogCall]] | None = None
    #: `source` in `raw`, and what stands there besides telemetry, for a source that is none.
    raw_source: str = "otel"
    raw_extra: Callable[[Subject], Mapping[str, Any]] | None = None
    #: Content that stands outside the telemetry, where its own dialect says so.
    references: Callable[[Subject], Iterable[Reference]] | None = None
    #: Keys, on spans and records, of an id that is the same on all that belongs to a call (besides the response id).
    join_keys: tuple[str, ...] = ()
    #: Its log records name the span around the call, never the call's own: they are joined as if they named none.
    records_beside: bool = False
    #: Spans that are no calls but lend ids to their parent call.
    lends_ids: Callable[[Span], bool] | None = None
    #: Prefixes under which messages are flattened into numbered attributes.
    indexed: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    not_recoverable: tuple[str, ...] = ()
