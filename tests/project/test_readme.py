# SPDX-License-Identifier: Apache-2.0
"""The README shows what the commands really print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_output_of_make_run_is_what_the_readme_shows() -> None:
    environment = {**os.environ, "BIN": str(Path(sys.executable).parent), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        ["bash", "examples/run.sh"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
    )
    printed = done.stdout.decode()
    shown = re.search(r"```console\n\$ make run\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    assert shown[1].split() == printed.split()


def test_every_page_that_the_readme_links_is_there() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(links) > 3
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing
