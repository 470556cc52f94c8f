# SPDX-License-Identifier: Apache-2.0
"""Rounds of SIGKILL under load: whatever was acknowledged must have its outcome exactly once.

    python tests/faults/kill_rounds.py [--rounds 100] [--seed N]

Several clients send calls without pause: plain ones, ones whose content is on log records, wrappers with the call
inside, agents, calls without a session. Every round the sidecar (or, now and then, its translator alone) is
killed at a random moment and started again on the same directory. A client whose request was not answered sends
it again, as an exporter does. In the end: every acknowledged span has one outcome, the one it must have, and the
facts are those that the converter makes of the same telemetry, byte for byte.
"""

from __future__ import annotations

import argparse
import http.client
import os
import random
import signal
import sys
import tempfile
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "sidecar"))

from sidecar_kit import Sidecar, agent, call, details, wait_for

from sediment_otel.otlp import encode_protobuf_logs, encode_protobuf_traces
from sediment_otel.settings import Settings
from sediment_otel.telemetry import LogRecord, Span
from sediment_otel.translate.call import Context, translate

SETTLE = 1.0
CLIENTS = 4


@dataclass
class Unit:
    """One trace: what is sent, in requests, and what must become of each span. None: a fact."""

    requests: list[tuple[str, bytes]]
    expected: dict[str, str | None]
    facts: dict[str, bytes]
    acknowledged: list[int] = field(default_factory=list)


def key(span: Span) -> str:
    return f"{span.trace_id}:{span.span_id}"


def fact(span: Span, records: tuple[LogRecord, ...] = (), context: Context | None = None) -> bytes:
    made = translate(span, Settings(), records=records, context=context or Context()).encoded
    assert made is not None
    return made


def unit(number: int) -> Unit:
    """A trace of one of the kinds, by its number."""
    kind = number % 5
    text = f"question {number} " + "word " * (number % 400)
    if kind == 0:
        spans = [call(number, 1, given=text), call(number, 2, given=text, answer="other")]
        return Unit(
            [("traces", encode_protobuf_traces(spans))],
            {key(s): None for s in spans},
            {key(s): fact(s) for s in spans},
        )
    if kind == 1:
        span, record = call(number, 1, given=None, answer=None), details(number, 1, note=number)
        requests = [("logs", encode_protobuf_logs([record])), ("traces", encode_protobuf_traces([span]))]
        return Unit(requests, {key(span): None}, {key(span): fact(span, (record,))})
    if kind == 2:
        inner, outer = call(number, 2, parent=1, given=text), call(number, 1, given=text)
        requests = [("traces", encode_protobuf_traces([inner, outer]))]
        return Unit(requests, {key(inner): None, key(outer): "wrapper"}, {key(inner): fact(inner)})
    if kind == 3:
        inner, outer = call(number, 2, parent=1, session=None, given=text), agent(number, 1, session=f"agent-{number}")
        context = Context(f"agent-{number}", "ancestor span session.id")
        requests = [("traces", encode_protobuf_traces([inner, outer]))]
        expected = {key(inner): None, key(outer): "not_a_model_call"}
        return Unit(requests, expected, {key(inner): fact(inner, (), context)})
    span = call(number, 1, session=None)
    return Unit([("traces", encode_protobuf_traces([span]))], {key(span): "no_session"}, {})


class Clients:
    """Threads that send units until they are told to stop; every unit they began is acknowledged in the end."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._next = 1
        self.life = 0
        self.done: list[Unit] = []
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(CLIENTS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()

    def _work(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                number, self._next = self._next, self._next + 1
            made = unit(number)
            for signal_name, body in made.requests:
                while True:
                    life = self.life
                    if self._post(signal_name, body):
                        made.acknowledged.append(life if life == self.life else -1)
                        break
                    time.sleep(0.05)
            with self._lock:
                self.done.append(made)

    def _post(self, signal_name: str, body: bytes) -> bool:
        address = self._sidecar.addresses.get("http", "")
        host, _, port = address.rpartition(":")
        with (
            suppress(OSError, http.client.HTTPException, ValueError),
            closing(http.client.HTTPConnection(host, int(port or "0"), timeout=30)) as connection,
        ):
            connection.request("POST", f"/v1/{signal_name}", body, {"Content-Type": "application/x-protobuf"})
            reply = connection.getresponse()
            reply.read()
            return reply.status == 200
        return False


@dataclass
class Figures:
    """What a run of rounds saw."""

    rounds: int
    seconds: float
    units: int
    spans: int
    facts: int
    skipped: int
    compared: int


def run(folder: Path, rounds: int, seed: int) -> Figures:
    """The rounds, and the checks. Raises AssertionError where something was lost or came twice."""
    chance = random.Random(seed)
    began = time.monotonic()
    sidecar = Sidecar(folder / "data", settle=SETTLE)
    sidecar.start()
    clients = Clients(sidecar)
    clients.start()
    for number in range(rounds):
        time.sleep(chance.uniform(0.05, 1.6))
        if number % 5 == 4:
            kill_translator(sidecar)
            continue
        sidecar.kill()
        sidecar.addresses = {}
        clients.life += 1
        sidecar.start(ready=False)
    clients.stop()
    wait_for(lambda: sidecar.get("/readyz")[0] == 200)
    sidecar.settled()
    facts, skips = outcomes(sidecar)
    assert sidecar.stop() == 0
    check(clients.done, facts, skips)
    compared = compare(clients.done, facts)
    return Figures(
        rounds,
        time.monotonic() - began,
        len(clients.done),
        sum(len(u.expected) for u in clients.done),
        len(facts),
        len(skips),
        compared,
    )


def kill_translator(sidecar: Sidecar) -> None:
    """SIGKILL to the process that translates; its parent must start another."""
    assert sidecar.process is not None
    pid = sidecar.process.pid
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), signal.SIGKILL)


def outcomes(sidecar: Sidecar) -> tuple[dict[str, bytes], dict[str, str]]:
    rows = sidecar.rows("SELECT capture_key, CAST(fact AS BLOB) FROM facts")
    facts = {capture: bytes(encoded) for capture, encoded in rows}
    assert len(facts) == len(rows), "a call gave two facts"
    return facts, sidecar.skips()


def check(units: list[Unit], facts: dict[str, bytes], skips: dict[str, str]) -> None:
    """Every acknowledged span has one outcome; where nothing came in between, the right one."""
    for made in units:
        whole = len(set(made.acknowledged)) == 1 and -1 not in made.acknowledged
        for capture, reason in made.expected.items():
            found = (capture in facts) + (capture in skips)
            assert found == 1, f"{capture}: {found} outcomes, {skips.get(capture)}"
            if whole or len(made.requests) == 1:
                assert skips.get(capture) == reason, f"{capture}: {skips.get(capture)}, expected {reason}"


def compare(units: list[Unit], facts: dict[str, bytes]) -> int:
    """The bytes of the facts; those whose log record and span met a restart in between are left out."""
    compared = 0
    for made in units:
        if len(made.requests) > 1 and (len(set(made.acknowledged)) > 1 or -1 in made.acknowledged):
            continue
        for capture, encoded in made.facts.items():
            assert facts[capture] == encoded, f"{capture}: other bytes than the converter's"
            compared += 1
    return compared


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder), options.rounds, options.seed)
    print(
        f"{found.rounds} kills in {found.seconds:.0f} s: {found.spans} acknowledged spans in {found.units} traces,"
        f" {found.facts} facts and {found.skipped} skips in the store, each span once; {found.compared} facts equal"
        " the converter's byte for byte"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
