# SPDX-License-Identifier: Apache-2.0
"""`restore --to scn`: facts become records of SCN Chat, once each, and never start a generation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sediment_otel.cli import app
from sediment_otel.settings import Settings
from sediment_otel.sources.files import expand
from sediment_otel.traces import Traces
from sediment_otel.translate.restore import RestoreError
from sediment_otel.translate.scn_records import ScnRecords, tid

NSID = "network.sharedcomputer.chat."


def message(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts), "finish_reason": None}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "content": value}


CALL = {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "ü"}}
FOUND = {"type": "tool_call_response", "id": "c1", "result": {"hits": 2}}


def fact(number: int, given: list[Any], answer: Any, **more: Any) -> bytes:
    value = {
        "schema_version": 1,
        "inference_call_id": f"call-{number}",
        "org_id": "acme",
        "session_id": "s-1",
        "user_id": None,
        "gateway_provider": "unknown",
        "model_provider": "openai",
        "model": "gpt-x",
        "input_messages": given,
        "output_messages": [answer],
        "input_tokens": 10,
        "output_tokens": 5,
        "duration_ms": 7,
        "model_call_id": None,
        "observed_at": "2026-11-30T10:00:00.123456Z",
        "raw": {},
        **more,
    }
    return json.dumps(value).encode()


def entries(*facts: bytes) -> list[dict[str, Any]]:
    records = ScnRecords()
    for item in facts:
        records.add(item)
    return list(records.entries())


SYSTEM, ASKED = message("system", text("Be brief.")), message("user", text("Go"))
FIRST = fact(1, [SYSTEM, ASKED], message("assistant", CALL))
SECOND = fact(
    2, [SYSTEM, ASKED, message("assistant", CALL), message("tool", FOUND)], message("assistant", text("Done."))
)


def test_two_steps_of_one_reply_are_one_reply() -> None:
    info, user, reply = entries(FIRST, SECOND)
    assert info["value"]["systemPrompt"] == "Be brief."
    assert "generation" not in user["value"]
    assert (reply["rkey"], reply["value"]["parent"]) == (f"{user['rkey']}.r0", user["rkey"])
    assert [part["$type"].split("#")[1] for part in reply["value"]["content"]["parts"]] == [
        "toolCallPart",
        "toolResultPart",
        "textPart",
    ]
    assert reply["value"]["content"]["parts"][0]["input"] == '{"q":"ü"}'
    assert reply["value"]["content"]["parts"][1]["output"] == '{"hits":2}'
    assert (reply["value"]["status"], reply["value"]["usage"]) == ("complete", {"inputTokens": 20, "outputTokens": 10})
    assert reply["value"]["model"] == {"provider": "openai", "id": "gpt-x"}
    assert reply["value"]["createdAt"] == "2026-11-30T10:00:00.123Z"


def test_the_same_fact_again_changes_nothing() -> None:
    assert entries(FIRST, SECOND, FIRST, SECOND) == entries(FIRST, SECOND)


def test_a_history_that_is_repeated_is_there_once_and_goes_on() -> None:
    more = [SYSTEM, ASKED, message("assistant", CALL), message("tool", FOUND), message("assistant", text("Done."))]
    third = fact(3, [*more, message("user", text("More"))], message("assistant", text("Ok")))
    found = entries(FIRST, SECOND, third)
    assert [entry["value"].get("role") for entry in found] == [None, "user", "assistant", "user", "assistant"]
    assert found[3]["value"]["parent"] == found[2]["rkey"]


def test_another_answer_to_the_same_question_is_another_attempt() -> None:
    other = fact(2, [SYSTEM, ASKED], message("assistant", text("No.")))
    found = entries(FIRST, other)
    assert [entry["rkey"].rsplit(".", 1)[-1] for entry in found[2:]] == ["r0", "r1"]


def test_half_a_model_name_is_left_out() -> None:
    found = entries(fact(1, [ASKED], message("assistant", text("x")), model_provider=None))
    assert "model" not in found[-1]["value"]


def test_results_in_a_users_message_belong_to_the_reply() -> None:
    found = entries(
        fact(1, [ASKED, message("assistant", CALL), message("user", FOUND)], message("assistant", text("x")))
    )
    assert [entry["value"]["role"] for entry in found] == ["user", "assistant"]


@pytest.mark.parametrize("content", ["x" * 500_001, "ü" * 250_001])
def test_what_no_record_can_hold_is_refused_and_leaves_nothing(content: str) -> None:
    records = ScnRecords()
    with pytest.raises(RestoreError):
        records.add(fact(1, [ASKED, message("user", text(content))], message("assistant", text("x"))))
    with pytest.raises(RestoreError):
        records.add(fact(2, [ASKED], message("assistant", *[text("x")] * 1001)))
    assert list(records.entries()) == []


def test_keys_are_sortable_times() -> None:
    keys = [tid(number) for number in (0, 1, 1_790_000_000_000_000, 1_790_000_000_000_001)]
    assert keys == sorted(keys)
    assert {len(key) for key in keys} == {13}


def test_records_that_became_facts_come_back_without_generation(tmp_path: Path) -> None:
    space = "at://did:plc:abc/space/network.sharedcomputer.chat.conversation/3l1"
    content = {"$type": f"{NSID}defs#plainContent", "parts": [{"$type": f"{NSID}defs#textPart", "text": "Hi"}]}
    common = {"$type": f"{NSID}message", "content": content, "createdAt": "2026-09-26T17:00:04.000Z"}
    asked = {**common, "role": "user", "generation": {"attempt": 0}}
    reply = {**common, "role": "assistant", "parent": "a", "status": "complete"}
    path = tmp_path / "records.json"
    path.write_text(
        json.dumps({"space": space, "records": [{"rkey": "a", "value": asked}, {"rkey": "a.r0", "value": reply}]})
    )
    (walked,) = Traces(expand([str(path)]), Settings()).walk()
    assert walked.translation.encoded is not None
    first, second = entries(walked.translation.encoded)
    assert (first["space"], first["rkey"], second["rkey"]) == (space, "a", "a.r0")
    assert first["value"] == {key: value for key, value in asked.items() if key != "generation"}
    assert second["value"] == reply


def test_the_command_writes_records_that_convert_reads_again(tmp_path: Path) -> None:
    (tmp_path / "facts.jsonl").write_bytes(FIRST + b"\n" + SECOND + b"\nno fact\n")
    out = tmp_path / "records.jsonl"
    done = CliRunner().invoke(app, ["restore", str(tmp_path / "facts.jsonl"), "--to", "scn", "-o", str(out)])
    assert done.exit_code == 0, done.output
    (walked,) = Traces(expand([str(out)]), Settings()).walk()
    assert walked.translation.encoded is not None
    again = json.loads(walked.translation.encoded)
    assert (again["session_id"], again["raw"]["steps"]) == ("s-1", 2)
    assert [item["role"] for item in again["input_messages"]] == ["system", "user"]
