# SPDX-License-Identifier: Apache-2.0
"""The sink `otlp+http://HOST:PORT[/PATH]` (and `otlp+https://`): facts as spans of the current conventions.

A receipt is given when the server has answered for the span. A request that it does not take (400, 413 and the like)
is halved until the spans at fault stand alone; those are `refused`. Where no span gets through (no answer for
`patience` seconds, wrong credentials or path) `write` raises; what the server took by then comes back as `duplicate`
when the batch is given again. Of an answer that leaves out spans without naming them only the number is known: it
counts as refused, and is said in `remarks`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..otlp_http import BATCH_BYTES, BATCH_SPANS, Client, Refused, WrongTarget, endpoint, headers_of
from .base import DEFAULT_OPTIONS, Receipt, SinkOptions, UnknownSink
from .remote import shown
from .sediment.target import PATIENCE, PATIENCE_OF_A_CALLER_THAT_RETRIES
from .spans import Finish, Restored, SpanSink, as_it_is

PREFIX = "otlp+"


class OtlpSink(SpanSink):
    """Spans to one endpoint. `client` stands in for the one that the address names."""

    def __init__(
        self,
        url: str,
        options: SinkOptions = DEFAULT_OPTIONS,
        *,
        finish: Finish = as_it_is,
        client: Client | None = None,
    ) -> None:
        patience = PATIENCE_OF_A_CALLER_THAT_RETRIES if options.append else PATIENCE
        self._client = client or Client(_endpoint(url), headers_of(os.environ), patience=patience)
        super().__init__(self._client.where, options, finish)

    def _hand_on(self, spans: list[Restored]) -> Iterator[tuple[int, Receipt]]:
        for some in _sliced(spans):
            yield from self._post(some)

    def _post(self, spans: list[Restored]) -> Iterator[tuple[int, Receipt]]:
        try:
            rejected = self._client.send([one.span for one in spans])
        except Refused as error:
            if len(spans) == 1:
                yield spans[0].index, self._refuse(error.what)
                return
            half = len(spans) // 2
            yield from self._post(spans[:half])
            yield from self._post(spans[half:])
            return
        receipt = Receipt.STORED
        if rejected:
            refused = self._refuse("rejected by the server (partial success)", min(rejected, len(spans)))
            receipt = refused if rejected >= len(spans) else receipt
        yield from ((one.index, receipt) for one in spans)


def _sliced(spans: list[Restored]) -> Iterator[list[Restored]]:
    some: list[Restored] = []
    size = 0
    for one in spans:
        if some and (len(some) >= BATCH_SPANS or size + len(one.delivery.encoded) > BATCH_BYTES):
            yield some
            some, size = [], 0
        some.append(one)
        size += len(one.delivery.encoded)
    if some:
        yield some


def _endpoint(url: str) -> str:
    try:
        return endpoint(url[len(PREFIX) :] if url.lower().startswith(PREFIX) else url)
    except WrongTarget as error:
        raise UnknownSink("takes no OTLP/HTTP", shown(url), str(error)) from None
