# SPDX-License-Identifier: Apache-2.0
"""Strands Agents: calls, cycles and agents, each with the same messages as span events.

A call is the span `chat`. Its messages are per-message span events with Bedrock's blocks (legacy), or events
of the newest conventions, one attribute each; both are read as the conventions are. The cycle around a call
repeats its messages and is none.
"""

from __future__ import annotations

from ..genai import Detection
from ..telemetry import Span
from ..vocabulary import SpanRole
from . import gen_ai
from .base import Dialect, Signs
from .operations import by_operation

NAME = "strands"

SCOPE = "strands.telemetry.tracer"
PROVIDER = "strands-agents"

#: `gen_ai.operation.name` beyond the conventions' own → what the span is.
OPERATIONS: dict[str, SpanRole] = {
    **gen_ai.OPERATIONS,
    "execute_event_loop_cycle": SpanRole.OTHER,
    "invoke_swarm": SpanRole.AGENT,
    "invoke_graph": SpanRole.AGENT,
}


def detect(span: Span) -> Detection | None:
    """Its scope, or its name in place of a model service; the operation says what the span is."""
    attributes = span.attributes
    if (
        span.scope.name == SCOPE
        or attributes.get("gen_ai.provider.name") == PROVIDER
        or attributes.get("gen_ai.system") == PROVIDER
    ):
        return by_operation(NAME, span, OPERATIONS)
    return None


DIALECT = Dialect(
    name=NAME,
    title="Strands Agents",
    detect=detect,
    signs=Signs(scopes=(SCOPE,), providers=(PROVIDER,)),
    seen=("strands-agents 1.62.0, legacy, newest conventions, and these on attributes alone",),
    not_recoverable=(
        "the model service, the model that answered and the response id",
        "bytes of media, which a text replaces",
        "the oldest messages of sessions with more than 128 span events",
    ),
)
