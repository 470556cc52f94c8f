# SPDX-License-Identifier: Apache-2.0
"""JSON Lines to any place that fsspec knows: whole or not at all, and failures without secrets."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import pytest
from place_facts import deliveries, fact

from sediment_otel.sinks import SinkError, open_sink
from sediment_otel.sinks.base import UnknownSink

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def test_facts_appear_on_close_and_not_before(memory: Any) -> None:
    one = fact(1)
    sink = open_sink("memory://bucket/a/facts.jsonl")
    sink.write(deliveries(one))
    sink.flush()
    assert memory.find("/") == []
    sink.close()
    assert memory.cat_file("/bucket/a/facts.jsonl") == one.to_json() + b"\n"


def test_the_suffix_compresses_as_it_does_locally(memory: Any) -> None:
    with open_sink("memory://bucket/facts.jsonl.gz") as sink:
        sink.write(deliveries(fact(1)))
    assert gzip.decompress(memory.cat_file("/bucket/facts.jsonl.gz")) == fact(1).to_json() + b"\n"


def test_a_run_that_fails_leaves_the_old_object(memory: Any) -> None:
    with open_sink("memory://bucket/facts.jsonl") as sink:
        sink.write(deliveries(fact(1)))
    with pytest.raises(RuntimeError), open_sink("memory://bucket/facts.jsonl") as sink:  # noqa: PT012
        sink.write(deliveries(fact(2)))
        raise RuntimeError
    assert memory.cat_file("/bucket/facts.jsonl") == fact(1).to_json() + b"\n"


def test_an_object_cannot_be_added_to_and_the_way_out_is_named(memory: Any) -> None:
    with pytest.raises(SinkError, match="Parquet"):
        open_sink("memory://bucket/facts.jsonl", append=True)


def test_a_scheme_that_nobody_knows_is_wrong_usage() -> None:
    with pytest.raises(UnknownSink, match="fsspec"):
        open_sink("nonsense://bucket/facts.jsonl")


def test_what_a_store_says_is_not_repeated_nor_is_a_password(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "hunter2 is wrong")

    sink = open_sink("memory://user:hunter2@bucket/facts.jsonl?key=hunter2")
    sink.write(deliveries(fact(1)))
    monkeypatch.setattr(type(memory), "open", broken)
    with pytest.raises(SinkError) as caught:
        sink.close()
    assert "hunter2" not in str(caught.value)
    assert "PermissionError" in str(caught.value)
