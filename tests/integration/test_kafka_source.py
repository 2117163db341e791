"""The reader of a source topic on a real broker, without the rest of the engine."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kstorm.dev.servers import EmbeddedKafka
from kstorm.errors import ConfigError
from kstorm.kafka.ports import SourceFault
from kstorm.runtime.kafka.source import KafkaSource
from tests.integration.kafka_topic import Topic, read


def answer(ask: Callable[[], Any], timeout: float = 20.0) -> Any:
    """Call `ask` until it has an answer."""
    deadline = time.monotonic() + timeout
    while (found := ask()) is None:
        assert time.monotonic() < deadline, "no answer"
        time.sleep(0.005)
    return found


def fault(source: KafkaSource, timeout: float = 20.0) -> SourceFault:
    def ask() -> SourceFault | None:
        source.read(1)
        return next(iter(source.faults()), None)

    found: SourceFault = answer(ask, timeout)
    return found


@pytest.mark.slow
def test_new_partition_starts_while_others_are_idle(topic: Topic) -> None:
    """The broker delays its answer for the idle one. The new one must not wait long for it."""
    topic.create(2)
    topic.produce(b"here", partition=1)
    source = topic.source()
    source.assign(topic.at(0), 0)
    assert read(source, 1, timeout=1) == []
    begun = time.monotonic()
    source.assign(topic.at(1), 0)
    assert read(source, 1) == [(0, b"here")]
    assert time.monotonic() - begun < 5


@pytest.mark.slow
def test_unknown_property_is_named(topic: Topic) -> None:
    """The error has the spout and the topic."""
    with pytest.raises(
        ConfigError, match=r"cannot read .*'no\.such\.thing'|No such configuration property"
    ):
        topic.source(kafka_properties={"no.such.thing": "1"})


@pytest.mark.slow
def test_reading_continues_after_an_outage(tmp_path: Path) -> None:
    """The outage is reported, and closing during it does not hang.

    Afterwards no message is missing or doubled.
    """
    with EmbeddedKafka(tmp_path, heap="256m", quick_start=True) as kafka:
        topic = Topic("outage", kafka).create()
        topic.produce(b"before")
        source = topic.source()
        source.assign(topic.at(), 0)
        assert read(source, 1) == [(0, b"before")]
        kafka.stop()
        assert kafka.bootstrap in fault(source).reason
        other = KafkaSource(topic.config(), topic.client_config)
        other.refresh(topic.name)
        begun = time.monotonic()
        other.close()
        assert time.monotonic() - begun < 20
        kafka.start()
        topic.produce(b"after")
        found = read(source, 1, timeout=60)
        assert found == [(1, b"after")], source.faults()
        topic.close()


def test_open_transaction_is_reported_until_it_ends(topic: Topic) -> None:
    """The producer is not kstorm's. Messages after its transaction are not read."""
    topic.create()
    stuck = Producer({**topic.client_config, "transactional.id": topic.name})
    stuck.init_transactions(30)
    stuck.begin_transaction()
    stuck.produce(topic.name, b"x", partition=0)
    assert stuck.flush(30) == 0
    source = topic.source()
    assert list(source.open_transactions) == []
    source.refresh(topic.name)
    answer(lambda: source.partitions(topic.name) or None)
    source.assign(topic.at(0), 0)

    def said() -> str:
        source.read(1)
        return "".join(each.problem() for each in source.open_transactions)

    assert f"topic {topic.name} partition 0: a transaction has been open" in answer(
        lambda: said() or None, 60
    )
    stuck.abort_transaction(30)
    answer(lambda: None if said() else True, 60)
