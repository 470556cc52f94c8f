# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry's instrumentation of the Google GenAI SDK, before and since the newest conventions.

Until version 0.4 each piece of a stream is a choice event of its own, and `index` counts these events: a
choice without a finish reason is continued by the next. Automatic function calling is one span for two
requests, with the first prompt and the last answer.
"""

from __future__ import annotations

from typing import Any

from ..genai import Detection, Reading, Subject
from ..telemetry import Span
from .base import Dialect, Signs
from .operations import by_operation

NAME = "google_genai"

SCOPE = "opentelemetry.instrumentation.google_genai"


def detect(span: Span) -> Detection | None:
    """Its scope and an operation."""
    return by_operation(NAME, span) if span.scope.name.startswith(SCOPE) else None


def _amend(subject: Subject, reading: Reading) -> None:
    output = reading.output
    if output is None or "event" not in output.source:
        return
    messages = output.open()
    joined: list[Any] = []
    for message in messages:
        if joined and _goes_on(joined[-1]) and _has_parts(message):
            joined[-1] = {**message, "parts": _joined(joined[-1]["parts"], message["parts"])}
        else:
            joined.append(message)
    if len(joined) != len(messages):
        output.replace(joined)


def _has_parts(message: Any) -> bool:
    return type(message) is dict and type(message.get("parts")) is list


def _goes_on(message: Any) -> bool:
    return _has_parts(message) and not message.get("finish_reason")


def _joined(before: list[Any], after: list[Any]) -> list[Any]:
    """The parts of two pieces; a text that goes on from one to the other is one text."""
    if before and after and _continues(before[-1], after[0]):
        return [*before[:-1], {**before[-1], "content": before[-1]["content"] + after[0]["content"]}, *after[1:]]
    return before + after


def _continues(last: Any, first: Any) -> bool:
    if type(last) is not dict or type(first) is not dict or last.get("type") not in ("text", "reasoning"):
        return False
    alike = {**last, "content": None} == {**first, "content": None}
    return alike and type(last.get("content")) is str and type(first.get("content")) is str


DIALECT = Dialect(
    name=NAME,
    title="Google GenAI SDK",
    detect=detect,
    signs=Signs(scopes=(SCOPE,)),
    amend=_amend,
    seen=("opentelemetry-instrumentation-google-genai 1.3b0 and 0.3b0",),
    not_recoverable=("the response id and model before the newest conventions",),
)
