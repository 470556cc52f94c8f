# SPDX-License-Identifier: Apache-2.0
"""Real instrumentations against a model server on the loopback: the facts equal what was sent and answered.

Runs in an environment of its own (`captures_env`), by subprocess, as an application would.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from captures_env import captures_python, clean_environment, run_in_captures
from expected import expected
from sdk_kit import facts_of, lines_of

from fakeserver.server import THOUGHT, FakeModelServer
from sediment_otel.sinks.store import read_facts

APPS = Path(__file__).parent / "apps"
#: The environments are made when they are first needed.
pytestmark = pytest.mark.timeout(900)
ALL = "hi,weather,loop,think,image,fail"
OLD_REASONS = {"tool_calls": "tool_call"}
COMPARED = ("model", "model_call_id", "input_tokens", "output_tokens", "input_messages", "output_messages")


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer() as running:
        yield running


class Case(NamedTuple):
    """One instrumentation, the client it wraps, and where it may put content."""

    instrumentation: str
    kind: str
    mode: str
    stream: bool = False

    @property
    def id(self) -> str:
        return "-".join((self.instrumentation, self.kind, self.mode, *(["stream"] if self.stream else [])))


CASES = [
    Case(instrumentation, kind, mode, stream)
    for instrumentation, kind in (
        ("genai-openai", "openai-chat"),
        ("genai-openai", "openai-responses"),
        ("genai-anthropic", "anthropic"),
    )
    for mode, stream in (("span", False), ("span", True), ("event", False), ("hook", True), ("hook", False))
]


def run_app(case: Case, server: FakeModelServer, folder: Path, prompts: str = ALL, *flags: str) -> list[dict[str, Any]]:
    sink = folder / "facts.jsonl"
    more = [*(["stream"] if case.stream else []), *flags]
    arguments = [case.instrumentation, str(sink), case.mode, server.url, case.kind, prompts, *more]
    name = "captures-openai-v2" if case.instrumentation == "openai-v2" else "captures"
    run_in_captures([str(APPS / "instrumented.py"), *arguments], folder, name=name)
    return facts_of(sink)


def assert_facts_equal(
    facts: list[dict[str, Any]], server: FakeModelServer, without: frozenset[str] = frozenset()
) -> None:
    wanted = [fact for path, body in server.requests if (fact := expected(path, body)) is not None]
    assert len(facts) == len(wanted)
    for fact, want in zip(facts, wanted, strict=True):
        for key in COMPARED:
            if key not in without:
                assert as_openai_says(fact[key]) == as_openai_says(want[key])


def as_openai_says(value: Any) -> Any:
    """Messages with the finish reason that older instrumentations pass on as the service spells it."""
    if not isinstance(value, list):
        return value
    return [{**message, "finish_reason": OLD_REASONS.get(*[message["finish_reason"]] * 2)} for message in value]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_facts_equal_what_was_sent_and_answered(case: Case, server: FakeModelServer, tmp_path: Path) -> None:
    facts = run_app(case, server, tmp_path)
    assert_facts_equal(facts, server)
    assert [fact["session_id"] for fact in facts] == [
        *["session-hi"], *["session-weather"] * 2, *["session-loop"] * 3, "session-think", "session-image",
    ]  # fmt: skip
    assert {code for fact in facts for code in codes(fact)} == {"unsupported_content"}
    assert all(fact["duration_ms"] is not None for fact in facts)


def codes(fact: dict[str, Any]) -> set[str]:
    return {loss["code"] for loss in fact["raw"].get("losses", ())}


@pytest.mark.parametrize("case", [case for case in CASES if case.mode == "span"], ids=lambda case: case.id)
def test_a_loop_of_three_turns_chains(case: Case, server: FakeModelServer, tmp_path: Path) -> None:
    first, second, third = run_app(case, server, tmp_path, "loop")
    for before, after in ((first, second), (second, third)):
        known = before["input_messages"] + [{**before["output_messages"][0], "finish_reason": None}]
        assert after["input_messages"][: len(known)] == known
        (result,) = after["input_messages"][len(known) :]
        assert [part["type"] for part in result["parts"]] == ["tool_call_response"]
        (call,) = [part for part in before["output_messages"][0]["parts"] if part["type"] == "tool_call"]
        assert result["parts"][0]["id"] == call["id"]


def test_reasoning_reaches_the_fact_and_an_image_stays_in_raw(server: FakeModelServer, tmp_path: Path) -> None:
    thought, seen = run_app(Case("genai-anthropic", "anthropic", "span"), server, tmp_path, "think,image")
    assert thought["output_messages"][0]["parts"][0] == {"type": "reasoning", "content": THOUGHT}
    (aside,) = seen["raw"]["unsupported_parts"]
    assert (aside["at"], aside["code"], aside["part"]["type"]) == (
        "/input_messages/1/parts/1",
        "unsupported_content",
        "blob",
    )


@pytest.mark.parametrize("stream", [False, True])
def test_openai_v2_in_its_current_mode_gives_the_same_facts(
    stream: bool, server: FakeModelServer, tmp_path: Path
) -> None:
    facts = run_app(Case("openai-v2", "openai-chat", "span", stream), server, tmp_path, "hi,weather,think,fail")
    assert_facts_equal(facts, server)


def test_openai_v2_in_its_older_mode_gives_facts_from_log_events(server: FakeModelServer, tmp_path: Path) -> None:
    facts = run_app(Case("openai-v2", "openai-chat", "event"), server, tmp_path, "hi,weather,think")
    assert_facts_equal(facts, server)
    assert all(fact["raw"]["log_records"] for fact in facts)


needs_pydantic_ai = pytest.mark.skipif(sys.version_info < (3, 11), reason="pydantic-ai needs Python 3.11")


@needs_pydantic_ai
@pytest.mark.parametrize("instrumentation", ["pydantic-ai", "pydantic-ai+genai-openai"])
def test_pydantic_ai_gives_facts_that_equal_what_was_sent(
    instrumentation: str, server: FakeModelServer, tmp_path: Path
) -> None:
    """With the client instrumented as well, two nested spans describe each call: the inner one is the fact."""
    facts = run_app(Case(instrumentation, "pydantic-ai", "span"), server, tmp_path, "hi,weather,loop")
    assert len(facts) == len(server.requests) == 6
    for fact, (path, body) in zip(facts, server.requests, strict=True):
        want = expected(path, body)
        assert want is not None
        assert flat(fact["input_messages"]) == flat(want["input_messages"])
        assert flat(fact["output_messages"]) == flat(want["output_messages"])
    names = {fact["raw"]["scope"]["name"] for fact in facts}
    assert names == {"opentelemetry.instrumentation.genai.openai" if "+" in instrumentation else "pydantic-ai"}


def flat(messages: list[dict[str, Any]]) -> list[Any]:
    """Roles and parts; results of one turn may stand in one message or in several, under the user or the tool."""
    found: list[Any] = []
    for message in messages:
        for part in message["parts"]:
            found.append(part if part["type"] == "tool_call_response" else (message["role"], part))
    return found


def test_the_hook_works_for_spans_that_are_not_sampled(server: FakeModelServer, tmp_path: Path) -> None:
    case = Case("genai-openai", "openai-chat", "unsampled")
    facts = run_app(case, server, tmp_path, "hi,weather,fail", "baggage")
    assert_facts_equal(facts, server, without=frozenset({"model", "model_call_id", "input_tokens", "output_tokens"}))
    assert {fact["session_id"] for fact in facts} == {"session-hi", "session-weather"}


# -- no line at all ------------------------------------------------------------------------------------------------


def without_a_line(
    folder: Path, server: FakeModelServer, kind: str, prompts: str, environment: dict[str, str], *flags: str
) -> Path:
    """`opentelemetry-instrument python agent.py`, with what its spans export as a file beside it."""
    command = [str(Path(captures_python()).with_name("opentelemetry-instrument")), captures_python()]
    settings = {
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
        "OTEL_SERVICE_NAME": "agent",
    }
    done = subprocess.run(
        [*command, str(APPS / "agent.py"), server.url, kind, prompts, *flags],
        cwd=folder,
        env=clean_environment() | settings | environment,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    (folder / "exported.jsonl").write_bytes(done.stdout)
    return folder / "exported.jsonl"


def converted(exported: Path) -> list[bytes]:
    run_in_captures(["-m", "sediment_otel", "convert", str(exported), "-o", "converted.jsonl"], exported.parent)
    return lines_of(exported.parent / "converted.jsonl")


@pytest.mark.parametrize("stream", [[], ["stream"]])
def test_without_a_line_the_facts_are_those_of_convert_byte_for_byte(
    stream: list[str], server: FakeModelServer, tmp_path: Path
) -> None:
    environment = {"OTEL_TRACES_EXPORTER": "sediment,otlp_json_file", "SEDIMENT_OTEL_SINK": "facts.db"}
    exported = without_a_line(tmp_path, server, "anthropic", ALL, environment, *stream)
    stored = sorted(read_facts(str(tmp_path / "facts.db")))
    assert len(stored) == 8
    assert stored == converted(exported)


def test_the_hook_needs_no_line_and_no_exporter(server: FakeModelServer, tmp_path: Path) -> None:
    environment = {
        "OTEL_TRACES_EXPORTER": "otlp_json_file",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "NO_CONTENT",
        "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK": "sediment",
        "SEDIMENT_OTEL_SINK": "facts.jsonl",
    }
    exported = without_a_line(tmp_path, server, "anthropic", "hi,weather,fail", environment, "baggage")
    assert_facts_equal(facts_of(tmp_path / "facts.jsonl"), server)
    assert b"You are terse" not in exported.read_bytes()


def test_hook_log_record_and_span_give_one_fact(server: FakeModelServer, tmp_path: Path) -> None:
    environment = {
        "OTEL_TRACES_EXPORTER": "sediment,otlp_json_file",
        "OTEL_LOGS_EXPORTER": "sediment",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_AND_EVENT",
        "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK": "sediment",
        "SEDIMENT_OTEL_SINK": "facts.jsonl",
    }
    without_a_line(tmp_path, server, "anthropic", "hi,weather", environment)
    facts = facts_of(tmp_path / "facts.jsonl")
    assert_facts_equal(facts, server)
    assert all(len(fact["raw"]["log_records"]) == 1 for fact in facts)
    assert all("content" not in fact["raw"] for fact in facts)


def test_content_that_is_switched_off_is_not_recovered(server: FakeModelServer, tmp_path: Path) -> None:
    environment = {
        "OTEL_TRACES_EXPORTER": "sediment",
        "OTEL_LOGS_EXPORTER": "sediment",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "NO_CONTENT",
        "SEDIMENT_OTEL_SINK": "facts.jsonl",
    }
    without_a_line(tmp_path, server, "anthropic", "hi,weather", environment)
    assert lines_of(tmp_path / "facts.jsonl") == []


DECLARED = """
file_format: "1.0"
resource:
  attributes:
    - {name: service.name, value: agent}
