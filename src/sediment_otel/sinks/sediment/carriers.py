# SPDX-License-Identifier: Apache-2.0
"""The two ways into a Sediment, as `deliver` uses them: a batch of facts in, a `Result` for each out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlencode

from ..base import Delivery, UnknownSink
from .courier import Courier, Result
from .target import PATIENCE, target_of

HTTP_SCHEMES = ("sediment+https", "sediment+http")
DATABASE_SCHEMES = ("sediment+postgresql", "sediment+postgres")


class Carrier(Protocol):
    """Brings facts somewhere. `where` is for people."""

    where: str

    def deliver(self, batch: Sequence[Delivery]) -> list[Result]:
        """One result per fact, in order."""

    def close(self) -> None:
        """End."""


class _OverHttp:
    def __init__(self, courier: Courier) -> None:
        self._courier = courier
        self.where = courier.target.where

    def deliver(self, batch: Sequence[Delivery]) -> list[Result]:
        return self._courier.deliver(batch)

    def close(self) -> None:
        self._courier.close()


def open_carrier(url: str, asked: Mapping[str, Any]) -> Carrier:
    """The carrier that `url` names. `asked` are parameters that stand behind those of the address. Raises
    `SinkError`."""
    scheme = url.partition("://")[0].lower()
    if scheme in HTTP_SCHEMES:
        if asked:
            url += ("&" if "?" in url else "?") + urlencode({name: str(value) for name, value in asked.items()})
        return _OverHttp(Courier(target_of(url, os.environ)))
    if scheme in DATABASE_SCHEMES:
        from .database import DatabaseCarrier

        patience = asked.get("patience", PATIENCE)
        others = ", ".join(f"--{name.replace('_', '-')}" for name in asked if name != "patience")
        if others:
            raise UnknownSink(f"a database takes no {others}", f"{scheme}://…", "leave it out")
        return DatabaseCarrier(url, patience=patience)
    raise UnknownSink(
        "is no running Sediment", f"{scheme}://…", "accepted are sediment+https://HOST and sediment+postgresql://…"
    )
