# SPDX-License-Identifier: Apache-2.0
"""Files in object stores and other places that fsspec knows, written as local ones are: whole or not at all.

The bytes are collected in a nameless temporary file and go up in one piece on `publish`; stores show an object when it
is complete. Which packages a scheme needs, fsspec says itself. Nothing is overwritten before the new content is there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from typing import Any, BinaryIO, Protocol
from urllib.parse import urlsplit, urlunsplit

from .atomic import AtomicFile
from .base import SinkError, UnknownSink


class Published(Protocol):
    """A file being written: `file` takes bytes, `publish` or `discard` ends it."""

    file: BinaryIO
    where: str

    def publish(self) -> None:
        """Make it appear."""

    def discard(self) -> None:
        """Leave no trace."""


def is_remote(location: str) -> bool:
    """Whether the location is a URL of something else than the local file system."""
    scheme = location.partition("://")[0]
    return "://" in location and len(scheme) > 1 and scheme.lower() != "file"


def written(location: str, *, parents: bool = False) -> Published:
    """The file at a path or URL, to be written. `parents` makes missing directories. Raises `SinkError`."""
    if is_remote(location):
        return RemoteFile(location)
    if parents:
        try:
            os.makedirs(os.path.dirname(location) or ".", exist_ok=True)
        except OSError as error:
            raise SinkError(f"cannot be made ({error.strerror})", location, "check its name and permissions") from None
    return AtomicFile(location)


def shown(url: str) -> str:
    """The URL without user, password and parameters."""
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return f"{url.partition('://')[0]}://…"


def filesystem(url: str) -> tuple[Any, str]:
    """The file system behind a URL, and the path in it. Raises `SinkError`."""
    where = shown(url)
    try:
        import fsspec
    except ImportError:
        raise SinkError("needs fsspec", where, "install it: pip install 'sediment-otel[fsspec]'") from None
    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise SinkError(
            f"needs a package that is not installed ({error.name or 'see fsspec'})",
            where,
            "install it, as in pip install 'sediment-otel[s3]' or 'sediment-otel[gcs]'",
        ) from None
    except ValueError:
        raise UnknownSink("is no place that fsspec knows", where, "check the scheme of the URL") from None
    except Exception as error:  # a plug-in's own errors
        raise SinkError(f"cannot be opened ({type(error).__name__})", where, "check address and credentials") from None
    return system, str(path)


def remote_error(error: Exception, url: str) -> SinkError:
    """A plug-in's error as ours. Its text may hold anything and is not repeated."""
    return SinkError(
        f"cannot be written ({type(error).__name__})", shown(url), "check address, credentials and permissions"
    )


class RemoteFile:
    """One object being written."""

    def __init__(self, url: str) -> None:
        self.where = shown(url)
        self._url = url
        self._system, self._path = filesystem(url)
        self.file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed by publish or discard
        self._open = True

    def publish(self) -> None:
        """Upload."""
        if not self._open:
            return
        self._open = False
        try:
            self.file.seek(0)
            with suppress(Exception):  # object stores have no directories; where they exist, the upload will tell
                self._system.makedirs(self._system._parent(self._path), exist_ok=True)
            with self._system.open(self._path, "wb") as out:
                shutil.copyfileobj(self.file, out, 1 << 20)
        except Exception as error:
            raise remote_error(error, self._url) from None
        finally:
            self.file.close()

    def discard(self) -> None:
        """Drop the bytes."""
        self._open = False
        with suppress(OSError):
            self.file.close()
