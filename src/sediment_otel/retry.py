# SPDX-License-Identifier: Apache-2.0
"""How long to wait before the next attempt: exponential, with full jitter, bounded."""

from __future__ import annotations

import random

FIRST, MOST = 0.5, 60.0


class Backoff:
    """Delays in seconds that grow from about half a second to a minute; `reset` after a success."""

    def __init__(self, first: float = FIRST, most: float = MOST, source: random.Random | None = None) -> None:
        self._first, self._most = first, most
        self._random = source or random.Random()
        self.failures = 0

    def next(self) -> float:
        """The delay after one more failure: at least half of the step, so that it never hammers."""
        step = min(self._most, self._first * 2 ** min(self.failures, 16))
        self.failures += 1
        return float(step * (0.5 + self._random.random() / 2))

    def reset(self) -> None:
        """It works again."""
        self.failures = 0
