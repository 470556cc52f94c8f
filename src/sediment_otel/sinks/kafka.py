# SPDX-License-Identifier: Apache-2.0
"""`kafka://BROKER[,BROKER…]/TOPIC[?librdkafka.setting=value…]`: a message per fact, its key the session.

The producer is idempotent: what it sends again after a lost answer is there once. A receipt is given when the brokers
have the message. A fact that is larger than they take is `refused`; anything else they do not take within `patience`
raises, and the batch may then be given again (its facts may stand in the topic twice: their id tells). Facts of one
session stand in one partition, in their order. Settings go to librdkafka as they are: TLS, SASL, compression.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

from .base import DEFAULT_OPTIONS, Delivery, Receipt, SinkBase, SinkError, SinkOptions, UnknownSink
from .seen import Repeats

_EXAMPLE = "give it as kafka://broker:9092/topic"
_ADDRESS = re.compile(r"kafka://([^/?#@]+)/([^/?#]+)/?(?:\?([^#]*))?", re.IGNORECASE)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
#: Seconds in which the brokers must have taken a batch; less where the caller comes back with it itself.
PATIENCE, PATIENCE_OF_A_CALLER_THAT_RETRIES = 120.0, 10.0
MAX_MESSAGE_BYTES = 256 * 1024 * 1024


class KafkaSink(SinkBase):
    """Facts to one topic."""

    def __init__(self, url: str, options: SinkOptions = DEFAULT_OPTIONS) -> None:
        brokers, self._topic, asked = _parsed(url)
        self._where = f"kafka://{brokers}/{self._topic}"
        try:
            import confluent_kafka
        except ImportError:
            raise SinkError(
                "needs confluent-kafka", self._where, "install it: pip install 'sediment-otel[kafka]'"
            ) from None
        self._patience = PATIENCE_OF_A_CALLER_THAT_RETRIES if options.append else PATIENCE
        settings = {
            "bootstrap.servers": brokers,
            "client.id": "sediment-otel",
            "compression.type": "zstd",
            "linger.ms": "20",
            "message.max.bytes": str(MAX_MESSAGE_BYTES),
            "queue.buffering.max.kbytes": str(1024 * 1024),
            "delivery.timeout.ms": str(int(self._patience * 1000)),
            "partitioner": "murmur2_random",
            **asked,
            "enable.idempotence": "true",
        }
        self._too_large = {
            confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE,
            confluent_kafka.KafkaError.INVALID_MSG_SIZE,
        }
        self._error: Any = confluent_kafka.KafkaException
        try:
            # Its log lines would repeat addresses and settings on standard error; what fails is said by `write`.
            self._producer: Any = confluent_kafka.Producer({**settings, "log_level": "0"})
        except confluent_kafka.KafkaException as error:
            raise UnknownSink(
                f"has a setting that librdkafka does not take ({_name(error.args[0])})", self._where, _EXAMPLE
            ) from None
        self._repeats = Repeats(options.may_repeat)
        self._reasons: Counter[str] = Counter()
        self._closed = False

    def write(self, batch: Sequence[Delivery]) -> list[Receipt]:
        """Send the facts that are new, and wait until the brokers have them."""
        if self._closed:
            raise SinkError("is closed", self._where, "open the sink again")
        receipts, _ = self._repeats.sort_out(batch)
        failed: dict[int, Any] = {}
        done: set[int] = set()

        def report(index: int) -> Any:
            def arrived(error: Any, _message: Any) -> None:
                done.add(index)
                if error is not None:
                    failed[index] = error

            return arrived

        new = [index for index, receipt in enumerate(receipts) if receipt is Receipt.STORED]
        for index in new:
            self._produce(batch[index], report(index), index, failed, done)
        self._producer.flush(self._patience + 5)
        for index in new:
            if index not in done:
                failed[index] = None
        for index, error in failed.items():
            if error is not None and error.code() in self._too_large:
                receipts[index] = Receipt.REFUSED
                self.refused += 1
                self._reasons["too_large_for_target"] += 1
        stuck = [error for index, error in failed.items() if receipts[index] is Receipt.STORED]
        if stuck:
            for index in new:
                self._repeats.forget(batch[index : index + 1], [Receipt.STORED])
            self._producer.purge()
            self._producer.flush(1)
            reason = _name(stuck[0]) if stuck[0] is not None else "no answer"
            raise SinkError(f"did not take the facts ({reason})", self._where, "check brokers, topic and settings")
        return receipts

    def _produce(self, delivery: Delivery, report: Any, index: int, failed: dict[int, Any], done: set[int]) -> None:
        key = delivery.session_id.encode("utf-8", "surrogatepass")
        while True:
            try:
                self._producer.produce(self._topic, value=delivery.encoded, key=key, on_delivery=report)
                self._producer.poll(0)
                return
            except BufferError:  # the queue is full: the brokers are behind
                self._producer.poll(0.5)
            except self._error as error:
                failed[index] = error.args[0]
                done.add(index)
                return

    def remarks(self) -> list[str]:
        """Why facts are not in the topic."""
        return [
            f"{number} refused: {reason} (raise max.message.bytes of the topic)"
            for reason, number in sorted(self._reasons.items())
        ]

    def close(self) -> None:
        """Nothing is pending: every `write` waits for the brokers."""
        if not self._closed:
            self._closed = True
            self._repeats.close()
            self._producer.flush(1)


def _parsed(url: str) -> tuple[str, str, dict[str, str]]:
    found = _ADDRESS.fullmatch(url)
    if found is None or not _TOPIC.fullmatch(unquote(found[2])):
        raise UnknownSink("names no brokers and topic", "kafka://…", _EXAMPLE)
    settings = dict(parse_qsl(found[3] or "", keep_blank_values=True))
    return unquote(found[1]), unquote(found[2]), settings


def _name(error: Any) -> str:
    """librdkafka's name of an error. Its text may repeat settings."""
    return str(error.name()) if hasattr(error, "name") else type(error).__name__
