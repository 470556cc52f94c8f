# SPDX-License-Identifier: Apache-2.0
"""JSON Lines: whole files or none, duplicates and conflicts, streams whose reader leaves."""

from __future__ import annotations

import fcntl
import gzip
import io
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import zstandard
from sinks_kit import child, delivery

from sediment_otel.sinks import Receipt, SinkError, SinkOptions, open_sink
from sediment_otel.sinks.jsonl import JsonLinesStream
from sediment_otel.sinks.seen import Repeats, SeenIds


def test_facts_stand_one_to_a_line_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    with open_sink(str(path)) as sink:
        sink.write([delivery(2), delivery(1)])
        sink.write([delivery(3)])
    assert path.read_bytes().splitlines() == [delivery(n).encoded for n in (2, 1, 3)]


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_bytes(b"old\n")
    with open_sink(str(path)) as sink:
        sink.write([delivery(1)])
        sink.flush()
        assert path.read_bytes() == b"old\n"
    assert path.read_bytes() == delivery(1).encoded + b"\n"
    assert os.listdir(tmp_path) == ["facts.jsonl"]


@pytest.mark.parametrize("name", ["facts.jsonl", "facts.jsonl.gz", "facts.jsonl.zst"])
@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_exception_publishes_nothing_and_leaves_nothing_behind(
    tmp_path: Path, name: str, failure: type[BaseException]
) -> None:
    path = tmp_path / name
    path.write_bytes(b"old\n")
    with pytest.raises(failure), open_sink(str(path)) as sink:  # noqa: PT012 - the block is what fails
        sink.write([delivery(1)])
        raise failure
    assert path.read_bytes() == b"old\n"
    assert os.listdir(tmp_path) == [name]


def test_the_bytes_are_on_the_device_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, real=real: (steps.append(name), real(*args)))
    with open_sink(str(tmp_path / "facts.jsonl")) as sink:
        sink.write([delivery(1)])
    assert steps == ["fsync", "replace", "fsync"]


def test_an_empty_run_gives_an_empty_file(tmp_path: Path) -> None:
    open_sink(str(tmp_path / "facts.jsonl")).close()
    assert (tmp_path / "facts.jsonl").read_bytes() == b""


def test_gzip_and_zstd_are_chosen_by_suffix_and_are_the_same_every_time(tmp_path: Path) -> None:
    lines = b"".join(delivery(n).encoded + b"\n" for n in range(50))
    for suffix, unpack in ((".gz", gzip.decompress), (".ZST", zstandard.ZstdDecompressor().decompressobj().decompress)):
        written = []
        for turn in ("a", "b"):
            path = tmp_path / f"{turn}.jsonl{suffix}"
            with open_sink(str(path)) as sink:
                sink.write([delivery(n) for n in range(50)])
            written.append(path.read_bytes())
        assert unpack(written[0]) == lines
        assert written[0] == written[1]
        if suffix == ".gz":
            assert written[0][3:8] == bytes(5), "no name and no time in the header"


def test_the_same_id_again_is_a_duplicate_or_a_conflict_and_the_first_stays(tmp_path: Path) -> None:
    for name in ("facts.jsonl", "facts.jsonl.gz"):
        with open_sink(str(tmp_path / name)) as sink:
            assert sink.write([delivery(1), delivery(1)]) == [Receipt.STORED, Receipt.DUPLICATE]
            assert sink.write([delivery(1, text="other"), delivery(2)]) == [Receipt.CONFLICT, Receipt.STORED]
            assert sink.write([delivery(1)]) == [Receipt.DUPLICATE]
    assert (tmp_path / "facts.jsonl").read_bytes().splitlines() == [delivery(1).encoded, delivery(2).encoded]


def test_only_the_ids_that_may_repeat_are_remembered() -> None:
    repeats = Repeats({"call-1"})
    receipts, _ = repeats.sort_out([delivery(1), delivery(2), delivery(1), delivery(2)])
    assert receipts == [Receipt.STORED, Receipt.STORED, Receipt.DUPLICATE, Receipt.STORED]


def test_ids_past_the_bound_of_memory_are_found_again_on_disk() -> None:
    seen = SeenIds(in_memory=10)
    assert [seen.first(f"id-{n}", n - 50) for n in range(100)] == [None] * 100
    assert [seen.first(f"id-{n}", 7) for n in range(100)] == [n - 50 for n in range(100)]
    assert len(seen._near) == 10
    seen.forget("id-3")
    seen.forget("id-77")
    assert [seen.first(key, 1) for key in ("id-3", "id-77", "id-78")] == [None, None, 28]
    seen.close()


