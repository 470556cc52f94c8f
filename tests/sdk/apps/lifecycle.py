# SPDX-License-Identifier: Apache-2.0
"""A process that ends, or multiplies, in the way that its first argument says: python lifecycle.py WAY SINK."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from sediment_otel.sdk import SedimentSpanProcessor

CALL: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]),
    "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "yo"}]}]),
}

OPEN: list[Any] = []


def main(way: str, sink: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    provider = TracerProvider(shutdown_on_exit=way != "nobody shuts down")
    processor = SedimentSpanProcessor(sink, schedule_delay=0.05)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("t")

    def calls(count: int, name: str) -> None:
        for _ in range(count):
            tracer.start_span(name, attributes=CALL | {"session.id": name}).end()

    if way in ("exit", "nobody shuts down"):
        calls(3, "s")
    elif way == "exit with open spans":
        OPEN.append(tracer.start_span("root", attributes={"session.id": "s"}))
        tracer.start_span("chat", context=trace.set_span_in_context(OPEN[0]), attributes=CALL).end()
        tracer.start_span("never ends")
    elif way == "sigterm handled":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        calls(3, "s")
        print("ready", flush=True)
        time.sleep(60)
    elif way == "sigterm":
        while True:
            calls(5, "s")
            processor.force_flush()
            print("ready", flush=True)
    elif way == "fork under load":
        fork_under_load(processor, calls)
    elif way == "exception":
        calls(3, "s")
        raise SystemExit("the application fails")


def fork_under_load(processor: SedimentSpanProcessor, calls: Any) -> None:
    """Threads end spans while children are made; each child ends its own and says its account."""
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            calls(1, "parent")

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    children = []
    for number in range(4):
        time.sleep(0.05)
        pid = os.fork()
        if pid == 0:
            calls(20, f"child-{number}")
            processor.shutdown()
            os._exit(0 if processor.snapshot().facts == processor.snapshot().ended == 20 else 1)
        children.append(pid)
    stop.set()
    for thread in threads:
        thread.join()
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    processor.shutdown()
    print(json.dumps({"children": codes, "facts": processor.snapshot().facts, "ended": processor.snapshot().ended}))


if __name__ == "__main__":
    main(*sys.argv[1:])
