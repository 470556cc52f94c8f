# SPDX-License-Identifier: Apache-2.0
"""OTLP over gRPC: codes and details of refusals, tokens, TLS with and without client certificates."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from sidecar_kit import Sidecar, call, details, wait_for

from sediment_otel.otlp import encode_protobuf_logs, encode_protobuf_traces

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    with Sidecar(tmp_path_factory.mktemp("grpc") / "data", "--max-request-bytes", "1000000") as running:
        yield running


@pytest.fixture
def channel(sidecar: Sidecar) -> Iterator[Any]:
    with grpc.insecure_channel(sidecar.addresses["grpc"], options=[("grpc.max_send_message_length", -1)]) as made:
        yield made


def request(*spans: Any) -> Any:
    return ExportTraceServiceRequest.FromString(encode_protobuf_traces(spans))


def failure(act: Callable[[], Any]) -> tuple[grpc.StatusCode, Any]:
    with pytest.raises(grpc.RpcError) as caught:
        act()
    error: Any = caught.value
    found = Status()
    for pair in error.trailing_metadata() or ():
        if pair.key == "grpc-status-details-bin":
            found.ParseFromString(pair.value)
    return error.code(), found


def test_the_published_stubs_get_a_success(sidecar: Sidecar, channel: Any) -> None:
    reply = TraceServiceStub(channel).Export(request(call(1, 1)))
    assert not reply.HasField("partial_success")
    wait_for(lambda: len(sidecar.facts()) == 1)


def test_logs_and_metrics_have_their_services(channel: Any) -> None:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    logs = ExportLogsServiceRequest.FromString(encode_protobuf_logs([details(9, 1)]))
    assert not LogsServiceStub(channel).Export(logs).HasField("partial_success")
    metrics = MetricsServiceStub(channel).Export(ExportMetricsServiceRequest())
    assert "not used here" in metrics.partial_success.error_message


def test_a_bad_span_is_refused_alone(channel: Any) -> None:
    made = request(call(2, 1), call(2, 2))
    made.resource_spans[0].scope_spans[0].spans[1].span_id = b""
    reply = TraceServiceStub(channel).Export(made)
    assert reply.partial_success.rejected_spans == 1
    assert "span id" in reply.partial_success.error_message


def test_what_is_no_protobuf_is_an_invalid_argument(channel: Any) -> None:
    code, details_ = failure(lambda: channel.unary_unary(TRACES)(b"\xff\xff\xff"))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert details_.code == 3


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_message_past_the_limit_is_resource_exhausted(channel: Any, compression: Any) -> None:
    export = channel.unary_unary(TRACES)
    code, found = failure(lambda: export(b"\0" * 1_100_000, compression=compression))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "max_request_bytes" in found.message
    code, _ = failure(lambda: export(b"\0" * 5_000_000, compression=compression))  # gRPC itself
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_compressed_message_is_inflated(channel: Any, compression: Any) -> None:
    TraceServiceStub(channel).Export(request(call(3, 1)), compression=compression)


def test_a_call_without_a_message_is_an_invalid_argument(channel: Any) -> None:
    code, found = failure(lambda: channel.stream_unary(TRACES)(iter(())))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert found.message == "no message came"


def test_a_sender_that_never_sends_its_message_is_refused_and_holds_up_nobody(tmp_path: Path) -> None:
    limits = ["--read-timeout", "1", "--max-request-bytes", "1000000", "--memory-budget", "3000000"]
    with (
        Sidecar(tmp_path / "data", *limits) as sidecar,
        grpc.insecure_channel(sidecar.addresses["grpc"]) as channel,
    ):
        ending = threading.Event()

        def nothing() -> Iterator[bytes]:
            ending.wait(60)
            yield b""

        silent = [channel.stream_unary(TRACES).future(nothing()) for _ in range(6)]
        TraceServiceStub(channel).Export(request(call(1, 1)), timeout=30)
        errors: list[Any] = [one.exception(60) for one in silent]
        ending.set()
        assert {error.code() for error in errors} == {grpc.StatusCode.UNAVAILABLE}
        assert all("memory_budget" in error.details() or "did not arrive" in error.details() for error in errors)
        wait_for(lambda: sidecar.metric("memory_in_flight_bytes") == 0)
        TraceServiceStub(channel).Export(request(call(2, 1)))
        sidecar.settled()
        assert len(sidecar.facts()) == 2


def test_an_unknown_method_is_unimplemented(channel: Any) -> None:
    code, _ = failure(lambda: channel.unary_unary(TRACES.replace("Export", "Import"))(b""))
    assert code is grpc.StatusCode.UNIMPLEMENTED


def test_a_full_journal_is_unavailable_with_a_delay(tmp_path: Path) -> None:
    with (
        Sidecar(tmp_path / "data", "--journal-budget", "10") as sidecar,
        grpc.insecure_channel(sidecar.addresses["grpc"]) as channel,
    ):
        code, found = failure(lambda: TraceServiceStub(channel).Export(request(call(1, 1))))
        assert code is grpc.StatusCode.UNAVAILABLE
        info = RetryInfo()
        assert found.details[0].Unpack(info)
        assert info.retry_delay.seconds >= 1


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    with (
        Sidecar(tmp_path / "data", env={"SEDIMENT_OTEL_SERVE_TOKEN": "s3cret"}) as sidecar,
        grpc.insecure_channel(sidecar.addresses["grpc"]) as channel,
    ):
        export = TraceServiceStub(channel).Export
        assert failure(lambda: export(request(call(1, 1))))[0] is grpc.StatusCode.UNAUTHENTICATED
        wrong = (("authorization", "Bearer other"),)
        assert failure(lambda: export(request(call(1, 1)), metadata=wrong))[0] is grpc.StatusCode.UNAUTHENTICATED
        export(request(call(1, 1)), metadata=(("authorization", "Bearer s3cret"),))
        sidecar.settled()
        assert len(sidecar.facts()) == 1
    assert "s3cret" not in sidecar.log


def certificates(folder: Path) -> dict[str, Path]:
    """A certificate authority, a server's and a client's certificate."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem",
            "-subj", "/CN=test authority")  # fmt: skip
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    for name in ("server", "client"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr",
                "-subj", f"/CN={name}")  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "2", "-extfile", "names", "-out", f"{name}.pem")  # fmt: skip
    return {file.name: file for file in folder.iterdir()}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command to make certificates")
