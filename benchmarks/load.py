# SPDX-License-Identifier: Apache-2.0
"""A load run of the sidecar against `convert`, on the same machine, client included.

    python benchmarks/load.py [--seconds 120] [--share 0.5] [--span-bytes 12000] [--per-request 100] [--protocol http]

1. `convert` translates a file of such spans in one process: its rate is the measure.
2. The sidecar gets `share` of that rate for `seconds`, with durable replies: outcomes must keep pace, and when the
   load ends the backlog (beyond the settle window) must be under ten seconds of input.
3. It gets 80 % of that rate for half as long: the 99th percentile of the reply times counts.

Every span is a model call of its own with distinct ids. Exit code 1 where a goal is missed. The figures go to
standard output as a table; `--json` prints them as JSON.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from sediment_otel.otlp import encode_json, encode_protobuf_traces
from sediment_otel.telemetry import Resource, Scope, Span

SETTLE = 5.0
CLI = [sys.executable, "-c", "from sediment_otel.cli import main; main()"]
_WORDS = ("the", "trace", "holds", "a", "question", "that", "somebody", "asked", "model", "about", "weather", "in")


def text(seed: int, size: int) -> str:
    """Plain words, different for every seed."""
    words, length, value = [], 0, seed
    while length < size:
        value = (value * 1103515245 + 12345) % 2**31
        words.append(_WORDS[value % len(_WORDS)] + str(value % 97))
        length += len(words[-1]) + 1
    return " ".join(words)[:size]


def span(number: int, size: int) -> Span:
    """A chat of several messages with a tool call, about `size` bytes in all."""
    room = max(size - 1300, 100)
    given = [
        {"role": "system", "parts": [{"type": "text", "content": text(number, room // 4)}]},
        {"role": "user", "parts": [{"type": "text", "content": text(number + 1, room // 4)}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": f"call-{number}", "name": "read", "arguments": {"path": "a.py"}}],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": f"call-{number}", "response": text(number + 2, room // 4)}],
        },
    ]
    made = [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": text(number + 3, room // 4)}],
            "finish_reason": "stop",
        }
    ]
    start = 1_700_000_000_000_000_000 + number * 1_000_000
    return Span(
        trace_id=f"{number + 1:032x}",
        span_id=f"{number + 1:016x}",
        name="chat large",
        kind="client",
        start_ns=start,
        end_ns=start + 900_000_000,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "large",
            "gen_ai.response.model": "large-1",
            "gen_ai.response.id": f"resp-{number}",
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.usage.input_tokens": 2100,
            "gen_ai.usage.output_tokens": 310,
            "gen_ai.request.temperature": 0.2,
            "session.id": f"session-{number // 20}",
            "gen_ai.input.messages": json.dumps(given),
            "gen_ai.output.messages": json.dumps(made),
        },
        resource=Resource(attributes={"service.name": "load"}),
        scope=Scope(name="load", version="1"),
    )


class Bodies:
    """Request bodies whose spans all have ids of their own: a template, with the ids written over."""

    def __init__(self, size: int, per_request: int) -> None:
        self._per_request = per_request
        body = bytearray(encode_protobuf_traces([span(n, size) for n in range(per_request)]))
        self._places = []
        for number in range(per_request):
            mark = b"\x0a\x10" + (number + 1).to_bytes(16, "big") + b"\x12\x08" + (number + 1).to_bytes(8, "big")
            self._places.append(body.index(mark))
        self._body = body
        self.bytes = len(body)

    def make(self, request: int) -> bytes:
        """The body of one request."""
        body = bytearray(self._body)
        for index, place in enumerate(self._places):
            number = (request + 1) * self._per_request + index + 1
            body[place + 2 : place + 18] = number.to_bytes(16, "big")
            body[place + 20 : place + 28] = number.to_bytes(8, "big")
        return bytes(body)


def converter_rate(folder: Path, size: int, spans: int) -> float:
    """Spans per second of `convert` in one process, from a JSON Lines file to the null device."""
    path = folder / "spans.jsonl"
    with path.open("w") as file:
        for first in range(0, spans, 50):
            file.write(json.dumps(encode_json([span(n, size) for n in range(first, first + 50)])) + "\n")
    times = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([*CLI, "convert", str(path), "-o", "/dev/null", "--quiet"], check=True)
        times.append(time.perf_counter() - began)
    idle = time.perf_counter()
    subprocess.run([*CLI, "--help"], check=True, stdout=subprocess.DEVNULL)
    path.unlink()
    return spans / (min(times) - (time.perf_counter() - idle))


class Load:
    """Requests at an even rate over several connections."""

    def __init__(self, address: str, bodies: Bodies, protocol: str, connections: int) -> None:
        self._address = address
        self._bodies = bodies
        self._protocol = protocol
        self._connections = connections
        self._next = 0
        self._lock = threading.Lock()
        self.replies: list[float] = []
        self.refused = 0

    def run(self, per_second: float, seconds: float) -> tuple[int, float]:
        """Requests sent, and how long it took."""
        self.replies, self.refused = [], 0
        began = time.perf_counter()
        total = int(per_second * seconds)
        first = self._next
        taken = iter(range(total))
        threads = [
            threading.Thread(target=self._work, args=(taken, first, began, per_second))
            for _ in range(self._connections)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._next += total
        return total, time.perf_counter() - began

    def _work(self, taken: Any, first: int, began: float, per_second: float) -> None:
        post = self._grpc() if self._protocol == "grpc" else self._http()
        while True:
            with self._lock:
                number = next(taken, None)
            if number is None:
                return
            body = self._bodies.make(first + number)
            due = began + number / per_second
            time.sleep(max(0.0, due - time.perf_counter()))
            while True:
                sent = time.perf_counter()
                good = post(body)
                took = time.perf_counter() - sent
                if good:
                    break
                with self._lock:
                    self.refused += 1
                time.sleep(0.2)
            with self._lock:
                self.replies.append(took)

    def _http(self) -> Any:
        host, _, port = self._address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)

        def post(body: bytes) -> bool:
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
            reply = connection.getresponse()
            reply.read()
            return reply.status == 200

        return post

    def _grpc(self) -> Any:
        import grpc

        channel = grpc.insecure_channel(self._address, options=[("grpc.use_local_subchannel_pool", 1)])
        export = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")

        def post(body: bytes) -> bool:
            try:
                export(body, timeout=60)
            except grpc.RpcError:
                return False
            return True

        return post


class Watch:
    """Resident memory of the sidecar's processes and the outcomes in its store, sampled twice a second."""

    def __init__(self, pid: int, store: Path) -> None:
        self.most = 0
        self._pid = pid
        self._store = store
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def facts(self) -> int:
        """Outcomes committed so far."""
        with closing(sqlite3.connect(f"file:{self._store}?mode=ro", uri=True, timeout=30)) as database:
            return int(database.execute("SELECT coalesce(max(seq), 0) FROM facts").fetchone()[0])

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stop.wait(0.5):
            self.most = max(self.most, sum(resident(pid) for pid in family(self._pid)))


