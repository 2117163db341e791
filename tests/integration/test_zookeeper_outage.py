"""ZooKeeper is away longer than the session: messages are processed, offsets wait, and `/readyz`
reports it. Nothing is doubled."""

import json
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.kafka import ProcessingGuarantee
from tests.chaos.proxy import Proxy
from tests.conftest import Eventually
from tests.integration.conftest import RunTopology
from tests.integration.engine import check_words, readyz
from tests.integration.kafka_topic import Topic
from tests.integration.spout_process import SpoutProcess, stored_offset


@pytest.fixture
def onlooker(zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """A client that reads the nodes."""
    client = KazooClient(zookeeper.connect)
    client.start(30)
    yield client
    client.stop()
    client.close()


@pytest.mark.slow
def test_spout_survives_its_session(
    topic: Topic,
    zookeeper: EmbeddedZooKeeper,
    way: Proxy,
    onlooker: KazooClient,
    eventually: Eventually,
) -> None:
    """It emits during the outage.

    Afterwards it takes the lock, stores the offset, and emits nothing twice.
    """
    lock = f"{topic.config().zk_path}/locks/partition_0"
    topic.create().produce(b"0", b"1", b"2")
    process = SpoutProcess(topic, way.address)
    process.emit(3)
    process.ack(0, 1, 2)
    process.until_stored(3)
    way.cut()
    eventually(
        lambda: onlooker.exists(lock) is None, 30
    )  # the session has expired, but the spout does not know
    topic.produce(b"3", b"4", b"5")
    process.emit(6)
    process.ack(3, 4, 5)
    process.until(lambda: process.spout.problem() is not None)
    assert f"ZooKeeper at {way.address} cannot be reached: offsets wait" in str(
        process.spout.problem()
    )
    process.until(lambda: not process.spout._offsets.flush(0))
    assert stored_offset(zookeeper.connect, topic)["offset"] == 3
    way.heal()
    process.until_stored(6, 60)
    assert stored_offset(zookeeper.connect, topic)["offset"] == 6
    assert process.spout.problem() is None
    assert onlooker.exists(lock) is not None
    topic.produce(b"6")
    process.emit(7)
    assert process.collector.values == ["0", "1", "2", "3", "4", "5", "6"]
    process.stop()


@pytest.mark.slow
def test_at_most_once_emits_nothing_during_an_outage(topic: Topic, way: Proxy) -> None:
    """It cannot store the offsets. After the outage each message is emitted once."""
    topic.create().produce(b"0", b"1", b"2")
    process = SpoutProcess(
        topic, way.address, processing_guarantee=ProcessingGuarantee.AT_MOST_ONCE
    )
    process.emit(3)
    way.cut()
    topic.produce(b"3", b"4", b"5")
    process.until(lambda: process.spout.problem() is not None)
    process.until(lambda: process.spout.metrics()["lag"] == 3)
    assert process.collector.values == ["0", "1", "2"]
    way.heal()
    process.until(lambda: len(process.collector.values) == 6, 60)
    assert process.collector.values == ["0", "1", "2", "3", "4", "5"]
    process.stop()


@pytest.mark.parametrize(
    "seconds", [pytest.param(0, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.long)]
)
def test_topology_continues_during_a_zookeeper_outage(
    run_topology: RunTopology, way: Proxy, onlooker: KazooClient, topic_prefix: str, seconds: float
) -> None:
    """All sentences of the outage are counted before its end.

    The offsets follow afterwards, and nothing was emitted twice.
    """
    before, amid = (
        [f"before {number}" for number in range(60)],
        [f"amid {number}" for number in range(60)],
    )
    settings = {"KSTORM_ZOOKEEPER": way.address}
    with run_topology("wordcount", settings=settings) as engine:
        engine.produce(before)
        engine.await_done("sentences")
        stored = engine.offsets()
        node = json.loads(onlooker.get(f"/kstorm/{topic_prefix}/partition_0")[0])
        assert node["topology"] == {"id": engine.processes.topology_id, "name": topic_prefix}
        spout = engine.worker("sentences-0")
        assert readyz(spout)[0] == 200
        way.cut()
        begun = time.monotonic()
        locks = f"/kstorm/{topic_prefix}/locks"
        engine.until(lambda: not onlooker.get_children(locks), 60, "the session has expired")
        engine.produce(amid)
        engine.await_total("sentences", "acked", 120)
        engine.until(lambda: readyz(spout)[0] == 503, 30, "the spout is not ready")
        assert f"ZooKeeper at {way.address} cannot be reached: offsets wait" in readyz(spout)[1]
        while time.monotonic() - begun < seconds:
            amid.append(f"amid {len(amid)}")
            engine.produce(amid[-1:])
            engine.await_total("sentences", "acked", len(before) + len(amid), 20)
            assert readyz(spout)[0] == 503
        assert len(engine.records()) == 2 * (len(before) + len(amid))
        assert engine.offsets() == stored
        way.heal()
        engine.await_done("sentences", 90)
        assert readyz(spout)[0] == 200
        assert engine.total("sentences", "emitted") == len(before) + len(amid)
        assert not check_words(engine, [*before, *amid])
