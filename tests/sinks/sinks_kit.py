# SPDX-License-Identifier: Apache-2.0
"""Facts and child processes for the tests of the sinks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from sediment_otel.facts import InferenceCall
from sediment_otel.sinks import Delivery, SpanOutcome

SOURCE = Path(__file__).resolve().parents[2] / "src"


def delivery(number: int, *, session: str = "s-1", org: str = "acme", text: str = "", **changes: Any) -> Delivery:
    """The delivery of fact `number`: equal arguments give equal bytes. `encoded` replaces the bytes."""
    fact = InferenceCall(
        inference_call_id=f"call-{number}",
        org_id=org,
        session_id=session,
        user_id=None,
        gateway_provider="unknown",
        model_provider="openai",
        model="gpt-x",
        input_messages=[],
        output_messages=[],
        input_tokens=number,
        output_tokens=2,
        duration_ms=5,
        model_call_id=changes.pop("model_call_id", f"resp-{number}"),
        observed_at=changes.pop("observed_at", "2026-03-01T10:00:00.000000Z"),
        raw={"text": text} if text else {},
    )
    return Delivery.of(fact, encoded=changes.pop("encoded", None), capture_key=f"{number:032x}:{number:016x}")


def skip(number: int, reason: str = "no_session", losses: Any = ()) -> SpanOutcome:
    """The skip of the span from which `delivery(number)` comes."""
    return SpanOutcome(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        name="chat",
        dialect="gen_ai",
        outcome="skipped",
        reason=reason,
        losses=losses,
    )


def kept(number: int, losses: Any = ()) -> SpanOutcome:
    """The outcome "fact" of the span from which `delivery(number)` comes."""
    return SpanOutcome(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        name="chat",
        dialect="gen_ai",
        outcome="fact",
        losses=losses,
    )


def child(code: str, *arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """A Python process of its own that runs `code`, with this kit and the package within reach."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(SOURCE), str(Path(__file__).parent)]))
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env=environment,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )
