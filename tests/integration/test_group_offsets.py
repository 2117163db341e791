"""Reading committed offsets from a Kafka without a group coordinator."""

import subprocess
import sys
from pathlib import Path

import pytest

from kstorm.dev.servers import EmbeddedKafka

_ASKS = """
import sys, time
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.base.settings import Settings

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


@pytest.mark.slow
def test_missing_coordinator_does_not_end_the_process(tmp_path: Path) -> None:
    """A new Kafka creates the offsets topic at the first request. For a moment its broker is not
    the coordinator.

    librdkafka aborts the process in this case (see `Admin.group_offsets`). Finally there is an
    answer.
    """
    with EmbeddedKafka(tmp_path) as kafka:
        asking = subprocess.run([sys.executable, "-c", _ASKS, kafka.bootstrap], timeout=200)
    assert asking.returncode == 7
