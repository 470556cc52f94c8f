# SPDX-License-Identifier: Apache-2.0
"""Makes the kits of this directory importable, and leaves no pipeline of a test open."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))


@pytest.fixture(autouse=True)
def _nothing_left_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import os

    from sediment_otel.sdk import shared

    for name in [name for name in os.environ if name.startswith(("SEDIMENT_OTEL_", "OTEL_"))]:
        monkeypatch.delenv(name)
    yield
    for left in list(shared._PIPELINES.values()):
        left.pipeline.close(1.0)
    shared._PIPELINES.clear()
