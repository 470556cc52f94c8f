# SPDX-License-Identifier: Apache-2.0
"""What every sink is: facts go in as bytes that are already redacted, a receipt per fact comes out.

A sink never looks into a fact and never changes it. It decides by `inference_call_id` alone: the first
fact of an id is `stored`, equal bytes after that are a `duplicate`, other bytes a `conflict`, and the
first stays (contract, section 7). A receipt is given when the sink has taken the fact as far as it
promises to (a store: committed; a file: in the file that is published on `close`).

Whatever a sink cannot do it says with `SinkError`: what went wrong, where, and the way out. No content of
a fact is ever in that text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from sediment_otel.facts import InferenceCall
from sediment_otel.vocabulary import Outcome

_Self = TypeVar("_Self", bound="SinkBase")


class StorageError(Exception):
    """Something outside the process cannot be read or written. Three texts for people, free of content."""

    def __init__(self, what: str, where: str, way_out: str) -> None:
        super().__init__(f"{where}: {what}; {way_out}")
        self.what = what
        self.where = where
        self.way_out = way_out

    def __reduce__(self) -> tuple[type[StorageError], tuple[str, str, str]]:
        return type(self), (self.what, self.where, self.way_out)


class SinkError(StorageError):
    """A sink cannot be opened or cannot take what it was given."""


class UnknownSink(SinkError):
    """A location that names no sink: wrong usage, not a fault of the sink."""


class ReaderGone(SinkError):
    """Whoever read our standard output has left (`| head`). A command ends quietly: nothing is wrong."""


class Receipt(str, Enum):
    """What a sink did with one fact."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    #: A running Sediment holds another fact of the same model call, and keeps that one.
    COLLAPSED = "collapsed"
    #: The target does not take this fact, now or later. The sink says why (`remarks`).
    REFUSED = "refused"


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One fact on its way out: its JSON, and the few values that sinks file it under.

    `encoded` is the fact as one line of UTF-8 without a line break. The other values repeat what is in
    it, so that no sink parses; `capture_key` alone is not in it: `<trace id>:<span id>`, or the own key
    of a source without spans (contract, section 5). With it the store drops the skip of an earlier run.
    """

    inference_call_id: str
    session_id: str
    org_id: str
    gateway_provider: str
    model_call_id: str | None
    model: str | None
    observed_at: str
    encoded: bytes
    input_tokens: int | None = None
    output_tokens: int | None = None
    capture_key: str | None = None

    @classmethod
    def of(cls, fact: InferenceCall, encoded: bytes | None = None, *, capture_key: str | None = None) -> Delivery:
        """The delivery of a fact; `encoded` where the bytes exist already."""
        return cls(
            inference_call_id=fact.inference_call_id,
            session_id=fact.session_id,
            org_id=fact.org_id,
            gateway_provider=fact.gateway_provider,
            model_call_id=fact.model_call_id,
            model=fact.model,
            observed_at=fact.observed_at,
            encoded=fact.to_json() if encoded is None else encoded,
            input_tokens=fact.input_tokens,
            output_tokens=fact.output_tokens,
            capture_key=capture_key,
        )


class LossRow(NamedTuple):
    """One loss of one span: a code, a JSON Pointer, a note without content."""

    code: str
    at: str
    note: str


class SpanOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one span, without any content: an item of the report.

    `reason` is None exactly for a fact. `key` names a call that has no span (or a record whose ids could
    not be read); without it the call is `<trace id>:<span id>`.
    """

    trace_id: str
    span_id: str
    name: str
    dialect: str | None
    outcome: str
    reason: str | None = None
    losses: Sequence[tuple[str, str, str]] = ()
    key: str | None = None

    def __post_init__(self) -> None:
        if (self.outcome == Outcome.FACT) != (self.reason is None):
            raise ValueError("a fact has no skip reason, a skip has one")

    @property
    def capture_key(self) -> str:
        """What the outcome is filed under; at most one outcome of a key is kept."""
        return self.key if self.key is not None else f"{self.trace_id}:{self.span_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What a caller may say about the run; every sink takes what concerns it.

    `may_repeat`: the only ids that can come twice in this run, where the caller knows them; None means
    that any may. `durable`: a receipt outlasts a power cut, not only a crash of the process.
    `busy_timeout`: seconds to wait for another writer. `append`: add to a JSON Lines file in place of
    replacing it.
    """

    may_repeat: Collection[str] | None = None
    durable: bool = False
    busy_timeout: float = 30.0
    append: bool = False


DEFAULT_OPTIONS = SinkOptions()


class Sink(Protocol):
    """Where facts go. Not shared between threads unless the sink says so."""

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        """Take the facts; one receipt per fact, in order. All or nothing when it raises."""

    #: Whether the sink keeps outcomes; where it does not, nobody needs to make them.
    keeps_outcomes: bool

    @property
    def takes_blocks(self) -> bool:
        """Whether `write_block` is worth a try."""

    def write_block(self, block: bytes) -> bool:
        """Take facts as one block of JSON lines, all of them stored; False where it wants them one by one."""

    def shared_file(self) -> str | None:
        """A file into which several processes may write lines at places of their own; None where there is none."""

    def grow(self, size: int) -> None:
        """Take note that so many bytes of lines were written into the shared file from its end on."""

    def record_outcomes(self, outcomes: Sequence[SpanOutcome]) -> None:
        """Take skips and losses, where the sink keeps them."""

    def flush(self) -> None:
        """Hand on what is buffered."""

    def close(self) -> None:
        """Finish and publish. A second call does nothing."""

    def abort(self) -> None:
        """Finish without publishing what is half done. After `close` it does nothing."""

    def __enter__(self) -> Sink: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SinkBase:
    """The part of a sink that is the same everywhere."""

    #: Facts that the target does not have and will not take. `remarks` says why.
    refused = 0

    keeps_outcomes = False
    takes_blocks = False

    def record_outcomes(self, outcomes: Sequence[SpanOutcome]) -> None:
        """Kept nowhere, unless a sink overrides this."""

    def remarks(self) -> list[str]:
        """What a person should know about the run besides receipts: one line each, without content."""
        return []

    def write_block(self, block: bytes) -> bool:
        """Facts one by one, unless a sink overrides this."""
        return False

    def shared_file(self) -> str | None:
        """Nothing to share, unless a sink overrides this."""
        return None

    def grow(self, size: int) -> None:
        """Only what shares a file can grow."""
        raise NotImplementedError

    def flush(self) -> None:
        """Nothing is buffered, unless a sink overrides this."""

    def close(self) -> None:
        """Every sink says how it ends."""
        raise NotImplementedError

    def abort(self) -> None:
        self.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()
