# SPDX-License-Identifier: Apache-2.0
"""Detection asks only the dialects that a span shows signs of, and finds what asking all of them would find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sediment_otel.dialects import gen_ai
from sediment_otel.dialects.registry import DIALECTS, detect
from sediment_otel.genai import Detection
from sediment_otel.otlp import decode_object
from sediment_otel.sources.files import expand, read
from sediment_otel.telemetry import Resource, Scope, Span

DATA = Path(__file__).parent.parent / "data"


def asking_all(span: Span) -> Detection | None:
    for dialect in DIALECTS:
        found = dialect.detect(span)
        if found is not None:
            return found
    return None


def spans_of_captures() -> list[Span]:
    files = [
        str(path)
        for path in sorted((DATA / "captures").iterdir())
        if "expected" not in path.name and path.suffix != ".md"
    ]
    return [item for _, batch in read(expand(files)) for item in batch.items if isinstance(item, Span)]


def spans_of_cases() -> list[Span]:
    found: list[Span] = []
    for path in sorted((DATA / "cases").glob("*.json")):
        case = json.loads(path.read_bytes())
        for request in [case["input"]] if "input" in case else case.get("input_lines", []):
            found += [item for item in decode_object(request).items if isinstance(item, Span)]
    return found


def test_signs_hide_no_dialect_of_any_capture_or_case() -> None:
    spans = spans_of_captures() + spans_of_cases()
    assert len(spans) > 200
    for span in spans:
        assert (asking_all(span) or detect(span)) == detect(span), (span.name, span.scope.name)


@pytest.mark.parametrize(
    "dialect", [d for d in DIALECTS if d is not gen_ai.DIALECT and d.raw_source == "otel"], ids=lambda d: d.name
)
def test_each_sign_has_its_dialect_asked(dialect: object) -> None:
    """On a span with an operation, one sign at a time: the answer is that of asking everybody."""
    signs = dialect.signs  # type: ignore[attr-defined]
    base = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}

    def span(attributes: dict[str, object], scope: str = "demo", service: str = "app", name: str = "chat m") -> Span:
        return Span(
            trace_id="a" * 32,
            span_id="b" * 16,
            name=name,
            attributes={**base, **attributes},
            scope=Scope(name=scope),
            resource=Resource(attributes={"service.name": service}),
        )

    found = [span({key: value}) for key in signs.keys for value in ("x", "LLM", "openlit", "generation", "chat")]
    found += [span({}, scope=scope) for scope in signs.scopes] + [span({}, scope=f"{scope}x") for scope in signs.scopes]
    found += [span({}, service=service) for service in signs.services]
    found += [span({key: value}) for value in signs.providers for key in ("gen_ai.provider.name", "gen_ai.system")]
    found += [span({"gen_ai.operation.name": operation}) for operation in signs.operations]
    found += [span({}, name=name) for name in signs.names]
    assert found, "a dialect without a sign is never asked"
    assert any(detect(each).dialect == dialect.name for each in found)  # type: ignore[attr-defined]
    for each in found:
        assert detect(each) == asking_all(each)
