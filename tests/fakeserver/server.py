# SPDX-License-Identifier: Apache-2.0
"""OpenAI chat completions, OpenAI responses, Anthropic messages and Gemini contents, without a model.

Standard library alone, so that any test and any environment can run it:

    with FakeModelServer() as server:          # or: python server.py PORT_FILE
        client = OpenAI(base_url=f"{server.url}/v1", api_key="x")

What it answers depends on the request alone. The text of the last user message names the answer:

    "weather"   two tool calls at once (get_weather for Paris and for Oslo); when a result of each is there: text
    "loop"      three turns: a tool call, one more when its result is there, then text
    "think"     reasoning, then text
    "image"     text that says how many images the request holds
    "fail"      status 429
    "use NAME {…}"   (or its last line) thought, text, a call of that tool, for coding agents; its result there: text
    any other   text that repeats it

Ids count the messages of the request: `chatcmpl-3`, `resp-3`, `msg-3`; call ids are `call-<n>-<i>`. Every request is
kept in `requests` (path and body), in order; of Anthropic's, the place in that order is the request id.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

USAGE_IN, USAGE_OUT = 11, 7
THOUGHT = "Two and two is four."


class Answer(NamedTuple):
    """What the model says: in this order reasoning, text, tool calls (name, arguments)."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    thought: str = ""
    failed: bool = False


def decide(prompt: str, results: int, images: int) -> Answer:
    """The answer to a prompt after so many tool results."""
    if prompt == "fail":
        return Answer(failed=True)
    if prompt == "weather":
        if results:
            return Answer(f"Got {results} results.")
        return Answer(calls=(("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Oslo"})))
    if prompt == "loop":
        if results >= 2:
            return Answer("Both steps are done.")
        return Answer(f"Step {results + 1}.", calls=(("step", {"number": results + 1}),))
    if prompt == "think":
        return Answer("Four.", thought=THOUGHT)
    if prompt == "image":
        return Answer(f"I see {images} images.")
    line = prompt.rstrip().rpartition("\n")[2]  # agents put what they know of the day in front
    if line.startswith("use "):
        if results:
            return Answer(f"Got {results} results.")
        _, name, arguments = line.split(" ", 2)
        return Answer("I use it.", calls=((name, json.loads(arguments)),), thought=THOUGHT)
    return Answer(f"You said: {prompt}")


class Asked(NamedTuple):
    """What a request asks, whatever its form."""

    prompt: str
    results: int
    images: int
    count: int


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or [] if isinstance(block, dict)]


def read_messages(messages: list[dict[str, Any]]) -> Asked:
    """What a list of messages or of items asks. Results count from the last user text on."""
    prompt, results, images = "", 0, 0
    for message in messages:
        if message.get("role") == "tool" or message.get("type") == "function_call_output":
            results += 1
            continue
        for block in _blocks(message.get("content")):
            kind = block.get("type")
            if kind == "tool_result":
                results += 1
            elif kind in ("image", "image_url", "input_image"):
                images += 1
            elif kind in ("text", "input_text") and message.get("role") == "user":
                prompt, results = block["text"], 0
    return Asked(prompt, results, images, len(messages))


# -- the three forms of an answer ----------------------------------------------------------------------------------


