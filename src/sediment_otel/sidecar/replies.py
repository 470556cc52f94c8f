# SPDX-License-Identifier: Apache-2.0
"""Replies in the words of OTLP: export responses with `partial_success`, and `google.rpc.Status` for failures. Pure.

Bytes for HTTP in the form of the request (protobuf or JSON); messages for gRPC.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

PROTOBUF, JSON = "application/x-protobuf", "application/json"


class Signal(NamedTuple):
    """One kind of telemetry: its reply and what it counts what it refused in."""

    name: str
    response: Any
    counter: str


SIGNALS = {
    "traces": Signal("traces", ExportTraceServiceResponse, "rejected_spans"),
    "logs": Signal("logs", ExportLogsServiceResponse, "rejected_log_records"),
    "metrics": Signal("metrics", ExportMetricsServiceResponse, "rejected_data_points"),
}

#: HTTP status -> gRPC code.
CODES = {400: 3, 401: 16, 413: 8, 415: 3, 429: 8, 500: 13, 503: 14}


def accepted(signal: str, rejected: int = 0, reason: str = "") -> Any:
    """The export response; `partial_success` only where something was refused or is to be said."""
    row = SIGNALS[signal]
    response = row.response()
    if rejected or reason:
        setattr(response.partial_success, row.counter, rejected)
        response.partial_success.error_message = reason
    return response


def status(http_status: int, reason: str, retry_after: float | None = None) -> Any:
    """The `google.rpc.Status` of a refusal."""
    found = Status(code=CODES.get(http_status, 2), message=reason)
    if retry_after is not None:
        info = RetryInfo(retry_delay=Duration(seconds=int(retry_after), nanos=int(retry_after % 1 * 1e9)))
        found.details.add().Pack(info)
    return found


def encoded(message: Any, form: str) -> bytes:
    """A message as the body of an HTTP reply."""
    if form == "json":
        return json.dumps(json_format.MessageToDict(message), separators=(",", ":")).encode()
    return bytes(message.SerializeToString())


def content_type(form: str) -> str:
    """The content type of that form."""
    return JSON if form == "json" else PROTOBUF
