# SPDX-License-Identifier: Apache-2.0
"""The same span gives the same bytes in every process, however it hashes text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import json, sys
from sediment_otel.settings import Settings
from sediment_otel.telemetry import Span
from sediment_otel.translate.call import translate
text = [{"type": "text", "content": "x"}]
attributes = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "session.id": "s",
    "user.email": "a@b.example",
    "user.account_id": "1",
    "gen_ai.system_instructions": json.dumps(text),
    "gen_ai.input.messages": json.dumps([{"role": "user", "parts": text}]),
    "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": text}]),
}
for raw in ("full", "residual"):
    span = Span(trace_id="1" * 32, span_id="2" * 16, start_ns=1, end_ns=2, attributes=attributes)
    sys.stdout.buffer.write(translate(span, Settings(raw=raw)).encoded + b"\\n")
"""


def test_the_bytes_of_a_fact_do_not_depend_on_the_hash_seed() -> None:
    source = str(Path(__file__).resolve().parents[2] / "src")
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": source},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(1, 7)
    }
    assert len(found) == 1
    assert found.pop().count(b"\n") == 2
