# SPDX-License-Identifier: Apache-2.0
"""OpenInference: which spans are calls, how flattened messages read, and what is found only in whole responses."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sediment_otel.vocabulary import SkipReason, SpanRole

KIND = "openinference.span.kind"
PNG = "data:image/png;base64,iVBORw0KGgo="
BLOB = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "iVBORw0KGgo="}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def message(prefix: str, **fields: Any) -> dict[str, Any]:
    """Attributes of one message; double underscores stand for dots."""
    return {f"{prefix}.message.{key.replace('__', '.')}": value for key, value in fields.items()}


def answered(**fields: Any) -> dict[str, Any]:
    """A call with a question, whose answer has these fields."""
    return {
        KIND: "LLM",
        **message("llm.input_messages.0", role="user", content="hello"),
        **message("llm.output_messages.0", role="assistant", **fields),
    }


@pytest.mark.parametrize(
    ("attributes", "role"),
    [
        ({KIND: "LLM"}, SpanRole.CALL),
        ({KIND: "llm"}, SpanRole.CALL),
        ({KIND: "AGENT"}, SpanRole.AGENT),
        ({KIND: "TOOL"}, SpanRole.TOOL),
        *[
            ({KIND: kind}, SpanRole.OTHER)
            for kind in ("CHAIN", "EMBEDDING", "RETRIEVER", "RERANKER", "GUARDRAIL", "PROMPT")
        ],
        ({KIND: "CHAIN", "llm.input_messages.0.message.role": "user"}, SpanRole.OTHER),
        ({KIND: ["LLM"]}, SpanRole.OTHER),
        ({KIND: 5}, SpanRole.OTHER),
        ({KIND: "CHAIN", "gen_ai.operation.name": "chat"}, SpanRole.CALL),
        ({KIND: "LLM", "gen_ai.operation.name": "invoke_agent"}, SpanRole.AGENT),
        ({KIND: "LLM", "gen_ai.operation.name": "embeddings"}, SpanRole.OTHER),
        ({KIND: "LLM", "gen_ai.operation.name": "something new"}, SpanRole.CALL),
        ({"llm.output_messages.0.message.role": "assistant"}, SpanRole.CALL),
    ],
)
def test_the_span_kind_says_what_a_span_is(given: Any, attributes: dict[str, Any], role: SpanRole) -> None:
    detection = given(attributes).detection
    assert (detection.dialect, detection.role) == ("openinference", role)


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"content": "hi"}, [text("hi")]),
        ({"content": ""}, [text("")]),
        ({}, []),
        (
            {
                "contents__0__message_content__type": "reasoning",
                "contents__0__message_content__text": "hm",
                "contents__0__message_content__signature": "c2ln",
                "contents__1__message_content__type": "text",
                "contents__1__message_content__text": "hi",
            },
            [{"type": "reasoning", "content": "hm", "signature": "c2ln"}, text("hi")],
        ),
        (  # redacted thinking of Anthropic
            {"contents__0__message_content__type": "reasoning", "contents__0__message_content__data": "b3BhcXVl"},
            [{"type": "reasoning", "data": "b3BhcXVl"}],
        ),
        (  # the text twice
            {
                "content": "one\ntwo",
                "contents__0__message_content__text": "one",
                "contents__1__message_content__text": "two",
            },
            [text("one"), text("two")],
        ),
        (  # two texts that differ
            {"content": "before", "contents__0__message_content__text": "after"},
            [text("before"), text("after")],
        ),
        (
            {"contents__0__message_content__type": "image", "contents__0__message_content__image__image__url": PNG},
            [BLOB],
        ),
        (
            {
                "contents__0__message_content__type": "image",
                "contents__0__message_content__image__image__url": "https://cdn.example/a.png",
            },
            [{"type": "uri", "modality": "image", "uri": "https://cdn.example/a.png"}],
        ),
        (
            {
                "contents__0__message_content__type": "audio",
                "contents__0__message_content__audio__audio__url": "https://cdn.example/a.wav",
                "contents__0__message_content__audio__audio__mime_type": "audio/wav",
            },
            [{"type": "uri", "modality": "audio", "mime_type": "audio/wav", "uri": "https://cdn.example/a.wav"}],
        ),
        (  # a block without a place of its own, as JSON
            {
                "contents__0__message_content__type": "document",
                "contents__0__message_content__text": json.dumps(
                    {"type": "document", "source": {"type": "url", "url": "https://cdn.example/a.pdf"}}
                ),
            },
            [{"type": "uri", "modality": "document", "uri": "https://cdn.example/a.pdf"}],
        ),
        (
            {
                "contents__0__message_content__type": "fallback",
                "contents__0__message_content__text": "model-a -> model-b",
            },
            [{"type": "fallback", "text": "model-a -> model-b"}],
        ),
        (  # a tool call in `tool_calls` alone
            {
                "tool_calls__0__tool_call__id": "c1",
                "tool_calls__0__tool_call__function__name": "f",
                "tool_calls__0__tool_call__function__arguments": '{"a": 1}',
            },
            [{"type": "tool_call", "id": "c1", "name": "f", "arguments": '{"a": 1}'}],
        ),
        (  # in both, with text in between: the order is that of `contents`
            {
                "tool_calls__0__tool_call__id": "c1",
                "tool_calls__0__tool_call__function__name": "f",
                "contents__0__message_content__type": "tool_use",
                "contents__0__tool_call__id": "c1",
                "contents__0__tool_call__function__name": "f",
                "contents__1__message_content__type": "text",
                "contents__1__message_content__text": "after",
            },
            [{"type": "tool_call", "id": "c1", "name": "f"}, text("after")],
        ),
        (  # without ids, two equal calls in both places are two calls
            {
                f"{place}__{index}__tool_call__function__name": "f"
                for place in ("tool_calls", "contents")
                for index in range(2)
            },
            [{"type": "tool_call", "id": None, "name": "f"}] * 2,
        ),
        (  # a call in `contents` answers for one of two equal ones
            {
                "tool_calls__0__tool_call__function__name": "f",
                "tool_calls__1__tool_call__function__name": "f",
                "contents__0__tool_call__function__name": "f",
            },
            [{"type": "tool_call", "id": None, "name": "f"}] * 2,
        ),
        (
            {"function_call_name": "f", "function_call_arguments_json": "{}"},
            [{"type": "tool_call", "id": None, "name": "f", "arguments": "{}"}],
        ),
        ({"content": "__REDACTED__"}, [text("__REDACTED__")]),
        (
            {
                "contents__0__message_content__type": "image",
                "contents__0__message_content__image__image__url": "__REDACTED__",
            },
            [text("__REDACTED__")],
        ),
    ],
)
def test_a_flattened_message_is_put_together(given: Any, fields: dict[str, Any], parts: list[Any]) -> None:
    assert given(answered(**fields)).output[0]["parts"] == parts


def test_masked_content_is_withheld_not_said(given: Any) -> None:
    translation = given(answered(content="__REDACTED__")).translation()
    assert [loss.code.value for loss in translation.losses] == ["withheld_content"]


@pytest.mark.parametrize("role", ["tool", "user", None])
def test_a_message_that_names_a_call_is_its_result(given: Any, role: str | None) -> None:
    fields = {"tool_call_id": "c1", "content": '{"t": 18}', **({"role": role} if role else {})}
    attributes = {**answered(content="x"), **message("llm.input_messages.1", **fields)}
    found = given(attributes).fact["input_messages"][1]
    assert found["parts"] == [{"type": "tool_call_response", "id": "c1", "result": {"t": 18}}]
    assert found["role"] == (role or "tool")


def test_a_result_may_stand_in_contents(given: Any) -> None:
    fields = {"role": "tool", "tool_call_id": "c1", "contents__0__message_content__text": "sunny"}
    attributes = {**answered(content="x"), **message("llm.input_messages.1", **fields)}
    assert given(attributes).fact["input_messages"][1]["parts"][0]["result"] == "sunny"


def test_what_stands_beside_a_result_is_kept(given: Any) -> None:
    """Older versions write all blocks of Anthropic's user message into one message."""
    fields = {
        "role": "user",
        "tool_call_id": "c1",
        "content": "18",
        "contents__1__message_content__type": "text",
        "contents__1__message_content__text": "and now?",
    }
    attributes = {**answered(content="x"), **message("llm.input_messages.1", **fields)}
    assert [part["type"] for part in given(attributes).input[1]["parts"]] == ["tool_call_response", "text"]
    attributes["llm.input_messages.1.message.contents.1.message_content.text"] = "18"
    assert [part["type"] for part in given(attributes).input[1]["parts"]] == ["tool_call_response"]


