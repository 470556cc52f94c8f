# SPDX-License-Identifier: Apache-2.0
"""Environments with real instrumentations, made on demand from the locks `requirements/captures*.lock`.

They lie in `.venv-captures*` beside the checkout's own environment and are made anew when their lock changes. Tests
run scripts in them by subprocess, with this checkout installed into them.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def captures_python(name: str = "captures") -> str:
    """The interpreter of an environment. Skips the test, with the reason, where it cannot be made."""
    lock, venv = ROOT / "requirements" / f"{name}.lock", ROOT / f".venv-{name}"
    python = str(venv / "bin" / "python")
    pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    with (ROOT / f".venv-{name}.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        _unless_done(
            venv / ".locked",
            lock.read_bytes() + sys.version.encode(),
            [sys.executable, "-m", "venv", "--clear", str(venv)],
            [*pip, "--require-hashes", "-r", str(lock)],
        )
        project = [*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)]
        _unless_done(venv / ".installed", (ROOT / "pyproject.toml").read_bytes(), project)
    return python


def _unless_done(stamp: Path, made_from: bytes, *commands: list[str]) -> None:
    mark = hashlib.sha256(made_from).hexdigest()
    if stamp.exists() and stamp.read_text() == mark:
        return
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            pytest.skip(f"the environment with real instrumentations cannot be installed: {last}")
    stamp.write_text(mark)


def run_in_captures(
    arguments: list[str],
    folder: Path,
    environment: dict[str, str] | None = None,
    *,
    name: str = "captures",
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run the environment's Python with `arguments` in `folder`; fails the test where it does not end with 0."""
    done = subprocess.run(
        [captures_python(name), *arguments],
        cwd=folder,
        env=clean_environment() | (environment or {}),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def clean_environment() -> dict[str, str]:
    """The environment without what would change what is traced, or send it elsewhere."""
    foreign = ("OTEL_", "SEDIMENT_OTEL_", "OPENAI_", "ANTHROPIC_", "PYTHON", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {key: value for key, value in os.environ.items() if not key.upper().startswith(foreign)}
