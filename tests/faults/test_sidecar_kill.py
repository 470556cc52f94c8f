# SPDX-License-Identifier: Apache-2.0
"""A few rounds of the kill harness; `make faults` runs a hundred."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kill_rounds import run


@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="the harness finds the translator's process in /proc")
def test_what_was_acknowledged_survives_sigkill_and_comes_once(tmp_path: Path) -> None:
    found = run(tmp_path, rounds=5, seed=3)
    assert found.spans > 0
    assert found.compared > 0