def test_roles_of_google_are_corrected(given: Any) -> None:
    attributes = {**answered(content="x"), "llm.output_messages.0.message.role": "model"}
    assert given(attributes).output[0]["role"] == "assistant"


def test_an_answer_without_a_role_is_the_assistants(given: Any) -> None:
    attributes = answered(content="x")
    del attributes["llm.output_messages.0.message.role"]
    assert given(attributes).output == [{"role": "assistant", "parts": [text("x")]}]


def test_stray_keys_without_a_prefix_are_no_messages(given: Any) -> None:
    attributes = {**answered(content="x"), "message.tool_calls.0.tool_call.function.name": "f"}
    assert given(attributes).output == [{"role": "assistant", "parts": [text("x")]}]


def test_messages_in_one_list_under_the_bare_key_are_read(given: Any) -> None:
    found = given(
        {
            KIND: "LLM",
            "llm.input_messages": [{"message.role": "user", "message.content": "hello"}],
            "llm.output_messages": [{"message": {"role": "assistant", "content": "hi"}}],
        }
    )
    assert found.input == [{"role": "user", "parts": [text("hello")]}]
    assert found.output == [{"role": "assistant", "parts": [text("hi")]}]


# -- Responses -------------------------------------------------------------------------------------------------

ITEMS = {
    **message(
        "llm.output_messages.0",
        role="assistant",
        contents__0__message_content__type="reasoning",
        contents__0__message_content__text="hm",
    ),
    **message(
        "llm.output_messages.1",
        role="assistant",
        tool_calls__0__tool_call__id="c1",
        tool_calls__0__tool_call__function__name="f",
    ),
}
RESPONSE = json.dumps(
    {"id": "resp_1", "object": "response", "model": "m-2", "output": [], "previous_response_id": None}
)


