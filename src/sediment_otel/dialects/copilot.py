# SPDX-License-Identifier: Apache-2.0
"""GitHub Copilot: Chat in VS Code and the command line, in the current conventions.

A chat has a session of its own, which outranks the conversation id (one per turn) and the resource's session
(one per window). A sub-agent's spans name the chat that it belongs to as its parent.

The command line's conversation id is its session. Its spans hold, as input, what is new since the call before: the
user's words or the results of tools, never the history. Every such fact is partial and says so.
"""

from __future__ import annotations

import re

from ..genai import Detection, Loss, Messages, Reading, Subject
from ..telemetry import Span
from ..vocabulary import LossCode, SkipReason
from .base import Dialect, Signs
from .operations import by_operation

NAME = "copilot"

SERVICES = frozenset({"copilot-chat", "github-copilot", "github-copilot-chat"})
#: How the command line's scope is named, unless the user names it otherwise, and its service.
COMMAND_LINE_SCOPE, COMMAND_LINE = "github.copilot", "github-copilot"
SESSION_KEYS = ("copilot_chat.chat_session_id", "copilot_chat.session_id")


def detect(span: Span) -> Detection | None:
    """Its service, its scope, or its session; the operation says what the span is."""
    service = span.resource.attributes.get("service.name")
    if (
        (type(service) is str and service in SERVICES)
        or span.scope.name in SERVICES
        or span.scope.name == COMMAND_LINE_SCOPE
        or any(key in span.attributes for key in SESSION_KEYS)
    ):
        return by_operation(NAME, span)
    return None


REASONING = "copilot_chat.reasoning_content"
#: What Chat put at the end of an attribute that it cut at 64 000 characters.
CUT = re.compile(r"\.\.\.\[truncated, original \d+ chars\]\Z")


def _amend(subject: Subject, reading: Reading) -> None:
    """Reasoning stands apart from the answer; system instructions are plain text, and may be cut."""
    if _is_command_line(subject.span) and reading.input is not None:
        note = "what is new since the call before; Copilot CLI tells no more"
        reading.losses.append(Loss(LossCode.PARTIAL_HISTORY, "/input_messages", note))
    text = subject.span.attributes.get(REASONING)
    if type(text) is str and text.strip():
        _reason(reading, text)
    for part in reading.system.open()[0]["parts"] if reading.system is not None else ():
        if type(part) is dict and type(part.get("content")) is str and CUT.search(part["content"][-60:]):
            reading.problem, reading.problem_at = SkipReason.TRUNCATED, "/system"


def _is_command_line(span: Span) -> bool:
    """Whether the command line wrote a span. Chat may bear the same service name, but names its session."""
    if any(key in span.attributes for key in SESSION_KEYS):
        return False
    return span.scope.name == COMMAND_LINE_SCOPE or span.resource.attributes.get("service.name") == COMMAND_LINE


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
    signs=Signs(keys=SESSION_KEYS, scopes=(*SERVICES, COMMAND_LINE_SCOPE), services=tuple(SERVICES)),
    session_keys=SESSION_KEYS,
    amend=_amend,
    seen=("Copilot CLI 1.0.102 (spans, with a model service of the user's)", "Copilot Chat (documentation only)"),
    not_recoverable=(
        "the model service: Copilot names itself",
        "the history, of the command line: each span has what is new since the call before",
        "which call a tool's result answers, in the history of Chat",
        "the service's response id: Chat writes its own request's",
    ),
)
