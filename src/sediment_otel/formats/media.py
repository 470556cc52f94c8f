# SPDX-License-Identifier: Apache-2.0
"""Images, sounds and documents in any provider's shape, read as `blob`, `uri` or `file` parts.

Inline data (also in `data:` URLs) is a blob, an address is a uri, a provider's file id is a file. What is
none of these keeps its own shape.
"""

from __future__ import annotations

from typing import Any

from ..genai import base64_text

#: How Langfuse writes where it keeps media: `@@@langfuseMedia:type=image/png|id=…|source=…@@@`.
TOKEN = "@@@langfuseMedia:"

_MODALITIES = ("image", "audio", "video")


def modality_of(mime_type: Any, fallback: str | None = None) -> str | None:
    """The modality that a media type belongs to: image, audio, video, else document."""
    if type(mime_type) is str and "/" in mime_type:
        kind = mime_type.split("/", 1)[0].lower()
        return kind if kind in _MODALITIES else fallback or "document"
    return fallback


def _part(kind: str, modality: str | None, mime_type: Any, **fields: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"type": kind}
    if modality is not None:
        part["modality"] = modality
    if mime_type is not None:
        part["mime_type"] = mime_type
    part.update(fields)
    return part


def from_url(url: str, modality: str | None = None, mime_type: Any = None, **extra: Any) -> dict[str, Any]:
    """A `data:` URL as a blob (its base64 text as it stands), any other address as a uri."""
    if url.startswith(TOKEN):
        named = url[len(TOKEN) :].split("|", 1)[0].removeprefix("type=")
        mime_type = mime_type or (named if "/" in named else None)
    if url[:5].lower() == "data:":
        head, comma, data = url[5:].partition(",")
        if comma:
            given = head.split(";", 1)[0] or None
            mime = mime_type or given
            if head.lower().endswith(";base64"):
                return _part("blob", modality_of(mime, modality), mime, content=data, **extra)
            return _part("uri", modality_of(mime, modality), mime, uri=url, **extra)
    return _part("uri", modality_of(mime_type, modality), mime_type, uri=url, **extra)


def from_data(data: Any, mime_type: Any, modality: str | None = None, **extra: Any) -> dict[str, Any]:
    """Inline data: a blob. The token that stands in place of data is a uri."""
    if type(data) is str and data.startswith(TOKEN):
        return from_url(data, modality, None, **extra)
    return _part("blob", modality_of(mime_type, modality), mime_type, content=data, **extra)


def from_file_id(file_id: Any, modality: str | None = None, mime_type: Any = None, **extra: Any) -> dict[str, Any]:
    """A provider's id of an uploaded file: a file."""
    return _part("file", modality_of(mime_type, modality), mime_type, file_id=file_id, **extra)


#: Keys that may hold an address, inline data, a file id, a media type, in the order they are tried.
_URL_KEYS = ("url", "uri", "image_url", "imageUrl", "file_uri", "fileUri", "fileData", "file_data", "image", "file_url")
_DATA_KEYS = ("data", "base64", "bytes", "content", "b64_json", "binary_content")
_ID_KEYS = ("file_id", "fileId", "id")
_MIME_KEYS = ("mime_type", "mimeType", "media_type", "mediaType", "media_mime_type", "format")


def _first(source: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((source[key] for key in keys if type(source.get(key)) is str and source[key]), None)


def bytes_text(value: Any) -> str | None:
    """The base64 text of bytes as JavaScript writes them as JSON; None where the value is none.

    That is an object of indices (`{"0": 137, "1": 80}`), or `{"type": "Buffer", "data": [137, 80]}`.
    """
    if type(value) is not dict or not value:
        return None
    numbers: Any = None
    if value.get("type") == "Buffer":
        numbers = value.get("data")
    elif "0" in value and str(len(value) - 1) in value:
        numbers = [value.get(str(index)) for index in range(len(value))]
    if type(numbers) is not list or not all(type(n) is int and 0 <= n < 256 for n in numbers):
        return None
    return base64_text(bytes(numbers))


def _with_bytes(part: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    found = {key: text for key in keys if (text := bytes_text(part.get(key))) is not None}
    return {**part, **found} if found else part


def read_media(part: dict[str, Any], modality: str | None, *inner: str) -> dict[str, Any] | None:
    """A media part of a foreign shape. `inner` names keys whose object holds the actual media.

    None where no address, data or id is found.
    """
    part = _with_bytes(part, (*inner, *_DATA_KEYS))
    holders: list[dict[str, Any]] = [part]
    for key in inner:
        value = part.get(key)
        if type(value) is str and value:
            mime = _first(part, _MIME_KEYS)
            if value[:5].lower() == "data:" or "://" in value[:32] or key.endswith(("url", "Url", "uri", "Uri")):
                return from_url(value, modality, mime)
            return from_data(value, mime, modality)
        if type(value) is dict:
            holders.insert(0, value)
            nested = value.get("source")
            if type(nested) is dict:
                holders.insert(0, nested)
    mime = next((found for holder in holders if (found := _first(holder, _MIME_KEYS))), None)
    if mime is not None and "/" not in mime and modality:
        mime = f"{modality}/{mime}" if modality in _MODALITIES else f"application/{mime}"
    for holder in holders:
        for keys, build in ((_URL_KEYS, from_url), (_ID_KEYS[:2], from_file_id)):
            found = _first(holder, keys)
            if found is not None:
                return build(found, modality, mime)
        found = _first(holder, _DATA_KEYS)
        if found is not None:
            if found[:5].lower() == "data:":
                return from_url(found, modality, mime)
            return from_data(found, mime, modality)
    return None
