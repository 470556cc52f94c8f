# SPDX-License-Identifier: Apache-2.0
"""What a sidecar meets besides good requests: fuzzed bodies, half-sent ones, a thousand connections, sinks that are
down, a store that cannot be written. It keeps answering, and the counts add up."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import socket
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from sidecar_kit import Sidecar, call, details, wait_for

from sediment_otel.otlp import encode_json, encode_protobuf_logs, encode_protobuf_traces
from sediment_otel.sinks.base import Delivery, Receipt, SinkBase, SinkError

PROTOBUF, JSON = "application/x-protobuf", "application/json"


def head(size: int) -> bytes:
    """The head of a request with a body of that size."""
    fields = f"Host: x\r\nContent-Type: {PROTOBUF}\r\nContent-Length: {size}"
    return f"POST /v1/traces HTTP/1.1\r\n{fields}\r\n\r\n".encode()


def harmed(data: bytes, chance: random.Random) -> bytes:
    """The data with a few bytes changed, cut out, doubled or put in."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(4)
        if kind == 0 and at < len(changed):
            changed[at] = chance.randrange(256)
        elif kind == 1:
            del changed[at : at + chance.randint(1, 40)]
        elif kind == 2:
            changed[at:at] = changed[at : at + 40]
        else:
            changed[at:at] = chance.randbytes(chance.randint(1, 8))
    return bytes(changed)


@pytest.mark.parametrize("form", [PROTOBUF, JSON])
@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_fuzzed_bodies_are_answered_and_every_accepted_span_has_its_outcome(
    tmp_path: Path, form: str, signal: str
) -> None:
    chance = random.Random(f"{form} {signal}")
    items = [call(n + 1, 1) for n in range(3)] if signal == "traces" else [details(n + 1, 1) for n in range(3)]
    if form == JSON:
        whole = json.dumps(encode_json(items)).encode()
    else:
        whole = encode_protobuf_traces(items) if signal == "traces" else encode_protobuf_logs(items)  # type: ignore[arg-type]
    statuses = set()
    with Sidecar(tmp_path / "data") as sidecar:
        for _ in range(250):
            status, headers, _ = sidecar.post(harmed(whole, chance), signal=signal, form=form)
            assert status in (200, 400), status
            assert headers["content-type"] == form
            statuses.add(status)
        assert statuses == {200, 400}
        sidecar.settled()
        spans = sidecar.metric("received_spans_total")
        decided = sidecar.metric("facts_total") + sidecar.metric("skipped_total")
        if signal == "traces":
            assert decided == spans > 0
        assert sidecar.get("/readyz")[0] == 200
        assert sidecar.metric("translator_restarts_total") == 0
        sidecar.send([call(999, 1)])
        sidecar.settled()
        assert any(b"%032x" % 999 in fact for fact in sidecar.facts())


def test_half_sent_bodies_and_slow_clients_hold_up_nobody(tmp_path: Path) -> None:
    body = encode_protobuf_traces([call(5, 1)])
    whole = head(len(body)) + body
    with Sidecar(tmp_path / "data", "--read-timeout", "20") as sidecar:
        host, _, port = sidecar.addresses["http"].rpartition(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(50)]
        for number, sock in enumerate(silent):
            sock.sendall(whole[: 1 + number * 7 % (len(whole) - 1)])
        sidecar.send([call(1, 1)])
        sidecar.settled()
        assert len(sidecar.facts()) == 1
        for sock in silent[:25]:
            sock.close()
        slow = silent[-1]
        sent = 1 + (len(silent) - 1) * 7 % (len(whole) - 1)
        slow.settimeout(30)
        for at in range(sent, len(whole), 97):
            slow.sendall(whole[at : at + 97])
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        for sock in silent[25:]:
            sock.close()
        sidecar.settled()
        assert len(sidecar.facts()) == 2
        wait_for(lambda: sidecar.metric("memory_in_flight_bytes") == 0)


def test_a_thousand_connections_are_served(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2500:
        pytest.skip(f"this machine allows {hard} open files; the test needs 2500")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2500), hard))
    with Sidecar(tmp_path / "data") as sidecar, contextlib.ExitStack() as stack:
        host, _, port = sidecar.addresses["http"].rpartition(":")
        socks = [stack.enter_context(socket.create_connection((host, int(port)), timeout=60)) for _ in range(1000)]
        for number, sock in enumerate(socks):
            body = encode_protobuf_traces([call(number + 1, 1)])
            sock.sendall(head(len(body)) + body)
        for sock in socks:
            assert sock.recv(200).startswith(b"HTTP/1.1 200")
        sidecar.settled()
        assert len(sidecar.facts()) == 1000


