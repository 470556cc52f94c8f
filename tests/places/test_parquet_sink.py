# SPDX-License-Identifier: Apache-2.0
"""Facts as Parquet: what is in the columns, one file or parts by day and organisation, read by other engines."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from place_facts import deliveries, fact

from sediment_otel.facts import InferenceCall
from sediment_otel.sinks import Receipt, SinkError, open_sink

pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")


def put(location: Path | str, *facts: InferenceCall, **options: Any) -> list[Receipt]:
    with open_sink(str(location), **options) as sink:
        return sink.write(deliveries(*facts))


def rebuilt(row: dict[str, Any]) -> dict[str, Any]:
    """A fact from a row: what a reader of the columns can have back."""
    found = dict(row)
    found["raw"] = json.loads(row["raw"])
    found["observed_at"] = row["observed_at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    for side in ("input_messages", "output_messages"):
        found[side] = [{**message, "parts": [_part(part) for part in message["parts"]]} for message in row[side]]
    return found


def _part(part: dict[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in part.items() if value is not None}
    for key in ("arguments", "result"):
        if key in found:
            found[key] = json.loads(found[key])
    return found


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def test_every_field_of_a_fact_comes_back_from_the_columns(tmp_path: Path) -> None:
    facts = [fact(number) for number in range(5)]
    path = tmp_path / "facts.parquet"
    assert put(path, *facts) == [Receipt.STORED] * 5
    assert [rebuilt(row) for row in pq.ParquetFile(path).read().to_pylist()] == [
        json.loads(one.to_json()) for one in facts
    ]


@pytest.mark.parametrize("end", ["", "/"])
def test_a_leap_second_and_small_letters_cost_nothing(end: str, tmp_path: Path) -> None:
    put(f"{tmp_path}/f.parquet{end}", fact(1, observed_at="2016-12-31t23:59:60z"))
    (row,) = rows(tmp_path / "f.parquet")
    assert row["observed_at"] == datetime(2016, 12, 31, 23, 59, 59, tzinfo=timezone.utc)


def test_times_are_utc_timestamps_and_the_file_is_zstd(tmp_path: Path) -> None:
    put(tmp_path / "f.parquet", fact(1, observed_at="2026-01-01T01:30:00.123456789+02:00"))
    found = pq.ParquetFile(tmp_path / "f.parquet")
    (row,) = found.read().to_pylist()
    assert row["observed_at"] == datetime(2025, 12, 31, 23, 30, 0, 123456, tzinfo=timezone.utc)
    assert found.metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_run_without_facts_leaves_a_file_with_the_schema(tmp_path: Path) -> None:
    put(tmp_path / "f.parquet")
    assert "input_messages" in pq.read_schema(tmp_path / "f.parquet").names


def test_repeats_are_told_apart_as_everywhere(tmp_path: Path) -> None:
    one, other = fact(1), fact(1, model="another")
    assert put(tmp_path / "f.parquet", one, one, other) == [Receipt.STORED, Receipt.DUPLICATE, Receipt.CONFLICT]
    assert len(rows(tmp_path / "f.parquet")) == 1


def test_a_file_that_fails_half_way_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    put(path, fact(1))
    before = path.read_bytes()
    with pytest.raises(RuntimeError), open_sink(str(path)) as sink:  # noqa: PT012 - the error is ours
        sink.write(deliveries(fact(2)))
        raise RuntimeError
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["f.parquet"]


def test_a_directory_is_parted_by_day_and_organisation_and_a_second_run_adds_nothing(tmp_path: Path) -> None:
    facts = [fact(1), fact(2, day=2), fact(3, org="other"), fact(4)]
    for _ in range(2):
        put(f"{tmp_path}/facts.parquet/", *facts)
    parts = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet") if path.is_file())
    assert parts == [
        "facts.parquet/day=2026-01-01/org=acme",
        "facts.parquet/day=2026-01-01/org=other",
        "facts.parquet/day=2026-01-02/org=acme",
    ]
    found = rows(tmp_path / "facts.parquet")
    assert {row["inference_call_id"] for row in found} == {one.inference_call_id for one in facts}
    assert len(found) == 4


def test_in_a_long_lived_process_every_batch_is_there_at_once(tmp_path: Path) -> None:
    sink = open_sink(f"{tmp_path}/facts.parquet/", append=True)
    sink.write(deliveries(fact(1)))
    assert len(rows(tmp_path / "facts.parquet")) == 1
    sink.write(deliveries(fact(2)))
    sink.abort()
    assert len(rows(tmp_path / "facts.parquet")) == 2


def test_one_file_cannot_be_added_to_and_the_way_out_is_named(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="directory"):
        open_sink(str(tmp_path / "f.parquet"), append=True)


def test_an_object_store_takes_files_and_directories(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    put("memory://parquet-test/one.parquet", fact(1))
    put("memory://parquet-test/many.parquet/", fact(1), fact(2, day=2))
    memory = fsspec.filesystem("memory")
    names = memory.find("/parquet-test")
    assert len(names) == 3
    for name in names:
        with memory.open(name) as file:
            assert pq.ParquetFile(file).metadata.num_rows == 1


def test_duckdb_reads_nested_messages_and_partitions(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    put(f"{tmp_path}/facts.parquet/", fact(1), fact(2, day=2), fact(3, org="other"))
    source = f"read_parquet('{tmp_path}/facts.parquet/**/*.parquet', hive_partitioning = true)"
    found = duckdb.sql(
        "SELECT org, count(*), any_value(output_messages[1].parts[2].content),"
        " any_value(input_messages[2].parts[1].arguments ->> 'city'), any_value(raw ->> 'source')"
        f" FROM {source} GROUP BY org ORDER BY org"
    ).fetchall()
    assert found == [("acme", 2, "18 °C", "Paris", "otel"), ("other", 1, "18 °C", "Paris", "otel")]
    days = duckdb.sql(f"SELECT DISTINCT day::VARCHAR FROM {source} ORDER BY 1").fetchall()
    assert days == [("2026-01-01",), ("2026-01-02",)]


def test_polars_reads_nested_messages_and_partitions(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    put(f"{tmp_path}/facts.parquet/", fact(1), fact(2, day=2))
    frame = polars.read_parquet(f"{tmp_path}/facts.parquet/**/*.parquet", hive_partitioning=True)
    assert frame.height == 2
    output = frame["output_messages"].to_list()[0]
    assert output[0]["parts"][1]["content"] == "18 °C"
    assert str(frame.schema["observed_at"]) == "Datetime(time_unit='us', time_zone='UTC')"
