# SPDX-License-Identifier: Apache-2.0
"""One table says in which version every producer was run: the one in `docs/testing.md`, held to the pins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PINS = ROOT / "requirements"
PAGE = ROOT / "docs" / "testing.md"
#: File of pins -> where what it names is run.
RUN_BY = {
    "captures.in": "`tests/sdk`",
    "captures-openai-v2.in": "`tests/sdk`",
    "captures-dialects.in": "`tests/live`",
}
#: Builds the package, is not run.
BUILD = "hatchling"


def words(path: Path) -> list[str]:
    """The lines that are no comment."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip() and line[0] != "#"]


def pinned() -> Iterator[tuple[str, str, str]]:
    """Producer, version, where it is run."""
    for line in words(PINS / "agents.txt"):
        _, package, version = line.split()
        yield package, version, "`make captures`"
    for name, run_by in RUN_BY.items():
        lock = (PINS / name).with_suffix(".lock").read_text(encoding="utf-8")
        versions = dict(re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[a-z,]+\])?==([^ ;\\]+)", lock, re.MULTILINE))
        for line in words(PINS / name):
            package = re.split(r"[=;<> ]", line)[0]
            if package != BUILD:
                yield package, versions[package.split("[")[0]], run_by


def test_the_table_names_every_producer_in_its_pinned_version() -> None:
    expected = sorted({f"| `{package}` | {version} | {run_by} |" for package, version, run_by in pinned()})
    assert len(expected) > 20
    _, _, behind = PAGE.read_text(encoding="utf-8").partition("| producer | version | run by |\n|---|---|---|\n")
    assert behind.partition("\n\n")[0].splitlines() == expected
