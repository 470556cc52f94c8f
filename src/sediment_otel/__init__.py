# SPDX-License-Identifier: Apache-2.0
"""Turns OpenTelemetry GenAI traces into Sediment `InferenceCall` facts, and back.

    from sediment_otel import Settings, read_traces, restore, translate

    for translation in read_traces("traces.jsonl", Settings(org="acme")):
        if translation.fact is not None: ...

`translate(span, settings)` is the one translation of a span, `restore(fact)` its inverse, `read_traces(path)` reads
files with all that spans need to know of each other. What goes in are `Span` and `LogRecord`, what comes out is an
`InferenceCall`; both are frozen. See `docs/api.md`.

Names are imported when they are first used: importing the package itself costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .facts import (
        FactError,
        InferenceCall,
        InferenceMessage,
        ReasoningPart,
        TextPart,
        ToolCallPart,
        ToolCallResponsePart,
    )
    from .genai import Detection, Loss
    from .settings import Settings, SettingsError
    from .sources.files import SourceError
    from .telemetry import LogRecord, Resource, Scope, Span, SpanEvent, SpanLink
    from .traces import read_traces
    from .translate.call import Context, Translation, translate
    from .translate.restore import RestoreError, restore
    from .vocabulary import LossCode, Outcome, SkipReason, SpanRole

#: Public name → the module that has it.
_HOMES: dict[str, str] = {
    name: module
    for module, names in {
        "facts": (
            "FactError",
            "InferenceCall",
            "InferenceMessage",
            "ReasoningPart",
            "TextPart",
            "ToolCallPart",
            "ToolCallResponsePart",
        ),
        "genai": ("Detection", "Loss"),
        "settings": ("Settings", "SettingsError"),
        "sources.files": ("SourceError",),
        "telemetry": ("LogRecord", "Resource", "Scope", "Span", "SpanEvent", "SpanLink"),
        "traces": ("read_traces",),
        "translate.call": ("Context", "Translation", "translate"),
        "translate.restore": ("RestoreError", "restore"),
        "vocabulary": ("LossCode", "Outcome", "SkipReason", "SpanRole"),
    }.items()
    for name in names
}

__all__ = [
    "Context",
    "Detection",
    "FactError",
    "InferenceCall",
    "InferenceMessage",
    "LogRecord",
    "Loss",
    "LossCode",
    "Outcome",
    "ReasoningPart",
    "Resource",
    "RestoreError",
    "Scope",
    "Settings",
    "SettingsError",
    "SkipReason",
    "SourceError",
    "Span",
    "SpanEvent",
    "SpanLink",
    "SpanRole",
    "TextPart",
    "ToolCallPart",
    "ToolCallResponsePart",
    "Translation",
    "read_traces",
    "restore",
    "translate",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
