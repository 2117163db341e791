"""A broker accepts some broken batches of a client. A spout reads or skips each of them.

The broker rejects the batches that would end a process through librdkafka.
"""

import random

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kstorm.dev.servers import EmbeddedKafka
from tests.broken_batches import CODECS, broken, good_batch, read_past_all
from tests.kafka_wire import offer


@pytest.mark.parametrize("codec", CODECS)
def test_broken_batch_does_not_block_later_records(
    kafka: EmbeddedKafka, topic_prefix: str, codec: str
) -> None:
    topic, chance = f"{topic_prefix}.{codec}", random.Random(codec)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    whole = good_batch(kafka.bootstrap, topic, codec)
    taken: list[int] = []
    while len(taken) < _TAKEN:
        error, offset = offer(kafka.bootstrap, topic, 0, broken(whole, chance))
        if not error:
            taken.append(offset)
    assert not offer(kafka.bootstrap, topic, 0, whole)[0]
    came, passed = read_past_all(kafka.bootstrap, topic)
    away = {offset for start, end in passed for offset in range(start, end)}
    assert came | away == set(range(max(came) + 1))
    assert not came & away
    assert max(came) - 1 in came, "the good batch"


_TAKEN = 12
"""The number of accepted broken batches, out of some hundred."""
