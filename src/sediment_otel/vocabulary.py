# SPDX-License-Identifier: Apache-2.0
"""Closed vocabularies: one definition each, used by code, reports, metrics and documentation.

The wording of the members comes from the contract (sections 5 and 7). `way_out` texts are shown to
people; they name the option or the producer's setting that would change the outcome.
"""

from __future__ import annotations

from enum import Enum


class SkipReason(str, Enum):
    """Why a span (or a call known from log records alone) gave no fact, in the order they are tried."""

    NOT_A_MODEL_CALL = "not_a_model_call"
    WRAPPER = "wrapper"
    FAILED_CALL = "failed_call"
    MALFORMED = "malformed"
    TRUNCATED = "truncated"
    ENCRYPTED = "encrypted"
    NO_CONTENT = "no_content"
    NO_SESSION = "no_session"
    OVERSIZED = "oversized"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"


class LossCode(str, Enum):
    """What a fact does not hold although the trace did; each loss has a place (a JSON Pointer)."""

    MALFORMED_ARGUMENTS = "malformed_arguments"
    MISSING_ID = "missing_id"
    OPAQUE_REASONING = "opaque_reasoning"
    UNSUPPORTED_CONTENT = "unsupported_content"
    EXTRA_CHOICE = "extra_choice"
    WITHHELD_CONTENT = "withheld_content"
    DOUBLE_ENCODED = "double_encoded"
    INVALID_NUMBER = "invalid_number"
    INVALID_ID = "invalid_id"
    INVALID_TIME = "invalid_time"
    REPLACED_CHARACTER = "replaced_character"
    PARTIAL_HISTORY = "partial_history"
    ATTRIBUTES_DROPPED = "attributes_dropped"


class DropReason(str, Enum):
    """Why an ended span was never translated in process: it was lost before, not judged unfit."""

    QUEUE_FULL = "queue_full"
    SINK_FAILED = "sink_failed"
    SHUTDOWN_TIMEOUT = "shutdown_timeout"


class GatewayProvider(str, Enum):
    """The capture gateway that saw the call (Sediment's closed set); never the model service."""

    LITELLM = "litellm"
    PORTKEY = "portkey"
    HELICONE = "helicone"
    UNKNOWN = "unknown"


class SpanRole(str, Enum):
    """What a span is in the tree of a trace, as far as the leaf rule cares."""

    CALL = "call"
    AGENT = "agent"
    TOOL = "tool"
    OTHER = "other"


class RawMode(str, Enum):
    """How much of the trace `raw` repeats: everything, or what the normalised fields do not hold."""

    FULL = "full"
    RESIDUAL = "residual"


class Outcome(str, Enum):
    """What became of one span."""

    FACT = "fact"
    SKIPPED = "skipped"


#: Skips that `--strict` does not count as a failure.
HARMLESS_SKIPS = frozenset({SkipReason.NOT_A_MODEL_CALL, SkipReason.WRAPPER, SkipReason.DUPLICATE})

WAY_OUT: dict[SkipReason, str] = {
    SkipReason.NOT_A_MODEL_CALL: "nothing to do: agent, tool, retrieval and other spans are not model calls",
    SkipReason.WRAPPER: "nothing to do: the nested span of the same call became the fact",
    SkipReason.FAILED_CALL: "--include-failed keeps calls that ended in an error",
    SkipReason.MALFORMED: "the span cannot be read: see the report for its place",
    SkipReason.TRUNCATED: "raise or unset OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT and OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT "
    "in the traced application",
    SkipReason.ENCRYPTED: "the content is encrypted: no setting here can read it",
    SkipReason.NO_CONTENT: "switch on content capture in the traced application, for example "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
    SkipReason.NO_SESSION: "--session-attribute KEY names the attribute that holds the session, --session-id "
    "gives one to the calls that name none",
    SkipReason.OVERSIZED: "--max-fact-bytes raises the limit, --raw residual makes facts smaller",
    SkipReason.DUPLICATE: "nothing to do: the same call was there before",
    SkipReason.CONFLICT: "the same span id came twice with different content: the first stays",
}
