# SPDX-License-Identifier: Apache-2.0
"""Sinks that take facts and keep spans: each fact restored to a span with current `gen_ai.*` attributes.

Facts are redacted before they come here, and so are the spans. What is a duplicate or a conflict is decided by the
facts, as everywhere. A fact that has no span (its blobs stand elsewhere, say) is `refused` and said in `remarks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from ..otlp import encode_json, encode_protobuf_traces
from ..telemetry import Span
from ..translate.blobs import refers
from ..translate.restore import RestoreError, restore
from .atomic import sink_error
from .base import DEFAULT_OPTIONS, Delivery, Receipt, Sink, SinkBase, SinkError, SinkOptions, UnknownSink
from .jsonl import JsonLinesFile, compression
from .registry import JSON_LINES_SUFFIXES, is_device, open_sink
from .remote import is_remote, shown, written
from .seen import Repeats

#: What a caller does with each span before it goes.
Finish: TypeAlias = "Callable[[Span], Span]"
PROTOBUF_SUFFIXES, JSON_SUFFIXES = (
    tuple(f".{kind}{packed}" for packed in ("", ".gz", ".zst")) for kind in ("pb", "json")
)
ACCEPTED = (
    "- (standard output), FILE.jsonl (also .ndjson, .json) or FILE.pb, each with .gz or .zst, http://… or https://…"
)


class Restored(msgspec.Struct):
    """A span on its way out: its place in the batch, and the fact that it was restored from."""

    index: int
    span: Span
    delivery: Delivery


def as_it_is(span: Span) -> Span:
    """Nothing is done with it."""
    return span


class SpanSink(SinkBase):
    """The part that is the same wherever the spans go."""

    def __init__(self, where: str, options: SinkOptions, finish: Finish = as_it_is) -> None:
        self._where = where
        self._finish = finish
        self._repeats = Repeats(options.may_repeat)
        self._reasons: Counter[str] = Counter()
        self._closed = False

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        """Restore the facts that are new and hand their spans on. What was handed on before an error is remembered."""
        if self._closed:
            raise SinkError("is closed", self._where, "open the sink again")
        receipts, _ = self._repeats.sort_out(batch)
        open_ones = {index for index, receipt in enumerate(receipts) if receipt is Receipt.STORED}
        found: list[Restored] = []
        for index in sorted(open_ones):
            try:
                found.append(Restored(index, self._span_of(batch[index]), batch[index]))
            except RestoreError as error:
                receipts[index] = self._refuse(f"cannot_be_restored ({error.field})")
                open_ones.discard(index)
        try:
            for index, receipt in self._hand_on(found):
                receipts[index] = receipt
                open_ones.discard(index)
        finally:
            for index in open_ones:
                self._repeats.forget(batch[index : index + 1], [Receipt.STORED])
        return receipts

    def _span_of(self, delivery: Delivery) -> Span:
        if refers(delivery.encoded):
            raise RestoreError("raw", "refers to blobs")
        return self._finish(restore(delivery.encoded))

    def _refuse(self, reason: str, number: int = 1) -> Receipt:
        self.refused += number
        self._reasons[reason] += number
        return Receipt.REFUSED

    def _hand_on(self, spans: list[Restored]) -> Iterator[tuple[int, Receipt]]:
        """Each span's receipt, as soon as it is settled."""
        raise NotImplementedError

    def remarks(self) -> list[str]:
        """Why spans are not there."""
        return [f"{number} refused: {reason}" for reason, number in sorted(self._reasons.items())]

    def close(self) -> None:
        """Take nothing more."""
        if not self._closed:
            self._closed = True
            self._repeats.close()


class SpanLines(SpanSink):
    """OTLP JSON Lines, one span a line, into a sink of lines."""

    def __init__(self, lines: Sink, where: str, options: SinkOptions, finish: Finish = as_it_is) -> None:
        super().__init__(where, options, finish)
        self._lines = lines

    def _hand_on(self, spans: list[Restored]) -> Iterator[tuple[int, Receipt]]:
        lines = [
            msgspec.structs.replace(one.delivery, encoded=msgspec.json.encode(encode_json([one.span]))) for one in spans
        ]
        receipts = self._lines.write(lines)
        yield from zip([one.index for one in spans], receipts, strict=True)

    def flush(self) -> None:
        """Hand on."""
        self._lines.flush()

    def close(self) -> None:
        """Publish."""
        super().close()
        self._lines.close()

    def abort(self) -> None:
        """Leave the target as it was."""
        super().close()
        self._lines.abort()


class SpanProtobuf(SpanSink):
    """A file of OTLP protobuf: requests behind each other, which are one request with all spans."""

    def __init__(self, location: str, options: SinkOptions = DEFAULT_OPTIONS, finish: Finish = as_it_is) -> None:
        super().__init__(shown(location) if is_remote(location) else location, options, finish)
        self._file = written(location)
        compress = compression(location.split("?", 1)[0] if is_remote(location) else location)
        self._compressor = compress(self._file.file) if compress else None
        self._out: Any = self._compressor or self._file.file

    def _hand_on(self, spans: list[Restored]) -> Iterator[tuple[int, Receipt]]:
        for one in spans:
            try:
                self._out.write(encode_protobuf_traces([one.span]))
            except OSError as error:
                self.abort()
                raise sink_error(error, self._where) from None
            yield one.index, Receipt.STORED

    def close(self) -> None:
        """Publish."""
        if not self._closed:
            if self._compressor is not None:
                try:
                    self._compressor.close()
                except OSError as error:
                    self.abort()
                    raise sink_error(error, self._where) from None
            super().close()
            self._file.publish()

    def abort(self) -> None:
        """Leave the target as it was."""
        if not self._closed:
            super().close()
            if self._compressor is not None:
                with suppress(OSError):  # its last bytes are to be dropped anyway
                    self._compressor.close()
            self._file.discard()


def open_spans(location: str, options: SinkOptions = DEFAULT_OPTIONS, finish: Finish = as_it_is) -> SpanSink:
    """The place that `location` names, for spans. Raises `SinkError`; `UnknownSink` where it names none."""
    lower = location.lower()
    if lower.startswith(("http://", "https://", "otlp+http://", "otlp+https://")):
        from .otlp import OtlpSink

        return OtlpSink(location, options, finish=finish)
    name = lower.split("?", 1)[0] if is_remote(location) else lower
    if name.endswith(PROTOBUF_SUFFIXES):
        return SpanProtobuf(location, options, finish)
    if name.endswith(JSON_SUFFIXES):
        where = shown(location) if is_remote(location) else location
        return SpanLines(JsonLinesFile(location, SinkOptions(may_repeat=frozenset())), where, options, finish)
    if location == "-" or name.endswith(JSON_LINES_SUFFIXES) or is_device(location):
        where = "standard output" if location == "-" else shown(location) if is_remote(location) else location
        return SpanLines(open_sink(location, may_repeat=frozenset()), where, options, finish)
    raise UnknownSink("is no place for spans", shown(location) if is_remote(location) else location, f"give {ACCEPTED}")


__all__ = ["SpanLines", "SpanProtobuf", "SpanSink", "open_spans"]