def test_a_fact_with_a_line_break_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    broken = delivery(2, encoded=b'{"a":\n1}')
    with open_sink(str(tmp_path / "facts.jsonl")) as sink:
        with pytest.raises(ValueError, match="one line"):
            sink.write([delivery(1), broken])
        sink.write([delivery(1)])
    assert (tmp_path / "facts.jsonl").read_bytes() == delivery(1).encoded + b"\n"


def test_a_new_file_follows_the_umask_and_an_old_one_keeps_its_permissions(tmp_path: Path) -> None:
    new, old = tmp_path / "new.jsonl", tmp_path / "old.jsonl"
    old.touch()
    old.chmod(0o640)
    before = os.umask(0o027)
    try:
        for path in (new, old):
            open_sink(str(path)).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(new.stat().st_mode) == 0o640
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    old.chmod(0o600)
    open_sink(str(old)).close()
    assert stat.S_IMODE(old.stat().st_mode) == 0o600


def test_a_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "facts.jsonl", tmp_path / "link.jsonl"
    target.write_bytes(b"old\n")
    link.symlink_to(target)
    with open_sink(str(link)) as sink:
        sink.write([delivery(1)])
    assert link.is_symlink()
    assert target.read_bytes() == delivery(1).encoded + b"\n"


def test_a_device_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    link = tmp_path / "facts.jsonl"
    link.symlink_to("/dev/null")
    for name in (str(link), "/dev/null"):
        with open_sink(name) as sink:
            assert sink.write([delivery(1)]) == [Receipt.STORED]
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_pipe_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "facts.jsonl"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open_sink(str(pipe)) as sink:
        sink.write([delivery(1)])
    assert os.read(reader, 1 << 16) == delivery(1).encoded + b"\n"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_device_is_an_error_with_a_way_out() -> None:
    sink = open_sink("/dev/full")
    sink.write([delivery(1)])
    with pytest.raises(SinkError, match=r"/dev/full: .*No space left.*make room"):
        sink.flush()


