# SPDX-License-Identifier: Apache-2.0
"""GitHub Copilot: Chat in VS Code and the command line, in the current conventions.

A chat has a session of its own, which outranks the conversation id (one per turn) and the resource's session
(one per window). A sub-agent's spans name the chat that it belongs to as its parent.
"""

from __future__ import annotations

import re

from ..genai import Detection, Messages, Reading, Subject
from ..telemetry import Span
from ..vocabulary import SkipReason
from .base import Dialect, Signs
from .operations import by_operation

NAME = "copilot"

SERVICES = frozenset({"copilot-chat", "github-copilot", "github-copilot-chat"})
SESSION_KEYS = ("copilot_chat.chat_session_id", "copilot_chat.session_id")


def detect(span: Span) -> Detection | None:
    """Its service, its scope, or its session; the operation says what the span is."""
    service = span.resource.attributes.get("service.name")
    if (
        (type(service) is str and service in SERVICES)
        or span.scope.name in SERVICES
        or any(key in span.attributes for key in SESSION_KEYS)
    ):
        return by_operation(NAME, span)
    return None


REASONING = "copilot_chat.reasoning_content"
#: What Chat put at the end of an attribute that it cut at 64 000 characters.
CUT = re.compile(r"\.\.\.\[truncated, original \d+ chars\]\Z")


def _amend(subject: Subject, reading: Reading) -> None:
    """Reasoning stands apart from the answer; system instructions are plain text, and may be cut."""
    text = subject.span.attributes.get(REASONING)
    if type(text) is str and text.strip():
        _reason(reading, text)
    for part in reading.system.open()[0]["parts"] if reading.system is not None else ():
        if type(part) is dict and type(part.get("content")) is str and CUT.search(part["content"][-60:]):
            reading.problem, reading.problem_at = SkipReason.TRUNCATED, "/system"


def _reason(reading: Reading, text: str) -> None:
    part = {"type": "reasoning", "content": text}
    messages = reading.output.open() if reading.output is not None else []
    first = messages[0] if messages else None
    if reading.output is None:
        reading.output = Messages([{"role": "assistant", "parts": [part]}], f"span attribute {REASONING}")
    elif type(first) is dict and type(first.get("parts")) is list and not any(map(_is_reasoning, first["parts"])):
        reading.output.replace([{**first, "parts": [part, *first["parts"]]}, *messages[1:]])


def _is_reasoning(part: object) -> bool:
    return type(part) is dict and part.get("type") == "reasoning"


DIALECT = Dialect(
    name=NAME,
    title="GitHub Copilot",
    detect=detect,
    signs=Signs(keys=SESSION_KEYS, scopes=tuple(SERVICES), services=tuple(SERVICES)),
    session_keys=SESSION_KEYS,
    amend=_amend,
    seen=("Copilot Chat (documentation)", "Copilot CLI 1.0 (documentation and strings of the program)"),
    not_recoverable=(
        "the model service: Copilot names itself",
        "which call a tool's result answers, in the history of Chat",
        "the service's response id: Chat writes its own request's",
    ),
)
