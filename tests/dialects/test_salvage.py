# SPDX-License-Identifier: Apache-2.0
"""`--salvage` keeps what is whole at the front of a cut message list, says so, and invents nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sediment_otel.dialects.salvage import leading_items
from sediment_otel.vocabulary import SkipReason

MESSAGES = [
    {"role": "user", "parts": [{"type": "text", "content": 'one 🌍 \\ " ] }'}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "two"}]},
    {"role": "user", "parts": [{"type": "text", "content": "three"}]},
]
OUTPUT = [{"role": "assistant", "parts": [{"type": "text", "content": "hi"}], "finish_reason": "stop"}]
CALL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


@pytest.mark.parametrize("spaces", [None, 2])
def test_a_list_cut_anywhere_keeps_its_whole_items(spaces: int | None) -> None:
    whole = json.dumps(MESSAGES, indent=spaces)
    assert leading_items(whole) is None
    for end in range(1, len(whole)):
        found = leading_items(whole[:end])
        if found is not None:
            assert found == MESSAGES[: len(found)]
        else:
            assert json.loads(whole[:end]) == MESSAGES


def test_a_list_cut_inside_a_layer_of_text_keeps_its_whole_items() -> None:
    whole = json.dumps(json.dumps(MESSAGES))
    longest = 0
    for end in range(3, len(whole)):
        found = leading_items(whole[:end])
        if found is None:  # cut behind the end of the list: only the quote is missing
            assert end >= len(whole) - 1
        else:
            assert found == MESSAGES[: len(found)]
            longest = max(longest, len(found))
    assert longest == len(MESSAGES)


@pytest.mark.parametrize(
    "marker", ["...[truncated, original 90000 chars]", "...[TRUNCATED: original length 90000]", "…"]
)
def test_a_marker_of_truncation_ends_the_list(marker: str) -> None:
    text = json.dumps(MESSAGES)[:-60] + marker
    assert leading_items(text) == MESSAGES[:2]


@pytest.mark.parametrize("text", ["", "x", "5", "null", '"x', '"x"', '{"role": "user"', "[" * 5000, "[1 2", '["\\ud8'])
def test_whatever_else_is_cut_never_raises(text: str) -> None:
    assert leading_items(text) in (None, [], [1])


def test_a_cut_input_is_truncated_and_salvaged_on_demand(given: Any) -> None:
    cut = json.dumps(MESSAGES)[:-20]
    found = given({**CALL, "gen_ai.input.messages": cut, "gen_ai.output.messages": OUTPUT})
    assert found.translation().reason is SkipReason.TRUNCATED
    salvaged = found.translation(salvage=True)
    fact = json.loads(salvaged.encoded)
    assert len(fact["input_messages"]) == 2
    assert fact["output_messages"][0]["parts"] == OUTPUT[0]["parts"]
    assert fact["raw"]["losses"] == [
        {
            "code": "attributes_dropped",
            "at": "/span/attributes/gen_ai.input.messages",
            "note": "cut short, the 2 complete leading messages are kept",
        }
    ]
    assert fact["raw"]["span"]["attributes"]["gen_ai.input.messages"] == cut


def test_the_cut_text_stays_in_a_residual_raw(given: Any) -> None:
    cut = json.dumps(MESSAGES)[:-20]
    found = given({**CALL, "gen_ai.input.messages": cut, "gen_ai.output.messages": OUTPUT})
    fact = json.loads(found.translation(salvage=True, raw="residual").encoded)
    assert fact["raw"]["span"]["attributes"]["gen_ai.input.messages"] == cut


def test_a_cut_input_in_two_layers_of_text_is_truncated_and_salvaged_too(given: Any) -> None:
    cut = json.dumps(json.dumps(MESSAGES))[:-30]
    found = given({**CALL, "gen_ai.input.messages": cut, "gen_ai.output.messages": OUTPUT})
    assert found.translation().reason is SkipReason.TRUNCATED
    assert len(json.loads(found.translation(salvage=True).encoded)["input_messages"]) == 2


def test_a_span_with_nothing_whole_stays_truncated(given: Any) -> None:
    found = given({**CALL, "gen_ai.input.messages": '[{"role": "user", "parts": [{"type"'})
    assert found.translation(salvage=True).reason is SkipReason.TRUNCATED


def test_salvage_changes_nothing_that_is_whole(given: Any) -> None:
    found = given({**CALL, "gen_ai.input.messages": MESSAGES, "gen_ai.output.messages": OUTPUT})
    assert found.translation(salvage=True).encoded == found.translation().encoded


def test_a_message_whose_blocks_are_cut_ends_the_list(given: Any) -> None:
    found = given(
        {
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": "be brief",
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": '[{"type": "text", "text": "it is c',
            "gen_ai.completion.0.content": "hi",
        }
    )
    assert found.translation().reason is SkipReason.TRUNCATED
    fact = json.loads(found.translation(salvage=True).encoded)
    assert [message["role"] for message in fact["input_messages"]] == ["system"]
