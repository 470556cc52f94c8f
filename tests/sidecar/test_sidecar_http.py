# SPDX-License-Identifier: Apache-2.0
"""OTLP over HTTP: what is accepted, what is refused and how that is said, and that content stays out of logs."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from sidecar_kit import Sidecar, call, details, wait_for

from sediment_otel.otlp import encode_json, encode_protobuf_logs, encode_protobuf_traces

PROTOBUF, JSON = "application/x-protobuf", "application/json"
LIMIT = 200_000


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    with Sidecar(tmp_path_factory.mktemp("http") / "data", "--max-request-bytes", str(LIMIT)) as running:
        yield running


def parsed(kind: type[Message], body: bytes) -> Message:
    message = kind()
    message.ParseFromString(body)
    return message


def test_a_protobuf_request_becomes_a_fact_and_is_answered_in_protobuf(sidecar: Sidecar) -> None:
    status, headers, body = sidecar.post(encode_protobuf_traces([call(trace=10)]))
    assert (status, headers["content-type"]) == (200, PROTOBUF)
    assert parsed(ExportTraceServiceResponse, body) == ExportTraceServiceResponse()
    wait_for(lambda: any(f'"trace_id":"{10:032x}"'.encode() in fact for fact in sidecar.facts()))


def test_a_json_request_becomes_a_fact_and_is_answered_in_json(sidecar: Sidecar) -> None:
    body = json.dumps(encode_json([call(trace=11)])).encode()
    status, headers, reply = sidecar.post(body, form="application/json; charset=utf-8")
    assert (status, headers["content-type"], json.loads(reply)) == (200, JSON, {})
    wait_for(lambda: any(f'"trace_id":"{11:032x}"'.encode() in fact for fact in sidecar.facts()))


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKED = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate without its header": raw_deflate,
    "zstd": zstandard.compress,
    "identity": bytes,
    "gzip, zstd": lambda data: zstandard.compress(gzip.compress(data)),
}


@pytest.mark.parametrize("encoding", PACKED)
def test_a_compressed_request_is_inflated(sidecar: Sidecar, encoding: str) -> None:
    data = PACKED[encoding](encode_protobuf_traces([call(trace=12)]))
    assert sidecar.post(data, Content_Encoding=encoding.replace(" without its header", ""))[0] == 200


@pytest.mark.parametrize("encoding", [name for name in PACKED if name != "identity"])
def test_a_compressed_request_that_inflates_past_the_limit_is_answered_413(sidecar: Sidecar, encoding: str) -> None:
    bomb = PACKED[encoding](b"\0" * (50 * LIMIT))
    assert len(bomb) < LIMIT
    status, _, body = sidecar.post(bomb, Content_Encoding=encoding.replace(" without its header", ""))
    assert (status, parsed(Status, body).code) == (413, 8)
    assert "max_request_bytes" in parsed(Status, body).message


@pytest.mark.parametrize("encoding", [name for name in PACKED if name != "identity"])
@pytest.mark.parametrize("harm", [lambda d: d[: len(d) // 2], lambda d: b"\x1f\x8bnonsense" + d, lambda d: d + b"tail"])
def test_damaged_compressed_data_is_answered_400(sidecar: Sidecar, encoding: str, harm: object) -> None:
    data = harm(PACKED[encoding](encode_protobuf_traces([call(trace=13)])))  # type: ignore[operator]
    status, _, body = sidecar.post(data, Content_Encoding=encoding.replace(" without its header", ""))
    assert (status, parsed(Status, body).code) == (400, 3)


def test_an_unknown_encoding_is_answered_415(sidecar: Sidecar) -> None:
    status, _, body = sidecar.post(b"x", Content_Encoding="br")
    assert status == 415
    assert "gzip" in parsed(Status, body).message


def test_an_unknown_content_type_is_answered_415(sidecar: Sidecar) -> None:
    assert sidecar.post(b"x", form="text/plain")[0] == 415


REFUSED = {
    "no protobuf": (b"\xff\xff\xff", PROTOBUF),
    "cut protobuf": (encode_protobuf_traces([call(), call(span=2)])[:-7], PROTOBUF),
    "no JSON": (b"{", JSON),
    "JSON of another kind": (b'{"hello": 1}', JSON),
    "JSON text": (b'"resourceSpans"', JSON),
    "deep JSON": (b'{"resourceSpans":' + b"[" * 50_000, JSON),
    "logs as traces": (json.dumps(encode_json([details(1, 1)])).encode(), JSON),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_never_succeed_is_answered_400_with_a_readable_status(sidecar: Sidecar, name: str) -> None:
    data, form = REFUSED[name]
    status, headers, body = sidecar.post(data, form=form)
    assert (status, headers["content-type"]) == (400, form)
    assert "retry-after" not in headers
    found = json.loads(body) if form == JSON else parsed(Status, body)
    code, message = (found["code"], found["message"]) if form == JSON else (found.code, found.message)
    assert code == 3
    assert message


def test_a_body_past_the_limit_is_answered_413(sidecar: Sidecar) -> None:
    assert sidecar.post(encode_protobuf_traces([call(given="x" * LIMIT)]))[0] == 413


def test_an_empty_request_is_a_success(sidecar: Sidecar) -> None:
    assert sidecar.post(b"")[0] == 200
    assert sidecar.post(b"{}", form=JSON)[0] == 200


def test_a_bad_span_is_refused_alone_and_counted(sidecar: Sidecar) -> None:
    request = ExportTraceServiceRequest.FromString(encode_protobuf_traces([call(trace=20), call(trace=20, span=2)]))
    request.resource_spans[0].scope_spans[0].spans[0].trace_id = b"short"
    status, _, body = sidecar.post(request.SerializeToString())
    found = parsed(ExportTraceServiceResponse, body).partial_success
    assert (status, found.rejected_spans) == (200, 1)
    assert "trace id" in found.error_message
    wait_for(lambda: any(f'"trace_id":"{20:032x}"'.encode() in fact for fact in sidecar.facts()))


def test_a_bad_log_record_is_refused_alone_and_counted(sidecar: Sidecar) -> None:
    obj = encode_json([details(21, 1), details(21, 1)])
    obj["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["traceId"] = "zz"
    status, _, body = sidecar.post(json.dumps(obj).encode(), signal="logs", form=JSON)
    assert status == 200
    assert json.loads(body)["partialSuccess"]["rejectedLogRecords"] == "1"


def test_metrics_are_answered_politely(sidecar: Sidecar) -> None:
    status, _, body = sidecar.post(b"", signal="metrics")
    assert status == 200
    assert "not used here" in parsed(ExportMetricsServiceResponse, body).partial_success.error_message


def test_logs_are_answered_in_their_own_words(sidecar: Sidecar) -> None:
    status, _, body = sidecar.post(encode_protobuf_logs([details(22, 1)]), signal="logs")
    assert status == 200
    assert parsed(ExportLogsServiceResponse, body) == ExportLogsServiceResponse()


@pytest.mark.parametrize(("method", "path", "expected"), [("GET", "/v1/traces", 405), ("POST", "/v1/profiles", 404)])
def test_other_methods_and_paths_are_refused(sidecar: Sidecar, method: str, path: str, expected: int) -> None:
    connection = sidecar.connect()
    connection.request(method, path, b"")
    assert connection.getresponse().status == expected
    connection.close()


def test_the_pages_for_watchers_answer(sidecar: Sidecar) -> None:
    assert sidecar.get("/healthz") == (200, "ok\n")
    assert sidecar.get("/readyz") == (200, "ready\n")
    sidecar.send([call(trace=30), call(trace=31, session=None)])
    wait_for(lambda: sidecar.metric("skipped_total", reason="no_session") >= 1)
    assert sidecar.metric("received_spans_total") >= 2
    assert sidecar.metric("received_requests_total", protocol="http", signal="traces") >= 1
    assert sidecar.metric("refused_requests_total", status="400") >= 0


def test_no_content_is_in_the_log(sidecar: Sidecar) -> None:
    sidecar.send([call(trace=40, given="the-secret-question")])
    sidecar.post(b'{"the-secret-question": ', form=JSON)
    sidecar.settled()
    assert "the-secret-question" not in sidecar.log


def test_a_bearer_token_is_asked_for_and_never_shown(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret-token\n")
    with Sidecar(tmp_path / "data", "--token-file", str(token)) as sidecar:
        body = encode_protobuf_traces([call()])
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret-token"}):
            status, headers, reply = sidecar.post(body, **header)
            assert (status, headers["www-authenticate"], parsed(Status, reply).code) == (401, "Bearer", 16)
        assert sidecar.post(body, Authorization="Bearer s3cret-token")[0] == 200
        assert sidecar.get("/metrics")[0] == 200
    assert "s3cret" not in sidecar.log
    assert "s3cret" not in " ".join(sidecar.command)


def test_a_full_journal_refuses_new_data_and_keeps_the_old(tmp_path: Path) -> None:
    # The budget is filled by records that wait for their call; nothing leaves until their window has passed.
    with Sidecar(tmp_path / "data", "--journal-budget", "3000", settle=3.0) as sidecar:
        sent = 0
        for number in range(100):
            status, headers, body = sidecar.post(encode_protobuf_traces([call(trace=number + 1)]))
            if status != 200:
                break
            sent += 1
        assert (status, parsed(Status, body).code) == (503, 14)
        assert int(headers["retry-after"]) >= 1
        assert "journal budget" in parsed(Status, body).message
        sidecar.settled()
        assert len(sidecar.facts()) == sent
        assert sidecar.post(encode_protobuf_traces([call(trace=1000)]))[0] == 200


def test_a_body_that_never_ends_is_given_up(tmp_path: Path) -> None:
    with Sidecar(tmp_path / "data", "--read-timeout", "0.2") as sidecar:
        connection = sidecar.connect()
        connection.putrequest("POST", "/v1/traces")
        connection.putheader("Content-Type", PROTOBUF)
        connection.putheader("Content-Length", "1000")
        connection.endheaders(b"half")
        assert connection.getresponse().status == 408
        connection.close()
        assert sidecar.metric("memory_in_flight_bytes") == 0
