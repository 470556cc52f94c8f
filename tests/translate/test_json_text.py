# SPDX-License-Identifier: Apache-2.0
"""Opening JSON text: what is cut, what is wrong, and how many layers there are."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sediment_otel.genai import NotJson, loads, peel, strict_loads

CUT = [
    '[{"a":"x',
    '[{"a":"x\\',
    '[{"a":"x\\u12',
    '[{"a":"\\ud83d',
    '[{"a":tr',
    '[{"a":12',
    '[{"a":-',
    '[{"a"',
    '[{"a":"x"},',
    "[",
    '[{"a":"x"}...[truncated, original 500 chars]',
    '[{"a":"x...[TRUNCATED: original length 500]',
    '[{"a":"x\\...[TRUNCATED: original length 500]',
]
WRONG = ['[{"a":"C:\\Users"}]', "[1 2]", '{"a":1}}', "hello", "[1,]", "{'a': 1}", "[" * 100_000, "9" * 5000]


@pytest.mark.parametrize("text", CUT)
def test_text_that_ends_too_early_is_cut(text: str) -> None:
    with pytest.raises(NotJson) as caught:
        loads(text)
    assert caught.value.cut


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:12])
def test_text_that_was_never_json_is_wrong(text: str) -> None:
    with pytest.raises(NotJson) as caught:
        loads(text)
    assert not caught.value.cut


messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "tool"]), "parts": st.lists(st.text(max_size=12), max_size=3)}
    ),
    min_size=1,
    max_size=3,
)


@given(messages, st.integers(min_value=1), st.booleans())
def test_every_cut_of_a_message_list_is_seen_as_one(value: Any, at: int, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    with pytest.raises(NotJson) as caught:
        loads(text[: at % (len(text) - 1) + 1])
    assert caught.value.cut


def test_what_python_writes_is_read_but_is_no_strict_json() -> None:
    assert math.isnan(loads('{"a": NaN}')["a"])
    assert loads('"\\ud83e"') == "\ud83e"
    with pytest.raises(NotJson):
        strict_loads("NaN")
    assert strict_loads('"\\ud83e"') == "\ud83e"


@pytest.mark.parametrize(
    ("value", "opened", "layers"),
    [
        ("42", 42, 1),
        ('"42"', 42, 2),
        ('"hello"', "hello", 1),
        ("hello", "hello", 0),
        ("", "", 0),
        (" {} ", {}, 1),
        ("NaN", "NaN", 0),
        ("-Infinity", "-Infinity", 0),
        ("{'a': 1}", "{'a': 1}", 0),
        (7, 7, 0),
        (None, None, 0),
        ("123456789012345678901234567890", 123456789012345678901234567890, 1),
        (json.dumps(json.dumps({"a": 1})), {"a": 1}, 2),
    ],
)
def test_layers_of_text_are_peeled_and_counted(value: Any, opened: Any, layers: int) -> None:
    assert peel(value) == (opened, layers)
