# SPDX-License-Identifier: Apache-2.0
"""What coding agents really emitted gives the facts that the model server was asked for and answered.

The captures and their truth are written by `agent_capture` (`make captures`); nothing in a truth comes from telemetry.
With SEDIMENT_AGENTS=1 the programs themselves are run anew, and the same must hold.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from agent_capture import CaptureError, canonical, capture
from agent_programs import PROGRAMS, pins

from sediment_otel.settings import Settings
from sediment_otel.sources.files import expand
from sediment_otel.traces import Traces, Walked
from sediment_otel.translate.verify import verify_call

DATA = Path(__file__).parents[1] / "data" / "agents"
#: Programs that tell of a request only what is new in it.
PARTIAL = {"codex", "copilot"}
#: What is read of each capture: all of it, in either order, and each signal that stands for itself.
READ: dict[str, list[list[str]]] = {
    "claude_code": [["traces.jsonl", "logs.jsonl"], ["logs.jsonl", "traces.jsonl"], ["logs.jsonl"]],
    "codex": [["traces.jsonl", "logs.jsonl"], ["logs.jsonl", "traces.jsonl"], ["logs.jsonl"]],
    "copilot": [["traces.jsonl"]],
    "gemini_cli": [["outfile.json"]],
    "opencode": [["traces.jsonl"]],
    "qwen_code": [["traces.jsonl", "logs.jsonl"], ["logs.jsonl", "traces.jsonl"], ["traces.jsonl"]],
}
ALL = [pytest.param(name, files, id=f"{name}: {', '.join(files)}") for name, all in READ.items() for files in all]


def truth_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    return found


def translated(folder: Path, files: list[str], settings: Settings) -> tuple[list[dict[str, Any]], list[Walked]]:
    """The facts in the order in which the calls ended, and everything that was walked over."""
    walked = list(Traces(expand([str(folder / name) for name in files]), settings).walk())
    facts = [json.loads(item.translation.encoded) for item in walked if item.translation.encoded is not None]
    return sorted(facts, key=lambda fact: str(fact["observed_at"])), walked


def settings_for(folder: Path, **more: Any) -> Settings:
    return Settings(content_locations=(str(folder / "bodies"),), **more)


def texts(messages: list[dict[str, Any]]) -> list[str]:
    """Texts, arguments and results, in order; thoughts aside, which most programs leave out of what they tell."""
    found = []
    for part in (part for message in messages for part in message["parts"]):
        if part["type"] == "text":
            found.append(part["content"])
        elif part["type"] == "tool_call":
            found.append(canonical(part["arguments"]))
        elif part["type"] == "tool_call_response":
            found.append(part["result"] if type(part["result"]) is str else canonical(part["result"]))
    return found


def check_answer(name: str, fact: dict[str, Any], call: dict[str, Any]) -> None:
    (answer,) = fact["output_messages"]
    assert answer["role"] == "assistant"
    calls = [part for part in answer["parts"] if part["type"] == "tool_call"]
    prefix = "{name}__" if name == "gemini_cli" else ""  # Gemini CLI names calls anew
    assert [(part["id"], part["name"], part["arguments"]) for part in calls] == [
        (prefix.format(**made) + made["id"], made["name"], made["arguments"]) for made in call["calls"]
    ]
    said = [part["content"] for part in answer["parts"] if part["type"] == "text"]
    assert said == ([] if name == "codex" and call["calls"] else [call["text"]])
    thoughts = [part["content"] for part in answer["parts"] if part["type"] == "reasoning"]
    withheld = name in ("claude_code", "codex")
    assert thoughts == ([call["thought"]] if call["thought"] and not withheld else [])


def check(name: str, folder: Path, files: list[str]) -> None:
    truth = truth_of(folder)
    settings = settings_for(folder)
    facts, walked = translated(folder, files, settings)
    calls = truth["calls"]
    if all(fact["model_call_id"] for fact in facts):
        order = [call["response_id"] for call in calls]
        facts.sort(key=lambda fact: order.index(fact["model_call_id"]))
    assert len(facts) == len(calls)
    assert {fact["session_id"] for fact in facts} == {truth["session_id"]}
    for count in ("input_tokens", "output_tokens"):
        assert sum(fact[count] for fact in facts) == sum(call[count] for call in calls)
    for fact, call in zip(facts, calls, strict=True):
        asked = texts(fact["input_messages"])
        losses = [loss["code"] for loss in fact["raw"].get("losses", ())]
        if name in PARTIAL:
            system = [message for message in fact["input_messages"] if message["role"] == "system"]
            new = asked[len(texts(system)) :]
            assert new
            assert call["asked"][-len(new) :] == new
            assert losses == ["partial_history"]
        else:
            assert asked == call["asked"]
            assert "partial_history" not in losses
        assert fact["model_call_id"] == (None if name == "codex" else call["response_id"])
        check_answer(name, fact, call)
    assert [verify_call(item.subject, settings, item.decision) for item in walked] == [[]] * len(walked)


def test_every_pinned_program_has_a_capture_of_its_version() -> None:
    assert set(pins()) == set(PROGRAMS) == set(READ)
    assert {name: truth_of(DATA / name)["version"] for name in pins()} == {name: pin[1] for name, pin in pins().items()}


@pytest.mark.parametrize(("name", "files"), ALL)
def test_the_facts_are_what_the_server_was_asked_and_answered(name: str, files: list[str]) -> None:
    check(name, DATA / name, files)


def test_qwen_codes_own_events_alone_have_the_answers_and_their_tool_calls() -> None:
    """Without the system's text, which they leave out; the tool call is known by its own event."""
    folder = DATA / "qwen_code"
    facts, _ = translated(folder, ["logs.jsonl"], Settings())
    for fact, call in zip(facts, truth_of(folder)["calls"], strict=True):
        asked = texts(fact["input_messages"])
        assert len(asked) == len(call["asked"]) - 1
        assert asked[:5] == call["asked"][1:6]
        check_answer("qwen_code", {**fact, "output_messages": [_without_thoughts(fact, call)]}, call)


