# SPDX-License-Identifier: Apache-2.0
"""Writes `agent-session.jsonl`: one session of a coding agent as OTLP JSON Lines. Everything in it is made up.

    python examples/make_agent_session.py [FILE]

Each line is one export request of the kind that the collector's file exporter writes; spans stand in the order in
which they ended, so the agent's span, which alone names the conversation, comes last. No clock and no random number:
the same bytes every time. The trace holds on purpose what a converter meets in real ones:

- four answered calls that chain: each input is the previous input, the previous answer and the tools' results
- reasoning, parallel tool calls, an image by URI and one inline, cached and reasoning tokens, two choices in one answer
- a call refused with status 429 and repeated, a call without content, an embeddings call, agent and tool spans
- a (fictitious) credential in a tool's result
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

TRACE_ID = hashlib.sha256(b"sediment-otel example session").hexdigest()[:32]
CONVERSATION = "conv-2026-03-02-parser-fix"
START = 1_772_442_900_000_000_000  # 2026-03-02T09:15:00Z in nanoseconds
MODEL, MODEL_VERSION = "gpt-5.1", "gpt-5.1-2025-11-13"
SMALL_MODEL, EMBEDDING_MODEL = "gpt-5-mini", "text-embedding-3-small"
ERROR, CLIENT, INTERNAL = 2, 3, 1

Json = dict[str, Any]


def span_id(name: str) -> str:
    return hashlib.sha256(f"{TRACE_ID}:{name}".encode()).hexdigest()[:16]


def any_value(value: Any) -> Json:
    """A Python value as an OTLP `AnyValue`."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(item) for item in value]}}
    return {"stringValue": value}


def attributes(values: Json) -> list[Json]:
    return [{"key": key, "value": any_value(value)} for key, value in values.items()]


def text_of(value: Any) -> str:
    """JSON as text, which is how instrumentations put structured values into span attributes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def span(name: str, title: str, parent: str | None, times: tuple[float, float], values: Json, **more: Any) -> Json:
    """One span; `times` are seconds since the start of the session."""
    begin, end = (START + round(second * 1e9) for second in times)
    made: Json = {"traceId": TRACE_ID, "spanId": span_id(name)}
    if parent is not None:
        made["parentSpanId"] = span_id(parent)
    made |= {"flags": 256, "name": title, "kind": more.pop("kind", CLIENT)}
    made |= {"startTimeUnixNano": str(begin), "endTimeUnixNano": str(end), "attributes": attributes(values)}
    return made | {"status": {}} | more


def chat(name: str, times: tuple[float, float], values: Json, model: str = MODEL, **more: Any) -> Json:
    common = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": model,
        "server.address": "api.example.test",
        "server.port": 443,
        "user.id": "dev-42",
    }
    return span(name, f"chat {model}", "agent", times, common | values, **more)


def tool(name: str, times: tuple[float, float], call: Json, result: Any) -> Json:
    values = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call["name"],
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call["id"],
        "gen_ai.tool.call.arguments": text_of(call["arguments"]),
        "gen_ai.tool.call.result": result if isinstance(result, str) else text_of(result),
    }
    return span(name, f"execute_tool {call['name']}", "agent", times, values, kind=INTERNAL)


def text(content: str) -> Json:
    return {"type": "text", "content": content}


def reasoning(content: str) -> Json:
    return {"type": "reasoning", "content": content}


def tool_call(call_id: str, name: str, **arguments: Any) -> Json:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def tool_result(call: Json, response: Any) -> Json:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call["id"], "response": response}]}


def answer(finish_reason: str, *parts: Json) -> Json:
    return {"role": "assistant", "parts": list(parts), "finish_reason": finish_reason}


def as_history(message: Json) -> Json:
    """An answer as the next call repeats it."""
    return {"role": message["role"], "parts": message["parts"]}


def small_png() -> bytes:
    """A grey image of 8 by 8 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    # Stored, not compressed: the bytes must not depend on the version of zlib.
    rows = b"".join(b"\x00" + bytes([0x60 + 8 * row]) * 8 for row in range(8))
    stored = b"\x78\x01\x01" + struct.pack("<HH", len(rows), len(rows) ^ 0xFFFF) + rows
    stored += struct.pack(">I", zlib.adler32(rows))
    header = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", stored) + chunk(b"IEND", b"")


def parameter(kind: str, about: str) -> Json:
    return {"type": kind, "description": about}


def function(name: str, about: str, **parameters: Json) -> Json:
    schema = {"type": "object", "properties": parameters, "required": list(parameters)}
    return {"type": "function", "name": name, "description": about, "parameters": schema}


