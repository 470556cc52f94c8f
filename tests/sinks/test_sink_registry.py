# SPDX-License-Identifier: Apache-2.0
"""Which sink a name opens, and what an unknown name is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from sinks_kit import delivery

from sediment_otel.sinks import Receipt, SinkError, open_sink, registry
from sediment_otel.sinks.append import JsonLinesAppend
from sediment_otel.sinks.base import SinkBase, SinkOptions
from sediment_otel.sinks.jsonl import JsonLinesFile, JsonLinesStream
from sediment_otel.sinks.registry import SINKS, SinkRow
from sediment_otel.sinks.store import Store


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.jsonl", JsonLinesFile),
        ("a.NDJSON", JsonLinesFile),
        ("a.jsonl.gz", JsonLinesFile),
        ("a.ndjson.zst", JsonLinesFile),
        ("a.db", Store),
        ("a.sqlite", Store),
        ("a.b.sqlite3", Store),
        ("ü ?#%20.db", Store),
    ],
)
def test_the_suffix_chooses_the_sink_and_the_name_is_taken_as_it_is(tmp_path: Path, name: str, kind: type) -> None:
    with open_sink(str(tmp_path / name)) as sink:
        assert type(sink) is kind
        assert sink.write([delivery(1)]) == [Receipt.STORED]
        if isinstance(sink, Store):
            assert list(sink.facts()) == [delivery(1).encoded]
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_dash_is_standard_output() -> None:
    assert type(open_sink("-")) is JsonLinesStream


def test_append_is_an_option(tmp_path: Path) -> None:
    assert type(open_sink(str(tmp_path / "a.jsonl"), append=True)) is JsonLinesAppend


def test_a_file_url_is_a_path(tmp_path: Path) -> None:
    open_sink((tmp_path / "a b.jsonl").as_uri()).close()
    assert (tmp_path / "a b.jsonl").exists()


@pytest.mark.parametrize(
    "name", ["", "facts", "facts.txt", "facts.gz", "jsonl", "ftp://host/facts.txt", "\x00", "\x00.db"]
)
def test_an_unknown_name_is_told_what_is_accepted(name: str) -> None:
    with pytest.raises(SinkError, match=r"accepted are - .*FILE\.jsonl.*FILE\.db"):
        open_sink(name)


def test_a_directory_is_called_one() -> None:
    with pytest.raises(SinkError, match=r"\.: is a directory; name a file in it"):
        open_sink(".")


def test_a_url_with_a_password_is_not_repeated() -> None:
    with pytest.raises(SinkError) as caught:
        open_sink("ftp://user:hunter2@host/x?token=hunter2")
    assert "hunter2" not in str(caught.value)


class EchoSink(SinkBase):
    """What a later scheme is: a class that takes the URL and the options."""

    def __init__(self, url: str, options: SinkOptions) -> None:
        self.url, self.options = url, options


def test_one_more_sink_is_one_more_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "EchoSink", EchoSink, raising=False)
    row = SinkRow("sediment_otel.sinks.registry:EchoSink", "ECHO://…", schemes=("echo+x",))
    monkeypatch.setattr(registry, "SINKS", (*SINKS, row))
    sink = open_sink("Echo+x://host/path?q", durable=True)
    assert isinstance(sink, EchoSink)
    assert sink.url == "Echo+x://host/path?q"
    assert sink.options.durable
    with pytest.raises(SinkError, match="ECHO"):
        open_sink("nothing")


def test_every_row_of_the_table_can_be_loaded() -> None:
    for row in SINKS:
        assert callable(registry._load(row.factory))