def _without_thoughts(fact: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    """An answer that lacks its thought, which the events leave out, given it back."""
    (answer,) = fact["output_messages"]
    thought = [{"type": "reasoning", "content": call["thought"]}] if call["thought"] else []
    assert not any(part["type"] == "reasoning" for part in answer["parts"])
    return {**answer, "parts": [*thought, *answer["parts"]]}


def test_qwen_codes_spans_without_messages_take_them_from_its_events(tmp_path: Path) -> None:
    """As it writes them by default: `includeSensitiveSpanAttributes` is off."""
    requests = (DATA / "qwen_code" / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    left_out = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions")
    lines = [json.dumps(without(json.loads(request), *left_out)) for request in requests]
    (tmp_path / "traces.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "logs.jsonl").write_bytes((DATA / "qwen_code" / "logs.jsonl").read_bytes())
    calls = truth_of(DATA / "qwen_code")["calls"]
    facts, _ = translated(tmp_path, ["traces.jsonl", "logs.jsonl"], Settings())
    assert [fact["model_call_id"] for fact in facts] == [call["response_id"] for call in calls]
    for fact, call in zip(facts, calls, strict=True):
        assert fact["model_provider"] == "openai"
        check_answer("qwen_code", {**fact, "output_messages": [_without_thoughts(fact, call)]}, call)


def objects(text: str) -> list[dict[str, Any]]:
    """JSON objects one after another."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text.rstrip()):
        value, end = decoder.raw_decode(text, at)
        found.append(value)
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return found


def _newer_names(item: dict[str, Any]) -> dict[str, Any]:
    """A record as newer versions of OpenTelemetry JS dump it, and Qwen Code's `outfile` has it."""
    return {f"_{key}" if key in ("hrTime", "hrTimeObserved", "spanContext") else key: v for key, v in item.items()}


def _late(item: dict[str, Any]) -> dict[str, Any]:
    """A record of a call's end two milliseconds later than it was told: past the end of the span."""
    if "hrTime" not in item or "spanContext" in item:
        return item
    return {**item, "hrTime": [item["hrTime"][0], item["hrTime"][1] + 2_000_000]}


@pytest.mark.parametrize("change", [_newer_names, _late])
def test_an_outfile_with_other_names_or_late_records_gives_the_same_facts(change: Any, tmp_path: Path) -> None:
    items = objects((DATA / "gemini_cli" / "outfile.json").read_text(encoding="utf-8"))
    (tmp_path / "outfile.json").write_text("\n".join(json.dumps(change(item)) for item in items), encoding="utf-8")
    (tmp_path / "truth.json").write_bytes((DATA / "gemini_cli" / "truth.json").read_bytes())
    check("gemini_cli", tmp_path, ["outfile.json"])


def test_claude_code_behind_a_service_without_request_ids_is_one_fact_for_each_call(tmp_path: Path) -> None:
    folder = tmp_path / "claude_code"
    shutil.copytree(DATA / "claude_code", folder)
    for name in ("traces.jsonl", "logs.jsonl"):
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
        requests = [without(json.loads(line), "request_id", "gen_ai.response.id") for line in lines]
        (folder / name).write_text("\n".join(map(json.dumps, requests)), encoding="utf-8")
    check("claude_code", folder, ["traces.jsonl", "logs.jsonl"])


def without(value: Any, *keys: str) -> Any:
    """A request of OTLP JSON without these attributes."""
    if isinstance(value, list):
        return [without(item, *keys) for item in value if not (isinstance(item, dict) and item.get("key") in keys)]
    return {key: without(item, *keys) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_program_itself_run_anew_gives_the_same(name: str, tmp_path: Path) -> None:
    if os.environ.get("SEDIMENT_AGENTS") != "1":
        pytest.skip("runs the program from npm: set SEDIMENT_AGENTS=1")
    try:
        capture(name, tmp_path / name)
    except CaptureError as error:
        pytest.fail(str(error))
    for files in READ[name]:
        check(name, tmp_path / name, files)
