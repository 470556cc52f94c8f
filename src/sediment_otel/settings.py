# SPDX-License-Identifier: Apache-2.0
"""What a user can set, with one name for the option, the variable and the argument.

`Settings(...)` from arguments, `Settings.from_environment()` from `SEDIMENT_OTEL_*`; each field says
its variable. A wrong value raises `SettingsError`, which names the setting, the value's fault and what
is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .facts import FactError, check_id, check_org
from .vocabulary import GatewayProvider, RawMode

PREFIX = "SEDIMENT_OTEL_"
DEFAULT_MAX_FACT_BYTES = 64 * 1024 * 1024


class SettingsError(ValueError):
    """A setting has a value that cannot be used. The message names it and the way out."""


def _setting(default: Any, variable: str, about: str) -> Any:
    return field(default=default, metadata={"variable": PREFIX + variable, "about": about})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that the translation of a span depends on besides the trace itself."""

    org: str = _setting("default", "ORG_ID", "organisation of the facts; never read from a span")
    session_attributes: tuple[str, ...] = _setting(
        (), "SESSION_ATTRIBUTES", "attribute keys that hold the session, tried first (comma separated)"
    )
    session_id: str | None = _setting(None, "SESSION_ID", "session for calls whose trace names none")
    gateway: str | None = _setting(
        None, "GATEWAY", "gateway_provider of every fact: litellm, portkey, helicone, unknown"
    )
    raw: str = _setting("full", "RAW", "full, or residual: leave out of raw what the fields hold")
    include_failed: bool = _setting(False, "INCLUDE_FAILED", "make facts of calls that ended in an error")
    max_fact_bytes: int = _setting(DEFAULT_MAX_FACT_BYTES, "MAX_FACT_BYTES", "largest fact, in bytes")
    keep_account_identity: bool = _setting(
        False, "KEEP_ACCOUNT_IDENTITY", "leave user.email, user.account_id, user.account_uuid in raw"
    )
    salvage: bool = _setting(False, "SALVAGE", "keep the complete leading messages of truncated message lists")
    content_locations: tuple[str, ...] = _setting(
        (), "CONTENT_LOCATIONS", "URL prefixes or directories from which *_ref attributes may be read (comma separated)"
    )

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "org", check_org(self.org))
        except FactError as error:
            raise SettingsError(f"org {self.org!r}: {error.rule}") from None
        if self.session_id is not None:
            try:
                object.__setattr__(self, "session_id", check_id("session_id", self.session_id))
            except FactError as error:
                raise SettingsError(f"session_id: {error.rule}") from None
        _one_of("gateway", self.gateway, [None, *(g.value for g in GatewayProvider)])
        _one_of("raw", self.raw, [m.value for m in RawMode])
        if type(self.max_fact_bytes) is not int or self.max_fact_bytes < 1:
            raise SettingsError(f"max_fact_bytes {self.max_fact_bytes!r}: must be a positive whole number")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], **overrides: Any) -> Settings:
        """Settings from `SEDIMENT_OTEL_*`; keyword arguments that are not None win. Blank means unset."""
        return cls(**_values(cls, environment, overrides))


OVERFLOWS = ("drop", "spool")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """How facts are made inside the traced process: where they go, and what is held for how long."""

    sink: str = _setting("", "SINK", "where facts go: facts.jsonl, facts.db, or a URL; there is no default")
    overflow: str = _setting(
        "drop", "OVERFLOW", "when the queue is full: drop the span and count it, or spool it to disk"
    )
    queue_size: int = _setting(2048, "QUEUE_SIZE", "ended model-call spans that may wait for the worker")
    waiting_size: int = _setting(
        2048, "WAITING_SIZE", "calls that may wait for their ancestors; as many log records and completions"
    )
    batch_size: int = _setting(512, "BATCH_SIZE", "facts that are written together")
    schedule_delay: float = _setting(1.0, "SCHEDULE_DELAY", "seconds between two looks at the queue")
    settle: float = _setting(30.0, "SETTLE", "seconds a call waits for its ancestors, and a log record for its span")
    log_wait: float = _setting(
        3.0, "LOG_WAIT", "seconds a call waits for records that come through the log exporter (0: not at all)"
    )
    retry: float = _setting(
        5.0, "RETRY", "seconds for which a failed write is tried again before its facts are dropped"
    )
    tree_size: int = _setting(20_000, "TREE_SIZE", "ended spans remembered for the leaf rule and for sessions")
    open_spans: int = _setting(10_000, "OPEN_SPANS", "open spans followed for sessions; the oldest are forgotten first")
    shutdown_timeout: float = _setting(
        10.0, "SHUTDOWN_TIMEOUT", "seconds that shutdown may take where nobody says otherwise"
    )
    spool_directory: str = _setting(
        "", "SPOOL_DIRECTORY", "where overflow=spool puts its file; blank: the temporary directory"
    )
    spool_bytes: int = _setting(1 << 30, "SPOOL_BYTES", "largest spool file, in bytes; beyond it spans are dropped")

    def __post_init__(self) -> None:
        _one_of("overflow", self.overflow, list(OVERFLOWS))
        for item in fields(self):
            value = getattr(self, item.name)
            if type(item.default) is int and (type(value) is not int or value < 1):
                raise SettingsError(f"{item.name} {value!r}: must be a positive whole number")
            if type(item.default) is float:
                if type(value) not in (int, float) or not 0 <= value < 1e9:
                    raise SettingsError(f"{item.name} {value!r}: must be a number of seconds, 0 or more")
                object.__setattr__(self, item.name, float(value))
            if type(item.default) is str and type(value) is not str:
                raise SettingsError(f"{item.name} {value!r}: must be text")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], **overrides: Any) -> ProcessSettings:
        """Settings from `SEDIMENT_OTEL_*`; keyword arguments that are not None win. Blank means unset."""
        return cls(**_values(cls, environment, overrides))


def _values(cls: type, environment: Mapping[str, str], overrides: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for item in fields(cls):
        text = environment.get(item.metadata["variable"], "")
        if text.strip():
            values[item.name] = _from_text(item.metadata["variable"], text, item.default)
    values.update({key: value for key, value in overrides.items() if value is not None})
    return values


def _one_of(name: str, value: Any, accepted: list[Any]) -> None:
    if value not in accepted:
        names = ", ".join(str(item) for item in accepted if item is not None)
        raise SettingsError(f"{name} {value!r}: must be one of {names}")


_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


def _from_text(variable: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        lowered = text.strip().lower()
        if lowered not in _TRUE | _FALSE:
            raise SettingsError(f"{variable}={text!r}: must be true or false")
        return lowered in _TRUE
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise SettingsError(f"{variable}={text!r}: must be a whole number") from None
    if isinstance(default, float):
        try:
            return float(text)
        except ValueError:
            raise SettingsError(f"{variable}={text!r}: must be a number of seconds") from None
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text