@pytest.mark.parametrize(
    "told_by",
    [
        {"output.value": RESPONSE, "output.mime_type": "application/json"},
        {"input.value": '{"model": "m", "input": "hello"}', "input.mime_type": "application/json"},
    ],
)
def test_the_items_of_one_answer_are_one_message(given: Any, told_by: dict[str, Any]) -> None:
    found = given({KIND: "LLM", **message("llm.input_messages.0", role="user", content="q"), **ITEMS, **told_by})
    assert [part["type"] for part in found.output[0]["parts"]] == ["reasoning", "tool_call"]
    assert len(found.output) == 1


def test_choices_of_a_chat_completion_stay_apart(given: Any) -> None:
    found = given({KIND: "LLM", **ITEMS, "output.value": '{"choices": [], "id": "chatcmpl-1"}'})
    assert len(found.output) == 2


def test_the_items_of_an_earlier_answer_are_one_message_too(given: Any) -> None:
    history = {
        key.replace("output", "input").replace("s.0.", "s.2.").replace("s.1.", "s.3."): v for key, v in ITEMS.items()
    }
    found = given(
        {
            KIND: "LLM",
            **message("llm.input_messages.0", role="system", content="s"),
            **message("llm.input_messages.1", role="user", content="q"),
            **history,
            **message("llm.input_messages.4", role="tool", tool_call_id="c1", content="r"),
            "output.value": RESPONSE,
        }
    )
    assert [item["role"] for item in found.input] == ["system", "user", "assistant", "tool"]


def test_an_input_of_responses_that_starts_at_one_is_whole(given: Any) -> None:
    attributes = {
        KIND: "LLM",
        **message("llm.input_messages.1", role="user", content="q"),
        **ITEMS,
        "output.value": RESPONSE,
    }
    assert given(attributes, dropped_attributes=3).reading.problem is None


@pytest.mark.parametrize(
    "attributes",
    [
        {"llm.invocation_parameters": '{"previous_response_id": "resp_0"}'},
        {"input.value": '{"input": "x", "previous_response_id": "resp_0"}'},
        {"output.value": '{"id": "resp_1", "object": "response", "previous_response_id": "resp_0"}'},
    ],
)
def test_a_call_that_continues_a_response_has_a_partial_history(given: Any, attributes: dict[str, Any]) -> None:
    codes = [loss.code.value for loss in given({**answered(content="x"), **attributes}).translation().losses]
    assert codes == ["partial_history"]


