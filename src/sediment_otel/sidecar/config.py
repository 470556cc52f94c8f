# SPDX-License-Identifier: Apache-2.0
"""How the sidecar is set up: a TOML file, then `SEDIMENT_OTEL_SERVE_*`, then options, the later ones winning.

Every setting has one name in all three places (`settle`, `SEDIMENT_OTEL_SERVE_SETTLE`, `--settle`). Secrets are
never given on the command line: a token stands in a file or in `SEDIMENT_OTEL_SERVE_TOKEN`. The settings of
the translation itself are those of `Settings`, in the file under `[translation]`.
A wrong value raises `SettingsError`, which names the setting and what is accepted.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ..settings import Settings, SettingsError
from ..sinks.base import UnknownSink
from ..sinks.registry import check_sink

PREFIX = "SEDIMENT_OTEL_SERVE_"
MIB = 1024 * 1024


class Address(str):
    """`host:port`; an IPv6 host stands in brackets. Port 0 lets the system choose. `off` is no address."""

    @property
    def on(self) -> bool:
        """Whether anything listens there."""
        return self != "off"

    @property
    def host(self) -> str:
        """The host without brackets."""
        return self.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port."""
        return int(self.rpartition(":")[2])

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


_HTTP, _GRPC, _OFF = Address("127.0.0.1:4318"), Address("127.0.0.1:4317"), Address("off")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """Everything that `serve` depends on besides the translation."""

    data: Path = Path("sediment-otel-data")
    http: Address = _HTTP
    grpc: Address = _GRPC
    admin: Address = _OFF
    sinks: tuple[str, ...] = ()
    settle: float = 5.0
    forward: str | None = None
    max_request_bytes: int = 64 * MIB
    memory_budget: int = 128 * MIB
    journal_budget: int = 4096 * MIB
    disk_budget: int = 0
    min_free: int = 64 * MIB
    read_timeout: float = 30.0
    grace: float = 20.0
    token_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    translation: Settings = field(default_factory=Settings)

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.data / "journal.db"

    @property
    def store(self) -> Path:
        """The embedded store's file."""
        return self.data / "facts.db"

    def bearer(self) -> str | None:
        """The token that senders must show, from its file or the environment. Raises `SettingsError`."""
        if self.token_file is None:
            return self.token
        try:
            text = self.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeError) as error:
            raise SettingsError(f"token_file {self.token_file}: cannot be read ({type(error).__name__})") from None
        if not text:
            raise SettingsError(f"token_file {self.token_file}: is empty")
        return text

    def check(self) -> list[str]:
        """What a careful reader would object to; raises `SettingsError` for what cannot work."""
        token = self.bearer()
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SettingsError("tls_cert and tls_key: give both, or neither")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise SettingsError("tls_client_ca: needs tls_cert and tls_key")
        for name in ("tls_cert", "tls_key", "tls_client_ca"):
            path = getattr(self, name)
            if path is not None and not os.access(path, os.R_OK):
                raise SettingsError(f"{name} {path}: cannot be read")
        if not self.http.on and not self.grpc.on:
            raise SettingsError("http and grpc: at least one must listen")
        for sink in self.sinks:
            try:
                check_sink(sink)
            except UnknownSink as error:
                raise SettingsError(f"sinks: {error}") from None
        warnings = []
        if self.memory_budget < self.max_request_bytes:
            warnings.append(
                f"memory_budget is {self.memory_budget}, less than max_request_bytes ({self.max_request_bytes}):"
                " a request of more than the budget may be told to come again for ever"
            )
        for name, address in (("http", self.http), ("grpc", self.grpc)):
            if not address.on or address.loopback:
                continue
            if token is None and self.tls_client_ca is None:
                warnings.append(
                    f"{name} listens on {address}, reachable from other machines, and takes data from anyone"
                )
            if token is not None and self.tls_cert is None:
                warnings.append(
                    f"{name} listens on {address} without TLS: the token and the content travel in the clear"
                )
        if self.forward is not None:
            warnings.append(f"forward: {shown(self.forward)} gets the original telemetry, unredacted")
        return warnings


