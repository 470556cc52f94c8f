# SPDX-License-Identifier: Apache-2.0
"""The commands at the edges of a process: signals, closed and full streams, outputs that are inputs or devices."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

CLI = (sys.executable, "-c", "from sediment_otel.cli import main; main()")
PARTS = '[{"role":"assistant","parts":[{"type":"text","content":"zanzibar"}]}]'
needs_posix = pytest.mark.skipif(os.name != "posix", reason="signals and devices of POSIX")


def line(number: int) -> bytes:
    attributes = {"gen_ai.operation.name": "chat", "session.id": "s", "gen_ai.output.messages": PARTS}
    span = {
        "traceId": f"{number + 1:032x}",
        "spanId": f"{number + 1:016x}",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode() + b"\n"


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "traces.jsonl"
    path.parent.mkdir()
    path.write_bytes(b"".join(map(line, range(3))))
    return path


def shell(command: str, *arguments: Any, redirect: str = "") -> subprocess.CompletedProcess[str]:
    text = " ".join(map(shlex.quote, (*CLI, command, *map(str, arguments)))) + " " + redirect
    return subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=60, check=False)


# -- streams ------------------------------------------------------------------------------------------------------


@needs_posix
@pytest.mark.parametrize("redirect", [">&-", ">/dev/full"])
@pytest.mark.parametrize("command", ["convert", "explain", "--help"])
def test_a_standard_output_that_takes_nothing_is_said(command: str, redirect: str, traces: Path) -> None:
    if redirect == ">/dev/full" and not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full here")
    done = shell(command, *([] if command == "--help" else [traces]), redirect=redirect)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("sediment-otel: standard output: ")
    assert done.stderr.count("sediment-otel: ") == 1
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr


@needs_posix
def test_closed_streams_take_no_file_of_the_run_for_their_own(traces: Path, tmp_path: Path) -> None:
    facts, report = tmp_path / "facts.jsonl", tmp_path / "report.json"
    done = shell("convert", traces, "-o", facts, "--report", report, redirect="<&- >&- 2>&-")
    assert done.returncode == 0
    assert len(facts.read_bytes().splitlines()) == 3
    assert all(json.loads(fact)["schema_version"] == 1 for fact in facts.read_bytes().splitlines())
    assert json.loads(report.read_bytes())["facts"] == 3


@needs_posix
def test_a_closed_standard_input_is_an_empty_one() -> None:
    assert shell("convert", "-", redirect="<&-").returncode == 3


# -- outputs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--out", "--report"])
def test_an_output_that_is_an_input_is_refused_and_the_input_stays(option: str, traces: Path) -> None:
    before = traces.read_bytes()
    done = shell("convert", traces.parent, option, traces)
    assert done.returncode == 2
    assert str(traces) in done.stderr
    assert "another file" in done.stderr
    assert traces.read_bytes() == before


def test_facts_and_report_in_one_file_are_refused(traces: Path, tmp_path: Path) -> None:
    both = tmp_path / "both.jsonl"
    assert shell("convert", traces, "-o", both, "--report", both).returncode == 2
    assert not both.exists()


@needs_posix
def test_a_report_to_a_pipe_or_device_is_written_into_it_and_does_not_replace_it(traces: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        done = shell("convert", traces, "-o", tmp_path / "facts.jsonl", "--report", pipe)
        assert reader.stdout is not None
        assert json.loads(reader.stdout.read())["facts"] == 3
    assert done.returncode == 0
    assert pipe.is_fifo()


@needs_posix
def test_the_report_can_go_to_standard_output(traces: Path, tmp_path: Path) -> None:
    done = shell("convert", traces, "-o", tmp_path / "facts.jsonl", "--report", "/dev/stdout", redirect="| cat")
    assert json.loads(done.stdout)["spans"] == 3


@pytest.mark.parametrize(
    ("report", "way_out"), [("missing/report.json", "create the directory"), ("in", "name a file")]
)
def test_a_report_that_cannot_be_written_is_named_before_the_work(
    report: str, way_out: str, traces: Path, tmp_path: Path
) -> None:
    facts = tmp_path / "facts.jsonl"
    done = shell("convert", traces, "-o", facts, "--report", tmp_path / report)
    assert done.returncode == 1
    assert f"{tmp_path / report}: cannot be written" in done.stderr
    assert way_out in done.stderr
    assert not facts.exists()


# -- signals ------------------------------------------------------------------------------------------------------


def descendants(process: int) -> set[int]:
    found: set[int] = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process and fields[0] != "Z":
            found.add(int(status.parent.name))
    return found


def wait_until(check: Any, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if check():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="children are found in /proc")
@pytest.mark.parametrize("workers", ["1", "3"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_run_that_is_stopped_leaves_no_file_and_no_process(number: int, workers: str, tmp_path: Path) -> None:
    """The input comes through a pipe that is held open behind its first megabytes, or is large with workers."""
    outputs, scratch = tmp_path / "out", tmp_path / "scratch"
    outputs.mkdir()
    scratch.mkdir()
    source: Any = "-"
    if workers != "1":
        source = tmp_path / "traces.jsonl"
        with source.open("wb") as file:
            for part in range(60):
                file.write(b"".join(line(part * 1000 + number) for number in range(1000)))
    command = [*CLI, "convert", str(source), "-o", str(outputs / "facts.jsonl"), "--report", str(outputs / "r.json")]
    command += ["--workers", workers]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as run:
        assert run.stdin is not None
        assert run.stderr is not None
        if workers == "1":
            run.stdin.write(line(1))
            run.stdin.flush()
            assert wait_until(lambda: any(scratch.iterdir()))
        else:
            assert wait_until(lambda: len(descendants(run.pid)) >= 3)
        children = descendants(run.pid)
        run.send_signal(number)
        said = run.stderr.read().decode()
        assert run.wait(30) in {signal.SIGINT: (130,), signal.SIGKILL: (-9,)}.get(number, (128 + number,))
    assert "Traceback" not in said
    assert wait_until(lambda: not any(_is_alive(child) for child in children))
    if number != signal.SIGKILL:
        assert list(outputs.iterdir()) == []
        assert list(scratch.iterdir()) == []
    else:
        assert not (outputs / "facts.jsonl").exists()


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="children are found in /proc")
def test_a_worker_that_is_killed_is_said_and_ends_the_run(tmp_path: Path) -> None:
    source = tmp_path / "traces.jsonl"
    with source.open("wb") as file:
        for part in range(60):
            file.write(b"".join(line(part * 1000 + number) for number in range(1000)))
    command = [*CLI, "convert", str(source), "-o", str(tmp_path / "facts.jsonl"), "--workers", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert wait_until(lambda: len(descendants(run.pid)) >= 3)
        os.kill(max(descendants(run.pid)), signal.SIGKILL)
        assert run.stderr is not None
        said = run.stderr.read().decode()
        assert run.wait(30) == 1
    assert "a worker process was killed" in said
    assert "fewer workers" in said
    assert "Traceback" not in said
    assert not (tmp_path / "facts.jsonl").exists()


# -- what a trace may not say on a terminal --------------------------------------------------------------------------

SECRET = "sk-" + "Zx9" * 8


def hostile(tmp_path: Path) -> Path:
    document = json.loads(line(0))
    span = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span["name"] = f"chat {SECRET}\x1b[2J\n"
    span["attributes"].append({"key": "gen_ai.request.model", "value": {"stringValue": f"\x1b]0;x\x07{SECRET}"}})
    path = tmp_path / "traces.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("arguments", [("convert",), ("explain",), ("explain", "--span", "0"), ("verify",)])
def test_names_of_a_trace_neither_steer_a_terminal_nor_carry_a_credential(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    more = ("-o", tmp_path / "facts.jsonl", "--report", report) if arguments[0] == "convert" else ()
    done = shell(*arguments, hostile(tmp_path), *more)
    said = done.stdout + done.stderr
    assert done.returncode in (0, 3)
    assert "\x1b" not in said
    assert "\x07" not in said
    assert SECRET not in said
    if more:
        assert SECRET not in report.read_text()
        assert "[REDACTED_CREDENTIAL]" in report.read_text()


def test_a_chain_of_ten_thousand_spans_is_explained_in_lines_of_common_length(tmp_path: Path) -> None:
    path = tmp_path / "chain.json"
    spans = [
        {
            "traceId": "ab" * 16,
            "spanId": f"{number + 1:016x}",
            "parentSpanId": f"{number:016x}" if number else "",
            "name": "step",
            "startTimeUnixNano": "1",
            "endTimeUnixNano": "2",
        }
        for number in range(10_000)
    ]
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    lines = shell("explain", path).stdout.splitlines()
    assert len(lines) > 10_000
    assert max(map(len, lines)) < 300
