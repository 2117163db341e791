"""The guarantees of a spout, and its deployment id, on real servers and over restarts."""

from typing import Any

import pytest

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.kafka import LATEST_TIME, ProcessingGuarantee
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


@pytest.mark.slow
def test_at_most_once_loses_nothing_at_an_orderly_stop(
    topic: Topic, zookeeper: EmbeddedZooKeeper
) -> None:
    """Claimed messages that were not emitted are returned."""
    topic.create().produce(*numbers(0, 3000))
    seen: list[str] = []
    for _ in range(4):
        process = SpoutProcess(
            topic, zookeeper.connect, processing_guarantee=ProcessingGuarantee.AT_MOST_ONCE
        )
        process.emit(1)
        process.stop()
        seen += process.collector.values
        assert stored_offset(zookeeper.connect, topic)["offset"] == len(seen)
    assert seen == [str(number) for number in range(len(seen))]


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


@pytest.mark.slow
@pytest.mark.parametrize(("time", "over"), [(-2, ["0", "1", "2", "3", "4"]), (LATEST_TIME, [])])
def test_new_deployment_may_ignore_stored_offsets(
    topic: Topic, zookeeper: EmbeddedZooKeeper, time: int, over: list[str]
) -> None:
    """It starts at `start_offset_time`. A restarted process of any deployment resumes."""
    settings: dict[str, Any] = {"ignore_zk_offsets": True, "start_offset_time": time}
    topic.create().produce(*numbers(0, 3))
    first = SpoutProcess(topic, zookeeper.connect, "words-1")
    first.emit(3)
    first.ack(0, 1)
    first.stop()
    again = SpoutProcess(topic, zookeeper.connect, "words-1", **settings)
    again.emit(1)
    assert again.collector.values == ["2"]
    again.stop()
    topic.produce(*numbers(3, 5))
    another = SpoutProcess(topic, zookeeper.connect, "words-2", **settings)
    another.until(lambda: stored_offset(zookeeper.connect, topic)["topology"]["id"] == "words-2")
    topic.produce(b"new")
    another.emit(len(over) + 1)
    assert another.collector.values == [*over, "new"]
    another.stop()
    resumed = SpoutProcess(topic, zookeeper.connect, "words-2", **settings)
    resumed.emit(len(over) + 1)
    assert resumed.collector.values == [*over, "new"]
    resumed.ack(*resumed.collector.emitted)
    resumed.stop()
    assert stored_offset(zookeeper.connect, topic)["offset"] == 6
