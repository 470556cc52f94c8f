# SPDX-License-Identifier: Apache-2.0
"""Where the fast reader takes a document at all, it reads in it what the general one does: wrong shapes everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sediment_otel.otlp.decode import decode_object
from sediment_otel.otlp.light import read_light
from sediment_otel.otlp.plain import read_plain

SPAN = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331"}
FIELDS = (
    "attributes", "events", "links", "status", "traceState", "flags", "kind", "name", "parentSpanId",
    "droppedAttributesCount", "droppedEventsCount", "startTimeUnixNano", "endTimeUnixNano", "traceId", "spanId",
)  # fmt: skip
SHAPES: tuple[Any, ...] = ({}, "", [], None, 0, False, "x", {"a": 1}, [1], [{}], [""], [[]], [None], 1.5)


def documents(shape: Any) -> Iterator[dict[str, Any]]:
    """The shape in every place of a request."""
    yield {"resourceSpans": shape}
    yield {"resourceSpans": [{"scopeSpans": shape}]}
    yield {"resourceSpans": [{"scopeSpans": [{"spans": shape}]}]}
    for field in FIELDS:
        yield {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN | {field: shape}]}]}]}
    for resource, scope in ((shape, {}), ({"attributes": shape}, {}), ({}, shape), ({}, {"attributes": shape})):
        yield {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": [SPAN]}]}]}
    yield {"resourceSpans": [{"schemaUrl": shape, "scopeSpans": [{"schemaUrl": shape, "spans": [SPAN]}]}]}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=json.dumps)
def test_the_fast_reader_takes_no_shape_that_the_general_one_reads_otherwise(shape: Any, strict: bool) -> None:
    for document in documents(shape):
        fast = read_plain(json.dumps(document), strict)
        if fast is not None:
            assert fast == list(decode_object(document, strict=strict).items), document


@pytest.mark.parametrize("shape", SHAPES, ids=json.dumps)
def test_the_light_look_takes_no_span_that_the_general_reader_refuses(shape: Any) -> None:
    for document in documents(shape):
        seen = read_light(json.dumps(document).encode())
        if seen is not None:
            full = decode_object(document).items
            assert [(one.trace_id, one.span_id) for one in seen] == [
                (getattr(item, "trace_id", None), getattr(item, "span_id", None)) for item in full
            ], document
