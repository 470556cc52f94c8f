# SPDX-License-Identifier: Apache-2.0
"""Bytes out of `raw` into content-addressed files, and back: the very fact, the very span."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from place_facts import fact
from typer.testing import CliRunner

from sediment_otel.cli import app
from sediment_otel.sinks.blobs import BlobStore
from sediment_otel.translate.blobs import BlobError, bring_back, refers, take_out

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "openinference_openai.json"
IMAGE = bytes(range(256)) * 4
TEXT = base64.b64encode(IMAGE).decode()


def with_raw(**raw: Any) -> bytes:
    return fact(1, raw=raw).to_json()


def out(encoded: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    kept: dict[str, bytes] = {}
    taken = take_out(encoded, kept.__setitem__)
    assert bring_back(taken, kept.__getitem__) == encoded
    found: dict[str, Any] = json.loads(taken)["raw"]
    return found, kept


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (
            {"type": "blob", "mime_type": "image/png", "content": TEXT},
            {"type": "blob", "mime_type": "image/png", "content": {"$blob": {"mime_type": "image/png"}}},
        ),
        (
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TEXT}"}},
            {
                "type": "image_url",
                "image_url": {"url": {"$blob": {"mime_type": "image/png", "prefix": "data:image/png;base64,"}}},
            },
        ),
        (
            {"inline_data": {"mime_type": "image/png", "data": TEXT}},
            {"inline_data": {"mime_type": "image/png", "data": {"$blob": {"mime_type": "image/png"}}}},
        ),
        (
            {"type": "blob", "content": {"$bytes": TEXT}},
            {"type": "blob", "content": {"$blob": {"mime_type": None, "mark": True}}},
        ),
    ],
)
def test_bytes_are_taken_out_and_a_reference_stands_in_their_place(value: Any, left: Any) -> None:
    raw, kept = out(with_raw(part=value))
    digest = hashlib.sha256(IMAGE).hexdigest()
    assert kept == {digest: IMAGE}
    reference = {"sha256": digest, "size": len(IMAGE)}
    assert raw["part"] == json.loads(
        json.dumps(left), object_hook=lambda o: {"$blob": {**reference, **o["$blob"]}} if "$blob" in o else o
    )


@pytest.mark.parametrize(
    "value",
    [
        {"type": "blob", "content": "not base64 at all " * 40},
        {"type": "blob", "content": TEXT + "\n"},
        {"type": "blob", "content": TEXT.rstrip("=") if TEXT.endswith("=") else TEXT[:-1]},
        {"type": "blob", "content": ""},
        {"$bytes": TEXT},
        {"type": "text", "content": TEXT},
        "data:text/plain," + "x" * 2000,
        "data:image/png;base64,short",
        "see data:image/png;base64," + TEXT,
        {"$literal": {"$bytes": TEXT}},
        {"$literal": {"$blob": {"sha256": "a" * 64, "size": 1}}},
        {"$literal": "data:image/png;base64," + TEXT},
        {"type": "blob", "content": None},
        {"type": ["blob"], "content": TEXT},
    ],
)
def test_what_would_not_come_back_the_same_or_is_no_bytes_stays(value: Any) -> None:
    encoded = with_raw(part=value, also={"type": "blob"})
    raw, kept = out(encoded)
    assert kept == {}
    assert raw["part"] == value
    assert not refers(encoded)


@given(
    st.recursive(
        st.none()
        | st.integers()
        | st.text()
        | st.binary(min_size=200, max_size=400).map(lambda b: base64.b64encode(b).decode())
        | st.binary(min_size=250, max_size=300).map(lambda b: "data:image/x;base64," + base64.b64encode(b).decode()),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["$bytes", "$literal", "$blob", "type", "content", "mime_type", "x"]), inner, max_size=3
            )
        ),
        max_leaves=12,
    )
)
def test_every_raw_comes_back_as_it_was(value: Any) -> None:
    # Translation escapes objects of the trace that look like a reference; raw holds none that is not ours.
    if b'"$blob"' not in json.dumps(value).encode():
        out(with_raw(anything=value, type="blob"))


@pytest.mark.parametrize("place", ["blobs", "memory://blob-test/blobs"])
def test_convert_takes_images_out_and_restore_brings_them_back(place: str, tmp_path: Path) -> None:
    if "://" in place:
        pytest.importorskip("fsspec", reason="fsspec is not installed")
    else:
        place = str(tmp_path / place)
    run = CliRunner().invoke
    whole, lean = tmp_path / "whole.jsonl", tmp_path / "lean.jsonl"
    common = ["convert", str(CAPTURE), "--session-id", "s", "-q", "-o"]
    assert run(app, [*common, str(whole)]).exit_code == 0
    assert run(app, [*common, str(lean), "--blobs", place]).exit_code == 0
    references = [line for line in lean.read_bytes().splitlines() if b'"$blob"' in line]
    assert references
    assert [bring_back(line, BlobStore(place).get) for line in lean.read_bytes().splitlines()] == (
        whole.read_bytes().splitlines()
    )

    wanted = run(app, ["restore", str(whole), "-q"])
    restored = run(app, ["restore", str(lean), "--blobs", place, "-q"])
    assert restored.exit_code == 0, restored.stderr
    assert restored.stdout == wanted.stdout

    without = run(app, ["restore", str(lean)])
    assert "--blobs" in without.stderr


def test_the_same_content_is_one_file(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    digest = hashlib.sha256(IMAGE).hexdigest()
    for _ in range(3):
        BlobStore(str(tmp_path)).put(digest, IMAGE)
        store.put(digest, IMAGE)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [tmp_path / "sha256" / digest[:2] / digest[2:]]
    assert store.get(digest) == IMAGE


def test_a_blob_that_was_changed_or_lost_is_not_passed_off_as_content(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    taken = take_out(with_raw(part={"type": "blob", "content": TEXT}), store.put)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    file.write_bytes(IMAGE[:-1] + b"x")
    with pytest.raises(BlobError, match="other content"):
        bring_back(taken, store.get)
    file.unlink()
    with pytest.raises(BlobError, match="cannot be read"):
        bring_back(taken, store.get)


@pytest.mark.parametrize("digest", ["../../../etc/passwd", "A" * 64, "", 7, None])
def test_a_reference_that_is_no_digest_reads_no_file(digest: Any) -> None:
    encoded = with_raw(part={"$blob": {"sha256": digest, "size": 1}})
    assert bring_back(encoded, lambda _: pytest.fail("asked for a file")) == encoded
