# SPDX-License-Identifier: Apache-2.0
"""`restore`: what it writes, what it drops, and facts that were made elsewhere or are broken."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from sediment_otel.dialects.registry import detect, read
from sediment_otel.facts import InferenceCall, InferenceMessage, TextPart
from sediment_otel.genai import Subject, peel
from sediment_otel.settings import Settings
from sediment_otel.telemetry import LogRecord, Span, SpanEvent
from sediment_otel.translate import restore as restoring
from sediment_otel.translate.call import translate_subject
from sediment_otel.translate.compare import differences
from sediment_otel.translate.restore import RestoreError, restore
from sediment_otel.translate.unraw import left_out, subject_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
START = 1_700_000_000_000_000_000
USER = [{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]
FLAT = (("role", "user"), ("content", "hello"))
ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "hi"}], "finish_reason": "stop"}]


def _span(attributes: dict[str, Any], **more: Any) -> Span:
    basic = {"gen_ai.operation.name": "chat"}
    return Span(
        trace_id=TRACE,
        span_id=SPAN,
        name="chat gpt-x",
        kind="client",
        start_ns=START,
        end_ns=START + 2_000_000,
        attributes={**basic, **attributes},
        **more,
    )


def _fact(span: Span, raw: str = "full", records: tuple[LogRecord, ...] = ()) -> dict[str, Any]:
    found = translate_subject(Subject(span, records), Settings(session_id="s", raw=raw))
    assert found.encoded is not None
    fact: dict[str, Any] = json.loads(found.encoded)
    return fact


def _made_elsewhere(**changes: Any) -> InferenceCall:
    fields: dict[str, Any] = {
        "inference_call_id": "call-1",
        "org_id": "acme",
        "session_id": "sess-1",
        "user_id": "u",
        "gateway_provider": "unknown",
        "model_provider": "openai",
        "model": "gpt-x",
        "input_messages": [InferenceMessage("user", [TextPart("hello")], None)],
        "output_messages": [InferenceMessage("assistant", [TextPart("hi")], "stop")],
        "input_tokens": 3,
        "output_tokens": 0,
        "duration_ms": 1500,
        "model_call_id": "resp_1",
        "observed_at": "2026-03-01T12:00:00.250000Z",
        "raw": {},
    }
    return InferenceCall(**{**fields, **changes})


@pytest.mark.parametrize("raw", ["full", "residual"])
def test_a_span_of_the_current_conventions_comes_back_as_it_was(raw: str) -> None:
    attributes = {
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.request.temperature": 1.0,
        "session.id": "mine",
        "custom": b"\x00\xff",
        "gen_ai.input.messages": json.dumps(USER, separators=(",", ":")),
        "gen_ai.output.messages": json.dumps(ANSWER, separators=(",", ":")),
        "gen_ai.system_instructions": '[{"type":"text","content":"be brief"}]',
    }
    span = _span(attributes, parent_span_id="00f067aa0ba902b7", status_code="ok", trace_state="a=b")
    assert restore(_fact(span, raw)) == msgspec.structs.replace(
        span, attributes={key: span.attributes[key] for key in sorted(span.attributes)}
    )


def test_a_residual_raw_holds_no_message_twice_and_says_what_it_leaves_out() -> None:
    span = _span({"gen_ai.input.messages": json.dumps(USER), "gen_ai.output.messages": ANSWER})
    fact = _fact(span, "residual")
    assert b"hello" not in msgspec.json.encode(fact["raw"])
    assert fact["raw"]["encoding"] == {"gen_ai.input.messages": 1, "gen_ai.output.messages": 0}
    assert left_out(fact["raw"]) == {"gen_ai.input.messages", "gen_ai.output.messages"}


def test_text_that_a_message_only_carries_in_raw_comes_back_to_its_place() -> None:
    parts = [
        {"type": "text", "content": "look"},
        {"type": "blob", "mime_type": "image/png", "modality": "image", "content": "aGk="},
        {"type": "tool_call_response", "id": "c", "response": {"ok": True}},
    ]
    span = _span({"gen_ai.input.messages": json.dumps([{"role": "", "parts": []}, {"role": "user", "parts": parts}])})
    for raw in ("full", "residual"):
        fact = _fact(span, raw)
        back = json.loads(restore(fact).attributes["gen_ai.input.messages"])
        assert back == [{"role": "", "parts": []}, {"role": "user", "parts": parts}]
    assert left_out(fact["raw"]) == {"gen_ai.input.messages"}


@pytest.mark.parametrize("raw", ["full", "residual"])
def test_json_text_in_a_list_that_is_no_message_keeps_its_spelling(raw: str) -> None:
    inside = '{"role":  "user", "content": "inside"}'
    written = [{"role": "assistant", "parts": []}, [inside]]
    fact = _fact(_span({"gen_ai.output.messages": json.dumps(written)}), raw)
    assert fact["raw"]["unsupported_parts"][0]["message"] == [inside]
    assert json.loads(restore(fact).attributes["gen_ai.output.messages"]) == written


MARKS = {
    "bytes": {"$bytes": "aGk="},
    "a number": {"$float": "NaN"},
    "an escape": {"$literal": {"$bytes": "aGk="}},
    "no real mark": {"$float": ["NaN"]},
}


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS.keys())
@pytest.mark.parametrize("raw", ["full", "residual"])
@pytest.mark.parametrize("write", [lambda value: value, json.dumps], ids=["structured", "text"])
def test_an_object_that_looks_like_a_mark_comes_back_as_the_object(mark: Any, raw: str, write: Any) -> None:
    parts = [
        {"type": "tool_call", "id": "a", "name": "f", "arguments": mark},
        {"type": "tool_call_response", "id": "a", "response": json.dumps([mark])},
        {"type": "unknown", "inner": mark},
        {"type": "function", "function": mark},
    ]
    span = _span({"gen_ai.input.messages": write([{"role": "user", "parts": parts}]), "custom": mark, "$bytes": "aGk="})
    back = restore(_fact(span, raw))
    (message,) = json.loads(back.attributes["gen_ai.input.messages"])
    assert message["parts"][0]["arguments"] == mark
    assert peel(message["parts"][1]["response"])[0] == [mark]
    assert message["parts"][2]["inner"] == mark
    assert back.attributes["custom"] == mark
    assert back.attributes["$bytes"] == "aGk="


def test_raw_holds_the_trace_to_the_last_layer_of_text() -> None:
    """Text that was parsed for `raw` is text again, of as many layers, wherever it stood."""
    arguments = '{"path":"a/b~c"}'
    call = {"type": "tool_call", "id": "a", "name": "f", "arguments": arguments}
    messages = json.dumps([{"role": "assistant", "parts": [call]}], separators=(",", ":"))
    record = LogRecord(
        trace_id=TRACE,
        span_id=SPAN,
        time_ns=START,
        observed_ns=START + 1,
        event_name="gen_ai.assistant.message",
        severity_number=9,
        body={"tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}]},
        attributes={"gen_ai.input.messages": messages, "blob": b"\x00", "none": None, "nan": [1.5, True]},
    )
    event = SpanEvent(name="e/~", time_ns=START, attributes={"gen_ai.prompt": json.dumps(messages)})
    span = _span({"gen_ai.output.messages": messages}, events=[event], dropped_attributes=2, status_message="bad")
    subject = subject_of(_fact(span, records=(record,))["raw"])
    assert subject is not None
    assert subject.span == span
    assert subject.records == (record,)


def test_events_that_held_the_messages_are_gone_and_other_events_stay() -> None:
    events = [
        SpanEvent(name="gen_ai.user.message", time_ns=START, attributes={"content": "hello"}),
        SpanEvent(name="gen_ai.choice", time_ns=START, attributes={"message": '{"content": "hi"}', "index": 0}),
        SpanEvent(name="first_token", time_ns=START),
    ]
    back = restore(_fact(_span({}, events=events)))
    assert [event.name for event in back.events] == ["first_token"]
    assert json.loads(back.attributes["gen_ai.input.messages"])[0]["parts"][0]["content"] == "hello"


def test_a_span_with_a_great_many_names_is_tried_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = []
    whole = restoring._yields
    monkeypatch.setattr(restoring, "_yields", lambda *given: trials.append(1) or whole(*given))
    flat = {
        f"{place}.{key}": text for place in ("gen_ai.prompt.0", "llm.input_messages.0.message") for key, text in FLAT
    }
    span = _span(
        {**{f"vendor{number}.0.x": "v" for number in range(1_000)}, **flat},
        events=[SpanEvent(name=f"e{number}", time_ns=1, attributes={}) for number in range(1_000)],
    )
    back = restore(_fact(span))
    assert len(trials) < 100
    assert len(back.events) == 1_000
    assert {key for key in back.attributes if key.startswith(("gen_ai.prompt", "llm."))} == set()
    assert sum(key.startswith("vendor") for key in back.attributes) == 1_000


@pytest.mark.parametrize("raw", ["full", "residual"])
@pytest.mark.parametrize("model", ["sk-proj0123456789abcdefghijk", "m OPENAI_API_KEY=abcdefghijklmnopqrst"])
@pytest.mark.parametrize("key", ["gen_ai.request.model", "gen_ai.response.model", "llm.request.model"])
def test_a_model_whose_name_looks_like_a_credential_comes_back_where_it_stood(key: str, model: str, raw: str) -> None:
    span = _span({key: model, "gen_ai.output.messages": json.dumps(ANSWER)})
    back = restore(_fact(span, raw))
    assert differences(read(Subject(span), detect(span)), read(Subject(back), detect(back))) == []
    if key.startswith("gen_ai."):
        assert [name for name, value in back.attributes.items() if value == model] == [key]


def test_what_only_log_records_carried_stands_on_the_span() -> None:
    record = LogRecord(
        trace_id=TRACE,
        span_id=SPAN,
        time_ns=START,
        event_name="gen_ai.client.inference.operation.details",
        attributes={
            "gen_ai.input.messages": json.dumps(USER),
            "gen_ai.output.messages": json.dumps(ANSWER),
            "gen_ai.response.id": "resp_9",
        },
    )
    back = restore(_fact(_span({}), records=(record,)))
    assert back.attributes["gen_ai.response.id"] == "resp_9"
    assert json.loads(back.attributes["gen_ai.output.messages"]) == ANSWER


def test_an_empty_body_of_a_record_is_a_body() -> None:
    record = LogRecord(trace_id=TRACE, span_id=SPAN, time_ns=START, event_name="gen_ai.user.message", body="")
    subject = subject_of(_fact(_span({}), records=(record,))["raw"])
    assert subject is not None
    assert subject.records[0].body == ""


def test_messages_of_a_details_body_are_stored_parsed() -> None:
    body = {"gen_ai.output.messages": json.dumps(ANSWER)}
    name = "gen_ai.client.inference.operation.details"
    record = LogRecord(trace_id=TRACE, span_id=SPAN, time_ns=START, event_name=name, body=body)
    raw = _fact(_span({}), records=(record,))["raw"]
    assert raw["log_records"][0]["body"]["gen_ai.output.messages"] == ANSWER
    assert raw["encoding"] == {"/log_records/0/body/gen_ai.output.messages": 1}


def test_a_fact_made_elsewhere_becomes_a_whole_span() -> None:
    span = restore(_made_elsewhere())
    assert span.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.model": "gpt-x",
        "gen_ai.provider.name": "openai",
        "gen_ai.response.id": "resp_1",
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 0,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.input.messages": json.dumps(USER, separators=(",", ":")),
        "gen_ai.output.messages": json.dumps(ANSWER, separators=(",", ":")),
        "session.id": "sess-1",
        "user.id": "u",
    }
    assert (span.name, span.kind) == ("chat gpt-x", "client")
    assert (span.end_ns or 0) - (span.start_ns or 0) == 1_500_000_000
    assert len(span.trace_id) == 32
    assert len(span.span_id) == 16
    assert restore(_made_elsewhere()) == span
    assert restore(_made_elsewhere(inference_call_id="call-2")).trace_id != span.trace_id


def test_messages_that_were_changed_after_the_fact_was_made_win_over_raw() -> None:
    fact = _fact(_span({"gen_ai.input.messages": json.dumps(USER), "gen_ai.output.messages": json.dumps(ANSWER)}))
    fact["input_messages"][0]["parts"][0]["content"] = "scrubbed"
    back = restore(fact)
    assert "hello" not in str(back.attributes)
    assert json.loads(back.attributes["gen_ai.input.messages"])[0]["parts"][0]["content"] == "scrubbed"


HOSTILE_RAW = {
    "of another project": {"source": "proxy", "request": {"messages": []}},
    "no object in place of the span": {"source": "otel", "contract": 1, "span": []},
    "fields of wrong kinds": {
        "source": "otel",
        "contract": 1,
        "dialect": ["gen_ai"],
        "span": {"trace_id": 5, "span_id": "zz", "attributes": [], "events": [None, 3], "links": [{}], "kind": {}},
        "resource": 7,
        "scope": [],
        "log_records": [None, {"body": {"$float": []}}],
        "encoding": {"/span/events/0": 1, "gen_ai.input.messages": "x", "/span/x/y/z": 99, "/": 1},
        "unsupported_parts": [{"at": 1}, {"at": "/input_messages/x/parts/y", "part": 1}, {"at": "/input_messages/99"}],
    },
    "pointers into nothing": {
        "source": "otel",
        "contract": 1,
        "span": {"attributes": {"gen_ai.input.messages": [1]}},
        "encoding": {"/span/attributes/gen_ai.input.messages/7": 3, "/span/attributes/gen_ai.input.messages/00": 1},
        "unsupported_parts": [{"at": "/input_messages/0/parts/999999999", "part": {}}],
    },
}


@pytest.mark.parametrize("raw", HOSTILE_RAW.values(), ids=HOSTILE_RAW.keys())
def test_a_raw_of_any_shape_restores_from_the_fields(raw: dict[str, Any]) -> None:
    span = restore(_made_elsewhere(raw=raw))
    assert "hello" in span.attributes["gen_ai.input.messages"]
    assert span.attributes["session.id"] == "sess-1"
    assert len(span.trace_id) == 32
    assert span.end_ns


REFUSED = {
    "no JSON": (b"{", "fact"),
    "a missing field": (b'{"schema_version":1}', "fact"),
    "a version that is missing": (msgspec.json.encode(_made_elsewhere()).replace(b'"schema_version":1,', b""), "fact"),
    "a day that is none": (_made_elsewhere(observed_at="2026-02-31T00:00:00Z"), "observed_at"),
    "a time that OTLP has no number for": (_made_elsewhere(observed_at="1969-12-31T00:00:00Z"), "observed_at"),
}


@pytest.mark.parametrize(("fact", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_a_fact_that_cannot_be_used_is_named_by_field_and_rule(fact: Any, field: str) -> None:
    with pytest.raises(RestoreError) as caught:
        restore(fact)
    assert caught.value.field == field
    assert caught.value.rule


def test_a_leap_second_is_a_second() -> None:
    assert restore(_made_elsewhere(observed_at="2016-12-31T23:59:60Z")).end_ns == 1_483_228_800_000_000_000


def test_differences_are_seen_and_named_without_content() -> None:
    left = read(Subject(_span({"gen_ai.input.messages": json.dumps(USER)})), detect(_span({})))
    changed = [{"role": "user", "parts": [{"type": "text", "content": 5}, {"type": "text", "content": "secret"}]}]
    right = read(Subject(_span({"gen_ai.input.messages": json.dumps(changed)})), detect(_span({})))
    assert [tuple(found) for found in differences(left, right)] == [
        ("/input/0/parts/0/content", "string became integer"),
        ("/input/0/parts/1", "added"),
    ]
    assert [tuple(found) for found in differences(right, left)][1] == ("/input/0/parts/1", "missing")


def test_a_span_of_another_dialect_becomes_one_of_the_current_conventions() -> None:
    """What the dialect is known by is gone, and what held its messages; the rest of the span stays."""
    attributes = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-x",
        "llm.token_count.prompt": 7,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "hello",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "hi",
        "metadata": '{"a":1}',
    }
    span = msgspec.structs.replace(_span({}), attributes=attributes)
    assert detect(span).dialect == "openinference"
    back = restore(_fact(span))
    assert detect(back).dialect == "gen_ai"
    assert not [key for key in back.attributes if key.startswith(("openinference.", "llm.input_m", "llm.output_m"))]
    assert back.attributes["metadata"] == '{"a":1}'
    assert back.attributes["llm.model_name"] == "gpt-x"
    assert back.attributes["gen_ai.usage.input_tokens"] == 7
    assert differences(read(Subject(span), detect(span)), read(Subject(back), detect(back))) == []
