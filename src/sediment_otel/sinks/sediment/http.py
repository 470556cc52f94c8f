# SPDX-License-Identifier: Apache-2.0
"""One request to Sediment: pooled connections, bounded time and answers, no redirects. Safe between threads.

Built on urllib3: it is what is left of an HTTP client when nothing but connections, TLS and timeouts is needed; it has
no dependency of its own, its pool is made for threads, and it neither follows nor retries unless told to.
"""

from __future__ import annotations

import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from ..base import SinkError
from .target import Target

CONNECT_S, READ_S, WHOLE_S = 5.0, 30.0, 60.0
MAX_ANSWER_BYTES = 64 * 1024


class Unreachable(Exception):
    """No answer came. `reason` is a code."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Reply(NamedTuple):
    """An answer, its body cut at `MAX_ANSWER_BYTES`."""

    status: int
    body: bytes
    retry_after: str | None


class Client:
    """Requests to one server."""

    def __init__(self, target: Target) -> None:
        try:
            import urllib3
        except ImportError:
            raise SinkError(
                "urllib3 is not installed", target.where, "install it: pip install 'sediment-otel[deliver]'"
            ) from None
        self._errors = urllib3.exceptions
        self._prefix = target.prefix
        self._headers = {
            "Authorization": f"Bearer {target.token}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"sediment-otel/{_version()}",
        }
        kind: Any = urllib3.HTTPSConnectionPool if target.scheme == "https" else urllib3.HTTPConnectionPool
        self._pool = kind(
            target.host,
            target.port,
            maxsize=target.in_flight,
            block=False,
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
        )

    def post(self, path: str, body: bytes) -> Reply:
        """Send JSON. Raises `Unreachable`."""
        return self._send("POST", path, body, {**self._headers, "Content-Type": "application/json"})

    def get(self, path: str) -> Reply:
        """Ask. Raises `Unreachable`."""
        return self._send("GET", path, None, self._headers)

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        until = time.monotonic() + WHOLE_S
        try:
            response = self._pool.urlopen(
                method,
                self._prefix + path,
                body=body,
                headers=headers,
                redirect=False,
                retries=False,
                preload_content=False,
                assert_same_host=False,
            )
        except self._errors.HTTPError as error:
            raise Unreachable(_reason(error)) from None
        except (OSError, ValueError) as error:
            raise Unreachable(type(error).__name__) from None
        whole = False
        try:
            found = bytearray()
            while chunk := response.read1(8192):
                found += chunk
                if len(found) > MAX_ANSWER_BYTES or time.monotonic() > until:
                    break
            else:
                whole = True
            return Reply(response.status, bytes(found), response.headers.get("Retry-After"))
        except (self._errors.HTTPError, OSError, ValueError) as error:
            raise Unreachable(type(error).__name__) from None
        finally:
            if whole:
                response.release_conn()
            else:
                response.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._pool.close()


def _version() -> str:
    try:
        return version("sediment-otel")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0"


def _reason(error: Exception) -> str:
    """A short name of what went wrong: the class, and the system's error where there is one."""
    inner: BaseException | None = error
    for _ in range(4):
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__cause__ or inner.__context__ if inner is not None else None
    return type(error).__name__