tracer_provider:
  processors:
    - batch:
        exporter:
          sediment: {sink: facts.jsonl, org: acme, raw: residual, session_attributes: [session.id]}
logger_provider:
  processors:
    - batch:
        exporter:
          sediment: {sink: facts.jsonl, org: acme, raw: residual, session_attributes: [session.id]}
"""


def test_a_declarative_configuration_file_names_the_exporters_and_their_options(
    server: FakeModelServer, tmp_path: Path
) -> None:
    (tmp_path / "otel.yaml").write_text(DECLARED)
    environment = {
        "OTEL_CONFIG_FILE": "otel.yaml",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "EVENT_ONLY",
    }
    without_a_line(tmp_path, server, "anthropic", "hi,weather", environment)
    facts = facts_of(tmp_path / "facts.jsonl")
    assert_facts_equal(facts, server)
    assert {fact["org_id"] for fact in facts} == {"acme"}


def test_a_missing_sink_is_said_and_the_application_runs(server: FakeModelServer, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            str(Path(captures_python()).with_name("opentelemetry-instrument")),
            captures_python(),
            str(APPS / "agent.py"),
            server.url,
            "anthropic",
            "hi",
        ],
        cwd=tmp_path,
        env=clean_environment()
        | {"OTEL_TRACES_EXPORTER": "sediment", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0
    assert re.search(r"no sink: set SEDIMENT_OTEL_SINK", done.stderr)
    assert len(server.requests) == 1