SYSTEM = [
    text("You are a coding agent. You work in the repository that the user has opened."),
    text("Read before you change. Run the tests after every change. Answer briefly."),
]
TOOLS = [
    function(
        "read_file", "Returns the text of a file.", path=parameter("string", "Path from the top of the repository.")
    ),
    function("run_tests", "Runs pytest.", target=parameter("string", "A file, a folder or a test id.")),
    function("search_code", "Finds passages by meaning.", query=parameter("string", "What to look for.")),
    function(
        "edit_file",
        "Replaces text that occurs exactly once.",
        path=parameter("string", "Path from the top of the repository."),
        old=parameter("string", "The text to replace."),
        new=parameter("string", "What comes in its place."),
    ),
]

QUESTION = {
    "role": "user",
    "parts": [
        text("test_parse_duration fails since yesterday, see the screenshots. Please repair it – 90 s must stay 90 s."),
        {
            "type": "uri",
            "mime_type": "image/png",
            "modality": "image",
            "uri": "https://images.example.test/ci/run-1841.png",
        },
        {
            "type": "blob",
            "mime_type": "image/png",
            "modality": "image",
            "content": base64.b64encode(small_png()).decode(),
        },
    ],
}

READ_SOURCE = tool_call("call_read_source", "read_file", path="src/durations.py")
READ_SETTINGS = tool_call("call_read_settings", "read_file", path=".env.test")
RUN_BEFORE = tool_call("call_run_before", "run_tests", target="tests/test_durations.py")
SEARCH = tool_call("call_search", "search_code", query="callers of parse_duration")
OLD_LINE, NEW_LINE = "return int(number) * 60", "return int(number) * UNITS[unit]"
EDIT = tool_call("call_edit", "edit_file", path="src/durations.py", old=OLD_LINE, new=NEW_LINE)
RUN_AFTER = tool_call("call_run_after", "run_tests", target="tests/test_durations.py")

SOURCE_TEXT = (
    'UNITS = {"s": 1, "m": 60, "h": 3600}\n\n\ndef parse_duration(value: str) -> int:\n'
    '    """Seconds in texts such as "90s" or "5m"."""\n    number, unit = value[:-1], value[-1]\n'
    f"    {OLD_LINE}\n"
)
SETTINGS_TEXT = "LOG_LEVEL=debug\nOPENAI_API_KEY=sk-fictitious000111222333\nTZ=UTC\n"
FAILED_RUN = {
    "exit_code": 1,
    "passed": 3,
    "failed": [{"test": "test_parse_duration[90s-90]", "message": "assert 5400 == 90"}],
}
FOUND = {"matches": [{"path": "src/scheduler.py", "line": 41, "score": 0.87}]}
PASSED_RUN = {"exit_code": 0, "passed": 4, "failed": []}

ANSWER_1 = answer(
    "tool_call",
    reasoning("The test and its source come first; both can be looked at in one step, with the test settings."),
    text("I will read the parser and its settings, and run the test."),
    READ_SOURCE,
    READ_SETTINGS,
    RUN_BEFORE,
)
ANSWER_2 = answer(
    "tool_call",
    reasoning("The unit is parsed and then ignored: every value counts as minutes. Who else relies on that?"),
    SEARCH,
    EDIT,
)
ANSWER_3 = answer("tool_call", text("The unit counts now. Once more the tests."), RUN_AFTER)
ANSWER_4 = answer("stop", text("Repaired: `parse_duration` ignored the unit. All 4 tests pass; 90 s is 90 s again. ✅"))
ANSWER_4_OTHER = answer("stop", text("Done. The unit was parsed but never used; it is now, and all 4 tests pass."))

INPUT_1 = [QUESTION]
INPUT_2 = [
    *INPUT_1,
    as_history(ANSWER_1),
    tool_result(READ_SOURCE, SOURCE_TEXT),
    tool_result(READ_SETTINGS, SETTINGS_TEXT),
    tool_result(RUN_BEFORE, FAILED_RUN),
]
INPUT_3 = [
    *INPUT_2,
    as_history(ANSWER_2),
    tool_result(SEARCH, FOUND),
    tool_result(EDIT, "1 replacement in src/durations.py"),
]
INPUT_4 = [*INPUT_3, as_history(ANSWER_3), tool_result(RUN_AFTER, PASSED_RUN)]


def request(messages: list[Json]) -> Json:
    """What a call says of its request, answered or not."""
    return {
        "gen_ai.output.type": "text",
        "gen_ai.request.max_tokens": 4096,
        "gen_ai.request.temperature": 0.2,
        "gen_ai.request.reasoning.level": "medium",
        "gen_ai.system_instructions": text_of(SYSTEM),
        "gen_ai.tool.definitions": text_of(TOOLS),
        "gen_ai.input.messages": text_of(messages),
    }


