"""Batches with false headers: librdkafka and the readers around it skip them.

The fake broker accepts every batch.
"""

import random
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kstorm.kafka.ports import Partition
from kstorm.runtime.kafka.fetch_limits import OWN_TOPICS
from kstorm.runtime.kafka.undecodable import probe_batch
from tests.broken_batches import good_batch, read_past_all
from tests.integration.undecodable_batch import zstd_bomb
from tests.kafka_wire import batch, offer, parts

P0 = Partition("t", 0)


@pytest.fixture
def broker() -> Iterator[str]:
    client = Producer({"test.mock.num.brokers": 1, "log_level": 3})
    # the request for the topic creates it
    (found,) = client.list_topics("t", timeout=10).brokers.values()
    yield f"{found.host}:{found.port}"
    client.flush(0)


@pytest.mark.parametrize("codec", ["snappy", "zstd"])
def test_no_batch_holds_up_what_is_behind_it(broker: str, codec: str) -> None:
    """Its records are read, or its offsets are skipped.

    Kafka's own broker refuses batches with other faults: see
    `tests/integration/test_broken_batches.py`.
    """
    whole, chance = good_batch(broker, codec, codec), random.Random(codec)
    number, records, payload = parts(whole)
    others = [batch(other, records, payload) for other in (5, 6, 7)]
    cut = [batch(number, records, payload[: chance.randrange(len(payload))]) for _ in range(3)]
    noise = [batch(number, records, chance.randbytes(len(payload)))]
    counts = [batch(number, count, payload) for count in (2, 1000)]
    for each in (*others, *cut, *noise, *counts, zstd_bomb(101_000_000), whole):
        assert offer(broker, "t", 0, each)[0] == 0
    came, passed = read_past_all(broker, "t")
    assert len(passed) == len([*others, *cut, *noise]) + 1
    assert max(came) - 1 in came, "the good batch"
    assert not any(start <= offset < end for offset in came for start, end in passed)


def test_readers_of_own_topics_open_little(broker: str) -> None:
    """librdkafka limits zstd. The batches fit in a source, whose limit is 100 MB."""
    offer(broker, "t", 0, zstd_bomb(60_000_000))
    offer(broker, "t", 1, zstd_bomb(20_000_000))
    plain = {"bootstrap.servers": broker, "group.id": "fuzz"}
    assert probe_batch({**plain, **OWN_TOPICS}, P0, 0, threading.Event()) is not None
    assert probe_batch(plain, P0, 0, threading.Event()) is None
    assert probe_batch({**plain, **OWN_TOPICS}, Partition("t", 1), 0, threading.Event()) is None
