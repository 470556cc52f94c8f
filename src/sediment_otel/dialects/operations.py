# SPDX-License-Identifier: Apache-2.0
"""What a span is by its `gen_ai.operation.name`, for dialects that write the conventions with quirks of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..genai import Detection
from ..telemetry import Span
from ..vocabulary import SpanRole
from . import gen_ai


def by_operation(dialect: str, span: Span, operations: Mapping[str, SpanRole] = gen_ai.OPERATIONS) -> Detection | None:
    """The detection under the dialect's name; None where the span names no operation."""
    operation = span.attributes.get(gen_ai.OPERATION)
    if type(operation) is not str:
        return None
    role = operations.get(operation, SpanRole.OTHER)
    named = operation if role is not SpanRole.OTHER else "another operation"
    return Detection(dialect, role, f"{gen_ai.OPERATION} is {named}")


def milliseconds(value: Any) -> int | None:
    """A duration in milliseconds, as a number or as digits in text, cut to a whole number; else None."""
    if type(value) is str and len(value) <= 32:
        try:
            value = float(value)
        except ValueError:
            return None
    if type(value) is float:
        return int(value) if 0 <= value < 2.0**53 else None
    return value if type(value) is int and 0 <= value < 2**53 else None


def whole(value: Any) -> int | None:
    """A count, as a number or as digits in text; None where it is no count."""
    if type(value) is str and len(value) <= 20 and value.strip().isdecimal():
        return int(value)
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None
