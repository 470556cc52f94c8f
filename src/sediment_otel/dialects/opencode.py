# SPDX-License-Identifier: Apache-2.0
"""OpenCode's plugins for telemetry: spans of sessions and calls without any messages.

OpenCode itself speaks the AI SDK's dialect (`experimental.openTelemetry`), with messages: see `ai_sdk`. The plugins'
calls have counts and a session, no more. They are known as calls all the same, so that the way out can be told.
"""

from __future__ import annotations

from ..genai import Detection
from ..telemetry import Span
from ..vocabulary import SpanRole
from . import gen_ai
from .base import Dialect, Signs
from .operations import by_operation

NAME = "opencode"

SERVICE = "opencode"
SESSION_SPAN, CALL_SPAN, TOOL_SPAN = "opencode.session", "gen_ai.chat", "opencode.tool"


def detect(span: Span) -> Detection | None:
    """The names of the plugins' spans; most name no operation."""
    if gen_ai.OPERATION in span.attributes:
        return by_operation(NAME, span) if span.name in (CALL_SPAN, SESSION_SPAN) else None
    if span.name == CALL_SPAN and "gen_ai.system" in span.attributes:
        return Detection(NAME, SpanRole.CALL, f"a span {CALL_SPAN} with its system")
    if span.name.startswith(SESSION_SPAN):
        return Detection(NAME, SpanRole.AGENT, "a session of OpenCode")
    if span.name.startswith(TOOL_SPAN):
        return Detection(NAME, SpanRole.TOOL, "a tool of OpenCode")
    return None


DIALECT = Dialect(
    name=NAME,
    title="OpenCode's telemetry plugins",
    detect=detect,
    signs=Signs(names=(CALL_SPAN, SESSION_SPAN)),
    seen=("@devtheops/opencode-plugin-otel (documentation only)",),
    not_recoverable=("messages: use OpenCode's own `experimental.openTelemetry` instead",),
)
