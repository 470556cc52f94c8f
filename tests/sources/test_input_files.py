# SPDX-License-Identifier: Apache-2.0
"""Files in every form, whole, damaged and cut, and what an input can be."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from sediment_otel.otlp import encode_json, encode_protobuf_traces
from sediment_otel.sources.documents import Document
from sediment_otel.sources.files import Input, SourceError, decode_document, expand, read
from sediment_otel.sources.inflate import CHUNK, InflateError, inflate_bytes
from sediment_otel.sources.lines import next_line
from sediment_otel.telemetry import Rejected, Span

TRACE = "ab" * 16


def span(number: int, text: str = "x") -> Span:
    return Span(trace_id=TRACE, span_id=f"{number:016x}", name=f"span-{number}", start_ns=5, attributes={"t": text})


def line(number: int, text: str = "x") -> bytes:
    return json.dumps(encode_json([span(number, text)])).encode()


def pretty(number: int, indent: int | str = 2) -> bytes:
    return json.dumps(encode_json([span(number)]), indent=indent).encode()


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def numbers(inputs: Iterable[Input]) -> list[Any]:
    """The span numbers that were read, with None for a rejected document and the place of a rejected record."""
    out: list[Any] = []
    for _, batch in read(inputs):
        for item in batch.items:
            if isinstance(item, Rejected):
                out.append(None if item.kind == "document" else item.place)
            else:
                out.append(int(item.span_id or "", 16))
    return out


def read_bytes(folder: Path, data: bytes) -> list[Any]:
    path = folder / "input"
    path.write_bytes(data)
    return numbers(expand([str(path)]))


PROTO = [encode_protobuf_traces([span(n)]) for n in (1, 2, 3)]
LINES = b"\n".join(line(n) for n in (1, 2, 3))
ZSTD = zstandard.ZstdCompressor()
SAME: dict[str, bytes] = {
    "json lines": LINES,
    "json lines with a last newline": LINES + b"\n",
    "windows line ends": LINES.replace(b"\n", b"\r\n") + b"\r\n",
    "blank lines": b"\n\n" + LINES.replace(b"\n", b"\n\n  \n") + b"\n\n",
    "byte order mark": b"\xef\xbb\xbf" + LINES,
    "padded with NUL": LINES + b"\n" + bytes(3000),
    "pretty objects": b"\n".join(pretty(n) for n in (1, 2, 3)),
    "pretty objects with tabs and windows line ends": b"\n".join(pretty(n, "\t") for n in (1, 2, 3)).replace(
        b"\n", b"\r\n"
    ),
    "pretty objects without indent": b"\n".join(pretty(n, 0) for n in (1, 2, 3)),
    "pretty objects end to end": b"".join(pretty(n) for n in (1, 2, 3)),
    "objects on one line": line(1) + line(2) + b" " + line(3),
    "one array": b"[" + LINES.replace(b"\n", b",") + b"]",
    "an array over lines": b"[\n" + LINES.replace(b"\n", b",\n") + b"\n]\n",
    "a pretty array": json.dumps([json.loads(each) for each in LINES.splitlines()], indent=2).encode(),
    "lines and pretty objects mixed": line(1) + b"\n" + pretty(2) + b"\n" + line(3),
    "record separators": b"".join(b"\x1e" + each + b"\n" for each in LINES.splitlines()),
    "one protobuf message": encode_protobuf_traces([span(1), span(2), span(3)]),
    "protobuf messages end to end": b"".join(PROTO),
    "varint lengths": b"".join(varint(len(each)) + each for each in PROTO),
    "four-byte lengths": b"".join(len(each).to_bytes(4, "big") + each for each in PROTO),
    "four-byte lengths, each compressed": b"".join(
        len(each).to_bytes(4, "big") + each for each in map(ZSTD.compress, PROTO)
    ),
    "four-byte lengths, compressed json": b"".join(
        len(each).to_bytes(4, "big") + each for each in map(ZSTD.compress, LINES.splitlines())
    ),
    "four-byte lengths, json": b"".join(len(each).to_bytes(4, "big") + each for each in LINES.splitlines()),
}
COMPRESSED = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "gzip members": lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]),
    "zstd": ZSTD.compress,
    "zstd frames": lambda data: ZSTD.compress(data[:100]) + ZSTD.compress(data[100:]),
}


@pytest.mark.parametrize("packing", COMPRESSED)
@pytest.mark.parametrize("form", SAME)
def test_every_form_gives_the_same_spans(tmp_path: Path, form: str, packing: str) -> None:
    assert read_bytes(tmp_path, COMPRESSED[packing](SAME[form])) == [1, 2, 3]


DAMAGED: dict[str, tuple[bytes, list[Any]]] = {
    "a broken line": (line(1) + b'\n{"resourceSpans":[oops]}\n' + line(2), [1, None, 2]),
    "a line cut inside a string": (line(1) + b"\n" + line(9)[:60] + b"\n" + line(2), [1, None, 2]),
    "a line cut behind a bracket": (line(1) + b"\n" + line(9)[:20] + b"[\n" + line(2), [1, None, 2]),
    "a first line cut": (line(9)[:70] + b"\n" + line(1) + b"\n" + line(2), [None, 1, 2]),
    "text before and between": (b"starting up\n" + line(1) + b"\nwarning: slow\n" + line(2), [None, 1, None, 2]),
    "a last line cut off": (line(1) + b"\n" + line(2)[:-9], [1, None]),
    "a last pretty object cut off": (pretty(1) + b"\n" + pretty(2)[:-30], [1, None]),
    "a line that is not UTF-8": (
        line(1) + b"\n" + line(9, "HERE").replace(b"HERE", b"\xff") + b"\n" + line(2),
        [1, None, 2],
    ),
    "an unbalanced bracket": (line(1) + b"\n}\n" + line(2), [1, None, 2]),
    "UTF-16": (LINES.decode().encode("utf-16"), [None]),
    "UTF-16 without a mark": (LINES.decode().encode("utf-16-le"), [None]),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4, [None]),
    "nothing": (b"", []),
    "white space": (b" \r\n\t\n", []),
    "four-byte lengths cut": (b"".join(len(p).to_bytes(4, "big") + p for p in PROTO)[:-5], [1, 2, None]),
    "varint lengths cut": (b"".join(varint(len(p)) + p for p in PROTO)[:-5], [1, 2, None]),
    "a compressed message damaged": (
        b"".join(len(p).to_bytes(4, "big") + p for p in (PROTO[0], b"\x28\xb5\x2f\xfdgarbage", PROTO[2])),
        [1, None, 3],
    ),
    "gzip cut off in its last line": (gzip.compress(LINES + b"\n")[:-12], [1, 2, None]),
    "gzip cut off in its trailer": (gzip.compress(LINES + b"\n")[:-4], [1, 2, 3, None]),
    "gzip with something behind it": (gzip.compress(LINES + b"\n") + b"not gzip", [1, 2, 3, None]),
    "zstd with something behind it": (ZSTD.compress(LINES + b"\n") + b"not zstd", [1, 2, 3, None]),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_costs_only_what_it_hits_and_is_reported(tmp_path: Path, damage: str) -> None:
    data, expected = DAMAGED[damage]
    assert read_bytes(tmp_path, data) == expected


def test_zstd_cut_off_is_reported_even_where_a_line_ends(tmp_path: Path) -> None:
    frames = [ZSTD.compress(line(n) + b"\n") for n in (1, 2)]
    assert read_bytes(tmp_path, frames[0] + frames[1][:-4]) == [1, None]


def test_a_problem_says_where_and_why_without_content(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(line(1) + b'\n{"secret": tru}\n')
    (_, (document, batch)) = list(read(expand([str(path)])))
    (item,) = batch.items
    assert isinstance(item, Rejected)
    assert (document.number, document.offset) == (2, len(line(1)) + 1)
    assert item.place == f"byte {document.offset}"
    assert "secret" not in item.reason
    assert not batch.recognised


def test_an_unreadable_span_says_where_its_line_begins(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    broken = line(2).replace(b'"spanId"', b'"spun"')
    path.write_bytes(broken + b"\n" + line(1) + b"\n" + broken + b"\n")
    places = [item.place for _, batch in read(expand([str(path)])) for item in batch.items if type(item) is Rejected]
    pointer = "/resourceSpans/0/scopeSpans/0/spans/0"
    assert places == [pointer, f"byte {len(broken) + len(line(1)) + 2}, {pointer}"]


def test_numbers_and_offsets_point_at_the_start_of_each_document(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    data = b"\n" + line(1) + b"\n" + pretty(2) + b"\n" + line(3)
    path.write_bytes(data)
    documents = list(expand([str(path)])[0].documents())
    assert [each.number for each in documents] == [2, 3, 3 + pretty(2).count(b"\n") + 1]
    assert [data[each.offset :].startswith(each.data.strip()) for each in documents] == [True] * 3


@pytest.mark.parametrize("form", ["lines", "pretty", "array", "varint", "four bytes", "compressed four bytes"])
def test_a_document_past_the_limit_is_reported_and_the_next_is_read(tmp_path: Path, form: str) -> None:
    big = span(9, "y" * 5000)
    texts = [
        json.dumps(encode_json([each]), indent=1 if form == "pretty" else None) for each in (span(1), big, span(3))
    ]
    messages = [encode_protobuf_traces([each]) for each in (span(1), big, span(3))]
    data = {
        "lines": "\n".join(texts).encode(),
        "pretty": "\n".join(texts).encode(),
        "array": json.dumps([encode_json([each]) for each in (span(1), big, span(3))], indent=1).encode(),
        "varint": b"".join(varint(len(each)) + each for each in messages),
        "four bytes": b"".join(len(each).to_bytes(4, "big") + each for each in messages),
        "compressed four bytes": b"".join(len(each).to_bytes(4, "big") + each for each in map(ZSTD.compress, messages)),
    }[form]
    path = tmp_path / "in"
    path.write_bytes(data)
    (source,) = expand([str(path)])
    documents = list(source.documents(limit=3000))
    assert [bool(each.problem) for each in documents] == [False, True, False]
    spans = [item for each in documents for item in decode_document(each).items if isinstance(item, Span)]
    assert [each.name for each in spans] == ["span-1", "span-3"]


BOMBS = {
    "one line": lambda: [b'{"a":"', *[b"0" * (1 << 20)] * 120, b'"}\n'],
    "a line that just fits": lambda: [b'{"a":"', *[b"0" * (1 << 20)] * 31, b'"}\n'],
    "protobuf": lambda: [b"\x0a\xff\xff\xff\x7f\x0a\x00", *[bytes(1 << 20)] * 120],
}


def most_held(source: Input, limit: int) -> int:
    """The most bytes that are held while the documents go by."""
    tracemalloc.start()
    try:
        for document in source.documents(limit=limit):
            del document
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_object_of_a_great_many_short_lines_takes_no_more_memory_than_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "short.json"
    path.write_bytes(b'{"a":[\n' + b"1\n" * 300_000 + b"1]}\n")
    assert most_held(expand([str(path)])[0], 512 << 10) < 5 << 20


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_a_bomb_takes_hardly_more_memory_than_one_record_may(tmp_path: Path, packing: str, bomb: str) -> None:
    path = tmp_path / "bomb"
    with gzip.open(path, "wb", 1) if packing == "gzip" else zstandard.open(path, "wb") as file:
        for piece in BOMBS[bomb]():
            file.write(piece)
        file.write(line(2))
    (source,) = expand([str(path)])
    limit = 32 << 20
    peak = most_held(source, limit)
    buffers = 28 << 20  # of the decompressor, which gives 8 MiB at a time, and of the reader
    assert peak < limit * 1.2 + buffers


@pytest.mark.parametrize(
    ("data", "cut_off"),
    [(b"[", True), (b"\n [\n", True), (b"\xef\xbb\xbf[", True), (b"[[],", True), (b"[]", False), (b"[\n]\n", False)],
)
def test_a_file_with_nothing_but_the_start_of_an_array_is_cut_off(tmp_path: Path, data: bytes, cut_off: bool) -> None:
    path = tmp_path / "in.json"
    path.write_bytes(data)
    problems = [each.problem for each in expand([str(path)])[0].documents()]
    assert problems == ["an array that is cut off behind its start"] * cut_off


def test_a_directory_that_cannot_be_listed_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "in.jsonl").write_bytes(line(1))
    whole = os.scandir

    def scandir(path: str) -> Any:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return whole(path)

    monkeypatch.setattr(os, "scandir", scandir)
    readable, closed = expand([str(tmp_path)])
    assert len(list(readable.documents())) == 1
    with pytest.raises(SourceError, match="closed: the directory cannot be listed: Permission denied"):
        list(closed.documents())


def test_a_file_url_with_a_host_is_not_read_from_another_place() -> None:
    with pytest.raises(SourceError, match="names the host"):
        expand(["file://../in.jsonl"])


@pytest.mark.parametrize(
    "size", [0, 1, 9, 10, 11, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK - 1, 3 * CHUNK, 3 * CHUNK + 1]
)
@pytest.mark.parametrize("limit", [10, CHUNK, 3 * CHUNK])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_is_whole_up_to_the_limit_and_passed_over_beyond(size: int, limit: int, end: bytes) -> None:
    stream = io.BytesIO(b"x" * size + end + b"next" * bool(end))
    line, taken = next_line(stream, limit)
    assert line == (b"x" * size + end if size <= limit else None)
    assert taken == size + len(end)
    assert next_line(stream, limit) == ((b"next", 4) if end else (b"", 0))


def test_a_record_past_the_limit_is_named_with_file_place_limit_and_way_out(tmp_path: Path) -> None:
    path = tmp_path / "bomb.jsonl"
    path.write_bytes(line(1) + b'\n{"a":"' + b"0" * 5000 + b'"}\n')
    problem = list(expand([str(path)])[0].documents(limit=3000))[1]
    assert (problem.input, problem.number, problem.offset) == (str(path), 2, len(line(1)) + 1)
    assert "3000 bytes, the most that one record may have; split it" in problem.problem


def test_one_message_inflates_to_its_limit_and_not_beyond() -> None:
    assert inflate_bytes(gzip.compress(b"x" * 100), 100) == b"x" * 100
    with pytest.raises(InflateError):
        inflate_bytes(gzip.compress(b"x" * 101), 100)
    with pytest.raises(InflateError):
        inflate_bytes(ZSTD.compress(b"x" * (64 << 20)), 1000)


def test_a_long_file_of_lines_streams(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        for number in range(1, 2001):
            file.write(line(number, "t" * 30000) + b"\n")
    tracemalloc.start()
    try:
        count = sum(1 for _ in expand([str(path)])[0].documents())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 2000
    assert peak < 8 << 20


def test_ranges_of_a_split_file_cover_every_line_once(tmp_path: Path) -> None:
    path = tmp_path / "split.jsonl"
    path.write_bytes(b"\n".join(line(n, "t" * (n * 37 % 9000)) for n in range(1, 1201)))
    (source,) = expand([str(path)])
    for parts in (1, 2, 3, 5):
        ranges = source.split(parts)
        assert len(ranges) == min(parts, max(1, (source.size or 0) >> 20))
        found: list[Document] = [each for start, end in ranges for each in source.documents(start, end)]
        assert found == sorted(found, key=lambda each: each.offset)
        assert [item.name for each in found for item in decode_document(each).items if isinstance(item, Span)] == [
            f"span-{n}" for n in range(1, 1201)
        ]


def test_a_range_owns_the_lines_that_start_in_it_wherever_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_bytes(LINES)
    (source,) = expand([str(path)])
    whole = [each.data for each in source.documents()]
    for cut in range(len(LINES) + 1):
        parts = [each.data for each in (*source.documents(0, cut), *source.documents(cut, None))] if cut else whole
        assert parts == whole, cut


@pytest.mark.parametrize("form", ["pretty objects", "four-byte lengths", "a pretty array"])
def test_other_forms_are_one_range(tmp_path: Path, form: str) -> None:
    path = tmp_path / "in"
    path.write_bytes(SAME[form] * 8000)
    (source,) = expand([str(path)])
    assert source.split(4) == [(0, None)]
    path.write_bytes(gzip.compress(LINES * 10))
    assert expand([str(path)])[0].split(4) == [(0, None)]


def test_a_directory_gives_its_files_sorted_and_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a/z.jsonl", "a/b/c.json", ".hidden", ".git/x.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(line(1))
    names = [os.path.relpath(each.name, tmp_path) for each in expand([str(tmp_path)])]
    assert names == ["b.jsonl", "a/z.jsonl", "a/b/c.json"]


def test_a_glob_gives_its_matches_sorted_and_a_literal_name_wins(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "c.txt", "x[1].json"):
        (tmp_path / name).write_bytes(line(1))
    assert [os.path.basename(each.name) for each in expand([f"{tmp_path}/[ab].json"])] == ["a.json", "b.json"]
    assert [os.path.basename(each.name) for each in expand([f"{tmp_path}/x[1].json"])] == ["x[1].json"]


@pytest.mark.parametrize("name", ["missing.json", "*.nothing", "", "nosuchscheme://bucket/key"])
def test_an_input_that_is_not_there_says_so(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError) as caught:
        expand([name])
    assert str(caught.value).startswith(name or "an input")


def test_an_empty_directory_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no files"):
        expand([str(tmp_path)])


def test_a_file_that_went_away_says_so(tmp_path: Path) -> None:
    path = tmp_path / "gone.json"
    path.write_bytes(line(1))
    (source,) = expand([str(path)])
    path.unlink()
    with pytest.raises(SourceError, match=r"gone\.json: cannot be opened: No such file"):
        list(source.documents())


def test_a_file_url_is_a_local_file(tmp_path: Path) -> None:
    path = tmp_path / "with space.json"
    path.write_bytes(line(4))
    assert numbers(expand([path.as_uri()])) == [4]


def test_standard_input_can_be_read_twice_and_leaves_nothing_behind() -> None:
    (source,) = expand(["-"], stdin=io.BytesIO(gzip.compress(LINES)))
    assert source.name == "<stdin>"
    assert numbers([source]) == numbers([source]) == [1, 2, 3]
    path = Path(source.path or "")
    assert path.stat().st_mode & 0o777 == 0o600
    del source
    assert not path.exists()


FORKING = """
import io, os, sys
from sediment_otel.sources.files import expand, read
(source,) = expand(["-"], stdin=io.BytesIO(sys.stdin.buffer.read()))
if not (child := os.fork()):
    del source
    os._exit(0)
