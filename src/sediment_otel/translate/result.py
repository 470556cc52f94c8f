# SPDX-License-Identifier: Apache-2.0
"""What translating a span needs beside the span, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..facts import InferenceCall
from ..genai import Detection, Loss, Reading
from ..telemetry import Span
from ..vocabulary import Outcome, SkipReason
from .select import Decision


class Context(msgspec.Struct, frozen=True):
    """What was found outside the span: the session of its nearest ancestor that has one, the user there, and where.

    `wrapper` is what the leaf rule decided for a span of several in one nest. `incomplete` says that
    ancestors were still open when this was decided.
    """

    session_id: str | None = None
    session_source: str = ""
    wrapper: bool = False
    incomplete: bool = False
    user_id: str | None = None
    user_source: str = ""

    @classmethod
    def of(cls, decision: Decision, incomplete: bool = False) -> Context:
        """What the tree decided."""
        return cls(
            decision.session,
            decision.session_source,
            decision.wrapper,
            incomplete,
            decision.user,
            decision.user_source,
        )


NOTHING = Context()


class Translation(msgspec.Struct):
    """What became of one span. `encoded` is the fact's JSON (redacted, checked), None for a skip.

    `losses` have codes and pointers, never content. `provenance` names, per field, where its value stood, and
    `reading` is the GenAI form; both are there only where the translation was asked to go the whole way.
    """

    outcome: Outcome
    span: Span
    detection: Detection
    reason: SkipReason | None = None
    note: str = ""
    losses: list[Loss] = []
    encoded: bytes | None = None
    inference_call_id: str | None = None
    session_id: str | None = None
    org_id: str = ""
    gateway_provider: str = "unknown"
    model_call_id: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    observed_at: str = ""
    incomplete: bool = False
    provenance: Mapping[str, str] = {}
    reading: Reading | None = None

    @property
    def fact(self) -> InferenceCall | None:
        """The fact as a typed value, decoded from `encoded` and checked once more; None for a skip."""
        return None if self.encoded is None else InferenceCall.from_json(self.encoded)


def skipped(
    span: Span, detection: Detection, reason: SkipReason, note: str, reading: Reading | None = None
) -> Translation:
    """A span that gives no fact, and why."""
    return Translation(Outcome.SKIPPED, span, detection, reason, note, reading=reading)


def bounded(found: Translation, limit: int) -> Translation:
    """A fact that exceeds the limit is none."""
    if found.encoded is not None and len(found.encoded) > limit:
        found.outcome, found.reason = Outcome.SKIPPED, SkipReason.OVERSIZED
        found.note = f"{len(found.encoded)} bytes, the limit is {limit}"
        found.encoded, found.losses = None, []
    return found
