# SPDX-License-Identifier: Apache-2.0
"""What is taken out of a capture: the products' own prompts, tools and hosts. Everything else stays as it came.

A `Trim` knows the run. Texts of the product (longer than `LONGEST`, without the run's prompt or note in them) become
a word about their length; lists of tools keep the one that was used; the run's folder is called `/home/dev` and the
program's `/opt/agent`. JSON that stands as text in a value is opened for this, and written anew only where something
in it changed.
"""

from __future__ import annotations

import json
from typing import Any

LONGEST = 120
#: Values that tell of the machine, by their key.
NEUTRAL = {
    "host.name": "host-1",
    "process.owner": "dev",
    "user.id": "0" * 64,
    "installation.id": "00000000-0000-4000-8000-000000000000",
    "os.version": "6.8.0",
    "os_release": "6.8.0",
}


class Trim:
    """Trims the values of one run."""

    def __init__(self, folders: dict[str, str], tool: str, kept: tuple[str, ...]) -> None:
        self.folders, self.tool, self.kept = folders, tool, kept

    def text(self, text: str) -> str:
        """A text of a message, or any other."""
        opened = self._opened(text)
        if opened is not None:
            trimmed = self.value(opened)
            return text if trimmed == opened else json.dumps(trimmed, ensure_ascii=False, separators=(",", ":"))
        if len(text) > LONGEST and not any(mark in text for mark in self.kept):
            return f"(a text of the product, {len(text)} characters)"
        for folder, name in self.folders.items():
            text = text.replace(folder, name)
        return text

    def value(self, value: Any, key: str = "") -> Any:
        """Any JSON value."""
        if isinstance(value, str):
            return NEUTRAL.get(key) or self.text(value)
        if isinstance(value, list):
            if len(value) == 2 and isinstance(value[0], str) and value[0] in NEUTRAL:  # OpenTelemetry JS's pairs
                return [value[0], NEUTRAL[value[0]]]
            return [self.value(item) for item in self._tools(value)]
        if isinstance(value, dict):
            name = value.get("key")  # OTLP's pairs
            if isinstance(name, str) and name in NEUTRAL and "value" in value:
                return {**value, "value": {"stringValue": NEUTRAL[name]}}
            return {name: self.value(item, name) for name, item in value.items()}
        return value

    def _opened(self, text: str) -> Any:
        if not text.startswith(("[", "{", '"')):
            return None
        try:
            return json.loads(text)
        except ValueError:
            return None

    def _tools(self, items: list[Any]) -> list[Any]:
        texts = [json.dumps(item) for item in items]
        if len(items) < 4 or not all("description" in text for text in texts):
            return items
        return [item for item, text in zip(items, texts, strict=True) if f'"{self.tool}"' in text.replace("\\", "")]


def spans_of_calls(request: dict[str, Any]) -> dict[str, Any]:
    """An OTLP trace request without the spans that neither tell of a model nor stand above one that does."""
    spans = [span for rows in request["resourceSpans"] for scope in rows["scopeSpans"] for span in scope["spans"]]
    by_id = {span["spanId"]: span for span in spans}
    kept: set[str] = set()
    for span in spans:
        keys = [pair["key"] for pair in span.get("attributes", [])]
        if any(key.startswith(("gen_ai.", "ai.")) for key in keys):
            above: dict[str, Any] | None = span
            while above is not None and above["spanId"] not in kept:
                kept.add(above["spanId"])
                above = by_id.get(above.get("parentSpanId", ""))
    rows = []
    for row in request["resourceSpans"]:
        scopes = [{**s, "spans": [x for x in s["spans"] if x["spanId"] in kept]} for s in row["scopeSpans"]]
        if any(scope["spans"] for scope in scopes):
            rows.append({**row, "scopeSpans": [scope for scope in scopes if scope["spans"]]})
    return {"resourceSpans": rows}
