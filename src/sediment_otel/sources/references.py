# SPDX-License-Identifier: Apache-2.0
"""Content that a trace only points to: files and objects that are read where the user allows it, and nowhere else.

    complete = completer(settings)          # None where no location is allowed
    subject = complete(subject)             # with `Subject.content`, as far as its references could be read

A location (`Settings.content_locations`) is a directory, or the beginning of a URL that fsspec reads. A reference is
read if it lies in one of them: a path or `file:` URL by its real path (no way out by `..` or a symbolic link), any
other URL by scheme, host and whole path segments. A reference that lies elsewhere is looked for under its last
name in the allowed directories, because content is moved and copied together with traces. A file is one JSON value,
or JSON Lines, one message each, ordered by `index`. Nothing larger than a fact may be is read. What was not read
stands in `Subject.unread` with the reason; no path of the user's machine and no content is in it. Nothing here raises.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from ..dialects.base import Reference
from ..dialects.registry import references
from ..genai import NotJson, Subject, loads
from ..settings import Settings
from .files import SourceError, open_url

#: The list of files that Claude Code keeps beside the bodies it writes.
INDEX = "index.jsonl"
MOST_INDEX_BYTES = 256 * 1024 * 1024


class NotRead(Exception):
    """A reference was not read. The text says why; it names no path and holds no content."""


def completer(settings: Settings) -> Callable[[Subject], Subject] | None:
    """What reads the references of a subject, or None where no location is allowed."""
    return (
        References(settings.content_locations, settings.max_fact_bytes).complete if settings.content_locations else None
    )


class References:
    """References that may be read from `locations`, each up to `most_bytes`."""

    def __init__(self, locations: Sequence[str], most_bytes: int) -> None:
        self._most = most_bytes
        self._folders: list[str] = []
        self._urls: list[tuple[str, str]] = []
        self._index: dict[tuple[str, str], dict[str, str]] | None = None
        for location in locations:
            path = local_path(location)
            if path is not None:
                self._folders.append(os.path.realpath(path))
            else:
                self._urls.append(_split(location))

    def complete(self, subject: Subject) -> Subject:
        """The subject with what its references hold. A direction that is there already stays as it is."""
        content: dict[str, Any] = dict(subject.content or {})
        unread: list[str] = []
        found: list[str] = []
        for reference in references(subject):
            if content.get(reference.direction) is not None:
                continue
            try:
                content[reference.direction] = self.read(reference)
                found.append(reference.attribute)
            except NotRead as reason:
                unread.append(f"{reference.attribute}: {reason}")
        if found:
            content.setdefault("source", ", ".join(found))
        if not found and not unread:
            return subject
        return msgspec.structs.replace(subject, content=content or None, unread=tuple(unread))

    def read(self, reference: Reference) -> Any:
        """The value that a reference names. Raises `NotRead`."""
        text = reference.text if reference.index is None else self._from_index(*reference.index)
        if not text or "\x00" in text or len(text) > 4096:
            raise NotRead("no usable address")
        return parsed(self._bytes(text))

    def _bytes(self, text: str) -> bytes:
        path = local_path(text)
        for folder in self._folders if path is not None and os.path.isabs(path) else ():
            real = os.path.realpath(str(path))
            if _inside(real, folder) and os.path.lexists(real):
                return self._file(real)
        if path is None and self._allows(text):
            return self._object(text)
        name = unquote(text.rstrip("/").rsplit("/", 1)[-1]) if path is None else os.path.basename(path.rstrip("/"))
        for folder in self._folders if name not in ("", ".", "..") and "/" not in name else ():
            real = os.path.realpath(os.path.join(folder, name))
            if _inside(real, folder) and os.path.lexists(real):
                return self._file(real)
        raise NotRead("in no allowed location; --content-location allows one" if not self._folders else "not found")

    def _file(self, path: str) -> bytes:
        """A regular file's bytes. `path` is real: its last name is no link, and a pipe is not waited for."""
        try:
            number = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
            with os.fdopen(number, "rb") as file:
                status = os.fstat(number)
                if not stat.S_ISREG(status.st_mode):
                    raise NotRead("no regular file")
                if status.st_size > self._most:
                    raise NotRead(f"{status.st_size} bytes, more than --max-fact-bytes")
                return file.read(self._most + 1)
        except (OSError, ValueError) as error:
            raise NotRead(f"cannot be read: {getattr(error, 'strerror', None) or type(error).__name__}") from None

    def _allows(self, url: str) -> bool:
        beginning, path = _split(url)
        steps = unquote(path).split("/")
        if "::" in url or "?" in url or "#" in url or "\\" in url or ".." in steps or "." in steps:
            return False
        return any(
            beginning == allowed and (path == start or path.startswith(start.rstrip("/") + "/"))
            for allowed, start in self._urls
        )

    def _object(self, url: str) -> bytes:
        try:
            with open_url(url) as stream:
                data: bytes = stream.read(self._most + 1)
        except SourceError as error:
            raise NotRead("not found" if "no such" in str(error) else "the store cannot be read") from None
        except Exception as error:  # whatever a store's client raises
            raise NotRead(f"cannot be read: {type(error).__name__}") from None
        if len(data) > self._most:
            raise NotRead("more bytes than --max-fact-bytes")
        return data

    # -- lists of files

    def _from_index(self, key: str, value: str, column: str) -> str:
        if self._index is None:
            self._index = {}
            for row in self._index_rows():
                for name in ("request_id", "message_id"):
                    if type(row.get(name)) is str:
                        self._index.setdefault((name, row[name]), row)
        return self._index.get((key, value), {}).get(column) or ""

    def _index_rows(self) -> Iterator[dict[str, str]]:
        most, self._most = self._most, MOST_INDEX_BYTES
        try:
            for folder in self._folders:
                try:
                    data = self._file(os.path.join(folder, INDEX))
                except NotRead:
                    continue
                for line in data.splitlines():
                    try:
                        row = loads(line.decode("utf-8", "replace"))
                    except NotJson:
                        continue
                    if type(row) is dict:
                        yield {key: text for key, text in row.items() if type(text) is str}
        finally:
            self._most = most


def local_path(text: str) -> str | None:
    """The path that a path or `file:` URL names; None for any other URL."""
    if text[:5].lower() == "file:":
        return unquote(urlsplit(text).path)
    return None if "://" in text else text


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _split(url: str) -> tuple[str, str]:
    """Scheme and host, and the path."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}://{host}", slash + path


def parsed(data: bytes) -> Any:
    """The JSON value, or the messages of JSON Lines in order. Raises `NotRead`."""
    text = data.decode("utf-8-sig", "replace")
    try:
        return loads(text)
    except NotJson as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise NotRead("JSON that is cut short" if error.cut else "no JSON") from None
    try:
        rows = [loads(line) for line in lines]
    except NotJson:
        raise NotRead("neither JSON nor JSON Lines") from None
    if all(type(row) is dict and type(row.get("index")) is int for row in rows):
        rows.sort(key=lambda row: row["index"])
    return [{key: item for key, item in row.items() if key != "index"} if type(row) is dict else row for row in rows]


__all__ = ["NotRead", "References", "completer", "local_path", "parsed"]
