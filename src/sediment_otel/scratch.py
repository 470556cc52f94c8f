# SPDX-License-Identifier: Apache-2.0
"""A private folder for what a run keeps on disk while it goes: it goes with the run.

A killed run leaves its folder (0700, with its index and perhaps log records in it, as they came). The next run of the
same user removes it: a folder is held by a lock on a file in it, which dies with its process (`stale`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .stale import hold, is_held

PREFIX = "sediment-otel-"
HELD = "held"


@contextmanager
def scratch() -> Iterator[Path]:
    """A new folder, removed at the end."""
    _clear()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    held = _hold(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def _hold(folder: Path) -> int | None:
    # Locked under another name: nobody takes a folder for left behind that has not got its lock yet.
    with suppress(OSError), (folder / f"{HELD}.new").open("xb") as file:
        held = hold(file.fileno())
        if held is not None:
            (folder / f"{HELD}.new").rename(folder / HELD)
        return held
    return None


def _clear() -> None:
    """Remove the folders of this user's runs that were killed."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False) and _is_left(Path(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    return is_held(str(folder / HELD)) is False


__all__ = ["scratch"]
