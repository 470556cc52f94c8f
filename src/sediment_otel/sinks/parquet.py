# SPDX-License-Identifier: Apache-2.0
"""Parquet: one file, or a directory of files by day and organisation. Local, or any URL that fsspec knows.

The columns are the fields of a fact. Messages are nested types; `arguments` and `result` of tool parts, which may be
any JSON, are JSON text, and so is `raw`. `observed_at` is a UTC timestamp of microseconds. Compressed with zstd.

`FILE.parquet` appears on `close`, whole or not at all, and tells repeats apart as JSON Lines do. `DIRECTORY.parquet/`
(with the slash) holds `day=YYYY-MM-DD/org=NAME/part-HASH.parquet`. A part is named after what is in it, so the same
run again makes the same files; with the option `append` every batch is a part of its own, which is there when `write`
returns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import msgspec

from .base import DEFAULT_OPTIONS, Delivery, Receipt, SinkBase, SinkError, SinkOptions
from .remote import is_remote, remote_error, shown, written
from .seen import Repeats

#: Facts that become a row group (one file) or a part (directory) together, and at most so many bytes of JSON.
ROWS, BYTES = 20_000, 64 * 1024 * 1024
#: Bytes of JSON that all open parts of a directory hold together.
BYTES_HELD = 256 * 1024 * 1024

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_COPIED = (
    "schema_version",
    "inference_call_id",
    "org_id",
    "session_id",
    "user_id",
    "gateway_provider",
    "model_provider",
    "model",
    "input_tokens",
    "output_tokens",
    "duration_ms",
    "model_call_id",
)


def schema() -> Any:
    """The Arrow schema of a fact."""
    import pyarrow as pa

    part = pa.struct(
        [
            pa.field("type", pa.string(), nullable=False),
            ("content", pa.string()),
            ("id", pa.string()),
            ("name", pa.string()),
            ("arguments", pa.string()),
            ("result", pa.string()),
        ]
    )
    message = pa.struct(
        [
            pa.field("role", pa.string(), nullable=False),
            pa.field("parts", pa.list_(part), nullable=False),
            ("finish_reason", pa.string()),
        ]
    )
    given = {"schema_version", "inference_call_id", "org_id", "session_id", "gateway_provider"}
    whole = {"schema_version": pa.int8(), **dict.fromkeys(("input_tokens", "output_tokens", "duration_ms"), pa.int64())}
    fields = [pa.field(name, whole.get(name, pa.string()), nullable=name not in given) for name in _COPIED]
    return pa.schema(
        [
            *fields,
            pa.field("observed_at", pa.timestamp("us", tz="UTC"), nullable=False),
            pa.field("input_messages", pa.list_(message), nullable=False),
            pa.field("output_messages", pa.list_(message), nullable=False),
            pa.field("raw", pa.string(), nullable=False),
        ]
    )


def row_of(encoded: bytes) -> dict[str, Any]:
    """A fact as a row of the schema."""
    fact = _decode(encoded)
    row = {name: fact[name] for name in _COPIED}
    row["observed_at"] = _instant(fact["observed_at"])
    for side in ("input_messages", "output_messages"):
        row[side] = [{**message, "parts": [_part(part) for part in message["parts"]]} for message in fact[side]]
    row["raw"] = _encode(fact["raw"]).decode()
    return row


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "tool_call":
        return {**part, "arguments": _encode(part["arguments"]).decode()}
    if part["type"] == "tool_call_response":
        return {**part, "result": _encode(part["result"]).decode()}
    return part


def _instant(text: str) -> datetime:
    if text[17:19] == "60":  # a leap second is none in Arrow
        text = f"{text[:17]}59{text[19:]}"
    head, _, fraction = text.upper().replace("Z", "+00:00").partition(".")
    if fraction:
        digits = fraction.partition("+")[0].partition("-")[0]
        head += f".{digits[:6].ljust(6, '0')}{fraction[len(digits) :]}"
    return datetime.fromisoformat(head).astimezone(timezone.utc)


def parquet(location: str, options: SinkOptions = DEFAULT_OPTIONS) -> SinkBase:
    """The sink for `FILE.parquet` or `DIRECTORY.parquet/`."""
    try:
        import pyarrow.parquet  # noqa: F401 - says early whether it is there
    except ImportError:
        where = shown(location) if is_remote(location) else location
        raise SinkError("needs pyarrow", where, "install it: pip install 'sediment-otel[parquet]'") from None
    if location.split("?", 1)[0].endswith("/"):
        return ParquetDirectory(location, options)
    return ParquetFile(location, options)


class _Rows(SinkBase):
    def __init__(self, location: str, options: SinkOptions) -> None:
        self._location = location
        self._where = shown(location) if is_remote(location) else location
        self._repeats = Repeats(options.may_repeat)
        self._schema = schema()
        self._done = False

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        """Take the facts that are new; one receipt each."""
        if self._done:
            raise SinkError("is closed", self._where, "open the sink again")
        receipts, _ = self._repeats.sort_out(batch)
        new = [one for one, receipt in zip(batch, receipts, strict=True) if receipt is Receipt.STORED]
        try:
            self._take(new)
        except SinkError:
            self._repeats.forget(batch, receipts)
            raise
        return receipts

    def _take(self, new: list[Delivery]) -> None:
        raise NotImplementedError

    def _table(self, facts: list[bytes]) -> Any:
        import pyarrow as pa

        try:
            return pa.Table.from_pylist([row_of(encoded) for encoded in facts], schema=self._schema)
        except (pa.ArrowException, ValueError, TypeError, KeyError, OverflowError) as error:
            raise SinkError(
                f"cannot hold a fact ({type(error).__name__})", self._where, "run `sediment-otel validate` on the facts"
            ) from None


class ParquetFile(_Rows):
    """Facts into one file."""

    def __init__(self, location: str, options: SinkOptions = DEFAULT_OPTIONS) -> None:
        import pyarrow.parquet as pq

        super().__init__(location, options)
        self._file = written(location)
        self._writer = pq.ParquetWriter(self._file.file, self._schema, compression="zstd")
        self._waiting: list[bytes] = []
        self._size = 0

    def _take(self, new: list[Delivery]) -> None:
        for delivery in new:
            self._waiting.append(delivery.encoded)
            self._size += len(delivery.encoded)
            if len(self._waiting) >= ROWS or self._size >= BYTES:
                self._write_group()

    def _write_group(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        table = self._table(waiting)
        try:
            self._writer.write_table(table)
        except OSError as error:
            self.abort()
            raise remote_error(error, self._where) from None

    def close(self) -> None:
        """Publish the file."""
        if self._done:
            return
        if self._waiting:
            self._write_group()
        self._done = True
        self._repeats.close()
        try:
            self._writer.close()
        except OSError as error:
            self._file.discard()
            raise remote_error(error, self._where) from None
        self._file.publish()

    def abort(self) -> None:
        """Leave the target as it was."""
        if not self._done:
            self._done = True
            self._repeats.close()
            with suppress(OSError, ValueError):  # its footer is to be dropped anyway
                self._writer.close()
            self._file.discard()


class ParquetDirectory(_Rows):
    """Facts into files by day and organisation."""

    def __init__(self, location: str, options: SinkOptions = DEFAULT_OPTIONS) -> None:
        super().__init__(location, options)
        self._at_once = options.append
        self._open: dict[tuple[str, str], list[bytes]] = {}
        self._sizes: dict[tuple[str, str], int] = {}

    def _take(self, new: list[Delivery]) -> None:
        for delivery in new:
            day = _instant(delivery.observed_at).strftime("%Y-%m-%d")
            key = (day, delivery.org_id)
            self._open.setdefault(key, []).append(delivery.encoded)
            self._sizes[key] = self._sizes.get(key, 0) + len(delivery.encoded)
            if len(self._open[key]) >= ROWS or self._sizes[key] >= BYTES:
                self._write_part(key)
            while sum(self._sizes.values()) > BYTES_HELD:
                self._write_part(max(self._sizes, key=lambda one: self._sizes[one]))
        if self._at_once:
            self.flush()

    def flush(self) -> None:
        """Write what waits as parts."""
        for key in list(self._open):
            self._write_part(key)

    def _write_part(self, key: tuple[str, str]) -> None:
        import pyarrow.parquet as pq

        facts = self._open.pop(key)
        self._sizes.pop(key)
        digest = hashlib.blake2b(b"\n".join(facts), digest_size=12).hexdigest()
        day, org = key
        base, _, query = self._location.partition("?") if is_remote(self._location) else (self._location, "", "")
        name = f"{base}day={day}/org={quote(org, safe='')}/part-{digest}.parquet" + (f"?{query}" if query else "")
        file = written(name, parents=True)
        try:
            pq.write_table(self._table(facts), file.file, compression="zstd")
        except OSError as error:
            file.discard()
            raise remote_error(error, self._where) from None
        except BaseException:
            file.discard()
            raise
        file.publish()

    def close(self) -> None:
        """Write what waits."""
        if not self._done:
            self.flush()
            self._done = True
            self._repeats.close()

    def abort(self) -> None:
        """Drop what waits; parts that are complete stay."""
        self._done = True
        self._open.clear()
        self._repeats.close()