os.waitpid(child, 0)
print(sum(len(batch.items) for _, batch in read([source])))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_worker_leaves_the_spool_file_where_it_is() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], input=LINES, capture_output=True, check=True)
    assert done.stdout.strip() == b"3"


def test_a_pipe_can_be_read_twice(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen([sys.executable, "-c", f"open({str(path)!r}, 'wb').write({LINES!r})"]):
        (source,) = expand([str(path)])
    assert numbers([source]) == numbers([source]) == [1, 2, 3]


def test_a_url_is_read_by_fsspec() -> None:
    fsspec = pytest.importorskip("fsspec", reason="the extra sediment-otel[fsspec] is not installed")
    store = fsspec.filesystem("memory")
    for name, data in (("/in/b.jsonl", line(2)), ("/in/a.jsonl.gz", gzip.compress(line(1))), ("/in/.hidden", b"")):
        store.pipe(name, data)
    try:
        assert numbers(expand(["memory://in/b.jsonl"])) == [2]
        assert numbers(expand(["memory://in"])) == [1, 2]
        assert numbers(expand(["memory://in/*.gz"])) == [1]
        with pytest.raises(SourceError, match="memory://in/none: no such object"):
            expand(["memory://in/none"])
    finally:
        store.rm("/in", recursive=True)


def test_without_fsspec_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(SourceError, match=r"sediment-otel\[fsspec\]"):
        expand(["s3://bucket/key"])


def test_an_error_does_not_show_the_secrets_of_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(SourceError) as caught:
        expand(["https://user:password@example.org/file.json?signature=abcdef"])
    assert "password" not in str(caught.value)
    assert "abcdef" not in str(caught.value)
