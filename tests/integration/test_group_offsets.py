"""Asking what groups have committed, of a Kafka that has no coordinator for them yet."""

import subprocess
import sys
from pathlib import Path

from kstorm.local.servers import EmbeddedKafka

_ASKS = """
import sys, time
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.service.settings import Settings

admin = Admin(Settings(topology="", bootstrap_servers=sys.argv[1]))
deadline = time.monotonic() + 120
for group in (f"group-{number}" for number in range(1_000_000)):
    try:
        found = admin.group_offsets([ConsumerGroupTopicPartitions(group)], 20.0)[group].result()
    except KafkaException:
        assert time.monotonic() < deadline
    else:
        sys.exit(7 if not found.topic_partitions else 1)
"""


def test_a_kafka_without_a_coordinator_ends_nobody(tmp_path: Path) -> None:
    """On a new Kafka the topic of offsets is made when somebody first asks, and its broker says for a moment that it is not the
    coordinator, over which librdkafka takes the process along (see `Admin.group_offsets`). In the end there is an answer."""
    with EmbeddedKafka(tmp_path) as kafka:
        asking = subprocess.run([sys.executable, "-c", _ASKS, kafka.bootstrap], timeout=200)
    assert asking.returncode == 7
