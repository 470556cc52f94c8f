# SPDX-License-Identifier: Apache-2.0
"""The facts of all real captures, delivered into a real Sediment and read back from it."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import rig
from typer.testing import CliRunner

from sediment_otel.cli import app
from sediment_otel.sinks.sediment.envelope import capture_of
from sediment_otel.translate.identity import inference_call_id

SCALARS = (
    "inference_call_id",
    "org_id",
    "session_id",
    "user_id",
    "model_provider",
    "model",
    "input_tokens",
    "output_tokens",
    "duration_ms",
    "model_call_id",
    "schema_version",
)


def facts_in(path: Path) -> dict[str, dict[str, Any]]:
    facts = (json.loads(line) for line in path.read_bytes().splitlines())
    return {fact["inference_call_id"]: fact for fact in facts}


def deliver(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["deliver", *arguments])
    return done.exit_code, done.stdout, done.stderr


def report_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def typed(value: Any) -> Any:
    """Equality that keeps 1, 1.0 and true apart."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return (type(value).__name__, value)


def instant(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def assert_same_call(stored: dict[str, Any], sent: dict[str, Any]) -> None:
    for key in SCALARS:
        assert typed(stored[key]) == typed(sent[key]), (sent["inference_call_id"], key)
    for key in ("input_messages", "output_messages"):
        assert typed(stored[key]) == typed(sent[key]), (sent["inference_call_id"], key)
    assert instant(stored["observed_at"]) == instant(sent["observed_at"])


def rounds(captures: Path, folder: Path) -> list[Path]:
    """The facts in as few files as hold no model call id twice: the captures were made against a model service
    with fixed answers, and of facts with one model call id a Sediment keeps the first."""
    found: list[list[dict[str, Any]]] = []
    for fact in facts_in(captures).values():
        key = fact["model_call_id"]
        free = (group for group in found if key is None or all(other["model_call_id"] != key for other in group))
        group = next(free, None)
        if group is None:
            found.append(group := [])
        group.append(fact)
    paths = [folder / f"round-{number}.jsonl" for number in range(len(found))]
    for path, group in zip(paths, found, strict=True):
        path.write_text("".join(json.dumps(fact) + "\n" for fact in group), encoding="utf-8")
    return paths


def test_every_fact_of_the_captures_is_stored_over_http_and_read_back_equal(
    sediment: rig.Sediment, captures: Path, tmp_path: Path
) -> None:
    seen = 0
    for path in rounds(captures, tmp_path):
        sent = facts_in(path)
        code, _, told = deliver(str(path), "--to", sediment.sink, "--report", str(tmp_path / "r.json"))
        report = report_of(tmp_path / "r.json")
        assert code == 0, told
        assert report["outcomes"] == {"stored": len(sent)}
        stored = {call["inference_call_id"]: call for call in sediment.core("read")}
        assert stored.keys() == sent.keys()
        for name, fact in sent.items():
            assert_same_call(stored[name], fact)
            assert stored[name]["gateway_provider"] == "litellm"
            assert stored[name]["raw"]["raw"] == fact["raw"]
        stamped = {i["inference_call_id"] for i in report["items"] if "gateway_stamped" in i.get("not_said", [])}
        assert stamped == {name for name, fact in sent.items() if fact["gateway_provider"] != "litellm"}
        seen += len(sent)
        sediment.core("empty")
    assert seen == len(facts_in(captures)) > 100


def test_facts_that_share_a_model_call_id_collapse_and_are_counted(
    sediment: rig.Sediment, captures: Path, tmp_path: Path
) -> None:
    sent = facts_in(captures)
    ids = [fact["model_call_id"] for fact in sent.values() if fact["model_call_id"] is not None]
    repeated = len(ids) - len(set(ids))
    assert repeated > 0
    code, _, told = deliver(str(captures), "--to", sediment.sink, "--report", str(tmp_path / "r.json"))
    assert code == 0
    report = report_of(tmp_path / "r.json")
    assert report["outcomes"] == {"stored": len(sent) - repeated, "collapsed": repeated}
    assert f"{repeated} collapsed: model_call_id_reused" in told
    held = {call["inference_call_id"] for call in sediment.core("read")}
    for item in report["items"]:
        if item["outcome"] == "collapsed":
            assert item["fact_id"] in held
            assert sent[item["fact_id"]]["model_call_id"] == sent[item["inference_call_id"]]["model_call_id"]


def test_a_second_delivery_over_http_stores_nothing(sediment: rig.Sediment, captures: Path, tmp_path: Path) -> None:
    (first, *_) = rounds(captures, tmp_path)
    deliver(str(first), "--to", sediment.sink)
    before = sediment.core("read")
    code, _, told = deliver(str(first), "--to", sediment.sink, "--report", str(tmp_path / "r.json"))
    assert code == 0, told
    assert report_of(tmp_path / "r.json")["outcomes"] == {"duplicate": len(before)}
    assert sediment.core("read") == before


def test_the_server_shows_tokens_and_ids_of_a_session(sediment: rig.Sediment, captures: Path, tmp_path: Path) -> None:
    (first, *_) = rounds(captures, tmp_path)
    deliver(str(first), "--to", sediment.sink)
    sent = facts_in(first).values()
    sessions = {fact["session_id"] for fact in sent}
    assert len(sessions) > 5
    for session in sessions:
        shown = sediment.get(f"/v1/facts/session/{session}/inference-calls")["inference_calls"]
        keys = ("inference_call_id", "model_call_id", "model", "input_tokens", "output_tokens", "duration_ms")
        assert sorted(str([call[key] for key in keys]) for call in shown) == sorted(
            str([fact[key] for key in keys]) for fact in sent if fact["session_id"] == session
        )


def under(org: str, fact: dict[str, Any]) -> dict[str, Any]:
    """The fact as it would be had it been converted with `--org`."""
    capture = capture_of(fact["inference_call_id"], fact["org_id"], json.dumps(fact["raw"]).encode())
    return {**fact, "org_id": org, "inference_call_id": inference_call_id(org, capture)}


def test_every_fact_of_the_captures_is_stored_through_the_store_with_all_that_it_says(
    sediment: rig.Sediment, captures: Path, tmp_path: Path
) -> None:
    # The store takes facts of any organisation: each round has one of its own.
    orgs = {f"acme-{number}": path for number, path in enumerate(rounds(captures, tmp_path))}
    facts = [under(org, fact) for org, path in orgs.items() for fact in facts_in(path).values()]
    everything = tmp_path / "all.jsonl"
    everything.write_text("".join(json.dumps(fact) + "\n" for fact in facts), encoding="utf-8")
    arguments = ["deliver", str(everything), "--to", f"sediment+{sediment.database}", "--report"]
    done = sediment.ours(*arguments, str(tmp_path / "r.json"))
    assert done.returncode == 0, done.stderr
    assert sediment.database.split(":")[2].split("@")[0] not in done.stderr
    assert report_of(tmp_path / "r.json")["outcomes"] == {"stored": len(facts)}
    stored = {call["inference_call_id"]: call for org in orgs for call in sediment.core("read", org=org)}
    assert stored.keys() == {fact["inference_call_id"] for fact in facts}
    for fact in facts:
        found = stored[fact["inference_call_id"]]
        assert_same_call(found, fact)
        assert found["gateway_provider"] == fact["gateway_provider"]
        assert typed(found["raw"]) == typed(fact["raw"])
    again = sediment.ours(*arguments, str(tmp_path / "again.json"))
    assert again.returncode == 0, again.stderr
    assert report_of(tmp_path / "again.json")["outcomes"] == {"duplicate": len(facts)}


def test_the_same_id_under_another_gateway_is_a_conflict_in_the_store(
    sediment: rig.Sediment, captures: Path, tmp_path: Path
) -> None:
    (first, *_) = rounds(captures, tmp_path)
    deliver(str(first), "--to", sediment.sink)
    sent = facts_in(first).values()
    done = sediment.ours(
        "deliver", str(first), "--to", f"sediment+{sediment.database}", "--report", str(tmp_path / "r.json")
    )
    wanted = Counter("duplicate" if fact["gateway_provider"] == "litellm" else "conflict" for fact in sent)
    assert report_of(tmp_path / "r.json")["outcomes"] == wanted
    assert done.returncode == 1
    assert len(sediment.core("read")) == len(sent)


def test_convert_writes_straight_into_a_running_sediment(sediment: rig.Sediment) -> None:
    capture = Path(__file__).parents[1] / "data" / "captures" / "openinference_openai.json"
    done = CliRunner().invoke(
        app, ["convert", str(capture), "--org", rig.ORG, "--session-id", "s", "-o", sediment.sink]
    )
    assert done.exit_code == 0, done.stderr
    stored = sediment.core("read")
    assert len(stored) == 10
    assert f"{len(stored)} stored, not said: gateway_stamped" in done.stderr


def test_convert_says_what_the_server_refuses_and_fails(sediment: rig.Sediment) -> None:
    capture = Path(__file__).parents[1] / "data" / "captures" / "openinference_openai.json"
    options = ["--org", "other", "--session-id", "s", "-o", sediment.sink]
    done = CliRunner().invoke(app, ["convert", str(capture), *options])
    assert done.exit_code == 1
    assert "10 refused: other_org" in done.stderr
    assert sediment.core("read") == []


@pytest.mark.parametrize(("org", "outcome"), [("other", "other_org")])
def test_facts_of_another_organisation_are_not_filed_in_this_one(
    sediment: rig.Sediment, tmp_path: Path, org: str, outcome: str
) -> None:
    capture = Path(__file__).parents[1] / "data" / "captures" / "openinference_litellm.json"
    facts = tmp_path / "facts.jsonl"
    CliRunner().invoke(app, ["convert", str(capture), "--org", org, "--session-id", "s", "-o", str(facts)])
    code, _, told = deliver(str(facts), "--to", sediment.sink)
    assert code == 1
    assert outcome in told
    assert sediment.core("read") == []


def test_a_wrong_token_ends_the_run_with_its_reason(sediment: rig.Sediment, captures: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("not-the-token-of-this-server\n", encoding="ascii")
    code, _, told = deliver(str(captures), "--to", sediment.sink, "--token-file", str(token))
    assert code == 1
    assert "authentication_rejected" in told
    assert "SEDIMENT_OTEL_TOKEN" in told
    assert "not-the-token" not in told
    assert sediment.core("read") == []
