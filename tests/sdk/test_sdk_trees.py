# SPDX-License-Identifier: Apache-2.0
"""Any trace, given to the processor and to the exporter as it happens, gives what `convert` makes of its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode
from sdk_kit import NO_METERS, MemorySink, call_attributes, provider_with

from sediment_otel.sdk import ProcessSettings, SedimentSpanExporter, SedimentSpanProcessor
from sediment_otel.settings import Settings
from sediment_otel.sources.files import expand
from sediment_otel.traces import Traces

QUIET = ProcessSettings(schedule_delay=3600.0, settle=3600.0)


@dataclass(frozen=True)
class Node:
    """One span of a generated trace; `parent` points back into the list, None is a root."""

    parent: int | None
    role: str
    answer: bool
    asks: bool
    session: str | None
    user: str | None
    response: str | None
    failed: bool


def nodes() -> st.SearchStrategy[list[Node]]:
    node = st.builds(
        Node,
        parent=st.sampled_from([None, 0, 0, 0, 1, 1, 2, 3]),
        role=st.sampled_from(["chat", "chat", "chat", "chat", "invoke_agent", "execute_tool", "other"]),
        answer=st.booleans(),
        asks=st.sampled_from([True, True, False]),
        session=st.sampled_from(["s", "s", "t", None]),
        user=st.sampled_from(["u", "v", None, None]),
        response=st.sampled_from([None, None, "r", "q"]),
        failed=st.sampled_from([False, False, False, True]),
    )
    return st.lists(node, min_size=2, max_size=6)


def attributes_of(node: Node, number: int) -> dict[str, Any]:
    more: dict[str, Any] = {} if node.session is None else {"session.id": node.session}
    if node.user is not None:
        more["user.id"] = node.user
    if node.role == "other":
        return more | {"http.request.method": "GET"}
    if node.response is not None:
        more["gen_ai.response.id"] = node.response
    asked = f"ask {number}" if node.asks else None
    return call_attributes(asked, f"answer {number}" if node.answer else None, **more) | {
        "gen_ai.operation.name": node.role
    }


def run(tree: list[Node], tracer: trace.Tracer, after_each: Callable[[], Any]) -> None:
    """Start the spans in order, end each after its children."""
    spans: list[Any] = []
    children: dict[int | None, list[int]] = {}
    for number, node in enumerate(tree):
        parent = node.parent if node.parent is not None and node.parent < number else None
        context = trace.set_span_in_context(spans[parent] if parent is not None else trace.INVALID_SPAN)
        spans.append(tracer.start_span(f"span {number}", context=context, attributes=attributes_of(node, number)))
        children.setdefault(parent, []).append(number)

    def end(number: int) -> None:
        for child in children.get(number, ()):
            end(child)
        if tree[number].failed:
            spans[number].set_status(Status(StatusCode.ERROR))
        spans[number].end()
        after_each()

    for root in children.get(None, ()):
        end(root)


def converted(spans: Any, folder: Path) -> tuple[list[bytes], Counter[str]]:
    path = folder / "traces.pb"
    path.write_bytes(encode_spans(spans).SerializeToString())
    walked = Traces(list(expand([str(path)])), Settings())
    facts: list[bytes] = []
    skipped: Counter[str] = Counter()
    for one in walked.walk():
        found = one.translation
        if found.encoded is not None:
            facts.append(found.encoded)
        else:
            assert found.reason is not None
            skipped[found.reason.value] += 1
    return sorted(facts), skipped


class Bytes(MemorySink):
    """Keeps the bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.encoded: list[bytes] = []

    def write(self, batch: Any) -> Any:
        self.encoded += [delivery.encoded for delivery in batch]
        return super().write(batch)


@given(tree=nodes(), step_by_step=st.booleans())
@settings(max_examples=150)
def test_any_trace_gives_the_same_facts_and_skips_by_every_way(
    tree: list[Node], step_by_step: bool, tmp_path_factory: Any
) -> None:
    processed, exported, memory = Bytes(), Bytes(), InMemorySpanExporter()
    processor = SedimentSpanProcessor(processed, Settings(), QUIET, meter_provider=NO_METERS)
    exporter = SedimentSpanExporter(exported, Settings(), QUIET, meter_provider=NO_METERS)
    provider = provider_with(processor, SimpleSpanProcessor(exporter), SimpleSpanProcessor(memory))

    def flush() -> None:
        if step_by_step:
            processor.force_flush()
            exporter.force_flush()

    run(tree, provider.get_tracer("t"), flush)
    provider.shutdown()
    facts, skipped = converted(memory.get_finished_spans(), tmp_path_factory.mktemp("tree"))
    for sink, part in ((processed, processor), (exported, exporter)):
        found = part.snapshot()
        assert sorted(sink.encoded) == facts
        assert found.skipped == skipped
        assert found.ended == len(tree)
        assert found.waiting == 0