def shown(url: str) -> str:
    """A URL for people: without user, password, query."""
    parts = urlsplit(url)
    if not parts.scheme or not parts.netloc:
        return url
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def load(path: Path | None, environment: Mapping[str, str], **options: Any) -> ServeConfig:
    """The configuration from a file, the environment and options (None: not given)."""
    given: dict[str, Any] = {}
    translation: dict[str, Any] = {}
    if path is not None:
        given, translation = _from_file(path)
    for item in fields(ServeConfig):
        text = environment.get(PREFIX + item.name.upper(), "")
        if text.strip() and item.name != "translation":
            given[item.name] = _from_text(item.name, text)
    settings = options.pop("translation", None)
    given.update({key: value for key, value in options.items() if value is not None})
    values = {key: _checked(key, value) for key, value in given.items()}
    environment_wins = {**_settings_of(translation)}
    values["translation"] = Settings.from_environment(environment, **_without(environment_wins, environment, settings))
    return ServeConfig(**values)


def _without(
    from_file: dict[str, Any], environment: Mapping[str, str], options: dict[str, Any] | None
) -> dict[str, Any]:
    """Values of the file that neither the environment nor an option overrides, and the options."""
    variables = {item.name: item.metadata["variable"] for item in fields(Settings)}
    kept = {key: value for key, value in from_file.items() if not environment.get(variables[key], "").strip()}
    return {**kept, **(options or {})}


def _settings_of(table: dict[str, Any]) -> dict[str, Any]:
    known = {item.name for item in fields(Settings)}
    for key in table:
        if key not in known:
            raise SettingsError(f"translation.{key}: no such setting; there are {', '.join(sorted(known))}")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def _from_file(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        table = msgspec.toml.decode(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror})") from None
    except ImportError:
        raise SettingsError(f"{path}: reading TOML on Python 3.10 needs the extra `sidecar`") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise SettingsError(f"{path}: is not TOML ({error})") from None
    translation = table.pop("translation", {})
    if not isinstance(translation, dict):
        raise SettingsError(f"{path}: translation must be a table")
    known = {item.name for item in fields(ServeConfig)} - {"token"}
    for key in table:
        if key == "token":
            raise SettingsError(f"{path}: a token does not stand here: name a file with token_file")
        if key not in known:
            raise SettingsError(f"{path}: {key}: no such setting; there are {', '.join(sorted(known))}")
    return table, translation


_NUMBERS = ("max_request_bytes", "memory_budget", "journal_budget", "disk_budget", "min_free")
_SECONDS = ("settle", "read_timeout", "grace")
_PATHS = ("data", "token_file", "tls_cert", "tls_key", "tls_client_ca")
_ADDRESSES = ("http", "grpc", "admin")
_UNITS = {"": 1, "k": 1024, "kib": 1024, "m": MIB, "mib": MIB, "g": 1024 * MIB, "gib": 1024 * MIB}


def _from_text(name: str, text: str) -> Any:
    if name == "sinks":
        return [part.strip() for part in text.split(",") if part.strip()]
    return text.strip()


def _checked(name: str, value: Any) -> Any:
    if name in _NUMBERS:
        return _bytes(name, value)
    if name in _SECONDS:
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = -1.0
        if not 0 <= seconds <= 86400:
            raise SettingsError(f"{name} {value!r}: must be seconds, from 0 to 86400")
        return seconds
    if name in _PATHS:
        return Path(value)
    if name in _ADDRESSES:
        return _address(name, value)
    if name == "sinks":
        return (value,) if isinstance(value, str) else tuple(value)
    if name == "forward" and urlsplit(str(value)).scheme not in ("http", "https"):
        raise SettingsError(
            f"forward {shown(str(value))!r}: must be the http:// or https:// base URL of an OTLP receiver"
        )
    return value


def _bytes(name: str, value: Any) -> int:
    text = str(value).strip().lower().replace(" ", "")
    digits = text.rstrip("bkmgi")
    unit = _UNITS.get(
        text[len(digits) :].rstrip("b") if text.endswith("b") and not text.endswith("ib") else text[len(digits) :]
    )
    if unit is None or not digits.isdigit():
        raise SettingsError(f"{name} {value!r}: must be a number of bytes, as in 67108864 or 64MiB")
    return int(digits) * unit


def _address(name: str, value: Any) -> Address:
    text = str(value).strip()
    if text == "off":
        return Address(text)
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise SettingsError(f"{name} {text!r}: must be host:port, as in 127.0.0.1:4318, or off")
    return Address(text)
