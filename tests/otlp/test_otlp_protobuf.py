# SPDX-License-Identifier: Apache-2.0
"""OTLP protobuf: which signal, which ids, and what a damaged record costs."""

from __future__ import annotations

import base64

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sediment_otel.otlp import decode_protobuf
from sediment_otel.telemetry import LogRecord, Rejected, Span

TRACE, SPAN = "53e8191e848dfe8c399aed647a6b3d00", "80dd1ef4744d0001"


def traces(count: int = 3) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for index in range(count):
        span = spans.add(trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(SPAN), name=f"span-{index}")
        span.attributes.add(key="text").value.string_value = "plain-text"
    return request


def test_every_kind_of_value_is_read() -> None:
    request = traces(1)
    attributes = request.resource_spans[0].scope_spans[0].spans[0].attributes
    attributes.add(key="empty").value.string_value = ""
    attributes.add(key="none")
    attributes.add(key="false").value.bool_value = False
    attributes.add(key="zero").value.int_value = 0
    attributes.add(key="nought").value.double_value = 0.0
    attributes.add(key="bytes").value.bytes_value = b""
    attributes.add(key="list").value.array_value.values.add().string_value = "a"
    attributes.add(key="bare list").value.array_value.SetInParent()
    attributes.add(key="map").value.kvlist_value.values.add(key="k").value.int_value = -7
    (span,) = decode_protobuf(request.SerializeToString(), strict=True).items
    assert isinstance(span, Span)
    expected = {
        "text": "plain-text",
        "empty": "",
        "none": None,
        "false": False,
        "zero": 0,
        "nought": 0.0,
        "bytes": b"",
        "list": ["a"],
        "bare list": [],
        "map": {"k": -7},
    }
    assert span.attributes == expected
    assert [type(value) for value in span.attributes.values()] == [type(value) for value in expected.values()]


def test_the_signal_is_found_out() -> None:
    logs = ExportLogsServiceRequest()
    logs.resource_logs.add().scope_logs.add().log_records.add(observed_time_unix_nano=5).body.string_value = "x"
    metrics = ExportMetricsServiceRequest()
    metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m" * 16, description="d")
    metric.sum.data_points.add(as_int=1)
    assert [type(item) for item in decode_protobuf(traces(1).SerializeToString()).items] == [Span]
    assert [type(item) for item in decode_protobuf(logs.SerializeToString()).items] == [LogRecord]
    batch = decode_protobuf(metrics.SerializeToString())
    assert batch.items == []
    assert batch.recognised


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x0a\xff", b"hello", b"\x89PNG\r\n\x1a\n", bytes(range(256))])
def test_bytes_that_are_no_request_are_one_rejected_document(data: bytes) -> None:
    batch = decode_protobuf(data)
    assert [item.kind for item in batch.items] == ["document"]  # type: ignore[union-attr]
    assert not batch.recognised


def test_a_span_with_an_unusable_id_costs_only_itself() -> None:
    request = traces()
    request.resource_spans[0].scope_spans[0].spans[1].span_id = b"abc"
    first, middle, last = decode_protobuf(request.SerializeToString()).items
    assert isinstance(first, Span)
    assert isinstance(last, Span)
    assert isinstance(middle, Rejected)
    assert (middle.kind, middle.place, middle.trace_id, middle.name) == (
        "span",
        "/resourceSpans/0/scopeSpans/0/spans/1",
        TRACE,
        "span-1",
    )


def test_a_span_with_text_that_is_not_utf8_costs_only_itself() -> None:
    request = traces()
    request.resource_spans[0].scope_spans[0].spans[1].attributes[0].value.string_value = "brokentext"
    data = request.SerializeToString().replace(b"brokentext", b"broken\xfftxt")
    first, middle, last = decode_protobuf(data).items
    assert isinstance(first, Span)
    assert isinstance(last, Span)
    assert isinstance(middle, Rejected)
    assert (middle.kind, middle.trace_id, middle.span_id) == ("span", TRACE, SPAN)
    assert middle.place == "/resourceSpans/0/scopeSpans/0/spans/1"


def test_ids_spoilt_by_a_base64_reader_are_restored_from_files_only() -> None:
    request = traces(1)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.trace_id, span.span_id = base64.b64decode(TRACE), base64.b64decode(SPAN)
    (read,) = decode_protobuf(request.SerializeToString()).items
    assert isinstance(read, Span)
    assert (read.trace_id, read.span_id) == (TRACE, SPAN)
    (refused,) = decode_protobuf(request.SerializeToString(), signal="traces", strict=True).items
    assert isinstance(refused, Rejected)


def test_a_message_cut_off_keeps_what_was_whole_before_the_cut() -> None:
    one = traces(1).SerializeToString()
    items = decode_protobuf(one + one[:-3], signal="traces").items
    assert [type(item) for item in items] == [Span, Rejected]
