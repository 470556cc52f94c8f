# SPDX-License-Identifier: Apache-2.0
"""Why a span became what it became, as sections of rows for people. Pure; ids, keys, sizes and codes, no content.

`Node` is what is left of each span for the overview and for the nest. `explain` takes one span with its
translation and the nodes of its trace, and answers in the order in which the decision was made: dialect, nest,
session, fields, messages, what was taken out, log records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from . import lookalikes
from .dialects import gen_ai
from .dialects.registry import BY_NAME, SOURCES, session_keys
from .genai import Messages, Reading, Subject
from .settings import Settings
from .telemetry import LogRecord, Span
from .traces import Walked
from .translate import identity
from .translate.glimpse import session_of
from .translate.select import Glimpse, ancestors, enclosing_calls
from .vocabulary import WAY_OUT, Outcome, SkipReason, SpanRole


class Node(msgspec.Struct):
    """One span in the overview."""

    glimpse: Glimpse
    trace_id: str
    name: str
    dialect: str
    outcome: str
    reason: str
    note: str
    losses: int
    key: str | None = None

    @property
    def span_id(self) -> str:
        """The span's own id."""
        return self.glimpse.span_id

    @property
    def label(self) -> str:
        """Its id for people: the capture key where it has none of its own."""
        return self.glimpse.span_id or self.key or "(no id)"


class Row(NamedTuple):
    """One line of a section."""

    label: str
    text: str


class Section(NamedTuple):
    """Rows under a title."""

    title: str
    rows: list[Row]


def node_of(ordinal: int, walked: Walked, settings: Settings) -> Node:
    """What the overview keeps of a span."""
    span, found = walked.subject.span, walked.translation
    session = session_of(span.attributes, settings, found.detection.dialect)
    glimpse = Glimpse(
        ordinal,
        span.span_id,
        span.parent_span_id,
        found.detection.role,
        session=session[0] if session else None,
        session_source=session[1] if session else "",
        response_id=identity.usable_id(span.attributes.get("gen_ai.response.id")),
    )
    reason = found.reason.value if found.reason is not None else ""
    key = walked.subject.capture_key
    looks = lookalikes.told(span) if found.detection.dialect == "none" and found.encoded is None else None
    return Node(
        glimpse,
        span.trace_id,
        span.name if span.name.isascii() else span.name.encode("utf-8", "backslashreplace").decode(),
        found.detection.dialect,
        found.outcome.value,
        reason,
        f"{found.note}; {lookalikes.note(*looks)}" if looks is not None else found.note,
        len(found.losses),
        key,
    )


def explain(walked: Walked, node: Node, trace: Sequence[Node], settings: Settings) -> list[Section]:
    """The sections for one span. `trace` are the nodes of its trace, itself among them."""
    subject, found = walked.subject, walked.translation
    sections = [_what(walked), _dialect(walked)]
    if found.detection.role is SpanRole.CALL:
        sections.append(_nest(node, trace))
        sections.append(_session(walked, node, trace, settings))
        if found.reading is not None:
            sections.append(_fields(subject, found.reading, found.provenance))
            sections.append(_messages(subject, found.reading))
        sections.append(Section("Taken out", [Row(loss.code.value, _at(loss.at, loss.note)) for loss in found.losses]))
        sections.append(_joined(subject))
    if found.detection.role is not SpanRole.CALL or found.reason is SkipReason.NO_CONTENT:
        sections.append(_message_like(subject))
    return [section for section in sections if section.rows]


def _what(walked: Walked) -> Section:
    span, found = walked.subject.span, walked.translation
    rows = [
        Row("trace", span.trace_id or "none"),
        Row("span", span.span_id or "none"),
        Row("name", span.name or "none"),
    ]
    if walked.subject.capture_key is not None:
        rows.append(Row("known by", walked.subject.capture_key))
    if found.outcome is Outcome.FACT:
        size = len(found.encoded or b"")
        rows.append(Row("outcome", f"fact {found.inference_call_id}, {size} bytes, {len(found.losses)} losses"))
    elif found.reason is not None:
        rows.append(
            Row("outcome", f"skipped: {found.reason.value} ({found.note})" if found.note else found.reason.value)
        )
        rows.append(Row("way out", WAY_OUT[found.reason]))
    return Section("Span", rows)


def _dialect(walked: Walked) -> Section:
    span, detection = walked.subject.span, walked.translation.detection
    known = BY_NAME.get(detection.dialect)
    version = f" {span.scope.version}" if span.scope.version else ""
    return Section(
        "Dialect",
        [
            Row("dialect", detection.dialect + (f" ({known.title})" if known is not None else "")),
            Row("because", detection.reason),
            Row("it is", _ROLES[detection.role]),
            Row("scope", f"{span.scope.name}{version}" if span.scope.name else "none named"),
        ],
    )


