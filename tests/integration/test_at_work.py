"""A topology of real processes works, according to `kstorm probe`, which sends nothing, and to its
spouts."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from kstorm.dev.servers import EmbeddedKafka
from tests.integration import topologies
from tests.integration.conftest import RunTopology
from tests.integration.engine import SINK_PARTITIONS, SOURCE_PARTITIONS, make_topics
from tests.kstorm_command import says


@pytest.mark.slow
def test_probe_of_a_running_topology_sends_no_message(
    run_topology: RunTopology,
    kafka: EmbeddedKafka,
    topic_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every task has a process, including those of the ackers."""
    monkeypatch.setenv("KSTORM_TOPOLOGY", "tests.integration.topologies:wordcount")
    monkeypatch.setenv("KSTORM_BOOTSTRAP_SERVERS", kafka.bootstrap)
    with run_topology("wordcount"):
        topology = topologies.wordcount()
        total = (
            sum(spec.num_tasks for spec in topology.components.values())
            + topology.config.acker_tasks
        )
        told = says(capsys, "probe")
        assert told.startswith(f"{topic_prefix}: all {total} tasks have a process")
        reader = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic_prefix})
        places = [
            TopicPartition(f"{topic_prefix}-in", number) for number in range(SOURCE_PARTITIONS)
        ]
        assert {reader.get_watermark_offsets(place, timeout=20) for place in places} == {(0, 0)}
        reader.close()


@pytest.mark.slow
def test_spout_reports_its_missing_topic(
    run_topology: RunTopology, kafka: EmbeddedKafka, topic_prefix: str
) -> None:
    """`/status` has the report while the spout is ready.

    When the topic exists, the spout reads it.
    """
    _, source, sink = topologies.names(topic_prefix)
    with run_topology("wordcount", anew=False) as engine:
        (spout, *_) = engine.processes.of("sentences")

        def unread() -> str:
            status = spout.status()
            return "?" if status is None else str(status["unread"])

        engine.until(
            lambda: f"topic '{source}' cannot be read" in unread(),
            60,
            "the spout says that it reads nothing",
        )
        make_topics(kafka.bootstrap, {source: SOURCE_PARTITIONS, sink: SINK_PARTITIONS})
        engine.until(lambda: not unread(), 60, "the spout reads")
        engine.produce(["the cow"])
        engine.await_total("sentences", "acked", 1)
