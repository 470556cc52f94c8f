# SPDX-License-Identifier: Apache-2.0
"""Which server, with which token: `sediment+https://HOST[:PORT][/PREFIX][?in_flight=8&patience=120&token_file=FILE]`.

https only, except on loopback, where http is taken. The token comes from a file or from the environment, never from
the address, which others can see. Everything wrong here is wrong usage: `UnknownSink`.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from ..base import SinkError, UnknownSink

DOOR = "/ingest/gateway"
WHO = "/v1/me"
#: Variables that may hold the token, the first that is set counts: ours, and those of Sediment's own senders.
TOKEN_FILE_VARIABLE = "SEDIMENT_OTEL_TOKEN_FILE"
TOKEN_VARIABLES = ("SEDIMENT_OTEL_TOKEN", "SEDIMENT_INGEST_TOKEN", "SEDIMENT_API_BEARER_TOKEN")

IN_FLIGHT, MOST_IN_FLIGHT = 8, 64
#: Seconds without any success before a sender gives up; and where its caller comes back with the facts itself.
PATIENCE, PATIENCE_OF_A_CALLER_THAT_RETRIES = 120.0, 10.0

_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
_EXAMPLE = "give it as sediment+https://sediment.example.com"


class Target(NamedTuple):
    """A server, and how hard to press it. `where` is for people."""

    scheme: str
    host: str
    port: int | None
    prefix: str
    token: str
    where: str
    in_flight: int
    patience: float


def target_of(url: str, environment: Mapping[str, str], *, patience: float = PATIENCE) -> Target:
    """What `url` names; `patience` is the default of its parameter. Raises `UnknownSink`, and `SinkError` where
    the token's file cannot be read."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UnknownSink("is no address", _cut(url), _EXAMPLE) from None
    scheme = parts.scheme.lower().removeprefix("sediment+")
    where = f"{scheme}://{_authority(host or '', port)}"
    if scheme not in ("http", "https") or not host or not host.isascii():
        raise UnknownSink("is no address of a Sediment server", _cut(url), _EXAMPLE)
    if parts.username is not None or parts.password is not None:
        raise UnknownSink(
            "an address must not hold a user or a token", where, f"put the token into {TOKEN_VARIABLES[0]} or a file"
        )
    if parts.fragment:
        raise UnknownSink("has a #fragment", where, _EXAMPLE)
    if scheme == "http" and not is_loopback(host):
        raise UnknownSink("http is taken on loopback only", where, "give it as sediment+https://…")
    asked = dict(parse_qsl(parts.query, keep_blank_values=True))
    number = _number(asked.pop("in_flight", str(IN_FLIGHT)), "in_flight", 1, MOST_IN_FLIGHT, where)
    patience = _number(asked.pop("patience", str(patience)), "patience", 0, 86_400, where)
    token_file = asked.pop("token_file", "")
    if asked:
        raise UnknownSink("has a parameter that is not known", where, "known are in_flight, patience and token_file")
    prefix = parts.path.rstrip("/").removesuffix(DOOR)
    return Target(scheme, host, port, prefix, token_of(environment, token_file, where), where, int(number), patience)


def token_of(environment: Mapping[str, str], token_file: str, where: str) -> str:
    """The token: of the file that is named, else of the environment."""
    path = token_file or environment.get(TOKEN_FILE_VARIABLE, "").strip()
    if path:
        try:
            with Path(path).expanduser().open("rb") as file:
                text = file.read(8192).decode("ascii").strip()
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "is no text of ASCII"
            what = f"the token file cannot be read ({reason})"
            raise SinkError(what, path, "check its name and permissions") from None
        return _checked(text, path)
    for name in TOKEN_VARIABLES:
        if text := environment.get(name, "").strip():
            return _checked(text, name)
    raise UnknownSink(
        "there is no token for it", where, f"set {TOKEN_VARIABLES[0]}, or name a file with --token-file or token_file="
    )


def _checked(text: str, where: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise UnknownSink("holds no token", where, "a token is one word of printable ASCII")
    return text


def is_loopback(host: str) -> bool:
    """Whether nothing leaves the machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _authority(host: str, port: int | None) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def _number(text: str, name: str, least: float, most: float, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise UnknownSink(f"{name} must be a number from {least:g} to {most:g}", where, f"correct {name}")
    return number


def _cut(url: str) -> str:
    """The address without what may be secret in it."""
    return url.split("?", 1)[0].rsplit("@", 1)[-1][:200]
