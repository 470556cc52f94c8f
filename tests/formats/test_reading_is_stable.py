# SPDX-License-Identifier: Apache-2.0
"""What was read once is in the GenAI form: reading it again changes nothing. Restoring stands on it."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from sediment_otel.dialects.reading import Unreadable, messages_of, system_of
from sediment_otel.formats.messages import read_message
from sediment_otel.formats.parts import read_part
from sediment_otel.translate.residual import typed
from strategies import messages, parts, system_lists


@given(part=parts)
def test_a_part_that_was_read_is_read_as_it_is(part: Any) -> None:
    once = read_part(part)
    assert typed([again for item in once for again in read_part(item)]) == typed(once)


@given(message=messages)
def test_a_message_that_was_read_is_read_as_it_is(message: Any) -> None:
    once = read_message(message)
    assert typed([again for item in once for again in read_message(item)]) == typed(once)


@given(message=messages)
def test_a_list_of_messages_that_was_read_is_read_as_it_is(message: Any) -> None:
    try:
        once = messages_of([message], "here", answer=False)
    except Unreadable:
        return
    if once is not None:
        again = messages_of(once.open(), "here", answer=False)
        assert again is not None
        assert typed(again.open()) == typed(once.open())


@given(instructions=system_lists)
def test_instructions_that_were_read_are_read_as_they_are(instructions: Any) -> None:
    try:
        once = system_of(instructions, "here")
    except Unreadable:
        return
    if once is not None:
        again = system_of(once.open(), "here")
        assert again is not None
        assert typed(again.open()) == typed(once.open())
