# SPDX-License-Identifier: Apache-2.0
"""Numbered attributes are put together by number, whatever their keys look like."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sediment_otel.dialects.indexed import (
    Branch,
    MessageKeys,
    before,
    branch,
    branches,
    first_keys,
    gap,
    index_of,
    leading,
    numbered,
)


def test_items_come_in_the_order_of_their_numbers_not_of_their_spelling() -> None:
    attributes = {f"m.{index}.role": str(index) for index in (10, 2, 0, 1, 9, 100)}
    assert [item.value("role") for item in branches(branch(attributes, "m"))] == ["0", "1", "2", "9", "10", "100"]


def test_only_keys_below_the_prefix_count() -> None:
    assert branch({"m": 1, "m2.0.role": 1, "other.m.0.role": 1, "m.0.role": "user"}, "m") == {"0": {"role": "user"}}


def test_a_key_that_is_a_value_and_the_start_of_others_keeps_both_in_any_order() -> None:
    pairs = [("m.0.content", "text"), ("m.0.content.0.type", "x"), ("m.0.content.1.type", "y")]
    for _ in range(6):
        random.shuffle(pairs)
        item = branches(branch(dict(pairs), "m"))[0]
        assert item.value("content") == "text"
        assert [part.value("type") for part in branches(item.below("content"))] == ["x", "y"]


def test_an_object_as_a_value_is_no_branch() -> None:
    node = branch({"m.0.content": {"0": {"role": "inner"}}}, "m")
    assert type(node["0"]) is Branch
    assert node["0"].value("content") == {"0": {"role": "inner"}}
    assert node["0"].below("content") == {}


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("0", 0),
        ("007", 7),
        ("x", None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("²", None),
        ("1" * 400, None),
    ],
)
def test_a_piece_of_a_key_is_a_number_or_a_name(name: str, index: int | None) -> None:
    assert index_of(name) == index


def test_a_huge_index_costs_nothing() -> None:
    items = numbered(branch({"m.1000000000.role": "user", "m.0.role": "system"}, "m"))
    assert [index for index, _ in items] == [0, 1_000_000_000]


def test_two_spellings_of_one_number_give_one_item() -> None:
    for keys in (("m.1.role", "m.01.role"), ("m.01.role", "m.1.role")):
        items = numbered(branch({key: key for key in keys}, "m"))
        assert [(index, item.value("role")) for index, item in items] == [(1, "m.1.role")]


def test_a_very_deep_key_is_cut_into_few_pieces() -> None:
    node: Any = branch({"m." + ".".join("a" * 5000): 1}, "m")
    depth = 0
    while type(node) is Branch:
        node = next(iter(node.values()))
        depth += 1
    assert depth <= 20


@pytest.mark.parametrize(
    ("indices", "dropped", "first", "missing"),
    [
        ([], 5, 0, False),
        ([0, 1, 2], 0, 0, False),
        ([0, 1, 2], 9, 0, False),
        ([0, 2], 0, 0, True),
        ([2, 3], 0, 0, False),
        ([2, 3], 4, 0, True),
        ([1, 2], 4, 1, False),
        ([2, 3], 4, 1, True),
        ([5], 1, 0, True),
    ],
)
def test_a_hole_or_a_missing_beginning_with_dropped_attributes_is_a_gap(
    indices: list[int], dropped: int, first: int, missing: bool
) -> None:
    assert gap(indices, dropped, first) is missing


def test_what_stands_before_the_first_gap_is_found_and_kept() -> None:
    attributes = {"m.0.a": 1, "m.1.a": 1, "m.3.a": 1, "m.x": 1, "other": 1}
    assert leading(attributes, "m") == (2, True)
    assert leading({"m.0.a": 1}, "m") == (1, False)
    assert before(attributes, "m", 2) == {"m.0.a": 1, "m.1.a": 1, "m.x": 1, "other": 1}


def test_the_first_items_show_that_a_list_is_there() -> None:
    keys = first_keys(("n", "m"), ("role",))
    assert not keys.isdisjoint({"m.0.role": 1})
    assert not keys.isdisjoint({"n.1.role": 1})
    assert keys.isdisjoint({"m.7.role": 1, "other": 2})


def test_tool_arguments_below_a_prefix_are_message_keys() -> None:
    keys = MessageKeys(frozenset({"exact"}), ("m", "n"))
    assert "exact" in keys
    assert "m.0.tool_calls.0.arguments" in keys
    assert "m.0.content" not in keys
    assert "other.0.tool_calls.0.arguments" not in keys
    assert 5 not in keys
