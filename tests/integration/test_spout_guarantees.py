"""The guarantees of a spout, and its deployment id, on real servers and over restarts."""

from typing import Any

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.kafka import ProcessingGuarantee
from tests.integration.kafka_topic import Topic
from tests.integration.spout_process import SpoutProcess, stored_offset


def numbers(first: int, end: int) -> list[bytes]:
    """Return messages that contain their offsets."""
    return [b"%d" % number for number in range(first, end)]


def test_at_most_once_stores_the_offset_before_the_emit(
    topic: Topic, zookeeper: EmbeddedZooKeeper
) -> None:
    """Emitted messages are always below the offset in ZooKeeper.

    So the successor of a killed process repeats none.
    """
    topic.create().produce(*numbers(0, 2000))
    settings: dict[str, Any] = {
        "processing_guarantee": ProcessingGuarantee.AT_MOST_ONCE,
        "state_update_interval_ms": 3_600_000,
    }
    first = SpoutProcess(topic, zookeeper.connect, **settings)
    for _ in range(3):
        emitted = len(first.collector.values)
        first.emit(emitted + 1)
        assert stored_offset(zookeeper.connect, topic)["offset"] >= len(first.collector.values)
    assert first.collector.emitted == {}
    first.stores.close()  # like kill -9, after ZooKeeper has noticed
    stored = stored_offset(zookeeper.connect, topic)["offset"]
    second = SpoutProcess(topic, zookeeper.connect, **settings)
    topic.produce(b"last")
    second.until(lambda: "last" in second.collector.values)
    second.stop()
    assert second.collector.values[:-1] == [str(number) for number in range(stored, 2000)]
    assert not set(first.collector.values) & set(second.collector.values)


def test_without_a_guarantee_the_offset_moves_by_time(
    topic: Topic, zookeeper: EmbeddedZooKeeper
) -> None:
    """No ack is needed."""
    topic.create().produce(*numbers(0, 10))
    process = SpoutProcess(
        topic, zookeeper.connect, processing_guarantee=ProcessingGuarantee.NO_GUARANTEE
    )
    process.emit(10)
    process.until_stored(10)
    assert stored_offset(zookeeper.connect, topic)["offset"] == 10
    assert process.collector.emitted == {}
    process.stop()