_ROLES = {
    SpanRole.CALL: "a model call",
    SpanRole.AGENT: "an agent or a workflow",
    SpanRole.TOOL: "a tool",
    SpanRole.OTHER: "no model call",
}


# -- nest and session ------------------------------------------------------------------------------------------


def _nest(node: Node, trace: Sequence[Node]) -> Section:
    """The calls around it and inside it that may be the same call, and which of them became the fact."""
    outer = enclosing_calls(other.glimpse for other in trace)
    nodes = {other.span_id: other for other in reversed(trace)}
    rows = []
    seen = {node.span_id}
    around = outer.get(node.span_id)
    while around is not None and around not in seen:
        seen.add(around)
        rows.append(Row("around it", _nested(nodes[around])))
        around = outer.get(around)
    below: dict[str | None, list[str]] = {}
    for child, parent in outer.items():
        below.setdefault(parent, []).append(child)
    inside = [node.span_id]
    for span_id in inside:
        for child in below.get(span_id, ()):
            if child not in seen:
                seen.add(child)
                inside.append(child)
                rows.append(Row("inside it", _nested(nodes[child])))
    return Section("Nest", rows or [Row("alone", "no other model call encloses it or lies in it")])


def _nested(node: Node) -> str:
    became = "became the fact" if node.outcome == Outcome.FACT.value else f"skipped: {node.reason}"
    return f"{node.span_id} {node.name}: {became}"


def _session(walked: Walked, node: Node, trace: Sequence[Node], settings: Settings) -> Section:
    """Where a session was looked for, in order, up to where one was found."""
    subject, found = walked.subject, walked.translation
    product = session_keys(found.detection.dialect)
    holders = _holders(subject)
    rows: list[Row] = []
    absent: list[str] = []
    taken = False
    keys = (*settings.session_attributes, identity.SESSION_KEY, *product, *identity.SESSION_KEYS_BEHIND)
    for key in (*dict.fromkeys(keys), *identity.METADATA_KEYS):
        there = False
        for where, attributes in holders:
            value = attributes.get(key)
            if value is None:
                continue
            there = True
            if key in identity.METADATA_KEYS:
                value = identity.session_from_metadata(value)
            verdict = "passed over, holds no usable id"
            if identity.usable_id(value) is not None:
                verdict = "also there, behind what was taken" if taken else "taken"
                taken = True
            rows.append(Row(f"{where} {key}", verdict))
        if not there:
            absent.append(key)
    for above in ancestors(node.glimpse, (other.glimpse for other in trace)):
        if above.session is not None:
            verdict = "not needed" if taken else "taken"
            taken = True
            rows.append(Row(f"ancestor {above.span_id} {above.session_source}", verdict))
    for resource in {id(r): r for r in (subject.span.resource, *(r.resource for r in subject.records))}.values():
        value = resource.attributes.get(identity.SESSION_KEY)
        if value is not None:
            usable = identity.usable_id(value) is not None
            rows.append(
                Row(
                    "resource session.id",
                    "passed over, no usable id" if not usable else "not needed" if taken else "taken",
                )
            )
            taken = taken or usable
    if settings.session_id is not None:
        rows.append(Row("--session-id", "not needed" if taken else "taken"))
        taken = True
    if not taken:
        rows.append(Row("nothing names one", WAY_OUT[SkipReason.NO_SESSION]))
    rows.append(Row("not there", ", ".join(absent)))
    return Section("Session", rows)


def _holders(subject: Subject) -> list[tuple[str, Mapping[str, Any]]]:
    records = [(f"record {index}", record.attributes) for index, record in enumerate(subject.records)]
    return [("span", subject.span.attributes), *records]


# -- fields and messages -----------------------------------------------------------------------------------------


def _fields(subject: Subject, reading: Reading, provenance: Mapping[str, str]) -> Section:
    """What fed each field, and which other attributes could have."""
    holders = [subject.span.attributes, gen_ai.details_attributes(subject)]
    dialect = BY_NAME.get(reading.detection.dialect, gen_ai.DIALECT)
    names = dict.fromkeys((*gen_ai.DIALECT.fields, *dialect.fields, *provenance))
    rows = []
    for name in names:
        if name == "session_id":
            continue
        source = provenance.get(name)
        keys = dict.fromkeys((*gen_ai.DIALECT.fields.get(name, ()), *dialect.fields.get(name, ())))
        others = [key for key in keys if key != source and any(holder.get(key) is not None for holder in holders)]
        if source is None and not others:
            continue
        lost = f"; also there: {', '.join(others)}" if others else ""
        rows.append(Row(name, f"{source or 'nothing usable'}{lost}"))
    return Section("Fields", rows)


