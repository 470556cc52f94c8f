# SPDX-License-Identifier: Apache-2.0
"""What the bridge says in the application's log: seldom, without content."""

from __future__ import annotations

import logging
import time

from ..sinks.base import StorageError

LOGGER = logging.getLogger("sediment_otel")
#: A matter that repeats is said once in so many seconds.
SILENCE = 30.0
_LAST: dict[str, float] = {}


def quietly_log(matter: str, text: str, *values: object) -> None:
    """Warn about a matter, unless it was said a short while ago. Never raises."""
    try:
        now = time.monotonic()
        if now - _LAST.get(matter, -SILENCE) < SILENCE:
            return
        _LAST[matter] = now
        LOGGER.warning(text, *values)
    except Exception:  # a broken log handler is not worth an application
        return


def describe(error: BaseException) -> str:
    """An error for a log: our own texts are free of content, of others only the kind is said."""
    return str(error) if isinstance(error, StorageError) else type(error).__name__
