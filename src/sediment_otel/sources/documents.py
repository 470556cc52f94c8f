# SPDX-License-Identifier: Apache-2.0
"""A stream of bytes to the documents in it, in whatever form the file has.

`scan(stream, name, ...)` yields `Document`s: JSON Lines, one or more JSON objects (pretty or not, one after another
or in an array), one protobuf message, or protobuf (and compressed) messages behind a length, which is a varint or the
four big-endian bytes of the collector's file exporter. The form is told by content. At most one document is held
in memory, and none larger than `limit` bytes. What cannot be a document (cut off, too large, not UTF-8 text) comes
as a `Document` with a `problem`, and reading goes on behind it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from sediment_otel.otlp.protobuf import WireError, read_varint

from .inflate import CHUNK, InflateError, inflate_bytes, is_compressed
from .lines import next_line

Form = Literal["json", "protobuf"]
DEFAULT_LIMIT = 256 * 1024 * 1024
#: The way out of a record that is too large: there is no option, since it would be held in memory several times over.
SPLIT = "split it: spans are read just as well from several requests, one a line"

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n\v\f\x00\x1e"
_BETWEEN = _BLANK + b",[]"


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One message, line or object of an input.

    `number` is the 1-based line on which it starts (JSON) or its ordinal (protobuf), counted from where reading
    began; `offset` is its first byte in the input (inflated, if it was compressed). A `problem` means that
    `data` is empty and says why, without content.
    """

    data: bytes
    form: Form
    input: str
    number: int
    offset: int
    problem: str = ""


def scan(
    stream: io.BufferedReader, name: str, *, offset: int = 0, end: int | None = None, limit: int = DEFAULT_LIMIT
) -> Iterator[Document]:
    """The documents of a stream that stands at byte `offset`; only those that start before `end`."""
    reader = _Reader(stream, name, offset, limit)
    try:
        head = reader.peek()
        form = _JSON if offset else sniff(head)
        if form == "utf-16":
            yield reader.problem("the text is UTF-16 or UTF-32; save it as UTF-8", "json")
        elif form == "binary":
            yield reader.problem("neither JSON nor OTLP protobuf", "json")
        elif form == _JSON:
            yield from _scan_json(reader, end)
        elif form == "message":
            yield from _scan_message(reader)
        else:
            yield from _scan_frames(reader, four_bytes=form == "length4")
    except InflateError as error:
        yield reader.problem(error.reason, "json")


class _Reader:
    """A stream with a position, and the making of documents."""

    def __init__(self, stream: io.BufferedReader, name: str, offset: int, limit: int) -> None:
        self.stream, self.name, self.offset, self.limit = stream, name, offset, limit
        self.number = 0

    def peek(self) -> bytes:
        return self.stream.peek(CHUNK)

    def line(self) -> bytes | None:
        """The next line, empty at the end; None for one that is larger than a document may be, which is passed over."""
        data, size = next_line(self.stream, self.limit)
        self.offset += size
        return data

    def too_large(self, form: Form, offset: int, number: int, size: int | None = None) -> Document:
        """The problem of a record that is larger than `limit`."""
        what = "larger than" if size is None else f"a record of {size} bytes, more than"
        reason = f"{what} {self.limit} bytes, the most that one record may have; {SPLIT}"
        return self.problem(reason, form, offset, number)

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.offset += len(data)
        return data

    def problem(self, reason: str, form: Form, offset: int | None = None, number: int | None = None) -> Document:
        return Document(
            data=b"",
            form=form,
            input=self.name,
            number=max(self.number, 1) if number is None else number,
            offset=self.offset if offset is None else offset,
            problem=reason,
        )


# Which form -------------------------------------------------------------------------------------------

_JSON = "json"


