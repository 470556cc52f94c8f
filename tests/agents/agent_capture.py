# SPDX-License-Identifier: Apache-2.0
"""Runs coding agents and writes what they emit: `python tests/agents/agent_capture.py [PROGRAM…]` (`make captures`).

Each program is installed from npm in the version of `requirements/agents.txt` into `out/agents/PROGRAM`, run once
against `fakeserver` (see `agent_programs`), and its telemetry is written to `tests/data/agents/PROGRAM`:

    traces.jsonl, logs.jsonl   the OTLP requests, one per line        outfile.json   what it wrote to a file itself
    bodies/                    bodies of the API in files             truth.json     what the model server was asked

`truth.json` comes from the model server and from what the program printed, never from its telemetry.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from agent_programs import NOTE, PROGRAMS, ROOT, Program, pins
from agent_trim import Trim, spans_of_calls

from fakeserver.server import FORMS, USAGE_IN, USAGE_OUT, FakeModelServer, decide, read_messages

DATA = ROOT / "tests" / "data" / "agents"
TIMEOUT_S = 120


class CaptureError(Exception):
    """A program that cannot be installed or run, with what it said."""


# -- a receiver of OTLP/HTTP in JSON -----------------------------------------------------------------------------


class _Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10  # of a connection that says nothing more

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        self.server.received.append((self.path.rpartition("/")[2], json.loads(data)))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # closing waits for what is being received
    timeout = 0.2
    idle = False

    def handle_timeout(self) -> None:
        self.idle = True


class Receiver:
    """Keeps (`traces` | `logs` | `metrics`, request) of every OTLP request in `received`; all of them once closed."""

    def __enter__(self) -> Receiver:
        self._server = _Server(("127.0.0.1", 0), _Receiver)
        self.received: list[tuple[str, dict[str, Any]]] = []
        self._server.received = self.received  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        while not self._server.idle:  # a program that has ended may have left a connection that was not taken yet
            self._server.handle_request()
        self._server.server_close()


# -- one run -----------------------------------------------------------------------------------------------------


def installed(name: str) -> Path:
    """The folder of a program's commands; installs the pinned version where it is not there."""
    package, version = pins()[name]
    folder = ROOT / "out" / "agents" / name
    described = folder / "node_modules" / package / "package.json"
    if not described.exists() or json.loads(described.read_text(encoding="utf-8"))["version"] != version:
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        done = subprocess.run([*command, f"{package}@{version}"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise CaptureError(f"{package}@{version} cannot be installed: {done.stderr.strip()[-500:]}")
    return folder / "node_modules" / ".bin"


def capture(name: str, into: Path) -> None:
    """Run one program and write its capture into a folder, which is made anew."""
    program, commands = PROGRAMS[name], installed(name)
    with tempfile.TemporaryDirectory(prefix="agent-") as temporary, FakeModelServer() as model:
        root = Path(temporary)
        words = {"{model}": model.url, "{root}": str(root)}
        prompt = _filled(program.prompt, words)
        words |= {"{prompt}": prompt, "{tool}": program.tool, "{arguments}": prompt.split(" ", 2)[2]}
        (root / "project").mkdir()
        (root / "project" / "note.txt").write_text(NOTE, encoding="utf-8")
        with Receiver() as otlp:
            words["{otlp}"] = otlp.url
            for path, text in program.files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(_filled(text, words), encoding="utf-8")
            printed = _run(program, commands, root, words)
        session = re.search(program.session, printed)
        if session is None:
            raise CaptureError(f"{name} did not say its session: {printed[-500:]}")
        folders = {str(root): "/home/dev", str(commands.parents[1]): "/opt/agent"}
        trim = Trim(folders, program.tool, (prompt, NOTE.strip()))
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        _write_telemetry(program, otlp.received, root, trim, into)
        calls = [_call(path, body, trim) for path, body in model.requests if _form(path) is not None]
        truth = {"version": pins()[name][1], "session_id": session[1], "calls": calls}
        (into / "truth.json").write_text(json.dumps(truth, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _run(program: Program, commands: Path, root: Path, words: dict[str, str]) -> str:
    (root / "home").mkdir(exist_ok=True)
    command = [str(commands / program.command[0]), *(_filled(part, words) for part in program.command[1:])]
    environment = {"PATH": os.environ["PATH"], "HOME": str(root / "home"), "LANG": "C.UTF-8"}
    environment |= {key: _filled(value, words) for key, value in program.environment.items()}
    try:
        done = subprocess.run(
            command,
            cwd=root / "project",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CaptureError(f"{program.command[0]} did not end in {TIMEOUT_S} s") from None
    if done.returncode:
        raise CaptureError(f"{program.command[0]} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout + done.stderr


def _write_telemetry(
    program: Program, received: list[tuple[str, dict[str, Any]]], root: Path, trim: Trim, into: Path
) -> None:
    for signal in program.signals:
        requests = [request for kind, request in received if kind == signal]
        if signal == "traces":
            requests = [whole for request in requests if (whole := spans_of_calls(request))["resourceSpans"]]
        lines = [json.dumps(trim.value(request), ensure_ascii=False, separators=(",", ":")) for request in requests]
        if lines:
            (into / f"{signal}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    outfile = root / "outfile.json"
    if outfile.exists():
        (into / "outfile.json").write_text(_trimmed_outfile(outfile.read_text(encoding="utf-8"), trim), "utf-8")
    for body in sorted((root / "bodies").glob("*")):
        (into / "bodies").mkdir(exist_ok=True)
        lines = body.read_text(encoding="utf-8").splitlines()
        trimmed = [json.dumps(trim.value(json.loads(line)), ensure_ascii=False) for line in lines]
        (into / "bodies" / body.name).write_text("".join(f"{line}\n" for line in trimmed), encoding="utf-8")


def _trimmed_outfile(text: str, trim: Trim) -> str:
    """Objects one after another, each over several lines; metrics are left out."""
    decoder, at, written = json.JSONDecoder(), 0, []
    while at < len(text.rstrip()):
        value, end = decoder.raw_decode(text, at)
        at = end + len(text[end:]) - len(text[end:].lstrip())
        if "scopeMetrics" not in value:
            written.append(json.dumps(trim.value(value), indent=2, ensure_ascii=False))
    return "\n".join(written) + "\n"


# -- the truth ---------------------------------------------------------------------------------------------------


def _form(path: str) -> Any:
    return next((form for end, form in FORMS.items() if path.endswith(end)), None)


def _call(path: str, body: dict[str, Any], trim: Trim) -> dict[str, Any]:
    """What one request asked and what it was answered, in words."""
    messages, whole, _ = _form(path)
    asked = read_messages(messages(body))
    answer = decide(asked.prompt, asked.results, asked.images)
    made = whole(body, asked, answer)
    return {
        "asked": [trim.text(text) for text in asked_texts(body)],
        "thought": answer.thought,
        "text": answer.text,
        "calls": [
            {"id": f"call-{asked.count}-{index}", "name": called, "arguments": trim.value(arguments)}
            for index, (called, arguments) in enumerate(answer.calls)
        ],
        "response_id": made.get("id", made.get("responseId")),
        "model": made.get("model", made.get("modelVersion")),
        "input_tokens": USAGE_IN,
        "output_tokens": USAGE_OUT,
    }


def asked_texts(body: dict[str, Any]) -> list[str]:
    """The texts, the tool calls' arguments and the results of a request, whatever its form, in order."""
    system = body.get("system", body.get("instructions", body.get("systemInstruction")))
    messages = body.get("messages", body.get("contents", body.get("input")))
    return [text for part in (system, messages) for text in _texts(part)]


def _texts(value: Any) -> list[str]:
    """Walks what the four forms have in common: texts under `text`, `content`, `output`; calls; results."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if not isinstance(value, dict) or value.get("type") in ("thinking", "reasoning") or value.get("thought"):
        return []
    found = [text for key in ("text", "content", "parts", "output") for text in _texts(value.get(key))]
    for call in value.get("tool_calls") or ():
        found.append(canonical(json.loads(call["function"]["arguments"])))
    if value.get("type") == "tool_use":
        found.append(canonical(value["input"]))
    if value.get("type") == "function_call":
        found.append(canonical(json.loads(value["arguments"])))
    if "functionCall" in value:
        found.append(canonical(value["functionCall"]["args"]))
    if "functionResponse" in value:
        found.append(canonical(value["functionResponse"]["response"]))
    return found


def canonical(value: Any) -> str:
    """One text for a JSON value."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def main(names: list[str]) -> int:
    """Capture the programs named, all by default. The exit code is the number that failed."""
    failed = 0
    for name in names or list(PROGRAMS):
        try:
            capture(name, DATA / name)
        except CaptureError as error:
            failed += 1
            sys.stderr.write(f"{name}: {error}\n")
        else:
            sys.stderr.write(f"{name}: captured\n")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
