# SPDX-License-Identifier: Apache-2.0
"""docs/sidecar.md: its `curl` produces a fact, its settings and metrics are the real ones, its links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from sidecar_kit import Sidecar

from sediment_otel.sidecar.config import ServeConfig
from sediment_otel.sidecar.metrics import FAMILIES

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "sidecar.md").read_text()


def block(language: str, word: str) -> str:
    """The code block of that language with the word in it."""
    (found,) = [text for text in re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL) if word in text]
    return str(found)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_curl_in_the_documentation_produces_a_fact(tmp_path: Path) -> None:
    (command,) = re.findall(r"^curl .*?(?=\n\n|\Z)", block("sh", "curl -sS"), re.DOTALL | re.MULTILINE)
    with Sidecar(tmp_path / "data") as sidecar:
        words = shlex.split(command.replace("127.0.0.1:4318", sidecar.addresses["http"]).replace("\\\n", " "))
        reply = subprocess.run(words, check=True, capture_output=True, timeout=30).stdout
        assert json.loads(reply) == {}
        sidecar.settled()
        (fact,) = map(json.loads, sidecar.facts())
    assert fact["session_id"] == "demo-session"
    assert fact["output_messages"][0]["parts"][0]["content"]


def test_the_collector_snippet_is_yaml_with_a_filter_and_a_size() -> None:
    config = yaml.safe_load(block("yaml", "max_recv_msg_size_mib"))
    assert config["receivers"]["otlp"]["protocols"]["grpc"]["max_recv_msg_size_mib"] == 64
    assert "traces/sediment" in config["service"]["pipelines"]


def test_every_setting_is_described() -> None:
    for name in ServeConfig.__dataclass_fields__:
        assert f"`{name}`" in TEXT, name


def test_every_metric_is_described() -> None:
    for name in FAMILIES:
        assert f"`sediment_otel_{name}`" in TEXT, name
    for name in re.findall(r"`sediment_otel_(\w+)`", TEXT):
        assert name in FAMILIES, name


def test_links_to_files_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", TEXT):
        assert (ROOT / "docs" / target).exists(), target
