# SPDX-License-Identifier: Apache-2.0
"""Pydantic AI, instrumentation versions 1 to 6.

Version 1 keeps the per-message events of the conventions as one span attribute `events` (or as log records),
whose blocks say `kind` for `type`, and one answer may be several choices of the same index. Later versions
write message attributes with names of their own for thinking, media and results, which are read where all
parts are. With content capture off the messages are there, but empty of everything.
"""

from __future__ import annotations

from typing import Any

from ..genai import Detection, Messages, Reading, Subject
from ..telemetry import Span
from ..vocabulary import SpanRole
from . import gen_ai
from .base import Dialect, Signs
from .operations import by_operation

NAME = "pydantic_ai"

SCOPES = frozenset({"pydantic-ai", "logfire.pydantic_ai"})
MARK = "model_request_parameters"
#: Attributes of an agent's run, whose span names no operation before version 2.
_RUN = frozenset({"final_result", "all_messages_events", "pydantic_ai.all_messages", "model_name"})


def detect(span: Span) -> Detection | None:
    """Its scope or the parameters of its requests; agents and tools of early versions are known by attributes."""
    attributes = span.attributes
    if span.scope.name not in SCOPES and MARK not in attributes:
        return None
    found = by_operation(NAME, span)
    if found is not None:
        return found
    if "agent_name" in attributes and any(key in attributes for key in _RUN):
        return Detection(NAME, SpanRole.AGENT, "the run of an agent")
    if "gen_ai.tool.name" in attributes:
        return Detection(NAME, SpanRole.TOOL, "the run of a tool")
    return Detection(NAME, SpanRole.OTHER, "no operation")


#: What a part holds besides its type and the name and id of a tool.
_CONTENT = frozenset({"content", "arguments", "result", "response", "url", "uri", "file_id", "text"})


def _amend(subject: Subject, reading: Reading) -> None:
    attributes = subject.span.attributes
    if any(m is not None and "event" in m.source for m in (reading.input, reading.output)):
        gen_ai.merge_items(reading)
    elif gen_ai.INPUT_MESSAGES in attributes or gen_ai.OUTPUT_MESSAGES in attributes:
        given = [m for m in (reading.input, reading.output) if m is not None]
        if given and all(map(_empty, given)):
            reading.input = reading.output = None


def _empty(messages: Messages) -> bool:
    """Whether parts are named, and no part holds anything: content capture was off."""
    if messages.items is None and '"content"' in (messages.text or ""):
        return False
    parts = [part for message in messages.open() for part in _parts(message)]
    return bool(parts) and not any(type(part) is not dict or part.keys() & _CONTENT for part in parts)


def _parts(message: Any) -> list[Any]:
    parts = message.get("parts") if type(message) is dict else None
    return parts if type(parts) is list else [message]


DIALECT = Dialect(
    name=NAME,
    title="Pydantic AI",
    detect=detect,
    signs=Signs(keys=(MARK,), scopes=tuple(SCOPES)),
    amend=_amend,
    seen=("pydantic-ai-slim 2.68.0, instrumentation versions 2 to 6", "pydantic-ai-slim 1.0.0, versions 1 and 2"),
    not_recoverable=("the order of text and tool calls of one answer, in version 1",),
)
