# SPDX-License-Identifier: Apache-2.0
"""`normalize` through the real command line: a capture of any dialect in, spans of the current conventions out."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from sediment_otel.otlp import decode_json, decode_protobuf
from sediment_otel.telemetry import Span

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
OPENINFERENCE = CAPTURES / "openinference_openai.json"
SECRET = "sk-" + "0123456789abcdef0123"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def _run(*arguments: object, environment: dict[str, str] | None = None) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "sediment_otel", *map(str, arguments)],
        capture_output=True,
        timeout=120,
        env={**os.environ, "NO_PROXY": "*", "no_proxy": "*", **(environment or {})},
        check=False,
    )


def _facts(path: Path, *options: str) -> list[dict[str, Any]]:
    """The facts of a file, without what they keep of the trace; each message as it was."""
    done = _run("convert", path, "-q", *options)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for fact in found:
        del fact["raw"]
    return found


def _spans(lines: bytes) -> list[Span]:
    found = [item for line in lines.splitlines() for item in decode_json(line).items]
    assert all(isinstance(item, Span) for item in found)
    return found  # type: ignore[return-value]


def _write(path: Path, *spans: dict[str, Any]) -> Path:
    def typed(value: Any) -> dict[str, Any]:
        return {"intValue" if isinstance(value, int) else "stringValue": value}

    written = [
        {
            "traceId": TRACE,
            "spanId": f"{number:016x}",
            "name": "s",
            "startTimeUnixNano": "1700000000000000000",
            "endTimeUnixNano": "1700000001000000000",
            "attributes": [{"key": key, "value": typed(value)} for key, value in span.items()],
        }
        for number, span in enumerate(spans, 1)
    ]
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": written}]}]}) + "\n", encoding="utf-8")
    return path


def _call(answer: str, **more: Any) -> dict[str, Any]:
    return {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-x",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "hi",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": answer,
        **more,
    }


@pytest.mark.parametrize(
    "capture",
    ["openinference_openai.json", "openllmetry-0.62.4.console.json", "ai-sdk-7.0.173-otel-1.0.173.js.jsonl"],
)
@pytest.mark.parametrize(
    "name", ["spans.jsonl", "spans.jsonl.gz", "spans.pb", "s.pb.gz", "s.pb.zst", "s.json", "s.json.gz", "s.json.zst"]
)
def test_normalised_spans_convert_to_the_facts_of_the_capture(capture: str, name: str, tmp_path: Path) -> None:
    out = tmp_path / name
    assert _run("normalize", CAPTURES / capture, "-o", out, "-q").returncode == 0
    original = _facts(CAPTURES / capture, "--session-id", "s")
    assert original
    assert _facts(out, "--session-id", "s") == original


def test_every_span_is_in_the_current_conventions_and_has_no_session_that_nobody_gave() -> None:
    done = _run("normalize", OPENINFERENCE)
    spans = _spans(done.stdout)
    assert done.returncode == 0
    assert len(spans) == 10
    for span in spans:
        assert span.attributes["gen_ai.operation.name"] == "chat"
        assert {"role", "parts"} <= set(json.loads(span.attributes["gen_ai.input.messages"])[0])
        assert not any(key.startswith(("llm.input_messages", "llm.output_messages")) for key in span.attributes)
        assert "session.id" not in span.attributes
    assert b"no-session" not in done.stdout
    assert done.stderr.decode().splitlines()[0].startswith("10 spans from 13 spans to standard output: gpt-x")


def test_other_spans_are_left_out_and_counted(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.json", _call("hello"), {"db.system": "sqlite"}, {"openinference.span.kind": "TOOL"})
    done = _run("normalize", path)
    (span,) = _spans(done.stdout)
    assert (span.trace_id, span.span_id) == (TRACE, f"{1:016x}")
    assert "1 span from 3 spans" in done.stderr.decode()
    assert "skipped 2 not_a_model_call" in done.stderr.decode()


def test_a_session_of_the_trace_stays_and_a_given_one_is_put_on_the_others(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.json", _call("one", **{"session.id": "own"}), _call("two"))
    assert [span.attributes.get("session.id") for span in _spans(_run("normalize", path).stdout)] == ["own", None]
    given = _run("normalize", path, "--session-id", "given")
    assert [span.attributes["session.id"] for span in _spans(given.stdout)] == ["own", "given"]


def test_spans_are_redacted_wherever_the_secret_stands(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.json", _call(f"use {SECRET} for it", note=f"Bearer {SECRET}"))
    done = _run("normalize", path, environment={"SEDIMENT_OTEL_RAW": "residual"})
    (span,) = _spans(done.stdout)
    assert "for it" in span.attributes["gen_ai.output.messages"]
    assert "note" in span.attributes
    assert SECRET.encode() not in done.stdout + done.stderr


def test_a_call_that_stands_in_the_input_twice_comes_out_once(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.json", _call("hello"))
    path.write_bytes(path.read_bytes() * 2)
    done = _run("normalize", path)
    assert len(_spans(done.stdout)) == 1
    assert "skipped 1 duplicate" in done.stderr.decode()


def test_workers_give_the_same_spans() -> None:
    assert _run("normalize", OPENINFERENCE, "--workers", "2").stdout == _run("normalize", OPENINFERENCE).stdout


class _Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        server.requests.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def collector() -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), _Collector)
    server.requests, server.status = [], 200
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("prefix", ["", "otlp+"])
def test_an_address_gets_the_spans_over_http(collector: Any, prefix: str) -> None:
    address = f"{prefix}http://127.0.0.1:{collector.server_port}"
    done = _run("normalize", OPENINFERENCE, "-o", f"{address}?key=hush")
    assert done.returncode == 0
    ((path, body),) = collector.requests
    assert path == "/v1/traces?key=hush"
    assert list(decode_protobuf(gzip.decompress(body)).items) == _spans(_run("normalize", OPENINFERENCE).stdout)
    assert f"to {address}" in done.stderr.decode()
    assert b"hush" not in done.stderr


def test_convert_takes_the_sink_too(collector: Any) -> None:
    done = _run("convert", OPENINFERENCE, "--session-id", "s", "-o", f"otlp+http://127.0.0.1:{collector.server_port}")
    assert done.returncode == 0
    ((_, body),) = collector.requests
    spans = decode_protobuf(gzip.decompress(body)).items
    assert [span.attributes["session.id"] for span in spans] == ["s"] * 10  # type: ignore[union-attr]


@pytest.mark.parametrize(("status", "told"), [(400, "10 refused: answered 400"), (404, "/v1/traces")])
def test_spans_that_a_server_does_not_take_end_with_1(collector: Any, status: int, told: str) -> None:
    collector.status = status
    done = _run("normalize", OPENINFERENCE, "-o", f"http://127.0.0.1:{collector.server_port}")
    assert done.returncode == 1
    assert told in done.stderr.decode()


@pytest.mark.parametrize("name", ["s.pb.gz", "s.PB.zst", "s.jsonl.gz", "s.json.zst", "s.txt.gz"])
def test_restore_packs_where_the_name_says_so(name: str, tmp_path: Path) -> None:
    facts, out = tmp_path / "facts.jsonl", tmp_path / name
    assert _run("convert", _write(tmp_path / "t.jsonl", _call("a")), "--session-id", "s", "-o", facts).returncode == 0
    assert _run("restore", facts, "-o", out).returncode == 0
    assert out.read_bytes()[:2] in (b"\x1f\x8b", b"\x28\xb5")
    assert [fact["output_messages"] for fact in _facts(out)] == [
        fact["output_messages"] for fact in _facts(facts.parent / "t.jsonl", "--session-id", "s")
    ]
    assert _run("restore", facts, "--to", "scn", "-o", out).returncode == 0
    assert out.read_bytes()[:2] in (b"\x1f\x8b", b"\x28\xb5")


@pytest.mark.parametrize("out", ["spans.pb.bz2", "s.json.lz4"])
def test_a_way_of_packing_that_is_not_known_is_answered_with_those_that_are(out: str, tmp_path: Path) -> None:
    done = _run("normalize", _write(tmp_path / "t.jsonl", _call("a")), "-o", tmp_path / out)
    assert done.returncode == 2
    assert b"FILE.pb, each with .gz or .zst" in done.stderr


@pytest.mark.parametrize("out", ["spans.xyz", "facts.db", "http://", "http://u:pw@h", "ftp://h/spans.txt"])
def test_a_place_that_takes_no_spans_is_wrong_usage(out: str, tmp_path: Path) -> None:
    done = _run("normalize", OPENINFERENCE, "-o", out if "://" in out else tmp_path / out)
    assert done.returncode == 2
    assert b"pw" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_input_is_never_the_output(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.jsonl", _call("hello"))
    before = path.read_bytes()
    assert _run("normalize", path, "-o", path).returncode == 2
    assert path.read_bytes() == before


def test_strict_fails_on_a_call_that_is_left_out_but_not_on_one_without_session(tmp_path: Path) -> None:
    whole = _write(tmp_path / "whole.json", _call("hello"))
    assert _run("normalize", whole, "--strict").returncode == 0
    empty = _write(tmp_path / "empty.json", {"openinference.span.kind": "LLM", "llm.model_name": "gpt-x"})
    assert _run("normalize", empty, "--strict").returncode == 3


def test_what_is_no_telemetry_ends_with_3_and_what_is_not_there_with_1(tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("[1, 2]")
    assert _run("normalize", tmp_path / "no.json").returncode == 3
    assert _run("normalize", tmp_path / "absent.json").returncode == 1


def test_help_of_normalize_has_examples_and_exit_codes() -> None:
    text = _run("normalize", "--help").stdout.decode()
    assert "Examples" in text
    assert "Exit codes: 0" in text
    assert _run("normalize").returncode == 2
