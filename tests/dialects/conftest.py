# SPDX-License-Identifier: Apache-2.0
"""Small spans for the tests of dialects: what a dialect makes of attributes, events and records."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sediment_otel.dialects import registry
from sediment_otel.genai import Detection, Reading, Subject
from sediment_otel.settings import Settings
from sediment_otel.telemetry import Resource, Scope, Span, SpanEvent
from sediment_otel.translate.call import Translation, translate_subject

sys.path.insert(0, str(Path(__file__).parent))  # agent_records


@dataclass(frozen=True)
class Given:
    """A span with what belongs to it, and what is made of it."""

    subject: Subject

    @property
    def detection(self) -> Detection:
        return registry.detect(self.subject.span)

    @property
    def reading(self) -> Reading:
        return registry.read(self.subject, self.detection)

    @property
    def input(self) -> list[Any] | None:
        messages = self.reading.input
        return None if messages is None else messages.open()

    @property
    def output(self) -> list[Any] | None:
        messages = self.reading.output
        return None if messages is None else messages.open()

    def translation(self, **settings: Any) -> Translation:
        return translate_subject(self.subject, Settings(session_id="s-1", **settings))

    @property
    def fact(self) -> dict[str, Any]:
        encoded = self.translation().encoded
        assert encoded is not None, self.translation().note
        found: dict[str, Any] = json.loads(encoded)
        return found


@pytest.fixture
def given() -> Callable[..., Given]:
    """Build a span from attributes; lists and objects stand there as JSON text (unless `structured`)."""

    def build(
        attributes: dict[str, Any],
        *,
        scope: str = "",
        name: str = "a span",
        events: tuple[SpanEvent, ...] = (),
        records: tuple[Any, ...] = (),
        siblings: tuple[Span, ...] = (),
        resource: dict[str, Any] | None = None,
        status: str = "unset",
        dropped_attributes: int = 0,
        structured: bool = False,
    ) -> Given:
        span = Span(
            trace_id="0af7651916cd43dd8448eb211c80319c",
            span_id="b7ad6b7169203331",
            name=name,
            start_ns=1_790_000_000_000_000_000,
            end_ns=1_790_000_001_000_000_000,
            attributes={
                key: json.dumps(v) if type(v) in (list, dict) and not structured else v for key, v in attributes.items()
            },
            dropped_attributes=dropped_attributes,
            events=list(events),
            scope=Scope(name=scope),
            resource=Resource(attributes=resource or {}),
            status_code=status,
        )
        return Given(Subject(span, records=records, siblings=siblings))

    return build
