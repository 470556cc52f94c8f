# SPDX-License-Identifier: Apache-2.0
"""Scalars of the OTLP data model as JSON spells them: ids, times, counts, enums.

In: one JSON value. Out: the form of `telemetry` (ids as lower-case hex, times in nanoseconds since the
Unix epoch, enums as lower-case names). With `strict` only what OTLP/JSON allows is accepted (hex ids,
decimal times; a wrong type raises `Unreadable`); without it also what files hold in practice: ids in base64,
with a `0x` in front, or spoilt by a reader that took hex for base64, and times in ISO 8601.

Source of the rules: the OTLP specification, "JSON Protobuf Encoding", and `opentelemetry/proto/trace/v1`.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from datetime import datetime, timedelta, timezone
from typing import Any

TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
MAX_TIME = 2**64 - 1

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
KIND_OF: dict[Any, str] = {
    **dict(enumerate(KINDS)),
    **{f"SPAN_KIND_{name.upper()}": name for name in KINDS},
}
STATUSES = ("unset", "ok", "error")
STATUS_OF: dict[Any, str] = {
    **dict(enumerate(STATUSES)),
    **{f"STATUS_CODE_{name.upper()}": name for name in STATUSES},
}
SEVERITY_OF: dict[str, int] = {
    f"{name}{step or ''}": 1 + 4 * rank + (step - 1 if step else 0)
    for rank, name in enumerate(("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"))
    for step in (0, 2, 3, 4)
}


class Unreadable(Exception):
    """A record breaks the data model. `reason` says how, without content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read_id(value: Any, size: int, strict: bool) -> str | None:
    """Hex of an id of `size` bytes; "" if it is absent, empty or all zero; None if it is none."""
    if type(value) is str:
        if len(value) == 2 * size:
            raw = _from_hex(value)
            if len(raw) == size:
                return raw.hex() if any(raw) else ""
        if not value:
            return ""
        return None if strict else _read_odd_id(value.strip(), size)
    return "" if value is None else None


def id_of_bytes(raw: bytes, size: int, strict: bool) -> str | None:
    """The same for an id that is bytes (protobuf)."""
    if len(raw) == size:
        return raw.hex() if any(raw) else ""
    if not raw:
        return ""
    if strict:
        return None
    if len(raw) * 2 == size * 3:
        return _hex_read_as_base64(raw, size)
    if len(raw) == 2 * size:
        decoded = _from_hex(raw.decode("latin-1"))
        return (decoded.hex() if any(decoded) else "") if len(decoded) == size else None
    return None


def _read_odd_id(text: str, size: int) -> str | None:
    if text[:2] in ("0x", "0X"):
        text = text[2:]
    if len(text) == 2 * size:
        raw = _from_hex(text)
    elif len(text) == 3 * size:  # hex of what a base64 reader made of the hex text
        return _hex_read_as_base64(_from_hex(text), size)
    else:
        raw = from_base64(text) or b""
    if len(raw) != size:
        return None
    return raw.hex() if any(raw) else ""


def _hex_read_as_base64(raw: bytes, size: int) -> str | None:
    back = _from_hex(base64.b64encode(raw).decode("ascii"))
    if len(back) != size:
        return None
    return back.hex() if any(back) else ""


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def from_base64(text: str) -> bytes | None:
    """Bytes of base64 text in the standard or the URL alphabet, padded or not; None if it is none."""
    text = text.rstrip("=").translate(_URL_ALPHABET)
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


_URL_ALPHABET = str.maketrans("-_", "+/")


def read_time(value: Any, strict: bool) -> int | None:
    """Nanoseconds since the epoch; None if unset, not positive, past 64 bits or (lenient) unreadable."""
    if type(value) is str:
        if value.isdigit() and value.isascii():
            number = int(value) if len(value) <= 20 else 0
        elif strict and value:
            raise Unreadable("a time is not a decimal number")
        else:
            return time_of_iso(value)
    elif type(value) is int:
        number = value
    elif type(value) is float and math.isfinite(value):
        number = int(value)
    elif value is None or not strict:
        return None
    else:
        raise Unreadable("a time is neither a number nor a decimal string")
    return number if 0 < number <= MAX_TIME else None


_ISO = re.compile(
    r"\s*(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?\s*(?:([Zz])|([+-])(\d\d):?(\d\d))?\s*\Z", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def time_of_iso(text: str) -> int | None:
    """Nanoseconds of an ISO 8601 instant, exact to the ninth digit; without an offset it is UTC."""
    found = _ISO.match(text[:64])
    if not found:
        return None
    day, clock, fraction, _, sign, hours, minutes = found.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}+00:00")
    except ValueError:
        return None
    since = moment - _EPOCH
    if sign:
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        since = since - offset if sign == "+" else since + offset
    number = (since.days * 86400 + since.seconds) * 10**9 + int((fraction or "").ljust(9, "0"))
    return number if 0 < number <= MAX_TIME else None


def read_count(value: Any, strict: bool) -> int:
    """A count of dropped things: a number or a decimal string, 0 if absent."""
    if type(value) is int and value >= 0:
        return min(value, MAX_TIME)
    if value is None:
        return 0
    if type(value) is str and value.isdigit() and value.isascii() and len(value) <= 20:
        return int(value)
    if type(value) is float and value.is_integer() and 0 <= value <= MAX_TIME:
        return int(value)
    if strict:
        raise Unreadable("a count is not a whole number")
    return 0


def read_enum(value: Any, names: dict[Any, str], strict: bool) -> str:
    """The name of an enum that is written as number or name; an unknown number is the enum's zero."""
    if value is None:
        return names[0]
    if type(value) is int or type(value) is float or type(value) is str:
        found = names.get(value)
        if found is not None:
            return found
        if type(value) is str:
            if not strict:
                return _odd_enum(value, names)
            if not value.isdigit():
                raise Unreadable("an enum has an unknown name")
        return names[0]
    if strict:
        raise Unreadable("an enum is neither a number nor a name")
    return names[0]


def _odd_enum(text: str, names: dict[Any, str]) -> str:
    """`SpanKind.CLIENT`, `StatusCode.ERROR`, `client`, "3"."""
    if text.isdigit() and text.isascii() and len(text) < 4:
        return names.get(int(text), names[0])
    word = text.rpartition(".")[2].rpartition("_")[2].strip().lower()
    return word if word in names.values() else names[0]


def read_severity(value: Any, strict: bool) -> int:
    """0 to 24; names as `SEVERITY_NUMBER_INFO2`, `SeverityNumber.INFO2` and `<SeverityNumber.INFO: 9>` too."""
    if type(value) is int:
        return value if 0 <= value <= 24 else 0
    if type(value) is float and value.is_integer() and 0 <= value <= 24:
        return int(value)
    if type(value) is str:
        if value.isdigit() and value.isascii() and len(value) < 4:
            return read_severity(int(value), strict)
        word = value.strip("<>").partition(":")[0].rpartition(".")[2].rpartition("_")[2].strip().upper()
        if word in SEVERITY_OF:
            return SEVERITY_OF[word]
        if strict and word != "UNSPECIFIED":
            raise Unreadable("severityNumber has an unknown name")
    elif value is not None and strict:
        raise Unreadable("severityNumber is neither a number nor a name")
    return 0


def read_text(value: Any, what: str, strict: bool) -> str:
    """A string field; absent is "". In a lenient reading anything else is "" too."""
    if type(value) is str:
        return value
    if value is not None and strict:
        raise Unreadable(f"{what} is not a string")
    return ""
