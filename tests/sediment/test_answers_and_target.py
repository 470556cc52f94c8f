# SPDX-License-Identifier: Apache-2.0
"""What an answer means, which addresses and tokens are taken. No server is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sediment_otel.sinks.base import SinkError, UnknownSink
from sediment_otel.sinks.sediment.answers import WAYS_OUT, Fate, classify, retry_after
from sediment_otel.sinks.sediment.target import is_loopback, target_of

TOKEN = {"SEDIMENT_OTEL_TOKEN": "a-token-that-nobody-else-has"}


@pytest.mark.parametrize(
    ("status", "body", "fate", "reason"),
    [
        (200, b'{"fact_id":"f","stored":true}', Fate.STORED, ""),
        (200, b'{"fact_id":"f","stored":false}', Fate.DUPLICATE, ""),
        (200, b'{"fact_id":"other","stored":false}', Fate.COLLAPSED, "model_call_id_reused"),
        (200, b'{"skipped":true,"reason":"no_session"}', Fate.SKIPPED, "no_session"),
        (200, b'{"skipped":true,"reason":"another"}', Fate.AGAIN, "invalid_acknowledgment"),
        (200, b'{"skipped":false,"reason":"no_session"}', Fate.AGAIN, "invalid_acknowledgment"),
        (200, b'{"fact_id":"f","stored":true,"more":1}', Fate.AGAIN, "invalid_acknowledgment"),
        (200, b'{"fact_id":"f"}', Fate.AGAIN, "invalid_acknowledgment"),
        (200, b'{"fact_id":7,"stored":true}', Fate.AGAIN, "invalid_acknowledgment"),
        (200, b"<html>", Fate.AGAIN, "invalid_acknowledgment"),
        (200, b"", Fate.AGAIN, "invalid_acknowledgment"),
        (200, b"\xff", Fate.AGAIN, "invalid_acknowledgment"),
        (200, b"[" * 100_000, Fate.AGAIN, "invalid_acknowledgment"),
        (204, b"", Fate.AGAIN, "invalid_acknowledgment"),
        (301, b"", Fate.BLOCKED, "redirect_rejected"),
        (307, b"", Fate.BLOCKED, "redirect_rejected"),
        (400, b"", Fate.REFUSED, "client_rejected"),
        (401, b"", Fate.BLOCKED, "authentication_rejected"),
        (403, b"", Fate.BLOCKED, "authentication_rejected"),
        (404, b"", Fate.BLOCKED, "no_such_door"),
        (408, b"", Fate.AGAIN, "http_408"),
        (409, b'{"detail":{"code":"inference_call_identity_conflict"}}', Fate.CONFLICT, "identity_conflict"),
        (413, b"", Fate.REFUSED, "too_large_for_target"),
        (422, b"", Fate.REFUSED, "client_rejected"),
        (429, b"", Fate.AGAIN, "http_429"),
        (500, b"", Fate.AGAIN, "server_error"),
        (503, b"", Fate.AGAIN, "http_503"),
    ],
)
def test_an_answer_is_classified(status: int, body: bytes, fate: Fate, reason: str) -> None:
    found = classify(status, body, "f")
    assert (found.fate, found.reason) == (fate, reason)


def test_another_id_than_ours_is_kept() -> None:
    assert classify(200, b'{"fact_id":"other","stored":true}', "f").fact_id == "other"
    assert classify(200, b'{"fact_id":"f","stored":true}', "f").fact_id is None


def test_every_reason_that_ends_a_facts_way_has_a_way_out() -> None:
    reasons = {classify(status, b"", "f") for status in range(200, 600)}
    for answer in reasons:
        if answer.fate in (Fate.BLOCKED, Fate.REFUSED, Fate.CONFLICT):
            assert answer.reason in WAYS_OUT


@pytest.mark.parametrize(
    ("value", "seconds"), [(None, None), ("3", 3.0), (" 7 ", 7.0), ("-1", None), ("Mon, 1 Jan", None), ("٣", None)]
)
def test_retry_after_is_read_as_seconds(value: str | None, seconds: float | None) -> None:
    assert retry_after(value) == seconds


@pytest.mark.parametrize(
    ("url", "scheme", "host", "port", "prefix"),
    [
        ("sediment+https://sediment.example.com", "https", "sediment.example.com", None, ""),
        ("sediment+https://sediment.example.com:8443/", "https", "sediment.example.com", 8443, ""),
        ("sediment+https://example.com/sediment", "https", "example.com", None, "/sediment"),
        ("sediment+https://example.com/ingest/gateway", "https", "example.com", None, ""),
        ("sediment+http://127.0.0.1:8000", "http", "127.0.0.1", 8000, ""),
        ("sediment+http://localhost", "http", "localhost", None, ""),
        ("sediment+http://[::1]:8000", "http", "::1", 8000, ""),
    ],
)
def test_an_address_is_understood(url: str, scheme: str, host: str, port: int | None, prefix: str) -> None:
    found = target_of(url, TOKEN)
    assert (found.scheme, found.host, found.port, found.prefix) == (scheme, host, port, prefix)
    assert found.token == TOKEN["SEDIMENT_OTEL_TOKEN"]


@pytest.mark.parametrize(
    "url",
    [
        "sediment+http://sediment.example.com",
        "sediment+http://10.0.0.1",
        "sediment+http://127.0.0.1.example.com",
        "sediment+https://",
        "sediment+https://user:hunter2@example.com",
        "sediment+https://example.com:port",
        "sediment+https://example.com/#part",
        "sediment+https://example.com?no_such=1",
        "sediment+https://example.com?in_flight=0",
        "sediment+https://example.com?in_flight=many",
        "sediment+https://example.com?patience=nan",
        "sediment+ftp://example.com",
        "sediment+https://[::1",
    ],
)
def test_an_address_that_will_not_do_is_wrong_usage_and_says_so(url: str) -> None:
    with pytest.raises(UnknownSink) as caught:
        target_of(url, TOKEN)
    assert "hunter2" not in str(caught.value)


def test_the_token_comes_from_a_file_before_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-the-file\n", encoding="ascii")
    assert target_of(f"sediment+https://h?token_file={file}", TOKEN).token == "from-the-file"
    assert target_of("sediment+https://h", {**TOKEN, "SEDIMENT_OTEL_TOKEN_FILE": str(file)}).token == "from-the-file"
    assert target_of("sediment+https://h", {"SEDIMENT_INGEST_TOKEN": "theirs"}).token == "theirs"


def test_no_token_and_a_token_that_is_none_are_said(tmp_path: Path) -> None:
    with pytest.raises(UnknownSink, match="SEDIMENT_OTEL_TOKEN"):
        target_of("sediment+https://h", {})
    with pytest.raises(SinkError, match="cannot be read"):
        target_of(f"sediment+https://h?token_file={tmp_path / 'missing'}", {})
    for text in (b"", b"two words", b"line\nbreak", b"\xff\xfe"):
        (tmp_path / "bad").write_bytes(text)
        with pytest.raises(SinkError):
            target_of(f"sediment+https://h?token_file={tmp_path / 'bad'}", {})


@pytest.mark.parametrize(
    ("host", "there"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("LOCALHOST", True), ("0.0.0.0", False), ("lo", False)],
)
def test_loopback_is_known(host: str, there: bool) -> None:
    assert is_loopback(host) is there
