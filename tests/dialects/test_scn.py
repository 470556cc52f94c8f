# SPDX-License-Identifier: Apache-2.0
"""SCN Chat: one reply is one call, its input is the chain of its parents. All records are synthetic."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sediment_otel.dialects.scn import steps
from sediment_otel.settings import Settings
from sediment_otel.sources.files import expand
from sediment_otel.traces import Traces
from sediment_otel.translate.call import Translation
from sediment_otel.translate.verify import verify_call
from sediment_otel.vocabulary import SkipReason

NSID = "network.sharedcomputer.chat."
SPACE = "at://did:plc:abc/space/network.sharedcomputer.chat.conversation/3l1"
MODEL = {"provider": "anthropic", "id": "claude-x"}


def part(kind: str, **fields: Any) -> dict[str, Any]:
    return {"$type": f"{NSID}defs#{kind}", **fields}


def text(value: str, **fields: Any) -> dict[str, Any]:
    return part("textPart", text=value, **fields)


def call(number: str, given: str = '{"q": 1}') -> dict[str, Any]:
    return part("toolCallPart", callId=number, tool="search", input=given)


def result(number: str, output: str = "found") -> dict[str, Any]:
    return part("toolResultPart", callId=number, output=output)


def message(rkey: str, role: str, *parts: Any, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    value = {
        "$type": f"{NSID}message",
        "role": role,
        "content": {"$type": f"{NSID}defs#plainContent", "parts": list(parts)},
        "createdAt": "2026-09-26T17:00:04.000Z",
        **({"parent": parent} if parent is not None else {}),
        **fields,
    }
    return {"collection": f"{NSID}message", "rkey": rkey, "cid": f"cid-{rkey}", "value": value}


def user(rkey: str, said: str, parent: str | None = None) -> dict[str, Any]:
    return message(rkey, "user", text(said), parent=parent, generation={"model": MODEL, "attempt": 0})


def reply(rkey: str, *parts: Any, parent: str, status: str = "complete", **fields: Any) -> dict[str, Any]:
    return message(rkey, "assistant", *parts, parent=parent, **{"status": status, "model": MODEL, **fields})


def found(records: Any, folder: Path, **settings: Any) -> list[Translation]:
    path = folder / "records.json"
    path.write_text(json.dumps({"space": SPACE, "records": records}) if type(records) is list else json.dumps(records))
    walked = list(Traces(expand([str(path)]), Settings(**settings)).walk())
    for item in walked:
        assert verify_call(item.subject, Settings(**settings), item.decision) == []
    return [item.translation for item in walked]


def facts(records: Any, folder: Path, **settings: Any) -> list[dict[str, Any]]:
    return [json.loads(item.encoded) for item in found(records, folder, **settings) if item.encoded]


def said(messages: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    return [(m["role"], [p.get("content", p.get("id")) for p in m["parts"]]) for m in messages]


def test_a_reply_is_one_fact(tmp_path: Path) -> None:
    usage = {"inputTokens": 412, "outputTokens": 38, "reasoningTokens": 3}
    (fact,) = facts([user("a", "Hi"), reply("a.r0", text("Hello"), parent="a", usage=usage)], tmp_path)
    assert said(fact["input_messages"]) == [("user", ["Hi"])]
    assert said(fact["output_messages"]) == [("assistant", ["Hello"])]
    assert (fact["session_id"], fact["user_id"]) == (SPACE, "did:plc:abc")
    assert (fact["model"], fact["model_provider"]) == ("claude-x", "anthropic")
    assert (fact["input_tokens"], fact["output_tokens"]) == (412, 38)
    assert (fact["duration_ms"], fact["model_call_id"], fact["observed_at"]) == (
        None,
        None,
        "2026-09-26T17:00:04.000000Z",
    )
    raw = fact["raw"]
    assert (raw["source"], raw["space"], raw["rkey"], raw["cid"]) == ("scn", SPACE, "a.r0", "cid-a.r0")
    assert (raw["chain"], "steps" in raw) == (["a"], False)


def test_several_steps_are_one_fact_that_says_so(tmp_path: Path) -> None:
    parts = (call("c1"), result("c1"), call("c2"), result("c2"), text("Done."))
    records = [user("a", "Go"), reply("a.r0", *parts, parent="a"), user("b", "More", "a.r0")]
    first, second = facts([*records, reply("b.r0", text("Ok"), parent="b")], tmp_path)
    assert said(first["output_messages"]) == [("assistant", ["c1", "c1", "c2", "c2", "Done."])]
    assert first["raw"]["steps"] == 3
    assert said(second["input_messages"]) == [
        ("user", ["Go"]),
        ("assistant", ["c1"]),
        ("tool", ["c1"]),
        ("assistant", ["c2"]),
        ("tool", ["c2"]),
        ("assistant", ["Done."]),
        ("user", ["More"]),
    ]


@pytest.mark.parametrize(
    ("parts", "count"),
    [
        ([], 1),
        ([text("x")], 1),
        ([call("1"), result("1")], 1),
        ([call("1"), result("1"), text("x")], 2),
        ([call("1"), call("2"), result("1"), result("2"), text("x")], 2),
        ([call("1"), result("1"), part("sourcePart", url="u")], 1),
        ([None, 3, "x"], 1),
    ],
)
def test_steps_are_counted_at_results_that_something_follows(parts: list[Any], count: int) -> None:
    assert steps(parts) == count


def test_edits_and_regenerations_are_calls_of_their_own(tmp_path: Path) -> None:
    records = [
        user("a", "Hi"),
        reply("a.r0", text("one"), parent="a"),
        reply("a.r10", text("two"), parent="a"),
        user("b", "first wording", "a.r0"),
        user("c", "second wording", "a.r0"),
        reply("c.r0", text("three"), parent="c"),
    ]
    one, two, three = facts(records, tmp_path)
    assert [said(f["output_messages"])[0][1] for f in (one, two, three)] == [["one"], ["two"], ["three"]]
    assert one["input_messages"] == two["input_messages"]
    assert said(three["input_messages"]) == [("user", ["Hi"]), ("assistant", ["one"]), ("user", ["second wording"])]


def test_an_unknown_parent_is_a_root_and_a_cycle_ends(tmp_path: Path) -> None:
    (orphan,) = facts([reply("x.r0", text("alone"), parent="gone")], tmp_path)
    assert (orphan["input_messages"], said(orphan["output_messages"])) == ([], [("assistant", ["alone"])])
    (turning,) = facts([user("a", "A", "b"), user("b", "B", "a"), reply("a.r0", text("x"), parent="a")], tmp_path)
    assert said(turning["input_messages"]) == [("user", ["B"]), ("user", ["A"])]
    (own,) = facts([reply("a.r0", text("x"), parent="a.r0")], tmp_path)
    assert own["input_messages"] == []


def test_errors_and_what_is_pending_are_not_sent_and_what_was_cancelled_is(tmp_path: Path) -> None:
    records = [
        user("a", "q1"),
        reply("a.r0", text("boom"), parent="a", status="error"),
        user("b", "q2", "a.r0"),
        reply("b.r0", text("partial"), call("c1"), parent="b", status="cancelled"),
        user("c", "q3", "b.r0"),
        reply("c.r0", parent="c", status="pending"),
        reply("c.r1", text("done"), parent="c"),
    ]
    (fact,) = facts(records, tmp_path)
    assert said(fact["input_messages"]) == [
        ("user", ["q1"]),
        ("user", ["q2"]),
        ("assistant", ["partial"]),
        ("user", ["q3"]),
    ]
    reasons = Counter(item.reason for item in found(records, tmp_path))
    assert reasons == {None: 1, SkipReason.FAILED_CALL: 2}
    assert len(facts(records, tmp_path, include_failed=True)) == 3


def test_an_error_before_any_call_is_no_call(tmp_path: Path) -> None:
    assert found([user("a", "q"), reply("a.r0", parent="a", status="error", error="no model")], tmp_path) == []


@pytest.mark.parametrize(
    ("wrote", "asks", "sent"),
    [("anthropic", "anthropic", True), ("anthropic", "openai", False), ("openrouter", "openrouter", False)],
)
def test_reasoning_goes_back_only_to_who_wrote_it(tmp_path: Path, wrote: str, asks: str, sent: bool) -> None:
    thought = part("reasoningPart", text="thinking", providerData='{"x": 1}')
    records = [
        user("a", "q"),
        reply("a.r0", thought, text("answer"), parent="a", model={"provider": wrote, "id": "m"}),
        user("b", "q2", "a.r0"),
        reply("b.r0", text("ok"), parent="b", model={"provider": asks, "id": "m"}),
    ]
    first, second = facts(records, tmp_path)
    assert first["output_messages"][0]["parts"][0] == {"type": "reasoning", "content": "thinking"}
    assert ("thinking" in json.dumps(second["input_messages"])) is sent


def test_images_files_and_sources_are_kept_in_raw_with_their_place(tmp_path: Path) -> None:
    blob = {"$type": "blob", "ref": {"$link": "bafy1"}, "mimeType": "image/png", "size": 2}
    records = [
        message(
            "a", "user", part("imagePart", image=blob, alt="x"), part("filePart", file=blob, name="r.pdf"), text("?")
        ),
        reply("a.r0", text("A cat"), part("sourcePart", url="https://x.example"), part("newPart", x=1), parent="a"),
    ]
    (fact,) = facts(records, tmp_path)
    assert said(fact["input_messages"]) == [("user", ["?"])]
    entries = {entry["at"]: (entry["code"], entry["part"]["type"]) for entry in fact["raw"]["unsupported_parts"]}
    assert entries == {
        "/input_messages/0/parts/0": ("unsupported_content", "file"),
        "/input_messages/0/parts/1": ("unsupported_content", "file"),
        "/output_messages/0/parts/1": ("unsupported_content", "source"),
        "/output_messages/0/parts/2": ("unsupported_content", "newPart"),
    }
    assert fact["raw"]["unsupported_parts"][0]["part"]["file_id"] == "bafy1"


def test_encrypted_content_is_skipped_with_its_own_reason(tmp_path: Path) -> None:
    sealed = {"$type": f"{NSID}defs#encryptedContent", "scheme": "s", "ciphertext": {"$bytes": "AA"}}
    hidden = reply("a.r0", parent="a", content=sealed)
    asked = user("b", "q")
    asked["value"]["content"] = sealed
    reasons = [i.reason for i in found([user("a", "q"), hidden, asked, reply("b.r0", text("x"), parent="b")], tmp_path)]
    assert reasons == [SkipReason.ENCRYPTED, SkipReason.ENCRYPTED]


def test_instructions_are_the_first_message_and_are_said_to_be_of_today(tmp_path: Path) -> None:
    info = {"collection": f"{NSID}info", "rkey": "self", "value": {"$type": f"{NSID}info", "systemPrompt": "Be brief"}}
    wishes = {"$type": f"{NSID}preferences", "customInstructions": "Metric units"}
    own = {"collection": f"{NSID}preferences", "rkey": "self", "value": wishes}
    (fact,) = facts([info, own, user("a", "q"), reply("a.r0", text("x"), parent="a")], tmp_path)
    assert said(fact["input_messages"])[0] == ("system", ["Metric units\n\nBe brief"])
    assert any("of today" in note for note in fact["raw"]["notes"])


@pytest.mark.parametrize(
    ("given", "arguments"),
    [('{"q": 1}', {"q": 1}), ('"{\\"q\\": 1}"', {"q": 1}), ('{"q": ', {}), ("[1]", {}), ("", {})],
)
def test_tool_input_is_opened_to_an_object(tmp_path: Path, given: str, arguments: Any) -> None:
    (fact,) = facts([user("a", "q"), reply("a.r0", call("c1", given), result("c1"), parent="a")], tmp_path)
    assert fact["output_messages"][0]["parts"][0]["arguments"] == arguments


# -- forms ---------------------------------------------------------------------------------------------------

TWO = [user("a", "Hi"), reply("a.r0", text("Hello"), parent="a")]


def test_every_form_of_the_records_gives_the_same_fact(tmp_path: Path) -> None:
    (listed,) = facts(TWO, tmp_path)
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps({**record, "space": SPACE}) + "\n" for record in TWO))
    addressed = tmp_path / "addressed.jsonl"
    uri = f"{SPACE}/did:plc:abc/{NSID}message"
    addressed.write_text("".join(json.dumps({**record, "uri": f"{uri}/{record['rkey']}"}) + "\n" for record in TWO))
    ops = tmp_path / "ops.json"
    ops.write_text(json.dumps({"space": SPACE, "ops": [{"rev": "1", **record} for record in TWO]}))
    database = tmp_path / "app.db"
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE local_record (space_uri, collection, rkey, value_json, cid, updated_at)")
        for record in TWO:
            row = (SPACE, record["collection"], record["rkey"], json.dumps(record["value"]), record["cid"], "t")
            db.execute("INSERT INTO local_record VALUES (?,?,?,?,?,?)", row)
    db.close()
    for path in (lines, addressed, ops, database):
        (item,) = list(Traces(expand([str(path)]), Settings()).walk())
        assert item.translation.encoded is not None, (path, item.translation.reason)
        assert json.loads(item.translation.encoded) == listed, path


def test_the_apps_conversation_names_no_space(tmp_path: Path) -> None:
    messages = [{key: record[key] for key in ("rkey", "value", "cid")} for record in TWO]
    conversation = {"info": None, "messages": messages, "deleted": [], "rev": "r", "full": True}
    assert [item.reason for item in found(conversation, tmp_path)] == [SkipReason.NO_SESSION]
    (fact,) = facts(conversation, tmp_path, session_id="s-1")
    assert (fact["session_id"], fact["user_id"]) == ("s-1", None)


def test_a_later_version_of_a_record_replaces_the_earlier_one(tmp_path: Path) -> None:
    pending = reply("a.r0", parent="a", status="pending")
    assert len(facts([TWO[0], pending, TWO[1]], tmp_path)) == 1


def test_another_database_is_named_and_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE x (y)")
    db.close()
    traces = Traces(expand([str(path)]), Settings())
    assert list(traces.walk()) == []
    assert "local_record" in traces.unread[0].reason


@pytest.mark.parametrize(
    "value", [None, 3, "x", [], {}, [None], [{"$type": 3}], {"parts": 3}, {"parts": [1, None, {}]}]
)
@pytest.mark.parametrize("key", ["role", "content", "parent", "status", "model", "usage", "createdAt", "$type"])
def test_odd_values_cost_at_most_the_reply(tmp_path: Path, key: str, value: Any) -> None:
    bad = [user("b", "q"), reply("b.r0", text("x"), parent="b")]
    for record in bad:
        record["value"][key] = value
    good = [item for item in found([*bad, *TWO], tmp_path) if item.encoded and b'"rkey":"a.r0"' in item.encoded]
    assert len(good) == 1


@pytest.mark.parametrize(
    "kind", ["textPart", "reasoningPart", "toolCallPart", "toolResultPart", "imagePart", "filePart"]
)
@pytest.mark.parametrize("value", [None, 3, [], {}, True])
def test_odd_parts_cost_at_most_themselves(tmp_path: Path, kind: str, value: Any) -> None:
    odd = part(kind, **dict.fromkeys(("text", "callId", "tool", "input", "output", "image", "file"), value))
    (fact,) = facts([user("a", "q"), reply("a.r0", odd, text("x"), parent="a")], tmp_path)
    assert {"type": "text", "content": "x"} in fact["output_messages"][0]["parts"]
