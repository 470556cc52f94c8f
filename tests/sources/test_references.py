# SPDX-License-Identifier: Apache-2.0
"""Content that a trace only points to: read where it is allowed, never elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sediment_otel.dialects.base import Reference
from sediment_otel.genai import Subject
from sediment_otel.settings import Settings
from sediment_otel.sources.references import NotRead, References, completer, parsed
from sediment_otel.telemetry import Span
from sediment_otel.translate.call import translate_subject
from sediment_otel.vocabulary import SkipReason

MESSAGES = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "Hello"}], "finish_reason": "stop"}]


def read(text: str, *locations: Any, most: int = 1 << 20) -> Any:
    return References([str(location) for location in locations], most).read(Reference("input", "a_ref", text))


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    folder = tmp_path / "allowed"
    folder.mkdir()
    (folder / "in.json").write_text(json.dumps(MESSAGES))
    (tmp_path / "secret.json").write_text('["secret"]')
    (tmp_path / "allowed-too").mkdir()
    (tmp_path / "allowed-too" / "secret.json").write_text('["secret"]')
    return folder


def test_a_path_or_file_url_in_an_allowed_directory_is_read(allowed: Path) -> None:
    path = str(allowed / "in.json")
    for text in (path, f"file://{path}", f"file://localhost{path}", f"FILE://{path.replace('n.json', '%6E.json')}"):
        assert read(text, allowed) == MESSAGES
    assert read(path, f"file://{allowed}/") == MESSAGES


def test_content_that_was_moved_is_found_by_its_name(allowed: Path) -> None:
    for text in ("/srv/content/in.json", "file:///srv/content/in.json", "gs://bucket/content/in.json"):
        assert read(text, allowed) == MESSAGES


@pytest.mark.parametrize(
    "text",
    [
        "{0}/../secret.json",
        "file://{0}/../secret.json",
        "file://{0}/%2e%2e/secret.json",
        "{0}/../allowed-too/secret.json",
        "{0}-too/secret.json",
        "../secret.json",
        "secret.json",
        "{0}",
        "{0}/",
        "..",
        "",
        "/",
        "\x00",
        "{0}/in.json\x00",
        "file:///etc/passwd",
        "/etc/passwd",
        "s3://bucket/..",
        "x" * 5000,
    ],
)
def test_nothing_outside_is_read(allowed: Path, text: str) -> None:
    with pytest.raises(NotRead) as caught:
        read(text.replace("{0}", str(allowed)), allowed)
    assert str(allowed.parent) not in str(caught.value)


def test_a_link_out_of_the_directory_is_not_followed(allowed: Path) -> None:
    (allowed / "link.json").symlink_to(allowed.parent / "secret.json")
    (allowed / "folder").symlink_to(allowed.parent / "allowed-too")
    for text in (str(allowed / "link.json"), "/moved/link.json", str(allowed / "folder" / "secret.json")):
        with pytest.raises(NotRead):
            read(text, allowed)


def test_a_link_within_the_directory_is_followed(allowed: Path) -> None:
    (allowed / "link.json").symlink_to(allowed / "in.json")
    assert read(str(allowed / "link.json"), allowed) == MESSAGES


def test_a_pipe_a_folder_and_a_large_file_are_not_read(allowed: Path) -> None:
    os.mkfifo(allowed / "pipe.json")
    (allowed / "deep").mkdir()
    (allowed / "large.json").write_text(json.dumps("x" * 100))
    for name in ("pipe.json", "deep", "large.json"):
        with pytest.raises(NotRead):
            read(str(allowed / name), allowed, most=64)


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("s3://bucket/a/x.json", True),
        ("S3://bucket/a/x.json", True),
        ("s3://bucket/ab/x.json", False),
        ("s3://bucket/a/../b/x.json", False),
        ("s3://bucket/a/%2e%2e/b/x.json", False),
        ("s3://bucket/a\\..\\x.json", False),
        ("s3://other/a/x.json", False),
        ("gs://bucket/a/x.json", False),
        ("s3://bucket@evil/a/x.json", False),
        ("simplecache::s3://bucket/a/x.json", False),
        ("s3://bucket/a/x.json?versionId=1", False),
    ],
)
def test_urls_are_allowed_by_scheme_host_and_whole_segments(text: str, may: bool) -> None:
    assert References(["s3://bucket/a"], 1)._allows(text) is may


def test_a_url_that_fsspec_reads_is_read() -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://bucket/a/x.json", "w") as file:
        file.write(json.dumps(MESSAGES))
    assert read("memory://bucket/a/x.json", "memory://bucket/a/") == MESSAGES
    with pytest.raises(NotRead):
        read("memory://bucket/a/absent.json", "memory://bucket/a/")
    with pytest.raises(NotRead):
        read("memory://bucket/a/x.json", "memory://bucket/a/", most=4)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'[{"role": "user"}]', [{"role": "user"}]),
        (b'\xef\xbb\xbf{"role": "user"}', {"role": "user"}),
        (b'{"role": "b", "index": 1}\n\n{"role": "a", "index": 0}\n', [{"role": "a"}, {"role": "b"}]),
        (b'{"role": "b"}\n{"role": "a", "index": 0}', [{"role": "b"}, {"role": "a"}]),
    ],
)
def test_json_and_json_lines_are_parsed(data: bytes, value: Any) -> None:
    assert parsed(data) == value


@pytest.mark.parametrize("data", [b"", b"text", b'[{"role": "us', b"a\nb", b'{"a": 1}\n{"b', b"\xff\xfe"])
def test_other_data_is_not_read(data: bytes) -> None:
    with pytest.raises(NotRead):
        parsed(data)


# -- on a span -----------------------------------------------------------------------------------------------


def subject(**attributes: Any) -> Subject:
    common = {"gen_ai.operation.name": "chat", "session.id": "s", "gen_ai.request.model": "m"}
    return Subject(
        Span(trace_id="0" * 31 + "1", span_id="0" * 15 + "1", start_ns=1, end_ns=2, attributes={**common, **attributes})
    )


@pytest.mark.parametrize("end", ["_ref", ".ref"])
def test_messages_elsewhere_become_the_fact(tmp_path: Path, end: str) -> None:
    (tmp_path / "i.json").write_text(json.dumps(MESSAGES))
    (tmp_path / "o.jsonl").write_text("".join(json.dumps({**m, "index": n}) + "\n" for n, m in enumerate(ANSWER)))
    (tmp_path / "s.json").write_text(json.dumps([{"type": "text", "content": "Be brief."}]))
    given = subject(
        **{
            f"gen_ai.input.messages{end}": f"file://{tmp_path}/i.json",
            f"gen_ai.output.messages{end}": f"file://{tmp_path}/o.jsonl",
            f"gen_ai.system_instructions{end}": f"file://{tmp_path}/s.json",
        }
    )
    settings = Settings(content_locations=(str(tmp_path),))
    complete = completer(settings)
    assert complete is not None
    found = translate_subject(complete(given), settings)
    assert found.encoded is not None, found.note
    fact = json.loads(found.encoded)
    assert [m["role"] for m in fact["input_messages"]] == ["system", "user"]
    assert fact["output_messages"][0]["parts"] == [{"type": "text", "content": "Hello"}]
    assert set(fact["raw"]["content"]) == {"source", "input", "output", "system"}


def test_a_direction_on_the_span_is_not_read_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "i.json").write_text(json.dumps(MESSAGES))
    given = subject(**{"gen_ai.input.messages": "[]", "gen_ai.input.messages_ref": f"{tmp_path}/i.json"})
    assert References([str(tmp_path)], 1 << 20).complete(given) is given


def test_without_a_location_nothing_is_read_and_the_way_out_is_said() -> None:
    assert completer(Settings()) is None
    found = translate_subject(subject(**{"gen_ai.input.messages_ref": "file:///srv/i.json"}), Settings())
    assert (found.reason, "--content-location" in found.note) == (SkipReason.NO_CONTENT, True)


def test_what_was_not_read_is_said_without_its_path(tmp_path: Path) -> None:
    given = subject(**{"gen_ai.input.messages_ref": "file:///srv/private/i.json"})
    found = translate_subject(References([str(tmp_path)], 1).complete(given), Settings())
    assert found.reason is SkipReason.NO_CONTENT
    assert found.note.endswith("gen_ai.input.messages_ref: not found")
