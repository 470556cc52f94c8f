# SPDX-License-Identifier: Apache-2.0
"""The sidecar as a whole: opens the files, starts receivers, translator and deliveries, and ends in order.

`Service(config).run()` returns the exit code: 0 after SIGTERM or SIGINT, 1 where something it needs cannot be had.
On a signal it stops taking data, lets what was acknowledged run through (settle window, store, sinks) for at most
`grace` seconds, and leaves the rest in the journal for the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import grpc
import uvicorn
from starlette.applications import Starlette

from ..settings import SettingsError
from ..sinks.base import SinkError
from ..sinks.registry import open_sink
from ..sinks.store import Store
from .config import Address, ServeConfig
from .delivery import Outbox
from .forward import Forwarder, headers_from
from .grpc_receiver import server as grpc_server
from .http import application, watch_routes
from .intake import Intake, Memory
from .journal import Journal, JournalError, private_directory
from .metrics import Metrics, Sample
from .worker import Job, Lock
from .worker import run as run_worker

#: Entries outlast their bodies for so long: late spans find their tree.
KEEP_SECONDS = 60.0
_RESTART_PAUSE = 0.5


def log(event: str, **values: Any) -> None:
    """One line on standard error, for people and machines. Never content, never a secret."""
    fields = " ".join(
        f"{key}={json.dumps(value) if isinstance(value, str) else value}" for key, value in values.items()
    )
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"sediment-otel: {event}{' ' + fields if fields else ''}\n")
        sys.stderr.flush()


class Service:
    """One run of the sidecar."""

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self.metrics = Metrics()
        self.addresses: dict[str, str] = {}
        self._stopping: asyncio.Event | None = None
        self._translator: _Translator | None = None

    def run(self) -> int:
        """Serve until a signal says otherwise."""
        try:
            for warning in self.config.check():
                log("warning", what=warning)
            private_directory(self.config.data)
            lock = Lock(self.config.data / "serve.lock")
            if not lock.acquire():
                log("another sidecar runs in this directory; name another --data", data=str(self.config.data))
                return 1
            old = os.umask(0o077)
            try:
                with contextlib.closing(Store(str(self.config.store))):
                    pass
            finally:
                os.umask(old)
            journal = Journal(
                self.config.journal,
                budget=self.config.journal_budget,
                min_free=self.config.min_free,
                forwarding=self.config.forward is not None,
                keep=self._keep,
            )
        except (SettingsError, JournalError, SinkError, OSError) as error:
            log("cannot start", why=str(error))
            return 1
        _allow_many_files()
        try:
            return asyncio.run(self._serve(journal))
        finally:
            journal.close()

    @property
    def _keep(self) -> float:
        return max(KEEP_SECONDS, 4 * self.config.settle)

    async def _serve(self, journal: Journal) -> int:
        config = self.config
        self._stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows: an event loop takes no signals there
                loop.add_signal_handler(number, self._stopping.set)
        memory = Memory(config.memory_budget)
        intake = Intake(journal, config.translation, self.metrics, limit=config.max_request_bytes, memory=memory)
        outboxes = [
            Outbox(url, lambda u: open_sink(u, append=True, durable=True), config.store, journal, self.metrics, log)
            for url in config.sinks
        ]
        translator = self._translator = _Translator(
            Job(config.journal, config.store, config.translation, config.settle, self._keep), journal, self.metrics
        )
        self.metrics.gauges(lambda: self._gauges(journal, intake, outboxes))
        with ThreadPoolExecutor(2, thread_name_prefix="intake") as pool, contextlib.ExitStack() as stack:
            try:
                receivers = await self._receivers(intake, pool, journal)
            except (OSError, RuntimeError, SettingsError) as error:
                log("cannot listen", why=str(error))
                return 1
            translator.start()
            stack.callback(translator.stop, 5.0)
            forwarder = None
            if config.forward is not None:
                headers = headers_from(os.environ.get("SEDIMENT_OTEL_SERVE_FORWARD_HEADERS", ""))
                forwarder = Forwarder(config.forward, headers, journal, self.metrics, log)
                forwarder.start()
                stack.callback(forwarder.stop, 2.0)
            for outbox in outboxes:
                outbox.start()
                stack.callback(outbox.stop, 2.0)
            watcher = asyncio.create_task(self._watch_disk(intake))
            for name, address in self.addresses.items():
                log("listening", protocol=name, address=address)
            await self._stopping.wait()
            started = time.monotonic()
            log("stopping", grace=config.grace)
            intake.draining = True
            watcher.cancel()
            await receivers.stop(min(config.grace, 5.0))
            await self._drain(journal, outboxes, forwarder, started + config.grace)
        log("stopped", waiting_requests=journal.pending_requests)
        return 0

    async def _drain(
        self, journal: Journal, outboxes: list[Outbox], forwarder: Forwarder | None, deadline: float
    ) -> None:
        """Let what was acknowledged run through."""
        while time.monotonic() < deadline:
            behind = any(outbox.behind() for outbox in outboxes) or (forwarder is not None and journal.unforwarded)
            if not journal.pending_requests and not behind and not journal.pending_bytes:
                return
            await asyncio.sleep(0.05)

    # -- receivers

    async def _receivers(self, intake: Intake, pool: ThreadPoolExecutor, journal: Journal) -> _Receivers:
        config = self.config
        token = config.bearer()
        servers: list[uvicorn.Server] = []
        tasks: list[asyncio.Task[None]] = []

        def ready() -> str | None:
            return self._not_ready(intake, journal)

        def serve_http(name: str, address: Address, app: Starlette, tls: bool) -> None:
            sock = _listen(address)
            options: dict[str, Any] = {}
            if tls and config.tls_cert is not None:
                options = {"ssl_certfile": str(config.tls_cert), "ssl_keyfile": str(config.tls_key)}
                if config.tls_client_ca is not None:
                    options |= {"ssl_ca_certs": str(config.tls_client_ca), "ssl_cert_reqs": ssl.CERT_REQUIRED}
            server = _Server(
                uvicorn.Config(
                    app,
                    log_config=None,
                    access_log=False,
                    lifespan="off",
                    server_header=False,
                    timeout_keep_alive=75,
                    timeout_graceful_shutdown=5,
                    **options,
                )
            )
            servers.append(server)
            tasks.append(asyncio.create_task(server.serve(sockets=[sock])))
            self.addresses[name] = _text(sock)

        app = application(intake, self.metrics, ready, pool, token=token, read_timeout=config.read_timeout)
        if config.http.on:
            serve_http("http", config.http, app, True)
        if config.admin.on:
            serve_http("admin", config.admin, Starlette(routes=watch_routes(self.metrics, ready)), False)
        rpc = None
        if config.grpc.on:
            rpc = grpc_server(intake, pool, token=token, read_timeout=config.read_timeout)
            where = f"[{config.grpc.host}]" if ":" in config.grpc.host else config.grpc.host
            credentials = _grpc_credentials(config)
            text = f"{where}:{config.grpc.port}"
            port = rpc.add_insecure_port(text) if credentials is None else rpc.add_secure_port(text, credentials)
            await rpc.start()
            self.addresses["grpc"] = f"{where}:{port}"
        return _Receivers(servers, tasks, rpc)

    def _not_ready(self, intake: Intake, journal: Journal) -> str | None:
        if intake.draining:
            return "shutting down"
        if journal.failure is not None:
            return "the journal cannot be written"
        if self._translator is None or not self._translator.ready:
            return "the translator is starting"
        if self._translator.trouble:
            return "the store cannot be written"
        if intake.disk_full:
            return "the disk budget is used up"
        return None

    async def _watch_disk(self, intake: Intake) -> None:
        """Keeps an eye on the size of everything in the data directory, where there is a budget."""
        while self.config.disk_budget:
            full = _directory_size(self.config.data) > self.config.disk_budget
            if full != intake.disk_full:
                log("disk budget used up: refusing new data" if full else "room on disk again: taking data")
            intake.disk_full = full
            await asyncio.sleep(1.0)

    def _gauges(self, journal: Journal, intake: Intake, outboxes: list[Outbox]) -> Iterator[Sample]:
        yield "queue_requests", {}, journal.pending_requests
        yield "queue_bytes", {}, journal.pending_bytes
        oldest = journal.oldest_waiting()
        yield "queue_oldest_seconds", {}, 0.0 if oldest is None else max((time.time_ns() - oldest) / 1e9, 0.0)
        yield "memory_in_flight_bytes", {}, intake.memory.used
        if self.config.forward is not None:
            yield "unforwarded_requests", {}, journal.unforwarded
        processes: list[tuple[str, int | None]] = [("receiver", os.getpid())]
        if self._translator is not None:
            processes.append(("translator", self._translator.pid))
        for name, pid in processes:
            size = _resident(pid)
            if size is not None:
                yield "resident_memory_bytes", {"process": name}, size
        for outbox in outboxes:
            yield from outbox.gauges()


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the service."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Receivers:
    def __init__(self, servers: list[uvicorn.Server], tasks: list[asyncio.Task[None]], rpc: Any) -> None:
        self._servers, self._tasks, self._rpc = servers, tasks, rpc

    async def stop(self, seconds: float) -> None:
        """Take no more connections; requests under way get some seconds."""
        for server in self._servers:
            server.should_exit = True
        waiting: list[Any] = [*self._tasks]
        if self._rpc is not None:
            waiting.append(asyncio.ensure_future(self._rpc.stop(seconds)))
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=seconds)
            for server in self._servers:
                server.force_exit = True
            for task in late:
                task.cancel()


class _Translator:
    """The translator's process, kept alive, and what it says."""

    def __init__(
        self, job: Job, journal: Journal, metrics: Metrics, run: Callable[[Job, Connection], None] = run_worker
    ) -> None:
        self._run = run
        self._job = job
        self._journal = journal
        self._metrics = metrics
        self._ending = threading.Event()
        self._process: Any = None
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._supervise, name="translator", daemon=True)
        self.ready = False
        self.trouble = ""

    @property
    def pid(self) -> int | None:
        """The process, where it runs."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the process and the thread that looks after it."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Let it finish what it is at, and end it."""
        self._ending.set()
        self._thread.join(seconds)
        if self._process is not None and self._process.is_alive():
            self._process.kill()
            self._process.join(1.0)

    def _supervise(self) -> None:
        context = get_context("spawn")
        failures = 0
        while not self._ending.is_set():
            ours, theirs = context.Pipe()
            self._process = context.Process(target=self._run, args=(self._job, theirs), daemon=True)
            self._process.start()
            theirs.close()
            self._connection = ours
            self._listen(ours)
            self.ready = False
            self._process.join(5.0)
            if self._ending.is_set():
                return
            failures += 1
            self._metrics.add("translator_restarts_total")
            log("the translator ended and is started anew", exit_code=self._process.exitcode)
            self._ending.wait(min(_RESTART_PAUSE * failures, 10.0))

    def _listen(self, connection: Connection) -> None:
        told = False
        while True:
            try:
                if self._ending.is_set() and not told:
                    told = True
                    connection.send("stop")
                if not connection.poll(0.1):
                    continue
                message = connection.recv()
            except (EOFError, OSError):
                return
            if message[0] == "done":
                _, group, translated, free, counts = message
                self._journal.finish(group, translated, free)
                for (name, label), amount in counts.items():
                    key = {"skipped_total": "reason", "degraded_total": "code"}.get(name)
                    self._metrics.add(name, amount, **({key: label} if key else {}))
            elif message[0] == "ready":
                self.ready = True
            elif message[0] == "given up":
                log("a request ended the translator several times: its spans are malformed", request=message[1])
            elif message[0] == "trouble":
                self.trouble = message[1]
                log("the store fails, outcomes wait" if message[1] else "the store works again", why=message[1])


# -- the system ---------------------------------------------------------------------------------------------------


def _listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address.host, address.port))
        sock.listen(2048)
    except OSError as error:
        sock.close()
        raise OSError(f"{address}: {error.strerror}; is another receiver there? choose another address") from None
    sock.setblocking(False)
    return sock


def _text(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _grpc_credentials(config: ServeConfig) -> Any:
    if config.tls_cert is None or config.tls_key is None:
        return None
    ca = config.tls_client_ca.read_bytes() if config.tls_client_ca is not None else None
    return grpc.ssl_server_credentials(
        [(config.tls_key.read_bytes(), config.tls_cert.read_bytes())],
        root_certificates=ca,
        require_client_auth=ca is not None,
    )


def _allow_many_files() -> None:
    """A thousand connections need a thousand descriptors; the soft limit is often 1024."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _directory_size(path: Any) -> int:
    size = 0
    with contextlib.suppress(OSError), os.scandir(path) as found:
        for entry in found:
            with contextlib.suppress(OSError):
                size += entry.stat().st_size
    return size


def _resident(pid: int | None) -> int | None:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
