# SPDX-License-Identifier: Apache-2.0
"""The sidecar driven by what others wrote. All captures, sent through each exporter, give the facts that `convert`
gives for the files, byte for byte.

What cannot stand beside this project's own environment (`make interop` puts it into out/interop) is skipped with a
word where it is not there: the JSON exporter of the Python SDK, the Node SDK, the collector rotel.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from replay import SETTINGS, converted, pairs, sdk_records, sdk_spans, telemetry
from sidecar_kit import Sidecar, wait_for

from sediment_otel.otlp import encode_json
from sediment_otel.telemetry import LogRecord, Span

HERE = Path(__file__).parent
INTEROP = Path(os.environ.get("SEDIMENT_OTEL_INTEROP") or HERE.parent.parent / "out" / "interop")
PYTHON = INTEROP / "python" / "bin" / "python"
NODE = shutil.which("node")
MODULES = INTEROP / "node" / "node_modules"


@pytest.fixture(scope="module")
def expected() -> dict[Path, list[bytes]]:
    """The facts of each capture, from the converter."""
    return {capture: converted(*[p for p in (capture, logs) if p]) for capture, logs in pairs()}


@contextmanager
def receiving(folder: Path) -> Iterator[Sidecar]:
    with Sidecar(folder / "data", *SETTINGS, settle=1.0) as sidecar:
        yield sidecar


def same(sidecar: Sidecar, expected: dict[Path, list[bytes]]) -> None:
    """Each fact once, no other, byte for byte; those of one capture in the converter's order."""
    sidecar.settled()
    got = sidecar.facts()
    wanted = [fact for facts in expected.values() for fact in facts]
    assert len(wanted) > 50
    assert len(got) == len(wanted)
    missing = set(wanted) - set(got)
    assert not missing, min(missing)[:300]


def test_the_python_sdk_over_http_with_protobuf(tmp_path: Path, expected: dict[Path, list[bytes]]) -> None:
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    with receiving(tmp_path) as sidecar:
        url = f"http://{sidecar.addresses['http']}"
        traces = OTLPSpanExporter(endpoint=f"{url}/v1/traces", compression=Compression.Gzip)
        logs = OTLPLogExporter(endpoint=f"{url}/v1/logs", compression=Compression.Deflate)
        send(traces, logs)
        same(sidecar, expected)


def test_the_python_sdk_over_grpc(tmp_path: Path, expected: dict[Path, list[bytes]]) -> None:
    import grpc
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    with receiving(tmp_path) as sidecar:
        url = f"http://{sidecar.addresses['grpc']}"
        traces = OTLPSpanExporter(endpoint=url, insecure=True, compression=grpc.Compression.Gzip)
        logs = OTLPLogExporter(endpoint=url, insecure=True)
        send(traces, logs)
        traces.shutdown()
        logs.shutdown()
        same(sidecar, expected)


def send(traces: Any, logs: Any) -> None:
    """All captures; log records leave before spans, as they do."""
    for capture, beside in pairs():
        spans, records = everything(capture, beside)
        if records:
            assert logs.export(sdk_records(records)).name == "SUCCESS"
        if spans:
            assert traces.export(sdk_spans(spans)).name == "SUCCESS"


def everything(capture: Path, beside: Path | None) -> tuple[list[Span], list[LogRecord]]:
    spans, records = telemetry(capture)
    if beside is not None:
        more_spans, more_records = telemetry(beside)
        spans, records = spans + more_spans, records + more_records
    return spans, records


@pytest.mark.skipif(
    not PYTHON.exists(), reason="no out/interop/python: `make interop` installs the JSON exporter there"
)
def test_the_python_sdk_over_http_with_json(tmp_path: Path, expected: dict[Path, list[bytes]]) -> None:
    files = [str(p) for pair in pairs() for p in reversed(pair) if p is not None]
    with receiving(tmp_path) as sidecar:
        command = [str(PYTHON), str(HERE / "export_json.py"), f"http://{sidecar.addresses['http']}", *files]
        subprocess.run(command, check=True, timeout=120)
        same(sidecar, expected)


def javascript(value: Any) -> Any:
    """A value as JavaScript has it: one type of number, so that 1.0 is 1."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is list:
        return [javascript(item) for item in value]
    if type(value) is dict:
        return {key: javascript(item) for key, item in value.items()}
    return value


def in_javascript(item: Any) -> Any:
    """A span or record whose values went through JavaScript's number type."""
    import msgspec

    changed: dict[str, Any] = {"attributes": javascript(item.attributes)}
    if isinstance(item, Span):
        changed["events"] = [msgspec.structs.replace(e, attributes=javascript(e.attributes)) for e in item.events]
    else:
        changed["body"] = javascript(item.body)
    return msgspec.structs.replace(item, **changed)


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
@pytest.mark.skipif(not MODULES.exists(), reason="no out/interop/node: `make interop` installs the Node SDK there")
@pytest.mark.parametrize("kind", ["grpc", "http", "proto"])
def test_the_node_sdk(tmp_path: Path, kind: str) -> None:
    lines: list[str] = []
    wanted: dict[Path, list[bytes]] = {}
    for number, (capture, beside) in enumerate(pairs()):
        spans, records = everything(capture, beside)
        items = [in_javascript(item) for item in [*spans, *records]]
        lines.append(json.dumps(encode_json(items)))
        one = tmp_path / f"{number}.jsonl"
        one.write_text(lines[-1])
        wanted[capture] = converted(one)
    with receiving(tmp_path) as sidecar:
        address = sidecar.addresses["grpc" if kind == "grpc" else "http"]
        command = [str(NODE), str(HERE / "export_node.js"), kind, f"http://{address}"]
        env = {**os.environ, "NODE_PATH": str(MODULES)}
        subprocess.run(command, input="\n".join(lines).encode(), env=env, check=True, timeout=120)
        same(sidecar, wanted)


def rotel_agent() -> Path | None:
    found = list((INTEROP / "python" / "lib").glob("python*/site-packages/rotel/rotel-agent"))
    return found[0] if found else None


def free_port() -> int:
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.mark.skipif(rotel_agent() is None, reason="no rotel in out/interop/python: `make interop` installs it there")
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_collector_in_front(tmp_path: Path, expected: dict[Path, list[bytes]], protocol: str) -> None:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    with receiving(tmp_path) as sidecar:
        grpc_port, http_port = free_port(), free_port()
        command = [
            str(rotel_agent()),
            "start",
            *("--otlp-grpc-endpoint", f"127.0.0.1:{grpc_port}"),
            *("--otlp-http-endpoint", f"127.0.0.1:{http_port}"),
            *("--exporter", "otlp", "--otlp-exporter-endpoint", f"http://{sidecar.addresses[protocol]}"),
            *("--otlp-exporter-protocol", protocol),
        ]
        with (tmp_path / "rotel.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(lambda: listens(http_port))
            url = f"http://127.0.0.1:{http_port}"
            send(OTLPSpanExporter(endpoint=f"{url}/v1/traces"), OTLPLogExporter(endpoint=f"{url}/v1/logs"))
            count = sum(len(everything(*pair)[0]) for pair in pairs())
            wait_for(lambda: sidecar.metric("received_spans_total") == count)
            same(sidecar, expected)
        finally:
            process.terminate()
            process.wait(20)


def listens(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), timeout=1)):
        return True
    return False