def family(pid: int) -> list[int]:
    """A process and what it started."""
    found = [pid]
    for at in found:
        try:
            for task in os.listdir(f"/proc/{at}/task"):
                found += map(int, Path(f"/proc/{at}/task/{task}/children").read_text().split())
        except OSError:
            continue
    return found


def resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    bodies = Bodies(options.span_bytes, options.per_request)
    rate = converter_rate(folder, options.span_bytes, options.convert_spans)
    figures: dict[str, Any] = {
        "span bytes": round(bodies.bytes / options.per_request),
        "spans per request": options.per_request,
        "protocol": options.protocol,
        "convert, one core, spans/s": round(rate),
    }
    data = folder / "data"
    log = folder / "log"
    ports = ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    with log.open("wb") as out:
        process = subprocess.Popen([*CLI, "serve", "--data", str(data), *ports, "--settle", str(SETTLE)], stderr=out)
    try:
        address = ""
        while not address:
            time.sleep(0.1)
            found = re.search(rf'protocol="{options.protocol}" address="([^"]+)"', log.read_text())
            address = found[1] if found else ""
        time.sleep(1.5)
        watch = Watch(process.pid, data / "facts.db")
        load = Load(address, bodies, options.protocol, options.connections)
        offered = rate * options.share / options.per_request
        sent, took = load.run(offered, options.seconds)
        spans = sent * options.per_request
        behind = spans - watch.facts()
        figures |= {
            "offered, spans/s": round(offered * options.per_request),
            "accepted, spans/s": round(spans / took),
            "share of convert": round(spans / took / rate, 3),
            "refused and sent again": load.refused,
            "p99 reply at that rate, ms": round(percentile(load.replies, 0.99) * 1000, 1),
            "without outcome at the end, seconds of input": round(behind / (spans / took), 1),
        }
        ended = time.perf_counter()
        while watch.facts() < spans and time.perf_counter() - ended < 120:
            time.sleep(0.1)
        drained = time.perf_counter() - ended
        figures["until the last outcome, s (settle window included)"] = round(drained, 1)
        figures["outcomes missing"] = spans - watch.facts()
        sent, took = load.run(offered * 0.8, options.seconds / 2)
        figures |= {
            "80 %: accepted, spans/s": round(sent * options.per_request / took),
            "80 %: median reply, ms": round(percentile(load.replies, 0.5) * 1000, 1),
            "80 %: p99 reply, ms": round(percentile(load.replies, 0.99) * 1000, 1),
            "80 %: slowest reply, ms": round(max(load.replies) * 1000, 1),
        }
        watch.stop()
        figures["most resident memory, MB (all processes)"] = round(watch.most / 1e6)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    return figures


def missed(figures: dict[str, Any], share: float) -> list[str]:
    """The goals that were not reached."""
    goals = {
        f"sustain {share:g} of convert's rate": figures["share of convert"] >= share * 0.99,
        "backlog under ten seconds of input": figures["without outcome at the end, seconds of input"] < 10,
        "every span has its outcome": figures["outcomes missing"] == 0,
        "p99 reply under 250 ms at 80 %": figures["80 %: p99 reply, ms"] < 250,
        "resident memory under 400 MB": figures["most resident memory, MB (all processes)"] < 400,
    }
    return [goal for goal, reached in goals.items() if not reached]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--span-bytes", type=int, default=12_000)
    parser.add_argument("--per-request", type=int, default=100)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--convert-spans", type=int, default=10_000)
    parser.add_argument("--protocol", choices=("http", "grpc"), default="http")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(options, Path(folder))
    failures = missed(figures, options.share)
    if options.json:
        print(json.dumps({**figures, "missed": failures}))
    else:
        for name, value in figures.items():
            print(f"{name:<52} {value}")
        print("all goals reached" if not failures else "MISSED: " + "; ".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
