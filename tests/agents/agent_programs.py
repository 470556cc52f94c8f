# SPDX-License-Identifier: Apache-2.0
"""How each coding agent is run without a terminal against the model server of the tests, telemetry on.

`PROGRAMS` is a table; versions stand in `requirements/agents.txt`. In all texts of a row `{model}` is the model
server's address, `{otlp}` the receiver's, `{root}` the folder that the run has to itself (with `home` and `project`
in it) and `{prompt}` what the agent is asked: to use its own tool for reading (or a shell) on `project/note.txt`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "requirements" / "agents.txt"
NOTE = "the file says hello\n"

_GEMINI_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "telemetry": {"enabled": True, "target": "local", "outfile": "{root}/outfile.json", "logPrompts": True}
    | {"useCollector": False, "traces": True},
    "general": {"checkForUpdates": False},
    "privacy": {"usageStatisticsEnabled": False},
}
_OPENCODE_SETTINGS = {
    "experimental": {"openTelemetry": True},
    "autoupdate": False,
    "share": "disabled",
    "model": "fake/fake-1",
    "small_model": "fake/fake-1",
    "provider": {
        "fake": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Fake",
            "options": {"baseURL": "{model}/v1", "apiKey": "x"},
            "models": {"fake-1": {"name": "Fake 1"}},
        }
    },
}
_CODEX_SETTINGS = """\
model = "gpt-5-codex"
model_provider = "fake"
[model_providers.fake]
name = "Fake"
base_url = "{model}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
[otel]
environment = "test"
log_user_prompt = true
log_agent_responses = true
exporter = { otlp-http = { endpoint = "{otlp}/v1/logs", protocol = "json" } }
trace_exporter = { otlp-http = { endpoint = "{otlp}/v1/traces", protocol = "json" } }
"""


@dataclass(frozen=True, kw_only=True)
class Program:
    """One agent: its command, its settings, and where it says which session it was in."""

    command: tuple[str, ...]
    tool: str
    arguments: dict[str, str]
    #: Finds the session in what the program prints.
    session: str
    environment: dict[str, str] = field(default_factory=dict)
    #: Settings files, by path below the run's folder.
    files: dict[str, str] = field(default_factory=dict)
    #: What is kept of what comes by OTLP.
    signals: tuple[str, ...] = ("traces", "logs")

    @property
    def prompt(self) -> str:
        return f"use {self.tool} {json.dumps(self.arguments, separators=(',', ':'))}"


PROGRAMS: dict[str, Program] = {
    "claude_code": Program(
        command=("claude", "-p", "{prompt}", "--model", "claude-sonnet-4-5", "--output-format", "json"),
        tool="Read",
        arguments={"file_path": "{root}/project/note.txt"},
        session=r'"session_id":"([^"]+)"',
        environment={
            "ANTHROPIC_BASE_URL": "{model}",
            "ANTHROPIC_API_KEY": "x",
            "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
            "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "OTEL_LOGS_EXPORTER": "otlp",
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "{otlp}",
            "OTEL_LOG_USER_PROMPTS": "1",
            "OTEL_LOG_TOOL_DETAILS": "1",
            "OTEL_LOG_RAW_API_BODIES": "file:{root}/bodies",
        },
    ),
    "codex": Program(
        command=(
            "codex",
            "exec",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "{prompt}",
        ),
        tool="exec_command",
        arguments={"cmd": "cat note.txt"},
        session=r"session id: (\S+)",
        environment={"FAKE_KEY": "x"},
        files={"home/.codex/config.toml": _CODEX_SETTINGS},
    ),
    "copilot": Program(
        command=("copilot", "-p", "{prompt}", "--allow-all-tools", "--no-color"),
        tool="view",
        arguments={"path": "{root}/project/note.txt"},
        session=r"--resume=(\S+)",
        environment={
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": "{model}/v1",
            "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_MODEL": "gpt-4.1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "{otlp}",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
        },
    ),
    "gemini_cli": Program(
        command=("gemini", "--skip-trust", "-m", "gemini-2.5-pro", "-y", "-o", "json", "-p", "{prompt}"),
        tool="read_file",
        arguments={"file_path": "note.txt"},
        session=r'"session_id": "([^"]+)"',
        environment={"GOOGLE_GEMINI_BASE_URL": "{model}", "GEMINI_API_KEY": "x"},
        files={"home/.gemini/settings.json": json.dumps(_GEMINI_SETTINGS)},
    ),
    "opencode": Program(
        command=("opencode", "run", "--format", "json", "use", "{tool}", "{arguments}"),
        tool="read",
        arguments={"filePath": "{root}/project/note.txt"},
        session=r'"sessionID":"([^"]+)"',
        environment={
            "OTEL_EXPORTER_OTLP_ENDPOINT": "{otlp}",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
        },
        files={"project/opencode.json": json.dumps(_OPENCODE_SETTINGS)},
        signals=("traces",),
    ),
    "qwen_code": Program(
        command=("qwen", "--auth-type", "openai", "-y", "-o", "json", "-p", "{prompt}"),
        tool="read_file",
        arguments={"file_path": "{root}/project/note.txt"},
        session=r'"session_id":"([^"]+)"',
        environment={
            "OPENAI_API_KEY": "x",
            "OPENAI_BASE_URL": "{model}/v1",
            "OPENAI_MODEL": "qwen3-coder-plus",
            "QWEN_TELEMETRY_ENABLED": "true",
            "QWEN_TELEMETRY_TARGET": "local",
            "QWEN_TELEMETRY_OTLP_ENDPOINT": "{otlp}",
            "QWEN_TELEMETRY_OTLP_PROTOCOL": "http",
            "QWEN_TELEMETRY_LOG_PROMPTS": "true",
            "QWEN_TELEMETRY_INCLUDE_SENSITIVE_SPAN_ATTRIBUTES": "true",
        },
    ),
}


def pins() -> dict[str, tuple[str, str]]:
    """Program → its npm package and version."""
    rows = [line.split() for line in PINS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {name: (package, version) for name, package, version in rows}
