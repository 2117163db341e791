"""What a broker takes of a stranger's broken batches: a spout reads it, or passes it over. (That over which librdkafka would end
the process, it refuses.)"""

import random

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kstorm.local.servers import EmbeddedKafka
from tests.broken_batches import CODECS, broken, good_batch, read_past_all
from tests.kafka_wire import offer


@pytest.mark.parametrize("codec", CODECS)
def test_nothing_that_is_broken_holds_up_what_is_behind_it(
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
"""So many of the broken ones, of some hundred."""
