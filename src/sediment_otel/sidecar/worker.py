# SPDX-License-Identifier: Apache-2.0
"""The translator's process: a loop around `Translator`, and how its parent starts, hears and stops it.

A process of its own, so that receiving and translating each have a core. It ends when its parent says so or is
gone. A file lock keeps two translators off one journal when a killed parent is followed by a new one at once.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from ..settings import Settings
from ..sinks.base import SinkError, SinkOptions
from ..sinks.store import Store
from .journal import JournalError
from .translator import Translate, Translator

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock
    fcntl = None  # type: ignore[assignment]
_HAS_LOCKS = fcntl is not None

#: Between attempts where the store refuses (a full disk, a lock).
STORE_RETRY = 1.0


class Job(NamedTuple):
    """What the process is started with."""

    journal: Path
    store: Path
    settings: Settings
    window: float
    keep: float


class Lock:
    """An exclusive lock on a file, for the life of the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Try once."""
        if not _HAS_LOCKS:
            return True
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def run(job: Job, parent: Connection, translate: Translate | None = None) -> None:
    """The process. Ends with `stop` from the parent, with the parent's end, or with an error on standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # what is remembered of traces is many objects that live for a minute
    lock = Lock(job.journal.with_name("translator.lock"))
    while not lock.acquire():
        if _told(parent, 0.02) is not None:
            return
    try:
        _loop(job, parent, translate)
    except (BrokenPipeError, EOFError, ConnectionResetError):
        return
    except (SinkError, JournalError) as error:
        sys.stderr.write(f"sediment-otel: translator: {error}\n")
        sys.exit(1)


def _told(parent: Connection, seconds: float) -> str | None:
    """What the parent says within some time: `stop`, also where it is gone."""
    try:
        if parent.poll(seconds):
            return str(parent.recv())
    except (EOFError, OSError):
        return "stop"
    return None


def _loop(job: Job, parent: Connection, translate: Translate | None) -> None:
    with contextlib.closing(Store(str(job.store), SinkOptions(durable=True))) as store:
        translator = Translator(
            job.journal,
            store,
            job.settings,
            window=job.window,
            keep=job.keep,
            send=parent.send,
            run=f"{os.getpid()}-{time.time_ns()}",
            translate=translate,
        )
        with contextlib.closing(translator):
            parent.send(("ready",))
            pause, problem = 0.0, ""
            while _told(parent, pause) is None:
                try:
                    pause = translator.step(time.monotonic(), time.time_ns())
                except SinkError as error:
                    if str(error) != problem:
                        parent.send(("trouble", str(error)))
                    problem = str(error)
                    pause = STORE_RETRY
                    continue
                if problem:
                    problem = ""
                    parent.send(("trouble", ""))
