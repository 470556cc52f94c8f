# SPDX-License-Identifier: Apache-2.0
"""The page about dialects says what the tables say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sediment_otel.dialects import _document
from sediment_otel.dialects.base import Dialect
from sediment_otel.dialects.registry import DIALECTS

PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"


def test_the_page_in_the_repository_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == _document.page(), "out of date: run `make docs`"


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_every_key_and_loss_of_a_dialect_is_on_the_page(dialect: Dialect) -> None:
    page = _document.page()
    section = page.split(f"\n## {dialect.title}\n", 1)[1].split("\n## ", 1)[0]
    for key in (*dialect.session_keys, *dialect.user_keys, *dialect.message_attributes, *dialect.indexed):
        assert f"`{key}`" in section
    for lost in dialect.not_recoverable:
        assert lost in section
    for source in dialect.sources:
        assert source.name in section
    for seen in dialect.seen:
        assert seen in page


def test_a_dialect_says_how_it_is_known_and_what_it_reads() -> None:
    for dialect in DIALECTS:
        assert dialect.detect.__doc__, dialect.name
        assert dialect.title, dialect.name


def test_links_lead_to_sections() -> None:
    page = _document.page()
    for dialect in DIALECTS:
        assert f"](#{_document._anchor(dialect.title)})" in page


def test_page_and_tables_are_written_to_the_files_named(tmp_path: Path) -> None:
    page, tables = tmp_path / "page.md", tmp_path / "tables.json"
    assert _document.main([str(page), str(tables)]) == 0
    assert page.read_text(encoding="utf-8") == _document.page()
    assert tables.read_text(encoding="utf-8") == _document.tables()
    assert _document.main(["a"]) == 2


def test_the_tables_in_the_repository_are_up_to_date() -> None:
    file = PAGE.parents[1] / "semconv" / "dialects.json"
    assert file.read_text(encoding="utf-8") == _document.tables(), "out of date: run `make docs`"
    assert set(json.loads(_document.tables())["dialects"]) == {dialect.name for dialect in DIALECTS}
