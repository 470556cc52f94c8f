# SPDX-License-Identifier: Apache-2.0
"""`sediment+postgresql://USER@HOST/DATABASE`: facts into the database of a Sediment, with all that they say.

Writes through the published `sediment-core` (AGPL-3.0-or-later), which the user has installed: the extra
`sediment-store`, Python 3.12 or newer. Nothing of it is imported anywhere else. The role must be the runtime role of
a database that `sediment db provision` made. A password may stand in the address or, better, in PGPASSWORD or
~/.pgpass, which the driver reads.

Facts keep their organisation, gateway_provider and raw. The package redacts once more, which changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ...retry import Backoff
from ..base import DEFAULT_OPTIONS, Delivery, Receipt, SinkBase, SinkError, SinkOptions, UnknownSink
from .answers import Fate
from .courier import Result
from .gateway import RECEIPTS, stuck_error
from .tally import Tally
from .target import PATIENCE, PATIENCE_OF_A_CALLER_THAT_RETRIES

_decode = msgspec.json.Decoder().decode


class DatabaseCarrier:
    """Facts to one database, one transaction each. Tried again while the database does not answer."""

    def __init__(
        self,
        url: str,
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        scheme, _, rest = url.partition("://")
        address = f"{scheme.lower().removeprefix('sediment+')}://{rest}"
        self.where = "postgresql://…"
        try:
            import sediment_core
            from sediment_core import postgres_engine
            from sqlalchemy import exc
        except ImportError:
            raise SinkError(
                "sediment-core is not installed",
                self.where,
                "install it with Python 3.12 or newer: pip install 'sediment-otel[sediment-store]' (AGPL-3.0-or-later)",
            ) from None
        try:
            address = address.replace("postgres://", "postgresql://", 1)
            self._engine: Any = postgres_engine.create_postgres_engine(address)
        except postgres_engine.DatabaseURLValidationError as error:
            raise UnknownSink(str(error), self.where, "give sediment+postgresql://USER@HOST/DATABASE") from None
        except postgres_engine.DatabaseOperationError as error:
            raise SinkError(str(error), self.where, "see the documentation of psycopg") from None
        self.where = f"postgresql://{postgres_engine.sanitized_database_target(address)}"
        self._store: Any = sediment_core.FactStore(self._engine)
        self._call: Any = sediment_core.InferenceCall
        self._conflict: Any = sediment_core.InferenceCallIdentityConflict
        self._gone: Any = (exc.OperationalError, exc.InterfaceError, exc.TimeoutError)
        self._failed: Any = exc.SQLAlchemyError
        self._patience, self._clock, self._wait = patience, clock, wait

    def deliver(self, batch: Sequence[Delivery]) -> list[Result]:
        """One result per fact. Where the database does not answer or refuses everything, the rest is not tried."""
        found: list[Result] = []
        for delivery in batch:
            if found and found[-1].fate in (Fate.UNDELIVERED, Fate.BLOCKED):
                found.append(found[-1]._replace(inference_call_id=delivery.inference_call_id, attempts=0))
            else:
                found.append(self._bring(delivery))
        return found

    def _bring(self, delivery: Delivery) -> Result:
        name, size = delivery.inference_call_id, len(delivery.encoded)
        try:
            call = self._call.model_validate(_decode(delivery.encoded))
        except (ValueError, RecursionError):
            return Result(name, Fate.REFUSED, "invalid_fact", size=size)
        backoff, began, attempts = Backoff(), self._clock(), 0
        while True:
            attempts += 1
            try:
                receipt = self._store.store_inference_call_receipt(call)
            except self._conflict:
                return Result(name, Fate.CONFLICT, "identity_conflict", attempts=attempts, size=size)
            except self._gone as error:
                delay = backoff.next()
                if self._clock() + delay - began > self._patience:
                    return Result(name, Fate.UNDELIVERED, _code(error), attempts=attempts, size=size)
                self._wait(delay)
                continue
            except self._failed as error:
                return Result(name, Fate.BLOCKED, _code(error), attempts=attempts, size=size)
            except RecursionError:
                return Result(name, Fate.REFUSED, "nested_too_deeply", attempts=attempts, size=size)
            if receipt.stored:
                return Result(name, Fate.STORED, attempts=attempts, size=size)
            if receipt.fact_id == name:
                return Result(name, Fate.DUPLICATE, attempts=attempts, size=size)
            return Result(name, Fate.COLLAPSED, "model_call_id_reused", receipt.fact_id, attempts=attempts, size=size)

    def close(self) -> None:
        """Let go of the connections."""
        self._engine.dispose()


class DatabaseSink(SinkBase):
    """The carrier as a sink."""

    def __init__(self, url: str, options: SinkOptions = DEFAULT_OPTIONS) -> None:
        self._carrier = DatabaseCarrier(url, patience=PATIENCE_OF_A_CALLER_THAT_RETRIES if options.append else PATIENCE)
        self._tally = Tally()
        self._closed = False

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        """Store. Raises `SinkError` where the database takes no fact."""
        if self._closed:
            raise SinkError("is closed", self._carrier.where, "open the sink again")
        results = self._carrier.deliver(batch)
        stuck = next((result for result in results if result.fate not in RECEIPTS), None)
        if stuck is not None:
            raise stuck_error(stuck, self._carrier.where)
        self._tally.add(results)
        self.refused += sum(RECEIPTS[result.fate] is Receipt.REFUSED for result in results)
        return [RECEIPTS[result.fate] for result in results]

    def remarks(self) -> list[str]:
        """Why facts are not in the database."""
        return self._tally.lines()

    def close(self) -> None:
        """Nothing is pending."""
        self._closed = True
        self._carrier.close()


def _code(error: Any) -> str:
    """The SQLSTATE, or what kind of error it is. Never the text: it may hold a row."""
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    return f"sqlstate_{state}" if state else f"database_{type(error).__name__}"
