# SPDX-License-Identifier: Apache-2.0
"""What is nested too deeply costs the part or the record it is in, on every way in, and nothing is raised."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from sediment_otel import Settings, Span, restore, translate
from sediment_otel.genai import MAX_DEPTH, NotJson, Subject, loads, peel
from sediment_otel.otlp.decode import decode_json
from sediment_otel.otlp.parse import DEEPEST
from sediment_otel.telemetry import LogRecord, SpanEvent
from sediment_otel.translate.call import translate_subject

DEPTHS = (MAX_DEPTH + 1, 300, 480, 1_000, 5_000, 100_000)
OPENED = '{"a":'


def deep(levels: int) -> str:
    return OPENED * levels + "1" + "}" * levels


def deep_list(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def message(part: str) -> str:
    return f'[{{"role":"assistant","parts":[{part}]}}]'


def call(**attributes: Any) -> Span:
    said = {"gen_ai.output.messages": message('{"type":"text","content":"4"}')}
    base = {"gen_ai.operation.name": "chat", "session.id": "s", **said}
    return Span(trace_id="ab" * 16, span_id="cd" * 8, start_ns=1, end_ns=2, attributes={**base, **attributes})


def test_json_text_is_read_down_to_the_limit_and_no_further() -> None:
    assert peel(deep(MAX_DEPTH))[1] == 1
    assert peel(deep(MAX_DEPTH + 1)) == (deep(MAX_DEPTH + 1), 0)
    with pytest.raises(NotJson):
        loads(deep(MAX_DEPTH + 1))


@pytest.mark.parametrize("levels", DEPTHS)
def test_arguments_in_text_that_are_too_deep_stay_text_and_cost_only_themselves(levels: int) -> None:
    part = json.dumps({"type": "tool_call", "id": "c", "name": "n", "arguments": deep(levels)})
    found = translate(call(**{"gen_ai.output.messages": message(part + ',{"type":"text","content":"x"}')}))
    assert found.fact is not None
    assert [loss.code.value for loss in found.losses] == ["malformed_arguments"]
    assert deep(levels).encode() in json.dumps(json.loads(found.encoded or b"")["raw"]).encode().replace(b'\\"', b'"')


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("levels", [*range(MAX_DEPTH - 6, MAX_DEPTH + 2), *DEPTHS])
@pytest.mark.parametrize("kind", ["tool_call", "tool_call_response"])
def test_short_and_general_way_draw_the_same_line(levels: int, kind: str, whole: bool) -> None:
    value = "arguments" if kind == "tool_call" else "response"
    part = f'{{"type":"{kind}","id":"c","name":"n","{value}":{deep(levels)}}}'
    if kind != "tool_call":
        part = part.replace('"name":"n",', "")
    said = message('{"type":"text","content":"4"}')
    span = call(**{"gen_ai.input.messages": message(part), "gen_ai.output.messages": said})
    found = translate_subject(Subject(span), Settings(), whole=whole)
    assert found.outcome.value == ("fact" if levels + 4 <= MAX_DEPTH else "skipped")
    assert found.fact is not None or (found.reason is not None and found.reason.value == "malformed")


PLACES = {
    "attribute": lambda value: (call(x=value), ()),
    "messages": lambda value: (call(**{"gen_ai.input.messages": value}), ()),
    "event": lambda value: (_with_event(value), ()),
    "log body": lambda value: (call(), (LogRecord(body=value),)),
    "log attribute": lambda value: (call(), (LogRecord(attributes={"x": value}),)),
}


def _with_event(value: Any) -> Span:
    return msgspec.structs.replace(call(), events=[SpanEvent(name="e", attributes={"x": value})])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("levels", DEPTHS)
def test_a_value_that_is_too_deep_makes_its_span_malformed(place: str, levels: int) -> None:
    span, records = PLACES[place](deep_list(levels))
    found = translate(span, records=records)
    assert found.reason is not None
    assert found.reason.value == "malformed"


def test_a_value_at_the_limit_comes_back() -> None:
    value = deep_list(MAX_DEPTH)
    found = translate(call(x=value))
    assert found.encoded is not None
    assert restore(found.encoded).attributes["x"] == value


ARRAYS = ('{"arrayValue":{"values":[', "]}}")
LISTS = ('{"kvlistValue":{"values":[{"key":"a","value":', "}]}}")


@pytest.mark.parametrize(("before", "behind"), [ARRAYS, LISTS])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 200, 240, 260, 340, 1_000, 20_000])
def test_a_deep_value_costs_its_span_and_no_sibling(before: str, behind: str, levels: int) -> None:
    value = before * levels + '{"stringValue":"x"}' + behind * levels
    sibling = {"traceId": "ab" * 16, "startTimeUnixNano": "1", "endTimeUnixNano": "2", "name": "n"}
    first, last = ({**sibling, "spanId": digit * 16} for digit in "13")
    for key, held in (("gen_ai.operation.name", "chat"), ("session.id", "s"), ("gen_ai.output.messages", message(""))):
        for span in (first, last):
            span.setdefault("attributes", []).append({"key": key, "value": {"stringValue": held}})  # type: ignore[attr-defined]
    middle = json.dumps({**first, "spanId": "2" * 16}).replace(
        '"attributes": [', f'"attributes": [{{"key":"deep","value":{value}}},'
    )
    text = f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{json.dumps(first)},{middle},{json.dumps(last)}]}}]}}]}}'
    decoded = list(decode_json(text.encode()).items)
    assert len(decoded) == 3
    outcomes = [translate(item).outcome.value if isinstance(item, Span) else "rejected" for item in decoded]
    assert outcomes[0] == outcomes[2] == "fact"
    assert outcomes[1] in ("skipped", "rejected")


def test_the_depth_of_a_document_leaves_room_for_what_a_record_may_hold() -> None:
    assert DEEPEST > 4 * MAX_DEPTH + 16
