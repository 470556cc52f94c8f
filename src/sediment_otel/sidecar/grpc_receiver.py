# SPDX-License-Identifier: Apache-2.0
"""OTLP over gRPC. Service and method names are those of the published descriptors; requests arrive as bytes.

Bytes, because a message that is not protobuf must be answered with INVALID_ARGUMENT (the generated handlers say
INTERNAL), and because the journal keeps what was sent. Past the limit gRPC itself says RESOURCE_EXHAUSTED.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from .bodies import too_large
from .http import authorised
from .intake import Intake, Refusal, failed, not_written
from .replies import accepted, status

_SERVICES = (
    ("traces", trace_service_pb2.DESCRIPTOR.services_by_name["TraceService"]),
    ("logs", logs_service_pb2.DESCRIPTOR.services_by_name["LogsService"]),
    ("metrics", metrics_service_pb2.DESCRIPTOR.services_by_name["MetricsService"]),
)
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
}


def server(intake: Intake, pool: ThreadPoolExecutor, *, token: str | None) -> Any:
    """A gRPC server of the running loop, without an address yet."""
    made = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", intake.limit),
            ("grpc.max_send_message_length", 1 << 20),
            ("grpc.so_reuseport", 0),
            ("grpc.max_concurrent_streams", 256),
        ],
    )
    for signal, service in _SERVICES:
        handler = grpc.unary_unary_rpc_method_handler(
            _Export(signal, intake, pool, token).export,
            request_deserializer=None,
            response_serializer=lambda message: message.SerializeToString(),
        )
        made.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, {"Export": handler}),))
    return made


class _Export:
    """One signal's `Export`."""

    def __init__(self, signal: str, intake: Intake, pool: ThreadPoolExecutor, token: str | None) -> None:
        self._signal = signal
        self._intake = intake
        self._pool = pool
        self._token = token

    async def export(self, data: bytes, context: Any) -> Any:
        """Answer one request."""
        try:
            try:
                return await self._answer(data, context)
            except (Refusal, asyncio.CancelledError):
                raise
            except Exception as error:
                raise failed(error) from None
        except Refusal as refusal:
            self._intake.count_refusal("grpc", refusal.status)
            details = status(refusal.status, refusal.reason, refusal.retry_after)
            context.set_trailing_metadata((("grpc-status-details-bin", details.SerializeToString()),))
            await context.abort(_CODES.get(refusal.status, grpc.StatusCode.UNKNOWN), refusal.reason)
            raise AssertionError("abort raises") from None

    async def _answer(self, data: bytes, context: Any) -> Any:
        if self._token is not None:
            shown = dict(context.invocation_metadata() or ()).get("authorization", "")
            if not authorised(str(shown), self._token):
                raise Refusal(401, "a bearer token is needed: authorization: Bearer …")
        self._intake.admit()
        if len(data) > self._intake.limit:
            raise Refusal(413, too_large(self._intake.limit).reason)
        with self._intake.memory.holding(len(data)):
            loop = asyncio.get_running_loop()
            taken = await loop.run_in_executor(self._pool, self._intake.take, self._signal, "protobuf", data)
        if taken.written is not None:
            try:
                await asyncio.wrap_future(taken.written)
            except Exception as error:
                raise not_written(error) from None
        self._intake.count(taken, "grpc", self._signal, len(data))
        return accepted(self._signal, taken.rejected, taken.reason)
