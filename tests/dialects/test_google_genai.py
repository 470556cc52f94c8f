# SPDX-License-Identifier: Apache-2.0
"""Google GenAI SDK: pieces of a stream are one answer, choices of a call are not."""

from __future__ import annotations

from typing import Any

import pytest

from sediment_otel.telemetry import LogRecord

SCOPE = "opentelemetry.instrumentation.google_genai"
SPAN = {"gen_ai.operation.name": "generate_content"}


def choice(index: int, reason: str | None, *parts: dict[str, Any]) -> LogRecord:
    body: dict[str, Any] = {"index": index, "content": {"role": "model", "parts": list(parts)}}
    return LogRecord(event_name="gen_ai.choice", body=body if reason is None else {**body, "finish_reason": reason})


HM, IT, IS = {"text": "Hm.", "thought": True}, {"text": "It "}, {"text": "is 18."}
CALL = {"function_call": {"id": "c1", "name": "t", "args": {}}, "text": None}

ANSWERS: dict[str, tuple[tuple[LogRecord, ...], list[list[tuple[str, Any]]]]] = {
    "pieces of a stream": (
        (choice(0, None, HM), choice(1, None, IT), choice(2, "STOP", IS)),
        [[("reasoning", "Hm."), ("text", "It is 18.")]],
    ),
    "a call after text": ((choice(0, "", IT), choice(1, "STOP", CALL)), [[("text", "It "), ("tool_call", None)]]),
    "two choices": ((choice(0, "STOP", IT), choice(1, "STOP", IS)), [[("text", "It ")], [("text", "is 18.")]]),
    "one": ((choice(0, None, IT),), [[("text", "It ")]]),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_choice_without_a_finish_reason_is_continued_by_the_next(given: Any, case: str) -> None:
    records, expected = ANSWERS[case]
    found = given(SPAN, scope=SCOPE, records=records)
    assert found.detection.dialect == "google_genai"
    assert [[(p["type"], p.get("content")) for p in m["parts"]] for m in found.output] == expected


def test_other_scopes_keep_their_choices_apart(given: Any) -> None:
    records = (choice(0, None, IT), choice(1, "STOP", IS))
    assert len(given(SPAN, scope="another", records=records).output) == 2