# -- what whole responses say ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "call_id", "model"),
    [
        ({"id": "chatcmpl-1", "choices": [], "model": "m-2"}, "chatcmpl-1", "m-2"),
        ({"id": "msg_1", "type": "message", "content": [], "model": "m-2"}, "msg_1", "m-2"),
        ({"candidates": [], "response_id": "r-1", "model_version": "m-2"}, "r-1", "m-2"),
        (
            {
                "generations": [
                    [{"message": {"lc": 1, "kwargs": {"id": "lc_run--1", "response_metadata": {"id": "chatcmpl-1"}}}}]
                ],
                "llm_output": {"model_name": "m-2"},
            },
            "chatcmpl-1",
            "m-2",
        ),
        (
            {"message": {}, "raw": {"id": "chatcmpl-1", "object": "chat.completion", "model": "m-2"}},
            "chatcmpl-1",
            "m-2",
        ),
        ({"id": "order-7", "status": "open"}, None, "m-1"),  # the answer itself is JSON
        ({"generations": [[{"message": {"kwargs": {"id": "lc_run--1"}}}]]}, None, "m-1"),
        (["x"], None, "m-1"),
        ("plain text", None, "m-1"),
    ],
)
def test_id_and_model_of_the_response_stand_in_the_output_value(
    given: Any, response: Any, call_id: str | None, model: str
) -> None:
    value = response if type(response) is str else json.dumps(response)
    fact = given({**answered(content="x"), "llm.model_name": "m-1", "output.value": value}).fact
    assert (fact["model_call_id"], fact["model"]) == (call_id, model)


def test_the_response_may_lend_ids_to_tool_calls(given: Any) -> None:
    response = {
        "candidates": [
            {"content": {"role": "model", "parts": [{"function_call": {"id": "fc-1", "name": "f", "args": {}}}]}}
        ]
    }
    attributes = answered(tool_calls__0__tool_call__function__name="f")
    found = given({**attributes, "output.value": json.dumps(response)})
    assert found.output[0]["parts"][0]["id"] == "fc-1"
    other = given({**answered(tool_calls__0__tool_call__function__name="g"), "output.value": json.dumps(response)})
    assert other.output[0]["parts"][0]["id"] is None


def test_no_finish_reason_is_taken_from_elsewhere(given: Any) -> None:
    response = '{"id": "chatcmpl-1", "choices": [{"finish_reason": "stop", "message": {"content": "x"}}]}'
    assert (
        given({**answered(content="x"), "output.value": response}).fact["output_messages"][0]["finish_reason"] is None
    )


# -- other places ------------------------------------------------------------------------------------------------


def test_prompts_and_choices_of_completions_are_messages(given: Any) -> None:
    found = given({KIND: "LLM", "llm.prompts.0.prompt.text": "once", "llm.choices.0.completion.text": "upon"})
    assert found.input == [{"role": "user", "parts": [text("once")]}]
    assert found.output == [{"role": "assistant", "parts": [text("upon")]}]


def test_prompts_may_be_a_list_under_the_bare_key(given: Any) -> None:
    found = given({KIND: "LLM", "llm.prompts": ["once"], "output.value": "upon"}, structured=True)
    assert found.input == [{"role": "user", "parts": [text("once")]}]
    assert found.output == [{"role": "assistant", "parts": [text("upon")]}]


def test_the_text_of_a_python_object_is_no_message(given: Any) -> None:
    attributes = {KIND: "LLM", "input.value": {"messages": ["ChatMessage(role=<MessageRole.USER: 'user'>)"]}}
    assert given(attributes).translation().reason is SkipReason.NO_CONTENT


def test_without_flattened_messages_the_whole_request_and_response_are_read(given: Any) -> None:
    request = {"model": "m", "system": "be brief", "messages": [{"role": "user", "content": "hello"}]}
    response = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
    }
    found = given({KIND: "LLM", "input.value": request, "output.value": response})
    assert [item["role"] for item in found.fact["input_messages"]] == ["system", "user"]
    assert found.fact["output_messages"] == [
        {"role": "assistant", "parts": [text("hi")], "finish_reason": "end_turn"},
    ]


def test_any_functions_arguments_are_no_messages(given: Any) -> None:
    translation = given(
        {KIND: "LLM", "input.value": {"args": ["x"], "kwargs": {}}, "output.value": {"result": 5}}
    ).translation()
    assert translation.reason is SkipReason.NO_CONTENT


