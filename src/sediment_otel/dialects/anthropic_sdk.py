# SPDX-License-Identifier: Apache-2.0
"""The Anthropic SDK's own spans: a call with its usage and response id, without content.

Such a span lies inside the span of whichever instrumentation calls the SDK, and then both are one call; or it
stands alone, and then there is nothing to make a fact of.
"""

from __future__ import annotations

from ..genai import Detection
from ..telemetry import Span
from .base import Dialect, Signs
from .operations import by_operation

NAME = "anthropic_sdk"

SCOPE = "com.anthropic.sdk."


def detect(span: Span) -> Detection | None:
    """Its scope and an operation."""
    return by_operation(NAME, span) if span.scope.name.startswith(SCOPE) else None


DIALECT = Dialect(
    name=NAME,
    title="Anthropic SDK",
    detect=detect,
    signs=Signs(scopes=(SCOPE,)),
    seen=("anthropic 2 for Python, inside and beside other instrumentations",),
    not_recoverable=("content, which these spans never have",),
)
