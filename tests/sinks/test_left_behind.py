# SPDX-License-Identifier: Apache-2.0
"""What a killed run leaves behind, and that the next run removes it and nothing that a running one still needs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sediment_otel.scratch import scratch
from sediment_otel.sinks.atomic import AtomicFile
from sediment_otel.sources.files import expand

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files are held by flock")

HOLDER = """
import sys
from sediment_otel.scratch import scratch
from sediment_otel.sinks.atomic import AtomicFile
from sediment_otel.sources.files import expand
with scratch() as folder:
    inputs = expand(["-"])
    file = AtomicFile(sys.argv[1])
    file.file.write(b"half")
    file.file.flush()
    print(folder, inputs[0].path, file.temporary, sep="\\n", flush=True)
    sys.stdin = open(sys.argv[2])
    sys.stdin.read()
    file.publish()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for temporary files that is this test's own."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


class Holder:
    """Another process in the midst of a run. It ends in order when its gate closes."""

    def __init__(self, target: Path, gate: Path) -> None:
        os.mkfifo(gate)
        (gate.parent / "input").write_bytes(b"what came through a pipe")
        with (gate.parent / "input").open("rb") as stdin:
            self.process = subprocess.Popen(
                [sys.executable, "-c", HOLDER, str(target), str(gate)], stdin=stdin, stdout=subprocess.PIPE
            )
        assert self.process.stdout is not None
        self.files = [Path(self.process.stdout.readline().decode().strip()) for _ in range(3)]
        self.gate = os.open(gate, os.O_WRONLY)

    def end(self, *, killed: bool) -> None:
        if killed:
            self.process.send_signal(signal.SIGKILL)
        os.close(self.gate)
        self.process.communicate(timeout=30)


def a_run(target: Path) -> None:
    """All that a run makes, from its beginning to its end."""
    with scratch():
        (pipe,) = expand(["-"], stdin=(target.parent / "input").open("rb"))
        file = AtomicFile(str(target))
        file.file.write(b"whole")
        file.publish()
        del pipe


def test_what_a_killed_run_left_goes_with_the_next_run(temporary: Path, tmp_path: Path) -> None:
    target = tmp_path / "facts.jsonl"
    other = Holder(target, tmp_path / "gate")
    other.end(killed=True)
    assert [path.exists() for path in other.files] == [True] * 3
    a_run(target)
    assert [path.exists() for path in other.files] == [False] * 3
    assert target.read_bytes() == b"whole"
    assert list(temporary.iterdir()) == []


def test_what_a_running_one_writes_stays_and_both_are_published(temporary: Path, tmp_path: Path) -> None:
    target = tmp_path / "facts.jsonl"
    other = Holder(target, tmp_path / "gate")
    a_run(target)
    assert [path.exists() for path in other.files] == [True] * 3
    assert target.read_bytes() == b"whole"
    other.end(killed=False)
    assert other.process.returncode == 0
    assert target.read_bytes() == b"half"
    assert list(temporary.iterdir()) == []
    assert not list(tmp_path.glob(".*.part"))


def test_two_writers_of_one_process_leave_each_other_alone(tmp_path: Path) -> None:
    first, second = (AtomicFile(str(tmp_path / "facts.jsonl")) for _ in range(2))
    first.file.write(b"first")
    second.file.write(b"second")
    second.publish()
    first.publish()
    assert (tmp_path / "facts.jsonl").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["facts.jsonl"]


def test_only_stale_files_of_the_same_target_are_removed(tmp_path: Path) -> None:
    stale = ".facts.jsonl.0123456789ab.part"
    kept = [
        ".other.jsonl.0123456789ab.part",
        "facts.jsonl.0123456789ab.part",
        ".facts.jsonl.mine.part",
        ".facts.jsonl.0123456789ab.part.txt",
    ]
    for name in (stale, *kept):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / ".facts.jsonl.aaaaaaaaaaaa.part").mkdir()
    (tmp_path / ".facts.jsonl.bbbbbbbbbbbb.part").symlink_to(tmp_path / kept[0])
    AtomicFile(str(tmp_path / "facts.jsonl")).discard()
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {*kept, ".facts.jsonl.aaaaaaaaaaaa.part", ".facts.jsonl.bbbbbbbbbbbb.part"}


def test_convert_after_a_kill_leaves_only_its_output(temporary: Path, tmp_path: Path) -> None:
    """The whole command, beside what a killed one left."""
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "x", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    traces = tmp_path / "traces.jsonl"
    traces.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}) + "\n", encoding="utf-8")
    (temporary / "sediment-otel-somebody").mkdir()  # no run of this version: it has no lock
    out = tmp_path / "out"
    out.mkdir()
    left = out / ".facts.jsonl.0123456789ab.part"
    left.write_bytes(b"half")
    done = subprocess.run(
        [sys.executable, "-m", "sediment_otel", "convert", str(traces), "-o", str(out / "facts.jsonl")],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in out.iterdir()] == ["facts.jsonl"]
    assert [path.name for path in temporary.iterdir()] == ["sediment-otel-somebody"]
