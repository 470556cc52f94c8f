# SPDX-License-Identifier: Apache-2.0
"""The gate at which a fork waits until the worker stands between two steps.

A child gets only the thread that forked. A lock that the worker held at that moment (of a module that it was
importing, of SQLite, of a file) would be held in the child for ever, and the child's own worker would wait for it.
So the worker does each step that may take a lock `with` the gate, and a fork closes the gate first.
"""

from __future__ import annotations

import threading
import time

#: Seconds for which a fork waits; a step that takes longer (a request to a slow server) is cut in two.
FORK_PATIENCE = 1.0
#: Seconds that the worker leaves to a waiting fork, again and again until it has the gate.
_GIVE_WAY = 0.0005


class ForkGate:
    """Entered by the worker for each step; closed by a fork, opened in the parent, made anew in the child."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """In the child: nobody is inside, whoever was inside in the parent."""
        self._lock = threading.RLock()
        self._inside = 0
        self._wanted = False
        self._closed = False

    def __enter__(self) -> None:
        # A lock is not handed to who waits for it longest: without this the fork might never get it.
        while self._wanted and not self._inside:
            time.sleep(_GIVE_WAY)
        self._lock.acquire()
        self._inside += 1

    def __exit__(self, *error: object) -> None:
        self._inside -= 1
        self._lock.release()

    def close(self) -> None:
        """Before a fork: wait until nobody is inside, `FORK_PATIENCE` at most."""
        self._wanted = True
        self._closed = self._lock.acquire(timeout=FORK_PATIENCE)

    def open(self) -> None:
        """In the parent, after the fork."""
        self._wanted = False
        if self._closed:
            self._closed = False
            self._lock.release()
