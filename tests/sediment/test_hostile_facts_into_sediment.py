# SPDX-License-Identifier: Apache-2.0
"""Facts with values that the way over HTTP could bend: a real Sediment holds them as they were, or it was said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rig

from sediment_otel.facts import (
    InferenceCall,
    InferenceMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolCallResponsePart,
)
from sediment_otel.translate.identity import capture_id, inference_call_id

USER = InferenceMessage("user", [TextPart("q")], None)
#: A result that is text and reads like JSON, to one reader or another.
TEXTS = ["", "text", "42", "-0.0", "NaN", "Infinity", "-Infinity", "null", "true", '"quoted"', '{"a": 1}', "[1, 2]"]
TEXTS += [" 7 ", "1e999", "[" * 5000, '{"a":' * 5000, "1" * 5000, "\u2028", "\ufeff1", "tab\t", "\x7f", "😀", "nan"]


def tool(*results: Any) -> list[InferenceMessage]:
    calls: list[Part] = [ToolCallPart(f"t{n}", "f", {}) for n in range(len(results))]
    return [
        USER,
        InferenceMessage("assistant", calls, None),
        *(InferenceMessage("tool", [ToolCallResponsePart(f"t{n}", result)], None) for n, result in enumerate(results)),
    ]


def said(*messages: InferenceMessage) -> dict[str, Any]:
    return {"output_messages": list(messages)}


ANSWER = InferenceMessage("assistant", [TextPart("a")], "stop")
EXACT: dict[str, dict[str, Any]] = {
    "texts that read like JSON": {"input_messages": tool(*TEXTS)},
    "every JSON value": {"input_messages": tool(None, True, False, 0, 1.0, 2**80, -(2**63), [], {}, [None, {"a": []}])},
    "messages without parts": {
        "input_messages": [USER, InferenceMessage("user", [], None)],
        **said(InferenceMessage("assistant", [], None)),
    },
    "no messages": {"input_messages": [], "output_messages": []},
    "roles that nobody knows": {
        "input_messages": [InferenceMessage("developer", [TextPart("")], None), InferenceMessage("天气", [], None)],
        **said(InferenceMessage("narrator", [TextPart("a")], None)),
    },
    "parts in any order": said(
        InferenceMessage(
            "assistant",
            [TextPart(""), ToolCallPart("t", "", {"a": None}), ReasoningPart("r"), TextPart("x"), ReasoningPart("s")],
            "tool_call",
        )
    ),
    "results that the user gives": {
        "input_messages": [InferenceMessage("user", [ToolCallResponsePart("x", "1"), TextPart("and")], None)]
    },
    "arguments with any keys": said(
        InferenceMessage(
            "assistant",
            [ToolCallPart("t", "f", {"": 0, "type": "x", "id": 1, "$bytes": "AA==", "n": 2**70, "f": 1e-300})],
            None,
        )
    ),
    "numbers at their limits": {"input_tokens": 2**63 - 1, "output_tokens": 0, "duration_ms": 2**63 - 1},
    "nothing but what must be": {"model": None, "model_provider": None, "model_call_id": None, "user_id": None},
    "names with slashes and dots": {"model": "anthropic/claude-x", "model_provider": "aws.bedrock", "user_id": "u/1"},
    "a session of any text": {"session_id": "s ü/?&#%20" + "x" * 300},
    "raw like a payload": {
        "raw": {
            "metadata": {"session_id": "other", "user_id": "other"},
            "user": "x",
            "litellm_call_id": "x",
            "model": "y",
        }
    },
    "other outputs without reasons": said(
        InferenceMessage("assistant", [TextPart("a")], None), InferenceMessage("assistant", [TextPart("b")], None)
    ),
}
#: What the way over HTTP cannot say: the code that is reported for it.
LOSSY: dict[str, dict[str, Any]] = {
    "output_finish_reason": said(ANSWER, InferenceMessage("assistant", [TextPart("b")], "length")),
    "input_finish_reason": {"input_messages": [InferenceMessage("user", [TextPart("q")], "stop")]},
    "blank_reasoning": said(InferenceMessage("assistant", [ReasoningPart(" "), TextPart("a")], None)),
    "padding": said(InferenceMessage("assistant", [TextPart("a")], " stop ")),
    "observed_at_cut": {"observed_at": "2026-01-01T00:00:00.123456789Z"},
}


def fact(number: int, **more: Any) -> InferenceCall:
    trace, span = f"{1:032x}", f"{number + 1:016x}"
    given: dict[str, Any] = {
        "session_id": "s",
        "user_id": "u",
        "model_provider": "openai",
        "model": "m",
        "input_messages": [USER],
        "output_messages": [ANSWER],
        "input_tokens": 1,
        "output_tokens": None,
        "duration_ms": None,
        "model_call_id": f"call-{number}",
        "observed_at": "2026-01-01T00:00:00.000001Z",
        "raw": {},
        **more,
    }
    given["raw"] = {**given["raw"], "span": {"trace_id": trace, "span_id": span}}
    return InferenceCall(
        inference_call_id=inference_call_id(rig.ORG, capture_id(f"{trace}:{span}")),
        org_id=rig.ORG,
        gateway_provider="litellm",
        **given,
    )


def delivered(
    sediment: rig.Sediment, folder: Path, facts: list[InferenceCall]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report's items and what the server holds, both by id."""
    path, report = folder / "facts.jsonl", folder / "report.json"
    path.write_bytes(b"".join(one.to_json() + b"\n" for one in facts))
    command = [sys.executable, "-m", "sediment_otel", "deliver", str(path), "--to", sediment.sink, "--patience", "20"]
    subprocess.run([*command, "--report", str(report)], timeout=170, capture_output=True)
    items = {item["inference_call_id"]: item for item in json.loads(report.read_bytes())["items"]}
    return items, {call["inference_call_id"]: call for call in sediment.core("read")}


