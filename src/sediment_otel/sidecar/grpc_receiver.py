# SPDX-License-Identifier: Apache-2.0
"""OTLP over gRPC. Service and method names are those of the published descriptors; requests arrive as bytes.

Bytes, because a message that is not protobuf must be answered with INVALID_ARGUMENT (the generated handlers say
INTERNAL), and because the journal keeps what was sent.

gRPC gathers a message whole before it hands it over, and says nothing of its size before. So `Export` is a method
with a stream of requests here (the same on the wire): a message is gathered when it is asked for, and until then no
more of it is taken than a window of flow control. `Reading` decides when to ask. gRPC's own limit is a quarter above
`max_request_bytes`, so that the text of a refusal can name the setting.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from .bodies import too_large
from .http import authorised
from .intake import BUSY_RETRY, Intake, Refusal, failed, not_written
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


#: A message that is not here after so long is large, or its sender slow: the next one is gathered beside it.
SWIFT_SECONDS = 0.1
#: How long a message waits for room, and how long a slow one may take where others wait.
ROOM_SECONDS, SLOW_SECONDS = 10.0, 2.0


class Reading:
    """Which messages are gathered: one at a time, and beside it slow ones, each with room for the largest reserved."""

    def __init__(self, intake: Intake, timeout: float) -> None:
        self._intake = intake
        self._timeout = timeout
        self._swift = asyncio.Semaphore(1)
        self._most = min(intake.limit, intake.memory.budget)
        self._short = False

    async def read(self, context: Any) -> bytes:
        """The message, its size reserved in the memory budget: to be given back. Raises `Refusal`."""
        async with self._swift:
            await self._room()
            self._intake.gathering += 1
            coming = asyncio.ensure_future(context.read())
            try:
                await asyncio.wait({coming}, timeout=SWIFT_SECONDS)
            except BaseException:
                self._give_up(coming)
                raise
            if coming.done():
                self._over()
                return self._reserved(coming)
        try:
            began = time.monotonic()
            while not coming.done():
                passed = time.monotonic() - began
                if passed > self._timeout or ((self._short or self._intake.large_now) and passed > SLOW_SECONDS):
                    raise Refusal(503, f"the message did not arrive within {passed:.0f} seconds", BUSY_RETRY)
                await asyncio.wait({coming}, timeout=0.1)
        except BaseException:
            self._give_up(coming)
            raise
        self._over()
        return self._reserved(coming)

    async def _room(self) -> None:
        """Reserve room for the largest message; others may have to end first."""
        until = time.monotonic() + ROOM_SECONDS
        try:
            while True:
                try:
                    if self._intake.large_now:
                        raise Refusal(503, "another large request is being decoded; send again", BUSY_RETRY)
                    self._intake.memory.reserve(self._most)
                    return
                except Refusal:
                    if time.monotonic() > until:
                        raise
                self._short = True
                await asyncio.sleep(0.01)
        finally:
            self._short = False

    def _give_up(self, coming: asyncio.Future[Any]) -> None:
        coming.cancel()
        self._over()

    def _over(self) -> None:
        self._intake.gathering -= 1
        self._intake.memory.give_back(self._most)

    def _reserved(self, come: asyncio.Future[Any]) -> bytes:
        data = come.result()
        if not isinstance(data, bytes):
            raise Refusal(400, "no message came")
        if len(data) > self._intake.limit:
            raise Refusal(413, too_large(self._intake.limit).reason)
        self._intake.memory.reserve(len(data))
        return data


def server(intake: Intake, pool: ThreadPoolExecutor, *, token: str | None, read_timeout: float) -> Any:
    """A gRPC server of the running loop, without an address yet."""
    reading = Reading(intake, read_timeout)
    made = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", intake.limit + intake.limit // 4),
            ("grpc.max_send_message_length", 1 << 20),
            ("grpc.so_reuseport", 0),
            ("grpc.max_concurrent_streams", 256),
            ("grpc.http2.bdp_probe", 0),  # windows stay small
        ],
    )
    for signal, service in _SERVICES:
        handler = grpc.stream_unary_rpc_method_handler(
            _Export(signal, intake, pool, token, reading).export,
            request_deserializer=None,
            response_serializer=lambda message: message.SerializeToString(),
        )
        made.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, {"Export": handler}),))
    return made


class _Export:
    """One signal's `Export`."""

    def __init__(
        self, signal: str, intake: Intake, pool: ThreadPoolExecutor, token: str | None, reading: Reading
    ) -> None:
        self._signal = signal
        self._intake = intake
        self._pool = pool
        self._token = token
        self._reading = reading

    async def export(self, requests: Any, context: Any) -> Any:
        """Answer one request."""
        try:
            return await self._answer(context)
        except asyncio.CancelledError:
            raise
        except Refusal as found:
            refusal = found
        except Exception as error:
            refusal = failed(error)
        refusal.with_traceback(None)  # its frames hold the message
        self._intake.count_refusal("grpc", refusal.status)
        details = status(refusal.status, refusal.reason, refusal.retry_after)
        context.set_trailing_metadata((("grpc-status-details-bin", details.SerializeToString()),))
        await context.abort(_CODES.get(refusal.status, grpc.StatusCode.UNKNOWN), refusal.reason)
        raise AssertionError("abort raises")

    async def _answer(self, context: Any) -> Any:
        if self._token is not None:
            shown = dict(context.invocation_metadata() or ()).get("authorization", "")
            if not authorised(str(shown), self._token):
                raise Refusal(401, "a bearer token is needed: authorization: Bearer …")
        self._intake.admit()
        data = await self._reading.read(context)
        size = len(data)
        heavy = size >= self._intake.large
        self._intake.large_now += heavy
        try:
            if heavy:
                await self._intake.alone()
            loop = asyncio.get_running_loop()
            taken = await loop.run_in_executor(self._pool, self._intake.take, self._signal, "protobuf", data)
        finally:
            del data
            self._intake.large_now -= heavy
            self._intake.memory.give_back(size)
        if taken.written is not None:
            try:
                await asyncio.wrap_future(taken.written)
            except Exception as error:
                raise not_written(error) from None
        self._intake.count(taken, "grpc", self._signal, size)
        return accepted(self._signal, taken.rejected, taken.reason)
