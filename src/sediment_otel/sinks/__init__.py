# SPDX-License-Identifier: Apache-2.0
"""Where facts go (`open_sink`), and how they are read back (`read_facts`)."""

from __future__ import annotations

from .base import Delivery, ReaderGone, Receipt, Sink, SinkBase, SinkError, SinkOptions, SpanOutcome, StorageError
from .reading import FactRecord, FactsError, read_facts
from .registry import open_sink

__all__ = [
    "Delivery",
    "FactRecord",
    "FactsError",
    "ReaderGone",
    "Receipt",
    "Sink",
    "SinkBase",
    "SinkError",
    "SinkOptions",
    "SpanOutcome",
    "StorageError",
    "open_sink",
    "read_facts",
]