def typed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    return [typed(item) for item in value] if isinstance(value, list) else (type(value).__name__, value)


def test_values_that_could_be_bent_arrive_as_they_were(sediment: rig.Sediment, tmp_path: Path) -> None:
    facts = {name: fact(number, **more) for number, (name, more) in enumerate(EXACT.items())}
    items, held = delivered(sediment, tmp_path, list(facts.values()))
    for name, sent in facts.items():
        assert items[sent.inference_call_id]["outcome"] == "stored", (name, items[sent.inference_call_id])
        assert "not_said" not in items[sent.inference_call_id], name
        found, wanted = held[sent.inference_call_id], json.loads(sent.to_json())
        assert found.pop("raw")["raw"] == wanted.pop("raw"), name
        assert typed(found) == typed({**wanted, "observed_at": found["observed_at"]}), name


def test_what_cannot_be_said_is_reported_for_its_fact_and_nothing_else_is_lost(
    sediment: rig.Sediment, tmp_path: Path
) -> None:
    facts = {code: fact(number, **more) for number, (code, more) in enumerate(LOSSY.items())}
    items, held = delivered(sediment, tmp_path, list(facts.values()))
    for code, sent in facts.items():
        item = items[sent.inference_call_id]
        assert (item["outcome"], item["not_said"]) == ("stored", [code])
        assert held[sent.inference_call_id]["raw"]["raw"] == json.loads(sent.to_json())["raw"]


@pytest.mark.timeout(180)
def test_a_fact_that_is_too_large_or_too_deep_costs_only_itself(sediment: rig.Sediment, tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(600):
        deep = [deep]
    big = fact(0, input_messages=[InferenceMessage("user", [TextPart("x" * (26 * 1024 * 1024))], None)])
    facts = [fact(1), big, fact(2, raw={"deep": deep}), *(fact(number) for number in range(3, 12))]
    items, held = delivered(sediment, tmp_path, facts)
    assert items[big.inference_call_id]["reason"] == "too_large_for_target"
    fine = {one.inference_call_id for one in facts} - {big.inference_call_id, facts[2].inference_call_id}
    assert {name for name, item in items.items() if item["outcome"] == "stored"} >= fine
    assert fine <= held.keys()


def test_a_fact_over_the_limit_is_sent_with_residual_raw(sediment: rig.Sediment, tmp_path: Path) -> None:
    text = "word " * (3 * 1024 * 1024)
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.conversation.id": "s",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "a"}]}]),
    }
    span = {
        "traceId": f"{7:032x}",
        "spanId": f"{7:016x}",
        "name": "chat m",
        "startTimeUnixNano": "1767225600000000000",
        "endTimeUnixNano": "1767225601000000000",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
    traces, facts = tmp_path / "traces.json", tmp_path / "facts.jsonl"
    traces.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}), encoding="utf-8")
    convert = [sys.executable, "-m", "sediment_otel", "convert", str(traces), "--org", rig.ORG, "-o", str(facts)]
    subprocess.run(convert, check=True, capture_output=True, timeout=120)
    (line,) = facts.read_bytes().splitlines()
    sent = InferenceCall.from_json(line)
    assert len(line) > 25 * 1024 * 1024
    items, held = delivered(sediment, tmp_path, [sent])
    assert items[sent.inference_call_id]["not_said"] == ["gateway_stamped", "raw_residual"]
    found = held[sent.inference_call_id]
    assert found["input_messages"] == json.loads(line)["input_messages"]
    assert "gen_ai.input.messages" not in found["raw"]["raw"]["span"]["attributes"]
    assert found["raw"]["raw"]["encoding"]["gen_ai.input.messages"] == 1
