# SPDX-License-Identifier: Apache-2.0
"""Microsoft Agent Framework: the newest conventions on spans and the per-message events of 1.36 at once.

Both say the same; the span's attributes are read, the events where there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..genai import Detection, Subject
from ..telemetry import Span
from .base import Dialect, Signs
from .operations import by_operation

NAME = "agent_framework"

SCOPES = frozenset({"agent_framework", "Microsoft.Agents.AI", "Experimental.Microsoft.Agents.AI"})
PROVIDER = "microsoft.agent_framework"


def detect(span: Span) -> Detection | None:
    """Its scope, or its name in place of a model service; the operation says what the span is."""
    if span.scope.name in SCOPES or span.attributes.get("gen_ai.provider.name") == PROVIDER:
        return by_operation(NAME, span)
    return None


def _extra(subject: Subject) -> Mapping[str, Any]:
    """The id of a response in place of a conversation: the call continues it, and sends only what is new."""
    conversation = subject.span.attributes.get("gen_ai.conversation.id")
    continues = type(conversation) is str and conversation.startswith("resp_")
    return {"previous_response_id": conversation} if continues else {}


DIALECT = Dialect(
    name=NAME,
    title="Microsoft Agent Framework",
    detect=detect,
    signs=Signs(scopes=tuple(SCOPES), providers=(PROVIDER,)),
    span_extra=_extra,
    seen=("agent-framework-core 1.23.0, content on spans and in events, and in events alone",),
    not_recoverable=(
        "a session, where neither the service nor the application keeps one",
        "history that the service keeps",
    ),
)
