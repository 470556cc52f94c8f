# SPDX-License-Identifier: Apache-2.0
"""Facts come back from every place that a sink writes to; bad files cost only what is bad in them."""

from __future__ import annotations

import gzip
import sqlite3
import tracemalloc
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sinks_kit import child, delivery

from sediment_otel.sinks import FactRecord, FactsError, open_sink, read_facts
from sediment_otel.sinks.store import Store

FACTS = [delivery(n, text="ä\u2028" * n) for n in range(1, 40)]
LINES = b"".join(fact.encoded + b"\n" for fact in FACTS)


@pytest.mark.parametrize("name", ["f.jsonl", "f.jsonl.gz", "f.ndjson.zst", "f.db"])
def test_what_a_sink_wrote_is_read_back_byte_for_byte(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    with open_sink(path) as sink:
        sink.write(FACTS)
    records = list(read_facts(path))
    assert [record.data for record in records] == [fact.encoded for fact in FACTS]
    assert records[1].place == (f"{path}:call-2" if name == "f.db" else f"{path}:2")
    assert all(record.problem is None for record in records)


def test_what_a_file_is_is_decided_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "facts.txt"
    for data in (LINES, gzip.compress(LINES), zstandard.compress(LINES), gzip.compress(b"") + gzip.compress(LINES)):
        path.write_bytes(data)
        assert [record.data for record in read_facts(str(path))] == [fact.encoded for fact in FACTS]
    frames = b"".join(zstandard.compress(fact.encoded + b"\n") for fact in FACTS)
    path.write_bytes(frames)
    assert [record.data for record in read_facts(str(path))] == [fact.encoded for fact in FACTS]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n\n \r\n", []),
        (b"\xef\xbb\xbf{}\r\n{}", [(b"{}", 1), (b"{}", 2)]),
        (b"\n{}\n\n{", [(b"{}", 2), (b"{", 4)]),
        (b"\xff\xfe\x00\n{}\n", [(b"\xff\xfe\x00", 1), (b"{}", 2)]),
    ],
)
def test_lines_keep_their_numbers_whatever_stands_between(tmp_path: Path, data: bytes, expected: Any) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(data)
    assert [(record.data, int(record.place.rpartition(":")[2])) for record in read_facts(str(path))] == expected


def test_a_line_that_is_too_long_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}\n" + b"x" * 5_000_000 + b"\n[1]\n" + b"y" * 101))
    one, long, two, last = read_facts(str(path), max_line_bytes=100)
    assert (one.data, two.data, two.place) == (b"{}", b"[1]", f"{path}:3")
    assert long == FactRecord(b"", f"{path}:2", "the line is longer than 100 bytes")
    assert last.problem is not None


def test_a_line_of_exactly_the_longest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes(b"x" * 100 + b"\n" + b"y" * 100)
    assert [record.data for record in read_facts(str(path), max_line_bytes=100)] == [b"x" * 100, b"y" * 100]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_compressed_file_that_is_cut_short_gives_what_it_holds_and_then_an_error(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "f.jsonl"
    random_looking = b"".join(b'{"n":"%x"}\n' % (n * 7919**9) for n in range(40_000))
    whole = pack(random_looking)
    path.write_bytes(whole[: len(whole) // 2])
    records = []
    with pytest.raises(FactsError, match=r"(cut off|damaged).*write the file again"):
        records.extend(read_facts(str(path)))  # keeps what came before the error
    assert len(records) > 1000
    assert [record.data for record in records] == random_looking.splitlines()[: len(records)]
    path.write_bytes(whole[:-40] + b"\xff" * 40)
    with pytest.raises(FactsError, match=r"(cut off|damaged).*write the file again"):
        list(read_facts(str(path)))


@pytest.mark.parametrize("head", [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"SQLite format 3\x00"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200))
def test_no_file_raises_anything_but_facts_error(tmp_path: Path, head: bytes, data: bytes) -> None:
    for content in (data, head + data, head[:2] + data):
        path = tmp_path / "hostile"
        path.write_bytes(content)
        with suppress(FactsError):
            list(read_facts(str(path)))


def test_a_zip_bomb_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as bomb:
        for _ in range(300):
            bomb.write(bytes(1 << 20))
    process = child(
        """
        import resource, sys
        from pathlib import Path
        from sediment_otel.sinks import read_facts

        def peak_kib():
            # ru_maxrss counts the parent as it was when it forked; where the system tells, our own peak is taken.
            status = Path("/proc/self/status")
            lines = status.read_text().splitlines() if status.exists() else []
            own = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
            return own[0] if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        for record in read_facts(sys.argv[1], max_line_bytes=1_000_000):
            print(record.problem)
        print(peak_kib() < 150_000)
        """,
        path,
    )
    out, errors = process.communicate(timeout=60)
    assert errors == b""
    assert out.splitlines() == [b"the line is longer than 1000000 bytes", b"True"]


@pytest.mark.parametrize(("data", "count"), [(LINES, 39), (gzip.compress(LINES), 39), (b"", 0)])
def test_standard_input_is_read_like_a_file(data: bytes, count: int) -> None:
    process = child(
        """
        from sediment_otel.sinks import read_facts
        records = list(read_facts("-"))
        print(len(records), *[record.place for record in records][:1])
        """,
        stdin=-1,
    )
    out, errors = process.communicate(data, timeout=60)
    assert errors == b""
    assert out.decode().strip() == (f"{count} standard input:1" if count else "0")


def test_a_store_on_standard_input_is_refused_with_the_way_out(tmp_path: Path) -> None:
    Store(str(tmp_path / "f.db")).close()
    with open(tmp_path / "f.db", "rb") as stdin:
        process = child(
            """
            from sediment_otel.sinks import FactsError, read_facts
            try:
                list(read_facts("-"))
            except FactsError as error:
                print(error)
            """,
            stdin=stdin,
        )
        out, errors = process.communicate(timeout=60)
    assert errors == b""
    assert b"by its file name" in out


def test_a_store_is_readable_while_somebody_writes_and_before_its_log_is_merged(tmp_path: Path) -> None:
    path = str(tmp_path / "f.db")
    with Store(path) as store:
        store.write([delivery(1)])
        assert [record.data for record in read_facts(path)] == [delivery(1).encoded]


@pytest.mark.parametrize("name", ["missing.jsonl", "missing.db", ".", "\x00"])
def test_a_path_that_cannot_be_read_says_so(tmp_path: Path, name: str) -> None:
    with pytest.raises(FactsError):
        list(read_facts(str(tmp_path / name)))


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE facts (fact TEXT)")
        database.commit()
    with pytest.raises(FactsError, match="another program"):
        list(read_facts(str(path)))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_text_that_is_not_utf_8_is_said_once(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_bytes('{"a": 1}\n{"a": 2}\n'.encode(encoding))
    with pytest.raises(FactsError, match="save it as UTF-8"):
        list(read_facts(str(path)))


def test_a_bomb_of_facts_takes_hardly_more_memory_than_one_line_may(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as bomb:
        for _ in range(100):
            bomb.write(b"0" * (1 << 20))
    tracemalloc.start()
    try:
        found = [record.problem for record in read_facts(str(path), max_line_bytes=32 << 20)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [f"the line is longer than {32 << 20} bytes"]
    assert peak < 45 << 20
