"""A change of the frame format and back, while the topology runs (docs/guides/upgrading.md)."""

from collections import Counter
from itertools import groupby

import pytest
from confluent_kafka import Consumer, TopicPartition
from msgspec import msgpack

from kstorm.topology.topology import ACKER_COMPONENT
from tests.integration.conftest import RunTopology
from tests.integration.engine import Engine, check_words
from tests.integration.test_engine import LONG_SECS, sentences

FORMAT = "KSTORM_TEST_FRAME_FORMAT"


@pytest.mark.parametrize(
    "guarantee",
    [
        pytest.param("at_least_once", marks=pytest.mark.slow),
        pytest.param("exactly_once", marks=pytest.mark.long),
    ],
)
def test_counts_are_exact_while_the_frame_format_changes(
    run_topology: RunTopology, guarantee: str
) -> None:
    """One process after the other is replaced under load, so both formats are in use at once."""
    settings = {"KSTORM_TEST_GUARANTEE": guarantee, FORMAT: "1"}
    text: list[str] = []
    with run_topology("wordcount", timeout_secs=LONG_SECS, settings=settings) as engine:
        for form in ("2", "1"):
            for component in ("count", "sentences", ACKER_COMPONENT, "split", "sink"):
                text += (more := sentences(500))
                engine.produce(more)
                replace(engine, component, form)
            text += more
            engine.produce(more)
            engine.await_done("sentences")
        assert check_words(engine, text) == Counter()
        assert set(map(tuple, formats_to_count(engine))) == {(1, 2, 1)}


def replace(engine: Engine, component: str, form: str) -> None:
    """Stop a component's process, and start one that writes another format."""
    processes = engine.processes
    (old,) = processes.of(component)
    processes.environment_of = {**processes.environment_of, old.name: {FORMAT: form}}
    processes.scale(component, 0)
    assert old.process.returncode == 0
    processes.scale(component, 1)
    processes.wait_ready(60)


def formats_to_count(engine: Engine) -> list[list[int]]:
    """Return the formats in each partition of the count's input, in order and without repeats."""
    topic = engine.processes.topology.bolt_topic("count")
    found = []
    with Consumer({"bootstrap.servers": engine.bootstrap, "group.id": "audit"}) as consumer:
        for partition in range(engine.processes.topology.topics()[topic]):
            place = TopicPartition(topic, partition, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=30)
            consumer.assign([place])
            seen: list[int] = []
            while consumer.position([place])[0].offset < end:
                records = consumer.consume(5000, 0.2)
                seen += [msgpack.decode(record.value() or b"")[0] for record in records]
            found.append([form for form, _ in groupby(seen)])
    return found
