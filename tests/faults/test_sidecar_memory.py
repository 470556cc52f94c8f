# SPDX-License-Identifier: Apache-2.0
"""Memory of real sidecar processes under requests that take a multiple of their size once they are decoded."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from sidecar_kit import Sidecar, call, messages

from sediment_otel.otlp import encode_protobuf_traces
from sediment_otel.otlp.weigh import weigh_json, weigh_protobuf

MIB = 1 << 20
#: What the receiving process of a sidecar with default settings may take (large messages over gRPC: a quarter more).
BOUND = 400 * MIB
PROTOBUF, JSON = "application/x-protobuf", "application/json"


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def part(field: int, inner: bytes) -> bytes:
    """A length-delimited field on the wire."""
    return varint(field << 3 | 2) + varint(len(inner)) + inner


IDS = part(1, b"\1" * 16) + part(2, b"\2" * 8)


def span(inner: bytes) -> bytes:
    return part(1, part(2, part(2, IDS + inner)))


SOME_KEYS = b"".join(part(9, part(1, b"%x" % n)) for n in range(50_000))


def full_of(kind: str, size: int) -> bytes:
    """A request of about that size that is made of one kind of part."""
    shapes = {
        "groups": lambda: part(1, b"") * (size // 2),
        "scopes": lambda: part(1, part(2, b"") * (size // 2)),
        "spans": lambda: part(1, part(2, part(2, b"") * (size // 2))),
        "good spans": lambda: part(1, part(2, part(2, IDS) * (size // 30))),
        "events": lambda: span(part(11, b"") * (size // 2)),
        "links": lambda: span(part(13, b"") * (size // 2)),
        "attributes": lambda: span(part(9, b"") * (size // 2)),
        "attributes with keys": lambda: span(SOME_KEYS * (size // len(SOME_KEYS) or 1)),
        "values": lambda: span(part(9, part(1, b"k") + part(2, part(5, part(1, b"") * (size // 2))))),
        "lists": lambda: span(part(9, part(1, b"k") + part(2, part(5, part(1, part(5, b"")) * (size // 4))))),
        "entities": lambda: part(1, part(1, part(3, b"") * (size // 2))),
        "damaged spans": lambda: part(1, part(2, part(2, IDS + part(5, b"\xff")) * (size // 35))),
    }
    return shapes[kind]()


KINDS = (
    "groups",
    "scopes",
    "spans",
    "good spans",
    "events",
    "links",
    "attributes",
    "attributes with keys",
    "values",
    "lists",
    "entities",
    "damaged spans",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_of_many_parts_weighs_a_multiple_of_its_size_and_counting_stops_at_the_bound(kind: str) -> None:
    data = full_of(kind, MIB)
    assert weigh_protobuf(data, 1 << 40) > 5 * len(data)
    assert weigh_protobuf(data, MIB) < MIB + 2000
    assert weigh_protobuf(data, 1 << 40, quick=16 * MIB) > 5 * len(data)


def test_text_weighs_next_to_nothing_and_wide_characters_what_they_add() -> None:
    plain = encode_protobuf_traces([call(1, 1, given='b{": "}' * 300_000)])
    assert weigh_protobuf(plain, 1 << 40) < 10_000
    wide = encode_protobuf_traces([call(1, 1, note="x" * 1_000_000 + "\U0001f600")])
    assert 3_000_000 <= weigh_protobuf(wide, 1 << 40) < 3_020_000
    accents = encode_protobuf_traces([call(1, 1, note="x" * 1_000_000 + "\u0416")])
    assert 1_000_000 <= weigh_protobuf(accents, 1 << 40) < 1_020_000
    latin = encode_protobuf_traces([call(1, 1, note="\u00e9" * 1_000_000)])
    assert weigh_protobuf(latin, 1 << 40) < 10_000


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"\x0a", b"\x0a\x7f", b"\x0b\x0c", b"\x0f", b"\x09\x00", b"\xff" * 1000, b"\x8a\x00\x00"],
)
def test_what_is_no_message_is_weighed_without_a_failure(data: bytes) -> None:
    assert weigh_protobuf(data, MIB) <= 100


def test_a_damaged_part_does_not_hide_what_stands_behind_it() -> None:
    bad = part(2, IDS + b"\x0f")
    data = part(1, part(2, bad + part(2, b"") * 1000))
    assert weigh_protobuf(data, 1 << 40) > 1000 * 300


@pytest.mark.parametrize("unit", [b"{}", b"[]", b'"ab"', b'{"a":1}', b"1.5"])
def test_json_of_many_values_weighs_more_than_its_text(unit: bytes) -> None:
    assert weigh_json(b"[" + b",".join([unit] * 100_000) + b"]") > 5 * 100_000 * len(unit)


def test_marks_inside_json_strings_weigh_nothing() -> None:
    text = json.dumps({"a": '{"b": [1, 2, "c"]}, ' * 100_000}).encode()
    assert weigh_json(text) < 1000


def peaks(sidecar: Sidecar) -> dict[str, int]:
    """The most that each process of it ever had resident."""
    assert sidecar.process is not None
    pids = [sidecar.process.pid]
    for task in Path(f"/proc/{pids[0]}/task").iterdir():
        pids += map(int, (task / "children").read_text().split())
    found = {}
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                found[str(pid)] = int(line.split()[1]) * 1024
    return found


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    if not Path("/proc/self/status").exists():
        pytest.skip("the resident memory of a process is read from /proc")
    with Sidecar(tmp_path / "data") as running:
        yield running


@pytest.mark.parametrize("kind", ["spans", "values", "attributes with keys"])
def test_a_request_of_57_mib_made_of_empty_parts_is_refused_and_names_the_setting(sidecar: Sidecar, kind: str) -> None:
    body = full_of(kind, 57 * MIB)
    status, _, reply = sidecar.post(body)
    assert status == 413
    assert b"memory_budget" in reply
    assert max(peaks(sidecar).values()) < BOUND
    sidecar.send([call(1, 1)])


def test_many_requests_of_parts_at_once_stay_under_the_bound(sidecar: Sidecar) -> None:
    """Each is small enough to be taken alone."""
    bodies = [full_of(kind, size) for kind in ("spans", "links") for size in (120_000, MIB // 4, MIB)]
    bodies += [json.dumps({"resourceSpans": [{}] * 200_000}).encode()]
    statuses: list[int] = []

    def send(body: bytes) -> None:
        form = JSON if body.startswith(b"{") else PROTOBUF
        statuses.append(sidecar.post(body, form=form)[0])

    threads = [threading.Thread(target=send, args=(body,)) for body in bodies * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 400, 413, 503}
    assert max(peaks(sidecar).values()) < BOUND
    sidecar.send([call(1, 1)])


def test_the_largest_request_that_is_taken_stays_under_the_bound(sidecar: Sidecar) -> None:
    size = 63 * MIB
    body = encode_protobuf_traces([call(1, 1, given="x" * (size - len(messages("")) - 1000))])
    assert sidecar.post(body)[0] == 200
    sidecar.settled()
    receiver, *others = peaks(sidecar).values()
    assert receiver < BOUND
    assert max(others) < 1.25 * BOUND  # the translator holds the text, what it says, and the fact, which has it twice


def test_messages_of_many_grpc_senders_are_part_of_the_budget(sidecar: Sidecar) -> None:
    body = encode_protobuf_traces([call(1, 1, note="x" * (55 * MIB), given=None, answer=None)])
    method = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
    codes: list[grpc.StatusCode] = []
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]

    def send() -> None:
        with grpc.insecure_channel(sidecar.addresses["grpc"], options=options) as channel:
            try:
                channel.unary_unary(method)(body, timeout=60)
                codes.append(grpc.StatusCode.OK)
            except grpc.RpcError as error:
                codes.append(error.code())  # type: ignore[attr-defined]

    threads = [threading.Thread(target=send) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes) <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    assert grpc.StatusCode.OK in codes
    receiver = next(iter(peaks(sidecar).values()))
    assert receiver < 1.25 * BOUND  # sixteen times 55 MiB were sent; 449 MiB were seen, without turns 886
