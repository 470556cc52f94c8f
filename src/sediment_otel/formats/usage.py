# SPDX-License-Identifier: Apache-2.0
"""Token counts in the usage objects of model services.

Counts are taken as reported. Two shapes report input without what came from a cache: Anthropic's, and
Langfuse's, in which the counts of one direction add up. There the sum is the whole input, as the conventions
define it.
"""

from __future__ import annotations

from typing import Any

INPUT_KEYS = ("input_tokens", "prompt_tokens", "prompt_token_count", "promptTokenCount", "inputTokens")
OUTPUT_KEYS = (
    "output_tokens",
    "completion_tokens",
    "candidates_token_count",
    "candidatesTokenCount",
    "outputTokens",
)
_CACHED_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")


def read_usage(usage: Any) -> tuple[Any, Any]:
    """Input and output tokens of a service's usage object, unchecked; None where it names none."""
    if type(usage) is not dict:
        return None, None
    given = _first(usage, INPUT_KEYS)
    if type(given) is int and "prompt_tokens" not in usage:
        given += sum(usage[key] for key in _CACHED_BESIDE if type(usage.get(key)) is int)
    return given, _first(usage, OUTPUT_KEYS)


def read_additive(usage: Any) -> tuple[Any, Any]:
    """The same for an object whose `input…` counts are disjoint, and its `output…` counts too (Langfuse)."""
    if type(usage) is not dict or not ("input" in usage or "output" in usage):
        return read_usage(usage)
    return _sum(usage, "input", _CACHED_BESIDE), _sum(usage, "output", ())


def _first(usage: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((usage[key] for key in keys if usage.get(key) is not None), None)


def _sum(usage: dict[str, Any], direction: str, beside: tuple[str, ...]) -> Any:
    given = usage.get(direction)
    if type(given) is not int:
        return given
    for key, count in usage.items():
        if type(count) is int and (key in beside or (key.startswith(f"{direction}_") and key != f"{direction}_tokens")):
            given += count
    return given
