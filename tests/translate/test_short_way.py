# SPDX-License-Identifier: Apache-2.0
"""The short way and the general way give the same bytes, and the short way is really taken."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sediment_otel.genai import Subject
from sediment_otel.settings import Settings
from sediment_otel.telemetry import Resource, Scope, Span, SpanEvent
from sediment_otel.translate import call
from sediment_otel.translate.result import NOTHING
from sediment_otel.translate.short import read_short

SETTINGS = Settings(org="acme")
RESOURCE = Resource(attributes={"service.name": "agent"})
SCOPE = Scope(name="demo", version="1")


def span(history: Any, answer: Any, system: Any = None, **more: Any) -> Span:
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "session.id": "s-1",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": history if isinstance(history, str) else json.dumps(history, separators=(",", ":")),
        "gen_ai.output.messages": answer if isinstance(answer, str) else json.dumps(answer, separators=(",", ":")),
        **more,
    }
    if system is not None:
        attributes["gen_ai.system_instructions"] = json.dumps(system, separators=(",", ":"))
    return Span(
        trace_id="a" * 32,
        span_id="b" * 16,
        name="chat m",
        kind="client",
        start_ns=1_790_000_000_000_000_000,
        end_ns=1_790_000_001_500_000_000,
        attributes=attributes,
        resource=RESOURCE,
        scope=SCOPE,
    )


def both(found: Span) -> tuple[bytes | None, bytes | None]:
    ways = [call.translate_subject(Subject(found), SETTINGS, whole=whole) for whole in (False, True)]
    short, general = ways
    assert short.losses == general.losses
    return short.encoded, general.encoded


USER = {"role": "user", "parts": [{"type": "text", "content": "What does it return?"}]}
ANSWER = {"role": "assistant", "parts": [{"type": "text", "content": "Four."}], "finish_reason": "stop"}


def test_an_ordinary_call_takes_the_short_way() -> None:
    found = span([USER], [ANSWER], [{"type": "text", "content": "Be brief."}])
    assert read_short(Subject(found), SETTINGS, NOTHING, call.detect(found)) is not None
    short, general = both(found)
    assert short == general is not None


def test_text_of_the_span_stands_in_raw_as_it_is() -> None:
    history = (
        '[{"parts":[{"content":"x","type":"text"}],"role":"user"},'
        '{"parts":[{"response":"y","id":"call_1","type":"tool_call_response"}],"role":"tool"}]'
    )
    encoded, general = both(span(history, [ANSWER]))
    assert encoded == general
    assert encoded is not None
    assert history.encode() in encoded


def called(arguments: Any, call_id: str = "call_1") -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": "f", "arguments": arguments}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


UNUSUAL: dict[str, tuple[Any, Any]] = {
    "arguments as text": (
        [USER],
        [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": "{}"}]}],
    ),
    "a result that is JSON text": (
        [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "42"}]}],
        [ANSWER],
    ),
    "a null result": (
        [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": None}]}],
        [ANSWER],
    ),
    "a sentinel": ([{"role": "user", "parts": [{"type": "text", "content": " [REDACTED] "}]}], [ANSWER]),
    "a withheld result": (
        [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "<elided>"}]}],
        [ANSWER],
    ),
    "blank reasoning": ([USER], [{"role": "assistant", "parts": [{"type": "reasoning", "content": " \n"}]}]),
    "another role": ([{"role": "model", "parts": []}], [ANSWER]),
    "a padded role": ([{"role": " user ", "parts": []}], [ANSWER]),
    "an id that is none": (
        [USER],
        [{"role": "assistant", "parts": [{"type": "tool_call", "id": "null", "name": "f", "arguments": {}}]}],
    ),
    "a padded id": (
        [USER],
        [{"role": "assistant", "parts": [{"type": "tool_call", "id": " call_12 ", "name": "f", "arguments": {}}]}],
    ),
    "a mark in arguments": (
        [USER],
        [
            {
                "role": "assistant",
                "parts": [{"type": "tool_call", "id": "call_1", "name": "f", "arguments": {"$float": "NaN"}}],
            }
        ],
    ),
    "a mark in a result": (
        [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": [{"$bytes": "AA=="}]}]}],
        [ANSWER],
    ),
    "a mark deep in a history's arguments": (
        [USER, {"role": "assistant", "parts": [called({"a": [{"b": {"$bytes": "AA=="}}], "n": 1})]}],
        [ANSWER],
    ),
    "a mark spelt with an escape": (
        '[{"role":"assistant","parts":[{"type":"tool_call","id":"call_1","name":"f","arguments":{"\\u0024bytes":"AA=="}}]}]',
        [ANSWER],
    ),
    "a mark deeper than the parser looks": (
        [USER, {"role": "assistant", "parts": [called({"a": {"b": [{"c": [{"$literal": {}}]}]}})]}],
        [ANSWER],
    ),
    "arguments nested too deeply": (
        [USER, {"role": "assistant", "parts": [called({"a": nested(96)})]}],
        [ANSWER],
    ),
    "a result nested as deep as may be": (
        [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": nested(95)}]}],
        [ANSWER],
    ),
    "a short id among long ones": (
        [USER, {"role": "assistant", "parts": [called({}), called({}, "c"), called({}, "None")]}],
        [ANSWER],
    ),
    "an id with a space at its end": (
        [USER, {"role": "assistant", "parts": [called({}, "call_1 "), called({}, "call_2")]}],
        [ANSWER],
    ),
    "two choices": ([USER], [ANSWER, ANSWER]),
    "an unknown part": ([{"role": "user", "parts": [{"type": "hologram"}]}], [ANSWER]),
    "an unknown key": ([{**USER, "extra": 1}], [ANSWER]),
    "no input": ([], [ANSWER]),
    "spaced text": (json.dumps([USER]), [ANSWER]),
    "escaped text": ('[{"role":"user","parts":[{"type":"text","content":"\\u00e9\\u0041"}]}]', [ANSWER]),
    "a NUL": ([{"role": "user", "parts": [{"type": "text", "content": "a\x00b"}]}], [ANSWER]),
    "a lone surrogate": ('[{"role":"user","parts":[{"type":"text","content":"\\ud83e"}]}]', [ANSWER]),
    "a key twice": ('[{"role":"user","role":"user","parts":[]}]', [ANSWER]),
    "a secret under a key that comes twice": (
        '[{"role":"user","parts":[{"type":"text","content":"sk-fictitious000111222333","content":"x"}]}]',
        [ANSWER],
    ),
    "a secret spelt with escapes": (
        '[{"role":"user","parts":[{"type":"text","content":"\\u0073k-fictitious000111222333"}]}]',
        [ANSWER],
    ),
    "names": ([{**USER, "name": None}, {**USER, "name": "Ann"}], [{**ANSWER, "name": None}]),
    "a finish reason on the input": ([{**ANSWER}], [ANSWER]),
    "a padded finish reason": ([USER], [{**ANSWER, "finish_reason": " stop "}]),
    "a blank finish reason": ([USER], [{**ANSWER, "finish_reason": " "}]),
    "a large integer": (
        [USER],
        [
            {
                "role": "assistant",
                "parts": [{"type": "tool_call", "id": "call_1", "name": "f", "arguments": {"n": 10**40}}],
            }
        ],
    ),
    "not finite": ('[{"role":"tool","parts":[{"type":"tool_call_response","id":"call_1","response":NaN}]}]', [ANSWER]),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_both_ways_give_the_same_bytes(name: str) -> None:
    history, answer = UNUSUAL[name]
    encoded, general = both(span(history, answer))
    assert (encoded is None) == ("too deeply" in name)
    if encoded is None:
        return
    if "twice" in name:
        assert json.loads(encoded) == json.loads(general or b"")
    else:
        assert encoded == general
    assert b"sk-fictitious" not in encoded


@pytest.mark.parametrize(
    "more",
    [
        {"gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": "4"},
        {"gen_ai.usage.input_tokens": True},
        {"gen_ai.usage.input_tokens": -1},
        {"gen_ai.response.id": " r-1 "},
        {"gen_ai.response.id": ""},
        {"gen_ai.response.id": 7},
        {"gen_ai.response.model": " "},
        {"gen_ai.provider.name": "strands-agents"},
        {"gen_ai.provider.name": "", "gen_ai.system": "openai"},
        {"user.id": " dev-1 ", "user.email": "dev@example.org"},
        {"user.id": "None", "enduser.id": "dev-2"},
        {"session.id": "null", "gen_ai.conversation.id": "c-1"},
        {"gen_ai.response.finish_reasons": ["length"]},
        {"gen_ai.response.finish_reasons": '["length"]'},
        {"openai.api.type": "responses"},
        {"gen_ai.request.previous_response.id": "r-0"},
        {"app.bytes": b"\x00\x01", "app.float": float("inf"), "app.map": {"$literal": 1}},
        {"litellm.call_id": "x"},
        {'app."quoted"': 1},
        {"app.back\\slash": 1, "app.tab\t": 2},
        {"": "", "schlüssel": "é"},
        {"app.NUL\x00": 1},
        {"app.surrogate\ud800": 1},
        {"app.token": "sk-fictitious000111222333", "app.list": ["sk-fictitious000111222333", 1]},
        {"app.list": [1.5, float("nan")], "app.empty": [], "app.none": None},
        {"at_0": 1, "type": "x", "__class__": "y"},
        {"user.email": "dev@example.org", "user.account_id": None},
        {"gen_ai.tool.definitions": '[{"type":"function"}]', "gen_ai.prompt": '[{"role":"user","content":"x"}]'},
    ],
    ids=lambda more: ascii(",".join(more)),
)
def test_scalars_come_out_alike(more: dict[str, Any]) -> None:
    answer = {**ANSWER}
    del answer["finish_reason"]
    # The second time and the third the keys are known, and what is made for them is used.
    found = [both(span([USER], [answer], **more)) for _ in range(3)]
    for encoded, general in found:
        assert encoded is not None
        assert encoded == general == found[0][0]
        assert b"sk-fictitious" not in encoded


def test_what_has_no_attributes_has_none_however_often_it_comes() -> None:
    """Keys that come again are written another way; no keys are no object."""
    for number in range(3):
        bare = msgspec.structs.replace(
            span([USER], [ANSWER]),
            resource=Resource(dropped_attributes=number + 1),
            scope=Scope(name=f"s{number}"),
            events=[SpanEvent(name="e")],
        )
        encoded = call.translate_subject(Subject(bare), SETTINGS).encoded
        assert encoded is not None
        assert b'"attributes":{}' not in encoded


texts = st.text(max_size=40) | st.sampled_from(
    ["", "FILTERED", "42", '{"a":1}', "sk-fictitious000111222333", 'a\nb\\"c', "é🌍"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
ids = texts | st.sampled_from(["call_1", "toolu_01A", "fc-1"])
parts = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "content": texts}),
    st.fixed_dictionaries({"type": st.just("reasoning"), "content": texts}),
    st.fixed_dictionaries(
        {
            "type": st.just("tool_call"),
            "id": ids,
            "name": texts,
            "arguments": st.dictionaries(texts, values, max_size=3),
        }
    ),
    st.fixed_dictionaries({"type": st.just("tool_call_response"), "id": ids, "response": values}),
)
roles = st.sampled_from(["system", "user", "assistant", "tool", "developer"])
messages = st.fixed_dictionaries(
    {"role": roles, "parts": st.lists(parts, max_size=4)},
    optional={"name": st.none() | texts, "finish_reason": st.none() | texts},
)


@given(st.lists(messages, max_size=5), st.lists(messages, min_size=1, max_size=2), st.booleans(), st.booleans())
def test_generated_messages_come_out_alike(
    history: list[Any], answer: list[Any], ascii_only: bool, spaced: bool
) -> None:
    separators = None if spaced else (",", ":")
    encoded, general = both(
        span(
            json.dumps(history, ensure_ascii=ascii_only, separators=separators),
            json.dumps(answer, ensure_ascii=ascii_only, separators=separators),
        )
    )
    assert encoded == general
