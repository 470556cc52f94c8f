# SPDX-License-Identifier: Apache-2.0
"""Bytes to telemetry and back. Pure: no files, no sockets, no clock.

    decode_json(data, strict=False) -> Batch       one JSON text
    decode_object(obj, strict=False) -> Batch      the same, parsed already
    decode_protobuf(data, signal=None, strict=False) -> Batch
    encode_json(items) -> dict                     telemetry as one OTLP JSON object
    encode_protobuf_traces(spans), encode_protobuf_logs(records) -> bytes

Nothing here raises because of what the input holds: it becomes values or `Rejected`.
"""

from __future__ import annotations

from .decode import decode_json, decode_object
from .encode import encode_json, encode_protobuf_logs, encode_protobuf_traces
from .protobuf import decode_protobuf

__all__ = [
    "decode_json",
    "decode_object",
    "decode_protobuf",
    "encode_json",
    "encode_protobuf_logs",
    "encode_protobuf_traces",
]
