# SPDX-License-Identifier: Apache-2.0
"""Inputs by name: files, directories, globs, URLs that fsspec reads, standard input.

    inputs = expand(["traces/", "s3://bucket/run.jsonl.gz", "-"])
    for document, batch in read(inputs): ...

`expand` raises `SourceError` for what is not there, `Input.documents` for what cannot be opened or read; the message
names the input, the trouble and the way out. Everything that is wrong inside a file is a `Rejected` in a batch.
Standard input and pipes are spooled to a temporary file, so that every input can be read twice.
"""

from __future__ import annotations

import glob
import importlib
import io
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

import msgspec

from sediment_otel.otlp import decode_json, decode_protobuf
from sediment_otel.stale import clear, hold
from sediment_otel.telemetry import Batch, Rejected

from .documents import DEFAULT_LIMIT, Document, scan, sniff
from .inflate import CHUNK, InflateError, inflated, is_compressed
from .scn import SQLITE, NoRecords, rows
from .scn import decode as decode_scn

STANDARD_INPUT = "-"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?:::[A-Za-z][A-Za-z0-9+.-]+)*://")
_SPOOL = ("sediment-otel-", ".spool")
_LEAST_RANGE = 1 << 20
#: Bytes of a file read at once: so few that a record is still in the processor's cache when it is looked at.
BUFFER = 128 * 1024


class SourceError(Exception):
    """An input cannot be read. The message names it, the trouble and the way out."""