def sniff(head: bytes) -> str:
    """json, message (one protobuf), varint or length4 (behind lengths), utf-16, binary; told by the first bytes."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        return "utf-16"
    if head[:2] in (b"{\x00", b"\x00{", b"[\x00", b"\x00["):
        return "utf-16"
    if _is_length4(head):
        return "length4"
    if _is_message(head, 0, None):
        return "message"
    if _is_varint_framed(head):
        return "varint"
    start = head.removeprefix(_BOM).lstrip(_BLANK)[:1]
    if start in (b"", b"{", b"["):
        return _JSON
    sample = head[:4096]
    controls = sum(byte < 32 and byte not in b"\t\r\n\f\x1b" for byte in sample)
    return "binary" if controls * 20 > len(sample) else _JSON


_GROUP_TAGS = (b"\x0a", b"\x12", b"\x1a", b"")  # resource, scopes, schema URL; or the end of what is known
_FIRST_INSIDE = {
    b"\x0a": (b"\x0a", b"\x10", b"\x1a", b""),  # a resource: attributes, dropped count, entities
    b"\x12": (b"\x0a", b"\x12", b"\x1a", b""),  # scope and records, schema URL
}


def _is_message(head: bytes, position: int, size: int | None) -> bool:
    """Whether a request can start there (`size` bytes of it, if known): a ResourceSpans or such, with sound lengths."""
    try:
        if head[position : position + 1] != b"\x0a":
            return False
        inner, body = read_varint(head, position + 1)
        end = body + inner
        tag = head[body : body + 1]
        if inner and body + 1 < len(head):
            part, after = read_varint(head, body + 1)
            if tag not in _GROUP_TAGS or after + part > end:
                return False
            if part and head[after : after + 1] not in _FIRST_INSIDE.get(tag, (head[after : after + 1],)):
                return False
        if size is not None:
            return end <= position + size
        return head[end : end + 1] in (b"", b"\x0a")
    except WireError:
        return False


def _is_length4(head: bytes) -> bool:
    if len(head) < 5 or head[0] > 0x0F:
        return False
    size = int.from_bytes(head[:4], "big")
    first = head[4:8]
    if size and (is_compressed(first) or (first[:1] == b"{" and b"resource" in head[4:64])):
        return True
    return size > 1 and _is_message(head, 4, size)


def _is_varint_framed(head: bytes) -> bool:
    try:
        size, body = read_varint(head, 0)
    except WireError:
        return False
    return size > 1 and (_is_message(head, body, size) or is_compressed(head[body : body + 4]))


# JSON -------------------------------------------------------------------------------------------------

_TOKEN = re.compile(rb'\\[\s\S]|["{}\[\]]')
#: Bytes of a line from which on copying it costs more than a look whether it has to be.
_WORTH_A_LOOK = 4096


def _scan_json(reader: _Reader, end: int | None) -> Iterator[Document]:
    name, limit = reader.name, reader.limit
    pending = _Pending()
    number = 0
    brackets: int | None = 0  # those that are open, as long as there is nothing else
    while True:
        offset = reader.offset
        if end is not None and offset >= end and not pending.size:
            return
        line = reader.line()
        if line == b"":
            break
        number += 1
        reader.number = number
        if line is None:
            if pending.size:
                yield reader.too_large("json", pending.offset, pending.number)
                pending = _Pending(resume=pending.indent)
            elif pending.resume is None:
                yield reader.too_large("json", offset, number)
            continue
        if pending.resume is not None:
            if not line.startswith(pending.resume + b"{"):
                continue
            pending = _Pending()
        if not pending.size:
            whole = len(line) > _WORTH_A_LOOK and line[:1] == b"{" and line[-2:] == b"}\n"
            text = line if whole else line.strip(_BLANK)  # a long line is not copied for the sake of its newline
            if number == 1 and offset == 0:
                text = text.removeprefix(_BOM)
            if not text:
                continue
            if whole or (text[:1] == b"{" and text[-1:] == b"}"):  # two objects on a line: the decoder's
                line, brackets = b"", None
                yield Document(data=text, form="json", input=name, number=number, offset=offset)
                continue
        elif pending.is_broken_before(line):
            yield pending.document(name)
            pending = _Pending()
        if brackets is not None:
            brackets = None if line.strip(_BETWEEN + _BOM) else brackets + line.count(b"[") - line.count(b"]")
        yield from pending.feed(line, name, number, offset)
        if pending.size > limit:
            yield reader.too_large("json", pending.offset, pending.number)
            pending = _Pending(resume=pending.indent)
    if pending.size:
        yield pending.document(name)
    elif brackets:
        yield reader.problem("an array that is cut off behind its start", "json", 0, 1)


class _Pending:
    """An object that more than one line, or less than one, belongs to."""

    def __init__(self, resume: bytes | None = None) -> None:
        self._gathered = io.BytesIO()
        self._first = b""
        self._pieces = 0
        self.size = self.depth = self.number = self.offset = 0
        self.indent = b""
        self.resume = resume  # behind an object that was too large: the indentation at which the next one starts

    def is_broken_before(self, line: bytes) -> bool:
        """Whether the line starts a new object although the one before it has not ended."""
        return line.startswith((b'{"', b"[{")) and self._first.strip(_BETWEEN) not in (b"{", b"")

    def document(self, name: str) -> Document:
        """What there is, whole or not: the parser finds out."""
        data = self._gathered.getvalue()
        return Document(data=data, form="json", input=name, number=self.number, offset=self.offset)

    def feed(self, line: bytes, name: str, number: int, offset: int) -> Iterator[Document]:
        start = 0
        in_string = False
        for token in _TOKEN.finditer(line):
            mark = token.group()
            if in_string:
                in_string = mark != b'"'
            elif mark == b'"':
                in_string = True
            elif mark in b"{[":
                if self.depth == 0:
                    if mark == b"[":
                        continue  # an array around objects
                    yield from self._junk(line[start : token.start()], name, number, offset + start)
                    before = line[: token.start()]
                    self.indent = b"" if before.strip() else before
                    start = token.start()
                    self.number, self.offset = number, offset + start
                self.depth += 1
            elif mark in b"}]" and self.depth:
                self.depth -= 1
                if self.depth == 0:
                    self._add(line[start : token.end()])
                    start = token.end()
                    yield self.document(name)
                    self._clear()
        rest = line[start:]
        if self.depth == 0:
            yield from self._junk(rest, name, number, offset + start)
            return
        self._add(rest)
        if in_string or (self._pieces == 1 and rest.rstrip(_BLANK)[-1:] not in (b"{", b"[", b",", b":")):
            yield self.document(name)  # no string and no first line of a pretty object ends like this: cut off
            self._clear()

    def _add(self, part: bytes) -> None:
        if not self._pieces:
            self._first = part[:64]
        self._gathered.write(part)
        self._pieces += 1
        self.size += len(part)

    def _clear(self) -> None:
        self._gathered = io.BytesIO()
        self._pieces = self.size = self.depth = 0

    def _junk(self, text: bytes, name: str, number: int, offset: int) -> Iterator[Document]:
        """Text between objects, handed to the parser, which refuses it; separators are none."""
        text = text.strip(_BETWEEN)
        if text and text != _BOM:
            yield Document(data=text[:4096], form="json", input=name, number=number, offset=offset)


# Protobuf ---------------------------------------------------------------------------------------------


def _scan_message(reader: _Reader) -> Iterator[Document]:
    gathered = io.BytesIO()
    reader.number = 1
    while chunk := reader.read(CHUNK):
        gathered.write(chunk)
        if gathered.tell() > reader.limit:
            yield reader.too_large("protobuf", 0, 1)
            return
    yield Document(data=gathered.getvalue(), form="protobuf", input=reader.name, number=1, offset=0)


def _scan_frames(reader: _Reader, *, four_bytes: bool) -> Iterator[Document]:
    while True:
        start = reader.offset
        prefix = _length(reader, four_bytes)
        if prefix is None:
            return
        reader.number += 1
        size = prefix
        if size < 0:
            yield reader.problem("the length before a message is cut off or none", "protobuf", start)
            return
        if size > reader.limit:
            yield reader.too_large("protobuf", start, reader.number, size)
            if not _skip(reader, size):
                return
            continue
        data = reader.read(size)
        if len(data) < size:
            if data.strip(b"\x00"):
                yield reader.problem("the last message is cut off", "protobuf", start)
            return
        if is_compressed(data[:4]):
            try:
                data = inflate_bytes(data, reader.limit)
            except InflateError as error:
                yield reader.problem(error.reason, "protobuf", start)
                continue
        if data:
            form: Form = "json" if data.lstrip()[:1] in (b"{", b"[") and data[:2] != b"\x0a\x7b" else "protobuf"
            yield Document(data=data, form=form, input=reader.name, number=reader.number, offset=start)


def _length(reader: _Reader, four_bytes: bool) -> int | None:
    """The length in front of the next message; None at the end, -1 if it is broken."""
    if four_bytes:
        prefix = reader.read(4)
        if not prefix:
            return None
        return int.from_bytes(prefix, "big") if len(prefix) == 4 else -1
    result = shift = 0
    while shift < 64:
        byte = reader.read(1)
        if not byte:
            return None if shift == 0 else -1
        result |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return result
        shift += 7
    return -1


def _skip(reader: _Reader, size: int) -> bool:
    while size > 0:
        piece = reader.read(min(size, CHUNK))
        if not piece:
            return False
        size -= len(piece)
    return True
