# SPDX-License-Identifier: Apache-2.0
"""`explain`, `verify`, `validate` and `restore` through the real command line."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from sediment_otel.explanation import node_of
from sediment_otel.genai import Subject
from sediment_otel.otlp import decode_protobuf
from sediment_otel.overview import Overview
from sediment_otel.settings import Settings
from sediment_otel.telemetry import Span
from sediment_otel.traces import Walked
from sediment_otel.translate.call import Context, translate_subject
from sediment_otel.translate.select import Decision

TRACE = "0af7651916cd43dd8448eb211c80319c"
AGENT, WRAPPER, CALL, TOOL, STRANGE = (f"{digit}7ad6b7169203331" for digit in "abcde")
SECRET = "the words nobody may read"


def _run(*arguments: str, stdin: bytes = b"", environment: dict[str, str] | None = None) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "sediment_otel", *arguments],
        input=stdin,
        capture_output=True,
        timeout=120,
        env={**os.environ, "NO_PROXY": "*", "no_proxy": "*", **(environment or {})},
        check=False,
    )


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = {str: "stringValue", int: "intValue", bool: "boolValue"}
    return [{"key": key, "value": {kinds[type(value)]: value}} for key, value in values.items()]


def _span(span_id: str, parent: str | None, name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    times = {"startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000001000000000"}
    found = {"traceId": TRACE, "spanId": span_id, "name": name, **times, "attributes": _attributes(attributes)}
    return found if parent is None else {**found, "parentSpanId": parent}


def _otlp(spans: list[dict[str, Any]]) -> str:
    scope = {"name": "my.instrumentation", "version": "1.2"}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": scope, "spans": spans}]}]}) + "\n"


def _messages(role: str, *parts: dict[str, Any]) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": SECRET}, *parts]}])


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """An agent with a wrapped call, a tool, and a span that no dialect reads though it holds messages."""
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-x"}
    blob = {"type": "blob", "modality": "image", "content": "aGk="}
    full = {
        **chat,
        "gen_ai.response.model": "gpt-x-1",
        "gen_ai.system": "openai",
        "gen_ai.provider.name": "azure.ai.openai",
        "gen_ai.input.messages": _messages("user", blob),
        "gen_ai.output.messages": _messages("assistant"),
        "gen_ai.prompt": json.dumps([{"role": "user", "content": "older"}]),
    }
    spans = [
        _span(AGENT, None, "invoke_agent", {"gen_ai.operation.name": "invoke_agent", "session.id": "sess-1"}),
        _span(WRAPPER, AGENT, "chat outer", {**full, "session.id": "None"}),
        _span(CALL, WRAPPER, "chat inner", full),
        _span(TOOL, AGENT, "execute_tool", {"gen_ai.operation.name": "execute_tool"}),
        _span(
            STRANGE,
            AGENT,
            "complete",
            {"vendor.prompt": SECRET, "vendor.data": f'[{{"role": "user", "x": "{SECRET}"}}]'},
        ),
    ]
    path = tmp_path / "traces.jsonl"
    path.write_text(_otlp(spans), encoding="utf-8")
    return path


@pytest.fixture
def facts(traces: Path, tmp_path: Path) -> Path:
    path = tmp_path / "facts.jsonl"
    assert _run("convert", str(traces), "-o", str(path), "-q").returncode == 0
    return path


# -- explain -----------------------------------------------------------------------------------------------------


def test_explain_shows_every_span_in_its_tree_with_its_outcome(traces: Path) -> None:
    done = _run("explain", str(traces))
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    assert lines[0] == f"trace {TRACE}"
    assert [(line[: len(line) - len(line.lstrip())], line.split()[-1]) for line in lines[1:2]] == [
        ("  ", "invoke_agent")
    ]
    by_id = {
        next(word for word in line.split() if len(word) == 16 and word.endswith("331")): line for line in lines[1:6]
    }
    assert "skipped: wrapper" in by_id[WRAPPER]
    assert by_id[CALL].startswith("      chat inner")
    assert "fact" in by_id[CALL]
    assert "skipped: not_a_model_call" in by_id[STRANGE]
    assert b"5 spans, 1 fact" in done.stderr


def test_explain_says_why_for_one_span_without_a_word_of_its_content(traces: Path) -> None:
    done = _run("explain", str(traces), "--span", CALL[:5])
    text = " ".join(done.stdout.decode().split())
    assert done.returncode == 0
    assert f"around it {WRAPPER} chat outer: skipped: wrapper" in text
    assert f"ancestor {AGENT} session.id taken" in text
    assert "response_model gen_ai.response.model" in text
    assert "model_provider gen_ai.provider.name; also there: gen_ai.system" in text
    assert "input span attribute gen_ai.input.messages: 1 message, 2 parts" in text
    assert "input, passed over span attribute gen_ai.prompt: 1 message, 1 part" in text
    assert "unsupported_content /input_messages/0/parts/1: blob" in text
    assert SECRET.encode() not in done.stdout + done.stderr


def test_explain_names_the_session_that_was_passed_over(traces: Path) -> None:
    text = " ".join(_run("explain", str(traces), "--span", WRAPPER).stdout.decode().split())
    assert "span session.id passed over, holds no usable id" in text
    assert f"inside it {CALL} chat inner: became the fact" in text


def test_explain_points_at_what_looks_like_messages_where_no_dialect_reads(traces: Path) -> None:
    done = _run("explain", str(traces), "--span", STRANGE)
    text = " ".join(done.stdout.decode().split())
    assert f"span vendor.prompt text of {len(SECRET)} characters, by its name" in text
    assert "holds roles or content" in text
    assert "scope my.instrumentation 1.2" in text
    assert SECRET not in text


@pytest.mark.parametrize(("wanted", "told"), [("fff", "no span has the id"), ("", "needs an id")])
def test_explain_of_an_unknown_span_names_the_nearest_ids(traces: Path, wanted: str, told: str) -> None:
    done = _run("explain", str(traces), "--span", wanted)
    assert done.returncode == 2
    assert told in done.stderr.decode()


def test_explain_of_a_prefix_of_several_spans_lists_them(traces: Path, tmp_path: Path) -> None:
    again = tmp_path / "more.jsonl"
    again.write_text(_otlp([_span("a1" * 8, None, "x", {}), _span("a2" * 8, None, "y", {})]), encoding="utf-8")
    done = _run("explain", str(again), "--span", "a")
    assert done.returncode == 2
    assert f"{TRACE}:{'a2' * 8}" in done.stderr.decode()


def test_explain_never_lets_a_name_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(_otlp([_span(CALL, None, "\x1b[2Jname\nnext", {})]), encoding="utf-8")
    done = _run("explain", str(path))
    assert b"\x1b" not in done.stdout
    assert b"\\x1b[2Jname\\x0anext" in done.stdout


def test_explain_of_a_repeated_call_says_duplicate_and_conflict_as_a_sink_does(tmp_path: Path) -> None:
    chat = {"gen_ai.operation.name": "chat", "session.id": "s", "gen_ai.output.messages": _messages("assistant")}
    first, other = _span(CALL, None, "chat", chat), _span(CALL, None, "chat", {**chat, "user.id": "u"})
    path = tmp_path / "again.jsonl"
    path.write_text(_otlp([first]) + _otlp([first]) + _otlp([other]), encoding="utf-8")
    done = _run("explain", str(path))
    outcomes = [line.split("gen_ai", 1)[1].strip() for line in done.stdout.decode().splitlines()[1:4]]
    assert outcomes == ["fact", "skipped: duplicate", "skipped: conflict"]
    assert b"3 spans, 1 fact" in done.stderr
    one = _run("explain", str(path), "--span", CALL)
    assert b"The span stands 3 times in the input; this is the first." in one.stderr


def test_explain_names_a_few_of_the_many_spans_that_an_id_may_mean(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text(_otlp([_span(f"a{number:015x}", None, "x", {}) for number in range(40)]), encoding="utf-8")
    told = _run("explain", str(path), "--span", "a").stderr.decode().splitlines()
    assert "--span a names 40 spans" in told[0]
    assert told[1] == f"  {TRACE}:a{'0' * 15}"
    assert len(told) == 12
    assert told[-1] == "  and 30 more"


def test_explain_holds_no_more_of_many_spans_than_of_few() -> None:
    kept = []
    for number in (2_000, 20_000):
        tracemalloc.start()
        with closing(Overview(f"{number:016x}")) as seen:
            for ordinal in range(number):
                span = Span(
                    trace_id=f"{ordinal // 50:032x}", span_id=f"{ordinal:016x}", name="execute_tool", start_ns=1
                )
                subject = Subject(span)
                translation = translate_subject(subject, Settings(), Context(None, "", False))
                walked = Walked(subject, Decision(), translation)
                seen.add(node_of(ordinal, walked, Settings()), walked)
            seen.finish()
            assert seen.spans == number
            assert len(seen.trace(f"{7:032x}")) == 50
            assert sum(len(nodes) for _, nodes in seen.traces()) == number
        kept.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert kept[1] < kept[0] + (1 << 20)


# -- verify ------------------------------------------------------------------------------------------------------


def test_verify_finds_nothing_on_what_comes_back_whole(traces: Path) -> None:
    done = _run("verify", str(traces))
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"1 call verified with raw full and residual: all come back as they were" in done.stderr
    assert b"skipped 1 wrapper" in done.stderr


@pytest.mark.parametrize("plain", [False, True], ids=["a part is set aside", "nothing is set aside"])
def test_verify_tells_place_and_kind_of_what_differs(traces: Path, tmp_path: Path, plain: bool) -> None:
    """A restore that loses a part, put in from outside, must be seen, however the fact was made."""
    if plain:
        traces.write_text(
            traces.read_text(encoding="utf-8")
            .replace('\\"type\\": \\"blob\\"', '\\"type\\": \\"text\\"')
            .replace('\\"modality\\": \\"image\\", ', ""),
            encoding="utf-8",
        )
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import sys, json, msgspec\n"
        "import sediment_otel.translate.verify as v\n"
        "whole = v.restore\n"
        "def restore(fact):\n"
        "    span = whole(fact)\n"
        "    key = 'gen_ai.input.messages'\n"
        "    messages = json.loads(span.attributes[key]); messages[0]['parts'].pop()\n"
        "    return msgspec.structs.replace(span, attributes={**span.attributes, key: json.dumps(messages)})\n"
        "v.restore = restore\n"
        "from sediment_otel.cli import main\n"
        "sys.argv = ['sediment-otel', 'verify', sys.argv[1]]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, str(broken), str(traces)], capture_output=True, timeout=120, check=False)
    assert done.returncode == 3
    assert done.stdout.decode().splitlines() == [
        f"{TRACE}:{CALL} raw=full /input/0/parts/1 missing",
        f"{TRACE}:{CALL} raw=residual /input/0/parts/1 missing",
    ]
    assert b"1 differing" in done.stderr


def test_verify_of_what_is_no_telemetry_ends_with_3_and_of_what_is_not_there_with_1(tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("[1, 2]")
    assert _run("verify", str(tmp_path / "no.json")).returncode == 3
    assert _run("verify", str(tmp_path / "absent.json")).returncode == 1


# -- empty names and files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        *(("convert", option) for option in ("-o", "--report", "--blobs")),
        *(("normalize", option) for option in ("-o", "--report")),
        *(("restore", option) for option in ("-o", "--to", "--blobs")),
        *(("deliver", option) for option in ("--to", "--report")),
    ],
)
def test_an_empty_name_is_wrong_usage_of_the_option(command: str, option: str, blank: str, tmp_path: Path) -> None:
    more = ["--to", "sediment+http://127.0.0.1:1"] if command == "deliver" and option != "--to" else []
    done = _run(command, str(tmp_path / "any.jsonl"), option, blank, *more)
    told = " ".join(done.stderr.decode().replace("│", " ").split())
    assert done.returncode == 2
    assert "Invalid value for" in told
    assert option in told
    assert "the name is empty" in told


@pytest.mark.parametrize("command", ["validate", "restore"])
@pytest.mark.parametrize("content", [b"", b"\n\n", gzip.compress(b"")])
def test_a_file_without_facts_is_named(command: str, content: bytes, facts: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(content)
    for quiet in ([], ["-q"]):
        done = _run(command, str(empty), *quiet)
        assert done.returncode == 3
        assert done.stderr.decode().splitlines()[-1] == f"sediment-otel: no facts in {empty}"
    beside = _run(command, str(empty), str(facts))
    assert beside.returncode == 0
    assert f"no facts in {empty}" in beside.stderr.decode()
    assert _run(command, str(empty), str(facts), "-q").stderr == b""


@pytest.mark.parametrize("option", ["--content-location", "--session-attribute"])
def test_an_empty_value_allows_nothing_and_is_wrong_usage(option: str, traces: Path) -> None:
    done = _run("convert", str(traces), option, "")
    assert done.returncode == 2
    assert f"{option}: an empty value" in done.stderr.decode()


@pytest.mark.parametrize("command", ["convert", "normalize", "restore"])
def test_two_outputs_are_wrong_usage_since_only_one_is_written(command: str, traces: Path, tmp_path: Path) -> None:
    done = _run(command, str(traces), "-o", str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "b.jsonl"))
    assert done.returncode == 2
    assert "was given more than once" in done.stderr.decode()
    assert not (tmp_path / "a.jsonl").exists()
    assert not (tmp_path / "b.jsonl").exists()


@pytest.mark.parametrize("to", [(), ("--to", "scn")])
def test_restore_never_writes_over_its_facts(to: tuple[str, ...], facts: Path) -> None:
    before = facts.read_bytes()
    done = _run("restore", str(facts), *to, "-o", str(facts))
    assert done.returncode == 2
    assert f"{facts}: is an input, too" in done.stderr.decode()
    assert facts.read_bytes() == before


def test_an_output_that_is_a_directory_is_said_so(traces: Path, tmp_path: Path) -> None:
    done = _run("convert", str(traces), "-o", str(tmp_path))
    assert done.returncode == 2
    assert f"{tmp_path}: is a directory; name a file in it" in done.stderr.decode()


def test_a_span_id_that_is_no_text_is_one_that_no_span_has(traces: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sediment_otel", "explain", str(traces), "--span", b"\xff"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert b"no span has the id" in done.stderr


# -- inputs without telemetry ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["convert", "normalize", "explain", "verify"])
@pytest.mark.parametrize("quiet", [True, False])
def test_inputs_without_telemetry_are_named_where_none_has_any(command: str, quiet: bool, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"no-{number}.json").write_text('{"hello": 1}' if number else "[", encoding="utf-8")
    done = _run(command, str(tmp_path), *(["-q"] if quiet else []))
    told = done.stderr.decode()
    assert done.returncode == 3
    assert "o telemetry recognised in " in told
    names = ", ".join(str(tmp_path / f"no-{number}.json") for number in range(3))
    assert f"{names} and 2 more" in told
    if not quiet:
        assert f"unreadable: {tmp_path / 'no-0.json'}: byte 0: an array that is cut off" in told


@pytest.mark.parametrize("command", ["convert", "normalize", "explain", "verify"])
def test_inputs_without_telemetry_are_counted_and_named_beside_others(command: str, traces: Path) -> None:
    for name in ("config.json", "package.json"):
        (traces.parent / name).write_text('{"hello": 1}', encoding="utf-8")
    done = _run(command, str(traces.parent))
    assert done.returncode == 0
    names = ", ".join(str(traces.parent / name) for name in ("config.json", "package.json"))
    assert f"no telemetry in 2 of 3 inputs: {names}\n" in done.stderr.decode()
    assert "no telemetry" not in _run(command, str(traces)).stderr.decode()


# -- validate ----------------------------------------------------------------------------------------------------


def test_validate_accepts_what_convert_writes_from_file_and_pipe(facts: Path) -> None:
    done = _run("validate", str(facts))
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"1 fact: 0 invalid\n"
    assert _run("validate", "-", stdin=facts.read_bytes()).returncode == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"org_id": "Acme Inc"}, "org_id: must match"),
        ({"input_tokens": True}, "input_tokens: "),
        ({"session_id": "  "}, "session_id: must not be blank"),
        ({"observed_at": "today"}, "observed_at: must be an RFC 3339 instant"),
        ({"more": 1}, "more"),
        ({"output_messages": [{"role": "", "parts": [], "finish_reason": None}]}, "output_messages/0/role: must be"),
        ({"schema_version": None}, "schema_version"),
    ],
)
def test_validate_names_line_field_and_rule(facts: Path, tmp_path: Path, change: dict[str, Any], told: str) -> None:
    good = facts.read_text(encoding="utf-8")
    bad = {**json.loads(good), **change}
    path = tmp_path / "mixed.jsonl"
    path.write_text(good + json.dumps(bad) + "\n", encoding="utf-8")
    done = _run("validate", str(path))
    assert done.returncode == 3
    line = done.stdout.decode()
    assert line.startswith(f"{path}:2: ")
    assert told in line
    assert SECRET not in line


def test_validate_misses_a_version_that_is_not_there(facts: Path, tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text(facts.read_text(encoding="utf-8").replace('"schema_version":1,', "", 1), encoding="utf-8")
    assert _run("validate", str(path)).returncode == 3


def test_validate_tells_a_repeated_fact_from_a_conflict(facts: Path, tmp_path: Path) -> None:
    text = facts.read_text(encoding="utf-8")
    path = tmp_path / "twice.jsonl"
    path.write_text(text + text, encoding="utf-8")
    done = _run("validate", str(path))
    assert done.returncode == 0
    assert f"{path}:2: inference_call_id: duplicate: {path}:1 has the fact of this id" in done.stdout.decode()
    path.write_text(text + text.replace('"duration_ms":1000', '"duration_ms":1'), encoding="utf-8")
    done = _run("validate", str(path))
    assert done.returncode == 3
    assert "conflict" in done.stdout.decode()


def test_validate_of_a_file_that_is_not_there_ends_with_1_and_reads_the_rest(facts: Path, tmp_path: Path) -> None:
    done = _run("validate", str(tmp_path / "absent.jsonl"), str(facts))
    assert done.returncode == 1
    assert b"1 fact: 0 invalid" in done.stderr


# -- restore -----------------------------------------------------------------------------------------------------


def _without_raw(lines: bytes) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines.splitlines()]
    for fact in found:
        del fact["raw"]
    return found


@pytest.mark.parametrize("name", ["spans.jsonl", "spans.pb"])
def test_restored_files_convert_to_the_same_facts(facts: Path, tmp_path: Path, name: str) -> None:
    assert _run("restore", str(facts), "-o", str(tmp_path / name)).returncode == 0
    again = _run("convert", str(tmp_path / name), "-q").stdout
    assert _without_raw(again) == _without_raw(facts.read_bytes())


def test_restore_reads_a_store_and_writes_one_request_per_line(traces: Path, tmp_path: Path) -> None:
    _run("convert", str(traces), "-o", str(tmp_path / "facts.db"), "-q")
    done = _run("restore", str(tmp_path / "facts.db"))
    (line,) = done.stdout.splitlines()
    (span,) = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (span["traceId"], span["spanId"]) == (TRACE, CALL)
    assert done.stderr == b"1 span to standard output\n"


def test_a_fact_that_cannot_be_restored_costs_only_itself(facts: Path, tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'{"schema_version":1}\n' + facts.read_bytes())
    done = _run("restore", str(path))
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    assert f"{path}:1: fact: " in done.stderr.decode()
    path.write_bytes(b"nothing\n")
    assert _run("restore", str(path)).returncode == 3


def test_an_existing_file_stays_as_it_is_where_facts_cannot_be_read(tmp_path: Path) -> None:
    assert _run("restore", str(tmp_path / "absent"), "-o", str(tmp_path / "no" / "out.jsonl")).returncode == 1


class _Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.requests.append((self.path, dict(self.headers), body))
        status = server.answers.pop(0) if server.answers else 200
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextmanager
def _collector(*answers: int) -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), _Collector)
    server.requests, server.answers = [], list(answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_restore_sends_otlp_over_http_with_headers_and_tries_again_when_asked(facts: Path) -> None:
    with _collector(503, 200) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        done = _run("restore", str(facts), "--to", address, environment={"OTEL_EXPORTER_OTLP_HEADERS": "x-key=abc"})
    assert done.returncode == 0
    assert done.stderr.decode() == f"1 span to {address}/v1/traces\n"
    assert [path for path, _, _ in server.requests] == ["/v1/traces", "/v1/traces"]
    _, headers, body = server.requests[1]
    assert {name.lower(): value for name, value in headers.items()}["x-key"] == "abc"
    assert headers["Content-Type"] == "application/x-protobuf"
    (span,) = decode_protobuf(gzip.decompress(body)).items
    assert span.span_id == CALL  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("status", "way_out"), [(401, "OTEL_EXPORTER_OTLP_HEADERS"), (404, "/v1/traces"), (307, "307")]
)
def test_restore_says_what_a_server_refused(facts: Path, status: int, way_out: str) -> None:
    with _collector(status) as server:
        done = _run("restore", str(facts), "--to", f"http://127.0.0.1:{server.server_port}/custom?token=hush")
    assert done.returncode == 1
    assert len(server.requests) == 1
    text = done.stderr.decode()
    assert str(status) in text
    assert way_out in text
    assert "hush" not in text


@pytest.mark.parametrize("wrong", [["--to", "ftp://x"], ["--to", "http://x", "-o", "f.pb"]])
def test_restore_with_a_wrong_target_is_wrong_usage(facts: Path, wrong: list[str]) -> None:
    assert _run("restore", str(facts), *wrong).returncode == 2


@pytest.mark.parametrize("command", ["explain", "verify", "validate", "restore"])
def test_help_has_examples_and_exit_codes(command: str) -> None:
    text = _run(command, "--help").stdout.decode()
    assert "Examples" in text
    assert "Exit codes: 0" in text
    assert _run(command).returncode == 2