class Input:
    """One thing to read from. `name` is what the user sees, `size` its bytes as stored (None: unknown)."""

    def __init__(self, name: str, *, path: str | None = None, url: str | None = None, size: int | None = None) -> None:
        self.name, self.path, self.url, self.size = name, path, url, size
        self.trouble = ""  # why it cannot be read, where that is known before

    def __repr__(self) -> str:
        return f"Input({self.name!r})"

    def documents(self, start: int = 0, end: int | None = None, *, limit: int = DEFAULT_LIMIT) -> Iterator[Document]:
        """The documents of the input; with a range of `split`, those that start in it."""
        with self._opened() as stream:
            try:
                if start:
                    stream.seek(start - 1)
                    if stream.read(1) != b"\n":
                        while (piece := stream.readline(CHUNK)) and not piece.endswith(b"\n"):
                            pass
                        start = stream.tell()
                    if end is not None and start >= end:
                        return
                elif stream.peek(16)[:16] == SQLITE:
                    yield from self._rows()
                    return
                elif is_compressed(head := stream.peek(4)[:4]):
                    stream = inflated(stream, head)
                yield from scan(stream, self.name, offset=start, end=end, limit=limit)
            except OSError as error:
                raise SourceError(f"{self.name}: reading failed: {_why(error)}") from None

    def _rows(self) -> Iterator[Document]:
        """The records of an SQLite database, which is read in its own way."""
        number = 0
        try:
            if self.path is None:
                raise NoRecords("an SQLite file behind a URL; copy it here first")
            for number, data in enumerate(rows(self.path), 1):
                yield Document(data=data, form="json", input=self.name, number=number, offset=0)
        except NoRecords as error:
            yield Document(data=b"", form="json", input=self.name, number=number, offset=0, problem=str(error))

    def split(self, parts: int) -> list[tuple[int, int | None]]:
        """Ranges for so many workers: several for a plain JSON Lines file, else one that is everything."""
        whole: list[tuple[int, int | None]] = [(0, None)]
        size = self.size
        if self.path is None or size is None or parts < 2 or size < 2 * _LEAST_RANGE:
            return whole
        parts = min(parts, size // _LEAST_RANGE)
        with self._opened() as stream:
            try:
                if is_compressed(stream.peek(4)[:4]) or sniff(stream.peek(CHUNK)) != "json":
                    return whole
                starts = [0]
                for index in range(1, parts):
                    stream.seek(max(size * index // parts, starts[-1]))
                    _read_line(stream)
                    starts.append(stream.tell())
                for start in starts:
                    stream.seek(start)
                    if start < size and not _is_json_line(_read_line(stream)):
                        return whole
            except OSError as error:
                raise SourceError(f"{self.name}: reading failed: {_why(error)}") from None
        starts = sorted({start for start in starts if start < size})
        ends: list[int | None] = [*starts[1:], None]
        return list(zip(starts, ends, strict=True))

    @contextmanager
    def _opened(self) -> Iterator[io.BufferedReader]:
        if self.trouble:
            raise SourceError(f"{self.name}: {self.trouble}")
        try:
            raw: Any = open_url(self.url or "") if self.path is None else open(self.path, "rb", buffering=0)  # noqa: SIM115
        except SourceError:
            raise
        except OSError as error:
            raise SourceError(f"{self.name}: cannot be opened: {_why(error)}") from None
        stream = io.BufferedReader(raw, BUFFER)
        try:
            yield stream
        finally:
            stream.close()


def _read_line(stream: io.BufferedReader) -> tuple[bytes, bytes]:
    """The first and the last bytes of the line at the position, which moves behind it."""
    head = tail = stream.readline(CHUNK)
    while tail and not tail.endswith(b"\n"):
        piece = stream.readline(CHUNK)
        if not piece:
            break
        tail = tail[-16:] + piece
    return head[:16], tail[-16:]


def _is_json_line(line: tuple[bytes, bytes]) -> bool:
    head, tail = line
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:2] == b'{"' and tail.rstrip()[-1:] == b"}"


def expand(inputs: Sequence[str], *, stdin: BinaryIO | None = None) -> list[Input]:
    """The inputs that the names stand for, in order; a directory's files sorted by path, hidden ones left out."""
    out: list[Input] = []
    spooled: Input | None = None
    for name in inputs:
        if name == STANDARD_INPUT:
            spooled = spooled or _spool(stdin or sys.stdin.buffer, "<stdin>")
            out.append(spooled)
        elif name[:7].lower() == "file://":
            out.extend(_local(_path_of(name)))
        elif _URL.match(name):
            out.extend(_remote(name))
        else:
            out.extend(_local(name))
    return out


def _path_of(url: str) -> str:
    """The path of a file URL."""
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise SourceError(f"{url}: names the host {parts.netloc}; give file:///PATH, or the path alone")
    return unquote(parts.path)


def _local(name: str) -> list[Input]:
    if not name:
        raise SourceError("an input with an empty name; give a file, directory, glob, URL or -")
    if os.path.isdir(name):
        closed: list[Input] = []
        inputs = [_file(path) for path in _walk(name, closed)]
        if not inputs and not closed:
            raise SourceError(f"{name}: the directory holds no files (hidden ones are left out)")
        return [*inputs, *closed]
    if os.path.lexists(name):
        return [_file(name)]
    if glob.has_magic(name):
        found = sorted(path for path in glob.glob(name, recursive=True) if os.path.isfile(path))
        if not found:
            raise SourceError(f"{name}: no file matches the pattern")
        return [_file(path) for path in found]
    raise SourceError(f"{name}: no such file or directory; give a file, directory, glob, URL or - for standard input")


def _closed(error: OSError) -> Input:
    """A directory that cannot be listed, as an input that cannot be read: it costs only itself."""
    found = Input(str(error.filename))
    found.trouble = f"the directory cannot be listed: {_why(error)}; check its permissions"
    return found


def _walk(top: str, closed: list[Input]) -> Iterator[str]:
    """The files below a directory. Directories that cannot be listed are added to `closed`."""
    for folder, folders, files in os.walk(top, onerror=lambda error: closed.append(_closed(error))):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for file in sorted(files):
            path = os.path.join(folder, file)
            if not file.startswith(".") and os.path.isfile(path):
                yield path


def _file(path: str) -> Input:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            with open(path, "rb") as pipe:
                return _spool(pipe, path)
    except OSError as error:
        raise SourceError(f"{path}: cannot be opened: {_why(error)}") from None
    return Input(path, path=path, size=status.st_size)


def _spool(stream: BinaryIO, name: str) -> Input:
    """A private temporary copy that goes when the input does; that of a killed run goes with the next one."""
    folder = tempfile.gettempdir()
    clear(folder, *_SPOOL)
    path = os.path.join(folder, secrets.token_hex(6).join(_SPOOL))
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    except OSError as error:
        raise SourceError(f"{name}: no temporary copy can be made in {folder}: {_why(error)}; set TMPDIR") from None
    held = hold(handle)
    try:
        with os.fdopen(handle, "wb") as copy:
            shutil.copyfileobj(stream, copy, CHUNK)
            size = copy.tell()
    except BaseException as error:
        Path(path).unlink(missing_ok=True)
        if held is not None:
            os.close(held)
        if isinstance(error, OSError):
            raise SourceError(f"{name}: reading failed: {_why(error)}") from None
        raise
    spooled = Input(name, path=path, size=size)
    weakref.finalize(spooled, _remove, path, os.getpid(), held)
    return spooled


def _remove(path: str, owner: int, held: int | None) -> None:
    """Remove a spool file, unless this is a forked worker that only borrowed it."""
    if os.getpid() == owner:
        Path(path).unlink(missing_ok=True)
        if held is not None:
            os.close(held)


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__


# URLs -------------------------------------------------------------------------------------------------


def _fsspec(url: str) -> tuple[Any, str]:
    scheme = url.partition("://")[0]
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError:
        raise SourceError(
            f"{_shown(url)}: reading {scheme}:// needs fsspec; install it with: pip install 'sediment-otel[fsspec]'"
        ) from None
    try:
        filesystem, path = core.url_to_fs(url)
    except ImportError as error:
        raise SourceError(f"{_shown(url)}: the store {scheme}:// needs a package that is missing: {error}") from None
    except ValueError:
        raise SourceError(f"{_shown(url)}: fsspec knows no store named {scheme}://; check the scheme") from None
    except Exception as error:  # whatever a store's client raises
        raise SourceError(f"{_shown(url)}: the store cannot be reached: {type(error).__name__}") from None
    return filesystem, path


def _remote(url: str) -> list[Input]:
    filesystem, path = _fsspec(url)
    try:
        if glob.has_magic(path) and not filesystem.exists(path):
            found = sorted(filesystem.glob(path))
        elif filesystem.isdir(path):
            hidden = re.compile(r"(?:^|/)\.")
            found = sorted(each for each in filesystem.find(path) if not hidden.search(each[len(path) :]))
        else:
            return [Input(_shown(url), url=url, size=filesystem.size(path))]
        names = [str(filesystem.unstrip_protocol(each)) for each in found]
        sizes = [filesystem.size(each) for each in found]
    except FileNotFoundError:
        raise SourceError(f"{_shown(url)}: no such object; check the address and the store's credentials") from None
    except Exception as error:  # whatever a store's client raises
        raise SourceError(f"{_shown(url)}: cannot be read: {type(error).__name__}") from None
    if not names:
        raise SourceError(f"{_shown(url)}: nothing there matches")
    return [Input(_shown(name), url=name, size=size) for name, size in zip(names, sizes, strict=True)]


def open_url(url: str) -> Any:
    """A binary stream of what a URL names. Raises `SourceError`."""
    filesystem, path = _fsspec(url)
    try:
        return filesystem.open(path, "rb")
    except FileNotFoundError:
        raise SourceError(f"{_shown(url)}: no such object; check the address and the store's credentials") from None
    except Exception as error:  # whatever a store's client raises
        raise SourceError(f"{_shown(url)}: cannot be opened: {type(error).__name__}") from None


def _shown(url: str) -> str:
    """The address without user name, password and query, which may hold secrets."""
    scheme, _, rest = url.partition("://")
    place = rest.partition("?")[0]
    authority, slash, path = place.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


# Reading ----------------------------------------------------------------------------------------------


def decode_document(document: Document, *, strict: bool = False) -> Batch:
    """The telemetry of a document. What it cannot be read for stands in the batch, with its byte offset."""
    if document.problem:
        place = f"byte {document.offset}"
        return Batch(items=[Rejected(kind="document", place=place, reason=document.problem)], recognised=False)
    if document.form == "json":
        batch = decode_json(document.data, strict=strict)
        if not batch.recognised and not strict:
            batch = decode_scn(document.data) or batch
    else:
        batch = decode_protobuf(document.data, strict=strict)
    if any(type(item) is Rejected and (document.offset or not item.place) for item in batch.items):
        return msgspec.structs.replace(batch, items=[_placed(item, document) for item in batch.items])
    return batch


def _placed(item: Any, document: Document) -> Any:
    """A pointer is one into its document: behind the first one it says where that begins."""
    if type(item) is not Rejected or (item.place and not document.offset):
        return item
    place = f"byte {document.offset}"
    return msgspec.structs.replace(item, place=f"{place}, {item.place}" if item.place else place)


def read(inputs: Iterable[Input], *, strict: bool = False) -> Iterator[tuple[Document, Batch]]:
    """Every document of every input with its telemetry."""
    for each in inputs:
        for document in each.documents():
            yield document, decode_document(document, strict=strict)


__all__ = ["Document", "InflateError", "Input", "SourceError", "decode_document", "expand", "read"]
