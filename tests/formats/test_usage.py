# SPDX-License-Identifier: Apache-2.0
"""Counts in usage objects: as reported, and whole where cached input is reported beside."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.formats.usage import read_additive, read_usage


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 120, "completion_tokens": 34, "cache_read_input_tokens": 64}, (120, 34)),
        ({"input_tokens": 200, "output_tokens": 50, "input_tokens_details": {"cached_tokens": 128}}, (200, 50)),
        ({"input_tokens": 90, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 50}, (150, None)),
        ({"input_tokens": 90, "cache_read_input_tokens": None, "output_tokens": 0}, (90, 0)),
        ({"prompt_token_count": 77, "candidates_token_count": 25, "thoughts_token_count": 5}, (77, 25)),
        ({"promptTokenCount": 77, "candidatesTokenCount": 25}, (77, 25)),
        ({"inputTokens": 9, "outputTokens": 2, "cacheReadInputTokens": 4}, (9, 2)),
        ({"input_tokens": "90", "cache_read_input_tokens": 60}, ("90", None)),
        ({}, (None, None)),
        (None, (None, None)),
        ([], (None, None)),
    ],
)
def test_a_usage_object_gives_its_counts(usage: Any, expected: Any) -> None:
    assert read_usage(usage) == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input": 1, "input_cache_read": 2, "input_audio": 3, "output": 4, "output_reasoning": 5}, (6, 9)),
        ({"input": 1, "cache_read_input_tokens": 2, "total": 9}, (3, None)),
        ({"input": True}, (True, None)),
        ({"prompt_tokens": 1}, (1, None)),
        ("x", (None, None)),
    ],
)
def test_counts_that_add_up_are_added_up(usage: Any, expected: Any) -> None:
    assert read_additive(usage) == expected
