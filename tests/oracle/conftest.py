# SPDX-License-Identifier: Apache-2.0
"""A running Sediment as the judge: fixture `oracle`, backed by `sediment-core` in an environment of its own.

The package is AGPL and needs Python 3.12, so it is never imported here: it is installed once into `.venv-oracle`
beside the sources and runs as a process. Where there is no such Python or the package cannot be installed,
the tests that ask for the fixture are skipped and say why.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

RELEASE = "0.6.1"
REQUIREMENT = f"sediment-core=={RELEASE}"
OLDEST = (3, 12)
HOME = Path(__file__).parents[2] / ".venv-oracle"
SECONDS_TO_INSTALL = 150


class Oracle:
    """What Sediment says to facts given as JSON."""

    def __init__(self, python: Path) -> None:
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__).with_name("oracle_process.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="ascii",
        )

    def validate(self, facts: Sequence[bytes]) -> list[str | None]:
        """For each fact null, or why Sediment refuses it."""
        return list(self._ask("validate", facts))

    def redact(self, facts: Sequence[bytes]) -> list[dict[str, Any]]:
        """Each fact as Sediment would store it. All of them must be valid."""
        answers = self._ask("redact", facts)
        refused = [index for index, answer in enumerate(answers) if answer is None]
        assert not refused, f"Sediment refuses the facts {refused}"
        return list(answers)

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def _ask(self, operation: str, facts: Sequence[bytes]) -> list[Any]:
        assert self._process.stdin
        assert self._process.stdout
        request = {"op": operation, "facts": [fact.decode("utf-8") for fact in facts]}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answers: list[Any] = json.loads(self._process.stdout.readline())["answers"]
        return answers


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    python = _environment()
    if isinstance(python, str):
        pytest.skip(f"no oracle: {python}")
    judge = Oracle(python)
    yield judge
    judge.close()


def _environment() -> Path | str:
    """The interpreter of the oracle's environment, made where it is missing; or why there is none."""
    python = HOME / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if _installed(python):
        return python
    base = next(filter(_recent, _candidates()), None)
    if base is None:
        return f"no Python {'.'.join(map(str, OLDEST))} or newer found"
    for command in (
        [base, "-m", "venv", "--clear", str(HOME)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", REQUIREMENT],
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_TO_INSTALL)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{REQUIREMENT} cannot be installed: {type(error).__name__}"
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1:] or [""]
            return f"{REQUIREMENT} cannot be installed: {reason[0]}"
    HOME.joinpath(".gitignore").write_text("*\n", encoding="ascii")
    return python if _installed(python) else f"{REQUIREMENT} was installed and cannot be imported"


def _candidates() -> Iterator[str]:
    yield sys.executable
    for minor in range(OLDEST[1], OLDEST[1] + 4):
        if found := shutil.which(f"python{OLDEST[0]}.{minor}"):
            yield found
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(root.glob(f"versions/{OLDEST[0]}.*/bin/python")))
    if found := shutil.which("python3"):
        yield found


def _recent(python: str) -> bool:
    return _prints(python, "import sys; print(sys.version_info[:2] >= (3, 12))") == "True"


def _installed(python: Path) -> bool:
    script = "import importlib.metadata as m, sediment_core.redaction; print(m.version('sediment-core'))"
    return python.exists() and _prints(str(python), script) == RELEASE


def _prints(python: str, script: str) -> str:
    try:
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
