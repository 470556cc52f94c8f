# SPDX-License-Identifier: Apache-2.0
"""The three lines of the README: OTLP into the sidecar, rows in a running Sediment, also while that one is away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import rig

SECONDS = 60


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError):
            if true():
                return
        time.sleep(0.1)
    raise AssertionError(f"not within {SECONDS} s: {what}")


@contextmanager
def serving(sediment: rig.Sediment, folder: Path) -> Iterator[str]:
    port = rig.free_port()
    command = [sys.executable, "-m", "sediment_otel", "serve", "--data", str(folder), "--org", rig.ORG]
    command += ["--http", f"127.0.0.1:{port}", "--grpc", "off", "--settle", "0.3", "-o", sediment.sink]
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(rig.ROOT / "src"), "SEDIMENT_OTEL_TOKEN": sediment.token},
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: urllib.request.urlopen(f"{url}/readyz", timeout=5).status == 200, "the sidecar is ready")
        yield url
    finally:
        process.terminate()
        process.wait(60)


def send(url: str, number: int) -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "session.id": "from-a-collector",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "q"}]}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "a"}]}]),
    }
    span = {
        "traceId": f"{number + 1:032x}",
        "spanId": f"{number + 1:016x}",
        "name": "chat m",
        "startTimeUnixNano": "1767225600000000000",
        "endTimeUnixNano": "1767225601000000000",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    request = urllib.request.Request(f"{url}/v1/traces", data=body, headers={"Content-Type": "application/json"})
    assert urllib.request.urlopen(request, timeout=10).status == 200


def test_what_a_collector_sends_becomes_rows_in_sediment(sediment: rig.Sediment, tmp_path: Path) -> None:
    with serving(sediment, tmp_path / "sidecar") as url:
        for number in range(5):
            send(url, number)
        until(lambda: sediment.core("count") == 5, "five rows are there")
        sediment.kill()
        for number in range(5, 8):
            send(url, number)
        metrics = f"{url}/metrics"
        until(lambda: b"delivery_failures_total" in urllib.request.urlopen(metrics).read(), "an attempt has failed")
        sediment.start()
        until(lambda: sediment.core("count") == 8, "what came meanwhile is there, too")
    assert {call["session_id"] for call in sediment.core("read")} == {"from-a-collector"}
