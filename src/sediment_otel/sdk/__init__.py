# SPDX-License-Identifier: Apache-2.0
"""In process: facts from an application that traces its model calls, with one line or with none.

    provider.add_span_processor(SedimentSpanProcessor("facts.db"))

or, by the environment, `OTEL_TRACES_EXPORTER=sediment SEDIMENT_OTEL_SINK=facts.db`. See docs/in-process.md.
"""

from __future__ import annotations

from ..settings import ProcessSettings, Settings, SettingsError
from .account import Snapshot
from .hook import SedimentCompletionHook
from .logs import SedimentLogExporter, SedimentLogRecordProcessor
from .shared import SecondSpanPath
from .spans import SedimentSpanExporter, SedimentSpanProcessor

__all__ = [
    "ProcessSettings",
    "SecondSpanPath",
    "SedimentCompletionHook",
    "SedimentLogExporter",
    "SedimentLogRecordProcessor",
    "SedimentSpanExporter",
    "SedimentSpanProcessor",
    "Settings",
    "SettingsError",
    "Snapshot",
]
