# SPDX-License-Identifier: Apache-2.0
"""Which requests the translator was at when it died, and how often: one that kills it must not do so for ever.

Before the translator turns to requests it writes their ids to a small file, and takes them out when that went well.
What stands there at a start was being translated when the process ended (out of memory, a fault in a library, a kill):
a death for each of them. Requests with a death are translated alone, so that others are not blamed; after
`MOST_DEATHS` they are given up. The file outlives the process, not necessarily a power failure. It holds ids, no
content; `identity` is the journal's, whose ids they are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..sinks.base import SinkError

#: So many times a request may end the translator.
MOST_DEATHS = 3


class Attempts:
    """The file and what it says. Raises `OSError` where it cannot be written."""

    def __init__(self, path: Path, identity: str) -> None:
        self._identity = identity
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
        self.deaths = self._read()
        self._write(())

    def _read(self) -> dict[int, int]:
        try:
            found = json.loads(os.read(self._file, os.fstat(self._file).st_size))
            if found["journal"] != self._identity:
                return {}
            deaths = {int(number): int(count) for number, count in found["deaths"].items()}
            for number in found["at"]:
                deaths[int(number)] = deaths.get(int(number), 0) + 1
        except (ValueError, KeyError, TypeError, AttributeError):
            return {}
        return deaths

    def _write(self, at: Iterable[int]) -> None:
        text = json.dumps({"journal": self._identity, "at": list(at), "deaths": self.deaths}).encode()
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, text)
        os.ftruncate(self._file, len(text))

    def given_up(self, number: int) -> bool:
        """Whether the request has ended the translator too often."""
        return self.deaths.get(number, 0) >= MOST_DEATHS

    @contextmanager
    def at(self, numbers: Iterable[int]) -> Iterator[None]:
        """While requests are translated. A `SinkError` is no fault of theirs; any other end counts."""
        tried = list(numbers)
        self._write(tried)
        try:
            yield
        except SinkError:
            self._write(())
            raise
        for number in tried:
            self.deaths.pop(number, None)
        self._write(())

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)
