# SPDX-License-Identifier: Apache-2.0
"""The completion hook of opentelemetry-util-genai: content that never stands on a span or in a log.

Naming the hook (`OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK=sediment`) is the consent to capture content: it works
with content capture off and for spans that are not sampled. With spans or log records of the same call in the same
pipeline one fact comes out.

It works beside the span processor or the exporter, and alone: it then looks at the span once it has ended.
"""

from __future__ import annotations

import time
from typing import Any

from opentelemetry import baggage
from opentelemetry.context import get_value
from opentelemetry.trace import Span

from ..settings import ProcessSettings, Settings
from ..sinks import Sink
from ..translate.identity import SESSION_KEY
from . import shared
from .account import Snapshot
from .completion import PendingCompletion, content_of, now_ns
from .options import resolve
from .quiet import quietly_log

#: Set in the context while a model call of opentelemetry-util-genai runs, and not while an agent or a tool does.
INFERENCE_CONTEXT = "opentelemetry.genai.client.inference.context"


class SedimentCompletionHook:
    """Takes typed messages from opentelemetry-util-genai. Arguments as for `SedimentSpanProcessor`."""

    def __init__(
        self,
        sink: str | Sink | None = None,
        settings: Settings | None = None,
        process: ProcessSettings | None = None,
        **options: Any,
    ) -> None:
        self._attached = shared.attach(shared.HOOK, *resolve(sink, settings, process, options))

    def on_completion(
        self,
        *,
        inputs: Any,
        outputs: Any,
        system_instruction: Any,
        tool_definitions: Any = None,
        span: Span | None = None,
        log_record: Any = None,
    ) -> None:
        """Copy the content and hand it to the worker. Never raises."""
        try:
            pipeline = self._attached.pipeline
            if span is None or pipeline.closed or not span.get_span_context().is_valid:
                return
            session = baggage.get_baggage(SESSION_KEY)
            recording = span.is_recording()
            pending = PendingCompletion(
                content=content_of(inputs, outputs, system_instruction),
                span=span,
                time_ns=now_ns(),
                arrived=time.monotonic(),
                session=str(session) if session is not None else None,
                record=log_record if not recording else None,
                is_call=recording or get_value(INFERENCE_CONTEXT) is not None,
            )
            if recording and not pending.sampled:
                pipeline.expect_unsampled(span.get_span_context().span_id)
            pipeline.note(pending)
        except Exception as error:
            quietly_log("hook", "a completion was not seen (%s)", type(error).__name__)

    def snapshot(self) -> Snapshot:
        """The account of the pipeline."""
        return self._attached.pipeline.snapshot()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """As for the span processor."""
        return self._attached.flush(timeout_millis)

    def shutdown(self, timeout_millis: int | None = None) -> None:
        """Let go of the pipeline; needed only where the hook stands alone and the process goes on."""
        self._attached.detach(timeout_millis)
