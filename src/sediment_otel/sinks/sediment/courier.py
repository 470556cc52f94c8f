# SPDX-License-Identifier: Apache-2.0
"""Brings facts to a server: several posts in flight, each tried again until it is answered or patience ends.

`deliver` gives one `Result` per fact, in order, and raises nothing for a fact. Repeats do no harm: every post has the
capture id of its fact, so what arrived before an answer was lost is a `duplicate` the next time. Patience is measured
from the last success of any post: a server that is restarted costs time, one that is gone ends the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ...retry import Backoff
from ..base import Delivery
from .answers import THERE, Answer, Fate, classify, retry_after
from .envelope import MAX_BODY_BYTES, Envelope, NoCapture, Unsaid, envelope
from .http import Client, Reply, Unreachable
from .target import DOOR, WHO, Target

#: Bytes of bodies that are sent at the same time, at most (one body may always go).
BYTES_IN_FLIGHT = 64 * 1024 * 1024
#: A server that works for others and fails on one fact so many times does not want that fact.
TRIES_OF_A_FACT = 5
LONGEST_WAIT_S = 60.0
#: Answers that blame the fact once others got through.
_OF_THE_FACT = frozenset({"server_error", "invalid_acknowledgment"})


class Result(NamedTuple):
    """What became of a fact on its way. `attempts` is 0 where it was never sent."""

    inference_call_id: str
    fate: Fate
    reason: str = ""
    fact_id: str | None = None
    unsaid: tuple[Unsaid, ...] = ()
    attempts: int = 0
    size: int = 0


class Courier:
    """Posts to one server. One caller at a time; `stop` may be called from anywhere."""

    def __init__(
        self,
        target: Target,
        *,
        client: Client | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
        backoff: Callable[[], Backoff] = Backoff,
        residual: Callable[[bytes], bytes | None] | None = None,
    ) -> None:
        self.target = target
        #: The organisation that the server serves; None while it is not known.
        self.org: str | None = None
        self.successes = 0
        self._client = client or Client(target)
        self._clock = clock
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._backoff = backoff
        self._residual = residual or _residual
        self._lock = threading.Condition()
        self._bytes = 0
        self._last_success = clock()
        self._asked_who = False
        #: Why no fact gets through any more, once that is known.
        self.blocked: Answer | None = None

    def deliver(self, batch: Sequence[Delivery]) -> list[Result]:
        """Send the facts. After `blocked` or `undelivered`, the rest of the batch has that fate, too."""
        results: list[Result | None] = [None] * len(batch)
        self._last_success = self._clock()
        self.blocked = None
        if batch and self.blocked is None:
            self._ask_who()
        upcoming = iter(range(len(batch)))
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    index = next(upcoming, None)
                if index is None:
                    return
                try:
                    results[index] = self._bring(batch[index])
                except Exception as error:  # a fault of ours costs one fact, and is said
                    results[index] = Result(
                        batch[index].inference_call_id, Fate.UNDELIVERED, f"internal_{type(error).__name__}"
                    )

        threads = [
            threading.Thread(target=work, name="deliver", daemon=True)
            for _ in range(min(self.target.in_flight, len(batch)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [result for result in results if result is not None]

    def stop(self) -> None:
        """End all waiting: what was not delivered comes back as such."""
        self._stopping.set()

    def close(self) -> None:
        """Stop, and let go of the connections."""
        self.stop()
        self._client.close()

    # -- one fact ------------------------------------------------------------------------------------------

    def _bring(self, delivery: Delivery) -> Result:
        name = delivery.inference_call_id
        if self.blocked is not None:
            return Result(name, self.blocked.fate, self.blocked.reason)
        if self.org is not None and delivery.org_id != self.org:
            return Result(name, Fate.REFUSED, "other_org")
        try:
            packed = self._packed(delivery)
        except NoCapture:
            return Result(name, Fate.REFUSED, "unknown_capture")
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError, RecursionError):
            return Result(name, Fate.REFUSED, "invalid_fact")
        size = len(packed.body)
        if size > MAX_BODY_BYTES:
            return Result(name, Fate.REFUSED, "too_large_for_target", size=size)
        self._take(size)
        try:
            answer, attempts = self._post(packed.body, name)
        finally:
            self._give_back(size)
        unsaid = packed.unsaid if answer.fate is Fate.STORED else ()
        return Result(name, answer.fate, answer.reason, answer.fact_id, unsaid, attempts, size)

    def _packed(self, delivery: Delivery) -> Envelope:
        packed = envelope(delivery.encoded, delivery.capture_key)
        if len(packed.body) <= MAX_BODY_BYTES:
            return packed
        smaller = self._residual(delivery.encoded)
        return packed if smaller is None else envelope(smaller, delivery.capture_key, residual=True)

    def _post(self, body: bytes, name: str) -> tuple[Answer, int]:
        backoff = self._backoff()
        began = self.successes
        attempts = 0
        while True:
            attempts += 1
            answer, pause = self._answer(lambda: self._client.post(DOOR, body), lambda r: _meaning(r, name))
            if answer.fate is not Fate.AGAIN:
                with self._lock:
                    if answer.fate is Fate.BLOCKED:
                        self.blocked = answer
                    else:
                        self._last_success = self._clock()
                        self.successes += answer.fate in THERE
                return answer, attempts
            if answer.reason in _OF_THE_FACT and attempts >= TRIES_OF_A_FACT and self.successes > began:
                return Answer(Fate.REFUSED, answer.reason), attempts
            if not self._later(answer, backoff, pause):
                return self.blocked or Answer(Fate.UNDELIVERED, answer.reason), attempts

    def _answer(self, ask: Callable[[], Reply], meaning: Callable[[Reply], Answer]) -> tuple[Answer, float | None]:
        try:
            reply = ask()
        except Unreachable as error:
            return Answer(Fate.AGAIN, f"unreachable: {error.reason}"), None
        return meaning(reply), retry_after(reply.retry_after)

    def _later(self, answer: Answer, backoff: Backoff, pause: float | None) -> bool:
        """Wait before the next attempt; False where there is to be none."""
        delay = backoff.next() if pause is None else max(backoff.next(), min(pause, LONGEST_WAIT_S))
        with self._lock:
            if self.blocked is not None or self._stopping.is_set():
                return False
            if self._clock() + delay - self._last_success > self.target.patience:
                self.blocked = self.blocked or Answer(Fate.UNDELIVERED, answer.reason)
                return False
        return not self._wait(delay) and self.blocked is None

    def _ask_who(self) -> None:
        """Learn the organisation that the server serves, once: a fact of another one would be filed in it."""
        if self._asked_who:
            return
        backoff = self._backoff()
        while True:
            answer, pause = self._answer(lambda: self._client.get(WHO), self._who)
            if answer.fate is Fate.BLOCKED:
                self.blocked = answer
            if answer.fate is not Fate.AGAIN:
                self._asked_who = True
                self._last_success = self._clock()
                return
            if not self._later(answer, backoff, pause):
                return

    def _who(self, reply: Reply) -> Answer:
        if reply.status == 200:
            try:
                self.org = _me(reply.body).org_id
            except msgspec.DecodeError:
                return Answer(Fate.BLOCKED, "invalid_acknowledgment")
            return Answer(Fate.STORED)
        found = classify(reply.status, reply.body, "")
        # A release without this door: the posts will tell.
        return Answer(Fate.STORED) if found.reason in ("no_such_door", "client_rejected") else found

    # -- bytes in flight -----------------------------------------------------------------------------------

    def _take(self, size: int) -> None:
        with self._lock:
            while self._bytes and self._bytes + size > BYTES_IN_FLIGHT:
                self._lock.wait()
            self._bytes += size

    def _give_back(self, size: int) -> None:
        with self._lock:
            self._bytes -= size
            self._lock.notify_all()


class _Me(msgspec.Struct):
    org_id: str


_me = msgspec.json.Decoder(_Me).decode


def _meaning(reply: Reply, name: str) -> Answer:
    return classify(reply.status, reply.body, name)


def _residual(encoded: bytes) -> bytes | None:
    from ...translate.shrink import residual_fact

    return residual_fact(encoded)


__all__ = ["Courier", "Result"]
