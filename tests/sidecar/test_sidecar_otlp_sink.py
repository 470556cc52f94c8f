# SPDX-License-Identifier: Apache-2.0
"""`serve -o otlp+http://…`: each fact goes on as a span of the current conventions, also after the server was away."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sidecar_kit import Sidecar, call, wait_for

from sediment_otel.otlp import decode_protobuf

ALONE = {"NO_PROXY": "*", "no_proxy": "*"}


class _Next(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = server.answers.pop(0) if server.answers else 200
        if status == 200:
            server.spans += decode_protobuf(gzip.decompress(body)).items
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def test_facts_go_on_as_spans_though_the_server_was_busy_and_wrong_first(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Next) as server:
        following: Any = server
        following.spans, following.answers = [], [503, 404]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            sink = f"otlp+http://127.0.0.1:{server.server_port}"
            with Sidecar(tmp_path / "data", "-o", sink, env=ALONE) as sidecar:
                sidecar.send([call(1), call(2)])
                wait_for(lambda: len(following.spans) >= 2)
                assert len(sidecar.facts()) == 2
        finally:
            server.shutdown()
    sent = [call(1), call(2)]
    assert [span.trace_id for span in following.spans] == [span.trace_id for span in sent]
    for span, original in zip(following.spans, sent, strict=True):
        for key in ("gen_ai.input.messages", "gen_ai.output.messages"):
            assert json.loads(span.attributes[key]) == json.loads(original.attributes[key])
