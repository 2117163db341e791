"""Kafka in memory, for tests of topologies with a `KafkaSpout` or a `KafkaBolt`: no broker, no
ZooKeeper.

    kafka = FakeKafka({"lines": 2, "words": 1})
    kafka.produce("lines", "the cow")
    with kafka.cluster(topology) as cluster:
        cluster.run_until_idle()
    assert [record.value() for record in kafka.records("words")] == [b"1", b"1"]

See docs/guides/testing.md for more.
"""

from kstorm.testing.external_topics import PermanentRefusal
from kstorm.testing.kafka.broker import FakeRecord
from kstorm.testing.kafka.fake import FakeKafka, KafkaCluster

__all__ = ["FakeKafka", "FakeRecord", "KafkaCluster", "PermanentRefusal"]
