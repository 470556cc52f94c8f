# SPDX-License-Identifier: Apache-2.0
"""Semantic Kernel: the conventions' per-message events, written as Python log records with JSON text.

Its operations have names of their own, and the prompt of a text completion is a record `gen_ai.prompt`.
"""

from __future__ import annotations

from typing import Any

from ..genai import Content, Detection, Messages, Subject
from ..telemetry import LogRecord, Span
from ..vocabulary import SpanRole
from . import gen_ai
from .base import Dialect, Signs, Source
from .operations import by_operation

NAME = "semantic_kernel"

SCOPE = "semantic_kernel"
PROMPT = "gen_ai.prompt"

#: `gen_ai.operation.name` as Semantic Kernel spelt it over time → what the span is.
_OWN: dict[str, SpanRole] = {
    "chat.completions": SpanRole.CALL,
    "text.completions": SpanRole.CALL,
    "text_completions": SpanRole.CALL,
    "chat.streaming_completions": SpanRole.CALL,
    "text.streaming_completions": SpanRole.CALL,
}
OPERATIONS: dict[str, SpanRole] = {**gen_ai.OPERATIONS, **_OWN}


def detect(span: Span) -> Detection | None:
    """An operation that only Semantic Kernel names so, or its scope."""
    operation = span.attributes.get(gen_ai.OPERATION)
    own = type(operation) is str and operation in _OWN
    return by_operation(NAME, span, OPERATIONS) if own or span.scope.name.startswith(SCOPE) else None


def wants_record(record: LogRecord) -> bool:
    """The prompt of a text completion."""
    return record.event_name == PROMPT


def _read(subject: Subject) -> Content | None:
    found: list[Any] = [
        {"role": "user", "parts": [{"type": "text", "content": record.body}]}
        for record in subject.records
        if record.event_name == PROMPT and type(record.body) is str and record.body
    ]
    return Content(input=Messages(found, f"record {PROMPT}")) if found else None


DIALECT = Dialect(
    name=NAME,
    title="Semantic Kernel",
    detect=detect,
    signs=Signs(scopes=(SCOPE,), operations=tuple(_OWN)),
    sources=(Source("prompt records", _read),),
    wants_record=wants_record,
    seen=("semantic-kernel 1.45.0",),
    not_recoverable=("text beside tool calls in the history", "the model that answered"),
)
