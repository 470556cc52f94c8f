# SPDX-License-Identifier: Apache-2.0
"""What Sediment's trainers (SFT, DPO) would refuse in a fact, why the trace made it so, and what would cure it. Pure.

A valid fact may still be no training example. `refusals` names every reason that holds, with the place, the cause as
far as `raw` shows it, and the setting of the producer that would cure it. A call without a reason is taken by the
trainer mapping of Sediment 0.6.1; whether it becomes a row also depends on evidence, which no trace carries. Codes
are Sediment's own; no content is in any text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..facts import InferenceCall, InferenceMessage, ReasoningPart, TextPart, ToolCallPart, ToolCallResponsePart


class Refusal(NamedTuple):
    """One reason. `at` is a JSON Pointer into the fact; `dpo_only` where SFT would take the call."""

    code: str
    at: str
    cause: str
    cure: str
    dpo_only: bool = False


_PHASES: dict[Any, int] = {ReasoningPart: 0, TextPart: 1, ToolCallPart: 2}
_PLAIN_ROLES = frozenset({"developer", "system", "user"})
_NO_TYPE = "Sediment has no type for them: no setting of the producer changes that"
_CONTENT: dict[str, str] = {
    "gen_ai": "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY in the traced application",
    "openllmetry": "TRACELOOP_TRACE_CONTENT=true in the traced application",
    "openinference": "OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS unset in the traced application",
    "ai_sdk": "recordInputs and recordOutputs true in the telemetry settings of the call",
    "pydantic_ai": "InstrumentationSettings(include_content=True) in the traced application",
    "logfire": "InstrumentationSettings(include_content=True) in the traced application",
    "agent_framework": "ENABLE_SENSITIVE_DATA=true in the traced application",
    "semantic_kernel": "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true in the application",
    "google_adk": "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true in the traced application",
}
#: Losses in `raw` → why a message is empty or incomplete, and the cure (None: that of the dialect's content capture).
_LOSSES: dict[str, tuple[str, str | None]] = {
    "withheld_content": ("its content was withheld by the producer", None),
    "unsupported_content": ("its parts are of other types (images, files, server tools) and stand in raw", _NO_TYPE),
    "opaque_reasoning": (
        "its reasoning came without text",
        "ask the model service for readable reasoning (summaries); nothing else makes it readable",
    ),
    "missing_id": ("its tool parts came without an id", "use an instrumentation that records tool call ids"),
    "extra_choice": ("only the first choice is an answer", "ask the model for one choice (n=1)"),
}


def refusals(call: InferenceCall) -> list[Refusal]:
    """Every reason for which trainers would refuse the call, in the order of the fact."""
    found: list[Refusal] = []
    names: set[str] = set()
    for side in ("input_messages", "output_messages"):
        for index, message in enumerate(getattr(call, side)):
            found += _message(call, message, f"/{side}/{index}", names, completion=side == "output_messages")
    if not call.output_messages:
        found.append(
            Refusal("completionless", "/output_messages", "the span carries no answer", _content(call, "outputs"))
        )
    if call.model is None:
        cure = "use an instrumentation that sets gen_ai.request.model or gen_ai.response.model"
        found.append(Refusal("model_absent", "/model", "neither request nor response names a model", cure))
    if not call.input_messages:
        cause = "the span carries no input"
        found.append(Refusal("promptless", "/input_messages", cause, _content(call, "inputs"), dpo_only=True))
    return found


def _message(
    call: InferenceCall, message: InferenceMessage, at: str, names: set[str], *, completion: bool
) -> Iterator[Refusal]:
    role, parts = message.role, message.parts
    if not parts:
        cause, cure = _why_empty(call, at)
        yield Refusal("empty_message", at, cause, cure)
        return
    if completion and role != "assistant":
        cure = "use an instrumentation that writes answers with the role assistant"
        yield Refusal("unsupported_completion_role", f"{at}/role", "the answer has another role than assistant", cure)
    if any(type(part) is ToolCallResponsePart for part in parts):
        yield from _responses(call, message, at, names)
    elif role == "assistant":
        yield from _assistant(parts, at, names)
    elif role not in _PLAIN_ROLES:
        cause = "the role is none of developer, system, user, assistant, tool"
        if role == "tool":
            cause = "a tool message holds no tool result"
        yield Refusal("unsupported_message_role", f"{at}/role", cause, "use an instrumentation that keeps to the roles")
    else:
        for index, part in enumerate(parts):
            if type(part) is not TextPart:
                cause = f"a part that is no text in a message of the role {role}"
                cure = "use an instrumentation that gives reasoning and tool calls to the assistant"
                yield Refusal("unsupported_role_part", f"{at}/parts/{index}", cause, cure)


def _responses(call: InferenceCall, message: InferenceMessage, at: str, names: set[str]) -> Iterator[Refusal]:
    if message.role not in ("tool", "user"):
        cause = "a tool result in a message that is neither of the tool nor of the user"
        cure = "use an instrumentation that gives tool results to the role tool"
        yield Refusal("unsupported_role_part", at, cause, cure)
        return
    for index, part in enumerate(message.parts):
        place = f"{at}/parts/{index}"
        if type(part) is ToolCallResponsePart:
            if part.id not in names:
                cause, cure = _why_unresolved(call)
                yield Refusal("unresolved_tool_call", place, cause, cure)
        elif not (type(part) is TextPart and message.role == "user"):
            cause = "a tool message holds something else beside its results"
            cure = "write text that accompanies results as a message of its own"
            yield Refusal("unrepresentable_part_order", place, cause, cure)


def _assistant(parts: Sequence[Any], at: str, names: set[str]) -> Iterator[Refusal]:
    phase = 0
    for index, part in enumerate(parts):
        place = f"{at}/parts/{index}"
        if type(part) is ToolCallPart:
            if part.id in names:
                cause = "an earlier call of the same conversation has this id"
                cure = "ids of tool calls must differ within a conversation: the model service or framework makes them"
                yield Refusal("duplicate_tool_call_id", place, cause, cure)
            names.add(part.id)
        own = _PHASES[type(part)]
        if own < phase:
            cause = "the answer is not reasoning, then text, then tool calls"
            cure = "the model answered in this order: nothing in the producer changes it"
            yield Refusal("unrepresentable_part_order", place, cause, cure)
        phase = max(phase, own)


def _why_empty(call: InferenceCall, at: str) -> tuple[str, str]:
    losses = {str(loss.get("code")) for loss in _losses(call) if _under(loss.get("at"), at)}
    for code, (cause, cure) in _LOSSES.items():
        if code in losses:
            return cause, cure if cure is not None else _content(call, "inputs and outputs")
    return "the trace has the message without parts", _content(call, "inputs and outputs")


def _why_unresolved(call: InferenceCall) -> tuple[str, str]:
    codes = {str(loss.get("code")) for loss in _losses(call)}
    if "partial_history" in codes:
        return (
            "the request continues an earlier response: its history is not in the trace",
            "send the whole history with each request in place of previous_response_id",
        )
    if "missing_id" in codes:
        return "a tool part came without an id", "use an instrumentation that records tool call ids"
    return (
        "no earlier message of the input holds a call of this id",
        "send the assistant message with the call along with its result, and do not cut the history between them",
    )


def _losses(call: InferenceCall) -> list[dict[str, Any]]:
    losses = call.raw.get("losses")
    return [loss for loss in losses if type(loss) is dict] if type(losses) is list else []


def _under(place: Any, at: str) -> bool:
    return type(place) is str and (place == at or place.startswith(f"{at}/"))


def _content(call: InferenceCall, what: str) -> str:
    dialect = call.raw.get("dialect")
    setting = _CONTENT.get(dialect, _CONTENT["gen_ai"]) if type(dialect) is str else _CONTENT["gen_ai"]
    return f"capture {what}: {setting}"


__all__ = ["Refusal", "refusals"]
