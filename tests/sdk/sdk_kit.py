# SPDX-License-Identifier: Apache-2.0
"""What the tests of `sediment_otel.sdk` share: spans of model calls, sinks that misbehave, facts read back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from sediment_otel.sinks import Delivery, Receipt, SinkBase, SinkError

NO_METERS = NoOpMeterProvider()


def text_message(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}], **more}


def call_attributes(ask: str | None = "hi", answer: str | None = "hello", **more: Any) -> dict[str, Any]:
    """Attributes of a model call in the current conventions; None leaves a direction out."""
    found: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    if ask is not None:
        found["gen_ai.input.messages"] = json.dumps([text_message("user", ask)])
    if answer is not None:
        found["gen_ai.output.messages"] = json.dumps([text_message("assistant", answer, finish_reason="stop")])
    return found | more


def provider_with(*processors: SpanProcessor, **options: Any) -> TracerProvider:
    provider = TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False, **options)
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


class MemorySink(SinkBase):
    """Keeps facts and outcomes. `before` is called at the start of every write, and may raise or block."""

    def __init__(self, before: Callable[[int], None] | None = None) -> None:
        self.facts: list[dict[str, Any]] = []
        self.outcomes: list[Any] = []
        self.writes = 0
        self.closed = False
        self.threads: set[str] = set()
        self._ids: dict[str, bytes] = {}
        self._before = before

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        self.writes += 1
        self.threads.add(threading.current_thread().name)
        if self._before is not None:
            self._before(self.writes)
        receipts = []
        for delivery in batch:
            known = self._ids.setdefault(delivery.inference_call_id, delivery.encoded)
            if known is delivery.encoded:
                self.facts.append(json.loads(delivery.encoded))
                receipts.append(Receipt.STORED)
            else:
                receipts.append(Receipt.DUPLICATE if known == delivery.encoded else Receipt.CONFLICT)
        return receipts

    def record_outcomes(self, outcomes: Sequence[Any]) -> None:
        self.outcomes.extend(outcomes)

    def close(self) -> None:
        self.closed = True

    def texts(self) -> list[str]:
        """What each fact's answer says."""
        return sorted(text_of(fact["output_messages"]) for fact in self.facts)


def text_of(messages: list[dict[str, Any]]) -> str:
    return "".join(part.get("content", "") for message in messages for part in message["parts"])


def broken(times: float = float("inf")) -> Callable[[int], None]:
    """Raises at the first so many writes."""

    def before(write: int) -> None:
        if write <= times:
            raise SinkError("is broken", "there", "mend it")

    return before


def lines_of(path: Path) -> list[bytes]:
    return sorted(path.read_bytes().splitlines()) if path.exists() else []


def facts_of(path: Path) -> list[dict[str, Any]]:
    facts = [json.loads(line) for line in lines_of(path)]
    return sorted(facts, key=lambda fact: (fact["observed_at"], fact["inference_call_id"]))
