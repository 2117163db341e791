"""A client with a proxy's address reaches Kafka only through the proxy, because the broker
advertises that address too."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from kstorm.dev.servers import EmbeddedKafka
from tests.chaos.proxy import Proxy
from tests.integration.engine import make_topics

TOPIC = "detour"


@pytest.mark.slow
def test_cut_proxy_affects_only_its_client(tmp_path: Path) -> None:
    """Its messages arrive once after the network is healed."""
    with (
        Proxy() as proxy,
        EmbeddedKafka(tmp_path, quick_start=True, detours={"DETOUR": proxy.address}) as kafka,
    ):
        proxy.target = kafka.listener_port("DETOUR")
        make_topics(kafka.bootstrap, {TOPIC: 1})
        near = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": "near",
                "auto.offset.reset": "earliest",
            }
        )
        far = Producer(
            {"bootstrap.servers": proxy.address, "enable.idempotence": True, "log_level": 0}
        )
        near.subscribe([TOPIC])
        far.produce(TOPIC, b"before")
        assert far.flush(30) == 0
        proxy.cut()
        far.produce(TOPIC, b"amid")
        assert far.flush(1) == 1
        with pytest.raises(KafkaException):
            Producer({"bootstrap.servers": proxy.address, "log_level": 0}).list_topics(timeout=1)
        assert near.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
        proxy.heal()
        assert far.flush(30) == 0
        came: list[bytes | None] = []
        deadline = time.monotonic() + 30
        while len(came) < 2 and time.monotonic() < deadline:
            came += [message.value() for message in near.consume(10, 0.5)]
        near.close()
        assert came == [b"before", b"amid"]
