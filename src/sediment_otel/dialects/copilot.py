# SPDX-License-Identifier: Apache-2.0
"""GitHub Copilot: Chat in VS Code and the command line, in the current conventions.

A chat has a session of its own, which outranks the conversation id (one per turn) and the resource's session
(one per window). A sub-agent's spans name the chat that it belongs to as its parent.
"""

from __future__ import annotations

from ..genai import Detection
from ..telemetry import Span
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


DIALECT = Dialect(
    name=NAME,
    title="GitHub Copilot",
    detect=detect,
    signs=Signs(keys=SESSION_KEYS, scopes=tuple(SERVICES), services=tuple(SERVICES)),
    session_keys=SESSION_KEYS,
    seen=(),
    not_recoverable=(
        "the model service: Copilot names itself",
        "which call a tool's result answers, in the history of Chat",
        "the service's response id: Chat writes its own request's",
    ),
)
