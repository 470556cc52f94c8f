# SPDX-License-Identifier: Apache-2.0
"""A call that was over before another began is not around it, whatever the parent ids say.

Seen with the LangChain instrumentation of OpenLLMetry 0.47: it never leaves the context of a span, so that each
call of a program is the child of the call before.
"""

from __future__ import annotations

from sediment_otel.translate.select import Glimpse, decide
from sediment_otel.vocabulary import SpanRole


def call(ordinal: int, parent: int | None, start: int | None, end: int | None, response: str | None = None) -> Glimpse:
    return Glimpse(
        ordinal,
        f"span-{ordinal}",
        None if parent is None else f"span-{parent}",
        SpanRole.CALL,
        has_output=True,
        has_message=True,
        response_id=response,
        start_ns=start,
        end_ns=end,
    )


def wrappers(*spans: Glimpse) -> list[int]:
    return [ordinal for ordinal, decision in sorted(decide(spans).items()) if decision.wrapper]


def test_calls_chained_one_after_the_other_are_calls_of_their_own() -> None:
    assert wrappers(call(0, None, 0, 10), call(1, 0, 11, 20), call(2, 1, 21, 30)) == []


def test_a_call_inside_another_is_nested() -> None:
    assert wrappers(call(0, None, 0, 10), call(1, 0, 2, 9)) == [0]


def test_a_chain_of_nests_has_one_call_each() -> None:
    spans = [call(0, None, 0, 10), call(1, 0, 2, 9), call(2, 1, 11, 20), call(3, 2, 12, 19)]
    assert wrappers(*spans) == [0, 2]


def test_an_equal_response_id_makes_one_call_of_them_all_the_same() -> None:
    assert wrappers(call(0, None, 0, 10, "r"), call(1, 0, 11, 20, "r")) == [0]


def test_touching_or_unknown_times_say_nothing() -> None:
    for outer_end, inner_start in ((10, 10), (None, 11), (10, None)):
        assert wrappers(call(0, None, 0, outer_end), call(1, 0, inner_start, 20)) == [0]
