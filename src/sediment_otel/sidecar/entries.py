# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a request beside its bytes: light entries of its spans and log records. Pure.

They are written with the request, so that a restart knows every trace again without reading bodies, and they
outlast the body for a while, so that late spans find the tree they belong to. They hold ids and flags, no content.
`index` is the place of an item among the items of its request.
"""

from __future__ import annotations

import hashlib
import pickle

import msgspec

from ..dialects.registry import join_id, lends_ids, names_its_span, wanted
from ..index import storable_time
from ..settings import Settings
from ..telemetry import Batch, LogRecord, Rejected, Span
from ..translate.glimpse import glimpse_span, record_bits, record_session
from ..translate.identity import usable_id
from ..vocabulary import SpanRole

#: Raised whenever the meaning of an entry changes: entries of another version are made anew from the body.
VERSION = 2


class SpanSeen(msgspec.Struct, array_like=True):
    """One span: what the leaf rule, the joins and a repeated arrival need to know. `digest` is there for calls."""

    index: int
    trace_id: str
    span_id: str
    parent_span_id: str | None
    role: str
    has_output: bool
    has_message: bool
    failed: bool
    session: str | None
    session_source: str
    response_id: str | None
    start_ns: int | None
    end_ns: int | None
    lends: bool
    digest: bytes
    user: str | None
    user_source: str


class RecordSeen(msgspec.Struct, array_like=True):
    """One log record that a dialect wants."""

    index: int
    trace_id: str | None
    span_id: str | None
    has_output: bool
    has_message: bool
    session: str | None
    response_id: str | None
    time_ns: int | None
    digest: bytes


class Entries(msgspec.Struct, array_like=True):
    """The entries of one request. `unread` counts spans that could not be read."""

    version: int
    spans: list[SpanSeen]
    records: list[RecordSeen]
    unread: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entries)


def pack(entries: Entries) -> bytes:
    """Entries as bytes. Ids that no UTF-8 can hold do not occur: they are hex; sessions are usable ids."""
    return _encoder.encode(entries)


def unpack(data: bytes) -> Entries | None:
    """The entries, or None where another release wrote them."""
    try:
        entries = _decoder.decode(data)
    except msgspec.MsgspecError:
        return None
    return entries if entries.version == VERSION else None


def look(batch: Batch, settings: Settings) -> Entries:
    """The entries of a decoded request."""
    spans: list[SpanSeen] = []
    records: list[RecordSeen] = []
    unread = 0
    for index, item in enumerate(batch.items):
        if type(item) is Span:
            spans.append(_span(index, item, settings))
        elif type(item) is LogRecord:
            if wanted(item):
                records.append(_record(index, item, settings))
        elif type(item) is Rejected and item.kind == "span":
            unread += 1
    return Entries(VERSION, spans, records, unread)


def _span(index: int, span: Span, settings: Settings) -> SpanSeen:
    seen = glimpse_span(index, span, settings)
    return SpanSeen(
        index,
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        seen.role.value,
        seen.has_output,
        seen.has_message,
        seen.failed,
        seen.session,
        seen.session_source,
        seen.response_id,
        storable_time(span.start_ns),
        storable_time(span.end_ns),
        span.parent_span_id is not None and lends_ids(span),
        digest(span) if seen.role is SpanRole.CALL else b"",
        seen.user,
        seen.user_source,
    )


def _record(index: int, record: LogRecord, settings: Settings) -> RecordSeen:
    has_output, has_message = record_bits(record)
    session = record_session(record, settings)
    return RecordSeen(
        index,
        record.trace_id,
        record.span_id if names_its_span(record) else None,
        has_output,
        has_message,
        session[0] if session else None,
        usable_id(join_id(record)),
        storable_time(record.time_ns if record.time_ns is not None else record.observed_ns),
        digest(record),
    )


def digest(item: Span | LogRecord) -> bytes:
    """Eight bytes by which the same span or record, sent again, is known."""
    try:
        data = _encoder.encode(item)
    except (UnicodeEncodeError, OverflowError, ValueError, TypeError, RecursionError):
        try:
            data = pickle.dumps(item)
        except RecursionError:
            return b""
    return hashlib.blake2b(data, digest_size=8).digest()
