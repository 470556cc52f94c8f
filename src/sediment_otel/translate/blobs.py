# SPDX-License-Identifier: Apache-2.0
"""Bytes out of `raw`, and back in. Pure: where the bytes go and come from is the caller's affair.

What is taken: the content of `blob` parts, of other objects that name a MIME type beside their data, and of `data:`
URIs, where it is base64. In its place stands `{"$blob": {"sha256", "size", "mime_type"}}`, with `prefix` where the text
began as a `data:` URI and `mark` where a `$bytes` mark stood there. Only text that encoding its bytes again gives
exactly is taken, so that bringing back gives the very fact.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

KEY = "$blob"
_DATA_URI = re.compile(r"data:([A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+)?((?:;[^;,\s]+)*);base64,", re.IGNORECASE)
_SHA256 = re.compile(r"[0-9a-f]{64}")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
#: Keys of a part under which base64 text stands.
_CONTENT_KEYS = ("content", "data")
_MIME_KEYS = ("mime_type", "media_type", "mimeType")
#: Bytes without which nothing in the JSON can be content that is taken. The scheme of a URI may be in capitals.
_SIGNS = (b'"blob"', b"base64,", b"BASE64,", *(f'"{key}"'.encode() for key in _MIME_KEYS))


class BlobError(ValueError):
    """A blob that a fact refers to cannot be brought back. No content."""


def take_out(encoded: bytes, put: Callable[[str, bytes], None]) -> bytes:
    """The fact with its bytes handed to `put(sha256, bytes)`; the very same bytes of JSON where there are none."""
    if not any(sign in encoded for sign in _SIGNS):
        return encoded
    fact = _decode(encoded)
    raw = fact.get("raw")
    if type(raw) is not dict:
        return encoded
    taken = _Taking(put)
    found = taken.walk(raw)
    return _encode({**fact, "raw": found}) if taken.any else encoded


def bring_back(encoded: bytes, get: Callable[[str], bytes]) -> bytes:
    """The inverse. `get` gives the bytes of a sha256 and may raise `BlobError`, as this does."""
    if b'"$blob"' not in encoded:
        return encoded
    fact = _decode(encoded)
    return _encode({**fact, "raw": _brought(fact.get("raw"), get)})


class _Taking:
    def __init__(self, put: Callable[[str, bytes], None]) -> None:
        self._put = put
        self.any = False

    def walk(self, value: Any) -> Any:
        if type(value) is list:
            return [self.walk(item) for item in value]
        if type(value) is str:
            return self._uri(value)
        if type(value) is not dict:
            return value
        if len(value) == 1 and "$literal" in value:
            inner = value["$literal"]
            if type(inner) is str:  # a reference in its place would read as an escaped object
                return value
            return {
                "$literal": {k: self.walk(v) for k, v in inner.items()} if type(inner) is dict else self.walk(inner)
            }
        mime = next((value[key] for key in _MIME_KEYS if type(value.get(key)) is str), None)
        if mime is None and value.get("type") != "blob":
            return {key: self.walk(item) for key, item in value.items()}
        return {
            key: (self._content(item, mime) or self.walk(item)) if key in _CONTENT_KEYS else self.walk(item)
            for key, item in value.items()
        }

    def _content(self, item: Any, mime: str | None) -> dict[str, Any] | None:
        if type(item) is str:
            return self._reference(item, mime)
        if type(item) is dict and len(item) == 1 and type(item.get("$bytes")) is str:
            return self._reference(item["$bytes"], mime, mark=True)
        return None

    def _uri(self, text: str) -> Any:
        if text[:5].lower() != "data:":
            return text
        found = _DATA_URI.match(text)
        if found is None:
            return text
        return self._reference(text[found.end() :], found[1], prefix=found[0]) or text

    def _reference(self, text: str, mime: str | None, *, prefix: str = "", mark: bool = False) -> dict[str, Any] | None:
        if not text:
            return None
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return None
        if base64.b64encode(data).decode("ascii") != text:
            return None
        digest = hashlib.sha256(data).hexdigest()
        self._put(digest, data)
        self.any = True
        blob: dict[str, Any] = {"sha256": digest, "size": len(data), "mime_type": mime}
        if prefix:
            blob["prefix"] = prefix
        if mark:
            blob["mark"] = True
        return {KEY: blob}


def refers(encoded: bytes) -> bool:
    """Whether a fact refers to blobs."""
    if b'"$blob"' not in encoded:
        return False
    asked: list[str] = []

    def ask(digest: str) -> bytes:
        asked.append(digest)
        raise BlobError(digest)

    with suppress(BlobError):
        bring_back(encoded, ask)
    return bool(asked)


def _is_literal(value: dict[str, Any]) -> bool:
    """An object of the trace that only looks like a mark."""
    return len(value) == 1 and type(value.get("$literal")) is dict


def _brought(value: Any, get: Callable[[str], bytes]) -> Any:
    if type(value) is list:
        return [_brought(item, get) for item in value]
    if type(value) is not dict:
        return value
    if _is_literal(value):
        return {"$literal": {key: _brought(item, get) for key, item in value["$literal"].items()}}
    blob = value.get(KEY)
    if len(value) == 1 and type(blob) is dict and type(blob.get("sha256")) is str and _SHA256.fullmatch(blob["sha256"]):
        data = get(blob["sha256"])
        if hashlib.sha256(data).hexdigest() != blob["sha256"] or len(data) != blob.get("size"):
            raise BlobError(f"blob {blob['sha256']} has other content than the fact says")
        text = base64.b64encode(data).decode("ascii")
        if blob.get("mark") is True:
            return {"$bytes": text}
        prefix = blob.get("prefix", "")
        return (prefix if type(prefix) is str else "") + text
    return {key: _brought(item, get) for key, item in value.items()}
