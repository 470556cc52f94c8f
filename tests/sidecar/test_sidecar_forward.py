# SPDX-License-Identifier: Apache-2.0
"""`--forward`: the original goes on unchanged, in order, and waits while the next receiver is away."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sidecar_kit import Sidecar, call, details, wait_for

from sediment_otel.otlp import encode_json, encode_protobuf_logs, encode_protobuf_traces


class Next:
    """A receiver behind the sidecar. `statuses` are its next answers; 200 when there are none left."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str, bytes, str]] = []
        self.statuses: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = outer.statuses.pop(0) if outer.statuses else 200
                if status == 200:
                    outer.got.append((self.path, self.headers["Content-Type"], body, self.headers.get("X-Key", "")))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *words: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[Next]:
        thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        thread.start()
        yield self
        self.server.shutdown()
        self.server.server_close()


PLAIN = call(3, 1, session=None, given=None, answer=None, **{"gen_ai.operation.name": "other"})


def test_what_was_received_goes_on_byte_for_byte(tmp_path: Path) -> None:
    env = {"SEDIMENT_OTEL_SERVE_FORWARD_HEADERS": "x-key=s3cret"}
    with Next().running() as behind, Sidecar(tmp_path / "d", "--forward", f"{behind.url}/in", env=env) as sidecar:
        sent = [
            ("traces", "application/x-protobuf", encode_protobuf_traces([call(1, 1)])),
            ("logs", "application/x-protobuf", encode_protobuf_logs([details(1, 1)])),
            ("traces", "application/json", json.dumps(encode_json([call(2, 1)]), indent=1).encode()),
            ("traces", "application/x-protobuf", encode_protobuf_traces([PLAIN])),
            ("metrics", "application/x-protobuf", b""),
        ]
        for signal, form, body in sent:
            assert sidecar.post(body, signal=signal, form=form)[0] == 200
        wait_for(lambda: len(behind.got) == len(sent))
        assert behind.got == [(f"/in/v1/{signal}", form, body, "s3cret") for signal, form, body in sent]
        sidecar.settled()
        assert len(sidecar.facts()) == 2
        assert "unredacted" in sidecar.log
        assert "s3cret" not in sidecar.log


def test_while_the_next_receiver_is_away_requests_wait_even_through_a_kill(tmp_path: Path) -> None:
    behind = Next()
    behind.statuses = [503, 503, 429]
    with Sidecar(tmp_path / "d", "--forward", behind.url) as sidecar:
        body = encode_protobuf_traces([call(1, 1)])
        assert sidecar.post(body)[0] == 200
        wait_for(lambda: len(sidecar.facts()) == 1)
        sidecar.kill()
        sidecar.start()
        with behind.running():
            wait_for(lambda: len(behind.got) == 1)
            assert behind.got[0][2] == body
            sidecar.settled()
            wait_for(lambda: sidecar.metric("unforwarded_requests") == 0)
            assert sidecar.metric("forward_failures_total") >= 1


def test_what_the_next_receiver_refuses_for_good_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    with Next().running() as behind:
        behind.statuses = [400]
        with Sidecar(tmp_path / "d", "--forward", behind.url) as sidecar:
            sidecar.send([call(1, 1)])
            sidecar.send([call(2, 1)])
            wait_for(lambda: len(behind.got) == 1)
            assert sidecar.metric("forward_refused_total") == 1
