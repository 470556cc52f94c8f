# SPDX-License-Identifier: Apache-2.0
"""What a completion hook is given, as plain values, and what of it the span does not say already."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import msgspec
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Span as ApiSpan

from ..dialects import gen_ai
from ..dialects.registry import detect, read
from ..genai import Subject, plain
from ..telemetry import Span
from ..vocabulary import SpanRole
from .convert import Converter
from .settling import Completion

SOURCE = "completion_hook"


def content_of(inputs: Any, outputs: Any, system: Any) -> dict[str, Any]:
    """Typed messages as plain ones, copied: the application may go on changing what it handed over."""
    found: dict[str, Any] = {"source": SOURCE}
    for key, value in (("input", inputs), ("output", outputs), ("system", system)):
        if value:
            found[key] = _builtins(list(value))
    return found


def _builtins(value: Any) -> Any:
    """Dataclasses as objects, bytes as base64 text."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_foreign)
    except (TypeError, ValueError, RecursionError):
        return [plain(item) for item in value]


def _foreign(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) else plain(value)


@dataclass(frozen=True, slots=True)
class PendingCompletion:
    """One call of the hook, on its way to the worker. Times are nanoseconds; `arrived` is the pipeline's clock."""

    content: dict[str, Any]
    span: ApiSpan
    time_ns: int
    arrived: float
    session: str | None = None
    record: Any = None
    #: Whether the hook was called for a model call, where the span is not recorded and cannot say so.
    is_call: bool = True

    @property
    def sampled(self) -> bool:
        """Whether exporters will be given the span."""
        return self.span.get_span_context().trace_flags.sampled

    @property
    def recorded(self) -> bool:
        """Whether the span is one that tells what it is, and will end."""
        return isinstance(self.span, ReadableSpan)

    def may_still_end(self, now: float, patience: float) -> bool:
        """Whether the span is recorded, has not ended, and is worth waiting for."""
        span = self.span
        return isinstance(span, ReadableSpan) and span.end_time is None and now < self.arrived + patience

    def completion(self, converter: Converter) -> Completion:
        """As the settling takes it. Of a span that is not recorded there are ids and the time alone."""
        if isinstance(self.span, ReadableSpan):
            return Completion(span=converter.span(self.span), content=self.content, session=self.session)
        context = self.span.get_span_context()
        record = None
        if self.record is not None:
            record = converter.record(_Bare(self.record))
        span = Span(
            trace_id=format(context.trace_id, "032x"), span_id=format(context.span_id, "016x"), end_ns=self.time_ns
        )
        return Completion(span=span, content=self.content, session=self.session, record=record, role=self._role(record))

    def _role(self, record: Any) -> SpanRole:
        if record is not None:
            operation = record.attributes.get(gen_ai.OPERATION)
            return gen_ai.OPERATIONS.get(operation, SpanRole.OTHER) if type(operation) is str else SpanRole.OTHER
        return SpanRole.CALL if self.is_call else SpanRole.OTHER


@dataclass(frozen=True, slots=True)
class _Bare:
    """A log record that was not emitted yet: no resource, no scope."""

    log_record: Any


def now_ns() -> int:
    """The time of day, for what has no time of its own."""
    return time.time_ns()


def without_repeated_content(subject: Subject) -> Subject:
    """The subject with what its span and log records do not carry: the same call gives the same fact, hook or not."""
    content = subject.content
    if not content:
        return subject
    bare = msgspec.structs.replace(subject, content=None)
    found = read(bare, subject.detection or detect(subject.span))
    kept = {
        key: value
        for key, value in content.items()
        if key == "source" or (getattr(found, key, None) is None and not (key == "system" and found.input is not None))
    }
    return msgspec.structs.replace(subject, content=kept if len(kept) > 1 else None)
