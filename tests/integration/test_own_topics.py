"""Services with a Kafka in their release create the source and sink topics."""

import pytest
from confluent_kafka.admin import AdminClient

from kstorm.dev.servers import EmbeddedKafka
from tests.integration.conftest import RunTopology
from tests.integration.engine import SOURCE_PARTITIONS


@pytest.mark.slow
def test_processes_create_source_and_sink_topics(
    run_topology: RunTopology, kafka: EmbeddedKafka
) -> None:
    """They start at the same time, and there is work at once."""
    settings = {"KSTORM_END_PARTITIONS": str(SOURCE_PARTITIONS)}
    with run_topology("wordcount", settings=settings, anew=False) as engine:
        topics = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10).topics
        assert [len(topics[end].partitions) for end in (engine.source, engine.sink)] == [
            SOURCE_PARTITIONS,
            SOURCE_PARTITIONS,
        ]
        text = ["one two three"] * 50
        engine.produce(text)
        engine.until(lambda: engine.total("sentences", "acked") == len(text), 60, "all is acked")
        assert len(engine.records(partitions=SOURCE_PARTITIONS)) >= 3 * len(text)