def openai_chat(body: dict[str, Any], asked: Asked, answer: Answer) -> dict[str, Any]:
    """A chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.thought:
        message["reasoning_content"] = answer.thought
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": f"call-{asked.count}-{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for index, (name, arguments) in enumerate(answer.calls)
        ]
    return {
        "id": f"chatcmpl-{asked.count}",
        "object": "chat.completion",
        "created": 1700000000,
        "model": f"{body['model']}-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if answer.calls else "stop"}],
        "usage": {"prompt_tokens": USAGE_IN, "completion_tokens": USAGE_OUT, "total_tokens": USAGE_IN + USAGE_OUT},
    }


def openai_chat_events(whole: dict[str, Any]) -> list[tuple[str | None, Any]]:
    """The same in pieces: text in words, arguments in halves."""
    choice = whole["choices"][0]
    message = choice["message"]
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> tuple[str | None, Any]:
        return None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}

    events = [chunk({"role": "assistant", "content": "" if message["content"] else None})]
    if message.get("reasoning_content"):
        events.append(chunk({"reasoning_content": message["reasoning_content"]}))
    events += [chunk({"content": piece}) for piece in pieces(message["content"] or "")]
    for index, call in enumerate(message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        start = {"name": call["function"]["name"], "arguments": arguments[:half]}
        events.append(chunk({"tool_calls": [{**call, "index": index, "function": start}]}))
        events.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]}))
    events.append(chunk({}, choice["finish_reason"]))
    events.append((None, {**head, "choices": [], "usage": whole["usage"]}))
    return [*events, (None, "[DONE]")]


def openai_response(body: dict[str, Any], asked: Asked, answer: Answer) -> dict[str, Any]:
    """A response: one item for each of reasoning, message and function calls."""
    output: list[dict[str, Any]] = []
    if answer.thought:
        summary = [{"type": "summary_text", "text": answer.thought}]
        output.append({"id": f"rs-{asked.count}", "type": "reasoning", "summary": summary})
    if answer.text:
        text = {"type": "output_text", "text": answer.text, "annotations": []}
        message = {"id": f"item-{asked.count}", "type": "message", "role": "assistant", "status": "completed"}
        if "codex" in body["model"]:  # these models say which of their messages is the answer
            message["phase"] = "commentary" if answer.calls else "final_answer"
        output.append({**message, "content": [text]})
    for index, (name, arguments) in enumerate(answer.calls):
        output.append(
            {
                "id": f"fc-{asked.count}-{index}",
                "type": "function_call",
                "call_id": f"call-{asked.count}-{index}",
                "name": name,
                "arguments": json.dumps(arguments),
                "status": "completed",
            }
        )
    usage = {
        "input_tokens": USAGE_IN,
        "output_tokens": USAGE_OUT,
        "total_tokens": USAGE_IN + USAGE_OUT,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": f"resp-{asked.count}",
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "model": f"{body['model']}-2026",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "instructions": body.get("instructions"),
        "usage": usage,
    }


def openai_response_events(whole: dict[str, Any]) -> list[tuple[str | None, Any]]:
    """The same in pieces."""
    events: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": {**whole, "status": "in_progress", "output": [], "usage": None}})
    ]
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        events.append(("response.output_item.added", {"output_index": index, "item": item}))
        if item["type"] == "message":
            part = item["content"][0]
            events.append(("response.content_part.added", {**at, "content_index": 0, "part": {**part, "text": ""}}))
            for piece in pieces(part["text"]):
                events.append(
                    ("response.output_text.delta", {**at, "content_index": 0, "delta": piece, "logprobs": []})
                )
            events.append(
                ("response.output_text.done", {**at, "content_index": 0, "text": part["text"], "logprobs": []})
            )
        elif item["type"] == "function_call":
            events.append(("response.function_call_arguments.delta", {**at, "delta": item["arguments"]}))
            done = {**at, "arguments": item["arguments"], "name": item["name"]}
            events.append(("response.function_call_arguments.done", done))
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    events.append(("response.completed", {"response": whole}))
    return [(name, {"type": name, "sequence_number": n, **body}) for n, (name, body) in enumerate(events)]


def anthropic_message(body: dict[str, Any], asked: Asked, answer: Answer) -> dict[str, Any]:
    """A message."""
    content: list[dict[str, Any]] = []
    if answer.thought:
        content.append({"type": "thinking", "thinking": answer.thought, "signature": "c2lnbmVk"})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    for index, (name, arguments) in enumerate(answer.calls):
        content.append({"type": "tool_use", "id": f"call-{asked.count}-{index}", "name": name, "input": arguments})
    return {
        "id": f"msg-{asked.count}",
        "type": "message",
        "role": "assistant",
        "model": f"{body['model']}-2026",
        "content": content,
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": USAGE_IN, "output_tokens": USAGE_OUT},
    }


def anthropic_events(whole: dict[str, Any]) -> list[tuple[str | None, Any]]:
    """The same in pieces."""
    start = {**whole, "content": [], "stop_reason": None, "usage": {"input_tokens": USAGE_IN, "output_tokens": 1}}
    events: list[tuple[str, dict[str, Any]]] = [("message_start", {"message": start})]
    for index, block in enumerate(whole["content"]):
        blank = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}, "tool_use": {"input": {}}}
        events.append(("content_block_start", {"index": index, "content_block": {**block, **blank[block["type"]]}}))
        if block["type"] == "thinking":
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        else:
            text = json.dumps(block["input"])
            half = len(text) // 2
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in (text[:half], text[half:])]
        events += [("content_block_delta", {"index": index, "delta": delta}) for delta in deltas]
        events.append(("content_block_stop", {"index": index}))
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events.append(("message_delta", {"delta": stop, "usage": {"output_tokens": USAGE_OUT}}))
    events.append(("message_stop", {}))
    return [(name, {"type": name, **body}) for name, body in events]


def gemini_messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The contents of a request, in the words of the other forms."""
    found = []
    for content in body["contents"]:
        blocks = []
        for part in content["parts"]:
            kind = "tool_result" if "functionResponse" in part else "image" if "inlineData" in part else "text"
            if kind != "text" or "text" in part:
                blocks.append({"type": kind, "text": part.get("text")})
        found.append({"role": content.get("role", "user"), "content": blocks})
    return found


