# SPDX-License-Identifier: Apache-2.0
"""Delivery against a server that answers as the test says: retries, limits in flight, what ends a run."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sediment_otel.facts import InferenceCall, InferenceMessage, TextPart
from sediment_otel.retry import Backoff
from sediment_otel.sinks import SinkError, open_sink
from sediment_otel.sinks.base import Delivery, Receipt
from sediment_otel.sinks.sediment import courier as courier_module
from sediment_otel.sinks.sediment.answers import Fate
from sediment_otel.sinks.sediment.courier import Courier
from sediment_otel.sinks.sediment.gateway import SedimentSink
from sediment_otel.sinks.sediment.target import target_of
from sediment_otel.translate.identity import capture_id, inference_call_id

Answer = tuple[int, Any, dict[str, str]]


class Server:
    """Answers each post with `answer(body)`; keeps what it saw."""

    def __init__(self) -> None:
        self.answer: Callable[[dict[str, Any]], Answer] = lambda body: stored(body)
        self.me: Answer = (200, {"org_id": "acme", "version": "0", "authority": "ingest", "client_id": "c"}, {})
        self.bodies: list[dict[str, Any]] = []
        self.tokens: set[str] = set()
        self.most_at_once = self._now = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Nothing."""

            def do_GET(self) -> None:
                self._reply(outer.me)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    outer.bodies.append(body)
                    outer.tokens.add(self.headers["Authorization"])
                    outer._now += 1
                    outer.most_at_once = max(outer.most_at_once, outer._now)
                try:
                    reply = outer.answer(body)
                finally:
                    with outer._lock:
                        outer._now -= 1
                self._reply(reply)

            def _reply(self, reply: Answer) -> None:
                status, content, headers = reply
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                """A client that goes away is part of the tests."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"sediment+http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def stored(body: dict[str, Any]) -> Answer:
    return 200, {"fact_id": inference_call_id("acme", body["capture"]["id"]), "stored": True}, {}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("SEDIMENT_OTEL_TOKEN", "the-token")
    found = Server()
    yield found
    found.close()


def fact(number: int, **more: Any) -> Delivery:
    trace, span = f"{1:032x}", f"{number + 1:016x}"
    given: dict[str, Any] = {
        "org_id": "acme",
        "user_id": None,
        "gateway_provider": "unknown",
        "model_provider": None,
        "model": "m",
        "input_tokens": None,
        "output_tokens": None,
        "duration_ms": None,
        "model_call_id": None,
        "observed_at": "2026-01-01T00:00:00Z",
        "raw": {"span": {"trace_id": trace, "span_id": span}},
        **more,
    }
    call = InferenceCall(
        inference_call_id=inference_call_id(given["org_id"], capture_id(f"{trace}:{span}")),
        session_id=f"s-{number}",
        input_messages=[InferenceMessage("user", [TextPart("q")], None)],
        output_messages=[],
        **given,
    )
    return Delivery.of(call)


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now += seconds
        return False


def courier(server: Server, clock: Clock, *, query: str = "", **more: Any) -> Courier:
    target = target_of(server.url + query, {"SEDIMENT_OTEL_TOKEN": "the-token"})
    return Courier(target, clock=clock, wait=clock.wait, **more)


def test_every_fact_is_posted_once_with_its_capture_and_the_token(server: Server) -> None:
    facts = [fact(number) for number in range(20)]
    results = courier(server, Clock()).deliver(facts)
    assert [result.inference_call_id for result in results] == [one.inference_call_id for one in facts]
    assert {result.fate for result in results} == {Fate.STORED}
    assert len(server.bodies) == 20
    assert server.tokens == {"Bearer the-token"}
    assert all(body.keys() == {"provider", "session_id", "user_id", "payload", "capture"} for body in server.bodies)


def test_posts_in_flight_are_bounded(server: Server) -> None:
    gate = threading.Barrier(3, timeout=10)

    def together(body: dict[str, Any]) -> Answer:
        gate.wait()
        return stored(body)

    server.answer = together
    courier(server, Clock(), query="?in_flight=3").deliver([fact(number) for number in range(12)])
    assert server.most_at_once == 3


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(server: Server, status: int) -> None:
    left = [status, status, status]
    server.answer = lambda body: (left.pop(), b"", {}) if left else stored(body)
    clock = Clock()
    (result,) = courier(server, clock).deliver([fact(1)])
    assert (result.fate, result.attempts) == (Fate.STORED, 4)
    assert len(clock.waits) == 3
    assert clock.waits[0] < clock.waits[2]


def test_the_server_names_how_long_to_wait(server: Server) -> None:
    left = ["17"]
    server.answer = lambda body: (503, b"", {"Retry-After": left.pop()}) if left else stored(body)
    clock = Clock()
    courier(server, clock).deliver([fact(1)])
    assert clock.waits == [17.0]


def test_an_unreasonable_wait_is_cut(server: Server) -> None:
    left = ["99999999"]
    server.answer = lambda body: (503, b"", {"Retry-After": left.pop()}) if left else stored(body)
    clock = Clock()
    courier(server, clock, query="?patience=1000").deliver([fact(1)])
    assert clock.waits == [60.0]


def test_an_answer_that_no_sediment_gives_is_tried_again_and_then_costs_only_its_fact(server: Server) -> None:
    bad = fact(1).inference_call_id

    def answer(body: dict[str, Any]) -> Answer:
        return (200, b"<html>", {}) if body["session_id"] == "s-1" else stored(body)

    server.answer = answer
    results = courier(server, Clock(), query="?in_flight=1").deliver([fact(0), fact(1), fact(2)])
    # Alone it would wait for patience; what shows that the server works comes from the others.
    again = courier(server, Clock(), query="?in_flight=2").deliver([fact(1), *(fact(n) for n in range(2, 40))])
    assert bad in {result.inference_call_id for result in (*results, *again) if result.fate is not Fate.STORED}
    assert next(result for result in again if result.inference_call_id == bad).reason == "invalid_acknowledgment"
    assert sum(result.fate is Fate.STORED for result in again) == 38


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "authentication_rejected"),
        (403, "authentication_rejected"),
        (404, "no_such_door"),
        (302, "redirect_rejected"),
    ],
)
def test_what_concerns_every_fact_ends_the_run_at_once(server: Server, status: int, reason: str) -> None:
    server.answer = lambda body: (status, b"", {"Location": "http://127.0.0.1:1/elsewhere"})
    results = courier(server, Clock(), query="?in_flight=1").deliver([fact(number) for number in range(10)])
    assert {(result.fate, result.reason) for result in results} == {(Fate.BLOCKED, reason)}
    assert len(server.bodies) == 1, "nothing is posted after that, and no redirect is followed"


@pytest.mark.parametrize(
    ("status", "fate"), [(400, Fate.REFUSED), (409, Fate.CONFLICT), (413, Fate.REFUSED), (422, Fate.REFUSED)]
)
def test_what_concerns_one_fact_costs_only_that_one(server: Server, status: int, fate: Fate) -> None:
    server.answer = lambda body: (status, b"", {}) if body["session_id"] == "s-1" else stored(body)
    results = courier(server, Clock()).deliver([fact(0), fact(1), fact(2)])
    assert [result.fate for result in results] == [Fate.STORED, fate, Fate.STORED]
    assert len(server.bodies) == 3


def test_a_server_that_is_gone_is_waited_for_until_patience_ends(server: Server) -> None:
    server.close()
    clock = Clock()
    results = courier(server, clock, query="?patience=60").deliver([fact(0), fact(1)])
    assert {result.fate for result in results} == {Fate.UNDELIVERED}
    assert 20 < clock.now <= 60
    assert all("unreachable" in result.reason for result in results)


def test_facts_of_another_organisation_are_not_posted(server: Server) -> None:
    results = courier(server, Clock()).deliver([fact(0, org_id="other"), fact(1)])
    assert [(result.fate, result.reason) for result in results] == [(Fate.REFUSED, "other_org"), (Fate.STORED, "")]
    assert len(server.bodies) == 1


def test_a_server_without_the_question_who_it_is_gets_the_facts_all_the_same(server: Server) -> None:
    server.me = (404, b"", {})
    assert courier(server, Clock()).deliver([fact(0)])[0].fate is Fate.STORED


def test_a_fact_whose_capture_is_not_known_is_refused_here(server: Server) -> None:
    results = courier(server, Clock()).deliver(
        [fact(0, raw={}), fact(1, raw={"span": 7}), fact(2, raw={"capture": []})]
    )
    assert {(result.fate, result.reason) for result in results} == {(Fate.REFUSED, "unknown_capture")}
    assert server.bodies == []


def test_a_fact_over_the_limit_goes_residual_and_else_not_at_all(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier_module, "MAX_BODY_BYTES", 1500)
    large = fact(0, raw={"span": {"trace_id": f"{1:032x}", "span_id": f"{1:016x}"}, "filler": "x" * 3000})
    smaller = fact(0)
    sent = courier(server, Clock(), residual=lambda encoded: smaller.encoded).deliver([large])
    assert (sent[0].fate, [code.value for code in sent[0].unsaid]) == (Fate.STORED, ["gateway_stamped", "raw_residual"])
    kept = courier(server, Clock(), residual=lambda encoded: None).deliver([large, fact(1)])
    assert [(result.fate, result.reason) for result in kept] == [
        (Fate.REFUSED, "too_large_for_target"),
        (Fate.STORED, ""),
    ]


def test_stop_ends_the_waiting(server: Server) -> None:
    server.close()
    target = target_of(server.url, {"SEDIMENT_OTEL_TOKEN": "the-token"})
    found = Courier(target, backoff=lambda: Backoff(first=30.0, most=60.0))
    threading.Timer(0.2, found.stop).start()
    assert found.deliver([fact(0)])[0].fate is Fate.UNDELIVERED


def test_the_sink_gives_receipts_and_remarks(server: Server) -> None:
    def answer(body: dict[str, Any]) -> Answer:
        status, content, headers = stored(body)
        if body["session_id"] == "s-1":
            content["stored"] = False
        if body["session_id"] == "s-2":
            content.update(stored=False, fact_id="another")
        return (422, b"", {}) if body["session_id"] == "s-3" else (status, content, headers)

    server.answer = answer
    with open_sink(server.url) as sink:
        receipts = sink.write([fact(number) for number in range(4)])
        assert receipts == [Receipt.STORED, Receipt.DUPLICATE, Receipt.COLLAPSED, Receipt.REFUSED]
        assert isinstance(sink, SedimentSink)
        assert sink.refused == 1
        told = "\n".join(sink.remarks())
    assert "1 refused: client_rejected" in told
    assert "1 collapsed: model_call_id_reused" in told
    assert "1 stored, not said: gateway_stamped" in told


def test_the_sink_raises_where_no_fact_gets_through_and_works_again_later(server: Server) -> None:
    server.answer = lambda body: (401, b"", {})
    with open_sink(server.url) as sink:
        with pytest.raises(SinkError, match="authentication_rejected"):
            sink.write([fact(0), fact(1)])
        server.answer = stored
        assert sink.write([fact(0), fact(1)]) == [Receipt.STORED, Receipt.STORED]


def test_an_answer_without_end_is_cut(server: Server) -> None:
    left = [b"x" * (1 << 20)]
    server.answer = lambda body: (200, left.pop(), {}) if left else stored(body)
    (result,) = courier(server, Clock()).deliver([fact(0)])
    assert (result.fate, result.attempts) == (Fate.STORED, 2)