@pytest.mark.parametrize("mutual", [False, True])
def test_tls_and_mutual_tls_for_both_receivers(tmp_path: Path, mutual: bool) -> None:
    (tmp_path / "pki").mkdir()
    files = certificates(tmp_path / "pki")
    options = ["--tls-cert", str(files["server.pem"]), "--tls-key", str(files["server.key"])]
    if mutual:
        options += ["--tls-client-ca", str(files["ca.pem"])]
    with Sidecar(tmp_path / "data", *options) as sidecar:
        root, key, chain = (files[name].read_bytes() for name in ("ca.pem", "client.key", "client.pem"))
        good = grpc.ssl_channel_credentials(root, key, chain)
        with grpc.secure_channel(sidecar.addresses["grpc"], good) as channel:
            TraceServiceStub(channel).Export(request(call(1, 1)), timeout=20, wait_for_ready=True)
        context = ssl.create_default_context(cafile=str(files["ca.pem"]))
        url = f"https://{sidecar.addresses['http']}/v1/traces"
        post = urllib.request.Request(
            url, encode_protobuf_traces([call(2, 1)]), {"Content-Type": "application/x-protobuf"}
        )
        if mutual:
            with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
                urllib.request.urlopen(post, context=context, timeout=20)
            without = grpc.ssl_channel_credentials(root)
            with grpc.secure_channel(sidecar.addresses["grpc"], without) as channel:
                code, _ = failure(lambda: TraceServiceStub(channel).Export(request(call(3, 1)), timeout=20))
                assert code is grpc.StatusCode.UNAVAILABLE
            context.load_cert_chain(files["client.pem"], files["client.key"])
        with urllib.request.urlopen(post, context=context, timeout=20) as reply:
            assert reply.status == 200
        wait_for(lambda: len(sidecar.facts()) == 2)
        with grpc.insecure_channel(sidecar.addresses["grpc"]) as channel:
            assert failure(lambda: TraceServiceStub(channel).Export(request(call(4, 1)), timeout=20))
