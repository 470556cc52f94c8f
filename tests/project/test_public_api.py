# SPDX-License-Identifier: Apache-2.0
"""The public names, and that docs/api.md shows what really comes out."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import sediment_otel

ROOT = Path(__file__).parents[2]


def test_the_documentation_shows_what_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = doctest.testfile(str(ROOT / "docs" / "api.md"), module_relative=False, encoding="utf-8")
    assert done.attempted > 10
    assert done.failed == 0


@pytest.mark.parametrize("name", sediment_otel.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(sediment_otel, name)
    assert value.__doc__
    assert name in dir(sediment_otel)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sediment_otel.nothing  # noqa: B018


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True, check=True)
    return done.stdout.strip()


def test_importing_the_package_imports_nothing_else() -> None:
    heavy = "{'msgspec', 'typer', 'rich', 'opentelemetry', 'google'}"
    assert _python(f"import sys, sediment_otel; print({heavy} & set(sys.modules))") == "set()"


@pytest.mark.parametrize("first", ["import sediment_otel.translate.raw", "import sediment_otel"])
def test_translate_can_be_called_whatever_was_imported_first(first: str) -> None:
    use = "from sediment_otel import Span, translate\nprint(translate(Span(trace_id='a', span_id='b')).outcome.value)"
    code = f"{first}\n{use}"
    assert _python(code) == "skipped"


def test_the_package_is_marked_as_typed() -> None:
    assert Path(sediment_otel.__file__).with_name("py.typed").exists()
