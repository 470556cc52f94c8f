# SPDX-License-Identifier: Apache-2.0
"""The command line inside the test's own process: what `subprocess.run` would give, without a new interpreter."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from sediment_otel.cli import app


class _Kept(io.BytesIO):
    """Stays readable when the text stream on top of it goes."""

    def close(self) -> None:
        """Nothing: the test reads it afterwards."""


@contextlib.contextmanager
def _streams() -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    out, err = _Kept(), _Kept()
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", errors="surrogateescape", write_through=True)
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8", errors="backslashreplace", write_through=True)
    try:
        yield out, err
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError):
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = before


@contextlib.contextmanager
def _without_settings() -> Iterator[None]:
    kept = {key: os.environ.pop(key) for key in list(os.environ) if key.startswith("SEDIMENT_OTEL_")}
    try:
        yield
    finally:
        os.environ.update(kept)


def run(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
    """Run `sediment-otel` with the arguments behind the command's first word."""
    status = 0
    with _without_settings(), _streams() as (out, err):
        try:
            app(list(command[1:]), prog_name="sediment-otel")
        except SystemExit as end:
            status = end.code if type(end.code) is int else int(end.code is not None)
        except Exception as error:  # a traceback in a process of its own is exit status 1
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            status = 1
    return subprocess.CompletedProcess(list(command), status, out.getvalue(), err.getvalue())
