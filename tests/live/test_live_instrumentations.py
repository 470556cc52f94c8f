# SPDX-License-Identifier: Apache-2.0
"""Spans made anew by OpenInference, OpenLLMetry and LiteLLM give facts of what the model server was asked and answered.

They run in an environment of their own, `requirements/captures-dialects.lock`; where it cannot be made, the tests are
skipped with the reason. What an instrumentation loses stands in the table of cases.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from captures_env import run_in_captures
from expected import expected

from fakeserver.server import FakeModelServer
from sediment_otel.settings import Settings
from sediment_otel.sources.files import expand
from sediment_otel.traces import Traces

APP = Path(__file__).parent / "spans_app.py"
pytestmark = pytest.mark.timeout(900)


class Case(NamedTuple):
    """An instrumentation, the client it wraps, and what is not compared because its spans do not have it.

    `without` names keys of facts and of parts; `blank` is an empty text beside tool calls, of its own making.
    """

    instrumentation: str
    kind: str
    stream: bool = False
    prompts: str = "hi,weather,loop"
    without: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        return "-".join((self.instrumentation, self.kind, *(["stream"] if self.stream else [])))


CASES = [
    Case("openinference-openai", "openai-chat"),
    Case("openinference-openai", "openai-chat", True),
    Case("openinference-openai", "openai-responses"),
    Case("openinference-anthropic", "anthropic"),
    Case("traceloop-openai", "openai-chat"),
    Case("traceloop-openai", "openai-chat", True, without=frozenset({"blank"})),
    # It knows responses by their ids, which repeat from prompt to prompt here; it writes item ids for call ids.
    Case("traceloop-openai", "openai-responses", prompts="weather", without=frozenset({"id"})),
    Case("traceloop-anthropic", "anthropic"),
    Case("litellm", "litellm", without=frozenset({"blank"})),
]


def facts_of(case: Case, server: FakeModelServer, folder: Path) -> list[dict[str, Any]]:
    file = folder / "spans.json"
    flags = ["stream"] if case.stream else []
    arguments = [case.instrumentation, str(file), server.url, case.kind, case.prompts, *flags]
    environment = {"USE_OTEL_LITELLM_REQUEST_SPAN": "true", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    run_in_captures([str(APP), *arguments], folder, environment, name="captures-dialects")
    walked = Traces(expand([str(file)]), Settings()).walk()
    found = [json.loads(item.translation.encoded) for item in walked if item.translation.encoded is not None]
    return sorted(found, key=lambda fact: str(fact["observed_at"]))


def parts(messages: list[dict[str, Any]], case: Case) -> list[Any]:
    """Parts with their roles; under which of its roles a tool's result stands is the instrumentation's choice."""
    found: list[Any] = []
    for message in messages:
        for part in message["parts"]:
            if "blank" in case.without and part.get("content") == "":
                continue
            part = {key: value for key, value in part.items() if key not in case.without}
            found.append(part if part["type"] == "tool_call_response" else (message["role"], part))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_spans_of_today_are_the_calls_that_were_made(case: Case, tmp_path: Path) -> None:
    with FakeModelServer() as server:
        facts = facts_of(case, server, tmp_path)
        wanted = [fact for path, body in server.requests if (fact := expected(path, body)) is not None]
    assert len(facts) == len(wanted) == len(server.requests)
    for count in ("input_tokens", "output_tokens"):
        assert sum(fact[count] for fact in facts) == sum(want[count] for want in wanted)
    for fact, want in zip(facts, wanted, strict=True):
        for key in ("model", "model_call_id", "input_tokens", "output_tokens"):
            if key not in case.without:
                assert fact[key] == want[key], key
        for key in ("input_messages", "output_messages"):
            assert parts(fact[key], case) == parts(want[key], case), key
    sessions = [f"session-{prompt}" for prompt in case.prompts.split(",")]
    assert list(dict.fromkeys(fact["session_id"] for fact in facts)) == sessions