def test_masked_values_are_no_messages(given: Any) -> None:
    translation = given({KIND: "LLM", "input.value": "__REDACTED__", "output.value": "__REDACTED__"}).translation()
    assert translation.reason is SkipReason.NO_CONTENT


# -- lost attributes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("indices", "dropped", "reason"),
    [
        ((0, 1, 2), 0, None),
        ((0, 1, 2), 9, None),
        ((0, 2), 0, SkipReason.TRUNCATED),
        ((2, 3), 5, SkipReason.TRUNCATED),
        ((), 5, SkipReason.TRUNCATED),
        ((), 0, None),
    ],
)
def test_messages_lost_to_an_attribute_limit_make_a_call_truncated(
    given: Any, indices: tuple[int, ...], dropped: int, reason: SkipReason | None
) -> None:
    attributes = {KIND: "LLM", **message("llm.output_messages.0", role="assistant", content="x")}
    for index in indices:
        attributes.update(message(f"llm.input_messages.{index}", role="user", content="q"))
    found = given(attributes, dropped_attributes=dropped).translation()
    assert found.reason is reason
    if reason is None:
        assert [loss.code.value for loss in found.losses] == ["attributes_dropped"] * bool(dropped)


def test_a_first_message_that_lost_its_role_is_truncated(given: Any) -> None:
    attributes = answered(content="x")
    del attributes["llm.input_messages.0.message.role"]
    assert given(attributes, dropped_attributes=1).translation().reason is SkipReason.TRUNCATED


def test_salvage_keeps_the_messages_before_a_hole_and_says_so(given: Any) -> None:
    attributes = {**answered(content="x"), **message("llm.input_messages.2", role="user", content="lost its neighbour")}
    translation = given(attributes).translation(salvage=True)
    assert [loss.at for loss in translation.losses] == ["/span/attributes/llm.input_messages"]
    assert len(json.loads(translation.encoded)["input_messages"]) == 1


# -- hostile and shuffled ------------------------------------------------------------------------------------------

HOSTILE: list[Any] = [
    None, 5, -1, 1.5, float("nan"), True, [], ["x"], {}, {"a": []}, b"\x00\xff", "", "\ud800", "[", '{"a":', "[[[[",
    "x" * 10_000,
]  # fmt: skip
KEYS = [
    KIND,
    "llm.input_messages",
    "llm.input_messages.x.message.role",
    "llm.input_messages.0",
    "llm.input_messages.0.message",
    "llm.input_messages.0.message.role",
    "llm.input_messages.0.message.content",
    "llm.input_messages.0.message.contents",
    "llm.input_messages.0.message.contents.0",
    "llm.input_messages.0.message.contents.0.message_content.type",
    "llm.input_messages.0.message.contents.0.message_content.text",
    "llm.input_messages.0.message.contents.0.message_content.image.image.url",
    "llm.input_messages.0.message.tool_calls.0.tool_call",
    "llm.input_messages.0.message.tool_calls.0.tool_call.id",
    "llm.input_messages.0.message.tool_calls.0.tool_call.function.arguments",
    "llm.input_messages.0.message.tool_call_id",
    "llm.input_messages.1000000000.message.role",
    "llm.output_messages.0.message.role",
    "llm.prompts.0.prompt.text",
    "llm.choices.0.completion",
    "llm.invocation_parameters",
    "llm.token_count.prompt",
    "llm.finish_reason",
    "input.value",
    "output.value",
    "output.mime_type",
    "metadata",
]


@pytest.mark.parametrize("key", KEYS)
def test_hostile_values_never_raise(given: Any, key: str) -> None:
    for value in HOSTILE:
        given({**answered(content="x"), key: value}, structured=True).translation(salvage=True)
        given({KIND: "LLM", key: value}, structured=True).translation(salvage=True)


def test_a_span_in_any_order_of_attributes_gives_the_same_bytes(given: Any) -> None:
    attributes = {
        **answered(
            content="one",
            contents__0__message_content__text="two",
            tool_calls__0__tool_call__id="c1",
            tool_calls__0__tool_call__function__name="f",
            tool_calls__1__tool_call__function__name="g",
        ),
        "llm.model_name": "m",
        "output.value": '{"id": "chatcmpl-1", "choices": []}',
        "session.id": "s",
    }
    whole = given(attributes).translation().encoded
    for _ in range(10):
        pairs = list(attributes.items())
        random.shuffle(pairs)
        assert given(dict(pairs)).translation().encoded == whole