def _messages(subject: Subject, reading: Reading) -> Section:
    """Which source gave each direction, and which others carried it."""
    rows = []
    taken: dict[str, str] = {}
    for direction in _DIRECTIONS:
        messages: Messages | None = getattr(reading, direction)
        if messages is not None:
            taken[direction] = messages.source
            rows.append(Row(direction, f"{messages.source}: {_extent(messages, direction)}"))
        elif reading.problem is not None and reading.problem_at == f"/{direction}":
            rows.append(Row(direction, f"cannot be read: {reading.problem.value}"))
    for source in SOURCES:
        content = source.read(subject)
        if content is None:
            continue
        for direction in _DIRECTIONS:
            messages = getattr(content, direction)
            if messages is not None and messages.source != taken.get(direction):
                rows.append(Row(f"{direction}, passed over", f"{messages.source}: {_extent(messages, direction)}"))
        for direction, problem in content.problems.items():
            rows.append(Row(f"{direction}, passed over", f"{source.name}: {problem.value}"))
    return Section("Messages", rows)


_DIRECTIONS = ("system", "input", "output")


def _extent(messages: Messages, direction: str) -> str:
    items = messages.open()
    parts = sum(len(m["parts"]) for m in items if type(m) is dict and type(m.get("parts")) is list)
    told = f"{parts} part{'s' * (parts != 1)}"
    return told if direction == "system" else f"{len(items)} message{'s' * (len(items) != 1)}, {told}"


def _at(at: str, note: str) -> str:
    return f"{at or '/'}: {note}" if note else at or "/"


# -- what belongs to it -------------------------------------------------------------------------------------------


def _joined(subject: Subject) -> Section:
    rows = [Row(f"record {i}", _record(record, subject.span)) for i, record in enumerate(subject.records)]
    rows += [Row("sibling span", f"{span.span_id} {span.name}: may lend ids") for span in subject.siblings]
    if subject.content:
        rows.append(Row("content", f"from {subject.content.get('source', 'outside')}"))
    return Section("Joined", rows)


def _record(record: LogRecord, span: Span) -> str:
    if record.span_id is not None and record.span_id == span.span_id:
        why = "by trace and span id"
    elif record.attributes.get("gen_ai.response.id") is not None:
        why = "by response id"
    else:
        why = "by session and time"
    return f"{record.event_name or 'no event name'}, {len(record.attributes)} attributes, {why}"


#: Words in a key that make its value worth a look where no dialect reads it.
_WORDS = ("message", "prompt", "completion", "input.value", "output.value", "history", "conversation", "instructions")


def _message_like(subject: Subject) -> Section:
    """Attributes that look like messages: where, how large, and why they stand out."""
    places: list[tuple[str, Mapping[str, Any]]] = _holders(subject)
    places += [(f"event {event.name}", event.attributes) for event in subject.span.events]
    rows = [Row(f"{where} {key}", told) for where, attributes in places for key, told in _looks(attributes)]
    if rows:
        scope = subject.span.scope
        rows.append(Row("scope", f"{scope.name} {scope.version}".strip() or "none named"))
    return Section("Looks like messages", rows)


def _looks(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in attributes.items():
        lowered = key.lower()
        by_key = any(word in lowered for word in _WORDS) and not isinstance(value, (bool, int, float))
        by_value = lookalikes.holds_messages(value)
        if by_value or (by_key and value is not None):
            yield key, f"{_size(value)}, {'holds roles or content' if by_value else 'by its name'}"


def _size(value: Any) -> str:
    if type(value) is str:
        return f"text of {len(value)} characters"
    if isinstance(value, (list, tuple, dict)):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def tree(nodes: Iterable[Node]) -> list[tuple[int, Node]]:
    """The nodes of one trace with their depth: parents before children, else in the order of the input."""
    nodes = list(nodes)
    first: dict[str, Node] = {}
    for node in nodes:
        if node.span_id:
            first.setdefault(node.span_id, node)
    children: dict[str, list[Node]] = {}
    roots: list[Node] = []
    for node in nodes:
        parent = node.glimpse.parent_span_id
        if parent and parent in first and first[parent] is not node and first.get(node.span_id) is node:
            children.setdefault(parent, []).append(node)
        else:
            roots.append(node)
    found: list[tuple[int, Node]] = []
    seen: set[int] = set()

    def below(start: Node) -> None:
        stack = [(0, start)]
        while stack:
            depth, node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            found.append((depth, node))
            if first.get(node.span_id) is node:
                stack.extend((depth + 1, child) for child in reversed(children.get(node.span_id, ())))

    for node in (*roots, *nodes):
        below(node)
    return found


__all__ = ["Node", "Row", "Section", "explain", "node_of", "tree"]
