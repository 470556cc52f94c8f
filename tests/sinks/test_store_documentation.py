# SPDX-License-Identifier: Apache-2.0
"""What `docs/store.md` says about the store is so: its tables, its queries, their output."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sinks_kit import kept, skip

from sediment_otel.facts import InferenceCall, InferenceMessage, TextPart, ToolCallPart
from sediment_otel.sinks import Delivery
from sediment_otel.sinks.store import Store

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "store.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sql\n(.*?)\n```\n\n```text\n(.*?)\n```", PAGE, flags=re.DOTALL)
CALLS = [
    (1, "chat-17", "gpt-4o-2024-08-06", 120, 18, "2026-03-01T10:00:01.250000Z", "get_weather"),
    (2, "chat-17", "gpt-4o-2024-08-06", 164, 9, "2026-03-01T10:00:02.900000Z", None),
    (3, "chat-18", "claude-sonnet-4-5", 88, 40, "2026-03-01T10:05:00.000000Z", None),
]


@pytest.fixture
def documented(tmp_path: Path) -> str:
    """The store of the examples."""
    path = str(tmp_path / "facts.db")
    with Store(path) as store:
        for number, session, model, inputs, outputs, at, tool in CALLS:
            answer = ToolCallPart(id="call_1", name=tool, arguments={}) if tool else TextPart("It is 12 °C.")
            fact = InferenceCall(
                inference_call_id=f"{number:08x}-0000-5000-8000-000000000000",
                org_id="acme",
                session_id=session,
                user_id=None,
                gateway_provider="unknown",
                model_provider=None,
                model=model,
                input_messages=[],
                output_messages=[InferenceMessage("assistant", [answer], "stop")],
                input_tokens=inputs,
                output_tokens=outputs,
                duration_ms=800,
                model_call_id=None,
                observed_at=at,
                raw={},
            )
            store.write([Delivery.of(fact, capture_key=kept(number).capture_key)])
        store.record_outcomes([skip(4), skip(5), skip(6, "no_content")])
        store.record_outcomes([kept(2, [("unsupported_content", "/input_messages/0/parts/1", "part of type blob")])])
    return path


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize(("query", "output"), EXAMPLES)
def test_every_query_gives_the_output_that_the_page_shows(documented: str, query: str, output: str) -> None:
    if "->>" in query and sqlite3.sqlite_version_info < (3, 38):
        pytest.skip("this SQLite has no ->> operator")
    head, *rows = [
        [cell.strip() for cell in line.strip("│").split("│")] for line in output.splitlines() if line.startswith("│")
    ]
    with closing(sqlite3.connect(documented)) as database:
        cursor = database.execute(query)
        assert [column[0] for column in cursor.description] == head
        assert [[str(cell) for cell in row] for row in cursor] == rows


@pytest.mark.parametrize("table", ["facts", "skips", "losses"])
def test_every_column_is_on_the_page(documented: str, table: str) -> None:
    with closing(sqlite3.connect(documented)) as database:
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    section = PAGE[PAGE.index(f"`{table}`: ") :]
    assert columns
    assert [column for column in columns if f"`{column}`" not in section] == []
