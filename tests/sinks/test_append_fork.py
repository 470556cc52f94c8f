# SPDX-License-Identifier: Apache-2.0
"""A child that is forked in the middle of a write does not keep the file locked."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from sinks_kit import delivery

from sediment_otel.sinks import append


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_in_the_middle_of_a_write_does_not_keep_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "facts.jsonl"
    sink = append.JsonLinesAppend(str(path))
    whole_lines = append._whole_lines
    children: list[int] = []
    leave, stay = os.pipe()

    def forking(descriptor: int) -> int:
        if not children:
            children.append(os.fork())
            if children[0] == 0:
                os.close(stay)
                os.read(leave, 1)  # until the parent is done
                os._exit(0)
        return whole_lines(descriptor)

    monkeypatch.setattr(append, "_whole_lines", forking)
    sink.write([delivery(1)])
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises BlockingIOError while anyone holds it
    assert os.waitpid(children[0], os.WNOHANG) == (0, 0), "the child lived on while the lock was taken"
    os.close(stay)
    assert os.waitpid(children[0], 0)[1] == 0
    assert path.read_bytes().count(b"\n") == 1
