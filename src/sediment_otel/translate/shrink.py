# SPDX-License-Identifier: Apache-2.0
"""A fact that was made with `raw="full"`, cut to what `raw="residual"` would have kept. Pure.

The span is rebuilt from `raw` and read once more; what the fact's messages give back without loss goes, by the same
trial that decides it while translating (`residual.droppable`). Restoring the smaller fact gives the same span.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..dialects.gen_ai import DIALECT as GEN_AI
from ..dialects.registry import BY_NAME, read
from ..facts import FactError, InferenceCall
from ..genai import Detection
from ..vocabulary import SpanRole
from .finish import builtins
from .parts import Aside
from .residual import droppable
from .unraw import subject_of, unsupported_of


def residual_fact(encoded: bytes) -> bytes | None:
    """The fact with residual raw; None where there is nothing in it that could go."""
    try:
        call = InferenceCall.from_json(encoded)
        return _cut(call)
    except (FactError, RecursionError):
        return None


def _cut(call: InferenceCall) -> bytes | None:
    subject = subject_of(call.raw)
    if subject is None:
        return None
    dialect = call.raw.get("dialect")
    known = dialect if type(dialect) is str and dialect in BY_NAME else GEN_AI.name
    detection = Detection(known, SpanRole.CALL, "a fact")
    aside = Aside(unsupported=unsupported_of(call.raw))
    omit = droppable(
        subject, read(subject, detection), builtins(call.input_messages), builtins(call.output_messages), aside
    )
    attributes = call.raw["span"].get("attributes")
    if not omit or type(attributes) is not dict or not omit.keys() & attributes.keys():
        return None
    raw: dict[str, Any] = dict(call.raw)
    raw["span"] = {**raw["span"], "attributes": {key: value for key, value in attributes.items() if key not in omit}}
    inside = tuple(f"/span/attributes/{key.replace('~', '~0').replace('/', '~1')}/" for key in omit)
    encoding = raw.get("encoding")
    if type(encoding) is dict:
        omit = {**{key: layers for key, layers in encoding.items() if not key.startswith(inside)}, **omit}
    raw["encoding"] = omit
    return msgspec.structs.replace(call, raw=raw).to_json()
