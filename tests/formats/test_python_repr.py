# SPDX-License-Identifier: Apache-2.0
"""Python's repr is read as data, bounded, and never evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.formats.python_repr import literal


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': None, 'b': [True, 1.5, -2]}", {"a": None, "b": [True, 1.5, -2]}),
        ("('x', {1: 'y'})", ["x", {"1": "y"}]),
        ("[\"it's\", '\"']", ["it's", '"']),
        ("'text'", "text"),
        ("{'b', 'a'}", ["a", "b"]),
    ],
)
def test_literals_become_what_json_could_have_said(text: str, value: Any) -> None:
    assert literal(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[open('f')]",
        "[x for x in ()]",
        "{'a': ",
        "[" * 5000,
        "(" * 200 + ")" * 200,
        "[" + "-" * 300_000 + "1]",
        "['\x00']",
        "['\\ud800'",
        "{'a': 1" + "0" * 10_000 + "}",
        "[1" + "+1" * 100_000 + "]",
        "[" + "1," * 1_200_000 + "]",
        None,
        7,
        b"[1]",
    ],
)
def test_anything_else_is_no_value(text: Any) -> None:
    assert literal(text) is None
