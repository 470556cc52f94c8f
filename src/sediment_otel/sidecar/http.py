# SPDX-License-Identifier: Apache-2.0
"""OTLP over HTTP, and the pages for those who watch: /healthz, /readyz, /metrics. One ASGI application.

Replies as the OTLP specification says: the content type of the request, `partial_success`, `google.rpc.Status` bodies
with 400, 401, 413, 415, 429 and 503, `Retry-After` where sending again makes sense.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from .bodies import too_large
from .intake import BUSY_RETRY, Intake, Refusal, failed, not_written
from .metrics import CONTENT_TYPE as METRICS_TYPE
from .metrics import Metrics
from .replies import accepted, content_type, encoded, status

_FORMS = {"application/x-protobuf": "protobuf", "application/protobuf": "protobuf", "application/json": "json"}
Ready = Callable[[], "str | None"]


def form_of(header: str) -> str | None:
    """Which form a Content-Type names."""
    return _FORMS.get(header.split(";", 1)[0].strip().lower())


def watch_routes(metrics: Metrics, ready: Ready) -> list[Route]:
    """The pages for those who watch. They need no token and show no content."""

    async def healthz(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        problem = ready()
        return PlainTextResponse("ready\n") if problem is None else PlainTextResponse(f"{problem}\n", 503)

    async def show(request: Request) -> Response:
        return PlainTextResponse(metrics.text(), media_type=METRICS_TYPE)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", show)]


#: How long a large request waits for its turn while another one is read.
TURN_SECONDS = 10.0


def application(
    intake: Intake,
    metrics: Metrics,
    ready: Ready,
    pool: ThreadPoolExecutor,
    *,
    token: str | None,
    read_timeout: float,
) -> Starlette:
    """The application of the OTLP port."""

    large = asyncio.Semaphore(1)

    def route(signal: str) -> Route:
        async def export(request: Request) -> Response:
            return await _export(request, signal, intake, pool, token, read_timeout, large)

        return Route(f"/v1/{signal}", export, methods=["POST"])

    return Starlette(
        routes=[*(route(signal) for signal in ("traces", "logs", "metrics")), *watch_routes(metrics, ready)]
    )


async def _export(
    request: Request,
    signal: str,
    intake: Intake,
    pool: ThreadPoolExecutor,
    token: str | None,
    read_timeout: float,
    large: asyncio.Semaphore,
) -> Response:
    form = form_of(request.headers.get("content-type", ""))
    try:
        if token is not None and not authorised(request.headers.get("authorization", ""), token):
            raise Refusal(401, "a bearer token is needed: Authorization: Bearer …")
        if form is None:
            raise Refusal(415, "the content type must be application/x-protobuf or application/json")
        intake.admit()
        body = _Body(request, intake, read_timeout, large)
        try:
            data = await body.read()
            await body.decoding()
            loop = asyncio.get_running_loop()
            encoding = request.headers.get("content-encoding", "")
            taken = await loop.run_in_executor(pool, intake.take, signal, form, data, encoding)
        finally:
            body.close()
        if taken.written is not None:
            try:
                await asyncio.wrap_future(taken.written)
            except Exception as error:
                raise not_written(error) from None
    except Refusal as refusal:
        return _refuse(refusal, form or "protobuf", intake)
    except ClientDisconnect:
        return Response(status_code=400)  # nobody reads it
    except Exception as error:
        return _refuse(failed(error), form or "protobuf", intake)
    intake.count(taken, "http", signal, len(data))
    reply = encoded(accepted(signal, taken.rejected, taken.reason), form)
    return Response(reply, 200, media_type=content_type(form))


def _refuse(refusal: Refusal, form: str, intake: Intake) -> Response:
    intake.count_refusal("http", refusal.status)
    headers: dict[str, str] = {}
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(refusal.retry_after)))
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if refusal.status in (408, 413):
        headers["Connection"] = "close"  # what is left of the body is not worth reading
    body = encoded(status(refusal.status, refusal.reason, refusal.retry_after), form)
    return Response(body, refusal.status, headers, media_type=content_type(form))


def authorised(header: str, token: str) -> bool:
    """Whether an Authorization header shows the token; takes the same time for every wrong one."""
    scheme, _, shown = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), token.encode())


class _Body:
    """A request's body as far as it came, its bytes held against the memory budget."""

    def __init__(self, request: Request, intake: Intake, timeout: float, large: asyncio.Semaphore) -> None:
        self._large = large
        self._has_turn = False
        self._heavy = False
        self._request = request
        self._intake = intake
        self._timeout = timeout
        self._held = 0

    async def read(self) -> bytes:
        """The whole body. Raises `Refusal` past the limit, past the time, and where memory is short."""
        declared = self._request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > self._intake.limit:
            raise Refusal(413, too_large(self._intake.limit).reason)
        chunks: list[bytes] = []
        try:
            await asyncio.wait_for(self._collect(chunks), self._timeout)
        except (asyncio.TimeoutError, TimeoutError):
            raise Refusal(408, f"the body did not arrive within {self._timeout:g} seconds") from None
        return b"".join(chunks)

    async def _collect(self, chunks: list[bytes]) -> None:
        async for chunk in self._request.stream():
            if not chunk:
                continue
            if self._held + len(chunk) > self._intake.limit:
                raise Refusal(413, too_large(self._intake.limit).reason)
            if self._held + len(chunk) > self._intake.large and not self._has_turn:
                await self._wait_for_turn()
            self._intake.memory.reserve(len(chunk))
            self._held += len(chunk)
            chunks.append(chunk)

    async def _wait_for_turn(self) -> None:
        """Large bodies one after the other: together they would use up the memory, and none would get through."""
        try:
            await asyncio.wait_for(self._large.acquire(), TURN_SECONDS)
        except (asyncio.TimeoutError, TimeoutError):
            raise Refusal(503, "other large requests are being read; send again", BUSY_RETRY) from None
        self._has_turn = True

    async def decoding(self) -> None:
        """The body is whole: what follows takes a multiple of it."""
        self._heavy = self._has_turn
        self._intake.large_now += self._heavy
        if self._heavy:
            await self._intake.alone()

    def close(self) -> None:
        """Give back what was held."""
        self._intake.large_now -= self._heavy
        self._heavy = False
        if self._has_turn:
            self._large.release()
            self._has_turn = False
        self._intake.memory.give_back(self._held)
        self._held = 0