def test_a_memory_budget_refuses_with_a_delay_and_recovers(tmp_path: Path) -> None:
    with Sidecar(tmp_path / "data", "--memory-budget", "200000", "--read-timeout", "30") as sidecar:
        host, _, port = sidecar.addresses["http"].rpartition(":")
        hog = socket.create_connection((host, int(port)))
        hog.sendall(head(190_000))
        hog.sendall(b"\0" * 180_000)
        wait_for(lambda: sidecar.metric("memory_in_flight_bytes") == 180_000)
        big = encode_protobuf_traces([call(1, 1, given="x" * 50_000)])
        status, headers, _ = sidecar.post(big)
        assert (status, headers["retry-after"]) == (503, "1")
        hog.close()
        wait_for(lambda: sidecar.metric("memory_in_flight_bytes") == 0)
        assert sidecar.post(big)[0] == 200


def test_large_requests_do_not_starve_each_other(tmp_path: Path) -> None:
    limits = ["--max-request-bytes", "4MiB", "--memory-budget", "8MiB"]
    with Sidecar(tmp_path / "data", *limits) as sidecar:
        bodies = [encode_protobuf_traces([call(n + 1, 1, given="x" * 3_500_000)]) for n in range(6)]
        statuses: list[int] = []
        threads = [threading.Thread(target=lambda b=b: statuses.append(sidecar.post(b)[0])) for b in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == [200] * 6
        sidecar.settled()
        assert len(sidecar.facts()) == 6


def test_json_that_would_take_a_multiple_of_its_size_is_refused(tmp_path: Path) -> None:
    with Sidecar(tmp_path / "data") as sidecar:
        status, _, body = sidecar.post(b'{"resourceSpans":[' + b"{}," * 3_000_000 + b"{}]}", form=JSON)
        assert status == 413
        assert "memory_budget" in json.loads(body)["message"]


def test_a_failing_sink_holds_up_neither_the_store_nor_other_sinks(tmp_path: Path) -> None:
    bad, good = tmp_path / "missing" / "facts.jsonl", tmp_path / "good.jsonl"
    with Sidecar(tmp_path / "data", "-o", str(bad), "-o", str(good)) as sidecar:
        sidecar.send([call(n + 1, 1) for n in range(20)])
        wait_for(lambda: good.exists() and len(good.read_bytes().splitlines()) == 20)
        wait_for(lambda: sidecar.metric("delivery_failures_total", sink=str(bad)) >= 1)
        assert sidecar.metric("undelivered_facts", sink=str(bad)) == 20
        assert sidecar.metric("undelivered_facts", sink=str(good)) == 0
        sidecar.kill()
        sidecar.start()
        bad.parent.mkdir()
        wait_for(lambda: bad.exists() and len(bad.read_bytes().splitlines()) == 20)
        assert bad.read_bytes() == good.read_bytes()
        sidecar.send([call(100, 1)])
        wait_for(lambda: len(good.read_bytes().splitlines()) == 21 and len(bad.read_bytes().splitlines()) == 21)


def test_a_crash_before_the_cursor_moved_repeats_nothing_in_a_json_lines_file(tmp_path: Path) -> None:
    out = tmp_path / "facts.jsonl"
    sidecar = Sidecar(tmp_path / "data", "-o", str(out)).start()
    sidecar.send([call(n + 1, 1) for n in range(20)])
    wait_for(lambda: out.exists() and len(out.read_bytes().splitlines()) == 20)
    sidecar.settled()
    assert sidecar.stop() == 0
    with sqlite3.connect(tmp_path / "data" / "journal.db") as database:
        assert database.execute("UPDATE cursors SET seq = 5").rowcount == 1
    with sidecar:
        sidecar.send([call(100, 1)])
        wait_for(lambda: len(out.read_bytes().splitlines()) >= 21)
        wait_for(lambda: sidecar.metric("undelivered_facts") == 0)
        assert out.read_bytes().splitlines() == sidecar.facts()


def test_a_store_that_is_locked_for_a_while_loses_nothing(tmp_path: Path) -> None:
    with Sidecar(tmp_path / "data") as sidecar:
        sidecar.send([call(1, 1)])
        sidecar.settled()
        blocker = sqlite3.connect(tmp_path / "data" / "facts.db", isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        sidecar.send([call(n + 2, 1) for n in range(10)])
        time.sleep(1.0)
        assert len(sidecar.facts()) == 1
        blocker.execute("ROLLBACK")
        blocker.close()
        sidecar.settled()
        assert len(sidecar.facts()) == 11


def test_a_second_sidecar_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    with Sidecar(tmp_path / "data"):
        second = Sidecar(tmp_path / "data")
        with pytest.raises(AssertionError, match="another sidecar runs in this directory"):
            second.start()


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with Sidecar(tmp_path / "one") as first:
        second = Sidecar(tmp_path / "two", "--http", first.addresses["http"])
        with pytest.raises(AssertionError, match="cannot listen"):
            second.start()


def test_an_orderly_end_lets_everything_run_through(tmp_path: Path) -> None:
    out = tmp_path / "facts.jsonl"
    sidecar = Sidecar(tmp_path / "data", "-o", str(out), settle=1.0).start()
    sidecar.send([call(n + 1, 1) for n in range(30)])
    began = time.monotonic()
    assert sidecar.stop() == 0
    assert time.monotonic() - began < 15
    assert len(sidecar.facts()) == 30
    assert len(out.read_bytes().splitlines()) == 30


def test_an_orderly_end_keeps_to_its_bound_and_leaves_the_rest_in_the_journal(tmp_path: Path) -> None:
    sidecar = Sidecar(tmp_path / "data", "--grace", "0.5", settle=30.0).start()
    sidecar.send([call(1, 1)])
    began = time.monotonic()
    assert sidecar.stop() == 0
    assert time.monotonic() - began < 10
    assert sidecar.facts() == []
    again = Sidecar(tmp_path / "data", settle=0.1).start()
    again.settled()
    assert len(again.facts()) == 1
    assert again.stop() == 0


def test_journal_files_are_private_and_hold_no_content_once_outcomes_are_committed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Sidecar(data, settle=0.5) as sidecar:
        # The journal compresses: something that stays as it is under compression.
        mark = bytes(random.Random(1).choices(b"abcdefghijklmnopqrstuvwxyz0123456789", k=4000)).decode()
        sidecar.send([call(1, 1, given=mark)])
        assert data.stat().st_mode & 0o777 == 0o700
        for file in data.iterdir():
            assert file.stat().st_mode & 0o777 == 0o600, file
        sidecar.settled()
        files = [data / "journal.db", data / "journal.db-wal"]
        wait_for(lambda: not (data / "journal.db-wal").exists() or (data / "journal.db-wal").stat().st_size == 0)
        with sqlite3.connect(data / "journal.db") as database:
            assert database.execute("SELECT count(*) FROM bodies").fetchone() == (0,)
        held = b"".join(file.read_bytes() for file in files if file.exists())
        assert b"\x28\xb5\x2f\xfd" not in held  # no zstd frame is left


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a limit on file sizes")
def test_a_full_disk_refuses_new_data_and_loses_nothing(tmp_path: Path) -> None:
    """The size of files is limited for the sidecar, which is what a full disk looks like to SQLite."""
    data = tmp_path / "data"
    with Sidecar(data) as sidecar:
        sidecar.send([call(1, 1)])
        sidecar.settled()
        assert sidecar.process is not None
        for pid in _family(sidecar.process.pid):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        chance = random.Random(5)
        accepted = 1
        for number in range(2, 60):
            noise = bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz", k=20_000)).decode()
            status, headers, _ = sidecar.post(encode_protobuf_traces([call(number, 1, given=noise)]))
            assert status in (200, 503)
            if status == 200:
                accepted += 1
            else:
                assert int(headers["retry-after"]) >= 1
                break
        assert status == 503
        assert sidecar.get("/healthz")[0] == 200
        for pid in _family(sidecar.process.pid):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_for(lambda: sidecar.post(encode_protobuf_traces([call(1000, 1)]))[0] == 200)
        sidecar.settled()
        assert len(sidecar.facts()) == accepted + 1


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


class Flaky(SinkBase):
    """A sink that fails a few times, then works; used in process."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.got: list[Delivery] = []

    def write(self, batch: list[Delivery]) -> list[Receipt]:  # type: ignore[override]
        if self.failures:
            self.failures -= 1
            raise SinkError("is down", "here", "wait")
        self.got += batch
        return [Receipt.STORED for _ in batch]

    def close(self) -> None:
        pass


def test_a_sink_that_comes_back_gets_everything_in_order(tmp_path: Path) -> None:
    from sediment_otel.retry import Backoff
    from sediment_otel.sidecar.delivery import Outbox
    from sediment_otel.sidecar.journal import Journal
    from sediment_otel.sidecar.metrics import Metrics
    from sediment_otel.sinks.store import Store
    from sediment_otel.translate.call import translate

    store = Store(str(tmp_path / "facts.db"))
    for number in range(600):
        found = translate(call(number + 1, 1))
        fact = found.fact
        assert fact is not None
        store.write([Delivery.of(fact, found.encoded)])
    journal = Journal(tmp_path / "journal.db", budget=1 << 30, min_free=0, forwarding=False, keep=1)
    sink, metrics, said = Flaky(3), Metrics(), []
    outbox = Outbox(
        "test://user:secret@host/path?key=secret",
        lambda url: sink,
        tmp_path / "facts.db",
        journal,
        metrics,
        lambda *words, **more: said.append((words, more)),
        backoff=Backoff(first=0.01, most=0.02),
    )
    outbox.start()
    wait_for(lambda: len(sink.got) == 600)
    outbox.stop(5)
    assert [delivery.encoded for delivery in sink.got] == list(store.facts())
    assert metrics.value("delivery_failures_total") == 3
    assert "secret" not in repr(said) + metrics.text()
    again = Flaky(0)
    second = Outbox(
        "test://user:secret@host/path?key=secret", lambda url: again, tmp_path / "facts.db", journal, metrics, print
    )
    second.start()
    time.sleep(0.3)
    second.stop(5)
    assert again.got == []
    assert threading.active_count() < 10
    journal.close()
    store.close()