def response(response_id: str, answers: list[Json], tokens: tuple[int, int, int, int]) -> Json:
    """What a call says of its answer; tokens are input (with those read from the cache), cached, output, reasoning."""
    taken_in, cached, given_out, thought = tokens
    return {
        "gen_ai.response.id": response_id,
        "gen_ai.response.model": MODEL_VERSION,
        "gen_ai.response.finish_reasons": [str(item["finish_reason"]) for item in answers],
        "gen_ai.usage.input_tokens": taken_in,
        "gen_ai.usage.cache_read.input_tokens": cached,
        "gen_ai.usage.cache_write.input_tokens": taken_in - cached,
        "gen_ai.usage.output_tokens": given_out,
        "gen_ai.usage.reasoning.output_tokens": thought,
        "gen_ai.output.messages": text_of(answers),
    }


def session() -> list[list[Json]]:
    """The spans of the session, in the batches in which they were sent."""
    title = {
        "gen_ai.request.max_tokens": 32,
        "gen_ai.response.id": "chatcmpl-example-title",
        "gen_ai.response.model": "gpt-5-mini-2025-08-07",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 61,
        "gen_ai.usage.output_tokens": 6,
    }
    embeddings = {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": EMBEDDING_MODEL,
        "gen_ai.embeddings.dimension.count": 1536,
        "gen_ai.usage.input_tokens": 4,
    }
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": "example-coder",
        "gen_ai.conversation.id": CONVERSATION,
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": 7213,
        "gen_ai.usage.output_tokens": 573,
        "gen_ai.input.messages": text_of(INPUT_1),
        "gen_ai.output.messages": text_of([ANSWER_4]),
    }
    refusal = {"error.type": "openai.RateLimitError", "http.response.status_code": 429}
    two_choices = {"gen_ai.request.choice.count": 2}
    return [
        [
            # The title of the session comes from another client, which captures no content.
            chat("title", (0.120, 0.871_402_113), title, SMALL_MODEL),
            chat(
                "chat-1",
                (0.114_052_701, 3.902_771_950),
                request(INPUT_1) | response("chatcmpl-example-1", [ANSWER_1], (1204, 0, 212, 96)),
            ),
            tool("read-source", (3.910, 3.914_200_040), READ_SOURCE, SOURCE_TEXT),
            tool("read-settings", (3.911, 3.914_900_101), READ_SETTINGS, SETTINGS_TEXT),
            tool("run-before", (3.912, 5.330_018_772), RUN_BEFORE, FAILED_RUN),
        ],
        [
            chat(
                "chat-2",
                (5.341_200_007, 9.120_450_333),
                request(INPUT_2) | response("chatcmpl-example-2", [ANSWER_2], (1790, 1152, 187, 64)),
            ),
            tool("edit", (9.129, 9.133_001_500), EDIT, "1 replacement in src/durations.py"),
            span("embeddings", f"embeddings {EMBEDDING_MODEL}", "search", (9.131, 9.402_118_020), embeddings),
            tool("search", (9.128, 9.420_700_615), SEARCH, FOUND),
            chat(
                "chat-3-refused",
                (9.431, 9.698_221_400),
                request(INPUT_3) | refusal,
                status={"code": ERROR, "message": "Rate limit reached, try again in 2 s"},
            ),
        ],
        [
            chat(
                "chat-3",
                (11.702_310_090, 13.480_009_214),
                request(INPUT_3) | response("chatcmpl-example-3", [ANSWER_3], (2041, 1664, 58, 0)),
            ),
            tool("run-after", (13.488, 14.870_551_003), RUN_AFTER, PASSED_RUN),
            chat(
                "chat-4",
                (14.880_040_800, 17.255_812_667),
                request(INPUT_4)
                | two_choices
                | response("chatcmpl-example-4", [ANSWER_4, ANSWER_4_OTHER], (2178, 2048, 116, 0)),
            ),
            span("agent", "invoke_agent example-coder", None, (0.0, 17.301_000_250), agent, kind=INTERNAL),
        ],
    ]


def export_request(spans: list[Json]) -> Json:
    resource = {
        "service.name": "example-coder",
        "service.version": "0.3.1",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
    }
    scope = {"name": "example.coder", "version": "0.3.1"}
    scope_spans = {"scope": scope, "spans": spans}
    return {"resourceSpans": [{"resource": {"attributes": attributes(resource)}, "scopeSpans": [scope_spans]}]}


def render() -> str:
    """The file's content."""
    return "".join(text_of(export_request(batch)) + "\n" for batch in session())


def main(arguments: list[str]) -> int:
    target = Path(arguments[0]) if arguments else Path(__file__).with_name("agent-session.jsonl")
    target.write_bytes(render().encode())
    print(f"wrote {target}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
