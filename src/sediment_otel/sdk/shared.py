# SPDX-License-Identifier: Apache-2.0
"""One pipeline for each sink and settings in a process, shared by its entry points.

Processor or exporter, log processor or log exporter, and completion hook attach to the same pipeline when their
settings are equal; pipelines with different ones share nothing. Spans may come by one path alone: a processor beside
an exporter would give every span twice, so the second is refused. A pipeline closes when its spans and its log
records have come to an end; what the application leaves open is closed when the interpreter exits.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from opentelemetry import trace
from opentelemetry._logs import get_logger_provider
from opentelemetry.metrics import MeterProvider

from ..settings import ProcessSettings, Settings, SettingsError
from ..sinks import Sink
from .pipeline import Pipeline

PROCESSOR, EXPORTER, LOG_PROCESSOR, LOG_EXPORTER, HOOK = (
    "SedimentSpanProcessor",
    "SedimentSpanExporter",
    "SedimentLogRecordProcessor",
    "SedimentLogExporter",
    "SedimentCompletionHook",
)
_SPAN_PATHS = {PROCESSOR: "processor", EXPORTER: "exporter"}


class SecondSpanPath(SettingsError):
    """Spans would reach one pipeline twice."""


class _Shared(NamedTuple):
    pipeline: Pipeline
    parts: list[str]
    #: Kept so that the identity of a sink that is an object stays its own.
    sink: str | Sink


_LOCK = threading.RLock()
_PIPELINES: dict[Any, _Shared] = {}


def _key(sink: str | Sink, settings: Settings, process: ProcessSettings) -> Any:
    where: Any = id(sink)
    if isinstance(sink, str):
        where = os.path.abspath(sink) if "://" not in sink and sink != "-" else sink
    return where, settings, process


def attach(
    part: str,
    sink: str | Sink,
    settings: Settings,
    process: ProcessSettings,
    meter_provider: MeterProvider | None = None,
) -> Attached:
    """Attach an entry point to its pipeline. Raises `SecondSpanPath`, `SinkError` for a sink that does not exist."""
    key = _key(sink, settings, process)
    with _LOCK:
        shared = _PIPELINES.get(key)
        if shared is None or shared.pipeline.closed:
            shared = _Shared(Pipeline(sink, settings, process, meter_provider=meter_provider), [], sink)
            _PIPELINES[key] = shared
            _follow_forks(shared.pipeline)
        if part in _SPAN_PATHS:
            present = next((other for other in shared.parts if other in _SPAN_PATHS), None)
            if present is not None:
                where = sink if isinstance(sink, str) else type(sink).__name__
                raise SecondSpanPath(
                    f"{part}: a {present} gives this process's spans to {where} already, each would come twice; "
                    "remove one of the two, or give them different sinks"
                )
            shared.pipeline.set_span_path(_SPAN_PATHS[part])
        if part == LOG_EXPORTER:
            shared.pipeline.logs_follow = True
        shared.parts.append(part)
    return Attached(key, part, shared.pipeline)


class Attached:
    """One entry point's hold on its pipeline."""

    def __init__(self, key: Any, part: str, pipeline: Pipeline) -> None:
        self._key = key
        self._part = part
        self.pipeline = pipeline
        self._done = False

    def flush(self, timeout_millis: float | None) -> bool:
        """Translate and write what was given so far; False where the time did not suffice."""
        return self.pipeline.force_flush(self._seconds(timeout_millis))

    def detach(self, timeout_millis: float | None = None) -> bool:
        """Let go. The last of the span and log parts closes the pipeline; a second call does nothing."""
        with _LOCK:
            if self._done:
                return True
            self._done = True
            shared = _PIPELINES.get(self._key)
            if shared is None or shared.pipeline is not self.pipeline:
                return True
            shared.parts.remove(self._part)
            rest = [part for part in shared.parts if part != HOOK]
            if not rest:
                del _PIPELINES[self._key]
        until = time.monotonic() + self._seconds(timeout_millis)
        pipeline = self.pipeline
        if self._part == LOG_EXPORTER and LOG_EXPORTER not in rest:
            pipeline.logs_follow = False
        if not rest:
            return pipeline.close(max(0.0, until - time.monotonic()))
        if self._part in _SPAN_PATHS:
            done = self._end_of_spans(until)
            pipeline.set_span_path(None)
            return done
        return pipeline.force_flush(max(0.0, until - time.monotonic()))

    def _end_of_spans(self, until: float) -> bool:
        """No span comes any more, but log records may: they get the time that a call waits for them."""
        pipeline = self.pipeline
        pipeline.force_flush(max(0.0, until - time.monotonic()))
        if pipeline.logs_follow:
            patience = min(until, time.monotonic() + pipeline.process.log_wait)
            while pipeline.snapshot().waiting and time.monotonic() < patience:
                time.sleep(0.02)
        return pipeline.force_flush(max(0.0, until - time.monotonic()), final=True)

    def _seconds(self, timeout_millis: float | None) -> float:
        return self.pipeline.process.shutdown_timeout if timeout_millis is None else max(0.0, timeout_millis / 1000)


def _follow_forks(pipeline: Pipeline) -> None:
    if hasattr(os, "register_at_fork"):
        reference = weakref.ref(pipeline)

        def tell(step: Callable[[Pipeline], None]) -> Callable[[], None]:
            def told() -> None:
                alive = reference()
                if alive is not None:
                    step(alive)

            return told

        os.register_at_fork(
            before=tell(lambda pipeline: pipeline.gate.close()),
            after_in_parent=tell(lambda pipeline: pipeline.gate.open()),
            after_in_child=tell(Pipeline.after_fork),
        )


def _after_fork() -> None:
    global _LOCK
    _LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _at_exit() -> None:
    """Registered when this module is imported, before providers usually are, so that it runs after theirs."""
    with _LOCK:
        left = list(_PIPELINES.values())
        _PIPELINES.clear()
    for shared in left:
        millis = int(shared.pipeline.process.shutdown_timeout * 1000)
        # Providers that exit after us still hold what their batch processors did not export.
        if EXPORTER in shared.parts:
            _flush(trace.get_tracer_provider(), millis)
        if LOG_EXPORTER in shared.parts:
            _flush(get_logger_provider(), millis)
        shared.pipeline.close(shared.pipeline.process.shutdown_timeout)


def _flush(provider: Any, millis: int) -> None:
    flush = getattr(provider, "force_flush", None)
    if flush is not None:
        try:
            flush(millis)
        except Exception:  # the application's own provider: nothing of it may keep us from closing
            return
