# SPDX-License-Identifier: Apache-2.0
"""Whatever bytes come in, by whichever door and in whichever form: decoding ends and raises nothing."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from fuzz_kit import capture_items, capture_texts, damaged_bytes, examples, otlp
from sediment_otel.otlp import decode_json, decode_protobuf
from sediment_otel.otlp.encode import encode_protobuf_logs
from sediment_otel.otlp.encode import encode_protobuf_traces as encode_protobuf
from sediment_otel.otlp.light import read_light
from sediment_otel.pipeline import Entries, glance, glance_light
from sediment_otel.settings import Settings
from sediment_otel.sources.documents import scan
from sediment_otel.sources.files import decode_document
from sediment_otel.sources.inflate import InflateError, inflate_bytes, inflated, is_compressed
from sediment_otel.telemetry import Batch, LogRecord, Rejected, Span
from sediment_otel.translate.call import translate

LIMIT = 1 << 20


def spans_of(name: str) -> list[Span]:
    return [item for item in capture_items(name) if isinstance(item, Span)][:4]


def records_of(name: str) -> list[LogRecord]:
    return [item for item in capture_items(name) if isinstance(item, LogRecord)][:4]


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def varint(data: bytes) -> bytes:
    size, prefix = len(data), bytearray()
    while size > 127:
        prefix.append(size & 127 | 128)
        size >>= 7
    return bytes([*prefix, size]) + data


FORMS: dict[str, Callable[[str], bytes]] = {
    "as it is": lambda name: capture_texts()[name].encode()[:20_000],
    "OTLP JSON Lines": lambda name: (otlp(name, 2) + "\n").encode() * 2,
    "protobuf": lambda name: encode_protobuf(spans_of(name)),
    "protobuf logs": lambda name: encode_protobuf_logs(records_of(name)),
    "behind four bytes": lambda name: framed(encode_protobuf(spans_of(name)[:2])) * 2,
    "behind a varint": lambda name: varint(encode_protobuf(spans_of(name)[:2])) * 2,
    "zstd behind four bytes": lambda name: framed(zstandard.compress(encode_protobuf(spans_of(name)[:2]))),
    "gzip": lambda name: gzip.compress(otlp(name, 2).encode()),
    "zstd": lambda name: zstandard.compress(otlp(name, 2).encode()),
}


def read_all(data: bytes) -> list[Batch]:
    """The documents of a file of these bytes, decoded."""
    stream = io.BufferedReader(io.BytesIO(data))  # type: ignore[arg-type]
    if is_compressed(data[:4]):
        stream = inflated(stream, data[:4])
    batches = []
    for document in scan(stream, "x", limit=LIMIT):
        entries = Entries()
        light = read_light(document.data) if document.form == "json" and not document.problem else None
        if light is None or not glance_light(light, Settings(), entries):
            glance(decode_document(document), Settings(), entries)
        batches.append(decode_document(document))
    return batches


def check(batch: Batch) -> None:
    for item in batch.items:
        assert isinstance(item, (Span, LogRecord, Rejected))
        if isinstance(item, Span):
            translate(item, Settings(session_id="s"))
        elif isinstance(item, Rejected):
            assert item.reason


@pytest.mark.parametrize("form", FORMS)
@examples(150)
@given(name=st.sampled_from(sorted(capture_texts())), seed=st.integers(0, 2**32), times=st.integers(1, 6))
def test_a_damaged_file_of_any_form_is_read(form: str, name: str, seed: int, times: int) -> None:
    for batch in read_all(damaged_bytes(FORMS[form](name), random.Random(seed), times)):
        check(batch)


@pytest.mark.parametrize("decode", [decode_json, decode_protobuf])
@examples(200)
@given(name=st.sampled_from(sorted(capture_texts())), seed=st.integers(0, 2**32), strict=st.booleans())
def test_a_damaged_request_is_decoded(decode: Callable[..., Batch], name: str, seed: int, strict: bool) -> None:
    data = otlp(name, 3).encode() if decode is decode_json else encode_protobuf(spans_of(name))
    check(decode(damaged_bytes(data, random.Random(seed), 3), strict=strict))


@examples(750)
@given(
    st.one_of(st.binary(max_size=300), st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
)
def test_arbitrary_bytes_are_read(data: bytes) -> None:
    for batch in (*read_all(data), decode_json(data), decode_protobuf(data)):
        check(batch)
    with suppress(InflateError):
        assert len(inflate_bytes(b"\x1f\x8b" + data, LIMIT)) <= LIMIT


@examples(500)
@given(st.lists(st.sampled_from('{}[],:"\\ \n\x00-1e9tfnaé\ud800ab'), max_size=60).map("".join))
def test_pieces_of_json_are_read(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    for batch in (*read_all(data), decode_json(data), decode_json(text)):
        check(batch)
