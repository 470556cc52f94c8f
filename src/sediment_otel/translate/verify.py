# SPDX-License-Identifier: Apache-2.0
"""One call there and back: translate, restore, read again, compare. Pure."""

from __future__ import annotations

from ..dialects.registry import detect, read
from ..genai import Subject
from ..settings import Settings
from ..vocabulary import SpanRole
from .call import Context, translate_subject
from .compare import Difference, differences
from .restore import RestoreError, restore
from .select import Decision


def verify_call(subject: Subject, settings: Settings, decision: Decision) -> list[Difference]:
    """What differs between the reading of a call and that of its restored span; empty where nothing does.

    A subject that gives no fact has nothing to compare.
    """
    context = Context.of(decision)
    found = translate_subject(subject, settings, context)
    if found.encoded is None:
        return []
    original = found.reading or read(subject, found.detection)
    try:
        span = restore(found.encoded)
    except RestoreError as error:
        return [Difference(f"/{error.field}", f"cannot be restored: {error.rule}")]
    detection = detect(span)
    if detection.role is not SpanRole.CALL:
        return [Difference("", f"is no model call any more: {detection.reason}")]
    return differences(original, read(Subject(span), detection))
