# SPDX-License-Identifier: Apache-2.0
"""Converting a large file takes no more memory than a small one would need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "wait4"), reason="peak memory of a child comes from wait4")

MEGABYTES = 200
MOST_MB = 300
#: The child is started by a small process: the peak that wait4 tells begins with that of the process that forks.
START = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(child.pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss // (1024 if sys.platform != "darwin" else 1 << 20))
"""


def span(number: int, content: str) -> dict[str, object]:
    said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": content}]}])
    attributes = {"gen_ai.operation.name": "chat", "session.id": f"s{number % 100}", "gen_ai.output.messages": said}
    return {
        "traceId": f"{number // 50 + 1:032x}",
        "spanId": f"{number + 1:016x}",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 MB of lines of 50 spans, with a line now and then that cannot be read."""
    path = tmp_path_factory.mktemp("large") / "large.jsonl"
    content = "x" * 2_000
    number = 0
    with path.open("wb") as file:
        while file.tell() < MEGABYTES << 20:
            spans = [span(number + index, content) for index in range(50)]
            number += 50
            file.write(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode() + b"\n")
            if number % 5_000 == 0:
                file.write(b'{"resourceSpans": [{"scope\n')
    return path


def peak(*arguments: str | Path) -> int:
    command = [sys.executable, "-c", START, sys.executable, "-m", "sediment_otel", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=True)
    code, megabytes = map(int, done.stdout.split())
    assert code == 0, done.stderr
    return megabytes


@pytest.mark.parametrize("workers", ["1", "2"])
def test_200_megabytes_are_converted_in_flat_memory(workers: str, large: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.jsonl"
    used = peak("convert", large, "-o", facts, "--report", tmp_path / "report.json", "--workers", workers)
    spans = large.read_bytes().count(b'"spanId"')
    with facts.open("rb") as file:
        assert sum(1 for _ in file) == spans
    assert used < MOST_MB