def gemini_content(body: dict[str, Any], asked: Asked, answer: Answer) -> dict[str, Any]:
    """A response of `generateContent`."""
    parts: list[dict[str, Any]] = [{"text": answer.thought, "thought": True}] if answer.thought else []
    parts += [{"text": answer.text}] if answer.text else []
    for index, (name, arguments) in enumerate(answer.calls):
        parts.append({"functionCall": {"id": f"call-{asked.count}-{index}", "name": name, "args": arguments}})
    return {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": USAGE_IN,
            "candidatesTokenCount": USAGE_OUT,
            "totalTokenCount": USAGE_IN + USAGE_OUT,
        },
        "modelVersion": f"{body.get('model', 'gemini')}-2026",
        "responseId": f"gemini-{asked.count}",
    }


def gemini_events(whole: dict[str, Any]) -> list[tuple[str | None, Any]]:
    """The same in pieces: a chunk for each part, the last one with the end and the counts."""
    candidate = whole["candidates"][0]
    head = {key: whole[key] for key in ("modelVersion", "responseId")}
    chunks = []
    for part in candidate["content"]["parts"]:
        chunks += [{**part, "text": piece} for piece in pieces(part["text"])] if "text" in part else [part]
    events: list[tuple[str | None, Any]] = [
        (None, {**head, "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]})
        for part in chunks[:-1]
    ]
    last = {**candidate, "content": {"role": "model", "parts": chunks[-1:]}}
    return [*events, (None, {**whole, "candidates": [last]})]


def pieces(text: str) -> list[str]:
    """A text in words."""
    words = text.split(" ")
    return [word if index == 0 else f" {word}" for index, word in enumerate(words)] if text else []


#: The end of a path → the messages of a request, the answer in one piece, the answer in pieces.
FORMS: dict[str, tuple[Any, Any, Any]] = {
    "/chat/completions": (lambda body: body["messages"], openai_chat, openai_chat_events),
    "/responses": (
        lambda body: [{"role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"],
        openai_response,
        openai_response_events,
    ),
    "/messages": (lambda body: body["messages"], anthropic_message, anthropic_events),
    ":generateContent": (gemini_messages, gemini_content, gemini_events),
    ":streamGenerateContent": (gemini_messages, gemini_content, gemini_events),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.split("?")[0]
        self.server.requests.append((path, body))
        form = next((form for end, form in FORMS.items() if path.endswith(end)), None)
        if form is None:
            self._reply(404, {"error": {"message": "no such path", "type": "invalid_request_error"}})
            return
        messages, whole, in_pieces = form
        asked = read_messages(messages(body))
        answer = decide(asked.prompt, asked.results, asked.images)
        if answer.failed:
            error = {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}
            self._reply(429, {"type": "error", "error": error})
            return
        if ":" in path:  # Gemini names the model, and whether it streams, in the path
            body["model"] = path.rpartition("/")[2].partition(":")[0]
        made = whole(body, asked, answer)
        if body.get("stream") or path.endswith(":streamGenerateContent"):
            self._stream(in_pieces(made))
        else:
            self._reply(200, made)

    def _reply(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self._send_request_id()
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: list[tuple[str | None, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self._send_request_id()
        self.end_headers()
        for name, body in events:
            head = f"event: {name}\n" if name else ""
            data = body if isinstance(body, str) else json.dumps(body)
            self.wfile.write(f"{head}data: {data}\n\n".encode())
        self.close_connection = True

    def _send_request_id(self) -> None:
        """Anthropic's, which Claude Code knows its calls by."""
        if self.path.split("?")[0].endswith("/messages"):
            self.send_header("request-id", f"req_fake_{len(self.server.requests)}")

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[str, dict[str, Any]]] = []


class FakeModelServer:
    """The server, on a free port, in a thread of its own."""

    def __enter__(self) -> FakeModelServer:
        self._server = _Server()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def requests(self) -> list[tuple[str, dict[str, Any]]]:
        """Path and body of every request so far."""
        return self._server.requests


if __name__ == "__main__":
    server = _Server()
    Path(sys.argv[1]).write_text(f"http://127.0.0.1:{server.server_port}")
    server.serve_forever()
