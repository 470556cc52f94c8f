# SPDX-License-Identifier: Apache-2.0
"""The sidecar's settings: file, environment and options, what is refused and how, and `--check`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sediment_otel.settings import SettingsError
from sediment_otel.sidecar.config import Address, ServeConfig, load, shown

MIB = 1024 * 1024


def test_options_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    path.write_text('settle = 1\ngrace = 2\nmin_free = "3MiB"\n[translation]\norg = "file"\nraw = "residual"\n')
    environment = {
        "SEDIMENT_OTEL_SERVE_SETTLE": "10",
        "SEDIMENT_OTEL_SERVE_GRACE": "20",
        "SEDIMENT_OTEL_ORG_ID": "environment",
    }
    found = load(path, environment, settle=100.0, http=None, translation={"include_failed": True})
    assert (found.settle, found.grace, found.min_free) == (100.0, 20.0, 3 * MIB)
    assert (found.translation.org, found.translation.raw, found.translation.include_failed) == (
        "environment",
        "residual",
        True,
    )
    assert found.http == ServeConfig().http


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), (7, 7), ("64MiB", 64 * MIB), ("2 GiB", 2048 * MIB), ("8k", 8192), ("3mb", 3 * MIB), ("10b", 10)],
)
def test_sizes_are_read(text: Any, value: int) -> None:
    assert load(None, {}, disk_budget=text).disk_budget == value


WRONG: dict[str, dict[str, Any]] = {
    "size without a number": {"disk_budget": "many"},
    "negative size": {"min_free": "-5"},
    "negative seconds": {"settle": -1},
    "seconds that are none": {"settle": "soon"},
    "address without a port": {"http": "localhost"},
    "port that is none": {"grpc": "localhost:99999"},
    "forward without a scheme": {"forward": "collector:4318"},
    "translation": {"translation": {"org": "Not An Org"}},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_named(name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, {}, **WRONG[name])
    key = next(iter(WRONG[name]))
    assert ("org" if key == "translation" else key) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("settel = 5", "settel"),
        ("[translation]\nog = 'x'", "translation.og"),
        ("token = 'secret-value'", "token_file"),
        ("settle = ", "is not TOML"),
        ("translation = 5", "must be a table"),
    ],
)
def test_a_wrong_file_is_said_without_its_content(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "serve.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(path, {})
    assert words in str(caught.value)
    assert "secret-value" not in str(caught.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path / "none.toml", {})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tls_cert": "x"}, "tls_cert and tls_key"),
        ({"tls_client_ca": "x"}, "tls_client_ca"),
        ({"token_file": "/nowhere/token"}, "token_file"),
        ({"http": "off", "grpc": "off"}, "at least one"),
        ({"tls_cert": "/nowhere/c", "tls_key": "/nowhere/k"}, "tls_cert"),
        ({"sinks": ["facts.txt"]}, r"sinks: facts\.txt: is no sink"),
        ({"sinks": ["s3://bucket/facts.jsonl"]}, "cannot be added to"),
        ({"sinks": ["facts.jsonl.gz"]}, "cannot be added to"),
        ({"sinks": ["facts.parquet"]}, "cannot be added to"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load(None, {}, **options).check()


def test_what_is_risky_is_said() -> None:
    assert load(None, {}).check() == []
    (open_to_all,) = load(None, {}, http="0.0.0.0:4318").check()
    assert "from anyone" in open_to_all
    (in_the_clear,) = load(None, {"SEDIMENT_OTEL_SERVE_TOKEN": "x"}, grpc="[::]:4317").check()
    assert "in the clear" in in_the_clear
    (unredacted,) = load(None, {}, forward="http://user:pw@host:4318/x?key=1").check()
    assert "unredacted" in unredacted
    assert "pw" not in unredacted
    (never,) = load(None, {}, memory_budget="1MiB").check()
    assert "for ever" in never


def test_secrets_are_not_in_representations() -> None:
    assert "s3cret" not in repr(load(None, {"SEDIMENT_OTEL_SERVE_TOKEN": "s3cret"}))
    assert shown("https://u:p@host:1/path?k=v") == "https://host:1/path"


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:1", "127.0.0.1", 1, True),
        ("[::1]:4317", "::1", 4317, True),
        ("localhost:2", "localhost", 2, True),
        ("0.0.0.0:3", "0.0.0.0", 3, False),
        ("[::]:3", "::", 3, False),
        ("example.test:3", "example.test", 3, False),
    ],
)
def test_addresses_are_understood(text: str, host: str, port: int, loopback: bool) -> None:
    address = Address(text)
    assert (address.host, address.port, address.loopback) == (host, port, loopback)


def check(*options: str) -> tuple[int, str]:
    code = "from sediment_otel.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", "--check", *options]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return found.returncode, found.stderr


def test_check_says_whether_the_configuration_is_good(tmp_path: Path) -> None:
    data = tmp_path / "data"
    code, text = check("--data", str(data))
    assert code == 0
    assert "the configuration is good" in text
    assert not data.exists()
    code, text = check("--settle=-1")
    assert code == 2
    assert "settle" in text
    assert "Traceback" not in text
