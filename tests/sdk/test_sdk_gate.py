# SPDX-License-Identifier: Apache-2.0
"""A fork waits until the worker stands between two steps."""

from __future__ import annotations

import threading

from sediment_otel.sdk import gate as gate_module
from sediment_otel.sdk.gate import ForkGate


def test_a_fork_waits_for_the_end_of_the_step() -> None:
    gate = ForkGate()
    inside, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def step() -> None:
        with gate:
            inside.set()
            go_on.wait(10)
            order.append("step")

    def fork() -> None:
        gate.close()
        order.append("fork")
        gate.open()

    worker = threading.Thread(target=step)
    worker.start()
    assert inside.wait(10)
    forking = threading.Thread(target=fork)
    forking.start()
    go_on.set()
    for thread in (worker, forking):
        thread.join(10)
    assert order == ["step", "fork"]


def test_a_worker_that_is_never_idle_lets_a_fork_in(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(gate_module, "FORK_PATIENCE", 30.0)
    gate = ForkGate()
    stop = threading.Event()
    steps: list[int] = []

    def work() -> None:
        while not stop.is_set():
            with gate, gate:  # a step may have steps
                steps.append(1)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(20):
            gate.close()
            assert gate._closed
            assert gate._inside == 0
            gate.open()
    finally:
        stop.set()
        worker.join(10)


def test_a_step_that_does_not_end_does_not_hold_a_fork_for_ever(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(gate_module, "FORK_PATIENCE", 0.0)
    gate = ForkGate()
    inside, go_on = threading.Event(), threading.Event()

    def step() -> None:
        with gate:
            inside.set()
            go_on.wait(10)

    worker = threading.Thread(target=step)
    worker.start()
    assert inside.wait(10)
    gate.close()  # comes back, though the step goes on
    gate.open()
    go_on.set()
    worker.join(10)
    assert gate._inside == 0


def test_the_child_has_a_gate_of_its_own() -> None:
    gate = ForkGate()
    gate.__enter__()
    gate.close()
    gate.renew()
    entered = threading.Event()

    def step() -> None:
        with gate:
            entered.set()

    threading.Thread(target=step).start()
    assert entered.wait(10)
