# SPDX-License-Identifier: Apache-2.0
"""Facts to Kafka, against the mock cluster that librdkafka carries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from place_facts import deliveries, fact

from sediment_otel.sinks import Receipt, SinkError, open_sink
from sediment_otel.sinks.base import UnknownSink

kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")


@pytest.fixture
def brokers() -> Iterator[str]:
    """The mock cluster lives in the client that asks for it; others reach it over loopback."""
    keeper = kafka.Producer({"test.mock.num.brokers": "1", "bootstrap.servers": "mock", "log_level": "0"})
    (broker,) = keeper.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    keeper.flush(1)


def messages(brokers: str, topic: str, number: int) -> list[Any]:
    consumer = kafka.Consumer(
        {"bootstrap.servers": brokers, "group.id": "reader", "auto.offset.reset": "earliest", "log_level": "0"}
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    for _ in range(200):
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
        if len(found) == number:
            break
    consumer.close()
    return found


def test_a_message_is_the_fact_and_its_key_the_session(brokers: str) -> None:
    facts = [fact(number) for number in range(6)]
    with open_sink(f"kafka://{brokers}/facts") as sink:
        assert sink.write(deliveries(*facts)) == [Receipt.STORED] * 6
    found = messages(brokers, "facts", 6)
    assert {message.value() for message in found} == {one.to_json() for one in facts}
    for one in facts:
        (message,) = (message for message in found if message.value() == one.to_json())
        assert message.key() == one.session_id.encode()


def test_facts_of_a_session_stand_in_one_partition_in_their_order(brokers: str) -> None:
    facts = [fact(number, session_id=f"s-{number % 4}") for number in range(40)]
    with open_sink(f"kafka://{brokers}/ordered") as sink:
        sink.write(deliveries(*facts))
    found = messages(brokers, "ordered", 40)
    assert len({message.partition() for message in found}) > 1
    for session in {one.session_id for one in facts}:
        mine = [message for message in found if message.key() == session.encode()]
        assert len({message.partition() for message in mine}) == 1
        mine.sort(key=lambda message: message.offset())
        assert [m.value() for m in mine] == [one.to_json() for one in facts if one.session_id == session]


def test_repeats_are_told_apart_and_not_sent(brokers: str) -> None:
    one = fact(1)
    with open_sink(f"kafka://{brokers}/repeats") as sink:
        assert sink.write(deliveries(one, one, fact(1, model="x"))) == [
            Receipt.STORED,
            Receipt.DUPLICATE,
            Receipt.CONFLICT,
        ]
    assert len(messages(brokers, "repeats", 1)) == 1


def test_a_fact_that_is_too_large_is_refused_alone(brokers: str) -> None:
    large = fact(2, raw={"filler": "x" * 20_000})
    with open_sink(f"kafka://{brokers}/small?message.max.bytes=10000") as sink:
        assert sink.write(deliveries(fact(1), large, fact(3))) == [Receipt.STORED, Receipt.REFUSED, Receipt.STORED]
        assert sink.refused == 1  # type: ignore[attr-defined]
        assert "too_large_for_target" in sink.remarks()[0]  # type: ignore[attr-defined]
    assert len(messages(brokers, "small", 2)) == 2


def test_brokers_that_do_not_answer_are_an_error_and_the_batch_may_come_again() -> None:
    sink = open_sink("kafka://127.0.0.1:1/facts?delivery.timeout.ms=1500&linger.ms=0&request.timeout.ms=1000")
    sink._patience = 1.0  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(SinkError, match="did not take the facts"):
            sink.write(deliveries(fact(1)))
    sink.close()


@pytest.mark.parametrize(
    "url",
    [
        "kafka://",
        "kafka://broker",
        "kafka://broker/",
        "kafka:///topic",
        "kafka://user:secret@broker/topic",
        "kafka://broker/topic/more",
        "kafka://broker/to%20pic",
        "kafka://broker/topic?no.such.setting=secret",
    ],
)
def test_an_address_that_names_nothing_is_wrong_usage(url: str) -> None:
    with pytest.raises(UnknownSink) as caught:
        open_sink(url)
    assert "secret" not in str(caught.value)