@pytest.mark.parametrize("name", ["facts.jsonl", "facts.jsonl.gz", "facts.jsonl.zst"])
def test_a_file_that_does_not_fit_is_not_published_and_its_part_is_removed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"old\n")
    process = child(
        """
        import base64, os, resource, sys
        from sediment_otel.sinks import SinkError, open_sink
        from sinks_kit import delivery
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        sink = open_sink(sys.argv[1])
        try:
            for number in range(100):
                sink.write([delivery(number, text=base64.b64encode(os.urandom(20_000)).decode())])
            sink.close()
        except SinkError as error:
            print(error)
        sink.close()
        """,
        path,
    )
    out, errors = process.communicate(timeout=60)
    assert b"File too large" in out
    assert b"ulimit" in out
    assert errors == b""
    assert path.read_bytes() == b"old\n"
    assert os.listdir(tmp_path) == [name]


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_bytes(b"old\n")
    process = child(
        """
        import sys
        from sediment_otel.sinks import open_sink
        from sinks_kit import delivery
        sink = open_sink(sys.argv[1])
        for number in range(10**9):
            sink.write([delivery(number)])
            sink.flush()
            print(number, flush=True)
        """,
        path,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    assert path.read_bytes() == b"old\n"


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("missing/facts.jsonl", "No such file or directory.*create the directory"),
        ("file/facts.jsonl", "Not a directory"),
        ("directory.jsonl", "directory"),
        ("x" * 300 + ".jsonl", "name"),
    ],
)
def test_a_path_that_cannot_be_written_says_why(tmp_path: Path, path: str, what: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory.jsonl").mkdir()
    with pytest.raises(SinkError, match=what):
        open_sink(str(tmp_path / path))


def test_a_closed_sink_takes_nothing_and_closes_twice(tmp_path: Path) -> None:
    sink = open_sink(str(tmp_path / "facts.jsonl"))
    sink.close()
    sink.close()
    sink.abort()
    with pytest.raises(SinkError, match="closed"):
        sink.write([delivery(1)])
    assert (tmp_path / "facts.jsonl").exists()


def test_a_stream_has_the_facts_after_each_batch_and_stays_open() -> None:
    stream = io.BytesIO()
    with JsonLinesStream(stream) as sink:
        assert sink.write([delivery(1), delivery(1)]) == [Receipt.STORED, Receipt.DUPLICATE]
        assert stream.getvalue() == delivery(1).encoded + b"\n"
    assert not stream.closed


_TO_STANDARD_OUTPUT = """
    import sys
    from sediment_otel.sinks import ReaderGone, SinkError, open_sink
    from sinks_kit import delivery
    try:
        with open_sink("-") as sink:
            for number in range(100_000):
                sink.write([delivery(number)])
    except ReaderGone:
        sys.exit(7)
    except SinkError as error:
        print(error, file=sys.stderr)
        sys.exit(8)
"""


def test_a_reader_that_leaves_standard_output_ends_the_run_without_a_word() -> None:
    process = child(_TO_STANDARD_OUTPUT)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == delivery(0).encoded + b"\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 7
    process.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_standard_output_on_a_full_disk_is_one_clear_line() -> None:
    with open("/dev/full", "wb") as full:
        process = child(_TO_STANDARD_OUTPUT, stdout=full)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 8
    assert errors.count(b"\n") == 1
    assert errors.startswith(b"standard output: ")
    assert b"make room" in errors


def test_a_forked_child_does_not_publish_what_its_parent_writes(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    sink = open_sink(str(path))
    sink.write([delivery(1)])
    pid = os.fork()
    if pid == 0:
        sink.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert not path.exists()
    sink.close()
    assert path.read_bytes() == delivery(1).encoded + b"\n"


def test_appending_adds_to_what_is_there_and_shows_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    for number in (1, 2):
        with open_sink(str(path), append=True) as sink:
            assert sink.write([delivery(number), delivery(number)]) == [Receipt.STORED, Receipt.DUPLICATE]
            assert path.read_bytes().splitlines()[-1] == delivery(number).encoded
    assert path.read_bytes().splitlines() == [delivery(1).encoded, delivery(2).encoded]


@pytest.mark.parametrize("before", [b"", b"one\n", b"one\ntwo\n"])
@pytest.mark.parametrize("torn", [b"", b"{", b"{" * 200_000])
def test_appending_takes_away_a_half_line_that_a_killed_writer_left(tmp_path: Path, before: bytes, torn: bytes) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_bytes(before + torn)
    with open_sink(str(path), append=True) as sink:
        sink.write([delivery(1)])
    assert path.read_bytes() == before + delivery(1).encoded + b"\n"


def test_a_batch_that_does_not_fit_is_taken_back_and_can_be_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    process = child(
        """
        import resource, sys
        from sediment_otel.sinks import SinkError, open_sink
        from sinks_kit import delivery
        sink = open_sink(sys.argv[1], append=True)
        sink.write([delivery(1)])
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        try:
            sink.write([delivery(2), delivery(3, text="x" * 60_000)])
        except SinkError as error:
            print(error)
        print(len(open(sys.argv[1]).readlines()))
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        print(*[receipt.value for receipt in sink.write([delivery(1), delivery(2), delivery(3)])])
        """,
        path,
    )
    out, errors = process.communicate(timeout=60)
    assert errors == b""
    first, lines, receipts = out.splitlines()
    assert b"File too large" in first
    assert lines == b"1"
    assert receipts == b"duplicate stored stored"


def test_appending_to_a_compressed_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"cannot be added to.*plain"):
        open_sink(str(tmp_path / "facts.jsonl.gz"), append=True)


def test_nobody_else_adds_a_line_while_one_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "facts.jsonl"
    path.touch()
    refused = []

    def write(descriptor: int, data: memoryview, real: Any = os.write) -> int:
        with open(path, "rb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                refused.append(True)
        return int(real(descriptor, data))

    with open_sink(str(path), append=True) as sink:
        monkeypatch.setattr(os, "write", write)
        sink.write([delivery(1)])
    assert refused == [True]


def test_processes_that_append_at_once_lose_and_mix_nothing(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    code = """
        import sys
        from sediment_otel.sinks import open_sink
        from sinks_kit import delivery
        with open_sink(sys.argv[1], append=True) as sink:
            for start in range(int(sys.argv[2]), int(sys.argv[2]) + 200, 10):
                sink.write([delivery(n, text="x" * 5000) for n in range(start, start + 10)])
    """
    writers = [child(code, path, start) for start in (0, 200, 400)]
    assert [writer.communicate(timeout=60)[1] for writer in writers] == [b"", b"", b""]
    assert sorted(path.read_bytes().splitlines()) == sorted(delivery(n, text="x" * 5000).encoded for n in range(600))


def test_options_have_safe_defaults() -> None:
    assert SinkOptions() == SinkOptions(may_repeat=None, durable=False, busy_timeout=30.0, append=False)
