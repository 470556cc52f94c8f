# SPDX-License-Identifier: Apache-2.0
"""The completion hook: one fact for each call, whatever else carries it, and none where it was no call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from sdk_kit import MemorySink, call_attributes, provider_with

from sediment_otel.sdk import ProcessSettings, SedimentCompletionHook, SedimentSpanExporter, SedimentSpanProcessor
from sediment_otel.sdk.completion import content_of
from sediment_otel.sdk.hook import INFERENCE_CONTEXT

SLOW = ProcessSettings(settle=60, schedule_delay=0.02)
OPTIONS: dict[str, Any] = {"process": SLOW, "session_id": "given"}


@dataclass
class TextPart:
    content: str
    type: str = "text"


@dataclass
class Blob:
    content: bytes
    mime_type: str = "image/png"
    modality: str = "image"
    type: str = "blob"


@dataclass
class Message:
    role: str
    parts: list[Any]
    finish_reason: str | None = None
    name: str | None = None


@dataclass
class Odd:
    what: Any = field(default_factory=lambda: {1: {2}})


def complete(hook: SedimentCompletionHook, span: trace.Span, answer: str | None = "told", **more: Any) -> None:
    outputs = [Message("assistant", [TextPart(answer)], "stop")] if answer is not None else []
    given = {"inputs": [Message("user", [TextPart("asked"), Blob(b"\x00\xff")])], "system_instruction": []}
    hook.on_completion(outputs=outputs, span=span, tool_definitions=None, log_record=None, **(given | more))


class RecordOnly(Sampler):
    """Records without sampling."""

    def should_sample(self, *args: Any, **kwargs: Any) -> SamplingResult:
        return SamplingResult(Decision.RECORD_ONLY, attributes=kwargs.get("attributes") or args[4])

    def get_description(self) -> str:
        return "RecordOnly"


@pytest.mark.parametrize("path", ["processor", "exporter", "alone"])
@pytest.mark.parametrize("sampler", [None, RecordOnly()], ids=["sampled", "record only"])
def test_content_of_the_hook_joins_what_the_span_tells(path: str, sampler: Sampler | None) -> None:
    sink = MemorySink()
    hook = SedimentCompletionHook(sink, **OPTIONS)
    parts: list[Any] = []
    if path == "processor":
        parts = [SedimentSpanProcessor(sink, **OPTIONS)]
    elif path == "exporter":
        parts = [SimpleSpanProcessor(SedimentSpanExporter(sink, **OPTIONS))]
    tracer = provider_with(*parts, **({"sampler": sampler} if sampler else {})).get_tracer("t")
    with tracer.start_as_current_span("chat m", attributes=call_attributes(None, None)) as span:
        complete(hook, span)
        hook.force_flush()
        assert sink.facts == []
    hook.force_flush()
    hook.force_flush()
    (fact,) = sink.facts
    assert sink.texts() == ["told"]
    assert (fact["model"], fact["raw"]["span"]["name"]) == ("m", "chat m")
    assert fact["raw"]["content"]["source"] == "completion_hook"
    assert fact["raw"]["unsupported_parts"][0]["part"]["content"] == "AP8="
    assert hook.snapshot().ended == hook.snapshot().facts == 1


def test_content_that_stands_on_the_span_is_not_kept_twice() -> None:
    sink = MemorySink()
    hook = SedimentCompletionHook(sink, **OPTIONS)
    processor = SedimentSpanProcessor(sink, **OPTIONS)
    with provider_with(processor).get_tracer("t").start_as_current_span("chat", attributes=call_attributes()) as span:
        complete(hook, span)
    processor.force_flush()
    (fact,) = sink.facts
    assert sink.texts() == ["hello"]
    assert "content" not in fact["raw"]


def unsampled(hook: SedimentCompletionHook, *, inference: bool, answer: str | None = "told") -> None:
    tracer = provider_with(sampler=ALWAYS_OFF).get_tracer("t")
    token = context.attach(context.set_value(INFERENCE_CONTEXT, object() if inference else None))
    with tracer.start_as_current_span("s") as span:
        complete(hook, span, answer)
    context.detach(token)
    hook.force_flush()


def test_an_unsampled_call_is_a_fact_with_its_content() -> None:
    sink = MemorySink()
    hook = SedimentCompletionHook(sink, **OPTIONS)
    unsampled(hook, inference=True)
    (fact,) = sink.facts
    assert (fact["session_id"], fact["model"], fact["duration_ms"]) == ("given", None, None)
    assert hook.snapshot().ended == 1


def test_an_unsampled_agent_is_no_call() -> None:
    hook = SedimentCompletionHook(MemorySink(), **OPTIONS)
    unsampled(hook, inference=False)
    assert hook.snapshot().skipped == {"not_a_model_call": 1}


def test_an_unsampled_call_without_an_answer_failed() -> None:
    hook = SedimentCompletionHook(MemorySink(), **OPTIONS)
    unsampled(hook, inference=True, answer=None)
    assert hook.snapshot().skipped == {"failed_call": 1}
    assert hook.snapshot().waiting == 0


def test_a_span_that_does_not_end_gives_its_call_when_the_time_is_over() -> None:
    sink = MemorySink()
    hook = SedimentCompletionHook(sink, process=ProcessSettings(settle=0.0, schedule_delay=0.02), session_id="given")
    SedimentSpanProcessor(sink, process=ProcessSettings(settle=0.0, schedule_delay=0.02), session_id="given")
    span = provider_with().get_tracer("t").start_span("chat", attributes=call_attributes(None, None))
    complete(hook, span)
    hook.force_flush()
    assert sink.texts() == ["told"]
    assert hook.snapshot().incomplete == 1


@pytest.mark.parametrize(
    "given",
    [{"inputs": None}, {"inputs": [object()]}, {"inputs": [Odd()]}, {"inputs": 7}, {"system_instruction": [None]}],
)
def test_whatever_the_hook_is_given_it_raises_nothing(given: dict[str, Any]) -> None:
    hook = SedimentCompletionHook(MemorySink(), **OPTIONS)
    with provider_with().get_tracer("t").start_as_current_span("chat", attributes=call_attributes(None, None)) as span:
        complete(hook, span, **given)
        complete(hook, trace.INVALID_SPAN)
    hook.force_flush()
    assert hook.snapshot().waiting == 0


def test_what_the_application_changes_afterwards_is_not_in_the_fact() -> None:
    message = Message("user", [TextPart("before")])
    content = content_of([message], [], [])
    message.parts[0].content = "after"
    assert content["input"][0]["parts"][0]["content"] == "before"
