# SPDX-License-Identifier: Apache-2.0
"""Log records of coding agents, and what the translation makes of the calls among them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sediment_otel.dialects import registry
from sediment_otel.dialects.base import LogCall
from sediment_otel.pipeline import log_subject, translate_log_call
from sediment_otel.settings import Settings
from sediment_otel.telemetry import LogRecord, Resource, Scope
from sediment_otel.translate.call import Translation

SECOND = 1_000_000_000
START = 1_790_000_000 * SECOND


def record(
    name: str,
    attributes: dict[str, Any],
    *,
    at: float = 0.0,
    service: str = "",
    scope: str = "",
    body: Any = None,
    span: tuple[str, str] | None = None,
) -> LogRecord:
    """A record `at` seconds after the start; lists and objects among the attributes stand there as JSON text."""
    return LogRecord(
        trace_id=span[0] if span else None,
        span_id=span[1] if span else None,
        time_ns=START + int(at * SECOND),
        event_name=name,
        body=body,
        attributes={k: json.dumps(v) if type(v) in (list, dict) else v for k, v in attributes.items()},
        resource=Resource(attributes={"service.name": service} if service else {}),
        scope=Scope(name=scope),
    )


def calls(records: Sequence[LogRecord]) -> list[tuple[str, LogCall]]:
    """The calls that the wanted ones of these records describe, with their dialects."""
    return list(registry.log_calls([item for item in records if registry.wanted(item)]))


def translations(records: Sequence[LogRecord], **settings: Any) -> list[Translation]:
    """What becomes of each of these calls."""
    chosen = Settings(**settings)
    return [translate_log_call(dialect, call, chosen) for dialect, call in calls(records)]


def facts(records: Sequence[LogRecord], **settings: Any) -> list[dict[str, Any]]:
    """The facts of these calls; a call that is skipped fails the test."""
    found = []
    for item in translations(records, **settings):
        assert item.encoded is not None, (item.reason, item.note)
        found.append(json.loads(item.encoded))
    return found


__all__ = ["START", "calls", "facts", "log_subject", "record", "translations"]
