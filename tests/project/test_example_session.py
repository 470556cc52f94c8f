# SPDX-License-Identifier: Apache-2.0
"""The example session is what its script writes, holds what it says it holds, and its calls chain."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import zlib
from base64 import b64decode
from itertools import pairwise
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT, COMMITTED = EXAMPLES / "make_agent_session.py", EXAMPLES / "agent-session.jsonl"


def plain(value: dict[str, Any]) -> Any:
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return [plain(item) for item in content["values"]]
    return int(content) if kind == "intValue" else content


def spans() -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in COMMITTED.read_text(encoding="utf-8").splitlines()]
    found = [s for line in lines for r in line["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]]
    return [span | {"attributes": {a["key"]: plain(a["value"]) for a in span["attributes"]}} for span in found]


def named(operation: str) -> list[dict[str, Any]]:
    return [span for span in spans() if span["attributes"]["gen_ai.operation.name"] == operation]


def messages(span: dict[str, Any], direction: str) -> list[dict[str, Any]]:
    return json.loads(span["attributes"][f"gen_ai.{direction}.messages"])


def answered() -> list[dict[str, Any]]:
    return [span for span in named("chat") if "gen_ai.output.messages" in span["attributes"]]


def part_types(message: dict[str, Any]) -> list[str]:
    return [part["type"] for part in message["parts"]]


def test_the_script_writes_the_committed_file_byte_for_byte_whatever_the_hash_seed(tmp_path: Path) -> None:
    for seed in ("0", "1"):
        target = tmp_path / f"session-{seed}.jsonl"
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, str(SCRIPT), str(target)], check=True, env=environment, timeout=60)
        assert target.read_bytes() == COMMITTED.read_bytes()


def test_span_ids_are_unique_and_every_parent_is_there() -> None:
    ids = [span["spanId"] for span in spans()]
    assert len(ids) == len(set(ids))
    roots = [span for span in spans() if "parentSpanId" not in span]
    assert [root["attributes"]["gen_ai.operation.name"] for root in roots] == ["invoke_agent"]
    assert {span["parentSpanId"] for span in spans() if "parentSpanId" in span} <= set(ids)
    assert {span["traceId"] for span in spans()} == {roots[0]["traceId"]}


def test_spans_stand_in_the_order_in_which_they_ended_inside_their_parents_time() -> None:
    ends = [int(span["endTimeUnixNano"]) for span in spans()]
    assert ends == sorted(ends)
    by_id = {span["spanId"]: span for span in spans()}
    for span in spans():
        assert int(span["startTimeUnixNano"]) < int(span["endTimeUnixNano"])
        if "parentSpanId" in span:
            parent = by_id[span["parentSpanId"]]
            assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"])
            assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"])


def test_each_call_repeats_the_previous_input_and_answer_and_adds_the_tools_results() -> None:
    calls = answered()
    assert len(calls) == 4
    for earlier, later in pairwise(calls):
        answer = messages(earlier, "output")[0]
        history = [*messages(earlier, "input"), {"role": answer["role"], "parts": answer["parts"]}]
        asked = [part["id"] for part in answer["parts"] if part["type"] == "tool_call"]
        following = messages(later, "input")
        assert following[: len(history)] == history
        added = following[len(history) :]
        assert [message["role"] for message in added] == ["tool"] * len(asked)
        assert [message["parts"][0]["id"] for message in added] == asked


def test_the_agent_span_alone_names_the_conversation_and_sums_the_tokens() -> None:
    (agent,) = named("invoke_agent")
    assert [s["spanId"] for s in spans() if "gen_ai.conversation.id" in s["attributes"]] == [agent["spanId"]]
    for direction in ("input", "output"):
        key = f"gen_ai.usage.{direction}_tokens"
        assert agent["attributes"][key] == sum(span["attributes"][key] for span in answered())


def test_the_session_holds_what_the_script_promises() -> None:
    calls = answered()
    question = messages(calls[0], "input")[0]
    assert part_types(question) == ["text", "uri", "blob"]
    assert part_types(messages(calls[0], "output")[0]) == ["reasoning", "text", *["tool_call"] * 3]
    assert [len(messages(call, "output")) for call in calls] == [1, 1, 1, 2]
    assert all("gen_ai.usage.cache_read.input_tokens" in call["attributes"] for call in calls)
    refused = [span for span in named("chat") if span["status"].get("code") == 2]
    assert [span["attributes"]["http.response.status_code"] for span in refused] == [429]
    silent = [span for span in named("chat") if "gen_ai.input.messages" not in span["attributes"]]
    assert [span["name"] for span in silent] == ["chat gpt-5-mini"]
    assert len(named("embeddings")) == 1
    assert len(named("execute_tool")) == 6
    assert "sk-fictitious000111222333" in json.dumps(messages(calls[1], "input"))


def test_the_inline_image_is_a_readable_png() -> None:
    blob = messages(answered()[0], "input")[0]["parts"][2]
    image = b64decode(blob["content"], validate=True)
    start = image.index(b"IDAT")
    length = int.from_bytes(image[start - 4 : start], "big")
    body = image[start : start + 4 + length]
    assert int.from_bytes(image[start + 4 + length : start + 8 + length], "big") == zlib.crc32(body)
    assert len(zlib.decompress(body[4:])) == 8 * 9


def test_importing_the_script_writes_nothing() -> None:
    before = COMMITTED.stat().st_mtime_ns
    spec = importlib.util.spec_from_file_location("make_agent_session", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.render().encode() == COMMITTED.read_bytes()
    assert COMMITTED.stat().st_mtime_ns == before
