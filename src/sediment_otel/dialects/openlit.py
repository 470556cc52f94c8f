# SPDX-License-Identifier: Apache-2.0
"""OpenLIT: the current conventions with a mark of its own (`telemetry.sdk.name` on the span).

Nothing stands elsewhere than the conventions have it; what is OpenLIT's own is what it repeats (the system
prompt, in the instructions and in the input), what it leaves out, its key of the user, and event records of
streams without a span id, which only the response id ties to their span.
"""

from __future__ import annotations

from ..genai import Detection
from ..telemetry import Span
from ..vocabulary import SpanRole
from . import gen_ai
from .base import Dialect, Signs

NAME = "openlit"

SDK_NAME = "telemetry.sdk.name"
USER = "gen_ai.request.user"


def detect(span: Span) -> Detection | None:
    """The mark on the span, and the operation."""
    attributes = span.attributes
    if attributes.get(SDK_NAME) != "openlit":
        return None
    operation = attributes.get(gen_ai.OPERATION)
    if operation is None:
        return None
    role = gen_ai.OPERATIONS.get(operation, SpanRole.OTHER) if type(operation) is str else SpanRole.OTHER
    said = operation if role is not SpanRole.OTHER else "another operation"
    return Detection(NAME, role, f"{gen_ai.OPERATION} is {said}")


DIALECT = Dialect(
    name=NAME,
    title="OpenLIT",
    detect=detect,
    signs=Signs(keys=(SDK_NAME,)),
    user_keys=(USER,),
    amend=gen_ai.amend,
    seen=("openlit 1.45.0 with openai 2.54.0",),
    not_recoverable=(
        "images, and the tool calls of the history",
        "which choice a text belongs to, if several were asked for: they are joined into one",
        "the call id of a Responses tool call: the item id (`fc_…`) stands in its place",
        "who said what in the prompt text of versions before the current conventions: it is one text",
    ),
)
